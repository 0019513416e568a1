//! A host that runs dacapo's hooks.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
};

use dacapo_testkit::{Output, TestEnv};
use serde_json::{Value, json};

/// A repository, and sessions in it.
pub(crate) struct Host {
    pub(crate) env: TestEnv,
}

impl Host {
    pub(crate) fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
        env.write("README.md", "A place for work.\n").git_init();
        Self { env }
    }

    /// The user's own configuration, whose commands need no consent.
    pub(crate) fn user(&self, config: &str) -> &Self {
        let folder = self.env.home().join(".config/dacapo");
        fs::create_dir_all(&folder).expect("as the test has it");
        fs::write(folder.join("config.yaml"), config).expect("as the test has it");
        self
    }

    /// Runs a command of dacapo with this on its standard input.
    #[track_caller]
    pub(crate) fn with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let file = self.env.root().join("stdin");
        fs::write(&file, input).expect("as the test has it");
        let mut command = self.env.dacapo(args);
        command.stdin(File::open(file).expect("as the test has it"));
        self.env.run_command(command)
    }

    /// Runs a hook; its answer as JSON, `null` if it said nothing.
    #[track_caller]
    pub(crate) fn hook(&self, args: &[&str], input: &Value) -> Value {
        let output =
            self.with_input(&[&["hook"], args].concat(), input.to_string().as_bytes()).assert_code(0);
        match output.stdout.trim() {
            "" => Value::Null,
            text => serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}")),
        }
    }

    /// What Claude Code says when its agent stops.
    pub(crate) fn stop_input(&self, session: &str, words: &str) -> Value {
        json!({"session_id": session, "cwd": self.env.workspace(), "hook_event_name": "Stop",
            "stop_hook_active": false, "last_assistant_message": words, "background_tasks": []})
    }

    #[track_caller]
    pub(crate) fn stop(&self, session: &str, words: &str) -> Value {
        self.hook(&["stop", "--agent", "claude"], &self.stop_input(session, words))
    }

    /// The agent changes a file and stops.
    #[track_caller]
    pub(crate) fn work_and_stop(&self, session: &str, words: &str) -> Value {
        let file = self.env.workspace().join("work");
        let mut work = File::options().create(true).append(true).open(file).expect("as the test has it");
        writeln!(work, "{words}").expect("as the test has it");
        self.stop(session, words)
    }

    #[track_caller]
    pub(crate) fn prompt(&self, session: &str, words: &str) -> Value {
        let input = json!({"session_id": session, "cwd": self.env.workspace(), "prompt": words});
        self.hook(&["prompt", "--agent", "claude"], &input)
    }

    #[track_caller]
    pub(crate) fn start(&self, session: &str, more: &[&str]) -> Output {
        self.env.run([&["session", "start", "--session", session, "Fix it."], more].concat())
    }

    #[track_caller]
    pub(crate) fn state(&self, session: &str) -> Value {
        let output = self.env.run(["session", "state", "--session", session, "--json"]).assert_code(0);
        serde_json::from_str(&output.stdout).expect("as the test has it")
    }

    /// The newest `loop_finished` of the journal.
    #[track_caller]
    pub(crate) fn end(&self) -> Value {
        let mut ends = self.env.events(None).into_iter().filter(|event| event["type"] == "loop_finished");
        ends.next_back().unwrap_or_default()
    }

    pub(crate) fn transcript(&self, session: &str) -> PathBuf {
        self.env.root().join(format!("{session}.jsonl"))
    }
}

#[track_caller]
pub(crate) fn assert_sent_back(answer: &Value, iteration: &str) {
    assert_eq!(answer["decision"], "block", "{answer}");
    let header = format!("[RALPH LOOP - ITERATION {iteration}]");
    assert!(answer["reason"].as_str().is_some_and(|reason| reason.starts_with(&header)), "{answer}");
}

#[track_caller]
pub(crate) fn assert_let_go(answer: &Value) {
    assert_eq!(answer["decision"], Value::Null, "{answer}");
}
