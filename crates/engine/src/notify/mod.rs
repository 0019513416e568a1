//! Notifications: a short process of its own reads what was recorded, has core judge it, and sends what is to be sent.
//!
//! A stream that records something worth telling wakes that process (`wake`) and does not wait for it. The process goes
//! by the journal, not by who woke it: it begins behind the newest event that was judged, so what a killed supervisor
//! could not tell any more is told by the next one, and nothing is told twice. That an event was judged is written down
//! before anything is sent: a sender that is killed loses a message rather than sending it again and again.

mod send;

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::{fs::MetadataExt, fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ExitCode, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use dacapo_core::{
    ids::{LoopId, RunId},
    loop_machine::LoopMachine,
    notify::{
        Delivery, Notice, NotifyChannel, NotifyRule, Sent, due_at, judge, notice_of_loop, notice_of_run,
        notice_of_task, notice_of_workflow, overdue,
    },
    stages::machine::TaskMachine,
    unit::schedule::RunMachine,
    workflow::machine::WorkflowMachine,
};
use jiff::{Timestamp, Zoned};
use rustix::fs::{FlockOperation, flock};

pub use send::{SEND_TIMEOUT, obstacle, send};

use crate::{
    config_files,
    home::{Home, make_dir},
    inside::{self, Whereabouts},
    process::identity::{self, Identity, all_pids},
    store::{AnyEvent, EventScope, JournalMachine, Store, StoreError},
};

/// The word by which this binary knows that it is to send notifications.
pub const NOTIFY: &str = "dcp-notify";

/// How long a sender waits for another one that is judging.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);
const LOCK_AGAIN: Duration = Duration::from_millis(10);
/// How long a sender that waits for the end of quiet hours sleeps before it looks at the clock again.
const STEP: Duration = Duration::from_secs(20);
/// How large the list of what was sent becomes before it is begun anew.
const LONGEST_LOG: u64 = 256 << 10;
/// How many channels are remembered: those of former configurations go.
const MOST_CHANNELS: usize = 100;

/// Whether this process tells anything to people: tests and benchmarks of the engine do not.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);
/// The senders that this process has started, until they are seen to have ended.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// From now on what streams of this process record is told to people who want to hear of it.
pub fn enable() {
    IS_ENABLED.store(true, Ordering::Relaxed);
}

/// Starts a process that sends what the configuration asks for, if it asks for anything. It is not waited for, and it goes
/// on if this process is killed.
pub(crate) fn wake(database: &Path, notice: &Notice) {
    if !IS_ENABLED.load(Ordering::Relaxed) || rules(&notice.folder).0.is_empty() {
        return;
    }
    let home = database.parent().unwrap_or(Path::new("/"));
    let started = std::process::Command::new("/proc/self/exe")
        .arg0(NOTIFY)
        .arg(NOTIFY)
        .arg(database)
        .arg(notice.seq.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        // Ctrl-C is for the loop. The terminal stays this one's: it may have to ring.
        .process_group(0)
        .env("DACAPO_HOME", home)
        .env_remove("DACAPO_LOOP") // the mark of an agent's process, which this is not
        .spawn();
    let mut all = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    // Without a process nothing is told now. The next one tells it.
    all.extend(started.ok());
}

/// The senders that run. A supervisor or scheduler that ends orphans leaves them alone. They end by themselves.
pub(crate) fn senders() -> Vec<Identity> {
    let mut own = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    own.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    drop(own);
    let file_of = |pid: &str| fs::metadata(format!("/proc/{pid}/exe")).ok().map(|m| (m.dev(), m.ino()));
    let own = file_of("self");
    let is_sender = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).nth(1) == Some(NOTIFY.as_bytes()) && file_of(&pid.to_string()) == own
    };
    all_pids().into_iter().filter(is_sender).map(identity::of).collect()
}

/// What is asked for by the user, and by the repository of `folder`; and what is wrong with either file. A mistake in one
/// of them does not silence the other.
pub fn rules(folder: &Path) -> (Vec<NotifyRule>, Vec<String>) {
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    for config in [config_files::users(), config_files::of_repository(folder)] {
        match config {
            Ok(config) => rules.extend(config.notify.into_iter().map(|at| at.value)),
            Err(error) => problems.push(error.to_string()),
        }
    }
    (rules, problems)
}

/// The process that sends.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(2);
    let database = args.next().map(PathBuf::from);
    let seq = args.next().and_then(|seq| seq.to_str()?.parse::<u64>().ok());
    let (Some(database), Some(seq)) = (database, seq) else { return ExitCode::from(2) };
    let home = Home::at(database.parent().unwrap_or(Path::new("/")));
    // An agent must not be able to have something run that is left alone when the rest of it is ended.
    if !matches!(inside::place(&home), Whereabouts::Outside) {
        return ExitCode::from(4);
    }
    match tell_all(&home, seq) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = note(&home, "failed", "judging", &error.to_string());
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TellError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot use `{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// Tells what is to be told now, and stays until what was held back can be told, unless another sender stays for that. One that is
/// ended meanwhile is no loss: the next event has it told.
fn tell_all(home: &Home, woken_by: u64) -> Result<(), TellError> {
    let mut folders = BTreeSet::new();
    let Some(mut due) = tell(home, woken_by, &mut folders)? else { return Ok(()) };
    let path = home.path().join("notify/waiting");
    let Some(_waiting) = waiting(&path).map_err(|source| TellError::File { path, source })? else {
        return Ok(());
    };
    loop {
        let now = Timestamp::now();
        if now < due {
            // In short steps: a machine may sleep, and its clock may be set.
            let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            thread::sleep(left.min(STEP));
            continue;
        }
        match tell(home, woken_by, &mut folders)? {
            Some(next) if next > now => due = next,
            _ => return Ok(()),
        }
    }
}

/// The lock of the sender that stays; `None` if there is one already.
fn waiting(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Judges what was recorded since the last time, and sends what is to be sent. Gives the time at which something that was held
/// back can be told. `folders` are those whose rules held something back, and become so.
fn tell(home: &Home, woken_by: u64, folders: &mut BTreeSet<PathBuf>) -> Result<Option<Timestamp>, TellError> {
    let folder = home.path().join("notify");
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| TellError::File { path: path.clone(), source }
    };
    make_dir(&folder).map_err(at(&folder))?;
    let lock = lock(&folder.join("lock")).map_err(at(&folder.join("lock")))?;
    let file = folder.join("sent.json");
    // One that cannot be read is begun anew: too little is told, and nothing twice.
    let known = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Sent>(&bytes).ok());
    let mut sent = known.unwrap_or(Sent { judged_up_to: woken_by.saturating_sub(1), ..Sent::default() });
    let (deliveries, due) = judged(home, &mut sent, folders)?;
    save(&file, &sent).map_err(at(&file))?;
    drop(lock);
    thread::scope(|scope| {
        for (channel, delivery) in &deliveries {
            scope.spawn(move || {
                let (how, words) = match send(channel, delivery) {
                    Ok(()) => ("sent", delivery.title()),
                    Err(why) => ("failed", why),
                };
                let _ = note(home, how, &channel.to_string(), &words);
            });
        }
    });
    Ok(due)
}

/// What is to be sent by which channel, and when what was held back can be told.
type Judged = (Vec<(NotifyChannel, Delivery)>, Option<Timestamp>);

fn judged(home: &Home, sent: &mut Sent, folders: &mut BTreeSet<PathBuf>) -> Result<Judged, TellError> {
    let store = Store::open_existing(&home.database())?;
    let mut views = Views { store: &store, loops: HashMap::new(), runs: HashMap::new() };
    let mut notices = Vec::new();
    let from = sent.judged_up_to.saturating_add(1);
    store.each_fact(&EventScope::All, from, |fact| {
        sent.judged_up_to = fact.seq();
        notices.extend(views.notice(&fact)?);
        Ok::<(), StoreError>(())
    })?;
    let now = Zoned::now();
    let (at, local) = (now.timestamp(), now.time());
    let mut known: HashMap<PathBuf, Vec<NotifyRule>> =
        folders.iter().map(|folder| (folder.clone(), rules(folder).0)).collect();
    let mut deliveries = Vec::new();
    for notice in &notices {
        let rules = known.entry(notice.folder.clone()).or_insert_with(|| rules(&notice.folder).0);
        for rule in rules {
            let memory = sent.channels.entry(rule.key()).or_default();
            let delivery = judge(rule, notice, memory, at, local);
            deliveries.extend(delivery.map(|delivery| (rule.channel.clone(), delivery)));
        }
    }
    // What was held back before is told now, also if no channel wants to hear of what has happened since.
    for rule in known.values().flatten() {
        let memory = sent.channels.entry(rule.key()).or_default();
        deliveries.extend(overdue(rule, memory, at, local).map(|delivery| (rule.channel.clone(), delivery)));
    }
    folders.extend(known.keys().cloned());
    let due =
        known.values().flatten().filter_map(|rule| due_at(rule, sent.channels.get(&rule.key())?, &now)).min();
    let in_use: Vec<String> = known.values().flatten().map(NotifyRule::key).collect();
    if sent.channels.len() > MOST_CHANNELS {
        sent.channels.retain(|key, _| in_use.contains(key));
    }
    Ok((deliveries, due))
}

/// The views of the streams that events are from, each read once.
struct Views<'a> {
    store: &'a Store,
    loops: HashMap<LoopId, Option<dacapo_core::view::LoopView>>,
    runs: HashMap<RunId, AnyRunView>,
}

/// The view of a run of one of three kinds.
#[derive(Clone)]
enum AnyRunView {
    Units(Box<dacapo_core::view::RunView>),
    Workflow(Box<dacapo_core::view::WorkflowView>),
    Task(Box<dacapo_core::view::StageTaskView>),
    Gone,
}

impl Views<'_> {
    fn notice(&mut self, fact: &AnyEvent) -> Result<Option<Notice>, StoreError> {
        let store = self.store;
        Ok(match fact {
            AnyEvent::Loop(envelope) => {
                if !self.loops.contains_key(&envelope.loop_id) {
                    let view = store.row(&envelope.loop_id)?.map(|row| row.view);
                    self.loops.insert(envelope.loop_id.clone(), view);
                }
                let view = self.loops.get(&envelope.loop_id).and_then(Option::as_ref);
                view.and_then(|view| notice_of_loop(envelope, view))
            }
            AnyEvent::Run(envelope) => {
                let read =
                    || Ok(store.run_row(&envelope.run)?.map(|row| AnyRunView::Units(Box::new(row.view))));
                match self.run(&envelope.run, read)? {
                    AnyRunView::Units(view) => notice_of_run(envelope, view),
                    _ => None,
                }
            }
            AnyEvent::Workflow(envelope) => {
                let read = || {
                    Ok(store.workflow_row(&envelope.run)?.map(|row| AnyRunView::Workflow(Box::new(row.view))))
                };
                match self.run(&envelope.run, read)? {
                    AnyRunView::Workflow(view) => notice_of_workflow(envelope, view),
                    _ => None,
                }
            }
            AnyEvent::Task(envelope) => {
                let read =
                    || Ok(store.task_row(&envelope.run)?.map(|row| AnyRunView::Task(Box::new(row.view))));
                match self.run(&envelope.run, read)? {
                    AnyRunView::Task(view) => notice_of_task(envelope, view),
                    _ => None,
                }
            }
        })
    }

    fn run(
        &mut self,
        id: &RunId,
        read: impl FnOnce() -> Result<Option<AnyRunView>, StoreError>,
    ) -> Result<&AnyRunView, StoreError> {
        if !self.runs.contains_key(id) {
            let found = read()?.unwrap_or(AnyRunView::Gone);
            self.runs.insert(id.clone(), found);
        }
        Ok(self.runs.get(id).unwrap_or(&AnyRunView::Gone))
    }
}

/// What a person may want to hear of an event, for each kind of stream.
pub trait Notable: JournalMachine {
    fn notice(envelope: &Self::Envelope, view: &Self::View) -> Option<Notice>;
}

impl Notable for LoopMachine {
    fn notice(envelope: &Self::Envelope, view: &Self::View) -> Option<Notice> {
        notice_of_loop(envelope, view)
    }
}

impl Notable for RunMachine {
    fn notice(envelope: &Self::Envelope, view: &Self::View) -> Option<Notice> {
        notice_of_run(envelope, view)
    }
}

impl Notable for WorkflowMachine {
    fn notice(envelope: &Self::Envelope, view: &Self::View) -> Option<Notice> {
        notice_of_workflow(envelope, view)
    }
}

impl Notable for TaskMachine {
    fn notice(envelope: &Self::Envelope, view: &Self::View) -> Option<Notice> {
        notice_of_task(envelope, view)
    }
}

/// The lock under which events are judged. It is not held while something is sent.
fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(LOCK_AGAIN),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes the file whole or not at all.
fn save(path: &Path, sent: &Sent) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(sent)?)?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

/// A line of the list of what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentLine {
    pub at: Timestamp,
    pub is_sent: bool,
    pub channel: String,
    /// What was sent, or why it was not.
    pub words: String,
}

fn note(home: &Home, how: &str, channel: &str, words: &str) -> io::Result<()> {
    let path = home.path().join("notify/log");
    let is_long = fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LONGEST_LOG);
    let mut file = OpenOptions::new()
        .create(true)
        .append(!is_long)
        .write(true)
        .truncate(is_long)
        .mode(0o600)
        .open(&path)?;
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("{}\t{how}\t{}\t{}\n", Timestamp::now(), flat(channel), flat(words));
    file.write_all(line.as_bytes())
}

/// The newest line about each channel.
pub fn newest_lines(home: &Home) -> Vec<SentLine> {
    let text = fs::read_to_string(home.path().join("notify/log")).unwrap_or_default();
    let mut newest: Vec<SentLine> = Vec::new();
    for line in text.lines().rev() {
        let mut parts = line.splitn(4, '\t');
        let (Some(at), Some(how), Some(channel), Some(words)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Ok(at) = at.parse() else { continue };
        if !newest.iter().any(|known| known.channel == channel) {
            let (channel, words) = (channel.to_owned(), words.to_owned());
            newest.push(SentLine { at, is_sent: how == "sent", channel, words });
        }
    }
    newest
}
