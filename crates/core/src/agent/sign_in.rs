//! How each agent is signed in, as far as that can be told from outside.

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
