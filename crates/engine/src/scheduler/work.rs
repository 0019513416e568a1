//! The work on one unit, one effect of its plan after the other. What comes next is `core::plan::unit`'s to say; the worker
//! performs it and answers with what it found.

use std::{cell::OnceCell, collections::VecDeque, path::Path, rc::Rc, sync::Arc};

use dacapo_core::{
    event::{Grant, UnitEnd},
    ids::{LoopId, TaskId},
    judge::glob::Globs,
    loop_machine::Request,
    machine::InMemory,
    plan::{
        CutLoop, LoopEnd, LoopOrder, PlanStep, goes_on,
        unit::{CutFacts, LoopPlace, UnitBrief, UnitEffect, UnitEvent, UnitInput, UnitPlan, WorktreeFacts},
    },
    policy::SetupCommand,
    unit::{Task, TaskSpec, TaskStatus, check, settings::BaselineCheck},
    view::RunView,
};
use jiff::Timestamp;
use rustix::process::Signal;

use super::{
    has_agent,
    job::{JobEnd, JobReporter},
    message::{JobSpec, UnitFiles},
    unheard,
};
use crate::{
    home::Home,
    repository::{KnownWorktree, MergeWorktree, Repository, SetupFailed, WorktreeOwner, prepare},
    signals::{ArrivedSignal, Signals},
    store::Store,
    supervisor::{self, Finished, NewLoop, ResumeLoop},
    task_files, units,
};

/// The worker of a job: performs the plan of one unit.
pub(super) struct UnitWorker<'a> {
    pub(super) spec: JobSpec,
    pub(super) home: Home,
    pub(super) repo: Rc<Repository>,
    pub(super) store: Store,
    voice: &'a mut JobReporter,
    /// Kept so that a signal between two loops ends nothing half-way.
    signals: Signals,
    /// Where the unit is worked on, once that is known.
    worktree: OnceCell<KnownWorktree>,
}

impl<'a> UnitWorker<'a> {
    pub(super) fn new(spec: JobSpec, voice: &'a mut JobReporter) -> Result<Self, JobEnd> {
        let home = Home::at(&spec.home);
        let signals = Signals::listen(spec.is_detached).map_err(JobEnd::error)?;
        let repo = Rc::new(Repository::open(&spec.started.root, &home).map_err(JobEnd::error)?);
        let store = Store::open(&home.database()).map_err(JobEnd::error)?;
        Ok(Self { spec, home, repo, store, voice, signals, worktree: OnceCell::new() })
    }

    /// Performs the plan of the unit to its end, and tells what it tells.
    pub(super) fn run(mut self) {
        let brief = Arc::new(UnitBrief {
            unit: self.spec.unit.id.clone(),
            job: self.spec.job.clone(),
            target: self.spec.started.target.clone(),
            merge: self.spec.started.merge,
            settings: (*self.spec.started.settings).clone(),
            complete: self.spec.unit.complete.clone(),
        });
        let repo = Rc::clone(&self.repo);
        // The scratch worktree of a merge; it goes with the job at the latest.
        let mut scratch = None;
        let mut plan = InMemory::<UnitPlan>::default();
        let mut effects = VecDeque::from(self.step(&mut plan, UnitInput::Begin(brief)));
        while let Some(effect) = effects.pop_front() {
            if self.is_stop_asked() {
                self.step(&mut plan, UnitInput::StopAsked);
            }
            if plan.state().is_over() {
                return;
            }
            let answer = match self.perform(&repo, &mut scratch, effect) {
                Ok(answer) => answer,
                Err(JobEnd(end, detail)) => Some(UnitInput::Failed { end, detail }),
            };
            if let Some(input) = answer {
                effects.extend(self.step(&mut plan, input));
            }
        }
    }

    fn step(&mut self, plan: &mut InMemory<UnitPlan>, input: UnitInput) -> Vec<UnitEffect> {
        let step = plan.step(input);
        for event in &step.events {
            if let UnitEvent::Told(event) = event {
                self.voice.tell(event);
            }
        }
        step.effects
    }

    /// Performs one effect; the answer is an input of the plan, if the effect has one.
    fn perform<'r>(
        &mut self,
        repo: &'r Repository,
        scratch: &mut Option<MergeWorktree<'r>>,
        effect: UnitEffect,
    ) -> Result<Option<UnitInput>, JobEnd> {
        Ok(Some(match effect {
            UnitEffect::MakeWorktree => UnitInput::WorktreeMade(self.make_worktree()?),
            UnitEffect::SetUp => {
                let KnownWorktree { path, branch } = self.worktree()?;
                let setup = self.spec.started.settings.setup.clone();
                UnitInput::SetUp(self.prepare(&path, Some(&branch), &setup))
            }
            UnitEffect::RestoreBranch(restore) => UnitInput::BranchRestored(self.restore_branch(&restore)?),
            UnitEffect::CompareWithTarget => UnitInput::TargetCompared(self.compare_with_target()?),
            UnitEffect::FindCutLoop { head } => {
                UnitInput::CutLoopFound { tasks: self.tasks_at(&head)?, cut: self.cut_loop()? }
            }
            UnitEffect::TakeTarget(take) => UnitInput::TargetTaken(self.take_target(take)?),
            UnitEffect::Unstage => {
                let path = self.worktree()?.path;
                self.repo.unstage(&path).map_err(JobEnd::error)?;
                return Ok(None);
            }
            UnitEffect::LookAtBranch => UnitInput::BranchSeen(self.look_at_branch()?),
            UnitEffect::ReadTasks { commit } => UnitInput::TasksRead(self.tasks_at(&commit)?),
            UnitEffect::FindProofs { commit } => UnitInput::ProofsFound(self.proofs_in(&commit)?),
            UnitEffect::SweepTaskFiles { tasks } => {
                self.sweep_task_files(&tasks)?;
                return Ok(None);
            }
            UnitEffect::LookAtTasks { tasks, accepted } => {
                let statuses = self.statuses(&tasks, &accepted)?;
                UnitInput::TasksSeen { statuses, cut: self.cut_loop()? }
            }
            UnitEffect::SetStatuses { tasks, statuses } => {
                let root = self.worktree()?.path;
                for (number, status) in statuses {
                    write_status(&root, &tasks, number, status)?;
                }
                UnitInput::StatusesSet
            }
            UnitEffect::FindChecks => UnitInput::ChecksFound(self.baseline_for(&self.head()?)?),
            UnitEffect::FindMustHold { tip, tree, commit } => {
                UnitInput::MustHoldFound(self.must_hold(&tip, &tree, &commit)?)
            }
            UnitEffect::RunLoop(place, order) => {
                let workspace = match (place, &scratch) {
                    (LoopPlace::Scratch, Some(scratch)) => scratch.path().to_owned(),
                    (LoopPlace::Scratch, None) => return Err(JobEnd::error("there is no scratch worktree")),
                    (LoopPlace::Worktree, _) => self.worktree()?.path,
                };
                UnitInput::LoopEnded(Box::new(self.run_loop(*order, &workspace)?))
            }
            UnitEffect::ResumeLoop { id, grant } => {
                UnitInput::LoopEnded(Box::new(self.resume_loop(id, grant)?))
            }
            UnitEffect::MergeTrees => UnitInput::TreesMerged(self.merge_trees()?),
            UnitEffect::LayOut { tip, tree } => {
                // The one before has to go first: both lie in the same folder.
                *scratch = None;
                UnitInput::LaidOut(self.lay_out(repo, scratch, &tip, &tree)?)
            }
            UnitEffect::DropScratch => {
                *scratch = None;
                return Ok(None);
            }
            UnitEffect::CommitMerge { tree, tip, head } => {
                let message = format!("Merge unit {}", self.spec.unit.id);
                let commit = self.repo.commit_merge(&tree, [&tip, &head], &message);
                UnitInput::MergeCommitted(commit.map_err(JobEnd::error)?)
            }
            UnitEffect::LookAtMerge { tip, commit } => {
                UnitInput::MergeSeen(self.look_at_merge(&tip, &commit)?)
            }
            UnitEffect::MoveTarget { commit } => UnitInput::TargetMoved(self.move_target(&commit)?),
            UnitEffect::Tidy { commit } => self.tidy(&commit)?,
            UnitEffect::LookAtRoute => self.look_at_route()?,
            UnitEffect::Push { commit, remote } => self.push(&commit, &remote)?,
            UnitEffect::OpenPullRequest => UnitInput::PullRequest(self.open_pull_request()?),
        }))
    }

    // --- the worktree ---------------------------------------------------------------------------------------

    /// The unit's worktree, made if it is not there.
    fn make_worktree(&mut self) -> Result<WorktreeFacts, JobEnd> {
        let failed = |error: &dyn std::fmt::Display| JobEnd(UnitEnd::Setup, error.to_string());
        let known = self.known()?;
        let base = self.base()?;
        let (unit, project) = (self.spec.unit.id.clone(), self.spec.started.project.clone());
        let asked = known.as_ref();
        let tree = self.repo.worktree(&unit, &project, &base, asked).map_err(|error| failed(&error))?;
        // In one that was there before, too: the user may have asked for them since.
        if self.spec.started.settings.submodules {
            self.repo.init_submodules(&tree.path).map_err(|error| failed(&error))?;
        }
        let now = KnownWorktree { path: tree.path, branch: tree.branch };
        let is_set_up = known.is_some_and(|known| known == now);
        self.worktree = OnceCell::from(now.clone());
        Ok(WorktreeFacts { path: now.path, branch: now.branch, base, is_new: tree.is_new, is_set_up })
    }

    /// Where the unit is worked on.
    pub(super) fn worktree(&self) -> Result<KnownWorktree, JobEnd> {
        if let Some(known) = self.worktree.get() {
            return Ok(known.clone());
        }
        let known = self.known()?.ok_or_else(|| JobEnd::error("the unit has no worktree"))?;
        Ok(self.worktree.get_or_init(|| known).clone())
    }

    /// Runs the commands that make a worktree ready, or those before it goes.
    pub(super) fn prepare(
        &self,
        dir: &Path,
        branch: Option<&str>,
        steps: &[SetupCommand],
    ) -> Result<(), String> {
        let started = &self.spec.started;
        let at = WorktreeOwner { project: &started.project, work: (&self.spec.unit.id).into(), dir, branch };
        match prepare(&self.home, at, &started.settings.policy.sandbox, steps) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(SetupFailed { run, how, tail })) => Err(format!("`{run}` {how}: {}", tail.trim())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The worktree that an earlier job has made.
    pub(super) fn known(&self) -> Result<Option<KnownWorktree>, JobEnd> {
        let (project, unit) = (&self.spec.started.project, &self.spec.unit.id);
        let views = self.store.unit_view(Some(project), unit.as_str()).map_err(JobEnd::error)?;
        Ok(views
            .into_iter()
            .next()
            .and_then(|view| Some(KnownWorktree { path: view.worktree?, branch: view.branch? })))
    }

    // --- tasks ----------------------------------------------------------------------------------------------

    /// The unit's tasks as a commit has them. Nothing else than what was agreed to is ever run.
    pub(super) fn tasks_at(&self, commit: &str) -> Result<Vec<Task>, JobEnd> {
        self.tasks_of(&self.spec.unit, commit)
    }

    /// The same for any unit.
    pub(super) fn tasks_of(&self, unit: &UnitFiles, commit: &str) -> Result<Vec<Task>, JobEnd> {
        let files = self.repo.files_below(commit, &unit.folder).map_err(JobEnd::error)?;
        let mut tasks = Vec::new();
        for (file, bytes) in files.iter().filter(|(file, _)| units::is_task_file(file)) {
            let task = check::task(file, bytes).map_err(|problems| {
                let problem = problems.first().map(ToString::to_string);
                JobEnd::error(problem.unwrap_or_else(|| file.clone()))
            })?;
            tasks.push(task);
        }
        tasks.sort_by_key(|task| task.spec.number);
        for TaskSpec { file, backpressure, .. } in tasks.iter().map(|task| &task.spec) {
            if !unit.commands.contains(&(file.clone(), backpressure.clone())) {
                let behind = self.known()?.map(|known| {
                    let (target, command) = (&self.spec.started.target, self.catch_up(&known.path));
                    format!("; if the unit's worktree is behind `{target}`: `{command}`")
                });
                let detail = format!(
                    "`{file}` is not what you agreed to: at {} its backpressure is `{backpressure}`{}",
                    &commit[..commit.len().min(9)],
                    behind.unwrap_or_default()
                );
                return Err(JobEnd(UnitEnd::Setup, detail));
            }
        }
        if tasks.is_empty() {
            let detail = format!("there are no tasks in `{}` of the target branch", unit.folder);
            return Err(JobEnd(UnitEnd::Setup, detail));
        }
        Ok(tasks)
    }

    /// What a killed dacapo left beside a file while it wrote goes with the next write. A file that cannot be read is put
    /// back later.
    fn sweep_task_files(&self, tasks: &[Task]) -> Result<(), JobEnd> {
        let root = self.worktree()?.path;
        for task in tasks {
            if let Some(status) = task_files::status(&root, &task.spec.file) {
                let _ = write_status(&root, tasks, task.spec.number, status);
            }
        }
        Ok(())
    }

    /// The status that each task has in the worktree. A file that cannot be read is put back.
    fn statuses(&self, tasks: &[Task], accepted: &str) -> Result<Vec<TaskStatus>, JobEnd> {
        let root = self.worktree()?.path;
        self.put_back_plan(&root, accepted)?;
        let mut statuses = Vec::with_capacity(tasks.len());
        for task in tasks {
            statuses.push(match task_files::status(&root, &task.spec.file) {
                Some(status) => status,
                None => {
                    let bytes = self.repo.file_at(&self.head()?, &task.spec.file).map_err(JobEnd::error)?;
                    let put_back =
                        task_files::set_status(&root, &task.spec.file, task.status, bytes.as_deref());
                    put_back.map_err(JobEnd::error)?;
                    task.status
                }
            });
        }
        Ok(statuses)
    }

    /// An agent may have deleted the plan; every claim would be refused for it.
    fn put_back_plan(&self, root: &Path, accepted: &str) -> Result<(), JobEnd> {
        let plan = format!("{}/{}", self.spec.unit.folder, units::PLAN);
        if task_files::read(root, &plan).is_ok() {
            return Ok(());
        }
        match self.repo.file_at(accepted, &plan).map_err(JobEnd::error)? {
            Some(bytes) => task_files::put_back(root, &plan, &bytes).map_err(JobEnd::error),
            None => Ok(()),
        }
    }

    /// The baseline checks that concern the files of a commit.
    pub(super) fn baseline_for(&self, commit: &str) -> Result<Vec<BaselineCheck>, JobEnd> {
        let all = &self.spec.started.settings.baseline;
        if all.iter().all(|check| check.pattern.is_none()) {
            return Ok(all.clone());
        }
        let paths = self.repo.paths(commit).map_err(JobEnd::error)?;
        let concerns = |check: &&BaselineCheck| match &check.pattern {
            Some(pattern) => Globs::parse(std::slice::from_ref(pattern))
                .is_ok_and(|globs| paths.iter().any(|path| globs.matches(path))),
            None => true,
        };
        Ok(all.iter().filter(concerns).cloned().collect())
    }

    // --- loops ----------------------------------------------------------------------------------------------

    /// The task that all loops of the unit belong to.
    pub(super) fn task(&self) -> Result<TaskId, JobEnd> {
        self.spec.unit.id.as_str().parse().map_err(JobEnd::error)
    }

    /// The unit's newest loop, if it was cut short in the unit's worktree, and what has to hold there if it was about that.
    fn cut_loop(&self) -> Result<Option<CutFacts>, JobEnd> {
        let root = self.worktree()?.path;
        let rows = self
            .store
            .newest_of_task(Some(&self.spec.started.project), self.task()?.as_str())
            .map_err(JobEnd::error)?;
        let view = rows
            .into_iter()
            .map(|row| row.current_view())
            .find(|view| view.workspace == root && view.reason.is_some_and(goes_on));
        let Some(view) = view else { return Ok(None) };
        let history = self.store.events(&view.id, 0).map_err(JobEnd::error)?;
        let pending = self.store.pending(&view.id).map_err(JobEnd::error)?;
        let requested = pending.into_iter().filter_map(|pending| match pending.request {
            Request::Steer { text } => Some(text),
            _ => None,
        });
        let cut = CutLoop::of(view.id, &history, requested.collect());
        let is_proof = cut.purpose.as_ref().is_some_and(|purpose| purpose.step != PlanStep::Turn);
        let must_hold = is_proof
            .then(|| {
                let head = self.head()?;
                self.must_hold(&self.tip()?, &head, &head)
            })
            .transpose()?;
        Ok(Some(CutFacts { cut, must_hold }))
    }

    fn run_loop(&mut self, order: LoopOrder, workspace: &Path) -> Result<LoopEnd, JobEnd> {
        let LoopOrder { purpose, mut policy, prompt, base } = order;
        // The plan knows what the run was told when it began; a person may have said more since.
        let run = self.run_view()?;
        let granted = run.granted.for_loops_of_run();
        policy.limits.per_run = policy.limits.per_run.raised_to(granted.per_run);
        if purpose.step == PlanStep::Turn {
            policy.limits.max_iterations =
                policy.limits.max_iterations.saturating_add(granted.extra_iterations);
        }
        let new = NewLoop {
            steers: if has_agent(&policy) { run.steers } else { Vec::new() },
            policy,
            prompt: Some(prompt),
            project: self.spec.started.project.clone(),
            task: Some(self.task()?),
            workspace: workspace.to_owned(),
            after: Vec::new(),
            parent: None,
            run: Some(self.spec.started.budget_of.clone()),
            purpose: Some(purpose),
            base,
            filters: None,
            programs: self.spec.programs.clone(),
            is_detached: self.spec.is_detached,
        };
        let finished = supervisor::run(&self.home, new.check()?, self.voice)?;
        self.loop_end(finished)
    }

    fn resume_loop(&mut self, id: LoopId, grant: Grant) -> Result<LoopEnd, JobEnd> {
        let run = self.run_view()?;
        for text in unheard(&self.store, &id, &run.steers).map_err(JobEnd::error)? {
            let request = Request::Steer { text };
            self.store.request(&id, &request, Timestamp::now()).map_err(JobEnd::error)?;
        }
        let per_run = run.granted.for_loops_of_run().per_run;
        let wanted = ResumeLoop {
            id,
            grant: Grant { per_run, ..grant },
            programs: self.spec.programs.clone(),
            is_detached: self.spec.is_detached,
        };
        let finished = supervisor::resume(&self.home, wanted, self.voice)?;
        self.loop_end(finished)
    }

    /// The run as its stream stands now.
    fn run_view(&self) -> Result<RunView, JobEnd> {
        let row = self.store.run_row(&self.spec.run).map_err(JobEnd::error)?;
        row.map(|row| row.view).ok_or_else(|| JobEnd::error(format!("there is no run {}", self.spec.run)))
    }

    fn loop_end(&self, finished: Finished) -> Result<LoopEnd, JobEnd> {
        let Finished { id, reason, detail, .. } = finished;
        let history = self.store.events(&id, 0).map_err(JobEnd::error)?;
        let row = self.store.row(&id).map_err(JobEnd::error)?;
        let refusal = row.and_then(|row| row.view.refused).map(|(_, refusal)| refusal.to_string());
        Ok(LoopEnd::of(id, reason, detail, refusal, &history))
    }

    /// Whether Ctrl-C or the like came between two effects. Ctrl-Z holds the job here.
    fn is_stop_asked(&mut self) -> bool {
        let arrived = self.signals.take();
        if arrived.contains(&ArrivedSignal::Suspend) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        }
        arrived.iter().any(|arrived| matches!(arrived, ArrivedSignal::Stop(_)))
    }
}

fn write_status(root: &Path, tasks: &[Task], number: u32, status: TaskStatus) -> Result<(), JobEnd> {
    let Some(task) = tasks.iter().find(|task| task.spec.number == number) else { return Ok(()) };
    task_files::set_status(root, &task.spec.file, status, None).map(drop).map_err(JobEnd::error)
}
