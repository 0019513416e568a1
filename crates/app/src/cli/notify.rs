//! `dacapo notify`.

use clap::{Args, Subcommand};
use dacapo_core::notify::{Delivery, HeldBack, Notice, NoticeKind};
use dacapo_engine::{
    config_files::ConfigFiles,
    notify::{obstacle, send},
};
use jiff::Timestamp;
use serde::Serialize;

use super::{say, say_json};
use crate::{
    context::Context,
    error::{FAILED, UserError},
};

/// Try the channels by which you are told of loops
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo notify test")]
pub(super) struct NotifyArgs {
    #[command(subcommand)]
    command: NotifyCommand,
}

#[derive(Subcommand, Debug)]
enum NotifyCommand {
    Test(TestArgs),
}

/// Send a sample by each channel that `notify` in the configuration names, and say what came of it
///
/// Quiet hours and rate limits do not count. Exits 1 if a channel failed.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo notify test --json")]
struct TestArgs {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct TestLine {
    channel: String,
    on: Vec<NoticeKind>,
    quiet: Option<String>,
    /// The file and line that names it.
    from: String,
    is_sent: bool,
    /// Why it was not sent.
    why: Option<String>,
    hint: Option<&'static str>,
}

pub(super) fn notify(_: &Context, args: &NotifyArgs) -> Result<u8, UserError> {
    let NotifyCommand::Test(args) = &args.command;
    let folder = Context::folder(None)?;
    let effective = ConfigFiles::load(&folder)?.effective(&dacapo_core::config::Typed::default());
    if effective.notify.is_empty() {
        return Err(UserError::usage("no channel is configured").hint(
            "add one to ~/.config/dacapo/config.yaml, for example `notify: [{on: [loop_finished, question], desktop: true}]`",
        ));
    }
    let mut lines = Vec::new();
    for rule in &effective.notify {
        let from = rule.from.to_string();
        let rule = &rule.value;
        let event = rule.on.first().copied().unwrap_or(NoticeKind::LoopFinished);
        let notice = Notice::sample(event, Timestamp::now(), Context::project_of(&folder), folder.clone());
        let delivery = Delivery { notice: Some(notice), held_back: HeldBack::default() };
        let sent = send(&rule.channel, &delivery);
        let line = TestLine {
            channel: rule.channel.to_string(),
            on: rule.on.clone(),
            quiet: rule.quiet.map(|quiet| quiet.to_string()),
            from,
            is_sent: sent.is_ok(),
            why: sent.err(),
            hint: obstacle(&rule.channel).map(|(_, hint)| hint),
        };
        if !args.json {
            match &line.why {
                None => say(format!("sent    {}", line.channel)),
                Some(why) => say(format!("failed  {}: {why} ({})", line.channel, line.from)),
            }
            if let Some(hint) = line.hint {
                say(format!("        hint: {hint}"));
            }
        }
        lines.push(line);
    }
    if args.json {
        say_json(&lines)?;
    }
    Ok(if lines.iter().all(|line| line.is_sent) { 0 } else { FAILED })
}
