//! An agent that says that it cannot do what it was asked.

use super::*;
use crate::policy::OwnClaim;

/// An agent that says why it cannot go on; `bend` says what else it left.
fn says_why(bend: impl FnOnce(&mut AgentReport)) -> Input {
    exits_with(0, |r| {
        r.facts.blocked = Some("no key".into());
        bend(r);
    })
}

#[test]
fn who_is_blocked_ends_the_loop_and_is_charged_with_nothing_else() {
    let mut sim = Sim::running(policy(|p| p.limits.stuck_after = Some(1)));
    let before = sim.state.clone();
    let step = sim.feed(says_why(|_| {}));
    let blocked = LoopEvent::Blocked { iteration: 1, why: "no key".into() };
    assert_eq!(
        names(&step.events),
        ["agent_exited", "signal_seen", "blocked", "iteration_finished", "loop_finished"]
    );
    assert_eq!(step.events[2], blocked);
    assert_eq!(step.events[4], finished(Reason::Blocked, "the agent is blocked: no key", 1));
    assert!(posts(&step).contains(&("WARNING", "the agent is blocked: no key")));
    assert!(!posts(&step).iter().any(|(_, body)| body.contains("restarting")));
    assert_eq!(sim.outcomes(), [(1, IterationOutcome::Blocked)]);
    // It is no failure: nothing that counts failures has moved.
    let counters = |state: &LoopState| {
        (
            state.progress.clone(),
            state.counters.outages,
            state.counters.usage_limits,
            state.counters.blocked_attempts,
        )
    };
    assert_eq!(counters(&sim.state), counters(&before));
}

#[test]
fn a_blocked_loop_goes_on_with_the_next_iteration_which_is_told_of_it() {
    let sim = Sim::running(policy(|_| {})).after([says_why(|_| {})]);
    for (words, told) in [(None, false), (Some("use the other key"), true)] {
        let mut sim = sim.clone().after(words.map(steer)).after([resume()]);
        let step = sim.feed(no_markers());
        assert!(matches!(work(&step)[..], [Effect::StartAgent { iteration: 2, .. }]), "{step:?}");
        let prompt = prompts(&step)[0];
        assert!(prompt.contains("In iteration 1 the agent said that it cannot be done as asked: no key\n"));
        assert_eq!(prompt.contains("use the other key"), told);
        // Once: the one after that has other troubles.
        let mut sim = sim.after([exits(0), Input::DelayOver]);
        assert!(!prompts(&sim.feed(no_markers()))[0].contains("no key"));
    }
}

#[test]
fn who_claims_and_is_blocked_is_not_believed() {
    type Bend = fn(&mut AgentReport);
    let promise: Bend = |r| r.facts.promise = Some("DONE".into());
    let done: Bend = |r| r.facts.done = DoneFact::File;
    for (policy, bend) in [(policy(|_| {}), promise), (policy(|_| {}), done), (gated(&["g"]), promise)] {
        let mut sim = Sim::running(policy);
        let step = sim.feed(says_why(bend));
        assert_eq!(
            sim.refusals(),
            [(
                RefusalReason::Contradiction,
                "the agent claims to be done and says that it is blocked: no key"
            )]
        );
        assert_eq!(sim.over(), Some(Reason::Blocked));
        assert_eq!(sim.outcomes(), [(1, IterationOutcome::Blocked)]);
        let set_aside = step.effects.contains(&Effect::SetDoneAside);
        assert_eq!(set_aside, sim.times("signal_seen") == 2 && bend as usize == done as usize);
        // The next agent is told of both.
        let mut sim = sim.after([resume()]);
        let prompt = prompts(&sim.feed(no_markers()))[0].to_owned();
        assert!(
            prompt.contains("The claim of iteration 1 was refused: the agent claims to be done and says")
        );
    }
    // A DONE file that a person makes afterwards is a claim of its own.
    let sim = Sim::running(policy(|_| {})).after([says_why(|_| {}), resume(), done_is(DoneFact::File)]);
    assert_eq!(sim.after([no_children()]).over(), Some(Reason::Done));
}

#[test]
fn a_claim_cut_off_before_its_refusal_is_refused_by_whoever_resumes_it() {
    let mut sim = Sim::running(gated(&["g"]));
    let step = decide(&sim.state, says_why(|r| r.facts.promise = Some("DONE".into())));
    let made = step.events.iter().position(|event| matches!(event, LoopEvent::ClaimMade { .. })).unwrap();
    for event in &step.events[..=made] {
        sim.state.apply(event);
        sim.journal.push(event.clone());
    }
    let sim = sim.after([Input::OwnerDied, resume(), no_children()]);
    assert_eq!(sim.refusals()[0].0, RefusalReason::Contradiction);
    assert_eq!(sim.over(), Some(Reason::Blocked));
}

#[test]
fn what_dacapo_finds_out_itself_is_done_whatever_the_agent_says() {
    let until = || policy(|p| p.claims.until = vec!["u".into()]);
    let sim = Sim::running(until()).after([says_why(|_| {})]);
    assert_eq!(sim.clone().after([gate(0), no_children()]).over(), Some(Reason::Done));
    assert_eq!(sim.after([gate(1)]).over(), Some(Reason::Blocked));
    let mut own = gated(&["g"]);
    own.claims.own_claim = OwnClaim::AfterAgent;
    let sim = Sim::running(own).after([says_why(|_| {}), no_children()]);
    assert_eq!(sim.clone().after([gate(0)]).over(), Some(Reason::Done));
    assert_eq!(sim.after([gate(1)]).over(), Some(Reason::Blocked));
}

#[test]
fn being_blocked_outranks_limits_and_outages() {
    let one = || policy(|p| p.limits.max_iterations = 1);
    assert_eq!(Sim::running(one()).after([says_why(|_| {})]).over(), Some(Reason::Blocked));
    for outcome in
        [Outcome::RateLimit, Outcome::UsageLimit, Outcome::Network, Outcome::Timeout, Outcome::Crash]
    {
        let ends = says_why(|r| r.exit.outcome = outcome);
        assert_eq!(Sim::running(one()).after([ends]).over(), Some(Reason::Blocked), "{outcome:?}");
        let claims = says_why(|r| (r.exit.outcome, r.facts.promise) = (outcome, Some("DONE".into())));
        assert_eq!(Sim::running(one()).after([claims]).over(), Some(Reason::Blocked), "{outcome:?}");
    }
    let money = Sim::running(policy(|p| p.limits.max_cost = Some(5.0))).after([uses(5.0)]);
    let ends = says_why(|r| r.exit.outcome = Outcome::Killed);
    assert_eq!(money.after([ends]).over(), Some(Reason::Blocked));
}

#[test]
fn a_task_of_a_unit_is_set_back_when_its_agent_is_blocked() {
    use crate::unit::TaskStatus::{Complete, Pending};
    let mut sim = Sim::told(items::turn(|_| {}));
    let step =
        sim.feed(says_why(|r| r.facts.items = items::found(&[(2, Some(Complete)), (3, Some(Pending))])));
    assert_eq!(sim.over(), Some(Reason::Blocked));
    assert!(
        step.effects.iter().any(|effect| match effect {
            Effect::SetMarks { of, done } => items::statuses_of(of, done).contains(&(2, Pending)),
            _ => false,
        }),
        "{step:?}"
    );
}

#[test]
fn a_blocked_tag_that_does_not_count_is_explained() {
    let misses = exits_with(0, |r| r.facts.blocked_near_miss = Some(MissReason::InCode));
    let mut sim = Sim::running(policy(|_| {})).after([misses, Input::DelayOver]);
    let words = "What you said in iteration 1 about being blocked did not count: it stood in code";
    assert!(prompts(&sim.feed(no_markers()))[0].contains(words));
    let mut sim = sim.after([exits(0), Input::DelayOver]);
    assert!(!prompts(&sim.feed(no_markers()))[0].contains("did not count"));
}

#[test]
fn who_refuses_the_work_that_it_judges_ends_the_loop_also_with_a_promise() {
    let judges = || policy(|p| p.claims.refusals = vec!["REVIEW FAILED".to_owned()]);
    let refuses = |bend: fn(&mut AgentReport)| {
        exits_with(0, |r| {
            r.facts.refusal = Some("REVIEW FAILED: no tests".into());
            bend(r);
        })
    };
    type Bend = fn(&mut AgentReport);
    let bends: [Bend; 4] = [
        |_| {},
        |r| r.facts.promise = Some("DONE".into()),
        |r| r.facts.done = crate::judge::signal::DoneFact::File,
        |r| (r.facts.blocked, r.facts.wait_marker) = (Some("no key".into()), true),
    ];
    for bend in bends {
        let mut sim = Sim::running(judges());
        let step = sim.feed(refuses(bend));
        let detail = "the agent refuses the work: REVIEW FAILED: no tests";
        assert_eq!(step.events.last(), Some(&finished(Reason::Refused, detail, 1)), "{step:?}");
        assert!(!names(&step.events).iter().any(|name| name == "claim_made"), "{step:?}");
        assert_eq!(sim.outcomes(), [(1, IterationOutcome::NoClaim)]);
        // The user may have it look again.
        let mut sim = sim.after([resume()]);
        let step = sim.feed(no_markers());
        assert!(matches!(work(&step)[..], [Effect::StartAgent { iteration: 2, .. }]), "{step:?}");
    }
    // A loop that is paused or cancelled meanwhile does as the user says.
    let sim = Sim::running(judges()).after([Input::Requested(Request::Cancel), refuses(|_| {})]);
    assert_eq!(sim.state.over(), Some(Reason::Cancelled));
}

#[test]
fn a_gate_that_cannot_be_started_twice_in_a_row_asks_the_user() {
    let unstarted = || {
        let failure = Some("could not be started: its folder `web` is not there".into());
        Input::GateFinished(Box::new(GateResult { not_started: true, failure, ..gate_result(-1) }))
    };
    let claim = || [promises(0), no_children(), examined()];
    let mut sim = Sim::told(gated(&["g"])).after(claim());
    let step = sim.feed(unstarted());
    assert!(names(&step.events).iter().any(|name| name == "claim_refused"));
    assert!(
        !names(&step.events).iter().any(|name| name == "loop_finished"),
        "the agent may have to make the folder"
    );
    // Another gate that is red is the agent's to mend.
    let mended = sim.clone().after([Input::DelayOver, no_markers()]).after(claim()).after([gate(1)]);
    assert_eq!(mended.over(), None);
    let mut sim = sim.after([Input::DelayOver, no_markers()]).after(claim());
    let step = sim.feed(unstarted());
    assert_eq!(sim.over(), Some(Reason::Blocked), "{step:?}");
    let Some(LoopEvent::LoopFinished { detail, .. }) = step.events.last() else { panic!("{step:?}") };
    assert!(detail.starts_with("a gate cannot run: ") && detail.contains("`web` is not there"), "{detail}");
}
