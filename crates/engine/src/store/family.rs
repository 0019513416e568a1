//! A loop with the loops below it, and its events in pages: what the loop's own agent may see.

use dacapo_core::{event::Envelope, ids::LoopId};
use rusqlite::{Row, params};

use super::{LoopRow, Store, StoreError, journal};

/// No family is larger for those who ask.
const MOST: u32 = 1000;

impl Store {
    /// The loop `id` and all loops below it, oldest first.
    pub fn family(&self, id: &LoopId) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(
            &format!(
                "WITH RECURSIVE family (id, key) AS (
                    SELECT id, key FROM loops WHERE id = ?1
                    UNION SELECT l.id, l.key FROM family f JOIN loops l ON l.parent = f.id
                 )
                 SELECT {} FROM loops WHERE key IN (SELECT key FROM family) ORDER BY key LIMIT {MOST}",
                journal::ROW
            ),
            [id.as_str()],
        )
    }

    /// At most `limit` events of a loop, from `from` on, in order.
    pub fn events_page(&self, id: &LoopId, from: u64, limit: u32) -> Result<Vec<Envelope>, StoreError> {
        const PAGE: &str = "SELECT e.seq, e.at, l.id, e.body FROM loops l JOIN events e ON e.loop = l.key
             WHERE l.id = ?2 AND e.seq >= ?1 ORDER BY e.seq LIMIT ?3";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let rows: Vec<(i64, i64, String, String)> =
            self.query(PAGE, params![from.cast_signed(), id.as_str(), limit], read)?;
        rows.into_iter().map(journal::envelope).collect()
    }
}
