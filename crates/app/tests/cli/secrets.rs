//! Secrets in everything dacapo is told and shown: none of them in anything it writes or says.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use dacapo_testkit::{Output, Running, TestEnv};

use crate::support::{LONG, Task, assert_has, last_line, world};

/// Of no known shape, and with letters that JSON writes in another way.
const KEY: &str = r#"c4n4ry/K3y"of\the+mine-55e0d1c7"#;
const HEAD: &str = r#"c4n4ry/K3y"of\t"#;
const TAIL: &str = "he+mine-55e0d1c7";
const IN_JSON: &str = r#"c4n4ry/K3y\"of\\the+mine-55e0d1c7"#;
const IN_BASE64: &str = "YzRuNHJ5L0szeSJvZlx0aGUrbWluZS01NWUwZDFjNw==";
/// Nobody was told this one: it is known by its shape.
const TOKEN: &str = "ghp_c4n4ry0123456789abcdefABCDEF01234567";
/// Either of them, in any form, and halves of them.
const NEEDLES: [&str; 6] = ["c4n4ry", "mine-55e0d1c7", IN_JSON, "YzRuNHJ5L0sze", "K3y%22of", "ABCDEF0123"];

/// dacapo with the key in its environment.
fn dacapo(env: &TestEnv, args: &[&str]) -> Command {
    let mut command = env.dacapo(args);
    command.env("ANTHROPIC_API_KEY", KEY).env("HEAD", HEAD).env("TAIL", TAIL).env("SOME", TOKEN);
    command
}

fn start(env: &TestEnv, script: &str, extra: &[&str]) -> Running {
    let mut command = dacapo(env, &[]);
    command.args(env.loop_args(script, extra));
    Running::start(command)
}

#[track_caller]
fn assert_clean(what: &str, bytes: &[u8]) {
    for needle in NEEDLES {
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle.as_bytes()) {
            let around = &bytes[at.saturating_sub(100)..bytes.len().min(at + 100)];
            panic!("`{needle}` is in {what}:\n{}", String::from_utf8_lossy(around));
        }
    }
}

#[track_caller]
fn assert_says_nothing(output: &Output) {
    assert_clean("standard output", output.stdout.as_bytes());
    assert_clean("standard error", output.stderr.as_bytes());
}

/// All files below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries
        .flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] })
        .collect()
}

/// Every file of dacapo's, by name and by content, but those that hold the user's own words.
#[track_caller]
fn assert_kept_nothing(env: &TestEnv, own_words: &[&str]) {
    let mut all = files(&env.dacapo_home());
    // dacapo itself, for agents.
    all.retain(|path| !path.starts_with(env.dacapo_home().join("bin")));
    assert!(all.iter().any(|path| path.ends_with("dacapo.db")), "{all:?}");
    for path in all {
        let name = path.to_string_lossy();
        assert_clean("a file name", name.as_bytes());
        if !own_words.iter().any(|part| name.contains(part)) {
            assert_clean(&name, &fs::read(&path).expect("a file"));
        }
    }
}

#[test]
fn a_key_is_in_nothing_that_dacapo_writes_or_says() {
    // req 208, fault K6
    let env = world();
    // Half of the key in one read, the other in a later one; then every other way an agent has to say it.
    let script = r#"
        print "before\n$HEAD"; wait-file go; say $TAIL after
        err oops $ANTHROPIC_API_KEY and $SOME
        say "{\"result\":\"$JSON\",\"api_key\":\"0123456789c4n4ry\"}"
        say "base64 $BASE64"
        say "+ curl -H 'Authorization: Bearer c4n4ry0123456789'"
        sh 'env | grep KEY'
        run dacapo bus post --type INFO "I use $ANTHROPIC_API_KEY"
        run dacapo bus post --type QUESTION "is $SOME right?"
        sh 'printf "gate sees %s and %s\n" "$ANTHROPIC_API_KEY" "$SOME" > ../seen'
        promise"#;
    let mut command = dacapo(&env, &[]);
    command.env("JSON", IN_JSON).env("BASE64", IN_BASE64);
    command.args(env.loop_args(script, &["-n", "2", "-v", "--allow-empty", "--gate", "cat ../seen; false"]));
    let running = Running::start(command);
    running.wait_for_line(|line| line.contains("before"), LONG);
    let steered =
        env.run_command(dacapo(&env, &["steer", "t", &format!("try {KEY} or {TOKEN}")])).assert_code(0);
    assert_has(&steered.stderr, "a secret was left out");
    assert_says_nothing(&steered);
    env.write("go", "");
    let output = running.wait(LONG);
    assert_says_nothing(&output);
    assert_has(&output.stdout, "[redacted] after");
    assert_kept_nothing(&env, &[]);
    // It was there, and only the secrets are missing.
    let log = env.run(["logs", "t", "--iteration", "1"]).assert_code(0).stdout;
    assert_has(&log, "before\n[redacted] after\n");
    assert_has(&log, r#"{"result":"[redacted]","api_key":"[redacted]"}"#);
    assert_has(&log, "base64 [redacted]\n+ curl -H 'Authorization: Bearer [redacted]'\n");
    assert_has(&log, "ANTHROPIC_API_KEY=[redacted]\n");
    let log = env.run(["logs", "t", "--iteration", "1", "--stderr"]).assert_code(0).stdout;
    assert_has(&log, "oops [redacted] and [redacted]\n");
    env.assert_on_bus("INFO", "I use [redacted]");
    assert_has(&env.prompt(2), "try [redacted] or [redacted]");
    assert_has(&env.prompt(2), "gate sees [redacted] and [redacted]");
    for args in [
        &["events", "t", "--json"][..],
        &["events", "t"],
        &["logs", "t", "--raw"],
        &["logs", "t", "--gates"],
        &["logs", "t", "--prompt"],
        &["why", "t"],
        &["status", "t", "--json"],
        &["bus", "read", "--project", "p", "--task", "t"],
    ] {
        assert_says_nothing(&env.run(args).assert_code(0));
    }
}

#[test]
fn events_printed_live_and_receipts_hold_no_key() {
    // req 208, fault K6
    let env = world();
    let script = "say $ANTHROPIC_API_KEY; write work; write ../seen $SOME; promise";
    let gate = format!("cat {}", env.root().join("seen").display());
    let output = start(&env, script, &["--json", "--gate", &gate]).wait(LONG).assert_code(0);
    assert_says_nothing(&output);
    let receipt = env.run(["receipt", "t", "--json"]).assert_code(0);
    assert_says_nothing(&receipt);
    assert_kept_nothing(&env, &[]);
    // The hash is over what is kept: the same gate prints the same again.
    let verified = env.run_command(dacapo(&env, &["verify", "t"])).assert_code(0);
    assert_says_nothing(&verified);
    let gates = fs::read(
        files(&env.dacapo_home()).into_iter().find(|p| p.extension().is_some_and(|e| e == "gates")).unwrap(),
    );
    assert_eq!(gates.unwrap(), b"[redacted]\n");
    let receipt: serde_json::Value = serde_json::from_str(&receipt.stdout).unwrap();
    let hash = dacapo_core::receipt::sha256(b"[redacted]\n");
    assert_eq!(receipt["gates"][0]["output_sha256"], hash);
}

#[test]
fn a_promise_is_heard_though_its_words_are_a_key() {
    // What an agent says is judged as it was said, and kept without the key.
    let env = world();
    let output = start(&env, "say $ANTHROPIC_API_KEY; promise", &["-n", "1"]).wait(LONG).assert_code(0);
    assert_says_nothing(&output);
    let exit = &env.events_of("t", "agent_exited")[0];
    let printed = KEY.len() + 1 + "<promise>DONE</promise>\n".len();
    assert_eq!(exit["stdout_bytes"], printed);
    assert_eq!(env.run(["logs", "t", "--raw"]).stdout, "[redacted]\n<promise>DONE</promise>\n");
}

#[test]
fn half_a_key_at_the_end_of_an_agent_is_not_kept() {
    // fault K6: an agent that is killed while it prints one.
    let env = world();
    start(&env, "print x $HEAD; exit 1", &["-n", "1"]).wait(LONG).assert_code(3);
    assert_eq!(env.run(["logs", "t", "--raw"]).stdout, "x [redacted]");
    // What merely looked like the beginning of one is there when the agent has ended.
    start(&env, "print x sk-ant; exit 1", &["-n", "1"]).wait(LONG).assert_code(3);
    assert_eq!(env.run(["logs", "t", "--raw"]).stdout, "x sk-ant");
}

#[test]
fn a_prompt_keeps_its_words_with_a_warning_and_the_journal_does_not() {
    // req 208, fault K6
    let env = world();
    let agent = env.script("prompt-to ../given-$DACAPO_ITERATION; exit 1").agent_cmd();
    let prompt = format!("{TOKEN} opens it; {KEY} closes it");
    let args = ["run", &prompt, "--agent-cmd", &agent, "--project", "p", "-n", "1", "--restart-delay", "0s"];
    let output = env.run_command(dacapo(&env, &args)).assert_code(3);
    assert_says_nothing(&output);
    assert_has(&output.stdout, "the prompt holds a secret");
    assert_kept_nothing(&env, &["/TASK.md", ".prompt"]);
    let id = last_line(&output).rsplit([' ', ']']).nth(1).unwrap().to_owned();
    // The agent is told what the user said, now and after a resume.
    env.run_command(dacapo(&env, &["resume", &id, "-n", "+1"])).assert_code(3);
    for iteration in [1, 2] {
        let given = fs::read_to_string(env.root().join(format!("given-{iteration}"))).unwrap();
        assert_has(&given, &prompt);
    }
    assert_kept_nothing(&env, &["/TASK.md", ".prompt"]);
    for path in files(&env.dacapo_home()).iter().filter(|path| path.ends_with("TASK.md")) {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        // Other words than those that were recorded are not the user's.
        fs::write(path, "do as I say").unwrap();
    }
    env.run_command(dacapo(&env, &["resume", &id, "-n", "+1"])).assert_code(3);
    let given = fs::read_to_string(env.root().join("given-3")).unwrap();
    assert_has(&given, "[redacted] opens it; [redacted] closes it");
}

#[test]
fn a_key_on_a_command_line_is_refused_before_anything_is_written() {
    // req 208: nothing keeps both promises, to resume the loop and to record no secret.
    let env = world();
    let agent = env.agent_cmd();
    let gate = format!("curl -H 'Authorization: Bearer {TOKEN}' localhost");
    let other_agent = format!("{agent} --key {TOKEN}");
    for args in [
        &["--agent-cmd", &agent, "--gate", &gate][..],
        &["--agent-cmd", &agent, "--until-cmd", &gate],
        &["--agent-cmd", &other_agent],
        &["--agent-cmd", &agent, "--", "--key", TOKEN],
        &["--agent-cmd", &agent, "--task", TOKEN],
        &["--agent-cmd", &agent, "--commit", "--commit-message", TOKEN],
    ] {
        for command in [&["run", "do it"][..], &["run", "do it", "--detach"], &["explain", "run", "do it"]] {
            let all: Vec<&str> = command.iter().chain(args).copied().collect();
            let output = env.run_command(dacapo(&env, &all)).assert_code(2);
            assert_says_nothing(&output);
            assert_has(last_line(&output), "holds a secret");
            assert_has(&output.stderr, "hint: put it into an environment variable");
        }
    }
    assert!(!env.dacapo_home().exists());
    // The environment is not recorded, and a gate finds it there.
    env.write("work", "");
    let gate = r#"test -n "$SOME""#;
    start(&env, "write work 2; promise", &["--gate", gate]).wait(LONG).assert_code(0);
    assert_kept_nothing(&env, &[]);
}

#[test]
fn messages_about_mistakes_quote_no_key() {
    // req 208, fault K6
    let env = world();
    for (args, code) in [
        (&["logs", TOKEN][..], 2),
        (&["logs", KEY], 2),
        (&[TOKEN], 2),
        (&["run", "x", "-n", TOKEN], 2),
        (&["run", "x", "--agent-cmd", &format!("/no/such/{KEY}")], 2),
        (&["run", "--agent-cmd", "true", "-P", &format!("/no/such/{TOKEN}")], 2),
        (&["run", "x", "--agent-cmd", "true", "--dir", &format!("/no/such/{KEY}")], 2),
    ] {
        let output = env.run_command(dacapo(&env, args)).assert_code(code);
        assert_says_nothing(&output);
        assert_has(&output.stderr, "[redacted]");
    }
}

#[test]
fn a_key_in_the_name_of_a_file_is_not_recorded() {
    // req 208, fault K6
    let env = world();
    env.write("secret-plans", "");
    let script = "write secret-$SOME; promise";
    let args = ["-n", "1", "--protect", "secret-*", "--gate", "true"];
    assert_says_nothing(&start(&env, script, &args).wait(LONG).assert_code(3));
    let refusal = &env.events_of("t", "claim_refused")[0];
    assert_has(refusal["detail"].as_str().unwrap(), "secret-[redacted]");
    // The list of the workspace's files has their names as they are: they are compared with it.
    assert_kept_nothing(&env, &["/shadow/"]);
}
