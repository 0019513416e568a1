//! A run of a workflow for people: one block for each thing that it says, in fixed words.

use clap::ValueEnum;
use dacapo_core::{
    agent::transcript::TranscriptEntry,
    event::{Envelope, LoopEvent, Reason},
    text::{ansi::readable, columns::wrapped, count},
    view::WorkflowView,
    workflow::{
        StepId, StepKind, WorkflowForm,
        machine::{EndReason, WorkflowEnvelope, WorkflowMachine, WorkflowStanding, WorkflowStarted},
        told::{TellKind, TellMode, WorkflowMessage, WorkflowTeller},
    },
};
use dacapo_engine::{observer::Observer, performer::WorkflowLeft};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    time::Duration,
};

use super::{
    LiveView, Style,
    at_work::AtWork,
    human::since,
    jsonl::FirstWord,
    out::{Out, Unsent},
    screen::{Coloured, SPINNER, Screen},
};

/// How much of what an agent printed is held for one line of JSON.
const LONGEST: usize = 2 << 20;

/// How often the lines of what is being done are drawn again.
const TICK: Duration = Duration::from_millis(500);

/// When what agents say is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// While they say it.
    Stream,
    /// After each iteration, as one block.
    Batch,
}

impl From<Mode> for TellMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Stream => Self::Stream,
            Mode::Batch => Self::Batch,
        }
    }
}

/// Shows a run to a person.
pub(super) struct HumanWorkflow {
    screen: Screen,
    teller: WorkflowTeller,
    /// Whether something was said since the last block.
    is_open: bool,
    /// Whether a person looks at a terminal, where bold words are bold.
    is_terminal: bool,
    turn: usize,
    /// The steps that run, and since when.
    running: Vec<(StepId, Timestamp)>,
    loops: BTreeMap<StepId, AtWork>,
}

impl HumanWorkflow {
    /// `resumed` is the workflow of a run that goes on.
    pub(super) fn new(mode: Mode, resumed: Option<&WorkflowStarted>) -> Self {
        Self {
            screen: Screen::new(super::is_live()),
            teller: WorkflowTeller::new(mode.into(), resumed.map(|started| started.workflow.clone())),
            is_open: false,
            is_terminal: std::io::stdout().is_terminal(),
            turn: 0,
            running: Vec::new(),
            loops: BTreeMap::new(),
        }
    }

    fn show(&mut self, told: Option<WorkflowMessage>) {
        let Some(WorkflowMessage { kind, text }) = told else { return };
        match kind {
            TellKind::End => {
                let block = self.as_block(&text);
                self.screen.block(&block, true);
            }
            TellKind::Progress | TellKind::Matters => self.block(&text),
            TellKind::Said if self.teller.mode() == TellMode::Batch => self.block(&text),
            // Shown at once, and left out if its reader is far behind.
            TellKind::Said | TellKind::Printed | TellKind::Check => {
                self.is_open = true;
                let text = self.fitted(&readable(text.as_bytes()));
                self.screen.block_if_read(format!("{text}\n").as_bytes());
                self.draw();
            }
        }
    }

    /// One message, with an empty line behind it.
    fn block(&mut self, text: &str) {
        let block = self.as_block(text);
        self.screen.block(&block, false);
        self.draw();
    }

    /// The lines that are drawn over: one for each step that runs.
    fn draw(&mut self) {
        let now = Timestamp::now();
        let workflow = self.teller.workflow();
        let is_loop = workflow.is_some_and(|workflow| workflow.form == WorkflowForm::Loop);
        let mut lines: Vec<Coloured> = Vec::new();
        for (step, began) in &self.running {
            let turn = SPINNER[self.turn % SPINNER.len()];
            let found = workflow.and_then(|workflow| workflow.step(step));
            let iteration = match found.map(|found| &found.kind) {
                Some(StepKind::Loop(looped)) => {
                    format!("iteration {}/{}", self.teller.iteration().max(1), looped.max_iterations)
                }
                _ => String::new(),
            };
            let name = if is_loop { String::new() } else { format!("step {step}") };
            let what = [name, iteration].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
            let took = since(*began, now).human();
            let details = self.loops.get(step).map(AtWork::details).unwrap_or_default();
            lines.push(("", format!("{turn} {} · {took}{details}", what.join(" · "))));
        }
        self.screen.draw(lines);
    }

    /// Lines as wide as the terminal at most, broken between words.
    fn fitted(&self, text: &str) -> String {
        if !self.screen.is_live() {
            return text.to_owned();
        }
        let width = super::width();
        text.split('\n').map(|line| wrapped(line, width).join("\n")).collect::<Vec<_>>().join("\n")
    }

    fn as_block(&mut self, text: &str) -> Vec<u8> {
        let above = if std::mem::take(&mut self.is_open) { "\n" } else { "" };
        let text = self.fitted(&readable(text.as_bytes()));
        let text = if self.is_terminal { in_bold(&text) } else { text };
        format!("{above}{text}\n\n").into_bytes()
    }
}

impl Observer<WorkflowMachine> for HumanWorkflow {
    fn event(&mut self, envelope: &WorkflowEnvelope, view: &WorkflowView) {
        let at_work = view.steps.iter().filter(|step| step.state == "running" && !view.is_over);
        self.running = at_work
            .map(|step| {
                let known = self.running.iter().find(|(id, _)| *id == step.id);
                (step.id.clone(), known.map_or(envelope.at, |(_, began)| *began))
            })
            .collect();
        let told = self.teller.event(&envelope.event, view);
        self.show(told);
    }

    fn loop_event(&mut self, step: &StepId, envelope: &Envelope) {
        self.loops.entry(step.clone()).or_default().take(envelope);
        let told = self.teller.loop_event(step, &envelope.event);
        self.show(told);
    }

    fn output(&mut self, _: &StepId, line: &[u8]) {
        let told = self.teller.output(&String::from_utf8_lossy(line));
        self.show(told);
    }

    fn said(&mut self, _: &StepId, said: &TranscriptEntry) {
        let told = self.teller.said(said);
        self.show(told);
    }

    fn sees_output(&self) -> bool {
        true
    }

    fn tick(&mut self) {
        self.turn += 1;
        self.draw();
    }

    fn tick_every(&self) -> Option<Duration> {
        self.screen.is_live().then_some(TICK)
    }
}

impl Drop for HumanWorkflow {
    fn drop(&mut self) {
        tell_unsent(&self.screen.finish());
    }
}

impl LiveView<WorkflowMachine> for HumanWorkflow {
    fn screen(&mut self) -> &mut Screen {
        &mut self.screen
    }

    fn toggle_log(&mut self) -> bool {
        // What agents say is always shown.
        true
    }
}

/// What a terminal shows of text with words between `**`, which are bold at the beginning of a line.
fn in_bold(text: &str) -> String {
    let line = |line: &str| {
        let bold = line.strip_prefix("**").and_then(|rest| rest.split_once("**"));
        bold.map_or_else(|| line.to_owned(), |(word, rest)| format!("\u{1b}[1m{word}\u{1b}[0m{rest}"))
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Says on standard error how many messages did not arrive.
fn tell_unsent(Unsent { messages, why }: &Unsent) {
    if *messages > 0 {
        let what = count(u32::try_from(*messages).unwrap_or(u32::MAX), "message");
        let _ = writeln!(std::io::stderr().lock(), "WARNING: {what} could not be shown: {why}");
    }
}

/// The journal of a run and of its loops as JSON lines, each with the id of the run.
pub(super) struct WorkflowLines {
    out: Out,
    run: String,
    iterations: BTreeMap<StepId, u32>,
    /// What agents printed that print no events, until their end.
    printed: BTreeMap<StepId, String>,
}

impl WorkflowLines {
    pub(super) fn new(resumed: Option<&WorkflowStarted>) -> Self {
        let run = resumed.map(|started| started.run.clone()).unwrap_or_default();
        Self { out: Out::new(), run, iterations: BTreeMap::new(), printed: BTreeMap::new() }
    }

    fn say(&self, at: Timestamp, step: &StepId, said: &TranscriptEntry) {
        let iteration = self.iterations.get(step).copied().unwrap_or(0);
        if let Some(line) = said_line(at, &self.run, Some(step), iteration, said) {
            self.out.write(format!("{line}\n").into_bytes());
        }
    }
}

impl Drop for WorkflowLines {
    fn drop(&mut self) {
        tell_unsent(&self.out.finish());
    }
}

/// What an agent said or did, as a line of its run (req 163); nothing for what is no part of its record.
pub(crate) fn said_line(
    at: Timestamp,
    run: &str,
    step: Option<&StepId>,
    iteration: u32,
    said: &TranscriptEntry,
) -> Option<Value> {
    let mut line = match said {
        TranscriptEntry::Assistant { .. } | TranscriptEntry::Tool { .. } => {
            serde_json::to_value(said).ok()?
        }
        TranscriptEntry::Line { .. } | TranscriptEntry::Note { .. } => return None,
    };
    let keys = line.as_object_mut()?;
    keys.insert("at".to_owned(), at.to_string().into());
    keys.insert("run".to_owned(), run.into());
    keys.insert("iteration".to_owned(), iteration.into());
    if let Some(step) = step {
        keys.insert("step".to_owned(), step.as_str().into());
    }
    Some(line)
}

/// A fact of a loop, with the run that the loop belongs to. The end of an iteration also has the name and the index that an
/// iteration has as a step of its run (req 157).
pub(crate) fn with_run(envelope: &Envelope, run: &str) -> Value {
    let mut line = serde_json::to_value(envelope).unwrap_or_default();
    if let Some(keys) = line.as_object_mut() {
        keys.insert("run".to_owned(), run.into());
        if let LoopEvent::IterationFinished { iteration, .. } = &envelope.event {
            keys.insert("step".to_owned(), format!("iteration-{iteration}").into());
            keys.insert("index".to_owned(), iteration.saturating_sub(1).into());
        }
    }
    line
}

impl Observer<WorkflowMachine> for WorkflowLines {
    fn event(&mut self, envelope: &WorkflowEnvelope, _: &WorkflowView) {
        self.run = envelope.run.to_string();
        // The first event has the id of the run by itself: as a value there is one key of each name.
        if let Ok(line) = serde_json::to_value(envelope) {
            self.out.write_critical(format!("{line}\n").into_bytes());
        }
    }

    fn loop_event(&mut self, step: &StepId, envelope: &Envelope) {
        match &envelope.event {
            LoopEvent::IterationStarted { iteration, .. } => {
                self.iterations.insert(step.clone(), *iteration);
            }
            LoopEvent::AgentExited { .. } => {
                let text = self.printed.remove(step).unwrap_or_default().trim().to_owned();
                if !text.is_empty() {
                    self.say(envelope.at, step, &TranscriptEntry::Assistant { text });
                }
            }
            _ => {}
        }
        self.out.write_critical(format!("{}\n", with_run(envelope, &self.run)).into_bytes());
    }

    fn said(&mut self, step: &StepId, said: &TranscriptEntry) {
        match said {
            TranscriptEntry::Line { text } => {
                let printed = self.printed.entry(step.clone()).or_default();
                printed.push_str(text);
                printed.push('\n');
                if printed.len() > LONGEST {
                    // The end is what a promise stands in.
                    let cut = printed.ceil_char_boundary(printed.len() - LONGEST / 2);
                    printed.drain(..cut);
                }
            }
            said => self.say(Timestamp::now(), step, said),
        }
    }

    fn sees_output(&self) -> bool {
        true
    }
}

impl Observer<WorkflowMachine> for FirstWord {
    fn event(&mut self, envelope: &WorkflowEnvelope, _: &WorkflowView) {
        self.say(envelope.run.as_str());
    }
}

/// The observer that shows a run of a workflow in the style that the user asked for; `resumed` is how a run began that goes
/// on.
pub(crate) fn workflow_reporter(
    style: &Style,
    mode: Mode,
    resumed: Option<&WorkflowStarted>,
) -> Box<dyn Observer<WorkflowMachine>> {
    if style.json && !dacapo_engine::process::background::is_background() {
        return Box::new(WorkflowLines::new(resumed));
    }
    super::in_style(style, || Box::new(HumanWorkflow::new(mode, resumed)))
}

/// The view of a run of a workflow that `dacapo attach` shows.
pub(crate) fn workflow_live_view() -> Box<dyn LiveView<WorkflowMachine>> {
    Box::new(HumanWorkflow::new(Mode::Stream, None))
}

/// Says where a run stands, as the last line on standard error; gives the exit code.
pub(crate) fn last_line_of_workflow(left: &WorkflowLeft) -> u8 {
    let WorkflowLeft { view, standing, exit_code } = left;
    let (id, name) = (&view.id, &view.workflow);
    let (how, hint) = match standing {
        WorkflowStanding::Over(end) => {
            let first = end.detail.lines().next().unwrap_or_default();
            let hint =
                matches!(end.end, EndReason::Failed | EndReason::Blocked).then(|| view.after_failure());
            let first = if first.is_empty() { String::new() } else { format!(": {first}") };
            (format!("{}{first}", view.state), hint)
        }
        WorkflowStanding::Question(_) => {
            let asked = view.question.as_ref();
            let first = asked.and_then(|question| question.message.lines().next()).unwrap_or_default();
            let hint = asked.map(|question| format!("{} answers and goes on", question.how_to_answer(id)));
            (format!("stopped (question): {first}"), hint)
        }
        WorkflowStanding::Waiting(due) => {
            let due = due.map(|due| format!(" until {}", super::clock(due))).unwrap_or_default();
            (format!("stopped (waiting{due})"), Some(format!("`dacapo resume {id}` goes on when it is due")))
        }
        WorkflowStanding::Held { reason: reason @ (Reason::Question | Reason::Waiting), detail } => (
            format!("stopped ({}): {detail}", reason.as_str()),
            Some(format!("`dacapo steer {id} \"the answer\"` answers the agent and goes on")),
        ),
        WorkflowStanding::Held { reason, detail } => (
            format!("stopped ({}): {detail}", reason.as_str()),
            Some(format!("`dacapo resume {id}` goes on with it")),
        ),
        WorkflowStanding::Running | WorkflowStanding::Paused => {
            ("stopped".to_owned(), Some(format!("`dacapo resume {id}` goes on with it")))
        }
    };
    let mut stderr = std::io::stderr().lock();
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    let _ = writeln!(stderr, "dacapo: {name} {how} [run {id}]");
    *exit_code
}
