//! The board: who needs a person, what runs, and everything as cards in lanes.

use dacapo_core::view::{Action, Board, Card, CardKind, Lane, LaneCards, Need, Slot, StreamKind, Urgency};
use jiff::Timestamp;
use maud::{Markup, html};

use super::{
    controls, encoded,
    held::Held,
    shapes::{StateShape, state},
    words,
};

/// More pips than this are not told apart.
const MOST_PIPS: u32 = 40;

pub(super) fn board(board: &Board, filter: &str, may_act: bool, held: &Held) -> Markup {
    let is_empty = board.cards().next().is_none();
    html! {
        (needs(&board.needs, Some(board), board.at, may_act, held))
        @if !board.slots.is_empty() { (slots(&board.slots, board.at, held)) }
        @if is_empty { (first_steps()) } @else { (lanes(board, filter, held)) }
    }
}

/// Who needs a person, most urgent first.
pub(super) fn needs(
    needs: &[Need],
    board: Option<&Board>,
    now: Timestamp,
    may_act: bool,
    held: &Held,
) -> Markup {
    html! {
        section data-key="needs" aria-labelledby="needs-title" {
            header { h2 #needs-title { "Needs you" } span.count { (needs.len()) } }
            @if needs.is_empty() {
                p.all-well.panel { (state(StateShape::Done, "Nothing needs you.")) }
            } @else {
                ul.needs.panel {
                    @for need in needs {
                        @let whole = self::need(need, board.and_then(|board| board.card(&need.id)), now, may_act);
                        (held.part("needs", &need_key(need), &whole))
                    }
                }
            }
        }
    }
}

fn urgency_words(urgency: Urgency) -> (&'static str, &'static str) {
    match urgency {
        Urgency::Question => ("question", "Question"),
        Urgency::Approval => ("approval", "Decision"),
        Urgency::Refused => ("refused", "Refused"),
        Urgency::SignIn => ("sign_in", "Signed out"),
        Urgency::Parked => ("parked", "Parked"),
        Urgency::Failed => ("failed", "Failed"),
        Urgency::Interrupted => ("interrupted", "Interrupted"),
        Urgency::Paused => ("paused", "Paused"),
    }
}

fn need_key(need: &Need) -> String {
    format!("need-{}-{}-{}", need.id, need.name, urgency_words(need.urgency).0)
}

fn need(need: &Need, card: Option<&Card>, now: Timestamp, may_act: bool) -> Markup {
    let (name, word) = urgency_words(need.urgency);
    let is_loop = need.kind == StreamKind::Loop;
    let href = format!("/{}/{}", if is_loop { "loops" } else { "runs" }, encoded(&need.id));
    html! {
        li data-key=(need_key(need)) data-pick data-need=(name) data-loop=[is_loop.then_some(&need.id)] data-run=[(!is_loop).then_some(&need.id)]
            data-state=(card.map_or(name, |card| card.state.as_str())) {
            (state(StateShape::of(name), word))
            div {
                p.who { a.plain href=(href) { (words::line(&need.name)) } span.muted { (words::folder_name(&need.folder)) } }
                p.what.plain { (words::line(&need.what)) }
                @let command = (!(need.command.is_empty() || may_act && is_answered_here(need, card))).then_some(&need.command);
                @match card {
                    Some(card) if may_act && !card.actions.is_empty() => (help(need, card, command)),
                    _ => @if let Some(command) = command { p.how { code.plain { (words::line(command)) } } },
                }
            }
            span.since.num data-since=(words::millis(need.since)) { (words::between(need.since, now).coarse()) }
        }
    }
}

/// Whether the need has a line or a button that answers it whole.
fn is_answered_here(need: &Need, card: Option<&Card>) -> bool {
    let is_asked =
        matches!(need.urgency, Urgency::Question | Urgency::Approval | Urgency::Refused | Urgency::Paused);
    is_asked && card.is_some_and(|card| !card.actions.is_empty())
}

/// The one thing that helps, to be done here; and the command that does more than a button.
fn help(need: &Need, card: &Card, command: Option<&String>) -> Markup {
    let stream = controls::stream_of(card);
    html! {
        div.actions {
            @match need.urgency {
                Urgency::Question if card.can(Action::Steer) && card.decisions.is_empty() => (controls::steer(card, &stream)),
                Urgency::Question if card.can(Action::Approve) && card.decisions.is_empty() => {
                    (controls::say(&stream, Action::Approve, "Answer the agent", "Answer", true))
                    (controls::answers(card, &stream))
                }
                Urgency::Question | Urgency::Approval => (controls::answers(card, &stream)),
                Urgency::Refused if card.can(Action::Steer) => {
                    (controls::say(&stream, Action::Steer, "Say what is wrong", "Steer", true))
                }
                _ => (controls::resume(card, &stream)),
            }
            @if let Some(command) = command { span.how { code.plain { (words::line(command)) } } }
        }
    }
}

fn slots(slots: &[Slot], now: Timestamp, held: &Held) -> Markup {
    html! {
        section data-key="slots" aria-labelledby="slots-title" {
            header { h2 #slots-title { "At work" } span.count { (slots.len()) } }
            ul.slots {
                @for slot in slots { (held.part("slots", &format!("slot-{}", slot.loop_id), &self::slot(slot, now))) }
            }
        }
    }
}

fn slot(slot: &Slot, now: Timestamp) -> Markup {
    html! {
        li.slot.panel data-key={ "slot-" (slot.loop_id) } data-pick data-loop=(slot.loop_id) data-state=(slot.state) data-slot=(slot.number) data-filtered {
            div.head {
                a.clip.plain href={ "/loops/" (encoded(slot.loop_id.as_str())) } { (words::line(&slot.task)) }
                span.who.muted title=[slot.model.as_deref().or((slot.agent != slot.role).then_some(slot.agent.as_str()))] {
                    "Slot " (slot.number) ": " span.plain { (slot.role) }
                }
            }
            (pips(slot.iteration, slot.max_iterations))
            div.facts {
                span { (slot.iteration_line()) }
                span.num { (time_word(slot)) ": " span data-since=(words::millis(slot.since)) { (words::between(slot.since, now).human_seconds()) } }
            }
        }
    }
}

fn time_word(slot: &Slot) -> &'static str {
    if slot.state == "gating" { "Checking" } else { "Running" }
}

/// One mark for each iteration; a bar where they are too many.
pub(super) fn pips(iteration: u32, most: u32) -> Markup {
    html! {
        @if most > 0 && most <= MOST_PIPS {
            div.pips aria-hidden="true" {
                @for at in 1..=most {
                    i class=[if at == iteration { Some("now") } else if at < iteration { Some("spent") } else { None }] {}
                }
            }
        } @else if most > 0 {
            progress.bar max=(most) value=(iteration) aria-hidden="true" {}
        }
    }
}

fn lanes(board: &Board, filter: &str, held: &Held) -> Markup {
    let is_shown = |lane: &&LaneCards| {
        !lane.cards.is_empty() || matches!(lane.lane, Lane::Running | Lane::Waiting | Lane::Done)
    };
    html! {
        section data-key="lanes" aria-labelledby="lanes-title" {
            header {
                h2 #lanes-title { "Board" }
                form.filter-row method="get" action="/" data-filter-form {
                    input.field.quiet type="search" name="filter" value=(filter) placeholder="Filter" aria-label="Filter the board" data-filter;
                }
            }
            @let has_match = filter.trim().is_empty() || board.cards().any(|card| is_meant(card, filter));
            p.panel.empty data-no-match hidden[has_match] { "No card matches the filter." }
            div.lanes {
                @for lane in board.lanes.iter().filter(is_shown) {
                    section.lane data-lane=(lane.lane.as_str()) data-key={ "lane-" (lane.lane.as_str()) } aria-label=(lane.lane.words()) {
                        header { h2 { (lane.lane.words()) } span.count { (lane.cards.len()) } }
                        @if lane.cards.is_empty() { p.nothing { "Nothing" } }
                        ol {
                            @for card in lane.cards.iter().filter(|card| is_meant(card, filter)) {
                                (held.part(lane.lane.as_str(), &format!("card-{}", card.id), &self::card(card, board.at)))
                            }
                        }
                        @if lane.lane == Lane::Done && board.has_more { p.rest.muted { a.link href="/report" { "Older ones are in the report" } } }
                    }
                }
            }
        }
    }
}

/// Whether the filter that a browser without scripts has sent lets a card through.
fn is_meant(card: &Card, filter: &str) -> bool {
    let wanted = filter.trim().to_lowercase();
    let texts =
        [Some(&card.name), card.title.as_ref(), card.agent.as_ref(), Some(&card.state), card.stage.as_ref()];
    wanted.is_empty() || texts.into_iter().flatten().any(|text| text.to_lowercase().contains(&wanted))
}

pub(super) fn href(card: &Card) -> Option<String> {
    match (card.kind, &card.run, &card.loop_id) {
        (CardKind::Loop | CardKind::Session, _, _) => Some(format!("/loops/{}", encoded(&card.id))),
        (CardKind::Unit, _, Some(id)) => Some(format!("/loops/{}", encoded(id.as_str()))),
        (_, Some(run), _) => Some(format!("/runs/{}", encoded(run.as_str()))),
        _ => None,
    }
}

/// The shape of a card: what it needs a person for says more than its state.
pub(super) fn shape_of(card: &Card) -> StateShape {
    match card.need {
        Some(urgency) => StateShape::of(urgency_words(urgency).0),
        None => StateShape::of(&card.state),
    }
}

pub(super) fn card(card: &Card, now: Timestamp) -> Markup {
    let own_loop = match card.kind {
        CardKind::Loop | CardKind::Session => Some(card.id.as_str()),
        _ => card.loop_id.as_ref().map(|id| id.as_str()),
    };
    let shape = shape_of(card);
    let at_work = card.is_at_work().then(|| card.progress()).flatten();
    let mut sub = vec![words::line(card.project.name())];
    sub.extend(card.agent.as_ref().filter(|_| at_work.is_none() || card.stage.is_some()).cloned());
    if card.is_over && card.iteration > 0 {
        sub.push(dacapo_core::text::count(card.iteration, "iteration"));
    }
    sub.extend(card.parts.clone());
    let why = card
        .asks
        .as_deref()
        .or(card.detail.as_deref())
        .filter(|_| !card.is_at_work() && card.state != "completed");
    let right = words::cost(card.cost_usd, card.cost_estimated);
    html! {
        li class={ "card panel" @if card.is_unseen { " unseen" } } data-key={ "card-" (card.id) } data-pick data-filtered
            data-kind=(card.kind.as_str()) data-loop=[own_loop] data-run=[card.run.as_ref().map(|run| run.as_str())] data-state=(card.state) {
            @match href(card) {
                Some(href) => a.title.plain href=(href) { (card.name) },
                None => span.title.plain { (card.name) },
            }
            @if let Some(title) = card.title.as_ref().filter(|title| **title != card.name) { p.what.plain { (title) } }
            p.sub.plain.clip { (sub.join(" · ")) }
            @if let Some(why) = why { p.why.plain { (why) } }
            div.facts {
                @match at_work {
                    // The sign of the card that screens without pictures have.
                    Some(progress) => span class={ "state " (shape.class()) } { (shape.icon()) span { span.sr { "🔄 " } (progress) } },
                    None => (state(shape, &words::capital(card.words()))),
                }
                span.num {
                    @if let Some(until) = card.until { "until " (words::moment(until, now)) }
                    @else if let Some(cost) = right { (cost) }
                }
            }
            @if card.is_unseen { span.sr { "not looked at yet" } }
        }
    }
}

fn first_steps() -> Markup {
    html! {
        section.panel.empty data-key="first" {
            h2 { "Nothing has run yet" }
            p { "Start a loop in a repository, and it appears here while it works:" }
            p { code { "dacapo run \"Make the tests pass\" --gate \"make test\"" } }
        }
    }
}
