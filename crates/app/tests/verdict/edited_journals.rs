//! A journal that something else than dacapo has written to: `verify` says so, and `resume` runs nothing. All edits are made
//! with the user's rights and without the machine's key, as a program could make them that does not know of it.

use std::{fs, path::PathBuf};

use dacapo_core::chain::{ChainedEvent, Link};
use dacapo_testkit::{Output, TestEnv};
use rusqlite::{Connection, params};

use crate::support::*;

/// A repository with two loops: `t` was refused once and then accepted, `f` ended without an accepted claim.
struct Journal {
    env: TestEnv,
    /// The database as the loops left it.
    bytes: Vec<u8>,
}

const LIES_FIRST: &str =
    "test -e ../lied && echo fixed >work.txt; touch ../lied; echo x >>y; echo '<promise>DONE</promise>'";
const GATE: &str = "./check.sh";

impl Journal {
    fn new() -> Self {
        let env = repository();
        env.loop_of(LIES_FIRST, &["-n", "3", "--gate", GATE]).assert_code(0);
        env.sh("git add -A; git commit -qm t; echo broken >work.txt; git commit -qam again").assert_code(0);
        let mut args =
            env.args_of("echo z >>z; echo '<promise>DONE</promise>'", &["-n", "2", "--gate", GATE]);
        let task = args.iter().position(|arg| arg == "t").expect("the task");
        args[task] = "f".into();
        env.run(args).assert_code(3);
        env.run(["verify", "t"]).assert_code(0);
        let db = Connection::open(env.dacapo_home().join("dacapo.db")).expect("the journal");
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("all of it in one file");
        drop(db);
        let bytes = fs::read(env.dacapo_home().join("dacapo.db")).expect("the journal");
        Self { env, bytes }
    }

    fn file(&self) -> PathBuf {
        self.env.dacapo_home().join("dacapo.db")
    }

    /// The journal as it was, for an edit.
    fn fresh(&self) -> Connection {
        for more in ["dacapo.db-wal", "dacapo.db-shm"] {
            let _ = fs::remove_file(self.env.dacapo_home().join(more));
        }
        fs::write(self.file(), &self.bytes).expect("the journal");
        Connection::open(self.file()).expect("the journal")
    }

    fn run(&self, args: [&str; 2]) -> Output {
        self.env.run(args)
    }
}

fn key_of(db: &Connection, task: &str) -> i64 {
    db.query_row("SELECT key FROM streams WHERE task = ?1", [task], |row| row.get(0)).expect("a stream")
}

fn id_of(db: &Connection, task: &str) -> String {
    db.query_row("SELECT id FROM streams WHERE task = ?1", [task], |row| row.get(0)).expect("a stream")
}

/// Computes the hashes of a stream anew, as a program can that has read how it is done and has no key.
fn rehash(db: &Connection, task: &str) {
    let (key, id) = (key_of(db, task), id_of(db, task));
    let mut rows = db
        .prepare("SELECT seq, at, subject, body FROM events WHERE stream = ?1 ORDER BY seq")
        .expect("a statement");
    let rows: Vec<(i64, i64, Option<String>, String)> = rows
        .query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("rows");
    let mut link = Link::beginning("loop", &id, &dacapo_core::receipt::sha256(b""));
    for (seq, at, subject, body) in &rows {
        let event = ChainedEvent { seq: seq.cast_unsigned(), at: *at, subject: subject.as_deref(), body };
        link = link.next(event);
        db.execute("UPDATE events SET chain = ?2 WHERE seq = ?1", params![seq, link.bytes()])
            .expect("an edit");
    }
    let head = rows.last().map(|row| row.0);
    db.execute("UPDATE streams SET head = ?2 WHERE key = ?1", params![key, head]).expect("an edit");
}

fn edit(db: &Connection, sql: &str) {
    let before = db.total_changes();
    db.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert!(db.total_changes() > before, "nothing was edited: {sql}");
}

/// Where an event of loop `t` stands, as SQL.
fn at(kind: &str) -> String {
    format!("stream = (SELECT key FROM streams WHERE task = 't') AND body ->> '$.type' = '{kind}'")
}

#[test]
fn verify_finds_every_edit_of_a_proven_loop() {
    let journal = Journal::new();
    let receipt = at("receipt_issued");
    let of_t = "stream = (SELECT key FROM streams WHERE task = 't')";
    let edits: Vec<(&str, String)> = vec![
        ("fewer refusals", format!("UPDATE events SET body = json_set(body, '$.receipt.refusals', json('[]')) WHERE {receipt}")),
        ("fewer iterations", format!("UPDATE events SET body = json_set(body, '$.receipt.iterations', 1) WHERE {receipt}")),
        ("another gate in the receipt", format!("UPDATE events SET body = json_set(body, '$.receipt.gates[0].command', 'true') WHERE {receipt}")),
        ("another tree", format!("UPDATE events SET body = json_set(body, '$.receipt.tree', '4b825dc642cb6eb9a060e54bf8d69288fbee4904') WHERE {receipt}")),
        ("a stronger sandbox", format!("UPDATE events SET body = json_set(body, '$.receipt.sandbox', 'workspace') WHERE {receipt}")),
        ("another time", format!("UPDATE events SET at = at - 3600000000 WHERE {receipt}")),
        ("the refusal removed", format!("DELETE FROM events WHERE {}", at("claim_refused"))),
        ("a failed gate made green", format!("UPDATE events SET body = json_set(body, '$.exit_code', 0, '$.passed', json('true')) WHERE seq = (SELECT MIN(seq) FROM events WHERE {})", at("gate_finished"))),
        ("the gate in the settings", format!("UPDATE events SET body = replace(body, '{GATE}', 'true') WHERE {}", at("loop_started"))),
        ("the prompt", format!("UPDATE events SET body = replace(body, 'do it', 'do that') WHERE {}", at("loop_started"))),
        ("the end removed", format!("DELETE FROM events WHERE {}", at("loop_finished"))),
        ("the end removed, and the head", format!("DELETE FROM events WHERE {}; UPDATE streams SET head = (SELECT MAX(seq) FROM events WHERE {of_t}) WHERE task = 't'", at("loop_finished"))),
        ("an event twice", format!("INSERT INTO events (seq, stream, at, body, chain) SELECT 9999, stream, at, body, chain FROM events WHERE {} LIMIT 1", at("gate_finished"))),
        ("an event moved to the front", format!("UPDATE events SET seq = 0 WHERE seq = (SELECT MIN(seq) FROM events WHERE {})", at("claim_made"))),
        ("an event of the other loop", "UPDATE events SET stream = (SELECT key FROM streams WHERE task = 't') WHERE seq = (SELECT MAX(seq) FROM events)".to_owned()),
        ("the hashes taken off", format!("UPDATE events SET chain = NULL WHERE {of_t}; UPDATE streams SET mac = NULL WHERE task = 't'")),
        ("the keyed hash taken off", "UPDATE streams SET mac = NULL WHERE task = 't'".to_owned()),
        ("the view", "UPDATE streams SET view = json_set(view, '$.iteration', 1) WHERE task = 't'".to_owned()),
        ("the parent", "UPDATE streams SET parent = (SELECT o.id FROM streams o WHERE o.task = 'f') WHERE task = 't'".to_owned()),
        ("the signature removed", "DELETE FROM attestations".to_owned()),
        ("the signature edited", "UPDATE attestations SET envelope = json_set(envelope, '$.signatures[0].sig', iif(substr(envelope ->> '$.signatures[0].sig', 1, 1) = 'A', 'B', 'A') || substr(envelope ->> '$.signatures[0].sig', 2))".to_owned()),
        ("the signed receipt edited", "UPDATE attestations SET envelope = json_set(envelope, '$.payload', replace(envelope ->> '$.payload', 'a', 'b'))".to_owned()),
        ("no signature in the envelope", "UPDATE attestations SET envelope = json_set(envelope, '$.signatures', json('[]'))".to_owned()),
        ("another statement in its place", "UPDATE attestations SET envelope = (SELECT o.envelope FROM attestations o WHERE o.predicate LIKE '%test-result%') WHERE predicate NOT LIKE '%test-result%'".to_owned()),
    ];
    assert!(edits.len() >= 24);
    for (what, sql) in &edits {
        let db = journal.fresh();
        edit(&db, sql);
        drop(db);
        let output = journal.run(["verify", "t"]);
        assert_eq!(output.code, Some(1), "{what}: {}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains("NOT SOUND"), "{what}: {}", output.stdout);
        // The same by a program that computes the hashes anew.
        let db = journal.fresh();
        edit(&db, sql);
        rehash(&db, "t");
        drop(db);
        let output = journal.run(["verify", "t"]);
        assert_eq!(output.code, Some(1), "{what}, rehashed: {}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains("NOT SOUND"), "{what}, rehashed: {}", output.stdout);
    }
    drop(journal.fresh());
    journal.run(["verify", "t"]).assert_code(0);
}

#[test]
fn resume_runs_nothing_of_an_edited_loop_and_names_the_place() {
    let journal = Journal::new();
    let agents = journal.env.agents();
    let of_f = "stream = (SELECT key FROM streams WHERE task = 'f')";
    let edits: Vec<(&str, String)> = vec![
        // The class `dacapo itself`: gates that are always green, and nothing to be refused for.
        (
            "gates are `true`",
            format!("UPDATE events SET body = replace(body, '{GATE}', 'true') WHERE {of_f}"),
        ),
        (
            "no gates",
            format!(
                "UPDATE events SET body = json_set(body, '$.policy.gates.specs', json('[]')) WHERE {of_f} AND body ->> '$.type' = 'loop_started'"
            ),
        ),
        (
            "nothing protected",
            format!(
                "UPDATE events SET body = json_set(body, '$.protected', json('[]')) WHERE {of_f} AND body ->> '$.type' = 'loop_started'"
            ),
        ),
        (
            "another agent",
            format!("UPDATE events SET body = replace(body, 'agent.sh', 'other.sh') WHERE {of_f}"),
        ),
        (
            "another workspace",
            format!(
                "UPDATE events SET body = json_set(body, '$.workspace', '/tmp') WHERE {of_f} AND body ->> '$.type' = 'loop_started'"
            ),
        ),
        (
            "a green gate",
            format!(
                "UPDATE events SET body = json_set(body, '$.exit_code', 0, '$.passed', json('true')) WHERE {of_f} AND body ->> '$.type' = 'gate_finished'"
            ),
        ),
        (
            "the refusals removed",
            format!("DELETE FROM events WHERE {of_f} AND body ->> '$.type' = 'claim_refused'"),
        ),
        (
            "the end removed",
            format!(
                "DELETE FROM events WHERE {of_f} AND body ->> '$.type' = 'loop_finished'; UPDATE streams SET over = 0, head = (SELECT MAX(seq) FROM events WHERE {of_f}) WHERE task = 'f'"
            ),
        ),
        (
            "a tree approved",
            format!(
                "INSERT INTO events (seq, stream, at, body) SELECT 9999, stream, at, json_object('type', 'tree_approved', 'tree', 'x', 'by', 'you') FROM events WHERE {of_f} LIMIT 1; UPDATE streams SET head = 9999 WHERE task = 'f'"
            ),
        ),
        (
            "more iterations",
            format!(
                "UPDATE events SET body = json_set(body, '$.policy.limits.max_iterations', 999) WHERE {of_f} AND body ->> '$.type' = 'loop_started'"
            ),
        ),
        (
            "the hashes taken off",
            format!(
                "UPDATE events SET body = replace(body, '{GATE}', 'true'), chain = NULL WHERE {of_f}; UPDATE streams SET mac = NULL WHERE task = 'f'"
            ),
        ),
        ("the view", "UPDATE streams SET view = json_set(view, '$.gates', 0) WHERE task = 'f'".to_owned()),
    ];
    for (what, sql) in &edits {
        for is_rehashed in [false, true] {
            let db = journal.fresh();
            edit(&db, sql);
            let id = id_of(&db, "f");
            if is_rehashed {
                rehash(&db, "f");
            }
            drop(db);
            let output = journal.run(["resume", "f"]);
            let what = format!("{what}, rehashed: {is_rehashed}\n{}{}", output.stdout, output.stderr);
            assert_eq!(output.code, Some(5), "{what}");
            assert!(output.stderr.contains(&format!("the journal of loop {id} was edited")), "{what}");
            assert!(
                output.stderr.contains("event ") && output.stderr.contains("hint: nothing was run"),
                "{what}"
            );
            assert_eq!(journal.env.agents(), agents, "{what}: an agent was started");
            // There is no receipt, and what is wrong is said all the same.
            let output = journal.run(["verify", "f"]);
            assert!(
                output.code != Some(0) && output.stderr.contains("was edited"),
                "{what}{}",
                output.stderr
            );
        }
    }
    // Another loop is not kept from beginning by it.
    journal
        .env
        .loop_of("echo fixed >work.txt; echo '<promise>DONE</promise>'", &["--gate", GATE])
        .assert_code(0);
}

#[test]
fn rows_of_a_proven_loop_do_not_prove_a_failed_one() {
    // The class `dacapo itself`: copied rows gave a failed loop a sound receipt.
    let journal = Journal::new();
    let copied = "INSERT INTO events (seq, stream, at, body, chain)
         SELECT 10000 + e.seq, (SELECT key FROM streams WHERE task = 'f'), e.at,
                replace(replace(e.body, (SELECT id FROM streams WHERE task = 't'), (SELECT id FROM streams WHERE task = 'f')), '\"task\":\"t\"', '\"task\":\"f\"'),
                e.chain
         FROM events e WHERE e.stream = (SELECT key FROM streams WHERE task = 't')
         AND e.body ->> '$.type' IN ('claim_made', 'gate_finished', 'claim_accepted', 'receipt_issued', 'loop_finished');
         UPDATE streams SET head = (SELECT MAX(seq) FROM events), view = json_set(view, '$.state', 'completed', '$.reason', 'done') WHERE task = 'f';
         INSERT INTO attestations (seq, predicate, envelope) SELECT 10000 + seq, predicate, envelope FROM attestations;";
    for is_rehashed in [false, true] {
        let db = journal.fresh();
        edit(&db, copied);
        if is_rehashed {
            rehash(&db, "f");
        }
        drop(db);
        let output = journal.run(["verify", "f"]).assert_code(1);
        assert_has(&output.stdout, "NOT SOUND: the journal was edited");
        assert_has(&output.stdout, "its gates were not run again");
    }
    // All rows of the proven loop under the name of the failed one.
    let db = journal.fresh();
    edit(
        &db,
        "UPDATE streams SET task = 'x' WHERE task = 'f'; UPDATE streams SET task = 'f', id = 'aaaaaaaaaa' WHERE task = 't';",
    );
    drop(db);
    assert_ne!(journal.run(["verify", "aaaaaaaaaa"]).code, Some(0));
    // The receipt of one loop in a file, made to name the other.
    drop(journal.fresh());
    let receipt = journal.env.run(["receipt", "t", "--json"]).assert_code(0).stdout;
    let db = journal.fresh();
    let (t, f) = (id_of(&db, "t"), id_of(&db, "f"));
    drop(db);
    fs::write(journal.env.root().join("forged.json"), receipt.replace(&t, &f)).expect("a file");
    let forged = journal.env.root().join("forged.json");
    let output = journal.env.run(["verify", forged.to_str().expect("UTF-8")]).assert_code(1);
    assert_has(&output.stdout, "NOT SOUND");
}

#[test]
fn an_object_that_was_replaced_is_found() {
    let env = repository();
    env.loop_of("echo fixed >work.txt; echo '<promise>DONE</promise>'", &["--gate", GATE]).assert_code(0);
    env.run(["verify", "t"]).assert_code(0);
    let snapshot = env.receipt()["snapshot"].as_str().expect("a snapshot").to_owned();
    // The gate is green with this content, too: only the hash tells.
    env.sh(&format!(
        "old=$(git rev-parse {snapshot}:work.txt); new=$(echo fixed elsewhere | git hash-object -w --stdin)
         file() {{ echo .git/objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); }}
         chmod u+w $(file $old); cp $(file $new) $(file $old)"
    ))
    .assert_code(0);
    let output = env.run(["verify", "t"]).assert_code(1);
    assert_has(
        &output.stdout,
        "NOT SOUND: an object of the snapshot was replaced, or git cannot read all of them",
    );
}

#[test]
fn a_journal_that_was_replaced_by_an_older_one_is_refused() {
    let journal = Journal::new();
    let db = journal.fresh();
    db.execute_batch(
        "ALTER TABLE events DROP COLUMN chain; ALTER TABLE streams DROP COLUMN mac; DROP TABLE attestations;
         DROP TABLE checkpoints;
         CREATE TABLE checkpoints (stream INTEGER PRIMARY KEY, seq INTEGER NOT NULL, folded_by TEXT NOT NULL, hash BLOB NOT NULL, state TEXT NOT NULL) STRICT;
         PRAGMA user_version = 5",
    )
    .expect("as the version before had it");
    drop(db);
    let output = journal.run(["verify", "t"]).assert_code(5);
    assert_has(&output.stderr, "the journal was replaced by an older one");
}

#[test]
fn a_stream_that_was_deleted_leaves_a_gap_that_is_told() {
    let journal = Journal::new();
    let told = "another program removed events from the journal";
    for args in [["doctor", "--json"], ["verify", "f"], ["verify", "t"]] {
        assert!(!journal.run(args).stdout.contains(told));
    }
    let db = journal.fresh();
    let (first, last): (i64, i64) = db
        .query_row(
            "SELECT MIN(seq), MAX(seq) FROM events WHERE stream = (SELECT key FROM streams WHERE task = 't')",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("a stream");
    let key = key_of(&db, "t");
    edit(&db, "PRAGMA foreign_keys = OFF; DELETE FROM attestations;");
    for table in ["events", "checkpoints", "spend", "looks", "requests"] {
        db.execute(&format!("DELETE FROM {table} WHERE stream = ?1"), [key]).expect("an edit");
    }
    db.execute("DELETE FROM streams WHERE key = ?1", [key]).expect("an edit");
    drop(db);
    let doctor = journal.env.run(["doctor"]);
    assert!(doctor.stdout.contains(&format!("{told}: {first} to {last} are gone")), "{}", doctor.stdout);
    // The loop that is left is what it was.
    let events = journal.env.run(["events", "f"]).assert_code(0);
    assert!(events.stdout.contains("iteration 1/2 started"), "{}", events.stdout);
}
