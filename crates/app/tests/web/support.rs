//! What these tests share: a server in a world of its own, and requests to it byte by byte, so that nothing is put right on
//! the way.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use dacapo_testkit::{Running, TestEnv};
use serde_json::Value;

/// Far more than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_dacapo"))
}

/// Runs a loop of the fake agent to its end; gives its id.
#[track_caller]
pub(crate) fn looped(env: &TestEnv, script: &str, extra: &[&str]) -> String {
    env.run_agent(script, extra);
    newest(env)
}

/// The loop that was started last.
#[track_caller]
pub(crate) fn newest(env: &TestEnv) -> String {
    let started = env.events(None).into_iter().rev().find(|event| event["type"] == "loop_started");
    started.expect("a loop")["loop"].as_str().expect("an id").to_owned()
}

/// A server that runs.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) port: u16,
    pub(crate) token: String,
    /// What `web` prints; empty for `serve`.
    pub(crate) link: String,
}

impl Server {
    /// `dacapo web --port 0 …`.
    #[track_caller]
    pub(crate) fn web(env: &TestEnv, extra: &[&str]) -> Self {
        Self::start(env, &[&["web", "--port", "0"], extra].concat())
    }

    #[track_caller]
    pub(crate) fn start(env: &TestEnv, args: &[&str]) -> Self {
        let running = env.spawn(args);
        let line = running.wait_for_line(|line| line.contains("http://"), LONG);
        let (before, port) = line.rsplit_once(':').expect("a port");
        assert!(before.ends_with("http://127.0.0.1"), "{line}");
        let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
        let token = fs::read_to_string(env.dacapo_home().join("web/token")).expect("the token");
        let link = if line.contains("/login") { line.clone() } else { String::new() };
        Self { running, port: digits.parse().expect("a port"), token: token.trim().to_owned(), link }
    }

    /// The head that makes a request a good one.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// A connection that fails rather than to hang.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        stream.set_read_timeout(Some(LONG)).expect("a time limit");
        stream.set_write_timeout(Some(LONG)).expect("a time limit");
        stream
    }

    /// Sends exactly these headers, beside `Connection: close` and the length of the body, and reads the answer.
    #[track_caller]
    pub(crate) fn send(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut stream = self.connect();
        let head = head(verb, path, headers, Some(body.len()));
        stream.write_all(head.as_bytes()).expect("the head goes out");
        // The server may have answered already, and closed.
        let _ = stream.write_all(body);
        Reply::read(stream)
    }

    /// A good request of a script.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[("Host", &self.host()), ("Authorization", &self.bearer())], b"")
    }

    #[track_caller]
    pub(crate) fn json(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        let (host, bearer) = (self.host(), self.bearer());
        let headers =
            [("Host", host.as_str()), ("Authorization", &bearer), ("Content-Type", "application/json")];
        self.send("POST", path, &headers, body.as_bytes())
    }

    /// Follows the login link; gives the cookie.
    #[track_caller]
    pub(crate) fn login(&self) -> String {
        let path = self.link.split_once(&self.host()).expect("a link").1;
        let reply = self.send("GET", path, &[("Host", &self.host())], b"");
        assert_eq!(reply.status, 303, "{}", reply.body);
        assert_eq!(reply.header("location"), Some("/"));
        reply.header("set-cookie").expect("a cookie").split(';').next().expect("a value").to_owned()
    }

    /// Opens a stream of events.
    #[track_caller]
    pub(crate) fn listen(&self, path: &str, last: Option<u64>) -> Events {
        let (host, bearer) = (self.host(), self.bearer());
        let last = last.map(|last| last.to_string());
        let mut headers = vec![("Host", host.as_str()), ("Authorization", &bearer)];
        headers.extend(last.as_deref().map(|last| ("Last-Event-ID", last)));
        let mut stream = self.connect();
        stream.write_all(head("GET", path, &headers, None).as_bytes()).expect("the head goes out");
        let mut lines = BufReader::new(stream);
        let reply = Reply::head(&mut lines);
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
        Events { lines, pending: String::new() }
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(self) {
        self.running.signal(dacapo_testkit::Signal::KILL);
        self.running.wait(LONG);
    }
}

pub(crate) fn head(verb: &str, path: &str, headers: &[(&str, &str)], length: Option<usize>) -> String {
    let mut text = format!("{verb} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = length.filter(|length| *length > 0 || verb == "POST") {
        text.push_str(&format!("Content-Length: {length}\r\n"));
    }
    text + "\r\n"
}

/// An answer. The body of a stream of events is not read.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    /// Reads a whole answer.
    #[track_caller]
    pub(crate) fn read(stream: TcpStream) -> Self {
        let mut lines = BufReader::new(stream);
        let mut reply = Self::head(&mut lines);
        if reply.header("content-type") == Some("text/event-stream") {
            return reply;
        }
        let mut bytes = Vec::new();
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = chunk(&mut lines) {
                bytes.extend(chunk);
            }
        } else {
            let length = reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
            lines.take(length).read_to_end(&mut bytes).expect("the body comes");
        }
        reply.body = String::from_utf8(bytes).expect("an answer is UTF-8");
        reply
    }

    #[track_caller]
    fn head(lines: &mut impl BufRead) -> Self {
        let mut line = String::new();
        lines.read_line(&mut line).expect("an answer comes");
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no answer: `{line}`"));
        let mut headers = Vec::new();
        loop {
            line.clear();
            lines.read_line(&mut line).expect("the head comes");
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
                None => return Self { status, headers, body: String::new() },
            }
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("no JSON, {error}: {}", self.body))
    }
}

/// One piece of a body that comes in pieces.
fn chunk(lines: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    lines.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let length = usize::from_str_radix(line.trim(), 16).ok().filter(|length| *length > 0)?;
    let mut bytes = vec![0; length + 2];
    lines.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// A stream of events that is being read.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    pending: String,
}

/// One of its events.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

impl Events {
    /// The next event; `None` when the server ends the stream.
    pub(crate) fn next(&mut self) -> Option<Heard> {
        loop {
            while let Some((block, rest)) = self.pending.split_once("\n\n") {
                let field = |name: &str| {
                    let value = block.lines().find_map(|line| line.strip_prefix(name));
                    value.map(|value| value.trim().to_owned())
                };
                let heard = field("data:").map(|data| Heard {
                    id: field("id:").and_then(|id| id.parse().ok()).expect("an id"),
                    kind: field("event:").unwrap_or_default(),
                    data: serde_json::from_str(&data).expect("JSON"),
                });
                self.pending = rest.to_owned();
                if heard.is_some() {
                    return heard;
                }
            }
            self.pending.push_str(&String::from_utf8(chunk(&mut self.lines)?).expect("UTF-8"));
        }
    }

    /// Reads up to the first event of this type; gives all of them.
    #[track_caller]
    pub(crate) fn up_to(&mut self, kind: &str) -> Vec<Heard> {
        let begin = Instant::now();
        let mut all = Vec::new();
        while begin.elapsed() < LONG {
            let Some(heard) = self.next() else { break };
            let is_last = heard.data["type"] == kind;
            all.push(heard);
            if is_last {
                return all;
            }
        }
        panic!("no `{kind}` came: {all:?}");
    }
}
