//! The chain of a stream's events: each event carries a hash over itself and the hash of the event before it, and the newest
//! hash is authenticated with the machine's key.
//!
//! An edit in the middle of a stream shows because later hashes do not follow any more. A program that computes the hashes anew
//! is found out by the keyed hash of the stream's head, which it cannot compute without the key.

use sha2::{Digest, Sha256};

/// The hash that an event of a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link([u8; 32]);

/// An event as the chain covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainedEvent<'a> {
    /// Its place in the journal.
    pub seq: u64,
    /// Microseconds since 1970.
    pub at: i64,
    /// The unit that it is about, if it is not about the whole stream.
    pub subject: Option<&'a str>,
    /// Its JSON as it is recorded.
    pub body: &'a str,
}

impl Link {
    /// What the first event of a chain follows. `before` is the hash of the events of the stream that were recorded before
    /// there were chains, so that from then on they cannot be edited either.
    pub fn beginning(kind: &str, id: &str, before: &str) -> Self {
        let mut hash = Fields::new("dacapo chain 1");
        hash.field(kind.as_bytes());
        hash.field(id.as_bytes());
        hash.field(before.as_bytes());
        Self(hash.end())
    }

    /// The hash of the event that comes after this one.
    #[must_use]
    pub fn next(self, event: ChainedEvent<'_>) -> Self {
        let mut hash = Fields::new("dacapo event 1");
        hash.field(&self.0);
        hash.field(&event.seq.to_be_bytes());
        hash.field(&event.at.to_be_bytes());
        // An event about no unit is not one about a unit without a name.
        hash.field(&[u8::from(event.subject.is_some())]);
        hash.field(event.subject.unwrap_or_default().as_bytes());
        hash.field(event.body.as_bytes());
        Self(hash.end())
    }

    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

/// A key that authenticates hashes. Only the processes of dacapo that the machine's key can be read by have it.
#[derive(Clone)]
pub struct MacKey([u8; 32]);

/// A keyed hash (HMAC-SHA-256).
#[derive(Clone, Copy, Debug)]
pub struct Mac([u8; 32]);

impl Mac {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the recorded one, in a time that does not depend on where they differ.
    pub fn is(&self, recorded: &[u8]) -> bool {
        recorded.len() == self.0.len()
            && self.0.iter().zip(recorded).fold(0, |differs, (own, other)| differs | (own ^ other)) == 0
    }
}

impl std::fmt::Debug for MacKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MacKey(…)")
    }
}

impl MacKey {
    /// The key that belongs to a machine's secret, which is used for nothing else but signatures.
    pub fn derive(secret: &[u8; 32]) -> Self {
        Self(hmac(secret, b"dacapo journal key 1"))
    }

    /// The keyed hash of where a stream ends, and of what its row says about it.
    pub fn of_head(&self, kind: &str, id: &str, head: u64, link: Link, view: &str) -> Mac {
        let mut hash = Fields::new("dacapo head 1");
        hash.field(kind.as_bytes());
        hash.field(id.as_bytes());
        hash.field(&head.to_be_bytes());
        hash.field(&link.0);
        hash.field(view.as_bytes());
        Mac(hmac(&self.0, &hash.end()))
    }

    /// The keyed hash of a checkpoint. `first` is the first event of the stream, which a state is completed from.
    pub fn of_checkpoint(&self, checkpoint: &CheckpointFacts<'_>) -> Mac {
        let mut hash = Fields::new("dacapo checkpoint 1");
        hash.field(checkpoint.kind.as_bytes());
        hash.field(checkpoint.id.as_bytes());
        hash.field(&checkpoint.seq.to_be_bytes());
        hash.field(checkpoint.folded_by.as_bytes());
        hash.field(checkpoint.hash);
        hash.field(checkpoint.state.as_bytes());
        hash.field(checkpoint.link.as_ref().map(Link::bytes).unwrap_or_default());
        hash.field(checkpoint.first.as_bytes());
        Mac(hmac(&self.0, &hash.end()))
    }
}

/// A checkpoint of a stream as its keyed hash covers it.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointFacts<'a> {
    pub kind: &'a str,
    pub id: &'a str,
    pub seq: u64,
    pub folded_by: &'a str,
    /// The stored state of the hash over all events until then.
    pub hash: &'a [u8],
    pub state: &'a str,
    /// The hash that the event at `seq` carries; none if it is from before there were chains.
    pub link: Option<Link>,
    /// The JSON of the stream's first event.
    pub first: &'a str,
}

/// What is wrong with the chain of a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    #[error(
        "event {0} is not what was recorded there: it or the one before it was edited, removed, inserted or moved"
    )]
    Edited(u64),
    #[error("event {0} carries no hash, although events have carried one since event {1}")]
    Bare(u64, u64),
    #[error("event {0} carries a hash, although events carry one only since event {1}")]
    TooEarly(u64, u64),
    #[error("its newest event is {found}, and its row says {head}: events at its end were removed or added")]
    OtherHead { head: u64, found: u64 },
    #[error(
        "its row is not what this machine's key says of event {0}: events, the row or the key were replaced"
    )]
    OtherMac(u64),
    #[error("its row has no keyed hash at event {0}: it was taken off")]
    NoMac(u64),
    #[error("its checkpoint at event {0} is not what this machine's key says of it")]
    OtherCheckpoint(u64),
}

impl ChainFault {
    /// The place in the journal.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Edited(seq)
            | Self::Bare(seq, _)
            | Self::TooEarly(seq, _)
            | Self::OtherHead { found: seq, .. }
            | Self::OtherMac(seq)
            | Self::NoMac(seq)
            | Self::OtherCheckpoint(seq) => *seq,
        }
    }
}

/// Follows the chain of one stream, event by event.
#[derive(Clone, Debug)]
pub struct ChainCheck<'a> {
    kind: &'a str,
    id: &'a str,
    /// Events of the journal from this one on carry a hash.
    chained_from: u64,
    link: Option<Link>,
    last: u64,
    unchained: u64,
}

impl<'a> ChainCheck<'a> {
    pub fn new(kind: &'a str, id: &'a str, chained_from: u64) -> Self {
        Self { kind, id, chained_from, link: None, last: 0, unchained: 0 }
    }

    /// Goes on behind a checkpoint whose keyed hash was found right.
    pub fn go_on(&mut self, seq: u64, link: Option<Link>) {
        (self.last, self.link) = (seq, link);
    }

    /// Takes the next event and the hash that it carries. `before` gives the hash of all events before it, as a receipt has it.
    pub fn take(
        &mut self,
        event: ChainedEvent<'_>,
        carried: Option<&[u8]>,
        before: impl FnOnce() -> String,
    ) -> Result<(), ChainFault> {
        let seq = event.seq;
        self.last = seq;
        let Some(carried) = carried else {
            if seq >= self.chained_from || self.link.is_some() {
                return Err(ChainFault::Bare(seq, self.chained_from));
            }
            self.unchained += 1;
            return Ok(());
        };
        if seq < self.chained_from {
            return Err(ChainFault::TooEarly(seq, self.chained_from));
        }
        let link = self.link.unwrap_or_else(|| Link::beginning(self.kind, self.id, &before())).next(event);
        if link.bytes() != carried {
            return Err(ChainFault::Edited(seq));
        }
        self.link = Some(link);
        Ok(())
    }

    /// Compares where the events ended with the stream's row: its head, its view and its keyed hash.
    pub fn end(&self, head: u64, view: &str, mac: Option<&[u8]>, key: &MacKey) -> Result<(), ChainFault> {
        if head != self.last {
            return Err(ChainFault::OtherHead { head, found: self.last });
        }
        match (self.link, mac) {
            (None, None) => Ok(()),
            (Some(_), None) => Err(ChainFault::NoMac(head)),
            (Some(link), Some(mac)) if key.of_head(self.kind, self.id, head, link, view).is(mac) => Ok(()),
            _ => Err(ChainFault::OtherMac(head)),
        }
    }

    /// The hash that the newest event carries.
    pub fn link(&self) -> Option<Link> {
        self.link
    }

    /// How many events came that are from before there were chains.
    pub fn unchained(&self) -> u64 {
        self.unchained
    }
}

/// A hash over fields, each with its length in front, so that no two lists of fields have the same bytes.
struct Fields(Sha256);

impl Fields {
    fn new(what: &str) -> Self {
        let mut fields = Self(Sha256::new());
        fields.field(what.as_bytes());
        fields
    }

    fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn end(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// HMAC-SHA-256 (RFC 2104) with a key of 32 bytes.
fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    const BLOCK: usize = 64;
    let padded = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
