//! fault H9: every state a repository may be in is either handled or refused, with a reason and a hint.

use super::*;

#[test]
fn a_bare_repository_is_refused() {
    let fixture = Fixture::empty();
    fixture.user(&["init", "-q", "--bare"]);
    assert_eq!(fixture.problem(), RepositoryProblem::Bare);
}

#[test]
fn the_inside_of_git_is_refused() {
    let fixture = Fixture::new();
    assert_eq!(fixture.refusal_at(&fixture.path(".git")), RepositoryProblem::InsideGitDir);
    assert_eq!(fixture.refusal_at(&fixture.path(".git/objects")), RepositoryProblem::InsideGitDir);
}

fn conflicting() -> Fixture {
    let fixture = Fixture::new();
    fixture.user(&["checkout", "-qb", "side"]);
    fixture.write("a", "side\n");
    fixture.user(&["commit", "-qam", "side"]);
    fixture.user(&["checkout", "-q", "main"]);
    fixture.write("a", "main\n");
    fixture.user(&["commit", "-qam", "main"]);
    fixture
}

#[test]
fn an_operation_midway_is_refused() {
    for (args, expected) in [
        (&["merge", "side"][..], "merge"),
        (&["rebase", "side"], "rebase"),
        (&["rebase", "--apply", "side"], "rebase"),
        (&["cherry-pick", "side"], "cherry-pick"),
        (&["revert", "HEAD~1"], "revert"),
        (&["bisect", "start"], "bisect"),
    ] {
        let fixture = conflicting();
        if expected == "revert" {
            fixture.user(&["checkout", "-q", "side"]);
            fixture.write("a", "more\n");
            fixture.user(&["commit", "-qam", "more"]);
        }
        fixture.user_may_fail(args);
        assert_eq!(fixture.problem(), RepositoryProblem::Midway(expected), "{args:?}");
    }
}

#[test]
fn a_loop_that_began_goes_on_although_the_agent_left_a_merge() {
    let fixture = conflicting();
    let (_, start) = fixture.begun();
    fixture.user_may_fail(&["merge", "side"]);
    let mut again = fixture.open().unwrap();
    assert_eq!(again.begin().unwrap(), Snapshot { changed: false, ..start });
    assert!(again.snapshot(1).unwrap().changed);
}

#[test]
fn a_locked_index_is_refused() {
    let fixture = Fixture::new();
    fixture.write(".git/index.lock", "");
    assert_eq!(fixture.problem(), RepositoryProblem::IndexLocked(fixture.path(".git/index.lock")));
}

#[test]
fn a_corrupt_head_is_refused() {
    for (name, text) in [
        ("HEAD", "garbage"),
        ("HEAD", "ref: refs/heads/a..b\n"),
        ("refs/heads/main", "garbage\n"),
        ("refs/heads/main", "1234567890123456789012345678901234567890\n"),
    ] {
        let fixture = Fixture::new();
        fixture.write(&format!(".git/{name}"), text);
        assert!(
            matches!(fixture.problem(), RepositoryProblem::CorruptHead(_)),
            "{name} {text}: {:?}",
            fixture.problem()
        );
    }
}

#[test]
fn a_damaged_repository_is_no_plain_folder() {
    // fault H6
    let fixture = Fixture::new();
    fs::remove_file(fixture.path(".git/HEAD")).unwrap();
    assert!(matches!(fixture.refusal_at(&fixture.path("dir")), RepositoryProblem::Corrupt { .. }));
    let fixture = Fixture::new();
    fixture.write(".git/config", "[core\n");
    assert!(matches!(fixture.open(), Err(WorkspaceError::Git(_))));
    let fixture = Fixture::empty();
    fixture.write(".git", "gitdir: /nowhere\n");
    assert!(matches!(fixture.problem(), RepositoryProblem::Corrupt { .. }));
}

#[test]
fn somebody_elses_repository_is_refused() {
    let fixture = Fixture::new();
    // git has this variable for its own tests of the same. At the top of a repository the owners of its folders are looked at
    // without git, and no test can change them.
    let git = fixture.git().with("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    match Workspace::open_with(&git, &fixture.path("dir"), &fixture.home, &loop_id()) {
        Err(error @ WorkspaceError::Refused { state: RepositoryProblem::ForeignOwner, .. }) => {
            assert!(error.hint().unwrap().contains("safe.directory"));
        }
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn an_unborn_branch_is_handled() {
    let fixture = Fixture::empty();
    fixture.user(&["init", "-q"]);
    fixture.write("a", "one\n");
    let (mut workspace, start) = fixture.begun();
    assert_eq!(workspace.head().unwrap(), None);
    fixture.write("b", "two\n");
    let next = workspace.snapshot(1).unwrap();
    let changes = workspace.changes(&start.id, &next.id).unwrap();
    assert_eq!(told(&changes), [(ChangeKind::Added, "b".to_owned())]);
    assert!(fixture.user(&["status", "--short"]).contains("?? a"));
}

#[test]
fn a_detached_head_is_handled() {
    let fixture = Fixture::new();
    fixture.user(&["checkout", "-q", "--detach"]);
    let before = fixture.own_state();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    assert!(workspace.snapshot(1).unwrap().changed);
    assert_eq!(fixture.own_state(), before);
}

#[test]
fn the_snapshot_covers_the_repository_above() {
    let fixture = Fixture::new();
    let mut workspace = fixture.open_at(&fixture.path("dir")).unwrap();
    assert_eq!(workspace.root(), fixture.repo());
    let start = workspace.begin().unwrap();
    assert_eq!(workspace.file_at(&start.id, b"a").unwrap().unwrap(), b"one\n");
}

#[test]
fn a_submodule_is_a_commit_id_and_its_changes_are_warned_of() {
    // fault H7
    let fixture = Fixture::new();
    let library = fixture.outside("library");
    fs::create_dir(&library).unwrap();
    fixture.user_in(&library, &["init", "-q"]);
    fs::write(library.join("l"), "l\n").unwrap();
    fixture.user_in(&library, &["add", "-A"]);
    fixture.user_in(&library, &["commit", "-qm", "l"]);
    fixture.user(&["submodule", "add", "-q", library.to_str().unwrap(), "sub"]);
    fixture.user(&["commit", "-qm", "sub"]);
    fixture.write("sub/l", "changed\n");
    let (mut workspace, _) = fixture.begun();
    assert_eq!(workspace.take_warnings(), [Warning::DirtySubmodule(b"sub".to_vec())]);
    assert!(!workspace.snapshot(1).unwrap().changed);
    fixture
        .user_in(&fixture.path("sub"), &["-c", "user.name=a", "-c", "user.email=b", "commit", "-qam", "x"]);
    assert!(workspace.snapshot(2).unwrap().changed, "another commit of the submodule");
}

#[test]
fn a_shallow_clone_is_handled() {
    let fixture = Fixture::new();
    fixture.write("a", "x\n");
    fixture.user(&["commit", "-qam", "second"]);
    let clone = fixture.outside("clone");
    let from = format!("file://{}", fixture.repo().display());
    fixture.user(&["clone", "-q", "--depth=1", &from, clone.to_str().unwrap()]);
    let mut workspace = fixture.open_at(&clone).unwrap();
    workspace.begin().unwrap();
    fs::write(clone.join("n"), "n").unwrap();
    assert!(workspace.snapshot(1).unwrap().changed);
}

#[test]
fn a_sparse_checkout_keeps_what_is_not_checked_out() {
    let fixture = Fixture::new();
    fixture.write("other/c", "c\n");
    fixture.user(&["add", "-A"]);
    fixture.user(&["commit", "-qm", "c"]);
    fixture.user(&["sparse-checkout", "set", "dir"]);
    assert_eq!(fixture.read("other/c"), None);
    let before = fixture.own_state();
    let (mut workspace, start) = fixture.begun();
    assert_eq!(workspace.file_at(&start.id, b"other/c").unwrap().unwrap(), b"c\n");
    assert!(!workspace.snapshot(1).unwrap().changed);
    assert_eq!(workspace.disturbed_since(&start.id).unwrap(), Vec::<Vec<u8>>::new());
    fixture.write("dir/b", "x\n");
    let next = workspace.snapshot(2).unwrap();
    assert_eq!(told(&workspace.changes(&start.id, &next.id).unwrap()).len(), 1);
    workspace.restore(&start.id, 3).unwrap();
    assert_eq!(fixture.read("dir/b").unwrap(), "two\n");
    assert_eq!(fixture.read("other/c"), None);
    assert_eq!(fixture.own_state(), before);
}

#[test]
fn a_linked_worktree_is_handled() {
    let fixture = Fixture::new();
    let tree = fixture.outside("tree");
    fixture.user(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    let mut workspace = fixture.open_at(&tree).unwrap();
    assert_eq!(workspace.root(), tree);
    let start = workspace.begin().unwrap();
    fs::write(tree.join("a"), "x\n").unwrap();
    let next = workspace.snapshot(1).unwrap();
    assert_eq!(
        told(&workspace.changes(&start.id, &next.id).unwrap()),
        [(ChangeKind::Modified, "a".to_owned())]
    );
    assert_eq!(fixture.read("a").unwrap(), "one\n", "the main work tree");
    fixture.write(".git/worktrees/tree/MERGE_HEAD", "x");
    drop(workspace);
    fs::remove_dir_all(fixture.home.path().join("shadow")).unwrap();
    assert_eq!(fixture.refusal_at(&tree), RepositoryProblem::Midway("merge"));
    fixture.open().unwrap();
}

#[test]
fn other_formats_of_refs_objects_and_index_are_handled() {
    for args in [
        &["init", "-q", "--object-format=sha256"][..],
        &["init", "-q", "--ref-format=reftable"],
        &["-c", "core.splitIndex=true", "init", "-q"],
    ] {
        let fixture = Fixture::empty();
        fixture.user(args);
        if args[0] == "-c" {
            fixture.user(&["config", "core.splitIndex", "true"]);
        }
        fixture.write("a", "one\n");
        fixture.user(&["add", "-A"]);
        fixture.user(&["commit", "-qm", "first"]);
        let (mut workspace, start) = fixture.begun();
        fixture.write("a", "x\n");
        let next = workspace.snapshot(1).unwrap();
        assert!(next.changed && next.id != start.id, "{args:?}");
        assert!(!workspace.snapshot(2).unwrap().changed, "{args:?}");
        assert_eq!(workspace.changes(&start.id, &next.id).unwrap().len(), 1, "{args:?}");
        assert_eq!(fixture.user(&["status", "--short"]), " M a\n");
    }
}

#[test]
fn a_filter_of_the_users_runs_both_ways() {
    let fixture = Fixture::new();
    fixture.user(&["config", "filter.up.clean", "tr a-z A-Z"]);
    fixture.user(&["config", "filter.up.smudge", "tr A-Z a-z"]);
    fixture.write(".gitattributes", "*.up filter=up\n");
    fixture.write("f.up", "word\n");
    let (workspace, start) = fixture.begun();
    assert_eq!(workspace.file_at(&start.id, b"f.up").unwrap().unwrap(), b"WORD\n");
    assert_eq!(workspace.disturbed_since(&start.id).unwrap(), Vec::<Vec<u8>>::new());
    let copy = fixture.outside("copy");
    workspace.checkout(&start.id, &copy).unwrap();
    assert_eq!(fs::read(copy.join("f.up")).unwrap(), b"word\n");
}

#[test]
fn names_that_differ_in_case_only_are_two_files() {
    let fixture = Fixture::new();
    fixture.write("A", "big\n");
    let (workspace, start) = fixture.begun();
    let files = workspace.files_at(&start.id, &[b"a", b"A"]).unwrap();
    assert_eq!(files, [Some(b"one\n".to_vec()), Some(b"big\n".to_vec())]);
}

#[test]
fn a_later_loop_of_the_process_takes_the_same_snapshot_and_sees_whatever_has_changed_since() {
    let fixture = Fixture::new();
    let begin = |name: &str| {
        let id = name.parse().unwrap();
        let mut workspace =
            Workspace::open_with(&fixture.git(), &fixture.repo(), &fixture.home, &id).unwrap();
        let start = workspace.begin().unwrap();
        (workspace, start.id)
    };
    let (first, same) = begin("aaaaaaaaaa");
    let tree = first.tree_of(&same).unwrap();
    let (mut second, again) = begin("bbbbbbbbbb");
    assert_eq!(again, same);
    assert_eq!(fixture.user(&["rev-parse", "refs/dacapo/bbbbbbbbbb"]).trim(), same);
    // It is as good as one of its own.
    fixture.write("a", "changed\n");
    let next = second.snapshot(1).unwrap();
    assert!(next.changed && second.holds_snapshots());
    assert_eq!(fixture.user(&["rev-parse", &format!("{}^", next.id)]).trim(), same);

    let (third, other) = begin("cccccccccc");
    assert_ne!(third.tree_of(&other).unwrap(), tree, "a file has changed");
    fixture.user(&["add", "a"]);
    let (fourth, _) = begin("dddddddddd");
    assert!(fourth.had_staged_changes(), "the index has");
    fixture.user(&["commit", "-qm", "x"]);
    let (fifth, _) = begin("eeeeeeeeee");
    assert!(!fifth.had_staged_changes());
    let head = fixture.user(&["rev-parse", "HEAD", "HEAD^{tree}"]);
    let (commit, tree) = fifth.head_and_tree().unwrap().unwrap();
    assert_eq!(format!("{commit}\n{tree}\n"), head);
    // An agent that overwrites the object of a snapshot gets no loop to build on it.
    let (_, kept) = begin("ffffffffff");
    let object = fixture.path(&format!(".git/objects/{}/{}", &kept[..2], &kept[2..]));
    fs::remove_file(&object).unwrap();
    fs::write(&object, "x").unwrap();
    fixture.write("a", "once more\n");
    fixture.user(&["checkout", "-q", "a"]);
    assert!(begin_or_fail(&fixture, "gggggggggg").is_none_or(|id| id != kept));
}

fn begin_or_fail(fixture: &Fixture, name: &str) -> Option<String> {
    let id = name.parse().unwrap();
    let mut workspace = Workspace::open_with(&fixture.git(), &fixture.repo(), &fixture.home, &id).ok()?;
    workspace.begin().ok().map(|snapshot| snapshot.id)
}
