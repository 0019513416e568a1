//! Units beside each other: what one has merged neither costs another its work nor is undone by it.

use std::time::Duration;

use dacapo_testkit::{Signal, unit_agent};

use crate::{
    control::{go, slow_unit, wait_for_file},
    world::{World, types_of},
};

const LONG: Duration = Duration::from_secs(25);

/// Units `a` and `b`, both cut short while their agents work.
fn cut_short() -> World {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    slow_unit(&world, "b", &[], "");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    wait_for_file(&world, "began-b");
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    go(&world);
    world
}

#[test]
fn a_unit_that_was_cut_short_goes_on_beside_what_was_merged_since() {
    // req 50, fault B6: its loop counts changes from where the unit began, not from where the target is by now.
    for meanwhile in [
        (|world: &World| drop(world.run(&["--unit", "a"]).assert_code(0))) as fn(&World),
        |world| _ = world.unit("new", 1, &[]).commit(),
        |world| _ = world.task("a", 1, &[], "test -e a.txt", "do: touch a.txt").commit(),
        // Its own text: the next turn begins with it.
        |world| _ = world.task("b", 1, &[], "test -f b.txt", "Quickly.\n\ndo: touch b.txt").commit(),
    ] {
        let world = cut_short();
        meanwhile(&world);
        world.run(&[]).assert_code(0);
        for unit in ["a", "b"] {
            assert!(world.at("main", &format!("{unit}.txt")).is_some(), "{unit}");
            assert_eq!(world.subjects()[&format!("feat({unit}): complete task #1 - Step 1")], 1, "{unit}");
        }
        let events = world.run_events();
        assert!(!types_of(&events, "b").contains(&"task.failed"), "{events:#?}");
    }
}

#[test]
fn an_answer_reaches_a_unit_whose_text_was_changed_meanwhile() {
    // The loop that asked does not go on, and what was said to it is not lost.
    let world = World::new();
    let asks = "do: dacapo bus post --type QUESTION 'red or blue?'\nclaim: no";
    world.plan("a", &[]).task("a", 1, &[], "test -f one", asks).commit();
    let agent = format!("sh -c '{}; exit 42'", unit_agent().display());
    let run = ["unit", "run", "--trust", "--restart-delay", "0s", "--agent-cmd", &agent];
    world.env.run(run).assert_code(4);
    world.env.run(["steer", "a", "take the blue one"]).assert_code(0);
    world.task("a", 1, &[], "test -f one", &format!("Colours matter.\n\n{asks}")).commit();
    world.env.run(run).assert_code(4);
    let prompt = world.env.run(["logs", "a", "--prompt", "--iteration", "1"]).assert_code(0).stdout;
    assert!(prompt.contains("The person you work for says:\ntake the blue one\n"), "{prompt}");
}

#[test]
fn an_agent_that_claims_a_whole_unit_is_told_what_a_claim_is_there() {
    let world = World::new();
    let claims = "do: touch one; dacapo claim >claim.out 2>&1; echo $? >claim.code";
    world.plan("a", &[]).task("a", 1, &[], "test -f one", claims).commit();
    world.run(&[]).assert_code(0);
    assert_eq!(world.at("main", "claim.code").as_deref().map(str::trim), Some("2"));
    let said = world.at("main", "claim.out").unwrap();
    assert!(
        said.contains("The `status` in the frontmatter of a task's file is what says that it is done"),
        "{said}"
    );
}

#[test]
fn a_task_that_an_earlier_turn_did_along_with_its_own_can_be_completed() {
    // req 47, fault A10
    let world = World::new();
    world.plan("a", &[]);
    world.task("a", 1, &[], "test -f one", "do: touch one two");
    world.task("a", 2, &[1], "test -f two", "do: true").commit();
    world.run(&[]).assert_code(0);
    assert_eq!(world.subjects()["feat(a): complete task #2 - Step 2"], 1);
    // What was merged before says nothing about a task that came later.
    world.task("a", 3, &[2], "test -f two", "do: true").commit();
    let output = world.run(&["-n", "1"]).assert_code(1);
    assert!(output.stdout.contains("nothing was changed"), "{}", output.stdout);
    // The first has to be somebody's work, unless that is what was asked for.
    world.plan("b", &[]).task("b", 1, &[], "test -f two", "do: true").commit();
    let output = world.run(&["--unit", "b"]).assert_code(1);
    assert!(output.stdout.contains("nothing was changed"), "{}", output.stdout);
    world.run(&["--unit", "b", "--retry-failed", "--allow-empty"]).assert_code(0);
}

#[test]
fn what_a_unit_has_proven_stays_so_when_others_are_merged() {
    // req 54, fault H11: `b` undoes what `a` was merged for, without a conflict.
    for (fix, code) in [("exit 0", 1), ("touch a.txt", 0)] {
        let world = World::new();
        world.env.write("fix.sh", fix);
        world.plan("a", &[]).task("a", 1, &[], "test -f a.txt", "do: touch a.txt");
        world.plan("b", &["a"]).task("b", 1, &[], "test -f b.txt", "do: rm a.txt\ndo: touch b.txt");
        // Its files are its own.
        world.plan("c", &["a"]).task("c", 1, &[], "test -f c.txt", "do: touch c.txt").commit();
        let output = world.run(&["--parallel", "1"]).assert_code(code);
        let red = "the merged tree is red: gate `task #1 of a` exited 1";
        assert!(output.stdout.contains(red), "{}", output.stdout);
        assert!(world.at("main", "a.txt").is_some() && world.at("main", "c.txt").is_some());
        assert_eq!(world.at("main", "b.txt").is_some(), code == 0);
        let gates = |unit: &str| {
            let events = world.env.events(Some(unit));
            events.iter().filter(|event| event["name"] == "task #1 of a").count()
        };
        assert!(gates("b") > 0 && gates("c") == 0);
    }
}

#[test]
fn whoever_resolves_a_conflict_cannot_drop_the_other_side() {
    // req 54, fault H11
    let world = World::new();
    world.env.write("shared", "base\n");
    for unit in ["a", "b"] {
        let proof = format!("grep -q {unit} shared");
        world.plan(unit, &[]).task(unit, 1, &[], &proof, &format!("do: echo {unit} > shared"));
    }
    world.commit();
    let agent = world.env.root().join("agent.sh");
    let drops = format!(
        "prompt=$(cat)\ncase $prompt in\n*'Conflict markers'*) echo $DACAPO_TASK > shared ;;\n*) echo \"$prompt\" | {} ;;\nesac\n",
        unit_agent().display()
    );
    std::fs::write(&agent, drops).unwrap();
    let agent = format!("sh {}", agent.display());
    let run = ["unit", "run", "--trust", "--restart-delay", "0s", "--agent-cmd", &agent];
    let output = world.env.run(run).assert_code(1);
    assert!(output.stdout.contains("conflicts in shared"), "{}", output.stdout);
    let merged = world.at("main", "shared").unwrap();
    let statuses = ["a", "b"].map(|unit| {
        let file = world.at("main", &format!("specs/tasks/{unit}/01-step.md")).unwrap();
        (format!("{unit}\n"), file.contains("status: complete"))
    });
    let complete: Vec<_> = statuses.iter().filter(|(_, is_complete)| *is_complete).collect();
    assert_eq!(complete, [&(merged, true)]);
}
