//! `dacapo events`.

use std::time::Duration;

use clap::Args;
use dacapo_core::event::Envelope;
use dacapo_engine::watch::Watch;

use super::say;
use crate::{context::Context, error::UserError, report::event_line};

/// Print the journal
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo events fix-tests -f --json | jq .type")]
pub(super) struct EventsArgs {
    /// One loop: its id, the beginning of it, or its task (default: all)
    id: Option<String>,
    /// Go on printing as events happen; with ID, until the loop is over
    #[arg(short, long)]
    follow: bool,
    /// As JSON lines
    #[arg(long)]
    json: bool,
    /// Begin with this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
}

pub(super) fn events(cx: &Context, args: &EventsArgs) -> Result<u8, UserError> {
    let store = cx.store()?;
    let id = match &args.id {
        Some(text) => Some(cx.find(&store, text)?.view.id),
        None => None,
    };
    let cannot = |error: std::io::Error| {
        UserError::environment(format!("cannot watch `{}`: {error}", cx.home.path().display()))
    };
    let watch = if args.follow { Some(Watch::folders(&[cx.home.path()]).map_err(cannot)?) } else { None };
    let mut from = args.from;
    loop {
        // Asked before the look: an end that comes between the two is printed in the next turn.
        let is_over = match &id {
            Some(id) => store.row(id)?.is_none_or(|row| !row.is_running()),
            None => false,
        };
        for envelope in store.events(id.as_ref(), from)? {
            from = envelope.seq + 1;
            print(&envelope, args.json)?;
        }
        match &watch {
            Some(watch) if !is_over => watch.wait(Duration::from_secs(1)).map_err(cannot)?,
            _ => return Ok(0),
        }
    }
}

fn print(envelope: &Envelope, json: bool) -> Result<(), UserError> {
    if json {
        say(serde_json::to_string(envelope).map_err(UserError::failed)?);
    } else {
        say(event_line(envelope));
    }
    Ok(())
}
