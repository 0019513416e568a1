//! `dacapo completions`.

use clap::Args;
use clap_complete::Shell;

use crate::error::UserError;

/// Print the completion script of a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo completions bash > ~/.local/share/bash-completion/completions/dacapo"
)]
pub(super) struct CompletionsArgs {
    /// The shell that reads the completions
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs, command: &mut clap::Command) -> Result<u8, UserError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "dacapo", &mut script);
    super::say_whole(String::from_utf8_lossy(&script).trim_end());
    Ok(0)
}
