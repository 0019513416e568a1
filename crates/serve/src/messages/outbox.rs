//! Sends what is kept for one service, in its order, each message as often as it may be tried.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use dacapo_core::chat::{AfterSend, SendProblem, after_send, lost};
use dacapo_engine::{
    client::{Client, ClientError},
    store::{ChatState, NewMessage, StoredMessage},
};

use super::{
    Desk,
    adapter::{Adapter, AfterCrash},
};

/// How long a wait for something to send goes without a look.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);

/// What is remembered of messages that were not taken, until the server ends.
#[derive(Default)]
struct Trouble {
    /// When each of them is tried again.
    due: HashMap<i64, Instant>,
    /// How often the service has asked for patience with it.
    waits: HashMap<i64, u32>,
    /// Nothing is sent before, because the service wants so.
    quiet_until: Option<Instant>,
    /// How many were dropped since the last one that arrived.
    dropped: u32,
    /// Those that this process has begun to send.
    begun: HashSet<i64>,
}

/// Sends until the server ends or the service does not accept the token.
pub(super) fn send_all(desk: &Desk, adapter: &dyn Adapter) -> Result<(), ClientError> {
    let name = adapter.name();
    let mut client = Client::of_journal(&desk.home)?;
    // Watched before the first look, so that nothing falls in between.
    let mut watch = client.watch()?;
    let mut trouble = Trouble::default();
    while !desk.is_ending() {
        if desk.back(name).swap(false, Ordering::Relaxed) {
            replace_lost(&mut client, name)?;
        }
        let mut held = HashSet::new();
        for message in client.to_send(name)? {
            let now = Instant::now();
            let is_due = trouble.due.get(&message.id).is_none_or(|due| *due <= now)
                && trouble.quiet_until.is_none_or(|until| until <= now);
            // What comes behind a message that waits would come before it.
            if !is_due || held.contains(&message.conversation) {
                held.insert(message.conversation);
                continue;
            }
            if !send(desk, &mut client, adapter, &message, &mut trouble)? {
                return Ok(());
            }
            if trouble.due.contains_key(&message.id) {
                held.insert(message.conversation);
            }
        }
        let next = trouble.due.values().chain(trouble.quiet_until.iter()).min();
        let next =
            next.map(|due| due.saturating_duration_since(Instant::now()).max(Duration::from_millis(20)));
        watch.wait(next.unwrap_or(LOOK_ANYWAY).min(LOOK_ANYWAY))?;
    }
    Ok(())
}

/// Sends one message; says whether it is worth going on with this service.
fn send(
    desk: &Desk,
    client: &mut Client,
    adapter: &dyn Adapter,
    message: &StoredMessage,
    trouble: &mut Trouble,
) -> Result<bool, ClientError> {
    let (name, id) = (adapter.name(), message.id);
    let is_uncertain = message.state == ChatState::Sending && trouble.begun.insert(id);
    trouble.begun.insert(id);
    let tries = message.tries + 1;
    let mut sent = Ok(());
    let mut is_there = false;
    if is_uncertain {
        match adapter.after_crash(message) {
            Ok(AfterCrash::Arrived) => is_there = true,
            Ok(AfterCrash::SendAgain) => {}
            // What matters comes rather twice than never; the rest rather never than twice.
            Ok(AfterCrash::Unknown) if message.matters => {}
            Ok(AfterCrash::Unknown) => is_there = true,
            Err(problem) => sent = Err(problem),
        }
    }
    if !is_there && sent.is_ok() {
        // Written down before it is sent: after a crash it is known that it may have arrived.
        client.set_message(id, ChatState::Sending, tries)?;
        sent = adapter.send(message);
    }
    let problem = match sent {
        Ok(()) => {
            client.set_message(id, ChatState::Sent, tries)?;
            trouble.due.remove(&id);
            trouble.waits.remove(&id);
            trouble.quiet_until = None;
            if trouble.dropped > 0 {
                let count = std::mem::take(&mut trouble.dropped);
                desk.note(name, &format!("messages arrive again; {count} could not be delivered"));
                replace_lost(client, name)?;
            }
            return Ok(true);
        }
        Err(problem) => problem,
    };
    let waits = trouble.waits.entry(id).or_default();
    match after_send(&problem, message.matters, tries, *waits) {
        AfterSend::Again { after, is_counted } => {
            let due = Instant::now() + after.std();
            trouble.due.insert(id, due);
            if !is_counted {
                *waits += 1;
                trouble.quiet_until = Some(due);
            }
            client.set_message(id, ChatState::Queued, if is_counted { tries } else { message.tries })?;
            // Another look must not take it for one that a killed server has left.
        }
        end @ (AfterSend::Drop | AfterSend::Raise) => {
            let state = if message.matters { ChatState::Undelivered } else { ChatState::Dropped };
            client.set_message(id, state, tries)?;
            trouble.due.remove(&id);
            trouble.waits.remove(&id);
            trouble.dropped += 1;
            // Of an outage the first is said, and at its end how many there were.
            if trouble.dropped == 1 || end == AfterSend::Raise {
                let what = if message.matters { "a message that matters" } else { "a message" };
                let conversation = &message.conversation;
                desk.note(name, &format!("{what} for {conversation} was not delivered: {problem}"));
            }
        }
    }
    if matches!(problem, SendProblem::SignIn(_)) {
        desk.note(
            name,
            "nothing is sent any more; give it a token that it accepts, and start `dacapo serve` again",
        );
        return Ok(false);
    }
    Ok(true)
}

/// In each conversation one message stands in for those that did not arrive.
fn replace_lost(client: &mut Client, name: &str) -> Result<(), ClientError> {
    let mut all = client.undelivered(name)?;
    while let Some(newest) = all.pop() {
        let (mut same, rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|other| other.conversation == newest.conversation);
        all = rest;
        let count = u32::try_from(same.len() + 1).unwrap_or(u32::MAX);
        let text = lost(count, &newest.text);
        let conversation = newest.conversation.clone();
        same.push(newest);
        let ids: Vec<i64> = same.iter().map(|message| message.id).collect();
        let instead = NewMessage { conversation, text, matters: true, is_ours: true, about: None };
        client.replace_undelivered(&ids, &instead)?;
    }
    Ok(())
}
