//! `receipt`, `verify`, `snapshots`, `restore` and `clean` as a person uses them.

use std::fs;

use dacapo_testkit::TestEnv;
use serde_json::Value;

use crate::support::{LONG, PROMISE, World, assert_has, project, repository};

/// A repository with a loop in it that was refused once and is done.
fn done() -> TestEnv {
    let env = repository();
    let agent = format!(
        "if [ $DACAPO_ITERATION = 1 ]; then echo try >work.txt; touch one; else echo fixed >work.txt; rm one; touch two; fi; {PROMISE}"
    );
    env.loop_of(&agent, &["-n", "3", "--gate", "./check.sh", "--protect", "tests/**"]).assert_code(0);
    env
}

#[test]
fn a_receipt_is_readable_and_says_what_was_refused() {
    let env = done();
    let output = env.run(["receipt", "t"]).assert_code(0).stdout;
    for part in [
        "task t: verified",
        "gate        `./check.sh` exited 0",
        "refused     iteration 1: gate",
        "protected   tests/a.test",
    ] {
        assert_has(&output, part);
    }
    let receipt = env.receipt();
    let fields: Vec<&String> = receipt.as_object().unwrap().keys().collect();
    for name in [
        "loop",
        "task",
        "claim",
        "verdict",
        "base",
        "tree",
        "commits",
        "gates",
        "baseline",
        "protected",
        "tamper",
        "refusals",
        "iterations",
        "tokens",
        "cost_usd",
        "started_at",
        "ended_at",
        "versions",
        "previous",
        "sha256",
    ] {
        assert!(fields.iter().any(|field| *field == name), "no {name}");
    }
}

#[test]
fn a_loop_without_a_verdict_has_no_receipt_and_says_why() {
    let env = repository();
    env.loop_of("exit", &["-n", "1", "--gate", "true"]).assert_code(3);
    for command in ["receipt", "verify"] {
        let output = env.run([command, "t"]).assert_code(1);
        assert_has(&output.stderr, "has no receipt: it is failed (max_iterations)");
    }
    env.run(["receipt", "nobody"]).assert_code(2);
}

#[test]
fn a_sound_receipt_is_verified_by_running_its_gates_again() {
    let env = done();
    env.sh("echo broken >work.txt").assert_code(0);
    let before = env.git(["status", "--porcelain"]);
    let output = env.run(["verify", "t"]).assert_code(0);
    assert_has(&output.stdout, "is sound");
    assert_eq!(env.git(["status", "--porcelain"]), before, "the user's files are not touched");
    let json: Value =
        serde_json::from_str(&env.run(["verify", "t", "--json"]).assert_code(0).stdout).unwrap();
    assert_eq!((&json["sound"], &json["gates"][0]["now"]), (&true.into(), &0.into()));
    let left = fs::read_dir(env.root().join("tmp")).unwrap().count();
    assert_eq!(left, 0, "scratch folders are removed");
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn an_edited_receipt_is_found_and_the_field_is_named() {
    let env = done();
    let file = env.root().join("receipt.json");
    let name = file.to_str().unwrap();
    let text = env.run(["receipt", "t", "--json"]).assert_code(0).stdout;
    fs::write(&file, &text).unwrap();
    env.run(["verify", name]).assert_code(0);
    type Edit = fn(&mut Value);
    let edits: [(&str, Edit); 6] = [
        ("verdict", |r| r["verdict"] = "perfect".into()),
        ("iterations", |r| r["iterations"] = 1.into()),
        ("refusals", |r| r["refusals"] = serde_json::json!([])),
        ("gates", |r| r["gates"][0]["command"] = "true".into()),
        ("bonus", |r| r["bonus"] = 1.into()),
        ("task", |r| drop(r.as_object_mut().unwrap().remove("task"))),
    ];
    for (field, edit) in edits {
        let mut receipt: Value = serde_json::from_str(&text).unwrap();
        edit(&mut receipt);
        fs::write(&file, receipt.to_string()).unwrap();
        let output = env.run(["verify", name]).assert_code(1);
        assert_has(&output.stdout, &format!("altered since it was issued: `{field}`"));
        // Where the journal is not at hand, the hash alone tells.
        let mut elsewhere = env.dacapo(["verify", name]);
        elsewhere.env("DACAPO_HOME", env.root().join("elsewhere"));
        assert_has(&env.run_command(elsewhere).assert_code(1).stdout, "it was altered");
    }
    fs::write(&file, &text).unwrap();
    let mut elsewhere = env.dacapo(["verify", name]);
    elsewhere.env("DACAPO_HOME", env.root().join("elsewhere"));
    assert_has(&env.run_command(elsewhere).assert_code(0).stdout, "only the receipt's own hash was checked");
    fs::write(&file, "{}").unwrap();
    assert_has(&env.run(["verify", name]).assert_code(1).stderr, "is no receipt");
    assert_has(&env.run(["verify", "./nowhere.json"]).assert_code(2).stderr, "cannot read");
}

#[test]
fn a_receipt_in_this_folder_is_named_as_any_file_is_and_a_loop_of_that_name_comes_first() {
    let env = done();
    let text = env.run(["receipt", "t", "--json"]).assert_code(0).stdout;
    for file in ["receipt.json", "proof"] {
        env.write(file, &text);
        assert_has(&env.run(["verify", file]).assert_code(0).stdout, "is sound");
        env.write(file, text.replace("\"exit_code\":0", "\"exit_code\":1"));
        assert_has(&env.run(["verify", file]).assert_code(1).stdout, "altered since it was issued");
    }
    env.write("t", "no receipt");
    assert_has(&env.run(["verify", "t"]).assert_code(0).stdout, "is sound");
    assert_has(&env.run(["verify", "nowhere.json"]).assert_code(2).stderr, "cannot read `nowhere.json`");
}

#[test]
fn a_gate_that_is_red_in_a_fresh_checkout_is_told_with_its_words() {
    let env = repository();
    env.write(".gitignore", "luck\n");
    let agent = format!("echo x >>work.txt; touch luck; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "test -e luck || { echo no luck; exit 7; }"]).assert_code(0);
    let output = env.run(["verify", "t"]).assert_code(1).stdout;
    assert_has(&output, "exits 7 in a fresh checkout, the receipt says 0");
    assert_has(&output, "no luck");
}

#[test]
fn a_vanished_snapshot_repository_or_folder_is_one_clear_line() {
    let env = done();
    let id = env.id();
    env.sh(&format!(
        "git update-ref -d refs/dacapo/{id}; git reflog expire --expire=now --all; git gc -q --prune=now"
    ))
    .assert_code(0);
    assert_has(&env.run(["verify", "t"]).assert_code(1).stdout, "is not in the repository any more");
    env.sh("rm -rf .git").assert_code(0);
    assert_has(&env.run(["verify", "t"]).assert_code(1).stdout, "is gone");
    fs::rename(env.workspace(), env.root().join("moved")).unwrap();
    fs::create_dir(env.workspace()).unwrap();
    fs::remove_dir(env.workspace()).unwrap();
    let mut verify = env.dacapo(["verify", "t"]);
    verify.current_dir(env.root());
    let output = env.run_command(verify).assert_code(1);
    assert_has(&output.stdout, "is gone");
    assert!(!output.stdout.contains("panicked") && output.stdout.lines().count() == 1, "{}", output.stdout);
}

#[test]
fn a_plain_folder_is_verified_as_long_as_it_is_what_it_was() {
    let env = project();
    let agent = format!("echo fixed >work.txt; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh"]).assert_code(0);
    env.run(["verify", "t"]).assert_code(0);
    env.sh("echo more >>work.txt").assert_code(0);
    assert_has(&env.run(["verify", "t"]).assert_code(1).stdout, "is a plain folder and has changed since");
    assert_has(&env.run(["restore", "t@0"]).assert_code(1).stderr, "cannot be put back");
}

#[test]
fn snapshots_are_listed_and_put_back_and_that_is_undone() {
    let env = done();
    let lines = env.run(["snapshots", "t"]).assert_code(0).stdout;
    assert_eq!(lines.lines().count(), 3, "{lines}");
    let json: Value =
        serde_json::from_str(&env.run(["snapshots", "t", "--json"]).assert_code(0).stdout).unwrap();
    let told: Vec<(u64, u64)> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["iteration"].as_u64().unwrap(), line["changed"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [(0, 0), (1, 2), (2, 3)]);
    let head = env.git(["rev-parse", "HEAD"]);
    let there = |name: &str| env.workspace().join(name).exists();
    env.sh("echo mine >mine").assert_code(0);
    assert_has(&env.run(["restore", "t@1"]).assert_code(0).stdout, "@undo` takes that back");
    assert_eq!(
        (env.read("work.txt").as_str(), there("one"), there("two"), there("mine")),
        ("try\n", true, false, false)
    );
    env.run(["restore", "t@undo"]).assert_code(0);
    assert_eq!(
        (env.read("work.txt").as_str(), there("one"), there("two"), there("mine")),
        ("fixed\n", false, true, true)
    );
    env.run(["restore", "t@undo"]).assert_code(0);
    assert_eq!(env.read("work.txt"), "try\n", "an undo can be undone");
    env.run(["restore", "t@0"]).assert_code(0);
    assert_eq!(
        (env.read("work.txt").as_str(), env.git(["status", "--porcelain"]).as_str()),
        ("broken\n", "")
    );
    assert_has(&env.run(["restore", "t@0"]).assert_code(0).stdout, "already");
    env.run(["restore", "t@undo"]).assert_code(0);
    assert_eq!(env.read("work.txt"), "try\n", "what changed nothing leaves nothing to undo");
    assert_eq!(env.git(["rev-parse", "HEAD"]), head);
    for bad in ["t", "t@", "t@x", "t@-1", "t@9", "nobody@1"] {
        env.run(["restore", bad]).assert_code(2);
    }
}

#[test]
fn nothing_is_restored_before_there_was_a_restore_or_while_a_loop_runs_there() {
    let env = done();
    assert_has(&env.run(["restore", "t@undo"]).assert_code(1).stderr, "nothing to undo");
    let args = env.args_of("touch ready; sleep 100", &["--gate", "true", "--task", "other"]);
    let args: Vec<_> = args.into_iter().collect();
    let mut without = Vec::new();
    let mut skip = false;
    for (n, arg) in args.iter().enumerate() {
        if skip {
            skip = false;
        } else if arg == "--task" && args.get(n + 1).is_some_and(|next| next == "t") {
            skip = true;
        } else {
            without.push(arg.clone());
        }
    }
    let running = env.spawn(without);
    let ready = env.workspace().join("ready");
    env.wait_until("the agent runs", LONG, || ready.exists());
    let output = env.run(["restore", "t@0"]).assert_code(5);
    assert_has(&output.stderr, "(task other) works in");
    assert_eq!(env.read("work.txt"), "fixed\n");
    drop(running);
}

#[test]
fn clean_forgets_snapshots_of_cancelled_loops_and_keeps_receipts_and_what_can_be_resumed() {
    let env = done();
    let proven = env.id();
    env.loop_of("echo x >>lib.sh", &["-n", "1", "--gate", "false"]).assert_code(3);
    let resumable = env.id();
    env.loop_of("echo y >>lib.sh", &["-n", "1", "--gate", "false"]).assert_code(3);
    let cancelled = env.id();
    env.run(["cancel", &cancelled]).assert_code(0);
    let refs = || env.git(["for-each-ref", "--format=%(refname)", "refs/dacapo/"]);
    assert!([&proven, &resumable, &cancelled].iter().all(|id| refs().contains(id.as_str())), "{}", refs());
    env.run(["clean", "--older-than", "1d"]).assert_code(0);
    assert!(refs().contains(&cancelled), "it is not old");
    let dry = env.run(["clean", "--older-than", "0s", "--dry-run", "--json"]).assert_code(0).stdout;
    let dry: Value = serde_json::from_str(&dry).unwrap();
    assert_eq!(dry["snapshots"], serde_json::json!([cancelled]));
    assert!(refs().contains(&cancelled), "it was only asked");
    assert_has(
        &env.run(["clean", "--older-than", "0s"]).assert_code(0).stdout,
        "Removed the snapshots of 1 loop",
    );
    assert!(!refs().contains(&cancelled), "{}", refs());
    assert!(refs().contains(&proven) && refs().contains(&resumable), "{}", refs());
    env.run(["verify", &proven]).assert_code(0);
    env.run(["resume", &resumable, "-n", "+1"]).assert_code(3);
}

#[test]
fn clean_follows_the_configured_age_unless_one_is_typed() {
    let env = repository();
    env.loop_of("echo y >>lib.sh", &["-n", "1", "--gate", "false"]).assert_code(3);
    env.run(["cancel", "t"]).assert_code(0);
    let is_kept = || !env.git(["for-each-ref", "refs/dacapo/"]).is_empty();
    let clean = |typed: &[&str]| env.run([&["clean"], typed].concat()).assert_code(0).stdout;
    clean(&[]);
    assert!(is_kept(), "it is younger than 30 days");
    // A file that makes no sense is a reason to keep, and said.
    env.write(".dacapo/config.yaml", "snapshots: {keep: for ever}\n");
    assert_has(&clean(&[]), "stay: .dacapo/config.yaml:1:19: `snapshots.keep` must be a duration");
    assert!(is_kept());
    env.write(".dacapo/config.yaml", "snapshots: {keep: 1ms}\n");
    clean(&["--older-than", "365d"]);
    assert!(is_kept(), "what is typed outranks a file");
    let mine = env.home().join(".config/dacapo/config.yaml");
    std::fs::create_dir_all(mine.parent().unwrap()).unwrap();
    std::fs::write(&mine, "snapshots: {keep: 9d}\n").unwrap();
    clean(&[]);
    assert!(is_kept(), "the user's own file outranks the repository's");
    std::fs::remove_file(mine).unwrap();
    assert_has(&clean(&[]), "Removed the snapshots of 1 loop");
    assert!(!is_kept());
    let output = env.loop_of("true", &["-n", "1"]).assert_code(3);
    assert!(!output.stderr.contains("no effect"), "{}", output.stderr);
}

#[test]
fn clean_removes_worktrees_that_are_merged_and_clean_and_no_others() {
    // faults H2, H6
    let env = done();
    let folder = env.dacapo_home().join("worktrees/p");
    std::fs::create_dir_all(folder.join("foreign")).unwrap();
    std::fs::write(folder.join("foreign/mine"), "mine").unwrap();
    for (name, branch) in [
        ("merged", "dacapo/merged-000001"),
        ("dirty", "dacapo/dirty-000002"),
        ("ahead", "dacapo/ahead-000003"),
        ("mine", "mine"),
    ] {
        let path = folder.join(name);
        env.git(["worktree", "add", "-q", "-b", branch, path.to_str().unwrap()]);
    }
    std::fs::write(folder.join("dirty/new"), "mine").unwrap();
    env.git(["-C", folder.join("ahead").to_str().unwrap(), "commit", "-q", "--allow-empty", "-m", "x"]);
    let clean = |typed: &[&str]| env.run([&["clean"], typed].concat()).assert_code(0).stdout;
    assert!(!clean(&[]).contains("worktree"), "none is old");
    let dry: Value = serde_json::from_str(&clean(&["--older-than", "0s", "--dry-run", "--json"])).unwrap();
    let merged = folder.canonicalize().unwrap().join("merged");
    assert_eq!(dry["worktrees"], serde_json::json!([merged]));
    assert!(merged.exists(), "it was only asked");
    assert_has(&clean(&["--older-than", "0s"]), "merged` and its branch.");
    let mut left: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["ahead", "dirty", "foreign", "mine"]);
    let branches = env.git(["branch", "--list", "dacapo/*", "--format=%(refname:short)"]);
    assert_eq!(branches.lines().collect::<Vec<_>>(), ["dacapo/ahead-000003", "dacapo/dirty-000002"]);
}
