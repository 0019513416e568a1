//! Merging without a checkout, and without anything that the repository would have run (faults H11, K3).

use super::*;

/// Two branches off `main`, each made by its own changes: `ours` and `theirs`.
fn two(fixture: &Fixture, ours: impl Fn(&Fixture), theirs: impl Fn(&Fixture)) {
    fixture.user(&["switch", "-qc", "theirs"]);
    theirs(fixture);
    fixture.commit_in(&fixture.repo(), "theirs");
    fixture.user(&["switch", "-q", "main"]);
    fixture.user(&["switch", "-qc", "ours"]);
    ours(fixture);
    fixture.commit_in(&fixture.repo(), "ours");
}

fn show(fixture: &Fixture, tree: &str, path: &str) -> String {
    fixture.user(&["cat-file", "-p", &format!("{tree}:{path}")])
}

#[test]
fn a_merge_can_change_a_file_of_the_tree_and_writes_no_ref() {
    let fixture = Fixture::new();
    two(&fixture, |f| f.write("dir/a b", "ours\n"), |f| f.write("dir/b", "theirs\n"));
    let before = fixture.own_state();
    let repo = fixture.opened();
    let Merged::Clean { tree } = repo.merge("ours", "theirs").unwrap() else { panic!() };
    let message = "Merge theirs\n\nwith `words`\n";
    let commit =
        repo.commit_merge_with(&tree, ["ours", "theirs"], message, ("dir/a b", b"merged\n\xff")).unwrap();
    let told = fixture.user(&["log", "-1", "--format=%P|%an|%cn|%ae|%B", &commit]);
    let [ours, theirs] = ["ours", "theirs"].map(|name| fixture.user(&["rev-parse", name]).trim().to_owned());
    let as_usual = repo.commit_merge(&tree, ["ours", "theirs"], message).unwrap();
    assert_eq!(told, fixture.user(&["log", "-1", "--format=%P|%an|%cn|%ae|%B", &as_usual]));
    assert!(told.starts_with(&format!("{ours} {theirs}|")), "{told}");
    let changed = fixture.user(&["diff", "--name-only", &tree, &commit]);
    assert_eq!(
        (changed.trim(), show(&fixture, &commit, "dir/b")),
        ("\"dir/a b\"".trim_matches('"'), "theirs\n".into())
    );
    assert_eq!(
        repo.tree_of(&commit).unwrap(),
        fixture.user(&["rev-parse", &format!("{commit}^{{tree}}")]).trim()
    );
    assert_eq!(repo.merge(&commit, "theirs").unwrap(), Merged::Nothing);
    // A side that is the other one is one parent, and the commit is made now.
    let alone = repo.commit_merge_with(&tree, ["ours", "ours"], "m", ("dir/b", b"")).unwrap();
    assert_eq!(fixture.user(&["log", "-1", "--format=%P", &alone]).trim(), ours);
    let age = fixture.user(&["log", "-1", "--format=%ct", &alone]).trim().parse::<i64>().unwrap()
        - fixture.user(&["log", "-1", "--format=%ct", &as_usual]).trim().parse::<i64>().unwrap();
    assert!((0..600).contains(&age), "{age}");
    assert_eq!(fixture.own_state(), before);
}

#[test]
fn commits_that_go_together_make_a_tree_of_both() {
    let fixture = Fixture::new();
    two(&fixture, |f| f.write("a", "ours\n"), |f| f.write("dir/b", "theirs\n"));
    let before = fixture.own_state();
    let repo = fixture.opened();
    let Merged::Clean { tree } = repo.merge("ours", "theirs").unwrap() else { panic!() };
    assert_eq!(
        (show(&fixture, &tree, "a"), show(&fixture, &tree, "dir/b")),
        ("ours\n".into(), "theirs\n".into())
    );
    let message = "Merge theirs\n\nDacapo-Unit: theirs\n";
    let commit = repo.commit_merge(&tree, ["ours", "theirs"], message).unwrap();
    let told = fixture.user(&["log", "-1", "--format=%T|%P|%an|%B", &commit]);
    let [ours, theirs] = ["ours", "theirs"].map(|name| fixture.user(&["rev-parse", name]).trim().to_owned());
    assert_eq!(told.trim_end(), format!("{tree}|{ours} {theirs}|User|{}", message.trim_end()));
    for (a, b) in [("ours", "main"), ("theirs", "theirs"), (commit.as_str(), "theirs")] {
        assert_eq!(repo.merge(a, b).unwrap(), Merged::Nothing, "{a} {b}");
    }
    assert_eq!(
        repo.merge("main", "theirs").unwrap(),
        Merged::Clean { tree: repo.tree_of("theirs").unwrap() }
    );
    assert_eq!(fixture.own_state(), before);
}

#[test]
fn commits_that_do_not_go_together_name_their_paths() {
    // fault H11
    type Change = fn(&Fixture);
    let cases: [(&str, Change, Change, &[&str]); 4] = [
        ("content", |f| f.write("a", "ours\n"), |f| f.write("a", "theirs\n"), &["a"]),
        ("add/add", |f| f.write("new", "ours\n"), |f| f.write("new", "theirs\n"), &["new"]),
        ("modify/delete", |f| f.write("a", "ours\n"), |f| fs::remove_file(f.path("a")).unwrap(), &["a"]),
        (
            "rename/rename",
            |f| fs::rename(f.path("dir/b"), f.path("dir/c")).unwrap(),
            |f| fs::rename(f.path("dir/b"), f.path("dir/d")).unwrap(),
            &["dir/b", "dir/c", "dir/d"],
        ),
    ];
    for (what, ours, theirs, expected) in cases {
        let fixture = Fixture::new();
        two(&fixture, ours, theirs);
        let before = fixture.own_state();
        match fixture.opened().merge("ours", "theirs").unwrap() {
            Merged::Conflict { tree, paths, messages } => {
                assert_eq!(paths, expected, "{what}");
                assert!(messages.iter().any(|m| m.starts_with(&format!("CONFLICT ({what}"))), "{messages:?}");
                if what == "content" {
                    let text = show(&fixture, &tree, "a");
                    assert!(text.contains("<<<<<<<") && text.contains("theirs\n>>>>>>>"), "{text}");
                }
            }
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(fixture.own_state(), before, "{what}");
    }
    // A rename on one side carries the other side's edit along.
    let fixture = Fixture::new();
    fixture.write("long", &"line\n".repeat(20));
    fixture.commit_in(&fixture.repo(), "long");
    let edit = |f: &Fixture| f.write("long", &format!("first\n{}", "line\n".repeat(20)));
    two(&fixture, |f| fs::rename(f.path("long"), f.path("moved")).unwrap(), edit);
    let Merged::Clean { tree } = fixture.opened().merge("ours", "theirs").unwrap() else { panic!() };
    assert!(show(&fixture, &tree, "moved").starts_with("first\n"));
}

#[test]
fn rules_of_the_target_about_merging_count_and_its_drivers_do_not() {
    // fault K3
    let fixture = Fixture::new();
    let canary = canary(&fixture);
    fixture.write(".gitattributes", "list merge=union\na merge=evil\nbinary merge=evil\n");
    fixture.write("list", "1\n");
    fs::write(fixture.path("binary"), [0, 1, 2]).unwrap();
    fixture.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n");
    fixture.commit_in(&fixture.repo(), "rules");
    two(
        &fixture,
        |f| {
            f.write("list", "1\n2\n");
            f.write("a", "ours\n2\n3\n4\n5\n6\n7\n8\n");
            fs::write(f.path("binary"), [0, 3]).unwrap();
        },
        |f| {
            f.write("list", "1\n3\n");
            f.write("a", "1\n2\n3\n4\n5\n6\n7\ntheirs\n");
            fs::write(f.path("binary"), [0, 4]).unwrap();
        },
    );
    let before = fixture.user(&["status", "--porcelain", "--ignored"]);
    fixture.user(&["config", "extensions.worktreeConfig", "true"]);
    fixture.user(&["config", "merge.evil.name", "evil"]);
    fixture.user(&["config", "--worktree", "merge.evil.driver", &format!("{canary} %O %A %B")]);
    fixture.user(&["config", "merge.renormalize", "true"]);
    fixture.user(&["config", "filter.evil.clean", &canary]);
    fixture.write(".git/info/attributes", "* filter=evil\n");
    match fixture.opened().merge("ours", "theirs").unwrap() {
        Merged::Conflict { tree, paths, .. } => {
            assert_eq!(paths, ["binary"]);
            assert_eq!(show(&fixture, &tree, "list"), "1\n2\n3\n");
            assert_eq!(show(&fixture, &tree, "a"), "ours\n2\n3\n4\n5\n6\n7\ntheirs\n");
        }
        other => panic!("{other:?}"),
    }
    assert!(!fixture.outside("CANARY").exists());
    fs::remove_file(fixture.path(".git/info/attributes")).unwrap();
    assert_eq!(fixture.user(&["status", "--porcelain", "--ignored"]), before);
}

#[test]
fn a_tree_is_laid_out_as_changes_to_the_commit() {
    let fixture = Fixture::new();
    two(
        &fixture,
        |f| f.write("a", "ours\n"),
        |f| {
            f.write("new/x", "new\n");
            fs::remove_file(f.path("run")).unwrap();
        },
    );
    let repo = fixture.opened();
    let Merged::Clean { tree } = repo.merge("ours", "theirs").unwrap() else { panic!() };
    let scratch = repo.scratch(&project(), "u", "ours").unwrap();
    repo.lay_out(&scratch, &tree).unwrap();
    let status = fixture.git_in(scratch.path(), &["status", "--porcelain"]);
    assert_eq!(status.lines().map(str::trim).collect::<Vec<_>>(), ["D run", "?? new/"]);
    assert_eq!(fs::read_to_string(scratch.path().join("a")).unwrap(), "ours\n");
    fixture.git_in(scratch.path(), &["add", "-A"]);
    assert_eq!(fixture.git_in(scratch.path(), &["write-tree"]), tree);
}

#[test]
fn what_an_agent_planted_never_runs() {
    // fault K3: every operation, with everything planted that git would run.
    let fixture = Fixture::new();
    let canary = canary(&fixture);
    two(&fixture, |f| f.write("a", "ours\n"), |f| f.write("a", "theirs\n"));
    let repo = fixture.opened();
    let worktree = repo.worktree(&unit("u"), &project(), "theirs", None).unwrap();
    fixture.user(&["config", "extensions.worktreeConfig", "true"]);
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.gitProxy",
        "core.askPass",
        "core.editor",
        "core.pager",
        "core.alternateRefsCommand",
        "credential.helper",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "merge.evil.driver",
        "gpg.program",
        "remote.origin.receivepack",
        "remote.origin.uploadpack",
    ] {
        fixture.user(&["config", key, &canary]);
        fixture.git_in(&worktree.path, &["config", "--worktree", key, &canary]);
    }
    let ext = format!("ext::{canary}");
    for (key, value) in [
        ("core.hooksPath", "hooks"),
        ("filter.evil.required", "true"),
        ("commit.gpgSign", "true"),
        ("push.gpgSign", "true"),
        ("protocol.ext.allow", "always"),
        ("protocol.allow", "always"),
        ("remote.origin.url", ext.as_str()),
    ] {
        fixture.user(&["config", key, value]);
    }
    fixture.write(".git/info/attributes", "* filter=evil diff=evil merge=evil\n");
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "pre-push", "post-merge"] {
        for folder in ["hooks", ".git/hooks"] {
            fixture.write(&format!("{folder}/{hook}"), "");
            fs::copy(&canary, fixture.path(&format!("{folder}/{hook}"))).unwrap();
        }
    }
    fs::remove_dir_all(fixture.path("hooks")).unwrap();
    let repo = fixture.opened();
    repo.is_dirty().unwrap();
    repo.worktree(&unit("v"), &project(), "ours", None).unwrap();
    let Merged::Conflict { tree, .. } = repo.merge("ours", &worktree.branch).unwrap() else { panic!() };
    let merged = repo.commit_merge(&tree, ["ours", &worktree.branch], "merge").unwrap();
    repo.lay_out(&repo.scratch(&project(), "u", "ours").unwrap(), &tree).unwrap();
    fs::write(worktree.path.join("a"), "theirs, too\n").unwrap();
    assert!(matches!(
        repo.remove(&worktree.path, &worktree.branch, &merged).unwrap(),
        WorktreeRemoval::Kept { .. }
    ));
    fs::write(worktree.path.join("a"), "theirs\n").unwrap();
    repo.advance(&worktree.path, &worktree.branch, &merged, "theirs").unwrap();
    assert!(matches!(repo.move_target("ours", &merged, "ours", "u").unwrap(), TargetMoved::Moved { .. }));
    assert_eq!(fixture.read("a"), Some(fs::read_to_string(worktree.path.join("a")).unwrap()));
    assert!(repo.push("ours", "ours", "origin").is_err());
    let _ = repo.init_submodules(&worktree.path);
    assert_eq!(repo.remove(&worktree.path, &worktree.branch, "ours").unwrap(), WorktreeRemoval::Removed);
    assert!(!fixture.outside("CANARY").exists());
}

#[test]
fn a_merge_is_known_by_the_paths_it_changed_where_it_was_made() {
    // fault H11
    let fixture = Fixture::new();
    two(&fixture, |f| f.write("a", "ours\n"), |f| f.write("dir/é b", "theirs\n"));
    let repo = fixture.opened();
    let Merged::Clean { tree } = repo.merge("ours", "theirs").unwrap() else { panic!() };
    let merge = repo.commit_merge(&tree, ["ours", "theirs"], "Merge theirs").unwrap();
    let paths = |list: &[&str]| list.iter().map(|path| path.as_bytes().to_vec()).collect();
    assert_eq!(repo.changed_paths("ours", &tree).unwrap(), paths(&["dir/é b"]));
    // Where it was made, `a` was so already.
    for (changed, is_found) in [(&["dir/é b", "x"][..], true), (&["a"], false), (&[], false)] {
        let found = repo.that_changed(&[&merge], &paths(changed)).unwrap();
        assert_eq!(found, [merge.as_str()].repeat(usize::from(is_found)), "{changed:?}");
    }
    let ours = fixture.user(&["rev-parse", "ours"]);
    let both = [merge.as_str(), ours.trim()];
    assert_eq!(repo.that_changed(&both, &paths(&["a", "dir/é b"])).unwrap(), both);
}
