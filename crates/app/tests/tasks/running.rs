//! `task run`, and what can be done with a task that runs.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{SOON, Tasks};

const ALL: [&str; 4] = ["Implementation", "Review", "Testing", "QA"];

#[test]
fn a_task_passes_four_stages_and_is_merged() {
    // req 169, req 188, req 190, req 196, req 197
    let tasks = Tasks::new();
    let id = tasks.add("Say hello", &["--body", "Write it down."]);
    let output = tasks.run(&[]).assert_code(0);
    assert!(output.stderr.ends_with("dacapo: 1 of 1 task done\n"), "{}", output.stderr);
    assert_eq!(tasks.calls(&id), ALL);
    assert_eq!(tasks.merges(), ["Merge task TASK-001: Say hello"]);
    assert_eq!(tasks.env.read("work-TASK-001.txt"), "TASK-001 1\n");
    assert_eq!(tasks.status_in_file(&id), "done");
    let shown = tasks.show(&id);
    assert_eq!((&shown["status"], &shown["ralph"]), (&"done".into(), &json!(null)));
    let made = &tasks.of_type(&id, "worktree_made")[0];
    assert_eq!(made["branch"], "task/TASK-001");
    assert!(!std::path::Path::new(made["path"].as_str().unwrap()).exists(), "a merged task leaves nothing");
    assert_eq!(tasks.env.git(["branch", "--list", "task/*"]), "");
    let log: Vec<_> = tasks
        .of_type(&id, "stage_iteration")
        .iter()
        .map(|entry| {
            assert!(entry["duration_ms"].is_u64() && entry["exit_code"] == 0);
            json!([
                entry["task_id"],
                entry["stage"],
                entry["ralph_iteration"],
                entry["ralph_max"],
                entry["promise_found"],
                entry["continuing"],
                entry["verification"],
            ])
        })
        .collect();
    let entry = |stage: &str, max: u32| json!([id, stage, 1, max, true, false, "Promise verified"]);
    assert_eq!(log, [entry("coder", 15), entry("reviewer", 5), entry("tester", 10), entry("qa", 5)]);
    // What was told is the prompt of the pipeline.
    let prompt = tasks.prompt(&id, "Implementation", 1);
    assert!(prompt.starts_with("## Task Information\n- **Task ID**: TASK-001\n- **Title**: Say hello\n"));
    assert!(prompt.contains("- **Ralph Iteration**: 1/15\n"), "{prompt}");
    assert!(prompt.contains("## Specification\nWrite it down.\n"));
    let again = tasks.run(&[]).assert_code(0);
    assert_eq!(again.stdout, "Nothing to do: no task is ready.\n");
    let refused = tasks.run(&[&id]).assert_code(1);
    assert!(refused.stderr.contains("task TASK-001 is done"), "{}", refused.stderr);
}

#[test]
fn a_false_promise_a_refusal_and_a_red_gate_are_told_by_the_journal_and_the_receipt_proves_the_end() {
    // req 180, req 185, req 191
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    // The first promise of the coder is without a commit; the reviewer refuses once; the gate of the tester is red once.
    tasks.role("Implementation.1", "promise IMPLEMENTATION_COMPLETE");
    tasks.role("Review.1", "echo 'CHANGES REQUESTED:'; echo '- it says nothing'");
    tasks.role("Implementation.3", "work; echo 'FIXED F1'; promise IMPLEMENTATION_COMPLETE");
    tasks.role("Testing.1", "echo passed; promise TESTS_COMPLETE");
    tasks.role(
        "Testing.2",
        "mkdir -p tests; touch tests/ok; commit tests; echo passed; promise TESTS_COMPLETE",
    );
    tasks
        .env
        .write(".dacapo/config.yaml", "stages: {tester: {gates: [{name: tests, run: test -f tests/ok}]}}\n");
    tasks.env.git(["add", ".dacapo/config.yaml"]);
    tasks.env.git(["commit", "-qm", "config"]);
    tasks.run(&["--trust"]).assert_code(0);
    let calls = tasks.calls(&id);
    let expected = [
        "Implementation",
        "Implementation",
        "Review",
        "Implementation",
        "Review",
        "Testing",
        "Testing",
        "QA",
    ];
    assert_eq!(calls, expected);
    let entries = tasks.of_type(&id, "stage_iteration");
    assert_eq!(entries[0]["promise_found"], true);
    assert_eq!(entries[0]["verification"], "No commit detected in coder output", "{:#}", entries[0]);
    let rounds = tasks.of_type(&id, "review_round");
    let verdicts: Vec<_> = rounds.iter().map(|round| round["round"]["verdict"].clone()).collect();
    assert_eq!(verdicts, ["refused", "approved"]);
    assert_eq!(rounds[0]["round"]["found"], json!([[1, "it says nothing"]]));
    assert_eq!(tasks.of_type(&id, "sent_back")[0]["open"], 1);
    assert!(tasks.prompt(&id, "Implementation", 3).contains("- F1: it says nothing\n"));
    assert!(tasks.prompt(&id, "Review", 2).contains("The coder says that it is fixed"));
    let red = entries.iter().find(|entry| entry["refusal"].is_string() && entry["stage"] == "tester");
    assert!(red.unwrap()["refusal"].as_str().unwrap().contains("tests"), "{red:?}");
    let receipt = tasks.dacapo(&["receipt", &id, "--json"]).assert_code(0);
    let receipt: serde_json::Value = serde_json::from_str(&receipt.stdout).unwrap();
    let stages: Vec<_> =
        receipt["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].clone()).collect();
    assert_eq!(stages, ["coder", "coder", "reviewer", "tester", "qa"]);
    assert_eq!(receipt["stages"][3]["changed"], json!(["tests/ok"]));
    assert_eq!(receipt["stages"][3]["receipt"]["gates"][0]["exit_code"], 0);
    assert_eq!(receipt["findings"][0]["state"], "fixed");
    assert_eq!(receipt["commit"].as_str().unwrap(), tasks.env.git(["rev-parse", "HEAD"]).trim());
}

#[test]
fn a_red_gate_shows_the_end_of_what_it_printed_and_why_quotes_it() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    let gate = "sh -c 'seq 1 30; echo no module named pytest; exit 1'";
    let output = tasks.run(&["--gate", gate, "--max-time", "20s", "--restart-delay", "0s"]).assert_code(3);
    let shown: Vec<&str> = output.stdout.lines().filter(|line| line.contains('│')).take(5).collect();
    let expected = ["27", "28", "29", "30", "no module named pytest"];
    assert_eq!(shown, expected.map(|line| format!("{id}  │ {line}")), "{}", output.stdout);
    // The next step is said once, by the end of the task.
    let next = format!("`dacapo task run {id}` starts it again");
    assert!(output.stdout.contains(&next) && !output.stderr.contains(&next), "{}", output.stderr);
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(why.contains(&format!("The end of what the gate `{gate}` printed:\n  12\n")), "{why}");
    assert!(why.ends_with("\n  30\n  no module named pytest\n"), "{why}");
    let json = tasks.dacapo(&["why", &id, "--json"]).assert_code(0).stdout;
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
}

#[test]
fn a_task_is_added_by_its_title_alone_or_by_the_flag() {
    let tasks = Tasks::new();
    let added = tasks.dacapo(&["task", "add", "Say hello"]).assert_code(0);
    assert_eq!(added.stdout, "TASK-001\n");
    assert_eq!(tasks.show("TASK-001")["title"], "Say hello");
    tasks.dacapo(&["task", "add", "--title", "Say goodbye"]).assert_code(0);
    assert_eq!(tasks.show("TASK-002")["title"], "Say goodbye");
    for wrong in [&["task", "add"][..], &["task", "add", "a", "--title", "b"], &["task", "add", " "]] {
        assert!(tasks.dacapo(wrong).assert_code(2).stdout.is_empty());
    }
}

#[test]
fn a_reviewer_that_invents_findings_ends_with_a_question_that_the_user_answers() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review", r#"echo "REVIEW FAILED"; echo "- finding $number""#);
    tasks.role("Review.4", "echo 'REVIEW PASSED'; promise REVIEW_COMPLETE");
    let output = tasks.run(&[]).assert_code(4);
    // Once, by the end of the task.
    let next = "`dacapo approve TASK-001` or `dacapo reject TASK-001";
    assert!(output.stdout.contains(next) && !output.stderr.contains(next), "{output:?}");
    assert_eq!(tasks.calls(&id).iter().filter(|role| *role == "Review").count(), 3);
    let shown = tasks.show(&id);
    assert_eq!((&shown["status"], &shown["ralph"]), (&"todo".into(), &json!(null)));
    assert_eq!(shown["ralph_failure"]["stage"], "reviewer");
    assert_eq!(tasks.status_in_file(&id), "todo");
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(why.starts_with("Task TASK-001 asks: "), "{why}");
    // Nothing but the answer is missing.
    tasks.run(&[]).assert_code(4);
    // The question and its findings are told once.
    for command in ["why", "status"] {
        let text = tasks.dacapo(&[command, &id]).assert_code(0).stdout;
        assert_eq!(text.matches("finding 1").count(), 1, "{text}");
        assert_eq!(text.matches("The review does not come to an end").count(), 1, "{text}");
    }
    let text = tasks.dacapo(&["task", "show", &id]).assert_code(0).stdout;
    assert!(text.contains("\n             Open:\n               F1: finding 1\n"), "{text}");
    tasks.run(&[&id]).assert_code(4);
    // A task that depends on it waits, with an id and without.
    let other = tasks.add("Then", &["--depends-on", &id]);
    let again = tasks.run(&[]).assert_code(4);
    assert!(again.stderr.contains("task TASK-002 was not begun: it waits for TASK-001"), "{}", again.stderr);
    tasks.run(&[&other]).assert_code(4);
    assert_eq!(tasks.calls(&other), Vec::<String>::new());
    // Without an id the task that asks here is meant.
    let output = tasks.dacapo(&["reject", "keep it short"]).assert_code(0);
    assert!(output.stdout.starts_with("Task TASK-001 goes on in the background.\n"), "{}", output.stdout);
    tasks.env.wait_until("the task is done", SOON, || tasks.show(&id)["status"] == "done");
    assert!(
        tasks.prompt(&id, "Implementation", 4).contains("## The Person You Work For Says\nkeep it short\n")
    );
    assert_eq!(tasks.merges().len(), 1);
}

#[test]
fn a_reviewer_that_both_approves_and_refuses_has_refused() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role(
        "Review.1",
        "echo 'REVIEW PASSED'; echo 'REVIEW FAILED'; echo '- it is wrong'; promise REVIEW_COMPLETE",
    );
    tasks.run(&[]).assert_code(0);
    let rounds = tasks.of_type(&id, "review_round");
    let verdicts: Vec<&str> = rounds.iter().filter_map(|round| round["round"]["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["refused", "approved"], "{rounds:#?}");
    assert_eq!(rounds[0]["round"]["found"][0][1], "it is wrong");
    assert_eq!(tasks.calls(&id)[..4], ["Implementation", "Review", "Implementation", "Review"]);
    let told = "the reviewer both approves and refuses the work; the refusal counts";
    assert!(tasks.of_type(&id, "warned").iter().any(|event| event["text"] == told));
}

#[test]
fn the_user_takes_the_work_as_it_is_unless_its_files_have_changed() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review", r#"echo "REVIEW FAILED"; echo "- finding $number""#);
    tasks.run(&[]).assert_code(4);
    let made = &tasks.of_type(&id, "worktree_made")[0];
    let file = std::path::Path::new(made["path"].as_str().unwrap()).join("work-TASK-001.txt");
    let before = std::fs::read(&file).unwrap();
    std::fs::write(&file, "changed behind its back\n").unwrap();
    tasks.dacapo(&["approve", &id]).assert_code(0);
    tasks.env.wait_until("the answer is refused", SOON, || !tasks.of_type(&id, "answer_refused").is_empty());
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(
        why.contains("The newest answer did not count: the files in its worktree are not those"),
        "{why}"
    );
    std::fs::write(&file, before).unwrap();
    // The process that took the first answer has to be gone, or it takes this one.
    tasks.dacapo(&["approve", &id, "good enough"]).assert_code(0);
    tasks.env.wait_until("the task is done", SOON, || tasks.show(&id)["status"] == "done");
    let findings = tasks.dacapo(&["status", &id, "--json"]).assert_code(0).stdout;
    let findings: serde_json::Value = serde_json::from_str(&findings).unwrap();
    let states: Vec<_> = findings[0]["ledger"]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (finding["state"].clone(), finding["decided"][1].clone()))
        .collect();
    assert_eq!(states.len(), 3);
    assert!(states.iter().all(|state| *state == ("deferred".into(), "good enough".into())), "{states:?}");
}

#[test]
fn a_coder_that_declares_a_finding_refuted_does_not_close_it() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review.1", "echo 'REVIEW FAILED'; echo '- it is slow'");
    tasks.role("Implementation.2", "work; echo 'REFUTED F1: it is fast'; promise IMPLEMENTATION_COMPLETE");
    tasks.role("Review.2", "echo 'REVIEW FAILED'; echo '- F1 is still there'; echo '- and it is loud'");
    tasks.run(&[]).assert_code(0);
    assert!(
        tasks
            .prompt(&id, "Review", 2)
            .contains("- F1 (open): it is slow\n  The coder says that it is refuted: it is fast\n")
    );
    assert!(tasks.prompt(&id, "Implementation", 3).contains("- F1: it is slow\n"));
    assert!(tasks.prompt(&id, "Review", 2).contains("## Scope of This Round\nYou have reviewed the tree "));
}

#[test]
fn a_reviewer_or_qa_that_changes_files_fails_and_what_the_tester_changed_is_listed() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review", "echo x >>README.md; echo 'REVIEW PASSED'; promise REVIEW_COMPLETE");
    let output = tasks.run(&["--quiet"]).assert_code(3);
    let shown = tasks.show(&id);
    assert_eq!(shown["status"], "todo");
    let reason = shown["ralph_failure"]["reason"].as_str().unwrap();
    assert_eq!(reason, "The reviewer changed files, which is not its role: README.md", "{}", output.stderr);
    assert_eq!(tasks.env.read("README.md"), "hello\n");
    // What it left is put back: the next run does not take it for work.
    tasks.role("Review", "echo 'REVIEW PASSED'; promise REVIEW_COMPLETE");
    tasks.run(&["--quiet"]).assert_code(0);
    assert_eq!(tasks.env.read("README.md"), "hello\n");

    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role(
        "Testing",
        "echo x >>README.md; mkdir -p tests; touch tests/t; commit t; echo passed; promise TESTS_COMPLETE",
    );
    tasks.run(&[]).assert_code(0);
    let warned = &tasks.of_type(&id, "warned")[0];
    assert_eq!(
        warned["text"],
        "the tester changed files that are not tests, and no role reviews them: README.md"
    );
    let receipt = tasks.dacapo(&["receipt", &id]).assert_code(0).stdout;
    assert!(receipt.contains("changed     README.md  WARNING: not reviewed, and no test"), "{receipt}");
    assert!(receipt.contains("changed     tests/t\n"), "{receipt}");
}

#[test]
fn a_stage_that_uses_up_its_iterations_sends_the_task_back_and_the_next_run_is_told_why() {
    // req 186, req 187, req 189
    let tasks = Tasks::new();
    tasks.env.write(".dacapo/config.yaml", "ralph: {coder: {max_iterations: 2}}\n");
    let id = tasks.add("T", &[]);
    tasks.role("Implementation", "echo TODO: rest; work; promise IMPLEMENTATION_COMPLETE");
    let output = tasks.run(&[]).assert_code(3);
    assert_eq!(tasks.calls(&id), ["Implementation", "Implementation"]);
    assert!(output.stdout.contains("warning: Ralph loop exceeded 2 iterations"), "{}", output.stdout);
    let failure = &tasks.show(&id)["ralph_failure"];
    assert_eq!(failure["stage"], "coder");
    assert_eq!(failure["iterations_used"], 2);
    assert_eq!(failure["reason"], "Max iterations reached without completion promise");
    assert!(failure["last_output"].as_str().unwrap().contains("TODO: rest"));
    assert_eq!(tasks.status_in_file(&id), "todo");
    // Its work is kept, and the next run is told why claims were refused.
    tasks.role("Implementation", "work; promise IMPLEMENTATION_COMPLETE");
    tasks.run(&[]).assert_code(0);
    assert!(tasks.prompt(&id, "Implementation", 3).contains("## Why Earlier Claims Were Refused\n"));
    assert_eq!(tasks.env.read("work-TASK-001.txt").lines().count(), 3);
}

#[test]
fn an_agent_that_is_blocked_asks_and_goes_on_with_the_answer() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Implementation.1", "echo '<blocked>which colour?</blocked>'");
    tasks.run(&[]).assert_code(4);
    let failure = &tasks.show(&id)["ralph_failure"];
    assert_eq!(failure["reason"], "The coder says that it cannot be done as asked: which colour?");
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(why.contains("`dacapo approve TASK-001 \"the answer\"` gives the coder your answer"), "{why}");
    tasks.dacapo(&["approve", "use blue"]).assert_code(0);
    tasks.env.wait_until("the task is done", SOON, || tasks.show(&id)["status"] == "done");
    assert!(tasks.prompt(&id, "Implementation", 2).contains("blue"));
}

#[test]
fn a_task_that_runs_is_shown_and_cancelled_in_the_words_of_the_pipeline() {
    // req 171, req 188, req 193, req 194
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Implementation", "echo at work; exec sleep 60");
    let running = dacapo_testkit::Running::start(tasks.command(&tasks.args(&[])));
    tasks.env.wait_until("the coder works", SOON, || {
        tasks.show(&id)["ralph"]["stage"] == "coder" && !tasks.calls(&id).is_empty()
    });
    let shown = tasks.show(&id);
    assert_eq!(shown["status"], "implementing");
    assert_eq!(tasks.status_in_file(&id), "implementing");
    let ralph = &shown["ralph"];
    assert_eq!((&ralph["iteration"], &ralph["max_iterations"]), (&1.into(), &15.into()));
    assert_eq!(ralph["completion_promise"], "IMPLEMENTATION_COMPLETE");
    assert!(ralph["started_at"].as_str().unwrap().ends_with('Z'));
    let status = tasks.dacapo(&["ralph-status"]).assert_code(0).stdout;
    assert!(
        status.starts_with("Active Ralph Loops:\n  TASK-001 (coder): iteration 1/15, started "),
        "{status}"
    );
    let loops = tasks.dacapo(&["status", "--json"]).assert_code(0).stdout;
    let loops: serde_json::Value = serde_json::from_str(&loops).unwrap();
    let own = &loops[0];
    assert_eq!((&own["task"], &own["stage"]), (&json!(id), &"coder".into()));
    assert_eq!((&own["iteration"], &own["max_iterations"]), (&1.into(), &15.into()));
    assert_eq!(own["completion_promise"], "IMPLEMENTATION_COMPLETE");
    assert!(own["started_at"].is_string());
    let prompt = tasks.of_type(&id, "loop_started")[0]["prompt"].as_str().unwrap().to_owned();
    assert!(prompt.starts_with("## Task Information\n- **Task ID**: TASK-001\n"), "{prompt}");
    let cancelled = tasks.dacapo(&["ralph-cancel", &id]).assert_code(0);
    assert_eq!(cancelled.stdout, "Cancelled Ralph loop for TASK-001 at iteration 1/15\n");
    running.wait(SOON).assert_code(130);
    assert_eq!(tasks.status_in_file(&id), "todo");
    assert_eq!(tasks.env.survivors(), Vec::<u32>::new());
    let again = tasks.dacapo(&["ralph-cancel", &id]).assert_code(1);
    assert!(again.stderr.contains("task TASK-001 is not running: it is cancelled"), "{}", again.stderr);
    tasks.dacapo(&["ralph-cancel", "TASK-009"]).assert_code(2);
}

#[test]
fn stages_that_are_not_enabled_have_one_pass_and_gates_decide() {
    // req 168, req 170
    let tasks = Tasks::new();
    tasks.env.write(".dacapo/config.yaml", "ralph: {enabled: false}\n");
    let id = tasks.add("T", &[]);
    tasks.role("Implementation", "echo x >f.txt");
    for role in ["Review", "Testing", "QA"] {
        tasks.role(role, "echo fine");
    }
    tasks.run(&["--gate", "test -f f.txt", "--trust"]).assert_code(0);
    assert_eq!(tasks.calls(&id), ALL);
    assert_eq!(tasks.env.read("f.txt"), "x\n");
    assert!(!tasks.prompt(&id, "Implementation", 1).contains("<promise>"));
}

#[test]
fn a_merge_in_conflict_goes_back_to_the_coder() {
    // req 197
    let tasks = Tasks::new();
    let (one, two) = (tasks.add("One", &[]), tasks.add("Two", &[]));
    // Both write the same file; the second is in its last stage until the first is merged.
    let root = tasks.env.workspace();
    tasks
        .role("Implementation", r#"echo "$task" >same.txt; commit "$task"; promise IMPLEMENTATION_COMPLETE"#);
    let wait = format!("while ! test -e {}/same.txt; do sleep 0.05; done; promise QA_PASSED", root.display());
    tasks.role("TASK-002.QA", &wait);
    tasks.role("TASK-002.Implementation.2", "echo >>README.md; commit no; promise IMPLEMENTATION_COMPLETE");
    tasks.role(
        "TASK-002.Implementation.3",
        r#"grep -q '<<<<<<<' same.txt && printf 'both\n' >same.txt; commit both; promise IMPLEMENTATION_COMPLETE"#,
    );
    let output = tasks.run(&[]).assert_code(0);
    assert!(output.stdout.contains("  verified by no conflict markers\n"), "{}", output.stdout);
    assert_eq!(tasks.env.read("same.txt"), "both\n");
    assert_eq!(tasks.of_type(&two, "merge_conflicted")[0]["paths"], json!(["same.txt"]));
    assert!(tasks.prompt(&two, "Implementation", 2).contains("conflict marks between them: same.txt"));
    // The marks have to go before the coder is believed.
    let refused =
        tasks.of_type(&two, "stage_iteration").into_iter().find(|entry| entry["refusal"].is_string());
    assert!(refused.unwrap()["refusal"].as_str().unwrap().contains("no conflict markers"));
    assert!(tasks.of_type(&one, "merge_conflicted").is_empty());
    assert_eq!(tasks.merges().len(), 2);
}

#[test]
fn a_merge_that_is_red_is_refused_and_the_task_is_todo_again() {
    let tasks = Tasks::new();
    let (one, two) = (tasks.add("One", &[]), tasks.add("Two", &[]));
    let root = tasks.env.workspace();
    // Each passes alone; together they do not.
    let wait = format!(
        "while ! test -e {}/work-TASK-001.txt; do sleep 0.05; done; promise QA_PASSED",
        root.display()
    );
    tasks.role("TASK-002.QA", &wait);
    let output = tasks.run(&["--gate", "test $(ls work-* | wc -l) -lt 2"]).assert_code(1);
    assert!(output.stderr.contains("1 of 2 tasks done; TASK-002 is failed"), "{}", output.stderr);
    assert_eq!(
        (tasks.show(&one)["status"].clone(), tasks.show(&two)["status"].clone()),
        ("done".into(), "todo".into())
    );
    let reason = tasks.show(&two)["ralph_failure"]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("what it and `main` come to together does not pass"), "{reason}");
    assert_eq!(tasks.merges().len(), 1);
}

#[test]
fn statuses_in_committed_task_files_do_not_stand_in_the_way_of_merges() {
    let tasks = Tasks::new();
    for title in ["One", "Two", "Three"] {
        tasks.add(title, &[]);
    }
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "tasks"]);
    tasks.run(&[]).assert_code(0);
    assert_eq!(tasks.merges().len(), 3);
    assert_eq!(tasks.env.git(["status", "--porcelain"]), "", "the checkout is clean");
    for id in ["TASK-001", "TASK-002", "TASK-003"] {
        assert_eq!(tasks.status_in_file(id), "done");
        let committed = tasks.env.git(["show", &format!("HEAD:.dacapo/tasks/{id}.md")]);
        assert!(committed.contains("status: done"), "{committed}");
    }
}

#[test]
fn bad_wishes_get_one_clear_message() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    for (args, words) in [
        (vec!["NOPE"], "no task in `.dacapo/tasks` is called `NOPE`"),
        (vec!["../x"], "no task in `.dacapo/tasks` is called `../x`"),
        (vec!["--target", "nowhere"], "the target branch `nowhere` does not exist"),
        (vec!["--slots", "0"], "slots"),
    ] {
        let output = tasks.run(&args);
        assert_ne!(output.code, Some(0));
        assert!(output.stderr.contains(words), "{args:?}: {}", output.stderr);
    }
    tasks.env.write("dirty.txt", "x");
    let output = tasks.run(&[]).assert_code(5);
    assert!(output.stderr.contains("the checkout has uncommitted changes: `dirty.txt`"), "{}", output.stderr);
    tasks.env.write(".dacapo/config.yaml", "ralph: {coder: {completion_promise: QA_PASSED}}\n");
    let output = tasks.run(&["--force"]).assert_code(2);
    assert!(output.stderr.contains("have the same promise"), "{}", output.stderr);
    assert_eq!(tasks.calls(&id), Vec::<String>::new(), "no agent was started");
}

#[test]
fn ctrl_c_stops_tasks_and_run_goes_on_where_they_stood() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review.1", "exec sleep 60");
    let running = dacapo_testkit::Running::start(tasks.command(&tasks.args(&[])));
    tasks.env.wait_until("the reviewer works", SOON, || tasks.calls(&id).len() == 2);
    running.signal(Signal::INT);
    running.wait(SOON).assert_code(130);
    assert_eq!(tasks.env.survivors(), Vec::<u32>::new());
    tasks.run(&[]).assert_code(0);
    assert_eq!(tasks.calls(&id), ["Implementation", "Review", "Review", "Testing", "QA"]);
}

#[test]
fn jobs_stay_for_the_next_stage_and_ctrl_c_ends_them_outside_of_loops_too() {
    let tasks = Tasks::new();
    let (slow, waits) = (tasks.env.root().join("slow"), tasks.env.root().join("waits"));
    let setup = format!(
        "worktree: {{setup: [{{run: 'if [ -e {} ]; then touch {}; sleep 600; fi'}}]}}\n",
        slow.display(),
        waits.display()
    );
    tasks.env.write(".dacapo/config.yaml", setup);
    let ids = [tasks.add("One", &[]), tasks.add("Two", &[]), tasks.add("Three", &[])];
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "tasks"]);
    tasks.role(&format!("{}.QA", ids[1]), &format!("touch {}; promise QA_PASSED", slow.display()));
    let running = dacapo_testkit::Running::start(tasks.command(&tasks.args(&["--trust", "--slots", "1"])));
    // The third worktree is made by a job that has run loops before.
    tasks.env.wait_until("the third worktree is made ready", SOON, || waits.exists());
    running.signal(Signal::INT);
    running.wait(SOON).assert_code(130);
    assert_eq!(tasks.env.survivors(), Vec::<u32>::new());
    let jobs: std::collections::BTreeSet<u64> = ids
        .iter()
        .flat_map(|id| tasks.of_type(id, "loop_started"))
        .filter_map(|event| event["pid"].as_u64())
        .collect();
    // One at a time, and one more while the other tidies up.
    assert!((1..=2).contains(&jobs.len()), "{jobs:?}");
    std::fs::remove_file(slow).unwrap();
    tasks.run(&["--trust"]).assert_code(0);
    assert_eq!(tasks.calls(&ids[2]), ["Implementation", "Review", "Testing", "QA"]);
}

#[test]
fn a_merge_that_a_changed_file_stands_in_the_way_of_waits_for_the_user() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    let root = tasks.env.workspace();
    tasks.role("QA", &format!("echo mine >>{}/README.md; promise QA_PASSED", root.display()));
    let output = tasks.run(&[]).assert_code(4);
    assert!(
        output.stdout.contains("because of README.md: commit or stash that, then `dacapo task run`"),
        "{}",
        output.stdout
    );
    assert_eq!(tasks.env.read("README.md"), "hello\nmine\n", "the user's own change stays");
    // Committed, it is in the way no more: the merge is made anew, and the branch that held it goes.
    tasks.env.git(["commit", "-qam", "mine"]);
    tasks.run(&[]).assert_code(0);
    assert_eq!((tasks.status_in_file(&id), tasks.merges().len()), ("done".to_owned(), 1));
    assert_eq!(tasks.env.git(["branch", "--list", "dacapo/*"]), "");
}

#[test]
fn a_merge_that_waits_can_be_taken_by_hand_or_given_up() {
    let tasks = Tasks::new();
    let (one, two) = (tasks.add("One", &[]), tasks.add("Two", &[]));
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "tasks"]);
    let root = tasks.env.workspace();
    tasks.role("QA", &format!("echo mine >>{}/README.md; promise QA_PASSED", root.display()));
    tasks.run(&[&one]).assert_code(4);
    tasks.env.git(["checkout", "README.md"]);
    let branch = tasks.env.git(["branch", "--list", "--format=%(refname:short)", "dacapo/merged-*"]);
    tasks.env.git(["merge", "-q", "--ff-only", branch.trim()]);
    tasks.role("QA", "promise QA_PASSED");
    tasks.run(&[&one]).assert_code(0);
    assert_eq!(tasks.merges().len(), 1);
    tasks.role("QA", &format!("echo mine >>{}/README.md; promise QA_PASSED", root.display()));
    tasks.run(&[&two]).assert_code(4);
    tasks.env.git(["checkout", "README.md"]);
    tasks.dacapo(&["cancel", &two]).assert_code(0);
    assert_eq!(
        tasks.env.git(["branch", "--list", "dacapo/*"]),
        "",
        "what was given up is not left to be merged"
    );
    assert_eq!(tasks.merges().len(), 1);
}

#[test]
fn a_task_file_that_the_user_edits_meanwhile_is_in_no_merge_s_way() {
    let tasks = Tasks::new();
    let (one, two) = (tasks.add("One", &[]), tasks.add("Two", &[]));
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "tasks"]);
    let file = tasks.env.workspace().join(format!(".dacapo/tasks/{two}.md"));
    tasks.role("QA", &format!("echo 'More words.' >>{}; promise QA_PASSED", file.display()));
    tasks.run(&[&one]).assert_code(0);
    assert!(tasks.env.read(format!(".dacapo/tasks/{two}.md")).ends_with("More words.\n"));
}

#[test]
fn what_the_user_says_reaches_the_next_agent_and_a_pause_holds_before_the_next_stage() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    let go = tasks.env.root().join("go");
    tasks.role(
        "Implementation",
        &format!(
            "while [ ! -f {} ]; do sleep 0.05; done; work; promise IMPLEMENTATION_COMPLETE",
            go.display()
        ),
    );
    let running = dacapo_testkit::Running::start(tasks.command(&tasks.args(&[])));
    tasks.env.wait_until("the coder works", SOON, || !tasks.calls(&id).is_empty());
    tasks.dacapo(&["steer", &id, "in French, please"]).assert_code(0);
    tasks.dacapo(&["pause", &id]).assert_code(0);
    tasks.env.wait_until("it is to pause", SOON, || !tasks.of_type(&id, "pause_requested").is_empty());
    std::fs::write(&go, "").unwrap();
    running.wait(SOON).assert_code(4);
    assert_eq!(tasks.calls(&id), ["Implementation"]);
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(why.starts_with("Task TASK-001 is paused: paused before the reviewer stage"), "{why}");
    tasks.dacapo(&["resume", &id]).assert_code(0);
    assert_eq!(tasks.calls(&id), ALL);
    assert!(tasks.prompt(&id, "Review", 1).contains("in French, please"));
}

#[test]
fn a_coder_that_refutes_a_finding_leaves_it_to_the_reviewer_and_then_to_the_user() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review", "echo 'REVIEW FAILED'; echo '- it is slow'");
    tasks.role("Implementation.2", "echo 'REFUTED F1: it is fast'; promise IMPLEMENTATION_COMPLETE");
    tasks.run(&[]).assert_code(4);
    assert_eq!(tasks.calls(&id), ["Implementation", "Review", "Implementation", "Review"]);
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(why.contains("F1: it is slow"), "{why}");
}

#[test]
fn what_qa_said_is_told_to_the_coder_of_the_next_run() {
    let tasks = Tasks::new();
    tasks.env.write(".dacapo/config.yaml", "ralph: {qa: {max_iterations: 1}}\n");
    let id = tasks.add("T", &[]);
    tasks.role("QA.1", "echo 'The button is dead.'");
    tasks.run(&[]).assert_code(3);
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(why.contains("Its agent said last: The button is dead."), "{why}");
    tasks.run(&[]).assert_code(0);
    let prompt = tasks.prompt(&id, "Implementation", 2);
    assert!(prompt.contains("its agent said last: The button is dead."), "{prompt}");
}

#[test]
fn a_run_without_gates_is_warned_about_once() {
    let tasks = Tasks::new();
    tasks.add("Add a login page", &[]);
    let warning = "no gate checks any stage";
    let output = tasks.run(&["--gate", "true"]).assert_code(0);
    assert!(!output.stderr.contains(warning), "{}", output.stderr);
    tasks.add("Add a logout page", &[]);
    tasks.add("Add a page", &[]);
    let output = tasks.run(&["TASK-002"]).assert_code(0);
    assert_eq!(output.stderr.matches(warning).count(), 1, "{}", output.stderr);
    let output = tasks.run(&["TASK-003", "-q"]).assert_code(0);
    assert!(!output.stderr.contains("WARNING"), "{}", output.stderr);
}

#[test]
fn a_run_that_cannot_do_anything_says_why() {
    let tasks = Tasks::new();
    let output = tasks.run(&[]).assert_code(0);
    assert!(output.stdout.contains("There is no task; `dacapo task add"), "{}", output.stdout);
    let folder = tasks.env.root().join("plain");
    std::fs::create_dir(&folder).unwrap();
    let mut outside = tasks.command(&tasks.args(&[]));
    outside.current_dir(&folder);
    let output = tasks.env.run_command(outside).assert_code(2);
    assert!(output.stderr.contains("lies in no git repository"), "{}", output.stderr);
    tasks.env.write(".dacapo/tasks/broken.md", "no head\n");
    let output = tasks.run(&[]).assert_code(2);
    assert!(output.stderr.contains("no task file in `.dacapo/tasks` can be read"), "{}", output.stderr);
    let listed = tasks.dacapo(&["task", "list"]).assert_code(0).stdout;
    assert_eq!(listed, "No task that can be read in `.dacapo/tasks`.\n");
}

#[test]
fn several_tasks_in_the_background_are_named_and_none_of_them_is_the_one_here() {
    let tasks = Tasks::new();
    let (one, two) = (tasks.add("One", &[]), tasks.add("Two", &[]));
    tasks.role("Implementation", "exec sleep 60");
    let output = tasks.run(&["--detach"]).assert_code(0);
    assert!(
        output.stdout.starts_with("2 tasks go on in the background: TASK-001, TASK-002."),
        "{}",
        output.stdout
    );
    tasks.env.wait_until("both run", SOON, || tasks.calls(&one).len() + tasks.calls(&two).len() == 2);
    let refused = tasks.dacapo(&["cancel"]).assert_code(2);
    assert!(refused.stderr.contains("several tasks run here: TASK-001, TASK-002"), "{}", refused.stderr);
    tasks.dacapo(&["cancel", &one]).assert_code(0);
    tasks.dacapo(&["cancel"]).assert_code(0);
    let why = tasks.dacapo(&["why", &two]).assert_code(0).stdout;
    assert!(why.starts_with("Task TASK-002 is cancelled; it is `todo` again.\nNext: "), "{why}");
    tasks.env.wait_until("nothing is left", SOON, || tasks.env.survivors().is_empty());
}

#[test]
fn an_agent_cannot_merge_itself_or_throw_away_what_others_did() {
    // The qa moves the target to the branch of its task and takes its work off again. In a sandbox both would move branches of
    // their own, and would not see the target as it is now.
    let tasks = Tasks::new();
    tasks.env.without_sandbox();
    let id = tasks.add("T", &[]);
    tasks.role(
        "QA",
        "git update-ref refs/heads/main HEAD; git -c user.name=x -c user.email=x commit-tree HEAD~1^{tree} -p HEAD -m undo | \
         xargs git update-ref refs/heads/main; promise QA_PASSED",
    );
    let is_done = || tasks.show(&id)["status"] == "done";
    let is_there = || tasks.env.git(["ls-tree", "--name-only", "main"]).contains("work-TASK-001.txt");
    tasks.run(&["--gate", "test -f work-TASK-001.txt"]);
    assert!(is_there() || !is_done(), "what is done is in the target");
    // Its checkout does not follow a branch that an agent has moved. Once the user has put that right, the task comes to its end.
    if !is_done() {
        tasks.env.git(["reset", "-q", "--hard"]);
        tasks.run(&["--gate", "test -f work-TASK-001.txt"]).assert_code(0);
    }
    assert!(is_done() && is_there(), "the work is in the target in the end");

    // The coder of the second task merges the target and keeps nothing of it.
    let tasks = Tasks::new();
    tasks.env.without_sandbox();
    let (one, two) = (tasks.add("One", &[]), tasks.add("Two", &[]));
    let wait = format!(
        "while ! git -C {} log --format=%s | grep -q TASK-001; do sleep 0.05; done; work; git merge -q -s ours -m x main; \
         promise IMPLEMENTATION_COMPLETE",
        tasks.env.workspace().display()
    );
    tasks.role("TASK-002.Implementation", &wait);
    tasks.run(&[]).assert_code(0);
    assert_eq!(
        (tasks.status_in_file(&one), tasks.status_in_file(&two)),
        ("done".to_owned(), "done".to_owned())
    );
    assert!(
        tasks.env.read("work-TASK-001.txt").starts_with("TASK-001"),
        "the first task's work is still there"
    );
    assert!(tasks.env.read("work-TASK-002.txt").starts_with("TASK-002"));
}

#[test]
fn what_changes_between_stages_or_is_committed_by_a_reviewer_fails_the_task() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review", "git commit -q --allow-empty -m x; echo 'REVIEW PASSED'; promise REVIEW_COMPLETE");
    tasks.run(&[]).assert_code(1);
    let reason = tasks.show(&id)["ralph_failure"]["reason"].clone();
    assert_eq!(reason, "The reviewer made commits, which is not its role");
}

#[test]
fn the_proof_of_a_merged_task_can_be_checked_again() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.run(&["--gate", "test -e work-TASK-001.txt"]).assert_code(0);
    // Its worktree is gone; the repository has everything.
    let output = tasks.dacapo(&["verify", &id]).assert_code(0);
    assert!(output.stdout.ends_with("The receipts of task TASK-001 are sound.\n"), "{}", output.stdout);
    assert_eq!(output.stdout.matches("gate `test -e work-TASK-001.txt` …").count(), 4, "{}", output.stdout);
    let receipt = tasks.dacapo(&["receipt", &id, "--json"]).assert_code(0).stdout;
    let file = tasks.env.root().join("r.json");
    let verify = |text: &str| {
        std::fs::write(&file, text).unwrap();
        tasks.dacapo(&["verify", file.to_str().unwrap(), "--json"])
    };
    verify(&receipt).assert_code(0);
    for (from, to) in [("\"commit\":\"", "\"commit\":\"0"), ("\"exit_code\":0", "\"exit_code\":1")] {
        let changed = receipt.replacen(from, to, 1);
        assert!(changed != receipt, "{receipt}");
        let output = verify(&changed).assert_code(1);
        let told: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(told["sound"], false, "{told:#}");
    }
    let mut fewer: serde_json::Value = serde_json::from_str(&receipt).unwrap();
    fewer["stages"].as_array_mut().unwrap().remove(1);
    let told: serde_json::Value =
        serde_json::from_str(&verify(&fewer.to_string()).assert_code(1).stdout).unwrap();
    assert_eq!(told["altered"], json!(["stages"]));
}

#[test]
fn the_logs_of_a_task_say_which_stage_they_are_of() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Implementation", "echo boom >&2; work; promise IMPLEMENTATION_COMPLETE");
    tasks.run(&[]).assert_code(0);
    let output = tasks.dacapo(&["logs", &id]).assert_code(0);
    assert!(output.stdout.contains("I used it"), "{}", output.stdout);
    assert!(output.stderr.starts_with("(stage qa of task TASK-001, loop "), "{}", output.stderr);
    assert!(
        output.stderr.contains("; `--stage` shows another: coder, reviewer, tester)"),
        "{}",
        output.stderr
    );
    let output = tasks.dacapo(&["logs", &id, "--stage", "coder", "--stderr"]).assert_code(0);
    assert!(output.stdout.contains("boom"), "{}", output.stdout);
    tasks.dacapo(&["logs", &id, "--stage", "coach"]).assert_code(2);
}
