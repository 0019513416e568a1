//! What is said when something goes wrong, and whether what it tells to type helps.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use dacapo_testkit::Signal;
use serde_json::Value;

use crate::{
    control::{slow_unit, wait_for_file},
    world::World,
};

/// The last line on standard error that begins with `lead`.
fn line_of(text: &str, lead: &str) -> String {
    let line = text.lines().rev().find(|line| line.starts_with(lead));
    line.unwrap_or_else(|| panic!("no `{lead}` in {text}")).to_owned()
}

#[test]
fn a_claim_that_is_lost_is_explained() {
    // req 30
    let file = "specs/tasks/a/01-step.md";
    for (does, said) in [
        (
            format!("sed -i 's/^status:.*/status: done/' {file}"),
            "refused: `specs/tasks/a/01-step.md`, line 3: `done` is not a status",
        ),
        (
            format!("sed -i 's/^task: 1/task: 1\\nstatus: complete/' {file}"),
            "refused: `specs/tasks/a/01-step.md`, line 4: `status` is there twice, first in line 3",
        ),
        (
            "sed -i 's/^status:.*/status: complete/' specs/tasks/a/02-step.md".to_owned(),
            "refused: task #2 was set to `complete`, and #1 must come first",
        ),
        ("rm -r specs/tasks/a".to_owned(), "refused: `specs/tasks/a/01-step.md`: it is gone"),
        (
            "rm specs/tasks/a/IMPLEMENTATION_PLAN.md".to_owned(),
            "refused: `specs/tasks/a/IMPLEMENTATION_PLAN.md`: it is gone",
        ),
        (
            format!("mv {file} elsewhere.md && ln -s ../../../elsewhere.md {file}"),
            "refused: `specs/tasks/a/01-step.md`: a link, or behind one, and links are not followed",
        ),
    ] {
        let world = World::new();
        world.plan("a", &[]);
        world.task("a", 1, &[], "test -f done.txt", &format!("do: touch work; {does}\nclaim: no"));
        world.task("a", 2, &[1], "true", "do: true");
        world.commit();
        let output = world.run(&["-n", "1"]).assert_code(1);
        assert!(output.stdout.contains(said), "{does}: {}", output.stdout);
        let why = world.env.run(["why", "a"]).assert_code(0).stdout;
        assert!(why.contains("the last was refused: "), "{why}");
    }
}

#[test]
fn an_honest_agent_finds_what_the_one_before_has_deleted() {
    // req 36; fault A10
    for (does, is_claimed) in [
        ("rm -r specs/tasks/a", false),
        ("rm specs/tasks/a/IMPLEMENTATION_PLAN.md", true),
        ("rm specs/tasks/a/02-step.md", true),
        ("sed -i 's/^task: 2/task: 2\\ntask: 2/' specs/tasks/a/02-step.md", true),
    ] {
        let world = World::new();
        world.plan("a", &[]);
        let once = world.env.root().join("once");
        let first = format!("test -f {0} || {{ touch {0}; {does}; }}", once.display());
        // An agent whose own task is gone fails before it claims.
        let claims = if is_claimed { "" } else { "\ndo: test -f specs/tasks/a/01-step.md" };
        world.task("a", 1, &[], "test -f done.txt", &format!("do: touch done.txt\ndo: {first}{claims}"));
        world.task("a", 2, &[1], "test -f two.txt", "do: touch two.txt");
        world.commit();
        let output = world.run(&["-n", "2"]).assert_code(0);
        assert!(output.stdout.contains("refused: "), "{does}: {}", output.stdout);
        assert!(world.at("main", "two.txt").is_some(), "{does}");
        assert!(world.at("main", "specs/tasks/a/IMPLEMENTATION_PLAN.md").is_some(), "{does}");
    }
}

#[test]
fn a_unit_names_the_loop_and_the_command_that_matter() {
    let world = World::new();
    world.unit("a", 1, &[]);
    world.config("units: {baseline: [{name: lint, run: 'exit 3'}]}\n").commit();
    world.env.git(["branch", "next"]);
    world.run(&["--no-merge", "--target", "next"]).assert_code(1);
    let why = world.env.run(["why", "a"]).assert_code(0).stdout;
    assert!(why.contains("then `dacapo unit run --unit a --target next --no-merge`"), "{why}");
    let units: Vec<Value> =
        serde_json::from_str(&world.env.run(["status", "--units", "--json"]).assert_code(0).stdout).unwrap();
    let id = units[0]["loop"].as_str().unwrap();
    assert!(why.contains(&format!("`dacapo logs {id}`")), "{why}");
    let events = world.env.events(None);
    let last = events.iter().rev().find(|event| event["type"] == "loop_finished").unwrap();
    assert_eq!((&last["loop"], &last["state"]), (&id.into(), &"failed".into()));
    let run = units[0]["run"].as_str().unwrap();
    let why = world.env.run(["why", run]).assert_code(0).stdout;
    assert!(why.starts_with("Failed: a: ") && why.contains(&format!("`dacapo resume {run}`")), "{why}");
}

#[test]
fn a_result_that_waits_is_the_last_word_and_what_it_says_works() {
    // req 58
    let world = World::new();
    world.env.write("mine.txt", "1\n");
    world.plan("a", &[]).task("a", 1, &[], "grep 2 mine.txt", "do: echo 2 > mine.txt");
    world.commit();
    world.env.git(["branch", "rel"]);
    let there = world.env.root().join("there");
    world.env.git(["worktree", "add", "-q", there.to_str().unwrap(), "rel"]);
    fs::write(there.join("mine.txt"), "dirty\n").unwrap();
    let output = world.run(&["-q", "--target", "rel"]).assert_code(0);
    let last =
        line_of(&output.stderr, "dacapo: completed: 1 unit merged; what was merged waits on dacapo/merged-");
    let command = format!("git -C {} merge --ff-only dacapo/merged-", there.display());
    assert!(last.contains(&command), "{last}");
    let output = world.run(&["--target", "rel"]).assert_code(5);
    let hint = line_of(&output.stderr, "hint: ");
    assert!(hint.contains(&command), "{hint}");
    let typed = hint.split('`').nth(1).unwrap().to_owned();
    fs::write(there.join("mine.txt"), "1\n").unwrap();
    let mut shell = world.env.command("sh");
    shell.args(["-c", &typed]).current_dir(world.env.workspace());
    world.env.run_command(shell).assert_code(0);
    assert_eq!(world.at("rel", "mine.txt").as_deref(), Some("2\n"));
}

#[test]
fn a_changed_command_is_taken_into_the_worktree_as_it_is_said() {
    let world = World::new();
    world.plan("a", &[]).task("a", 1, &[], "test -f right.txt", "do: touch wrong.txt").commit();
    world.run(&["-n", "1"]).assert_code(1);
    // Somebody has written there, so that it does not follow by itself.
    let status = world.env.run(["status", "a"]).assert_code(0).stdout;
    let worktree = status.lines().find_map(|line| line.strip_prefix("  worktree ")).unwrap();
    let file = format!("{worktree}/specs/tasks/a/01-step.md");
    fs::write(&file, format!("{}Mine.\n", fs::read_to_string(&file).unwrap())).unwrap();
    world.task("a", 1, &[], "test -f wrong.txt", "do: touch wrong.txt").commit();
    let output = world.run(&["--retry-failed"]).assert_code(1);
    let said = output.stdout.lines().find(|line| line.contains("git -C ")).expect("a command");
    let typed = said.split('`').find(|part| part.starts_with("git -C ")).unwrap().to_owned();
    let mut shell = world.env.command("sh");
    shell.args(["-c", &typed]).current_dir(world.env.workspace());
    world.env.run_command(shell).assert_code(0);
    world.run(&["--retry-failed"]).assert_code(0);
    assert!(world.at("main", "wrong.txt").is_some());
}

#[test]
fn what_agents_would_find_out_too_late_is_said_before_they_start() {
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    let output = world.run(&["--pr"]).assert_code(5);
    assert!(output.stderr.contains("there is no remote to push to"), "{}", output.stderr);
    for (key, value) in [("user.name", ""), ("user.email", ""), ("user.useConfigOnly", "true")] {
        world.env.git(["config", key, value]);
    }
    let output = world.run(&[]).assert_code(5);
    assert!(output.stderr.contains("git does not know your name and email"), "{}", output.stderr);
    assert!(output.stderr.contains("git config --global user.name"), "{}", output.stderr);
    assert_eq!(world.run_events().len(), 0, "nothing was started");
}

#[test]
fn who_is_not_trusted_is_shown_every_command() {
    // fault K1
    let world = World::new();
    world.unit("a", 1, &[]).config("gates: [make gate]\n").commit();
    let args: Vec<String> = world.args(&[]).into_iter().filter(|word| word != "--trust").collect();
    let output = world.env.run(args).assert_code(4);
    for part in ["gate: make gate", "backpressure a #1: test -f src/a-1.txt"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}

#[test]
fn an_agent_that_nobody_has_is_found_in_its_plan() {
    let world = World::new();
    world.unit("a", 1, &[]);
    world.env.write("specs/tasks/a/IMPLEMENTATION_PLAN.md", "---\nunit: a\nprovider: nosuch\n---\n");
    world.commit();
    let place = "specs/tasks/a/IMPLEMENTATION_PLAN.md";
    let output = world.env.run(["unit", "check"]).assert_code(0);
    let note = format!("`{place}`, line 3: no agent is called `nosuch`");
    assert!(output.stderr.contains(&note), "{}", output.stderr);
    let mut args: Vec<String> = world.args(&[]);
    let at = args.iter().position(|word| word == "--agent-cmd").unwrap();
    args.drain(at..at + 2);
    let program = world.env.root().join("bin/claude");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = world.env.run(args).assert_code(2);
    assert!(output.stderr.contains(&format!("({place}:3)")), "{}", output.stderr);
}

#[test]
fn what_was_typed_is_answered_in_plain_words() {
    let world = World::new();
    world.unit("a", 2, &[]).commit();
    for (args, code, said) in [
        (vec!["unit", "run", "--target", "bad name"], 2, "is no name of a branch"),
        (vec!["unit", "prompt", "a", "--task", "x"], 2, "is not a whole number"),
        (vec!["unit", "prompt", "a", "--task", "2"], 0, "task #2 is not ready: it waits for #1"),
    ] {
        let output = world.env.run(&args).assert_code(code);
        assert!(output.stderr.contains(said) && !output.stderr.contains("git branch"), "{}", output.stderr);
    }
    let bare = world.env.root().join("bare.git");
    world.env.git(["init", "-q", "--bare", bare.to_str().unwrap()]);
    let output = world.env.run(["unit", "run", "--dir", bare.to_str().unwrap()]).assert_code(2);
    assert!(output.stderr.contains("is a bare repository"), "{}", output.stderr);
}

#[test]
fn the_reason_holds_what_the_agent_exited_with() {
    let world = World::new();
    world.plan("a", &[]).task("a", 1, &[], "true", "do: exit 7").commit();
    let output = world.run(&["-n", "1"]).assert_code(1);
    let last = output.reason();
    assert!(last.contains("the last agent failed: exit code 1"), "{last}");
    let world = World::new();
    world.unit("a", 1, &[]).config("worktree: {setup: [{run: 'exit 3'}]}\n").commit();
    let output = world.run(&[]).assert_code(1);
    assert!(output.stdout.contains("setup: worktree.setup: `exit 3`"), "{}", output.stdout);
}

#[test]
fn whoever_pauses_a_unit_is_told_what_goes_on() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let running = world.env.spawn(world.args(&["--no-merge"]));
    wait_for_file(&world, "began-a");
    let said = world.env.run(["pause", "a"]).assert_code(0).stdout;
    assert!(said.contains("Unit a pauses after this iteration; `dacapo resume a` goes on."), "{said}");
    assert!(said.contains("then `dacapo unit run --unit a --no-merge` goes on"), "{said}");
    running.signal(Signal::INT);
    running.wait(Duration::from_secs(60)).assert_code(130);
}

#[test]
fn a_line_on_the_jobs_output_that_is_no_message_ends_the_unit_and_is_shown() {
    // Whatever writes there, a library or, as here, an agent that looks for it: it is seen, and nothing is left running.
    let world = World::new();
    // In a sandbox the agent could not see the job.
    world.env.without_sandbox();
    world.unit("good", 1, &[]);
    let babble = "p=$$; until grep -q ^dcp-unit /proc/$p/cmdline; do p=$(sed 's/.*) //' /proc/$p/stat | cut -d' ' -f2); \
                  done; echo 'npm WARN deprecated' > /proc/$p/fd/1; sleep 600";
    world.plan("bad", &[]).task("bad", 1, &[], "true", &format!("do: {babble}"));
    world.commit();
    let output = world.run(&[]).assert_code(1);
    let said = "bad: its job printed a line that is no message of dacapo's: `npm WARN deprecated`";
    assert!(output.stdout.contains(said) || output.stderr.contains(said), "{output:?}");
    let events = world.run_events();
    let failed = events.iter().find(|event| event["type"] == "unit.failed").unwrap();
    assert_eq!((&failed["unit"], &failed["reason"]), (&"bad".into(), &"error".into()));
    assert!(events.iter().any(|event| event["type"] == "unit.merged" && event["unit"] == "good"));
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
}
