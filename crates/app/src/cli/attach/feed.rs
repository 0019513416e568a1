//! What `dacapo attach` shows: the recorded events and the kept output of a stream, told to the view that `run` shows it with.

use std::collections::{BTreeMap, HashMap};

use dacapo_core::{
    agent::{
        Format,
        transcript::{Transcript, TranscriptEntry},
    },
    event::{Envelope, LoopEvent, LoopStarted, OutputMarks, RunEnvelope},
    ids::{LoopId, RunId, UnitId},
    plan::Purpose,
    stages::machine::{TaskEnvelope, TaskMachine},
    unit::schedule::RunMachine,
    view::LoopView,
    workflow::{
        StepId,
        machine::{WorkflowEnvelope, WorkflowMachine},
    },
};
use dacapo_engine::{
    client::{ChangeWatch, Client},
    secrets::secrets,
    store::{AnyEvent, Channel, EventScope, JournalMachine, StageSource},
};

use super::exit_of;
use crate::{
    error::UserError,
    report::{self, LiveView, screen::Screen},
};

/// How much of what was printed before is worth a look.
const LATEST: u64 = 4096;

/// A stream and its view.
pub(super) trait Feed {
    fn screen(&mut self) -> &mut Screen;
    fn toggle_log(&mut self) -> bool;
    fn tick(&mut self);
    /// What tells of changes that this shows.
    fn watch(&self, client: &Client) -> Result<ChangeWatch, UserError>;
    /// Shows what has come since the last look.
    fn look(&mut self, client: &Client) -> Result<(), UserError>;
    fn is_over(&self, client: &Client) -> Result<bool, UserError>;
    fn is_paused(&self, client: &Client) -> Result<bool, UserError>;
    /// Shows what was printed since, where no change tells of that.
    fn look_at_output(&mut self, client: &Client) -> Result<(), UserError> {
        let _ = client;
        Ok(())
    }
    /// Takes the view off the screen.
    fn close(&mut self);
    /// Says how the stream stands at last; gives the exit code.
    fn end(&mut self, client: &mut Client) -> Result<u8, UserError>;
}

/// What the agents and gates of one loop print, read from where it is kept.
#[derive(Default)]
struct OutputTail {
    view: Option<LoopView>,
    formats: BTreeMap<String, Format>,
    /// Whether an agent runs.
    is_agent: bool,
    /// What reads its output, if it prints events and not words.
    transcript: Option<Transcript>,
    /// Whether a gate runs.
    is_gate: bool,
    /// How far each segment was read.
    read: BTreeMap<&'static str, u64>,
    /// Whether something was read: of what was printed before that, only the end is worth a look.
    is_begun: bool,
}

/// Something that an agent or a gate printed.
enum Printed<'a> {
    Said(TranscriptEntry),
    Bytes(Channel, &'a [u8]),
}

const CHANNELS: [(&str, Channel); 3] =
    [("stdout", Channel::Stdout), ("stderr", Channel::Stderr), ("gates", Channel::Gates)];

impl OutputTail {
    fn take(&mut self, envelope: &Envelope) {
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                let agent = &started.policy.agent;
                let agents = (0..=agent.fallback.len()).map(|index| agent.at(index));
                self.formats = agents.map(|agent| (agent.name.clone(), agent.format)).collect();
            }
            LoopEvent::AgentStarted { agent, output, .. } => {
                let OutputMarks { stdout, stderr, .. } = *output;
                let format = self.formats.get(agent).copied().unwrap_or_default();
                self.transcript = (format != Format::Text).then(|| Transcript::new(format));
                (self.is_agent, self.is_gate) = (true, false);
                self.skip_to(stdout, stderr);
            }
            LoopEvent::AgentExited { exit, .. } => {
                self.is_agent = false;
                self.skip_to(exit.output.stdout, exit.output.stderr);
            }
            LoopEvent::GateStarted { .. } => self.is_gate = true,
            LoopEvent::GateFinished { .. } => self.is_gate = false,
            LoopEvent::LoopFinished { .. } => (self.is_agent, self.is_gate) = (false, false),
            _ => {}
        }
        match &mut self.view {
            Some(view) => view.apply(envelope),
            None => self.view = LoopView::begin(envelope),
        }
    }

    /// What lies before these marks is older than what runs.
    fn skip_to(&mut self, stdout: u64, stderr: u64) {
        for (name, mark) in [("stdout", stdout), ("stderr", stderr)] {
            let read = self.read.entry(name).or_default();
            *read = (*read).max(mark);
        }
    }

    /// Tells what was printed since the last look by what runs.
    fn print(
        &mut self,
        client: &Client,
        told: &mut dyn FnMut(&LoopView, Printed<'_>),
    ) -> Result<(), UserError> {
        let Some(view) = &self.view else { return Ok(()) };
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        for (name, channel) in CHANNELS {
            let at = self.read.entry(name).or_default();
            loop {
                let (bytes, end) = client.output(view, channel, *at)?;
                // Of a flood, and of what was printed before the first look, the end is enough.
                let most = if is_first { LATEST } else { 1 << 20 };
                if end.saturating_sub(*at) > most {
                    *at = end.saturating_sub(LATEST);
                    continue;
                }
                if bytes.is_empty() {
                    break;
                }
                *at += bytes.len() as u64;
                match (channel, &mut self.transcript) {
                    (Channel::Stdout, Some(transcript)) if self.is_agent => {
                        transcript.push(&bytes, &mut |heard| {
                            if let Some(said) = TranscriptEntry::of(heard) {
                                let said = said.map(|text| secrets().redact(text).into_owned());
                                told(view, Printed::Said(said));
                            }
                        });
                    }
                    (Channel::Stdout | Channel::Stderr, _) if self.is_agent => {
                        told(view, Printed::Bytes(channel, &bytes));
                    }
                    (Channel::Gates, _) if self.is_gate => told(view, Printed::Bytes(channel, &bytes)),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// A loop, with what its agents and gates print.
pub(super) struct LoopFeed {
    id: LoopId,
    shown: Box<dyn LiveView>,
    from: u64,
    tail: OutputTail,
}

impl LoopFeed {
    pub(super) fn new(id: &LoopId, shown: Box<dyn LiveView>) -> Self {
        Self { id: id.clone(), shown, from: 0, tail: OutputTail::default() }
    }

    fn take(&mut self, envelope: &Envelope) {
        self.tail.take(envelope);
        if let Some(view) = &self.tail.view {
            self.shown.event(envelope, view);
        }
    }

    /// Shows what was printed since the last look, in the words in which `run` shows it.
    fn print(&mut self, client: &Client) -> Result<(), UserError> {
        let shown = &mut self.shown;
        self.tail.print(client, &mut |_, printed| match printed {
            Printed::Said(said) => shown.said(&Channel::Stdout, &said),
            Printed::Bytes(channel, bytes) => shown.output(&channel, bytes),
        })
    }
}

impl Feed for LoopFeed {
    fn screen(&mut self) -> &mut Screen {
        self.shown.screen()
    }

    fn toggle_log(&mut self) -> bool {
        self.shown.toggle_log()
    }

    fn tick(&mut self) {
        self.shown.tick();
    }

    fn watch(&self, client: &Client) -> Result<ChangeWatch, UserError> {
        Ok(match client.loop_of_id(&self.id)? {
            Some(seen) => match client.watch_output(&seen.view) {
                Ok(watch) => watch,
                // Nothing was printed yet.
                Err(_) => client.watch()?,
            },
            None => client.watch()?,
        })
    }

    fn look(&mut self, client: &Client) -> Result<(), UserError> {
        let is_past = !self.tail.is_begun;
        let events = client.events_of_loop(&self.id, self.from)?;
        for envelope in &events {
            self.from = envelope.seq + 1;
            // What it printed last comes before its end.
            if is_end_of_output(envelope) && !is_past {
                self.print(client)?;
            }
            self.take(envelope);
        }
        self.print(client)?;
        self.shown.tick();
        Ok(())
    }

    fn is_over(&self, client: &Client) -> Result<bool, UserError> {
        Ok(client.loop_of_id(&self.id)?.is_none_or(|seen| !seen.is_running))
    }

    fn is_paused(&self, _: &Client) -> Result<bool, UserError> {
        Ok(self.tail.view.as_ref().is_some_and(|view| view.state == "paused" || view.pausing))
    }

    fn close(&mut self) {
        self.shown.screen().close();
    }

    fn end(&mut self, client: &mut Client) -> Result<u8, UserError> {
        self.close();
        let view = client.loop_of_id(&self.id)?.map(|seen| seen.view);
        let Some(view) = view else { return Ok(0) };
        report::last_line_of_view(client, &view)?;
        Ok(exit_of(view.reason))
    }
}

/// Whether an agent or a gate has ended, and with it what it prints.
fn is_end_of_output(envelope: &Envelope) -> bool {
    matches!(envelope.event, LoopEvent::AgentExited { .. } | LoopEvent::GateFinished { .. })
}

/// A machine of runs, whose loops it starts for sources.
pub(super) trait RunKind: JournalMachine<Source: Sized + Clone, View: Clone> {
    /// Whether the view is told words of agents line by line as said, as in a chat.
    const SAYS_LINES: bool = false;
    /// The event, if it is one of this kind.
    fn envelope(fact: AnyEvent) -> Result<Self::Envelope, Option<Box<Envelope>>>;
    fn source(started: &LoopStarted) -> Option<Self::Source>;
    /// Whether a process runs it, whether it is paused, and how it ended, in one line with its exit code.
    fn standing(client: &Client, id: &RunId) -> Result<RunStanding, UserError>;
    /// Says what the run has come to, as the command does that began it.
    fn ending(client: &mut Client, id: &RunId) -> Result<(), UserError>;
}

/// How a run stands.
pub(super) struct RunStanding {
    is_running: bool,
    is_paused: bool,
    words: String,
    exit: u8,
}

impl RunStanding {
    fn gone(id: &RunId) -> Self {
        Self { is_running: false, is_paused: false, words: format!("run {id} is gone"), exit: 1 }
    }
}

/// One line about a run that no process performs, and the exit code that goes with its state.
fn at_rest(what: &str, state: &str, detail: Option<&str>) -> (String, u8) {
    let exit = match state {
        "completed" | "done" => 0,
        "failed" => 1,
        "cancelled" => 130,
        _ => 4,
    };
    let detail = detail.and_then(|detail| detail.lines().next()).filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    (format!("{what} is {state}{detail}"), exit)
}

impl RunKind for RunMachine {
    fn envelope(fact: AnyEvent) -> Result<RunEnvelope, Option<Box<Envelope>>> {
        match fact {
            AnyEvent::Run(envelope) => Ok(envelope),
            AnyEvent::Loop(envelope) => Err(Some(envelope)),
            _ => Err(None),
        }
    }

    fn source(started: &LoopStarted) -> Option<UnitId> {
        started.task.as_str().parse().ok()
    }

    fn standing(client: &Client, id: &RunId) -> Result<RunStanding, UserError> {
        let Some(seen) = client.run_of_id(id)? else { return Ok(RunStanding::gone(id)) };
        let (words, exit) = at_rest(&format!("run {id}"), &seen.view.state, seen.view.detail.as_deref());
        Ok(RunStanding { is_running: seen.is_running, is_paused: seen.view.state == "paused", words, exit })
    }

    fn ending(client: &mut Client, id: &RunId) -> Result<(), UserError> {
        report::ending_of_units(client, id)
    }
}

impl RunKind for WorkflowMachine {
    const SAYS_LINES: bool = true;

    fn envelope(fact: AnyEvent) -> Result<WorkflowEnvelope, Option<Box<Envelope>>> {
        match fact {
            AnyEvent::Workflow(envelope) => Ok(envelope),
            AnyEvent::Loop(envelope) => Err(Some(envelope)),
            _ => Err(None),
        }
    }

    fn source(started: &LoopStarted) -> Option<StepId> {
        started.purpose.as_ref().and_then(Purpose::as_workflow_step).map(|(step, _)| step)
    }

    fn standing(client: &Client, id: &RunId) -> Result<RunStanding, UserError> {
        let Some(seen) = client.workflow_of_id(id)? else { return Ok(RunStanding::gone(id)) };
        let (words, exit) = at_rest(&format!("run {id}"), &seen.view.state, seen.view.detail.as_deref());
        Ok(RunStanding { is_running: seen.is_running, is_paused: seen.view.is_paused, words, exit })
    }

    fn ending(client: &mut Client, id: &RunId) -> Result<(), UserError> {
        let Some(seen) = client.workflow_of_id(id)? else { return Ok(()) };
        report::ending_of_workflow(client, &seen.view)
    }
}

impl RunKind for TaskMachine {
    fn envelope(fact: AnyEvent) -> Result<TaskEnvelope, Option<Box<Envelope>>> {
        match fact {
            AnyEvent::Task(envelope) => Ok(envelope),
            AnyEvent::Loop(envelope) => Err(Some(envelope)),
            _ => Err(None),
        }
    }

    fn source(started: &LoopStarted) -> Option<StageSource> {
        let stage = started.purpose.as_ref().and_then(Purpose::as_stage).map(|(stage, _)| stage);
        Some(StageSource { task: started.task.clone(), stage })
    }

    fn standing(client: &Client, id: &RunId) -> Result<RunStanding, UserError> {
        let Some(seen) = client.task_of_id(id)? else { return Ok(RunStanding::gone(id)) };
        let what = format!("task {}", seen.view.task);
        let (words, exit) = at_rest(&what, &seen.view.state, seen.view.detail.as_deref());
        // The process may go on with other tasks.
        let is_running = seen.is_running && !seen.view.is_over;
        Ok(RunStanding { is_running, is_paused: seen.view.state == "paused", words, exit })
    }

    fn ending(client: &mut Client, id: &RunId) -> Result<(), UserError> {
        let Some(seen) = client.task_of_id(id)? else { return Ok(()) };
        report::ending_of_tasks(client, &[seen.view])
    }
}

/// A run of units, of a workflow or of a task, with its loops.
pub(super) struct RunFeed<M: RunKind> {
    id: RunId,
    view: Option<M::View>,
    loops: HashMap<LoopId, LoopOfRun<M::Source>>,
    shown: Box<dyn LiveView<M>>,
    from: u64,
    /// Whether the events that were recorded before are shown.
    is_caught_up: bool,
}

/// A loop of a run, and the beginning of a line that it has not ended yet.
struct LoopOfRun<S> {
    source: S,
    tail: OutputTail,
    rest: BTreeMap<&'static str, Vec<u8>>,
}

/// A line of output that is longer than this is shown in parts.
const LONGEST_LINE: usize = 64 * 1024;

impl<M: RunKind> RunFeed<M> {
    pub(super) fn new(id: RunId, shown: Box<dyn LiveView<M>>) -> Self {
        Self { id, view: None, loops: HashMap::new(), shown, from: 0, is_caught_up: false }
    }

    fn take(&mut self, client: &Client, fact: AnyEvent) -> Result<(), UserError> {
        match M::envelope(fact) {
            Ok(envelope) => {
                match &mut self.view {
                    Some(view) => M::see(view, &envelope),
                    None => self.view = M::first_view(&envelope),
                }
                if let Some(view) = &self.view {
                    self.shown.event(&envelope, view);
                }
            }
            Err(Some(envelope)) => {
                let id = &envelope.loop_id;
                if let LoopEvent::LoopStarted(started) = &envelope.event
                    && let Some(source) = M::source(started)
                {
                    let tail = OutputTail { is_begun: self.is_caught_up, ..OutputTail::default() };
                    self.loops.insert(id.clone(), LoopOfRun { source, tail, rest: BTreeMap::new() });
                }
                // What it printed last comes before its end.
                if self.is_caught_up && is_end_of_output(&envelope) {
                    self.print(client, id)?;
                    self.end_lines(id);
                }
                if let Some(own) = self.loops.get_mut(id) {
                    own.tail.take(&envelope);
                    self.shown.loop_event(&own.source, &envelope);
                }
            }
            Err(None) => {}
        }
        Ok(())
    }

    /// Shows what a loop of the run has printed since the last look, line by line.
    fn print(&mut self, client: &Client, id: &LoopId) -> Result<(), UserError> {
        let Some(LoopOfRun { source, tail, rest }) = self.loops.get_mut(id) else { return Ok(()) };
        if !tail.is_agent && !tail.is_gate {
            return Ok(());
        }
        let shown = &mut self.shown;
        tail.print(client, &mut |_, printed| match printed {
            Printed::Said(said) => shown.said(source, &said),
            Printed::Bytes(channel, bytes) => {
                let name =
                    CHANNELS.into_iter().find(|(_, known)| *known == channel).map_or("", |(name, _)| name);
                let rest = rest.entry(name).or_default();
                rest.extend_from_slice(bytes);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    show_line::<M>(shown.as_mut(), source, &channel, line.trim_ascii_end());
                }
                if rest.len() > LONGEST_LINE {
                    show_line::<M>(shown.as_mut(), source, &channel, &std::mem::take(rest));
                }
            }
        })
    }

    /// Shows the beginnings of lines that a loop will not end any more.
    fn end_lines(&mut self, id: &LoopId) {
        let Some(own) = self.loops.get_mut(id) else { return };
        for (name, rest) in std::mem::take(&mut own.rest) {
            if let Some((_, channel)) = CHANNELS.into_iter().find(|(known, _)| *known == name)
                && !rest.is_empty()
            {
                show_line::<M>(self.shown.as_mut(), &own.source, &channel, &rest);
            }
        }
    }
}

fn show_line<M: RunKind>(shown: &mut dyn LiveView<M>, source: &M::Source, channel: &Channel, line: &[u8]) {
    if M::SAYS_LINES && *channel == Channel::Stdout {
        let text = String::from_utf8_lossy(line).into_owned();
        shown.said(source, &TranscriptEntry::Line { text });
    } else {
        shown.output(source, line);
    }
}

impl<M: RunKind> Feed for RunFeed<M> {
    fn screen(&mut self) -> &mut Screen {
        self.shown.screen()
    }

    fn toggle_log(&mut self) -> bool {
        self.shown.toggle_log()
    }

    fn tick(&mut self) {
        self.shown.tick();
    }

    fn watch(&self, client: &Client) -> Result<ChangeWatch, UserError> {
        Ok(client.watch()?)
    }

    fn look(&mut self, client: &Client) -> Result<(), UserError> {
        let from = self.from;
        let scope = EventScope::Run(self.id.clone());
        self.from = client.read(&scope, from, |fact| self.take(client, fact))?;
        self.is_caught_up = true;
        self.look_at_output(client)?;
        self.shown.tick();
        Ok(())
    }

    fn look_at_output(&mut self, client: &Client) -> Result<(), UserError> {
        self.loops.retain(|_, own| own.tail.view.as_ref().is_none_or(|view| !view.is_over()));
        let running: Vec<LoopId> = self.loops.keys().cloned().collect();
        running.iter().try_for_each(|id| self.print(client, id))
    }

    fn is_over(&self, client: &Client) -> Result<bool, UserError> {
        Ok(!M::standing(client, &self.id)?.is_running)
    }

    fn is_paused(&self, client: &Client) -> Result<bool, UserError> {
        Ok(M::standing(client, &self.id)?.is_paused)
    }

    fn close(&mut self) {
        self.shown.screen().close();
    }

    fn end(&mut self, client: &mut Client) -> Result<u8, UserError> {
        self.close();
        let RunStanding { words, exit, .. } = M::standing(client, &self.id)?;
        M::ending(client, &self.id)?;
        report::last_words(&format!("{words}; `dacapo why {}` says more", self.id));
        Ok(exit)
    }
}
