//! One way to look at loops and runs and to ask something of them, for everything that is not their supervisor.
//!
//! Behind it is the journal, or, for `dacapo` below an agent, the supervisor of the agent's loop, which shows that loop
//! and its children and nothing else.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use dacapo_core::{
    event::Envelope,
    ids::{LoopId, ProjectId, RunId},
    loop_machine::Request,
    receipt::Receipt,
    view::LoopView,
};
use jiff::Timestamp;

use crate::{
    home::{Home, HomeError},
    inside::{
        Inside, InsideError,
        protocol::{Answer, Ask, LoopRecord, Refusal},
        unexpected,
    },
    proof,
    store::{Channel, LoopRow, Segments, Store, StoreError},
    supervisor::{self, StartError},
};

/// How much output is read at once.
const CHUNK: u64 = 64 << 10;

/// Looks at loops and asks things of them.
pub struct Client {
    way: Way,
}

enum Way {
    Journal { home: Home, store: Box<Store> },
    Supervisor(Inside),
}

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The state folder.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The journal.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The supervisor of the loop this runs in.
    #[error(transparent)]
    Inside(#[from] InsideError),
    /// A loop that has no supervisor.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A file.
    #[error("cannot read what loop {id} printed: {source}")]
    Output {
        /// The loop.
        id: LoopId,
        /// The system's reason.
        source: io::Error,
    },
}

/// A loop as it stands now.
#[derive(Clone, Debug)]
pub struct LoopSeen {
    /// What people see of it; a loop whose supervisor died is shown as stopped.
    pub view: LoopView,
    /// Whether it has a supervisor.
    pub is_running: bool,
}

impl From<LoopRow> for LoopSeen {
    fn from(row: LoopRow) -> Self {
        Self { is_running: row.is_running(), view: row.current_view() }
    }
}

impl From<LoopRecord> for LoopSeen {
    fn from(record: LoopRecord) -> Self {
        Self { view: record.view, is_running: record.is_running }
    }
}

fn seen(rows: Vec<LoopRow>) -> Vec<LoopSeen> {
    rows.into_iter().map(LoopSeen::from).collect()
}

impl Client {
    /// A client that reads the journal of `home`, which is made if there is none.
    pub fn of_journal(home: &Home) -> Result<Self, ClientError> {
        home.prepare()?;
        let store = Box::new(Store::open(&home.database())?);
        Ok(Self { way: Way::Journal { home: home.clone(), store } })
    }

    /// A client that asks the supervisor of the loop this process runs in.
    pub fn of_supervisor(inside: Inside) -> Self {
        Self { way: Way::Supervisor(inside) }
    }

    /// The journal, for what only its reader can show; `None` below an agent.
    pub fn journal(&self) -> Option<&Store> {
        match &self.way {
            Way::Journal { store, .. } => Some(store),
            Way::Supervisor(_) => None,
        }
    }

    /// Below an agent: its loop and the loops below that, oldest first.
    pub fn family(&self) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { .. } => Ok(Vec::new()),
            Way::Supervisor(inside) => Self::family_where(inside, |_| true),
        }
    }

    fn family_where(
        inside: &Inside,
        is_meant: impl Fn(&LoopSeen) -> bool,
    ) -> Result<Vec<LoopSeen>, ClientError> {
        match inside.ask(&Ask::Family)? {
            Answer::Loops { loops, .. } => {
                Ok(loops.into_iter().map(LoopSeen::from).filter(is_meant).collect())
            }
            other => Err(unexpected(&other).into()),
        }
    }

    // --- looking --------------------------------------------------------------------------------------------

    /// The loop with this id.
    pub fn loop_of_id(&self, id: &LoopId) -> Result<Option<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(store.row(id)?.map(LoopSeen::from)),
            Way::Supervisor(inside) => Ok(Self::family_where(inside, |seen| seen.view.id == *id)?.pop()),
        }
    }

    /// A few of the loops whose id begins with `prefix`.
    pub fn loops_with_prefix(&self, prefix: &str) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.with_prefix(prefix)?)),
            Way::Supervisor(inside) => {
                Self::family_where(inside, |seen| seen.view.id.as_str().starts_with(prefix))
            }
        }
    }

    /// The newest loop of a task, in each project or in one.
    pub fn newest_of_task(
        &self,
        project: Option<&ProjectId>,
        task: &str,
    ) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.newest_of_task(project, task)?)),
            Way::Supervisor(inside) => {
                let is_meant = |seen: &LoopSeen| {
                    seen.view.task.as_str() == task && project.is_none_or(|it| seen.view.project == *it)
                };
                let mut newest: Vec<LoopSeen> = Vec::new();
                for seen in Self::family_where(inside, is_meant)? {
                    newest.retain(|older| older.view.project != seen.view.project);
                    newest.push(seen);
                }
                Ok(newest)
            }
        }
    }

    /// All loops of a task, oldest first.
    pub fn loops_of_task(&self, project: &ProjectId, task: &str) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.loops_of_task(project, task)?)),
            Way::Supervisor(inside) => Self::family_where(inside, |seen| {
                seen.view.task.as_str() == task && seen.view.project == *project
            }),
        }
    }

    /// The loops that have no end in the journal, oldest first.
    pub fn active(&self) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.active()?)),
            Way::Supervisor(inside) => Self::family_where(inside, |seen| seen.is_running),
        }
    }

    /// The newest loops that have ended, newest first.
    pub fn recent(&self, most: u32) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.recent(most)?)),
            Way::Supervisor(inside) => {
                let mut ended = Self::family_where(inside, |seen| !seen.is_running)?;
                ended.reverse();
                ended.truncate(usize::try_from(most).unwrap_or(usize::MAX));
                Ok(ended)
            }
        }
    }

    /// Events of a loop from `from` on, in order.
    pub fn events_of_loop(&self, id: &LoopId, from: u64) -> Result<Vec<Envelope>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(store.events(id, from)?),
            Way::Supervisor(inside) => {
                let mut all = Vec::new();
                let mut next = from;
                loop {
                    match inside.ask(&Ask::Events { id: id.clone(), from: next })? {
                        Answer::Events { events, more } => {
                            next = events.last().map_or(next, |last| last.seq + 1);
                            all.extend(events);
                            if !more {
                                return Ok(all);
                            }
                        }
                        other => return Err(unexpected(&other).into()),
                    }
                }
            }
        }
    }

    /// What a loop has printed from byte `from` on: some of it, and how much there is in all.
    pub fn output(&self, view: &LoopView, stream: Channel, from: u64) -> Result<(Vec<u8>, u64), ClientError> {
        match &self.way {
            Way::Journal { home, .. } => {
                let path = Segments::path(&home.runs(&view.project, &view.task), &view.id, stream);
                let read = || -> io::Result<(Vec<u8>, u64)> {
                    let mut file = File::open(&path)?;
                    let end = file.metadata()?.len();
                    let mut bytes = Vec::new();
                    if from < end {
                        file.seek(SeekFrom::Start(from))?;
                        file.take(CHUNK).read_to_end(&mut bytes)?;
                    }
                    Ok((bytes, end))
                };
                match read() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Vec::new(), 0)),
                    read => read.map_err(|source| ClientError::Output { id: view.id.clone(), source }),
                }
            }
            Way::Supervisor(inside) => {
                match inside.ask(&Ask::Output { id: view.id.clone(), stream, from })? {
                    Answer::Output { bytes, end } => Ok((bytes.0, end)),
                    other => Err(unexpected(&other).into()),
                }
            }
        }
    }

    /// The receipt of a loop, if it has one.
    pub fn receipt(&self, id: &LoopId) -> Result<Option<Receipt>, ClientError> {
        Ok(proof::newest(self.events_of_loop(id, 0)?))
    }

    // --- asking ---------------------------------------------------------------------------------------------

    /// Leaves a request for a loop; says whether it has a supervisor that was told.
    pub fn request(&mut self, id: &LoopId, request: &Request) -> Result<bool, ClientError> {
        match (&mut self.way, request) {
            (Way::Journal { store, .. }, _) => Ok(store.request(id, request, Timestamp::now())?),
            (Way::Supervisor(inside), Request::Cancel) => {
                inside.ask(&Ask::Cancel { id: id.clone() })?;
                Ok(true)
            }
            (Way::Supervisor(_), _) => Err(deciding("do that to a loop").into()),
        }
    }

    /// Leaves a request for a run; says whether it has a scheduler that was told.
    pub fn request_of_run(&mut self, id: &RunId, request: &Request) -> Result<bool, ClientError> {
        match &mut self.way {
            Way::Journal { store, .. } => Ok(store.request(id, request, Timestamp::now())?),
            Way::Supervisor(_) => Err(deciding("do that to a run of units").into()),
        }
    }

    /// Takes up what was asked of a loop that has no supervisor.
    pub fn settle(&mut self, id: &LoopId) -> Result<(), ClientError> {
        match &mut self.way {
            Way::Journal { home, store } => Ok(supervisor::settle(home, store, id)?),
            Way::Supervisor(_) => Err(deciding("end a loop that has no supervisor").into()),
        }
    }
}

/// What only the user may do.
pub fn deciding(what: &str) -> InsideError {
    InsideError::Refused(Refusal::not_yours(format!("the agent of a loop cannot {what}; ask the user")))
}
