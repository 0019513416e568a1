//! A loop with the loops below it: what the loop's own agent may see.

use dacapo_core::ids::LoopId;

use super::{LoopRow, Store, StoreError};

/// No family is larger for those who ask.
const MOST: u32 = 1000;

impl Store {
    /// The loop `id` and all loops below it, oldest first.
    pub fn family(&self, id: &LoopId) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(
            &format!(
                "s.key IN (
                    WITH RECURSIVE family (id, key) AS (
                        SELECT id, key FROM streams WHERE id = ?1
                        UNION SELECT l.id, l.key FROM family f JOIN streams l ON l.parent = f.id
                    )
                    SELECT key FROM family
                 ) ORDER BY s.key LIMIT {MOST}"
            ),
            [id.as_str()],
        )
    }
}
