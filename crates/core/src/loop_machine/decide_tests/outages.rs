//! Limits, outages, closed accounts, budgets that are used up, lost sessions: what each does, and that none uses up an iteration.

use std::collections::BTreeMap;

use super::*;
use crate::{
    agent::catalog,
    event::Usage,
    limits::{Budget, Share, Spent},
    loop_machine::SharedBudget,
};

/// An agent that ended in this way; `bend` says what else is known of it.
fn ends_with(outcome: Outcome, bend: impl FnOnce(&mut AgentExit)) -> Input {
    exits_with(1, |r| {
        r.exit.outcome = outcome;
        bend(&mut r.exit);
    })
}

fn second(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap()
}

/// Until when the loop is parked, in seconds after the agent's end.
fn parked(step: &Step) -> i64 {
    let park = step.effects.iter().find_map(|effect| match effect {
        Effect::Park { until, .. } => Some(until.as_second()),
        _ => None,
    });
    park.unwrap_or_else(|| panic!("not parked: {step:?}"))
}

/// Agents whose account is at its limit.
fn closed(agents: &[(usize, i64)]) -> Supply {
    let closed = agents.iter().map(|(index, until)| (*index, (second(*until), "limit".into())));
    Supply { closed: closed.collect(), ..Supply::default() }
}

#[test]
fn a_usage_limit_parks_the_loop_until_its_reset_and_charges_nothing() {
    // req 206, fault E1, fault E3
    let mut sim = Sim::running(policy(|p| p.limits.max_iterations = 1));
    let limited = |reset: Option<i64>| {
        ends_with(Outcome::UsageLimit, |exit| {
            exit.reset_at = reset.map(second);
            exit.detail = Some("You've hit your limit".into());
        })
    };
    let step = sim.feed(limited(Some(3600)));
    assert!((3600..3630).contains(&parked(&step)), "at the reset, a moment of its own later: {step:?}");
    assert!(matches!(&step.effects[..], [.., Effect::CloseProvider { .. }, Effect::Park { .. }]));
    assert!(
        matches!(sim.journal.last(), Some(LoopEvent::Parked { why, .. }) if why == "You've hit your limit")
    );
    // It goes on in the same iteration, which is its only one.
    assert_eq!(sim.work(Input::ParkOver), [Effect::ReadMarkers]);
    assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, attempt: 2, .. }]));
    // A short wait is not made a long one.
    assert!((8..=10).contains(&parked(&sim.clone().feed(limited(Some(8))))));
    // A reset that is past means now; for one without a time the loop looks every quarter of an hour.
    let mut stale = Sim::running(policy(|_| {}));
    assert!(parked(&stale.feed(limited(Some(-100)))) < 30);
    assert_eq!(parked(&sim.clone().feed(limited(None))), 900);
    // A clock that is never right is not asked in a circle.
    let mut stale = stale.after([Input::ParkOver, no_markers()]);
    assert_eq!(parked(&stale.feed(limited(Some(-100)))), 900);
    // A DONE that a person writes meanwhile ends the wait.
    let mut touched = sim.clone().after([limited(None), Input::ParkOver]);
    assert_eq!(touched.work(done_is(DoneFact::File)), [AWAIT_CHILDREN]);
    let end = sim.after([exits(1), no_markers()]);
    assert_eq!((end.over(), end.starts), (Some(Reason::MaxIterations), 2));
    assert_eq!(end.outcomes(), [(1, IterationOutcome::NoClaim)]);
}

#[test]
fn a_person_who_does_not_want_to_wait_has_a_parked_loop_ask_at_once() {
    let parked = || Sim::running(policy(|_| {})).after([ends_by(Outcome::UsageLimit)]);
    let ask = |ask_now| Input::Requested(Request::Unpause { grant: Grant { ask_now, ..NOTHING } });
    let mut sim = parked();
    assert_eq!(sim.feed(ask(false)), Step::default(), "to go on after a pause is not to ask");
    let step = sim.feed(ask(true));
    let asks = [Effect::AskProviders, Effect::ReadMarkers];
    assert_eq!((&work(&step)[..], names(&step.events)), (&asks[..], vec![]));
    assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, attempt: 2, .. }]));
    assert_eq!(sim.work(Input::ParkOver), [], "the time of the park means nothing any more");
    // So does a loop that was stopped while it was parked.
    let grant = Grant { ask_now: true, ..NOTHING };
    let mut stopped = parked().after([CTRL_C]);
    let step = stopped.feed(Input::Resume { grant, output: OutputMarks::default(), pid: 9 });
    assert_eq!(work(&step), [Effect::ConsumeWaitMarker, Effect::AskProviders, Effect::ReadMarkers]);
    assert!(matches!(stopped.work(no_markers())[..], [Effect::StartAgent { iteration: 1, attempt: 2, .. }]));
    // A loop that is not parked has nothing to ask.
    assert_eq!(Sim::running(policy(|_| {})).feed(ask(true)), Step::default());
}

#[test]
fn an_agent_that_says_that_it_is_not_signed_in_is_not_started() {
    let signed_out =
        |closed| Supply { closed, signed_out: Some("Not logged in".into()), ..Supply::default() };
    let codex = || {
        policy(|p| {
            p.agent.command =
                catalog::find("codex").and_then(|agent| agent.command(&Default::default()).ok()).unwrap();
            p.agent.fallback = vec![AgentCommand::parse("other", &[]).unwrap()];
        })
    };
    let mut sim = Sim::new(codex());
    sim.feed(supplied(signed_out(BTreeMap::new())));
    assert_eq!((sim.over(), sim.starts), (Some(Reason::Auth), 0));
    assert_eq!(
        sim.detail(),
        "codex says that it is not signed in (`Not logged in`); sign in to codex: run `codex login`"
    );
    // Once the user has signed in, the loop begins where it was.
    sim.feed(resume());
    assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, attempt: 1, .. }]));
    // What stands in for it is not kept from working.
    let mut stands_in = Sim::new(codex());
    let at_limit = BTreeMap::from([(0, (second(500), "limit".into()))]);
    assert!(matches!(
        stands_in.work(supplied(signed_out(at_limit)))[..],
        [Effect::StartAgent { agent: 1, .. }]
    ));
}

#[test]
fn a_parked_loop_stays_parked_across_crashes_pauses_and_signals() {
    // req 203, fault E1
    let parked = || Sim::running(policy(|_| {})).after([ends_by(Outcome::UsageLimit)]);
    for stop in [Input::OwnerDied, CTRL_C] {
        let mut sim = parked().after([stop]);
        assert_eq!(sim.over(), Some(Reason::Interrupted));
        assert!(matches!(sim.journal.last(), Some(LoopEvent::LoopFinished { iterations: 0, .. })));
        let step = sim.feed(resume());
        assert_eq!(work(&step), [Effect::ConsumeWaitMarker, parks()]);
        assert_eq!(names(&step.events), ["loop_resumed", "parked"], "the person who resumes it is told");
        assert_eq!(sim.work(Input::ParkOver), [Effect::ReadMarkers]);
        assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, attempt: 2, .. }]));
    }
    let mut held = parked().after([PAUSE]);
    assert!(matches!(held.state.phase, Phase::Paused { .. }));
    assert_eq!(held.feed(Input::ParkOver), Step::default(), "the time that comes while it holds is no news");
    let step = held.feed(UNPAUSE);
    assert_eq!(work(&step), [parks()]);
    assert_eq!(names(&step.events), ["unpaused", "parked"]);
    let late = Sim::running(policy(|_| {})).after([PAUSE, ends_by(Outcome::UsageLimit)]);
    assert!(matches!(late.state.phase, Phase::Paused { .. }));
    assert_eq!(late.clone().work(UNPAUSE), [parks()]);
    // Words for the next prompt reach the next attempt, once.
    let mut told = parked().after([steer("use rust"), Input::ParkOver]);
    let step = told.feed(no_markers());
    assert!(prompts(&step)[0].contains("use rust"));
    told.feed(exits(0));
    assert!(!prompts(&told.feed(no_markers()))[0].contains("use rust"));
}

#[test]
fn an_outage_is_waited_out_longer_each_time_and_in_the_end_like_a_limit() {
    // req 206, fault E4, fault E5
    for outcome in [Outcome::RateLimit, Outcome::Overload, Outcome::Network] {
        let mut sim = Sim::running(policy(|p| p.limits.max_iterations = 1));
        let mut waits = vec![];
        for retry in 1..=20_u32 {
            let step = sim.feed(ends_by(outcome));
            waits.push(parked(&step));
            let is_closed = step.effects.iter().any(|e| matches!(e, Effect::CloseProvider { .. }));
            assert_eq!(is_closed, retry > 16, "others need not wait for a hiccup: {retry}");
            sim.feed(Input::ParkOver);
            assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, .. }]));
        }
        assert!(waits[..16].iter().all(|wait| (0..=300).contains(wait)), "{waits:?}");
        assert!(waits[16..].iter().all(|wait| *wait == 900), "{waits:?}");
        assert!(waits[..16].iter().sum::<i64>() <= 3600 + 900, "{waits:?}");
        let better = sim.after([exits(1)]);
        assert_eq!((better.state.counters.outages, better.over()), (0, Some(Reason::MaxIterations)));
    }
    // What the provider asks for is waited for.
    let asked = ends_with(Outcome::RateLimit, |exit| exit.reset_at = Some(second(240)));
    assert!(parked(&Sim::running(policy(|_| {})).feed(asked)) >= 240);
}

#[test]
fn a_closed_account_stops_the_loop_at_once_and_a_person_goes_on_where_it_was() {
    // fault E6
    for (outcome, reason, exit) in [
        (Outcome::Auth, Reason::Auth, 4),
        (Outcome::Billing, Reason::Billing, 4),
        (Outcome::Misuse, Reason::Agent, 5),
    ] {
        let said = |outcome| ends_with(outcome, |exit| exit.detail = Some("run `claude /login`".into()));
        let mut sim = Sim::running(policy(|_| {})).after([said(outcome)]);
        assert_eq!((sim.over(), sim.detail()), (Some(reason), "run `claude /login`"));
        assert!(matches!(
            sim.journal.last(),
            Some(LoopEvent::LoopFinished { exit_code, iterations: 0, .. }) if *exit_code == exit
        ));
        sim.feed(resume());
        assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, attempt: 2, .. }]));
    }
}

#[test]
fn who_has_to_act_is_told_what_to_run() {
    // fault E6
    for (agent, outcome, detail) in [
        ("codex", Outcome::Auth, "401 Unauthorized; sign in to codex: run `codex login`"),
        ("claude", Outcome::Auth, "401 Unauthorized; sign in to claude: run `claude`, then `/login`"),
        (
            "claude",
            Outcome::Billing,
            "401 Unauthorized; the account behind claude needs money or another plan",
        ),
        // dacapo knows no remedy for this agent.
        ("mine", Outcome::Auth, "401 Unauthorized"),
    ] {
        let said = ends_with(outcome, |exit| exit.detail = Some("401 Unauthorized".into()));
        let sim = Sim::running(policy(|p| p.agent.command.name = agent.to_owned())).after([said]);
        assert_eq!(sim.detail(), detail);
    }
}

#[test]
fn what_a_cli_complains_about_every_time_is_said_once() {
    let complains = |text: &str| {
        let warnings = vec![text.to_owned()];
        exits_with(0, move |r| r.warnings = warnings)
    };
    let warned = |step: &Step| names(&step.events).iter().filter(|name| **name == "warned").count();
    let mut sim = Sim::running(policy(|_| {}));
    assert_eq!(warned(&sim.feed(complains("old model"))), 1);
    sim.feed(no_markers());
    assert_eq!(warned(&sim.feed(complains("old model"))), 0);
    sim.feed(no_markers());
    assert_eq!(warned(&sim.feed(complains("older model"))), 1);
    // A resumed loop does not warn again either.
    let mut again = sim.after([no_markers(), Input::OwnerDied, resume(), no_markers()]);
    assert_eq!(warned(&again.feed(complains("old model"))), 0);
}

#[test]
fn a_promise_that_was_heard_outranks_whatever_ended_the_agent() {
    // req 29, fault C8: precedence is over verdicts, so the outage counts again when the claim is refused.
    for outcome in [Outcome::UsageLimit, Outcome::Overload, Outcome::Auth, Outcome::Crash, Outcome::Context] {
        let claims = exits_with(1, |r| {
            r.exit.outcome = outcome;
            r.facts.promise = Some("DONE".into());
        });
        let mut sim = Sim::running(policy(|_| {}));
        assert_eq!(sim.work(claims), [AWAIT_CHILDREN], "{outcome:?}");
        assert!(sim.state.phase.claim().is_some());
        sim.feed(no_children());
        assert_eq!(sim.over(), Some(Reason::Done), "{outcome:?}");
    }
    // Refused, it drops out: the next attempt is in the same iteration and meets what is still in its way.
    for (outcome, iteration) in [(Outcome::UsageLimit, 1), (Outcome::Auth, 1), (Outcome::Crash, 2)] {
        let claims = exits_with(1, |r| {
            r.exit.outcome = outcome;
            r.facts.promise = Some("DONE".into());
        });
        let mut sim = Sim::running(gated(&["g"])).after([claims, no_children()]);
        let step = sim.feed(gate(1));
        assert_eq!(work(&step).contains(&Effect::ReadMarkers), iteration == 1, "{outcome:?}: {step:?}");
        let starts = sim.work(no_markers());
        assert!(
            matches!(starts[..], [Effect::StartAgent { iteration: i, attempt: 2, .. }] if i == iteration),
            "{outcome:?}: {starts:?}"
        );
    }
}

#[test]
fn an_old_done_that_is_refused_starts_no_agent_that_may_not_start() {
    // fault E1, fault J7
    let mut sim = Sim::new(policy(|p| {
        p.gates.specs = vec![GateSpec::of_command("g")];
        (p.agent.command.provider, p.agent.command.format) =
            ("anthropic".into(), crate::agent::Format::Claude);
    }));
    let step = sim.feed(done_is(DoneFact::File));
    assert_eq!(sim.refusals().len(), 1, "nothing was done in this loop yet");
    assert!(work(&step).ends_with(&[Effect::SetDoneAside, Effect::ReadMarkers]), "{step:?}");
    assert_eq!(parked(&sim.feed(supplied(closed(&[(0, 500)])))), 500);
    assert_eq!(sim.starts, 0);
}

#[test]
fn another_agent_stands_in_if_the_user_says_so() {
    let both = || {
        policy(|p| {
            p.agent.command.provider = "anthropic".into();
            p.agent.fallback = vec![AgentCommand::parse("codex", &[]).unwrap()];
            p.agent.fallback[0].provider = "openai".into();
        })
    };
    let mut sim = Sim::running(both());
    let step = sim.feed(ends_by(Outcome::UsageLimit));
    assert!(matches!(&work(&step)[..], [Effect::CloseProvider { agent: 0, .. }, Effect::ReadMarkers]));
    let step = sim.feed(supplied(closed(&[(0, 500)])));
    assert_eq!(names(&step.events), ["agent_switched", "agent_started"]);
    assert!(matches!(work(&step)[..], [Effect::StartAgent { agent: 1, iteration: 1, attempt: 2, .. }]));
    // Both at their limit: until the first is not.
    sim.feed(ends_by(Outcome::UsageLimit));
    let step = sim.feed(supplied(closed(&[(0, 500), (1, 400)])));
    assert_eq!(parked(&step), 400);
    // The user's first choice comes back as soon as it can.
    sim.feed(Input::ParkOver);
    let step = sim.feed(supplied(closed(&[(1, 400)])));
    assert!(matches!(work(&step)[..], [Effect::StartAgent { agent: 0, .. }]), "{step:?}");
    // A limit that another loop met is known before the first agent starts.
    let mut late = Sim::new(policy(|p| p.agent.command.provider = "anthropic".into()));
    assert_eq!(parked(&late.feed(supplied(closed(&[(0, 500)])))), 500);
    assert_eq!(late.starts, 0);
}

#[test]
fn a_budget_stops_the_agent_and_then_the_loop() {
    // req 192, fault J1, fault J2, fault J6
    let mut sim = Sim::running(policy(|p| p.limits.max_cost = Some(5.0)));
    assert_eq!(sim.work(uses(4.99)), []);
    let step = sim.feed(uses(5.03));
    assert_eq!(names(&step.events), ["usage_seen", "budget_reached"]);
    assert_eq!(work(&step), [Effect::StopWork { grace: Millis::from_secs(1) }]);
    assert_eq!(names(&sim.feed(uses(5.04)).events), ["usage_seen"], "said once");
    // What was seen counts, also where the agent died before it could tell.
    let mut dead = sim.clone().after([Input::OwnerDied, resume()]);
    assert_eq!(dead.state.spending.ledger.total().cost_usd, Some(5.04));
    dead.feed(no_markers());
    assert_eq!(dead.over(), Some(Reason::Budget), "and no agent starts on a budget that is used up");
    let mut end = sim.clone().after([killed()]);
    assert_eq!(end.over(), Some(Reason::Budget));
    assert!(end.detail().contains("5.03") && end.detail().contains("5.00"), "{}", end.detail());
    end.feed(resume());
    end.feed(no_markers());
    assert_eq!((end.over(), end.starts), (Some(Reason::Budget), 1));
    let grant = Grant { max_cost: Some(10.0), ..NOTHING };
    end.feed(Input::Resume { grant, output: OutputMarks::default(), pid: 9 });
    assert!(matches!(end.work(no_markers())[..], [Effect::StartAgent { iteration: 2, .. }]));
    // A claim or a wait for a person outranks a budget that is used up; a limit of the provider's does not.
    let broke = |until: &[&str]| {
        let until = until.iter().map(|command| (*command).to_owned()).collect();
        Sim::running(policy(|p| (p.limits.max_cost, p.claims.until) = (Some(5.0), until))).after([uses(5.0)])
    };
    let mut until = broke(&["u"]);
    assert!(matches!(until.work(killed())[..], [Effect::RunGate { role: GateRole::Until, .. }]));
    assert_eq!(until.clone().after([gate(0), no_children()]).over(), Some(Reason::Done));
    assert_eq!(until.after([gate(1)]).over(), Some(Reason::Budget));
    let waits = exits_with(0, |r| {
        r.exit.outcome = Outcome::Killed;
        r.facts.wait_marker = true;
    });
    assert_eq!(broke(&[]).after([waits]).over(), Some(Reason::Waiting));
    assert_eq!(broke(&[]).after([ends_by(Outcome::UsageLimit)]).over(), Some(Reason::Budget));
    // A claim that the agent made with its last cent is judged.
    let mut claimed = sim.after([exits_with(0, |r| {
        r.exit.outcome = Outcome::Killed;
        r.facts.promise = Some("DONE".into());
    })]);
    claimed.feed(no_children());
    assert_eq!(claimed.over(), Some(Reason::Done));
}

#[test]
fn tokens_days_projects_and_runs_are_budgets_too() {
    // fault J3, fault J7
    let tokens = |input| Spend {
        usage: Some(crate::event::Usage { input, cache_read: 10, ..Default::default() }),
        ..Spend::default()
    };
    let cost = |cost| Spend { cost_usd: Some(cost), ..Spend::default() };
    let used = |cost_usd| SharedBudget { spent: Spent { cost_usd, tokens: 0 }, reserved: Spent::default() };
    let taken =
        |day, project| SharedSpend { day: used(day), project: used(project), ..SharedSpend::default() };
    let in_run = |run| SharedSpend { run: used(run), ..taken(9.0, 9.0) };
    let money = Budget { max_cost: Some(1.0), max_tokens: None };
    type Bend = fn(&mut Policy, Budget);
    let table: [(Bend, Spend, SharedSpend, bool); 8] = [
        (|p, _| p.limits.max_tokens = Some(100), tokens(90), SharedSpend::default(), true),
        (|p, _| p.limits.max_tokens = Some(101), tokens(90), SharedSpend::default(), false),
        (|p, b| p.limits.per_day = b, cost(0.1), taken(1.0, 0.0), true),
        (|p, b| p.limits.per_day = b, cost(0.1), taken(0.9, 1.0), false),
        (|p, b| p.limits.per_project = b, cost(0.1), taken(0.9, 1.0), true),
        (|p, b| p.limits.per_run = b, cost(0.1), in_run(1.0), true),
        (|p, b| p.limits.per_run = b, cost(0.1), in_run(0.9), false),
        (|_, _| {}, cost(99.0), taken(99.0, 99.0), false),
    ];
    for (bend, spend, shared, is_over) in table {
        let sim = Sim::new(policy(|p| bend(p, money)));
        let mut running = sim.clone().after([no_markers()]);
        assert_eq!(
            crate::loop_machine::is_broke(&running.state, &spend, &shared),
            is_over,
            "told at once: {spend:?} {shared:?}"
        );
        let stops = running.work(Input::UsageSeen { spend, shared, model: None, is_unpriced: false });
        assert_eq!(!stops.is_empty(), is_over, "{spend:?} {shared:?}");
        let mut next = sim.after([supplied(Supply { shared, ..Supply::default() })]);
        let is_shared = is_over && shared != SharedSpend::default();
        assert_eq!(next.over().is_some(), is_shared, "known before an agent starts: {shared:?}");
        next.feed(CANCEL);
    }
}

#[test]
fn the_loop_by_which_80_percent_of_a_shared_budget_are_used_says_so_once() {
    let day = Budget { max_cost: Some(10.0), max_tokens: None };
    let spend = |cost_usd| Spend { cost_usd: Some(cost_usd), ..Spend::default() };
    let spent = |cost_usd| SharedBudget { spent: Spent { cost_usd, tokens: 0 }, reserved: Spent::default() };
    for (own, all, is_told) in
        [(1.0, 7.9, false), (1.0, 8.0, true), (1.0, 9.0, false), (1.0, 8.9, true), (9.0, 9.0, true)]
    {
        let mut sim = Sim::new(policy(|p| p.limits.per_day = day)).after([no_markers()]);
        for _ in 0..2 {
            let shared = SharedSpend { day: spent(all), ..SharedSpend::default() };
            sim.feed(Input::UsageSeen { spend: spend(own), shared, model: None, is_unpriced: false });
        }
        let told = &sim.state.spending.told_low;
        assert_eq!(told.as_slice(), if is_told { &[Share::Day][..] } else { &[] }, "{own} of {all}");
    }
}

#[test]
fn the_budget_of_a_run_rises_by_what_a_person_grants_the_run() {
    let of_run = |max_cost| Budget { max_cost: Some(max_cost), max_tokens: None };
    let mut sim = Sim::new(policy(|p| p.limits.per_run = of_run(1.0))).after([no_markers()]);
    let pause = Request::Pause { now: false };
    sim.feed(Input::Requested(pause));
    let grant = crate::event::Grant { per_run: of_run(2.0), ..crate::event::Grant::default() };
    sim.feed(Input::Requested(Request::Unpause { grant }));
    let spent = |cost_usd| SharedBudget { spent: Spent { cost_usd, tokens: 0 }, reserved: Spent::default() };
    for (run, is_over) in [(1.5, false), (2.0, true)] {
        let shared = SharedSpend { run: spent(run), ..SharedSpend::default() };
        let spend = Spend { cost_usd: Some(0.1), ..Spend::default() };
        let stops = sim.work(Input::UsageSeen { spend, shared, model: None, is_unpriced: false });
        assert_eq!(!stops.is_empty(), is_over, "{run}");
    }
}

#[test]
fn a_session_is_gone_on_with_until_it_cannot_be() {
    // req 150, req 151, fault C9, fault C10
    let named = |name: &str| {
        let name = name.to_owned();
        exits_with(0, move |r| (r.exit.session, r.exit.cost_usd) = (Some(name), Some(1.5)))
    };
    let session = |step: &Step| {
        let found = step.effects.iter().find_map(|effect| match effect {
            Effect::StartAgent { session, .. } => Some(session.clone()),
            _ => None,
        });
        found.expect("an agent starts")
    };
    let mut fresh = Sim::running(policy(|_| {})).after([named("a")]);
    assert_eq!(session(&fresh.feed(no_markers())), None, "afresh is what a loop does unless told otherwise");

    let mut sim = Sim::new(policy(|p| p.agent.continue_session = true));
    assert_eq!(session(&sim.feed(no_markers())), None, "the first is always fresh");
    sim.feed(named("a"));
    let (id, before) = session(&sim.feed(no_markers())).unwrap();
    assert_eq!((id.as_str(), before.cost_usd), ("a", Some(1.5)));
    // fault J6: what was seen of one that dacapo died over is a part of what its session has cost.
    let mut cut = sim.clone().after([uses(0.5), Input::OwnerDied, resume(), no_markers()]);
    assert_eq!(cut.state.spending.ledger.total().cost_usd, Some(2.0));
    cut.feed(Input::OwnerDied);
    assert_eq!(cut.state.sessions.spent["a"].cost_usd, Some(2.0));
    sim.feed(named("b"));
    assert_eq!(session(&sim.feed(no_markers())).unwrap().0, "b", "the newest, not the one it began with");
    // Twice it cannot be continued: a fresh one, in the same iteration, and the user is warned.
    let lost = || ends_with(Outcome::Misuse, |exit| exit.detail = Some("No conversation found".into()));
    assert_eq!(sim.work(lost()), [Effect::ReadMarkers]);
    assert_eq!(session(&sim.feed(no_markers())).unwrap().0, "b");
    let step = sim.feed(lost());
    assert_eq!(names(&step.events), ["agent_exited", "warned"]);
    let step = sim.feed(no_markers());
    assert_eq!((session(&step), sim.state.counters.iterations), (None, 3));
    // What does not fit is not tried again with all that came before.
    sim.feed(named("c"));
    assert_eq!(session(&sim.feed(no_markers())).unwrap().0, "c");
    sim.feed(ends_by(Outcome::Context));
    assert_eq!(session(&sim.feed(no_markers())), None);
}

#[test]
fn an_agent_that_runs_into_the_same_wall_again_and_again_needs_a_person() {
    // fault C6, fault C10
    for outcome in [Outcome::Permission, Outcome::Context] {
        let wall = || ends_with(outcome, |exit| exit.detail = Some("wants to run `rm`".into()));
        let mut sim = Sim::running(policy(|_| {}));
        for iteration in 2..=3 {
            assert_eq!(names(&sim.feed(wall()).events), ["agent_exited", "warned", "iteration_finished"]);
            assert!(
                matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: i, .. }] if i == iteration)
            );
        }
        sim.feed(wall());
        assert_eq!((sim.over(), sim.detail()), (Some(Reason::Waiting), "wants to run `rm`"));
    }
}

#[test]
fn a_model_that_nobody_has_a_price_of_makes_a_budget_of_money_fiction() {
    // fault J5
    let used = || Input::UsageSeen {
        spend: Spend { usage: Some(Usage { output: 5, ..Usage::default() }), ..Spend::default() },
        shared: SharedSpend::default(),
        model: Some("nobody-1".to_owned()),
        is_unpriced: true,
    };
    for (cost, tokens, stops) in [
        (None, None, false),
        (Some(5.0), None, true),
        (Some(5.0), Some(100), false),
        (None, Some(100), false),
    ] {
        let mut sim = Sim::running(policy(|p| (p.limits.max_cost, p.limits.max_tokens) = (cost, tokens)));
        sim.feed(used());
        assert_eq!(sim.state.spending.exhausted.is_some(), stops, "{cost:?} {tokens:?}");
    }
}

#[test]
fn who_is_parked_again_says_so() {
    // req 203: `status` is a fold of the journal
    let parked = || Sim::running(policy(|_| {})).after([ends_by(Outcome::UsageLimit)]);
    for again in [parked().after([PAUSE, UNPAUSE]), parked().after([Input::OwnerDied, resume()])] {
        assert!(matches!(again.journal.last(), Some(LoopEvent::Parked { .. })));
        assert!(matches!(again.state.phase, Phase::Parked(_)));
    }
}

#[test]
fn who_must_sign_in_is_told_how() {
    // fault E6
    let mut sim = Sim::running(policy(|p| p.agent.command.name = "claude".into()));
    sim.feed(ends_with(Outcome::Auth, |exit| exit.detail = Some("API Error: 401.".into())));
    assert_eq!(sim.detail(), "API Error: 401; sign in to claude: run `claude`, then `/login`");
}
