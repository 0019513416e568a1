use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use super::*;

const FILE: &str = "units/app/01-t.md";
const PENDING: &str = "---\ntask: 1\nstatus: pending\nbackpressure: make\n---\n# T\n";
const COMPLETE: &str = "---\ntask: 1\nstatus: complete\nbackpressure: make\n---\n# T\n";

fn workspace(content: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("units/app")).unwrap();
    fs::write(root.path().join(FILE), content).unwrap();
    root
}

fn set(root: &Path, status: TaskStatus) -> Result<bool, TaskFileError> {
    set_status(root, FILE, status, Some(PENDING.as_bytes()))
}

#[test]
fn a_status_is_set_and_nothing_else_and_once() {
    // req 36
    let root = workspace(&COMPLETE.replace("# T", "# T\n\nwork"));
    let path = root.path().join(FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(status(root.path(), FILE), Some(TaskStatus::Complete));
    assert!(set(root.path(), TaskStatus::Pending).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), PENDING.replace("# T", "# T\n\nwork"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!set(root.path(), TaskStatus::Pending).unwrap(), "nothing is left to do");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn what_is_gone_or_broken_comes_back() {
    // req 30, req 41
    let breaks: [fn(&Path); 4] = [
        |path| fs::write(path, "torn").unwrap(),
        |path| fs::write(path, "---\nstatus: complete\nstatus: pending\n").unwrap(),
        |path| fs::remove_file(path).unwrap(),
        |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
    ];
    for spoil in breaks {
        let root = workspace(COMPLETE);
        spoil(&root.path().join(FILE));
        assert_eq!(status(root.path(), FILE), None);
        assert!(set(root.path(), TaskStatus::Pending).unwrap());
        assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), PENDING);
    }
    let root = workspace("torn");
    let hopeless = set_status(root.path(), FILE, TaskStatus::Pending, None);
    assert!(matches!(hopeless, Err(TaskFileError::Unreadable { .. })));
}

#[test]
fn no_link_is_followed() {
    let elsewhere = workspace(COMPLETE);
    // The file itself is a link: it is replaced, and what it led to stays.
    let root = workspace(PENDING);
    fs::remove_file(root.path().join(FILE)).unwrap();
    symlink(elsewhere.path().join(FILE), root.path().join(FILE)).unwrap();
    assert_eq!(status(root.path(), FILE), None);
    assert!(set(root.path(), TaskStatus::Pending).unwrap());
    assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), PENDING);
    assert!(!root.path().join(FILE).is_symlink());
    // A folder on the way is one: nothing is read or written there.
    let root = workspace(PENDING);
    fs::remove_dir_all(root.path().join("units")).unwrap();
    symlink(elsewhere.path().join("units"), root.path().join("units")).unwrap();
    assert_eq!(status(root.path(), FILE), None);
    assert!(set(root.path(), TaskStatus::Pending).is_err());
    assert_eq!(fs::read_to_string(elsewhere.path().join(FILE)).unwrap(), COMPLETE);
    for outside in ["../units/app/01-t.md", "/etc/passwd", "units/..", ""] {
        assert!(read(elsewhere.path(), outside).is_err(), "{outside}");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    let root = workspace(PENDING);
    fs::remove_file(root.path().join(FILE)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.path().join(FILE), Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(status(root.path(), FILE), None);
    assert!(set(root.path(), TaskStatus::Complete).unwrap());
    assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), COMPLETE);
}
