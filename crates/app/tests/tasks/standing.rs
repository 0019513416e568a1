//! What `task list` and `task show` tell of a task that is or was worked on, by the journal.

use std::time::Duration;

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.write(".dacapo/config.yaml", "ralph: {coder: {max_iterations: 2}}\n");
    env.git_init();
    env.run(["task", "add", "--title", "Add a login page"]).assert_code(0);
    env
}

fn run(env: &TestEnv, script: &str) -> Vec<String> {
    env.script(script);
    let agent = env.agent_cmd();
    ["task", "run", "--agent-cmd", &agent, "--restart-delay", "0s"].map(str::to_owned).into()
}

fn shown(env: &TestEnv) -> Value {
    serde_json::from_str(&env.run(["task", "show", "TASK-001", "--json"]).assert_code(0).stdout).unwrap()
}

fn listed(env: &TestEnv) -> String {
    env.run(["task", "list"]).assert_code(0).stdout
}

fn told(env: &TestEnv) -> String {
    let text = env.run(["task", "show", "TASK-001"]).assert_code(0).stdout;
    // The id of the run is another each time.
    let lines = text.lines().map(|line| if line.starts_with("run ") { "run …" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn while_it_is_worked_on_the_stage_and_the_iteration_are_told() {
    // req 187, req 188
    let env = env();
    let go = env.root().join("go");
    let running = env.spawn(run(&env, &format!("wait-file {}\nsay nothing yet", go.display())));
    env.wait_until("the coder to begin", SOON, || {
        env.dacapo_home().exists() && shown(&env)["ralph"] != Value::Null
    });
    let task = shown(&env);
    assert_eq!((&task["status"], &task["ralph_failure"]), (&json!("implementing"), &Value::Null));
    let ralph = &task["ralph"];
    assert_eq!(
        (&ralph["stage"], &ralph["iteration"], &ralph["max_iterations"], &ralph["completion_promise"]),
        (&json!("coder"), &json!(1), &json!(2), &json!("IMPLEMENTATION_COMPLETE"))
    );
    assert!(ralph["started_at"].as_str().unwrap().ends_with('Z'), "{ralph}");
    assert!(listed(&env).contains("implementing (coder 1/2)"), "{}", listed(&env));
    assert!(told(&env).contains("stage        coder, iteration 1/2\n"), "{}", told(&env));
    std::fs::write(&go, "").unwrap();
    running.wait(SOON).assert_code(3);
    // It failed: the task is to do again, and why is told.
    let task = shown(&env);
    assert_eq!((&task["status"], &task["ralph"]), (&json!("todo"), &Value::Null));
    let failure = &task["ralph_failure"];
    assert_eq!(
        (&failure["stage"], &failure["iterations_used"], &failure["reason"]),
        (&json!("coder"), &json!(2), &json!("Max iterations reached without completion promise"))
    );
    insta::assert_snapshot!(listed(&env), @r"
    TASK      STATUS               DEPENDS ON  TITLE
    TASK-001  todo (coder failed)              Add a login page
    ");
    insta::assert_snapshot!(told(&env), @r"
    task         TASK-001
    title        Add a login page
    status       todo
    failed       coder after 2 iterations: Max iterations reached without completion promise
    run …
    file         .dacapo/tasks/TASK-001.md
    branch       task/TASK-001

    Add a login page
    ");
    // What the user has set to done has not failed.
    let file = ".dacapo/tasks/TASK-001.md";
    env.write(file, env.read(file).replace("status: todo", "status: done"));
    let task = shown(&env);
    assert_eq!((&task["status"], &task["ralph_failure"]), (&json!("done"), &Value::Null));
    assert!(env.survivors().is_empty());
}

#[test]
fn a_task_that_asks_is_to_do_and_says_so() {
    let env = env();
    env.run(run(&env, "say '<blocked>which database?</blocked>'")).assert_code(4);
    let task = shown(&env);
    assert_eq!((&task["status"], &task["ralph"]), (&json!("todo"), &Value::Null));
    assert_eq!(task["ralph_failure"]["stage"], "coder");
    insta::assert_snapshot!(listed(&env), @r"
    TASK      STATUS             DEPENDS ON  TITLE
    TASK-001  todo (coder asks)              Add a login page
    ");
    insta::assert_snapshot!(told(&env), @r"
    task         TASK-001
    title        Add a login page
    status       todo
    asks         coder: The coder says that it cannot be done as asked: which database?
    run …
    file         .dacapo/tasks/TASK-001.md
    branch       task/TASK-001

    Add a login page
    ");
}

#[test]
fn a_task_goes_on_only_with_gates_that_the_user_agreed_to() {
    // fault K1, fault K2
    let env = env();
    let stages = "stages: {coder: {gates: [touch canary]}}\n";
    env.write(".dacapo/config.yaml", stages);
    let args = run(&env, "say '<blocked>which database?</blocked>'");
    env.run(&args).assert_code(4);
    assert_eq!(shown(&env)["ralph_failure"], Value::Null, "nothing was started");
    env.run(args.iter().map(String::as_str).chain(["--trust"])).assert_code(4);
    assert_eq!(shown(&env)["ralph_failure"]["stage"], "coder");
    // The file has no command any more; the task still has the one that it began with.
    env.write(".dacapo/config.yaml", "");
    let refused = env.run(["resume", "TASK-001"]).assert_code(4);
    insta::assert_snapshot!(env.redact(&refused.stderr), @r"
    Task TASK-001 would run commands of [WORKSPACE] that you have not trusted:
      gate: touch canary
    dacapo: untrusted: task TASK-001 took these commands from its repository
    hint: `dacapo resume TASK-001 --trust` agrees for this run
    ");
    let named = env.run(args.iter().map(String::as_str).chain(["TASK-001"])).assert_code(4);
    assert!(named.stderr.contains("untrusted: task TASK-001 took these commands"), "{}", named.stderr);
    // Consent that is kept counts for it.
    env.write(".dacapo/config.yaml", stages);
    env.run(["trust", "--yes"]).assert_code(0);
    let resumed = env.run(["resume", "TASK-001"]);
    assert!(!resumed.stderr.contains("untrusted"), "{}", resumed.stderr);
}

#[test]
fn a_task_that_was_never_run_can_be_asked_about() {
    let env = env();
    env.run(["task", "add", "--title", "Log out", "--depends-on", "TASK-001"]).assert_code(0);
    let why = |id: &str| env.run(["why", id]).assert_code(0).stdout;
    insta::assert_snapshot!(why("TASK-001"), @r"
    Task TASK-001 is todo and was not begun.
    Next: `dacapo task run TASK-001` begins it
    ");
    insta::assert_snapshot!(why("TASK-002"), @r"
    Task TASK-002 is todo and was not begun: it waits for TASK-001 (todo).
    Next: `dacapo task run TASK-002` works off what it waits for, and then the task
    ");
    insta::assert_snapshot!(env.run(["status", "TASK-002"]).assert_code(0).stdout, @r"
    TASK-002  Log out: todo, not begun
    Task TASK-002 is todo and was not begun: it waits for TASK-001 (todo).
    Next: `dacapo task run TASK-002` works off what it waits for, and then the task
    ");
    let status = env.run(["status", "TASK-002", "--json"]).assert_code(0).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status[0]["state"], &status[0]["id"]), (&json!("waiting"), &Value::Null));
    let events = env.run(["events", "TASK-002"]).assert_code(1);
    insta::assert_snapshot!(events.stderr, @r"
    dacapo: Task TASK-002 is todo and was not begun: it waits for TASK-001 (todo)
    hint: `dacapo task run TASK-002` works off what it waits for, and then the task
    ");
    // Once what it waits for has a run, that one can tell more.
    env.run(run(&env, "say '<blocked>which database?</blocked>'")).assert_code(4);
    insta::assert_snapshot!(why("TASK-002"), @r"
    Task TASK-002 is todo and was not begun: it waits for TASK-001 (todo).
    Next: `dacapo why TASK-001` says how that one stands
    ");
    // A task of the same name in another repository is not meant.
    let other = env.root().join("other");
    std::fs::create_dir_all(other.join(".dacapo/tasks")).unwrap();
    std::fs::create_dir_all(other.join(".git")).unwrap();
    std::fs::write(other.join(".dacapo/tasks/t.md"), "---\nid: TASK-001\ntitle: Another\n---\nx\n").unwrap();
    for (command, code) in [("why", 0), ("cancel", 1)] {
        let mut there = env.dacapo([command, "TASK-001"]);
        there.current_dir(&other);
        let output = env.run_command(there).assert_code(code);
        assert!((output.stdout + &output.stderr).contains("Task TASK-001 is todo and was not begun"));
    }
}

#[test]
fn scripts_and_people_can_tell_running_stopped_asking_and_done_apart() {
    let env = env();
    env.run(["task", "add", "--title", "Log out", "--depends-on", "TASK-001"]).assert_code(0);
    let states = || -> Vec<String> {
        let list = env.run(["task", "list", "--json"]).assert_code(0).stdout;
        let list: Value = serde_json::from_str(&list).unwrap();
        list.as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(states(), ["todo", "waiting"]);
    let go = env.root().join("go");
    let script = format!("wait-file {}\nsay '<blocked>which database?</blocked>'", go.display());
    let running = env.spawn(run(&env, &script));
    env.wait_until("the coder to begin", SOON, || {
        env.dacapo_home().exists() && shown(&env)["ralph"] != Value::Null
    });
    assert_eq!(states(), ["running", "waiting"]);
    running.signal(rustix::process::Signal::INT);
    running.wait(SOON).assert_code(130);
    assert_eq!(states(), ["stopped", "waiting"]);
    assert!(listed(&env).contains("/2, stopped)"), "{}", listed(&env));
    std::fs::write(&go, "").unwrap();
    env.run(["resume", "TASK-001"]).assert_code(4);
    assert_eq!(states(), ["asking", "waiting"]);
    let task = shown(&env);
    assert_eq!(task["question"]["stage"], "coder");
    assert!(task["run"].is_string() && task["worktree"].is_string(), "{task:#}");
    env.run(["cancel", "TASK-001"]).assert_code(0);
    assert_eq!(states(), ["cancelled", "waiting"]);
    assert!(listed(&env).contains("todo (cancelled)"), "{}", listed(&env));
    assert!(env.survivors().is_empty());
}

#[test]
fn status_shows_tasks_and_not_the_loops_of_their_stages() {
    let env = env();
    env.run(run(&env, "say '<blocked>which database?</blocked>'")).assert_code(4);
    let status = |args: &[&str]| env.run(["status"].iter().chain(args)).assert_code(0).stdout;
    let text = status(&[]);
    assert!(text.contains("\nTasks:\n  TASK-001  Add a login page: stopped (question)"), "{text}");
    assert!(!text.contains("Ended:"), "{text}");
    let all = status(&["--all"]);
    assert!(all.find("Tasks:").unwrap() < all.find("Ended:").unwrap(), "{all}");
    let tasks = status(&["--tasks"]);
    assert!(tasks.starts_with("  TASK-001  Add a login page: stopped (question)"), "{tasks}");
    let tasks: Value = serde_json::from_str(&status(&["--tasks", "--json"])).unwrap();
    assert_eq!((&tasks[0]["task"], &tasks[0]["state"]), (&json!("TASK-001"), &json!("stopped")));
}
