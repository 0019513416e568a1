//! Draws the state: where everything stands is computed from the size first, then it is drawn. It reads no clock.

use dacapo_core::{
    duration::Millis,
    text::columns::columns,
    view::{Action, Card, CardKind, Lane, Slot, headline},
};
use jiff::{Timestamp, tz::TimeZone};
use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
    style::{Modifier, Style},
};

use super::{
    look::{Theme, Tone, cut, money, plain},
    pages,
    state::{BoardState, Sheet, Typing},
};

/// The smallest terminal that the board is drawn in.
pub(crate) const LEAST: (u16, u16) = (40, 10);
/// How wide a lane is at least, and at most.
const LANE: (u16, u16) = (20, 44);
/// How high a card is: its frame, name, title, rule and state; without the rule where room is scarce.
const HIGH: u16 = 6;
const LOW: u16 = 5;
/// From this height on cards are drawn with all their lines.
const ROOMY: u16 = 34;
/// From this width on the agents stand beside the lanes.
const WIDE: u16 = 118;
const PANEL: u16 = 36;
/// How much of a name is shown where room is scarce, in columns.
const SHORTEST_NAME: usize = 10;

/// Where the parts of the board stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) header: Rect,
    pub(crate) lanes: Rect,
    /// The agents at work.
    pub(crate) slots: Rect,
    pub(crate) footer: Rect,
    pub(crate) card: u16,
}

/// Where everything stands in a terminal of this size with so many agents at work.
pub(crate) fn places(area: Rect, slots: usize) -> Places {
    let header = Rect { height: 1, ..area };
    let footer = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
    let card = if area.height >= ROOMY { HIGH } else { LOW };
    let is_beside = area.width >= WIDE && slots > 0;
    let (lanes, slots) = if is_beside {
        let lanes = Rect { width: body.width - PANEL, ..body };
        (lanes, Rect { x: lanes.right(), width: PANEL, ..body })
    } else {
        // A line for each agent below the lanes, as long as two cards have room above.
        let most = body.height.saturating_sub(1 + 2 * card + 1).min(6);
        let wanted = u16::try_from(slots).unwrap_or(u16::MAX);
        let lines = if slots == 0 || most < 2 { 0 } else { wanted.min(most - 1) + 1 };
        let lanes = Rect { height: body.height - lines, ..body };
        (lanes, Rect { y: lanes.bottom(), height: lines, ..body })
    };
    Places { header, lanes, slots, footer, card }
}

/// How many lines a page has, and how many cards a lane.
pub(crate) fn room(area: Rect, slots: usize) -> (usize, usize) {
    let places = places(area, slots);
    // One line for the names of lanes, one for those that have no room.
    let cards = places.lanes.height.saturating_sub(2) / places.card;
    (usize::from(area.height.saturating_sub(4)), usize::from(cards).max(1))
}

/// What the drawing needs to know beside the state.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) look: Theme,
    pub(crate) now: Timestamp,
    pub(crate) zone: TimeZone,
}

/// Draws everything; says where the cursor of the terminal stands while a line is typed, and how many lines the page has.
pub(crate) fn draw(buffer: &mut Buffer, state: &BoardState, scene: &Scene) -> (Option<Position>, usize) {
    let area = buffer.area;
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let words = format!("{}x{}: needs {}x{}", area.width, area.height, LEAST.0, LEAST.1);
        put(buffer, area, 0, &words, Style::default(), &scene.look);
        return (None, 0);
    }
    let places = places(area, state.board.slots.len());
    header(buffer, places.header, state, scene);
    let body = Rect { y: area.y + 1, height: area.height - 2, ..area };
    let lines = match state.screen() {
        None => {
            board(buffer, &places, state, scene);
            0
        }
        Some(screen) => pages::draw(buffer, body, screen, state, scene),
    };
    (footer(buffer, places.footer, state, scene), lines)
}

/// Writes one line from `x` on and gives where it ends.
pub(crate) fn put(buffer: &mut Buffer, area: Rect, x: u16, text: &str, style: Style, look: &Theme) -> u16 {
    if area.height == 0 || x >= area.width {
        return x;
    }
    let shown = cut(text, usize::from(area.width - x), look);
    buffer.set_string(area.x + x, area.y, &shown, style);
    // Behind what was cut nothing follows, though a letter may have room.
    if columns(&plain(text, look)) > usize::from(area.width - x) {
        return area.width;
    }
    x + u16::try_from(columns(&shown)).unwrap_or(0)
}

/// A line of `area`.
pub(crate) fn line(area: Rect, at: u16) -> Rect {
    let height = u16::from(at < area.height);
    Rect { y: area.y + at.min(area.height), height, ..area }
}

fn header(buffer: &mut Buffer, area: Rect, state: &BoardState, scene: &Scene) {
    let look = &scene.look;
    let totals = &state.board.totals;
    let bar = Style::default().add_modifier(Modifier::REVERSED);
    buffer.set_style(area, bar);
    let mut words = format!(" {}", headline(totals));
    if totals.unseen > 0 {
        words.push_str(&format!(" {} {} new", look.dot(), totals.unseen));
    }
    let right = match &state.trouble {
        Some(_) => "the journal cannot be read ".to_owned(),
        None => format!("{} ", super::look::clock(scene.now, &scene.zone)),
    };
    put(buffer, area, 0, &words, bar.add_modifier(Modifier::BOLD), look);
    let wide = u16::try_from(columns(&right)).unwrap_or(0);
    if area.width > wide + u16::try_from(columns(&words)).unwrap_or(0) {
        put(buffer, area, area.width - wide, &right, bar, look);
    }
}

/// The last line: what is typed, what was said, or which keys there are.
fn footer(buffer: &mut Buffer, area: Rect, state: &BoardState, scene: &Scene) -> Option<Position> {
    let look = &scene.look;
    let typed = |buffer: &mut Buffer, before: &str, text: &str| {
        let at = put(buffer, area, 0, before, look.style(Tone::Alert), look);
        // The end of what is typed is in sight.
        let room = usize::from(area.width.saturating_sub(at + 1));
        let mut shown = text;
        while columns(shown) > room {
            let next = shown.char_indices().nth(1).map_or(shown.len(), |(at, _)| at);
            shown = &shown[next..];
        }
        let shown = dacapo_core::text::visible::visible(shown);
        let end = put(buffer, area, at, &shown, Style::default(), look);
        Some(Position::new(area.x + end.min(area.width.saturating_sub(1)), area.y))
    };
    match &state.typing {
        Typing::Filter(text) => return typed(buffer, "/", text),
        Typing::Command(text) => return typed(buffer, ":", text),
        Typing::Steer { name, text, .. } => return typed(buffer, &format!("steer {name}: "), text),
        Typing::Approve { name, text, decisions, .. } if decisions.is_empty() => {
            return typed(buffer, &format!("approve {name}, and say (Enter for nothing): "), text);
        }
        Typing::Approve { name, text, decisions, .. } => {
            return typed(buffer, &format!("decide {name} ({}): ", decisions.join(", ")), text);
        }
        Typing::Reject { name, text, .. } => {
            return typed(buffer, &format!("reject {name}, what is wrong: "), text);
        }
        Typing::Confirm { question, .. } => {
            // What is asked may be long; how it is answered is always in sight.
            let keys = " y yes, any other key no";
            let room = usize::from(area.width).saturating_sub(columns(keys));
            let words = format!("{}{keys}", cut(question, room, look));
            put(buffer, area, 0, &words, look.style(Tone::Alert), look);
            return None;
        }
        Typing::Nothing => {}
    }
    if let Some((is_bad, words)) = &state.message {
        let tone = if *is_bad { Tone::Alert } else { Tone::Plain };
        let sign = if *is_bad { "! " } else { "" };
        put(buffer, area, 0, &format!("{sign}{words}"), look.style(tone), look);
        return None;
    }
    if let Some(trouble) = &state.trouble {
        put(buffer, area, 0, &format!("! {trouble}"), look.style(Tone::Alert), look);
        return None;
    }
    let dot = look.dot();
    let first: &[&str] = match state.screen() {
        None if !state.filter.is_empty() => &["Esc shows all again", "? help", "Enter open"],
        None => &["? help", "Enter open", "l log", "Tab lane", "/ filter"],
        Some(Sheet::Loop { .. }) => &["Esc back", "? help", "Tab part", "l log", "d diff", "f follow"],
        Some(Sheet::Costs { .. }) => &["Esc back", "? help", "Tab another time"],
        Some(Sheet::Needs | Sheet::Run { .. }) => &["Esc back", "? help", "Enter open"],
        Some(Sheet::Help) => &["Esc back"],
    };
    // Only what can be asked of this card as it stands is offered.
    let asked = [
        (Action::Pause, "p pause"),
        (Action::Resume, "r resume"),
        (Action::Approve, "a approve"),
        (Action::Reject, "x reject"),
        (Action::Steer, "s steer"),
        (Action::Cancel, "c cancel"),
    ];
    let card = state.acted_on();
    let asked = asked.iter().filter(|(action, _)| card.is_some_and(|card| card.can(*action)));
    let last: &[&str] = if state.screen().is_none() { &["$ costs", "! needs", "q quit"] } else { &[] };
    let keys = first.iter().copied().chain(asked.map(|(_, words)| *words)).chain(last.iter().copied());
    let mut words = String::new();
    if !state.filter.is_empty() && state.screen().is_none() {
        words = format!("/{}  ", state.filter);
    }
    let mut is_first = true;
    for key in keys {
        let next = if is_first { key.to_owned() } else { format!(" {dot} {key}") };
        if columns(&words) + columns(&next) > usize::from(area.width) {
            break;
        }
        is_first = false;
        words.push_str(&next);
    }
    put(buffer, area, 0, &words, look.style(Tone::Quiet), look);
    None
}

fn board(buffer: &mut Buffer, places: &Places, state: &BoardState, scene: &Scene) {
    let look = &scene.look;
    let lanes = state.lanes();
    if lanes.is_empty() {
        let words: &[&str] = match state.filter_in_force().trim().is_empty() {
            false => &["No card matches the filter.", "Esc shows all again."],
            true => &[
                "Nothing runs, and nothing has ended yet.",
                "",
                "dacapo run \"make the tests pass\" --gate \"cargo test\"   starts a loop",
                "dacapo task add \"…\"                                     adds a task",
            ],
        };
        for (at, words) in (1..).zip(words) {
            let area = line(places.lanes, at);
            put(buffer, area, 2, words, look.style(if at == 1 { Tone::Title } else { Tone::Quiet }), look);
        }
        return;
    }
    let shown = usize::from((places.lanes.width / LANE.0).max(1)).min(lanes.len());
    // Lanes that have no room are named below the others, so that none is forgotten.
    let is_short = shown < lanes.len();
    let area = Rect { height: places.lanes.height - u16::from(is_short), ..places.lanes };
    let (columns_of, first) = lane_columns(area, shown, &lanes, state);
    for (lane, column) in lanes.iter().skip(first).zip(&columns_of) {
        draw_lane(buffer, *column, *lane, places.card, state, scene);
    }
    if is_short {
        let hidden = lanes.iter().enumerate().filter(|(at, _)| *at < first || *at >= first + shown);
        let hidden: Vec<String> =
            hidden.map(|(_, lane)| format!("{} {}", lane.words(), state.cards(*lane).len())).collect();
        let words = format!("Tab shows {}", hidden.join(", "));
        let last = line(places.lanes, places.lanes.height.saturating_sub(1));
        put(buffer, last, 1, &words, look.style(Tone::Quiet), look);
    }
    if places.slots.height > 0 && places.slots.width > 0 && !state.board.slots.is_empty() {
        if places.slots.x > places.lanes.x {
            panel(buffer, places.slots, &state.board.slots, scene);
        } else {
            strip(buffer, places.slots, &state.board.slots, scene);
        }
    }
}

/// The columns of the lanes that have room, and the first lane among them: the one with the cursor is in sight.
fn lane_columns(area: Rect, fitting: usize, lanes: &[Lane], state: &BoardState) -> (Vec<Rect>, usize) {
    let chosen =
        state.selected_card().and_then(|card| lanes.iter().position(|lane| *lane == card.lane)).unwrap_or(0);
    let first = (chosen + 1).saturating_sub(fitting).min(lanes.len() - fitting);
    let width = (area.width / u16::try_from(fitting).unwrap_or(1)).min(LANE.1);
    let column = |at: usize| Rect { x: area.x + u16::try_from(at).unwrap_or(0) * width, width, ..area };
    ((0..fitting).map(column).collect(), first)
}

fn draw_lane(buffer: &mut Buffer, area: Rect, lane: Lane, card: u16, state: &BoardState, scene: &Scene) {
    let look = &scene.look;
    let cards = state.cards(lane);
    let is_chosen = state.selected_card().is_some_and(|card| card.lane == lane);
    let title = match (cards.len(), lane == Lane::Done && state.board.has_more) {
        (count, true) => format!("{} {count}+", lane.words()),
        (count, false) => format!("{} {count}", lane.words()),
    };
    let style = look.style(Tone::Title);
    let style = if is_chosen { style.add_modifier(Modifier::UNDERLINED) } else { style };
    let end = put(buffer, line(area, 0), 1, &title, style, look);
    let top = state.top(lane);
    let room = state.cards_room.min(usize::from(area.height.saturating_sub(1) / card)).max(1);
    let below = cards.len().saturating_sub(top + room);
    let mut marks = Vec::new();
    if top > 0 {
        marks.push(if look.is_ascii { format!("^{top}") } else { format!("↑{top}") });
    }
    if below > 0 {
        marks.push(if look.is_ascii { format!("v{below}") } else { format!("↓{below}") });
    }
    put(buffer, line(area, 0), end + 1, &marks.join(" "), look.style(Tone::Quiet), look);
    for (at, own) in cards.iter().skip(top).take(room).enumerate() {
        let y = area.y + 1 + u16::try_from(at).unwrap_or(0) * card;
        let place = Rect { y, height: card.min(area.bottom().saturating_sub(y)), ..area };
        let is_chosen = state.selected.as_deref() == Some(own.id.as_str());
        draw_card(buffer, place, own, is_chosen, card >= HIGH, scene);
    }
}

/// A frame; nothing is written where it has no room.
pub(crate) fn frame(buffer: &mut Buffer, area: Rect, style: Style, is_chosen: bool, look: &Theme) {
    if area.width < 2 || area.height < 2 {
        return;
    }
    let set = look.frame(is_chosen);
    let (right, bottom) = (area.right() - 1, area.bottom() - 1);
    for x in area.x + 1..right {
        buffer.set_string(x, area.y, set.horizontal_top, style);
        buffer.set_string(x, bottom, set.horizontal_bottom, style);
    }
    for y in area.y + 1..bottom {
        buffer.set_string(area.x, y, set.vertical_left, style);
        buffer.set_string(right, y, set.vertical_right, style);
    }
    buffer.set_string(area.x, area.y, set.top_left, style);
    buffer.set_string(right, area.y, set.top_right, style);
    buffer.set_string(area.x, bottom, set.bottom_left, style);
    buffer.set_string(right, bottom, set.bottom_right, style);
}

fn inside(area: Rect) -> Rect {
    Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2),
    }
}

/// A card as the seed draws it: its name, what it is about, a rule, and who is at it (req 195).
fn draw_card(buffer: &mut Buffer, area: Rect, card: &Card, is_chosen: bool, has_rule: bool, scene: &Scene) {
    let look = &scene.look;
    let tone = Theme::tone_of(card);
    let edge =
        if is_chosen { look.style(tone).add_modifier(Modifier::BOLD) } else { look.style(Tone::Quiet) };
    frame(buffer, area, edge, is_chosen, look);
    let text = inside(area);
    // What ended and was not looked at is marked.
    let mark = if card.is_unseen { if look.is_ascii { "* " } else { "● " } } else { "" };
    let name = format!("{mark}{}", card.name);
    let spent = money(card.cost_usd, card.tokens, card.cost_estimated).unwrap_or_default();
    let wide = u16::try_from(columns(&spent)).unwrap_or(0);
    let end = put(buffer, line(text, 0), 0, &name, look.style(Tone::Title), look);
    if wide > 0 && text.width > end + wide {
        put(buffer, line(text, 0), text.width - wide, &spent, look.style(Tone::Quiet), look);
    }
    let about = card.asks.as_ref().filter(|_| card.need.is_some());
    let about = about.or(card.title.as_ref()).or(card.parts.as_ref()).cloned().unwrap_or_default();
    let about_tone = if card.need.is_some() && card.asks.is_some() { tone } else { Tone::Plain };
    put(buffer, line(text, 1), 0, &about, look.style(about_tone), look);
    let mut at = 2;
    if has_rule && text.height > 3 {
        let rule = look.rule().repeat(usize::from(text.width));
        put(buffer, line(text, 2), 0, &rule, look.style(Tone::Quiet), look);
        at = 3;
    }
    let status = format!("{} {}", look.sign_of(card), status_words(card, scene));
    put(buffer, line(text, at), 0, &status, look.style(tone), look);
}

/// What stands behind the sign of a card.
fn status_words(card: &Card, scene: &Scene) -> String {
    let since = |from: Timestamp| {
        Millis(u64::try_from(scene.now.duration_since(from).as_millis()).unwrap_or(0)).coarse()
    };
    let words = card.words();
    if card.need.is_some() && !card.is_at_work() {
        let waits = card.need_since.map(|at| format!(", {}", since(at))).unwrap_or_default();
        return format!("{words}{waits}");
    }
    match card.state.as_str() {
        "running" | "gating" | "merging" | "stopping" => match card.progress() {
            Some(progress)
                if card.kind != CardKind::Run && card.state == "running" && card.need.is_none() =>
            {
                progress
            }
            Some(_) if card.kind != CardKind::Run && card.max_iterations > 0 => {
                format!("{words} ({}/{})", card.iteration, card.max_iterations)
            }
            Some(_) if card.kind != CardKind::Run => words.to_owned(),
            _ => card.parts.clone().unwrap_or_else(|| words.to_owned()),
        },
        "parked" => match card.until {
            Some(until) => format!("parked until {}", super::look::clock(until, &scene.zone)),
            None => card.detail.clone().unwrap_or_else(|| words.to_owned()),
        },
        "queued" | "waiting" | "blocked" | "todo" => card.detail.clone().unwrap_or_else(|| words.to_owned()),
        _ => match card.ended_at {
            Some(at) => format!("{words}, {} ago", since(at)),
            None => words.to_owned(),
        },
    }
}

/// The agents at work beside the lanes, a box for each (req 195).
fn panel(buffer: &mut Buffer, area: Rect, slots: &[Slot], scene: &Scene) {
    let look = &scene.look;
    let area = Rect { x: area.x + 1, width: area.width.saturating_sub(1), ..area };
    put(buffer, line(area, 0), 0, &format!("Agents {}", slots.len()), look.style(Tone::Title), look);
    const BOX: u16 = 6;
    let room = usize::from(area.height.saturating_sub(1) / BOX);
    let shown = if slots.len() > room { room.saturating_sub(1).max(1) } else { slots.len() };
    for (at, slot) in slots.iter().take(shown).enumerate() {
        let y = area.y + 1 + u16::try_from(at).unwrap_or(0) * BOX;
        let place = Rect { y, height: BOX.min(area.bottom().saturating_sub(y)), ..area };
        frame(buffer, place, look.style(Tone::Quiet), false, look);
        let text = inside(place);
        put(
            buffer,
            line(text, 0),
            0,
            &format!("Slot {}: {}", slot.number, slot.role),
            look.style(Tone::Title),
            look,
        );
        put(buffer, line(text, 1), 2, &format!("Task: {}", slot.task), Style::default(), look);
        put(buffer, line(text, 2), 2, &slot.iteration_line(), Style::default(), look);
        put(buffer, line(text, 3), 2, &slot.time_line(scene.now), look.style(Tone::Busy), look);
    }
    if slots.len() > shown {
        let at = u16::try_from(shown).unwrap_or(0) * BOX + 1;
        let words = format!("and {} more at work", slots.len() - shown);
        put(buffer, line(area, at), 2, &words, look.style(Tone::Quiet), look);
    }
}

/// The agents at work below the lanes, a line for each.
fn strip(buffer: &mut Buffer, area: Rect, slots: &[Slot], scene: &Scene) {
    let look = &scene.look;
    let rule = look.rule().repeat(usize::from(area.width));
    put(buffer, line(area, 0), 0, &rule, look.style(Tone::Quiet), look);
    put(buffer, line(area, 0), 1, &format!(" Agents {} ", slots.len()), look.style(Tone::Title), look);
    let room = usize::from(area.height.saturating_sub(1));
    let shown = if slots.len() > room { room.saturating_sub(1) } else { slots.len() };
    let dot = look.dot();
    for (at, slot) in (1..).zip(slots.iter().take(shown)) {
        let line = line(area, at);
        let head = format!(" Slot {}: {}", slot.number, slot.role);
        let end = put(buffer, line, 0, &head, look.style(Tone::Title), look);
        // A long name gives way to how far it has come.
        let told = format!(" {dot} {} {dot} {}", slot.iteration_line(), slot.time_line(scene.now));
        let before = format!(" {dot} Task: ");
        let taken = usize::from(end) + columns(&before) + columns(&told);
        let task = cut(&slot.task, usize::from(line.width).saturating_sub(taken).max(SHORTEST_NAME), look);
        put(buffer, line, end, &format!("{before}{task}{told}"), Style::default(), look);
    }
    if slots.len() > shown {
        let at = u16::try_from(shown + 1).unwrap_or(1);
        put(
            buffer,
            line(area, at),
            1,
            &format!("and {} more at work", slots.len() - shown),
            look.style(Tone::Quiet),
            look,
        );
    }
}
