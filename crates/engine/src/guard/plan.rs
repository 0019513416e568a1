//! What there is to protect on this machine, for this user, around this workspace.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    fs, io,
    io::Read,
    mem,
    os::unix::{
        ffi::OsStringExt,
        fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    rc::Rc,
};

use dacapo_core::{
    agent::own_folders,
    policy::Policy,
    sandbox::{
        Layout, MountPoint, MountStep, Names, PathAccess, PathFacts, SandboxMode, SandboxRules, Surroundings,
        aliases, names, taken_in_by_git, taken_in_by_shell,
    },
};
use rustix::fs::{Access as Right, OFlags, access};

use super::{GuardSpec, HeldNames, OwnRefs};
use crate::{
    home::{Home, make_dir},
    inside::child,
    process::{find_program, proc},
};

/// What of the machine a loop works with: its workspace, its folders, its refs.
#[derive(Clone, Debug, Default)]
pub(crate) struct GuardedPlaces {
    pub(crate) workspace: PathBuf,
    /// TASK_FOLDER, if there is one.
    pub(crate) task_folder: Option<PathBuf>,
    /// Where files are laid out that gates of this loop judge.
    pub(crate) checkouts: Option<PathBuf>,
    /// What of the agent's own must stay writable where little else is.
    pub(crate) agent_folders: Vec<PathBuf>,
    /// Where the agent works that asked for this loop, if one did.
    pub(crate) parent: Option<PathBuf>,
    /// The refs that agents see in the place of the repository's, if they have their own.
    pub(crate) own_refs: Option<Rc<OwnRefs>>,
    /// Whether agents work in a worktree that belongs to the user's repository.
    pub(crate) shares_refs: bool,
}

impl GuardedPlaces {
    /// The folder that the user chose: an agent that asks for a loop chooses none of those that are protected from itself.
    pub(crate) fn allowed(&self) -> &Path {
        self.parent.as_deref().unwrap_or(&self.workspace)
    }
}

/// What is protected, and why some of it cannot be.
pub struct Protected {
    layout: Layout,
    facts: Facts,
    free: Vec<PathBuf>,
    pub(super) held: HeldNames,
    links: FollowedLinks,
    /// What no tier protects here, one sentence each.
    pub open: Vec<String>,
    /// Why nothing may be run here at all.
    pub(super) forbidden: Option<String>,
}

impl Protected {
    /// What a keeper is told for the best tier.
    pub(crate) fn for_namespaces(&self, own_refs: Option<&OwnRefs>) -> GuardSpec {
        let refs = own_refs.into_iter().flat_map(OwnRefs::mounts);
        let mut steps: Vec<MountStep> = refs.chain(self.layout.mounts(&self.facts)).collect();
        if Path::new("/dev/pts/ptmx").exists() {
            steps.push(MountStep::Terminals("/dev/pts".into()));
            // Elsewhere it is a link, or a device that looks for the folder beside it.
            if self.facts.mounts.iter().any(|mount| mount.at == Path::new("/dev/ptmx")) {
                steps.push(MountStep::Over { from: "/dev/pts/ptmx".into(), to: "/dev/ptmx".into() });
            }
        }
        GuardSpec::Namespaces(steps)
    }

    pub(crate) fn for_landlock(&self) -> GuardSpec {
        GuardSpec::Landlock(self.layout.landlock(&self.free, &self.facts))
    }

    /// The names that are held for as long as the loop runs.
    pub(crate) fn take_held(&mut self) -> HeldNames {
        std::mem::take(&mut self.held)
    }

    /// Paths and what may be done there, ordered.
    pub fn rules(&self) -> Vec<(PathBuf, PathAccess)> {
        self.layout.rules().map(|(path, access)| (path.to_owned(), access)).collect()
    }

    /// What may be done at a path.
    pub fn access(&self, path: &Path) -> PathAccess {
        self.layout.access(path)
    }
}

/// The folders of the agents of a policy that hold their sessions and settings.
pub(crate) fn agent_folders(policy: &Policy) -> Vec<PathBuf> {
    let Some(home) = home() else { return Vec::new() };
    let commands = std::iter::once(&policy.agent.command).chain(&policy.agent.fallback);
    commands.flat_map(|command| own_folders(&command.name)).map(|name| home.join(name)).collect()
}

/// Looks at the machine. `holds` says whether names that are not there are held by files.
pub fn protected(
    home: &Home,
    rules: &SandboxRules,
    workspace: &Path,
    task: Option<&Path>,
    holds: bool,
) -> Protected {
    let places = GuardedPlaces {
        workspace: workspace.to_owned(),
        task_folder: task.map(Path::to_owned),
        ..GuardedPlaces::default()
    };
    let store = holds.then(|| home.held_names());
    let mut all = look_at_machine(rules, places.allowed(), &places.agent_folders, store.as_deref());
    all.make_room(home, rules, &places);
    all
}

/// What is protected on this machine, whatever loop works in the folder that the user chose. It takes long, so a thread does it while
/// its supervisor prepares the loop. Names that are not there are held by files of the store, if there is one.
pub(super) fn look_at_machine(
    rules: &SandboxRules,
    chosen: &Path,
    agent_folders: &[PathBuf],
    store: Option<&Path>,
) -> Protected {
    let mut all = Protected {
        layout: Layout::default(),
        facts: Facts::look(),
        free: Vec::new(),
        held: HeldNames::default(),
        links: FollowedLinks::default(),
        open: Vec::new(),
        forbidden: None,
    };
    // What lies below is named without it.
    if let Some(home) = variable("HOME") {
        all.follow(&home);
    }
    let around = surroundings();
    let mut names = names(&around);
    if rules.mode != SandboxMode::Workspace {
        all.open.extend(add_taken_in(&mut names, &around, &real(chosen)));
    }
    let mut tools = InstalledTools::default();
    let holding = store.filter(|_| rules.mode != SandboxMode::Workspace).map(|store| {
        let of_tools = mem::take(&mut names.held_folders_of).into_iter();
        let of_tools = of_tools.filter(|(_, tool)| tools.has(tool)).map(|(folder, _)| folder);
        let folders = mem::take(&mut names.held_folders).into_iter().chain(path_folders_to_come());
        let folders = folders.chain(of_tools.collect::<Vec<_>>());
        let chosen = real(chosen);
        // Known for as long as nothing is made: names that are held are there afterwards.
        let mut links = FollowedLinks::default();
        let mut lies_there = |path: &PathBuf| {
            path.ancestors().find_map(|above| links.follow(above).1).is_some_and(|at| at.starts_with(&chosen))
        };
        let (in_workspace, folders): (Vec<_>, Vec<_>) = folders.partition(&mut lies_there);
        let (more, held): (Vec<_>, Vec<_>) = mem::take(&mut names.held).into_iter().partition(lies_there);
        all.open.extend(not_held_in_workspace(in_workspace.iter().chain(&more)));
        hold_names(store, held, folders, &mut tools)
    });
    if rules.mode == SandboxMode::Workspace {
        all.layout.set("/", PathAccess::ReadOnly);
        for path in ["/dev", "/proc"].map(PathBuf::from).into_iter().chain(temporary()) {
            all.allow(&path);
        }
        for path in agent_folders {
            // An agent that has never run makes its folders when it starts, which it could not do then.
            if store.is_some() && path.extension().is_none() {
                let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            }
            all.allow(path);
        }
        for path in &names.credentials {
            let is_allowed = |allowed: &PathBuf| path.starts_with(allowed) || allowed.starts_with(path);
            if !rules.read.iter().chain(&rules.write).any(is_allowed) {
                all.hide(path);
            }
        }
    } else {
        if around.is_root {
            all.freeze_root();
        }
        for path in &names.protected {
            all.protect(path);
        }
        let wide = WideFolders::around(chosen);
        for folder in path_folders() {
            all.protect_programs(&folder, &wide);
        }
        if let Ok(program) = std::env::current_exe() {
            all.protect(&program);
        }
        if let Some(NamesHeld { held, folders, not_held }) = holding {
            held.paths().map(Path::to_owned).collect::<Vec<_>>().iter().for_each(|path| all.protect(path));
            folders.iter().for_each(|folder| all.protect(folder));
            all.open
                .extend(can_appear(&not_held, "the folder cannot be written, or the name could not be held"));
            all.held = held;
        }
    }
    if around.is_root {
        all.protect_machine();
    }
    if let Some(store) = store {
        // A server that the user starts later puts its socket there.
        // One that another loop holds is held by this one, too, or it would go with that loop.
        if tools.has("tmux") {
            all.held.more(HeldNames::hold(store, &[], &folders_of_tmux()));
        }
    }
    all.close_services(rules);
    all.close_terminals();
    all
}

/// How long a file may be that is looked through for others that it takes in, and how many are.
const LONGEST_STARTUP: u64 = 1 << 16;
const MOST_STARTUP: usize = 64;

/// Adds what startup files and git's settings take in from elsewhere to what is protected. What is not there yet must not appear. What
/// lies in the workspace stays writable, which is said.
fn add_taken_in(names: &mut Names, around: &Surroundings, workspace: &Path) -> Option<String> {
    let home = around.home.as_ref()?;
    let variable = |name: &str| match name {
        "HOME" => Some(home.to_string_lossy().into_owned()),
        "XDG_CONFIG_HOME" => around.config.as_ref().map(|path| path.to_string_lossy().into_owned()),
        name => std::env::var(name).ok(),
    };
    let shells = names.startup.iter().map(|path| (path.clone(), false));
    let mut to_read: Vec<(PathBuf, bool)> =
        names.git_settings.iter().map(|path| (path.clone(), true)).chain(shells).collect();
    let mut known: BTreeSet<PathBuf> = names.protected.iter().cloned().collect();
    let folders = [&around.home, &around.config, &around.data, &around.state];
    let wide: Vec<PathBuf> = folders.into_iter().flatten().cloned().chain(temporary()).collect();
    let (mut left, mut in_workspace) = (MOST_STARTUP, Vec::new());
    while let Some((path, is_git)) = to_read.pop() {
        let Some(text) = startup_text(&path) else { continue };
        let folder = path.parent().unwrap_or(&path);
        let found = if is_git {
            taken_in_by_git(&text, folder, &variable)
        } else {
            taken_in_by_shell(&text, &variable)
        };
        for found in found {
            // Folders with data of all kinds.
            let is_wide = wide.iter().any(|wide| wide.starts_with(&found));
            if is_wide
                || found.starts_with("/dev")
                || found.starts_with("/proc")
                || left == 0
                || !known.insert(found.clone())
            {
                continue;
            }
            left -= 1;
            if real(&found).starts_with(workspace) {
                in_workspace.push(found);
                continue;
            }
            let above = found.parent().filter(|above| *above != home && above.starts_with(home));
            if found.symlink_metadata().is_ok() {
                to_read.push((found.clone(), is_git));
            } else if let Some(above) = above.filter(|above| above.symlink_metadata().is_err()) {
                names.held_folders.push(above.to_owned());
            } else if found.starts_with(home) {
                names.held.push(found.clone());
            }
            names.protected.push(found);
        }
    }
    let first = in_workspace.first()?.display();
    let more = match in_workspace.len() {
        1 => String::new(),
        many => format!(" and {} more in the workspace", many - 1),
    };
    Some(format!("`{first}`{more} can be written, and is read by a startup file or by git's settings"))
}

/// The text of a file that is short enough to be one that a shell reads when it starts.
fn startup_text(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok().filter(|found| found.is_file() && found.len() <= LONGEST_STARTUP)?;
    let mut text = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    // A pipe that took its place would never end.
    let file = fs::File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    file.ok()?.take(LONGEST_STARTUP).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Folders with data of all kinds, without links.
struct WideFolders {
    /// The folder that the user chose.
    workspace: PathBuf,
    /// The home folder and those for temporary files.
    shared: Vec<PathBuf>,
}

impl WideFolders {
    fn around(chosen: &Path) -> Self {
        let shared = home().into_iter().chain(temporary().into_iter().map(|path| real(&path)));
        Self { workspace: real(chosen), shared: shared.collect() }
    }
}

/// What became of names that must not appear.
struct NamesHeld {
    held: HeldNames,
    /// The folders among them, and folders of PATH that are not there.
    folders: Vec<PathBuf>,
    not_held: Vec<PathBuf>,
}

fn hold_names(
    store: &Path,
    names: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    tools: &mut InstalledTools,
) -> NamesHeld {
    let wanted: Vec<PathBuf> = names.into_iter().filter(|path| is_wanted(path, tools)).collect();
    let held = HeldNames::hold(store, &wanted, &folders);
    let not_held = wanted.into_iter().filter(|path| !path.exists()).collect();
    NamesHeld { held, folders, not_held }
}

/// Folders of PATH that are not there and that the user could make.
fn path_folders_to_come() -> impl Iterator<Item = PathBuf> {
    path_folders().into_iter().filter(|folder| {
        folder.symlink_metadata().is_err()
            && folder.parent().is_some_and(|above| above.is_dir() && is_writable(above))
    })
}

/// What an agent can plant in its workspace, because a file that holds a name there would be in snapshots and count as a change.
fn not_held_in_workspace<'a>(names: impl Iterator<Item = &'a PathBuf>) -> Option<String> {
    let free: Vec<PathBuf> = names.filter(|path| path.symlink_metadata().is_err()).cloned().collect();
    can_appear(&free, "no name is held in the workspace")
}

/// One line about all `names` that an agent can plant, however many there are, with the reason.
fn can_appear(names: &[PathBuf], why: &str) -> Option<String> {
    let first = names.first()?.display();
    let names = match names.len() {
        1 => format!("`{first}`"),
        2 => format!("`{first}` and one more name"),
        many => format!("`{first}` and {} more names", many - 1),
    };
    Some(format!("{names} can appear: {why}"))
}

impl Protected {
    /// Lets a loop write where it works, and nowhere in dacapo's state.
    pub(super) fn make_room(&mut self, home: &Home, rules: &SandboxRules, places: &GuardedPlaces) {
        self.free = free_folders(rules.mode, places);
        let state = self.follow(home.path()).unwrap_or_else(|| real(home.path()));
        self.layout.set(&state, PathAccess::ReadOnly);
        let keys = state.join("keys");
        if keys.exists() {
            self.layout.set(keys, PathAccess::Hidden);
        }
        if let Some(folder) = &places.task_folder {
            let folder = real(folder);
            self.layout.set(&folder, PathAccess::Writable);
            self.layout.set(folder.join("runs"), PathAccess::ReadOnly);
        }
        // What cannot be made is said when a gate is to run there.
        if let Some(folder) = &places.checkouts
            && make_dir(folder).is_ok()
        {
            self.layout.set(real(folder), PathAccess::Writable);
        }
        let workspace = real(&places.workspace);
        self.judge_workspace(&workspace, &state, rules.mode, places.parent.as_deref());
        self.layout.set(&workspace, PathAccess::Writable);
        for folder in git_folders(&workspace) {
            // A `.git` that an agent has made leads where it likes: nothing that is protected becomes writable by it.
            if rules.mode == SandboxMode::Workspace && self.layout.rule_at(&folder) == Some(Path::new("/")) {
                self.layout.set(folder, PathAccess::Writable);
            }
        }
        for remote in places.own_refs.iter().flat_map(|refs| refs.remotes()) {
            self.protect(remote);
        }
        self.protect_aliases();
        for path in &rules.write {
            self.allow(path);
        }
    }

    /// A disk that is mounted in two places shows what is protected in both.
    fn protect_aliases(&mut self) {
        let rules: Vec<(PathBuf, PathAccess)> = self
            .layout
            .rules()
            .filter(|(path, access)| *access != PathAccess::Writable && path.parent().is_some())
            .map(|(path, access)| (path.to_owned(), access))
            .collect();
        for (path, access) in rules {
            for alias in aliases(&path, &self.facts.mounts) {
                let is_ruled = self.layout.rule_at(&alias) == Some(&alias);
                if !is_ruled && self.layout.access(&alias) != access && alias.symlink_metadata().is_ok() {
                    self.layout.set(alias, access);
                }
            }
        }
    }

    /// Not to be written, if it is there.
    fn protect(&mut self, path: &Path) {
        let Some(path) = self.follow(path) else { return };
        // A variable may name `/dev/null`, which everything writes to.
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() || found.is_dir()) {
            self.layout.set(path, PathAccess::ReadOnly);
        }
    }

    /// Where a path leads, if anything is there. The links on the way are kept.
    fn follow(&mut self, path: &Path) -> Option<PathBuf> {
        let (links, end) = self.links.follow(path);
        let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        if end.is_none() && !links.is_empty() && is_link() {
            self.open.push(format!("`{}` is a link to what is not there and can appear", path.display()));
        }
        links.into_iter().for_each(|link| self.layout.keep_link(link));
        end
    }

    /// What lies in `/` keeps its name: on many systems `/bin` is a link, which root could replace. What lies in its folders is
    /// written as before.
    fn freeze_root(&mut self) {
        self.layout.set("/", PathAccess::ReadOnly);
        for path in entries(Path::new("/")).into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
            self.layout.set(path, PathAccess::Writable);
        }
    }

    /// Whether there may be worked in this folder, which becomes writable.
    fn judge_workspace(&mut self, workspace: &Path, state: &Path, mode: SandboxMode, parent: Option<&Path>) {
        let is_protected = self.layout.access(workspace) != PathAccess::Writable;
        let of_parent = parent.is_some_and(|parent| workspace.starts_with(real(parent)));
        let is_made_by_dacapo =
            ["worktrees", "demo", "checkouts"].iter().any(|folder| workspace.starts_with(state.join(folder)));
        let is_own_worktree = is_made_by_dacapo && parent.is_none();
        if !is_protected || of_parent || is_own_worktree {
            return;
        }
        if parent.is_some() {
            let why = "is protected from the agent that asks for a loop there";
            self.forbidden = Some(format!("`{}` {why}", workspace.display()));
        } else if workspace.starts_with(state) {
            self.forbidden = Some(format!("`{}` holds dacapo's own state", workspace.display()));
        } else if mode == SandboxMode::Guard {
            self.open.push(format!(
                "the workspace `{}` lies in a folder that is protected otherwise",
                workspace.display()
            ));
        }
    }

    fn allow(&mut self, path: &Path) {
        if let Ok(path) = path.canonicalize() {
            self.layout.set(path, PathAccess::Writable);
        }
    }

    fn hide(&mut self, path: &Path) {
        if let Some(path) = self.follow(path) {
            self.layout.set(path, PathAccess::Hidden);
        }
    }

    /// A folder of PATH, and the folders that links in it lead to.
    fn protect_programs(&mut self, folder: &Path, wide: &WideFolders) {
        let (links, Some(folder)) = self.links.follow(folder) else { return };
        let workspace = &wide.workspace;
        let mut ways = links;
        if self.layout.access(&folder) != PathAccess::Writable || !is_writable(&folder) {
            return;
        }
        if folder.starts_with(workspace) || workspace.starts_with(&folder) || wide.shared.contains(&folder) {
            self.open.push(format!("`{}` is on PATH and must stay writable", folder.display()));
            return;
        }
        self.layout.set(&folder, PathAccess::ReadOnly);
        let mut behind = BTreeSet::new();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink())
                && let (links, Some(program)) = self.links.follow(&entry.path())
                && program.parent() != Some(&folder)
                && let Some(package) = package_of(&program)
            {
                behind.insert(package);
                ways.extend(links);
            }
        }
        // A link in the workspace is the agent's.
        let is_ours = |link: &PathBuf| link.starts_with(workspace);
        ways.into_iter().filter(|link| !is_ours(link)).for_each(|link| self.layout.keep_link(link));
        for package in behind {
            // A link on PATH to a script in the home folder is no reason to close that.
            if wide.shared.iter().any(|folder| folder.starts_with(&package)) {
                continue;
            }
            let is_ours = package.starts_with(workspace) || workspace.starts_with(&package);
            if !is_ours && self.layout.access(&package) == PathAccess::Writable && is_writable(&package) {
                self.layout.set(package, PathAccess::ReadOnly);
            }
        }
    }

    /// What root could change the machine by.
    fn protect_machine(&mut self) {
        self.protect(Path::new("/sys"));
        for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_of_kernel = ["mem", "kmem", "port", "kmsg", "loop-control", "uinput", "vsock"]
                .iter()
                .any(|word| name == *word)
                || ["sg", "watchdog", "nvme", "bsg", "ng", "mtd"]
                    .iter()
                    .any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
            if is_of_kernel || entry.file_type().is_ok_and(|kind| kind.is_block_device()) {
                self.layout.set(entry.path(), PathAccess::Hidden);
            }
        }
    }

    /// The console of a container is the terminal of who started it; virtual consoles, with what they show, and serial ones that the
    /// kernel writes to are those of who sits there. Other terminals are kept apart as a whole.
    fn close_terminals(&mut self) {
        let at = |name: &str| Path::new("/dev").join(name);
        let mut all = vec![at("console"), at("tty0"), at("vcs"), at("vcsa"), at("vcsu")];
        // A virtual console that is in use has a file for what it shows. One look at the folder is quicker than one at each name.
        for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("vcs")?.parse::<u8>().ok());
            if let Some(number) = number {
                all.extend(["tty", "vcs", "vcsa", "vcsu"].map(|name| at(&format!("{name}{number}"))));
            }
        }
        let active = proc::read("/sys/class/tty/console/active").unwrap_or_default();
        all.extend(String::from_utf8_lossy(&active).split_whitespace().map(at));
        for path in all {
            let is_open = is_writable(&path) || access(&path, Right::READ_OK).is_ok();
            if is_open && path.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
                self.layout.set(path, PathAccess::Hidden);
            }
        }
    }

    /// What would start a process outside for the agent.
    fn close_services(&mut self, rules: &SandboxRules) {
        let uid = rustix::process::geteuid().as_raw();
        let run = variable("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{uid}").into());
        let is_allowed = |path: &Path| rules.write.iter().any(|allowed| path.starts_with(allowed));
        let mut hidden = vec![run.join("systemd"), run.join("bus"), PathBuf::from("/run/systemd/private")];
        if uid == 0 {
            hidden.extend(["/run/dbus", "/var/run/dbus"].map(PathBuf::from));
            // The addresses of name servers are often in `resolve`.
            let of_systemd = entries(Path::new("/run/systemd"));
            hidden.extend(of_systemd.into_iter().filter(|path| !path.ends_with("resolve")));
        }
        for path in hidden.iter().filter(|path| !is_allowed(path)) {
            self.hide(path);
        }
        for socket in servers().iter().filter(|path| !is_allowed(path)) {
            self.hide(socket);
        }
        let mut private = folders_of_tmux();
        private.extend(["/run/screen".into(), "/var/run/screen".into()]);
        for path in private.iter().filter(|path| !is_allowed(path)) {
            if let Ok(path) = path.canonicalize()
                && path.is_dir()
            {
                self.layout.set(path, PathAccess::Private);
            }
        }
        // In a container the socket of the engine outside is one of another network.
        let usual = ["/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"];
        let engines = sockets().into_iter().filter(|path| starts_containers(path));
        let engines: BTreeSet<PathBuf> = usual.map(PathBuf::from).into_iter().chain(engines).collect();
        for socket in engines {
            if access(&socket, Right::WRITE_OK).is_ok() && self.layout.access(&socket) != PathAccess::Hidden {
                self.open.push(format!(
                    "`{}` starts processes outside for every program that may write to it",
                    socket.display()
                ));
            }
        }
    }
}

/// Where the servers of tmux have their sockets.
fn folders_of_tmux() -> Vec<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let folders = variable("TMUX_TMPDIR").into_iter().chain(["/tmp".into()]);
    folders.map(|folder| folder.join(format!("tmux-{uid}"))).collect()
}

/// Sockets of servers that start processes for those who ask them, wherever they lie: by their names, and the session's bus by its
/// address.
fn servers() -> BTreeSet<PathBuf> {
    let address = std::env::var("DBUS_SESSION_BUS_ADDRESS").unwrap_or_default();
    let buses =
        address.split([';', ',']).filter_map(|part| part.split_once("path=")).map(|(_, path)| path.into());
    let is_there = |path: &PathBuf| path.is_absolute() && path.exists();
    sockets().into_iter().filter(|path| starts_processes(path)).chain(buses).filter(is_there).collect()
}

/// The files of all sockets that this process's network knows.
fn sockets() -> BTreeSet<PathBuf> {
    let text = proc::read("/proc/net/unix").unwrap_or_default();
    let paths = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = memchr::memchr(b'/', line)?;
        // What has an `@` before it is the name of no file.
        (line.get(at.wrapping_sub(1)) != Some(&b'@'))
            .then(|| PathBuf::from(OsString::from_vec(line[at..].to_vec())))
    });
    paths.collect()
}

/// Whether a socket is known by its name as one of an engine that starts containers or machines.
fn starts_containers(socket: &Path) -> bool {
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    let known =
        ["docker.sock", "podman.sock", "containerd.sock", "crio.sock", "buildkitd.sock", "libvirt-sock"];
    let is_lxd = name == "unix.socket" && socket.iter().any(|part| part == "lxd" || part == "incus");
    is_lxd || known.iter().any(|known| name == *known)
}

/// Whether a socket is known by its name as one of a server that starts processes for those who ask: terminals, editors, buses.
fn starts_processes(socket: &Path) -> bool {
    let text = socket.to_string_lossy();
    let ends: Vec<_> = socket.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
    let known = ["zellij", "kitty", "wezterm", "nvim", "emacs", "vscode-ipc", "dtach", "abduco", "herdr"];
    text.contains("tmux")
        || text.contains("screen")
        || ends.first().is_some_and(|name| name.starts_with("dbus-"))
        || known.iter().any(|word| ends.iter().any(|name| name.contains(word)))
}

/// The folder of a program that a link on PATH leads to, with what it needs beside it.
fn package_of(program: &Path) -> Option<PathBuf> {
    let at = program.components().collect::<Vec<_>>();
    if let Some(modules) = at.iter().rposition(|part| part.as_os_str() == "node_modules") {
        return Some(at[..=modules].iter().collect());
    }
    let folder = program.parent()?;
    let is_named = |folder: &Path, wanted: &str| folder.file_name().is_some_and(|name| name == wanted);
    let above = folder.parent()?;
    // What lies in `~/.local/bin` shares `~/.local` with data of all kinds.
    let is_package = is_named(folder, "bin") && !is_named(above, ".local");
    Some(if is_package { above.to_owned() } else { folder.to_owned() })
}

/// What is known of paths: each name is looked at once, since most protected names lie in a few folders.
#[derive(Default)]
struct FollowedLinks {
    /// By their paths, which have no link before the last name.
    names: HashMap<OsString, FoundName>,
    /// Where folders lead, as they were asked for.
    folders: HashMap<OsString, (Vec<PathBuf>, Option<PathBuf>)>,
    /// How many names were looked at in a folder, and whether all of them are known.
    looked_at: HashMap<OsString, (usize, bool)>,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FoundName {
    Nothing,
    Itself,
    Link(PathBuf),
}

/// As many links on one way as the kernel follows.
const MOST_LINKS: usize = 40;

/// When so many names of a folder were looked at, the whole folder is read.
const MANY_NAMES: usize = 6;

/// A folder with more names is not read.
const READABLE: usize = 2_000;

impl FollowedLinks {
    /// The links on the way to what a path names, and the path without them if anything is there.
    fn follow(&mut self, path: &Path) -> (Vec<PathBuf>, Option<PathBuf>) {
        let Some((folder, name)) = path.parent().zip(path.file_name()) else {
            return self.walk(Vec::new(), PathBuf::from("/"), parts(path));
        };
        let known = self.folders.get(folder.as_os_str()).cloned();
        let (links, end) = known.unwrap_or_else(|| {
            let found = self.follow(folder);
            self.folders.insert(folder.into(), found.clone());
            found
        });
        match end {
            Some(folder) => self.walk(links, folder, vec![name.to_owned()]),
            None => (links, None),
        }
    }

    /// Goes on from `real`, a path without links, by the names `to_go`, the next one last.
    fn walk(
        &mut self,
        mut links: Vec<PathBuf>,
        mut real: PathBuf,
        mut to_go: Vec<OsString>,
    ) -> (Vec<PathBuf>, Option<PathBuf>) {
        while let Some(name) = to_go.pop() {
            if name == "." || name == "/" {
                continue;
            }
            if name == ".." {
                real.pop();
                continue;
            }
            let next = real.join(&name);
            match self.look(&real, &next) {
                FoundName::Nothing => return (links, None),
                FoundName::Itself => real = next,
                FoundName::Link(target) => {
                    links.push(next);
                    if links.len() > MOST_LINKS {
                        return (links, None);
                    }
                    if target.is_absolute() {
                        real = "/".into();
                    }
                    to_go.extend(parts(&target));
                }
            }
        }
        (links, Some(real))
    }

    fn look(&mut self, folder: &Path, path: &Path) -> FoundName {
        if let Some(known) = self.names.get(path.as_os_str()) {
            return known.clone();
        }
        let (many, is_whole) = self.looked_at.entry(folder.into()).or_default();
        *many += 1;
        if *many == MANY_NAMES {
            *is_whole = read_names(folder, &mut self.names).is_some();
        }
        let is_whole = *is_whole;
        if let Some(known) = self.names.get(path.as_os_str()).filter(|_| is_whole) {
            return known.clone();
        }
        let found = if is_whole { FoundName::Nothing } else { find_name(path) };
        self.names.insert(path.into(), found.clone());
        found
    }
}

fn parts(path: &Path) -> Vec<OsString> {
    path.iter().rev().map(OsStr::to_owned).collect()
}

fn find_name(path: &Path) -> FoundName {
    match fs::read_link(path) {
        Ok(target) => FoundName::Link(target),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => FoundName::Itself,
        Err(_) => FoundName::Nothing,
    }
}

/// Takes down what all names in a folder stand for; `None` if that cannot be told at once.
fn read_names(folder: &Path, names: &mut HashMap<OsString, FoundName>) -> Option<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let path = entry.path();
        let is_link = entry.file_type().ok()?.is_symlink();
        found.push((if is_link { find_name(&path) } else { FoundName::Itself }, path));
        if found.len() > READABLE {
            return None;
        }
    }
    for (found, path) in found {
        names.entry(path.into_os_string()).or_insert(found);
    }
    Some(())
}

/// Whether programs are on PATH, each looked for once.
#[derive(Default)]
struct InstalledTools(HashMap<&'static str, bool>);

impl InstalledTools {
    fn has(&mut self, program: &'static str) -> bool {
        *self.0.entry(program).or_insert_with(|| {
            let path = variable("PATH").map(PathBuf::into_os_string).unwrap_or_default();
            find_program(program, &path, Path::new("/")).is_ok()
        })
    }
}

/// Whether the tool is there that would read such a file, and the folder that it would lie in.
fn is_wanted(path: &Path, tools: &mut InstalledTools) -> bool {
    let Some((folder, name)) = path.parent().zip(path.file_name()) else { return false };
    let name = name.to_string_lossy();
    let of_name = [
        (".npmrc", "npm"),
        (".gitconfig", "git"),
        ("config.toml", "cargo"),
        (".yarnrc", "yarn"),
        (".mavenrc", "mvn"),
        (".curlrc", "curl"),
        (".pydistutils.cfg", "python3"),
        (".kshrc", "ksh"),
        (".cshrc", "csh"),
        (".login", "csh"),
        (".tcshrc", "tcsh"),
        (".z", "zsh"),
    ];
    let program = of_name.into_iter().find(|(start, _)| name.starts_with(start));
    let program = program.map_or("bash", |(_, program)| program);
    let is_used = tools.has(program);
    match program {
        // A folder of its own says that the tool is used; without one the file would lie nowhere.
        "cargo" if folder.ends_with(".cargo") => {
            folder.is_dir() || (is_used && fs::create_dir(folder).is_ok())
        }
        _ => folder.is_dir() && is_used,
    }
}

/// Where new files must be possible, in the tier that can only allow.
fn free_folders(mode: SandboxMode, places: &GuardedPlaces) -> Vec<PathBuf> {
    let mut free: BTreeSet<PathBuf> = temporary().iter().map(|path| real(path)).collect();
    free.insert(real(&places.workspace));
    free.extend(places.task_folder.as_deref().map(real));
    if mode == SandboxMode::Guard {
        free.extend(home().map(|home| real(&home)));
        free.extend(variable("XDG_RUNTIME_DIR").map(|run| real(&run)));
    }
    free.into_iter().collect()
}

fn temporary() -> Vec<PathBuf> {
    let mut all = vec!["/tmp".into(), "/var/tmp".into(), "/dev/shm".into(), std::env::temp_dir()];
    all.extend(variable("TMPDIR"));
    all
}

fn surroundings() -> Surroundings {
    let home = home();
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let below_home = |name: &str| Some(home.as_ref()?.join(name));
    let data = variable("XDG_DATA_HOME").or_else(|| below_home(".local/share"));
    let state = variable("XDG_STATE_HOME").or_else(|| below_home(".local/state"));
    let folders: [(&str, &'static [&'static str]); 5] = [
        ("CARGO_HOME", &["config.toml", "config", "env", "bin"]),
        ("GRADLE_USER_HOME", &["init.gradle", "init.gradle.kts", "init.d", "gradle.properties"]),
        ("ZDOTDIR", &[".zshrc", ".zshenv", ".zprofile", ".zlogin"]),
        ("PYTHONUSERBASE", &["lib"]),
        ("NPM_CONFIG_PREFIX", &["etc", "bin"]),
    ];
    let mut moved: Vec<_> =
        folders.into_iter().filter_map(|(name, below)| Some((variable(name)?, below))).collect();
    let rustup = variable("RUSTUP_HOME").or_else(|| Some(home.as_ref()?.join(".rustup")));
    // The programs of cargo and rustc lie there; a new toolchain can be installed, one that is there cannot be changed.
    for toolchain in rustup.iter().flat_map(|folder| entries(&folder.join("toolchains"))) {
        moved.push((toolchain, &["bin", "lib"]));
    }
    let git = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"];
    let shells = ["BASH_ENV", "ENV"];
    let others = ["NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "PYTHONSTARTUP", "UV_CONFIG_FILE"];
    let named = git.iter().chain(&shells).chain(&others);
    // Every program that starts loads these.
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    let preloaded = preloaded.split([':', ' ']).map(PathBuf::from).filter(|path| path.is_absolute());
    Surroundings {
        home,
        config,
        data,
        state,
        moved,
        named: named.filter_map(|name| variable(name)).chain(preloaded).collect(),
        startup: shells.into_iter().filter_map(variable).collect(),
        git_settings: git.into_iter().filter_map(variable).collect(),
        is_root: rustix::process::geteuid().is_root(),
    }
}

/// The folders of the PATH that programs are found by: the caller's, and this process's own.
fn path_folders() -> Vec<PathBuf> {
    let all = [child::variable("PATH"), std::env::var_os("PATH")];
    let folders = all.iter().flatten().flat_map(std::env::split_paths);
    folders.filter(|folder| folder.is_absolute()).collect::<BTreeSet<_>>().into_iter().collect()
}

fn home() -> Option<PathBuf> {
    variable("HOME").map(|home| real(&home))
}

/// A variable of this process that names an absolute path. Not of the environment that an agent chose for its child.
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)?;
    (value.is_absolute() || name == "PATH").then_some(value)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn is_writable(path: &Path) -> bool {
    access(path, Right::WRITE_OK).is_ok()
}

/// The folders with the history of the repository that `workspace` is in, as far as the repository says the same: a file or a link of
/// an agent's may name any folder.
fn git_folders(workspace: &Path) -> Vec<PathBuf> {
    let found = |dot: &PathBuf| fs::symlink_metadata(dot).is_ok();
    let Some(dot) = workspace.ancestors().map(|at| at.join(".git")).find(found) else { return Vec::new() };
    if dot.is_symlink() {
        return Vec::new();
    }
    if dot.is_dir() {
        return vec![dot];
    }
    let words = |path: &Path| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let Ok(text) = words(&dot) else { return Vec::new() };
    let Some(folder) = text.strip_prefix("gitdir:").map(|path| dot.with_file_name("").join(path.trim()))
    else {
        return Vec::new();
    };
    let folder = real(&folder);
    let points_back = words(&folder.join("gitdir")).is_ok_and(|back| Path::new(&back) == dot);
    let is_module = workspace.ancestors().any(|above| folder.starts_with(above.join(".git/modules")));
    let common = words(&folder.join("commondir")).map(|text| real(&folder.join(text)));
    let common = common.ok().filter(|common| folder.starts_with(common.join("worktrees")));
    match common {
        Some(common) if points_back => vec![common, folder],
        None if is_module => vec![folder],
        _ => Vec::new(),
    }
}

/// What this machine says about paths, looked up once.
struct Facts {
    mounts: Vec<MountPoint>,
    /// Folders that were asked about, and whether this user may write there.
    writable: RefCell<BTreeMap<PathBuf, bool>>,
}

impl Facts {
    fn look() -> Self {
        let text = proc::read("/proc/self/mountinfo").unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n');
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(unescaped(bytes)));
        let mounts = lines.filter_map(|line| {
            let mut words = line.split(|byte| *byte == b' ').skip(2);
            let disk = String::from_utf8_lossy(words.next()?).into_owned();
            Some(MountPoint { disk, shown: path(words.next()?), at: path(words.next()?) })
        });
        let mounts = mounts.collect();
        Self { mounts, writable: RefCell::default() }
    }
}

/// Spaces and the like are written as octal numbers.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

impl PathFacts for Facts {
    fn is_movable(&self, folder: &Path) -> bool {
        let Some(above) = folder.parent() else { return false };
        let mut known = self.writable.borrow_mut();
        known.get(above).copied().unwrap_or_else(|| {
            let is_writable = is_writable(above);
            known.insert(above.to_owned(), is_writable);
            is_writable
        })
    }
    fn mounts_below(&self, path: &Path) -> Vec<PathBuf> {
        let points = self.mounts.iter().map(|mount| &mount.at);
        points.filter(|at| at.starts_with(path) && *at != path).cloned().collect()
    }
    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }
    fn names_in(&self, folder: &Path) -> Vec<PathBuf> {
        entries(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_path_leads_to_a_package() {
        for (program, package) in [
            ("/h/.npm/lib/node_modules/@a/b/cli.js", "/h/.npm/lib/node_modules"),
            ("/h/.local/share/pipx/venvs/pytest/bin/pytest", "/h/.local/share/pipx/venvs/pytest"),
            ("/opt/tool/run", "/opt/tool"),
            ("/h/.local/bin/mise", "/h/.local/bin"),
        ] {
            assert_eq!(package_of(Path::new(program)), Some(package.into()), "{program}");
        }
    }

    #[test]
    fn all_links_on_the_way_to_a_path_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("dots/config")).unwrap();
        fs::write(root.join("dots/config/rc"), "").unwrap();
        for (link, target) in [
            ("config", "dots/config"),
            ("dots/config/link", "../../config/rc"),
            ("gone", "x"),
            ("round", "round"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let mut links = FollowedLinks::default();
        let mut follow = |path: &str| {
            let (links, end) = links.follow(&root.join(path));
            let short = |path: &PathBuf| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            (links.iter().map(short).collect::<Vec<_>>(), end.as_ref().map(short))
        };
        let found = |links: &[&str], end: &str| {
            (links.iter().map(|link| (*link).to_owned()).collect(), Some(end.to_owned()))
        };
        assert_eq!(follow("config/rc"), found(&["config"], "dots/config/rc"));
        assert_eq!(follow("config/link"), found(&["config", "dots/config/link", "config"], "dots/config/rc"));
        assert_eq!(follow("dots/../dots/./config/rc"), found(&[], "dots/config/rc"));
        assert_eq!(follow("gone"), (vec!["gone".into()], None));
        assert_eq!(follow("nothing"), (vec![], None));
        assert_eq!(follow("round").1, None);
    }

    #[test]
    fn many_names_of_a_folder_stand_for_what_each_of_them_stands_for_alone() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("home")).unwrap();
        std::os::unix::fs::symlink("home", root.join("linked")).unwrap();
        for at in 0..2 * MANY_NAMES {
            fs::write(root.join(format!("home/file{at}")), "").unwrap();
            std::os::unix::fs::symlink(format!("file{at}"), root.join(format!("home/link{at}"))).unwrap();
        }
        let mut links = FollowedLinks::default();
        for at in 0..2 * MANY_NAMES {
            let file = root.join(format!("home/file{at}"));
            let link = root.join(format!("home/link{at}"));
            let mut follow = |name: &str| links.follow(&root.join(format!("linked/{name}{at}")));
            let way = root.join("linked");
            assert_eq!(follow("file"), (vec![way.clone()], Some(file.clone())));
            assert_eq!(follow("link"), (vec![way.clone(), link], Some(file)));
            assert_eq!(follow("nothing"), (vec![way], None));
        }
        assert!(links.looked_at[root.join("home").as_os_str()].1, "the folder was read as a whole");
    }

    #[test]
    fn a_server_that_starts_processes_is_known_by_the_name_of_its_socket() {
        for socket in
            ["/tmp/x/tmux-1/default", "/r/emacs/server", "/tmp/dbus-Ab1", "/tmp/kitty-7", "/r/nvim.1.0"]
        {
            assert!(starts_processes(Path::new(socket)), "{socket}");
        }
        for socket in ["/run/dbus/system_bus_socket", "/h/emacs/x/state/sockets/a", "/tmp/vscode-git-1.sock"]
        {
            assert!(!starts_processes(Path::new(socket)), "{socket}");
        }
    }

    #[test]
    fn a_server_that_starts_containers_is_known_by_the_name_of_its_socket() {
        for socket in [
            "/run/docker.sock",
            "/run/user/1/docker.sock",
            "/run/user/1/podman/podman.sock",
            "/var/snap/lxd/common/lxd/unix.socket",
            "/run/libvirt/libvirt-sock",
        ] {
            assert!(starts_containers(Path::new(socket)), "{socket}");
        }
        for socket in ["/run/x/unix.socket", "/run/docker.sock.d/x", "/run/systemd/notify"] {
            assert!(!starts_containers(Path::new(socket)), "{socket}");
        }
    }

    #[test]
    fn mount_points_are_read_with_their_spaces() {
        assert_eq!(unescaped(br"/a\040b\011c"), b"/a b\tc");
        assert_eq!(unescaped(br"/a\"), br"/a\");
    }
}
