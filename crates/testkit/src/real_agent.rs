//! The agents as their makers ship them, made ready to talk to a scripted model and to no other server.

use std::{
    env, fmt,
    fs::{self, File},
    io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::json;

use crate::{Output, Running, TestEnv, model_server::ModelServer};

/// Slow ones take ten seconds to start, more on a busy machine.
const HARD_TIMEOUT: Duration = Duration::from_secs(120);

/// An agent that `scripts/install-agents` installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealAgent {
    Claude,
    Codex,
    Gemini,
    /// OpenCode; only with `--more`.
    Opencode,
    /// Qwen Code; only with `--more`.
    Qwen,
    /// Copilot CLI; only with `--more`.
    Copilot,
    /// pi; only with `--more`.
    Pi,
}

/// An agent with its configuration in one test's home and its program on that test's `PATH`.
#[derive(Clone, Debug)]
pub struct PreparedAgent {
    agent: RealAgent,
    program: PathBuf,
    variables: Vec<(String, String)>,
}

/// Why an agent cannot be used.
pub struct NotInstalled {
    agent: RealAgent,
    folder: PathBuf,
}

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, folder) = (self.agent.name(), self.folder.display());
        let flag = if self.agent.is_tested_always() { "" } else { " --more" };
        write!(f, "the real `{name}` is not in `{folder}`: run `scripts/install-agents{flag}` first")
    }
}

/// The same, so that an `unwrap` says what to do.
impl fmt::Debug for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotInstalled {}

/// Where `scripts/install-agents` puts them.
fn folder() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    repository.join(env::var_os("DACAPO_TEST_AGENTS").unwrap_or_else(|| "target/agents".into()))
}

impl RealAgent {
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
            Self::Pi => "pi",
        }
    }

    fn is_tested_always(self) -> bool {
        matches!(self, Self::Claude | Self::Codex | Self::Gemini)
    }

    /// The arguments for a run without questions that reads its prompt from standard input.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Claude => {
                &["-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"]
            }
            Self::Codex => {
                &["exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
            }
            Self::Gemini => &["-o", "stream-json", "--yolo", "-m", "gemini-2.5-pro"],
            Self::Opencode => &["run", "--format", "json"],
            Self::Qwen => &["--output-format", "stream-json", "--yolo"],
            Self::Copilot => &["--allow-all-tools", "--output-format", "json", "-s"],
            Self::Pi => &["--mode", "json", "--provider", "tests", "--model", "scripted-model"],
        }
    }

    /// The variable that holds its key.
    pub fn key_variable(self) -> &'static str {
        match self {
            Self::Claude => "ANTHROPIC_API_KEY",
            Self::Codex | Self::Opencode | Self::Qwen | Self::Pi => "OPENAI_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
            Self::Copilot => "COPILOT_PROVIDER_API_KEY",
        }
    }

    fn installed(self, name: &str) -> Result<PathBuf, NotInstalled> {
        let folder = folder();
        let found = folder.join(name).join("node_modules/.bin").join(name);
        match found.canonicalize() {
            Ok(_) if folder.join(name).join("installed").exists() => Ok(found),
            _ => Err(NotInstalled { agent: self, folder }),
        }
    }

    /// Configures the agent in the home of `env` to ask `server`, with a key that is none, and puts it first on `PATH`.
    ///
    /// It sends no telemetry, looks for no updates and hardly tries again after an error.
    pub fn prepare(self, env: &TestEnv, server: &ModelServer) -> Result<PreparedAgent, NotInstalled> {
        let program = self.installed(self.name())?;
        let link = env.root().join("bin").join(self.name());
        self.link(&program, &link, self == Self::Qwen)?;
        for (file, text) in self.files(&server.url()) {
            let file = env.home().join(file);
            fs::create_dir_all(file.parent().expect("it has a folder")).expect("the agent's folder");
            fs::write(file, text).expect("the agent's configuration can be written");
        }
        let mut variables = self.variables(&server.url());
        variables.push((self.key_variable(), "scripted-key".to_owned()));
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(PreparedAgent { agent: self, program: link, variables })
    }

    /// Puts what speaks the Agent Client Protocol for this agent on `PATH`, where that is another program.
    pub fn prepare_adapter(self, env: &TestEnv) -> Result<(), NotInstalled> {
        let (name, is_new) = match self {
            Self::Claude => ("claude-agent-acp", true),
            Self::Codex => ("codex-acp", false),
            _ => return Ok(()),
        };
        let program = self.installed(name)?;
        self.link(&program, &env.root().join("bin").join(name), is_new)
    }

    /// Puts `program` at the place `link`. Some do not run with the Node of two years ago, and get a newer one.
    fn link(self, program: &Path, link: &Path, needs_new_node: bool) -> Result<(), NotInstalled> {
        if needs_new_node {
            let node = self.installed("node")?;
            let launcher = format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", node.display(), program.display());
            fs::write(link, launcher).expect("the launcher can be written");
            fs::set_permissions(link, fs::Permissions::from_mode(0o755)).expect("permissions");
        } else if let Err(error) = symlink(program, link) {
            assert!(error.kind() == io::ErrorKind::AlreadyExists, "cannot link {}: {error}", link.display());
        }
        Ok(())
    }

    fn variables(self, url: &str) -> Vec<(&'static str, String)> {
        let on = || "1".to_owned();
        match self {
            Self::Claude => vec![
                ("ANTHROPIC_BASE_URL", url.to_owned()),
                ("DISABLE_AUTOUPDATER", on()),
                ("DISABLE_TELEMETRY", on()),
                ("DISABLE_ERROR_REPORTING", on()),
            ],
            Self::Codex => Vec::new(),
            Self::Gemini => vec![("GOOGLE_GEMINI_BASE_URL", url.to_owned())],
            Self::Opencode => vec![
                // It installs a library for plugins, though there are none, from npm's registry.
                ("npm_config_registry", url.to_owned()),
                ("OPENCODE_DISABLE_AUTOUPDATE", on()),
                ("OPENCODE_DISABLE_MODELS_FETCH", on()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", on()),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", on()),
            ],
            Self::Qwen => {
                vec![("OPENAI_BASE_URL", format!("{url}/v1")), ("OPENAI_MODEL", "scripted-model".to_owned())]
            }
            Self::Copilot => vec![
                ("COPILOT_PROVIDER_BASE_URL", format!("{url}/v1")),
                ("COPILOT_PROVIDER_TYPE", "openai".to_owned()),
                ("COPILOT_MODEL", "scripted-model".to_owned()),
                ("COPILOT_OFFLINE", "true".to_owned()),
                ("COPILOT_AUTO_UPDATE", "false".to_owned()),
            ],
            Self::Pi => vec![("PI_OFFLINE", on()), ("PI_SKIP_VERSION_CHECK", on())],
        }
    }

    /// Configuration, by its place in the home.
    fn files(self, url: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::Claude => vec![(CLAUDE_SETTINGS, claude_settings(None))],
            Self::Codex => vec![(".codex/config.toml", codex_config(url))],
            Self::Gemini => vec![(".gemini/settings.json", gemini_settings("gemini-api-key"))],
            Self::Opencode => vec![(".config/opencode/opencode.json", opencode_config(url))],
            Self::Qwen => vec![(".qwen/settings.json", qwen_settings())],
            Self::Copilot => Vec::new(),
            Self::Pi => vec![(".pi/agent/models.json", pi_models(url))],
        }
    }
}

const CLAUDE_SETTINGS: &str = ".claude/settings.json";

/// `CLAUDE_CODE_…` in an environment marks an agent inside another and may be taken away; from here it is not.
fn claude_settings(token: Option<&str>) -> String {
    let mut variables =
        json!({"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "1"});
    if let Some(token) = token {
        variables["CLAUDE_CODE_OAUTH_TOKEN"] = token.into();
    }
    json!({"env": variables}).to_string()
}

fn codex_config(url: &str) -> String {
    format!(
        r#"model = "gpt-5-codex"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
plugins = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"#
    )
}

fn gemini_settings(auth: &str) -> String {
    json!({
        "general": {"enableAutoUpdate": false, "maxAttempts": 1},
        "privacy": {"usageStatisticsEnabled": false},
        "security": {"auth": {"selectedType": auth}},
    })
    .to_string()
}

/// Those of Gemini, which it comes from. What it would remember it asks with tools, as if it were the agent's work.
fn qwen_settings() -> String {
    let mut settings: serde_json::Value =
        serde_json::from_str(&gemini_settings("openai")).expect("it was JSON a moment ago");
    settings["memory"] =
        json!({"enableManagedAutoMemory": false, "enableManagedAutoDream": false, "enableAutoSkill": false});
    settings.to_string()
}

fn opencode_config(url: &str) -> String {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible", "name": "scripted",
        "options": {"baseURL": format!("{url}/v1"), "apiKey": "{env:OPENAI_API_KEY}"},
        "models": {"scripted-model": {"name": "scripted", "cost": {"input": 1, "output": 2}}},
    });
    json!({
        "provider": {"scripted": provider}, "model": "scripted/scripted-model", "autoupdate": false,
        "share": "disabled", "permission": "allow",
    })
    .to_string()
}

fn pi_models(url: &str) -> String {
    let provider = json!({
        "baseUrl": format!("{url}/v1"), "api": "openai-completions", "apiKey": "OPENAI_API_KEY",
        "models": [{"id": "scripted-model", "name": "scripted", "contextWindow": 200_000}],
    });
    json!({"providers": {"tests": provider}}).to_string()
}

impl PreparedAgent {
    /// Sets another variable, or one to another value.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Signs Claude in as a subscriber instead of by a key: only then does it understand a usage limit as one.
    pub fn with_subscription(mut self, env: &TestEnv) -> Self {
        assert_eq!(self.agent, RealAgent::Claude, "the others know no difference");
        // A file of credentials would do as well, but makes it ask its maker about the account.
        let settings = claude_settings(Some("sk-ant-oat01-scripted"));
        fs::write(env.home().join(CLAUDE_SETTINGS), settings).expect("the settings can be written");
        self.variables.retain(|(name, _)| name != self.agent.key_variable());
        self
    }

    /// Gives a command what the agent needs in its environment, for instance dacapo, which passes it on.
    pub fn give_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)))
    }

    /// The agent alone, without dacapo, with its arguments for a run without questions.
    pub fn command(&self, env: &TestEnv) -> Command {
        let mut command = env.command(&self.program);
        command.args(self.agent.arguments());
        // Claude does not run like this as root, unless it is told that nothing can come of it.
        command.env("IS_SANDBOX", "1");
        // Nor does Gemini in a folder that its user has not trusted before.
        command.env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        self.give_to(&mut command);
        command
    }

    /// Runs the agent alone to its end with a prompt on its standard input.
    #[track_caller]
    pub fn run(&self, env: &TestEnv, prompt: &str) -> Output {
        let mut command = self.command(env);
        command.stdin(prompt_input(env, prompt));
        Running::start(command).wait(HARD_TIMEOUT)
    }
}

/// A standard input that is the prompt and then ends.
fn prompt_input(env: &TestEnv, prompt: &str) -> Stdio {
    let file = env.root().join("prompt");
    fs::write(&file, prompt).expect("the prompt can be written");
    File::open(file).expect("the prompt can be read").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_is_missing_names_the_command_that_installs_it() {
        for (agent, text) in [
            (RealAgent::Codex, "the real `codex` is not in `/agents`: run `scripts/install-agents` first"),
            (RealAgent::Pi, "the real `pi` is not in `/agents`: run `scripts/install-agents --more` first"),
        ] {
            assert_eq!(format!("{:?}", NotInstalled { agent, folder: "/agents".into() }), text);
        }
    }
}
