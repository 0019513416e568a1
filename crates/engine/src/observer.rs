//! Observers: what is told of each event of a loop or a run while it happens.

use std::time::Duration;

use dacapo_core::{agent::transcript::TranscriptEntry, event::Envelope, loop_machine::LoopMachine};

use crate::store::JournalMachine;

/// A listener to one stream. It is told what is already recorded; nothing it does changes the stream.
pub trait Observer<M: JournalMachine = LoopMachine> {
    /// A fact was recorded.
    fn event(&mut self, envelope: &M::Envelope, view: &M::View);

    /// A loop of this unit or step, in a run that is observed, has recorded something.
    fn loop_event(&mut self, source: &M::Source, envelope: &Envelope) {
        let _ = (source, envelope);
    }

    /// An agent or a check printed something.
    fn output(&mut self, source: &M::Source, bytes: &[u8]) {
        let _ = (source, bytes);
    }

    /// An agent said or did something, as its CLI reports it. An observer that makes no difference is shown it as printed.
    fn said(&mut self, source: &M::Source, said: &TranscriptEntry) {
        self.output(source, said.line().as_bytes());
    }

    /// Whether it looks at what is printed: only such an observer needs it in words.
    fn sees_output(&self) -> bool {
        false
    }

    /// Recording the newest facts had to wait this long for other writers of the journal, or for the disk.
    fn waited(&mut self, long: Duration) {
        let _ = long;
    }

    fn tick(&mut self) {}

    /// How often it wants to be told so.
    fn tick_every(&self) -> Option<Duration> {
        None
    }
}

/// An observer that shows nothing.
pub struct NoObserver;

impl<M: JournalMachine> Observer<M> for NoObserver {
    fn event(&mut self, _: &M::Envelope, _: &M::View) {}
}
