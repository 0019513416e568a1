//! The figures: a table by class, a line of JSON per case, and the section of `docs/trust-figures.md`.

use std::fmt::Write as _;

use serde_json::json;

use crate::{
    case::{CLASSES, Class, Kind, Known, Mark},
    run::{Outcome, Verdict},
};

/// Cases of one class and mark: how many were tried, and how many were believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    tried: usize,
    accepted: usize,
}

impl Count {
    fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut count = Self::default();
        for outcome in outcomes {
            count.tried += 1;
            count.accepted += usize::from(outcome.verdict == Verdict::Accepted);
        }
        count
    }

    fn percent(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "there are some hundred cases")]
        if self.tried == 0 { 0.0 } else { self.accepted as f64 * 100.0 / self.tried as f64 }
    }
}

fn of_class<'a>(outcomes: &'a [Outcome], class: &Class, mark: Mark) -> Vec<&'a Outcome> {
    let is_meant = |outcome: &&Outcome| outcome.case.class.name == class.name && outcome.case.mark == mark;
    outcomes.iter().filter(is_meant).collect()
}

fn of_kind(outcomes: &[Outcome], kind: Kind, mark: Mark) -> Count {
    Count::of(outcomes.iter().filter(|outcome| outcome.case.class.kind == kind && outcome.case.mark == mark))
}

fn rows(outcomes: &[Outcome]) -> Vec<(String, Kind, Count)> {
    let mut rows = Vec::new();
    for class in CLASSES {
        for mark in [Mark::Proof, Mark::Guard] {
            let of_class = of_class(outcomes, class, mark);
            if of_class.is_empty() {
                continue;
            }
            let letter = if mark == Mark::Proof { "P" } else { "G" };
            let title = match class.kind {
                Kind::Cheat => format!("{} ({letter})", class.title),
                Kind::OutOfReach | Kind::Honest => class.title.to_owned(),
            };
            rows.push((title, class.kind, Count::of(of_class)));
        }
    }
    rows
}

/// The table for a terminal.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!("{:<44} {:>6} {:>9} {:>8}\n", "class", "tried", "accepted", "refused");
    for (title, _, count) in rows(outcomes) {
        let refused = count.tried - count.accepted;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title:<44} {:>6} {:>9} {refused:>8}", count.tried, count.accepted);
    }
    text
}

/// The three figures in words.
pub fn summary(outcomes: &[Outcome]) -> String {
    let cheats = of_kind(outcomes, Kind::Cheat, Mark::Proof);
    let guard = of_kind(outcomes, Kind::Cheat, Mark::Guard);
    let honest = of_kind(outcomes, Kind::Honest, Mark::Proof);
    format!(
        "cheats of class P accepted: {} of {} ({:.1} %); of class G: {} of {}; honest work refused: {} of {}\n",
        cheats.accepted,
        cheats.tried,
        cheats.percent(),
        guard.accepted,
        guard.tried,
        honest.tried - honest.accepted,
        honest.tried,
    )
}

/// One case as a line of JSON.
pub fn json_line(outcome: &Outcome) -> String {
    let case = &outcome.case;
    let verdict = match &outcome.verdict {
        Verdict::Accepted => "accepted",
        Verdict::Refused => "refused",
        Verdict::Broken(_) => "broken",
    };
    json!({
        "case": case.name,
        "class": case.class.name,
        "kind": match case.class.kind { Kind::Cheat => "cheat", Kind::OutOfReach => "out_of_reach", Kind::Honest => "honest" },
        "mark": match case.mark { Mark::Proof => "P", Mark::Guard => "G" },
        "ecosystem": case.project.ecosystem,
        "project": case.project.name,
        "gate": case.gate,
        "does": case.does,
        "published": case.is_published,
        "verdict": verdict,
        "reason": outcome.reason,
        "really_done": outcome.is_really_done,
        "flaw": outcome.flaw(),
        "duration_ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
    })
    .to_string()
}

/// The section of figures as Markdown: how they were taken, the table, and by name what did not end as it should.
pub fn figures(outcomes: &[Outcome], known: &Known, command: &str, date: &str, version: &str) -> String {
    let mut text = format!("Taken on {date} with dacapo {version} by `{command}`.\n\n");
    text.push_str("| class | tried | accepted |\n|---|---|---|\n");
    for (title, _, count) in rows(outcomes).iter().filter(|(_, kind, _)| *kind == Kind::Cheat) {
        let _ = writeln!(text, "| {title} | {} | {} |", count.tried, count.accepted);
    }
    let cheats = of_kind(outcomes, Kind::Cheat, Mark::Proof);
    let guard = of_kind(outcomes, Kind::Cheat, Mark::Guard);
    let _ = writeln!(
        text,
        "| **all of class P** | **{}** | **{} ({:.1} %)** |\n| all of class G | {} | {} |\n",
        cheats.tried,
        cheats.accepted,
        cheats.percent(),
        guard.tried,
        guard.accepted
    );
    let published = Count::of(
        outcomes.iter().filter(|outcome| outcome.case.is_published && outcome.case.class.kind == Kind::Cheat),
    );
    let _ = writeln!(
        text,
        "Of the exploits that were published against benchmark harnesses, {} of {} were accepted, those out of reach not counted.\n",
        published.accepted, published.tried
    );
    let honest = of_kind(outcomes, Kind::Honest, Mark::Proof);
    let refused = honest.tried - honest.accepted;
    let _ = writeln!(text, "Honest work: {} agents, {refused} refused.\n", honest.tried);
    let wrong: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.is_right()).collect();
    for (title, kind, mark) in [
        ("Accepted cheats of class P", Kind::Cheat, Mark::Proof),
        ("Accepted cheats of class G", Kind::Cheat, Mark::Guard),
        ("Refused honest work", Kind::Honest, Mark::Proof),
    ] {
        let of_kind: Vec<_> = wrong
            .iter()
            .filter(|outcome| outcome.case.class.kind == kind && outcome.case.mark == mark)
            .collect();
        if of_kind.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{title}:\n");
        for outcome in of_kind {
            let case = &outcome.case;
            let reason = known.get(&case.name).map_or_else(|| outcome.reason.clone(), Clone::clone);
            let reason = if reason == "accepted" { String::new() } else { format!(" ({reason})") };
            let _ = writeln!(text, "- `{}`: {}{reason}", case.name, case.does);
        }
        text.push('\n');
    }
    text.push_str("Out of reach, run and not counted:\n\n");
    for outcome in outcomes.iter().filter(|outcome| outcome.case.class.kind == Kind::OutOfReach) {
        let verdict = if outcome.verdict == Verdict::Accepted { "accepted" } else { "refused" };
        let _ = writeln!(text, "- `{}`, {verdict}: {}", outcome.case.name, outcome.case.does);
    }
    text
}

const BEGIN: &str = "<!-- figures: written by `cargo run -p dacapo-cheats -- --all --write` -->";
const END: &str = "<!-- end of figures -->";

/// The document with its section of figures replaced; nothing if it has no such section.
pub fn replace_figures(document: &str, figures: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", figures.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_replace_what_stands_between_the_marks_and_nothing_else() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let replaced = replace_figures(&document, "new\n").expect("it has the marks");
        assert_eq!(replaced, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(replace_figures("no marks", "new"), None);
    }
}
