//! How many processes of git a loop costs, counted by a `git` on PATH that keeps a list.

use std::{fs, os::unix::fs::PermissionsExt as _};

use dacapo_testkit::TestEnv;

use crate::support::*;

/// A world whose `git` writes down what it is asked; agents and gates write `AGENT` and `GATE` between.
fn counted() -> TestEnv {
    let env = repository();
    env.write("src/lib.py", "def test_a():\n    assert one() == 1\n");
    let real = env.sh("command -v git").stdout;
    let log = env.root().join("git.log");
    env.write("gate.sh", format!("echo GATE >>{}; grep -q fixed work.txt\n", log.display()));
    env.write("real", real.trim());
    env.git(["add", "-A"]);
    env.git(["commit", "-q", "-m", "sources"]);
    // One line per call, whatever its arguments hold.
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$(echo \"$@\" | tr '\\n' ' ')\" >>{}\nexec {} \"$@\"\n",
        log.display(),
        real.trim()
    );
    let wrapper = env.root().join("bin/git");
    fs::write(&wrapper, script).expect("a script");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("permissions");
    env
}

/// The subcommands of each stretch between two marks, first to last.
fn stretches(env: &TestEnv) -> Vec<(String, Vec<String>)> {
    let log = fs::read_to_string(env.root().join("git.log")).expect("a list");
    let mut all = vec![("START".to_owned(), Vec::new())];
    for line in log.lines() {
        if matches!(line, "AGENT" | "GATE") {
            all.push((line.to_owned(), Vec::new()));
            continue;
        }
        // Fault K3: nothing the repository planted may run, in no call at all.
        for setting in ["core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat"] {
            assert!(line.contains(setting), "not hardened: {line}");
        }
        let mut words = line.split(' ');
        let mut subcommand = words.next().unwrap_or_default();
        while subcommand == "-c" {
            words.next();
            subcommand = words.next().unwrap_or_default();
        }
        all.last_mut().expect("a stretch").1.push(subcommand.to_owned());
    }
    all
}

/// What the end of a loop asks, once, to list the changed files.
const END: [&str; 2] = ["diff-tree", "rev-parse"];

fn after(env: &TestEnv, mark: &str) -> Vec<Vec<String>> {
    stretches(env).into_iter().filter(|(name, _)| name == mark).map(|(_, calls)| calls).collect()
}

fn agent(env: &TestEnv, work: &str) -> String {
    let log = env.root().join("git.log");
    format!("echo AGENT >>{}\n{work}", log.display())
}

#[test]
fn an_iteration_without_a_claim_is_one_process_or_two() {
    let env = counted();
    let work = agent(&env, "if [ $DACAPO_ITERATION = 2 ]; then echo more >>work.txt; fi");
    env.loop_of(&work, &["-n", "4", "--gate", "sh gate.sh"]).assert_code(3);
    let last = [&["add"][..], &END].concat();
    assert_eq!(after(&env, "AGENT"), [vec!["add"], vec!["add", "commit"], vec!["add"], last]);
}

#[test]
fn a_claim_is_three_processes_beyond_its_snapshot_at_most() {
    let fix = "echo fixed >work.txt";
    let source = "echo fixed >work.txt; echo '# more' >>src/lib.py";
    let commit = "echo fixed >work.txt; echo '# more' >>src/lib.py; $(cat real) commit -qam mine";
    for (what, work, snapshot, judged) in [
        ("a claim with a change", fix, vec!["add", "commit"], vec!["diff-tree"]),
        ("sources that may hold tests", source, vec!["add", "commit"], vec!["diff-tree", "cat-file"]),
        ("committed by the agent", commit, vec!["add", "commit"], vec!["diff-tree", "cat-file"]),
    ] {
        let env = counted();
        let work = agent(&env, &format!("{work}\n{PROMISE}"));
        env.loop_of(&work, &["-n", "2", "--gate", "sh gate.sh"]).assert_code(0);
        assert_eq!(after(&env, "AGENT"), [[snapshot, judged].concat()], "{what}");
        // Where there are commits, the end also asks whether they hold all there is.
        let commits: &[&str] = if what.contains("agent") { &["rev-parse"] } else { &[] };
        assert_eq!(after(&env, "GATE"), [[&["diff"][..], &END, commits].concat()], "{what}");
        let commits = env.receipt()["commits"].as_array().map_or(0, Vec::len);
        assert_eq!(commits, usize::from(what.contains("agent")), "{what}");
    }
}

#[test]
fn a_claim_without_a_change_asks_nothing_beyond_the_snapshot() {
    let env = counted();
    env.write("work.txt", "fixed\n");
    let work = agent(&env, PROMISE);
    env.loop_of(&work, &["-n", "1", "--allow-empty", "--gate", "sh gate.sh"]).assert_code(0);
    assert_eq!(after(&env, "AGENT"), [["add"]]);
    assert_eq!(after(&env, "GATE"), [["diff"]]);
}

#[test]
fn dacapos_own_commit_is_four_more() {
    let env = counted();
    let work = agent(&env, &format!("echo fixed >work.txt\n{PROMISE}"));
    env.loop_of(&work, &["-n", "1", "--gate", "sh gate.sh", "--commit"]).assert_code(0);
    let commit = ["commit-tree", "update-ref", "read-tree", "update-index"];
    assert_eq!(after(&env, "GATE"), [[&["diff"][..], &commit, &END, &["rev-parse"]].concat()]);
}

#[test]
fn a_claim_by_a_command_is_judged_on_what_the_command_left() {
    // What was kept when the agent ended is not what is there after the command.
    let env = counted();
    let work = agent(&env, "echo more >>work.txt");
    let until = "echo fixed >>work.txt; echo GATE >>../git.log";
    env.loop_of(&work, &["-n", "1", "--until-cmd", until, "--gate", "sh gate.sh"]).assert_code(0);
    let receipt = env.receipt();
    let tree = receipt["tree"].as_str().expect("a tree");
    assert!(env.git(["show", &format!("{tree}:work.txt")]).contains("fixed"));
}
