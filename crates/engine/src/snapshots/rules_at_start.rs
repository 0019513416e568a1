//! The rules in force when the loop began: what is ignored and which filters run. An agent that edits them later
//! neither hides its files, nor puts ignored ones into snapshots, nor has its programs run by us (fault K3).

use std::{
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use crate::git::{escaped, split_nul};

/// Untracked files that never enter a snapshot, even if the user's ignore rules let them in.
pub(crate) const SECRETS: &[&str] =
    &[".env*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".netrc", "!.env.example"];

/// The user's configuration, as `git config --list -z` prints it.
pub(crate) struct GitConfig(Vec<(Vec<u8>, Vec<u8>)>);

impl GitConfig {
    pub(crate) fn parse(listed: &[u8]) -> Self {
        let entries = split_nul(listed).map(|entry| match memchr::memchr(b'\n', entry) {
            Some(at) => (entry[..at].to_vec(), entry[at + 1..].to_vec()),
            None => (entry.to_vec(), b"true".to_vec()),
        });
        Self(entries.collect())
    }

    fn last(&self, key: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|(k, _)| k == key.as_bytes()).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.last(key)
            .is_some_and(|v| matches!(v.to_ascii_lowercase().as_slice(), b"true" | b"yes" | b"on" | b"1"))
    }

    /// What the user ignores everywhere.
    pub(crate) fn global_excludes(&self) -> Vec<u8> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let path = match self.last("core.excludesfile") {
            Some(path) => match path.strip_prefix(b"~/") {
                Some(rest) => home.map(|home| home.join(std::ffi::OsStr::from_bytes(rest))),
                None => Some(std::ffi::OsString::from_vec(path.to_vec()).into()),
            },
            None => std::env::var_os("XDG_CONFIG_HOME")
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from)
                .or_else(|| home.map(|home| home.join(".config")))
                .map(|folder| folder.join("git/ignore")),
        };
        path.and_then(|path| fs::read(path).ok()).unwrap_or_default()
    }

    /// The programs that files go through on their way in and out, each with its last value.
    pub(crate) fn filters(&self) -> Vec<(String, String)> {
        let mut filters: Vec<(String, String)> = Vec::new();
        for (key, value) in self.0.iter().filter(|(key, _)| key.starts_with(b"filter.")) {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            filters.retain(|(k, _)| *k != key);
            filters.push((key.into_owned(), value.into_owned()));
        }
        filters
    }
}

/// The settings that make `now` behave as `then`; an error names a filter that cannot be switched off.
pub(crate) fn settings_that_undo_filters(
    then: &[(String, String)],
    now: &[(String, String)],
) -> Result<Vec<String>, String> {
    let mut settings = Vec::new();
    for (key, value) in now {
        if then.iter().any(|(k, v)| (k, v) == (key, value)) {
            continue;
        }
        if key.contains(['=', '\n']) {
            return Err(key.clone());
        }
        let frozen = then.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let nothing = if key.ends_with(".required") { "false" } else { "" };
        settings.push(format!("{key}={}", frozen.unwrap_or(nothing)));
    }
    for (key, value) in then.iter().filter(|(key, _)| !now.iter().any(|(k, _)| k == key)) {
        settings.push(format!("{key}={value}"));
    }
    Ok(settings)
}

/// One list of patterns that ignores what the `.gitignore` files at `paths` ignore, each in its own folder.
///
/// Deeper files come later, as the last match decides.
pub(crate) fn join_ignore_files(toplevel: &Path, mut paths: Vec<Vec<u8>>) -> Vec<u8> {
    paths.sort_by_key(|path| memchr::memchr_iter(b'/', path).count());
    let mut all = Vec::new();
    for path in &paths {
        let file = toplevel.join(std::ffi::OsStr::from_bytes(path));
        // git does not follow a link here either.
        let is_file = fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file());
        let Some(text) = is_file.then(|| fs::read(&file).ok()).flatten() else { continue };
        let folder = &path[..path.len() - b".gitignore".len()];
        for line in text.split(|b| *b == b'\n') {
            all.extend(as_seen_from_top(folder, line.strip_suffix(b"\r").unwrap_or(line)));
        }
    }
    all
}

/// A pattern of `folder` (empty, or ending in a slash) as a pattern of the top, with the end of its line.
fn as_seen_from_top(folder: &[u8], pattern: &[u8]) -> Vec<u8> {
    if pattern.trim_ascii().is_empty() || pattern.starts_with(b"#") {
        return Vec::new();
    }
    let (not, pattern) = match pattern.strip_prefix(b"!") {
        Some(rest) => (&b"!"[..], rest),
        None => (&b""[..], pattern),
    };
    if folder.is_empty() {
        return [not, pattern, b"\n"].concat();
    }
    let body = pattern.trim_ascii_end();
    let is_anchored = memchr::memchr(b'/', body.strip_suffix(b"/").unwrap_or(body)).is_some();
    let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern);
    let anywhere: &[u8] = if is_anchored { b"" } else { b"**/" };
    [not, b"/", &escaped(folder), anywhere, pattern, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_a_folder_means_the_same_from_the_top() {
        for (folder, pattern, expected) in [
            ("", "target/", "target/\n"),
            ("", "!keep", "!keep\n"),
            ("", "# words", ""),
            ("", "   ", ""),
            ("a/", "*.log", "/a/**/*.log\n"),
            ("a/", "/out", "/a/out\n"),
            ("a/", "out/", "/a/**/out/\n"),
            ("a/", "x/y", "/a/x/y\n"),
            ("a/", "!/x", "!/a/x\n"),
            ("a [1]*/", "b", "/a\\ \\[1]\\*/**/b\n"),
        ] {
            let got = as_seen_from_top(folder.as_bytes(), pattern.as_bytes());
            assert_eq!(String::from_utf8_lossy(&got), expected, "{folder} {pattern}");
        }
    }

    #[test]
    fn filters_stay_what_they_were() {
        // fault K3
        let list = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let then = list(&[("filter.lfs.clean", "git-lfs clean"), ("filter.lfs.required", "true")]);
        assert_eq!(settings_that_undo_filters(&then, &then), Ok(vec![]));
        let now = list(&[
            ("filter.lfs.clean", "evil"),
            ("filter.new.process", "evil"),
            ("filter.new.required", "true"),
        ]);
        let expected = [
            "filter.lfs.clean=git-lfs clean",
            "filter.new.process=",
            "filter.new.required=false",
            "filter.lfs.required=true",
        ];
        assert_eq!(settings_that_undo_filters(&then, &now).unwrap(), expected);
        assert!(settings_that_undo_filters(&then, &list(&[("filter.a=b.clean", "evil")])).is_err());
    }
}
