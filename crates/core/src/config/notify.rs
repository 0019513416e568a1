//! `notify`: which events a person wants to hear of, by which channel, and when not.

use super::{At, ConfigSection};
use crate::{
    notify::{NoticeKind, NotifyChannel, NotifyRule, QuietHours, WebhookUrl},
    text::nearest::nearest,
    yaml::{YamlNode, YamlValue, short},
};

pub(super) const KEYS: [&str; 6] = ["on", "desktop", "webhook", "command", "bell", "quiet"];
const CHANNELS: [&str; 4] = ["desktop", "webhook", "command", "bell"];
/// What a repository cannot say: both could send what happens here to its authors.
const USERS_CHANNELS: [&str; 2] = ["webhook", "command"];

pub(super) fn read(top: &mut ConfigSection<'_>) -> Vec<At<NotifyRule>> {
    let mut rules = Vec::new();
    for node in top.list("notify") {
        let place = node.place;
        let Some(mut entry) = top.entry("`notify[]`", node, &KEYS) else { continue };
        let given: Vec<&str> = CHANNELS.into_iter().filter(|key| entry.has(key)).collect();
        match given.as_slice() {
            [_] => {}
            [] => entry.wrong(place, "an entry of `notify` needs a channel: `desktop: true`, `bell: true`, `webhook: URL` or `command: CMD`"),
            several => {
                let names: Vec<String> = several.iter().map(|key| format!("`{key}`")).collect();
                entry.wrong(
                    place,
                    format!("an entry of `notify` has one channel, not {}: write an entry for each", names.join(" and ")),
                );
            }
        }
        let mut is_forbidden = false;
        for key in USERS_CHANNELS {
            if !entry.is_users()
                && let Some(place) = entry.place(key)
            {
                let file = "~/.config/dacapo/config.yaml";
                entry.wrong(
                    place,
                    format!(
                        "`{key}` is the user's to say, a repository cannot set it: it belongs into `{file}`"
                    ),
                );
                is_forbidden = true;
            }
        }
        let on = events(&mut entry);
        let desktop = is_on(&mut entry, "desktop").then_some(NotifyChannel::Desktop);
        let bell = is_on(&mut entry, "bell").then_some(NotifyChannel::Bell);
        let (webhook, command) = (webhook(&mut entry), command(&mut entry));
        let quiet = quiet(&mut entry);
        let channel = desktop.or(bell).or(webhook).or(command);
        if let (Some(on), Some(channel), Some(quiet), false, 1) =
            (on, channel, quiet, is_forbidden, given.len())
        {
            rules.push(At { value: NotifyRule { on, channel, quiet }, line: place.line });
        }
    }
    rules
}

/// The events that are asked for; all of them if none is named.
fn events(entry: &mut ConfigSection<'_>) -> Option<Vec<NoticeKind>> {
    let Some(place) = entry.place("on") else { return Some(NoticeKind::ALL.to_vec()) };
    let nodes = entry.list("on");
    let is_empty = nodes.is_empty();
    let mut on = Vec::new();
    let mut is_whole = true;
    for node in nodes {
        match event(&node) {
            Ok(kind) if on.contains(&kind) => {}
            Ok(kind) => on.push(kind),
            Err(what) => {
                entry.wrong(node.place, what);
                is_whole = false;
            }
        }
    }
    if is_empty {
        entry.wrong(
            place,
            format!("`notify[].on` must be a list of events: {}", NoticeKind::WORDS.join(", ")),
        );
    }
    (is_whole && !is_empty).then_some(on)
}

fn event(node: &YamlNode) -> Result<NoticeKind, String> {
    let YamlValue::Scalar { text, .. } = &node.value else {
        return Err(format!("an entry of `notify[].on` must be one of {}", NoticeKind::WORDS.join(", ")));
    };
    NoticeKind::find(text).ok_or_else(|| {
        let shown = short(text);
        match nearest(&shown, &NoticeKind::WORDS) {
            Some(meant) => format!("unknown event `{shown}`; did you mean `{meant}`?"),
            None => format!("unknown event `{shown}`; known here: {}", NoticeKind::WORDS.join(", ")),
        }
    })
}

/// Whether a channel without settings is chosen. What is not wanted is left out of the file.
fn is_on(entry: &mut ConfigSection<'_>, key: &str) -> bool {
    entry.choice(key, &[("true", ())]).is_some()
}

fn webhook(entry: &mut ConfigSection<'_>) -> Option<NotifyChannel> {
    let place = entry.place("webhook")?;
    let text = entry.text("webhook")?.value;
    match WebhookUrl::parse(&text) {
        Ok(url) => Some(NotifyChannel::Webhook(url)),
        // The address itself may hold a secret, so it is not repeated.
        Err(why) => {
            entry.wrong(place, format!("`notify[].webhook` is no address of a web service: {why}"));
            None
        }
    }
}

fn command(entry: &mut ConfigSection<'_>) -> Option<NotifyChannel> {
    let place = entry.place("command")?;
    let text = entry.text("command")?.value;
    match shlex::split(&text) {
        Some(argv) if !argv.is_empty() && !argv.iter().any(|word| word.contains('\0')) => {
            Some(NotifyChannel::Command(argv))
        }
        _ => {
            entry.wrong(
                place,
                "`notify[].command` has an open quote; it is split into words as a shell would",
            );
            None
        }
    }
}

#[allow(
    clippy::option_option,
    reason = "no quiet hours, and quiet hours that cannot be read, are not the same"
)]
fn quiet(entry: &mut ConfigSection<'_>) -> Option<Option<QuietHours>> {
    let Some(place) = entry.place("quiet") else { return Some(None) };
    let text = entry.text("quiet")?.value;
    match QuietHours::parse(&text) {
        Ok(quiet) => Some(Some(quiet)),
        Err(why) => {
            entry.wrong(place, format!("`notify[].quiet` must be like \"22:00-07:00\": {why}"));
            None
        }
    }
}

#[cfg(test)]
#[path = "notify_tests.rs"]
mod tests;
