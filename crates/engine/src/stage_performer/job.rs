//! The job of one stage, as a process of its own: the supervisor of its loop in the worktree of the task. Merges are jobs too
//! (`merge.rs`).

use std::path::{Path, PathBuf};

use dacapo_core::{
    event::{Grant, Reason},
    ids::{LoopId, ProjectId, RunId, TaskId},
    plan::{Purpose, goes_on},
    policy::{Policy, SetupCommand},
    sandbox::SandboxRules,
    stages::{MayWrite, StageAccount, StageName, StageTaskSpec},
};
use serde::{Deserialize, Serialize};

use super::merge::{self, MergeWork};
use crate::{
    git::{Git, ListedConfig, WorkspaceError},
    home::Home,
    process::Programs,
    repository::{
        CommitFacts, KnownWorktree, Merged, Repository, SetupFailed, Worktree, WorktreeOwner, prepare,
    },
    scheduler::{
        JobReporter,
        message::{JobFailure, JobMessage},
    },
    snapshots::{self, SnapshotChoice},
    store::Store,
    supervisor::{self, NewLoop, ResumeLoop, StartError},
};

/// What the job of a stage has to do, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StageSpec {
    pub(crate) home: PathBuf,
    /// The process that performs the task.
    pub(crate) performer: u32,
    pub(crate) run: RunId,
    pub(crate) project: ProjectId,
    pub(crate) task: TaskId,
    /// The top of the repository.
    pub(crate) root: PathBuf,
    /// The branch that the task is merged into.
    pub(crate) target: String,
    /// The worktree that the task has, and its branch.
    pub(crate) known: Option<(PathBuf, String)>,
    /// The commit of the target that its branch holds, as dacapo knows it.
    pub(crate) seen: Option<String>,
    /// The sandbox of the commands that follow.
    pub(crate) sandbox: SandboxRules,
    pub(crate) setup: Vec<SetupCommand>,
    pub(crate) teardown: Vec<SetupCommand>,
    pub(crate) submodules: bool,
    /// The filters of git when the task began.
    pub(crate) filters: Option<Vec<(String, String)>>,
    /// The configuration of git as the performer has listed it: it counts as long as its files are the same.
    #[serde(default)]
    pub(crate) config: Option<ListedConfig>,
    pub(crate) programs: Programs,
    pub(crate) is_detached: bool,
    /// Whether what agents print is shown while they print it.
    pub(crate) is_watched: bool,
    pub(crate) work: StageWork,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StageWork {
    Begin {
        stage: StageName,
        run: u32,
        policy: Box<Policy>,
        prompt: String,
        /// What the user has said to an agent that ended before it could read it.
        steers: Vec<String>,
    },
    GoOn {
        id: LoopId,
        stage: StageName,
        grant: Grant,
    },
    /// Merge the tree that passed all stages.
    Merge {
        tree: String,
        /// The commit of the target that the branch holds, as dacapo knows it.
        from: Option<String>,
        policy: Box<Policy>,
        task: Box<StageTaskSpec>,
    },
    /// Remove the worktree and its branch, all of which this commit holds.
    Tidy {
        commit: String,
    },
}

/// How the merge of a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MergeReport {
    Merged { commit: String },
    Conflict { paths: Vec<String> },
    Refused { why: String },
    Held { reason: Reason, detail: String },
}

/// Why a stage did not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum StageJobError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the target branch `{0}` is gone")]
    NoTarget(String),
    #[error("the worktree of the task is gone")]
    NoWorktree,
    #[error("the setup of the worktree failed: {0}")]
    Setup(String),
}

impl StageJobError {
    /// What stands in the way, as a reason of a loop that did not begin.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Start(StartError::TaskHeld { .. } | StartError::WorkspaceHeld { .. }) => Reason::Lock,
            _ => Reason::Error,
        }
    }
}

/// What a job knows from one order to the next.
#[derive(Debug, Default)]
pub(crate) struct JobMemory {
    /// Of which repository, and what git has said about its commits.
    commits: Option<(PathBuf, CommitFacts)>,
}

impl JobMemory {
    /// What is known about the commits of the repository at this place.
    fn commits_of(&mut self, root: &Path) -> CommitFacts {
        match &self.commits {
            Some((known, facts)) if known == root => facts.clone(),
            _ => self.commits.insert((root.to_owned(), CommitFacts::default())).1.clone(),
        }
    }
}

/// Does what the spec says. What a loop has done stands in the journal.
pub(crate) fn work(spec: StageSpec, voice: &mut JobReporter, memory: &mut JobMemory) {
    voice.begin_order(spec.is_watched);
    if let Some(config) = spec.config.clone() {
        config.remember();
    }
    let job = StageJob { home: Home::at(&spec.home), commits: memory.commits_of(&spec.root), spec };
    let done = job.refuse_link().and_then(|()| match job.spec.work.clone() {
        StageWork::Begin { stage, run, policy, prompt, steers } => {
            let begun = job.begin(stage, run, (*policy, prompt), steers, voice);
            begun.and_then(|id| job.put_back(stage, &id))
        }
        StageWork::GoOn { id, stage, grant } => {
            let gone_on = job.go_on(id.clone(), grant, voice);
            gone_on.and_then(|()| job.put_back(stage, &id))
        }
        StageWork::Merge { tree, from, policy, task } => {
            let work = MergeWork { tree, from, policy: *policy, task: *task };
            let report = merge::merge(&job, work, voice);
            report.map(|report| voice.say(&JobMessage::Merge(report)))
        }
        StageWork::Tidy { commit } => job.tidy(&commit),
    });
    if let Err(error) = done {
        voice.say(&JobMessage::Failed(JobFailure::new(error.to_string(), error.reason())));
    }
}

/// Removes the worktree and the branch of a task that is merged, in this process.
pub(super) fn tidy(spec: StageSpec, commit: &str) -> Result<(), StageJobError> {
    let job = StageJob { home: Home::at(&spec.home), commits: CommitFacts::default(), spec };
    job.refuse_link()?;
    job.tidy(commit)
}

pub(super) struct StageJob {
    pub(super) home: Home,
    pub(super) spec: StageSpec,
    commits: CommitFacts,
}

impl StageJob {
    pub(super) fn known(&self) -> Option<KnownWorktree> {
        self.spec.known.clone().map(|(path, branch)| KnownWorktree { path, branch })
    }

    /// An agent can put a link into the place of the worktree. What would be done there would be done elsewhere.
    fn refuse_link(&self) -> Result<(), StageJobError> {
        match self.known() {
            Some(KnownWorktree { path, .. }) if path.is_symlink() => Err(WorkspaceError::Link(path).into()),
            _ => Ok(()),
        }
    }

    fn begin(
        &self,
        stage: StageName,
        run: u32,
        (policy, prompt): (Policy, String),
        mut steers: Vec<String>,
        voice: &mut JobReporter,
    ) -> Result<LoopId, StageJobError> {
        let (workspace, base) = match self.place_of_next_stage(stage)? {
            Some(place) => place,
            None => {
                let repo = self.open()?;
                let target = repo.branch(&self.spec.target)?;
                let target = target.ok_or_else(|| StageJobError::NoTarget(self.spec.target.clone()))?;
                let worktree = self.worktree(&repo, &target)?;
                let mut head = worktree.head.clone();
                let mut seen = match &self.spec.seen {
                    Some(seen) if !worktree.is_new => seen.clone(),
                    _ if worktree.is_new => target.clone(),
                    _ => repo.merge_base(&target, &head)?.unwrap_or_else(|| target.clone()),
                };
                if stage == StageName::Coder {
                    let (taken, told) = self.take_target(&repo, &worktree, &target)?;
                    if taken != head {
                        seen.clone_from(&target);
                    }
                    head = taken;
                    steers.extend(told);
                }
                let (path, branch) = (worktree.path.clone(), worktree.branch.clone());
                voice.say(&JobMessage::Worktree { path, branch, target: seen });
                // In the first stage all that the branch holds beyond its target is the work of the task, also what an
                // earlier run of it has left. After that each stage has to show work of its own.
                let base = match run {
                    1 if head != target => repo.merge_base(&target, &head)?.unwrap_or(head),
                    _ => head,
                };
                (worktree.path, base)
            }
        };
        let new = NewLoop {
            policy,
            prompt: Some(prompt),
            project: self.spec.project.clone(),
            task: Some(self.spec.task.clone()),
            workspace,
            after: Vec::new(),
            parent: None,
            run: Some(self.spec.run.clone()),
            purpose: Some(Purpose::stage(stage, run)),
            base: Some(base),
            filters: self.spec.filters.clone(),
            programs: self.spec.programs.clone(),
            steers,
            is_detached: self.spec.is_detached,
        };
        Ok(supervisor::run(&self.home, new.check()?, voice)?.id)
    }

    /// What an agent that may change nothing has left behind is put back, once its loop is over: another stage would take it
    /// for work.
    fn put_back(&self, stage: StageName, id: &LoopId) -> Result<(), StageJobError> {
        if stage.role().may_write != MayWrite::Nothing {
            return Ok(());
        }
        self.refuse_link()?;
        let store = Store::open(&self.home.database()).map_err(StartError::from)?;
        let Some(view) = store.row(id).map_err(StartError::from)?.map(|row| row.current_view()) else {
            return Ok(());
        };
        let mut account = StageAccount::new(self.spec.task.clone(), stage);
        for envelope in store.events(id, 0).map_err(StartError::from)? {
            account.take(&envelope.event);
        }
        let has_changed = account.trees().is_some_and(|(before, after)| before != after);
        if has_changed && view.reason.is_some_and(|reason| !goes_on(reason)) {
            // If that does not work, the stage has failed all the same, and the files say why.
            let _ = snapshots::restore(&self.home, &store, &view, SnapshotChoice::After(0));
        }
        Ok(())
    }

    /// Where a stage behind the coder works, and from which commit on: in the worktree that the coder has left, if that is as it
    /// was. Only files are looked at for that.
    fn place_of_next_stage(&self, stage: StageName) -> Result<Option<(PathBuf, String)>, StageJobError> {
        let Some(KnownWorktree { path, branch }) = self.known().filter(|_| stage != StageName::Coder) else {
            return Ok(None);
        };
        let repo = self.find()?;
        match repo.branch(&branch)? {
            Some(head) if !self.spec.submodules && repo.is_on(&path, &branch) => Ok(Some((path, head))),
            _ => Ok(None),
        }
    }

    /// The repository, after a move of a branch that was cut short is completed.
    pub(super) fn open(&self) -> Result<Repository, StageJobError> {
        Ok(Repository::open_again(&self.spec.root, &self.home)?.knowing(&self.commits))
    }

    /// The repository, as it stands: nothing is completed that was cut short.
    fn find(&self) -> Result<Repository, StageJobError> {
        let git = Git::find().map_err(WorkspaceError::from)?;
        Ok(Repository::find(&git, &self.spec.root, &self.home)?.knowing(&self.commits))
    }

    fn go_on(&self, id: LoopId, grant: Grant, voice: &mut JobReporter) -> Result<(), StageJobError> {
        let (programs, is_detached) = (self.spec.programs.clone(), self.spec.is_detached);
        supervisor::resume(&self.home, ResumeLoop { id, grant, programs, is_detached }, voice)?;
        Ok(())
    }

    /// The worktree of the task, ready to work in.
    fn worktree(&self, repo: &Repository, target: &str) -> Result<Worktree, StageJobError> {
        let known = self.known();
        let worktree = repo.worktree(&self.spec.task, &self.spec.project, target, known.as_ref())?;
        if self.spec.submodules {
            repo.init_submodules(&worktree.path)?;
        }
        // What is known was ready when it became known.
        let is_ready =
            known.is_some_and(|known| known.path == worktree.path && known.branch == worktree.branch);
        if !is_ready {
            self.prepare(&worktree.path, Some(&worktree.branch), &self.spec.setup)?;
        }
        Ok(worktree)
    }

    /// Runs the commands that make a worktree ready, or those before it goes.
    pub(super) fn prepare(
        &self,
        dir: &Path,
        branch: Option<&str>,
        steps: &[SetupCommand],
    ) -> Result<(), StageJobError> {
        let at = WorktreeOwner { project: &self.spec.project, work: (&self.spec.task).into(), dir, branch };
        match prepare(&self.home, at, &self.spec.sandbox, steps) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(SetupFailed { run, how, tail })) => {
                Err(StageJobError::Setup(format!("`{run}` {how}: {}", tail.trim())))
            }
            Err(error) => Err(StageJobError::Setup(error.to_string())),
        }
    }

    /// Brings what the target has got meanwhile into the branch of the task. Where both changed the same places the files get
    /// conflict marks, which the coder is told. Gives the newest commit of the branch.
    fn take_target(
        &self,
        repo: &Repository,
        worktree: &Worktree,
        target: &str,
    ) -> Result<(String, Option<String>), StageJobError> {
        let Worktree { path, branch, head, .. } = worktree;
        if head == target || repo.is_ancestor(target, head)? {
            return Ok((head.clone(), None));
        }
        let (tree, paths) = match repo.merge(head, target)? {
            Merged::Nothing => return Ok((head.clone(), None)),
            Merged::Clean { tree } => (tree, Vec::new()),
            Merged::Conflict { tree, paths, .. } => (tree, paths),
        };
        let message = format!("Merge {} into {branch}", self.spec.target);
        let commit = repo.commit_merge(&tree, [head, target], &message)?;
        match repo.advance(path, branch, &commit, head) {
            Ok(()) => {}
            // What an earlier run has left there is not committed; the merge at the end sees to it.
            Err(WorkspaceError::NotClean { .. }) => return Ok((head.clone(), None)),
            Err(error) => return Err(error.into()),
        }
        let told = (!paths.is_empty()).then(|| {
            format!(
                "`{}` has changed in the same places as this branch. It was merged into the branch, and these files hold both \
                 versions with conflict marks between them: {}. Bring them together and commit.",
                self.spec.target,
                paths.join(", ")
            )
        });
        Ok((commit, told))
    }

    /// Removes what is left of a merged task. What is not surely merged and clean stays.
    fn tidy(&self, commit: &str) -> Result<(), StageJobError> {
        let Some(KnownWorktree { path, branch }) = self.known() else { return Ok(()) };
        let repo = self.find()?;
        repo.know(commit);
        self.prepare(&path, Some(&branch), &self.spec.teardown)?;
        repo.remove(&path, &branch, commit)?;
        Ok(())
    }
}
