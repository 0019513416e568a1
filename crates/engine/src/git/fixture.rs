//! Real repositories in throw-away folders; nothing of the machine's own git settings counts.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use dacapo_core::ids::{LoopId, ProjectId, UnitId};

use super::{Git, RepositoryProblem, WorkspaceError};
use crate::{
    home::Home,
    repository::Repository,
    snapshots::{ChangeKind, PathChange, Snapshot, Workspace},
};

pub(crate) struct Fixture {
    root: tempfile::TempDir,
    pub(crate) home: Home,
}

impl Fixture {
    /// A folder that is nothing yet.
    pub(crate) fn empty() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["repo", "home", "bin"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let config = "[user]\n name = User\n email = user@example.org\n[init]\n defaultBranch = main\n[protocol \"file\"]\n allow = always\n";
        fs::write(root.path().join("gitconfig"), config).unwrap();
        // Every call of ours goes through it and leaves a line.
        let program =
            crate::process::find_program("git", &std::env::var_os("PATH").unwrap(), Path::new("/")).unwrap();
        let log = root.path().join("calls");
        let script =
            format!("#!/bin/sh\necho x >>'{}'\nexec '{}' \"$@\"\n", log.display(), program.display());
        let wrapper = root.path().join("bin/git");
        fs::write(&wrapper, script).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
        let home = Home::at(root.path().canonicalize().unwrap().join("home"));
        Self { root, home }
    }

    /// A repository with one commit: `a`, `dir/b`, `run` (executable), `link` to `a`, `.gitignore` of `ignored/`.
    pub(crate) fn new() -> Self {
        let fixture = Self::empty();
        fixture.user(&["init", "-q"]);
        fixture.write("a", "one\n");
        fixture.write("dir/b", "two\n");
        fixture.write("run", "#!/bin/sh\n");
        fs::set_permissions(fixture.path("run"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("a", fixture.path("link")).unwrap();
        fixture.write(".gitignore", "ignored/\n");
        fixture.user(&["add", "-A"]);
        fixture.user(&["commit", "-qm", "first"]);
        fixture
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("repo")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.repo().join(name)
    }

    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    pub(crate) fn git(&self) -> Git {
        Git::at(self.outside("bin/git"))
            .with("GIT_CONFIG_GLOBAL", self.outside("gitconfig"))
            .with("GIT_CONFIG_NOSYSTEM", "1")
    }

    /// How many times git was called by us so far.
    pub(crate) fn calls(&self) -> usize {
        fs::read_to_string(self.outside("calls")).map_or(0, |text| text.lines().count())
    }

    pub(crate) fn open(&self) -> Result<Workspace, WorkspaceError> {
        self.open_at(&self.repo())
    }

    pub(crate) fn open_at(&self, dir: &Path) -> Result<Workspace, WorkspaceError> {
        Workspace::open_with(&self.git(), dir, &self.home, &loop_id())
    }

    pub(crate) fn begun(&self) -> (Workspace, Snapshot) {
        let mut workspace = self.open().unwrap();
        let start = workspace.begin().unwrap();
        (workspace, start)
    }

    pub(crate) fn opened(&self) -> Repository {
        Repository::open_with(&self.git(), &self.repo(), &self.home).unwrap()
    }

    /// git in any folder, as a person calls it.
    pub(crate) fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let (code, text) = self.user_in(dir, args);
        assert_eq!(code, 0, "git {args:?}: {text}");
        text.trim_end().to_owned()
    }

    /// Commits everything in a folder and says what the commit is.
    pub(crate) fn commit_in(&self, dir: &Path, message: &str) -> String {
        self.git_in(dir, &["add", "-A"]);
        self.git_in(dir, &["commit", "-qm", message]);
        self.git_in(dir, &["rev-parse", "HEAD"])
    }

    /// The branches there are.
    pub(crate) fn branches(&self) -> Vec<String> {
        let all = self.user(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        all.lines().map(str::to_owned).collect()
    }

    pub(crate) fn problem(&self) -> RepositoryProblem {
        self.refusal_at(&self.repo())
    }

    pub(crate) fn refusal_at(&self, dir: &Path) -> RepositoryProblem {
        match self.open_at(dir) {
            Err(error @ WorkspaceError::Refused { .. }) => {
                assert!(error.hint().is_some(), "{error}");
                let WorkspaceError::Refused { state, .. } = error else { unreachable!() };
                state
            }
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("not refused"),
        }
    }

    /// git as the user calls it.
    pub(crate) fn user(&self, args: &[&str]) -> String {
        let (code, text) = self.user_may_fail(args);
        assert_eq!(code, 0, "git {args:?}: {text}");
        text
    }

    pub(crate) fn user_may_fail(&self, args: &[&str]) -> (i32, String) {
        self.user_in(&self.repo(), args)
    }

    pub(crate) fn user_in(&self, dir: &Path, args: &[&str]) -> (i32, String) {
        let output = Command::new("git")
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", self.outside("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_EDITOR", "true")
            .env("GIT_CEILING_DIRECTORIES", self.root.path())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Everything of the user's that no snapshot may touch.
    pub(crate) fn own_state(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let dir = self.path(".git");
        let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        let mut folders = vec![dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&dir).unwrap().to_owned();
                if name.starts_with("objects") || name.starts_with("refs/dacapo") {
                    continue;
                }
                if path.is_dir() { folders.push(path) } else { files.push((name, fs::read(&path).unwrap())) }
            }
        }
        files.sort();
        files
    }
}

pub(crate) fn unit(name: &str) -> UnitId {
    name.parse().unwrap()
}

pub(crate) fn project() -> ProjectId {
    "p".parse().unwrap()
}

pub(crate) fn loop_id() -> LoopId {
    "abcdefghjk".parse().unwrap()
}

pub(crate) fn names(paths: &[Vec<u8>]) -> Vec<String> {
    paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

pub(crate) fn told(changes: &[PathChange]) -> Vec<(ChangeKind, String)> {
    changes.iter().map(|c| (c.kind, String::from_utf8_lossy(&c.path).into_owned())).collect()
}

/// A program that leaves a file behind.
pub(crate) fn canary(fixture: &Fixture) -> String {
    let path = fixture.outside("canary.sh");
    fs::write(&path, format!("#!/bin/sh\ntouch '{}'\ncat\n", fixture.outside("CANARY").display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}
