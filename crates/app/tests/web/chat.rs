//! `dacapo serve`: messages in, messages out, each service against a local server that speaks its API.

use std::{
    fs,
    io::{BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    time::Duration,
};

use dacapo_testkit::{ChatFailure, ChatKind, ChatServer, Running, SentToChat, Signal, TestEnv};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(50);
const TOKEN: &str = "tok-4711-chat-secret";

/// A world with the workflow `w`.
fn with(text: &str) -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.write(".dacapo/workflows/w.yaml", format!("name: w\ndescription: fixes red tests\n{text}"));
    env.git_init();
    env
}

const LOOP: &str = "loop: {until: COMPLETE, max_iterations: 3}\nprompt: do $USER_MESSAGE\n";
const ASKS: &str = "steps: [{id: ask, approval: {message: 'Ship it?'}}, {id: ship, bash: 'echo shipped'}]\n";
/// Goes on when there is a file `go`.
const WAITS: &str = "steps:\n  - {id: a, bash: 'echo begun; until test -f .git/go; do sleep 0.05; done'}\n  - {id: b, bash: 'echo over'}\n";

/// The user's configuration.
fn configure(env: &TestEnv, text: &str) {
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), text).unwrap();
}

/// A service, with the configuration that leads to it.
fn service(env: &TestEnv, kind: ChatKind, more: &str) -> ChatServer {
    let server = ChatServer::start(kind, TOKEN);
    let (name, channels) = match kind {
        ChatKind::Slack => ("slack", "channels: [C1], every: 100ms, "),
        ChatKind::Discord => ("discord", "channels: ['500'], every: 100ms, "),
        ChatKind::Telegram => ("telegram", ""),
        ChatKind::Receiver => unreachable!("a webhook has no users"),
    };
    let url = server.url();
    configure(
        env,
        &format!(
            "serve:\n  {name}: {{token_env: CHAT_TOKEN, users: [U1, '42'], {channels}api: '{url}'{more}}}\n"
        ),
    );
    server
}

struct Serve {
    running: Running,
    address: String,
    token: String,
}

impl Serve {
    fn start(env: &TestEnv) -> Self {
        Self::start_with(env, &env.agent_cmd())
    }

    fn start_with(env: &TestEnv, agent: &str) -> Self {
        let mut command =
            env.dacapo(["serve", "--port", "0", "--trust", "--restart-delay", "0s", "--agent-cmd", agent]);
        command.env("CHAT_TOKEN", TOKEN);
        let running = Running::start(command);
        let word = |line: &str, key: &str| line.strip_prefix(key).map(str::to_owned);
        let url = running.wait_for_line(|line| line.starts_with("url "), SOON);
        let token = running.wait_for_line(|line| line.starts_with("token "), SOON);
        let address = word(&url, "url http://").unwrap();
        Self { running, address, token: word(&token, "token ").unwrap() }
    }

    fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn say(&self, conversation: &str, message: &str) {
        let body = json!({"conversationId": conversation, "message": message}).to_string();
        let (status, answer) =
            self.call("POST", "/test/message", &[("authorization", &self.bearer())], &body);
        assert_eq!((status, &answer["success"]), (200, &true.into()), "{answer}");
    }

    fn messages(&self, conversation: &str) -> Vec<String> {
        let path = format!("/test/messages/{conversation}");
        let (status, answer) = self.call("GET", &path, &[("authorization", &self.bearer())], "");
        assert_eq!((status, &answer["conversationId"]), (200, &conversation.into()), "{answer}");
        let all = answer["messages"].as_array().unwrap();
        all.iter().map(|message| message["message"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    fn wait_for(&self, env: &TestEnv, conversation: &str, words: &str) -> Vec<String> {
        let mut found = Vec::new();
        env.wait_until(&format!("`{words}` in {conversation}"), SOON, || {
            found = self.messages(conversation);
            found.iter().any(|text| text.contains(words))
        });
        found
    }

    /// Ends it in a way that it cannot see.
    fn kill(self) {
        self.running.signal(Signal::KILL);
        self.running.wait(SOON);
    }
}

fn texts(sent: &[SentToChat]) -> Vec<String> {
    sent.iter().map(|sent| sent.text.clone()).collect()
}

fn count(texts: &[String], words: &str) -> usize {
    texts.iter().filter(|text| text.contains(words)).count()
}

#[test]
fn a_message_starts_a_workflow_and_its_conversation_hears_of_it_in_batches() {
    // req 153, req 164
    let env = with(LOOP);
    env.script("say looking; prompt-to .git/prompt\n@2: say almost; promise COMPLETE");
    let serve = Serve::start(&env);
    serve.say("c1", "w fix --agent-cmd 'touch hacked'");
    let said = serve.wait_for(&env, "c1", "**Loop complete**");
    assert_eq!(
        said,
        [
            "**Starting workflow**: w\n\nfixes red tests\n\nAt most 3 iterations, until \"COMPLETE\"",
            "**Iteration 1/3**",
            "looking",
            "**Iteration 2/3**",
            "looking\nalmost",
            "**Loop complete**: w (2 iterations)",
        ]
    );
    // Words of a message are never taken for a flag.
    assert!(env.read(".git/prompt").contains("do fix --agent-cmd 'touch hacked'"));
    assert!(!env.workspace().join("hacked").exists());
    assert_eq!(serve.messages("c2"), Vec::<String>::new());
    // How it was started is a recorded fact.
    let id = env.events(None).iter().find_map(|event| event["run"].as_str().map(str::to_owned)).unwrap();
    let events = env.run(["events", &id, "--json"]).assert_code(0).stdout;
    assert!(events.contains("\"conversation\":\"test:c1\""), "{events}");
    serve.say("c1", "/status");
    assert!(serve.wait_for(&env, "c1", "**Runs**").last().unwrap().contains("w: completed"));
    // Nothing of it without the token, and nothing of it under `web`.
    for (headers, expected) in [(&[][..], 401), (&[("authorization", "Bearer x")], 401)] {
        assert_eq!(serve.call("POST", "/test/message", headers, "{}").0, expected);
        assert_eq!(serve.call("GET", "/test/messages/c1", headers, "").0, expected);
    }
    let bearer = serve.bearer();
    for body in [
        "",
        "{}",
        "{\"conversationId\": \"\", \"message\": \"x\"}",
        "{\"conversationId\": \"c\", \"message\": \" \"}",
    ] {
        assert_eq!(serve.call("POST", "/test/message", &[("authorization", &bearer)], body).0, 400, "{body}");
    }
}

#[test]
fn only_a_decision_that_was_offered_answers_a_question() {
    let env = with(ASKS);
    let serve = Serve::start(&env);
    serve.say("c", "w");
    let said = serve.wait_for(&env, "c", "**Question**");
    assert_eq!(said.last().unwrap(), "**Question**: Ship it?\n\nAnswer with exactly one of: approve, reject");
    for (number, prose) in ["no, stop", "approve it please", "yes"].into_iter().enumerate() {
        serve.say("c", prose);
        env.wait_until("it says what is offered", SOON, || {
            count(&serve.messages("c"), "That decides nothing.") == number + 1
        });
    }
    assert!(!serve.messages("c").iter().any(|text| text.contains("shipped")));
    // Another conversation does not answer for this one.
    serve.say("other", "approve");
    serve.wait_for(&env, "other", "Nothing asks for an approval here.");
    serve.say("c", " APPROVE\n");
    let said = serve.wait_for(&env, "c", "**Workflow complete**: w");
    assert_eq!(count(&said, "shipped"), 1, "{said:#?}");
}

#[test]
fn an_agent_that_asks_gets_the_next_message_as_the_answer() {
    let env = with(LOOP);
    env.script("@1: sh 'dacapo ask \"Red or blue?\"'; exit 42\n@2+: prompt-to .git/prompt; promise COMPLETE");
    let serve = Serve::start(&env);
    serve.say("c", "w paint");
    let said = serve.wait_for(&env, "c", "**The agent asks**");
    assert!(said.last().unwrap().contains("Red or blue?"), "{said:#?}");
    serve.say("c", "blue, like the sky");
    serve.wait_for(&env, "c", "**Loop complete**");
    assert!(env.read(".git/prompt").contains("blue, like the sky"));
}

#[test]
fn a_free_message_is_routed_by_the_agent_or_asked_about() {
    let env = with(LOOP);
    // It chooses where it is asked to choose, and works where it is asked to work.
    let agent = env.root().join("bin/chooser");
    let script = "#!/bin/sh\ninput=$(cat)\ncase \"$input\" in\n*'Choose the workflow'*)\n  case \"$input\" in\n  \
                  *'> the tests are red'*) echo; echo w;;\n  *) echo NONE;;\n  esac;;\n*) echo '<promise>COMPLETE</promise>';;\nesac\n";
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let serve = Serve::start_with(&env, agent.to_str().unwrap());
    serve.say("c", "the tests are red, please help");
    serve.wait_for(&env, "c", "**Loop complete**: w (1 iterations)");
    serve.say("d", "sing a song");
    let said = serve.wait_for(&env, "d", "**Which workflow?**");
    assert!(said.last().unwrap().contains("w: fixes red tests"), "{said:#?}");
    configure(&env, "serve: {route: false}\n");
    serve.say("e", "the tests are red, please help");
    serve.wait_for(&env, "e", "**Which workflow?**");
}

#[test]
fn a_killed_server_loses_and_doubles_nothing() {
    let env = with(WAITS);
    let telegram = service(&env, ChatKind::Telegram, "");
    let serve = Serve::start(&env);
    first_look(&env);
    serve.say("c", "w");
    telegram.write("42", "42", "w");
    serve.wait_for(&env, "c", "**Step 1/2**");
    telegram.wait_for("Step 1/2", SOON);
    serve.kill();
    // The runs go on without it, and what is written meanwhile waits.
    fs::write(env.workspace().join(".git/go"), "").unwrap();
    telegram.write("42", "42", "/status");
    let over =
        || env.run(["status", "--workflows", "--json", "--all"]).stdout.matches("\"completed\"").count() >= 2;
    env.wait_until("both runs are over", SOON, over);
    let serve = Serve::start(&env);
    let said = serve.wait_for(&env, "c", "**Workflow complete**: w");
    let wanted =
        ["**Starting workflow**", "**Step 1/2**", "begun", "**Step 2/2**", "over", "**Workflow complete**"];
    for words in wanted {
        assert_eq!(count(&said, words), 1, "{words}: {said:#?}");
    }
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    telegram.wait_for("Workflow complete: w", SOON);
    telegram.wait_for("Runs", SOON);
    let sent = texts(&telegram.sent());
    for words in ["Starting workflow", "Step 1/2", "Step 2/2", "Workflow complete", "Runs"] {
        assert_eq!(count(&sent, words), 1, "{words}: {sent:#?}");
    }
    // And once more, with nothing left to say. In the very moment of a kill Telegram could not say what it has taken.
    let open = || {
        let db = rusqlite::Connection::open(env.dacapo_home().join("dacapo.db")).unwrap();
        let sql = "SELECT COUNT(*) FROM messages WHERE state IN ('queued', 'sending', 'received')";
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    env.wait_until("all of it is known to have arrived", SOON, || open() == 0);
    serve.kill();
    let serve = Serve::start(&env);
    serve.say("d", "/help");
    serve.wait_for(&env, "d", "**dacapo**");
    assert_eq!(serve.messages("c"), said);
    assert_eq!(texts(&telegram.sent()), sent);
}

#[test]
fn a_message_that_arrived_while_the_server_was_killed_is_not_sent_again() {
    for kind in [ChatKind::Discord, ChatKind::Slack] {
        let env = with(WAITS);
        let chat = service(&env, kind, "");
        let channel = if kind == ChatKind::Slack { "C1" } else { "500" };
        let serve = Serve::start(&env);
        // The service takes it, and the server dies before it hears so.
        chat.set_mute(true);
        first_look(&env);
        chat.write(channel, "U1", "w");
        chat.wait_for("Starting workflow", SOON);
        serve.kill();
        chat.set_mute(false);
        fs::write(env.workspace().join(".git/go"), "").unwrap();
        let serve = Serve::start(&env);
        chat.wait_for("Workflow complete", SOON);
        let sent = texts(&chat.sent());
        for words in ["Starting workflow", "Step 1/2", "Step 2/2", "Workflow complete"] {
            assert_eq!(count(&sent, words), 1, "{kind:?} {words}: {sent:#?}");
        }
        drop(serve);
    }
}

/// Waits until the server knows where to begin to read: what was written before its first start is not answered.
fn first_look(env: &TestEnv) {
    let db = env.dacapo_home().join("dacapo.db");
    env.wait_until("the channels have a position", SOON, || {
        let Ok(db) = rusqlite::Connection::open(&db) else { return false };
        db.query_row("SELECT COUNT(*) FROM channels", [], |row| row.get::<_, i64>(0))
            .is_ok_and(|count| count > 0)
    });
}

#[test]
fn telegram_tells_progress_ignores_strangers_and_shows_hostile_words_as_words() {
    // fault D8, fault K11
    let env = with(ASKS);
    let telegram = service(&env, ChatKind::Telegram, "");
    let serve = Serve::start(&env);
    first_look(&env);
    telegram.write("666", "666", "w");
    telegram.write("666", "666", "w again");
    let line = serve.running.wait_for_line(|line| line.contains("is ignored"), SOON);
    assert_eq!(line, "serve: telegram: a message of user 666 in 666 is ignored: not in `serve.telegram`");
    telegram.write("42", "42", "/w \u{1b}[31mnow\u{202e}");
    telegram.wait_for("Question: Ship it?", SOON);
    let sent = telegram.sent();
    let first = &sent[0].body;
    assert!(first["text"].as_str().unwrap().starts_with("Starting workflow: w"), "{first}");
    assert_eq!(first["entities"], json!([{"type": "bold", "offset": 0, "length": 17}]));
    assert_eq!((&first["chat_id"], &first["parse_mode"]), (&"42".into(), &Value::Null));
    telegram.write("42", "42", "no, stop");
    telegram.wait_for("That decides nothing.", SOON);
    telegram.write("42", "42", "approve");
    telegram.wait_for("Workflow complete: w", SOON);
    assert!(telegram.sent().iter().all(|sent| sent.channel == "42"), "strangers are told nothing");
    assert_eq!(serve.running.stderr().matches("is ignored").count(), 1, "one line for a stranger");
    // The token is nowhere: not in what is said, and not with the agents.
    let shown = serve.running.stderr() + &serve.running.stdout();
    assert!(!shown.contains(TOKEN), "{shown}");
}

#[test]
fn a_token_is_kept_from_agents_and_one_that_is_not_accepted_ends_the_adapter() {
    // req 161
    let env = with(LOOP);
    env.script("env-to .git/env; promise COMPLETE");
    let discord = service(&env, ChatKind::Discord, "");
    let serve = Serve::start(&env);
    first_look(&env);
    discord.write("500", "U1", "w");
    discord.wait_for("Loop complete", SOON);
    assert!(!env.read(".git/env").contains("CHAT_TOKEN"), "{}", env.read(".git/env"));
    discord.fail_next([ChatFailure::Status(401)]);
    let tries = discord.tries();
    discord.write("500", "U1", "/help");
    let line = serve.running.wait_for_line(|line| line.contains("does not accept the token"), SOON);
    assert!(
        line.starts_with("serve: discord: a message that matters for discord:500 was not delivered"),
        "{line}"
    );
    serve.running.wait_for_line(|line| line.contains("nothing is sent any more"), SOON);
    assert_eq!(discord.tries(), tries + 1, "no second try after a sign-in error");
}

#[test]
fn discord_waits_as_long_as_it_is_told_and_nothing_becomes_a_mention() {
    let env = with(LOOP);
    env.script("say '@everyone [click](http://evil) **loud**'; promise COMPLETE");
    let discord = service(&env, ChatKind::Discord, "");
    let serve = Serve::start(&env);
    first_look(&env);
    discord.fail_next([ChatFailure::TooMany(0.3), ChatFailure::TooMany(0.3)]);
    discord.write("500", "U1", "<@77> w");
    discord.wait_for("Loop complete", SOON);
    let sent = discord.sent();
    assert_eq!(
        texts(&sent),
        [
            "**Starting workflow**: w\n\nfixes red tests\n\nAt most 3 iterations, until \"COMPLETE\"",
            "**Iteration 1/3**",
            "@\u{200b}everyone \\[click\\](http://evil) \\*\\*loud\\*\\*",
            "**Loop complete**: w (1 iterations)",
        ]
    );
    assert!(sent.iter().all(|sent| sent.body["allowed_mentions"] == json!({"parse": []})));
    assert_eq!(discord.tries(), sent.len() + 2);
    drop(serve);
}

#[test]
fn slack_goes_on_in_a_thread_and_what_matters_is_tried_three_times() {
    // req 161
    let env = with(ASKS);
    let slack = service(&env, ChatKind::Slack, "");
    let serve = Serve::start(&env);
    first_look(&env);
    let ts = slack.write("C1", "U1", "<@UBOT> w a &lt;b&gt;");
    slack.wait_for("*Question*: Ship it?", SOON);
    assert!(slack.sent().iter().all(|sent| sent.thread.as_deref() == Some(&ts)));
    // Twice it fails, the third time it is taken.
    slack.fail_next([ChatFailure::Status(500), ChatFailure::Status(503)]);
    let tries = slack.tries();
    slack.write_in_thread("C1", &ts, "U1", "no &amp; stop");
    slack.wait_for("That decides nothing.", SOON);
    assert_eq!(slack.tries(), tries + 3);
    // Three times it fails: it is given up, said so, and the next message that arrives tells of it.
    slack.fail_next([ChatFailure::Status(500); 3]);
    slack.write_in_thread("C1", &ts, "U1", "!status");
    let line = serve.running.wait_for_line(|line| line.contains("was not delivered"), SOON);
    assert!(
        line.starts_with(&format!("serve: slack: a message that matters for slack:C1/{ts} was not")),
        "{line}"
    );
    assert_eq!(slack.tries(), tries + 6);
    slack.write_in_thread("C1", &ts, "U1", "approve");
    slack.wait_for("*Workflow complete*: w", SOON);
    slack.wait_for("*1 message could not be delivered*", SOON);
    assert!(
        slack.sent().iter().any(|sent| sent.text.contains("The newest said:\n\n**Runs**")),
        "{:#?}",
        texts(&slack.sent())
    );
}

#[test]
fn a_service_that_is_down_is_asked_again_until_it_is_back() {
    // req 161
    let env = with(WAITS);
    let slack = service(&env, ChatKind::Slack, "");
    let serve = Serve::start(&env);
    first_look(&env);
    slack.write("C1", "U1", "w");
    slack.wait_for("Step 1/2", SOON);
    slack.set_down(true);
    serve.running.wait_for_line(|line| line.contains("it cannot be reached"), SOON);
    fs::write(env.workspace().join(".git/go"), "").unwrap();
    // What only tells of progress is dropped, what matters is tried, and then it is said that it was lost.
    serve.running.wait_for_line(|line| line.contains("was not delivered"), SOON);
    let lost = || {
        let db = rusqlite::Connection::open(env.dacapo_home().join("dacapo.db")).unwrap();
        db.query_row("SELECT COUNT(*) FROM messages WHERE state = 'undelivered'", [], |row| {
            row.get::<_, i64>(0)
        })
        .unwrap()
    };
    env.wait_until("the end is given up", SOON, || lost() == 1);
    slack.set_down(false);
    serve.running.wait_for_line(|line| line.contains("it can be reached again"), SOON);
    slack.wait_for("1 message could not be delivered", SOON);
    slack.wait_until("the end is told", SOON, |sent| {
        sent.iter().any(|sent| sent.text.contains("**Workflow complete**: w"))
    });
}

#[test]
fn a_stream_sends_each_message_and_each_tool_at_once() {
    // req 153
    let env = with("loop: {until: COMPLETE, max_iterations: 3}\nprompt: do $USER_MESSAGE\n");
    let message = |text: &str| {
        let content = json!([{"type": "text", "text": text}]);
        json!({"type": "assistant", "message": {"id": text, "model": "m", "role": "assistant", "content": content}})
    };
    let tool = json!({"type": "assistant", "message": {"id": "t", "model": "m", "content": [
        {"type": "tool_use", "name": "Bash", "input": {"command": "cargo test"}}]}});
    let result = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s", "result": "",
        "total_cost_usd": 0.1, "usage": {"input_tokens": 1, "output_tokens": 1}});
    let script = format!(
        "say '{}'\nsay '{tool}'\nwait-file .git/go\nsay '{}'\nsay '{result}'",
        message("Looking."),
        message("Done.\n<promise>COMPLETE</promise>")
    );
    let turns = env.turns(&[&script]);
    let telegram = ChatServer::start(ChatKind::Telegram, TOKEN);
    let (program, url) = (dacapo_testkit::fake_agent(), telegram.url());
    configure(
        &env,
        &format!(
            "agents: {{mine: {{command: ['{}', --turns, '{}'], output: claude}}}}\n\
             serve: {{telegram: {{token_env: CHAT_TOKEN, users: ['42'], mode: stream, api: '{url}'}}}}\n",
            program.display(),
            turns.display()
        ),
    );
    let mut command =
        env.dacapo(["serve", "--port", "0", "--trust", "--restart-delay", "0s", "--agent", "mine"]);
    command.env("CHAT_TOKEN", TOKEN);
    let running = Running::start(command);
    running.wait_for_line(|line| line.starts_with("token "), SOON);
    first_look(&env);
    telegram.write("42", "42", "w");
    // Before the agent has ended.
    telegram.wait_for("[Bash] cargo test", SOON);
    assert_eq!(count(&texts(&telegram.sent()), "Done."), 0);
    fs::write(env.workspace().join(".git/go"), "").unwrap();
    telegram.wait_for("Loop complete", SOON);
    let sent = texts(&telegram.sent());
    assert_eq!(
        sent[1..],
        ["Iteration 1/3", "Looking.", "[Bash] cargo test", "Done.", "Loop complete: w (1 iterations)"]
    );
}

#[test]
fn a_webhook_is_believed_only_with_a_fresh_signature() {
    let env = with(LOOP);
    env.script("promise COMPLETE");
    let receiver = ChatServer::start(ChatKind::Receiver, "");
    let secret = env.home().join("hook-secret");
    fs::write(&secret, "s3cret\n").unwrap();
    let config = format!(
        "serve: {{webhook: {{secret_file: '{}', url: '{}/in?key=abc'}}}}\n",
        secret.display(),
        receiver.url()
    );
    configure(&env, &config);
    // A secret that others can read is none.
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = env.run(["serve", "--port", "0"]).assert_code(2);
    assert!(refused.stderr.contains("which other users may read"), "{}", refused.stderr);
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let serve = Serve::start(&env);
    let body = json!({"conversationId": "job-7", "message": "w now"}).to_string();
    let now = jiff::Timestamp::now().as_second();
    let post = |timestamp: i64, signature: &str, body: &str| {
        let timestamp = timestamp.to_string();
        let headers = [("x-dacapo-timestamp", timestamp.as_str()), ("x-dacapo-signature", signature)];
        serve.call("POST", "/messages/webhook", &headers, body)
    };
    let old = now - 3600;
    for (timestamp, signature) in [
        (now, "v1=00".to_owned()),
        (now, sign("other", now, &body)),
        (now, sign("s3cret", now, "{}")),
        (old, sign("s3cret", old, &body)),
        (now, sign("s3cret", old, &body)),
    ] {
        assert_eq!(post(timestamp, &signature, &body).0, 401, "{signature}");
    }
    assert_eq!(serve.call("POST", "/messages/webhook", &[("authorization", &serve.bearer())], &body).0, 401);
    let good = sign("s3cret", now, &body);
    assert_eq!(post(now, &good, &body), (202, json!({"accepted": true, "duplicate": false})));
    // Sent again as it was, it starts nothing.
    assert_eq!(post(now, &good, &body), (202, json!({"accepted": true, "duplicate": true})));
    receiver.wait_for("**Loop complete**: w", SOON);
    let sent = receiver.sent();
    assert_eq!(count(&texts(&sent), "**Starting workflow**"), 1);
    for sent in &sent {
        let header = |name: &str| sent.headers.iter().find(|(known, _)| known == name).unwrap().1.clone();
        let timestamp: i64 = header("x-dacapo-timestamp").parse().unwrap();
        let body = String::from_utf8(sent.raw.clone()).unwrap();
        assert_eq!(header("x-dacapo-signature"), sign("s3cret", timestamp, &body));
        assert_eq!(sent.channel, "job-7");
    }
}

/// The signature that the guide describes, made by another program than dacapo.
fn sign(secret: &str, timestamp: i64, body: &str) -> String {
    let script = "import hmac,hashlib,sys; print('v1='+hmac.new(sys.argv[1].encode(),('v1:'+sys.argv[2]+':'+sys.argv[3]).encode(),hashlib.sha256).hexdigest())";
    let output = std::process::Command::new("python3")
        .args(["-c", script, secret, &timestamp.to_string(), body])
        .output()
        .expect("python3 is needed here: install it");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn what_is_missing_is_said_before_anything_starts() {
    let env = with(LOOP);
    for (config, message) in [
        (
            "serve: {telegram: {token_env: NOT_SET_HERE, users: [1]}}\n",
            "names the variable NOT_SET_HERE, which is not set",
        ),
        ("serve: {slack: {token_file: ~/none, users: [1], channels: [C]}}\n", "cannot be read"),
        ("serve: {slack: {token_env: X, users: [], channels: [C]}}\n", "needs `users`"),
    ] {
        configure(&env, config);
        let output = env.run(["serve", "--port", "0"]).assert_code(2);
        assert!(output.stderr.contains(message), "{}", output.stderr);
    }
}
