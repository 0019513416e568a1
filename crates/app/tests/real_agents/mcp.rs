//! Real agents call the tools of `dacapo mcp`.

use dacapo_testkit::{
    RealAgent,
    model_server::{ScriptedTurn, ToolCall},
};
use serde_json::json;

use crate::stage::{Stage, assert_has};

#[test]
fn claude_claims_by_calling_done() {
    let done = || ScriptedTurn::call(ToolCall::named("mcp__dacapo__done", json!({"note": "all of it"})));
    let stage = Stage::set(
        RealAgent::Claude,
        [
            // Too early: the gate decides, not the tool.
            done(),
            ScriptedTurn::say("I have claimed it."),
            Stage::step("one"),
            done(),
            ScriptedTurn::say("I have claimed it again."),
        ],
    );
    stage.run(&["-n", "3", "--mcp", "--gate", "test -e steps"]).assert_code(0);
    let results: Vec<String> =
        stage.server.main_requests().iter().flat_map(|request| request.tool_results().to_vec()).collect();
    assert_has(
        &results.join("\n"),
        "The claim is taken. When you end your turn, these gates decide: test -e steps.",
    );
    assert_eq!((stage.events("claim_refused").len(), stage.events("claim_accepted").len()), (1, 1));
    let signals = stage.events("signal_seen");
    assert_has(&signals[0].to_string(), "done_file");
    stage.assert_nothing_left();
}
