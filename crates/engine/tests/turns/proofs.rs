//! Claims by task: what is believed, what is kept, what is set back.

use std::os::unix::fs::PermissionsExt;

use dacapo_core::{
    event::{LoopEvent, Reason},
    item::{ItemKey, ItemSource},
    judge::{claim::RefusalReason, signal::Signal},
    policy::{GateSpec, OwnClaim, Policy},
};
use dacapo_engine::{home::Home, proof, store::Store};

use super::world::{UNIT, World, does, file, path, says};

/// The refusals of a loop: reason and line.
fn refusals(events: &[LoopEvent]) -> Vec<(RefusalReason, String)> {
    let refusal = |event: &LoopEvent| match event {
        LoopEvent::ClaimRefused { reason, detail, .. } => Some((*reason, detail.clone())),
        _ => None,
    };
    events.iter().filter_map(refusal).collect()
}

pub(crate) fn several_tasks_of_one_turn_have_a_commit_each() {
    // req 28, req 31, req 32, req 34, req 43, req 44, req 45, req 46: also of an agent that exits 1 (req 29).
    let world = World::new();
    let hook = world.env.workspace().join(".git/hooks/pre-commit");
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ended = world.run(&world.turn(&format!("{}{}exit 1\n", does(2), does(1))));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert_eq!(
        world.subjects(),
        ["feat(app): complete task #1 - Title 1", "feat(app): complete task #2 - Title 2"]
    );
    assert_eq!(world.statuses("HEAD~1"), ["complete", "pending", "pending"]);
    assert_eq!(world.statuses("HEAD"), ["complete", "complete", "pending"]);
    let second = world.env.git(["diff", "--numstat", "HEAD~1", "HEAD"]);
    assert_eq!(second.trim(), format!("1\t1\t{}", path(2)), "no line but its status");
    assert_eq!(world.dirt(), "");
    let told: Vec<_> = world
        .events(&ended.id)
        .iter()
        .filter_map(|event| match event {
            LoopEvent::Committed { item, commit, .. } => Some((item.unwrap().0, commit.clone())),
            _ => None,
        })
        .collect();
    let heads: Vec<String> =
        ["HEAD~1", "HEAD"].map(|name| world.env.git(["rev-parse", name]).trim().to_owned()).into();
    assert_eq!(told, [(1, heads[0].clone()), (2, heads[1].clone())]);
    // The proof is of what was kept, and holds when it is tried again.
    let receipt = world.receipt(&ended.id).unwrap();
    assert_eq!(
        (receipt.claim.clone(), receipt.commits.clone()),
        (vec![Signal::Item(ItemKey(1)), Signal::Item(ItemKey(2))], heads)
    );
    assert_eq!(receipt.tree.as_deref(), Some(world.env.git(["rev-parse", "HEAD^{tree}"]).trim()));
    let home = Home::at(world.env.dacapo_home());
    let store = Store::open(&home.database()).unwrap();
    let again = proof::check_again(&home, &store, &ended.id, &receipt, |_| {}).unwrap();
    assert_eq!((again.other_tree, again.unlike.len(), again.gates.len()), (None, 0, 2));
    assert!(again.gates.iter().all(|gate| gate.now.exit_code == 0));
}

pub(crate) fn of_several_tasks_the_good_ones_are_kept() {
    // req 31, req 35, req 36, req 48
    let world = World::new();
    let ended = world.run(&world.turn(&format!("{}{}{}", does(2), says(1, "complete"), says(3, "complete"))));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert_eq!(world.subjects(), ["feat(app): complete task #2 - Title 2"]);
    assert_eq!(world.statuses("HEAD"), ["pending", "complete", "pending"]);
    assert_eq!(world.dirt(), "", "what was refused is as it was");
    // The next turn begins with what is left.
    let ended = world.run(&world.turn(&does(1)));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    let ended = world.run(&world.turn(&does(3)));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert_eq!(world.statuses("HEAD"), ["complete", "complete", "complete"]);
    assert_eq!(world.subjects().len(), 3);
}

pub(crate) fn a_refused_task_is_set_back_and_told() {
    // req 30, req 35, req 36, req 37, req 39, req 40, req 41
    let world = World::new();
    let prompts = world.env.root().join("prompts");
    let agent = format!(
        "cat >> {}\ntouch work-$DACAPO_ITERATION\n{}echo torn > {}\n",
        prompts.display(),
        says(1, "complete"),
        path(3)
    );
    let mut policy = world.turn(&agent);
    policy.gates.specs[0].run = "echo not enough; exit 7".into();
    // A file that cannot be read hides no other.
    let elsewhere = |p: &mut Policy| {
        if let Some(ItemSource::Unit(unit)) = &mut p.source {
            unit.dir = "elsewhere".to_owned();
        }
    };
    let ended = world.run(&policy.clone().with(elsewhere));
    assert_eq!(ended.reason, Reason::MaxIterations, "{ended:?}");
    let refused = refusals(&world.events(&ended.id));
    let red = (RefusalReason::GateFailed, "task #1: gate `task #1` exited 7".to_owned());
    assert_eq!(refused, [red.clone(), red.clone(), red]);
    assert_eq!(world.env.read(path(1)), file(1, "pending", ""), "to the byte");
    assert_eq!(world.env.read(path(3)), file(3, "pending", "1, 2"), "also what was broken");
    let told = std::fs::read_to_string(&prompts).unwrap();
    assert_eq!(told.matches("task #1: the check `task #1` exited 7").count(), 2, "{told}");
    assert_eq!(told.matches("not enough").count(), 4, "its command and its words: {told}");
    assert!(!told.contains("<promise>") && told.contains("backpressure will be run"), "{told}");
    assert_eq!(world.subjects(), Vec::<String>::new());
    assert_eq!(world.dirt().lines().filter(|line| !line.contains("work-")).count(), 0);
}

pub(crate) fn what_proves_a_task_is_frozen() {
    // fault A10, fault A12
    let easier = format!("{}sed -i 's/test -e done-1/true/' {}\n", does(1), path(1));
    let other = format!("{}echo '# Plan' > {UNIT}/09-new.md\n", does(1));
    let gone = format!("{}rm {}\n", does(1), path(3));
    let linked = format!("{}ln -sf /dev/null {}\n", does(1), path(2));
    let frontmatter = "was changed: it is frozen while the unit is worked on";
    for (agent, words) in [
        (easier, format!("the frontmatter of `{}` {frontmatter}", path(1))),
        (other, format!("`{UNIT}/09-new.md` was added to the units: none may appear while one is worked on")),
        (gone, format!("`{}` is gone from the units: none may vanish while one is worked on", path(3))),
        (linked, format!("`{}` was added to the units: none may appear while one is worked on", path(2))),
    ] {
        let world = World::new();
        let ended = world.run(&world.turn(&agent).with(|p| p.limits.max_iterations = 1));
        assert_eq!(ended.reason, Reason::MaxIterations, "{ended:?}");
        assert_eq!(refusals(&world.events(&ended.id)), [(RefusalReason::Tampered, words)]);
        assert_eq!(world.subjects(), Vec::<String>::new());
    }
    // Words in the body are work like any other; a mend of the whole may not touch a status at all.
    let world = World::new();
    let ended = world.run(&world.turn(&format!("{}echo 'Done so.' >> {}\n", does(1), path(1))));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert!(world.env.git(["show", &format!("HEAD:{}", path(1))]).ends_with("# Title 1\nDone so.\n"));
    let own = world.policy(&does(2)).with(|p| {
        p.claims.own_claim = OwnClaim::AfterAgent;
        p.limits.max_iterations = 1;
        p.gates.specs = vec![GateSpec::of_command("true")];
    });
    let ended = world.run(&own);
    let words = format!("the status of `{}` was changed: it is no task of this turn", path(2));
    assert_eq!(refusals(&world.events(&ended.id)), [(RefusalReason::Tampered, words)]);
}

pub(crate) fn a_status_alone_is_no_work() {
    // fault A10
    let world = World::new();
    world.env.write("done-1", "");
    world.env.git(["add", "-A"]);
    world.env.git(["commit", "-qm", "x"]);
    let ended = world.run(&world.turn(&says(1, "complete")).with(|p| p.limits.max_iterations = 1));
    let refused = refusals(&world.events(&ended.id));
    assert_eq!(refused, [(RefusalReason::Empty, "nothing was changed since the loop began".to_owned())]);
    assert_eq!(world.dirt(), "");
    // Where that is allowed, the gate decides.
    let ended = world.run(&world.turn(&says(1, "complete")).with(|p| p.claims.allow_empty = true));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert_eq!(world.statuses("HEAD"), ["complete", "pending", "pending"]);
}

pub(crate) fn checks_without_an_agent() {
    let world = World::new();
    let checks = |gates: &[&str]| {
        world.policy("").with(|p| {
            p.claims.own_claim = OwnClaim::Always;
            p.limits.max_iterations = 0;
            p.gates.run_all = true;
            p.agent.command = dacapo_core::agent::AgentCommand::parse("no-such-agent", &[]).unwrap();
            p.gates.specs = gates.iter().map(|gate| GateSpec::of_command(gate)).collect();
        })
    };
    let ended = world.run(&checks(&["exit 3", "true", "exit 4"]));
    assert_eq!(ended.reason, Reason::MaxIterations);
    assert_eq!(ended.detail, "gate `exit 3` exited 3; gate `exit 4` exited 4");
    let ended = world.run(&checks(&["true", "test -z \"$(git status --porcelain)\""]));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    let started = |event: &LoopEvent| matches!(event, LoopEvent::AgentStarted { .. });
    assert!(!world.events(&ended.id).iter().any(started));
    assert_eq!(world.receipt(&ended.id).unwrap().claim, [Signal::OwnClaim]);
    // Together they have no time: each gets a moment and no more.
    let slow = checks(&["sleep 60"]).with(|p| p.gates.timeout = Some(dacapo_core::duration::Millis(1)));
    let ended = world.run(&slow);
    assert_eq!(ended.detail, "gate `sleep 60` timed out after 1s");
}

pub(crate) fn checks_with_an_agent_that_mends() {
    let world = World::new();
    let prompts = world.env.root().join("prompts");
    let agent = format!("cat >> {}\ntouch mended-$DACAPO_ITERATION\n", prompts.display());
    let policy = world.policy(&agent).with(|p| {
        p.claims.own_claim = OwnClaim::Always;
        p.gates.run_all = true;
        p.items[0].commit = Some(dacapo_core::policy::CommitRule { message: Some("fix: baseline".into()) });
        p.gates.specs = vec![
            GateSpec::of_command("echo one; test -e mended-1"),
            GateSpec::of_command("echo two; test -e mended-2"),
        ];
    });
    let ended = world.run(&policy);
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert_eq!(refusals(&world.events(&ended.id)).len(), 2);
    assert_eq!(world.subjects(), ["fix: baseline"]);
    let told = std::fs::read_to_string(&prompts).unwrap();
    assert!(told.contains("\none\n") && told.contains("\ntwo\n"), "both are told: {told}");
}
