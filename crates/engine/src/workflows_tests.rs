use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use super::*;

struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn read(&self) -> Catalogue {
        discover(self.0.path(), None, ParseSettings::default()).unwrap()
    }

    /// What can be run from files: name, file, whether it replaces a built-in one.
    fn own(&self) -> Vec<(String, String, bool)> {
        let own = self.read().workflows.into_iter().filter(|found| !found.is_builtin);
        own.map(|found| (found.workflow.name, found.workflow.file, found.replaces_builtin)).collect()
    }

    fn problems(&self) -> Vec<String> {
        self.read().problems.iter().map(|problem| problem.line()).collect()
    }
}

fn of(name: &str) -> String {
    format!("name: {name}\ndescription: d\nsteps: [{{bash: date}}]\n")
}

fn found(name: &str, file: &str) -> (String, String, bool) {
    (name.to_owned(), file.to_owned(), false)
}

#[test]
fn workflows_are_found_in_four_folders_and_a_level_below() {
    // req 145
    let repository = Repository::new();
    repository.write(".dacapo/workflows/a.yaml", &of("a"));
    repository.write(".archon/workflows/b.yml", &of("b"));
    repository.write(".archon/workflows/defaults/e.yaml", &of("e"));
    repository.write(".archon/workflows/defaults/deep/f.yaml", &of("f"));
    repository.write(".claude/workflows/c.yaml", &of("c"));
    repository.write(".agents/workflows/d.yaml", &of("d"));
    repository.write(".dacapo/workflows/notes.md", "no workflow");
    repository.write("workflows/g.yaml", &of("g"));
    assert_eq!(
        repository.own(),
        [
            found("a", ".dacapo/workflows/a.yaml"),
            found("b", ".archon/workflows/b.yml"),
            found("c", ".claude/workflows/c.yaml"),
            found("d", ".agents/workflows/d.yaml"),
            found("e", ".archon/workflows/defaults/e.yaml"),
        ]
    );
    assert_eq!(repository.problems(), [""; 0]);
    let names: Vec<String> =
        Repository::new().read().workflows.into_iter().map(|found| found.workflow.name).collect();
    assert_eq!(names, ["checklist", "prompt", "ralph"]);
}

#[test]
fn a_broken_file_costs_only_itself() {
    // req 143
    let repository = Repository::new();
    repository.write(".dacapo/workflows/good.yaml", &of("good"));
    repository.write(".dacapo/workflows/bad.yaml", "name: bad\ndescription: d\n");
    repository.write(".dacapo/workflows/worse.yaml", "name: [");
    fs::create_dir(repository.0.path().join(".dacapo/workflows/folder.yaml")).unwrap();
    symlink("good.yaml", repository.0.path().join(".dacapo/workflows/link.yaml")).unwrap();
    assert_eq!(repository.own(), [found("good", ".dacapo/workflows/good.yaml")]);
    let problems = repository.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].contains("Workflow must have 'steps' or 'loop' in bad.yaml"), "{problems:?}");
    assert!(problems[1].contains("a link, or behind one, and links are not followed"), "{problems:?}");
    assert!(problems[2].contains("not YAML"), "{problems:?}");
}

#[test]
fn a_folder_that_is_a_link_is_told_and_costs_nothing() {
    // fault K1
    let repository = Repository::new();
    repository.write(".claude/workflows/a.yaml", &of("a"));
    symlink(".claude", repository.0.path().join(".agents")).unwrap();
    assert_eq!(repository.own(), [found("a", ".claude/workflows/a.yaml")]);
    assert_eq!(repository.problems(), [""; 0]);
    let notes: Vec<String> = repository.read().notes.iter().map(|note| note.line()).collect();
    assert_eq!(
        notes,
        [
            "`.agents/workflows`: is not looked into: it is a link, or lies behind one; put a folder there if it holds workflows"
        ]
    );
    // A file where a folder should be is a problem.
    fs::remove_file(repository.0.path().join(".agents")).unwrap();
    repository.write(".agents/workflows", "");
    assert_eq!(repository.problems().len(), 1);
}

#[test]
fn a_name_that_two_files_have_belongs_to_neither() {
    // req 145
    let repository = Repository::new();
    repository.write(".dacapo/workflows/one.yaml", &of("x"));
    repository.write(".archon/workflows/two.yaml", &of("x"));
    repository.write(".archon/workflows/three.yaml", &of("y"));
    assert_eq!(repository.own(), [found("y", ".archon/workflows/three.yaml")]);
    assert_eq!(
        repository.problems(),
        [
            "`.archon/workflows/two.yaml`, line 1: a workflow is called `x` in `.dacapo/workflows/one.yaml` too; give one of them another `name`, or remove it",
            "`.dacapo/workflows/one.yaml`, line 1: a workflow is called `x` in `.archon/workflows/two.yaml` too; give one of them another `name`, or remove it",
        ]
    );
}

#[test]
fn a_file_takes_the_place_of_a_built_in_workflow_also_when_it_is_broken() {
    // req 145
    let repository = Repository::new();
    repository.write(".dacapo/workflows/mine.yaml", &of("ralph"));
    assert_eq!(repository.own(), [("ralph".to_owned(), ".dacapo/workflows/mine.yaml".to_owned(), true)]);
    repository.write(".dacapo/workflows/mine.yaml", "name: ralph\ndescription: d\n");
    let catalogue = repository.read();
    assert!(catalogue.find("ralph").is_none());
    assert_eq!(catalogue.broken["ralph"], [".dacapo/workflows/mine.yaml"]);
}

#[test]
fn commands_are_found_in_order_and_their_text_is_frozen() {
    // req 144
    let repository = Repository::new();
    repository.write(
        ".dacapo/workflows/x.yaml",
        "name: x\ndescription: d\nsteps: [{command: plan}, {command: do}]\n",
    );
    repository.write(".archon/commands/plan.md", "from archon");
    repository.write(".archon/commands/defaults/do.md", "Do $USER_MESSAGE");
    let prompts = |repository: &Repository| -> Vec<String> {
        let catalogue = repository.read();
        let found = catalogue.find("x").unwrap();
        let steps = found.workflow.steps.iter();
        let text = |kind: &dacapo_core::workflow::StepKind| match kind {
            dacapo_core::workflow::StepKind::Agent(agent) => agent.prompt.text.clone(),
            _ => String::new(),
        };
        steps.map(|step| text(&step.kind)).collect()
    };
    assert_eq!(prompts(&repository), ["from archon", "Do $USER_MESSAGE"]);
    let digest = |repository: &Repository| repository.read().find("x").unwrap().digest.clone();
    let before = digest(&repository);
    assert_eq!(digest(&repository), before);
    repository.write(".dacapo/commands/plan.md", "own");
    assert_eq!(prompts(&repository)[0], "own");
    assert_ne!(digest(&repository), before);
    let before = digest(&repository);
    repository.write(".dacapo/commands/plan.md", "own, changed");
    assert_ne!(digest(&repository), before);
}

#[test]
fn a_command_that_cannot_be_loaded_is_one_of_five_failures() {
    // req 144, fault I5
    let repository = Repository::new();
    repository.write(".dacapo/commands/empty.md", " \n");
    repository.write(".dacapo/commands/binary.md", "x");
    fs::write(repository.0.path().join(".dacapo/commands/binary.md"), b"\xff").unwrap();
    repository.write(".dacapo/commands/secret.md", "x");
    symlink("/etc/passwd", repository.0.path().join(".dacapo/commands/link.md")).unwrap();
    let secret = repository.0.path().join(".dacapo/commands/secret.md");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
    let may_read_anything = fs::read(&secret).is_ok();
    for (command, expected) in [
        ("../x", "`../x` cannot be the name of a command"),
        (
            "none",
            "there is no command `none`: no `none.md` in `.dacapo/commands`, `.archon/commands`, `.archon/commands/defaults`",
        ),
        ("empty", "the command file `.dacapo/commands/empty.md` is empty"),
        ("secret", "the command file `.dacapo/commands/secret.md` may not be read"),
        ("binary", "the command file `.dacapo/commands/binary.md` cannot be read: not UTF-8"),
        (
            "link",
            "the command file `.dacapo/commands/link.md` cannot be read: it is a link, or lies behind one",
        ),
    ] {
        // Root reads everything.
        if command == "secret" && may_read_anything {
            continue;
        }
        let text = format!("name: x\ndescription: d\nsteps: [{{command: {command}}}]\n");
        repository.write(".dacapo/workflows/x.yaml", &text);
        let problems = repository.read().problems;
        let what: Vec<&str> = problems.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!(what, [expected]);
        assert_eq!((problems[0].line, problems[0].column), (3, 19));
    }
}

#[test]
fn a_command_in_a_configured_folder_is_found_last() {
    // req 144
    let repository = Repository::new();
    repository.write(".dacapo/workflows/x.yaml", "name: x\ndescription: d\nsteps: [{command: plan}]\n");
    repository.write("prompts/plan.md", "configured");
    let read = |configured: Option<&str>| {
        discover(repository.0.path(), configured, ParseSettings::default()).unwrap()
    };
    assert!(read(None).find("x").is_none());
    assert!(read(Some("prompts/")).find("x").is_some());
    // A folder outside of the repository is none.
    assert!(read(Some("../prompts")).find("x").is_none());
}

#[test]
fn what_is_no_variable_in_a_command_file_is_said_with_its_place() {
    let repository = Repository::new();
    repository.write(".dacapo/workflows/x.yaml", "name: x\ndescription: d\nsteps: [{command: plan}]\n");
    repository.write(".dacapo/commands/plan.md", "# Plan\n\nDo $USER_MESAGE and $nope.output\n");
    assert_eq!(
        repository.problems(),
        [
            "`.dacapo/commands/plan.md`, line 3: there is no variable `$USER_MESAGE`; did you mean `$USER_MESSAGE`?",
            "`.dacapo/commands/plan.md`, line 3: there is no step `nope`; steps of this file: plan",
        ]
    );
}
