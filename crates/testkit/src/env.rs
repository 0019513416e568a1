//! A world of its own for one test: folders, environment, agent, ledger; nothing of the machine's user in it.

use std::{
    collections::HashSet,
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use tempfile::TempDir;

use crate::{
    fake_agent,
    redact::{Known, redact},
    running::{Output, Running},
};

/// Longer than anything a test starts may take.
const HARD_TIMEOUT: Duration = Duration::from_secs(60);

/// What passes from the outside: how to find and to observe programs.
const KEPT: [&str; 4] = ["PATH", "LD_LIBRARY_PATH", "LLVM_PROFILE_FILE", "RUST_BACKTRACE"];

/// One test's world. When it goes, all processes that belong to it are killed and its folders removed.
#[derive(Debug)]
pub struct TestEnv {
    root: PathBuf,
    dacapo: PathBuf,
    scripts: AtomicU32,
    seen_loops: Mutex<Vec<String>>,
    _dir: TempDir,
}

/// A line of the ledger that fake agents keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerLine {
    pub event: LedgerEvent,
    /// `DACAPO_LOOP`, or `-`.
    pub loop_id: String,
    /// `DACAPO_ITERATION`, or 1.
    pub iteration: u32,
    pub pid: u32,
}

/// What a ledger line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerEvent {
    Start,
    /// It came to the end of its script or exited; a killed one does not say so.
    End,
}

/// What a process has to do with a world.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Ours,
    Foreign,
    Gone,
}

impl TestEnv {
    /// A world for the given program, which tests name by `env!("CARGO_BIN_EXE_dacapo")`.
    pub fn new(dacapo: impl Into<PathBuf>) -> Self {
        Self::of(dacapo.into(), tempfile::Builder::new().prefix("dacapo-").tempdir())
    }

    /// A world that lies in no folder for temporary files, which agents may write to in every sandbox.
    pub fn outside_temporary(dacapo: impl Into<PathBuf>) -> Self {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/worlds");
        fs::create_dir_all(&beside).expect("a folder");
        Self::of(dacapo.into(), tempfile::Builder::new().prefix("dacapo-").tempdir_in(beside))
    }

    fn of(dacapo: PathBuf, dir: std::io::Result<TempDir>) -> Self {
        let dir = dir.expect("a temporary folder");
        let root = dir.path().canonicalize().expect("the temporary folder exists");
        let env = Self { root, dacapo, scripts: AtomicU32::new(0), seen_loops: Mutex::default(), _dir: dir };
        for folder in ["bin", "home", "tmp", "run", "workspace"] {
            fs::create_dir(env.root.join(folder)).expect("a folder");
        }
        fs::set_permissions(env.root.join("run"), fs::Permissions::from_mode(0o700)).expect("permissions");
        // A commit would leave a `git maintenance` behind for a moment, which looks like something of dacapo's.
        fs::write(
            env.root.join("gitconfig"),
            "[user]\n\tname = Test\n\temail = test@example.invalid\n\
             [init]\n\tdefaultBranch = main\n[commit]\n\tgpgSign = false\n[gc]\n\tauto = 0\n\
             [maintenance]\n\tauto = false\n",
        )
        .expect("git's configuration");
        env.script("exit 0");
        env
    }

    /// The folder that holds everything else.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// `DACAPO_HOME`. It does not exist until dacapo makes it.
    pub fn dacapo_home(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Writes a file of the workspace, with its parent folders.
    pub fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> &Self {
        let file = self.workspace().join(path);
        fs::create_dir_all(file.parent().unwrap_or(&self.root)).expect("the parent folders");
        fs::write(&file, text).unwrap_or_else(|e| panic!("cannot write `{}`: {e}", file.display()));
        self
    }

    /// Reads a file of the workspace.
    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let file = self.workspace().join(path);
        fs::read_to_string(&file).unwrap_or_else(|e| panic!("cannot read `{}`: {e}", file.display()))
    }

    /// Has the user's configuration say that agents work without a sandbox: for what one would not let happen.
    pub fn without_sandbox(&self) -> &Self {
        let folder = self.home().join(".config/dacapo");
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("config.yaml");
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, format!("{before}sandbox: {{mode: off}}\n")).expect("the user's configuration");
        self
    }

    /// Runs git in the workspace and gives its standard output; panics if it fails.
    #[track_caller]
    pub fn git(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        let mut git = self.command("git");
        git.args(args);
        self.run_command(git).assert_code(0).stdout
    }

    /// Makes the workspace a repository with all its files committed.
    #[track_caller]
    pub fn git_init(&self) -> &Self {
        self.git(["init", "--quiet"]);
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "--message", "start"]);
        self
    }

    /// What the fake agent does from now on.
    pub fn script(&self, text: &str) -> &Self {
        fs::write(self.script_file(), text).expect("the script can be written");
        self
    }

    fn script_file(&self) -> PathBuf {
        self.root.join("script")
    }

    /// The value for `--agent-cmd` that runs the fake agent with the script of [`TestEnv::script`].
    pub fn agent_cmd(&self) -> String {
        agent_cmd(&self.script_file())
    }

    /// As [`TestEnv::agent_cmd`], for an agent with a script of its own beside others.
    pub fn agent_cmd_for(&self, script: &str) -> String {
        let file = self.root.join(format!("script-{}", self.scripts.fetch_add(1, Ordering::Relaxed)));
        fs::write(&file, script).expect("the script can be written");
        agent_cmd(&file)
    }

    /// A folder for `fake-agent --turns`: a script for each run, the last one for all that follow.
    pub fn turns(&self, scripts: &[&str]) -> PathBuf {
        let dir = self.root.join(format!("turns-{}", self.scripts.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&dir).expect("a folder");
        for (number, script) in scripts.iter().enumerate() {
            fs::write(dir.join(format!("{number:03}")), script).expect("the script can be written");
        }
        dir
    }

    /// Puts the fake agent first on `PATH` under another name, such as `claude`; it follows [`TestEnv::script`].
    pub fn install_agent(&self, name: &str) -> &Self {
        symlink(fake_agent(), self.root.join("bin").join(name)).expect("the name is free");
        self
    }

    /// A program of this world: nothing but its environment, in its workspace, with no input.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.workspace()).stdin(Stdio::null());
        for name in KEPT {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        let mut path: OsString = self.root.join("bin").into();
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_default());
        let home = self.home();
        command
            .env("PATH", path)
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join(".config"))
            .env("XDG_STATE_HOME", home.join(".local/state"))
            .env("XDG_DATA_HOME", home.join(".local/share"))
            .env("XDG_CACHE_HOME", home.join(".cache"))
            .env("XDG_RUNTIME_DIR", self.root.join("run"))
            .env("DACAPO_HOME", self.dacapo_home())
            .env("TMPDIR", self.root.join("tmp"))
            .env("GIT_CONFIG_GLOBAL", self.root.join("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            // A repository around the temporary folder is none of the test's business.
            .env("GIT_CEILING_DIRECTORIES", &self.root)
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .env("FAKE_AGENT_SCRIPT", self.script_file())
            .env("FAKE_AGENT_LEDGER", self.ledger_file());
        command
    }

    pub fn dacapo(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = self.command(&self.dacapo);
        command.args(args);
        command
    }

    /// Runs dacapo to its end, within 60 s.
    #[track_caller]
    pub fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.run_command(self.dacapo(args))
    }

    /// Runs a command, most often a changed [`TestEnv::dacapo`], to its end, within 60 s.
    #[track_caller]
    pub fn run_command(&self, command: Command) -> Output {
        Running::start(command).wait(HARD_TIMEOUT)
    }

    /// Runs a loop of the fake agent with `script`, without delays: `dacapo run "do it" …`.
    #[track_caller]
    pub fn run_agent(&self, script: &str, extra_args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.run(self.run_agent_args(script, extra_args))
    }

    /// The arguments of [`TestEnv::run_agent`], for [`TestEnv::spawn`].
    pub fn run_agent_args(
        &self,
        script: &str,
        extra_args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Vec<OsString> {
        let agent = self.script(script).agent_cmd();
        let fixed = ["run", "do it", "--agent-cmd", &agent, "--restart-delay", "0s", "--kill-grace", "100ms"];
        let extra = extra_args.into_iter().map(|arg| arg.as_ref().to_owned());
        fixed.into_iter().map(OsString::from).chain(extra).collect()
    }

    #[track_caller]
    pub fn spawn(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Running {
        Running::start(self.dacapo(args))
    }

    fn ledger_file(&self) -> PathBuf {
        self.root.join("ledger")
    }

    /// What fake agents recorded so far, in order.
    #[track_caller]
    pub fn ledger(&self) -> Vec<LedgerLine> {
        let text = fs::read_to_string(self.ledger_file()).unwrap_or_default();
        text.lines()
            .map(|line| ledger_line(line).unwrap_or_else(|| panic!("no ledger line: {line}")))
            .collect()
    }

    /// The journal by `dacapo events [LOOP] --json`.
    #[track_caller]
    pub fn events(&self, loop_id: Option<&str>) -> Vec<serde_json::Value> {
        let output = self.run(["events"].into_iter().chain(loop_id).chain(["--json"])).assert_code(0);
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("no JSON, {e}: {line}"));
        let events: Vec<serde_json::Value> = output.stdout.lines().map(parse).collect();
        let loops = events.iter().filter_map(|event| event.get("loop")?.as_str()).map(str::to_owned);
        self.seen_loops.lock().expect("no panic while locked").extend(loops);
        events
    }

    /// Processes of this world that are alive, zombies not counted: those with its `DACAPO_HOME` in their
    /// environment and those in one of its folders. A [`Running`] that runs is among them.
    pub fn survivors(&self) -> Vec<u32> {
        let mut gone_before = None;
        loop {
            let mut survivors = Vec::new();
            let mut gone = HashSet::new();
            let pids = fs::read_dir("/proc").expect("/proc").flatten();
            for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
                match self.relation(pid) {
                    Relation::Ours => survivors.push(pid),
                    Relation::Gone => drop(gone.insert(pid)),
                    Relation::Foreign => {}
                }
            }
            // One that ended while we looked may have started another behind our back: look again.
            if !survivors.is_empty() || gone_before.is_some_and(|before| gone.is_subset(&before)) {
                survivors.sort_unstable();
                return survivors;
            }
            gone_before = Some(gone);
        }
    }

    fn relation(&self, pid: u32) -> Relation {
        if pid == std::process::id() {
            return Relation::Foreign;
        }
        let marker = [b"DACAPO_HOME=", self.dacapo_home().as_os_str().as_bytes()].concat();
        let environment = fs::read(format!("/proc/{pid}/environ"));
        let folder = fs::read_link(format!("/proc/{pid}/cwd"));
        let marked = |variables: &Vec<u8>| variables.split(|b| *b == 0).any(|variable| variable == marker);
        if environment.as_ref().is_ok_and(marked)
            || folder.as_ref().is_ok_and(|dir| dir.starts_with(&self.root))
        {
            return Relation::Ours;
        }
        match folder {
            // A zombie has no folder either.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Relation::Gone,
            _ => Relation::Foreign,
        }
    }

    /// The number by which this test knows a process of this world that knows itself as `inner`: in a sandbox it has another one.
    pub fn outer_pid(&self, inner: u32) -> u32 {
        let is_meant = |pid: &u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            let numbers: Vec<&str> = numbers.split_whitespace().collect();
            numbers.len() > 1
                && numbers.last() == Some(&inner.to_string().as_str())
                && self.relation(*pid) == Relation::Ours
        };
        let pids = fs::read_dir("/proc").expect("/proc").flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_meant).unwrap_or(inner)
    }

    /// Stops a running dacapo by a signal that it does not see, at a moment when it does not hold the journal: a process
    /// that is stopped while it writes would keep every other one from writing.
    #[track_caller]
    pub fn stop(&self, running: &Running, timeout: Duration) {
        let stat = format!("/proc/{}/stat", running.pid());
        let is_stopped = || {
            let stat = fs::read_to_string(&stat).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        let is_free = |end: &str| {
            let file =
                fs::File::open(self.dacapo_home().join(format!("dacapo.db{end}"))).expect("the journal");
            flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        };
        wait_until("dacapo is stopped and holds nothing", timeout, || {
            running.signal(Signal::STOP);
            wait_until("dacapo is stopped", timeout, is_stopped);
            let holds_nothing = is_free("-queue") && is_free("-sync");
            if !holds_nothing {
                running.signal(Signal::CONT);
            }
            holds_nothing
        });
    }

    /// Waits until `condition` holds; panics naming `what` if it does not in time.
    #[track_caller]
    pub fn wait_until(&self, what: &str, timeout: Duration, condition: impl FnMut() -> bool) {
        wait_until(what, timeout, condition);
    }

    /// Replaces what differs from run to run: loop ids, times, durations, process ids, hashes, and this world's
    /// paths.
    pub fn redact(&self, text: &str) -> String {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let names = vec![
            (path(self.workspace()), "[WORKSPACE]"),
            (path(self.dacapo_home()), "[DACAPO_HOME]"),
            (path(self.home()), "[HOME]"),
            (path(self.root.clone()), "[ROOT]"),
            (path(self.dacapo.clone()), "[DACAPO]"),
            (path(fake_agent()), "[FAKE-AGENT]"),
        ];
        let mut loops: Vec<_> = self.ledger().into_iter().map(|line| line.loop_id).collect();
        loops.extend(self.seen_loops.lock().expect("no panic while locked").iter().cloned());
        loops.retain(|id| id.len() == 10);
        redact(text, &Known { names, loops })
    }

    /// Kills what is left, by handles that cannot mean another process.
    fn kill_survivors(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let survivors = self.survivors();
            if survivors.is_empty() || Instant::now() >= deadline {
                return;
            }
            for pid in survivors {
                let Some(os_pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
                let Ok(handle) = pidfd_open(os_pid, PidfdFlags::empty()) else { continue };
                if self.relation(pid) == Relation::Ours {
                    // Fails only when it has ended meanwhile.
                    let _ = pidfd_send_signal(handle, Signal::KILL);
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        self.kill_survivors();
    }
}

/// Waits until `condition` holds; panics naming `what` if it does not in time.
#[track_caller]
pub fn wait_until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !condition() {
        assert!(Instant::now() < deadline, "waited {timeout:?} in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn ledger_line(line: &str) -> Option<LedgerLine> {
    let mut fields = line.split(' ');
    let event = match fields.next()? {
        "start" => LedgerEvent::Start,
        "end" => LedgerEvent::End,
        _ => return None,
    };
    let loop_id = fields.next()?.to_owned();
    Some(LedgerLine {
        event,
        loop_id,
        iteration: fields.next()?.parse().ok()?,
        pid: fields.next()?.parse().ok()?,
    })
}

fn agent_cmd(script: &Path) -> String {
    format!("{} --script {}", quote(&fake_agent()), quote(script))
}

/// The path as one word of a shell.
fn quote(path: &Path) -> String {
    let path = path.to_str().expect("test paths are UTF-8");
    if path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+@".contains(&b)) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
