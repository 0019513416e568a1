//! Which agents there are for this user, and the exact command of one of them.

use super::{AgentSection, Effective, SettingSource, Sourced};
use crate::{
    agent::{
        AgentCommand,
        catalog::{self, AcpDefinition, AgentDefinition, AgentDefinitionError, AgentOptions, Permissions},
    },
    text::nearest::nearest,
};

/// Why a name does not lead to a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("there is no agent `{name}`; {}", match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("known: {}", known.join(", ")),
    })]
    Unknown {
        name: String,
        /// What was most likely meant.
        nearest: Option<String>,
        known: Vec<String>,
    },
    #[error(transparent)]
    Option(#[from] AgentDefinitionError),
}

impl Effective {
    /// The names of all agents: those that are built in, then the user's own.
    pub fn agent_names(&self) -> Vec<String> {
        let mut names: Vec<String> = catalog::builtin().iter().map(|agent| agent.name.to_owned()).collect();
        for Sourced { value, .. } in &self.agents {
            if !names.contains(&value.name) {
                names.push(value.name.clone());
            }
        }
        names
    }

    /// The agent called `name`: as it is built in, with what the user changes, or the user's own.
    pub fn agent_definition(&self, name: &str) -> Result<AgentDefinition, ChoiceError> {
        let built_in = catalog::find(name);
        let changes = self.agent_settings(name);
        match (built_in, changes) {
            (None, None) => {
                let known = self.agent_names();
                let names: Vec<&str> = known.iter().map(String::as_str).collect();
                let nearest = nearest(name, &names).map(str::to_owned);
                Err(ChoiceError::Unknown { name: name.to_owned(), nearest, known })
            }
            (Some(agent), None) => Ok(agent.clone()),
            (built_in, Some(changes)) => {
                Ok(changed(built_in.cloned().unwrap_or_else(|| plain(name)), changes))
            }
        }
    }

    /// The command of the agent called `name`; the turns and the word about root are taken from the files.
    pub fn agent_command(&self, name: &str, options: AgentOptions) -> Result<AgentCommand, ChoiceError> {
        let settings = self.agent_settings(name);
        let of_files = settings.and_then(|settings| settings.allow_root).or_else(|| {
            let is_said = self.allow_root.from != SettingSource::Default;
            is_said.then_some(self.allow_root.value)
        });
        let options = AgentOptions {
            max_turns: options.max_turns.or(settings.and_then(|settings| settings.max_turns)),
            allow_root: options.allow_root || of_files.unwrap_or(options.has_root_env),
            permissions: match settings.and_then(|settings| settings.permissions.clone()) {
                Some(arguments) => Permissions::Arguments(arguments),
                None if self.unattended.value => Permissions::Unattended,
                None => Permissions::OwnSettings,
            },
            ..options
        };
        Ok(self.agent_definition(name)?.command(&options)?)
    }

    fn agent_settings(&self, name: &str) -> Option<&AgentSection> {
        self.agents.iter().map(|agent| &agent.value).find(|agent| agent.name == name)
    }
}

/// An agent of which nothing is known but its name.
fn plain(name: &str) -> AgentDefinition {
    AgentDefinition {
        name: name.to_owned(),
        by_argument: vec!["{prompt}".to_owned()],
        ..AgentDefinition::default()
    }
}

fn changed(mut agent: AgentDefinition, changes: &AgentSection) -> AgentDefinition {
    // The rest are options: they are chosen again for each loop.
    let AgentSection { command, acp, opening_timeout, prompt, output, resume, model, env, provider, .. } =
        changes.clone();
    agent.command = command.unwrap_or(agent.command);
    if let Some(command) = acp {
        agent.acp = Some(AcpDefinition { command, ..agent.acp.unwrap_or_default() });
    }
    if let (Some(acp), Some(_)) = (&mut agent.acp, opening_timeout) {
        acp.opening_timeout = opening_timeout;
    }
    agent.prompt = prompt.or(agent.prompt);
    agent.format = output.unwrap_or(agent.format);
    agent.resume = resume.unwrap_or(agent.resume);
    agent.model = model.unwrap_or(agent.model);
    agent.env.extend(env);
    agent.provider = provider.unwrap_or(agent.provider);
    agent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Format, PromptDelivery, catalog::Transport};
    use crate::config::{Author, Config, Typed, parse, resolve};
    use crate::duration::Millis;

    fn effective(users: &str) -> Effective {
        let users = parse("user", users.as_bytes(), Author::User).unwrap();
        resolve(&users, &Config::default(), &Typed::default())
    }

    fn command(users: &str, name: &str, options: AgentOptions) -> Result<AgentCommand, String> {
        effective(users).agent_command(name, options).map_err(|error| error.to_string())
    }

    #[test]
    fn an_agent_is_built_in_changed_or_the_user_s_own() {
        // req 21, req 22
        let claude = |extra: &str| {
            format!("claude --output-format stream-json --verbose --dangerously-skip-permissions {extra}")
        };
        for (users, name, expected) in [
            ("", "claude", claude("{resume} -p")),
            ("agents: {claude: {max_turns: 9}}", "claude", claude("--max-turns 9 {resume} -p")),
            ("agents: {claude: {prompt: argv}}", "claude", claude("{resume} -p {prompt}")),
            (
                "permissions: {unattended: false}",
                "claude",
                "claude --output-format stream-json --verbose {resume} -p".to_owned(),
            ),
            (
                "agents: {claude: {permissions: [--permission-mode, acceptEdits]}}",
                "claude",
                "claude --output-format stream-json --verbose --permission-mode acceptEdits {resume} -p"
                    .to_owned(),
            ),
            (
                "agents: {claude: {command: [my-claude, -x]}}",
                "claude",
                "my-claude -x --dangerously-skip-permissions {resume} -p".to_owned(),
            ),
            ("agents: {mine: {command: [m, '{prompt_file}']}}", "mine", "m {prompt_file}".to_owned()),
            ("agents: {mine: {command: [m], prompt: argv}}", "mine", "m {prompt}".to_owned()),
        ] {
            let argv = command(users, name, AgentOptions::default()).unwrap().argv;
            assert_eq!(argv.join(" "), expected, "{users} {name}");
        }
        let mine = command(
            "agents: {mine: {command: [m], output: codex, resume: [-r, '{session}'], model: ['-m{model}'], env: {A: b}}}",
            "mine",
            AgentOptions { model: Some("big".to_owned()), extra: vec!["-v".to_owned()], ..AgentOptions::default() },
        )
        .unwrap();
        assert_eq!(
            mine,
            AgentCommand {
                name: "mine".to_owned(),
                argv: ["m", "-mbig", "{resume}", "-v"].map(str::to_owned).into(),
                prompt: PromptDelivery::Stdin,
                format: Format::Codex,
                resume: ["-r", "{session}"].map(str::to_owned).into(),
                env: [("A".to_owned(), "b".to_owned())].into(),
                provider: "mine".to_owned(),
                model: Some("big".to_owned()),
                acp: None,
            }
        );
    }

    #[test]
    fn how_long_an_agent_that_stays_may_take_to_open_its_session_can_be_set() {
        let timeout = |users: &str, name: &str| {
            let options = AgentOptions { transport: Transport::Acp, ..AgentOptions::default() };
            command(users, name, options).unwrap().acp.unwrap().opening_timeout
        };
        assert_eq!(timeout("", "codex"), Millis::from_mins(3));
        assert_eq!(timeout("agents: {codex: {opening_timeout: 20s}}", "codex"), Millis(20_000));
        let mine = "agents: {mine: {command: [m], opening_timeout: 10m, acp: [m, --acp]}}";
        assert_eq!(timeout(mine, "mine"), Millis::from_mins(10));
    }

    #[test]
    fn what_cannot_be_started_says_why() {
        let named = |model: &str| AgentOptions { model: Some(model.to_owned()), ..AgentOptions::default() };
        for (users, name, options, expected) in [
            ("", "claud", AgentOptions::default(), "there is no agent `claud`; did you mean `claude`?"),
            (
                "agents: {mine: {command: [m]}}",
                "nobody-knows-this",
                AgentOptions::default(),
                "there is no agent `nobody-knows-this`; known: claude, codex, gemini, opencode, qwen, copilot, pi, mine",
            ),
            ("agents: {mine: {command: [m]}}", "mine", named("x"), "mine cannot be told which model to use"),
            (
                "agents: {codex: {max_turns: 3}}",
                "codex",
                AgentOptions::default(),
                "codex cannot be told how many turns to take",
            ),
        ] {
            assert_eq!(command(users, name, options).unwrap_err(), expected, "{users}");
        }
    }

    #[test]
    fn as_root_claude_needs_the_user_s_word() {
        let root = || AgentOptions { is_root: true, ..AgentOptions::default() };
        let sandbox =
            |command: Result<AgentCommand, String>| command.map(|c| c.env.contains_key("IS_SANDBOX"));
        assert!(sandbox(command("", "claude", root())).is_err());
        assert_eq!(sandbox(command("", "codex", root())), Ok(false));
        assert_eq!(sandbox(command("permissions: {allow_root: true}", "claude", root())), Ok(true));
        assert_eq!(sandbox(command("agents: {claude: {allow_root: true}}", "claude", root())), Ok(true));
        assert_eq!(sandbox(command("permissions: {unattended: false}", "claude", root())), Ok(false));
        // The narrower word holds.
        let text = "permissions: {allow_root: true}\nagents: {claude: {allow_root: false}}";
        assert!(sandbox(command(text, "claude", root())).is_err());
        // What the CLI itself takes for consent is consent here too, unless the user's files say no.
        let in_sandbox = || AgentOptions { has_root_env: true, ..root() };
        assert_eq!(sandbox(command("", "claude", in_sandbox())), Ok(true));
        assert!(sandbox(command("permissions: {allow_root: false}", "claude", in_sandbox())).is_err());
        assert!(sandbox(command("agents: {claude: {allow_root: false}}", "claude", in_sandbox())).is_err());
        assert_eq!(
            sandbox(command("permissions: {allow_root: true}", "claude", AgentOptions::default())),
            Ok(false)
        );
    }
}
