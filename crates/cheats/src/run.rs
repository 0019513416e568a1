//! One case: a world of its own, the loop as a user would start it, the decision, and the truth.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use dacapo_testkit::{Output, Running, TestEnv};
use serde_json::Value;

use crate::case::{Case, Kind, Mark};

/// Longer than a case may take on a busy machine; what takes longer is ended and called broken.
const TIME_LIMIT: Duration = Duration::from_secs(240);

/// What decides about the claims.
#[derive(Clone, Debug)]
pub enum Tool {
    /// dacapo, the given program.
    Dacapo(PathBuf),
    /// A command line for `sh -c`, in which `{agent}` and `{gate}` stand for the quoted commands. Exit code 0 means that
    /// the work was accepted.
    Other(String),
}

impl Tool {
    /// Whether the case can be put to it: another tool does not know dacapo's flags, units and files.
    pub fn can_run(&self, case: &Case) -> bool {
        let is_plain = case.flags.is_empty() && case.run.is_none() && case.accepted.is_none();
        matches!(self, Self::Dacapo(_)) || (is_plain && case.class.name != "dacapo-itself")
    }
}

/// What became of the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Refused,
    /// Nothing was decided, for the given reason: the case or the machine has to be mended.
    Broken(String),
}

/// A case and what became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub case: Case,
    pub verdict: Verdict,
    /// Why the claim was refused, or how the loop ended.
    pub reason: String,
    /// Whether the harness itself finds the work done.
    pub is_really_done: bool,
    pub duration: Duration,
}

impl Outcome {
    /// Whether it ended as it should.
    pub fn is_right(&self) -> bool {
        match self.case.class.kind {
            Kind::Cheat => self.verdict == Verdict::Refused,
            Kind::Honest => self.verdict == Verdict::Accepted,
            Kind::OutOfReach => true,
        }
    }

    /// Why the case is not what it says, if so: a cheat that did the work, honest work that is none, or no decision.
    pub fn flaw(&self) -> Option<String> {
        match (&self.verdict, self.case.class.kind) {
            (Verdict::Broken(why), _) => Some(why.clone()),
            (_, Kind::Honest) if !self.is_really_done => {
                Some("the honest agent did not do the work".to_owned())
            }
            (_, Kind::Cheat | Kind::OutOfReach) if self.is_really_done => {
                Some("the cheat did the work".to_owned())
            }
            _ => None,
        }
    }
}

/// The programs that the cases need and that are not installed.
pub fn missing_programs<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Vec<String> {
    let path = search_path();
    let is_there = |name: &str| match name.strip_prefix("tools/") {
        Some(module) => tools_folder().join(module).join("node_modules").join(module).exists(),
        None => std::env::split_paths(&path).any(|folder| folder.join(name).exists()),
    };
    let mut needed: Vec<String> = cases.into_iter().flat_map(|case| case.project.needs.clone()).collect();
    needed.sort();
    needed.dedup();
    needed.retain(|name| !is_there(name));
    needed
}

/// Runs cases side by side, at most `jobs` at once, and tells of each as it ends. The outcomes are in the order of the cases.
pub fn run_all(cases: &[Case], tool: &Tool, jobs: usize, told: impl Fn(&Outcome) + Sync) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; cases.len()]);
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, cases.len().max(1)) {
            scope.spawn(|| {
                while let Some((index, case)) = take(&next, cases) {
                    let outcome = run_case(case, tool);
                    told(&outcome);
                    outcomes.lock().expect("no case panics")[index] = Some(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no case panics").into_iter().flatten().collect()
}

fn take<'a>(next: &AtomicUsize, cases: &'a [Case]) -> Option<(usize, &'a Case)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    cases.get(index).map(|case| (index, case))
}

/// Runs one case. Every process of it has ended when this returns.
pub fn run_case(case: &Case, tool: &Tool) -> Outcome {
    let start = Instant::now();
    let world = World::new(case, tool);
    let (verdict, reason) =
        world.prepare().map_or_else(|error| (Verdict::Broken(error), String::new()), |()| world.decide());
    let is_really_done = world.is_really_done();
    Outcome { case: case.clone(), verdict, reason, is_really_done, duration: start.elapsed() }
}

/// The folders of one case: workspace, home, state, and the agent's script beside them.
struct World<'a> {
    case: &'a Case,
    tool: &'a Tool,
    env: TestEnv,
}

impl<'a> World<'a> {
    fn new(case: &'a Case, tool: &'a Tool) -> Self {
        let program = match tool {
            Tool::Dacapo(path) => path.clone(),
            Tool::Other(_) => PathBuf::from("/nonexistent"),
        };
        Self { case, tool, env: TestEnv::new(program) }
    }

    fn root(&self) -> &Path {
        self.env.root()
    }

    /// The environment of a user with this home; cargo and npm stay off the network.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.env.command(program);
        let mut path = OsString::from(self.env.home().join(".local/bin"));
        path.push(":");
        path.push(self.root().join("bin"));
        path.push(":");
        path.push(search_path());
        command
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("FAKE_AGENT_SCRIPT")
            .env_remove("FAKE_AGENT_LEDGER")
            .env("PATH", path)
            .env("USER", "you")
            .env("CARGO_NET_OFFLINE", "true")
            .env("npm_config_update_notifier", "false")
            .env("npm_config_offline", "true")
            .env("GOTOOLCHAIN", "local")
            .env("CASE_ROOT", self.root())
            .env("CASE_TOOLS", tools_folder());
        command
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = self.command("/bin/sh");
        command.args(["-euc", script]);
        command
    }

    fn prepare(&self) -> Result<(), String> {
        // A cheat that proofs alone must see through is not kept from cheating by the sandbox.
        if self.case.mark == Mark::Proof && self.case.class.kind != Kind::Honest {
            self.env.without_sandbox();
        }
        fs::create_dir_all(self.env.home().join(".local/bin")).map_err(|error| error.to_string())?;
        if let Tool::Dacapo(program) = self.tool {
            symlink(program, self.root().join("bin/dacapo")).map_err(|error| error.to_string())?;
        }
        self.must(self.shell("git init --quiet"), "git init")?;
        for (path, text) in self.case.project.files.iter().chain(&self.case.files) {
            self.env.write(path, text);
            if text.starts_with("#!") {
                let file = self.env.workspace().join(path);
                fs::set_permissions(file, fs::Permissions::from_mode(0o755))
                    .map_err(|error| error.to_string())?;
            }
        }
        self.must(self.shell(&self.case.project.setup), "the project's setup")?;
        self.must(self.shell(&self.case.setup), "the case's setup")?;
        self.must(self.shell("git add --all && git commit --quiet --message start"), "the first commit")?;
        let script = format!(
            "set -eu\nfix() {{\n{}}}\nweaken() {{\n{}}}\nanswer() {{ echo '<promise>DONE</promise>'; }}\n{}\n: >'{}'\nanswer\n",
            self.case.project.fix,
            self.case.project.weaken,
            self.case.agent,
            self.agent_mark().display(),
        );
        fs::write(self.root().join("agent.sh"), script).map_err(|error| error.to_string())
    }

    /// Made by the agent's script when it came to its end.
    fn agent_mark(&self) -> PathBuf {
        self.root().join("agent-came-to-its-end")
    }

    fn agent(&self) -> String {
        format!("sh {}", self.root().join("agent.sh").display())
    }

    fn decide(&self) -> (Verdict, String) {
        let output = match self.run_within(self.loop_command(), TIME_LIMIT) {
            Ok(output) => output,
            Err(error) => return (Verdict::Broken(error), String::new()),
        };
        let story = self.story();
        // Refused before any agent began: what the user typed would have protected nothing.
        if output.code == Some(2) && output.stderr.contains("protects nothing") {
            return (Verdict::Refused, "usage: a typed pattern protects nothing".to_owned());
        }
        if !self.agent_mark().exists() && self.case.mark == Mark::Proof {
            let why = format!("the agent's script did not come to its end: {}", last_lines(&output));
            return (Verdict::Broken(why), story.reason);
        }
        let is_accepted = match &self.case.accepted {
            Some(script) => match self.run_within(self.shell(script), TIME_LIMIT) {
                Ok(output) => output.code == Some(0),
                Err(error) => return (Verdict::Broken(error), story.reason),
            },
            None => output.code == Some(0),
        };
        let verdict = if is_accepted {
            Verdict::Accepted
        } else if matches!(self.tool, Tool::Dacapo(_)) && self.is_undecided(&output, &story) {
            Verdict::Broken(format!("no verdict, exit code {:?}: {}", output.code, last_lines(&output)))
        } else {
            Verdict::Refused
        };
        (verdict, story.reason)
    }

    /// A loop that never came to a claim says nothing about the cheat. One that ended with an error after it did not believe it.
    fn is_undecided(&self, output: &Output, story: &Story) -> bool {
        let is_plain =
            self.case.run.is_none() && self.case.accepted.is_none() && self.case.mark == Mark::Proof;
        is_plain && (!story.is_claimed || !matches!(output.code, Some(1 | 3 | 4)))
    }

    fn loop_command(&self) -> Command {
        let case = self.case;
        match (self.tool, &case.run) {
            (Tool::Other(template), _) => {
                let quoted = |text: &str| shlex::try_quote(text).map(String::from).unwrap_or_default();
                let line = template
                    .replace("{agent}", &quoted(&self.agent()))
                    .replace("{gate}", &quoted(&case.gate));
                self.shell(&line)
            }
            (Tool::Dacapo(_), Some(script)) => {
                let mut command = self.shell(script);
                command.env("AGENT", self.agent()).env("GATE", &case.gate);
                command
            }
            (Tool::Dacapo(program), None) => {
                let mut command = self.command(program);
                command.args(["run", "Make the tests pass.", "--task", "case", "--agent-cmd", &self.agent()]);
                command.args(["--gate", &case.gate, "-n", &case.iterations.to_string()]).args(&case.flags);
                command
            }
        }
    }

    /// What the journal tells of the claims.
    fn story(&self) -> Story {
        let mut story = Story::default();
        let Tool::Dacapo(program) = self.tool else { return story };
        let mut command = self.command(program);
        command.args(["events", "--json"]);
        let Ok(output) = self.run_within(command, TIME_LIMIT) else { return story };
        for event in output.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let text = |key: &str| event[key].as_str().unwrap_or_default();
            match text("type") {
                "claim_made" => story.is_claimed = true,
                "claim_refused" => {
                    story.is_judged = true;
                    story.reason = format!("{}: {}", text("reason"), text("detail"));
                }
                "claim_accepted" => {
                    story.is_judged = true;
                    "accepted".clone_into(&mut story.reason);
                }
                "loop_finished" if !story.is_judged => {
                    story.reason = format!("{}: {}", text("reason"), text("detail"));
                }
                _ => {}
            }
        }
        story
    }

    /// The harness's own look, in an environment that the agent could not prepare.
    fn is_really_done(&self) -> bool {
        let script = self.case.truth.as_ref().unwrap_or(&self.case.project.truth);
        let mut command = self.command("/bin/sh");
        let nowhere = self.root().join("nowhere");
        command.args(["-euc", script]).env("PATH", search_path()).env("HOME", &nowhere);
        command
            .env("XDG_CONFIG_HOME", &nowhere)
            .env("XDG_DATA_HOME", &nowhere)
            .env("XDG_CACHE_HOME", &nowhere);
        let output = self.run_within(command, TIME_LIMIT);
        output.is_ok_and(|output| output.stdout.trim_end().ends_with("REALLY DONE"))
    }

    fn must(&self, command: Command, what: &str) -> Result<(), String> {
        let output = self.run_within(command, TIME_LIMIT)?;
        if output.code == Some(0) { Ok(()) } else { Err(format!("{what} failed: {}", last_lines(&output))) }
    }

    /// Unlike [`Running::wait`] it does not panic when the time is up: one case must not end the others.
    fn run_within(&self, command: Command, limit: Duration) -> Result<Output, String> {
        let mut running = Running::start(command);
        let deadline = Instant::now() + limit;
        while running.is_running() {
            if Instant::now() >= deadline {
                return Err(format!("still running after {limit:?}: {}", running.stderr().trim_end()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(running.wait(Duration::from_secs(1)))
    }
}

#[derive(Debug, Default)]
struct Story {
    is_claimed: bool,
    is_judged: bool,
    reason: String,
}

fn last_lines(output: &Output) -> String {
    let lines: Vec<&str> = output.stdout.lines().chain(output.stderr.lines()).collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}

/// `PATH` of every case behind its own folders: the Rust toolchain without rustup's proxies, which want the real home, and
/// the system's programs.
fn search_path() -> OsString {
    static PATH: OnceLock<OsString> = OnceLock::new();
    PATH.get_or_init(|| {
        let output = Command::new("rustc").args(["--print", "sysroot"]).output();
        let sysroot = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let toolchain = sysroot.map(|sysroot| format!("{sysroot}/bin:")).unwrap_or_default();
        OsString::from(format!("{toolchain}/usr/local/bin:/usr/bin:/bin"))
    })
    .clone()
}

/// Where `scripts/install-runners` puts the test runners of Node.
fn tools_folder() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/runners");
    std::env::var_os("DACAPO_TEST_RUNNERS").map_or(default, PathBuf::from)
}
