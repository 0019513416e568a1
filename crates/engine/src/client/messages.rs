//! Messages of chats, for the server: kept in the journal's database, so that a server that is killed loses and doubles none.

use dacapo_core::{chat::Conversation, ids::RunId};
use jiff::Timestamp;

use super::{Client, ClientError, Way, deciding};
use crate::store::{ChatState, NewMessage, Store, StoredMessage};

impl Client {
    fn messages(&mut self) -> Result<&mut Store, ClientError> {
        match &mut self.way {
            Way::Journal { store, .. } => Ok(store),
            Way::Supervisor(_) => Err(deciding("read and send messages").into()),
        }
    }

    /// Keeps messages that came in from a channel (conversation, name at the service, text), and how far it is read with them.
    pub fn receive(
        &mut self,
        adapter: &str,
        incoming: &[(String, String, String)],
        position: Option<(&str, &str)>,
    ) -> Result<usize, ClientError> {
        Ok(self.messages()?.receive(adapter, incoming, position, Timestamp::now())?)
    }

    /// How far a channel is read.
    pub fn position(&mut self, adapter: &str, channel: &str) -> Result<Option<String>, ClientError> {
        Ok(self.messages()?.position(adapter, channel)?)
    }

    /// What came in and is not dealt with, oldest first.
    pub fn received(&mut self) -> Result<Vec<StoredMessage>, ClientError> {
        Ok(self.messages()?.received()?)
    }

    /// The run that a message starts: one name, however often it is asked for.
    pub fn run_of_message(&mut self, id: i64) -> Result<RunId, ClientError> {
        Ok(self.messages()?.run_of_message(id)?)
    }

    /// A message that came in is dealt with, and these are the answers to it.
    pub fn handled(&mut self, id: i64, answers: &[NewMessage]) -> Result<(), ClientError> {
        Ok(self.messages()?.handled(id, answers, Timestamp::now())?)
    }

    /// Keeps messages that go out, each once. Gives how many are new.
    pub fn tell(&mut self, messages: &[NewMessage]) -> Result<usize, ClientError> {
        match messages {
            [] => Ok(0),
            messages => Ok(self.messages()?.tell(messages, Timestamp::now())?),
        }
    }

    /// The last part of an event that was told, if one was.
    pub fn last_part_told(&mut self, run: &RunId, seq: u64) -> Result<Option<u32>, ClientError> {
        Ok(self.messages()?.last_part_told(run, seq)?)
    }

    /// What an adapter has to send, in its order.
    pub fn to_send(&mut self, adapter: &str) -> Result<Vec<StoredMessage>, ClientError> {
        Ok(self.messages()?.to_send(adapter)?)
    }

    /// Messages that matter, that could not be delivered, and of which their conversations do not know.
    pub fn undelivered(&mut self, adapter: &str) -> Result<Vec<StoredMessage>, ClientError> {
        Ok(self.messages()?.undelivered(adapter)?)
    }

    /// Says how a message that goes out stands, and how often it was tried.
    pub fn set_message(&mut self, id: i64, state: ChatState, tries: u32) -> Result<(), ClientError> {
        Ok(self.messages()?.set_message(id, state, tries)?)
    }

    /// One message stands in for several that did not arrive.
    pub fn replace_undelivered(&mut self, lost: &[i64], instead: &NewMessage) -> Result<(), ClientError> {
        Ok(self.messages()?.replace_undelivered(lost, instead, Timestamp::now())?)
    }

    /// The newest messages of a conversation, oldest first.
    pub fn conversation(&mut self, of: &Conversation, most: u32) -> Result<Vec<StoredMessage>, ClientError> {
        Ok(self.messages()?.conversation(of, most)?)
    }

    /// The conversations of an adapter in which something was said since `since`, the newest first.
    pub fn conversations(&mut self, adapter: &str, since: Timestamp) -> Result<Vec<String>, ClientError> {
        Ok(self.messages()?.conversations(adapter, since)?)
    }

    /// Forgets messages that are older than `before` and dealt with.
    pub fn forget_messages(&mut self, before: Timestamp) -> Result<(), ClientError> {
        Ok(self.messages()?.forget_messages(before)?)
    }
}
