use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    thread,
};

use rustix::fs::{FileType, Mode};

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

    fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn task(&self, id: &str, more: &str) {
        self.write(&format!("{FOLDER}/{id}.md"), format!("---\nid: {id}\ntitle: T\n{more}---\ndo it\n"));
    }

    fn ids(&self) -> Vec<String> {
        load(self.root()).tasks.iter().map(|task| task.spec.id.to_string()).collect()
    }

    fn problems(&self) -> Vec<String> {
        load(self.root()).problems.iter().map(|p| format!("{}: {}", p.file, p.what)).collect()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root().join(FOLDER)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn new(title: &str) -> NewTask {
    NewTask { id: None, title: title.to_owned(), depends_on: Vec::new(), specification: title.to_owned() }
}

fn id(text: &str) -> TaskId {
    text.parse().unwrap()
}

#[test]
fn every_markdown_file_of_the_folder_is_a_task_but_for_hidden_ones_and_a_readme() {
    let world = World::new();
    assert_eq!(load(world.root()), StageTaskList::default(), "no folder, no tasks");
    world.task("B-1", "");
    world.task("A-1", "status: done\n");
    for other in [".hidden.md", ".TASK-1.md.dacapo", "README.md", "readme.md", "notes.txt", "old/A-1.md"] {
        world.write(&format!("{FOLDER}/{other}"), "nothing");
    }
    assert_eq!(world.ids(), ["A-1", "B-1"]);
    assert_eq!(world.problems(), [""; 0]);
    assert_eq!(load(world.root()).tasks[0].status, StageTaskStatus::Done);
}

#[test]
fn what_cannot_be_read_costs_only_itself() {
    // fault I5
    let world = World::new();
    world.task("GOOD-1", "");
    world.write("outside.md", "---\nid: X-1\ntitle: T\n---\nx\n");
    let folder = world.root().join(FOLDER);
    symlink("../../outside.md", folder.join("link.md")).unwrap();
    symlink("/etc/passwd", folder.join("out.md")).unwrap();
    fs::create_dir(folder.join("folder.md")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("fifo.md"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    world.write(&format!("{FOLDER}/binary.md"), b"---\nid: \xff\xfe\0\n---\n");
    world.write(&format!("{FOLDER}/huge.md"), vec![b'x'; 2 << 20]);
    world.write(&format!("{FOLDER}/empty.md"), "");
    world.write(&format!("{FOLDER}/a\u{202e}b.md"), "");
    assert_eq!(world.ids(), ["GOOD-1"]);
    let expected = [
        ("a\\u{202e}b.md", "the name holds a character that cannot be seen"),
        ("binary.md", "not UTF-8"),
        ("empty.md", "there is no frontmatter: the first line must be `---`"),
        ("fifo.md", "not a regular file"),
        ("folder.md", "not a regular file"),
        ("huge.md", "larger than 1024 KiB"),
        ("link.md", "a link, or behind one, and links are not followed"),
        ("out.md", "a link, or behind one, and links are not followed"),
    ];
    assert_eq!(world.problems(), expected.map(|(name, what)| format!("{FOLDER}/{name}: {what}")));
    // Their names stay taken.
    symlink("/etc/passwd", folder.join("TASK-004.md")).unwrap();
    assert_eq!(add(world.root(), &new("T")).unwrap().spec.id.as_str(), "TASK-005");
}

#[test]
fn a_folder_that_leads_elsewhere_is_a_problem_and_nothing_is_written_there() {
    // fault I5
    let (world, elsewhere) = (World::new(), World::new());
    elsewhere.task("TASK-001", "");
    fs::create_dir(world.root().join(".dacapo")).unwrap();
    symlink(elsewhere.root().join(FOLDER), world.root().join(FOLDER)).unwrap();
    assert_eq!(world.problems(), [format!("{FOLDER}: is not looked into: it is a link, or lies behind one")]);
    assert!(matches!(add(world.root(), &new("T")), Err(AddTaskError::Folder(_))));
    assert!(set_status(world.root(), &format!("{FOLDER}/TASK-001.md"), StageTaskStatus::Done).is_err());
    assert_eq!(elsewhere.names(), ["TASK-001.md"]);
    fs::remove_file(world.root().join(FOLDER)).unwrap();
    fs::write(world.root().join(FOLDER), "").unwrap();
    assert_eq!(world.problems(), [format!("{FOLDER}: is not looked into: it is not a folder")]);
}

#[test]
fn a_new_task_has_the_next_free_id_and_is_read_back_as_it_was_meant() {
    let world = World::new();
    let first = add(world.root(), &new("Add a login page")).unwrap();
    assert_eq!(first.spec.file, ".dacapo/tasks/TASK-001.md");
    let text = fs::read_to_string(world.root().join(&first.spec.file)).unwrap();
    assert_eq!(text, "---\nid: TASK-001\ntitle: \"Add a login page\"\nstatus: todo\n---\nAdd a login page\n");
    let hard = NewTask {
        title: "it's a \"title\": # with [odd] {words} \\ é".to_owned(),
        depends_on: vec![first.spec.id.clone()],
        specification: "---\nstatus: done\n---\nLine\n\n    code".to_owned(),
        ..new("")
    };
    let second = add(world.root(), &hard).unwrap();
    assert_eq!(second.spec.id.as_str(), "TASK-002");
    assert_eq!((&second.spec.title, &second.spec.specification), (&hard.title, &hard.specification));
    assert_eq!((second.spec.depends_on.clone(), second.status), (hard.depends_on, StageTaskStatus::Todo));
    assert_eq!(load(world.root()).tasks, [first, second]);
    // The name of a file counts, also if the file is no task; so does a task in a file of another name.
    world.write(&format!("{FOLDER}/TASK-007.md"), "torn");
    world.write(&format!("{FOLDER}/other.md"), "---\nid: TASK-009\ntitle: T\n---\nx\n");
    assert_eq!(add(world.root(), &new("T")).unwrap().spec.id.as_str(), "TASK-010");
    let mode = fs::metadata(world.root().join(".dacapo/tasks/TASK-010.md")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(
        world.names(),
        ["TASK-001.md", "TASK-002.md", "TASK-007.md", "TASK-010.md", "other.md"],
        "nothing is left behind"
    );
}

#[test]
fn nothing_is_written_over_and_nothing_wrong_is_written() {
    let world = World::new();
    world.task("TASK-001", "");
    world.write(&format!("{FOLDER}/mine.md"), "---\nid: OWN\ntitle: T\n---\nx\n");
    world.write(&format!("{FOLDER}/torn.md"), "torn");
    let before = world.names();
    let with_id = |text: &str| NewTask { id: Some(id(text)), ..new("T") };
    let depends = |on: &str| NewTask { depends_on: vec![id(on)], ..with_id("A-1") };
    let refused = [
        with_id("TASK-001"),
        with_id("task-001"),
        with_id("OWN"),
        with_id("torn"),
        depends("A-1"),
        depends("NOT-THERE"),
        new("two\nlines"),
        NewTask { specification: "x".to_owned(), ..new(" ") },
        new(&"x".repeat(201)),
        NewTask { specification: "  \n".to_owned(), ..new("T") },
        NewTask { specification: "x".repeat(2 << 20), ..new("T") },
    ]
    .map(|new| add(world.root(), &new).unwrap_err().to_string());
    let expected = [
        "there is a task `TASK-001` already, `.dacapo/tasks/TASK-001.md`",
        "there is a task `task-001` already, `.dacapo/tasks/TASK-001.md`",
        "there is a task `OWN` already, `.dacapo/tasks/mine.md`",
        "there is a task `torn` already, `.dacapo/tasks/torn.md`",
        "`A-1` depends on itself",
        "there is no task `NOT-THERE`",
        "`title` must be one line of visible characters",
        "`title` must not be blank",
        "`title` is longer than 200 characters",
        "the task has no specification",
        "larger than 1024 KiB",
    ];
    assert_eq!(refused, expected);
    assert_eq!(world.names(), before);
    assert_eq!(fs::read_to_string(world.root().join(FOLDER).join("torn.md")).unwrap(), "torn");
    // A task whose neighbours are broken can be added all the same.
    add(world.root(), &NewTask { depends_on: vec![id("OWN")], ..new("T") }).unwrap();
}

#[test]
fn many_that_add_at_once_get_an_id_each() {
    let world = World::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            let root = world.root();
            scope.spawn(move || (0..3).for_each(|_| drop(add(root, &new("T")).unwrap())));
        }
    });
    assert_eq!(world.ids().len(), 24);
}

#[test]
fn a_status_is_set_and_nothing_else_and_can_be_put_back() {
    let world = World::new();
    let file = format!("{FOLDER}/T-1.md");
    let text = "---\r\nid: T-1\r\ntitle: T # a note\r\nmine: {kept: as it is}\r\nstatus:   todo\r\n---\r\nstatus: todo\r\n";
    world.write(&file, text);
    let path = world.root().join(&file);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(set_status(world.root(), &file, StageTaskStatus::Reviewing).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), text.replacen("status:   todo", "status:   reviewing", 1));
    assert_eq!(load(world.root()).tasks[0].status, StageTaskStatus::Reviewing);
    assert!(!set_status(world.root(), &file, StageTaskStatus::Reviewing).unwrap(), "nothing is left to do");
    assert!(set_status(world.root(), &file, StageTaskStatus::Todo).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(world.names(), ["T-1.md"]);
    // What is no task is not made into one, and nothing outside is touched.
    world.write(&format!("{FOLDER}/torn.md"), "torn");
    for file in [format!("{FOLDER}/torn.md"), format!("{FOLDER}/gone.md"), "../x.md".to_owned()] {
        assert!(set_status(world.root(), &file, StageTaskStatus::Done).is_err(), "{file}");
    }
}
