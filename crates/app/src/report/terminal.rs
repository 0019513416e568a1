//! The terminal while something is drawn in it: what is typed is not shown, so that Enter leaves no line behind.

use std::sync::{Mutex, PoisonError};

use rustix::{
    process::{Pid, Signal, getpgrp, getpid, kill_process},
    stdio::stdin,
    termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize,
        tcsetattr,
    },
};

/// How the terminal was before it was made quiet; a panic puts it back, too.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// What becomes of keys while the terminal is quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyReading {
    /// They wait for the next program that reads; Ctrl-C is a signal as ever.
    Unread,
    /// Each is read at once, Ctrl-C too.
    Read,
}

/// A terminal that does not show what is typed. It is put back when this is dropped.
pub(crate) struct QuietTerminal {
    keys: KeyReading,
}

impl QuietTerminal {
    /// None where standard input is no terminal, or where this process is not in its foreground: the terminal would stop it.
    pub(crate) fn enter(keys: KeyReading) -> Option<Self> {
        let mut modes = is_ours().then(|| tcgetattr(stdin()).ok()).flatten()?;
        let before = modes.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        if keys == KeyReading::Read {
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN);
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        }
        tcsetattr(stdin(), OptionalActions::Now, &modes).ok()?;
        BEFORE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(before);
        Some(Self { keys })
    }

    /// Stops this process as Ctrl-Z does, with the terminal as it was; comes back when it is continued.
    pub(crate) fn suspend(&self) {
        restore();
        let _ = kill_process(getpid(), Signal::TSTP);
        // The guard that is dropped last puts the terminal back.
        std::mem::forget(Self::enter(self.keys));
    }
}

impl Drop for QuietTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back to how it was.
pub(crate) fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before.filter(|_| is_ours()) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

fn is_ours() -> bool {
    isatty(stdin()) && tcgetpgrp(stdin()).is_ok_and(|group: Pid| group == getpgrp())
}

/// Whether the terminal breaks lines when it becomes narrower, as most do. xterm, the console of Linux and `screen` cut them off;
/// inside tmux it is tmux that breaks them.
pub(super) fn reflows(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
    if is_set("TMUX") {
        return true;
    }
    let term = variable("TERM").unwrap_or_default();
    let cuts = is_set("XTERM_VERSION")
        || is_set("STY")
        || ["linux", "vt", "screen"].iter().any(|kind| term.starts_with(kind));
    !cuts
}

/// How wide the terminal is.
pub(crate) fn width() -> usize {
    size().0
}

/// How wide and how high the terminal is, as far as it says so.
pub(crate) fn size() -> (usize, usize) {
    let size = tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_col > 0);
    size.map_or((80, 24), |size| (usize::from(size.ws_col).max(8), usize::from(size.ws_row).max(2)))
}

#[cfg(test)]
mod reflow_tests {
    use super::reflows;

    #[test]
    fn terminals_that_cut_lines_off_are_known() {
        for (set, expected) in [
            (vec![("TERM", "xterm-256color")], true),
            (vec![("TERM", "xterm"), ("XTERM_VERSION", "XTerm(379)")], false),
            (vec![("TERM", "linux")], false),
            (vec![("TERM", "screen.xterm"), ("STY", "1.pts")], false),
            (vec![("TERM", "screen-256color"), ("TMUX", "/tmp/t,1,0")], true),
            (vec![], true),
        ] {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(reflows(variable), expected, "{set:?}");
        }
    }
}
