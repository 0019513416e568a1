use super::*;
use crate::config::{Author, parse};

fn config(file: &str, text: &str) -> Config {
    let author = if file == "user" { Author::User } else { Author::Repository };
    parse(file, text.as_bytes(), author).unwrap()
}

fn resolved(user: &str, repository: &str, typed: &Typed) -> Effective {
    resolve(&config("user", user), &config("repo", repository), typed)
}

fn file(file: &str, line: u32) -> SettingSource {
    SettingSource::File { file: file.to_owned(), line }
}

#[test]
fn without_anything_the_defaults_hold() {
    let default = |value| Sourced { value, from: SettingSource::Default };
    let nothing = || Allowance {
        max_cost: Sourced { value: None, from: SettingSource::Default },
        max_tokens: Sourced { value: None, from: SettingSource::Default },
    };
    assert_eq!(
        resolved("", "", &Typed::default()),
        Effective {
            backoff: Sourced { value: Millis::from_secs(30), from: SettingSource::Default },
            max_iterations: Sourced { value: 100, from: SettingSource::Default },
            max_time: Sourced { value: None, from: SettingSource::Default },
            stuck_after: Sourced { value: None, from: SettingSource::Default },
            gates: vec![],
            protect: vec![],
            setup: vec![],
            teardown: vec![],
            units: EffectiveUnits {
                dir: Sourced { value: "specs/tasks".to_owned(), from: SettingSource::Default },
                parallel: Sourced { value: 4, from: SettingSource::Default },
                target: Sourced { value: None, from: SettingSource::Default },
                max_retries: Sourced { value: 3, from: SettingSource::Default },
                baseline: vec![],
                submodules: default(false),
            },
            // Their defaults have tests of their own, beside them.
            session: resolved("", "", &Typed::default()).session,
            stages: resolved("", "", &Typed::default()).stages,
            sandbox: resolved("", "", &Typed::default()).sandbox,
            commands: Sourced { value: None, from: SettingSource::Default },
            baseline: default(false),
            red_first: default(false),
            gate_in: Sourced { value: GateIn::Workspace, from: SettingSource::Default },
            tests: Sourced { value: TestsMode::Free, from: SettingSource::Default },
            test_paths: vec![],
            gate_from: Sourced { value: GateFrom::Workspace, from: SettingSource::Default },
            tolerate_baseline: default(false),
            contradictions: Sourced { value: Contradictions::default(), from: SettingSource::Default },
            evidence: vec![],
            snapshots_keep: Sourced { value: None, from: SettingSource::Default },
            notify: vec![],
            agent: Sourced { value: None, from: SettingSource::Default },
            agents: vec![],
            fallback: Sourced { value: vec![], from: SettingSource::Default },
            environment: Sourced { value: EnvironmentRule::Inherit, from: SettingSource::Default },
            unattended: default(true),
            allow_root: default(false),
            prices: vec![],
            budget: nothing(),
            per_day: nothing(),
            per_project: nothing(),
        }
    );
}

#[test]
fn a_repository_lowers_limits_and_never_raises_them() {
    // fault K1
    for (user, repository, typed, value, from) in [
        (None, None, None, 100, SettingSource::Default),
        (None, Some(30), None, 30, file("repo", 1)),
        (None, Some(500), None, 100, SettingSource::Default),
        (Some(500), None, None, 500, file("user", 1)),
        (Some(500), Some(200), None, 200, file("repo", 1)),
        (Some(50), Some(200), None, 50, file("user", 1)),
        (Some(50), Some(50), None, 50, file("user", 1)),
        (Some(50), Some(20), Some(1000), 1000, SettingSource::Flag("--max-iterations")),
    ] {
        let text = |n: Option<u32>| n.map(|n| format!("limits: {{max_iterations: {n}}}")).unwrap_or_default();
        let typed = Typed { max_iterations: typed, ..Typed::default() };
        let effective = resolved(&text(user), &text(repository), &typed);
        assert_eq!(effective.max_iterations, Sourced { value, from }, "{user:?} {repository:?} {typed:?}");
    }
    for (user, repository, typed, value, from) in [
        ("", "8h", None, Some("8h"), file("repo", 1)),
        ("2h", "8h", None, Some("2h"), file("user", 1)),
        ("8h", "2h", None, Some("2h"), file("repo", 1)),
        ("8h", "", None, Some("8h"), file("user", 1)),
        ("1h", "1h", Some("9h"), Some("9h"), SettingSource::Flag("--max-time")),
    ] {
        let text = |time: &str| {
            if time.is_empty() { String::new() } else { format!("limits: {{max_time: {time}}}") }
        };
        let millis = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        let typed = Typed { max_time: millis(typed), ..Typed::default() };
        let effective = resolved(&text(user), &text(repository), &typed);
        assert_eq!(effective.max_time, Sourced { value: millis(value), from }, "{user} {repository}");
    }
    let stuck =
        resolved("limits: {stuck_after: 5}", "limits: {stuck_after: 9}", &Typed::default()).stuck_after;
    assert_eq!(stuck, Sourced { value: Some(5), from: file("user", 1) });
}

#[test]
fn gates_are_added_up_in_order() {
    let typed = Typed { gates: vec!["c".to_owned()], gate_timeout: Millis(7), ..Typed::default() };
    let effective = resolved("gates: [a]", "\ngates: [{name: B, run: b, timeout: 1s, retries: 3}]", &typed);
    let gate = |name: &str, run: &str, timeout, origin, retries, from| EffectiveGate {
        spec: GateSpec {
            name: name.to_owned(),
            timeout: Millis(timeout),
            retries,
            origin,
            ..GateSpec::of_command(run)
        },
        from,
    };
    assert_eq!(
        effective.gates,
        [
            gate("a", "a", 7, Origin::User, 0, file("user", 1)),
            gate("B", "b", 1000, Origin::Repository, 3, file("repo", 2)),
            gate("c", "c", 7, Origin::Typed, 0, SettingSource::Flag("--gate")),
        ]
    );
}

#[test]
fn checks_only_become_stricter() {
    for (user, repository, expected) in [
        ("baseline: false", "baseline: true", (true, false, false)),
        ("baseline: true", "baseline: false", (true, false, false)),
        ("", "red_first: true", (false, true, false)),
        ("red_first: true", "red_first: false", (false, true, false)),
        ("", "tolerate_baseline: true", (false, false, true)),
        ("tolerate_baseline: false", "tolerate_baseline: true", (false, false, false)),
    ] {
        let e = resolved(user, repository, &Typed::default());
        assert_eq!(
            (e.baseline.value, e.red_first.value, e.tolerate_baseline.value),
            expected,
            "{user} {repository}"
        );
    }
    // The stricter of both counts.
    let modes = |user: &str, repository: &str| {
        let e = resolved(user, repository, &Typed::default());
        (e.gate_in.value, e.tests.value)
    };
    let (less, more) = ("gate_in: workspace\ntests: {mode: free}", "gate_in: clean\ntests: {mode: sealed}");
    assert_eq!(modes("", ""), (GateIn::Workspace, TestsMode::Free));
    for (user, repository) in [(less, more), (more, less), ("", more), (more, "")] {
        assert_eq!(modes(user, repository), (GateIn::Clean, TestsMode::Sealed));
    }
    let both = "gate_in: both\ntests: {mode: checked}";
    assert_eq!(modes(both, less), (GateIn::Both, TestsMode::Checked));
    let e = resolved("gate_in: clean", "gate_in: workspace\ngate_from: base", &Typed::default());
    assert_eq!(e.gate_in, Sourced { value: GateIn::Clean, from: file("user", 1) });
    assert_eq!(e.gate_from, Sourced { value: GateFrom::Base, from: file("repo", 2) });
    for (user, repository, defaults, phrases) in [
        ("default", "off", true, vec![]),
        ("off", "default", true, vec![]),
        ("[a, b]", "[b, c]", false, vec!["a", "b", "c"]),
        ("default", "[x]", true, vec!["x"]),
        ("off", "off", false, vec![]),
    ] {
        let text = |value: &str| format!("contradictions: {value}");
        let e = resolved(&text(user), &text(repository), &Typed::default()).contradictions.value;
        assert_eq!((e.defaults, e.phrases), (defaults, phrases.into_iter().map(str::to_owned).collect()));
    }
}

#[test]
fn lists_are_added_up_and_the_disk_is_the_users() {
    let e = resolved(
        "protect: [a]\nsnapshots: {keep: 1d}\nevidence: [tests]",
        "protect: [b, c]\nsnapshots: {keep: 9d}\nworktree: {setup: [{run: x}]}\nevidence: [commit]",
        &Typed::default(),
    );
    let paths: Vec<(&str, String)> =
        e.protect.iter().map(|p| (p.value.as_str(), p.from.to_string())).collect();
    assert_eq!(paths, [("a", "user:1".to_owned()), ("b", "repo:1".to_owned()), ("c", "repo:1".to_owned())]);
    assert_eq!(e.snapshots_keep, Sourced { value: Some(Millis(86_400_000)), from: file("user", 2) });
    assert_eq!(e.setup[0].from, file("repo", 3));
    let evidence: Vec<(&str, &SettingSource)> =
        e.evidence.iter().map(|kind| (kind.value.as_str(), &kind.from)).collect();
    assert_eq!(evidence, [("tests", &file("user", 3)), ("commit", &file("repo", 4))]);
}

#[test]
fn a_repository_lowers_budgets_and_the_user_chooses_the_agent() {
    // fault K1
    let typed = Typed { max_tokens: Some(7), ..Typed::default() };
    let e = resolved(
        "limits: {max_cost: 20, per_day: {max_cost: 5}}\nagent: claude\npermissions: {unattended: false}",
        "limits: {max_cost: 30, max_tokens: 3, per_day: {max_cost: 4.5, max_tokens: 9}}\nagent: codex",
        &typed,
    );
    assert_eq!(e.budget.max_cost, Sourced { value: Some(20.0), from: file("user", 1) });
    assert_eq!(e.budget.max_tokens, Sourced { value: Some(7), from: SettingSource::Flag("--max-tokens") });
    assert_eq!(e.per_day.max_cost, Sourced { value: Some(4.5), from: file("repo", 1) });
    assert_eq!(e.per_day.max_tokens, Sourced { value: Some(9), from: file("repo", 1) });
    assert_eq!(e.per_project.max_cost, Sourced { value: None, from: SettingSource::Default });
    assert_eq!(e.agent, Sourced { value: Some("claude".to_owned()), from: file("user", 2) });
    assert_eq!(e.unattended, Sourced { value: false, from: file("user", 3) });
    let typed = Typed { agent: Some("pi".to_owned()), ..Typed::default() };
    for (user, repository, typed, agent) in [
        ("", "agent: codex", Typed::default(), "codex repo:1"),
        ("agent: mine", "", Typed::default(), "mine user:1"),
        ("agent: mine", "agent: codex", typed, "pi --agent"),
    ] {
        let Sourced { value, from } = resolved(user, repository, &typed).agent;
        assert_eq!(format!("{} {from}", value.unwrap()), agent);
    }
}

#[test]
fn how_often_a_provider_is_asked_again_is_the_user_s_word() {
    // fault E4
    let effective = resolved("limits: {backoff: 5s}", "", &Typed::default());
    assert_eq!(effective.backoff, Sourced { value: Millis::from_secs(5), from: file("user", 1) });
    let refused =
        parse("repo", b"limits: {backoff: 1ms}", Author::Repository).err().map(|p| p.list[0].what.clone());
    assert_eq!(refused.as_deref(), Some("`backoff` is the user's to say, a repository cannot set it"));
}

#[test]
fn a_repository_may_say_what_is_checked() {
    // fault K2
    let lint = "units: {baseline: [{name: lint, run: make lint}]}";
    for (user, repository, expected) in [
        ("", "", false),
        ("gates: [make test]", "protect: [tests/**]", false),
        ("", "gates: [make test]", true),
        ("gates: [make test]", lint, true),
        (lint, "", false),
    ] {
        let effective = resolved(user, repository, &Typed::default());
        assert_eq!(effective.is_checked_by_repository(), expected, "{user} {repository}");
    }
}
