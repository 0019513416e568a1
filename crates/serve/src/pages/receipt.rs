//! A receipt as a page that can be sent to another person: one file, no script, nothing loaded from anywhere.

use dacapo_core::{
    duration::Millis,
    judge::signal::Signal,
    receipt::{Receipt, TestCounts},
    text::count,
    view::LoopView,
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    assets, encoded,
    shapes::{StateShape, brand},
    words,
};

/// The receipt in the frame of the other pages.
pub(super) fn in_frame(receipt: &Receipt, view: Option<&LoopView>) -> Markup {
    let id = encoded(&receipt.loop_id);
    html! {
        div.over-receipt {
            a.link href={ "/loops/" (id) } data-up { "Loop " (receipt.loop_id) }
            a.button.main href={ "/receipts/" (id) "?save=1" } download={ "receipt-" (receipt.loop_id) ".html" } data-save { "Save as one file" }
        }
        (paper(receipt, view))
    }
}

/// The receipt as one file. It carries its style sheet, because it is read where there is no server; and a policy of its own,
/// because there is no header either.
pub(super) fn alone(receipt: &Receipt, view: Option<&LoopView>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Receipt: " (words::line(&receipt.task)) " · dacapo" }
                style { (PreEscaped(assets::STYLE)) }
            }
            body { main { (paper(receipt, view)) } }
        }
    }
}

fn paper(receipt: &Receipt, view: Option<&LoopView>) -> Markup {
    let is_verified = receipt.verdict == "verified";
    html! {
        article.receipt.panel data-receipt=(receipt.loop_id) data-verdict=(receipt.verdict) {
            div.stamp {
                span class={ "state " (if is_verified { "is-good" } else { "is-warn" }) } { @if is_verified { (StateShape::Done.icon()) } @else { (StateShape::Asks.icon()) } }
                div {
                    h1.plain { (words::line(&receipt.task)) }
                    p {
                        @if is_verified { b.is-good { "Verified" } ": " (count(len(receipt.gates.len()), "gate")) " agreed with the claim." }
                        @else { b.is-warn { "Unverified" } ": no gate stood behind the claim." }
                    }
                }
            }
            dl.pairs {
                dt { "Claim" } dd.plain { (claim(&receipt.claim)) }
                @if let Some(view) = view {
                    dt { "Agent" } dd.plain { (words::line(&view.agent)) @if let Some(model) = &view.tally.model { ", model " (words::line(model)) } }
                }
                dt { "Iterations" } dd.num { (receipt.iterations) }
                @if let Some(started) = receipt.started_at { dt { "Began" } dd.num { (words::moment_in_full(started)) } }
                dt { "Accepted" } dd.num {
                    (words::moment_in_full(receipt.ended_at))
                    @if let Some(started) = receipt.started_at { span.muted { " after " (words::between(started, receipt.ended_at).human()) } }
                }
                @if let Some(cost) = receipt.cost_usd { dt { "Cost" } dd.num { (words::dollars(cost)) } }
                @if let Some(tokens) = &receipt.tokens { dt { "Tokens" } dd.num { (words::usage(tokens)) } }
                @if let Some(by) = &receipt.approved_by { dt { "Approved by" } dd.plain { (words::line(by)) } }
            }
            (gates(receipt))
            (tests(receipt))
            (tree(receipt, view))
            (refusals(receipt))
            footer {
                p { "Issued by dacapo " (words::line(&receipt.versions.dacapo)) " for loop " code { (words::line(&receipt.loop_id)) } "." }
                p { "Receipt " code.hash { (words::line(&receipt.sha256)) } }
                p { "Journal " code.hash { (words::line(&receipt.previous)) } }
                p { "Check it where it was issued: " code { "dacapo verify " (words::line(&receipt.loop_id)) } }
                p.brand { (brand()) "dacapo" }
            }
        }
    }
}

fn len(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn claim(signals: &[Signal]) -> String {
    let said = signals.iter().map(|signal| match signal {
        Signal::Promise(text) => {
            let text = text.trim().trim_start_matches("<promise>").trim_end_matches("</promise>");
            format!("the agent promised “{}”", words::line(text))
        }
        Signal::DoneFile => "the DONE file was there".to_owned(),
        Signal::UntilCommand => "the until commands exited 0".to_owned(),
        Signal::Item(item) => format!("task {item} was marked complete"),
        Signal::OwnClaim => "dacapo had the gates decide".to_owned(),
        other => words::line(other.name()),
    });
    words::capital(&said.collect::<Vec<_>>().join(", "))
}

fn gates(receipt: &Receipt) -> Markup {
    html! {
        h2 { "Gates" }
        @if receipt.gates.is_empty() { p.muted { "There were none." } }
        ul.proof {
            @for gate in &receipt.gates {
                li data-gate=(gate.name) {
                    span class=(if gate.tolerated { "is-warn" } else { "is-good" }) { @if gate.tolerated { (StateShape::Waits.icon()) } @else { (StateShape::Done.icon()) } }
                    span {
                        code.plain { (words::line(&gate.command)) }
                        @if let Some(folder) = &gate.working_dir { span.muted { " in " code.plain { (words::line(folder)) } } }
                        @if gate.flaky { span.is-warn { " passed only when tried again" } }
                        @if gate.tolerated { span.is-warn { " is red as it was before, which was allowed" } }
                    }
                    span.num.muted { "exit " (gate.exit_code) " · " (Millis(gate.duration_ms).human()) }
                }
            }
        }
        @if let Some(place) = &receipt.checked_in {
            p.muted { @if place == "clean" { "They passed in a fresh checkout of the tree." } @else { "They passed in the workspace itself." } }
        }
    }
}

fn counts(counts: TestCounts) -> String {
    format!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped)
}

fn tests(receipt: &Receipt) -> Markup {
    let tamper = receipt.tamper;
    let signs = [
        (tamper.deleted_tests, "deleted"),
        (tamper.skipped_tests, "skipped"),
        (tamper.emptied_tests, "emptied"),
    ];
    html! {
        h2 { "Tests and protected files" }
        dl.pairs {
            @if let Some(tests) = &receipt.tests {
                @if let Some(before) = tests.before { dt { "Before" } dd.num { (counts(before)) } }
                @if let Some(after) = tests.after { dt { "After" } dd.num { (counts(after)) } }
                @if !tests.changed.is_empty() {
                    dt { "Changed" } dd.plain { (words::line(&tests.changed.join(", "))) @if tests.both_ways { span.muted { " (the gates also passed with them as they were)" } } }
                }
                @if tests.must_fail_noticed { dt { "Probe" } dd { "The gates noticed tests that had to fail." } }
            }
            dt { "Cheats" } dd {
                @if signs.iter().all(|(number, _)| *number == 0) { "No test was deleted, skipped or emptied." }
                @else { @for (number, what) in signs.iter().filter(|(number, _)| *number > 0) { (count(*number, "test")) " " (what) ". " } }
            }
            dt { "Protected" } dd { (count(len(receipt.protected.len()), "file")) " as they were" }
        }
    }
}

fn tree(receipt: &Receipt, view: Option<&LoopView>) -> Markup {
    let changed = view.and_then(|view| view.tally.changed.as_ref()).filter(|changed| changed.count > 0);
    html! {
        h2 { "What was kept" }
        dl.pairs {
            @if let Some(tree) = &receipt.tree { dt { "Tree" } dd { code.plain { (words::line(tree)) } } }
            @if let Some(base) = &receipt.base { dt { "Before" } dd { code.plain { (words::line(base)) } } }
            @if !receipt.commits.is_empty() {
                dt { "Commits" } dd { @for commit in &receipt.commits { code.plain { (words::line(commit)) } " " } }
            }
            @if let Some(changed) = changed {
                dt { "Changed" } dd {
                    (count(u32::try_from(changed.count).unwrap_or(u32::MAX), "file")) ": "
                    span.mono.plain { (words::line(&changed.some.join(", "))) }
                    @if changed.count > changed.some.len() as u64 { " and " (changed.count - changed.some.len() as u64) " more" }
                }
            }
        }
    }
}

fn refusals(receipt: &Receipt) -> Markup {
    html! {
        h2 { "Refused on the way" }
        @if receipt.refusals.is_empty() { p.muted { "No claim was refused." } }
        ul.proof {
            @for refusal in &receipt.refusals {
                li data-refusal {
                    span.is-bad { (StateShape::Refused.icon()) }
                    span { b { (words::capital(refusal.reason.words())) } ": " span.plain { (words::with_code(&words::line(&refusal.detail))) } }
                    span.num.muted { "iteration " (refusal.iteration) }
                }
            }
        }
    }
}
