//! Consent: given, kept, asked for again, withdrawn.

use std::fs;

use crate::{CONFIG, configured, has_canary, in_terminal, run, run_line};

const GATE: &str =
    "# words\ngates: [{name: check, run: touch canary}]\nlimits: {max_iterations: 7}\nprotect: [tests/**]\n";

#[test]
fn without_a_terminal_the_command_to_type_is_named() {
    // fault K1
    let env = configured(GATE);
    let output = run(&env, &[]).assert_code(4);
    insta::assert_snapshot!(env.redact(&output.stderr), @r"
    [WORKSPACE] can make dacapo run:
      gate check: touch canary  (.dacapo/config.yaml:2)
    dacapo: untrusted: this repository defines commands, and you have not trusted it
    hint: `dacapo trust` shows and asks; `--trust` agrees for this run only
    ");
    assert!(env.ledger().is_empty() && !has_canary(&env));
    let elsewhere = env.root().join("tmp");
    let agent = env.agent_cmd();
    let mut command = env.dacapo(["run", "do it", "--agent-cmd", &agent, "--dir"]);
    command.arg(env.workspace()).current_dir(elsewhere);
    let output = env.run_command(command).assert_code(4);
    let exact = format!("`dacapo trust --dir {}`", env.workspace().display());
    assert!(output.stderr.contains(&exact), "{}", output.stderr);
}

#[test]
fn consent_survives_and_covers_what_runs_and_only_that() {
    // fault K1, fault K2
    let env = configured(GATE);
    let output = env.run(["trust"]).assert_code(4);
    assert!(output.stderr.contains("`dacapo trust --yes`"), "{}", output.stderr);
    env.run(["trust", "--yes"]).assert_code(0);
    run(&env, &[]).assert_code(0);
    assert!(has_canary(&env));
    // Prose, limits and further protected paths are none of consent's business.
    let more =
        GATE.replace("7", "8").replace("# words", "# other\n\n# words").replace("tests/**", "tests/**, '?x'");
    env.write(CONFIG, more);
    run(&env, &[]).assert_code(0);
    // One byte of a command is.
    fs::remove_file(env.workspace().join("canary")).unwrap();
    env.write(CONFIG, GATE.replace("touch canary", "touch canarY").replace("tests/**", "tests/**, '?x'"));
    let output = run(&env, &[]).assert_code(4);
    insta::assert_snapshot!(env.redact(&output.stderr), @r"
    The commands of [WORKSPACE] have changed since you trusted it:
      - gate check: touch canary  (.dacapo/config.yaml:2)
      + gate check: touch canarY  (.dacapo/config.yaml:2)
    It can now make dacapo run:
      gate check: touch canarY  (.dacapo/config.yaml:2)
    dacapo: untrusted: the commands of this repository have changed since you trusted it
    hint: `dacapo trust` shows and asks; `--trust` agrees for this run only
    ");
    assert!(!env.workspace().join("canarY").exists());
    // With the commands that were agreed to, it goes on.
    env.write(CONFIG, GATE.replace("tests/**", "'?x', tests/**"));
    run(&env, &[]).assert_code(0);
    // A pattern that may match nothing asks for as much as one that has to match.
    for protect in ["'?x', '?tests/**'", "tests/**, '?x'"] {
        env.write(CONFIG, GATE.replace("tests/**", protect));
        run(&env, &[]).assert_code(0);
    }
    assert!(env.run(["trust", "--revoke"]).assert_code(0).stdout.contains("withdrawn"));
    run(&env, &[]).assert_code(4);
}

#[test]
fn a_configuration_that_asks_for_less_asks_the_user() {
    // The class: a check, a protected path or a stricter word is gone, or the whole file is.
    let full = "gates: [\"true\"]\nprotect: [tests/**, lib]\ntests: {mode: sealed}\n";
    for (less, said) in [
        ("gates: [\"true\"]\nprotect: [tests/**, lib]\n", "- tests.mode: sealed"),
        ("gates: [\"true\"]\nprotect: [lib]\ntests: {mode: sealed}\n", "- protect: tests/**"),
        ("gates: []\nprotect: [tests/**, lib]\ntests: {mode: sealed}\n", "- gate: true"),
        ("", "- gate: true"),
        ("gone", "- gate: true"),
    ] {
        let env = configured(full);
        env.run(["trust", "--yes"]).assert_code(0);
        run(&env, &[]).assert_code(0);
        if less == "gone" {
            fs::remove_dir_all(env.workspace().join(".dacapo")).unwrap();
        } else {
            env.write(CONFIG, less);
        }
        let output = run(&env, &[]).assert_code(4);
        assert!(output.stderr.contains(said), "{less}: {}", output.stderr);
        assert!(output.stderr.contains("asks for less proof than it did"), "{}", output.stderr);
        // Asked in a terminal, for this run, or once for all.
        run(&env, &["--trust"]).assert_code(0);
        assert!(env.run(["trust", "--show"]).assert_code(0).stdout.contains(said), "{less}");
        env.run(["trust", "--yes"]).assert_code(0);
        run(&env, &[]).assert_code(0);
        // Branches that differ: more needs no consent, and what was agreed to once is agreed to.
        env.write(CONFIG, full);
        if less.starts_with("gates: [\"") {
            run(&env, &[]).assert_code(0);
            env.write(CONFIG, less);
            run(&env, &[]).assert_code(0);
        }
    }
}

#[test]
fn what_is_asked_for_without_a_command_is_remembered_too() {
    let env = configured("protect: [tests/**]\n");
    run(&env, &[]).assert_code(0);
    env.write(CONFIG, "limits: {max_iterations: 9}\n");
    let output = run(&env, &[]).assert_code(4);
    assert!(output.stderr.contains("- protect: tests/**"), "{}", output.stderr);
    let output = in_terminal(&env, &run_line(&env, "-q"), "y\n").assert_code(0);
    assert!(output.stdout.contains("[y/N]"), "{}", output.stdout);
    run(&env, &[]).assert_code(0);
}

#[test]
fn trust_for_one_run_is_not_kept() {
    let env = configured(GATE);
    run(&env, &["--trust"]).assert_code(0);
    assert!(has_canary(&env));
    assert!(!env.dacapo_home().join("trust").exists());
    run(&env, &[]).assert_code(4);
}

#[test]
fn a_terminal_is_asked_and_only_yes_is_yes() {
    for (input, code, is_kept) in
        [("y\n", 0, true), ("yes\n", 0, true), ("n\n", 4, false), ("\n", 4, false), ("", 4, false)]
    {
        let env = configured(GATE);
        let output = in_terminal(&env, "trust", input).assert_code(code);
        assert!(
            output.stdout.contains("gate check: touch canary  (.dacapo/config.yaml:2)"),
            "{}",
            output.stdout
        );
        assert!(output.stdout.contains("[y/N]"), "{}", output.stdout);
        assert_eq!(run(&env, &[]).code == Some(0), is_kept, "{input:?}");
        assert_eq!(has_canary(&env), is_kept, "{input:?}");
    }
}

#[test]
fn a_run_in_a_terminal_asks_on_the_spot() {
    let env = configured(GATE);
    let line = run_line(&env, "-q");
    let output = in_terminal(&env, &line, "n\n").assert_code(4);
    assert!(output.stdout.contains("untrusted: you did not agree"), "{}", output.stdout);
    assert!(env.ledger().is_empty());
    let output = in_terminal(&env, &line, "y\n").assert_code(0);
    assert!(output.stdout.contains("can make dacapo run:"), "{}", output.stdout);
    let output = in_terminal(&env, &line, "").assert_code(0);
    assert!(!output.stdout.contains("[y/N]"), "{}", output.stdout);
}

#[test]
fn a_folder_in_the_place_of_another_is_not_trusted() {
    let env = configured(GATE);
    env.run(["trust", "--yes"]).assert_code(0);
    fs::rename(env.workspace(), env.root().join("old")).unwrap();
    fs::create_dir(env.workspace()).unwrap();
    env.git_init().write(CONFIG, GATE);
    run(&env, &[]).assert_code(4);
    assert!(!has_canary(&env));
}

#[test]
fn a_resumed_loop_needs_consent_to_what_it_keeps() {
    // The gate is red, so that there is something to resume.
    let env = configured("gates: [\"echo >> canary; false\"]\n");
    run(&env, &["--trust", "-n", "1", "--task", "t"]).assert_code(3);
    assert_eq!(env.read("canary"), "\n");
    let output = env.run(["resume", "t", "-n", "+1"]).assert_code(4);
    assert!(output.stderr.contains("gate: echo >> canary; false"), "{}", output.stderr);
    assert!(output.stderr.contains("`dacapo resume"), "{}", output.stderr);
    assert_eq!(env.read("canary"), "\n");
    env.run(["resume", "t", "-n", "+1", "--trust"]).assert_code(3);
    assert_eq!(env.read("canary"), "\n\n");
    // Consent to the same commands covers it, whatever the agent made of the file meanwhile.
    env.run(["trust", "--yes"]).assert_code(0);
    env.write(CONFIG, "gates: [touch other]\n");
    env.run(["resume", "t", "-n", "+1"]).assert_code(3);
    assert_eq!(env.read("canary"), "\n\n\n");
    assert!(!env.workspace().join("other").exists());
}

#[test]
fn a_loop_in_the_background_is_asked_about_before_it_goes_there() {
    let env = configured(GATE);
    let output = run(&env, &["--detach"]).assert_code(4);
    assert!(output.stderr.contains("untrusted: "), "{}", output.stderr);
    assert!(env.ledger().is_empty() && !has_canary(&env));
}

#[test]
fn what_could_run_is_shown_for_people_and_scripts() {
    let env = configured(
        "gates:\n  - {name: tests, run: cargo test, timeout: 10m}\n  - |\n    set -e\n    make lint\n\
         worktree:\n  setup: [{run: npm ci, if: package-lock.json}]\n",
    );
    env.write(".claude/settings.json", "{}").write(".mcp.json", "{}").write("AGENTS.md", "");
    let shown = env.run(["trust", "--show"]).assert_code(0);
    insta::assert_snapshot!(env.redact(&shown.stdout), @r"
    [WORKSPACE] can make dacapo run:
      gate tests: cargo test  (.dacapo/config.yaml:2, at most [DURATION])
      gate: (.dacapo/config.yaml:4)
          set -e
          make lint
      setup: npm ci  (.dacapo/config.yaml:7, if package-lock.json exists)
    It also speaks to agents, which follow it by their own rules: .claude/, .mcp.json, AGENTS.md
    Not trusted: none of it runs. `dacapo trust` agrees to it.
    ");
    let json = env.run(["trust", "--show", "--json"]).assert_code(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["state"], "untrusted");
    assert_eq!(json["commands"][0]["command"], "cargo test");
    assert_eq!(json["commands"][0]["timeout_ms"], 600_000);
    assert_eq!(json["commands"][2]["if"], "package-lock.json");
    assert_eq!(json["agent_configuration"], serde_json::json!([".claude/", ".mcp.json", "AGENTS.md"]));
    env.run(["trust", "--yes"]).assert_code(0);
    let json = env.run(["trust", "--show", "--json"]).assert_code(0).stdout;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["state"], "trusted");
    let nothing = crate::env();
    insta::assert_snapshot!(nothing.run(["trust"]).assert_code(0).stdout, @"Nothing to trust: no .dacapo/config.yaml here defines a command.");
}
