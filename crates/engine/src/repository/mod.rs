//! A repository that units are worked on in: what it holds and how it stands. What is done to it is in `worktree.rs`,
//! `merge.rs`, `target.rs` and `remote.rs`.

mod ancestry;
mod merge;
mod move_branch;
mod prepare;
mod push_route;
mod recover_branch;
mod remote;
mod retire;
mod submodules;
mod target;
#[cfg(test)]
mod tests;
mod worktree;

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::{self, OpenOptions},
    io::Write,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

pub use merge::Merged;
pub use prepare::{SetupFailed, WorktreeOwner, prepare};
pub use push_route::PushRoute;
pub use recover_branch::RecoveredBranch;
pub use remote::{PullRequest, PullRequestError};
pub use retire::Retired;
pub use target::TargetMoved;
pub use worktree::{FinishedWorktree, KnownWorktree, MergeWorktree, Worktree, WorktreeFor, WorktreeRemoval};

use crate::{
    git::{
        Checkout, Git, GitCall, RepositoryLock, RepositoryProblem, RunLock, RunLockHeld, UntrustedConfig,
        WorkspaceError, escaped, failed_call, on_disk, split_nul,
    },
    home::Home,
};

/// How long others may hold the lock: twelve worktrees of a large repository are made one after the other.
const LOCK_LIMIT: Duration = Duration::from_secs(300);
/// How often an index that another git has locked is looked at again, and how long in between.
const TRIES: (u32, Duration) = (20, Duration::from_millis(100));
/// How many paths of a dirty tree are named.
const MOST_NAMED: usize = 20;
/// How many files, and how many bytes of them, are read at once.
const MOST_FILES: (usize, u64) = (10_000, 64 << 20);

/// A repository with a work tree and a commit.
#[derive(Debug)]
pub struct Repository {
    pub(crate) checkout: Checkout,
    pub(crate) home: Home,
    known: CommitFacts,
}

/// What git has said about commits, for all who look at the same repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitFacts(Arc<Mutex<KnownCommits>>);

/// What git has said about commits. Their names are made of what they hold, so it stays true, and git is not asked again.
#[derive(Debug, Default)]
struct KnownCommits {
    /// Ids that git has called commits, or that branches are at.
    ids: HashSet<String>,
    trees: HashMap<String, String>,
    /// The parents of commits that were made here.
    parents: HashMap<String, Vec<String>>,
    /// Sides of merges that were made here: no branch holds them.
    sides: HashSet<String>,
}

impl KnownCommits {
    /// Whether everything of `a` is in `b`, as far as that is known.
    fn is_ancestor(&self, a: &str, b: &str) -> Option<bool> {
        let has_parent = |child: &str, parent: &str| {
            self.parents.get(child).is_some_and(|parents| parents.iter().any(|known| known == parent))
        };
        if a == b || has_parent(b, a) {
            Some(true)
        } else if has_parent(a, b) || (self.sides.contains(a) && !self.parents.contains_key(b)) {
            Some(false)
        } else {
            None
        }
    }
}

/// A worktree as git has it registered.
#[derive(Debug)]
pub(crate) struct RegisteredWorktree {
    pub(crate) path: PathBuf,
    /// The branch's whole name; none if HEAD is detached.
    pub(crate) branch: Option<String>,
    pub(crate) is_locked: bool,
    /// git's folder of it, where that is known.
    pub(crate) git_dir: Option<PathBuf>,
}

impl RegisteredWorktree {
    pub(crate) fn is_gone(&self) -> bool {
        fs::symlink_metadata(self.path.join(".git")).is_err()
    }
}

impl Repository {
    /// The repository that holds `root`, or why units cannot be worked on there. A move of a branch that was cut short is
    /// completed first.
    pub fn open(root: &Path, home: &Home) -> Result<Self, WorkspaceError> {
        Self::open_with(&Git::find()?, root, home)
    }

    /// As `open`, with a git of the caller's choice.
    pub fn open_with(git: &Git, root: &Path, home: &Home) -> Result<Self, WorkspaceError> {
        let repo = Self::open_again_with(git, root, home)?;
        if repo.checkout.head()?.is_none() {
            let dir = repo.root().to_owned();
            return Err(WorkspaceError::Refused { dir, state: RepositoryProblem::Unborn });
        }
        repo.hide_home()?;
        Ok(repo)
    }

    /// As `open`, for a job of a run that has opened the repository when it began.
    pub(crate) fn open_again(root: &Path, home: &Home) -> Result<Self, WorkspaceError> {
        Self::open_again_with(&Git::find()?, root, home)
    }

    fn open_again_with(git: &Git, root: &Path, home: &Home) -> Result<Self, WorkspaceError> {
        let repo = Self::find(git, root, home)?;
        repo.recover()?;
        let (tries, pause) = TRIES;
        for _ in 1..tries {
            match repo.checkout.check_files() {
                // The user commits just now, which takes a moment.
                Err(WorkspaceError::Refused { state: RepositoryProblem::IndexLocked(_), .. }) => {
                    thread::sleep(pause)
                }
                _ => break,
            }
        }
        repo.checkout.check_files()?;
        Ok(repo)
    }

    /// The repository, also in the middle of a merge or with changed files.
    pub(crate) fn find(git: &Git, root: &Path, home: &Home) -> Result<Self, WorkspaceError> {
        let dir = root.canonicalize().map_err(WorkspaceError::io("enter", root))?;
        let checkout =
            Checkout::find(git, &dir)?.ok_or(WorkspaceError::Plain { what: "work on units", dir })?;
        Ok(Self::of(checkout, home))
    }

    pub(crate) fn of(checkout: Checkout, home: &Home) -> Self {
        Self { checkout, home: home.clone(), known: CommitFacts::default() }
    }

    /// The same repository, with what was found out about its commits before.
    pub(crate) fn knowing(self, facts: &CommitFacts) -> Self {
        Self { known: facts.clone(), ..self }
    }

    /// The top of its work tree.
    pub fn root(&self) -> &Path {
        &self.checkout.toplevel
    }

    /// The right to change refs, config and worktrees, here and in every other dacapo (fault H1).
    pub(crate) fn lock(&self) -> Result<RepositoryLock, WorkspaceError> {
        RepositoryLock::take(&self.home, &self.checkout, LOCK_LIMIT)
    }

    /// The right to run units here, from this worktree or any other.
    pub(crate) fn run_lock(&self) -> Result<Result<RunLock, RunLockHeld>, WorkspaceError> {
        RunLock::take(&self.checkout)
    }

    /// State that lies in the work tree would be committed as a link to a commit (fault H13).
    fn hide_home(&self) -> Result<(), WorkspaceError> {
        let home = self.home.path().canonicalize().unwrap_or_else(|_| self.home.path().to_owned());
        let Ok(inside) = home.strip_prefix(self.root()) else { return Ok(()) };
        let rule = [b"/", escaped(inside.as_os_str().as_bytes()).as_slice(), b"/"].concat();
        let path = self.checkout.common_dir.join("info/exclude");
        let known = fs::read(&path).unwrap_or_default();
        if known.split(|b| *b == b'\n').any(|line| line == rule) {
            return Ok(());
        }
        let line = [b"\n", rule.as_slice(), b"\n"].concat();
        let failed = || WorkspaceError::io("write", &path);
        crate::home::make_dir(&self.checkout.common_dir.join("info")).map_err(failed())?;
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed())?;
        file.write_all(&line).map_err(failed())
    }

    /// What is not committed: tracked changes and untracked files, at most twenty of them. Ignored files do not count.
    pub fn is_dirty(&self) -> Result<Vec<String>, WorkspaceError> {
        let mut paths = self.dirt(&self.checkout, "normal", "dirty")?;
        paths.truncate(MOST_NAMED);
        Ok(paths)
    }

    /// What `git status` would name in any of the worktrees.
    pub(crate) fn dirt(
        &self,
        checkout: &Checkout,
        untracked: &str,
        ignored_of_submodules: &str,
    ) -> Result<Vec<String>, WorkspaceError> {
        Ok(listed_paths(&self.status(checkout, untracked, ignored_of_submodules)?.ok()?.stdout))
    }

    /// What `git status` would name of the tracked files of a worktree whose files are about to be changed. What it found out of them
    /// stays in the index.
    pub(crate) fn dirt_before_change(&self, checkout: &Checkout) -> Result<Vec<String>, WorkspaceError> {
        let call = self.status(checkout, "no", "dirty")?.env("GIT_OPTIONAL_LOCKS", "1");
        Ok(listed_paths(&call.ok()?.stdout))
    }

    fn status<'a>(
        &self,
        checkout: &'a Checkout,
        untracked: &str,
        ignored_of_submodules: &str,
    ) -> Result<GitCall<'a>, WorkspaceError> {
        let call = self.guarded(checkout)?.args(["status", "--porcelain=v1", "-z", "--no-renames"]);
        let untracked = format!("--untracked-files={untracked}");
        let submodules = format!("--ignore-submodules={ignored_of_submodules}");
        Ok(call.args([untracked, submodules]).patiently(5))
    }

    /// The branch that is checked out; none if HEAD is detached.
    pub fn current_branch(&self) -> Result<Option<String>, WorkspaceError> {
        branch_of(&self.checkout)
    }

    /// The commit that `rev` names; none if there is none.
    pub fn resolve(&self, rev: &str) -> Result<Option<String>, WorkspaceError> {
        let name = format!("{rev}^{{commit}}");
        let args = ["rev-parse", "--quiet", "--verify", "--end-of-options", &name];
        Ok(self.checkout.call().args(args).line_if_any()?)
    }

    pub(crate) fn commit(&self, rev: &str) -> Result<String, WorkspaceError> {
        if self.known().ids.contains(rev) {
            return Ok(rev.to_owned());
        }
        let found = self.resolve(rev)?.ok_or_else(|| WorkspaceError::NoCommit(rev.to_owned()))?;
        self.know(&found);
        Ok(found)
    }

    fn known(&self) -> MutexGuard<'_, KnownCommits> {
        self.known.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the caller's word that this is a commit.
    pub(crate) fn know(&self, commit: &str) {
        self.known().ids.insert(commit.to_owned());
    }

    /// The newest commit of a branch; none if there is no such branch.
    pub fn branch(&self, name: &str) -> Result<Option<String>, WorkspaceError> {
        let whole = format!("refs/heads/{name}");
        // A name that git would not allow must not lead to another file, and one that names nothing is none to it.
        let is_null = |id: &String| id.bytes().all(|b| b == b'0');
        let found = on_disk::reference(&self.checkout.common_dir, &whole).filter(|id| !is_null(id));
        if let (Some(id), false) = (found, name.contains("..")) {
            self.know(&id);
            return Ok(Some(id));
        }
        if !name.contains("..") && on_disk::has_no_reference(&self.checkout.common_dir, &whole) {
            return Ok(None);
        }
        let format = "--format=%(objectname) %(refname)";
        let listed = self.checkout.call().args(["for-each-ref", format, &whole]).ok()?.stdout;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let mut entries = listed.lines().filter_map(|line| line.split_once(' '));
        Ok(entries.find(|(_, refname)| *refname == whole).map(|(id, _)| id.to_owned()))
    }

    /// Whether everything of `a` is in `b`.
    pub fn is_ancestor(&self, a: &str, b: &str) -> Result<bool, WorkspaceError> {
        let (a, b) = (self.commit(a)?, self.commit(b)?);
        if let Some(is_ancestor) = self.known().is_ancestor(&a, &b) {
            return Ok(is_ancestor);
        }
        let call = self.checkout.call().args(["merge-base", "--is-ancestor", &a, &b]);
        let shown = call.shown();
        let output = call.run()?;
        match output.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed_call(shown, self.root().to_owned(), &output).into()),
        }
    }

    /// What names the files of a commit: equal for equal files.
    pub fn tree_of(&self, commit: &str) -> Result<String, WorkspaceError> {
        if let Some(tree) = self.known().trees.get(commit) {
            return Ok(tree.clone());
        }
        let commit = self.commit(commit)?;
        let name = format!("{commit}^{{tree}}");
        let tree = self.checkout.call().args(["rev-parse", "--verify", &name]).ok()?.line();
        self.known().trees.insert(commit, tree.clone());
        Ok(tree)
    }

    /// Learns the trees of commits and gives what files hold in one of these, with one process. A file that is not there, or that
    /// is no file, gives none.
    pub(crate) fn look_up(
        &self,
        commits: &[&str],
        files: &[(&str, &str)],
    ) -> Result<Vec<Option<Vec<u8>>>, WorkspaceError> {
        let unknown: Vec<&str> = {
            let known = self.known();
            commits.iter().copied().filter(|commit| !known.trees.contains_key(*commit)).collect()
        };
        if unknown.is_empty() && files.is_empty() {
            return Ok(Vec::new());
        }
        let trees = unknown.iter().map(|commit| format!("info {commit}^{{tree}}\n"));
        let asked: String =
            trees.chain(files.iter().map(|(commit, path)| format!("contents {commit}:{path}\n"))).collect();
        let call = self.checkout.call().args(["cat-file", "--batch-command"]).input(asked.into_bytes());
        let output = call.ok()?.stdout;
        let mut rest = output.as_slice();
        let next_line = |rest: &mut &[u8]| {
            let end = memchr::memchr(b'\n', rest)?;
            let line = String::from_utf8_lossy(&rest[..end]).into_owned();
            *rest = &rest[end + 1..];
            Some(line)
        };
        for commit in unknown {
            let line = next_line(&mut rest).unwrap_or_default();
            match line.split(' ').collect::<Vec<_>>()[..] {
                [tree, "tree", _] => {
                    self.know(commit);
                    self.known().trees.insert(commit.to_owned(), tree.to_owned());
                }
                _ => return Err(WorkspaceError::NoCommit(commit.to_owned())),
            }
        }
        let mut found = Vec::with_capacity(files.len());
        for (commit, path) in files {
            let garbled = || WorkspaceError::NoCommit(format!("{commit}:{path}"));
            let line = next_line(&mut rest).ok_or_else(garbled)?;
            let [_, kind, size] = line.split(' ').collect::<Vec<_>>()[..] else {
                // `… missing`
                found.push(None);
                continue;
            };
            let size: usize = size.parse().map_err(|_| garbled())?;
            let content = rest.get(..size).ok_or_else(garbled)?;
            rest = rest.get(size + 1..).ok_or_else(garbled)?;
            found.push((kind == "blob").then(|| content.to_vec()));
        }
        Ok(found)
    }

    /// What a file held in a commit; none if there is no such file.
    pub fn file_at(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, WorkspaceError> {
        let commit = self.commit(commit)?;
        let found =
            self.list(&commit, path.as_bytes())?.into_iter().find(|entry| entry.path == path.as_bytes());
        found
            .map(|entry| Ok(self.checkout.call().args(["cat-file", "blob", &entry.id]).ok()?.stdout))
            .transpose()
    }

    /// The files of a commit below `folder`, by path from the top; links and submodules are left out.
    pub fn files_below(&self, commit: &str, folder: &str) -> Result<Vec<(String, Vec<u8>)>, WorkspaceError> {
        let commit = self.commit(commit)?;
        let entries = self.list(&commit, folder.trim_end_matches('/').as_bytes())?;
        let bytes: u64 = entries.iter().map(|entry| entry.size).sum();
        if entries.len() > MOST_FILES.0 || bytes > MOST_FILES.1 {
            return Err(WorkspaceError::TooManyFiles { dir: self.root().join(folder), most: MOST_FILES.0 });
        }
        let input: String = entries.iter().map(|entry| format!("{}\n", entry.id)).collect();
        let output = self.checkout.call().args(["cat-file", "--batch"]).input(input.into()).ok()?.stdout;
        let mut rest = output.as_slice();
        let mut files = Vec::new();
        for entry in entries {
            let garbled = || WorkspaceError::NoCommit(format!("{commit}:{}", entry.shown()));
            let start = memchr::memchr(b'\n', rest).ok_or_else(garbled)? + 1;
            let end = usize::try_from(entry.size)
                .ok()
                .and_then(|size| start.checked_add(size))
                .ok_or_else(garbled)?;
            files.push((entry.shown(), rest.get(start..end).ok_or_else(garbled)?.to_vec()));
            rest = rest.get(end + 1..).ok_or_else(garbled)?;
        }
        Ok(files)
    }

    /// The plain files of a commit at or below a path; an empty path is the top.
    fn list(&self, commit: &str, path: &[u8]) -> Result<Vec<TreeFile>, WorkspaceError> {
        let mut call = self.checkout.call().env("GIT_LITERAL_PATHSPECS", "1");
        call = call.args(["ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--"]);
        if !path.is_empty() {
            call = call.args([OsStr::from_bytes(path)]);
        }
        let listed = call.ok()?.stdout;
        Ok(split_nul(&listed).filter_map(TreeFile::parse).collect())
    }

    /// All worktrees, the main one first.
    pub(crate) fn worktrees(&self) -> Result<Vec<RegisteredWorktree>, WorkspaceError> {
        if let Some(all) = on_disk::worktrees(&self.checkout.common_dir) {
            return Ok(all
                .into_iter()
                .map(|found| RegisteredWorktree {
                    path: found.path,
                    branch: found.branch,
                    is_locked: found.is_locked,
                    git_dir: Some(found.git_dir),
                })
                .collect());
        }
        let listed = self.checkout.call().args(["worktree", "list", "--porcelain", "-z"]).ok()?.stdout;
        let mut all: Vec<RegisteredWorktree> = Vec::new();
        for line in split_nul(&listed) {
            if let Some(path) = line.strip_prefix(b"worktree ") {
                let path = PathBuf::from(OsStr::from_bytes(path));
                all.push(RegisteredWorktree { path, branch: None, is_locked: false, git_dir: None });
            }
            let Some(last) = all.last_mut() else { continue };
            if let Some(branch) = line.strip_prefix(b"branch ") {
                last.branch = Some(String::from_utf8_lossy(branch).into_owned());
            } else if line == b"locked" || line.starts_with(b"locked ") {
                last.is_locked = true;
            }
        }
        Ok(all)
    }

    /// The worktree at `path`, which must be one of this repository, not a folder in one or a forgery of one.
    pub(crate) fn at(&self, path: &Path) -> Result<Checkout, WorkspaceError> {
        let foreign = || WorkspaceError::Foreign { path: path.to_owned(), dir: self.root().to_owned() };
        let place = path.canonicalize().map_err(|_| foreign())?;
        // An agent can put a link into the place of its worktree: what is done there would be done elsewhere.
        if place != path && path.starts_with(self.own_worktrees()) {
            return Err(WorkspaceError::Link(path.to_owned()));
        }
        let found = Checkout::find(&self.checkout.git, &place)?.ok_or_else(foreign)?;
        let is_ours = found.common_dir == self.checkout.common_dir
            && found.toplevel == place
            && self.is_its_own(&found, &place);
        if is_ours { Ok(found) } else { Err(foreign()) }
    }

    /// Where dacapo makes worktrees.
    fn own_worktrees(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap_or_default().join("worktrees")
    }

    /// Whether git's folder knows of the worktree, and not only the worktree of it: an agent can write another one's name
    /// into `.git`, and what is done to its branch would be done to that one's.
    fn is_its_own(&self, found: &Checkout, place: &Path) -> bool {
        if found.git_dir == found.common_dir {
            return !place.starts_with(self.own_worktrees());
        }
        let Ok(back) = fs::read(found.git_dir.join("gitdir")) else { return false };
        let back = found.git_dir.join(OsStr::from_bytes(back.trim_ascii_end()));
        back.canonicalize().is_ok_and(|back| back == place.join(".git"))
    }

    /// A call in one of the worktrees that may read or write files.
    pub(crate) fn guarded<'a>(&self, checkout: &'a Checkout) -> Result<GitCall<'a>, WorkspaceError> {
        Ok(self.undone(checkout)?.into_iter().fold(checkout.call(), GitCall::config))
    }

    /// What outranks the settings that were planted there.
    pub(crate) fn undone(&self, checkout: &Checkout) -> Result<Vec<String>, WorkspaceError> {
        self.planted(checkout)?.undone().map_err(|key| self.cannot_undo(&key))
    }

    pub(crate) fn planted(&self, checkout: &Checkout) -> Result<UntrustedConfig, WorkspaceError> {
        Ok(UntrustedConfig::parse(&checkout.listed_config()?))
    }

    pub(crate) fn cannot_undo(&self, key: &str) -> WorkspaceError {
        let why = format!("the setting `{key}` would run a program and cannot be switched off");
        WorkspaceError::Damaged { path: self.checkout.common_dir.join("config"), why }
    }

    /// Moves a ref from `old` to `new`, or says where it is by now; nothing as `old` means that it must not exist.
    pub(crate) fn swap(&self, branch: &str, new: &str, old: Option<&str>) -> Result<RefSwap, WorkspaceError> {
        let nothing = "0".repeat(new.len());
        let name = format!("refs/heads/{branch}");
        let reason = "dacapo: merge";
        let call =
            self.checkout.call().args(["update-ref", "-m", reason, &name, new, old.unwrap_or(&nothing)]);
        let shown = call.shown();
        let output = call.run()?;
        if output.code == Some(0) {
            return Ok(RefSwap::Yes);
        }
        match self.branch(branch)? {
            Some(now) if Some(now.as_str()) != old => Ok(RefSwap::Not { now }),
            _ => Err(failed_call(shown, self.root().to_owned(), &output).into()),
        }
    }

    /// Deletes a branch if it is where it was.
    pub(crate) fn delete_branch(&self, branch: &str, at: &str) -> Result<(), WorkspaceError> {
        let name = format!("refs/heads/{branch}");
        self.checkout.call().args(["update-ref", "-d", &name, at]).ok()?;
        Ok(())
    }
}

/// The paths in what `git status --porcelain=v1 -z` prints.
fn listed_paths(listed: &[u8]) -> Vec<String> {
    split_nul(listed)
        .filter_map(|entry| entry.get(3..))
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect()
}

/// What came of moving a ref.
pub(crate) enum RefSwap {
    Yes,
    Not { now: String },
}

struct TreeFile {
    id: String,
    size: u64,
    path: Vec<u8>,
}

impl TreeFile {
    /// `mode SP type SP id SP+ size TAB path`.
    fn parse(entry: &[u8]) -> Option<Self> {
        let tab = memchr::memchr(b'\t', entry)?;
        let head = String::from_utf8_lossy(&entry[..tab]).into_owned();
        let words: Vec<&str> = head.split_ascii_whitespace().collect();
        let [mode, "blob", id, size] = words[..] else { return None };
        let is_file = mode != "120000";
        is_file.then_some(Self {
            id: id.to_owned(),
            size: size.parse().ok()?,
            path: entry[tab + 1..].to_vec(),
        })
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// The branch that a worktree is on.
pub(crate) fn branch_of(checkout: &Checkout) -> Result<Option<String>, WorkspaceError> {
    if let Some(name) = on_disk::head_branch(&checkout.git_dir, &checkout.common_dir) {
        return Ok(Some(name));
    }
    let name = checkout.call().args(["symbolic-ref", "--quiet", "HEAD"]).line_if_any()?;
    Ok(name.map(|name| name.strip_prefix("refs/heads/").map(str::to_owned).unwrap_or(name)))
}
