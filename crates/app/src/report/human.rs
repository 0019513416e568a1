//! A loop for people: lines that stay, and in a terminal one below them that lives.

use std::time::{Duration, Instant};

use dacapo_core::{
    duration::Millis,
    event::{Envelope, FinishState, GateRole, IterationOutcome, LoopEvent},
    judge::signal::Signal,
    text::{
        ansi::readable,
        columns::{columns, fitting},
        count,
    },
    view::LoopView,
};
use dacapo_engine::{observer::Observer, store::Channel};

use super::{event_lines, out::Out};

/// Shows a loop to a person.
pub(super) struct Human {
    out: Out,
    is_live: bool,
    is_coloured: bool,
    is_verbose: bool,
    began: Instant,
    since: Instant,
    doing: String,
    /// The end of what was printed last, not yet a whole line.
    tail: Vec<u8>,
    last: String,
    turn: usize,
    /// What agents have cost so far.
    cost: Option<String>,
    /// What was said of the agent's end, waiting for what its iteration came to.
    exit: Option<String>,
    /// What goes below that line, and its colour.
    notes: Vec<(&'static str, String)>,
    /// What the agent's end was put down to: it is shown once.
    said: String,
}

impl Human {
    pub(super) fn new(is_live: bool, is_verbose: bool) -> Self {
        let is_coloured = is_live && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            out: Out::new(),
            is_live,
            is_coloured,
            is_verbose,
            began: Instant::now(),
            since: Instant::now(),
            doing: String::new(),
            tail: Vec::new(),
            last: String::new(),
            turn: 0,
            cost: None,
            exit: None,
            notes: Vec::new(),
            said: String::new(),
        }
    }

    /// A line that belongs below the one about the agent's end.
    fn note(&mut self, colour: &'static str, text: String) {
        if self.exit.is_some() {
            self.notes.push((colour, text));
        } else {
            self.line(colour, &text);
        }
    }

    /// The line about an iteration, now that it is known what it came to, and what goes below it.
    fn iteration(&mut self, colour: &str, iteration: u32, view: &LoopView, what: &str) {
        let exit = self.exit.take().map(|exit| format!("{exit} · ")).unwrap_or_default();
        self.line(colour, &format!("iteration {iteration}/{}  {exit}{what}", view.max_iterations));
        for (colour, text) in std::mem::take(&mut self.notes) {
            self.line(colour, &text);
        }
    }

    /// A line that stays.
    fn line(&self, colour: &str, text: &str) {
        self.out.write(self.dressed(colour, text));
    }

    fn dressed(&self, colour: &str, text: &str) -> Vec<u8> {
        let text = readable(text.as_bytes());
        let clear = if self.is_live { "\r\x1b[2K" } else { "" };
        match (self.is_coloured, colour) {
            (true, colour) if !colour.is_empty() => format!("{clear}\x1b[{colour}m{text}\x1b[0m\n"),
            _ => format!("{clear}{text}\n"),
        }
        .into_bytes()
    }

    /// The line that lives.
    fn draw(&self) {
        if !self.is_live || self.doing.is_empty() {
            return;
        }
        const TURNS: [&str; 4] = ["⠋", "⠙", "⠸", "⠴"];
        let elapsed = Millis::from(self.since.elapsed()).human();
        let cost = self.cost.as_ref().map(|cost| format!(" · {cost}")).unwrap_or_default();
        let head = format!("{} {} · {elapsed}{cost}", TURNS[self.turn % TURNS.len()], self.doing);
        // A line that is wider than the terminal would wrap, and its first part would never be cleared.
        let room = width().saturating_sub(1);
        let head = fitting(&head, room);
        let room = room.saturating_sub(columns(head) + 3);
        let last = fitting(&self.last, room);
        let last = if last.is_empty() { String::new() } else { format!(" · {last}") };
        let line = if self.is_coloured {
            format!("\r\x1b[2K{head}\x1b[2m{last}\x1b[0m")
        } else {
            format!("\r\x1b[2K{head}{last}")
        };
        self.out.write_if_read(line.into_bytes());
    }

    fn now_doing(&mut self, what: String) {
        self.doing = what;
        self.since = Instant::now();
        self.last.clear();
        self.tail.clear();
    }

    fn show(&mut self, envelope: &Envelope, view: &LoopView) {
        if let LoopEvent::AgentExited { exit, .. } = &envelope.event {
            self.said = exit.detail.clone().unwrap_or_default();
        }
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                self.line(
                    "1",
                    &format!("dacapo: loop {} · task {} · agent {}", view.id, view.task, view.agent),
                );
                let asked: Vec<&str> = started
                    .policy
                    .whole()
                    .iter()
                    .flat_map(|item| &item.evidence)
                    .map(|evidence| evidence.as_str())
                    .collect();
                let mut gates = match started.policy.gates.specs.len() {
                    0 if asked.is_empty() => "no gate: a claim is believed".to_owned(),
                    0 => "no gate".to_owned(),
                    1 => "1 gate".to_owned(),
                    n => format!("{n} gates"),
                };
                if !asked.is_empty() {
                    gates.push_str(&format!(" · evidence: {}", asked.join(", ")));
                }
                self.line(
                    "2",
                    &format!(
                        "  in {} · {gates} · at most {}",
                        started.workspace.display(),
                        count(started.policy.limits.max_iterations, "iteration")
                    ),
                );
            }
            LoopEvent::LoopResumed { .. } => {
                self.line(
                    "1",
                    &format!("dacapo: loop {} resumed · task {} · agent {}", view.id, view.task, view.agent),
                );
            }
            LoopEvent::TasksAwaited { tasks } if !tasks.is_empty() => {
                let names = tasks.iter().map(|t| t.as_str()).collect::<Vec<_>>().join(", ");
                self.line("", &format!("waits for {names}"));
                self.now_doing(format!("waiting for {names}"));
            }
            LoopEvent::IterationStarted { iteration, max_iterations } => {
                self.now_doing(format!("iteration {iteration}/{max_iterations}"));
            }
            LoopEvent::AgentStarted { iteration, attempt: _, .. } => {
                self.now_doing(format!("iteration {iteration}/{}", view.max_iterations));
            }
            LoopEvent::AgentExited { exit, iteration, .. } if !exit.outcome.is_charged() => {
                self.line(
                    "33",
                    &format!("iteration {iteration}/{}  {}", view.max_iterations, event_lines::exit(exit)),
                );
            }
            LoopEvent::AgentExited { exit, .. } => self.exit = Some(event_lines::exit(exit)),
            LoopEvent::Parked { until, why } => {
                let until = event_lines::clock(*until);
                let why = unsaid(why, &self.said).map(|why| format!(": {why}")).unwrap_or_default();
                self.line("33", &format!("  parked until {until}{why}"));
                self.said.clear();
                self.now_doing(format!("parked until {until}"));
            }
            LoopEvent::AgentSwitched { agent, why, .. } => {
                self.line("33", &format!("  goes on with {agent}: {why}"));
            }
            LoopEvent::BudgetReached { detail } => self.line("31", &format!("  budget reached: {detail}")),
            LoopEvent::ClaimMade { iteration, by } => {
                self.iteration("36", *iteration, view, &event_lines::claim(by));
                self.now_doing("judging the claim".to_owned());
            }
            LoopEvent::ChildrenAwaited { children } => {
                self.now_doing(format!("waiting for {} child loops", children.len()))
            }
            LoopEvent::SignalSeen { signal: Signal::NearMiss(miss), .. } => {
                let hint = dacapo_core::prompt::hint(*miss);
                self.note("33", format!("  a promise that does not count: {hint}"));
            }
            LoopEvent::SignalSeen { signal: Signal::BlockedNearMiss(miss), .. } => {
                let hint = dacapo_core::prompt::hint(*miss);
                self.note("33", format!("  a blocked tag that does not count: {hint}"));
            }
            LoopEvent::GateStarted { name, role, iteration, .. } => {
                // The agent claimed nothing; whether there is a claim all the same is what `--until-cmd` asks.
                if self.exit.is_some() {
                    self.iteration("", *iteration, view, "no claim");
                }
                let what = match role {
                    GateRole::Gate => "gate",
                    GateRole::Until => "until",
                    GateRole::Baseline => "baseline: gate",
                };
                self.now_doing(format!("{what} `{name}`"));
            }
            LoopEvent::GateFinished { name, role, result, .. } => {
                let (what, colour) = match (role, result.passed) {
                    (GateRole::Gate, true) => ("gate", "32"),
                    (GateRole::Gate, false) => ("gate", "31"),
                    (GateRole::Until, _) => ("until", "2"),
                    (GateRole::Baseline, _) => ("baseline: gate", "2"),
                };
                self.line(colour, &format!("  {what} {}", event_lines::gate(name, result)));
            }
            LoopEvent::ClaimRefused { detail, .. } => self.line("31", &format!("  refused: {detail}")),
            LoopEvent::ClaimAccepted { verified, .. } => {
                self.line(
                    "32",
                    if *verified { "  accepted" } else { "  accepted, unverified: no gate stood behind it" },
                );
            }
            LoopEvent::IterationFinished { iteration, outcome, .. } => {
                if self.exit.is_some() {
                    let what = match outcome {
                        IterationOutcome::NoClaim => "no claim",
                        IterationOutcome::Waiting => "waits for a person",
                        IterationOutcome::Blocked => "is blocked",
                        IterationOutcome::Interrupted => "interrupted",
                        IterationOutcome::Refused
                        | IterationOutcome::Accepted
                        | IterationOutcome::NotStarted => "",
                    };
                    self.iteration("", *iteration, view, what);
                }
                self.now_doing(format!("after iteration {iteration}/{}", view.max_iterations));
            }
            LoopEvent::Warned { text } => {
                if let Some(text) = unsaid(text, &self.said) {
                    self.note("33", format!("  warning: {text}"));
                }
            }
            LoopEvent::QuestionAsked { text } => self.note("35", format!("  the agent asks: {text}")),
            LoopEvent::Blocked { why, .. } => self.note("35", format!("  the agent is blocked: {why}")),
            LoopEvent::Steered { text } => self.line("35", &format!("  steered: {text}")),
            LoopEvent::PauseRequested { .. } => self.line("33", "  pauses after this iteration"),
            LoopEvent::Paused => {
                self.line("33", &format!("paused; `dacapo resume {}` goes on", view.id));
                self.now_doing("paused".to_owned());
            }
            LoopEvent::Unpaused => self.line("33", "goes on"),
            LoopEvent::StopRequested { by } => self.line("33", event_lines::stopping(*by)),
            LoopEvent::LoopFinished { state, iterations, .. } => {
                self.doing.clear();
                let colour = if *state == FinishState::Completed { "1;32" } else { "1;31" };
                let count = count(*iterations, "iteration");
                let took = Millis::from(self.began.elapsed()).human();
                let cost = self.cost.as_ref().map(|cost| format!(", {cost}")).unwrap_or_default();
                self.line(colour, &format!("{} after {count}, {took}{cost}", state.as_str()));
            }
            LoopEvent::Committed { commit, item, .. } => {
                self.line("32", &format!("  {}", event_lines::committed(commit, *item)));
            }
            LoopEvent::ReceiptIssued { receipt } => {
                let tamper = receipt.tamper;
                let weakened = tamper.deleted_tests + tamper.skipped_tests + tamper.emptied_tests;
                if weakened > 0 {
                    self.line(
                        "33",
                        &format!(
                            "  look at the tests: {} deleted, {} skipped, {} emptied",
                            tamper.deleted_tests, tamper.skipped_tests, tamper.emptied_tests
                        ),
                    );
                }
                self.line(
                    "2",
                    &format!(
                        "  receipt {} · `dacapo receipt {}`",
                        event_lines::short(&receipt.sha256),
                        view.id
                    ),
                );
            }
            LoopEvent::TasksAwaited { .. }
            | LoopEvent::SnapshotTaken { .. }
            | LoopEvent::OutlineTaken { .. }
            | LoopEvent::ClaimExamined { .. }
            | LoopEvent::GatesPassed { .. }
            | LoopEvent::TreeHeld { .. }
            | LoopEvent::LimitsRaised { .. }
            | LoopEvent::UsageSeen { .. }
            | LoopEvent::SignalSeen { .. }
            | LoopEvent::ChildrenFinished { .. } => {}
        }
    }
}

impl Observer for Human {
    fn event(&mut self, envelope: &Envelope, view: &LoopView) {
        self.cost = event_lines::money(&view.ledger.total());
        self.show(envelope, view);
        self.draw();
    }

    fn output(&mut self, channel: &Channel, bytes: &[u8]) {
        if !self.is_live && !self.is_verbose {
            return;
        }
        // Of a flood only the end is worth a look; a verbose reader wants all of it.
        const LONGEST: usize = 4096;
        let bytes = if self.is_verbose { bytes } else { &bytes[bytes.len().saturating_sub(LONGEST)..] };
        self.tail.extend_from_slice(bytes);
        while let Some(end) = self.tail.iter().position(|b| *b == b'\n' || *b == b'\r') {
            let line = readable(&self.tail[..end]);
            self.tail.drain(..=end);
            if line.trim().is_empty() {
                continue;
            }
            if self.is_verbose {
                let mark = if *channel == Channel::Stderr { "!" } else { "│" };
                self.out.write_if_read(self.dressed("2", &format!("  {mark} {line}")));
            }
            self.last = line.trim().to_owned();
        }
        if self.tail.len() > LONGEST {
            self.tail.drain(..self.tail.len() - LONGEST);
        }
    }

    fn waited(&mut self, long: Duration) {
        if self.is_verbose {
            let waited = dacapo_core::duration::Millis::from(long).human();
            self.line("33", &format!("waited {waited} for the journal"));
        }
    }

    fn sees_output(&self) -> bool {
        self.is_live || self.is_verbose
    }

    fn tick(&mut self) {
        self.turn += 1;
        self.draw();
    }

    fn tick_every(&self) -> Option<Duration> {
        self.is_live.then_some(Duration::from_millis(120))
    }
}

impl Drop for Human {
    fn drop(&mut self) {
        if self.is_live {
            self.out.write(b"\r\x1b[2K".to_vec());
        }
    }
}

/// What `text` has to say beyond what was `said`.
fn unsaid<'a>(text: &'a str, said: &str) -> Option<&'a str> {
    let rest = if said.is_empty() { text } else { text.strip_prefix(said).unwrap_or(text) };
    Some(rest.strip_prefix("; ").unwrap_or(rest)).filter(|rest| !rest.is_empty())
}

pub(super) fn width() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col)).max(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_not_said_again() {
        for (text, said, rest) in [
            ("at its limit", "", Some("at its limit")),
            ("at its limit", "at its limit", None),
            ("overloaded; try 2 follows", "overloaded", Some("try 2 follows")),
            ("a fresh session begins: gone", "gone", Some("a fresh session begins: gone")),
        ] {
            assert_eq!(unsaid(text, said), rest, "{text}");
        }
    }
}
