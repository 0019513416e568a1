//! The question to an agent whether it is signed in. It runs beside the preparations of a loop, so that the first agent waits for
//! the answer only as long as the agent takes to give it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dacapo_core::{
    agent::{SettingsPlace, SignInQuestion, agent_environment, catalog},
    duration::Millis,
    policy::Policy,
    text::ansi::readable,
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::{
    agents::{SignedIn, agent_folder, signed_in_with},
    home::Home,
    process::{KeeperLink, KeeperReport, KeptCommand},
    proof::fresh_id,
    scratch::Scratch,
};

/// How long the agent may take to answer; an answer that comes later is not waited for.
const LONGEST: Duration = Duration::from_secs(5);
/// What was asked is of no use any more: it gets no time to end by itself.
const GRACE: Millis = Millis(100);
/// How much of an answer is read.
const ANSWER: usize = 64 * 1024;
/// How much of a file with settings is read.
const SETTINGS: u64 = 1024 * 1024;

/// An agent that was asked whether it is signed in and has not answered yet.
pub(super) struct SignInCheck {
    keeper: KeeperLink,
    question: SignInQuestion,
    /// Standard output and standard error, until they are closed.
    outputs: [Option<OwnedFd>; 2],
    said: [Vec<u8>; 2],
    deadline: Instant,
    /// An empty folder that the agent is asked in: a version that takes the question for a prompt finds nothing to change.
    _folder: Scratch,
}

impl SignInCheck {
    /// Asks the agent of `policy`, if dacapo knows how and nothing says already that the agent is signed in. A key or a file with
    /// credentials is such a sign; that there is none proves nothing.
    pub(super) fn begin(
        home: &Home,
        policy: &Policy,
        programs: &[PathBuf],
        workspace: &Path,
        caller: &[(OsString, OsString)],
    ) -> Option<Self> {
        let (agent, program) = (&policy.agent.command, programs.first()?);
        let known = catalog::find(&agent.name)?;
        let question = known.sign_in_question.as_ref()?;
        // A user may start an agent of this name in a way of their own.
        let is_known = agent.acp.is_none() && program.file_name()? == known.program();
        if !is_known || question.is_moot(&agent.argv) {
            return None;
        }
        let env = agent_environment(caller, policy.agent.environment, &agent.env, &[]);
        let lookup = |name: &str| env.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        if matches!(signed_in_with(&agent.name, lookup), SignedIn::Variable(_) | SignedIn::File(_)) {
            return None;
        }
        let is_set_up = question.settings.iter().any(|settings| {
            let folder = match settings.place {
                SettingsPlace::Workspace => Some(workspace.to_owned()),
                SettingsPlace::AgentFolder => agent_folder(&agent.name, lookup),
            };
            let text = folder.and_then(|folder| beginning_of(&folder.join(settings.file)));
            text.is_some_and(|text| settings.words.iter().any(|word| text.contains(word)))
        });
        if is_set_up {
            return None;
        }
        let folder = Scratch::new("dacapo-sign-in").ok()?;
        let command = KeptCommand {
            program: program.clone(),
            args: question.args.iter().map(OsString::from).collect(),
            env,
            dir: folder.path().to_owned(),
            grace: GRACE,
        };
        // Without an answer the first attempt tells.
        Self::ask(home, question.clone(), &command, folder).ok()
    }

    fn ask(
        home: &Home,
        question: SignInQuestion,
        command: &KeptCommand,
        folder: Scratch,
    ) -> io::Result<Self> {
        let mut keeper = KeeperLink::start(&fresh_id()?, &home.database())?;
        let (stdout, out_writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, err_writer) = pipe_with(PipeFlags::CLOEXEC)?;
        for reader in [&stdout, &stderr] {
            rustix::io::ioctl_fionbio(reader, true)?;
        }
        let stdin = File::open("/dev/null")?;
        keeper.run(command, [stdin.as_fd(), out_writer.as_fd(), err_writer.as_fd()])?;
        let deadline = Instant::now() + LONGEST;
        let outputs = [Some(stdout), Some(stderr)];
        Ok(Self { keeper, question, outputs, said: Default::default(), deadline, _folder: folder })
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let outputs = self.outputs.iter().flatten().map(AsFd::as_fd);
        self.keeper.fd().into_iter().chain(outputs)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the question is over, and what the agent said if it says that it is not signed in.
    pub(super) fn look(&mut self, now: Instant) -> Option<Option<String>> {
        self.read();
        let is_ready = self.keeper.fd().is_some_and(|fd| {
            let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
            let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
        });
        if !is_ready {
            return (self.deadline <= now).then_some(None);
        }
        match self.keeper.receive() {
            Ok(Some(KeeperReport::Ended(end))) => {
                self.read();
                let [stdout, stderr] = self.said.each_ref().map(|said| readable(said));
                Some(end.code.and_then(|code| self.question.signed_out(code, &stdout, &stderr)))
            }
            Ok(Some(KeeperReport::Awake | KeeperReport::Rested(_) | KeeperReport::Guarded(_))) => None,
            Ok(Some(KeeperReport::NotStarted(_)) | None) | Err(_) => Some(None),
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 8 * 1024];
        for (output, said) in self.outputs.iter_mut().zip(&mut self.said) {
            // More than an answer is read no further: its end, or the time, ends the question.
            while let Some(reader) = output.as_ref().filter(|_| said.len() < ANSWER) {
                match rustix::io::read(reader, &mut buffer[..]) {
                    Ok(0) => *output = None,
                    Ok(read) => said.extend_from_slice(&buffer[..read]),
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => break,
                }
            }
            if said.len() >= ANSWER {
                *output = None;
            }
        }
    }
}

fn beginning_of(file: &Path) -> Option<String> {
    let mut text = Vec::new();
    // A link or a device in a workspace may lead anywhere.
    if !fs::symlink_metadata(file).ok()?.is_file() {
        return None;
    }
    io::Read::read_to_end(&mut io::Read::take(File::open(file).ok()?, SETTINGS), &mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
