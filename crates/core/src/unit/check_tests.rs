use proptest::prelude::*;

use super::*;
use crate::unit::frontmatter;

const GOOD: &str = "---\ntask: 2\nstatus: in_progress\nbackpressure: go test ./...\ndepends_on: [1]\nowner: me\n---\n\n# Add it\n\nText.\n";

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|p| format!("{}:{}:{}: {}", p.file, p.line, p.column, p.what)).collect()
}

fn task_file(number: u32, depends_on: &str) -> String {
    format!("---\ntask: {number}\nbackpressure: \"true\"\ndepends_on: {depends_on}\n---\n# Task {number}\n")
}

fn read(folder: &str, plan: &str, tasks: &[&str]) -> ReadUnit {
    let names: Vec<String> = (1..=tasks.len()).map(|n| format!("{folder}/{n:02}-t.md")).collect();
    let files: Vec<File<'_>> =
        names.iter().zip(tasks).map(|(file, text)| File { file, bytes: text.as_bytes() }).collect();
    let plan_file = format!("{folder}/IMPLEMENTATION_PLAN.md");
    unit(folder, File { file: &plan_file, bytes: plan.as_bytes() }, &files)
}

#[test]
fn a_task_is_what_its_file_says() {
    // req 2
    let task = task("specs/tasks/u/02-add.md", GOOD.as_bytes()).unwrap();
    let spec = crate::unit::TaskSpec {
        number: 2,
        title: "Add it".to_owned(),
        file: "specs/tasks/u/02-add.md".to_owned(),
        backpressure: "go test ./...".to_owned(),
        line: 4,
        depends_on: vec![1],
        writes: Vec::new(),
        frozen: frontmatter::frozen(GOOD.as_bytes()),
    };
    assert_eq!(task, Task { spec, status: TaskStatus::InProgress });
}

#[test]
fn fields_may_be_written_in_several_ways() {
    // req 2, req 3, req 4
    for (head, number, status, depends_on, backpressure) in [
        ("task: 1\nbackpressure: x", 1, "pending", vec![], "x"),
        ("number: 3\nbackpressure: x\nstatus: failed", 3, "failed", vec![], "x"),
        ("task: 01\nstatus: \"complete\"\ndepends_on: []\nbackpressure: x", 1, "complete", vec![], "x"),
        ("task: 1\nstatus:\ndepends_on:\nbackpressure: 'a: b # c'", 1, "pending", vec![], "a: b # c"),
        (
            "task: 1\nstatus: ''\ndepends_on: [3, 2, 3]\nbackpressure: |\n  a\n  b",
            1,
            "pending",
            vec![3, 2],
            "a\nb\n",
        ),
        ("task: 1\nstatus: ~\ndepends_on:\n- 4\n- 5\nbackpressure: true", 1, "pending", vec![4, 5], "true"),
    ] {
        let task = task("01-x.md", format!("---\n{head}\n---\n").as_bytes()).unwrap();
        assert_eq!(
            (task.spec.number, task.status.as_str(), task.spec.depends_on, task.spec.backpressure.as_str()),
            (number, status, depends_on, backpressure),
            "{head}"
        );
    }
}

#[test]
fn the_title_is_the_first_heading_of_the_text() {
    // req 4
    let long = "x".repeat(300);
    let cut = format!("{}…", "x".repeat(200));
    for (body, title) in [
        ("# One\n# Two", "One"),
        ("\nwords\n\n#Two\n## Three\n#  Four  \n", "Four"),
        ("```sh\n# not this\n```\n# This", "This"),
        ("~~~~\n~~~\n# not this\n```\n~~~~\n# This", "This"),
        ("    # code\n   # This", "This"),
        ("```\n# never closed", "03-some.md"),
        ("", "03-some.md"),
        ("# \n#\n", "03-some.md"),
        ("# a\u{202e}b\u{1b}[1mc\r\n", "ab[1mc"),
        (&format!("# {long}"), &cut),
    ] {
        let file = format!("---\ntask: 1\nbackpressure: x\n---\n{body}");
        assert_eq!(task("specs/u/03-some.md", file.as_bytes()).unwrap().spec.title, title, "{body:?}");
    }
}

#[test]
fn everything_wrong_in_a_task_file_is_said_at_once() {
    // req 3, req 7, fault I3, fault I4, fault I7
    for (head, expected) in [
        ("owner: me", vec!["1:1: `task` is missing", "1:1: `backpressure` is missing"]),
        ("task: 1\nbackpressure: ' '\n", vec!["3:1: `backpressure` is blank"]),
        ("task: 1\nbackpressure:\n", vec!["3:1: `backpressure` is blank"]),
        ("task: 1\nbackpressure: [a]\n", vec!["3:15: `backpressure` must be one command"]),
        ("task: 1\nnumber: 1\nbackpressure: x", vec!["3:1: both `task` and `number` are there"]),
        ("task:\nbackpressure: x", vec!["2:1: `task` must be a whole number from 1 on"]),
        ("task: 0\nbackpressure: x", vec!["2:7: `task` must be a whole number from 1 on"]),
        ("task: -1\nbackpressure: x", vec!["2:7: `task` must be a whole number from 1 on"]),
        ("task: 1.0\nbackpressure: x", vec!["2:7: `task` must be a whole number from 1 on"]),
        ("task: '1'\nbackpressure: x", vec!["2:7: `task` must be a whole number from 1 on"]),
        ("task: 99999999999999999999\nbackpressure: x", vec!["2:7: `task` must be a whole number from 1 on"]),
        ("number: one\nbackpressure: x", vec!["2:9: `number` must be a whole number from 1 on"]),
        ("task: 1\nstatus: done\nbackpressure: x", vec!["3:9: `done` is not a status"]),
        (
            "task: 1\nstatus: Complete\nbackpressure: x",
            vec!["3:9: `Complete` is not a status; did you mean `complete`?"],
        ),
        ("task: 1\nstatus: [pending]\nbackpressure: x", vec!["3:9: `status` must be one word"]),
        (
            "task: 1\nstatus:\n  pending\nbackpressure: x",
            vec!["3:1: the value of `status` must be one word behind its key"],
        ),
        ("task: 1\nbackpressure: x\ndepends_on: 1", vec!["4:13: `depends_on` must be a list"]),
        ("task: 1\nbackpressure: x\nwrites: a.py", vec!["4:9: `writes` must be a list"]),
        (
            "task: 1\nbackpressure: x\nwrites: [a.py, ' ']",
            vec!["4:16: an entry of `writes` must be the path of a file"],
        ),
        (
            "task: 1\nbackpressure: x\ndepends_on: [1, a, -2, 0, '1', [2]]",
            vec![
                "4:17: an entry of `depends_on` must be the number of a task",
                "4:20: an entry of `depends_on` must be the number of a task",
                "4:24: an entry of `depends_on` must be the number of a task",
                "4:27: an entry of `depends_on` must be the number of a task",
                "4:32: an entry of `depends_on` must be the number of a task",
            ],
        ),
        (
            "{task: 1, backpressure: x}",
            vec!["2:1: the frontmatter must be lines of `key: value`, not one map in braces"],
        ),
        ("- task", vec!["2:1: the frontmatter must be lines of `key: value`"]),
        (
            "task: &a 1\nnumber: *a",
            vec!["2:10: anchors (`&name`) are not allowed", "3:9: aliases (`*name`) are not allowed"],
        ),
        (
            "task: 1\nstatus: done\ntask: 2",
            vec![
                "4:1: `task` is there twice, first in line 2",
                "3:9: `done` is not a status",
                "1:1: `backpressure` is missing",
            ],
        ),
        ("task: !!int 1", vec!["2:13: tags (`!name`) are not allowed"]),
    ] {
        let problems = task("a.md", format!("---\n{head}\n---\n# T\n").as_bytes()).unwrap_err();
        let expected: Vec<String> = expected.into_iter().map(|line| format!("a.md:{line}")).collect();
        assert_eq!(shown(&problems), expected, "{head}");
        assert!(problems.iter().all(|p| p.fix.is_some() && p.snippet.is_some()), "{problems:?}");
    }
}

#[test]
fn a_problem_is_shown_with_its_line_and_what_to_do() {
    let problems =
        task("specs/u/01-x.md", b"---\ntask: 1\nstatus: doen\nbackpressure: x\n---\n").unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "specs/u/01-x.md:3:9: `doen` is not a status\n  3 | status: doen\n    |         ^\n  fix: write one of pending, in_progress, complete, failed"
    );
}

#[test]
fn the_status_on_disk_is_read_again() {
    // req 8
    for status in TaskStatus::ALL {
        let bytes = frontmatter::with_status(GOOD.as_bytes(), status).unwrap();
        assert_eq!(reread("a.md", &bytes), Ok(status));
    }
    // Only the status counts here: what else is wrong with a file is no claim.
    assert_eq!(reread("a.md", b"---\nstatus: complete\n---\n"), Ok(TaskStatus::Complete));
    // req 30
    for bad in [
        &b"status: complete"[..],
        b"---\nstatus: complete",
        b"---\nstatus: done\n---",
        b"---\na: [\n---",
        b"\xff",
    ] {
        assert!(reread("a.md", bad).is_err());
    }
}

#[test]
fn a_plan_may_have_a_head() {
    // req 6
    let text = "---\nunit: shell\ndepends_on: [base, 'config']\nprovider: codex\norch_status: running\norch_pr_number: 12\norch_branch:\nteam: x\n---\n# Plan\n";
    assert_eq!(
        plan("p.md", text.as_bytes()).unwrap(),
        PlanFile {
            unit: Some("shell".to_owned()),
            depends_on: vec!["base".to_owned(), "config".to_owned()],
            provider: Some("codex".to_owned()),
            orch: vec![
                ("orch_status".to_owned(), "running".to_owned()),
                ("orch_pr_number".to_owned(), "12".to_owned()),
            ],
        }
    );
    for none in ["", "# Plan\n\n---\ntext\n---\n", "---\n---\n"] {
        assert_eq!(plan("p.md", none.as_bytes()), Ok(PlanFile::default()), "{none:?}");
    }
    assert_eq!(
        shown(&plan("p.md", b"---\nunit: [a]\ndepends_on: [x, {}, '']\nprovider: {}\n---\n").unwrap_err()),
        [
            "p.md:2:7: `unit` must be one word",
            "p.md:4:11: `provider` must be one word",
            "p.md:3:17: an entry of `depends_on` must be the name of a unit",
            "p.md:3:21: an entry of `depends_on` must be the name of a unit",
        ]
    );
    for (head, expected) in [
        ("unit: ''", "p.md:2:1: `unit` is blank"),
        ("unit:", "p.md:2:1: `unit` is blank"),
        ("provider: ~", "p.md:2:1: `provider` is blank"),
        ("unit: a\nprovider: ' '", "p.md:3:1: `provider` is blank"),
    ] {
        let problems = plan("p.md", format!("---\n{head}\n---\n").as_bytes()).unwrap_err();
        assert_eq!(shown(&problems), [expected]);
    }
    assert!(plan("p.md", b"---\nunit: a\n").is_err());
    assert!(plan("p.md", &vec![b'x'; 2 * 1024 * 1024]).is_err());
}

#[test]
fn numbers_and_dependencies_of_a_unit_fit_together() {
    // req 7
    for (tasks, expected) in [
        (vec![(1, "[]"), (2, "[1]")], vec![]),
        (vec![(2, "[]"), (3, "[2]")], vec!["u/01-t.md:2:7: the first task has number 2, not 1"]),
        (vec![(1, "[]"), (3, "[]")], vec!["u/02-t.md:2:7: task 3 follows task 1: 2 is missing"]),
        (vec![(1, "[]"), (5, "[]")], vec!["u/02-t.md:2:7: task 5 follows task 1: 2 to 4 is missing"]),
        (vec![(1, "[]"), (1, "[]")], vec!["u/02-t.md:2:7: number 1 is taken by `u/01-t.md`"]),
        (vec![(1, "[1]")], vec!["u/01-t.md:4:14: task 1 depends on itself"]),
        (vec![(1, "[9]")], vec!["u/01-t.md:4:14: task 1 depends on task 9, which is not there"]),
        (
            vec![(1, "[]"), (2, "[1, 4]"), (3, "[2]"), (4, "[3]")],
            vec!["u/02-t.md:4:17: tasks wait for each other: 2 -> 4 -> 3 -> 2"],
        ),
        (
            vec![(2, "[2]"), (4, "[7]"), (4, "[]")],
            vec![
                "u/01-t.md:2:7: the first task has number 2, not 1",
                "u/02-t.md:2:7: task 4 follows task 2: 3 is missing",
                "u/03-t.md:2:7: number 4 is taken by `u/02-t.md`",
                "u/01-t.md:4:14: task 2 depends on itself",
                "u/02-t.md:4:14: task 4 depends on task 7, which is not there",
            ],
        ),
    ] {
        let files: Vec<String> = tasks.iter().map(|(number, on)| task_file(*number, on)).collect();
        let read = read("u", "", &files.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(shown(&read.problems), expected);
        assert!(read.unit.is_some(), "each file can be understood");
        assert!(read.problems.iter().all(|p| p.fix.is_some() && p.snippet.is_some()));
    }
    // What can be known of a broken file is said at once, and nothing about what only seems to be missing.
    for (two, expected) in [
        ("---\ntask: 2\n---\n", vec!["u/02-t.md:1:1: `backpressure` is missing"]),
        (
            "---\ntask: 2\nbackpressure: x\ndepends_on: [7, x]\n---\n",
            vec![
                "u/02-t.md:4:17: an entry of `depends_on` must be the number of a task",
                "u/02-t.md:4:14: task 2 depends on task 7, which is not there",
            ],
        ),
        (
            "---\ntask: two\nbackpressure: x\ndepends_on: [7]\n---\n",
            vec!["u/02-t.md:2:7: `task` must be a whole number from 1 on"],
        ),
    ] {
        let read = read("u", "", &[&task_file(1, "[]"), two, &task_file(3, "[2]")]);
        assert_eq!(shown(&read.problems), expected);
        assert!(read.unit.is_none());
    }
}

#[test]
fn units_fit_together() {
    // req 7
    let good = task_file(1, "[]");
    let one = |folder: &str, plan: &str| read(folder, plan, &[&good]);
    let checked = all(vec![one("s/b", "---\ndepends_on: [a]\n---\n"), one("s/a", "# Plan")]);
    assert_eq!(checked.problems, []);
    let ids: Vec<&str> = checked.units.iter().map(|unit| unit.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"], "by id");
    for (units, expected) in [
        (
            vec![one("s/a", "---\ndepends_on: [bb]\n---\n"), one("s/b", "")],
            vec!["s/a/IMPLEMENTATION_PLAN.md:2:14: there is no unit `bb`"],
        ),
        (
            vec![one("s/a", "---\ndepends_on: [a]\n---\n")],
            vec!["s/a/IMPLEMENTATION_PLAN.md:2:14: unit `a` depends on itself"],
        ),
        (
            vec![
                one("s/a", "---\ndepends_on: [c]\n---\n"),
                one("s/b", "---\ndepends_on: [a]\n---\n"),
                one("s/c", "---\ndepends_on: [b]\n---\n"),
                one("s/d", "---\ndepends_on: [a]\n---\n"),
            ],
            vec!["s/a/IMPLEMENTATION_PLAN.md:2:14: units wait for each other: a -> c -> b -> a"],
        ),
        (
            vec![one("s/a", ""), one("s/b", "---\nunit: a\n---\n")],
            vec![
                "s/b/IMPLEMENTATION_PLAN.md:2:7: a unit is called `a` already, by `s/a/IMPLEMENTATION_PLAN.md`",
            ],
        ),
    ] {
        let checked = all(units);
        assert_eq!(shown(&checked.problems), expected);
        assert!(checked.problems.iter().all(|p| p.fix.is_some()));
    }
    // What a broken unit is called is known all the same.
    let broken = ReadUnit::unreadable("s/a", vec![Problem::of_file("s/a/01-x.md", "a link", "remove it")]);
    let checked = all(vec![broken, one("s/b", "---\ndepends_on: [a]\n---\n")]);
    assert_eq!(shown(&checked.problems), ["s/a/01-x.md:1:1: a link"]);
    assert_eq!(checked.units.len(), 1);
}

#[test]
fn an_agent_that_nobody_has_is_named_with_its_line() {
    let good = task_file(1, "[]");
    let known = ["claude", "codex"].map(str::to_owned);
    for (provider, expected) in [
        ("codex", None),
        (
            "codx",
            Some("`s/a/IMPLEMENTATION_PLAN.md`, line 3: no agent is called `codx`; did you mean `codex`?"),
        ),
        (
            "nosuch",
            Some(
                "`s/a/IMPLEMENTATION_PLAN.md`, line 3: no agent is called `nosuch`; name one of claude, codex, or one of \
                 `agents` in your configuration",
            ),
        ),
    ] {
        let read = read("s/a", &format!("---\nunit: a\nprovider: {provider}\n---\n"), &[&good]);
        let unit = read.unit.unwrap();
        assert_eq!(unit.provider_at(), Some(("s/a/IMPLEMENTATION_PLAN.md", 3)));
        assert_eq!(unit.unknown_provider(&known).map(|problem| problem.line()).as_deref(), expected);
    }
}

#[test]
fn what_is_to_be_done_fits_what_is_wrong() {
    let latin = b"---\ntask: 1\nbackpressure: gr\xfcn\n---\n";
    let problem = task("a.md", latin).unwrap_err().remove(0);
    assert_eq!((problem.what.as_str(), problem.fix.as_deref()), ("not UTF-8", Some("save it as UTF-8")));
    assert_eq!(problem.line(), "`a.md`, line 3: not UTF-8; save it as UTF-8");
    assert_eq!(
        Problem::of_file("a.md", "it is gone", "put it back").line(),
        "`a.md`: it is gone; put it back"
    );
}

#[test]
fn a_units_name_is_no_path() {
    // fault I5
    let good = task_file(1, "[]");
    let long = "x".repeat(300);
    for bad in
        ["..", ".", "../x", "a/b", "a..b", "-rf", "a.lock", "%2e%2e", "ä", "a b", &long, "HEAD~1", "@{u}"]
    {
        for (folder, plan) in [
            ("s/good".to_owned(), format!("---\nunit: '{bad}'\n---\n")),
            (format!("s/{}", bad.replace('/', "~")), String::new()),
        ] {
            let read = read(&folder, &plan, &[&good]);
            assert!(read.unit.is_none() && read.problems.len() == 1, "{bad} {folder}");
            assert!(read.problems[0].what.contains("is not a valid unit id"), "{bad}");
        }
        let read = read("s/good", &format!("---\ndepends_on: ['{bad}']\n---\n"), &[&good]);
        let checked = all(vec![read]);
        assert_eq!(checked.problems.len(), 1, "{bad}");
    }
}

#[test]
fn a_bomb_is_only_a_bad_file() {
    // fault I3, fault I4
    let mut bomb = "a0: &a0 [x]\n".to_owned();
    for n in 1..30 {
        bomb.push_str(&format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1));
    }
    let deep = format!("x: {}", "[".repeat(30_000));
    let closed = format!("x: {}{}", "[".repeat(30_000), "]".repeat(30_000));
    let keys: String = (0..6000).map(|n| format!("k{n}: 1\n")).collect();
    for head in [bomb, deep, closed, keys] {
        assert!(task("a.md", format!("---\n{head}\n---\n").as_bytes()).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_task_or_a_list_of_problems(
        head in prop::collection::vec(prop::sample::select(vec![
            "task: 1\n", "task: 2\n", "status: pending\n", "status: x\n", "backpressure: x\n", "depends_on: [1]\n", "depends_on:\n",
            "- 1\n", "\t", "\0", "é", ": ", "&a ", "---\n", "\r", "# x\n", "{", "}", "[", "\"",
        ]), 0..10),
        tail in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = format!("---\n{}---\n", head.concat()).into_bytes();
        bytes.extend(&tail);
        if let Err(problems) = task("a.md", &bytes) {
            prop_assert!(!problems.is_empty());
        }
        let _ = (plan("a.md", &tail), reread("a.md", &bytes), plan("a.md", &bytes));
        let file = File { file: "u/01-a.md", bytes: &bytes };
        let _ = all(vec![unit("u", file, &[file, file])]);
    }
}
