//! What a client reads off the wire, protocol by protocol.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};

use super::*;

const ALL: [Protocol; 4] = [Protocol::Messages, Protocol::Responses, Protocol::Chat, Protocol::Gemini];
const SOON: Duration = Duration::from_secs(20);

/// An answer as far as it came.
struct Received {
    status: u16,
    headers: String,
    body: String,
    is_complete: bool,
}

impl Received {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

fn send(to: &mut TcpStream, method: &str, path: &str, headers: &str, body: &str) {
    let length = body.len();
    let text =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}");
    to.write_all(text.as_bytes()).unwrap();
}

/// Reads one answer, or what there is of it; none if the connection ends before.
fn receive(from: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") {
        if from.read_line(&mut headers).unwrap_or(0) == 0 {
            return None;
        }
    }
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
    let (mut body, mut is_complete) = (Vec::new(), false);
    if let Some(length) = length {
        let length = length.parse().unwrap();
        from.take(length).read_to_end(&mut body).unwrap();
        is_complete = body.len() as u64 == length;
    } else {
        let mut size = String::new();
        while from.read_line(&mut size).unwrap_or(0) > 0 && !is_complete {
            let length = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut piece = vec![0; length + 2];
            from.read_exact(&mut piece).unwrap();
            body.extend(&piece[..length]);
            is_complete = length == 0;
            size.clear();
            if is_complete {
                break;
            }
        }
    }
    Some(Received { status, headers, body: String::from_utf8(body).unwrap(), is_complete })
}

fn connect(server: &ModelServer) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server.address).unwrap();
    // So that a mistake is a red test and no hanging one.
    stream.set_read_timeout(Some(SOON)).unwrap();
    BufReader::new(stream)
}

fn post(server: &ModelServer, path: &str, body: &Value) -> Option<Received> {
    let mut client = connect(server);
    send(client.get_mut(), "POST", path, "", &body.to_string());
    receive(&mut client)
}

fn path(protocol: Protocol, stream: bool) -> &'static str {
    match (protocol, stream) {
        (Protocol::Messages, _) => "/v1/messages?beta=true",
        (Protocol::Responses, _) => "/v1/responses",
        (Protocol::Chat, _) => "/v1/chat/completions",
        (Protocol::Gemini, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
        (Protocol::Gemini, false) => "/v1beta/models/m:generateContent",
    }
}

/// A request of an agent with one tool for commands.
fn body(protocol: Protocol, stream: bool) -> Value {
    let schema =
        json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    let tool = |key: &str| json!({"type": "function", "name": "bash", key: schema});
    match protocol {
        Protocol::Messages => json!({
            "model": "m", "stream": stream, "tools": [tool("input_schema")],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>be good</system-reminder>"},
                {"type": "text", "text": "hello"},
            ]}],
        }),
        Protocol::Responses => json!({
            "model": "m", "stream": stream, "tools": [tool("parameters")],
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            ],
        }),
        Protocol::Chat => json!({
            "model": "m", "stream": stream, "tools": [{"type": "function", "function": tool("parameters")}],
            "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "hello"}],
        }),
        Protocol::Gemini => json!({
            "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
            "tools": [{"functionDeclarations": [tool("parametersJsonSchema")]}],
        }),
    }
}

fn ask(server: &ModelServer, protocol: Protocol, stream: bool) -> Option<Received> {
    post(server, path(protocol, stream), &body(protocol, stream))
}

/// The text, the name and input of the call, and the numbers of tokens for input and output, as a client sees them.
type Understood = (String, Option<(String, Value)>, (u64, u64));

fn understand(protocol: Protocol, stream: bool, received: &Received) -> Understood {
    let documents = if stream { received.events() } else { vec![received.json()] };
    let strings = |pointer: &str| -> String {
        documents.iter().filter_map(|document| document.pointer(pointer)?.as_str()).collect()
    };
    let last = |pointer: &str| documents.iter().rev().find_map(|document| document.pointer(pointer)).cloned();
    let number = |pointer: &str| last(pointer).and_then(|value| value.as_u64()).unwrap_or_default();
    let parsed = |text: String| serde_json::from_str(&text).unwrap_or_default();
    let call = |name: String, input: Value| (!name.is_empty()).then_some((name, input));
    let of_parts = |parts: &Value, kind: &str, key: &str| -> Vec<Value> {
        let parts = parts.as_array().cloned().unwrap_or_default();
        parts.iter().filter(|part| part["type"] == kind).map(|part| part[key].clone()).collect()
    };
    let first_text =
        |values: Vec<Value>| values.first().and_then(Value::as_str).unwrap_or_default().to_owned();
    match (protocol, stream) {
        (Protocol::Messages, true) => {
            let input = parsed(strings("/delta/partial_json"));
            let tokens = (number("/usage/input_tokens"), number("/usage/output_tokens"));
            (strings("/delta/text"), call(strings("/content_block/name"), input), tokens)
        }
        (Protocol::Messages, false) => {
            let content = &documents[0]["content"];
            let name = first_text(of_parts(content, "tool_use", "name"));
            let input = of_parts(content, "tool_use", "input").pop().unwrap_or_default();
            let tokens = (number("/usage/input_tokens"), number("/usage/output_tokens"));
            (first_text(of_parts(content, "text", "text")), call(name, input), tokens)
        }
        (Protocol::Responses, _) => {
            let whole = if stream { last("/response").unwrap_or_default() } else { documents[0].clone() };
            assert_eq!(whole["status"], "completed");
            let output = &whole["output"];
            let texts = of_parts(output, "message", "content");
            let text = texts.first().map(|parts| first_text(of_parts(parts, "output_text", "text")));
            let name = first_text(of_parts(output, "function_call", "name"));
            let input = parsed(first_text(of_parts(output, "function_call", "arguments")));
            let tokens = &whole["usage"];
            let tokens = (&tokens["input_tokens"], &tokens["output_tokens"]);
            (
                text.unwrap_or_default(),
                call(name, input),
                (tokens.0.as_u64().unwrap(), tokens.1.as_u64().unwrap()),
            )
        }
        (Protocol::Chat, _) => {
            let at = if stream { "/choices/0/delta" } else { "/choices/0/message" };
            let strings = |pointer: &str| strings(&format!("{at}{pointer}"));
            let input = parsed(strings("/tool_calls/0/function/arguments"));
            let tokens = (number("/usage/prompt_tokens"), number("/usage/completion_tokens"));
            (strings("/content"), call(strings("/tool_calls/0/function/name"), input), tokens)
        }
        (Protocol::Gemini, _) => {
            let parts: Vec<Value> = documents
                .iter()
                .flat_map(|document| {
                    document.pointer("/candidates/0/content/parts").unwrap().as_array().unwrap()
                })
                .cloned()
                .collect();
            let said = parts.iter().filter(|part| part["thought"] != true);
            let text = said.filter_map(|part| part["text"].as_str()).collect();
            let called = parts.iter().find_map(|part| part.get("functionCall"));
            let call = called.map(|call| (call["name"].as_str().unwrap().to_owned(), call["args"].clone()));
            let tokens =
                (number("/usageMetadata/promptTokenCount"), number("/usageMetadata/candidatesTokenCount"));
            (text, call, tokens)
        }
    }
}

#[test]
fn an_answer_means_the_same_in_every_protocol_streamed_or_not() {
    let text = "All done, für immer. <promise>DONE</promise>";
    let usage = Usage { input: 100, output: 20, ..Usage::default() };
    for protocol in ALL {
        for stream in [true, false] {
            let server = ModelServer::start([
                ScriptedTurn::think("hmm, <promise>NO</promise>").and_say(text).usage(usage),
                ScriptedTurn::call(ToolCall::shell("echo 'a b' > \"ü\"")),
            ]);
            let received = ask(&server, protocol, stream).unwrap();
            assert!(received.is_complete && received.status == 200, "{protocol:?}: {}", received.body);
            let understood = understand(protocol, stream, &received);
            assert_eq!(understood, (text.to_owned(), None, (100, 20)), "{protocol:?} {stream}");
            assert!(
                received.body.contains("hmm, ") || stream || protocol == Protocol::Chat,
                "{}",
                received.body
            );

            let received = ask(&server, protocol, stream).unwrap();
            let call = Some(("bash".to_owned(), json!({"command": "echo 'a b' > \"ü\""})));
            let understood = understand(protocol, stream, &received);
            assert_eq!(understood, (String::new(), call, (1200, 34)), "{protocol:?} {stream}");
        }
    }
}

#[test]
fn cached_and_reasoning_tokens_are_reported_where_the_protocol_has_them() {
    let usage = Usage { input: 100, output: 20, cache_read: 7, cache_write: 5, reasoning: 3 };
    for (protocol, expected) in [
        (
            Protocol::Messages,
            json!({"input_tokens": 100, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 20}),
        ),
        (
            Protocol::Responses,
            json!({
                "input_tokens": 107, "input_tokens_details": {"cached_tokens": 7}, "output_tokens": 20,
                "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 127,
            }),
        ),
        (
            Protocol::Chat,
            json!({
                "prompt_tokens": 107, "prompt_tokens_details": {"cached_tokens": 7}, "completion_tokens": 20,
                "completion_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 127,
            }),
        ),
        (
            Protocol::Gemini,
            json!({
                "promptTokenCount": 107, "cachedContentTokenCount": 7, "candidatesTokenCount": 17,
                "thoughtsTokenCount": 3, "totalTokenCount": 127,
            }),
        ),
    ] {
        let server = ModelServer::start([ScriptedTurn::say("hi").usage(usage)]);
        let document = ask(&server, protocol, false).unwrap().json();
        assert_eq!(document.get("usage").or(document.get("usageMetadata")), Some(&expected), "{protocol:?}");
    }
}

#[test]
fn a_failure_is_said_as_the_provider_says_it() {
    let resets_at = 4_000_000_000;
    let limited = Failure::RateLimit { retry_after: Some(3) };
    let used_up = Failure::UsageLimit { resets_at };
    let unified = "anthropic-ratelimit-unified-reset: 4000000000\r\n";
    for (failure, protocol, status, header, pointer, value) in [
        (Failure::Unauthorized, Protocol::Messages, 401, "", "/error/type", json!("authentication_error")),
        (Failure::Unauthorized, Protocol::Responses, 401, "", "/error/code", json!("invalid_api_key")),
        (Failure::Unauthorized, Protocol::Chat, 401, "", "/error/code", json!("invalid_api_key")),
        (Failure::Unauthorized, Protocol::Gemini, 401, "", "/error/status", json!("UNAUTHENTICATED")),
        (Failure::Billing, Protocol::Messages, 400, "", "/error/type", json!("invalid_request_error")),
        (Failure::Billing, Protocol::Responses, 429, "", "/error/type", json!("insufficient_quota")),
        (Failure::Billing, Protocol::Gemini, 400, "", "/error/status", json!("FAILED_PRECONDITION")),
        (
            limited.clone(),
            Protocol::Messages,
            429,
            "retry-after: 3\r\n",
            "/error/type",
            json!("rate_limit_error"),
        ),
        (
            limited.clone(),
            Protocol::Responses,
            429,
            "retry-after: 3\r\n",
            "/error/code",
            json!("rate_limit_exceeded"),
        ),
        (limited, Protocol::Gemini, 429, "retry-after: 3\r\n", "/error/details/0/retryDelay", json!("3s")),
        (used_up.clone(), Protocol::Messages, 429, unified, "/error/type", json!("rate_limit_error")),
        (used_up.clone(), Protocol::Responses, 429, "", "/error/resets_at", json!(resets_at)),
        (used_up, Protocol::Gemini, 429, "", "/error/details/0/violations/0/quotaValue", json!("100")),
        (Failure::Server, Protocol::Messages, 500, "", "/error/type", json!("api_error")),
        (Failure::Server, Protocol::Gemini, 500, "", "/error/status", json!("INTERNAL")),
        (Failure::Overloaded, Protocol::Messages, 529, "", "/error/type", json!("overloaded_error")),
        (Failure::Overloaded, Protocol::Chat, 503, "", "/error/code", json!("server_is_overloaded")),
        (Failure::Overloaded, Protocol::Gemini, 503, "", "/error/status", json!("UNAVAILABLE")),
        (
            Failure::ContextTooLong,
            Protocol::Responses,
            400,
            "",
            "/error/code",
            json!("context_length_exceeded"),
        ),
        (
            Failure::Other {
                status: 402,
                headers: vec![("x-a".into(), "b".into())],
                body: json!({"pay": true}),
            },
            Protocol::Chat,
            402,
            "x-a: b\r\n",
            "/pay",
            json!(true),
        ),
    ] {
        let server = ModelServer::start([ScriptedTurn::fail(failure.clone())]);
        let received = ask(&server, protocol, true).unwrap();
        assert_eq!(received.status, status, "{failure:?} {protocol:?}");
        assert!(received.headers.contains(header), "{failure:?} {protocol:?}: {}", received.headers);
        assert_eq!(received.json().pointer(pointer), Some(&value), "{failure:?} {protocol:?}");
    }
}

#[test]
fn a_stream_can_turn_into_an_error() {
    for (protocol, pointer, value) in [
        (Protocol::Messages, "/error/type", json!("overloaded_error")),
        (Protocol::Responses, "/response/error/code", json!("server_is_overloaded")),
        (Protocol::Chat, "/error/code", json!("server_is_overloaded")),
        (Protocol::Gemini, "/error/status", json!("UNAVAILABLE")),
    ] {
        let turn = ScriptedTurn::say("a text of more than one piece").fail_midway(Failure::Overloaded);
        let server = ModelServer::start([turn]);
        let received = ask(&server, protocol, true).unwrap();
        let events = received.events();
        assert!(received.is_complete && received.status == 200 && events.len() > 1, "{protocol:?}");
        assert_eq!(events.last().unwrap().pointer(pointer), Some(&value), "{protocol:?}");
    }
}

#[test]
fn a_cut_answer_has_no_end() {
    for protocol in ALL {
        for stream in [true, false] {
            let whole = ScriptedTurn::say("a text of more than one piece");
            let server = ModelServer::start([whole.clone(), whole.cut_midway(), ScriptedTurn::cut()]);
            let complete = ask(&server, protocol, stream).unwrap();
            let cut = ask(&server, protocol, stream).unwrap();
            assert!(complete.is_complete && !cut.is_complete, "{protocol:?} {stream}");
            assert!(!cut.body.is_empty() && cut.body.len() < complete.body.len(), "{protocol:?} {stream}");
            assert!(ask(&server, protocol, stream).is_none(), "{protocol:?} {stream}");
        }
    }
}

#[test]
fn a_hanging_answer_ends_with_the_server_or_with_the_client() {
    let half = || ScriptedTurn::say("a text of more than one piece").hang_midway();
    for (turn, stream) in [(ScriptedTurn::hang(), true), (half(), true), (half(), false)] {
        let server = ModelServer::start([turn.clone()]);
        let mut clients: Vec<_> = [(), ()].map(|()| connect(&server)).into();
        for client in &mut clients {
            let body = body(Protocol::Messages, stream).to_string();
            send(client.get_mut(), "POST", path(Protocol::Messages, stream), "", &body);
        }
        server.wait_for_main_requests(2, SOON);
        // One client goes, the other one is left waiting.
        clients.pop();
        if turn == ScriptedTurn::hang() {
            clients[0].get_ref().set_nonblocking(true).unwrap();
            let heard = clients[0].get_ref().peek(&mut [0]);
            assert_eq!(heard.unwrap_err().kind(), io::ErrorKind::WouldBlock, "neither an answer nor the end");
            clients[0].get_ref().set_nonblocking(false).unwrap();
        }
        drop(server);
        let received = receive(&mut clients[0]);
        assert!(received.is_none_or(|received| !received.is_complete), "{turn:?}");
    }
}

#[test]
fn each_main_request_takes_a_turn_and_nothing_else_does() {
    let server = ModelServer::start([ScriptedTurn::say("one"), ScriptedTurn::say("two")]);
    let said = |received: Option<Received>| received.unwrap().json()["content"][0]["text"].clone();
    let ask = || said(ask(&server, Protocol::Messages, false));
    let mut title = json!({"model": "small", "messages": [{"role": "user", "content": "a title for this?"}]});
    assert_eq!(said(post(&server, "/v1/messages", &title)), "ok");
    assert_eq!(ask(), "one");
    let schema =
        json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
    title["output_config"] = json!({"format": {"type": "json_schema", "schema": schema}});
    assert_eq!(said(post(&server, "/v1/messages", &title)), r#"{"title":"ok"}"#);
    for (method, path, status, pointer) in [
        ("POST", "/v1/messages/count_tokens?beta=true", 200, "/input_tokens"),
        ("POST", "/v1beta/models/m:countTokens", 200, "/totalTokens"),
        ("GET", "/v1/models", 200, "/data/0/id"),
        ("GET", "/nowhere", 404, "/error/message"),
    ] {
        let mut client = connect(&server);
        send(client.get_mut(), method, path, "", "{}");
        let received = receive(&mut client).unwrap();
        assert_eq!(received.status, status, "{path}");
        assert!(received.json().pointer(pointer).is_some(), "{path}: {}", received.body);
    }
    assert_eq!([ask(), ask()], ["two", "two"], "the last turn is repeated");
    server.set_turns([ScriptedTurn::say("again"), ScriptedTurn::say("after that")]);
    assert_eq!(ask(), "again");
    assert_eq!((server.requests().len(), server.main_requests().len()), (10, 4));
}

#[test]
fn a_request_is_recorded_with_what_it_says() {
    for (protocol, header) in [
        (Protocol::Messages, "X-Api-Key: secret\r\n"),
        (Protocol::Responses, "Authorization: Bearer secret\r\n"),
        (Protocol::Chat, "authorization: Bearer secret\r\n"),
        (Protocol::Gemini, "x-goog-api-key: secret\r\n"),
    ] {
        let server = ModelServer::start([ScriptedTurn::say("hi")]);
        let mut client = connect(&server);
        let mut sent = body(protocol, true);
        let more = match protocol {
            Protocol::Messages => json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "a result"},
                {"type": "text", "text": "the agent's own words"},
            ]}),
            Protocol::Responses => {
                json!({"type": "function_call_output", "call_id": "1", "output": "a result"})
            }
            Protocol::Chat => json!({"role": "tool", "tool_call_id": "1", "content": "a result"}),
            Protocol::Gemini => {
                json!({"role": "user", "parts": [{"functionResponse": {"response": "a result"}}]})
            }
        };
        let list = ["messages", "input", "contents"].into_iter().find(|key| sent.get(key).is_some()).unwrap();
        // Both over one connection, as agents do it.
        for _ in 0..2 {
            send(client.get_mut(), "POST", path(protocol, true), header, &sent.to_string());
            assert!(receive(&mut client).unwrap().is_complete);
            sent[list].as_array_mut().unwrap().push(more.clone());
        }
        let [first, second]: [Request; 2] = server.main_requests().try_into().unwrap();
        for request in [&first, &second] {
            assert_eq!(request.key(), Some("secret"), "{protocol:?}");
            assert_eq!((request.protocol(), request.model()), (Some(protocol), "m"));
            assert_eq!(request.user_texts(), ["hello"], "{protocol:?}");
            assert_eq!(request.tools(), ["bash"], "{protocol:?}");
            assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", path(protocol, true)));
        }
        assert_eq!(first.body, body(protocol, true));
        assert_eq!((first.tool_results().len(), second.tool_results()), (0, &["a result".to_owned()][..]));
    }
}

#[test]
fn a_script_that_wants_what_the_agent_has_not_says_so() {
    let server = ModelServer::start([ScriptedTurn::call(ToolCall::shell("ls"))]);
    let mut sent = body(Protocol::Messages, true);
    sent["tools"][0]["name"] = "paint".into();
    let received = post(&server, "/v1/messages", &sent).unwrap();
    assert_eq!(received.status, 400);
    assert!(received.body.contains("only [\\\"paint\\\"]"), "{}", received.body);
}

#[test]
fn what_is_no_http_ends_its_own_connection_only() {
    let server = ModelServer::start([ScriptedTurn::say("hi")]);
    let mut client = connect(&server);
    client.get_mut().write_all(b"hello\r\n\r\n").unwrap();
    assert!(receive(&mut client).is_none());
    assert!(ask(&server, Protocol::Chat, true).unwrap().is_complete);
}
