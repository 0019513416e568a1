//! Agents that work: they are believed, and the receipt says what was done.

use crate::support::{PROMISE, World, assert_has, project, repository};

const FIX: &str = "echo fixed >work.txt";

#[test]
fn work_is_believed_in_a_repository_and_in_a_plain_folder() {
    for env in [repository(), project()] {
        let agent = format!("{FIX}; {PROMISE}");
        env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh", "--protect", "tests/**"]).assert_code(0);
        let receipt = env.receipt();
        assert_eq!((&receipt["verdict"], &receipt["iterations"]), (&"verified".into(), &1.into()));
        let paths: Vec<&str> = receipt["protected"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["path"].as_str().unwrap())
            .collect();
        assert_eq!(paths, ["check.sh", "tests/a.test", "tests/b.test"]);
        assert_eq!(receipt["gates"][0]["exit_code"], 0);
        assert_ne!(receipt["base"], receipt["tree"]);
    }
}

#[test]
fn without_a_gate_a_claim_is_believed_and_called_unverified() {
    let env = repository();
    env.loop_of(PROMISE, &["-n", "1"]).assert_code(0);
    assert_eq!(env.receipt()["verdict"], "unverified");
    assert_has(&env.run(["receipt", "t"]).assert_code(0).stdout, "nothing was checked");
}

#[test]
fn white_space_is_a_change() {
    let env = repository();
    let agent = format!("echo >>work.txt; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "true"]).assert_code(0);
}

#[test]
fn an_agent_may_commit_by_itself_and_its_commits_are_in_the_receipt() {
    let env = repository();
    let agent = format!("{FIX}; git commit -qam one; echo more >>work.txt; git commit -qam two; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh"]).assert_code(0);
    let head = env.git(["rev-parse", "HEAD~1", "HEAD"]);
    let commits: Vec<String> =
        env.receipt()["commits"].as_array().unwrap().iter().map(|c| c.as_str().unwrap().to_owned()).collect();
    assert_eq!(commits, head.lines().collect::<Vec<_>>());
}

#[test]
fn nothing_changed_is_fine_when_that_is_allowed() {
    let env = repository();
    env.loop_of(PROMISE, &["-n", "1", "--gate", "true", "--allow-empty"]).assert_code(0);
    assert_eq!(env.receipt()["base"], env.receipt()["tree"]);
}

#[test]
fn a_test_that_is_not_protected_may_be_mended() {
    let env = repository();
    let agent = format!("{FIX}; echo 'expect more of it' >tests/b.test; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh", "--protect", "tests/a.test"]).assert_code(0);
}

#[test]
fn a_protected_file_that_is_put_back_counts_as_never_changed() {
    let env = repository();
    let agent = format!(
        "if [ $DACAPO_ITERATION = 1 ]; then echo x >check.sh; else git checkout -q check.sh; fi; {FIX}; {PROMISE}"
    );
    env.loop_of(&agent, &["-n", "2", "--gate", "./check.sh"]).assert_code(0);
    let refusals = env.receipt()["refusals"].clone();
    assert_eq!((&refusals[0]["reason"], &refusals[0]["iteration"]), (&"tampered".into(), &1.into()));
}

#[test]
fn a_gate_from_the_base_sees_the_old_tests_and_a_change_is_listed() {
    let env = repository();
    let agent = format!("{FIX}; rm tests/a.test; echo x >tests/new.test; {PROMISE}");
    let gate = "grep -q 'expect fixed' tests/a.test && ! test -e tests/new.test && grep -q fixed work.txt";
    let extra = ["-n", "1", "--gate", gate, "--protect", "tests/**", "--gate-from", "base"];
    env.loop_of(&agent, &extra).assert_code(0);
    let tampered = env.of_type("claim_examined")[0]["tampered"].clone();
    assert_eq!(tampered, serde_json::json!(["tests/a.test", "tests/new.test"]));
    env.run(["verify", "t"]).assert_code(0);
}

#[test]
fn in_a_clean_checkout_leftovers_do_not_help() {
    let env = project();
    env.write(".gitignore", "built\n");
    env.git_init();
    let agent = format!("{FIX}; touch built; {PROMISE}");
    let run = |extra: &[&str]| {
        env.loop_of(&agent, &[&["-n", "1", "--gate", "test -e built && ./check.sh"], extra].concat()).code
    };
    assert_eq!(run(&["--gate-in", "clean"]), Some(3));
    assert_eq!(env.of_type("claim_refused")[0]["reason"], "gate_failed");
    env.sh("git checkout -q .").assert_code(0);
    assert_eq!(run(&[]), Some(0));
    env.sh("git checkout -q .").assert_code(0);
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh", "--gate-in", "clean"]).assert_code(0);
    assert!(!env.dacapo_home().join("checks").join(env.id()).exists(), "the checkout is removed");
}

#[test]
fn what_passes_when_tried_again_is_called_flaky() {
    let env = repository();
    let gate = "echo x >>../tries; test $(wc -l <../tries) -ge 3";
    let agent = format!("{FIX}; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", gate, "--gate-retries", "2"]).assert_code(0);
    assert_eq!(env.receipt()["gates"][0]["flaky"], true);
    let tries: Vec<u64> =
        env.of_type("gate_started").iter().map(|e| e["attempt"].as_u64().unwrap()).collect();
    assert_eq!(tries, [1, 2, 3]);
    assert_has(&env.run(["receipt", "t"]).assert_code(0).stdout, "flaky");
}

#[test]
fn the_baseline_is_in_the_receipt() {
    let env = repository();
    let agent = format!("{FIX}; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh", "--gate", "true", "--baseline"]).assert_code(0);
    assert_eq!(env.receipt()["baseline"], serde_json::json!([["./check.sh", false], ["true", true]]));
}

#[test]
fn red_first_refuses_a_gate_that_proves_nothing_before_an_agent_starts() {
    let env = repository();
    let agent = format!("{FIX}; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "true", "--baseline", "--red-first"]).assert_code(1);
    assert_eq!(env.agents(), 0);
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh", "--baseline", "--red-first"]).assert_code(0);
    assert_eq!(env.agents(), 1);
}

#[test]
fn an_agent_that_gets_nowhere_is_stopped() {
    let env = repository();
    let output =
        env.loop_of(PROMISE, &["-n", "20", "--gate", "./check.sh", "--stuck-after", "3"]).assert_code(3);
    assert_has(&output.stderr, "stuck");
    let started = env.agents();
    assert!((3..=5).contains(&started), "{started}");
}

#[test]
fn in_a_plain_folder_without_gates_getting_nowhere_shows_too() {
    // req 207
    let env = project();
    let output = env.loop_of("true", &["-n", "20", "--stuck-after", "3"]).assert_code(3);
    assert_has(&output.stderr, "stuck");
    assert_eq!((env.agents(), env.of_type("outline_taken").len()), (3, 0));

    let env = project();
    env.loop_of("date +%N >>work.txt", &["-n", "6", "--stuck-after", "3"]).assert_code(3);
    assert_eq!((env.agents(), env.of_type("outline_taken").len()), (6, 6), "each of them did something");
    // Nothing was hashed or kept for that.
    assert!(!env.dacapo_home().join("shadow").exists());

    let env = project();
    env.loop_of("true", &["-n", "6"]).assert_code(3);
    let warned: Vec<_> = env.of_type("warned").into_iter().map(|event| event["text"].clone()).collect();
    assert_eq!(warned, ["5 iterations in a row without progress"]);
}

#[test]
fn what_was_not_committed_before_is_told_to_go_into_the_commit() {
    // fault H10
    let env = repository();
    let agent = format!("{FIX}; {PROMISE}");
    env.write("lint.cfg", "of the user's, not committed\n");
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh", "--commit"]).assert_code(0);
    let warned = env.of_type("warned")[0]["text"].to_string();
    assert_has(&warned, "what is not committed yet goes into it");
    assert_eq!(env.git(["status", "--porcelain"]), "");

    let env = repository();
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh", "--commit"]).assert_code(0);
    assert!(env.of_type("warned").is_empty(), "everything was committed");
}

#[test]
fn the_kept_tree_is_committed_once_with_its_trailer() {
    let env = repository();
    let agent = format!("if [ $DACAPO_ITERATION = 1 ]; then echo try >work.txt; else {FIX}; fi; {PROMISE}");
    let extra = ["-n", "3", "--gate", "./check.sh", "--commit", "--commit-message", "Fix it"];
    env.loop_of(&agent, &extra).assert_code(0);
    let id = env.id();
    let log = env.git(["log", "--format=%s|%(trailers:key=Dacapo,valueonly,separator=%x2C)"]);
    assert_eq!(log, format!("Fix it|{id}/2\nstart|\n"));
    let head = env.git(["rev-parse", "HEAD"]);
    assert_eq!(env.receipt()["commits"], serde_json::json!([head.trim()]));
    assert_eq!(env.git(["status", "--porcelain"]), "");
}
