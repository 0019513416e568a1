//! What these tests share: a repository, a model with its script, and a real agent between the two.

use std::{fs, process::Command, time::Duration};

use dacapo_testkit::{
    Output, PreparedAgent, RealAgent, Running, TestEnv,
    model_server::{ModelServer, ScriptedTurn, ToolCall},
};
use serde_json::Value;

/// Longer than any loop here takes on a busy machine, and less than the agents' own retries do.
pub(crate) const LONG: Duration = Duration::from_secs(100);

/// What the user asks for. Some agents print it again, and a tag that is alone on its line would be a claim.
pub(crate) const PROMPT: &str = "Write the steps. At the very end say\n<promise>DONE</promise>\n";

/// One real agent in a repository, with a model that follows a script.
pub(crate) struct Stage {
    pub(crate) env: TestEnv,
    pub(crate) server: ModelServer,
    pub(crate) agent: PreparedAgent,
    name: &'static str,
}

impl Stage {
    /// The agent may be run by root.
    #[track_caller]
    pub(crate) fn set(agent: RealAgent, turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        Self::in_world(TestEnv::new(env!("CARGO_BIN_EXE_dacapo")), agent, turns)
    }

    #[track_caller]
    pub(crate) fn in_world(
        env: TestEnv,
        agent: RealAgent,
        turns: impl IntoIterator<Item = ScriptedTurn>,
    ) -> Self {
        env.write("README.md", "A place for steps.\n").git_init();
        let server = ModelServer::start(turns);
        let prepared = agent.prepare(&env, &server).unwrap_or_else(|error| panic!("{error}"));
        let stage = Self { env, server, agent: prepared, name: agent.name() };
        stage.user("permissions: {allow_root: true}\n");
        stage
    }

    /// The user's own configuration.
    pub(crate) fn user(&self, config: &str) {
        let folder = self.env.home().join(".config/dacapo");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("config.yaml"), config).expect("the configuration");
    }

    /// dacapo with what the agent needs in its environment.
    pub(crate) fn dacapo(&self, args: &[&str]) -> Command {
        let mut command = self.env.dacapo(args);
        self.agent.give_to(&mut command);
        command
    }

    /// Starts the loop of task `t`.
    #[track_caller]
    pub(crate) fn spawn(&self, extra: &[&str]) -> Running {
        let fixed =
            ["run", PROMPT, "-a", self.name, "--project", "p", "--task", "t", "--restart-delay", "0s"];
        let own: &[&str] = match self.name {
            // Left to itself, it asks another model first which one to ask.
            "gemini" => &["--model", "gemini-2.5-pro"],
            "pi" => &["--model", "scripted-model", "--", "--provider", "tests"],
            _ => &[],
        };
        Running::start(self.dacapo(&[&fixed, extra, own].concat()))
    }

    /// Goes on with it.
    #[track_caller]
    pub(crate) fn resume(&self) -> Running {
        Running::start(self.dacapo(&["resume", "t"]))
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&self, extra: &[&str]) -> Output {
        self.spawn(extra).wait(LONG)
    }

    /// Events of one type.
    #[track_caller]
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        self.env.events(Some("t")).into_iter().filter(|event| event["type"] == kind).collect()
    }

    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let output = self.env.run(["status", "t", "--json"]).assert_code(0);
        serde_json::from_str::<Value>(&output.stdout).expect("JSON")[0].clone()
    }

    /// What a person is shown by a command about the loop.
    #[track_caller]
    pub(crate) fn told(&self, args: &[&str]) -> String {
        self.env.run([args[0], "t"].iter().chain(&args[1..])).assert_code(0).stdout
    }

    /// A tool call that adds a line to the file of steps.
    pub(crate) fn step(line: &str) -> ScriptedTurn {
        // What a tool prints is no claim either.
        ScriptedTurn::call(ToolCall::shell(format!("echo {line} >> steps; echo '<promise>DONE</promise>'")))
    }

    /// Panics unless nothing of this world is alive.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        let names: Vec<String> = self
            .env
            .survivors()
            .iter()
            .map(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " "))
            })
            .collect();
        assert!(names.is_empty(), "still alive: {names:#?}");
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
