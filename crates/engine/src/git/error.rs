//! What can be wrong with a workspace, and what to do about it.

use std::{io, path::PathBuf};

use dacapo_core::text::shell::word;

use super::runner::{DISK_FULL, GitError};

/// Why a workspace cannot be used, or not for this.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The repository is in a state that a loop cannot start from.
    #[error("cannot work in `{}`: {state}", dir.display())]
    Refused { dir: PathBuf, state: RepositoryProblem },
    /// git could not answer. Not knowing is never the same as nothing having changed (fault H6).
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file of the workspace or of ours cannot be used.
    #[error("cannot {what} `{}`: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// What is remembered of the loop's snapshots does not make sense.
    #[error("the snapshots' state `{}` is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    /// An agent has put it into the place of its worktree.
    #[error("the worktree `{}` has become a link, which is not followed", .0.display())]
    Link(PathBuf),
    #[error("there is no first snapshot of loop {0} yet")]
    NotBegun(String),
    #[error("cannot {what} in `{}`: it is not in a git repository", dir.display())]
    Plain { what: &'static str, dir: PathBuf },
    #[error("there is no snapshot {0}")]
    NoSnapshot(String),
    /// A plain folder with more files than can be looked at after every iteration.
    #[error("`{}` holds more than {most} files: too many to look at after every iteration", dir.display())]
    TooManyFiles { dir: PathBuf, most: usize },
    /// The target of a checkout has something in it.
    #[error("`{}` is not empty", .0.display())]
    NotEmpty(PathBuf),
    #[error("cannot commit in `{}`: changes were staged before the loop began", dir.display())]
    Staged { dir: PathBuf },
    #[error("cannot commit in `{}`: HEAD moved meanwhile ({why})", dir.display())]
    HeadMoved { dir: PathBuf, why: String },
    #[error("cannot commit in `{}`: git does not know your name and email", dir.display())]
    NoIdentity { dir: PathBuf },
    #[error("there is no commit `{0}`")]
    NoCommit(String),
    #[error("there is no branch `{0}`")]
    NoBranch(String),
    #[error("`{}` is no worktree of the repository `{}`", path.display(), dir.display())]
    Foreign { path: PathBuf, dir: PathBuf },
    #[error("there is no free name for a worktree of `{name}` in `{}`", dir.display())]
    NoName { name: String, dir: PathBuf },
    #[error("`{}` has changes that are not committed: {}", dir.display(), paths.join(", "))]
    NotClean { dir: PathBuf, paths: Vec<String> },
    #[error("the branch `{branch}` has moved meanwhile, to {now}")]
    BranchMoved { branch: String, now: String },
    #[error("`{}` is not on the branch `{branch}`", dir.display())]
    OtherBranch { dir: PathBuf, branch: String },
    /// The files of a checkout could not follow its branch, so all is as it was.
    #[error("`{branch}` is left where it was, because its files in `{}` cannot be written: {why}", dir.display())]
    NotFollowed { branch: String, dir: PathBuf, why: String },
    #[error(
        "not all files in `{dir}` are those of `{branch}`: moving it was begun and could neither be completed nor undone \
         ({why}); mend that, and look at `git -C {dir} status`: for what you did not change yourself, \
         `git -C {dir} restore --staged --worktree PATH` makes them so",
        dir = word(&dir.to_string_lossy())
    )]
    HalfMoved { branch: String, dir: PathBuf, why: String },
    #[error("another process has just made the branch `{0}`; nothing was changed, try again")]
    BranchTaken(String),
    #[error("another dacapo changes the repository `{}` and does not come to an end", .0.display())]
    Locked(PathBuf),
}

/// A state of a repository that no loop starts from (fault H9).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryProblem {
    #[error("it is a bare repository, there are no files to work on")]
    Bare,
    #[error("it is inside git's own folder")]
    InsideGitDir,
    #[error("a {0} is in progress")]
    Midway(&'static str),
    #[error("the index is locked (`{}` exists)", .0.display())]
    IndexLocked(PathBuf),
    #[error("HEAD is corrupt: {0}")]
    CorruptHead(String),
    /// There is a `.git`, and git cannot use it.
    #[error("`{}` is not a usable git repository: {said}", path.display())]
    Corrupt { path: PathBuf, said: String },
    #[error("it has no commit yet")]
    Unborn,
    #[error("the repository belongs to another user")]
    ForeignOwner,
}

impl WorkspaceError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Refused { state, dir } => return state.hint(dir),
            Self::Git(GitError::Missing) => "install git, or work in a folder that is no repository",
            Self::Git(GitError::TimedOut { .. }) => "is the disk slow, or a network folder not answering?",
            Self::Git(GitError::Failed { said, .. }) if said.contains(DISK_FULL) => {
                "make room (`df -h` shows which disk is full), then try again"
            }
            Self::Git(GitError::Failed { said, .. }) if said.contains("Read-only file system") => {
                "agents and git work in a folder that can be written; `--dir DIR` names another one"
            }
            Self::Plain { .. } => "`git init` makes it a repository",
            Self::TooManyFiles { .. } => {
                "`git init` makes it a repository, and `.gitignore` leaves out what does not count"
            }
            Self::Staged { .. } => "commit or unstage (`git restore --staged .`) before the loop begins",
            Self::HeadMoved { .. } => {
                "nothing was lost: the work is in the files and in the snapshot; commit again"
            }
            Self::NoIdentity { .. } => {
                "`git config --global user.name …` and `git config --global user.email …`"
            }
            Self::NotClean { .. } => "commit them, or take them away",
            Self::Foreign { .. } => "look what is in it; `git worktree list` says which there are",
            Self::NotFollowed { .. } => "is the disk full, or do they belong to another user?",
            Self::NotEmpty(_) => "name a folder that does not exist yet",
            Self::Damaged { path, .. } => {
                return Some(format!("move `{}` away and begin a new loop", path.display()));
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl RepositoryProblem {
    fn hint(&self, dir: &std::path::Path) -> Option<String> {
        Some(match self {
            Self::Bare => "clone it, or add a worktree (`git worktree add`), and work there".to_owned(),
            Self::Unborn => "commit something first (`git commit`)".to_owned(),
            Self::InsideGitDir => "go to the folder that holds the files".to_owned(),
            Self::Midway("bisect") => "end it with `git bisect reset`".to_owned(),
            Self::Midway("merge") => "finish it with `git commit`, or `git merge --abort`".to_owned(),
            Self::Midway(what) => format!("finish it (`git {what} --continue`) or `git {what} --abort`"),
            Self::IndexLocked(path) => {
                format!("wait for the git that runs; if none does, `rm {}`", path.display())
            }
            Self::CorruptHead(_) | Self::Corrupt { .. } => "`git fsck` says what is damaged".to_owned(),
            Self::ForeignOwner => {
                format!("if you trust it: `git config --global --add safe.directory {}`", dir.display())
            }
        })
    }
}
