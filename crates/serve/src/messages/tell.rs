//! Tells conversations what becomes of the runs that were started from them: a fold of the journal into messages, each kept once.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use dacapo_core::{
    agent::{
        Format,
        transcript::{Transcript, TranscriptEntry},
    },
    chat::{self, Conversation, Service, pieces_for},
    event::{Envelope, LoopEvent, LoopStarted, OutputMarks},
    ids::{LoopId, RunId},
    plan::Purpose,
    view::{LoopView, WorkflowView},
    workflow::{
        StepId,
        machine::{WorkflowEnvelope, WorkflowEvent, WorkflowStarted},
        told::{TellKind, TellMode, WorkflowMessage, WorkflowTeller},
    },
};
use dacapo_engine::{
    client::{Client, ClientError},
    secrets::secrets,
    store::{AnyEvent, Channel, EventScope, NewMessage, ToldAbout},
};
use jiff::{SignedDuration, Timestamp};

use super::{Desk, adapter::Adapter};

/// How long a wait for news goes without a look: a process that dies records nothing.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);
/// How often what agents print is looked at, where the conversation wants it at once.
const LOOK_AT_OUTPUT: Duration = Duration::from_millis(300);
/// How many runs that have ended are looked at when the server starts.
const RECENT: u32 = 200;
/// Runs that began before are left alone: what was said of them is forgotten some day.
const OLDEST: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Messages that are older and dealt with are forgotten.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The part of an event under which it is said that the process of the run is gone.
const INTERRUPTED: u32 = 900;

/// Tells until the server ends.
pub(super) fn tell_all(desk: &Desk, adapters: &[std::sync::Arc<dyn Adapter>]) -> Result<(), ClientError> {
    let mut client = Client::of_journal(&desk.home)?;
    let mut watch = client.watch()?;
    let now = Timestamp::now();
    client.forget_messages(now.checked_sub(FORGOTTEN).unwrap_or(Timestamp::MIN))?;
    let forms = adapters.iter().map(|it| (it.name().to_owned(), (it.service(), it.mode()))).collect();
    let mut teller = Teller { desk, forms, runs: BTreeMap::new(), loops: HashMap::new() };
    let mut next = client.last_seq()? + 1;
    let oldest = now.checked_sub(OLDEST).unwrap_or(Timestamp::MIN);
    for seen in client.workflows_to_show(RECENT)? {
        if seen.view.started_at < oldest {
            continue;
        }
        let id = seen.view.id;
        let Some(started) = client.workflow_started(&id)?.filter(|started| started.conversation.is_some())
        else {
            continue;
        };
        teller.begin(&id, &started);
        let mut facts = Vec::new();
        client.read(&EventScope::Run(id), 0, |fact| {
            facts.push(fact);
            Ok::<(), ClientError>(())
        })?;
        for fact in facts {
            next = next.max(fact.seq() + 1);
            teller.take(&mut client, fact)?;
        }
    }
    desk.is_ready();
    let mut looked = Instant::now();
    while !desk.is_ending() {
        let mut facts = Vec::new();
        next = client.read(&EventScope::All, next, |fact| {
            facts.push(fact);
            Ok::<(), ClientError>(())
        })?;
        for fact in facts {
            teller.take(&mut client, fact)?;
        }
        let is_streaming = teller.look_at_output(&mut client)?;
        if looked.elapsed() >= LOOK_ANYWAY {
            looked = Instant::now();
            teller.look_for_dead(&mut client)?;
        }
        watch.wait(if is_streaming { LOOK_AT_OUTPUT } else { LOOK_ANYWAY })?;
    }
    Ok(())
}

struct Teller<'a> {
    desk: &'a Desk,
    /// What the adapters want: by name.
    forms: HashMap<String, (Service, TellMode)>,
    runs: BTreeMap<RunId, ToldRun>,
    loops: HashMap<LoopId, ToldLoop>,
}

/// A run that a conversation hears of.
struct ToldRun {
    conversation: Conversation,
    service: Service,
    mode: TellMode,
    words: WorkflowTeller,
    view: Option<WorkflowView>,
    /// The newest event of it.
    head: u64,
}

/// A loop of such a run.
struct ToldLoop {
    run: RunId,
    step: StepId,
    started: Box<LoopStarted>,
    view: Option<LoopView>,
    /// The agent that runs.
    agent: Option<RunningAgent>,
}

struct RunningAgent {
    name: String,
    begin: OutputMarks,
    /// The event of its start.
    seq: u64,
    reader: OutputReader,
}

impl Teller<'_> {
    fn begin(&mut self, id: &RunId, started: &WorkflowStarted) {
        let Some(conversation) = started.conversation.clone() else { return };
        let (service, mode) =
            self.forms.get(&conversation.adapter).copied().unwrap_or((Service::Plain, TellMode::Batch));
        self.desk.remember(id, &conversation);
        let words = WorkflowTeller::new(mode, None);
        let run = ToldRun { conversation, service, mode, words, view: None, head: 0 };
        self.runs.entry(id.clone()).or_insert(run);
    }

    fn take(&mut self, client: &mut Client, fact: AnyEvent) -> Result<(), ClientError> {
        match fact {
            AnyEvent::Workflow(envelope) => self.take_run(client, &envelope),
            AnyEvent::Loop(envelope) => self.take_loop(client, &envelope),
            AnyEvent::Run(_) | AnyEvent::Task(_) => Ok(()),
        }
    }

    fn take_run(&mut self, client: &mut Client, envelope: &WorkflowEnvelope) -> Result<(), ClientError> {
        if let WorkflowEvent::WorkflowStart(started) = &envelope.event {
            self.begin(&envelope.run, started);
        }
        let Some(run) = self.runs.get_mut(&envelope.run) else { return Ok(()) };
        if run.head >= envelope.seq {
            return Ok(());
        }
        run.head = envelope.seq;
        match &mut run.view {
            Some(view) => view.apply(envelope),
            None => run.view = WorkflowView::begin(envelope),
        }
        let Some(view) = &run.view else { return Ok(()) };
        let told = run.words.event(&envelope.event, view);
        let told = match (&envelope.event, told) {
            (WorkflowEvent::StepHeld { reason, detail, .. }, _) => {
                Some(WorkflowMessage { kind: TellKind::Matters, text: chat::held(*reason, detail) })
            }
            (WorkflowEvent::QuestionAsked { .. }, Some(told)) => {
                Some(WorkflowMessage { text: with_choice(&told.text, view), ..told })
            }
            (WorkflowEvent::WorkflowError(_), Some(told)) if view.state == "blocked" => {
                let text = format!(
                    "{}\n\n`/steer {} what to do` tells the agent, and the run goes on.",
                    told.text, view.id
                );
                Some(WorkflowMessage { text, ..told })
            }
            (_, told) => told,
        };
        run.tell(client, &envelope.run, envelope.seq, 0, told)
    }

    fn take_loop(&mut self, client: &mut Client, envelope: &Envelope) -> Result<(), ClientError> {
        let id = &envelope.loop_id;
        if let LoopEvent::LoopStarted(started) = &envelope.event
            && let Some(run) = started.run.clone().filter(|run| self.runs.contains_key(run))
            && let Some((step, _)) = started.purpose.as_ref().and_then(Purpose::as_workflow_step)
        {
            let started = started.clone();
            let told = ToldLoop { run, step, started, view: None, agent: None };
            self.loops.entry(id.clone()).or_insert(told);
        }
        let Some(own) = self.loops.get_mut(id) else { return Ok(()) };
        let Some(run) = self.runs.get_mut(&own.run) else { return Ok(()) };
        if run.head >= envelope.seq {
            return Ok(());
        }
        run.head = envelope.seq;
        match &mut own.view {
            Some(view) => view.apply(envelope),
            None => own.view = LoopView::begin(envelope),
        }
        match &envelope.event {
            LoopEvent::AgentStarted { agent, output, .. } => {
                let index = own.started.policy.agent.index_of(agent).unwrap_or(0);
                let format = own.started.policy.agent.at(index).format;
                let reader = OutputReader::new(format, output.stdout);
                own.agent =
                    Some(RunningAgent { name: agent.clone(), begin: *output, seq: envelope.seq, reader });
            }
            LoopEvent::AgentExited { exit, .. } => {
                if let Some(mut agent) = own.agent.take() {
                    if run.mode == TellMode::Batch {
                        for said in client.said(id, &agent.name, agent.begin, exit.output)? {
                            run.words.said(&said);
                        }
                    } else if let Some(view) = &own.view {
                        agent.reader.end = Some(exit.output.stdout);
                        run.stream(client, &own.run, view, &mut agent)?;
                    }
                }
            }
            _ => {}
        }
        let told = run.words.loop_event(&own.step, &envelope.event);
        run.tell(client, &own.run, envelope.seq, 0, told)
    }

    /// Tells what agents have said since the last look, where that is wanted at once; says whether one is running.
    fn look_at_output(&mut self, client: &mut Client) -> Result<bool, ClientError> {
        let mut is_streaming = false;
        for own in self.loops.values_mut() {
            let Some(run) = self.runs.get_mut(&own.run).filter(|run| run.mode == TellMode::Stream) else {
                continue;
            };
            if let (Some(agent), Some(view)) = (&mut own.agent, &own.view) {
                is_streaming = true;
                run.stream(client, &own.run, view, agent)?;
            }
        }
        self.loops
            .retain(|_, own| own.view.as_ref().is_none_or(|view| !view.is_over() || own.agent.is_some()));
        Ok(is_streaming)
    }

    /// Tells of runs whose process is gone.
    fn look_for_dead(&mut self, client: &mut Client) -> Result<(), ClientError> {
        for (id, run) in &mut self.runs {
            if run.view.as_ref().is_none_or(|view| view.is_over || view.state == "stopped") {
                continue;
            }
            let Some(seen) = client.workflow_of_id(id)? else { continue };
            if !seen.is_running && seen.view.reason.as_deref() == Some("interrupted") {
                let told = WorkflowMessage { kind: TellKind::Matters, text: chat::interrupted(id.as_str()) };
                run.tell(client, id, run.head, INTERRUPTED, Some(told))?;
            }
        }
        Ok(())
    }
}

/// A question with the words that answer it.
fn with_choice(text: &str, view: &WorkflowView) -> String {
    let decisions = view.question.as_ref().map(|question| question.decisions.as_slice()).unwrap_or_default();
    let words = match decisions {
        [] => "approve, reject".to_owned(),
        known => known.iter().map(|known| known.id.as_str()).collect::<Vec<_>>().join(", "),
    };
    format!("{text}\n\nAnswer with exactly one of: {words}")
}

impl ToldRun {
    fn tell(
        &self,
        client: &mut Client,
        id: &RunId,
        seq: u64,
        part: u32,
        told: Option<WorkflowMessage>,
    ) -> Result<(), ClientError> {
        let Some(WorkflowMessage { kind, text }) = told else { return Ok(()) };
        if self.mode == TellMode::Batch && kind == TellKind::Check {
            return Ok(());
        }
        let is_ours = matches!(kind, TellKind::Progress | TellKind::Matters | TellKind::End);
        let matters = matches!(kind, TellKind::Matters | TellKind::End);
        let messages: Vec<NewMessage> = pieces_for(self.service, &text, is_ours)
            .into_iter()
            .zip(part..)
            .map(|(text, part)| NewMessage {
                conversation: self.conversation.clone(),
                text,
                matters,
                is_ours,
                about: Some(ToldAbout { run: id.clone(), seq, part }),
            })
            .collect();
        client.tell(&messages)?;
        Ok(())
    }

    /// Tells what an agent has said since the last look. Each message is known by the number of the last thing said in it, so
    /// that a server that starts again goes on behind it.
    fn stream(
        &mut self,
        client: &mut Client,
        id: &RunId,
        view: &LoopView,
        agent: &mut RunningAgent,
    ) -> Result<(), ClientError> {
        if agent.reader.is_fresh() {
            agent.reader.told = client.last_part_told(id, agent.seq)?.map_or(0, |part| part / 10);
        }
        let mut lines: Option<(u32, String)> = None;
        let mut ready: Vec<(u32, TranscriptEntry)> = Vec::new();
        for (number, said) in agent.reader.read(client, view)? {
            if number <= agent.reader.told {
                continue;
            }
            match said {
                TranscriptEntry::Line { text } => {
                    let (last, joined) = lines.get_or_insert_with(|| (number, String::new()));
                    *last = number;
                    joined.push_str(&text);
                    joined.push('\n');
                }
                other => {
                    ready.extend(lines.take().map(|(number, text)| (number, TranscriptEntry::Line { text })));
                    ready.push((number, other));
                }
            }
        }
        ready.extend(lines.take().map(|(number, text)| (number, TranscriptEntry::Line { text })));
        for (number, said) in ready {
            let said = said.map(|text| secrets().redact(text).into_owned());
            let told = self.words.said(&said).filter(|told| !told.text.trim().is_empty());
            self.tell(client, id, agent.seq, number.saturating_mul(10), told)?;
        }
        Ok(())
    }
}

/// Reads what one agent prints, as far as it has printed it.
struct OutputReader {
    transcript: Option<Transcript>,
    at: u64,
    /// Where its output ends, once it has ended.
    end: Option<u64>,
    /// The beginning of a line that it has not ended yet.
    rest: Vec<u8>,
    /// How many things it has said.
    count: u32,
    /// How many of them were told before this server started.
    told: u32,
}

impl OutputReader {
    fn new(format: Format, at: u64) -> Self {
        let transcript = (format != Format::Text).then(|| Transcript::new(format));
        Self { transcript, at, end: None, rest: Vec::new(), count: 0, told: 0 }
    }

    fn is_fresh(&self) -> bool {
        self.count == 0 && self.rest.is_empty()
    }

    /// What it has said since the last time, numbered from 1.
    fn read(&mut self, client: &Client, view: &LoopView) -> Result<Vec<(u32, TranscriptEntry)>, ClientError> {
        let mut said = Vec::new();
        loop {
            let (mut bytes, _) = client.output(view, Channel::Stdout, self.at)?;
            if let Some(end) = self.end {
                bytes.truncate(usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX));
            }
            if bytes.is_empty() {
                break;
            }
            self.at += bytes.len() as u64;
            match &mut self.transcript {
                Some(transcript) => {
                    transcript.push(&bytes, &mut |heard| said.extend(TranscriptEntry::of(heard)))
                }
                None => {
                    self.rest.extend_from_slice(&bytes);
                    while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = self.rest.drain(..=end).collect();
                        let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
                        said.push(TranscriptEntry::Line { text });
                    }
                }
            }
        }
        if self.end.is_some() {
            if let Some(transcript) = self.transcript.take() {
                transcript.finish(&mut |heard| said.extend(TranscriptEntry::of(heard)));
            }
            if !self.rest.is_empty() {
                let text = String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned();
                said.push(TranscriptEntry::Line { text });
            }
        }
        Ok(said
            .into_iter()
            .map(|said| {
                self.count += 1;
                (self.count, said)
            })
            .collect())
    }
}
