//! Local servers that speak as much of Slack, Telegram, Discord and a webhook's receiver as dacapo uses.

use std::{
    collections::{HashSet, VecDeque},
    io::{BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::model_server::http::{RawRequest, document, read_request};

/// How long a poll for updates is held open: shorter than a real service does, so that tests end soon.
const HOLD: Duration = Duration::from_millis(500);

/// Which service it plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatKind {
    Slack,
    Telegram,
    Discord,
    /// A program that takes what a webhook posts.
    Receiver,
}

/// What a service does instead of taking a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChatFailure {
    Status(u16),
    /// 429, with how long to wait.
    TooMany(f64),
}

/// A message that a service was sent.
#[derive(Clone, Debug)]
pub struct SentToChat {
    pub channel: String,
    pub thread: Option<String>,
    pub text: String,
    /// Everything it was sent with.
    pub body: Value,
    pub headers: Vec<(String, String)>,
    pub raw: Vec<u8>,
}

/// A message that a user wrote in the service.
struct Written {
    id: u64,
    channel: String,
    thread: Option<u64>,
    user: String,
    is_bot: bool,
    text: String,
    metadata: Value,
}

#[derive(Default)]
struct State {
    written: Vec<Written>,
    sent: Vec<SentToChat>,
    nonces: HashSet<String>,
    failures: VecDeque<ChatFailure>,
    is_down: bool,
    /// Messages are taken, and the answer does not come.
    is_mute: bool,
    tries: usize,
    next: u64,
}

struct Inner {
    kind: ChatKind,
    token: String,
    state: Mutex<State>,
    changed: Condvar,
}

/// A local service. It ends with the process of the test.
pub struct ChatServer {
    inner: Arc<Inner>,
    address: SocketAddr,
}

impl ChatServer {
    /// A service that accepts `token`.
    pub fn start(kind: ChatKind, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        // As real ids are: numbers that grow, and time stamps of this time.
        let seconds = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() + 1000;
        let state = Mutex::new(State { next: seconds, ..State::default() });
        let inner = Arc::new(Inner { kind, token: token.to_owned(), state, changed: Condvar::new() });
        let served = Arc::clone(&inner);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                thread::spawn(move || served.converse(stream));
            }
        });
        Self { inner, address }
    }

    /// Where it is, as `api` of a configuration has it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A user writes something; gives the id of the message.
    pub fn write(&self, channel: &str, user: &str, text: &str) -> String {
        self.add(channel, None, user, text)
    }

    /// A user writes something in the thread of a message.
    pub fn write_in_thread(&self, channel: &str, thread: &str, user: &str, text: &str) -> String {
        self.add(channel, thread.split('.').next().and_then(|id| id.parse().ok()), user, text)
    }

    fn add(&self, channel: &str, thread: Option<u64>, user: &str, text: &str) -> String {
        let mut state = self.inner.lock();
        state.next += 1;
        let id = state.next;
        let (channel, user, text) = (channel.to_owned(), user.to_owned(), text.to_owned());
        state.written.push(Written { id, channel, thread, user, is_bot: false, text, metadata: Value::Null });
        self.inner.changed.notify_all();
        self.inner.name(id)
    }

    pub fn sent(&self) -> Vec<SentToChat> {
        self.inner.lock().sent.clone()
    }

    /// How often it was tried to send something to it.
    pub fn tries(&self) -> usize {
        self.inner.lock().tries
    }

    /// The next messages are not taken.
    pub fn fail_next(&self, failures: impl IntoIterator<Item = ChatFailure>) {
        self.inner.lock().failures.extend(failures);
    }

    /// Whether it closes every connection.
    pub fn set_down(&self, is_down: bool) {
        self.inner.lock().is_down = is_down;
    }

    /// Whether it takes messages and does not answer.
    pub fn set_mute(&self, is_mute: bool) {
        self.inner.lock().is_mute = is_mute;
        self.inner.changed.notify_all();
    }

    /// Waits until what was sent is as wanted.
    #[track_caller]
    pub fn wait_until(&self, what: &str, timeout: Duration, mut is_so: impl FnMut(&[SentToChat]) -> bool) {
        let deadline = Instant::now() + timeout;
        let mut state = self.inner.lock();
        while !is_so(&state.sent) {
            let left = deadline.saturating_duration_since(Instant::now());
            let texts: Vec<&str> = state.sent.iter().map(|sent| sent.text.as_str()).collect();
            assert!(!left.is_zero(), "waited {timeout:?} in vain until {what}: {texts:#?}");
            state = self.inner.changed.wait_timeout(state, left).expect("no panic while locked").0;
        }
    }

    /// Waits until a text was sent that holds `words`.
    #[track_caller]
    pub fn wait_for(&self, words: &str, timeout: Duration) {
        self.wait_until(words, timeout, |sent| sent.iter().any(|sent| sent.text.contains(words)));
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// The id of a message as the service writes it.
    fn name(&self, id: u64) -> String {
        match self.kind {
            ChatKind::Slack => format!("{id}.000001"),
            _ => id.to_string(),
        }
    }

    fn converse(&self, stream: TcpStream) {
        let Ok(mut out) = stream.try_clone() else { return };
        let mut from = BufReader::new(stream);
        while let Ok(Some(request)) = read_request(&mut from) {
            if self.lock().is_down {
                return;
            }
            let Some(answer) = self.answer(&request) else { return };
            if out.write_all(&answer).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: &RawRequest) -> Option<Vec<u8>> {
        if !self.is_known(request) {
            return Some(match self.kind {
                ChatKind::Slack => document(200, &[], &json!({"ok": false, "error": "invalid_auth"})),
                _ => document(401, &[], &json!({"message": "Unauthorized", "description": "Unauthorized"})),
            });
        }
        if request.method == "POST" {
            return self.take(request);
        }
        let answer = match self.kind {
            ChatKind::Slack => self.slack(&request.path),
            ChatKind::Telegram => self.telegram(&request.path),
            ChatKind::Discord => self.discord(&request.path),
            ChatKind::Receiver => json!({}),
        };
        Some(document(200, &[], &answer))
    }

    fn is_known(&self, request: &RawRequest) -> bool {
        let header =
            |name: &str| request.headers.iter().find(|(known, _)| known == name).map(|(_, v)| v.as_str());
        match self.kind {
            ChatKind::Slack => header("authorization") == Some(format!("Bearer {}", self.token).as_str()),
            ChatKind::Discord => header("authorization") == Some(format!("Bot {}", self.token).as_str()),
            ChatKind::Telegram => request.path.starts_with(&format!("/bot{}/", self.token)),
            ChatKind::Receiver => true,
        }
    }

    /// A message is sent to the service.
    fn take(&self, request: &RawRequest) -> Option<Vec<u8>> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut state = self.lock();
        state.tries += 1;
        if let Some(failure) = state.failures.pop_front() {
            drop(state);
            self.changed.notify_all();
            return Some(match failure {
                ChatFailure::Status(status) => document(status, &[], &json!({"message": "no"})),
                ChatFailure::TooMany(seconds) => {
                    let header = [("retry-after".to_owned(), seconds.to_string())];
                    document(
                        429,
                        &header,
                        &json!({"retry_after": seconds, "parameters": {"retry_after": seconds}}),
                    )
                }
            });
        }
        let word = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let (channel, thread, text) = match self.kind {
            ChatKind::Slack => (word("channel"), body["thread_ts"].as_str().map(str::to_owned), word("text")),
            ChatKind::Telegram => (word("chat_id"), None, word("text")),
            ChatKind::Discord => {
                (request.path.split('/').nth(2).unwrap_or_default().to_owned(), None, word("content"))
            }
            ChatKind::Receiver => (word("conversationId"), None, word("message")),
        };
        let is_again = body["enforce_nonce"] == true && !state.nonces.insert(word("nonce"));
        if !is_again {
            state.next += 1;
            let id = state.next;
            let in_thread = thread.as_deref().and_then(|thread| thread.split('.').next()?.parse().ok());
            state.written.push(Written {
                id,
                channel: channel.clone(),
                thread: in_thread,
                user: "bot".to_owned(),
                is_bot: true,
                text: text.clone(),
                metadata: body["metadata"].clone(),
            });
            let (headers, raw) = (request.headers.clone(), request.body.clone());
            state.sent.push(SentToChat { channel, thread, text, body, headers, raw });
        }
        let id = state.next;
        self.changed.notify_all();
        while state.is_mute {
            state = self.changed.wait(state).expect("no panic while locked");
            if !state.is_mute {
                return None;
            }
        }
        drop(state);
        Some(document(
            200,
            &[],
            &json!({"ok": true, "id": id.to_string(), "ts": self.name(id), "result": {"message_id": id}}),
        ))
    }

    /// `getUpdates`: held open for a moment.
    fn telegram(&self, path: &str) -> Value {
        let offset: i64 = query(path, "offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        let deadline = Instant::now()
            + if query(path, "timeout").as_deref() == Some("0") { Duration::ZERO } else { HOLD };
        let mut state = self.lock();
        loop {
            let mut all: Vec<&Written> = state.written.iter().filter(|it| !it.is_bot).collect();
            if offset < 0 {
                all.drain(..all.len().saturating_sub(1));
            } else {
                all.retain(|it| it.id.cast_signed() >= offset);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !all.is_empty() || left.is_zero() {
                let number = |text: &str| text.parse::<i64>().unwrap_or(0);
                let updates = all.iter().map(|it| {
                    json!({"update_id": it.id, "message": {
                        "message_id": it.id, "text": it.text, "chat": {"id": number(&it.channel)},
                        "from": {"id": number(&it.user), "is_bot": false},
                    }})
                });
                return json!({"ok": true, "result": updates.collect::<Vec<_>>()});
            }
            state = self.changed.wait_timeout(state, left).expect("no panic while locked").0;
        }
    }

    fn discord(&self, path: &str) -> Value {
        let channel = path.split('/').nth(2).unwrap_or_default();
        let after: u64 = query(path, "after").and_then(|text| text.parse().ok()).unwrap_or(0);
        let limit: usize = query(path, "limit").and_then(|text| text.parse().ok()).unwrap_or(50);
        let state = self.lock();
        let found =
            state.written.iter().rev().filter(|it| it.channel == channel && it.id > after).take(limit);
        let found = found.map(|it| {
            json!({"id": it.id.to_string(), "type": 0, "content": it.text, "author": {"id": it.user, "bot": it.is_bot}})
        });
        found.collect::<Vec<_>>().into()
    }

    fn slack(&self, path: &str) -> Value {
        let channel = query(path, "channel").unwrap_or_default();
        let number = |name: &str| {
            query(path, name).and_then(|ts| ts.split('.').next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let oldest = number("oldest");
        let thread = path.starts_with("/conversations.replies").then(|| number("ts"));
        let state = self.lock();
        let found = state.written.iter().rev().filter(|it| {
            let is_of = match thread {
                Some(thread) => it.thread == Some(thread) || it.id == thread,
                None => it.thread.is_none(),
            };
            it.channel == channel && is_of && it.id >= oldest
        });
        let found = found.map(|it| {
            let mut message = json!({
                "type": "message", "ts": self.name(it.id), "user": it.user, "text": it.text, "metadata": it.metadata,
            });
            if let Some(thread) = it.thread {
                message["thread_ts"] = self.name(thread).into();
            }
            if it.is_bot {
                message["bot_id"] = "B1".into();
            }
            message
        });
        json!({"ok": true, "messages": found.collect::<Vec<_>>(), "has_more": false})
    }
}

fn query(path: &str, name: &str) -> Option<String> {
    let (_, query) = path.split_once('?')?;
    let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    found.map(|value| value.replace("%2F", "/"))
}
