//! Messages in and out: only under `dacapo serve`.
//!
//! ```text
//!  listen (a thread per service) ─┐                      ┌─► outbox (a thread per service) ─► service
//!  POST /test/message             ├─► messages (journal) ┤
//!  POST /messages/webhook        ─┘        │      ▲      └─► GET /test/messages/ID
//!                                          ▼      │
//!                        inbox ─► commands of dacapo, run in the background
//!                                                 │
//!                        tell ◄─ events of runs ──┘
//! ```
//!
//! All of them block, so each has a thread. What passes from one to the other is rows in the journal's database: a server that is
//! killed finds them again, and each thread is woken by the change of the journal.

mod adapter;
mod discord;
mod inbox;
mod listen;
mod outbox;
mod services;
mod signature;
mod slack;
mod telegram;
mod tell;
mod test_adapter;
mod webhook;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsString,
    io::Write,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, State as Extracted},
    http::{HeaderMap, StatusCode},
};
use dacapo_core::{
    chat::{Conversation, Service, incoming, neutral},
    ids::RunId,
    text::ansi::readable,
};
use dacapo_engine::{client::ClientError, home::Home, secrets::secrets, store::ChatState};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

pub use services::{ServiceError, check};

use self::{adapter::Adapter, signature::verify};
use crate::{
    ApiError,
    routes::{Access, Route},
    state::Shared,
};

/// How many messages of a conversation are shown.
const SHOWN: u32 = 1000;
/// The longest name of a conversation.
const LONGEST_NAME: usize = 200;

/// What a conversation may be called by a program.
const NAME: &str = "letters, digits and `._:@#+-`, at most 200, beginning with a letter or digit";

fn is_name(name: &str) -> bool {
    let is_known = |c: char| c.is_alphanumeric() || "._:@#+-".contains(c);
    name.len() <= LONGEST_NAME && name.starts_with(char::is_alphanumeric) && name.chars().all(is_known)
}

/// What the threads share.
struct Desk {
    home: Home,
    folder: PathBuf,
    run_flags: Vec<OsString>,
    /// By the name of the adapter.
    services: HashMap<String, Service>,
    runs: Mutex<BTreeMap<RunId, Conversation>>,
    /// Conversations of which a message is being dealt with.
    occupied: Mutex<HashSet<Conversation>>,
    /// Whether the runs of before are known.
    ready: (Mutex<bool>, Condvar),
    /// Whether each service could be reached again after a failure, or is new.
    back: HashMap<String, AtomicBool>,
    ending: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// One line for the user of the server.
    fn note(&self, about: &str, what: &str) {
        let line = secrets().redact(what).into_owned();
        let line = readable(line.as_bytes()).replace('\n', " ");
        let _ = writeln!(std::io::stderr().lock(), "serve: {about}: {line}");
    }

    /// Sleeps, but not beyond the end of the server.
    fn sleep(&self, long: Duration) {
        let step = Duration::from_millis(200);
        let mut left = long;
        while !left.is_zero() && !self.is_ending() {
            let now = left.min(step);
            thread::sleep(now);
            left = left.saturating_sub(now);
        }
    }

    fn is_ready(&self) {
        *locked(&self.ready.0) = true;
        self.ready.1.notify_all();
    }

    fn wait_until_ready(&self) {
        let waiting =
            self.ready.1.wait_while(locked(&self.ready.0), |is_ready| !*is_ready && !self.is_ending());
        drop(waiting);
    }

    fn back(&self, adapter: &str) -> &AtomicBool {
        static NONE: AtomicBool = AtomicBool::new(false);
        self.back.get(adapter).unwrap_or(&NONE)
    }

    fn remember(&self, run: &RunId, conversation: &Conversation) {
        locked(&self.runs).insert(run.clone(), conversation.clone());
    }

    fn forget(&self, run: &RunId) {
        locked(&self.runs).remove(run);
    }

    fn runs_beside(&self, here: &Conversation) -> Vec<(RunId, Conversation)> {
        let runs = locked(&self.runs);
        runs.iter().filter(|(_, of)| of.is_beside(here)).map(|(id, of)| (id.clone(), of.clone())).collect()
    }

    /// Takes a conversation for one message; false if another one has it.
    fn occupy(&self, conversation: &Conversation) -> bool {
        locked(&self.occupied).insert(conversation.clone())
    }

    fn release(&self, conversation: &Conversation) {
        locked(&self.occupied).remove(conversation);
    }

    fn is_occupied(&self) -> bool {
        !locked(&self.occupied).is_empty()
    }
}

/// The routes by which messages come in.
pub fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/test/message",
            Access::Token,
            "Takes a message of a conversation, as a chat service would.",
            test_message,
        )
        .body("`{\"conversationId\": \"…\", \"message\": \"…\"}`"),
        Route::get(
            "/test/messages/{id}",
            Access::Token,
            "Shows what was sent to a conversation.",
            test_messages,
        ),
        Route::post(
            "/messages/webhook",
            Access::Signed,
            "Takes a signed message of a program.",
            webhook_message,
        )
        .body("`{\"conversationId\": \"…\", \"message\": \"…\", \"id\": \"…\"}`, signed"),
    ]
}

/// What listens and sends beside the routes, for as long as the server runs.
pub async fn run(state: Shared) {
    let mut ending = state.ending();
    let settings = &state.settings;
    let adapters = match services::adapters(&settings.folder) {
        Ok(adapters) => adapters,
        Err(error) => {
            let _ = writeln!(std::io::stderr().lock(), "serve: {error}");
            return;
        }
    };
    let services = adapters.iter().map(|it| (it.name().to_owned(), it.service())).collect();
    let back = adapters.iter().map(|it| (it.name().to_owned(), AtomicBool::new(true))).collect();
    let desk = Arc::new(Desk {
        home: settings.home.clone(),
        folder: settings.folder.clone(),
        run_flags: settings.run_flags.clone(),
        services,
        runs: Mutex::default(),
        occupied: Mutex::default(),
        ready: (Mutex::new(false), Condvar::new()),
        back,
        ending: AtomicBool::new(false),
    });
    type DeskWork = Box<dyn FnMut(&Arc<Desk>) -> Result<(), ClientError> + Send>;
    let begin = |name: &str, work: DeskWork| {
        let (desk, what, mut work) = (Arc::clone(&desk), name.to_owned(), work);
        let named = thread::Builder::new().name(format!("dcp-{name}"));
        if let Err(error) = named.spawn(move || listen::keep_at(&desk, &what, || work(&desk))) {
            let _ = writeln!(std::io::stderr().lock(), "serve: cannot start a thread: {error}");
        }
    };
    let all = adapters.clone();
    begin("tell", Box::new(move |desk| tell::tell_all(desk, &all)));
    begin("inbox", Box::new(inbox::handle_all));
    for adapter in adapters {
        let (name, own) = (adapter.name(), Arc::clone(&adapter));
        begin(name, Box::new(move |desk| outbox::send_all(desk, own.as_ref())));
        if !adapter.channels(&[]).is_empty() {
            begin(name, Box::new(move |desk| listen::listen(desk, adapter.as_ref())));
        }
    }
    let _ = ending.wait_for(|is_over| *is_over).await;
    desk.ending.store(true, Ordering::Relaxed);
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    conversation_id: String,
    message: String,
    /// What the sender knows it by; the same message sent again is taken once.
    id: Option<String>,
}

impl Posted {
    fn read(body: &[u8]) -> Result<Self, ApiError> {
        let posted: Self = serde_json::from_slice(body).map_err(|error| {
            ApiError::bad_request(format!("the body is no message: {error}"))
                .hint("send JSON: `{\"conversationId\": \"…\", \"message\": \"…\"}`")
        })?;
        if !is_name(&posted.conversation_id) || posted.id.as_deref().is_some_and(|id| !is_name(id)) {
            return Err(ApiError::bad_request(format!("`conversationId` and `id` must be {NAME}")));
        }
        if incoming(&posted.message).trim().is_empty() {
            return Err(ApiError::bad_request("`message` must be a non-empty string"));
        }
        Ok(posted)
    }
}

async fn test_message(Extracted(state): Extracted<Shared>, body: Bytes) -> Result<Json<Value>, ApiError> {
    let posted = Posted::read(&body)?;
    let answer = json!({
        "success": true, "conversationId": posted.conversation_id, "message": posted.message,
    });
    state
        .ask(move |client| {
            // Two messages with the same words are two messages.
            let name = posted.id.unwrap_or_else(fresh_name);
            let row = (posted.conversation_id, name, incoming(&posted.message));
            client.receive(test_adapter::NAME, &[row], None)
        })
        .await?;
    Ok(Json(answer))
}

/// A name that no message has.
fn fresh_name() -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{number:x}", Timestamp::now().as_microsecond(), std::process::id())
}

async fn test_messages(
    Extracted(state): Extracted<Shared>,
    Path(conversation): Path<String>,
) -> Result<Json<Value>, ApiError> {
    if !is_name(&conversation) {
        return Err(ApiError::bad_request(format!("the name of a conversation has {NAME}")));
    }
    let of = Conversation::new(test_adapter::NAME, conversation.clone());
    let found = state.ask(move |client| client.conversation(&of, SHOWN)).await?;
    let sent = found.iter().filter(|message| message.is_out && message.state == ChatState::Sent);
    let messages: Vec<Value> = sent
        .map(|message| {
            json!({"message": neutral(&message.text), "timestamp": message.at, "direction": "sent"})
        })
        .collect();
    Ok(Json(json!({"conversationId": conversation, "messages": messages})))
}

async fn webhook_message(
    Extracted(state): Extracted<Shared>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let folder = state.settings.folder.clone();
    let found =
        tokio::task::spawn_blocking(move || services::webhook(&folder)).await.map_err(ApiError::internal)?;
    let Some(webhook) = found.map_err(ApiError::internal)? else {
        return Err(ApiError::not_found("no webhook is configured")
            .hint("`serve.webhook` in the user's configuration"));
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signed = (header("x-dacapo-timestamp"), header("x-dacapo-signature"));
    let window = i64::try_from(webhook.settings.window.0 / 1000).unwrap_or(i64::MAX);
    let now = Timestamp::now().as_second();
    verify(webhook.secret.0.as_bytes(), signed, &body, now, window)
        .map_err(|why| ApiError::new(StatusCode::UNAUTHORIZED, why))?;
    let posted = Posted::read(&body)?;
    // A message that is sent again as it was, within the window, has the same signature.
    let name = posted.id.unwrap_or_else(|| signed.1.unwrap_or_default().to_owned());
    let row = (posted.conversation_id, name, incoming(&posted.message));
    let new = state.ask(move |client| client.receive(webhook.name(), &[row], None)).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"accepted": true, "duplicate": new == 0}))))
}
