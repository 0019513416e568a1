//! `dacapo session`: the loop inside a chat session, one file per command below it.

mod cancel;
mod explain;
mod start;
mod state;

use std::path::Path;

use clap::{Args, Subcommand};
use dacapo_core::{
    config::{Effective, Typed},
    item::Item,
    judge::promise::PromiseRule,
    policy::{GateRules, Policy},
    session::{Host, SessionSettings},
};
use dacapo_engine::{
    config_files::ConfigFiles,
    session::{NewSession, SessionError, SessionLoops},
};

pub(super) use explain::{ExplainSessionArgs, PlannedSession};

use super::{consent, flags, warn};
use crate::{context::Context, error::UserError};

/// A loop inside the chat session of an agent: begin it, look at it, end it
///
/// The agent is sent back to work by the hooks of its host until it outputs the promise and every gate agrees.
/// `dacapo hook install AGENT` sets the hooks up, and `/ralph` in the session begins a loop there.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo session start --session 0197-fe \"Fix all TypeScript errors\" --max-iterations 25\n  dacapo session state --session 0197-fe --json\n  dacapo session cancel --session 0197-fe"
)]
pub(super) struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Subcommand, Debug)]
enum SessionCommand {
    Start(start::StartArgs),
    State(state::StateArgs),
    Cancel(cancel::SessionCancelArgs),
}

pub(super) fn session(cx: &Context, args: &SessionArgs) -> Result<u8, UserError> {
    if cx.inside.is_some() {
        return Err(UserError::usage("the session of this agent belongs to a loop already")
            .hint("`dacapo run` starts a child of that loop"));
    }
    match &args.command {
        SessionCommand::Start(args) => start::start(cx, args),
        SessionCommand::State(args) => state::state(cx, args),
        SessionCommand::Cancel(args) => cancel::cancel(cx, args),
    }
}

impl From<SessionError> for UserError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Home(error) => error.into(),
            SessionError::Store(error) => error.into(),
            SessionError::Start(error) => error.into(),
            SessionError::Foreign { ref session, .. } => {
                let hint =
                    format!("`--force` takes its place; `dacapo session cancel --session {session}` ends it");
                Self::environment(error).hint(hint)
            }
            SessionError::NoSession => {
                Self::usage(error).hint("`--session ID` names it; hosts give it to their hooks")
            }
            SessionError::StillOpen(_) => Self::failed(error),
            SessionError::BlankReason => Self::usage(error),
            SessionError::NoLoop => Self::failed(error).hint("`dacapo session start` begins one"),
            SessionError::Bus(_)
            | SessionError::Write { .. }
            | SessionError::Background(_)
            | SessionError::Watch(_) => Self::environment(error),
        }
    }
}

/// What the user asks for.
pub(super) struct SessionLoopArgs<'a> {
    pub(super) host: Host,
    pub(super) session: &'a str,
    pub(super) prompt: &'a str,
    pub(super) max_iterations: Option<u32>,
    pub(super) completion_promise: Option<&'a str>,
    pub(super) description: Option<&'a str>,
    pub(super) force: bool,
    /// Agree to the repository's commands for this loop.
    pub(super) trust: bool,
}

/// What configuration says about loops in the session of a folder.
pub(super) struct Configured {
    pub(super) files: ConfigFiles,
    pub(super) effective: Effective,
    pub(super) settings: SessionSettings,
}

impl Configured {
    pub(super) fn load(dir: &Path) -> Result<Self, UserError> {
        let files = ConfigFiles::load(dir)?;
        let effective = files.effective(&Typed::default());
        let settings = effective.session.settings();
        Ok(Self { files, effective, settings })
    }

    /// The most iterations that the files allow, if the user types none.
    fn max_iterations(&self) -> u32 {
        self.settings.max_iterations.min(self.effective.max_iterations.value)
    }
}

/// Everything that a new loop of a session needs; what the repository would run needs the user's consent.
pub(super) fn prepare(
    cx: &Context,
    configured: &Configured,
    wanted: &SessionLoopArgs<'_>,
    workspace: &Path,
    transcript: Option<&Path>,
) -> Result<NewSession, UserError> {
    if !configured.settings.enabled {
        return Err(UserError::usage("loops inside sessions are switched off here")
            .hint("`session: {enabled: true}` in the configuration switches them on"));
    }
    let text = wanted.completion_promise.unwrap_or(&configured.settings.completion_promise);
    let promise =
        PromiseRule::new(text).map_err(|error| UserError::usage(format!("--completion-promise: {error}")))?;
    consent::require(&cx.home, &configured.files, wanted.trust)?;
    let (policy, warnings) = policy_of(configured, wanted.host, promise, wanted.max_iterations);
    warn(&warnings);
    Ok(NewSession {
        host: wanted.host,
        session: wanted.session.to_owned(),
        prompt: wanted.prompt.to_owned(),
        policy,
        description: wanted.description.map(str::to_owned),
        project: Context::project_of(workspace),
        workspace: workspace.to_owned(),
        transcript: SessionLoops::mark(transcript),
        force: wanted.force,
        verify: false,
    })
}

/// The same for a loop that only judges what the agent leaves behind; `None` without anything that could judge it.
pub(super) fn prepare_verify(
    cx: &Context,
    configured: &Configured,
    (host, session): (Host, &str),
    workspace: &Path,
    transcript: Option<&Path>,
) -> Result<Option<NewSession>, UserError> {
    let gates = gates_of(&configured.effective);
    if gates.specs.is_empty() && gates.protect.is_empty() {
        return Ok(None);
    }
    consent::require(&cx.home, &configured.files, false)?;
    let policy = Policy::session_verify(host, configured.max_iterations(), gates);
    let policy = with_budgets(policy, &configured.effective);
    Ok(Some(NewSession {
        host,
        session: session.to_owned(),
        prompt: "What the agent leaves behind passes its checks.".to_owned(),
        policy: with_evidence(policy, &configured.effective),
        description: None,
        project: Context::project_of(workspace),
        workspace: workspace.to_owned(),
        transcript: SessionLoops::mark(transcript),
        force: true,
        verify: true,
    }))
}

/// The policy of a loop in a session, and what the user should know about it.
fn policy_of(
    configured: &Configured,
    host: Host,
    promise: PromiseRule,
    max_iterations: Option<u32>,
) -> (Policy, Vec<String>) {
    let max_iterations = max_iterations.unwrap_or_else(|| configured.max_iterations());
    let gates = gates_of(&configured.effective);
    let policy = with_budgets(Policy::session(host, promise, max_iterations, gates), &configured.effective);
    let mut warnings = Vec::new();
    if policy.gates.specs.is_empty() {
        warnings.push("no gate checks the promise: the agent's word ends the loop".to_owned());
    }
    if policy.limits.has_budget() {
        warnings.push(
            "budgets are looked at when the agent stops: a turn that has begun is not cut off".to_owned(),
        );
    }
    (with_evidence(policy, &configured.effective), warnings)
}

/// The gates of the configuration, and what it says about tests.
fn gates_of(effective: &Effective) -> GateRules {
    GateRules {
        tests: flags::tests_where_nothing_is_typed(&effective.tests),
        test_paths: effective.test_paths.iter().map(|path| path.value.clone()).collect(),
        ..flags::gate_rules(effective, 0, &[], true)
    }
}

/// What the host writes about usage counts against the configured budgets.
fn with_budgets(policy: Policy, effective: &Effective) -> Policy {
    policy.with(|policy| {
        policy.agent.prices = effective.own_prices();
        // The host is not held; what its agent wrote is, when a gate runs it.
        policy.sandbox = flags::sandbox_rules(&effective.sandbox, None);
        policy.limits.max_time = effective.max_time.value;
        policy.limits.max_cost = effective.budget.max_cost.value;
        policy.limits.max_tokens = effective.budget.max_tokens.value;
        policy.limits.per_day = effective.per_day.budget();
        policy.limits.per_project = effective.per_project.budget();
        policy.pace.backoff = effective.backoff.value;
    })
}

fn with_evidence(mut policy: Policy, effective: &Effective) -> Policy {
    policy.claims.contradictions = effective.contradictions.value.patterns();
    let evidence = effective.evidence.iter().map(|kind| kind.value).collect();
    policy.items = vec![Item { evidence, ..Item::whole() }];
    policy
}
