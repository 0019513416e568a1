//! What the board costs with a long journal: its first look, a later look after one event, and the fold itself.
//!
//! `cargo bench -p dacapo --bench board [-- --quick]`; `docs/performance.md` explains the figures. The journal is filled by rows that a real loop
//! has left, copied with other ids: 10,000 loops with 100 events each, 50 of them without an end.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{fs, io, time::Instant};

use dacapo_engine::{client::Client, home::Home};
use dacapo_testkit::TestEnv;
use jiff::Timestamp;
use rusqlite::{Connection, params};

const DACAPO: &str = env!("CARGO_BIN_EXE_dacapo");
const EVENTS: u32 = 100;
const OPEN: u32 = 50;

fn main() -> io::Result<()> {
    let is_quick = std::env::args().any(|word| word == "--quick");
    let loops = if is_quick { 2_000 } else { 10_000 };
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before the run: {}", load.split(' ').next().unwrap_or("unknown"));
    let env = TestEnv::new(DACAPO);
    let args = env.run_agent_args("say hello; promise", ["--project", "p", "--task", "t"]);
    env.run(args).assert_code(0);
    let home = Home::at(env.dacapo_home());
    fill(&home, loops).map_err(io::Error::other)?;
    println!("{loops} loops, {} events, {OPEN} without an end", loops * EVENTS);
    let client = Client::of_journal(&home).map_err(io::Error::other)?;
    let rounds = if is_quick { 5 } else { 15 };
    let mut first = Vec::new();
    for _ in 0..rounds {
        let client = Client::of_journal(&home).map_err(io::Error::other)?;
        let begin = Instant::now();
        let reader = client.board(100).map_err(io::Error::other)?;
        let board = reader.board(Timestamp::now());
        first.push(begin.elapsed());
        assert!(board.cards().count() > 100);
    }
    say("first look, with its fold", &mut first);
    let mut reader = client.board(100).map_err(io::Error::other)?;
    let (mut later, mut fold, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    let database = Connection::open(home.database()).map_err(io::Error::other)?;
    for round in 0..rounds {
        record(&database, round).map_err(io::Error::other)?;
        let begin = Instant::now();
        assert!(client.catch_up(&mut reader).map_err(io::Error::other)?);
        later.push(begin.elapsed());
        let begin = Instant::now();
        let _ = reader.board(Timestamp::now());
        fold.push(begin.elapsed());
        let begin = Instant::now();
        client.catch_up(&mut reader).map_err(io::Error::other)?;
        idle.push(begin.elapsed());
    }
    say("a later look after one event", &mut later);
    say("the fold", &mut fold);
    say("a look at nothing new", &mut idle);
    Ok(())
}

fn say(what: &str, times: &mut [std::time::Duration]) {
    times.sort();
    let worst = times.last().copied().unwrap_or_default();
    println!("{what:<32} median {:>8.2?}  worst {worst:>8.2?}", times[times.len() / 2]);
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
             owner_host, epoch, lease_until) SELECT ?1, kind, project, ?2, workspace, ?3, ?4, ?5, owner_pid, owner_start,
             owner_boot, owner_host, epoch, lease_until FROM streams WHERE id = ?6",
        )?;
        let mut event =
            transaction.prepare("INSERT INTO events (seq, stream, at, body) VALUES (?1, ?2, ?3, ?4)")?;
        let now = Timestamp::now().as_microsecond();
        for number in 0..loops {
            let own = format!("b{number:09}");
            let task = format!("task-{number}");
            let is_open = number < OPEN;
            let mut own_view =
                view.replace(&id, &own).replace("\"task\":\"t\"", &format!("\"task\":\"{task}\""));
            if is_open {
                let mut value: serde_json::Value = serde_json::from_str(&own_view).unwrap_or_default();
                for key in ["reason", "ended_at", "exit_code"] {
                    value[key] = serde_json::Value::Null;
                }
                value["state"] = "running".into();
                own_view = value.to_string();
            }
            let head = seq + i64::from(EVENTS);
            stream.execute(params![own, task, head, !is_open, own_view, id])?;
            let key = transaction.last_insert_rowid();
            for _ in 0..EVENTS {
                seq += 1;
                event.execute(params![
                    seq,
                    key,
                    now - (i64::from(loops) - i64::from(number)) * 60_000_000,
                    body
                ])?;
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
