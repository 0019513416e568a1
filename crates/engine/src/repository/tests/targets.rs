//! Moving a branch that may be checked out: all of it or nothing, through every crash (faults H10, H11, L2).

use super::{move_branch::BranchMove, *};

/// A repository on `main`, a commit `next` on top of it that changes, adds, deletes and turns a file into a folder.
struct Stage {
    fixture: Fixture,
    old: String,
    new: String,
}

fn stage() -> Stage {
    let fixture = Fixture::new();
    fixture.write("was-file", "f\n");
    fixture.write("was-folder/x", "x\n");
    fixture.write("quiet", "q\n");
    let old = fixture.commit_in(&fixture.repo(), "base");
    fixture.user(&["switch", "-qc", "next"]);
    fixture.write("a", "next\n");
    fixture.write("added/deep", "added\n");
    fs::remove_file(fixture.path("dir/b")).unwrap();
    fs::remove_file(fixture.path("was-file")).unwrap();
    fixture.write("was-file/y", "y\n");
    fs::remove_dir_all(fixture.path("was-folder")).unwrap();
    fixture.write("was-folder", "file\n");
    let new = fixture.commit_in(&fixture.repo(), "next");
    fixture.user(&["switch", "-q", "main"]);
    Stage { fixture, old, new }
}

impl Stage {
    fn moved(&self) -> TargetMoved {
        self.fixture.opened().move_target("main", &self.new, &self.old, "u").unwrap()
    }

    fn at(&self, branch: &str) -> String {
        self.fixture.user(&["rev-parse", branch]).trim().to_owned()
    }

    fn status(&self) -> String {
        self.fixture.user(&["status", "--porcelain"])
    }

    fn step(&self) -> BranchMove {
        let worktree = self.fixture.repo();
        BranchMove { worktree, branch: "main".into(), old: self.old.clone(), new: self.new.clone() }
    }

    /// All files are those of the new commit.
    fn assert_new(&self) {
        assert_eq!((self.at("main"), self.status()), (self.new.clone(), String::new()));
        for (name, content) in [("a", "next\n"), ("added/deep", "added\n"), ("was-file/y", "y\n")] {
            assert_eq!(self.fixture.read(name).as_deref(), Some(content));
        }
        assert_eq!(self.fixture.read("was-folder").as_deref(), Some("file\n"));
        assert!(!self.fixture.path("dir").exists());
    }
}

fn left(moved: TargetMoved) -> (String, String, Vec<String>) {
    match moved {
        TargetMoved::LeftOn { branch, command, why } => (branch, command, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_clean_checkout_goes_along() {
    let stage = stage();
    stage.fixture.write("untracked", "mine\n");
    stage.fixture.write("ignored/x", "mine\n");
    let moved = stage.moved();
    assert_eq!(moved, TargetMoved::Moved { checkout: Some(stage.fixture.repo()) });
    fs::remove_file(stage.fixture.path("untracked")).unwrap();
    assert_eq!(stage.fixture.read("ignored/x").as_deref(), Some("mine\n"));
    stage.assert_new();
    assert_eq!(stage.moved(), moved);
    stage.assert_new();
    // Times alone are no changes.
    let again = self::stage();
    let file = fs::File::options().write(true).open(again.fixture.path("a")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(matches!(again.moved(), TargetMoved::Moved { .. }));
    again.assert_new();
}

#[test]
fn a_branch_that_nobody_looks_at_just_moves() {
    for detach in [&["checkout", "-q", "--detach"][..], &["switch", "-qc", "mine"]] {
        let stage = stage();
        stage.fixture.user(detach);
        stage.fixture.write("a", "mine\n");
        assert_eq!(stage.moved(), TargetMoved::Moved { checkout: None });
        assert_eq!(stage.at("main"), stage.new);
        assert_eq!(stage.fixture.read("a").as_deref(), Some("mine\n"));
        assert_eq!(stage.moved(), TargetMoved::Moved { checkout: None });
    }
}

#[test]
fn a_dirty_checkout_is_left_alone_and_the_result_waits_on_a_branch() {
    // fault H10: no byte of what is not committed is touched.
    type Spoil = fn(&Fixture);
    let cases: [(&str, Spoil); 10] = [
        ("changed", |f| f.write("a", "mine\n")),
        ("changed elsewhere", |f| f.write("quiet", "mine\n")),
        ("staged", |f| {
            f.write("quiet", "mine\n");
            f.user(&["add", "quiet"]);
        }),
        ("deleted", |f| fs::remove_file(f.path("quiet")).unwrap()),
        ("untracked in the way", |f| f.write("added/deep", "mine\n")),
        ("untracked for a folder", |f| f.write("added", "mine\n")),
        ("ignored in the way", |f| {
            f.write(".git/info/exclude", "added/\n");
            f.write("added/deep", "mine\n");
        }),
        ("ignored in a folder that becomes a file", |f| {
            f.write(".git/info/exclude", "*.log\n");
            f.write("was-folder/x.log", "mine\n");
        }),
        ("midway", |f| f.write(".git/CHERRY_PICK_HEAD", &f.user(&["rev-parse", "HEAD"]))),
        ("hidden", |f| {
            f.user(&["update-index", "--assume-unchanged", "a"]);
            f.write("a", "mine\n");
        }),
    ];
    for (what, spoil) in cases {
        let stage = stage();
        let repo = stage.fixture.opened();
        spoil(&stage.fixture);
        let before = (files(&stage.fixture.repo()), stage.status(), stage.at("main"));
        let moved = repo.move_target("main", &stage.new, &stage.old, "u").unwrap();
        let (branch, command, why) = left(moved);
        assert_eq!(
            (branch.as_str(), command.as_str()),
            ("dacapo/merged-u", "git merge --ff-only dacapo/merged-u")
        );
        assert!(!why.is_empty(), "{what}");
        assert_eq!(stage.at(&branch), stage.new, "{what}");
        assert_eq!((files(&stage.fixture.repo()), stage.status(), stage.at("main")), before, "{what}");
        // Said again, it is the same branch.
        let again = repo.move_target("main", &stage.new, &stage.old, "u").unwrap();
        assert_eq!(left(again).0, "dacapo/merged-u", "{what}");
    }
}

#[test]
fn what_waits_goes_in_when_it_can() {
    let stage = stage();
    stage.fixture.write("a", "mine\n");
    let (_, command, why) = left(stage.moved());
    assert_eq!(why, ["a"]);
    stage.fixture.user(&["checkout", "-q", "a"]);
    assert!(matches!(stage.moved(), TargetMoved::Moved { .. }));
    stage.assert_new();
    assert_eq!(stage.fixture.branches(), ["main", "next"]);
    // Or by the one command.
    let stage = self::stage();
    stage.fixture.write("quiet", "mine\n");
    stage.moved();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    stage.fixture.user(&words);
    assert!(matches!(stage.moved(), TargetMoved::Moved { .. }));
    assert_eq!((stage.at("main"), stage.status().trim()), (stage.new.clone(), "M quiet"));
    assert_eq!(stage.fixture.branches(), ["main", "next"]);
}

#[test]
fn a_name_that_is_taken_is_left_alone() {
    let stage = stage();
    stage.fixture.user(&["switch", "-qc", "dacapo/merged-u"]);
    stage.fixture.write("mine", "mine\n");
    let mine = stage.fixture.commit_in(&stage.fixture.repo(), "mine");
    stage.fixture.user(&["switch", "-q", "main"]);
    stage.fixture.write("a", "mine\n");
    assert_eq!(left(stage.moved()).0, "dacapo/merged-u-2");
    assert_eq!(stage.at("dacapo/merged-u"), mine);
}

#[test]
fn a_target_checked_out_elsewhere_moves_there() {
    let stage = stage();
    let fixture = &stage.fixture;
    fixture.user(&["switch", "-qc", "mine"]);
    let place = fixture.outside("else where");
    fixture.user(&["worktree", "add", "-q", place.to_str().unwrap(), "main"]);
    fs::write(place.join("a"), "mine\n").unwrap();
    let (_, command, _) = left(stage.moved());
    assert_eq!(command, format!("git -C '{}' merge --ff-only dacapo/merged-u", place.display()));
    fixture.git_in(&place, &["checkout", "-q", "a"]);
    assert_eq!(stage.moved(), TargetMoved::Moved { checkout: Some(place.clone()) });
    assert_eq!(fs::read_to_string(place.join("a")).unwrap(), "next\n");
    assert_eq!(fixture.git_in(&place, &["status", "--porcelain"]), "");
    assert_eq!(fixture.read("a").as_deref(), Some("one\n"));
    // A checkout on a drive that is not there cannot be followed; one that is gone need not be.
    let stage = self::stage();
    stage.fixture.user(&["switch", "-qc", "mine"]);
    let place = stage.fixture.outside("drive");
    stage.fixture.user(&["worktree", "add", "-q", "--lock", place.to_str().unwrap(), "main"]);
    fs::remove_dir_all(&place).unwrap();
    assert!(left(stage.moved()).2[0].contains("cannot be reached"));
    stage.fixture.user(&["worktree", "unlock", place.to_str().unwrap()]);
    assert_eq!(stage.moved(), TargetMoved::Moved { checkout: None });
}

#[test]
fn a_target_in_the_middle_of_a_rebase_is_in_use() {
    let stage = stage();
    let fixture = &stage.fixture;
    let repo = fixture.opened();
    let (code, _) = fixture.user_may_fail(&["rebase", "-q", "--exec", "false", "--root"]);
    assert_ne!(code, 0);
    assert_eq!(fixture.user(&["branch", "--show-current"]), "");
    left(repo.move_target("main", &stage.new, &stage.old, "u").unwrap());
    fixture.user(&["rebase", "--abort"]);
    assert_eq!(stage.at("main"), stage.old);
}

#[test]
fn a_target_that_moved_meanwhile_stays_where_it_is() {
    // fault L2
    let stage = stage();
    stage.fixture.write("quiet", "theirs\n");
    let now = stage.fixture.commit_in(&stage.fixture.repo(), "theirs");
    assert_eq!(stage.moved(), TargetMoved::Overtaken { now: now.clone() });
    assert_eq!((stage.at("main"), stage.status()), (now, String::new()));
    let gone = stage.fixture.opened().move_target("gone", &stage.new, &stage.old, "u");
    assert!(matches!(gone, Err(WorkspaceError::NoBranch(_))));
}

/// How a crash is made.
type Crash = fn(&Stage);

/// What a crash can leave behind.
fn crashes() -> Vec<(&'static str, Crash)> {
    vec![
        ("after the note", |stage| stage.fixture.opened().note_move(&stage.step()).unwrap()),
        ("after the ref", crashed_after_ref),
        ("while files are written", |stage| {
            crashed_after_ref(stage);
            let fixture = &stage.fixture;
            fixture.write("a", "next\n");
            fs::remove_dir_all(fixture.path("dir")).unwrap();
            fixture.write("added/deep", "added\n");
            fs::remove_file(fixture.path("was-file")).unwrap();
            fixture.write(".git/index.lock", "half an index");
        }),
        ("after files, before the index", |stage| {
            crashed_after_ref(stage);
            let index = fs::read(stage.fixture.path(".git/index")).unwrap();
            let repo = stage.found();
            repo.move_files(&repo.checkout, &stage.step()).unwrap();
            fs::write(stage.fixture.path(".git/index"), index).unwrap();
        }),
        ("before the note is gone", |stage| {
            crashed_after_ref(stage);
            let repo = stage.found();
            repo.move_files(&repo.checkout, &stage.step()).unwrap();
        }),
    ]
}

impl Stage {
    /// The repository without the recovery that opening it brings.
    fn found(&self) -> Repository {
        Repository::find(&self.fixture.git(), &self.fixture.repo(), &self.fixture.home).unwrap()
    }
}

fn crashed_after_ref(stage: &Stage) {
    let repo = stage.found();
    repo.note_move(&stage.step()).unwrap();
    repo.swap_for(&stage.step()).unwrap();
}

#[test]
fn a_crash_at_any_step_is_completed_by_the_next_call() {
    for (what, crash) in crashes() {
        for is_opened_again in [true, false] {
            let stage = stage();
            let held = stage.fixture.opened();
            crash(&stage);
            let repo = if is_opened_again { stage.fixture.opened() } else { held };
            let moved = repo.move_target("main", &stage.new, &stage.old, "u").unwrap();
            assert!(matches!(moved, TargetMoved::Moved { .. }), "{what}: {moved:?}");
            stage.assert_new();
            let left_over = fs::read_dir(stage.fixture.home.path().join("moving")).unwrap().count();
            assert_eq!(left_over, 0, "{what}");
        }
    }
}

#[test]
fn what_was_edited_after_a_crash_is_kept_and_the_rest_is_as_it_was() {
    for (what, crash) in crashes() {
        let stage = stage();
        crash(&stage);
        if ["after the note", "before the note is gone"].contains(&what) {
            continue;
        }
        // On a path of the move: it cannot go on without losing this.
        stage.fixture.write("a", "mine\n");
        let repo = stage.fixture.opened();
        assert_eq!(stage.at("main"), stage.old, "{what}");
        assert_eq!(stage.fixture.read("a").as_deref(), Some("mine\n"), "{what}");
        assert_eq!(stage.status().trim(), "M a", "{what}");
        assert_eq!(stage.fixture.read("was-folder/x").as_deref(), Some("x\n"), "{what}");
        left(repo.move_target("main", &stage.new, &stage.old, "u").unwrap());
        // Elsewhere: it goes on around it.
        let stage = self::stage();
        crash(&stage);
        stage.fixture.write("quiet", "mine\n");
        stage.fixture.write("untracked", "mine\n");
        stage.fixture.opened();
        assert_eq!(stage.at("main"), stage.new, "{what}");
        assert_eq!(stage.status(), " M quiet\n?? untracked\n", "{what}");
        assert_eq!(stage.fixture.read("a").as_deref(), Some("next\n"), "{what}");
    }
}

#[test]
fn a_git_that_is_killed_half_way_is_completed() {
    // The real thing: git dies by SIGKILL in the middle of its work, at every call of it.
    let script = fs::read_to_string(Fixture::empty().outside("bin/git")).unwrap();
    let program = script.split("exec '").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    for deadly in ["update-ref", "read-tree", "status"] {
        let stage = stage();
        let repo = stage.found();
        let wrapper = stage.fixture.outside("bin/git");
        let real = fs::read(&wrapper).unwrap();
        let dying = stage.fixture.outside("dying");
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *'{deadly}'*) if [ ! -e '{0}' ]; then touch '{0}'; \
             [ '{deadly}' = read-tree ] && {{ printf 'next\\n' >a; touch .git/index.lock; }}; kill -9 $$; fi;; esac\n\
             exec '{program}' \"$@\"\n",
            dying.display()
        );
        fs::write(&wrapper, text).unwrap();
        let _ = repo.move_target("main", &stage.new, &stage.old, "u");
        assert!(dying.exists(), "{deadly}");
        fs::write(&wrapper, real).unwrap();
        assert!(matches!(stage.moved(), TargetMoved::Moved { .. }), "{deadly}");
        stage.assert_new();
    }
}

#[test]
fn files_that_cannot_follow_keep_their_branch_where_it_was() {
    // A full disk or a folder of another user: git fails half-way, and dacapo, which completes the move, fails too.
    let script = fs::read_to_string(Fixture::empty().outside("bin/git")).unwrap();
    let program = script.split("exec '").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    // What git wrote before it failed, and how often it fails to write files afterwards.
    let half = "printf 'next\\n' >a; rm -r dir; mkdir added; echo added >added/deep;";
    for (before, failures, is_undone) in [("", 1, true), (half, 1, true), (half, 9, false)] {
        let stage = stage();
        let repo = stage.found();
        let was = files(&stage.fixture.repo());
        let wrapper = stage.fixture.outside("bin/git");
        let real = fs::read(&wrapper).unwrap();
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in\n*'read-tree -m'*) {before} exit 128;;\n\
             *checkout-index*) echo x >>'{0}'; [ $(wc -l <'{0}') -gt {failures} ] || exit 128;;\nesac\n\
             exec '{program}' \"$@\"\n",
            stage.fixture.outside("failures").display()
        );
        fs::write(&wrapper, text).unwrap();
        let moved = repo.move_target("main", &stage.new, &stage.old, "u");
        fs::write(&wrapper, real).unwrap();
        assert_eq!(stage.at("main"), stage.old, "{before}");
        assert_eq!(stage.fixture.user(&["diff", "--cached", "--name-only"]), "", "{before}");
        if is_undone {
            assert!(matches!(moved, Err(WorkspaceError::NotFollowed { .. })), "{moved:?}");
        } else {
            assert!(matches!(moved, Err(WorkspaceError::HalfMoved { .. })), "{moved:?}");
            // What it says that is to be done.
            stage.fixture.user(&["restore", "--staged", "--worktree", "."]);
        }
        assert_eq!((stage.status(), files(&stage.fixture.repo())), (String::new(), was), "{before}");
        assert!(matches!(stage.moved(), TargetMoved::Moved { .. }));
        stage.assert_new();
    }
}

#[test]
fn a_units_branch_is_advanced_with_its_files() {
    let stage = stage();
    let repo = stage.fixture.opened();
    let worktree = repo.worktree(&unit("u"), &project(), "main", None).unwrap();
    let advance = || repo.advance(&worktree.path, &worktree.branch, &stage.new, &stage.old);
    fs::write(worktree.path.join("a"), "mine\n").unwrap();
    assert!(matches!(advance(), Err(WorkspaceError::NotClean { .. })));
    assert_eq!(fs::read_to_string(worktree.path.join("a")).unwrap(), "mine\n");
    fs::write(worktree.path.join("a"), "one\n").unwrap();
    // A crash between the ref and the files; and twice is as good as once.
    let step =
        BranchMove { worktree: worktree.path.clone(), branch: worktree.branch.clone(), ..stage.step() };
    repo.note_move(&step).unwrap();
    repo.swap_for(&step).unwrap();
    for _ in 0..2 {
        advance().unwrap();
        assert_eq!(fs::read_to_string(worktree.path.join("a")).unwrap(), "next\n");
        assert_eq!(fixture_status(&stage, &worktree.path), "");
    }
    fs::write(worktree.path.join("more"), "more").unwrap();
    let now = stage.fixture.commit_in(&worktree.path, "more");
    let moved = repo.advance(&worktree.path, &worktree.branch, &stage.old, &stage.new);
    assert!(matches!(moved, Err(WorkspaceError::BranchMoved { now: at, .. }) if at == now));
    let other = repo.advance(&worktree.path, "main", &stage.new, &stage.old);
    assert!(matches!(other, Err(WorkspaceError::OtherBranch { .. })), "{other:?}");
    assert_eq!(stage.at("main"), stage.old);
}

fn fixture_status(stage: &Stage, dir: &Path) -> String {
    stage.fixture.git_in(dir, &["status", "--porcelain"])
}

/// Every file in a folder but for git's own.
pub(super) fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match (path.ends_with(".git"), path.is_symlink(), path.is_dir()) {
                (true, ..) => {}
                (_, true, _) => all.push((
                    path.clone(),
                    fs::read_link(&path).unwrap().as_os_str().as_encoded_bytes().to_vec(),
                )),
                (_, _, true) => folders.push(path),
                _ => all.push((path.clone(), fs::read(&path).unwrap())),
            }
        }
    }
    all.sort();
    all
}
