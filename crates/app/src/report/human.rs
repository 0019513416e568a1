//! A loop for people: lines that stay, and in a terminal a few below them that say what is being done.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use dacapo_core::{
    agent::catalog,
    duration::Millis,
    event::{AgentExit, Envelope, FinishState, GateRole, IterationOutcome, LoopEvent, Outcome},
    judge::signal::Signal,
    sandbox::SandboxHeld,
    text::{LINES_OF_RED_GATE, ansi::readable, count, last_lines},
    view::LoopView,
};
use dacapo_engine::{observer::Observer, store::Channel};
use jiff::Timestamp;

use super::{
    LiveView,
    at_work::LINES_OF_GATE,
    event_lines,
    screen::{Coloured, SPINNER, Screen},
};

/// Shows a loop to a person.
pub(super) struct Human {
    screen: Screen,
    is_verbose: bool,
    /// When the newest event was recorded.
    now: Timestamp,
    /// When the loop began or was resumed.
    began: Timestamp,
    /// Since when it does what it is doing.
    since: Timestamp,
    doing: String,
    /// The agent that works, with its model if it was told to use one; empty while none works.
    worker: String,
    models: BTreeMap<String, String>,
    /// The end of what was printed last, not yet a whole line.
    tail: Vec<u8>,
    /// The newest lines that were printed.
    last: VecDeque<String>,
    /// Whether a gate prints them, of which more is worth a look than of an agent.
    is_gate: bool,
    turn: usize,
    /// What agents have cost so far.
    cost: Option<String>,
    /// What was said of the agent's end, waiting for what its iteration came to.
    exit: Option<String>,
    /// What goes below that line, and its colour.
    notes: Vec<(&'static str, String)>,
    /// What the agent's end was put down to: it is shown once.
    said: String,
    /// The end of what the agent printed on stderr.
    stderr: Vec<u8>,
}

/// How many lines of what a failed agent printed on stderr are shown, as of a red gate.
const LINES_SHOWN: usize = LINES_OF_RED_GATE;

impl Human {
    pub(super) fn new(is_live: bool, is_verbose: bool) -> Self {
        let now = Timestamp::now();
        Self {
            screen: Screen::new(is_live),
            is_verbose,
            now,
            began: now,
            since: now,
            doing: String::new(),
            worker: String::new(),
            models: BTreeMap::new(),
            tail: Vec::new(),
            last: VecDeque::new(),
            is_gate: false,
            turn: 0,
            cost: None,
            exit: None,
            notes: Vec::new(),
            said: String::new(),
            stderr: Vec::new(),
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
    fn iteration(&mut self, colour: &'static str, iteration: u32, view: &LoopView, what: &str) {
        let exit = self.exit.take().map(|exit| format!("{exit} · ")).unwrap_or_default();
        self.line(colour, &format!("iteration {iteration}/{}  {exit}{what}", view.max_iterations));
        for (colour, text) in std::mem::take(&mut self.notes) {
            self.line(colour, &text);
        }
    }

    /// The last lines of what the agent printed on stderr, if it failed. A verbose reader has seen them.
    fn quote_stderr(&mut self, exit: &AgentExit) {
        let printed = readable(&std::mem::take(&mut self.stderr));
        let is_failure = exit.outcome == Outcome::Crash
            || exit.outcome == Outcome::Completed && exit.exit_code.is_some_and(|code| code != 0);
        if self.is_verbose || !is_failure {
            return;
        }
        for line in last_lines(&printed, LINES_SHOWN) {
            if exit.detail.as_deref() != Some(line.trim()) {
                self.note("2", format!("  ! {line}"));
            }
        }
    }

    /// A line that stays.
    fn line(&mut self, colour: &'static str, text: &str) {
        self.screen.line(colour, text);
    }

    /// The lines below those that stay: what is done, for how long, by whom and at what cost, and what was printed last.
    fn draw(&mut self) {
        if self.doing.is_empty() {
            self.screen.draw(Vec::new());
            return;
        }
        let elapsed = since(self.since, Timestamp::now()).human();
        let mut head = format!("{} {} · {elapsed}", SPINNER[self.turn % SPINNER.len()], self.doing);
        if !self.worker.is_empty() {
            head.push_str(&format!(" · {}", self.worker));
        }
        if let Some(cost) = &self.cost {
            head.push_str(&format!(" · {cost}"));
        }
        let mut lines: Vec<Coloured> = vec![("", head)];
        lines.extend(self.last.iter().map(|line| ("2", format!("  {line}"))));
        self.screen.draw(lines);
    }

    fn now_doing(&mut self, what: String) {
        self.doing = what;
        self.since = self.now;
        self.worker.clear();
        self.is_gate = false;
        self.last.clear();
        self.tail.clear();
    }

    fn show(&mut self, envelope: &Envelope, view: &LoopView) {
        if let LoopEvent::UsageSeen { model: Some(model), .. } = &envelope.event
            && self.models.get(&view.agent) != Some(model)
        {
            self.models.insert(view.agent.clone(), model.clone());
            self.worker = format!("{} {model}", view.agent);
        }
        if let LoopEvent::AgentExited { exit, .. } = &envelope.event {
            self.said = exit.detail.clone().unwrap_or_default();
            self.models.extend(exit.model.clone().map(|model| (view.agent.clone(), model)));
        }
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                self.began = envelope.at;
                let agent = &started.policy.agent;
                let agents = (0..=agent.fallback.len()).map(|index| agent.at(index));
                self.models =
                    agents.filter_map(|agent| Some((agent.name.clone(), agent.model.clone()?))).collect();
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
                let command = &started.policy.agent.command;
                let held = started.sandbox.as_ref();
                let words = held.map_or("no sandbox".to_owned(), SandboxHeld::words);
                match catalog::permissions_of(command) {
                    Some(may) => self.line("2", &format!("  {} · {may} · {words}", command.name)),
                    None if held.is_some_and(|held| !held.is_whole()) => {
                        self.line("2", &format!("  {words}"))
                    }
                    None => {}
                }
                for open in held.iter().flat_map(|held| &held.open) {
                    self.line("2", &format!("  left open: {open}"));
                }
            }
            LoopEvent::LoopResumed { .. } => {
                self.began = envelope.at;
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
            LoopEvent::AgentStarted { iteration, agent, .. } => {
                self.stderr.clear();
                self.now_doing(format!("iteration {iteration}/{}", view.max_iterations));
                self.worker = match self.models.get(agent) {
                    Some(model) => format!("{agent} {model}"),
                    None => agent.clone(),
                };
            }
            LoopEvent::AgentExited { exit, iteration, .. } if !exit.outcome.is_charged() => {
                self.line(
                    "33",
                    &format!("iteration {iteration}/{}  {}", view.max_iterations, event_lines::exit(exit)),
                );
            }
            LoopEvent::AgentExited { exit, .. } => {
                self.exit = Some(event_lines::exit(exit));
                self.quote_stderr(exit);
            }
            LoopEvent::Parked { until, why } => {
                let until = event_lines::clock(*until);
                let why = unsaid(why, &self.said).map(|why| format!(": {why}")).unwrap_or_default();
                self.line("33", &format!("  parked until {until}{why}"));
                let id = &view.id;
                self.line(
                    "2",
                    &format!(
                        "  it goes on by itself; `dacapo resume {id} --now` asks at once, another agent \
                         (`dacapo run --agent codex …`) need not wait"
                    ),
                );
                self.said.clear();
                self.now_doing(format!("parked until {until}"));
            }
            LoopEvent::AgentSwitched { agent, why, .. } => {
                self.line("33", &format!("  goes on with {agent}: {why}"));
            }
            LoopEvent::BudgetLow { detail, .. } => {
                self.line("33", &format!("  most of a shared budget is used: {detail}"));
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
                self.is_gate = true;
            }
            // Runs beyond the first are told of if they refuse what the first believed.
            LoopEvent::GateFinished { result, look, .. } if result.passed && look.is_repeated() => {}
            LoopEvent::GateFinished { name, role, result, look, .. } => {
                let (what, colour) = match (role, result.passed) {
                    (GateRole::Gate, true) => ("gate", "32"),
                    (GateRole::Gate, false) => ("gate", "31"),
                    (GateRole::Until, _) => ("until", "2"),
                    (GateRole::Baseline, _) => ("baseline: gate", "2"),
                };
                let place = event_lines::place(look);
                self.line(colour, &format!("  {what} {}{place}", event_lines::gate(name, result)));
                if *role == GateRole::Gate && !result.passed && !self.is_verbose {
                    for line in event_lines::quoted(&result.output_tail) {
                        self.line("2", &format!("  {line}"));
                    }
                }
            }
            // Said before the agent costs anything: the user may want to end the loop and correct the command.
            LoopEvent::GateTried { name, tried, .. } if matches!(tried.exit_code, 126 | 127) => {
                if tried.awaits_program {
                    return self
                        .line("2", &format!("  gate `{name}` has no program yet: the agent may write it"));
                }
                let colour = if tried.missing_program.is_some() { "31" } else { "33" };
                let line = format!("  gate `{name}` exited {} before the first agent", tried.exit_code);
                self.line(colour, &line);
                for line in event_lines::quoted(&tried.output_tail) {
                    self.line("2", &format!("  {line}"));
                }
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
                let took = since(self.began, envelope.at).human();
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
            | LoopEvent::SessionIdled { .. }
            | LoopEvent::IdleSkipped { .. }
            | LoopEvent::SessionErred { .. }
            | LoopEvent::PromptNotDelivered { .. }
            | LoopEvent::SnapshotTaken { .. }
            | LoopEvent::OutlineTaken { .. }
            | LoopEvent::ClaimExamined { .. }
            | LoopEvent::GatesPassed { .. }
            | LoopEvent::GateTried { .. }
            | LoopEvent::TreeApproved { .. }
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
        self.now = envelope.at;
        self.cost = event_lines::cost_of_budget(&view.ledger.total(), &view.tally.budget);
        self.show(envelope, view);
        self.draw();
    }

    fn output(&mut self, channel: &Channel, bytes: &[u8]) {
        // Of a flood only the end is worth a look; a verbose reader wants all of it.
        const LONGEST: usize = 4096;
        if *channel == Channel::Stderr {
            self.stderr.extend_from_slice(&bytes[bytes.len().saturating_sub(LONGEST)..]);
            self.stderr.drain(..self.stderr.len().saturating_sub(LONGEST));
        }
        if !self.sees_output() {
            return;
        }
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
                self.screen.line_if_read("2", &format!("  {mark} {line}"));
            }
            self.last.push_back(line.trim().to_owned());
            let most = if self.is_gate { LINES_OF_GATE } else { 1 };
            while self.last.len() > most {
                self.last.pop_front();
            }
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
        self.screen.is_live() || self.is_verbose
    }

    fn tick(&mut self) {
        self.turn += 1;
        self.draw();
    }

    fn tick_every(&self) -> Option<Duration> {
        self.screen.is_live().then_some(Duration::from_millis(120))
    }
}

impl LiveView for Human {
    fn screen(&mut self) -> &mut Screen {
        &mut self.screen
    }

    fn toggle_log(&mut self) -> bool {
        self.is_verbose = !self.is_verbose;
        self.is_verbose
    }
}

/// How long it is from `then` to `now`.
pub(super) fn since(then: Timestamp, now: Timestamp) -> Millis {
    Millis(u64::try_from(now.duration_since(then).as_millis()).unwrap_or(0))
}

/// What `text` has to say beyond what was `said`.
fn unsaid<'a>(text: &'a str, said: &str) -> Option<&'a str> {
    let rest = if said.is_empty() { text } else { text.strip_prefix(said).unwrap_or(text) };
    Some(rest.strip_prefix("; ").unwrap_or(rest)).filter(|rest| !rest.is_empty())
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
