//! Loops that get nowhere: told, warned of, and stopped if that is wished.

use super::*;

/// An agent that left the workspace as this tree.
fn leaves(tree: &str) -> Input {
    let kept = Some((format!("snap of {tree}"), tree.to_owned()));
    exits_with(0, |r| r.snapshot = kept)
}

/// A loop without delays whose agents left these trees.
fn after_trees(bend: impl FnOnce(&mut Policy), trees: impl IntoIterator<Item = &'static str>) -> Sim {
    let policy = policy(|p| {
        p.pace.restart_delay = Millis(0);
        bend(p);
    });
    Sim::running(policy).after(trees.into_iter().map(leaves))
}

fn warnings(sim: &Sim) -> Vec<&str> {
    let warned = sim.journal.iter().filter_map(|event| match event {
        LoopEvent::Warned { text } => Some(text.as_str()),
        _ => None,
    });
    warned.collect()
}

#[test]
fn five_iterations_without_progress_are_warned_of_and_told() {
    // req 207
    let mut sim = after_trees(|_| {}, []);
    for nowhere in 1..=11 {
        let step = sim.feed(exits(0));
        let word = format!("The last {nowhere} iterations changed nothing that was not there before.");
        assert_eq!(prompts(&step)[0].contains(&word), nowhere >= 5, "{nowhere}");
        assert_eq!(names(&step.events).contains(&"warned".into()), nowhere % 5 == 0, "{nowhere}");
    }
    let said: Vec<String> =
        [5, 10].iter().map(|n| format!("{n} iterations in a row without progress")).collect();
    assert_eq!(warnings(&sim), said);
    assert_eq!(sim.over(), None, "the policy does not stop it");
    // Progress clears it.
    let step = sim.feed(leaves("tree1"));
    assert!(!prompts(&step)[0].contains("changed nothing"));
    assert_eq!(sim.state.progress.log.without_progress(), 0);
    // A pause in between does not warn twice.
    let sim = after_trees(|_| {}, ["tree0"; 4]).after([PAUSE, exits(0), UNPAUSE, no_markers()]);
    assert_eq!((warnings(&sim).len(), sim.starts), (1, 6));
}

#[test]
fn a_loop_stops_after_as_many_iterations_without_progress_as_it_is_told() {
    // req 207
    let stops =
        |trees: &[&'static str]| after_trees(|p| p.limits.stuck_after = Some(3), trees.iter().copied());
    let mut sim = stops(&["tree0", "tree0", "tree0"]);
    assert_eq!(
        (sim.over(), sim.detail(), sim.starts),
        (Some(Reason::Stuck), "3 iterations in a row without progress", 3)
    );
    // faults B3 and B4: what counts is the tree, not whether it is committed and not what is said.
    for (trees, nowhere) in [
        (&["tree0", "tree0"][..], 2),
        (&["tree0", "tree0", "tree1"], 0),
        (&["tree1", "tree2", "tree1", "tree2"], 2),
        (&["tree1", "tree1", "tree2", "tree2", "tree3"], 0),
    ] {
        let sim = stops(trees);
        assert_eq!((sim.over(), sim.state.progress.log.without_progress()), (None, nowhere), "{trees:?}");
    }
    // A person who continues it gives it as many tries again; what was seen stays seen.
    sim = sim.after([steer("try x"), resume(), no_markers()]);
    assert_eq!((sim.over(), sim.starts), (None, 4));
    let sim = sim.after([leaves("tree0"), exits(0), exits(0)]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::Stuck), 6));
    // Any other end keeps the count.
    let sim = stops(&["tree0", "tree0"]).after([Input::OwnerDied, resume(), no_markers()]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::Stuck), 3));
}

#[test]
fn a_gate_that_fails_in_a_new_way_is_progress() {
    // req 207, fault B4
    let red =
        |tail: &str| Input::GateFinished(Box::new(GateResult { output_tail: tail.into(), ..gate_result(1) }));
    let round = |tail: &str| [promises(0), no_children(), red(tail)];
    let mut policy = gated(&["g"]);
    (policy.pace.restart_delay, policy.limits.stuck_after) = (Millis(0), Some(2));
    let mut sim = Sim::running(policy.clone());
    for (tail, nowhere) in [("a failed in 3s", 0), ("a failed in 9s", 1), ("b failed", 0), ("b failed", 1)] {
        sim = sim.after(round(tail));
        assert_eq!(sim.state.progress.log.without_progress(), nowhere, "{tail}");
    }
    assert_eq!(sim.after(round("a failed in 1s")).over(), Some(Reason::Stuck));
    // A flaky one that passed in the end is no new failure of the iteration.
    policy.gates.specs[0].retries = 1;
    let mut sim = Sim { is_told: true, ..Sim::running(policy) };
    let flaky = [promises(0), no_children(), examined(), red("new"), gate(0), rechecked(&["x"])];
    sim = sim.after(flaky);
    assert_eq!(sim.state.progress.log.without_progress(), 1);
}

#[test]
fn in_a_plain_folder_paths_sizes_and_times_are_the_tree() {
    // req 207
    let policy = policy(|p| (p.pace.restart_delay, p.limits.stuck_after) = (Millis(0), Some(3)));
    let begun = LoopStarted { base: None, outline: Some("0".into()), ..started(policy) };
    let looks = |outline: Option<&'static str>| exits_with(0, |r| r.outline = outline.map(str::to_owned));
    let after = |outlines: &[Option<&'static str>]| {
        let looked = outlines.iter().map(|outline| looks(*outline));
        Sim::begun(begun.clone()).after([no_markers()]).after(looked)
    };
    let taken =
        |sim: &Sim| sim.journal.iter().filter(|e| matches!(e, LoopEvent::OutlineTaken { .. })).count();
    let sim = after(&[Some("0"), Some("0")]);
    assert_eq!((sim.state.progress.log.without_progress(), sim.over(), taken(&sim)), (2, None, 0));
    assert_eq!(after(&[Some("0"); 3]).over(), Some(Reason::Stuck));
    let sim = after(&[Some("0"), Some("0"), Some("1"), Some("1")]);
    assert_eq!((sim.state.progress.log.without_progress(), sim.over(), taken(&sim)), (1, None, 1));
    let sim = after(&[Some("1"), Some("0"), Some("1")]);
    assert_eq!((sim.state.progress.log.without_progress(), taken(&sim)), (2, 3), "to and fro is no progress");
    // Too many to tell: said once, and nothing is held against the loop from then on.
    let sim = after(&[Some("0"), Some("0"), None, None, None, None]);
    assert_eq!((sim.state.progress.log.without_progress(), sim.over(), taken(&sim)), (2, None, 1));
    assert_eq!(warnings(&sim), [crate::judge::progress::TOO_MANY]);
}

#[test]
fn where_nothing_is_known_nothing_is_held_against_a_loop() {
    // req 207: a workspace that cannot be kept, and no gate
    let begun = LoopStarted { base: None, ..started(policy(|p| p.pace.restart_delay = Millis(0))) };
    let mut sim = Sim::begun(begun).after([no_markers()]);
    sim = sim.after((0..20).map(|_| exits(0)));
    assert_eq!((sim.state.progress.log.without_progress(), warnings(&sim).len()), (0, 0));
}
