//! What the hard tests share: chance that can be repeated, processes by their number, the journal by iteration.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::{Duration, Instant, SystemTime},
};

use dacapo_testkit::{LedgerEvent, Running, Signal, TestEnv, fake_agent, noise, wait_until};
use rustix::process::{Pid, kill_process};
use serde_json::Value;

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_dacapo"))
}

/// `usual`, or `hard` when the nightly counts are asked for.
pub(crate) fn count(usual: u32, hard: u32) -> u32 {
    if std::env::var_os("DACAPO_HARD").is_some_and(|value| value == "1") { hard } else { usual }
}

/// Chance whose seed is printed, and which a seed repeats.
pub(crate) struct Dice(u64);

impl Dice {
    #[allow(clippy::print_stdout, reason = "a failed test shows what it printed")]
    pub(crate) fn new() -> Self {
        let given = std::env::var("DACAPO_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_secs());
        let seed = given.unwrap_or_else(now);
        println!("repeat with DACAPO_SEED={seed}");
        Self(seed)
    }

    /// Another one, for thread number `n`.
    pub(crate) fn split(&self, n: u64) -> Self {
        let mut state = self.0 ^ (n + 1).wrapping_mul(0x5851_f42d_4c95_7f2d);
        Self(noise::next(&mut state))
    }

    /// Less than `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        noise::next(&mut self.0) % n
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A moment before `longest` has passed, to the microsecond.
    pub(crate) fn pause(&mut self, longest: Duration) {
        let length = Duration::from_micros(self.below(longest.as_micros() as u64 + 1));
        // The length is the test's input, not a guess about when something will have happened.
        std::thread::sleep(length);
    }
}

/// `dacapo run` of an agent with a script of its own, without delays; the grace is the test's to choose.
pub(crate) fn agent_args<'a>(
    env: &TestEnv,
    script: &str,
    extra: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let agent = env.agent_cmd_for(script);
    let fixed = ["run", "do it", "--agent-cmd", &agent, "--restart-delay", "0s"];
    fixed.into_iter().map(str::to_owned).chain(extra.into_iter().map(str::to_owned)).collect()
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
    // Fails only when it has ended meanwhile, which some tests race with on purpose.
    let _ = kill_process(pid, signal);
}

/// The kernel's letter for what a process does, and its parent.
pub(crate) fn state(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

pub(crate) fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|(letter, _)| letter != 'Z' && letter != 'X')
}

/// The keeper that `supervisor` has started.
pub(crate) fn keeper_of(supervisor: u32) -> Option<u32> {
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name == "dcp-keeper\n" && state(*pid).is_some_and(|(_, parent)| parent == supervisor)
    })
}

/// Waits for a file that an agent publishes its process id in.
#[track_caller]
pub(crate) fn pid_in(env: &TestEnv, file: &str) -> u32 {
    let path = env.workspace().join(file);
    wait_until(&format!("`{file}` is there"), LONG, || path.exists());
    env.outer_pid(env.read(file).trim().parse().expect("a process id"))
}

/// Waits until nothing of this world is alive.
#[track_caller]
pub(crate) fn all_gone(env: &TestEnv, within: Duration) {
    let deadline = Instant::now() + within;
    let left = loop {
        let left = env.survivors();
        if left.is_empty() {
            return;
        }
        if Instant::now() >= deadline {
            break left;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let names: Vec<_> = left
        .iter()
        .map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("{pid} {:?} {}", state(*pid), String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect();
    panic!("alive after {within:?}: {names:#?}");
}

/// Panics unless nothing of this world is alive now.
#[track_caller]
pub(crate) fn assert_nothing_left(env: &TestEnv) {
    all_gone(env, Duration::ZERO);
}

/// Processes of the same world, folder and program that no loop has started.
pub(crate) struct Innocents(Vec<Running>);

impl Innocents {
    pub(crate) fn start(env: &TestEnv) -> Self {
        let start = |loop_id: Option<&str>| {
            let mut command = env.command(fake_agent());
            command.args(["--descendant", "--do", "no-stdin; hang"]);
            command.envs(loop_id.map(|id| ("DACAPO_LOOP", id)));
            Running::start(command)
        };
        Self(vec![start(None), start(Some("aaaaaaaaaa"))])
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    #[track_caller]
    pub(crate) fn assert_unharmed_and_end(self) {
        for mut innocent in self.0 {
            assert!(innocent.is_running(), "an innocent was killed");
        }
    }
}

/// What the journal and the agents' own ledger say about each iteration of one loop.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Outcomes of each iteration, in order; one is right.
    pub(crate) finished: BTreeMap<u64, Vec<String>>,
    /// Iterations whose agent was seen to its end.
    pub(crate) exited: BTreeSet<u64>,
    /// Iterations that made a claim.
    claimed: BTreeSet<u64>,
    /// Iterations as the agents recorded their start.
    pub(crate) in_ledger: Vec<u64>,
    pub(crate) reason: String,
    /// Iterations it says were charged.
    pub(crate) charged: u64,
}

impl Account {
    /// Reads both, and panics where they cannot both be true (req 203, fault G7).
    #[track_caller]
    pub(crate) fn of(env: &TestEnv, task: &str) -> Self {
        let events = env.events(Some(task));
        let id = text(&events[0], "loop").to_owned();
        let mut account = Self::default();
        for event in &events {
            let iteration = event["iteration"].as_u64();
            match (text(event, "type"), iteration) {
                ("iteration_started", Some(n)) => {
                    let expected = account.finished.len() as u64 + 1;
                    assert_eq!(n, expected, "numbers are used once and in order");
                    account.finished.insert(n, Vec::new());
                }
                ("agent_exited", Some(n)) => assert!(account.exited.insert(n), "{n} exited twice"),
                ("claim_made", Some(n)) => drop(account.claimed.insert(n)),
                ("iteration_finished", Some(n)) => {
                    let outcome = text(event, "outcome").to_owned();
                    account.finished.get_mut(&n).expect("it was started").push(outcome);
                }
                ("loop_finished", _) => {
                    account.reason = text(event, "reason").to_owned();
                    account.charged = event["iterations"].as_u64().expect("a number");
                }
                _ => {}
            }
        }
        let mut running = None;
        for line in env.ledger().into_iter().filter(|line| line.loop_id == id) {
            match line.event {
                LedgerEvent::Start => {
                    account.in_ledger.push(line.iteration.into());
                    running = Some(line.pid);
                }
                LedgerEvent::End => assert_eq!(running, Some(line.pid), "two agents at once"),
            }
        }
        account.compare();
        account
    }

    /// Whether its end was not its own.
    fn is_cut(&self) -> bool {
        matches!(self.reason.as_str(), "interrupted" | "terminated" | "disk")
    }

    #[track_caller]
    fn compare(&self) {
        let once: BTreeSet<u64> = self.in_ledger.iter().copied().collect();
        assert_eq!(once.len(), self.in_ledger.len(), "a number was used twice: {:?}", self.in_ledger);
        assert!(self.in_ledger.is_sorted(), "{:?}", self.in_ledger);
        for n in &once {
            assert!(self.finished.contains_key(n), "agent {n} is not in the journal");
        }
        for (n, outcomes) in &self.finished {
            // A claim that was cut before its verdict stays open until `resume` judges it again.
            if outcomes.is_empty() && *n == self.charged && self.claimed.contains(n) && self.is_cut() {
                continue;
            }
            assert_eq!(outcomes.len(), 1, "iteration {n} ended as {outcomes:?}");
            let is_interrupted = outcomes[0] == "interrupted";
            // A number may be missing from the ledger only where a kill fell between its start and the spawn.
            assert!(once.contains(n) || is_interrupted, "agent {n} never ran, yet it ended: {outcomes:?}");
            assert!(self.exited.contains(n) || is_interrupted, "iteration {n} was cut and is {outcomes:?}");
        }
        assert_eq!(self.charged, self.finished.len() as u64, "every start is charged, once");
    }
}

#[track_caller]
pub(crate) fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap_or_else(|| panic!("no {field} in {event}"))
}
