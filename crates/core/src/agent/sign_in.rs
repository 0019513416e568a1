//! How each agent is signed in, as far as that can be told from outside, and how it is asked.

use sha2::{Digest, Sha256};

use super::{AgentCommand, environment::EnvironmentVariable, environment::is_provider_key};

/// Where an agent keeps or finds what it signs in with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignIn {
    pub agent: &'static str,
    /// Variables that sign it in.
    pub variables: &'static [&'static str],
    /// A variable that names the folder of `file`, if it is set, and that folder below the user's home otherwise.
    pub folder: (&'static str, &'static str),
    /// The file it keeps its credentials in; empty where it keeps them elsewhere.
    pub file: &'static str,
}

/// The agents whose ways are known.
const KNOWN: [SignIn; 7] = [
    SignIn {
        agent: "claude",
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
        ],
        folder: ("CLAUDE_CONFIG_DIR", ".claude"),
        file: ".credentials.json",
    },
    SignIn {
        agent: "codex",
        variables: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        folder: ("CODEX_HOME", ".codex"),
        file: "auth.json",
    },
    SignIn {
        agent: "gemini",
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
        folder: ("", ".gemini"),
        file: "oauth_creds.json",
    },
    SignIn {
        agent: "opencode",
        variables: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
        folder: ("XDG_DATA_HOME", ".local/share"),
        file: "opencode/auth.json",
    },
    SignIn {
        agent: "qwen",
        variables: &["OPENAI_API_KEY", "DASHSCOPE_API_KEY"],
        folder: ("", ".qwen"),
        file: "oauth_creds.json",
    },
    SignIn {
        agent: "copilot",
        variables: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"],
        folder: ("", ".copilot"),
        file: "",
    },
    SignIn {
        agent: "pi",
        variables: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"],
        folder: ("", ".pi/agent"),
        file: "auth.json",
    },
];

impl SignIn {
    /// How `agent` is signed in, if that is known.
    pub fn of(agent: &str) -> Option<&'static Self> {
        KNOWN.iter().find(|known| known.agent == agent)
    }
}

/// How an agent is asked whether it is signed in, and which answer says that it is not. Any other answer means that nothing is
/// known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInQuestion {
    /// The arguments that ask the agent's own program. They start no work and ask no model.
    pub args: Vec<String>,
    pub no: SignedOutAnswer,
    /// Arguments with which the agent may get its answers elsewhere, so that it needs no sign-in.
    pub other_ways: Vec<String>,
    /// Settings with which the agent may be signed in although it says that it is not.
    pub settings: Vec<SignInSettings>,
}

/// The answer of an agent that is not signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedOutAnswer {
    /// A JSON object whose field of this name is false.
    FalseField(&'static str),
    /// A line that says just this.
    Line(&'static str),
}

/// A file whose words may mean that an agent needs no sign-in of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignInSettings {
    pub place: SettingsPlace,
    pub file: &'static str,
    pub words: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsPlace {
    Workspace,
    /// The folder that the agent's own variable names, else the one below the user's home.
    AgentFolder,
}

impl SignInQuestion {
    /// What the agent said, in one line, if it says that it is not signed in.
    pub fn signed_out(&self, exit_code: i32, stdout: &str, stderr: &str) -> Option<String> {
        if exit_code == 0 {
            return None;
        }
        match &self.no {
            SignedOutAnswer::FalseField(name) => {
                let answer: serde_json::Value = serde_json::from_str(stdout.trim()).ok()?;
                (answer.get(name) == Some(&serde_json::Value::Bool(false))).then(|| format!("{name}: false"))
            }
            SignedOutAnswer::Line(words) => {
                let mut lines = stdout.lines().chain(stderr.lines()).map(str::trim);
                lines.find(|line| line == words).map(str::to_owned)
            }
        }
    }

    /// Whether the arguments of an agent leave it open whether it has to be signed in.
    pub fn is_moot(&self, argv: &[String]) -> bool {
        let names = |arg: &str, way: &str| {
            arg == way || arg.strip_prefix(way).is_some_and(|rest| rest.starts_with('='))
        };
        argv.iter().any(|arg| self.other_ways.iter().any(|way| names(arg, way)))
    }
}

/// The account that pays for what an agent asks, as a name that gives no key away: the provider, and a fingerprint of what the
/// agent would sign in with in its environment `env`. A limit belongs to the account that met it.
pub fn account_of(agent: &AgentCommand, env: &[EnvironmentVariable]) -> String {
    let known = SignIn::of(&agent.name);
    let counts = |name: &str| {
        name.ends_with("_BASE_URL")
            || match known {
                Some(known) => known.variables.contains(&name) || known.folder.0 == name || name == "HOME",
                None => is_provider_key(name) || name == "HOME",
            }
    };
    let mut found: Vec<(&str, &[u8])> = env
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value.as_encoded_bytes())))
        .filter(|(name, value)| counts(name) && !value.is_empty())
        .collect();
    found.sort_unstable();
    // A key outranks the files of the user's home, which are an account of their own only without one.
    if found.iter().any(|(name, _)| is_provider_key(name)) {
        found.retain(|(name, _)| *name != "HOME" && known.is_none_or(|known| known.folder.0 != *name));
    }
    let mut digest = Sha256::new();
    digest.update(b"dacapo account\0");
    for (name, value) in found {
        for part in [name.as_bytes(), value] {
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(part);
        }
    }
    let fingerprint: String = digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}#{fingerprint}", agent.provider)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::catalog::{AgentOptions, find};

    #[test]
    fn only_an_agent_that_says_so_itself_is_signed_out() {
        let claude = find("claude").and_then(|agent| agent.sign_in_question.as_ref()).unwrap();
        let codex = find("codex").and_then(|agent| agent.sign_in_question.as_ref()).unwrap();
        let no = r#"{"loggedIn": false, "authMethod": "none"}"#;
        for (question, code, stdout, stderr, expected) in [
            (claude, 1, no, "", Some("loggedIn: false")),
            (claude, 0, no, "", None),
            (claude, 1, r#"{"loggedIn": true}"#, "", None),
            (claude, 1, "error: unknown command", "", None),
            (claude, 1, "", "", None),
            (claude, -1, "{\"loggedIn\": fal", "", None),
            (codex, 1, "", "WARNING: no aliases\nNot logged in\n", Some("Not logged in")),
            (codex, 0, "", "Logged in using ChatGPT\n", None),
            (codex, 2, "", "error: unrecognized subcommand 'status'", None),
            (codex, 1, "", "Not logged in to the proxy", None),
        ] {
            let said = question.signed_out(code, stdout, stderr);
            assert_eq!(said.as_deref(), expected, "{code} {stdout} {stderr}");
        }
    }

    #[test]
    fn an_agent_that_is_told_to_ask_another_provider_need_not_be_signed_in() {
        let codex = find("codex").unwrap();
        let question = codex.sign_in_question.as_ref().unwrap();
        for (extra, expected) in [
            (vec![], false),
            (vec!["--oss"], true),
            (vec!["-c", "model_provider=mine"], true),
            (vec!["--profile=local"], true),
            (vec!["--color", "never"], false),
        ] {
            let extra = extra.into_iter().map(str::to_owned).collect();
            let command = codex.command(&AgentOptions { extra, ..AgentOptions::default() }).unwrap();
            assert_eq!(question.is_moot(&command.argv), expected, "{:?}", command.argv);
        }
    }

    #[test]
    fn an_account_is_known_by_what_signs_in_and_gives_no_key_away() {
        let claude = find("claude").unwrap().command(&AgentOptions::default()).unwrap();
        let other = AgentCommand { name: "mine".into(), ..claude.clone() };
        let account = |agent: &AgentCommand, env: &[(&str, &str)]| {
            let env: Vec<EnvironmentVariable> =
                env.iter().map(|(name, value)| (name.into(), value.into())).collect();
            account_of(agent, &env)
        };
        let one = account(&claude, &[("HOME", "/h"), ("ANTHROPIC_API_KEY", "key-one"), ("PATH", "/bin")]);
        assert!(one.starts_with("anthropic#") && !one.contains("key-one"), "{one}");
        for (env, is_same) in [
            (&[("HOME", "/h"), ("ANTHROPIC_API_KEY", "key-one")][..], true),
            (&[("HOME", "/other"), ("OPENAI_API_KEY", "x"), ("ANTHROPIC_API_KEY", "key-one")], true),
            (&[("HOME", "/h"), ("ANTHROPIC_API_KEY", "key-two")], false),
            (&[("HOME", "/h"), ("ANTHROPIC_AUTH_TOKEN", "key-one")], false),
            (&[("ANTHROPIC_API_KEY", "key-one"), ("ANTHROPIC_BASE_URL", "http://proxy")], false),
            (&[("HOME", "/h")], false),
        ] {
            assert_eq!(account(&claude, env) == one, is_same, "{env:?}");
        }
        let home = account(&claude, &[("HOME", "/h")]);
        assert_eq!(home, account(&claude, &[("HOME", "/h"), ("ANTHROPIC_API_KEY", "")]), "blank is not set");
        assert_ne!(home, account(&claude, &[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/work")]));
        assert_ne!(
            account(&other, &[("MY_API_KEY", "a")]),
            account(&other, &[("MY_API_KEY", "b")]),
            "any key may be that of an agent which dacapo does not know"
        );
    }
}
