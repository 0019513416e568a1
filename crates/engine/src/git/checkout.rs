//! Which repository a folder belongs to, and whether a loop can work in it (fault H9).

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{
    error::{RepositoryProblem, WorkspaceError},
    on_disk,
    runner::{Git, GitCall, GitError, failed_call},
};

/// A repository with a work tree.
#[derive(Clone, Debug)]
pub(crate) struct Checkout {
    pub(crate) git: Git,
    /// The top of the work tree.
    pub(crate) toplevel: PathBuf,
    /// What belongs to this work tree: HEAD, index.
    pub(crate) git_dir: PathBuf,
    /// What all work trees share: objects, refs, config.
    pub(crate) common_dir: PathBuf,
}

/// Files of git that say an operation has begun and not ended.
const MIDWAY: &[(&str, &str)] = &[
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
];

impl Checkout {
    /// The repository that holds `dir`; none if there is none.
    pub(crate) fn find(git: &Git, dir: &Path) -> Result<Option<Self>, WorkspaceError> {
        if is_outside_all(dir) {
            return Ok(None);
        }
        if let Some((git_dir, common_dir)) = on_disk::folders_of_checkout(dir) {
            return Ok(Some(Self { git: git.clone(), toplevel: dir.to_owned(), git_dir, common_dir }));
        }
        let refused = |state| WorkspaceError::Refused { dir: dir.to_owned(), state };
        let call = || git.call(dir).args(["rev-parse", "--path-format=absolute"]);
        let facts = [
            "--is-bare-repository",
            "--is-inside-git-dir",
            "--absolute-git-dir",
            "--git-common-dir",
            "--show-toplevel",
        ];
        let asked = call().args(facts);
        let shown = asked.shown();
        let output = asked.run()?;
        let mut lines = output.stdout.split(|b| *b == b'\n');
        let (is_bare, is_inside) = (lines.next(), lines.next());
        let said = output.stderr.lines().next().unwrap_or_default().to_owned();
        if is_bare == Some(b"true") || said.contains("safe.bareRepository") {
            // Inside a `.git` of its own, git may call it bare; the more helpful answer is the other one.
            let is_dot_git = dir.ancestors().any(|a| a.file_name() == Some(OsStr::new(".git")));
            return Err(refused(if is_dot_git {
                RepositoryProblem::InsideGitDir
            } else {
                RepositoryProblem::Bare
            }));
        }
        if is_inside == Some(b"true") {
            return Err(refused(RepositoryProblem::InsideGitDir));
        }
        if output.code != Some(0) {
            if said.contains("dubious ownership") {
                return Err(refused(RepositoryProblem::ForeignOwner));
            }
            if !said.contains("not a git repository") {
                return Err(failed_call(shown, dir.to_owned(), &output).into());
            }
            // git takes a damaged repository for none at all; working in it as a plain folder would hide the damage.
            return match dir.ancestors().map(|a| a.join(".git")).find(|path| looks_like_git(path)) {
                Some(path) if fs::read(path.join("HEAD")).is_ok_and(|head| !is_head(&head)) => {
                    Err(refused(RepositoryProblem::CorruptHead("it is neither a branch nor a commit".into())))
                }
                Some(path) => Err(refused(RepositoryProblem::Corrupt { path, said })),
                None => Ok(None),
            };
        }
        let paths: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        let [git_dir, common_dir, toplevel] = match paths[..] {
            [a, b, c] => [a, b, c].map(|path| PathBuf::from(OsStr::from_bytes(path))),
            // A path with a newline in it: one at a time, then.
            _ => {
                let one = |fact| Ok::<_, GitError>(call().args([fact]).ok()?.path());
                [one("--absolute-git-dir")?, one("--git-common-dir")?, one("--show-toplevel")?]
            }
        };
        Ok(Some(Self { git: git.clone(), toplevel, git_dir, common_dir }))
    }

    pub(crate) fn call(&self) -> GitCall<'_> {
        self.git.call(&self.toplevel).at(&self.git_dir, &self.toplevel)
    }

    /// Says so if no loop should start from its state, as far as files tell; HEAD has to be looked at as well.
    pub(crate) fn check_files(&self) -> Result<(), WorkspaceError> {
        let refused = |state| WorkspaceError::Refused { dir: self.toplevel.clone(), state };
        if let Some((_, what)) = MIDWAY.iter().find(|(file, _)| self.git_dir.join(file).exists()) {
            return Err(refused(RepositoryProblem::Midway(what)));
        }
        let lock = self.git_dir.join("index.lock");
        if lock.exists() {
            return Err(refused(RepositoryProblem::IndexLocked(lock)));
        }
        Ok(())
    }

    /// The commit that HEAD names; none on an unborn branch.
    pub(crate) fn head(&self) -> Result<Option<String>, WorkspaceError> {
        let resolve = |name: &str| {
            let output =
                self.call().args(["rev-parse", "--quiet", "--verify", "--end-of-options", name]).run()?;
            Ok::<_, GitError>((output.code == Some(0)).then(|| output.line()))
        };
        if let Some(commit) = resolve("HEAD^{commit}")? {
            return Ok(Some(commit));
        }
        let corrupt = |why: &str| {
            let state = RepositoryProblem::CorruptHead(why.to_owned());
            Err(WorkspaceError::Refused { dir: self.toplevel.clone(), state })
        };
        if let Some(id) = resolve("HEAD")? {
            return corrupt(&format!("commit {id} is missing or no commit"));
        }
        let branch = self.call().args(["symbolic-ref", "--quiet", "HEAD"]).run()?;
        if branch.code != Some(0) {
            return corrupt("it is neither a branch nor a commit");
        }
        if self.common_dir.join(branch.line()).is_file() {
            return corrupt(&format!("`{}` holds no commit id", branch.line()));
        }
        Ok(None)
    }

    /// A name for it that lasts as long as its place.
    pub(crate) fn fingerprint(&self) -> u64 {
        dacapo_core::ids::fingerprint(self.common_dir.as_os_str().as_bytes())
    }
}

/// Whether git would find no repository above `dir`, whole or damaged, bare or not: then it need not be started. Each of them
/// has a `.git`, or is a folder with a `HEAD` in it. A folder that cannot be looked at is left to git.
fn is_outside_all(dir: &Path) -> bool {
    let is_absent = |path: PathBuf| {
        path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    fs::canonicalize(dir).is_ok_and(|dir| {
        dir.ancestors().all(|above| ["HEAD", ".git"].iter().all(|name| is_absent(above.join(name))))
    })
}

/// Whether it is meant to be a repository; an empty folder of that name is none.
fn looks_like_git(path: &Path) -> bool {
    path.is_file() || ["HEAD", "objects", "refs"].iter().any(|part| path.join(part).exists())
}

fn is_head(head: &[u8]) -> bool {
    let head = head.trim_ascii();
    head.starts_with(b"ref: refs/") || (head.len() >= 40 && head.iter().all(u8::is_ascii_hexdigit))
}
