//! The process of the server: its port, its connections, and its end.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use axum::Router;
use futures_util::future::select_all;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener as AsyncListener,
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    ServeError,
    auth::Auth,
    messages,
    patience::Patient,
    port, routes,
    state::{ServerParts, ServerSettings, ServerState, Shared},
    tls,
};

/// How many connections are held at once; more wait until one is closed.
const CONNECTIONS: usize = 256;
/// How long a client may take for the head of a request, and for the handshake of TLS.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// No head of a request is larger.
const HEAD: usize = 32 << 10;
/// How long answers that are on their way are waited for at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// How long nothing is accepted where that fails, for want of descriptors for example.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A server that has its port.
pub struct Server {
    state: Shared,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    ending: watch::Sender<bool>,
    runtime: Runtime,
    /// Heard from the beginning: a server that has said where it is ends as it should.
    signals: Vec<Signal>,
}

impl Server {
    /// Takes the port. Nothing is answered before [`Self::run`].
    pub fn bind(settings: ServerSettings) -> Result<Self, ServeError> {
        if !settings.listen.ip().is_loopback() && settings.tls.is_none() && !settings.allow_insecure {
            return Err(ServeError::Insecure(settings.listen));
        }
        let tls = settings.tls.as_ref().map(|(cert, key)| tls::acceptor(cert, key)).transpose()?;
        let auth = Auth::of(&settings.home)?;
        let cannot = |source| ServeError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => port::in_use(settings.listen),
            _ => cannot(source),
        })?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (ending, ended) = watch::channel(false);
        let state = Arc::new(ServerState::new(settings, address, auth, ended));
        let (runtime, signals) = runtime().map_err(ServeError::Runtime)?;
        Ok(Self { state, listener, tls, ending, runtime, signals })
    }

    pub fn url(&self) -> String {
        self.state.url()
    }

    /// What scripts send as `Authorization: Bearer …`.
    pub fn token(&self) -> &str {
        self.state.auth.token()
    }

    /// A link that logs one browser in, once.
    pub fn login_link(&self) -> Result<String, ServeError> {
        self.state.login_link()
    }

    /// Serves until a signal says that it is over.
    pub fn run(self) -> Result<(), ServeError> {
        let Self { state, listener, tls, ending, runtime, signals } = self;
        let ended = runtime.block_on(serve(state, listener, tls, ending, signals));
        // A reader of the journal that is still at it is not waited for.
        runtime.shutdown_background();
        ended
    }
}

fn runtime() -> io::Result<(Runtime, Vec<Signal>)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("dcp-serve")
        .enable_io()
        .enable_time()
        .build()?;
    let guard = runtime.enter();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let signals = kinds.into_iter().map(signal).collect::<Result<_, _>>()?;
    drop(guard);
    Ok((runtime, signals))
}

async fn serve(
    state: Shared,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    ending: watch::Sender<bool>,
    mut signals: Vec<Signal>,
) -> Result<(), ServeError> {
    let listener = AsyncListener::from_std(listener).map_err(ServeError::Runtime)?;
    let router = routes::router(&state);
    if state.settings.parts == ServerParts::Messages {
        tokio::spawn(messages::run(Arc::clone(&state)));
    }
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let accepting = accept(&listener, &room, &router, tls.as_ref(), &state);
    tokio::select! {
        () = accepting => {}
        _ = select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))) => {}
    }
    let _ = ending.send(true);
    drop(listener);
    // All room is free when the last connection is closed.
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(LAST_ANSWERS, room.acquire_many(all)).await;
    Ok(())
}

async fn accept(
    listener: &AsyncListener,
    room: &Arc<Semaphore>,
    router: &Router,
    tls: Option<&TlsAcceptor>,
    state: &Shared,
) {
    while let Ok(place) = Arc::clone(room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (router, tls, ending) = (router.clone(), tls.cloned(), state.ending());
        tokio::spawn(async move {
            let _place = place;
            match tls {
                None => converse(stream, router, ending).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, tls.accept(stream)).await {
                        converse(stream, router, ending).await;
                    }
                }
            }
        });
    }
}

/// Answers the requests of one connection, until it is closed or the server ends.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    mut ending: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream)), TowerToHyperService::new(router));
    tokio::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = ending.wait_for(|is_over| *is_over) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
