//! A first workflow, where there is none yet.

use std::path::Path;

use dacapo_core::workflow::builtin::EXAMPLE_FILE;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{config_files::ConfigError, safe_open, starter::unit::write_new};

/// Writes the example into the repository at `root`, and says whether it did: a folder of workflows that is there is left as it
/// is.
pub fn begin_workflow(root: &Path, text: &str) -> Result<bool, ConfigError> {
    let failed = |error: Errno| ConfigError::Write { path: root.join(EXAMPLE_FILE), source: error.into() };
    let (folder, name) = EXAMPLE_FILE.rsplit_once('/').unwrap_or(("", EXAMPLE_FILE));
    let (above, below) = folder.rsplit_once('/').unwrap_or((".", folder));
    let top = safe_open::root(root).map_err(failed)?;
    // Step by step, so that no link on the way leads elsewhere.
    let above = safe_open::open(&top, above, OFlags::DIRECTORY).map_err(failed)?;
    match rustix::fs::mkdirat(&above, below, Mode::from_raw_mode(0o777)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(error) => return Err(failed(error)),
    }
    let folder = safe_open::open(&above, below, OFlags::DIRECTORY).map_err(failed)?;
    write_new(&folder, name, text)
        .map_err(|source| ConfigError::Write { path: root.join(EXAMPLE_FILE), source })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_workflow_is_written_once_and_never_over_another() {
        // fault K1
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        fs::create_dir_all(root.join(".dacapo")).unwrap();
        assert!(begin_workflow(&root, "text").unwrap());
        assert_eq!(fs::read_to_string(root.join(EXAMPLE_FILE)).unwrap(), "text");
        assert!(!begin_workflow(&root, "other").unwrap());
        assert_eq!(fs::read_to_string(root.join(EXAMPLE_FILE)).unwrap(), "text");
        // A symbolic link is never followed.
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::remove_dir_all(root.join(".dacapo")).unwrap();
        symlink(&elsewhere, root.join(".dacapo")).unwrap();
        assert!(begin_workflow(&root, "text").is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
