//! The files a loop works on: what changed, what was there, putting it back, committing it.
//!
//! A folder in a git repository gets snapshots of the whole repository ([`Workspace::snapshot`]) that leave the
//! user's index, HEAD, branch and stash untouched; see `shadow.rs` for how. A plain folder gets hashes only.
//!
//! What a snapshot does not hold: files that were ignored when the loop began, untracked secrets (`.env*`, keys), changed files
//! that hold the value of a key from the environment, dumps of memory,
//! the content of submodules and of repositories lying inside this one (warned of), empty folders. A file counts as
//! unchanged if its stat is; git keeps change times in whole seconds, so a change in the very second of the snapshot
//! that keeps the size and sets the old modification time back is not seen. If an agent edits
//! ignore rules, new files stay visible as long as they are fewer than 2,000; beyond that [`Warning::HiddenByNewRules`]
//! says how many were left out.
//!
//! Filters run as they were when the loop began, unless an agent edits a file that the user's own configuration
//! includes. What an agent puts into the configuration of a submodule is read by the `git status` that git itself starts
//! there, which has our hardening but knows nothing of new filters.
//!
//! One loop is run by one dacapo at a time; that is the caller's to see to (`TaskLock`). git 2.38 or later is needed.
//!
//! Snapshots are commits under `refs/dacapo/`: they show in `git log --all` and go with `git push --mirror`.

mod apply_rules;
mod clone;
mod commit;
mod guard;
mod history;
mod known;
mod left_out;
mod of_loop;
mod of_run;
mod plain;
mod refs;
mod restore;
mod rules_at_start;
mod shadow;
mod state;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use dacapo_core::ids::LoopId;
use jiff::Timestamp;

pub(crate) use clone::Nested;
pub(crate) use known::keep_filled;
pub use of_loop::{
    KeptSnapshot, Restored, SnapshotChoice, SnapshotError, WorkDone, changed_paths, difference, forget, list,
    list_forgettable, restore, tree_now, work_done,
};
pub(crate) use of_loop::{open, started};
pub use of_run::{RunChange, changes_of_runs, difference_of_change};
pub use plain::Folder;
pub(crate) use restore::CheckoutBeside;

use crate::{
    git::{
        Checkout, Git, LinksAtStart, RepositoryLock, WorkspaceError, on_disk, remove_left_locks,
        without_scopes,
    },
    repository::{RecoveredBranch, Repository},
};
use plain::PlainFolder;
use shadow::Shadow;
use state::ShadowState;

/// How long another dacapo may hold a repository's lock: longer than it takes to fetch submodules.
const LOCK_LIMIT: Duration = Duration::from_secs(11 * 60);

/// The files of a workspace as they were at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// A commit, or the hash of a plain folder.
    pub id: String,
    /// Whether anything differs from the snapshot before.
    pub changed: bool,
}

/// What files held in each of two snapshots, and the commits of the time between.
pub type LookBack = ([Vec<Option<Vec<u8>>>; 2], Vec<String>);

/// What became of a path between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    pub kind: ChangeKind,
    /// From the top of the repository; any bytes but NUL.
    pub path: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// Other content or another execute bit.
    Modified,
    Deleted,
    /// A file became a link, or the other way round.
    TypeChanged,
}

/// How a difference between two snapshots is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffForm {
    /// Line by line.
    Patch { is_coloured: bool },
    /// A line for each file, as `git diff --stat` has it.
    Stat { columns: usize },
}

/// What [`Workspace::commit_tree`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// A new commit is on the branch.
    Committed {
        commit: String,
        /// Whether the user's index follows; not if another git held it all the while. `git reset` mends that.
        index_is_current: bool,
        /// Files that the agent has committed and that lie below ignored paths: they are not in this commit.
        left_out: Vec<String>,
    },
    /// It was committed by an earlier call.
    AlreadyCommitted { commit: String },
    /// HEAD holds these files already.
    NothingToCommit,
}

/// The first of some files by name, and how many more there are, with the verb that follows: "`a`, `b` and 3 more files are".
pub(crate) fn listed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more files") } else { String::new() };
    format!("{}{more} {}", shown.join(", "), if names.len() == 1 { "is" } else { "are" })
}

/// Something a snapshot does not show, for people to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A repository inside this one, not registered as a submodule: left out of snapshots.
    NestedRepository(Vec<u8>),
    /// A submodule with changes of its own, which snapshots do not hold.
    DirtySubmodule(Vec<u8>),
    /// A file that cannot be read.
    Unreadable(Vec<u8>),
    /// A changed file that holds the value of a key.
    HoldsKey {
        path: Vec<u8>,
        /// Whether snapshots hold it as it was before.
        is_kept: bool,
    },
    /// A dump of the memory of a process.
    CoreDump(Vec<u8>),
    /// A changed file that is too large to be searched for keys.
    NotSearched(Vec<u8>),
    /// So many new files are hidden by ignore rules that came after the loop began; none of them is held.
    HiddenByNewRules(usize),
    /// New files that are hidden by ignore rules that came after the loop began, and that are held all the same.
    KeptDespiteNewRules(Vec<Vec<u8>>),
    /// The agent or the user moved or deleted the ref that holds the snapshots. It was put back unless the commits are lost.
    ReferenceMoved {
        /// Whether the snapshots before this one are gone.
        is_lost: bool,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        match self {
            Self::NestedRepository(path) => {
                write!(
                    f,
                    "`{}` is a repository of its own and no submodule: snapshots leave it out",
                    shown(path)
                )
            }
            Self::DirtySubmodule(path) => {
                write!(
                    f,
                    "the submodule `{}` has changes of its own, which snapshots do not hold",
                    shown(path)
                )
            }
            Self::Unreadable(path) => write!(f, "`{}` cannot be read: snapshots leave it out", shown(path)),
            Self::HoldsKey { path, is_kept: false } => write!(
                f,
                "`{}` holds the value of a key from the environment: snapshots and commits leave it out",
                shown(path)
            ),
            Self::HoldsKey { path, is_kept: true } => write!(
                f,
                "`{}` holds the value of a key from the environment: snapshots keep it as it was before, and no claim is \
                 accepted while the key is in it",
                shown(path)
            ),
            Self::CoreDump(path) => {
                write!(f, "`{}` is a dump of a process's memory: snapshots leave it out", shown(path))
            }
            Self::NotSearched(path) => {
                write!(f, "`{}` is too large to be searched for keys", shown(path))
            }
            Self::HiddenByNewRules(files) => {
                write!(f, "{files} new files are hidden by ignore rules that came after the loop began")
            }
            Self::KeptDespiteNewRules(files) => {
                let names: Vec<String> = files.iter().map(|path| shown(path)).collect();
                write!(
                    f,
                    "{} kept although new ignore rules hide {}: rules that a loop changes count from the next loop on",
                    listed(&names),
                    if names.len() == 1 { "it" } else { "them" }
                )
            }
            Self::ReferenceMoved { is_lost: false } => {
                f.write_str("an agent or a person moved the ref of the snapshots; it was put back")
            }
            Self::ReferenceMoved { is_lost: true } => {
                f.write_str("an agent or a person deleted the ref of the snapshots; the snapshots before this one are gone")
            }
        }
    }
}

/// A ref that holds snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRef {
    pub name: String,
    pub id: String,
    pub taken_at: Timestamp,
}

impl SnapshotRef {
    /// The loop it belongs to.
    pub fn loop_name(&self) -> &str {
        let name = self.name.strip_prefix("refs/dacapo/").unwrap_or(&self.name);
        ["-undo", "-commit"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
    }
}

/// The files that one loop works on.
pub struct Workspace {
    home: crate::home::Home,
    loop_id: LoopId,
    kind: WorkspaceKind,
}

enum WorkspaceKind {
    Git(Box<Shadow>),
    Plain(PlainFolder),
}

impl Workspace {
    /// The workspace at `dir`, or why a loop cannot work there. Changes nothing.
    pub fn open(dir: &Path, home: &crate::home::Home, loop_id: &LoopId) -> Result<Self, WorkspaceError> {
        match Git::find() {
            Ok(git) => Self::open_with(&git, dir, home, loop_id),
            // Without git a plain folder is as good as ever; a repository is not.
            Err(error) if dir.ancestors().any(|above| above.join(".git").exists()) => Err(error.into()),
            Err(_) => Self::open_plain(dir, home, loop_id),
        }
    }

    /// As [`Workspace::open`], with a git of the caller's choice.
    pub fn open_with(
        git: &Git,
        dir: &Path,
        home: &crate::home::Home,
        loop_id: &LoopId,
    ) -> Result<Self, WorkspaceError> {
        let dir = dir.canonicalize().map_err(WorkspaceError::io("enter", dir))?;
        let Some(checkout) = Checkout::find(git, &dir)? else {
            return Self::open_plain(&dir, home, loop_id);
        };
        let folder = shadows(home).join(loop_id.as_str());
        let shadow = Shadow::open(checkout, home.path(), folder, loop_id.clone())?;
        Ok(Self { home: home.clone(), loop_id: loop_id.clone(), kind: WorkspaceKind::Git(Box::new(shadow)) })
    }

    fn open_plain(dir: &Path, home: &crate::home::Home, loop_id: &LoopId) -> Result<Self, WorkspaceError> {
        let dir = dir.canonicalize().map_err(WorkspaceError::io("enter", dir))?;
        let plain = PlainFolder::open(dir, home.path(), shadows(home).join(loop_id.as_str()));
        Ok(Self { home: home.clone(), loop_id: loop_id.clone(), kind: WorkspaceKind::Plain(plain) })
    }

    /// The top of what snapshots cover; it may lie above the folder that was opened.
    pub fn root(&self) -> &Path {
        match &self.kind {
            WorkspaceKind::Git(shadow) => &shadow.checkout.toplevel,
            WorkspaceKind::Plain(plain) => &plain.dir,
        }
    }

    /// Whether it is a git repository.
    pub fn is_git(&self) -> bool {
        matches!(self.kind, WorkspaceKind::Git(_))
    }

    /// Lets files go through these filters of git alone, even if others are configured when [`begin`](Self::begin)
    /// runs.
    pub fn hold_filters(&mut self, filters: Option<Vec<(String, String)>>) {
        if let WorkspaceKind::Git(shadow) = &mut self.kind {
            shadow.given_filters = filters;
        }
    }

    /// Lets files go through no filter that the agent of the loop `above` may have set up: those of that loop hold in its repository,
    /// and in every other one those that are well known.
    pub(crate) fn distrust_filters(&mut self, above: &LoopId) -> Result<(), WorkspaceError> {
        let WorkspaceKind::Git(shadow) = &mut self.kind else { return Ok(()) };
        let of_above = shadows(&self.home).join(above.as_str());
        let common = std::fs::read(of_above.join("commondir")).unwrap_or_default();
        let is_same = common.trim_ascii_end() == shadow.checkout.common_dir.as_os_str().as_encoded_bytes();
        shadow.given_filters = match is_same {
            true => ShadowState::read(&of_above.join("dacapo.json"))?.map(|state| state.filters),
            false => None,
        };
        shadow.is_chosen_by_agent = true;
        Ok(())
    }

    /// Snapshot 0, before the first agent starts. Asked for again, also by another dacapo, it is the same one.
    pub fn begin(&mut self) -> Result<Snapshot, WorkspaceError> {
        match &mut self.kind {
            WorkspaceKind::Git(shadow) => shadow.begin(),
            WorkspaceKind::Plain(plain) => plain.begin(),
        }
    }

    /// The files as they are now, as snapshot `n`. If nothing changed it is the snapshot before.
    pub fn snapshot(&mut self, n: u64) -> Result<Snapshot, WorkspaceError> {
        match &mut self.kind {
            WorkspaceKind::Git(shadow) => shadow.snapshot(n),
            WorkspaceKind::Plain(plain) => plain.snapshot(),
        }
    }

    /// What a later process needs to know that nothing else has written to what snapshots are taken with.
    pub(crate) fn seal(&self) -> Option<String> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.seal(),
            WorkspaceKind::Plain(_) => None,
        }
    }

    /// Spares the look at what an earlier process has left, as far as it is as that process sealed it.
    pub(crate) fn take_up(&mut self, seal: &str) {
        if let WorkspaceKind::Git(shadow) = &mut self.kind {
            shadow.take_up(seal);
        }
    }

    /// Whether the snapshots of the loop are held as the newest one left them.
    pub(crate) fn holds_snapshots(&self) -> bool {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.holds_snapshots(),
            WorkspaceKind::Plain(_) => false,
        }
    }

    /// The hash of a plain folder however large; the tree of the latest snapshot otherwise.
    pub fn content_hash(&mut self) -> Result<String, WorkspaceError> {
        match &mut self.kind {
            WorkspaceKind::Git(shadow) => shadow.tree_of(&shadow.last()?),
            WorkspaceKind::Plain(plain) => plain.hash(usize::MAX),
        }
    }

    /// What there is to say about the snapshots since it was last asked.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        match &mut self.kind {
            WorkspaceKind::Git(shadow) => std::mem::take(&mut shadow.warnings),
            WorkspaceKind::Plain(_) => Vec::new(),
        }
    }

    /// What names the files of a snapshot: equal for equal files.
    pub fn tree_of(&self, id: &str) -> Result<String, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.tree_of(id),
            WorkspaceKind::Plain(_) => Ok(id.to_owned()),
        }
    }

    /// What differs between two snapshots, by path. A renamed file is one deleted and one added.
    pub fn changes(&self, from: &str, to: &str) -> Result<Vec<PathChange>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.changes(from, to),
            WorkspaceKind::Plain(plain) => plain.changes(from, to),
        }
    }

    /// The same as git prints it; nothing in a plain folder, which keeps no content.
    pub fn difference(&self, from: &str, to: &str, form: DiffForm) -> Result<Vec<u8>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.difference(from, to, form),
            WorkspaceKind::Plain(_) => Ok(Vec::new()),
        }
    }

    /// The commits behind `from` up to `to`, it included, along the first parents, newest first; none in a plain folder.
    pub fn first_parents(&self, from: &str, to: &str) -> Result<Vec<String>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.first_parents(from, to),
            WorkspaceKind::Plain(_) => Ok(Vec::new()),
        }
    }

    /// Files of the snapshot that are missing or different in the work tree now. New files do not count.
    pub fn disturbed_since(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.disturbed_since(id),
            WorkspaceKind::Plain(plain) => plain.disturbed_since(id),
        }
    }

    /// Those of `paths` that the user's git ignores by the rules as they are now; none in a plain folder.
    pub(crate) fn ignored_now(&self, paths: &[&[u8]]) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.ignored_now(paths),
            WorkspaceKind::Plain(_) => Ok(Vec::new()),
        }
    }

    /// Every path of a snapshot.
    pub fn files(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.files(id),
            WorkspaceKind::Plain(plain) => plain.files(id),
        }
    }

    /// What files held in a snapshot, in the order asked for; a link's content is its target.
    pub fn files_at(&self, id: &str, paths: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, WorkspaceError> {
        self.git("read a file of a snapshot")?.files_at(id, paths)
    }

    /// As [`Workspace::files_at`] for two snapshots, with one git process.
    pub fn files_of_both(
        &self,
        snapshots: [&str; 2],
        paths: &[&[u8]],
    ) -> Result<[Vec<Option<Vec<u8>>>; 2], WorkspaceError> {
        self.git("read a file of a snapshot")?.files_of_both(snapshots, paths)
    }

    /// What one file held in a snapshot.
    pub fn file_at(&self, id: &str, path: &[u8]) -> Result<Option<Vec<u8>>, WorkspaceError> {
        Ok(self.files_at(id, &[path])?.pop().flatten())
    }

    /// The commit HEAD names; none on an unborn branch and in a plain folder.
    pub fn head(&self) -> Result<Option<String>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.checkout.head(),
            WorkspaceKind::Plain(_) => Ok(None),
        }
    }

    /// The commit that HEAD names, and its tree.
    pub fn head_and_tree(&self) -> Result<Option<(String, String)>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.head_and_tree(),
            WorkspaceKind::Plain(_) => Ok(None),
        }
    }

    /// What files held in two snapshots, and what was committed on top of `base`, oldest first: together, because
    /// each question by itself would be a process.
    pub fn look_back(
        &self,
        snapshots: [&str; 2],
        paths: &[&[u8]],
        base: Option<&str>,
    ) -> Result<LookBack, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.look_back(snapshots, paths, base),
            WorkspaceKind::Plain(_) => Ok(([vec![None; paths.len()], vec![None; paths.len()]], Vec::new())),
        }
    }

    /// Commits of `head` that are not of `base`, oldest first: what was committed in between.
    pub fn commits_between(&self, base: Option<&str>, head: &str) -> Result<Vec<String>, WorkspaceError> {
        self.git("list commits")?.commits_between(base, head)
    }

    /// Whether every object of a snapshot is what its name says: an agent can write other content to the file of an object. An
    /// error says what git found.
    pub(crate) fn check_objects(&self, id: &str) -> Result<(), WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.check_objects(id),
            WorkspaceKind::Plain(_) => Ok(()),
        }
    }

    /// What the agent has committed since the start and a snapshot does not hold, because it is ignored.
    pub(crate) fn committed_and_ignored(&self, id: &str) -> Result<Vec<String>, WorkspaceError> {
        self.git("compare a commit with a snapshot")?.committed_and_ignored(id)
    }

    /// All files of a snapshot in a folder that is missing or empty.
    pub fn checkout(&self, id: &str, into: &Path) -> Result<(), WorkspaceError> {
        self.git("check out a snapshot")?.checkout(id, into)
    }

    /// As [`Self::checkout`], with a repository of its own around the files where there can be one.
    pub(crate) fn checkout_for_gates(&self, id: &str, into: &Path) -> Result<(), WorkspaceError> {
        self.git("check out a snapshot")?.checkout_for_gates(id, into)
    }

    /// Tells the repository of a checkout for gates which files have come or gone beside what was laid out.
    pub(crate) fn note_in_checkout(&self, folder: &Path, paths: &[String]) -> Result<(), WorkspaceError> {
        self.git("tell a checkout of its files")?.note_in_checkout(folder, paths)
    }

    /// Commits what is in the index of a checkout for gates, in its own repository.
    pub(crate) fn commit_in_checkout(&self, folder: &Path) -> Result<(), WorkspaceError> {
        self.git("commit in a checkout")?.commit_in_checkout(folder)
    }

    /// As [`Self::checkout_for_gates`], by a thread beside the caller.
    pub(crate) fn begin_checkout(&self, id: &str, into: &Path) -> Result<CheckoutBeside, WorkspaceError> {
        self.git("check out a snapshot")?.begin_checkout(id, into)
    }

    /// Some files of a snapshot, written into a folder over what is there.
    pub fn write_paths(&self, id: &str, paths: &[&[u8]], into: &Path) -> Result<(), WorkspaceError> {
        self.git("write files of a snapshot")?.write_paths(id, paths, into)
    }

    /// Makes the files those of a snapshot. The files as they are now become snapshot `n` first, also held by
    /// `refs/dacapo/<loop>-undo`: restoring that one undoes this. HEAD, index and ignored files stay.
    pub fn restore(&mut self, id: &str, n: u64) -> Result<Snapshot, WorkspaceError> {
        self.git("restore a snapshot")?;
        match &mut self.kind {
            WorkspaceKind::Git(shadow) => shadow.restore(id, n),
            WorkspaceKind::Plain(_) => Err(WorkspaceError::NoSnapshot(id.to_owned())),
        }
    }

    /// Whether the user had staged changes when the loop began; then nothing can be committed for them.
    pub fn had_staged_changes(&self) -> bool {
        matches!(&self.kind, WorkspaceKind::Git(shadow) if shadow.state.had_staged)
    }

    /// Commits a snapshot on top of HEAD with the trailer `Dacapo: <loop>/<iteration>`, once however often called.
    ///
    /// The commit holds the whole snapshot: what was uncommitted before the loop began goes in as well (fault H10),
    /// so a caller who does not want that compares snapshot 0 with HEAD first. No hook runs.
    pub fn commit_tree(
        &self,
        id: &str,
        message: &str,
        iteration: u64,
    ) -> Result<CommitOutcome, WorkspaceError> {
        let shadow = self.git("commit")?;
        let lock = self.lock()?;
        shadow.commit_tree(&lock, &shadow.tree_of(id)?, message, iteration, false)
    }

    /// As [`Workspace::commit_tree`], with other content in some files of the snapshot; gives the tree too. The files
    /// themselves stay as they are, and `refs/dacapo/<loop>-commit` holds the commit if the agent takes it off its branch.
    pub fn commit_files(
        &self,
        id: &str,
        files: &[(&str, Vec<u8>)],
        message: &str,
        iteration: u64,
    ) -> Result<(CommitOutcome, String), WorkspaceError> {
        let shadow = self.git("commit")?;
        let lock = self.lock()?;
        let tree = shadow.tree_with(id, files)?;
        Ok((shadow.commit_tree(&lock, &tree, message, iteration, true)?, tree))
    }

    /// The branch that is checked out; none if HEAD is on none, and in a plain folder.
    pub fn branch(&self) -> Result<Option<String>, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => shadow.branch(),
            WorkspaceKind::Plain(_) => Ok(None),
        }
    }

    /// Makes `branch` the checked-out branch and `commit` its newest commit again, if an agent changed that. The files
    /// stay.
    pub fn recover_branch(
        &self,
        branch: &str,
        commit: &str,
    ) -> Result<Option<RecoveredBranch>, WorkspaceError> {
        let shadow = self.git("commit")?;
        if shadow.head_is_at(branch, commit) {
            return Ok(None);
        }
        let repo = Repository::of(shadow.checkout.clone(), &self.home);
        let recovered = repo.recover_branch(self.root(), branch, commit, false)?;
        *shadow.last_seen_head.borrow_mut() = repo.branch(branch)?;
        Ok(recovered)
    }

    /// What in git's folders is no plain file or folder now.
    pub(crate) fn links(&self, is_users: bool) -> Option<LinksAtStart> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => {
                Some(LinksAtStart::look(&shadow.checkout.git_dir, &shadow.checkout.common_dir, is_users))
            }
            WorkspaceKind::Plain(_) => None,
        }
    }

    /// Removes locks of git that a git killed since `since` left, and names them; only when nothing of the iteration runs any more.
    pub fn remove_left_locks(&self, since: SystemTime) -> Vec<PathBuf> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => remove_left_locks(&shadow.checkout, since),
            WorkspaceKind::Plain(_) => Vec::new(),
        }
    }

    /// The right to change the repository's refs, config and worktrees; waits for others.
    pub fn lock(&self) -> Result<RepositoryLock, WorkspaceError> {
        RepositoryLock::take(&self.home, &self.git("lock the repository")?.checkout, LOCK_LIMIT)
    }

    /// Snapshots in this repository, of all loops.
    pub fn refs(&self) -> Result<Vec<SnapshotRef>, WorkspaceError> {
        refs::list(&self.git("list snapshots")?.checkout)
    }

    /// Forgets the snapshots of other loops whose latest is from before `before`, and says which.
    pub fn prune(&self, before: Timestamp) -> Result<Vec<SnapshotRef>, WorkspaceError> {
        let all = self.refs()?;
        let is_live = |name: &str| {
            name == self.loop_id.as_str() || all.iter().any(|r| r.loop_name() == name && r.taken_at >= before)
        };
        let old: Vec<SnapshotRef> = all.iter().filter(|r| !is_live(r.loop_name())).cloned().collect();
        self.delete(&old)?;
        Ok(old)
    }

    /// Forgets everything about this loop's snapshots. The objects stay until git collects them.
    pub fn forget(self) -> Result<(), WorkspaceError> {
        let mut own = if self.is_git() { self.refs()? } else { Vec::new() };
        own.retain(|r| r.loop_name() == self.loop_id.as_str());
        if !own.is_empty() {
            self.delete(&own)?;
        }
        match std::fs::remove_dir_all(shadows(&self.home).join(self.loop_id.as_str())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(WorkspaceError::io("remove the shadow of", self.loop_id.as_str())(error))
            }
            _ => Ok(()),
        }
    }

    fn delete(&self, old: &[SnapshotRef]) -> Result<(), WorkspaceError> {
        let _lock = self.lock()?;
        refs::delete(&self.git("forget snapshots")?.checkout, &shadows(&self.home), old)
    }

    fn git(&self, what: &'static str) -> Result<&Shadow, WorkspaceError> {
        match &self.kind {
            WorkspaceKind::Git(shadow) => Ok(shadow),
            WorkspaceKind::Plain(plain) => Err(WorkspaceError::Plain { what, dir: plain.dir.clone() }),
        }
    }
}

/// The filters of git that are set up for a folder; `None` outside of every repository.
pub(crate) fn filters_set_up(dir: &Path) -> Result<Option<Vec<(String, String)>>, WorkspaceError> {
    if !dir.ancestors().any(|above| above.join(".git").exists()) {
        return Ok(None);
    }
    let git = Git::find()?;
    let listed = match on_disk::folders_of_checkout(dir).is_some() {
        true => Checkout::find(&git, dir)?.map(|checkout| checkout.listed_config()).transpose()?,
        false => None,
    };
    let listed = match listed {
        Some(listed) => without_scopes(&listed),
        None => git.call(dir).args(["config", "--list", "-z"]).ok()?.stdout,
    };
    Ok(Some(rules_at_start::GitConfig::parse(&listed).filters()))
}

fn shadows(home: &crate::home::Home) -> PathBuf {
    home.path().join("shadow")
}
