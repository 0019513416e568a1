//! Hooks in the settings of other programs: text goes in, text comes out. What the user wrote stays as it is, byte for byte, and
//! what [`install`] wrote is taken out again by [`uninstall`], without any record of it.

mod edit;
mod hosts;
mod json;
mod own_files;
#[cfg(test)]
mod tests;
mod toml_text;
mod trusted;

pub use hosts::{HookKind, HookScope, before_they_run, folder, folder_variable, how_to_begin, settings_file};
pub use own_files::{
    CLAUDE_PLUGIN_PATHS, OwnFile, Ownership, claude_plugin, own_files, own_paths, ownership,
};
pub use trusted::{HookTrust, codex_trust};

use std::ops::Range;

use serde_json::{Value, json};

use self::{
    edit::ValuePath,
    hosts::{Cap, HookFormat, HostFacts, facts},
    json::{JsonKind, JsonNode},
};
use crate::{duration::Millis, session::Host};

/// What is wrong with the settings of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("line {line}, column {column}: {what}")]
    Syntax { line: usize, column: usize, what: String },
    #[error("`{path}` is not {what}")]
    Shape { path: String, what: &'static str },
    /// Hooks are there in a form to which none can be added.
    #[error(
        "`hooks` is written in one line; dacapo can add its hooks only to tables such as `[[hooks.Stop]]`"
    )]
    Inline,
    /// A mistake of dacapo's, found before anything was written.
    #[error("the changed settings would not say what they should")]
    Unsound,
}

/// The hooks that are to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HooksToInstall {
    /// The program that hooks run, as a path or as a name on `PATH`.
    pub program: String,
    /// Only judge what the agent leaves when it stops, beside a loop of the host's own.
    pub verify: bool,
    /// How long the host lets a hook run.
    pub timeout: Millis,
}

/// Which hooks are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    All,
    /// Only those of `--verify`.
    Verify,
}

/// The time a host has to give a hook, for gates with these timeouts: twice all of them, because a claim is checked in the
/// workspace and in a clean checkout, and a minute for the rest.
pub fn hook_timeout(gates: impl IntoIterator<Item = Millis>, scope: HookScope) -> Millis {
    // Hooks of a user serve repositories whose gates are not known here.
    let least = match scope {
        HookScope::User => 3600,
        HookScope::Project => 600,
    };
    let gates: u64 = gates.into_iter().map(|gate| gate.0).sum();
    Millis((gates.saturating_mul(2).saturating_add(60_000)).max(least * 1000))
}

/// The hook of one event, as its host wants it.
pub(super) struct WantedHook {
    pub(super) event: &'static str,
    pub(super) value: Value,
    command: String,
    timeout: u64,
}

fn wanted_hooks(host: Host, wanted: &HooksToInstall) -> Vec<WantedHook> {
    let HostFacts { events, shape, units_per_second, .. } = facts(host);
    let timeout = wanted.timeout.0.div_ceil(1000) * units_per_second;
    // A judge looks at the files before the agent works and when it stops; failures are not its business.
    let events = events.iter().filter(|(_, told)| !wanted.verify || *told != HookKind::Failure);
    events
        .map(|(event, told)| {
            let command = command_line(host, *told, wanted);
            // Only a stop runs gates.
            let timeout = if *told == HookKind::Stop { timeout } else { 60 * units_per_second };
            let value = match shape {
                HookFormat::Group => {
                    json!({"hooks": [{"type": "command", "command": command, "timeout": timeout}]})
                }
                HookFormat::Plain => json!({"type": "command", "bash": command, "timeoutSec": timeout}),
            };
            WantedHook { event, value, command, timeout }
        })
        .collect()
}

/// What the host's shell is given.
fn command_line(host: Host, told: HookKind, wanted: &HooksToInstall) -> String {
    let program = crate::text::shell::word(&wanted.program);
    let verify = if wanted.verify { " --verify" } else { "" };
    format!("{program} hook {} --agent {host}{verify}", told.command())
}

/// A command line of dacapo's in the settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OurCommand {
    program: String,
    told: HookKind,
    verify: bool,
}

fn our_command(host: Host, line: &str) -> Option<OurCommand> {
    let words = shlex::split(line)?;
    let [program, hook, told, agent, name, rest @ ..] = words.as_slice() else { return None };
    let told = HookKind::ALL.into_iter().find(|known| known.command() == told)?;
    let verify = match rest {
        [] => false,
        [flag] if flag == "--verify" => true,
        _ => return None,
    };
    let is_ours = hook == "hook" && agent == "--agent" && name == host.name();
    is_ours.then(|| OurCommand { program: program.clone(), told, verify })
}

/// Puts the hooks into the settings, or brings those that are there up to date. `None` is a file that is not there.
pub fn install(
    host: Host,
    scope: HookScope,
    text: Option<&str>,
    wanted: &HooksToInstall,
) -> Result<String, SettingsError> {
    let before = text.unwrap_or_default();
    match settings_file(host, scope) {
        Some(name) if name.ends_with(".toml") => install_toml(host, before, text.is_none(), wanted),
        _ => install_json(host, scope, before, text.is_none(), wanted),
    }
}

/// Takes the hooks out of the settings. `None`: nothing but them was in the file, and dacapo had made it.
pub fn uninstall(
    host: Host,
    scope: HookScope,
    text: &str,
    which: Which,
) -> Result<Option<String>, SettingsError> {
    match settings_file(host, scope) {
        Some(name) if name.ends_with(".toml") => uninstall_toml(host, text, which),
        _ => uninstall_json(host, scope, text, which),
    }
}

/// A hook of dacapo's that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledHook {
    pub event: String,
    pub told: HookKind,
    pub program: String,
    pub verify: bool,
    /// How long the host lets it run, if that is set.
    pub timeout: Option<Millis>,
}

/// What the settings of a host say about the hooks of dacapo's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    pub hooks: Vec<InstalledHook>,
    /// After how many refusals in a row the host lets its agent go all the same, if it does.
    pub cap: Option<u64>,
    /// The settings switch all hooks off.
    pub is_disabled: bool,
}

/// Reads what is installed.
pub fn installed(host: Host, scope: HookScope, text: &str) -> Result<Installed, SettingsError> {
    let units = facts(host).units_per_second;
    let hook = |event: &str, command: OurCommand, timeout: Option<u64>| InstalledHook {
        event: event.to_owned(),
        told: command.told,
        program: command.program,
        verify: command.verify,
        timeout: timeout.map(|timeout| Millis(timeout.saturating_mul(1000) / units)),
    };
    if settings_file(host, scope).is_some_and(|name| name.ends_with(".toml")) {
        let hooks = toml_hooks(host, &toml_text::parse(text)?)
            .into_iter()
            .map(|found| hook(&found.event, found.command, found.timeout))
            .collect();
        return Ok(Installed { hooks, ..Installed::default() });
    }
    let Some(root) = json::parse(text)? else { return Ok(Installed::default()) };
    let hooks = json_hooks(host, &root)
        .into_iter()
        .map(|found| hook(&found.event, found.command, found.timeout))
        .collect();
    let cap = facts(host).cap.and_then(|cap| cap_in_force(&cap, &root));
    // Claude Code's and Gemini's switches.
    let is_disabled = root.get("disableAllHooks").is_some_and(|node| node.value() == true)
        || root
            .get("hooksConfig")
            .and_then(|node| node.get("enabled"))
            .is_some_and(|node| node.value() == false);
    Ok(Installed { hooks, cap, is_disabled })
}

/// The limit that the host follows with these settings; `None` if there is none.
fn cap_in_force(cap: &Cap, root: &JsonNode) -> Option<u64> {
    let object = cap.path.iter().try_fold(root, |node, key| node.get(key));
    let set = object.and_then(|object| object.get(cap.key)).map(JsonNode::value);
    let number = match set {
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        Some(value) => value.as_f64(),
        None => None,
    };
    let number = number.map(|number| number as u64);
    match (number, cap.most) {
        (Some(0), None) => None,
        (Some(number), Some(most)) if number >= 1 => Some(number.min(u64::from(most))),
        (Some(number), None) => Some(number),
        _ => Some(u64::from(cap.default)),
    }
}

/// A hook of dacapo's in JSON settings.
struct JsonHook {
    event: String,
    command: OurCommand,
    timeout: Option<u64>,
    /// Where the whole of it stands: its group, or itself where others share the group.
    place: ValuePath,
    span: Range<usize>,
    /// Whether it is as dacapo writes it, alone in its group.
    is_whole: bool,
}

fn json_hooks(host: Host, root: &JsonNode) -> Vec<JsonHook> {
    let mut found = Vec::new();
    let JsonKind::Object(members) = &root.kind else { return found };
    let Some(at) = members.iter().rposition(|member| member.key == "hooks") else { return found };
    let JsonKind::Object(events) = &members[at].value.kind else { return found };
    for (of_event, event) in events.iter().enumerate() {
        for (of_group, group) in event.value.items().iter().enumerate() {
            let place = vec![at, of_event, of_group];
            let mut hear =
                |handler: &JsonNode, key: &str, limit: &str, place: ValuePath, whole: &JsonNode, is_whole| {
                    let Some(line) = handler.get(key).and_then(JsonNode::as_str) else { return };
                    let Some(command) = our_command(host, line) else { return };
                    let timeout = handler.get(limit).and_then(|node| node.value().as_u64());
                    let (event, span) = (event.key.clone(), whole.span.clone());
                    found.push(JsonHook { event, command, timeout, place, span, is_whole });
                };
            match facts(host).shape {
                HookFormat::Plain => hear(group, "bash", "timeoutSec", place, group, true),
                HookFormat::Group => {
                    let JsonKind::Object(keys) = &group.kind else { continue };
                    let Some(of_list) = keys.iter().rposition(|key| key.key == "hooks") else { continue };
                    let handlers = keys[of_list].value.items();
                    let is_whole = handlers.len() == 1 && keys.len() == 1;
                    for (of_handler, handler) in handlers.iter().enumerate() {
                        let deeper = [place.as_slice(), &[of_list, of_handler]].concat();
                        let (place, whole) =
                            if is_whole { (place.clone(), group) } else { (deeper, handler) };
                        hear(handler, "command", "timeout", place, whole, is_whole);
                    }
                }
            }
        }
    }
    found
}

fn install_json(
    host: Host,
    scope: HookScope,
    before: &str,
    is_new: bool,
    wanted: &HooksToInstall,
) -> Result<String, SettingsError> {
    let root = json::parse(before)?;
    if let Some(root) = &root
        && !matches!(root.kind, JsonKind::Object(_))
    {
        return Err(SettingsError::Shape { path: "the whole file".to_owned(), what: "an object" });
    }
    let mut text = before.to_owned();
    if is_new && (host, scope) == (Host::Copilot, HookScope::Project) {
        text = edit::insert(&text, &[], "version", "1")?;
    }
    for hook in wanted_hooks(host, wanted) {
        let there = json::parse(&text)?.map(|root| json_hooks(host, &root)).unwrap_or_default();
        let there = there.into_iter().find(|found| {
            found.event == hook.event && found.command.verify == wanted.verify && found.is_whole
        });
        let written = one_line(&hook.value);
        text = match there {
            Some(found) if is_current(&found, &hook, wanted) => text,
            Some(found) => edit::replace(&text, &found.span, &written),
            None => edit::push(&text, &["hooks", hook.event], &written)?,
        };
    }
    if let Some(cap) = facts(host).cap {
        let root = json::parse(&text)?;
        let object = root.as_ref().and_then(|root| cap.path.iter().try_fold(root, |node, key| node.get(key)));
        // A value that the user has set stays; `installed` says when it is in the way.
        if object.is_none_or(|object| object.get(cap.key).is_none()) {
            text = edit::insert(&text, cap.path, cap.key, cap.written)?;
        }
    }
    if is_new {
        text.push('\n');
    }
    let all = wanted_hooks(host, wanted);
    let now = json::parse(&text)?.ok_or(SettingsError::Unsound)?;
    let there = json_hooks(host, &now);
    let is_there = |hook: &WantedHook| {
        there.iter().any(|found| found.event == hook.event && is_current(found, hook, wanted))
    };
    match all.iter().all(is_there) {
        true => Ok(text),
        false => Err(SettingsError::Unsound),
    }
}

fn is_current(found: &JsonHook, hook: &WantedHook, wanted: &HooksToInstall) -> bool {
    found.command.program == wanted.program
        && found.command.verify == wanted.verify
        && found.timeout == Some(hook.timeout)
}

/// JSON in one line, with a blank behind each colon and comma.
fn one_line(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let all: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}: {}", edit::quoted(key), one_line(value)))
                .collect();
            format!("{{{}}}", all.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        scalar => scalar.to_string(),
    }
}

fn uninstall_json(
    host: Host,
    scope: HookScope,
    before: &str,
    which: Which,
) -> Result<Option<String>, SettingsError> {
    let mut text = before.to_owned();
    let mut is_last = false;
    // The last one first: so each is taken out of the text that it was put into.
    while !is_last {
        let Some(root) = json::parse(&text)? else { return Ok(Some(text)) };
        let hooks = json_hooks(host, &root);
        let remain = hooks.iter().filter(|hook| which == Which::Verify && !hook.command.verify).count();
        let mut places: Vec<(usize, ValuePath)> = hooks
            .iter()
            .filter(|hook| which == Which::All || hook.command.verify)
            .map(|hook| (hook.span.start, hook.place.clone()))
            .collect();
        if remain == 0
            && let Some(cap) = facts(host).cap
        {
            places.extend(cap_place(&text, &root, &cap));
        }
        places.sort();
        is_last = places.len() <= 1;
        let Some((_, place)) = places.pop() else { break };
        match edit::remove(&text, &place)? {
            Some(less) => text = less,
            None => return Ok(None),
        }
    }
    let is_left_over = (host, scope) == (Host::Copilot, HookScope::Project)
        && text != before
        && json::parse(&text)?.is_some_and(|root| root.value() == json!({"version": 1}));
    Ok((!is_left_over).then_some(text))
}

/// Where the setting stands that lifts the host's limit, if dacapo wrote it.
fn cap_place(text: &str, root: &JsonNode, cap: &Cap) -> Option<(usize, ValuePath)> {
    let (mut node, mut place) = (root, ValuePath::new());
    for key in cap.path.iter().chain([&cap.key]) {
        let JsonKind::Object(members) = &node.kind else { return None };
        let at = members.iter().rposition(|member| member.key == *key)?;
        place.push(at);
        node = &members[at].value;
    }
    (&text[node.span.clone()] == cap.written).then_some((node.span.start, place))
}

/// A hook of dacapo's in TOML settings.
struct TomlHook {
    event: String,
    command: OurCommand,
    timeout: Option<u64>,
}

/// The hooks of dacapo's, in the order of the events and of the text.
fn toml_hooks(host: Host, table: &toml::Table) -> Vec<TomlHook> {
    let mut found = Vec::new();
    let Some(hooks) = table.get("hooks").and_then(toml::Value::as_table) else { return found };
    for (event, groups) in hooks {
        for group in groups.as_array().into_iter().flatten() {
            for handler in group.get("hooks").and_then(toml::Value::as_array).into_iter().flatten() {
                let line = handler.get("command").and_then(toml::Value::as_str).unwrap_or_default();
                let Some(command) = our_command(host, line) else { continue };
                let timeout = handler.get("timeout").and_then(toml::Value::as_integer);
                let timeout = timeout.and_then(|timeout| u64::try_from(timeout).ok());
                found.push(TomlHook { event: event.clone(), command, timeout });
            }
        }
    }
    found
}

/// The lines of one hook.
fn toml_block(hook: &WantedHook) -> String {
    let (event, timeout) = (hook.event, hook.timeout);
    // A JSON string is a TOML string too.
    let command = edit::quoted(&hook.command);
    format!(
        "[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = {command}\ntimeout = {timeout}"
    )
}

/// Where the blocks stand that hold a hook of dacapo's and nothing else.
fn toml_blocks(host: Host, text: &str) -> Vec<(Range<usize>, String, OurCommand)> {
    let sections = toml_text::sections(text);
    let mut found = Vec::new();
    for pair in sections.windows(2) {
        let [group, handler] = pair else { continue };
        let Some(event) = group.header.strip_prefix("[[hooks.").and_then(|rest| rest.strip_suffix("]]"))
        else {
            continue;
        };
        if handler.header != format!("[[hooks.{event}.hooks]]") {
            continue;
        }
        // A group with a matcher, or with a further handler, is not as dacapo wrote it.
        let is_bare = toml_text::body_of(text, group).len()
            == text[group.span.clone()].lines().next().map_or(0, str::len);
        let body = toml_text::body_of(text, handler);
        let Ok(table) = text[body.clone()].parse::<toml::Table>() else { continue };
        let Some(found_hook) = toml_hooks(host, &wrapped(&table)).pop() else { continue };
        let shares = sections
            .iter()
            .any(|other| other.span.start == handler.span.end && other.header == handler.header);
        if is_bare && !shares {
            found.push((group.span.start..body.end, event.to_owned(), found_hook.command));
        } else {
            found.push((body, event.to_owned(), found_hook.command));
        }
    }
    found
}

/// `[[hooks.X.hooks]]` alone reads as a table of tables; here it is given the list around it that the whole file has.
fn wrapped(table: &toml::Table) -> toml::Table {
    let mut table = table.clone();
    if let Some(hooks) = table.get_mut("hooks").and_then(toml::Value::as_table_mut) {
        for (_, group) in hooks.iter_mut() {
            let inner = group.clone();
            *group = toml::Value::Array(vec![inner]);
        }
    }
    table
}

fn install_toml(
    host: Host,
    before: &str,
    is_new: bool,
    wanted: &HooksToInstall,
) -> Result<String, SettingsError> {
    toml_text::parse(before)?;
    let mut text = before.to_owned();
    for hook in wanted_hooks(host, wanted) {
        let is_current = |found: &TomlHook| {
            found.event == hook.event
                && found.command.verify == wanted.verify
                && found.command.program == wanted.program
                && found.timeout == Some(hook.timeout)
        };
        if toml_hooks(host, &toml_text::parse(&text)?).iter().any(is_current) {
            continue;
        }
        let stale = toml_blocks(host, &text)
            .into_iter()
            .find(|(_, event, command)| event == hook.event && command.verify == wanted.verify);
        let block = toml_block(&hook);
        text = match stale {
            Some((span, ..)) if text[span.clone()].starts_with("[[hooks.") => {
                let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
                edit::replace(&text, &span, &block.replace('\n', newline))
            }
            _ => toml_text::append(&text, &block),
        };
        match toml_text::parse(&text) {
            Ok(table) if toml_hooks(host, &table).iter().any(is_current) => {}
            Ok(_) => return Err(SettingsError::Unsound),
            Err(_) => return Err(SettingsError::Inline),
        }
    }
    if is_new {
        text.push('\n');
    }
    Ok(text)
}

fn uninstall_toml(host: Host, before: &str, which: Which) -> Result<Option<String>, SettingsError> {
    toml_text::parse(before)?;
    let mut text = before.to_owned();
    loop {
        let blocks = toml_blocks(host, &text);
        let last = blocks.into_iter().rfind(|(_, _, command)| which == Which::All || command.verify);
        let Some((span, ..)) = last else { break };
        text = toml_text::remove(&text, &span);
    }
    toml_text::parse(&text).map_err(|_| SettingsError::Unsound)?;
    let was_made = text.is_empty() && before.ends_with('\n');
    Ok((!was_made).then_some(text))
}
