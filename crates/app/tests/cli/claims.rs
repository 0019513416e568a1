//! What counts as a claim to be done, and what a claim without a gate leads to.

use std::fs;

use crate::support::{Task, assert_has, last_line, world};

#[test]
fn a_promise_counts_on_a_line_of_its_own_or_as_the_last_words() {
    // req 204, fault A3, fault A4
    for script in [
        "say <promise>DONE</promise>",
        "say all good; say <promise>done</promise>; say bye",
        "print so it is: <promise>DONE</promise>",
    ] {
        let env = world();
        env.run_loop(script, &["-n", "1"]).assert_code(0);
        assert_eq!(env.events_of("t", "claim_made").len(), 1, "{script}");
    }
}

#[test]
fn a_promise_that_only_looks_like_one_does_not_count() {
    // req 204, fault A1, fault A3, fault A4
    for script in [
        "say I will print <promise>DONE</promise> when it is done; say not yet",
        "say ```; say <promise>DONE</promise>; say ```",
        "say ```; say <promise>DONE</promise>",
        "say `<promise>DONE</promise>`",
        "say DONE",
        "say <promise>INCOMPLETE</promise>",
        "say <other><promise>DONE</promise></other>",
        "err <promise>DONE</promise>",
        "echo-prompt",
        "echo-prompt; echo-prompt",
    ] {
        let env = world();
        env.run_loop(script, &["-n", "1"]).assert_code(3);
        assert_eq!(env.events_of("t", "claim_made"), Vec::<serde_json::Value>::new(), "{script}");
    }
}

#[test]
fn a_promise_of_several_words_is_one_text() {
    // fault A6
    let env = world();
    let promise = ["--completion-promise", "ALL TESTS PASS", "-n", "3"];
    let script = "@1: promise ALL; @2: promise ALL TESTS; @3: promise";
    env.run_loop(script, &promise).assert_code(0);
    assert_eq!(env.starts(), 3);
}

#[test]
fn a_nonce_makes_the_promise_of_an_earlier_iteration_worthless() {
    // fault A1
    let env = world();
    let script = "@1: say <promise>DONE</promise>; write old $DACAPO_PROMISE
        @2: sh 'echo \"<promise>$(cat old)</promise>\"'
        @3: promise";
    env.run_loop(script, &["--promise-nonce", "-n", "4"]).assert_code(0);
    assert_eq!(env.starts(), 3);
}

#[test]
fn a_done_file_ends_the_loop_whatever_the_exit_code_and_the_content() {
    // req 66, req 67, req 98, req 102, fault A7
    for script in
        ["done; exit 0", "done; exit 7", "sh ': > \"$TASK_FOLDER/DONE\"'; kill KILL", "done no; exit 42"]
    {
        let env = world();
        let output = env.run_loop(script, &["-n", "5"]).assert_code(0);
        assert_eq!(env.starts(), 1, "{script}");
        assert_has(last_line(&output), "completed (done): the claim was accepted (DONE marker present)");
    }
}

#[test]
fn the_done_file_is_the_one_in_the_task_folder() {
    // req 67, req 70
    let env = world();
    env.run_loop("@1: write DONE; @2: done", &["-n", "3"]).assert_code(0);
    assert_eq!(env.starts(), 2);
    env.assert_on_bus("INFO", "task completed (DONE marker present, no active children)");
}

#[test]
fn an_old_done_without_gates_is_believed_before_any_agent_runs() {
    // req 60, req 65, req 98
    let env = world();
    fs::write(env.make_folder().join("DONE"), "").unwrap();
    env.run_loop("exit 0", &[]).assert_code(0);
    assert_eq!(env.starts(), 0);
    assert_eq!(
        env.types("t"),
        [
            "loop_started",
            "claim_made",
            "gates_passed",
            "tree_held",
            "claim_accepted",
            "receipt_issued",
            "loop_finished"
        ]
    );
    assert_eq!(env.events_of("t", "claim_accepted")[0]["verified"], false);

    // Deleting it lets the task run again.
    fs::remove_file(env.folder("t").join("DONE")).unwrap();
    env.run_loop("promise", &[]).assert_code(0);
    assert_eq!(env.starts(), 1);
}

#[test]
fn an_old_done_with_gates_is_refused_and_moved_and_the_agent_starts() {
    // fault A8
    let env = world();
    fs::write(env.make_folder().join("DONE"), "old").unwrap();
    env.run_loop("write work; promise", &["--gate", "test -e work"]).assert_code(0);
    let refused = env.events_of("t", "claim_refused");
    assert_eq!((refused.len(), refused[0]["reason"].as_str()), (1, Some("empty")));
    assert_eq!(fs::read_to_string(env.folder("t").join("DONE.refused")).unwrap(), "old");
    assert!(!env.folder("t").join("DONE").exists());
    assert_eq!(env.starts(), 1);
}

#[test]
fn a_done_that_is_a_directory_fails_the_loop_before_and_after_a_run() {
    // req 68
    let env = world();
    fs::create_dir(env.make_folder().join("DONE")).unwrap();
    let output = env.run_loop("exit 0", &[]).assert_code(1);
    assert_has(last_line(&output), "failed (error): DONE is a directory");
    assert_eq!(env.starts(), 0);

    let env = world();
    let output = env.run_loop("mkdir $TASK_FOLDER/DONE", &["-n", "5"]).assert_code(1);
    assert_has(last_line(&output), "failed (error): DONE is a directory");
    assert_eq!(env.starts(), 1);
}

#[test]
fn a_done_that_cannot_be_looked_at_fails_the_loop() {
    // req 68
    let env = world();
    // In a sandbox it could not be moved away.
    env.without_sandbox();
    let script = "sh 'mv \"$TASK_FOLDER\" \"$TASK_FOLDER.away\"; echo > \"$TASK_FOLDER\"'";
    let output = env.run_loop(script, &["-n", "5"]).assert_code(1);
    assert_has(last_line(&output), "failed (error): stat DONE: ");
    assert_eq!(env.starts(), 1);
}

#[test]
fn a_done_that_is_a_link_or_a_fifo_is_a_refused_claim() {
    // fault A13
    for make in ["ln -s /etc/passwd \"$TASK_FOLDER/DONE\"", "mkfifo \"$TASK_FOLDER/DONE\""] {
        let env = world();
        env.run_loop(&format!("@1: sh {make}\n@2: done"), &["-n", "3"]).assert_code(0);
        let refused = env.events_of("t", "claim_refused");
        assert_eq!((refused.len(), refused[0]["reason"].as_str()), (1, Some("malformed")), "{make}");
        assert!(env.folder("t").join("DONE.refused").symlink_metadata().is_ok(), "{make}");
        assert_eq!(env.starts(), 2, "{make}");
    }
}

#[test]
fn a_claim_in_the_last_allowed_iteration_counts() {
    // req 60, req 75, req 92
    for script in ["@2: promise", "@2: done; exit 3"] {
        let env = world();
        env.run_loop(script, &["-n", "2"]).assert_code(0);
        assert_eq!(env.starts(), 2);
    }
}

#[test]
fn a_done_by_hand_is_seen_before_the_limit_is() {
    // req 60, req 98
    let env = world();
    env.run_loop("exit 0", &["-n", "1"]).assert_code(3);
    fs::write(env.folder("t").join("DONE"), "").unwrap();
    env.run(["resume", "t"]).assert_code(0);
    assert_eq!(env.starts(), 1);
}

#[test]
fn a_turn_goes_in_its_fixed_order() {
    // req 60, req 102
    let env = world();
    env.run_loop("@2: done", &["-n", "3"]).assert_code(0);
    assert_eq!(
        env.types("t"),
        [
            "loop_started",
            "iteration_started",
            "agent_started",
            "agent_exited",
            "iteration_finished",
            "iteration_started",
            "agent_started",
            "agent_exited",
            "signal_seen",
            "claim_made",
            "gates_passed",
            "tree_held",
            "claim_accepted",
            "iteration_finished",
            "receipt_issued",
            "loop_finished",
        ]
    );
}
