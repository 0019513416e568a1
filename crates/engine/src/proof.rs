//! Receipts again: finding one, and doing once more what it says was done.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use dacapo_core::{
    agent::gate_environment,
    event::{Envelope, LoopEvent, LoopStarted},
    ids::LoopId,
    policy::{GateFrom, GateSpec},
    receipt::{Receipt, sha256},
};

use crate::{
    checkouts,
    git::WorkspaceError,
    guard::Guard,
    home::Home,
    process::{KeptCommand, Ran, run_expecting},
    scratch::Scratch,
    snapshots::Workspace,
    snapshots::{self, SnapshotError},
    store::{Store, StoreError},
    supervisor::{is_folder_inside, lay_out, with_setup},
};

/// Why what a receipt says cannot be done again.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("cannot check the files again: {0}")]
    Snapshot(#[from] SnapshotError),
    #[error("cannot check the files again: the snapshot {0} is not in the repository any more")]
    NoSnapshot(String),
    #[error("cannot check the files again: `{0}` is a plain folder and has changed since")]
    Changed(String),
    #[error("an object of the snapshot was replaced, or git cannot read all of them: {0}")]
    Replaced(WorkspaceError),
    #[error("cannot check the files again: the receipt names no snapshot")]
    NoFiles,
    #[error("cannot run gate `{0}` again: {1}")]
    NoFolder(String, String),
    #[error("there is no loop {0} in the journal")]
    Unknown(LoopId),
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

impl ProofError {
    /// Whether the files are not there any more that were judged: that says nothing about the receipt.
    pub fn is_about_files_that_are_gone(&self) -> bool {
        matches!(self, Self::Snapshot(SnapshotError::Gone(_)) | Self::Changed(_))
    }
}

/// What came of doing it again.
#[derive(Debug)]
pub struct Reverified {
    /// The tree of the snapshot, if it is not the receipt's.
    pub other_tree: Option<String>,
    /// Protected files that are not what the receipt says.
    pub unlike: Vec<String>,
    /// Each gate of the receipt, and what it came to now.
    pub gates: Vec<GateAgain>,
    /// Gates that asked an agent, who is not asked again: it would cost money, and another answer would prove nothing.
    pub asked: Vec<String>,
}

/// A gate that was run again.
#[derive(Debug)]
pub struct GateAgain {
    pub name: String,
    /// What it exited with according to the receipt.
    pub then: i32,
    /// What it came to now.
    pub now: Ran,
    /// Why that is not what was expected of it, if it is not; a gate that was red at the start may be so again.
    pub refusal: Option<String>,
    /// Whether it printed the same.
    pub same_output: bool,
}

/// The receipt of a loop; the newest, if it has several.
pub fn receipt(store: &Store, id: &LoopId) -> Result<Option<Receipt>, StoreError> {
    Ok(newest(store.events(id, 0)?))
}

/// The newest receipt of a loop and its place in the journal.
pub fn receipt_at(store: &Store, id: &LoopId) -> Result<Option<(u64, Receipt)>, StoreError> {
    let found = store.events(id, 0)?.into_iter().rev().find_map(|envelope| match envelope.event {
        LoopEvent::ReceiptIssued { receipt } => Some((envelope.seq, *receipt)),
        _ => None,
    });
    Ok(found)
}

/// The newest receipt in the history of a loop.
pub(crate) fn newest(history: Vec<Envelope>) -> Option<Receipt> {
    history.into_iter().rev().find_map(|envelope| match envelope.event {
        LoopEvent::ReceiptIssued { receipt } => Some(*receipt),
        _ => None,
    })
}

/// Brings the files of the receipt back in a scratch folder and runs its gates there.
pub fn check_again(
    home: &Home,
    store: &Store,
    id: &LoopId,
    receipt: &Receipt,
    mut before_gate: impl FnMut(&str),
) -> Result<Reverified, ProofError> {
    let history = store.events(id, 0)?;
    let started = snapshots::started(&history).ok_or_else(|| ProofError::Unknown(id.clone()))?;
    if receipt.gates.is_empty() && receipt.snapshot.is_none() {
        return Ok(Reverified { other_tree: None, unlike: Vec::new(), gates: Vec::new(), asked: Vec::new() });
    }
    let snapshot = receipt.snapshot.as_deref().ok_or(ProofError::NoFiles)?;
    let mut workspace = snapshots::open(home, id, &repository_of(store, started)?)?;
    if workspace.is_git() != started.base.as_ref().is_some_and(|base| base.is_git) {
        return Err(SnapshotError::Gone(format!("{}/.git", started.workspace.display())).into());
    }
    // By the side of checkouts of loops: no agent can write there.
    let scratch = match checkouts::folder(home, workspace.root(), "verify") {
        Some(folder) => Scratch::below(&folder, "tmp"),
        None => Scratch::new("dacapo-verify"),
    };
    let scratch =
        scratch.map_err(|source| ProofError::Io { what: "cannot make a scratch folder", source })?;
    let folder = scratch.path().join("files");
    let other_tree = lay_out_judged_files(&mut workspace, started, receipt, snapshot, &folder)?;
    let unlike = unlike(&workspace, started, receipt, snapshot, &folder)?;
    let below = started.workspace.strip_prefix(workspace.root()).unwrap_or(Path::new("")).to_owned();
    let mut gates = Vec::new();
    let mut asked = Vec::new();
    for proof in &receipt.gates {
        let known = started
            .policy
            .gates
            .specs
            .iter()
            .find(|gate| gate.name == proof.name && gate.run == proof.command);
        if known.is_some_and(|gate| gate.ask.is_some()) {
            asked.push(proof.name.clone());
            continue;
        }
        before_gate(&proof.name);
        let timeout = known.map_or(GateSpec::TIMEOUT, |gate| gate.timeout);
        let spec =
            GateSpec { working_dir: proof.working_dir.clone(), ..GateSpec::of_command(&proof.command) };
        let dir = folder.join(&below);
        is_folder_inside(&dir, &spec).map_err(|why| ProofError::NoFolder(proof.name.clone(), why))?;
        // A name of its own: nothing that belongs to the loop may be taken for this.
        let mark = fresh_id().map_err(|source| ProofError::Io { what: "cannot make a name", source })?;
        let command = KeptCommand {
            program: "/bin/sh".into(),
            args: ["-c", &with_setup(&started.policy, &spec.script())].map(Into::into).into(),
            env: environment(home, started, &mark, receipt.iterations),
            dir,
            grace: started.policy.pace.kill_grace,
        };
        // What is run is what the agent wrote.
        let guard = Guard::of_folder(&started.policy.sandbox, &folder);
        let run = || run_expecting(&mark, home, Some(&guard), &command, timeout, &proof.expect);
        let refusal = |ran: &Ran| {
            let refusal = ran.failure.clone().or_else(|| proof.expect.refusal(ran.exit_code, ran.found));
            refusal.filter(|_| !proof.tolerated)
        };
        let mut now = run();
        // What was called flaky then may be tried again now.
        if proof.flaky {
            for _ in 0..known.map_or(0, |gate| gate.retries) {
                if now.as_ref().is_ok_and(|ran| ran.exit_code != proof.exit_code || refusal(ran).is_some()) {
                    now = run();
                }
            }
        }
        let now = now.map_err(|source| ProofError::Io { what: "cannot run a gate", source })?;
        let same_output = now.output_sha256 == proof.output_sha256;
        let (name, then, refusal) = (proof.name.clone(), proof.exit_code, refusal(&now));
        gates.push(GateAgain { name, then, now, refusal, same_output });
    }
    Ok(Reverified { other_tree, unlike, gates, asked })
}

/// Where the snapshots of a loop are: its folder, or, if that was a worktree of a unit or of a task and is gone, its repository.
pub(crate) fn repository_of(store: &Store, started: &LoopStarted) -> Result<PathBuf, StoreError> {
    if let Some(run) = started.run.as_ref().filter(|_| !started.workspace.is_dir()) {
        if let Some(run) = store.run_started(run)? {
            return Ok(run.root);
        }
        if let Some(settings) = store.task_started(run)?.and_then(|task| task.settings) {
            return Ok(settings.root);
        }
    }
    Ok(started.workspace.clone())
}

/// The files of the snapshot in `folder`; their tree if it is not the one in the receipt.
fn lay_out_judged_files(
    workspace: &mut Workspace,
    started: &LoopStarted,
    receipt: &Receipt,
    snapshot: &str,
    folder: &Path,
) -> Result<Option<String>, ProofError> {
    if workspace.is_git() {
        let gone = |error| match error {
            WorkspaceError::NoSnapshot(id) => ProofError::NoSnapshot(id),
            other => other.into(),
        };
        let judged = workspace.tree_of(snapshot).map_err(gone)?;
        let (kept, tree) = kept(workspace, receipt, snapshot, judged);
        workspace.check_objects(&kept).map_err(ProofError::Replaced)?;
        lay_out(workspace, started, &kept, folder).map_err(gone)?;
        return Ok((receipt.tree.as_ref() != Some(&tree)).then_some(tree));
    }
    let now = workspace.content_hash()?;
    if now != snapshot {
        return Err(ProofError::Changed(started.workspace.display().to_string()));
    }
    for path in workspace.files(snapshot)? {
        let path = Path::new(OsStr::from_bytes(&path));
        copy(&workspace.root().join(path), &folder.join(path))
            .map_err(|source| ProofError::Io { what: "cannot copy the files", source })?;
    }
    Ok((receipt.tree.as_deref() != Some(&now)).then_some(now))
}

/// What the receipt is about and its tree: the snapshot, or the last commit where that differs from it in status lines.
fn kept(workspace: &Workspace, receipt: &Receipt, snapshot: &str, judged: String) -> (String, String) {
    if let (Some(tree), Some(commit)) = (&receipt.tree, receipt.commits.last())
        && *tree != judged
        && workspace.tree_of(commit).is_ok_and(|committed| committed == *tree)
    {
        return (commit.clone(), tree.clone());
    }
    (snapshot.to_owned(), judged)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(above) = to.parent() {
        crate::home::make_dir(above)?;
    }
    if from.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)
    } else {
        fs::copy(from, to).map(|_| ())
    }
}

/// Protected files whose content is not what the receipt says.
fn unlike(
    workspace: &Workspace,
    started: &LoopStarted,
    receipt: &Receipt,
    snapshot: &str,
    folder: &Path,
) -> Result<Vec<String>, ProofError> {
    let held: Vec<_> = receipt.protected.iter().filter(|file| !file.ignored).collect();
    let contents = if workspace.is_git() {
        let paths: Vec<&[u8]> = held.iter().map(|file| file.path.as_bytes()).collect();
        // Gates that saw the start's version are proof of that version.
        let of = match &started.base {
            Some(base) if started.policy.gates.from == GateFrom::Base => &base.snapshot,
            _ => snapshot,
        };
        if paths.is_empty() { Vec::new() } else { workspace.files_at(of, &paths)? }
    } else {
        held.iter().map(|file| fs::read(folder.join(&file.path)).ok()).collect()
    };
    let differs = held
        .iter()
        .zip(contents)
        .filter(|(file, content)| content.as_ref().is_none_or(|content| sha256(content) != file.sha256));
    Ok(differs.map(|(file, _)| file.path.clone()).collect())
}

/// A name that no loop has.
pub(crate) fn fresh_id() -> io::Result<LoopId> {
    let mut random = [0; 10];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(LoopId::from_random(random))
}

fn environment(
    home: &Home,
    started: &LoopStarted,
    mark: &LoopId,
    iteration: u32,
) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let iteration = iteration.to_string();
    let own: [(&str, &OsStr); 5] = [
        ("DACAPO_LOOP", mark.as_str().as_ref()),
        ("DACAPO_PROJECT", started.project.as_str().as_ref()),
        ("DACAPO_TASK", started.task.as_str().as_ref()),
        ("DACAPO_ITERATION", iteration.as_ref()),
        ("DACAPO_HOME", home.path().as_os_str()),
    ];
    gate_environment(&std::env::vars_os().collect::<Vec<_>>(), &own)
}
