//! Whether a notice is sent now, held back or dropped: quiet hours and rate limits, from what was sent before and the time.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp, Zoned, civil::Time};
use serde::{Deserialize, Serialize};

use super::{Notice, NoticeKind, NotifyRule};

/// The same kind of notice about the same loop or run is sent once in this time.
pub const REPEAT_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// One channel sends no more than [`MOST`] notices in this time.
pub const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// How many notices a channel sends in [`WINDOW`]; the rest comes as one summary later.
pub const MOST: usize = 10;
/// A notice about something older than this is news no more; the report has it.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// How many titles a summary names.
const NAMED: usize = 20;

/// What was sent so far, and what waits: the memory of all channels, kept in one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sent {
    /// The newest event that was judged. No event is judged twice.
    pub judged_up_to: u64,
    /// By [`NotifyRule::key`].
    pub channels: BTreeMap<String, ChannelMemory>,
}

/// What one channel has sent, and what it held back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelMemory {
    /// When the newest notices were sent, oldest first.
    times: Vec<Timestamp>,
    /// What was told, or held back, and when.
    told: Vec<(String, NoticeKind, Timestamp)>,
    /// What waits for the end of quiet hours or of a flood.
    held: HeldBack,
}

/// Notices that were held back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldBack {
    pub count: u32,
    /// The titles of the first of them.
    pub titles: Vec<String>,
}

/// What a channel is told to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// `None` where nothing but what was held back is told.
    pub notice: Option<Notice>,
    pub held_back: HeldBack,
}

/// Whether `rule` sends `notice` now. What it holds back comes with the next notice that is sent, or with [`overdue`].
pub fn judge(
    rule: &NotifyRule,
    notice: &Notice,
    memory: &mut ChannelMemory,
    now: Timestamp,
    local: Time,
) -> Option<Delivery> {
    if !notice.is_wanted(&rule.on) {
        return None;
    }
    memory.forget(now);
    let is_same = |(subject, kind, _): &(String, NoticeKind, Timestamp)| {
        *subject == notice.subject && *kind == notice.event
    };
    if now.duration_since(notice.at) > STALE_AFTER || memory.told.iter().any(is_same) {
        return None;
    }
    memory.told.push((notice.subject.clone(), notice.event, now));
    if !memory.may_send(rule, local) {
        memory.held.count = memory.held.count.saturating_add(1);
        if memory.held.titles.len() < NAMED {
            memory.held.titles.push(notice.title.clone());
        }
        return None;
    }
    memory.times.push(now);
    Some(Delivery { notice: Some(notice.clone()), held_back: std::mem::take(&mut memory.held) })
}

/// What was held back and can be told now, in one summary.
pub fn overdue(
    rule: &NotifyRule,
    memory: &mut ChannelMemory,
    now: Timestamp,
    local: Time,
) -> Option<Delivery> {
    memory.forget(now);
    if memory.held.count == 0 || !memory.may_send(rule, local) {
        return None;
    }
    memory.times.push(now);
    Some(Delivery { notice: None, held_back: std::mem::take(&mut memory.held) })
}

/// When what was held back can be told, if anything was.
pub fn due_at(rule: &NotifyRule, memory: &ChannelMemory, now: &Zoned) -> Option<Timestamp> {
    if memory.held.count == 0 {
        return None;
    }
    let quiet = rule.quiet.filter(|quiet| quiet.holds_at(now.time())).map(|quiet| quiet.end_after(now));
    let flood =
        (memory.times.len() >= MOST).then(|| memory.times.first()?.checked_add(WINDOW).ok()).flatten();
    Some(quiet.into_iter().chain(flood).max().unwrap_or(now.timestamp()))
}

impl ChannelMemory {
    fn may_send(&self, rule: &NotifyRule, local: Time) -> bool {
        self.times.len() < MOST && !rule.quiet.is_some_and(|quiet| quiet.holds_at(local))
    }

    /// Forgets what no limit asks for any more. A clock that was set back does not keep a channel silent.
    fn forget(&mut self, now: Timestamp) {
        let is_within = |at: &Timestamp, long: SignedDuration| *at <= now && now.duration_since(*at) < long;
        self.times.retain(|at| is_within(at, WINDOW));
        self.told.retain(|(_, _, at)| is_within(at, REPEAT_AFTER));
    }
}

impl Delivery {
    /// One line: what happened.
    pub fn title(&self) -> String {
        match (&self.notice, self.held_back.count) {
            (Some(notice), _) => notice.title.clone(),
            (None, 1) => self.held_back.titles.first().cloned().unwrap_or_default(),
            (None, count) => format!("{count} things happened while it was quiet"),
        }
    }

    /// A few lines: what it is about, and what was held back.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        if let Some(notice) = &self.notice {
            lines.extend((!notice.text.is_empty()).then(|| notice.text.clone()));
            lines.extend(notice.command.as_ref().map(|command| format!("Next: {command}")));
        }
        let HeldBack { count, titles } = &self.held_back;
        if *count > 0 {
            if self.notice.is_some() {
                lines.push(format!("Held back before this: {count}"));
            }
            lines.extend(titles.iter().map(|title| format!("- {title}")));
            let unnamed = *count as usize - titles.len().min(*count as usize);
            lines
                .extend((unnamed > 0).then(|| format!("- and {unnamed} more; `dacapo report` has them all")));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
