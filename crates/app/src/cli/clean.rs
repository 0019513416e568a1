//! `dacapo clean`.

use clap::Args;
use dacapo_core::{duration::Millis, ids::LoopId, text::count};
use dacapo_engine::{cleanup, snapshots, supervisor};
use jiff::Timestamp;
use serde::Serialize;

use super::{say, say_json};
use crate::{context::Context, error::UserError};

/// Remove what is safe to remove
///
/// The raw output of loops that were completed or cancelled long ago goes, and so do their snapshots; the journal stays,
/// and so does what a receipt speaks of. Loops whose dacapo died are given their end, and what they left running is
/// ended.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo clean --older-than 7d --dry-run")]
pub(super) struct CleanArgs {
    /// Only what ended longer ago than this
    #[arg(long, value_name = "DUR", default_value = "30d")]
    older_than: Millis,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Cleaned {
    loops: Vec<LoopId>,
    bytes: u64,
    snapshots: Vec<LoopId>,
    ended: Vec<LoopId>,
    dry_run: bool,
}

pub(super) fn clean(cx: &Context, args: &CleanArgs) -> Result<u8, UserError> {
    let mut store = cx.store()?;
    let ended = if args.dry_run { Vec::new() } else { supervisor::reconcile(&cx.home, &mut store)? };
    let before = Timestamp::now() - args.older_than.std();
    let old = cleanup::old_output(&cx.home, &store, before)?;
    let bytes = old.iter().map(|output| output.bytes).sum();
    if !args.dry_run {
        for output in &old {
            output
                .remove()
                .map_err(|error| UserError::environment(format!("cannot remove output: {error}")))?;
        }
    }
    let mut forgotten = snapshots::old(&cx.home, &store, before)?;
    let mut troubles = Vec::new();
    if !args.dry_run {
        forgotten.retain(|id| match snapshots::forget(&cx.home, &store, id) {
            Ok(()) => true,
            Err(error) => {
                troubles.push(format!("The snapshots of loop {id} stay: {error}"));
                false
            }
        });
    }
    let cleaned = Cleaned {
        snapshots: forgotten,
        loops: old.into_iter().map(|output| output.loop_id).collect(),
        bytes,
        ended,
        dry_run: args.dry_run,
    };
    if args.json {
        return say_json(&cleaned);
    }
    let verb = if args.dry_run { "Would remove" } else { "Removed" };
    say(format!("{verb} the output of {} loops, {} KiB.", cleaned.loops.len(), cleaned.bytes.div_ceil(1024)));
    if !cleaned.snapshots.is_empty() {
        let loops = u32::try_from(cleaned.snapshots.len()).unwrap_or(u32::MAX);
        say(format!("{verb} the snapshots of {}.", count(loops, "loop")));
    }
    for trouble in troubles {
        say(trouble);
    }
    for id in &cleaned.ended {
        say(format!("Loop {id} had lost its dacapo; it is stopped now, `dacapo resume {id}` goes on."));
    }
    Ok(0)
}
