//! Putting a snapshot's files somewhere: into a fresh folder, or back where they were.

use std::{
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    thread::{self, JoinHandle},
};

use rustix::pipe::{PipeFlags, pipe_with};

use super::{Snapshot, clone, shadow::Shadow};
use crate::{
    git::{GitCall, WorkspaceError, on_disk},
    safe_open::leads_elsewhere,
    scratch::Scratch,
};

impl Shadow {
    /// All files of the snapshot in a fresh folder, with links and execute bits.
    pub(crate) fn checkout(&self, id: &str, into: &Path) -> Result<(), WorkspaceError> {
        fresh(into)?;
        self.with_index_for(into, |call| {
            self.whole_checkout(call()?, id)?.ok()?;
            Ok(())
        })
    }

    /// As [`Self::checkout`], with a repository of its own around the files where there can be one.
    pub(crate) fn checkout_for_gates(&self, id: &str, into: &Path) -> Result<(), WorkspaceError> {
        let (_index, call) = self.checkout_call(id, into)?;
        call.ok()?;
        Ok(())
    }

    /// As [`Self::checkout_for_gates`], by a thread.
    pub(crate) fn begin_checkout(&self, id: &str, into: &Path) -> Result<CheckoutBeside, WorkspaceError> {
        let (index, call) = self.checkout_call(id, into)?;
        CheckoutBeside::begin(index, call.into_owned()).map_err(WorkspaceError::io("begin to fill", into))
    }

    /// Commits what is in the index of a checkout for gates: one that asks git for what is committed finds what would be kept. Where
    /// the agent has committed something itself, the commit takes the place of its newest one.
    pub(crate) fn commit_in_checkout(&self, folder: &Path) -> Result<(), WorkspaceError> {
        let own = folder.join(".git");
        if !own.join("index").exists() {
            return Ok(());
        }
        let has_own_commits = self.head_in_files().is_none();
        let mut call = self.checkout.git.call(folder).at(&own, folder).config("commit.gpgSign=false");
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            call = call.env(name, "dacapo");
        }
        for address in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            call = call.env(address, "dacapo@localhost");
        }
        let commit = ["commit", "--quiet", "--no-verify", "--no-status"];
        let is_unborn = on_disk::head(&self.checkout.git_dir, &self.checkout.common_dir).flatten().is_none();
        // Gates may look at messages and authors.
        let how: &[&str] = match (is_unborn, has_own_commits) {
            (true, _) => &["-m", "what is checked"],
            (false, true) => &["--amend", "--no-edit", "--allow-empty"],
            (false, false) => &["-C", "HEAD"],
        };
        // Nothing may be left to commit.
        call.args(commit).args(how).run()?;
        Ok(())
    }

    /// What fills a checkout for gates, and a folder that has to live as long.
    fn checkout_call(&self, id: &str, into: &Path) -> Result<(Scratch, GitCall<'_>), WorkspaceError> {
        fresh(into)?;
        let (scratch, call) = self.index_for(into)?;
        let index =
            clone::make(&self.checkout, into).map_err(WorkspaceError::io("make a repository in", into))?;
        let call = self.whole_checkout(call()?, id)?;
        Ok((
            scratch,
            match index {
                Some(index) => call.env("GIT_INDEX_FILE", index),
                None => call,
            },
        ))
    }

    /// Tells the repository of a checkout for gates which files have come or gone beside what was laid out. Those behind a link, which
    /// git does not take, stay as they are listed.
    pub(crate) fn note_in_checkout(&self, folder: &Path, paths: &[String]) -> Result<(), WorkspaceError> {
        let own = folder.join(".git");
        let is_inside = |path: &&String| !path.starts_with('/') && !leads_elsewhere(folder, Path::new(path));
        let inside: Vec<&String> = paths.iter().filter(is_inside).collect();
        if inside.is_empty() || !own.join("index").exists() {
            return Ok(());
        }
        let input: Vec<u8> = inside.iter().flat_map(|path| [path.as_bytes(), b"\0"].concat()).collect();
        let update = ["update-index", "--add", "--remove", "-z", "--stdin"];
        self.checkout.git.call(folder).at(&own, folder).args(update).input(input).run()?;
        Ok(())
    }

    /// Index and files at once, since the folder is empty.
    fn whole_checkout<'g>(&self, call: GitCall<'g>, id: &str) -> Result<GitCall<'g>, WorkspaceError> {
        let tree = self.tree_of(id)?;
        let all = ["read-tree", "--reset", "-u", "--no-sparse-checkout", "--no-recurse-submodules", &tree];
        // Hundreds of thousands of files on a slow disk take minutes.
        Ok(call.args(all).patiently(10))
    }

    /// Some files of the snapshot in a folder, over what is there; paths it does not hold are passed over.
    pub(crate) fn write_paths(&self, id: &str, paths: &[&[u8]], into: &Path) -> Result<(), WorkspaceError> {
        crate::home::make_dir(into).map_err(WorkspaceError::io("make", into))?;
        let is_there = self.files_at(id, paths)?;
        let wanted = paths.iter().zip(is_there).filter(|(_, file)| file.is_some());
        let input: Vec<u8> = wanted.flat_map(|(path, _)| [path, &b"\0"[..]].concat()).collect();
        if input.is_empty() {
            return Ok(());
        }
        self.with_index_for(into, |call| {
            call()?.args(["read-tree", &self.tree_of(id)?]).ok()?;
            call()?.args(["checkout-index", "--force", "--quiet", "-z", "--stdin"]).input(input).ok()?;
            Ok(())
        })
    }

    /// Lets `write` call git with an index of its own, for files in the folder `into`.
    fn with_index_for<'g>(
        &'g self,
        into: &Path,
        write: impl FnOnce(&dyn Fn() -> Result<GitCall<'g>, WorkspaceError>) -> Result<(), WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let (_index, call) = self.index_for(into)?;
        write(&call)
    }

    /// A folder for an index of its own, which has to live as long as git works, and calls of git that use it.
    fn index_for<'g>(
        &'g self,
        into: &Path,
    ) -> Result<(Scratch, impl Fn() -> Result<GitCall<'g>, WorkspaceError>), WorkspaceError> {
        let into = into.canonicalize().map_err(WorkspaceError::io("enter", into))?;
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let index = scratch.path().join("index");
        let call =
            move || Ok(self.call()?.env("GIT_INDEX_FILE", &index).env("GIT_WORK_TREE", &into).in_dir(&into));
        Ok((scratch, call))
    }

    /// Makes the files those of snapshot `id`. What they were before is a snapshot of its own, held by
    /// `refs/dacapo/<loop>-undo`; what is ignored stays, and so do index, HEAD and commits.
    pub(crate) fn restore(&mut self, id: &str, n: u64) -> Result<Snapshot, WorkspaceError> {
        let tree = self.tree_of(id)?;
        let before = self.snapshot(n)?;
        if self.tree_of(&before.id)? == tree {
            return Ok(Snapshot { id: before.id, changed: false });
        }
        self.call()?.args(["update-ref", &format!("{}-undo", self.reference()), &before.id]).ok()?;
        // From here the index is not what the latest snapshot says until it is committed; a crash in between is
        // found by the comparison that the next snapshot begins with.
        self.unsettle();
        self.call()?.args(["read-tree", "--reset", "-u", &tree]).ok()?;
        let restored = self.commit(&format!("dacapo restore of {id}"))?;
        self.remember(&restored)?;
        self.note();
        Ok(Snapshot { id: restored, changed: true })
    }
}

/// Makes `into` if it is not there; it has to be empty.
fn fresh(into: &Path) -> Result<(), WorkspaceError> {
    crate::home::make_dir(into).map_err(WorkspaceError::io("make", into))?;
    let mut entries = fs::read_dir(into).map_err(WorkspaceError::io("read", into))?;
    if entries.next().is_some() {
        return Err(WorkspaceError::NotEmpty(into.to_owned()));
    }
    Ok(())
}

/// A snapshot whose files a thread puts into a folder. If it is dropped before, git is stopped.
pub(crate) struct CheckoutBeside {
    /// Closed at its other end when the thread is done.
    done: OwnedFd,
    /// The thread stops git when this is closed.
    go_on: Option<OwnedFd>,
    thread: Option<JoinHandle<Result<(), WorkspaceError>>>,
}

impl CheckoutBeside {
    fn begin(index: Scratch, call: GitCall<'static>) -> io::Result<Self> {
        let (done, is_working) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stop, go_on) = pipe_with(PipeFlags::CLOEXEC)?;
        let work = move || {
            let _held = (index, is_working);
            call.ok_unless(stop.as_fd())?;
            Ok(())
        };
        let thread = Some(thread::Builder::new().name("dcp-checkout".to_owned()).spawn(work)?);
        Ok(Self { done, go_on: Some(go_on), thread })
    }

    /// Readable once it is done.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// Waits for its end, and says whether all files are there.
    pub(crate) fn end(mut self) -> Result<(), WorkspaceError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(WorkspaceError::io("fill", "a checkout")(io::ErrorKind::Other.into())),
        }
    }
}

impl Drop for CheckoutBeside {
    fn drop(&mut self) {
        self.go_on = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
