//! `completion` of a task: how the promise of a stage is verified for this task.

use serde_json::json;

use crate::support::Tasks;

/// A task whose stage `coder` is verified so.
fn verified(tasks: &Tasks, verify: &str) -> &'static str {
    let text = format!(
        "---\nid: TASK-001\ntitle: T\nstatus: todo\ncompletion: {{criteria: [it is polite], stages: {{coder: {{verify: {verify}}}}}}}\n---\nSay hello.\n"
    );
    tasks.env.write(".dacapo/tasks/TASK-001.md", text);
    "TASK-001"
}

#[test]
fn a_promise_counts_only_if_the_command_of_the_task_comes_to_what_it_expects() {
    // req 198
    let tasks = Tasks::new();
    let id = verified(
        &tasks,
        "{method: external, command: cat said; exit 3, success_exit_code: 3, output_contains: hello, \
         output_not_contains: rude, working_dir: out}",
    );
    // No folder, the wrong words, forbidden words, and at last what is expected.
    let says = |words: &str| {
        format!("mkdir -p out; echo '{words}' >out/said; work; promise IMPLEMENTATION_COMPLETE")
    };
    tasks.role("Implementation.2", &says("goodbye"));
    tasks.role("Implementation.3", &says("hello, rude one"));
    tasks.role("Implementation.4", &says("hello, you"));
    tasks.run(&["--trust"]).assert_code(0);
    let refusals: Vec<_> = tasks
        .of_type(id, "claim_refused")
        .iter()
        .map(|refused| refused["detail"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        refusals,
        [
            "gate `cat said; exit 3` could not be started: its folder `out` is not there",
            "gate `cat said; exit 3` did not print `hello`",
            "gate `cat said; exit 3` printed `rude`, which it must not",
        ]
    );
    let told = tasks.prompt(id, "Implementation", 3);
    assert!(told.contains("the check `cat said; exit 3` did not print `hello`."), "{told}");
    assert!(told.contains("The end of what it printed:\ngoodbye\n"), "{told}");
    let receipt = tasks.dacapo(&["receipt", id, "--json"]).assert_code(0);
    let receipt: serde_json::Value = serde_json::from_str(&receipt.stdout).unwrap();
    let gate = &receipt["stages"][0]["receipt"]["gates"][0];
    let expect = json!({ "exit_code": 3, "output_contains": "hello", "output_not_contains": "rude" });
    assert_eq!(
        (&gate["expect"], &gate["working_dir"], &gate["exit_code"]),
        (&expect, &json!("out"), &json!(3))
    );
}

#[test]
fn a_command_that_hangs_is_ended_with_what_it_started_and_verifies_nothing() {
    // req 198
    let tasks = Tasks::new();
    let id = verified(
        &tasks,
        "{method: external, command: 'test -f ended || { sleep 600 & sleep 600; }', timeout: 1}",
    );
    tasks.role("Implementation.2", "echo >ended; work; promise IMPLEMENTATION_COMPLETE");
    tasks.run(&["--trust"]).assert_code(0);
    let refused = tasks.of_type(id, "claim_refused");
    assert_eq!(refused.len(), 1, "{refused:#?}");
    assert!(refused[0]["detail"].as_str().unwrap().ends_with("timed out after 1s"), "{refused:#?}");
    assert_eq!(tasks.calls(id)[..3], ["Implementation", "Implementation", "Review"]);
    assert_eq!(tasks.env.survivors(), Vec::<u32>::new());
}

#[test]
fn an_agent_that_is_asked_refuses_or_leaves_it_to_the_other_steps() {
    // req 198
    let tasks = Tasks::new();
    let id = verified(
        &tasks,
        "{method: multi_stage, steps: [{method: semantic}, {method: external, command: test -s work-TASK-001.txt}]}",
    );
    tasks.role("asked.Judge.1", "echo 'CRITERIA NOT MET: it is not polite'; promise CRITERIA_MET");
    tasks.role("asked.Judge.2", r#"printf '%s' "$prompt""#);
    tasks.run(&["--trust"]).assert_code(0);
    let refusals: Vec<_> =
        tasks.of_type(id, "claim_refused").iter().map(|refused| refused["detail"].clone()).collect();
    assert_eq!(
        refusals,
        [
            "gate `criteria` says no: CRITERIA NOT MET: it is not polite",
            "gate `criteria` gave no answer that says yes",
        ]
    );
    assert_eq!(tasks.calls("asked"), ["Judge"; 3]);
    assert!(tasks.prompt("asked", "Judge", 1).contains("## Acceptance Criteria\n- it is polite\n"));
    let agent = tasks.agent().display().to_string();
    let explained = tasks.dacapo(&["explain", "task", id, "--agent-cmd", &agent]).assert_code(0);
    let told = "verified by      an agent that is asked, then test -s work-TASK-001.txt";
    assert!(explained.stdout.contains(told), "{}", explained.stdout);
    assert!(!explained.stdout.contains("  gate "), "told once: {}", explained.stdout);
}
