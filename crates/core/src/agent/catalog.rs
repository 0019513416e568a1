//! Agents by name: what is started, with which arguments, and what is known about the CLI.

use std::collections::BTreeMap;

use super::{
    acp::{AcpSettings, AcpUsage},
    builtin,
    command::{AgentCommand, Format, PromptDelivery},
    sign_in::SignInQuestion,
};
use crate::{
    duration::Millis,
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
    /// How it is asked whether it is signed in, where it can be.
    pub sign_in_question: Option<SignInQuestion>,
    /// The model it uses unless told otherwise, where that is known.
    pub default_model: Option<String>,
    /// Gives it dacapo's own tools, the server `dacapo mcp`; empty where it cannot be told so.
    pub tools: Vec<String>,
    /// How it is started to speak the Agent Client Protocol, where it can.
    pub acp: Option<AcpDefinition>,
}

/// An agent, or an adapter for one, that speaks the Agent Client Protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcpDefinition {
    /// The program and its arguments, with places for `{unattended}`, `{model}` and `{extra}`; one that is missing goes last.
    pub command: Vec<String>,
    /// Lets it work without asking. What it asks all the same is answered by the same rule.
    pub unattended: Vec<String>,
    /// Arguments that choose a model, `{model}`.
    pub model: Vec<String>,
    /// The variable that chooses a model, where no argument does.
    pub model_variable: Option<String>,
    pub usage: AcpUsage,
    /// Variables that it is given beside those of the agent.
    pub env: BTreeMap<String, String>,
    /// The command that installs it, where it is not the agent itself.
    pub install: String,
    /// How long it may take to have a session ready, where that is set.
    pub opening_timeout: Option<Millis>,
}

/// How an agent is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// It is started for each prompt, reads it, and prints.
    #[default]
    Stdio,
    /// It stays for the whole loop and speaks the Agent Client Protocol.
    Acp,
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
            Format::Acp(AcpUsage::Turn | AcpUsage::Session) => Self::AtEnd,
            Format::Copilot | Format::Text | Format::Acp(AcpUsage::Never) => Self::Never,
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
    pub transport: Transport,
    /// Whether it is given dacapo's own tools.
    pub tools: bool,
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
    #[error("{agent} does not speak the Agent Client Protocol, as far as dacapo knows")]
    NoAcp { agent: String },
    #[error("{agent} cannot be given tools on its command line")]
    NoTools { agent: String },
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
            Self::NoAcp { .. } => {
                "leave `--transport` out, or say how it is started with `agents.NAME.acp: [my-agent, --acp]` in your configuration"
            }
            Self::NoTools { .. } => {
                "add the server `dacapo mcp` to the agent's own settings, or use `--transport acp`"
            }
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

/// What an agent that is known by its name may do, in words; `None` for any other program.
pub fn permissions_of(command: &AgentCommand) -> Option<&'static str> {
    let words = &find(&command.name)?.unattended;
    let has_all = !words.is_empty() && words.iter().all(|word| command.argv.contains(word));
    let is_allowed = command.acp.as_ref().is_some_and(|acp| acp.allows);
    Some(if has_all || is_allowed { "all permissions" } else { "permissions by its own settings" })
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

    /// The program that is started to be spoken to like this, if it can be.
    pub fn program_of(&self, transport: Transport) -> Option<String> {
        match transport {
            Transport::Stdio => Some(self.program().to_owned()),
            Transport::Acp => self.acp.as_ref()?.command.first().cloned(),
        }
    }

    /// The command that installs what is started to be spoken to like this; empty where it is not known.
    pub fn install_for(&self, transport: Transport) -> &str {
        let adapter = self.acp.as_ref().filter(|acp| transport == Transport::Acp && !acp.install.is_empty());
        adapter.map_or(&self.install, |acp| &acp.install)
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
        if options.transport == Transport::Acp {
            return self.acp_command(options);
        }
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
        let model = sensible_model(options)?;
        let model_args = filled(&self.model, "{model}", model);
        if model.is_some() && model_args.is_empty() {
            return Err(AgentDefinitionError::NoModel { agent: agent() });
        }
        let turns = options.max_turns.filter(|turns| *turns > 0).map(|turns| turns.to_string());
        let turn_args = filled(&self.max_turns, "{max_turns}", turns.as_deref());
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
        if options.tools && self.tools.is_empty() {
            return Err(AgentDefinitionError::NoTools { agent: agent() });
        }
        let tools = if options.tools { &self.tools[..] } else { &[] };
        let extra: Vec<String> = tools.iter().chain(&options.extra).cloned().collect();
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
            ("{extra}", &extra),
            ("{deliver}", deliver),
        ];
        Ok(AgentCommand {
            name: self.name.clone(),
            argv: laid_out(&self.command, &places),
            prompt: if prompt == PromptDelivery::File && own.is_none() {
                PromptDelivery::Stdin
            } else {
                prompt
            },
            format: self.format,
            resume: self.resume.clone(),
            env,
            provider: self.provider(),
            model: options.model.clone().or_else(|| self.default_model.clone()),
            acp: None,
        })
    }

    /// The same for an agent that stays and speaks the Agent Client Protocol.
    fn acp_command(&self, options: &AgentOptions) -> Result<AgentCommand, AgentDefinitionError> {
        let agent = || self.name.clone();
        let Some(acp) = &self.acp else { return Err(AgentDefinitionError::NoAcp { agent: agent() }) };
        if acp.command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(AgentDefinitionError::NoCommand { agent: agent() });
        }
        if options.max_turns.is_some_and(|turns| turns > 0) {
            return Err(AgentDefinitionError::NoMaxTurns { agent: agent() });
        }
        let model = sensible_model(options)?;
        let mut env = self.env.clone();
        env.extend(acp.env.clone());
        let model_args = filled(&acp.model, "{model}", model);
        match (model, &acp.model_variable) {
            (Some(model), Some(variable)) => {
                env.insert(variable.clone(), model.to_owned());
            }
            (Some(_), None) if model_args.is_empty() => {
                return Err(AgentDefinitionError::NoModel { agent: agent() });
            }
            _ => {}
        }
        let permissions = match &options.permissions {
            Permissions::Unattended => &acp.unattended[..],
            Permissions::OwnSettings => &[],
            Permissions::Arguments(args) => args,
        };
        let places: [(&str, &[String]); 3] =
            [("{unattended}", permissions), ("{model}", &model_args), ("{extra}", &options.extra)];
        Ok(AgentCommand {
            name: self.name.clone(),
            argv: laid_out(&acp.command, &places),
            prompt: PromptDelivery::Stdin,
            format: Format::Acp(acp.usage),
            resume: Vec::new(),
            env,
            provider: self.provider(),
            model: options.model.clone().or_else(|| self.default_model.clone()),
            acp: Some(AcpSettings {
                allows: options.permissions == Permissions::Unattended,
                tools: options.tools,
                opening_timeout: acp.opening_timeout.unwrap_or(AcpSettings::OPENING_TIMEOUT),
            }),
        })
    }

    fn provider(&self) -> String {
        if self.provider.is_empty() { self.name.clone() } else { self.provider.clone() }
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
}

/// The model that was asked for. A repository can name it, so it must not pass for an option.
fn sensible_model(options: &AgentOptions) -> Result<Option<&str>, AgentDefinitionError> {
    let is_odd = |model: &&str| {
        model.trim_start().starts_with('-') || model.chars().any(|c| c.is_control() || is_deceptive(c))
    };
    match options.model.as_deref() {
        Some(model) if is_odd(&model) => {
            Err(AgentDefinitionError::OddModel { shown: short(&visible(model)) })
        }
        model => Ok(model),
    }
}

fn filled(args: &[String], placeholder: &str, value: Option<&str>) -> Vec<String> {
    value.map_or_else(Vec::new, |value| args.iter().map(|arg| arg.replace(placeholder, value)).collect())
}

/// `command` with arguments at their places; those that have none there go last.
fn laid_out(command: &[String], places: &[(&str, &[String])]) -> Vec<String> {
    let missing = places.iter().filter(|(place, _)| !command.iter().any(|arg| arg == place));
    let template = command.iter().map(String::as_str).chain(missing.map(|(place, _)| *place));
    let argv = template.flat_map(|arg| match places.iter().find(|(place, _)| *place == arg) {
        Some((_, args)) => args.to_vec(),
        None => vec![arg.to_owned()],
    });
    argv.collect()
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
