//! `dacapo attach`: the live view of a loop or a run, from another terminal than the one it was started in.

mod feed;
mod keys;

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    time::Duration,
};

use clap::Args;
use dacapo_core::{
    event::Reason, loop_machine::Request, stages::machine::TaskMachine, unit::schedule::RunMachine,
    workflow::machine::WorkflowMachine,
};
use dacapo_engine::client::{ChangeWatch, Client, StreamId};

use self::{
    feed::{Feed, LoopFeed, RunFeed},
    keys::{KeyAction, KeyPress, KeyReader, Keyboard},
};
use super::say;
use crate::{
    context::Context,
    error::UserError,
    report::{loop_view, run_view, task_live_view, workflow_live_view},
};

/// How often what is drawn is drawn again: a clock ticks in it.
const TICK: Duration = Duration::from_millis(500);
/// The shortest time between two looks at the journal, however much happens.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// How long to wait for a change before a look anyway: an owner that dies changes nothing.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);

/// Show a running loop or run live, as `run` does
///
/// Keys: p pauses or goes on, s steers (type a line), l shows what the agent prints, c cancels (asks first), d detaches, ? lists
/// the keys. Ctrl-C detaches, too: the loop goes on. The exit code is that of the loop if it ends meanwhile.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo attach\n  dacapo watch fix-tests")]
pub(super) struct AttachArgs {
    /// The loop, task or run: its id, the beginning of it, a loop's task or a unit's name (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    id: Option<String>,
    /// Print what the agent prints, too
    #[arg(short, long)]
    verbose: bool,
}

/// What wakes the view up.
enum AttachNews {
    /// Something was recorded or printed.
    Change,
    Key(KeyPress),
}

pub(super) fn attach(cx: &Context, args: &AttachArgs) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    let name = cx.name(&client, args.id.as_deref())?;
    let verbose = args.verbose;
    if let Some(run) = cx.find_workflow(&client, &name)? {
        let id = run.view.id;
        let feed = RunFeed::<WorkflowMachine>::new(id.clone(), workflow_live_view());
        return show(&mut client, &StreamId::Run(id), feed);
    }
    if let Some(seen) = cx.find_task(&client, &name)? {
        let id = seen.view.id;
        let feed = RunFeed::<TaskMachine>::new(id.clone(), task_live_view(verbose));
        return show(&mut client, &StreamId::Run(id), feed);
    }
    let unit = cx.find_unit(&client, &name)?.map(|unit| unit.run);
    let run = cx.find_run(&client, &name)?.map(|run| run.view.id);
    if let Some(id) = run.or(unit) {
        let feed = RunFeed::<RunMachine>::new(id.clone(), run_view(verbose));
        return show(&mut client, &StreamId::Run(id), feed);
    }
    let id = cx.find(&client, &name)?.view.id;
    let feed = LoopFeed::new(&id, loop_view(verbose));
    show(&mut client, &StreamId::Loop(id), feed)
}

/// Shows a stream until it is over or the user detaches.
fn show(client: &mut Client, stream: &StreamId, mut feed: impl Feed) -> Result<u8, UserError> {
    let (sender, news) = channel();
    // Watched before the first look, so that nothing falls in between.
    watch(feed.watch(client)?, sender.clone());
    feed.screen().look_back();
    feed.look(client)?;
    feed.screen().catch_up(&format!("`dacapo events {}`", stream.as_str()));
    let mut keyboard = Keyboard::default();
    if feed.screen().read_keys() {
        KeyReader::start(move |typed| sender.send(AttachNews::Key(typed)).is_ok());
        feed.screen().set_footer(keyboard.footer());
    }
    feed.tick();
    loop {
        // Asked before the look: an end that comes between the two is shown in the next turn.
        let is_over = feed.is_over(client)?;
        feed.look(client)?;
        if is_over {
            return feed.end(client);
        }
        loop {
            match news.recv_timeout(TICK) {
                Ok(AttachNews::Change) => break,
                Ok(AttachNews::Key(typed)) => {
                    for asked in keyboard.press(&typed) {
                        if is_left(client, stream, &mut feed, &asked)? {
                            return Ok(0);
                        }
                    }
                    feed.screen().set_footer(keyboard.footer());
                    feed.tick();
                }
                Err(RecvTimeoutError::Timeout) => {
                    feed.look_at_output(client)?;
                    feed.tick();
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
}

/// Does what a key asks for; says whether the user leaves.
fn is_left(
    client: &mut Client,
    stream: &StreamId,
    feed: &mut impl Feed,
    asked: &KeyAction,
) -> Result<bool, UserError> {
    let id = stream.as_str();
    let request = match asked {
        KeyAction::Detach => {
            feed.close();
            say(format!("Detached; it goes on. `dacapo attach {id}` comes back."));
            return Ok(true);
        }
        KeyAction::Suspend => {
            feed.screen().suspend();
            return Ok(false);
        }
        KeyAction::Log => {
            let words = if feed.toggle_log() {
                "what agents print is shown; l ends that"
            } else {
                "what agents print is no longer shown"
            };
            feed.screen().line("2", words);
            return Ok(false);
        }
        KeyAction::Pause if feed.is_paused(client)? => Request::Unpause { grant: Default::default() },
        KeyAction::Pause => Request::Pause { now: false },
        KeyAction::Steer(text) => Request::Steer { text: text.clone() },
        KeyAction::Cancel => Request::Cancel,
    };
    let is_told = client.request(stream, &request)?;
    let words = match (&request, is_told) {
        (_, false) => "no process runs it any more",
        // What was typed is shown as soon as the loop has recorded it.
        (Request::Steer { .. }, _) if matches!(stream, StreamId::Loop(_)) => return Ok(false),
        (Request::Steer { .. }, _) => "the next prompt has it",
        (Request::Cancel, _) => "is being cancelled",
        (Request::Unpause { .. }, _) => "goes on",
        _ => "pauses after this iteration; p goes on",
    };
    feed.screen().line("2", words);
    Ok(false)
}

/// Tells of changes, but not more often than a person can see them.
fn watch(mut watch: ChangeWatch, sender: Sender<AttachNews>) {
    std::thread::spawn(move || {
        while watch.wait(LOOK_ANYWAY).is_ok() && sender.send(AttachNews::Change).is_ok() {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    });
}

/// What `attach` exits with once the stream is at rest.
fn exit_of(reason: Option<Reason>) -> u8 {
    reason.map_or(0, Reason::exit_code)
}
