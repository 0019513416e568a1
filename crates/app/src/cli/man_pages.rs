//! `dacapo man-pages`, which the scripts that install and package dacapo call.

use std::path::PathBuf;

use clap::Args;

use crate::error::UserError;

/// Write a manual page for each command
#[derive(Args, Debug)]
#[command(hide = true, after_help = "Example:\n  dacapo man-pages ~/.local/share/man/man1")]
pub(super) struct ManPagesArgs {
    /// The folder, made if it does not exist
    folder: PathBuf,
}

pub(super) fn man_pages(args: &ManPagesArgs, command: clap::Command) -> Result<u8, UserError> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(command, &args.folder))
        .map_err(|error| {
            UserError::environment(format!("cannot write manual pages to `{folder}`: {error}"))
        })?;
    Ok(0)
}
