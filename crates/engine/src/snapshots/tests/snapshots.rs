//! Snapshots see everything and touch nothing.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, time::Instant};

use super::*;

#[test]
fn the_users_index_head_branch_and_stash_stay_as_they_are() {
    let fixture = Fixture::new();
    fixture.write("a", "stashed\n");
    fixture.user(&["stash", "-q"]);
    fixture.write("dir/b", "staged\n");
    fixture.user(&["add", "-A"]);
    fixture.write("dir/b", "dirty\n");
    fixture.write("untracked", "u\n");
    let (status, before) = (fixture.user(&["status", "--porcelain"]), fixture.own_state());
    let (mut workspace, start) = fixture.begun();
    assert!(workspace.had_staged_changes());
    fixture.write("untracked", "v\n");
    workspace.snapshot(1).unwrap();
    workspace.disturbed_since(&start.id).unwrap();
    assert_eq!(fixture.own_state(), before);
    assert_eq!(fixture.user(&["status", "--porcelain"]), status);
    let files = workspace.files_at(&start.id, &[b"dir/b", b"untracked", b"a"]).unwrap();
    let expected = ["dirty\n", "u\n", "one\n"].map(|text| Some(text.as_bytes().to_vec()));
    assert_eq!(files, expected);
}

#[test]
fn nothing_changed_is_one_process_and_something_changed_two() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    let mut calls = |expected: usize, change: &dyn Fn()| {
        change();
        let before = fixture.calls();
        let snapshot = workspace.snapshot(1).unwrap();
        assert_eq!(fixture.calls() - before, expected);
        snapshot
    };
    assert_eq!(calls(1, &|| ()), Snapshot { id: start.id.clone(), changed: false });
    let touched = calls(1, &|| fixture.write("a", "one\n"));
    assert_eq!(touched.id, start.id, "the same content, written again");
    let first = calls(2, &|| fixture.write("a", "x\n"));
    assert!(first.changed);
    calls(2, &|| fixture.write("new", "x\n"));
    calls(2, &|| fs::remove_file(fixture.path("dir/b")).unwrap());
    calls(2, &|| fs::set_permissions(fixture.path("a"), fs::Permissions::from_mode(0o755)).unwrap());
    let last = calls(1, &|| fixture.write("ignored/x", "x\n"));
    assert_eq!(fixture.user(&["log", "--format=%s", "refs/dacapo/abcdefghjk"]).lines().count(), 5);
    let before = fixture.calls();
    let tree = workspace.tree_of(&last.id).unwrap();
    assert_eq!(fixture.calls(), before, "the tree's name is known from the commit that was written");
    assert_eq!(fixture.user(&["rev-parse", &format!("{}^{{tree}}", last.id)]).trim(), tree);
    // A later dacapo asks.
    assert_eq!(fixture.open().unwrap().tree_of(&last.id).unwrap(), tree);
}

#[test]
fn settings_and_rules_that_an_agent_edits_cost_little_from_then_on() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    let mut calls = |expected: usize, change: &dyn Fn()| {
        change();
        let before = fixture.calls();
        workspace.snapshot(1).unwrap();
        assert_eq!(fixture.calls() - before, expected);
    };
    calls(2, &|| drop(fixture.user(&["config", "user.name", "Agent"])));
    calls(1, &|| ());
    calls(2, &|| fixture.write("a", "x\n"));
    // New rules hide nothing, which takes a look of its own.
    calls(4, &|| fixture.write(".gitignore", "ignored/\n*.tmp\n"));
    calls(2, &|| ());
    calls(4, &|| fixture.write("a", "y\n"));
    calls(5, &|| fixture.write("b.tmp", "hidden by the new rule\n"));
    calls(2, &|| ());
}

#[test]
fn a_change_that_keeps_size_and_time_is_seen() {
    let fixture = Fixture::new();
    // Old enough that the index takes its stat for proof.
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    fs::File::open(fixture.path("a")).unwrap().set_modified(time).unwrap();
    fixture.user(&["add", "a"]);
    let (mut workspace, _) = fixture.begun();
    // git keeps change times in whole seconds, and no program can set them: the test waits for the next second.
    let changed = || std::os::unix::fs::MetadataExt::ctime(&fs::metadata(fixture.path("a")).unwrap());
    let before = changed();
    while changed() == before {
        fixture.write("a", "eno\n");
        fs::File::open(fixture.path("a")).unwrap().set_modified(time).unwrap();
        std::thread::yield_now();
    }
    assert!(workspace.snapshot(1).unwrap().changed);
}

#[test]
fn files_the_user_told_git_not_to_look_at_are_looked_at() {
    let fixture = Fixture::new();
    fixture.user(&["update-index", "--assume-unchanged", "a"]);
    fixture.user(&["update-index", "--skip-worktree", "dir/b"]);
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    fixture.write("dir/b", "x\n");
    let next = workspace.snapshot(1).unwrap();
    assert_eq!(workspace.changes(&start.id, &next.id).unwrap().len(), 2);
}

#[test]
fn odd_names_and_kinds_come_back_as_they_are() {
    let fixture = Fixture::new();
    let odd: &[&[u8]] =
        &[b"new\nline", b"\xff\xfe", b"-dash", b"quo\"te'", b":(top)x", b"sp ace ", b"\\back"];
    for name in odd {
        fs::write(fixture.repo().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let (mut workspace, start) = fixture.begun();
    let files = workspace.files_at(&start.id, odd).unwrap();
    assert_eq!(files, odd.iter().map(|name| Some(name.to_vec())).collect::<Vec<_>>());
    assert_eq!(
        workspace.files_at(&start.id, &[b"no\nne", b"a", b"dir"]).unwrap(),
        [None, Some(b"one\n".to_vec()), None]
    );
    for name in odd {
        fs::remove_file(fixture.repo().join(OsStr::from_bytes(name))).unwrap();
    }
    let mut disturbed = workspace.disturbed_since(&start.id).unwrap();
    disturbed.sort();
    let mut expected: Vec<Vec<u8>> = odd.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    assert_eq!(disturbed, expected);
    let next = workspace.snapshot(1).unwrap();
    assert!(workspace.changes(&start.id, &next.id).unwrap().iter().all(|c| c.kind == ChangeKind::Deleted));
}

#[test]
fn ignored_files_and_untracked_secrets_stay_out_and_tracked_ones_in() {
    let fixture = Fixture::new();
    fixture.write("tracked.key", "t\n");
    fixture.write(".env", "tracked\n");
    fixture.user(&["add", "-f", "tracked.key", ".env"]);
    fixture.user(&["commit", "-qm", "keys"]);
    for name in
        ["ignored/x", "dir/.env.local", "my.pem", "id_rsa", "dir/id_ed25519.pub", ".netrc", "global.tmp"]
    {
        fixture.write(name, "secret\n");
    }
    fs::write(fixture.outside("ignore"), "*.tmp\n").unwrap();
    fixture.user(&["config", "--global", "core.excludesFile", fixture.outside("ignore").to_str().unwrap()]);
    let (_, start) = fixture.begun();
    let held = fixture.user(&["ls-tree", "-r", "--name-only", &start.id]);
    assert_eq!(held, ".env\n.gitignore\na\ndir/b\nlink\nrun\ntracked.key\n");
}

#[test]
fn rules_edited_later_hide_nothing_and_let_nothing_in() {
    let fixture = Fixture::new();
    fixture.write("dir/.gitignore", "/out\n*.o\n!keep.o\n");
    fixture.write("ignored/secret", "s\n");
    fixture.write("dir/out/x", "x\n");
    let (mut workspace, start) = fixture.begun();
    fixture.write(".gitignore", "*.rs\n!ignored/\n!.env\n!dir/out\n");
    fs::remove_file(fixture.path("dir/.gitignore")).unwrap();
    for name in ["hidden.rs", ".env", "dir/x.o", "dir/keep.o", "seen"] {
        fixture.write(name, "n\n");
    }
    let next = workspace.snapshot(1).unwrap();
    let expected = [
        (ChangeKind::Modified, ".gitignore"),
        (ChangeKind::Deleted, "dir/.gitignore"),
        (ChangeKind::Added, "dir/keep.o"),
        (ChangeKind::Added, "hidden.rs"),
        (ChangeKind::Added, "seen"),
    ];
    let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
    assert_eq!(told(&workspace.changes(&start.id, &next.id).unwrap()), expected);
    assert_eq!(workspace.take_warnings(), [Warning::KeptDespiteNewRules(vec![b"hidden.rs".to_vec()])]);
    assert!(!workspace.snapshot(2).unwrap().changed);
    assert_eq!(workspace.take_warnings(), [], "it is said once");
    fixture.write(".git/info/exclude", "late\n");
    fixture.write("late", "l\n");
    assert!(workspace.snapshot(3).unwrap().changed);
}

#[test]
fn a_flood_hidden_by_new_rules_is_counted_and_left_out() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write(".gitignore", "modules/\n");
    for n in 0..2_001 {
        fixture.write(&format!("modules/{n}"), "");
    }
    assert!(workspace.snapshot(1).unwrap().changed);
    assert_eq!(workspace.take_warnings(), [Warning::HiddenByNewRules(2_001)]);
    assert!(!workspace.snapshot(2).unwrap().changed);
}

#[test]
fn a_repository_inside_is_left_out_and_warned_of() {
    // fault H13
    for has_commit in [true, false] {
        let fixture = Fixture::new();
        fixture.write("in side/x", "x\n");
        fixture.user_in(&fixture.path("in side"), &["init", "-q"]);
        if has_commit {
            fixture.user_in(&fixture.path("in side"), &["add", "-A"]);
            fixture.user_in(&fixture.path("in side"), &["commit", "-qm", "x"]);
        }
        let (mut workspace, start) = fixture.begun();
        assert_eq!(workspace.take_warnings(), [Warning::NestedRepository(b"in side".to_vec())]);
        assert!(!fixture.user(&["ls-tree", "-r", &start.id]).contains("side"));
        fixture.write("in side/y", "y\n");
        assert!(!workspace.snapshot(1).unwrap().changed);
        assert_eq!(workspace.take_warnings(), []);
        fixture.write("deep/er/x", "x\n");
        fixture.user_in(&fixture.path("deep/er"), &["init", "-q"]);
        assert!(!workspace.snapshot(2).unwrap().changed);
        assert_eq!(workspace.take_warnings(), [Warning::NestedRepository(b"deep/er".to_vec())]);
    }
}

#[test]
fn what_a_crash_left_between_adding_and_committing_is_found() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    let WorkspaceKind::Git(shadow) = &mut workspace.kind else { panic!() };
    shadow.add().unwrap();
    fixture.write("../home/shadow/abcdefghjk/index.lock", "");
    fixture.write(".git/refs/dacapo/abcdefghjk.lock", "");
    drop(workspace);
    let mut again = fixture.open().unwrap();
    let next = again.snapshot(1).unwrap();
    assert!(next.changed);
    assert_eq!(again.changes(&start.id, &next.id).unwrap().len(), 1);
    let mut again = fixture.open().unwrap();
    assert_eq!(again.snapshot(2).unwrap(), Snapshot { id: next.id, changed: false });
}

#[test]
fn what_a_process_has_sealed_is_not_asked_for_again_by_the_next() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    workspace.snapshot(1).unwrap();
    let seal = workspace.seal().expect("a seal");
    let mut next = fixture.open().unwrap();
    next.take_up(&seal);
    assert!(next.holds_snapshots());
    fixture.write("a", "y\n");
    let before = fixture.calls();
    assert!(next.snapshot(2).unwrap().changed);
    assert_eq!(fixture.calls() - before, 2, "one adds, one commits");
    let seal = next.seal().expect("a seal");
    let mut unchanged = fixture.open().unwrap();
    unchanged.take_up(&seal);
    let before = fixture.calls();
    assert!(!unchanged.snapshot(3).unwrap().changed);
    assert_eq!(fixture.calls() - before, 1);
}

#[test]
fn an_index_that_was_written_to_after_it_was_sealed_is_made_anew() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    workspace.snapshot(1).unwrap();
    let seal = workspace.seal().expect("a seal");
    // The agent hides a file from git, where snapshots are taken from.
    let shadow = fixture.path("../home/shadow/abcdefghjk");
    let (shadow, tree) =
        (format!("--git-dir={}", shadow.display()), format!("--work-tree={}", fixture.repo().display()));
    fixture.user(&[&shadow, &tree, "update-index", "--assume-unchanged", "dir/b"]);
    fixture.write("dir/b", "hidden\n");
    let mut next = fixture.open().unwrap();
    next.take_up(&seal);
    assert_eq!(next.seal(), None, "the seal is broken");
    let found = next.snapshot(2).unwrap();
    assert_eq!(next.changes(&start.id, &found.id).unwrap().len(), 2);
}

#[test]
fn a_ref_that_the_agent_moved_is_put_back() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    fixture.user(&["pack-refs", "--all"]);
    fixture.write("a", "x\n");
    let first = workspace.snapshot(1).unwrap();
    assert_eq!(workspace.take_warnings(), [], "packed is not moved");
    fixture.user(&["update-ref", "-d", "refs/dacapo/abcdefghjk"]);
    fixture.write("a", "y\n");
    workspace.snapshot(2).unwrap();
    assert_eq!(workspace.take_warnings(), [Warning::ReferenceMoved { is_lost: false }]);
    let log = fixture.user(&["log", "--format=%H", "refs/dacapo/abcdefghjk"]);
    assert!(log.contains(&first.id) && log.contains(&start.id));
}

#[test]
fn state_inside_the_work_tree_is_no_part_of_it() {
    let mut fixture = Fixture::new();
    fixture.home = Home::at(fixture.path("dir/state of it"));
    let (mut workspace, start) = fixture.begun();
    assert!(!fixture.user(&["ls-tree", "-r", &start.id]).contains("state"));
    fixture.write("dir/state of it/x", "x");
    assert!(!workspace.snapshot(1).unwrap().changed);
}

#[test]
fn the_user_may_look_and_commit_meanwhile() {
    // fault H3
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            for n in 0..20 {
                fixture.user(&["status", "--short"]);
                fixture.user(&["commit", "-q", "--allow-empty", "-m", &n.to_string()]);
            }
        });
        for n in 1..20 {
            fixture.write("a", &n.to_string());
            assert!(workspace.snapshot(n).unwrap().changed);
        }
        user.join().unwrap();
    });
    assert!(!fixture.path(".git/index.lock").exists());
}

#[test]
fn five_thousand_files_are_quick() {
    // fault H14
    let fixture = Fixture::new();
    for n in 0..5_000 {
        let name = format!("many/{}/{n}", n % 50);
        fixture.write(&name, &n.to_string());
        // Files as young as the index would be read again each time.
        let past = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        fs::File::open(fixture.path(&name)).unwrap().set_modified(past).unwrap();
    }
    fixture.user(&["add", "-A"]);
    fixture.user(&["commit", "-qm", "many"]);
    let began = Instant::now();
    let (mut workspace, _) = fixture.begun();
    let first = began.elapsed();
    workspace.snapshot(1).unwrap();
    let time = |work: &mut dyn FnMut()| {
        (0..5)
            .map(|_| {
                let began = Instant::now();
                work();
                began.elapsed()
            })
            .min()
            .unwrap()
    };
    let unchanged = time(&mut || assert!(!workspace.snapshot(1).unwrap().changed));
    let status = time(&mut || drop(fixture.user(&["status", "--short"])));
    let mut n = 0;
    let changed = time(&mut || {
        n += 1;
        fixture.write("a", &n.to_string());
        assert!(workspace.snapshot(n).unwrap().changed);
    });
    println!("begin {first:?}, unchanged {unchanged:?}, one changed {changed:?}, git status {status:?}");
    assert!(unchanged < std::time::Duration::from_secs(5));
}
