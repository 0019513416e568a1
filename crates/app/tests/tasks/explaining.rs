//! `dacapo explain task`.

use std::fs;

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

fn env(config: &str) -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env.install_agent("claude").install_agent("codex");
    users(&env, "");
    env.write(".dacapo/config.yaml", config);
    env.run(["task", "add", "--title", "Add a login page", "--body", "People log in."]).assert_code(0);
    env
}

/// The user's own configuration. Tests may be run by root, for whom agents do not work unattended.
fn users(env: &TestEnv, more: &str) {
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), format!("permissions: {{allow_root: true}}\n{more}")).unwrap();
}

fn explained(env: &TestEnv, extra: &[&str]) -> Value {
    let fixed = ["explain", "task", "TASK-001", "--json"];
    serde_json::from_str(&env.run(fixed.iter().chain(extra)).assert_code(0).stdout).unwrap()
}

const CONFIG: &str = "\
gates: [make lint]
ralph:
  coder: {max_iterations: auto}
  qa: {enabled: false}
stages:
  reviewer: {agent: codex, model: large}
  tester: {tests: checked, gates: [{name: all, run: make test}]}
";

/// The lines about stages.
fn stages(text: &str) -> String {
    let lines = text.lines().skip_while(|line| !line.starts_with("stage "));
    let lines: Vec<&str> =
        lines.take_while(|line| line.starts_with("stage ") || line.starts_with("  ")).collect();
    // The arguments of agents are told by other tests.
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.starts_with("  argv")).collect();
    lines.join("\n")
}

#[test]
fn each_stage_is_told_with_its_values_and_where_they_come_from() {
    let env = env(CONFIG);
    let output = env.run(["explain", "task", "TASK"]).assert_code(0);
    insta::assert_snapshot!(stages(&output.stdout), @r"
    stage coder
      agent            claude                                                       default
      iterations       15 (auto: 0 past runs, fewer than 3: the default)            .dacapo/config.yaml:3
      promise          IMPLEMENTATION_COMPLETE                                      default
      evidence         commit                                                       default
      may write        anything
      tests            checked                                                      default
      gate             make lint                                                    .dacapo/config.yaml:1
    stage reviewer
      agent            codex                                                        .dacapo/config.yaml:6
      model            large                                                        .dacapo/config.yaml:6
      iterations       5 (max_iterations: 5)                                        default
      promise          REVIEW_COMPLETE                                              default
      evidence         approval                                                     default
      may write        nothing
      tests            checked                                                      default
      gate             make lint                                                    .dacapo/config.yaml:1
    stage tester
      agent            claude                                                       default
      iterations       10 (max_iterations: 10)                                      default
      promise          TESTS_COMPLETE                                               default
      evidence         tests                                                        default
      may write        anything; a change that is no test gets a warning
      tests            checked                                                      .dacapo/config.yaml:7
      gate             make lint                                                    .dacapo/config.yaml:1
      gate             make test                                                    .dacapo/config.yaml:7
    stage qa
      agent            claude                                                       default
      iterations       1 (enabled: false, so there is one pass)                     .dacapo/config.yaml:4
      may write        nothing
      tests            checked                                                      default
      gate             make lint                                                    .dacapo/config.yaml:1
    ");
    let told = explained(&env, &[]);
    assert_eq!((&told["preset"], &told["task"]), (&json!("task"), &json!("TASK-001")));
    assert_eq!(
        (&told["run"]["title"], &told["run"]["branch"], &told["run"]["waits_for"]),
        (&json!("Add a login page"), &json!("task/TASK-001"), &json!([]))
    );
    let stages = told["run"]["stages"].as_array().unwrap();
    let names: Vec<&Value> = stages.iter().map(|stage| &stage["stage"]).collect();
    assert_eq!(names, ["coder", "reviewer", "tester", "qa"]);
    let limit = |at: usize| (&stages[at]["max_iterations"]["value"], &stages[at]["max_iterations"]["from"]);
    assert_eq!(limit(0), (&json!(15), &json!(".dacapo/config.yaml:3")));
    assert_eq!(limit(1), (&json!(5), &json!("default")));
    assert_eq!(limit(3), (&json!(1), &json!(".dacapo/config.yaml:4")));
    let agent = |at: usize| (&stages[at]["agent"]["name"], &stages[at]["agent"]["from"]);
    assert_eq!(agent(0), (&json!("claude"), &json!("default")));
    assert_eq!(agent(1), (&json!("codex"), &json!(".dacapo/config.yaml:6")));
    assert!(stages[1]["agent"]["argv"].as_array().unwrap().iter().any(|word| word == "large"), "{told:#}");
    assert_eq!(
        stages[2]["gates"],
        json!([
            { "name": "make lint", "run": "make lint", "from": ".dacapo/config.yaml:1" },
            { "name": "all", "run": "make test", "from": ".dacapo/config.yaml:7" },
        ])
    );
    assert_eq!((&stages[1]["may_write"], &stages[1]["evidence"]), (&json!("nothing"), &json!(["approval"])));
    assert_eq!(told["policy"]["iteration_timeout"], json!({ "value": 600_000, "from": "default" }));
    assert_eq!((&told["policy"]["promise"], &told["warnings"]), (&Value::Null, &json!([])));
    // Nothing was started.
    assert!(env.ledger().is_empty() && !env.dacapo_home().exists());
}

#[test]
fn a_reviewer_with_the_coders_agent_is_warned_about() {
    let warning = "the reviewer is the coder's own agent, `claude`, which finds less in its own work; `stages.reviewer.agent` may name another";
    for (config, extra, is_warned) in [
        ("", &[][..], true),
        ("stages: {reviewer: {agent: codex}}", &[], false),
        ("stages: {reviewer: {agent: codex}}", &["--agent", "claude"], false),
        ("stages: {reviewer: {agent: codex}}", &["--agent-cmd", "true"], false),
        ("stages: {reviewer: {agent: claude}}", &["--agent", "claude"], true),
        ("ralph: {reviewer: {enabled: false}}", &[], false),
        ("agent: codex\nstages: {coder: {agent: claude}, reviewer: {agent: claude}}", &[], true),
        ("agent: codex\nstages: {coder: {agent: claude}}", &[], false),
    ] {
        let env = env(config);
        let told = explained(&env, extra);
        let expected = if is_warned { json!([warning]) } else { json!([]) };
        assert_eq!(told["warnings"], expected, "{config} {extra:?}");
    }
}

#[test]
fn a_typed_agent_is_that_of_the_stages_that_name_none() {
    let env = env("stages: {reviewer: {agent: codex, model: large}, tester: {model: small}}");
    let agents = |extra: &[&str]| -> Vec<Value> {
        let told = explained(&env, extra);
        let stages = told["run"]["stages"].as_array().unwrap();
        stages.iter().map(|stage| json!([stage["agent"]["name"], stage["agent"]["model"]])).collect()
    };
    assert_eq!(
        agents(&["--agent", "claude", "--model", "opus"]),
        [
            json!(["claude", "opus"]),
            json!(["codex", "large"]),
            json!(["claude", "opus"]),
            json!(["claude", "opus"])
        ]
    );
    let told = explained(&env, &["--agent", "claude", "--", "--verbose"]);
    let has_typed = |at: usize| {
        let argv = told["run"]["stages"][at]["agent"]["argv"].as_array().unwrap();
        argv.iter().any(|word| word == "--verbose")
    };
    assert!(has_typed(0) && !has_typed(1) && has_typed(3), "{told:#}");
    assert_eq!(told["run"]["stages"][1]["agent"]["from"], ".dacapo/config.yaml:1");
    let program = agents(&["--agent-cmd", "true"]);
    assert_eq!(program[1], json!(["codex", "large"]));
    assert_eq!((&program[0], &program[2]), (&json!(["true", null]), &json!(["true", null])));
    // A misspelled agent of a stage is said, whatever is typed.
    env.write(".dacapo/config.yaml", "stages: {reviewer: {agent: codx}}");
    let refused = env.run(["explain", "task", "TASK-001", "--agent", "claude"]).assert_code(2);
    assert!(refused.stderr.contains("there is no agent `codx`"), "{}", refused.stderr);
}

#[test]
fn the_prompt_of_a_stage_can_be_read() {
    let env = env("");
    let output = env.run(["explain", "task", "TASK-001", "--prompt"]).assert_code(0);
    insta::assert_snapshot!(output.stdout, @r"
    ## Task Information
    - **Task ID**: TASK-001
    - **Title**: Add a login page
    - **Stage**: Implementation
    - **Ralph Iteration**: 1/15

    ## Specification
    People log in.

    ## Completion Requirements

    When you have GENUINELY completed this stage:

    1. Ensure all requirements from the specification are implemented
    2. Commit your changes with a descriptive message
    3. Verify your implementation works correctly

    Then output <promise>IMPLEMENTATION_COMPLETE</promise> on a line of its own.

    CRITICAL:
    - Only output the promise when ALL requirements are truly met
    - Your work will be verified - false promises are detected
    - If blocked, explain what's preventing completion
    - The loop will continue until genuine completion or max iterations
    ");
    let reviewer = env.run(["explain", "task", "TASK-001", "--prompt=reviewer"]).assert_code(0).stdout;
    assert!(reviewer.contains("- **Ralph Iteration**: 1/5\n"), "{reviewer}");
    let told = explained(&env, &[]);
    assert_eq!(told["run"]["stages"][1]["prompt"].as_str().unwrap().trim_end(), reviewer.trim_end());
    env.run(["explain", "task", "TASK-001", "--prompt=coach"]).assert_code(2);
    env.run(["explain", "task", "TASK-001", "--prompt", "--json"]).assert_code(2);
}

#[test]
fn what_earlier_runs_came_to_is_in_the_limit_and_in_the_prompt() {
    let env = env("ralph: {coder: {max_iterations: auto}}\n");
    let script = "say 'I still need to test it'\npromise IMPLEMENTATION_COMPLETE";
    env.script(script);
    users(&env, "limits: {max_iterations: 2}\n");
    let agent = env.agent_cmd();
    for _ in 0..3 {
        let args =
            ["task", "run", "--agent-cmd", &agent, "--restart-delay", "0s", "--force", "--allow-empty"];
        env.run(args).assert_code(3);
    }
    users(&env, "");
    let told = explained(&env, &[]);
    let limit = &told["run"]["stages"][0]["max_iterations"];
    assert_eq!(limit["value"], 6, "{limit}");
    assert_eq!(limit["why"], "auto: of the last 3 runs nine in ten needed 4 or fewer");
    let prompt = env.run(["explain", "task", "TASK-001", "--prompt"]).assert_code(0).stdout;
    let refusals: Vec<&str> =
        prompt.lines().skip_while(|line| !line.contains("Earlier Claims")).take(2).collect();
    insta::assert_snapshot!(refusals.join("\n"), @r"
    ## Why Earlier Claims Were Refused
    - Output contains contradictions to promise: I still need to test it
    ");
    assert!(env.survivors().is_empty());
}

#[test]
fn what_stands_in_the_way_is_said() {
    let env = env("stages: {reviewer: {agent: nobody-has-it}}");
    let refused = env.run(["explain", "task", "TASK-001"]).assert_code(2);
    insta::assert_snapshot!(env.redact(&refused.stderr), @r"
    dacapo: there is no agent `nobody-has-it`; known: claude, codex, gemini, opencode, qwen, copilot, pi (.dacapo/config.yaml:1)
    hint: `dacapo doctor` lists the agents; `--agent-cmd CMD` takes any program
    ");
    // A repository can name a model, and no option of the agent in its place.
    env.write(".dacapo/config.yaml", "stages: {reviewer: {agent: codex, model: --yolo}}");
    let refused = env.run(["explain", "task", "TASK-001"]).assert_code(2);
    assert!(refused.stderr.contains("`--yolo` is no name of a model"), "{}", refused.stderr);
    env.write(".dacapo/config.yaml", "stages: {reviewer: {agent: gemini}}");
    let text = env.run(["explain", "task", "TASK-001"]).assert_code(0).stdout;
    assert!(text.contains("It would not start: agent `gemini` is not installed"), "{text}");
    env.write(".dacapo/config.yaml", "ralph: {coder: {completion_promise: SAME}}");
    users(&env, "ralph: {qa: {completion_promise: SAME}}");
    let text = env.run(["explain", "task", "TASK-001"]).assert_code(0).stdout;
    assert!(text.contains("It would not start: the stages `coder` and `qa` have the same promise"), "{text}");
    users(&env, "");
    // The task's own promise counts, too.
    env.write(
        ".dacapo/tasks/own.md",
        "---\nid: OWN\ntitle: T\ndepends_on: [TASK-001]\ncompletion: {stages: {qa: {promise: SAME, verify: {method: multi_stage, steps: \
         [{method: semantic}, {method: external, command: make e2e}]}}}}\n---\nx\n",
    );
    let text = env.run(["explain", "task", "OWN"]).assert_code(0).stdout;
    assert!(
        text.contains("have the same promise, once the promises of `.dacapo/tasks/own.md` count"),
        "{text}"
    );
    assert!(text.contains("verified by      an agent that is asked, then make e2e"), "{text}");
    assert!(text.contains("waits_for          TASK-001\n"), "{text}");
    assert!(text.contains("commands           make e2e\n"), "{text}");
    let unknown = env.run(["explain", "task", "TSK-001"]).assert_code(2);
    assert!(unknown.stderr.contains("did you mean `TASK-001`?"), "{}", unknown.stderr);
}
