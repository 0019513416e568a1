//! Commits of tasks: each is made once, whatever comes in between.

use std::fs;

use dacapo_core::event::{LoopEvent, Reason};

use super::world::{World, does, path};

fn told(events: &[LoopEvent]) -> Vec<u32> {
    let task = |event: &LoopEvent| match event {
        LoopEvent::Committed { item, .. } => item.map(|item| item.0),
        _ => None,
    };
    events.iter().filter_map(task).collect()
}

pub(crate) fn a_commit_that_fails_ends_the_loop() {
    // fault B6: a folder in the place of the lock is no lock that a killed git left, so it stays.
    let world = World::new();
    let mut policy = world.turn(&does(1));
    let free = world.env.root().join("free");
    policy.gates.specs[0].run = format!("test -e {} || mkdir .git/index.lock", free.display());
    let ended = world.run(&policy);
    assert_eq!(ended.reason, Reason::Error, "{ended:?}");
    assert!(ended.detail.starts_with("the kept tree could not be committed: "), "{ended:?}");
    let starts = |id| {
        let started = |event: &LoopEvent| matches!(event, LoopEvent::AgentStarted { .. });
        world.events(id).iter().filter(|event| started(event)).count()
    };
    assert_eq!((starts(&ended.id), world.subjects().len()), (1, 0), "no agent starts because of it");
    assert!(world.env.read(path(1)).contains("status: pending"), "what is not committed is not complete");
    fs::write(free, "").unwrap();
    fs::remove_dir(world.env.workspace().join(".git/index.lock")).unwrap();
    let ended = world.resume(&ended.id);
    assert_eq!((ended.reason, starts(&ended.id)), (Reason::Done, 1), "{ended:?}");
    assert_eq!(world.statuses("HEAD"), ["complete", "pending", "pending"]);
    assert_eq!((world.dirt().as_str(), told(&world.events(&ended.id))), ("", vec![1]));
}

pub(crate) fn killed_around_its_commits_each_is_made_once() {
    // req 46, fault G7: two commits are four calls of git that change something.
    for (at, when) in (1..=4).flat_map(|at| [(at, "before"), (at, "after")]) {
        let world = World::new();
        world.deadly_git();
        let policy = world.turn(&format!("{}{}", does(1), does(2)));
        let number = at.to_string();
        let killed = world.try_run(&policy, &[("KILL_AT", &number), ("KILL_WHEN", when)]);
        assert!(killed.is_none(), "killed {when} {at}: {killed:?}");
        let ended = world.resume(&world.only_loop());
        assert_eq!(ended.reason, Reason::Done, "killed {when} {at}: {ended:?}");
        let subjects = ["feat(app): complete task #1 - Title 1", "feat(app): complete task #2 - Title 2"];
        assert_eq!(world.subjects(), subjects, "killed {when} {at}");
        assert_eq!(world.statuses("HEAD~1"), ["complete", "pending", "pending"]);
        assert_eq!(world.statuses("HEAD"), ["complete", "complete", "pending"]);
        assert_eq!((world.dirt().as_str(), told(&world.events(&ended.id))), ("", vec![1, 2]));
        assert_eq!(world.receipt(&ended.id).unwrap().commits.len(), 2, "killed {when} {at}");
    }
}

pub(crate) fn what_the_agent_committed_itself_is_not_lost() {
    // req 47: nothing is left to commit, and that is no failure.
    let world = World::new();
    let ended = world.run(&world.turn(&format!("{}git add -A\ngit commit -qm mine\n", does(1))));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert_eq!((world.subjects(), told(&world.events(&ended.id))), (vec!["mine".to_owned()], vec![]));
    assert_eq!(world.statuses("HEAD"), ["complete", "pending", "pending"]);
    // A lie that it committed is taken back by the commit of what is true.
    let lie = format!("{}{}git add -A\ngit commit -qm lies\n", does(2), super::world::says(3, "complete"));
    let ended = world.run(&world.turn(&lie));
    assert_eq!(ended.reason, Reason::Done, "{ended:?}");
    assert_eq!(world.statuses("HEAD"), ["complete", "complete", "pending"]);
    assert_eq!(world.dirt(), "");
}
