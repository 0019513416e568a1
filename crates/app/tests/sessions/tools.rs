//! `dacapo mcp` in a chat session that the user sits in: no supervisor runs, the tools take steps of the session's loop.

use serde_json::{Value, json};

use crate::support::{Host, assert_let_go, assert_sent_back};

/// What a tool answers, and whether it refuses.
#[track_caller]
fn call(host: &Host, session: &str, tool: &str, arguments: Value) -> (String, bool) {
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let args = ["mcp", "--allow-run", "--session", session];
    let output = host.with_input(&args, format!("{line}\n").as_bytes()).assert_code(0);
    let answer: Value = serde_json::from_str(output.stdout.trim()).expect("an answer");
    let text =
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    (text, answer["result"]["isError"] == true)
}

#[test]
fn done_is_judged_when_the_agent_stops_and_its_refusal_can_be_read() {
    let host = Host::new();
    host.user("gates: [{name: made, run: test -e made}]\n");
    host.start("s1", &["--max-iterations", "5"]).assert_code(0);
    let (task, _) = call(&host, "s1", "task", json!({}));
    assert!(task.starts_with("Fix it.") && task.contains("test -e made"), "{task}");

    let (taken, is_refused) = call(&host, "s1", "done", json!({"note": "all of it"}));
    assert!(!is_refused && taken.contains("these gates decide: made"), "{taken}");
    let answer = host.work_and_stop("s1", "I have said so by a tool.");
    assert_eq!(answer["decision"], "block", "{answer}");
    assert!(answer["reason"].as_str().is_some_and(|why| why.contains("made")), "{answer}");
    let (refusal, _) = call(&host, "s1", "refusal", json!({}));
    assert!(refusal.contains("refused"), "{refusal}");
    assert!(call(&host, "s1", "limits", json!({})).0.contains("of at most 5"));

    host.env.write("made", "");
    call(&host, "s1", "done", json!({}));
    assert_let_go(&host.stop("s1", "Now it is there."));
    assert_eq!(host.end()["reason"], "done");
}

#[test]
fn a_tool_of_a_session_without_a_loop_changes_nothing_and_an_open_question_holds_a_claim_up() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    for tool in ["done", "task", "limits"] {
        let (said, is_refused) = call(&host, "s2", tool, json!({}));
        assert!(is_refused && said.contains("no active loop"), "{tool}: {said}");
    }
    let (_, is_refused) = call(&host, "s1", "ask", json!({"question": "Which port?"}));
    assert!(!is_refused);
    assert_sent_back(&host.work_and_stop("s1", "I go on meanwhile."), "2/100");
    let (said, is_refused) = call(&host, "s1", "done", json!({}));
    assert!(is_refused && said.contains("Which port?"), "{said}");
}

#[test]
fn an_agent_that_says_blocked_by_a_tool_is_let_go_when_it_stops_and_a_person_reads_why() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let (said, is_refused) = call(&host, "s1", "blocked", json!({"why": "  "}));
    assert!(is_refused && said.contains("blank"), "{said}");
    let (said, is_refused) = call(&host, "s1", "blocked", json!({"why": "the key\nis missing"}));
    assert!(!is_refused && said.contains("the loop stops"), "{said}");
    assert_eq!(host.state("s1")["active"], true, "it counts when the agent stops");
    assert_let_go(&host.work_and_stop("s1", "I cannot go on."));
    let end = host.end();
    assert_eq!((&end["reason"], &end["state"]), (&json!("blocked"), &json!("stopped")), "{end}");
    assert!(host.env.run(["why"]).stdout.contains("the key is missing"));
}

#[test]
fn what_was_said_to_an_earlier_turn_does_not_block_a_later_one() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    call(&host, "s1", "blocked", json!({"why": "no key"}));
    assert_let_go(&host.work_and_stop("s1", "I cannot go on."));
    host.env.run(["resume", "session-s1"]).assert_code(0);
    assert_sent_back(&host.work_and_stop("s1", "Now there is one."), "2/100");
    let (said, is_refused) =
        call(&host, "s1", "post", json!({"type": "FACT", "body": "port 80", "project": true}));
    assert!(!is_refused, "{said}");
    assert!(host.env.run(["bus", "read"]).assert_code(0).stdout.contains("port 80"));
}

#[test]
fn a_child_loop_that_a_tool_started_holds_the_session_until_it_has_ended() {
    let host = Host::new();
    host.user("agents: {child: {command: [sh, -c, 'while ! test -e let-go; do sleep 0.02; done; echo \"<promise>DONE</promise>\"'], prompt: stdin, output: text}}\n");
    host.start("s1", &[]).assert_code(0);
    assert_eq!(call(&host, "s1", "run", json!({})).0, "You have no child loops.");
    let (said, is_refused) =
        call(&host, "s1", "run", json!({"prompt": "a part of it", "agent": "child", "max_iterations": 1}));
    assert!(!is_refused, "{said}");
    let id = said.split(' ').nth(2).expect("the id of the child").to_owned();
    let (seen, _) = call(&host, "s1", "run", json!({"id": id}));
    assert!(seen.contains("running"), "{seen}");
    let (said, is_refused) = call(&host, "s1", "done", json!({}));
    assert!(is_refused && said.contains(&id), "{said}");
    assert_let_go(&host.work_and_stop("s1", "The child works."));
    assert_eq!(host.state("s1")["iteration"], 1, "it was not sent back");

    host.env.write("let-go", "");
    let (seen, _) = call(&host, "s1", "run", json!({"id": id, "wait": 60}));
    assert!(seen.contains("completed"), "{seen}");
    assert_sent_back(&host.work_and_stop("s1", "The child is done."), "2/100");
    let (said, is_refused) = call(&host, "s1", "run", json!({"prompt": "x", "agent": "not-there"}));
    assert!(is_refused && said.contains("not-there"), "{said}");
}
