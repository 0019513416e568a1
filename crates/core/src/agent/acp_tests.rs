use super::*;

fn conversation(session: Option<&str>) -> AcpConversation {
    let settings = AcpSettings { allows: true, ..AcpSettings::default() };
    AcpConversation::new(settings, "/work", None, session.map(str::to_owned))
}

/// A line that was sent, without its end.
fn sent(line: &[u8]) -> Value {
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    serde_json::from_slice(line).unwrap()
}

fn hear(talk: &mut AcpConversation, message: &Value) -> Vec<AcpStep> {
    talk.hear(format!("{message}\n").as_bytes())
}

/// Answers to the request that is awaited.
fn answer(talk: &mut AcpConversation, result: &Value) -> Vec<AcpStep> {
    let id = talk.awaited.unwrap();
    hear(talk, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn fail(talk: &mut AcpConversation) -> Vec<AcpStep> {
    let id = talk.awaited.unwrap();
    hear(talk, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}}))
}

fn only(mut steps: Vec<AcpStep>) -> Value {
    let Some(AcpStep::Send(line)) = steps.pop() else { panic!("{steps:?}") };
    assert!(steps.is_empty(), "{steps:?}");
    sent(&line)
}

const CAN_NOTHING: &str = r#"{"protocolVersion":1,"agentCapabilities":{}}"#;

fn greeted(session: Option<&str>, capabilities: &str) -> (AcpConversation, Value) {
    let mut talk = conversation(session);
    talk.begin();
    let opened = only(answer(&mut talk, &serde_json::from_str(capabilities).unwrap()));
    (talk, opened)
}

#[test]
fn a_session_is_opened_and_one_prompt_follows_the_other() {
    let mut talk = conversation(None);
    let first = sent(&talk.begin());
    assert_eq!(first["method"], "initialize");
    let capabilities = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    assert_eq!(first["params"]["clientCapabilities"], capabilities, "the agent has its own, contained");
    let new = only(answer(&mut talk, &serde_json::from_str(CAN_NOTHING).unwrap()));
    assert_eq!((&new["method"], &new["params"]["cwd"]), (&json!("session/new"), &json!("/work")));
    assert_eq!(answer(&mut talk, &json!({"sessionId": "s1"})), [AcpStep::Ready]);
    assert!(!talk.is_in_turn());
    for text in ["one", "two"] {
        let prompt = sent(&talk.prompt(text));
        assert_eq!(prompt["params"], json!({"sessionId": "s1", "prompt": [{"type": "text", "text": text}]}));
        assert!(talk.is_in_turn());
        let update = json!({"method": "session/update", "params": {"sessionId": "s1", "update": {}}});
        assert!(hear(&mut talk, &update).is_empty());
        assert_eq!(answer(&mut talk, &json!({"stopReason": "end_turn"})), [AcpStep::TurnOver]);
        assert!(!talk.is_in_turn());
    }
    let renewed = sent(&talk.renew());
    assert_eq!(renewed["method"], "session/new");
    assert_eq!(answer(&mut talk, &json!({"sessionId": "s2"})), [AcpStep::Ready]);
    assert_eq!(talk.session(), Some("s2"));
}

#[test]
fn a_session_is_taken_up_again_as_the_agent_can_and_a_lost_one_is_followed_by_a_new_one() {
    let resumes = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}}"#;
    let loads = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#;
    for (capabilities, method) in
        [(resumes, "session/resume"), (loads, "session/load"), (CAN_NOTHING, "session/new")]
    {
        let (mut talk, opened) = greeted(Some("old"), capabilities);
        assert_eq!(opened["method"], method);
        if method == "session/new" {
            continue;
        }
        assert_eq!(opened["params"]["sessionId"], "old");
        assert_eq!(answer(&mut talk, &Value::Null), [AcpStep::Ready]);
        assert_eq!(talk.session(), Some("old"));

        let (mut talk, _) = greeted(Some("old"), capabilities);
        assert_eq!(only(fail(&mut talk))["method"], "session/new");
        assert_eq!(answer(&mut talk, &json!({"sessionId": "new"})), [AcpStep::Ready]);
        assert_eq!(talk.session(), Some("new"));
    }
}

#[test]
fn what_cannot_begin_has_failed_and_an_error_ends_a_turn() {
    let mut talk = conversation(None);
    talk.begin();
    assert_eq!(answer(&mut talk, &json!({"protocolVersion": 2})), [AcpStep::Failed]);
    let mut talk = conversation(None);
    talk.begin();
    assert_eq!(fail(&mut talk), [AcpStep::Failed]);
    let (mut talk, _) = greeted(None, CAN_NOTHING);
    assert_eq!(fail(&mut talk), [AcpStep::Failed]);
    let (mut talk, _) = greeted(None, CAN_NOTHING);
    assert_eq!(answer(&mut talk, &json!({"sessionId": 7})), [AcpStep::Failed]);
    let (mut talk, _) = greeted(None, CAN_NOTHING);
    answer(&mut talk, &json!({"sessionId": "s"}));
    talk.prompt("do it");
    assert_eq!(fail(&mut talk), [AcpStep::TurnOver]);
}

#[test]
fn permissions_are_given_by_policy_and_never_for_good_if_once_will_do() {
    let once = json!({"optionId": "a", "kind": "allow_once"});
    let always = json!({"optionId": "b", "kind": "allow_always"});
    let no = json!({"optionId": "c", "kind": "reject_once"});
    for (allows, options, expected, warns) in [
        (true, json!([always, once, no]), json!({"outcome": "selected", "optionId": "a"}), false),
        (true, json!([no, always]), json!({"outcome": "selected", "optionId": "b"}), false),
        (true, json!([no]), json!({"outcome": "cancelled"}), true),
        (true, json!("?"), json!({"outcome": "cancelled"}), true),
        (false, json!([always, once, no]), json!({"outcome": "selected", "optionId": "c"}), true),
        (false, json!([once]), json!({"outcome": "cancelled"}), true),
    ] {
        let mut talk =
            AcpConversation::new(AcpSettings { allows, ..AcpSettings::default() }, "/work", None, None);
        let params = json!({"sessionId": "s", "options": options, "toolCall": {"title": "Write x"}});
        let request = json!({"id": "p-1", "method": "session/request_permission", "params": params});
        let steps = hear(&mut talk, &request);
        let Some(AcpStep::Send(line)) = steps.first() else { panic!("{steps:?}") };
        let said = sent(line);
        assert_eq!((&said["id"], &said["result"]["outcome"]), (&json!("p-1"), &expected), "{request}");
        let warning =
            AcpStep::Warn("the agent asked for a permission and did not get it: Write x".to_owned());
        assert_eq!(steps.contains(&warning), warns, "{request}");
    }
}

#[test]
fn what_is_not_offered_gets_an_error_and_garbage_gets_nothing() {
    let mut talk = conversation(None);
    talk.begin();
    for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create", "craft/drainMidTurnQueue"] {
        let said = only(hear(&mut talk, &json!({"id": 3, "method": method, "params": {}})));
        assert_eq!((&said["id"], &said["error"]["code"]), (&json!(3), &json!(-32601)), "{method}");
    }
    for line in [
        "garbage",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"id":99,"result":{}}"#,
        r#"{"id":"11","result":{}}"#,
        r#"{"method":"_auth/status_update","params":{}}"#,
        r#"{"method":7,"id":{}}"#,
    ] {
        assert!(talk.hear(format!("{line}\n").as_bytes()).is_empty(), "{line}");
    }
    // The greeting still counts, and may come in pieces.
    let line = format!("{}\n", json!({"id": talk.awaited, "result": {"protocolVersion": 1}}));
    let (begin, end) = line.as_bytes().split_at(9);
    assert!(talk.hear(begin).is_empty());
    assert_eq!(only(talk.hear(end))["method"], "session/new");
}

#[test]
fn tools_are_given_where_they_are_wanted() {
    let server = ToolServer {
        command: "/bin/dacapo".into(),
        args: vec!["mcp".into()],
        env: vec![("DACAPO_HOME".into(), "/home".into())],
    };
    for (tools, expected) in [
        (false, json!([])),
        (
            true,
            json!([{"name": "dacapo", "command": "/bin/dacapo", "args": ["mcp"],
                "env": [{"name": "DACAPO_HOME", "value": "/home"}]}]),
        ),
    ] {
        let mut talk = AcpConversation::new(
            AcpSettings { allows: true, tools, ..AcpSettings::default() },
            "/work",
            Some(server.clone()),
            None,
        );
        assert_eq!(sent(&talk.renew())["params"]["mcpServers"], expected);
    }
}
