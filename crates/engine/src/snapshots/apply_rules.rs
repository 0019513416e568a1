//! The rules of the loop's beginning, applied: which files count, which are left out, which filters run.

use std::{ffi::OsString, fs, os::unix::ffi::OsStrExt};

use memchr::memmem;

use super::{
    Warning,
    rules_at_start::{self, GitConfig},
    shadow::Shadow,
};
use crate::git::{
    Checkout, GitCall, UntrustedConfig, WorkspaceError, escaped, replace, split_nul, without_scopes,
};

/// More files than this hidden by rules that came later are counted, not taken.
const MOST_HIDDEN: usize = 2_000;

impl Shadow {
    /// What keeps filters as they were (fault K3); costs a process once after the configuration was edited, and always
    /// if it includes other files, whose edits do not show in it.
    pub(crate) fn filter_settings(&self) -> Result<Vec<String>, WorkspaceError> {
        let (print, is_all) = self.config_fingerprint();
        if (print == self.state.config && is_all) || self.state.config == 0 {
            return Ok(Vec::new());
        }
        if let (true, Some((known, settings))) = (is_all, &*self.undone.borrow())
            && *known == print
        {
            return Ok(settings.clone());
        }
        let now = self.list_config()?.filters();
        let settings =
            rules_at_start::settings_that_undo_filters(&self.state.filters, &now).map_err(|key| {
                let why = format!("the setting `{key}` was added and cannot be switched off");
                WorkspaceError::Damaged { path: self.checkout.common_dir.join("config"), why }
            })?;
        self.undone.replace(Some((print, settings.clone())));
        Ok(settings)
    }

    /// The files that settings are read from, as one number, and whether the repository's name no others.
    ///
    /// What the user's own files include is not looked at: a process per call would be the price, and many have some.
    pub(crate) fn config_fingerprint(&self) -> (u64, bool) {
        let Checkout { git, git_dir, common_dir, .. } = &self.checkout;
        let of_repository: Vec<u8> = [common_dir.join("config"), git_dir.join("config.worktree")]
            .iter()
            .flat_map(|path| fs::read(path).unwrap_or_default())
            .collect();
        let is_all = memmem::find(&of_repository.to_ascii_lowercase(), b"[include").is_none();
        let outer = git.outer_config().into_iter().flat_map(|path| fs::read(path).unwrap_or_default());
        let all: Vec<u8> = of_repository.into_iter().chain(outer).collect();
        (dacapo_core::ids::fingerprint(&all), is_all)
    }

    /// The filters that hold while the loop lasts, and the print of a configuration that needs nothing undone for them.
    ///
    /// What the user has set up counts: in a run of several loops, what was set up when the run began. In a worktree of ours, and in a
    /// repository that an agent chose for a child loop, the configuration is one that agents could write to before: there, as
    /// everywhere in the work on units, the repository's own filters count only if they are well known.
    pub(crate) fn filters_to_keep(
        &self,
        config: &GitConfig,
    ) -> Result<(Vec<(String, String)>, u64), WorkspaceError> {
        let (mut filters, print) = (config.filters(), self.config_fingerprint().0);
        if let Some(given) = &self.given_filters {
            // No configuration has the other print, so that each call looks.
            return Ok((given.clone(), if *given == filters { print } else { !print }));
        }
        if !self.is_chosen_by_agent && !self.checkout.toplevel.starts_with(self.home.join("worktrees")) {
            return Ok((filters, print));
        }
        let listed = self.checkout.listed_config()?;
        let undone = UntrustedConfig::parse(&listed).undone().map_err(|key| {
            let why = format!("the setting `{key}` would run a program and cannot be switched off");
            WorkspaceError::Damaged { path: self.checkout.common_dir.join("config"), why }
        })?;
        let mut is_as_it_is = true;
        for (key, value) in undone.iter().filter_map(|setting| setting.split_once('=')) {
            if !key.starts_with("filter.") {
                continue;
            }
            is_as_it_is = false;
            filters.retain(|(known, _)| known != key);
            filters.push((key.to_owned(), value.to_owned()));
        }
        // No configuration has the other print, so that each call looks.
        Ok((filters, if is_as_it_is { print } else { !print }))
    }

    /// A call on the user's own index that may read files, with the filters of the loop's beginning.
    pub(crate) fn call_with_start_filters(&self) -> Result<GitCall<'_>, WorkspaceError> {
        let settings = self.filter_settings()?;
        Ok(settings.into_iter().fold(self.checkout.call(), GitCall::config))
    }

    pub(crate) fn list_config(&self) -> Result<GitConfig, WorkspaceError> {
        Ok(GitConfig::parse(&without_scopes(&self.checkout.listed_config()?)))
    }

    /// The state folder may lie in the work tree, as with a repository of the whole home directory.
    pub(crate) fn state_folder_pattern(&self) -> Vec<u8> {
        match self.home.strip_prefix(&self.checkout.toplevel) {
            Ok(inside) if !inside.as_os_str().is_empty() => {
                [b"/", escaped(inside.as_os_str().as_bytes()).as_slice(), b"/\n"].concat()
            }
            _ => Vec::new(),
        }
    }

    /// A repository inside this one cannot be entered by git and would become a bare commit id (fault H13): it is
    /// left out from now on, and said so.
    pub(crate) fn exclude_nested_repositories(&mut self, nested: &[&str]) -> Result<(), WorkspaceError> {
        let path = self.folder.join("exclude");
        let mut excludes = fs::read(&path).map_err(WorkspaceError::io("read", &path))?;
        let mut entries = Vec::new();
        for name in nested {
            excludes.extend([b"/", escaped(name.as_bytes()).as_slice(), b"/\n"].concat());
            entries.extend([name.as_bytes(), b"\0"].concat());
            self.warnings.push(Warning::NestedRepository(name.as_bytes().to_vec()));
        }
        replace(&path, &excludes)?;
        self.call()?.args(["update-index", "--force-remove", "-z", "--stdin"]).input(entries).ok()?;
        Ok(())
    }

    /// Adds the rules in the work tree to our own file, where they stay. `known` are all files with a letter and a space
    /// before each, if the caller has just listed them.
    pub(crate) fn freeze_rules(&self, known: Option<&[u8]>) -> Result<(), WorkspaceError> {
        let is_rules = |path: &&[u8]| *path == b".gitignore" || path.ends_with(b"/.gitignore");
        let files: Vec<Vec<u8>> = match known {
            Some(known) => {
                let paths = split_nul(known).filter_map(|entry| entry.get(2..));
                paths.filter(is_rules).map(<[u8]>::to_vec).collect()
            }
            None => {
                let list = self.call()?.args(["ls-files", "-z", "--", ":(top,glob)**/.gitignore"]);
                split_nul(&list.ok()?.stdout).map(<[u8]>::to_vec).collect()
            }
        };
        let path = self.folder.join("exclude");
        let own = fs::read(&path).map_err(WorkspaceError::io("read", &path))?;
        let shared = fs::read(self.checkout.common_dir.join("info/exclude")).unwrap_or_default();
        let rules = rules_at_start::join_ignore_files(&self.checkout.toplevel, files);
        // dacapo's own rules come again at the end, so that no rule of the repository can bring nested repositories or the
        // state folder into a snapshot.
        replace(
            &path,
            &[own.as_slice(), b"\n", &shared, b"\n", &rules, &self.state_folder_pattern()].concat(),
        )
    }

    /// Corrects the index after rules were edited: new rules hide nothing, dropped ones let nothing in, which they can
    /// only have done if anything was added. Says whether there was something to correct.
    pub(crate) fn apply_rules_at_start(&mut self, was_added: bool) -> Result<bool, WorkspaceError> {
        let mut rules = OsString::from("--exclude-from=");
        rules.push(self.folder.join("exclude"));
        let list = |what: &[&str]| -> Result<Vec<u8>, WorkspaceError> {
            Ok(self.call()?.args(["ls-files", "-z"]).args(what).args([&rules]).ok()?.stdout)
        };
        let listed =
            |entries: Vec<&[u8]>| entries.iter().flat_map(|e| [*e, b"\0"].concat()).collect::<Vec<u8>>();
        let hidden = list(&["--others"])?;
        let ignored = if was_added { list(&["--cached", "--ignored"])? } else { Vec::new() };
        let mut is_corrected = false;
        if !ignored.is_empty() {
            let start = self.state.start.clone().unwrap_or_default();
            let begun = self.call()?.args(["ls-tree", "-r", "-z", "--name-only", &start]).ok()?.stdout;
            let begun: std::collections::HashSet<&[u8]> = split_nul(&begun).collect();
            let dropped: Vec<&[u8]> = split_nul(&ignored).filter(|path| !begun.contains(path)).collect();
            if !dropped.is_empty() {
                let input = listed(dropped);
                self.call()?.args(["update-index", "--force-remove", "-z", "--stdin"]).input(input).ok()?;
                is_corrected = true;
            }
        }
        // A trailing slash is a nested repository.
        let hidden: Vec<&[u8]> = split_nul(&hidden).filter(|path| !path.ends_with(b"/")).collect();
        if hidden.len() > MOST_HIDDEN {
            self.warnings.push(Warning::HiddenByNewRules(hidden.len()));
        } else if !hidden.is_empty() {
            let kept = hidden.iter().map(|path| path.to_vec()).collect();
            let input = listed(hidden);
            self.call()?.args(["update-index", "--add", "--remove", "-z", "--stdin"]).input(input).ok()?;
            self.warnings.push(Warning::KeptDespiteNewRules(kept));
            is_corrected = true;
        }
        Ok(is_corrected)
    }
}
