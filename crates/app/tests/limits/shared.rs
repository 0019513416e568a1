//! Loops that share a provider, or a budget.

use dacapo_testkit::Running;
use jiff::Timestamp;

use crate::{
    events::{begins, done, ends, limited_for, message, script, usage_limit},
    support::{LONG, Limits, assert_has, in_seconds, last_line, world, world_of},
};

#[test]
fn while_a_provider_is_closed_nobody_asks_it_and_then_one_asks_first() {
    // fault E8
    let first = script(&["touch probing", "wait-file go", "append order first", &done()]);
    let other = script(&["append order other".to_owned(), done()]);
    let env = world_of(&[&limited_for(6), &first, &other]);
    let one = env.start_mine(&["-n", "1"]);
    env.wait_for_state("t", "parked");
    let two = env.spawn(env.args("u", &["-n", "1"]));
    env.wait_for_state("u", "parked");
    assert_has(&env.why("u"), "You've hit your 5-hour limit");
    assert_eq!(env.starts(), 1, "the second one asked nobody");
    env.wait_for_file("probing");
    // The time of both has come: the one that did not go first goes on waiting.
    let late = ["t", "u"].map(|task| {
        let until = env.events_of(task, "parked")[0]["until"].as_str().unwrap().parse::<Timestamp>().unwrap();
        until.as_second() + 2
    });
    env.wait_until("both times have come", LONG, || late.iter().all(|late| in_seconds(0) > *late));
    assert_eq!(env.starts(), 2, "one asks first");
    env.write("go", "");
    one.wait(LONG).assert_code(0);
    two.wait(LONG).assert_code(0);
    assert_eq!(env.read("order"), "first\nother\n");
    for task in ["t", "u"] {
        assert_eq!(env.events_of(task, "iteration_started").len(), 1);
    }
}

#[test]
fn when_the_one_that_asks_first_is_stopped_another_one_asks() {
    // fault E8
    let env = world_of(&[&limited_for(4), "touch probing\nhang", &done()]);
    let one = env.start_mine(&["-n", "1"]);
    env.wait_for_state("t", "parked");
    let two = env.spawn(env.args("u", &["-n", "1"]));
    env.wait_for_state("u", "parked");
    env.wait_for_file("probing");
    let first = env.ledger().last().expect("it has started").loop_id.clone();
    env.run(["cancel", &first]).assert_code(0);
    let mut codes = [one, two].map(|running| running.wait(LONG).code);
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(130)]);
}

#[test]
fn another_provider_is_not_closed() {
    let env = world();
    let limited = usage_limit(in_seconds(3600));
    env.configure(
        &[("mine", "claude", "anthropic", &[&limited]), ("other", "claude", "openai", &[&done()])],
        "",
    );
    let _parked = env.start_mine(&[]);
    env.wait_for_state("t", "parked");
    env.run(["run", "x", "-a", "other", "--task", "u"]).assert_code(0);
}

#[test]
fn loops_that_share_a_day_s_budget_exceed_it_by_a_message_each() {
    // req 192, fault J7
    let spends = |name: &str| {
        let step = |number: u32| {
            let id = format!("{name}{number}");
            script(&[format!("wait-file {id}"), message(&id, "On it.", 1000)])
        };
        script(&[begins("s1"), step(1), step(2), step(3), "wait-file never".to_owned(), ends("s1")])
    };
    let env = world();
    env.configure(
        &[
            ("mine", "claude", "anthropic", &[&spends("a")]),
            ("yours", "claude", "anthropic", &[&spends("b")]),
            ("third", "claude", "anthropic", &[&done()]),
        ],
        "limits: {per_day: {max_cost: 0.05}}",
    );
    let zone = zone_of_noon();
    let dacapo = |args: &[&str]| {
        let mut dacapo = env.dacapo(args);
        dacapo.env("TZ", &zone);
        Running::start(dacapo)
    };
    let one = dacapo(&env.args("t", &["-n", "1"]));
    let args =
        ["run", "x", "-a", "yours", "--project", "q", "--task", "u", "--kill-grace", "100ms", "-n", "1"];
    let two = dacapo(&args);
    let cost = |task: &str| env.cost(task);
    env.write("a1", "");
    env.wait_until("one has spent", LONG, || cost("t") == Some(0.02));
    env.write("b1", "");
    env.wait_until("two has spent", LONG, || cost("u") == Some(0.02));
    // The third message is over the limit, whoever sends it.
    env.write("a2", "");
    let output = one.wait(LONG).assert_code(3);
    assert_has(last_line(&output), "failed (budget): cost 0.0600 of 0.0500 USD today");
    assert_has(&env.why("t"), "goes on tomorrow");
    env.write("b2", "");
    let output = two.wait(LONG).assert_code(3);
    assert_has(last_line(&output), "failed (budget): cost 0.0800 of 0.0500 USD today");
    assert_eq!((cost("t"), cost("u")), (Some(0.04), Some(0.04)));
    let output = dacapo(&["run", "x", "-a", "third", "--task", "v"]).wait(LONG).assert_code(3);
    assert_has(last_line(&output), "failed (budget): cost 0.08");
    assert_eq!(env.starts(), 2, "no agent for a budget that is used up");
}

/// A place where it is noon now: no day ends while a test runs there.
fn zone_of_noon() -> String {
    let noon = 12 * 3600;
    let west = Timestamp::now().as_second().rem_euclid(2 * noon) - noon;
    let (sign, west) = (if west < 0 { "-" } else { "" }, west.abs());
    format!("NOON{sign}{}:{:02}:{:02}", west / 3600, west / 60 % 60, west % 60)
}

#[test]
fn an_answer_to_the_one_that_asked_with_now_ends_the_wait_of_the_others() {
    let asks = script(&["touch asking", "wait-file go", &done()]);
    let env = world_of(&[&usage_limit(in_seconds(3600)), &asks, &done()]);
    let one = env.start_mine(&["-n", "1"]);
    env.wait_for_state("t", "parked");
    let two = env.spawn(env.args("u", &["-n", "1"]));
    env.wait_for_state("u", "parked");
    env.run(["resume", "t", "--now"]).assert_code(0);
    env.wait_for_file("asking");
    // Nothing is known before the provider has answered: a loop that begins now waits, too.
    let three = env.spawn(env.args("v", &["-n", "1"]));
    env.wait_for_state("v", "parked");
    assert_eq!(env.starts(), 2);
    env.write("go", "");
    for running in [one, two, three] {
        running.wait(LONG).assert_code(0);
    }
    assert_eq!(env.starts(), 4);
}
