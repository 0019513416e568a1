//! Whoever wants to see what a loop does.

use std::time::Duration;

use dacapo_core::{event::Envelope, view::LoopView};

use crate::store::Stream;

/// A listener. It is told what is already recorded; nothing it does changes the loop.
pub trait Observer {
    /// A fact was recorded.
    fn event(&mut self, envelope: &Envelope, view: &LoopView);

    /// An agent or a check printed something.
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let _ = (stream, bytes);
    }

    /// Whether it looks at what is printed: nobody else needs it in words.
    fn sees_output(&self) -> bool {
        true
    }

    /// Time has passed.
    fn tick(&mut self) {}

    /// How often it wants to be told so.
    fn tick_every(&self) -> Option<Duration> {
        None
    }
}

/// Sees nothing.
pub struct Nobody;

impl Observer for Nobody {
    fn event(&mut self, _: &Envelope, _: &LoopView) {}

    fn sees_output(&self) -> bool {
        false
    }
}
