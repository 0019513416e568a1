//! Putting files back, and undoing that.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use super::*;

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0
}

#[test]
fn a_restore_and_its_undo_bring_every_file_back() {
    let fixture = Fixture::new();
    let newline = fixture.repo().join(OsStr::from_bytes(b"new\nline\xff"));
    fs::write(&newline, "odd\n").unwrap();
    fixture.write("untracked/deep", "u\n");
    let (mut workspace, start) = fixture.begun();
    let before = fixture.own_state();
    // The agent's mess.
    fs::remove_file(&newline).unwrap();
    fs::remove_dir_all(fixture.path("untracked")).unwrap();
    fs::remove_file(fixture.path("link")).unwrap();
    fixture.write("link", "no link\n");
    fs::set_permissions(fixture.path("run"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_dir_all(fixture.path("dir")).unwrap();
    fixture.write("dir", "a file where a folder was\n");
    fixture.write("added/file", "later\n");
    fixture.write("ignored/kept", "k\n");

    let restored = workspace.restore(&start.id, 1).unwrap();
    assert!(restored.changed);
    assert_eq!(workspace.tree_of(&restored.id).unwrap(), workspace.tree_of(&start.id).unwrap());
    assert_eq!(fs::read(&newline).unwrap(), b"odd\n");
    assert_eq!(fixture.read("untracked/deep").unwrap(), "u\n");
    assert_eq!(fs::read_link(fixture.path("link")).unwrap(), Path::new("a"));
    assert!(is_executable(&fixture.path("run")));
    assert_eq!(fixture.read("dir/b").unwrap(), "two\n");
    assert!(!fixture.path("added").exists());
    assert_eq!(fixture.read("ignored/kept").unwrap(), "k\n");
    assert!(!workspace.snapshot(2).unwrap().changed);
    assert_eq!(fixture.own_state(), before, "index, HEAD and all the rest");

    let undo = fixture.user(&["rev-parse", "refs/dacapo/abcdefghjk-undo"]);
    workspace.restore(undo.trim(), 3).unwrap();
    assert!(!newline.exists());
    assert_eq!(fixture.read("link").unwrap(), "no link\n");
    assert!(!is_executable(&fixture.path("run")));
    assert_eq!(fixture.read("dir").unwrap(), "a file where a folder was\n");
    assert_eq!(fixture.read("added/file").unwrap(), "later\n");
    assert_eq!(fixture.own_state(), before);
}

#[test]
fn restoring_what_is_there_changes_nothing() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    assert_eq!(workspace.restore(&start.id, 1).unwrap(), Snapshot { id: start.id.clone(), changed: false });
    assert!(matches!(workspace.restore("nothing", 1), Err(WorkspaceError::NoSnapshot(_))));
}

#[test]
fn a_restore_cut_short_is_found_by_the_next_snapshot() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    workspace.snapshot(1).unwrap();
    let WorkspaceKind::Git(shadow) = &workspace.kind else { panic!() };
    shadow.call().unwrap().args(["read-tree", "--reset", "-u", &start.id]).ok().unwrap();
    drop(workspace);
    let mut again = fixture.open().unwrap();
    let next = again.snapshot(2).unwrap();
    assert!(next.changed);
    assert_eq!(again.tree_of(&next.id).unwrap(), again.tree_of(&start.id).unwrap());
}

#[test]
fn a_checkout_is_a_copy_in_a_fresh_folder() {
    let fixture = Fixture::new();
    let newline = OsStr::from_bytes(b"new\nline");
    fs::write(fixture.repo().join(newline), "odd\n").unwrap();
    let (workspace, start) = fixture.begun();
    let before = fixture.own_state();
    let copy = fixture.outside("a copy");
    workspace.checkout(&start.id, &copy).unwrap();
    assert_eq!(fs::read(copy.join("dir/b")).unwrap(), b"two\n");
    assert_eq!(fs::read(copy.join(newline)).unwrap(), b"odd\n");
    assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("a"));
    assert!(is_executable(&copy.join("run")) && !is_executable(&copy.join("a")));
    assert!(!copy.join(".git").exists());
    assert!(matches!(workspace.checkout(&start.id, &copy), Err(WorkspaceError::NotEmpty(_))));
    assert_eq!(fixture.own_state(), before);
    assert_eq!(workspace.disturbed_since(&start.id).unwrap(), Vec::<Vec<u8>>::new());
}
