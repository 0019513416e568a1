//! `dacapo hook list`.

use clap::Args;
use dacapo_core::session::{HOOK_EVENTS, HOOK_NAME, HOOK_PRIORITY};
use serde_json::json;

use crate::{
    cli::{say, say_json},
    error::UserError,
};

/// Show the hooks that dacapo has, and the events they hear
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo hook list --json")]
pub(super) struct HookListArgs {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn list(args: &HookListArgs) -> Result<u8, UserError> {
    if args.json {
        return say_json(&json!([{"name": HOOK_NAME, "priority": HOOK_PRIORITY, "events": HOOK_EVENTS}]));
    }
    say(format!("{HOOK_NAME}  priority {HOOK_PRIORITY}  hears {}", HOOK_EVENTS.join(", ")));
    Ok(0)
}
