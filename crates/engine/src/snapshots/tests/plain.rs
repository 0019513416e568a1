//! A folder without git.

use std::{
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

use super::*;

#[test]
fn content_kind_and_execute_bit_count_and_git_does_not() {
    let mut fixture = Fixture::empty();
    fixture.home = Home::at(fixture.path("state"));
    fixture.write("a", "one\n");
    fixture.write("dir/b", "two\n");
    symlink("a", fixture.path("link")).unwrap();
    let (mut workspace, start) = fixture.begun();
    assert!(!workspace.is_git() && start.changed);
    assert_eq!(workspace.begin().unwrap(), Snapshot { id: start.id.clone(), changed: false });
    let mut last = start.id.clone();
    let mut step = |expected: bool, change: &dyn Fn()| {
        change();
        let snapshot = workspace.snapshot(1).unwrap();
        assert_eq!(snapshot.changed, expected);
        let changes = workspace.changes(&last, &snapshot.id).unwrap();
        last = snapshot.id;
        told(&changes)
    };
    assert_eq!(step(false, &|| ()), []);
    assert_eq!(step(false, &|| fixture.write("a", "one\n")), []);
    assert_eq!(step(true, &|| fixture.write("a", "eno\n")), [(ChangeKind::Modified, "a".into())]);
    let retarget = || {
        fs::remove_file(fixture.path("link")).unwrap();
        symlink("dir", fixture.path("link")).unwrap();
    };
    assert_eq!(step(true, &retarget), [(ChangeKind::Modified, "link".into())]);
    let replace = || {
        fs::remove_file(fixture.path("link")).unwrap();
        fixture.write("link", "dir");
    };
    assert_eq!(step(true, &replace), [(ChangeKind::TypeChanged, "link".into())]);
    let mark = || fs::set_permissions(fixture.path("a"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(step(true, &mark), [(ChangeKind::Modified, "a".into())]);
    assert_eq!(step(true, &|| fixture.write("new\nline", "")), [(ChangeKind::Added, "new\nline".into())]);
    let remove = || fs::remove_file(fixture.path("dir/b")).unwrap();
    assert_eq!(step(true, &remove), [(ChangeKind::Deleted, "dir/b".into())]);
    assert_eq!(step(false, &|| fixture.write(".git/x", "x")), []);
    assert_eq!(names(&workspace.disturbed_since(&start.id).unwrap()), ["a", "dir/b", "link"]);
    assert_eq!(workspace.disturbed_since(&last).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_later_dacapo_knows_what_was_there() {
    let fixture = Fixture::empty();
    fixture.write("a", "one\n");
    let (_, start) = fixture.begun();
    let mut again = fixture.open().unwrap();
    assert_eq!(again.begin().unwrap().id, start.id);
    assert!(!again.snapshot(1).unwrap().changed);
    fixture.write("a", "x\n");
    assert_eq!(names(&again.disturbed_since(&start.id).unwrap()), ["a"]);
    for n in 0..20 {
        fixture.write("a", &n.to_string());
        again.snapshot(n).unwrap();
    }
    let lists = fs::read_dir(fixture.outside("home/shadow/abcdefghjk")).unwrap().flatten();
    let lists = lists.filter(|entry| entry.file_name().to_string_lossy().starts_with("list-")).count();
    assert_eq!(lists, 9, "the first and the last few");
    assert_eq!(names(&again.disturbed_since(&start.id).unwrap()), ["a"]);
    again.forget().unwrap();
    assert!(!fixture.outside("home/shadow/abcdefghjk").exists());
}

#[test]
fn what_needs_git_says_so() {
    let fixture = Fixture::empty();
    let (mut workspace, start) = fixture.begun();
    let errors = [
        workspace.restore(&start.id, 1).unwrap_err(),
        workspace.checkout(&start.id, &fixture.outside("copy")).unwrap_err(),
        workspace.commit_tree(&start.id, "x", 1).unwrap_err(),
        workspace.file_at(&start.id, b"a").unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, WorkspaceError::Plain { .. }), "{error}");
        assert!(error.hint().unwrap().contains("git init"));
    }
    assert_eq!(workspace.head().unwrap(), None);
}

#[test]
fn too_many_files_are_said_to_be_and_can_be_hashed_all_the_same() {
    let fixture = Fixture::empty();
    for n in 0..10 {
        fixture.write(&n.to_string(), "");
    }
    let mut plain =
        super::super::plain::PlainFolder::open(fixture.repo(), fixture.home.path(), fixture.outside("lists"));
    let error = plain.hash(9).unwrap_err();
    assert!(matches!(error, WorkspaceError::TooManyFiles { most: 9, .. }) && error.hint().is_some());
    assert_eq!(plain.hash(10).unwrap(), plain.hash(usize::MAX).unwrap());
}

#[test]
fn an_outline_follows_paths_sizes_and_times_and_reads_nothing() {
    // req 207
    let fixture = Fixture::empty();
    fixture.write("a", "one");
    fixture.write("dir/b", "two");
    fs::set_permissions(fixture.path("dir/b"), fs::Permissions::from_mode(0o000)).unwrap();
    let folder = Folder::at(&fixture.repo(), &fixture.home);
    let first = folder.outline().unwrap();
    assert_eq!(folder.outline().as_ref(), Some(&first), "nothing changed");
    let mut seen = vec![first];
    let mut assert_new = |what: &str| {
        let outline = folder.outline().unwrap();
        assert!(!seen.contains(&outline), "{what}");
        seen.push(outline);
    };
    fixture.write("a", "longer");
    assert_new("a size");
    let later = fs::FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(9));
    fs::File::options().append(true).open(fixture.path("a")).unwrap().set_times(later).unwrap();
    assert_new("a time");
    fs::rename(fixture.path("a"), fixture.path("c")).unwrap();
    assert_new("a path");
    symlink("nowhere", fixture.path("link")).unwrap();
    assert_new("a link");
    fs::remove_file(fixture.path("dir/b")).unwrap();
    assert_new("one less");
    let outline = folder.outline().unwrap();
    fixture.write(".git/index", "what git keeps is no work");
    fs::create_dir(fixture.path("empty")).unwrap();
    assert_eq!(folder.outline(), Some(outline));
}

#[test]
fn an_outline_is_given_up_where_there_are_too_many_files_or_folders() {
    let fixture = Fixture::empty();
    for n in 0..4 {
        fixture.write(&format!("f{n}"), "");
    }
    let folder = Folder::at(&fixture.repo(), &fixture.home);
    assert_eq!((folder.outline_of(4).is_some(), folder.outline_of(3)), (true, None));
    for n in 0..4 {
        fs::create_dir(fixture.path(&n.to_string())).unwrap();
    }
    assert_eq!((folder.outline_of(5).is_some(), folder.outline_of(4)), (true, None));
    assert!(Folder::at(&fixture.path("none"), &fixture.home).outline().is_some(), "nothing is there");
}

#[test]
fn state_inside_a_plain_folder_is_no_part_of_its_outline() {
    let fixture = Fixture::empty();
    let home = Home::at(fixture.path("state"));
    fixture.write("state/dacapo.db", "1");
    let folder = Folder::at(&fixture.repo(), &home);
    let before = folder.outline();
    fixture.write("state/dacapo.db", "12");
    assert_eq!(folder.outline(), before);
}

#[test]
fn a_file_by_which_another_loop_holds_a_name_is_no_change() {
    for has_git in [false, true] {
        let fixture = if has_git { Fixture::new() } else { Fixture::empty() };
        let (free, folder) = (fixture.path(".npmrc"), fixture.path(".config/git"));
        let (mut workspace, start) = fixture.begun();
        let names = crate::guard::HeldNames::hold(
            &fixture.path("state/held"),
            &[free],
            std::slice::from_ref(&folder),
        );
        assert!(folder.exists());
        let held = workspace.snapshot(1).unwrap();
        assert!(!held.changed, "has git: {has_git}");
        fixture.write("made", "by the agent");
        let more = workspace.snapshot(2).unwrap();
        assert_eq!(
            told(&workspace.changes(&start.id, &more.id).unwrap()),
            [(ChangeKind::Added, "made".into())]
        );
        drop(names);
        assert!(!workspace.snapshot(3).unwrap().changed, "has git: {has_git}");
    }
}
