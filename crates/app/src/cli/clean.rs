//! `dacapo clean`.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use clap::Args;
use dacapo_core::{
    config::{Typed, resolve},
    duration::Millis,
    ids::{LoopId, UnitId},
    text::{count, shell::word},
};
use dacapo_engine::{
    cleanup::{self, AbandonedWorktree, UnmergedWorktree},
    config_files::{ConfigError, ConfigFiles},
    repository::{FinishedWorktree, Retired, WorktreeRemoval},
    reset::{self, ResetUnit},
    snapshots, supervisor,
};
use jiff::Timestamp;
use serde::Serialize;

use super::{say, say_json, unit};
use crate::{context::Context, error::UserError};

/// Remove what is safe to remove
///
/// The raw output of loops that were completed or cancelled long ago goes, and so do their snapshots; the journal stays,
/// and so does what a receipt speaks of. Worktrees and branches of units go if all in them is committed and merged. Loops whose
/// dacapo was killed are recorded as stopped, and what they left running is ended.
#[derive(Args, Debug)]
///
/// With `--reset` it does only this: a unit that is not merged begins anew with the next run. Its worktree goes, and its branch is
/// called `dacapo/old/…` from then on.
#[command(
    after_help = "Example:\n  dacapo clean --older-than 7d --dry-run\n  dacapo clean --reset mail --dry-run"
)]
pub(super) struct CleanArgs {
    /// Only what ended longer ago than this (default: 30d; for snapshots what `snapshots.keep` says, if anything)
    #[arg(long, value_name = "DUR")]
    older_than: Option<Millis>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Let this unit of the repository begin anew; may be given several times
    #[arg(long, value_name = "UNIT", conflicts_with = "older_than")]
    reset: Vec<UnitId>,
    /// Reset a unit although its worktree has uncommitted changes; they are committed to `dacapo/old/…` first
    #[arg(long, requires = "reset")]
    force: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The age at which something is old unless the user or the configuration says otherwise.
const OLD: Millis = Millis::from_secs(30 * 24 * 60 * 60);

#[derive(Serialize)]
struct Cleaned {
    loops: Vec<LoopId>,
    bytes: u64,
    snapshots: Vec<LoopId>,
    worktrees: Vec<PathBuf>,
    abandoned: Vec<AbandonedWorktree>,
    unmerged: Vec<UnmergedWorktree>,
    branches: Vec<String>,
    ended: Vec<LoopId>,
    dry_run: bool,
}

pub(super) fn clean(cx: &Context, args: &CleanArgs) -> Result<u8, UserError> {
    if !args.reset.is_empty() {
        return reset_units(cx, args);
    }
    let mut store = cx.store()?;
    let ended = if args.dry_run { Vec::new() } else { supervisor::reconcile(&cx.home, &mut store)? };
    let old = cleanup::old_output(&cx.home, &store, long_ago(args.older_than.unwrap_or(OLD)))?;
    let bytes = old.iter().map(|output| output.bytes).sum();
    if !args.dry_run {
        for output in &old {
            output
                .remove()
                .map_err(|error| UserError::environment(format!("cannot remove output: {error}")))?;
        }
    }
    let mut troubles = Vec::new();
    let mut ages = HashMap::new();
    let mut forgotten = snapshots::list_forgettable(&cx.home, &store, |workspace| {
        let age =
            ages.entry(workspace.to_owned()).or_insert_with(|| match (args.older_than, kept(workspace)) {
                (Some(typed), _) => Some(typed),
                (None, Ok(configured)) => Some(configured.unwrap_or(OLD)),
                (None, Err(error)) => {
                    troubles.push(format!("The snapshots of `{}` stay: {}", workspace.display(), error));
                    None
                }
            });
        age.map(long_ago)
    })?;
    if !args.dry_run {
        forgotten.retain(|id| match snapshots::forget(&cx.home, &store, id) {
            Ok(()) => true,
            Err(error) => {
                troubles.push(format!("The snapshots of loop {id} stay: {error}"));
                false
            }
        });
    }
    let mut worktrees = cleanup::old_worktrees(&cx.home, &store, long_ago(args.older_than.unwrap_or(OLD)))?;
    let mut branches = cleanup::old_branches(&cx.home, &store, long_ago(args.older_than.unwrap_or(OLD)))?;
    if !args.dry_run {
        let mut remove = |spent: &FinishedWorktree, what: String| {
            let stays = match cleanup::remove_worktree(&cx.home, spent) {
                Ok(WorktreeRemoval::Removed) => return true,
                Ok(WorktreeRemoval::Kept { why }) => why,
                Err(error) => error.to_string(),
            };
            troubles.push(format!("The {what} stays: {stays}"));
            false
        };
        worktrees.retain(|spent| remove(spent, format!("worktree `{}`", spent.path.display())));
        branches.retain(|spent| remove(spent, format!("branch `{}`", spent.branch)));
    }
    let worktrees: Vec<PathBuf> = worktrees.into_iter().map(|worktree| worktree.path).collect();
    let mut abandoned = cleanup::abandoned(&store)?;
    abandoned.retain(|left| !worktrees.contains(&left.path));
    let cleaned = Cleaned {
        snapshots: forgotten,
        worktrees,
        branches: branches.into_iter().map(|spent| spent.branch).collect(),
        abandoned,
        unmerged: cleanup::unmerged_of_workflows(&cx.home, &store)?,
        loops: old.into_iter().map(|output| output.loop_id).collect(),
        bytes,
        ended,
        dry_run: args.dry_run,
    };
    if args.json {
        return say_json(&cleaned);
    }
    let verb = if args.dry_run { "Would remove" } else { "Removed" };
    let loops = u32::try_from(cleaned.loops.len()).unwrap_or(u32::MAX);
    say(format!("{verb} the output of {}, {} KiB.", count(loops, "loop"), cleaned.bytes.div_ceil(1024)));
    if !cleaned.snapshots.is_empty() {
        let loops = u32::try_from(cleaned.snapshots.len()).unwrap_or(u32::MAX);
        say(format!("{verb} the snapshots of {}.", count(loops, "loop")));
    }
    for path in &cleaned.worktrees {
        say(format!("{verb} the worktree `{}` and its branch.", path.display()));
    }
    for AbandonedWorktree { unit, path, branch, root, units_dir } in &cleaned.abandoned {
        let (root, place) = (root.display(), path.display());
        say(format!(
            "The worktree `{place}` stays: there is no unit `{unit}` in `{root}/{units_dir}` any more. If you do not need it: \
             `git -C {} worktree remove --force {} && git -C {} branch -D {branch}`.",
            word(&root.to_string()),
            word(&place.to_string()),
            word(&root.to_string()),
        ));
    }
    for UnmergedWorktree { run, workflow, step, path, root } in &cleaned.unmerged {
        say(format!(
            "The worktree `{}` stays: what step `{step}` of the workflow {workflow} (run {run}) did there was not merged. If you \
             do not need it: `git -C {} worktree remove --force {}`.",
            path.display(),
            word(&root.display().to_string()),
            word(&path.display().to_string()),
        ));
    }
    for branch in &cleaned.branches {
        say(format!("{verb} the branch `{branch}`, all of which is merged."));
    }
    for trouble in troubles {
        say(trouble);
    }
    for id in &cleaned.ended {
        say(format!("Loop {id} had lost its dacapo; it is stopped now, `dacapo resume {id}` goes on."));
    }
    Ok(0)
}

/// A unit that was reset, as scripts see it.
#[derive(Serialize)]
struct ResetLine {
    unit: UnitId,
    worktree: Option<PathBuf>,
    branch: Option<String>,
    kept: Option<String>,
    commit: Option<String>,
    saved: Vec<String>,
    dry_run: bool,
}

fn reset_units(cx: &Context, args: &CleanArgs) -> Result<u8, UserError> {
    let root = unit::root_of(None)?;
    let project = Context::project_of(&root);
    let mut lines = Vec::new();
    for unit in &args.reset {
        let ResetUnit { unit, worktree, branch, retired } =
            reset::reset(&cx.home, (&project, &root), unit, args.force, args.dry_run)?;
        let Retired { kept, commit, saved } = retired;
        let line = ResetLine { unit, worktree, branch, kept, commit, saved, dry_run: args.dry_run };
        if !args.json {
            say(line.words());
        }
        lines.push(line);
    }
    if args.json { say_json(&lines) } else { Ok(0) }
}

impl ResetLine {
    fn words(&self) -> String {
        let Self { unit, branch, .. } = self;
        let (begins, is_called) =
            if self.dry_run { ("would begin", "would be called") } else { ("begins", "is called") };
        let mut words = format!("Unit {unit} {begins} anew.");
        if let (Some(kept), Some(commit), Some(branch)) = (&self.kept, &self.commit, branch) {
            let commit = &commit[..commit.len().min(10)];
            words.push_str(&format!(" Its branch `{branch}` {is_called} `{kept}` ({commit})"));
            if let Some(first) = self.saved.first() {
                let more = match self.saved.len() - 1 {
                    0 => String::new(),
                    n => format!(" and {n} more"),
                };
                words.push_str(&format!(", with what was not committed: `{first}`{more}"));
            }
            words.push_str(&format!("; `git branch -D {kept}` forgets it."));
        }
        words
    }
}

/// How long snapshots of this workspace are kept, if a file says so.
fn kept(workspace: &Path) -> Result<Option<Millis>, ConfigError> {
    let files = ConfigFiles::load(workspace)?;
    Ok(resolve(&files.user, &files.repository, &Typed::default()).snapshots_keep.value)
}

fn long_ago(age: Millis) -> Timestamp {
    Timestamp::now().checked_sub(age.std()).unwrap_or(Timestamp::MIN)
}
