use super::*;

/// What is heard in `lines`, each as one line of text, and what is told by their end.
fn listen(format: Format, lines: &[&str]) -> (Vec<String>, OutputSummary) {
    let mut seen = Vec::new();
    let mut heard = |heard: OutputEvent<'_>| {
        seen.push(match heard {
            OutputEvent::Message(words) => format!("says {words}"),
            OutputEvent::Tool { name, input } => format!("calls {name}({input})"),
            OutputEvent::Usage { scope, id, usage, cost_usd } => {
                let Usage { input, output, cache_read, cache_write, reasoning } = usage;
                let cost = cost_usd.map_or_else(String::new, |cost| format!(" ${cost}"));
                format!(
                    "used {scope:?} {} {input}+{output}+{cache_read}+{cache_write}+{reasoning}{cost}",
                    id.unwrap_or("-")
                )
            }
            OutputEvent::Written(bytes) => format!("wrote {bytes}"),
            OutputEvent::Retry { detail } => format!("retries {detail}"),
            OutputEvent::Final => "final".to_owned(),
        });
    };
    let mut transcript = Transcript::new(format);
    for line in lines {
        transcript.push(line.as_bytes(), &mut heard);
        transcript.push(b"\n", &mut heard);
    }
    let told = transcript.finish(&mut heard);
    (seen, told)
}

/// Of what is heard, the words.
fn words(format: Format, lines: &[&str]) -> Vec<String> {
    listen(format, lines)
        .0
        .into_iter()
        .filter_map(|line| line.strip_prefix("says ").map(str::to_owned))
        .collect()
}

/// The ending of `lines`.
fn ending(format: Format, lines: &[&str]) -> Option<(bool, Option<EndingKind>, String)> {
    listen(format, lines).1.ending.map(|ending| (ending.is_ok, ending.kind, ending.message))
}

#[test]
fn only_what_claude_itself_wrote_is_its_words() {
    // req 152
    let lines = [
        r#"{"type":"user","message":{"role":"user","content":"<promise>DONE</promise>"}}"#,
        r#"{"message":{"role":"user","content":[{"type":"text","text":"echo"}]},"type":"user"}"#,
        r#"{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"thinking","thinking":"hm"}],"usage":{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":7,"cache_creation_input_tokens":9}}}"#,
        r#"{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"text","text":"one "},{"type":"text","text":"two"},{"type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}"#,
        r#"{"type":"assistant","parent_tool_use_id":"t","message":{"id":"b","model":"small","content":[{"type":"text","text":"a sub-agent"}],"usage":{"input_tokens":3}}}"#,
        r#"{"type":"assistant","error":"rate_limit","is_api_error_message":true,"message":{"id":"c","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]}}"#,
        r#"{"type":"assistant","message":{"id":"d","content":"not a list"}}"#,
        r#"{"type":"assistant","message":{"id":"e","content":["text",{"type":"server_tool_use","name":"web","input":{"query":"q"}}]}}"#,
    ];
    let (seen, told) = listen(Format::Claude, &lines);
    assert_eq!(
        seen,
        [
            "used Call a 5+1+7+9+0",
            "wrote 2",
            "wrote 9",
            "says one two",
            "calls Bash(ls)",
            "used Call b 3+0+0+0+0",
            "wrote 11",
            "wrote 1",
            "calls web(q)",
        ]
    );
    assert_eq!((told.model.as_deref(), told.saw_event), (Some("m"), true));
}

#[test]
fn claudes_end_is_not_what_its_subtype_says() {
    // fault C7
    let banner = r#"{"type":"assistant","error":"billing_error","message":{"model":"<synthetic>","content":[{"type":"text","text":"No money"}]}}"#;
    for (lines, expected) in [
        (vec![r#"{"type":"result","subtype":"success","is_error":false}"#], (true, None, "")),
        (
            vec![r#"{"type":"result","subtype":"success","is_error":true,"result":"Bad"}"#],
            (false, None, "Bad"),
        ),
        (
            vec![
                r#"{"type":"result","is_error":true,"terminal_reason":"max_turns","errors":["Enough","of it"]}"#,
            ],
            (false, Some(EndingKind::MaxTurns), "Enough; of it"),
        ),
        // Older versions.
        (
            vec![r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#],
            (false, Some(EndingKind::MaxTurns), ""),
        ),
        (vec![r#"{"type":"result","result":"fine"}"#], (true, None, "")),
        // An agent whose last words are an error banner did not succeed, even if its result says so.
        (
            vec![banner, r#"{"type":"result","subtype":"success","is_error":false,"result":"No money"}"#],
            (false, Some(EndingKind::Billing), "No money"),
        ),
    ] {
        let (is_ok, kind, message) = expected;
        assert_eq!(ending(Format::Claude, &lines), Some((is_ok, kind, message.to_owned())), "{lines:?}");
    }
    let denied = r#"{"type":"result","is_error":false,"permission_denials":[{"tool_name":"Bash"},{"tool_name":"Bash"},7]}"#;
    let (_, told) = listen(Format::Claude, &[denied]);
    assert_eq!(told.warnings, ["the agent was not allowed to use Bash"]);
}

#[test]
fn claude_in_pieces_is_counted_while_it_writes() {
    // Exact before the message is over, with `--include-partial-messages`.
    let lines = [
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"a","usage":{"input_tokens":9,"output_tokens":1}}}}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"<promise>"}}}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}}"#,
        r#"{"type":"stream_event","event":{"type":"message_delta","usage":{"input_tokens":9,"output_tokens":30,"output_tokens_details":{"thinking_tokens":10}}}}"#,
        r#"{"type":"result","is_error":false,"total_cost_usd":0.5,"usage":{"input_tokens":9,"output_tokens":30}}"#,
    ];
    assert_eq!(
        listen(Format::Claude, &lines).0,
        [
            "wrote 9",
            "wrote 2",
            "used Call a 9+30+0+0+10",
            "used Process - 9+30+0+0+0",
            "used Session - 0+0+0+0+0 $0.5",
            "final"
        ]
    );
}

#[test]
fn a_giant_line_costs_no_more_than_itself() {
    // fault D1
    let giant = format!(r#"{{"type":"user","message":"{}"}}"#, "x".repeat(17 << 20));
    let lost = format!(r#"{{"type":"assistant","message":"{}"}}"#, "x".repeat(17 << 20));
    let result = r#"{"type":"result","is_error":false,"session_id":"s"}"#;
    let (seen, told) = listen(Format::Claude, &[&giant, &lost, result]);
    assert_eq!((seen, told.skipped_lines), (vec!["final".to_owned()], 1));
    assert_eq!(told.warnings, ["1 lines of its output were too long to be read"]);
    assert!(told.ending.unwrap().is_ok);
}

#[test]
fn half_a_character_does_not_hide_the_words_around_it() {
    // fault D2, fault D3
    let surrogate = r#"{"type":"item.completed","item":{"type":"agent_message","text":"cut \ud83d off"}}"#;
    assert_eq!(words(Format::Codex, &[surrogate]), ["cut \u{fffd} off"]);
    let mut transcript = Transcript::new(Format::Codex);
    let mut said = String::new();
    let line = b"{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"a\xff b\"}}\n";
    transcript.push(line, &mut |heard| {
        if let OutputEvent::Message(words) = heard {
            said.push_str(words);
        }
    });
    assert_eq!(said, "a\u{fffd} b");
}

#[test]
fn codex_warns_retries_and_fails_in_different_ways() {
    let lines = [
        r#"{"type":"thread.started","thread_id":"t"}"#,
        r#"{"type":"item.completed","item":{"id":"0","type":"error","message":"a warning"}}"#,
        r#"{"type":"item.completed","item":{"id":"1","type":"reasoning","text":"thought"}}"#,
        r#"{"type":"item.started","item":{"id":"2","type":"command_execution","command":"make\ntest"}}"#,
        r#"{"type":"item.completed","item":{"id":"2","type":"command_execution","command":"make\ntest"}}"#,
        r#"{"type":"item.completed","item":{"id":"3","type":"file_change","changes":[{"path":"a.rs","kind":"add"}]}}"#,
        r#"{"type":"item.completed","item":{"id":"4","type":"mcp_tool_call","server":"s","tool":"look","arguments":{"query":"x"}}}"#,
        r#"{"type":"item.updated","item":{"id":"5","type":"agent_message","text":"unfini"}}"#,
        r#"{"type":"error","message":"Reconnecting... 1/5 (why)"}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":60,"output_tokens":20,"reasoning_output_tokens":5}}"#,
    ];
    let (seen, told) = listen(Format::Codex, &lines);
    assert_eq!(
        seen,
        [
            "calls shell(make test)",
            "calls edit(a.rs)",
            "calls look(x)",
            "retries Reconnecting... 1/5 (why)",
            "used Session - 40+20+60+0+5",
            "final",
        ]
    );
    assert_eq!((told.warnings, told.session.as_deref()), (vec!["a warning".to_owned()], Some("t")));
}

#[test]
fn geminis_words_are_joined_and_complete_or_dropped() {
    // req 152: a promise split over pieces; an echo; a message that something cut off.
    let user = r#"{"type":"message","role":"user","content":"<promise>DONE</promise>"}"#;
    let piece =
        |text: &str| format!(r#"{{"type":"message","role":"assistant","content":"{text}","delta":true}}"#);
    let (one, two) = (piece("<promise>DONE<"), piece("/promise>"));
    let tool = r#"{"type":"tool_use","tool_name":"t","parameters":{"path":"p"}}"#;
    let good = r#"{"type":"result","status":"success"}"#;
    let bad =
        r#"{"type":"result","status":"error","error":{"type":"FatalAuthenticationError","message":"m"}}"#;
    let looped = r#"{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}"#;
    let hook = r#"{"type":"error","severity":"warning","message":"Agent execution blocked: again"}"#;
    let other = r#"{"type":"error","severity":"warning","message":"Slow"}"#;
    let promise = vec!["<promise>DONE</promise>".to_owned()];
    for (lines, expected, unfinished) in [
        (vec![user, &one, &two, good], promise.clone(), false),
        (vec![user, &one, &two, tool], promise.clone(), false),
        (vec![user, &one, &two, hook], promise.clone(), false),
        (vec![user, &one, other, &two, good], promise.clone(), false),
        (vec![user, &one, &two], vec![], true),
        (vec![user, &one, &two, bad], vec![], true),
        (vec![user, &one, &two, looped, good], vec![], true),
        (vec![user, good], vec![], false),
    ] {
        assert_eq!(words(Format::Gemini, &lines), expected, "{lines:?}");
        assert_eq!(listen(Format::Gemini, &lines).1.unfinished, unfinished, "{lines:?}");
    }
    assert_eq!(ending(Format::Gemini, &[bad]), Some((false, Some(EndingKind::Auth), "m".to_owned())));
}

#[test]
fn opencode_is_over_when_its_last_step_is() {
    let start = r#"{"type":"step_start","sessionID":"s","part":{}}"#;
    let tools = r#"{"type":"step_finish","part":{"id":"1","reason":"tool-calls","tokens":{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}},"cost":0.25}}"#;
    let stop = r#"{"type":"step_finish","part":{"id":"2","reason":"stop"}}"#;
    let error = r#"{"type":"error","error":{"name":"ContextOverflowError","data":{"message":"too much"}}}"#;
    assert_eq!(listen(Format::Opencode, &[start, tools]).0, ["used Call - 1+5+4+5+3 $0.25"]);
    for (lines, expected) in [
        (vec![start, tools], None),
        (vec![start, tools, start, stop], Some((true, None, String::new()))),
        (vec![start, stop, start], None),
        (vec![start, error], Some((false, Some(EndingKind::PromptTooLong), "too much".to_owned()))),
        (vec![error, start, stop], Some((true, None, String::new()))),
        (vec![r#"{"type":"error","error":{"name":"Odd"}}"#], Some((false, None, "Odd".to_owned()))),
        (vec![r#"{"type":"error"}"#], Some((false, None, String::new()))),
    ] {
        assert_eq!(ending(Format::Opencode, &lines), expected, "{lines:?}");
    }
}

#[test]
fn pi_may_try_again_after_its_end() {
    let failed = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"half"}],"stopReason":"error","errorMessage":"429 slow"}}"#;
    let long = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"half"}],"stopReason":"length"}}"#;
    let said = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"whole"},{"type":"toolCall","name":"bash","arguments":{"command":"ls"}}],"stopReason":"stop"}}"#;
    let user =
        r#"{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"prompt"}]}}"#;
    let (end, again) =
        (r#"{"type":"agent_end","messages":[]}"#, r#"{"type":"auto_retry_start","errorMessage":"429 slow"}"#);
    for (lines, seen, is_ok) in [
        (vec![user, said, end], vec!["says whole", "calls bash(ls)", "final"], Some(true)),
        (vec![user, failed, end], vec![], Some(false)),
        (vec![failed, end, again], vec!["retries 429 slow"], None),
        (
            vec![failed, end, again, said, end],
            vec!["retries 429 slow", "says whole", "calls bash(ls)", "final"],
            Some(true),
        ),
        (vec![long, end], vec!["final"], Some(true)),
    ] {
        let (heard, told) = listen(Format::Pi, &lines);
        assert_eq!(
            (heard, told.ending.map(|e| e.is_ok)),
            (seen.iter().map(|s| (*s).to_owned()).collect(), is_ok),
            "{lines:?}"
        );
    }
    assert!(listen(Format::Pi, &[long, end]).1.unfinished);
}

#[test]
fn copilot_ends_with_what_its_result_says() {
    let error =
        r#"{"type":"session.error","data":{"errorType":"authentication","message":"no","statusCode":401}}"#;
    // As version 1.0.102 has it when the provider closes the connection in the middle of an answer.
    let cut = r#"{"type":"model.call_failure","data":{"failureKind":"transport","errorMessage":"\"no finish_reason\""}}"#;
    let refused =
        r#"{"type":"model.call_failure","data":{"failureKind":"api","statusCode":400,"errorMessage":"bad"}}"#;
    let query =
        r#"{"type":"session.error","data":{"errorType":"query","message":"Last error: no finish_reason"}}"#;
    let said = r#"{"type":"assistant.message","data":{"content":"words","model":"m"}}"#;
    let sub = r#"{"type":"assistant.message","data":{"content":"a sub-agent","parentToolCallId":"t"}}"#;
    let user = r#"{"type":"user.message","data":{"content":"prompt"}}"#;
    let result = |code: i32| format!(r#"{{"type":"result","sessionId":"s","exitCode":{code}}}"#);
    for (lines, expected) in [
        (vec![user, said, sub, &result(0)], Some((true, None, String::new()))),
        (vec![error, &result(1)], Some((false, Some(EndingKind::Auth), "no".to_owned()))),
        (vec![error, said, &result(1)], Some((false, None, String::new()))),
        (
            vec![cut, query, &result(1)],
            Some((false, Some(EndingKind::Network), "no finish_reason".to_owned())),
        ),
        (vec![cut, error, &result(1)], Some((false, Some(EndingKind::Auth), "no".to_owned()))),
        (vec![cut, said, query, &result(1)], Some((false, None, "no finish_reason".to_owned()))),
        (vec![refused, query, &result(1)], Some((false, None, "no finish_reason".to_owned()))),
        (vec![said], None),
    ] {
        assert_eq!(ending(Format::Copilot, &lines), expected, "{lines:?}");
    }
    assert_eq!(words(Format::Copilot, &[user, said, sub]), ["words"]);
}

#[test]
fn qwens_banner_is_not_its_words() {
    // fault E7
    let banner = r#"{"type":"assistant","message":{"id":"1","content":[{"type":"text","text":"[API Error: 401 no]"}],"usage":{"input_tokens":0,"output_tokens":0}}}"#;
    let quoted = r#"{"type":"assistant","message":{"id":"2","content":[{"type":"text","text":"[API Error: is what I saw"}],"usage":{"input_tokens":10,"output_tokens":2,"cache_read_input_tokens":4}}}"#;
    let (seen, told) = listen(Format::Qwen, &[banner]);
    assert_eq!((seen, told.trouble.map(|t| t.message)), (vec![], Some("[API Error: 401 no]".to_owned())));
    assert_eq!(
        listen(Format::Qwen, &[quoted]).0,
        ["used Call - 6+2+4+0+0", "wrote 25", "says [API Error: is what I saw"]
    );
}

#[test]
fn text_has_no_events() {
    assert_eq!(
        listen(Format::Text, &["{\"type\":\"result\"}", "words"]),
        (vec![], OutputSummary { saw_event: true, ..OutputSummary::default() })
    );
}
