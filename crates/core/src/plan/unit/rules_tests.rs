//! Tables: what tasks call for, what of a branch is proven, what a merge may change.

use TaskStatus::{Complete, Failed, InProgress, Pending};

use super::{super::MergedFile, super::decide_tests::brief, *};
use crate::{
    event::MergeMode,
    plan::CutLoop,
    unit::{TaskSpec, schedule::Job, settings::MustHold},
};

fn task(number: u32, status: TaskStatus, depends_on: &[u32]) -> Task {
    let spec = TaskSpec {
        number,
        title: format!("Task {number}"),
        file: format!("specs/tasks/auth/{number:02}-t.md"),
        backpressure: "true".to_owned(),
        line: 1,
        depends_on: depends_on.to_vec(),
        writes: Vec::new(),
        frozen: String::new(),
    };
    Task { spec, status }
}

/// Tasks as their files have them, whether a receipt or the target says that they are complete, and what comes first.
fn call(
    tasks: &[(TaskStatus, TaskStatus, &[u32])],
    retry_failed: bool,
    checks: BaselineState,
) -> TasksCallFor {
    let numbered = || tasks.iter().zip(1..);
    let now: Vec<Task> = numbered().map(|((now, _, first), number)| task(number, *now, first)).collect();
    let given: Vec<Task> = numbered()
        .map(|((_, then, first), number)| {
            task(number, if *then == Complete { Pending } else { *then }, first)
        })
        .collect();
    let proven = numbered().filter(|((_, then, _), _)| *then == Complete).map(|(_, number)| number).collect();
    let mut brief = brief(Job::Work { back: None }, MergeMode::Merge);
    brief.settings.retry_failed = retry_failed;
    tasks_call_for(&brief, now, &given, &proven, checks)
}

fn due(tasks: &[(TaskStatus, TaskStatus, &[u32])]) -> TasksCallFor {
    call(tasks, false, BaselineState::Due)
}

fn turn(tasks: &[(TaskStatus, &[u32])], ready: &[u32]) -> TasksCallFor {
    let tasks = tasks.iter().zip(1..).map(|((status, first), number)| task(number, *status, first)).collect();
    TasksCallFor::Turn(TaskSet { unit: "auth".parse().unwrap(), tasks, ready: ready.to_vec() })
}

#[test]
fn tasks_are_worked_off_then_checked_then_complete() {
    // req 15, req 48
    assert_eq!(
        due(&[(Pending, Pending, &[]), (Pending, Pending, &[1]), (Pending, Pending, &[])]),
        turn(&[(Pending, &[]), (Pending, &[1]), (Pending, &[])], &[1, 3])
    );
    assert_eq!(
        due(&[(Complete, Complete, &[]), (Pending, Pending, &[1])]),
        turn(&[(Complete, &[]), (Pending, &[1])], &[2])
    );
    assert_eq!(due(&[(Complete, Complete, &[])]), TasksCallFor::Checks);
    assert_eq!(call(&[(Complete, Complete, &[])], false, BaselineState::Hold), TasksCallFor::Nothing);
}

#[test]
fn a_status_that_was_never_committed_is_put_back() {
    // req 14, req 36, req 41: a crash leaves `complete` behind; HEAD knows better. What an agent began is ready again.
    assert_eq!(
        due(&[(Complete, Pending, &[]), (Complete, InProgress, &[]), (InProgress, Pending, &[])]),
        TasksCallFor::Statuses(vec![(1, Pending), (2, InProgress)])
    );
    assert_eq!(due(&[(InProgress, Pending, &[])]), turn(&[(InProgress, &[])], &[1]));
    assert_eq!(due(&[(Pending, Complete, &[])]), TasksCallFor::Statuses(vec![(1, Complete)]));
}

#[test]
fn failed_and_blocked_are_different_ends() {
    // req 16, req 17
    let failed: [(TaskStatus, TaskStatus, &[u32]); 2] = [(Failed, Pending, &[]), (Pending, Pending, &[1])];
    assert_eq!(
        due(&failed),
        TasksCallFor::End(
            UnitEnd::Failed,
            "no task is ready, and 1 task failed: #1; `--retry-failed` tries again".to_owned()
        )
    );
    assert_eq!(call(&failed, true, BaselineState::Due), TasksCallFor::Statuses(vec![(1, Pending)]));
    let stuck = due(&[(Pending, Pending, &[2]), (Pending, Pending, &[1])]);
    assert!(matches!(stuck, TasksCallFor::End(UnitEnd::Blocked, _)));
}

#[test]
fn a_turn_gives_up_the_task_that_was_tried_last() {
    // req 41
    let set = TaskSet { unit: "auth".parse().unwrap(), tasks: Vec::new(), ready: vec![2, 5] };
    assert_eq!((given_up(&set, Some(5)), given_up(&set, None)), (Some(5), Some(2)));
}

#[test]
fn a_cut_loop_is_ours_if_this_job_would_start_the_very_same() {
    let brief = brief(Job::Work { back: None }, MergeMode::Merge);
    let UnitBrief { unit, settings, .. } = &brief;
    let tasks = [task(1, Pending, &[])];
    let specs = || tasks.iter().map(|task| &task.spec);
    let holds = MustHold { tasks: specs().cloned().collect(), ..MustHold::default() };
    let facts = |purpose: Option<Purpose>, must_hold: Option<&MustHold>| CutFacts {
        cut: CutLoop {
            id: "l1".parse().unwrap(),
            purpose,
            tasks: None,
            is_mid_iteration: false,
            unheard: Vec::new(),
        },
        must_hold: must_hold.cloned(),
    };
    let ours = |cut: &CutFacts, accepted: &str| is_ours(cut, &brief, accepted, &tasks);
    let turn = facts(Some(Purpose::turn(settings, unit, "c1", specs())), None);
    assert!(ours(&turn, "c1"));
    assert!(!ours(&turn, "c2"), "it counts its changes from another commit");
    assert!(!ours(&facts(None, None), "c1"), "no plan started it");
    let baseline = Purpose::baseline(settings, unit, "c1", &holds.checks);
    assert!(ours(&facts(Some(baseline.clone()), Some(&holds)), "c1"));
    assert!(!ours(&facts(Some(baseline), None), "c1"));
    let sent_back = Purpose::proof(PlanStep::SentBack, settings, unit, "c1", &holds);
    assert!(ours(&facts(Some(sent_back.clone()), Some(&holds)), "c1"));
    assert!(
        !ours(&facts(Some(sent_back), Some(&MustHold::default())), "c1"),
        "something else must hold by now"
    );
    let merge = Purpose::proof(PlanStep::Merge, settings, unit, "c1", &holds);
    assert!(!ours(&facts(Some(merge), Some(&holds)), "c1"), "its worktree is gone");
}

#[test]
fn a_branch_is_proven_up_to_its_newest_receipt_and_merges_of_dacapos_own_on_top() {
    let commit = |id: &str, parents: &[&str]| -> ChainCommit {
        (id.to_owned(), parents.iter().map(|parent| (*parent).to_owned()).collect())
    };
    let seen = |chain: &[ChainCommit], proofs: &[(&[u32], &str)], own: &[&str]| {
        let proofs = proofs.iter().map(|(tasks, commit)| (tasks.to_vec(), (*commit).to_owned()));
        let seen = accepted("b", chain, proofs, |id, _, _| Ok::<bool, ()>(own.contains(&id)));
        let (proven, accepted) = seen.unwrap();
        (proven.into_iter().collect::<Vec<_>>(), accepted)
    };
    let plain = [commit("c2", &["c1"]), commit("c1", &["b"])];
    assert_eq!(seen(&[], &[], &[]), (vec![], "b".to_owned()));
    assert_eq!(seen(&plain, &[], &[]), (vec![], "b".to_owned()), "an agent's own commits prove nothing");
    assert_eq!(seen(&plain, &[(&[1], "c1")], &[]), (vec![1], "c1".to_owned()));
    assert_eq!(
        seen(&plain, &[(&[1], "c1"), (&[2], "c2"), (&[3], "gone")], &[]),
        (vec![1, 2], "c2".to_owned())
    );
    let merged = [commit("m2", &["m1", "t2"]), commit("m1", &["c1", "t1"]), commit("c1", &["b"])];
    assert_eq!(seen(&merged, &[(&[1], "c1")], &["m1", "m2"]).1, "m2");
    assert_eq!(seen(&merged, &[(&[1], "c1")], &["m2"]).1, "c1", "what is below it is not dacapo's");
    assert_eq!(seen(&merged, &[(&[1], "c1")], &["m1"]).1, "m1");
    let above = [commit("m1", &["c2", "t1"]), commit("c2", &["c1"]), commit("c1", &["b"])];
    assert_eq!(seen(&above, &[(&[1], "c1")], &["m1"]).1, "c1", "an unproven commit is in between");
}

#[test]
fn a_merge_changes_the_status_of_proven_tasks_and_nothing_else_of_units() {
    let text = |status: &str| {
        Some(format!("---\ntask: 1\nstatus: {status}\nbackpressure: \"true\"\n---\n# T\n").into_bytes())
    };
    let view = |file: &str, before: Option<Vec<u8>>, after: Option<Vec<u8>>, proven: &[u32]| MergeView {
        proven: proven.iter().copied().collect(),
        tasks: vec![task(1, Pending, &[])],
        changes: vec![MergedFile { file: file.to_owned(), before, after }],
    };
    let own = "specs/tasks/auth/01-t.md";
    let foreign = foreign_change;
    assert_eq!(foreign(&view(own, text("pending"), text("complete"), &[1])), None);
    assert_eq!(foreign(&view(own, text("pending"), text("complete"), &[])).as_deref(), Some(own));
    assert_eq!(foreign(&view(own, text("pending"), text("failed"), &[1])).as_deref(), Some(own));
    assert_eq!(foreign(&view(own, text("pending"), None, &[1])).as_deref(), Some(own));
    let other = "specs/tasks/other/01-t.md";
    assert_eq!(foreign(&view(other, text("pending"), text("complete"), &[1])).as_deref(), Some(other));
    assert_eq!(foreign(&view(other, None, text("pending"), &[1])).as_deref(), Some(other));
    let notes = "specs/tasks/auth/notes.md";
    assert_eq!(foreign(&view(notes, Some(b"a".to_vec()), Some(b"b".to_vec()), &[])), None);
}
