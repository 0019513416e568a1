//! The units of `dacapo status`.

use dacapo_core::{
    event::MergeMode,
    view::{RunView, UnitView, unit_line},
};
use dacapo_engine::client::Client;

use super::say;
use crate::{context::Context, error::UserError};

/// A section for each run that goes on, and for the newest that has ended, here if there is one, `below` what was said
/// before.
pub(super) fn sections(client: &Client, below: bool) -> Result<(), UserError> {
    let mut gap = if below { "\n" } else { "" };
    for run in client.runs_to_show(Context::here().as_ref())?.into_iter().map(|seen| seen.view) {
        let units = client.units_of_run(&run.id)?;
        if units.is_empty() {
            continue;
        }
        say(format!("{gap}{}", heading(&run, &units)));
        gap = "\n";
        let width = units.iter().map(|view| view.unit.as_str().len()).max().unwrap_or(0);
        for unit in &units {
            say(format!("  {}", unit_line(unit, width)));
        }
    }
    Ok(())
}

fn heading(run: &RunView, units: &[UnitView]) -> String {
    let good = units.iter().filter(|view| view.status.is_good()).count();
    let word = match run.merge {
        MergeMode::Merge => "merged",
        MergeMode::Leave => "completed",
        MergeMode::PullRequest => "published",
    };
    let state = if run.state == "running" { String::new() } else { format!(", {}", run.state) };
    let (root, all) = (run.root.display(), units.len());
    format!("Units of {root} (run {}, target {}{state}): {good} of {all} {word}", run.id, run.target)
}

/// One unit.
pub(super) fn detail(view: &UnitView) {
    let (done, all) = view.progress();
    say(format!("Unit {}: {}", view.unit, view.status.words()));
    say(format!("  project {}, run {}", view.project, view.run));
    if let Some(detail) = &view.detail {
        say(format!("  {detail}"));
    }
    if !view.blocked_by.is_empty() {
        say(format!("  blocked by {}", list(&view.blocked_by)));
    }
    if !view.depends_on.is_empty() {
        say(format!("  depends on {}", list(&view.depends_on)));
    }
    say(format!("  tasks {done}/{all}"));
    for task in &view.tasks {
        say(format!("    {:>2}  {:<11}  {}", task.task, task.words(), task.title));
    }
    for (what, value) in [
        ("slot", view.slot.map(|slot| slot.to_string())),
        ("branch", view.branch.clone()),
        ("worktree", view.worktree.as_ref().map(|path| path.display().to_string())),
        ("loop", view.loop_id.as_ref().map(ToString::to_string)),
        ("pull request", view.pr.clone()),
        ("merged as", view.merged.clone()),
        (
            "left on",
            view.left_on.as_ref().map(|(branch, command)| format!("{branch}; `{command}` moves the target")),
        ),
    ] {
        if let Some(value) = value {
            say(format!("  {what} {value}"));
        }
    }
    if !view.receipts.is_empty() {
        say(format!("  receipts: {}", list(&view.receipts)));
    }
}

fn list(ids: &[impl ToString]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
