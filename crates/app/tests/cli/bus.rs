//! The message bus through the command line, and what a loop says on it.

use std::fs;

use serde_json::Value;

use crate::support::{LONG, Task, assert_has, world};

#[test]
fn what_is_posted_is_read_back_whole() {
    // req 97
    let env = world();
    let target = ["--project", "p", "--task", "t"];
    let body = "two lines\n---\ntype: FAKE\n";
    let id = env.run(["bus", "post", "--type", "INFO", body].iter().chain(&target)).assert_code(0).stdout;
    let mut command = env.dacapo(["bus", "post", "--type", "QUESTION", "-"].iter().chain(&target));
    env.write("body", "from standard input");
    command.stdin(fs::File::open(env.workspace().join("body")).unwrap());
    env.run_command(command).assert_code(0);
    let messages = env.bus("t");
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!((messages[0].0.as_str(), messages[0].1.trim_end()), ("INFO", body.trim_end()));
    assert_eq!(messages[1], ("QUESTION".to_owned(), "from standard input".to_owned()));
    let line = env.run(["bus", "read", "--json"].iter().chain(&target)).assert_code(0).stdout;
    let first: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["id"], &first["project"], &first["task"]),
        (&id.trim().into(), &"p".into(), &"t".into())
    );
}

#[test]
fn follow_prints_messages_as_they_come() {
    // req 97
    let env = world();
    let following = env.spawn(["bus", "follow", "--project", "p"]);
    // It may not listen yet: it is told until it does.
    env.wait_until("it is heard", LONG, || {
        env.run(["bus", "post", "--project", "p", "--type", "INFO", "hello"]).assert_code(0);
        following.stdout().contains("INFO: hello\n")
    });
}

#[test]
fn a_message_without_a_type_or_a_body_is_refused() {
    let env = world();
    env.run(["bus", "post", "hello"]).assert_code(2);
    env.run(["bus", "post", "--type", " ", "hello"]).assert_code(2);
    env.run(["bus", "post", "--type", "INFO", " "]).assert_code(2);
    env.run(["bus", "post", "--type", "IN FO\nx: y", "hello"]).assert_code(2);
    env.run(["bus", "post", "--type", "INFO", "--task", "../t", "hello"]).assert_code(2);
}

#[test]
fn a_loop_tells_of_every_run_and_the_project_of_its_completion() {
    // req 73, req 80, req 97
    let env = world();
    env.run_loop("@1: kill SEGV; @2: promise", &[]).assert_code(0);
    let kinds: Vec<String> = env.bus("t").into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["RUN_START", "RUN_CRASH", "WARNING", "INFO", "RUN_START", "RUN_STOP", "INFO"]);
    let project = env.run(["bus", "read", "--project", "p", "--json"]).assert_code(0).stdout;
    let facts: Vec<Value> = project.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(facts.len(), 1, "{project}");
    assert_eq!(facts[0]["type"], "FACT");
    assert_has(facts[0]["body"].as_str().unwrap(), "task t completed after 2 iterations");
    assert_eq!(facts[0]["loop"], env.status("t")["id"]);
}

#[test]
fn a_bus_that_cannot_be_written_stops_no_loop() {
    // req 73
    let env = world();
    fs::create_dir_all(env.make_folder().join("TASK-MESSAGE-BUS.md")).unwrap();
    fs::create_dir_all(env.dacapo_home().join("projects/p/PROJECT-MESSAGE-BUS.md")).unwrap();
    env.run_loop("@1: exit 1; @2: promise", &["-n", "2"]).assert_code(0);
    assert_eq!(env.starts(), 2);
    let output = env.run(["bus", "read", "--project", "p", "--task", "t"]).assert_code(5);
    assert_has(&output.stderr, "TASK-MESSAGE-BUS.md");
}
