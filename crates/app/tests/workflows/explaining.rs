//! `dacapo explain workflow`.

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

use crate::support::with;

const STEPS: &str = "provider: codex\nmodel: large\nbudget: {max_cost: 5.00}\nsteps:\n  - {id: plan, prompt: think, provider: claude}\n\
    \u{20} - {id: fix, loop: {prompt: p, until: DONE, until_bash: make test, max_iterations: 4, gates: [make lint]}}\n\
    \u{20} - {id: test, bash: make test, when: \"$plan.output.ok == 'yes'\"}\n  - {id: ask, approval: May it stay?}\n";

fn explained(env: &TestEnv, extra: &[&str]) -> Value {
    let fixed = ["explain", "workflow", "w", "--json"];
    serde_json::from_str(&env.run(fixed.iter().chain(extra)).assert_code(0).stdout).unwrap()
}

#[test]
fn each_step_is_told_with_its_agent_and_who_names_it() {
    let env = with(STEPS);
    env.install_agent("claude").install_agent("codex");
    let told = explained(&env, &[]);
    assert_eq!((&told["preset"], &told["run"]["workflow"]), (&json!("workflow"), &json!("w")));
    assert_eq!(told["run"]["file"], ".dacapo/workflows/w.yaml");
    assert_eq!(told["run"]["budget"]["max_cost"], 5.0);
    assert_eq!(told["run"]["commands"], json!(["make test", "make lint", "make test"]));
    let steps = told["run"]["steps"].as_array().unwrap();
    let agent =
        |at: usize| (&steps[at]["agent"]["name"], &steps[at]["agent"]["from"], &steps[at]["agent"]["model"]);
    assert_eq!(agent(0), (&json!("claude"), &json!(".dacapo/workflows/w.yaml:7"), &json!("large")));
    assert_eq!(agent(1), (&json!("codex"), &json!(".dacapo/workflows/w.yaml"), &json!("large")));
    assert_eq!((&steps[2]["agent"], &steps[3]["agent"]), (&Value::Null, &Value::Null));
    assert_eq!(
        steps[1]["what"],
        "at most 4 times, until the agent says DONE and `make test` exits 0, gate `make lint`"
    );
    assert_eq!(steps[1]["depends_on"], json!(["plan"]));
    assert_eq!(steps[2]["what"], "`make test`, when $plan.output.ok == 'yes'");
    assert!(steps[1]["agent"]["argv"].as_array().unwrap().iter().any(|word| word == "large"), "{told:#}");
    // What is typed outranks the file.
    let typed = explained(&env, &["--agent", "claude", "--max-cost", "2"]);
    let steps = typed["run"]["steps"].as_array().unwrap();
    assert_eq!(
        (&steps[1]["agent"]["name"], &steps[1]["agent"]["from"]),
        (&json!("claude"), &json!("--agent"))
    );
    assert_eq!(typed["run"]["budget"]["max_cost"], 2.0);
    // Nothing was started.
    assert!(!env.dacapo_home().exists());
}

#[test]
fn people_read_a_line_for_each_step_and_what_is_in_the_way() {
    let env = with(STEPS);
    let text = env.run(["explain", "workflow", "w"]).assert_code(0).stdout;
    let steps: Vec<&str> = text.lines().filter(|line| line.starts_with("step ")).collect();
    insta::assert_snapshot!(steps.join("\n"), @r"
    step               plan (prompt): once
    step               fix (loop) behind plan: at most 4 times, until the agent says DONE and `make test` exits 0, gate `make lint`
    step               test (bash) behind fix: `make test`, when $plan.output.ok == 'yes'
    step               ask (approval) behind test: asks: May it stay?
    ");
    assert!(text.contains("It would not start: "), "{text}");
    let unknown = env.run(["explain", "workflow", "v"]).assert_code(2);
    assert!(unknown.stderr.contains("no workflow is called `v`"), "{}", unknown.stderr);
    // One that is built in runs no command of the repository.
    let built_in = env.run(["explain", "workflow", "checklist", "--json"]).assert_code(0).stdout;
    let told: Value = serde_json::from_str(&built_in).unwrap();
    assert_eq!((&told["run"]["file"], &told["run"]["commands"]), (&json!("built in"), &json!([])));
}

#[test]
fn no_other_agent_takes_the_place_of_one_that_was_typed() {
    let env = with("provider: claude\nsteps: [{prompt: work}]\n");
    env.install_agent("claude");
    env.script("touch started; say done");
    let refused = env.run(["workflow", "run", "w", "--trust", "--agent", "qwen"]).assert_code(5);
    assert!(refused.stderr.contains("qwen"), "{}", refused.stderr);
    assert!(!env.workspace().join("started").exists());
}
