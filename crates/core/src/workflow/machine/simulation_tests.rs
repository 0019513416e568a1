//! Random workflows in a made-up world that fails, answers late, edits files and kills the performer: what must
//! hold in all of them.
//!
//! `DACAPO_SIM_TIMES=20` runs twenty times as many of them, `DACAPO_SIM_SEED=42` replays one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{
    decide_tests::{id, started},
    *,
};
use crate::{
    chance_tests::{Chance, for_seeds},
    workflow::{StepKind, Workflow},
};

/// A workflow of a few steps in any shape.
fn any_workflow(dice: &mut Chance) -> WorkflowStarted {
    let mut yaml = String::new();
    if dice.is_one_in(4) {
        yaml += "budget: {max_cost: 5}\n";
    }
    yaml += "nodes:\n";
    let number = 2 + dice.number_below(6);
    for at in 0..number {
        let depends_on: Vec<String> =
            (0..at).filter(|_| dice.is_one_in(2)).map(|before| format!("s{before}")).collect();
        let kind = match dice.number_below(14) {
            0..=2 => "bash: make",
            3 | 4 => "prompt: p",
            5 => "prompt: p\n  worktree: true",
            6 => "prompt: p\n  retry: {max_attempts: 1}",
            7 => "loop: {prompt: p, until: X, max_iterations: 3}",
            8 => "loop: {prompt: p, until: X, max_iterations: 3, interactive: true, gate_message: m}",
            9 | 10 => "approval: {message: m, on_reject: {prompt: p, max_attempts: 2}}",
            11 => "loop: {prompt: p, until_bash: make, max_iterations: 3}",
            12 => "prompt: p\n  gates: [make]\n  worktree: true",
            _ => ["wait: {for: 5s}", "wait: {signal: go}", "wait: {file: f}", "cancel: stop"]
                [dice.number_below(4) as usize],
        };
        let rule = match dice.number_below(6) {
            0 => "  trigger_rule: all_done\n",
            1 => "  trigger_rule: one_success\n",
            _ => "",
        };
        yaml += &format!("- id: s{at}\n  {kind}\n  depends_on: [{}]\n{rule}", depends_on.join(", "));
    }
    started(&yaml)
}

/// Everything outside of the machine.
struct World {
    state: WorkflowProgress,
    events: Vec<WorkflowEvent>,
    /// How many events each decision left behind: a crash falls between decisions.
    boundaries: Vec<usize>,
    now: Timestamp,
    tree: u32,
    /// What runs in the performer that lives.
    loops: BTreeSet<(StepId, u32)>,
    scripts: BTreeSet<(StepId, u32)>,
    looks: BTreeSet<(StepId, u32)>,
    merges: BTreeSet<(StepId, u32)>,
    /// Loops that were ever begun: the performer knows them again.
    known_loops: BTreeSet<(StepId, u32)>,
    scripts_run: BTreeMap<(StepId, u32), u32>,
    ends: u32,
    resumes: u32,
}

impl World {
    fn of(state: WorkflowProgress, events: Vec<WorkflowEvent>) -> Self {
        Self {
            state,
            events,
            boundaries: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
            tree: 1,
            loops: BTreeSet::new(),
            scripts: BTreeSet::new(),
            looks: BTreeSet::new(),
            merges: BTreeSet::new(),
            known_loops: BTreeSet::new(),
            scripts_run: BTreeMap::new(),
            ends: 0,
            resumes: 0,
        }
    }

    fn tell(&mut self, news: WorkflowNews) {
        let step = WorkflowMachine::decide(&self.state, WorkflowInput { now: self.now, news });
        for event in &step.events {
            WorkflowMachine::apply(&mut self.state, event);
        }
        self.events.extend(step.events);
        self.boundaries.push(self.events.len());
        for effect in step.effects {
            match effect {
                WorkflowEffect::RunLoop(order) => {
                    let key = (order.step.clone(), order.attempt);
                    self.known_loops.insert(key.clone());
                    self.loops.insert(key);
                }
                WorkflowEffect::RunScript(order) => {
                    let key = (order.step.clone(), order.attempt);
                    *self.scripts_run.entry(key.clone()).or_default() += 1;
                    self.scripts.insert(key);
                }
                WorkflowEffect::LookAtTree { step, attempt } => drop(self.looks.insert((step, attempt))),
                WorkflowEffect::MergeWorktree { step, attempt } => {
                    self.merges.insert((step, attempt));
                }
                WorkflowEffect::Stop { step, attempt } => {
                    // What nothing runs any more answers all the same.
                    self.loops.insert((step, attempt));
                }
                WorkflowEffect::End(_) => self.ends += 1,
                _ => {}
            }
        }
    }

    fn tree(&self) -> String {
        format!("t{}", self.tree)
    }

    fn crash(&mut self) {
        self.loops.clear();
        self.scripts.clear();
        self.looks.clear();
        self.merges.clear();
        let folded = WorkflowMachine::fold(&self.events);
        assert_eq!(folded, self.state, "the state is a fold of the events");
        self.tell(WorkflowNews::TakenUp);
    }

    fn end_loop(&mut self, key: (StepId, u32), reason: Reason, is_changed: bool) {
        self.loops.remove(&key);
        self.tree += u32::from(is_changed);
        let end = LoopResult {
            reason,
            detail: reason.as_str().to_owned(),
            output: "o".to_owned(),
            tree: self.tree(),
            is_changed,
            session: Some("s".to_owned()),
            refused: None,
            repeats: false,
        };
        let (step, attempt) = key;
        let is_script = matches!(self.state.kind(&step), Some(StepKind::Bash(_)));
        if is_script {
            self.scripts.remove(&(step.clone(), attempt));
            let end = ScriptResult { end: ScriptEnd::Interrupted(reason), output: String::new(), is_changed };
            self.tell(WorkflowNews::ScriptEnded { step, attempt, end });
        } else {
            self.tell(WorkflowNews::LoopEnded { step, attempt, end: Box::new(end) });
        }
    }

    fn end_script(&mut self, key: (StepId, u32), code: i32) {
        self.scripts.remove(&key);
        let end = ScriptResult { end: ScriptEnd::Exited(code), output: "x\n".to_owned(), is_changed: false };
        self.tell(WorkflowNews::ScriptEnded { step: key.0, attempt: key.1, end });
    }

    fn end_merge(&mut self, key: (StepId, u32), is_clean: bool) {
        self.merges.remove(&key);
        self.tree += u32::from(is_clean);
        let end = if is_clean { Ok(()) } else { Err("both changed a file".to_owned()) };
        self.tell(WorkflowNews::Merged { step: key.0, attempt: key.1, end });
    }

    fn open_questions(&self) -> Vec<u32> {
        (1..=self.state.questions).filter(|number| self.state.question(*number).is_some()).collect()
    }

    /// Lets one random thing happen.
    fn happen(&mut self, dice: &mut Chance) {
        match dice.number_below(16) {
            0..=3 => {
                if let Some(key) = pick(dice, &self.loops) {
                    let reasons = [
                        Reason::Done,
                        Reason::Done,
                        Reason::Done,
                        Reason::Error,
                        Reason::MaxIterations,
                        Reason::Interrupted,
                        Reason::Blocked,
                        Reason::Budget,
                    ];
                    let reason = reasons[dice.number_below(8) as usize];
                    let is_changed = dice.is_one_in(2);
                    self.end_loop(key, reason, is_changed);
                }
            }
            4..=6 => {
                if let Some(key) = pick(dice, &self.scripts) {
                    let code = i32::from(dice.is_one_in(4));
                    self.end_script(key, code);
                }
            }
            7 | 8 => {
                if let Some(key) = pick(dice, &self.looks) {
                    self.looks.remove(&key);
                    let tree = self.tree();
                    self.tell(WorkflowNews::TreeSeen { step: key.0, attempt: key.1, tree });
                }
                if let Some(key) = pick(dice, &self.merges) {
                    let is_clean = !dice.is_one_in(5);
                    self.end_merge(key, is_clean);
                }
            }
            9 | 10 => {
                // Sometimes a question that is closed or was never asked.
                let open = self.open_questions();
                let question = match open.is_empty() || dice.is_one_in(5) {
                    true => u32::try_from(dice.number_below(8)).unwrap(),
                    false => open[dice.number_below(open.len() as u64) as usize],
                };
                let answer = if dice.is_one_in(3) { Answer::Reject } else { Answer::Approve };
                let text = if dice.is_one_in(2) { "more".to_owned() } else { String::new() };
                let tree = self.tree();
                self.tell(WorkflowNews::Answered { question, answer, text, tree });
            }
            // The user edits a file by hand.
            11 => self.tree += 1,
            12 => {
                self.now = self.now.checked_add(SignedDuration::from_secs(4)).unwrap();
                self.tell(WorkflowNews::Due);
            }
            13 => match dice.number_below(6) {
                0 => self.tell(WorkflowNews::Signalled { name: "go".to_owned() }),
                1 => {
                    let step = id(&format!("s{}", dice.number_below(8)));
                    self.tell(WorkflowNews::FileSeen { step });
                }
                2 => self.tell(WorkflowNews::Pause { now: dice.is_one_in(2) }),
                3 => self.tell(WorkflowNews::Unpause),
                4 => self.tell(WorkflowNews::Spent {
                    cost_usd: dice.number_below(8) as f64,
                    tokens: 1,
                    time_ms: 1,
                }),
                _ if dice.is_one_in(4) => self.tell(WorkflowNews::Cancel { why: "no".to_owned() }),
                _ => {}
            },
            14 => self.crash(),
            _ => {
                if matches!(self.state.standing(), WorkflowStanding::Held { .. }) || self.is_resumable() {
                    self.resume();
                }
            }
        }
    }

    fn is_resumable(&self) -> bool {
        self.state.end().is_some_and(|end| matches!(end.end, EndReason::Failed | EndReason::Blocked))
    }

    fn resume(&mut self) {
        let before = self.events.len();
        self.tell(WorkflowNews::Resumed { raise: Raise { max_cost: Some(1000.0), ..Raise::default() } });
        self.resumes += u32::from(self.events.len() > before);
    }

    /// Agents, scripts and the person all do what is asked of them, until the run is over.
    fn drain(&mut self) {
        self.crash();
        for _ in 0..500 {
            if self.state.end().is_some() {
                return;
            }
            if let Some(key) = self.loops.first().cloned() {
                self.end_loop(key, Reason::Done, false);
            } else if let Some(key) = self.scripts.first().cloned() {
                self.end_script(key, 0);
            } else if let Some(key) = self.merges.first().cloned() {
                self.end_merge(key, true);
            } else if let Some(key) = self.looks.pop_first() {
                let tree = self.tree();
                self.tell(WorkflowNews::TreeSeen { step: key.0, attempt: key.1, tree });
            } else {
                match self.state.standing() {
                    WorkflowStanding::Paused => self.tell(WorkflowNews::Unpause),
                    WorkflowStanding::Held { .. } => self.resume(),
                    WorkflowStanding::Question(question) => {
                        let (answer, text, tree) = (Answer::Approve, String::new(), self.tree());
                        self.tell(WorkflowNews::Answered { question, answer, text, tree });
                    }
                    WorkflowStanding::Waiting(_) => {
                        self.now = self.now.checked_add(SignedDuration::from_secs(60)).unwrap();
                        self.tell(WorkflowNews::Due);
                        self.tell(WorkflowNews::Signalled { name: "go".to_owned() });
                        for at in 0..8 {
                            self.tell(WorkflowNews::FileSeen { step: id(&format!("s{at}")) });
                        }
                    }
                    WorkflowStanding::Running | WorkflowStanding::Over(_) => self.crash(),
                }
            }
        }
        panic!("the run comes to no end: {:?}", self.state.steps);
    }
}

fn pick(dice: &mut Chance, keys: &BTreeSet<(StepId, u32)>) -> Option<(StepId, u32)> {
    let at = dice.number_below(keys.len().max(1) as u64) as usize;
    keys.iter().nth(at).cloned()
}

/// Every step above `step`.
fn above(workflow: &Workflow, step: &StepId) -> BTreeSet<StepId> {
    let mut found = BTreeSet::new();
    let mut next = vec![step.clone()];
    while let Some(id) = next.pop() {
        let before = workflow.step(&id).unwrap().depends_on.iter();
        next.extend(before.filter(|id| found.insert((*id).clone())).cloned());
    }
    found
}

/// Scripts that an approval depends on and no agent above it does, and agents with checks of whom the same holds: they have to
/// see every change.
fn scripts_before(workflow: &Workflow, step: &StepId) -> BTreeSet<StepId> {
    let of = workflow.step(step).unwrap();
    if !matches!(of.kind, StepKind::Approval(_)) {
        return BTreeSet::new();
    }
    let agents: Vec<StepId> =
        above(workflow, step).into_iter().filter(|id| workflow.step(id).unwrap().kind.has_agent()).collect();
    let is_check = |id: &&StepId| {
        let kind = &workflow.step(id).unwrap().kind;
        matches!(kind, StepKind::Bash(_)) || kind.has_checks()
    };
    let is_last = |id: &&StepId| !agents.iter().any(|agent| above(workflow, agent).contains(*id));
    of.depends_on.iter().filter(is_check).filter(is_last).cloned().collect()
}

/// What must hold for every history.
fn check(workflow: &Workflow, events: &[WorkflowEvent], resumes: u32) {
    let mut attempts = BTreeSet::new();
    let mut completed: BTreeSet<StepId> = BTreeSet::new();
    let mut shared: BTreeSet<StepId> = BTreeSet::new();
    let mut asked: BTreeMap<u32, (StepId, String)> = BTreeMap::new();
    let mut to_check: BTreeMap<StepId, BTreeSet<StepId>> = BTreeMap::new();
    let (mut ends, mut is_over) = (0, false);
    let mut changed = None;
    // Scripts right before a question whose files have changed.
    let mut scripts_due: BTreeMap<StepId, BTreeSet<StepId>> = BTreeMap::new();
    let settle = |to_check: &mut BTreeMap<StepId, BTreeSet<StepId>>, step: &StepId| {
        for open in to_check.values_mut() {
            open.remove(step);
        }
    };
    for event in events {
        match event {
            WorkflowEvent::ReworkComplete { step, .. } | WorkflowEvent::AnswerRefused { step, .. } => {
                // An agent that came to no good end has nothing that could be checked again.
                let is_due =
                    |id: &StepId| !workflow.step(id).unwrap().kind.has_agent() || completed.contains(id);
                let due = scripts_before(workflow, step).into_iter().filter(is_due).collect();
                scripts_due.insert(step.clone(), due);
            }
            WorkflowEvent::StepComplete { step, .. } | WorkflowEvent::StepSkipped { step, .. } => {
                settle(&mut scripts_due, step);
            }
            WorkflowEvent::StepError { step, retry_at: None, .. } => settle(&mut scripts_due, step),
            _ => {}
        }
        assert!(
            !is_over || matches!(event, WorkflowEvent::WorkflowResumed { .. }),
            "nothing follows the end but `resume`: {event:?}"
        );
        match event {
            WorkflowEvent::StepStart { step, attempt, work } => {
                assert!(attempts.insert((step.clone(), *attempt)), "attempt {attempt} of {step} began twice");
                assert!(!completed.contains(step), "{step} runs again though it is recorded as completed");
                let of = workflow.step(step).unwrap();
                let works = of.kind.uses_workspace() || *work == StepWorkKind::Rework;
                if works && (!of.worktree || work.is_in_workspace()) {
                    assert!(shared.is_empty() || shared.contains(step), "{step} works beside {shared:?}");
                    shared.insert(step.clone());
                }
            }
            WorkflowEvent::WaitStarted { step, attempt, .. } => {
                assert!(attempts.insert((step.clone(), *attempt)), "attempt {attempt} of {step} began twice");
            }
            WorkflowEvent::StepContinued { step, .. } => {
                let of = workflow.step(step).unwrap();
                if !of.worktree {
                    assert!(shared.is_empty(), "{step} goes on beside {shared:?}");
                    shared.insert(step.clone());
                }
            }
            WorkflowEvent::StepComplete { step, .. } => {
                shared.remove(step);
                assert!(completed.insert(step.clone()), "{step} completed twice");
                settle(&mut to_check, step);
            }
            WorkflowEvent::StepError { step, retry_at, .. } => {
                shared.remove(step);
                if retry_at.is_none() {
                    settle(&mut to_check, step);
                }
            }
            WorkflowEvent::StepHeld { step, .. } => {
                shared.remove(step);
            }
            WorkflowEvent::StepIterated { step, .. } | WorkflowEvent::ReworkComplete { step, .. } => {
                shared.remove(step);
                if matches!(event, WorkflowEvent::ReworkComplete { .. }) {
                    changed = Some(step.clone());
                }
            }
            WorkflowEvent::StepSkipped { step, .. } => settle(&mut to_check, step),
            WorkflowEvent::StepsReopened { steps, checks, .. } => {
                let steps: Vec<StepId> = steps.iter().chain(checks).cloned().collect();
                for step in &steps {
                    completed.remove(step);
                }
                let question = changed.take().expect("something has changed");
                to_check.insert(question, steps.iter().cloned().collect());
            }
            WorkflowEvent::WorkflowResumed { reopened, .. } => {
                for step in reopened {
                    assert!(!completed.contains(step), "{step} is completed and was reopened by `resume`");
                }
                is_over = false;
            }
            WorkflowEvent::QuestionAsked { question, step, tree, .. } => {
                assert!(
                    asked.insert(*question, (step.clone(), tree.clone())).is_none(),
                    "one number, one question"
                );
                let open = to_check.remove(step).unwrap_or_default();
                let unsettled = scripts_due.remove(step).unwrap_or_default();
                assert!(unsettled.is_empty(), "{step} asks before {unsettled:?} ran again");
                assert!(open.is_empty(), "{step} asks before {open:?} were checked again");
                let is_loop = matches!(workflow.step(step).unwrap().kind, StepKind::Loop(_));
                assert!(shared.is_empty() || is_loop, "{step} asks while {shared:?} works");
            }
            WorkflowEvent::QuestionAnswered { question, tree, follows, .. } => {
                let (_, about) = asked.remove(question).expect("a question that was asked and not answered");
                if *follows == AfterAnswer::Complete {
                    assert_eq!(*tree, about, "an approval of another tree");
                }
            }
            WorkflowEvent::AnswerRefused { question, step, .. } => {
                asked.remove(question).expect("a question that was asked and not answered");
                changed = Some(step.clone());
            }
            WorkflowEvent::WorkflowComplete { .. } | WorkflowEvent::WorkflowError(_) => {
                ends += 1;
                is_over = true;
                assert!(shared.is_empty(), "the run ends while {shared:?} works");
            }
            WorkflowEvent::WorkflowStart(_)
            | WorkflowEvent::ScriptStarted { .. }
            | WorkflowEvent::StepWorked { .. }
            | WorkflowEvent::WorkflowPaused { .. }
            | WorkflowEvent::WorkflowUnpaused
            | WorkflowEvent::BudgetExceeded { .. }
            | WorkflowEvent::WorkflowStopping { .. } => {}
        }
    }
    assert!(ends <= 1 + resumes, "one end, and one more for each `resume`");
}

#[test]
fn whatever_happens_no_step_runs_twice_and_no_approval_is_used_for_another_tree() {
    for_seeds(400, 0, 1, |seed| {
        let mut dice = Chance(seed);
        let began = any_workflow(&mut dice);
        let workflow = began.workflow.clone();
        let mut world = World::of(WorkflowProgress::default(), Vec::new());
        world.tell(WorkflowNews::Begin(Box::new(began)));
        for _ in 0..60 {
            world.happen(&mut dice);
        }
        let (history, boundaries) = (world.events.clone(), world.boundaries.clone());
        check(&workflow, &history, world.resumes);
        for (key, times) in &world.scripts_run {
            assert_eq!(*times, 1, "{key:?} was run {times} times");
        }
        world.drain();
        check(&workflow, &world.events, world.resumes);
        // A kill behind every decision: the performer that takes the run up brings it to its one end.
        for boundary in boundaries {
            let prefix = history[..boundary].to_vec();
            let resumes =
                prefix.iter().filter(|event| matches!(event, WorkflowEvent::WorkflowResumed { .. })).count();
            let mut later = World::of(WorkflowMachine::fold(&prefix), prefix);
            later.resumes = u32::try_from(resumes).unwrap();
            later.tree = 1000;
            later.drain();
            check(&workflow, &later.events, later.resumes);
            assert!(later.state.end().is_some());
        }
    });
}
