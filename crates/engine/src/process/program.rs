//! Where the programs of agents lie: each is looked for once, and what was found is handed on.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::inside::{child, protocol::Words};

/// Why a program cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error("agent `{0}` is not installed: no such program on PATH")]
    NotFound(String),
    #[error("agent `{0}` is not there: no such file")]
    NoSuchFile(String),
    #[error("agent `{0}` cannot be run: permission denied")]
    NotExecutable(String),
}

/// Programs by the names that agents are started by. The command line looks for an agent to be able to say how it is
/// installed, and hands what it found to the supervisor, or to the jobs of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(String, Words)>", into = "Vec<(String, Words)>")]
pub struct Programs(BTreeMap<String, Result<PathBuf, ProgramError>>);

impl Programs {
    /// The program that the user means by `name`: one on the PATH that agents inherit, or a path from this folder.
    pub fn find(&mut self, name: &str) -> Result<PathBuf, ProgramError> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let found = find_program(name, &child::variable("PATH").unwrap_or_default(), &here);
        self.0.insert(name.to_owned(), found.clone());
        found
    }
}

impl From<Vec<(String, Words)>> for Programs {
    fn from(found: Vec<(String, Words)>) -> Self {
        Self(found.into_iter().map(|(name, path)| (name, Ok(PathBuf::from(path.to_os())))).collect())
    }
}

/// What was not found is looked for again by the process that this goes to.
impl From<Programs> for Vec<(String, Words)> {
    fn from(programs: Programs) -> Self {
        let found = programs.0.into_iter().filter_map(|(name, path)| Some((name, path.ok()?)));
        found.map(|(name, path)| (name, path.as_os_str().into())).collect()
    }
}

/// The program that `name` means from within `dir`, with `path` as the PATH.
pub(crate) fn find_program(name: &str, path: &OsStr, dir: &Path) -> Result<PathBuf, ProgramError> {
    let can_run = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        let file = dir.join(name);
        return match (can_run(&file), file.exists()) {
            (true, _) => Ok(file),
            (false, true) => Err(ProgramError::NotExecutable(name.to_owned())),
            (false, false) => Err(ProgramError::NoSuchFile(name.to_owned())),
        };
    }
    let mut seen = false;
    for folder in std::env::split_paths(path) {
        let file = dir.join(folder).join(name);
        if !file.is_file() {
            continue;
        }
        if access(&file, Access::EXEC_OK).is_ok() {
            return Ok(file);
        }
        seen = true;
    }
    Err(if seen {
        ProgramError::NotExecutable(name.to_owned())
    } else {
        ProgramError::NotFound(name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_program_is_looked_for_once_and_a_job_is_told_where_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agent");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let name = file.to_str().unwrap();
        let mut programs = Programs::default();
        assert_eq!(programs.find(name), Ok(file.clone()));
        assert_eq!(programs.find("/nowhere/agent"), Err(ProgramError::NoSuchFile("/nowhere/agent".into())));
        fs::remove_file(&file).unwrap();
        assert_eq!(programs.find(name), Ok(file.clone()), "it was found before");
        let mut told: Programs = serde_json::from_str(&serde_json::to_string(&programs).unwrap()).unwrap();
        assert_eq!(told.find(name), Ok(file));
        assert!(told.find("/nowhere/agent").is_err());
    }

    #[test]
    fn a_program_is_found_or_the_reason_is_named() {
        // req 90
        let dir = tempfile::tempdir().unwrap();
        let (good, bad) = (dir.path().join("good"), dir.path().join("bad"));
        for (file, mode) in [(&good, 0o755), (&bad, 0o644)] {
            fs::write(file, "#!/bin/sh\n").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = dir.path().as_os_str();
        let find = |name: &str| find_program(name, path, dir.path());
        assert_eq!(find("good"), Ok(good.clone()));
        assert_eq!(find("./good"), Ok(dir.path().join("./good")));
        assert_eq!(find("nowhere"), Err(ProgramError::NotFound("nowhere".into())));
        assert_eq!(find("./nowhere"), Err(ProgramError::NoSuchFile("./nowhere".into())));
        assert_eq!(
            find(dir.path().to_str().unwrap()),
            Err(ProgramError::NotExecutable(path.to_str().unwrap().into()))
        );
        // Root may run a file only if some execute bit is set; `bad` has none.
        assert_eq!(find("bad"), Err(ProgramError::NotExecutable("bad".into())));
    }
}
