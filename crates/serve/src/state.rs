//! What all routes share: the settings of the server, and clients of the journal to ask.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use dacapo_core::{
    ids::ProjectId,
    view::{Board, LoopView},
};
use dacapo_engine::{
    board::{BoardReader, todo_of},
    client::{Client, ClientError},
    home::Home,
};
use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};

use crate::{ApiError, ServeError, auth::Auth, find::FoundView, live::Live, metrics::Kept};

/// How many questions to the journal are asked beside each other.
const READERS: usize = 4;

/// How many ended loops and runs the board shows.
const ENDED: u32 = 60;

/// Which routes a server has beside the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerParts {
    /// `dacapo web`: the pages.
    Pages,
    /// `dacapo serve`: messages in and out.
    Messages,
}

/// How the user wants the server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    pub home: Home,
    pub parts: ServerParts,
    pub listen: SocketAddr,
    /// Whether loops and runs may be paused, cancelled, steered and answered from here.
    pub allow_control: bool,
    /// Whether an address that others reach is fine without TLS.
    pub allow_insecure: bool,
    /// Names that the server is called by beside its address.
    pub names: Vec<String>,
    /// Certificate and key, as PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The agent and limit flags that were typed behind `serve`, for the runs it starts: as arguments of `dacapo workflow run`.
    pub run_flags: Vec<OsString>,
    /// The folder the server was started in, where workflows are looked for.
    pub folder: PathBuf,
}

/// What every handler gets.
pub type Shared = Arc<ServerState>;

pub struct ServerState {
    pub settings: ServerSettings,
    pub address: SocketAddr,
    pub(crate) auth: Auth,
    pub(crate) live: Live,
    pub(crate) metrics: Kept,
    /// The board, kept up to date from one request to the next.
    board: Mutex<Option<BoardReader>>,
    clients: Mutex<Vec<Client>>,
    readers: Semaphore,
    ending: watch::Receiver<bool>,
}

impl ServerState {
    pub(crate) fn new(
        settings: ServerSettings,
        address: SocketAddr,
        auth: Auth,
        ending: watch::Receiver<bool>,
    ) -> Self {
        let (clients, readers) = (Mutex::new(Vec::new()), Semaphore::new(READERS));
        let live = Live::new(settings.home.clone());
        Self {
            settings,
            address,
            auth,
            live,
            metrics: Kept::default(),
            board: Mutex::new(None),
            clients,
            readers,
            ending,
        }
    }

    /// Becomes true when the server ends: what would go on for ever ends then.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.ending.clone()
    }

    /// A link that logs one browser in, once.
    pub(crate) fn login_link(&self) -> Result<String, ServeError> {
        let word = self.auth.new_link()?;
        Ok(format!("{}/login?token={word}", self.url()))
    }

    /// Asks something of the journal, on a thread that may block.
    pub async fn ask<T, E>(
        self: &Arc<Self>,
        question: impl FnOnce(&mut Client) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError>
    where
        T: Send + 'static,
        E: Into<ApiError> + Send + 'static,
    {
        let _permit = self.readers.acquire().await.map_err(ApiError::internal)?;
        let state = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || {
            let kept = state.clients.lock().ok().and_then(|mut clients| clients.pop());
            let mut client = match kept {
                Some(client) => client,
                None => Client::of_journal(&state.settings.home)?,
            };
            let answer = question(&mut client).map_err(Into::into)?;
            // One that failed is not used again: its journal may have been replaced.
            if let Ok(mut clients) = state.clients.lock() {
                clients.push(client);
            }
            Ok(answer)
        });
        answer.await.map_err(ApiError::internal)?
    }

    /// As [`Self::ask`], about the loop that `id` means, or the newest loop of the run in which an agent worked.
    pub async fn ask_of_loop<T, E>(
        self: &Arc<Self>,
        id: String,
        question: impl FnOnce(&mut Client, LoopView) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError>
    where
        T: Send + 'static,
        E: Into<ApiError> + Send + 'static,
    {
        self.ask(move |client| {
            let view = FoundView::of(client, &id)?.worked(client)?;
            question(client, view).map_err(Into::into)
        })
        .await
    }

    /// As [`Self::ask`], with the board as it stands at `now`.
    pub async fn ask_with_board<T, E>(
        self: &Arc<Self>,
        now: Timestamp,
        question: impl FnOnce(&mut Client, &Board) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ApiError>
    where
        T: Send + 'static,
        E: Into<ApiError> + Send + 'static,
    {
        let state = Arc::clone(self);
        self.ask(move |client| {
            let board = state.board(client, now)?;
            question(client, &board).map_err(Into::into)
        })
        .await
    }

    /// The board as it stands: one for the pages, the API and the metrics.
    pub fn board(&self, client: &Client, now: Timestamp) -> Result<Board, ClientError> {
        let mut kept = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out, so that one that could not be brought up to date is read anew.
        let mut reader = match kept.take() {
            Some(mut reader) => {
                client.catch_up(&mut reader)?;
                reader
            }
            None => client.board(ENDED)?,
        };
        let folder = &self.settings.folder;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        reader.set_todo(todo_of(folder, &ProjectId::of_folder(&name, folder.as_os_str().as_encoded_bytes())));
        let board = reader.board(now);
        *kept = Some(reader);
        Ok(board)
    }

    /// Where browsers find it.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme(), self.address)
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.settings.tls.is_some() { "https" } else { "http" }
    }
}
