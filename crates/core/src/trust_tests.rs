use super::*;
use crate::config::{Author, parse};

const FILE: &str = "\
gates:
  - cargo test
  - {name: lint, run: make lint, timeout: 5m}
protect: [tests/**]
limits: {max_iterations: 5}
worktree: {setup: [{run: npm ci, if: package.json}]}
";

fn list(text: &str) -> Vec<Runnable> {
    runnables(&parse("config.yaml", text.as_bytes(), Author::Repository).unwrap())
}

fn fingerprint(text: &str) -> Fingerprint {
    Fingerprint::of(&list(text))
}

#[test]
fn everything_that_can_run_is_listed_with_its_line() {
    let lines: Vec<String> = list(FILE)
        .iter()
        .map(|r| {
            format!(
                "{} {} [{}] {:?} {:?} {}:{}",
                r.what, r.name, r.command, r.condition, r.timeout, r.file, r.line
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "gate cargo test [cargo test] None None config.yaml:2",
            "gate lint [make lint] None Some(Millis(300000)) config.yaml:3",
            "setup npm ci [npm ci] Some(\"package.json\") None config.yaml:6",
        ]
    );
}

#[test]
fn every_byte_of_what_runs_counts_and_nothing_else() {
    // fault K2
    let before = fingerprint(FILE);
    for (from, to, is_same) in [
        ("cargo test", "cargo tesT", false),
        ("cargo test", "cargo test\u{a0}", false),
        ("run: make lint", "run: 'make lint '", false),
        ("name: lint", "name: link", false),
        ("timeout: 5m", "timeout: 6m", false),
        (", timeout: 5m", "", false),
        ("if: package.json", "if: package.jso", false),
        (", if: package.json", "", false),
        ("  - cargo test\n", "", false),
        ("  - cargo test\n", "  - cargo test\n  - id\n", false),
        ("max_iterations: 5", "max_iterations: 9", true),
        ("tests/**", "other/**", true),
        ("gates:\n", "# words\n\ngates:\n", true),
        ("timeout: 5m", "timeout: 300s", true),
        ("run: make lint", "run: \"make lint\"", true),
    ] {
        assert!(FILE.contains(from), "{from}");
        assert_eq!(fingerprint(&FILE.replacen(from, to, 1)) == before, is_same, "{from:?} -> {to:?}");
    }
    assert_ne!(fingerprint("gates: [a, b]"), fingerprint("gates: [b, a]"), "order matters");
    assert_ne!(fingerprint("gates: [ab, c]"), fingerprint("gates: [a, bc]"));
    assert_eq!(fingerprint(""), fingerprint("limits: {}"));
    assert_eq!(before.to_string().len(), 64);
}

#[test]
fn any_changed_byte_of_a_command_changes_the_number() {
    // fault K2: each byte of each command, one at a time.
    let original = list(FILE);
    let before = Fingerprint::of(&original);
    for (index, runnable) in original.iter().enumerate() {
        for at in 0..runnable.command.len() {
            let mut bytes = runnable.command.clone().into_bytes();
            bytes[at] ^= 1;
            let mut changed = original.clone();
            changed[index].command = String::from_utf8(bytes).unwrap();
            assert_ne!(Fingerprint::of(&changed), before);
        }
    }
}

#[test]
fn changes_are_what_was_removed_and_added() {
    let (old, new) = (list("gates: [a, b, c]"), list("\n\ngates: [c, b, d]"));
    let changes = Changes::between(&old, &new);
    let names = |list: &[&Runnable]| list.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&changes.removed), names(&changes.added)),
        (vec!["a".to_owned()], vec!["d".to_owned()])
    );
    let (old, new) = (list("gates: [a, b]"), list("gates: [b, a]"));
    assert_eq!(Changes::between(&old, &new), Changes::default());
}

#[test]
fn a_loops_gates_are_covered_by_what_was_granted() {
    let gate = |run: &str, origin| GateSpec { origin, ..GateSpec::of_command(run) };
    let yes = crate::judge::promise::PromiseRule::new("YES").unwrap();
    let question = crate::policy::GateQuestion { prompt: "Well?".to_owned(), yes, no: vec![] };
    let gates = [
        gate("a", Origin::Repository),
        gate("x", Origin::Repository),
        gate("y", Origin::Typed),
        gate("z", Origin::User),
        GateSpec { ask: Some(question), ..gate("asks", Origin::Repository) },
    ];
    let left: Vec<&str> =
        uncovered(&gates, &list("gates: [a, b]")).into_iter().map(|gate| gate.run.as_str()).collect();
    assert_eq!(left, ["x"]);
}

#[test]
fn what_a_unit_needs_is_listed_too() {
    // fault K1
    let text = "units: {baseline: [{name: lint, run: make lint, pattern: '*.c', timeout: 1m}]}\nworktree: {teardown: [{run: docker stop x, if: a}]}\n";
    let lines: Vec<String> = list(text)
        .iter()
        .map(|r| {
            format!("{} {} [{}] {:?} {:?} {}", r.what, r.name, r.command, r.condition, r.timeout, r.line)
        })
        .collect();
    assert_eq!(
        lines,
        [
            "teardown docker stop x [docker stop x] Some(\"a\") None 2",
            "baseline lint [make lint] Some(\"*.c\") Some(Millis(60000)) 1",
        ]
    );
    assert_ne!(fingerprint(text), fingerprint(&text.replace("make lint", "make link")));
}

fn units(text: &str) -> Vec<Runnable> {
    use crate::unit::check::{File, all, unit};
    let plan = |file| File { file, bytes: b"" };
    let task = File { file: "s/a/01-x.md", bytes: text.as_bytes() };
    let other = File { file: "s/b/01-x.md", bytes: b"---\ntask: 1\nbackpressure: make b\n---\n" };
    let checked = all(vec![unit("s/a", plan("s/a/P.md"), &[task]), unit("s/b", plan("s/b/P.md"), &[other])]);
    assert_eq!(checked.problems, []);
    unit_runnables(&checked.units)
}

#[test]
fn a_changed_backpressure_needs_consent_and_nothing_else_does() {
    // fault K2, req 32
    const TASK: &str = "---\ntask: 1\nstatus: pending\nbackpressure: make a\n---\n# Title\nText\n";
    let granted = units(TASK);
    let names: Vec<(&str, &str)> = granted.iter().map(|r| (r.what.as_str(), r.name.as_str())).collect();
    assert_eq!(names, [("backpressure", "a #1"), ("backpressure", "b #1")]);
    assert_eq!((granted[0].file.as_str(), granted[0].line), ("s/a/01-x.md", 4));
    for (from, to, missing) in [
        ("pending", "complete", 0),
        ("Title", "Other", 0),
        ("Text", "Other", 0),
        ("---\ntask", "---\n# words\ntask", 0),
        ("make a", "make A", 1),
        ("make a", "make a ; id", 1),
    ] {
        let now = units(&TASK.replacen(from, to, 1));
        assert_eq!(not_granted(&now, &granted).len(), missing, "{from} -> {to}");
    }
    // What one unit needs is covered by consent to all of them, never the other way round.
    assert_eq!(not_granted(&granted[1..], &granted).len(), 0);
    assert_eq!(not_granted(&granted, &granted[1..]).len(), 1);
    assert_eq!(not_granted(&granted, &[]).len(), 2);
}

#[test]
fn everything_that_a_workflow_runs_needs_consent() {
    // fault K1, fault K2
    let text = "name: x\ndescription: d\nsteps:\n- {id: t, bash: make test}\n- id: l\n  loop: {prompt: p, until: X, until_bash: make all, max_iterations: 1, gates: [{name: lint, run: make lint}]}\n- {id: a, prompt: p, gates: [make a]}\n- approval: ok?\n";
    let read = |text: &str| {
        let file = ".dacapo/workflows/x.yaml";
        crate::workflow::parse(file, text.as_bytes(), crate::workflow::ParseSettings::default())
            .workflow
            .unwrap()
    };
    let found = workflow_runnables(&read(text));
    let shown: Vec<(&str, &str, &str, u32)> = found
        .iter()
        .map(|one| (one.what.as_str(), one.name.as_str(), one.command.as_str(), one.line))
        .collect();
    assert_eq!(
        shown,
        [
            ("script", "x t", "make test", 4),
            ("until", "x l", "make all", 5),
            ("gate", "x l lint", "make lint", 5),
            ("gate", "x a make a", "make a", 7),
        ]
    );
    // One byte of what runs is another number; prose is not.
    let number = |text: &str| Fingerprint::of(&workflow_runnables(&read(text)));
    assert_ne!(number(text), number(&text.replace("make all", "make  all")));
    assert_eq!(
        number(text),
        number(&text.replace("description: d", "description: other").replace("ok?", "fine?"))
    );
}

#[test]
fn gates_of_stages_are_listed_and_cover_the_gates_of_their_loops() {
    // fault K1, fault K2
    let text = "stages:\n  reviewer: {gates: [make lint]}\n  coder:\n    gates:\n      - {name: unit, run: make test, timeout: 5m}\n";
    let all = list(text);
    let lines: Vec<String> = all
        .iter()
        .map(|r| format!("{} {} [{}] {:?} {}", r.what, r.name, r.command, r.timeout, r.line))
        .collect();
    assert_eq!(
        lines,
        ["coder gate unit [make test] Some(Millis(300000)) 5", "reviewer gate make lint [make lint] None 2"]
    );
    assert_ne!(fingerprint(text), fingerprint(&text.replace("reviewer", "qa")), "it runs at another time");
    let gate = |run: &str| GateSpec { origin: Origin::Repository, ..GateSpec::of_command(run) };
    assert!(uncovered(&[gate("make lint")], &all).is_empty());
    assert_eq!(uncovered(&[gate("make other")], &all), [&gate("make other")]);
    // Nothing else that is called so is a gate.
    let script = Runnable { what: "teardown gate".to_owned(), ..all[1].clone() };
    assert_eq!(uncovered(&[gate("make lint")], &[script]).len(), 1);
}

#[test]
fn commands_that_verify_a_task_are_listed_with_their_file_line_and_folder() {
    // fault K1, fault K2
    let text = |folder: &str| {
        format!(
            "---\nid: T-1\ntitle: T\ncompletion:\n  stages:\n    tester:\n      verify:\n        method: multi_stage\n        steps:\n\
             \x20         - {{method: semantic}}\n          - {{method: external, command: make a{folder}}}\n\
             \x20         - {{method: external, command: make b, timeout: 9}}\n    coder: {{verify: {{method: external, command: make c}}}}\n---\nx\n"
        )
    };
    let of = |folder: &str| {
        let task = crate::stages::task::parse("t.md", text(folder).as_bytes()).unwrap();
        task_runnables(&[task])
    };
    let lines: Vec<String> = of("")
        .iter()
        .map(|r| format!("{} {} [{}] {:?} {}:{}", r.what, r.name, r.command, r.timeout, r.file, r.line))
        .collect();
    assert_eq!(
        lines,
        [
            "verify T-1 coder [make c] Some(Millis(300000)) t.md:13",
            "verify T-1 tester [make a] Some(Millis(300000)) t.md:11",
            "verify T-1 tester #2 [make b] Some(Millis(9000)) t.md:12",
        ]
    );
    let (before, moved) = (of(""), of(", working_dir: web"));
    assert_eq!(not_granted(&moved, &before), [&moved[1]], "in another folder it is another command");
}

#[test]
fn a_configuration_that_asks_for_less_says_what_it_dropped() {
    const ALL: &str = "\
gates:
  - cargo test
protect: [tests/**, Makefile]
baseline: true
red_first: true
gate_in: clean
gate_from: base
tests: {mode: sealed, paths: [checks/**]}
evidence: [commit]
contradictions: [to do, not done]
units: {baseline: [{name: all, run: make all}]}
stages: {tester: {tests: checked, gates: [make e2e]}}
limits: {max_iterations: 5}
worktree: {setup: [{run: npm ci}]}
";
    let asks = |text: &str| demands(&parse("config.yaml", text.as_bytes(), Author::Repository).unwrap());
    let before = asks(ALL);
    for (from, to, dropped) in [
        ("", "", &[][..]),
        // More than before, another order, and what proves nothing.
        ("Makefile]", "Makefile, more/**]", &[]),
        ("[tests/**, Makefile]", "[Makefile, tests/**]", &[]),
        ("[tests/**, Makefile]", "['?tests/**', Makefile]", &[]),
        ("max_iterations: 5", "max_iterations: 50", &[]),
        ("npm ci", "npm install", &[]),
        // Less.
        ("gates:\n  - cargo test\n", "", &["gate cargo test"]),
        (", Makefile]", "]", &["protect Makefile"]),
        ("protect: [tests/**, Makefile]\n", "", &["protect tests/**", "protect Makefile"]),
        ("protect: [tests/**", "protect: [tests/*", &["protect tests/**"]),
        ("baseline: true", "baseline: false", &["baseline true"]),
        ("red_first: true\n", "", &["red_first true"]),
        ("gate_in: clean", "gate_in: both", &["gate_in clean"]),
        ("gate_in: clean", "gate_in: workspace", &["gate_in both", "gate_in clean"]),
        ("gate_from: base", "gate_from: workspace", &["gate_from base"]),
        ("mode: sealed", "mode: checked", &["tests.mode sealed"]),
        ("mode: sealed", "mode: free", &["tests.mode checked", "tests.mode sealed"]),
        (", paths: [checks/**]", "", &["tests.paths checks/**"]),
        ("evidence: [commit]\n", "", &["evidence commit"]),
        (", not done", "", &["contradictions not done"]),
        ("units: {baseline: [{name: all, run: make all}]}\n", "", &["baseline all"]),
        ("tests: checked, ", "", &["stages.tester.tests checked"]),
        (", gates: [make e2e]", "", &["tester gate make e2e"]),
    ] {
        assert!(ALL.contains(from), "{from}");
        let now = asks(&ALL.replacen(from, to, 1));
        let found: Vec<String> =
            no_longer_asked(&before, &now).iter().map(|r| format!("{} {}", r.what, r.name)).collect();
        assert_eq!(found, dropped, "{from} -> {to}");
    }
    assert_eq!(asks(""), []);
    // Neither is less: what has to match, and what may match nothing.
    let (must, may) = (asks("protect: [x]\n"), asks("protect: ['?x']\n"));
    assert_eq!((no_longer_asked(&must, &may), no_longer_asked(&may, &must)), (vec![], vec![]));
    let dropped: Vec<String> = no_longer_asked(&may, &asks("")).into_iter().map(|r| r.name).collect();
    assert_eq!(dropped, ["x"]);
}
