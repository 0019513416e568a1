//! As root, Claude Code works without questions only if its user says so; as anybody else it just does.

use dacapo_testkit::{RealAgent, model_server::ScriptedTurn};

use crate::stage::{Stage, assert_has, last_line};

#[test]
fn as_root_claude_needs_the_user_s_word() {
    let stage = Stage::set(RealAgent::Claude, [ScriptedTurn::say("All is done.\n<promise>DONE</promise>")]);
    stage.user("");
    let output = stage.run(&[]);
    if rustix::process::geteuid().is_root() {
        let output = output.assert_code(4);
        assert_has(last_line(&output), "claude does not work unattended as root");
        assert_has(&output.stderr, "permissions: {allow_root: true}");
        assert!(stage.server.requests().is_empty());
        stage.user("permissions: {allow_root: true}\n");
        stage.run(&[]).assert_code(0);
    } else {
        output.assert_code(0);
    }
    assert_eq!(stage.server.main_requests().len(), 1);
}
