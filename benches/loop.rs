//! What dacapo costs beside a bare shell loop: `cargo bench -p dacapo --bench loop [-- [--quick] [--json] [WORD…]]`.
//!
//! `docs/performance.md` explains every figure. The two sides of a comparison are measured in turns, and of all turns the
//! median counts, so that a machine that slows down slows both sides down.

mod repository;

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use dacapo_testkit::{measured_dacapo, wait_until, zero_agent};
use jiff::Timestamp;
use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use serde::Serialize;
use tempfile::TempDir;

fn dacapo_binary() -> PathBuf {
    measured_dacapo(env!("CARGO_BIN_EXE_dacapo"))
}
const FLOOD: usize = 100_000_000;

fn main() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|arg| arg == flag);
    let is_quick = has("--quick");
    let plan = if is_quick { Plan::QUICK } else { Plan::FULL };
    let bench = Bench::new(plan).expect("folders for the measurement");
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    note(&format!("load before the run: {}", load.split(' ').next().unwrap_or("unknown")));
    let mut figures = Vec::new();
    // Words that are no flag say which measurements are wanted.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (what, measure) in [
        ("iterations", Bench::iterations as fn(&Bench) -> Vec<Figure>),
        ("iterations in git", Bench::in_git),
        ("snapshots", Bench::snapshot),
        ("processes of git", Bench::processes),
        ("100 MB of output", Bench::flood),
        ("100 MB of events", Bench::events),
        ("100 MB of short messages", Bench::short_messages),
        ("memory", Bench::memory),
        ("50 loops at once", Bench::at_once),
        ("memory of 50 loops", Bench::memory_at_once),
        ("start", Bench::start),
        ("sandbox", Bench::sandbox),
        ("many iterations", Bench::endurance),
        ("resume", Bench::resume),
        ("many loops", Bench::status),
        ("million events", Bench::journal),
        ("size", Bench::size),
    ] {
        if !wanted.is_empty() && !wanted.iter().any(|word| what.contains(word.as_str())) {
            continue;
        }
        note(&format!("measuring: {what}"));
        figures.extend(measure(&bench));
    }
    let mut out = io::stdout().lock();
    // A reader that went away has seen enough.
    let _ = if has("--json") {
        serde_json::to_string(&figures).map_err(io::Error::other).and_then(|json| writeln!(out, "{json}"))
    } else {
        table(&mut out, &figures)
    };
    ExitCode::SUCCESS
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    iterations: u32,
    floods: usize,
    starts: usize,
    long_run: usize,
    loops: u32,
    looks: usize,
}

impl Plan {
    const FULL: Self = Self {
        rounds: 9,
        iterations: 500,
        floods: 7,
        starts: 41,
        long_run: 10_000,
        loops: 10_000,
        looks: 41,
    };
    const QUICK: Self =
        Self { rounds: 3, iterations: 100, floods: 3, starts: 11, long_run: 1_000, loops: 10_000, looks: 11 };
}

/// One result.
#[derive(Serialize)]
struct Figure {
    figure: &'static str,
    /// Measured of dacapo, in `unit`.
    dacapo: f64,
    /// Measured of what it is compared with, in `unit`.
    beside: Option<f64>,
    unit: &'static str,
    /// What the target is about: the ratio of the two where `is_ratio`, else what was measured of dacapo.
    value: f64,
    is_ratio: bool,
    target: f64,
    is_met: bool,
}

impl Figure {
    fn ratio(figure: &'static str, unit: &'static str, dacapo: f64, beside: f64, target: f64) -> Self {
        let value = dacapo / beside;
        let is_met = value <= target;
        Self { figure, dacapo, beside: Some(beside), unit, value, is_ratio: true, target, is_met }
    }

    fn at_most(
        figure: &'static str,
        unit: &'static str,
        dacapo: f64,
        beside: Option<f64>,
        target: f64,
    ) -> Self {
        let is_met = dacapo <= target;
        Self { figure, dacapo, beside, unit, value: dacapo, is_ratio: false, target, is_met }
    }
}

/// Where everything happens.
struct Bench {
    plan: Plan,
    agent: String,
    /// State and logs, where builds go: on a disk whose syncs are real, which `/tmp` may not be.
    disk: TempDir,
    /// Where agents work: outside every repository.
    workspace: TempDir,
    /// Where agents work inside of repositories.
    repositories: TempDir,
}

impl Bench {
    fn new(plan: Plan) -> io::Result<Self> {
        let disk = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let workspace = tempfile::Builder::new().prefix("dacapo-bench-").tempdir()?;
        let repositories = tempfile::Builder::new().prefix("dacapo-bench-").tempdir()?;
        let agent = zero_agent().display().to_string();
        fs::write(workspace.path().join("PROMPT"), "Do nothing.\n")?;
        Ok(Self { plan, agent, disk, workspace, repositories })
    }

    // --- what is measured -----------------------------------------------------------------------------------

    /// Wall clock and CPU per iteration, whole runs divided by their iterations.
    fn iterations(&self) -> Vec<Figure> {
        let n = self.plan.iterations;
        let agent = self.agent.as_str();
        let (mut dacapo, mut shell) = (Turns::default(), Turns::default());
        for _ in 0..self.plan.rounds {
            dacapo.push(timed(&mut self.dacapo_run("iterations", agent, n), 3));
            shell.push(timed(&mut self.shell_loop(agent, n), 0));
        }
        let each = |seconds: f64| seconds * 1e3 / f64::from(n);
        vec![
            Figure::ratio("an iteration, wall clock", "ms", each(dacapo.wall()), each(shell.wall()), 0.5),
            Figure::ratio("an iteration, CPU", "ms", each(dacapo.cpu()), each(shell.cpu()), 0.6),
        ]
    }

    /// One iteration with much output.
    fn flood(&self) -> Vec<Figure> {
        let agent = format!("{} flood {FLOOD}", self.agent);
        let (mut dacapo, mut shell) = (Turns::default(), Turns::default());
        for _ in 0..self.plan.floods {
            dacapo.push(timed(&mut self.dacapo_run("flood", &agent, 1), 3));
            self.forget("flood");
            shell.push(timed(&mut self.shell_loop(&agent, 1), 0));
            // Not kept for either: a full cache would slow down the next measurement.
            let _ = fs::remove_file(self.disk.path().join("log"));
        }
        vec![Figure::ratio(
            "100 MB of output, wall clock",
            "ms",
            dacapo.wall() * 1e3,
            shell.wall() * 1e3,
            1.0,
        )]
    }

    /// One iteration of an agent that prints Claude Code's events: kept, listened to and metered.
    fn events(&self) -> Vec<Figure> {
        let (dacapo, shell, peak) = self.read_events(&events());
        vec![
            Figure::ratio(
                "100 MB of an agent's events, wall clock",
                "ms",
                dacapo.wall() * 1e3,
                shell.wall() * 1e3,
                1.2,
            ),
            Figure::at_most("peak memory, 100 MB of events", "MB", peak, None, 24.0),
        ]
    }

    /// The same, of an agent that says little at a time, and each time with its tokens.
    fn short_messages(&self) -> Vec<Figure> {
        let (dacapo, shell, _) = self.read_events(&short_messages());
        vec![Figure::ratio(
            "100 MB in short messages, wall clock",
            "ms",
            dacapo.wall() * 1e3,
            shell.wall() * 1e3,
            1.5,
        )]
    }

    /// An agent that prints `stream` beside a shell loop that does, and the most memory that it took.
    fn read_events(&self, stream: &[u8]) -> (Turns, Turns, f64) {
        let config = self.disk.path().join("config/dacapo");
        let recording = self.disk.path().join("events.jsonl");
        fs::create_dir_all(&config).expect("a folder for the configuration");
        fs::write(&recording, stream).expect("room for 100 MB");
        // Both sides start the same program on the same bytes.
        let agent = format!("cat {}", recording.display());
        let agents = format!(
            "agents:\n  recorded: {{command: [cat, {0}], output: claude}}\n  \
             lingering: {{command: [sh, -c, 'cat {0}; sleep 60'], output: claude}}\n",
            recording.display()
        );
        fs::write(config.join("config.yaml"), agents).expect("a configuration");
        let run = |home: &str, agent: &str| {
            let mut command = self.dacapo(home);
            command.env("XDG_CONFIG_HOME", self.disk.path().join("config"));
            command.args([
                "run",
                "-q",
                "-P",
                "PROMPT",
                "--agent",
                agent,
                "-n",
                "1",
                "--max-tokens",
                "9000000000",
            ]);
            command
        };
        let (mut dacapo, mut shell) = (Turns::default(), Turns::default());
        for _ in 0..self.plan.floods {
            dacapo.push(timed(&mut run("events", "recorded"), 3));
            self.forget("events");
            shell.push(timed(&mut self.shell_loop(&agent, 1), 0));
            let _ = fs::remove_file(self.disk.path().join("log"));
        }
        let running = Running::start(&mut run("events", "lingering"));
        wait_until("the agent has printed", Duration::from_secs(60), || {
            self.printed("events") >= FLOOD as u64
        });
        let keeper = child_named(running.0.id(), "dcp-keeper").expect("a loop has a keeper");
        let peak = peak_memory(running.0.id()) + peak_memory(keeper);
        drop(running);
        self.forget("events");
        let _ = fs::remove_file(recording);
        (dacapo, shell, peak)
    }

    /// 50 loops at once beside 50 shell loops at once, from the first start to the last end.
    fn at_once(&self) -> Vec<Figure> {
        const LOOPS: usize = 50;
        const ITERATIONS: u32 = 20;
        let all_of = |command: &dyn Fn() -> Command| {
            let began = Instant::now();
            let mut running: Vec<Running> = (0..LOOPS).map(|_| Running::start(&mut command())).collect();
            for run in &mut running {
                run.0.wait().expect("its end");
            }
            began.elapsed().as_secs_f64() * 1e3
        };
        let (mut dacapo, mut shell) = (Vec::new(), Vec::new());
        for _ in 0..self.plan.floods {
            dacapo.push(all_of(&|| self.dacapo_run("at-once", &self.agent, ITERATIONS)));
            shell.push(all_of(&|| self.shell_loop(&self.agent, ITERATIONS)));
        }
        self.forget("at-once");
        vec![Figure::ratio("50 loops at once, wall clock", "ms", median(dacapo), median(shell), 1.1)]
    }

    /// What each of 50 loops takes whose agents are silent: pages that several processes share are divided among them.
    fn memory_at_once(&self) -> Vec<Figure> {
        const LOOPS: usize = 50;
        let agent = format!("{} stay", self.agent);
        let running: Vec<Running> =
            (0..LOOPS).map(|_| Running::start(&mut self.dacapo_run("at-once", &agent, 1))).collect();
        let keepers =
            || running.iter().filter_map(|run| child_named(run.0.id(), "dcp-keeper")).collect::<Vec<_>>();
        wait_until("every loop has its agent", Duration::from_secs(60), || {
            let keepers = keepers();
            keepers.len() == LOOPS
                && keepers.iter().all(|keeper| child_named(*keeper, "zero-agent").is_some())
        });
        let processes = running.iter().map(|run| run.0.id()).chain(keepers());
        let megabytes = processes.map(shared_memory).sum::<f64>() / LOOPS as f64;
        drop(running);
        self.forget("at-once");
        vec![Figure::at_most("memory of each of 50 loops", "MB", megabytes, None, 1.0)]
    }

    /// The most that supervisor and keeper ever held, together.
    fn memory(&self) -> Vec<Figure> {
        let peak = |home: &str, agent: &str, bytes: u64| {
            let running = Running::start(&mut self.dacapo_run(home, agent, 1));
            wait_until("the agent has printed", Duration::from_secs(60), || self.printed(home) > bytes);
            // A moment for what follows the last byte.
            thread::sleep(Duration::from_millis(200));
            let supervisor = running.0.id();
            let keeper = child_named(supervisor, "dcp-keeper").expect("a loop has a keeper");
            let megabytes = peak_memory(supervisor) + peak_memory(keeper);
            drop(running);
            self.forget(home);
            megabytes
        };
        let flooded = peak("peak", &format!("{} flood {FLOOD} stay", self.agent), FLOOD as u64);
        let idle = peak("idle", &format!("{} stay", self.agent), 0);
        vec![
            Figure::at_most("peak memory, 100 MB of output", "MB", flooded, None, 16.0),
            Figure::at_most("peak memory, idle", "MB", idle, None, 16.0),
        ]
    }

    /// From starting dacapo to the agent's first instruction.
    fn start(&self) -> Vec<Figure> {
        let stamp = self.disk.path().join("stamp");
        let agent = format!("{} stamp {}", self.agent, stamp.display());
        let first_act = |command: &mut Command, exit: i32| {
            let began = monotonic();
            timed(command, exit);
            let acted: i64 = fs::read_to_string(&stamp).expect("a stamp").parse().expect("a number");
            (acted - began) as f64 / 1e6
        };
        let (mut dacapo, mut shell) = (Vec::new(), Vec::new());
        for _ in 0..self.plan.starts {
            dacapo.push(first_act(&mut self.dacapo_run("start", &agent, 1), 3));
            shell.push(first_act(self.command("sh").args(["-c", &agent]).stdout(Stdio::null()), 0));
        }
        vec![Figure::at_most("start to first agent", "ms", median(dacapo), Some(median(shell)), 9.0)]
    }

    /// What the sandbox adds: to the start of a loop, and to each further attempt.
    fn sandbox(&self) -> Vec<Figure> {
        let stamp = self.disk.path().join("stamp");
        let stamping = format!("{} stamp {}", self.agent, stamp.display());
        let modes = [("off", "sandbox-off"), ("guard", "sandbox-guard")];
        let mut starts = [Vec::new(), Vec::new()];
        for _ in 0..self.plan.starts {
            for ((mode, home), starts) in modes.iter().zip(&mut starts) {
                let began = monotonic();
                timed(self.dacapo_run(home, &stamping, 1).args(["--sandbox", mode]), 3);
                let acted: i64 = fs::read_to_string(&stamp).expect("a stamp").parse().expect("a number");
                starts.push((acted - began) as f64 / 1e6);
            }
        }
        let n = self.plan.iterations;
        let mut attempts = [Turns::default(), Turns::default()];
        for _ in 0..self.plan.rounds {
            for ((mode, home), attempts) in modes.iter().zip(&mut attempts) {
                attempts.push(timed(self.dacapo_run(home, &self.agent, n).args(["--sandbox", mode]), 3));
            }
        }
        let [off, guard] = starts.map(median);
        let [each_off, each_guard] = attempts.map(|turns| turns.wall() * 1e3 / f64::from(n));
        vec![
            Figure::at_most("the guard, at the start of a loop", "ms", guard - off, None, 3.0),
            Figure::at_most("the guard, each further attempt", "ms", each_guard - each_off, None, 0.3),
        ]
    }

    /// Whether a loop slows down: the last quarter of a long run beside its first.
    fn endurance(&self) -> Vec<Figure> {
        let n = self.plan.long_run;
        timed(&mut self.dacapo_run("long", &self.agent, n as u32), 3);
        let events = self.dacapo("long").args(["events", "--json"]).stdout(Stdio::piped()).output();
        let events = events.expect("the journal");
        let starts: Vec<Timestamp> = String::from_utf8_lossy(&events.stdout)
            .lines()
            .filter(|line| line.contains("\"iteration_started\""))
            .map(|line| {
                let event: serde_json::Value = serde_json::from_str(line).expect("an event");
                event["at"].as_str().expect("a time").parse().expect("a time")
            })
            .collect();
        assert_eq!(starts.len(), n, "every iteration is in the journal");
        let quarter = n / 4;
        let each = |from: usize| {
            starts[from + quarter].duration_since(starts[from]).as_secs_f64() * 1e3 / quarter as f64
        };
        vec![Figure::ratio("last quarter beside first", "ms", each(n - 1 - quarter), each(0), 1.1)]
    }

    /// From starting `dacapo resume` to the agent's first instruction, of a loop with many iterations beside one with few.
    fn resume(&self) -> Vec<Figure> {
        let stamp = self.disk.path().join("stamp");
        let agent = format!("{} stamp {}", self.agent, stamp.display());
        for (home, iterations) in [("resume-few", 10), ("resume-many", self.plan.long_run as u32)] {
            timed(self.dacapo_run(home, &agent, iterations).args(["--task", "t"]), 3);
        }
        let first_act = |home: &str| {
            let mut resume = self.dacapo(home);
            resume.args(["resume", "-q", "t", "-n", "+1"]);
            let began = monotonic();
            timed(&mut resume, 3);
            let acted: i64 = fs::read_to_string(&stamp).expect("a stamp").parse().expect("a number");
            (acted - began) as f64 / 1e6
        };
        let (mut many, mut few) = (Vec::new(), Vec::new());
        for _ in 0..self.plan.starts {
            many.push(first_act("resume-many"));
            few.push(first_act("resume-few"));
        }
        vec![Figure::ratio("resume, 10,000 iterations beside 10", "ms", median(many), median(few), 1.5)]
    }

    /// `dacapo status` with many loops in the journal beside few.
    fn status(&self) -> Vec<Figure> {
        for (home, loops) in [("few", 10), ("many", self.plan.loops)] {
            timed(&mut self.dacapo_run(home, &format!("{} promise", self.agent), 3), 0);
            multiply(&self.home(home).join("dacapo.db"), loops).expect("a journal with many loops");
        }
        let (mut many, mut few) = (Turns::default(), Turns::default());
        for _ in 0..self.plan.looks {
            many.push(timed(self.dacapo("many").arg("status"), 0));
            few.push(timed(self.dacapo("few").arg("status"), 0));
        }
        vec![Figure::ratio("status, 10,000 loops beside 10", "ms", many.wall() * 1e3, few.wall() * 1e3, 1.5)]
    }

    /// What `dacapo events --json` holds in memory of a journal with a million events.
    fn journal(&self) -> Vec<Figure> {
        timed(&mut self.dacapo_run("million", &self.agent, 100), 3);
        lengthen(&self.home("million").join("dacapo.db"), 1_000_000).expect("a journal with many events");
        let mut command = self.dacapo("million");
        let mut events = Running::start(command.args(["events", "--json"]).stdout(Stdio::piped()));
        let mut output = events.0.stdout.take().expect("its output");
        let (mut buffer, mut peak, mut lines) = (vec![0; 1 << 20], 0.0_f64, 0_usize);
        loop {
            let read = output.read(&mut buffer).expect("its output");
            if read == 0 {
                break;
            }
            lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
            // The most it ever held; its last look is at most one pipe before its end.
            if let Some(most) = peak_memory_if_there(events.0.id()) {
                peak = peak.max(most);
            }
        }
        assert!(lines >= 1_000_000, "{lines} events");
        vec![Figure::at_most("peak memory, a million events", "MB", peak, None, 16.0)]
    }

    fn size(&self) -> Vec<Figure> {
        let bytes = fs::metadata(dacapo_binary()).expect("the binary").len();
        vec![Figure::at_most("size of the binary", "MB", bytes as f64 / 1e6, None, 18.0)]
    }

    // --- what is run ----------------------------------------------------------------------------------------

    fn home(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    fn forget(&self, home: &str) {
        let _ = fs::remove_dir_all(self.home(home));
    }

    /// A program with nothing of a loop that this benchmark may itself run in.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("DACAPO_")) {
                command.env_remove(name);
            }
        }
        command.current_dir(self.workspace.path()).stdin(Stdio::null());
        command
    }

    fn dacapo(&self, home: &str) -> Command {
        let mut command = self.command(dacapo_binary());
        command.env("DACAPO_HOME", self.home(home)).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn dacapo_run(&self, home: &str, agent: &str, iterations: u32) -> Command {
        let mut command = self.dacapo(home);
        command.args(["run", "-q", "-P", "PROMPT", "--restart-delay", "0", "--agent-cmd", agent, "-n"]);
        command.arg(iterations.to_string());
        command
    }

    /// What people write without dacapo.
    fn shell_loop(&self, agent: &str, iterations: u32) -> Command {
        const LOOP: &str = "i=0; while [ $i -lt \"$1\" ]; do
            $2 <PROMPT | tee -a \"$3\" | grep -q '<promise>DONE</promise>' && break
            i=$((i + 1))
        done";
        let mut command = self.command("sh");
        command.args(["-c", LOOP, "sh", &iterations.to_string(), agent]).arg(self.disk.path().join("log"));
        command.stdout(Stdio::null());
        command
    }

    /// How much the agents of a home have printed so far.
    fn printed(&self, home: &str) -> u64 {
        let Ok(projects) = fs::read_dir(self.home(home).join("projects")) else { return 0 };
        let runs = |project: fs::DirEntry| fs::read_dir(project.path()).into_iter().flatten().flatten();
        projects
            .flatten()
            .flat_map(runs)
            .flat_map(|task| fs::read_dir(task.path().join("runs")).into_iter().flatten().flatten())
            .filter(|file| file.path().extension().is_some_and(|kind| kind == "stdout"))
            .filter_map(|file| Some(file.metadata().ok()?.len()))
            .sum()
    }
}

/// A long run of Claude Code: words, tool calls and what the tools gave back, each message with its tokens.
fn events() -> Vec<u8> {
    let result = "fn main() { println!(\\\"hello\\\"); }\\n".repeat(80);
    let mut stream = Vec::with_capacity(FLOOD + (1 << 16));
    let mut number = 0_u64;
    while stream.len() < FLOOD {
        let id = format!("msg_{number:08}");
        let usage = r#""usage":{"input_tokens":1200,"cache_read_input_tokens":30000,"output_tokens":340}"#;
        let line = match number % 3 {
            0 => format!(
                r#"{{"type":"assistant","session_id":"s","message":{{"id":"{id}","model":"claude-sonnet-4-5","role":"assistant","content":[{{"type":"text","text":"I look at the parser next, since the failing test names it. {}"}}],{usage}}}}}"#,
                "Then I run the tests again. ".repeat(20)
            ),
            1 => format!(
                r#"{{"type":"assistant","session_id":"s","message":{{"id":"{id}","model":"claude-sonnet-4-5","role":"assistant","content":[{{"type":"tool_use","id":"t","name":"Read","input":{{"file_path":"src/parser.rs"}}}}],{usage}}}}}"#
            ),
            _ => format!(
                r#"{{"type":"user","session_id":"s","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"{result}"}}]}}}}"#
            ),
        };
        stream.extend_from_slice(line.as_bytes());
        stream.push(b'\n');
        number += 1;
    }
    stream.extend_from_slice(
        br#"{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s","total_cost_usd":1.5,"usage":{"input_tokens":1,"output_tokens":1}}"#,
    );
    stream.push(b'\n');
    stream
}

/// A run of Claude Code in which the agent says one sentence at a time.
fn short_messages() -> Vec<u8> {
    let mut stream = Vec::with_capacity(FLOOD + (1 << 16));
    let mut number = 0_u64;
    while stream.len() < FLOOD {
        let line = format!(
            r#"{{"type":"assistant","message":{{"id":"msg_{number:08}","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"Step {number}: I read the next file, since the failing test names it, and go on with the parser."}}],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":1200,"cache_creation_input_tokens":0,"cache_read_input_tokens":31000,"output_tokens":{}}}}},"parent_tool_use_id":null,"session_id":"96d7e3c7-9469-4ae3-95f2-93887a302e98","uuid":"f4b0b57c-1095-4b00-9b20-{number:012}"}}"#,
            number % 90 + 1
        );
        stream.extend_from_slice(line.as_bytes());
        stream.push(b'\n');
        number += 1;
    }
    stream
}

/// A process that does not outlive this value: dacapo ends its agent when it is told to end.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("the program can be started"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None))
            && let Some(pid) = Pid::from_raw(self.0.id().cast_signed())
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

/// Seconds, wall clock and CPU, of each turn.
#[derive(Default)]
struct Turns(Vec<(f64, f64)>);

impl Turns {
    fn push(&mut self, turn: (f64, f64)) {
        self.0.push(turn);
    }
    fn wall(&self) -> f64 {
        median(self.0.iter().map(|turn| turn.0).collect())
    }
    fn cpu(&self) -> f64 {
        median(self.0.iter().map(|turn| turn.1).collect())
    }
}

/// Runs a command to its end: its wall clock, and the CPU of it and all its descendants, in seconds.
fn timed(command: &mut Command, exit: i32) -> (f64, f64) {
    let (began, before) = (Instant::now(), cpu_of_children());
    let status = Running::start(command).0.wait().expect("its end");
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_of_children() - before);
    // 1 is a shell loop's last `grep`, which found no promise.
    assert!(
        status.code().is_some_and(|code| code == exit || (exit == 0 && code == 1)),
        "{command:?}: {status}"
    );
    (wall, cpu)
}

/// User and system time of every descendant that has been waited for.
fn cpu_of_children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("our own times");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after_name.split_whitespace().skip(13).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn monotonic() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The most a process ever held, in MB; pages it shares with others are counted for each.
fn peak_memory(pid: u32) -> f64 {
    peak_memory_if_there(pid).expect("a running process")
}

/// The same of a process that may have ended.
fn peak_memory_if_there(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? * 1024.0 / 1e6)
}

/// What a process takes of the machine's memory, in MB.
fn shared_memory(pid: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a running process");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).expect("its share");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0 / 1e6
}

fn child_named(parent: u32, name: &str) -> Option<u32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (head, rest) = stat.rsplit_once(')')?;
        let its_parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
        (its_parent == parent && head.ends_with(&format!("({name}"))).then_some(pid)
    })
}

/// Copies the first loop of a journal, with its events, until there are `loops`.
fn multiply(database: &Path, loops: u32) -> rusqlite::Result<()> {
    let db = rusqlite::Connection::open(database)?;
    db.execute_batch(&format!(
        "CREATE TEMP TABLE copies AS
           WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {loops} - 1) SELECT i FROM n;
         CREATE TEMP TABLE first AS SELECT * FROM streams WHERE key = 1;
         CREATE TEMP TABLE told AS SELECT * FROM events WHERE stream = 1;
         CREATE TEMP TABLE span AS SELECT max(seq) AS length FROM told;
         BEGIN;
         INSERT INTO streams (key, id, kind, project, task, workspace, parent, head, over, view, owner_pid,
             owner_start, owner_boot, owner_host, epoch, lease_until)
           SELECT key + i, printf('copy%06d', i), kind, project, task, workspace, parent, head + i * length,
             over, json_set(view, '$.id', printf('copy%06d', i)), owner_pid, owner_start, owner_boot, owner_host,
             epoch, lease_until
           FROM copies, first, span;
         INSERT INTO events (seq, stream, at, body)
           SELECT seq + i * length, stream + i, at, body FROM copies, told, span ORDER BY 1;
         COMMIT;"
    ))
}

/// Makes a loop longer by its own events, again and again, until it has this many.
fn lengthen(database: &Path, events: u32) -> rusqlite::Result<()> {
    let db = rusqlite::Connection::open(database)?;
    db.execute_batch(&format!(
        "CREATE TEMP TABLE told AS SELECT * FROM events WHERE stream = 1 AND seq > 1;
         CREATE TEMP TABLE span AS SELECT max(seq) AS length, count(*) AS number FROM told;
         BEGIN;
         INSERT INTO events (seq, stream, at, body)
           WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, span WHERE i < {events} / number)
           SELECT seq + i * length, stream, at, body FROM n, told, span ORDER BY 1;
         UPDATE streams SET head = (SELECT max(seq) FROM events) WHERE key = 1;
         DELETE FROM checkpoints;
         COMMIT;"
    ))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn table(out: &mut impl io::Write, figures: &[Figure]) -> io::Result<()> {
    writeln!(out, "{:<36}{:>12}{:>12}{:>12}{:>12}", "figure", "dacapo", "beside it", "value", "target")?;
    for figure in figures {
        let unit = figure.unit;
        let beside = figure.beside.map(|n| format!("{n:.2} {unit}")).unwrap_or_default();
        let show = |n: f64| if figure.is_ratio { format!("{n:.2}x") } else { format!("{n:.1} {unit}") };
        writeln!(
            out,
            "{:<36}{:>12}{beside:>12}{:>12}{:>12}  {}",
            figure.figure,
            format!("{:.2} {unit}", figure.dacapo),
            show(figure.value),
            format!("≤ {}", show(figure.target)),
            if figure.is_met { "met" } else { "missed" }
        )?;
    }
    Ok(())
}
