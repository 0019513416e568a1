//! What people and scripts read: lines, JSON, logs, help.

use std::ffi::OsStr;

use serde_json::Value;

use crate::support::{LONG, Task, assert_has, last_line, world};

#[test]
fn a_short_loop_in_a_pipe_is_a_few_plain_lines() {
    // req 202
    let env = world();
    let script = "@1: exit 1; @2: promise; @3: write fixed; promise";
    let output =
        env.run_loop(script, &["-n", "5", "--allow-empty", "--gate", "test -e fixed"]).assert_code(0);
    insta::assert_snapshot!(without_hash(&env.redact(&output.stdout)), @"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · 1 gate · at most 5 iterations
    iteration 1/5  exit 1, [DURATION] · no claim
    iteration 2/5  exit 0, [DURATION] · claims to be done (promise)
      gate `test -e fixed` exited 1, [DURATION]
      refused: gate `test -e fixed` exited 1
    iteration 3/5  exit 0, [DURATION] · claims to be done (promise)
      gate `test -e fixed` passed, [DURATION]
      accepted
      receipt [SHA] · `dacapo receipt [LOOP]`
    completed after 3 iterations, [DURATION]
      changed  fixed
               1 file changed; in no git repository, so nothing can be put back
      verified by `test -e fixed`
      next     `dacapo receipt [LOOP]` shows the proof
    ");
    insta::assert_snapshot!(
        env.redact(&output.stderr),
        @"dacapo: completed (done): the claim was accepted (promise) [loop [LOOP]]"
    );
}

#[test]
fn a_red_gate_and_a_failed_agent_are_quoted_on_the_screen() {
    let env = world();
    let gate = "for i in 1 2 3 4 5 6 7; do echo line $i; done; echo; exit 1";
    let script = "@1: err no such thing; exit 3; @2: write work; promise; exit 0";
    let output = env.run_loop(script, &["-n", "2", "--gate", gate]).assert_code(3);
    insta::assert_snapshot!(without_hash(&env.redact(&output.stdout)), @"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · 1 gate · at most 2 iterations
    iteration 1/2  exit 3, [DURATION] · no claim
      ! no such thing
    iteration 2/2  exit 0, [DURATION] · claims to be done (promise)
      gate `for i in 1 2 3 4 5 6 7; do echo line $i; done; echo; exit 1` exited 1, [DURATION]
      │ line 3
      │ line 4
      │ line 5
      │ line 6
      │ line 7
      refused: gate `for i in 1 2 3 4 5 6 7; do echo line $i; done; echo; exit 1` exited 1
    failed after 2 iterations, [DURATION]
      changed  work
               1 file changed; in no git repository, so nothing can be put back
      why      Failed: 2 iterations used without an accepted claim. The last claim was refused in iteration 2: gate `for i in 1 2 3 4 5 6 7; do echo line $i; done; echo; exit 1` exited 1.
      next     `dacapo resume [LOOP] -n +10` grants ten more; `dacapo logs [LOOP]` shows what the agent said.
    ");
    let why = env.run(["why", "t"]).assert_code(0).stdout;
    insta::assert_snapshot!(env.redact(&why), @"
    Failed: 2 iterations used without an accepted claim. The last claim was refused in iteration 2: gate `for i in 1 2 3 4 5 6 7; do echo line $i; done; echo; exit 1` exited 1.
    Next: `dacapo resume [LOOP] -n +10` grants ten more; `dacapo logs [LOOP]` shows what the agent said.

    The end of what the gate `for i in 1 2 3 4 5 6 7; do echo line $i; done; echo; exit 1` printed:
      line 1
      line 2
      line 3
      line 4
      line 5
      line 6
      line 7
    ");
}

#[test]
fn an_agent_that_cannot_work_at_all_stops_the_loop_and_shows_what_it_said() {
    // req 91
    let env = world();
    let output = env.run_loop("err unknown option --yolo; exit 2", &["-n", "50"]).assert_code(1);
    assert_eq!(env.events_of("t", "agent_started").len(), 3);
    insta::assert_snapshot!(without_hash(&env.redact(&output.stdout)), @"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · no gate: a claim is believed · at most 50 iterations
    iteration 1/50  exit 2, [DURATION] · no claim
      ! unknown option --yolo
    iteration 2/50  exit 2, [DURATION] · no claim
      ! unknown option --yolo
    iteration 3/50  exit 2, [DURATION] · no claim
      ! unknown option --yolo
    failed after 3 iterations, [DURATION]
      why      Failed: the agent failed at once 3 times in a row and changed nothing: unknown option --yolo.
      next     Mend that, then `dacapo resume [LOOP]`.
    ");
    insta::assert_snapshot!(
        env.redact(&output.stderr),
        @"dacapo: failed (error): the agent failed at once 3 times in a row and changed nothing: unknown option --yolo [loop [LOOP]]"
    );
}

#[test]
fn json_lines_are_the_journal() {
    let env = world();
    let output = env.run_loop("@2: promise", &["--json"]).assert_code(0);
    let printed: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(printed, env.events(Some("t")));
    let seqs: Vec<u64> = printed.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    assert!(printed.iter().all(|event| event["loop"].is_string() && event["type"].is_string()));
    assert_has(last_line(&output), "completed (done)");

    let from = seqs[4].to_string();
    let later = env.run(["events", "t", "--json", "--from", &from]).assert_code(0).stdout;
    assert_eq!(later.lines().count(), seqs.len() - 4);
    assert_has(later.lines().next().unwrap(), &format!("\"seq\":{from},"));
}

#[test]
fn events_carry_the_agreed_keys() {
    let env = world();
    env.run_loop("write work; promise", &["-n", "1", "--gate", "false"]).assert_code(3);
    for (kind, keys) in [
        ("agent_exited", "exit_code signal duration_ms outcome session usage cost_usd reset_at"),
        ("gate_finished", "name command exit_code passed flaky duration_ms output_bytes"),
        ("claim_refused", "reason detail"),
        ("loop_finished", "state reason detail exit_code"),
    ] {
        let event = &env.events_of("t", kind)[0];
        for key in ["seq", "at", "loop"].into_iter().chain(keys.split(' ')) {
            assert!(event.get(key).is_some(), "no `{key}` in {event}");
        }
    }
}

#[test]
fn following_ends_with_the_loop() {
    // req 100
    let env = world();
    let running = env.start_loop("say hello; write ready; wait-file go; say bye; promise", &[]);
    let logs = env.spawn(["logs", "t", "-f"]);
    let events = env.spawn(["events", "t", "-f"]);
    logs.wait_for_line(|line| line == "hello", LONG);
    events.wait_for_line(|line| line.contains("agent fake-agent started"), LONG);
    env.write("go", "");
    running.wait(LONG).assert_code(0);
    assert_has(&logs.wait(LONG).assert_code(0).stdout, "bye\n<promise>DONE</promise>\n");
    assert_has(&events.wait(LONG).assert_code(0).stdout, "completed (done)");
}

#[test]
fn quiet_says_only_how_it_ends_and_verbose_what_the_agent_says() {
    let env = world();
    let output = env.run_loop("say chatter; promise", &["-q"]).assert_code(0);
    assert_eq!(output.stdout, "");
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    let output = env.run_loop("say chatter; err grumble; promise", &["-v"]).assert_code(0);
    assert_has(&output.stdout, "│ chatter");
    assert_has(&output.stdout, "! grumble");
    let output = env.run_loop("say chatter; promise", &[]).assert_code(0);
    assert!(!output.stdout.contains("chatter"), "{}", output.stdout);
}

#[test]
fn logs_are_readable_or_raw_whole_or_of_one_iteration() {
    // req 24, req 96, req 100, fault D3, fault D8
    let env = world();
    env.run_loop("@1: say \\e[31mred\\e[0m \\e]0\\;title\\aplain; err oops; @2: promise", &[]).assert_code(0);
    let logs = |args: &[&str]| env.run(["logs", "t"].iter().chain(args)).assert_code(0).stdout;
    assert_eq!(logs(&[]), "── iteration 1 ──\nred plain\n── iteration 2 ──\n<promise>DONE</promise>\n");
    assert_eq!(logs(&["--raw"]), "\x1b[31mred\x1b[0m \x1b]0;title\x07plain\n<promise>DONE</promise>\n");
    assert_eq!(logs(&["--iteration", "2"]), "── iteration 2 ──\n<promise>DONE</promise>\n");
    assert_eq!(logs(&["--stderr"]), "── iteration 1 ──\noops\n");
    let output = env.run(["logs", "t", "--iteration", "3"]).assert_code(2);
    assert_has(last_line(&output), "has no iteration 3");
}

#[test]
fn a_flood_on_both_streams_is_kept_and_blocks_nobody() {
    // fault D1, fault D2, fault D5
    let env = world();
    let script = "flood-err 2m; flood-out 2m; line 3m; utf8-split; random 100k 7; say; promise";
    env.run_loop(script, &["-n", "1"]).assert_code(0);
    let exit = &env.events_of("t", "agent_exited")[0];
    assert!(exit["stderr_bytes"].as_u64() >= Some(2 << 20), "{exit}");
    assert!(exit["stdout_bytes"].as_u64() >= Some(5 << 20), "{exit}");
    let raw = env.run(["logs", "t", "--stderr", "--raw"]).assert_code(0).stdout;
    assert_eq!(raw.len() as u64, exit["stderr_bytes"].as_u64().unwrap());
}

#[test]
fn explain_prints_the_defaults_and_where_each_value_comes_from() {
    // req 61, req 200
    let env = world();
    let agent = env.agent_cmd();
    let args = ["explain", "run", "do it", "--agent-cmd", &agent, "--poll-interval", "2s", "--json"];
    let explained: Value = serde_json::from_str(&env.run(args).assert_code(0).stdout).unwrap();
    let policy = &explained["policy"];
    for (setting, value, from) in [
        ("wait_timeout", Value::from(300_000), "default"),
        ("poll_interval", 2_000.into(), "--poll-interval"),
        ("max_iterations", 100.into(), "default"),
        ("restart_delay", 1_000.into(), "default"),
        ("kill_grace", 5_000.into(), "default"),
        ("idle_timeout", 1_800_000.into(), "default"),
        ("iteration_timeout", Value::Null, "default"),
    ] {
        assert_eq!(
            (&policy[setting]["value"], &policy[setting]["from"]),
            (&value, &from.into()),
            "{setting}"
        );
    }
    let argv: Vec<&str> = explained["argv"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(argv.join(" "), agent);
    assert_eq!(env.starts(), 0);

    let args = ["explain", "run", "do it", "--agent-cmd", "sh -c {prompt}", "-n", "7", "--", "-x"];
    let text = env.run(args).assert_code(0).stdout;
    assert_has(&text, r#"argv         ["sh","-c","<the prompt>","-x"]"#);
    let line = text.lines().find(|line| line.starts_with("max_iterations")).unwrap();
    assert!(line.contains(" 7 ") && line.ends_with("--max-iterations"), "{line}");
    // Nothing was made.
    assert!(!env.dacapo_home().exists());
}

#[test]
fn every_command_has_an_example_in_its_help() {
    let env = world();
    let help = env.run(["--help"]).assert_code(0).stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() >= 15, "{commands:?}");
    for command in commands {
        let help = env.run([command, "--help"]).assert_code(0).stdout;
        // One or several.
        assert_has(&help.replace("Examples:", "Example:"), &format!("Example:\n  dacapo {command}"));
    }
    assert_has(&help, "Exit codes: ");
}

#[test]
fn completions_are_printed_without_any_state() {
    let env = world();
    for shell in ["bash", "zsh", "fish"] {
        let output = env.run(["completions", shell]).assert_code(0);
        assert_has(&output.stdout, "dacapo");
    }
    assert!(!env.dacapo_home().exists());
}

#[test]
fn every_command_of_the_reference_has_its_manual_page() {
    let env = world();
    let folder = env.root().join("man/man1");
    let mut command = env.dacapo([OsStr::new("man-pages"), folder.as_os_str()]);
    command.env_remove("HOME").env_remove("DACAPO_HOME").env_remove("XDG_STATE_HOME");
    assert_eq!(env.run_command(command).assert_code(0).stdout, "");
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    let mut commands: Vec<String> = reference
        .lines()
        .filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'))
        .map(|command| format!("{}.1", command.replace(' ', "-")))
        .collect();
    let mut pages: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    commands.sort();
    pages.sort();
    assert_eq!(pages, commands);
    assert_has(&std::fs::read_to_string(folder.join("dacapo-pause.1")).unwrap(), "dacapo pause fix\\-tests");
    let output = env.run(["man-pages", "/proc/man"]).assert_code(5);
    assert_has(&output.stderr, "dacapo: cannot write manual pages to `/proc/man`");
    assert!(!env.run(["--help"]).assert_code(0).stdout.contains("man-pages"));
}

#[test]
fn the_demo_shows_a_refused_promise_and_needs_nothing() {
    let env = world();
    let output = env.run(["demo"]).assert_code(0);
    let id = last_line(&output).rsplit(['[', ' ', ']']).nth(1).unwrap();
    let folder = output.stdout.split('/').find(|part| part.starts_with("dacapo-demo-")).unwrap();
    let stdout = output.stdout.replace(id, "[LOOP]").replace(folder, "[FOLDER]");
    let (loop_itself, receipt) = stdout.split_once("\n\nReceipt of loop ").unwrap();
    for part in ["verified", "sh check.sh", "refused"] {
        assert_has(receipt, part);
    }
    assert_has(receipt, "dacapo run \"what to do\" --agent-cmd");
    insta::assert_snapshot!(without_hash(&env.redact(loop_itself)), @r#"
    A scripted agent is asked for a program that greets; `sh check.sh` is the gate.
    In its second iteration it will promise more than it did.

    dacapo: loop [LOOP] · task write-a-greeter · agent scripted-agent
      in [DACAPO_HOME]/demo/[FOLDER]/greeter · 1 gate · at most 5 iterations
    iteration 1/5  exit 0, [DURATION] · no claim
    iteration 2/5  exit 0, [DURATION] · claims to be done (promise)
      gate `sh check.sh` exited 1, [DURATION]
      │ ok: greet.sh Ada
      │ greet.sh : expected 'Hello, world!', got 'Hello, !'
      refused: gate `sh check.sh` exited 1
    iteration 3/5  exit 0, [DURATION] · claims to be done (promise)
      gate `sh check.sh` passed, [DURATION]
      accepted
      receipt [SHA] · `dacapo receipt [LOOP]`
    completed after 3 iterations, [DURATION]
    "#);
    assert_has(last_line(&output), "completed (done)");
    // What happened can be read and checked again: its repository stays.
    let again = env.run(["receipt"]).assert_code(0).stdout;
    assert!(output.stdout.contains(again.trim_end()), "{again}");
    for (command, words) in [
        ("why", "Completed: the claim of iteration 3 passed 1 gate."),
        ("verify", "is sound."),
        ("diff", "+echo \"Hello, ${1:-world}!\""),
        ("status", "completed (done) after 3 iterations"),
        ("logs", "── iteration 3 ──"),
        ("snapshots", "before the first iteration"),
    ] {
        assert_has(&env.run([command]).assert_code(0).stdout, words);
    }
    // Without it the receipt is still what was issued, and no gate can say so again.
    std::fs::remove_dir_all(env.dacapo_home().join("demo")).unwrap();
    let unchecked = env.run(["verify"]).assert_code(1).stdout;
    assert_has(&unchecked, "NOT CHECKED: cannot check the files again: the workspace");
    assert_has(&unchecked, "; the receipt itself and its journal are as they were issued");
    assert!(!unchecked.contains("NOT SOUND"), "{unchecked}");
    assert_eq!(std::fs::read_dir(env.root().join("tmp")).unwrap().count(), 0);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

/// The beginning of a receipt's hash may look like anything.
pub(crate) fn without_hash(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("  receipt ").and_then(|rest| rest.split_once(' ')) {
        Some((_, rest)) => format!("  receipt [SHA] {rest}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn every_way_to_ask_for_help_says_what_each_command_does() {
    let env = world();
    for args in [&["--help"][..], &["-h"], &["help"], &[]] {
        let output = env.run(args);
        let text = format!("{}{}", output.stdout, output.stderr);
        assert_has(
            &text,
            "  run          Run one loop: start an agent again and again until the work is done",
        );
        assert_has(&text, "  completions  Print the completion script of a shell");
    }
    assert_has(&env.run(["unit", "--help"]).assert_code(0).stdout, "Show units, how far they are");
    assert_has(&env.run(["help", "run"]).assert_code(0).stdout, "--max-iterations <N>");
}
