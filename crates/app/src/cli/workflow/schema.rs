//! `dacapo workflow schema`.

use clap::Args;

use super::super::say_whole;
use crate::error::UserError;

/// Print the JSON Schema of workflow files, for editors
///
/// In a file, `# yaml-language-server: $schema=workflow.schema.json` as the first line makes an editor complete and check it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo workflow schema > .dacapo/workflow.schema.json")]
pub(super) struct SchemaArgs {
    /// Taken for granted: the schema is JSON
    #[arg(long, hide = true)]
    json: bool,
}

pub(super) fn schema() -> Result<u8, UserError> {
    let schema = dacapo_core::workflow::schema::schema();
    say_whole(serde_json::to_string_pretty(&schema).map_err(UserError::failed)?);
    Ok(0)
}
