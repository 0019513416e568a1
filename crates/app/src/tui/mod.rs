//! `dacapo tui`: the board in a terminal. Keys and the journal change the state, the state is drawn; nothing is drawn again
//! unless something has changed or a clock in it ticks.

mod herdr;
mod load;
mod log;
mod look;
mod pages;
mod state;
pub(crate) mod terminal;
#[cfg(test)]
mod tui_tests;
mod view;

use std::{
    io::{IsTerminal, Read},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use dacapo_core::{ids::ProjectId, text::ansi::readable, view::headline};
use dacapo_engine::{
    board::{BoardReader, todo_of},
    client::{ChangeWatch, Client},
};
use jiff::{Timestamp, tz::TimeZone};
use ratatui::{
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
    layout::Rect,
};

use self::{
    herdr::Pane,
    load::Loader,
    look::Theme,
    state::{Act, BoardEffect, BoardKey, BoardState},
    terminal::OwnTerminal,
    view::Scene,
};
use crate::{context::Context, error::UserError};

/// How many ended loops and runs are read at first, and each time more are wanted.
const ENDED: u32 = 100;
/// The shortest time between two looks at the journal, however much happens.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How long to wait for a change before a look anyway: an owner that dies changes nothing.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);
/// How often a log that is followed is read.
const LOG: Duration = Duration::from_millis(200);
/// How often the task files of this repository are read.
const FILES: Duration = Duration::from_secs(5);

/// What wakes the board up.
enum BoardNews {
    Key(BoardKey),
    Paste(String),
    Resize,
    /// Something was recorded.
    Change,
    /// A command that a key asked for has ended.
    Acted {
        is_bad: bool,
        words: String,
    },
    /// The process was told to end.
    End(u8),
    /// It goes on after a stop.
    Continued,
}

/// Shows the board until the user leaves.
pub(crate) fn run(cx: &Context, is_ascii: bool) -> Result<u8, UserError> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(UserError::environment("the board needs a terminal to draw in")
            .hint("`dacapo status` prints what runs, `dacapo status --json` for scripts"));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let look = Theme::of(is_ascii, variable);
    let client = cx.client()?;
    let reader = client.board(ENDED)?;
    let (sender, news) = channel();
    listen(sender.clone())?;
    watch(client.watch()?, sender.clone());
    let folder = Context::folder(None).ok().map(|folder| dacapo_engine::units::top(&folder));
    let here = folder.map(|root| (Context::project_of(&root), root)).filter(|_| !client.is_inside());
    let own = OwnTerminal::take()
        .map_err(|error| UserError::environment(format!("cannot use the terminal: {error}")))?;
    read_keys(sender.clone());
    let mut app = App {
        client,
        state: BoardState::new(reader.board(Timestamp::now())),
        reader,
        loader: Loader::default(),
        own,
        look,
        here,
        read_files: None,
        pane: Pane::find(variable),
        sender,
        drawn: String::new(),
    };
    let result = app.run(&news);
    if let Some(pane) = &app.pane {
        pane.release();
    }
    result
}

struct App {
    client: Client,
    reader: BoardReader,
    state: BoardState,
    loader: Loader,
    own: OwnTerminal,
    look: Theme,
    /// The repository that this was started in.
    here: Option<(ProjectId, PathBuf)>,
    read_files: Option<Instant>,
    pane: Option<Pane>,
    sender: Sender<BoardNews>,
    /// The second that was last drawn.
    drawn: String,
}

impl App {
    fn run(&mut self, news: &Receiver<BoardNews>) -> Result<u8, UserError> {
        self.read_todo();
        self.refresh(true)?;
        loop {
            let wait = self.patience();
            let first = match news.recv_timeout(wait) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
            let mut is_changed = false;
            let mut is_journal = first.is_none();
            // What has piled up is taken in at once and drawn once.
            for one in first.into_iter().chain(std::iter::from_fn(|| news.try_recv().ok())) {
                match one {
                    BoardNews::Change => is_journal = true,
                    BoardNews::End(code) => return Ok(code),
                    BoardNews::Resize => {
                        let _ = self.own.screen.autoresize();
                        is_changed = true;
                    }
                    BoardNews::Continued => {
                        let _ = self.own.draw_all_again();
                        is_changed = true;
                    }
                    BoardNews::Acted { is_bad, words } => {
                        self.state.message = Some((is_bad, words));
                        (is_changed, is_journal) = (true, true);
                    }
                    BoardNews::Paste(text) => {
                        for c in text.chars().filter(|c| !c.is_control()) {
                            if self.state.typing != state::Typing::Nothing {
                                let _ = self.state.press(BoardKey::Char(c));
                            }
                        }
                        is_changed = true;
                    }
                    BoardNews::Key(key) => {
                        is_changed = true;
                        for effect in self.state.press(key) {
                            if let Some(code) = self.perform(effect)? {
                                return Ok(code);
                            }
                        }
                    }
                }
            }
            if is_journal {
                is_changed |= self.look_at_journal();
            }
            self.refresh(is_changed)?;
        }
    }

    /// How long nothing can change by itself: until the next second if a clock is shown.
    fn patience(&self) -> Duration {
        let millis = u64::try_from(Timestamp::now().subsec_millisecond()).unwrap_or(0);
        let second = Duration::from_millis(1000 - millis.min(999));
        if self.state.is_following_log() { second.min(LOG) } else { second }
    }

    /// Takes in what was recorded; says whether the board has changed.
    fn look_at_journal(&mut self) -> bool {
        if self.read_files.is_none_or(|at| at.elapsed() >= FILES) {
            self.read_todo();
        }
        match self.client.catch_up(&mut self.reader) {
            Ok(is_changed) => {
                let had_trouble = self.state.trouble.take().is_some();
                if is_changed || had_trouble {
                    self.state.set_board(self.reader.board(Timestamp::now()));
                }
                is_changed || had_trouble
            }
            Err(error) => {
                // What was read stays on the screen; the next look may be better.
                let words = UserError::from(error).message;
                let is_new = self.state.trouble.as_deref() != Some(words.as_str());
                self.state.trouble = Some(words);
                is_new
            }
        }
    }

    fn read_todo(&mut self) {
        self.read_files = Some(Instant::now());
        if let Some((project, root)) = &self.here {
            self.reader.set_todo(todo_of(root, project));
            self.state.set_board(self.reader.board(Timestamp::now()));
        }
    }

    /// Reads what the page on top needs, and draws if there is anything new, or if a second has passed.
    fn refresh(&mut self, is_changed: bool) -> Result<(), UserError> {
        let is_changed = self.loader.load(&self.client, &mut self.state) || is_changed;
        let now = Timestamp::now();
        let second = look::clock(now, &TimeZone::system());
        if !is_changed && self.drawn == second {
            return Ok(());
        }
        self.drawn = second;
        let totals = self.state.board.totals.clone();
        self.own.set_title(&look::plain(&headline(&totals), &self.look));
        if let Some(pane) = &mut self.pane {
            pane.tell(&totals);
        }
        let scene = Scene { look: self.look, now, zone: TimeZone::system() };
        let state = &mut self.state;
        let drawn = self.own.screen.draw(|frame| {
            let area: Rect = frame.area();
            let (lines, cards) = view::room(area, state.board.slots.len());
            state.set_room(lines, cards);
            let (cursor, lines) = view::draw(frame.buffer_mut(), state, &scene);
            state.lines = lines;
            if let Some(cursor) = cursor {
                frame.set_cursor_position(cursor);
            }
        });
        drawn.map(|_| ()).map_err(|error| UserError::environment(format!("cannot draw: {error}")))
    }

    /// Does what a key asked for; gives the exit code if the user leaves.
    fn perform(&mut self, effect: BoardEffect) -> Result<Option<u8>, UserError> {
        match effect {
            BoardEffect::Quit => return Ok(Some(0)),
            BoardEffect::Suspend => {
                self.own
                    .suspend()
                    .map_err(|error| UserError::environment(format!("cannot use the terminal: {error}")))?;
            }
            BoardEffect::Redraw => {
                let _ = self.own.draw_all_again();
            }
            BoardEffect::Look(id) => {
                // That it cannot be remembered is no reason not to show it.
                if self.client.look_at(&id).unwrap_or(false) {
                    self.look_at_journal();
                }
            }
            BoardEffect::More => {
                self.client.more_of_board(&mut self.reader)?;
                self.state.set_board(self.reader.board(Timestamp::now()));
            }
            BoardEffect::Act(act) => {
                self.state.message = Some((false, format!("{}{}", act.doing, self.look.more())));
                perform_act(act, self.sender.clone());
            }
        }
        Ok(None)
    }
}

/// Runs a command of dacapo as the user would type it: consent, refusals and hints are the same. Its words come back as news.
fn perform_act(act: Act, sender: Sender<BoardNews>) {
    std::thread::spawn(move || {
        let run = std::env::current_exe()
            .and_then(|program| Command::new(program).args(&act.args).stdin(Stdio::null()).output());
        let (is_bad, words) = match run {
            Ok(output) => {
                let is_bad = !output.status.success();
                let text = if is_bad { output.stderr } else { output.stdout };
                let text = readable(&text);
                let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                let first = lines.next().map(|line| line.trim_start_matches("dacapo: ").to_owned());
                let hint = lines.find_map(|line| line.strip_prefix("hint: ")).filter(|_| is_bad);
                let words = match (first, hint) {
                    (Some(first), Some(hint)) => format!("{first} ({hint})"),
                    (Some(first), None) => first,
                    (None, _) if is_bad => format!("{} went wrong", act.doing),
                    (None, _) => format!("{}: done", act.doing),
                };
                (is_bad, words)
            }
            Err(error) => (true, format!("cannot run dacapo: {error}")),
        };
        let words = dacapo_core::text::visible::visible(&words).replace('\n', " ");
        let _ = sender.send(BoardNews::Acted { is_bad, words });
    });
}

/// Tells of changes, but not more often than a person can see them.
fn watch(mut watch: ChangeWatch, sender: Sender<BoardNews>) {
    std::thread::spawn(move || {
        while watch.wait(LOOK_ANYWAY).is_ok() && sender.send(BoardNews::Change).is_ok() {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    });
}

/// Hears signals, so that a board that is ended by one gives the terminal back.
fn listen(sender: Sender<BoardNews>) -> Result<(), UserError> {
    use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
    for (signal, code) in [(SIGHUP, Some(129)), (SIGINT, Some(130)), (SIGTERM, Some(143)), (SIGCONT, None)] {
        let failed = |error: std::io::Error| UserError::environment(format!("cannot hear signals: {error}"));
        let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, theirs).map_err(failed)?;
        let sender = sender.clone();
        std::thread::spawn(move || {
            while let Ok(1..) = ours.read(&mut [0]) {
                let news = match code {
                    Some(code) => BoardNews::End(code),
                    None => BoardNews::Continued,
                };
                if sender.send(news).is_err() {
                    return;
                }
            }
        });
    }
    Ok(())
}

fn read_keys(sender: Sender<BoardNews>) {
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let news = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(BoardNews::Key),
                Event::Paste(text) => Some(BoardNews::Paste(text)),
                Event::Resize(..) => Some(BoardNews::Resize),
                _ => None,
            };
            if news.is_some_and(|news| sender.send(news).is_err()) {
                return;
            }
        }
        // The terminal is gone.
        let _ = sender.send(BoardNews::End(129));
    });
}

fn key_of(event: KeyEvent) -> Option<BoardKey> {
    Some(match event.code {
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => {
            BoardKey::Ctrl(c.to_ascii_lowercase())
        }
        KeyCode::Char(c) => BoardKey::Char(c),
        KeyCode::Enter => BoardKey::Enter,
        KeyCode::Esc => BoardKey::Esc,
        KeyCode::Tab => BoardKey::Tab,
        KeyCode::BackTab => BoardKey::BackTab,
        KeyCode::Backspace => BoardKey::Backspace,
        KeyCode::Up => BoardKey::Up,
        KeyCode::Down => BoardKey::Down,
        KeyCode::Left => BoardKey::Left,
        KeyCode::Right => BoardKey::Right,
        KeyCode::PageUp => BoardKey::PageUp,
        KeyCode::PageDown => BoardKey::PageDown,
        KeyCode::Home => BoardKey::Home,
        KeyCode::End => BoardKey::End,
        _ => return None,
    })
}
