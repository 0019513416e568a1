//! Loops inside chat sessions: start, cancel, state and what the host of a session reports. Hooks, commands and the MCP server use
//! it; no process has to run between two calls.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use dacapo_core::{
    agent::{
        outcome::{ProcessEnd, outcome},
        transcript::{Ending, OutputSummary},
    },
    bus::Draft,
    event::{Envelope, Grant, LoopEvent, Outcome},
    ids::{LoopId, ProjectId},
    loop_machine::{HostSessionError, Input, LoopMachine, Phase, Request, SessionIdle, StartFailure},
    policy::Policy,
    session::{
        ABORTS, Host, HostSession, IdleJudgement, NewWords, SessionSummary, Toast, TranscriptMark, TurnEnd,
        UsageMark, judge_idle,
    },
    view::LoopView,
};
use jiff::{Timestamp, tz::TimeZone};

use crate::{
    bus::{Bus, BusError},
    home::{Home, HomeError},
    inside::protocol::{LoopAbout, LoopRecord},
    observer::{NoObserver, Observer},
    process::background::{BackgroundStart, send_with},
    secrets::secrets,
    signals::finish_anyway,
    store::{LoopRow, Store, StoreError, Stream},
    supervisor::{self, BLOCKED, HandedOver, HostedLoop, NewHostedLoop, StartError},
    watch::Watch,
};

/// How long a cancel waits for a hook that judges a claim at that moment.
const CANCEL: Duration = Duration::from_secs(30);

/// What the host of a session can do for a loop. A host that can do nothing of it is a host all the same (req 129).
pub trait SessionHost {
    /// What the agent said since `since`, from `mark` on in the transcript; `before` is the turn of the idle before. The second
    /// value is where the transcript ends now.
    fn words(
        &mut self,
        mark: &TranscriptMark,
        before: Option<TurnEnd>,
        since: Timestamp,
    ) -> (NewWords, TranscriptMark) {
        let _ = (before, since);
        (NewWords::default(), mark.clone())
    }

    /// What still runs for the agent, as far as the host knows.
    fn background(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Gives the agent a prompt, or says why it cannot.
    fn inject(&mut self, prompt: &str) -> Result<(), String> {
        let _ = prompt;
        Ok(())
    }

    /// Shows the user something.
    fn toast(&mut self, toast: &Toast) {
        let _ = toast;
    }

    /// Whether a session still exists; `None` if the host cannot tell.
    fn exists(&mut self, session: &HostSession) -> Option<bool> {
        let _ = session;
        None
    }

    fn log(&mut self, line: &str) {
        let _ = line;
    }
}

/// A host without messages, injection and toasts.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl SessionHost for NoHost {}

/// Why something could not be done with the loop of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("the session has no id")]
    NoSession,
    /// Another session works in the same folder.
    #[error("session {session} has an active loop in this folder: {id}, at iteration {iteration}")]
    Foreign { session: String, id: LoopId, iteration: u32 },
    #[error("this session has no active loop")]
    NoLoop,
    #[error("{0}")]
    StillOpen(String),
    #[error("the reason is blank")]
    BlankReason,
    #[error("cannot start in the background: {0}")]
    Background(std::io::Error),
    #[error("cannot watch the journal: {0}")]
    Watch(std::io::Error),
    #[error("cannot write `{}`: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// A loop that is to begin in a session.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub host: Host,
    pub session: String,
    pub prompt: String,
    pub policy: Policy,
    pub description: Option<String>,
    pub project: ProjectId,
    /// Where the agent works, absolute.
    pub workspace: PathBuf,
    /// What the host has kept of the session so far.
    pub transcript: TranscriptMark,
    /// Whether it takes the place of an active loop of another session in the folder.
    pub force: bool,
    /// Whether it only judges what the agent leaves behind.
    pub verify: bool,
}

/// The bus that a message of a session's agent goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostTo {
    Task,
    Project,
}

/// The loops of chat sessions on this machine.
pub struct SessionLoops<'a> {
    home: &'a Home,
}

impl<'a> SessionLoops<'a> {
    pub fn new(home: &'a Home) -> Self {
        Self { home }
    }

    /// The journal, if there is one. A session without a loop must not make one.
    fn store(&self) -> Result<Option<Store>, SessionError> {
        let database = self.home.database();
        if !database.exists() {
            return Ok(None);
        }
        Ok(Some(Store::open_existing(&database)?.leave_log_behind()?))
    }

    fn active(&self, session: &str) -> Result<Option<(Store, LoopRow)>, SessionError> {
        let Some(store) = self.store()? else { return Ok(None) };
        let row = store.active_in_session(session)?;
        Ok(row.map(|row| (store, row)))
    }

    /// The active loop of a session, as people see it.
    pub fn find(&self, session: &str) -> Result<Option<LoopView>, SessionError> {
        Ok(self.active(session)?.map(|(_, row)| row.current_view()))
    }

    // --- the operations of the library (req 133) ---------------------------------------------------------------

    /// Begins a loop in a session and gives the host its first prompt.
    pub fn start(&self, new: NewSession, host: &mut dyn SessionHost) -> Result<LoopId, SessionError> {
        if new.session.trim().is_empty() {
            return Err(SessionError::NoSession);
        }
        self.home.prepare()?;
        let store = Store::open(&self.home.database())?;
        if let Some(row) = store.active_in_session(&new.session)? {
            if let Some(id) = self.same_loop(&store, &row, &new)? {
                return Ok(id);
            }
            self.end(&new.session, "another loop was started in the session", host)?;
        }
        for row in store.active_in_sessions()? {
            let Some(session) = row.view.session.clone().filter(|id| *id != new.session) else { continue };
            if row.view.workspace != new.workspace || self.clear_if_orphaned(&row, host)? {
                continue;
            }
            if !new.force {
                let (id, iteration) = (row.view.id, row.view.iteration);
                return Err(SessionError::Foreign { session, id, iteration });
            }
            self.end(&session, "a loop of another session took its place", host)?;
        }
        let NewSession { host: of, session, prompt, policy, description, project, workspace, .. } = new;
        let session = HostSession {
            host: of.name().to_owned(),
            id: session,
            description,
            transcript: new.transcript,
            verify: new.verify,
            seal: None,
        };
        let new = NewHostedLoop { policy, prompt, project, workspace, session };
        let mut seen = Events::default();
        let (hosted, handed) = HostedLoop::begin(self.home, store, new, &mut seen)?;
        let id = hosted.id().clone();
        self.deliver(hosted, handed, seen, host)?;
        Ok(id)
    }

    /// The loop that this one would be, if it has just begun: a host may run a command and a hook for the same words.
    fn same_loop(
        &self,
        store: &Store,
        row: &LoopRow,
        new: &NewSession,
    ) -> Result<Option<LoopId>, SessionError> {
        let Some(started) = store.loop_started(&row.view.id)? else { return Ok(None) };
        let is_same = row.view.iteration <= 1
            && started.prompt == secrets().redact(&new.prompt)
            && started.policy.claims.promise == new.policy.claims.promise
            && started.policy.limits.max_iterations == new.policy.limits.max_iterations;
        let is_new = Timestamp::now().duration_since(row.view.started_at).as_secs() < 30;
        Ok((is_same && is_new).then(|| row.view.id.clone()))
    }

    /// Cancels the loop of a session; `false` if the session has none (req 109).
    pub fn cancel(&self, session: &str, host: &mut dyn SessionHost) -> Result<bool, SessionError> {
        let Some((mut store, row)) = self.active(session)? else { return Ok(false) };
        let id = row.view.id.clone();
        // A hook that judges a claim at this moment is told; else the request is taken up here.
        if store.request(&id, &Request::Cancel, Timestamp::now())? {
            let deadline = std::time::Instant::now() + CANCEL;
            while store.row(&id)?.is_some_and(|row| !row.view.is_over() && row.is_owned())
                && std::time::Instant::now() < deadline
            {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if !store.row(&id)?.is_some_and(|row| row.view.is_over()) {
            supervisor::settle(self.home, &mut store, &id)?;
        }
        host.log(&format!("Loop cancelled: session {session}, iteration {}", row.view.iteration));
        host.toast(&Toast::cancelled(row.view.iteration.max(1)));
        Ok(true)
    }

    /// The state of the loop of a session, or of any session: the newest in `dir`, else the newest of all (req 110).
    pub fn state(
        &self,
        session: Option<&str>,
        dir: Option<&Path>,
    ) -> Result<Option<SessionSummary>, SessionError> {
        let Some(store) = self.store()? else { return Ok(None) };
        let row = match session {
            Some(session) => store.active_in_session(session)?,
            None => {
                let mut rows = store.active_in_sessions()?;
                let here = rows.iter().position(|row| dir.is_some_and(|dir| row.view.workspace == *dir));
                (!rows.is_empty()).then(|| rows.swap_remove(here.unwrap_or(0)))
            }
        };
        let Some(row) = row else { return Ok(None) };
        let Some(stream) = Stream::<LoopMachine>::open(&store, &row.view.id)? else { return Ok(None) };
        Ok(SessionSummary::of(stream.state(), row.view.started_at))
    }

    /// Whether a session has an active loop (req 110).
    pub fn is_active(&self, session: &str) -> Result<bool, SessionError> {
        Ok(self.state(Some(session), None)?.is_some_and(|state| state.active))
    }

    /// Takes a loop up again that has ended without being done, with more iterations; it goes on when its agent next stops.
    pub fn resume(&self, id: &LoopId, grant: Grant) -> Result<(), SessionError> {
        let Some(store) = self.store()? else { return Err(SessionError::NoLoop) };
        let row = store.row(id)?.ok_or(SessionError::NoLoop)?;
        let Some(mut hosted) = HostedLoop::take(self.home, store, &row)? else { return Ok(()) };
        hosted.take_up_requests(&mut NoObserver)?;
        let (output, pid) = (hosted.marks(), std::process::id());
        Ok(hosted.note(Input::Resume { grant, output, pid }, &mut NoObserver)?)
    }

    // --- what hosts report ----------------------------------------------------------------------------------

    /// The agent of a session has ended a turn.
    pub fn idle(
        &self,
        session: &str,
        dir: Option<&Path>,
        host: &mut dyn SessionHost,
    ) -> Result<(), SessionError> {
        self.take_up_idle(session, dir, false, host)
    }

    /// The same for a loop that has just begun to judge, with files that the agent has changed before that. Files that the loop
    /// before it has judged are not judged again: what it said about them the agent knows.
    pub fn judge(&self, session: &str, host: &mut dyn SessionHost) -> Result<(), SessionError> {
        if let Some((store, row)) = self.active(session)? {
            let tree = |id: &LoopId| -> Result<Option<String>, SessionError> {
                let stream = Stream::<LoopMachine>::open(&store, id)?;
                Ok(stream.and_then(|stream| stream.state().progress.tree.clone()))
            };
            let of_session = store.loops_of_task(&row.view.project, row.view.task.as_str())?;
            let before = of_session.iter().rev().find(|other| other.view.id != row.view.id);
            let now = tree(&row.view.id)?;
            if let Some(before) = before
                && now.is_some()
                && tree(&before.view.id)? == now
            {
                self.end(session, "these files were judged before", host)?;
                return Ok(());
            }
        }
        self.take_up_idle(session, None, true, host)
    }

    fn take_up_idle(
        &self,
        session: &str,
        dir: Option<&Path>,
        judges_all: bool,
        host: &mut dyn SessionHost,
    ) -> Result<(), SessionError> {
        // Before the lock is waited for: a second idle for the same turn is known by the time that lies between the two.
        let mut at = Timestamp::now();
        loop {
            let Some((store, row)) = self.active(session)? else {
                return self.clear_orphans(session, dir, host);
            };
            let Some(mut hosted) = HostedLoop::take(self.home, store, &row)? else { return Ok(()) };
            let mut seen = Events::default();
            hosted.take_up_requests(&mut seen)?;
            if hosted.state().over().is_some() || matches!(hosted.state().phase, Phase::Paused { .. }) {
                return self.deliver(hosted, HandedOver::Nothing, seen, host);
            }
            if !hosted.started().workspace.is_dir() {
                let why = format!("the workspace `{}` is gone", hosted.started().workspace.display());
                host.log(&format!("{why}: the loop of session {session} has ended"));
                let input = match hosted.state().phase {
                    Phase::Running => Input::AgentNotStarted(StartFailure { detail: why, is_fatal: true }),
                    _ => Input::SessionGone(why),
                };
                let (hosted, handed) = hosted.answer(input, &mut seen)?;
                return self.deliver(hosted, handed, seen, host);
            }
            let known = hosted.state().session.clone();
            let since = known.last_idle.map_or(hosted.began_at(), |(last, _)| last);
            let before = known.last_idle.map(|(_, turn)| turn);
            let (words, transcript) = host.words(&known.transcript, before, since);
            let mut background = host.background();
            background.extend(hosted.children()?);
            let judged = judge_idle(&known, at, words.turn, words.has_news, &background);
            if judged == IdleJudgement::Duplicate {
                host.log(&format!("Skipped: a second idle of session {session} for the same turn"));
                return Ok(());
            }
            let only_judges = hosted.started().session.as_ref().is_some_and(|session| session.verify);
            let idle = hosted.idle(at, &words, transcript, background)?;
            if only_judges && !judges_all && nothing_to_verify(&hosted, &idle) {
                return Ok(());
            }
            let (hosted, handed) = hosted.answer(Input::SessionIdle(Box::new(idle)), &mut seen)?;
            let HandedOver::Recovery(until) = handed else {
                return self.deliver(hosted, handed, seen, host);
            };
            host.log(&format!("Skipped: session {session} is in recovery until {until}"));
            // Others may cancel the loop meanwhile.
            drop(hosted);
            let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
            std::thread::sleep(left);
            at = Timestamp::now();
        }
    }

    /// The host reports an error of a session by its name and words. `ends_turn` says that the turn of the agent ended with it, so
    /// that a limit is waited for.
    pub fn failed(
        &self,
        session: &str,
        (name, words, status): (&str, &str, Option<u16>),
        ends_turn: bool,
        host: &mut dyn SessionHost,
    ) -> Result<(), SessionError> {
        let Some((store, row)) = self.active(session)? else { return Ok(()) };
        let Some(hosted) = HostedLoop::take(self.home, store, &row)? else { return Ok(()) };
        let at = Timestamp::now();
        let is_abort = ABORTS.contains(&name);
        let obstacle = if is_abort { None } else { obstacle(name, words, status, at) };
        let mut seen = Events::default();
        let waits = obstacle.filter(|(outcome, ..)| {
            let for_long = matches!(outcome, Outcome::UsageLimit | Outcome::Auth | Outcome::Billing);
            (ends_turn || for_long) && hosted.state().phase == Phase::Running
        });
        let input = match waits {
            Some(obstacle) => Input::AgentExited(Box::new(hosted.failure(at, obstacle))),
            None => {
                let words = if words.is_empty() { name } else { words };
                Input::SessionFailed(HostSessionError { at, words: words.to_owned(), is_abort })
            }
        };
        if is_abort {
            host.log(&format!("User aborted, loop cleared: session {session}"));
        }
        let (hosted, handed) = hosted.answer(input, &mut seen)?;
        self.deliver(hosted, handed, seen, host)
    }

    /// The host could not give its agent the prompt that it was handed: the iteration is not charged, and the next idle sends it
    /// again (req 127).
    pub fn not_delivered(
        &self,
        session: &str,
        why: &str,
        host: &mut dyn SessionHost,
    ) -> Result<(), SessionError> {
        let Some((store, row)) = self.active(session)? else { return Ok(()) };
        let Some(mut hosted) = HostedLoop::take(self.home, store, &row)? else { return Ok(()) };
        if hosted.state().phase != Phase::Running || hosted.state().session.is_undelivered {
            return Ok(());
        }
        host.log(&format!("Failed to inject continuation: {why}"));
        Ok(hosted.note(Input::PromptNotDelivered(why.to_owned()), &mut NoObserver)?)
    }

    /// A session was deleted, and its loop with it (req 116).
    pub fn deleted(&self, session: &str, host: &mut dyn SessionHost) -> Result<(), SessionError> {
        if self.end(session, "the session was deleted", host)? {
            host.log(&format!("Session deleted, loop cleared: session {session}"));
        }
        Ok(())
    }

    /// Ends the loop of a session, if it has one, because the session or the loop's place in it is gone.
    fn end(&self, session: &str, why: &str, host: &mut dyn SessionHost) -> Result<bool, SessionError> {
        let Some((store, row)) = self.active(session)? else { return Ok(false) };
        let Some(hosted) = HostedLoop::take(self.home, store, &row)? else { return Ok(false) };
        let mut seen = Events::default();
        let (hosted, handed) = hosted.answer(Input::SessionGone(why.to_owned()), &mut seen)?;
        self.deliver(hosted, handed, seen, host)?;
        Ok(true)
    }

    /// The idle of a session without a loop: loops in its folder whose own session is gone are cleared (req 121).
    fn clear_orphans(
        &self,
        session: &str,
        dir: Option<&Path>,
        host: &mut dyn SessionHost,
    ) -> Result<(), SessionError> {
        let (Some(store), Some(dir)) = (self.store()?, dir) else { return Ok(()) };
        for row in store.active_in_sessions()? {
            if row.view.workspace == *dir && row.view.session.as_deref() != Some(session) {
                self.clear_if_orphaned(&row, host)?;
            }
        }
        Ok(())
    }

    fn clear_if_orphaned(&self, row: &LoopRow, host: &mut dyn SessionHost) -> Result<bool, SessionError> {
        let Some(store) = self.store()? else { return Ok(false) };
        let Some(started) = store.loop_started(&row.view.id)? else { return Ok(false) };
        let Some(mut session) = started.session else { return Ok(false) };
        if let Some(stream) = Stream::<LoopMachine>::open(&store, &row.view.id)? {
            session.transcript = stream.state().session.transcript.clone();
        }
        if host.exists(&session) != Some(false) {
            return Ok(false);
        }
        let cleared = self.end(&session.id, "its session is gone", host)?;
        if cleared {
            host.log(&format!("Cleared orphaned state of session {}", session.id));
        }
        Ok(cleared)
    }

    /// Shows the user what has happened, and gives the host the prompt that follows.
    fn deliver(
        &self,
        mut hosted: HostedLoop<'a>,
        handed: HandedOver,
        seen: Events,
        host: &mut dyn SessionHost,
    ) -> Result<(), SessionError> {
        for event in &seen.0 {
            if let Some(toast) = Toast::of(event, hosted.started()) {
                host.toast(&toast);
            }
        }
        let HandedOver::Prompt(prompt) = handed else { return Ok(()) };
        if let Err(why) = host.inject(&prompt) {
            host.log(&format!("Failed to inject continuation: {why}"));
            hosted.note(Input::PromptNotDelivered(why), &mut NoObserver)?;
        }
        Ok(())
    }

    // --- what the agent of a session says by a tool --------------------------------------------------------------

    /// The agent claims that the work is done: the same file that an agent of any loop can write. It is judged when the agent stops.
    /// Gives the names of the gates that decide.
    pub fn claim(&self, session: &str, note: &str) -> Result<Vec<String>, SessionError> {
        if let Some(open) = self.about(session)?.still_open() {
            return Err(SessionError::StillOpen(open));
        }
        let (store, row) = self.active(session)?.ok_or(SessionError::NoLoop)?;
        let done = self.home.task_folder(&row.view.project, &row.view.task).join("DONE");
        let failed = |source| SessionError::Write { path: done.clone(), source };
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&done) {
            Ok(mut file) => file.write_all(secrets().redact(note).as_bytes()).map_err(failed)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let started = store.loop_started(&row.view.id)?;
        let gates = started.map(|started| started.policy.gates.specs).unwrap_or_default();
        Ok(gates.into_iter().map(|gate| gate.name).collect())
    }

    /// What the agent of a session can read of its loop.
    pub fn about(&self, session: &str) -> Result<LoopAbout, SessionError> {
        let (store, row) = self.active(session)?.ok_or(SessionError::NoLoop)?;
        let stream = Stream::<LoopMachine>::open(&store, &row.view.id)?.ok_or(SessionError::NoLoop)?;
        let started = stream.state().started.clone().ok_or(SessionError::NoLoop)?;
        let children = store.running_children(&row.view.id)?.into_iter().map(|child| child.view.id).collect();
        Ok(LoopAbout::of(&started, stream.state(), stream.view(), children))
    }

    /// The agent says that the work cannot be done as asked. It counts when the agent stops, as its tag `<blocked>` does.
    pub fn blocked(&self, session: &str, why: &str) -> Result<(), SessionError> {
        if why.trim().is_empty() {
            return Err(SessionError::BlankReason);
        }
        self.post(session, BLOCKED, why, PostTo::Task)
    }

    /// The agent says something on the bus of its loop's task, or of the project: `kind` is `QUESTION`, `wait_without_restart`,
    /// or any other.
    pub fn post(&self, session: &str, kind: &str, body: &str, to: PostTo) -> Result<(), SessionError> {
        let (mut store, row) = self.active(session)?.ok_or(SessionError::NoLoop)?;
        let LoopView { id, project, task, .. } = row.view;
        let (bus, task) = match to {
            PostTo::Task => (self.home.task_bus(&project, &task), Some(task.to_string())),
            PostTo::Project => (self.home.project_bus(&project), None),
        };
        let draft = Draft {
            kind: kind.to_owned(),
            project: project.to_string(),
            task,
            loop_id: Some(id.to_string()),
            body: secrets().redact(body).into_owned(),
        };
        Bus::open(bus).post(&[draft], Timestamp::now())?;
        if kind == "QUESTION" {
            let text = secrets().redact(body.trim_end()).into_owned();
            store.request(&id, &Request::Ask { text }, Timestamp::now())?;
        }
        Ok(())
    }

    /// Starts a child of the session's loop in the background: `args` are those of a `dacapo run` that reads its prompt from
    /// standard input.
    pub fn start_child(
        &self,
        session: &str,
        args: &[String],
        prompt: &str,
    ) -> Result<BackgroundStart, SessionError> {
        self.active(session)?.ok_or(SessionError::NoLoop)?;
        send_with(args, prompt, (SESSION, session)).map_err(SessionError::Background)
    }

    /// The child loops of the session's loop, and theirs, oldest first.
    pub fn children(&self, session: &str) -> Result<Vec<LoopRecord>, SessionError> {
        let (store, row) = self.active(session)?.ok_or(SessionError::NoLoop)?;
        let below = store.family(&row.view.id)?.into_iter().filter(|child| child.view.id != row.view.id);
        Ok(below.map(LoopRecord::of).collect())
    }

    /// Tells when the journal has changed.
    pub fn watch(&self) -> Result<Watch, SessionError> {
        Watch::journal(self.home).map_err(SessionError::Watch)
    }

    /// What the transcript of a session holds now, for a loop that begins.
    pub fn mark(transcript: Option<&Path>) -> TranscriptMark {
        let offset = transcript.and_then(|path| fs::metadata(path).ok()).map_or(0, |file| file.len());
        let path = transcript.map(Path::to_owned);
        let usage = UsageMark { path: path.clone(), offset, last_call: None };
        TranscriptMark { path, offset, usage }
    }
}

/// A host that ends a turn with an error may end itself at once, and then ends its hooks too: Claude Code without a terminal sends
/// SIGTERM to a StopFailure hook that still runs. That hook has a few milliseconds of work and does it all the same.
pub fn outlive_host() {
    finish_anyway();
}

/// The variables in which hosts give the id of a session to what its agent starts.
const VARIABLES: [&str; 2] = [SESSION, "CLAUDE_CODE_SESSION_ID"];
/// The one that dacapo itself sets for child loops of a session's loop.
const SESSION: &str = "DACAPO_SESSION";

/// The chat session whose agent started this process, as far as the environment says so.
pub fn session_around() -> Option<String> {
    VARIABLES.iter().find_map(|name| std::env::var(name).ok().filter(|id| !id.trim().is_empty()))
}

/// The active loop of the chat session whose agent started this process, as far as the environment says so.
pub fn loop_around() -> Option<LoopId> {
    let session = session_around()?;
    let home = Home::locate().ok()?;
    SessionLoops::new(&home).find(&session).ok().flatten().map(|view| view.id)
}

/// Whether the agent has changed nothing since the loop began, so that there is nothing to judge.
fn nothing_to_verify(hosted: &HostedLoop<'_>, idle: &SessionIdle) -> bool {
    let base =
        hosted.started().base.as_ref().map(|base| base.tree.as_str()).or(hosted.started().outline.as_deref());
    let tree =
        idle.report.snapshot.as_ref().map(|(_, tree)| tree.as_str()).or(idle.report.outline.as_deref());
    let now = tree.or(hosted.state().progress.tree.as_deref());
    now == base
}

/// What an error of a session means, if it is a limit, an outage or an account.
fn obstacle(
    name: &str,
    words: &str,
    status: Option<u16>,
    now: Timestamp,
) -> Option<(Outcome, String, Option<Timestamp>)> {
    let message = if words.is_empty() { name.replace('_', " ") } else { words.to_owned() };
    let ending = Ending { status, message, ..Ending::default() };
    let told = OutputSummary { ending: Some(ending), saw_event: true, ..OutputSummary::default() };
    let judged = outcome(&told, &ProcessEnd { code: Some(1), signal: None }, "");
    let reset = judged.reset.instant(now, &TimeZone::system());
    matches!(
        judged.outcome,
        Outcome::UsageLimit
            | Outcome::RateLimit
            | Outcome::Overload
            | Outcome::Network
            | Outcome::Auth
            | Outcome::Billing
    )
    .then_some((judged.outcome, judged.detail, reset))
}

/// The events of one call, for what the user is shown.
#[derive(Default)]
struct Events(Vec<LoopEvent>);

impl Observer for Events {
    fn event(&mut self, envelope: &Envelope, _: &LoopView) {
        self.0.push(envelope.event.clone());
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
