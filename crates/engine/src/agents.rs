//! The agents on this machine: where they are, which version, signed in or not, and whether one answers.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Instant,
};

use dacapo_core::{
    agent::{
        AgentCommand, AgentCommandError, EnvironmentRule, Format, PromptDelivery, SignIn, agent_environment,
        gate_environment,
        transcript::{OutputEvent, Transcript},
    },
    duration::Millis,
};

use crate::{
    home::Home,
    process::{Answered, KeptCommand, ProgramError, Programs, ask_once, run_once},
    proof::fresh_id,
    scratch::Scratch,
};

/// How long an agent may take to say its version; some start slowly.
const VERSION_TIMEOUT: Millis = Millis::from_secs(20);
/// How long an agent may take to answer.
pub const PROBE_TIMEOUT: Millis = Millis::from_secs(120);
/// Time for an agent to end when it is told to.
const GRACE: Millis = Millis::from_secs(2);
/// What an agent is asked to see whether it answers.
pub const PROBE: &str = "Answer with the single word READY and do nothing else.";

/// Whether an agent is signed in, as far as that can be told without asking its provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedIn {
    /// By a variable of the environment.
    Variable(&'static str),
    /// By a file of its own.
    File(PathBuf),
    /// Neither is there. Settings of the agent may hold a key all the same.
    NotFound,
    /// It is not known where it keeps that.
    Unknown,
}

/// Whether the user is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What each of these says when it is asked for its version, all at the same time: some need seconds to start.
pub fn versions(home: &Home, programs: &[Option<PathBuf>]) -> Vec<Option<String>> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = programs
            .iter()
            .map(|program| program.as_ref().map(|program| scope.spawn(move || version(home, program))))
            .collect();
        asked.into_iter().map(|asking| asking.and_then(|asking| asking.join().ok().flatten())).collect()
    })
}

/// What `program --version` says: the first line in which there is a digit.
fn version(home: &Home, program: &Path) -> Option<String> {
    let command = KeptCommand {
        program: program.to_owned(),
        args: vec!["--version".into()],
        // No program needs a key to print its version.
        env: gate_environment(&std::env::vars_os().collect::<Vec<_>>(), &[]),
        dir: std::env::temp_dir(),
        grace: GRACE,
    };
    let ran = run_once(&fresh_id().ok()?, home, &command, VERSION_TIMEOUT).ok()?;
    if ran.exit_code != 0 {
        return None;
    }
    let text = dacapo_core::text::ansi::readable(&ran.tail);
    let line = text.lines().map(str::trim).find(|line| line.bytes().any(|b| b.is_ascii_digit()))?;
    Some(line.chars().take(60).collect())
}

/// Whether `agent` is signed in. No file is read and no request is made.
pub fn signed_in(agent: &str) -> SignedIn {
    signed_in_with(agent, |name| std::env::var_os(name))
}

/// The same, for an agent that finds this in its environment.
pub(crate) fn signed_in_with(agent: &str, variable: impl Fn(&str) -> Option<OsString>) -> SignedIn {
    let Some(known) = SignIn::of(agent) else { return SignedIn::Unknown };
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = known.variables.iter().find(|name| is_set(name)) {
        return SignedIn::Variable(name);
    }
    if known.file.is_empty() {
        return SignedIn::Unknown;
    }
    let Some(folder) = agent_folder(agent, variable) else { return SignedIn::Unknown };
    let file = folder.join(known.file);
    match fs::metadata(&file) {
        Ok(found) if found.is_file() && found.len() > 2 => SignedIn::File(file),
        _ => SignedIn::NotFound,
    }
}

/// The folder in which `agent` keeps its own files, if it is known.
pub(crate) fn agent_folder(agent: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let (name, below_home) = SignIn::of(agent)?.folder;
    match variable(name).filter(|_| !name.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(PathBuf::from(variable("HOME")?).join(below_home)),
    }
}

/// Why an agent could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Command(#[from] AgentCommandError),
    #[error("cannot run it: {0}")]
    Io(#[from] io::Error),
}

/// What came of asking an agent.
#[derive(Clone, Debug)]
pub struct Probed {
    pub argv: Vec<String>,
    /// How it ended and what it said.
    pub answered: Answered,
    pub duration: Millis,
}

/// Asks `agent` one tiny question, in an empty folder that is gone afterwards.
pub fn probe(
    home: &Home,
    agent: &AgentCommand,
    programs: &mut Programs,
    rule: EnvironmentRule,
) -> Result<Probed, ProbeError> {
    ask(home, agent, programs, rule, PROBE)
}

/// Asks `agent` something that it can answer by itself, in an empty folder that is gone afterwards.
pub fn ask(
    home: &Home,
    agent: &AgentCommand,
    programs: &mut Programs,
    rule: EnvironmentRule,
    question: &str,
) -> Result<Probed, ProbeError> {
    let program = programs.find(agent.argv.first().map(String::as_str).unwrap_or_default())?;
    let scratch = Scratch::new("dacapo-probe")?;
    scratch.write("prompt.md", question)?;
    let file = scratch.path().join("prompt.md");
    let argv = agent.argv(question, &file.to_string_lossy(), None)?;
    let folder = scratch.path().join("workspace");
    crate::home::make_dir(&folder)?;
    let command = KeptCommand {
        program,
        args: argv.iter().skip(1).map(Into::into).collect(),
        env: agent_environment(&std::env::vars_os().collect::<Vec<_>>(), rule, &agent.env, &[]),
        dir: folder,
        grace: GRACE,
    };
    let input = if agent.prompt == PromptDelivery::Stdin { question } else { "" };
    let since = Instant::now();
    let answered = ask_once(&fresh_id()?, home, &command, input, PROBE_TIMEOUT)?;
    let duration = Millis(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
    Ok(Probed { argv, answered, duration })
}

/// What an agent that was asked wrote itself, as its format has it.
pub fn answer(format: Format, stdout: &[u8]) -> String {
    if format == Format::Text {
        return dacapo_core::text::ansi::readable(stdout);
    }
    let mut words = String::new();
    let mut heard = |event: OutputEvent<'_>| {
        if let OutputEvent::Message(text) = event {
            words.push_str(text);
            words.push('\n');
        }
    };
    let mut transcript = Transcript::new(format);
    transcript.push(stdout, &mut heard);
    transcript.finish(&mut heard);
    words
}
