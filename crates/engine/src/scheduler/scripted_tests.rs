//! The scheduler with jobs that run in memory, from a script: no process, no agent.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process::Command,
    rc::Rc,
};

use dacapo_core::{
    agent::AgentCommand, event::RunEnvelope, judge::promise::PromiseRule, policy::Policy,
    unit::settings::RunSettings,
};
use rustix::event::{EventfdFlags, eventfd};

use super::{
    host::{JobExit, JobOutput},
    message::BadMessage,
    *,
};
use crate::units;

/// What a scripted job does next.
#[derive(Clone, Debug)]
enum Line {
    Says(JobMessage),
    /// Says this, as bytes on its standard output would be read.
    Prints(&'static str),
    /// Says nothing more until it is stopped or killed.
    Hangs,
}

/// A host whose jobs follow a script per unit, a list of lines per job.
#[derive(Default)]
struct ScriptedHost {
    scripts: BTreeMap<UnitId, VecDeque<Vec<Line>>>,
    /// Everything that was done to jobs, in order.
    log: Rc<RefCell<Vec<String>>>,
}

impl ScriptedHost {
    fn with(mut self, unit: &str, jobs: &[&[Line]]) -> Self {
        self.scripts.insert(unit.parse().unwrap(), jobs.iter().map(|job| job.to_vec()).collect());
        self
    }
}

impl JobHost for ScriptedHost {
    fn start(&mut self, spec: JobSpec) -> io::Result<Box<dyn RunningJob>> {
        let unit = spec.unit.id;
        let job = match spec.job {
            Job::Work { .. } => "work",
            Job::Merge => "merge",
            Job::Publish => "publish",
        };
        self.log.borrow_mut().push(format!("{unit}: {job}"));
        let script = self.scripts.get_mut(&unit).and_then(VecDeque::pop_front);
        let script = script.ok_or_else(|| io::Error::other("there is no script"))?;
        Ok(Box::new(ScriptedJob {
            unit,
            script: RefCell::new(script.into()),
            log: Rc::clone(&self.log),
            // Always readable: it is asked again and again.
            fd: eventfd(1, EventfdFlags::CLOEXEC).unwrap(),
        }))
    }

    fn kill_leftovers(&mut self) {
        self.log.borrow_mut().push("leftovers are killed".to_owned());
    }

    fn end_leftovers(&mut self, _: &[Identity], _: Duration) {
        self.log.borrow_mut().push("leftovers are awaited".to_owned());
    }
}

struct ScriptedJob {
    unit: UnitId,
    script: RefCell<VecDeque<Line>>,
    log: Rc<RefCell<Vec<String>>>,
    fd: OwnedFd,
}

impl RunningJob for ScriptedJob {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn read(&mut self) -> JobOutput {
        let script = self.script.get_mut();
        let message = match script.front().cloned() {
            None => return JobOutput { messages: Vec::new(), is_over: true },
            Some(Line::Hangs) => return JobOutput::default(),
            Some(Line::Says(message)) => Ok(message),
            Some(Line::Prints(line)) => {
                Err(BadMessage::Malformed { line: line.to_owned(), why: "expected value".to_owned() })
            }
        };
        script.pop_front();
        JobOutput { messages: vec![message], is_over: false }
    }

    fn signal(&self, signal: JobSignal) {
        self.log.borrow_mut().push(format!("{}: {signal:?}", self.unit));
        self.script.borrow_mut().retain(|line| !matches!(line, Line::Hangs));
    }

    fn finish(self: Box<Self>) -> JobExit {
        self.log.borrow_mut().push(format!("{}: finished", self.unit));
        JobExit { is_lost: false, how: "exit status: 0".to_owned() }
    }
}

/// Keeps what a run records.
#[derive(Default)]
struct Recorded(Vec<(Option<String>, RunEvent)>);

impl Observer<RunMachine> for Recorded {
    fn event(&mut self, envelope: &RunEnvelope, _: &dacapo_core::view::RunView) {
        self.0.push((envelope.unit.as_ref().map(ToString::to_string), envelope.event.clone()));
    }
}

/// Runs units, each with one task, in a throw-away repository on `host`.
fn run(host: &mut ScriptedHost, names: &[&str]) -> (RunFinished, Vec<(Option<String>, RunEvent)>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("repository");
    for name in names {
        let folder = root.join("specs/tasks").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("IMPLEMENTATION_PLAN.md"), format!("---\nunit: {name}\n---\n")).unwrap();
        let task = "---\ntask: 1\nstatus: pending\nbackpressure: \"true\"\ndepends_on: []\n---\n# One\n";
        fs::write(folder.join("01-one.md"), task).unwrap();
    }
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["add", "-A"],
        &["-c", "user.name=u", "-c", "user.email=u@example.org", "commit", "-qm", "first"],
    ] {
        let status = Command::new("git").arg("-C").arg(&root).args(args).status().unwrap();
        assert!(status.success(), "{args:?}");
    }
    let home = Home::at(dir.path().canonicalize().unwrap().join("home"));
    let policy =
        Policy::restart(AgentCommand::parse("agent", &[]).unwrap(), PromiseRule::new("DONE").unwrap());
    let new = NewRun {
        project: "p".parse().unwrap(),
        units: units::discover(&root, "specs/tasks").unwrap().units,
        root,
        target: "main".to_owned(),
        merge: MergeMode::Merge,
        parallel: 2,
        settings: RunSettings::new(policy),
        programs: Default::default(),
        goes_on_with: None,
        is_detached: false,
    };
    let mut recorded = Recorded::default();
    let finished = run_on(host, &home, new, &mut recorded).unwrap();
    (finished, recorded.0)
}

fn says(event: RunEvent) -> Line {
    Line::Says(JobMessage::Event(event))
}

fn completed() -> Line {
    says(RunEvent::UnitCompleted { commit: "c".to_owned() })
}

fn merged() -> Line {
    says(RunEvent::UnitMerged { target: "main".to_owned(), commit: "m".to_owned(), left_on: None })
}

#[test]
fn units_are_worked_on_and_merged_by_the_jobs_of_a_host() {
    let mut host = ScriptedHost::default().with("a", &[&[completed()], &[merged()]]);
    let (finished, _) = run(&mut host, &["a"]);
    assert_eq!((finished.over.exit_code, finished.over.detail.as_str()), (0, "1 unit merged"));
    assert_eq!(*host.log.borrow(), ["a: work", "a: finished", "a: merge", "a: finished"]);
}

#[test]
fn a_job_that_prints_nonsense_ends_its_unit_and_no_other() {
    let mut host = ScriptedHost::default()
        .with(
            "a",
            &[&[Line::Prints("npm WARN deprecated"), Line::Prints("and more"), Line::Hangs, completed()]],
        )
        .with("b", &[&[completed()], &[merged()]]);
    let (finished, recorded) = run(&mut host, &["a", "b"]);
    let said =
        "its job printed a line that is no message of dacapo's: `npm WARN deprecated` (expected value)";
    assert_eq!(finished.over.detail, format!("a: {said}"));
    assert_eq!(finished.over.exit_code, 1);
    let of_a: Vec<&RunEvent> = recorded
        .iter()
        .filter(|(unit, event)| unit.as_deref() == Some("a") && !matches!(event, RunEvent::UnitQueued { .. }))
        .map(|(_, event)| event)
        .collect();
    let failed = RunEvent::UnitFailed { reason: UnitEnd::Error, detail: said.to_owned(), loop_id: None };
    assert_eq!(of_a, [&RunEvent::UnitStarted { slot: 1 }, &failed, &RunEvent::UnitJobEnded]);
    let log = host.log.borrow();
    assert_eq!(log.iter().filter(|line| *line == "a: Stop").count(), 1, "{log:?}");
    assert!(recorded.iter().any(|(unit, event)| {
        unit.as_deref() == Some("b") && matches!(event, RunEvent::UnitMerged { .. })
    }));
}

#[test]
fn a_job_that_cannot_be_started_is_the_end_of_its_unit() {
    let mut host = ScriptedHost::default();
    let (finished, _) = run(&mut host, &["a"]);
    assert_eq!(finished.over.detail, "a: cannot start a job: there is no script");
}
