//! Worktrees: many at once (fault H1), found again after a crash or a loss (fault H5), removed only when nothing can be
//! lost (faults H2, H6, H7).

use std::sync::Barrier;

use super::*;

fn made(fixture: &Fixture, name: &str) -> Worktree {
    fixture.opened().worktree(&unit(name), &project(), "HEAD", None).unwrap()
}

fn known(worktree: &Worktree) -> KnownWorktree {
    KnownWorktree { path: worktree.path.clone(), branch: worktree.branch.clone() }
}

fn kept(removal: WorktreeRemoval) -> String {
    match removal {
        WorktreeRemoval::Kept { why } => why,
        WorktreeRemoval::Removed => panic!("removed"),
    }
}

#[test]
fn git_need_not_read_the_files_of_a_new_worktree_to_know_that_none_has_changed() {
    use std::os::unix::fs::MetadataExt as _;
    let fixture = Fixture::new();
    let worktree = made(&fixture, "web");
    let git_dir = fixture.git_in(&worktree.path, &["rev-parse", "--absolute-git-dir"]);
    let index = fs::metadata(Path::new(git_dir.trim()).join("index")).unwrap().mtime();
    let listed = fixture.git_in(&worktree.path, &["ls-files", "--debug"]);
    let times: Vec<i64> = listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("mtime: ")?.split(':').next()?.parse().ok())
        .collect();
    // A link is read in any case, and keeps its time.
    let recent = times.iter().filter(|time| **time >= index).count();
    assert!(times.len() == 5 && recent <= 1, "{index}: {listed}");
    // A change of the same size that comes at once is seen all the same.
    fs::write(worktree.path.join("a"), "eno\n").unwrap();
    assert_eq!(fixture.git_in(&worktree.path, &["status", "--porcelain"]), " M a");
}

#[test]
fn a_unit_has_a_worktree_outside_the_repository_on_a_branch_of_its_own() {
    // req 50, fault H13
    let fixture = Fixture::new();
    let before = fixture.user(&["status", "--porcelain"]);
    let worktree = made(&fixture, "web");
    assert_eq!(worktree.path, fixture.outside("home/worktrees/p/web"));
    assert!(worktree.branch.starts_with("dacapo/web-") && worktree.branch.len() == "dacapo/web-".len() + 6);
    assert!(worktree.is_new);
    assert_eq!(worktree.head, fixture.user(&["rev-parse", "HEAD"]).trim());
    for (name, content) in [("a", "one\n"), ("dir/b", "two\n"), ("link", "one\n")] {
        assert_eq!(fs::read_to_string(worktree.path.join(name)).unwrap(), content);
    }
    assert_eq!(fixture.git_in(&worktree.path, &["status", "--porcelain"]), "");
    assert_eq!(fixture.user(&["status", "--porcelain"]), before);
    assert!(fixture.user_may_fail(&["config", &format!("branch.{}.remote", worktree.branch)]).0 != 0);
    // Asked for again it is the same one.
    fs::write(worktree.path.join("new"), "kept").unwrap();
    for before in [Some(known(&worktree)), None] {
        let again = fixture.opened().worktree(&unit("web"), &project(), "HEAD", before.as_ref()).unwrap();
        assert_eq!(again, Worktree { is_new: false, ..worktree.clone() });
        assert_eq!(fs::read_to_string(worktree.path.join("new")).unwrap(), "kept");
    }
    // Its commits are its own.
    let commit = fixture.commit_in(&worktree.path, "work");
    let again = fixture.opened().worktree(&unit("web"), &project(), "HEAD", Some(&known(&worktree))).unwrap();
    assert_eq!(again.head, commit);
}

#[test]
fn twelve_at_once_do_not_disturb_each_other() {
    // fault H1: every one of 12 × 20 is made, and no branch is left behind.
    let fixture = Fixture::new();
    let start = Barrier::new(12);
    for round in 0..20 {
        let all: Vec<Worktree> = std::thread::scope(|scope| {
            let add = |n: usize| {
                let (fixture, start) = (&fixture, &start);
                scope.spawn(move || {
                    let repo = fixture.opened();
                    start.wait();
                    repo.worktree(&unit(&format!("u{n}")), &project(), "HEAD", None).unwrap()
                })
            };
            let threads: Vec<_> = (0..12).map(add).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let paths: std::collections::HashSet<_> = all.iter().map(|worktree| &worktree.path).collect();
        assert_eq!(paths.len(), 12, "round {round}");
        assert_eq!(fixture.branches().len(), 13, "round {round}");
        if round % 10 > 0 {
            for worktree in &all {
                fixture.user(&["worktree", "remove", "--force", worktree.path.to_str().unwrap()]);
            }
            let names: Vec<&str> = all.iter().map(|worktree| worktree.branch.as_str()).collect();
            fixture.user(&[&["branch", "-qD"], &names[..]].concat());
            continue;
        }
        std::thread::scope(|scope| {
            for worktree in &all {
                let fixture = &fixture;
                scope.spawn(move || {
                    let removal = fixture.opened().remove(&worktree.path, &worktree.branch, "main").unwrap();
                    assert_eq!(removal, WorktreeRemoval::Removed);
                    assert!(!worktree.path.exists());
                });
            }
        });
        assert_eq!(fixture.branches(), ["main"], "round {round}");
    }
}

#[test]
fn twelve_that_add_commit_and_remove_lose_nothing() {
    // faults H1, H2
    let fixture = Fixture::new();
    let commits: Vec<String> = std::thread::scope(|scope| {
        let work = |n: usize| {
            let fixture = &fixture;
            scope.spawn(move || {
                let worktree = made(fixture, &format!("u{n}"));
                fs::write(worktree.path.join(format!("f{n}")), format!("{n}")).unwrap();
                let commit = fixture.commit_in(&worktree.path, "work");
                let repo = fixture.opened();
                let removal = repo.remove(&worktree.path, &worktree.branch, "main").unwrap();
                assert!(kept(removal).contains("not in `main`"));
                let removal = repo.remove(&worktree.path, &worktree.branch, &commit).unwrap();
                assert_eq!(removal, WorktreeRemoval::Removed);
                commit
            })
        };
        let threads: Vec<_> = (0..12).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (n, commit) in commits.iter().enumerate() {
        assert_eq!(fixture.user(&["show", &format!("{commit}:f{n}")]), format!("{n}"));
    }
    assert_eq!(fixture.branches(), ["main"]);
}

#[test]
fn whatever_became_of_it_a_unit_gets_a_worktree_and_nothing_unknown_is_touched() {
    // fault H5: folder (there, gone, foreign) × registered or not × branch (free, elsewhere, gone).
    struct Case {
        what: &'static str,
        spoil: fn(&Fixture, &Worktree),
        is_known: bool,
        same_path: bool,
        same_branch: bool,
        has_work: bool,
    }
    let cases = [
        Case {
            what: "folder there, registered, branch known",
            spoil: |_, _| {},
            is_known: true,
            same_path: true,
            same_branch: true,
            has_work: true,
        },
        Case {
            what: "folder there, registered, nothing known",
            spoil: |_, _| {},
            is_known: false,
            same_path: true,
            same_branch: true,
            has_work: true,
        },
        Case {
            what: "folder there, not registered, branch free",
            spoil: |fixture, _| fs::remove_dir_all(fixture.path(".git/worktrees")).unwrap(),
            is_known: true,
            same_path: false,
            same_branch: true,
            has_work: true,
        },
        Case {
            what: "folder there, not registered, nothing known",
            spoil: |fixture, _| fs::remove_dir_all(fixture.path(".git/worktrees")).unwrap(),
            is_known: false,
            same_path: false,
            same_branch: false,
            has_work: false,
        },
        Case {
            what: "folder gone, registered, branch free",
            spoil: |_, worktree| fs::remove_dir_all(&worktree.path).unwrap(),
            is_known: true,
            same_path: true,
            same_branch: true,
            has_work: true,
        },
        Case {
            what: "folder gone, registered and locked",
            spoil: |fixture, worktree| {
                fixture.user(&["worktree", "lock", worktree.path.to_str().unwrap()]);
                fs::remove_dir_all(&worktree.path).unwrap();
            },
            is_known: true,
            same_path: false,
            same_branch: false,
            has_work: true,
        },
        Case {
            what: "folder gone, branch checked out by a person",
            spoil: |fixture, worktree| {
                fixture.user(&["worktree", "remove", "--force", worktree.path.to_str().unwrap()]);
                fixture.user(&["switch", "-q", &worktree.branch]);
            },
            is_known: true,
            same_path: true,
            same_branch: false,
            has_work: true,
        },
        Case {
            what: "folder gone, branch gone",
            spoil: |fixture, worktree| {
                fixture.user(&["worktree", "remove", "--force", worktree.path.to_str().unwrap()]);
                fixture.user(&["branch", "-qD", &worktree.branch]);
            },
            is_known: true,
            same_path: true,
            same_branch: false,
            has_work: false,
        },
        Case {
            what: "folder gone, branch there, nothing known",
            spoil: |fixture, worktree| {
                fixture.user(&["worktree", "remove", "--force", worktree.path.to_str().unwrap()]);
            },
            is_known: false,
            same_path: true,
            same_branch: false,
            has_work: false,
        },
        Case {
            what: "a file in the way",
            spoil: |fixture, worktree| {
                fixture.user(&["worktree", "remove", "--force", worktree.path.to_str().unwrap()]);
                fs::write(&worktree.path, "mine").unwrap();
            },
            is_known: true,
            same_path: false,
            same_branch: true,
            has_work: true,
        },
        Case {
            what: "a folder of the user's in the way",
            spoil: |fixture, worktree| {
                fixture.user(&["worktree", "remove", "--force", worktree.path.to_str().unwrap()]);
                fs::create_dir(&worktree.path).unwrap();
                fs::write(worktree.path.join("mine"), "mine").unwrap();
            },
            is_known: true,
            same_path: false,
            same_branch: true,
            has_work: true,
        },
        Case {
            what: "a person's worktree on another branch in the way",
            spoil: |fixture, worktree| {
                fixture.git_in(&worktree.path, &["switch", "-qc", "mine"]);
            },
            is_known: false,
            same_path: false,
            same_branch: false,
            has_work: false,
        },
        Case {
            what: "a broken .git",
            spoil: |_, worktree| fs::write(worktree.path.join(".git"), "gitdir: /nowhere\n").unwrap(),
            is_known: true,
            same_path: false,
            same_branch: false,
            has_work: true,
        },
    ];
    for case in cases {
        let fixture = Fixture::new();
        let worktree = made(&fixture, "u");
        fs::write(worktree.path.join("work"), "w").unwrap();
        let work = fixture.commit_in(&worktree.path, "work");
        (case.spoil)(&fixture, &worktree);
        let before = listing(&worktree.path);
        let branches = fixture.branches();
        let known = case.is_known.then(|| known(&worktree));
        let repo = fixture.opened();
        let found = repo.worktree(&unit("u"), &project(), "main", known.as_ref()).unwrap();
        let got = (found.path == worktree.path, found.branch == worktree.branch);
        assert_eq!(got, (case.same_path, case.same_branch), "{}: {found:?}", case.what);
        assert_eq!(found.head == work, case.has_work, "{}", case.what);
        assert_eq!(found.path.join("work").exists(), case.has_work, "{}", case.what);
        assert_eq!(fixture.git_in(&found.path, &["status", "--porcelain"]), "", "{}", case.what);
        if !case.same_path {
            assert_eq!(listing(&worktree.path), before, "{}", case.what);
        }
        for branch in branches {
            assert!(fixture.branches().contains(&branch), "{}: {branch} is gone", case.what);
        }
        // It does not go on like that: the next call finds what this one made.
        let again = repo.worktree(&unit("u"), &project(), "main", Some(&super::worktrees::known(&found)));
        assert_eq!(again.unwrap().path, found.path, "{}", case.what);
    }
}

/// The files there are with what they hold, but for git's.
fn listing(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    if path.is_file() {
        return vec![(path.to_owned(), fs::read(path).unwrap())];
    }
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut files: Vec<_> = entries.flat_map(|entry| listing(&entry.unwrap().path())).collect();
    files.sort();
    files
}

#[test]
fn a_worktree_that_was_never_filled_is_filled() {
    let fixture = Fixture::new();
    let worktree = made(&fixture, "u");
    let git_dir = fixture.path(".git/worktrees/u");
    // Killed while the files were written: some are there, one is cut short, and the lock is.
    fs::write(git_dir.join("dacapo-new"), "").unwrap();
    fs::write(git_dir.join("index.lock"), "").unwrap();
    fs::remove_file(worktree.path.join("dir/b")).unwrap();
    fs::write(worktree.path.join("a"), "o").unwrap();
    let again = fixture.opened().worktree(&unit("u"), &project(), "HEAD", None).unwrap();
    assert_eq!(again.path, worktree.path);
    assert_eq!(fixture.git_in(&again.path, &["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(again.path.join("a")).unwrap(), "one\n");
    // Killed before.
    fs::remove_file(git_dir.join("index")).unwrap();
    for entry in fs::read_dir(&again.path).unwrap().map(|entry| entry.unwrap().path()) {
        match (entry.ends_with(".git"), entry.is_dir()) {
            (true, _) => {}
            (_, true) => fs::remove_dir_all(entry).unwrap(),
            (_, false) => fs::remove_file(entry).unwrap(),
        }
    }
    made(&fixture, "u");
    assert_eq!(fixture.git_in(&again.path, &["status", "--porcelain"]), "");
}

#[test]
fn an_add_that_fails_leaves_no_branch() {
    // fault H1
    let fixture = Fixture::new();
    let repo = fixture.opened();
    let script = fs::read_to_string(fixture.outside("bin/git")).unwrap();
    let failing = script.replace("exec ", "case \"$*\" in *'reset --hard'*) ");
    let (before, real) = failing.split_once(") '").unwrap();
    let program = real.split('\'').next().unwrap();
    let after = format!("{before}) '{program}' \"$@\"; exit 3;; esac\nexec '{program}' \"$@\"\n");
    fs::write(fixture.outside("bin/git"), after).unwrap();
    let failed = repo.worktree(&unit("u"), &project(), "HEAD", None);
    assert!(matches!(failed, Err(WorkspaceError::Git(GitError::Failed { code: Some(3), .. }))), "{failed:?}");
    assert_eq!(fixture.branches(), ["main"]);
    assert!(!fixture.outside("home/worktrees/p/u").exists());
    assert_eq!(fixture.user(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn what_could_be_lost_is_not_removed() {
    // faults H2, H6
    type Spoil = fn(&Fixture, &Path);
    let cases: [(&str, Spoil, &str); 11] = [
        ("dirty", |_, dir| fs::write(dir.join("a"), "x").unwrap(), "`a` is not committed"),
        ("untracked", |_, dir| fs::write(dir.join("x"), "x").unwrap(), "`x` is not committed"),
        (
            "staged",
            |fixture, dir| {
                fs::write(dir.join("x"), "x").unwrap();
                fixture.git_in(dir, &["add", "x"]);
            },
            "`x` is not committed",
        ),
        (
            "ahead",
            |fixture, dir| {
                fs::write(dir.join("x"), "x").unwrap();
                fixture.commit_in(dir, "more");
            },
            "not in `main`",
        ),
        (
            "detached",
            |fixture, dir| drop(fixture.git_in(dir, &["checkout", "-q", "--detach"])),
            "not on the branch",
        ),
        (
            "elsewhere",
            |fixture, dir| drop(fixture.git_in(dir, &["switch", "-qc", "mine"])),
            "not on the branch",
        ),
        (
            "broken .git",
            |_, dir| fs::write(dir.join(".git"), "gitdir: /nowhere\n").unwrap(),
            "cannot be told",
        ),
        ("no .git", |_, dir| fs::remove_file(dir.join(".git")).unwrap(), "cannot be told"),
        (
            "broken index",
            |fixture, _| fs::write(fixture.path(".git/worktrees/u/index"), "x").unwrap(),
            "cannot be told",
        ),
        (
            "midway",
            |fixture, dir| {
                let (head, path) =
                    (fixture.git_in(dir, &["rev-parse", "HEAD"]), ".git/worktrees/u/MERGE_HEAD");
                fs::write(fixture.path(path), head).unwrap();
            },
            "cannot be told",
        ),
        (
            "hidden",
            |fixture, dir| {
                fixture.git_in(dir, &["update-index", "--assume-unchanged", "a"]);
                fs::write(dir.join("a"), "x").unwrap();
            },
            "told not to look at `a`",
        ),
    ];
    for (what, spoil, expected) in cases {
        let fixture = Fixture::new();
        let worktree = made(&fixture, "u");
        spoil(&fixture, &worktree.path);
        let before = listing(&worktree.path);
        let why = kept(fixture.opened().remove(&worktree.path, &worktree.branch, "main").unwrap());
        assert!(why.contains(expected), "{what}: {why}");
        assert_eq!(listing(&worktree.path), before, "{what}");
        assert!(fixture.branches().contains(&worktree.branch), "{what}");
    }
}

#[test]
fn what_is_gone_already_takes_its_merged_branch_along() {
    let fixture = Fixture::new();
    for is_registered in [true, false] {
        let worktree = made(&fixture, "u");
        fs::remove_dir_all(&worktree.path).unwrap();
        if !is_registered {
            fixture.user(&["worktree", "prune"]);
        }
        let removal = fixture.opened().remove(&worktree.path, &worktree.branch, "main").unwrap();
        assert_eq!(removal, WorktreeRemoval::Removed);
        assert_eq!(fixture.branches(), ["main"]);
    }
    let worktree = made(&fixture, "u");
    fs::write(worktree.path.join("x"), "x").unwrap();
    fixture.commit_in(&worktree.path, "work");
    fs::remove_dir_all(&worktree.path).unwrap();
    let why = kept(fixture.opened().remove(&worktree.path, &worktree.branch, "main").unwrap());
    assert!(why.contains("not in `main`"), "{why}");
    let own = kept(fixture.opened().remove(&fixture.repo(), "main", "main").unwrap());
    assert!(own.contains("own work tree"), "{own}");
}

#[test]
fn ignored_files_do_not_keep_a_worktree() {
    let fixture = Fixture::new();
    let worktree = made(&fixture, "u");
    fs::create_dir(worktree.path.join("ignored")).unwrap();
    fs::write(worktree.path.join("ignored/x"), "x").unwrap();
    let removal = fixture.opened().remove(&worktree.path, &worktree.branch, "main").unwrap();
    assert_eq!(removal, WorktreeRemoval::Removed);
    assert!(!worktree.path.exists());
}

/// What a dacapo leaves that is killed while it removes a worktree: the folder has another name, and some of its files are gone.
fn removal_cut_short(worktree: &Worktree) {
    let aside = worktree.path.with_file_name(".removed-u-0f3c2b");
    fs::rename(&worktree.path, &aside).unwrap();
    fs::remove_file(aside.join("a")).unwrap();
}

#[test]
fn a_removal_that_was_cut_short_is_completed_by_the_next_one() {
    // fault H2
    let fixture = Fixture::new();
    let worktree = made(&fixture, "u");
    removal_cut_short(&worktree);
    let removal = fixture.opened().remove(&worktree.path, &worktree.branch, "main").unwrap();
    assert_eq!(removal, WorktreeRemoval::Removed);
    assert_eq!(fixture.branches(), ["main"]);
    assert_eq!(fixture.user(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(fs::read_dir(worktree.path.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn what_a_removal_that_was_cut_short_left_goes_with_the_next_worktree() {
    let fixture = Fixture::new();
    let worktree = made(&fixture, "u");
    removal_cut_short(&worktree);
    let other = made(&fixture, "v");
    let left: Vec<_> =
        fs::read_dir(worktree.path.parent().unwrap()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [other.path]);
}

#[test]
fn a_submodule_is_looked_into_before_it_goes() {
    // fault H7
    let fixture = Fixture::new();
    let other = fixture.outside("other");
    fs::create_dir(&other).unwrap();
    fixture.git_in(&other, &["init", "-q"]);
    fs::write(other.join("s"), "s\n").unwrap();
    fixture.commit_in(&other, "sub");
    fixture.user(&["submodule", "--quiet", "add", other.to_str().unwrap(), "sub"]);
    fixture.commit_in(&fixture.repo(), "with a submodule");
    let repo = fixture.opened();
    let worktree = made(&fixture, "u");
    let sub = worktree.path.join("sub");
    assert!(!sub.join("s").exists());
    repo.init_submodules(&worktree.path).unwrap();
    assert_eq!(fs::read_to_string(sub.join("s")).unwrap(), "s\n");
    let removal = || repo.remove(&worktree.path, &worktree.branch, "main").unwrap();
    fs::write(sub.join("s"), "changed\n").unwrap();
    assert!(kept(removal()).contains("`sub` has changes that are not committed"));
    fixture.git_in(&sub, &["checkout", "-q", "s"]);
    fs::write(sub.join("new"), "new\n").unwrap();
    assert!(kept(removal()).contains("`sub` has changes that are not committed"));
    // A commit that only this copy of the submodule has.
    fixture.commit_in(&sub, "only here");
    fixture.git_in(&sub, &["branch", "mine"]);
    fixture.git_in(&sub, &["checkout", "-q", "HEAD~1"]);
    assert!(kept(removal()).contains("commits that no remote has"));
    fixture.git_in(&sub, &["push", "-q", "origin", "mine"]);
    assert_eq!(removal(), WorktreeRemoval::Removed);
    assert!(!worktree.path.exists());
}

#[test]
fn a_worktree_of_somebody_elses_stays_registered_while_its_drive_is_away() {
    // fault H5
    let fixture = Fixture::new();
    let drive = fixture.outside("drive");
    fixture.user(&["worktree", "add", "-q", "-b", "mine", drive.join("tree").to_str().unwrap()]);
    fs::write(drive.join("tree/x"), "x").unwrap();
    fixture.git_in(&drive.join("tree"), &["add", "x"]);
    fs::rename(&drive, fixture.outside("away")).unwrap();
    let worktree = made(&fixture, "u");
    drop(fixture.opened().scratch(&project(), "u", "HEAD").unwrap());
    fixture.opened().remove(&worktree.path, &worktree.branch, "main").unwrap();
    fs::rename(fixture.outside("away"), &drive).unwrap();
    assert_eq!(fixture.git_in(&drive.join("tree"), &["status", "--porcelain"]), "A  x");
}

#[test]
fn a_scratch_worktree_is_fresh_each_time_and_gone_afterwards() {
    let fixture = Fixture::new();
    let repo = fixture.opened();
    let path = {
        let scratch = repo.scratch(&project(), "u", "HEAD").unwrap();
        assert_eq!(fs::read_to_string(scratch.path().join("a")).unwrap(), "one\n");
        assert_eq!(fixture.git_in(scratch.path(), &["branch", "--show-current"]), "");
        fs::write(scratch.path().join("x"), "x").unwrap();
        scratch.keep()
    };
    assert!(path.ends_with("p/.merge-u") && path.join("x").exists());
    let scratch = repo.scratch(&project(), "u", "HEAD").unwrap();
    assert!(scratch.path() == path && !path.join("x").exists());
    drop(scratch);
    assert!(!path.exists());
    assert_eq!(fixture.user(&["worktree", "list"]).lines().count(), 1);
    repo.scratch(&project(), "u", "HEAD").unwrap().remove().unwrap();
    assert_eq!(fixture.branches(), ["main"]);
}

#[test]
fn a_repository_that_nothing_can_begin_from_is_refused() {
    // fault H9
    let refused =
        |fixture: &Fixture| match Repository::open_with(&fixture.git(), &fixture.repo(), &fixture.home) {
            Err(error) => {
                assert!(error.hint().is_some(), "{error}");
                error.to_string()
            }
            Ok(_) => panic!("not refused"),
        };
    let plain = Fixture::empty();
    assert!(refused(&plain).contains("not in a git repository"));
    plain.user(&["init", "-q"]);
    assert!(refused(&plain).contains("no commit yet"));
    let bare = Fixture::empty();
    bare.user(&["init", "-q", "--bare"]);
    assert!(refused(&bare).contains("bare"));
    for (file, what) in [("MERGE_HEAD", "a merge"), ("rebase-merge", "a rebase")] {
        let fixture = Fixture::new();
        fixture.write(&format!(".git/{file}"), "");
        assert!(refused(&fixture).contains(what));
    }
}

#[test]
fn a_repository_is_read_by_its_commits() {
    let fixture = Fixture::new();
    let first = fixture.user(&["rev-parse", "HEAD"]).trim().to_owned();
    fixture.write("units/u/1.md", "task one\n");
    fixture.write("units/u/deep/2.md", "");
    fixture.write("units-not/x", "x");
    std::os::unix::fs::symlink("1.md", fixture.path("units/u/link")).unwrap();
    let second = fixture.commit_in(&fixture.repo(), "units");
    fixture.write("units/u/1.md", "not committed\n");
    fixture.write("new", "");
    let repo = fixture.opened();
    assert_eq!(repo.is_dirty().unwrap(), ["units/u/1.md", "new"]);
    assert_eq!(repo.current_branch().unwrap().as_deref(), Some("main"));
    assert_eq!(repo.resolve("HEAD").unwrap(), Some(second.clone()));
    for nothing in ["nothing", "--help", "a b", "", "HEAD:a"] {
        assert_eq!(repo.resolve(nothing).unwrap(), None, "{nothing}");
    }
    assert!(repo.is_ancestor(&first, "main").unwrap() && !repo.is_ancestor("main", &first).unwrap());
    let tree = fixture.user(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(repo.tree_of("HEAD").unwrap(), tree.trim());
    assert_eq!(repo.file_at("HEAD", "units/u/1.md").unwrap().unwrap(), b"task one\n");
    assert_eq!(repo.file_at("HEAD", "units/u").unwrap(), None);
    let files = repo.files_below("HEAD", "units/").unwrap();
    let expected = [("units/u/1.md", "task one\n"), ("units/u/deep/2.md", "")];
    assert_eq!(files, expected.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())));
    assert_eq!(repo.files_below(&first, "units").unwrap(), []);
    fixture.user(&["checkout", "-q", "--detach"]);
    assert_eq!(fixture.opened().current_branch().unwrap(), None);
    for n in 0..30 {
        fixture.write(&format!("f{n}"), "");
    }
    assert_eq!(repo.is_dirty().unwrap().len(), 20);
}

#[test]
fn state_inside_the_work_tree_is_hidden_from_git() {
    // fault H13
    let mut fixture = Fixture::new();
    fixture.home = Home::at(fixture.path("state [1]"));
    fs::create_dir(fixture.home.path()).unwrap();
    made(&fixture, "u");
    made(&fixture, "v");
    assert_eq!(fixture.user(&["status", "--porcelain"]), "");
    let rules = fixture.read(".git/info/exclude").unwrap();
    assert_eq!(rules.matches("state").count(), 1, "{rules}");
}
