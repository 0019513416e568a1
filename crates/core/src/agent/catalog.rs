//! Agents by name: what is started, with which arguments, and what is known about the CLI.

use std::collections::BTreeMap;

use super::{
    builtin,
    command::{AgentCommand, Format, PromptDelivery},
};
use crate::{
    event::Outcome,
    text::{
        nearest::nearest,
        visible::{is_deceptive, visible},
    },
    yaml::short,
};

/// The agents that are tried in this order when the user names none: the first that is installed is used.
pub const PREFERRED: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// An agent's CLI as data. The built-in ones and those of the user's configuration are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentDefinition {
    pub name: String,
    /// The program and its arguments. `{unattended}`, `{model}`, `{max_turns}`, `{resume}`, `{extra}` and `{deliver}`
    /// stand where those go, each an argument by itself; one that is missing goes last, in this order.
    pub command: Vec<String>,
    /// Lets the agent work without asking the user for permissions.
    pub unattended: Vec<String>,
    /// Chooses a model, `{model}`.
    pub model: Vec<String>,
    /// Continues a session, `{session}`.
    pub resume: Vec<String>,
    /// Limits its turns, `{max_turns}`; empty where it cannot be told.
    pub max_turns: Vec<String>,
    /// Goes with a prompt on standard input.
    pub by_stdin: Vec<String>,
    /// Goes with a prompt as an argument, `{prompt}`; empty where there is no such way.
    pub by_argument: Vec<String>,
    /// The arguments that carry the prompt unless the user chooses another way; none means standard input.
    pub prompt: Option<PromptDelivery>,
    pub format: Format,
    pub env: BTreeMap<String, String>,
    /// Variables that let it work unattended as root; it refuses to without them.
    pub root_env: BTreeMap<String, String>,
    pub provider: String,
    pub install: String,
    /// Signs in, in words with the command in them.
    pub sign_in: String,
    /// The model it uses unless told otherwise, where that is known.
    pub default_model: Option<String>,
}

/// When a CLI reports what it has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageReporting {
    Streams,
    /// Once, when it has finished.
    AtEnd,
    Never,
}

impl UsageReporting {
    /// When a CLI that prints this reports it.
    pub fn of(format: Format) -> Self {
        match format {
            Format::Claude | Format::Opencode | Format::Qwen | Format::Pi => Self::Streams,
            Format::Codex | Format::Gemini => Self::AtEnd,
            Format::Copilot | Format::Text => Self::Never,
        }
    }
}

/// What a user wants of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentOptions {
    pub model: Option<String>,
    /// Its turns, at most.
    pub max_turns: Option<u32>,
    /// Arguments for the CLI itself.
    pub extra: Vec<String>,
    /// How the prompt goes, unless as the agent has it.
    pub prompt_by: Option<PromptDelivery>,
    /// The user says that root may run it unattended.
    pub allow_root: bool,
    /// The user's own environment already holds every variable that lets this agent work as root. That is consent, unless
    /// the user's configuration says no.
    pub has_root_env: bool,
    /// It will run as root.
    pub is_root: bool,
    /// What it may do without asking.
    pub permissions: Permissions,
}

/// What an agent may do without asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    /// Everything, because no person is there to answer a question of the agent.
    #[default]
    Unattended,
    /// What its own settings say.
    OwnSettings,
    Arguments(Vec<String>),
}

/// Why an agent cannot be started as wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentDefinitionError {
    #[error("{agent} does not work unattended as root")]
    Root { agent: String },
    #[error("{agent} cannot be told how many turns to take")]
    NoMaxTurns { agent: String },
    #[error("{agent} cannot be told which model to use")]
    NoModel { agent: String },
    /// A model can be named by a repository, and some agents would take such a name for an option of theirs.
    #[error("`{shown}` is no name of a model: it begins with `-`, or is not one line of visible characters")]
    OddModel { shown: String },
    #[error("{agent} takes no prompt as an argument")]
    NoPromptArgument { agent: String },
    #[error("agent {agent} has no command")]
    NoCommand { agent: String },
}

impl AgentDefinitionError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Root { .. } => {
                "run dacapo as another user, or, if this machine is a sandbox, set `allow_root: true` under `permissions:` in your \
                 configuration or `IS_SANDBOX=1` in your environment"
            }
            Self::NoMaxTurns { .. } => "leave it out; `--iteration-timeout` ends a long iteration",
            Self::NoModel { .. } => "name it in the agent's own settings, or in its command",
            Self::OddModel { .. } => "write the model as the agent names it",
            Self::NoPromptArgument { .. } => "leave `prompt:` out; it goes by standard input then",
            Self::NoCommand { .. } => "`command:` is a list of the program and its arguments",
        }
    }

    /// Nothing about the configuration is wrong: a person has to agree.
    pub fn needs_person(&self) -> bool {
        matches!(self, Self::Root { .. })
    }
}

/// The agents that need no configuration.
pub fn builtin() -> &'static [AgentDefinition] {
    builtin::all()
}

/// The built-in agent of this name.
pub fn find(name: &str) -> Option<&'static AgentDefinition> {
    builtin().iter().find(|agent| agent.name == name)
}

/// The name that was probably meant: one of the user's own, rather than a built-in one that is no nearer.
pub fn nearest_name<'a>(name: &str, defined: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let built_in = builtin().iter().map(|agent| agent.name.as_str());
    let known: Vec<&str> = defined.into_iter().chain(built_in).collect();
    nearest(name, &known)
}

impl AgentDefinition {
    /// The program that is started.
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// When it reports what it has used.
    pub fn usage(&self) -> UsageReporting {
        UsageReporting::of(self.format)
    }

    /// The command to run after an end like this, in words.
    pub fn remedy(&self, outcome: Outcome) -> Option<String> {
        let name = &self.name;
        match outcome {
            Outcome::Auth if !self.sign_in.is_empty() => Some(format!("sign in to {name}: {}", self.sign_in)),
            Outcome::Billing => Some(format!("the account behind {name} needs money or another plan")),
            Outcome::Permission => Some(format!(
                "{name} asks for permissions; `permissions: {{unattended: true}}` in your configuration stops that"
            )),
            _ => None,
        }
    }

    /// What is started for a user who wants this.
    pub fn command(&self, options: &AgentOptions) -> Result<AgentCommand, AgentDefinitionError> {
        let agent = || self.name.clone();
        if self.program().trim().is_empty() {
            return Err(AgentDefinitionError::NoCommand { agent: agent() });
        }
        let is_unattended = options.permissions == Permissions::Unattended;
        let mut env = self.env.clone();
        if options.is_root && is_unattended && !self.root_env.is_empty() {
            if !options.allow_root {
                return Err(AgentDefinitionError::Root { agent: agent() });
            }
            env.extend(self.root_env.clone());
        }
        let model = options.model.as_deref();
        let is_odd = |model: &&str| {
            model.trim_start().starts_with('-') || model.chars().any(|c| c.is_control() || is_deceptive(c))
        };
        if let Some(model) = model.filter(is_odd) {
            return Err(AgentDefinitionError::OddModel { shown: short(&visible(model)) });
        }
        let model_args = self.filled(&self.model, "{model}", model);
        if model.is_some() && model_args.is_empty() {
            return Err(AgentDefinitionError::NoModel { agent: agent() });
        }
        let turns = options.max_turns.filter(|turns| *turns > 0).map(|turns| turns.to_string());
        let turn_args = self.filled(&self.max_turns, "{max_turns}", turns.as_deref());
        if turns.is_some() && turn_args.is_empty() {
            return Err(AgentDefinitionError::NoMaxTurns { agent: agent() });
        }
        let own = self.own_delivery();
        let prompt = own.or(options.prompt_by).or(self.prompt).unwrap_or(PromptDelivery::Stdin);
        let deliver = match prompt {
            _ if own.is_some() => &[][..],
            PromptDelivery::Argument if self.by_argument.is_empty() => {
                return Err(AgentDefinitionError::NoPromptArgument { agent: agent() });
            }
            PromptDelivery::Argument => &self.by_argument,
            PromptDelivery::Stdin | PromptDelivery::File => &self.by_stdin,
        };
        let resume = if self.resume.is_empty() { vec![] } else { vec!["{resume}".to_owned()] };
        let permissions = match &options.permissions {
            Permissions::Unattended => &self.unattended[..],
            Permissions::OwnSettings => &[],
            Permissions::Arguments(args) => args,
        };
        let places: [(&str, &[String]); 6] = [
            ("{unattended}", permissions),
            ("{model}", &model_args),
            ("{max_turns}", &turn_args),
            ("{resume}", &resume),
            ("{extra}", &options.extra),
            ("{deliver}", deliver),
        ];
        let missing = places.iter().filter(|(place, _)| !self.command.iter().any(|arg| arg == place));
        let template = self.command.iter().map(String::as_str).chain(missing.map(|(place, _)| *place));
        let argv = template.flat_map(|arg| match places.iter().find(|(place, _)| *place == arg) {
            Some((_, args)) => args.to_vec(),
            None => vec![arg.to_owned()],
        });
        Ok(AgentCommand {
            name: self.name.clone(),
            argv: argv.collect(),
            prompt: if prompt == PromptDelivery::File && own.is_none() {
                PromptDelivery::Stdin
            } else {
                prompt
            },
            format: self.format,
            resume: self.resume.clone(),
            env,
            provider: if self.provider.is_empty() { self.name.clone() } else { self.provider.clone() },
            model: options.model.clone().or_else(|| self.default_model.clone()),
        })
    }

    /// Where the command itself says how the prompt goes.
    fn own_delivery(&self) -> Option<PromptDelivery> {
        let has = |placeholder| self.command.iter().skip(1).any(|arg| arg.contains(placeholder));
        if has("{prompt_file}") {
            Some(PromptDelivery::File)
        } else {
            has("{prompt}").then_some(PromptDelivery::Argument)
        }
    }

    fn filled(&self, args: &[String], placeholder: &str, value: Option<&str>) -> Vec<String> {
        value.map_or_else(Vec::new, |value| args.iter().map(|arg| arg.replace(placeholder, value)).collect())
    }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
