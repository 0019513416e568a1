//! `dacapo import`: files of other tools become units and workflows that run.

use std::collections::BTreeMap;

use dacapo_testkit::{Output, TestEnv, unit_agent};
use serde_json::{Value, json};

use crate::support::{env, events, run_id, types};

/// Imports, with the answer as JSON, and holds that the source is as it was.
fn import(env: &TestEnv, source: &str, extra: &[&str]) -> Value {
    let before = std::fs::read(env.workspace().join(source)).ok();
    let output = env.run(["import", source, "--json"].iter().chain(extra)).assert_code(0);
    assert_eq!(std::fs::read(env.workspace().join(source)).ok(), before, "the source is untouched");
    serde_json::from_str(&output.stdout).unwrap()
}

/// What is printed after `next`, done by a shell, with what makes an agent of ours run.
fn do_next(env: &TestEnv, next: &Value, extra: &str) -> Output {
    let (last, first) = next.as_array().unwrap().split_last().unwrap();
    for command in first {
        let mut shell = env.command("sh");
        shell.args(["-c", command.as_str().unwrap()]).current_dir(env.workspace());
        assert!(shell.output().unwrap().status.success(), "{command}");
    }
    let args = last.as_str().unwrap().strip_prefix("dacapo ").unwrap();
    let args = format!("{args} --trust --restart-delay 0s {extra}");
    env.run(args.split_whitespace())
}

fn git_files(env: &TestEnv) -> BTreeMap<String, String> {
    let names = env.git(["ls-tree", "-r", "--name-only", "HEAD"]);
    names.lines().map(|name| (name.to_owned(), env.git(["show", &format!("HEAD:{name}")]))).collect()
}

const PRD: &str = r#"{
  "project": "Shop",
  "userStories": [
    {"id": "US-2", "title": "Write the list", "description": "do: cat page.txt > list.txt", "priority": 2, "passes": false},
    {"id": "US-1", "title": "Write the page", "description": "do: echo tea > page.txt",
     "acceptanceCriteria": ["the page says tea"], "priority": 1, "passes": false, "backpressure": "grep -q tea page.txt"},
    {"id": "US-0", "title": "Begin", "priority": 0, "passes": true}
  ]
}
"#;

#[test]
fn stories_are_imported_and_worked_off_by_the_commands_that_are_printed() {
    let env = env();
    env.write("prd.json", PRD);
    env.git(["add", "-A"]);
    env.git(["commit", "-qm", "prd"]);
    let result = import(&env, "prd.json", &["--check", "test -f page.txt"]);
    assert_eq!(
        result["result"],
        json!({ "kind": "unit", "name": "shop", "folder": "specs/tasks/shop", "tasks": 2, "done": 1, "unproven": 0 })
    );
    assert_eq!(result["check"], json!({ "run": "test -f page.txt", "from": "--check" }));
    assert_eq!(env.run(["unit", "check"]).assert_code(0).stdout, "1 unit, 2 tasks: no problems\n");
    let agent = format!("--agent-cmd {}", unit_agent().display());
    do_next(&env, &result["next"], &agent).assert_code(0);
    let files = git_files(&env);
    assert_eq!(files["list.txt"], "tea\n", "in the order of their priority");
    assert_eq!(files["prd.json"], PRD);
    let log = env.git(["log", "--format=%s"]);
    assert!(log.contains("complete task #1 - US-1: Write the page"), "{log}");
    assert!(log.contains("complete task #2 - US-2: Write the list"), "{log}");
}

#[test]
fn checklists_and_plans_are_imported_and_worked_off() {
    for (file, text) in [
        (
            "TODO.md",
            "# Todo\n- [x] begin\n- [ ] page\n  do: echo tea > page.txt\n- [ ] list\n  do: cat page.txt > list.txt\n",
        ),
        (
            "IMPLEMENTATION_PLAN.md",
            "# Plan\n## Task 1: page\ndo: echo tea > page.txt\n## Task 2: list\ndo: cat page.txt > list.txt\n",
        ),
    ] {
        let env = env();
        env.write(file, text);
        env.git(["add", "-A"]);
        env.git(["commit", "-qm", "list"]);
        let result = import(&env, file, &["--name", "mine"]);
        assert_eq!((&result["result"]["name"], &result["result"]["unproven"]), (&json!("mine"), &json!(2)));
        let agent = format!("--agent-cmd {}", unit_agent().display());
        do_next(&env, &result["next"], &agent).assert_code(0);
        assert_eq!(git_files(&env)["list.txt"], "tea\n", "{file}");
    }
}

#[test]
fn archons_workflows_are_imported_and_run_under_their_own_names() {
    let env = env();
    let source = "\
name: fix
description: Fixes it.
interactive: true
nodes:
  - id: look
    command: look
  - id: fix
    depends_on: [look]
    loop:
      prompt: Fix $look.output.
      until: FIXED
      until_bash: test -f fixed
      max_iterations: 3
";
    env.write(".archon/workflows/fix.yaml", source);
    env.write(".archon/commands/look.md", "Look at it.\n");
    let result = import(&env, ".archon/workflows", &[]);
    assert_eq!(result["result"], json!({ "kind": "workflows", "names": ["fix"] }));
    assert_eq!(
        result["left_out"],
        json!([{ "file": ".archon/workflows/fix.yaml", "key": "interactive", "line": 3 }])
    );
    assert!(result["notes"][0].as_str().unwrap().contains("weaker: the agent's words alone end this loop"));
    assert_eq!(env.read(".archon/workflows/fix.yaml"), source);
    let checked = env.run(["workflow", "check", "fix", "--json"]).assert_code(0).stdout;
    assert_eq!(serde_json::from_str::<Value>(&checked).unwrap()["problems"], json!([]));
    let listed = env.run(["workflow", "list"]).assert_code(0).stdout;
    assert!(listed.contains(".dacapo/workflows/fix.yaml (replaces .archon/workflows/fix.yaml)"), "{listed}");
    env.script("append prompts seen; say the bug; promise FIXED");
    assert_eq!(result["next"], json!(["dacapo workflow run fix"]));
    let args =
        ["workflow", "run", "fix", "--trust", "--restart-delay", "0s", "--agent-cmd", &env.agent_cmd()];
    let output = env.run(args).assert_code(0);
    assert_eq!(env.read("prompts").lines().count(), 2);
    assert!(types(&events(&env, &run_id(&output))).contains(&"workflow_complete"));
}

#[test]
fn the_loop_of_a_session_is_imported_and_runs_with_its_limit_and_promise() {
    let env = env();
    env.write(
        ".claude/ralph-loop.local.md",
        "---\nactive: false\niteration: 4\nmax_iterations: 3\ncompletion_promise: \"ALL GREEN\"\nstarted_at: \"2026-11-01T10:00:00Z\"\n---\n\nCount.\n",
    );
    let result = import(&env, ".claude/ralph-loop.local.md", &[]);
    assert_eq!(result["next"], json!(["dacapo workflow run ralph-loop"]));
    env.script("append calls x; prompt-to prompt.txt\n@2: promise ALL GREEN");
    let args = [
        "workflow",
        "run",
        "ralph-loop",
        "--trust",
        "--restart-delay",
        "0s",
        "--agent-cmd",
        &env.agent_cmd(),
    ];
    env.run(args).assert_code(0);
    assert_eq!(env.read("calls"), "x\nx\n");
    assert!(env.read("prompt.txt").contains("Count.\n\n## Completion"), "{}", env.read("prompt.txt"));
    env.script("append more x");
    env.run(args).assert_code(3);
    assert_eq!(env.read("more").lines().count(), 3);
}

#[test]
fn importing_again_keeps_what_is_there_and_never_overwrites_a_changed_file() {
    let env = env();
    env.write("TODO.md", "- [ ] one\n");
    let shown = env.run(["import", "--dry-run"]).assert_code(0);
    insta::assert_snapshot!(shown.stdout, @r#"
    --- specs/tasks/todo/01-one.md (new)
    ---
    task: 1
    status: pending
    # No command was known that proves this task: the agent is believed. Write one.
    backpressure: "true"
    ---

    # one

    Imported from `TODO.md`, line 1.

    --- specs/tasks/todo/IMPLEMENTATION_PLAN.md (new)
    # TODO

    Imported from `TODO.md`.

    unit     todo: 1 task from TODO.md
    "#);
    assert!(!env.workspace().join("specs").exists());
    let first = env.run(["import"]).assert_code(0);
    insta::assert_snapshot!(first.stdout, @r"
    wrote    specs/tasks/todo/01-one.md
    wrote    specs/tasks/todo/IMPLEMENTATION_PLAN.md
    unit     todo: 1 task from TODO.md
    next     `git add specs/tasks/todo && git commit -m 'Import TODO.md'`, then `dacapo unit run --unit todo`
    ");
    assert!(first.stderr.contains("WARNING: no command proves 1 task"), "{}", first.stderr);
    let again = env.run(["import"]).assert_code(0);
    assert!(
        again.stdout.contains("kept     specs/tasks/todo/01-one.md: it says the same already"),
        "{}",
        again.stdout
    );
    let changed = env.read("specs/tasks/todo/01-one.md").replace("pending", "complete");
    env.write("specs/tasks/todo/01-one.md", &changed);
    let refused = env.run(["import"]).assert_code(2);
    insta::assert_snapshot!(refused.stderr, @r"
    dacapo: files are there that say something else: `specs/tasks/todo/01-one.md`
    hint: `--force` overwrites them, `--name NAME` imports beside them; nothing was written
    ");
    assert_eq!(env.read("specs/tasks/todo/01-one.md"), changed);
    let forced = env.run(["import", "--force"]).assert_code(0);
    assert!(forced.stdout.contains("overwrote specs/tasks/todo/01-one.md"), "{}", forced.stdout);
    assert!(env.read("specs/tasks/todo/01-one.md").contains("status: pending"));
}

#[test]
fn what_cannot_be_imported_is_said_with_its_place_and_what_to_do() {
    let env = env();
    let nothing = env.run(["import"]).assert_code(2);
    assert!(nothing.stderr.contains("hint: dacapo imports prd.json, TODO.md"), "{}", nothing.stderr);
    env.write("prd.json", "{\"userStories\": [\n  {\"title\": \"a\"},\n]}\n");
    let broken = env.run(["import"]).assert_code(2);
    insta::assert_snapshot!(broken.stderr, @r"
    prd.json:3:1: not JSON: trailing comma
      3 | ]}
        | ^
      fix: write plain JSON, without comments or a comma too many
    dacapo: 1 problem in what was to be imported
    ");
    env.write("TODO.md", "- [ ] x\n");
    let several = env.run(["import"]).assert_code(2);
    assert!(
        several.stderr.contains("hint: name one of them: `dacapo import prd.json`, `dacapo import TODO.md`"),
        "{}",
        several.stderr
    );
    let words = env.write("words.md", "# Words\n").run(["import", "words.md"]).assert_code(2);
    assert!(words.stderr.contains("fix: `--kind plan` takes the headings"), "{}", words.stderr);
    let gone = env.run(["import", "gone.json"]).assert_code(2);
    assert!(gone.stderr.contains("cannot read `gone.json`"), "{}", gone.stderr);
    // Of several workflows, the good ones are imported.
    env.write(".archon/workflows/good.yaml", "name: good\ndescription: d\nsteps: [{bash: make}]\n");
    env.write(
        ".archon/workflows/bad.yaml",
        "name: bad\ndescription: d\nnodes:\n  - id: a\n    script: print(1)\n",
    );
    let partly = env.run(["import", ".archon/workflows"]).assert_code(2);
    assert!(
        partly.stderr.contains(".archon/workflows/bad.yaml:5:5: `script` steps are Archon's"),
        "{}",
        partly.stderr
    );
    assert!(partly.stdout.contains("wrote    .dacapo/workflows/good.yaml"), "{}", partly.stdout);
    // The tests of the repository prove the tasks, if they can be guessed.
    env.write("go.mod", "module x\n");
    let guessed = env.run(["import", "TODO.md"]).assert_code(0);
    assert!(guessed.stdout.contains("check    go test ./... (guessed from go.mod)"), "{}", guessed.stdout);
    assert!(env.read("specs/tasks/todo/01-x.md").contains("backpressure: go test ./...\n"));
}
