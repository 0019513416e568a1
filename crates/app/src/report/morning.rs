//! The report in words: what needs a person, what ended, what goes on; as wide as the terminal and no wider.

use std::path::{Path, PathBuf};

use dacapo_core::{
    duration::Millis,
    text::{ansi::readable, columns::columns, count},
    view::{Report, ReportEntry, ReportTotals, Urgency},
};
use dacapo_engine::secrets::secrets;
use jiff::{Timestamp, tz::TimeZone};

use super::money;

/// How the report is to look.
pub(crate) struct MorningLook {
    pub(crate) width: usize,
    pub(crate) is_coloured: bool,
    /// The folder that the user is in: what is there needs no folder.
    pub(crate) here: Option<PathBuf>,
    /// The user's home, which is shown as `~`.
    pub(crate) home: Option<PathBuf>,
    pub(crate) zone: TimeZone,
}

/// How a piece of text is set off. Nothing is said by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MorningTone {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    Waiting,
}

impl MorningTone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Waiting => "33",
        }
    }
}

/// One line, in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MorningLine(Vec<(MorningTone, String)>);

impl MorningLine {
    fn of(tone: MorningTone, text: impl Into<String>) -> Self {
        Self(vec![(tone, text.into())])
    }

    fn and(mut self, tone: MorningTone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    /// The line as it goes to a terminal: of its escape sequences all are dacapo's own.
    pub(crate) fn rendered(&self, is_coloured: bool) -> String {
        let shown = |text: &str| readable(secrets().redact(text).as_bytes());
        let piece = |(tone, text): &(MorningTone, String)| match tone.code() {
            code if is_coloured && !code.is_empty() => format!("\x1b[{code}m{}\x1b[0m", shown(text)),
            _ => shown(text),
        };
        self.0.iter().map(piece).collect::<String>().trim_end().to_owned()
    }
}

/// Below this width what states are called stands on a line of its own.
const NARROW: usize = 60;
/// How wide the column of states is.
const STATES: usize = 11;

pub(crate) fn lines(report: &Report, look: &MorningLook) -> Vec<MorningLine> {
    let mut page = MorningPage { look, report, lines: Vec::new() };
    page.headline();
    page.needs();
    page.ended();
    page.open();
    page.lines
}

struct MorningPage<'a> {
    look: &'a MorningLook,
    report: &'a Report,
    lines: Vec<MorningLine>,
}

impl MorningPage<'_> {
    /// Text behind `indent` blanks, broken between words where it is too wide.
    fn text(&mut self, indent: usize, tone: MorningTone, text: &str) {
        for line in wrapped(text, self.look.width.saturating_sub(indent)) {
            self.lines.push(MorningLine::of(MorningTone::Plain, " ".repeat(indent)).and(tone, line));
        }
    }

    fn gap(&mut self) {
        self.lines.push(MorningLine::default());
    }

    fn headline(&mut self) {
        let Report { since, at, totals, .. } = self.report;
        let long = Millis(u64::try_from(at.duration_since(*since).as_millis()).unwrap_or(0));
        let (since, now) = (self.local(*since), self.local(*at));
        let form = if since.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        let head = format!("Since {} ({})", since.strftime(form), whole(long));
        self.text(0, MorningTone::Bold, &format!("{head}: {}", sums(totals)));
    }

    fn local(&self, at: Timestamp) -> jiff::Zoned {
        at.to_zoned(self.look.zone.clone())
    }

    fn needs(&mut self) {
        self.gap();
        if self.report.needs.is_empty() {
            self.text(0, MorningTone::Plain, "Nothing needs you.");
            return;
        }
        self.text(0, MorningTone::Bold, &format!("Needs you ({})", self.report.needs.len()));
        for need in &self.report.needs {
            self.gap();
            let head = format!("{}, {}{}", need.headline(), self.ago(need.since), self.place(&need.folder));
            self.text(
                2,
                if need.urgency < Urgency::Parked { MorningTone::Waiting } else { MorningTone::Plain },
                &head,
            );
            if !need.what.is_empty() {
                self.text(4, MorningTone::Plain, &need.what);
            }
            // A command is one line, however narrow the terminal: it is copied.
            self.lines.push(
                MorningLine::of(MorningTone::Plain, "    ")
                    .and(MorningTone::Dim, "> ")
                    .and(MorningTone::Bold, need.command.clone()),
            );
        }
    }

    fn ended(&mut self) {
        if self.report.ended.is_empty() {
            return;
        }
        self.gap();
        self.text(0, MorningTone::Bold, &format!("Ended ({})", self.report.ended.len()));
        for entry in &self.report.ended {
            let (word, tone) = match entry.state.as_str() {
                "completed" => ("done", MorningTone::Good),
                "cancelled" => ("cancelled", MorningTone::Dim),
                "stopped" => ("stopped", MorningTone::Waiting),
                _ => ("failed", MorningTone::Bad),
            };
            let when = match entry.ended_at {
                Some(at) => format!("{}, after {}", self.ago(at), entry.lasted_ms.human()),
                None => format!("began {}", self.ago(entry.started_at)),
            };
            self.gap();
            self.entry(entry, word, tone, &when);
        }
    }

    fn open(&mut self) {
        if self.report.open.is_empty() {
            return;
        }
        self.gap();
        self.text(0, MorningTone::Bold, &format!("Going on ({})", self.report.open.len()));
        for entry in &self.report.open {
            let tone = if entry.state == "running" { MorningTone::Plain } else { MorningTone::Waiting };
            let when = format!("began {}", self.ago(entry.started_at));
            self.gap();
            self.entry(entry, &entry.state.clone(), tone, &when);
        }
    }

    fn entry(&mut self, entry: &ReportEntry, word: &str, tone: MorningTone, when: &str) {
        let head = format!("{}, {when}{}", entry.name, self.place(&entry.folder));
        let indent = if self.look.width < NARROW {
            self.lines.push(MorningLine::of(MorningTone::Plain, "  ").and(tone, word));
            4
        } else {
            2 + STATES
        };
        let first = self.lines.len();
        self.text(indent, MorningTone::Bold, &head);
        if self.look.width >= NARROW
            && let Some(line) = self.lines.get_mut(first)
            && let Some(blank) = line.0.first_mut()
        {
            *blank = (tone, format!("  {word:<STATES$}"));
        }
        // What needs a person stands above, with the reason.
        let is_above = self.report.needs.iter().any(|need| need.id == entry.id);
        if let Some(detail) = entry.detail.as_ref().filter(|_| !is_above && word != "done") {
            self.text(indent, MorningTone::Plain, detail);
        }
        let facts = facts(entry);
        if !facts.is_empty() {
            self.text(indent, MorningTone::Plain, &facts.join(" · "));
        }
        if let Some(parts) = &entry.parts {
            self.text(indent, MorningTone::Plain, parts);
        }
        if let Some(changed) = entry.changed.as_ref().filter(|changed| changed.count > 0) {
            let shown = changed.some.iter().take(4).cloned().collect::<Vec<_>>();
            let rest = changed.count.saturating_sub(shown.len() as u64);
            let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            let files = count(u32::try_from(changed.count).unwrap_or(u32::MAX), "file");
            self.text(indent, MorningTone::Plain, &format!("changed {files}: {}{rest}", shown.join(", ")));
        }
        let refused: u32 = entry.refusals.iter().map(|(_, times)| times).sum();
        if refused > 0 {
            let kinds: Vec<String> = entry
                .refusals
                .iter()
                .map(|(reason, times)| match times {
                    1 => reason.words().to_owned(),
                    times => format!("{} ({times} times)", reason.words()),
                })
                .collect();
            let claims = count(refused, "claim");
            self.text(indent, MorningTone::Plain, &format!("refused {claims}: {}", kinds.join(", ")));
            if let Some(last) = &entry.last_refusal {
                self.text(indent + 2, MorningTone::Dim, &format!("the last: {last}"));
            }
        }
    }

    fn ago(&self, at: Timestamp) -> String {
        let age = self.report.at.duration_since(at).as_millis();
        format!("{} ago", Millis(u64::try_from(age).unwrap_or(0)).coarse())
    }

    /// Where it is, if that is not here.
    fn place(&self, folder: &Path) -> String {
        if self.look.here.as_deref() == Some(folder) {
            return String::new();
        }
        match self.look.home.as_deref().and_then(|home| folder.strip_prefix(home).ok()) {
            Some(below) if below.as_os_str().is_empty() => ", in ~".to_owned(),
            Some(below) => format!(", in ~/{}", below.display()),
            None => format!(", in {}", folder.display()),
        }
    }
}

/// How long, in the one unit that fits: `12h`, `2d`.
fn whole(long: Millis) -> String {
    match long.0 / 60_000 {
        minutes if minutes > 0 && minutes % 1440 == 0 => format!("{}d", minutes / 1440),
        minutes if minutes > 0 && minutes % 60 == 0 => format!("{}h", minutes / 60),
        _ => long.human(),
    }
}

fn sums(totals: &ReportTotals) -> String {
    let counted = [
        (totals.completed, "done"),
        (totals.failed, "failed"),
        (totals.stopped, "stopped"),
        (totals.cancelled, "cancelled"),
        (totals.running, "going on"),
    ];
    let counted: Vec<String> = counted
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    if counted.is_empty() {
        return "nothing was run.".to_owned();
    }
    let mut parts = vec![counted.join(", ")];
    if totals.iterations > 0 {
        parts.push(count(totals.iterations, "iteration"));
    }
    let spend = dacapo_core::event::Spend {
        usage: totals.tokens,
        cost_usd: totals.cost_usd,
        estimated: totals.cost_estimated,
    };
    parts.extend(money(&spend));
    parts.join(" · ")
}

/// Iterations, money and proof.
fn facts(entry: &ReportEntry) -> Vec<String> {
    let mut facts = Vec::new();
    if entry.iterations > 0 {
        facts.push(count(entry.iterations, "iteration"));
    }
    facts.extend(money(&entry.spend()));
    if entry.state == "completed" {
        match entry.verified {
            Some(true) => facts.push("verified".to_owned()),
            Some(false) => facts.push("unverified: no gate stood behind it".to_owned()),
            None => {}
        }
    }
    facts
}

/// The text in lines of at most `width` columns, broken between words; a word that is wider has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { continue };
        if line.is_empty() {
            line.push_str(word);
        } else if columns(line) + 1 + columns(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
#[path = "morning_tests.rs"]
mod tests;
