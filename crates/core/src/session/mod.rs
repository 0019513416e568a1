//! A loop inside the chat session that the user sits in.
//!
//! The host of the session (Claude Code, Codex and others) is the agent of the loop: a prompt is handed to the host instead of
//! starting a process, and the end of the agent's turn, `session.idle`, is the end of an attempt. Everything else is the loop
//! machine: claims, gates, limits, receipts. Between two hooks of the host no process owns the loop.
//!
//! Here is what is particular to sessions and pure: what an idle means ([`judge_idle`]), the prompts, the messages to the user,
//! the arguments of `/ralph`, and what hosts say and are answered.

mod answer;
mod command;
mod host;
mod input;
mod policy;
mod prompt;
mod state;
mod toast;
mod usage;
mod words;

pub use answer::HookAnswer;
pub use command::{CommandError, SlashCommand};
pub use host::{Host, UnknownHost};
pub use input::{HookInput, HookInputError};
pub use policy::SessionSettings;
pub(crate) use prompt::compose;
pub use prompt::{CONTINUATION_PROMPT_TEMPLATE, fill};
pub use state::{
    DUPLICATE, HostSession, IdleJudgement, RECOVERY, SessionState, SessionSummary, TranscriptMark, TurnEnd,
    UNCHANGED, judge_idle, task_of,
};
pub use toast::{Toast, ToastKind};
pub use usage::{ModelCall, UsageMark, calls_in, spend_of, unpriced};
pub use words::{NewWords, hear, new_words};

/// What the hook is called, and its place among others of a host (req 115).
pub const HOOK_NAME: &str = "ralph-loop";
pub const HOOK_PRIORITY: u32 = 50;
/// The events of a session that it hears.
pub const HOOK_EVENTS: [&str; 3] = ["session.idle", "session.error", "session.deleted"];

/// The names of errors by which a host says that the user aborted the turn.
pub const ABORTS: [&str; 2] = ["MessageAbortedError", "AbortError"];
