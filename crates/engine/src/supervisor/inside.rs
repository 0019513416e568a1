//! What the agent of this loop asks for through the socket: posted, recorded, read or started here, or refused.
//!
//! Every answer is short work: reads come in pages, and what takes long is a process of its own.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use dacapo_core::{
    bus::Draft,
    ids::LoopId,
    loop_machine::{Input, Request},
};
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};

use super::{PATIENCE, SuperviseError, Supervisor, acp::Resident};
use crate::{
    bus::{Bus, BusError},
    inside::{
        child,
        protocol::{Ask, AskAnswer, AskRefusal, BusName, LoopAbout, LoopRecord, StartChild, Watched, Words},
        server::{Asker, ReceivedAsk},
    },
    secrets::secrets,
    store::{Channel, LoopRow, Segments, StoreError},
    watch::Watch,
};

/// How many events one answer holds.
const EVENTS: u32 = 200;
/// How many bytes of output or of a bus one answer holds.
const BYTES: u64 = 256 << 10;

impl From<StoreError> for AskRefusal {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

impl From<BusError> for AskRefusal {
    fn from(error: BusError) -> Self {
        match error {
            BusError::Refused { source, .. } => Self::mistake(source),
            other => Self::failed(other),
        }
    }
}

impl Supervisor<'_> {
    /// Takes what was asked and answers it. Nothing that goes wrong here is the loop's failure.
    pub(super) fn serve_agent(&mut self) -> Result<(), SuperviseError> {
        let ended = self.children.take_ended();
        // The journal says nothing of a child that was killed.
        let mut is_news = !ended.is_empty();
        for (asker, code) in ended {
            self.server.answer(asker, &AskAnswer::Exited { code }, true);
        }
        let resident = self.resident.as_ref().map(Resident::pid);
        let keepers: Vec<u32> = std::iter::once(self.keeper.pid()).chain(resident).collect();
        for ReceivedAsk { by, ask, fds } in self.server.turn(&keepers) {
            match self.answer_to(by, ask, fds).unwrap_or_else(AskAnswer::Refused) {
                AskAnswer::Watching => self.server.watch(by),
                answer => self.server.answer(by, &answer, answer != AskAnswer::Started),
            }
        }
        if !self.server.is_watched() {
            self.watch = None;
        }
        is_news |= self.watch.as_ref().is_some_and(Watch::has_changed);
        if is_news {
            self.server.tell_news();
        }
        Ok(())
    }

    fn answer_to(&mut self, by: Asker, ask: Ask, fds: Vec<OwnedFd>) -> Result<AskAnswer, AskRefusal> {
        match ask {
            Ask::Post { kind, body, bus } => self.post_for_agent(kind, body, &bus),
            Ask::Wait { why } => {
                let kind = self.started.policy.claims.wait.message.clone();
                let kind = kind.ok_or_else(|| AskRefusal::mistake("this loop does not wait for people"))?;
                self.post_for_agent(kind, why, &BusName::Own)?;
                Ok(AskAnswer::taken())
            }
            Ask::Question { text } => {
                self.post_for_agent("QUESTION".to_owned(), text, &BusName::Own)?;
                Ok(AskAnswer::taken())
            }
            Ask::Claim { note, only_if_settled } => {
                if only_if_settled && let Some(open) = self.about()?.still_open() {
                    return Err(AskRefusal { exit: 1, ..AskRefusal::mistake(open) });
                }
                self.claim_for_agent(&note)
            }
            Ask::Blocked { why } => self.blocked_for_agent(&why),
            Ask::About => Ok(AskAnswer::About(Box::new(self.about()?))),
            Ask::ReadBus { bus, from } => {
                let (messages, next) = self.bus_of(&bus)?.page(from, BYTES)?;
                Ok(AskAnswer::Messages { messages, next })
            }
            Ask::Start(asked) => self.start_child(by, asked, fds),
            Ask::Family => {
                let loops = self.store.family(&self.id)?.into_iter().map(LoopRecord::of).collect();
                Ok(AskAnswer::Loops { own: self.id.clone(), loops })
            }
            Ask::Events { id, from } => {
                self.relative(&id)?;
                let events = self.store.events_page(&id, from, EVENTS)?;
                let more = events.len() >= EVENTS as usize;
                Ok(AskAnswer::Events { events, more })
            }
            Ask::Output { id, channel, from } => {
                let row = self.relative(&id)?;
                self.output_of(&row, channel, from)
            }
            Ask::Cancel { id } => self.cancel_child(&id),
            Ask::Watch(watched) => self.watch_for_agent(&watched),
        }
    }

    // --- saying something -----------------------------------------------------------------------------------

    fn post_for_agent(&mut self, kind: String, body: String, bus: &BusName) -> Result<AskAnswer, AskRefusal> {
        let started = &self.started;
        let (project, task) = match bus {
            BusName::Own => (&started.project, Some(&started.task)),
            BusName::Project(project) => (project, None),
            BusName::Task(project, task) => (project, Some(task)),
        };
        let question = (kind == "QUESTION").then(|| body.trim_end().to_owned());
        let draft = Draft {
            kind,
            project: project.to_string(),
            task: task.map(ToString::to_string),
            loop_id: Some(self.id.to_string()),
            body,
        };
        draft.check().map_err(AskRefusal::mistake)?;
        let posted = self.bus_of(bus)?.post(&[draft], Timestamp::now())?;
        // The user sees a question now, not when the agent has ended.
        if let Some(text) = question {
            let request = secrets().redact_request(&Request::Ask { text });
            self.inbox.push_back(Input::Requested(request).into());
        }
        let id = posted.into_iter().next().map(|message| message.id).unwrap_or_default();
        Ok(AskAnswer::Posted { id })
    }

    /// The bus, if it is one of the family's: another loop's agent takes a message for a word to itself.
    fn bus_of(&self, bus: &BusName) -> Result<Bus, AskRefusal> {
        let path = match bus {
            BusName::Own => return Ok(self.task_bus.clone()),
            BusName::Project(project) => {
                if *project != self.started.project
                    && !self.family()?.iter().any(|row| row.view.project == *project)
                {
                    return Err(AskRefusal::not_yours(format!(
                        "the agent of a loop cannot use the bus of project {project}, which is not its own"
                    )));
                }
                self.home.project_bus(project)
            }
            BusName::Task(project, task) => {
                let is_own = (project, task) == (&self.started.project, &self.started.task);
                let is = |row: &LoopRow| row.view.project == *project && row.view.task == *task;
                if !is_own && !self.family()?.iter().any(is) {
                    return Err(AskRefusal::not_yours(format!(
                        "the agent of a loop cannot use the bus of task {task}, which is neither its own nor a child's"
                    )));
                }
                self.home.task_bus(project, task)
            }
        };
        Ok(Bus::open(path).with_patience(PATIENCE))
    }

    /// The same file that an agent can write itself: one way to claim, however it is said.
    fn claim_for_agent(&self, note: &str) -> Result<AskAnswer, AskRefusal> {
        let policy = &self.started.policy;
        if !policy.claims.done_file || !policy.hears_promises() {
            let by_mark = policy.source.as_ref().filter(|_| policy.marks_items());
            let why = by_mark.map_or(
                "this loop takes no claims: checks are run on what the agent leaves behind",
                |source| source.how_to_claim().trim_end(),
            );
            return Err(AskRefusal::mistake(why));
        }
        let done = self.task_folder().join("DONE");
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&done) {
            Ok(mut file) => {
                let note = secrets().redact(note).into_owned();
                file.write_all(note.as_bytes()).map_err(AskRefusal::failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(AskRefusal::failed(format!("cannot write `{}`: {error}", done.display())));
            }
        }
        Ok(AskAnswer::Taken { gates: policy.gates.specs.iter().map(|gate| gate.name.clone()).collect() })
    }

    /// Counts at the end of the attempt, as the tag in its output does.
    fn blocked_for_agent(&mut self, why: &str) -> Result<AskAnswer, AskRefusal> {
        let why = one_line(&secrets().redact(why));
        if why.is_empty() {
            return Err(AskRefusal::mistake("the reason is blank"));
        }
        if !self.note_blocked(why) {
            return Err(AskRefusal::mistake("no agent is at work in this loop"));
        }
        Ok(AskAnswer::taken())
    }

    fn about(&self) -> Result<LoopAbout, AskRefusal> {
        let children =
            self.store.running_children(&self.id)?.into_iter().map(|child| child.view.id).collect();
        Ok(LoopAbout::of(&self.started, self.stream.state(), self.stream.view(), children))
    }

    /// Watches from before the answer on, so that nothing falls between it and the first look of the one who asked.
    fn watch_for_agent(&mut self, watched: &Watched) -> Result<AskAnswer, AskRefusal> {
        let folder = match watched {
            Watched::Events => None,
            Watched::Output { id } => {
                let row = self.relative(id)?;
                Some(self.home.runs(&row.view.project, &row.view.task))
            }
            Watched::Bus { bus } => {
                let bus = self.bus_of(bus)?;
                bus.prepare()?;
                bus.path().parent().map(Path::to_owned)
            }
        };
        let cannot = |error: io::Error| AskRefusal::failed(format!("cannot watch for news: {error}"));
        if self.watch.is_none() {
            self.watch = Some(Watch::journal(self.home).map_err(cannot)?);
        }
        if let (Some(folder), Some(watch)) = (folder, &self.watch) {
            watch.add(&folder).map_err(cannot)?;
        }
        Ok(AskAnswer::Watching)
    }

    // --- the family -----------------------------------------------------------------------------------------

    fn family(&self) -> Result<Vec<LoopRow>, StoreError> {
        self.store.family(&self.id)
    }

    /// This loop, or one below it.
    fn relative(&self, id: &LoopId) -> Result<LoopRow, AskRefusal> {
        let found = self.family()?.into_iter().find(|row| row.view.id == *id);
        found.ok_or_else(|| {
            AskRefusal::not_yours(format!(
                "the agent of a loop sees its own loop and its children, and {id} is none of them"
            ))
        })
    }

    fn output_of(&self, row: &LoopRow, channel: Channel, from: u64) -> Result<AskAnswer, AskRefusal> {
        let runs = self.home.runs(&row.view.project, &row.view.task);
        // The agent can write there: nothing but a file is opened, for a pipe would never answer.
        let mut file = match open_regular(&Segments::path(&runs, &row.view.id, channel)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(AskAnswer::Output { bytes: Words::default(), end: 0 });
            }
            Err(error) => return Err(AskRefusal::failed(error)),
        };
        let mut bytes = Vec::new();
        let end = file.metadata().map_err(AskRefusal::failed)?.len();
        if from < end {
            file.seek(SeekFrom::Start(from)).map_err(AskRefusal::failed)?;
            file.take(BYTES).read_to_end(&mut bytes).map_err(AskRefusal::failed)?;
        }
        Ok(AskAnswer::Output { bytes: Words(bytes), end })
    }

    fn cancel_child(&mut self, id: &LoopId) -> Result<AskAnswer, AskRefusal> {
        if *id == self.id {
            return Err(AskRefusal::not_yours("the agent of a loop cannot cancel its own loop"));
        }
        let row = self.relative(id)?;
        if !row.is_running() {
            let state = row.current_view().state;
            return Err(AskRefusal {
                exit: 1,
                ..AskRefusal::failed(format!("loop {id} is not running: it is {state}"))
            });
        }
        self.store.request(id, &Request::Cancel, Timestamp::now())?;
        Ok(AskAnswer::taken())
    }

    fn start_child(
        &mut self,
        by: Asker,
        asked: StartChild,
        fds: Vec<OwnedFd>,
    ) -> Result<AskAnswer, AskRefusal> {
        if asked.args.first().is_none_or(|word| word.0 != b"run") {
            return Err(AskRefusal::not_yours("the agent of a loop can start a child by `dacapo run` only"));
        }
        let Ok(fds) = <[OwnedFd; 2]>::try_from(fds) else {
            return Err(AskRefusal::mistake(
                "not understood: a child needs two descriptors for what it prints",
            ));
        };
        if self.stream.state().over().is_some() {
            return Err(AskRefusal::failed("this loop is over"));
        }
        let process = child::start(self.home, &self.id, asked, fds)
            .map_err(|error| AskRefusal::failed(format!("cannot start a child loop: {error}")))?;
        self.children.add(process, by);
        Ok(AskAnswer::Started)
    }

    /// Ends this loop's children: those in the journal by a request, those that are just starting by a signal.
    pub(super) fn cancel_children(&mut self) -> Result<(), SuperviseError> {
        let recorded = self.store.running_children(&self.id)?;
        self.children.end_starting(&recorded);
        // Once more: one may have got into the journal before it was ended.
        for child in self.store.running_children(&self.id)? {
            self.store.request(&child.view.id, &Request::Cancel, Timestamp::now())?;
        }
        Ok(())
    }
}

fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

/// The reason in one line, not longer than the tag may hold.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 500;
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    line.truncate(line.floor_char_boundary(LONGEST));
    line
}

impl LoopRecord {
    pub(crate) fn of(row: LoopRow) -> Self {
        Self { is_running: row.is_running(), view: row.current_view() }
    }
}
