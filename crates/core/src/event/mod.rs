//! Facts in a journal: past tense, complete in themselves, never redefined once released.
//!
//! The JSON names are what scripts rely on (`docs/reference/events.md`). A field that a later version adds
//! has a default, so that new code reads old journals.

mod finish;
mod look;
mod run;
mod spend;
mod workspace;

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use finish::{FinishState, Reason};
pub use look::{GatePlace, Look, TriedGate, UseOfCheckout};
pub use run::{MergeMode, PlannedUnit, RunEnvelope, RunEvent, RunProblem, RunStarted, RunStop, UnitEnd};
pub use spend::{Ledger, Spend, Usage};
pub use workspace::{Base, Examination, ForbiddenChange, ProtectedFile};

use crate::{
    duration::Millis,
    goalposts::{GoalpostSeal, MustFailRun, OutsideFile, TestReport},
    ids::{LoopId, ProjectId, RunId, TaskId},
    item::ItemKey,
    judge::{
        claim::RefusalReason,
        expectation::{Expectation, FoundWords, GateAnswer},
        signal::Signal,
    },
    limits::{Budget, Share, Spent},
    plan::Purpose,
    policy::Policy,
    receipt::Receipt,
    sandbox::SandboxHeld,
    session::{HostSession, TranscriptMark, TurnEnd},
};

/// A fact with its place in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// Global to the journal, ordered, gaps allowed.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The stream it belongs to.
    #[serde(rename = "loop")]
    pub loop_id: LoopId,
    #[serde(flatten)]
    pub event: LoopEvent,
}

/// A fact in the life of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LoopEvent {
    /// The loop exists. Always the first.
    LoopStarted(Box<LoopStarted>),
    /// A person continued a loop that had ended without being done, or whose supervisor had died.
    LoopResumed {
        /// What that person granted.
        #[serde(flatten)]
        grant: Grant,
        /// Where the output of the next attempt will begin.
        output: OutputMarks,
        pid: u32,
        /// Whether iterations without progress are counted anew: the person who goes on gives a stuck loop as many again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        counts_anew: bool,
    },
    /// The loop will not start before these tasks are done.
    TasksAwaited {
        /// The tasks that are not done yet.
        tasks: Vec<TaskId>,
    },
    /// An iteration was charged. Written before the agent is started, so that a crash leaves a trace of it.
    IterationStarted {
        iteration: u32,
        /// The limit in force.
        max_iterations: u32,
    },
    /// The agent is about to be started: intent, in the same append as its iteration.
    AgentStarted {
        /// The iteration it works in.
        iteration: u32,
        /// Counts agent processes of this loop, 1-based.
        attempt: u32,
        agent: String,
        /// The session it goes on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// What is set aside for it in the budgets that loops share: as much as its largest message took so far.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserve: Option<Spent>,
        /// Where its prompt and output begin in the loop's segments.
        output: OutputMarks,
    },
    /// What the running agent has used so far: recorded while it runs, so that no crash makes it forgotten.
    UsageSeen {
        /// The iteration it works in.
        iteration: u32,
        /// Which agent process it is.
        attempt: u32,
        /// All of this process so far.
        #[serde(flatten)]
        spend: Spend,
        /// The model that answers, where the agent names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A budget is used up; what runs is being stopped.
    BudgetReached {
        /// Which, in one line.
        detail: String,
    },
    /// 80 % of a budget that several loops share are used; said once by each loop.
    BudgetLow {
        share: Share,
        /// How much of it, in one line.
        detail: String,
    },
    /// Another agent takes the place of one whose provider is at its limit, or gives it back.
    AgentSwitched {
        /// The agent that works from here on.
        agent: String,
        /// The agent's index: the policy's own agent is 0, its fallbacks follow.
        #[serde(default)]
        index: usize,
        why: String,
    },
    /// The agent exited, everything it left behind is dead, and its output was read to the end.
    AgentExited {
        /// The iteration it worked in.
        iteration: u32,
        /// Which agent process it was.
        attempt: u32,
        /// What it ended with.
        #[serde(flatten)]
        exit: AgentExit,
        /// What that means for the loop.
        #[serde(flatten)]
        judged: AttemptJudgement,
    },
    /// A hint was observed.
    SignalSeen {
        /// The iteration it was observed in or after.
        iteration: u32,
        #[serde(flatten)]
        signal: Signal,
    },
    /// The signals add up to: done.
    ClaimMade {
        /// The iteration that made it; 0 before the first.
        iteration: u32,
        /// What it rests on.
        by: Vec<Signal>,
    },
    /// The claim waits for child loops.
    ChildrenAwaited {
        children: Vec<LoopId>,
    },
    /// The wait for child loops is over.
    ChildrenFinished {
        /// The child loops that were still running when the wait ended.
        left: Vec<LoopId>,
        /// Whether they were told to end.
        cancelled: bool,
        /// How long it took.
        waited_ms: Millis,
    },
    /// The workspace was kept as it was after an iteration; not recorded when nothing had changed.
    SnapshotTaken {
        iteration: u32,
        id: String,
        tree: String,
    },
    /// The files of a plain folder that nothing is proven about were looked at; not recorded when nothing had changed.
    OutlineTaken {
        iteration: u32,
        /// What their paths, sizes and times come to; `None` if they are too many to tell.
        outline: Option<String>,
    },
    /// Everything the agent had started was dead, and the workspace was looked at.
    ClaimExamined {
        /// The iteration that made the claim.
        iteration: u32,
        #[serde(flatten)]
        found: Box<Examination>,
    },
    GatesPassed {
        /// The iteration that made the claim.
        iteration: u32,
    },
    /// The workspace still was what the gates had seen.
    TreeHeld {
        /// The iteration that made the claim.
        iteration: u32,
    },
    /// dacapo committed the kept tree.
    Committed {
        /// The iteration whose work it is.
        iteration: u32,
        commit: String,
        /// The item that it completes.
        #[serde(default, rename = "task", skip_serializing_if = "Option::is_none")]
        item: Option<ItemKey>,
    },
    /// The proof of a finished loop.
    ReceiptIssued {
        /// The whole of it.
        receipt: Box<Receipt>,
    },
    /// A check of a claim, or of whether there is one, began.
    GateStarted {
        /// The iteration whose work is checked.
        iteration: u32,
        /// What the check is for.
        role: GateRole,
        /// What people call it.
        name: String,
        command: String,
        /// Its place among the checks of its role in the policy.
        #[serde(default)]
        index: usize,
        /// Counts tries of a red one, 1-based.
        #[serde(default = "one")]
        attempt: u32,
        #[serde(default, rename = "task", skip_serializing_if = "Option::is_none")]
        item: Option<ItemKey>,
        /// What it must come to.
        #[serde(default, skip_serializing_if = "Expectation::is_default")]
        expect: Expectation,
        /// The folder that it runs in, below the workspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        working_dir: Option<String>,
        /// Where it runs, and with whose tests.
        #[serde(flatten, default)]
        look: Look,
    },
    GateFinished {
        /// The iteration whose work was checked.
        iteration: u32,
        /// What the check was for.
        role: GateRole,
        /// What people call it.
        name: String,
        command: String,
        #[serde(default, rename = "task", skip_serializing_if = "Option::is_none")]
        item: Option<ItemKey>,
        /// What it came to.
        #[serde(flatten)]
        result: GateResult,
        /// Where it ran, and with whose tests.
        #[serde(flatten, default)]
        look: Look,
    },
    /// A gate was tried before the first agent, in a throw-away checkout.
    GateTried {
        /// What people call it.
        name: String,
        command: String,
        #[serde(flatten)]
        tried: Box<TriedGate>,
    },
    /// A person accepts a tree although its tests are narrower than they were.
    TreeApproved {
        tree: String,
        /// Who, as the system names the user.
        by: String,
    },
    /// The claim does not hold.
    ClaimRefused {
        /// The iteration that made it.
        iteration: u32,
        /// The kind of refusal.
        reason: RefusalReason,
        /// One line for people and for the agent.
        detail: String,
    },
    ClaimAccepted {
        /// The iteration that made it.
        iteration: u32,
        /// Whether any gate stood behind it.
        verified: bool,
    },
    /// An iteration is over, its claim judged.
    IterationFinished {
        iteration: u32,
        /// What it came to.
        outcome: IterationOutcome,
        /// How long agents, checks and delays took so far, together.
        spent_ms: Millis,
        /// Whether it got anywhere.
        #[serde(default)]
        progress: IterationProgress,
    },
    /// The loop waits without a process, until a time.
    Parked {
        /// When it goes on.
        until: Timestamp,
        why: String,
    },
    /// The agent of the chat session that the loop lives in ended a turn, and the loop takes that up.
    SessionIdled {
        iteration: u32,
        at: Timestamp,
        #[serde(flatten)]
        turn: TurnEnd,
        /// Where the transcript of the session ended.
        #[serde(default)]
        transcript: TranscriptMark,
        /// What tells the next hook that nothing has written to the loop's snapshots since.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seal: Option<String>,
    },
    /// The agent of the chat session ended a turn, and the loop leaves it alone for now.
    IdleSkipped {
        iteration: u32,
        #[serde(flatten)]
        why: IdleSkip,
    },
    /// The host of the chat session reported an error; the loop leaves the session alone for a while.
    SessionErred {
        error: String,
        until: Timestamp,
    },
    /// The host of the chat session could not be given the prompt of an iteration, which is not charged for that.
    PromptNotDelivered {
        iteration: u32,
        why: String,
    },
    /// Something a person should know, and the loop goes on.
    Warned {
        text: String,
    },
    /// The agent asked a person something.
    QuestionAsked {
        text: String,
    },
    /// The agent says that it cannot do what it was asked.
    Blocked {
        /// The iteration it worked in.
        iteration: u32,
        /// Why, in its own words, in one line.
        why: String,
    },
    /// A person's words for the next prompt.
    Steered {
        text: String,
    },
    /// A person wants the loop to hold after this iteration.
    PauseRequested {
        /// Whether the agent is stopped for it.
        now: bool,
    },
    Paused,
    /// The loop goes on.
    Unpaused,
    /// A person raised the limits of a loop that was paused.
    LimitsRaised {
        /// By how much, or to what.
        #[serde(flatten)]
        grant: Grant,
    },
    /// The user or the system wants the loop to end; its processes are being stopped.
    StopRequested {
        by: StopCause,
    },
    /// The loop is over. Nothing follows but [`LoopEvent::LoopResumed`].
    LoopFinished {
        state: FinishState,
        reason: Reason,
        /// One line for people.
        detail: String,
        /// What the command exits with.
        exit_code: u8,
        iterations: u32,
    },
}

/// Why the end of a turn in a chat session is not taken up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum IdleSkip {
    /// The session had an error a moment ago, and is looked at again at this time.
    Recovering { until: Timestamp },
    /// These still run for the agent.
    Background { tasks: Vec<String> },
}

/// What a person grants a loop or a run that goes on: only what was typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    #[serde(default)]
    pub extra_iterations: u32,
    /// A new limit of time.
    #[serde(default, alias = "max_time")]
    pub max_time_ms: Option<Millis>,
    /// A new limit of money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// A new limit of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// New limits of money and tokens that the loop shares with the other loops of its run.
    #[serde(default, skip_serializing_if = "Budget::is_unlimited")]
    pub per_run: Budget,
    /// Whether a loop that is parked asks its provider at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ask_now: bool,
}

impl Grant {
    /// What the loops of a run get of what the run was granted. Its time is the run's alone, and its money is shared.
    #[must_use]
    pub fn for_loops_of_run(&self) -> Self {
        Self {
            extra_iterations: self.extra_iterations,
            per_run: Budget { max_cost: self.max_cost, max_tokens: self.max_tokens },
            ..Self::default()
        }
    }

    /// Whether it is nothing at all.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// How a loop began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopStarted {
    /// The project it belongs to.
    pub project: ProjectId,
    /// The task it works on.
    pub task: TaskId,
    /// Where the agent works.
    pub workspace: PathBuf,
    /// The loop whose agent started this one.
    pub parent: Option<LoopId>,
    /// The run of units it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What a plan started it for; recognises it if it is cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// The chat session that it lives in; the host of that session is its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<HostSession>,
    /// How many loops are above it.
    pub depth: u32,
    /// Tasks that must be done first.
    pub after: Vec<TaskId>,
    /// What the agent is asked to do, as the user gave it.
    pub prompt: String,
    /// Random text that nonces are made from.
    pub seed: String,
    pub policy: Policy,
    /// The workspace before the first agent.
    #[serde(default)]
    pub base: Option<Base>,
    /// What the files of a plain folder come to by path, size and time, where nothing more is known about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<String>,
    /// Files that must not change.
    #[serde(default)]
    pub protected: Vec<ProtectedFile>,
    /// What is known of the tests and of what decides which of them run; the list itself is kept beside the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goalposts: Option<GoalpostSeal>,
    /// The sandbox that its keeper holds; none is known of a loop that is older than sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxHeld>,
    /// Programs that gates run, and settings in the home folder and above the workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideFile>,
    pub pid: u32,
    /// The version of dacapo.
    pub version: String,
}

/// Where things end in the loop's append-only segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputMarks {
    pub stdout: u64,
    /// What agents printed on stderr.
    pub stderr: u64,
    /// What agents were given.
    pub prompt: u64,
    pub gates: u64,
}

/// What an agent process ended with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentExit {
    /// Its exit code, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it ran.
    pub duration_ms: Millis,
    /// The class of its end.
    pub outcome: Outcome,
    /// How many bytes it printed.
    pub stdout_bytes: u64,
    /// How many bytes it printed on stderr.
    pub stderr_bytes: u64,
    /// How many of both were not kept because of the cap.
    #[serde(default)]
    pub dropped_bytes: u64,
    /// Processes it had left behind, now dead.
    pub leftovers: u32,
    /// The session, where the agent names one.
    pub session: Option<String>,
    /// The model that answered, where the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens, where the agent reports them.
    pub usage: Option<Usage>,
    /// Money, where it can be told.
    pub cost_usd: Option<f64>,
    /// Whether tokens and money are an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// When a limit ends, where the agent reports one.
    pub reset_at: Option<Timestamp>,
    /// What the agent or its provider said about an end that is no completion, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Where the segments end after it.
    pub output: OutputMarks,
}

/// What the end of an agent process means for its loop, as the rules had it when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptJudgement {
    /// Whether the attempt used up its iteration.
    #[serde(default = "yes")]
    pub charged: bool,
    /// What the attempt ran into that is counted as long as it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Obstacle>,
    /// Which session the next attempt goes on with.
    #[serde(default, skip_serializing_if = "NextSession::is_unchanged")]
    pub next_session: NextSession,
    /// A number that is the same for the same words on stderr, if the agent failed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_words: Option<u32>,
}

impl Default for AttemptJudgement {
    fn default() -> Self {
        Self { charged: true, obstacle: None, next_session: NextSession::Unchanged, failure_words: None }
    }
}

/// What an attempt ran into that is counted as long as it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// The provider is overloaded, unreachable or wants fewer requests.
    Outage,
    /// The user's plan is used up.
    UsageLimit,
    /// The agent wanted a permission, or more context than there is.
    PermissionOrContext,
    /// The agent failed within a second, printed nothing but an error, and changed no file.
    FailedAtOnce,
}

/// Which session the next attempt goes on with, if it goes on with any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextSession {
    /// The one that was there before this attempt.
    #[default]
    Unchanged,
    /// The one that this attempt names.
    Continue,
    /// The one that was there before: this attempt could not go on with it, and it is tried once more.
    Retry,
    /// None: a fresh one begins.
    Fresh,
}

impl NextSession {
    fn is_unchanged(&self) -> bool {
        *self == Self::Unchanged
    }
}

/// Whether an iteration got anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationProgress {
    /// It left something that was not there before, or failed in a new way.
    Made,
    None,
    /// Nothing is known that could tell.
    #[default]
    Unknown,
}

/// The class of an agent's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agent exited by itself, with any code; an agent that prints events also said that it had finished.
    Completed,
    /// It used up its turns.
    MaxTurns,
    /// What the user's plan allows is used up until a time.
    UsageLimit,
    RateLimit,
    /// The provider is overloaded or broken.
    Overload,
    /// The provider cannot be reached.
    Network,
    /// The user is not signed in.
    Auth,
    /// The account has no money.
    Billing,
    /// What the model was to read is too long for it.
    Context,
    /// It wanted a permission that no user was there to give.
    Permission,
    /// It was called in a way it does not accept.
    Misuse,
    /// It ran longer than an iteration may.
    Timeout,
    /// It was silent for too long.
    Hang,
    /// The loop's time ran out while it ran.
    OutOfTime,
    /// A signal that dacapo did not send ended it.
    Crash,
    /// dacapo ended it because the user asked.
    Killed,
}

impl Outcome {
    /// Whether the attempt used up its iteration: an outage of the provider, a limit or a closed account does not.
    pub fn is_charged(self) -> bool {
        !matches!(
            self,
            Self::UsageLimit
                | Self::RateLimit
                | Self::Overload
                | Self::Network
                | Self::Auth
                | Self::Billing
                | Self::Misuse
        )
    }

    /// As it stands in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxTurns => "max_turns",
            Self::UsageLimit => "usage_limit",
            Self::RateLimit => "rate_limit",
            Self::Overload => "overload",
            Self::Network => "network",
            Self::Auth => "auth",
            Self::Billing => "billing",
            Self::Context => "context",
            Self::Permission => "permission",
            Self::Misuse => "misuse",
            Self::Timeout => "timeout",
            Self::Hang => "hang",
            Self::OutOfTime => "out_of_time",
            Self::Crash => "crash",
            Self::Killed => "killed",
        }
    }
}

/// What a check is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateRole {
    /// A claim must pass it.
    Gate,
    /// Passing it is a claim.
    Until,
    /// How a gate stands before the first agent.
    Baseline,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// −1 when it timed out, was killed or could not be started.
    pub exit_code: i32,
    /// Whether it came to what was expected of it: exit code 0, unless the policy says otherwise.
    pub passed: bool,
    /// Whether it passed only when tried again.
    pub flaky: bool,
    /// How long it took.
    pub duration_ms: Millis,
    /// How long the checkout took that was laid out for it.
    #[serde(default, skip_serializing_if = "takes_no_time")]
    pub laid_out_ms: Millis,
    /// How much it printed.
    pub output_bytes: u64,
    /// SHA-256 of all it printed.
    #[serde(default)]
    pub output_sha256: String,
    /// Whether it is red as it was before the first agent, and that is tolerated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tolerated: bool,
    /// A hash that is equal for the same failure of this gate in every run; empty where it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signature: String,
    /// The end of what a red one printed, for the next prompt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
    /// Why it does not pass, where its exit code alone does not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Whether it never ran, because it could not be started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_started: bool,
    /// Whether it printed the words that were expected of it.
    #[serde(flatten)]
    pub found: FoundWords,
    /// What the agent answered, if the check is a question to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<GateAnswer>,
    /// What that agent used and cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
    /// What its test runner reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestReport>,
    /// What became of the tests that had to fail, in a run with such tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub must_fail_tests: Option<Box<MustFailRun>>,
    /// Goalposts that are not what they were when it began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<String>,
    /// The program that is neither on PATH nor a path inside the workspace, if that is why it cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_program: Option<String>,
    /// Files that the agent has committed and that the checkout of a red gate lacks, because they are ignored.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub lacks: Box<[String]>,
    /// Where the segments end after it.
    pub output: OutputMarks,
}

fn takes_no_time(time: &Millis) -> bool {
    time.is_zero()
}

impl GateResult {
    /// What the check called `name` came to, for people.
    pub fn in_words(&self, name: &str) -> String {
        let how = match (&self.failure, self.passed) {
            (Some(failure), _) => failure.clone(),
            (None, true) if self.flaky => "passed only when tried again (flaky)".to_owned(),
            (None, true) if self.must_fail_tests.as_ref().is_some_and(|run| !run.put.is_empty()) => {
                "failed as it had to".to_owned()
            }
            (None, true) => "passed".to_owned(),
            (None, false) if self.tolerated => {
                format!("exited {} as before the loop (tolerated)", self.exit_code)
            }
            (None, false) => format!("exited {}", self.exit_code),
        };
        format!("`{name}` {how}, {}", self.duration_ms.human())
    }
}

/// What an iteration came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationOutcome {
    /// The agent claimed nothing.
    NoClaim,
    /// Its claim was refused.
    Refused,
    /// Its claim was accepted.
    Accepted,
    /// It waits for a person.
    Waiting,
    /// It cannot do what it was asked.
    Blocked,
    /// It was cut short: a signal, a request, a crash of dacapo.
    Interrupted,
    /// The agent could not be started.
    NotStarted,
}

/// Who wants a loop to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// `dacapo cancel`.
    Cancel,
    Interrupt,
    Terminate,
    /// The terminal is gone.
    Hangup,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}
