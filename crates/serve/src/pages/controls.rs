//! Buttons that ask something of a loop or run. They are forms, so they work without a script; where the server is read-only
//! there are none, and the command to type is shown instead.

use dacapo_core::view::{Action, Card, CardKind, Urgency};
use maud::{Markup, html};

/// Where the forms of a card go: the loop, or the run that it is or is a part of.
pub(super) fn stream_of(card: &Card) -> String {
    match (card.kind, &card.run, &card.loop_id) {
        (CardKind::Loop | CardKind::Session, _, _) => card.id.clone(),
        (CardKind::Unit, _, Some(id)) => id.to_string(),
        (_, Some(run), _) => run.to_string(),
        _ => card.target.clone(),
    }
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Pause => "Pause",
        Action::Resume => "Resume",
        Action::Cancel => "Cancel",
        Action::Steer => "Steer",
        Action::Approve => "Approve",
        Action::Reject => "Reject",
    }
}

fn target(stream: &str) -> String {
    format!("/loops/{}/act", super::encoded(stream))
}

fn button(action: Action, value: &str, words: &str, is_main: bool) -> Markup {
    let class = if is_main { "button main" } else { "button" };
    html! {
        button class=(class) type="submit" name="do" value=(value) data-action=(action.as_str()) { (words) }
    }
}

/// All that can be asked of a card as it stands.
pub(super) fn all(card: &Card) -> Markup {
    let stream = stream_of(card);
    html! {
        div.actions data-controls {
            (answers(card, &stream))
            @if card.can(Action::Pause) || card.can(Action::Resume) {
                form method="post" action=(target(&stream)) data-act=(&stream) {
                    @for action in [Action::Pause, Action::Resume] {
                        @if card.can(action) { (button(action, action.as_str(), word(action), false)) }
                    }
                }
            }
            @if card.can(Action::Steer) { (steer(card, &stream)) }
            @if card.can(Action::Cancel) { (cancel(&stream, &card.name)) }
        }
    }
}

/// What answers the question of a card: its decisions, or yes and no.
pub(super) fn answers(card: &Card, stream: &str) -> Markup {
    html! {
        @if !card.decisions.is_empty() && card.can(Action::Approve) {
            @for (decision, label) in card.decisions.iter().zip(&card.decision_labels) {
                form method="post" action=(target(stream)) data-act=(stream) {
                    input type="hidden" name="decision" value=(decision);
                    (button(Action::Approve, "approve", label, Some(decision) == card.decisions.first()))
                }
            }
        } @else if card.can(Action::Approve) || card.can(Action::Reject) {
            form method="post" action=(target(stream)) data-act=(stream) {
                @for (action, is_main) in [(Action::Approve, true), (Action::Reject, false)] {
                    @if card.can(action) { (button(action, action.as_str(), word(action), is_main)) }
                }
            }
        }
    }
}

/// The line that the agent gets, called an answer while it asks something.
pub(super) fn steer(card: &Card, stream: &str) -> Markup {
    match card.need {
        Some(Urgency::Question) => say(stream, Action::Steer, "Answer the agent", "Answer", true),
        _ => say(stream, Action::Steer, "Say something to the agent", "Steer", false),
    }
}

/// A line to type.
pub(super) fn say(stream: &str, action: Action, asks: &str, words: &str, is_main: bool) -> Markup {
    html! {
        form.inline-form method="post" action=(target(stream)) data-act=(stream) {
            input.field name="text" aria-label=(asks) placeholder=(asks) autocomplete="off" maxlength="8000" required data-steer;
            (button(action, action.as_str(), words, is_main))
        }
    }
}

/// Go on, where that is what helps.
pub(super) fn resume(card: &Card, stream: &str) -> Markup {
    html! {
        @if card.can(Action::Resume) {
            form method="post" action=(target(stream)) data-act=(stream) { (button(Action::Resume, "resume", "Resume", true)) }
        }
    }
}

/// Asks first: the second button is behind the first.
fn cancel(stream: &str, name: &str) -> Markup {
    html! {
        details.more.cancel {
            summary.button.danger role="button" { "Cancel…" }
            form method="post" action=(target(stream)) data-act=(stream) {
                span { "Really cancel " b.plain { (name) } "? Its agent is stopped; files stay as they are." }
                button.button.danger type="submit" name="do" value="cancel" data-action="cancel" { "Cancel it" }
            }
        }
    }
}
