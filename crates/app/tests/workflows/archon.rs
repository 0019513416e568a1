//! Archon's own default workflows, written anew in Archon's format, run as they are from start to end.

use std::{fs, path::Path};

use dacapo_testkit::{Output, TestEnv, fake_agent};
use serde_json::{Value, json};

use crate::support::{SOON, env, events, run_id, status};

/// A repository with these workflows of Archon's, and the agent `mine`, each run of which takes the next script.
fn world(turns: &[&str]) -> TestEnv {
    let env = env();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workflows/archon");
    for folder in ["workflows", "commands"] {
        for entry in fs::read_dir(fixtures.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            env.write(format!(".archon/{folder}/{name}"), fs::read(&path).unwrap());
        }
    }
    let config = format!(
        "agents:\n  mine:\n    command: [\"{}\", --turns, \"{}\"]\n    output: text\n",
        fake_agent().display(),
        env.turns(turns).display()
    );
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), config).unwrap();
    env
}

fn run(env: &TestEnv, name: &str, extra: &[&str]) -> Output {
    let fixed = ["workflow", "run", name, "--trust", "--restart-delay", "0s", "--agent", "mine"];
    env.run(fixed.iter().chain(extra))
}

/// What became of each step, in order: its name, or its name with a `-` if it was skipped.
fn steps(env: &TestEnv, id: &str) -> Vec<String> {
    let told = events(env, id).into_iter().filter_map(|event| {
        let step = event["step"].as_str()?;
        match event["type"].as_str()? {
            "step_complete" => Some(step.to_owned()),
            "step_skipped" => Some(format!("-{step}")),
            "step_error" => Some(format!("!{step}")),
            _ => None,
        }
    });
    told.collect()
}

/// What a step answered last.
fn output(env: &TestEnv, id: &str, step: &str) -> String {
    let is_meant = |event: &&Value| event["type"] == "step_complete" && event["step"] == step;
    let all = events(env, id);
    all.iter().rfind(is_meant).unwrap()["output"].as_str().unwrap().to_owned()
}

/// The question that a run which is held by no process waits for.
fn question(env: &TestEnv, id: &str, number: u64) -> String {
    env.wait_until("the question", SOON, || status(env, id)["question"]["question"] == number);
    status(env, id)["question"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn fix_github_issue_takes_the_branch_that_fits_the_issue() {
    for (kind, branch, skipped, file) in
        [("bug", "investigate", "plan", "investigation.md"), ("feature", "plan", "investigate", "plan.md")]
    {
        let env = world(&[
            "prompt-to .git/p1; say '{\"issue\": \"42\", \"notes\": \"soon\"}'",
            &format!("prompt-to .git/p2; say '{{\"issue_type\": \"{kind}\"}}'"),
            &format!("prompt-to .git/p3; write {file} add the missing line; say found it"),
            // The first try breaks, and is tried again.
            "exit 3",
            "prompt-to .git/p4; write fixed.txt yes; say done",
            "prompt-to .git/p5; say all is well",
        ]);
        env.write("tracker/42", "It prints $HOME; `touch hacked` 'now'\n");
        env.write("check.sh", "grep -q yes fixed.txt && echo 1 passed\n");
        let done = run(&env, "archon-fix-github-issue", &["please fix 42"]).assert_code(0);
        let id = run_id(&done);
        let mut expected = vec!["parse-request", "fetch-issue", "classify", branch, "bridge"];
        expected.extend(["!implement", "implement", "validate", "report"]);
        let told = steps(&env, &id);
        let taken: Vec<&str> =
            told.iter().map(String::as_str).filter(|step| !step.starts_with('-')).collect();
        assert_eq!(taken, expected);
        assert!(told.contains(&format!("-{skipped}")), "{told:?}");
        // What one step said reaches the next, as it was said.
        assert!(env.read(".git/p1").contains("The user wrote: please fix 42"));
        let issue = "It prints $HOME; `touch hacked` 'now'";
        assert!(env.read(".git/p2").contains(issue), "{}", env.read(".git/p2"));
        assert!(env.read(".git/p3").contains(issue));
        assert!(env.read(".git/p4").contains("add the missing line"));
        let report = env.read(".git/p5");
        assert!(report.contains(&format!("Report on issue 42, a {kind}.")), "{report}");
        assert!(report.contains("The checks said: 1 passed") && report.contains(&id), "{report}");
        assert!(!env.workspace().join("hacked").exists());
        assert_eq!(status(&env, &id)["detail"], "all is well");
    }
}

#[test]
fn fix_github_issue_fails_where_the_issue_is_not_there() {
    let env = world(&["say '{\"issue\": \"7\"}'"]);
    let failed = run(&env, "archon-fix-github-issue", &["fix 7"]).assert_code(1);
    assert!(failed.stderr.contains("no such issue: tracker/7"), "{}", failed.stderr);
    let told = steps(&env, &run_id(&failed));
    assert_eq!(&told[..2], ["parse-request", "!fetch-issue"]);
}

#[test]
fn smart_pr_review_runs_the_reviewers_that_are_needed() {
    let env = world(&[
        "prompt-to .git/p1; say '{\"run_code_review\": \"true\", \"run_error_handling\": \"false\", \"run_test_coverage\": \"true\"}'",
        "prompt-to .git/p2; say code: fine",
        "prompt-to .git/p3; say tests: one is missing",
        "prompt-to .git/p4; say add a test; touch scratch/x",
        "prompt-to .git/p5; write test.sh true; say added",
    ]);
    env.write("change.diff", "+ a line\n");
    env.write("notify.txt", "");
    let done = run(&env, "archon-smart-pr-review", &[]).assert_code(0);
    let id = run_id(&done);
    let told = steps(&env, &id);
    let order = |step: &str| {
        told.iter().position(|known| known == step).unwrap_or_else(|| panic!("{step}: {told:?}"))
    };
    for (before, after) in [
        ("scope", "classify"),
        ("classify", "code-review"),
        ("classify", "test-coverage"),
        ("-error-handling", "synthesize"),
        ("code-review", "synthesize"),
        ("test-coverage", "synthesize"),
        ("synthesize", "mend"),
        ("mend", "wants-notice"),
        ("wants-notice", "notify"),
        ("notify", "clean-up"),
    ] {
        assert!(order(before) < order(after), "{before}, {after}: {told:?}");
    }
    assert!(env.read(".git/p1").contains("+ a line"));
    assert!(env.read(".git/p2").contains("Review this change as a careful colleague would:\n\n+ a line"));
    let all = env.read(".git/p4");
    for line in ["Code: [code: fine]", "Errors: []", "Tests: [tests: one is missing]"] {
        assert!(all.contains(line), "{all}");
    }
    assert!(env.read(".git/p5").contains("Mend this: add a test"));
    assert_eq!(env.read("notify.txt"), "add a test\n");
    assert!(!env.workspace().join("scratch").exists());

    // Without anything to notify, that step is skipped, and the clean-up runs all the same.
    let env = world(&[
        "say '{\"run_code_review\": \"true\", \"run_error_handling\": \"false\", \"run_test_coverage\": \"false\"}'",
        "say fine",
    ]);
    env.write("change.diff", "+ a line\n");
    let done = run(&env, "archon-smart-pr-review", &[]).assert_code(0);
    let told = steps(&env, &run_id(&done));
    assert!(told.contains(&"-notify".to_owned()) && told.last().unwrap() == "clean-up", "{told:?}");
}

#[test]
fn interactive_prd_asks_a_person_three_times_and_reworks_what_is_rejected() {
    let env = world(&[
        "prompt-to .git/p1; say who is it for?",
        "prompt-to .git/p2; say and what is left out?",
        "prompt-to .git/p3; write prd.md '- one point'; say written",
        "prompt-to .git/p4; append prd.md '- another point'; say changed",
        "prompt-to .git/p5; say accepted",
    ]);
    let asked = run(&env, "archon-interactive-prd", &["a shop for tea"]).assert_code(4);
    let id = run_id(&asked);
    assert!(env.read(".git/p1").contains("The idea: a shop for tea"));
    assert_eq!(question(&env, &id, 1), "Please answer: who is it for?");
    env.run(["approve", &id, "for grandmothers"]).assert_code(0);
    assert_eq!(question(&env, &id, 2), "What belongs to it? and what is left out?");
    assert!(env.read(".git/p2").contains("The person said: for grandmothers"));
    env.run(["approve", &id, "only green tea"]).assert_code(0);
    assert_eq!(question(&env, &id, 3), "The document has 1 points. Is it good?");
    let prompt = env.read(".git/p3");
    assert!(
        prompt.contains("Known: for grandmothers") && prompt.contains("Scope: only green tea"),
        "{prompt}"
    );
    env.run(["reject", &id, "one more"]).assert_code(0);
    assert_eq!(question(&env, &id, 4), "The document has 2 points. Is it good?");
    assert!(env.read(".git/p4").contains("Change `prd.md`: one more"));
    env.run(["approve", &id]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
    assert!(env.read(".git/p5").contains("2 points"));
    let told = steps(&env, &id);
    assert_eq!(
        told.iter().filter(|step| *step == "validate").count(),
        2,
        "the check runs after the rework: {told:?}"
    );
}

const PRD: &str = "{\"stories\": [{\"id\": 1, \"passes\": false}, {\"id\": 2, \"passes\": false}]}\n";

#[test]
fn ralph_dag_works_through_the_stories_of_a_file_or_of_an_idea() {
    let next = "prompt-to .git/last; sh 'sed -i \"0,/false/s//true/\" prd.json && git add -A && git commit -qm story'; say did one";
    let last = format!("{next}; promise COMPLETE");
    // The file is there: no stories are made up.
    let env = world(&[next, &last, "prompt-to .git/report; say reported"]);
    env.write("prd.json", PRD);
    let done = run(&env, "archon-ralph-dag", &[]).assert_code(0);
    let id = run_id(&done);
    let told = steps(&env, &id);
    let taken: Vec<&str> = told.iter().map(String::as_str).filter(|step| !step.starts_with('-')).collect();
    assert_eq!(taken, ["detect-input", "validate-prd", "implement", "report"]);
    assert_eq!(output(&env, &id, "detect-input").trim(), "ready");
    let prompt = env.read(".git/last");
    assert!(
        prompt.contains("2 stories are open") && prompt.contains("Before, you said: did one"),
        "{prompt}"
    );
    assert!(!env.read("prd.json").contains("false"));
    assert_eq!(env.git(["log", "--format=%s"]).matches("story").count(), 2);
    assert!(env.read(".git/report").contains("Report on: did one"));

    // Only an idea: an agent writes the stories first.
    let write = format!("prompt-to .git/idea; write prd.json '{}'; say written", PRD.trim());
    let env = world(&[&write, next, &last, "say reported"]);
    let done = run(&env, "archon-ralph-dag", &["a shop"]).assert_code(0);
    assert!(env.read(".git/idea").contains("stories for this idea: a shop"));
    assert!(steps(&env, &run_id(&done)).contains(&"generate-prd".to_owned()));

    // Neither: the run is cancelled, and no agent is started.
    let env = world(&["touch started"]);
    let cancelled = run(&env, "archon-ralph-dag", &[]);
    let id = run_id(&cancelled);
    let seen = status(&env, &id);
    assert_eq!(
        (&seen["state"], &seen["detail"]),
        (&json!("cancelled"), &json!("There is neither a prd.json nor an idea: say what is to be built."))
    );
    assert!(!env.workspace().join("started").exists());
}

#[test]
fn piv_loop_goes_on_with_the_person_until_the_plan_is_good() {
    let env = world(&[
        "prompt-to .git/p1; say a small one?",
        "prompt-to .git/p2; say a large one; promise PLAN_READY",
        "prompt-to .git/p3; write plan.md first; append plan.md second; say planned",
        "append .git/builds x; say half",
        "append .git/builds x; touch build/ok; say built",
        "prompt-to .git/p4; say good",
    ]);
    let asked = run(&env, "archon-piv-loop", &["a shop"]).assert_code(4);
    let id = run_id(&asked);
    assert!(env.read(".git/p1").contains("Explore: a shop"));
    assert_eq!(question(&env, &id, 1), "Is this what you want? a small one?");
    // Words with an approval are for the next iteration.
    env.run(["approve", &id, "larger, please"]).assert_code(0);
    assert_eq!(question(&env, &id, 2), "Is this what you want? a large one");
    assert!(env.read(".git/p2").contains("The person says: larger, please"));
    env.run(["approve", &id]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
    assert_eq!(
        steps(&env, &id),
        ["explore", "create-plan", "implement-setup", "implement", "review", "finalize"]
    );
    assert!(env.read(".git/p3").contains("Write plan.md from: a large one"), "{}", env.read(".git/p3"));
    assert_eq!(output(&env, &id, "implement-setup").trim(), "2");
    // The script was enough, without the agent's word: this is Archon's either-or.
    assert_eq!(env.read(".git/builds").lines().count(), 2);
}

#[test]
fn an_unsupported_key_is_named_and_left_out_only_if_the_user_says_so() {
    let env = world(&["say looked"]);
    let refused = run(&env, "archon-unsupported", &[]).assert_code(2);
    for key in ["allowed_tools", "hooks"] {
        let words = format!("`{key}` is a key of Archon's that dacapo does nothing with");
        assert!(refused.stderr.contains(&words) || refused.stdout.contains(&words), "{}", refused.stderr);
    }
    let checked = env.run(["workflow", "check", "archon-unsupported", "--lenient"]).assert_code(0).stdout;
    for line in [
        "left out: `allowed_tools` in .archon/workflows/archon-unsupported.yaml:6",
        "left out: `hooks` in .archon/workflows/archon-unsupported.yaml:7",
    ] {
        assert!(checked.contains(line), "{checked}");
    }
    let done = run(&env, "archon-unsupported", &["--lenient"]).assert_code(0);
    let id = run_id(&done);
    assert_eq!(steps(&env, &id), ["check", "end"]);
    // The run remembers what was left out.
    let started = events(&env, &id).into_iter().find(|event| event["type"] == "workflow_start").unwrap();
    assert_eq!(
        started["left_out"],
        json!([{ "key": "allowed_tools", "line": 6 }, { "key": "hooks", "line": 7 }])
    );
}
