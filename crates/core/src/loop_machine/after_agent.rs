//! What follows when an agent has ended. `after_agent` asks its questions in a fixed order, and the first that is true
//! decides.

use crate::{
    duration::Millis,
    event::{AgentExit, AttemptJudgement, NextSession, Obstacle, Outcome},
    ids::fingerprint,
    judge::signal::Signal,
};

/// How many attempts in a row may fail to go on with a session before a new session is begun.
pub(super) const LOST_SESSIONS: u32 = 2;

/// How many attempts in a row may end with a permission error or a full context window before the loop stops for a
/// person.
pub(super) const BLOCKED_ATTEMPTS: u32 = 3;

/// What is known when an agent has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AgentEnd {
    pub(super) outcome: Outcome,
    /// Whether the agent was never given its prompt: the host of its session could not be handed it.
    pub(super) is_undelivered: bool,
    /// What the outcome means for the iteration and the session.
    pub(super) judged: AttemptJudgement,
    /// Whether the agent was told to go on with a session.
    pub(super) had_session: bool,
    /// Whether a person or an OS signal asked the loop to end.
    pub(super) is_stopping: bool,
    /// Whether a person asked the loop to pause.
    pub(super) is_pausing: bool,
    /// Why the loop fails because of what stands in the place of the DONE file, such as a directory.
    pub(super) done_error: Option<String>,
    /// The line by which the agent refuses the work that it was asked to judge.
    pub(super) refusal: Option<String>,
    pub(super) claims: Vec<Signal>,
    /// Whether the agent said that it waits for a person, or that it is blocked.
    pub(super) waits: bool,
    /// Whether a budget is used up.
    pub(super) is_broke: bool,
    /// Attempts in a row that ended with a permission error or a full context window, this one included.
    pub(super) blocked_attempts: u32,
    /// Attempts in a row that failed at once with the same words, this one included.
    pub(super) failed_at_once: u32,
    /// Whether dacapo itself claims when an agent has ended.
    pub(super) own_claim: bool,
    /// Whether until-commands may still make a claim.
    pub(super) asks_until: bool,
    /// Whether the agent ended with an error that fails the loop, if nothing else follows from its end.
    pub(super) has_failed: bool,
}

/// What follows when an agent has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AfterAgent {
    /// The loop ends, as a person or an OS signal asked.
    Stop,
    /// The loop ends: what stands in the place of the DONE file is not a file.
    Fail(String),
    /// The loop pauses: dacapo ended the agent for that.
    Hold,
    /// The loop ends: the agent refuses the work that it was asked to judge, in these words.
    Refused(String),
    /// These signals are judged as a claim.
    Judge(Vec<Signal>),
    /// The agent waits for a person or is blocked, and said so before it met an outage.
    Wait,
    /// The user's plan is used up: the loop waits for its reset.
    AwaitReset,
    /// The provider has an outage: the loop tries again later.
    BackOff,
    /// The agent is not signed in.
    NotSignedIn,
    /// The agent's account has no money.
    NoMoney,
    /// The agent could not go on with its session: another attempt follows at once.
    TryAgain,
    /// The agent refused its arguments.
    Misused,
    /// The loop ends for a person: too many attempts in a row ended with a permission error or a full context window.
    NeedsPerson,
    /// The loop ends, because its agent ended with an error.
    Failed,
    /// The loop ends, because its agent failed at once again and again, with the same words.
    FailsAtOnce,
    /// dacapo makes the claim.
    OwnClaim,
    /// until-commands run; they make a claim if all exit 0.
    AskUntil,
    /// The iteration was cut short.
    Interrupted,
    /// The iteration brought no claim.
    NoClaim,
}

/// How many attempts in a row may fail at once with the same words before the loop stops.
pub(super) const FAILURES_AT_ONCE: u32 = 3;

/// A number for the words of an agent that cannot work at all, like one that does not know an option: it failed within a second and
/// printed nothing but an error. Whether it changed a file is asked elsewhere.
pub(super) fn failed_at_once(exit: &AgentExit, stderr: &str) -> Option<u32> {
    const AT_ONCE: Millis = Millis(1_000);
    let is_failure = match exit.outcome {
        Outcome::Completed | Outcome::Crash => exit.exit_code.is_some_and(|code| code != 0),
        _ => false,
    };
    let says_only_why = exit.stdout_bytes == 0 && !stderr.trim().is_empty();
    // Half of the number is enough to tell words apart, and every reader of JSON can hold it.
    (is_failure && says_only_why && exit.duration_ms <= AT_ONCE)
        .then(|| fingerprint(stderr.trim().as_bytes()) as u32)
}

/// What the end of an attempt means for its iteration and its session. `lost` attempts before it could not go on with
/// the session either.
pub(super) fn judge_attempt(exit: &AgentExit, had_session: bool, lost: u32) -> AttemptJudgement {
    let is_lost = had_session
        && match exit.outcome {
            Outcome::Misuse => true,
            // A broken session may crash the agent before it prints the name of one.
            Outcome::Crash => exit.session.is_none(),
            _ => false,
        };
    let next_session = match (is_lost, exit.outcome) {
        (true, _) if lost + 1 >= LOST_SESSIONS => NextSession::Fresh,
        (true, _) => NextSession::Retry,
        (false, Outcome::Context) => NextSession::Fresh,
        (false, _) if exit.session.is_some() => NextSession::Continue,
        (false, _) => NextSession::Unchanged,
    };
    AttemptJudgement {
        charged: !is_lost && exit.outcome.is_charged(),
        obstacle: obstacle(exit.outcome),
        next_session,
        failure_words: None,
    }
}

fn obstacle(outcome: Outcome) -> Option<Obstacle> {
    match outcome {
        Outcome::RateLimit | Outcome::Overload | Outcome::Network => Some(Obstacle::Outage),
        Outcome::UsageLimit => Some(Obstacle::UsageLimit),
        Outcome::Permission | Outcome::Context => Some(Obstacle::PermissionOrContext),
        Outcome::Completed
        | Outcome::MaxTurns
        | Outcome::Auth
        | Outcome::Billing
        | Outcome::Misuse
        | Outcome::Timeout
        | Outcome::Hang
        | Outcome::OutOfTime
        | Outcome::Crash
        | Outcome::Killed => None,
    }
}

/// What follows from the end of an agent. The first of these that is true counts.
pub(super) fn after_agent(end: &AgentEnd) -> AfterAgent {
    if end.is_stopping {
        return AfterAgent::Stop;
    }
    if let Some(error) = &end.done_error {
        return AfterAgent::Fail(error.clone());
    }
    if end.outcome == Outcome::Killed && end.is_pausing {
        return AfterAgent::Hold;
    }
    // A verdict that says both yes and no is a no.
    if let Some(words) = &end.refusal {
        return AfterAgent::Refused(words.clone());
    }
    if !end.claims.is_empty() {
        return AfterAgent::Judge(end.claims.clone());
    }
    if !end.judged.charged && end.waits {
        return AfterAgent::Wait;
    }
    // A loop without money ends now, and does not first wait hours for a limit to end.
    if !end.is_broke
        && let Some(after) = after_obstacle(end)
    {
        return after;
    }
    match end.outcome {
        _ if end.is_undelivered && !end.waits => AfterAgent::TryAgain,
        // A `pause --now` that was taken back while the agent was being stopped.
        Outcome::Killed if !end.is_broke => AfterAgent::Interrupted,
        _ if end.has_failed && !end.waits => AfterAgent::Failed,
        _ if end.failed_at_once >= FAILURES_AT_ONCE && !end.waits => AfterAgent::FailsAtOnce,
        _ if end.own_claim && end.judged.charged => AfterAgent::OwnClaim,
        _ if end.asks_until && end.judged.charged => AfterAgent::AskUntil,
        Outcome::Killed => AfterAgent::Interrupted,
        _ => AfterAgent::NoClaim,
    }
}

/// What follows from a limit, an outage or another obstacle; `None` without one, or if the loop goes on all the same.
fn after_obstacle(end: &AgentEnd) -> Option<AfterAgent> {
    match end.outcome {
        Outcome::UsageLimit => Some(AfterAgent::AwaitReset),
        Outcome::RateLimit | Outcome::Overload | Outcome::Network => Some(AfterAgent::BackOff),
        Outcome::Auth => Some(AfterAgent::NotSignedIn),
        Outcome::Billing => Some(AfterAgent::NoMoney),
        Outcome::Misuse | Outcome::Crash if end.had_session && !end.judged.charged => {
            Some(AfterAgent::TryAgain)
        }
        Outcome::Misuse => Some(AfterAgent::Misused),
        Outcome::Permission | Outcome::Context => {
            (end.blocked_attempts >= BLOCKED_ATTEMPTS).then_some(AfterAgent::NeedsPerson)
        }
        Outcome::Completed
        | Outcome::MaxTurns
        | Outcome::Timeout
        | Outcome::Hang
        | Outcome::OutOfTime
        | Outcome::Crash
        | Outcome::Killed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_machine::decide_tests::agent_exit;

    /// An agent that ended in this way, with nothing else to say.
    fn end(outcome: Outcome) -> AgentEnd {
        AgentEnd {
            outcome,
            is_undelivered: false,
            judged: judge_attempt(&AgentExit { outcome, ..agent_exit(1) }, false, 0),
            had_session: false,
            is_stopping: false,
            is_pausing: false,
            done_error: None,
            refusal: None,
            claims: vec![],
            waits: false,
            is_broke: false,
            blocked_attempts: 0,
            failed_at_once: 0,
            own_claim: false,
            asks_until: false,
            has_failed: false,
        }
    }

    fn claims() -> Vec<Signal> {
        vec![Signal::DoneFile]
    }

    #[test]
    fn the_first_of_these_that_is_true_counts() {
        // req 92, req 206
        type Bend = fn(&mut AgentEnd);
        let all: Bend = |e| {
            (e.is_stopping, e.is_pausing, e.waits, e.own_claim, e.asks_until) =
                (true, true, true, true, true);
            (e.done_error, e.claims) = (Some("DONE is a directory".into()), claims());
        };
        use AfterAgent::*;
        let no: Bend = |e| (e.refusal, e.claims, e.waits) = (Some("NO".into()), claims(), true);
        let table: [(Outcome, Bend, AfterAgent); 43] = [
            (Outcome::Killed, all, Stop),
            (Outcome::Killed, |e| (e.done_error, e.is_pausing) = (Some("x".into()), true), Fail("x".into())),
            (Outcome::Killed, |e| (e.is_pausing, e.claims) = (true, claims()), Hold),
            (Outcome::Completed, |e| (e.is_pausing, e.claims) = (true, claims()), Judge(claims())),
            (Outcome::UsageLimit, |e| (e.claims, e.waits) = (claims(), true), Judge(claims())),
            (Outcome::Completed, no, Refused("NO".into())),
            (Outcome::UsageLimit, no, Refused("NO".into())),
            (Outcome::Crash, |e| (e.refusal, e.has_failed) = (Some("NO".into()), true), Refused("NO".into())),
            (Outcome::Killed, |e| (e.refusal, e.is_pausing) = (Some("NO".into()), true), Hold),
            (Outcome::UsageLimit, |e| e.waits = true, Wait),
            (Outcome::UsageLimit, |e| (e.own_claim, e.asks_until) = (true, true), AwaitReset),
            (Outcome::UsageLimit, |e| e.is_broke = true, NoClaim),
            (Outcome::UsageLimit, |e| (e.is_broke, e.own_claim) = (true, true), NoClaim),
            (Outcome::RateLimit, |_| {}, BackOff),
            (Outcome::Overload, |_| {}, BackOff),
            (Outcome::Network, |_| {}, BackOff),
            (Outcome::Auth, |e| e.own_claim = true, NotSignedIn),
            (Outcome::Billing, |_| {}, NoMoney),
            (Outcome::Misuse, |_| {}, Misused),
            (Outcome::Misuse, |e| (e.had_session, e.judged.charged) = (true, false), TryAgain),
            (Outcome::Crash, |e| (e.had_session, e.judged.charged) = (true, false), TryAgain),
            (Outcome::Crash, |e| e.had_session = true, NoClaim),
            (Outcome::Permission, |e| e.blocked_attempts = 3, NeedsPerson),
            (Outcome::Context, |e| e.blocked_attempts = 3, NeedsPerson),
            (Outcome::Context, |e| e.blocked_attempts = 2, NoClaim),
            (Outcome::Context, |e| (e.blocked_attempts, e.own_claim) = (2, true), OwnClaim),
            (Outcome::Killed, |e| e.own_claim = true, Interrupted),
            (Outcome::Killed, |e| (e.is_broke, e.own_claim) = (true, true), OwnClaim),
            (Outcome::Killed, |e| e.is_broke = true, Interrupted),
            (Outcome::Completed, |e| (e.own_claim, e.asks_until) = (true, true), OwnClaim),
            (Outcome::Timeout, |e| e.asks_until = true, AskUntil),
            (Outcome::Completed, |e| e.waits = true, NoClaim),
            (Outcome::Hang, |_| {}, NoClaim),
            (Outcome::Crash, |e| (e.has_failed, e.own_claim) = (true, true), Failed),
            (Outcome::Timeout, |e| (e.has_failed, e.asks_until) = (true, true), Failed),
            (Outcome::Crash, |e| (e.has_failed, e.claims) = (true, claims()), Judge(claims())),
            (Outcome::Crash, |e| (e.has_failed, e.waits) = (true, true), NoClaim),
            (Outcome::RateLimit, |e| (e.has_failed, e.own_claim) = (true, true), BackOff),
            (Outcome::MaxTurns, |_| {}, NoClaim),
            (Outcome::Crash, |e| e.failed_at_once = 2, NoClaim),
            (Outcome::Completed, |e| (e.failed_at_once, e.own_claim) = (3, true), FailsAtOnce),
            (Outcome::Crash, |e| (e.failed_at_once, e.claims) = (3, claims()), Judge(claims())),
            (Outcome::Completed, |e| (e.failed_at_once, e.waits) = (3, true), NoClaim),
        ];
        for (outcome, bend, after) in table {
            let mut end = end(outcome);
            bend(&mut end);
            assert_eq!(after_agent(&end), after, "{end:?}");
        }
    }

    #[test]
    fn only_an_agent_that_prints_an_error_and_nothing_else_fails_at_once() {
        // req 91
        type Bend = fn(&mut AgentExit);
        let as_is: Bend = |_| {};
        for (code, bend, stderr, fails) in [
            (2, as_is, "no such option", true),
            (1, |e| e.outcome = Outcome::Crash, "no such option", true),
            (0, as_is, "a warning", false),
            (2, as_is, " \n", false),
            (2, |e| e.stdout_bytes = 1, "no such option", false),
            (2, |e| e.duration_ms = Millis(1_001), "no such option", false),
            (2, |e| e.outcome = Outcome::Auth, "sign in first", false),
        ] {
            let mut exit = AgentExit { duration_ms: Millis(40), stdout_bytes: 0, ..agent_exit(code) };
            bend(&mut exit);
            assert_eq!(failed_at_once(&exit, stderr).is_some(), fails, "{exit:?} {stderr:?}");
        }
        let exit = AgentExit { duration_ms: Millis(40), stdout_bytes: 0, ..agent_exit(2) };
        assert_eq!(failed_at_once(&exit, "same\n"), failed_at_once(&exit, "same"));
        assert_ne!(failed_at_once(&exit, "same"), failed_at_once(&exit, "other"));
    }

    #[test]
    fn what_an_end_means_for_its_iteration_and_its_session() {
        // req 206
        use NextSession::*;
        let outage = Some(Obstacle::Outage);
        let blocked = Some(Obstacle::PermissionOrContext);
        for (outcome, names, had_session, lost, charged, obstacle, next_session) in [
            (Outcome::Completed, None, false, 0, true, None, Unchanged),
            (Outcome::Completed, Some("s"), true, 1, true, None, Continue),
            (Outcome::Network, None, true, 0, false, outage, Unchanged),
            (Outcome::RateLimit, Some("s"), true, 0, false, outage, Continue),
            (Outcome::UsageLimit, None, false, 0, false, Some(Obstacle::UsageLimit), Unchanged),
            (Outcome::Auth, None, false, 0, false, None, Unchanged),
            (Outcome::Misuse, None, false, 0, false, None, Unchanged),
            (Outcome::Misuse, None, true, 0, false, None, Retry),
            (Outcome::Misuse, Some("s"), true, 1, false, None, Fresh),
            (Outcome::Crash, None, false, 0, true, None, Unchanged),
            (Outcome::Crash, Some("s"), true, 0, true, None, Continue),
            (Outcome::Crash, None, true, 0, false, None, Retry),
            (Outcome::Crash, None, true, 1, false, None, Fresh),
            (Outcome::Context, Some("s"), true, 0, true, blocked, Fresh),
            (Outcome::Permission, Some("s"), false, 0, true, blocked, Continue),
        ] {
            let exit = AgentExit { outcome, session: names.map(str::to_owned), ..agent_exit(1) };
            let judged = AttemptJudgement { charged, obstacle, next_session, failure_words: None };
            assert_eq!(judge_attempt(&exit, had_session, lost), judged, "{outcome:?} {names:?} {lost}");
        }
    }
}
