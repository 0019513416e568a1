//! A model that follows a script: real agents talk to it on 127.0.0.1 as they would to their provider.
//!
//! ```
//! use dacapo_testkit::model_server::{ModelServer, ToolCall, ScriptedTurn};
//!
//! let server = ModelServer::start([
//!     ScriptedTurn::call(ToolCall::shell("echo hi > file")),
//!     ScriptedTurn::say("All done."),
//! ]);
//! // … an agent is given `server.url()` as its provider's address and runs …
//! assert!(server.main_requests().is_empty(), "no agent has asked yet");
//! ```

mod failure;
pub(crate) mod http;
mod protocol;
mod reply;
mod request;
mod tool;
mod turn;

use std::{
    collections::HashMap,
    io::{self, BufReader, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::Duration,
};

use self::{
    http::RawRequest,
    reply::{After, Reply},
    request::Conversation,
};
pub use self::{
    protocol::Protocol,
    request::Request,
    turn::{Failure, ScriptedTurn, ToolCall, Usage},
};

/// A scripted model that listens. When it goes, its connections are closed and its threads have ended.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    port: u16,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    turns: Vec<ScriptedTurn>,
    /// How many main requests these turns have answered.
    taken: usize,
    requests: Vec<Request>,
    open: HashMap<usize, TcpStream>,
    stopping: bool,
}

impl ModelServer {
    /// Listens on a free port of 127.0.0.1. Each main request takes the next turn; the last turn is repeated.
    pub fn start(turns: impl IntoIterator<Item = ScriptedTurn>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let shared =
            Arc::new(Shared { port: address.port(), state: Mutex::default(), changed: Condvar::new() });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        let server = Self { address, shared, acceptor: Some(acceptor) };
        server.set_turns(turns);
        server
    }

    /// The provider's address: `http://127.0.0.1:PORT`, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on these turns, from the first.
    pub fn set_turns(&self, turns: impl IntoIterator<Item = ScriptedTurn>) {
        let turns: Vec<ScriptedTurn> = turns.into_iter().collect();
        assert!(!turns.is_empty(), "a script has at least one turn");
        let mut state = self.shared.lock();
        state.turns = turns;
        state.taken = 0;
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// What was answered by turns of the script.
    pub fn main_requests(&self) -> Vec<Request> {
        self.shared.lock().requests.iter().filter(|request| request.is_main).cloned().collect()
    }

    /// Waits until `count` main requests came, counted from the start; panics with what came if they do not in time.
    #[track_caller]
    pub fn wait_for_main_requests(&self, count: usize, timeout: Duration) -> Vec<Request> {
        let mains = |state: &State| state.requests.iter().filter(|request| request.is_main).count();
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, timeout, |state| mains(state) < count);
        let state = waited.expect("no connection panics while it holds the state").0;
        let came = mains(&state);
        let paths: Vec<String> = state.requests.iter().map(|request| request.path.clone()).collect();
        drop(state);
        assert!(came >= count, "waited {timeout:?} for {count} main requests, {came} came: {paths:?}");
        self.main_requests()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        for connection in state.open.values() {
            // Fails only when the client has gone before.
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        // The acceptor waits for the next connection; this one wakes it, and it sees that the server is over.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut connections: Vec<JoinHandle<()>> = Vec::new();
    for (number, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else { continue };
        let mut state = shared.lock();
        if state.stopping {
            break;
        }
        let Ok(handle) = stream.try_clone() else { continue };
        state.open.insert(number, handle);
        drop(state);
        let shared = Arc::clone(shared);
        connections.push(thread::spawn(move || {
            // A client that breaks off or speaks no HTTP ends its own connection and nothing else.
            let _ = serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
            shared.lock().open.remove(&number);
        }));
    }
    for connection in connections {
        let _ = connection.join();
    }
}

/// Answers one client until it goes or is cut off.
fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    // Events are small, and an agent should not have to wait for the next one to see this one.
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream.try_clone()?;
    while let Some(raw) = http::read_request(&mut reader)? {
        let reply = shared.reply(raw);
        for piece in reply.pieces {
            writer.write_all(&piece)?;
        }
        match reply.after {
            After::GoOn => {}
            After::Close => return Ok(()),
            After::Wait => {
                // Ends when the client goes, or the server does.
                io::copy(&mut reader, &mut io::sink())?;
                return Ok(());
            }
        }
    }
    Ok(())
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no connection panics while it holds the state")
    }

    /// Records a request and says what goes back.
    fn reply(&self, raw: RawRequest) -> Reply {
        let RawRequest { method, path, headers, body: bytes } = raw;
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        let conversation = if method == "POST" { Conversation::read(&path, &body) } else { None };
        let is_main = conversation.as_ref().is_some_and(Conversation::is_main);
        let request = Request { method, path, headers, body, is_main, conversation };

        let mut state = self.lock();
        let id = format!("{}x{}", self.port, state.requests.len());
        state.requests.push(request.clone());
        let turn = is_main.then(|| state.take_turn());
        drop(state);
        self.changed.notify_all();

        match (&request.conversation, turn) {
            (Some(conversation), Some(turn)) => Reply::of_turn(&turn, conversation, &id),
            (Some(conversation), None) => Reply::to_side_request(conversation, &id),
            (None, _) => Reply::to_other(&request, bytes.len()),
        }
    }
}

impl State {
    fn take_turn(&mut self) -> ScriptedTurn {
        let turn = self.turns[self.taken.min(self.turns.len() - 1)].clone();
        self.taken += 1;
        turn
    }
}

#[cfg(test)]
mod tests;
