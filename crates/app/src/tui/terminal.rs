//! The terminal while the board is drawn in it: taken over, and given back also after a panic or a signal.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use dacapo_core::text::visible::visible;
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        event::{DisableBracketedPaste, EnableBracketedPaste},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode},
    },
    layout::Rect,
};
use rustix::process::{Signal, getpid, kill_process};

/// Whether the terminal is the board's; a panic gives it back, too.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal of the board. It is given back when this is dropped.
pub(crate) struct OwnTerminal {
    pub(crate) screen: Terminal<CrosstermBackend<io::Stdout>>,
    title: String,
}

impl OwnTerminal {
    pub(crate) fn take() -> io::Result<Self> {
        take()?;
        let screen = Terminal::new(CrosstermBackend::new(io::stdout()));
        match screen {
            Ok(screen) => Ok(Self { screen, title: String::new() }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Sets the title of the terminal, if it is another one.
    pub(crate) fn set_title(&mut self, title: &str) {
        if self.title != title {
            title.clone_into(&mut self.title);
            let _ = execute!(io::stdout(), SetTitle(visible(title)));
        }
    }

    /// Stops this process as Ctrl-Z does, with the terminal as it was; comes back when it is continued.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // The default action stops this process; nothing here has changed it.
        let _ = kill_process(getpid(), Signal::TSTP);
        take()?;
        self.title.clear();
        self.draw_all_again()
    }

    /// Forgets what the terminal shows, so that the next drawing draws everything.
    pub(crate) fn draw_all_again(&mut self) -> io::Result<()> {
        // `clear` would ask the terminal where its cursor is, and the thread that reads keys would get the answer.
        let size = self.screen.size()?;
        self.screen.resize(Rect::new(0, 0, size.width, size.height))
    }
}

impl Drop for OwnTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    // The title is kept by the terminal, and put back at the end.
    let mut out = io::stdout();
    out.write_all(b"\x1b[22;0t")?;
    execute!(out, EnterAlternateScreen, EnableBracketedPaste, Hide)
}

/// Gives the terminal back as it was.
pub(crate) fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = out.write_all(b"\x1b[23;0t");
        let _ = out.flush();
        let _ = disable_raw_mode();
    }
}
