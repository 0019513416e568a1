//! What git has said in this process about commits and indexes, for the loops that a job begins one after the other in the same
//! repository.
//!
//! All of it is about bytes that cannot change their meaning: a commit by its id, an index by its digest. An agent that edits the
//! files behind them changes the id or the digest, and git is asked again.

use std::{
    collections::VecDeque,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use dacapo_core::receipt::sha256;

/// How many facts of a kind are kept: a job goes from one worktree to the next, and seldom back.
const MOST: usize = 8;

static KNOWN: Mutex<Known> = Mutex::new(Known {
    trees: VecDeque::new(),
    indexes: VecDeque::new(),
    filled: VecDeque::new(),
    snapshots: VecDeque::new(),
});

struct Known {
    /// Repository and commit, and the tree of the commit.
    trees: VecDeque<((PathBuf, String), String)>,
    indexes: VecDeque<(IndexKey, KnownIndex)>,
    /// Folder of git and commit, and the digest of the index that this process filled with nothing but that commit.
    filled: VecDeque<((PathBuf, String), String)>,
    /// Repository and tree, and a first snapshot that this process took of it.
    snapshots: VecDeque<((PathBuf, String), String)>,
}

/// An index at one moment, beside the commit and the settings that it was looked at with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexKey {
    pub(super) git_dir: PathBuf,
    pub(super) head: String,
    pub(super) config: u64,
    /// SHA-256 of its bytes.
    pub(super) digest: String,
}

/// What git has said about an index in which no file has a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownIndex {
    /// Whether it holds something else than the commit.
    pub(super) has_staged: bool,
    /// As `git ls-files -v -z` prints it.
    pub(super) listed: Vec<u8>,
}

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find<K: PartialEq, V: Clone>(facts: &VecDeque<(K, V)>, key: &K) -> Option<V> {
    facts.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
}

fn keep<K: PartialEq, V>(facts: &mut VecDeque<(K, V)>, key: K, value: V) {
    facts.retain(|(known, _)| *known != key);
    facts.truncate(MOST - 1);
    facts.push_front((key, value));
}

/// The tree of a commit, if git has told it.
pub(super) fn tree_of(repository: &Path, commit: &str) -> Option<String> {
    find(&known().trees, &(repository.to_owned(), commit.to_owned()))
}

pub(super) fn keep_tree(repository: &Path, commit: &str, tree: &str) {
    keep(&mut known().trees, (repository.to_owned(), commit.to_owned()), tree.to_owned());
}

pub(super) fn index(key: &IndexKey) -> Option<KnownIndex> {
    find(&known().indexes, key)
}

pub(super) fn keep_index(key: IndexKey, index: KnownIndex) {
    keep(&mut known().indexes, key, index);
}

/// Notes that the index in `git_dir` was filled with nothing but `head`.
pub(crate) fn keep_filled(git_dir: &Path, head: &str) {
    if let Some(digest) = digest_of_index(git_dir) {
        keep(&mut known().filled, (git_dir.to_owned(), head.to_owned()), digest);
    }
}

/// Whether an index is known to hold nothing but the commit.
pub(super) fn is_as_filled(key: &IndexKey) -> bool {
    find(&known().filled, &(key.git_dir.clone(), key.head.clone())).as_ref() == Some(&key.digest)
}

/// A digest of the index in a folder of git; none if it lies in more than one file.
pub(super) fn digest_of_index(git_dir: &Path) -> Option<String> {
    let is_shared = |entry: io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name().as_bytes().starts_with(b"sharedindex."))
    };
    if fs::read_dir(git_dir).ok()?.any(is_shared) {
        return None;
    }
    fs::read(git_dir.join("index")).ok().map(|bytes| sha256(&bytes))
}

/// A commit without parents that this process made of a tree.
pub(super) fn snapshot_of(repository: &Path, tree: &str) -> Option<String> {
    find(&known().snapshots, &(repository.to_owned(), tree.to_owned()))
}

pub(super) fn keep_snapshot(repository: &Path, tree: &str, id: &str) {
    keep(&mut known().snapshots, (repository.to_owned(), tree.to_owned()), id.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_facts_are_kept_and_a_newer_one_replaces_its_elder() {
        let mut facts = VecDeque::new();
        for n in 0..20 {
            keep(&mut facts, n, n * 2);
        }
        keep(&mut facts, 19, 1);
        assert_eq!(facts.len(), MOST);
        assert_eq!(
            [19, 18, 13, 12].map(|key| find(&facts, &key)),
            [Some(1), Some(36), Some(26), Some(24)],
            "those of an older one make room"
        );
        assert_eq!(find(&facts, &11), None);
    }
}
