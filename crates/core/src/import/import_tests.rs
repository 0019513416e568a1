use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::unit::check;

const SETTINGS: UnitSettings<'_> = UnitSettings { dir: "specs/tasks", name: None, check: Some("make test") };

fn imported(kind: SourceKind, file: &str, text: &str) -> Imported {
    import(kind, file, text.as_bytes(), &SETTINGS).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// What is wrong with a source: line and words.
fn wrong(kind: SourceKind, file: &str, text: &str) -> Vec<(u32, String)> {
    let problems = import(kind, file, text.as_bytes(), &SETTINGS).unwrap_err();
    for problem in &problems {
        assert!(problem.fix.is_some() && problem.file == file, "{problem:?}");
    }
    problems.into_iter().map(|problem| (problem.line, problem.what)).collect()
}

/// Number, title, dependencies and proof of each task, read back from the files as units are.
fn tasks(imported: &Imported) -> Vec<(u32, String, Vec<u32>, String)> {
    let mut tasks = Vec::new();
    for file in imported.files.iter().filter(|file| !file.path.ends_with("PLAN.md")) {
        let spec = check::task(&file.path, file.text.as_bytes()).unwrap().spec;
        tasks.push((spec.number, spec.title, spec.depends_on, spec.backpressure));
    }
    tasks.sort();
    tasks
}

fn text<'a>(imported: &'a Imported, path: &str) -> &'a str {
    let known: Vec<&str> = imported.files.iter().map(|file| file.path.as_str()).collect();
    let file = imported.files.iter().find(|file| file.path == path);
    &file.unwrap_or_else(|| panic!("no {path} in {known:?}")).text
}

const PRD: &str = r#"{
  "project": "Task board",
  "branchName": "ralph/task-priority",
  "description": "Priorities for tasks.",
  "userStories": [
    {
      "id": "US-002", "title": "Show a badge", "description": "As a user, I see the priority.",
      "acceptanceCriteria": ["Red for high", "Typecheck passes"], "priority": 2, "passes": false, "notes": ""
    },
    {"id": "US-001", "title": "Add a field", "priority": 1, "passes": true},
    {"id": "US-003", "title": "Filter by it", "priority": 3, "passes": false, "notes": "Only open ones"}
  ]
}"#;

#[test]
fn stories_become_tasks_in_the_order_of_their_priority() {
    let unit = imported(SourceKind::Prd, "prd.json", PRD);
    let product = Product::Unit {
        name: "task-priority".parse().unwrap(),
        folder: "specs/tasks/task-priority".to_owned(),
        tasks: 2,
        done: 1,
        unproven: 0,
    };
    assert_eq!((&unit.product, &unit.notes), (&product, &vec![]));
    insta::assert_snapshot!(text(&unit, "specs/tasks/task-priority/01-show-a-badge.md"), @r"
    ---
    task: 1
    status: pending
    backpressure: make test
    ---

    # US-002: Show a badge

    As a user, I see the priority.

    ## Acceptance criteria

    - Red for high
    - Typecheck passes

    Imported from `prd.json`, line 6.
    ");
    insta::assert_snapshot!(text(&unit, "specs/tasks/task-priority/02-filter-by-it.md"), @r"
    ---
    task: 2
    status: pending
    backpressure: make test
    depends_on: [1]
    ---

    # US-003: Filter by it

    Notes: Only open ones

    Imported from `prd.json`, line 11.
    ");
    insta::assert_snapshot!(text(&unit, "specs/tasks/task-priority/IMPLEMENTATION_PLAN.md"), @r"
    # Task board

    Imported from `prd.json`.

    Priorities for tasks.

    Done before:

    - Add a field
    ");
    // The plan makes a folder a unit: it is written last.
    assert!(unit.files.last().unwrap().path.ends_with("/IMPLEMENTATION_PLAN.md"));
}

#[test]
fn the_shapes_of_stories_that_people_write() {
    let line = |number, title: &str, depends_on: &[u32], check: &str| {
        (number, title.to_owned(), depends_on.to_vec(), check.to_owned())
    };
    for (json, expected) in [
        // A list alone, without ids, as feature lists have it.
        (
            r#"[{"category": "ui", "description": "New chat\nopens", "steps": ["Click"], "passes": false}, {"description": "Second"}]"#,
            vec![line(1, "New chat", &[], "make test"), line(2, "Second", &[1], "make test")],
        ),
        // Dependencies that are written down, and only those; what is done is no dependency any more.
        (
            r#"{"tasks": [{"id": "c", "title": "C", "depends_on": ["b", "d"]}, {"id": "b", "title": "B", "dependsOn": ["a"]},
                {"id": "a", "title": "A", "dependencies": []}, {"id": "d", "title": "D", "status": "done"}]}"#,
            vec![
                line(1, "a: A", &[], "make test"),
                line(2, "b: B", &[1], "make test"),
                line(3, "c: C", &[2], "make test"),
            ],
        ),
        // Commands that prove a story, numbers as ids, words as priorities.
        (
            r#"{"stories": [{"id": 7, "title": "Low", "priority": "low"},
                {"id": 8, "title": "High", "priority": "high", "verificationCommands": ["npm test", "npm run lint -- \"a: b\""]}]}"#,
            vec![
                line(1, "8: High", &[], "npm test && npm run lint -- \"a: b\""),
                line(2, "7: Low", &[1], "make test"),
            ],
        ),
    ] {
        assert_eq!(tasks(&imported(SourceKind::Prd, "prd.json", json)), expected, "{json}");
    }
}

#[test]
fn what_is_wrong_with_stories_is_said_with_its_line() {
    for (json, expected) in [
        ("{\"userStories\": [\n  {\"title\": \"a\"},\n]}", (3, "not JSON: trailing comma")),
        ("{\"name\": \"x\"}", (1, "there are no stories in it: no `userStories`")),
        ("7", (1, "there are no stories in it")),
        ("[]", (1, "there are no stories in it")),
        ("{\"userStories\":\n {}}", (2, "`userStories` must be a list")),
        ("[{\"title\": \"a\"},\n 7]", (2, "story 2: it must be an object")),
        ("[{\"id\": \"a\", \"title\": \"\"}]", (1, "story 1: `title` is missing")),
        ("[{\"title\": \"a\", \"passes\": 3}]", (1, "story 1: `passes` must be true or false, not 3")),
        ("[{\"title\": \"a\", \"steps\": {}}]", (1, "story 1: `steps` must be a list of texts")),
        (
            "[{\"id\": \"a\", \"title\": \"a\"},\n{\"id\": \"a\", \"title\": \"b\"}]",
            (2, "`a` is there twice, first in line 1"),
        ),
        (
            "[{\"id\": \"abc\", \"title\": \"a\"},\n{\"id\": \"b\", \"title\": \"b\", \"dependsOn\": [\"abd\"]}]",
            (2, "there is no task `abd` to depend on"),
        ),
        (
            "[{\"id\": \"a\", \"title\": \"a\", \"dependsOn\": [\"b\"]}, {\"id\": \"b\", \"title\": \"b\", \"dependsOn\": [\"a\"]}]",
            (1, "tasks wait for each other: `a`, `b`"),
        ),
        ("", (1, "the file is empty")),
        ("[\"\0\"]", (1, "a NUL character is not allowed")),
    ] {
        assert_eq!(wrong(SourceKind::Prd, "prd.json", json), [(expected.0, expected.1.to_owned())], "{json}");
    }
    let nearest = import(
        SourceKind::Prd,
        "prd.json",
        b"[{\"id\": \"abc\", \"title\": \"a\", \"dependsOn\": [\"abd\"]}]",
        &SETTINGS,
    );
    assert_eq!(nearest.unwrap_err()[0].fix.as_deref(), Some("did you mean `abc`?"));
    let latin = import(SourceKind::Prd, "prd.json", b"[\n\"\xe4\"]", &SETTINGS).unwrap_err();
    assert_eq!((latin[0].line, latin[0].what.as_str()), (2, "not UTF-8"));
}

#[test]
fn the_open_items_of_a_checklist_become_tasks() {
    let unit = imported(
        SourceKind::Checklist,
        "docs/TODO.md",
        "# The shop\n\nUse plain HTML.\n\n- [x] Front page\n- [ ] **Cart**: add up\n  what is in it\n  - [ ] with tax\n  - Verify: `sh total.sh`\n\
         * [ ] Checkout\n\n## Later\n\n1. [ ] Mail $HOME\n2. [-] Fax\n\n```\n- [ ] no item\n```\n",
    );
    let line = |number, title: &str, depends_on: &[u32], check: &str| {
        (number, title.to_owned(), depends_on.to_vec(), check.to_owned())
    };
    assert_eq!(
        tasks(&unit),
        [
            line(1, "Cart: add up", &[], "sh total.sh"),
            line(2, "Checkout", &[1], "make test"),
            line(3, "Mail $HOME", &[2], "make test"),
        ]
    );
    insta::assert_snapshot!(text(&unit, "specs/tasks/todo/01-cart-add-up.md"), @r"
    ---
    task: 1
    status: pending
    backpressure: sh total.sh
    ---

    # Cart: add up

    what is in it
    - [ ] with tax
    - Verify: `sh total.sh`

    Imported from `TODO.md`, line 6.
    ");
    insta::assert_snapshot!(text(&unit, "specs/tasks/todo/IMPLEMENTATION_PLAN.md"), @r"
    # The shop

    Imported from `TODO.md`.

    Use plain HTML.

    ## Later

    ```
    - [ ] no item
    ```

    Done before:

    - Front page
    - Fax
    ");
    assert!(text(&unit, "specs/tasks/todo/03-mail-home.md").contains("\nPart of: Later\n"));
}

#[test]
fn a_plan_has_its_tasks_in_a_checklist_in_headings_or_in_a_list() {
    let titles = |text: &str| -> Vec<String> {
        tasks(&imported(SourceKind::Plan, "IMPLEMENTATION_PLAN.md", text))
            .into_iter()
            .map(|task| task.1)
            .collect()
    };
    for (text, expected) in [
        ("# Plan\n- [ ] one\n- plain\n## Task 1: no\n", vec!["one"]),
        (
            "# Plan\n## Phase 1: base\n### Task 1.1: one\nwords\n- a\n### Task 1.2: two ✅\n## Phase 2: more\nthree\n## Notes\nx\n",
            vec!["one", "more"],
        ),
        ("### 1. first\n### 2) second\n### Not a task\n", vec!["first", "second"]),
        ("# Plan\nWords.\n\n- one\n  - inner\n- ~~gone~~\n- two\n", vec!["one", "two"]),
        ("1. one\n2. two\n", vec!["one", "two"]),
    ] {
        assert_eq!(titles(text), expected, "{text}");
    }
    let none = wrong(SourceKind::Plan, "IMPLEMENTATION_PLAN.md", "# Plan\n\nOnly words.\n");
    assert_eq!(none, [(1, "there are no tasks in it".to_owned())]);
    let none = wrong(SourceKind::Checklist, "x.md", "- one\n");
    assert!(none[0].1.starts_with("holds no checklist"));
}

#[test]
fn what_is_done_is_not_imported_and_what_nothing_proves_is_said() {
    let done = imported(SourceKind::Checklist, "TODO.md", "- [x] one\n- [X] two\n");
    assert_eq!((done.product, done.files), (Product::Nothing { done: 2 }, vec![]));
    let settings = UnitSettings { check: None, ..SETTINGS };
    let unit =
        import(SourceKind::Checklist, "TODO.md", b"- [ ] one\n- [ ] two\n  - Test: `make`\n", &settings)
            .unwrap();
    assert!(matches!(unit.product, Product::Unit { unproven: 1, .. }));
    assert_eq!(
        unit.notes,
        ["no command proves 1 task: each counts as done when its agent says so; `--check CMD` names one"]
    );
    assert_eq!(tasks(&unit)[0].3, "true");
    assert!(
        text(&unit, "specs/tasks/todo/01-one.md").contains("# No command was known that proves this task")
    );
}

#[test]
fn a_unit_of_more_than_a_hundred_tasks_is_still_one() {
    let list: String = (1..=120).map(|n| format!("- [ ] task {n}\n")).collect();
    let unit = imported(SourceKind::Checklist, "TODO.md", &list);
    let tasks = tasks(&unit);
    assert_eq!((tasks.len(), tasks[119].2.as_slice()), (120, [119].as_slice()));
    assert!(unit.files.iter().any(|file| file.path == "specs/tasks/todo/99-120-task-120.md"));
    let many: String = (1..=1001).map(|n| format!("- [ ] task {n}\n")).collect();
    assert_eq!(
        wrong(SourceKind::Checklist, "TODO.md", &many),
        [(1, "1001 tasks are open, and a unit has at most 1000".to_owned())]
    );
}

#[test]
fn the_name_of_a_unit_can_be_chosen() {
    let named =
        |name| import(SourceKind::Checklist, "TODO.md", b"- [ ] a\n", &UnitSettings { name, ..SETTINGS });
    assert!(named(Some("mine")).unwrap().files[0].path.starts_with("specs/tasks/mine/"));
    assert!(named(Some("../x")).unwrap_err()[0].what.contains("is not a valid unit id"));
    let odd = import(SourceKind::Checklist, "完了.md", "- [ ] 完了\n".as_bytes(), &SETTINGS).unwrap();
    assert_eq!(odd.files[0].path, "specs/tasks/imported/01-task.md");
}

const STATE: &str = "---\nactive: true\niteration: 3\nsession_id: abc\nmax_iterations: 20\ncompletion_promise: \"ALL GREEN\"\nstarted_at: \"2026-11-01T10:00:00Z\"\n---\n\nMake the tests pass: use $HOME and $USER_MESSAGE.\n";

#[test]
fn the_loop_of_a_session_becomes_a_workflow() {
    let file = ".claude/ralph-loop.local.md";
    assert_eq!(recognise(file, STATE.as_bytes()), Ok(SourceKind::RalphLoop));
    let workflow = imported(SourceKind::RalphLoop, file, STATE);
    insta::assert_snapshot!(text(&workflow, ".dacapo/workflows/ralph-loop.yaml"), @r#"
    name: ralph-loop
    description: "Imported from ralph-loop.local.md: Make the tests pass: use $HOME and $USER_MESSAGE."
    loop:
      until: "ALL GREEN"
      max_iterations: 20
      fresh_context: false
    prompt: |
      Make the tests pass: use ${HOME} and ${USER_MESSAGE}.

      ## Completion

      When all of this is true and done, and not before, output:
      <promise>ALL GREEN</promise>

      If something is left, end normally: another iteration will run.
    "#);
    assert_eq!(
        workflow.notes,
        [
            "the loop in the session goes on beside this one: end it with `/cancel-ralph`",
            "`$NAME` in the prompt was written as `${NAME}`, so that no variable is taken for one of dacapo's",
        ]
    );
    // Neither a limit nor a promise: dacapo needs both.
    let bare = imported(
        SourceKind::RalphLoop,
        file,
        "---\nactive: false\niteration: 1\nmax_iterations: 0\ncompletion_promise: null\n---\nSay <promise>DONE</promise>.\n",
    );
    let text = text(&bare, ".dacapo/workflows/ralph-loop.yaml");
    assert!(text.contains("max_iterations: 100") && text.contains("until: \"DONE\""), "{text}");
    assert!(!text.contains("## Completion"), "the prompt says it already: {text}");
    assert_eq!(bare.notes.len(), 2);
}

#[test]
fn a_broken_state_is_told() {
    for (text, expected) in [
        ("words", (1, "there is no frontmatter: the first line must be `---`")),
        ("---\niteration: 1\n", (1, "the frontmatter is not closed: a line `---` must follow it")),
        ("---\niteration: 1\nmax_iterations: 3\n---\n \n", (1, "there is no prompt below the head")),
        ("---\nmax_iterations: many\n---\nx\n", (2, "`max_iterations` must be a whole number")),
        ("---\na: &x 1\n---\nx\n", (2, "anchors (`&name`) are not allowed")),
        ("---\n---\nx\n", (1, "there is no state in its head")),
    ] {
        let expected = (expected.0, expected.1.to_owned());
        assert_eq!(wrong(SourceKind::RalphLoop, "x.md", text), [expected], "{text}");
    }
}

#[test]
fn a_source_is_recognised_by_its_name_and_what_it_holds() {
    for (file, text, kind) in [
        ("a/prd.json", "", SourceKind::Prd),
        ("features.JSON", "", SourceKind::Prd),
        ("IMPLEMENTATION_PLAN.md", "- [ ] x", SourceKind::Plan),
        ("TODO.md", "# x\n* [ ] y", SourceKind::Checklist),
        ("notes.markdown", "- [x] y", SourceKind::Checklist),
        ("any.md", "---\niteration: 1\nmax_iterations: 2\n---\nx", SourceKind::RalphLoop),
        ("any.md", "---\ntitle: x\n---\n- [ ] x", SourceKind::Checklist),
        (".archon/workflows/x.yml", "", SourceKind::Archon),
    ] {
        assert_eq!(recognise(file, text.as_bytes()), Ok(kind), "{file}");
    }
    for (file, text) in [("README.md", "# x\n- y"), ("a.txt", ""), ("noext", "")] {
        assert!(recognise(file, text.as_bytes()).unwrap_err().fix.is_some(), "{file}");
    }
}

fn place(commands: &[(&str, &str)]) -> ArchonPlace {
    let commands: BTreeMap<String, String> =
        commands.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    ArchonPlace { commands, branch: Some("trunk".to_owned()), ..ArchonPlace::default() }
}

fn from_archon(text: &str, place: &ArchonPlace) -> Imported {
    let file = ".archon/workflows/Fix_It.yaml".to_owned();
    archon(&[WorkflowSource { file, bytes: text.as_bytes().to_vec(), is_in_place: true }], place)
}

#[test]
fn what_archon_takes_for_granted_is_written_down() {
    let source = "\
# How we fix things
name: fix-it
description: |
  Fixes it.
  Use when: it is broken.
interactive: true
nodes:
  - id: plan
    command: plan
    allowed_tools: [Read]
    timeout: 5
  - id: fix
    depends_on: [plan]
    loop:
      prompt: |
        Fix $plan.output, compare with $BASE_BRANCH; ask $TEAM_LEAD.
      until: DONE
      until_bash: make test
      max_iterations: 5
      gate_message: never asked
  - id: test
    depends_on: [fix]
    bash: make test > $ARTIFACTS_DIR/log
    model: opus
";
    let imported =
        from_archon(source, &place(&[("plan", "Plan it in $ARTIFACTS_DIR/plan.md\n"), ("other", "x")]));
    assert_eq!(imported.problems, []);
    insta::assert_snapshot!(text(&imported, ".dacapo/workflows/fix-it.yaml"), @r#"
    # Imported from .archon/workflows/Fix_It.yaml
    name: fix-it
    description: |
      Fixes it.
      Use when: it is broken.
    replaces: ".archon/workflows/Fix_It.yaml"
    nodes:
      - id: plan
        command: plan
      - id: fix
        depends_on:
          - plan
        loop:
          prompt: |
            Fix $plan.output, compare with trunk; ask ${TEAM_LEAD}.
          until: DONE
          until_bash: make test
          max_iterations: 5
          any: true
      - id: test
        depends_on:
          - fix
        bash: "make test > .dacapo/artifacts/$WORKFLOW_ID/log"
        timeout: 2m
    "#);
    assert_eq!(
        text(&imported, ".dacapo/commands/plan.md"),
        "Plan it in .dacapo/artifacts/$WORKFLOW_ID/plan.md\n"
    );
    assert_eq!(imported.files.len(), 2, "a command that no step names stays where it is");
    let left: Vec<(&str, u32)> =
        imported.left_out.iter().map(|left| (left.key.as_str(), left.line)).collect();
    assert_eq!(
        left,
        [
            ("interactive", 6),
            ("allowed_tools", 10),
            ("timeout", 11),
            ("loop.gate_message", 20),
            ("model", 24)
        ]
    );
    insta::assert_snapshot!(imported.notes.join("\n"), @r"
    `$ARTIFACTS_DIR` became `.dacapo/artifacts/$WORKFLOW_ID`
    `$BASE_BRANCH` became `trunk`
    `.archon/workflows/Fix_It.yaml`: comments between its keys are not taken over
    `.dacapo/workflows/fix-it.yaml`, line 19: weaker: the agent's words alone end this loop, even if `until_bash` fails; take `any` away, and both have to agree
    ");
}

#[test]
fn a_file_that_cannot_be_turned_costs_only_itself() {
    let good = "name: good\ndescription: d\nsteps: [{bash: make}]\n";
    let sources = [
        ("a.yaml", good),
        ("b.yaml", "name: b\ndescription: d\nnodes:\n- id: x\n  script: print(1)\n  runtime: uv\n"),
        ("c.yaml", "name: c\ndescription: d\nnodes: [{id: x, command: gone}]\n"),
        ("d.yaml", "name: d\n"),
        ("e.yaml", good),
        ("f.yaml", "name: f\ndescription: d\nnodes: [{id: x, prompt: $LOOP_PREV.x.output}]\n"),
    ]
    .map(|(file, text)| WorkflowSource { file: file.to_owned(), bytes: text.into(), is_in_place: false });
    let imported = archon(&sources, &ArchonPlace::default());
    assert_eq!(imported.product, Product::Workflows { names: vec!["good".to_owned()] });
    assert!(!imported.files[0].text.contains("replaces"), "{}", imported.files[0].text);
    let told: Vec<String> = imported
        .problems
        .iter()
        .map(|problem| format!("{}:{} {}", problem.file, problem.line, problem.what))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    b.yaml:5 `script` steps are Archon's, and dacapo cannot run them
    c.yaml:3 there is no command `gone` beside it
    d.yaml:1 `description` is missing
    d.yaml:1 Workflow must have 'steps' or 'loop' in d.yaml
    e.yaml:1 another file of these is called `good` too
    f.yaml:3 `$LOOP_PREV` is a variable of Archon's that dacapo has nothing for
    ");
}

fn everything() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{0,20}",
        "[-*+#>` \\[\\]xX~|:0-9.a-z\n\t]{0,40}",
        Just("- [ ] one\n".to_owned()),
        Just("---\n".to_owned()),
        Just("iteration: 1\nmax_iterations: 2\n".to_owned()),
        Just("```\n".to_owned()),
        Just("## Task 1: x\n".to_owned()),
        Just("{\"userStories\": [{\"id\": \"a\", \"title\": \"b\"}]}".to_owned()),
        Just("name: a\ndescription: b\nnodes:\n- id: x\n  prompt: $FOO $x.output\n".to_owned()),
        Just("Verify: `a\"b`\n".to_owned()),
        Just("\u{202e}\r\u{1b}".to_owned()),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn whatever_is_imported_can_be_checked_and_never_panics(text in everything()) {
        for kind in SourceKind::ALL {
            let file = match kind { SourceKind::Prd => "prd.json", SourceKind::Archon => "a.yaml", _ => "a.md" };
            let _ = recognise(file, text.as_bytes());
            let Ok(imported) = import(kind, file, text.as_bytes(), &SETTINGS) else { continue };
            prop_assert_eq!(&imported, &import(kind, file, text.as_bytes(), &SETTINGS).unwrap());
            let mut paths: Vec<&str> = imported.files.iter().map(|file| file.path.as_str()).collect();
            paths.dedup();
            prop_assert_eq!(paths.len(), imported.files.len());
            for file in &imported.files {
                prop_assert!(!file.path.contains("..") && !file.path.starts_with('/'), "{}", file.path);
                let is_good = if file.path.ends_with(".yaml") {
                    crate::workflow::parse(&file.path, file.text.as_bytes(), Default::default()).problems.is_empty()
                } else if file.path.ends_with("PLAN.md") {
                    check::plan(&file.path, file.text.as_bytes()).is_ok()
                } else {
                    check::task(&file.path, file.text.as_bytes()).is_ok()
                };
                prop_assert!(is_good, "{}", file.text);
            }
        }
    }
}
