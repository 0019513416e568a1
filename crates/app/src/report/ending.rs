//! What a loop leaves behind, told once when it ends: what changed, whether it is committed, what checked it, what to type next.

use std::{
    collections::BTreeSet,
    io::{IsTerminal, Write},
};

use dacapo_core::{
    event::{MergeMode, Reason, Spend},
    ids::{LoopId, RunId},
    policy::GateSpec,
    receipt::GateProof,
    text::{ansi::readable, columns::wrapped, count},
    view::{LoopView, StageTaskView, StatusShown, WorkflowView, after_run, until_passed, why, why_task},
};
use dacapo_engine::{
    client::Client,
    secrets::secrets,
    snapshots::{DiffForm, WorkDone},
};

use jiff::Timestamp;

use super::{human::since, money, terminal};
use crate::{context::Context, error::UserError};

/// How many lines of changed files are listed; `dacapo diff --stat` has all.
const FILES: usize = 12;

/// How the line begins that names what checked the work.
const VERIFIED: &str = "  verified by";

/// Tells what the loop has come to, below what the live view has shown of it.
pub(crate) fn ending(client: &mut Client, id: &LoopId) -> Result<(), UserError> {
    let Some(seen) = client.loop_of_id(id)? else { return Ok(()) };
    let width = if super::is_live() { terminal::width() } else { 100 };
    // What a loop came to is known without the list of its files.
    let done = client.work_done(id, width.saturating_sub(12).max(20)).unwrap_or_default();
    let gates = match client.receipt(id)? {
        Some(receipt) => receipt.gates.iter().map(gate_words).collect(),
        None => Vec::new(),
    };
    for line in lines(&seen.view, done.as_ref(), &gates) {
        let line = readable(secrets().redact(&line).as_bytes());
        let parts = if super::is_live() { wrapped(&line, width) } else { vec![line] };
        parts.iter().for_each(|part| say_if_read(part));
    }
    remember(client, id.as_str());
    Ok(())
}

/// A person who sits in front of the terminal has seen how it ended.
fn remember(client: &mut Client, id: &str) {
    let is_terminal = std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
    Context::remember_look(client, id, StatusShown::AtItsEnd { is_terminal });
}

fn lines(view: &LoopView, done: Option<&WorkDone>, gates: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let is_done = view.reason == Some(Reason::Done);
    if let Some(done) = done {
        let stat: Vec<&str> = done.stat.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let (sum, files) = stat.split_last().map_or(("", &[][..]), |(sum, files)| (sum.trim(), files));
        let shown = if files.len() > FILES { FILES - 1 } else { files.len() };
        let more = files.len() - shown;
        let more = (more > 0).then(|| format!("… and {more} more files"));
        let committed = if done.is_committed { "committed" } else { "not committed" };
        let all = files[..shown].iter().map(|line| line.trim_start().to_owned());
        for (at, line) in all.chain(more).chain([format!("{sum}; {committed}")]).enumerate() {
            lines.push(format!("  {:<9}{line}", if at == 0 { "changed" } else { "" }));
        }
    }
    // The files of a plain folder are known by their names and hashes.
    if let Some(changed) = view.tally.changed.as_ref().filter(|changed| view.is_plain && changed.count > 0) {
        let files = count(u32::try_from(changed.count).unwrap_or(u32::MAX), "file");
        let more = changed.count.saturating_sub(changed.some.len() as u64);
        let more = (more > 0).then(|| format!("… and {more} more files"));
        let sum = format!("{files} changed; in no git repository, so nothing can be put back");
        for (at, line) in changed.some.iter().cloned().chain(more).chain([sum]).enumerate() {
            lines.push(format!("  {:<9}{line}", if at == 0 { "changed" } else { "" }));
        }
    }
    let why = why(view);
    match view.verified {
        Some(true) if is_done => {
            let by = if gates.is_empty() { "the gates".to_owned() } else { gates.join(", ") };
            lines.push(format!("  verified by {by}"));
        }
        _ if until_passed(view) => {
            lines.push("  verified by the until command alone: no gate stood behind it".to_owned());
        }
        _ if is_done => lines.push("  verified by nothing: no gate checked it".to_owned()),
        _ => lines.push(format!("  why      {}", why.because)),
    }
    let id = &view.id;
    lines.push(format!(
        "  next     {}",
        match (is_done, done) {
            (false, _) => why.next,
            (true, Some(done)) if done.is_committed =>
                format!("`dacapo diff {id}` shows the change, `dacapo receipt {id}` the proof"),
            (true, Some(_)) => format!(
                "`dacapo diff {id}` shows the change; `git add -A && git commit` keeps it, \
                 `dacapo restore {id}@0` takes it back"
            ),
            (true, None) if view.verified == Some(true) => format!("`dacapo receipt {id}` shows the proof"),
            (true, None) => why.next,
        }
    ));
    lines
}

/// What runs have changed, what checked it and what it cost; `fate` says where the change is now.
fn work_of_runs(client: &Client, runs: &[RunId], fate: &str, width: usize) -> Result<Vec<String>, UserError> {
    let columns = width.saturating_sub(12).max(20);
    let (mut files, mut sum, mut gates) = (Vec::<String>::new(), Sum::default(), Vec::<String>::new());
    let mut spend = Spend::default();
    for run in runs {
        for seen in client.loops_of_run(run)? {
            let id = &seen.view.id;
            let own = seen.view.ledger.total();
            spend.estimated |= own.estimated;
            if let Some(cost) = own.cost_usd {
                spend.cost_usd = Some(spend.cost_usd.unwrap_or(0.0) + cost);
            }
            if seen.view.iteration == 0 {
                continue;
            }
            for gate in client.receipt(id)?.iter().flat_map(|receipt| &receipt.gates).map(gate_words) {
                if !gates.contains(&gate) {
                    gates.push(gate);
                }
            }
        }
    }
    // What a run came to is known without the list of its files.
    for change in client.changes_of_runs(runs, None).unwrap_or_default() {
        if let Ok(stat) = client.difference_of_change(&change, DiffForm::Stat { columns }) {
            sum.take(&String::from_utf8_lossy(&stat), &mut files);
        }
    }
    let mut lines = Vec::new();
    if !files.is_empty() {
        sum.files = files
            .iter()
            .map(|line| line.split('|').next().unwrap_or_default().trim())
            .collect::<BTreeSet<_>>()
            .len();
        let shown = if files.len() > FILES { FILES - 1 } else { files.len() };
        let more = files.len() - shown;
        let more = (more > 0).then(|| format!("… and {more} more files"));
        for (at, line) in
            files.into_iter().take(shown).chain(more).chain([format!("{}; {fate}", sum.words())]).enumerate()
        {
            lines.push(format!("  {:<9}{line}", if at == 0 { "changed" } else { "" }));
        }
    }
    if !gates.is_empty() {
        lines.push(format!("{VERIFIED} {}", gates.join(", ")));
    }
    if let Some(cost) = money(&spend) {
        lines.push(format!("  cost     {cost}"));
    }
    Ok(lines)
}

/// The last line of `git diff --stat`, of several of them together.
#[derive(Default)]
struct Sum {
    files: usize,
    insertions: u64,
    deletions: u64,
}

impl Sum {
    /// Takes in what `git diff --stat` printed, with its files.
    fn take(&mut self, stat: &str, files: &mut Vec<String>) {
        let stat: Vec<&str> = stat.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let Some((last, listed)) = stat.split_last() else { return };
        self.add(last);
        for line in listed {
            if !files.iter().any(|known| known == line) {
                files.push((*line).to_owned());
            }
        }
    }

    fn add(&mut self, line: &str) {
        for part in line.split(',').map(str::trim) {
            let number = part.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0);
            if part.contains("insertion") {
                self.insertions += number;
            } else if part.contains("deletion") {
                self.deletions += number;
            }
        }
    }

    fn words(&self) -> String {
        let many = |number: u64, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let mut words = format!("{} changed", many(self.files as u64, "file"));
        for (number, what, sign) in [(self.insertions, "insertion", '+'), (self.deletions, "deletion", '-')] {
            if number > 0 {
                words.push_str(&format!(", {}({sign})", many(number, what)));
            }
        }
        words
    }
}

fn columns_for_people() -> usize {
    if super::is_live() { terminal::width() } else { 100 }
}

fn tell(lines: Vec<String>, width: usize, mut print: impl FnMut(&str)) {
    for line in lines {
        let line = readable(secrets().redact(&line).as_bytes());
        let parts = if super::is_live() { wrapped(&line, width) } else { vec![line] };
        parts.iter().for_each(|part| print(part));
    }
}

/// Tells what a run of units has come to, below what the live view has shown of it.
pub(crate) fn ending_of_units(client: &mut Client, id: &RunId) -> Result<(), UserError> {
    let Some(seen) = client.run_of_id(id)? else { return Ok(()) };
    let is_done = seen.view.exit_code == Some(0);
    let detail = seen.view.detail.clone().unwrap_or_default();
    let target = &seen.view.target;
    let units = client.units_of_run(id)?;
    // The newest of them: it holds what the merges before it hold.
    let left = units.iter().filter_map(|unit| Some((unit.ended_at?, unit.left_on.as_ref()?)));
    let left = left.max_by_key(|(ended, _)| *ended).map(|(_, left)| left);
    let fate = match seen.view.merge {
        MergeMode::Merge if left.is_some() => format!("not all of it is in {target} yet"),
        MergeMode::Merge if is_done => format!("merged into {target}"),
        MergeMode::Merge => format!("what is merged is in {target}"),
        MergeMode::Leave => "committed on the branches of the units".to_owned(),
        MergeMode::PullRequest => format!("in pull requests to {target}"),
    };
    let width = columns_for_people();
    let mut lines = work_of_runs(client, std::slice::from_ref(id), &fate, width)?;
    if !is_done {
        lines.push(format!("  why      {detail}"));
    }
    lines.push(format!(
        "  next     {}",
        match (is_done, left) {
            (true, Some((_, command))) =>
                format!("`{command}` moves {target}; `dacapo receipt {id}` shows the proofs"),
            (true, None) => format!("`dacapo receipt {id}` shows the proofs, `dacapo status` the units"),
            (false, _) => after_run(id, seen.view.reason.as_deref().unwrap_or_default(), &detail, &units),
        }
    ));
    tell(lines, width, say_if_read);
    remember(client, id.as_str());
    Ok(())
}

/// Tells what tasks have come to, below what the live view has shown of them.
pub(crate) fn ending_of_tasks(client: &mut Client, views: &[StageTaskView]) -> Result<(), UserError> {
    let width = columns_for_people();
    let (done, open): (Vec<&StageTaskView>, Vec<&StageTaskView>) =
        views.iter().partition(|view| view.state == "completed");
    let ids = |views: &[&StageTaskView]| views.iter().map(|view| view.id.clone()).collect::<Vec<RunId>>();
    let fate = match done.first().filter(|view| view.commit.is_some()) {
        Some(view) => format!("merged into {}", view.target),
        None => "not merged".to_owned(),
    };
    let mut lines = work_of_runs(client, &ids(&done), &fate, width)?;
    if !done.is_empty() && !lines.iter().any(|line| line.starts_with(VERIFIED)) {
        lines.push(format!("{VERIFIED} its stages alone: no gate checked it"));
    }
    lines.extend(work_of_runs(client, &ids(&open), "not merged", width)?);
    let began = views.iter().map(|view| view.started_at).min();
    let ended = views.iter().filter_map(|view| view.ended_at.or(view.waits_since)).max();
    lines.extend(time(began, ended));
    for view in open {
        let why = why_task(view);
        lines.push(format!("  why      {}", why.because));
        lines.push(format!("  next     {}", why.next));
    }
    if let Some(view) = done.first().filter(|_| done.len() == views.len()) {
        let name = if done.len() == 1 { view.task.as_str() } else { "TASK" };
        lines.push(format!(
            "  next     `dacapo diff {name}` shows the change, `dacapo receipt {name}` the proof"
        ));
    }
    tell(lines, width, say_if_read);
    views.iter().for_each(|view| remember(client, view.id.as_str()));
    Ok(())
}

/// The line about how long it took.
fn time(began: Option<Timestamp>, ended: Option<Timestamp>) -> Option<String> {
    Some(format!("  time     {}", since(began?, ended?).human()))
}

/// Tells what a run of a workflow has come to. Its messages are what standard output holds, so this goes to standard error.
pub(crate) fn ending_of_workflow(client: &mut Client, view: &WorkflowView) -> Result<(), UserError> {
    let width = columns_for_people();
    let id = &view.id;
    let loops = client.loops_of_run(id)?;
    let is_committed = loops
        .iter()
        .filter_map(|seen| client.work_done(&seen.view.id, 80).ok().flatten())
        .all(|done| done.is_committed);
    let fate = if is_committed { "committed" } else { "not committed" };
    let mut lines = work_of_runs(client, std::slice::from_ref(id), fate, width)?;
    lines.extend(time(Some(view.started_at), view.ended_at).filter(|_| !lines.is_empty()));
    if !lines.is_empty() && view.state == "completed" {
        lines.push(if loops.iter().all(|seen| seen.view.is_plain) {
            format!("  next     `dacapo receipt {id}` shows the proof")
        } else {
            format!("  next     `dacapo diff {id}` shows the change, `dacapo receipt {id}` the proof")
        });
    }
    tell(lines, width, |line| {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    });
    remember(client, id.as_str());
    Ok(())
}

/// A gate as people know it: by its command on one line; a check of dacapo's own by its name.
fn gate_words(gate: &GateProof) -> String {
    if gate.name == GateSpec::NO_MARKERS {
        return gate.name.clone();
    }
    format!("`{}`", gate.command.trim().replace('\n', "; "))
}

/// What `dacapo attach` says at the end of a loop, which is what `run` says there.
pub(crate) fn last_line_of_view(client: &mut Client, view: &LoopView) -> Result<(), UserError> {
    // An owner that died has recorded no end.
    if let (Some(reason @ Reason::Interrupted), None) = (view.reason, view.ended_at) {
        let cost = money(&view.ledger.total()).map(|cost| format!(", {cost}")).unwrap_or_default();
        let took = since(view.started_at, Timestamp::now()).coarse();
        say_if_read(&format!("{} ({}) after {took}{cost}", reason.state().as_str(), reason.as_str()));
    }
    ending(client, &view.id)
}

/// Prints a line to standard output. A reader that has gone (`| head -1`) does not change what the command exits with: that says
/// how the loop ended.
fn say_if_read(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// The last line on standard error.
pub(crate) fn last_words(words: &str) {
    let _ = writeln!(std::io::stderr().lock(), "dacapo: {}", secrets().redact(words));
}
