//! The work on one unit: its worktree, its turns, its checks. What comes next is `core`'s to say; this does it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    rc::Rc,
};

use dacapo_core::{
    event::{Envelope, Grant, IterationOutcome, LoopEvent, RunEvent, UnitEnd},
    ids::{LoopId, TaskId},
    judge::{glob::Globs, signal::Signal as Hint},
    loop_machine::Request,
    policy::{Policy, SetupCommand},
    unit::{
        Task, TaskSet, TaskSpec, TaskStatus, account, check, prompt,
        settings::BaselineCheck,
        step::{self, Checks, UnitFacts, UnitStep},
    },
    view::run_again,
};

use rustix::process::Signal;

use super::{
    job::{JobEnd, Voice},
    message::{JobSpec, UnitFiles},
};
use crate::{
    home::Home,
    proof,
    repository::{Known, Merged, Preparing, Repo, StepFailed, Worktree, prepare},
    signals::{Arrived, Signals},
    store::Store,
    supervisor::{self, Finished, NewLoop, ResumeLoop},
    task_files, units,
};

/// Whoever works for one unit.
pub(super) struct Worker<'a> {
    pub(super) spec: JobSpec,
    pub(super) home: Home,
    pub(super) repo: Rc<Repo>,
    pub(super) store: Store,
    pub(super) voice: &'a mut Voice,
    /// Kept so that a signal between two loops ends nothing half-way.
    signals: Signals,
    /// Tasks that a receipt of this branch proves.
    pub(super) proven: BTreeSet<u32>,
    /// The newest commit of the branch that is proven: what was changed since is what a claim is about.
    pub(super) accepted: String,
    /// What the checks of tasks printed that were claimed beside others that were accepted.
    red: BTreeMap<u32, String>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(spec: JobSpec, voice: &'a mut Voice) -> Result<Self, JobEnd> {
        let home = Home::at(&spec.home);
        let signals = Signals::listen(spec.is_detached).map_err(JobEnd::error)?;
        let repo = Rc::new(Repo::open(&spec.started.root, &home).map_err(JobEnd::error)?);
        let store = Store::open(&home.database()).map_err(JobEnd::error)?;
        Ok(Self {
            spec,
            home,
            repo,
            store,
            voice,
            signals,
            proven: BTreeSet::new(),
            accepted: String::new(),
            red: BTreeMap::new(),
        })
    }

    /// Worktree, turns, checks; `back` is what was red in the merged tree.
    pub(super) fn work(&mut self, back: Option<String>) -> Result<(), JobEnd> {
        let tree = self.worktree()?;
        self.bring_back(&tree)?;
        self.bring_up(&tree)?;
        // An agent may have staged what nobody accepted; nothing of the user's is there.
        if !tree.is_new {
            self.repo.unstage(&tree.path).map_err(JobEnd::error)?;
        }
        let base = self.look_at_branch(&tree)?;
        let given = self.tasks_at(&base)?;
        self.refuse_unproven(&base, &given)?;
        for task in &given {
            // What a killed dacapo left beside a file while it wrote goes with the first look at it. A file that cannot be
            // read is put back later.
            if let Some(status) = task_files::status(&tree.path, &task.spec.file) {
                let _ = write_status(&tree.path, &given, task.spec.number, status);
            }
        }
        // Nothing of it is new to the target: an earlier job was cut short behind its merge.
        let is_merged =
            self.head(&tree)? == base && given.iter().all(|task| task.status == TaskStatus::Complete);
        let mut checks = if is_merged { Checks::Hold } else { Checks::Due };
        if let Some(red) = back {
            self.take_back(&tree, &red)?;
            checks = Checks::Hold;
        }
        loop {
            self.stop_if_asked()?;
            // Work that is committed elsewhere is not on the branch that gets merged, and what was taken off it not either.
            if self.put_back(&tree, &self.accepted.clone())? {
                self.look_at_branch(&tree)?;
                checks = Checks::Due;
            }
            let facts = self.facts(&tree, &given, checks)?;
            match step::next(&self.spec.unit.id, &facts) {
                UnitStep::Resume(id) => self.resume(id)?,
                UnitStep::SetStatuses(statuses) => self.set_statuses(&tree, &facts.tasks, &statuses)?,
                UnitStep::Turn(set) => self.turn(&tree, set)?,
                UnitStep::Check => {
                    self.check(&tree)?;
                    checks = Checks::Hold;
                }
                UnitStep::Complete => {
                    let proven = self.proven.clone();
                    self.look_at_branch(&tree)?;
                    let commit = self.head(&tree)?;
                    // Somebody took commits off the branch this very moment.
                    if self.proven != proven {
                        self.bring_back(&tree)?;
                        self.look_at_branch(&tree)?;
                        checks = Checks::Due;
                        continue;
                    }
                    if commit != self.accepted {
                        let detail =
                            format!("`{}` holds commits after the last that was proven", tree.branch);
                        return Err(JobEnd::error(detail));
                    }
                    self.voice.tell(&RunEvent::UnitCompleted { commit });
                    return Ok(());
                }
                UnitStep::End(reason, detail) => return Err(JobEnd(reason, detail)),
            }
        }
    }

    // --- the worktree ---------------------------------------------------------------------------------------

    /// The unit's worktree, made and set up if it is not there.
    fn worktree(&mut self) -> Result<Worktree, JobEnd> {
        let failed = |error: &dyn std::fmt::Display| JobEnd(UnitEnd::Setup, error.to_string());
        let known = self.known()?;
        let base = self.base()?;
        let (unit, project) = (self.spec.unit.id.clone(), self.spec.started.project.clone());
        let asked = known.as_ref();
        let tree = self.repo.worktree(&unit, &project, &base, asked).map_err(|error| failed(&error))?;
        let settings = self.spec.started.settings.clone();
        // In one that was there before, too: somebody may have asked for them since.
        if settings.submodules {
            self.repo.init_submodules(&tree.path).map_err(|error| failed(&error))?;
        }
        // Recorded only when it is set up: after a crash in between, setup runs again.
        if known.as_ref().is_none_or(|known| known.path != tree.path || known.branch != tree.branch) {
            self.prepare(&tree.path, &settings.setup)
                .map_err(|why| failed(&format!("worktree.setup: {why}")))?;
            let (path, branch) = (tree.path.clone(), tree.branch.clone());
            self.voice.tell(&RunEvent::WorktreeCreated { path, branch, base });
        }
        Ok(tree)
    }

    /// Runs the commands that make a worktree ready, or those before it goes.
    pub(super) fn prepare(&self, dir: &Path, steps: &[SetupCommand]) -> Result<(), String> {
        let at = Preparing { project: &self.spec.started.project, unit: &self.spec.unit.id, dir };
        match prepare(&self.home, at, steps) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(StepFailed { run, how, tail })) => Err(format!("`{run}` {how}: {}", tail.trim())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The worktree that an earlier job has made.
    pub(super) fn known(&self) -> Result<Option<Known>, JobEnd> {
        let (project, unit) = (&self.spec.started.project, &self.spec.unit.id);
        let views = self.store.unit_view(Some(project), unit.as_str()).map_err(JobEnd::error)?;
        Ok(views
            .into_iter()
            .next()
            .and_then(|view| Some(Known { path: view.worktree?, branch: view.branch? })))
    }

    // --- facts ----------------------------------------------------------------------------------------------

    /// `given` are the tasks as they were where the unit's branch began.
    fn facts(&mut self, tree: &Worktree, given: &[Task], checks: Checks) -> Result<UnitFacts, JobEnd> {
        self.put_back_plan(tree)?;
        let tasks = self.tasks_on_disk(tree, given)?;
        let committed = given
            .iter()
            .map(
                |task| {
                    if self.proven.contains(&task.spec.number) { TaskStatus::Complete } else { task.status }
                },
            )
            .collect();
        let retry_failed = self.spec.started.settings.retry_failed;
        Ok(UnitFacts { tasks, committed, open: self.open_loop(tree, given)?, retry_failed, checks })
    }

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

    /// The same tasks with the status they have in the worktree. A file that cannot be read is put back.
    fn tasks_on_disk(&self, tree: &Worktree, given: &[Task]) -> Result<Vec<Task>, JobEnd> {
        let mut tasks = given.to_vec();
        for task in &mut tasks {
            task.status = match task_files::status(&tree.path, &task.spec.file) {
                Some(status) => status,
                None => {
                    let bytes =
                        self.repo.file_at(&self.head(tree)?, &task.spec.file).map_err(JobEnd::error)?;
                    let put_back =
                        task_files::set_status(&tree.path, &task.spec.file, task.status, bytes.as_deref());
                    put_back.map_err(JobEnd::error)?;
                    task.status
                }
            };
        }
        Ok(tasks)
    }

    /// An agent may have deleted the plan; every claim would be refused for it.
    fn put_back_plan(&self, tree: &Worktree) -> Result<(), JobEnd> {
        let plan = format!("{}/{}", self.spec.unit.folder, units::PLAN);
        if task_files::read(&tree.path, &plan).is_ok() {
            return Ok(());
        }
        match self.repo.file_at(&self.accepted, &plan).map_err(JobEnd::error)? {
            Some(bytes) => task_files::put_back(&tree.path, &plan, &bytes).map_err(JobEnd::error),
            None => Ok(()),
        }
    }

    /// A loop of this unit that was cut short in this worktree, was told what this run would tell it, and counts changes
    /// from where the unit stands: other limits, another agent, other gates or another commit make another loop.
    pub(super) fn open_loop(&self, tree: &Worktree, given: &[Task]) -> Result<Option<LoopId>, JobEnd> {
        let Some((id, history)) = self.cut_loop(tree)? else { return Ok(None) };
        let Some(LoopEvent::LoopStarted(started)) = history.first().map(|envelope| &envelope.event) else {
            return Ok(None);
        };
        if started.base.as_ref().is_none_or(|base| base.snapshot != self.accepted) {
            return Ok(None);
        }
        let (unit, settings) = (&self.spec.unit.id, &self.spec.started.settings);
        let is_ours = match &started.policy.tasks {
            // A task that was changed meanwhile is frozen there as it was.
            Some(set) => {
                set.tasks.iter().map(|task| &task.spec).eq(given.iter().map(|task| &task.spec))
                    && started.policy == settings.turn(set.clone(), !self.proven.is_empty())
            }
            None => {
                let head = self.head(tree)?;
                let must_hold = self.must_hold(&self.tip()?, &head, &head)?;
                started.policy == settings.baseline(unit, &must_hold.checks)
                    || started.policy == settings.sent_back(unit, &must_hold)
            }
        };
        Ok(is_ours.then_some(id))
    }

    /// The unit's newest loop, if it was cut short in this worktree.
    fn cut_loop(&self, tree: &Worktree) -> Result<Option<(LoopId, Vec<Envelope>)>, JobEnd> {
        let rows = self
            .store
            .newest_of_task(Some(&self.spec.started.project), self.task()?.as_str())
            .map_err(JobEnd::error)?;
        let view = rows
            .into_iter()
            .map(|row| row.current_view())
            .find(|view| view.workspace == tree.path && view.reason.is_some_and(step::goes_on));
        let Some(view) = view else { return Ok(None) };
        let history = self.store.events(&view.id, 0).map_err(JobEnd::error)?;
        Ok(Some((view.id, history)))
    }

    /// What a person said to a loop that was cut short and that nobody goes on with: the next one hears it.
    fn unheard(&self, tree: &Worktree) -> Result<Vec<String>, JobEnd> {
        let Some((id, history)) = self.cut_loop(tree)? else { return Ok(Vec::new()) };
        let mut words = step::unheard(history.iter().map(|envelope| &envelope.event));
        let pending = self.store.pending(&id).map_err(JobEnd::error)?;
        words.extend(pending.into_iter().filter_map(|pending| match pending.request {
            Request::Steer { text } => Some(text),
            _ => None,
        }));
        Ok(words)
    }

    // --- loops ----------------------------------------------------------------------------------------------

    /// The task that all loops of the unit belong to.
    pub(super) fn task(&self) -> Result<TaskId, JobEnd> {
        self.spec.unit.id.as_str().parse().map_err(JobEnd::error)
    }

    /// Runs a loop to its end; its changes count from the commit `base`, else from the files as they are.
    pub(super) fn run_loop(
        &mut self,
        policy: Policy,
        prompt: String,
        workspace: &Path,
        base: Option<String>,
    ) -> Result<Finished, JobEnd> {
        self.stop_if_asked()?;
        let new = NewLoop {
            policy,
            prompt: Some(prompt),
            project: self.spec.started.project.clone(),
            task: Some(self.task()?),
            workspace: workspace.to_owned(),
            after: Vec::new(),
            parent: None,
            run: Some(self.spec.started.purse.clone()),
            base,
            is_detached: self.spec.is_detached,
        };
        Ok(supervisor::run(&self.home, new, self.voice)?)
    }

    fn resume(&mut self, id: LoopId) -> Result<(), JobEnd> {
        let history = self.store.events(&id, 0).map_err(JobEnd::error)?;
        // An iteration that dacapo's own end cut short is no failure of the agent's.
        let cut = history.iter().rev().find_map(|envelope| match &envelope.event {
            LoopEvent::IterationFinished { outcome, .. } => Some(*outcome == IterationOutcome::Interrupted),
            LoopEvent::IterationStarted { .. } => Some(true),
            _ => None,
        });
        let grant = Grant { extra_iterations: u32::from(cut == Some(true)), ..Grant::default() };
        let wanted = ResumeLoop { id, grant, is_detached: self.spec.is_detached };
        let finished = supervisor::resume(&self.home, wanted, self.voice)?;
        let set = history.into_iter().find_map(|envelope| match envelope.event {
            LoopEvent::LoopStarted(started) => Some(started.policy.tasks),
            _ => None,
        });
        self.turn_ended(&finished, set.flatten().as_ref())
    }

    fn turn(&mut self, tree: &Worktree, set: TaskSet) -> Result<(), JobEnd> {
        let policy = self.spec.started.settings.turn(set.clone(), !self.proven.is_empty());
        let mut words = prompt::turn(&set);
        for number in &set.ready {
            if let Some(output) = self.red.get(number) {
                words.push_str(&prompt::was_red(*number, output));
            }
        }
        for said in self.unheard(tree)? {
            words.push_str(&prompt::said(&said));
        }
        let base = Some(self.accepted.clone());
        let finished = self.run_loop(policy, words, &tree.path, base)?;
        self.turn_ended(&finished, Some(&set))
    }

    fn turn_ended(&mut self, finished: &Finished, set: Option<&TaskSet>) -> Result<(), JobEnd> {
        let exhausted = if set.is_some() { UnitEnd::Exhausted } else { UnitEnd::Baseline };
        let Some(end) = step::end_of(finished.reason, exhausted) else {
            if let Some(receipt) = proof::receipt(&self.store, &finished.id).map_err(JobEnd::error)? {
                self.proven.extend(claimed(&receipt.claim));
                self.accepted = receipt.commits.last().unwrap_or(&self.accepted).clone();
            }
            let mut is_paused = false;
            for envelope in self.store.events(&finished.id, 0).map_err(JobEnd::error)? {
                match envelope.event {
                    LoopEvent::GateFinished { task: Some(task), result, .. } => {
                        self.red.insert(task, result.output_tail);
                    }
                    LoopEvent::PauseRequested { .. } => is_paused = true,
                    LoopEvent::Paused | LoopEvent::Unpaused => is_paused = false,
                    _ => {}
                }
            }
            self.red.retain(|task, output| !output.is_empty() && !self.proven.contains(task));
            // A pause after the iteration that ended the loop holds the unit.
            return match is_paused {
                true => {
                    let started = &self.spec.started;
                    let target = started.settings.typed_target.as_deref();
                    let again = run_again(None, started.merge, target);
                    Err(JobEnd(UnitEnd::Stopped, format!("paused; `{again}` goes on")))
                }
                false => Ok(()),
            };
        };
        let mut detail = finished.detail.clone();
        if end == UnitEnd::Stopped {
            // Whatever ended the run was passed on to its jobs as Ctrl-C is.
            "stopped with its run".clone_into(&mut detail);
        }
        if let (UnitEnd::Exhausted, Some(set)) = (end, set) {
            let row = self.store.row(&finished.id).map_err(JobEnd::error)?;
            match row.and_then(|row| row.view.refused) {
                Some((_, refusal)) => detail = format!("{detail}; the last was refused: {refusal}"),
                None => detail.push_str(&self.last_exit(finished)?),
            }
            self.give_up(finished, set, &mut detail)?;
        }
        Err(JobEnd(end, detail))
    }

    /// How the last agent of a loop failed, if it did.
    fn last_exit(&self, finished: &Finished) -> Result<String, JobEnd> {
        let events = self.store.events(&finished.id, 0).map_err(JobEnd::error)?;
        let last = events.into_iter().rev().find_map(|envelope| match envelope.event {
            LoopEvent::AgentExited { exit, .. } => Some(exit),
            _ => None,
        });
        let error = last.and_then(|exit| account::error(&exit));
        Ok(error.map_or_else(String::new, |error| format!("; the last agent failed: {error}")))
    }

    /// Marks the task that the turn failed at, so that nobody takes it for ready again.
    fn give_up(&mut self, finished: &Finished, set: &TaskSet, detail: &mut String) -> Result<(), JobEnd> {
        let events = self.store.events(&finished.id, 0).map_err(JobEnd::error)?;
        let last = events.iter().rev().find_map(|envelope| match &envelope.event {
            LoopEvent::ClaimMade { by, .. } => claimed(by).last(),
            _ => None,
        });
        let Some(task) = step::given_up(set, last) else { return Ok(()) };
        let root = events.iter().find_map(|envelope| match &envelope.event {
            LoopEvent::LoopStarted(started) => Some(started.workspace.clone()),
            _ => None,
        });
        if let Some(root) = root {
            write_status(&root, &set.tasks, task, TaskStatus::Failed)?;
        }
        self.voice.tell(&RunEvent::TaskFailed { task, detail: detail.clone() });
        *detail = format!("task #{task} was given up: {detail}");
        Ok(())
    }

    fn set_statuses(
        &mut self,
        tree: &Worktree,
        tasks: &[Task],
        statuses: &[(u32, TaskStatus)],
    ) -> Result<(), JobEnd> {
        statuses.iter().try_for_each(|(task, status)| write_status(&tree.path, tasks, *task, *status))
    }

    /// The checks after all tasks, with an agent to turn red ones green.
    fn check(&mut self, tree: &Worktree) -> Result<(), JobEnd> {
        let checks = self.baseline_for(&self.head(tree)?)?;
        if checks.is_empty() {
            return Ok(());
        }
        let unit = self.spec.unit.id.clone();
        let policy = self.spec.started.settings.baseline(&unit, &checks);
        let commands: Vec<(&str, &str)> =
            checks.iter().map(|check| (check.name.as_str(), check.run.as_str())).collect();
        let finished = self.run_loop(
            policy,
            prompt::fix_baseline(&unit, &commands),
            &tree.path,
            Some(self.accepted.clone()),
        )?;
        self.turn_ended(&finished, None)
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

    /// The merged tree was red: the target comes into the unit's branch, and what was red is mended there.
    fn take_back(&mut self, tree: &Worktree, red: &str) -> Result<(), JobEnd> {
        let (tip, head) = (self.tip()?, self.head(tree)?);
        match self.repo.merge(&head, &tip).map_err(JobEnd::error)? {
            Merged::Nothing => {}
            Merged::Clean { tree: merged } => {
                let message = format!("Merge {} into {}", self.spec.started.target, tree.branch);
                let commit =
                    self.repo.commit_merge(&merged, [&head, &tip], &message).map_err(JobEnd::error)?;
                self.repo.advance(&tree.path, &tree.branch, &commit, &head).map_err(JobEnd::error)?;
                self.look_at_branch(tree)?;
            }
            // The target moved on and conflicts by now: that is the next merge's business.
            Merged::Conflict { .. } => return Ok(()),
        }
        let unit = self.spec.unit.id.clone();
        let head = self.head(tree)?;
        let must_hold = self.must_hold(&tip, &head, &head)?;
        let policy = self.spec.started.settings.sent_back(&unit, &must_hold);
        let words = format!("{}\n\n{red}\n", prompt::fix_merge(&unit, &self.spec.started.target));
        let base = Some(self.accepted.clone());
        let finished = self.run_loop(policy, words, &tree.path, base)?;
        match step::end_of(finished.reason, UnitEnd::Merge) {
            None => self.look_at_branch(tree).map(drop),
            Some(end) => Err(JobEnd(end, finished.detail)),
        }
    }

    /// Ctrl-C or Ctrl-Z between two loops.
    pub(super) fn stop_if_asked(&mut self) -> Result<(), JobEnd> {
        let arrived = self.signals.take();
        if arrived.contains(&Arrived::Suspend) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        }
        if !arrived.iter().any(|arrived| !matches!(arrived, Arrived::Wake | Arrived::Suspend)) {
            return Ok(());
        }
        Err(JobEnd(UnitEnd::Stopped, "stopped between two loops".to_owned()))
    }
}

/// The tasks among the signals of a claim.
pub(super) fn claimed(by: &[Hint]) -> impl DoubleEndedIterator<Item = u32> {
    by.iter().filter_map(|signal| match signal {
        Hint::Task(number) => Some(*number),
        _ => None,
    })
}

fn write_status(root: &Path, tasks: &[Task], number: u32, status: TaskStatus) -> Result<(), JobEnd> {
    let Some(task) = tasks.iter().find(|task| task.spec.number == number) else { return Ok(()) };
    task_files::set_status(root, &task.spec.file, status, None).map(drop).map_err(JobEnd::error)
}
