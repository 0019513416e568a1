//! The pages above the board: a loop, a run, costs, who needs a person, help.

use dacapo_core::{
    duration::Millis,
    event::GateRole,
    receipt::Receipt,
    text::{
        amount::tokens,
        columns::{columns, wrapped},
        count,
    },
    view::{
        Card, Costs, IterationLine, Need, RunPage, StageTaskView, TaskPage, UnitStatus, Verdict,
        WorkflowPage, WorkflowView,
    },
};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::{
    look::{Theme, Tone, clock, cut, money},
    state::{BoardState, Data, LoopData, Sheet, Span, Tab},
    view::{Scene, line, put},
};

/// A line of a page: parts with what they mean.
type Line = Vec<(Tone, String)>;

fn one(tone: Tone, text: impl Into<String>) -> Line {
    vec![(tone, text.into())]
}

/// Draws a page and says how many lines it has.
pub(super) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    screen: &Sheet,
    state: &BoardState,
    scene: &Scene,
) -> usize {
    let (head, body): (Vec<Line>, Vec<Line>) = match (screen, &state.data) {
        (Sheet::Help, _) => (vec![one(Tone::Title, "Keys")], help(scene)),
        (Sheet::Needs, _) => needs(state, scene, area.width),
        (Sheet::Costs { span }, Data::Costs(costs)) => costs_page(costs, *span, area, scene),
        (_, Data::Gone(why)) => (vec![one(Tone::Title, "Not there")], vec![one(Tone::Alert, why.clone())]),
        (Sheet::Loop { tab, .. }, Data::Loop(data)) => loop_page(data, *tab, state, scene, area.width),
        (Sheet::Run { .. }, Data::Units(data)) => {
            let card = state.acted_on();
            units_page(card, &data.1, state, scene, area.width)
        }
        (Sheet::Run { .. }, Data::Workflow(data)) => workflow_page(&data.0, &data.1, state, scene),
        (Sheet::Run { .. }, Data::Task(data)) => task_page(&data.0, &data.1, state, scene),
        _ => (vec![one(Tone::Quiet, "reading…")], Vec::new()),
    };
    let look = &scene.look;
    let mut at = 0;
    for own in head.iter().take(2) {
        write(buffer, line(area, at), own, look);
        at += 1;
    }
    // A rule below the head, however many lines it has, so that the text stands where it stood.
    while at < 2 {
        at += 1;
    }
    let body_area = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
    let room = usize::from(body_area.height);
    let lines = body.len();
    let last_top = lines.saturating_sub(room);
    let is_list = matches!(screen, Sheet::Run { .. } | Sheet::Needs)
        || matches!(screen, Sheet::Loop { tab: Tab::Timeline, .. });
    let first = if is_list {
        // The line with the cursor is in sight.
        let chosen =
            body.iter().position(|own| own.first().is_some_and(|(_, text)| text.starts_with(look.cursor())));
        chosen.map_or(0, |chosen| (chosen + 3).saturating_sub(room).min(last_top))
    } else if state.is_following_log() {
        last_top
    } else {
        state.scroll.min(last_top)
    };
    for (at, own) in (0..).zip(body.iter().skip(first).take(room)) {
        write(buffer, line(body_area, at), own, look);
    }
    lines
}

fn write(buffer: &mut Buffer, area: Rect, own: &Line, look: &Theme) {
    let mut x = 0;
    for (tone, text) in own {
        x = put(buffer, area, x, text, look.style(*tone), look);
    }
    if own.first().is_some_and(|(_, text)| text.starts_with(look.cursor())) {
        buffer.set_style(area, Style::default().add_modifier(Modifier::REVERSED));
    }
}

/// The sign in front of the line with the cursor.
fn cursor(is_chosen: bool, look: &Theme) -> String {
    if is_chosen { format!("{} ", look.cursor()) } else { "  ".to_owned() }
}

fn help(scene: &Scene) -> Vec<Line> {
    const KEYS: [(&str, &str); 27] = [
        ("j k, arrows", "move up and down"),
        ("Tab, h, arrows", "next or previous lane; another part of a page"),
        ("Enter", "open the card; of an iteration, its difference"),
        ("Esc", "back; on the board, show all again"),
        ("g G", "to the beginning, to the end"),
        ("n", "the next card that needs you"),
        ("/", "show only cards with these words"),
        ("l", "what the agent prints"),
        ("t o R", "timeline, prompt, receipt of a loop (or 1 to 5)"),
        ("d", "what was changed; [ and ] choose the iteration"),
        ("f", "follow the end, or stay where you read"),
        ("p", "pause after this iteration"),
        ("r", "resume"),
        ("c", "cancel for good; asks first"),
        ("s", "steer: type a line for the next prompt"),
        ("a", "approve, or choose a decision"),
        ("x", "reject, and say what is wrong"),
        ("u", "put files back to how they were; asks first"),
        ("$", "costs over time"),
        ("!", "who needs you, the most urgent first"),
        (":", "a command: open ID, filter WORDS, steer TEXT, costs, needs, board, quit"),
        ("Ctrl-L", "draw everything again"),
        ("Ctrl-Z", "stop the board; `fg` comes back"),
        ("?", "this list"),
        ("q", "quit; loops go on"),
        ("", ""),
        ("", "A card with a dot has come to an end that you have not looked at."),
    ];
    let mut lines: Vec<Line> = KEYS
        .iter()
        .map(|(keys, words)| vec![(Tone::Title, format!("  {keys:<16}")), (Tone::Plain, (*words).to_owned())])
        .collect();
    let signs: Vec<String> = [
        "running",
        "gating",
        "asking",
        "waiting",
        "parked",
        "paused",
        "interrupted",
        "completed",
        "failed",
        "cancelled",
    ]
    .iter()
    .map(|state| {
        format!("{} {}", scene.look.sign(state), if *state == "gating" { "checking" } else { state })
    })
    .collect();
    for part in signs.chunks(5) {
        lines.push(one(Tone::Plain, format!("  {}", part.join("  "))));
    }
    lines
}

fn needs(state: &BoardState, scene: &Scene, width: u16) -> (Vec<Line>, Vec<Line>) {
    let look = &scene.look;
    let needs = &state.board.needs;
    let head = match needs.len() {
        0 => "Nothing needs you".to_owned(),
        1 => "1 needs you".to_owned(),
        more => format!("{more} need you, the most urgent first"),
    };
    let mut lines = Vec::new();
    for (at, need) in needs.iter().enumerate() {
        let is_chosen = at == state.row;
        let since =
            Millis(u64::try_from(scene.now.duration_since(need.since).as_millis()).unwrap_or(0)).coarse();
        let words = format!("{} {}, {since}", sign_of_need(need, look), need.urgency.words());
        lines.push(vec![
            (Tone::Title, format!("{}{}", cursor(is_chosen, look), need.name)),
            (Tone::Alert, format!("  {words}")),
            (Tone::Quiet, format!("  {}", need.project.name())),
        ]);
        if !need.what.is_empty() {
            let shown = dacapo_core::text::visible::visible(&need.what);
            let room = usize::from(width).saturating_sub(6);
            let most = if is_chosen { 6 } else { 1 };
            let all = wrapped(&shown, room);
            for (n, part) in all.iter().take(most).enumerate() {
                let more = if n + 1 == most && all.len() > most { look.more() } else { "" };
                lines.push(one(Tone::Plain, format!("    {}{more}", cut(part, room, look))));
            }
        }
        lines.push(one(Tone::Quiet, format!("    {}", need.command)));
        lines.push(Vec::new());
    }
    (vec![one(Tone::Title, head)], lines)
}

fn sign_of_need(need: &Need, look: &Theme) -> &'static str {
    use dacapo_core::view::Urgency;
    match need.urgency {
        Urgency::Question | Urgency::Approval => look.sign("asking"),
        Urgency::Refused | Urgency::Failed => look.sign("failed"),
        Urgency::SignIn => look.sign("blocked"),
        Urgency::Parked => look.sign("parked"),
        Urgency::Interrupted => look.sign("interrupted"),
        Urgency::Paused => look.sign("paused"),
    }
}

fn costs_page(costs: &Costs, span: Span, area: Rect, scene: &Scene) -> (Vec<Line>, Vec<Line>) {
    let look = &scene.look;
    let total = money(Some(costs.cost_usd), None, false).unwrap_or_else(|| "$0".to_owned());
    let head =
        vec![
            vec![
                (Tone::Title, format!("Costs, {}: {total}", span.words())),
                (
                    Tone::Quiet,
                    format!("  {} tokens, {}", tokens(costs.tokens), count(costs.iterations, "iteration")),
                ),
            ],
            one(
                Tone::Quiet,
                Span::ALL
                    .iter()
                    .map(|own| {
                        if *own == span { format!("[{}]", own.words()) } else { format!(" {} ", own.words()) }
                    })
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        ];
    let mut lines = Vec::new();
    let most = costs.points.iter().map(|point| point.cost_usd).fold(0.0, f64::max);
    let by_tokens = most <= 0.0;
    let value = |cost: f64, tokens: u64| if by_tokens { tokens as f64 } else { cost };
    let most = costs.points.iter().map(|point| value(point.cost_usd, point.tokens)).fold(0.0, f64::max);
    let room = usize::from(area.width).saturating_sub(28).max(10);
    let form = match span {
        Span::Day => "%H:%M",
        Span::Week => "%a %b %d",
        Span::Month => "%b %d",
    };
    // The newest first: it is what a person asks for, and the first that is in sight.
    for point in costs.points.iter().rev() {
        let part = if most > 0.0 { value(point.cost_usd, point.tokens) / most } else { 0.0 };
        let at = point.at.to_zoned(scene.zone.clone()).strftime(form).to_string();
        let words = money(Some(point.cost_usd).filter(|cost| *cost > 0.0), Some(point.tokens), false)
            .unwrap_or_default();
        lines.push(vec![
            (Tone::Quiet, format!("  {at:<10}")),
            (Tone::Busy, bar(part, room, look)),
            (Tone::Plain, format!(" {words}")),
        ]);
    }
    for (title, shares) in [("By project", &costs.projects), ("By task", &costs.tasks)] {
        lines.push(Vec::new());
        lines.push(one(Tone::Title, title));
        for share in shares.iter().take(10) {
            let words = money(Some(share.cost_usd).filter(|cost| *cost > 0.0), Some(share.tokens), false)
                .unwrap_or_else(|| "$0".to_owned());
            lines.push(vec![
                (Tone::Plain, format!("  {:<32}", cut(&share.name, 32, look))),
                (Tone::Title, format!("{words:>12}")),
                (Tone::Quiet, format!("  {}", count(share.iterations, "iteration"))),
            ]);
        }
        if shares.is_empty() {
            lines.push(one(Tone::Quiet, "  nothing was spent"));
        }
    }
    (head, lines)
}

/// A bar of this part of the room, with eighths where the terminal has them.
fn bar(part: f64, room: usize, look: &Theme) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.clamp(0.0, 1.0) * room as f64 * 8.0).round() as usize;
    if look.is_ascii {
        return "#".repeat(eighths.div_ceil(8));
    }
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn loop_page(
    data: &LoopData,
    tab: Tab,
    state: &BoardState,
    scene: &Scene,
    width: u16,
) -> (Vec<Line>, Vec<Line>) {
    let look = &scene.look;
    let view = &data.view;
    let card = dacapo_core::view::card_of_loop(view);
    let dot = look.dot();
    let mut about = vec![format!("{} {}", look.sign_of(&card), card.words())];
    about.extend(card.progress());
    about.extend(card.model.clone());
    about.extend(money(card.cost_usd, card.tokens, card.cost_estimated).map(
        |spent| match card.budget.max_cost {
            Some(most) => format!("{spent} of ${most:.2}"),
            None => spent,
        },
    ));
    about.extend(card.lasted(scene.now).map(|lasted| lasted.human_seconds()));
    let mut first = vec![
        (Tone::Title, format!("{} ", card.name)),
        (Tone::Quiet, format!("{} ", view.id)),
        (Theme::tone_of(&card), about.join(&format!(" {dot} "))),
    ];
    if let Some(asks) = card.asks.as_ref() {
        first.push((Tone::Alert, format!(" {dot} asks: {asks}")));
    }
    let tabs: Vec<String> = Tab::ALL
        .iter()
        .enumerate()
        .map(|(at, own)| {
            if *own == tab {
                format!("[{} {}]", at + 1, own.words())
            } else {
                format!(" {} {} ", at + 1, own.words())
            }
        })
        .collect();
    let mut second = vec![(Tone::Plain, tabs.join(" "))];
    if tab == Tab::Log {
        second.push((
            Tone::Quiet,
            if state.is_following { "  follows" } else { "  stays; f follows" }.to_owned(),
        ));
    }
    let body = match tab {
        Tab::Timeline => timeline(data, state, scene, width),
        Tab::Log => {
            let mut lines = Vec::new();
            if data.log_dropped > 0 {
                lines.push(one(Tone::Quiet, format!("earlier output: dacapo logs {}", view.id)));
            }
            lines.extend(data.log.iter().map(|text| log_line(text)));
            if lines.is_empty() {
                lines.push(one(Tone::Quiet, "the agent has printed nothing yet"));
            }
            lines
        }
        Tab::Prompt => {
            let room = usize::from(width);
            let lines =
                data.prompt.iter().flat_map(|text| wrapped(text, room)).map(|text| one(Tone::Plain, text));
            lines.collect()
        }
        Tab::Diff => diff(data, state),
        Tab::Receipt => match &data.page.receipt {
            Some(receipt) => receipt_lines(receipt, scene),
            None => vec![one(Tone::Quiet, "no claim was accepted, so there is no receipt")],
        },
    };
    (vec![first, second], body)
}

fn log_line(text: &str) -> Line {
    match text.starts_with("── iteration ") {
        true => one(Tone::Title, text),
        false => one(Tone::Plain, text),
    }
}

/// Each iteration: what it claimed, what the gates said, what became of it, what it cost.
fn timeline(data: &LoopData, state: &BoardState, scene: &Scene, width: u16) -> Vec<Line> {
    let look = &scene.look;
    let iterations = &data.page.iterations;
    let row = if state.is_following { iterations.len().saturating_sub(1) } else { state.row };
    let mut lines = Vec::new();
    for (at, own) in iterations.iter().enumerate() {
        if own.iteration == 0
            && own.gates.is_empty()
            && own.notes.is_empty()
            && own.claim.is_empty()
            && iterations.len() > 1
            && at != row
        {
            continue;
        }
        lines.push(iteration_line(own, at == row, data, scene));
        let room = usize::from(width).saturating_sub(6);
        let mut push =
            |tone: Tone, text: &str| lines.push(one(tone, format!("      {}", cut(text, room, look))));
        for attempt in &own.attempts {
            if let Some(detail) = attempt.detail.as_ref() {
                push(
                    Tone::Alert,
                    &format!("{}: {detail}", attempt.outcome.map_or("", |outcome| outcome.as_str())),
                );
            }
        }
        if !own.claim.is_empty() {
            push(Tone::Plain, &format!("claims to be done: {}", own.claim.join(", ")));
        }
        for gate in &own.gates {
            let (tone, how) = match (gate.passed, gate.tolerated) {
                (None, _) => (Tone::Busy, "runs".to_owned()),
                (Some(true), _) if gate.flaky => (Tone::Good, "passed only when tried again".to_owned()),
                (Some(true), _) => (Tone::Good, "passed".to_owned()),
                (Some(false), true) => (Tone::Quiet, "red as before, tolerated".to_owned()),
                (Some(false), false) => (Tone::Bad, format!("exited {}", gate.exit_code.unwrap_or(-1))),
            };
            let role = match gate.role {
                GateRole::Gate => "gate",
                GateRole::Until => "until",
                GateRole::Baseline => "before the first agent",
            };
            let took = gate.duration_ms.map(|took| format!(" in {}", took.human())).unwrap_or_default();
            push(
                tone,
                &format!(
                    "{} {role} `{}` {how}{took}",
                    look.sign(match gate.passed {
                        None => "gating",
                        Some(true) => "passed",
                        Some(false) => "failed",
                    }),
                    gate.name
                ),
            );
        }
        if let Some(Verdict::Refused { detail, .. }) = &own.verdict {
            push(Tone::Bad, &format!("refused: {detail}"));
        }
        for note in &own.notes {
            let tone = match note.kind.as_str() {
                "question" | "warned" | "blocked" | "budget" => Tone::Alert,
                _ => Tone::Quiet,
            };
            push(tone, &format!("{} {}: {}", clock(note.at, &scene.zone), note.kind, note.text));
        }
    }
    lines
}

fn iteration_line(own: &IterationLine, is_chosen: bool, data: &LoopData, scene: &Scene) -> Line {
    let look = &scene.look;
    let is_newest = data.page.iterations.last().is_some_and(|last| last.seq == own.seq);
    let is_dead = own.ended_at.is_none() && data.view.is_over();
    let words = if is_dead || (own.ended_at.is_none() && !is_newest) { "interrupted" } else { own.words() };
    let (sign, tone) = match words {
        "accepted" | "accepted, unverified" => ("accepted", Tone::Good),
        "refused" => ("refused", Tone::Bad),
        "working" => ("running", Tone::Busy),
        "checking" => ("gating", Tone::Busy),
        "interrupted" => ("interrupted", Tone::Alert),
        "waits for a person" => ("asking", Tone::Alert),
        "blocked" => ("blocked", Tone::Bad),
        _ => ("", Tone::Plain),
    };
    let name = match own.iteration {
        0 => "before the first".to_owned(),
        number => format!("iteration {number}"),
    };
    let spent = money(own.cost_usd, own.tokens, own.cost_estimated)
        .map(|spent| format!("  {spent}"))
        .unwrap_or_default();
    let lasted = if is_dead { String::new() } else { format!("  {}", own.lasted(scene.now).human_seconds()) };
    let agent = own.attempts.last().map(|attempt| format!("  {}", attempt.agent)).unwrap_or_default();
    vec![
        (
            Tone::Title,
            format!("{}{} {name:<16}", cursor(is_chosen, look), clock(own.started_at, &scene.zone)),
        ),
        (tone, format!("{} {words}", look.sign(sign))),
        (Tone::Plain, format!("{lasted}{spent}")),
        (Tone::Quiet, agent),
    ]
}

fn diff(data: &LoopData, state: &BoardState) -> Vec<Line> {
    let what = match state.iteration {
        Some(number) => format!("what iteration {number} changed; [ and ] choose another"),
        None => "what the loop changed in all; [ and ] choose an iteration".to_owned(),
    };
    let mut lines = vec![one(Tone::Quiet, what), Vec::new()];
    match &data.diff {
        Err(why) => lines.push(one(Tone::Quiet, why.clone())),
        Ok(text) if text.is_empty() => lines.push(one(Tone::Quiet, "no file was changed")),
        Ok(text) => lines.extend(text.iter().map(|text| {
            let tone = match text.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Tone::Title,
                [b'd', b'i', b'f', b'f', ..] => Tone::Title,
                [b'+', ..] => Tone::Good,
                [b'-', ..] => Tone::Bad,
                [b'@', ..] => Tone::Busy,
                _ => Tone::Plain,
            };
            one(tone, text.clone())
        })),
    }
    lines
}

fn receipt_lines(receipt: &Receipt, scene: &Scene) -> Vec<Line> {
    let look = &scene.look;
    let tone = if receipt.verdict == "verified" { Tone::Good } else { Tone::Alert };
    let mut lines = vec![
        vec![(Tone::Plain, "verdict     ".to_owned()), (tone, receipt.verdict.clone())],
        one(Tone::Plain, format!("iterations  {}", receipt.iterations)),
        one(
            Tone::Plain,
            format!(
                "cost        {}",
                money(receipt.cost_usd, receipt.tokens.map(|usage| usage.total()), false)
                    .unwrap_or_else(|| "unknown".to_owned())
            ),
        ),
        one(Tone::Plain, format!("tree        {}", receipt.tree.as_deref().unwrap_or("none"))),
        one(Tone::Plain, format!("base        {}", receipt.base.as_deref().unwrap_or("none"))),
        one(Tone::Plain, format!("sha256      {}", receipt.sha256)),
    ];
    if let Some(by) = &receipt.approved_by {
        lines.push(one(Tone::Alert, format!("approved by {by}")));
    }
    for gate in &receipt.gates {
        let how =
            if gate.exit_code == 0 { "passed".to_owned() } else { format!("exited {}", gate.exit_code) };
        lines.push(one(
            if gate.exit_code == 0 { Tone::Good } else { Tone::Plain },
            format!(
                "gate        {} {how} in {}  {}",
                look.sign("passed"),
                Millis(gate.duration_ms).human(),
                gate.command
            ),
        ));
    }
    for refusal in &receipt.refusals {
        lines.push(one(
            Tone::Bad,
            format!(
                "refused     iteration {}, {}: {}",
                refusal.iteration,
                refusal.reason.words(),
                dacapo_core::text::visible::visible(&refusal.detail)
            ),
        ));
    }
    for commit in &receipt.commits {
        lines.push(one(Tone::Plain, format!("commit      {commit}")));
    }
    lines
}

/// The graph of a run as a list: what comes later stands further in; then the merge train.
fn units_page(
    card: Option<&Card>,
    page: &RunPage,
    state: &BoardState,
    scene: &Scene,
    width: u16,
) -> (Vec<Line>, Vec<Line>) {
    let look = &scene.look;
    let dot = look.dot();
    let mut first = Vec::new();
    if let Some(card) = card {
        let mut about = vec![format!("{} {}", look.sign_of(card), card.words())];
        about.extend(card.parts.clone());
        about.extend(money(card.cost_usd, card.tokens, card.cost_estimated));
        first = vec![
            (Tone::Title, format!("{} ", card.name)),
            (Tone::Quiet, format!("{} ", card.id)),
            (Theme::tone_of(card), about.join(&format!(" {dot} "))),
        ];
    }
    let mut lines = Vec::new();
    for (at, unit) in page.units.iter().enumerate() {
        let (sign, tone) = match unit.status {
            UnitStatus::Queued => ("queued", Tone::Quiet),
            UnitStatus::Working => ("running", Tone::Busy),
            UnitStatus::WaitingToMerge => ("waiting", Tone::Plain),
            UnitStatus::Merging | UnitStatus::Publishing => ("merging", Tone::Busy),
            UnitStatus::Merged | UnitStatus::Completed => ("completed", Tone::Good),
            UnitStatus::Failed => ("failed", Tone::Bad),
            UnitStatus::Blocked => ("blocked", Tone::Bad),
            UnitStatus::Stopped => ("interrupted", Tone::Alert),
        };
        let indent = "  ".repeat(unit.level.min(8) as usize);
        let after: Vec<&str> = unit.depends_on.iter().map(AsRef::as_ref).collect();
        let after = if after.is_empty() {
            String::new()
        } else {
            format!("  {} {}", if look.is_ascii { "<-" } else { "←" }, after.join(", "))
        };
        let mut words = vec![format!("{} {}", look.sign(sign), unit.words)];
        words.push(format!("{}/{} tasks", unit.tasks.done, unit.tasks.all));
        if unit.max_iterations > 0 {
            words.push(format!("iteration {}/{}", unit.iteration, unit.max_iterations));
        }
        words.extend(unit.slot.map(|slot| format!("slot {slot}")));
        words.extend(money(unit.cost_usd, None, false));
        lines.push(vec![
            (
                Tone::Title,
                format!("{}{:<26}", cursor(at == state.row, look), format!("{indent}{}", unit.unit.as_str())),
            ),
            (tone, format!(" {}", words.join(&format!(" {dot} ")))),
            (Tone::Quiet, after),
        ]);
        if let Some(detail) =
            unit.detail.as_ref().filter(|_| at == state.row || unit.status == UnitStatus::Failed)
        {
            lines.push(one(
                Tone::Alert,
                format!("    {indent}{}", cut(detail, usize::from(width).saturating_sub(8), look)),
            ));
        }
    }
    lines.push(Vec::new());
    lines.push(one(Tone::Title, "Merge train"));
    let cars: Vec<String> = page
        .train
        .iter()
        .map(|own| {
            format!(
                "[{} {} {}]",
                look.sign(match own.state.as_str() {
                    "sent_back" => "refused",
                    other => other,
                }),
                own.unit.as_str(),
                own.state.replace('_', " ")
            )
        })
        .collect();
    let mut row = String::from(" ");
    for own in cars {
        if columns(&row) + columns(&own) + 4 > usize::from(width) && row.len() > 1 {
            lines.push(one(Tone::Plain, std::mem::replace(&mut row, String::from(" "))));
        }
        row.push_str(&format!(" {own}"));
    }
    if row.trim().is_empty() {
        lines.push(one(Tone::Quiet, "  nothing is on its way into the target yet"));
    } else {
        row.push_str(&format!(
            " {} {}",
            look.arrow(),
            card.and_then(|card| card.branch.clone()).unwrap_or_default()
        ));
        lines.push(one(Tone::Plain, row));
    }
    (vec![first, one(Tone::Quiet, "Units, each below those that it waits for")], lines)
}

fn workflow_page(
    view: &WorkflowView,
    page: &WorkflowPage,
    state: &BoardState,
    scene: &Scene,
) -> (Vec<Line>, Vec<Line>) {
    let look = &scene.look;
    let dot = look.dot();
    let mut first = vec![
        (Tone::Title, format!("{} ", cut(&dacapo_core::text::visible::visible(&view.workflow), 40, look))),
        (Tone::Quiet, format!("{} ", view.id)),
    ];
    if let Some(card) = state.acted_on() {
        first.push((Theme::tone_of(card), format!("{} {}", look.sign_of(card), card.words())));
    }
    let mut lines = Vec::new();
    for (at, step) in page.steps.iter().enumerate() {
        let indent = "  ".repeat(step.level.min(8) as usize);
        let mut words = vec![format!("{} {}", look.sign(&step.view.state), step.view.state)];
        if let Some(most) = step.view.max_iterations {
            words.push(format!("iteration {}/{most}", step.iteration));
        }
        words.extend(money(step.cost_usd, None, false));
        let tone = match step.view.state.as_str() {
            "running" | "merging" => Tone::Busy,
            "completed" => Tone::Good,
            "failed" | "rejected" => Tone::Bad,
            "asking" | "held" => Tone::Alert,
            _ => Tone::Quiet,
        };
        lines.push(vec![
            (
                Tone::Title,
                format!(
                    "{}{:<26}",
                    cursor(at == state.row, look),
                    format!("{indent}{}", step.view.id.as_str())
                ),
            ),
            (Tone::Quiet, format!(" {:<10}", step.view.kind)),
            (tone, format!(" {}", words.join(&format!(" {dot} ")))),
        ]);
        if let Some(detail) = &step.view.detail {
            let detail = dacapo_core::text::visible::visible(detail.lines().next().unwrap_or_default());
            lines.push(one(Tone::Quiet, format!("    {indent}{detail}")));
        }
    }
    if let Some(question) = &view.question {
        lines.push(Vec::new());
        lines.push(one(Tone::Alert, format!("{} It asks, at step {}:", look.sign("asking"), question.step)));
        for text in dacapo_core::text::visible::visible(&question.message).lines() {
            lines.push(one(Tone::Plain, format!("  {text}")));
        }
        let known: Vec<String> = question
            .decisions
            .iter()
            .map(|own| match &own.label {
                Some(label) => format!("{} ({label})", own.id),
                None => own.id.clone(),
            })
            .collect();
        let how = if known.is_empty() {
            "a approves, x rejects".to_owned()
        } else {
            format!("a decides: {}", known.join(", "))
        };
        lines.push(one(Tone::Quiet, format!("  {}", dacapo_core::text::visible::visible(&how))));
    }
    (vec![first, one(Tone::Quiet, "Steps, each below those that it waits for")], lines)
}

fn task_page(
    view: &StageTaskView,
    page: &TaskPage,
    state: &BoardState,
    scene: &Scene,
) -> (Vec<Line>, Vec<Line>) {
    let look = &scene.look;
    let dot = look.dot();
    let shown = |text: &str| dacapo_core::text::visible::visible(text);
    let mut first = vec![
        (Tone::Title, format!("{} ", view.task)),
        (Tone::Plain, format!("{} ", cut(&shown(&view.title), 50, look))),
    ];
    if let Some(card) = state.acted_on() {
        first.push((Theme::tone_of(card), format!("{} {}", look.sign_of(card), card.words())));
    }
    let mut lines = Vec::new();
    for (at, stage) in page.stages.iter().enumerate() {
        let mut words = vec![format!("{} {}", look.sign(&stage.state), stage.state)];
        if stage.max_iterations > 0 {
            words.push(format!("{}/{} iterations", stage.iterations, stage.max_iterations));
        }
        words.extend(money(stage.cost_usd, None, false));
        let tone = match stage.state.as_str() {
            "running" => Tone::Busy,
            "passed" => Tone::Good,
            "failed" | "refused" => Tone::Bad,
            "asking" | "held" => Tone::Alert,
            _ => Tone::Plain,
        };
        lines.push(vec![
            (Tone::Title, format!("{}{:<10}", cursor(at == state.row, look), stage.stage)),
            (tone, format!(" {}", words.join(&format!(" {dot} ")))),
        ]);
        if let Some(detail) = &stage.detail {
            lines.push(one(Tone::Quiet, format!("    {detail}")));
        }
    }
    if page.stages.is_empty() {
        lines.push(one(Tone::Quiet, "no stage has begun yet"));
    }
    if let Some(question) = &view.question {
        lines.push(Vec::new());
        lines.push(one(Tone::Alert, format!("{} The {} asks:", look.sign("asking"), question.stage)));
        lines.extend(shown(&question.text).lines().map(|text| one(Tone::Plain, format!("  {text}"))));
        lines.push(one(Tone::Quiet, "  a approves, x rejects"));
    }
    if !page.findings.is_empty() {
        lines.push(Vec::new());
        lines.push(one(Tone::Title, "Findings of reviews"));
        for (number, how, text) in &page.findings {
            lines.push(one(Tone::Plain, format!("  F{number} ({how}): {text}")));
        }
    }
    (vec![first, one(Tone::Quiet, "Stages")], lines)
}
