//! What is new, as it is recorded: one thread follows the journal for all who listen, and a stream of server-sent events for
//! each. A listener that has fallen behind reads the journal itself, so nothing is missed and nothing is kept for it.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{Path, State as Extracted},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use dacapo_core::{
    event::{FinishState, LoopEvent},
    view::LoopView,
};
use dacapo_engine::{
    client::{Client, ClientError},
    home::Home,
    log::LogReader,
    store::{AnyEvent, Channel, EventScope},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    broadcast::{
        self,
        error::{RecvError, TryRecvError},
    },
    mpsc,
};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    ApiError,
    api::{self, Given, PrintedEvent, Stopped, given},
    state::Shared,
    text,
};

/// How many streams are open at once.
const STREAMS: usize = 64;
/// How many events wait for a listener before it is sent to the journal.
const WAITING: usize = 1024;
/// How many events are read at once for a listener that catches up.
const PAGE: usize = 256;
/// How many messages wait for a client that takes them slowly.
const UNSENT: usize = 16;
/// After a change it is waited this long for others, so that a burst is read once.
const GATHER: Duration = Duration::from_millis(25);
/// A change that was not noticed is found after this time.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);
/// How long it takes until a journal that cannot be read is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(2);
/// A stream says something at least this often, so that a client that is gone is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// How much of a log one message holds.
const LOG: u64 = 64 << 10;

/// One event, or nothing in the place of one that only a newer dacapo understands.
#[derive(Clone)]
struct LiveEvent {
    seq: u64,
    fact: Option<Arc<PrintedEvent>>,
}

impl LiveEvent {
    fn of(fact: AnyEvent) -> Self {
        Self { seq: fact.seq(), fact: Some(Arc::new(PrintedEvent(fact))) }
    }

    /// Adds it to `message` as one server-sent event. Its data is JSON, which has no line breaks.
    fn write(&self, message: &mut Vec<u8>) {
        let data = match &self.fact {
            Some(fact) => text::json(fact.as_ref()).unwrap_or_default(),
            None => json!({ "seq": self.seq, "type": "unreadable" }).to_string(),
        };
        message.extend(sse(self.seq, &data));
    }
}

/// What a page has to know of several events: whose they are, and which loops are done.
#[derive(Default, Serialize)]
struct Brief {
    streams: BTreeSet<String>,
    done: Vec<Done>,
}

#[derive(Serialize)]
struct Done {
    #[serde(rename = "loop")]
    id: String,
    detail: String,
}

impl Brief {
    fn of(all: &[LiveEvent]) -> Self {
        let mut brief = Self::default();
        for fact in all.iter().filter_map(|news| news.fact.as_deref()) {
            brief.streams.insert(match &fact.0 {
                AnyEvent::Loop(envelope) => envelope.loop_id.to_string(),
                AnyEvent::Run(envelope) => envelope.run.to_string(),
                AnyEvent::Workflow(envelope) => envelope.run.to_string(),
                AnyEvent::Task(envelope) => envelope.run.to_string(),
            });
            if let AnyEvent::Loop(envelope) = &fact.0
                && let LoopEvent::LoopFinished { state: FinishState::Completed, detail, .. } = &envelope.event
            {
                brief.done.push(Done { id: envelope.loop_id.to_string(), detail: detail.clone() });
            }
        }
        brief
    }
}

/// The form in which a listener wants to hear of events.
#[derive(Clone, Copy)]
enum LiveForm {
    /// Each event by itself, whole.
    Whole,
    /// One message for all that came together: a page asks for itself again anyway, and thousands of events a second would keep
    /// its browser busy.
    Brief,
}

impl LiveForm {
    /// `all` in the order of the journal, as one piece to be sent.
    fn write(self, all: &[LiveEvent]) -> Bytes {
        let mut message = Vec::new();
        match (self, all.last()) {
            (Self::Whole, _) => all.iter().for_each(|news| news.write(&mut message)),
            (Self::Brief, Some(last)) => {
                message = sse(last.seq, &text::json(&Brief::of(all)).unwrap_or_default());
            }
            (Self::Brief, None) => {}
        }
        message.into()
    }
}

/// The listeners, and the thread that follows the journal for them.
pub(crate) struct Live {
    home: Home,
    news: broadcast::Sender<LiveEvent>,
    streams: Arc<Semaphore>,
    is_followed: OnceLock<()>,
}

impl Live {
    pub(crate) fn new(home: Home) -> Self {
        let (news, _) = broadcast::channel(WAITING);
        Self { home, news, streams: Arc::new(Semaphore::new(STREAMS)), is_followed: OnceLock::new() }
    }

    /// A listener; the first one has the journal followed from now on.
    fn listen(&self) -> broadcast::Receiver<LiveEvent> {
        let receiver = self.news.subscribe();
        self.is_followed.get_or_init(|| {
            let (home, news) = (self.home.clone(), self.news.clone());
            // Without the thread listeners still look at the journal by themselves, later.
            let _ = thread::Builder::new().name("dcp-follow".to_owned()).spawn(move || follow(&home, &news));
        });
        receiver
    }

    fn place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, format!("{STREAMS} streams are open already"))
                .hint("close tabs that you do not look at")
        })
    }
}

/// Follows the journal for as long as the process lives.
fn follow(home: &Home, news: &broadcast::Sender<LiveEvent>) {
    loop {
        if follow_once(home, news).is_err() {
            thread::sleep(TRY_AGAIN);
        }
    }
}

fn follow_once(home: &Home, news: &broadcast::Sender<LiveEvent>) -> Result<(), ClientError> {
    let client = Client::of_journal(home)?;
    let mut watch = client.watch()?;
    let mut next = client.last_seq()? + 1;
    loop {
        watch.wait(LOOK_ANYWAY)?;
        thread::sleep(GATHER);
        if news.receiver_count() == 0 {
            next = client.last_seq()? + 1;
            continue;
        }
        let read = client.read(&EventScope::All, next, |fact| {
            next = fact.seq() + 1;
            // Without a listener it is read by the next one.
            let _ = news.send(LiveEvent::of(fact));
            Ok::<(), ClientError>(())
        });
        if let Err(error) = read {
            let seq = api::unreadable(&error).ok_or(error)?;
            next = seq + 1;
            let _ = news.send(LiveEvent { seq, fact: None });
        }
    }
}

/// One server-sent event. `data` is JSON, which has no line breaks.
fn sse(id: u64, data: &str) -> Vec<u8> {
    format!("id: {id}\ndata: {data}\n\n").into_bytes()
}

fn stream_of(messages: mpsc::Receiver<Bytes>) -> Response {
    use futures_util::StreamExt;
    let body = Body::from_stream(ReceiverStream::new(messages).map(Ok::<_, std::convert::Infallible>));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

/// The number in `Last-Event-ID`.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let number = given.to_str().ok().map(str::trim).filter(|text| !text.is_empty());
    match number {
        None => Ok(None),
        Some(number) => {
            number.parse().map(Some).map_err(|_| ApiError::bad_request("`Last-Event-ID` is a number"))
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct From {
    from: Option<u64>,
    #[serde(default)]
    brief: bool,
}

/// `GET /api/events`.
pub(crate) async fn events(
    Extracted(state): Extracted<Shared>,
    headers: HeaderMap,
    query: Given<From>,
) -> Result<Response, ApiError> {
    let From { from: asked, brief } = given(query)?;
    let form = if brief { LiveForm::Brief } else { LiveForm::Whole };
    let place = state.live.place()?;
    // Listens before it looks, so that nothing falls in between.
    let listener = state.live.listen();
    let next = match last_event_id(&headers)?.map(|id| id.saturating_add(1)).or(asked) {
        Some(next) => next,
        None => state.ask(|client| client.last_seq()).await? + 1,
    };
    let (sender, messages) = mpsc::channel(UNSENT);
    tokio::spawn(async move {
        let _place = place;
        let mut ending = state.ending();
        tokio::select! {
            _ = tell(&state, next, listener, form, &sender) => {}
            _ = ending.wait_for(|is_over| *is_over) => {}
        }
    });
    Ok(stream_of(messages))
}

/// The client is gone.
struct Gone;

async fn tell(
    state: &Shared,
    mut next: u64,
    mut listener: broadcast::Receiver<LiveEvent>,
    form: LiveForm,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    send(sender, Bytes::from_static(b"retry: 1000\n\n: dacapo\n\n")).await?;
    let mut is_behind = true;
    loop {
        if is_behind {
            next = catch_up(state, next, form, sender).await?;
        }
        is_behind = false;
        match tokio::time::timeout(SIGN_OF_LIFE, listener.recv()).await {
            Ok(Ok(news)) => {
                // What was recorded together is sent together.
                let mut all = vec![news];
                while all.len() < PAGE {
                    match listener.try_recv() {
                        Ok(news) => all.push(news),
                        Err(TryRecvError::Lagged(_)) => {
                            is_behind = true;
                            break;
                        }
                        Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                    }
                }
                all.retain(|news| news.seq >= next);
                if let Some(last) = all.last() {
                    next = last.seq + 1;
                    send(sender, form.write(&all)).await?;
                }
            }
            Ok(Err(RecvError::Lagged(_))) => is_behind = true,
            Ok(Err(RecvError::Closed)) => return Ok(()),
            Err(_) => {
                send(sender, Bytes::from_static(b": \n\n")).await?;
                // What the follower could not read, because it was away, is found here.
                is_behind = true;
            }
        }
    }
}

async fn send(sender: &mpsc::Sender<Bytes>, message: Bytes) -> Result<(), Gone> {
    sender.send(message).await.map_err(|_| Gone)
}

/// Sends everything that is recorded from `next` on; gives where to go on.
async fn catch_up(
    state: &Shared,
    mut next: u64,
    form: LiveForm,
    sender: &mpsc::Sender<Bytes>,
) -> Result<u64, Gone> {
    loop {
        let read = state.ask(move |client| page(client, next)).await;
        let Ok((all, reached, is_all)) = read else {
            // The journal is away. The client hears nothing until it is back.
            tokio::time::sleep(TRY_AGAIN).await;
            send(sender, Bytes::from_static(b": \n\n")).await?;
            continue;
        };
        if !all.is_empty() {
            send(sender, form.write(&all)).await?;
        }
        next = reached;
        if is_all {
            return Ok(next);
        }
    }
}

fn page(client: &mut Client, mut next: u64) -> Result<(Vec<LiveEvent>, u64, bool), ApiError> {
    let mut all = Vec::new();
    let mut failed = None;
    let read = client.read(&EventScope::All, next, |fact| {
        if all.len() >= PAGE {
            return Err(Stopped::Enough);
        }
        next = fact.seq() + 1;
        all.push(LiveEvent::of(fact));
        Ok(())
    });
    let is_all = match read {
        Ok(_) => true,
        Err(Stopped::Enough) => false,
        Err(Stopped::Failed(error)) => match api::unreadable(&error) {
            Some(seq) => {
                next = seq + 1;
                all.push(LiveEvent { seq, fact: None });
                false
            }
            None => {
                failed = Some(error);
                true
            }
        },
    };
    match failed {
        Some(error) if all.is_empty() => Err(error.into()),
        _ => Ok((all, next, is_all)),
    }
}

#[derive(Deserialize)]
pub(crate) struct LogFrom {
    channel: Option<String>,
    #[serde(default)]
    from: u64,
}

/// `GET /api/loops/{id}/log/follow`: each message holds a page of the log, and its id is where the next one begins. A message
/// `event: end` says that nothing follows.
pub(crate) async fn follow_log(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    query: Given<LogFrom>,
) -> Result<Response, ApiError> {
    let asked = given(query)?;
    let channel = api::channel(asked.channel.as_deref())?;
    let from = last_event_id(&headers)?.unwrap_or(asked.from);
    let place = state.live.place()?;
    let view = state.ask_of_loop(id, |_, view| Ok::<_, ApiError>(view)).await?;
    let (sender, messages) = mpsc::channel(UNSENT);
    let home = state.settings.home.clone();
    // It waits for the files of one loop, so it has a thread of its own.
    let spawned = thread::Builder::new().name("dcp-log".to_owned()).spawn(move || {
        let _place = place;
        let _ = tell_log(&home, view, channel, from, &sender);
    });
    spawned.map_err(ApiError::internal)?;
    Ok(stream_of(messages))
}

fn tell_log(
    home: &Home,
    view: LoopView,
    channel: Channel,
    from: u64,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), ClientError> {
    let client = Client::of_journal(home)?;
    let mut watch = client.watch_output(&view)?;
    let mut reader = LogReader::new(view, channel, from);
    let mut quiet = Duration::ZERO;
    if sender.blocking_send(Bytes::from_static(b"retry: 1000\n\n: dacapo\n\n")).is_err() {
        return Ok(());
    }
    loop {
        let mut page = reader.read(&client, LOG, None)?;
        let is_over = page.is_over;
        text::plain_page(&mut page);
        let is_news = !page.parts.is_empty();
        let sent = if is_news {
            quiet = Duration::ZERO;
            sender.blocking_send(sse(page.next, &text::json(&page).unwrap_or_default()).into())
        } else if is_over {
            sender.blocking_send(format!("event: end\nid: {}\ndata: {{}}\n\n", page.next).into())
        } else if quiet > SIGN_OF_LIFE {
            quiet = Duration::ZERO;
            sender.blocking_send(Bytes::from_static(b": \n\n"))
        } else {
            Ok(())
        };
        if sent.is_err() || sender.is_closed() || (is_over && !is_news) {
            return Ok(());
        }
        if !is_news {
            watch.wait(LOOK_ANYWAY)?;
            quiet += LOOK_ANYWAY;
        }
    }
}
