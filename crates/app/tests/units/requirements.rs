//! Single promises about units that no story of the other files tells: where agents work, what is logged, timed, committed.

use std::{fs, os::unix::fs::PermissionsExt};

use dacapo_testkit::unit_agent;
use serde_json::{Value, json};

use crate::world::World;

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn an_agent_works_in_the_worktree_and_both_its_streams_are_logged_by_attempt() {
    // req 20, req 23, req 24, req 50
    let world = World::new();
    let words = "do: pwd\ndo: echo oops $DACAPO_TASK $DACAPO_ITERATION >&2\nclaim: no";
    world.plan("auth", &[]).task("auth", 1, &[], "true", words).commit();
    world.run(&["-n", "2"]).assert_code(1);
    let events = world.run_events();
    let created = of(&events, "worktree.created");
    let path = created[0]["path"].as_str().unwrap();
    assert!(path.ends_with("/auth") && !path.starts_with(world.env.workspace().to_str().unwrap()), "{path}");
    let branch = created[0]["branch"].as_str().unwrap();
    let digits = branch.strip_prefix("dacapo/auth-").unwrap();
    assert!(digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{branch}");
    for iteration in ["1", "2"] {
        let log = |stream: &[&str]| {
            let args = [&["logs", "auth", "--iteration", iteration], stream].concat();
            world.env.run(args).assert_code(0).stdout
        };
        assert!(log(&[]).lines().any(|line| line == path), "{}", log(&[]));
        assert!(log(&["--stderr"]).contains(&format!("oops auth {iteration}\n")), "{}", log(&["--stderr"]));
    }
    // Found again, not made again.
    world.run(&["-n", "1", "--retry-failed"]).assert_code(1);
    assert_eq!(of(&world.run_events(), "worktree.created").len(), 1);
    assert!(world.env.run(["logs", "auth"]).assert_code(0).stdout.contains(path));
}

#[test]
fn backpressure_that_takes_too_long_is_ended_with_minus_one() {
    // req 33
    let world = World::new();
    world.plan("auth", &[]).task("auth", 1, &[], "echo begun; sleep 600", "do: touch x").commit();
    world.run(&["-n", "1", "--gate-timeout", "100ms"]).assert_code(1);
    let events = world.run_events();
    let failed = of(&events, "task.validation.fail");
    assert_eq!((failed.len(), &failed[0]["exit_code"]), (1, &json!(-1)));
    assert!(failed[0]["output"].as_str().unwrap().ends_with("begun\n"), "{}", failed[0]);
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
}

#[test]
fn what_the_backpressure_said_is_in_the_next_prompt_unless_switched_off() {
    // req 40
    for (flags, is_told) in [(&["-n", "2"][..], true), (&["-n", "2", "--no-feedback"], false)] {
        let world = World::new();
        world.plan("auth", &[]).task("auth", 1, &[], "echo nothing is there; false", "do: touch x").commit();
        world.run(flags).assert_code(1);
        let args = ["logs", "auth", "--prompt", "--iteration", "2"];
        let prompt = world.env.run(args).assert_code(0).stdout;
        assert!(prompt.contains("- Task #1: Step 1"), "{prompt}");
        assert_eq!(prompt.contains("\nnothing is there\n"), is_told, "{prompt}");
    }
}

#[test]
fn a_red_check_shows_the_end_of_what_it_printed_and_why_quotes_it() {
    let world = World::new();
    world.plan("auth", &[]).task("auth", 1, &[], "seq 1 30; echo nothing is there; false", "do: touch x");
    world.commit();
    let output = world.run(&["-n", "1"]).assert_code(1).stdout;
    let (_, below) = output.split_once("#1 Step 1: refused, its backpressure exited 1\n").expect(&output);
    let shown: Vec<&str> = below.lines().take(5).collect();
    let expected = ["27", "28", "29", "30", "nothing is there"];
    assert_eq!(shown, expected.map(|line| format!("  auth  │ {line}")), "{output}");
    let why = world.env.run(["why", "auth"]).assert_code(0).stdout;
    assert!(why.ends_with("\n  30\n  nothing is there\n"), "{why}");
}

#[test]
fn no_hook_of_the_repository_has_a_say_in_a_commit() {
    // req 45, fault H8
    let world = World::new();
    world.unit("auth", 2, &[]).commit();
    for hook in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "pre-merge-commit",
        "reference-transaction",
    ] {
        let path = world.env.workspace().join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(
            &path,
            format!("#!/bin/sh\necho {hook} >> '{}'\nexit 1\n", world.env.root().join("hooked").display()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    world.run(&[]).assert_code(0);
    assert!(world.at("main", "src/auth-2.txt").is_some());
    let hooked = fs::read_to_string(world.env.root().join("hooked"));
    assert!(hooked.is_err(), "{hooked:?}");
}

#[test]
fn an_agent_that_commits_leaves_nothing_to_commit_and_that_is_no_failure() {
    // req 43, req 46, req 47
    let world = World::new();
    let file = "specs/tasks/auth/01-step.md";
    let body = format!(
        "do: touch x && sed -i 's/^status: .*/status: complete/' {file}\ndo: git add -A && git commit -qm mine\nclaim: no"
    );
    world.plan("auth", &[]).task("auth", 1, &[], "test -f x", &body).commit();
    world.run(&[]).assert_code(0);
    let events = world.run_events();
    let committed = of(&events, "task.committed");
    assert_eq!((committed.len(), &committed[0]["empty"]), (1, &json!(true)));
    assert_eq!(of(&events, "task.completed").len(), 1);
    assert!(world.at("main", file).unwrap().contains("\nstatus: complete\n"));
    // Nothing of dacapo's own is in any commit.
    let names = world.env.git(["log", "-m", "--first-parent", "--format=", "--name-only", "main"]);
    let mut names: Vec<&str> = names.lines().filter(|name| !name.starts_with("specs/")).collect();
    names.dedup();
    assert_eq!(names, ["x"]);
}

#[test]
fn a_unit_needs_neither_a_network_nor_a_key() {
    // req 49: whoever may make a namespace has no network in it at all.
    let world = World::new();
    world.plan("auth", &[]).task("auth", 1, &[], "test -f one", "do: env > one").commit();
    let mut may = world.env.command("unshare");
    let isolated =
        may.args(["--map-root-user", "--net", "true"]).output().is_ok_and(|output| output.status.success());
    let plain = world.env.dacapo(world.args(&[]));
    let command = if isolated {
        let mut command = world.env.command("unshare");
        command.args(["--map-root-user", "--net", "--"]).arg(plain.get_program()).args(plain.get_args());
        for (name, value) in plain.get_envs() {
            value.map(|value| command.env(name, value));
        }
        command
    } else {
        plain
    };
    world.env.run_command(command).assert_code(0);
    let seen = world.at("main", "one").unwrap();
    let is_key = |name: &&str| ["_KEY", "_TOKEN", "_SECRET"].iter().any(|end| name.ends_with(end));
    let names = seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    assert_eq!(names.filter(is_key).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_dry_run_prints_the_levels_and_starts_nothing() {
    // req 55
    let world = World::new();
    world.unit("core", 2, &[]).unit("web", 1, &["core"]).unit("api", 1, &["core"]).unit(
        "app",
        1,
        &["api", "web"],
    );
    world.commit();
    let output = world.env.run(["unit", "run", "--dry-run"]).assert_code(0);
    insta::assert_snapshot!(output.stdout, @r"
    4 units, 5 tasks to do, 4 at once:
      1. core
      2. api, web
      3. app
    ");
    let output = world.env.run(["unit", "run", "--dry-run", "--unit", "api", "--json"]).assert_code(0);
    let levels: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(levels, json!([["core"], ["api"]]));
    assert!(!world.env.dacapo_home().exists());
}

#[test]
fn a_plan_is_read_and_never_written() {
    // req 6
    let world = World::new();
    let text = "---\nunit: auth # ours\norch_status: pending\norch_branch: 'none'\nmine: {kept: yes}\n---\n\n# auth\n---\n";
    world.unit("auth", 1, &[]);
    world.env.write("specs/tasks/auth/IMPLEMENTATION_PLAN.md", text);
    world.commit();
    world.run(&[]).assert_code(0);
    assert_eq!(world.at("main", "specs/tasks/auth/IMPLEMENTATION_PLAN.md").unwrap(), text);
}

#[test]
fn a_task_that_somebody_has_begun_is_ready() {
    // req 8, req 14
    let world = World::new();
    world.unit("auth", 2, &[]);
    let file = "specs/tasks/auth/01-step.md";
    let begun = world.env.read(file).replace("status: pending", "status: in_progress");
    world.env.write(file, begun);
    world.commit();
    world.run(&[]).assert_code(0);
    assert!(world.at("main", file).unwrap().contains("\nstatus: complete\n"));
}

#[test]
fn words_and_names_of_a_repository_never_reach_a_shell() {
    // fault I6: a title, and the name of a file that two units change.
    let world = World::new();
    let canary = world.env.root().join("canary");
    let shell = format!("$(touch '{0}') `touch '{0}'` \"; touch '{0}'; '", canary.display());
    // A name holds no slash: the way to a place that outlives the checked tree is `cd`.
    let name = "it's $(cd; touch canary); `cd; touch canary` \"x\".txt";
    world.env.write(name, "first\n");
    for unit in ["a", "b"] {
        let body = format!("do: echo {unit} > \"$(ls | grep '^it')\"");
        world.plan(unit, &[]).task(unit, 1, &[], "true", &body);
        let file = format!("specs/tasks/{unit}/01-step.md");
        let text = world.env.read(&file).replace("# Step 1", &format!("# {shell}"));
        world.env.write(&file, text);
    }
    world.commit();
    world.run(&["--parallel", "1"]).assert_code(0);
    assert_eq!(world.at("main", name).unwrap(), "a\nb\n", "the agent keeps both sides");
    assert!(!canary.exists() && !world.env.home().join("canary").exists());
    let subject = format!("feat(a): complete task #1 - {shell}");
    assert_eq!(world.subjects().get(subject.trim_end()), Some(&1), "{:?}", world.subjects());
}

#[test]
fn an_agent_that_writes_into_the_checkout_is_told_of_and_nothing_of_it_is_committed() {
    // fault H12
    let world = World::new();
    let intruder = world.env.workspace().join("intruder.txt");
    world.plan("a", &[]).task("a", 1, &[], "test -f one", &format!("do: touch one '{}'", intruder.display()));
    world.commit();
    let output = world.run(&[]);
    assert!(
        output.stderr.contains("WARNING: the checkout was clean when the run began"),
        "{}",
        output.stderr
    );
    assert!(intruder.exists());
    let files = world.env.git(["log", "--branches", "--format=", "--name-only"]);
    assert!(files.contains("one") && !files.contains("intruder"), "{files}");
}

#[test]
fn an_answer_waits_for_the_unit_to_go_on() {
    // req 58: the unit's next run reads it.
    let world = World::new();
    let asks = "do: dacapo bus post --type QUESTION 'red or blue?'";
    world.plan("a", &[]).task("a", 1, &[], "test -f one", &format!("{asks}\nclaim: no")).commit();
    let agent = format!("sh -c '{}; exit 42'", unit_agent().display());
    let run = ["unit", "run", "--trust", "--restart-delay", "0s", "--agent-cmd", &agent];
    let output = world.env.run(run).assert_code(4);
    assert!(output.stderr.contains("red or blue?"), "{}", output.stderr);
    let next = "  next     `dacapo steer a \"…\"` answers; then `dacapo resume ";
    assert!(output.stdout.contains(next), "{}", output.stdout);
    assert!(!output.stderr.contains("hint: "), "the end has said it: {}", output.stderr);
    assert!(output.reason().starts_with("dacapo: stopped (person): a: "), "{output:?}");
    let status = world.env.run(["status"]).assert_code(0).stdout;
    assert!(status.contains("waits for a person"), "{status}");
    let list = world.env.run(["unit", "list"]).assert_code(0).stdout;
    assert!(list.contains("a     0/1    waits for a person"), "{list}");
    for (id, because) in [("a", "A person is needed: "), ("-", "A person is needed: a: ")] {
        let why = world.env.run(["why", id]).assert_code(0).stdout;
        assert!(why.starts_with(because) && why.contains("`dacapo steer "), "{why}");
    }
    let output = world.env.run(["steer", "a", "take the blue one"]).assert_code(0);
    assert_eq!(output.stdout, "Unit a reads it when it goes on: `dacapo unit run --unit a`.\n");
    world.env.run(run).assert_code(4);
    let prompt = world.env.run(["logs", "a", "--prompt", "--iteration", "2"]).assert_code(0).stdout;
    assert!(prompt.contains("take the blue one"), "{prompt}");
}

#[test]
fn words_that_nobody_would_read_are_refused() {
    // A task that was given up is tried again in a new turn, which knows nothing of the loop before.
    let world = World::new();
    world.plan("a", &[]).task("a", 1, &[], "test -f one", "claim: no").commit();
    world.run(&[]).assert_code(1);
    let output = world.env.run(["steer", "a", "make a file"]).assert_code(1);
    let refused = "dacapo: no agent would read it: unit a goes on with a new turn";
    assert!(output.reason().starts_with(refused), "{output:?}");
    let status = world.env.run(["status", "a"]).assert_code(0).stdout;
    let worktree = status.lines().find_map(|line| line.strip_prefix("  worktree ")).unwrap();
    let file = format!("{worktree}/specs/tasks/a/01-step.md");
    let text = fs::read_to_string(&file).unwrap().replace("claim: no", "do: touch one");
    fs::write(&file, text).unwrap();
    world.run(&["--unit", "a", "--retry-failed"]).assert_code(0);
    assert!(world.at("main", "one").is_some());
}
