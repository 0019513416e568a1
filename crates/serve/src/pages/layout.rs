//! The frame of every page: the bar at the top, the live part, and the dialogs.

use dacapo_core::view::{Board, BoardTotals};
use maud::{DOCTYPE, Markup, html};

use super::{
    assets::address,
    shapes::{BELL, HALF, brand},
    words::{dollars, millis, with_code},
};

/// Which entry of the bar is the page's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BarEntry {
    Board,
    Report,
    Costs,
    /// Below one of them.
    Inner,
}

/// A page of its own.
pub(super) struct Page<'a> {
    pub(super) title: String,
    pub(super) place: BarEntry,
    /// The board it was made beside: what is recorded after that is asked for.
    pub(super) board: &'a Board,
    /// The streams whose events change it, separated by spaces; all of them if it is empty.
    pub(super) streams: String,
    /// Narrow, for text to be read.
    pub(super) is_text: bool,
    /// What was asked for just now and what became of it.
    pub(super) notice: Option<(bool, String)>,
    pub(super) main: Markup,
}

impl<'a> Page<'a> {
    /// A wide page without a notice that every event may change.
    pub(super) fn new(board: &'a Board, place: BarEntry, title: String, main: Markup) -> Self {
        Self { title, place, board, streams: String::new(), is_text: false, notice: None, main }
    }
}

/// The names of what a person can be told of in the browser: the urgencies of a need, and an end.
const NOTICES: [(&str, &str); 8] = [
    ("question", "An agent asks something"),
    ("approval", "A decision is waited for"),
    ("refused", "Three claims in a row were refused"),
    ("sign_in", "An agent is signed out"),
    ("parked", "A loop is parked at a limit"),
    ("failed", "A loop or run failed"),
    ("interrupted", "A loop or run was interrupted"),
    ("done", "A loop is done"),
];

const KEYS: [(&str, &str); 16] = [
    ("j k", "next and previous"),
    ("[ ]", "previous and next lane"),
    ("Enter", "open"),
    ("Esc", "back"),
    ("/", "filter the board, search the log"),
    ("l", "log"),
    ("d", "diff"),
    ("f", "follow the log"),
    ("p", "pause"),
    ("r", "resume"),
    ("c", "cancel (asks)"),
    ("s", "steer: say something to the agent"),
    ("a", "approve"),
    ("$", "costs"),
    ("← → Space", "step through a replay, play it"),
    ("?", "these keys"),
];

pub(super) fn page(page: &Page<'_>) -> Markup {
    let entry = |place: BarEntry, href: &str, name: &str| {
        html! { a href=(href) aria-current=[(page.place == place).then_some("page")] { (name) } }
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&page.title))
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" { (brand()) "dacapo" }
                    nav aria-label="Pages" {
                        (entry(BarEntry::Board, "/", "Board"))
                        (entry(BarEntry::Report, "/report", "Report"))
                        (entry(BarEntry::Costs, "/costs", "Costs"))
                    }
                    (pulse(&page.board.totals))
                    span.link-state.needs-js data-link="" role="status" { "connecting" }
                    div.tools.needs-js {
                        button.tool type="button" data-notify title="Notifications" aria-label="Notifications" aria-pressed="false" { (BELL) }
                        button.tool type="button" data-theme-button title="Dark or light" aria-label="Dark or light" { (HALF) }
                        button.tool type="button" data-keys title="Keys" aria-label="Keys" { "?" }
                    }
                }
                main #main class=[page.is_text.then_some("page")] data-seq=(page.board.seq) data-now=(millis(page.board.at)) data-streams=[Some(&page.streams).filter(|it| !it.is_empty())] {
                    @if let Some((is_good, words)) = &page.notice {
                        p class={ "notice " (if *is_good { "is-good" } else { "is-bad" }) } role="status" { (words) }
                    }
                    (page.main)
                }
                (dialogs())
            }
        }
    }
}

pub(super) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            // Before the style sheet, which scripts behind it would wait for.
            script src=(address("theme.js")) {}
            link rel="stylesheet" href=(address("dacapo.css"));
            link rel="icon" href=(address("icon.svg")) type="image/svg+xml";
            script src=(address("dacapo.js")) defer {}
        }
    }
}

fn pulse(totals: &BoardTotals) -> Markup {
    html! {
        p.pulse {
            b { (totals.running) } " running"
            @if totals.needs > 0 {
                " · " b.warn { (totals.needs) @if totals.needs == 1 { " needs you" } @else { " need you" } }
            }
            @if totals.cost_today > 0.0 { " · " b { (dollars(totals.cost_today)) } " today" }
        }
    }
}

fn dialogs() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            div.keys { @for (key, does) in KEYS { span { @for one in key.split(' ') { kbd { (one) } " " } } span { (does) } } }
        }
        dialog #notify aria-labelledby="notify-title" {
            h2 #notify-title { "Notify me in this browser" }
            form method="dialog" {
                ul.choices {
                    @for (name, words) in NOTICES { li { label { input type="checkbox" name=(name); " " (words) } } }
                }
                div.actions { button.button.main type="submit" { "Keep" } }
            }
        }
    }
}

/// A page that says what went wrong, and the way out.
pub(super) fn problem(title: &str, message: &str, hint: Option<&str>, has_board: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{title} · dacapo")))
            body {
                main {
                    section.gate-page.panel {
                        a.brand href="/" { (brand()) "dacapo" }
                        h1 { (title) }
                        p { (with_code(message)) }
                        @if let Some(hint) = hint { p.muted { (with_code(hint)) } }
                        @if has_board { p { a.button href="/" { "To the board" } } }
                    }
                }
            }
        }
    }
}
