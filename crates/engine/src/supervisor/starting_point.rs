//! The workspace before the first agent: its snapshot 0, and the files in it that must not change.

use std::path::Path;

use dacapo_core::{
    event::{Base, ProtectedFile},
    ids::LoopId,
    judge::{evidence::needs_words, gate_scripts::named_files, glob::Globs, progress::TOO_MANY},
    policy::{GateSpec, OWN_FILES, Policy},
    receipt::sha256,
};

use super::preconditions::StartError;
use crate::{
    git::WorkspaceError,
    home::Home,
    snapshots::{Folder, Workspace},
};

/// What the supervisor knows of the workspace before the first agent starts.
pub(super) struct StartingPoint {
    /// The files, where something about them has to be known.
    pub(super) workspace: Option<Workspace>,
    /// A plain folder, where nothing but progress is told from its files.
    pub(super) folder: Option<Folder>,
    /// What those come to before the first agent.
    pub(super) outline: Option<String>,
    pub(super) base: Option<Base>,
    /// The files that the agent must not change.
    pub(super) protected: Vec<ProtectedFile>,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
}

impl StartingPoint {
    /// Looks at `dir`, keeps it as snapshot 0, and finds what is protected in it. Changes count from there, or from the
    /// commit `since`, where the files hold work that no verdict has accepted. Files go through `filters`, if some are given.
    pub(super) fn prepare(
        home: &Home,
        id: &LoopId,
        policy: &Policy,
        dir: &Path,
        since: Option<String>,
        filters: Option<Vec<(String, String)>>,
    ) -> Result<Self, StartError> {
        let globs = Globs::parse(&policy.gates.protect)?;
        let mut workspace = Workspace::open(dir, home, id)?;
        workspace.hold_filters(filters);
        if policy.commits() && !workspace.is_git() {
            return Err(StartError::NoCommit("the workspace is not a git repository"));
        }
        // Hashing a plain folder costs what reading it costs: only where a verdict will need it.
        let is_believed =
            policy.gates.specs.is_empty() && policy.gates.protect.is_empty() && !needs_words(policy);
        if !workspace.is_git() && is_believed {
            return Ok(Self::outlined(Folder::at(dir, home)));
        }
        let begin = workspace.begin()?.id;
        if policy.commits() && workspace.had_staged_changes() {
            workspace.forget()?;
            return Err(StartError::NoCommit(
                "there are staged changes that would go in; commit or unstage them first",
            ));
        }
        let is_given = since.is_some();
        let snapshot = since.clone().unwrap_or(begin);
        let mut warnings: Vec<String> = workspace.take_warnings().iter().map(ToString::to_string).collect();
        let named: Vec<String> = policy
            .gates
            .specs
            .iter()
            .flat_map(|gate| {
                named_files(&gate.script()).into_iter().filter(|file| !is_asked_for(policy, gate, file))
            })
            .collect();
        let mut protected = Vec::new();
        if !policy.gates.protect.is_empty() || !named.is_empty() {
            let files = workspace.files(&snapshot)?;
            // The folder of dacapo is protected whether it has files yet or not.
            for pattern in globs.unmatched(&files).into_iter().filter(|pattern| *pattern != OWN_FILES) {
                warnings.push(format!("the pattern `{pattern}` protects nothing: no file matches it"));
            }
            // What a gate names is meant from the folder it runs in.
            let below = dir.strip_prefix(workspace.root()).unwrap_or(Path::new(""));
            let mut named: Vec<String> =
                named.iter().map(|name| below.join(name).to_string_lossy().into_owned()).collect();
            // A script that is reached by a link is run as much as the link.
            let behind: Vec<String> =
                named.iter().filter_map(|name| behind_links(workspace.root(), name)).collect();
            named.extend(behind);
            named.sort_unstable();
            named.dedup();
            let paths: Vec<&[u8]> = files
                .iter()
                .map(Vec::as_slice)
                .filter(|path| globs.matches(path) || named.iter().any(|name| name.as_bytes() == *path))
                .collect();
            protected = hashed(&workspace, &snapshot, &paths)?;
            let unseen = |name: &&String| !files.iter().any(|path| path.as_slice() == name.as_bytes());
            protected.extend(named.iter().filter(unseen).filter_map(|name| ignored(&workspace, name)));
        }
        let (head, committed) = workspace.head_and_tree()?.unzip();
        let tree = match (&head, &committed) {
            (Some(head), Some(tree)) if *head == snapshot => tree.clone(),
            _ => workspace.tree_of(&snapshot)?,
        };
        let head = since.or(head);
        let branch = if is_given { workspace.branch()? } else { None };
        let base = Base { tree, head, is_git: workspace.is_git(), snapshot, branch };
        // Fault H10.
        if policy.commits() && !is_given && committed.as_ref() != Some(&base.tree) {
            let told =
                "dacapo's commit will hold the whole workspace: what is not committed yet goes into it";
            warnings.push(told.to_owned());
        }
        let (workspace, base) = (Some(workspace), Some(base));
        Ok(Self { workspace, folder: None, outline: None, base, protected, warnings })
    }

    fn outlined(folder: Folder) -> Self {
        let outline = folder.outline();
        let warnings = if outline.is_none() { vec![TOO_MANY.to_owned()] } else { Vec::new() };
        let folder = outline.is_some().then_some(folder);
        Self { workspace: None, folder, outline, base: None, protected: Vec::new(), warnings }
    }
}

/// Whether an item names the file that its gate runs among those it wants written: tests are work like any other.
fn is_asked_for(policy: &Policy, gate: &GateSpec, file: &str) -> bool {
    let item = gate.item.and_then(|key| policy.item(key));
    item.is_some_and(|item| item.writes.iter().any(|path| path == file))
}

/// The workspace of a loop that goes on.
pub(super) fn reopen(home: &Home, id: &LoopId, dir: &Path, base: &Base) -> Result<Workspace, WorkspaceError> {
    let mut workspace = Workspace::open(dir, home, id)?;
    workspace.begin()?;
    // A snapshot that is gone shows up here, before an agent works on what could never be judged.
    workspace.tree_of(&base.snapshot)?;
    Ok(workspace)
}

/// The file of the workspace that `name` leads to, if links lead to another.
fn behind_links(root: &Path, name: &str) -> Option<String> {
    let real = root.join(name).canonicalize().ok()?;
    let real = real.strip_prefix(root).ok()?.to_str()?.to_owned();
    (real != name).then_some(real)
}

/// A file that a gate runs and no snapshot holds.
fn ignored(workspace: &Workspace, name: &str) -> Option<ProtectedFile> {
    let path = workspace.root().join(name);
    if !workspace.is_git() || !path.is_file() || name.split('/').any(|part| part == ".git") {
        return None;
    }
    let content = std::fs::read(path).ok()?;
    Some(ProtectedFile { path: name.to_owned(), sha256: sha256(&content), ignored: true })
}

fn hashed(
    workspace: &Workspace,
    snapshot: &str,
    paths: &[&[u8]],
) -> Result<Vec<ProtectedFile>, WorkspaceError> {
    use std::os::unix::ffi::OsStrExt;
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let contents: Vec<Option<Vec<u8>>> = if workspace.is_git() {
        workspace.files_at(snapshot, paths)?
    } else {
        paths
            .iter()
            .map(|path| std::fs::read(workspace.root().join(std::ffi::OsStr::from_bytes(path))).ok())
            .collect()
    };
    Ok(paths
        .iter()
        .zip(contents)
        .map(|(path, content)| ProtectedFile {
            path: String::from_utf8_lossy(path).into_owned(),
            sha256: sha256(&content.unwrap_or_default()),
            ignored: false,
        })
        .collect())
}
