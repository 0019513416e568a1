//! An agent that stays: it speaks the Agent Client Protocol, has a keeper of its own, and works on one prompt after the other.
//!
//! ```text
//! started ─► opens its session ─► woken ─► works on a prompt ─► put to rest ─► (gates run) ─► woken ─► …
//! ```
//!
//! While it rests its processes are stopped, and what it started for the last prompt is dead: the files that are looked at and
//! checked are as still as if the agent had ended. Everything that it prints goes the way of every agent's output.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};

use dacapo_core::{
    agent::{
        AgentCommand,
        acp::{AcpConversation, AcpStep, ToolServer},
    },
    duration::Millis,
    event::Outcome,
};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{
    SuperviseError, Supervisor,
    work::{SupervisedProcess, WorkKind, pipe},
};
use crate::{
    process::{KeeperLink, KeeperReport, KeptCommand, KeptEnd, identity, identity::Identity},
    store::Channel,
};

/// An agent between two prompts, and its keeper at all times.
pub(super) struct Resident {
    /// The conversation and the pipes; the running work has them while the agent works.
    idle: Option<(Talk, [OwnedFd; 2])>,
    keeper: KeeperLink,
    /// Which of the policy's agents it is.
    agent: usize,
}

impl Resident {
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.keeper.fd()
    }

    pub(super) fn pid(&self) -> u32 {
        self.keeper.pid()
    }

    pub(super) fn identity(&self) -> Identity {
        identity::of(self.keeper.pid())
    }

    pub(super) fn keeper(&mut self) -> &mut KeeperLink {
        &mut self.keeper
    }

    /// The agent has its turn behind it.
    pub(super) fn take_back(&mut self, talk: Talk, pipes: [OwnedFd; 2]) {
        self.idle = Some((talk, pipes));
    }
}

/// A conversation, and the way to the agent's standard input.
pub(super) struct Talk {
    conversation: AcpConversation,
    /// Closed once nothing more is to be said, or the agent does not read any more.
    input: Option<OwnedFd>,
    /// What the agent has not taken yet.
    outbox: Vec<u8>,
    prompt: Option<String>,
    steps: Vec<AcpStep>,
    pub(super) warnings: Vec<String>,
}

impl Talk {
    /// A conversation, and the end that becomes the agent's standard input.
    pub(super) fn begin(mut conversation: AcpConversation, prompt: &str) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        let outbox = conversation.begin();
        let talk = Self {
            conversation,
            input: Some(writer),
            outbox,
            prompt: Some(prompt.to_owned()),
            steps: Vec::new(),
            warnings: Vec::new(),
        };
        Ok((talk, reader))
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.steps.extend(self.conversation.hear(bytes));
    }

    /// The session, also where nothing that the agent said in its turn names it.
    pub(super) fn session(&self) -> Option<String> {
        self.conversation.session().map(str::to_owned)
    }

    /// Where it has more to say than the agent has taken.
    pub(super) fn unsaid(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().filter(|_| !self.outbox.is_empty()).map(AsFd::as_fd)
    }

    fn say_prompt(&mut self) {
        if let Some(prompt) = self.prompt.take() {
            self.outbox.extend(self.conversation.prompt(&prompt));
        }
    }

    fn flush(&mut self) {
        while let (Some(input), false) = (&self.input, self.outbox.is_empty()) {
            match rustix::io::write(input, &self.outbox) {
                Ok(written) => {
                    self.outbox.drain(..written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // It has gone or does not listen any more; its end or its silence tells.
                Err(_) => self.input = None,
            }
        }
    }
}

/// What a prompt for an agent that stays comes with.
pub(super) struct TurnOrder<'a> {
    pub(super) agent: usize,
    pub(super) prompt: &'a str,
    /// The session to go on with.
    pub(super) session: Option<&'a str>,
    pub(super) limit: Option<(Millis, Outcome)>,
    pub(super) idle: Option<Millis>,
}

impl Supervisor<'_> {
    /// Gives the agent its prompt: the one that is there, if it has the session that is wanted, else a new one.
    pub(super) fn start_turn(
        &mut self,
        order: &TurnOrder<'_>,
        command: &KeptCommand,
        listen: impl FnOnce() -> WorkKind,
    ) -> Result<(), SuperviseError> {
        let there = self.resident.as_mut().filter(|resident| resident.agent == order.agent);
        let idle = there.and_then(|resident| {
            resident.idle.take_if(|(talk, _)| {
                talk.input.is_some()
                    && (order.session.is_none() || order.session == talk.conversation.session())
            })
        });
        let (mut talk, pipes, is_new) = match idle {
            Some((mut talk, pipes)) => {
                talk.prompt = Some(order.prompt.to_owned());
                (talk, pipes, false)
            }
            None => {
                // Ends the one that is there.
                self.resident = None;
                let (talk, pipes) = self.start_resident(order, command)?;
                (talk, pipes, true)
            }
        };
        let mut wakes = false;
        if !is_new && order.session.is_some() {
            wakes = true;
        } else if !is_new {
            let renewal = talk.conversation.renew();
            talk.outbox.extend(renewal);
        }
        talk.flush();
        let [out, err] = pipes;
        let limits = (order.limit, order.idle);
        let mut work =
            SupervisedProcess::new(listen(), vec![(Channel::Stdout, out), (Channel::Stderr, err)], limits);
        let settings = self.started.policy.agent.at(order.agent).acp.clone().unwrap_or_default();
        work.opens_until = Some(Instant::now() + settings.opening_timeout.std());
        work.stays = true;
        work.talk = Some(talk);
        self.work = Some(work);
        let sent = match &mut self.resident {
            Some(resident) if wakes => resident.keeper.wake(),
            // It was stopped, and has to open a session before its processes are its own.
            Some(resident) if !is_new => resident.keeper.resume(),
            _ => Ok(()),
        };
        if sent.is_err() {
            self.resident_lost()?;
        }
        Ok(())
    }

    fn start_resident(
        &mut self,
        order: &TurnOrder<'_>,
        command: &KeptCommand,
    ) -> Result<(Talk, [OwnedFd; 2]), SuperviseError> {
        let cannot = |source: io::Error| SuperviseError::Io { what: "cannot make a pipe", source };
        let agent = self.started.policy.agent.at(order.agent).clone();
        let conversation =
            self.conversation_with(&agent, &command.dir.to_string_lossy(), order.session.map(str::to_owned));
        let (talk, stdin) = Talk::begin(conversation, order.prompt).map_err(cannot)?;
        let (out, out_end) = pipe().map_err(cannot)?;
        let (err, err_end) = pipe().map_err(cannot)?;
        let (mut keeper, _) = self
            .guard
            .keeper(self.home, &self.id)
            .map_err(|source| SuperviseError::Io { what: "cannot start a keeper", source })?;
        // A keeper that is gone already shows up as an end of file.
        let _ = keeper.run(command, [stdin.as_fd(), out_end.as_fd(), err_end.as_fd()]);
        self.resident = Some(Resident { idle: None, keeper, agent: order.agent });
        Ok((talk, [out, err]))
    }

    /// A conversation with `agent` in the folder `dir`.
    pub(super) fn conversation_with(
        &self,
        agent: &AgentCommand,
        dir: &str,
        session: Option<String>,
    ) -> AcpConversation {
        let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
        let tools = self.home.bin().ok().map(|bin| ToolServer {
            command: text(bin.join("dacapo").as_os_str()),
            args: vec!["mcp".to_owned()],
            env: vec![
                ("DACAPO_HOME".to_owned(), text(self.home.path().as_os_str())),
                ("DACAPO_SOCKET".to_owned(), text(self.server.path().unwrap_or("".as_ref()).as_os_str())),
            ],
        });
        AcpConversation::new(agent.acp.clone().unwrap_or_default(), dir, tools, session)
    }

    /// Does what follows from what the agent said, and says what it has not taken yet.
    pub(super) fn converse(&mut self) -> Result<(), SuperviseError> {
        let grace = self.started.policy.pace.kill_grace;
        let Some(SupervisedProcess { talk: Some(talk), .. }) = &mut self.work else { return Ok(()) };
        for step in std::mem::take(&mut talk.steps) {
            let Some(work) = &mut self.work else { return Ok(()) };
            let is_being_ended = work.is_being_ended();
            let Some(talk) = &mut work.talk else { return Ok(()) };
            match step {
                AcpStep::Send(line) => talk.outbox.extend(line),
                AcpStep::Warn(text) => talk.warnings.push(text),
                AcpStep::Ready if is_being_ended => {}
                AcpStep::Ready if work.stays => {
                    let sent = self.resident.as_mut().map(|resident| resident.keeper.wake());
                    if sent.is_some_and(|sent| sent.is_err()) {
                        return self.resident_lost();
                    }
                }
                AcpStep::Ready => {
                    work.opens_until = None;
                    talk.say_prompt();
                }
                AcpStep::TurnOver if work.stays => {
                    work.is_resting = true;
                    let sent = self.resident.as_mut().map(|resident| resident.keeper.rest(grace));
                    if sent.is_some_and(|sent| sent.is_err()) {
                        return self.resident_lost();
                    }
                }
                AcpStep::TurnOver => {
                    talk.input = None;
                    let _ = self.keeper.stop(grace);
                }
                AcpStep::Failed => {
                    talk.input = None;
                    work.opens_until = None;
                    self.stop_process(grace);
                }
            }
        }
        if let Some(SupervisedProcess { talk: Some(talk), .. }) = &mut self.work {
            talk.flush();
        }
        Ok(())
    }

    /// What the keeper of the agent that stays has to tell.
    pub(super) fn resident_reported(&mut self) -> Result<(), SuperviseError> {
        let Some(resident) = &mut self.resident else { return Ok(()) };
        let report = resident.keeper.receive();
        let is_at_work = self.work.as_ref().is_some_and(|work| work.stays);
        match report {
            // It was guarded before anything was started.
            Ok(Some(KeeperReport::Guarded(_))) => {}
            Ok(Some(KeeperReport::Awake)) => {
                if let Some(work) = self.work.as_mut().filter(|work| work.stays && !work.is_being_ended()) {
                    work.opens_until = None;
                    if let Some(talk) = &mut work.talk {
                        talk.say_prompt();
                        talk.flush();
                    }
                }
            }
            Ok(Some(KeeperReport::Rested(leftovers))) => {
                if is_at_work {
                    self.work_ended(KeptEnd { code: None, signal: None, leftovers });
                }
            }
            Ok(Some(KeeperReport::Ended(end))) => {
                self.resident = None;
                if is_at_work {
                    self.work_ended(end);
                }
            }
            Ok(Some(KeeperReport::NotStarted(errno))) => {
                self.resident = None;
                if is_at_work {
                    self.work_not_started(errno);
                }
            }
            Ok(None) | Err(_) => self.resident_lost()?,
        }
        Ok(())
    }

    /// Its keeper was killed: what it kept came to this supervisor and is ended here.
    fn resident_lost(&mut self) -> Result<(), SuperviseError> {
        let Some(mut resident) = self.resident.take() else { return Ok(()) };
        let mut spared = self.children.identities();
        spared.push(identity::of(self.keeper.pid()));
        resident.keeper.sweep_after_loss(&spared);
        if self.work.as_ref().is_some_and(|work| work.stays) {
            let signal = Some(rustix::process::Signal::KILL.as_raw());
            self.work_ended(KeptEnd { code: None, signal, leftovers: 0 });
        }
        Ok(())
    }

    /// Ends what runs. An agent that stays is asked to leave its turn first, and ended only if it does not.
    pub(super) fn stop_work(&mut self, grace: Millis) {
        let Some(work) = &mut self.work else { return };
        if work.stays && !grace.is_zero() {
            if work.is_resting || work.cancel_until.is_some() {
                return;
            }
            if let Some(talk) = work.talk.as_mut().filter(|talk| talk.conversation.is_in_turn()) {
                let cancel = talk.conversation.cancel();
                talk.outbox.extend(cancel);
                talk.flush();
                work.cancel_until = Some(Instant::now() + grace.std());
                return;
            }
        }
        self.stop_process(grace);
    }

    /// Ends the process that runs, whichever keeper has it.
    pub(super) fn stop_process(&mut self, grace: Millis) {
        let Some(work) = &mut self.work else { return };
        work.cancel_until = None;
        let keeper = match &mut self.resident {
            Some(resident) if work.stays => &mut resident.keeper,
            _ => &mut self.keeper,
        };
        let _ = keeper.stop(grace);
    }
}
