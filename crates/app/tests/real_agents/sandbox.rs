//! Agents in the sandbox that lets them write little: they work as ever, and what is not theirs they can neither write nor read.

use std::fs;

use dacapo_testkit::{
    RealAgent, TestEnv,
    model_server::{ScriptedTurn, ToolCall},
};

use crate::stage::Stage;

#[track_caller]
fn works_in_its_workspace(agent: RealAgent) {
    let env = TestEnv::outside_temporary(env!("CARGO_BIN_EXE_dacapo"));
    let stage = Stage::in_world(env, agent, [ScriptedTurn::say("unused")]);
    let home = stage.env.home();
    fs::create_dir_all(home.join(".ssh")).expect("a folder");
    fs::write(home.join(".ssh/id_ed25519"), "a secret").expect("a key");
    // In a script: some agents refuse a command line that names a path outside by themselves.
    let meddling = format!("cat '{0}/.ssh/id_ed25519' > got; echo x > '{0}/planted'; true\n", home.display());
    fs::write(stage.env.workspace().join("meddle.sh"), meddling).expect("a script");
    stage.server.set_turns([
        Stage::step("one"),
        ScriptedTurn::call(ToolCall::shell("sh meddle.sh")),
        ScriptedTurn::say("It is written.\n\n<promise>DONE</promise>"),
    ]);
    let gate = "test \"$(cat steps)\" = one";
    stage.run(&["-n", "2", "--sandbox", "workspace", "--gate", gate]).assert_code(0);
    stage.assert_nothing_left();
    let held = &stage.events("loop_started")[0]["sandbox"];
    assert_eq!(held["mode"], "workspace");
    if held["tier"] != "none" {
        assert_eq!(stage.env.read("got"), "", "{held}");
        assert!(!home.join("planted").exists(), "{held}");
    }
}

#[test]
fn claude_works_where_little_else_can_be_written() {
    works_in_its_workspace(RealAgent::Claude);
}

#[test]
fn codex_works_where_little_else_can_be_written() {
    works_in_its_workspace(RealAgent::Codex);
}

#[test]
fn gemini_works_where_little_else_can_be_written() {
    works_in_its_workspace(RealAgent::Gemini);
}

#[test]
#[ignore = "scripts/test --more"]
fn opencode_works_where_little_else_can_be_written() {
    works_in_its_workspace(RealAgent::Opencode);
}

#[test]
#[ignore = "scripts/test --more"]
fn qwen_works_where_little_else_can_be_written() {
    works_in_its_workspace(RealAgent::Qwen);
}

#[test]
#[ignore = "scripts/test --more"]
fn copilot_works_where_little_else_can_be_written() {
    works_in_its_workspace(RealAgent::Copilot);
}

#[test]
#[ignore = "scripts/test --more"]
fn pi_works_where_little_else_can_be_written() {
    works_in_its_workspace(RealAgent::Pi);
}
