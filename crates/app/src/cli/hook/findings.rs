//! What `dacapo doctor` says about the hooks that are installed.

use std::path::Path;

use dacapo_core::{
    hook_files::{
        self, HookKind, HookScope, HookTrust, Ownership, codex_trust, hook_timeout, own_paths, ownership,
    },
    session::Host,
};
use dacapo_engine::{health, hook_files::look};

use super::{
    install::cap_note,
    places::{gate_timeouts, host_folder, settings_path},
};

/// The hooks of one host in one place.
pub(crate) struct HookFinding {
    pub(crate) detail: String,
    /// What keeps them from working, and what to do about it.
    pub(crate) troubles: Vec<(String, String)>,
}

/// All hooks of dacapo's that this user's and this folder's settings have.
pub(crate) fn installed_hooks() -> Vec<HookFinding> {
    let all = Host::ALL.into_iter().flat_map(|host| HookScope::ALL.map(|scope| (host, scope)));
    all.filter_map(|(host, scope)| finding(host, scope)).collect()
}

fn finding(host: Host, scope: HookScope) -> Option<HookFinding> {
    let flag = match scope {
        HookScope::User => "",
        HookScope::Project => " --project",
    };
    let again = format!("`dacapo hook install {host}{flag}` brings them up to date");
    let Ok(Some(path)) = settings_path(host, scope) else { return plugin(host, scope, &again) };
    let found = look(&path).ok()?;
    let text = found.text?;
    let place = path.display();
    let now = match hook_files::installed(host, scope, &text) {
        Ok(now) if now.hooks.is_empty() => return None,
        Ok(now) => now,
        // Whether hooks are in it cannot be told; it is worth a word only where one of ours may be.
        Err(error) if text.contains("dacapo") => {
            let trouble = (format!("`{place}` cannot be read: {error}"), "repair the file".to_owned());
            let detail = format!("{host} ({}): {place}", scope.name());
            return Some(HookFinding { detail, troubles: vec![trouble] });
        }
        Err(_) => return None,
    };
    let mut troubles = Vec::new();
    let mut events = Vec::new();
    let mut programs: Vec<&str> = Vec::new();
    for hook in &now.hooks {
        events.push(if hook.verify { format!("{} (verify)", hook.event) } else { hook.event.clone() });
        if !programs.contains(&hook.program.as_str()) {
            programs.push(&hook.program);
        }
    }
    for program in &programs {
        if health::find(program).is_none() {
            troubles.push((format!("they run `{program}`, which is not there"), again.clone()));
        }
    }
    if now.is_disabled {
        troubles.push((
            "hooks are switched off in these settings".to_owned(),
            format!("switch them on in {place}"),
        ));
    }
    if let Some(note) = cap_note(host, &now) {
        troubles.push((note, again.clone()));
    }
    let needed = hook_timeout(gate_timeouts(), HookScope::Project);
    let stop = now.hooks.iter().find(|hook| hook.told == HookKind::Stop);
    if let Some(timeout) = stop.and_then(|hook| hook.timeout).filter(|timeout| timeout.0 < needed.0) {
        let what =
            format!("the host ends them after {timeout}, and the gates of this folder may take {needed}");
        troubles.push((what, again));
    }
    if host == Host::Codex {
        troubles.extend(untrusted(&path, &text));
    }
    let (events, programs) = (events.join(", "), programs.join(", "));
    Some(HookFinding {
        detail: format!("{host} ({}): {events} run `{programs}`, in {place}", scope.name()),
        troubles,
    })
}

/// The plugin of a host whose hooks are not in settings.
fn plugin(host: Host, scope: HookScope, again: &str) -> Option<HookFinding> {
    let folder = host_folder(host, scope).ok()?;
    let path = folder.join(own_paths(host).first()?);
    let text = look(&path).ok()?.text?;
    let owner = ownership(&text);
    if owner == Ownership::Foreign {
        return None;
    }
    let program = text
        .lines()
        .find_map(|line| line.strip_prefix("const PROGRAM = "))
        .and_then(|program| serde_json::from_str::<String>(program).ok());
    let program = program.unwrap_or_default();
    let mut troubles = Vec::new();
    if health::find(&program).is_none() {
        troubles.push((format!("it runs `{program}`, which is not there"), again.to_owned()));
    }
    let detail = format!("{host} ({}): a plugin that runs `{program}`, in {}", scope.name(), path.display());
    Some(HookFinding { detail, troubles })
}

/// What Codex would skip, because its user has not agreed to it.
fn untrusted(path: &Path, text: &str) -> Option<(String, String)> {
    let users = settings_path(Host::Codex, HookScope::User).ok().flatten()?;
    let users = look(&users).ok()?.text.unwrap_or_default();
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let states = |path: &Path| codex_trust(&path.to_string_lossy(), text, &users).unwrap_or_default();
    let is_bad =
        |states: &[(HookKind, HookTrust)]| states.iter().any(|(_, trust)| *trust != HookTrust::Trusted);
    let named = states(path);
    if !is_bad(&named) || !is_bad(&states(&real)) {
        return None;
    }
    let is_off = named.iter().any(|(_, trust)| *trust == HookTrust::Disabled);
    let what = if is_off {
        "one of them is switched off in Codex"
    } else {
        "Codex skips them: its user has not trusted them as they are"
    };
    Some((what.to_owned(), "start `codex`, look at `/hooks`, and trust the hooks of dacapo".to_owned()))
}
