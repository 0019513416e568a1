//! The job of one step, as a process of its own: the supervisor of its loop, or a script in a keeper.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use dacapo_core::{
    agent::gate_environment,
    duration::Millis,
    event::{Grant, Reason},
    ids::{LoopId, ProjectId, RunId, TaskId},
    plan::Purpose,
    policy::Policy,
    sandbox::SandboxRules,
    text::ansi::readable,
};
use serde::{Deserialize, Serialize};

use crate::{
    guard::{GuardedFolder, WorktreeIsOn},
    home::Home,
    process::{KeptCommand, Programs, ask_in},
    scheduler::{
        JobReporter,
        message::{JobFailure, JobMessage},
    },
    secrets::secrets,
    store::{LockError, StoreError, TaskLock},
    supervisor::{self, NewLoop, ResumeLoop, SCRIPT_GRACE, StartError, SuperviseError, script_mark},
};

/// What the job of a step has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StepSpec {
    pub(crate) home: PathBuf,
    /// The process that performs the run.
    pub(crate) performer: u32,
    pub(crate) run: RunId,
    pub(crate) project: ProjectId,
    pub(crate) workspace: PathBuf,
    pub(crate) work: StepWork,
    pub(crate) programs: Programs,
    pub(crate) is_detached: bool,
    /// Whether what agents print is shown while they print it.
    pub(crate) is_watched: bool,
}

/// What runs for a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepWork {
    Begin {
        policy: Box<Policy>,
        prompt: String,
        task: TaskId,
        purpose: Purpose,
        /// What a person has said while no agent worked.
        steers: Vec<String>,
        /// The filters of git when the run began.
        #[serde(default)]
        filters: Option<Vec<(String, String)>>,
    },
    GoOn {
        id: LoopId,
        grant: Grant,
    },
    Script {
        text: String,
        environment: BTreeMap<String, String>,
        timeout: Millis,
        sandbox: SandboxRules,
    },
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScriptReport {
    pub(crate) exit_code: i32,
    /// Why there is no exit code, in words.
    pub(crate) failure: Option<String>,
    pub(crate) is_timed_out: bool,
    /// What it printed on its standard output.
    pub(crate) stdout: String,
    /// The end of what it printed on standard error.
    pub(crate) stderr: String,
}

/// Does what the spec says, and tells the performer how it went. What a loop has done stands in the journal.
pub(crate) fn work(spec: StepSpec, voice: JobReporter) {
    let home = Home::at(&spec.home);
    let mut voice = voice.for_performer(spec.is_watched);
    let failed = match spec.work.clone() {
        StepWork::Begin { policy, prompt, task, purpose, steers, filters } => {
            let new = NewLoop {
                policy: *policy,
                prompt: Some(prompt),
                project: spec.project.clone(),
                task: Some(task),
                workspace: spec.workspace.clone(),
                after: Vec::new(),
                parent: None,
                run: Some(spec.run.clone()),
                purpose: Some(purpose),
                base: None,
                filters,
                programs: spec.programs.clone(),
                steers,
                is_detached: spec.is_detached,
            };
            begin(&home, new, &mut voice).err().map(|error| why(&error))
        }
        StepWork::GoOn { id, grant } => {
            let wanted =
                ResumeLoop { id, grant, programs: spec.programs.clone(), is_detached: spec.is_detached };
            supervisor::resume(&home, wanted, &mut voice).err().map(|error| why(&error))
        }
        StepWork::Script { text, environment, timeout, sandbox } => {
            let lock = wait_for_folder(&home, &spec.workspace, &mut voice);
            let run = |_lock| script(&home, &spec, &sandbox, &text, environment, timeout, &mut voice);
            match lock.and_then(run) {
                Ok(report) => {
                    voice.say(&JobMessage::Script(report));
                    None
                }
                Err(error) => Some(JobFailure::new(error.to_string(), Reason::Error)),
            }
        }
    };
    if let Some(failure) = failed {
        voice.say(&JobMessage::Failed(failure));
    }
}

/// Why a loop did not begin, or could not be brought to an end.
fn why(error: &StartError) -> JobFailure {
    let mut repeats = false;
    let reason = match error {
        // The prompt and the agent are what the workflow and the user's first command make of them.
        StartError::Prompt(_) => {
            repeats = true;
            Reason::Agent
        }
        StartError::TaskHeld { .. } | StartError::WorkspaceHeld { .. } => Reason::Lock,
        StartError::Store(StoreError::Disk { .. })
        | StartError::Supervise(SuperviseError::Store(StoreError::Disk { .. })) => Reason::Disk,
        StartError::Io { source, .. } | StartError::Supervise(SuperviseError::Io { source, .. })
            if source.kind() == std::io::ErrorKind::StorageFull =>
        {
            Reason::Disk
        }
        _ => Reason::Error,
    };
    JobFailure { detail: error.to_string(), reason, repeats }
}

fn begin(home: &Home, new: NewLoop, voice: &mut JobReporter) -> Result<(), StartError> {
    supervisor::run(home, new.check()?, voice).map(drop)
}

/// How often a folder that a script of another run works in is asked for again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Two scripts never work in one folder at a time, whichever runs they belong to. The kernel takes the lock back when this process ends.
fn wait_for_folder(home: &Home, folder: &Path, voice: &mut JobReporter) -> std::io::Result<TaskLock> {
    let path = home.lock_of_folder(&folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
    let mut is_told = false;
    loop {
        match TaskLock::take(&path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Io { source, .. }) => return Err(source),
            Err(LockError::Held) => {}
        }
        if !std::mem::replace(&mut is_told, true) {
            voice.say(&JobMessage::Output("waits: a script of another run works in this folder".to_owned()));
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

fn script(
    home: &Home,
    spec: &StepSpec,
    sandbox: &SandboxRules,
    text: &str,
    environment: BTreeMap<String, String>,
    timeout: Millis,
    voice: &mut JobReporter,
) -> std::io::Result<ScriptReport> {
    let mark = script_mark(&spec.run)?;
    let own = [
        ("DACAPO_LOOP", mark.as_str().as_ref()),
        ("DACAPO_PROJECT", spec.project.as_str().as_ref()),
        ("DACAPO_RUN", spec.run.as_str().as_ref()),
        ("DACAPO_HOME", home.path().as_os_str()),
    ];
    let mut env: Vec<(OsString, OsString)> = gate_environment(&std::env::vars_os().collect::<Vec<_>>(), &own);
    env.retain(|(name, _)| name.to_str().is_none_or(|name| !environment.contains_key(name)));
    env.extend(environment.into_iter().map(|(name, value)| (name.into(), value.into())));
    let command = KeptCommand {
        program: "/bin/sh".into(),
        args: ["-c", text].map(Into::into).into(),
        env,
        dir: spec.workspace.clone(),
        grace: SCRIPT_GRACE,
    };
    // A worktree that dacapo made for a step is at a commit.
    let mut guarded = GuardedFolder::new(home, sandbox, &spec.workspace, WorktreeIsOn::NoBranch, true)?;
    let (keeper, held) = guarded.keeper(&mark)?;
    voice.say(&JobMessage::Sandbox(held));
    let ran = ask_in(keeper, &command, "", timeout);
    for told in guarded.leave() {
        voice.say(&JobMessage::Output(format!("a script or a person: {told}")));
    }
    let ran = ran?;
    let words = |bytes: &[u8]| secrets().redact(&readable(bytes)).into_owned();
    Ok(ScriptReport {
        exit_code: ran.exit_code,
        failure: ran.failure,
        is_timed_out: ran.timed_out,
        stdout: words(&ran.stdout),
        stderr: words(&ran.stderr),
    })
}
