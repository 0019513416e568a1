//! What a verdict needs from the world: the workspace looked at before and after its gates, a place for them to
//! run, a commit. Facts only; the judgement is `core`'s.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use dacapo_core::{
    duration::Millis,
    event::{Examination, ForbiddenChange, GatePlace, GateRole, Look, LoopStarted, ProtectedFile},
    goalposts::{FailurePlace, MovedGoalpost, MustFailRun, MustFailSearch},
    ids::LoopId,
    judge::{
        evidence::{needs_words, verify_claim},
        gate_scripts::{named_files, role},
        glob::Globs,
        tamper::{self, FileChange},
    },
    loop_machine::{Input, Recheck, Seal, moved_goalposts},
    policy::{GateFrom, GateSpec, Policy, stays_inside},
    receipt::sha256,
    text::shell::quoted,
};
use jiff::Timestamp;

use super::{SuperviseError, Supervisor, answers};
use crate::{
    checkouts,
    git::{DISK_FULL, Git, LinksAtStart, WorkspaceError},
    goalposts::{Extras, Stamp, WatchedGoalposts, is_installed, rewritten},
    items::{ChangedFile, marks_of},
    must_fail::{MustFailFiles, tests_of_claim},
    repository::Repository,
    safe_open::leads_elsewhere,
    scratch::Scratch,
    snapshots::{ChangeKind, CommitOutcome, PathChange, Workspace, listed},
};

/// How many changed paths are named for people.
const NAMED: usize = 20;

/// The workspace could not be looked at. On a full disk that is the reason, whoever met it; git says so in the words of the system,
/// and dacapo runs it with `LC_ALL=C`.
fn not_examined(why: String) -> Input {
    let is_full = [DISK_FULL, "Disk quota exceeded"].iter().any(|words| why.contains(words));
    if is_full {
        Input::DiskFailed(format!("the disk is full: {why}"))
    } else {
        Input::ExaminationFailed(why)
    }
}

impl Supervisor<'_> {
    /// Removes the locks of git that an agent of this loop left behind, so that the next one can commit. Says which.
    pub(super) fn remove_left_locks(&self) -> Vec<String> {
        let Some(workspace) = &self.workspace else { return Vec::new() };
        // A child loop works in the same files.
        if !self.store.running_children(&self.id).is_ok_and(|children| children.is_empty()) {
            return Vec::new();
        }
        let removed = workspace.remove_left_locks(self.stream.view().started_at.into());
        let told = |lock: &PathBuf| {
            format!("a git that was killed left the lock `{}` behind, which was removed", lock.display())
        };
        removed.iter().map(told).collect()
    }

    /// The workspace after an agent has ended, if it is not as it was.
    pub(super) fn keep_workspace(&mut self) -> (Option<(String, String)>, Vec<String>) {
        let Some(workspace) = &mut self.workspace else { return (None, Vec::new()) };
        // Asked before: a child loop that ends meanwhile may have written meanwhile.
        let is_alone = self.store.running_children(&self.id).is_ok_and(|children| children.is_empty());
        let taken = workspace.snapshot(u64::from(self.stream.state().counters.iterations));
        self.kept = taken.as_ref().ok().filter(|_| is_alone).map(|snapshot| snapshot.id.clone());
        let mut warnings: Vec<String> = workspace.take_warnings().iter().map(ToString::to_string).collect();
        let kept = taken.and_then(|snapshot| {
            let tree = snapshot.changed.then(|| workspace.tree_of(&snapshot.id)).transpose()?;
            Ok(tree.map(|tree| (snapshot.id, tree)))
        });
        match kept {
            Ok(kept) => (kept, warnings),
            Err(error) => {
                warnings.push(format!("the workspace could not be kept: {error}"));
                (None, warnings)
            }
        }
    }

    /// What the files of a plain folder come to; looked at no more once they are too many.
    pub(super) fn outline(&mut self) -> Option<String> {
        let outline = self.folder.as_ref()?.outline();
        if outline.is_none() {
            self.folder = None;
        }
        outline
    }

    /// Moves the worktree's branch to where the agent left it among the refs that it sees, and says whether that could be done.
    pub(super) fn bring_over(&mut self) -> Result<bool, SuperviseError> {
        match self.links.as_ref().map_or(Ok(Vec::new()), LinksAtStart::remove_new) {
            Ok(removed) => {
                for path in removed {
                    let path = path.display();
                    self.notice(format!("an agent or a person made `{path}` a link, which was removed"))?;
                }
            }
            Err(error) => {
                self.notice(format!("a link in git's folder cannot be removed: {error}"))?;
                return Ok(false);
            }
        }
        let Some(refs) = self.guard.own_refs() else { return Ok(true) };
        let workspace = &self.started.workspace;
        match refs.bring_over(|| Repository::find(&Git::find()?, workspace, self.home)) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.notice(format!("what the agent committed is on no branch: {error}"))?;
                Ok(false)
            }
        }
    }

    /// Shows the next attempt the branch as it is. If that fails, the agent sees it as it was.
    pub(super) fn refresh_own_refs(&mut self) {
        let is_alone = self.store.running_children(&self.id).is_ok_and(|children| children.is_empty());
        if let Some(refs) = self.guard.own_refs() {
            let _ = refs.refresh(is_alone);
        }
    }

    /// Puts back the branch that commits go to, if the agent left it or took accepted commits off it. Locks that a check, or the
    /// git of a dacapo that was killed, has left are removed before.
    pub(super) fn recover_branch(&mut self) -> Result<Result<(), String>, SuperviseError> {
        for told in self.remove_left_locks() {
            self.notice(told)?;
        }
        let is_over = self.bring_over()?;
        let back = self.recover_own_branch()?;
        if is_over && back.is_ok() {
            self.refresh_own_refs();
        }
        Ok(back)
    }

    fn recover_own_branch(&mut self) -> Result<Result<(), String>, SuperviseError> {
        let base = self.started.base.as_ref();
        let wanted = base.and_then(|base| Some((base.branch.as_deref()?, base.head.as_deref()?)));
        let (Some((branch, head)), Some(workspace)) = (wanted, &self.workspace) else { return Ok(Ok(())) };
        match workspace.recover_branch(branch, head) {
            Ok(None) => {}
            Ok(Some(recovered)) => {
                self.notice(recovered.to_string())?;
            }
            Err(error) => return Ok(Err(format!("`{branch}` cannot be put back: {error}"))),
        }
        Ok(Ok(()))
    }

    pub(super) fn examine(&mut self) -> Result<(), SuperviseError> {
        let back = self.recover_branch()?;
        let found = match back.and_then(|()| self.look_at_workspace().map_err(|error| error.to_string())) {
            Ok(found) => found.map(Box::new),
            Err(why) => {
                self.inbox.push_back(not_examined(why).into());
                return Ok(());
            }
        };
        if let Some(first) = self.hidden.first() {
            let more = match self.hidden.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let told = format!(
                "`{first}`{more}: new, and hidden from git by rules that are new too; fresh checkouts lack it"
            );
            self.notice(told)?;
        }
        self.inbox.push_back(Input::Examined(found).into());
        Ok(())
    }

    fn look_at_workspace(&mut self) -> Result<Option<Examination>, WorkspaceError> {
        let started = self.started.clone();
        let Some(base) = &started.base else { return Ok(None) };
        let words =
            if needs_words(&started.policy) { self.agent_words().unwrap_or_default() } else { String::new() };
        let by = self.stream.state().judging().map(|judging| judging.claim.by.clone()).unwrap_or_default();
        let Some(workspace) = &mut self.workspace else { return Ok(None) };
        // Child loops or a check may have worked on since the agent ended.
        let snapshot = match self.kept.take() {
            Some(kept) => kept,
            None => workspace.snapshot(u64::from(self.stream.state().counters.iterations))?.id,
        };
        let tree = workspace.tree_of(&snapshot)?;
        let changes =
            if tree == base.tree { Vec::new() } else { workspace.changes(&base.snapshot, &snapshot)? };
        self.hidden.clear();
        // What dacapo commits is in the commit, whatever the rules say of it.
        if self.goalposts.is_some() && workspace.is_git() && !started.policy.commits() {
            let added = changes.iter().filter(|change| change.kind == ChangeKind::Added);
            let added: Vec<&[u8]> = added.map(|change| &change.path[..]).collect();
            let hidden = workspace.ignored_now(&added)?.into_iter();
            self.hidden = hidden
                .map(|path| String::from_utf8_lossy(&path).into_owned())
                .filter(|path| !is_installed(path))
                .collect();
        }
        let protect = Protection::of(&started, workspace.root());
        let mut paths: Vec<String> =
            changes.iter().map(|change| String::from_utf8_lossy(&change.path).into_owned()).collect();
        let mut tampered: Vec<String> = paths.iter().filter(|path| protect.matches(path)).cloned().collect();
        tampered.extend(changed_unseen(workspace.root(), &started));
        let marks = started.policy.source.as_ref().map(marks_of);
        let (mut moved, mut outside) = (Vec::new(), Vec::new());
        if let Some(goalposts) = &mut self.goalposts {
            moved = goalposts.moved();
            // What lies outside cannot be put back in a checkout.
            let is_outside = |moved: &&MovedGoalpost| moved.path.starts_with('/');
            outside.extend(moved.iter().filter(is_outside).map(|moved| moved.path.clone()));
            outside.extend(goalposts.changed_outside());
            // Task files lie in a folder that may be called `specs`; what of them may change is judged by itself.
            let is_of_tasks = |path: &str| marks.as_ref().is_some_and(|marks| marks.watches(path));
            moved.retain(|moved| {
                !moved.path.starts_with('/') && !protect.matches(&moved.path) && !is_of_tasks(&moved.path)
            });
        }
        // What is dacapo's own is no work of the agent's, but may be protected like anything else.
        paths.retain(|path| !path.starts_with(".dacapo/"));
        let sources: Vec<&[u8]> = match workspace.is_git() {
            true => changes.iter().map(|change| &change.path[..]).filter(|path| is_source(path)).collect(),
            false => Vec::new(),
        };
        let watched: Vec<&PathChange> = changes
            .iter()
            .filter(|change| {
                let path = String::from_utf8_lossy(&change.path);
                marks.as_ref().is_some_and(|marks| marks.watches(&path))
            })
            .collect();
        let looked_at: Vec<&[u8]> =
            sources.iter().copied().chain(watched.iter().map(|change| &change.path[..])).collect();
        let ([mut old, mut new], commits) =
            workspace.look_back([&base.snapshot, &snapshot], &looked_at, base.head.as_deref())?;
        let contents = [old.split_off(sources.len()), new.split_off(sources.len())];
        self.unhidden.clear();
        let has_ignored = self.extras.as_ref().is_some_and(Extras::holds_files);
        if !commits.is_empty() && !started.policy.commits() && (paths.is_empty() || has_ignored) {
            self.unhidden = ignored_and_new_in_head(workspace, &snapshot, base.head.as_deref())?;
        }
        if paths.is_empty() {
            paths = self.unhidden.clone();
        }
        let scan = scan(&sources, &[old, new]);
        let judged = marks.map(|marks| marks.judge(changed_files(&watched, &contents))).unwrap_or_default();
        paths.retain(|path| !judged.only_marks.contains(path));
        let flood = self.goalposts.as_ref().and_then(WatchedGoalposts::flood);
        let mut forbidden = judged.forbidden;
        forbidden.extend(flood.map(|why| ForbiddenChange { path: ".".to_owned(), why }));
        let head_moved = base.is_git.then_some(!commits.is_empty());
        let verified = verify_claim(&started.policy, &by, &words, head_moved);
        Ok(Some(Examination {
            snapshot,
            tree,
            changed: paths.len() as u64,
            some: paths.into_iter().take(NAMED).collect(),
            tampered,
            outside,
            commits,
            tamper: scan,
            contradiction: verified.contradiction,
            missing_evidence: verified.missing,
            moved,
            forbidden,
        }))
    }

    /// What the newest agent wrote itself: its messages, or the lines it printed that are not lines of its prompt.
    fn agent_words(&self) -> Option<String> {
        let state = self.stream.state();
        let (begin, end) = (state.output.attempt, state.output.end);
        let agent = self.started.policy.agent.at(state.sessions.agent);
        answers::words(self.home, &self.id, &self.started, agent.format, begin, end)
    }

    pub(super) fn recheck(&mut self, snapshot: Option<&str>) -> Result<(), SuperviseError> {
        self.leave_checkout();
        let looked = match (snapshot, &self.workspace) {
            // Without gates nothing ran since the look before.
            (Some(id), Some(workspace)) if !self.started.policy.gates.specs.is_empty() => {
                workspace.disturbed_since(id)
            }
            _ => Ok(Vec::new()),
        };
        match looked {
            Ok(paths) => {
                let mut disturbed: Vec<String> = paths
                    .iter()
                    .map(|path| String::from_utf8_lossy(path).into_owned())
                    .filter(|path| !is_lock_file(path))
                    .collect();
                // What a gate changed outside of the workspace steers the gates of the next claim.
                if let Some(goalposts) = self.goalposts.as_ref().filter(|_| snapshot.is_some()) {
                    let known = self.stream.state().judging().and_then(|judging| judging.examined.as_ref());
                    let is_new = |path: &String| !known.is_some_and(|found| found.outside.contains(path));
                    disturbed.extend(goalposts.changed_outside().into_iter().filter(is_new));
                    disturbed.extend(goalposts.changed_since_look());
                }
                let seal = self.seal()?;
                self.inbox.push_back(Input::Rechecked(Recheck { disturbed, seal }).into());
            }
            Err(error) => self.inbox.push_back(not_examined(error.to_string()).into()),
        }
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        snapshot: &str,
        iteration: u32,
        message: &str,
    ) -> Result<(), SuperviseError> {
        let back = self.recover_branch()?;
        let mut left_out = Vec::new();
        let result = match (&self.workspace, back) {
            (_, Err(why)) => Err(why),
            (Some(workspace), _) => match workspace.commit_tree(snapshot, message, u64::from(iteration)) {
                Ok(CommitOutcome::Committed { commit, left_out: files, .. }) => {
                    left_out = files;
                    Ok(Some(commit))
                }
                Ok(CommitOutcome::AlreadyCommitted { commit }) => Ok(Some(commit)),
                Ok(CommitOutcome::NothingToCommit) => Ok(None),
                Err(error) => Err(error.to_string()),
            },
            (None, _) => Err("the workspace is not a git repository".to_owned()),
        };
        self.warn_of_left_out(&left_out)?;
        let seal = self.seal()?;
        self.inbox.push_back(Input::CommitDone(result, seal).into());
        Ok(())
    }

    /// Says which files of the agent's own commits are not in dacapo's.
    pub(super) fn warn_of_left_out(&mut self, files: &[String]) -> Result<(), SuperviseError> {
        if files.is_empty() {
            return Ok(());
        }
        self.notice(format!(
            "{} in a commit of the agent and left out of the commit of what was proven: an ignore rule hides the path",
            listed(files)
        ))
    }

    pub(super) fn seal(&self) -> Result<Seal, SuperviseError> {
        Ok(Seal {
            at: Timestamp::now(),
            loop_id: self.id.to_string(),
            started_at: Some(self.stream.view().started_at),
            journal: self.stream.journal_hash(),
        })
    }

    /// Where a check runs: the workspace, or a fresh checkout of what would be kept.
    pub(super) fn place_for(
        &mut self,
        gate: &GateSpec,
        role: GateRole,
        snapshot: Option<&str>,
        look: Look,
    ) -> Result<(PathBuf, String), WorkspaceError> {
        let started = self.started.clone();
        let policy = &started.policy;
        let wants_checkout = look.place == GatePlace::Clean;
        let (Some(snapshot), Some(workspace)) = (snapshot, &self.workspace) else {
            return Ok((started.workspace.clone(), gate.script()));
        };
        if role == GateRole::Until || !wants_checkout || !workspace.is_git() {
            return Ok((started.workspace.clone(), gate.script()));
        }
        // The folder within the repository that the loop works in.
        let below = started.workspace.strip_prefix(workspace.root()).unwrap_or(Path::new("")).to_owned();
        let root = match &self.checkout {
            // A gate that is tried again finds nothing of what it left the first time: work that is right only then is wrong.
            Some(checkout)
                if checkout.snapshot == snapshot
                    && checkout.look == look
                    && (look.must_fail || self.stream.state().gate_attempt() <= 1) =>
            {
                checkout.folder()
            }
            _ => {
                let at = |error| WorkspaceError::io("lay out a checkout for", workspace.root())(error);
                let since = Instant::now();
                // The one before may lie in the same place.
                self.checkout = None;
                let above = self.guard.places.checkouts.as_deref();
                let scratch = checkouts::begin(above, &checkout_name(&self.id)).map_err(at)?;
                let folder = scratch.path().join("files");
                lay_out(workspace, &started, snapshot, &folder)?;
                // Files that come or go beside what git has laid out.
                let mut listed: Vec<String> = Vec::new();
                for path in self.hidden.iter().filter(|path| !leads_elsewhere(&folder, Path::new(path))) {
                    let _ = fs::remove_file(folder.join(path));
                    listed.push(path.clone());
                }
                if let Some(extras) = &self.extras {
                    extras.lay_out(workspace.root(), &folder).map_err(at)?;
                }
                // Of those that the agent has committed, a clone would say that they are under version control. What they hold is
                // what they held at the start.
                let unhidden = self.unhidden.iter().filter(|path| folder.join(path).is_file());
                listed.extend(unhidden.cloned());
                if let Some(goalposts) = &self.goalposts {
                    goalposts.as_elsewhere(&folder);
                    if goalposts.has_new_packages() {
                        let committed = workspace.committed_and_ignored(snapshot)?;
                        let packages = goalposts.packages_of_work(committed);
                        copy_files(workspace.root(), &folder, &packages).map_err(at)?;
                    }
                }
                if let Some(goalposts) = &self.goalposts
                    && look.tests_as_before
                {
                    let moved = moved_goalposts(self.stream.state());
                    let base = started.base.as_ref().map(|base| base.snapshot.clone()).unwrap_or_default();
                    let read = |paths: &[&str]| {
                        let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
                        workspace.files_at(&base, &paths).map_err(std::io::Error::other)
                    };
                    goalposts.put_back(&folder, &moved, read).map_err(at)?;
                    listed.extend(moved.iter().map(|moved| moved.path.clone()));
                }
                workspace.note_in_checkout(&folder, &listed)?;
                if self.goalposts.as_ref().is_some_and(WatchedGoalposts::start_git) {
                    workspace.commit_in_checkout(&folder)?;
                }
                let snapshot = snapshot.to_owned();
                let must_fail = MustFailFiles::default();
                let stamps = HashMap::new();
                let laid_out_in = Millis::from(since.elapsed());
                self.checkout =
                    Some(GateCheckout { snapshot, look, scratch, laid_out_in, stamps, must_fail });
                folder
            }
        };
        Ok((root.join(below), with_setup(policy, &gate.script())))
    }

    /// Puts must-fail tests into the checkout of a gate that has to notice them: those that it noticed before the first agent, or
    /// those that its run before this one did not notice.
    pub(super) fn put_must_fail_tests(
        &mut self,
        gate: &GateSpec,
        look: Look,
    ) -> std::io::Result<Option<MustFailSearch>> {
        let state = self.stream.state();
        let (true, Some(judging), Some(checkout)) = (look.must_fail, state.judging(), &mut self.checkout)
        else {
            return Ok(None);
        };
        let runs: Vec<&MustFailRun> = judging
            .tries
            .iter()
            .filter(|tried| tried.name == gate.name && tried.look == look)
            .filter_map(|tried| tried.result.must_fail_tests.as_deref())
            .collect();
        let tests = match runs.last() {
            Some(run) => run.next(),
            None => {
                let trial = state.trials.get(&gate.name);
                tests_of_claim(trial.map(|trial| &trial.notices[..]).unwrap_or_default())?
            }
        };
        let folder = checkout.folder();
        Ok(Some(checkout.must_fail.put(&folder, &tests, FailurePlace::Late)?))
    }

    /// Makes the goalposts in the checkout of a gate read-only while it runs, and notes what they are. A gate that is tried again may
    /// write them, since one that copies them could not copy them twice: what it writes is still seen.
    pub(super) fn hold_goalposts_still(&mut self) {
        let attempt = self.stream.state().gate_attempt();
        if let (Some(goalposts), Some(checkout)) = (&self.goalposts, &mut self.checkout) {
            let folder = checkout.folder();
            goalposts.hold_still(&folder, attempt <= 1);
            checkout.stamps = goalposts.stamps(&folder);
        }
    }

    /// Goalposts that the gate has rewritten: in a checkout by their change times, in the workspace by their bytes. One that writes
    /// them on purpose did so before the first agent, or says `touch` in its command.
    pub(super) fn rewritten_goalposts(&self, gate: &GateSpec, exit_code: i32) -> Vec<String> {
        let mut paths = match (&self.checkout, &self.goalposts) {
            (Some(checkout), _) if !gate.run.contains("touch ") => {
                rewritten(&checkout.folder(), &checkout.stamps)
            }
            // Why a gate is red is told by what it prints.
            (None, Some(goalposts)) if exit_code == 0 => goalposts.changed_since_look(),
            _ => Vec::new(),
        };
        let trial = self.stream.state().trials.get(&gate.name);
        paths.retain(|path| !trial.is_some_and(|trial| trial.writes.contains(path)));
        paths
    }

    /// What the agent has committed and the checkout of a red gate lacks, because it is ignored: the first five.
    pub(super) fn ignored_in_checkout(&self, exit_code: i32) -> Vec<String> {
        let (Some(checkout), Some(workspace)) =
            (self.checkout.as_ref().filter(|_| exit_code != 0), &self.workspace)
        else {
            return Vec::new();
        };
        let mut files = workspace.committed_and_ignored(&checkout.snapshot).unwrap_or_default();
        files.retain(|path| checkout.folder().join(path).symlink_metadata().is_err());
        files.truncate(5);
        files
    }

    /// Removes the checkout of a claim that has been judged.
    pub(super) fn leave_checkout(&mut self) {
        self.checkout = None;
    }
}

/// How the names of the folders begin in which gates of this loop run. The name says nothing of a check to the code in it, and the
/// next dacapo finds by it what a killed supervisor left.
pub(super) fn checkout_name(id: &LoopId) -> String {
    format!("tmp-{}", &sha256(format!("checkout of {id}").as_bytes())[..12])
}

/// A snapshot that is checked out for gates.
pub(super) struct GateCheckout {
    snapshot: String,
    look: Look,
    scratch: Scratch,
    /// How long that took, until its first gate has ended.
    pub(super) laid_out_in: Millis,
    /// What the goalposts in it were when its newest gate began.
    stamps: HashMap<String, Option<Stamp>>,
    must_fail: MustFailFiles,
}

impl GateCheckout {
    fn folder(&self) -> PathBuf {
        self.scratch.path().join("files")
    }
}

/// Whether a file is one that the tools of gates bring up to date by themselves.
fn is_lock_file(path: &str) -> bool {
    const NAMES: &[&str] = &[
        "Cargo.lock",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lock",
        "bun.lockb",
        "poetry.lock",
        "uv.lock",
        "pdm.lock",
        "Pipfile.lock",
        "go.sum",
        "Gemfile.lock",
        "composer.lock",
        "mix.lock",
        "packages.lock.json",
        "gradle.lockfile",
        "flake.lock",
    ];
    NAMES.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// Whether the folder of a gate is there and lies in `root`, which the gate's script starts in; if not, why it cannot run.
pub(crate) fn is_folder_inside(root: &Path, gate: &GateSpec) -> Result<(), String> {
    let Some(dir) = &gate.working_dir else { return Ok(()) };
    let folder = root.join(dir);
    let (Ok(root), Ok(real)) = (root.canonicalize(), folder.canonicalize()) else {
        return Err(format!("its folder `{dir}` is not there"));
    };
    if !real.starts_with(&root) || !stays_inside(dir) {
        return Err(format!("its folder `{dir}` leads out of the workspace"));
    }
    if real.is_dir() { Ok(()) } else { Err(format!("`{dir}` is not a folder")) }
}

/// Puts the files of `snapshot` into `folder` as gates are to see them there.
pub(crate) fn lay_out(
    workspace: &Workspace,
    started: &LoopStarted,
    snapshot: &str,
    folder: &Path,
) -> Result<(), WorkspaceError> {
    workspace.checkout_for_gates(snapshot, folder)?;
    match &started.base {
        Some(base) if started.policy.gates.from == GateFrom::Base => {
            as_at_start(workspace, &base.snapshot, snapshot, started, folder)
        }
        _ => Ok(()),
    }
}

/// Ignored files that the agent has put under version control: they are in no snapshot, and they are work. `base` is the commit before
/// the agent's.
fn ignored_and_new_in_head(
    workspace: &Workspace,
    snapshot: &str,
    base: Option<&str>,
) -> Result<Vec<String>, WorkspaceError> {
    let files = workspace.committed_and_ignored(snapshot)?;
    let paths: Vec<&[u8]> = files.iter().map(|path| path.as_bytes()).collect();
    let before = match base {
        Some(base) if !paths.is_empty() => workspace.files_at(base, &paths)?,
        _ => vec![None; paths.len()],
    };
    let new = files.iter().zip(before).filter(|(_, before)| before.is_none());
    Ok(new.map(|(path, _)| path.clone()).collect())
}

/// Copies files, by their paths from the top, as they are in the workspace.
fn copy_files(root: &Path, folder: &Path, paths: &[String]) -> std::io::Result<()> {
    for path in paths.iter().filter(|path| !leads_elsewhere(folder, Path::new(path))) {
        let (from, to) = (root.join(path), folder.join(path));
        // What is there already may be a link to this very file.
        let is_free = to.symlink_metadata().is_err();
        if is_free && from.symlink_metadata().is_ok_and(|data| data.is_file()) {
            fs::create_dir_all(to.parent().unwrap_or(folder))?;
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

/// A gate's command with what prepares a fresh checkout before it.
pub(crate) fn with_setup(policy: &Policy, gate: &str) -> String {
    let mut script = String::new();
    for setup in &policy.gates.setup {
        match &setup.only_if {
            Some(file) => {
                script.push_str(&format!("if [ -e {} ]; then {}\nfi || exit $?\n", quoted(file), setup.run));
            }
            None => script.push_str(&format!("{{ {}\n}} || exit $?\n", setup.run)),
        }
    }
    script.push_str(gate);
    script
}

/// The patterns that protect, and the files that were found at the start because a gate names them.
struct Protection<'a> {
    globs: Globs,
    files: HashSet<&'a str>,
    /// Files that a gate would take instead of one that was there at the start: a `GNUmakefile` beside a `Makefile`.
    rivals: HashSet<String>,
}

impl<'a> Protection<'a> {
    fn of(started: &'a LoopStarted, root: &Path) -> Self {
        let files: HashSet<&str> = started.protected.iter().map(|file| file.path.as_str()).collect();
        let below = started.workspace.strip_prefix(root).unwrap_or(Path::new(""));
        let gates = started.policy.gates.specs.iter().map(|gate| named_files(&gate.script()));
        let rivals = gates.chain([started.policy.gates.named_later.clone()]).flat_map(|named| {
            let named: Vec<String> =
                named.iter().map(|name| below.join(name).to_string_lossy().into_owned()).collect();
            let (known, new): (Vec<String>, Vec<String>) =
                named.into_iter().partition(|name| files.contains(name.as_str()));
            let known: Vec<(String, String)> = known.iter().map(|name| role(name)).collect();
            new.into_iter().filter(move |name| known.contains(&role(name))).collect::<Vec<_>>()
        });
        Self {
            // Patterns were checked before the loop began.
            globs: Globs::parse(&started.policy.gates.protect).unwrap_or_default(),
            rivals: rivals.collect(),
            files,
        }
    }

    fn matches(&self, path: &str) -> bool {
        self.files.contains(path) || self.rivals.contains(path) || self.globs.matches(path)
    }
}

/// Protected files that no snapshot holds because git ignores them, and that are not what they were.
fn changed_unseen(root: &Path, started: &LoopStarted) -> Vec<String> {
    let is_same = |file: &ProtectedFile| {
        fs::read(root.join(&file.path)).is_ok_and(|bytes| sha256(&bytes) == file.sha256)
    };
    let unseen = started.protected.iter().filter(|file| file.ignored && !is_same(file));
    unseen.map(|file| file.path.clone()).collect()
}

/// Puts the protected paths in `folder` back to what they were before the first agent.
fn as_at_start(
    workspace: &Workspace,
    base: &str,
    snapshot: &str,
    started: &LoopStarted,
    folder: &Path,
) -> Result<(), WorkspaceError> {
    use std::os::unix::ffi::OsStrExt;
    let protect = Protection::of(started, workspace.root());
    let changes = workspace.changes(base, snapshot)?;
    let protected = changes.iter().filter(|change| protect.matches(&String::from_utf8_lossy(&change.path)));
    let mut back = Vec::new();
    for change in protected {
        if change.kind == ChangeKind::Added {
            let path = Path::new(std::ffi::OsStr::from_bytes(&change.path));
            if !leads_elsewhere(folder, path) {
                let _ = fs::remove_file(folder.join(path));
            }
        } else {
            back.push(&change.path[..]);
        }
    }
    if back.is_empty() { Ok(()) } else { workspace.write_paths(base, &back, folder) }
}

/// Changes with what their files held before and hold now.
fn changed_files<'a>(
    changes: &[&PathChange],
    [old, new]: &'a [Vec<Option<Vec<u8>>>; 2],
) -> Vec<ChangedFile<'a>> {
    let mut files = Vec::new();
    for (change, (old, new)) in changes.iter().zip(old.iter().zip(new)) {
        let path = String::from_utf8_lossy(&change.path).into_owned();
        // What a link holds is where it leads.
        let (before, after) = match change.kind {
            ChangeKind::TypeChanged => (None, Some(&b""[..])),
            _ => (old.as_deref(), new.as_deref()),
        };
        files.push(ChangedFile { path, before, after });
    }
    files
}

/// Whether a file may hold tests in a language that is understood.
fn is_source(path: &[u8]) -> bool {
    const ENDINGS: [&[u8]; 10] =
        [b".rs", b".py", b".js", b".jsx", b".ts", b".tsx", b".mjs", b".cjs", b".mts", b".go"];
    ENDINGS.iter().any(|ending| path.ends_with(ending))
}

/// Tests that were weakened; `contents` are what the files held before and after.
fn scan(paths: &[&[u8]], [old, new]: &[Vec<Option<Vec<u8>>>; 2]) -> tamper::TamperScan {
    let text =
        |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let files: Vec<(String, Option<String>, Option<String>)> = paths
        .iter()
        .zip(old.iter().zip(new))
        .map(|(path, (old, new))| (String::from_utf8_lossy(path).into_owned(), text(old), text(new)))
        .collect();
    let files: Vec<FileChange<'_>> = files
        .iter()
        .map(|(path, old, new)| FileChange { path, old: old.as_deref(), new: new.as_deref() })
        .collect();
    tamper::scan(&files)
}
