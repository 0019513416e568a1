use super::*;
use crate::{
    duration::Millis,
    stages::{External, StageCompletion, VERIFY_TIMEOUT, Verify},
};

const FILE: &str = ".dacapo/tasks/TASK-001.md";

fn said(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{}: {}", problem.line, problem.what)).collect()
}

fn wrong(text: &str) -> Vec<String> {
    said(&parse(FILE, text.as_bytes()).unwrap_err())
}

/// A good file with these lines in its head.
fn with(lines: &str) -> String {
    format!("---\nid: TASK-001\ntitle: T\n{lines}\n---\nDo it.\n")
}

#[test]
fn a_task_file_is_read() {
    let text = "---\nid: TASK-001\ntitle: Implement user authentication\nstatus: reviewing\ndepends_on: [TASK-000, x]\n\
                writes: [tests/login.py]\nlabels: [kept, ignored]\n---\n\n# Login\n\nWith a password.\n";
    let StageTask { spec, status } = parse(FILE, text.as_bytes()).unwrap();
    assert_eq!(status, StageTaskStatus::Reviewing);
    assert_eq!(
        (spec.id.as_str(), spec.title.as_str(), spec.file.as_str(), spec.specification.as_str()),
        ("TASK-001", "Implement user authentication", FILE, "# Login\n\nWith a password.")
    );
    let depends_on: Vec<&str> = spec.depends_on.iter().map(TaskId::as_str).collect();
    assert_eq!(
        (depends_on, spec.writes.as_slice()),
        (vec!["TASK-000", "x"], &["tests/login.py".to_owned()][..])
    );
    assert_eq!(spec.branch(), "task/TASK-001");
    assert_eq!(spec.completion, TaskCompletion::default());
    assert_eq!(parse(FILE, with("").as_bytes()).unwrap().status, StageTaskStatus::Todo);
}

#[test]
fn completion_has_an_outcome_criteria_and_a_verification_per_stage() {
    // req 198
    let text = with(
        "completion:\n  outcome: People can log in\n  criteria: [wrong passwords are refused]\n  stages:\n    coder:\n      \
         promise: LOGIN_DONE\n      verify: {method: external, command: make test}\n    reviewer: {verify: {method: \
         string_match}}\n    tester:\n      verify:\n        method: multi_stage\n        steps:\n          - {method: external, \
         command: make e2e, success_exit_code: 3, output_contains: ok, output_not_contains: skipped, timeout: 90, working_dir: \
         web}\n          - {method: semantic}",
    );
    let completion = parse(FILE, text.as_bytes()).unwrap().spec.completion;
    let plain = External {
        command: "make test".to_owned(),
        success_exit_code: 0,
        output_contains: None,
        output_not_contains: None,
        timeout: VERIFY_TIMEOUT,
        working_dir: None,
        line: 10,
    };
    let whole = External {
        command: "make e2e".to_owned(),
        success_exit_code: 3,
        output_contains: Some("ok".to_owned()),
        output_not_contains: Some("skipped".to_owned()),
        timeout: Millis(90_000),
        working_dir: Some("web".to_owned()),
        line: 16,
    };
    let of = |promise: Option<&str>, verify| StageCompletion { promise: promise.map(str::to_owned), verify };
    let both = Verify::MultiStage { steps: vec![Verify::External(whole), Verify::Semantic] };
    let expected = TaskCompletion {
        outcome: Some("People can log in".to_owned()),
        criteria: vec!["wrong passwords are refused".to_owned()],
        stages: [
            (StageName::Coder, of(Some("LOGIN_DONE"), Some(Verify::External(plain)))),
            (StageName::Reviewer, of(None, Some(Verify::StringMatch))),
            (StageName::Tester, of(None, Some(both))),
        ]
        .into(),
    };
    assert_eq!(completion, expected);
    assert_eq!(VERIFY_TIMEOUT, Millis(300_000));
    assert_eq!(completion.commands(), ["make test", "make e2e"]);
    let tester = completion.stages[&StageName::Tester].verify.as_ref().unwrap();
    assert_eq!(tester.steps().len(), 2);
    // What is recorded is read again.
    let json = serde_json::to_string(&completion).unwrap();
    assert_eq!(serde_json::from_str::<TaskCompletion>(&json).unwrap(), completion);
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    // req 201, fault I3, fault I5, fault I7
    let coder = |verify: &str| with(&format!("completion: {{stages: {{coder: {{verify: {verify}}}}}}}"));
    for (text, problems) in [
        ("Do it.\n".to_owned(), vec!["1: there is no frontmatter: the first line must be `---`"]),
        ("---\ntitle: T\n---\nx\n".to_owned(), vec!["1: `id` is missing"]),
        ("---\nid: a\n---\nx\n".to_owned(), vec!["1: `title` is missing"]),
        ("---\nid: a\ntitle: T\n---\n \n".to_owned(), vec!["1: the task has no specification"]),
        (
            "---\nid: a..b\ntitle: T\n---\nx\n".to_owned(),
            vec![
                "2: `a..b` is not a valid task id: it becomes a part of a branch's name, in which git allows no `..`, and \
                 neither `.` nor `.lock` at the end",
            ],
        ),
        (
            "---\nid: ../x\ntitle: T\n---\nx\n".to_owned(),
            vec![
                "2: `../x` is not a valid task id: letters, digits, `.`, `_` and `-`, at most 64, starting with a letter or \
                 digit",
            ],
        ),
        (with("status: doing"), vec!["4: `doing` is not a status"]),
        (with("status: reviewin"), vec!["4: `reviewin` is not a status; did you mean `reviewing`?"]),
        (with("status: [todo]"), vec!["4: the value of `status` must be one word behind its key"]),
        (with("depends_on: TASK-002"), vec!["4: `depends_on` must be a list"]),
        (
            with("depends_on: [../x]"),
            vec![
                "4: `../x` is not a valid task id: letters, digits, `.`, `_` and `-`, at most 64, starting with a letter or \
                 digit",
            ],
        ),
        (with("writes: [../x]"), vec!["4: a path must be relative and stay inside the repository"]),
        (with("title: again"), vec!["4: `title` is there twice, first in line 3"]),
        (with("x: &a 1"), vec!["4: anchors (`&name`) are not allowed"]),
        (with("completion: done"), vec!["4: `completion` must be a map of keys"]),
        (with("completion: {outcom: x}"), vec!["4: unknown key `outcom`"]),
        (with("completion: {outcome: ' '}"), vec!["4: `completion.outcome` must not be blank"]),
        (with("completion: {stages: {architect: {}}}"), vec!["4: unknown key `architect`"]),
        (
            with("completion: {stages: {coder: {promise: <promise>X</promise>}}}"),
            vec!["4: the promise holds a `<promise>` tag; give only the words inside the tag"],
        ),
        (coder("{}"), vec!["4: `completion.stages.coder.verify` has no `method`"]),
        (
            coder("{method: guess}"),
            vec![
                "4: `completion.stages.coder.verify.method` must be one of string_match, external, semantic, multi_stage",
            ],
        ),
        (coder("{method: external}"), vec!["4: `completion.stages.coder.verify` has no `command`"]),
        (
            coder("{method: external, command: x, timeout: 0}"),
            vec![
                "4: `completion.stages.coder.verify.timeout` must be a number of seconds, or a duration like 5m",
            ],
        ),
        (
            coder("{method: external, command: x, success_exit_code: 256}"),
            vec![
                "4: `completion.stages.coder.verify.success_exit_code` must be a whole number from 0 to 255",
            ],
        ),
        (
            coder("{method: external, command: x, working_dir: ../y}"),
            vec![
                "4: `completion.stages.coder.verify.working_dir` must be relative and stay inside the repository",
            ],
        ),
        (
            coder("{method: semantic, command: x}"),
            vec!["4: `completion.stages.coder.verify.command` means nothing with `method: semantic`"],
        ),
        (
            coder("{method: multi_stage}"),
            vec!["4: `completion.stages.coder.verify.steps` must be a list of 1 to 20 verifications"],
        ),
        (
            coder("{method: multi_stage, steps: [{method: multi_stage, steps: []}]}"),
            vec!["4: `completion.stages.coder.verify.steps[]` cannot have steps of its own"],
        ),
    ] {
        assert_eq!(wrong(&text), problems, "{text}");
    }
    let long = format!("---\nid: a\ntitle: {}\n---\nx\n", "x".repeat(201));
    assert_eq!(wrong(&long), ["3: `title` is longer than 200 characters"]);
    assert_eq!(
        wrong("---\nid: a\ntitle: \"a\\nb\"\n---\nx\n"),
        ["3: `title` must be one line of visible characters"]
    );
}

/// A task with these dependencies.
fn task(id: &str, depends_on: &str) -> String {
    format!("---\nid: {id}\ntitle: T\ndepends_on: [{depends_on}]\n---\nx\n")
}

fn listed(tasks: &[(&str, &str, &str)]) -> StageTaskList {
    let texts: Vec<(String, String)> =
        tasks.iter().map(|(file, id, depends_on)| ((*file).to_owned(), task(id, depends_on))).collect();
    list(texts.iter().map(|(file, text)| (file.as_str(), text.as_bytes())))
}

#[test]
fn tasks_are_held_against_each_other() {
    for (tasks, good, problems) in [
        (&[("1", "b", "a"), ("2", "a", "")][..], &["a", "b"][..], &[][..]),
        (&[("1", "a", "a")], &[], &["`a` depends on itself"]),
        (&[("1", "a", ""), ("2", "a", "")], &[], &["the id `a` is that of `1`, too"]),
        (&[("1", "Ab", ""), ("2", "aB", "")], &[], &["the id `aB` is that of `1`, too"]),
        (&[("1", "a", "bb"), ("2", "b", "")], &["b"], &["there is no task `bb`"]),
        (
            &[("1", "a", "b"), ("2", "b", "c"), ("3", "c", "a"), ("4", "d", "a"), ("5", "e", "")],
            &["e"],
            &["tasks wait for each other: a -> b -> c -> a"],
        ),
    ] {
        let found = listed(tasks);
        let ids: Vec<&str> = found.tasks.iter().map(|task| task.spec.id.as_str()).collect();
        let whats: Vec<&str> = found.problems.iter().map(|problem| problem.what.as_str()).collect();
        assert_eq!((ids.as_slice(), whats.as_slice()), (good, problems), "{tasks:?}");
        assert!(found.problems.iter().all(|problem| problem.fix.is_some()));
    }
}

#[test]
fn a_task_is_ready_when_everything_it_depends_on_is_done() {
    let mut tasks = listed(&[("1", "a", ""), ("2", "b", "a"), ("3", "c", "a, b")]);
    let ready = |tasks: &StageTaskList| -> Vec<String> {
        tasks.ready().map(|task| task.spec.id.to_string()).collect()
    };
    assert_eq!(ready(&tasks), ["a"]);
    tasks.tasks[0].status = StageTaskStatus::Done;
    assert_eq!(ready(&tasks), ["b"]);
    tasks.tasks[1].status = StageTaskStatus::Testing;
    assert_eq!(ready(&tasks), [""; 0]);
    tasks.tasks[1].status = StageTaskStatus::Done;
    assert_eq!(ready(&tasks), ["c"]);
}

#[test]
fn a_new_file_says_what_was_typed() {
    for (id, title, depends_on, body) in [
        ("TASK-001", "Implement: \"quotes\" # and more", &[][..], "Do it.\n\n---\n\nReally."),
        ("null", "yes", &["007", "TASK-1"], "x"),
        ("1e3", "- [x] {y} 'z' \\ ä🎵", &[], "---\nid: other\n---\nx"),
    ] {
        let ids: Vec<TaskId> = depends_on.iter().map(|id| id.parse().unwrap()).collect();
        let text = format(&id.parse().unwrap(), title, &ids, body);
        let StageTask { spec, status } = parse(FILE, text.as_bytes()).unwrap();
        assert_eq!(
            (spec.id.as_str(), spec.title.as_str(), spec.depends_on, spec.specification.as_str(), status),
            (id, title, ids, body, StageTaskStatus::Todo),
            "{text}"
        );
    }
    for (known, next) in [
        (&[][..], "TASK-001"),
        (&["TASK-001", "TASK-009"], "TASK-010"),
        (&["TASK-1000", "x", "TASK-x"], "TASK-1001"),
    ] {
        assert_eq!(next_id(known.iter().copied()), next);
    }
}

#[test]
fn the_status_is_all_that_dacapo_changes() {
    let text =
        "---\r\nid: a # mine\r\ntitle: T\r\nstatus: reviewing # now\r\nx: 1\r\n---\r\nstatus: text\r\n";
    let after = with_status(text.as_bytes(), StageTaskStatus::Todo).unwrap();
    assert_eq!(String::from_utf8(after).unwrap(), text.replacen("reviewing", "todo", 1));
    for stage in StageName::ALL {
        let status = StageTaskStatus::of_stage(stage);
        let after = with_status(with("").as_bytes(), status).unwrap();
        let task = parse(FILE, &after).unwrap();
        assert_eq!(task.status, status);
        assert_eq!(task.spec.frozen, parse(FILE, with("").as_bytes()).unwrap().spec.frozen);
    }
    let words = StageTaskStatus::ALL.map(StageTaskStatus::as_str);
    assert_eq!(words, ["todo", "implementing", "reviewing", "testing", "done"]);
}

proptest::proptest! {
    #[test]
    fn every_title_that_is_allowed_is_read_as_it_was_typed(title in "\\PC{1,60}", body in "\\PC{1,60}") {
        if let (Ok(title), false) = (checked_title(&title), body.trim().is_empty()) {
            let text = format(&"TASK-001".parse().unwrap(), &title, &[], &body);
            let task = parse(FILE, text.as_bytes()).unwrap();
            proptest::prop_assert_eq!(task.spec.title, title);
            proptest::prop_assert_eq!(task.spec.specification, body.trim());
        }
    }
}

#[test]
fn a_key_that_is_nearly_one_of_ours_gets_a_note_and_others_none() {
    let notes = |head: &str| {
        let text = format!("---\nid: A\ntitle: T\n{head}---\nx\n");
        let found = list([(".dacapo/tasks/a.md", text.as_bytes())]);
        assert_eq!((found.tasks.len(), found.problems.len()), (1, 0), "{head}");
        found.notes.iter().map(Problem::line).collect::<Vec<_>>()
    };
    let place = "`.dacapo/tasks/a.md`, line 4: ";
    for (key, meant) in [
        ("depend_on", "depends_on"),
        ("dependson", "depends_on"),
        ("Depends-On", "depends_on"),
        ("complation", "completion"),
        ("state", "status"),
        ("write", "writes"),
    ] {
        let words =
            format!("`{key}` is no key that dacapo knows, and says nothing to it; did you mean `{meant}`?");
        assert_eq!(notes(&format!("{key}: [x]\n")), [format!("{place}{words}")]);
    }
    for key in ["priority", "labels", "assignee", "estimate", "due", "tags", "owner", "kind"] {
        assert_eq!(notes(&format!("{key}: x\n")), Vec::<String>::new(), "{key}");
    }
}

#[test]
fn a_status_of_work_under_way_does_not_outlast_its_run() {
    use StageTaskStatus::{Done, Implementing, Reviewing, Testing, Todo};
    for (in_file, end, expected) in [
        (Testing, Done, Done),
        (Implementing, Done, Done),
        (Reviewing, Todo, Todo),
        (Todo, Done, Todo),
        (Done, Todo, Done),
        (Done, Done, Done),
    ] {
        assert_eq!(in_file.after_run(end), expected, "{in_file:?} after {end:?}");
    }
}
