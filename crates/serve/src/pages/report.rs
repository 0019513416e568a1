//! The morning report as a page: what ended, for how much, and what needs a person.

use dacapo_core::{
    text::count,
    view::{Need, Report, ReportEntry, StreamKind},
};
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    board, encoded,
    held::Held,
    shapes::{StateShape, state},
    words,
};

/// How far back a report can look.
pub(super) const SPANS: [(&str, &str, i64); 4] =
    [("12h", "12 hours", 12), ("24h", "A day", 24), ("3d", "3 days", 72), ("7d", "A week", 168)];

/// `needs` is the list that every screen shows: a failure that was looked at meanwhile is not in it.
pub(super) fn report(report: &Report, needs: &[Need], span: &str) -> Markup {
    let totals = &report.totals;
    html! {
        section.intro data-key="intro" {
            div.title-row {
                div {
                    h1 { "While you were away" }
                    p.muted { "Since " (words::moment(report.since, report.at)) }
                }
                nav.spans aria-label="Since when" {
                    @for (name, words, _) in SPANS { a.button href={ "/report?since=" (name) } aria-current=[(name == span).then_some("page")] { (words) } }
                }
            }
        }
        dl.totals data-key="totals" {
            div { dt { "Done" } dd { (totals.completed) } }
            div { dt { "Failed" } dd { (totals.failed) } }
            @if totals.stopped + totals.cancelled > 0 { div { dt { "Stopped" } dd { (totals.stopped + totals.cancelled) } } }
            div { dt { "Going on" } dd { (totals.running) } }
            div { dt { "Iterations" } dd { (totals.iterations) } }
            div { dt { "Refused claims" } dd { (totals.refusals) } }
            div { dt { "Cost" } dd { (words::cost(totals.cost_usd, totals.cost_estimated).unwrap_or_else(|| "–".to_owned())) } }
            @if let Some(tokens) = &totals.tokens { div { dt { "Tokens" } dd { (words::tokens(tokens.total())) } } }
        }
        (board::needs(needs, None, report.at, false, &Held::default()))
        (entries("Ended", &report.ended, report.at))
        (entries("Going on", &report.open, report.at))
    }
}

fn entries(title: &str, entries: &[ReportEntry], now: Timestamp) -> Markup {
    html! {
        section data-key={ "entries-" (title) } {
            header { h2 { (title) } span.count { (entries.len()) } }
            @if entries.is_empty() { p.panel.empty { "Nothing." } }
            @else {
                table.cards.panel {
                    thead { tr { th { "What" } th { "State" } th.num { "Iterations" } th.num { "Time" } th.num { "Cost" } th.num { "When" } } }
                    tbody { @for entry in entries { (row(entry, now)) } }
                }
            }
        }
    }
}

fn row(entry: &ReportEntry, now: Timestamp) -> Markup {
    let is_loop = entry.kind == StreamKind::Loop;
    let href = format!("/{}/{}", if is_loop { "loops" } else { "runs" }, encoded(&entry.id));
    let word = if entry.state == "completed" { "done" } else { entry.state.as_str() };
    let refused: u32 = entry.refusals.iter().map(|(_, times)| times).sum();
    let mut facts = vec![words::folder_name(&entry.folder)];
    facts.extend(entry.parts.clone());
    if let Some(changed) = entry.changed.as_ref().filter(|changed| changed.count > 0) {
        facts.push(format!("changed {}", count(u32::try_from(changed.count).unwrap_or(u32::MAX), "file")));
    }
    if entry.verified == Some(false) {
        facts.push("unverified".to_owned());
    }
    html! {
        tr data-key={ "entry-" (entry.id) } data-pick data-loop=[is_loop.then_some(&entry.id)] data-run=[(!is_loop).then_some(&entry.id)] data-state=(entry.state) {
            td {
                a.row-title.plain href=(href) { (words::line(&entry.name)) }
                p.muted.plain { (words::line(&facts.join(" · "))) }
                @if let Some(detail) = entry.detail.as_ref().filter(|_| entry.state != "completed") { p.plain { (words::line(detail)) } }
                @if refused > 0 {
                    p.is-bad { "Refused " (count(refused, "claim")) ": "
                        @for (i, (reason, times)) in entry.refusals.iter().enumerate() {
                            @if i > 0 { ", " } (reason.words()) @if *times > 1 { " (" (times) " times)" }
                        }
                    }
                }
                @if entry.verified.is_some() && is_loop && entry.state == "completed" { p { a.link href={ "/receipts/" (encoded(&entry.id)) } { "Receipt" } } }
            }
            td { (state(StateShape::of(&entry.state), &words::capital(word))) }
            td.num data-label="Iterations" { (entry.iterations) }
            td.num data-label="Time" { (entry.lasted_ms.human()) }
            td.num data-label="Cost" { (words::cost(entry.cost_usd, entry.cost_estimated).unwrap_or_default()) }
            td.num data-label="When" { (words::moment(entry.ended_at.unwrap_or(entry.started_at), now)) }
        }
    }
}
