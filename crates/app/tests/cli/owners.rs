//! One owner writes a loop: an owner that was asleep while another one took its loop over writes nothing more.
//!
//! On one machine a lock keeps the second owner away as long as the first lives. The test takes the loop over by itself, as a
//! dacapo on another machine would whose journal says that the lease is over.

use dacapo_core::loop_machine::{Input, LoopMachine};
use dacapo_engine::{
    observer::NoObserver,
    process::identity::Identity,
    store::{Store, Stream},
};
use dacapo_testkit::{Signal, TestEnv};
use jiff::Timestamp;

use crate::support::{LONG, Task, assert_has, world};

/// Ends the loop of task `t` in the place of its owner; gives how many events there are then.
fn take_over(env: &TestEnv) -> usize {
    let mut store = Store::open(&env.dacapo_home().join("dacapo.db")).expect("the journal");
    let id = env.events(Some("t"))[0]["loop"].as_str().expect("an id").parse().expect("an id");
    let mut stream = Stream::<LoopMachine>::open(&store, &id).expect("the journal").expect("the loop");
    stream.take_over(&mut store, &Identity::own(), Timestamp::now(), &[]).expect("the journal");
    stream
        .step(&mut store, Timestamp::now(), [Input::OwnerDied.into()], &mut NoObserver)
        .expect("the journal");
    env.events(Some("t")).len()
}

#[test]
fn an_owner_that_slept_while_another_took_its_loop_writes_nothing_and_ends_its_agent() {
    for (what, agent) in [
        ("its agent claims to be done", "wait-file go; write late; promise"),
        ("its agent claims, and lives on", "daemonize hang; wait-file go; promise; write late; hang"),
    ] {
        let env = world();
        let script = format!("@1: write ready; {agent}; @2: promise");
        let running = env.start_loop(&script, &["--gate", "touch gated"]);
        env.stop(&running, LONG);
        let recorded = take_over(&env);
        // The agent knows of nothing and goes on.
        env.write("go", "");
        env.wait_for_file("late");
        running.signal(Signal::CONT);
        if what.contains("lives on") {
            // What an idle owner would find out at its next renewal, it finds out when somebody asks for something.
            running.signal(Signal::TERM);
        }
        let output = running.wait(LONG).assert_code(5);
        assert_has(&output.stderr, "was continued by another dacapo");
        assert_has(&output.stderr, "hint: `dacapo status` shows who runs it");
        env.wait_until("its agent is ended", LONG, || env.survivors().is_empty());
        assert_eq!((env.events(Some("t")).len(), env.starts()), (recorded, 1), "{what}");
        assert!(!env.workspace().join("gated").exists(), "{what}: what it claimed is not judged");
        // The loop goes on where the other one left it.
        env.run(["resume", "t"]).assert_code(0);
        assert_eq!((env.starts(), env.events_of("t", "claim_accepted").len()), (2, 1), "{what}");
    }
}
