//! What the terminal board shows and what its keys mean: pure, so that a table of keys is a test of it.

use std::collections::HashMap;

use dacapo_core::{
    ids::LoopId,
    view::{
        Action, Board, Card, CardKind, Costs, Lane, LoopPage, LoopView, RunPage, RunView, StageTaskView,
        TaskPage, WorkflowPage, WorkflowView,
    },
};

/// A key, as far as the board knows keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoardKey {
    Char(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl with a letter.
    Ctrl(char),
}

/// What a part of a loop's page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tab {
    Timeline,
    Log,
    Prompt,
    Diff,
    Receipt,
}

impl Tab {
    pub(crate) const ALL: [Self; 5] = [Self::Timeline, Self::Log, Self::Prompt, Self::Diff, Self::Receipt];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Timeline => "Timeline",
            Self::Log => "Log",
            Self::Prompt => "Prompt",
            Self::Diff => "Diff",
            Self::Receipt => "Receipt",
        }
    }
}

/// One screen; the board is below all others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sheet {
    /// A loop, with what of it is shown.
    Loop {
        id: LoopId,
        tab: Tab,
    },
    /// A run of units, of a workflow or of a task, by the id of its card.
    Run {
        id: String,
        kind: CardKind,
    },
    Costs {
        span: Span,
    },
    /// Who needs a person.
    Needs,
    Help,
}

/// How far back costs are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Day,
    Week,
    Month,
}

impl Span {
    pub(crate) const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
        }
    }

    pub(crate) fn hours(self) -> i64 {
        match self {
            Self::Day => 24,
            Self::Week => 7 * 24,
            Self::Month => 30 * 24,
        }
    }

    /// The length of one bar, in hours.
    pub(crate) fn step_hours(self) -> i64 {
        match self {
            Self::Day => 1,
            Self::Week | Self::Month => 24,
        }
    }
}

/// What is being typed or asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typing {
    Nothing,
    Filter(String),
    Command(String),
    /// A line for the agent of this target.
    Steer {
        target: String,
        name: String,
        text: String,
    },
    /// What to say with an approval, or which decision.
    Approve {
        target: String,
        name: String,
        text: String,
        decisions: Vec<String>,
    },
    Reject {
        target: String,
        name: String,
        text: String,
    },
    /// Whether to do something that cannot be taken back.
    Confirm {
        question: String,
        act: Act,
    },
}

/// A command of dacapo that the user asked for by a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Act {
    /// What is being done, for the line that says so.
    pub(crate) doing: String,
    pub(crate) args: Vec<String>,
}

/// What follows from a key besides another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BoardEffect {
    Quit,
    Suspend,
    Act(Act),
    /// A person looks at this loop or run.
    Look(String),
    /// Older ends are wanted.
    More,
    Redraw,
}

/// The page of a loop with its texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoopData {
    pub(crate) view: LoopView,
    pub(crate) page: LoopPage,
    pub(crate) log: Vec<String>,
    /// How many lines of the log came before those that are kept.
    pub(crate) log_dropped: usize,
    /// The newest prompt that an agent was given, as lines.
    pub(crate) prompt: Vec<String>,
    /// Lines of the difference, and why there is none.
    pub(crate) diff: Result<Vec<String>, String>,
    /// The iteration that `diff` is of; all of the loop without one.
    pub(crate) diff_of: Option<u32>,
}

/// What the screen on top is about, as the journal has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Nothing,
    Loop(Box<LoopData>),
    Units(Box<(RunView, RunPage)>),
    Workflow(Box<(WorkflowView, WorkflowPage)>),
    Task(Box<(StageTaskView, TaskPage)>),
    Costs(Box<Costs>),
    /// It is not in the journal any more, or could not be read.
    Gone(String),
}

/// Everything that the screen is drawn from.
#[derive(Clone, Debug)]
pub(crate) struct BoardState {
    pub(crate) board: Board,
    /// Screens above the board, the last on top.
    pub(crate) stack: Vec<Sheet>,
    pub(crate) data: Data,
    /// The card that the cursor is on; the cursor stays on it wherever it goes.
    pub(crate) selected: Option<String>,
    /// Where the cursor was, for when its card goes away.
    place: (Lane, usize),
    /// The card that a lane is shown from.
    pub(crate) tops: HashMap<Lane, String>,
    pub(crate) filter: String,
    pub(crate) typing: Typing,
    /// The last thing that was done, and whether it went wrong.
    pub(crate) message: Option<(bool, String)>,
    /// The first line of a page that is shown.
    pub(crate) scroll: usize,
    /// Whether a log shows its end.
    pub(crate) is_following: bool,
    /// The line of a list that the cursor is on.
    pub(crate) row: usize,
    /// The iteration whose difference is shown, by its number.
    pub(crate) iteration: Option<u32>,
    /// How many lines of a page, and how many cards of a lane, have room.
    pub(crate) room: usize,
    pub(crate) cards_room: usize,
    /// How many lines the page on top has.
    pub(crate) lines: usize,
    /// Why the journal could not be read the last time.
    pub(crate) trouble: Option<String>,
}

impl BoardState {
    pub(crate) fn new(board: Board) -> Self {
        let mut state = Self {
            board,
            stack: Vec::new(),
            data: Data::Nothing,
            selected: None,
            place: (Lane::Running, 0),
            tops: HashMap::new(),
            filter: String::new(),
            typing: Typing::Nothing,
            message: None,
            scroll: 0,
            is_following: true,
            row: 0,
            iteration: None,
            room: 20,
            cards_room: 3,
            lines: 0,
            trouble: None,
        };
        state.keep_selection();
        state
    }

    /// The screen on top; nothing is the board.
    pub(crate) fn screen(&self) -> Option<&Sheet> {
        self.stack.last()
    }

    /// Takes a newer board; the cursor stays on its card.
    pub(crate) fn set_board(&mut self, board: Board) {
        self.board = board;
        self.keep_selection();
    }

    /// The filter in force: the one that is typed just now, or the one that was.
    pub(crate) fn filter_in_force(&self) -> &str {
        match &self.typing {
            Typing::Filter(text) => text,
            _ => &self.filter,
        }
    }

    /// Whether a card is shown with the filter in force.
    fn is_shown(&self, card: &Card) -> bool {
        let filter = self.filter_in_force().to_lowercase();
        filter.split_whitespace().all(|word| {
            [
                card.id.as_str(),
                &card.name,
                card.title.as_deref().unwrap_or_default(),
                card.agent.as_deref().unwrap_or_default(),
                card.stage.as_deref().unwrap_or_default(),
                card.project.as_str(),
                &card.state,
                card.words(),
                card.kind.as_str(),
                card.lane.as_str(),
            ]
            .iter()
            .any(|text| text.to_lowercase().contains(word))
        })
    }

    /// The cards of a lane that are shown.
    pub(crate) fn cards(&self, lane: Lane) -> Vec<&Card> {
        self.board.lane(lane).iter().filter(|card| self.is_shown(card)).collect()
    }

    /// Lanes that have a card.
    pub(crate) fn lanes(&self) -> Vec<Lane> {
        Lane::ALL
            .into_iter()
            .filter(|lane| self.board.lane(*lane).iter().any(|card| self.is_shown(card)))
            .collect()
    }

    pub(crate) fn selected_card(&self) -> Option<&Card> {
        let id = self.selected.as_deref()?;
        self.board.cards().find(|card| card.id == id)
    }

    /// Puts the cursor back on its card, or on the one that took its place.
    fn keep_selection(&mut self) {
        let at =
            self.selected_card().filter(|card| self.is_shown(card)).map(|card| (card.lane, card.id.clone()));
        if let Some((lane, id)) = at {
            let index = self.cards(lane).iter().position(|card| card.id == id).unwrap_or(0);
            self.place = (lane, index);
        } else {
            let lanes = self.lanes();
            let (lane, index) = self.place;
            let lane = if lanes.contains(&lane) {
                lane
            } else {
                // What is at work is looked at first.
                let by_interest = [
                    Lane::Running,
                    Lane::Coder,
                    Lane::Reviewer,
                    Lane::Tester,
                    Lane::Qa,
                    Lane::Waiting,
                    Lane::Done,
                    Lane::Todo,
                ];
                by_interest.into_iter().find(|lane| lanes.contains(lane)).unwrap_or(Lane::Running)
            };
            let cards = self.cards(lane);
            let index = index.min(cards.len().saturating_sub(1));
            self.selected = cards.get(index).map(|card| card.id.clone());
            self.place = (lane, index);
        }
        self.keep_in_sight();
    }

    /// Moves what is shown of the lane no further than the cursor needs.
    fn keep_in_sight(&mut self) {
        let (lane, index) = self.place;
        let ids: Vec<String> = self.cards(lane).iter().map(|card| card.id.clone()).collect();
        let top = self.top(lane);
        let room = self.cards_room.max(1);
        let top = top.min(index).max((index + 1).saturating_sub(room));
        match ids.get(top) {
            Some(id) => self.tops.insert(lane, id.clone()),
            None => self.tops.remove(&lane),
        };
        // Lanes that are not looked at begin with what is newest in them.
        self.tops.retain(|known, _| *known == lane);
    }

    /// The first card of a lane that is shown.
    pub(crate) fn top(&self, lane: Lane) -> usize {
        let Some(top) = self.tops.get(&lane) else { return 0 };
        self.cards(lane).iter().position(|card| card.id == *top).unwrap_or(0)
    }

    /// Says how much room there is; the cursor stays in sight.
    pub(crate) fn set_room(&mut self, lines: usize, cards: usize) {
        if (self.room, self.cards_room) != (lines, cards) {
            (self.room, self.cards_room) = (lines, cards);
            self.keep_in_sight();
        }
    }

    fn select(&mut self, lane: Lane, index: usize) {
        let found = {
            let cards = self.cards(lane);
            let index = index.min(cards.len().saturating_sub(1));
            cards.get(index).map(|card| (card.id.clone(), index))
        };
        if let Some((id, index)) = found {
            (self.selected, self.place) = (Some(id), (lane, index));
            self.keep_in_sight();
        }
    }

    fn move_by(&mut self, rows: isize) -> Vec<BoardEffect> {
        let (lane, index) = self.place;
        let count = self.cards(lane).len();
        let to = index.saturating_add_signed(rows).min(count.saturating_sub(1));
        self.select(lane, to);
        // The end of what was read is in sight.
        if lane == Lane::Done && self.board.has_more && to + 2 >= count && rows > 0 {
            return vec![BoardEffect::More];
        }
        Vec::new()
    }

    fn move_lane(&mut self, by: isize, wraps: bool) {
        let lanes = self.lanes();
        if lanes.is_empty() {
            return;
        }
        let at = lanes.iter().position(|lane| *lane == self.place.0).unwrap_or(0);
        let last = lanes.len() - 1;
        let to = match at.checked_add_signed(by) {
            Some(to) if to <= last => to,
            _ if wraps && by > 0 => 0,
            _ if wraps => last,
            Some(_) => last,
            None => 0,
        };
        let index = self.top(lanes[to]);
        self.select(lanes[to], index);
    }

    /// What a key does.
    pub(crate) fn press(&mut self, key: BoardKey) -> Vec<BoardEffect> {
        if key == BoardKey::Ctrl('z') {
            return vec![BoardEffect::Suspend];
        }
        if key == BoardKey::Ctrl('l') {
            return vec![BoardEffect::Redraw];
        }
        if self.typing != Typing::Nothing {
            return self.type_key(key);
        }
        self.message = None;
        match (self.screen().cloned(), key) {
            (_, BoardKey::Ctrl('c')) => vec![BoardEffect::Quit],
            (None, BoardKey::Char('q')) => vec![BoardEffect::Quit],
            (Some(Sheet::Help), BoardKey::Char('q' | '?')) => self.back(),
            (Some(_), BoardKey::Char('q')) => vec![BoardEffect::Quit],
            (None, BoardKey::Esc) => {
                self.filter.clear();
                self.keep_selection();
                Vec::new()
            }
            (Some(_), BoardKey::Esc | BoardKey::Backspace) => self.back(),
            (_, BoardKey::Char('?')) => self.open(Sheet::Help),
            (_, BoardKey::Char('$')) => self.open(Sheet::Costs { span: Span::Day }),
            (_, BoardKey::Char('!')) => self.open(Sheet::Needs),
            (_, BoardKey::Char(':')) => {
                self.typing = Typing::Command(String::new());
                Vec::new()
            }
            (_, BoardKey::Char('p')) => self.ask(Action::Pause),
            (_, BoardKey::Char('r')) => self.ask(Action::Resume),
            (_, BoardKey::Char('c')) => self.ask(Action::Cancel),
            (_, BoardKey::Char('s')) => self.ask(Action::Steer),
            (_, BoardKey::Char('a')) => self.ask(Action::Approve),
            (_, BoardKey::Char('x')) => self.ask(Action::Reject),
            (_, BoardKey::Char('u')) => self.ask_restore(),
            (None, key) => self.press_on_board(key),
            (Some(screen), key) => self.press_on_page(&screen, key),
        }
    }

    fn press_on_board(&mut self, key: BoardKey) -> Vec<BoardEffect> {
        let page = isize::try_from(self.cards_room.max(1)).unwrap_or(1);
        match key {
            BoardKey::Char('j') | BoardKey::Down => return self.move_by(1),
            BoardKey::Char('k') | BoardKey::Up => return self.move_by(-1),
            BoardKey::PageDown | BoardKey::Ctrl('d' | 'f') => return self.move_by(page),
            BoardKey::PageUp | BoardKey::Ctrl('u' | 'b') => return self.move_by(-page),
            BoardKey::Char('g') | BoardKey::Home => return self.move_by(isize::MIN / 2),
            BoardKey::Char('G') | BoardKey::End => return self.move_by(isize::MAX / 2),
            BoardKey::Tab => self.move_lane(1, true),
            BoardKey::BackTab => self.move_lane(-1, true),
            BoardKey::Char('h') | BoardKey::Left => self.move_lane(-1, false),
            BoardKey::Right => self.move_lane(1, false),
            BoardKey::Char('/') => self.typing = Typing::Filter(self.filter.clone()),
            BoardKey::Char('n') => self.select_next_need(),
            BoardKey::Enter => return self.open_selected(None),
            BoardKey::Char('l') => return self.open_selected(Some(Tab::Log)),
            BoardKey::Char('d') => return self.open_selected(Some(Tab::Diff)),
            BoardKey::Char('t') => return self.open_selected(Some(Tab::Timeline)),
            BoardKey::Char('f') => {
                let effects = self.open_selected(Some(Tab::Log));
                self.is_following = true;
                return effects;
            }
            _ => {}
        }
        Vec::new()
    }

    /// The next card that needs a person, the most urgent first.
    fn select_next_need(&mut self) {
        let ids: Vec<(Lane, String)> = {
            let mut cards: Vec<&Card> =
                self.board.cards().filter(|card| card.need.is_some() && self.is_shown(card)).collect();
            cards.sort_by_key(|card| card.need);
            cards.iter().map(|card| (card.lane, card.id.clone())).collect()
        };
        let at = ids.iter().position(|(_, id)| Some(id) == self.selected.as_ref());
        let next = at.map_or(0, |at| (at + 1) % ids.len().max(1));
        if let Some((lane, id)) = ids.get(next) {
            let index = self.cards(*lane).iter().position(|card| card.id == *id).unwrap_or(0);
            self.select(*lane, index);
        } else {
            self.message = Some((false, "nothing needs you".to_owned()));
        }
    }

    fn press_on_page(&mut self, screen: &Sheet, key: BoardKey) -> Vec<BoardEffect> {
        let page = self.room.saturating_sub(2).max(1);
        let is_list = matches!(screen, Sheet::Run { .. } | Sheet::Needs)
            || matches!(screen, Sheet::Loop { tab: Tab::Timeline, .. });
        match key {
            BoardKey::Char('j') | BoardKey::Down if is_list => self.move_row(1),
            BoardKey::Char('k') | BoardKey::Up if is_list => self.move_row(-1),
            BoardKey::Char('j') | BoardKey::Down => self.scroll_by(1),
            BoardKey::Char('k') | BoardKey::Up => self.scroll_by(-1),
            BoardKey::PageDown | BoardKey::Ctrl('d' | 'f') | BoardKey::Char(' ') => {
                self.page_by(page, true, is_list)
            }
            BoardKey::PageUp | BoardKey::Ctrl('u' | 'b') => self.page_by(page, false, is_list),
            BoardKey::Char('g') | BoardKey::Home => {
                (self.scroll, self.row, self.is_following) = (0, 0, false);
            }
            BoardKey::Char('G') | BoardKey::End => {
                self.row = self.rows().saturating_sub(1);
                self.scroll_to_end();
            }
            BoardKey::Char('f') => match screen {
                Sheet::Loop { tab: Tab::Log | Tab::Timeline, .. } => {
                    self.is_following = !self.is_following;
                    if self.is_following {
                        self.scroll_to_end();
                        self.row = self.rows().saturating_sub(1);
                    }
                    let words = if self.is_following { "follows" } else { "stays where it is" };
                    self.message = Some((false, words.to_owned()));
                }
                Sheet::Loop { .. } => {
                    self.set_tab(Tab::Log);
                    self.is_following = true;
                }
                _ => {}
            },
            BoardKey::Char('l') => self.open_tab(Tab::Log),
            BoardKey::Char('d') => self.open_tab(Tab::Diff),
            BoardKey::Char('t') => self.open_tab(Tab::Timeline),
            BoardKey::Char('o') => self.open_tab(Tab::Prompt),
            BoardKey::Char('R') => self.open_tab(Tab::Receipt),
            BoardKey::Char(digit @ '1'..='5') if matches!(screen, Sheet::Loop { .. }) => {
                let at = digit as usize - '1' as usize;
                self.open_tab(Tab::ALL[at]);
            }
            BoardKey::Tab | BoardKey::BackTab | BoardKey::Left | BoardKey::Right => {
                let by = if matches!(key, BoardKey::Tab | BoardKey::Right) { 1 } else { -1 };
                match screen {
                    Sheet::Loop { tab, .. } => self.set_tab(next_of(&Tab::ALL, *tab, by)),
                    Sheet::Costs { span } => {
                        let span = next_of(&Span::ALL, *span, by);
                        self.replace(Sheet::Costs { span });
                    }
                    _ => {}
                }
            }
            BoardKey::Char('[' | ']') => self.other_iteration(key == BoardKey::Char(']')),
            BoardKey::Enter => return self.open_row(screen),
            _ => {}
        }
        Vec::new()
    }

    fn back(&mut self) -> Vec<BoardEffect> {
        self.stack.pop();
        self.fresh_page();
        Vec::new()
    }

    fn fresh_page(&mut self) {
        (self.scroll, self.row, self.iteration) = (0, 0, None);
        (self.is_following, self.lines) = (true, 0);
        self.data = Data::Nothing;
    }

    fn open(&mut self, screen: Sheet) -> Vec<BoardEffect> {
        if self.screen() == Some(&screen) {
            return Vec::new();
        }
        let looked = match &screen {
            Sheet::Loop { id, .. } => Some(id.to_string()),
            Sheet::Run { id, .. } => Some(id.clone()),
            _ => None,
        };
        // The same kind of screen twice is left by one Esc.
        self.stack.retain(|known| {
            std::mem::discriminant(known) != std::mem::discriminant(&screen)
                || matches!(known, Sheet::Loop { .. } | Sheet::Run { .. })
        });
        self.stack.push(screen);
        self.fresh_page();
        looked.map(BoardEffect::Look).into_iter().collect()
    }

    fn replace(&mut self, screen: Sheet) {
        self.stack.pop();
        self.stack.push(screen);
        self.fresh_page();
    }

    fn set_tab(&mut self, tab: Tab) {
        if let Some(Sheet::Loop { tab: own, .. }) = self.stack.last_mut() {
            *own = tab;
            (self.scroll, self.row, self.lines) = (0, 0, 0);
            self.is_following = true;
        }
    }

    fn open_tab(&mut self, tab: Tab) {
        if matches!(self.screen(), Some(Sheet::Loop { .. })) {
            // The iteration under the cursor is the one whose difference is shown.
            if tab == Tab::Diff
                && let (Some(Sheet::Loop { tab: Tab::Timeline, .. }), Data::Loop(data)) =
                    (self.screen(), &self.data)
                && !self.is_following
            {
                self.iteration =
                    data.page.iterations.get(self.row).map(|line| line.iteration).filter(|i| *i > 0);
            }
            self.set_tab(tab);
        }
    }

    fn other_iteration(&mut self, is_next: bool) {
        let Data::Loop(data) = &self.data else { return };
        let mut known: Vec<u32> =
            data.page.iterations.iter().map(|line| line.iteration).filter(|number| *number > 0).collect();
        known.dedup();
        let at = self.iteration.and_then(|wanted| known.iter().position(|number| *number == wanted));
        self.iteration = match (at, is_next) {
            (None, true) => known.first().copied(),
            (None, false) => known.last().copied(),
            (Some(at), true) => known.get(at + 1).copied(),
            (Some(at), false) => at.checked_sub(1).and_then(|at| known.get(at).copied()),
        };
        self.scroll = 0;
    }

    /// Opens the page of the card under the cursor, or of its loop with one part of it.
    fn open_selected(&mut self, tab: Option<Tab>) -> Vec<BoardEffect> {
        let Some(card) = self.selected_card() else { return Vec::new() };
        let screen = screen_of(card, tab);
        match screen {
            Ok(screen) => self.open(screen),
            Err(why) => {
                self.message = Some((false, why));
                Vec::new()
            }
        }
    }

    /// How many lines the list on top has.
    fn rows(&self) -> usize {
        match (&self.data, self.screen()) {
            (Data::Loop(data), _) => data.page.iterations.len(),
            (Data::Units(data), _) => data.1.units.len(),
            (Data::Workflow(data), _) => data.1.steps.len(),
            (Data::Task(data), _) => data.1.stages.len(),
            (_, Some(Sheet::Needs)) => self.board.needs.len(),
            _ => 0,
        }
    }

    fn move_row(&mut self, by: isize) {
        self.is_following = false;
        self.row = self.row.saturating_add_signed(by).min(self.rows().saturating_sub(1));
    }

    fn page_by(&mut self, lines: usize, is_down: bool, is_list: bool) {
        let by = isize::try_from(lines).unwrap_or(1);
        let by = if is_down { by } else { -by };
        if is_list { self.move_row(by) } else { self.scroll_by(by) }
    }

    /// The last line that can stand at the top.
    fn last_top(&self) -> usize {
        self.lines.saturating_sub(self.room)
    }

    fn scroll_by(&mut self, by: isize) {
        let from = if self.is_following_log() { self.last_top() } else { self.scroll };
        self.scroll = from.saturating_add_signed(by).min(self.last_top());
        // Who reads is not moved; who is at the end again follows again.
        if matches!(self.screen(), Some(Sheet::Loop { tab: Tab::Log, .. })) {
            self.is_following = by > 0 && self.scroll == self.last_top();
        }
    }

    fn scroll_to_end(&mut self) {
        self.scroll = self.last_top();
        if matches!(self.screen(), Some(Sheet::Loop { tab: Tab::Log | Tab::Timeline, .. })) {
            self.is_following = true;
        }
    }

    pub(crate) fn is_following_log(&self) -> bool {
        self.is_following && matches!(self.screen(), Some(Sheet::Loop { tab: Tab::Log, .. }))
    }

    fn open_row(&mut self, screen: &Sheet) -> Vec<BoardEffect> {
        let opened = match (&self.data, screen) {
            (Data::Units(data), _) => {
                data.1.units.get(self.row).map(|unit| (unit.loop_id.clone(), unit.unit.to_string()))
            }
            (Data::Workflow(data), _) => {
                data.1.steps.get(self.row).map(|step| (step.loop_id.clone(), step.view.id.to_string()))
            }
            (Data::Task(data), _) => {
                data.1.stages.get(self.row).map(|stage| (stage.loop_id.clone(), stage.stage.clone()))
            }
            (_, Sheet::Needs) => {
                let Some(need) = self.board.needs.get(self.row) else { return Vec::new() };
                let (id, name) = (need.id.clone(), need.name.clone());
                let unit = format!("{id}/{name}");
                let card = self.board.cards().find(|card| card.id == id || card.id == unit);
                return match card.map(|card| screen_of(card, None)) {
                    Some(Ok(screen)) => self.open(screen),
                    Some(Err(why)) => {
                        self.message = Some((false, why));
                        Vec::new()
                    }
                    None => Vec::new(),
                };
            }
            (Data::Loop(data), Sheet::Loop { tab: Tab::Timeline, .. }) => {
                self.iteration = data
                    .page
                    .iterations
                    .get(self.row)
                    .map(|line| line.iteration)
                    .filter(|number| *number > 0);
                let wanted = self.iteration;
                self.set_tab(Tab::Diff);
                self.iteration = wanted;
                return Vec::new();
            }
            _ => None,
        };
        match opened {
            Some((Some(id), _)) => self.open(Sheet::Loop { id, tab: Tab::Timeline }),
            Some((None, name)) => {
                self.message = Some((false, format!("no agent has worked on {name} yet")));
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// The card that keys act on: of the page on top, else the one under the cursor.
    pub(crate) fn acted_on(&self) -> Option<&Card> {
        match self.screen() {
            Some(Sheet::Loop { id, .. }) => self.board.card(id.as_str()),
            Some(Sheet::Run { id, .. }) => self.board.card(id),
            Some(Sheet::Needs) => {
                let need = self.board.needs.get(self.row)?;
                let unit = format!("{}/{}", need.id, need.name);
                self.board.cards().find(|card| card.id == need.id || card.id == unit)
            }
            Some(Sheet::Costs { .. } | Sheet::Help) => None,
            None => self.selected_card(),
        }
    }

    /// Asks for something, or says why not.
    fn ask(&mut self, action: Action) -> Vec<BoardEffect> {
        let Some(card) = self.acted_on() else {
            self.message = Some((true, format!("there is nothing here to {}", action.as_str())));
            return Vec::new();
        };
        let (target, name) = (card.target.clone(), card.name.clone());
        if !card.can(action) {
            let why = match &card.command {
                Some(command) if action == Action::Resume => format!("{name} is {}: {command}", card.words()),
                _ => format!("{name} is {}; it cannot be asked to {}", card.words(), action.as_str()),
            };
            self.message = Some((true, why));
            return Vec::new();
        }
        let act = |doing: &str, args: &[&str]| {
            vec![BoardEffect::Act(Act {
                doing: format!("{doing} {name}"),
                args: args.iter().map(|word| (*word).to_owned()).collect(),
            })]
        };
        match action {
            Action::Pause => act("pausing", &["pause", &target]),
            Action::Resume => act("resuming", &["resume", &target, "--detach"]),
            Action::Steer => {
                self.typing = Typing::Steer { target, name, text: String::new() };
                Vec::new()
            }
            Action::Approve if card.kind == CardKind::Loop => {
                let act =
                    Act { doing: format!("approving {name}"), args: vec!["approve".to_owned(), target] };
                let question = format!("Accept the tree of {name} although its tests changed?");
                self.typing = Typing::Confirm { question, act };
                Vec::new()
            }
            Action::Approve => {
                let decisions = card.decisions.clone();
                self.typing = Typing::Approve { target, name, text: String::new(), decisions };
                Vec::new()
            }
            Action::Reject => {
                self.typing = Typing::Reject { target, name, text: String::new() };
                Vec::new()
            }
            Action::Cancel => {
                let lost = match card.kind {
                    CardKind::Run => "its units that are not merged stay as they are",
                    CardKind::Task => "the task is todo again; its branch stays",
                    _ => "its agent is ended; its files stay as they are",
                };
                let question = format!("Cancel {name} for good? ({lost})");
                let act =
                    Act { doing: format!("cancelling {name}"), args: vec!["cancel".to_owned(), target] };
                self.typing = Typing::Confirm { question, act };
                Vec::new()
            }
        }
    }

    fn ask_restore(&mut self) -> Vec<BoardEffect> {
        let found = self.acted_on().and_then(|card| card.loop_id.clone().map(|id| (id, card.name.clone())));
        let id = match self.screen() {
            Some(Sheet::Loop { id, .. }) => Some((id.clone(), id.to_string())),
            _ => found,
        };
        let Some((id, name)) = id else {
            self.message = Some((true, "there are no files here to restore".to_owned()));
            return Vec::new();
        };
        let (what, args) = match self.iteration {
            Some(number) => (
                format!("as they were after iteration {number}"),
                vec!["restore".to_owned(), format!("{id}@{number}")],
            ),
            None => {
                ("as they were before the loop".to_owned(), vec!["restore".to_owned(), format!("{id}@0")])
            }
        };
        let question = format!("Put the files of {name} back {what}?");
        self.typing = Typing::Confirm { question, act: Act { doing: format!("restoring {name}"), args } };
        Vec::new()
    }

    fn type_key(&mut self, key: BoardKey) -> Vec<BoardEffect> {
        if matches!(key, BoardKey::Esc | BoardKey::Ctrl('c')) {
            let was_filter = matches!(self.typing, Typing::Filter(_));
            self.typing = Typing::Nothing;
            if was_filter {
                self.filter.clear();
                self.keep_selection();
            }
            return Vec::new();
        }
        if let Typing::Confirm { act, .. } = &self.typing {
            let act = act.clone();
            self.typing = Typing::Nothing;
            if matches!(key, BoardKey::Char('y' | 'Y')) {
                return vec![BoardEffect::Act(act)];
            }
            self.message = Some((false, "nothing was done".to_owned()));
            return Vec::new();
        }
        if key == BoardKey::Enter {
            return self.typed();
        }
        let text = match &mut self.typing {
            Typing::Filter(text) | Typing::Command(text) => text,
            Typing::Steer { text, .. } | Typing::Approve { text, .. } | Typing::Reject { text, .. } => text,
            Typing::Nothing | Typing::Confirm { .. } => return Vec::new(),
        };
        match key {
            BoardKey::Char(c) if text.len() < 4000 => text.push(c),
            BoardKey::Backspace => {
                // An empty line is left by going back further.
                let was_empty = text.pop().is_none();
                if was_empty && matches!(self.typing, Typing::Command(_)) {
                    self.typing = Typing::Nothing;
                }
            }
            BoardKey::Ctrl('u') => text.clear(),
            BoardKey::Ctrl('w') => {
                let kept = text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                text.truncate(kept);
            }
            _ => {}
        }
        if matches!(self.typing, Typing::Filter(_)) {
            self.keep_selection();
        }
        Vec::new()
    }

    /// What was typed is done.
    fn typed(&mut self) -> Vec<BoardEffect> {
        let act = |doing: String, args: Vec<String>| vec![BoardEffect::Act(Act { doing, args })];
        match std::mem::replace(&mut self.typing, Typing::Nothing) {
            Typing::Nothing | Typing::Confirm { .. } => Vec::new(),
            Typing::Filter(text) => {
                self.filter = text.trim().to_owned();
                self.keep_selection();
                Vec::new()
            }
            Typing::Command(text) => self.command(text.trim()),
            Typing::Steer { target, name, text } => match text.trim() {
                "" => Vec::new(),
                text => act(format!("steering {name}"), vec!["steer".into(), target, text.to_owned()]),
            },
            Typing::Approve { target, name, text, decisions } => {
                let text = text.trim().to_owned();
                let doing = format!("answering {name}");
                if decisions.is_empty() {
                    let mut args = vec!["approve".to_owned(), target];
                    args.extend(Some(text).filter(|text| !text.is_empty()));
                    return act(doing, args);
                }
                // A decision is one of those that are offered, and nothing that only sounds like one.
                let (decision, words) = text.split_once(' ').unwrap_or((text.as_str(), ""));
                if !decisions.iter().any(|known| known == decision) {
                    self.message = Some((true, format!("`{decision}` is none of: {}", decisions.join(", "))));
                    return Vec::new();
                }
                let mut args = vec!["approve".to_owned(), target];
                args.extend(Some(words.trim().to_owned()).filter(|words| !words.is_empty()));
                args.extend(["--decision".to_owned(), decision.to_owned()]);
                act(doing, args)
            }
            Typing::Reject { target, name, text } => {
                let mut args = vec!["reject".to_owned(), target];
                args.extend(Some(text.trim().to_owned()).filter(|text| !text.is_empty()));
                act(format!("answering {name}"), args)
            }
        }
    }

    /// What was typed behind a colon.
    fn command(&mut self, text: &str) -> Vec<BoardEffect> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "" => Vec::new(),
            "q" | "quit" | "exit" => vec![BoardEffect::Quit],
            "help" | "h" => self.open(Sheet::Help),
            "costs" | "cost" => self.open(Sheet::Costs { span: Span::Day }),
            "attention" | "needs" | "questions" => self.open(Sheet::Needs),
            "board" => {
                self.stack.clear();
                self.fresh_page();
                Vec::new()
            }
            "filter" => {
                self.filter = rest.to_owned();
                self.keep_selection();
                Vec::new()
            }
            "open" => match self.find(rest).map(|card| screen_of(card, None)) {
                Some(Ok(screen)) => self.open(screen),
                Some(Err(why)) => {
                    self.message = Some((true, why));
                    Vec::new()
                }
                None => {
                    self.message = Some((true, format!("no card is called `{rest}`")));
                    Vec::new()
                }
            },
            "log" | "logs" => self.open_selected_or_tab(Tab::Log),
            "diff" => self.open_selected_or_tab(Tab::Diff),
            "prompt" => self.open_selected_or_tab(Tab::Prompt),
            "receipt" => self.open_selected_or_tab(Tab::Receipt),
            "timeline" => self.open_selected_or_tab(Tab::Timeline),
            "more" => vec![BoardEffect::More],
            "pause" => self.ask(Action::Pause),
            "resume" => self.ask(Action::Resume),
            "cancel" => self.ask(Action::Cancel),
            "restore" => self.ask_restore(),
            "steer" | "approve" | "reject" => {
                let action = match word {
                    "steer" => Action::Steer,
                    "approve" => Action::Approve,
                    _ => Action::Reject,
                };
                let effects = self.ask(action);
                match &mut self.typing {
                    Typing::Steer { text, .. }
                    | Typing::Approve { text, .. }
                    | Typing::Reject { text, .. }
                        if !rest.is_empty() =>
                    {
                        rest.clone_into(text);
                        self.typed()
                    }
                    _ => effects,
                }
            }
            other => {
                self.message = Some((true, format!("there is no command `{other}`; `?` lists them")));
                Vec::new()
            }
        }
    }

    fn open_selected_or_tab(&mut self, tab: Tab) -> Vec<BoardEffect> {
        if matches!(self.screen(), Some(Sheet::Loop { .. })) {
            self.open_tab(tab);
            return Vec::new();
        }
        self.open_selected(Some(tab))
    }

    fn find(&self, text: &str) -> Option<&Card> {
        let exact = self.board.card(text).or_else(|| self.board.cards().find(|card| card.name == text));
        exact.or_else(|| self.board.cards().find(|card| !text.is_empty() && card.id.starts_with(text)))
    }
}

/// The page of a card, or of the loop that works for it.
fn screen_of(card: &Card, tab: Option<Tab>) -> Result<Sheet, String> {
    let of_loop = |tab: Tab| match &card.loop_id {
        Some(id) => Ok(Sheet::Loop { id: id.clone(), tab }),
        None => Err(match &card.command {
            Some(command) if card.state == "todo" => format!("{} was not run yet; `{command}`", card.name),
            _ => format!("no agent has worked on {} yet", card.name),
        }),
    };
    match (card.kind, tab) {
        (_, Some(tab)) => of_loop(tab),
        (CardKind::Loop | CardKind::Session | CardKind::Unit, None) => of_loop(Tab::Timeline),
        (CardKind::Task, None) if card.run.is_none() => of_loop(Tab::Timeline),
        (CardKind::Run | CardKind::Workflow | CardKind::Task, None) => {
            Ok(Sheet::Run { id: card.id.clone(), kind: card.kind })
        }
    }
}

fn next_of<T: Copy + PartialEq>(all: &[T], one: T, by: isize) -> T {
    let at = all.iter().position(|own| *own == one).unwrap_or(0);
    let count = isize::try_from(all.len()).unwrap_or(1);
    let to = (isize::try_from(at).unwrap_or(0) + by).rem_euclid(count);
    all.get(to.unsigned_abs()).copied().unwrap_or(one)
}
