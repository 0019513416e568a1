//! What `dacapo attach` shows: the recorded events and the kept output of a stream, told to the view that `run` shows it with.

use std::collections::{BTreeMap, HashMap};

use dacapo_core::{
    agent::{
        Format,
        transcript::{Said, Transcript},
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
    store::{Channel, Fact, Kind, Scope, StageSource},
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
    /// Takes the view off the screen.
    fn close(&mut self);
    /// Says how the stream stands at last; gives the exit code.
    fn end(&mut self, client: &Client) -> Result<u8, UserError>;
}

/// A loop, with what its agents and gates print.
pub(super) struct LoopFeed {
    id: LoopId,
    view: Option<LoopView>,
    shown: Box<dyn LiveView>,
    from: u64,
    formats: BTreeMap<String, Format>,
    /// Whether an agent runs.
    is_agent: bool,
    /// What reads its output, if it prints events and not words.
    transcript: Option<Transcript>,
    /// Whether a gate runs.
    is_gate: bool,
    /// How far each segment was read; what lies before is older than what runs.
    read: BTreeMap<&'static str, u64>,
}

const CHANNELS: [(&str, Channel); 3] =
    [("stdout", Channel::Stdout), ("stderr", Channel::Stderr), ("gates", Channel::Gates)];

impl LoopFeed {
    pub(super) fn new(client: &Client, id: &LoopId, shown: Box<dyn LiveView>) -> Result<Self, UserError> {
        let view = client.loop_of_id(id)?.map(|seen| seen.view);
        let mut read = BTreeMap::new();
        if let Some(view) = &view {
            for (name, channel) in CHANNELS {
                let (_, end) = client.output(view, channel, u64::MAX)?;
                read.insert(name, end.saturating_sub(LATEST));
            }
        }
        Ok(Self {
            id: id.clone(),
            view: None,
            shown,
            from: 0,
            formats: BTreeMap::new(),
            is_agent: false,
            transcript: None,
            is_gate: false,
            read,
        })
    }

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
                for (name, mark) in [("stdout", stdout), ("stderr", stderr)] {
                    let read = self.read.entry(name).or_default();
                    *read = (*read).max(mark);
                }
            }
            LoopEvent::AgentExited { exit, .. } => {
                self.is_agent = false;
                for (name, mark) in [("stdout", exit.output.stdout), ("stderr", exit.output.stderr)] {
                    let read = self.read.entry(name).or_default();
                    *read = (*read).max(mark);
                }
            }
            LoopEvent::GateStarted { .. } => self.is_gate = true,
            LoopEvent::GateFinished { .. } => self.is_gate = false,
            _ => {}
        }
        match &mut self.view {
            Some(view) => view.apply(envelope),
            None => self.view = LoopView::begin(envelope),
        }
        if let Some(view) = &self.view {
            self.shown.event(envelope, view);
        }
    }

    /// Shows what was printed since the last look, in the words in which `run` shows it.
    fn print(&mut self, client: &Client) -> Result<(), UserError> {
        let Some(view) = &self.view else { return Ok(()) };
        for (name, channel) in CHANNELS {
            let at = self.read.entry(name).or_default();
            loop {
                let (bytes, end) = client.output(view, channel, *at)?;
                // Of a flood, the end is enough.
                let bytes = if end.saturating_sub(*at) > 1 << 20 {
                    *at = end.saturating_sub(LATEST);
                    continue;
                } else {
                    bytes
                };
                if bytes.is_empty() {
                    break;
                }
                *at += bytes.len() as u64;
                match (channel, &mut self.transcript) {
                    (Channel::Stdout, Some(transcript)) if self.is_agent => {
                        let shown = &mut self.shown;
                        transcript.push(&bytes, &mut |heard| {
                            if let Some(said) = Said::of(heard) {
                                let said = said.map(|text| secrets().redact(text).into_owned());
                                shown.said(&Channel::Stdout, &said);
                            }
                        });
                    }
                    (Channel::Stdout | Channel::Stderr, _) if self.is_agent => {
                        self.shown.output(&channel, &bytes);
                    }
                    (Channel::Gates, _) if self.is_gate => self.shown.output(&channel, &bytes),
                    _ => {}
                }
            }
        }
        Ok(())
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
        let events = client.events_of_loop(&self.id, self.from)?;
        for envelope in &events {
            self.from = envelope.seq + 1;
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
        Ok(self.view.as_ref().is_some_and(|view| view.state == "paused" || view.pausing))
    }

    fn close(&mut self) {
        self.shown.screen().close();
    }

    fn end(&mut self, client: &Client) -> Result<u8, UserError> {
        self.close();
        let view = client.loop_of_id(&self.id)?.map(|seen| seen.view);
        let Some(view) = view else { return Ok(0) };
        report::last_line_of_view(client, &view)?;
        Ok(exit_of(view.reason))
    }
}

/// A machine of runs, whose loops it starts for sources.
pub(super) trait RunKind: Kind<Source: Sized, View: Clone> {
    /// The event, if it is one of this kind.
    fn envelope(fact: Fact) -> Result<Self::Envelope, Option<Box<Envelope>>>;
    fn source(started: &LoopStarted) -> Option<Self::Source>;
    /// Whether a process runs it, whether it is paused, and how it ended, in one line with its exit code.
    fn standing(client: &Client, id: &RunId) -> Result<RunStanding, UserError>;
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
    fn envelope(fact: Fact) -> Result<RunEnvelope, Option<Box<Envelope>>> {
        match fact {
            Fact::Run(envelope) => Ok(envelope),
            Fact::Loop(envelope) => Err(Some(envelope)),
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
}

impl RunKind for WorkflowMachine {
    fn envelope(fact: Fact) -> Result<WorkflowEnvelope, Option<Box<Envelope>>> {
        match fact {
            Fact::Workflow(envelope) => Ok(envelope),
            Fact::Loop(envelope) => Err(Some(envelope)),
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
}

impl RunKind for TaskMachine {
    fn envelope(fact: Fact) -> Result<TaskEnvelope, Option<Box<Envelope>>> {
        match fact {
            Fact::Task(envelope) => Ok(envelope),
            Fact::Loop(envelope) => Err(Some(envelope)),
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
}

/// A run of units, of a workflow or of a task, with its loops.
pub(super) struct RunFeed<M: RunKind> {
    id: RunId,
    view: Option<M::View>,
    sources: HashMap<LoopId, M::Source>,
    shown: Box<dyn LiveView<M>>,
    from: u64,
}

impl<M: RunKind> RunFeed<M> {
    pub(super) fn new(id: RunId, shown: Box<dyn LiveView<M>>) -> Self {
        Self { id, view: None, sources: HashMap::new(), shown, from: 0 }
    }

    fn take(&mut self, fact: Fact) {
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
                if let LoopEvent::LoopStarted(started) = &envelope.event
                    && let Some(source) = M::source(started)
                {
                    self.sources.insert(envelope.loop_id.clone(), source);
                }
                if let Some(source) = self.sources.get(&envelope.loop_id) {
                    self.shown.loop_event(source, &envelope);
                }
            }
            Err(None) => {}
        }
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
        let scope = Scope::Run(self.id.clone());
        self.from = client.read(&scope, from, |fact| {
            self.take(fact);
            Ok::<(), UserError>(())
        })?;
        self.shown.tick();
        Ok(())
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

    fn end(&mut self, client: &Client) -> Result<u8, UserError> {
        self.close();
        let RunStanding { words, exit, .. } = M::standing(client, &self.id)?;
        report::last_words(&format!("{words}; `dacapo why {}` says more", self.id));
        Ok(exit)
    }
}
