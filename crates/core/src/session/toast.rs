//! What the user of a session is shown, in the seed's words. The host shows it as it can.

use serde::Serialize;

use crate::event::{LoopEvent, LoopStarted, Reason};

/// A short message for the user of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Toast {
    pub title: String,
    pub message: String,
    #[serde(rename = "variant")]
    pub kind: ToastKind,
    /// How long it is shown, in milliseconds.
    #[serde(rename = "duration", skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToastKind {
    Info,
    Success,
    Warning,
}

impl Toast {
    fn new(title: &str, message: String, kind: ToastKind, duration_ms: u32) -> Self {
        Self { title: title.to_owned(), message, kind, duration_ms: Some(duration_ms) }
    }

    /// `/cancel-ralph` in a session without a loop (req 131).
    pub fn no_active_loop() -> Self {
        let (title, message) = ("No Active Loop".to_owned(), "No Ralph Loop is currently running".to_owned());
        Self { title, message, kind: ToastKind::Info, duration_ms: None }
    }

    /// The user has cancelled the loop (req 109).
    pub fn cancelled(iteration: u32) -> Self {
        Self::new("Ralph Loop Cancelled", format!("Stopped at iteration {iteration}"), ToastKind::Info, 2000)
    }

    /// What the user is shown when `event` was recorded. That a session was deleted or its turn aborted the user knows.
    pub fn of(event: &LoopEvent, started: &LoopStarted) -> Option<Self> {
        let is_verify = started.session.as_ref().is_some_and(|session| session.verify);
        match event {
            LoopEvent::LoopStarted(started) if !is_verify => {
                let (max, promise) =
                    (started.policy.limits.max_iterations, &started.policy.claims.promise.text);
                let message = format!("Max {max} iterations. Complete with <promise>{promise}</promise>");
                Some(Self::new("Ralph Loop Started", message, ToastKind::Info, 3000))
            }
            LoopEvent::IterationStarted { iteration, max_iterations } if *iteration > 1 && !is_verify => {
                let message = format!("Iteration {iteration}/{max_iterations}");
                Some(Self::new("Ralph Loop", message, ToastKind::Info, 2000))
            }
            LoopEvent::LoopFinished { reason: Reason::Done, .. } if is_verify => {
                let message = "The work passed its checks".to_owned();
                Some(Self::new("Verified", message, ToastKind::Success, 5000))
            }
            LoopEvent::LoopFinished { reason: Reason::Done, iterations, .. } => {
                let message = format!("Task completed after {iterations} iteration(s)");
                Some(Self::new("Ralph Loop Complete!", message, ToastKind::Success, 5000))
            }
            LoopEvent::LoopFinished { reason: Reason::MaxIterations, iterations, .. } => {
                let message = format!("Max iterations ({iterations}) reached without completion");
                Some(Self::new("Ralph Loop Stopped", message, ToastKind::Warning, 5000))
            }
            LoopEvent::LoopFinished { reason: Reason::Cancelled, .. } => None,
            LoopEvent::LoopFinished { detail, .. } => {
                Some(Self::new("Ralph Loop Stopped", detail.clone(), ToastKind::Warning, 5000))
            }
            LoopEvent::Parked { until, why } => {
                let message = format!("Waits until {until}: {why}");
                Some(Self::new("Ralph Loop", message, ToastKind::Warning, 5000))
            }
            _ => None,
        }
    }

    /// The toast in one line, for hosts that show lines.
    pub fn line(&self) -> String {
        format!("{}: {}", self.title, self.message)
    }
}
