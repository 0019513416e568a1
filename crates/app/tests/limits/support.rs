//! What these tests share: a world with agents of the user's own in it, and short questions to its journal.

use std::{fs, time::Duration};

use dacapo_testkit::{LedgerEvent, Output, Running, TestEnv, fake_agent};
use jiff::Timestamp;
use serde_json::Value;

/// Far more than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(40);

pub(crate) fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_dacapo"))
}

/// A world in which `mine` prints what Claude Code does; each of its runs follows the next script.
pub(crate) fn world_of(turns: &[&str]) -> TestEnv {
    let env = world();
    env.configure(&[("mine", "claude", "anthropic", turns)], "limits: {backoff: 100ms}");
    env
}

pub(crate) fn in_seconds(seconds: i64) -> i64 {
    Timestamp::now().as_second() + seconds
}

/// Task `t` of project `p`, which most tests are about.
pub(crate) trait Limits {
    /// Writes the user's configuration: agents as name, output, provider and scripts, and what else is in it.
    fn configure(&self, agents: &[(&str, &str, &str, &[&str])], rest: &str);
    /// `dacapo run` of agent `mine`, without delays.
    fn args<'a>(&self, task: &'a str, extra: &[&'a str]) -> Vec<&'a str>;
    fn run_mine(&self, extra: &[&str]) -> Output;
    fn start_mine(&self, extra: &[&str]) -> Running;
    fn wait_for_file(&self, name: &str);
    fn wait_for_event(&self, task: &str, kind: &str);
    fn wait_for_state(&self, task: &str, state: &str);
    fn events_of(&self, task: &str, kind: &str) -> Vec<Value>;
    /// The outcomes of all agents of task `t`.
    fn outcomes(&self) -> Vec<String>;
    fn status(&self, task: &str) -> Value;
    /// What it has cost so far; nothing also while there is no such loop.
    fn cost(&self, task: &str) -> Option<f64>;
    fn why(&self, task: &str) -> String;
    fn starts(&self) -> usize;
}

impl Limits for TestEnv {
    fn configure(&self, agents: &[(&str, &str, &str, &[&str])], rest: &str) {
        let mut config = format!("{rest}\nagents:\n");
        for (name, output, provider, turns) in agents {
            let (program, turns) = (fake_agent(), self.turns(turns));
            config.push_str(&format!(
                "  {name}:\n    command: [\"{}\", --turns, \"{}\"]\n    output: {output}\n    provider: {provider}\n    \
                 resume: [--resume, \"{{session}}\"]\n    model: [--model, \"{{model}}\"]\n",
                program.display(),
                turns.display()
            ));
        }
        let folder = self.home().join(".config/dacapo");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("config.yaml"), config).expect("a file");
    }

    fn args<'a>(&self, task: &'a str, extra: &[&'a str]) -> Vec<&'a str> {
        let fixed = ["run", "do it", "--agent", "mine", "--project", "p", "--task", task];
        let quick = ["--restart-delay", "0s", "--kill-grace", "100ms"];
        // What is given twice would be an error.
        let quick = quick.chunks(2).filter(|flag| !extra.contains(&flag[0])).flatten();
        fixed.iter().chain(quick).chain(extra).copied().collect()
    }

    #[track_caller]
    fn run_mine(&self, extra: &[&str]) -> Output {
        self.run(self.args("t", extra))
    }

    #[track_caller]
    fn start_mine(&self, extra: &[&str]) -> Running {
        self.spawn(self.args("t", extra))
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
    fn wait_for_state(&self, task: &str, state: &str) {
        let is_so = || {
            let output = self.run(["status", task, "--json"]);
            output.code == Some(0) && output.stdout.contains(&format!("\"state\":\"{state}\""))
        };
        self.wait_until(&format!("task {task} is {state}"), LONG, is_so);
    }

    #[track_caller]
    fn events_of(&self, task: &str, kind: &str) -> Vec<Value> {
        self.events(Some(task)).into_iter().filter(|event| event["type"] == kind).collect()
    }

    #[track_caller]
    fn outcomes(&self) -> Vec<String> {
        let word = |event: &Value| event["outcome"].as_str().unwrap_or_default().to_owned();
        self.events_of("t", "agent_exited").iter().map(word).collect()
    }

    #[track_caller]
    fn status(&self, task: &str) -> Value {
        let output = self.run(["status", task, "--json"]).assert_code(0);
        serde_json::from_str::<Value>(&output.stdout).expect("JSON")[0].clone()
    }

    fn cost(&self, task: &str) -> Option<f64> {
        let output = self.run(["status", task, "--json"]);
        serde_json::from_str::<Value>(&output.stdout).ok()?[0]["cost_usd"].as_f64()
    }

    #[track_caller]
    fn why(&self, task: &str) -> String {
        self.run(["why", task]).assert_code(0).stdout
    }

    fn starts(&self) -> usize {
        self.ledger().iter().filter(|line| line.event == LedgerEvent::Start).count()
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
