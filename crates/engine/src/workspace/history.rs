//! Looking at snapshots and commits: what differs, what a file held, what the agent committed by itself.

use memchr::memchr;

use super::{Change, ChangeKind, error::WorkspaceError, git::by_nul, shadow::Shadow};

/// What every diff is made with: no program of the repository's runs, no setting of the user's changes the form.
const DIFF: &[&str] =
    &["--raw", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-relative", "--no-abbrev"];

impl Shadow {
    pub(crate) fn changes(&self, from: &str, to: &str) -> Result<Vec<Change>, WorkspaceError> {
        let output = self
            .repository
            .call()
            .args(["diff-tree", "-r", "--no-commit-id", "--ignore-submodules=dirty"])
            .args(DIFF)
            .args(["--end-of-options", from, to])
            .ok()?;
        Ok(parse_raw(&output.stdout))
    }

    /// Every path of a snapshot.
    pub(crate) fn files(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let output = self
            .repository
            .call()
            .args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", id])
            .ok()?;
        Ok(by_nul(&output.stdout).map(<[u8]>::to_vec).collect())
    }

    /// Files of the snapshot that are not in the work tree now as they were; new files do not count.
    pub(crate) fn disturbed_since(&self, id: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let (call, _scratch) = self.trusted_call(id)?;
        let output = call
            .args(["diff", "--diff-filter=a", "--ignore-submodules=dirty", "-O/dev/null"])
            .args(DIFF)
            .args([id, "--"])
            .ok()?;
        Ok(parse_raw(&output.stdout).into_iter().map(|change| change.path).collect())
    }

    pub(crate) fn files_at(&self, id: &str, paths: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, WorkspaceError> {
        let names: Vec<Vec<u8>> = paths.iter().map(|path| [id.as_bytes(), b":", path].concat()).collect();
        let input = names.iter().flat_map(|name| [name, &b"\0"[..]].concat()).collect();
        let output = self.repository.call().args(["cat-file", "--batch", "-z"]).input(input).ok()?.stdout;
        let mut rest = output.as_slice();
        let garbled = || WorkspaceError::NoSnapshot(id.to_owned());
        let mut files = Vec::new();
        for name in &names {
            // The name may hold a newline, so the answer is told from what was asked.
            if let Some(after) =
                rest.strip_prefix(name.as_slice()).and_then(|r| r.strip_prefix(b" missing\n"))
            {
                rest = after;
                files.push(None);
                continue;
            }
            let end = memchr(b'\n', rest).ok_or_else(garbled)?;
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            let mut words = head.split(' ').skip(1);
            let (kind, size) = (words.next(), words.next().and_then(|size| size.parse::<usize>().ok()));
            let size = size.ok_or_else(garbled)?;
            let content = rest.get(end + 1..end + 1 + size).ok_or_else(garbled)?;
            files.push((kind == Some("blob")).then(|| content.to_vec()));
            rest = rest.get(end + 2 + size..).ok_or_else(garbled)?;
        }
        Ok(files)
    }

    /// Commits of `head` that are not of `base`, oldest first.
    pub(crate) fn commits_between(
        &self,
        base: Option<&str>,
        head: &str,
    ) -> Result<Vec<String>, WorkspaceError> {
        let mut call = self.repository.call().args(["rev-list", "--reverse", "--end-of-options", head]);
        if let Some(base) = base {
            call = call.args([format!("^{base}")]);
        }
        let output = call.ok()?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}

/// `:mode mode id id X` and a path, each ended by NUL.
fn parse_raw(raw: &[u8]) -> Vec<Change> {
    let mut parts = by_nul(raw);
    let mut changes = Vec::new();
    while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
        let kind = match head.rsplit(|b| *b == b' ').next().and_then(|word| word.first()) {
            Some(b'A') => ChangeKind::Added,
            Some(b'D') => ChangeKind::Deleted,
            Some(b'T') => ChangeKind::TypeChanged,
            _ => ChangeKind::Modified,
        };
        // An unmerged path is told twice.
        if changes.last().is_none_or(|last: &Change| last.path != path) {
            changes.push(Change { kind, path: path.to_vec() });
        }
    }
    changes
}
