//! What the board costs with a long journal, in the terminal and in a real browser.
//!
//! `cargo bench -p dacapo --bench board [-- [--quick] [WORD…]]`; `docs/performance.md` explains the figures. Words say which
//! measurements are wanted. The journal is filled by rows that a real
//! loop has left, copied with other ids: 10,000 loops with 100 events each, 50 of them without an end.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]

use std::{
    fs,
    io::{Read as _, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use dacapo_engine::{client::Client, home::Home};
use dacapo_testkit::{
    Running, Signal, Terminal, TestEnv,
    browser::{Browser, Screen},
    measured_dacapo, wait_until,
};
use jiff::Timestamp;
use rusqlite::{Connection, params};

const EVENTS: u32 = 100;
const OPEN: u32 = 50;
const LONG: Duration = Duration::from_secs(60);

fn dacapo() -> PathBuf {
    measured_dacapo(env!("CARGO_BIN_EXE_dacapo"))
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or("unknown").to_owned()
}

fn main() {
    let is_quick = std::env::args().any(|word| word == "--quick");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let env = TestEnv::new(dacapo());
    let args = env.run_agent_args("say hello; promise", ["--project", "p", "--task", "t"]);
    env.run(args).assert_code(0);
    let home = Home::at(env.dacapo_home());
    let loops = if is_quick { 2_000 } else { 10_000 };
    fill(&home, loops).unwrap();
    println!("{loops} loops, {} events, {OPEN} without an end", loops * EVENTS);
    let bench =
        Bench { env, home, rounds: if is_quick { 3 } else { 9 }, newest: format!("task-{}", loops - 1) };
    for (what, measure) in [
        ("reading", Bench::reading as fn(&Bench)),
        ("first paint in the terminal", Bench::first_paint_in_terminal),
        ("first paint in the browser", Bench::first_paint_in_browser),
        ("event on the screen", Bench::event_in_terminal),
        ("event on the page", Bench::event_in_browser),
        ("watching", Bench::watching),
        ("added to loops", Bench::added),
    ] {
        if wanted.is_empty() || wanted.iter().any(|word| what.contains(word.as_str())) {
            println!("{what} (load {})", load());
            measure(&bench);
        }
    }
}

struct Bench {
    env: TestEnv,
    home: Home,
    rounds: u32,
    /// The name of the newest card that the generator made, which a board that is drawn whole must show.
    newest: String,
}

/// Prints the median and the worst of some times beside what is wanted.
fn say(what: &str, times: &mut [Duration], target: Option<Duration>) {
    times.sort();
    let (median, worst) = (times[times.len() / 2], times.last().copied().unwrap_or_default());
    let target = target.map_or(String::new(), |most| {
        format!("  target {most:?}{}", if median > most { ", missed" } else { "" })
    });
    println!("  {what:<44} median {median:>8.2?}  worst {worst:>8.2?}{target}");
}

/// A number beside the most it may be.
fn say_number(what: &str, value: f64, unit: &str, most: f64) {
    let missed = if value > most { ", missed" } else { "" };
    println!("  {what:<44} {value:>8.2} {unit}  target {most} {unit}{missed}");
}

/// The board in a terminal without a window, whose size is set and whose output is read all the time.
struct Board {
    script: Child,
    keys: ChildStdin,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Board {
    fn open(env: &TestEnv, command: &str) -> Self {
        let mut script = env.command("script");
        let line = format!("stty cols 120 rows 40; exec {command}");
        script.args(["-qfec", &line, "/dev/null"]).env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().expect("script runs: it is a part of Debian's bsdutils");
        let keys = script.stdin.take().unwrap();
        let mut output = script.stdout.take().unwrap();
        let printed = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&printed);
        thread::spawn(move || {
            let mut some = [0; 65536];
            while let Ok(read @ 1..) = output.read(&mut some) {
                all.lock().unwrap().extend_from_slice(&some[..read]);
            }
        });
        Self { script, keys, printed }
    }

    /// Waits until the terminal was sent these words.
    fn wait_for(&self, words: &str) {
        let begin = Instant::now();
        loop {
            let is_there =
                self.printed.lock().unwrap().windows(words.len()).any(|some| some == words.as_bytes());
            if is_there {
                return;
            }
            assert!(
                begin.elapsed() < LONG,
                "no `{words}` in {:?}",
                String::from_utf8_lossy(&self.printed.lock().unwrap())
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The process that draws.
    fn pid(&self) -> u32 {
        let children =
            |pid: u32| fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let of_script = children(self.script.id());
        let pid =
            of_script.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a child of script");
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(words.ends_with(b"\0tui\0"), "{}", String::from_utf8_lossy(&words));
        pid
    }

    fn close(mut self) {
        let _ = self.keys.write_all(b"q");
        let _ = self.keys.flush();
        let _ = self.script.wait();
    }
}

/// A server and the link that logs in to it.
struct Web {
    running: Running,
    link: String,
}

impl Web {
    fn start(env: &TestEnv) -> Self {
        let running = env.spawn(["web", "--port", "0"]);
        let line = running.wait_for_line(|line| line.contains("/login?token="), LONG);
        Self { running, link: line.trim().to_owned() }
    }

    fn board(&self) -> String {
        format!("{}/", self.link.split("/login").next().unwrap_or_default())
    }

    fn end(self) {
        self.running.signal(Signal::TERM);
        self.running.wait(LONG);
    }
}

/// User and system time of a process so far, in seconds.
fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a running process");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: f64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// What a process has of the memory, in MB: of pages that several share, its part.
fn memory(pid: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a running process");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<f64>().unwrap_or(0.0) / 1000.0
}

/// The newest of these events of a loop that names this iteration: when it was recorded.
fn recorded(env: &TestEnv, id: &str, iteration: u32) -> Timestamp {
    let events = env.events(Some(id));
    let is_it = |event: &&serde_json::Value| {
        event["type"] == "iteration_started" && event["iteration"].as_u64() == Some(u64::from(iteration))
    };
    events.iter().find(is_it).expect("an event")["at"].as_str().unwrap().parse().unwrap()
}

/// How long after `recorded` it was `seen`.
fn late(recorded: Timestamp, seen: Timestamp) -> Duration {
    Duration::try_from(seen.duration_since(recorded)).unwrap_or_default()
}

impl Bench {
    fn client(&self) -> Client {
        Client::of_journal(&self.home).unwrap()
    }

    /// The first look of a board, and later ones.
    fn reading(&self) {
        let mut first = Vec::new();
        for _ in 0..self.rounds {
            let client = self.client();
            let begin = Instant::now();
            let reader = client.board(100).unwrap();
            let board = reader.board(Timestamp::now());
            first.push(begin.elapsed());
            assert!(board.cards().count() > 100);
        }
        say("first look, with its fold", &mut first, None);
        let client = self.client();
        let mut reader = client.board(100).unwrap();
        let (mut later, mut fold, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        let database = Connection::open(self.home.database()).unwrap();
        for round in 0..self.rounds {
            record(&database, round).unwrap();
            let begin = Instant::now();
            assert!(client.catch_up(&mut reader).unwrap());
            later.push(begin.elapsed());
            let begin = Instant::now();
            let _ = reader.board(Timestamp::now());
            fold.push(begin.elapsed());
            let begin = Instant::now();
            client.catch_up(&mut reader).unwrap();
            idle.push(begin.elapsed());
        }
        say("a later look after one event", &mut later, None);
        say("the fold", &mut fold, None);
        say("a look at nothing new", &mut idle, None);
    }

    fn first_paint_in_terminal(&self) {
        let (mut paints, mut without) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let begin = Instant::now();
            let board = Board::open(&self.env, "echo the terminal alone");
            board.wait_for("the terminal alone");
            without.push(begin.elapsed());
            board.close();
            let begin = Instant::now();
            let board = Board::open(&self.env, &format!("{} tui", dacapo().display()));
            board.wait_for(&self.newest);
            paints.push(begin.elapsed());
            board.close();
        }
        say("process and terminal to first paint", &mut paints, Some(Duration::from_millis(300)));
        say("of that the terminal and its shell", &mut without, None);
    }

    fn first_paint_in_browser(&self) {
        let browser = Browser::start();
        browser.set_screen(Screen::DESKTOP);
        let painted = || {
            let script = &format!("const paint = performance.getEntriesByType('paint').find((own) => own.name === 'first-contentful-paint');
                 return document.querySelector('[data-lane=done]')?.innerText.includes('{}') && paint ? paint.startTime : 0", self.newest);
            let millis = browser.wait_for("a paint", script).as_f64().unwrap_or(0.0);
            Duration::from_secs_f64(millis / 1000.0)
        };
        let (mut cold, mut warm) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            // The first request of a new server reads the whole board.
            let web = Web::start(&self.env);
            browser.open(&web.link);
            cold.push(painted());
            browser.open("about:blank");
            browser.open(&web.board());
            warm.push(painted());
            browser.open("about:blank");
            web.end();
        }
        say("link to first paint, server just started", &mut cold, Some(Duration::from_millis(500)));
        say("board to first paint, again", &mut warm, Some(Duration::from_millis(500)));
    }

    /// A loop whose next iteration begins when a file is made.
    fn stepping(&self) -> (Running, String) {
        let rounds = self.rounds + 2;
        let script: String = (1..=rounds).map(|n| format!("@{n}: wait-file go{n}\n")).collect();
        for n in 1..=rounds {
            let _ = fs::remove_file(self.env.workspace().join(format!("go{n}")));
        }
        let running = self.env.spawn(self.env.run_agent_args(&script, ["--task", "stepping", "-n", "99"]));
        let mut id = String::new();
        wait_until("its first iteration", LONG, || {
            let events = self.env.run(["status", "stepping", "--json"]).stdout;
            let views: Vec<serde_json::Value> = serde_json::from_str(&events).unwrap_or_default();
            views.first().is_some_and(|view| {
                id = view["id"].as_str().unwrap_or_default().to_owned();
                view["iteration"] == 1
            })
        });
        (running, id)
    }

    fn event_in_terminal(&self) {
        let (running, id) = self.stepping();
        let command = format!("LANG=C.UTF-8 {} tui", dacapo().display());
        let terminal = Terminal::open(&self.env, 120, 40, &command);
        terminal.wait_for("iteration 1/99");
        let mut seen = Vec::new();
        for n in 1..=self.rounds {
            self.env.write(format!("go{n}"), "");
            terminal.wait_for(&format!("iteration {}/99", n + 1));
            seen.push((n + 1, Timestamp::now()));
        }
        let mut times: Vec<Duration> =
            seen.iter().map(|(n, at)| late(recorded(&self.env, &id, *n), *at)).collect();
        say("from the journal to tmux's screen", &mut times, Some(Duration::from_millis(200)));
        terminal.press(&["q"]);
        running.signal(Signal::TERM);
        running.wait(LONG);
    }

    fn event_in_browser(&self) {
        let (running, id) = self.stepping();
        let web = Web::start(&self.env);
        let browser = Browser::start();
        browser.open(&web.link);
        browser
            .wait_for("the stream", "return document.querySelector('.link-state').dataset.link === 'live'");
        browser.run(
            "window.seen = {};
             const look = () => {
               const found = /iteration (\\d+)\\/99/.exec(document.querySelector('.slot')?.innerText ?? '');
               if (found) requestAnimationFrame(() => { window.seen[found[1]] ??= Date.now(); });
             };
             new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });",
        );
        let mut times = Vec::new();
        for n in 1..=self.rounds {
            self.env.write(format!("go{n}"), "");
            let at = browser.wait_for("the iteration", &format!("return window.seen[{}] ?? 0", n + 1));
            let seen = Timestamp::from_millisecond(at.as_i64().unwrap_or(0)).unwrap();
            times.push(late(recorded(&self.env, &id, n + 1), seen));
        }
        say("from the journal to a frame of the page", &mut times, Some(Duration::from_millis(200)));
        drop(browser);
        web.end();
        running.signal(Signal::TERM);
        running.wait(LONG);
    }

    /// 50 loops whose agents take `seconds` each.
    fn fifty(&self, name: &str, seconds: f64, iterations: u32) -> Vec<Running> {
        let agent = format!("sh -c 'sleep {seconds}; echo a line'");
        let start = |number: u32| {
            let task = format!("{name}-{number}");
            let folder = self.env.root().join("fifty").join(&task);
            fs::create_dir_all(&folder).unwrap();
            let (folder, most) = (folder.display().to_string(), iterations.to_string());
            let args = ["run", "x", "--project", name, "--task", &task, "--dir", &folder, "-n", &most];
            self.env.spawn(args.iter().chain(&[
                "--agent-cmd",
                &agent,
                "--restart-delay",
                "0s",
                "--kill-grace",
                "100ms",
            ]))
        };
        (0..50).map(start).collect()
    }

    fn watching(&self) {
        let loops = self.fifty("watched", 1.0, 1000);
        let client = self.client();
        wait_until("all loops are at work", LONG, || {
            let at_work = client
                .active()
                .unwrap()
                .into_iter()
                .filter(|seen| seen.is_running && seen.view.iteration > 0);
            at_work.count() >= 50
        });
        let span = Duration::from_secs(u64::from(self.rounds) * 2);
        let begin = self.client().last_seq().unwrap();
        let sample = |what: &str, pid: u32| {
            // What it does at first is measured elsewhere.
            thread::sleep(Duration::from_secs(2));
            let (before, since) = (cpu(pid), Instant::now());
            thread::sleep(span);
            let share = (cpu(pid) - before) / since.elapsed().as_secs_f64() * 100.0;
            say_number(&format!("{what}: CPU"), share, "% of a core", 5.0);
            say_number(&format!("{what}: memory"), memory(pid), "MB", 40.0);
        };
        let board = Board::open(&self.env, &format!("{} tui", dacapo().display()));
        board.wait_for("dacapo 50 running");
        sample("50 loops in the terminal", board.pid());
        board.close();
        let web = Web::start(&self.env);
        let browser = Browser::start();
        browser.open(&web.link);
        browser
            .wait_for("the stream", "return document.querySelector('.link-state').dataset.link === 'live'");
        browser.wait_for("all loops on the page", "return document.title.startsWith('dacapo 50 running')");
        sample("50 loops by the server of one page", web.running.pid());
        let events = self.client().last_seq().unwrap() - begin;
        println!(
            "  ({events} events were recorded meanwhile, in {:.0} s and what lay between)",
            span.as_secs_f64() * 2.0
        );
        drop(browser);
        web.end();
        for running in &loops {
            running.signal(Signal::TERM);
        }
        loops.into_iter().for_each(|running| drop(running.wait(LONG)));
    }

    /// How long the loops of one turn took, on average.
    fn turn(&self, name: &str) -> f64 {
        self.fifty(name, 0.2, 12).into_iter().for_each(|running| drop(running.wait(LONG)));
        let all = self.client().recent(50).unwrap();
        let took = all.iter().filter(|seen| seen.view.project.as_str() == name).map(|seen| {
            let ended = seen.view.ended_at.expect("an end");
            ended.duration_since(seen.view.started_at).as_secs_f64()
        });
        let took: Vec<f64> = took.collect();
        assert_eq!(took.len(), 50, "all loops of the turn");
        took.iter().sum::<f64>() / 50.0
    }

    fn added(&self) {
        let (mut alone, mut in_terminal, mut by_server) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.rounds.div_ceil(3) {
            alone.push(self.turn(&format!("alone-{round}")));
            let board = Board::open(&self.env, &format!("{} tui", dacapo().display()));
            board.wait_for("Done");
            in_terminal.push(self.turn(&format!("terminal-{round}")));
            board.close();
            let web = Web::start(&self.env);
            let browser = Browser::start();
            browser.open(&web.link);
            browser.wait_for(
                "the stream",
                "return document.querySelector('.link-state').dataset.link === 'live'",
            );
            by_server.push(self.turn(&format!("page-{round}")));
            drop(browser);
            web.end();
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let (alone, in_terminal, by_server) =
            (median(&mut alone), median(&mut in_terminal), median(&mut by_server));
        println!(
            "  a loop of 50, each 12 agents of 0.2 s: {alone:.2} s alone, {in_terminal:.2} s, {by_server:.2} s"
        );
        say_number("added by the terminal", (in_terminal / alone - 1.0) * 100.0, "%", 2.0);
        say_number("added by the server, with its browser", (by_server / alone - 1.0) * 100.0, "%", 2.0);
    }
}

/// Copies the loop that is there, with its view and an event of it, until there are as many as wanted.
fn fill(home: &Home, loops: u32) -> rusqlite::Result<()> {
    let mut database = Connection::open(home.database())?;
    let transaction = database.transaction()?;
    {
        let (id, view): (String, String) =
            transaction.query_row("SELECT id, view FROM streams WHERE kind = 'loop' LIMIT 1", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let body: String =
            transaction
                .query_row("SELECT body FROM events ORDER BY seq DESC LIMIT 1", [], |row| row.get(0))?;
        let mut seq: i64 = transaction.query_row("SELECT MAX(seq) FROM events", [], |row| row.get(0))?;
        let mut stream = transaction.prepare(
            "INSERT INTO streams (id, kind, project, task, workspace, head, over, view, owner_pid, owner_start, owner_boot,
             owner_host, epoch, lease_until, ended) SELECT ?1, kind, project, ?2, workspace, ?3, ?4, ?5, owner_pid, owner_start,
             owner_boot, owner_host, epoch, lease_until, iif(?4, ?3, NULL) FROM streams WHERE id = ?6",
        )?;
        let mut event =
            transaction.prepare("INSERT INTO events (seq, stream, at, body) VALUES (?1, ?2, ?3, ?4)")?;
        let now = Timestamp::now().as_microsecond();
        for number in 0..loops {
            let own = format!("b{number:09}");
            let task = format!("task-{number}");
            let is_open = number < OPEN;
            let at = now - (i64::from(loops) - i64::from(number)) * 60_000_000;
            let own_view = view.replace(&id, &own).replace("\"task\":\"t\"", &format!("\"task\":\"{task}\""));
            let mut own_view: serde_json::Value = serde_json::from_str(&own_view).unwrap();
            if is_open {
                for key in ["reason", "ended_at", "exit_code"] {
                    own_view[key] = serde_json::Value::Null;
                }
                own_view["state"] = "running".into();
            } else {
                own_view["ended_at"] = Timestamp::from_microsecond(at).unwrap().to_string().into();
            }
            // One of twenty has failed.
            if !is_open && number % 20 == 0 {
                (own_view["state"], own_view["reason"]) = ("failed".into(), "max_iterations".into());
            }
            let own_view = own_view.to_string();
            let head = seq + i64::from(EVENTS);
            stream.execute(params![own, task, head, !is_open, own_view, id])?;
            let key = transaction.last_insert_rowid();
            for _ in 0..EVENTS {
                seq += 1;
                event.execute(params![seq, key, at, body])?;
            }
        }
    }
    transaction.commit()
}

/// One more event of one open loop.
fn record(database: &Connection, round: u32) -> rusqlite::Result<()> {
    let own = format!("b{:09}", round % OPEN);
    database.execute(
        "INSERT INTO events (seq, stream, at, body) SELECT (SELECT MAX(seq) FROM events) + 1, s.key, e.at, e.body
         FROM streams s JOIN events e ON e.seq = s.head WHERE s.id = ?1",
        [own],
    )?;
    Ok(())
}
