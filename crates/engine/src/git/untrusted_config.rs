//! What an agent can put into the configuration of the repository that all worktrees share, made harmless (fault K3).
//!
//! The machine's and the user's own settings count as they are. Of the repository's own, programs that files go through
//! are run only if they are well known; a merge driver of its own becomes the built-in merge of lines.

use std::collections::BTreeSet;

use super::runner::split_nul;

/// Filters that their tools set up in each repository, and that run nothing of the repository's.
const WELL_KNOWN: &[&str] = &[
    "git-lfs clean -- %f",
    "git-lfs smudge -- %f",
    "git-lfs smudge --skip -- %f",
    "git-lfs filter-process",
    "git-lfs filter-process --skip",
    "\"git-crypt\" clean",
    "\"git-crypt\" smudge",
];

/// The built-in merge of lines, as a command; what has no lines is a conflict, as it is there.
const LINES: &str = "git merge-file -q --marker-size=%L -L ours -L base -L theirs %A %O %B; \
                     code=$?; [ $code -lt 128 ] || code=1; exit $code";

struct Setting {
    is_own: bool,
    key: String,
    value: String,
}

/// The configuration of a repository, each setting with whose it is.
pub(crate) struct UntrustedConfig(Vec<Setting>);

impl UntrustedConfig {
    /// As `git config --list --show-scope -z` prints it.
    pub(crate) fn parse(listed: &[u8]) -> Self {
        let parts: Vec<&[u8]> = split_nul(listed).collect();
        let settings = parts.chunks_exact(2).map(|pair| {
            let (key, value) = match memchr::memchr(b'\n', pair[1]) {
                Some(at) => (&pair[1][..at], &pair[1][at + 1..]),
                None => (pair[1], &b"true"[..]),
            };
            Setting {
                is_own: matches!(pair[0], b"local" | b"worktree"),
                key: String::from_utf8_lossy(key).into_owned(),
                value: String::from_utf8_lossy(value).into_owned(),
            }
        });
        Self(settings.collect())
    }

    /// What outranks the repository's own filters and merge drivers; an error names what cannot be outranked.
    pub(crate) fn undone(&self) -> Result<Vec<String>, String> {
        let mut settings = Vec::new();
        let (mut blanked, mut drivers) = (BTreeSet::new(), BTreeSet::new());
        for key in self.own_keys() {
            let Some((section, name, variable)) = parts(key) else {
                if key == "merge.default" {
                    settings.push(format!("merge.default={}", self.outer(key).unwrap_or("text")));
                }
                continue;
            };
            match (section, variable) {
                ("filter", "clean" | "smudge" | "process") => {
                    let value = self.last(key).unwrap_or_default();
                    if WELL_KNOWN.contains(&value) || self.outer(key) == Some(value) {
                        continue;
                    }
                    blanked.insert(name);
                    settings.push(format!("{key}={}", self.outer(key).unwrap_or_default()));
                }
                ("merge", _) => {
                    drivers.insert(name);
                }
                _ => continue,
            }
            if key.contains('=') {
                return Err(key.to_owned());
            }
        }
        for name in blanked {
            let key = format!("filter.{name}.required");
            settings.push(format!("{key}={}", self.outer(&key).unwrap_or("false")));
        }
        for name in drivers {
            let key = format!("merge.{name}.driver");
            settings.push(format!("{key}={}", self.outer(&key).unwrap_or(LINES)));
        }
        Ok(settings)
    }

    /// Settings that outrank what a call over the network would run.
    pub(crate) fn undone_for_network(&self) -> Vec<String> {
        let mut settings = Vec::new();
        let is_helper = |key: &str| key.starts_with("credential.") && key.ends_with(".helper");
        let keys = self.own_keys();
        if keys.contains("core.sshcommand") {
            let ssh = std::env::var("GIT_SSH").unwrap_or_else(|_| "ssh".to_owned());
            settings.push(format!("core.sshCommand={}", self.outer("core.sshcommand").unwrap_or(&ssh)));
        }
        if keys.iter().any(|key| is_helper(key)) {
            // An empty one empties the list, so that the user's own can be told again.
            settings.push("credential.helper=".to_owned());
            let outer = self.0.iter().filter(|s| !s.is_own && is_helper(&s.key) && !s.key.contains('='));
            settings.extend(outer.map(|setting| format!("{}={}", setting.key, setting.value)));
        }
        settings
    }

    /// All settings, of the machine, the user and the repository, in the order in which git reads them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|setting| (setting.key.as_str(), setting.value.as_str()))
    }

    /// The value that counts.
    pub(crate) fn last(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|setting| setting.key == key).map(|setting| setting.value.as_str())
    }

    /// The value that counts without the repository's own.
    fn outer(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find(|s| !s.is_own && s.key == key).map(|setting| setting.value.as_str())
    }

    fn own_keys(&self) -> BTreeSet<&str> {
        self.0.iter().filter(|setting| setting.is_own).map(|setting| setting.key.as_str()).collect()
    }
}

/// `section.name.variable`; a name may hold dots.
fn parts(key: &str) -> Option<(&str, &str, &str)> {
    let (section, rest) = key.split_once('.')?;
    let (name, variable) = rest.rsplit_once('.')?;
    Some((section, name, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(settings: &[(&str, &str, &str)]) -> UntrustedConfig {
        let text: String =
            settings.iter().map(|(scope, key, value)| format!("{scope}\0{key}\n{value}\0")).collect();
        UntrustedConfig::parse(text.as_bytes())
    }

    #[test]
    fn what_the_repository_would_run_is_outranked() {
        // fault K3
        let lines = format!("merge.x.driver={LINES}");
        for (settings, expected) in [
            (&[("global", "filter.a.clean", "mine"), ("global", "merge.m.driver", "mine")][..], vec![]),
            (&[("local", "filter.lfs.clean", "git-lfs clean -- %f")], vec![]),
            (&[("local", "filter.a.clean", "evil")], vec!["filter.a.clean=", "filter.a.required=false"]),
            (
                &[("system", "filter.a.b.smudge", "mine"), ("worktree", "filter.a.b.smudge", "evil")],
                vec!["filter.a.b.smudge=mine", "filter.a.b.required=false"],
            ),
            (
                &[("local", "filter.a.clean", "evil"), ("worktree", "filter.a.clean", "git-lfs clean -- %f")],
                vec![],
            ),
            (&[("local", "merge.x.name", "no driver")], vec![&lines]),
            (
                &[("local", "merge.x.driver", "evil"), ("global", "merge.x.driver", "mine")],
                vec!["merge.x.driver=mine"],
            ),
            (&[("local", "merge.default", "x"), ("local", "merge.ff", "only")], vec!["merge.default=text"]),
        ] {
            assert_eq!(listed(settings).undone().unwrap(), expected, "{expected:?}");
        }
        assert!(listed(&[("local", "filter.a=b.clean", "evil")]).undone().is_err());
    }

    #[test]
    fn the_users_helpers_survive_those_of_the_repository() {
        let settings = listed(&[
            ("global", "credential.helper", "store"),
            ("local", "credential.https://x.helper", "!evil"),
            ("local", "core.sshcommand", "evil"),
            ("global", "core.sshcommand", "ssh -4"),
        ]);
        let expected = ["core.sshCommand=ssh -4", "credential.helper=", "credential.helper=store"];
        assert_eq!(settings.undone_for_network(), expected);
    }
}
