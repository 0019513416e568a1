//! The keeper: a small process of its own that starts what a loop runs and ends all of it.
//!
//! It is a child subreaper, so orphans become its children; it holds one end of a socket whose other end the
//! supervisor holds, so a supervisor that dies, however, is an end of file here; and it runs in a session of its
//! own, so a terminal's signals do not reach it. One keeper serves all attempts of a loop in turn.
//!
//! A process can also stay for many pieces of work, an agent that speaks ACP. Between them it rests: what it started for the
//! last piece is ended, and the process itself, with what it had before, is stopped, so that nothing of it runs while its work is
//! looked at.
//!
//! Child loops are not below it: the supervisor starts them, beside the keeper.

use std::{
    ffi::{CStr, CString},
    io::Read,
    os::unix::{net::UnixStream, process::CommandExt},
    process::{Command as StdCommand, ExitCode},
    time::{Duration, Instant},
};

use dacapo_core::duration::Millis;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{
        DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, kill_process_group,
        set_dumpable_behavior, setrlimit,
    },
};
use signal_hook::SigId;

use super::{
    identity::{self, Identity},
    proc,
    sweep::{DescendantScan, descendants, signal_all},
    wire::{KeeperOrder, KeeperReport, KeptCommand, KeptEnd, receive_order, send_report},
};

use crate::guard::{self, EnteredNamespaces, GuardReport, Init};

/// The word on the command line that makes this binary a keeper.
pub const KEEPER: &str = "keeper";

/// The name of a keeper's process. Not `dacapo`: a user who kills that by name wants the loop to end, and the keeper must be left
/// to see to it.
pub(crate) const NAME: &str = "dcp-keeper";

/// The name of a `dacapo run` below an agent whose child loop the supervisor has started.
pub(crate) const ASKED: &CStr = c"dcp-asked";

/// How soon to look again for processes that a kill did not end at once.
const AGAIN: Duration = Duration::from_millis(5);

/// How long a child may stay that no look finds: one of another user, on a machine that hides those.
const UNSEEN: Duration = Duration::from_secs(10);

/// How long a `dacapo run` that outlived its agent may take to tell the supervisor what it is to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a process that an agent which stays has begun by itself may take to end when the turn is over: some adapters ask
/// another program for their state after each turn, and need its answer. On a busy machine that takes seconds.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Runs a keeper; the socket is standard input. Returns when the supervisor is gone and nothing is left.
pub fn main() -> ExitCode {
    match Keeper::new().and_then(|mut keeper| keeper.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(70),
    }
}

struct Keeper {
    socket: UnixStream,
    child_ended: UnixStream,
    /// What writes to it.
    on_child_ended: SigId,
    work: Option<KeptProcess>,
    grace: Millis,
    is_orphan: bool,
    /// Whether the last look found nothing and proved nothing.
    is_unsure: bool,
    /// Namespaces that were entered, until it is told what they hold.
    entered: Option<std::io::Result<EnteredNamespaces>>,
    /// The first process of the namespace in which everything runs, if it is one of its own.
    init: Option<Init>,
}

struct KeptProcess {
    leader: Pid,
    end: Option<KeptEnd>,
    /// When what is left is killed; `None` until the supervisor asks the process to end.
    kill_at: Option<Instant>,
    /// Until when a `dacapo run` that the agent has left may take to ask for its child.
    patience: Option<Instant>,
    /// Since when nothing was found, though not for certain.
    nothing_since: Option<Instant>,
    /// What belongs to the process itself, if it stays.
    own: Vec<Identity>,
    /// Set while it is put to rest.
    rest: Option<Rest>,
}

/// A process that stays is put to rest.
struct Rest {
    kill_at: Instant,
    grace: Duration,
    /// Until when processes that it waits for itself may end by themselves.
    spares_until: Option<Instant>,
    /// The processes that its last piece of work has left behind, once they were asked to end.
    asked: Vec<u32>,
}

impl Keeper {
    fn new() -> std::io::Result<Self> {
        // Already a leader when started by hand; a session of its own is all that matters.
        let _ = rustix::process::setsid();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        // A core dump holds what the process knew, keys too.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let name = CString::new(NAME)?;
        let _ = rustix::thread::set_name(&name);
        let socket = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
        let (child_ended, writer) = UnixStream::pair()?;
        child_ended.set_nonblocking(true)?;
        let on_child_ended = signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, writer)?;
        Ok(Self {
            socket,
            child_ended,
            on_child_ended,
            work: None,
            grace: Millis(0),
            is_orphan: false,
            is_unsure: false,
            entered: None,
            init: None,
        })
    }

    fn serve(&mut self) -> std::io::Result<()> {
        loop {
            if self.is_orphan && self.work.is_none() {
                return Ok(());
            }
            let (orders, children) = self.wait()?;
            if children {
                let mut bytes = [0; 64];
                while matches!(self.child_ended.read(&mut bytes), Ok(n) if n > 0) {}
            }
            if orders && !self.is_orphan {
                // An unreadable supervisor is as good as a dead one.
                match receive_order(&mut self.socket).unwrap_or(None) {
                    Some(order) => self.obey(order)?,
                    None => self.orphaned(),
                }
            }
            self.look_after()?;
        }
    }

    /// Waits for an order, the end of a child, or the time to kill.
    fn wait(&self) -> std::io::Result<(bool, bool)> {
        let rests = self.work.as_ref().and_then(|work| work.rest.as_ref()).map(|rest| rest.kill_at);
        let timeout = self
            .work
            .as_ref()
            .and_then(|work| work.kill_at)
            .into_iter()
            .chain(rests)
            .map(|at| at.saturating_duration_since(Instant::now()).max(AGAIN))
            .chain(self.is_unsure.then_some(AGAIN))
            .min()
            .and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(&self.child_ended, PollFlags::IN)];
        if !self.is_orphan {
            fds.push(PollFd::new(&self.socket, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, true)),
            Err(error) => return Err(error.into()),
        }
        Ok((fds.get(1).is_some_and(|fd| !fd.revents().is_empty()), !fds[0].revents().is_empty()))
    }

    fn obey(&mut self, order: KeeperOrder) -> std::io::Result<()> {
        match order {
            KeeperOrder::Enter => self.entered = Some(self.enter_namespaces()),
            KeeperOrder::Guard(spec) => {
                let entered = self.entered.take();
                match guard::hold(&spec, || entered.unwrap_or_else(|| self.enter_namespaces())) {
                    Ok((init, open)) => {
                        self.init = init;
                        self.report(&KeeperReport::Guarded(GuardReport::Held(open)));
                    }
                    // Half a guard is none, and nothing may be started in it.
                    Err(error) => {
                        let report = GuardReport::of_error(&error);
                        self.report(&KeeperReport::Guarded(report));
                        return Err(error);
                    }
                }
            }
            KeeperOrder::Run(command, fds) => {
                // What runs below must not look at this process, which has the supervisor's environment.
                let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
                self.grace = command.grace;
                match start(&command, fds) {
                    Ok(leader) => {
                        self.work = Some(KeptProcess {
                            leader,
                            end: None,
                            kill_at: None,
                            patience: None,
                            nothing_since: None,
                            own: Vec::new(),
                            rest: None,
                        })
                    }
                    Err(error) => self.report(&KeeperReport::NotStarted(error.raw_os_error().unwrap_or(0))),
                }
            }
            KeeperOrder::Stop(grace) => self.ask_to_end(grace),
            KeeperOrder::Suspend => signal_all(self.below().pids(), Signal::STOP),
            KeeperOrder::Continue => signal_all(self.below().pids(), Signal::CONT),
            KeeperOrder::Wake => {
                let below = self.below();
                signal_all(below.pids(), Signal::CONT);
                if let Some(work) = &mut self.work {
                    work.own = below.pids().map(identity::of).collect();
                    self.report(&KeeperReport::Awake);
                }
            }
            KeeperOrder::Rest(grace) => {
                if let Some(work) = &mut self.work {
                    let now = Instant::now();
                    let spares_until = (!grace.is_zero()).then(|| now + AFTERWARDS);
                    let (grace, asked) = (grace.std(), Vec::new());
                    work.rest = Some(Rest { kill_at: now + grace, grace, spares_until, asked });
                    work.patience = None;
                }
            }
        }
        Ok(())
    }

    fn orphaned(&mut self) {
        self.is_orphan = true;
        self.ask_to_end(self.grace);
    }

    /// TERM to the group and to all that left it, once to each, then CONT: a stopped process cannot end.
    fn ask_to_end(&mut self, grace: Millis) {
        if self.work.is_none() {
            return;
        }
        let below = self.below();
        let Some(work) = &mut self.work else { return };
        let kill_at = Instant::now() + grace.std();
        // A second order can only hurry.
        work.kill_at = Some(work.kill_at.map_or(kill_at, |at| at.min(kill_at)));
        if !grace.is_zero() {
            let group = work.end.is_none().then_some(work.leader);
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::TERM);
            }
            let group = group.map(|leader| leader.as_raw_nonzero().get().cast_unsigned());
            let outside = below.processes.iter().filter(|(_, its)| Some(*its) != group).map(|(pid, _)| *pid);
            signal_all(outside, Signal::TERM);
            signal_all(below.pids(), Signal::CONT);
        }
    }

    /// Waits for what has ended, kills what has not when it is time, and reports when nothing is left.
    fn look_after(&mut self) -> std::io::Result<()> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if let Some(work) = &mut self.work
                        && work.leader == pid
                    {
                        work.end = Some(end(status));
                    }
                    if self.init.as_ref().is_some_and(|init| init.is(pid)) {
                        // Everything in its namespace is dead, and nothing can be started there any more.
                        return Err(std::io::ErrorKind::BrokenPipe.into());
                    }
                }
                Ok(None) => break,
                // No child at all: with a subreaper that means no descendant at all.
                Err(rustix::io::Errno::CHILD) => {
                    self.finish();
                    return Ok(());
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.is_unsure = false;
        let Some(work) = &self.work else { return Ok(()) };
        let time_to_kill = work.kill_at.is_some_and(|at| at <= Instant::now());
        if work.end.is_none() && !time_to_kill {
            self.put_to_rest();
            return Ok(());
        }
        if work.end.is_some() && self.init.is_some() {
            if guard::is_alone() {
                self.finish();
                return Ok(());
            }
            // The ends of orphans are told to the first process of the namespace alone.
            self.is_unsure = true;
            if work.kill_at.is_some() && !time_to_kill {
                return Ok(());
            }
        }
        let below = self.below();
        let Some(work) = &mut self.work else { return Ok(()) };
        if below.processes.is_empty() && work.end.is_some() {
            // `wait` has just said that there is a child: it ended meanwhile, or came after the look.
            if work.nothing_since.get_or_insert_with(Instant::now).elapsed() >= UNSEEN {
                self.finish();
            } else {
                self.is_unsure = true;
            }
        } else if time_to_kill {
            work.nothing_since = None;
            signal_all(below.pids(), Signal::KILL);
        } else if work.kill_at.is_none()
            && below.pids().any(is_starting_child)
            && work.patience.get_or_insert_with(|| Instant::now() + PATIENCE) > &mut Instant::now()
        {
            // It will have asked in a moment, and then the child does not need it any more.
            self.is_unsure = true;
        } else if let Some(end) = &mut work.end
            && work.kill_at.is_none()
        {
            end.leftovers = u32::try_from(below.processes.len()).unwrap_or(u32::MAX);
            self.ask_to_end(self.grace);
        }
        Ok(())
    }

    /// Ends what a process that stays has left behind, stops the process, and reports that it rests.
    fn put_to_rest(&mut self) {
        let init = self.init.as_ref();
        let Some(work) = &mut self.work else { return };
        let Some(rest) = &mut work.rest else { return };
        let is_own = |pid: u32| {
            let found = identity::of(pid);
            work.own.iter().any(|own| own.pid == pid && own.start == found.start)
        };
        let strangers = || -> Vec<u32> { below(init).pids().filter(|pid| !is_own(*pid)).collect() };
        let mut left = strangers();
        if left.is_empty() {
            // What is stopped starts nothing: only now is a look that finds nothing a proof.
            signal_all(below(init).pids(), Signal::STOP);
            left = strangers();
            if left.is_empty() {
                let leftovers = u32::try_from(rest.asked.len()).unwrap_or(u32::MAX);
                work.rest = None;
                return self.report(&KeeperReport::Rested(leftovers));
            }
            // What came between the two looks may have been stopped with the others, and is to end.
            signal_all(left.iter().copied(), Signal::CONT);
        }
        self.is_unsure = true;
        if left.iter().copied().any(is_starting_child)
            && work.patience.get_or_insert_with(|| Instant::now() + PATIENCE) > &mut Instant::now()
        {
            return;
        }
        let now = Instant::now();
        if rest.spares_until.take_if(|until| *until <= now).is_some() {
            rest.kill_at = rest.kill_at.max(now + rest.grace);
        }
        if rest.spares_until.is_some() {
            // A process that was left behind has lost its parent and is the keeper's child.
            let is_waited_for = |pid: u32| {
                let parents =
                    std::iter::successors(Some(pid), |pid| identity::stat(*pid).map(|stat| stat.parent));
                parents.skip(1).take_while(|pid| *pid > 1).any(is_own)
            };
            left.retain(|pid| !is_waited_for(*pid));
        }
        let unasked: Vec<u32> = left.iter().copied().filter(|pid| !rest.asked.contains(pid)).collect();
        rest.asked.extend(&unasked);
        if rest.kill_at <= now {
            signal_all(left, Signal::KILL);
        } else {
            signal_all(unasked.iter().copied(), Signal::TERM);
            signal_all(unasked, Signal::CONT);
        }
    }

    fn enter_namespaces(&mut self) -> std::io::Result<EnteredNamespaces> {
        guard::enter(|| {
            signal_hook::low_level::unregister(self.on_child_ended);
            for socket in [&mut self.socket, &mut self.child_ended] {
                // A socket cannot be closed that a value stands for: one that leads nowhere takes its place.
                if let Ok((nowhere, _)) = UnixStream::pair() {
                    *socket = nowhere;
                }
            }
        })
    }

    fn below(&self) -> DescendantScan {
        below(self.init.as_ref())
    }

    fn finish(&mut self) {
        if let Some(work) = self.work.take() {
            let end = work.end.unwrap_or(KeptEnd { code: None, signal: None, leftovers: 0 });
            self.report(&KeeperReport::Ended(end));
        }
    }

    fn report(&mut self, report: &KeeperReport) {
        // A supervisor that does not listen any more shows up as an end of file.
        let _ = send_report(&mut self.socket, report);
    }
}

/// All that must end: every descendant but the first process of its namespace.
fn below(init: Option<&Init>) -> DescendantScan {
    let mut found = descendants(std::process::id(), &[]);
    found.processes.retain(|(pid, _)| init.is_none_or(|init| init.pid != *pid));
    found
}

/// Whether a process is a dacapo that is about to ask for a child loop: this very program, told to run one.
fn is_starting_child(pid: u32) -> bool {
    let line = std::fs::read(proc::of(pid, "cmdline")).unwrap_or_default();
    let told = line.split(|b| *b == 0).nth(1).unwrap_or_default();
    let name = std::fs::read(proc::of(pid, "comm")).unwrap_or_default();
    told == b"run" && name.trim_ascii_end() != ASKED.to_bytes() && identity::of(pid).runs_this_program()
}

fn start(command: &KeptCommand, [stdin, stdout, stderr]: [std::os::fd::OwnedFd; 3]) -> std::io::Result<Pid> {
    let child = StdCommand::new(&command.program)
        .args(&command.args)
        .env_clear()
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&command.dir)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    // The value is dropped: the keeper waits for every child itself, this one too.
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| std::io::ErrorKind::Other.into())
}

fn end(status: WaitStatus) -> KeptEnd {
    KeptEnd { code: status.exit_status(), signal: status.terminating_signal(), leftovers: 0 }
}
