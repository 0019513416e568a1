//! The journal as JSON lines, and the one word of a loop that goes to the background.

use std::io::Write;

use dacapo_core::{
    event::{Envelope, RunEnvelope},
    loop_machine::LoopMachine,
    unit::schedule::RunMachine,
    view::{LoopView, RunView},
};
use dacapo_engine::{observer::Observer, store::JournalMachine};

use super::out::Out;

/// Every event as a line of JSON on standard output.
pub(super) struct JsonLines {
    out: Out,
}

impl JsonLines {
    pub(super) fn new() -> Self {
        Self { out: Out::new() }
    }
}

impl<M: JournalMachine> Observer<M> for JsonLines {
    fn event(&mut self, envelope: &M::Envelope, _: &M::View) {
        if let Ok(line) = serde_json::to_string(envelope) {
            self.out.write(format!("{line}\n").into_bytes());
        }
    }
}

/// Tells the command that sent the loop to the background the loop's id, once.
#[derive(Default)]
pub(super) struct FirstWord {
    is_said: bool,
}

impl FirstWord {
    pub(super) fn say(&mut self, id: &str) {
        if !self.is_said {
            self.is_said = true;
            let mut stdout = std::io::stdout().lock();
            let _ = writeln!(stdout, "{id}");
            let _ = stdout.flush();
        }
    }
}

impl Observer<RunMachine> for FirstWord {
    fn event(&mut self, envelope: &RunEnvelope, _: &RunView) {
        self.say(envelope.run.as_str());
    }
}

impl Observer<LoopMachine> for FirstWord {
    fn event(&mut self, envelope: &Envelope, _: &LoopView) {
        self.say(envelope.loop_id.as_str());
    }
}
