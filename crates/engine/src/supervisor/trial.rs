//! The gates before the first agent: each is tried in a throw-away checkout, beside the first agent if it takes long; then again with
//! must-fail tests, if it runs tests.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use dacapo_core::{
    duration::Millis,
    event::{GateResult, TriedGate},
    goalposts::{
        FailurePlace, MustFailSearch, MustFailTest, ReportReader, Runner, TestReport, ends_as_its_tests_do,
        use_of_checkout,
    },
    judge::{
        expectation::OutputSearch,
        gate_scripts::{named_files, programs_of},
        unknown_target::unknown_target,
    },
    loop_machine::Input,
    policy::{GateSpec, TestsMode},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
};
use sha2::{Digest, Sha256};

use super::{
    SuperviseError, Supervisor, is_folder_inside, observe, verdict::checkout_name, with_setup, work::hex,
};
use crate::{
    checkouts::{self, Removal},
    goalposts::{Stamp, rewritten},
    must_fail::MustFailFiles,
    process::{KeeperLink, KeeperReport, KeptCommand, find_program},
    proof::fresh_id,
    scratch::Scratch,
    secrets::secrets,
    snapshots::CheckoutBeside,
};

/// How long the first agent waits.
const AGENT_WAITS: Duration = Duration::from_secs(2);
/// How long one gate may take.
const LONGEST: Duration = Duration::from_secs(30);
/// What is tried is thrown away: it gets no time to end by itself.
const GRACE: Millis = Millis(100);
/// How often a gate is tried with must-fail tests. One that stops at the first failure notices those of one program at a time.
const MUST_FAIL_RUNS: u32 = 3;

/// The gates that are being tried.
pub(super) struct Trial {
    /// Files that are still being laid out; no gate runs before.
    laying_out: Option<CheckoutBeside>,
    keeper: KeeperLink,
    checkout: Scratch,
    must_fail_files: MustFailFiles,
    waiting: VecDeque<(usize, GateSpec)>,
    running: Option<TrialRun>,
    /// When the first agent starts all the same; `None` once it was told.
    agent_starts: Option<Instant>,
}

struct TrialRun {
    index: usize,
    spec: GateSpec,
    output: Option<OwnedFd>,
    report: ReportReader,
    search: OutputSearch,
    tail: Vec<u8>,
    digest: Sha256,
    since: Instant,
    is_stopped: bool,
    /// What the goalposts were when it began.
    stamps: HashMap<String, Option<Stamp>>,
    must_fail: Option<MustFailTrial>,
}

/// A gate that is tried with must-fail tests.
struct MustFailTrial {
    /// What it came to without them.
    tried: Box<TriedGate>,
    search: MustFailSearch,
    /// Tests that no run has noticed so far.
    waiting: Vec<MustFailTest>,
    /// What the newest run that noticed any has noticed. Of a gate that stops at the first failure these are the tests beside those
    /// that fail without them.
    noticed: Vec<MustFailTest>,
    runs: u32,
}

impl Trial {
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let output = self.running.as_ref().and_then(|run| run.output.as_ref()).map(AsFd::as_fd);
        let laid_out = self.laying_out.as_ref().map(CheckoutBeside::fd);
        self.keeper.fd().into_iter().chain(output).chain(laid_out)
    }

    /// Whether the files are there, or will not be.
    fn is_laid_out(&self) -> bool {
        self.laying_out.as_ref().is_some_and(|files| is_readable(files.fd()))
    }

    /// Ends what runs, and leaves the removal of the checkout to a thread.
    fn remove(self) -> Removal {
        let Self { laying_out, keeper, checkout, .. } = self;
        drop((laying_out, keeper));
        Removal::begin(checkout)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let longest = self.running.as_ref().filter(|run| !run.is_stopped).map(|run| run.since + LONGEST);
        [self.agent_starts, longest].into_iter().flatten().min()
    }

    fn read(&mut self) {
        let Some(run) = &mut self.running else { return };
        let Some(output) = &run.output else { return };
        let mut buffer = vec![0; 64 * 1024];
        for _ in 0..64 {
            match rustix::io::read(output, &mut buffer[..]) {
                Ok(0) => {
                    run.output = None;
                    return;
                }
                Ok(read) => {
                    let bytes = &buffer[..read];
                    run.report.push(bytes);
                    run.search.push(bytes);
                    if let Some(must_fail) = &mut run.must_fail {
                        must_fail.search.push(bytes);
                    }
                    run.digest.update(bytes);
                    observe::keep_tail(&mut run.tail, bytes);
                }
                Err(_) => return,
            }
        }
    }
}

impl Supervisor<'_> {
    /// Begins to try the gates. An error there does not keep the loop from beginning: then nothing is known of the gates.
    pub(super) fn try_gates(&mut self, gates: Vec<GateSpec>) -> Result<(), SuperviseError> {
        if self.trial.is_none() {
            match self.begin_trial(gates) {
                Ok(trial) => self.trial = trial,
                Err(error) => self.could_not_try(&error)?,
            }
        }
        // The first agent waits once, also if the loop was paused meanwhile.
        if self.trial.as_ref().is_none_or(|trial| trial.agent_starts.is_none()) {
            self.inbox.push_back(Input::TrialWaitOver.into());
        }
        Ok(())
    }

    fn begin_trial(&mut self, gates: Vec<GateSpec>) -> io::Result<Option<Trial>> {
        let started = self.started.clone();
        let (Some(base), Some(workspace)) = (&started.base, &self.workspace) else { return Ok(None) };
        let agent_starts = Some(Instant::now() + AGENT_WAITS);
        // By this name the next dacapo finds what a killed one has left.
        let mut guard = self.guard.clone();
        guard.give_checkouts(self.home, &checkouts::name_of_trial(&self.id));
        let checkout = checkouts::begin(guard.places.checkouts.as_deref(), &checkout_name(&self.id))?;
        let folder = checkout.path().join("files");
        let laying_out = workspace.begin_checkout(&base.snapshot, &folder).map_err(io::Error::other)?;
        let waiting = gates.into_iter().enumerate().filter(|(_, gate)| gate.ask.is_none()).collect();
        let (keeper, _) = guard.keeper(self.home, &fresh_id()?)?;
        Ok(Some(Trial {
            laying_out: Some(laying_out),
            keeper,
            checkout,
            must_fail_files: MustFailFiles::default(),
            waiting,
            running: None,
            agent_starts,
        }))
    }

    fn could_not_try(&mut self, error: &dyn std::error::Error) -> Result<(), SuperviseError> {
        self.notice(format!("the gates could not be tried before the first agent: {error}"))
    }

    /// Goes on when the files of the snapshot are there: with what else a checkout gets, and the first gate.
    fn files_are_there(&mut self) -> Result<(), SuperviseError> {
        let Some(trial) = &mut self.trial else { return Ok(()) };
        let Some(files) = trial.laying_out.take() else { return Ok(()) };
        if let Err(error) = files.end() {
            self.could_not_try(&error)?;
            self.end_trial();
            return Ok(());
        }
        if let (Some(extras), Some(workspace)) = (&self.extras, &self.workspace) {
            // They are copied as they are now, and the agent may have worked in them.
            if trial.agent_starts.is_none() && extras.holds_repositories() {
                self.end_trial();
                return Ok(());
            }
            if let Err(error) = extras.lay_out(workspace.root(), &trial.checkout.path().join("files")) {
                self.could_not_try(&error)?;
                self.end_trial();
                return Ok(());
            }
        }
        self.try_next()
    }

    /// Starts the next gate; after the last one, the first agent need not wait any more.
    fn try_next(&mut self) -> Result<(), SuperviseError> {
        loop {
            let Some(trial) = &mut self.trial else { return Ok(()) };
            let Some((index, spec)) = trial.waiting.pop_front() else {
                self.end_trial();
                return Ok(());
            };
            if let Err(error) = self.try_gate(index, spec, None) {
                let failure = Some(format!("could not be started: {error}"));
                let tried = TriedGate { exit_code: -1, failure, ..TriedGate::default() };
                self.inbox.push_back(Input::GateTried { index, tried: Box::new(tried) }.into());
                continue;
            }
            return Ok(());
        }
    }

    fn try_gate(&mut self, index: usize, spec: GateSpec, must_fail: Option<MustFailTrial>) -> io::Result<()> {
        let started = self.started.clone();
        let root = self.workspace.as_ref().map(|workspace| workspace.root().to_owned()).unwrap_or_default();
        let below = started.workspace.strip_prefix(&root).unwrap_or(Path::new("")).to_owned();
        let Some(trial) = &self.trial else { return Ok(()) };
        let dir = trial.checkout.path().join("files").join(below);
        is_folder_inside(&dir, &spec).map_err(io::Error::other)?;
        let folder = trial.checkout.path().join("files");
        let stamps = match &self.goalposts {
            Some(goalposts) if must_fail.is_none() => goalposts.stamps(&folder),
            _ => HashMap::new(),
        };
        let command = KeptCommand {
            program: "/bin/sh".into(),
            args: ["-c", &with_setup(&started.policy, &spec.script())].map(OsString::from).into(),
            env: self.gate_environment(0),
            dir,
            grace: GRACE,
        };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        let stdin = File::open("/dev/null")?;
        let Some(trial) = &mut self.trial else { return Ok(()) };
        trial.keeper.run(&command, [stdin.as_fd(), writer.as_fd(), writer.as_fd()])?;
        let search = OutputSearch::new(&spec.expect);
        trial.running = Some(TrialRun {
            stamps,
            index,
            spec,
            output: Some(reader),
            report: ReportReader::default(),
            search,
            tail: Vec::new(),
            digest: Sha256::new(),
            since: Instant::now(),
            is_stopped: false,
            must_fail,
        });
        Ok(())
    }

    /// Reads what the gate that is tried prints, and takes its end.
    pub(super) fn serve_trial(&mut self) -> Result<(), SuperviseError> {
        let Some(trial) = &mut self.trial else { return Ok(()) };
        if trial.is_laid_out() {
            return self.files_are_there();
        }
        trial.read();
        if !trial.keeper.fd().is_some_and(is_readable) {
            return Ok(());
        }
        match trial.keeper.receive() {
            Ok(Some(KeeperReport::Ended(end))) => {
                trial.read();
                self.gate_was_tried(end.code)?;
            }
            Ok(Some(KeeperReport::NotStarted(_))) => self.gate_was_tried(None)?,
            // What a keeper says of an agent that stays.
            Ok(Some(KeeperReport::Awake | KeeperReport::Rested(_) | KeeperReport::Guarded(_))) => {}
            // Nothing is known of the gates then.
            Ok(None) | Err(_) => self.end_trial(),
        }
        Ok(())
    }

    fn gate_was_tried(&mut self, code: Option<i32>) -> Result<(), SuperviseError> {
        let Some(run) = self.trial.as_mut().and_then(|trial| trial.running.take()) else { return Ok(()) };
        let TrialRun {
            index, spec, report, search, tail, digest, since, is_stopped, stamps, must_fail, ..
        } = run;
        let failure = is_stopped.then(|| format!("took longer than {}s", LONGEST.as_secs()));
        let exit_code = if is_stopped { -1 } else { code.unwrap_or(-1) };
        let passed = failure.is_none() && spec.expect.refusal(exit_code, search.found()).is_none();
        if let Some(must_fail) = must_fail {
            let is_red = !passed && failure.is_none();
            return self.must_fail_was_tried(index, spec, must_fail, report.finish().as_ref(), is_red);
        }
        let folder = self.trial.as_ref().map(|trial| trial.checkout.path().join("files"));
        let writes = folder.map(|folder| rewritten(&folder, &stamps)).unwrap_or_default();
        let tests = report.finish();
        let missing_program = self.missing_program(&spec, exit_code);
        let (lacks, runners) = self.known_of_checkouts(&spec);
        let checkout = use_of_checkout(passed, tests.as_ref(), is_stopped, &runners, !lacks.is_empty());
        let printed = observe::readable_tail(&tail);
        let is_broken = matches!(exit_code, 126 | 127) || !passed && unknown_target(&printed).is_some();
        let tried = TriedGate {
            exit_code,
            passed,
            duration_ms: Millis::from(since.elapsed()),
            failure,
            tests,
            notices: Vec::new(),
            fail_beside: BTreeSet::new(),
            writes,
            checkout,
            lacks: lacks.into_iter().take(5).collect(),
            missing_program,
            awaits_program: self.awaits_program(&spec),
            output_sha256: hex(digest),
            output_tail: if is_broken { secrets().redact(&printed).into_owned() } else { String::new() },
        };
        let tried = Box::new(tried);
        let tests = self.must_fail_tests_for(&spec, &tried, &runners);
        self.try_must_fail(index, spec, tried, tests, (Vec::new(), 0))
    }

    /// The must-fail tests that a gate is tried with: none if it runs no tests, cannot run, or may be red for another reason than
    /// the failure that it prints.
    fn must_fail_tests_for(
        &self,
        spec: &GateSpec,
        tried: &TriedGate,
        runners: &[Runner],
    ) -> Vec<MustFailTest> {
        let runs_tests = !runners.is_empty() || tried.tests.is_some();
        let has_run = tried.failure.is_none() && !matches!(tried.exit_code, 126 | 127);
        let is_clear = tried.passed || ends_as_its_tests_do(&spec.run);
        match &self.goalposts {
            Some(goalposts)
                if runs_tests
                    && has_run
                    && is_clear
                    && self.started.policy.gates.tests != TestsMode::Free =>
            {
                goalposts.must_fail_tests()
            }
            _ => Vec::new(),
        }
    }

    /// Tries a gate with `tests`, or tells what is known of it if there are none.
    fn try_must_fail(
        &mut self,
        index: usize,
        spec: GateSpec,
        mut tried: Box<TriedGate>,
        tests: Vec<MustFailTest>,
        (noticed, runs): (Vec<MustFailTest>, u32),
    ) -> Result<(), SuperviseError> {
        let Some(trial) = &mut self.trial else { return Ok(()) };
        let folder = trial.checkout.path().join("files");
        if !tests.is_empty() && runs < MUST_FAIL_RUNS {
            let put = trial.must_fail_files.put(&folder, &tests, FailurePlace::Early);
            let known = (tried.clone(), noticed.clone());
            let started = put.and_then(|search| {
                let must_fail = MustFailTrial { tried, search, waiting: tests, noticed, runs };
                self.try_gate(index, spec, Some(must_fail))
            });
            match started {
                Ok(()) => return Ok(()),
                Err(_) => (tried, tried.notices) = known,
            }
        } else {
            tried.notices = noticed;
        }
        if let Some(trial) = &mut self.trial {
            // The gates that follow run in the same checkout.
            if trial.must_fail_files.take_out(&folder).is_err() {
                trial.waiting.clear();
            }
        }
        self.inbox.push_back(Input::GateTried { index, tried }.into());
        self.try_next()
    }

    /// What the workspace holds and no checkout does, and the test runners that this gate starts.
    fn known_of_checkouts(&self, spec: &GateSpec) -> (Vec<String>, Vec<Runner>) {
        let lacks = self.extras.as_ref().map(|extras| extras.lacking.clone()).unwrap_or_default();
        let runners = self.gate_runners.iter().find(|(name, _)| *name == spec.name);
        (lacks, runners.map(|(_, runners)| runners.clone()).unwrap_or_default())
    }

    /// A gate that ran before the first agent because the user asked for it is not tried once more. It ran in the workspace: whether
    /// it works in a checkout is known as far as a checkout lacks nothing.
    pub(super) fn baseline_is_trial(&mut self, spec: &GateSpec, result: &GateResult) {
        let index = self.started.policy.gates.specs.iter().position(|known| known.name == spec.name);
        let Some(index) = index.filter(|_| self.started.policy.gates.probe && spec.ask.is_none()) else {
            return;
        };
        let (lacks, runners) = self.known_of_checkouts(spec);
        let tried = TriedGate {
            exit_code: result.exit_code,
            passed: result.passed,
            duration_ms: result.duration_ms,
            failure: result.failure.clone(),
            tests: result.tests.clone(),
            checkout: use_of_checkout(false, None, false, &runners, !lacks.is_empty()),
            lacks: lacks.into_iter().take(5).collect(),
            missing_program: result.missing_program.clone(),
            awaits_program: self.awaits_program(spec),
            output_sha256: result.output_sha256.clone(),
            output_tail: if matches!(result.exit_code, 126 | 127) {
                result.output_tail.clone()
            } else {
                String::new()
            },
            notices: Vec::new(),
            fail_beside: BTreeSet::new(),
            writes: result.disturbed.clone(),
        };
        self.inbox.push_back(Input::GateTried { index, tried: Box::new(tried) }.into());
    }

    fn must_fail_was_tried(
        &mut self,
        index: usize,
        spec: GateSpec,
        must_fail: MustFailTrial,
        report: Option<&TestReport>,
        is_red: bool,
    ) -> Result<(), SuperviseError> {
        let MustFailTrial { mut tried, search, mut waiting, noticed, runs } = must_fail;
        let run = search.finish(report);
        tried.fail_beside.extend(run.failed_beside(tried.tests.as_ref()));
        let found = run.noticed;
        if !is_red || found.is_empty() {
            return self.try_must_fail(index, spec, tried, Vec::new(), (noticed, runs));
        }
        waiting.retain(|test| !found.contains(test));
        self.try_must_fail(index, spec, tried, waiting, (found, runs + 1))
    }

    /// The program of a gate that exited 126 or 127 because it is neither on PATH nor a path in the workspace, which the agent
    /// may be about to write.
    pub(super) fn missing_program(&self, spec: &GateSpec, exit_code: i32) -> Option<String> {
        if !matches!(exit_code, 126 | 127) {
            return None;
        }
        let path = crate::inside::child::variable("PATH").unwrap_or_default();
        programs_of(&spec.run).into_iter().find(|program| {
            if program.contains('/') {
                let file = Path::new(program);
                return file.is_absolute() && !file.starts_with(&self.started.workspace) && !file.exists();
            }
            find_program(program, &path, Path::new("/")).is_err()
        })
    }

    /// Whether a program or a script that a gate names is a path in the workspace that is not there.
    fn awaits_program(&self, spec: &GateSpec) -> bool {
        named_files(&spec.script()).iter().any(|name| !self.started.workspace.join(name).exists())
    }

    pub(super) fn look_at_trial(&mut self, now: Instant) {
        let Some(trial) = &mut self.trial else { return };
        if trial.agent_starts.is_some_and(|at| at <= now) {
            trial.agent_starts = None;
            self.inbox.push_back(Input::TrialWaitOver.into());
        }
        if let Some(run) = trial.running.as_mut().filter(|run| !run.is_stopped && run.since + LONGEST <= now)
        {
            run.is_stopped = true;
            let _ = trial.keeper.stop(GRACE);
        }
    }

    /// Stops trying: what is not known by now is learnt from the gates of the first claim.
    pub(super) fn end_trial(&mut self) {
        let Some(trial) = self.trial.take() else { return };
        if trial.agent_starts.is_some() {
            self.inbox.push_back(Input::TrialWaitOver.into());
        }
        self.removal = Some(trial.remove());
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}
