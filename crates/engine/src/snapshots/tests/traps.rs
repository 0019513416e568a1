//! fault K3: what a repository or an agent planted never runs, and git never waits for an answer of the user (fault H15).

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, time::Duration};

use super::*;

fn everything(fixture: &Fixture, workspace: &mut Workspace, start: &Snapshot) {
    let next = workspace.snapshot(1).unwrap();
    workspace.changes(&start.id, &next.id).unwrap();
    workspace.disturbed_since(&start.id).unwrap();
    workspace.file_at(&start.id, b"a").unwrap();
    workspace.checkout(&next.id, &fixture.outside("copy")).unwrap();
    workspace.commit_tree(&next.id, "work", 1).unwrap();
    workspace.restore(&start.id, 2).unwrap();
    let head = workspace.head().unwrap().unwrap();
    workspace.commits_between(None, &head).unwrap();
    workspace.refs().unwrap();
}

#[test]
fn what_the_repository_says_to_run_is_not_run() {
    let fixture = Fixture::new();
    let canary = canary(&fixture);
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "merge.evil.driver",
        "gpg.program",
        "trailer.dacapo.command",
        "trailer.dacapo.cmd",
        "credential.helper",
        "sequence.editor",
    ] {
        fixture.user(&["config", key, &canary]);
    }
    for (key, value) in [("commit.gpgSign", "true"), ("core.hooksPath", "hooks"), ("commit.verbose", "true")]
    {
        fixture.user(&["config", key, value]);
    }
    fixture.write(".gitattributes", "* diff=evil merge=evil\n");
    for hook in [
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "post-rewrite",
        "fsmonitor-watchman",
        "pre-auto-gc",
    ] {
        for folder in ["hooks", ".git/hooks"] {
            fixture.write(&format!("{folder}/{hook}"), "");
            fs::copy(&canary, fixture.path(&format!("{folder}/{hook}"))).unwrap();
        }
    }
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    everything(&fixture, &mut workspace, &start);
    assert!(!fixture.outside("CANARY").exists());
}

#[test]
fn a_filter_that_comes_later_is_not_run_wherever_it_is_set() {
    // fault K3
    for place in ["config", "config.worktree", "more", "gitconfig"] {
        let fixture = Fixture::new();
        let canary = canary(&fixture);
        match place {
            "more" => drop(fixture.user(&["config", "include.path", "more"])),
            "config.worktree" => drop(fixture.user(&["config", "extensions.worktreeConfig", "true"])),
            _ => {}
        }
        let (mut workspace, start) = fixture.begun();
        let file = match place {
            "gitconfig" => fixture.outside("gitconfig"),
            _ => fixture.path(".git").join(place),
        };
        for key in ["clean", "smudge"] {
            fixture.user(&["config", "-f", file.to_str().unwrap(), &format!("filter.evil.{key}"), &canary]);
        }
        fixture.write(".gitattributes", "* filter=evil\n");
        fixture.write("a", "x\n");
        let next = workspace.snapshot(1).unwrap();
        assert!(next.changed);
        workspace.disturbed_since(&start.id).unwrap();
        workspace.checkout(&next.id, &fixture.outside("copy")).unwrap();
        workspace.commit_tree(&next.id, "x", 1).unwrap();
        workspace.restore(&start.id, 2).unwrap();
        assert!(!fixture.outside("CANARY").exists(), "{place}");
    }
}

#[test]
fn an_object_replaced_by_the_agent_is_still_the_object() {
    let fixture = Fixture::new();
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    fixture.user(&["replace", &start.id, &next.id]);
    assert_eq!(workspace.file_at(&start.id, b"a").unwrap().unwrap(), b"one\n");
}

#[test]
fn a_link_out_of_the_folder_is_not_followed_when_files_are_written() {
    let fixture = Fixture::new();
    let (workspace, start) = fixture.begun();
    let into = fixture.outside("into");
    let elsewhere = fixture.outside("elsewhere");
    fs::create_dir(&into).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, into.join("dir")).unwrap();
    workspace.write_paths(&start.id, &[b"dir/b", b"none", b"run"], &into).unwrap();
    assert_eq!(fs::read(into.join("dir/b")).unwrap(), b"two\n");
    assert!(!elsewhere.join("b").exists());
    assert_eq!(fs::read_dir(&into).unwrap().count(), 2);
}

#[test]
fn a_git_that_hangs_is_stopped_with_all_it_started() {
    // fault H14
    let fixture = Fixture::new();
    let pid = fixture.outside("pid");
    let script = format!("#!/bin/sh\nsleep 1000 &\necho $! >'{}'\nwait\n", pid.display());
    fs::write(fixture.outside("bin/git"), script).unwrap();
    let git = fixture.git().within(Duration::from_secs(1));
    let opened = Workspace::open_with(&git, &fixture.repo(), &fixture.home, &loop_id());
    assert!(matches!(opened, Err(WorkspaceError::Git(GitError::TimedOut { seconds: 1, .. }))));
    let pid: u32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    let is_gone = || crate::process::identity::stat(pid).is_none_or(crate::process::identity::Stat::is_dead);
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while !is_gone() {
        assert!(std::time::Instant::now() < deadline, "{pid} still runs");
        std::thread::yield_now();
    }
}

#[test]
fn a_git_that_fails_is_never_taken_for_an_unchanged_tree() {
    // fault H6
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let real = fs::read(fixture.outside("bin/git")).unwrap();
    fs::write(fixture.outside("bin/git"), "#!/bin/sh\necho fatal: no >&2\nexit 1\n").unwrap();
    let error = workspace.snapshot(1).unwrap_err();
    assert!(error.to_string().contains("fatal: no"), "{error}");
    fs::write(fixture.outside("bin/git"), real).unwrap();
    // fault H4: the git that failed may have been killed.
    fs::write(fixture.outside("home/shadow/abcdefghjk/index.lock"), "").unwrap();
    assert!(workspace.snapshot(1).unwrap().changed);
}

#[test]
fn a_bare_repository_planted_inside_is_data() {
    let fixture = Fixture::new();
    let canary = canary(&fixture);
    fixture.user(&["init", "-q", "--bare", "planted"]);
    fixture.user(&["config", "-f", "planted/config", "core.fsmonitor", &canary]);
    fixture.user(&["config", "-f", "planted/config", "core.worktree", "."]);
    fs::write(fixture.repo().join(OsStr::from_bytes(b"planted/index")), "").unwrap();
    let (mut workspace, start) = fixture.begun();
    fixture.write("a", "x\n");
    everything(&fixture, &mut workspace, &start);
    assert!(!fixture.outside("CANARY").exists());
}

#[test]
fn a_commit_whose_file_holds_another_is_not_believed() {
    // fault K3: the file of an object can be overwritten, uncompressed as ours are.
    let fixture = Fixture::new();
    let (mut workspace, _) = fixture.begun();
    fixture.write("a", "x\n");
    let next = workspace.snapshot(1).unwrap();
    workspace.commit_tree(&next.id, "work", 1).unwrap();
    let head = fixture.user(&["rev-parse", "HEAD"]).trim().to_owned();
    let tree = fixture.user(&["rev-parse", "HEAD~1^{tree}"]).trim().to_owned();
    let text = format!("tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nforged\n");
    let object = format!("commit {}\0{text}", text.len());
    let length = u16::try_from(object.len()).unwrap().to_le_bytes();
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in object.bytes() {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    let check = ((b << 16) | a).to_be_bytes();
    let forged =
        [&[0x78, 1, 1], &length[..], &length.map(|b| !b)[..], object.as_bytes(), &check[..]].concat();
    let file = fixture.path(&format!(".git/objects/{}/{}", &head[..2], &head[2..]));
    fs::remove_file(&file).unwrap();
    fs::write(&file, forged).unwrap();
    // git itself takes it for the commit in most of what it does.
    assert!(fixture.user(&["cat-file", "-p", "HEAD"]).contains("forged"));
    let other: LoopId = "other".parse().unwrap();
    let opened = Workspace::open_with(&fixture.git(), &fixture.repo(), &fixture.home, &other);
    assert!(matches!(opened, Err(WorkspaceError::Refused { state: RepositoryProblem::CorruptHead(_), .. })));
}
