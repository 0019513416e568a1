//! What `dacapo explain session` shows: the loop that `/ralph` or `dacapo session start` would begin here.

use std::path::PathBuf;

use clap::Args;
use dacapo_core::{config::SettingSource, judge::promise::PromiseRule, policy::Policy, session::Host};

use super::{Configured, policy_of};
use crate::{cli::value, context::Context, error::UserError};

#[derive(Args, Debug)]
pub(in crate::cli) struct ExplainSessionArgs {
    /// Stop after N iterations (default: as configured, else 100)
    #[arg(long, value_name = "N", value_parser = value::positive, allow_hyphen_values = true)]
    max_iterations: Option<u32>,
    /// The words of the promise by which the agent says that it is done (default: as configured, else DONE)
    #[arg(long, value_name = "TEXT", value_parser = value::one_line)]
    completion_promise: Option<String>,
    /// The host of the session: claude, codex, gemini, qwen, copilot or opencode
    #[arg(long, value_name = "AGENT", default_value = "claude", value_parser = value::not_blank)]
    agent: String,
    /// Where the agent works (default: here)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// The loop that would begin.
pub(in crate::cli) struct PlannedSession {
    pub(in crate::cli) host: Host,
    pub(in crate::cli) workspace: PathBuf,
    pub(in crate::cli) configured: Configured,
    pub(in crate::cli) policy: Policy,
    pub(in crate::cli) warnings: Vec<String>,
}

impl ExplainSessionArgs {
    pub(in crate::cli) fn plan(&self) -> Result<PlannedSession, UserError> {
        let host: Host = self.agent.parse().map_err(UserError::usage)?;
        let workspace = Context::folder(self.dir.as_ref())?;
        let mut configured = Configured::load(&workspace)?;
        let text = self.completion_promise.as_ref().unwrap_or(&configured.settings.completion_promise);
        let promise = PromiseRule::new(text)
            .map_err(|error| UserError::usage(format!("--completion-promise: {error}")))?;
        let (policy, warnings) = policy_of(&configured, host, promise, self.max_iterations);
        // What counts for a loop of a session is the lower of two settings.
        let limits = (&configured.effective.session.max_iterations, &configured.effective.max_iterations);
        let from = match self.max_iterations {
            Some(_) => SettingSource::Flag("--max-iterations"),
            None if limits.0.value <= limits.1.value => limits.0.from.clone(),
            None => limits.1.from.clone(),
        };
        configured.effective.max_iterations.from = from;
        Ok(PlannedSession { host, workspace, configured, policy, warnings })
    }
}
