//! Requests: what people ask of a loop, as rows that survive a supervisor that is down.

use dacapo_core::{ids::LoopId, loop_machine::Request};
use jiff::Timestamp;
use rusqlite::params;
use rustix::process::Signal;

use super::{Store, StoreError};
use crate::secrets::secrets;

/// A request nobody has taken up.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRequest {
    /// Its row.
    pub id: i64,
    /// What is asked.
    pub request: Request,
}

impl Store {
    /// Leaves a request for `id` and wakes its supervisor if there is one; says whether there is.
    pub fn request(&mut self, id: &LoopId, request: &Request, now: Timestamp) -> Result<bool, StoreError> {
        let body = serde_json::to_string(&secrets().redact_request(request))
            .map_err(|error| StoreError::Other { path: String::new(), why: error.to_string() })?;
        self.transact(|transaction| {
            transaction.execute(
                "INSERT INTO requests (loop, at, body) SELECT key, ?2, ?3 FROM loops WHERE id = ?1",
                params![id.as_str(), now.as_microsecond(), body],
            )?;
            Ok(())
        })?;
        let row = self.row(id)?;
        // The signal only says: look. A supervisor that just ended finds the row when it is resumed.
        Ok(row.is_some_and(|row| row.is_running() && row.owner.signal(Signal::USR1).is_ok()))
    }

    /// What was asked of `id` and not taken up, in order.
    pub fn pending(&self, id: &LoopId) -> Result<Vec<PendingRequest>, StoreError> {
        let rows: Vec<(i64, String)> = self.query(
            "SELECT id, body FROM requests WHERE handled = 0 AND loop = (SELECT key FROM loops WHERE id = ?1) ORDER BY id",
            [id.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        // A request of a newer version is left alone.
        Ok(rows
            .into_iter()
            .filter_map(|(id, body)| Some(PendingRequest { id, request: serde_json::from_str(&body).ok()? }))
            .collect())
    }
}
