//! What follows from an input. Reads no clock, no file, no global.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    AfterLook, BaselineState, BranchFacts, CHASES, CutFacts, LoopPlace, MergeFacts, MergeView, MergedTrees,
    Merging, PullRequestEnd, Restore, Take, TargetFacts, TargetMove, TargetTaken, UnitBrief, UnitEffect,
    UnitEvent, UnitInput, UnitNote, UnitPlan, UnitProgress, UnitStage, WorktreeFacts,
    rules::{self, TasksCallFor, end_of},
};
use crate::{
    event::{RunEvent, UnitEnd},
    machine::{Machine, Step},
    plan::{CutLoop, LoopEnd, LoopOrder, PlanStep, Purpose},
    unit::{
        Task, TaskSet, TaskStatus, prompt,
        schedule::Job,
        settings::{BaselineCheck, MustHold},
    },
    view::run_again,
};

impl Machine for UnitPlan {
    type State = UnitProgress;
    type Input = UnitInput;
    type Event = UnitEvent;
    type Effect = UnitEffect;

    fn decide(state: &UnitProgress, input: UnitInput) -> Step<UnitEvent, UnitEffect> {
        let of = |brief: &Arc<UnitBrief>| UnitDecision {
            brief: Arc::clone(brief),
            state: state.clone(),
            events: Vec::new(),
            effects: Vec::new(),
        };
        let decision = match (&state.brief, input) {
            (None, UnitInput::Begin(brief)) => of(&brief).begin(),
            (None, _) => return Step::default(),
            (Some(brief), input) => of(brief).take(input),
        };
        Step { events: decision.events, effects: decision.effects }
    }

    fn apply(state: &mut UnitProgress, event: &UnitEvent) {
        state.apply(event);
    }
}

/// One decision in the making: a copy of the state that each event is folded into at once.
struct UnitDecision {
    brief: Arc<UnitBrief>,
    state: UnitProgress,
    events: Vec<UnitEvent>,
    effects: Vec<UnitEffect>,
}

impl UnitDecision {
    fn take(mut self, input: UnitInput) -> Self {
        use {UnitInput as In, UnitStage as At};
        match (self.state.stage.clone(), input) {
            (At::New | At::Over, _) => {}
            // The target holds the unit: what is left to do is soon done.
            (At::Tidying, In::StopAsked) => {}
            (_, In::StopAsked) => self.end(UnitEnd::Stopped, "stopped between two loops"),
            (_, In::Failed { end, detail }) => self.end(end, detail),

            // Work: up to the first look at the tasks.
            (At::MakingWorktree, In::WorktreeMade(worktree)) => self.worktree_made(worktree),
            (At::SettingUp, In::SetUp(Ok(()))) => self.set_up(),
            (At::SettingUp, In::SetUp(Err(why))) => {
                self.end(UnitEnd::Setup, format!("worktree.setup: {why}"));
            }
            (At::RestoringBranch, In::BranchRestored(note)) => {
                self.warn(note);
                self.go(At::ComparingWithTarget, UnitEffect::CompareWithTarget);
            }
            (At::ComparingWithTarget, In::TargetCompared(facts)) => self.target_compared(facts),
            (At::FindingCutLoop(facts), In::CutLoopFound { cut, tasks }) => {
                self.cut_loop_found(facts, cut.as_ref(), &tasks);
            }
            (At::TakingTarget(facts), In::TargetTaken(taken)) => self.target_taken(&facts, &taken),
            (At::LookingAtBranch(next), In::BranchSeen(branch)) => self.branch_seen(next, branch),
            (At::ReadingTasks, In::TasksRead(tasks)) => self.tasks_read(tasks),
            (At::FindingProofs { new }, In::ProofsFound(proven)) => {
                self.reopen(new.into_iter().filter(|task| !proven.contains(task)).collect());
                self.start_work();
            }
            (At::TakingTargetBack { red }, In::TargetTaken(taken)) => self.target_taken_back(red, taken),
            (At::FindingMustHold { red }, In::MustHoldFound(must_hold)) => self.fix_merge(&red, &must_hold),

            // Work: from loop to loop.
            (At::KeepingBranch, In::BranchRestored(None)) => self.look_at_tasks(),
            (At::KeepingBranch, In::BranchRestored(note)) => {
                // What was committed elsewhere is not on the branch that gets merged, nor is what was taken off it.
                self.warn(note);
                self.note(UnitNote::Checks(BaselineState::Due));
                self.look_at_branch(AfterLook::GoOn);
            }
            (At::LookingAtTasks, In::TasksSeen { statuses, cut }) => self.tasks_seen(&statuses, cut),
            (At::SettingStatuses, In::StatusesSet) => self.go_on(),
            (At::FindingChecks, In::ChecksFound(checks)) => self.run_checks(&checks),
            (At::Looping { step, set }, In::LoopEnded(end)) => self.loop_ended(step, set, *end),
            (At::MarkingFailed { task, detail }, In::StatusesSet) => {
                self.tell(RunEvent::TaskFailed { task, detail: detail.clone() });
                self.end(UnitEnd::Exhausted, format!("task #{task} was given up: {detail}"));
            }
            (At::RestoringLostCommits, In::BranchRestored(note)) => {
                self.warn(note);
                self.note(UnitNote::Checks(BaselineState::Due));
                self.look_at_branch(AfterLook::GoOn);
            }

            // Merge.
            (At::MergingTrees(merging), In::TreesMerged(facts)) => self.trees_merged(merging, facts),
            (At::LayingOut(merging), In::LaidOut(Ok(must_hold))) => self.laid_out(merging, must_hold),
            (At::LayingOut(_), In::LaidOut(Err(why))) => {
                self.end(UnitEnd::Setup, format!("setup of the merged tree: {why}"));
            }
            (At::CheckingTree(merging, must_hold), In::LoopEnded(end)) => {
                self.tree_checked(merging, must_hold, *end);
            }
            (At::FindingMustHoldAgain(merging, before), In::MustHoldFound(must_hold)) => {
                if must_hold == *before {
                    self.commit_merge(merging);
                } else {
                    // The agent that resolved it has changed files of units that had nothing to do with it.
                    self.lay_out(merging);
                }
            }
            (At::CommittingMerge(merging), In::MergeCommitted(commit)) => self.look_at_merge(merging, commit),
            (At::LookingAtMerge { merging, commit }, In::MergeSeen(view)) => {
                self.merge_seen(merging, commit, &view);
            }
            (At::MovingTarget { merging, commit }, In::TargetMoved(moved)) => {
                self.target_moved(&merging, commit, moved);
            }
            (At::Tidying, In::Tidied { removed, warnings }) => {
                warnings.into_iter().for_each(|text| self.warn(Some(text)));
                if let Some(path) = removed {
                    self.tell(RunEvent::WorktreeRemoved { path });
                }
                self.enter(At::Over);
            }

            // Publish.
            (At::LookingAtRoute, In::RouteSeen { branch, changed, remote }) => {
                self.route_seen(&branch, &changed, remote);
            }
            (At::Pushing { remote, branch }, In::Pushed) => {
                self.tell(RunEvent::BranchPushed { branch, remote });
                self.go(At::OpeningPullRequest, UnitEffect::OpenPullRequest);
            }
            (At::OpeningPullRequest, In::PullRequest(end)) => self.pull_request(end),

            // News that the plan does not wait for changes nothing.
            (
                At::MakingWorktree
                | At::SettingUp
                | At::RestoringBranch
                | At::ComparingWithTarget
                | At::FindingCutLoop(_)
                | At::TakingTarget(_)
                | At::LookingAtBranch(_)
                | At::ReadingTasks
                | At::FindingProofs { .. }
                | At::TakingTargetBack { .. }
                | At::FindingMustHold { .. }
                | At::KeepingBranch
                | At::LookingAtTasks
                | At::SettingStatuses
                | At::FindingChecks
                | At::Looping { .. }
                | At::MarkingFailed { .. }
                | At::RestoringLostCommits
                | At::MergingTrees(_)
                | At::LayingOut(_)
                | At::CheckingTree(..)
                | At::FindingMustHoldAgain(..)
                | At::CommittingMerge(_)
                | At::LookingAtMerge { .. }
                | At::MovingTarget { .. }
                | At::Tidying
                | At::LookingAtRoute
                | At::Pushing { .. }
                | At::OpeningPullRequest,
                _,
            ) => {}
        }
        self
    }

    // --- work, up to the first look at the tasks ------------------------------------------------------------

    fn begin(mut self) -> Self {
        self.note(UnitNote::Brief(Arc::clone(&self.brief)));
        match self.brief.job {
            Job::Work { .. } => self.go(UnitStage::MakingWorktree, UnitEffect::MakeWorktree),
            Job::Merge => self.merge_trees(0),
            Job::Publish => self.go(UnitStage::LookingAtRoute, UnitEffect::LookAtRoute),
        }
        self
    }

    fn worktree_made(&mut self, worktree: WorktreeFacts) {
        let is_set_up = worktree.is_set_up;
        self.note(UnitNote::Worktree(worktree));
        if is_set_up {
            self.restore_branch();
        } else {
            self.go(UnitStage::SettingUp, UnitEffect::SetUp);
        }
    }

    /// A worktree is told only when it is set up: after a crash in between, its setup runs again.
    fn set_up(&mut self) {
        if let Some(WorktreeFacts { path, branch, base, .. }) = self.state.worktree.clone() {
            self.tell(RunEvent::WorktreeCreated { path, branch, base });
        }
        self.restore_branch();
    }

    fn restore_branch(&mut self) {
        let effect = UnitEffect::RestoreBranch(Restore::NewestProven);
        self.go(UnitStage::RestoringBranch, effect);
    }

    /// A branch with nothing of its own follows the target, and so does one whose task files have changed there.
    fn target_compared(&mut self, facts: TargetFacts) {
        let has_nothing_of_its_own = facts.base.as_ref() == Some(&facts.head);
        match (&facts.base, has_nothing_of_its_own, facts.is_outdated) {
            _ if facts.head == facts.tip => self.first_look(),
            (None, ..) | (_, false, false) => self.first_look(),
            (_, true, false) => {
                let head = facts.head.clone();
                self.go(UnitStage::FindingCutLoop(facts), UnitEffect::FindCutLoop { head });
            }
            (_, true, true) => {
                self.go(UnitStage::TakingTarget(facts), UnitEffect::TakeTarget(Take::Forward));
            }
            (_, false, true) => {
                self.go(UnitStage::TakingTarget(facts), UnitEffect::TakeTarget(Take::Merge));
            }
        }
    }

    /// A loop that was cut short goes on only where it began: elsewhere it would take what others have merged for its
    /// agent's doing.
    fn cut_loop_found(&mut self, facts: TargetFacts, cut: Option<&CutFacts>, tasks: &[Task]) {
        if cut.is_some_and(|cut| rules::is_ours(cut, &self.brief, &facts.head, tasks)) {
            self.first_look();
        } else {
            self.go(UnitStage::TakingTarget(facts), UnitEffect::TakeTarget(Take::Forward));
        }
    }

    /// Files that an agent or a user changed in the worktree hold it where it is, and that is said.
    fn target_taken(&mut self, facts: &TargetFacts, taken: &TargetTaken) {
        if facts.is_outdated && *taken != TargetTaken::Taken {
            self.warn(Some(format!(
                "its task files have changed in `{}`, and its worktree still has the old ones, because of uncommitted files \
                 or a conflict: `{}`",
                self.brief.target,
                facts.catch_up
            )));
        }
        self.first_look();
    }

    fn first_look(&mut self) {
        // An agent may have staged what was never accepted; nothing of the user's is there.
        if self.state.worktree.as_ref().is_some_and(|worktree| !worktree.is_new) {
            self.effects.push(UnitEffect::Unstage);
        }
        self.look_at_branch(AfterLook::Begin);
    }

    fn look_at_branch(&mut self, next: AfterLook) {
        self.go(UnitStage::LookingAtBranch(next), UnitEffect::LookAtBranch);
    }

    fn branch_seen(&mut self, next: AfterLook, seen: BranchFacts) {
        let before = self.state.proven.clone();
        let BranchFacts { branch, base, head, tip, accepted, .. } = seen.clone();
        self.note(UnitNote::Branch(seen));
        match next {
            AfterLook::Begin => {
                self.go(UnitStage::ReadingTasks, UnitEffect::ReadTasks { commit: base });
            }
            AfterLook::GoOn => self.go_on(),
            AfterLook::TargetTakenBack { red } => {
                let (tree, commit) = (head.clone(), head);
                let effect = UnitEffect::FindMustHold { tip, tree, commit };
                self.go(UnitStage::FindingMustHold { red }, effect);
            }
            // An agent or a user took commits off the branch this very moment.
            AfterLook::Complete if self.state.proven != before => {
                let effect = UnitEffect::RestoreBranch(Restore::NewestProven);
                self.go(UnitStage::RestoringLostCommits, effect);
            }
            AfterLook::Complete if head != accepted => self.end(UnitEnd::Error, unproven_commits(&branch)),
            AfterLook::Complete => {
                self.tell(RunEvent::UnitCompleted { commit: head });
                self.enter(UnitStage::Over);
            }
            AfterLook::Publish { .. } if head != accepted => {
                self.end(UnitEnd::Merge, unproven_commits(&branch));
            }
            AfterLook::Publish { remote } => {
                let stage = UnitStage::Pushing { remote: remote.clone(), branch };
                self.go(stage, UnitEffect::Push { commit: head, remote });
            }
        }
    }

    /// A target that says more of this unit than it said when the run began has to prove it: an agent can move branches.
    fn tasks_read(&mut self, tasks: Vec<Task>) {
        let new = rules::newly_complete(&self.brief, &tasks);
        self.note(UnitNote::Tasks(tasks));
        if new.is_empty() {
            self.start_work();
        } else {
            let commit = self.state.base.clone();
            self.go(UnitStage::FindingProofs { new }, UnitEffect::FindProofs { commit });
        }
    }

    /// Takes these tasks for open, whatever the target says of them: no receipt proves them.
    fn reopen(&mut self, unproven: Vec<u32>) {
        if unproven.is_empty() {
            return;
        }
        self.warn(Some(rules::said_without_proof(&self.brief.target, &unproven)));
        let mut tasks = self.state.tasks.clone();
        for task in tasks.iter_mut().filter(|task| unproven.contains(&task.spec.number)) {
            task.status = TaskStatus::Pending;
        }
        self.note(UnitNote::Tasks(tasks));
    }

    fn start_work(&mut self) {
        let state = &self.state;
        let tasks = state.tasks.clone();
        // Nothing of it is new to the target: an earlier job was cut short behind its merge.
        let is_merged =
            state.head == state.base && tasks.iter().all(|task| task.status == TaskStatus::Complete);
        self.effects.push(UnitEffect::SweepTaskFiles { tasks });
        if is_merged {
            self.note(UnitNote::Checks(BaselineState::Hold));
        }
        match &self.brief.job {
            Job::Work { back: Some(red) } => {
                let red = red.clone();
                self.note(UnitNote::Checks(BaselineState::Hold));
                self.go(UnitStage::TakingTargetBack { red }, UnitEffect::TakeTarget(Take::Merge));
            }
            _ => self.go_on(),
        }
    }

    // --- a unit that was sent back --------------------------------------------------------------------------

    /// The merged tree was red: the target comes into the unit's branch, and what was red is mended there.
    fn target_taken_back(&mut self, red: String, taken: TargetTaken) {
        match taken {
            TargetTaken::Taken => self.look_at_branch(AfterLook::TargetTakenBack { red }),
            TargetTaken::Nothing => {
                let tip = self.state.tip.clone();
                let head = self.state.head.clone();
                let effect = UnitEffect::FindMustHold { tip, tree: head.clone(), commit: head };
                self.go(UnitStage::FindingMustHold { red }, effect);
            }
            // The target moved on and conflicts by now: that is the next merge's business.
            TargetTaken::Conflict => self.go_on(),
            TargetTaken::NotClean(detail) => self.end(UnitEnd::Error, detail),
        }
    }

    fn fix_merge(&mut self, red: &str, must_hold: &MustHold) {
        let UnitBrief { unit, target, settings, .. } = &*Arc::clone(&self.brief);
        let accepted = &self.state.accepted;
        let order = LoopOrder {
            purpose: Purpose::proof(PlanStep::SentBack, settings, unit, accepted, must_hold),
            policy: settings.sent_back(unit, must_hold),
            prompt: format!("{}\n\n{red}\n", prompt::fix_merge(unit, target)),
            base: Some(accepted.clone()),
        };
        self.run_loop(None, order);
    }

    // --- from loop to loop ----------------------------------------------------------------------------------

    /// Work that is not on the branch is not merged: before each look at the tasks the branch is put back where it was.
    fn go_on(&mut self) {
        let commit = self.state.accepted.clone();
        self.go(UnitStage::KeepingBranch, UnitEffect::RestoreBranch(Restore::Commit(commit)));
    }

    fn look_at_tasks(&mut self) {
        let (tasks, accepted) = (self.state.tasks.clone(), self.state.accepted.clone());
        self.go(UnitStage::LookingAtTasks, UnitEffect::LookAtTasks { tasks, accepted });
    }

    fn tasks_seen(&mut self, statuses: &[TaskStatus], cut: Option<CutFacts>) {
        let state = &self.state;
        if let Some(CutFacts { cut, .. }) =
            cut.as_ref().filter(|cut| rules::is_ours(cut, &self.brief, &state.accepted, &state.tasks))
        {
            let step = cut.purpose.as_ref().map_or(PlanStep::Turn, |purpose| purpose.step);
            let stage = UnitStage::Looping { step, set: cut.tasks.clone() };
            return self.go(stage, UnitEffect::ResumeLoop { id: cut.id.clone(), grant: cut.grant() });
        }
        let mut tasks = state.tasks.clone();
        for (task, status) in tasks.iter_mut().zip(statuses) {
            task.status = *status;
        }
        let call = rules::tasks_call_for(&self.brief, tasks, &state.tasks, &state.proven, state.checks);
        match call {
            TasksCallFor::Statuses(statuses) => {
                let tasks = self.state.tasks.clone();
                self.go(UnitStage::SettingStatuses, UnitEffect::SetStatuses { tasks, statuses });
            }
            TasksCallFor::Turn(set) => self.run_turn(set, cut.map(|facts| facts.cut)),
            TasksCallFor::Checks => self.go(UnitStage::FindingChecks, UnitEffect::FindChecks),
            TasksCallFor::Nothing => self.look_at_branch(AfterLook::Complete),
            TasksCallFor::End(end, detail) => self.end(end, detail),
        }
    }

    /// `cut` is a loop that was cut short and does not go on: what the user said to it, the next agent hears.
    fn run_turn(&mut self, set: TaskSet, cut: Option<CutLoop>) {
        let UnitBrief { unit, settings, .. } = &*Arc::clone(&self.brief);
        let accepted = &self.state.accepted;
        let mut words = prompt::turn(&set);
        for number in &set.ready {
            if let Some(output) = self.state.red.get(number) {
                words.push_str(&prompt::was_red(*number, output));
            }
        }
        for said in cut.iter().flat_map(|cut| &cut.unheard) {
            words.push_str(&crate::prompt::said(said));
        }
        let order = LoopOrder {
            purpose: Purpose::turn(settings, unit, accepted, set.tasks.iter().map(|task| &task.spec)),
            policy: settings.turn(set.clone(), !self.state.proven.is_empty()),
            prompt: words,
            base: Some(accepted.clone()),
        };
        self.run_loop(Some(set), order);
    }

    /// The checks after all tasks, with an agent to turn red ones green.
    fn run_checks(&mut self, checks: &[BaselineCheck]) {
        if checks.is_empty() {
            self.note(UnitNote::Checks(BaselineState::Hold));
            return self.go_on();
        }
        let UnitBrief { unit, settings, .. } = &*Arc::clone(&self.brief);
        let accepted = &self.state.accepted;
        let commands: Vec<(&str, &str)> =
            checks.iter().map(|check| (check.name.as_str(), check.run.as_str())).collect();
        let order = LoopOrder {
            purpose: Purpose::baseline(settings, unit, accepted, checks),
            policy: settings.baseline(unit, &self.state.tasks, checks),
            prompt: prompt::fix_baseline(unit, &commands),
            base: Some(accepted.clone()),
        };
        self.run_loop(None, order);
    }

    fn run_loop(&mut self, set: Option<TaskSet>, order: LoopOrder) {
        let stage = UnitStage::Looping { step: order.purpose.step, set };
        self.go(stage, UnitEffect::RunLoop(LoopPlace::Worktree, Box::new(order)));
    }

    fn loop_ended(&mut self, step: PlanStep, set: Option<TaskSet>, loop_end: LoopEnd) {
        let Some(end) = end_of(loop_end.reason, rules::exhausted(step)) else {
            return self.loop_done(step, loop_end);
        };
        self.note(UnitNote::FailedLoop(Some(loop_end.id.clone())));
        match (end, set) {
            // The scheduler passes every reason for which a run ends on to its jobs as it passes on Ctrl-C.
            (UnitEnd::Stopped, _) => self.end(end, "stopped with its run"),
            (UnitEnd::Exhausted, Some(set)) => self.give_up(&set, loop_end),
            _ => self.end(end, loop_end.detail),
        }
    }

    fn loop_done(&mut self, step: PlanStep, loop_end: LoopEnd) {
        self.note(UnitNote::FailedLoop(None));
        if let Some(proof) = loop_end.proof {
            self.note(UnitNote::Proven { tasks: proof.tasks, commit: proof.commit });
        }
        let mut red: BTreeMap<u32, String> = self.state.red.clone();
        red.extend(loop_end.outputs);
        red.retain(|task, output| !output.is_empty() && !self.state.proven.contains(task));
        self.note(UnitNote::Red(red));
        // A pause after the iteration that ended the loop holds the unit.
        if loop_end.is_paused {
            let UnitBrief { settings, merge, .. } = &*Arc::clone(&self.brief);
            let again = run_again(None, *merge, settings.typed_target.as_deref());
            return self.end(UnitEnd::Stopped, format!("paused; `{again}` goes on"));
        }
        match step {
            // A unit starts no loop of a workflow or of a stage.
            PlanStep::Turn | PlanStep::Workflow | PlanStep::Stage | PlanStep::StageMerge => self.go_on(),
            PlanStep::Baseline => {
                self.note(UnitNote::Checks(BaselineState::Hold));
                self.go_on();
            }
            PlanStep::SentBack | PlanStep::Merge | PlanStep::Conflict => {
                self.note(UnitNote::Checks(BaselineState::Hold));
                self.look_at_branch(AfterLook::GoOn);
            }
        }
    }

    /// Marks the task that the turn failed at, so that it is not taken for ready again.
    fn give_up(&mut self, set: &TaskSet, end: LoopEnd) {
        let mut detail = end.detail;
        match (end.refusal, end.agent_error) {
            (Some(refusal), _) => detail = format!("{detail}; the last was refused: {refusal}"),
            (None, Some(error)) => detail = format!("{detail}; the last agent failed: {error}"),
            (None, None) => {}
        }
        match rules::given_up(set, end.last_claimed) {
            None => self.end(UnitEnd::Exhausted, detail),
            Some(task) => {
                let (tasks, statuses) = (set.tasks.clone(), vec![(task, TaskStatus::Failed)]);
                let stage = UnitStage::MarkingFailed { task, detail };
                self.go(stage, UnitEffect::SetStatuses { tasks, statuses });
            }
        }
    }

    // --- merge ----------------------------------------------------------------------------------------------

    fn merge_trees(&mut self, chases: u32) {
        let merging = Merging { chases, ..Merging::default() };
        self.go(UnitStage::MergingTrees(merging), UnitEffect::MergeTrees);
    }

    fn trees_merged(&mut self, merging: Merging, facts: MergeFacts) {
        let MergeFacts { tip, head, branch, merged } = facts;
        let merging = Merging { tip, head, branch, ..merging };
        match merged {
            // An earlier job was cut short behind its merge.
            MergedTrees::Nothing => {
                let commit = merging.tip.clone();
                self.look_at_merge(merging, commit);
            }
            MergedTrees::Clean { tree } => self.lay_out(Merging { tree, ..merging }),
            MergedTrees::Conflict { tree, paths } => {
                self.tell(RunEvent::PrConflict { paths: paths.clone() });
                self.lay_out(Merging { tree, conflict: paths, ..merging });
            }
        }
    }

    fn lay_out(&mut self, merging: Merging) {
        let effect = UnitEffect::LayOut { tip: merging.tip.clone(), tree: merging.tree.clone() };
        self.go(UnitStage::LayingOut(merging), effect);
    }

    /// Everything that must hold runs on the merged tree; after a conflict an agent works on it first.
    fn laid_out(&mut self, merging: Merging, must_hold: MustHold) {
        let UnitBrief { unit, target, settings, .. } = &*Arc::clone(&self.brief);
        let has_conflict = !merging.conflict.is_empty() && !merging.is_resolved;
        let (step, policy, prompt) = if has_conflict {
            let paths = &merging.conflict;
            let policy = settings.conflict(unit, &must_hold, paths);
            (PlanStep::Conflict, policy, prompt::resolve_conflict(unit, target, paths))
        } else {
            let prompt = format!("The merge of unit {unit} is checked.");
            (PlanStep::Merge, settings.merged(unit, &must_hold), prompt)
        };
        if policy.gates.specs.is_empty() {
            return self.commit_merge(merging);
        }
        let purpose = Purpose::proof(step, settings, unit, &merging.tip, &must_hold);
        let order = LoopOrder { purpose, policy, prompt, base: None };
        let stage = UnitStage::CheckingTree(merging, Box::new(must_hold));
        self.go(stage, UnitEffect::RunLoop(LoopPlace::Scratch, Box::new(order)));
    }

    fn tree_checked(&mut self, merging: Merging, must_hold: Box<MustHold>, end: LoopEnd) {
        let has_conflict = !merging.conflict.is_empty();
        let failed = (end_of(end.reason, UnitEnd::Merge).is_some()).then(|| end.id.clone());
        self.note(UnitNote::FailedLoop(failed));
        match end_of(end.reason, UnitEnd::Merge) {
            None if has_conflict && !merging.is_resolved => {
                let Some(tree) = end.proof.and_then(|proof| proof.tree) else {
                    return self.end(UnitEnd::Error, format!("loop {} kept no tree", end.id));
                };
                let (tip, commit) = (merging.tip.clone(), merging.tip.clone());
                let effect = UnitEffect::FindMustHold { tip, tree: tree.clone(), commit };
                let merging = Merging { tree, is_resolved: true, ..merging };
                self.go(UnitStage::FindingMustHoldAgain(merging, must_hold), effect);
            }
            // What setup wrote is no part of it.
            None => self.commit_merge(merging),
            Some(UnitEnd::Merge) if has_conflict => self.end(
                UnitEnd::Merge,
                format!(
                    "`{}` conflicts with `{}` in {}, and no agent could resolve it ({}); both branches are as they were",
                    merging.branch,
                    self.brief.target,
                    merging.conflict.join(", "),
                    end.detail
                ),
            ),
            Some(UnitEnd::Merge) => {
                self.tell(RunEvent::UnitSentBack { detail: end.detail });
                self.enter(UnitStage::Over);
            }
            Some(other) => self.end(other, end.detail),
        }
    }

    fn commit_merge(&mut self, merging: Merging) {
        self.effects.push(UnitEffect::DropScratch);
        let Merging { tree, tip, head, .. } = merging.clone();
        self.go(UnitStage::CommittingMerge(merging), UnitEffect::CommitMerge { tree, tip, head });
    }

    fn look_at_merge(&mut self, merging: Merging, commit: String) {
        let effect = UnitEffect::LookAtMerge { tip: merging.tip.clone(), commit: commit.clone() };
        self.go(UnitStage::LookingAtMerge { merging, commit }, effect);
    }

    fn merge_seen(&mut self, merging: Merging, commit: String, view: &MergeView) {
        // Nothing to merge is a merged unit only if the target has all of it.
        if commit == merging.tip
            && let Some(task) = view.tasks.iter().find(|task| task.status != TaskStatus::Complete)
        {
            let target = &self.brief.target;
            let number = task.spec.number;
            let detail =
                format!("there is nothing to merge, and task #{number} is not complete in `{target}`");
            return self.end(UnitEnd::Merge, detail);
        }
        if let Some(file) = rules::foreign_change(view) {
            let detail = format!("the merge would change `{file}` in a way that nothing proves");
            return self.end(UnitEnd::Merge, detail);
        }
        let effect = UnitEffect::MoveTarget { commit: commit.clone() };
        self.go(UnitStage::MovingTarget { merging, commit }, effect);
    }

    fn target_moved(&mut self, merging: &Merging, commit: String, moved: TargetMove) {
        let left_on = match moved {
            TargetMove::Overtaken if merging.chases + 1 >= CHASES => {
                let detail = format!("the target moved {CHASES} times while the merge was being checked");
                return self.end(UnitEnd::Merge, detail);
            }
            TargetMove::Overtaken => return self.merge_trees(merging.chases + 1),
            TargetMove::Moved => None,
            TargetMove::LeftOn { branch, command, why } => {
                self.warn(Some(format!("`{}` was left where it is: {why}", self.brief.target)));
                Some((branch, command))
            }
        };
        let target = self.brief.target.clone();
        self.tell(RunEvent::PrMerged { commit: commit.clone() });
        self.tell(RunEvent::UnitMerged { target, commit: commit.clone(), left_on });
        self.go(UnitStage::Tidying, UnitEffect::Tidy { commit });
    }

    // --- publish --------------------------------------------------------------------------------------------

    fn route_seen(&mut self, branch: &str, changed: &[String], remote: Option<String>) {
        match remote {
            _ if !changed.is_empty() => self.end(
                UnitEnd::Merge,
                format!(
                    "`{branch}` was not pushed: an agent or a person changed where or how git pushes since the run began ({}); look \
                     at `git config --list --show-origin`, and if all is right there, `git push REMOTE {branch}` or another \
                     `dacapo unit run --pr` pushes it",
                    changed.join(", ")
                ),
            ),
            None => self.end(
                UnitEnd::Merge,
                "there is no remote to push to; `git remote add origin URL` names one",
            ),
            Some(remote) => self.look_at_branch(AfterLook::Publish { remote }),
        }
    }

    fn pull_request(&mut self, end: PullRequestEnd) {
        match end {
            PullRequestEnd::Opened { url } => self.tell(RunEvent::PrCreated { url }),
            PullRequestEnd::NoProgram => self.warn(Some(
                "the branch is pushed; there is no `gh` on PATH to open a pull request with".to_owned(),
            )),
            PullRequestEnd::Refused { detail } => {
                self.tell(RunEvent::PrFailed { detail: detail.clone() });
                let detail = format!("the branch is pushed, but no pull request: {detail}");
                return self.end(UnitEnd::Merge, detail);
            }
        }
        self.enter(UnitStage::Over);
    }

    // --- pieces ---------------------------------------------------------------------------------------------

    /// Performs `effect`, whose answer is waited for in `stage`.
    fn go(&mut self, stage: UnitStage, effect: UnitEffect) {
        self.enter(stage);
        self.effects.push(effect);
    }

    fn enter(&mut self, stage: UnitStage) {
        self.record(UnitEvent::Entered(stage));
    }

    fn note(&mut self, note: UnitNote) {
        self.record(UnitEvent::Noted(note));
    }

    fn tell(&mut self, event: RunEvent) {
        self.record(UnitEvent::Told(event));
    }

    fn warn(&mut self, text: Option<String>) {
        if let Some(text) = text {
            self.tell(RunEvent::UnitWarned { text });
        }
    }

    /// The unit comes to no good end.
    fn end(&mut self, reason: UnitEnd, detail: impl Into<String>) {
        // What was to be done next is not done any more.
        self.effects.clear();
        let (detail, loop_id) = (detail.into(), self.state.failed_loop.clone());
        self.tell(RunEvent::UnitFailed { reason, detail, loop_id });
        self.enter(UnitStage::Over);
    }

    fn record(&mut self, event: UnitEvent) {
        self.state.apply(&event);
        self.events.push(event);
    }
}

fn unproven_commits(branch: &str) -> String {
    format!("`{branch}` holds commits after the last that was proven")
}
