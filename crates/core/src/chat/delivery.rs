//! What becomes of a message whose sending failed (req 161).

use crate::duration::Millis;

/// How often a message that matters is tried.
pub const MAX_TRIES: u32 = 3;
/// How long is waited before the second and the third try.
const PAUSES: [Millis; 2] = [Millis(1_000), Millis(4_000)];
/// A service that asks for more patience than this is asked again after it.
const LONGEST_WAIT: Millis = Millis::from_secs(600);
/// How often a service may ask for patience for one message.
const MAX_WAITS: u32 = 20;

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendProblem {
    /// The service cannot be reached, or does not answer in time.
    Unreachable(String),
    /// The service says that it has a problem of its own.
    Server(String),
    /// The service wants fewer messages, and says for how long.
    TooMany { wait: Option<Millis> },
    /// The token is not good, or not good for this.
    SignIn(String),
    /// The service will never take this message: there is no such channel, or it is malformed.
    Refused(String),
}

impl SendProblem {
    /// What an HTTP status means; `None` for one that means success.
    pub fn of_status(status: u16, retry_after: Option<&str>, said: &str) -> Option<Self> {
        let words = || match said.trim() {
            "" => format!("answered {status}"),
            said => format!("answered {status}: {}", said.chars().take(200).collect::<String>()),
        };
        match status {
            200..=299 => None,
            401 | 403 => Some(Self::SignIn(words())),
            429 => Some(Self::TooMany { wait: retry_after.and_then(seconds) }),
            408 | 500..=599 => Some(Self::Server(words())),
            _ => Some(Self::Refused(words())),
        }
    }

    /// Whether it may be gone by itself later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Server(_) | Self::TooMany { .. })
    }
}

impl std::fmt::Display for SendProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "it cannot be reached: {why}"),
            Self::Server(why) => write!(f, "it {why}"),
            Self::TooMany { .. } => write!(f, "it takes no more messages for now"),
            Self::SignIn(why) => write!(f, "it does not accept the token: it {why}"),
            Self::Refused(why) => write!(f, "it refuses the message: it {why}"),
        }
    }
}

/// A number of seconds, with or without a fraction.
fn seconds(text: &str) -> Option<Millis> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above and below")]
        Millis((seconds.min(86_400.0) * 1000.0).ceil() as u64)
    })
}

/// What follows from a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterSend {
    /// The same message is tried again. The messages behind it wait, so that they keep their order.
    Again {
        after: Millis,
        /// Whether this counts as one of the three tries.
        is_counted: bool,
    },
    /// It is not delivered. Only its number is told later.
    Drop,
    /// It is not delivered, and the user of the server has to know at once: it will not get better by itself.
    Raise,
}

/// `tries` counts the tries until now, this one included; `waits` how often the service has asked for patience.
pub fn after_send(problem: &SendProblem, matters: bool, tries: u32, waits: u32) -> AfterSend {
    match problem {
        SendProblem::SignIn(_) | SendProblem::Refused(_) => AfterSend::Raise,
        SendProblem::TooMany { wait } if waits < MAX_WAITS => {
            let after = wait.unwrap_or(PAUSES[0]);
            AfterSend::Again { after: Millis(after.0.clamp(100, LONGEST_WAIT.0)), is_counted: false }
        }
        _ if !matters => AfterSend::Drop,
        _ => match PAUSES.get(tries.saturating_sub(1) as usize) {
            Some(pause) if tries < MAX_TRIES => AfterSend::Again { after: *pause, is_counted: true },
            _ => AfterSend::Drop,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_tried_three_times_and_the_rest_once() {
        // req 161
        let server = SendProblem::Server("answered 500".into());
        let down = SendProblem::Unreachable("refused".into());
        let sign_in = SendProblem::SignIn("answered 401".into());
        let refused = SendProblem::Refused("answered 400".into());
        let again = |after| AfterSend::Again { after: Millis(after), is_counted: true };
        let patience = |after| AfterSend::Again { after: Millis(after), is_counted: false };
        let busy = |wait: Option<u64>| SendProblem::TooMany { wait: wait.map(Millis) };
        for (problem, matters, tries, waits, expected) in [
            (&server, true, 1, 0, again(1000)),
            (&server, true, 2, 0, again(4000)),
            (&server, true, 3, 0, AfterSend::Drop),
            (&down, true, 1, 0, again(1000)),
            (&down, true, 3, 0, AfterSend::Drop),
            (&server, false, 1, 0, AfterSend::Drop),
            (&down, false, 1, 0, AfterSend::Drop),
            (&sign_in, true, 1, 0, AfterSend::Raise),
            (&sign_in, false, 1, 0, AfterSend::Raise),
            (&refused, true, 1, 0, AfterSend::Raise),
            (&busy(Some(2500)), false, 1, 0, patience(2500)),
            (&busy(None), true, 1, 3, patience(1000)),
            (&busy(Some(86_400_000)), true, 1, 0, patience(600_000)),
            (&busy(Some(0)), true, 1, 0, patience(100)),
            (&busy(None), false, 1, 20, AfterSend::Drop),
        ] {
            assert_eq!(after_send(problem, matters, tries, waits), expected, "{problem} {matters} {tries}");
        }
    }

    #[test]
    fn a_status_says_whether_another_try_is_of_use() {
        for (status, retry_after, expected) in [
            (200, None, None),
            (204, None, None),
            (401, None, Some(SendProblem::SignIn("answered 401: x".into()))),
            (403, None, Some(SendProblem::SignIn("answered 403: x".into()))),
            (404, None, Some(SendProblem::Refused("answered 404: x".into()))),
            (429, Some("1.5"), Some(SendProblem::TooMany { wait: Some(Millis(1500)) })),
            (429, Some("soon"), Some(SendProblem::TooMany { wait: None })),
            (503, None, Some(SendProblem::Server("answered 503: x".into()))),
            (302, None, Some(SendProblem::Refused("answered 302: x".into()))),
        ] {
            assert_eq!(SendProblem::of_status(status, retry_after, "x"), expected, "{status}");
        }
    }
}
