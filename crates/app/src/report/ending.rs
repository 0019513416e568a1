//! What a loop leaves behind, told once when it ends: what changed, whether it is committed, what checked it, what to type next.

use std::{collections::BTreeSet, io::Write, path::Path};

use dacapo_core::{
    event::{MergeMode, Reason, Spend},
    ids::{LoopId, RunId},
    text::{ansi::readable, columns::wrapped},
    view::{LoopView, StageTaskView, UnitView, after_run, why, why_task},
};
use dacapo_engine::{
    client::Client, performer::WorkflowLeft, scheduler::RunFinished, secrets::secrets, snapshots::WorkDone,
    stage_performer::TasksLeft,
};

use super::{human::since, money, terminal};
use crate::error::UserError;

/// How many lines of changed files are listed; `dacapo diff --stat` has all.
const FILES: usize = 12;

/// Tells what the loop has come to, below what the live view has shown of it.
pub(crate) fn ending(client: &Client, id: &LoopId) -> Result<(), UserError> {
    let Some(seen) = client.loop_of_id(id)? else { return Ok(()) };
    let width = if super::is_live() { terminal::width() } else { 100 };
    // What a loop came to is known without the list of its files.
    let done = client.work_done(id, width.saturating_sub(12).max(20)).unwrap_or_default();
    let gates = match client.receipt(id)? {
        Some(receipt) => receipt.gates.into_iter().map(|gate| gate.command).collect(),
        None => Vec::new(),
    };
    for line in lines(&seen.view, done.as_ref(), &gates) {
        let line = readable(secrets().redact(&line).as_bytes());
        let parts = if super::is_live() { wrapped(&line, width) } else { vec![line] };
        parts.iter().for_each(|part| say_if_read(part));
    }
    Ok(())
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
    let why = why(view);
    match view.verified {
        Some(true) if is_done => {
            let gates = gates.iter().map(|gate| format!("`{}`", one_line(gate))).collect::<Vec<_>>();
            let by = if gates.is_empty() { "the gates".to_owned() } else { gates.join(", ") };
            lines.push(format!("  verified by {by}"));
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
            (true, None) => "check the work yourself; next time give `--gate CMD`".to_owned(),
        }
    ));
    lines
}

/// The commits in which runs came to their target, oldest first, and the repository.
struct Merges<'a> {
    root: &'a Path,
    commits: Vec<String>,
}

/// What the loops of runs have changed, what checked it and what it cost; `fate` says where the change is now. What was merged is
/// one look at the target, anything else one at each loop.
fn work_of_runs(
    client: &Client,
    runs: &[&RunId],
    merges: Option<&Merges<'_>>,
    fate: &str,
    width: usize,
) -> Result<Vec<String>, UserError> {
    let columns = width.saturating_sub(12).max(20);
    let mut worked = None;
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
            for gate in client.receipt(id)?.into_iter().flat_map(|receipt| receipt.gates) {
                if !gates.contains(&gate.command) {
                    gates.push(gate.command);
                }
            }
            worked = Some(id.clone());
            // What a run came to is known without the list of its files.
            if merges.is_none()
                && let Ok(Some(done)) = client.work_done(id, columns)
            {
                sum.take(&done.stat, &mut files);
            }
        }
    }
    if let (Some(Merges { root, commits }), Some(id)) = (merges, worked)
        && let (Some(first), Some(last)) = (commits.first(), commits.last())
        && let Ok(stat) = client.stat_of_merges(&id, root, (first.as_str(), last.as_str()), columns)
    {
        sum.take(&stat, &mut files);
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
        let gates: Vec<String> = gates.iter().map(|gate| format!("`{}`", one_line(gate))).collect();
        lines.push(format!("  verified by {}", gates.join(", ")));
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
pub(crate) fn ending_of_units(client: &Client, finished: &RunFinished) -> Result<(), UserError> {
    let RunFinished { id, over, .. } = finished;
    let Some(seen) = client.run_of_id(id)? else { return Ok(()) };
    let is_done = over.exit_code == 0;
    let target = &seen.view.target;
    let fate = match seen.view.merge {
        MergeMode::Merge if is_done => format!("merged into {target}"),
        MergeMode::Merge => format!("what is merged is in {target}"),
        MergeMode::Leave => "committed on the branches of the units".to_owned(),
        MergeMode::PullRequest => format!("in pull requests to {target}"),
    };
    let width = columns_for_people();
    let mut units: Vec<UnitView> = match seen.view.merge {
        MergeMode::Merge => client.units_of_run(id)?,
        MergeMode::Leave | MergeMode::PullRequest => Vec::new(),
    };
    units.sort_by_key(|unit| unit.ended_at);
    let commits: Vec<String> = units.into_iter().filter_map(|unit| unit.merged).collect();
    let merges = Merges { root: &seen.view.root, commits };
    let merges = Some(&merges).filter(|merges| !merges.commits.is_empty());
    let mut lines = work_of_runs(client, &[id], merges, &fate, width)?;
    if !is_done {
        lines.push(format!("  why      {}", over.detail));
    }
    lines.push(format!(
        "  next     {}",
        match is_done {
            true => format!("`dacapo receipt {id}` shows the proofs, `dacapo status` the units"),
            false => after_run(id, &over.reason, &over.detail),
        }
    ));
    tell(lines, width, say_if_read);
    Ok(())
}

/// Tells what tasks have come to, below what the live view has shown of them.
pub(crate) fn ending_of_tasks(client: &Client, left: &TasksLeft) -> Result<(), UserError> {
    let width = columns_for_people();
    let done: Vec<&StageTaskView> = left.views.iter().filter(|view| view.state == "completed").collect();
    let runs: Vec<&RunId> = done.iter().map(|view| &view.id).collect();
    let fate = match done.first().filter(|view| view.commit.is_some()) {
        Some(view) => format!("merged into {}", view.target),
        None => "not merged".to_owned(),
    };
    let mut merged = done.clone();
    merged.sort_by_key(|view| view.ended_at);
    let commits: Vec<String> = merged.iter().filter_map(|view| view.commit.clone()).collect();
    let merges = merged.first().map(|view| Merges { root: &view.root, commits });
    let merges = merges.as_ref().filter(|merges| !merges.commits.is_empty());
    let mut lines = work_of_runs(client, &runs, merges, &fate, width)?;
    for view in left.views.iter().filter(|view| view.state != "completed") {
        let why = why_task(view);
        lines.push(format!("  why      {}", why.because));
        lines.push(format!("  next     {}", why.next));
    }
    if let Some(view) = done.first().filter(|_| done.len() == left.views.len()) {
        let name = if done.len() == 1 { view.task.as_str() } else { "TASK" };
        lines.push(format!("  next     `dacapo receipt {name}` shows the proof"));
    }
    tell(lines, width, say_if_read);
    Ok(())
}

/// Tells what a run of a workflow has come to. Its messages are what standard output holds, so this goes to standard error.
pub(crate) fn ending_of_workflow(client: &Client, left: &WorkflowLeft) -> Result<(), UserError> {
    let width = columns_for_people();
    let id = &left.view.id;
    let is_committed = client
        .loops_of_run(id)?
        .iter()
        .filter_map(|seen| client.work_done(&seen.view.id, 80).ok().flatten())
        .all(|done| done.is_committed);
    let fate = if is_committed { "committed" } else { "not committed" };
    let mut lines = work_of_runs(client, &[id], None, fate, width)?;
    if !lines.is_empty() && left.exit_code == 0 {
        lines
            .push(format!("  next     `dacapo diff {id}` shows the change, `dacapo receipt {id}` the proof"));
    }
    tell(lines, width, |line| {
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    });
    Ok(())
}

/// A command on one line.
fn one_line(command: &str) -> String {
    command.trim().replace('\n', "; ")
}

/// What `dacapo attach` says at the end of a loop, which is what `run` says there.
pub(crate) fn last_line_of_view(client: &Client, view: &LoopView) -> Result<(), UserError> {
    // An owner that died has recorded no end.
    if let (Some(reason @ Reason::Interrupted), None) = (view.reason, view.ended_at) {
        let cost = money(&view.ledger.total()).map(|cost| format!(", {cost}")).unwrap_or_default();
        let took = since(view.started_at, jiff::Timestamp::now()).coarse();
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
