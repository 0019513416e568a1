//! What a loop remembers of its session, and what an idle means for it.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::UsageMark;
use crate::{
    event::LoopEvent,
    ids::{TaskId, fingerprint},
    loop_machine::LoopState,
    receipt::sha256,
};

/// Two idles this close to each other, with nothing said between them, are one (req 134).
pub const DUPLICATE: SignedDuration = SignedDuration::from_millis(500);

/// How long a session is left alone after an error (req 118).
pub const RECOVERY: SignedDuration = SignedDuration::from_secs(5);

/// After this many idles in a row that left the files as they were the session is let go (req 125).
pub const UNCHANGED: u32 = 3;

/// The session that a loop lives in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSession {
    /// The name of its host.
    pub host: String,
    pub id: String,
    /// What the user calls the loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the host had kept of the session before the loop began.
    #[serde(default)]
    pub transcript: TranscriptMark,
    /// Whether the loop only judges what the agent leaves behind, beside a goal of the host's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verify: bool,
    /// What tells the first hook that nothing has written to the loop's snapshots since the loop began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// A place in the file in which the host keeps what was said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptMark {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// What stands before this byte was read.
    #[serde(default)]
    pub offset: u64,
    /// How far the agent's usage was counted.
    #[serde(default, skip_serializing_if = "UsageMark::is_start")]
    pub usage: UsageMark,
}

/// The end of a turn of the session's agent, as far as it can be told from another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// A number that is equal for equal last words of the agent.
    pub last_words: u64,
    /// Whether the transcript held those words already. A host may write them later than it calls the hook (fault A7).
    pub in_transcript: bool,
}

impl TurnEnd {
    /// The turn that ended with these words.
    pub fn ending_with(last_words: &str, in_transcript: bool) -> Self {
        Self { last_words: fingerprint(last_words.trim().as_bytes()), in_transcript }
    }
}

/// What a loop remembers of its session: a fold of its events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// When the newest idle was taken up, and the turn that it ended.
    pub last_idle: Option<(Timestamp, TurnEnd)>,
    pub transcript: TranscriptMark,
    /// Until when the session is left alone after an error.
    pub recovering_until: Option<Timestamp>,
    /// Idles in a row that left the files as they were.
    pub unchanged: u32,
    /// The refusals that the agent was told, each as a number.
    pub told: Arc<BTreeSet<u64>>,
    /// Whether the newest refusal says what the agent was told before.
    pub is_repeated: bool,
    /// The tree of the newest refusal, and whether it differs from that of the refusal before.
    pub refused_tree: Option<String>,
    pub changed_since_refusal: bool,
    /// Whether the prompt of the newest iteration could not be handed to the host.
    pub is_undelivered: bool,
    /// What tells the next hook that nothing has written to the loop's snapshots since the newest idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

impl SessionState {
    /// Takes in what an event says about the session. `state` is the loop before the event.
    pub(crate) fn apply(&mut self, event: &LoopEvent, state: &LoopState) {
        match event {
            LoopEvent::LoopStarted(started) => {
                let known = started.session.as_ref();
                let known = known.map(|session| (session.transcript.clone(), session.seal.clone()));
                let (transcript, seal) = known.unwrap_or_default();
                *self = Self { transcript, seal, ..Self::default() };
            }
            LoopEvent::SessionIdled { at, turn, transcript, seal, .. } => {
                self.last_idle = Some((*at, *turn));
                self.transcript.clone_from(transcript);
                self.seal.clone_from(seal);
                self.recovering_until = None;
                self.unchanged += 1;
            }
            // Recorded only where something has changed.
            LoopEvent::SnapshotTaken { .. } | LoopEvent::OutlineTaken { .. } => self.unchanged = 0,
            LoopEvent::LoopResumed { .. } => self.unchanged = 0,
            LoopEvent::SessionErred { until, .. } => self.recovering_until = Some(*until),
            LoopEvent::PromptNotDelivered { .. } => self.is_undelivered = true,
            LoopEvent::AgentStarted { .. } => self.is_undelivered = false,
            LoopEvent::ClaimRefused { reason, detail, .. } => {
                let signature = state.judging().and_then(|judging| judging.failure()).unwrap_or_default();
                let told = format!("{}\n{detail}\n{signature}", reason.as_str());
                self.is_repeated = !Arc::make_mut(&mut self.told).insert(fingerprint(told.as_bytes()));
                self.changed_since_refusal = self.refused_tree != state.progress.tree;
                self.refused_tree.clone_from(&state.progress.tree);
            }
            _ => {}
        }
    }
}

/// What an idle of a session with a loop means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleJudgement {
    /// The host said the same twice: nothing follows from it.
    Duplicate,
    /// The session had an error a moment ago; the idle counts when the window ends (req 119).
    Recovering(Timestamp),
    /// The agent waits for these: it is not sent back meanwhile (req 134).
    Background(Vec<String>),
    TakenUp,
}

/// What an idle at `now` means, which ended `turn`. `has_news` says whether the transcript holds words of the agent that it
/// did not hold at the idle before, and `background` names what still runs for the agent.
pub fn judge_idle(
    session: &SessionState,
    now: Timestamp,
    turn: TurnEnd,
    has_news: bool,
    background: &[String],
) -> IdleJudgement {
    if let Some((last, before)) = session.last_idle
        && now.duration_since(last).abs() < DUPLICATE
        && before.last_words == turn.last_words
        && !has_news
    {
        return IdleJudgement::Duplicate;
    }
    if let Some(until) = session.recovering_until.filter(|until| *until > now) {
        return IdleJudgement::Recovering(until);
    }
    if background.is_empty() {
        IdleJudgement::TakenUp
    } else {
        IdleJudgement::Background(background.to_vec())
    }
}

/// The task of a session's loops: it is found by the id of the session alone, and its lock lets one hook at a time step it.
pub fn task_of(session: &str) -> TaskId {
    let named = format!("session-{session}");
    let hashed = || format!("session-{}", &sha256(session.as_bytes())[..32]);
    let task = named.parse().or_else(|_| hashed().parse());
    task.unwrap_or_else(|_| unreachable!("a hash makes a task's name"))
}

/// A loop of a session as scripts see it (req 103).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    pub active: bool,
    pub iteration: u32,
    pub max_iterations: u32,
    pub completion_promise: String,
    pub started_at: Timestamp,
    pub prompt: String,
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_iteration_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl SessionSummary {
    /// The summary of a loop that began at `started_at`; `None` once it is over, or if it lives in no session.
    pub fn of(state: &LoopState, started_at: Timestamp) -> Option<Self> {
        let started = state.started.as_ref()?;
        let session = started.session.as_ref()?;
        if state.over().is_some() {
            return None;
        }
        let iteration = state.counters.iterations;
        Some(Self {
            active: !matches!(state.phase, crate::loop_machine::Phase::Paused { .. }),
            iteration: iteration.max(1),
            max_iterations: state.limits.max_iterations,
            completion_promise: started.policy.claims.promise.text.clone(),
            started_at,
            prompt: started.prompt.clone(),
            session_id: session.id.clone(),
            last_iteration_at: state.session.last_idle.map(|(at, _)| at).filter(|_| iteration > 1),
            description: session.description.clone(),
        })
    }
}
