//! A journal of each version of the format, with every kind of event in it: this version opens, lists, explains, verifies
//! and resumes all of it. `scripts/write-journal` has written them. A new kind of event comes with another journal beside
//! these, since one that was released is never written again.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use dacapo_core::event::{LoopEvent, RunEvent};
use serde_json::Value;

/// Where the journals were written: they hold absolute paths.
const ROOT: &str = "/tmp/dacapo-journal";

/// A journal that was unpacked, for one test at a time.
struct Unpacked {
    _lock: File,
}

impl Unpacked {
    fn new(fixture: &str) -> Self {
        let lock = File::create(format!("{ROOT}.lock")).expect("a lock file");
        lock.lock().expect("the lock");
        let _ = fs::remove_dir_all(ROOT);
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
        let status = Command::new("tar")
            .arg("-xzf")
            .arg(file)
            .args(["-C", "/tmp"])
            .status()
            .expect("tar can be started");
        assert!(status.success(), "{fixture} can be unpacked");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dacapo"), format!("{ROOT}/bin/dacapo"))
            .expect("a link");
        Self { _lock: lock }
    }

    /// `dacapo` in a folder of the fixture: its exit code and what it printed.
    #[track_caller]
    fn run(&self, folder: &str, args: &[&str]) -> (i32, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_dacapo"))
            .args(args)
            .current_dir(Path::new(ROOT).join(folder))
            .env_clear()
            .env("PATH", format!("{ROOT}/bin:/usr/bin:/bin"))
            .env("HOME", format!("{ROOT}/home"))
            .env("DACAPO_HOME", format!("{ROOT}/state"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("dacapo can be started");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap_or(-1), said)
    }

    #[track_caller]
    fn well(&self, folder: &str, args: &[&str]) -> String {
        let (code, said) = self.run(folder, args);
        assert_eq!(code, 0, "{args:?}: {said}");
        said
    }

    fn events(&self) -> Vec<Value> {
        self.well("work", &["events", "--json"])
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect()
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(ROOT);
    }
}

/// The names of all kinds of events, asked of the type: one that cannot read a name says which names it knows.
fn kinds<T: serde::de::DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
    let error =
        serde_json::from_str::<T>(r#"{"type": "?"}"#).expect_err("no kind is called that").to_string();
    let (_, known) = error.split_once("expected ").expect("what it knows");
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The journal of the format that is written now. Its events carry hashes.
const NEWEST: &str = "journal-6.tar.gz";

/// Different values of a field.
fn ids(events: &[Value], field: &str) -> BTreeSet<String> {
    events.iter().filter_map(|event| event[field].as_str().map(str::to_owned)).collect()
}

/// Kinds of events that dacapo learned after the newest journal was written. It is empty again when the next one is.
const IN_NO_JOURNAL: [&str; 1] = ["unit.target_moved"];

#[test]
fn every_kind_of_event_is_in_the_newest_journal() {
    let journal = Unpacked::new(NEWEST);
    let written = ids(&journal.events(), "type");
    let known: BTreeSet<String> = kinds::<LoopEvent>().into_iter().chain(kinds::<RunEvent>()).collect();
    let missing: Vec<_> =
        known.difference(&written).filter(|kind| !IN_NO_JOURNAL.contains(&kind.as_str())).collect();
    assert!(missing.is_empty(), "kinds of events that no journal holds: {missing:?}");
}

#[test]
fn a_loop_in_a_session_goes_on_from_an_old_journal() {
    for fixture in ["journal-5-sessions.tar.gz", NEWEST] {
        goes_on_in_a_session(fixture);
    }
}

#[track_caller]
fn goes_on_in_a_session(fixture: &str) {
    let journal = Unpacked::new(fixture);
    let before = journal.events();
    let state = journal.well("session", &["session", "state", "--session", "fixture", "--json"]);
    let state: Value = serde_json::from_str(&state).expect("JSON");
    assert_eq!((&state["prompt"], &state["iteration"]), (&"do it".into(), &2.into()), "{state}");
    journal.well("session", &["session", "cancel", "--session", "fixture"]);
    assert_eq!(journal.events()[..before.len()], before[..], "nothing that was recorded has changed");
}

#[test]
fn a_journal_is_opened_listed_explained_verified_and_resumed() {
    for fixture in ["journal-5.tar.gz", "journal-5-sessions.tar.gz"] {
        is_opened_listed_explained_verified_and_resumed(fixture, false);
    }
    is_opened_listed_explained_verified_and_resumed(NEWEST, true);
}

#[track_caller]
fn is_opened_listed_explained_verified_and_resumed(fixture: &str, is_chained: bool) {
    let journal = Unpacked::new(fixture);
    let events = journal.events();

    // Listed.
    journal.well("work", &["status"]);
    for task in [
        "proven",
        "to-resume",
        "no-evidence",
        "budget",
        "parked",
        "switched",
        "question",
        "blocked",
        "controlled",
    ] {
        assert!(journal.well("work", &["status", task]).contains(task), "{task}");
    }
    journal.well("work", &["status", "--json"]);
    // Explained, each of them.
    for id in ids(&events, "loop") {
        let why = journal.well("work", &["why", &id]);
        assert!(why.len() > 40, "{id}: {why}");
        journal.well("work", &["logs", &id]);
    }
    for id in ids(&events, "run") {
        journal.well("work", &["why", &id]);
    }
    // Verified.
    let verified = journal.well("work", &["verify", "proven"]);
    assert!(verified.contains("is sound"), "{verified}");
    assert_eq!(verified.contains("from before dacapo chained events"), !is_chained, "{verified}");
    assert_eq!(verified.contains("from before dacapo signed receipts"), !is_chained, "{verified}");
    assert_eq!(journal.run("work", &["receipt", "proven", "--in-toto"]).0, i32::from(!is_chained));

    // Resumed: a loop, and a run that was cancelled.
    let said = journal.well("work", &["resume", "to-resume", "-n", "1"]);
    assert!(said.contains("completed"), "{said}");
    // What was recorded before goes on as a part of the chain, and the receipt is signed.
    let verified = journal.well("work", &["verify", "to-resume"]);
    assert_eq!(verified.contains("as they were when the loop went on"), !is_chained, "{verified}");
    journal.well("work", &["receipt", "to-resume", "--in-toto"]);
    fs::write(format!("{ROOT}/go-5"), "").expect("the file can be written");
    journal.well("units-controlled", &["resume", "a", "--trust"]);
    let after = journal.events();
    assert_eq!(after[..events.len()], events[..], "nothing that was recorded has changed");
    let merged = after[events.len()..].iter().any(|event| event["type"] == "unit.merged");
    assert!(merged, "the unit of the cancelled run is merged");
}
