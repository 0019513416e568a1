//! A worktree per unit, outside the repository: made once, found again, and removed only when nothing of it can be lost.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use dacapo_core::ids::{ProjectId, TaskId, UnitId};

use super::{RegisteredWorktree, Repository, branch_of};
use crate::{
    git::{Checkout, Git, WorkspaceError, remove_stale_lock, split_nul},
    home::Home,
    snapshots::keep_filled,
};

/// How many names are tried before nothing is free.
const MOST_NAMES: u32 = 100;
/// A file in git's folder of a worktree that has been made and not been filled yet.
const UNFILLED: &str = "dacapo-new";
/// How the folder of a worktree is called from the moment on at which its removal is decided.
const REMOVED: &str = ".removed-";
/// By how much the files of a new worktree are made older than its index: git compares whole seconds.
const OLDER: Duration = Duration::from_secs(2);
/// How deep submodules are looked into.
pub(super) const MOST_DEPTH: u32 = 5;

/// The worktree that a unit is known to have had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWorktree {
    pub path: PathBuf,
    pub branch: String,
}

#[derive(Clone, Copy, Debug)]
pub enum WorktreeFor<'a> {
    Unit(&'a UnitId),
    /// A task that passes through stages.
    Task(&'a TaskId),
}

impl<'a> From<&'a UnitId> for WorktreeFor<'a> {
    fn from(unit: &'a UnitId) -> Self {
        Self::Unit(unit)
    }
}

impl<'a> From<&'a TaskId> for WorktreeFor<'a> {
    fn from(task: &'a TaskId) -> Self {
        Self::Task(task)
    }
}

impl WorktreeFor<'_> {
    pub(super) fn name(self) -> String {
        match self {
            Self::Unit(unit) => unit.to_string(),
            Self::Task(task) => format!("task-{task}"),
        }
    }

    /// What commands find its name in, in their environment.
    pub(super) fn variable(self) -> (&'static str, String) {
        match self {
            Self::Unit(unit) => ("DACAPO_UNIT", unit.to_string()),
            Self::Task(task) => ("DACAPO_TASK", task.to_string()),
        }
    }

    /// The name of its `n`th place, from 1 on.
    fn place(self, n: u32) -> String {
        if n == 1 { self.name() } else { format!("{}-{n}", self.name()) }
    }

    /// A name for a new branch: the `n`th that is tried.
    fn branch(self, n: u32) -> Result<String, WorkspaceError> {
        Ok(match self {
            Self::Unit(unit) => format!("dacapo/{unit}-{}", six_hex()?),
            Self::Task(task) if n == 1 => format!("task/{task}"),
            Self::Task(task) => format!("task/{task}-{}", six_hex()?),
        })
    }

    /// Whether a branch, by its whole name, is one that was made for it.
    fn has_made(self, whole: &str) -> bool {
        let (prefix, name) = match self {
            Self::Unit(unit) => ("refs/heads/dacapo/", unit.as_str()),
            Self::Task(task) => ("refs/heads/task/", task.as_str()),
        };
        let Some(rest) = whole.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(name)) else {
            return false;
        };
        let is_hex =
            |hex: &str| hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
        rest.strip_prefix('-').is_some_and(is_hex) || (rest.is_empty() && matches!(self, Self::Task(_)))
    }
}

/// Where a unit or a task is worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    /// Its branch, `dacapo/<unit>-<6 hex>` or `task/<task>`.
    pub branch: String,
    /// The newest commit of the branch.
    pub head: String,
    /// Whether the branch was made by this call.
    pub is_new: bool,
}

/// What [`Repository::remove`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeRemoval {
    /// Folder and branch are gone.
    Removed,
    /// Work could be lost, or git cannot tell: folder and branch are left as they are (faults H2, H6).
    Kept { why: String },
}

/// A worktree whose unit is merged, so that it may be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedWorktree {
    root: PathBuf,
    /// The folder; it may be gone already.
    pub path: PathBuf,
    pub branch: String,
    /// The branch that holds all of it.
    pub merged_into: String,
}

impl FinishedWorktree {
    /// The worktree at `path`, if it was not touched since `before`, all of it is committed, and a branch that is not
    /// ours holds it. Where git cannot tell one of these, the worktree does not count as finished.
    pub(crate) fn at(git: &Git, home: &Home, path: &Path, before: SystemTime) -> Option<Self> {
        let repo = Repository::of_worktree(git, home, path)?;
        let worktree = repo.at(path).ok()?;
        let files = ["index", "HEAD", "logs/HEAD"].map(|file| worktree.git_dir.join(file));
        let is_recent = |file: &Path| {
            let modified = fs::symlink_metadata(file).and_then(|metadata| metadata.modified());
            modified.is_ok_and(|modified| modified >= before)
        };
        if is_recent(path) || files.iter().any(|file| is_recent(file)) {
            return None;
        }
        let branch = branch_of(&worktree).ok()?.filter(|name| name.starts_with("dacapo/"))?;
        let tip = repo.branch(&branch).ok()??;
        let args = ["for-each-ref", "--format=%(refname:lstrip=2)", "--contains", &tip, "refs/heads"];
        let holders = repo.checkout.call().args(args).ok().ok()?.stdout;
        let holders = String::from_utf8_lossy(&holders).into_owned();
        let merged_into = holders.lines().find(|name| !name.starts_with("dacapo/"))?.to_owned();
        match repo.reason_to_keep(path, &branch, &merged_into) {
            None => Some(Self { root: repo.root().to_owned(), path: path.to_owned(), branch, merged_into }),
            Some(_) => None,
        }
    }

    /// What is left of a unit of the repository at `root` whose worktree at `path` is gone: its branch, if all of that
    /// is in `merged_into`.
    pub(crate) fn branch_of(
        git: &Git,
        home: &Home,
        root: &Path,
        (path, branch, merged_into): (PathBuf, String, String),
    ) -> Option<Self> {
        let repo = Repository::find(git, root, home).ok()?;
        repo.branch(&branch).ok()??;
        match repo.reason_to_keep(&path, &branch, &merged_into) {
            None => Some(Self { root: repo.root().to_owned(), path, branch, merged_into }),
            Some(_) => None,
        }
    }

    /// Removes it, if that is still safe.
    pub(crate) fn remove(&self, git: &Git, home: &Home) -> Result<WorktreeRemoval, WorkspaceError> {
        Repository::find(git, &self.root, home)?.remove(&self.path, &self.branch, &self.merged_into)
    }
}

/// What HEAD of a new worktree names.
#[derive(Clone, Copy)]
enum WorktreeHead<'a> {
    Branch(&'a str),
    /// A branch that begins at a commit.
    New {
        branch: &'a str,
        at: &'a str,
    },
    Detached(&'a str),
}

/// Whether a folder holds nothing but the link to its repository.
fn only_git(mut entries: fs::ReadDir) -> bool {
    entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == ".git"))
}

/// Gives all files in a folder the same time of change. Links and what cannot be changed stay as they are.
fn make_older(folder: &Path, seconds: i64) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 },
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => make_older(&entry.path(), seconds),
            Ok(kind) if kind.is_file() && entry.file_name() != ".git" => {
                let _ = utimensat(CWD, entry.path(), &times, AtFlags::SYMLINK_NOFOLLOW);
            }
            _ => {}
        }
    }
}

/// A worktree for a look at a merge: on no branch, gone when dropped.
#[derive(Debug)]
pub struct MergeWorktree<'a> {
    repo: &'a Repository,
    path: PathBuf,
    is_kept: bool,
}

impl MergeWorktree<'_> {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is; the next one of the same name takes its place.
    pub fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.path.clone()
    }

    /// Removes it, and says so if it cannot.
    pub fn remove(mut self) -> Result<(), WorkspaceError> {
        self.is_kept = true;
        let _lock = self.repo.lock()?;
        self.repo.discard(&self.path)
    }
}

impl Drop for MergeWorktree<'_> {
    fn drop(&mut self) {
        if !self.is_kept
            && let Ok(_lock) = self.repo.lock()
        {
            let _ = self.repo.discard(&self.path);
        }
    }
}

impl Repository {
    /// The repository that a worktree belongs to, also in the middle of a merge or with changed files.
    fn of_worktree(git: &Git, home: &Home, path: &Path) -> Option<Self> {
        let main = Self::find(git, path, home).ok()?.worktrees().ok()?.into_iter().next()?;
        Self::find(git, &main.path, home).ok()
    }

    /// The worktree of a unit or a task: the one it had, if that can be used, else one of its own on a new branch at `base`.
    ///
    /// A folder or branch in the way that is not known to be its own is left alone (fault H5).
    pub fn worktree<'a>(
        &self,
        owner: impl Into<WorktreeFor<'a>>,
        project: &ProjectId,
        base: &str,
        known: Option<&KnownWorktree>,
    ) -> Result<Worktree, WorkspaceError> {
        let (owner, base) = (owner.into(), self.commit(base)?);
        let folder = self.folder(project)?;
        let lock = self.lock()?;
        remove_set_aside(&folder);
        let all = self.forget_gone(&folder)?;
        let found = match self.adopted(&folder, owner, &base, &all, known)? {
            Some(found) => found,
            None => self.added(&folder, owner, &base, &all, known)?,
        };
        drop(lock);
        // Writing the files takes long, and others need not wait for it.
        match self.fill(&found.path, &found.head) {
            Err(error) if found.is_new => {
                // Only dacapo makes branches of this name, and no agent has worked there.
                let _lock = self.lock()?;
                self.discard(&found.path)?;
                if self.branch(&found.branch)?.as_ref() == Some(&found.head) {
                    self.delete_branch(&found.branch, &found.head)?;
                }
                Err(error)
            }
            filled => {
                if filled? {
                    self.settle(&found.path, &found.head);
                }
                Ok(found)
            }
        }
    }

    /// Forgets worktrees at or below a folder of ours that are not there any more; those of others may lie on a drive that
    /// is elsewhere today.
    /// Gives those that are left.
    fn forget_gone(&self, folder: &Path) -> Result<Vec<RegisteredWorktree>, WorkspaceError> {
        let mut left = Vec::new();
        for registered in self.worktrees()? {
            let is_there = fs::symlink_metadata(&registered.path).is_ok();
            if registered.path.starts_with(folder) && !is_there && !registered.is_locked {
                match &registered.git_dir {
                    Some(git_dir) => self.unregister(git_dir)?,
                    None => {
                        let call = self.checkout.call().args(["worktree", "remove", "--force"]);
                        call.args([&registered.path]).ok()?;
                    }
                }
            } else {
                left.push(registered);
            }
        }
        Ok(left)
    }

    /// Removes git's folder of a worktree that is gone. The caller holds the repository's lock.
    fn unregister(&self, git_dir: &Path) -> Result<(), WorkspaceError> {
        let folder = self.checkout.common_dir.join("worktrees");
        if git_dir.parent() != Some(folder.as_path()) {
            let why = "it is not git's folder of a worktree".to_owned();
            return Err(WorkspaceError::Damaged { path: git_dir.to_owned(), why });
        }
        remove_all(git_dir)?;
        // git has no such folder where there is no worktree; one that another process adds just now stays.
        let _ = fs::remove_dir(folder);
        Ok(())
    }

    /// Whether the worktree is this repository's and on the branch, as far as files tell.
    pub(crate) fn is_on(&self, path: &Path, branch: &str) -> bool {
        let link = path.join(".git");
        let read = |path: &Path| fs::read_to_string(path).ok();
        let Some(pointer) = read(&link) else { return false };
        let Some(folder) = pointer.strip_prefix("gitdir: ").map(|folder| Path::new(folder.trim_end())) else {
            return false;
        };
        folder.parent() == Some(&self.checkout.common_dir.join("worktrees"))
            && read(&folder.join("gitdir")).is_some_and(|back| Path::new(back.trim_end()) == link)
            && read(&folder.join("HEAD")).is_some_and(|head| head == format!("ref: refs/heads/{branch}\n"))
    }

    /// Where worktrees of a project lie.
    fn folder(&self, project: &ProjectId) -> Result<PathBuf, WorkspaceError> {
        let folder = self.home.path().join("worktrees").join(project.as_str());
        crate::home::make_dir(&folder).map_err(WorkspaceError::io("make", &folder))?;
        folder.canonicalize().map_err(WorkspaceError::io("enter", folder))
    }

    /// A registered worktree that is the owner's: on the branch it is known to have, or on one of its own at its place.
    fn adopted(
        &self,
        folder: &Path,
        owner: WorktreeFor<'_>,
        base: &str,
        all: &[RegisteredWorktree],
        known: Option<&KnownWorktree>,
    ) -> Result<Option<Worktree>, WorkspaceError> {
        let is_usable = |registered: &&RegisteredWorktree| {
            registered.path.starts_with(folder) && self.at(&registered.path).is_ok()
        };
        let on_known = known.and_then(|known| {
            let whole = format!("refs/heads/{}", known.branch);
            all.iter().filter(|registered| registered.branch.as_ref() == Some(&whole)).find(is_usable)
        });
        // dacapo may have died after it made the worktree and before it recorded that.
        let at_place = || {
            let is_own = |registered: &&RegisteredWorktree| {
                let is_place = (1..=MOST_NAMES).any(|n| registered.path == folder.join(owner.place(n)));
                is_place && registered.branch.as_deref().is_some_and(|whole| owner.has_made(whole))
            };
            all.iter().filter(is_own).find(is_usable)
        };
        let Some(found) = on_known.or_else(at_place) else { return Ok(None) };
        let branch = found.branch.as_deref().and_then(|whole| whole.strip_prefix("refs/heads/"));
        let Some(branch) = branch.map(str::to_owned) else { return Ok(None) };
        let (path, head) = (found.path.clone(), self.branch(&branch)?);
        let is_unfilled = || found.git_dir.as_ref().is_some_and(|git_dir| git_dir.join(UNFILLED).exists());
        Ok(match head {
            Some(head) => Some(Worktree { path, branch, head, is_new: false }),
            // dacapo died before it made the branch.
            None if is_unfilled() => Some(Worktree { path, branch, head: base.to_owned(), is_new: true }),
            None => None,
        })
    }

    /// A worktree at a free place: of the known branch if it can be checked out, else of a new one.
    fn added(
        &self,
        folder: &Path,
        owner: WorktreeFor<'_>,
        base: &str,
        all: &[RegisteredWorktree],
        known: Option<&KnownWorktree>,
    ) -> Result<Worktree, WorkspaceError> {
        let tip = known.map(|known| self.branch(&known.branch)).transpose()?.flatten();
        let is_out = known.is_some_and(|known| {
            let whole = format!("refs/heads/{}", known.branch);
            all.iter().any(|registered| registered.branch.as_ref() == Some(&whole))
        });
        let path = self.free_place(folder, owner, all, known)?;
        if let (Some(known), Some(head), false) = (known, &tip, is_out)
            && self.add(&path, WorktreeHead::Branch(&known.branch)).is_ok()
        {
            let branch = known.branch.clone();
            return Ok(Worktree { path, branch, head: head.clone(), is_new: false });
        }
        // In use where a person works: what it holds goes on under another name.
        let head = tip.unwrap_or_else(|| base.to_owned());
        for n in 1..=MOST_NAMES {
            let branch = owner.branch(n)?;
            if self.branch(&branch)?.is_some() {
                continue;
            }
            self.add(&path, WorktreeHead::New { branch: &branch, at: &head })?;
            return Ok(Worktree { path, branch, head, is_new: true });
        }
        Err(WorkspaceError::NoName { name: owner.name(), dir: folder.to_owned() })
    }

    fn free_place(
        &self,
        folder: &Path,
        owner: WorktreeFor<'_>,
        all: &[RegisteredWorktree],
        known: Option<&KnownWorktree>,
    ) -> Result<PathBuf, WorkspaceError> {
        let is_free = |path: &Path| {
            let is_empty = match fs::read_dir(path) {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) => error.kind() == io::ErrorKind::NotFound && !path.is_symlink(),
            };
            is_empty && !path.is_symlink() && !all.iter().any(|registered| registered.path == path)
        };
        let before = known.map(|known| known.path.clone()).filter(|path| path.parent() == Some(folder));
        let names = (1..=MOST_NAMES).map(|n| folder.join(owner.place(n)));
        before
            .into_iter()
            .chain(names)
            .find(|path| is_free(path))
            .ok_or_else(|| WorkspaceError::NoName { name: owner.name(), dir: folder.to_owned() })
    }

    /// Registers a worktree without its files; leaves nothing behind if that fails.
    ///
    /// git's own command starts four processes for that, so its few files are written here. A branch that does not exist yet is
    /// made when the worktree is filled.
    fn add(&self, path: &Path, head: WorktreeHead<'_>) -> Result<(), WorkspaceError> {
        if self.checkout.common_dir.join("reftable").exists() {
            return self.add_with_git(path, head);
        }
        let made = self.register(path, head);
        if made.is_err() && fs::read_dir(path).is_ok_and(only_git) {
            let _ = fs::remove_file(path.join(".git"));
            let _ = fs::remove_dir(path);
            let _ = self.forget_gone(path);
        }
        made
    }

    fn register(&self, path: &Path, head: WorktreeHead<'_>) -> Result<(), WorkspaceError> {
        let write =
            |file: PathBuf, bytes: &[u8]| fs::write(&file, bytes).map_err(WorkspaceError::io("write", file));
        let folder = self.checkout.common_dir.join("worktrees");
        crate::home::make_dir(path).map_err(WorkspaceError::io("make", path))?;
        fs::create_dir_all(&folder).map_err(WorkspaceError::io("make", &folder))?;
        let name = path.file_name().unwrap_or(OsStr::new("worktree"));
        for n in 0..MOST_NAMES {
            let mut name = name.to_owned();
            if n > 0 {
                name.push(n.to_string());
            }
            let git_dir = folder.join(name);
            match fs::create_dir(&git_dir) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(WorkspaceError::io("make", git_dir)(error)),
            }
            let link = path.join(".git");
            // First what is looked at where files are worked on, so that nothing takes the other for left behind.
            write(link.clone(), &[b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat())?;
            write(git_dir.join(UNFILLED), b"")?;
            write(git_dir.join("commondir"), b"../..\n")?;
            let head = match head {
                WorktreeHead::Branch(branch) | WorktreeHead::New { branch, .. } => {
                    format!("ref: refs/heads/{branch}\n")
                }
                WorktreeHead::Detached(commit) => format!("{commit}\n"),
            };
            write(git_dir.join("HEAD"), head.as_bytes())?;
            return write(git_dir.join("gitdir"), &[link.as_os_str().as_bytes(), b"\n"].concat());
        }
        Err(WorkspaceError::NoName { name: name.to_string_lossy().into_owned(), dir: folder })
    }

    fn add_with_git(&self, path: &Path, head: WorktreeHead<'_>) -> Result<(), WorkspaceError> {
        let call = self.guarded(&self.checkout)?.args(["worktree", "add", "--quiet", "--no-checkout"]);
        let (how, what) = match head {
            WorktreeHead::Branch(branch) => (vec![], branch),
            WorktreeHead::New { branch, at } => (vec!["--no-track", "-b", branch], at),
            WorktreeHead::Detached(commit) => (vec!["--detach"], commit),
        };
        // How many of its bytes others have to wait for is none; git's own checkout would be under the lock.
        let added = call.args(how).args([path.as_os_str(), OsStr::new(what)]).ok();
        if let Err(error) = added {
            if fs::read_dir(path).is_ok_and(only_git) {
                let _ = fs::remove_file(path.join(".git"));
                let _ = fs::remove_dir(path);
                let _ = self.forget_gone(path);
            }
            return Err(error.into());
        }
        let mark = self.at(path)?.git_dir.join(UNFILLED);
        fs::write(&mark, "").map_err(WorkspaceError::io("write", mark))
    }

    /// Writes the files of a worktree that was made and never filled, also by a dacapo that is dead. A branch that does not exist
    /// yet begins at `commit`. Says whether it did.
    fn fill(&self, path: &Path, commit: &str) -> Result<bool, WorkspaceError> {
        let worktree = self.at(path)?;
        // No agent works there yet, so the lock was left behind by a git that was killed (fault H4).
        remove_stale_lock(&worktree, SystemTime::UNIX_EPOCH)?;
        let mark = worktree.git_dir.join(UNFILLED);
        let is_bare = !worktree.git_dir.join("index").exists() && fs::read_dir(path).is_ok_and(only_git);
        if !is_bare && !mark.exists() {
            return Ok(false);
        }
        let is_unborn = match branch_of(&worktree)? {
            Some(branch) => self.branch(&branch)?.is_none(),
            None => false,
        };
        let call = self.guarded(&worktree)?;
        let call = match is_unborn {
            // Makes the branch as well.
            true => call.env("GIT_REFLOG_ACTION", "dacapo").args(["reset", "--hard", "--quiet", commit]),
            false => call.args(["read-tree", "--reset", "-u", "HEAD"]),
        };
        call.patiently(10).ok()?;
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WorkspaceError::io("remove", mark)(error))
            }
            _ => Ok(true),
        }
    }

    /// Makes the files of a worktree that was just filled older than its index. Git cannot tell whether a file that is as recent as the
    /// index was changed since, and would read all of them at every snapshot. An agent's change is later than both.
    ///
    /// It only saves time, so what fails is left as it is.
    fn settle(&self, path: &Path, head: &str) {
        let Ok(since) = (SystemTime::now() - OLDER).duration_since(SystemTime::UNIX_EPOCH) else { return };
        let Ok(seconds) = i64::try_from(since.as_secs()) else { return };
        make_older(path, seconds);
        let Ok(worktree) = self.at(path) else { return };
        if let Ok(call) = self.guarded(&worktree) {
            let _ = call.args(["update-index", "-q", "--refresh"]).ok();
            keep_filled(&worktree.git_dir, head);
        }
    }

    /// A fresh worktree at `commit`, on no branch, in place of any earlier one of that name.
    pub fn scratch(
        &self,
        project: &ProjectId,
        name: &str,
        commit: &str,
    ) -> Result<MergeWorktree<'_>, WorkspaceError> {
        let commit = self.commit(commit)?;
        let path = self.folder(project)?.join(format!(".merge-{}", name.replace('/', "-")));
        let lock = self.lock()?;
        self.discard(&path)?;
        self.add(&path, WorktreeHead::Detached(&commit))?;
        drop(lock);
        let scratch = MergeWorktree { repo: self, path, is_kept: false };
        self.fill(&scratch.path, &commit)?;
        Ok(scratch)
    }

    /// Removes a scratch worktree that was kept.
    pub(crate) fn discard_scratch(&self, path: &Path) -> Result<(), WorkspaceError> {
        let _lock = self.lock()?;
        self.discard(path)
    }

    /// Removes a scratch worktree with its changes: it holds no work of a person or an agent.
    fn discard(&self, path: &Path) -> Result<(), WorkspaceError> {
        remove_all(path)?;
        self.forget_gone(path).map(drop)
    }

    /// Removes a worktree and its branch if all of it is committed and in `merged_into`; else nothing.
    pub fn remove(
        &self,
        worktree: &Path,
        branch: &str,
        merged_into: &str,
    ) -> Result<WorktreeRemoval, WorkspaceError> {
        let _lock = self.lock()?;
        if let Some(why) = self.reason_to_keep(worktree, branch, merged_into) {
            return Ok(WorktreeRemoval::Kept { why });
        }
        if fs::symlink_metadata(worktree).is_ok() {
            let found = self.at(worktree)?;
            if found.git_dir.join("locked").exists() {
                return Ok(WorktreeRemoval::Kept { why: "it is locked".to_owned() });
            }
            // That nothing is lost has been seen above, also in submodules (fault H7).
            if let Err(error) = set_aside(worktree) {
                return Ok(WorktreeRemoval::Kept { why: error.to_string() });
            }
            self.unregister(&found.git_dir)?;
        } else {
            self.forget_gone(worktree)?;
        }
        if let Some(tip) = self.branch(branch)? {
            self.delete_branch(branch, &tip)?;
        }
        if let Some(folder) = worktree.parent() {
            remove_set_aside(folder);
        }
        Ok(WorktreeRemoval::Removed)
    }

    /// Why a worktree has to stay; what cannot be told is a reason (fault H6).
    pub(crate) fn reason_to_keep(&self, worktree: &Path, branch: &str, merged_into: &str) -> Option<String> {
        match self.look(worktree, branch, merged_into) {
            Ok(why) => why,
            Err(error) => Some(format!("its state cannot be told: {error}")),
        }
    }

    fn look(&self, path: &Path, branch: &str, merged_into: &str) -> Result<Option<String>, WorkspaceError> {
        let is_there = fs::symlink_metadata(path).is_ok();
        let tip = self.branch(branch)?;
        if let Some(tip) = &tip
            && !self.is_ancestor(tip, merged_into)?
        {
            return Ok(Some(format!("`{branch}` has commits that are not in `{merged_into}`")));
        }
        let whole = format!("refs/heads/{branch}");
        let elsewhere = self.worktrees()?.into_iter().find(|registered| {
            let is_here =
                path.canonicalize().is_ok_and(|path| path == registered.path) || path == registered.path;
            registered.branch.as_ref() == Some(&whole)
                && !is_here
                && (!registered.is_gone() || registered.is_locked)
        });
        if let Some(elsewhere) = elsewhere {
            return Ok(Some(format!("`{branch}` is checked out in `{}`", elsewhere.path.display())));
        }
        if !is_there {
            return Ok(None);
        }
        let found = self.at(path)?;
        if found.git_dir == self.checkout.common_dir {
            return Ok(Some("it is the repository's own work tree".to_owned()));
        }
        if branch_of(&found)?.as_deref() != Some(branch) {
            return Ok(Some(format!("it is not on the branch `{branch}`")));
        }
        found.check_files()?;
        let dirty = self.dirt(&found, "normal", "dirty")?;
        if let Some(first) = dirty.first() {
            let more = if dirty.len() > 1 { format!(" and {} more", dirty.len() - 1) } else { String::new() };
            return Ok(Some(format!("`{first}`{more} is not committed")));
        }
        let index = flagged_index(&found)?;
        if let Some(hidden) = hidden_in(&index, &found) {
            return Ok(Some(format!("git was told not to look at `{hidden}`")));
        }
        self.look_at_submodules_in(&index, &found, MOST_DEPTH)
    }
}

/// The index of a worktree: for each entry a letter that says how git looks at it, its mode, id and stage, and its path.
pub(super) fn flagged_index(checkout: &Checkout) -> Result<Vec<u8>, WorkspaceError> {
    Ok(checkout.call().args(["ls-files", "-v", "--stage", "-z"]).ok()?.stdout)
}

/// A file whose changes `git status` does not show because of a flag in the index.
pub(super) fn hidden(checkout: &Checkout) -> Result<Option<String>, WorkspaceError> {
    Ok(hidden_in(&flagged_index(checkout)?, checkout))
}

fn hidden_in(index: &[u8], checkout: &Checkout) -> Option<String> {
    split_nul(index).find_map(|entry| {
        let path = &entry[memchr::memchr(b'\t', entry)? + 1..];
        // Left out of a sparse checkout, it is not there.
        let is_there = || fs::symlink_metadata(checkout.toplevel.join(OsStr::from_bytes(path))).is_ok();
        let is_hidden = entry[0].is_ascii_lowercase() || (entry[0] == b'S' && is_there());
        is_hidden.then(|| String::from_utf8_lossy(path).into_owned())
    })
}

/// Renames the folder of a worktree that is about to be removed. Deleting its files takes a while, and a dacapo that is killed
/// meanwhile would leave a worktree whose missing files look like work that is not committed: it would stay for good.
fn set_aside(worktree: &Path) -> Result<(), WorkspaceError> {
    let name = worktree.file_name().unwrap_or(OsStr::new("worktree")).to_string_lossy();
    let aside = worktree.with_file_name(format!("{REMOVED}{name}-{}", six_hex()?));
    fs::rename(worktree, aside).map_err(WorkspaceError::io("rename", worktree))
}

/// Deletes what was set aside in a folder of worktrees, also by a dacapo that is dead. The caller holds the repository's lock. What
/// cannot be deleted now is tried again with the next worktree that is made or removed there.
fn remove_set_aside(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().starts_with(REMOVED.as_bytes()) {
            let _ = remove_all(&entry.path());
        }
    }
}

fn remove_all(path: &Path) -> Result<(), WorkspaceError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(WorkspaceError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

pub(super) fn six_hex() -> Result<String, WorkspaceError> {
    let mut random = [0; 3];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())
        .map_err(|error| WorkspaceError::io("read", "/dev/urandom")(error.into()))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_aside_is_deleted_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["u", "other"] {
            fs::create_dir_all(folder.path().join(name).join("deep")).unwrap();
        }
        set_aside(&folder.path().join("u")).unwrap();
        assert!(!folder.path().join("u").exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        remove_set_aside(folder.path());
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["other"]);
    }

    #[test]
    fn a_branch_is_of_the_unit_or_the_task_whose_whole_name_it_has() {
        // req 197
        let (unit, task): (UnitId, TaskId) = ("a".parse().unwrap(), "a".parse().unwrap());
        for (name, expected) in [
            ("task/a", true),
            ("task/a-0f3c2b", true),
            ("task/a-b", false),
            ("task/ab", false),
            ("dacapo/a-0f3c2b", false),
        ] {
            let is_own = WorktreeFor::from(&task).has_made(&format!("refs/heads/{name}"));
            assert_eq!(is_own, expected, "{name}");
        }
        for (name, expected) in [
            ("dacapo/a-0f3c2b", true),
            ("dacapo/a-0F3C2B", false),
            ("dacapo/a-b-0f3c2b", false),
            ("dacapo/a-0f3c2", false),
            ("dacapo/ab-0f3c2b", false),
            ("a-0f3c2b", false),
            ("dacapo/a", false),
        ] {
            let is_own = WorktreeFor::from(&unit).has_made(&format!("refs/heads/{name}"));
            assert_eq!(is_own, expected, "{name}");
        }
    }
}
