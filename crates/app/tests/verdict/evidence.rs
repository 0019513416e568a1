//! What an agent must show beside its claim: facts first, and where there are none its own words.

use std::fs;

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

use crate::support::{PROMISE, World, assert_has, project, repository};

const FIX: &str = "echo fixed >work.txt";

/// The reason and the words of every refusal.
fn refusals(env: &TestEnv) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    env.of_type("claim_refused")
        .iter()
        .map(|event| (text(&event["reason"]), text(&event["detail"])))
        .collect()
}

/// A loop of one iteration by an agent that does this and promises; its refusals.
#[track_caller]
fn judged(env: &TestEnv, agent: &str, extra: &[&str]) -> Vec<(String, String)> {
    let output = env.loop_of(&format!("{agent}; {PROMISE}"), &[&["-n", "1"], extra].concat());
    let refused = refusals(env);
    output.assert_code(if refused.is_empty() { 0 } else { 3 });
    refused
}

fn no_evidence(detail: &str) -> Vec<(String, String)> {
    vec![("no_evidence".to_owned(), detail.to_owned())]
}

#[test]
fn words_about_a_commit_are_none_where_the_branch_did_not_move() {
    // req 180, req 182, req 185
    let env = repository();
    let prompts = env.root().join("prompts");
    let agent = format!(
        "cat >>{}\n{FIX}\nif [ $DACAPO_ITERATION = 2 ]; then git commit -qam work; else echo 'I committed it.'; fi\n\
         {PROMISE}",
        prompts.display()
    );
    let output = env.loop_of(&agent, &["-n", "3", "--evidence", "commit"]).assert_code(0);
    assert_has(&(output.stdout + &output.stderr), "no gate · evidence: commit · at most 3 iterations");
    assert_eq!(refusals(&env), no_evidence("No commit detected in coder output"));
    let found = env.of_type("claim_examined");
    assert_eq!(found[0]["missing_evidence"], json!([{"reason": "No commit detected in coder output"}]));
    assert_eq!(found[1].get("missing_evidence"), None);
    let told = fs::read_to_string(&prompts).unwrap();
    assert_eq!(told.matches("Commit your work before that").count(), 2, "{told}");
    assert_eq!(told.matches("was refused: No commit detected in coder output.").count(), 1, "{told}");
    assert_eq!(env.agents(), 2);
    assert_has(&env.run(["events", "t"]).assert_code(0).stdout, "claim refused (no_evidence): No commit");
}

#[test]
fn an_agent_whose_branch_moved_need_not_speak_of_it() {
    // req 182
    let env = repository();
    assert_eq!(judged(&env, &format!("{FIX}; git commit -qam work"), &["--evidence", "commit"]), []);
    assert_eq!(env.receipt()["commits"].as_array().unwrap().len(), 1);
    // A commit that is taken back is none.
    let env = repository();
    let agent = format!("{FIX}; git commit -qam work; git reset -q HEAD~1; echo committed");
    assert_eq!(
        judged(&env, &agent, &["--evidence", "commit"]),
        no_evidence("No commit detected in coder output")
    );
}

#[test]
fn outside_git_words_are_all_there_is() {
    // req 182, req 183, req 184
    for (kind, words, refused) in [
        ("commit", "echo 'Committed.'", None),
        ("commit", "true", Some("No commit detected in coder output")),
        ("tests", "echo '12 Passed'", None),
        ("tests", "echo 'all green'", Some("No passing tests detected")),
        ("approval", "echo 'REVIEW PASSED'", None),
        ("approval", "echo 'review passed'", Some("No review approval detected")),
        // What repeats the prompt is not the agent's own.
        ("commit", "cat", Some("No commit detected in coder output")),
    ] {
        let env = project();
        let expected = refused.map(no_evidence).unwrap_or_default();
        assert_eq!(judged(&env, words, &["--evidence", kind]), expected, "{kind}: {words}");
    }
}

#[test]
fn where_gates_are_they_are_the_evidence_of_tests() {
    // req 183
    let gated = ["--evidence", "tests", "--gate", "./check.sh"];
    assert_eq!(judged(&repository(), FIX, &gated), []);
    let refused = judged(&repository(), "echo 'all tests passed' | tee notes", &gated);
    assert_eq!(refused, [("gate_failed".to_owned(), "gate `./check.sh` exited 1".to_owned())]);
}

#[test]
fn a_configuration_asks_for_evidence_too() {
    // req 184
    let configured = || {
        let env = repository();
        env.write(".dacapo/config.yaml", "evidence: [approval]\n");
        env
    };
    assert_eq!(judged(&configured(), FIX, &[]), no_evidence("No review approval detected"));
    assert_eq!(judged(&configured(), &format!("{FIX}; echo 'Approved.'"), &[]), []);
    // What is typed comes beside it; the first that is missing is told.
    let env = configured();
    let refused = judged(&env, "echo 'Approved.'", &["--evidence", "commit"]);
    assert_eq!(refused, no_evidence("No commit detected in coder output"));
    let explained = env.run(["explain", "run", "x", "--agent-cmd", "true", "--json"]).assert_code(0);
    let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
    let evidence = &explained["policy"]["evidence"];
    assert_eq!(evidence["value"], json!(["approval"]));
    assert_has(evidence["from"].as_str().unwrap(), "config.yaml:1");
    env.write(".dacapo/config.yaml", "evidence: [review]\n");
    let refused = env.run(["run", "x", "--agent-cmd", "true"]).assert_code(2);
    assert_has(&refused.stderr, "must be one of commit, tests, approval");
}

#[test]
fn only_what_an_agent_says_itself_is_its_word() {
    // req 184: not what a tool printed, nor what the agent was asked.
    let message = |role: &str, content: Value| {
        json!({"type": role, "message": {"id": "m", "role": role, "content": [content]}}).to_string()
    };
    let result = json!({"type": "tool_result", "tool_use_id": "1", "content": "approved"});
    let tool = message("user", result);
    let text = |text: &str| message("assistant", json!({"type": "text", "text": text}));
    let end =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "", "session_id": "s"});
    for (said, refused) in [
        ("<promise>DONE</promise>", Some("No review approval detected")),
        ("It is approved.\n\n<promise>DONE</promise>", None),
    ] {
        let env = repository();
        let printed = env.root().join("printed");
        fs::write(&printed, format!("{tool}\n{}\n{end}\n", text(said))).unwrap();
        let folder = env.home().join(".config/dacapo");
        fs::create_dir_all(&folder).unwrap();
        let agent =
            format!("agents: {{mine: {{command: [cat, \"{}\"], output: claude}}}}\n", printed.display());
        fs::write(folder.join("config.yaml"), agent).unwrap();
        let run = ["run", "do it", "--project", "p", "--task", "t", "--agent", "mine", "-n", "1"];
        env.run([&run[..], &["--evidence", "approval"]].concat()).assert_code(if refused.is_some() {
            3
        } else {
            0
        });
        assert_eq!(refusals(&env), refused.map(no_evidence).unwrap_or_default(), "{said}");
    }
}
