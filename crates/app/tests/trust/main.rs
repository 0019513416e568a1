//! Nothing of a repository runs before its user agreed, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod configured;
mod hostile;
mod reference;

use dacapo_testkit::{Output, TestEnv};

/// What every hostile command tries to leave behind.
pub(crate) const CANARY: &str = "canary";
pub(crate) const CONFIG: &str = ".dacapo/config.yaml";
const DONE: &str = "append work more\nsay '<promise>DONE</promise>'";

pub(crate) fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env
}

/// A world whose repository has this configuration.
pub(crate) fn configured(config: &str) -> TestEnv {
    let env = env();
    env.write(CONFIG, config);
    // A pattern that protects nothing is an error.
    for (pattern, file) in [("tests/**", "tests/case.txt"), ("lib]", "lib/code.txt")] {
        if config.contains(pattern) {
            env.write(file, "as agreed");
        }
    }
    env
}

/// A loop whose agent claims to be done at once.
#[track_caller]
pub(crate) fn run(env: &TestEnv, extra: &[&str]) -> Output {
    env.run_agent(DONE, extra)
}

pub(crate) fn has_canary(env: &TestEnv) -> bool {
    env.workspace().join(CANARY).exists()
}

/// Runs a command of dacapo in a terminal and types `input`.
#[track_caller]
pub(crate) fn in_terminal(env: &TestEnv, command: &str, input: &str) -> Output {
    let typed = env.root().join("typed");
    std::fs::write(&typed, input).unwrap();
    let mut script = env.command("script");
    let line = format!("{} {command}", env!("CARGO_BIN_EXE_dacapo"));
    script.args(["-qec", &line, "/dev/null"]).stdin(std::fs::File::open(typed).unwrap());
    env.run_command(script)
}

/// The arguments of [`run`] as a line for a shell.
pub(crate) fn run_line(env: &TestEnv, extra: &str) -> String {
    let agent = env.script(DONE).agent_cmd();
    format!("run 'do it' --agent-cmd \"{agent}\" --restart-delay 0s --kill-grace 100ms {extra}")
}
