//! The first configuration of a repository: written once, and never over anything.

mod unit;
mod workflow;

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use dacapo_core::{
    config::{Tests, guess_tests, starter},
    goalposts::{is_left_out, missed_tests},
};
use rustix::fs::OFlags;

pub use unit::begin_unit;
pub use workflow::begin_workflow;

use crate::config_files::{ConfigError, FOLDER, REPOSITORY_FILE, repository_root};

/// A project's own files are small; what is larger tells nothing about its tests.
const MOST_BYTES: u64 = 1024 * 1024;
/// More files are not looked at.
const MOST_FILES: usize = 5_000;

/// What a repository begins with.
#[derive(Clone, Debug)]
pub struct StarterFiles {
    /// The folder that holds `.dacapo/`.
    pub root: PathBuf,
    /// Whether the configuration is new; one that was there is left as it was.
    pub is_new: bool,
    /// How its tests are run, as far as its files tell.
    pub tests: Vec<Tests>,
    /// Patterns of tests that dacapo does not know by their names.
    pub missed_tests: Vec<String>,
}

/// How the tests of the repository are run that `workspace`, absolute and real, lies in, as far as its files tell.
pub fn tests_of(workspace: &Path) -> Vec<Tests> {
    let top = top_of(workspace);
    guess_tests(&names_of(&top), |name| read_small(&top.join(name)))
}

/// The files at the top of a repository and in its folders of tests, as far as they matter for how its tests are run.
pub(crate) fn names_of(top: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["", "tests/", "test/"] {
        let Ok(entries) = fs::read_dir(top.join(folder)) else { continue };
        let files = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let own = files.filter_map(|entry| entry.file_name().into_string().ok());
        names.extend(own.take(MOST_FILES).map(|name| format!("{folder}{name}")));
    }
    names.sort();
    names
}

/// Patterns for the tests of a repository that dacapo does not know by their names. Links are not followed.
fn missed_tests_of(root: &Path) -> Vec<String> {
    let (mut files, mut folders) = (Vec::new(), vec![(root.to_owned(), String::new())]);
    while let Some((folder, below)) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
            if kind.is_dir() && !is_left_out(&name) {
                folders.push((entry.path(), format!("{below}{name}/")));
            } else if kind.is_file() && name.contains('.') && files.len() < MOST_FILES {
                files.extend(read_small(&entry.path()).map(|text| (format!("{below}{name}"), text)));
            }
        }
        if files.len() >= MOST_FILES {
            break;
        }
    }
    files.sort();
    missed_tests(files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

/// The folder that holds `.dacapo/`, or would.
fn top_of(workspace: &Path) -> PathBuf {
    let top = || workspace.ancestors().find(|folder| fs::symlink_metadata(folder.join(".git")).is_ok());
    repository_root(workspace).unwrap_or_else(|| top().unwrap_or(workspace).to_owned())
}

/// Writes a configuration for the repository that `workspace`, absolute and real, lies in.
pub fn begin(workspace: &Path) -> Result<StarterFiles, ConfigError> {
    let root = top_of(workspace);
    let tests = guess_tests(&names_of(&root), |name| read_small(&root.join(name)));
    let missed_tests = missed_tests_of(&root);
    let is_new = write_new(&root, &starter(&tests, &missed_tests))?;
    Ok(StarterFiles { root, is_new, tests, missed_tests })
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
