//! The first configuration of a repository: written once, and never over anything.

mod unit;
mod workflow;

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use dacapo_core::config::{Tests, guess_tests, starter};
use rustix::fs::OFlags;

pub use unit::begin_unit;
pub use workflow::begin_workflow;

use crate::config_files::{ConfigError, FOLDER, REPOSITORY_FILE, repository_root};

/// A project's own files are small; what is larger tells nothing about its tests.
const MOST_BYTES: u64 = 1024 * 1024;

/// What a repository begins with.
#[derive(Clone, Debug)]
pub struct StarterFiles {
    /// The folder that holds `.dacapo/`.
    pub root: PathBuf,
    /// Whether the configuration is new; one that was there is left as it was.
    pub is_new: bool,
    /// How its tests are run, as far as its files tell.
    pub tests: Vec<Tests>,
}

/// How the tests of the repository are run that `workspace`, absolute and real, lies in, as far as its files tell.
pub fn tests_of(workspace: &Path) -> Vec<Tests> {
    guess_tests(|name| read_small(&top_of(workspace).join(name)))
}

/// The folder that holds `.dacapo/`, or would.
fn top_of(workspace: &Path) -> PathBuf {
    let top = || workspace.ancestors().find(|folder| fs::symlink_metadata(folder.join(".git")).is_ok());
    repository_root(workspace).unwrap_or_else(|| top().unwrap_or(workspace).to_owned())
}

/// Writes a configuration for the repository that `workspace`, absolute and real, lies in.
pub fn begin(workspace: &Path) -> Result<StarterFiles, ConfigError> {
    let root = top_of(workspace);
    let tests = guess_tests(|name| read_small(&root.join(name)));
    let is_new = write_new(&root, &starter(&tests))?;
    Ok(StarterFiles { root, is_new, tests })
}

/// Says whether it wrote anything.
fn write_new(root: &Path, text: &str) -> Result<bool, ConfigError> {
    let (folder, file) = (root.join(FOLDER), root.join(REPOSITORY_FILE));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source: io::Error| ConfigError::Write { path, source }
    };
    match fs::create_dir(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A link could lead anywhere, and this is a file that decides what runs.
            if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
                return Err(ConfigError::Refused { path: folder, why: "it is not a folder" });
            }
        }
        Err(error) => return Err(failed(&folder)(error)),
    }
    let mut new = match fs::OpenOptions::new().write(true).create_new(true).open(&file) {
        Ok(new) => new,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(&file)(error)),
    };
    new.write_all(text.as_bytes()).map_err(failed(&file))?;
    Ok(true)
}

/// The text of a small regular file.
fn read_small(path: &Path) -> Option<String> {
    // A FIFO would hold us up.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_written_at_the_top_and_never_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("deep/below")).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join("go.mod"), "module x").unwrap();
        let begun = begin(&root.join("deep/below")).unwrap();
        assert_eq!((&begun.root, begun.is_new, begun.tests[0].run), (&root, true, "go test ./..."));
        let file = root.join(REPOSITORY_FILE);
        assert!(fs::read_to_string(&file).unwrap().contains("run: go test ./..."));
        fs::write(&file, "# mine\n").unwrap();
        assert!(!begin(&root).unwrap().is_new);
        assert_eq!(fs::read_to_string(&file).unwrap(), "# mine\n");
    }

    #[test]
    fn a_link_is_not_followed_out_of_the_repository() {
        // fault K1
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (repo, elsewhere) = (root.join("repo"), root.join("elsewhere"));
        fs::create_dir(&repo).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, repo.join(".dacapo")).unwrap();
        assert!(matches!(begin(&repo), Err(ConfigError::Refused { .. })));
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        // Neither does a file that is a link to nowhere come into being there.
        fs::remove_file(repo.join(".dacapo")).unwrap();
        fs::create_dir(repo.join(".dacapo")).unwrap();
        std::os::unix::fs::symlink(elsewhere.join("new"), repo.join(REPOSITORY_FILE)).unwrap();
        assert!(!begin(&repo).unwrap().is_new);
        assert!(!elsewhere.join("new").exists());
    }
}
