//! Looking at units: `unit list`, `unit check` and `unit prompt`, also when somebody means ill.

use std::{fs, os::unix::fs::symlink};

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

use crate::{DIR, env, plan, task};

fn shop() -> TestEnv {
    let env = env();
    plan(&env, "web", "depends_on: [store]\nprovider: codex\norch_status: running");
    task(&env, "web", 1, "status: complete\nbackpressure: make web");
    task(&env, "web", 2, "status: pending\nbackpressure: make test\ndepends_on: [1]");
    task(&env, "web", 3, "status: in_progress\nbackpressure: make more\ndepends_on: [1]");
    task(&env, "web", 4, "backpressure: make last\ndepends_on: [2, 3]");
    plan(&env, "store", "");
    task(&env, "store", 1, "status: complete\nbackpressure: make store");
    env.write(format!("{DIR}/notes/README.md"), "not a unit");
    env
}

#[test]
fn units_are_listed_with_how_far_they_are() {
    // req 1, req 2, req 6
    let env = shop();
    let output = env.run(["unit", "list"]).assert_code(0);
    insta::assert_snapshot!(output.stdout, @r"
    UNIT   TASKS  STATUS       DEPENDS ON
    store  1/1    complete
    web    1/4    in_progress  store
    ");
    let output = env.run(["unit", "list", "--json"]).assert_code(0);
    let list: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        list[0],
        json!({
            "unit": "store", "status": "complete", "depends_on": [], "branch": null, "blocked_by": [],
            "tasks": [{"task": 1, "title": "Task 1 of store", "status": "complete", "file": "specs/tasks/store/01-task.md"}],
        })
    );
    assert_eq!(list[1]["tasks"][3]["status"], "pending");
    // From a folder below, and from elsewhere, it is the same repository.
    let mut below = env.dacapo(["unit", "list", "--json"]);
    below.current_dir(env.workspace().join(DIR).join("web"));
    assert_eq!(env.run_command(below).assert_code(0).stdout, output.stdout);
    let mut away = env.dacapo(["unit", "list", "--json", "--dir"]);
    away.arg(env.workspace()).current_dir(env.root().join("tmp"));
    assert_eq!(env.run_command(away).assert_code(0).stdout, output.stdout);
    // Looking leaves nothing behind.
    assert!(!env.dacapo_home().exists());
}

#[test]
fn without_units_there_is_nothing_to_say() {
    // req 1
    let env = env();
    assert_eq!(env.run(["unit", "list"]).assert_code(0).stdout, "No units in `specs/tasks`.\n");
    assert_eq!(env.run(["unit", "list", "--json"]).assert_code(0).stdout, "[]\n");
    assert_eq!(env.run(["unit", "check"]).assert_code(0).stdout, "0 units, 0 tasks: no problems\n");
    assert_eq!(env.run(["unit", "check", "--json"]).assert_code(0).stdout, "[]\n");
    let output = env.run(["unit", "prompt", "web"]).assert_code(2);
    assert_eq!(output.reason(), "dacapo: no unit in `specs/tasks` is called `web`");
}

#[test]
fn the_folder_of_units_is_configured() {
    let env = env();
    env.write(".dacapo/config.yaml", "units: {dir: work/units}\n");
    env.write("work/units/a/IMPLEMENTATION_PLAN.md", "");
    env.write("work/units/a/01-x.md", "---\ntask: 1\nbackpressure: make\n---\n");
    assert_eq!(env.run(["unit", "check"]).assert_code(0).stdout, "1 unit, 1 task: no problems\n");
    env.write(".dacapo/config.yaml", "units: {dir: ../elsewhere}\n");
    env.run(["unit", "list"]).assert_code(2);
}

#[test]
fn all_problems_are_shown_at_once() {
    // req 3, req 5, req 7
    let env = env();
    plan(&env, "a", "depends_on: [b, nowhere]");
    task(&env, "a", 1, "status: doen\nbackpressure: make");
    task(&env, "a", 2, "depends_on: [2]");
    plan(&env, "b", "depends_on: [c]");
    task(&env, "b", 2, "backpressure: make\ndepends_on: [9]");
    plan(&env, "c", "depends_on: [b]");
    task(&env, "c", 1, "backpressure: make");
    env.write(format!("{DIR}/c/02-open.md"), "---\ntask: 2\n");
    let output = env.run(["unit", "check"]).assert_code(2);
    insta::assert_snapshot!(output.stdout, @r"
    specs/tasks/a/01-task.md:3:9: `doen` is not a status
      3 | status: doen
        |         ^
      fix: write one of pending, in_progress, complete, failed
    specs/tasks/a/02-task.md:1:1: `backpressure` is missing
      1 | ---
        | ^
      fix: add the command that proves the task, like `backpressure: cargo test`
    specs/tasks/a/02-task.md:3:14: task 2 depends on itself
      3 | depends_on: [2]
        |              ^
      fix: take its own number off the list
    specs/tasks/a/IMPLEMENTATION_PLAN.md:2:17: there is no unit `nowhere`
      2 | depends_on: [b, nowhere]
        |                 ^
      fix: `dacapo unit list` shows the units there are
    specs/tasks/b/02-task.md:2:7: the first task has number 2, not 1
      2 | task: 2
        |       ^
      fix: number the tasks of a unit 1, 2, 3 and so on
    specs/tasks/b/02-task.md:4:14: task 2 depends on task 9, which is not there
      4 | depends_on: [9]
        |              ^
      fix: name tasks of this unit, from 1 to 1
    specs/tasks/b/IMPLEMENTATION_PLAN.md:2:14: units wait for each other: b -> c -> b
      2 | depends_on: [c]
        |              ^
      fix: take one of these dependencies away
    specs/tasks/c/02-open.md:1:1: the frontmatter is not closed: a line `---` must follow it
      1 | ---
        | ^
      fix: begin the file with `---`, lines of `key: value`, and `---`
    ");
    assert_eq!(output.stderr, "dacapo: 8 problems in `specs/tasks`\n");
    let output = env.run(["unit", "check", "--json"]).assert_code(2);
    let list: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        list[0],
        json!({
            "file": "specs/tasks/a/01-task.md", "line": 3, "column": 9, "what": "`doen` is not a status",
            "snippet": "status: doen", "fix": "write one of pending, in_progress, complete, failed",
        })
    );
    assert_eq!(list.as_array().unwrap().len(), 8);
    // What can be read is listed all the same.
    let output = env.run(["unit", "list"]).assert_code(0);
    assert!(output.stdout.contains("\nb ") && !output.stdout.contains("\na "), "{}", output.stdout);
    assert!(output.stderr.contains("WARNING: problems in task files: 8;"), "{}", output.stderr);
}

#[test]
fn the_prompt_of_a_unit_is_printed() {
    // req 14, req 18, req 19, req 58
    let env = shop();
    let output = env.run(["unit", "prompt", "web"]).assert_code(0);
    for line in [
        "- Task #2: Task 2 of web\n  file: specs/tasks/web/02-task.md\n  backpressure: make test\n",
        "- Task #3: Task 3 of web\n",
        "Choose ONE of them",
        "set `status` to `complete`",
    ] {
        assert!(output.stdout.contains(line), "{line}: {}", output.stdout);
    }
    assert!(!output.stdout.contains("#1") && !output.stdout.contains("#4"), "{}", output.stdout);
    let output = env.run(["unit", "prompt", "web", "--task", "4", "--json"]).assert_code(0);
    let shown: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&shown["unit"], &shown["tasks"]), (&json!("web"), &json!([4])));
    assert!(shown["prompt"].as_str().unwrap().contains("make last"));
    for (args, code, says) in [
        (&["unit", "prompt", "store"][..], 1, "no task of unit `store` is ready: all are complete"), // req 15
        (&["unit", "prompt", "web", "--task", "9"], 2, "unit `web` has no task 9"),
        (&["unit", "prompt", "weg"], 2, "did you mean `web`?"),
    ] {
        let output = env.run(args).assert_code(code);
        assert!(output.stderr.contains(says), "{}", output.stderr);
    }
    task(&env, "store", 1, "status: failed\nbackpressure: make store");
    let output = env.run(["unit", "prompt", "store"]).assert_code(1);
    assert!(output.stderr.contains("is ready: #1 failed"), "{}", output.stderr);
    task(&env, "store", 1, "backpressure: make store\ndepends_on: [2]");
    task(&env, "store", 2, "backpressure: make store\ndepends_on: [1]");
    let output = env.run(["unit", "prompt", "store"]).assert_code(1);
    assert!(output.stderr.contains("#1, #2 wait for each other"), "{}", output.stderr);
}

/// Files that somebody else made, and a word of what is said about each.
fn hostile() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let head = |lines: &str| format!("---\n{lines}\n---\n# T\n").into_bytes();
    let good = "task: 1\nbackpressure: touch canary";
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..40 {
        bomb.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", ")));
    }
    vec![
        ("a bomb", head(&format!("{good}\n{bomb}")), "anchors"),
        ("an anchor", head("task: 1\nbackpressure: &x touch canary"), "anchors"),
        ("an alias", head(&format!("{good}\nother: *x")), "aliases"),
        ("a tag", head(&format!("{good}\nother: !!python/object x")), "tags"),
        ("a merge key", head(&format!("{good}\n<<: {{a: b}}")), "merge keys"),
        ("depth", head(&format!("{good}\nx: {}{}", "[".repeat(50), "]".repeat(50))), "nested deeper"),
        ("more depth", head(&format!("{good}\nx: {}", "[".repeat(60_000))), "not YAML"),
        ("duplicate keys", head(&format!("{good}\ntask: 2")), "is there twice, first in line 2"),
        ("a NUL", head("task: 1\nbackpressure: touch\0canary"), "NUL"),
        ("an escaped NUL", head("task: 1\nbackpressure: \"touch\\0canary\""), "NUL"),
        ("a hidden character", head("task: 1\nbackpressure: touch \u{202e}canary"), "cannot be seen"),
        ("a huge number", head("task: 99999999999999999999999\nbackpressure: x"), "whole number"),
        ("a negative number", head("task: -1\nbackpressure: x"), "whole number"),
        ("an octal number", head("task: 0o1\nbackpressure: x"), "whole number"),
        (
            "a huge dependency",
            head(&format!("{good}\ndepends_on: [99999999999999999999]")),
            "number of a task",
        ),
        ("a second document", head(&format!("{good}\n...\nx: 1")), "not allowed"),
        ("not UTF-8", [&head(good)[..], b"\xff\xfe"].concat(), "not UTF-8"),
        ("too large", [&head(good)[..], &vec![b'x'; 2 << 20][..]].concat(), "larger than 1024 KiB"),
        ("a large head", head(&format!("{good}\nx: {}", "y".repeat(70_000))), "larger than 64 KiB"),
        ("nothing", Vec::new(), "no frontmatter"),
        ("an escape sequence", head("task: 1\nstatus: \"\\e[2Jdone\"\nbackpressure: x"), "\\u{1b}[2Jdone"),
    ]
}

#[test]
fn hostile_files_are_bad_files_and_nothing_more() {
    // fault I3, fault I4, fault I7, fault K1
    let env = env();
    plan(&env, "u", "");
    for (name, bytes, says) in hostile() {
        env.write(format!("{DIR}/u/01-task.md"), bytes);
        let output = env.run(["unit", "check"]).assert_code(2);
        assert!(output.stdout.contains(says), "{name}: {}", output.stdout);
        assert!(output.stdout.starts_with("specs/tasks/u/01-task.md:"), "{name}: {}", output.stdout);
        assert!(output.stdout.len() < 40_000 && !output.stdout.contains('\u{1b}'), "{name}");
        env.run(["unit", "list"]).assert_code(0);
    }
    assert!(!env.workspace().join("canary").exists());
}

#[test]
fn hostile_names_never_become_paths() {
    // fault I5
    let env = env();
    task(&env, "u", 1, "backpressure: make");
    let long = "x".repeat(300);
    for id in [
        "..", "../../x", "/etc", "a/b", "-rf", ".git", "a..b", "x.lock", "%2e%2e", "a b", "ü", "a\\0b", &long,
    ] {
        plan(&env, "u", &format!("unit: \"{id}\"").replace("\\0", "\\u0001"));
        let output = env.run(["unit", "check"]).assert_code(2);
        assert!(output.stdout.contains("IMPLEMENTATION_PLAN.md:2:7: "), "{id}: {}", output.stdout);
        plan(&env, "u", &format!("depends_on: [\"{id}\"]").replace("\\0", "\\u0001"));
        let output = env.run(["unit", "check"]).assert_code(2);
        assert!(output.stdout.contains("IMPLEMENTATION_PLAN.md:2:14: "), "{id}: {}", output.stdout);
        env.run(["unit", "prompt", "--", &id.replace("\\0", "\u{1}")]).assert_code(2);
    }
}

#[test]
fn links_and_devices_are_not_followed() {
    // fault I5, fault K1
    let env = env();
    let outside = env.root().join("tmp/outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("IMPLEMENTATION_PLAN.md"), "").unwrap();
    fs::write(outside.join("01-x.md"), "---\ntask: 1\nbackpressure: touch canary\n---\n# SECRET\n").unwrap();
    plan(&env, "u", "");
    task(&env, "u", 1, "backpressure: make");
    let dir = env.workspace().join(DIR);
    symlink(&outside, dir.join("linked")).unwrap();
    symlink(outside.join("01-x.md"), dir.join("u/02-linked.md")).unwrap();
    symlink("/dev/zero", dir.join("u/03-endless.md")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("u/04-fifo.md"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let output = env.run(["unit", "check"]).assert_code(2);
    assert_eq!(output.stdout.matches("links are not followed").count(), 3, "{}", output.stdout);
    assert_eq!(output.stdout.matches("not a regular file").count(), 1, "{}", output.stdout);
    assert!(!output.stdout.contains("SECRET"));
    assert_eq!(env.run(["unit", "list", "--json"]).assert_code(0).stdout, "[]\n");
    // The folder of all units may not be a link either.
    fs::rename(&dir, env.workspace().join("moved")).unwrap();
    symlink(env.workspace().join("moved"), &dir).unwrap();
    let output = env.run(["unit", "list"]).assert_code(2);
    assert!(output.stderr.contains("`specs/tasks` is refused"), "{}", output.stderr);
}

#[test]
fn looking_starts_no_program() {
    // fault K1, fault K3
    let env = env();
    plan(&env, "u", "");
    task(&env, "u", 1, "backpressure: touch canary");
    env.git(["config", "core.fsmonitor", "touch canary"]);
    env.write(
        ".dacapo/config.yaml",
        "units: {baseline: [{run: touch canary}]}\nworktree: {teardown: [{run: touch canary}]}\n",
    );
    for args in [&["unit", "list"][..], &["unit", "check"], &["unit", "prompt", "u"], &["trust", "--show"]] {
        let mut command = env.dacapo(args);
        // Without a PATH there is nothing to start by name, either.
        command.env("PATH", "/nowhere");
        env.run_command(command).assert_code(0);
    }
    assert!(!env.workspace().join("canary").exists());
}

#[test]
fn units_are_those_of_the_repository_wherever_in_it_one_stands() {
    let env = env();
    env.write(".dacapo/config.yaml", "units: {dir: plans}\n");
    env.write("plans/a/IMPLEMENTATION_PLAN.md", "# Plan\n");
    env.write("plans/a/01-task.md", "---\ntask: 1\nbackpressure: test -f x\n---\n\n# One\n");
    // A folder of that name without anything in it, and one that says something else.
    env.write("pkg/.dacapo/keep", "");
    env.write("lib/.dacapo/config.yaml", "units: {dir: elsewhere}\n");
    let said: Vec<[String; 5]> = ["", "pkg", "lib"]
        .map(|folder| {
            [
                &["unit", "list"][..],
                &["unit", "check"],
                &["unit", "prompt", "a"],
                &["unit", "run", "--dry-run"],
                &["trust", "--show"],
            ]
            .map(|args| {
                let mut command = env.dacapo(args);
                command.current_dir(env.workspace().join(folder));
                env.run_command(command).assert_code(0).stdout
            })
        })
        .into();
    assert!(said[0].iter().all(|text| text.contains("test -f x") || text.contains('1')), "{said:?}");
    assert_eq!(said[1], said[0]);
    assert_eq!(said[2], said[0]);
}
