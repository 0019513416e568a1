use super::*;
use crate::duration::Millis;
use crate::policy::{GateFrom, GateIn};

fn repository(text: impl AsRef<[u8]>) -> Result<Config, Problems> {
    parse(".dacapo/config.yaml", text.as_ref(), Author::Repository)
}

fn problems(text: impl AsRef<[u8]>) -> Vec<String> {
    match repository(text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems
            .list
            .iter()
            .map(|problem| format!("{}:{} {}", problem.place.line, problem.place.column, problem.what))
            .collect(),
    }
}

const WHOLE: &str = r#"# everything there is
limits: {max_iterations: 30, max_time: 8h, stuck_after: 10, max_cost: 20, max_tokens: 5000000, per_day: {max_cost: 50.5}, per_project: {max_tokens: 9}}
gates:
  - cargo fmt --check
  - {name: tests, run: cargo test, timeout: 10m, retries: 2}
  - run: |
      set -e
      make lint
protect: ["tests/**", .github/**]
worktree:
  setup:
    - {run: npm ci, if: package-lock.json}
baseline: true
red_first: false
gate_in: clean
gate_from: base
tolerate_baseline: true
contradictions: [not yet, "still failing"]
snapshots: {keep: 7d}
agent: codex
evidence: [commit, approval]
"#;

#[test]
fn every_key_is_read() {
    let at = |value, line| At { value, line };
    let expected = Config {
        file: ".dacapo/config.yaml".to_owned(),
        limits: LimitsSection {
            max_iterations: Some(At { value: 30, line: 2 }),
            max_time: Some(At { value: Millis(28_800_000), line: 2 }),
            stuck_after: Some(At { value: 10, line: 2 }),
            budget: BudgetSetting {
                max_cost: Some(At { value: 20.0, line: 2 }),
                max_tokens: Some(At { value: 5_000_000, line: 2 }),
            },
            per_day: BudgetSetting { max_cost: Some(At { value: 50.5, line: 2 }), max_tokens: None },
            per_project: BudgetSetting { max_cost: None, max_tokens: Some(At { value: 9, line: 2 }) },
            backoff: None,
        },
        gates: vec![
            At {
                value: Gate {
                    name: "cargo fmt --check".to_owned(),
                    run: "cargo fmt --check".to_owned(),
                    timeout: None,
                    retries: 0,
                },
                line: 4,
            },
            At {
                value: Gate {
                    name: "tests".to_owned(),
                    run: "cargo test".to_owned(),
                    timeout: Some(Millis(600_000)),
                    retries: 2,
                },
                line: 5,
            },
            At {
                value: Gate {
                    name: "set -e\nmake lint".to_owned(),
                    run: "set -e\nmake lint\n".to_owned(),
                    timeout: None,
                    retries: 0,
                },
                line: 6,
            },
        ],
        protect: vec![at("tests/**".to_owned(), 9), at(".github/**".to_owned(), 9)],
        worktree: WorktreeSection {
            setup: vec![At {
                value: SetupStep {
                    run: "npm ci".to_owned(),
                    condition: Some("package-lock.json".to_owned()),
                },
                line: 12,
            }],
            teardown: vec![],
        },
        checks: ChecksSection {
            baseline: Some(At { value: true, line: 13 }),
            red_first: Some(At { value: false, line: 14 }),
            gate_in: Some(At { value: GateIn::Clean, line: 15 }),
            gate_from: Some(At { value: GateFrom::Base, line: 16 }),
            tests_mode: None,
            test_paths: vec![],
            tolerate_baseline: Some(At { value: true, line: 17 }),
        },
        contradictions: Some(At {
            value: Contradictions {
                defaults: false,
                phrases: vec!["not yet".to_owned(), "still failing".to_owned()],
            },
            line: 18,
        }),
        evidence: vec![At { value: Evidence::Commit, line: 21 }, At { value: Evidence::Approval, line: 21 }],
        snapshots: Snapshots { keep: Some(At { value: Millis(604_800_000), line: 19 }) },
        agents: Agents { agent: Some(At { value: "codex".to_owned(), line: 20 }), ..Agents::default() },
        ..Config::default()
    };
    let read = repository(WHOLE).unwrap_or_default();
    assert_eq!(read.protect_spots.len(), read.protect.len());
    let expected = Config { protect_spots: read.protect_spots, ..expected };
    assert_eq!(repository(WHOLE), Ok(expected.clone()));
    // fault I7: a mark at the start and other line ends change nothing, not even in a command.
    assert_eq!(repository(format!("\u{feff}{}", WHOLE.replace('\n', "\r\n"))), Ok(expected));
}

#[test]
fn an_empty_file_says_nothing() {
    let nothing = Config { file: ".dacapo/config.yaml".to_owned(), ..Config::default() };
    for text in ["", "# words\n", "{}\n", "---\n", "gates: []\n", "limits: {}\n", "worktree: {setup: []}\n"] {
        assert_eq!(repository(text), Ok(nothing.clone()), "{text:?}");
    }
}

#[test]
fn unknown_keys_name_the_nearest() {
    // req 201
    for (text, expected) in [
        ("gate: x\n", "1:1 unknown key `gate`; did you mean `gates`?"),
        (
            "limits:\n  max-iterations: 3\n",
            "2:3 unknown key `max-iterations`; did you mean `max_iterations`?",
        ),
        ("gates:\n- {run: x, timeuot: 5m}\n", "2:12 unknown key `timeuot`; did you mean `timeout`?"),
        ("worktree: {set_up: []}\n", "1:12 unknown key `set_up`; did you mean `setup`?"),
        ("snapshots: {retain: 1d}\n", "1:13 unknown key `retain`; known here: keep"),
        ("Baseline: true\n", "1:1 unknown key `Baseline`; did you mean `baseline`?"),
        // fault K1: what a repository may never say.
        ("agents: {x: {command: [x]}}\n", "1:1 `agents` is the user's to say, a repository cannot set it"),
        ("environment: inherit\n", "1:1 `environment` is the user's to say, a repository cannot set it"),
        ("trust: true\n", "1:1 `trust` is the user's to say, a repository cannot set it"),
        ("permissions: all\n", "1:1 `permissions` is the user's to say, a repository cannot set it"),
        ("prices: {}\n", "1:1 `prices` is the user's to say, a repository cannot set it"),
        ("fallback: [codex]\n", "1:1 `fallback` is the user's to say, a repository cannot set it"),
    ] {
        assert_eq!(problems(text), [expected], "{text:?}");
    }
    let users = parse("config.yaml", b"hooks: {}\n", Author::User).unwrap_err();
    assert!(users.list[0].what.starts_with("unknown key `hooks`"), "{users}");
}

#[test]
fn values_are_checked_where_they_stand() {
    // req 201, fault I7
    for (text, expected) in [
        ("[a, b]\n", "1:1 the file must be a map of keys, like `limits: …`"),
        ("just words\n", "1:1 the file must be a map of keys, like `limits: …`"),
        ("limits: 5\n", "1:9 `limits` must be a map of keys, like `max_iterations: …`"),
        ("limits: {max_iterations: 0}\n", "1:26 `limits.max_iterations` must be a whole number, 1 or more"),
        ("limits: {max_iterations: -1}\n", "1:26 `limits.max_iterations` must be a whole number, 1 or more"),
        ("limits: {max_iterations: 1.5}\n", "1:26 `limits.max_iterations` must be a whole number, 1 or more"),
        (
            "limits: {max_iterations: \"5\"}\n",
            "1:26 `limits.max_iterations` must be a whole number, 1 or more",
        ),
        ("limits: {max_iterations: 1e9}\n", "1:26 `limits.max_iterations` must be a whole number, 1 or more"),
        (
            "limits: {max_iterations: 99999999999999999999}\n",
            "1:26 `limits.max_iterations` must be a whole number, 1 or more",
        ),
        (
            "limits: {max_time: 5}\n",
            "1:20 `limits.max_time` must be a duration, for example 500ms, 90s, 5m, 1h30m",
        ),
        ("limits: {max_time: 0s}\n", "1:20 `limits.max_time` must be more than zero"),
        ("limits: {stuck_after: 0}\n", "1:23 `limits.stuck_after` must be a whole number, 1 or more"),
        (
            "limits: {max_cost: 0}\n",
            "1:20 `limits.max_cost` must be an amount of US dollars, more than 0, for example 2.50",
        ),
        (
            "limits: {per_day: {max_cost: $5}}\n",
            "1:30 `limits.per_day.max_cost` must be an amount of US dollars, more than 0, for example 2.50",
        ),
        (
            "limits: {max_tokens: 2.5}\n",
            "1:22 `limits.max_tokens` must be a whole number of tokens, 1 or more",
        ),
        (
            "limits: {per_day: {max_iterations: 3}}\n",
            "1:20 unknown key `max_iterations`; did you mean `max_tokens`?",
        ),
        ("limits: {per_project: 5}\n", "1:23 `limits.per_project` must be a map of keys, like `max_cost: …`"),
        ("agent: ''\n", "1:8 `agent` must not be blank"),
        ("limits:\n", "1:1 `limits` has no value"),
        ("gates: cargo test\n", "1:8 `gates` must be a list, like `[one, two]`"),
        ("gates: ~\n", "1:1 `gates` has no value"),
        ("gates: ['  ']\n", "1:9 a gate must not be blank"),
        ("gates: [[x]]\n", "1:9 `gates[]` must be a map of keys, like `name: …`"),
        ("gates: [{name: x}]\n", "1:9 a gate needs a command: `run: …`"),
        ("gates: [{run: }]\n", "1:10 `gates[].run` has no value"),
        ("gates: [{run: [x]}]\n", "1:15 `gates[].run` must be text"),
        ("gates: [{run: x, timeout: 0}]\n", "1:27 `gates[].timeout` must be more than zero"),
        ("gates: [{run: x, retries: -1}]\n", "1:27 `gates[].retries` must be a whole number, 0 or more"),
        ("gates: [make, {name: make, run: x}]\n", "1:15 a gate is called `make` already, in line 1"),
        ("protect: tests\n", "1:10 `protect` must be a list, like `[one, two]`"),
        ("protect: [/etc/**]\n", "1:11 a path must be relative and stay inside the repository"),
        ("protect: [a/../../b]\n", "1:11 a path must be relative and stay inside the repository"),
        ("worktree: {setup: [{if: x}]}\n", "1:20 a setup step needs a command: `run: …`"),
        ("worktree: {setup: [npm ci]}\n", "1:20 `worktree.setup[]` must be a map of keys, like `run: …`"),
        (
            "worktree: {setup: [{run: x, if: ../y}]}\n",
            "1:20 a path must be relative and stay inside the repository",
        ),
        ("baseline: yes\n", "1:11 `baseline` must be `true` or `false`"),
        ("baseline: \"true\"\n", "1:11 `baseline` must be `true` or `false`"),
        ("gate_in: container\n", "1:10 `gate_in` must be `both` or `workspace` or `clean`"),
        ("tests: {mode: none}\n", "1:15 `tests.mode` must be `sealed` or `checked` or `free`"),
        ("tests: {paths: [../x]}\n", "1:17 a path must be relative and stay inside the repository"),
        ("gate_from: head\n", "1:12 `gate_from` must be `workspace` or `base`"),
        ("evidence: commit\n", "1:11 `evidence` must be a list, like `[one, two]`"),
        (
            "evidence: [commit, review]\n",
            "1:20 an entry of `evidence` must be one of commit, tests, approval",
        ),
        ("contradictions: on\n", "1:17 `contradictions` must be `default`, `off` or a list of phrases"),
        ("contradictions: []\n", "1:17 `contradictions` must be `default`, `off` or a list of phrases"),
        ("contradictions: ['']\n", "1:18 a phrase in `contradictions` must not be blank"),
        (
            "snapshots: {keep: forever}\n",
            "1:19 `snapshots.keep` must be a duration, for example 500ms, 90s, 5m, 1h30m",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text:?}");
    }
    let many = format!("gates: [{}]\n", (0..201).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    assert_eq!(problems(many), ["1:8 `gates` has more than 200 entries"]);
}

#[test]
fn all_problems_are_told_at_once_with_their_lines() {
    let text = "limits: {max_iterations: 0}\ngate: x\nbaseline: &a yes\nbaseline: no\n";
    assert_eq!(
        repository(text).unwrap_err().to_string(),
        "\
.dacapo/config.yaml:1:26: `limits.max_iterations` must be a whole number, 1 or more
  1 | limits: {max_iterations: 0}
    |                          ^
.dacapo/config.yaml:2:1: unknown key `gate`; did you mean `gates`?
  2 | gate: x
    | ^
.dacapo/config.yaml:3:14: anchors (`&name`) are not allowed
  3 | baseline: &a yes
    |              ^
.dacapo/config.yaml:3:14: `baseline` must be `true` or `false`
  3 | baseline: &a yes
    |              ^
.dacapo/config.yaml:4:1: `baseline` is there twice, first in line 3
  4 | baseline: no
    | ^"
    );
    let many = (0..30).map(|n| format!("x{n}: 1\n")).collect::<String>();
    let told = repository(many).unwrap_err().to_string();
    assert!(told.ends_with("\n… and 10 more"), "{told}");
    // An error shows a file's text without escape sequences, which could fool the user's terminal.
    let told = repository("a: \u{1b}[2Jx\n").unwrap_err().to_string();
    assert!(!told.contains('\u{1b}'), "{told:?}");
}

#[test]
fn a_pattern_that_protects_nothing_is_shown_where_it_stands() {
    let config =
        repository("gates: [make]\nprotect: [Makefile, \"?new/**\",\n  tests/**]\n").unwrap_or_default();
    let shown = |pattern| config.protects_nothing(pattern).map(|problem| problem.to_string());
    insta::assert_snapshot!(shown("tests/**").unwrap_or_default(), @r"
    .dacapo/config.yaml:3:3: the pattern `tests/**` protects nothing: no file matches it
      3 |   tests/**]
        |   ^
      fix: name files that are there, or write `?tests/**`, which may match nothing yet
    ");
    assert!(shown("Makefile").unwrap_or_default().starts_with(".dacapo/config.yaml:2:11: "));
    assert_eq!(shown("elsewhere"), None, "typed");
}
