//! Items that an agent marks, here tasks of a unit: a mark is the claim, their gates decide about them alone, each has its
//! commit.

use super::*;
use crate::{
    event::ForbiddenChange,
    item::{ItemFacts, ItemKey, ItemSource, Marks},
    loop_machine::{ItemCommit, ItemCommits},
    policy::OwnClaim,
    unit::{
        Task, TaskSet, TaskSpec, TaskStatus,
        items::{UnitSource, facts, items, statuses},
    },
};

use TaskStatus::{Complete, InProgress, Pending};

/// Four tasks: the first is complete, the second and third are ready, the fourth waits for them.
pub(crate) fn task_set() -> TaskSet {
    let task = |number: u32, status, depends_on| Task {
        spec: TaskSpec {
            number,
            title: format!("Title {number}"),
            file: format!("specs/tasks/app/0{number}-t.md"),
            backpressure: format!("prove {number}"),
            line: 4,
            depends_on,
            writes: Vec::new(),
            frozen: "f".into(),
        },
        status,
    };
    TaskSet {
        unit: "app".parse().unwrap(),
        tasks: vec![
            task(1, Complete, vec![]),
            task(2, Pending, vec![1]),
            task(3, InProgress, vec![1]),
            task(4, Pending, vec![2, 3]),
        ],
        ready: vec![2, 3],
    }
}

pub(crate) fn proof(task: u32) -> GateSpec {
    GateSpec { item: Some(ItemKey(task)), ..GateSpec::of_command(&format!("prove {task}")) }
}

/// A turn: the gates of tasks 3 and 2, in the wrong order, around one for all.
pub(crate) fn turn(bend: impl FnOnce(&mut Policy)) -> Policy {
    policy(|p| {
        p.items = items(&task_set());
        p.source = Some(source());
        p.gates.specs = vec![proof(3), GateSpec::of_command("lint"), proof(2)];
        p.limits.max_iterations = 3;
        bend(p);
    })
}

/// The files that the marks of a turn stand in.
pub(crate) fn source() -> ItemSource {
    ItemSource::Unit(UnitSource { dir: "specs/tasks".into(), turn: Some(task_set()) })
}

/// What is found when the files of tasks say this.
pub(super) fn found(tasks: &[(u32, Option<TaskStatus>)]) -> ItemFacts {
    facts(&task_set(), tasks, vec![])
}

/// What the files of tasks say when these marks are set.
pub(super) fn statuses_of(of: &Marks, done: &[ItemKey]) -> Vec<(u32, TaskStatus)> {
    statuses(&task_set(), of, done)
}

/// An agent that exited with `code`, after which the files of tasks say this.
fn says(code: i32, tasks: &[(u32, Option<TaskStatus>)]) -> Input {
    exits_with(code, |r| r.facts.items = found(tasks))
}

fn keys(numbers: &[u32]) -> Vec<ItemKey> {
    numbers.iter().copied().map(ItemKey).collect()
}

/// Tasks of these numbers go back to what their files said.
fn returned(numbers: &[u32]) -> Effect {
    Effect::SetMarks { of: Marks::Of(keys(numbers)), done: vec![] }
}

fn signals_of(numbers: &[u32]) -> Vec<Signal> {
    keys(numbers).into_iter().map(Signal::Item).collect()
}

/// The tasks that are proven when the files of all four say this.
fn proven(statuses: [TaskStatus; 4]) -> Vec<ItemKey> {
    let before = task_set().tasks;
    let news =
        (1..).zip(statuses).zip(&before).filter(|((_, now), was)| *now == Complete && was.status != Complete);
    let keys: Vec<ItemKey> = news.map(|((number, _), _)| ItemKey(number)).collect();
    assert_eq!(statuses_of(&Marks::All, &keys), (1..).zip(statuses).collect::<Vec<_>>());
    keys
}

fn completes(tasks: &[u32]) -> Input {
    let all = [(1, Complete), (2, Pending), (3, InProgress), (4, Pending)];
    let said: Vec<_> =
        all.iter().map(|(n, was)| (*n, Some(if tasks.contains(n) { Complete } else { *was }))).collect();
    says(0, &said)
}

/// A loop whose agent has completed these, up to its first gate.
fn claimed(policy: Policy, tasks: &[u32]) -> Sim {
    Sim::told(policy).after([completes(tasks), no_children(), examined()])
}

fn runs(spec: GateSpec) -> Effect {
    Effect::RunGate {
        gate: spec,
        role: GateRole::Gate,
        snapshot: Some(examination().snapshot),
        look: Default::default(),
    }
}

fn made(commits: &[(u32, Option<&str>)]) -> Input {
    let made = commits.iter().map(|(task, commit)| (ItemKey(*task), commit.map(str::to_owned))).collect();
    Input::ItemsCommitted(ItemCommits { made, tree: Some("tree of tasks".into()), failed: None }, seal())
}

fn commit_of(task: u32, statuses: [TaskStatus; 4]) -> ItemCommit {
    ItemCommit {
        item: ItemKey(task),
        message: format!("feat(app): complete task #{task} - Title {task}"),
        done: proven(statuses),
    }
}

fn set(statuses: [TaskStatus; 4]) -> Effect {
    Effect::SetMarks { of: Marks::All, done: proven(statuses) }
}

/// The claimed tasks that no gate has refused.
fn standing(sim: &Sim) -> Vec<ItemKey> {
    let policy = &sim.state.started.as_ref().unwrap().policy;
    sim.state.judging().map(|judging| judging.standing_items(policy)).unwrap_or_default()
}

#[test]
fn the_status_of_a_ready_task_is_the_claim_and_the_only_one() {
    // req 28, req 29, req 30, req 31
    let unreadable = |n| (n, None);
    let promised = exits_with(0, |r| {
        (r.facts.promise, r.facts.done) = (Some("DONE".into()), DoneFact::File);
        r.facts.near_miss = Some(MissReason::NotAlone);
    });
    let directory = exits_with(0, |r| r.facts.done = DoneFact::Directory);
    for (input, claim) in [
        (completes(&[]), None),
        (promised, None),
        (directory, None),
        (completes(&[3]), Some(signals_of(&[3]))),
        (completes(&[3, 2]), Some(signals_of(&[2, 3]))),
        (says(1, &[(3, Some(Complete)), (2, Some(Complete))]), Some(signals_of(&[2, 3]))),
        (says(1, &[unreadable(2), (3, Some(Complete)), unreadable(4)]), Some(signals_of(&[3]))),
        (says(0, &[unreadable(2), unreadable(3)]), None),
        (completes(&[4]), None),
        (completes(&[4, 2]), Some(signals_of(&[2]))),
    ] {
        let sim = Sim::told(turn(|_| {})).after([input.clone()]);
        assert_eq!(sim.state.phase.claim().map(|claim| claim.by.clone()), claim, "{input:?}");
        assert_eq!(sim.times("iteration_finished"), usize::from(claim.is_none()), "{input:?}");
        assert_eq!(sim.state.conversation.near_miss, None, "no promise was asked for");
    }
    // Nor before the first agent, nor by a command.
    let mut sim = Sim::new(turn(|p| p.claims.until = vec!["u".into()]));
    assert_eq!(prompts(&sim.feed(done_is(DoneFact::File))).len(), 1);
    assert_eq!(sim.work(completes(&[])), [DELAY]);
    // Waiting is as ever.
    let waits = exits_with(42, |r| r.facts.items = found(&[(2, Some(Pending))]));
    assert_eq!(Sim::told(turn(|_| {})).after([waits]).over(), Some(Reason::Waiting));
}

#[test]
fn a_task_whose_turn_it_is_not_is_set_back_and_never_believed() {
    let mut sim = Sim::told(turn(|_| {}));
    assert_eq!(sim.work(completes(&[4])), [returned(&[4]), DELAY]);
    let mut sim = Sim::told(turn(|_| {}));
    assert_eq!(sim.work(completes(&[2, 4])), [returned(&[4]), AWAIT_CHILDREN]);
    // What was complete before is no news, and neither is work in progress.
    let mut sim = Sim::told(turn(|_| {}));
    assert_eq!(sim.work(says(0, &[(1, Some(Complete)), (4, Some(InProgress))])), [DELAY]);
}

#[test]
fn the_gates_of_a_claim_are_those_of_all_then_those_of_its_tasks() {
    // req 32, req 34
    let mut sim = Sim::told(turn(|_| {})).after([completes(&[2, 3]), no_children()]);
    assert_eq!(sim.work(examined()), [runs(GateSpec::of_command("lint"))]);
    assert_eq!(sim.work(gate(0)), [runs(proof(2))]);
    let step = sim.feed(gate(0));
    assert!(matches!(&step.events[0], LoopEvent::GateFinished { item: Some(ItemKey(2)), .. }));
    assert!(matches!(&step.events[1], LoopEvent::GateStarted { item: Some(ItemKey(3)), .. }));
    assert_eq!(work(&step), [runs(proof(3))]);
    assert_eq!(sim.work(gate(0)), [Effect::Recheck { snapshot: Some("snap1".into()) }]);
    // Of a task that is not claimed no gate runs.
    let mut sim = claimed(turn(|_| {}), &[3]);
    assert_eq!(sim.work(gate(0)), [runs(proof(3))]);
    assert_eq!(names(&sim.feed(gate(0)).events), ["gate_finished", "gates_passed"]);
}

#[test]
fn the_same_command_proves_each_task_by_itself() {
    let same = |task| GateSpec { item: Some(ItemKey(task)), ..GateSpec::of_command("make") };
    let policy = turn(|p| p.gates.specs = vec![same(3), same(2)]);
    let mut sim = claimed(policy, &[2, 3]);
    assert_eq!(sim.work(gate(1)), [runs(same(3))]);
    sim.feed(gate(0));
    assert_eq!(standing(&sim), keys(&[3]));
}

#[test]
fn of_several_tasks_the_good_ones_are_kept() {
    // req 31, req 35, req 44, req 46
    for (results, standing, complete, refused) in [
        ([0, 0, 0], vec![2, 3], [Complete, Complete, Complete, Pending], None),
        ([0, 1, 0], vec![3], [Complete, Pending, Complete, Pending], None),
        ([0, 0, 1], vec![2], [Complete, Complete, InProgress, Pending], None),
        (
            [0, 1, 2],
            vec![],
            [Complete, Pending, InProgress, Pending],
            Some("task #2: gate `prove 2` exited 1; task #3: gate `prove 3` exited 2"),
        ),
    ] {
        let mut sim = claimed(turn(|_| {}), &[2, 3]).after(results.map(gate));
        if let Some(detail) = refused {
            assert_eq!(sim.refusals(), [(RefusalReason::GateFailed, detail)]);
            continue;
        }
        let mut commits = vec![];
        let mut statuses = [Complete, Pending, InProgress, Pending];
        for task in &standing {
            statuses[*task as usize - 1] = Complete;
            commits.push(commit_of(*task, statuses));
        }
        let commits = Effect::CommitItems { snapshot: "snap1".into(), iteration: 1, commits };
        assert_eq!(sim.work(rechecked(&[])), [set(complete), commits], "{results:?}");
        let ids: Vec<String> = standing.iter().map(|task| format!("c{task}")).collect();
        let answers: Vec<(u32, Option<&str>)> =
            standing.iter().zip(&ids).map(|(task, id)| (*task, Some(id.as_str()))).collect();
        sim.feed(made(&answers));
        assert_eq!(sim.over(), Some(Reason::Done));
        assert_eq!(sim.times("committed"), standing.len());
        let receipt = receipts::of(&sim);
        let claim = signals_of(&standing);
        assert_eq!((receipt.claim.clone(), receipt.commits.clone()), (claim, ids));
        assert_eq!(
            (receipt.tree.as_deref(), receipt.snapshot.as_deref()),
            (Some("tree of tasks"), Some("snap1"))
        );
        assert_eq!(receipt.gates.len(), 1 + standing.len(), "what passed, and nothing else");
    }
}

#[test]
fn a_red_gate_of_all_refuses_all() {
    // req 35, req 36
    let mut sim = claimed(turn(|_| {}), &[2, 3]);
    let back = returned(&[2, 3]);
    assert_eq!(sim.work(gate(7)), [back, DELAY]);
    assert_eq!(sim.refusals(), [(RefusalReason::GateFailed, "gate `lint` exited 7")]);
}

#[test]
fn a_red_gate_is_tried_again_before_its_task_is_out() {
    let policy = turn(|p| p.gates.specs.iter_mut().for_each(|gate| gate.retries = 1));
    let tried = |task| GateSpec { retries: 1, ..proof(task) };
    let mut sim = claimed(policy, &[2, 3]).after([gate(0)]);
    assert_eq!(sim.work(gate(1)), [runs(tried(2))]);
    assert_eq!(sim.work(gate(0)), [runs(tried(3))], "flaky, but it stands");
    assert_eq!(sim.work(gate(1)), [runs(tried(3))]);
    sim.feed(gate(1));
    assert_eq!(standing(&sim), keys(&[2]));
    assert!(matches!(sim.state.phase, Phase::Judging(JudgeStep::Rechecking, _)));
}

#[test]
fn a_refusal_sets_back_what_was_claimed_and_is_told_by_task() {
    // req 35, req 36, req 37, req 39, req 40, fault A12
    let tail =
        |text: &str| Input::GateFinished(Box::new(GateResult { output_tail: text.into(), ..gate_result(1) }));
    let mut sim = claimed(turn(|_| {}), &[2, 3]).after([gate(0), tail("two broke")]);
    let back = returned(&[2, 3]);
    assert_eq!(sim.work(tail("three broke")), [back.clone(), DELAY]);
    let step = sim.after([Input::DelayOver]).feed(no_markers());
    let prompt = prompts(&step)[0];
    for words in ["task #2: the check `prove 2` exited 1", "two broke", "task #3: the check", "three broke"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    // Before any gate too.
    for found in [
        examined_with(|e| e.changed = 0),
        examined_with(|e| e.tampered = vec!["tests/a.rs".into()]),
        examined_with(|e| {
            let path = "specs/tasks/app/02-t.md".into();
            e.forbidden = vec![ForbiddenChange { path, why: "it is frozen".into() }];
        }),
    ] {
        let mut sim = Sim::told(turn(|_| {})).after([completes(&[2, 3]), no_children()]);
        assert_eq!(sim.work(found), [back.clone(), DELAY]);
    }
    // The third time is the last.
    let again = || [completes(&[2]), no_children(), examined(), gate(1), Input::DelayOver, no_markers()];
    let sim = Sim::told(turn(|_| {})).after(again()).after(again()).after(again());
    assert_eq!((sim.over(), sim.starts), (Some(Reason::MaxIterations), 3));
    assert_eq!(sim.detail(), "3 iterations used without an accepted claim");
}

#[test]
fn an_item_without_its_evidence_is_out_and_the_others_are_judged() {
    // req 179
    let lacks = |tasks: &[u32]| {
        let missing = |key| MissingEvidence { item: Some(key), reason: NoCommit };
        let missing: Vec<_> = keys(tasks).into_iter().map(missing).collect();
        examined_with(|e| e.missing_evidence = missing)
    };
    let claims = || Sim::told(turn(|_| {})).after([completes(&[2, 3]), no_children()]);
    // Its gates do not run, and it is set back with the commit of the other.
    let mut sim = claims();
    assert_eq!(sim.work(lacks(&[2])), [runs(GateSpec::of_command("lint"))]);
    assert_eq!(sim.work(gate(0)), [runs(proof(3))]);
    let mut sim = sim.after([gate(0)]);
    let kept = [Complete, Pending, Complete, Pending];
    let commits =
        Effect::CommitItems { snapshot: "snap1".into(), iteration: 1, commits: vec![commit_of(3, kept)] };
    assert_eq!(sim.work(rechecked(&[])), [set(kept), commits]);
    sim.feed(made(&[(3, Some("c3"))]));
    assert_eq!((sim.over(), receipts::of(&sim).claim), (Some(Reason::Done), signals_of(&[3])));
    // Nothing is left of the claim.
    let mut sim = claims();
    assert_eq!(sim.work(lacks(&[2, 3])), [returned(&[2, 3]), DELAY]);
    let words = "task #2: No commit detected in coder output; task #3: No commit detected in coder output";
    assert_eq!(sim.refusals(), [(RefusalReason::NoEvidence, words)]);
    assert_eq!(sim.times("gate_started"), 0);
    let sim = claims().after([lacks(&[2]), gate(0), gate(4)]);
    let words = "task #3: gate `prove 3` exited 4; task #2: No commit detected in coder output";
    assert_eq!(sim.refusals(), [(RefusalReason::GateFailed, words)]);
    // A red gate of all is enough.
    let sim = claims().after([lacks(&[2]), gate(1)]);
    assert_eq!(sim.refusals()[0].0, RefusalReason::GateFailed);
}

#[test]
fn a_forbidden_change_refuses_in_its_own_words() {
    // fault A10, fault A12
    let change = |why: &str| ForbiddenChange { path: "u/01.md".into(), why: why.into() };
    for (changes, detail) in [
        (vec![change("`u/01.md` is frozen")], "`u/01.md` is frozen"),
        (vec![change("`u/01.md` is gone"), change("`u/02.md` is new")], "`u/01.md` is gone (and 1 more)"),
    ] {
        // These changes refuse the claim even where gates see the protected paths of the base.
        let policy = turn(|p| p.gates.from = crate::policy::GateFrom::Base);
        let sim = Sim::told(policy).after([
            completes(&[2]),
            no_children(),
            examined_with(|e| e.forbidden.clone_from(&changes)),
        ]);
        assert_eq!(sim.refusals(), [(RefusalReason::Tampered, detail)]);
    }
}

#[test]
fn nothing_but_an_accepted_claim_leaves_a_task_complete() {
    // req 41
    let back = set([Complete, Pending, InProgress, Pending]);
    let mut sim = claimed(turn(|_| {}), &[2]);
    sim.feed(CANCEL);
    let step = sim.feed(gate(-1));
    assert!(step.effects.contains(&back), "{:?}", step.effects);
    // A killed agent has claimed nothing: what it wrote is set back when the loop goes on.
    let sim = Sim::told(turn(|_| {})).after([Input::OwnerDied]);
    assert!(sim.clone().feed(resume()).effects.contains(&back));
    // A claim that was made is judged again as it stands.
    let mut sim = claimed(turn(|_| {}), &[2]).after([Input::OwnerDied]);
    assert_eq!(sim.work(resume()), [Effect::ConsumeWaitMarker, AWAIT_CHILDREN]);
    let mut sim = sim.after([no_children(), examined(), gate(0), gate(0)]);
    let commits = vec![commit_of(2, [Complete, Complete, InProgress, Pending])];
    let commits = Effect::CommitItems { snapshot: "snap1".into(), iteration: 1, commits };
    assert_eq!(sim.work(rechecked(&[])), [set([Complete, Complete, InProgress, Pending]), commits]);
}

#[test]
fn each_commit_is_told_once_and_one_that_fails_ends_the_loop() {
    // req 46, req 47, fault B6
    let committing = || claimed(turn(|_| {}), &[2, 3]).after([gate(0), gate(0), gate(0), rechecked(&[])]);
    // Nothing to commit is no failure.
    let sim = committing().after([made(&[(2, Some("c2")), (3, None)])]);
    assert_eq!((sim.over(), sim.times("committed")), (Some(Reason::Done), 1));
    let mut sim = committing();
    let half = ItemCommits {
        made: vec![(ItemKey(2), Some("c2".into()))],
        tree: None,
        failed: Some("locked".into()),
    };
    let step = sim.feed(Input::ItemsCommitted(half, seal()));
    assert_eq!(names(&step.events), ["committed", "loop_finished"]);
    let kept = set([Complete, Complete, InProgress, Pending]);
    assert!(step.effects.contains(&kept), "what has its commit stays complete");
    assert_eq!(sim.over(), Some(Reason::Error));
    assert_eq!(sim.detail(), "the kept tree could not be committed: locked");
    // Judged again, the commit that is there is found and not told again.
    let sim = sim
        .after([resume(), no_children(), examined(), gate(0), gate(0), gate(0), rechecked(&[])])
        .after([made(&[(2, Some("c2")), (3, Some("c3"))])]);
    assert_eq!((sim.over(), sim.times("committed")), (Some(Reason::Done), 2));
    assert_eq!(receipts::of(&sim).commits, ["c2", "c3"]);
}

#[test]
fn what_dacapo_itself_claims_needs_no_agent_to_say_so() {
    let own = |when, bend: fn(&mut Policy)| {
        policy(|p| {
            p.claims.own_claim = when;
            p.gates.specs = vec![GateSpec::of_command("a"), GateSpec::of_command("b")];
            p.gates.run_all = true;
            p.limits.max_iterations = 2;
            bend(p);
        })
    };
    // Green before the first agent: none starts.
    let mut sim = Sim::new(own(OwnClaim::Always, |_| {}));
    assert_eq!(sim.work(no_markers()), [AWAIT_CHILDREN]);
    assert_eq!(sim.state.phase.claim().unwrap().by, [Signal::OwnClaim]);
    sim.is_told = true;
    let sim = sim.after([no_children(), examined_with(|e| e.changed = 0), gate(0), gate(0), rechecked(&[])]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::Done), 0));
    // Red: the gates behind run too, an agent is told of all of them, and its end is the next claim.
    let mut sim = Sim::new(own(OwnClaim::Always, |_| {})).after([no_markers(), no_children(), gate(1)]);
    let step = sim.feed(gate(2));
    assert_eq!(sim.refusals(), [(RefusalReason::GateFailed, "gate `a` exited 1; gate `b` exited 2")]);
    let prompt = prompts(&step)[0];
    assert!(
        prompt.contains("the check `a` exited 1") && prompt.contains("the check `b` exited 2"),
        "{prompt}"
    );
    assert!(!prompt.contains("<promise>") && !prompt.contains("$TASK_FOLDER/DONE"), "{prompt}");
    assert_eq!(sim.work(promises(0)), [AWAIT_CHILDREN]);
    assert_eq!(sim.state.phase.claim().unwrap().by, [Signal::OwnClaim]);
    let sim = sim.after([no_children(), gate(0), gate(0)]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::Done), 1));
    // Not before the first agent, if only after each.
    let mut sim = Sim::new(own(OwnClaim::AfterAgent, |_| {}));
    assert_eq!(prompts(&sim.feed(no_markers())).len(), 1);
    assert_eq!(sim.work(ends_by(Outcome::Crash)), [AWAIT_CHILDREN]);
    let sim = sim.after([no_children(), gate(1), gate(0), Input::DelayOver, no_markers()]);
    let sim = sim.after([exits(1), no_children(), gate(1), gate(0)]);
    assert_eq!(sim.detail(), "2 iterations used without an accepted claim: gate `a` exited 1");
    // dacapo makes no claim after an outage: no agent has worked.
    let mut sim = Sim::running(own(OwnClaim::AfterAgent, |_| {}));
    assert_eq!(sim.work(ends_by(Outcome::UsageLimit)).len(), 2);
    assert_eq!(sim.state.phase.claim(), None);
    // Without agents.
    let alone = own(OwnClaim::Always, |p| p.limits.max_iterations = 0);
    assert_eq!(alone.problems(), []);
    let sim = Sim::new(alone).after([no_markers(), no_children(), gate(1), gate(0)]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::MaxIterations), 0));
    assert_eq!(sim.detail(), "gate `a` exited 1");
    let sim = sim.after([resume(), no_markers()]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::MaxIterations), 0), "nothing was granted");
}

#[test]
fn the_gates_of_a_claim_share_their_time() {
    let policy = policy(|p| {
        p.gates.specs = ["a", "b", "c"].map(GateSpec::of_command).into();
        p.gates.timeout = Some(Millis(90_000));
    });
    let mut sim = Sim::running(policy).after([promises(0)]);
    let took = |ms| Input::GateFinished(Box::new(GateResult { duration_ms: Millis(ms), ..gate_result(0) }));
    let limit = |effects: Vec<Effect>| match &effects[..] {
        [Effect::RunGate { gate, .. }] => gate.timeout,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(sim.work(no_children())), Millis(90_000));
    assert_eq!(limit(sim.work(took(60_000))), Millis(30_000));
    assert_eq!(limit(sim.work(took(60_000))), Millis(1000));
}

#[test]
fn the_pause_doubles_up_to_its_limit() {
    let policy = policy(|p| p.pace.delay_limit = Some(Millis(3000)));
    let mut sim = Sim::running(policy);
    for delay in [1000, 2000, 3000, 3000] {
        assert_eq!(sim.work(exits(1)), [Effect::Delay(Millis(delay))]);
        sim = sim.after([Input::DelayOver, no_markers()]);
    }
}

#[test]
fn a_task_that_nothing_would_prove_is_a_problem() {
    let problems = turn(|p| p.gates.specs = vec![proof(2)]).problems();
    assert_eq!(problems, [crate::policy::PolicyProblem::Unproven { item: "task #3".into() }]);
    assert_eq!(turn(|_| {}).problems(), []);
}

#[test]
fn what_looks_like_a_claim_and_is_none_is_refused_in_words() {
    // req 30; fault A10: the next agent is told, and finds what is gone in its place.
    let line = "`specs/tasks/app/02-t.md`, line 3: `done` is not a status; write one of pending, complete";
    let broken = |tasks: &[(u32, Option<TaskStatus>)]| {
        let found = facts(&task_set(), tasks, vec![line.to_owned()]);
        exits_with(0, move |r| r.facts.items = found)
    };
    let back = set([Complete, Pending, InProgress, Pending]);
    for (input, effects, detail) in [
        (broken(&[(2, None)]), vec![back.clone(), DELAY], line.to_owned()),
        (
            completes(&[4]),
            vec![returned(&[4]), DELAY],
            "task #4 was set to `complete`, and #2, #3 must come first".to_owned(),
        ),
        (
            broken(&[(2, None), (4, Some(Complete))]),
            vec![returned(&[4]), back, DELAY],
            format!("task #4 was set to `complete`, and #2, #3 must come first; {line}"),
        ),
    ] {
        let mut sim = Sim::told(turn(|_| {}));
        assert_eq!(sim.work(input), effects);
        assert_eq!(sim.refusals(), [(RefusalReason::Malformed, detail.as_str())]);
        let told = crate::prompt::compose(&sim.state, 2, "n");
        assert!(told.contains(&format!("The claim of iteration 1 was refused: {detail}.")), "{told}");
    }
    // Beside a good claim it is the files' own matter.
    let mut sim = Sim::told(turn(|_| {}));
    assert_eq!(sim.work(broken(&[(2, None), (3, Some(Complete))])), [AWAIT_CHILDREN]);
    // Nor is it a claim of an agent that met an outage: that is waited out.
    let mut sim = Sim::told(turn(|_| {}));
    sim.work(exits_with(1, |r| {
        r.exit.outcome = super::Outcome::UsageLimit;
        r.facts.items = facts(&task_set(), &[(2, None)], vec![line.to_owned()]);
    }));
    assert_eq!(sim.refusals(), []);
    assert!(matches!(sim.state.phase, crate::loop_machine::Phase::Parked(_)), "{:?}", sim.state.phase);
}
