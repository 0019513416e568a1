//! Refs of their own for agents in worktrees of dacapo's: what they do to other branches, tags, remotes and settings has no effect
//! on the user's repository.
//!
//! A worktree shares refs, configuration and hooks with the repository it belongs to. In the sandbox another folder is mounted in
//! the place of that repository's git folder. It has copies of refs and configuration; objects and what belongs to the worktree
//! alone (HEAD, index) are those of the repository. When an attempt is over, dacapo brings the worktree's own branch over.

use std::{
    cell::RefCell,
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use dacapo_core::{
    receipt::sha256,
    sandbox::{BranchStep, MountStep, branch_step, packed_refs},
};
use rustix::fs::{FlockOperation, flock};

use crate::{
    git::{WorkspaceError, on_disk},
    home::{Home, make_dir},
    repository::{RefSwap, Repository},
};

/// Where dacapo's own refs lie, which no agent needs.
const OF_DACAPO: &str = "refs/dacapo";

/// What is copied; the repository's own is not changed by what becomes of the copy.
const COPIED: [&str; 2] = ["HEAD", "shallow"];

/// The list of refs that are not files of their own.
const PACKED: &str = "packed-refs";

/// What is made anew instead of being shown.
const NOT_SHOWN: [&str; 2] = ["refs", "logs"];

/// What can be written, beside what belongs to the worktree alone. All else can only be read: hooks, modules, and the worktrees of
/// others, which gates look at.
const WRITABLE: [&str; 2] = ["objects", "lfs"];

/// The index of the user's own checkout.
const INDEX: &str = "index";

/// Files of a worktree that say which repository it belongs to.
const LINKS: [&str; 2] = ["commondir", "gitdir"];

/// How long the file of a ref may be, and that of many.
const LONGEST_REF: u64 = 1 << 10;
const LONGEST_LIST: u64 = 1 << 27;

/// How much of the hash of a worktree's path names its folder.
const KEY: usize = 20;

/// What stands in the place of an address to push to.
const NO_PUSH: &str = "/dacapo merges what is accepted, an agent of a unit or a task pushes nothing";

/// What a worktree is on, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorktreeIsOn<'a> {
    Branch(&'a str),
    /// At a commit.
    NoBranch,
    /// What its HEAD says, which no agent has written yet.
    AsHeadSays,
}

/// The refs that the agents of a loop see.
#[derive(Debug)]
pub(crate) struct OwnRefs {
    /// The git folder that all worktrees of the repository share.
    common: PathBuf,
    /// What belongs to the worktree alone.
    git_dir: PathBuf,
    /// The branch that the worktree is for; none if it is at a commit.
    branch: Option<String>,
    /// What is mounted over `common`.
    folder: PathBuf,
    /// Repositories on this machine that are remotes of this one.
    remotes: Vec<PathBuf>,
    /// Where the branch was when the copy was last brought up to date; not known of what a killed supervisor left.
    shown: RefCell<Option<String>>,
    /// Held by the loop that made the folder; the others that work in the worktree share it, and leave it where it is.
    lock: Option<fs::File>,
}

impl OwnRefs {
    /// The refs of the agents that work in a worktree of dacapo's; none if its refs are not files.
    pub(crate) fn of(home: &Home, worktree: &Path, on: WorktreeIsOn<'_>) -> Option<Self> {
        let worktree = worktree.canonicalize().ok().filter(|path| is_of_dacapo(home, path))?;
        let (git_dir, common) = on_disk::folders_of_checkout(&worktree)?;
        if git_dir == common || common.join("reftable").exists() {
            return None;
        }
        let key = sha256(worktree.as_os_str().as_bytes());
        let folder = home.path().join("refs").join(&key[..KEY]);
        let branch = match on {
            WorktreeIsOn::Branch(branch) => Some(branch.to_owned()),
            WorktreeIsOn::NoBranch => None,
            WorktreeIsOn::AsHeadSays => on_disk::head_branch(&git_dir, &common),
        };
        let config = fs::read_to_string(common.join("config")).ok()?;
        let remotes = local_remotes(&config, common.parent().unwrap_or(&common));
        Some(Self { common, git_dir, branch, folder, remotes, shown: RefCell::default(), lock: None })
    }

    /// Whether there is such a folder already: of a loop that works in the same worktree, or of a supervisor that was killed.
    pub(crate) fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    /// Copies what the agents of a loop are to see. If another loop works in the worktree, they see what its agents do.
    pub(crate) fn laid_out(mut self, may_push: bool) -> io::Result<Self> {
        make_dir(self.folder.parent().unwrap_or(&self.folder))?;
        self.lock = self.lock()?;
        if self.lock.is_some() {
            if self.is_there() {
                self.set_aside()?;
            }
            self.make(may_push)?;
        }
        self.shown.replace(self.seen());
        Ok(self)
    }

    /// The right to make and remove the folder, unless another loop has it.
    fn lock(&self) -> io::Result<Option<fs::File>> {
        let path = self.folder.with_extension("lock");
        loop {
            let file = fs::File::options().create(true).append(true).open(&path)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Ok(None);
            }
            // One that was removed meanwhile locks nothing.
            if fs::symlink_metadata(&path)
                .is_ok_and(|named| file.metadata().is_ok_and(|open| named.ino() == open.ino()))
            {
                return Ok(Some(file));
            }
        }
    }

    /// Keeps refs that were not brought over, beside where they were.
    pub(crate) fn set_aside(&self) -> io::Result<()> {
        let aside = self.folder.with_extension("left");
        let _ = fs::remove_dir_all(&aside);
        fs::rename(&self.folder, aside)
    }

    fn make(&self, may_push: bool) -> io::Result<()> {
        make_dir(&self.folder)?;
        for name in NOT_SHOWN {
            make_dir(&self.folder.join(name))?;
        }
        for name in COPIED {
            copy_if_there(&self.common.join(name), &self.folder.join(name))?;
        }
        self.copy_refs()?;
        let config = fs::read_to_string(self.common.join("config"))?;
        fs::write(self.folder.join("config"), config_of_agents(&config, may_push))?;
        for (_, to) in self.shown()? {
            match to.file_name() == Some(OsStr::new(INDEX)) {
                true => drop(fs::File::create(to)?),
                false => make_dir(&to)?,
            }
        }
        Ok(())
    }

    /// What of the repository's folder is shown as it is, and where in ours.
    fn shown(&self) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let mut shown = Vec::new();
        for entry in fs::read_dir(&self.common)? {
            let entry = entry?;
            let name = entry.file_name();
            // Hooks, or all objects, may be a link to a folder elsewhere.
            let (Ok(found), Ok(from)) = (fs::metadata(entry.path()), entry.path().canonicalize()) else {
                continue;
            };
            let is_shown = found.is_dir() && !NOT_SHOWN.iter().any(|other| name == *other);
            if is_shown || (name == INDEX && found.is_file()) {
                shown.push((from, self.folder.join(name)));
            }
        }
        Ok(shown)
    }

    /// Where the worktree's own folder is in ours.
    fn seen_git_dir(&self) -> PathBuf {
        self.folder.join("worktrees").join(self.git_dir.file_name().unwrap_or_default())
    }

    /// The mounts that put this in the place of the repository's folder; they come before all others.
    pub(crate) fn mounts(&self) -> Vec<MountStep> {
        let mut steps = Vec::new();
        for (from, to) in self.shown().unwrap_or_default() {
            let is_writable = WRITABLE.iter().any(|name| to.file_name() == Some(OsStr::new(name)));
            steps.push(MountStep::Over { from, to: to.clone() });
            if !is_writable {
                steps.push(MountStep::ReadOnly(to));
            }
        }
        let seen = self.seen_git_dir();
        steps.push(MountStep::Writable(seen.clone()));
        steps.extend(LINKS.map(|name| MountStep::ReadOnly(seen.join(name))));
        steps.push(MountStep::Over { from: self.folder.clone(), to: self.common.clone() });
        steps
    }

    /// Remotes on this machine, which are not to be written.
    pub(crate) fn remotes(&self) -> &[PathBuf] {
        &self.remotes
    }

    pub(crate) fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    fn name(&self) -> Option<String> {
        self.branch.as_ref().map(|branch| format!("refs/heads/{branch}"))
    }

    /// Where the agents have their branch.
    fn seen(&self) -> Option<String> {
        self.seen_at(&self.name()?)
    }

    /// Where the agents have a ref, if that can be told without waiting for them: each is a file, or none.
    fn seen_at(&self, name: &str) -> Option<String> {
        let is_file = |name: &str, longest: u64| match fs::symlink_metadata(self.folder.join(name)) {
            Ok(found) => found.is_file() && found.len() <= longest,
            Err(_) => true,
        };
        let is_readable = is_file(name, LONGEST_REF) && is_file(PACKED, LONGEST_LIST);
        is_readable.then(|| on_disk::reference(&self.folder, name)).flatten()
    }

    /// Shows the next attempt where the branch is by now, unless an agent has moved its copy since. Locks of a git that was killed
    /// go, if `is_alone` says that no loop below works here.
    pub(crate) fn refresh(&self, is_alone: bool) -> io::Result<()> {
        if self.lock.is_some() && is_alone {
            for lock in ["HEAD.lock", "config.lock", "packed-refs.lock"] {
                let _ = fs::remove_file(self.folder.join(lock));
            }
        }
        let Some(name) = self.name() else { return Ok(()) };
        if self.lock.is_some() && is_alone {
            if !self.has_plain_folders(&name) {
                // A link of the agent's would lead out of the sandbox.
                remove(&self.folder.join("refs"))?;
                make_dir(&self.folder.join("refs"))?;
                self.copy_refs()?;
            }
            let _ = fs::remove_file(self.folder.join(format!("{name}.lock")));
        } else if !self.has_plain_folders(&name) {
            return Ok(());
        }
        let (seen, Some(tip)) = (self.seen(), on_disk::reference(&self.common, &name)) else { return Ok(()) };
        if seen.as_ref() == Some(&tip) {
            self.shown.replace(Some(tip));
            return Ok(());
        }
        if seen != *self.shown.borrow() && seen.is_some() {
            return Ok(());
        }
        let path = self.folder.join(&name);
        if let Some(above) = path.parent() {
            make_dir(above)?;
        }
        if path.is_dir() && !path.is_symlink() {
            // The agent has branches below this name.
            fs::remove_dir_all(&path)?;
        }
        self.put(&name, format!("{tip}\n").as_bytes())?;
        self.shown.replace(Some(tip));
        Ok(())
    }

    /// Writes a file of the agents' git folder, under another name first: what is there may be a link of an agent's.
    fn put(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let fresh = self.folder.join("dacapo-ref");
        remove(&fresh)?;
        fs::write(&fresh, text)?;
        fs::rename(fresh, self.folder.join(name))
    }

    /// Shows the agents the refs of the repository: all in one list, but those that name another ref, for which git has files alone,
    /// and the branch of the worktree, whose file some tools read themselves.
    fn copy_refs(&self) -> io::Result<()> {
        // Files first: git writes the list before it removes a file whose ref it has packed.
        let (own, mut ids, mut others) = (self.name(), Vec::new(), Vec::new());
        loose_refs(&self.common, Path::new("refs"), &mut |name, text| {
            let id = text.trim_ascii();
            let is_own = own.as_ref().is_some_and(|own| name == Path::new(own));
            match on_disk::is_id(&String::from_utf8_lossy(id)) && !is_own {
                true => ids.push((name.as_os_str().as_bytes().to_vec(), id.to_vec())),
                false => others.push((name.to_owned(), text)),
            }
        })?;
        let packed = match fs::read(self.common.join(PACKED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        self.put(PACKED, &packed_refs(&packed, ids))?;
        for (name, text) in others {
            let path = self.folder.join(name);
            make_dir(path.parent().unwrap_or(&self.folder))?;
            fs::write(path, text)?;
        }
        Ok(())
    }

    /// Whether the folders above a ref are folders, as far as they are there.
    fn has_plain_folders(&self, name: &str) -> bool {
        let above = Path::new(name).ancestors().skip(1).filter(|at| !at.as_os_str().is_empty());
        above.map(|at| fs::symlink_metadata(self.folder.join(at))).all(|found| match found {
            Ok(found) => found.is_dir(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        })
    }

    /// Moves the worktree's branch in the repository to where the agent left its own. If the agent went to another branch, the
    /// worktree's HEAD becomes the commit that it stood on, because the repository has no such branch.
    pub(crate) fn bring_over(
        &self,
        repository: impl FnOnce() -> Result<Repository, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let name = self.name();
        if let (Some(branch), Some(name)) = (&self.branch, &name) {
            self.bring_branch_over(branch, name, repository)?;
        }
        let head = on_disk::head_reference(&self.git_dir).filter(|head| Some(head) != name.as_ref());
        if let Some(commit) = head.and_then(|name| self.seen_at(&name)) {
            on_disk::detach(&self.git_dir, &commit).map_err(|source| WorkspaceError::Io {
                what: "cannot write",
                path: self.git_dir.join("HEAD"),
                source,
            })?;
        }
        Ok(())
    }

    fn bring_branch_over(
        &self,
        branch: &str,
        name: &str,
        repository: impl FnOnce() -> Result<Repository, WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let (seen, tip) = (self.seen_at(name), on_disk::reference(&self.common, name));
        let step = branch_step(seen.as_deref(), tip.as_deref(), self.shown.borrow().as_deref());
        if let (Some(new), BranchStep::Follow | BranchStep::FollowUnlessHeld) = (&seen, step) {
            let repository = repository()?;
            let tip = if tip.is_some() { tip } else { repository.branch(branch)? };
            let is_held = step == BranchStep::FollowUnlessHeld
                && tip.as_ref().map_or(Ok(false), |tip| repository.is_ancestor(new, tip))?;
            if !is_held && let RefSwap::Not { now } = repository.swap(branch, new, tip.as_deref())? {
                return Err(WorkspaceError::BranchMoved { branch: branch.to_owned(), now });
            }
            self.shown.replace(seen.clone());
        }
        Ok(())
    }

    /// Takes the folder away, if it is this loop's; only when nothing runs that sees it.
    pub(crate) fn remove(&self) {
        if self.lock.is_some() {
            let _ = fs::remove_dir_all(&self.folder);
            let _ = fs::remove_file(self.folder.with_extension("lock"));
        }
    }
}

/// Whether a folder is a worktree that dacapo made.
pub(crate) fn is_of_dacapo(home: &Home, folder: &Path) -> bool {
    home.path().canonicalize().is_ok_and(|home| folder.starts_with(home.join("worktrees")))
}

/// Removes a file, a link, or a folder with all that is in it.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

fn copy_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::copy(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map(drop),
    }
}

/// Tells of each ref that is a file what the file holds, without links, locks and dacapo's own.
fn loose_refs(common: &Path, below: &Path, tell: &mut impl FnMut(&Path, Vec<u8>)) -> io::Result<()> {
    if below == Path::new(OF_DACAPO) {
        return Ok(());
    }
    for entry in fs::read_dir(common.join(below))? {
        let entry = entry?;
        let (name, kind) = (below.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            loose_refs(common, &name, tell)?;
        } else if kind.is_file() && name.extension() != Some(OsStr::new("lock")) {
            match fs::read(common.join(&name)) {
                // It was packed or deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => tell(&name, read?),
            }
        }
    }
    Ok(())
}

/// The configuration that agents see: objects are not pruned by refs that lack some of the repository's, and, unless agents may,
/// nothing is pushed.
fn config_of_agents(config: &str, may_push: bool) -> String {
    let mut seen = String::new();
    for line in config.lines() {
        let is_address = line.trim_start().to_ascii_lowercase().starts_with("pushurl");
        if may_push || !is_address {
            seen.push_str(line);
            seen.push('\n');
        }
    }
    seen.push_str(
        "[extensions]\n\tpreciousObjects = true\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
    );
    if !may_push {
        for section in remotes(config) {
            seen.push_str(&format!("{section}\n\tpushurl = \"{NO_PUSH}\"\n"));
        }
    }
    seen
}

/// The lines that begin the sections of remotes.
fn remotes(config: &str) -> impl Iterator<Item = &str> {
    config.lines().map(str::trim).filter(|line| {
        let lower = line.to_ascii_lowercase();
        lower.starts_with("[remote \"") && lower.ends_with("\"]")
    })
}

/// Remotes that are folders of this machine.
fn local_remotes(config: &str, above: &Path) -> Vec<PathBuf> {
    let addresses = config.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().to_ascii_lowercase();
        (key == "url" || key == "pushurl").then(|| value.trim().trim_matches('"'))
    });
    let folders = addresses.map(|address| address.strip_prefix("file://").unwrap_or(address));
    folders.map(|folder| above.join(folder)).filter(|folder| folder.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_refs(common: &Path, folder: &Path) -> OwnRefs {
        OwnRefs {
            git_dir: common.join("worktrees/a"),
            common: common.to_owned(),
            branch: Some("u/a".to_owned()),
            folder: folder.to_owned(),
            remotes: Vec::new(),
            shown: RefCell::default(),
            lock: Some(tempfile::tempfile().unwrap()),
        }
    }

    #[test]
    fn links_in_the_place_of_folders_of_refs_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (common, folder, outside) =
            (dir.path().join("common"), dir.path().join("own"), dir.path().join("outside"));
        for made in [common.join("refs/heads/u"), folder.join("refs"), outside.clone()] {
            fs::create_dir_all(made).unwrap();
        }
        let id = "1".repeat(40);
        fs::write(common.join("refs/heads/u/a"), format!("{id}\n")).unwrap();
        let own = own_refs(&common, &folder);
        std::os::unix::fs::symlink(&outside, folder.join("refs/heads")).unwrap();
        own.refresh(true).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(on_disk::reference(&folder, "refs/heads/u/a"), Some(id));
    }

    #[test]
    fn agents_see_the_refs_of_the_repository_in_one_list() {
        let dir = tempfile::tempdir().unwrap();
        let (common, folder) = (dir.path().join("common"), dir.path().join("own"));
        for made in ["refs/heads/u", "refs/remotes/origin", "refs/dacapo"] {
            fs::create_dir_all(common.join(made)).unwrap();
        }
        fs::create_dir_all(folder.join("refs")).unwrap();
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        for (name, text) in [
            ("packed-refs", format!("{old} refs/heads/main\n{old} refs/heads/u/a\n")),
            ("refs/heads/u/a", format!("{new}\n")),
            ("refs/heads/u/b", format!("{new}\n")),
            ("refs/heads/u/b.lock", String::new()),
            ("refs/remotes/origin/HEAD", "ref: refs/remotes/origin/main\n".to_owned()),
            ("refs/dacapo/x", format!("{new}\n")),
        ] {
            fs::write(common.join(name), text).unwrap();
        }
        // A link in the place of the list is not followed.
        std::os::unix::fs::symlink(common.join("packed-refs"), folder.join(PACKED)).unwrap();
        own_refs(&common, &folder).copy_refs().unwrap();
        let expected = format!(
            "# pack-refs with: sorted \n{old} refs/heads/main\n{old} refs/heads/u/a\n{new} refs/heads/u/b\n"
        );
        assert_eq!(fs::read_to_string(folder.join(PACKED)).unwrap(), expected);
        assert!(!folder.join(PACKED).is_symlink() && !folder.join("refs/heads/u/b").exists());
        assert_eq!(on_disk::reference(&folder, "refs/heads/u/a"), Some(new));
        let head = fs::read_to_string(folder.join("refs/remotes/origin/HEAD")).unwrap();
        assert_eq!(head, "ref: refs/remotes/origin/main\n");
    }

    #[test]
    fn agents_of_units_push_nothing_by_a_remote_s_name_and_prune_nothing() {
        let config = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = /r\n\tPushUrl = /s\n";
        let seen = config_of_agents(config, false);
        assert!(!seen.contains("/s"), "{seen}");
        assert!(seen.ends_with(&format!("[remote \"origin\"]\n\tpushurl = \"{NO_PUSH}\"\n")), "{seen}");
        assert!(seen.contains("preciousObjects = true"), "{seen}");
        let seen = config_of_agents(config, true);
        assert!(seen.contains("PushUrl = /s") && !seen.contains(NO_PUSH), "{seen}");
    }

    #[test]
    fn remotes_on_this_machine_are_known_by_their_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let (project, beside) = (dir.path().join("project"), dir.path().join("bare.git"));
        fs::create_dir_all(&project).unwrap();
        fs::create_dir_all(&beside).unwrap();
        let config = format!(
            "url = ../bare.git\nurl = file://{}\nurl = https://host/x.git\nurl = git@host:x.git\n",
            beside.display()
        );
        assert_eq!(local_remotes(&config, &project), [project.join("../bare.git"), beside]);
    }
}
