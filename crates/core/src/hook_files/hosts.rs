//! What each host reads, as data: where its settings lie, which hooks it has, how it counts timeouts, when it stops obeying.

use crate::session::Host;

/// For which sessions hooks are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookScope {
    /// All sessions of this user.
    User,
    /// Sessions in this folder.
    Project,
}

impl HookScope {
    pub const ALL: [Self; 2] = [Self::User, Self::Project];

    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// What a hook tells dacapo: the name of the command below `dacapo hook`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    Stop,
    Prompt,
    Failure,
}

impl HookKind {
    pub(super) const ALL: [Self; 3] = [Self::Stop, Self::Prompt, Self::Failure];

    pub fn command(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Prompt => "prompt",
            Self::Failure => "failure",
        }
    }
}

/// How a host writes one hook in its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookFormat {
    /// `{"hooks": [{"type": "command", "command": …, "timeout": …}]}`, in a list for each event.
    Group,
    /// `{"type": "command", "bash": …, "timeoutSec": …}`, in a list for each event.
    Plain,
}

/// A limit of the host on how often its agent may be sent back in a row, and the setting that lifts it.
///
/// The value is written in a way in which no person writes it. So `uninstall` leaves a value alone that the user had set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cap {
    pub(super) path: &'static [&'static str],
    pub(super) key: &'static str,
    /// As dacapo writes it.
    pub(super) written: &'static str,
    /// After how many blocks in a row the host lets its agent go by itself, without the setting.
    pub(super) default: u32,
    /// The most it can be set to, if there is no way to switch it off.
    pub(super) most: Option<u32>,
}

/// What is known about one host.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostFacts {
    /// The event of the host, and what dacapo is told by it.
    pub(super) events: &'static [(&'static str, HookKind)],
    pub(super) shape: HookFormat,
    /// How many of the host's units of time a second has.
    pub(super) units_per_second: u64,
    pub(super) cap: Option<Cap>,
}

pub(super) fn facts(host: Host) -> HostFacts {
    const CLAUDE: &[(&str, HookKind)] = &[
        ("Stop", HookKind::Stop),
        ("UserPromptSubmit", HookKind::Prompt),
        ("StopFailure", HookKind::Failure),
    ];
    const CODEX: &[(&str, HookKind)] = &[("Stop", HookKind::Stop), ("UserPromptSubmit", HookKind::Prompt)];
    const GEMINI: &[(&str, HookKind)] = &[("AfterAgent", HookKind::Stop), ("BeforeAgent", HookKind::Prompt)];
    const COPILOT: &[(&str, HookKind)] =
        &[("agentStop", HookKind::Stop), ("userPromptSubmitted", HookKind::Prompt)];
    let claude_cap = Cap {
        path: &["env"],
        key: "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP",
        written: "\"\\u0030\"",
        default: 8,
        most: None,
    };
    let qwen_cap = Cap { path: &[], key: "stopHookBlockingCap", written: "1e2", default: 8, most: Some(100) };
    let (events, shape, units_per_second, cap) = match host {
        Host::Claude => (CLAUDE, HookFormat::Group, 1, Some(claude_cap)),
        Host::Codex => (CODEX, HookFormat::Group, 1, None),
        Host::Gemini => (GEMINI, HookFormat::Group, 1000, None),
        Host::Qwen => (CLAUDE, HookFormat::Group, 1000, Some(qwen_cap)),
        Host::Copilot => (COPILOT, HookFormat::Plain, 1, None),
        // Its hooks are in a plugin, not in settings.
        Host::Opencode => (&[] as &[_], HookFormat::Plain, 1, None),
    };
    HostFacts { events, shape, units_per_second, cap }
}

/// The variable with which a user moves the host's folder, if there is one.
pub fn folder_variable(host: Host) -> Option<&'static str> {
    match host {
        Host::Claude => Some("CLAUDE_CONFIG_DIR"),
        Host::Codex => Some("CODEX_HOME"),
        Host::Copilot => Some("COPILOT_HOME"),
        Host::Gemini | Host::Qwen | Host::Opencode => None,
    }
}

/// The host's folder: below the user's home, or below the top of the project.
pub fn folder(host: Host, scope: HookScope) -> &'static str {
    match (host, scope) {
        (Host::Claude, _) => ".claude",
        (Host::Codex, _) => ".codex",
        (Host::Gemini, _) => ".gemini",
        (Host::Qwen, _) => ".qwen",
        (Host::Copilot, HookScope::User) => ".copilot",
        (Host::Copilot, HookScope::Project) => ".github/hooks",
        (Host::Opencode, HookScope::User) => ".config/opencode",
        (Host::Opencode, HookScope::Project) => ".opencode",
    }
}

/// The settings file with the hooks, in the host's folder.
pub fn settings_file(host: Host, scope: HookScope) -> Option<&'static str> {
    match (host, scope) {
        (Host::Claude | Host::Gemini | Host::Qwen, _) | (Host::Copilot, HookScope::User) => {
            Some("settings.json")
        }
        (Host::Copilot, HookScope::Project) => Some("dacapo.json"),
        (Host::Codex, _) => Some("config.toml"),
        (Host::Opencode, _) => None,
    }
}

/// What the user has to do before the host runs the hooks.
pub fn before_they_run(host: Host, scope: HookScope) -> Option<&'static str> {
    match (host, scope) {
        (Host::Codex, HookScope::User) => Some(
            "Codex skips hooks that its user has not trusted: start `codex`, look at `/hooks`, and trust the two of dacapo",
        ),
        (Host::Codex, HookScope::Project) => Some(
            "Codex skips hooks that its user has not trusted: start `codex` here, trust the folder, look at `/hooks`, and trust the two of dacapo",
        ),
        (Host::Gemini, HookScope::Project) => Some(
            "Gemini runs the hooks of a folder only once its user trusts the folder: start `gemini` here and agree",
        ),
        (Host::Qwen, HookScope::Project) => Some(
            "Qwen runs the hooks of a folder only if its user trusts the folder, where folder trust is switched on",
        ),
        (Host::Copilot, HookScope::Project) => Some(
            "Copilot runs the hooks of a folder only once its user trusts the folder: start `copilot` here and agree",
        ),
        (Host::Claude, HookScope::Project) => Some(
            "Claude Code asks once whether you trust this folder before it runs the folder's hooks; `claude -p` does not ask",
        ),
        (Host::Claude | Host::Gemini | Host::Qwen | Host::Copilot, HookScope::User) | (Host::Opencode, _) => {
            None
        }
    }
}

/// What a user types in a session, and where that differs from host to host.
pub fn how_to_begin(host: Host) -> &'static str {
    match host {
        Host::Codex => {
            "type ` /ralph \"task\"` in a session, with a blank before the slash, or pass it to `codex exec`"
        }
        Host::Opencode => {
            "type ` /ralph \"task\"`, with a blank before the slash, in a session of `opencode` or `opencode serve`; `opencode run` ends at the first stop"
        }
        Host::Copilot => {
            "type ` /ralph \"task\"` in a session, with a blank before the slash, or pass it to `copilot -p`"
        }
        Host::Claude | Host::Gemini | Host::Qwen => "type `/ralph \"task\"` in a session",
    }
}
