//! Tasks in a made-up world whose agents fail, refuse, edit and are killed, and whose user answers, resumes and cancels at
//! random: what must hold in all of them.
//!
//! `DACAPO_SIM_TIMES=20` runs twenty times as many of them, `DACAPO_SIM_SEED=42` replays one.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    decide_tests::{NOW, end, started},
    *,
};
use crate::{
    chance_tests::{Chance, for_seeds},
    stages::{ROUNDS_WITH_FINDINGS, ReviewVerdict, StageName},
};

/// Everything outside of the machine.
#[derive(Default)]
struct World {
    state: TaskProgress,
    events: Vec<TaskEvent>,
    /// How many events each decision left behind: a crash falls between decisions.
    boundaries: Vec<usize>,
    tree: u32,
    /// The loop that runs in the performer that lives, and its stage.
    running: Option<(u32, StageName)>,
    /// How often a performer was told to run each loop anew, in the life of one performer.
    told: BTreeMap<u32, u32>,
    is_merging: bool,
    /// Trees that were merged: the performer finds one again that is merged already.
    merged: BTreeSet<String>,
    merges: u32,
    ends: u32,
    file: Option<StageTaskStatus>,
}

impl World {
    fn of(events: &[TaskEvent]) -> Self {
        let (state, events) = (TaskMachine::fold(events), events.to_vec());
        Self { state, events, tree: 1000, ..Self::default() }
    }

    fn tell(&mut self, news: TaskNews) {
        let step = TaskMachine::decide(&self.state, TaskInput { now: NOW, news });
        for event in &step.events {
            TaskMachine::apply(&mut self.state, event);
        }
        self.events.extend(step.events);
        self.boundaries.push(self.events.len());
        for effect in step.effects {
            match effect {
                TaskEffect::RunStage(order) => {
                    assert_eq!(self.running, None, "one stage at a time");
                    self.running = Some((order.run, order.stage.name));
                    *self.told.entry(order.run).or_default() += 1;
                }
                TaskEffect::Merge { .. } => {
                    assert!(!self.is_merging, "one merge at a time");
                    self.is_merging = true;
                }
                TaskEffect::SetStatus(status) => self.file = Some(status),
                TaskEffect::End(_) => self.ends += 1,
                TaskEffect::StopStage { run } => {
                    assert_eq!(self.running.map(|(running, _)| running), Some(run));
                }
                TaskEffect::Ask { .. } | TaskEffect::Hold { .. } | TaskEffect::Tidy { .. } => {}
            }
        }
        assert_ne!(self.state.phase, TaskPhase::Between);
        if self.running.is_some() {
            assert!(!matches!(
                self.state.phase,
                TaskPhase::Asking { .. }
                    | TaskPhase::Merging { .. }
                    | TaskPhase::Paused { .. }
                    | TaskPhase::Over(_)
            ));
        }
    }

    fn end_stage(&mut self, reason: Reason, answer: &str, changed: Vec<String>) {
        let Some((run, stage)) = self.running.take() else { return };
        if stage == StageName::Coder {
            self.tree += 1;
        }
        let mut end = end(reason, answer, &format!("t{}", self.tree));
        end.changed = changed;
        self.tell(TaskNews::StageEnded { run, end });
    }

    fn end_merge(&mut self, is_good: bool) {
        let TaskPhase::Merging { tree, .. } = self.state.phase.clone() else { return };
        self.is_merging = false;
        if is_good && self.merged.insert(tree) {
            self.merges += 1;
        }
        let end = match (is_good, self.tree % 2) {
            (true, _) => MergeEnd::Merged { commit: "c".to_owned() },
            (false, 0) => MergeEnd::Refused { why: "red".to_owned() },
            (false, _) => MergeEnd::Conflict { paths: vec!["a.rs".to_owned()] },
        };
        self.tell(TaskNews::MergeEnded(end));
    }

    fn crash(&mut self) {
        (self.running, self.is_merging) = (None, false);
        assert_eq!(TaskMachine::fold(&self.events), self.state, "the state is a fold of the events");
        self.tell(TaskNews::TakenUp);
    }

    /// The tree that the open question is about.
    fn asked_about(&self) -> String {
        match &self.state.phase {
            TaskPhase::Asking {
                question: Question { about: QuestionAbout::Review { tree, .. }, .. },
                ..
            } => tree.clone(),
            _ => String::new(),
        }
    }

    fn happen(&mut self, dice: &mut Chance) {
        match dice.below(20) {
            0..=8 => {
                let Some((_, stage)) = self.running else { return };
                let reasons = [
                    Reason::Done,
                    Reason::Done,
                    Reason::Done,
                    Reason::Done,
                    Reason::Done,
                    Reason::MaxIterations,
                    Reason::Interrupted,
                    Reason::Blocked,
                    Reason::Refused,
                    Reason::Budget,
                    Reason::Auth,
                ];
                let reason = dice.of(&reasons);
                let changed = if dice.is_one_in(12) { vec!["src/a.rs".to_owned()] } else { Vec::new() };
                let answer = any_answer(dice, stage);
                // Some coders change nothing.
                if stage == StageName::Coder && dice.is_one_in(8) {
                    self.tree -= 1;
                }
                self.end_stage(reason, &answer, changed);
            }
            9..=11 => {
                if self.is_merging {
                    let is_good = !dice.is_one_in(4);
                    self.end_merge(is_good);
                }
            }
            12 | 13 => {
                // Sometimes a question that is closed or was never asked.
                let question = match self.state.phase {
                    TaskPhase::Asking { number, .. } if !dice.is_one_in(5) => number,
                    _ => u32::try_from(dice.below(4)).unwrap(),
                };
                let answer = dice.of(&[UserAnswer::Approve, UserAnswer::Reject]);
                let text = dice.of(&["", "more"]).to_owned();
                let tree = if dice.is_one_in(8) { "another".to_owned() } else { self.asked_about() };
                self.tell(TaskNews::Answered { question, answer, text, tree });
            }
            14 | 15 => self.crash(),
            16 => self.tell(TaskNews::Resumed),
            17 => {
                let news = dice.of(&[TaskNews::Resumed, TaskNews::Pause, TaskNews::Unpause]);
                self.tell(news);
            }
            18 => {
                // News that come late, or about something else.
                let run = u32::try_from(dice.below(6)).unwrap();
                if self.running.is_none_or(|(running, _)| running != run) {
                    self.tell(TaskNews::StageEnded { run, end: end(Reason::Done, "REVIEW PASSED", "t") });
                }
            }
            _ => {
                if dice.is_one_in(10) {
                    self.tell(TaskNews::Cancel);
                }
            }
        }
    }

    /// Agents and the user do what is asked of them, until the task is over.
    fn drain(&mut self) {
        self.crash();
        for _ in 0..200 {
            if let Some((_, stage)) = self.running {
                let answer = if stage == StageName::Reviewer { "REVIEW PASSED" } else { "committed, passed" };
                self.end_stage(Reason::Done, answer, Vec::new());
                continue;
            }
            match self.state.phase.clone() {
                TaskPhase::Over(_) => return,
                TaskPhase::NotStarted => self.tell(TaskNews::Begin(started())),
                TaskPhase::Merging { is_held: false, .. } => self.end_merge(true),
                TaskPhase::Asking { number, .. } => {
                    let (answer, text) = (UserAnswer::Approve, String::new());
                    let tree = self.asked_about();
                    self.tell(TaskNews::Answered { question: number, answer, text, tree });
                }
                TaskPhase::InStage { .. } | TaskPhase::Merging { .. } | TaskPhase::Paused { .. } => {
                    self.tell(TaskNews::Resumed);
                }
                TaskPhase::Between => panic!("no decision ends between two steps"),
            }
        }
        panic!("the task comes to no end: {:?}", self.state.phase);
    }
}

fn any_answer(dice: &mut Chance, stage: StageName) -> String {
    let mut answer = String::new();
    for _ in 0..dice.below(3) {
        let word = dice.of(&["FIXED", "REFUTED", "DEFERRED", "REOPENED"]);
        answer += &format!("{word} F{}\n", 1 + dice.below(4));
    }
    if stage == StageName::Reviewer {
        answer += dice.of(&["REVIEW PASSED\n", "REVIEW FAILED\n", "REVIEW FAILED\n", "hm\n"]);
        for _ in 0..dice.below(3) {
            answer += &format!("- finding {}\n", dice.of(&["a", "b", "c", "d", "e", "f"]));
        }
    }
    answer
}

/// What must hold for every history.
fn check(events: &[TaskEvent]) {
    let mut runs = BTreeSet::new();
    // What may begin now: a stage, or the merge.
    let mut may_begin = Some(StageName::Coder);
    let mut may_merge = false;
    let (mut merges, mut merged, mut ends, mut asked) = (0, 0, 0, BTreeSet::new());
    let mut logged = BTreeSet::new();
    let mut rounds_with_findings = 0;
    for (at, event) in events.iter().enumerate() {
        assert_eq!(ends, 0, "nothing follows the end");
        match event {
            TaskEvent::TaskStarted(_) => assert_eq!(at, 0),
            TaskEvent::StageStarted { stage, run, .. } => {
                assert_eq!(may_begin, Some(*stage), "{events:?}");
                assert!(runs.insert(*run), "no run begins twice");
                may_begin = None;
            }
            TaskEvent::StagePassed { stage, .. } => {
                may_begin = stage.next();
                may_merge = stage.next().is_none();
            }
            TaskEvent::ReviewRound { round } => {
                if round.brings_findings() {
                    rounds_with_findings += 1;
                }
                assert!(rounds_with_findings <= ROUNDS_WITH_FINDINGS, "the user is asked after three");
                if round.verdict == ReviewVerdict::Refused {
                    let follows = &events[at + 1];
                    assert!(matches!(follows, TaskEvent::SentBack { .. } | TaskEvent::QuestionAsked { .. }));
                }
            }
            TaskEvent::SentBack { open, .. } => {
                assert!(*open > 0, "the coder is told what to do");
                assert!(rounds_with_findings < ROUNDS_WITH_FINDINGS);
                may_begin = Some(StageName::Coder);
            }
            TaskEvent::QuestionAsked { number, .. } => assert!(asked.insert(*number)),
            TaskEvent::QuestionAnswered { number, is_approved, .. } => {
                assert!(asked.contains(number));
                rounds_with_findings = 0;
                if !is_approved {
                    may_begin = Some(StageName::Coder);
                }
            }
            TaskEvent::StageIteration { run, entry } => assert!(logged.insert((*run, entry.ralph_iteration))),
            TaskEvent::MergeStarted { .. } => {
                assert!(may_merge, "all stages are passed");
                merges += 1;
            }
            TaskEvent::MergeConflicted { .. } => {
                merges -= 1;
                (may_begin, may_merge) = (Some(StageName::Coder), false);
            }
            TaskEvent::TaskMerged { .. } => merged += 1,
            TaskEvent::TaskFinished(end) => {
                ends += 1;
                assert_eq!(end.end == TaskEndReason::Done, merged == 1, "done is merged");
            }
            _ => {}
        }
    }
    assert!(merges <= 1 && merged <= merges);
}

/// A finding is decided about in a round of the reviewer or in an answer of the user, and nowhere else.
fn check_ledger(events: &[TaskEvent]) {
    let mut state = TaskProgress::default();
    for event in events {
        let before: Vec<_> = state.ledger.findings.iter().map(|finding| finding.state).collect();
        TaskMachine::apply(&mut state, event);
        let after: Vec<_> = state.ledger.findings.iter().map(|finding| finding.state).collect();
        if !matches!(event, TaskEvent::ReviewRound { .. } | TaskEvent::QuestionAnswered { .. }) {
            assert_eq!(before, after, "{event:?}");
        }
    }
}

fn simulate(seed: u64) {
    let mut dice = Chance(seed);
    let mut world = World { tree: 1, ..World::default() };
    world.tell(TaskNews::Begin(started()));
    for _ in 0..60 {
        world.happen(&mut dice);
    }
    world.drain();
    check(&world.events);
    check_ledger(&world.events);
    assert_eq!((world.ends, world.merges <= 1), (1, true));
    assert_eq!(world.file, Some(world.state.status()), "the file says how the task ended");
    // A crash behind any decision loses nothing: the task comes to one end from there, too.
    for boundary in world.boundaries.iter().step_by(1 + dice.below(4)) {
        let mut again = World::of(&world.events[..*boundary]);
        let was_over = again.state.end().is_some();
        again.drain();
        check(&again.events);
        assert_eq!(again.ends, u32::from(!was_over));
        let unchanged = again.events.starts_with(&world.events[..*boundary]);
        assert!(unchanged, "what is recorded stays");
    }
}

#[test]
fn tasks_come_to_one_end_in_a_world_that_fails_first_share() {
    // req 196
    for_seeds(3000, 0, 2, simulate);
}

#[test]
fn tasks_come_to_one_end_in_a_world_that_fails_second_share() {
    // req 196
    for_seeds(3000, 1, 2, simulate);
}
