//! The keys that only the user's file may have.

use super::*;
use crate::{
    agent::{EnvironmentRule, Format, PromptDelivery},
    limits::Price,
};

fn users(text: &str) -> Result<Config, Problems> {
    parse("config.yaml", text.as_bytes(), Author::User)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn every_key_of_the_user_s_is_read() {
    let config = users(
        r#"agent: mine
agents:
  mine:
    command: [my-agent, --yolo, "", "{prompt_file}"]
    prompt: file
    output: claude
    resume: [--resume, "{session}"]
    model: ["-m={model}"]
    max_turns: 7
    permissions: [--ask, nobody]
    env: {BASE_URL: "http://127.0.0.1", MY_API_KEY: $OTHER, EMPTY: ""}
    provider: anthropic
    allow_root: true
  claude: {prompt: argv}
fallback: [codex, mine]
environment: strict
permissions: {unattended: false, allow_root: true}
prices:
  my-model: {input: 3, output: 15.5, cache_read: 0.3, cache_write: 0}
  "other:latest": {input: 4, output: 0}
"#,
    )
    .unwrap();
    let mine = AgentSection {
        name: "mine".to_owned(),
        opening_timeout: None,
        acp: None,
        command: Some(words(&["my-agent", "--yolo", "", "{prompt_file}"])),
        prompt: Some(PromptDelivery::File),
        output: Some(Format::Claude),
        resume: Some(words(&["--resume", "{session}"])),
        model: Some(words(&["-m={model}"])),
        max_turns: Some(7),
        permissions: Some(words(&["--ask", "nobody"])),
        env: [("BASE_URL", "http://127.0.0.1"), ("MY_API_KEY", "$OTHER"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        provider: Some("anthropic".to_owned()),
        allow_root: Some(true),
    };
    let claude = AgentSection {
        name: "claude".to_owned(),
        prompt: Some(PromptDelivery::Argument),
        ..AgentSection::default()
    };
    let price = |model: &str, input, output, cache_read, cache_write| PriceSetting {
        model: model.to_owned(),
        price: Price { input, output, cache_read, cache_write },
    };
    assert_eq!(
        (config.agents, config.prices, config.permissions),
        (
            Agents {
                agent: Some(At { value: "mine".to_owned(), line: 1 }),
                agents: vec![At { value: mine, line: 3 }, At { value: claude, line: 14 }],
                fallback: Some(At { value: words(&["codex", "mine"]), line: 15 }),
                environment: Some(At { value: EnvironmentRule::Strict, line: 16 }),
            },
            vec![
                At { value: price("my-model", 3.0, 15.5, 0.3, 0.0), line: 19 },
                At { value: price("other:latest", 4.0, 0.0, 4.0, 5.0), line: 20 },
            ],
            PermissionsSection {
                unattended: Some(At { value: false, line: 17 }),
                allow_root: Some(At { value: true, line: 17 }),
            },
        )
    );
}

#[test]
fn what_the_user_writes_is_checked_where_it_stands() {
    // req 201, req 208
    for (text, expected) in [
        ("agents: [x]\n", "1:9 `agents` must be a map of names"),
        ("agents: {x: y}\n", "1:13 `agents.x` must be a map of keys, like `command: …`"),
        (
            "agents: {a b: {command: [x]}}\n",
            "1:10 the name of an agent must be letters, digits, `.`, `_` and `-`, at most 64",
        ),
        (
            "agents: {a/b: {command: [x]}}\n",
            "1:10 the name of an agent must be letters, digits, `.`, `_` and `-`, at most 64",
        ),
        (
            "agents: {x: {provider: y}}\n",
            "1:10 `x` is not built in, so it needs a `command: [my-agent, --yolo]`",
        ),
        ("agents: {pi: {comand: [x]}}\n", "1:15 unknown key `comand`; did you mean `command`?"),
        (
            "agents: {pi: {command: x --y}}\n",
            "1:24 `agents.pi.command` must be a list, like `[my-agent, --yolo]`",
        ),
        ("agents: {pi: {command: []}}\n", "1:24 `agents.pi.command` needs a program: `[my-agent, --yolo]`"),
        ("agents: {pi: {command: [' ']}}\n", "1:25 the program must not be blank"),
        ("agents: {pi: {command: [x, [y]]}}\n", "1:28 an entry of `agents.pi.command` must be text"),
        ("agents: {pi: {command: }}\n", "1:15 `agents.pi.command` has no value"),
        ("agents: {pi: {prompt: pipe}}\n", "1:23 `agents.pi.prompt` must be `stdin` or `argv` or `file`"),
        (
            "agents: {pi: {output: json}}\n",
            "1:23 `agents.pi.output` must be `text` or `claude` or `codex` or `gemini` or `opencode` or `qwen` or \
             `copilot` or `pi`",
        ),
        ("agents: {pi: {resume: [--continue]}}\n", "1:15 `agents.pi.resume` needs a place for `{session}`"),
        ("agents: {pi: {model: [opus]}}\n", "1:15 `agents.pi.model` needs a place for `{model}`"),
        ("agents: {pi: {model: ['']}}\n", "1:23 an entry of `agents.pi.model` must not be blank"),
        ("agents: {pi: {max_turns: 0}}\n", "1:26 `agents.pi.max_turns` must be a whole number, 1 or more"),
        (
            "agents: {pi: {opening_timeout: 1m}}\n",
            "1:15 `opening_timeout` is for agents that stay, and `pi` has no `acp`",
        ),
        (
            "agents: {codex: {opening_timeout: 0s}}\n",
            "1:35 `agents.codex.opening_timeout` must be more than zero",
        ),
        ("agents: {pi: {allow_root: yes}}\n", "1:27 `agents.pi.allow_root` must be `true` or `false`"),
        ("agents: {pi: {provider: ' '}}\n", "1:25 `agents.pi.provider` must not be blank"),
        ("agents: {pi: {env: {2B: x}}}\n", "1:21 `2B` is no name of a variable"),
        ("agents: {pi: {env: {A=B: x}}}\n", "1:21 `A=B` is no name of a variable"),
        ("agents: {pi: {env: {DACAPO_HOME: x}}}\n", "1:21 `DACAPO_HOME` is set by dacapo itself"),
        ("agents: {pi: {env: {PATH: x}}}\n", "1:21 `PATH` is set by dacapo itself"),
        ("agents: {pi: {env: {A: }}}\n", "1:21 `agents.pi.env.A` has no value"),
        ("agents: {pi: {env: {A: [b]}}}\n", "1:24 `agents.pi.env.A` must be text"),
        (
            "agents: {pi: {env: {X_API_KEY: sk-1}}}\n",
            "1:21 a key does not belong in a file: `X_API_KEY: $X_API_KEY` takes it from your environment",
        ),
        (
            "agents: {pi: {command: [x], prompt: file}}\n",
            "1:10 `prompt: file` needs a `{prompt_file}` in the command",
        ),
        ("agents: {pi: {prompt: file}}\n", "1:10 `prompt: file` needs a `{prompt_file}` in the command"),
        (
            "agents: {pi: {command: [x, 'a={prompt}'], prompt: stdin}}\n",
            "1:10 `prompt: stdin` leaves the `{prompt}` in the command empty",
        ),
        (
            "agents: {pi: {command: [x, '{prompt_file}'], prompt: argv}}\n",
            "1:10 only `prompt: file` fills the `{prompt_file}` in the command",
        ),
        (
            "agents: {pi: {command: [x, '{prompt}', '{prompt_file}']}}\n",
            "1:10 the command has both `{prompt}` and `{prompt_file}`; one of them is enough",
        ),
        ("limits: {backoff: 0s}\n", "1:19 `limits.backoff` must be more than zero"),
        ("fallback: codex\n", "1:11 `fallback` must be a list, like `[one, two]`"),
        ("fallback: ['']\n", "1:12 an entry of `fallback` must not be blank"),
        ("environment: clean\n", "1:14 `environment` must be `inherit` or `strict`"),
        ("permissions: all\n", "1:14 `permissions` must be a map of keys, like `unattended: …`"),
        ("permissions: {alow_root: true}\n", "1:15 unknown key `alow_root`; did you mean `allow_root`?"),
        ("prices: {m: 3}\n", "1:13 `prices.m` must be a map of keys, like `input: …`"),
        ("prices: {' ': {input: 1, output: 1}}\n", "1:10 the name of a model must not be blank"),
        (
            "prices: {m: {input: 3}}\n",
            "1:10 a price needs `input` and `output`, in US dollars per million tokens",
        ),
        (
            "prices: {m: {input: -3, output: 1}}\n",
            "1:21 `prices.m.input` must be an amount of US dollars, 0 or more, for example 2.50",
        ),
        (
            "prices: {m: {input: 3, output: 1, cached: 1}}\n",
            "1:35 unknown key `cached`; did you mean `cache_read`?",
        ),
    ] {
        let problems = users(text).err().map(|problems| problems.list).unwrap_or_default();
        let told: Vec<String> = problems
            .iter()
            .map(|problem| format!("{}:{} {}", problem.place.line, problem.place.column, problem.what))
            .collect();
        assert_eq!(told, [expected], "{text:?}");
    }
}
