//! Moving a branch that is checked out: its ref, its files and its index, or none of them.
//!
//! Three things cannot change at once. So what is about to happen is written down first, then the ref is swapped, which
//! git does atomically, then files and index follow. A dacapo that finds the note after a crash knows which files are as
//! they were, which are as they will be, and which were edited since: without such, the rest follows; with one, all
//! that we wrote is put back, and so is the ref. So they are if the files cannot be written.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use dacapo_core::stages::task::FOLDER;
use serde::{Deserialize, Serialize};

use super::{RefSwap, Repository, branch_of};
use crate::{
    git::{Checkout, RepositoryProblem, WorkspaceError, remove_stale_lock, replace, split_nul},
    scratch::Scratch,
};

/// A branch on its way from one commit to another, in the worktree that it is checked out in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BranchMove {
    pub(crate) worktree: PathBuf,
    pub(crate) branch: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(crate) enum BranchMoveResult {
    Done,
    /// Something that is not committed is in the way.
    Dirty(Vec<String>),
    /// The branch was not where it should have been.
    Overtaken {
        now: String,
    },
}

/// How a move that was cut short was settled.
#[derive(Debug, PartialEq)]
pub(crate) enum InterruptedMove {
    /// It is complete, or there was none.
    Done,
    /// It was undone, because of files that were edited since.
    Edited(Vec<String>),
    /// It was undone, because files could not be written.
    Undone { why: String },
}

/// A path that differs between the two commits. No mode means that it is not there.
struct Changed {
    path: Vec<u8>,
    old: Option<(String, String)>,
    new: Option<(String, String)>,
}

impl Changed {
    /// A submodule's files are its own affair.
    fn is_link(&self) -> bool {
        [&self.old, &self.new].into_iter().flatten().any(|(mode, _)| mode == "160000")
    }
}

/// How the file at a path is.
#[derive(Clone, Copy, PartialEq)]
enum FileVersion {
    Old,
    New,
    Neither,
}

impl Repository {
    fn note_path(&self) -> PathBuf {
        self.home.path().join("moving").join(format!("repo-{:016x}.json", self.checkout.fingerprint()))
    }

    /// Moves the branch with its checkout. The caller holds the repository's lock and has recovered.
    pub(crate) fn shift(&self, step: &BranchMove) -> Result<BranchMoveResult, WorkspaceError> {
        let worktree = self.at(&step.worktree)?;
        if branch_of(&worktree)?.as_deref() != Some(step.branch.as_str()) {
            return Err(WorkspaceError::OtherBranch { dir: worktree.toplevel, branch: step.branch.clone() });
        }
        match worktree.check_files() {
            Err(WorkspaceError::Refused { state, .. }) => {
                return Ok(BranchMoveResult::Dirty(vec![state.to_string()]));
            }
            other => other?,
        }
        let mut dirty = self.dirt_before_change(&worktree)?;
        let changed = self.changed(&worktree, step)?;
        // The user may edit tasks while others are worked on.
        let is_touched = |path: &String| changed.iter().any(|changed| changed.path == path.as_bytes());
        dirty.retain(|path| !path.starts_with(FOLDER) || is_touched(path));
        dirty.extend(self.in_the_way(&worktree, &changed)?);
        if !dirty.is_empty() {
            return Ok(BranchMoveResult::Dirty(dirty));
        }
        self.note_move(step)?;
        match self.swap_for(step)? {
            RefSwap::Yes => {}
            RefSwap::Not { now } => {
                self.forget_move()?;
                return Ok(BranchMoveResult::Overtaken { now });
            }
        }
        if self.move_files(&worktree, step).is_ok() {
            self.forget_move()?;
            return Ok(BranchMoveResult::Done);
        }
        // The user edited a file after we had looked, or git was stopped: proceed as after a crash.
        match self.recover_locked()? {
            InterruptedMove::Done => Ok(BranchMoveResult::Done),
            InterruptedMove::Edited(paths) => Ok(BranchMoveResult::Dirty(paths)),
            InterruptedMove::Undone { why } => {
                let (branch, dir) = (step.branch.clone(), worktree.toplevel);
                Err(WorkspaceError::NotFollowed { branch, dir, why })
            }
        }
    }

    /// The first step: what is about to happen, where it is found after a crash.
    pub(crate) fn note_move(&self, step: &BranchMove) -> Result<(), WorkspaceError> {
        let path = self.note_path();
        let folder = self.home.path().join("moving");
        crate::home::make_dir(&folder).map_err(WorkspaceError::io("make", &folder))?;
        let bytes = serde_json::to_vec(step)
            .map_err(|e| WorkspaceError::Damaged { path: path.clone(), why: e.to_string() })?;
        replace(&path, &bytes)?;
        // git syncs refs, and a ref that moved without its note would be a riddle.
        for written in [&path, &folder] {
            let synced = fs::File::open(written).and_then(|file| file.sync_all());
            synced.map_err(WorkspaceError::io("sync", written))?;
        }
        Ok(())
    }

    pub(crate) fn swap_for(&self, step: &BranchMove) -> Result<RefSwap, WorkspaceError> {
        self.swap(&step.branch, &step.new, Some(&step.old))
    }

    /// The third step: refuses, as a whole, to touch what differs from the index.
    pub(crate) fn move_files(&self, worktree: &Checkout, step: &BranchMove) -> Result<(), WorkspaceError> {
        let args = ["read-tree", "-m", "-u", "--no-recurse-submodules", &step.old, &step.new];
        let read = || Ok::<_, WorkspaceError>(self.guarded(worktree)?.args(args).patiently(10).ok()?);
        if read().is_ok() {
            return Ok(());
        }
        // A file whose times alone differ is taken for a changed one. The exit code says whether files differ; what counts is that
        // the others are known not to.
        self.guarded(worktree)?.args(["update-index", "-q", "--refresh"]).patiently(5).run()?;
        read().map(drop)
    }

    pub(crate) fn forget_move(&self) -> Result<(), WorkspaceError> {
        let path = self.note_path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WorkspaceError::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Completes or undoes a move that was cut short.
    pub(crate) fn recover(&self) -> Result<(), WorkspaceError> {
        if !self.note_path().exists() {
            return Ok(());
        }
        let _lock = self.lock()?;
        self.recover_locked().map(drop)
    }

    /// As `recover`, for a caller that holds the repository's lock.
    pub(crate) fn recover_locked(&self) -> Result<InterruptedMove, WorkspaceError> {
        let path = self.note_path();
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(InterruptedMove::Done),
            bytes => bytes.map_err(WorkspaceError::io("read", &path))?,
        };
        let over = || self.forget_move().map(|()| InterruptedMove::Done);
        let Ok(step) = serde_json::from_slice::<BranchMove>(&bytes) else { return over() };
        let is_there = self.branch(&step.branch)?.as_ref() == Some(&step.new);
        let worktree = match self.at(&step.worktree) {
            Ok(worktree) if is_there && branch_of(&worktree)?.as_ref() == Some(&step.branch) => worktree,
            // Files only follow a ref that moved; and a checkout that is gone or elsewhere has nothing to follow.
            _ => return over(),
        };
        let since = fs::metadata(&path).and_then(|metadata| metadata.modified());
        remove_stale_lock(&worktree, since.unwrap_or_else(|_| SystemTime::now()))?;
        match worktree.check_files() {
            // The user has begun something there since; it has to end first.
            Err(WorkspaceError::Refused { state: RepositoryProblem::Midway(_), .. }) => {
                return Ok(InterruptedMove::Done);
            }
            other => other?,
        }
        let settled = match self.complete(&worktree, &step) {
            Ok(edited) if edited.is_empty() => InterruptedMove::Done,
            Ok(edited) => InterruptedMove::Edited(edited),
            // A full disk, or a folder that is not ours to write: a commit on top of what the files do not follow would
            // take it back.
            Err(why) => match self.undo(&worktree, &step) {
                Ok(()) => InterruptedMove::Undone { why: why.to_string() },
                Err(second) => {
                    let (branch, dir) = (step.branch, worktree.toplevel);
                    return Err(WorkspaceError::HalfMoved { branch, dir, why: format!("{why}; {second}") });
                }
            },
        };
        self.forget_move()?;
        Ok(settled)
    }

    /// Makes files, index and ref what they were.
    fn undo(&self, worktree: &Checkout, step: &BranchMove) -> Result<(), WorkspaceError> {
        let changed = self.changed(worktree, step)?;
        let states = self.states(worktree, step, &changed)?;
        self.put_back(worktree, step, &changed, &states)
    }

    /// Makes files and index those of the new commit, if the user has edited none of them since; else those of the old.
    /// Names those that were edited.
    fn complete(&self, worktree: &Checkout, step: &BranchMove) -> Result<Vec<String>, WorkspaceError> {
        let changed = self.changed(worktree, step)?;
        let states = self.states(worktree, step, &changed)?;
        let index = self.index(worktree)?;
        let is_known = |entry: &Changed| {
            let now = index.get(&entry.path);
            now == entry.old.as_ref() || now == entry.new.as_ref()
        };
        let is_edited = |(c, like): &(&Changed, &FileVersion)| **like == FileVersion::Neither || !is_known(c);
        let edited: Vec<String> = changed
            .iter()
            .zip(&states)
            .filter(is_edited)
            .map(|(c, _)| String::from_utf8_lossy(&c.path).into_owned())
            .collect();
        if edited.is_empty() {
            let files: Vec<&Changed> = like(FileVersion::Old, &changed, &states).collect();
            let entries: Vec<&Changed> = changed.iter().collect();
            self.write(worktree, &files, &entries, |c| &c.new)?;
        } else {
            self.put_back(worktree, step, &changed, &states)?;
        }
        Ok(edited)
    }

    /// Makes the old ones of all files and entries of the index that are the new ones, and of the ref.
    fn put_back(
        &self,
        worktree: &Checkout,
        step: &BranchMove,
        changed: &[Changed],
        states: &[FileVersion],
    ) -> Result<(), WorkspaceError> {
        let index = self.index(worktree)?;
        let files: Vec<&Changed> = like(FileVersion::New, changed, states).collect();
        let entries: Vec<&Changed> =
            changed.iter().filter(|c| c.old != c.new && index.get(&c.path) == c.new.as_ref()).collect();
        // Files that only the new commit has are removed first, to make room. Those that cannot be removed are met again
        // below.
        for entry in files.iter().filter(|c| c.old.is_none() && !c.is_link()) {
            let _ = remove(&worktree.toplevel, &entry.path);
        }
        let written = self.write(worktree, &files, &entries, |c| &c.old);
        // The branch moves back even if some files could not be written: wrong files do less harm than a wrong branch.
        match self.swap(&step.branch, &step.old, Some(&step.new))? {
            RefSwap::Not { now } if now != step.old => {
                Err(WorkspaceError::BranchMoved { branch: step.branch.clone(), now })
            }
            _ => written,
        }
    }

    /// Writes one side of `files` into the work tree, and of `entries` into the index.
    fn write(
        &self,
        worktree: &Checkout,
        files: &[&Changed],
        entries: &[&Changed],
        side: impl Fn(&Changed) -> &Option<(String, String)>,
    ) -> Result<(), WorkspaceError> {
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let zeros =
            |c: &Changed| "0".repeat(c.old.as_ref().or(c.new.as_ref()).map_or(40, |(_, id)| id.len()));
        let line = |c: &Changed| match side(c) {
            Some((mode, id)) => [format!("{mode} {id}\t").as_bytes(), &c.path, b"\0"].concat(),
            None => [format!("0 {}\t", zeros(c)).as_bytes(), &c.path, b"\0"].concat(),
        };
        let (gone, there): (Vec<&Changed>, Vec<&Changed>) =
            files.iter().filter(|c| !c.is_link()).partition(|c| side(c).is_none());
        let is_below = |a: &[u8], b: &[u8]| a.strip_prefix(b).is_some_and(|rest| rest.first() == Some(&b'/'));
        // Files in the way of new ones are removed first, all others last: if a write fails, as few files as possible
        // are gone.
        let (first, last): (Vec<&Changed>, Vec<&Changed>) = gone.into_iter().partition(|c| {
            there.iter().any(|other| is_below(&other.path, &c.path) || is_below(&c.path, &other.path))
        });
        for entry in first {
            remove(&worktree.toplevel, &entry.path)?;
        }
        if !there.is_empty() {
            let own = scratch.path().join("index");
            let input = there.iter().flat_map(|c| line(c)).collect();
            let call = || Ok::<_, WorkspaceError>(self.guarded(worktree)?.env("GIT_INDEX_FILE", &own));
            call()?.args(["update-index", "--add", "-z", "--index-info"]).input(input).ok()?;
            call()?.args(["checkout-index", "--force", "--quiet", "--all"]).patiently(10).ok()?;
        }
        for entry in last {
            remove(&worktree.toplevel, &entry.path)?;
        }
        // What goes makes room for what comes: a file may have become a folder.
        let (gone, there): (Vec<&Changed>, Vec<&Changed>) = entries.iter().partition(|c| side(c).is_none());
        let input: Vec<u8> = gone.iter().chain(&there).flat_map(|c| line(c)).collect();
        let update = ["update-index", "--add", "--remove", "--replace", "-z", "--index-info"];
        self.guarded(worktree)?.args(update).input(input).ok()?;
        self.guarded(worktree)?.args(["update-index", "-q", "--refresh"]).patiently(5).run()?;
        Ok(())
    }

    /// Untracked files, ignored ones too, that lie where the new commit has something.
    fn in_the_way(&self, worktree: &Checkout, changed: &[Changed]) -> Result<Vec<String>, WorkspaceError> {
        let mut found = Vec::new();
        for entry in changed.iter().filter(|c| c.new.is_some() && !c.is_link()) {
            let is_file_there = entry.old.is_none() && is_file(&worktree.toplevel, &entry.path);
            if is_file_there || self.is_blocked(worktree, changed, &entry.path)? {
                found.push(String::from_utf8_lossy(&entry.path).into_owned());
            }
        }
        Ok(found)
    }

    /// Whether something that neither commit has keeps a file from being written at `path`.
    fn is_blocked(
        &self,
        worktree: &Checkout,
        changed: &[Changed],
        path: &[u8],
    ) -> Result<bool, WorkspaceError> {
        let parents = memchr::memchr_iter(b'/', path).map(|at| &path[..at]);
        for parent in parents {
            let is_known = changed.iter().any(|c| c.path == parent);
            if !is_known && is_file(&worktree.toplevel, parent) {
                return Ok(true);
            }
        }
        let place = worktree.toplevel.join(OsStr::from_bytes(path));
        if !fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(false);
        }
        let inside = [path, b"/"].concat();
        let mut call =
            worktree.call().env("GIT_LITERAL_PATHSPECS", "1").args(["ls-files", "--others", "-z", "--"]);
        call = call.args([OsStr::from_bytes(&inside)]);
        Ok(!call.ok()?.stdout.is_empty())
    }

    /// What differs between the two commits.
    fn changed(&self, worktree: &Checkout, step: &BranchMove) -> Result<Vec<Changed>, WorkspaceError> {
        let args = ["diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", "--no-commit-id"];
        let call = worktree.call().args(args).args(["--no-ext-diff", "--no-textconv", "--no-relative"]);
        let raw = call.args([&step.old, &step.new]).ok()?.stdout;
        let mut parts = split_nul(&raw);
        let mut changed = Vec::new();
        while let (Some(head), Some(path)) = (parts.next(), parts.next()) {
            // `:mode mode id id X`
            let head = String::from_utf8_lossy(head).into_owned();
            let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
            let [old_mode, new_mode, old_id, new_id, _] = words[..] else { continue };
            let side = |mode: &str, id: &str| (mode != "000000").then(|| (mode.to_owned(), id.to_owned()));
            let (old, new) = (side(old_mode, old_id), side(new_mode, new_id));
            changed.push(Changed { path: path.to_vec(), old, new });
        }
        Ok(changed)
    }

    /// Which side each file is like.
    fn states(
        &self,
        worktree: &Checkout,
        step: &BranchMove,
        changed: &[Changed],
    ) -> Result<Vec<FileVersion>, WorkspaceError> {
        let (unlike_old, unlike_new) = (self.unlike(worktree, &step.old)?, self.unlike(worktree, &step.new)?);
        let mut states = Vec::new();
        for entry in changed {
            let is_there = is_file(&worktree.toplevel, &entry.path);
            let is_like = |side: &Option<(String, String)>, unlike: &HashSet<Vec<u8>>| match side {
                None => !is_there,
                Some(_) => is_there && !unlike.contains(&entry.path),
            };
            let like = if entry.is_link() || is_like(&entry.new, &unlike_new) {
                FileVersion::New
            } else if is_like(&entry.old, &unlike_old) && !self.is_blocked(worktree, changed, &entry.path)? {
                FileVersion::Old
            } else {
                FileVersion::Neither
            };
            states.push(like);
        }
        Ok(states)
    }

    /// The paths of a commit whose files are other ones or none, by a look at every byte.
    fn unlike(&self, worktree: &Checkout, commit: &str) -> Result<HashSet<Vec<u8>>, WorkspaceError> {
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let index = scratch.path().join("index");
        worktree.call().env("GIT_INDEX_FILE", &index).args(["read-tree", commit]).ok()?;
        // It has no times to go by, so that every file is read.
        let refresh = self.guarded(worktree)?.env("GIT_INDEX_FILE", &index);
        refresh.args(["update-index", "-q", "--refresh"]).patiently(10).run()?;
        let args = ["diff-files", "--name-only", "-z", "--no-renames", "--ignore-submodules=all"];
        let call = self.guarded(worktree)?.env("GIT_INDEX_FILE", &index).args(args);
        let listed = call.args(["--no-ext-diff", "--no-textconv"]).patiently(10).ok()?.stdout;
        Ok(split_nul(&listed).map(<[u8]>::to_vec).collect())
    }

    /// The index: mode and id by path. A path in conflict counts as nothing known.
    fn index(&self, worktree: &Checkout) -> Result<HashMap<Vec<u8>, (String, String)>, WorkspaceError> {
        let listed = worktree.call().args(["ls-files", "--stage", "-z"]).ok()?.stdout;
        let parse = |entry: &[u8]| {
            let tab = memchr::memchr(b'\t', entry)?;
            let head = String::from_utf8_lossy(&entry[..tab]).into_owned();
            let words: Vec<&str> = head.split(' ').collect();
            let [mode, id, stage] = words[..] else { return None };
            let id = if stage == "0" { id.to_owned() } else { String::new() };
            Some((entry[tab + 1..].to_vec(), (mode.to_owned(), id)))
        };
        Ok(split_nul(&listed).filter_map(parse).collect())
    }
}

/// The paths whose files are like one side.
fn like<'a>(
    wanted: FileVersion,
    changed: &'a [Changed],
    states: &'a [FileVersion],
) -> impl Iterator<Item = &'a Changed> {
    changed.iter().zip(states).filter(move |(_, like)| **like == wanted).map(|(changed, _)| changed)
}

/// Whether there is anything but a folder.
fn is_file(top: &Path, path: &[u8]) -> bool {
    fs::symlink_metadata(top.join(OsStr::from_bytes(path))).is_ok_and(|metadata| !metadata.is_dir())
}

/// Removes a file and the folders that are empty then.
fn remove(top: &Path, path: &[u8]) -> Result<(), WorkspaceError> {
    let file = top.join(OsStr::from_bytes(path));
    match fs::remove_file(&file) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(WorkspaceError::io("remove", file)(error));
        }
        _ => {}
    }
    for folder in file.ancestors().skip(1).take_while(|folder| *folder != top) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}
