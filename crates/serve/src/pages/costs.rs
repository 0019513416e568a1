//! Costs, tokens and iterations over time, and where they went.

use dacapo_core::view::{CostPoint, CostShare, Costs};
use jiff::tz::TimeZone;
use maud::{Markup, html};

use super::{
    plot::{Bar, Width, bars},
    words,
};

/// How far back the page can look, and how long each bar is, in hours.
pub(super) const SPANS: [(&str, &str, i64, i64); 4] = [
    ("24h", "A day", 24, 1),
    ("7d", "A week", 168, 24),
    ("30d", "30 days", 720, 24),
    ("90d", "90 days", 2160, 24 * 7),
];

pub(super) fn costs(costs: &Costs, span: &str) -> Markup {
    let bar = |value: fn(&CostPoint) -> f64, says: fn(&CostPoint) -> String| -> Vec<Bar> {
        costs
            .points
            .iter()
            .map(|point| Bar {
                label: label(point, costs.step_ms),
                value: value(point),
                says: format!("{}: {}", label(point, costs.step_ms), says(point)),
            })
            .collect()
    };
    let money = bar(|point| point.cost_usd, |point| words::dollars(point.cost_usd));
    let tokens = bar(|point| point.tokens as f64, |point| format!("{} tokens", words::tokens(point.tokens)));
    let iterations = bar(
        |point| f64::from(point.iterations),
        |point| dacapo_core::text::count(point.iterations, "iteration"),
    );
    html! {
        section.intro data-key="intro" {
            div.title-row {
                h1 { "Costs" }
                nav.spans aria-label="Since when" {
                    @for (name, words, _, _) in SPANS { a.button href={ "/costs?since=" (name) } aria-current=[(name == span).then_some("page")] { (words) } }
                }
            }
        }
        dl.totals data-key="totals" {
            div { dt { "Spent" } dd data-total="cost" { (words::dollars(costs.cost_usd)) } }
            div { dt { "Tokens" } dd data-total="tokens" { (words::tokens(costs.tokens)) } }
            div { dt { "Iterations" } dd data-total="iterations" { (words::thousands(u64::from(costs.iterations))) } }
            div { dt { "Cost of each" } dd { @if costs.iterations > 0 { (words::dollars(costs.cost_usd / f64::from(costs.iterations))) } @else { "–" } } }
        }
        div.plots data-key="plots" {
            (bars("Cost", &words::dollars(costs.cost_usd), &money, Width::Whole, words::dollars))
            (bars("Tokens", &words::tokens(costs.tokens), &tokens, Width::Half, |value| words::tokens(value as u64)))
            (bars("Iterations", &words::thousands(u64::from(costs.iterations)), &iterations, Width::Half, plain))
        }
        div.plots data-key="shares" {
            (shares("By project", &costs.projects, costs.cost_usd))
            (shares("By task", &costs.tasks, costs.cost_usd))
        }
    }
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn label(point: &CostPoint, step_ms: u64) -> String {
    let at = point.at.to_zoned(TimeZone::system());
    let form = if step_ms < 24 * 3_600_000 { "%H:00" } else { "%b %-d" };
    at.strftime(form).to_string()
}

/// How many are named.
const NAMED: usize = 12;

fn shares(title: &str, shares: &[CostShare], all: f64) -> Markup {
    html! {
        section data-key={ "shares-" (title) } {
            header { h2 { (title) } span.count { (shares.len()) } }
            @if shares.is_empty() { p.panel.empty { "Nothing was spent." } }
            @else {
                table.cards.panel {
                    thead { tr { th { "Name" } th.num { "Cost" } th.num { "Tokens" } th.num { "Iterations" } } }
                    tbody {
                        @for share in shares.iter().take(NAMED) {
                            tr data-key={ "share-" (share.name) } {
                                td { span.row-title.plain { (share.name) } meter.share max=(all.max(f64::MIN_POSITIVE)) value=(share.cost_usd) aria-hidden="true" {} }
                                td.num data-label="Cost" { (words::dollars(share.cost_usd)) }
                                td.num data-label="Tokens" { (words::tokens(share.tokens)) }
                                td.num data-label="Iterations" { (share.iterations) }
                            }
                        }
                        @if let Some(more) = shares.len().checked_sub(NAMED).filter(|more| *more > 0) {
                            tr data-key="more" { td.muted colspan="4" { "and " (more) " more" } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dacapo_core::view::first_step;
    use jiff::Zoned;

    use super::*;

    #[test]
    fn bars_are_those_of_the_calendar() {
        let now: Zoned = "2026-11-18T07:31:00[UTC]".parse().unwrap();
        for (name, first, bars) in [
            ("24h", "2026-11-17T08:00:00Z", 24),
            ("7d", "2026-11-12T00:00:00Z", 7),
            ("30d", "2026-10-20T00:00:00Z", 30),
            ("90d", "2026-08-20T00:00:00Z", 13),
        ] {
            let (_, _, hours, step) = SPANS.into_iter().find(|span| span.0 == name).unwrap();
            let since = first_step(&now, hours, step);
            assert_eq!(since, first.parse().unwrap(), "{name}");
            let spent =
                dacapo_core::view::costs([], [], (since, now.timestamp()), step.unsigned_abs() * 3_600_000);
            assert_eq!(spent.points.len(), bars, "{name}");
        }
    }
}
