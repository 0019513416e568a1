//! States as people see them: a shape, a word and a colour, so that none of the three is needed alone.

use maud::{Markup, PreEscaped, html};

use super::words::capital;

/// How a state is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateShape {
    Running,
    Judging,
    Done,
    Failed,
    Refused,
    Asks,
    Waits,
    Paused,
    Queued,
    Stopped,
    Broken,
}

impl StateShape {
    /// The shape of a word that a view has for a state.
    pub(super) fn of(state: &str) -> Self {
        match state {
            "running" | "working" | "merging" | "publishing" | "stopping" => Self::Running,
            "gating" | "waiting_to_merge" | "waiting to merge" => Self::Judging,
            "completed" | "done" | "merged" | "passed" | "accepted" => Self::Done,
            "failed" => Self::Failed,
            "refused" => Self::Refused,
            "question" | "asking" | "approval" | "blocked" => Self::Asks,
            "parked" | "waiting" | "sign_in" => Self::Waits,
            "paused" => Self::Paused,
            "interrupted" => Self::Broken,
            "queued" | "todo" | "pending" | "ready" => Self::Queued,
            _ => Self::Stopped,
        }
    }

    /// The colour, as a class of the style sheet.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Running | Self::Judging => "is-active",
            Self::Done => "is-good",
            Self::Failed | Self::Refused => "is-bad",
            Self::Asks | Self::Waits | Self::Broken => "is-warn",
            Self::Paused | Self::Queued | Self::Stopped => "is-quiet",
        }
    }

    pub(super) fn icon(self) -> Markup {
        let drawn = match self {
            Self::Running => {
                r#"<g fill="none" stroke="currentColor" stroke-width="2"><circle cx="8" cy="8" r="6" opacity=".25"/><path d="M8 2a6 6 0 0 1 6 6" stroke-linecap="round"/></g>"#
            }
            Self::Judging => {
                r#"<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="2"/><path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor"/>"#
            }
            Self::Done => {
                r#"<circle cx="8" cy="8" r="7" fill="currentColor"/><path class="cut" d="M4.8 8.3l2.2 2.2 4.2-4.6" fill="none" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/>"#
            }
            Self::Failed => {
                r#"<path d="M8 .8l7.2 7.2L8 15.2.8 8z" fill="currentColor"/><path class="cut" d="M8 4.6v3.8M8 10.9v.1" fill="none" stroke-width="1.8" stroke-linecap="round"/>"#
            }
            Self::Refused => {
                r#"<g fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"><circle cx="8" cy="8" r="6"/><path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4"/></g>"#
            }
            Self::Asks => {
                r#"<path d="M2 3a1.5 1.5 0 0 1 1.5-1.5h9A1.5 1.5 0 0 1 14 3v7a1.5 1.5 0 0 1-1.5 1.5H7L3.5 15v-3.5A1.5 1.5 0 0 1 2 10z" fill="currentColor"/><path class="cut" d="M8 4v3M8 9.2v.1" fill="none" stroke-width="1.7" stroke-linecap="round"/>"#
            }
            Self::Waits => {
                r#"<g fill="none" stroke="currentColor" stroke-linecap="round"><circle cx="8" cy="8" r="6" stroke-width="2"/><path d="M8 5v3.2l2 1.3" stroke-width="1.7"/></g>"#
            }
            Self::Paused => {
                r#"<g fill="currentColor"><rect x="3" y="2.5" width="3.6" height="11" rx="1"/><rect x="9.4" y="2.5" width="3.6" height="11" rx="1"/></g>"#
            }
            Self::Queued => {
                r#"<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="2.2 2.5"/>"#
            }
            Self::Stopped => {
                r#"<rect x="2.5" y="2.5" width="11" height="11" rx="2" fill="none" stroke="currentColor" stroke-width="2"/>"#
            }
            Self::Broken => {
                r#"<g fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"><path d="M8 2L14.6 13.6H1.4z"/><path d="M8 6.6v2.6M8 11.4v.1" stroke-width="1.7"/></g>"#
            }
        };
        html! { svg viewBox="0 0 16 16" aria-hidden="true" { (PreEscaped(drawn)) } }
    }
}

/// A state with `word` behind its shape.
pub(super) fn state(shape: StateShape, word: &str) -> Markup {
    html! { span class={ "state " (shape.class()) } { (shape.icon()) span { (word) } } }
}

/// The same as a badge beside a title.
pub(super) fn badge(shape: StateShape, word: &str) -> Markup {
    html! { span class={ "state badge " (shape.class()) } { (shape.icon()) span { (capital(word)) } } }
}

/// The sign of a repeat, as in a score: da capo.
pub(super) fn brand() -> Markup {
    PreEscaped(
        r#"<svg viewBox="0 0 17 20" fill="currentColor" aria-hidden="true"><rect x="13.2" y="1" width="3.4" height="18" rx=".8"/><rect x="9.6" y="1" width="1.5" height="18" rx=".6"/><circle cx="5.4" cy="6.8" r="1.9"/><circle cx="5.4" cy="13.2" r="1.9"/></svg>"#
            .to_owned(),
    )
}

/// Pictures on the buttons of the bar at the top.
pub(super) const BELL: PreEscaped<&str> = PreEscaped(
    r#"<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" aria-hidden="true"><path d="M3 11.5h10l-1.2-2V6.8a3.8 3.8 0 0 0-7.6 0v2.7zM6.5 13.5a1.6 1.6 0 0 0 3 0"/></svg>"#,
);
pub(super) const HALF: PreEscaped<&str> = PreEscaped(
    r#"<svg viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.5"/><path d="M8 2.4a5.6 5.6 0 0 1 0 11.2z" fill="currentColor"/></svg>"#,
);
