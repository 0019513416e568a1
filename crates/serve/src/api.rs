//! The API: what commands with `--json` print, under `/api`.

use axum::{
    extract::{Path, Query, State as Extracted, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use dacapo_core::{
    duration::Millis,
    view::{self, Board},
};
use dacapo_engine::{
    client::{Client, ClientError},
    log::LogReader,
    snapshots::{DiffForm, SnapshotError},
    store::{AnyEvent, Channel, StoreError},
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::{
    ApiError,
    find::{FoundView, receipt_of},
    live, metrics, openapi,
    routes::{Access, Route},
    state::Shared,
    text::{self, Clean, plain},
};

/// How many loops that have ended are listed.
const RECENT: u32 = 100;
/// How many events an answer holds.
const EVENTS: usize = 10_000;
/// How much of a log an answer holds, in bytes of what was printed.
const LOG: u64 = 256 << 10;
/// How far back a report looks.
const LATELY: &str = "12h";
/// No difference that is shown is larger.
const DIFF: usize = 8 << 20;

/// The routes under `/api`.
pub(crate) fn routes() -> Vec<Route> {
    let read = Access::Read;
    vec![
        Route::get("/api/loops", read, "Loops as `status --json` has them: those that go on, then those that ended, newest first.", loops)
            .query(&[("limit", "how many that have ended; 100 if not given"), ("all", "`true`: all of them")]),
        Route::get("/api/runs", read, "Runs of units, of workflows and of tasks, each with its `kind`: those that go on, then those that ended, newest first.", runs)
            .query(&[("limit", "how many that have ended; 100 if not given"), ("all", "`true`: all of them")]),
        Route::get("/api/loops/{id}", read, "One loop or run.", one),
        Route::get("/api/loops/{id}/events", read, "What a loop, or a run and its loops, recorded, in order.", events_of)
            .query(&[("from", "the first sequence number"), ("limit", "how many; at most 10000")]),
        Route::get("/api/loops/{id}/log", read, "What agents printed, readable, in pieces: `next` is where to go on.", log)
            .query(LOG_QUERY),
        Route::get("/api/loops/{id}/log/follow", read, "The same as a stream, as it is printed.", live::follow_log)
            .query(&[
                ("channel", "`stdout` (if not given), `stderr`, `gates` or `prompt`"),
                ("from", "the byte to begin with, a `next` of an earlier answer; the header `Last-Event-ID` counts before it"),
            ])
            .answers("text/event-stream"),
        Route::get("/api/loops/{id}/diff", read, "What a loop, or its iteration N, changed, as a patch.", diff)
            .query(&[("iteration", "the iteration; the whole loop if not given"), ("stat", "`true`: a line for each file")])
            .answers("text/plain"),
        Route::get("/api/loops/{id}/receipt", read, "The proof of a finished loop.", receipt),
        Route::get("/api/loops/{id}/snapshots", read, "The kept states of a loop's workspace.", snapshots),
        Route::get("/api/attention", read, "What needs a person, most urgent first.", attention),
        Route::get("/api/board", read, "The board: lanes with cards, the agents at work, who needs a person, and sums.", board),
        Route::get("/api/report", read, "What ended, waits and needs a person, as `report --json`.", report)
            .query(&[("since", "how far to look back; 12h if not given")]),
        Route::get("/api/events", read, "All events as they are recorded, as a stream: `id` is the sequence number.", live::events)
            .query(&[
                ("from", "the first sequence number; the header `Last-Event-ID` counts before it; what comes next if neither is given"),
                ("brief", "`true`: one message for all that was recorded together, with the streams that it concerns and the loops that are done"),
            ])
            .answers("text/event-stream"),
        Route::get("/api/openapi.json", read, "This interface as an OpenAPI document.", openapi::document),
        Route::get("/metrics", read, "Numbers for Prometheus.", metrics::metrics).answers("text/plain"),
    ]
}

const LOG_QUERY: &[(&str, &str)] = &[
    ("channel", "`stdout` (if not given), `stderr`, `gates` or `prompt`"),
    ("from", "the byte to begin with, a `next` of an earlier answer"),
    ("last", "instead of `from`: begin this many bytes before the end"),
    ("before", "with `last`: count back from this byte, and stop there"),
    ("iteration", "only this iteration"),
];

pub(crate) type Given<T> = Result<Query<T>, QueryRejection>;

/// What stands behind `?`, or what is wrong with it.
pub(crate) fn given<T>(query: Given<T>) -> Result<T, ApiError> {
    query.map(|Query(given)| given).map_err(|refused| {
        let text = refused.body_text();
        let why = text.rsplit_once("query string: ").map_or(text.as_str(), |(_, why)| why);
        ApiError::bad_request(format!("what stands behind `?` in the address is not understood: {why}"))
    })
}

/// A flag in a query: `?all`, `?all=true` and `?all=1` set it.
fn flag<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    let text = String::deserialize(value)?;
    match text.as_str() {
        "" | "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        other => Err(serde::de::Error::custom(format!("`{other}` is neither `true` nor `false`"))),
    }
}

#[derive(Deserialize)]
struct Most {
    limit: Option<u32>,
    #[serde(default, deserialize_with = "flag")]
    all: bool,
}

impl Most {
    fn number(&self) -> u32 {
        if self.all { u32::MAX } else { self.limit.unwrap_or(RECENT) }
    }
}

/// An answer that lists things: those that go on, and so many of those that ended.
async fn listed<T: Serialize + Send + 'static>(
    state: &Shared,
    query: Given<Most>,
    list: impl FnOnce(&Client, u32) -> Result<Vec<T>, ClientError> + Send + 'static,
) -> Result<Clean<Vec<T>>, ApiError> {
    let most = given(query)?.number();
    state.ask(move |client| list(client, most).map(Clean)).await
}

async fn loops(
    Extracted(state): Extracted<Shared>,
    query: Given<Most>,
) -> Result<impl IntoResponse, ApiError> {
    listed(&state, query, |client, most| {
        let all = client.active()?.into_iter().rev().chain(client.recent(most)?);
        Ok(all.map(|seen| seen.view.for_scripts()).collect())
    })
    .await
}

async fn runs(
    Extracted(state): Extracted<Shared>,
    query: Given<Most>,
) -> Result<impl IntoResponse, ApiError> {
    listed(&state, query, |client, most| {
        let all = client.runs_of_any_kind(most)?.into_iter();
        Ok(all.map(|view| FoundView::from(view).for_scripts()).collect())
    })
    .await
}

async fn one(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    state.ask(move |client| Ok::<_, ApiError>(Clean(FoundView::of(client, &id)?.for_scripts()))).await
}

#[derive(Deserialize)]
struct Stretch {
    #[serde(default)]
    from: u64,
    limit: Option<usize>,
}

async fn events_of(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    query: Given<Stretch>,
) -> Result<impl IntoResponse, ApiError> {
    let Stretch { from, limit } = given(query)?;
    let most = limit.unwrap_or(EVENTS).min(EVENTS);
    state
        .ask(move |client| {
            let scope = FoundView::of(client, &id)?.scope();
            let mut events = Vec::new();
            let read = client.read(&scope, from, |fact| {
                if events.len() >= most {
                    return Err(Stopped::Enough);
                }
                events.push(PrintedEvent(fact));
                Ok(())
            });
            match read {
                Err(Stopped::Failed(error)) => Err(ApiError::from(error)),
                Ok(_) | Err(Stopped::Enough) => Ok(Clean(events)),
            }
        })
        .await
}

/// Why no more events are read.
pub(crate) enum Stopped {
    Enough,
    Failed(ClientError),
}

impl From<ClientError> for Stopped {
    fn from(error: ClientError) -> Self {
        Self::Failed(error)
    }
}

/// An event as `events --json` prints it.
pub(crate) struct PrintedEvent(pub(crate) AnyEvent);

impl Serialize for PrintedEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            AnyEvent::Loop(envelope) => envelope.serialize(serializer),
            AnyEvent::Run(envelope) => envelope.serialize(serializer),
            AnyEvent::Workflow(envelope) => envelope.serialize(serializer),
            AnyEvent::Task(envelope) => envelope.serialize(serializer),
        }
    }
}

#[derive(Deserialize)]
struct LogAsked {
    channel: Option<String>,
    #[serde(default)]
    from: u64,
    last: Option<u64>,
    before: Option<u64>,
    iteration: Option<u32>,
}

pub(crate) fn channel(name: Option<&str>) -> Result<Channel, ApiError> {
    match name.unwrap_or("stdout") {
        "stdout" => Ok(Channel::Stdout),
        "stderr" => Ok(Channel::Stderr),
        "prompt" => Ok(Channel::Prompt),
        "gates" => Ok(Channel::Gates),
        _ => Err(ApiError::bad_request("`channel` is `stdout`, `stderr`, `gates` or `prompt`")),
    }
}

async fn log(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    query: Given<LogAsked>,
) -> Result<impl IntoResponse, ApiError> {
    let asked = given(query)?;
    let channel = channel(asked.channel.as_deref())?;
    state
        .ask_of_loop(id, move |client, view| {
            let mut reader = LogReader::new(view, channel, asked.from);
            if let Some(last) = asked.last {
                reader.seek_back(client, asked.before, last.min(LOG))?;
            }
            if let Some(iteration) = asked.iteration {
                reader.only(iteration);
            }
            let mut page = reader.read(client, LOG, asked.before)?;
            text::plain_page(&mut page);
            Ok::<_, ClientError>(Clean(page))
        })
        .await
}

#[derive(Deserialize)]
struct DiffAsked {
    iteration: Option<u32>,
    #[serde(default, deserialize_with = "flag")]
    stat: bool,
}

async fn diff(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    query: Given<DiffAsked>,
) -> Result<Response, ApiError> {
    let DiffAsked { iteration, stat } = given(query)?;
    let patch = state
        .ask_of_loop(id, move |client, view| {
            let form =
                if stat { DiffForm::Stat { columns: 100 } } else { DiffForm::Patch { is_coloured: false } };
            client.difference(&view, iteration, form).map_err(not_kept)
        })
        .await?;
    let is_cut = patch.len() > DIFF;
    let mut text = plain(&patch[..patch.len().min(DIFF)]);
    if is_cut {
        text.push_str("\n(the rest is left out; `dacapo diff` shows all of it)\n");
    }
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// What was not kept is not there; that is no trouble of the server.
fn not_kept(error: ClientError) -> ApiError {
    match error {
        ClientError::Snapshot(
            SnapshotError::Plain(_)
            | SnapshotError::None(_)
            | SnapshotError::Gone(_)
            | SnapshotError::NoIteration { .. }
            | SnapshotError::NoUndo(_),
        ) => ApiError::not_found(error),
        error => error.into(),
    }
}

async fn receipt(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    let receipt = state.ask_of_loop(id, |client, view| receipt_of(client, &view)).await?;
    // Not cleaned: it would not fit its hash.
    Ok(axum::Json(receipt))
}

async fn snapshots(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
) -> Result<impl IntoResponse, ApiError> {
    state
        .ask_of_loop(id, move |client, view| {
            let kept = client.snapshots(&view.id).map_err(not_kept)?;
            let lines = kept.into_iter().map(|kept| {
                json!({
                    "loop": view.id,
                    "iteration": kept.iteration,
                    "id": kept.id,
                    "at": kept.at,
                    "changed": kept.changed,
                })
            });
            Ok::<_, ApiError>(Clean(lines.collect::<Vec<_>>()))
        })
        .await
}

#[derive(Deserialize)]
struct Since {
    since: Option<String>,
}

impl Since {
    fn at(&self, now: Timestamp) -> Result<Timestamp, ApiError> {
        let back: Millis = self.since.as_deref().unwrap_or(LATELY).parse().map_err(ApiError::bad_request)?;
        let back = SignedDuration::try_from(back.std()).unwrap_or(SignedDuration::MAX);
        Ok(now.checked_sub(back).unwrap_or(Timestamp::MIN))
    }
}

async fn attention(Extracted(state): Extracted<Shared>) -> Result<impl IntoResponse, ApiError> {
    let needs = |_: &mut Client, board: &Board| Ok::<_, ApiError>(Clean(board.needs.clone()));
    state.ask_with_board(Timestamp::now(), needs).await
}

async fn board(Extracted(state): Extracted<Shared>) -> Result<impl IntoResponse, ApiError> {
    let whole = |_: &mut Client, board: &Board| Ok::<_, ApiError>(Clean(board.clone()));
    state.ask_with_board(Timestamp::now(), whole).await
}

async fn report(
    Extracted(state): Extracted<Shared>,
    query: Given<Since>,
) -> Result<impl IntoResponse, ApiError> {
    let now = Timestamp::now();
    let since = given(query)?.at(now)?;
    state
        .ask(move |client: &mut Client| {
            Ok::<_, ClientError>(Clean(view::report(&client.standing(since)?, since, now)))
        })
        .await
}

/// Whether an error is about one event, and which: what comes behind it can still be read.
pub(crate) fn unreadable(error: &ClientError) -> Option<u64> {
    match error {
        ClientError::Store(StoreError::Unreadable { seq, .. }) => Some(*seq),
        _ => None,
    }
}
