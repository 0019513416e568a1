//! What makes a loop another one, and what does not.

use super::*;
use crate::{duration::Millis, judge::promise::PromiseRule, limits::Budget};

fn settings(change: impl FnOnce(&mut RunSettings)) -> RunSettings {
    let agent = AgentCommand::parse("./agent.sh --fast", &[]).unwrap();
    let mut settings = RunSettings::new(Policy::restart(agent, PromiseRule::new("DONE").unwrap()));
    change(&mut settings);
    settings
}

fn spec(number: u32) -> TaskSpec {
    TaskSpec {
        number,
        title: "One".to_owned(),
        file: format!("specs/tasks/auth/{number:02}-one.md"),
        backpressure: "make test".to_owned(),
        line: 4,
        depends_on: Vec::new(),
        writes: Vec::new(),
        frozen: "f".to_owned(),
    }
}

fn unit() -> UnitId {
    "auth".parse().unwrap()
}

fn turn(settings: &RunSettings) -> Purpose {
    Purpose::turn(settings, &unit(), "c1", &[spec(1), spec(2)])
}

#[test]
fn what_the_user_chose_or_agreed_to_makes_another_loop() {
    type Change = Box<dyn FnOnce(&mut RunSettings)>;
    let before = turn(&settings(|_| {}));
    assert_eq!(before.step, PlanStep::Turn);
    assert_eq!(before, turn(&settings(|_| {})), "the same again");
    let other_agent = AgentCommand::parse("./agent.sh --slow", &[]).unwrap();
    let changes: Vec<(&str, Change)> = vec![
        ("tries", Box::new(|s| s.max_retries = 5)),
        ("money", Box::new(|s| s.policy.limits.max_cost = Some(1.0))),
        ("silence", Box::new(|s| s.policy.limits.idle_timeout = Some(Millis::from_secs(1)))),
        (
            "a budget of the run",
            Box::new(|s| s.policy.limits.per_run = Budget { max_cost: Some(1.0), ..Budget::default() }),
        ),
        ("a gate", Box::new(|s| s.policy.gates.specs.push(GateSpec::of_command("make lint")))),
        ("a gate's time", Box::new(|s| s.backpressure_timeout = Millis::from_secs(1))),
        (
            "an agent",
            Box::new({
                let agent = other_agent.clone();
                move |s| s.policy.agent.command = agent
            }),
        ),
        (
            "an agent of the unit",
            Box::new(move |s| {
                s.providers.insert(unit(), other_agent);
            }),
        ),
    ];
    for (what, change) in changes {
        assert_ne!(before, turn(&settings(change)), "{what}");
    }
    let settings = settings(|_| {});
    let of = |base: &str, tasks: &[TaskSpec]| Purpose::turn(&settings, &unit(), base, tasks);
    assert_ne!(before, of("c2", &[spec(1), spec(2)]), "its changes count from elsewhere");
    assert_ne!(before, of("c1", &[spec(1)]));
    let command = TaskSpec { backpressure: "true".to_owned(), ..spec(2) };
    assert_ne!(before, of("c1", &[spec(1), command]));
    let frozen = TaskSpec { frozen: "g".to_owned(), ..spec(2) };
    assert_ne!(before, of("c1", &[spec(1), frozen]));
    let moved = TaskSpec { line: 9, title: "Uno".to_owned(), ..spec(2) };
    assert_eq!(before, of("c1", &[spec(1), moved]), "words around the command are not frozen");
}

#[test]
fn what_concerns_the_run_alone_makes_no_other_loop() {
    let before = turn(&settings(|_| {}));
    let same = settings(|s| {
        s.retry_failed = true;
        s.max_time = Some(Millis::from_mins(1));
        s.typed_target = Some("dev".to_owned());
        s.submodules = true;
    });
    assert_eq!(before, turn(&same));
}

#[test]
fn another_default_makes_no_other_loop() {
    // What two versions with other defaults would tell, as far as the key is concerned: nothing.
    let default = |poll_interval: u64, tries: u64| json!({ "policy": { "poll_interval": poll_interval }, "max_retries": tries });
    let of_old = different(&default(1000, 3), &default(1000, 3));
    let of_new = different(&default(250, 5), &default(250, 5));
    assert_eq!(of_old, of_new);
    assert_eq!(of_old, json!({}));
    // A field that the older version did not have is no difference either.
    let newer = json!({ "policy": { "poll_interval": 250, "more": true }, "max_retries": 3 });
    assert_eq!(different(&newer, &newer), of_old);
    // A value that was chosen is a difference, with any default.
    assert_eq!(different(&default(7, 3), &default(1000, 3)), json!({ "policy": { "poll_interval": 7 } }));
}

#[test]
fn a_key_holds_nothing_that_the_user_did_not_choose_or_agree_to() {
    let settings = settings(|_| {});
    let found = key(PlanStep::Turn, &settings, &unit(), "c1", json!([task(&spec(1))]));
    let expected = json!({
        "step": "turn",
        "unit": "auth",
        "base": "c1",
        "about": [[1, "specs/tasks/auth/01-one.md", "make test", [], [], "f"]],
        "agent": {
            "name": settings.policy.agent.command.name,
            "model": null,
            "more": ["./agent.sh", "--fast"],
            "less": [],
            "env": [],
        },
        "chosen": { "gates": [], "settings": {} },
    });
    assert_eq!(found, expected);
}

#[test]
fn an_agent_that_dacapo_knows_may_be_started_in_another_way_by_another_version() {
    let claude = |options: &AgentOptions| catalog::find("claude").unwrap().command(options).unwrap();
    let plain = claude(&AgentOptions::default());
    assert_eq!(agent(&plain), json!({ "name": "claude", "model": null, "more": [], "less": [], "env": [] }));
    let model = AgentOptions { model: Some("haiku".to_owned()), ..AgentOptions::default() };
    assert_ne!(agent(&claude(&model)), agent(&plain));
    let extra = AgentOptions { extra: vec!["--debug".to_owned()], ..AgentOptions::default() };
    assert_eq!(agent(&claude(&extra))["more"], json!(["--debug"]));
    let asks = AgentOptions { permissions: catalog::Permissions::OwnSettings, ..AgentOptions::default() };
    assert_eq!(agent(&claude(&asks))["less"], json!(["--dangerously-skip-permissions"]));
}

#[test]
fn proofs_differ_by_what_must_hold_and_by_their_step() {
    let settings = settings(|_| {});
    let check =
        BaselineCheck { name: "lint".to_owned(), run: "make lint".to_owned(), pattern: None, timeout: None };
    let holds = MustHold { tasks: vec![spec(1)], others: vec![(unit(), spec(2))], checks: vec![check] };
    let of = |step, holds: &MustHold| Purpose::proof(step, &settings, &unit(), "c1", holds);
    let merge = of(PlanStep::Merge, &holds);
    assert_eq!(merge, of(PlanStep::Merge, &holds));
    assert_ne!(merge.key, of(PlanStep::SentBack, &holds).key);
    assert_ne!(merge, of(PlanStep::Merge, &MustHold { others: Vec::new(), ..holds.clone() }));
    assert_ne!(merge, of(PlanStep::Merge, &MustHold { checks: Vec::new(), ..holds.clone() }));
    let baseline = Purpose::baseline(&settings, &unit(), "c1", &holds.checks);
    assert_ne!(baseline.key, merge.key);
    assert_ne!(baseline, Purpose::baseline(&settings, &unit(), "c1", &[]));
}
