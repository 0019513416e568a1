//! An agent that says itself that it is not signed in is not started.

use std::fs;

use dacapo_testkit::TestEnv;

use crate::{assert_has, dacapo, install, run, world};

/// An agent that is not signed in; it writes down that it was started for work.
const SIGNED_OUT: &str = r#"if [ "$1 $2" = "auth status" ]; then
  echo '{"loggedIn": false, "authMethod": "none"}'
  pwd >"$HOME/asked-in"
  exit 1
fi
touch "$HOME/started""#;

fn was_started(env: &TestEnv) -> bool {
    env.home().join("started").exists()
}

#[test]
fn an_agent_that_says_that_it_is_not_signed_in_stops_the_loop_before_it_starts() {
    let env = world();
    install(&env, "claude", SIGNED_OUT);
    let output = run(&env, ["run", "do it", "--task", "t", "-n", "1"]).assert_code(4);
    insta::assert_snapshot!(env.redact(&output.stdout), @r"
    dacapo: loop [LOOP] · task t · agent claude
      in [WORKSPACE] · no gate: a claim is believed · at most 1 iteration
      claude · all permissions · guard ([TIER])
    stopped after 0 iterations, [DURATION]
      why      Stopped: claude says that it is not signed in (`loggedIn: false`); sign in to claude: run `claude`, then `/login`.
      next     Sign in, then `dacapo resume [LOOP]`.
    ");
    assert!(!was_started(&env));
    let asked_in = fs::read_to_string(env.home().join("asked-in")).expect("it was asked");
    assert_ne!(asked_in.trim(), env.workspace().to_string_lossy(), "not among the files of the work");
    let status = crate::json(&env, ["status", "t", "--json"]);
    assert_eq!((&status[0]["state"], &status[0]["reason"]), (&"stopped".into(), &"auth".into()));
    // Once the user has signed in, the loop goes on where it was.
    let mut resumed = dacapo(&env, ["resume", "t", "-q"]);
    resumed.env("ANTHROPIC_API_KEY", "a-key");
    env.run_command(resumed);
    assert!(was_started(&env), "a key needs no question");
}

#[test]
fn an_absent_file_and_any_other_answer_prove_nothing() {
    for (name, answer) in [
        ("claude", "echo unknown command; exit 1"),
        ("claude", "echo '{\"loggedIn\": true}'; exit 0"),
        ("codex", "echo Logged in using ChatGPT >&2; exit 0"),
        ("codex", "exit 2"),
    ] {
        let env = world();
        let script = format!("[ \"$2\" = status ] && {{ {answer}; }}\ntouch \"$HOME/started\"");
        install(&env, name, &script);
        run(&env, ["run", "do it", "--agent", name, "-n", "1"]);
        assert!(was_started(&env), "{name}: {answer}");
    }
}

#[test]
fn an_agent_that_is_set_up_for_another_provider_needs_no_sign_in() {
    let env = world();
    install(
        &env,
        "codex",
        "[ \"$2\" = status ] && { echo Not logged in >&2; exit 1; }\ntouch \"$HOME/started\"",
    );
    let output = run(&env, ["run", "do it", "--agent", "codex", "-n", "1"]).assert_code(4);
    assert_has(
        &output.stderr,
        "codex says that it is not signed in (`Not logged in`); sign in to codex: run `codex login`",
    );
    assert!(!was_started(&env));
    fs::create_dir(env.home().join(".codex")).expect("a folder");
    fs::write(env.home().join(".codex/config.toml"), "model_provider = \"mine\"\n").expect("a file");
    run(&env, ["run", "do it", "--agent", "codex", "-n", "1"]);
    assert!(was_started(&env));
}
