//! What decides where a push goes and what it runs, remembered from before the first agent (fault K3).

use serde::{Deserialize, Serialize};

use super::Repository;
use crate::git::{UntrustedConfig, WorkspaceError};

/// Sections whose every setting can turn a push elsewhere, or let others read it.
const SECTIONS: [&str; 7] = ["remote", "url", "credential", "http", "ssh", "protocol", "push"];
/// Single settings that can.
const SETTINGS: [&str; 3] = ["core.sshcommand", "core.gitproxy", "core.askpass"];

/// The remote that branches go to, and every setting that decides how they get there. It may hold secrets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRoute {
    remote: Option<String>,
    settings: Vec<(String, String)>,
}

/// A value may be a password.
impl std::fmt::Debug for PushRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushRoute").field("remote", &self.remote).finish_non_exhaustive()
    }
}

impl PushRoute {
    /// `target` is the branch whose remote it is, if that has one of its own.
    pub(crate) fn of(remote: Option<String>, target: &str, settings: &UntrustedConfig) -> Self {
        let own = ["remote", "pushremote"].map(|variable| format!("branch.{target}.{variable}"));
        let decides = |key: &str| {
            let section = key.split('.').next().unwrap_or_default();
            SECTIONS.contains(&section) || SETTINGS.contains(&key) || own.iter().any(|own| own == key)
        };
        let settings = settings.all().filter(|(key, _)| decides(key));
        Self { remote, settings: settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect() }
    }

    /// The remote, if there is one.
    pub fn remote(&self) -> Option<&str> {
        self.remote.as_deref()
    }

    /// The names of settings that are others now, each once, sorted; none if all is as it was.
    pub fn changed(&self, now: &Self) -> Vec<String> {
        let values = |route: &Self, key: &str| -> Vec<String> {
            route.settings.iter().filter(|(known, _)| known == key).map(|(_, value)| value.clone()).collect()
        };
        let mut keys: Vec<String> =
            self.settings.iter().chain(&now.settings).map(|(key, _)| key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| values(self, key) != values(now, key));
        keys
    }
}

impl Repository {
    /// How branches that are to become part of `target` would be pushed now.
    pub fn route(&self, target: &str) -> Result<PushRoute, WorkspaceError> {
        Ok(PushRoute::of(self.default_remote(target)?, target, &self.planted(&self.checkout)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(settings: &[(&str, &str, &str)]) -> PushRoute {
        let text: String =
            settings.iter().map(|(scope, key, value)| format!("{scope}\0{key}\n{value}\0")).collect();
        PushRoute::of(Some("origin".to_owned()), "main", &UntrustedConfig::parse(text.as_bytes()))
    }

    #[test]
    fn whatever_turns_a_push_elsewhere_is_noticed() {
        // fault K3
        let before = [("local", "remote.origin.url", "/r"), ("global", "user.name", "me")];
        for (scope, key, value, is_changed) in [
            ("local", "remote.origin.url", "/evil", true),
            ("local", "remote.origin.pushurl", "/evil", true),
            ("local", "remote.upstream.url", "/evil", true),
            ("local", "url./evil.insteadof", "/r", true),
            ("global", "url./evil.pushinsteadof", "/r", true),
            ("local", "remote.origin.receivepack", "evil", true),
            ("local", "remote.origin.proxy", "http://evil", true),
            ("local", "core.sshcommand", "evil", true),
            ("local", "core.gitproxy", "evil", true),
            ("local", "core.askpass", "evil", true),
            ("local", "credential.helper", "!evil", true),
            ("worktree", "credential.https://x.helper", "!evil", true),
            ("local", "http.proxy", "http://evil", true),
            ("local", "http.https://x.sslverify", "false", true),
            ("local", "ssh.variant", "plink", true),
            ("local", "protocol.ext.allow", "always", true),
            ("local", "push.pushoption", "x", true),
            ("local", "branch.main.remote", "evil", true),
            ("local", "branch.main.pushremote", "evil", true),
            ("local", "branch.other.remote", "origin", false),
            ("local", "user.email", "a@b", false),
            ("local", "core.bare", "false", false),
        ] {
            let mut after = before.to_vec();
            after.push((scope, key, value));
            let expected: Vec<&str> = if is_changed { vec![key] } else { Vec::new() };
            assert_eq!(route(&before).changed(&route(&after)), expected, "{key}");
            assert_eq!(route(&after).changed(&route(&before)), expected, "{key} is gone");
        }
    }
}
