//! The configuration of git as git lists it, asked for once as long as the files that it was read from are the same.

use std::{
    fs,
    sync::{Mutex, PoisonError},
};

use dacapo_core::trust::digest;
use serde::{Deserialize, Serialize};

use super::{checkout::Checkout, error::WorkspaceError, runner::split_nul};
use crate::guard::is_held;

/// What was listed last in this process. It counts only for the very bytes that it was read from.
static LAST: Mutex<Option<ListedConfig>> = Mutex::new(None);

/// What `git config --list --show-scope -z` printed, and a digest of all files that settings were read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedConfig {
    read_from: String,
    printed: String,
    /// Author and committer, if git was asked for them.
    #[serde(default)]
    identities: Option<[String; 2]>,
}

impl ListedConfig {
    /// What was listed last, for a process that works in the same repository.
    pub(crate) fn last() -> Option<Self> {
        LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over what another process has listed.
    pub(crate) fn remember(self) {
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(self);
    }
}

impl Checkout {
    /// Every setting with its scope, as `git config --list --show-scope -z` prints them.
    pub(crate) fn listed_config(&self) -> Result<Vec<u8>, WorkspaceError> {
        let read_from = self.config_files();
        if let (Some(read_from), Some(last)) = (&read_from, ListedConfig::last())
            && last.read_from == *read_from
        {
            return Ok(last.printed.into_bytes());
        }
        let printed = self.call().args(["config", "--list", "--show-scope", "-z"]).ok()?.stdout;
        if let (Some(read_from), Ok(printed)) = (read_from, String::from_utf8(printed.clone())) {
            ListedConfig { read_from, printed, identities: None }.remember();
        }
        Ok(printed)
    }

    /// Author and committer as git writes them into commits, by `ask` if no process has asked with these settings.
    pub(crate) fn identities(
        &self,
        ask: impl FnOnce() -> Result<[String; 2], WorkspaceError>,
    ) -> Result<[String; 2], WorkspaceError> {
        self.listed_config()?;
        let read_from = self.config_files();
        let last = ListedConfig::last().filter(|last| Some(&last.read_from) == read_from.as_ref());
        if let Some(known) = last.as_ref().and_then(|last| last.identities.clone()) {
            return Ok(known);
        }
        let identities = ask()?;
        if let Some(last) = last {
            ListedConfig { identities: Some(identities.clone()), ..last }.remember();
        }
        Ok(identities)
    }

    /// A digest of the files that settings come from; none if one of them includes others, whose edits it would not show.
    fn config_files(&self) -> Option<String> {
        let own = [self.common_dir.join("config"), self.git_dir.join("config.worktree")];
        let mut all = Vec::new();
        for path in own.into_iter().chain(self.git.outer_config()) {
            let bytes = match fs::read(&path) {
                // It comes and goes with the loops of this machine, and says nothing.
                Ok(bytes) if is_held(&path, &bytes) => Vec::new(),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                Err(_) => return None,
            };
            if memchr::memmem::find(&bytes.to_ascii_lowercase(), b"[include").is_some() {
                return None;
            }
            all.extend((bytes.len() as u64).to_be_bytes());
            all.extend(bytes);
        }
        Some(digest(&all))
    }
}

/// The settings of such a list without their scopes, as `git config --list -z` prints them.
pub(crate) fn without_scopes(listed: &[u8]) -> Vec<u8> {
    let settings = split_nul(listed).skip(1).step_by(2);
    settings.flat_map(|setting| [setting, b"\0"].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{git::fixture::Fixture, guard::HeldNames};

    #[test]
    fn settings_are_listed_again_when_a_file_that_they_come_from_has_changed() {
        // fault K3
        let fixture = Fixture::new();
        let checkout = Checkout::find(&fixture.git(), &fixture.repo()).unwrap().unwrap();
        let has = |setting: &str| {
            let listed = without_scopes(&checkout.listed_config().unwrap());
            String::from_utf8(listed).unwrap().contains(setting)
        };
        assert!(!has("filter.evil.clean\ntouch x\0"));
        let asked = fixture.calls();
        assert!(!has("filter.evil.clean\ntouch x\0"));
        assert_eq!(fixture.calls(), asked, "git is not asked twice about the same files");
        fixture.user(&["config", "filter.evil.clean", "touch x"]);
        assert!(has("filter.evil.clean\ntouch x\0"), "a setting of an agent is seen");
        fixture.user(&["config", "--unset", "filter.evil.clean"]);
        assert!(!has("filter.evil.clean\ntouch x\0"));
        // What an included file says does not show in the file that includes it.
        fixture.write("more", "");
        fixture.user(&["config", "include.path", "../more"]);
        assert!(!has("filter.evil"));
        fixture.write("more", "[filter \"evil\"]\n\tclean = touch x\n");
        assert!(has("filter.evil.clean\ntouch x\0"));
    }

    #[test]
    fn who_commits_is_asked_again_when_settings_have_changed() {
        let fixture = Fixture::new();
        let checkout = Checkout::find(&fixture.git(), &fixture.repo()).unwrap().unwrap();
        let answer = |name: &str| Ok([name.to_owned(), name.to_owned()]);
        let never = || -> Result<[String; 2], WorkspaceError> { unreachable!("it is known") };
        assert_eq!(checkout.identities(|| answer("one")).unwrap(), ["one", "one"]);
        assert_eq!(checkout.identities(never).unwrap(), ["one", "one"]);
        fixture.user(&["config", "user.name", "Another"]);
        assert_eq!(checkout.identities(|| answer("two")).unwrap(), ["two", "two"]);
    }

    #[test]
    fn a_file_that_holds_a_name_while_loops_run_changes_no_setting() {
        let fixture = Fixture::new();
        let global = fixture.outside("no-settings");
        let git = fixture.git().with("GIT_CONFIG_GLOBAL", &global);
        let checkout = Checkout::find(&git, &fixture.repo()).unwrap().unwrap();
        let before = checkout.listed_config().unwrap();
        let asked = fixture.calls();
        let held = HeldNames::hold(&fixture.outside("store"), std::slice::from_ref(&global), &[]);
        assert!(global.exists());
        assert_eq!(checkout.listed_config().unwrap(), before);
        drop(held);
        assert_eq!(checkout.listed_config().unwrap(), before);
        assert_eq!(fixture.calls(), asked, "git is not asked again");
    }
}
