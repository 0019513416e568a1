//! Checkpoints: the folded state of a stream at one of its events, so that opening a long stream does not begin at its
//! first event.
//!
//! A checkpoint is a shortcut and decides nothing. The events stay where they are, a checkpoint that does not fit them or
//! was made by another version of core is passed over, and what proves something (`dacapo verify`) reads the events.

use rusqlite::{Transaction, params};
use sha2::{
    Digest, Sha256,
    digest::common::hazmat::{SerializableState, SerializedState},
};

use super::{Kind, Store, StoreError, read::to_json, stream::StreamEnd};

/// The sources that folded the events: core's own, see `build.rs`.
const FOLDED_BY: &str = env!("DACAPO_CORE_SOURCES");

/// A checkpoint is written after this many events: folding them takes about as long as one append.
const EVERY: usize = 512;

/// A large state is written less often: at most this many bytes of checkpoint for each event since the last one.
const BYTES_PER_EVENT: usize = 256;

/// The last event of a stream gets a checkpoint if this many events came since the last one, because ended streams are
/// often resumed. Fewer events are folded quickly.
const AT_THE_END: usize = 64;

/// How far a stream has gone since its newest checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SinceCheckpoint {
    pub(super) events: usize,
    /// The size of that checkpoint.
    pub(super) size: usize,
}

impl SinceCheckpoint {
    /// Whether the append that is being made should write a checkpoint.
    pub(super) fn is_due(self, is_end: bool) -> bool {
        let enough = EVERY.max(self.size / BYTES_PER_EVENT);
        self.events >= if is_end { AT_THE_END.min(enough) } else { enough }
    }
}

/// SHA-256 over a stream's events as they are recorded, a line each.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalHash(Sha256);

impl JournalHash {
    pub(super) fn take(&mut self, body: &str) {
        self.0.update(body.as_bytes());
        self.0.update(b"\n");
    }

    pub(super) fn hex(&self) -> String {
        self.0.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.serialize().to_vec()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let serialized = SerializedState::<Sha256>::try_from(bytes).ok()?;
        Sha256::deserialize(&serialized).ok().map(Self)
    }
}

pub(super) struct Checkpoint<S> {
    pub(super) seq: i64,
    pub(super) state: S,
    pub(super) hash: JournalHash,
    pub(super) since: SinceCheckpoint,
}

impl Store {
    /// The newest checkpoint of a stream, if this dacapo can use it.
    pub(super) fn checkpoint<M: Kind>(
        &self,
        id: &M::Id,
        place: StreamEnd,
    ) -> Result<Option<Checkpoint<M::State>>, StoreError> {
        let sql = "SELECT c.seq, c.hash, c.state FROM checkpoints c
                   JOIN events e ON e.seq = c.seq AND e.stream = c.stream
                   WHERE c.stream = ?1 AND c.folded_by = ?2 AND c.seq <= ?3";
        let found = self.query_row(sql, params![place.key, FOLDED_BY, place.head], |row| {
            let (hash, text) = (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_str()?);
            let state = serde_json::from_slice::<M::State>(text.as_bytes()).ok();
            let since = SinceCheckpoint { events: 0, size: text.len() };
            let hash = JournalHash::of_bytes(hash);
            let seq = row.get(0)?;
            Ok(state.zip(hash).map(|(state, hash)| Checkpoint { seq, state, hash, since }))
        })?;
        let Some(mut checkpoint) = found.flatten() else { return Ok(None) };
        let Some(first) = self.first::<M>(id)? else { return Ok(None) };
        M::complete(&mut checkpoint.state, first);
        Ok(Some(checkpoint))
    }
}

/// Writes how a stream stands at `place`, in the transaction of an append behind it.
pub(super) fn write<M: Kind>(
    transaction: &Transaction<'_>,
    place: StreamEnd,
    state: &M::State,
    hash: &JournalHash,
) -> Result<SinceCheckpoint, StoreError> {
    let text = to_json(state)?;
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO checkpoints (stream, seq, folded_by, hash, state)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![place.key, place.head, FOLDED_BY, hash.to_bytes(), text])?;
    Ok(SinceCheckpoint { events: 0, size: text.len() })
}
