//! Where a program lies: looked up once, before anything is started.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};

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

/// The program that `name` means from within `dir`, with `path` as the PATH.
pub fn find_program(name: &str, path: &OsStr, dir: &Path) -> Result<PathBuf, ProgramError> {
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
        if can_run(&file) {
            return Ok(file);
        }
        seen |= file.is_file();
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
