//! Looking back: what differs, what is disturbed, what was committed.

use super::*;

#[test]
fn changes_name_what_became_of_each_path() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    fixture.write("new", "n\n");
    fs::remove_file(fixture.path("dir/b")).unwrap();
    fs::remove_file(fixture.path("link")).unwrap();
    fixture.write("link", "a file now\n");
    let next = workspace.snapshot(1).unwrap();
    let expected = [
        (ChangeKind::Modified, "a"),
        (ChangeKind::Deleted, "dir/b"),
        (ChangeKind::TypeChanged, "link"),
        (ChangeKind::Added, "new"),
    ];
    let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
    assert_eq!(told(&workspace.changes(&start.id, &next.id).unwrap()), expected);
    assert_eq!(workspace.changes(&start.id, &start.id).unwrap(), []);
    assert_ne!(workspace.tree_of(&start.id).unwrap(), workspace.tree_of(&next.id).unwrap());
    assert!(matches!(workspace.tree_of("nothing"), Err(WorkspaceError::NoSnapshot(_))));
    assert!(matches!(workspace.tree_of("--help"), Err(WorkspaceError::NoSnapshot(_))));
}

#[test]
fn disturbed_are_files_of_the_snapshot_that_differ_now() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    let disturbed = |workspace: &Workspace, id: &str| names(&workspace.disturbed_since(id).unwrap());
    fixture.write("new", "n\n");
    fixture.write("a", "one\n"); // written again, the same
    assert_eq!(disturbed(&workspace, &start.id), Vec::<String>::new());
    let next = workspace.snapshot(1).unwrap();
    fixture.write("a", "x\n");
    fs::remove_file(fixture.path("new")).unwrap();
    fs::set_permissions(fixture.path("run"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(disturbed(&workspace, &next.id), ["a", "new", "run"]);
    assert_eq!(disturbed(&workspace, &start.id), ["a", "run"], "an older one");
    fixture.write("a", "one\n");
    assert_eq!(disturbed(&workspace, &start.id), ["run"]);
}

#[test]
fn commits_of_the_agent_are_listed_oldest_first() {
    let fixture = Fixture::new();
    let (workspace, _) = fixture.begun();
    let base = workspace.head().unwrap().unwrap();
    assert_eq!(workspace.commits_between(Some(&base), &base).unwrap(), Vec::<String>::new());
    for n in ["1", "2"] {
        fixture.user(&["commit", "-q", "--allow-empty", "-m", n]);
    }
    let head = workspace.head().unwrap().unwrap();
    let commits = workspace.commits_between(Some(&base), &head).unwrap();
    assert_eq!(commits.len(), 2);
    assert_eq!(commits[1], head);
    assert_eq!(workspace.commits_between(None, &head).unwrap().len(), 3);
}

#[test]
fn files_and_commits_are_looked_at_together() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    let base = workspace.head().unwrap();
    let looked = |workspace: &Workspace, to: &str, paths: &[&[u8]], expected: usize| {
        let before = fixture.calls();
        let found = workspace.look_back([&start.id, to], paths, base.as_deref()).unwrap();
        assert_eq!(fixture.calls() - before, expected);
        found
    };
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let head = || fixture.user(&["rev-parse", "HEAD"]).trim().to_owned();
    let nothing = ([vec![], vec![]], vec![]);
    assert_eq!(looked(&workspace, &start.id, &[], 0), nothing);

    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap().id;
    let contents = [vec![text("one\n"), None], vec![text("x\n"), None]];
    assert_eq!(looked(&workspace, &next, &[b"a", b"none"], 1), (contents.clone(), vec![]));

    let mut commits = Vec::new();
    for _ in 0..2 {
        fixture.user(&["commit", "-q", "--allow-empty", "-am", "of the agent's"]);
        commits.push(head());
    }
    assert_eq!(looked(&workspace, &next, &[b"a", b"none"], 1), (contents.clone(), commits.clone()));
    assert_eq!(looked(&workspace, &next, &[], 1), ([vec![], vec![]], commits.clone()));
    fixture.user(&["pack-refs", "--all"]);
    assert_eq!(looked(&workspace, &next, &[b"a", b"none"], 1), (contents.clone(), commits.clone()));
    fixture.user(&["checkout", "-q", "--detach"]);
    assert_eq!(looked(&workspace, &next, &[b"a", b"none"], 1), (contents.clone(), commits.clone()));

    // No line that leads to the base: git walks.
    fixture.user(&["commit", "-q", "--amend", "--allow-empty", "-m", "again"]);
    commits[1] = head();
    fixture.user(&["merge", "-q", "--no-ff", "-m", "merged", "main"]);
    let merged = looked(&workspace, &next, &[b"a", b"none"], 2);
    assert_eq!(merged.0, contents);
    assert_eq!((merged.1.len(), merged.1.last()), (4, Some(&head())));
    for n in 0..20 {
        fixture.user(&["commit", "-q", "--allow-empty", "-m", &n.to_string()]);
    }
    assert_eq!(looked(&workspace, &next, &[b"a", b"none"], 2).1.len(), 24);
    fs::write(fixture.path(".git/HEAD"), format!("{}\n", "1".repeat(40))).unwrap();
    for paths in [&[][..], &[&b"a"[..]]] {
        let nowhere = workspace.look_back([&start.id, &next], paths, base.as_deref());
        assert!(matches!(nowhere, Err(WorkspaceError::Refused { .. })), "{nowhere:?}");
    }
    fixture.user(&["checkout", "-q", "--force", "main"]);
    fixture.user(&["reset", "-q", "--hard", base.as_deref().unwrap()]);
    assert_eq!(looked(&workspace, &next, &[b"a", b"none"], 1), (contents, vec![]));
}

#[test]
fn commits_on_a_branch_that_was_unborn_go_down_to_the_first() {
    let fixture = Fixture::empty();
    fixture.user(&["init", "-q"]);
    fixture.write("a.py", "x\n");
    let (mut workspace, start) = fixture.begun();
    let look =
        |workspace: &Workspace, to: &str| workspace.look_back([&start.id, to], &[b"a.py"], None).unwrap();
    let before = fixture.calls();
    assert_eq!(look(&workspace, &start.id).1, Vec::<String>::new());
    assert_eq!(fixture.calls() - before, 1);
    // A branch that is there and holds no commit is not unborn: git says what is wrong.
    fixture.write(".git/refs/heads/main", "damaged\n");
    assert!(workspace.look_back([&start.id, &start.id], &[], None).is_err());
    fs::remove_file(fixture.path(".git/refs/heads/main")).unwrap();
    fixture.user(&["add", "-A"]);
    for _ in 0..2 {
        fixture.user(&["commit", "-q", "--allow-empty", "-m", "x"]);
    }
    let next = workspace.snapshot(1).unwrap().id;
    let commits = fixture.user(&["rev-list", "--reverse", "HEAD"]);
    assert_eq!(look(&workspace, &next).1, commits.lines().collect::<Vec<_>>());
}

#[test]
fn snapshots_are_listed_forgotten_and_pruned_with_their_shadows() {
    let fixture = Fixture::new();
    let (workspace, start) = fixture.begun();
    let other: LoopId = "other".parse().unwrap();
    let mut second = Workspace::open_with(&fixture.git(), &fixture.repo(), &fixture.home, &other).unwrap();
    second.begin().unwrap();
    fixture.write("a", "x\n");
    second.restore(&start.id, 1).unwrap();
    let refs = workspace.refs().unwrap();
    let listed: Vec<&str> = refs.iter().map(SnapshotRef::loop_name).collect();
    assert_eq!(listed, ["abcdefghjk", "other", "other"]);
    assert_eq!(workspace.prune(Timestamp::UNIX_EPOCH).unwrap(), []);
    let soon = Timestamp::now() + jiff::SignedDuration::from_hours(1);
    assert_eq!(workspace.prune(soon).unwrap().len(), 2, "all but its own");
    assert!(!fixture.outside("home/shadow/other").exists());
    assert_eq!(workspace.refs().unwrap().len(), 1);
    workspace.forget().unwrap();
    assert_eq!(fixture.user(&["for-each-ref", "refs/dacapo"]), "");
    assert!(!fixture.outside("home/shadow/abcdefghjk").exists());
}

#[test]
fn one_dacapo_at_a_time_changes_a_repository() {
    // fault H1
    let fixture = Fixture::new();
    let workspace = fixture.open().unwrap();
    let held = workspace.lock().unwrap();
    let checkout = &workspace.git("lock").unwrap().checkout;
    let now = std::time::Duration::ZERO;
    let taken = RepositoryLock::take(&fixture.home, checkout, now);
    assert!(matches!(taken, Err(WorkspaceError::Locked(_))));
    drop(held);
    RepositoryLock::take(&fixture.home, checkout, now).unwrap();
}

#[test]
fn a_branch_is_read_from_its_file_or_the_packed_ones_and_never_from_another() {
    let fixture = Fixture::new();
    let repo = fixture.opened();
    let head = fixture.user(&["rev-parse", "HEAD"]).trim().to_owned();
    fixture.user(&["branch", "a/b"]);
    fixture.user(&["update-ref", "ORIG_HEAD", "HEAD"]);
    fixture.user(&["symbolic-ref", "refs/heads/link", "refs/heads/a/b"]);
    for packed in [false, true] {
        for (name, expected) in
            [("a/b", Some(&head)), ("link", Some(&head)), ("a", None), ("c", None), ("../../ORIG_HEAD", None)]
        {
            assert_eq!(repo.branch(name).unwrap().as_ref(), expected, "{name}, packed: {packed}");
        }
        fixture.user(&["pack-refs", "--all"]);
    }
}
