//! The rules of the loop's beginning, applied: which files count, which are left out, which filters run.

use std::{ffi::OsString, fs, os::unix::ffi::OsStrExt};

use memchr::memmem;

use super::{
    Warning,
    error::WorkspaceError,
    frozen::{self, Config},
    git::{Call, by_nul},
    shadow::Shadow,
    state::{fingerprint_of, replace},
};

/// More files than this hidden by rules that came later are counted, not taken.
const MOST_HIDDEN: usize = 2_000;

impl Shadow {
    /// What keeps filters as they were (fault K3); costs a process only if the configuration was edited or includes
    /// other files, whose edits do not show in it.
    pub(crate) fn filter_settings(&self) -> Result<Vec<String>, WorkspaceError> {
        let path = self.repository.common_dir.join("config");
        let text = fs::read(&path).unwrap_or_default().to_ascii_lowercase();
        let is_same = fingerprint_of(&path) == self.state.config;
        if (is_same && memmem::find(&text, b"[include").is_none()) || self.state.config == 0 {
            return Ok(Vec::new());
        }
        let now = self.list_config()?.filters();
        frozen::undo_filters(&self.state.filters, &now).map_err(|key| WorkspaceError::Damaged {
            path,
            why: format!("the setting `{key}` was added and cannot be switched off"),
        })
    }

    /// A call on the user's own index that may read files, with the filters of the loop's beginning.
    pub(crate) fn guarded(&self) -> Result<Call<'_>, WorkspaceError> {
        let settings = self.filter_settings()?;
        Ok(settings.into_iter().fold(self.repository.call(), Call::config))
    }

    pub(crate) fn list_config(&self) -> Result<Config, WorkspaceError> {
        Ok(Config::parse(&self.repository.call().args(["config", "--list", "-z"]).ok()?.stdout))
    }

    /// The state folder may lie in the work tree, as with a repository of the whole home directory.
    pub(crate) fn own_pattern(&self) -> Vec<u8> {
        match self.home.strip_prefix(&self.repository.toplevel) {
            Ok(inside) if !inside.as_os_str().is_empty() => {
                [b"/", frozen::escaped(inside.as_os_str().as_bytes()).as_slice(), b"/\n"].concat()
            }
            _ => Vec::new(),
        }
    }

    /// A repository inside this one cannot be entered by git and would become a bare commit id (fault H13): it is
    /// left out from now on, and said so.
    pub(crate) fn leave_out(&mut self, nested: &[&str]) -> Result<(), WorkspaceError> {
        let path = self.folder.join("exclude");
        let mut excludes = fs::read(&path).map_err(WorkspaceError::io("read", &path))?;
        let mut entries = Vec::new();
        for name in nested {
            excludes.extend([b"/", frozen::escaped(name.as_bytes()).as_slice(), b"/\n"].concat());
            entries.extend([name.as_bytes(), b"\0"].concat());
            self.warnings.push(Warning::NestedRepository(name.as_bytes().to_vec()));
        }
        replace(&path, &excludes)?;
        self.call()?.args(["update-index", "--force-remove", "-z", "--stdin"]).input(entries).ok()?;
        Ok(())
    }

    /// Adds the rules in the work tree to our own file, where they stay.
    pub(crate) fn freeze_rules(&self) -> Result<(), WorkspaceError> {
        let listed = self.call()?.args(["ls-files", "-z", "--", ":(top,glob)**/.gitignore"]).ok()?.stdout;
        let path = self.folder.join("exclude");
        let own = fs::read(&path).map_err(WorkspaceError::io("read", &path))?;
        let shared = fs::read(self.repository.common_dir.join("info/exclude")).unwrap_or_default();
        let rules = frozen::gather(&self.repository.toplevel, by_nul(&listed).map(<[u8]>::to_vec).collect());
        // Ours come again at the end: nested repositories and the state folder stay out whatever a rule says.
        replace(&path, &[own.as_slice(), b"\n", &shared, b"\n", &rules, &self.own_pattern()].concat())
    }

    /// Corrects the index after rules were edited: new rules hide nothing, dropped ones let nothing in.
    pub(crate) fn apply_frozen_rules(&mut self) -> Result<(), WorkspaceError> {
        let mut rules = OsString::from("--exclude-from=");
        rules.push(self.folder.join("exclude"));
        let list = |what: &[&str]| -> Result<Vec<u8>, WorkspaceError> {
            Ok(self.call()?.args(["ls-files", "-z"]).args(what).args([&rules]).ok()?.stdout)
        };
        let hidden = list(&["--others"])?;
        let ignored = list(&["--cached", "--ignored"])?;
        let start = self.state.start.clone().unwrap_or_default();
        let begun = self.call()?.args(["ls-tree", "-r", "-z", "--name-only", &start]).ok()?.stdout;
        let begun: std::collections::HashSet<&[u8]> = by_nul(&begun).collect();
        let listed =
            |entries: Vec<&[u8]>| entries.iter().flat_map(|e| [*e, b"\0"].concat()).collect::<Vec<u8>>();
        let dropped: Vec<&[u8]> = by_nul(&ignored).filter(|path| !begun.contains(path)).collect();
        if !dropped.is_empty() {
            let input = listed(dropped);
            self.call()?.args(["update-index", "--force-remove", "-z", "--stdin"]).input(input).ok()?;
        }
        // A trailing slash is a nested repository.
        let hidden: Vec<&[u8]> = by_nul(&hidden).filter(|path| !path.ends_with(b"/")).collect();
        if hidden.len() > MOST_HIDDEN {
            self.warnings.push(Warning::HiddenByNewRules(hidden.len()));
        } else if !hidden.is_empty() {
            let input = listed(hidden);
            self.call()?.args(["update-index", "--add", "--remove", "-z", "--stdin"]).input(input).ok()?;
        }
        Ok(())
    }
}
