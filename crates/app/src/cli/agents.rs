//! Which agent a loop gets: the one that was named, else the first that is installed.

use std::path::PathBuf;

use dacapo_core::{
    agent::{
        AgentCommand,
        catalog::{
            AgentDefinition, AgentDefinitionError, AgentOptions, PREFERRED, Transport, UsageReporting,
        },
    },
    config::{ChoiceError, Effective, SettingSource, Sourced},
};
use dacapo_engine::{
    agents::{self, is_root},
    process::Programs,
};

use crate::error::{NEEDS_PERSON, UserError};

/// The agent of a loop, and what stands in its way.
pub(super) struct Chosen {
    pub(super) command: AgentCommand,
    /// The flag, file or variable that names it.
    pub(super) from: SettingSource,
    /// Where to go when its provider is at its limit.
    pub(super) fallback: Vec<AgentCommand>,
    /// What `run` would say instead of starting it.
    pub(super) obstacle: Option<UserError>,
    /// What is left out, and why.
    pub(super) warnings: Vec<String>,
}

/// What the command line wants of agents, whichever they are.
#[derive(Clone, Copy, Default)]
pub(super) struct AgentFlags<'a> {
    pub(super) model: Option<&'a String>,
    pub(super) extra: &'a [String],
    pub(super) transport: Transport,
    /// Whether they are given dacapo's own tools.
    pub(super) tools: bool,
}

impl Chosen {
    /// The program of `--agent-cmd`. dacapo does not know how it is installed.
    pub(super) fn typed(
        line: &str,
        wanted: AgentFlags<'_>,
        programs: &mut Programs,
    ) -> Result<Self, UserError> {
        let mut command = AgentCommand::parse(line, wanted.extra).map_err(UserError::usage)?;
        match wanted.transport {
            Transport::Acp => command = command.over_acp(wanted.tools),
            Transport::Stdio if wanted.tools => {
                let error = AgentDefinitionError::NoTools { agent: command.name };
                return Err(UserError::usage(&error).hint(error.hint()));
            }
            Transport::Stdio => {}
        }
        // A path is meant from here, also when the user resumes the loop from another folder.
        if let Some(program) = command.argv.first_mut()
            && program.contains('/')
            && let Ok(here) = std::env::current_dir()
        {
            let absolute: PathBuf = here.join(&*program).components().collect();
            *program = absolute.to_string_lossy().into_owned();
        }
        let from = SettingSource::Flag("--agent-cmd");
        let obstacle = programs.find(program(&command)).err().map(UserError::from);
        Ok(Self { command, from, fallback: Vec::new(), obstacle, warnings: Vec::new() })
    }
}

/// The agent that was named on the command line or in a file, else the first that is installed.
pub(super) fn choose(
    effective: &Effective,
    wanted: AgentFlags<'_>,
    programs: &mut Programs,
) -> Result<Chosen, UserError> {
    let (name, from) = match &effective.agent {
        Sourced { value: Some(name), from } => (name.clone(), from.clone()),
        // Where none is installed it is the first that was looked for, with an obstacle in its way.
        Sourced { value: None, .. } => {
            let first = first_installed(effective, wanted.transport, programs).unwrap_or(PREFERRED[0]);
            (first.to_owned(), SettingSource::Default)
        }
    };
    let options = |allow_root| AgentOptions {
        model: wanted.model.cloned(),
        extra: wanted.extra.to_vec(),
        allow_root,
        ..options_here(effective, &name, wanted)
    };
    let definition = effective.agent_definition(&name).map_err(|error| named_by(&error, &from))?;
    let mut obstacle = None;
    let command = match effective.agent_command(&name, options(false)) {
        Err(error @ ChoiceError::Option(AgentDefinitionError::Root { .. })) => {
            obstacle = Some(as_root(&error));
            // The agent it would be, for `explain`, which starts nothing.
            effective.agent_command(&name, options(true))
        }
        other => other,
    }
    .map_err(|error| named_by(&error, &from))?;
    let (fallback, mut warnings) = fallback(effective, &command, wanted, programs);
    if let Err(error) = programs.find(program(&command)) {
        obstacle = Some(match effective.agent.value {
            None => {
                warnings.push(format!("no agent is installed; this shows how {name} would be started"));
                none_installed(&definition, wanted.transport)
            }
            Some(_) => missing(&error, &definition, wanted.transport),
        });
    }
    Ok(Chosen { command, from, fallback, obstacle, warnings })
}

/// What this process can tell about the machine that the agent called `name` would run on.
fn options_here(effective: &Effective, name: &str, wanted: AgentFlags<'_>) -> AgentOptions {
    let is_set = |(name, value): (&String, &String)| std::env::var(name).is_ok_and(|set| set == *value);
    let root_env = effective.agent_definition(name).map(|agent| agent.root_env).unwrap_or_default();
    let has_root_env = !root_env.is_empty() && root_env.iter().all(is_set);
    let AgentFlags { transport, tools, .. } = wanted;
    AgentOptions { is_root: is_root(), has_root_env, transport, tools, ..AgentOptions::default() }
}

/// The first of the agents that dacapo knows which is on PATH.
fn first_installed(
    effective: &Effective,
    transport: Transport,
    programs: &mut Programs,
) -> Option<&'static str> {
    PREFERRED.into_iter().find(|name| {
        let program = effective.agent_definition(name).ok().and_then(|agent| agent.program_of(transport));
        program.is_some_and(|program| programs.find(&program).is_ok())
    })
}

/// The error for a user who has no agent installed; `first` is the one that was looked for first.
fn none_installed(first: &AgentDefinition, transport: Transport) -> UserError {
    let looked_for = PREFERRED.join(", ");
    let what = match transport {
        Transport::Stdio => "no agent is installed",
        Transport::Acp => "no agent that speaks the Agent Client Protocol is installed",
    };
    UserError::environment(format!("{what}: looked for {looked_for} on PATH"))
        .hint(format!("`{}` installs one; `--agent-cmd CMD` takes any program", first.install_for(transport)))
}

/// The agents to go to; those that cannot be started are left out.
fn fallback(
    effective: &Effective,
    first: &AgentCommand,
    wanted: AgentFlags<'_>,
    programs: &mut Programs,
) -> (Vec<AgentCommand>, Vec<String>) {
    let (mut found, mut warnings) = (Vec::<AgentCommand>::new(), Vec::new());
    for name in &effective.fallback.value {
        if *name == first.name || found.iter().any(|agent| agent.name == *name) {
            continue;
        }
        let command = effective
            .agent_command(name, options_here(effective, name, wanted))
            .map_err(|error| error.to_string())
            .and_then(|command| match programs.find(program(&command)) {
                Ok(_) => Ok(command),
                Err(error) => Err(error.to_string()),
            });
        match command {
            Ok(command) => found.push(command),
            Err(why) => {
                warnings.push(format!("fallback `{name}` ({}) is left out: {why}", effective.fallback.from))
            }
        }
    }
    (found, warnings)
}

pub(super) fn program(command: &AgentCommand) -> &str {
    command.argv.first().map(String::as_str).unwrap_or_default()
}

/// Whether an agent says what it used, so that a budget can be held.
pub(super) fn reports_usage(command: &AgentCommand) -> bool {
    UsageReporting::of(command.format) != UsageReporting::Never
}

fn named_by(choice: &ChoiceError, from: &SettingSource) -> UserError {
    let error = match from {
        SettingSource::File { .. } | SettingSource::Variable(_) => {
            UserError::usage(format!("{choice} ({from})"))
        }
        _ => UserError::usage(choice),
    };
    match choice {
        ChoiceError::Unknown { .. } => {
            error.hint("`dacapo doctor` lists the agents; `--agent-cmd CMD` takes any program")
        }
        ChoiceError::Option(option) => error.hint(option.hint()),
    }
}

/// The error for a user who works as root.
pub(super) fn as_root(error: &ChoiceError) -> UserError {
    UserError { exit: NEEDS_PERSON, ..UserError::usage(error) }.hint(
        "work as another user, or, if this machine is a sandbox, put `permissions: {allow_root: true}` into \
         ~/.config/dacapo/config.yaml or set IS_SANDBOX=1",
    )
}

/// The error for a user whose agent is not installed.
pub(super) fn missing(
    error: &dyn std::fmt::Display,
    definition: &AgentDefinition,
    transport: Transport,
) -> UserError {
    let install = definition.install_for(transport);
    let hint = if install.is_empty() {
        "see `agents` in ~/.config/dacapo/config.yaml".to_owned()
    } else {
        format!("`{install}` installs it")
    };
    UserError::environment(error).hint(format!("{hint}; `dacapo doctor` lists the agents found"))
}

/// What `init` and `doctor` tell about an agent.
#[derive(serde::Serialize)]
pub(super) struct AgentFinding {
    pub(super) name: String,
    /// Where its program is; null where it is not installed.
    pub(super) path: Option<PathBuf>,
    pub(super) version: Option<String>,
    /// Null where that cannot be told.
    pub(super) signed_in: Option<bool>,
    /// The variable or file that says so.
    pub(super) by: Option<String>,
    /// The command that installs it.
    pub(super) install: Option<String>,
    pub(super) sign_in: Option<String>,
}

impl AgentFinding {
    /// Every agent there could be, in the order of the catalogue.
    pub(super) fn all(cx: &crate::context::Context, effective: &Effective) -> Vec<Self> {
        let definitions: Vec<AgentDefinition> =
            effective.agent_names().iter().filter_map(|name| effective.agent_definition(name).ok()).collect();
        let mut programs = Programs::default();
        let paths: Vec<Option<PathBuf>> =
            definitions.iter().map(|agent| programs.find(agent.program()).ok()).collect();
        let versions = agents::versions(&cx.home, &paths);
        let rest = paths.into_iter().zip(versions);
        definitions
            .into_iter()
            .zip(rest)
            .map(|(agent, (path, version))| Self::of(agent, path, version))
            .collect()
    }

    fn of(agent: AgentDefinition, path: Option<PathBuf>, version: Option<String>) -> Self {
        let (signed_in, by) = match agents::signed_in(&agent.name) {
            agents::SignedIn::Variable(name) => (Some(true), Some(name.to_owned())),
            agents::SignedIn::File(file) => (Some(true), Some(file.display().to_string())),
            agents::SignedIn::NotFound => (Some(false), None),
            agents::SignedIn::Unknown => (None, None),
        };
        let [install, sign_in] =
            [agent.install, agent.sign_in].map(|line| Some(line).filter(|line| !line.is_empty()));
        Self { name: agent.name, path, version, signed_in, by, install, sign_in }
    }

    /// For people, in one line.
    pub(super) fn words(&self) -> String {
        let mut words = self.name.clone();
        if let Some(version) = &self.version {
            // Most say their name themselves.
            let own = version.strip_prefix(&self.name).filter(|rest| rest.starts_with(' '));
            words.push_str(&format!(" {}", own.unwrap_or(version).trim_start()));
        }
        match (self.signed_in, &self.by) {
            (Some(true), Some(by)) => words.push_str(&format!(", signed in by {by}")),
            (Some(false), _) => words.push_str(", not signed in as far as can be told"),
            _ => {}
        }
        words
    }
}
