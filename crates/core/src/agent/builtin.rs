//! The agents that need no configuration. Adding one: an entry here, a format in `transcript/`, recorded output in the
//! testkit.

use std::sync::LazyLock;

use super::{
    acp::AcpUsage,
    catalog::{AcpDefinition, AgentDefinition},
    command::Format,
    sign_in::{SettingsPlace, SignInQuestion, SignInSettings, SignedOutAnswer},
};

static ALL: LazyLock<Vec<AgentDefinition>> =
    LazyLock::new(|| vec![claude(), codex(), gemini(), opencode(), qwen(), copilot(), pi()]);

pub(super) fn all() -> &'static [AgentDefinition] {
    &ALL
}

/// Where an agent keeps its sessions, settings and sign-in, below the user's home. A name with an extension is a file's.
pub fn own_folders(name: &str) -> &'static [&'static str] {
    match name {
        "claude" => &[
            ".claude",
            ".claude.json",
            ".claude.json.backup",
            ".cache/claude",
            ".local/share/claude",
            ".local/state/claude",
        ],
        "codex" => &[".codex"],
        "gemini" => &[".gemini"],
        "opencode" => {
            &[".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"]
        }
        "qwen" => &[".qwen"],
        "copilot" => &[".copilot", ".config/github-copilot", ".cache/copilot"],
        "pi" => &[".pi"],
        _ => &[],
    }
}

fn claude() -> AgentDefinition {
    AgentDefinition {
        name: "claude".into(),
        command: words(
            "claude --output-format stream-json --verbose {unattended} {model} {max_turns} {resume} {extra} {deliver}",
        ),
        unattended: words("--dangerously-skip-permissions"),
        model: words("--model {model}"),
        resume: words("--resume {session}"),
        max_turns: words("--max-turns {max_turns}"),
        // `-p` takes no value: a prompt is what stands behind it.
        by_stdin: words("-p"),
        by_argument: words("-p {prompt}"),
        prompt: None,
        format: Format::Claude,
        // It would retry for minutes by itself, unseen by the gate that loops share; and a person's stop hook that
        // blocks is not to be overridden after eight times.
        env: pairs(&[("CLAUDE_CODE_MAX_RETRIES", "2"), ("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "0")]),
        root_env: pairs(&[("IS_SANDBOX", "1")]),
        provider: "anthropic".into(),
        install: "npm install -g @anthropic-ai/claude-code".into(),
        sign_in: "run `claude`, then `/login`".into(),
        sign_in_question: Some(SignInQuestion {
            args: words("auth status"),
            no: SignedOutAnswer::FalseField("loggedIn"),
            other_ways: words("--settings"),
            // Its answer leaves out the settings of a repository, which count when it works there.
            settings: [".claude/settings.json", ".claude/settings.local.json"]
                .map(|file| SignInSettings {
                    place: SettingsPlace::Workspace,
                    file,
                    words: &["ANTHROPIC_", "CLAUDE_CODE_", "apiKeyHelper"],
                })
                .into(),
        }),
        default_model: None,
        tools: vec![
            "--mcp-config".into(),
            r#"{"mcpServers":{"dacapo":{"command":"dacapo","args":["mcp"]}}}"#.into(),
        ],
        acp: Some(AcpDefinition {
            command: words("claude-agent-acp"),
            model_variable: Some("ANTHROPIC_MODEL".into()),
            // After every turn it would ask the model what a person might type next, and pay for that.
            env: pairs(&[("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false")]),
            install: "npm install -g @agentclientprotocol/claude-agent-acp".into(),
            ..AcpDefinition::default()
        }),
    }
}

fn codex() -> AgentDefinition {
    AgentDefinition {
        name: "codex".into(),
        // To resume is a subcommand of `exec`.
        command: words(
            "codex exec {resume} --json --skip-git-repo-check {unattended} {model} {extra} {deliver}",
        ),
        unattended: words("--dangerously-bypass-approvals-and-sandbox"),
        model: words("-m {model}"),
        resume: words("resume {session}"),
        by_stdin: words("-"),
        by_argument: words("{prompt}"),
        format: Format::Codex,
        provider: "openai".into(),
        install: "npm install -g @openai/codex".into(),
        sign_in: "run `codex login`".into(),
        sign_in_question: Some(SignInQuestion {
            args: words("login status"),
            no: SignedOutAnswer::Line("Not logged in"),
            other_ways: words("--oss -c --config -p --profile"),
            // Its answer is about OpenAI, whichever provider it is set up to ask.
            settings: [
                (SettingsPlace::AgentFolder, "config.toml"),
                (SettingsPlace::Workspace, ".codex/config.toml"),
            ]
            .map(|(place, file)| SignInSettings { place, file, words: &["model_provider", "oss", "profile"] })
            .into(),
        }),
        // It starts servers with hardly any variable of its own.
        tools: vec![
            "-c".into(),
            r#"mcp_servers.dacapo.command="dacapo""#.into(),
            "-c".into(),
            r#"mcp_servers.dacapo.args=["mcp"]"#.into(),
            "-c".into(),
            r#"mcp_servers.dacapo.env_vars=["DACAPO_HOME","DACAPO_SOCKET"]"#.into(),
        ],
        acp: Some(AcpDefinition {
            command: words("codex-acp"),
            unattended: words(r#"-c approval_policy="never" -c sandbox_mode="danger-full-access""#),
            model: words(r#"-c model="{model}""#),
            usage: AcpUsage::Never,
            install: "npm install -g @zed-industries/codex-acp".into(),
            ..AcpDefinition::default()
        }),
        ..AgentDefinition::default()
    }
}

fn gemini() -> AgentDefinition {
    AgentDefinition {
        name: "gemini".into(),
        command: words("gemini -o stream-json {unattended} {model} {resume} {extra} {deliver}"),
        unattended: words("--yolo"),
        model: words("-m {model}"),
        resume: words("--resume {session}"),
        by_argument: words("-p {prompt}"),
        format: Format::Gemini,
        // Its launcher would keep signals from the real process; and in a folder that the user has not trusted in its own
        // dialogue it does not start unattended (exit 55), even with its other permission flags.
        env: pairs(&[("GEMINI_CLI_NO_RELAUNCH", "true"), ("GEMINI_CLI_TRUST_WORKSPACE", "true")]),
        provider: "google".into(),
        install: "npm install -g @google/gemini-cli".into(),
        sign_in: "run `gemini` and choose how to sign in, or set GEMINI_API_KEY".into(),
        acp: Some(AcpDefinition {
            command: words("gemini --acp"),
            unattended: words("--yolo"),
            model: words("-m {model}"),
            ..AcpDefinition::default()
        }),
        ..AgentDefinition::default()
    }
}

fn opencode() -> AgentDefinition {
    AgentDefinition {
        name: "opencode".into(),
        command: words("opencode run --format json {unattended} {model} {resume} {extra} {deliver}"),
        unattended: words("--auto"),
        model: words("--model {model}"),
        resume: words("--session {session}"),
        by_argument: words("{prompt}"),
        format: Format::Opencode,
        env: pairs(&[("OPENCODE_DISABLE_AUTOUPDATE", "1")]),
        // Which provider it asks is its own configuration's business.
        provider: "opencode".into(),
        install: "npm install -g opencode-ai".into(),
        sign_in: "run `opencode auth login`".into(),
        // Its tokens are those of a turn's last step only; its money is whole.
        acp: Some(AcpDefinition { command: words("opencode acp"), ..AcpDefinition::default() }),
        ..AgentDefinition::default()
    }
}

fn qwen() -> AgentDefinition {
    AgentDefinition {
        name: "qwen".into(),
        command: words(
            "qwen --output-format stream-json {unattended} {model} {max_turns} {resume} {extra} {deliver}",
        ),
        unattended: words("--yolo"),
        model: words("--model {model}"),
        resume: words("--resume {session}"),
        max_turns: words("--max-session-turns {max_turns}"),
        by_argument: words("-p {prompt}"),
        format: Format::Qwen,
        env: pairs(&[("QWEN_CODE_SUPPRESS_YOLO_WARNING", "1")]),
        provider: "qwen".into(),
        install: "npm install -g @qwen-code/qwen-code".into(),
        sign_in: "run `qwen`, then `/auth`".into(),
        acp: Some(AcpDefinition {
            command: words("qwen --acp"),
            unattended: words("--yolo"),
            model: words("--model {model}"),
            usage: AcpUsage::Never,
            ..AcpDefinition::default()
        }),
        ..AgentDefinition::default()
    }
}

fn copilot() -> AgentDefinition {
    AgentDefinition {
        name: "copilot".into(),
        command: words("copilot --output-format json -s {unattended} {model} {resume} {extra} {deliver}"),
        unattended: words("--allow-all-tools"),
        model: words("--model {model}"),
        resume: words("--resume={session}"),
        by_argument: words("-p {prompt}"),
        format: Format::Copilot,
        env: pairs(&[("COPILOT_AUTO_UPDATE", "false")]),
        provider: "github".into(),
        install: "npm install -g @github/copilot".into(),
        sign_in: "run `copilot`, then `/login`".into(),
        acp: Some(AcpDefinition {
            command: words("copilot --acp"),
            unattended: words("--allow-all-tools"),
            model: words("--model {model}"),
            usage: AcpUsage::Session,
            ..AcpDefinition::default()
        }),
        ..AgentDefinition::default()
    }
}

fn pi() -> AgentDefinition {
    AgentDefinition {
        name: "pi".into(),
        command: words("pi --mode json {unattended} {model} {resume} {extra} {deliver}"),
        model: words("--model {model}"),
        resume: words("--session {session}"),
        by_argument: words("{prompt}"),
        format: Format::Pi,
        env: pairs(&[("PI_SKIP_VERSION_CHECK", "1")]),
        provider: "pi".into(),
        install: "npm install -g @mariozechner/pi-coding-agent".into(),
        sign_in: "run `pi`, then `/login`".into(),
        ..AgentDefinition::default()
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
