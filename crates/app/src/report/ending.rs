//! What a loop leaves behind, told once when it ends: what changed, whether it is committed, what checked it, what to type next.

use std::io::Write;

use dacapo_core::{
    event::Reason,
    ids::LoopId,
    text::{ansi::readable, columns::wrapped},
    view::{LoopView, why},
};
use dacapo_engine::{client::Client, secrets::secrets, snapshots::WorkDone};

use super::{human::since, money, terminal};
use crate::{cli::say_styled, error::UserError};

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
        parts.iter().for_each(|part| say_styled(part));
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
        say_styled(&format!("{} ({}) after {took}{cost}", reason.state().as_str(), reason.as_str()));
    }
    ending(client, &view.id)
}

/// The last line on standard error.
pub(crate) fn last_words(words: &str) {
    let _ = writeln!(std::io::stderr().lock(), "dacapo: {}", secrets().redact(words));
}
