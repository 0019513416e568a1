//! `dacapo trust`.

use std::path::PathBuf;

use clap::Args;
use dacapo_core::trust::{Fingerprint, Runnable};
use dacapo_engine::{
    config_files,
    trust::{self, Trust},
};
use jiff::Timestamp;
use serde::Serialize;

use super::{configured::Configured, consent, say, say_json};
use crate::{context::Context, error::UserError};

/// Agree to the commands that a repository defines
///
/// Nothing from a repository's .dacapo/config.yaml runs before you agree. Consent is for these very commands: if one
/// byte of them changes, you are asked again.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo trust --show\n  dacapo trust")]
pub(super) struct TrustArgs {
    /// Show what could run and how it stands, and ask nothing
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    show: bool,
    /// Agree without being asked
    #[arg(long, conflicts_with = "revoke")]
    yes: bool,
    /// Withdraw consent
    #[arg(long)]
    revoke: bool,
    /// The repository (default: the one we are in)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// As JSON; with --show
    #[arg(long, requires = "show")]
    json: bool,
}

/// How a repository stands, for scripts.
#[derive(Serialize)]
struct Shown<'a> {
    root: Option<&'a PathBuf>,
    /// `trusted`, `untrusted`, `changed` or `nothing_to_trust`.
    state: &'static str,
    since: Option<Timestamp>,
    fingerprint: Fingerprint,
    commands: &'a [Runnable],
    /// What was agreed to before, if it was something else.
    trusted_commands: Vec<Runnable>,
    agent_configuration: Vec<String>,
}

pub(super) fn trust(cx: &Context, args: &TrustArgs) -> Result<u8, UserError> {
    let folder = Context::folder(args.dir.as_ref())?;
    if args.revoke {
        // Without reading the file: it may be broken by now.
        let was = match config_files::repository_root(&folder) {
            Some(root) => trust::revoke(&cx.home, &root)?,
            None => false,
        };
        say(if was { "Consent is withdrawn." } else { "There was no consent to withdraw." });
        return Ok(0);
    }
    let configured = Configured::load(&folder)?;
    let runnables = &configured.runnables;
    let trust = match configured.root() {
        Some(root) if !runnables.is_empty() => trust::look(&cx.home, root, runnables)?,
        _ => Trust::Never,
    };
    let agents = configured.root().unwrap_or(&folder);
    let agent_configuration = config_files::agent_configuration(agents);
    if args.json {
        let (state, since, trusted_commands) = match trust {
            _ if runnables.is_empty() => ("nothing_to_trust", None, Vec::new()),
            Trust::Trusted { since } => ("trusted", Some(since), Vec::new()),
            Trust::Never => ("untrusted", None, Vec::new()),
            Trust::Changed { old } => ("changed", None, old),
        };
        return say_json(&Shown {
            root: configured.root(),
            state,
            since,
            fingerprint: Fingerprint::of(runnables),
            commands: runnables,
            trusted_commands,
            agent_configuration,
        });
    }
    let root = match configured.root() {
        Some(root) if !runnables.is_empty() => root,
        _ => {
            say(format!("Nothing to trust: no {} here defines a command.", config_files::REPOSITORY_FILE));
            list_agents(&agent_configuration);
            return Ok(0);
        }
    };
    say(format!("{}{}", consent::headline(&trust, root), consent::commands(&trust, runnables)).trim_end());
    list_agents(&agent_configuration);
    if let Trust::Trusted { since } = trust {
        say(format!("Trusted since {}.", since.strftime("%Y-%m-%d %H:%M:%S UTC")));
        return Ok(0);
    }
    if args.show {
        say("Not trusted: none of it runs. `dacapo trust` agrees to it.");
        return Ok(0);
    }
    // An agent can type this as well as a person, and is the last one to decide what may run.
    if std::env::var_os("DACAPO_LOOP").is_some() {
        return Err(UserError::needs_person("untrusted: consent is a person's to give, not an agent's"));
    }
    if !args.yes {
        if !consent::can_ask() {
            return Err(UserError::needs_person("untrusted: there is nobody to ask")
                .hint("`dacapo trust --yes` agrees to the commands above"));
        }
        if !consent::ask()? {
            return Err(UserError::needs_person("untrusted: you did not agree"));
        }
    }
    trust::grant(&cx.home, root, runnables, Timestamp::now())?;
    say("Trusted. If one of these commands changes, you are asked again.");
    Ok(0)
}

fn list_agents(found: &[String]) {
    if !found.is_empty() {
        say(format!("It also speaks to agents, which follow it by their own rules: {}", found.join(", ")));
    }
}
