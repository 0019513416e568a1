//! Messages: what came in from chats until it is dealt with, and what goes out to them until it has arrived.
//!
//! A message that comes in is kept together with the place up to which its channel was read, so that none is lost and none is
//! taken twice. A message that goes out is known by the event that it tells of (`run`, `seq`, `part`), so that the same event is
//! never told twice, also after a crash.

use dacapo_core::{chat::Conversation, ids::RunId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{Store, StoreError};
use crate::{proof::fresh_id, secrets::secrets};

/// How a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatState {
    /// It came in, and nothing was done about it.
    Received,
    /// It came in, and what it asked for is done.
    Handled,
    /// It is to be sent.
    Queued,
    /// It is being sent; after a crash it is not known whether it arrived.
    Sending,
    Sent,
    /// It matters and could not be delivered, and the conversation does not know that yet.
    Undelivered,
    /// It could not be delivered, and that is told or of no account.
    Dropped,
}

const STATES: [(ChatState, &str); 7] = [
    (ChatState::Received, "received"),
    (ChatState::Handled, "handled"),
    (ChatState::Queued, "queued"),
    (ChatState::Sending, "sending"),
    (ChatState::Sent, "sent"),
    (ChatState::Undelivered, "undelivered"),
    (ChatState::Dropped, "dropped"),
];

impl ChatState {
    pub fn as_str(self) -> &'static str {
        STATES.iter().find(|(state, _)| *state == self).map_or("", |(_, word)| word)
    }
}

/// The event that a message tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldAbout {
    pub run: RunId,
    pub seq: u64,
    /// Which of the messages about this event it is.
    pub part: u32,
}

/// A message that is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    pub conversation: Conversation,
    pub text: String,
    /// Whether the user has to know of it.
    pub matters: bool,
    /// Whether the words are dacapo's own and not an agent's.
    pub is_ours: bool,
    pub about: Option<ToldAbout>,
}

/// A message that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    pub id: i64,
    pub conversation: Conversation,
    pub is_out: bool,
    pub text: String,
    pub matters: bool,
    pub is_ours: bool,
    pub state: ChatState,
    /// How often it was tried, or is being tried.
    pub tries: u32,
    /// The run that it tells of or has started.
    pub run: Option<RunId>,
    pub at: Timestamp,
}

const COLUMNS: &str = "id, adapter, conversation, is_out, text, matters, is_ours, state, tries, run, at";

fn message(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    let word: String = row.get(7)?;
    let state =
        STATES.iter().find(|(_, known)| *known == word).map_or(ChatState::Dropped, |(state, _)| *state);
    let run: Option<String> = row.get(9)?;
    Ok(StoredMessage {
        id: row.get(0)?,
        conversation: Conversation::new(row.get::<_, String>(1)?, row.get::<_, String>(2)?),
        is_out: row.get(3)?,
        text: row.get(4)?,
        matters: row.get(5)?,
        is_ours: row.get(6)?,
        state,
        tries: row.get(8)?,
        run: run.and_then(|run| run.parse().ok()),
        at: Timestamp::from_microsecond(row.get(10)?).unwrap_or_default(),
    })
}

/// Keeps a message that goes out, unless the same was kept before.
fn insert(transaction: &Transaction<'_>, new: &NewMessage, now: Timestamp) -> rusqlite::Result<bool> {
    let text = secrets().redact(&new.text).into_owned();
    let about = new.about.as_ref();
    let inserted = transaction.execute(
        "INSERT INTO messages (adapter, conversation, is_out, run, seq, part, matters, is_ours, state, at, text)
         VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, 'queued', ?8, ?9) ON CONFLICT DO NOTHING",
        params![
            new.conversation.adapter,
            new.conversation.id,
            about.map(|about| about.run.as_str()),
            about.map(|about| about.seq.cast_signed()),
            about.map(|about| about.part),
            new.matters,
            new.is_ours,
            now.as_microsecond(),
            text,
        ],
    )?;
    Ok(inserted > 0)
}

impl Store {
    /// Keeps messages that came in from one channel, each with the name that its service gives it, and how far the channel is
    /// read with them. Gives how many of them are new.
    pub fn receive(
        &mut self,
        adapter: &str,
        incoming: &[(String, String, String)],
        position: Option<(&str, &str)>,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        self.transact(|transaction| {
            let mut new = 0;
            for (conversation, external, text) in incoming {
                new += transaction.execute(
                    "INSERT INTO messages (adapter, conversation, is_out, external, state, at, text)
                     VALUES (?1, ?2, 0, ?3, 'received', ?4, ?5) ON CONFLICT DO NOTHING",
                    params![adapter, conversation, external, now.as_microsecond(), text],
                )?;
            }
            if let Some((channel, position)) = position {
                transaction.execute(
                    "INSERT INTO channels (adapter, channel, position) VALUES (?1, ?2, ?3)
                     ON CONFLICT (adapter, channel) DO UPDATE SET position = excluded.position",
                    params![adapter, channel, position],
                )?;
            }
            Ok(new)
        })
    }

    /// How far a channel is read.
    pub fn position(&self, adapter: &str, channel: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT position FROM channels WHERE adapter = ?1 AND channel = ?2";
        self.query_row(sql, [adapter, channel], |row| row.get(0))
    }

    /// What came in and is not dealt with, oldest first.
    pub fn received(&self) -> Result<Vec<StoredMessage>, StoreError> {
        let sql =
            format!("SELECT {COLUMNS} FROM messages WHERE state = 'received' AND is_out = 0 ORDER BY id");
        self.query(&sql, [], message)
    }

    /// The run that a message starts: named once, so that a server that is killed while it starts the run starts no second one.
    pub fn run_of_message(&mut self, id: i64) -> Result<RunId, StoreError> {
        let unnamed = |why: String| StoreError::Other { path: String::new(), why };
        let fresh = fresh_id().map_err(|error| unnamed(error.to_string()))?;
        let name = self.transact(|transaction| {
            transaction.execute(
                "UPDATE messages SET run = coalesce(run, ?2) WHERE id = ?1",
                params![id, fresh.as_str()],
            )?;
            let run: Option<String> = transaction
                .query_row("SELECT run FROM messages WHERE id = ?1", [id], |row| row.get(0))
                .optional()?
                .flatten();
            Ok(run.unwrap_or_else(|| fresh.as_str().to_owned()))
        })?;
        name.parse().map_err(|error: dacapo_core::ids::InvalidId| unnamed(error.to_string()))
    }

    /// A message that came in is dealt with, and these are the answers to it.
    pub fn handled(&mut self, id: i64, answers: &[NewMessage], now: Timestamp) -> Result<(), StoreError> {
        self.transact(|transaction| {
            let changed = transaction.execute(
                "UPDATE messages SET state = 'handled' WHERE id = ?1 AND state = 'received'",
                [id],
            )?;
            if changed > 0 {
                answers.iter().try_for_each(|answer| insert(transaction, answer, now).map(drop))?;
            }
            Ok(())
        })
    }

    /// Keeps messages that go out; those that were kept before are left as they are. Gives how many are new.
    pub fn tell(&mut self, messages: &[NewMessage], now: Timestamp) -> Result<usize, StoreError> {
        self.transact(|transaction| {
            let mut new = 0;
            for message in messages {
                new += usize::from(insert(transaction, message, now)?);
            }
            Ok(new)
        })
    }

    /// The last part of an event that was told, if one was.
    pub fn last_part_told(&self, run: &RunId, seq: u64) -> Result<Option<u32>, StoreError> {
        let sql = "SELECT MAX(part) FROM messages WHERE run = ?1 AND seq = ?2";
        Ok(self.query_row(sql, params![run.as_str(), seq.cast_signed()], |row| row.get(0))?.flatten())
    }

    /// What an adapter has to send, in its order.
    pub fn to_send(&self, adapter: &str) -> Result<Vec<StoredMessage>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM messages WHERE adapter = ?1 AND is_out = 1 AND state IN ('queued', 'sending')
             ORDER BY id LIMIT 200"
        );
        self.query(&sql, [adapter], message)
    }

    /// A message of which a conversation was not told that it did not arrive.
    pub fn undelivered(&self, adapter: &str) -> Result<Vec<StoredMessage>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM messages WHERE adapter = ?1 AND is_out = 1 AND state = 'undelivered' ORDER BY id"
        );
        self.query(&sql, [adapter], message)
    }

    /// Says how a message that goes out stands.
    pub fn set_message(&mut self, id: i64, state: ChatState, tries: u32) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "UPDATE messages SET state = ?2, tries = ?3 WHERE id = ?1",
                params![id, state.as_str(), tries],
            )?;
            Ok(())
        })
    }

    /// One message stands in for several that did not arrive.
    pub fn replace_undelivered(
        &mut self,
        lost: &[i64],
        instead: &NewMessage,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.transact(|transaction| {
            for id in lost {
                transaction.execute("UPDATE messages SET state = 'dropped' WHERE id = ?1", [id])?;
            }
            insert(transaction, instead, now)?;
            Ok(())
        })
    }

    /// The messages of a conversation, the newest `most` of them, oldest first.
    pub fn conversation(&self, of: &Conversation, most: u32) -> Result<Vec<StoredMessage>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM messages WHERE adapter = ?1 AND conversation = ?2 ORDER BY id DESC LIMIT ?3"
        );
        let mut found = self.query(&sql, params![of.adapter, of.id, most], message)?;
        found.reverse();
        Ok(found)
    }

    /// The conversations of an adapter in which something was said since `since`, the newest first.
    pub fn conversations(&self, adapter: &str, since: Timestamp) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT conversation FROM messages WHERE adapter = ?1 AND at >= ?2
                   GROUP BY conversation ORDER BY MAX(id) DESC LIMIT 50";
        self.query(sql, params![adapter, since.as_microsecond()], |row| row.get(0))
    }

    /// Forgets messages that are older than `before` and dealt with.
    pub fn forget_messages(&mut self, before: Timestamp) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "DELETE FROM messages WHERE at < ?1 AND state IN ('handled', 'sent', 'dropped')",
                [before.as_microsecond()],
            )?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(text: &str, part: u32) -> NewMessage {
        let about = ToldAbout { run: "abcdefghij".parse().unwrap(), seq: 7, part };
        NewMessage {
            conversation: Conversation::new("test", "c"),
            text: text.to_owned(),
            matters: true,
            is_ours: true,
            about: Some(about),
        }
    }

    #[test]
    fn nothing_comes_in_twice_and_nothing_is_told_twice() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("dacapo.db")).unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let incoming = [("c".to_owned(), "9".to_owned(), "hello".to_owned())];
        assert_eq!(store.receive("test", &incoming, Some(("c", "9")), now).unwrap(), 1);
        assert_eq!(store.receive("test", &incoming, Some(("c", "10")), now).unwrap(), 0);
        assert_eq!(store.position("test", "c").unwrap().as_deref(), Some("10"));
        let received = store.received().unwrap();
        assert_eq!(received.len(), 1);
        // The run of a message has one name, however often it is asked for.
        let run = store.run_of_message(received[0].id).unwrap();
        assert_eq!(store.run_of_message(received[0].id).unwrap(), run);
        let answer = NewMessage { about: None, ..out("which?", 0) };
        for _ in 0..2 {
            store.handled(received[0].id, std::slice::from_ref(&answer), now).unwrap();
        }
        assert_eq!(store.received().unwrap(), []);
        assert_eq!(store.tell(&[out("a", 0), out("b", 1)], now).unwrap(), 2);
        assert_eq!(store.tell(&[out("a", 0), out("b", 1), out("c", 2)], now).unwrap(), 1);
        assert_eq!(store.last_part_told(&"abcdefghij".parse().unwrap(), 7).unwrap(), Some(2));
        let texts = |found: Vec<StoredMessage>| found.into_iter().map(|m| m.text).collect::<Vec<_>>();
        assert_eq!(texts(store.to_send("test").unwrap()), ["which?", "a", "b", "c"]);
        let ids: Vec<i64> = store.to_send("test").unwrap().iter().map(|m| m.id).collect();
        store.set_message(ids[0], ChatState::Sent, 1).unwrap();
        store.set_message(ids[1], ChatState::Sending, 1).unwrap();
        store.set_message(ids[2], ChatState::Undelivered, 3).unwrap();
        assert_eq!(texts(store.to_send("test").unwrap()), ["a", "c"]);
        assert_eq!(texts(store.undelivered("test").unwrap()), ["b"]);
        store.replace_undelivered(&[ids[2]], &NewMessage { about: None, ..out("lost b", 0) }, now).unwrap();
        assert_eq!(store.undelivered("test").unwrap(), []);
        let all = texts(store.conversation(&Conversation::new("test", "c"), 100).unwrap());
        assert_eq!(all, ["hello", "which?", "a", "b", "c", "lost b"]);
        assert_eq!(store.conversations("test", now).unwrap(), ["c"]);
        store.forget_messages(Timestamp::MAX).unwrap();
        assert_eq!(
            texts(store.conversation(&Conversation::new("test", "c"), 100).unwrap()),
            ["a", "c", "lost b"]
        );
    }
}
