//! The goalposts of a workspace on disk: read before the first agent, compared by their bytes when a claim is made, and laid out
//! as they were in a checkout.
//!
//! Nothing here asks git. What a file holds is what reading it gives, through links, ignored or not, so that no setting,
//! attribute or index of a repository decides what counts as changed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use dacapo_core::{
    goalposts::{
        ABOVE, Checks, Followed, FollowedFile, Following, Generators, Goalpost, GoalpostKind, GoalpostSeal,
        Goalposts, IN_HOME, MAX_MUST_FAIL, Moved, MovedGoalpost, MustFailTest, OutsideFile, PROFILES,
        RUNNER_PARTS, RenamedPackage, Runner, SHADOW_PACKAGES, SHADOWS, SharedFile, below, branches_read,
        follow, is_discovered, is_left_out, is_link_to_system, is_loaded_by_unittest, kind_of, kind_of_work,
        makefile_as_before, moved_folders, must_fail_tests, packages_of_test, python_packages_of_test,
        rests_on, starts_with_profiles,
    },
    judge::{
        gate_scripts::{is_found_by_itself, named_files, role},
        glob::Globs,
    },
    policy::{GateFrom, GateSpec, Policy, TestsMode, stays_inside},
    receipt::sha256,
};

use crate::{
    git::on_disk::{self, folders_of_checkout},
    guard::{IN_FOLDER, is_held},
    home::write_private,
    safe_open::{leads_elsewhere, untie},
    snapshots::Nested,
};

/// How many entries of the workspace are looked at.
const MAX_ENTRIES: usize = 300_000;
/// How deep folders are looked into, links included.
const MAX_DEPTH: usize = 40;
/// A larger file is compared by its hash alone and comes back from its snapshot.
const KEPT_FILE: u64 = 1 << 20;
/// How many bytes of goalposts are held in memory.
const KEPT_ALL: usize = 64 << 20;
/// A larger script is not followed.
const MAX_SCRIPT: u64 = 1 << 20;
/// Files that no snapshot holds are laid out in a checkout up to this size, each and together.
const EXTRA_FILE: u64 = 256 << 10;
const EXTRA_ALL: u64 = 16 << 20;

/// Endings of files that compilers make of sources.
const COMPILED: &[&str] = &["o", "a", "so", "lo", "obj", "pyc", "class", "gch", "pch"];
/// Of these, headers that a compiler takes without a look at their sources.
const PRECOMPILED: &[&str] = &["gch", "pch"];

/// How many tags that gates name are watched.
const MAX_TAGS: usize = 100;

/// How many modules are looked at for who imports a new one.
const MAX_LOOKED_AT: usize = 2000;

/// Files that list the packages of JavaScript which the work depends on.
const LOCKS: &[&str] =
    &["package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock"];

/// Folders that tools install into: a checkout gets links to what is in them.
const INSTALLED: &[&str] = &["node_modules", ".venv", "venv"];

/// What a file is on disk, without its content: no process can set the change time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// In words, for a list.
    fn described(&self) -> String {
        let Self { device, inode, size, modified, changed } = self;
        format!("{BY_STAMP}{device} {inode} {size} {}.{} {}.{}", modified.0, modified.1, changed.0, changed.1)
    }

    fn of(path: &Path) -> Option<Self> {
        let data = fs::metadata(path).ok()?;
        Some(Self {
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

/// A program on PATH, or a part of an installed test runner, as it was at the start.
struct KnownProgram {
    path: PathBuf,
    stamp: Option<Stamp>,
    /// What it held then. It is read again only if the stamp is another.
    content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// SHA-256 of its bytes: of a program that gates are known to run.
    Whole(String),
    /// A hash of how it begins and ends, of what is only looked at in case.
    Ends(Option<String>),
}

impl KnownProgram {
    fn at(path: PathBuf) -> Self {
        Self { stamp: Stamp::of(&path), content: Content::Ends(ends_of(&path).ok()), path }
    }

    /// The same with all its bytes read, if `room` has room for them, which is then less.
    fn read_whole(path: PathBuf, room: &mut u64) -> Self {
        let stamp = Stamp::of(&path);
        let size = stamp.map_or(0, |stamp| stamp.size);
        if size > *room {
            return Self::at(path);
        }
        *room -= size;
        match whole_of(&path) {
            Ok(sha256) => Self { stamp, content: Content::Whole(sha256), path },
            Err(_) => Self::at(path),
        }
    }

    /// A program of which the journal says what it held.
    fn recorded(path: PathBuf, sha256: String) -> Self {
        // Believed at first sight only if its bytes are those.
        let stamp = Stamp::of(&path).filter(|_| whole_of(&path).is_ok_and(|now| now == sha256));
        Self { path, stamp, content: Content::Whole(sha256) }
    }

    fn is_changed(&self) -> bool {
        let now = Stamp::of(&self.path);
        if now == self.stamp && now.is_some() {
            return false;
        }
        match (&self.content, self.stamp, now) {
            (_, _, None) => true,
            (Content::Whole(sha256), ..) => !whole_of(&self.path).is_ok_and(|now| now == *sha256),
            (Content::Ends(_), None, _) => true,
            // A new hard link or another owner changes the stamp, and not the program.
            (Content::Ends(ends), Some(before), Some(now)) => {
                Stamp { changed: before.changed, ..now } != before || ends_of(&self.path).ok() != *ends
            }
        }
    }

    /// Whether its content is another: what is installed anew with the same content is the same.
    fn is_other(&self) -> bool {
        let is_same = |ends: &Option<String>| ends_of(&self.path).ok() == *ends;
        match &self.content {
            Content::Ends(ends) => Stamp::of(&self.path) != self.stamp && !is_same(ends),
            Content::Whole(_) => self.is_changed(),
        }
    }
}

/// How many bytes of programs are read before the first agent, which waits for it: about a second's worth.
const PROGRAMS_READ: u64 = 384 << 20;

fn whole_of(path: &Path) -> io::Result<String> {
    use sha2::{Digest, Sha256};
    use std::io::Read;
    let mut file = fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The hash of the first and the last bytes of a file.
fn ends_of(path: &Path) -> io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    const EACH: u64 = 256 << 10;
    let mut file = fs::File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.by_ref().take(EACH).read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(size.saturating_sub(EACH).max(EACH.min(size))))?;
    file.take(EACH).read_to_end(&mut bytes)?;
    Ok(sha256(&bytes))
}

/// How long the first agent waits for goalposts to be read. What takes longer is read beside it.
const READ_FOR: Duration = Duration::from_secs(1);

/// A larger file is read beside the agent in any case, since reading it is not broken off.
const READ_AT_ONCE: u64 = 128 << 20;

/// A goalpost that was not read before the first agent is listed by its stamp, which begins with this.
const BY_STAMP: &str = "stamp ";

/// Goalposts that are read beside the first agent. Only the content of a file whose stamp is that of the start counts: no process can
/// set the change time back, so that content is what was there before the agent.
#[derive(Default)]
struct ReadLater {
    wanted: Vec<(String, GoalpostKind, Stamp)>,
    thread: Option<JoinHandle<Vec<Found>>>,
    is_over: Arc<AtomicBool>,
}

/// A goalpost with what it was at the start; the last is `None` if no part of the file decides.
type Found = (String, Stamp, Option<Goalpost>);

impl ReadLater {
    /// Begins to read in a thread of its own.
    fn begin(&mut self, root: &Path) {
        if self.wanted.is_empty() {
            return;
        }
        let (root, wanted, is_over) =
            (root.to_owned(), std::mem::take(&mut self.wanted), self.is_over.clone());
        self.thread = Some(std::thread::spawn(move || {
            let unless_over = wanted.into_iter().take_while(|_| !is_over.load(Ordering::Relaxed));
            unless_over
                .filter_map(|(path, kind, stamp)| read_if_untouched(&root, path, kind, stamp))
                .collect()
        }));
    }

    /// What was read, once all of it is.
    fn end(&mut self) -> Vec<Found> {
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for ReadLater {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The goalpost in a file that is what it was when `stamp` was taken, and still is after it was read.
fn read_if_untouched(root: &Path, path: String, kind: GoalpostKind, stamp: Stamp) -> Option<Found> {
    let file = root.join(&path);
    let post = read_post(&file, kind, stamp.size).ok()?.0;
    (Stamp::of(&file) == Some(stamp)).then_some((path, stamp, post))
}

/// The goalpost in a file of this size, with its bytes if it is small.
fn read_post(file: &Path, kind: GoalpostKind, size: u64) -> io::Result<(Option<Goalpost>, Option<Vec<u8>>)> {
    if is_read_in_parts(kind, size) {
        return Ok((Some(Goalpost { kind, sha256: whole_of(file)? }), None));
    }
    let bytes = fs::read(file)?;
    Ok((Goalpost::of(kind, &bytes), Some(bytes)))
}

/// The goalposts of a loop's workspace.
pub(crate) struct WatchedGoalposts {
    root: PathBuf,
    before: Goalposts,
    /// Until when goalposts are read before the first agent.
    read_until: Option<Instant>,
    later: ReadLater,
    /// What was seen of each file last, so that one that was not touched is not read again.
    seen: HashMap<String, (Stamp, Option<Goalpost>)>,
    /// What goalposts held at the start, as far as there is room.
    contents: HashMap<String, Vec<u8>>,
    /// The manifests of Cargo of the start, by the folders that they lie in.
    manifests: BTreeMap<String, String>,
    test_paths: Globs,
    followed: BTreeSet<String>,
    /// Scripts of gates that make a part of the program, each with the files that it makes.
    generators: BTreeMap<String, Vec<String>>,
    /// Files that decide as a whole since checks rest on them, whatever their names say.
    rested_on: BTreeSet<String>,
    /// Patterns by which scripts of gates find files.
    found_by: Globs,
    /// New files that gates name: they are to be written, and stay where they are.
    named: BTreeSet<String>,
    /// Which of the goalposts of the start may be executed: what runs a folder of programs leaves out the others.
    executable: BTreeSet<String>,
    /// Tags that gates and their scripts name, and branches that they take files from, with what they named at the start.
    tags: Tags,
    /// Settings above the workspace and in the user's home folder, with their hash if they are there.
    outside: BTreeMap<PathBuf, Option<String>>,
    /// Programs that gates start, and what was found by their names.
    programs: BTreeMap<String, KnownProgram>,
    /// The programs in the folders of PATH that are the user's own.
    on_path: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// Parts of test runners that are installed in the workspace or in the home folder.
    installed: BTreeMap<PathBuf, KnownProgram>,
    /// Files and folders whose names are no text, at the start.
    odd: BTreeSet<PathBuf>,
    /// The files of the start, by hashes of their paths.
    at_start: HashSet<u64>,
    /// Links with an absolute target, and what compilers make, at the start.
    ties: BTreeSet<String>,
    compiled: BTreeSet<String>,
    /// Whether a gate finds its tests by unittest's discovery.
    has_unittest: bool,
    /// Whether a gate starts git, for which attributes decide.
    starts_git: bool,
    /// Whether a gate says where programs are looked for, so that a new one in the workspace may take the place of another.
    sets_path: bool,
    /// Whether packages of Go lay in the workspace at the start.
    has_vendor: bool,
    /// Folders that tools install into: those of the start, and those that came since.
    installed_into: BTreeSet<String>,
    new_installed: Vec<String>,
    /// Whether there were too many files to look at all of them.
    is_cut: bool,
    /// Whether there are by now.
    hides_files: bool,
}

/// Tags of a repository, and branches that files are taken from, with what each named: a gate that takes its tests from one takes
/// what was meant then.
#[derive(Default)]
struct Tags {
    common_dir: PathBuf,
    ids: BTreeMap<String, String>,
}

impl Tags {
    /// The tags of the repository at `root` that these texts name, and the branches that commands in them take files from. The branch
    /// that is checked out moves with the work.
    fn named(root: &Path, texts: impl Iterator<Item = String>, watches_branches: bool) -> Self {
        let Some((own_dir, common_dir)) = on_disk::folders_of_checkout(root) else { return Self::default() };
        let texts: Vec<String> = texts.collect();
        let head = fs::read_to_string(own_dir.join("HEAD")).unwrap_or_default();
        let is_own = |name: &String| head.trim().strip_prefix("ref: ") == Some(name);
        let branches: BTreeSet<String> = texts
            .iter()
            .flat_map(|text| branches_read(text))
            .map(|branch| format!("refs/heads/{branch}"))
            .filter(|name| watches_branches && !is_own(name))
            .collect();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '+');
        let words: BTreeSet<String> = texts
            .iter()
            .flat_map(|text| text.split(|c| !is_part(c)).map(str::to_owned).collect::<Vec<_>>())
            .flat_map(|word| word.split("..").map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| !word.is_empty() && !word.starts_with(['/', '-', '.']))
            .collect();
        let packed = fs::read_to_string(common_dir.join("packed-refs")).unwrap_or_default();
        let packed: HashSet<&str> =
            packed.lines().filter_map(|line| line.split_once(' ')?.1.strip_prefix("refs/tags/")).collect();
        let loose = common_dir.join("refs/tags");
        let is_tag = |word: &String| packed.contains(word.as_str()) || loose.join(word).is_file();
        let tags = words.into_iter().filter(is_tag).map(|word| format!("refs/tags/{word}"));
        let found = tags.chain(branches).take(MAX_TAGS).filter_map(|name| {
            let id = on_disk::reference(&common_dir, &name)?;
            Some((name, id))
        });
        Self { ids: found.collect(), common_dir }
    }

    fn moved(&self) -> Vec<String> {
        let is_moved = |(name, id): &(&String, &String)| {
            on_disk::reference(&self.common_dir, name).as_ref() != Some(*id)
        };
        self.ids.iter().filter(is_moved).map(|(name, _)| name.clone()).collect()
    }
}

/// What the workspace holds that no snapshot does, as it was at the start.
#[derive(Default)]
pub(crate) struct Extras {
    /// Small files with their content, mode and time.
    files: Vec<(String, Vec<u8>, fs::Permissions, Option<std::time::SystemTime>)>,
    /// Folders that tools installed into, with the names in them; none where it is not known what was there at the start.
    installed: BTreeMap<String, Option<BTreeSet<OsString>>>,
    /// Repositories within this one, which no snapshot holds. What an agent does there is work: a checkout gets them as they are.
    nested: Vec<String>,
    /// What git keeps of them, where that is known from the start.
    repositories: HashMap<String, Nested>,
    /// The hooks of git, if a gate runs one.
    hooks: Option<Hooks>,
    /// What is in the workspace and not in a checkout.
    pub(crate) lacking: Vec<String>,
}

/// The hooks of a repository, as they were at the start.
struct Hooks {
    /// Those in git's own folder, with their modes.
    files: Vec<(std::ffi::OsString, Vec<u8>, fs::Permissions)>,
    /// The folder of the workspace that `core.hooksPath` names instead.
    path: Option<String>,
}

impl Hooks {
    fn of(root: &Path) -> Option<Self> {
        let folder = Self::folder(root)?;
        if !folder.is_absolute() {
            return Some(Self { files: Vec::new(), path: folder.to_str().map(str::to_owned) });
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let is_sample = entry.path().extension().is_some_and(|end| end == "sample");
            let Ok(data) = fs::metadata(entry.path()) else { continue };
            if !is_sample && data.is_file() && data.len() <= EXTRA_FILE {
                files.push((entry.file_name(), fs::read(entry.path()).ok()?, data.permissions()));
            }
        }
        Some(Self { files, path: None })
    }

    /// The folder in which git looks for hooks: git's own, or one within the workspace, from its top. `None` where it is another.
    fn folder(root: &Path) -> Option<PathBuf> {
        let (_, common_dir) = folders_of_checkout(root)?;
        let config = fs::read_to_string(common_dir.join("config")).ok()?;
        let named = config.lines().filter_map(|line| line.split_once('='));
        let mut named = named.filter(|(key, _)| key.trim().eq_ignore_ascii_case("hookspath"));
        let Some((_, path)) = named.next_back() else { return Some(common_dir.join("hooks")) };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
        let path = path.trim().trim_start_matches("./").trim_end_matches('/');
        (stays_inside(path) && path.chars().all(is_plain)).then(|| PathBuf::from(path))
    }

    /// Gives them to the repository of a checkout.
    fn lay_out(&self, folder: &Path) -> io::Result<()> {
        let own = folder.join(".git");
        if !own.is_dir() {
            return Ok(());
        }
        if let Some(path) = &self.path {
            use io::Write as _;
            let mut config = fs::File::options().append(true).open(own.join("config"))?;
            return config.write_all(format!("[core]\n\thooksPath = {path}\n").as_bytes());
        }
        fs::create_dir_all(own.join("hooks"))?;
        for (name, bytes, mode) in &self.files {
            let file = own.join("hooks").join(name);
            fs::write(&file, bytes)?;
            fs::set_permissions(&file, mode.clone())?;
        }
        Ok(())
    }
}

/// The files of a folder.
#[derive(Default)]
struct Walk {
    /// From the root, with whether the path leads through a link.
    files: Vec<String>,
    left_out: Vec<String>,
    /// Repositories within this one.
    nested: Vec<String>,
    /// Links to folders of the workspace, and where they lead.
    links: Vec<(String, String)>,
    /// Files and folders whose names are no text, from the root. What lies in such a folder is not looked at.
    odd: BTreeSet<PathBuf>,
    /// Links with an absolute target.
    ties: BTreeSet<String>,
    /// Files that compilers make, by their names.
    compiled: BTreeSet<String>,
    is_cut: bool,
}

/// Links to folders within `root`, from its top, and where they lead.
pub(crate) fn linked_folders(root: &Path) -> Vec<(String, String)> {
    walk(root).links
}

fn walk(root: &Path) -> Walk {
    let mut walk = Walk::default();
    let mut stack = vec![(String::new(), 0_usize)];
    let mut visited: HashSet<(u64, u64)> = HashSet::new();
    let mut entries = 0_usize;
    while let Some((folder, depth)) = stack.pop() {
        let path = root.join(&folder);
        let Ok(data) = fs::metadata(&path) else { continue };
        if depth > MAX_DEPTH || !visited.insert((data.dev(), data.ino())) {
            continue;
        }
        if depth > 0 && path.join(".git").symlink_metadata().is_ok() {
            walk.nested.push(folder.clone());
        }
        let Ok(list) = fs::read_dir(&path) else { continue };
        for entry in list.flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                walk.is_cut = true;
                return walk;
            }
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                walk.odd.insert(Path::new(&folder).join(entry.file_name()));
                continue;
            };
            // In a submodule it is a file.
            if name == ".git" {
                continue;
            }
            let below = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let Ok(kind) = entry.file_type() else { continue };
            let is_dir = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
            if kind.is_symlink() && fs::read_link(entry.path()).is_ok_and(|target| target.is_absolute()) {
                walk.ties.insert(below.clone());
            }
            if is_dir && kind.is_symlink() {
                let real = entry.path().canonicalize().ok();
                let real = real.as_ref().and_then(|real| real.strip_prefix(root).ok()?.to_str());
                walk.links.extend(real.map(|real| (below.clone(), real.to_owned())));
            }
            if !is_dir {
                // Neither pipes nor devices are read.
                if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
                    if kind.is_file() && name.rsplit_once('.').is_some_and(|(_, end)| COMPILED.contains(&end))
                    {
                        walk.compiled.insert(below.clone());
                    }
                    walk.files.push(below);
                }
            } else if is_left_out(&name)
                && (name != "target" || entry.path().join("CACHEDIR.TAG").exists() || depth == 0)
            {
                walk.left_out.push(below);
            } else {
                stack.push((below, depth + 1));
            }
        }
    }
    walk
}

/// The files below `root`, ignored ones, those behind links and those of repositories within this one included.
pub(crate) fn files_of(root: &Path) -> Vec<String> {
    walk(root).files
}

/// The first of `patterns` that fits no file below `root`, by any of the ways in which a pattern protects.
pub fn idle_pattern(root: &Path, patterns: &[String]) -> Option<String> {
    if patterns.is_empty() {
        return None;
    }
    let walk = walk(root);
    let mut paths = walk.files;
    for (link, real) in &walk.links {
        let behind = paths.iter().filter_map(|path| path.strip_prefix(real.as_str()));
        let aliases: Vec<String> = behind.map(|rest| format!("{link}{rest}")).collect();
        paths.extend(aliases);
        paths.push(link.clone());
    }
    let is_idle = |pattern: &&String| {
        let meant = [(*pattern).clone(), format!("**/{pattern}")];
        let is_name = !pattern.trim_end_matches('/').contains('/');
        let globs = Globs::parse(&meant[..if is_name { 2 } else { 1 }]).unwrap_or_default();
        !paths.iter().any(|path| globs.matches(path))
    };
    patterns.iter().find(is_idle).cloned()
}

/// Files that the workspace holds otherwise than the commit that changes count from, with what they hold there; `None`: the commit
/// does not have them.
pub(crate) type Earlier = BTreeMap<String, Option<Vec<u8>>>;

struct OnDisk<'a> {
    root: &'a Path,
    files: &'a [String],
    earlier: &'a Earlier,
}

impl Following for OnDisk<'_> {
    fn text(&self, path: &str) -> Option<String> {
        if let Some(earlier) = self.earlier.get(path) {
            return earlier.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        }
        let path = self.root.join(path);
        let data = fs::metadata(&path).ok()?;
        if !data.is_file() || data.len() > MAX_SCRIPT {
            return data.is_file().then(String::new);
        }
        Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
    }

    fn home(&self) -> Option<String> {
        std::env::var("HOME").ok().filter(|home| home.starts_with('/'))
    }

    fn hook(&self, name: &str) -> Option<String> {
        Hooks::folder(self.root).and_then(|folder| folder.join(name).to_str().map(str::to_owned))
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let Ok(globs) = Globs::parse(&[pattern.to_owned()]) else { return Vec::new() };
        self.files.iter().filter(|path| globs.matches(path)).cloned().collect()
    }
}

/// What gates run, beyond their own words.
pub struct GateReach {
    pub followed: Vec<FollowedFile>,
    /// Patterns by which scripts find files.
    pub patterns: Vec<String>,
    /// Files outside of the repository that scripts name and that are not there.
    pub absent: Vec<String>,
    /// Each gate with the test runners that it starts.
    pub runners: Vec<(String, Vec<Runner>)>,
    /// Names of the programs that gates and their scripts start.
    pub programs: BTreeSet<String>,
    /// Whether one of them says where programs are looked for.
    pub sets_path: bool,
    /// Whether one of them runs a hook of git by its name.
    pub runs_hooks: bool,
}

fn reach(root: &Path, below: &str, gates: &[GateSpec], files: &[String], earlier: &Earlier) -> GateReach {
    let disk = OnDisk { root, files, earlier };
    let mut reach = GateReach {
        followed: Vec::new(),
        patterns: Vec::new(),
        absent: Vec::new(),
        runners: Vec::new(),
        programs: BTreeSet::new(),
        sets_path: false,
        runs_hooks: false,
    };
    for gate in gates.iter().filter(|gate| gate.ask.is_none()) {
        let Followed { files, patterns, absent, runners, programs, sets_path, runs_hooks } =
            follow(&gate.script(), below, &disk);
        reach.sets_path |= sets_path;
        reach.runs_hooks |= runs_hooks;
        reach.programs.extend(programs);
        reach.patterns.extend(patterns);
        reach.absent.extend(absent);
        for file in files {
            if !reach.followed.iter().any(|known| known.path == file.path) {
                reach.followed.push(file);
            }
        }
        reach.runners.push((gate.name.clone(), runners));
    }
    reach
}

/// What is sealed for these gates and why, and how many files can get a must-fail test, for people.
pub fn explain(root: &Path, below: &str, policy: &Policy) -> (Goalposts, GateReach, usize) {
    let (watched, reach) = WatchedGoalposts::begin((root, root), below, policy, None, &Earlier::new());
    let files: BTreeSet<String> = watched.must_fail_tests().into_iter().map(|test| test.path).collect();
    (watched.before, reach, files.len())
}

impl WatchedGoalposts {
    /// Reads the goalposts of the workspace at `root`, in whose folder `below` gates run, and the settings above it and above the folder
    /// with checkouts. Where the workspace holds work that no
    /// verdict has accepted, `earlier` says what the files were before it.
    pub(crate) fn begin(
        roots: (&Path, &Path),
        below: &str,
        policy: &Policy,
        path: Option<&std::ffi::OsStr>,
        earlier: &Earlier,
    ) -> (Self, GateReach) {
        // Where no agent waits, all is read.
        let read_until = path.is_some().then(|| Instant::now() + READ_FOR);
        Self::begin_within(roots, below, policy, path, earlier, read_until)
    }

    fn begin_within(
        (root, checkouts): (&Path, &Path),
        below: &str,
        policy: &Policy,
        path: Option<&std::ffi::OsStr>,
        earlier: &Earlier,
        read_until: Option<Instant>,
    ) -> (Self, GateReach) {
        let mut walk = walk(root);
        walk.files.retain(|path| !earlier.contains_key(path));
        walk.files.extend(earlier.iter().filter(|(_, bytes)| bytes.is_some()).map(|(path, _)| path.clone()));
        let mut watched = Self::empty(root, below, policy);
        watched.read_until = read_until;
        let mut reach = reach(root, below, &policy.gates.specs, &walk.files, earlier);
        watched.starts_git = reach.programs.contains("git");
        watched.followed = reach.followed.iter().map(|file| file.path.clone()).collect();
        watched.found_by = Globs::parse(&reach.patterns).unwrap_or_default();
        // Programs may be large, and are read meanwhile.
        let found = std::thread::scope(|scope| {
            let programs = path.map(|path| scope.spawn(|| programs(&reach.programs, path, root)));
            watched.before = watched.read(&walk.files, Some(earlier));
            watched.outside = outside(root, checkouts);
            if path.is_some() {
                watched.installed = installed_runners(root, &walk.left_out);
            }
            programs.and_then(|programs| programs.join().ok())
        });
        watched.learn(&reach);
        let rested_on = watched.read_what_checks_rest_on(policy, &walk.files, earlier);
        watched.find_generators(&reach, policy, &walk.files, earlier);
        let disk = OnDisk { root, files: &walk.files, earlier };
        let manifests = walk.files.iter().filter_map(|path| {
            let folder = path.strip_suffix("Cargo.toml")?;
            let folder = if folder.is_empty() { folder } else { folder.strip_suffix('/')? };
            Some((folder.to_owned(), disk.text(path)?))
        });
        watched.manifests = manifests.collect();
        let paths = watched.before.0.keys().filter(|path| is_program(&watched.root.join(path)));
        watched.executable = paths.cloned().collect();
        if watched.starts_git {
            let gates = policy.gates.specs.iter().filter(|gate| gate.ask.is_none());
            let scripts = reach.followed.iter().filter_map(|file| watched.contents.get(&file.path));
            let scripts = scripts.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let texts = gates.map(|gate| gate.script().to_string()).chain(scripts);
            // The target of units moves with every task that is merged.
            let is_of_unit = policy.marks_items() || policy.source.is_some();
            watched.tags = Tags::named(root, texts, !is_of_unit);
        }
        reach.followed.extend(rested_on.into_iter().map(|(path, check)| {
            let named_by = Some(check).filter(|check| !check.is_empty());
            FollowedFile { path, named_by }
        }));
        if path.is_some() {
            watched.read_packages(&walk.left_out);
            watched.read_own_packages();
            watched.on_path = own_programs(root);
        }
        watched.note(walk);
        watched.programs = found.unwrap_or_default();
        watched.outside.extend(reach.absent.iter().map(|path| (PathBuf::from(path), None)));
        watched.outside.extend(profiles(root, policy));
        watched.later.begin(root);
        (watched, reach)
    }

    /// Keeps what the first look at the workspace found beside goalposts.
    fn note(&mut self, walk: Walk) {
        self.at_start = walk.files.iter().map(|path| hash_of_path(path)).collect();
        (self.odd, self.is_cut) = (walk.odd, walk.is_cut);
        (self.ties, self.compiled) = (walk.ties, walk.compiled);
        self.installed_into = walk.left_out.into_iter().filter(|folder| is_installed(folder)).collect();
    }

    /// Takes in what the commands of gates say of what they do.
    fn learn(&mut self, reach: &GateReach) {
        self.has_unittest = reach.runners.iter().any(|(_, runners)| runners.contains(&Runner::Unittest));
        self.sets_path = reach.sets_path;
    }

    /// The tests of the start with their text.
    fn test_texts(&self) -> impl Iterator<Item = (&String, &str)> {
        let tests = self.before.0.iter().filter(|(_, post)| post.kind == GoalpostKind::Test);
        tests.filter_map(|(path, _)| Some((path, std::str::from_utf8(self.contents.get(path)?).ok()?)))
    }

    /// Seals what the checks of the start rest on beyond their names, and answers with the check that names each.
    fn read_what_checks_rest_on(
        &mut self,
        policy: &Policy,
        files: &[String],
        earlier: &Earlier,
    ) -> BTreeMap<String, String> {
        let text_of = |path: &String| std::str::from_utf8(self.contents.get(path)?).ok().map(str::to_owned);
        let posts = self.before.0.iter().filter_map(|(path, post)| {
            let text = text_of(path)?;
            let text = match post.kind {
                GoalpostKind::Keys(shared) => shared.deciding_part(&text)?,
                _ => text,
            };
            Some((path.clone(), text))
        });
        let commands = policy.gates.specs.iter().filter(|gate| gate.ask.is_none());
        let commands = commands.map(|gate| (String::new(), gate.script().to_string()));
        let checks: Vec<(String, String)> = commands.chain(posts).collect();
        let disk = OnDisk { root: &self.root, files, earlier };
        let is_known = |path: &str| {
            let post = self.before.0.get(path);
            post.is_some_and(|post| {
                !matches!(post.kind, GoalpostKind::Keys(SharedFile::RustSource | SharedFile::PythonSource))
            })
        };
        let found = rests_on(checks, files, &is_known, &|path| disk.text(path));
        self.rested_on = found.keys().cloned().collect();
        // They were looked at as work like any other.
        self.seen.retain(|path, _| !self.rested_on.contains(path));
        self.later.wanted.retain(|(path, ..)| !self.rested_on.contains(path));
        let more: Vec<String> = self.rested_on.iter().cloned().collect();
        let posts = self.read(&more, Some(earlier));
        self.before.0.extend(posts.0);
        found
    }

    /// Tells the scripts that make a part of the program from those that decide about it. All else that the gates start has to be
    /// runners of tests.
    fn find_generators(&mut self, reach: &GateReach, policy: &Policy, files: &[String], earlier: &Earlier) {
        if policy.gates.tests != TestsMode::Checked || policy.gates.from == GateFrom::Base {
            return;
        }
        let scripts: Vec<&String> = reach.followed.iter().map(|file| &file.path).collect();
        let is_followed = |path: &&&String| {
            self.before.0.get(path.as_str()).is_some_and(|post| post.kind == GoalpostKind::Followed)
                && !self.rested_on.contains(path.as_str())
        };
        let candidates: Vec<(String, String)> = scripts
            .iter()
            .filter(is_followed)
            .filter_map(|path| {
                let text = std::str::from_utf8(self.contents.get(path.as_str())?).ok()?;
                Some(((*path).clone(), text.to_owned()))
            })
            .filter(|(path, text)| Generators::may_be_one(path, text))
            .collect();
        if candidates.is_empty() {
            return;
        }
        let is_known = |path: &str| self.before.0.contains_key(path);
        let disk = OnDisk { root: &self.root, files, earlier };
        let generators = Generators::among(files, &is_known, &|path| disk.text(path));
        let found: BTreeMap<String, Vec<String>> = candidates
            .into_iter()
            .map(|(path, text)| {
                let made = generators.products(&path, &text, &is_known);
                (path, made)
            })
            .filter(|(_, made)| !made.is_empty())
            .collect();
        // A generator runs before the rest of a gate, and could lay a file for it that was not there (a `GNUmakefile`, what a script
        // takes in if it is there). Runners that notice must-fail tests are not steered by that.
        let runners: BTreeSet<Runner> =
            reach.runners.iter().flat_map(|(_, runners)| runners).copied().collect();
        let steps_alone = scripts.iter().all(|path| found.contains_key(path.as_str()));
        if runners.is_empty() || !runners.iter().all(|runner| runner.has_must_fail_tests()) || !steps_alone {
            return;
        }
        for path in found.keys() {
            if let Some(post) = self.before.0.get_mut(path) {
                post.kind = GoalpostKind::Generator;
            }
            self.seen.remove(path);
        }
        self.generators = found;
    }

    /// Whether a script of a gate makes a part of the program, so that the agent may change it.
    pub(crate) fn is_generator(&self, path: &str) -> bool {
        self.generators.contains_key(path)
    }

    /// Whether a test of the start names something in quotes.
    fn is_named_by_tests(&self, name: &str) -> bool {
        let quoted = format!("\"{name}\"");
        let tests = self.before.0.iter().filter(|(_, post)| post.kind.holds_tests());
        tests
            .filter_map(|(path, _)| std::str::from_utf8(self.contents.get(path)?).ok())
            .any(|text| text.contains(&quoted))
    }

    /// Takes in the packages in `node_modules` that tests import and that are there for development alone: tests compare by them.
    fn read_packages(&mut self, left_out: &[String]) {
        let mut files: Vec<PathBuf> = Vec::new();
        for folder in left_out.iter().filter(|folder| folder.ends_with("node_modules")) {
            let package = self.root.join(folder).with_file_name("package.json");
            let Ok(package) = fs::read(package) else { continue };
            let Ok(package) = serde_json::from_slice::<serde_json::Value>(&package) else { continue };
            let Some(names) = package.get("devDependencies").and_then(|names| names.as_object()) else {
                continue;
            };
            let imported: BTreeSet<String> =
                self.test_texts().flat_map(|(path, text)| packages_of_test(path, text)).collect();
            for name in imported.iter().filter(|name| names.contains_key(*name)) {
                files_below(&self.root.join(folder).join(name), &mut files);
            }
        }
        files.truncate(MAX_INSTALLED.saturating_sub(self.installed.len()));
        let new = files.into_iter().map(|file| (file.clone(), KnownProgram::at(file)));
        let new: Vec<_> = new.filter(|(file, _)| !self.installed.contains_key(file)).collect();
        self.installed.extend(new);
    }

    /// Takes in the packages of Python in the user's home folder that tests import: they may compare by them.
    fn read_own_packages(&mut self) {
        let Some(home) = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()) else {
            return;
        };
        let places = site_packages(&home.join(".local/lib"));
        if places.is_empty() {
            return;
        }
        let imported: BTreeSet<String> =
            self.test_texts().flat_map(|(path, text)| python_packages_of_test(path, text)).collect();
        let mut files: Vec<PathBuf> = Vec::new();
        for (packages, module) in
            places.iter().flat_map(|place| imported.iter().map(move |name| (place, name)))
        {
            files_below(&packages.join(module), &mut files);
            files.extend(Some(packages.join(format!("{module}.py"))).filter(|file| file.is_file()));
        }
        // Python writes these by itself.
        files.retain(|file| !file.components().any(|part| part.as_os_str() == "__pycache__"));
        files.truncate(MAX_INSTALLED.saturating_sub(self.installed.len()));
        let new: Vec<PathBuf> = files.into_iter().filter(|file| !self.installed.contains_key(file)).collect();
        self.installed.extend(new.into_iter().map(|file| (file.clone(), KnownProgram::at(file))));
    }

    fn empty(root: &Path, below: &str, policy: &Policy) -> Self {
        let named = policy.gates.specs.iter().flat_map(|gate| named_files(&gate.script()));
        let named = named.map(|name| if below.is_empty() { name } else { format!("{below}/{name}") });
        Self {
            root: root.to_owned(),
            before: Goalposts::default(),
            read_until: None,
            later: ReadLater::default(),
            seen: HashMap::new(),
            contents: HashMap::new(),
            manifests: BTreeMap::new(),
            test_paths: Globs::parse(&policy.gates.test_paths).unwrap_or_default(),
            followed: BTreeSet::new(),
            rested_on: BTreeSet::new(),
            generators: BTreeMap::new(),
            found_by: Globs::default(),
            named: named.collect(),
            executable: BTreeSet::new(),
            tags: Tags::default(),
            outside: BTreeMap::new(),
            programs: BTreeMap::new(),
            on_path: BTreeMap::new(),
            installed: BTreeMap::new(),
            odd: BTreeSet::new(),
            at_start: HashSet::new(),
            ties: BTreeSet::new(),
            compiled: BTreeSet::new(),
            has_unittest: false,
            starts_git: false,
            sets_path: false,
            has_vendor: root.join("vendor/modules.txt").exists() || !root.join("go.mod").exists(),
            installed_into: BTreeSet::new(),
            new_installed: Vec::new(),
            is_cut: false,
            hides_files: false,
        }
    }

    /// The goalposts of a loop that goes on: the list that was kept, if it is the one that the journal names.
    pub(crate) fn reopen(
        (root, checkouts): (&Path, &Path),
        below: &str,
        policy: &Policy,
        list: &Path,
        (seal, recorded): (&GoalpostSeal, &[OutsideFile]),
        path: Option<&std::ffi::OsStr>,
    ) -> io::Result<Self> {
        let before: Goalposts = serde_json::from_slice(&fs::read(list)?)?;
        if before.seal() != *seal {
            return Err(io::Error::other("it is not the list that the journal names"));
        }
        let mut watched = Self::empty(root, below, policy);
        let is_followed = |(path, post): (&String, &Goalpost)| {
            let is_followed = post.kind == GoalpostKind::Followed
                || (kind_of(path).is_none() && !matches!(post.kind, GoalpostKind::Keys(_)));
            is_followed.then(|| path.clone())
        };
        watched.followed = before.0.iter().filter_map(is_followed).collect();
        let decides = before.0.iter().filter(|(_, post)| post.kind == GoalpostKind::Followed);
        watched.rested_on = decides.map(|(path, _)| path.clone()).collect();
        let walk = walk(root);
        let reach = reach(root, below, &policy.gates.specs, &walk.files, &Earlier::new());
        watched.found_by = Globs::parse(&reach.patterns).unwrap_or_default();
        watched.starts_git = reach.programs.contains("git");
        watched.before = before;
        // What a generator makes is told by its text, which the list does not have: it is put back as a whole.
        for post in watched.before.0.values_mut().filter(|post| post.kind == GoalpostKind::Generator) {
            post.kind = GoalpostKind::Followed;
        }
        watched.outside = outside(root, checkouts);
        watched.outside.extend(profiles(root, policy));
        if let Some(path) = path {
            watched.programs = programs(&reach.programs, path, root);
            watched.installed = installed_runners(root, &walk.left_out);
        }
        watched.learn(&reach);
        watched.note(walk);
        watched.remember(recorded);
        Ok(watched)
    }

    /// Takes what the journal says of the start for what was there. A journal of an earlier version says nothing.
    fn remember(&mut self, recorded: &[OutsideFile]) {
        if recorded.is_empty() {
            return;
        }
        for hash in self.outside.values_mut() {
            *hash = None;
        }
        for file in recorded {
            let path = PathBuf::from(&file.path);
            match &file.program {
                Some(name) => {
                    let known = KnownProgram::recorded(path, file.sha256.clone());
                    self.programs.insert(name.clone(), known);
                }
                None => drop(self.outside.insert(path, Some(file.sha256.clone()))),
            }
        }
    }

    /// What of the surroundings is recorded for the receipt, and for a loop that goes on.
    pub(crate) fn recorded(&self) -> Vec<OutsideFile> {
        let shown = |path: &Path| path.display().to_string();
        let programs = self.programs.iter().filter_map(|(name, known)| match &known.content {
            Content::Whole(sha256) => Some(OutsideFile {
                program: Some(name.clone()),
                path: shown(&known.path),
                sha256: sha256.clone(),
            }),
            Content::Ends(_) => None,
        });
        let settings = self.outside.iter().filter_map(|(path, hash)| {
            Some(OutsideFile { program: None, path: shown(path), sha256: hash.clone()? })
        });
        programs.chain(settings).collect()
    }

    /// Programs among those that gates run that were not read whole.
    pub(crate) fn not_read_whole(&self, run: &BTreeSet<String>) -> Vec<String> {
        let is_partly = |name: &&String| {
            self.programs.get(name.as_str()).is_some_and(|known| matches!(known.content, Content::Ends(_)))
        };
        run.iter().filter(is_partly).cloned().collect()
    }

    pub(crate) fn seal(&self) -> GoalpostSeal {
        self.before.seal()
    }

    /// Writes the list of goalposts, for a loop that goes on.
    pub(crate) fn keep(&self, list: &Path) -> io::Result<()> {
        write_private(list, &serde_json::to_vec(&self.before)?)
    }

    fn kind(&self, path: &str) -> Option<GoalpostKind> {
        if self.test_paths.matches(path) {
            return Some(GoalpostKind::Test);
        }
        if self.generators.contains_key(path) {
            return Some(GoalpostKind::Generator);
        }
        let is_attributes = self.starts_git && path.rsplit('/').next() == Some(".gitattributes");
        if self.rested_on.contains(path) || is_attributes {
            return Some(GoalpostKind::Followed);
        }
        kind_of(path)
            .or_else(|| self.followed.contains(path).then_some(GoalpostKind::Followed))
            .or_else(|| kind_of_work(path))
    }

    /// What a file is that was not there: one that a script finds by a pattern runs with those that were.
    fn kind_of_new(&self, path: &str) -> Option<GoalpostKind> {
        if self.found_by.matches(path) {
            return Some(GoalpostKind::Followed);
        }
        // Work of the start that was changed is work.
        if self.at_start.contains(&hash_of_path(path)) {
            return self.kind(path);
        }
        if self.has_unittest && self.is_loaded_by_unittest(path) {
            return Some(GoalpostKind::Followed);
        }
        if (self.sets_path && self.is_rival_program(path))
            || (!self.has_vendor && path.starts_with("vendor/"))
        {
            return Some(GoalpostKind::Shadow);
        }
        self.kind(path)
    }

    /// Whether discovery loads a new module that no other module of the workspace names.
    fn is_loaded_by_unittest(&self, path: &str) -> bool {
        if !is_loaded_by_unittest(path) || kind_of(path).is_some() {
            return false;
        }
        let module = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".py");
        let others = walk(&self.root).files.into_iter().filter(|file| file.ends_with(".py") && file != path);
        let mut texts =
            others.take(MAX_LOOKED_AT).filter_map(|file| fs::read_to_string(self.root.join(file)).ok());
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        !texts.any(|text| {
            text.lines()
                .filter(|line| line.contains("import"))
                .any(|line| line.split(|c| !is_word(c)).any(|word| word == module))
        })
    }

    /// Whether a new file is a program under the name of one that gates found elsewhere at the start.
    fn is_rival_program(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.programs.contains_key(name) && is_program(&self.root.join(path))
    }

    /// Reads the goalposts among `files`; at the start those of `at_start` are not read from the workspace.
    fn read(&mut self, files: &[String], at_start: Option<&Earlier>) -> Goalposts {
        let is_start = at_start.is_some();
        let mut posts = BTreeMap::new();
        let mut room = KEPT_ALL;
        let outside: Vec<String> =
            self.followed.iter().filter(|path| path.starts_with('/')).cloned().collect();
        let mut paths: Vec<&String> = files.iter().chain(&outside).collect();
        if self.read_until.is_some() && is_start {
            // Tests, which are small, are read before the data that they rest on.
            paths.sort_by_cached_key(|path| {
                let kind = self.kind(path);
                kind.map(|_| fs::metadata(self.root.join(path)).map_or(0, |data| data.len() / KEPT_FILE))
            });
        }
        for path in paths {
            let is_new = !is_start && !self.before.0.contains_key(path);
            let kind = if is_new { self.kind_of_new(path) } else { self.kind(path) };
            let Some(kind) = kind else { continue };
            if let Some(bytes) = at_start.and_then(|earlier| earlier.get(path)) {
                let Some(bytes) = bytes else { continue };
                let Some(post) = Goalpost::of(kind, bytes) else { continue };
                if bytes.len() <= room {
                    room -= bytes.len();
                    self.contents.insert(path.clone(), bytes.clone());
                }
                posts.insert(path.clone(), post);
                continue;
            }
            let file = self.root.join(path);
            let Some(stamp) = Stamp::of(&file) else { continue };
            let known = self.seen.get(path).filter(|(seen, _)| *seen == stamp).map(|(_, post)| post.clone());
            let known = known.or_else(|| self.as_listed(path, stamp).filter(|_| !is_start).map(Some));
            let is_late = || {
                let is_over = |until| Instant::now() >= until || stamp.size > READ_AT_ONCE;
                is_start && self.read_until.is_some_and(is_over)
            };
            let post = match known {
                Some(post) => post,
                None if is_late() => {
                    self.later.wanted.push((path.clone(), kind, stamp));
                    Some(Goalpost { kind, sha256: stamp.described() })
                }
                None => {
                    let Ok((post, bytes)) = read_post(&file, kind, stamp.size) else { continue };
                    if let Some(bytes) = bytes.filter(|bytes| {
                        is_start && post.is_some() && stamp.size <= KEPT_FILE && bytes.len() <= room
                    }) {
                        room -= bytes.len();
                        self.contents.insert(path.clone(), bytes);
                    }
                    self.seen.insert(path.clone(), (stamp, post.clone()));
                    post
                }
            };
            if let Some(post) = post {
                posts.insert(path.clone(), post);
            }
        }
        Goalposts(posts)
    }

    /// Takes in what was read beside the agent. What the agent changed before it was read stays known by its stamp alone, and so
    /// counts as changed.
    fn take_in_late(&mut self) {
        for (path, stamp, post) in self.later.end() {
            match post.clone() {
                Some(post) => drop(self.before.0.insert(path.clone(), post)),
                None => drop(self.before.0.remove(&path)),
            }
            self.seen.insert(path, (stamp, post));
        }
    }

    /// A goalpost that is listed by its stamp, with that stamp: one of a loop that goes on, or one that was changed too early.
    fn as_listed(&self, path: &str, stamp: Stamp) -> Option<Goalpost> {
        let listed = self.before.0.get(path).filter(|post| post.sha256.starts_with(BY_STAMP))?;
        (listed.sha256 == stamp.described()).then(|| listed.clone())
    }

    /// What differs from the start.
    pub(crate) fn moved(&mut self) -> Vec<MovedGoalpost> {
        self.take_in_late();
        let walk = walk(&self.root);
        let there: HashSet<&String> = walk.files.iter().collect();
        self.seen.retain(|path, _| path.starts_with('/') || there.contains(path));
        let now = self.read(&walk.files, None);
        let mut moved = self.before.moved_to(&now);
        let lost = self.executable.iter().filter(|path| {
            now.0.contains_key(*path)
                && !is_program(&self.root.join(path))
                && !moved.iter().any(|moved| moved.path == **path)
        });
        let lost: Vec<MovedGoalpost> = lost
            .map(|path| MovedGoalpost { path: path.clone(), kind: now.0[path].kind, how: Moved::Changed })
            .collect();
        moved.extend(lost);
        // No rule tells what a file without a readable name is to the gates.
        moved.extend(walk.odd.difference(&self.odd).map(|path| MovedGoalpost {
            path: path.to_string_lossy().into_owned(),
            kind: GoalpostKind::Followed,
            how: Moved::Added,
        }));
        self.hides_files = walk.is_cut && !self.is_cut;
        let is_new = |folder: &String| is_installed(folder) && !self.installed_into.contains(folder);
        self.new_installed = walk.left_out.into_iter().filter(is_new).collect();
        moved
    }

    /// Whether a gate starts git, and so may look at commits.
    pub(crate) fn start_git(&self) -> bool {
        self.starts_git
    }

    /// Whether a folder has come into which tools install.
    pub(crate) fn has_new_packages(&self) -> bool {
        !self.new_installed.is_empty()
    }

    /// Which of the files that the agent has committed belong to packages that its work may use: new ones, which neither run tests
    /// nor take the place of what a check imports.
    pub(crate) fn packages_of_work(&self, committed: Vec<String>) -> Vec<String> {
        let texts =
            self.contents.iter().filter_map(|(path, bytes)| Some((path, std::str::from_utf8(bytes).ok()?)));
        let imported: BTreeSet<String> =
            texts.flat_map(|(path, text)| packages_of_test(path, text)).collect();
        let is_of_work = |path: &String| {
            let folder = self.new_installed.iter().find(|folder| is_below(path, folder));
            let Some((above, inside)) = folder.and_then(|folder| {
                Some((
                    folder.strip_suffix("node_modules")?,
                    path.strip_prefix(folder.as_str())?.trim_start_matches('/'),
                ))
            }) else {
                return false;
            };
            let decides = |package: &str| SHADOW_PACKAGES.contains(&package) || imported.contains(package);
            let mut parts = inside.splitn(3, '/');
            let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let is_beside_tests = kind_of(&format!("{above}index.js")).is_some();
            !is_beside_tests && !decides(first) && !decides(&format!("{first}/{second}"))
        };
        committed.into_iter().filter(is_of_work).collect()
    }

    /// Why the goalposts cannot be told among the files of the workspace any more.
    pub(crate) fn flood(&self) -> Option<String> {
        self.hides_files.then(|| {
            format!(
                "there are more than {MAX_ENTRIES} files now: which of them decide about tests cannot be told"
            )
        })
    }

    /// The must-fail tests that can be put into the tests of the start; some of them, spread over the files, if there are many.
    pub(crate) fn must_fail_tests(&self) -> Vec<MustFailTest> {
        let holding =
            self.before.0.iter().filter(|(path, post)| post.kind.holds_tests() && !path.starts_with('/'));
        let mut all: Vec<MustFailTest> = Vec::new();
        for (path, _) in holding {
            if let Some(text) = self.contents.get(path).and_then(|bytes| std::str::from_utf8(bytes).ok()) {
                all.extend(must_fail_tests(path, text));
            }
        }
        let step = all.len().div_ceil(MAX_MUST_FAIL).max(1);
        all.into_iter().step_by(step).collect()
    }

    /// Settings above the workspace and in the home folder, programs of gates, and parts of installed runners that are not what they
    /// were.
    pub(crate) fn changed_outside(&self) -> Vec<String> {
        let settings = self.outside.iter().filter(|(path, before)| hash_of(path) != **before);
        let programs = self.programs.values().filter(|program| program.is_changed());
        let shadowing = self.programs.iter().filter_map(|(name, program)| {
            let found =
                path_entries().into_iter().map(|folder| folder.join(name)).find(|file| is_program(file))?;
            (found != program.path).then_some(found)
        });
        // Programs that others find on PATH, such as a compiler its assembler.
        let before = |folder: &PathBuf, name: &OsString| {
            self.on_path.get(folder).is_none_or(|names| names.contains(name))
        };
        let hiding = own_programs(&self.root).into_iter().flat_map(|(folder, names)| {
            let is_hiding = |name: &OsString| {
                let mut behind = path_entries().into_iter().skip_while(|other| *other != folder).skip(1);
                !before(&folder, name)
                    && is_program(&folder.join(name))
                    && behind.any(|other| is_program(&other.join(name)))
            };
            names.into_iter().filter(is_hiding).map(|name| folder.join(name)).collect::<Vec<_>>()
        });
        let installed = self.installed.values().filter(|part| part.path.exists() && part.is_other());
        let plugins = plugins_at_home().into_iter().filter(|path| !self.installed.contains_key(path));
        // `npm` puts this folder first on PATH.
        let bin = self.root.join("node_modules/.bin");
        let beside = self.programs.keys().map(|name| bin.join(name));
        let beside = beside.filter(|path| path.exists() && !self.installed.contains_key(path));
        settings
            .map(|(path, _)| path.clone())
            .chain(installed.map(|part| part.path.clone()))
            .chain(plugins)
            .chain(beside)
            .chain(programs.map(|program| program.path.clone()))
            .chain(shadowing)
            .chain(hiding)
            .map(|path| path.display().to_string())
            .chain(self.tags.moved())
            .collect()
    }

    /// Makes the goalposts in `folder`, a checkout that is thrown away, read-only or writable. Files that are shared with other work
    /// stay writable, and so does what tests read: some open it for writing.
    pub(crate) fn hold_still(&self, folder: &Path, is_held: bool) {
        let decides = |(path, post): &(&String, &Goalpost)| match post.kind {
            GoalpostKind::Keys(_) | GoalpostKind::Generator => false,
            GoalpostKind::Test => is_discovered(path),
            GoalpostKind::Setting | GoalpostKind::Followed | GoalpostKind::Shadow => true,
        };
        for (path, _) in self.before.0.iter().filter(decides).filter(|(path, _)| !path.starts_with('/')) {
            let file = folder.join(path);
            // A link may lead out of the checkout.
            let Ok(data) = fs::symlink_metadata(&file) else { continue };
            let is_inside = data.is_file() && file.canonicalize().is_ok_and(|real| real.starts_with(folder));
            if !is_inside {
                continue;
            }
            let mode = data.permissions().mode();
            let wanted = if is_held { mode & !0o222 } else { mode | 0o200 };
            if wanted != mode {
                let _ = fs::set_permissions(&file, fs::Permissions::from_mode(wanted));
            }
        }
    }

    /// Whether a new file would be taken instead of one that was there: a `GNUmakefile` beside a `Makefile`.
    fn is_rival(&self, path: &str) -> bool {
        let known = || self.before.0.keys().filter(|known| is_found_by_itself(known));
        is_found_by_itself(path) && known().any(|known| role(known) == role(path))
    }

    /// Makes `folder`, a checkout, what a clone elsewhere would be. Links that are new and lead by an absolute path to what is neither
    /// in it nor the system's are taken out; what a compiler made since the start is older than every source, so that it is made again, or is not there.
    pub(crate) fn as_elsewhere(&self, folder: &Path) {
        let found = walk(folder);
        for tie in found.ties.difference(&self.ties) {
            let link = folder.join(tie);
            let Ok(target) = fs::read_link(&link) else { continue };
            let is_known = target.starts_with(folder) || is_link_to_system(&target) || is_installed(tie);
            if !is_known {
                let _ = fs::remove_file(link);
            }
        }
        for path in
            found.compiled.difference(&self.compiled).filter(|path| !leads_elsewhere(folder, Path::new(path)))
        {
            if PRECOMPILED.iter().any(|end| path.rsplit('.').next() == Some(end)) {
                let _ = fs::remove_file(folder.join(path));
            } else if let Ok(file) = fs::File::options().write(true).open(folder.join(path)) {
                let _ = file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1));
            }
        }
    }

    /// Goalposts of the workspace that are not what they were when the claim was looked at, by their bytes.
    pub(crate) fn changed_since_look(&self) -> Vec<String> {
        let mut paths: Vec<String> = self
            .seen
            .iter()
            .filter(|(path, (stamp, post))| {
                let file = self.root.join(path);
                if Stamp::of(&file) == Some(*stamp) {
                    return false;
                }
                let Some(kind) = self.kind(path) else { return post.is_some() };
                if let Some(post) = post.as_ref().filter(|_| is_read_in_parts(kind, stamp.size)) {
                    return whole_of(&file).map_or(true, |sha256| sha256 != post.sha256);
                }
                let Ok(bytes) = fs::read(&file) else { return post.is_some() };
                Goalpost::of(kind, &bytes) != *post
            })
            .map(|(path, _)| path.clone())
            .collect();
        paths.sort_unstable();
        paths
    }

    /// The goalposts in `folder`, a checkout: what they are now, to be compared after a gate has run.
    pub(crate) fn stamps(&self, folder: &Path) -> HashMap<String, Option<Stamp>> {
        let inside = self.before.0.keys().filter(|path| !path.starts_with('/'));
        inside.map(|path| (path.clone(), Stamp::of(&folder.join(path)))).collect()
    }

    /// Packages of Cargo that have another name or place in `folder`, a checkout, and of which nothing is left in the old one.
    fn renamed_packages(&self, folder: &Path, moved: &[MovedGoalpost]) -> Vec<RenamedPackage> {
        let manifest = |above: &str| folder.join(above).join("Cargo.toml");
        let renamed = moved_folders(moved).into_iter().filter_map(|(from, to)| {
            let has_moved = from == to || (!manifest(&from).exists() && !self.manifests.contains_key(&to));
            let old = self.manifests.get(&from).filter(|_| has_moved)?;
            let new = fs::read_to_string(manifest(&to)).ok()?;
            RenamedPackage::of((from, to), old, &new)
        });
        renamed.collect()
    }

    /// Lays the goalposts out in `folder` as they were: `read_base` reads a file of the first snapshot.
    pub(crate) fn put_back(
        &self,
        folder: &Path,
        moved: &[MovedGoalpost],
        read_base: impl Fn(&[&str]) -> io::Result<Vec<Option<Vec<u8>>>>,
    ) -> io::Result<()> {
        let wanted: Vec<&str> = moved
            .iter()
            // A shared file may have been there without a part that decides.
            .filter(|moved| moved.how != Moved::Added || matches!(moved.kind, GoalpostKind::Keys(_)))
            .filter(|moved| !moved.path.starts_with('/'))
            .map(|moved| moved.path.as_str())
            .collect();
        let missing: Vec<&str> =
            wanted.iter().copied().filter(|path| !self.contents.contains_key(*path)).collect();
        let mut read: HashMap<&str, Vec<u8>> = HashMap::new();
        if !missing.is_empty() {
            for (path, bytes) in missing.iter().zip(read_base(&missing)?) {
                read.extend(bytes.map(|bytes| (*path, bytes)));
            }
        }
        if moved.iter().any(|moved| moved.path.contains(char::REPLACEMENT_CHARACTER)) {
            for path in walk(folder).odd.difference(&self.odd).map(|path| folder.join(path)) {
                if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
            }
        }
        let renamed = self.renamed_packages(folder, moved);
        let place_of = |path: &str| renamed.iter().find_map(|package| package.place_of(path));
        let taken: HashSet<String> = moved
            .iter()
            .filter(|moved| moved.how == Moved::Removed)
            .filter_map(|moved| place_of(&moved.path))
            .collect();
        for moved in moved.iter().filter(|moved| !moved.path.starts_with('/')) {
            // It is put back as what it was in the old place.
            if moved.how == Moved::Added && taken.contains(&moved.path) {
                continue;
            }
            let place = Some(moved).filter(|moved| moved.how == Moved::Removed);
            let place = place.and_then(|moved| place_of(&moved.path)).unwrap_or_else(|| moved.path.clone());
            untie(folder, Path::new(&place))?;
            let file = folder.join(&place);
            let before = self.contents.get(&moved.path).or_else(|| read.get(moved.path.as_str()));
            match (moved.how, moved.kind) {
                (Moved::Added, GoalpostKind::Keys(shared)) => {
                    let new = fs::read_to_string(&file).unwrap_or_default();
                    let old = before.map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
                    let before = shared.as_before(&old, &new);
                    if before.is_empty() {
                        let _ = fs::remove_file(&file);
                    } else {
                        replace(&file, before.as_bytes())?;
                    }
                }
                // What a gate names by itself is to be written, unless it would be taken instead of what was there.
                (Moved::Added, _) if self.named.contains(&moved.path) && !self.is_rival(&moved.path) => {}
                (Moved::Added, _) => {
                    let _ = fs::remove_file(&file);
                    // A folder that is left empty is none in git, and tools ask whether it is there.
                    for above in file.ancestors().skip(1).take_while(|above| *above != folder) {
                        if fs::remove_dir(above).is_err() {
                            break;
                        }
                    }
                }
                // It is the work, and makes its files anew.
                (Moved::Changed, GoalpostKind::Generator) => {
                    for made in self.generators.get(&moved.path).into_iter().flatten() {
                        untie(folder, Path::new(made))?;
                        let _ = fs::remove_file(folder.join(made));
                    }
                }
                (_, kind) => {
                    let Some(before) = before else {
                        return Err(io::Error::other(format!("`{}` cannot be put back", moved.path)));
                    };
                    let expected = self.before.0.get(&moved.path).map(|post| &post.sha256);
                    if expected.is_some_and(|sha256| sha256.starts_with(BY_STAMP)) {
                        return Err(io::Error::other(format!(
                            "`{}` was changed before dacapo had read it, so what it was is not known",
                            moved.path
                        )));
                    }
                    if Goalpost::of(kind, before).as_ref().map(|post| &post.sha256) != expected {
                        return Err(io::Error::other(format!(
                            "the snapshot of `{}` is not what it was",
                            moved.path
                        )));
                    }
                    let with_new_names;
                    let before = match std::str::from_utf8(before) {
                        Ok(text) if !renamed.is_empty() => {
                            let text = renamed.iter().fold(text.to_owned(), |text, package| {
                                package.with_new_names(kind, &moved.path, &text)
                            });
                            with_new_names = text.into_bytes();
                            &with_new_names
                        }
                        _ => before,
                    };
                    match (kind, std::str::from_utf8(before), fs::read_to_string(&file)) {
                        (GoalpostKind::Keys(shared), Ok(old), Ok(new)) => {
                            let above = moved.path.rsplit_once('/').map_or("", |(above, _)| above);
                            let is_rested_on = |path: &str| {
                                below(above, path).is_some_and(|path| self.rested_on.contains(&path))
                            };
                            let ask_for = |feature: &str| self.is_named_by_tests(feature);
                            let shadows = |path: &str| {
                                below(above, path).is_none_or(|path| holds_shadow(&folder.join(path)))
                            };
                            let checks =
                                Checks { ask_for: &ask_for, rest_on: &is_rested_on, shadows: &shadows };
                            replace(&file, shared.as_before_for(old, &new, &checks).as_bytes())?;
                        }
                        // A new source, and what makes it, has to stand in the makefile.
                        (GoalpostKind::Setting, Ok(old), Ok(new)) if is_found_by_itself(&moved.path) => {
                            let above = moved.path.rsplit_once('/').map_or("", |(above, _)| above);
                            let was_there = |path: &str| {
                                below(above, path)
                                    .is_none_or(|path| self.at_start.contains(&hash_of_path(&path)))
                            };
                            let is_there = |path: &str| {
                                below(above, path).is_some_and(|path| folder.join(path).is_file())
                            };
                            let before = makefile_as_before(old, &new, &was_there, &is_there);
                            replace(&file, before.as_bytes())?;
                        }
                        _ => replace(&file, before)?,
                    }
                }
            }
            if self.executable.contains(&moved.path) && !is_program(&file) {
                let _ = fs::set_permissions(&file, fs::Permissions::from_mode(0o755));
            }
        }
        Ok(())
    }
}

/// Whether a folder holds a module that would take the place of a part of the runner if modules were looked for in it first.
fn holds_shadow(folder: &Path) -> bool {
    walk(folder).files.iter().any(|path| kind_of(path) == Some(GoalpostKind::Shadow))
}

/// Writes a file anew, in the place of a link as well, with the mode that it had.
pub(crate) fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mode = fs::metadata(file).ok().map(|data| data.permissions());
    if let Some(above) = file.parent() {
        if above.is_file() {
            fs::remove_file(above)?;
        }
        fs::create_dir_all(above)?;
    }
    match fs::symlink_metadata(file) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(file)?,
        Ok(_) => fs::remove_file(file)?,
        Err(_) => {}
    }
    fs::write(file, bytes)?;
    if let Some(mode) = mode {
        fs::set_permissions(file, mode)?;
    }
    Ok(())
}

/// Whether a goalpost is too large to be held in memory while it is hashed.
fn is_read_in_parts(kind: GoalpostKind, size: u64) -> bool {
    size > KEPT_FILE && !matches!(kind, GoalpostKind::Keys(_))
}

fn hash_of_path(path: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Lays out the files of a repository within this one, as they are, without what git keeps of it.
fn copy_nested(from: &Path, folder: &Path, nested: &Path) -> io::Result<()> {
    let mut room = EXTRA_ALL;
    for path in walk(from).files {
        let below = nested.join(&path);
        let (source, file) = (from.join(&path), folder.join(&below));
        let Ok(data) = fs::metadata(&source) else { continue };
        if data.len() > room || fs::symlink_metadata(&file).is_ok() || leads_elsewhere(folder, &below) {
            continue;
        }
        room -= data.len();
        if let Some(above) = file.parent() {
            fs::create_dir_all(above)?;
        }
        fs::copy(&source, &file)?;
    }
    Ok(())
}

/// Goalposts of a checkout that a gate has rewritten while it ran.
pub(crate) fn rewritten(folder: &Path, before: &HashMap<String, Option<Stamp>>) -> Vec<String> {
    let mut paths: Vec<String> = before
        .iter()
        .filter(|(path, stamp)| Stamp::of(&folder.join(path)) != **stamp)
        .map(|(path, _)| path.clone())
        .collect();
    paths.sort_unstable();
    paths
}

fn hash_of(path: &Path) -> Option<String> {
    let data = fs::metadata(path).ok()?;
    if data.is_dir() {
        // Whether it is there, and what lies in it, by name.
        let mut names: Vec<_> = fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        // A folder that is held by a file of dacapo's is one that is not there.
        let is_held = names == [IN_FOLDER];
        return (!is_held).then(|| sha256(format!("{names:?}").as_bytes()));
    }
    let bytes = data.is_file().then(|| fs::read(path).ok()).flatten()?;
    // A name that is held by a file of dacapo's is one that is not there.
    (!is_held(path, &bytes)).then(|| sha256(&bytes))
}

/// The settings that tools find above the workspace, above checkouts and in the home folder.
fn outside(root: &Path, checkouts: &Path) -> BTreeMap<PathBuf, Option<String>> {
    let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
    let scratch = std::env::temp_dir();
    let scratch = scratch.canonicalize().unwrap_or(scratch);
    let checkouts = checkouts.canonicalize().unwrap_or_else(|_| checkouts.to_owned());
    for folder in root.ancestors().skip(1).chain(scratch.ancestors()).chain(checkouts.ancestors()) {
        paths.extend(ABOVE.iter().map(|name| folder.join(name)));
    }
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()) {
        paths.extend(IN_HOME.iter().map(|name| home.join(name)));
        let python = fs::read_dir(home.join(".local/lib")).into_iter().flatten().flatten();
        for version in python.map(|entry| entry.path()) {
            let packages = version.join("site-packages");
            paths.extend(["sitecustomize.py", "usercustomize.py"].map(|name| packages.join(name)));
            let inside = fs::read_dir(&packages).into_iter().flatten().flatten().map(|entry| entry.path());
            paths.extend(inside.filter(|path| path.extension().is_some_and(|end| end == "pth")));
        }
    }
    // What lies in the workspace is the agent's to write.
    paths.retain(|path| !path.starts_with(root));
    paths.into_iter().map(|path| (path.clone(), hash_of(&path))).collect()
}

/// The profiles of the user's shell, if a gate starts one that reads them.
fn profiles(root: &Path, policy: &Policy) -> BTreeMap<PathBuf, Option<String>> {
    let mut gates = policy.gates.specs.iter().filter(|gate| gate.ask.is_none());
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let Some(home) = home.filter(|_| gates.any(|gate| starts_with_profiles(&gate.script()))) else {
        return BTreeMap::new();
    };
    let paths = PROFILES.iter().map(|name| home.join(name)).filter(|path| !path.starts_with(root));
    paths.map(|path| (path.clone(), hash_of(&path))).collect()
}

/// How many files of installed runners are looked at.
const MAX_INSTALLED: usize = 5000;

/// The files of test runners in `node_modules`, in virtual environments and in the home folder's packages.
fn installed_runners(root: &Path, left_out: &[String]) -> BTreeMap<PathBuf, KnownProgram> {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in left_out.iter().filter(|folder| INSTALLED.iter().any(|name| folder.ends_with(name))) {
        let folder = root.join(folder);
        for package in SHADOW_PACKAGES {
            files_below(&folder.join(package), &mut files);
        }
        for packages in site_packages(&folder.join("lib")) {
            for module in SHADOWS {
                files_below(&packages.join(module), &mut files);
                files.extend(Some(packages.join(format!("{module}.py"))).filter(|file| file.is_file()));
            }
        }
    }
    files.extend(plugins_at_home());
    files.truncate(MAX_INSTALLED);
    files.into_iter().map(|file| (file.clone(), KnownProgram::at(file))).collect()
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    if files.len() >= MAX_INSTALLED {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), files),
            Ok(_) if entry.path().is_file() => files.push(entry.path()),
            _ => {}
        }
    }
}

fn site_packages(lib: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(lib).into_iter().flatten().flatten();
    versions.map(|version| version.path().join("site-packages")).filter(|path| path.is_dir()).collect()
}

/// What Python and its runner load by themselves from the packages in the home folder.
fn plugins_at_home() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let mut found = Vec::new();
    for packages in home.map(|home| site_packages(&home.join(".local/lib"))).unwrap_or_default() {
        for entry in fs::read_dir(&packages).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let module = name.split('.').next().unwrap_or_default();
            if RUNNER_PARTS.contains(&module) && !name.ends_with("-info") {
                if path.is_dir() {
                    files_below(&path, &mut found)
                } else {
                    found.push(path)
                }
                // Python writes these by itself.
                found.retain(|file| !file.components().any(|part| part.as_os_str() == "__pycache__"));
            } else if name.ends_with(".pth")
                || matches!(name.as_str(), "sitecustomize.py" | "usercustomize.py")
            {
                found.push(path);
            } else if name.ends_with(".dist-info") || name.ends_with(".egg-info") {
                let points = path.join("entry_points.txt");
                if fs::read_to_string(&points).is_ok_and(|text| text.contains("pytest11")) {
                    found.push(points);
                }
            }
        }
    }
    found
}

fn path_entries() -> Vec<PathBuf> {
    let path = crate::inside::child::variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// The names of the files in the folders of PATH that lie in the home folder and not in the workspace.
fn own_programs(root: &Path) -> BTreeMap<PathBuf, BTreeSet<OsString>> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let is_own = |folder: &PathBuf| {
        home.as_ref().is_some_and(|home| folder.starts_with(home)) && !folder.starts_with(root)
    };
    let names = |folder: &PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    path_entries().into_iter().filter(is_own).map(|folder| (folder.clone(), names(&folder))).collect()
}

fn is_program(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Programs that gates and the tools below them start, as PATH finds them now. Those in the workspace are the agent's to write.
/// All bytes of those that gates are known to run are read.
fn programs(run: &BTreeSet<String>, path: &std::ffi::OsStr, root: &Path) -> BTreeMap<String, KnownProgram> {
    const TOOLS: &[&str] = &[
        "sh",
        "bash",
        "env",
        "cargo",
        "rustc",
        "rustdoc",
        "cargo-nextest",
        "cc",
        "gcc",
        "g++",
        "clang",
        "ld",
        "make",
        "cmake",
        "ctest",
        "python",
        "python3",
        "pytest",
        "tox",
        "uv",
        "node",
        "npm",
        "npx",
        "pnpm",
        "yarn",
        "bun",
        "go",
        "java",
        "mvn",
        "gradle",
        "dotnet",
        "just",
        "grep",
        "sed",
        "awk",
        "diff",
        "test",
        "cat",
        "git",
    ];
    let names: BTreeSet<&str> = run.iter().map(String::as_str).chain(TOOLS.iter().copied()).collect();
    let folders: Vec<PathBuf> = std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
    let mut room = PROGRAMS_READ;
    let mut found = BTreeMap::new();
    for name in names {
        let file = folders.iter().map(|folder| folder.join(name)).find(|file| is_program(file));
        if let Some(file) = file.filter(|file| !file.starts_with(root)) {
            let known = match run.contains(name) {
                true => KnownProgram::read_whole(file, &mut room),
                false => KnownProgram::at(file),
            };
            found.insert(name.to_owned(), known);
        }
    }
    found
}

/// Whether a path lies in a folder that tools install into, or is one.
pub(crate) fn is_installed(path: &str) -> bool {
    path.split('/').any(|part| INSTALLED.contains(&part))
}

impl Extras {
    /// What the workspace holds beside `tracked`, the files of a snapshot.
    pub(crate) fn begin(root: &Path, tracked: &HashSet<Vec<u8>>, runs_hooks: bool) -> Self {
        let walk = walk(root);
        let hooks = runs_hooks.then(|| Hooks::of(root)).flatten();
        let mut extras = Self { hooks, ..Self::default() };
        let mut room = EXTRA_ALL;
        let is_nested = |path: &str| walk.nested.iter().any(|folder| is_below(path, folder));
        for folder in &walk.nested {
            let sizes = walk.files.iter().filter(|path| is_below(path, folder));
            let sizes = sizes.map(|path| fs::metadata(root.join(path)).map_or(0, |data| data.len()));
            let (all, largest) = sizes.fold((0, 0), |(all, largest), size| (all + size, size.max(largest)));
            if all <= EXTRA_ALL && largest <= EXTRA_FILE {
                extras.nested.push(folder.clone());
                let repository = Nested::at(&root.join(folder));
                extras.repositories.extend(repository.map(|repository| (folder.clone(), repository)));
            } else {
                extras.lacking.push(folder.clone());
            }
        }
        for path in
            walk.files.iter().filter(|path| !tracked.contains(path.as_bytes()) && !is_nested(path.as_str()))
        {
            let file = root.join(path);
            let Ok(data) = fs::metadata(&file) else { continue };
            if data.len() > EXTRA_FILE || data.len() > room {
                extras.lacking.push(path.clone());
                continue;
            }
            let Ok(bytes) = fs::read(&file) else { continue };
            room -= data.len();
            extras.files.push((path.clone(), bytes, data.permissions(), data.modified().ok()));
        }
        let names = |folder: &String| {
            let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
            entries.flat_map(|entry| with_scoped(&entry)).collect()
        };
        let folders = walk.left_out.into_iter().filter(|folder| is_installed(folder));
        extras.installed = folders.map(|folder| (folder.clone(), Some(names(&folder)))).collect();
        if walk.is_cut {
            extras.lacking.push("(too many files)".to_owned());
        }
        extras
    }

    /// What is known of them again when a loop goes on: folders that tools installed into, and repositories within this one, are
    /// laid out as they are. Ignored files may be the agent's by now, and stay out.
    pub(crate) fn again(root: &Path) -> Self {
        let walk = walk(root);
        let mut extras = Self { nested: walk.nested, ..Self::default() };
        let folders = walk.left_out.into_iter().filter(|folder| is_installed(folder));
        extras.installed = folders.map(|folder| (folder, None)).collect();
        extras
    }

    /// Whether they hold files that git ignores.
    pub(crate) fn holds_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Whether they hold repositories, which are copied as they are at that time.
    pub(crate) fn holds_repositories(&self) -> bool {
        !self.nested.is_empty()
    }

    /// Lays them out in a checkout.
    pub(crate) fn lay_out(&self, root: &Path, folder: &Path) -> io::Result<()> {
        for (path, bytes, mode, modified) in &self.files {
            let file = folder.join(path);
            // What the agent has made part of its work is its own by now. A link of its work may lead anywhere.
            if fs::symlink_metadata(&file).is_ok() || leads_elsewhere(folder, Path::new(path)) {
                continue;
            }
            if let Some(above) = file.parent()
                && fs::create_dir_all(above).is_err()
            {
                continue;
            }
            fs::write(&file, bytes)?;
            // A build must not take what was built before for newer than its sources.
            if let (Some(modified), Ok(open)) = (modified, fs::File::options().write(true).open(&file)) {
                let _ = open.set_modified(*modified);
            }
            let _ = fs::set_permissions(&file, mode.clone());
        }
        for nested in &self.nested {
            copy_nested(&root.join(nested), folder, Path::new(nested))?;
            if let Some(repository) = self.repositories.get(nested)
                && folder.join(".git").is_dir()
                && !leads_elsewhere(folder, &Path::new(nested).join(".git"))
            {
                repository.lay_out(&root.join(nested), &folder.join(nested))?;
            }
        }
        if let Some(hooks) = &self.hooks {
            hooks.lay_out(folder)?;
        }
        // What was installed since, for dependencies that the work lists.
        let lists_some =
            fs::read_to_string(folder.join("package.json")).is_ok_and(|text| text.contains("ependencies\""));
        let new =
            Some("node_modules".to_owned()).filter(|new| lists_some && !self.installed.contains_key(new));
        let new = new.map(|new| (new, None));
        for (path, names) in self.installed.iter().chain(new.as_ref().map(|(new, names)| (new, names))) {
            let above = Path::new(path).ancestors().skip(1);
            let lists = above.flat_map(|above| LOCKS.iter().map(move |lock| above.join(lock)));
            let listed: String =
                lists.filter_map(|list| fs::read_to_string(folder.join(list)).ok()).collect();
            // What came since belongs to the work if the work lists it.
            let is_lent = |name: &OsStr| {
                let is_listed =
                    || name.to_str().is_some_and(|name| name.starts_with('.') || listed.contains(name));
                names.as_ref().is_none_or(|names| {
                    names.contains(name) || !path.ends_with("node_modules") || is_listed()
                })
            };
            let link = folder.join(path);
            let is_free = fs::symlink_metadata(&link).is_err() && !leads_elsewhere(folder, Path::new(path));
            if is_free && root.join(path).is_dir() {
                lend(&root.join(path), &link, "", &is_lent)?;
            }
        }
        Ok(())
    }
}

/// The names of a package, and of those of one author.
fn with_scoped(entry: &fs::DirEntry) -> Vec<OsString> {
    let name = entry.file_name();
    if !name.as_bytes().starts_with(b"@") {
        return vec![name];
    }
    let inside = fs::read_dir(entry.path()).into_iter().flatten().flatten();
    let mut scoped = |inner: fs::DirEntry| [&name, OsStr::new("/"), &inner.file_name()].into_iter().collect();
    inside.map(&mut scoped).collect()
}

/// Lets a checkout use a folder that tools installed into: a folder of its own whose entries lead there. A gate that installs anew
/// removes these, and not what they lead to. What it would write into, small files and the programs of an environment, is copied.
/// `scope` is the author's name before those of the packages.
fn lend(from: &Path, to: &Path, scope: &str, is_lent: &dyn Fn(&OsStr) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        let mut whole = OsString::from(scope);
        whole.push(entry.file_name());
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        let is_file = |data: fs::Metadata| data.is_file() && data.len() <= EXTRA_FILE;
        // Packages of one author lie in a folder of their own.
        let name = entry.file_name();
        let is_scope = name.as_bytes().starts_with(b"@");
        if kind.is_dir() && (is_scope || name == "bin" || name == ".bin") {
            let scope = if is_scope { format!("{}/", name.to_string_lossy()) } else { String::new() };
            let in_bin = |_: &OsStr| true;
            lend(&from, &to, &scope, if is_scope { is_lent } else { &in_bin })?;
        } else if !is_lent(&whole) {
            continue;
        } else if kind.is_file() && entry.metadata().is_ok_and(is_file) {
            fs::copy(&from, &to)?;
        } else {
            let target = fs::read_link(&from).ok().filter(|target| target.is_absolute());
            std::os::unix::fs::symlink(target.unwrap_or(from), &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_changed_by_its_bytes_and_not_by_a_link_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        fs::write(&path, [b'x'; 300 << 10]).unwrap();
        let known = KnownProgram::at(path.clone());
        assert!(!known.is_changed());
        fs::hard_link(&path, folder.path().join("link")).unwrap();
        assert_ne!(Stamp::of(&path), known.stamp);
        assert!(!known.is_changed(), "a hard link more is no other program");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = vec![b'x'; 300 << 10];
        *bytes.last_mut().unwrap() = b'y';
        fs::write(&path, bytes).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert!(known.is_changed(), "other bytes of the same size and time are another program");
        fs::remove_file(&path).unwrap();
        assert!(known.is_changed());
    }

    #[test]
    fn a_program_that_gates_run_is_known_by_all_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        let bytes = vec![b'x'; 2 << 20];
        fs::write(&path, &bytes).unwrap();
        // Too large for the time that the first agent waits.
        let mut room = (2 << 20) - 1;
        assert!(matches!(KnownProgram::read_whole(path.clone(), &mut room).content, Content::Ends(Some(_))));
        let mut room = 3 << 20;
        let known = KnownProgram::read_whole(path.clone(), &mut room);
        assert_eq!(room, 1 << 20);
        assert_eq!(known.content, Content::Whole(sha256(&bytes)));
        assert!(!known.is_changed());
        // Installed anew with the same bytes.
        fs::remove_file(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        assert!(!known.is_changed());
        // One byte in its middle, with the same size and time.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut other = bytes.clone();
        other[1 << 20] = b'y';
        fs::write(&path, &other).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert!(known.is_changed());
        // A loop that goes on takes the journal's word, and not what it finds.
        assert!(KnownProgram::recorded(path.clone(), sha256(&bytes)).is_changed());
        fs::write(&path, &bytes).unwrap();
        assert!(!KnownProgram::recorded(path.clone(), sha256(&bytes)).is_changed());
        fs::remove_file(&path).unwrap();
        assert!(known.is_changed());
        assert!(KnownProgram::recorded(path, sha256(&bytes)).is_changed());
    }

    #[test]
    fn what_is_read_beside_the_agent_is_believed_only_untouched() {
        use dacapo_core::{judge::promise::PromiseRule, policy::GateRules, session::Host};
        let folder = tempfile::tempdir().unwrap();
        let policy =
            Policy::session(Host::Claude, PromiseRule::new("DONE").unwrap(), 1, GateRules::default());
        let file = |name: &str| folder.path().join(name);
        fs::create_dir(file("tests")).unwrap();
        let names = ["tests/kept.py", "tests/touched.py", "tests/early.py", "tests/late.py"];
        for name in names {
            fs::write(file(name), "assert add(2, 2) == 4\n").unwrap();
        }
        fs::write(file("lib.rs"), "pub fn work() {}\n").unwrap();
        // No time at all: everything is read later.
        let now = Some(Instant::now());
        let begin = || {
            WatchedGoalposts::begin_within(
                (folder.path(), folder.path()),
                "",
                &policy,
                None,
                &Earlier::new(),
                now,
            )
            .0
        };
        let mut watched = begin();
        assert!(watched.before.0.values().all(|post| post.sha256.starts_with(BY_STAMP)));
        assert_eq!(watched.seal(), begin().seal(), "the list is the same again while nothing changes");
        // What the thread would have found of a file that an agent weakens before it is read.
        let stamp = Stamp::of(&file("tests/early.py")).unwrap();
        let early = ("tests/early.py".to_owned(), GoalpostKind::Test, stamp);
        let all = watched.later.end();
        assert_eq!(all.len(), 5);
        let modified = fs::metadata(file("tests/early.py")).unwrap().modified().unwrap();
        for name in ["tests/early.py", "tests/late.py"] {
            fs::write(file(name), "assert add(2, 2) == 0\n").unwrap();
            let open = fs::File::options().write(true).open(file(name)).unwrap();
            open.set_modified(modified).unwrap();
        }
        assert!(read_if_untouched(folder.path(), early.0, early.1, early.2).is_none());
        // The same bytes with another time.
        fs::write(file("tests/touched.py"), "assert add(2, 2) == 4\n").unwrap();
        let found: Vec<Found> = all.into_iter().filter(|(path, ..)| path != "tests/early.py").collect();
        watched.later.thread = Some(std::thread::spawn(move || found));
        let moved: Vec<String> = watched.moved().into_iter().map(|moved| moved.path).collect();
        assert_eq!(moved, ["tests/early.py", "tests/late.py"]);
        assert!(!watched.before.0.contains_key("lib.rs"), "no part of it decides");
        // One of them can be put back as it was; of the other that is not known.
        let checkout = tempfile::tempdir().unwrap();
        let strict = |paths: &[&str]| Ok(vec![Some(b"assert add(2, 2) == 4\n".to_vec()); paths.len()]);
        let moved = |path: &str| MovedGoalpost {
            path: path.to_owned(),
            kind: GoalpostKind::Test,
            how: Moved::Changed,
        };
        watched.put_back(checkout.path(), &[moved("tests/late.py")], strict).unwrap();
        let error = watched.put_back(checkout.path(), &[moved("tests/early.py")], strict).unwrap_err();
        assert!(error.to_string().contains("before dacapo had read it"), "{error}");
    }

    #[test]
    fn a_checkout_is_what_a_clone_elsewhere_would_be() {
        use dacapo_core::{judge::promise::PromiseRule, policy::GateRules, session::Host};
        use std::os::unix::fs::symlink;
        let (start, checkout) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let policy =
            Policy::session(Host::Claude, PromiseRule::new("DONE").unwrap(), 1, GateRules::default());
        for folder in [start.path(), checkout.path()] {
            symlink("/srv/data", folder.join("old")).unwrap();
            fs::write(folder.join("old.o"), "x").unwrap();
        }
        let (watched, _) =
            WatchedGoalposts::begin((start.path(), start.path()), "", &policy, None, &Earlier::new());
        let file = |name: &str| checkout.path().join(name);
        symlink("/srv/right.py", file("calc.py")).unwrap();
        symlink("/usr/bin/env", file("tool")).unwrap();
        symlink("old.o", file("inside")).unwrap();
        fs::write(file("new.o"), "x").unwrap();
        watched.as_elsewhere(checkout.path());
        let there = ["old", "calc.py", "tool", "inside"].map(|name| fs::symlink_metadata(file(name)).is_ok());
        assert_eq!(there, [true, false, true, true], "a new link by an absolute path is gone");
        let is_aged = ["old.o", "new.o"].map(|name| fs::metadata(file(name)).unwrap().mtime() == 1);
        assert_eq!(is_aged, [false, true], "what is compiled since is older than every source");
    }
}
