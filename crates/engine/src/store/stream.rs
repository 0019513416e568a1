//! A stream of the journal and its machine: the only place that decides, appends, applies and publishes.
//!
//! Nothing else writes events. [`append`] is private to this file, and the rest of the store has no statement that inserts
//! one, so that a fact cannot get into the journal without [`Machine::decide`](dacapo_core::machine::Machine::decide).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dacapo_core::{
    attestation::{RECEIPT_TYPE, TEST_RESULT_TYPE, receipt_statement, test_result_statement},
    chain::{ChainCheck, ChainedEvent, Link, Mac},
    loop_machine::LoopMachine,
    machine::Step,
    receipt::Receipt,
};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

use super::{
    JournalMachine, Store, StoreError,
    chain::{StreamRow, edited},
    checkpoint::{self, JournalHash, SinceCheckpoint},
    read::to_json,
};
use crate::{
    keys::{MachineKey, PublicKey},
    notify::{self, Notable},
    observer::Observer,
    process::identity::{Identity, host},
    secrets::secrets,
};

/// How long a lease holds after its owner last renewed it. On the same machine the kernel tells sooner that an owner
/// died.
const LEASE: Duration = Duration::from_secs(60);

/// How long after its newest event or renewal an owner renews its lease, if it has nothing to record.
const RENEW_AFTER: Duration = Duration::from_secs(20);

/// Updates a stream's row after an append. It names no column that has an index, because the database rewrites the
/// indexes of each column that a statement names, even if its value stays.
const MOVE: &str = "UPDATE streams SET head = ?4, view = ?5, lease_until = ?6, epoch = ?7, mac = ?8
    WHERE key = ?1 AND head = ?2 AND epoch = ?3";

/// Updates a stream's row after its last event, or after one with which it goes on.
const END: &str = "UPDATE streams SET over = ?2, ended = iif(?2, head, NULL),
    asks = coalesce(?2 AND view ->> '$.exit_code' = 4, 0) WHERE key = ?1";

/// Writes a stream's row before its first event.
const BEGIN: &str = "INSERT INTO streams (id, kind, project, parent, task, workspace, run, head, over, view,
        owner_pid, owner_start, owner_boot, owner_host, epoch, lease_until, mac)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 1, ?15, ?16)";

/// The place of the next event.
const NEXT: &str = "SELECT COALESCE(MAX(seq), 0) + 1 FROM events";

const INSERT: &str =
    "INSERT INTO events (seq, stream, subject, at, body, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// What the beginning of a stream and each of its steps have the database do.
pub(super) const STATEMENTS: [&str; 4] = [BEGIN, NEXT, INSERT, MOVE];

/// A stream, as the process that writes it holds it.
pub struct Stream<M: JournalMachine> {
    id: M::Id,
    place: StreamEnd,
    state: M::State,
    view: M::View,
    hash: JournalHash,
    /// The hash that the newest event carries; none if that is from before events carried one.
    link: Option<Link>,
    since_checkpoint: SinceCheckpoint,
    leased: Instant,
    /// Whether the next append raises the epoch.
    shuts_out_owner: bool,
}

/// Where a stream ends, as its writer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamEnd {
    pub(super) key: i64,
    pub(super) head: i64,
    /// How often the stream has had a new owner.
    pub(super) epoch: i64,
}

/// A stream's number in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey(pub(super) i64);

/// An input, and the request it came from.
pub struct Arrival<I> {
    pub input: I,
    /// The request's row, which is closed in the transaction that records what follows from it.
    pub request: Option<i64>,
}

impl<I> From<I> for Arrival<I> {
    fn from(input: I) -> Self {
        Self { input, request: None }
    }
}

impl<M: Notable> Stream<M> {
    /// Begins a stream with its first input, whose first event must be its beginning. Gives the effects to carry out.
    ///
    /// The same transaction looks whether another stream than `kin` works in the folder, so that of two that begin at
    /// once one sees the other.
    pub fn begin(
        store: &mut Store,
        id: M::Id,
        owner: &Identity,
        now: Timestamp,
        input: M::Input,
        kin: &M::Kin,
        observer: &mut dyn Observer<M>,
    ) -> Result<(Self, Vec<M::Effect>), StoreError> {
        Self::begin_looking(store, id, owner, now, input, kin, |_| None, observer)
    }

    /// Begins a stream as [`begin`](Self::begin) does. If the first input leads to an effect that only looks at something, `look`
    /// may take it out of the effects and give its answer: what follows from that is recorded in the same transaction, so
    /// that the beginning needs one sync instead of two.
    #[expect(clippy::too_many_arguments, reason = "what a stream begins with, each used once")]
    pub fn begin_looking(
        store: &mut Store,
        id: M::Id,
        owner: &Identity,
        now: Timestamp,
        input: M::Input,
        kin: &M::Kin,
        look: impl FnOnce(&mut Vec<M::Effect>) -> Option<M::Input>,
        observer: &mut dyn Observer<M>,
    ) -> Result<(Self, Vec<M::Effect>), StoreError> {
        let mut state = M::State::default();
        let Step { mut events, mut effects } = M::decide(&state, input);
        if let Some(answer) = look(&mut effects) {
            events.iter().for_each(|event| M::apply(&mut state, event));
            let step = M::decide(&state, answer);
            events.extend(step.events);
            effects.extend(step.effects);
        }
        let (mut stream, envelopes) = Self::record_beginning(store, id, owner, now, events, kin)?;
        stream.publish(store, &envelopes, true, observer);
        Ok((stream, effects))
    }

    /// Opens a stream for a process that is about to go on with it. Its events are folded from the newest checkpoint
    /// on, if there is one. It is an error if they, or what the stream's row says, are not what was recorded.
    pub fn open(store: &Store, id: &M::Id) -> Result<Option<Self>, StoreError> {
        let Some(StreamRow { place, view, mac, .. }) = store.stream_row::<M>(id)? else { return Ok(None) };
        let (mut from, mut state, mut hash) = (0, M::State::default(), JournalHash::default());
        let mut since_checkpoint = SinceCheckpoint::default();
        let mut chain = ChainCheck::new(M::NAME, id.as_ref(), store.keys().chained_from()?);
        if let Some(checkpoint) = store.checkpoint::<M>(id, place)? {
            from = checkpoint.seq.cast_unsigned() + 1;
            chain.go_on(checkpoint.seq.cast_unsigned(), checkpoint.link);
            (state, hash, since_checkpoint) = (checkpoint.state, checkpoint.hash, checkpoint.since);
        }
        store.each_raw::<M>(id, from, u32::MAX, |raw, carried| {
            let taken = chain.take(raw.chained(), carried, || hash.hex());
            taken.map_err(|fault| edited::<M>(id, fault))?;
            M::apply_recorded(&mut state, &raw.envelope::<M>()?);
            hash.take(&raw.body);
            since_checkpoint.events += 1;
            Ok(())
        })?;
        chain
            .end(place.head.cast_unsigned(), &view, mac.as_deref(), store.machine()?.mac())
            .map_err(|fault| edited::<M>(id, fault))?;
        let view = serde_json::from_str(&view)
            .map_err(|error| StoreError::Other { path: store.path(), why: error.to_string() })?;
        let (link, leased, shuts_out_owner) = (chain.link(), Instant::now(), false);
        let id = id.clone();
        Ok(Some(Self { id, place, state, view, hash, link, since_checkpoint, leased, shuts_out_owner }))
    }

    /// Lets the next append raise the epoch, so that the journal refuses what the owner still wants to write. It is
    /// for a process that writes the end of a stream because its owner seems to be dead.
    pub fn shut_out_owner(&mut self) {
        self.shuts_out_owner = true;
    }

    /// Makes `owner` the owner of this stream. The caller must hold the lock of its task or repository.
    pub fn take_over(
        &mut self,
        store: &mut Store,
        owner: &Identity,
        now: Timestamp,
        kin: &M::Kin,
    ) -> Result<(), StoreError> {
        let (place, view, id) = (self.place, &self.view, &self.id);
        store.transact(|transaction| {
            M::admit(transaction, view, kin)?;
            let moved = transaction.execute(
                "UPDATE streams SET owner_pid = ?4, owner_start = ?5, owner_boot = ?6, owner_host = ?7,
                                    epoch = epoch + 1, lease_until = ?8
                 WHERE key = ?1 AND head = ?2 AND epoch = ?3",
                params![
                    place.key,
                    place.head,
                    place.epoch,
                    owner.pid,
                    owner.start.cast_signed(),
                    owner.boot,
                    host(),
                    lease_from(now)
                ],
            )?;
            if moved == 0 { Err(overtaken::<M>(id)) } else { Ok(()) }
        })?;
        self.place.epoch += 1;
        self.leased = Instant::now();
        Ok(())
    }

    /// When the owner has to renew its lease, unless it records an event before, which renews the lease too.
    pub fn renewal_is_due_at(&self) -> Instant {
        self.leased + RENEW_AFTER
    }

    /// Renews the lease of an owner that has nothing to record. It is an error if another process has taken the
    /// stream over.
    pub fn renew_lease(&mut self, store: &mut Store, now: Timestamp) -> Result<(), StoreError> {
        let (place, id) = (self.place, &self.id);
        store.transact(|transaction| {
            let renewed = transaction
                .prepare_cached("UPDATE streams SET lease_until = ?3 WHERE key = ?1 AND epoch = ?2")?
                .execute(params![place.key, place.epoch, lease_from(now)])?;
            if renewed == 0 { Err(overtaken::<M>(id)) } else { Ok(()) }
        })?;
        self.leased = Instant::now();
        Ok(())
    }

    /// Decides what follows from `arrivals`, in order, records all of it in one transaction, applies and publishes
    /// it. Gives the effects to carry out. If recording fails, the stream has not changed.
    pub fn step(
        &mut self,
        store: &mut Store,
        now: Timestamp,
        arrivals: impl IntoIterator<Item = Arrival<M::Input>>,
        observer: &mut dyn Observer<M>,
    ) -> Result<Vec<M::Effect>, StoreError> {
        let mut arrivals = arrivals.into_iter().peekable();
        let (mut events, mut effects, mut handled) = (Vec::new(), Vec::new(), Vec::new());
        // The state in which later inputs are decided. For a single input no copy of the state is made.
        let mut ahead: Option<M::State> = None;
        while let Some(Arrival { input, request }) = arrivals.next() {
            let step = M::decide(ahead.as_ref().unwrap_or(&self.state), input);
            let decided = without_secrets::<M>(step.events)?;
            if arrivals.peek().is_some() || ahead.is_some() {
                let state = ahead.get_or_insert_with(|| self.state.clone());
                decided.iter().for_each(|event| M::apply(state, event));
            }
            events.extend(decided);
            effects.extend(step.effects);
            handled.extend(request);
        }
        let envelopes = self.append(store, now, &events, &handled)?;
        let is_applied = ahead.is_some();
        if let Some(state) = ahead {
            self.state = state;
        }
        self.publish(store, &envelopes, !is_applied, observer);
        if let Some(long) = store.long_wait() {
            observer.waited(long);
        }
        Ok(effects)
    }

    pub fn id(&self) -> &M::Id {
        &self.id
    }

    /// The stream's number in the database.
    pub fn key(&self) -> StreamKey {
        StreamKey(self.place.key)
    }

    /// The fold of the stream's events.
    pub fn state(&self) -> &M::State {
        &self.state
    }

    pub fn view(&self) -> &M::View {
        &self.view
    }

    /// SHA-256 over the stream's events as they were recorded. Receipts hold it.
    pub fn journal_hash(&self) -> String {
        self.hash.hex()
    }

    fn publish(
        &mut self,
        store: &Store,
        envelopes: &[M::Envelope],
        apply: bool,
        observer: &mut dyn Observer<M>,
    ) {
        for envelope in envelopes {
            if apply {
                M::apply_recorded(&mut self.state, envelope);
            }
            observer.event(envelope, &self.view);
        }
        // One process tells all of them.
        if let Some(notice) = envelopes.iter().find_map(|envelope| M::notice(envelope, &self.view))
            && let Some(database) = store.database()
        {
            notify::wake(database, &notice);
        }
    }

    /// Writes the first events of a stream, and its row.
    fn record_beginning(
        store: &mut Store,
        id: M::Id,
        owner: &Identity,
        now: Timestamp,
        events: Vec<M::Event>,
        kin: &M::Kin,
    ) -> Result<(Self, Vec<M::Envelope>), StoreError> {
        let events = without_secrets::<M>(events)?;
        // A key that cannot sign is told of before an agent is at work.
        let (machine, public) = store.keys().pair()?;
        store.transact(|transaction| {
            let first = next_seq(transaction)?;
            let envelopes = placed::<M>(&id, now, first, &events);
            let view = envelopes.first().and_then(M::first_view);
            let (Some(mut view), Some(beginning)) = (view, envelopes.first()) else {
                let why = format!("a {} must begin with its beginning", M::NAME);
                return Err(StoreError::Other { path: String::new(), why });
            };
            for envelope in &envelopes {
                M::see(&mut view, envelope);
            }
            M::admit(transaction, &view, kin)?;
            let at = M::row_columns(&view, beginning);
            let head = first + events.len() as i64 - 1;
            let mut hash = JournalHash::default();
            let written = written::<M>(&id, first, now, &events, &mut hash, None)?;
            let link = written.last().map(|event| event.link);
            let json = to_json(&view)?;
            let mac = link
                .map(|link| machine.mac().of_head(M::NAME, id.as_ref(), head.cast_unsigned(), link, &json));
            transaction.prepare_cached(BEGIN)?.execute(params![
                id.as_ref(),
                M::NAME,
                at.project,
                at.parent,
                at.task,
                at.workspace,
                at.run,
                head,
                M::is_over(&view),
                json,
                owner.pid,
                owner.start.cast_signed(),
                owner.boot,
                host(),
                lease_from(now),
                mac.as_ref().map(Mac::bytes),
            ])?;
            let place = StreamEnd { key: transaction.last_insert_rowid(), head, epoch: 1 };
            if M::is_over(&view) {
                transaction.prepare_cached(END)?.execute(params![place.key, true])?;
            }
            insert(transaction, place.key, now, &written)?;
            attest::<M>(transaction, &events, &written, || Ok((&machine, public.clone())))?;
            M::index(transaction, place.key, &view, &envelopes)?;
            let since_checkpoint = SinceCheckpoint { events: events.len(), ..SinceCheckpoint::default() };
            let (id, state) = (id.clone(), M::State::default());
            let (leased, shuts_out_owner) = (Instant::now(), false);
            let stream =
                Self { id, place, state, view, hash, link, since_checkpoint, leased, shuts_out_owner };
            Ok((stream, envelopes))
        })
    }

    /// Appends events to the stream, and closes the requests that they answer.
    fn append(
        &mut self,
        store: &mut Store,
        now: Timestamp,
        events: &[M::Event],
        handled: &[i64],
    ) -> Result<Vec<M::Envelope>, StoreError> {
        if events.is_empty() && handled.is_empty() {
            return Ok(Vec::new());
        }
        let (id, at, mut view) = (&self.id, self.place, self.view.clone());
        let was_over = M::is_over(&view);
        let epoch = at.epoch + i64::from(self.shuts_out_owner);
        let (state, mut hash, mut since) = (&self.state, self.hash.clone(), self.since_checkpoint);
        let link = self.link;
        let keys = store.keys();
        let (envelopes, head, link) = store.transact_with_key(|transaction, machine| {
            let first = next_seq(transaction)?;
            let envelopes = placed::<M>(id, now, first, events);
            for envelope in &envelopes {
                M::see(&mut view, envelope);
            }
            let head = if events.is_empty() { at.head } else { first + events.len() as i64 - 1 };
            let before = hash.clone();
            let written = written::<M>(id, first, now, events, &mut hash, link)?;
            let newest = written.last().map(|event| event.link).or(link);
            let json = to_json(&view)?;
            let mac = newest
                .map(|link| machine.mac().of_head(M::NAME, id.as_ref(), head.cast_unsigned(), link, &json));
            let moved = transaction.prepare_cached(MOVE)?.execute(params![
                at.key,
                at.head,
                at.epoch,
                head,
                json,
                lease_from(now),
                epoch,
                mac.as_ref().map(Mac::bytes)
            ])?;
            if moved == 0 {
                return Err(overtaken::<M>(id));
            }
            if M::is_over(&view) != was_over {
                transaction.prepare_cached(END)?.execute(params![at.key, M::is_over(&view)])?;
            }
            if since.is_due(M::is_over(&view)) {
                since = checkpoint::write::<M>(transaction, id, at, state, (&before, link), machine.mac())?;
            }
            insert(transaction, at.key, now, &written)?;
            attest::<M>(transaction, events, &written, || Ok((machine, keys.public()?.0)))?;
            since.events += events.len();
            M::index(transaction, at.key, &view, &envelopes)?;
            for request in handled {
                transaction
                    .prepare_cached("UPDATE requests SET handled = 1 WHERE id = ?1 AND stream = ?2")?
                    .execute([*request, at.key])?;
            }
            Ok((envelopes, head, newest))
        })?;
        self.place = StreamEnd { head, epoch, ..at };
        (self.leased, self.shuts_out_owner) = (Instant::now(), false);
        (self.view, self.hash, self.link, self.since_checkpoint) = (view, hash, link, since);
        Ok(envelopes)
    }
}

impl Stream<LoopMachine> {
    /// Puts the user's own words into the state, which the journal has without secrets, so that prompts hold them
    /// whole. Events that are recorded lose their secrets again. `words` count only if they are the recorded ones,
    /// because an agent can write to the file they come from.
    pub(crate) fn say_in_own_words(&mut self, words: String) {
        if let Some(started) = &mut self.state.started
            && started.prompt != words
            && started.prompt == secrets().redact(&words)
        {
            Arc::make_mut(started).prompt = words;
        }
    }
}

/// The end of a lease that is renewed now.
fn lease_from(now: Timestamp) -> i64 {
    now.as_microsecond().saturating_add(LEASE.as_micros() as i64)
}

fn overtaken<M: JournalMachine>(id: &M::Id) -> StoreError {
    StoreError::Overtaken { kind: M::NAME, id: id.to_string() }
}

/// Takes secrets out of events before they are recorded, applied and published. All events come through here.
fn without_secrets<M: JournalMachine>(events: Vec<M::Event>) -> Result<Vec<M::Event>, StoreError> {
    let redacted: Result<_, serde_json::Error> = events.into_iter().map(M::without_secrets).collect();
    redacted.map_err(|error| super::read::unwritable(&error))
}

/// The place of the next event. The query reads the end of an index, so its cost does not grow with the journal.
fn next_seq(transaction: &Transaction<'_>) -> Result<i64, StoreError> {
    Ok(transaction.prepare_cached(NEXT)?.query_row([], |row| row.get(0))?)
}

fn placed<M: JournalMachine>(id: &M::Id, at: Timestamp, first: i64, events: &[M::Event]) -> Vec<M::Envelope> {
    // The database keeps whole microseconds; so do events that are shown live.
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    let placed = |(seq, event): (i64, &M::Event)| M::placed(id, seq.cast_unsigned(), at, event.clone());
    (first..).zip(events).map(placed).collect()
}

/// An event as it is written.
struct Written<'a> {
    seq: i64,
    subject: Option<&'a str>,
    body: String,
    link: Link,
}

/// The events as they are written, each with its hash. `hash` is that of all events before them, `link` that of the last one.
fn written<'a, M: JournalMachine>(
    id: &M::Id,
    first: i64,
    at: Timestamp,
    events: &'a [M::Event],
    hash: &mut JournalHash,
    mut link: Option<Link>,
) -> Result<Vec<Written<'a>>, StoreError> {
    let mut all = Vec::with_capacity(events.len());
    for (seq, event) in (first..).zip(events) {
        let (subject, body) = M::written(event).map_err(|error| super::read::unwritable(&error))?;
        let before = link.unwrap_or_else(|| Link::beginning(M::NAME, id.as_ref(), &hash.hex()));
        let (seq_in_chain, at) = (seq.cast_unsigned(), at.as_microsecond());
        let next = before.next(ChainedEvent { seq: seq_in_chain, at, subject, body: &body });
        hash.take(&body);
        link = Some(next);
        all.push(Written { seq, subject, body, link: next });
    }
    Ok(all)
}

fn insert(
    transaction: &Transaction<'_>,
    key: i64,
    at: Timestamp,
    written: &[Written<'_>],
) -> Result<(), StoreError> {
    let mut statement = transaction.prepare_cached(INSERT)?;
    for Written { seq, subject, body, link } in written {
        statement.execute(params![seq, key, subject, at.as_microsecond(), body, link.bytes()])?;
    }
    Ok(())
}

/// Signs the receipts among the events, and keeps the statements beside them.
fn attest<'a, M: JournalMachine>(
    transaction: &Transaction<'_>,
    events: &[M::Event],
    written: &[Written<'_>],
    key: impl FnOnce() -> Result<(&'a MachineKey, PublicKey), StoreError>,
) -> Result<(), StoreError> {
    let receipts: Vec<(&Receipt, &Written<'_>)> =
        events.iter().zip(written).filter_map(|(event, at)| Some((M::receipt(event)?, at))).collect();
    if receipts.is_empty() {
        return Ok(());
    }
    let (machine, PublicKey { signer, .. }) = key()?;
    for (receipt, Written { seq, link, .. }) in receipts {
        let whole = receipt_statement(receipt, seq.cast_unsigned(), *link, &signer);
        let statements = [(RECEIPT_TYPE, Some(whole)), (TEST_RESULT_TYPE, test_result_statement(receipt))];
        for (predicate, statement) in statements {
            let Some(statement) = statement else { continue };
            let envelope = to_json(&machine.sign(&statement, &signer.keyid))?;
            transaction
                .prepare_cached("INSERT INTO attestations (seq, predicate, envelope) VALUES (?1, ?2, ?3)")?
                .execute(params![seq, predicate, envelope])?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
