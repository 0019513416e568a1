//! What a person can ask while it runs: pause and steer.

use super::*;

#[test]
fn a_pause_acts_after_the_iteration() {
    // A pause acts after the iteration, and `resume` ends it.
    let mut sim = Sim::running(policy(|_| {}));
    assert_eq!(
        sim.feed(PAUSE),
        Step { events: vec![LoopEvent::PauseRequested { now: false }], effects: vec![] }
    );
    let step = sim.feed(exits(0));
    assert_eq!(names(&step.events), ["agent_exited", "iteration_finished", "paused"]);
    assert_eq!(work(&step), []);
    for idle in [Input::DelayOver, no_markers(), PAUSE, PAUSE_NOW] {
        assert_eq!(sim.feed(idle), Step::default(), "a paused loop holds");
    }
    assert_eq!(
        sim.feed(UNPAUSE),
        Step { events: vec![LoopEvent::Unpaused], effects: vec![Effect::ReadMarkers] }
    );
    assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 2, .. }]));
}

#[test]
fn a_pause_between_iterations_acts_at_once() {
    for (name, mut sim) in in_every_phase() {
        let step = sim.feed(PAUSE);
        match name {
            "awaiting" | "looking" | "delaying" | "parked" => {
                assert_eq!(names(&step.events), ["pause_requested", "paused"], "{name}");
            }
            "paused" => assert_eq!(step, Step::default()),
            _ => assert_eq!(names(&step.events), ["pause_requested"], "{name}"),
        }
        assert_eq!(step.effects, [], "{name}");
    }
    // A loop that waits for tasks waits for them again.
    let (_, mut sim) = in_every_phase().swap_remove(0);
    sim.feed(PAUSE);
    assert_eq!(
        sim.work(UNPAUSE),
        [Effect::AwaitTasks { tasks: vec![task_id("first")], every: Millis::from_secs(1) }]
    );
}

#[test]
fn pause_now_stops_the_agent_and_charges_its_iteration() {
    let mut sim = Sim::running(policy(|_| {}));
    assert_eq!(sim.work(PAUSE_NOW), [GRACE]);
    let step = sim.feed(killed());
    assert_eq!(names(&step.events), ["agent_exited", "iteration_finished", "paused"]);
    assert_eq!(sim.outcomes(), [(1, IterationOutcome::Interrupted)]);
    assert_eq!(sim.work(UNPAUSE), [Effect::ReadMarkers]);
    // An agent that ended by itself in time is judged as ever.
    let sim = Sim::running(policy(|_| {})).after([PAUSE_NOW, promises(0), no_children()]);
    assert_eq!(sim.over(), Some(Reason::Done));
    // A check is not held up: a claim is judged to its end.
    let mut sim = Sim::running(gated(&["g"])).after([promises(0), no_children()]);
    assert_eq!(sim.work(PAUSE_NOW), []);
    assert_eq!(
        names(&sim.feed(gate(1)).events),
        ["gate_finished", "claim_refused", "iteration_finished", "paused"]
    );
}

#[test]
fn a_pause_can_be_taken_back() {
    let mut sim = Sim::running(policy(|_| {})).after([PAUSE, UNPAUSE]);
    assert_eq!(sim.work(exits(0)), [DELAY]);
    assert_eq!(sim.feed(UNPAUSE), Step::default());
    // Too late for the agent, which is being stopped: its iteration was cut short and says so.
    let mut sim = Sim::running(policy(|_| {})).after([PAUSE_NOW, UNPAUSE]);
    assert_eq!(sim.work(killed()), [DELAY]);
    assert_eq!(sim.outcomes(), [(1, IterationOutcome::Interrupted)]);
}

#[test]
fn a_limit_and_a_stop_outrank_a_pause() {
    // req 92, fault B12
    let sim = Sim::running(policy(|p| p.limits.max_iterations = 1)).after([PAUSE, exits(0)]);
    assert_eq!(sim.over(), Some(Reason::MaxIterations));
    let sim = Sim::running(policy(|_| {})).after([PAUSE_NOW, CTRL_C, killed()]);
    assert_eq!(sim.over(), Some(Reason::Interrupted));
    let mut sim = Sim::running(policy(|_| {})).after([CTRL_C]);
    assert_eq!(sim.feed(PAUSE), Step::default());
}

#[test]
fn a_persons_words_reach_the_next_prompt_once() {
    // `steer` goes into the next prompt.
    let told = |step: &Step| prompts(step).iter().map(|p| p.matches("use rust").count()).collect::<Vec<_>>();
    let again = [Input::DelayOver, no_markers()];
    let run = |sim: Sim, ends: Input| {
        let mut sim = sim.after([ends, again[0].clone()]);
        let first = sim.feed(again[1].clone());
        let mut sim = sim.after([exits(0), again[0].clone()]);
        let second = sim.feed(again[1].clone());
        (told(&first), told(&second))
    };
    let steered = || Sim::running(policy(|_| {})).after([steer("use rust")]);
    assert_eq!(run(steered(), exits(0)), (vec![1], vec![0]), "said while an agent ran");
    let mut sim = Sim::new(policy(|_| {}));
    sim.feed(steer("use rust"));
    assert_eq!(told(&sim.feed(no_markers())), [1], "said before the first");
    assert_eq!(run(sim.clone(), exits(0)), (vec![0], vec![0]));
    // An agent that was cut short or never started did not read the words, so the next prompt holds them again.
    for cut in [
        vec![PAUSE_NOW, killed(), UNPAUSE],
        vec![PAUSE_NOW, UNPAUSE, killed(), Input::DelayOver],
        vec![CTRL_C, killed(), resume()],
        vec![Input::OwnerDied, resume()],
        vec![Input::DiskFailed("full".into()), resume()],
        vec![
            Input::AgentNotStarted(StartFailure { detail: "busy".into(), is_fatal: false }),
            Input::DelayOver,
        ],
        vec![Input::AgentNotStarted(StartFailure { detail: "gone".into(), is_fatal: true }), resume()],
    ] {
        let mut sim = sim.clone().after(cut.clone());
        assert_eq!(told(&sim.feed(no_markers())), [1], "{cut:?}");
        assert_eq!(run(sim, exits(0)), (vec![0], vec![0]), "{cut:?}");
    }
}

#[test]
fn a_loop_that_waits_can_be_answered_before_it_is_resumed() {
    // req 89
    let asks = exits_with(42, |r| r.facts.messages = vec![("QUESTION".into(), "Which port?".into())]);
    let mut sim = Sim::running(policy(|_| {})).after([asks]);
    assert_eq!(sim.over(), Some(Reason::Question));
    let words = LoopEvent::Steered { text: "8080".into() };
    assert_eq!(sim.feed(steer("8080")), Step { events: vec![words], effects: vec![] });
    assert_eq!(sim.state.conversation.question, None);
    assert_eq!(sim.work(resume()), [Effect::ConsumeWaitMarker, Effect::ReadMarkers]);
    assert!(prompts(&sim.feed(no_markers()))[0].contains("8080"));
    let mut over = Sim::running(policy(|_| {})).after([promises(0), no_children()]);
    assert_eq!(over.feed(steer("x")), Step::default(), "no agent follows that could read it");
    assert_eq!(decide(&LoopState::default(), steer("x")), Step::default());
}
