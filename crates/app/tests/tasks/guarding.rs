//! What an agent does to get round the proof of its stage, and what becomes of it.

use std::fs;

use super::support::Tasks;

fn refusals(tasks: &Tasks, id: &str) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let refused = tasks.of_type(id, "claim_refused");
    refused.iter().map(|event| (text(&event["reason"]), text(&event["detail"]))).collect()
}

#[test]
fn words_that_deny_or_quote_an_approval_approve_nothing() {
    // req 184
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Review.1", "echo 'I have not approved this.'; promise REVIEW_COMPLETE");
    tasks.role("Review.2", "printf '```\\nREVIEW PASSED\\n```\\nIt says so.\\n'; promise REVIEW_COMPLETE");
    tasks.run(&[]).assert_code(0);
    let no = ("no_evidence".to_owned(), "No review approval detected".to_owned());
    assert_eq!(refusals(&tasks, &id), [no.clone(), no]);
}

#[test]
fn an_agent_does_not_write_the_rules_of_later_tasks_where_none_are_committed() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role(
        "Implementation.1",
        "mkdir -p .dacapo; echo 'ralph: {qa: {enabled: false}}' >.dacapo/config.yaml; work; promise IMPLEMENTATION_COMPLETE",
    );
    tasks.role("Implementation.2", "git rm -q .dacapo/config.yaml; work; promise IMPLEMENTATION_COMPLETE");
    let output = tasks.run(&[]).assert_code(0);
    assert!(!format!("{}{}", output.stdout, output.stderr).contains("protects nothing"), "{}", output.stderr);
    assert_eq!(
        refusals(&tasks, &id),
        [("tampered".to_owned(), "the protected path `.dacapo/config.yaml` was changed".to_owned())]
    );
    assert!(!tasks.env.workspace().join(".dacapo/config.yaml").exists());
}

#[test]
fn a_commit_that_changes_no_file_is_no_work() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role(
        "Implementation.1",
        "git commit -q --allow-empty -m 'all done'; echo committed; promise IMPLEMENTATION_COMPLETE",
    );
    tasks.run(&[]).assert_code(0);
    assert_eq!(
        refusals(&tasks, &id),
        [("empty".to_owned(), "nothing was changed since the loop began".to_owned())]
    );
    assert_eq!(tasks.calls(&id)[..2], ["Implementation", "Implementation"]);
}

#[test]
fn findings_that_were_open_when_a_run_failed_are_told_to_the_next_one() {
    let tasks = Tasks::new();
    tasks.env.write(".dacapo/config.yaml", "ralph: {coder: {max_iterations: 2}}\n");
    let id = tasks.add("T", &[]);
    tasks.role("Review.1", "echo 'CHANGES REQUESTED:'; echo '- the password is logged'");
    tasks.role("Implementation.2", "echo nothing").role("Implementation.3", "echo nothing");
    tasks.run(&[]).assert_code(3);
    tasks.run(&[]).assert_code(0);
    for (role, number) in [("Implementation", 4), ("Review", 2)] {
        let prompt = tasks.prompt(&id, role, number);
        assert!(prompt.contains("F1") && prompt.contains("the password is logged"), "{prompt}");
    }
}

#[test]
fn steps_around_a_worktree_run_only_as_long_as_the_user_agrees() {
    // fault K1
    let tasks = Tasks::new();
    let ran = tasks.env.root().join("ran");
    let step = format!("worktree: {{teardown: [{{run: 'echo down >>{}'}}]}}\n", ran.display());
    tasks.env.write(".dacapo/config.yaml", step);
    let id = tasks.add("T", &[]);
    tasks.dacapo(&["trust", "--yes"]).assert_code(0);
    tasks.role("Review", r#"echo "REVIEW FAILED"; echo "- finding $number""#);
    tasks.run(&[]).assert_code(4);
    tasks.dacapo(&["trust", "--revoke"]).assert_code(0);
    for args in [["approve", &id], ["resume", &id]] {
        let output = tasks.dacapo(&args).assert_code(4);
        assert!(output.stderr.contains("teardown: echo down"), "{}", output.stderr);
        assert!(output.stderr.contains("untrusted: task TASK-001"), "{}", output.stderr);
    }
    assert!(!ran.exists());
    tasks.dacapo(&["trust", "--yes"]).assert_code(0);
    tasks.dacapo(&["approve", &id]).assert_code(0);
    tasks.env.wait_until("the worktree is gone", super::support::SOON, || fs::exists(&ran).unwrap());
}

#[test]
fn a_worktree_that_has_become_a_link_is_not_followed() {
    // Before its claim is looked at, and before the next iteration.
    for last in ["promise IMPLEMENTATION_COMPLETE", "echo more"] {
        let tasks = Tasks::new();
        // In a sandbox it could not be moved away.
        tasks.env.without_sandbox();
        let id = tasks.add("T", &[]);
        let root = tasks.env.workspace();
        let head = tasks.env.git(["symbolic-ref", "HEAD"]);
        let link = format!("work; w=$PWD; cd /; mv $w $w.real; ln -s {} $w; {last}", root.display());
        tasks.role("Implementation.1", &link);
        for output in [tasks.run(&[]), tasks.dacapo(&["resume", &id])] {
            let all = format!("{}{}", output.stdout, output.stderr);
            assert_ne!(output.code, Some(0), "{all}");
            assert!(all.contains("a link") && all.contains("which is not followed"), "{all}");
        }
        assert_eq!(tasks.env.git(["symbolic-ref", "HEAD"]), head, "the checkout of the user is where it was");
        assert_eq!(tasks.env.git(["status", "--porcelain", "--", "README.md"]), "");
        assert_eq!(tasks.calls(&id), ["Implementation"], "no agent works in the checkout of the user");
    }
}

#[test]
fn an_index_that_the_user_has_locked_ends_no_performer() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    let lock = "\"$(git rev-parse --git-common-dir)/index.lock\"";
    tasks.role("Implementation", &format!("work; touch {lock}; promise IMPLEMENTATION_COMPLETE"));
    tasks.role("QA", &format!("rm {lock}; promise QA_PASSED"));
    tasks.run(&[]).assert_code(0);
    assert_eq!(tasks.show(&id)["status"], "done");
}

#[test]
fn a_status_that_no_run_has_earned_is_said_and_not_believed() {
    let tasks = Tasks::new();
    let (first, second) = (tasks.add("A", &[]), tasks.add("B", &["--depends-on", "TASK-001"]));
    let file = format!(".dacapo/tasks/{first}.md");
    tasks.env.write(&file, tasks.env.read(&file).replace("status: todo", "status: done"));
    let output = tasks.run(&[]).assert_code(4);
    let words = "task TASK-002 is not begun: it waits for TASK-001, whose file says `done` although no finished run of it is recorded";
    assert!(output.stderr.contains(words), "{}", output.stderr);
    tasks.run(&[&second]).assert_code(4);
    assert_eq!(tasks.calls(&second), Vec::<String>::new(), "what depends on it does not begin");
    assert_eq!(tasks.show(&first)["is_proven"], false);
    assert_eq!(tasks.show(&second)["waits_for"][0], "TASK-001");
    let listed = tasks.dacapo(&["task", "list"]).assert_code(0).stdout;
    assert!(listed.contains("done (not proven)"), "{listed}");
    // The user has the last word.
    tasks.dacapo(&["task", "confirm", &second]).assert_code(1);
    tasks.dacapo(&["task", "confirm", &first]).assert_code(0);
    assert_eq!(tasks.show(&first)["is_proven"], true);
    tasks.run(&[]).assert_code(0);
    assert_eq!(tasks.show(&second)["is_proven"], true);
}

#[test]
fn words_of_a_repository_that_take_proof_away_need_consent() {
    // fault K1
    let tasks = Tasks::new();
    tasks.env.write(".dacapo/config.yaml", "ralph:\n  verify_promises: false\n  qa: {enabled: false}\n");
    let id = tasks.add("T", &[]);
    let output = tasks.run(&[]).assert_code(4);
    for words in
        ["all stages: ralph.verify_promises: false", "qa: ralph.qa.enabled: false", ".dacapo/config.yaml:2"]
    {
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    }
    assert_eq!(tasks.calls(&id), Vec::<String>::new());
    tasks.dacapo(&["trust", "--yes"]).assert_code(0);
    tasks.run(&[]).assert_code(0);
}

#[test]
fn branches_that_an_agent_moves_are_told() {
    let tasks = Tasks::new();
    // In a sandbox it would move a branch of its own.
    tasks.env.without_sandbox();
    let id = tasks.add("T", &[]);
    let root = tasks.env.workspace();
    let root = root.display();
    tasks.role(
        "Implementation",
        &format!("work; git -C {root} commit -q --allow-empty -m sneaked; promise IMPLEMENTATION_COMPLETE"),
    );
    tasks.run(&[]);
    let warned = tasks.of_type(&id, "warned");
    let text =
        warned.iter().filter_map(|event| event["text"].as_str()).find(|text| text.contains("was moved"));
    let text = text.unwrap_or_else(|| panic!("{warned:?}"));
    assert!(
        text.starts_with("the branch `main` was moved while the coder worked, and not by dacapo: "),
        "{text}"
    );
}

#[test]
fn a_check_that_cannot_start_asks_instead_of_using_up_iterations() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    let file = format!(".dacapo/tasks/{id}.md");
    let verify = "completion: {stages: {coder: {verify: {method: external, command: 'true', working_dir: web}}}}\n---\n";
    let text = tasks.env.read(&file);
    let (head, body) = text.rsplit_once("---\n").unwrap();
    tasks.env.write(&file, format!("{head}{verify}{body}"));
    let output = tasks.run(&["--trust"]).assert_code(4);
    assert_eq!(tasks.calls(&id), ["Implementation", "Implementation"], "{}", output.stdout);
    let question = tasks.show(&id)["question"]["text"].as_str().unwrap().to_owned();
    assert!(question.starts_with("A check of the coder cannot be run: "), "{question}");
    assert!(question.contains("its folder `web` is not there"), "{question}");
    // Once the folder is there, the same loop goes on.
    tasks.role("Implementation.3", "mkdir web; echo x >web/x; work; promise IMPLEMENTATION_COMPLETE");
    tasks.dacapo(&["approve", &id, "make it"]).assert_code(0);
    tasks.env.wait_until("it is done", super::support::SOON, || tasks.show(&id)["status"] == "done");
}

#[test]
fn tests_that_the_tester_deletes_stand_in_the_receipt() {
    let tasks = Tasks::new();
    tasks.env.write("tests/old.sh", "exit 0\n");
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "a test"]);
    let id = tasks.add("T", &[]);
    tasks.role(
        "Testing",
        "git rm -q tests/old.sh; commit 'fewer tests'; echo '3 passed'; promise TESTS_COMPLETE",
    );
    tasks.run(&[]).assert_code(0);
    let receipt = tasks.dacapo(&["receipt", &id]).assert_code(0).stdout;
    assert!(
        receipt.contains("tests/old.sh  WARNING: a test that was deleted, and not reviewed"),
        "{receipt}"
    );
    let warned = tasks.of_type(&id, "warned");
    assert!(
        warned
            .iter()
            .any(|event| event["text"] == "the tester deleted tests, and no role reviews that: tests/old.sh")
    );
}

#[test]
fn a_branch_called_task_is_found_before_anything_begins() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.env.git(["branch", "task"]);
    let output = tasks.run(&[]).assert_code(5);
    assert!(
        output.stderr.contains("the branch `task` is in the way of the branches of tasks"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("git branch -m task OTHER"), "{}", output.stderr);
    assert_eq!(tasks.calls(&id), Vec::<String>::new());
}

#[test]
fn a_file_that_an_agent_hides_from_git_is_committed_all_the_same() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role(
        "Implementation",
        "git update-index --skip-worktree README.md; echo more >>README.md; work; promise IMPLEMENTATION_COMPLETE",
    );
    tasks.run(&[]).assert_code(0);
    assert_eq!(tasks.status_in_file(&id), "done");
    assert_eq!(tasks.env.git(["show", "main:README.md"]), "hello\nmore\n");
}

#[test]
fn locks_that_a_git_of_a_killed_agent_has_left_keep_no_later_agent_from_committing() {
    // fault H4
    for is_held in [true, false] {
        left_locks(is_held);
    }
}

fn left_locks(is_held: bool) {
    let tasks = Tasks::new();
    if !is_held {
        tasks.env.without_sandbox();
    }
    let id = tasks.add("T", &[]);
    let locks = r#"own=$(git rev-parse --absolute-git-dir); all=$(git rev-parse --git-common-dir)
: >"$own/index.lock"; : >"$own/HEAD.lock"; : >"$all/$(git symbolic-ref HEAD).lock""#;
    tasks.role("Implementation.1", &format!("{locks}; exit 1"));
    // Nor the loop of the next role, which would not begin beside a lock.
    tasks.role("Testing.1", &format!("{locks}; echo '3 passed'; promise TESTS_COMPLETE"));
    tasks.run(&[]).assert_code(0);
    assert_eq!(tasks.calls(&id), ["Implementation", "Implementation", "Review", "Testing", "QA"]);
    assert_eq!(refusals(&tasks, &id), []);
    let told = tasks.of_type(&id, "warned");
    let of = |name: &str| {
        let is_told =
            |event: &&serde_json::Value| event["text"].as_str().is_some_and(|text| text.contains(name));
        told.iter().filter(is_told).count()
    };
    for name in ["index.lock` behind", "HEAD.lock` behind"] {
        assert_eq!(of(name), 2, "{name}: {told:#?}");
    }
    // In a sandbox it is a lock of the agent's own ref, which the next agent does not see.
    if !is_held {
        assert_eq!(of("refs/heads/task/TASK-001.lock` behind"), 2, "{told:#?}");
    }
}

#[test]
fn a_task_that_is_merged_is_not_worked_on_again_because_its_dacapo_was_killed_before_it_wrote_so() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "tasks"]);
    tasks.run(&[]).assert_code(0);
    let calls = tasks.calls(&id);
    // As the file is between the end in the journal and the end in the file.
    let file = format!(".dacapo/tasks/{id}.md");
    tasks.env.write(&file, tasks.env.read(&file).replace("status: done", "status: testing"));
    assert_eq!(tasks.show(&id)["status"], "done");
    tasks.run(&[]).assert_code(0);
    assert_eq!((tasks.calls(&id), tasks.status_in_file(&id)), (calls.clone(), "done".to_owned()));
    assert_eq!(tasks.merges(), ["Merge task TASK-001: T"]);
    // The user's own word has it worked on again.
    tasks.env.write(&file, tasks.env.read(&file).replace("status: done", "status: todo"));
    tasks.run(&["--force"]).assert_code(0);
    assert!(tasks.calls(&id).len() > calls.len());
}
