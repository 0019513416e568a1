//! What these tests share: a small project, agents that are shell scripts, and questions to the journal.

use std::{ffi::OsString, fs, process::Command, time::Duration};

use dacapo_testkit::{Output, TestEnv};
use serde_json::Value;

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What an agent says when it claims to be done.
pub(crate) const PROMISE: &str = "echo '<promise>DONE</promise>'";

/// A project whose check is red until `work.txt` says `fixed`.
pub(crate) fn project() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.write("check.sh", "#!/bin/sh\n. ./lib.sh\ngrep -q fixed work.txt\n");
    env.write("lib.sh", "# nothing yet\n");
    env.write("work.txt", "broken\n");
    env.write("tests/a.test", "expect fixed\n");
    env.write("tests/b.test", "expect more\n");
    env.write("lint.cfg", "strict\n");
    env.write("Makefile", "check:\n\tgrep -q fixed work.txt\n");
    env.write("scripts/check.sh", "grep -q fixed work.txt\n");
    env.sh("chmod +x check.sh").assert_code(0);
    env
}

/// The same as a repository.
pub(crate) fn repository() -> TestEnv {
    let env = project();
    env.git_init();
    env
}

pub(crate) trait World {
    /// A shell in the workspace.
    fn sh(&self, script: &str) -> Output;
    /// The arguments of a loop whose agent is a shell script.
    fn args_of(&self, agent: &str, extra: &[&str]) -> Vec<OsString>;
    fn command_of(&self, agent: &str, extra: &[&str]) -> Command;
    fn loop_of(&self, agent: &str, extra: &[&str]) -> Output;
    fn of_type(&self, kind: &str) -> Vec<Value>;
    fn receipt(&self) -> Value;
    fn id(&self) -> String;
    /// How often an agent was started, by its own account.
    fn agents(&self) -> usize;
}

impl World for TestEnv {
    #[track_caller]
    fn sh(&self, script: &str) -> Output {
        let mut command = self.command("sh");
        command.args(["-ec", script]);
        self.run_command(command)
    }

    fn args_of(&self, agent: &str, extra: &[&str]) -> Vec<OsString> {
        let file = self.root().join("agent.sh");
        let ledger = self.root().join("agents");
        fs::write(&file, format!("echo $DACAPO_ITERATION >>{}\n{agent}\n", ledger.display()))
            .expect("a script");
        let agent = format!("sh {}", file.display());
        let fixed = ["run", "do it", "--project", "p", "--task", "t", "--agent-cmd", &agent];
        let fast = ["--restart-delay", "0s", "--kill-grace", "100ms"];
        // Where tests are compared and gates run in checkouts is the subject of `goalposts`; the other tests count gates.
        let has = |flag: &str| extra.contains(&flag);
        let tests = (!has("--tests") && !has("--may-edit-tests")).then_some(["--tests", "free"]);
        let gate_in = (!has("--gate-in")).then_some(["--gate-in", "workspace"]);
        let plain: Vec<&str> = tests.into_iter().chain(gate_in).flatten().collect();
        fixed.iter().chain(&fast).chain(extra).chain(&plain).map(OsString::from).collect()
    }

    fn command_of(&self, agent: &str, extra: &[&str]) -> Command {
        self.dacapo(self.args_of(agent, extra))
    }

    #[track_caller]
    fn loop_of(&self, agent: &str, extra: &[&str]) -> Output {
        self.run_command(self.command_of(agent, extra))
    }

    #[track_caller]
    fn of_type(&self, kind: &str) -> Vec<Value> {
        self.events(Some("t")).into_iter().filter(|event| event["type"] == kind).collect()
    }

    #[track_caller]
    fn receipt(&self) -> Value {
        let output = self.run(["receipt", "t", "--json"]).assert_code(0);
        serde_json::from_str(&output.stdout).expect("JSON")
    }

    #[track_caller]
    fn id(&self) -> String {
        self.events(Some("t"))[0]["loop"].as_str().expect("an id").to_owned()
    }

    fn agents(&self) -> usize {
        fs::read_to_string(self.root().join("agents")).unwrap_or_default().lines().count()
    }
}

#[track_caller]
pub(crate) fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no `{part}` in:\n{text}");
}
