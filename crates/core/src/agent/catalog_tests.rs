use super::*;
use crate::agent::PROMPT_ARGUMENT_LIMIT;

/// The command line of one attempt, joined.
fn line(agent: &str, options: &AgentOptions, session: Option<&str>) -> String {
    let command = find(agent).unwrap().command(options).unwrap();
    command.argv("PROMPT", "/prompt", session).unwrap().join(" ")
}

fn options() -> AgentOptions {
    AgentOptions::default()
}

#[test]
fn every_agent_is_started_unattended_with_its_prompt_on_stdin() {
    // req 20, req 21, fault C6
    for (agent, expected) in [
        ("claude", "claude --output-format stream-json --verbose --dangerously-skip-permissions -p"),
        ("codex", "codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -"),
        ("gemini", "gemini -o stream-json --yolo"),
        ("opencode", "opencode run --format json --auto"),
        ("qwen", "qwen --output-format stream-json --yolo"),
        ("copilot", "copilot --output-format json -s --allow-all-tools"),
        ("pi", "pi --mode json"),
    ] {
        assert_eq!(line(agent, &options(), None), expected);
        let command = find(agent).unwrap().command(&options()).unwrap();
        assert_eq!((command.prompt, &command.model), (PromptDelivery::Stdin, &None), "{agent}");
        assert!(command.can_continue() && !command.provider.is_empty(), "{agent}");
    }
    assert!(PREFERRED.iter().all(|name| find(name).is_some()));
}

#[test]
fn what_is_asked_for_stands_where_the_cli_wants_it() {
    // req 22: a limit of turns only when one is set. req 150: a session is continued by its id.
    let all = AgentOptions { model: Some("m1".into()), extra: vec!["--x".into(), "y z".into()], ..options() };
    for (agent, expected) in [
        (
            "claude",
            "claude --output-format stream-json --verbose --dangerously-skip-permissions --model m1 --resume ID --x y z -p",
        ),
        (
            "codex",
            "codex exec resume ID --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m m1 --x y z -",
        ),
        ("gemini", "gemini -o stream-json --yolo -m m1 --resume ID --x y z"),
        ("opencode", "opencode run --format json --auto --model m1 --session ID --x y z"),
        ("qwen", "qwen --output-format stream-json --yolo --model m1 --resume ID --x y z"),
        ("copilot", "copilot --output-format json -s --allow-all-tools --model m1 --resume=ID --x y z"),
        ("pi", "pi --mode json --model m1 --session ID --x y z"),
    ] {
        assert_eq!(line(agent, &all, Some("ID")), expected);
    }

    for (agent, turns, expected) in [
        ("claude", None, Ok(None)),
        ("claude", Some(0), Ok(None)),
        ("claude", Some(7), Ok(Some("--max-turns 7"))),
        ("qwen", Some(7), Ok(Some("--max-session-turns 7"))),
        ("codex", Some(7), Err(AgentDefinitionError::NoMaxTurns { agent: "codex".into() })),
    ] {
        let command = find(agent).unwrap().command(&AgentOptions { max_turns: turns, ..options() });
        let has = command.map(|command| command.argv.join(" ")).map(|line| {
            let at = line.find("--max");
            at.map(|at| line[at..].split(' ').take(2).collect::<Vec<_>>().join(" "))
        });
        assert_eq!(has, expected.map(|args| args.map(str::to_owned)), "{agent} {turns:?}");
    }
}

#[test]
fn a_prompt_may_be_an_argument_the_last_one() {
    // req 21: `--dangerously-skip-permissions -p <prompt>`. fault I1: never a long one.
    let by_argument = AgentOptions {
        prompt_by: Some(PromptDelivery::Argument),
        extra: vec!["--x".into()],
        max_turns: None,
        ..options()
    };
    assert_eq!(
        line("claude", &by_argument, None),
        "claude --output-format stream-json --verbose --dangerously-skip-permissions --x -p PROMPT"
    );
    for agent in builtin() {
        let command = agent.command(&by_argument).unwrap();
        let argv = command.argv("a\nprompt {prompt}", "/f", None).unwrap();
        assert_eq!(argv.last().map(String::as_str), Some("a\nprompt {prompt}"), "{}", agent.name);
        assert!(command.argv(&"x".repeat(PROMPT_ARGUMENT_LIMIT + 1), "/f", None).is_err(), "{}", agent.name);
    }
}

#[test]
fn root_is_not_without_consent() {
    let claude = find("claude").unwrap();
    let as_root = AgentOptions { is_root: true, ..options() };
    let refusal = claude.command(&as_root).unwrap_err();
    assert_eq!(refusal, AgentDefinitionError::Root { agent: "claude".into() });
    assert!(refusal.needs_person() && refusal.hint().contains("allow_root: true"));
    let has_sandbox =
        |options: &AgentOptions| claude.command(options).unwrap().env.contains_key("IS_SANDBOX");
    assert!(has_sandbox(&AgentOptions { allow_root: true, ..as_root.clone() }));
    // Nothing is claimed about the machine where nothing has to be.
    assert!(!has_sandbox(&AgentOptions { allow_root: true, ..options() }));
    let asking = AgentOptions { permissions: Permissions::OwnSettings, ..as_root.clone() };
    assert!(!has_sandbox(&asking));
    assert!(!line("claude", &asking, None).contains("dangerously"));
    let chosen = Permissions::Arguments(vec!["--permission-mode".into(), "acceptEdits".into()]);
    let chosen = line("claude", &AgentOptions { permissions: chosen, ..as_root.clone() }, None);
    assert!(chosen.contains("--permission-mode acceptEdits") && !chosen.contains("dangerously"), "{chosen}");
    assert!(find("codex").unwrap().command(&as_root).is_ok());
}

#[test]
fn an_agent_of_the_users_own_is_no_different() {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mine = AgentDefinition {
        name: "mine".into(),
        command: text(&["my-agent", "--yolo"]),
        resume: text(&["--resume", "{session}"]),
        ..AgentDefinition::default()
    };
    let wanted = AgentOptions { extra: text(&["-v"]), ..options() };
    let command = mine.command(&wanted).unwrap();
    assert_eq!(
        (command.prompt, command.format, &*command.provider),
        (PromptDelivery::Stdin, Format::Text, "mine")
    );
    assert_eq!(command.argv("P", "/f", None).unwrap(), ["my-agent", "--yolo", "-v"]);
    assert_eq!(command.argv("P", "/f", Some("s")).unwrap(), ["my-agent", "--yolo", "--resume", "s", "-v"]);
    assert_eq!(
        mine.command(&AgentOptions { model: Some("m".into()), ..options() }),
        Err(AgentDefinitionError::NoModel { agent: "mine".into() })
    );
    let by_file = AgentDefinition { command: text(&["my-agent", "-f", "{prompt_file}"]), ..mine.clone() };
    let command = by_file.command(&wanted).unwrap();
    assert_eq!(
        (command.prompt, command.argv("P", "/f", None).unwrap()),
        (PromptDelivery::File, text(&["my-agent", "-f", "/f", "-v"]))
    );
    let by_argument = AgentDefinition {
        by_argument: text(&["{prompt}"]),
        prompt: Some(PromptDelivery::Argument),
        ..mine.clone()
    };
    let command = by_argument.command(&wanted).unwrap();
    assert_eq!(command.argv("P", "/f", None).unwrap(), ["my-agent", "--yolo", "-v", "P"]);
    let nothing = AgentDefinition { name: "none".into(), ..AgentDefinition::default() };
    assert_eq!(nothing.command(&options()), Err(AgentDefinitionError::NoCommand { agent: "none".into() }));
}

#[test]
fn a_name_that_was_meant_is_found() {
    for (name, meant) in
        [("cluade", Some("claude")), ("Codex", Some("codex")), ("mien", Some("mine")), ("zzzzzz", None)]
    {
        assert_eq!(nearest_name(name, ["mine"]), meant, "{name}");
    }
    assert!(find("cluade").is_none());
    let remedy = find("codex").unwrap().remedy(Outcome::Auth);
    assert_eq!(remedy.as_deref(), Some("sign in to codex: run `codex login`"));
    assert_eq!(find("codex").unwrap().remedy(Outcome::Completed), None);
}

#[test]
fn a_model_is_never_an_option_of_its_agent() {
    // fault K1
    for (model, is_refused) in [
        ("--mcp-config=evil.json", true),
        (" -c", true),
        ("a\nb", true),
        ("a\u{202e}b", true),
        ("anthropic/claude-opus-5-5", false),
        ("my model", false),
    ] {
        for agent in ["claude", "codex", "gemini", "opencode"] {
            let options = AgentOptions { model: Some(model.into()), ..options() };
            let command = find(agent).unwrap().command(&options);
            let found = matches!(command, Err(AgentDefinitionError::OddModel { .. }));
            assert_eq!(found, is_refused, "{agent} {model}");
        }
    }
}

#[test]
fn an_agent_that_stays_is_started_by_what_speaks_the_protocol() {
    let acp = AgentOptions { transport: Transport::Acp, ..options() };
    let all = AgentOptions { model: Some("m1".into()), extra: vec!["--x".into()], ..acp.clone() };
    let codex = r#"codex-acp -c approval_policy="never" -c sandbox_mode="danger-full-access""#;
    let codex_all = format!(r#"{codex} -c model="m1" --x"#);
    for (agent, plain, with_all) in [
        ("claude", "claude-agent-acp", "claude-agent-acp --x"),
        ("codex", codex, codex_all.as_str()),
        ("gemini", "gemini --acp --yolo", "gemini --acp --yolo -m m1 --x"),
        ("qwen", "qwen --acp --yolo", "qwen --acp --yolo --model m1 --x"),
        ("copilot", "copilot --acp --allow-all-tools", "copilot --acp --allow-all-tools --model m1 --x"),
    ] {
        assert_eq!(line(agent, &acp, Some("ID")), plain, "a session is no argument");
        assert_eq!(line(agent, &all, None), with_all);
        let command = find(agent).unwrap().command(&acp).unwrap();
        assert!(command.can_continue() && command.acp.is_some_and(|acp| acp.allows), "{agent}");
        let own = AgentOptions { permissions: Permissions::OwnSettings, ..acp.clone() };
        let command = find(agent).unwrap().command(&own).unwrap();
        assert!(command.acp.is_some_and(|acp| !acp.allows), "{agent}");
    }
    let claude = find("claude").unwrap().command(&all).unwrap();
    assert_eq!(claude.env.get("ANTHROPIC_MODEL").map(String::as_str), Some("m1"));
    for (agent, options, error) in [
        ("pi", acp.clone(), AgentDefinitionError::NoAcp { agent: "pi".into() }),
        ("opencode", all, AgentDefinitionError::NoModel { agent: "opencode".into() }),
        (
            "claude",
            AgentOptions { max_turns: Some(3), ..acp },
            AgentDefinitionError::NoMaxTurns { agent: "claude".into() },
        ),
        (
            "gemini",
            AgentOptions { tools: true, ..options() },
            AgentDefinitionError::NoTools { agent: "gemini".into() },
        ),
    ] {
        assert_eq!(find(agent).unwrap().command(&options), Err(error), "{agent}");
    }
}

#[test]
fn tools_stand_before_the_user_s_own_arguments() {
    let tools = AgentOptions { tools: true, extra: vec!["--x".into()], ..options() };
    for (agent, words) in [("claude", "--mcp-config "), ("codex", "-c mcp_servers.dacapo.command=")] {
        let line = line(agent, &tools, None);
        let (at, extra) = (line.find(words).unwrap(), line.find("--x").unwrap());
        assert!(at < extra, "{line}");
    }
}
