//! Accepted work becomes one commit, and nothing of the user's gets lost.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use super::*;

#[test]
fn work_is_committed_once_however_often_asked() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    fixture.write("new", "n\n");
    fs::remove_file(fixture.path("dir/b")).unwrap();
    let next = workspace.snapshot(1).unwrap();
    let CommitOutcome::Committed { commit, index_is_current: true, .. } =
        workspace.commit_tree(&next.id, "Do it\n\nBecause.", 3).unwrap()
    else {
        panic!()
    };
    assert_eq!(workspace.head().unwrap().unwrap(), commit);
    assert_eq!(fixture.user(&["status", "--porcelain"]), "");
    assert_eq!(fixture.user(&["symbolic-ref", "HEAD"]), "refs/heads/main\n");
    let shown = fixture.user(&["log", "-1", "--format=%an|%s|%(trailers:key=Dacapo,valueonly)"]);
    assert_eq!(shown.trim(), "User|Do it|abcdefghjk/3");
    let again = workspace.commit_tree(&next.id, "Do it", 3).unwrap();
    assert_eq!(again, CommitOutcome::AlreadyCommitted { commit });
    fixture.user(&["commit", "-q", "--allow-empty", "-m", "of the user's"]);
    assert!(matches!(workspace.commit_tree(&next.id, "x", 3), Ok(CommitOutcome::AlreadyCommitted { .. })));
    assert_eq!(workspace.commit_tree(&next.id, "Do it", 4).unwrap(), CommitOutcome::NothingToCommit);
    assert_eq!(fixture.user(&["rev-list", "--count", "HEAD"]), "3\n");
}

#[test]
fn a_mark_on_other_files_is_a_forgery_and_the_kept_ones_are_committed() {
    // fault A12, fault G7
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "half\n");
    fixture.user(&["commit", "-qam", "x\n\nDacapo: abcdefghjk/1"]);
    fixture.write("a", "whole\n");
    let next = workspace.snapshot(1).unwrap();
    let outcome = workspace.commit_tree(&next.id, "Do it", 1).unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{outcome:?}");
    assert_eq!(fixture.user(&["show", "HEAD:a"]), "whole\n");
    assert!(matches!(
        workspace.commit_tree(&next.id, "Do it", 1).unwrap(),
        CommitOutcome::AlreadyCommitted { .. }
    ));
}

#[test]
fn a_commit_takes_four_processes() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    let before = fixture.calls();
    workspace.commit_tree(&next.id, "Do it", 1).unwrap();
    assert_eq!(fixture.calls() - before, 4);
    assert_eq!(fixture.user(&["status", "--porcelain"]), "");
    // Now the branch has moved, maybe by ours: it has to be looked through.
    fixture.write("a", "y\n");
    let next = workspace.snapshot(2).unwrap();
    let before = fixture.calls();
    workspace.commit_tree(&next.id, "Do more", 2).unwrap();
    assert_eq!(fixture.calls() - before, 5);
}

#[test]
fn head_and_its_tree_are_what_git_says_with_and_without_a_process() {
    let fixture = Fixture::new();
    let asked = |of: &str| fixture.user(&["rev-parse", of]).trim().to_owned();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    let expected = |commit: &str| Some((asked(commit), asked(&format!("{commit}^{{tree}}"))));
    let before = fixture.calls();
    assert_eq!(workspace.head_and_tree().unwrap(), expected("HEAD"), "as the loop began");
    assert_eq!(fixture.calls(), before, "known");
    workspace.commit_tree(&next.id, "Do it", 1).unwrap();
    assert_eq!(workspace.head_and_tree().unwrap(), expected("HEAD"), "a commit of ours");
    fixture.write("a", "y\n");
    fixture.user(&["commit", "-qam", "by hand"]);
    assert_eq!(workspace.head_and_tree().unwrap(), expected("HEAD"), "a commit of the user's");
    fixture.user(&["checkout", "-q", "--orphan", "unborn"]);
    assert_eq!(workspace.head_and_tree().unwrap(), None);
}

#[test]
fn an_index_left_behind_by_a_crash_follows_when_asked_again() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    let index = fs::read(fixture.path(".git/index")).unwrap();
    workspace.commit_tree(&next.id, "Do it", 1).unwrap();
    fs::write(fixture.path(".git/index"), index).unwrap();
    assert_ne!(fixture.user(&["status", "--porcelain"]), "");
    workspace.commit_tree(&next.id, "Do it", 1).unwrap();
    assert_eq!(fixture.user(&["status", "--porcelain"]), "");
}

#[test]
fn staged_work_of_the_users_is_a_reason_not_to_commit() {
    let fixture = Fixture::new();
    fixture.write("a", "staged\n");
    fixture.user(&["add", "a"]);
    let (mut workspace, _) = fixture.begun();
    fixture.write("dir/b", "x\n");
    let next = workspace.snapshot(1).unwrap();
    let before = fixture.own_state();
    let error = workspace.commit_tree(&next.id, "x", 1).unwrap_err();
    assert!(matches!(error, WorkspaceError::Staged { .. }) && error.hint().is_some());
    assert_eq!(fixture.own_state(), before);
}

#[test]
fn unborn_and_detached_heads_are_committed_on() {
    let fixture = Fixture::empty();
    fixture.user(&["init", "-q"]);
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    assert!(matches!(workspace.commit_tree(&next.id, "x", 1), Ok(CommitOutcome::Committed { .. })));
    assert_eq!(fixture.user(&["status", "--porcelain"]), "");
    fixture.user(&["checkout", "-q", "--detach"]);
    fixture.write("a", "y\n");
    let next = workspace.snapshot(2).unwrap();
    assert!(matches!(workspace.commit_tree(&next.id, "y", 2), Ok(CommitOutcome::Committed { .. })));
    assert_eq!(fixture.user(&["rev-list", "--count", "main"]), "1\n");
    assert_eq!(fixture.user(&["rev-list", "--count", "HEAD"]), "2\n");
}

#[test]
fn a_branch_that_moves_meanwhile_is_left_where_it_is() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    // A person commits just before dacapo moves the branch.
    let wrapper = fixture.outside("bin/git");
    let script = fs::read_to_string(&wrapper).unwrap();
    let race = "case \"$*\" in *'update-ref -m'*) git commit -q --allow-empty -m theirs ;; esac\nexec ";
    fs::write(&wrapper, script.replacen("exec ", race, 1)).unwrap();
    let error = workspace.commit_tree(&next.id, "ours", 1).unwrap_err();
    assert!(matches!(error, WorkspaceError::HeadMoved { .. }) && error.hint().is_some(), "{error}");
    assert_eq!(fixture.user(&["log", "-1", "--format=%s"]), "theirs\n");
    assert_eq!(fixture.user(&["status", "--porcelain"]), " M a\n");
    fs::write(&wrapper, script).unwrap();
    assert!(matches!(workspace.commit_tree(&next.id, "ours", 1), Ok(CommitOutcome::Committed { .. })));
}

#[test]
fn an_index_that_somebody_holds_is_said_to_be_behind() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    let wrapper = fixture.outside("bin/git");
    let script = fs::read_to_string(&wrapper).unwrap();
    let hold = format!(
        "case \"$*\" in *'update-ref -m'*) touch '{}' ;; esac\nexec ",
        fixture.path(".git/index.lock").display()
    );
    fs::write(&wrapper, script.replacen("exec ", &hold, 1)).unwrap();
    let outcome = workspace.commit_tree(&next.id, "x", 1).unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed { index_is_current: false, .. }), "{outcome:?}");
    assert!(fixture.path(".git/index.lock").exists(), "not ours to remove");
    fs::remove_file(fixture.path(".git/index.lock")).unwrap();
    workspace.commit_tree(&next.id, "x", 1).unwrap();
    assert_eq!(fixture.user(&["status", "--porcelain"]), "");
}

#[test]
fn locks_on_refs_that_a_killed_git_left_do_not_keep_a_commit_back() {
    // fault H4
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    let branch = fixture.user(&["symbolic-ref", "HEAD"]).trim().to_owned();
    for (at, lock) in [".git/HEAD.lock".to_owned(), format!(".git/{branch}.lock")].iter().enumerate() {
        fixture.write("a", &format!("{at}\n"));
        let next = workspace.snapshot(at as u64 + 1).unwrap();
        fixture.write(lock, "");
        let outcome = workspace.commit_tree(&next.id, "x", at as u64 + 1).unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed { .. }), "{lock}: {outcome:?}");
        assert!(!fixture.path(lock).exists(), "{lock}");
    }
}

#[test]
fn nobody_commits_without_a_name() {
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    fs::write(fixture.outside("gitconfig"), "[user]\n useConfigOnly = true\n").unwrap();
    let error = workspace.commit_tree(&next.id, "x", 1).unwrap_err();
    assert!(matches!(error, WorkspaceError::NoIdentity { .. }), "{error:?}");
}

#[test]
fn a_lock_is_removed_only_if_the_iteration_left_it() {
    // fault H4
    let fixture = Fixture::new();
    let (workspace, _) = fixture.begun();
    let began = SystemTime::now() - Duration::from_secs(60);
    assert_eq!(workspace.remove_left_locks(began), Vec::<PathBuf>::new());
    let branch = format!(".git/{}.lock", fixture.user(&["symbolic-ref", "HEAD"]).trim());
    for name in [".git/index.lock", ".git/HEAD.lock", &branch] {
        let lock = fixture.path(name);
        let held = fs::File::create(&lock).unwrap();
        assert_eq!(workspace.remove_left_locks(began), Vec::<PathBuf>::new(), "a process has {name} open");
        drop(held);
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(
            workspace.remove_left_locks(later),
            Vec::<PathBuf>::new(),
            "{name} is older than the loop"
        );
        assert_eq!(workspace.remove_left_locks(began), std::slice::from_ref(&lock));
        assert!(!lock.exists(), "{name}");
    }
}

#[test]
fn a_lock_of_a_git_that_works_in_the_same_files_stays() {
    // fault H4
    let fixture = Fixture::new();
    let (workspace, _) = fixture.begun();
    let began = SystemTime::now() - Duration::from_secs(60);
    let lock = fixture.path(".git/index.lock");
    fs::write(&lock, "").unwrap();
    // It waits for its input, as one with an editor does.
    let mut working = Command::new("git");
    working.args(["hash-object", "--stdin"]).current_dir(fixture.repo());
    let mut working = working.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let name = format!("/proc/{}/comm", working.id());
    while !fs::read_to_string(&name).unwrap().starts_with("git") {
        std::thread::yield_now();
    }
    assert_eq!(workspace.remove_left_locks(began), Vec::<PathBuf>::new());
    drop(working.stdin.take());
    working.wait().unwrap();
    assert_eq!(workspace.remove_left_locks(began), [lock]);
}

#[test]
fn what_an_agent_committed_below_an_ignored_path_is_named_as_left_out() {
    let fixture = Fixture::new();
    fixture.write(".gitignore", "build/\n");
    fixture.user(&["add", "-A"]);
    fixture.user(&["commit", "-qm", "rules"]);
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "changed\n");
    fixture.write("build/out", "x\n");
    fixture.user(&["add", "-f", "a", "build/out"]);
    fixture.user(&["commit", "-qm", "by the agent"]);
    let next = workspace.snapshot(1).unwrap();
    let CommitOutcome::Committed { left_out, .. } = workspace.commit_tree(&next.id, "x", 1).unwrap() else {
        panic!("nothing was committed")
    };
    assert_eq!(left_out, ["build/out"]);
    // A file that the agent has deleted again is not left out: it is gone.
    fixture.write("later", "x\n");
    fixture.user(&["add", "-f", "later"]);
    fixture.user(&["commit", "-qm", "by the agent"]);
    fs::remove_file(fixture.path("later")).unwrap();
    let next = workspace.snapshot(2).unwrap();
    let CommitOutcome::Committed { left_out, .. } = workspace.commit_tree(&next.id, "y", 2).unwrap() else {
        panic!("nothing was committed")
    };
    assert_eq!(left_out, Vec::<String>::new());
}
