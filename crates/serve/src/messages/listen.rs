//! Looks again and again at what was written in the channels of one service, and keeps it.

use std::{collections::HashSet, sync::atomic::Ordering, thread, time::Duration};

use dacapo_core::chat::{SendProblem, incoming};
use dacapo_engine::client::{Client, ClientError};
use jiff::{SignedDuration, Timestamp};

use super::{
    Desk,
    adapter::{Adapter, NewMessages, UserMessage},
};

/// For how long the threads of a conversation are looked at after its last message.
const ACTIVE: SignedDuration = SignedDuration::from_hours(48);
/// How long is waited after failures, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Of how many strangers it is remembered that they were told of.
const MOST_STRANGERS: usize = 1000;

/// Listens until the server ends or the service does not accept the token.
pub(super) fn listen(desk: &Desk, adapter: &dyn Adapter) -> Result<(), ClientError> {
    let name = adapter.name();
    let mut client = Client::of_journal(&desk.home)?;
    let mut strangers = HashSet::new();
    let mut refused = HashSet::new();
    let mut pause = PAUSES.0;
    let mut is_down = false;
    while !desk.is_ending() {
        let since = Timestamp::now().checked_sub(ACTIVE).unwrap_or(Timestamp::MIN);
        let recent = client.conversations(name, since)?;
        let mut wait = adapter.every();
        for channel in adapter.channels(&recent) {
            let position = client.position(name, &channel)?;
            match adapter.poll(&channel, position.as_deref()) {
                Ok(page) => {
                    if std::mem::take(&mut is_down) {
                        desk.note(name, "it can be reached again");
                        desk.back(name).store(true, Ordering::Relaxed);
                    }
                    pause = PAUSES.0;
                    refused.remove(&channel);
                    keep(desk, &mut client, adapter, (&channel, position.as_deref()), page, &mut strangers)?;
                }
                Err(SendProblem::TooMany { wait: asked }) => {
                    wait = wait.max(asked.map_or(pause, |asked| asked.std()).min(PAUSES.1 * 20));
                }
                Err(problem @ SendProblem::SignIn(_)) => {
                    desk.note(name, &format!("is not listened to any more: {problem}"));
                    return Ok(());
                }
                Err(problem @ SendProblem::Refused(_)) => {
                    if refused.insert(channel.clone()) {
                        desk.note(name, &format!("channel {channel} cannot be read: {problem}"));
                    }
                }
                Err(problem @ (SendProblem::Unreachable(_) | SendProblem::Server(_))) => {
                    if !std::mem::replace(&mut is_down, true) {
                        desk.note(name, &format!("{problem}; it is tried again"));
                    }
                    wait = wait.max(pause);
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
        desk.sleep(wait);
    }
    Ok(())
}

/// Keeps what the people wrote who may speak here. Of a stranger it is said once that nothing was kept.
fn keep(
    desk: &Desk,
    client: &mut Client,
    adapter: &dyn Adapter,
    (channel, position): (&str, Option<&str>),
    page: NewMessages,
    strangers: &mut HashSet<String>,
) -> Result<(), ClientError> {
    let name = adapter.name();
    let mut kept = Vec::new();
    for news in page.news {
        if !adapter.is_allowed(&news) {
            let UserMessage { sender, conversation, .. } = &news;
            if strangers.len() < MOST_STRANGERS && strangers.insert(sender.clone()) {
                let what =
                    format!("a message of user {sender} in {conversation} is ignored: not in `serve.{name}`");
                desk.note(name, &what);
            }
            continue;
        }
        kept.push((news.conversation, news.external, incoming(&news.text)));
    }
    if !kept.is_empty() || position != Some(page.position.as_str()) {
        client.receive(name, &kept, Some((channel, &page.position)))?;
    }
    Ok(())
}

/// Runs `work` again when the journal cannot be used for a moment, until the server ends.
pub(super) fn keep_at(desk: &Desk, what: &str, mut work: impl FnMut() -> Result<(), ClientError>) {
    while !desk.is_ending() {
        match work() {
            Ok(()) => return,
            Err(error) => {
                desk.note(what, &format!("stopped, and begins again: {error}"));
                thread::sleep(PAUSES.1.min(Duration::from_secs(2)));
            }
        }
    }
}
