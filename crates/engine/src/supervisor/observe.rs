//! Looking at the task folder: facts only, no judgement.

use std::{fs, io::ErrorKind, os::unix::fs::FileTypeExt, path::Path};

use dacapo_core::judge::signal::{DoneFact, Facts};

/// The markers that lie in `folder` now.
pub(super) fn markers(folder: &Path) -> Facts {
    Facts {
        done: done(&folder.join("DONE")),
        wait_marker: folder.join("WAIT_WITHOUT_RESTART").symlink_metadata().is_ok(),
        ..Facts::default()
    }
}

/// What stands at `path`. Links are not followed: where they point is not the agent's word (fault A13).
fn done(path: &Path) -> DoneFact {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return DoneFact::Absent,
        Err(error) => return DoneFact::Unreadable(error.to_string()),
    };
    if kind.is_file() {
        DoneFact::File
    } else if kind.is_dir() {
        DoneFact::Directory
    } else if kind.is_symlink() {
        DoneFact::NotAFile("symbolic link")
    } else if kind.is_fifo() {
        DoneFact::NotAFile("FIFO")
    } else if kind.is_socket() {
        DoneFact::NotAFile("socket")
    } else {
        DoneFact::NotAFile("device")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[test]
    fn whatever_stands_at_done_is_seen_for_what_it_is() {
        // req 67, req 68, fault A13
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("DONE");
        let look = || markers(dir.path()).done;
        assert_eq!(look(), DoneFact::Absent);
        fs::write(&path, "").unwrap();
        assert_eq!(look(), DoneFact::File);
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert_eq!(look(), DoneFact::NotAFile("symbolic link"));
        fs::remove_file(&path).unwrap();
        let _socket = UnixListener::bind(&path).unwrap();
        assert_eq!(look(), DoneFact::NotAFile("socket"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(look(), DoneFact::Directory);
    }
}
