//! The workspace before the first agent: its snapshot 0, and the files in it that must not change.

use std::{collections::HashSet, path::Path};

use dacapo_core::{
    event::{Base, ProtectedFile},
    goalposts::Runner,
    ids::LoopId,
    judge::{
        evidence::needs_words,
        gate_scripts::{is_found_by_itself, named_files},
        glob::Globs,
        progress::TOO_MANY,
    },
    policy::{EVERY_FILE, GateIn, GateSpec, OWN_FILES, Policy, TestsMode},
    receipt::sha256,
};

use super::preconditions::StartError;
use crate::{
    git::WorkspaceError,
    goalposts::{Earlier, Extras, WatchedGoalposts, files_of, linked_folders},
    home::Home,
    snapshots::{ChangeKind, Folder, Workspace},
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
    /// The tests, and what decides which of them run.
    pub(super) goalposts: Option<WatchedGoalposts>,
    /// What the workspace holds that no snapshot does.
    pub(super) extras: Option<Extras>,
    /// The test runners that gates start.
    pub(super) gate_runners: Vec<(String, Vec<Runner>)>,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
}

impl StartingPoint {
    /// Looks at `dir`, keeps it as snapshot 0, and finds what is protected in it. Changes count from there, or from the
    /// commit `since`, where the files hold work that no verdict has accepted. Files go through `filters`, if some are given;
    /// through none that the agent of the loop `above`, which asked for this one, may have set up.
    pub(super) fn prepare(
        home: &Home,
        id: &LoopId,
        policy: &Policy,
        dir: &Path,
        since: Option<String>,
        filters: Option<Vec<(String, String)>>,
        above: Option<&LoopId>,
    ) -> Result<Self, StartError> {
        Globs::parse(&policy.gates.protect)?;
        // Whether all files, or those of dacapo, have changed is told by their tree: a list of them would prove nothing more.
        let is_listed = |pattern: &&String| ![EVERY_FILE, OWN_FILES].contains(&pattern.as_str());
        let listed: Vec<String> = policy.gates.protect.iter().filter(is_listed).cloned().collect();
        let globs = Globs::parse(&listed)?;
        let mut workspace = Workspace::open(dir, home, id)?;
        workspace.hold_filters(filters);
        if let Some(above) = above {
            workspace.distrust_filters(above)?;
        }
        if policy.commits() && !workspace.is_git() {
            return Err(StartError::NoCommit(
                "the folder is not in a git repository; `git init` makes it one, or leave `--commit` out",
            ));
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
        let snapshot = since.clone().unwrap_or_else(|| begin.clone());
        let mut warnings: Vec<String> = workspace.take_warnings().iter().map(ToString::to_string).collect();
        let named: Vec<String> = policy
            .gates
            .specs
            .iter()
            .flat_map(|gate| {
                named_files(&gate.script()).into_iter().filter(|file| !is_asked_for(policy, gate, file))
            })
            .chain(policy.gates.named_later.iter().cloned())
            // Makefiles get targets that are new: they are compared as settings are, and the gates have to pass with the old one.
            .filter(|file| policy.gates.tests != TestsMode::Checked || !is_found_by_itself(file))
            .collect();
        let mut protected = Vec::new();
        if !listed.is_empty() || !named.is_empty() {
            let files = workspace.files(&snapshot)?;
            let (mut meant, mut unseen): (Vec<Globs>, Vec<String>) = Default::default();
            // What a gate names is meant from the folder it runs in.
            let below = dir.strip_prefix(workspace.root()).unwrap_or(Path::new(""));
            // Files that git ignores, and those behind a link or in a repository within this one, can decide as much as others.
            let unheld = |globs: &Globs| match workspace.is_git() {
                true => unheld_files(workspace.root(), &files, globs),
                false => Vec::new(),
            };
            if !listed.is_empty() {
                // What is ignored beside files of the snapshot is what tools make, and changes with every run.
                let fits_none: Vec<String> = globs.unmatched(&files).into_iter().map(str::to_owned).collect();
                let fits_none = Globs::parse(&fits_none)?;
                unseen = unheld(&globs);
                unseen.retain(|path| fits_none.matches(path) || lies_elsewhere(workspace.root(), path));
            }
            // What lies behind a link to a folder has a second name, which a pattern may mean.
            let aliases = aliases_of(workspace.root(), &files, &globs);
            let is_meant = |path: &[u8]| aliases.iter().any(|(real, _)| real.as_slice() == path);
            let all: Vec<&[u8]> = files
                .iter()
                .map(Vec::as_slice)
                .chain(unseen.iter().map(String::as_bytes))
                .chain(aliases.iter().map(|(_, alias)| alias.as_bytes()))
                .collect();
            for pattern in globs.unmatched(all) {
                let wider = Globs::parse(&wider_patterns(pattern, below))?;
                let found = unheld(&wider);
                if !found.is_empty() || files.iter().any(|path| wider.matches(path)) {
                    unseen.extend(found);
                    meant.push(wider);
                    continue;
                }
                if policy.gates.must_match.iter().any(|typed| typed == pattern) {
                    let pattern = pattern.to_owned();
                    workspace.forget()?;
                    return Err(StartError::ProtectsNothing(pattern));
                }
            }
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
                .filter(|path| {
                    globs.matches(path)
                        || is_meant(path)
                        || meant.iter().any(|globs| globs.matches(path))
                        || named.iter().any(|name| name.as_bytes() == *path)
                })
                .collect();
            protected = hashed(&workspace, &snapshot, &paths)?;
            let is_unheld = |name: &&String| !files.iter().any(|path| path.as_slice() == name.as_bytes());
            unseen.extend(named.iter().filter(is_unheld).cloned());
            unseen.sort_unstable();
            unseen.dedup();
            protected.extend(unseen.iter().filter_map(|path| ignored(&workspace, path)));
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
        let mut at_start = Self {
            workspace: None,
            folder: None,
            outline: None,
            protected,
            goalposts: None,
            extras: None,
            gate_runners: Vec::new(),
            warnings,
            base: None,
        };
        if policy.gates.watches_goalposts() {
            let root = workspace.root().to_owned();
            let path = crate::inside::child::variable("PATH");
            // What an agent left of the tests in a loop that ended without a verdict is not what the next one starts from.
            let mut earlier =
                if is_given { earlier(&workspace, &base.snapshot, &begin)? } else { Earlier::new() };
            for (path, file) in &policy.gates.doubted {
                let content = workspace.files_at(&file.since, &[path.as_bytes()])?.pop().flatten();
                earlier.insert(path.clone(), content);
            }
            let (goalposts, reach) = WatchedGoalposts::begin(
                (&root, &home.checkouts()),
                &below(&root, dir),
                policy,
                path.as_deref(),
                &earlier,
            );
            for program in goalposts.not_read_whole(&reach.programs) {
                at_start.warnings.push(format!(
                    "the program `{program}` of a gate is too large to be read whole before the first agent: it is compared by its size, \
                     its times, its beginning and its end"
                ));
            }
            // The gates have to pass where such a script has to make its files anew. What the user protects stays protected.
            let meant: Vec<String> = listed
                .iter()
                .cloned()
                .chain(
                    listed.iter().flat_map(|pattern| wider_patterns(pattern, Path::new(&below(&root, dir)))),
                )
                .collect();
            let meant = Globs::parse(&meant)?;
            at_start.protected.retain(|file| {
                !workspace.is_git() || !goalposts.is_generator(&file.path) || meant.matches(&file.path)
            });
            let runs_hooks = reach.runs_hooks;
            (at_start.goalposts, at_start.gate_runners) = (Some(goalposts), reach.runners);
            if workspace.is_git() && policy.gates.run_in != GateIn::Clean {
                let tracked: HashSet<Vec<u8>> = workspace.files(&base.snapshot)?.into_iter().collect();
                at_start.extras = Some(Extras::begin(&root, &tracked, runs_hooks));
            } else if !workspace.is_git()
                && policy.gates.tests == TestsMode::Checked
                && at_start.goalposts.as_ref().is_some_and(|posts| posts.seal().tests > 0)
            {
                at_start.warnings.push(
                    "outside of git tests cannot be checked both ways: the receipt lists what the agent changed of them"
                        .to_owned(),
                );
            }
        }
        (at_start.workspace, at_start.base) = (Some(workspace), Some(base));
        Ok(at_start)
    }

    fn outlined(folder: Folder) -> Self {
        let outline = folder.outline();
        let warnings = if outline.is_none() { vec![TOO_MANY.to_owned()] } else { Vec::new() };
        let folder = outline.is_some().then_some(folder);
        Self {
            workspace: None,
            folder,
            outline,
            base: None,
            protected: Vec::new(),
            goalposts: None,
            extras: None,
            gate_runners: Vec::new(),
            warnings,
        }
    }
}

/// What a pattern that fits no file from the top of the repository may mean: files in the folder of the loop, or, if it has no
/// slash, files of this name in any folder.
fn wider_patterns(pattern: &str, below: &Path) -> Vec<String> {
    let mut wider = Vec::new();
    if !below.as_os_str().is_empty() {
        wider.push(below.join(pattern).to_string_lossy().into_owned());
    }
    if !pattern.trim_end_matches('/').contains('/') {
        wider.push(format!("**/{pattern}"));
    }
    wider
}

/// The folder within the repository that the loop works in.
pub(super) fn below(root: &Path, dir: &Path) -> String {
    dir.strip_prefix(root).unwrap_or(Path::new("")).to_string_lossy().into_owned()
}

/// Whether an item names the file that its gate runs among those it wants written: tests are work like any other.
fn is_asked_for(policy: &Policy, gate: &GateSpec, file: &str) -> bool {
    let item = gate.item.and_then(|key| policy.item(key));
    item.is_some_and(|item| item.writes.iter().any(|path| path == file))
}

/// What the files that differ between the commit `since` and the workspace, kept as `now`, hold in the commit.
fn earlier(workspace: &Workspace, since: &str, now: &str) -> Result<Earlier, WorkspaceError> {
    let changes = workspace.changes(since, now)?;
    let changed =
        changes.iter().filter_map(|change| Some((std::str::from_utf8(&change.path).ok()?, change.kind)));
    let (added, held): (Vec<_>, Vec<_>) = changed.partition(|(_, kind)| *kind == ChangeKind::Added);
    let paths: Vec<&[u8]> = held.iter().map(|(path, _)| path.as_bytes()).collect();
    let contents = if paths.is_empty() { Vec::new() } else { workspace.files_at(since, &paths)? };
    let mut earlier: Earlier = added.into_iter().map(|(path, _)| (path.to_owned(), None)).collect();
    earlier.extend(held.iter().zip(contents).map(|((path, _), bytes)| ((*path).to_owned(), bytes)));
    Ok(earlier)
}

/// The workspace of a loop that goes on.
pub(super) fn reopen(home: &Home, id: &LoopId, dir: &Path, base: &Base) -> Result<Workspace, WorkspaceError> {
    let mut workspace = Workspace::open(dir, home, id)?;
    workspace.begin()?;
    // A snapshot that is gone shows up here, before an agent works on what could never be judged.
    workspace.tree_of(&base.snapshot)?;
    Ok(workspace)
}

/// The same for a loop in a chat session, each of whose hooks is a process of its own: the hook before has sealed what it left.
pub(super) fn take_up(
    home: &Home,
    id: &LoopId,
    dir: &Path,
    base: &Base,
    seal: Option<&str>,
) -> Result<Workspace, WorkspaceError> {
    let mut workspace = Workspace::open(dir, home, id)?;
    workspace.begin()?;
    if let Some(seal) = seal {
        workspace.take_up(seal);
    }
    if !workspace.holds_snapshots() {
        workspace.tree_of(&base.snapshot)?;
    }
    Ok(workspace)
}

/// The file of the workspace that `name` leads to, if links lead to another.
fn behind_links(root: &Path, name: &str) -> Option<String> {
    let real = root.join(name).canonicalize().ok()?;
    let real = real.strip_prefix(root).ok()?.to_str()?.to_owned();
    (real != name).then_some(real)
}

/// Files of a snapshot that patterns name by another way: behind a link to a folder that matches, or below a link as the pattern
/// writes it. Each with its other name.
fn aliases_of(root: &Path, files: &[Vec<u8>], globs: &Globs) -> Vec<(Vec<u8>, String)> {
    let mut found = Vec::new();
    if globs.is_empty() {
        return found;
    }
    for (link, real) in linked_folders(root) {
        for file in files {
            let Some(rest) = std::str::from_utf8(file).ok().and_then(|file| file.strip_prefix(&real)) else {
                continue;
            };
            // The link may lead to the top.
            let rest = if real.is_empty() { format!("/{rest}") } else { rest.to_owned() };
            let alias = format!("{link}{rest}");
            if rest.starts_with('/')
                && !rest.starts_with("/.git/")
                && (globs.matches(&alias) || globs.matches(&link))
            {
                found.push((file.clone(), alias));
            }
        }
    }
    found
}

/// Whether a file is reached through a link, or belongs to a repository within this one.
fn lies_elsewhere(root: &Path, path: &str) -> bool {
    let folders = Path::new(path).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    folders.map(|folder| root.join(folder)).any(|folder| folder.is_symlink() || folder.join(".git").exists())
}

/// Files that match and that a snapshot with `held` does not hold: ignored ones, and those of repositories within this one.
fn unheld_files(root: &Path, held: &[Vec<u8>], globs: &Globs) -> Vec<String> {
    let held: HashSet<&[u8]> = held.iter().map(Vec::as_slice).collect();
    let mut files = files_of(root);
    files.retain(|path| globs.matches(path) && !held.contains(path.as_bytes()));
    files
}

/// A file that must not change and that no snapshot holds.
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
