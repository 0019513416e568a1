//! Is the journal of a stream what dacapo has recorded? What proves something asks here; what only shows events does not.

use std::ops::RangeInclusive;

use dacapo_core::{
    attestation::{
        AttestedReceipt, DsseEnvelope, EnvelopeFault, RECEIPT_TYPE, StatementFault, attested_receipt,
    },
    chain::{ChainCheck, ChainFault, Link},
    ids::LoopId,
};
use rusqlite::params;

use super::{JournalMachine, Store, StoreError, checkpoint::JournalHash, stream::StreamEnd};
use crate::keys::KeyError;

/// The row of a stream as its writer needs it.
pub(super) struct StreamRow {
    pub(super) place: StreamEnd,
    /// As it stands there.
    pub(super) view: String,
    pub(super) mac: Option<Vec<u8>>,
}

/// What a look at a whole stream has found.
#[derive(Clone, Debug, Default)]
pub struct StreamAudit {
    /// Where its events or its row are not what was recorded.
    pub fault: Option<ChainFault>,
    pub events: u64,
    /// How many of its events are from before events carried hashes.
    pub unchained: u64,
    /// Columns of its row that are not what its events say.
    pub columns: Vec<&'static str>,
    /// The first event that is older than the one before it: the clock went back.
    pub clock_went_back_at: Option<u64>,
}

/// The signed statement about a receipt, as it was found beside its event.
#[derive(Clone, Debug)]
pub enum Attested {
    /// The event is from before receipts were signed.
    Unsigned,
    /// It is there, and this machine's key has signed it.
    Signed(Box<AttestedReceipt>),
    /// There should be one.
    Missing,
    Unreadable(String),
    OtherKey(EnvelopeFault),
    Other(StatementFault),
    /// It was signed for another event of the journal, or the event was replaced since.
    OtherEvent,
}

pub(super) fn edited<M: JournalMachine>(id: &M::Id, fault: ChainFault) -> StoreError {
    StoreError::Edited { kind: M::NAME, id: id.to_string(), fault }
}

impl Store {
    pub(super) fn path(&self) -> String {
        self.db.path().unwrap_or("dacapo.db").to_owned()
    }

    /// Where a stream ends, and what its row says of it.
    pub(super) fn stream_row<M: JournalMachine>(&self, id: &M::Id) -> Result<Option<StreamRow>, StoreError> {
        let sql = "SELECT key, head, epoch, view, mac FROM streams WHERE id = ?1 AND kind = ?2";
        self.query_row(sql, params![id.as_ref(), M::NAME], |row| {
            let place = StreamEnd { key: row.get(0)?, head: row.get(1)?, epoch: row.get(2)? };
            Ok(StreamRow { place, view: row.get(3)?, mac: row.get(4)? })
        })
    }

    /// Looks at all events of a stream and at its row, and trusts no checkpoint.
    pub fn audit<M: JournalMachine>(&self, id: &M::Id) -> Result<StreamAudit, StoreError> {
        let Some(row) = self.stream_row::<M>(id)? else { return Ok(StreamAudit::default()) };
        let mut audit = StreamAudit::default();
        let mut chain = ChainCheck::new(M::NAME, id.as_ref(), self.keys().chained_from()?);
        let mut hash = JournalHash::default();
        let mut last_at = i64::MIN;
        self.each_raw::<M>(id, 0, u32::MAX, |raw, carried| {
            let event = raw.chained();
            audit.events += 1;
            if event.at < last_at && audit.clock_went_back_at.is_none() {
                audit.clock_went_back_at = Some(event.seq);
            }
            last_at = event.at;
            if audit.fault.is_none() {
                audit.fault = chain.take(event, carried, || hash.hex()).err();
                hash.take(&raw.body);
            }
            Ok(())
        })?;
        if audit.fault.is_none() {
            let key = self.machine()?.mac();
            audit.fault = chain.end(row.place.head.cast_unsigned(), &row.view, row.mac.as_deref(), key).err();
        }
        audit.unchained = chain.unchained();
        if audit.fault.is_none() {
            audit.columns = self.unlike_columns::<M>(id, &row)?;
        }
        Ok(audit)
    }

    /// Places of the journal at which no event stands, the first ten of them: dacapo numbers its events without a gap and removes none.
    pub fn gaps(&self) -> Result<Vec<RangeInclusive<u64>>, StoreError> {
        let is_whole = "SELECT COALESCE(MAX(seq), 0) = COUNT(*) FROM events";
        if self.query_row(is_whole, [], |row| row.get(0))?.unwrap_or(true) {
            return Ok(Vec::new());
        }
        let sql = "SELECT before + 1, seq - 1 FROM (SELECT seq, lag(seq, 1, 0) OVER (ORDER BY seq) AS before FROM events)
                   WHERE seq > before + 1 ORDER BY seq LIMIT 10";
        let look = || {
            let mut statement = self.db.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
            rows.map(|row| row.map(|(first, last)| first.cast_unsigned()..=last.cast_unsigned()))
                .collect::<rusqlite::Result<_>>()
        };
        look().map_err(|error| self.error(&error))
    }

    /// An error if the stream is not what was recorded: for a reader that is about to believe what stands in it.
    pub fn must_be_unedited<M: JournalMachine>(&self, id: &M::Id) -> Result<(), StoreError> {
        match self.audit::<M>(id)?.fault {
            Some(fault) => Err(edited::<M>(id, fault)),
            None => Ok(()),
        }
    }

    /// The columns by which a stream is found that do not say what its events say.
    fn unlike_columns<M: JournalMachine>(
        &self,
        id: &M::Id,
        row: &StreamRow,
    ) -> Result<Vec<&'static str>, StoreError> {
        let Ok(view) = serde_json::from_str::<M::View>(&row.view) else { return Ok(vec!["view"]) };
        let Some(first) = self.first::<M>(id)? else { return Ok(vec!["head"]) };
        let expected = M::row_columns(&view, &first);
        let sql = "SELECT project, parent, task, workspace, run, over FROM streams WHERE key = ?1";
        let found = self.query_row(sql, [row.place.key], |row| {
            let text = |at: usize| row.get::<_, Option<String>>(at);
            Ok(([text(0)?, text(1)?, text(2)?, text(3)?, text(4)?], row.get::<_, bool>(5)?))
        })?;
        let Some((found, is_over)) = found else { return Ok(vec!["key"]) };
        let expected =
            [Some(expected.project), expected.parent, expected.task, Some(expected.workspace), expected.run];
        let names = ["project", "parent", "task", "workspace", "run"];
        let pairs = names.into_iter().zip(expected.into_iter().zip(found));
        let mut unlike: Vec<_> =
            pairs.filter(|(_, (expected, found))| expected != found).map(|(name, _)| name).collect();
        if is_over != M::is_over(&view) {
            unlike.push("over");
        }
        Ok(unlike)
    }

    /// The signed statement of a kind about the receipt at `seq`, as it was recorded.
    pub fn attestation(&self, seq: u64, predicate: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT envelope FROM attestations WHERE seq = ?1 AND predicate = ?2";
        self.query_row(sql, params![seq.cast_signed(), predicate], |row| row.get(0))
    }

    /// Whether the receipt at `seq` was signed by this machine's key, and for this very event.
    pub fn attested(&self, id: &LoopId, seq: u64) -> Result<Attested, StoreError> {
        let sql =
            "SELECT e.chain FROM events e JOIN streams s ON s.key = e.stream WHERE e.seq = ?1 AND s.id = ?2";
        let carried: Option<Option<Vec<u8>>> =
            self.query_row(sql, params![seq.cast_signed(), id.as_str()], |row| row.get(0))?;
        let link = carried.flatten().as_deref().and_then(Link::of_bytes);
        let Some(link) = link else { return Ok(Attested::Unsigned) };
        let Some(text) = self.attestation(seq, RECEIPT_TYPE)? else { return Ok(Attested::Missing) };
        let envelope: DsseEnvelope = match serde_json::from_str(&text) {
            Ok(envelope) => envelope,
            Err(error) => return Ok(Attested::Unreadable(error.to_string())),
        };
        // The public half is not taken from its file alone: an agent could have put another one there.
        let public = match self.keys().pair() {
            Ok((_, public)) => public,
            Err(KeyError::Io { .. } | KeyError::Missing(_)) => self.keys().public()?.0,
            Err(error) => return Err(error.into()),
        };
        let payload = match public.open(&envelope) {
            Ok(payload) => payload,
            Err(fault) => return Ok(Attested::OtherKey(fault)),
        };
        Ok(match attested_receipt(&payload) {
            Err(fault) => Attested::Other(fault),
            Ok(attested) if attested.seq != seq || attested.chain != link.hex() => Attested::OtherEvent,
            Ok(attested) => Attested::Signed(Box::new(attested)),
        })
    }
}
