//! What follows from an input in each phase.

use std::path::PathBuf;

use jiff::Timestamp;

use super::{
    MAX_CONFLICTS, MergeEnd, Question, QuestionAbout, StageEnd, StageOrder, TaskEffect, TaskEnd,
    TaskEndReason, TaskEvent, TaskInput, TaskMachine, TaskNews, TaskPhase, TaskProgress, TaskStarted,
    UserAnswer,
};
use crate::{
    event::Reason,
    machine::{Machine, Step},
    plan::goes_on,
    stages::{
        FindingDecision, FindingState, MayWrite, RalphFailure, ReviewVerdict, StageIteration, StageName,
        StageTaskStatus, exceeded, is_test, prompt::for_task, replies, review,
    },
};

pub(super) fn decide(
    state: &TaskProgress,
    TaskInput { now, news }: TaskInput,
) -> Step<TaskEvent, TaskEffect> {
    let mut next = TaskDecision { state: state.clone(), now, events: Vec::new(), effects: Vec::new() };
    if let (TaskNews::Trouble(text), false) =
        (&news, matches!(state.phase, TaskPhase::NotStarted | TaskPhase::Over(_)))
    {
        next.warn(text);
    }
    match (state.phase.clone(), news) {
        (TaskPhase::NotStarted, TaskNews::Begin(started)) => next.begin(started),
        (TaskPhase::InStage { stage, run, is_held, user_says }, news) => {
            next.in_stage(stage, run, is_held, user_says, news);
        }
        (TaskPhase::Asking { number, question }, news) => next.asking(number, &question, news),
        (TaskPhase::Merging { tree, is_held }, news) => next.merging(tree, is_held, news),
        (TaskPhase::Paused { next: stage, tree, user_says }, news) => {
            next.paused(stage, &tree, user_says, news);
        }
        (TaskPhase::NotStarted | TaskPhase::Over(_) | TaskPhase::Between, _) => {}
    }
    Step { events: next.events, effects: next.effects }
}

/// A decision while it is made: the state that it leads to, and what it consists of.
struct TaskDecision {
    state: TaskProgress,
    now: Timestamp,
    events: Vec<TaskEvent>,
    effects: Vec<TaskEffect>,
}

impl TaskDecision {
    fn record(&mut self, event: TaskEvent) {
        TaskMachine::apply(&mut self.state, &event);
        self.events.push(event);
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.record(TaskEvent::Warned { text: text.into() });
    }

    fn begin(&mut self, started: Box<TaskStarted>) {
        let first = started.stages.first().map(|planned| planned.stage.name);
        self.record(TaskEvent::TaskStarted(started));
        match first {
            Some(stage) => self.start(stage, None),
            None => self.finish(TaskEndReason::Failed, "there is no stage"),
        }
    }

    /// Starts a stage under a new number.
    fn start(&mut self, stage: StageName, user_says: Option<String>) {
        let run = self.state.runs.saturating_add(1);
        let planned = self.state.planned(stage);
        let max_iterations = planned.map_or(1, |planned| planned.max_iterations);
        let task = self.state.started.as_ref().map(|started| &started.task);
        let promise = planned.zip(task).map(|(planned, task)| for_task(&planned.stage, task).promise);
        self.record(TaskEvent::StageStarted {
            stage,
            run,
            max_iterations,
            promise: promise.unwrap_or_default(),
            at: self.now,
            user_says: user_says.clone(),
        });
        self.effects.push(TaskEffect::SetStatus(StageTaskStatus::of_stage(stage)));
        self.order(stage, run, user_says);
    }

    fn order(&mut self, stage: StageName, run: u32, user_says: Option<String>) {
        let Some(started) = &self.state.started else { return };
        let Some(planned) = self.state.planned(stage) else { return };
        let max_iterations = planned.max_iterations;
        let stage = for_task(&planned.stage, &started.task);
        let answered_blocks = self.state.answered_blocks;
        self.effects.push(TaskEffect::RunStage(Box::new(StageOrder {
            run,
            stage,
            max_iterations,
            user_says,
            answered_blocks,
        })));
    }

    fn in_stage(
        &mut self,
        stage: StageName,
        run: u32,
        is_held: bool,
        user_says: Option<String>,
        news: TaskNews,
    ) {
        match news {
            TaskNews::StageEnded { run: ended, end } if ended == run && !is_held => {
                self.stage_ended(stage, run, &end);
            }
            TaskNews::IterationEnded { run: of, entry } if of == run => self.log(run, entry),
            TaskNews::WorktreeMade { path, branch, target } => self.made(path, branch, target),
            TaskNews::TakenUp if self.state.is_cancelling => {
                self.finish(TaskEndReason::Cancelled, "cancelled")
            }
            TaskNews::TakenUp if !is_held => self.order(stage, run, user_says),
            TaskNews::Resumed if is_held => {
                self.record(TaskEvent::StageResumed { stage, run, user_says: user_says.clone() });
                self.effects.push(TaskEffect::SetStatus(StageTaskStatus::of_stage(stage)));
                self.order(stage, run, user_says);
            }
            TaskNews::Cancel if is_held => self.finish(TaskEndReason::Cancelled, "cancelled"),
            TaskNews::Cancel if !self.state.is_cancelling => {
                self.record(TaskEvent::CancelRequested);
                self.effects.push(TaskEffect::StopStage { run });
            }
            TaskNews::Pause if !self.state.is_pausing => self.record(TaskEvent::PauseRequested),
            TaskNews::Unpause if self.state.is_pausing => self.record(TaskEvent::TaskUnpaused),
            // News of another run, or what nothing waits for.
            TaskNews::StageEnded { .. }
            | TaskNews::IterationEnded { .. }
            | TaskNews::TakenUp
            | TaskNews::Resumed
            | TaskNews::Cancel
            | TaskNews::Begin(_)
            | TaskNews::Trouble(_)
            | TaskNews::Pause
            | TaskNews::Unpause
            | TaskNews::Answered { .. }
            | TaskNews::MergeEnded(_) => {}
        }
    }

    fn made(&mut self, path: PathBuf, branch: String, target: String) {
        if self.state.worktree() != Some((&path, &branch)) || self.state.target != target {
            self.record(TaskEvent::WorktreeMade { path, branch, target });
        }
    }

    /// Each iteration is logged once, however often it is told.
    fn log(&mut self, run: u32, entry: Box<StageIteration>) {
        if !self.state.logged.contains(&(run, entry.ralph_iteration)) {
            self.record(TaskEvent::StageIteration { run, entry });
        }
    }

    fn stage_ended(&mut self, stage: StageName, run: u32, end: &StageEnd) {
        if self.state.is_cancelling || end.reason == Reason::Cancelled {
            return self.finish(TaskEndReason::Cancelled, "cancelled");
        }
        // A refusal counts when the reviewer came to its own end, whether its promise was believed or not.
        let came_to_an_end =
            matches!(end.reason, Reason::Done | Reason::Refused | Reason::MaxIterations | Reason::Stuck);
        // Between two stages nothing may change: no role would have looked at it.
        let is_other = |tree: &str| !tree.is_empty() && !end.began_with.is_empty() && tree != end.began_with;
        if came_to_an_end && stage != StageName::Coder && is_other(&self.state.passed_tree) {
            let why = format!("The files have changed between the stage before and the {stage}");
            return self.fail(stage, run, end, why);
        }
        if came_to_an_end && stage.role().may_write == MayWrite::Nothing && end.has_committed {
            return self.fail(stage, run, end, format!("The {stage} made commits, which is not its role"));
        }
        if came_to_an_end && stage.role().may_write == MayWrite::Nothing && !end.changed.is_empty() {
            let files = end.changed.join(", ");
            return self.fail(
                stage,
                run,
                end,
                format!("The {stage} changed files, which is not its role: {files}"),
            );
        }
        if came_to_an_end && stage == StageName::Reviewer {
            let mut read = review(&end.answer);
            if end.reason == Reason::Refused {
                read.is_refused_as(&end.detail);
            }
            if read.says_both {
                let words = "the reviewer both approves and refuses the work; the refusal counts";
                self.warn(words);
            }
            if read.verdict == ReviewVerdict::Refused || end.reason == Reason::Done {
                let round = self.state.ledger.judge(&read, &end.tree);
                self.record(TaskEvent::ReviewRound { round });
            }
            if read.verdict == ReviewVerdict::Refused {
                return self.refused(stage, run, end);
            }
        }
        match end.reason {
            Reason::Done => self.passed(stage, run, end),
            Reason::Blocked => {
                let text = match end.detail.strip_prefix("a gate cannot run: ") {
                    Some(why) => format!("A check of the {stage} cannot be run: {why}"),
                    None => {
                        let why = end.detail.strip_prefix("the agent is blocked: ").unwrap_or(&end.detail);
                        format!("The {stage} says that it cannot be done as asked: {why}")
                    }
                };
                let question = Question { stage, run, text, about: QuestionAbout::Blocked };
                self.ask(question, end);
            }
            reason if goes_on(reason) => {
                let detail = end.detail.clone();
                self.record(TaskEvent::StageHeld { stage, run, reason, detail: detail.clone() });
                self.effects.push(TaskEffect::Hold { reason, detail });
            }
            Reason::MaxIterations => {
                self.warn(exceeded(end.iterations));
                self.fail(stage, run, end, RalphFailure::MAX_ITERATIONS);
            }
            _ => self.fail(stage, run, end, end.detail.clone()),
        }
    }

    fn passed(&mut self, stage: StageName, run: u32, end: &StageEnd) {
        if stage == StageName::Coder && !self.state.ledger.findings.is_empty() {
            let replies = replies(&end.answer);
            if !replies.is_empty() {
                self.record(TaskEvent::CoderReplied { replies });
            }
        }
        let unreviewed: Vec<String> = match stage.role().may_write {
            MayWrite::Tests => end.changed.iter().filter(|path| !is_test(path)).cloned().collect(),
            MayWrite::Anything | MayWrite::Nothing => Vec::new(),
        };
        if !unreviewed.is_empty() {
            let files = unreviewed.join(", ");
            let words =
                format!("the {stage} changed files that are not tests, and no role reviews them: {files}");
            self.warn(words);
        }
        let deleted_tests: Vec<String> = match stage.role().may_write {
            MayWrite::Tests => end.deleted.iter().filter(|path| is_test(path)).cloned().collect(),
            MayWrite::Anything | MayWrite::Nothing => Vec::new(),
        };
        if !deleted_tests.is_empty() {
            let files = deleted_tests.join(", ");
            self.warn(format!("the {stage} deleted tests, and no role reviews that: {files}"));
        }
        self.record(TaskEvent::StagePassed {
            stage,
            run,
            iterations: end.iterations,
            tree: end.tree.clone(),
            changed: end.changed.clone(),
            unreviewed,
            deleted_tests,
            refusals: end.refusals.clone(),
            loop_id: end.loop_id.clone(),
        });
        self.go_on_behind(stage, &end.tree);
    }

    fn go_on_behind(&mut self, stage: StageName, tree: &str) {
        self.go_on_with(stage.next(), tree, None);
    }

    /// Begins what is next, or holds before it if the user wants that.
    fn go_on_with(&mut self, next: Option<StageName>, tree: &str, user_says: Option<String>) {
        if self.state.is_pausing {
            let tree = tree.to_owned();
            return self.record(TaskEvent::TaskPaused { next, tree, user_says });
        }
        match next {
            Some(next) => self.start(next, user_says),
            None => {
                self.record(TaskEvent::MergeStarted { tree: tree.to_owned() });
                self.effects.push(TaskEffect::Merge { tree: tree.to_owned() });
            }
        }
    }

    /// The reviewer refuses: the coder goes on, unless the review does not converge.
    fn refused(&mut self, stage: StageName, run: u32, end: &StageEnd) {
        let ledger = &self.state.ledger;
        match ledger.stalemate() {
            None => {
                let open = u32::try_from(ledger.open().count()).unwrap_or(u32::MAX);
                self.record(TaskEvent::SentBack { from: stage, open });
                self.go_on_with(Some(StageName::Coder), &end.tree, None);
            }
            Some(stalemate) => {
                let text = ledger.question(&stalemate);
                let about = QuestionAbout::Review { stalemate, tree: end.tree.clone() };
                self.ask(Question { stage, run, text, about }, end);
            }
        }
    }

    fn ask(&mut self, question: Question, end: &StageEnd) {
        let number = self.state.questions.saturating_add(1);
        let reason = question.text.lines().next().unwrap_or_default().to_owned();
        let failure = RalphFailure::new(question.stage, end.iterations, &end.answer, reason);
        self.record(TaskEvent::QuestionAsked { number, question, failure });
        self.effects.push(TaskEffect::SetStatus(StageTaskStatus::Todo));
        self.effects.push(TaskEffect::Ask { question: number });
    }

    fn asking(&mut self, number: u32, question: &Question, news: TaskNews) {
        match news {
            TaskNews::Answered { question: answered, answer, text, tree } if answered == number => {
                self.answered(number, question, answer, text, &tree);
            }
            TaskNews::TakenUp => self.effects.push(TaskEffect::Ask { question: number }),
            TaskNews::Cancel => self.finish(TaskEndReason::Cancelled, "cancelled"),
            TaskNews::Answered { .. }
            | TaskNews::Begin(_)
            | TaskNews::Trouble(_)
            | TaskNews::Pause
            | TaskNews::Unpause
            | TaskNews::Resumed
            | TaskNews::IterationEnded { .. }
            | TaskNews::StageEnded { .. }
            | TaskNews::WorktreeMade { .. }
            | TaskNews::MergeEnded(_) => {}
        }
    }

    fn answered(&mut self, number: u32, question: &Question, answer: UserAnswer, text: String, now: &str) {
        if let (QuestionAbout::Review { tree, .. }, UserAnswer::Approve) = (&question.about, answer)
            && tree != now
        {
            let why = "the files in its worktree are not those that the question is about".to_owned();
            self.record(TaskEvent::AnswerRefused { number, why });
            self.effects.push(TaskEffect::Ask { question: number });
            return;
        }
        let is_approved = answer == UserAnswer::Approve;
        let words = Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        let decisions = match (&question.about, is_approved) {
            (QuestionAbout::Review { .. }, true) => self
                .state
                .ledger
                .open()
                .map(|finding| FindingDecision {
                    number: finding.number,
                    state: FindingState::Deferred,
                    why: words.clone().unwrap_or_else(|| "the user takes the work as it is".to_owned()),
                })
                .collect(),
            _ => Vec::new(),
        };
        self.record(TaskEvent::QuestionAnswered { number, is_approved, text, decisions });
        let (stage, run) = (question.stage, question.run);
        match (&question.about, is_approved) {
            (QuestionAbout::Review { tree, .. }, true) => {
                let (tree, changed, unreviewed) = (tree.clone(), Vec::new(), Vec::new());
                self.record(TaskEvent::StagePassed {
                    stage,
                    run,
                    iterations: 0,
                    tree: tree.clone(),
                    changed,
                    unreviewed,
                    deleted_tests: Vec::new(),
                    refusals: Vec::new(),
                    loop_id: None,
                });
                self.go_on_behind(stage, &tree);
            }
            (QuestionAbout::Review { .. }, false) => self.start(StageName::Coder, words),
            (QuestionAbout::Blocked, true) => {
                self.record(TaskEvent::StageResumed { stage, run, user_says: words.clone() });
                self.effects.push(TaskEffect::SetStatus(StageTaskStatus::of_stage(stage)));
                self.order(stage, run, words);
            }
            (QuestionAbout::Blocked, false) => {
                let why = words.unwrap_or_else(|| "the user gave it up".to_owned());
                self.give_up(stage, run, why, Reason::Blocked);
            }
        }
    }

    /// The task goes back to `todo` without a loop that failed.
    fn give_up(&mut self, stage: StageName, run: u32, why: String, reason: Reason) {
        let failure = RalphFailure::new(stage, 0, "", why.clone());
        self.record(TaskEvent::StageFailed { run, failure, why: reason, refusals: Vec::new() });
        self.effects.push(TaskEffect::SetStatus(StageTaskStatus::Todo));
        self.finish_with(TaskEndReason::Failed, why, Reason::Error.exit_code());
    }

    fn merging(&mut self, tree: String, is_held: bool, news: TaskNews) {
        match news {
            // A merge cannot be taken back: what is merged is done, though the user wanted to cancel.
            TaskNews::MergeEnded(MergeEnd::Merged { commit }) if !is_held => {
                self.record(TaskEvent::TaskMerged { commit: commit.clone() });
                self.effects.push(TaskEffect::SetStatus(StageTaskStatus::Done));
                self.effects.push(TaskEffect::Tidy { commit });
                self.finish(TaskEndReason::Done, "done");
            }
            TaskNews::MergeEnded(_) if !is_held && self.state.is_cancelling => {
                self.finish(TaskEndReason::Cancelled, "cancelled");
            }
            TaskNews::MergeEnded(MergeEnd::Refused { why }) if !is_held => {
                self.give_up(StageName::Qa, self.state.runs, why, Reason::Error);
            }
            TaskNews::MergeEnded(MergeEnd::Conflict { paths }) if !is_held => self.conflicted(paths),
            TaskNews::MergeEnded(MergeEnd::Held { reason, detail }) if !is_held => {
                self.record(TaskEvent::MergeHeld { reason, detail: detail.clone() });
                self.effects.push(TaskEffect::Hold { reason, detail });
            }
            TaskNews::TakenUp if !is_held => self.effects.push(TaskEffect::Merge { tree }),
            TaskNews::Resumed if is_held => {
                self.record(TaskEvent::MergeResumed);
                self.effects.push(TaskEffect::Merge { tree });
            }
            TaskNews::Cancel if is_held => self.finish(TaskEndReason::Cancelled, "cancelled"),
            TaskNews::Cancel if !self.state.is_cancelling => self.record(TaskEvent::CancelRequested),
            TaskNews::MergeEnded(_)
            | TaskNews::TakenUp
            | TaskNews::Resumed
            | TaskNews::Cancel
            | TaskNews::Begin(_)
            | TaskNews::Trouble(_)
            | TaskNews::Pause
            | TaskNews::Unpause
            | TaskNews::IterationEnded { .. }
            | TaskNews::StageEnded { .. }
            | TaskNews::WorktreeMade { .. }
            | TaskNews::Answered { .. } => {}
        }
    }

    fn paused(&mut self, next: Option<StageName>, tree: &str, user_says: Option<String>, news: TaskNews) {
        match news {
            TaskNews::Unpause | TaskNews::Resumed => {
                self.record(TaskEvent::TaskUnpaused);
                self.go_on_with(next, tree, user_says);
            }
            TaskNews::Cancel => self.finish(TaskEndReason::Cancelled, "cancelled"),
            TaskNews::TakenUp
            | TaskNews::Pause
            | TaskNews::Trouble(_)
            | TaskNews::WorktreeMade { .. }
            | TaskNews::Begin(_)
            | TaskNews::IterationEnded { .. }
            | TaskNews::StageEnded { .. }
            | TaskNews::MergeEnded(_)
            | TaskNews::Answered { .. } => {}
        }
    }

    /// The coder brings the task and its target together, and the stages behind it look at the result.
    fn conflicted(&mut self, paths: Vec<String>) {
        let files = paths.join(", ");
        if self.state.conflicts.saturating_add(1) >= MAX_CONFLICTS {
            let why = format!("it cannot be merged: the target has changed in the same places: {files}");
            return self.give_up(StageName::Qa, self.state.runs, why, Reason::Error);
        }
        self.record(TaskEvent::MergeConflicted { paths });
        let words = format!(
            "The branch that this task is merged into has changed in the same places as you did. Its changes were merged into \
             yours; these files hold both, with conflict marks between them: {files}. Bring them together and commit."
        );
        self.start(StageName::Coder, Some(words));
    }

    /// The task goes back to `todo`, with the reason beside it.
    fn fail(&mut self, stage: StageName, run: u32, end: &StageEnd, reason: impl Into<String>) {
        let failure = RalphFailure::new(stage, end.iterations, &end.answer, reason);
        let detail = failure.reason.clone();
        let refusals = end.refusals.clone();
        self.record(TaskEvent::StageFailed { run, failure, why: end.reason, refusals });
        self.effects.push(TaskEffect::SetStatus(StageTaskStatus::Todo));
        let exit_code = if end.reason == Reason::Done { Reason::Error } else { end.reason }.exit_code();
        self.finish_with(TaskEndReason::Failed, detail, exit_code);
    }

    fn finish(&mut self, end: TaskEndReason, detail: impl Into<String>) {
        let reason = match end {
            TaskEndReason::Done => Reason::Done,
            TaskEndReason::Failed => Reason::Error,
            TaskEndReason::Cancelled => Reason::Cancelled,
        };
        self.finish_with(end, detail, reason.exit_code());
    }

    fn finish_with(&mut self, end: TaskEndReason, detail: impl Into<String>, exit_code: u8) {
        if end == TaskEndReason::Cancelled {
            self.effects.push(TaskEffect::SetStatus(StageTaskStatus::Todo));
        }
        let end = TaskEnd { end, detail: detail.into(), exit_code };
        self.record(TaskEvent::TaskFinished(end.clone()));
        self.effects.push(TaskEffect::End(end));
    }
}
