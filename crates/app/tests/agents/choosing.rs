//! Which agent a loop gets, with which arguments and which environment.

use std::fs;

use serde_json::{Value, json};

use crate::{CURIOUS, assert_has, dacapo, install, is_root, json, last_line, run, user, world};

#[test]
fn the_first_that_is_installed_is_used_unless_somebody_says_otherwise() {
    let env = world();
    install(&env, "opencode", CURIOUS);
    install(&env, "codex", CURIOUS);
    let agent = |extra: &[&str]| {
        let told = json(&env, ["explain", "run", "x", "--json"].iter().chain(extra));
        (told["argv"][0].clone(), told["policy"]["agent"]["from"].clone())
    };
    assert_eq!(agent(&[]), (json!("codex"), json!("default")));
    assert_eq!(agent(&["-a", "opencode"]), (json!("opencode"), json!("--agent")));
    env.write(".dacapo/config.yaml", "\nagent: opencode\n");
    assert_eq!(agent(&[]), (json!("opencode"), json!(".dacapo/config.yaml:2")));
    // Whoever pays chooses.
    user(&env, "agent: mine\nagents: {mine: {command: [codex, -x]}}\n");
    let file = env.home().join(".config/dacapo/config.yaml:1");
    assert_eq!(agent(&[]), (json!("codex"), json!(file)));
    assert_eq!(agent(&["--agent=codex"]).1, "--agent");
    // And it runs.
    run(&env, ["run", "x", "--allow-empty"]).assert_code(0);
    assert_eq!(env.read("args"), "-x\n");
}

#[test]
fn a_missing_agent_is_named_with_the_way_to_install_it() {
    // req 90
    let env = world();
    for (args, code, message, hint) in [
        (
            vec![],
            5,
            "no agent is installed: looked for claude, codex, gemini, opencode on PATH",
            "npm install -g",
        ),
        (
            vec!["-a", "codex"],
            5,
            "agent `codex` is not installed: no such program on PATH",
            "`npm install -g @openai/codex` installs it",
        ),
        (vec!["-a", "claud"], 2, "there is no agent `claud`; did you mean `claude`?", "`dacapo doctor`"),
        (vec!["-a", "qqq"], 2, "known: claude, codex, gemini, opencode, qwen, copilot, pi", "--agent-cmd"),
    ] {
        let output = run(&env, ["run", "x"].iter().chain(&args)).assert_code(code);
        assert_has(last_line(&output), message);
        assert_has(&output.stderr, hint);
    }
    for args in [["-a", "codex", "--agent-cmd", "true"], ["--model", "m", "--agent-cmd", "true"]] {
        let output = run(&env, ["run", "x"].iter().chain(&args)).assert_code(2);
        assert_has(&output.stderr, "cannot be used with");
    }
    assert!(!env.dacapo_home().join("projects").exists(), "nothing was begun");
}

#[test]
fn without_an_agent_everything_else_is_explained() {
    let env = world();
    env.git_init();
    env.write("specs/tasks/shop/IMPLEMENTATION_PLAN.md", "# Shop\n");
    env.write("specs/tasks/shop/01-vat.md", "---\ntask: 1\nbackpressure: sh vat.sh\n---\n# Tax\n");
    let none = "no agent is installed: looked for claude, codex, gemini, opencode on PATH";
    for subject in [&["run", "x"][..], &["unit", "--unit", "shop"]] {
        let args = [&["explain"], subject].concat();
        let output = run(&env, &args).assert_code(0);
        assert_has(&output.stdout, &format!("It would not start: {none}\nhint: `npm install -g"));
        assert_has(&output.stdout, "this shows how claude would be started");
        let told = json(&env, args.iter().chain(&["--json"]));
        assert_eq!((&told["obstacle"], &told["argv"][0]), (&json!(none), &json!("claude")));
        assert_eq!(told["policy"]["kill_grace"], json!({"value": 5000, "from": "default"}));
    }
    env.write(".dacapo/config.yaml", "limits: {max_iterations: 30}\n");
    let told = json(&env, ["explain", "unit", "--json"]);
    assert_eq!(told["policy"]["max_iterations"], json!({"value": 3, "from": "default"}));
    assert_eq!(told["run"]["backpressure"], json!(["shop #1: sh vat.sh"]));
    // The same where a plan asks for one.
    env.write("specs/tasks/shop/IMPLEMENTATION_PLAN.md", "---\nprovider: codex\n---\n# Shop\n");
    install(&env, "claude", CURIOUS);
    let output = run(&env, ["explain", "unit"]).assert_code(0);
    assert_has(
        &output.stdout,
        "It would not start: unit shop asks for `codex`: agent `codex` is not installed: no such program on PATH\n\
         hint: `npm install -g @openai/codex` installs it",
    );
    assert_eq!(json(&env, ["explain", "unit", "--json"])["run"]["providers"], json!({"shop": "codex"}));
    assert!(!env.dacapo_home().join("projects").exists(), "nothing was begun");
}

#[test]
fn claude_gets_the_arguments_that_were_asked_for_and_explain_shows_them_before() {
    // req 20, req 21, req 22, req 23, fault C4
    let env = world();
    install(&env, "claude", CURIOUS);
    let base = "--output-format stream-json --verbose --dangerously-skip-permissions";
    for (config, extra, expected) in [
        ("", vec![], format!("{base} -p")),
        ("", vec!["--model", "opus"], format!("{base} --model opus -p")),
        ("", vec!["--", "--add-dir", "/x"], format!("{base} --add-dir /x -p")),
        ("agents: {claude: {max_turns: 5}}\n", vec![], format!("{base} --max-turns 5 -p")),
        ("agents: {claude: {prompt: argv}}\n", vec![], format!("{base} -p <the prompt>")),
        (
            "agents: {claude: {permissions: [--permission-mode, plan]}}\n",
            vec![],
            "--output-format stream-json --verbose --permission-mode plan -p".to_owned(),
        ),
    ] {
        user(&env, &format!("permissions: {{allow_root: true}}\n{config}"));
        let told = json(&env, ["explain", "run", "--json", "do it"].iter().chain(&extra));
        let argv: Vec<&str> = told["argv"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(argv[1..].join(" "), expected, "{config}");
        run(&env, ["run", "do it"].iter().chain(&extra)).assert_code(0);
        let given = env.read("args");
        let prompt = env.read("prompt");
        let (given, prompt) = match given.split_once("do it\n") {
            Some((given, rest)) => (given.to_owned() + "<the prompt>\n", format!("do it\n{rest}")),
            None => (given, prompt),
        };
        assert_eq!(given.split('\n').filter(|arg| !arg.is_empty()).collect::<Vec<_>>().join(" "), expected);
        assert!(prompt.starts_with("do it\n"), "{prompt}");
        assert_eq!(env.read("pwd").trim(), env.workspace().to_str().unwrap());
    }
}

#[test]
fn as_root_claude_needs_the_user_s_word() {
    let env = world();
    install(&env, "claude", CURIOUS);
    user(&env, "");
    let output = run(&env, ["run", "x"]);
    if is_root() {
        let output = output.assert_code(4);
        assert_has(last_line(&output), "claude does not work unattended as root");
        assert_has(&output.stderr, "permissions: {allow_root: true}");
        assert!(!env.workspace().join("args").exists());
        // It can be looked at all the same.
        let output = run(&env, ["explain", "run", "x"]).assert_code(0);
        assert_has(&output.stdout, "It would not start: claude does not work unattended as root");
        assert_has(&output.stdout, "--dangerously-skip-permissions");
        // In another mode it may, and so it may when the user says so.
        user(&env, "agents: {claude: {permissions: [--permission-mode, acceptEdits]}}\n");
        run(&env, ["run", "x"]).assert_code(0);
        user(&env, "agents: {claude: {allow_root: true}}\n");
        run(&env, ["run", "x"]).assert_code(0);
        assert_has(&env.read("env"), "IS_SANDBOX=1");
    } else {
        output.assert_code(0);
        assert!(!env.read("env").contains("IS_SANDBOX"));
    }
}

#[test]
fn is_sandbox_in_the_user_s_environment_is_consent_for_root() {
    let env = world();
    install(&env, "claude", CURIOUS);
    let go = |value: &str, args: &[&str]| {
        let mut command = dacapo(&env, args);
        command.env("IS_SANDBOX", value);
        env.run_command(command)
    };
    for config in ["", "environment: strict\n"] {
        user(&env, config);
        go("1", &["run", "x"]).assert_code(0);
        if is_root() {
            assert_has(&env.read("env"), "IS_SANDBOX=1");
        }
        go("1", &["explain", "run", "x"]).assert_code(0);
        let output = go("0", &["run", "x"]);
        output.assert_code(if is_root() { 4 } else { 0 });
    }
    // What the user wrote down outranks what some shell has set.
    user(&env, "permissions: {allow_root: false}\n");
    let output = go("1", &["run", "x"]).assert_code(if is_root() { 4 } else { 0 });
    if is_root() {
        assert_has(&output.stderr, "set IS_SANDBOX=1");
    }
    // An agent to fall back on is asked the same.
    user(&env, "agent: mine\nfallback: [claude]\nagents: {mine: {command: [mine]}}\n");
    install(&env, "mine", CURIOUS);
    let told = go("1", &["explain", "run", "x"]).assert_code(0);
    assert!(!told.stdout.contains("is left out"), "{}", told.stdout);
}

#[test]
fn an_agent_is_given_what_its_user_names_and_a_strict_one_nothing_else() {
    // req 93, req 208, fault C11, fault K6
    for (rule, inherits) in [("inherit", true), ("strict", false)] {
        let env = world();
        install(&env, "mine", CURIOUS);
        user(
            &env,
            &format!(
                "agent: mine\nenvironment: {rule}\nagents:\n  mine:\n    command: [mine]\n    env: \
                 {{ANTHROPIC_API_KEY: $CANARY, MODE: loud, NOTHING: $NOT_SET}}\n"
            ),
        );
        let mut command = dacapo(&env, ["run", "x"]);
        command
            .env("CANARY", "sk-canary-4711")
            .env("AWS_PROFILE", "prod")
            .env("CLAUDECODE", "1")
            .env("LC_ALL", "C");
        env.run_command(command).assert_code(0);
        let given = env.read("env");
        let has = |line: &str| given.lines().any(|given| given.starts_with(line));
        for line in
            ["ANTHROPIC_API_KEY=sk-canary-4711", "MODE=loud", "HOME=/", "LC_ALL=C", "TASK_FOLDER=/", "PATH=/"]
        {
            assert!(has(line), "no {line} in\n{given}");
        }
        for line in ["CLAUDECODE=", "NOTHING="] {
            assert!(!has(line), "{line} in\n{given}");
        }
        assert_eq!(has("AWS_PROFILE=prod"), inherits);
        assert_eq!(has("CANARY="), inherits);
        // What is recorded is the name.
        let told = json(&env, ["explain", "run", "x", "--json"]);
        assert_eq!(told["env"]["ANTHROPIC_API_KEY"], "$CANARY");
        for file in fs::read_dir(env.dacapo_home()).unwrap().flatten() {
            let bytes = fs::read(file.path()).unwrap_or_default();
            let found = bytes.windows(14).any(|window| window == b"sk-canary-4711");
            assert!(!found, "the key is in {}", file.path().display());
        }
    }
}

#[test]
fn a_repository_names_an_agent_and_never_says_what_it_runs() {
    // fault K1
    let env = world();
    install(&env, "codex", CURIOUS);
    for key in [
        "agents: {codex: {command: [touch, canary]}}",
        "environment: inherit",
        "permissions: {allow_root: true}",
        "prices: {m: {input: 0, output: 0}}",
        "fallback: [codex]",
    ] {
        env.write(".dacapo/config.yaml", format!("{key}\n"));
        let output = run(&env, ["run", "x", "--trust"]).assert_code(2);
        assert_has(&output.stderr, "is the user's to say, a repository cannot set it");
    }
    env.write(".dacapo/config.yaml", "agent: ./evil\n");
    let output = run(&env, ["run", "x", "--trust"]).assert_code(2);
    assert_has(last_line(&output), "there is no agent `./evil`");
    assert_has(last_line(&output), ".dacapo/config.yaml:1");
    assert!(!env.workspace().join("args").exists());
}

#[test]
fn what_to_fall_back_to_is_what_is_installed() {
    let env = world();
    install(&env, "claude", CURIOUS);
    install(&env, "codex", CURIOUS);
    user(&env, "permissions: {allow_root: true}\nfallback: [claude, gemini, codex, nobody]\n");
    let told = json(&env, ["explain", "run", "x", "--json", "-a", "claude"]);
    let names: Vec<&Value> =
        told["fallback"].as_array().unwrap().iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, ["codex"]);
    assert_eq!(told["policy"]["fallback"]["value"][0]["argv"][0], "codex");
    let output = run(&env, ["run", "x", "-a", "claude"]).assert_code(0);
    assert_has(&output.stderr, "WARNING: fallback `gemini`");
    assert_has(&output.stderr, "WARNING: fallback `nobody`");
}

#[test]
fn a_session_is_continued_only_by_agents_that_can() {
    let env = world();
    install(&env, "claude", CURIOUS);
    let told = json(&env, ["explain", "run", "x", "--json", "--continue-session"]);
    assert_eq!(told["policy"]["continue_session"], json!({"value": true, "from": "--continue-session"}));
    let then = told["argv_continued"].to_string();
    assert_has(&then, r#""--resume","<the session>""#);
    assert!(!told["argv"].to_string().contains("--resume"));
    assert_eq!(json(&env, ["explain", "run", "x", "--json", "--fresh"])["argv_continued"], Value::Null);
    run(&env, ["run", "x", "--fresh", "--continue-session"]).assert_code(2);
    let output = run(&env, ["run", "x", "--agent-cmd", "true", "--continue-session"]).assert_code(2);
    assert_has(last_line(&output), "agent `true` cannot go on with a session");
}
