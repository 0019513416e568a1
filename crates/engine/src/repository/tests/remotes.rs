//! A branch goes to a remote, and a pull request is asked for; git and ssh never ask the user (fault H15).

use super::*;

/// A bare remote `origin` with hooks that would tell of ours.
fn with_remote() -> (Fixture, PathBuf) {
    let fixture = Fixture::new();
    let bare = fixture.outside("remote.git");
    fixture.git_in(&fixture.outside("."), &["init", "-q", "--bare", "remote.git"]);
    fixture.user(&["remote", "add", "origin", bare.to_str().unwrap()]);
    fixture.user(&["push", "-q", "origin", "main"]);
    (fixture, bare)
}

/// A `gh` that notes how it was called, then does as told.
fn gh(fixture: &Fixture, then: &str) -> std::ffi::OsString {
    let path = fixture.outside("tools");
    fs::create_dir_all(&path).unwrap();
    let log = fixture.outside("gh.log");
    let text = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >'{0}'\ncat >>'{0}'\ngit status >/dev/null 2>&1\n{then}\n",
        log.display()
    );
    fs::write(path.join("gh"), text).unwrap();
    fs::set_permissions(path.join("gh"), fs::Permissions::from_mode(0o755)).unwrap();
    path.into_os_string()
}

#[test]
fn a_branch_is_pushed_under_its_own_name_without_a_hook() {
    // req 54
    let (fixture, bare) = with_remote();
    let repo = fixture.opened();
    let worktree = repo.worktree(&unit("u"), &project(), "main", None).unwrap();
    fs::write(worktree.path.join("x"), "x").unwrap();
    let commit = fixture.commit_in(&worktree.path, "work");
    fixture.write(".git/hooks/pre-push", "#!/bin/sh\nexit 1\n");
    fs::set_permissions(fixture.path(".git/hooks/pre-push"), fs::Permissions::from_mode(0o755)).unwrap();
    for _ in 0..2 {
        repo.push(&worktree.branch, &worktree.branch, "origin").unwrap();
        assert_eq!(fixture.git_in(&bare, &["rev-parse", &worktree.branch]), commit);
    }
    assert!(matches!(repo.push("gone", "gone", "origin"), Err(WorkspaceError::NoBranch(_))));
    assert!(repo.push(&worktree.branch, &worktree.branch, "nowhere").is_err());
    assert!(repo.push(&worktree.branch, &worktree.branch, "--all").is_err());
    // What others pushed there is not overwritten.
    let other = fixture.outside("other");
    fixture.git_in(&fixture.outside("."), &["clone", "-q", "-b", &worktree.branch, "remote.git", "other"]);
    fs::write(other.join("y"), "y").unwrap();
    let theirs = fixture.commit_in(&other, "theirs");
    fixture.git_in(&other, &["push", "-q"]);
    fs::write(worktree.path.join("z"), "z").unwrap();
    fixture.commit_in(&worktree.path, "more");
    assert!(repo.push(&worktree.branch, &worktree.branch, "origin").is_err());
    assert_eq!(fixture.git_in(&bare, &["rev-parse", &worktree.branch]), theirs);
}

#[test]
fn what_is_planted_for_a_push_does_not_run() {
    // fault K3
    let (fixture, bare) = with_remote();
    let canary = canary(&fixture);
    for key in
        ["remote.origin.receivepack", "core.sshCommand", "core.gitProxy", "credential.helper", "core.askPass"]
    {
        fixture.user(&["config", key, &canary]);
    }
    fixture.user(&["config", "protocol.ext.allow", "always"]);
    fixture.user(&["branch", "work"]);
    let repo = fixture.opened();
    repo.push("work", "work", "origin").unwrap();
    fixture.git_in(&bare, &["rev-parse", "work"]);
    // No server listens at these addresses; the test looks at the programs that git starts to reach them.
    let ext = format!("ext::{canary} x");
    for url in ["ssh://127.0.0.1:1/x", "git://127.0.0.1:1/x", "http://127.0.0.1:1/x", &ext] {
        fixture.user(&["config", "remote.origin.url", url]);
        assert!(repo.push("work", "work", "origin").is_err(), "{url}");
        assert!(!fixture.outside("CANARY").exists(), "{url}");
    }
}

#[test]
fn the_remote_is_the_targets_else_origin_else_the_only_one() {
    let fixture = Fixture::new();
    let remote = || fixture.opened().default_remote("main").unwrap();
    assert_eq!(remote(), None);
    fixture.user(&["remote", "add", "one", "/x"]);
    assert_eq!(remote().as_deref(), Some("one"));
    fixture.user(&["remote", "add", "two", "/y"]);
    assert_eq!(remote(), None);
    fixture.user(&["remote", "add", "origin", "/z"]);
    assert_eq!(remote().as_deref(), Some("origin"));
    for (own, expected) in [("two", "two"), (".", "origin"), ("gone", "origin")] {
        fixture.user(&["config", "branch.main.remote", own]);
        assert_eq!(remote().as_deref(), Some(expected));
    }
}

#[test]
fn a_pull_request_is_asked_for_with_gh() {
    // req 54
    let fixture = Fixture::new();
    let repo = fixture.opened();
    let asked = |then: &str| {
        let path = gh(&fixture, then);
        let mut path = path;
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        repo.open_pull_request_with(&path, "dacapo/u-1", "main", "A title", "The body,\n$(id)\n")
    };
    let opened = asked("echo Creating; echo https://host/o/r/pull/3").unwrap();
    assert_eq!(opened.url, "https://host/o/r/pull/3");
    let args = "pr\ncreate\n--base\nmain\n--head\ndacapo/u-1\n--title\nA title\n--body-file\n-\n";
    let told = fs::read_to_string(fixture.outside("gh.log")).unwrap();
    assert_eq!(told, format!("{args}The body,\n$(id)\n"));
    let known = "echo 'a pull request for branch \"x\" already exists:' >&2\necho https://host/o/r/pull/7 >&2\nexit 1";
    assert_eq!(asked(known).unwrap().url, "https://host/o/r/pull/7");
    let refused = asked("echo 'not signed in, see https://host/help' >&2\nexit 4").unwrap_err();
    assert_eq!(refused.to_string(), "`gh pr create` failed: not signed in, see https://host/help");
    assert!(matches!(asked("exit 0"), Err(PullRequestError::Failed(_))));
    // fault K3: the git that it calls runs nothing that was planted.
    let canary = canary(&fixture);
    fixture.user(&["config", "core.fsmonitor", &canary]);
    fixture.user(&["config", "filter.evil.clean", &canary]);
    fixture.write(".git/info/attributes", "* filter=evil\n");
    fixture.write("a", "changed\n");
    asked("echo https://host/o/r/pull/3").unwrap();
    assert!(!fixture.outside("CANARY").exists());
}

#[test]
fn without_gh_it_says_so() {
    let fixture = Fixture::new();
    let path = fixture.outside("bin").into_os_string();
    let missing = fixture.opened().open_pull_request_with(&path, "b", "main", "t", "b");
    assert!(matches!(missing, Err(PullRequestError::NoGh)));
}
