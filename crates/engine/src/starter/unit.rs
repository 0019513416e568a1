//! A first unit: a folder that is not there yet, or holds nothing.

use std::{
    fs::File,
    io::Write as _,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use dacapo_core::{ids::UnitId, unit::starter::starter};
use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags},
    io::Errno,
};

use crate::{
    safe_open,
    units::{UnitsError, refusal},
};

/// Writes an example unit into the folder `dir` of the repository at `root`, and gives the files it made, from there. If
/// there is anything in the unit's folder, that is left as it is, and nothing is made.
pub fn begin_unit(root: &Path, dir: &str, unit: &UnitId) -> Result<Vec<String>, UnitsError> {
    let folder = format!("{}/{unit}", dir.trim_end_matches('/'));
    let failed = |error: Errno| match refusal(error) {
        Some(why) => UnitsError::Refused { dir: folder.clone(), why },
        None => UnitsError::Write { path: root.join(&folder), source: error.into() },
    };
    // Step by step, so that no link on the way leads elsewhere.
    let mut place = safe_open::root(root).map_err(failed)?;
    for name in folder.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match rustix::fs::mkdirat(&place, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error)),
        }
        place = safe_open::open(&place, name, OFlags::DIRECTORY).map_err(failed)?;
    }
    if !is_empty(&place).map_err(failed)? {
        return Ok(Vec::new());
    }
    let files = starter(unit);
    for (at, (name, text)) in files.iter().enumerate() {
        if let Err(source) = write_new(&place, name, text) {
            // Half a unit would be in the way of a whole one.
            for (name, _) in &files[..at] {
                let _ = rustix::fs::unlinkat(&place, *name, AtFlags::empty());
            }
            return Err(UnitsError::Write { path: root.join(&folder).join(name), source });
        }
    }
    Ok(files.iter().map(|(name, _)| format!("{folder}/{name}")).collect())
}

fn is_empty(folder: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn write_new(folder: impl AsFd, name: &str, text: &str) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(0o666))?;
    let written = File::from(file).write_all(text.as_bytes());
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
    }
    written
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::units::discover;

    #[test]
    fn a_unit_is_written_once_and_never_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let (root, hello) = (dir.path(), "hello".parse().unwrap());
        let made = begin_unit(root, "./specs/tasks/", &hello).unwrap();
        assert_eq!(made.len(), 3);
        let found = discover(root, "specs/tasks").unwrap();
        assert_eq!((found.problems.len(), found.notes.len(), found.units.len()), (0, 0, 1));
        assert_eq!(begin_unit(root, "specs/tasks", &hello).unwrap(), [""; 0]);
        // A folder with files in it stays as it is: a second task with the same number would spoil it.
        fs::create_dir(root.join("specs/tasks/mine")).unwrap();
        fs::write(root.join("specs/tasks/mine/01-own.md"), "mine").unwrap();
        assert_eq!(begin_unit(root, "specs/tasks", &"mine".parse().unwrap()).unwrap(), [""; 0]);
        assert_eq!(fs::read_dir(root.join("specs/tasks/mine")).unwrap().count(), 1);
        // An empty folder is used.
        fs::create_dir(root.join("specs/tasks/empty")).unwrap();
        assert_eq!(begin_unit(root, "specs/tasks", &"empty".parse().unwrap()).unwrap().len(), 3);
    }

    #[test]
    fn a_link_is_not_followed_out_of_the_repository() {
        // fault K1
        let dir = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (dir.path().join("repo"), dir.path().join("elsewhere"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let refused = |dir: &str| match begin_unit(&root, dir, &"hello".parse().unwrap()) {
            Err(UnitsError::Refused { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        symlink(&elsewhere, root.join("specs")).unwrap();
        assert_eq!(refused("specs/tasks"), "it is a link, or lies behind one");
        assert_eq!(refused("../elsewhere"), "it leads out of the repository");
        fs::remove_file(root.join("specs")).unwrap();
        fs::create_dir(root.join("specs")).unwrap();
        symlink(&elsewhere, root.join("specs/hello")).unwrap();
        assert_eq!(refused("specs"), "it is a link, or lies behind one");
        fs::write(root.join("file"), "").unwrap();
        assert_eq!(refused("file"), "it is not a folder");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
