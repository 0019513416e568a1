//! Checkpoints: the folded state of a stream at one of its events, so that opening a long stream does not begin at its
//! first event.
//!
//! A checkpoint is a shortcut and decides nothing. The events stay where they are, a checkpoint that is at none of them or
//! was made by another version of core is passed over, and what proves something (`dacapo verify`) reads the events. Since the
//! events before it are not read, it carries a keyed hash: an edited one is refused.

use dacapo_core::chain::{ChainFault, CheckpointFacts, Link, MacKey};
use rusqlite::{Transaction, params};
use sha2::{
    Digest, Sha256,
    digest::common::hazmat::{SerializableState, SerializedState},
};

use super::{JournalMachine, Store, StoreError, chain::edited, read::to_json, stream::StreamEnd};

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
    /// The hash that the event at `seq` carries.
    pub(super) link: Option<Link>,
    pub(super) since: SinceCheckpoint,
}

/// The first event of a stream, which the state of a checkpoint is completed from.
pub(super) const FIRST: &str = "SELECT body FROM events WHERE stream = ?1 ORDER BY seq LIMIT 1";

impl Store {
    /// The newest checkpoint of a stream, if this dacapo can use it.
    pub(super) fn checkpoint<M: JournalMachine>(
        &self,
        id: &M::Id,
        place: StreamEnd,
    ) -> Result<Option<Checkpoint<M::State>>, StoreError> {
        let sql = "SELECT c.seq, c.hash, c.state, c.mac, e.chain FROM checkpoints c
                   JOIN events e ON e.seq = c.seq AND e.stream = c.stream
                   WHERE c.stream = ?1 AND c.folded_by = ?2 AND c.seq <= ?3";
        let begun: Option<String> = self.query_row(FIRST, [place.key], |row| row.get(0))?;
        let (Some(begun), key) = (begun, self.machine()?.mac()) else { return Ok(None) };
        let found = self.query_row(sql, params![place.key, FOLDED_BY, place.head], |row| {
            let (hash, text, mac) =
                (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_blob()?);
            let link = row.get_ref(4)?.as_blob_or_null()?.and_then(Link::of_bytes);
            let seq: i64 = row.get(0)?;
            let facts = CheckpointFacts {
                kind: M::NAME,
                id: id.as_ref(),
                seq: seq.cast_unsigned(),
                folded_by: FOLDED_BY,
                hash,
                state: text,
                link,
                first: &begun,
            };
            if !key.of_checkpoint(&facts).is(mac) {
                return Ok(Err(ChainFault::OtherCheckpoint(facts.seq)));
            }
            let state = serde_json::from_slice::<M::State>(text.as_bytes()).ok();
            let since = SinceCheckpoint { events: 0, size: text.len() };
            let hash = JournalHash::of_bytes(hash);
            Ok(Ok(state.zip(hash).map(|(state, hash)| Checkpoint { seq, state, hash, link, since })))
        })?;
        let found = found.transpose().map_err(|fault| edited::<M>(id, fault))?;
        let Some(mut checkpoint) = found.flatten() else { return Ok(None) };
        let Some(first) = self.first::<M>(id)? else { return Ok(None) };
        M::complete(&mut checkpoint.state, first);
        Ok(Some(checkpoint))
    }
}

/// Writes how a stream stands at `place`, in the transaction of an append behind it.
pub(super) fn write<M: JournalMachine>(
    transaction: &Transaction<'_>,
    id: &M::Id,
    place: StreamEnd,
    state: &M::State,
    (hash, link): (&JournalHash, Option<Link>),
    key: &MacKey,
) -> Result<SinceCheckpoint, StoreError> {
    let (text, hash) = (to_json(state)?, hash.to_bytes());
    let first: String = transaction.prepare_cached(FIRST)?.query_row([place.key], |row| row.get(0))?;
    let facts = CheckpointFacts {
        kind: M::NAME,
        id: id.as_ref(),
        seq: place.head.cast_unsigned(),
        folded_by: FOLDED_BY,
        hash: &hash,
        state: &text,
        link,
        first: &first,
    };
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO checkpoints (stream, seq, folded_by, hash, state, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![place.key, place.head, FOLDED_BY, hash, text, key.of_checkpoint(&facts).bytes()])?;
    Ok(SinceCheckpoint { events: 0, size: text.len() })
}
