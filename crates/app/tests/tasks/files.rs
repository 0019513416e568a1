//! `task add`, `task list`, `task show` and `task check`.

use std::{fs, io::Write as _, os::unix::fs::symlink, process::Stdio};

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env
}

fn json_of(env: &TestEnv, args: &[&str]) -> Value {
    serde_json::from_str(&env.run(args.iter().copied()).assert_code(0).stdout).unwrap()
}

const LOGIN: &str = "\
---
id: LOGIN
title: Add a login page
status: done
mine: a note of another tool
completion:
  outcome: users can sign in
  criteria: [a wrong password is refused]
  stages:
    coder: {verify: {method: external, command: make test}}
---
Write the page.

- with a test
";

#[test]
fn a_task_is_added_listed_and_shown() {
    let env = env();
    let added = env.run(["task", "add", "--title", "Add a login page"]).assert_code(0);
    assert_eq!(
        (added.stdout.as_str(), added.stderr.as_str()),
        ("TASK-001\n", "Wrote .dacapo/tasks/TASK-001.md\n")
    );
    insta::assert_snapshot!(env.read(".dacapo/tasks/TASK-001.md"), @r#"
    ---
    id: TASK-001
    title: "Add a login page"
    status: todo
    ---
    Add a login page
    "#);
    let args = ["task", "add", "--title", "Second: \"quoted\"", "--body", "Do this.\n\nThen that."];
    let second = env.run(args.into_iter().chain(["--depends-on", "TASK-001", "--id", "X.2"])).assert_code(0);
    assert_eq!(second.stdout, "X.2\n");
    env.write(".dacapo/tasks/login.md", LOGIN);
    insta::assert_snapshot!(env.run(["task", "list"]).assert_code(0).stdout, @r#"
    TASK      STATUS             DEPENDS ON  TITLE
    LOGIN     done (not proven)              Add a login page
    TASK-001  todo                           Add a login page
    X.2       todo (waits)       TASK-001    Second: "quoted"
    "#);
    insta::assert_snapshot!(env.run(["task", "show", "X.2"]).assert_code(0).stdout, @r#"
    task         X.2
    title        Second: "quoted"
    status       todo
    depends on   TASK-001 (todo)
    file         .dacapo/tasks/X.2.md
    branch       task/X.2

    Do this.

    Then that.
    "#);
    insta::assert_snapshot!(env.run(["task", "show", "LOG"]).assert_code(0).stdout, @r"
    task         LOGIN
    title        Add a login page
    status       done (not proven: no finished run of it is recorded; `dacapo task confirm` says that it is done)
    file         .dacapo/tasks/login.md
    branch       task/LOGIN
    outcome      users can sign in
    criterion    a wrong password is refused
    verified by  make test

    Write the page.

    - with a test
    ");
    assert_eq!(env.run(["task", "check"]).assert_code(0).stdout, "3 tasks: no problems\n");
    // From a folder below it is the same repository, and looking leaves nothing behind.
    env.write("deep/down/x", "");
    let mut below = env.dacapo(["task", "add", "--title", "From below"]);
    below.current_dir(env.workspace().join("deep/down"));
    assert_eq!(env.run_command(below).assert_code(0).stdout, "TASK-002\n");
    assert!(!env.workspace().join("deep/down/.dacapo").exists() && !env.dacapo_home().exists());
}

#[test]
fn scripts_get_objects_with_fixed_names() {
    let env = env();
    let added = json_of(&env, &["task", "add", "--title", "T", "--json"]);
    assert_eq!(added["id"], "TASK-001");
    let shown = json_of(&env, &["task", "show", "TASK-001", "--json"]);
    assert_eq!(
        shown,
        json!({
            "id": "TASK-001", "title": "T", "status": "todo", "state": "todo", "is_proven": false,
            "depends_on": [], "waits_for": [], "ralph": null, "ralph_failure": null,
            "run": null, "question": null, "findings": [], "commit": null, "worktree": null,
            "file": ".dacapo/tasks/TASK-001.md", "branch": "task/TASK-001",
            "writes": [], "completion": {}, "specification": "T",
        })
    );
    env.run(["task", "add", "--title", "U", "--depends-on", "TASK-001"]).assert_code(0);
    let list = json_of(&env, &["task", "list", "--json"]);
    assert_eq!(list[0], added);
    assert_eq!((&list[1]["id"], &list[1]["depends_on"]), (&json!("TASK-002"), &json!(["TASK-001"])));
    assert_eq!((&list[1]["state"], &list[1]["waits_for"]), (&json!("waiting"), &json!(["TASK-001"])));
    assert_eq!(
        json_of(&env, &["task", "check", "--json"]),
        json!({ "tasks": 2, "problems": [], "configuration": null, "stages": null, "notes": [] })
    );
    // A mistake in the configuration is told as JSON, too, and so is a key that is nearly one of ours.
    env.write(".dacapo/tasks/z.md", "---\nid: Z\ntitle: T\ndepend_on: [TASK-001]\n---\nx\n");
    env.write(".dacapo/config.yaml", "ralph: {coder: {enabled: perhaps}}\n");
    let output = env.run(["task", "check", "--json"]).assert_code(2);
    let told: Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(told["configuration"].as_str().unwrap().contains(".dacapo/config.yaml"), "{told}");
    assert!(told["notes"][0].as_str().unwrap().ends_with("did you mean `depends_on`?"), "{told}");
}

#[test]
fn the_body_comes_from_a_file_or_standard_input() {
    let env = env();
    env.write("body.md", "---\nfrom a file\n");
    env.run(["task", "add", "--title", "T", "--body-file", "body.md"]).assert_code(0);
    let shown = json_of(&env, &["task", "show", "TASK-001", "--json"]);
    assert_eq!(shown["specification"], "---\nfrom a file");
    let mut piped = env.dacapo(["task", "add", "--title", "T", "--body-file=-"]);
    piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from a pipe\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "TASK-002\n");
    assert_eq!(json_of(&env, &["task", "show", "TASK-002", "--json"])["specification"], "from a pipe");
}

#[test]
fn what_was_typed_wrong_is_said_and_nothing_is_written() {
    let env = env();
    env.run(["task", "add", "--title", "T"]).assert_code(0);
    env.write("blank", " \n").write("binary", b"\xff\xfe").write("huge", vec![b'x'; (1 << 20) + 1]);
    let last_lines = |args: &[&str]| {
        let output = env.run(["task"].iter().chain(args)).assert_code(2);
        // Below the error itself clap says how the command is used.
        let said: Vec<&str> = output.stderr.lines().take_while(|line| !line.is_empty()).collect();
        format!("{args:?}\n  {}\n", said.join("\n  "))
    };
    let said: String = [
        &["add"][..],
        &["add", "--title", " "],
        &["add", "--title", "two\nlines"],
        &["add", "--title", "T", "--body", " "],
        &["add", "--title", "T", "--body", "x", "--body-file", "blank"],
        &["add", "--title", "T", "--body-file", "blank"],
        &["add", "--title", "T", "--body-file", "binary"],
        &["add", "--title", "T", "--body-file", "huge"],
        &["add", "--title", "T", "--body-file", "not-there"],
        &["add", "--title", "T", "--id", "TASK-001"],
        &["add", "--title", "T", "--id", "task-001"],
        &["add", "--title", "T", "--id", "a..b"],
        &["add", "--title", "T", "--id", "../b"],
        &["add", "--title", "T", "--id", "A", "--depends-on", "A"],
        &["add", "--title", "T", "--depends-on", "TASK-01"],
        &["show", "TASK-002"],
        &["show", "../TASK-001"],
        &["show", ""],
    ]
    .map(last_lines)
    .concat();
    insta::assert_snapshot!(said, @r#"
    ["add"]
      error: the following required arguments were not provided:
        <TITLE>
    ["add", "--title", " "]
      error: invalid value ' ' for '--title <TEXT>': `title` must not be blank
    ["add", "--title", "two\nlines"]
      error: invalid value 'two
      lines' for '--title <TEXT>': `title` must be one line of visible characters
    ["add", "--title", "T", "--body", " "]
      error: invalid value ' ' for '--body <TEXT>': must not be blank
    ["add", "--title", "T", "--body", "x", "--body-file", "blank"]
      error: the argument '--body <TEXT>' cannot be used with '--body-file <FILE>'
    ["add", "--title", "T", "--body-file", "blank"]
      dacapo: the body in `blank` is blank
    ["add", "--title", "T", "--body-file", "binary"]
      dacapo: the body in `binary` is not UTF-8 (at byte 0)
    ["add", "--title", "T", "--body-file", "huge"]
      dacapo: the body in `huge` is larger than 1024 KiB
      hint: put what is long into a file of the repository, and name it
    ["add", "--title", "T", "--body-file", "not-there"]
      dacapo: cannot read the body in `not-there`: No such file or directory (os error 2)
    ["add", "--title", "T", "--id", "TASK-001"]
      dacapo: there is a task `TASK-001` already, `.dacapo/tasks/TASK-001.md`
      hint: choose another; without `--id` it is the next that is free
    ["add", "--title", "T", "--id", "task-001"]
      dacapo: there is a task `task-001` already, `.dacapo/tasks/TASK-001.md`
      hint: choose another; without `--id` it is the next that is free
    ["add", "--title", "T", "--id", "a..b"]
      error: invalid value 'a..b' for '--id <ID>': `a..b` is not a valid task id: it becomes a part of a branch's name, in which git allows no `..`, and neither `.` nor `.lock` at the end
    ["add", "--title", "T", "--id", "../b"]
      error: invalid value '../b' for '--id <ID>': `../b` is not a valid task id: letters, digits, `.`, `_` and `-`, at most 64, starting with a letter or digit
    ["add", "--title", "T", "--id", "A", "--depends-on", "A"]
      dacapo: `A` depends on itself
      hint: `--depends-on` names another task; `dacapo task list` shows those there are
    ["add", "--title", "T", "--depends-on", "TASK-01"]
      dacapo: there is no task `TASK-01`
      hint: `--depends-on` names another task; `dacapo task list` shows those there are
    ["show", "TASK-002"]
      dacapo: no task in `.dacapo/tasks` is called `TASK-002`
      hint: `dacapo task list` shows the tasks there are
    ["show", "../TASK-001"]
      dacapo: no task in `.dacapo/tasks` is called `../TASK-001`
      hint: `dacapo task list` shows the tasks there are
    ["show", ""]
      dacapo: no task in `.dacapo/tasks` is called ``
      hint: `dacapo task list` shows the tasks there are
    "#);
    env.run(["task", "add", "--title", "U"]).assert_code(0);
    insta::assert_snapshot!(last_lines(&["show", "TASK"]), @r#"
    ["show", "TASK"]
      dacapo: `TASK` can mean several tasks: TASK-001, TASK-002
      hint: write more of the id
    "#);
    let files: Vec<_> = fs::read_dir(env.workspace().join(".dacapo/tasks")).unwrap().collect();
    assert_eq!(files.len(), 2);
}

#[test]
fn problems_of_files_are_warned_about_and_listed() {
    let env = env();
    env.write(".dacapo/tasks/good.md", "---\nid: GOOD\ntitle: Good\n---\nx\n");
    env.write(".dacapo/tasks/one.md", "---\nid: SAME\ntitle: One\n---\nx\n");
    env.write(".dacapo/tasks/two.md", "---\nid: same\ntitle: Two\n---\nx\n");
    env.write(".dacapo/tasks/self.md", "---\nid: SELF\ntitle: Self\ndepends_on: [SELF]\n---\nx\n");
    symlink("/etc/passwd", env.workspace().join(".dacapo/tasks/link.md")).unwrap();
    let listed = env.run(["task", "list"]).assert_code(0);
    insta::assert_snapshot!(listed.stdout, @r"
    TASK  STATUS  DEPENDS ON  TITLE
    GOOD  todo                Good
    ");
    assert_eq!(listed.stderr, "WARNING: problems in task files: 3; `dacapo task check` shows them\n");
    let checked = env.run(["task", "check"]).assert_code(2);
    insta::assert_snapshot!(checked.stdout, @r"
    .dacapo/tasks/link.md:1:1: a link, or behind one, and links are not followed
      fix: put the file itself there, or remove the link
    .dacapo/tasks/self.md:4:14: `SELF` depends on itself
      4 | depends_on: [SELF]
        |              ^
      fix: take it off the list
    .dacapo/tasks/two.md:2:5: the id `same` is that of `.dacapo/tasks/one.md`, too
      2 | id: same
        |     ^
      fix: give one of them another `id`
    ");
    assert!(checked.stderr.ends_with("dacapo: 3 problems in tasks and stages\n"), "{}", checked.stderr);
    let shown = env.run(["task", "show", "SAME"]).assert_code(2);
    insta::assert_snapshot!(shown.stderr, @r"
    dacapo: no task in `.dacapo/tasks` is called `SAME`
    hint: not all task files can be read; `dacapo task check` says why
    ");
}

#[test]
fn stages_that_promise_the_same_are_a_problem() {
    let env = env();
    env.run(["task", "add", "--title", "T"]).assert_code(0);
    // Each file is right by itself.
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), "ralph: {coder: {completion_promise: SAME}}\n").unwrap();
    env.write(".dacapo/config.yaml", "ralph:\n  qa: {completion_promise: SAME}\n");
    let checked = env.run(["task", "check"]).assert_code(2);
    insta::assert_snapshot!(env.redact(&checked.stdout), @"configuration: the stages `coder` and `qa` have the same promise ([HOME]/.config/dacapo/config.yaml:1, .dacapo/config.yaml:2)");
    assert!(checked.stderr.ends_with("dacapo: 1 problem in tasks and stages\n"), "{}", checked.stderr);
    let found: Value =
        serde_json::from_str(&env.run(["task", "check", "--json"]).assert_code(2).stdout).unwrap();
    assert!(found["stages"].as_str().unwrap().contains("have the same promise"), "{found}");
    // In one file it is a mistake of that file.
    env.write(
        ".dacapo/config.yaml",
        "ralph:\n  tester: {completion_promise: A}\n  qa: {completion_promise: A}\n",
    );
    let checked = env.run(["task", "check"]).assert_code(2);
    assert!(
        checked.stderr.contains("the stages `tester` and `qa` have the same promise"),
        "{}",
        checked.stderr
    );
}

#[test]
fn the_promises_of_a_task_and_the_agents_of_stages_are_looked_at() {
    let env = env();
    let text = |promise: &str| {
        format!("---\nid: OWN\ntitle: T\ncompletion: {{stages: {{coder: {{promise: {promise}}}}}}}\n---\nx\n")
    };
    env.write(".dacapo/tasks/own.md", text("QA_PASSED"));
    insta::assert_snapshot!(env.run(["task", "check"]).assert_code(2).stdout, @r"
    .dacapo/tasks/own.md:1:1: the stages `coder` and `qa` have the same promise
      fix: give one of them another promise in `completion.stages`
    ");
    env.write(".dacapo/tasks/own.md", text("LOGIN_DONE"));
    env.write(".dacapo/config.yaml", "stages:\n  reviewer: {agent: codx}\n");
    insta::assert_snapshot!(env.run(["task", "check"]).assert_code(0).stdout, @r"
    note: there is no agent `codx`, which the reviewer is to have (.dacapo/config.yaml:2); did you mean `codex`?
    1 task: no problems
    ");
    // Known, and not installed: no PATH leads to it.
    env.write(".dacapo/config.yaml", "stages:\n  qa: {agent: copilot}\n");
    let mut command = env.dacapo(["task", "check"]);
    command.env("PATH", env.root().join("nothing-here"));
    insta::assert_snapshot!(env.run_command(command).assert_code(0).stdout, @r"
    note: the agent `copilot`, which the qa is to have (.dacapo/config.yaml:2), is not installed; `npm install -g @github/copilot` installs it
    1 task: no problems
    ");
}

#[test]
fn outside_of_a_repository_nothing_is_added() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    let refused = env.run(["task", "add", "--title", "T"]).assert_code(2);
    insta::assert_snapshot!(env.redact(&refused.stderr), @r"
    dacapo: `[WORKSPACE]` lies in no git repository, and a task is worked on in one
    hint: `git init` makes one; `--dir DIR` names another folder
    ");
    assert!(!env.workspace().join(".dacapo").exists());
    assert_eq!(env.run(["task", "list"]).assert_code(0).stdout, "No tasks in `.dacapo/tasks`.\n");
    assert_eq!(env.run(["task", "list", "--json"]).assert_code(0).stdout, "[]\n");
    let elsewhere = env.run(["task", "list", "--dir", "/not/there"]).assert_code(2);
    assert!(elsewhere.stderr.contains("cannot work in `/not/there`"), "{}", elsewhere.stderr);
}
