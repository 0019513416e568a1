//! `sandbox`: what agents and gates may write and reach. A repository may only ask for more of it.

use std::path::PathBuf;

use super::{At, Config, ConfigSection, SettingSource, Sourced, layers::source};
use crate::sandbox::{SandboxMode, SandboxRules, SandboxTier};

pub(super) const KEYS: [&str; 4] = ["mode", "write", "read", "tier"];

/// What a repository may say.
const REPOSITORY_KEYS: [&str; 1] = ["mode"];

/// What a file says about the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSection {
    pub mode: Option<At<SandboxMode>>,
    /// What may be written beside what the mode allows.
    pub write: Vec<At<String>>,
    /// What may be read beside what the mode allows.
    pub read: Vec<At<String>>,
    /// The best tier that may be used.
    pub tier: Option<At<SandboxTier>>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> SandboxSection {
    let keys: &[&str] = if top.is_users() { &KEYS } else { &REPOSITORY_KEYS };
    let Some(mut section) = top.section("sandbox", keys) else { return SandboxSection::default() };
    SandboxSection {
        mode: section.choice("mode", &SandboxMode::WORDS),
        write: places(&mut section, "write"),
        read: places(&mut section, "read"),
        tier: section.choice("tier", &SandboxTier::WORDS),
    }
}

fn places(section: &mut ConfigSection<'_>, key: &str) -> Vec<At<String>> {
    let nodes = section.list(key);
    let mut places = Vec::new();
    for node in nodes {
        let place = node.place;
        let Some(path) = section.text_of(&format!("a path in `sandbox.{key}`"), node) else { continue };
        if path.value.starts_with('/') || path.value == "~" || path.value.starts_with("~/") {
            places.push(path);
        } else {
            section.wrong(place, format!("a path in `sandbox.{key}` must begin with `/` or `~/`"));
        }
    }
    places
}

/// What is in force of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSandbox {
    pub mode: Sourced<SandboxMode>,
    /// The mode that the repository asks for at least, and where.
    pub least: Option<Sourced<SandboxMode>>,
    pub write: Vec<String>,
    pub read: Vec<String>,
    pub tier: Sourced<SandboxTier>,
}

impl EffectiveSandbox {
    /// The rules of a loop, with what was typed, if it was.
    pub fn rules(&self, typed: Option<SandboxMode>, home: Option<&str>) -> SandboxRules {
        let least = self.least.as_ref().map_or(SandboxMode::Off, |least| least.value);
        let place = |path: &String| match (path.strip_prefix('~'), home) {
            (Some(below), Some(home)) => PathBuf::from(format!("{home}{below}")),
            _ => PathBuf::from(path),
        };
        SandboxRules {
            mode: typed.unwrap_or(self.mode.value).max(least),
            tier: self.tier.value,
            write: self.write.iter().map(place).collect(),
            read: self.read.iter().map(place).collect(),
        }
    }
}

pub(super) fn resolve(user: &Config, repository: &Config) -> EffectiveSandbox {
    let default = |value| Sourced { value, from: SettingSource::Default };
    let of = |config: &Config| {
        config.sandbox.mode.as_ref().map(|at| Sourced { value: at.value, from: source(config, at.line) })
    };
    let (users, least) = (of(user).unwrap_or_else(|| default(SandboxMode::default())), of(repository));
    let mode = match &least {
        Some(least) if least.value > users.value => least.clone(),
        _ => users,
    };
    let texts = |all: &Vec<At<String>>| all.iter().map(|at| at.value.clone()).collect();
    EffectiveSandbox {
        mode,
        least,
        write: texts(&user.sandbox.write),
        read: texts(&user.sandbox.read),
        tier: user.sandbox.tier.as_ref().map_or(
            Sourced { value: SandboxTier::default(), from: SettingSource::Default },
            |at| Sourced { value: at.value, from: source(user, at.line) },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Author, Typed, parse, resolve};

    fn rules(user: &str, repository: &str, typed: Option<SandboxMode>) -> SandboxRules {
        let user = parse("user.yaml", user.as_bytes(), Author::User).unwrap();
        let repository = parse("repo.yaml", repository.as_bytes(), Author::Repository).unwrap();
        resolve(&user, &repository, &Typed::default()).sandbox.rules(typed, Some("/home/u"))
    }

    #[test]
    fn a_repository_can_only_tighten_and_the_user_says_the_rest() {
        use SandboxMode::{Guard, Off, Workspace};
        for (user, repository, typed, mode) in [
            ("", "", None, Guard),
            ("", "sandbox: {mode: off}", None, Guard),
            ("", "sandbox: {mode: workspace}", None, Workspace),
            ("", "sandbox: {mode: workspace}", Some(Off), Workspace),
            ("sandbox: {mode: off}", "", None, Off),
            ("sandbox: {mode: off}", "sandbox: {mode: guard}", None, Guard),
            ("sandbox: {mode: workspace}", "", Some(Guard), Guard),
            ("", "", Some(Off), Off),
        ] {
            assert_eq!(rules(user, repository, typed).mode, mode, "{user} {repository} {typed:?}");
        }
        let all = rules("sandbox: {write: [~/x, /y], read: [~/.ssh], tier: landlock}", "", None);
        assert_eq!(all.write, ["/home/u/x", "/y"].map(PathBuf::from));
        assert_eq!((all.read, all.tier), (vec!["/home/u/.ssh".into()], SandboxTier::Landlock));
    }

    #[test]
    fn what_a_repository_may_not_say_and_paths_that_mean_another_place_each_time_are_refused() {
        for (text, author, wanted) in [
            ("sandbox: {write: [/x]}", Author::Repository, "unknown key `write`"),
            ("sandbox: {tier: none}", Author::Repository, "unknown key `tier`"),
            ("sandbox: {write: [x]}", Author::User, "must begin with `/` or `~/`"),
            ("sandbox: {mode: on}", Author::User, "`sandbox.mode` must be `off` or `guard` or `workspace`"),
        ] {
            let problems = parse("f.yaml", text.as_bytes(), author).unwrap_err().to_string();
            assert!(problems.contains(wanted), "{text}: {problems}");
        }
    }
}
