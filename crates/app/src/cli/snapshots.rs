//! `dacapo snapshots` and `dacapo restore`.

use clap::Args;
use dacapo_core::{ids::LoopId, stages::StageName, text::count};
use dacapo_engine::snapshots::SnapshotChoice;
use jiff::Timestamp;
use serde::Serialize;

use super::{receipt::short, say, say_json};
use crate::{context::Context, error::UserError};

/// List the states of a loop's files that were kept
///
/// One before the first iteration, one after each iteration that changed something. Files that git ignores are not in
/// them.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo snapshots fix-tests\n  dacapo snapshots TASK-001 --json")]
pub(super) struct SnapshotsArgs {
    /// The loop: its id, the beginning of it, or its task; of a task of `dacapo task`, all its stages (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    id: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SnapshotLine {
    /// The stage of a task whose files they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<StageName>,
    #[serde(rename = "loop")]
    loop_id: LoopId,
    iteration: u32,
    id: String,
    at: Timestamp,
    changed: Option<usize>,
}

pub(super) fn list(cx: &Context, args: &SnapshotsArgs) -> Result<u8, UserError> {
    let client = cx.client()?;
    let name = cx.name(&client, args.id.as_deref())?;
    // A loop by its own id is meant alone; the name of a task means all its stages.
    let task = match name.parse::<LoopId>() {
        Ok(id) if client.loop_of_id(&id)?.is_some() => None,
        _ => cx.find_task(&client, &name)?,
    };
    let loops = match task {
        Some(seen) => client.loops_of_run(&seen.view.id)?.into_iter().map(|seen| seen.view.id).collect(),
        None => vec![cx.find_worked(&client, &name)?.view.id],
    };
    let mut lines: Vec<(LoopId, SnapshotLine)> = Vec::new();
    for id in loops {
        let started = client.loop_started(&id)?;
        let purpose = started.and_then(|started| started.purpose);
        let stage = purpose.and_then(|purpose| purpose.as_stage().map(|(stage, _)| stage));
        // The check of a merge has no files of its own to go back to.
        for kept in client
            .snapshots(&id)
            .or_else(|error| if lines.is_empty() { Err(error) } else { Ok(Vec::new()) })?
        {
            let line = SnapshotLine {
                stage,
                loop_id: id.clone(),
                iteration: kept.iteration,
                id: kept.id,
                at: kept.at,
                changed: kept.changed,
            };
            lines.push((id.clone(), line));
        }
    }
    if args.json {
        return say_json(&lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>());
    }
    for (id, line) in lines {
        let changed = match (line.iteration, line.changed) {
            (0, _) => "before the first iteration".to_owned(),
            (_, Some(n)) => format!("{} changed", count(u32::try_from(n).unwrap_or(u32::MAX), "path")),
            (_, None) => "not there any more".to_owned(),
        };
        let at = line.at.strftime("%Y-%m-%d %H:%M:%SZ");
        let stage = line.stage.map(|stage| format!("  ({stage})")).unwrap_or_default();
        say(format!("{id}@{:<4} {}  {at}  {changed}{stage}", line.iteration, short(&line.id)));
    }
    Ok(0)
}

/// Put a loop's files back to how they were after an iteration
///
/// `ID@0` is before the first iteration, `ID@undo` takes the last restore back. HEAD, the index and files that git
/// ignores stay as they are.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo restore fix-tests@2\n  dacapo restore fix-tests@undo")]
pub(super) struct RestoreArgs {
    /// The loop, and after which iteration; `@N` alone means the only loop that runs in this folder, else its newest
    #[arg(value_name = "ID@N")]
    what: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct RestoreJson {
    #[serde(rename = "loop")]
    loop_id: String,
    snapshot: String,
    changed: bool,
}

pub(super) fn restore(cx: &Context, args: &RestoreArgs) -> Result<u8, UserError> {
    let malformed = || {
        UserError::usage(format!("`{}` does not say which state", args.what))
            .hint("`ID@2` is after iteration 2, `ID@0` before the first, `ID@undo` before the last restore")
    };
    let (name, state) = args.what.rsplit_once('@').ok_or_else(malformed)?;
    let which = match state {
        "undo" => SnapshotChoice::Undo,
        number => SnapshotChoice::After(number.parse().map_err(|_| malformed())?),
    };
    let client = cx.client()?;
    let name = cx.name(&client, Some(name).filter(|name| !name.is_empty()))?;
    let view = cx.find_worked(&client, &name)?.view;
    let id = view.id.clone();
    let restored = client.restore(&view, which)?;
    if args.json {
        return say_json(&RestoreJson {
            loop_id: id.to_string(),
            snapshot: restored.id,
            changed: restored.changed,
        });
    }
    let dir = view.workspace.display();
    if restored.changed {
        say(format!("Restored `{dir}` to snapshot {}.", short(&restored.id)));
        say(format!("`dacapo restore {id}@undo` takes that back."));
    } else {
        say(format!("`{dir}` is at snapshot {} already.", short(&restored.id)));
    }
    Ok(0)
}
