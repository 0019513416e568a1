use std::os::unix::fs::symlink;

use super::*;

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn unit(&self, name: &str, tasks: u32) {
        self.write(&format!("specs/tasks/{name}/{PLAN}"), "# Plan\n");
        for number in 1..=tasks {
            self.write(&format!("specs/tasks/{name}/{number:02}-t.md"), &task(number));
        }
    }

    fn fifo(&self, file: &str) {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            self.root().join(file),
            FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    }

    fn discover(&self) -> CheckedUnits {
        discover(self.root(), "specs/tasks").unwrap()
    }

    fn problems(&self) -> Vec<String> {
        self.discover().problems.iter().map(|p| format!("{}: {}", p.file, p.what)).collect()
    }
}

fn task(number: u32) -> String {
    format!("---\ntask: {number}\nbackpressure: 'true'\n---\n# Task {number}\n")
}

#[test]
fn a_unit_is_a_folder_with_a_plan_and_tasks() {
    // req 1
    let world = World::new();
    assert_eq!(world.discover(), CheckedUnits::default(), "no folder, no units");
    world.unit("b", 2);
    world.unit("a", 1);
    world.unit("only-a-plan", 0);
    world.write("specs/tasks/only-tasks/01-t.md", &task(1));
    world.write("specs/tasks/a-file.md", "---\n");
    for other in ["1-t.md", "001-t.md", "01_t.md", "01-t.txt", "01-.md", "README.md"] {
        world.write(&format!("specs/tasks/names/{other}"), "---\n");
    }
    world.write(&format!("specs/tasks/names/{PLAN}"), "");
    world.write(&format!("specs/tasks/a/deeper/{PLAN}"), "---\n");
    world.write("specs/tasks/a/deeper/01-t.md", "---\n");
    world.write("specs/tasks/a/notes.md", "---\n");
    let checked = world.discover();
    assert_eq!(checked.problems, []);
    let found: Vec<(&str, &str, usize)> =
        checked.units.iter().map(|u| (u.id.as_str(), u.folder.as_str(), u.tasks.len())).collect();
    assert_eq!(found, [("a", "specs/tasks/a", 1), ("b", "specs/tasks/b", 2)]);
    assert_eq!(checked.units[1].tasks[1].spec.file, "specs/tasks/b/02-t.md");
    let again = discover(world.root(), "specs/tasks/").unwrap();
    assert_eq!(again, checked, "however the folder is written");
}

#[test]
fn the_folder_must_lie_in_the_repository() {
    // fault I5
    let world = World::new();
    world.write("repo/file", "");
    world.write("elsewhere/u/01-t.md", &task(1));
    symlink("../elsewhere", world.root().join("repo/link")).unwrap();
    let root = world.root().join("repo");
    let absolute = world.root().join("elsewhere");
    for dir in ["../elsewhere", "link", "link/u", "file", absolute.to_str().unwrap()] {
        let error = discover(&root, dir).unwrap_err();
        assert!(matches!(error, UnitsError::Refused { .. }), "{dir}: {error}");
    }
}

#[test]
fn nothing_but_regular_files_is_opened() {
    // fault I5, fault K1
    let world = World::new();
    world.unit("good", 1);
    world.unit("bad", 2);
    let bad = |name: &str| world.root().join("specs/tasks/bad").join(name);
    world.write("outside.md", &task(3));
    symlink("../../../outside.md", bad("03-link.md")).unwrap();
    symlink("/etc/passwd", bad("04-absolute.md")).unwrap();
    symlink("nowhere", bad("05-broken.md")).unwrap();
    fs::create_dir(bad("06-folder.md")).unwrap();
    world.fifo("specs/tasks/bad/07-fifo.md");
    world.write("specs/tasks/bad/08-broken.md", "---\n");
    std::os::unix::net::UnixListener::bind(bad("09-socket.md")).unwrap();
    symlink("good", world.root().join("specs/tasks/linked")).unwrap();
    assert_eq!(
        world.problems(),
        [
            "specs/tasks/bad/03-link.md: a link, or behind one, and links are not followed",
            "specs/tasks/bad/04-absolute.md: a link, or behind one, and links are not followed",
            "specs/tasks/bad/05-broken.md: a link, or behind one, and links are not followed",
            "specs/tasks/bad/06-folder.md: not a regular file",
            "specs/tasks/bad/07-fifo.md: not a regular file",
            "specs/tasks/bad/08-broken.md: the frontmatter is not closed: a line `---` must follow it",
            "specs/tasks/bad/09-socket.md: not a regular file",
            "specs/tasks/linked: a link, and links are not followed",
        ]
    );
    let units = world.discover().units;
    assert_eq!(units.iter().map(|unit| unit.id.as_str()).collect::<Vec<_>>(), ["good"]);
    // A plan is read with the same distrust.
    let world = World::new();
    world.unit("u", 1);
    let plan = world.root().join("specs/tasks/u").join(PLAN);
    fs::remove_file(&plan).unwrap();
    symlink("/etc/passwd", &plan).unwrap();
    assert_eq!(world.problems().len(), 1);
    fs::remove_file(&plan).unwrap();
    world.fifo(&format!("specs/tasks/u/{PLAN}"));
    assert_eq!(world.problems(), [format!("specs/tasks/u/{PLAN}: not a regular file")]);
}

#[test]
fn names_and_sizes_have_their_limits() {
    let world = World::new();
    world.unit("u", 1);
    world.write("specs/tasks/u/02-\u{202e}x.md", &task(2));
    world.write("specs/tasks/u/03-large.md", &format!("{}{}", task(3), "x".repeat(MAX_FILE_BYTES)));
    world.write("specs/tasks/v w/01-t.md", &task(1));
    world.write(&format!("specs/tasks/v w/{PLAN}"), "");
    assert_eq!(
        world.problems(),
        [
            "specs/tasks/u/02-\\u{202e}x.md: the name holds a character that cannot be seen".to_owned(),
            "specs/tasks/u/03-large.md: larger than 1024 KiB".to_owned(),
            format!(
                "specs/tasks/v w/{PLAN}: `v w` is not a valid unit id: letters, digits, `.`, `_` and `-`, at most 64, \
                 starting with a letter or digit"
            ),
        ]
    );
    let world = World::new();
    world.unit("many", 1);
    for number in 0..MAX_TASKS {
        world.write(&format!("specs/tasks/many/02-{number}.md"), "");
    }
    assert_eq!(world.problems(), ["specs/tasks/many: more than 1000 tasks"]);
}

#[test]
fn the_top_is_where_git_is() {
    let world = World::new();
    fs::create_dir_all(world.root().join("r/.git")).unwrap();
    fs::create_dir_all(world.root().join("r/a/b")).unwrap();
    assert_eq!(top(&world.root().join("r/a/b")), world.root().join("r"));
    assert_eq!(top(&world.root().join("r")), world.root().join("r"));
}

#[test]
fn what_was_probably_meant_is_said_and_passed_over() {
    // req 1: other folders are no error.
    let world = World::new();
    world.unit("good", 1);
    world.write("specs/tasks/good/2-short.md", "");
    world.write("specs/tasks/no-plan/01-t.md", "");
    world.write("specs/tasks/no-task/IMPLEMENTATION_PLAN.md", "");
    world.write("specs/tasks/notes/1.md", "");
    let checked = world.discover();
    assert_eq!((checked.units.len(), checked.problems.len()), (1, 0));
    assert_eq!(
        checked.notes,
        [
            "`specs/tasks/good/2-short.md` is no task: its name is not like `01-name.md`",
            "`specs/tasks/no-plan` is no unit: it has tasks but no IMPLEMENTATION_PLAN.md",
            "`specs/tasks/no-task` is no unit: it has a plan but no task called `01-name.md`",
        ]
    );
}
