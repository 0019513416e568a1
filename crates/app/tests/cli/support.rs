//! What these tests share: a world, one task in it, and short questions to its journal and its bus.

use std::{ffi::OsString, fs, path::PathBuf, time::Duration};

use dacapo_testkit::{LedgerEvent, Output, Running, TestEnv};
use serde_json::Value;

/// Far more than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_dacapo"))
}

/// Task `t` of project `p`, which most tests are about.
pub(crate) trait Task {
    /// `dacapo run` of the scripted agent on the task.
    fn loop_args(&self, script: &str, extra: &[&str]) -> Vec<OsString>;
    fn run_loop(&self, script: &str, extra: &[&str]) -> Output;
    /// Starts the loop and waits until its agent has made the file `ready` in the workspace.
    fn start_loop(&self, script: &str, extra: &[&str]) -> Running;
    /// The arguments of `dacapo run` for another task, as a line for a shell.
    fn shell_line(&self, task: &str, script: &str, extra: &str) -> String;
    fn folder(&self, task: &str) -> PathBuf;
    /// Makes the folder of task `t` before its first loop.
    fn make_folder(&self) -> PathBuf;
    fn wait_for_file(&self, name: &str);
    fn wait_for_event(&self, task: &str, kind: &str);
    fn events_of(&self, task: &str, kind: &str) -> Vec<Value>;
    fn types(&self, task: &str) -> Vec<String>;
    /// Type and body of each message on a task's bus.
    fn bus(&self, task: &str) -> Vec<(String, String)>;
    fn assert_on_bus(&self, kind: &str, body: &str);
    /// How often agents were started, by their own account.
    fn starts(&self) -> usize;
    fn status(&self, task: &str) -> Value;
    fn prompt(&self, iteration: u32) -> String;
}

impl Task for TestEnv {
    fn loop_args(&self, script: &str, extra: &[&str]) -> Vec<OsString> {
        self.run_agent_args(script, ["--project", "p", "--task", "t"].iter().chain(extra))
    }

    #[track_caller]
    fn run_loop(&self, script: &str, extra: &[&str]) -> Output {
        self.run(self.loop_args(script, extra))
    }

    #[track_caller]
    fn start_loop(&self, script: &str, extra: &[&str]) -> Running {
        let running = self.spawn(self.loop_args(script, extra));
        self.wait_for_file("ready");
        running
    }

    fn shell_line(&self, task: &str, script: &str, extra: &str) -> String {
        let agent = self.agent_cmd_for(script);
        format!(
            "dacapo run 'a part of it' --project p --task {task} --agent-cmd \"{agent}\" --restart-delay 0s \
             --kill-grace 100ms {extra}"
        )
    }

    fn folder(&self, task: &str) -> PathBuf {
        self.dacapo_home().join("projects/p").join(task)
    }

    fn make_folder(&self) -> PathBuf {
        let folder = self.folder("t");
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[track_caller]
    fn wait_for_file(&self, name: &str) {
        let file = self.workspace().join(name);
        self.wait_until(&format!("`{name}` is there"), LONG, || file.exists());
    }

    #[track_caller]
    fn wait_for_event(&self, task: &str, kind: &str) {
        let is_there = || {
            let output = self.run(["events", task, "--json"]);
            output.code == Some(0) && output.stdout.contains(&format!("\"type\":\"{kind}\""))
        };
        self.wait_until(&format!("there is a `{kind}` in task {task}"), LONG, is_there);
    }

    #[track_caller]
    fn events_of(&self, task: &str, kind: &str) -> Vec<Value> {
        self.events(Some(task)).into_iter().filter(|event| event["type"] == kind).collect()
    }

    #[track_caller]
    fn types(&self, task: &str) -> Vec<String> {
        self.events(Some(task)).iter().filter_map(|event| event["type"].as_str().map(str::to_owned)).collect()
    }

    #[track_caller]
    fn bus(&self, task: &str) -> Vec<(String, String)> {
        let output = self.run(["bus", "read", "--json", "--project", "p", "--task", task]).assert_code(0);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|message| (text(&message["type"]), text(&message["body"]))).collect()
    }

    #[track_caller]
    fn assert_on_bus(&self, kind: &str, body: &str) {
        let bus = self.bus("t");
        assert!(bus.iter().any(|(k, b)| k == kind && b == body), "no {kind} `{body}` among {bus:#?}");
    }

    fn starts(&self) -> usize {
        self.ledger().iter().filter(|line| line.event == LedgerEvent::Start).count()
    }

    #[track_caller]
    fn status(&self, task: &str) -> Value {
        let output = self.run(["status", task, "--json"]).assert_code(0);
        serde_json::from_str::<Value>(&output.stdout).expect("JSON")[0].clone()
    }

    #[track_caller]
    fn prompt(&self, iteration: u32) -> String {
        self.run(["logs", "t", "--prompt", "--iteration", &iteration.to_string()]).assert_code(0).stdout
    }
}

/// Panics with the whole text unless `part` is in it.
#[track_caller]
pub(crate) fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no `{part}` in:\n{text}");
}

/// The last line of standard error, where the reason stands.
pub(crate) fn last_line(output: &Output) -> &str {
    output.reason()
}
