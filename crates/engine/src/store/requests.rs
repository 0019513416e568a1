//! Requests: what people ask of a stream, kept as rows until its owner, or the next one, takes them up.

use dacapo_core::loop_machine::Request;
use jiff::Timestamp;
use rusqlite::params;
use rustix::process::Signal;

use super::{Store, StoreError, read::to_json};
use crate::{process::identity::Identity, secrets::secrets};

/// A request that no owner of the stream has taken up.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRequest {
    pub id: i64,
    pub request: Request,
}

impl Store {
    /// Leaves a request for a loop or a run and wakes its owner. Returns whether the stream has a living owner.
    pub fn request(
        &mut self,
        id: impl AsRef<str>,
        request: &Request,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let body = to_json(&secrets().redact_request(request))?;
        let id = id.as_ref();
        self.transact(|transaction| {
            transaction.execute(
                "INSERT INTO requests (stream, at, body) SELECT key, ?2, ?3 FROM streams WHERE id = ?1",
                params![id, now.as_microsecond(), body],
            )?;
            Ok(())
        })?;
        let sql = "SELECT owner_pid, owner_start, owner_boot FROM streams WHERE id = ?1 AND over = 0";
        let owner = self.query_row(sql, [id], |row| {
            Ok(Identity { pid: row.get(0)?, start: row.get::<_, i64>(1)?.cast_unsigned(), boot: row.get(2)? })
        })?;
        // The signal only makes the owner look at the table. If the owner just ended, the row waits for the next owner.
        // A program that keeps the loop of a session by itself needs no signal, and might not know it.
        let is_other = |owner: &Identity| owner.pid != std::process::id();
        let other = owner.filter(is_other);
        Ok(other.is_some_and(|owner| owner.is_alive() && owner.signal(Signal::USR1).is_ok()))
    }

    /// The requests for `id` that were not taken up, in order.
    pub fn pending(&self, id: impl AsRef<str>) -> Result<Vec<PendingRequest>, StoreError> {
        let rows: Vec<(i64, String)> = self.query(
            "SELECT id, body FROM requests WHERE handled = 0
             AND stream = (SELECT key FROM streams WHERE id = ?1) ORDER BY id",
            [id.as_ref()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        // A request that only a newer dacapo understands is left alone.
        Ok(rows
            .into_iter()
            .filter_map(|(id, body)| {
                Some(PendingRequest { id, request: serde_json::from_slice(body.as_bytes()).ok()? })
            })
            .collect())
    }
}
