//! `agent`, `agents`, `fallback` and `environment`: which agents there are, and which are used.

use std::collections::BTreeMap;

use super::{At, ConfigSection, section};
use crate::{
    agent::{EnvironmentRule, Format, PromptDelivery, catalog, is_provider_key, is_reference},
    duration::Millis,
    secrets::is_secret_name,
    yaml::{TextPlace, YamlKey, YamlNode, YamlValue, short},
};

pub(super) const KEYS: [&str; 12] = [
    "command",
    "acp",
    "opening_timeout",
    "prompt",
    "output",
    "resume",
    "model",
    "max_turns",
    "permissions",
    "env",
    "provider",
    "allow_root",
];

/// What a file says about one agent: all of a new one, or what is different in one that is built in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSection {
    pub name: String,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// The same for an agent that stays and speaks the Agent Client Protocol.
    pub acp: Option<Vec<String>>,
    /// How long such an agent may take to open its session.
    pub opening_timeout: Option<Millis>,
    /// How the prompt reaches it.
    pub prompt: Option<PromptDelivery>,
    pub output: Option<Format>,
    /// Arguments that continue a session, with `{session}` for its id.
    pub resume: Option<Vec<String>>,
    /// Arguments that choose a model, with `{model}` for its name.
    pub model: Option<Vec<String>>,
    /// How many turns a model may take in one attempt.
    pub max_turns: Option<u32>,
    /// Arguments that say what it may do, in place of those that let it do everything.
    pub permissions: Option<Vec<String>>,
    /// Variables it is given; a value `$NAME` is that variable of the caller's.
    pub env: BTreeMap<String, String>,
    pub provider: Option<String>,
    /// Whether it may run unattended as root.
    pub allow_root: Option<bool>,
}

/// What a file says about the agents to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// The one to use unless another is typed.
    pub agent: Option<At<String>>,
    pub agents: Vec<At<AgentSection>>,
    /// Where to go when a provider is at its limit.
    pub fallback: Option<At<Vec<String>>>,
    pub environment: Option<At<EnvironmentRule>>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> Agents {
    Agents {
        agent: top.text("agent"),
        agents: top.named("agents").into_iter().filter_map(|(key, node)| settings(top, key, node)).collect(),
        fallback: top.words("fallback"),
        environment: top.choice(
            "environment",
            &[("inherit", EnvironmentRule::Inherit), ("strict", EnvironmentRule::Strict)],
        ),
    }
}

fn settings(top: &mut ConfigSection<'_>, key: YamlKey, node: YamlNode) -> Option<At<AgentSection>> {
    let YamlKey { place, name } = key;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if !is_name {
        top.wrong(place, "the name of an agent must be letters, digits, `.`, `_` and `-`, at most 64");
        return None;
    }
    let mut entry = top.entry(&format!("`agents.{name}`"), node, &KEYS)?;
    if !entry.has("command") && catalog::find(&name).is_none() {
        entry.wrong(place, format!("`{name}` is not built in, so it needs a `command: [my-agent, --yolo]`"));
    }
    let settings = AgentSection {
        opening_timeout: opening_timeout(&mut entry, &name),
        command: arguments(&mut entry, "command"),
        acp: arguments(&mut entry, "acp"),
        prompt: entry
            .choice(
                "prompt",
                &[
                    ("stdin", PromptDelivery::Stdin),
                    ("argv", PromptDelivery::Argument),
                    ("file", PromptDelivery::File),
                ],
            )
            .map(|prompt| prompt.value),
        output: entry
            .choice(
                "output",
                &[
                    ("text", Format::Text),
                    ("claude", Format::Claude),
                    ("codex", Format::Codex),
                    ("gemini", Format::Gemini),
                    ("opencode", Format::Opencode),
                    ("qwen", Format::Qwen),
                    ("copilot", Format::Copilot),
                    ("pi", Format::Pi),
                ],
            )
            .map(|output| output.value),
        resume: template(&mut entry, "resume", "{session}"),
        model: template(&mut entry, "model", "{model}"),
        max_turns: entry.count("max_turns", 1).map(|turns| turns.value),
        permissions: entry.words("permissions").map(|words| words.value),
        env: variables(&mut entry),
        provider: entry.text("provider").map(|provider| provider.value.trim().to_owned()),
        allow_root: entry.flag("allow_root").map(|allow| allow.value),
        name,
    };
    check_delivery(&mut entry, place, &settings);
    Some(At { value: settings, line: place.line })
}

/// How long an agent that stays may take to open its session.
fn opening_timeout(entry: &mut ConfigSection<'_>, name: &str) -> Option<Millis> {
    let place = entry.place("opening_timeout")?;
    let can_stay = entry.has("acp") || catalog::find(name).is_some_and(|agent| agent.acp.is_some());
    if !can_stay {
        entry.wrong(place, format!("`opening_timeout` is for agents that stay, and `{name}` has no `acp`"));
    }
    entry.duration("opening_timeout").map(|timeout| timeout.value)
}

/// Complains about a command that has no place for the prompt, or one that is never filled.
fn check_delivery(entry: &mut ConfigSection<'_>, place: TextPlace, settings: &AgentSection) {
    let command = settings.command.as_deref().unwrap_or_default();
    let has = |placeholder| command.iter().skip(1).any(|arg| arg.contains(placeholder));
    let what = match (settings.prompt, has("{prompt}"), has("{prompt_file}")) {
        (_, true, true) => "the command has both `{prompt}` and `{prompt_file}`; one of them is enough",
        (Some(PromptDelivery::File), _, false) => "`prompt: file` needs a `{prompt_file}` in the command",
        (Some(PromptDelivery::Stdin), true, _) => {
            "`prompt: stdin` leaves the `{prompt}` in the command empty"
        }
        (Some(PromptDelivery::Stdin | PromptDelivery::Argument), _, true) => {
            "only `prompt: file` fills the `{prompt_file}` in the command"
        }
        _ => return,
    };
    entry.wrong(place, what);
}

/// A program and its arguments; an argument may be empty, the program may not.
fn arguments(entry: &mut ConfigSection<'_>, key: &str) -> Option<Vec<String>> {
    let node = entry.take(key)?;
    let (place, YamlValue::List(nodes)) = (node.place, node.value) else {
        entry.wrong(node.place, format!("`{}` must be a list, like `[my-agent, --yolo]`", entry.path(key)));
        return None;
    };
    if nodes.is_empty() {
        entry.wrong(place, format!("`{}` needs a program: `[my-agent, --yolo]`", entry.path(key)));
        return None;
    }
    let mut argv = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.into_iter().enumerate() {
        match node.value {
            YamlValue::Scalar { text, .. } if index > 0 || !text.trim().is_empty() => argv.push(text),
            YamlValue::Scalar { .. } => entry.wrong(node.place, "the program must not be blank"),
            YamlValue::List(_) | YamlValue::Map(_) => {
                entry.wrong(node.place, format!("an entry of `{}` must be text", entry.path(key)));
            }
        }
    }
    Some(argv)
}

/// Arguments of which one holds `placeholder`; none at all says that there is no such thing.
fn template(entry: &mut ConfigSection<'_>, key: &str, placeholder: &str) -> Option<Vec<String>> {
    let place = entry.place(key)?;
    let words = entry.words(key)?.value;
    if !words.is_empty() && !words.iter().any(|word| word.contains(placeholder)) {
        entry.wrong(place, format!("`{}` needs a place for `{placeholder}`", entry.path(key)));
    }
    Some(words)
}

fn variables(entry: &mut ConfigSection<'_>) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for (YamlKey { place, name }, node) in entry.named("env") {
        let is_name = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let shown = short(&name);
        if !is_name {
            entry.wrong(place, format!("`{shown}` is no name of a variable"));
        } else if name.starts_with("DACAPO_") || ["TASK_FOLDER", "PATH"].contains(&name.as_str()) {
            entry.wrong(place, format!("`{shown}` is set by dacapo itself"));
        } else if section::is_nothing(&node) {
            entry.wrong(place, format!("`{}.{shown}` has no value", entry.path("env")));
        } else if let YamlValue::Scalar { text, .. } = node.value {
            // What an agent is given is recorded with its loop: a key may be named there, never written.
            if (is_provider_key(&name) || is_secret_name(&name)) && !is_reference(&text) {
                let what = format!(
                    "a key does not belong in a file: `{shown}: ${shown}` takes it from your environment"
                );
                entry.wrong(place, what);
            }
            variables.insert(name, text);
        } else {
            entry.wrong(node.place, format!("`{}.{shown}` must be text", entry.path("env")));
        }
    }
    variables
}
