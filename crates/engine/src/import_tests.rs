use std::os::unix::fs::symlink;

use super::*;

fn world(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap().join("repo");
    fs::create_dir(&top).unwrap();
    for (path, text) in files {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (dir, top)
}

const SETTINGS: UnitSettings<'_> = UnitSettings { dir: "specs/tasks", name: None, check: None };

/// What was written, and how each file stood before.
fn import_all(top: &Path, path: &Path, may_overwrite: bool) -> Result<Vec<(String, FileState)>, ImportError> {
    let source = look(top, path, None)?;
    let imported = convert(top, &source, &SETTINGS)?;
    let states = compare(top, &imported, may_overwrite)?;
    write(top, &imported.files, &states)?;
    Ok(imported.files.into_iter().map(|file| file.path).zip(states).collect())
}

#[test]
fn a_second_import_changes_nothing_and_one_over_a_changed_file_is_refused() {
    let (_dir, top) = world(&[("TODO.md", "- [ ] one\n- [ ] two\n")]);
    let first = import_all(&top, &top.join("TODO.md"), false).unwrap();
    assert!(first.len() == 3 && first.iter().all(|(_, state)| *state == FileState::New), "{first:?}");
    let found = units::discover(&top, "specs/tasks").unwrap();
    assert_eq!((found.problems.len(), found.units.len(), found.units[0].tasks.len()), (0, 1, 2));
    let second = import_all(&top, &top, false).unwrap();
    assert!(second.iter().all(|(_, state)| *state == FileState::Same), "{second:?}");
    assert_eq!(fs::read_to_string(top.join("TODO.md")).unwrap(), "- [ ] one\n- [ ] two\n");
    // A task that was worked on is not set back.
    let file = top.join("specs/tasks/todo/01-one.md");
    let text = fs::read_to_string(&file).unwrap().replace("pending", "complete");
    fs::write(&file, &text).unwrap();
    fs::remove_file(top.join("specs/tasks/todo/02-two.md")).unwrap();
    let refused = import_all(&top, &top, false).unwrap_err();
    assert!(
        matches!(&refused, ImportError::Changed { files } if files == &["specs/tasks/todo/01-one.md"]),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(!top.join("specs/tasks/todo/02-two.md").exists(), "all or nothing");
    let forced = import_all(&top, &top, true).unwrap();
    assert_eq!(
        forced.iter().map(|(_, state)| *state).collect::<Vec<_>>(),
        [FileState::Changed, FileState::New, FileState::Same]
    );
    assert!(fs::read_to_string(&file).unwrap().contains("status: pending"));
    // A task of another origin would take a number twice.
    fs::write(top.join("specs/tasks/todo/03-own.md"), "mine").unwrap();
    let refused = import_all(&top, &top, true).unwrap_err();
    assert!(matches!(refused, ImportError::OtherTasks { .. }), "{refused}");
    assert_eq!(fs::read_dir(top.join("specs/tasks/todo")).unwrap().count(), 4, "nothing is left behind");
}

#[test]
fn a_folder_is_searched_for_what_usually_lies_there() {
    let (_dir, top) = world(&[]);
    assert!(matches!(look(&top, &top, None), Err(ImportError::NothingThere { .. })));
    fs::write(top.join("prd.json"), "[]").unwrap();
    assert_eq!(look(&top, &top, None).unwrap().kind, SourceKind::Prd);
    fs::create_dir_all(top.join(".archon/workflows/deep")).unwrap();
    let several = look(&top, &top, None).unwrap_err();
    assert!(
        matches!(&several, ImportError::Several { found, .. } if found == &["prd.json", ".archon/workflows"]),
        "{several}"
    );
    assert_eq!(look(&top, &top, Some(SourceKind::Archon)).unwrap().shown, ".archon/workflows");
    for folder in [".archon/workflows", ".archon/workflows/deep"] {
        assert_eq!(look(&top, &top.join(folder), None).unwrap().kind, SourceKind::Archon, "{folder}");
    }
    assert!(matches!(look(&top, &top.join("gone"), None), Err(ImportError::Read { .. })));
    rustix::fs::mknodat(rustix::fs::CWD, top.join("fifo.json"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
        .unwrap();
    assert!(matches!(look(&top, &top.join("fifo.json"), None), Err(ImportError::Read { .. })));
    // The plan of a unit is no source of another.
    fs::create_dir_all(top.join("specs/tasks/a")).unwrap();
    fs::write(top.join("specs/tasks/a/IMPLEMENTATION_PLAN.md"), "- [ ] x").unwrap();
    fs::write(top.join("specs/tasks/a/01-x.md"), "x").unwrap();
    let plan = look(&top, &top.join("specs/tasks/a/IMPLEMENTATION_PLAN.md"), None).unwrap();
    assert!(matches!(convert(&top, &plan, &SETTINGS), Err(ImportError::IsUnit { .. })));
}

#[test]
fn workflows_of_another_repository_come_with_their_commands() {
    let workflow = "name: ship\ndescription: d\nnodes:\n- id: a\n  command: plan\n- id: b\n  prompt: about $BASE_BRANCH\n  depends_on: [a]\n";
    let (dir, top) = world(&[(".git/HEAD", "ref: refs/heads/trunk\n")]);
    let other = dir.path().canonicalize().unwrap().join("other/.archon");
    fs::create_dir_all(other.join("workflows/defaults")).unwrap();
    fs::create_dir_all(other.join("commands")).unwrap();
    fs::write(other.join("workflows/defaults/ship.yaml"), workflow).unwrap();
    fs::write(other.join("commands/plan.md"), "Plan it.").unwrap();
    let written = import_all(&top, &other.join("workflows"), false).unwrap();
    let paths: Vec<&str> = written.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, [".dacapo/commands/plan.md", ".dacapo/workflows/ship.yaml"]);
    let text = fs::read_to_string(top.join(".dacapo/workflows/ship.yaml")).unwrap();
    assert!(text.contains("prompt: about trunk") && !text.contains("replaces"), "{text}");
    let found = crate::workflows::discover(&top, None, Default::default()).unwrap();
    assert!(found.problems.is_empty() && found.find("ship").is_some(), "{:?}", found.problems);
    // Beside its source it stands in its place, also where that has keys that dacapo does nothing with.
    fs::create_dir_all(top.join(".archon/workflows")).unwrap();
    fs::write(
        top.join(".archon/workflows/own.yaml"),
        "name: own\ndescription: d\nhooks: {}\nsteps: [{bash: make}]\n",
    )
    .unwrap();
    import_all(&top, &top.join(".archon/workflows/own.yaml"), false).unwrap();
    let found = crate::workflows::discover(&top, None, Default::default()).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    let own = found.find("own").unwrap();
    assert_eq!(
        (own.workflow.file.as_str(), own.replaces_file.as_deref()),
        (".dacapo/workflows/own.yaml", Some(".archon/workflows/own.yaml"))
    );
}

#[test]
fn a_link_is_not_followed_out_of_the_repository() {
    // fault K1
    let (dir, top) = world(&[("TODO.md", "- [ ] one\n")]);
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, top.join("specs")).unwrap();
    assert!(matches!(import_all(&top, &top, false), Err(ImportError::Write { .. })));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    fs::remove_file(top.join("specs")).unwrap();
    fs::create_dir_all(top.join("specs/tasks/todo")).unwrap();
    symlink(elsewhere.join("x"), top.join("specs/tasks/todo/01-one.md")).unwrap();
    assert!(matches!(import_all(&top, &top, true), Err(ImportError::Write { .. })));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}
