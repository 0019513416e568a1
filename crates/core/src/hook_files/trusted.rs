//! Whether Codex will run a hook: its user trusts hooks one by one, by a hash that Codex keeps in the user's configuration.

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{HookKind, SettingsError, hosts::facts, our_command, toml_text};
use crate::session::Host;

/// How a hook stands with the user of Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookTrust {
    Trusted,
    /// Codex skips it without a word.
    Untrusted,
    /// The user switched it off.
    Disabled,
}

/// The hooks of dacapo's in the settings `text` of Codex, which lie at `path`, and how they stand with the user, whose own settings
/// are `users`.
pub fn codex_trust(path: &str, text: &str, users: &str) -> Result<Vec<(HookKind, HookTrust)>, SettingsError> {
    let (table, users) = (toml_text::parse(text)?, toml_text::parse(users)?);
    let states = users.get("hooks").and_then(|hooks| hooks.get("state"));
    let mut found = Vec::new();
    for (event, _) in facts(Host::Codex).events {
        let groups = table.get("hooks").and_then(|hooks| hooks.get(*event)).and_then(toml::Value::as_array);
        for (of_group, group) in groups.into_iter().flatten().enumerate() {
            let handlers = group.get("hooks").and_then(toml::Value::as_array);
            for (of_handler, handler) in handlers.into_iter().flatten().enumerate() {
                let line = handler.get("command").and_then(toml::Value::as_str).unwrap_or_default();
                let Some(command) = our_command(Host::Codex, line) else { continue };
                let state = states
                    .and_then(|all| all.get(format!("{path}:{}:{of_group}:{of_handler}", snake(event))));
                let is_off = state.and_then(|state| state.get("enabled")).and_then(toml::Value::as_bool)
                    == Some(false);
                let hash = state.and_then(|state| state.get("trusted_hash")).and_then(toml::Value::as_str);
                let timeout = handler.get("timeout").and_then(toml::Value::as_integer).unwrap_or(600);
                let trust = match hash {
                    _ if is_off => HookTrust::Disabled,
                    Some(hash) if hash == hash_of(event, line, timeout) => HookTrust::Trusted,
                    _ => HookTrust::Untrusted,
                };
                found.push((command.told, trust));
            }
        }
    }
    Ok(found)
}

/// The hash by which Codex knows a hook again: over its JSON with sorted keys, without blanks.
fn hash_of(event: &str, command: &str, timeout: i64) -> String {
    let handler = json!({"async": false, "command": command, "timeout": timeout, "type": "command"});
    let text = json!({"event_name": snake(event), "hooks": [handler]}).to_string();
    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digest}")
}

/// `UserPromptSubmit` is `user_prompt_submit` in the names of states.
fn snake(event: &str) -> String {
    let mut name = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_that_codex_computes() {
        // Asked of codex 0.166 by `hooks/list` of its app server.
        assert_eq!(
            hash_of("Stop", "/tmp/hx/rec.sh codex-Stop", 600),
            "sha256:e383ee63ee04b0a7ad57699f050b0f8d7548addf7752b9bded310b28413c80ef"
        );
        assert_eq!(
            hash_of("UserPromptSubmit", "/tmp/hx/rec.sh codex-UPS", 600),
            "sha256:3a8df05f051e7859e2c41bbffe98a6b86dffe948ceaa3350eb28f44c757a3926"
        );
    }

    #[test]
    fn a_hook_is_trusted_only_as_it_was_when_the_user_looked_at_it() {
        let hooks = |program: &str| {
            format!(
                "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"{program} hook stop --agent codex\"\ntimeout = 600\n"
            )
        };
        let hash = hash_of("Stop", "dacapo hook stop --agent codex", 600);
        let state = |extra: &str| {
            format!("[hooks.state.\"/c/config.toml:stop:0:0\"]\ntrusted_hash = \"{hash}\"\n{extra}")
        };
        for (text, users, expected) in [
            (hooks("dacapo"), String::new(), HookTrust::Untrusted),
            (hooks("dacapo"), state(""), HookTrust::Trusted),
            (hooks("dacapo"), state("enabled = false\n"), HookTrust::Disabled),
            (hooks("/other/dacapo"), state(""), HookTrust::Untrusted),
        ] {
            assert_eq!(
                codex_trust("/c/config.toml", &text, &users),
                Ok(vec![(HookKind::Stop, expected)]),
                "{users}"
            );
        }
    }
}
