use super::*;
use crate::{
    config::{Author, Typed, parse, resolve as resolve_all},
    duration::Millis,
};

fn read(text: &str) -> Result<Config, Vec<String>> {
    parse("c", text.as_bytes(), Author::Repository).map_err(|problems| {
        problems.list.iter().map(|problem| format!("{}: {}", problem.place.line, problem.what)).collect()
    })
}

fn in_force(user: &str, repository: &str) -> EffectiveStages {
    let of = |text: &str, file, author| parse(file, text.as_bytes(), author).unwrap();
    let (user, repository) = (of(user, "u", Author::User), of(repository, "r", Author::Repository));
    resolve_all(&user, &repository, &Typed::default()).stages
}

fn stages(user: &str, repository: &str) -> Vec<Stage> {
    in_force(user, repository).stages.into_iter().map(|known| known.stage).collect()
}

/// The configuration of the pipeline, written out.
const WHOLE: &str = "\
ralph:
  enabled: true
  default_max_iterations: 10
  verify_promises: true
  coder:
    enabled: true
    max_iterations: 15
    completion_promise: \"IMPLEMENTATION_COMPLETE\"
  reviewer:
    enabled: true
    max_iterations: 5
    completion_promise: \"REVIEW_COMPLETE\"
  tester:
    enabled: true
    max_iterations: 10
    completion_promise: \"TESTS_COMPLETE\"
  qa:
    enabled: true
    max_iterations: 5
    completion_promise: \"QA_PASSED\"
";

#[test]
fn what_is_absent_has_its_default_and_what_is_written_out_is_the_same() {
    // req 168, req 169
    let defaults: Vec<Stage> = StageName::ALL.map(Stage::of).into();
    for text in ["", WHOLE, "ralph: {enabled: true}", "ralph: {coder: {enabled: true}}"] {
        assert_eq!(stages("", text), defaults, "{text}");
        assert_eq!(stages(text, ""), defaults, "{text}");
    }
    let effective = in_force("", WHOLE);
    assert_eq!(effective.default_max_iterations.value, 10);
    assert_eq!(effective.default_max_iterations.from.to_string(), "r:3");
    assert_eq!(effective.stages[0].max_iterations_from.to_string(), "r:7");
    assert_eq!(effective.stages[3].promise_from.to_string(), "r:20");
    assert_eq!(in_force("", "").default_max_iterations.value, 10);
}

#[test]
fn settings_have_second_names() {
    // req 168
    for (text, default, verifies) in [
        ("ralph: {default_max_iterations: 7, verify_promises: false}", 7, false),
        ("ralph: {max_iterations: 7, verify_promise: false}", 7, false),
        ("ralph: {verify_promises: true}", 10, true),
    ] {
        let effective = in_force("", text);
        assert_eq!(effective.default_max_iterations.value, default, "{text}");
        assert!(effective.stages.iter().all(|known| known.stage.verifies == verifies), "{text}");
    }
    for text in ["ralph: {qa: {verify_promise: false}}", "ralph: {qa: {verify_promises: false}}"] {
        let verifies: Vec<bool> = stages("", text).iter().map(|stage| stage.verifies).collect();
        assert_eq!(verifies, [true, true, true, false]);
    }
}

#[test]
fn a_stage_or_all_of_them_can_be_one_pass() {
    // req 170
    use StageMode::{Loop, SinglePass};
    for (user, repository, modes) in [
        ("", "ralph: {enabled: false}", [SinglePass; 4]),
        ("", "ralph: {enabled: false, coder: {enabled: true}}", [SinglePass; 4]),
        ("", "ralph: {reviewer: {enabled: false}}", [Loop, SinglePass, Loop, Loop]),
        ("ralph: {enabled: true}", "ralph: {enabled: false}", [Loop; 4]),
        ("ralph: {qa: {enabled: false}}", "ralph: {qa: {enabled: true}}", [Loop, Loop, Loop, SinglePass]),
    ] {
        let found: Vec<StageMode> = stages(user, repository).iter().map(|stage| stage.mode).collect();
        assert_eq!(found, modes, "{user} {repository}");
    }
}

#[test]
fn a_stage_has_its_agent_its_checks_and_its_limit() {
    let repository = "\
ralph:
  coder: {max_iterations: auto, completion_promise: CODED}
  tester: {max_iterations: 30}
stages:
  reviewer: {agent: codex, model: big}
  tester:
    tests: checked
    gates: [make test, {name: cover, run: make cover, timeout: 2m, retries: 1}]
";
    let found = stages("stages: {reviewer: {agent: gemini}, tester: {gates: [mine]}}", repository);
    assert_eq!((found[0].max_iterations, found[0].promise.as_str()), (IterationLimit::Auto, "CODED"));
    assert_eq!(found[2].max_iterations, IterationLimit::Fixed(30));
    // The user pays, so the user's choice goes first.
    assert_eq!((found[1].agent.as_deref(), found[1].model.as_deref()), (Some("gemini"), Some("big")));
    assert_eq!((found[2].tests, found[1].tests), (TestsMode::Checked, TestsMode::Checked));
    let gates: Vec<_> = found[2]
        .gates
        .iter()
        .map(|gate| (gate.name.as_str(), gate.run.as_str(), gate.timeout, gate.retries, gate.origin))
        .collect();
    assert_eq!(
        gates,
        [
            ("mine", "mine", GateSpec::TIMEOUT, 0, Origin::User),
            ("make test", "make test", GateSpec::TIMEOUT, 0, Origin::Repository),
            ("cover", "make cover", Millis::from_mins(2), 1, Origin::Repository),
        ]
    );
}

#[test]
fn no_stage_has_more_iterations_than_the_user_lets_a_loop_have() {
    // req 186, fault K1
    for (user, repository, expected) in [
        ("limits: {max_iterations: 4}", "ralph: {coder: {max_iterations: 90}}", 4),
        ("limits: {max_iterations: 4}", "", 4),
        ("", "ralph: {coder: {max_iterations: 500}}", 100),
        ("ralph: {coder: {max_iterations: 8}}", "ralph: {coder: {max_iterations: 90}}", 8),
        ("", "limits: {max_iterations: 3}", 3),
    ] {
        let limit = stages(user, repository)[0].max_iterations;
        assert_eq!(limit, IterationLimit::Fixed(expected), "{user} {repository}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    // req 168, req 186, req 201
    for (text, problem) in [
        ("ralph:\n  codr: {enabled: true}", "2: unknown key `codr`; did you mean `coder`?"),
        (
            "stages:\n  architect: {agent: x}",
            "2: unknown key `architect`; known here: coder, reviewer, tester, qa",
        ),
        ("ralph:\n  coder: {enabled: sometimes}", "2: `ralph.coder.enabled` must be `true` or `false`"),
        (
            "ralph:\n  coder:\n    max_iterations: 0",
            "3: `ralph.coder.max_iterations` must be a whole number, 1 or more, or `auto`",
        ),
        (
            "ralph: {coder: {max_iterations: 'auto'}}",
            "1: `ralph.coder.max_iterations` must be a whole number, 1 or more, or `auto`",
        ),
        (
            "ralph: {coder: {max_iterations: -1}}",
            "1: `ralph.coder.max_iterations` must be a whole number, 1 or more, or `auto`",
        ),
        (
            "ralph: {default_max_iterations: auto}",
            "1: `ralph.default_max_iterations` must be a whole number, 1 or more",
        ),
        (
            "ralph:\n  coder:\n    completion_promise: ' '",
            "3: `ralph.coder.completion_promise` must not be blank",
        ),
        ("ralph: {coder: {completion_promise: }}", "1: `ralph.coder.completion_promise` has no value"),
        (
            "ralph: {coder: {completion_promise: <promise>X</promise>}}",
            "1: the promise holds a `<promise>` tag; give only the words inside the tag",
        ),
        (
            "ralph: {coder: {completion_promise: \"A\\nB\"}}",
            "1: `ralph.coder.completion_promise` must be one line: the tag stands alone on its line",
        ),
        (
            "ralph: {coder: {completion_promise: ' A'}}",
            "1: `ralph.coder.completion_promise` must not begin or end with a blank: the words must be equal to the letter",
        ),
        (
            "ralph:\n  coder: {completion_promise: X}\n  qa: {completion_promise: X}",
            "3: the stages `coder` and `qa` have the same promise",
        ),
        (
            "ralph:\n  coder: {completion_promise: QA_PASSED}",
            "2: the stages `coder` and `qa` have the same promise",
        ),
        (
            "ralph:\n  verify_promises: true\n  verify_promise: true",
            "3: `ralph.verify_promise` is the same as `ralph.verify_promises`, which is there too",
        ),
        (
            "stages: {tester: {tests: never}}",
            "1: `stages.tester.tests` must be `sealed` or `checked` or `free`",
        ),
        ("stages: {tester: {gates: [{name: x}]}}", "1: a gate needs a command: `run: …`"),
        ("stages: {coder: {agent: ' '}}", "1: `stages.coder.agent` must not be blank"),
        ("ralph: []", "1: `ralph` must be a map of keys, like `enabled: …`"),
    ] {
        assert_eq!(read(text).unwrap_err(), [problem], "{text}");
    }
}

#[test]
fn promises_that_are_equal_only_because_of_two_files_are_found() {
    let effective =
        in_force("ralph: {coder: {completion_promise: X}}", "ralph: {qa: {completion_promise: X}}");
    assert_eq!(
        effective.problem().as_deref(),
        Some("the stages `coder` and `qa` have the same promise (u:1, r:1)")
    );
    assert_eq!(in_force("", WHOLE).problem(), None);
}

#[test]
fn a_reviewer_that_is_the_coder_s_own_agent_is_warned_about() {
    let warning = "the reviewer is the coder's own agent, `claude`, which finds less in its own work; \
                   `stages.reviewer.agent` may name another";
    for (text, expected) in [
        ("", Some(warning)),
        ("stages: {reviewer: {agent: claude}}", Some(warning)),
        ("stages: {reviewer: {agent: codex}}", None),
        ("stages: {coder: {agent: codex}}", None),
    ] {
        assert_eq!(in_force("", text).self_review("claude").as_deref(), expected, "{text}");
    }
}

#[test]
fn both_files_may_have_the_keys_and_what_the_repository_checks_is_known() {
    for author in [Author::User, Author::Repository] {
        let config = parse("c", b"ralph: {enabled: false}\nstages: {qa: {gates: [make]}}", author).unwrap();
        assert_eq!(config.stages.of[&StageName::Qa].gates[0].line, 2);
        let empty = Config::default();
        let of_repository = resolve_all(&empty, &config, &Typed::default());
        assert!(of_repository.is_checked_by_repository());
        assert!(!resolve_all(&config, &empty, &Typed::default()).is_checked_by_repository());
    }
}

#[test]
fn the_next_run_has_limits_that_past_runs_and_the_user_allow() {
    let effective = in_force(
        "limits: {max_iterations: 20}",
        "ralph: {coder: {max_iterations: auto}, qa: {enabled: false}}",
    );
    let past: Vec<PastRun> = [8, 8, 9].map(|iterations| PastRun { iterations, is_passed: true }).into();
    let limits = |past: &BTreeMap<StageName, Vec<PastRun>>| -> Vec<(u32, String)> {
        let planned = effective.planned(past, 20);
        planned.into_iter().map(|planned| (planned.max_iterations, planned.why)).collect()
    };
    let others = [
        (5, "max_iterations: 5".to_owned()),
        (10, "max_iterations: 10".to_owned()),
        (1, "enabled: false, so there is one pass".to_owned()),
    ];
    let none = limits(&BTreeMap::new());
    assert_eq!(none[0], (15, "auto: 0 past runs, fewer than 3: the default".to_owned()));
    assert_eq!(none[1..], others);
    let learned = limits(&[(StageName::Coder, past)].into());
    assert_eq!(learned[0], (14, "auto: of the last 3 runs nine in ten needed 9 or fewer".to_owned()));
    assert_eq!(learned[1..], others);
}

#[test]
fn the_readme_and_the_reference_show_the_defaults_and_how_to_change_them() {
    // req 199
    for page in [include_str!("../../../../README.md"), include_str!("../../../../docs/reference/config.md")]
    {
        let examples = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let example = examples.filter(|text| text.starts_with("ralph:")).last().unwrap();
        let mut expected: Vec<Stage> = StageName::ALL.map(Stage::of).into();
        expected[1].agent = Some("codex".to_owned());
        let gate = GateSpec { origin: Origin::Repository, ..GateSpec::of_command("cargo test") };
        expected[2].gates = vec![gate];
        assert_eq!(stages("", example), expected);
    }
}

#[test]
fn the_examples_of_the_guide_are_read() {
    let guide = include_str!("../../../../docs/guide/tasks.md");
    for example in guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        read(example).unwrap();
    }
    let task = guide.split("```markdown\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let task = crate::stages::task::parse("TASK-001.md", task.as_bytes()).unwrap();
    assert_eq!(task.spec.completion.commands(), ["make e2e"]);
}
