//! Where a loop or a run is shown: lines that stay, and in a terminal a few below them that are drawn again and again.

use dacapo_core::text::{
    ansi::readable,
    columns::{columns, fitting, wrapped},
};

use super::{
    out::{Out, Unsent},
    terminal::{self, KeyReading, QuietTerminal},
};

/// A line with its colour, as the number of an escape sequence; empty for none.
pub(crate) type Coloured = (&'static str, String);

/// Turns at the beginning of a line that is drawn over, so that a user sees that it lives.
pub(super) const SPINNER: [&str; 4] = ["⠋", "⠙", "⠸", "⠴"];

/// Standard output, with or without a part that is drawn over.
pub(crate) struct Screen {
    out: Out,
    is_live: bool,
    is_coloured: bool,
    /// How many columns each of the lines takes that are drawn below the others.
    drawn: Vec<usize>,
    /// What stands below everything else: keys, or a line that is being typed.
    footer: Vec<Coloured>,
    /// Lines about what happened before this screen was opened, until it is caught up.
    past: Option<Vec<Coloured>>,
    quiet: Option<QuietTerminal>,
    /// Whether the terminal breaks lines that are wider than it when it becomes narrower.
    reflows: bool,
}

/// How many rows lines of so many columns take in a terminal that may have become narrower since they were drawn.
fn rows(drawn: &[usize], width: usize, reflows: bool) -> usize {
    match reflows {
        true => drawn.iter().map(|columns| columns.max(&1).div_ceil(width.max(1))).sum(),
        false => drawn.len(),
    }
}

/// How many rows a line may take that is drawn over.
const ROWS_OF_LINE: usize = 3;

/// What is drawn over in a terminal of this width and height: `lines` and then the `footer`, broken between words.
///
/// A row that is wider than the terminal would be broken by it, and its first part would never be taken away. Where there is little
/// room the footer goes first: what is typed into it is its last row.
fn laid_out(lines: &[Coloured], footer: &[Coloured], (width, height): (usize, usize)) -> Vec<Coloured> {
    let room = width.saturating_sub(1);
    let rows = |text: &str| -> Vec<String> {
        let rows = wrapped(&readable(text.as_bytes()), room);
        rows.iter().map(|row| fitting(row, room).to_owned()).collect()
    };
    let of_line = |(colour, text): &Coloured| -> Vec<Coloured> {
        let mut rows = rows(text);
        if rows.len() > ROWS_OF_LINE {
            rows.truncate(ROWS_OF_LINE);
            rows[ROWS_OF_LINE - 1] = format!("{}…", fitting(&rows[ROWS_OF_LINE - 1], room.saturating_sub(1)));
        }
        rows.into_iter().map(|row| (*colour, row)).collect()
    };
    let footer: Vec<Coloured> =
        footer.iter().flat_map(|(colour, text)| rows(text).into_iter().map(|row| (*colour, row))).collect();
    let kept = footer.len().min(height.saturating_sub(2));
    let mut all: Vec<Coloured> = lines.iter().flat_map(of_line).collect();
    all.truncate(height.saturating_sub(1 + kept));
    all.extend(footer.into_iter().rev().take(kept).rev());
    all
}

impl Screen {
    pub(super) fn new(is_live: bool) -> Self {
        Self {
            out: Out::new(),
            is_live,
            is_coloured: is_live && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            drawn: Vec::new(),
            footer: Vec::new(),
            past: None,
            quiet: is_live.then(|| QuietTerminal::enter(KeyReading::Unread)).flatten(),
            reflows: terminal::reflows(|name| std::env::var(name).ok()),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Lines are held back from now on: they are about what happened earlier.
    pub(crate) fn look_back(&mut self) {
        self.past = Some(Vec::new());
    }

    /// Shows the newest of the lines that were held back, below the first two, which say what this is.
    pub(crate) fn catch_up(&mut self, where_the_rest_is: &str) {
        const HEAD: usize = 2;
        let Some(past) = self.past.take() else { return };
        // A pipe is given everything; a terminal as much as can be seen at once.
        let room = if self.is_live { terminal::size().1.saturating_sub(HEAD + 6).max(3) } else { usize::MAX };
        let left_out = past.len().saturating_sub(HEAD).saturating_sub(room);
        for (at, (colour, text)) in past.into_iter().enumerate() {
            if at == HEAD && left_out > 0 {
                self.line("2", &format!("  … {left_out} earlier lines: {where_the_rest_is}"));
            }
            if at < HEAD || at >= HEAD + left_out {
                self.line(colour, &text);
            }
        }
    }

    /// Keys are read one by one from now on; false where there is no terminal to read them from.
    pub(crate) fn read_keys(&mut self) -> bool {
        self.quiet = None;
        self.quiet = self.is_live.then(|| QuietTerminal::enter(KeyReading::Read)).flatten();
        self.quiet.is_some()
    }

    /// Stops this process as Ctrl-Z does, and goes on when it is continued.
    pub(crate) fn suspend(&mut self) {
        self.clear();
        self.out.flush();
        if let Some(quiet) = &self.quiet {
            quiet.suspend();
        }
    }

    pub(crate) fn set_footer(&mut self, lines: Vec<Coloured>) {
        self.footer = lines;
    }

    /// A line that stays; in a terminal it is broken between words.
    pub(crate) fn line(&mut self, colour: &'static str, text: &str) {
        let text = readable(text.as_bytes());
        if let Some(past) = &mut self.past {
            past.push((colour, text));
            return;
        }
        let bytes = self.above(colour, &text);
        self.out.write(bytes);
    }

    /// The same for lines that may be left out if the reader is far behind.
    pub(crate) fn line_if_read(&mut self, colour: &'static str, text: &str) {
        if self.past.is_none() {
            let text = readable(text.as_bytes());
            let bytes = self.above(colour, &text);
            self.out.write_if_read(bytes);
        }
    }

    /// Bytes that stay as they are; critical ones are tried again where standard output is busy.
    pub(crate) fn block(&mut self, bytes: &[u8], is_critical: bool) {
        let mut all = self.rub_out().into_bytes();
        all.extend_from_slice(bytes);
        if is_critical { self.out.write_critical(all) } else { self.out.write(all) }
    }

    /// The same for what may be left out if the reader is far behind.
    pub(crate) fn block_if_read(&mut self, bytes: &[u8]) {
        let mut all = self.rub_out().into_bytes();
        all.extend_from_slice(bytes);
        self.out.write_if_read(all);
    }

    fn above(&mut self, colour: &str, text: &str) -> Vec<u8> {
        let mut all = self.rub_out();
        let lines: Vec<String> = match self.is_live {
            true => text.lines().flat_map(|line| wrapped(line, terminal::width())).collect(),
            false => vec![text.to_owned()],
        };
        for line in &lines {
            all.push_str(&self.dressed(colour, line));
            all.push('\n');
        }
        all.into_bytes()
    }

    fn dressed(&self, colour: &str, text: &str) -> String {
        match (self.is_coloured, colour) {
            (true, colour) if !colour.is_empty() => format!("\x1b[{colour}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    /// Takes the lines that are drawn below the others off the screen. A terminal that became narrower has broken them, or cut them
    /// off.
    fn rub_out(&mut self) -> String {
        let drawn = std::mem::take(&mut self.drawn);
        if drawn.is_empty() {
            return String::new();
        }
        match rows(&drawn, terminal::width(), self.reflows) {
            0 | 1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }

    /// Draws `lines` below those that stay, in place of those that were drawn there.
    pub(crate) fn draw(&mut self, lines: Vec<Coloured>) {
        if !self.is_live || self.past.is_some() {
            return;
        }
        let mut all = self.rub_out();
        for (at, (colour, line)) in laid_out(&lines, &self.footer, terminal::size()).iter().enumerate() {
            if at > 0 {
                all.push('\n');
            }
            all.push_str(&self.dressed(colour, line));
            self.drawn.push(columns(line));
        }
        if !all.is_empty() {
            self.out.write_if_read(all.into_bytes());
        }
    }

    /// Takes what is drawn off the screen.
    pub(crate) fn clear(&mut self) {
        let all = self.rub_out();
        if !all.is_empty() {
            self.out.write(all.into_bytes());
        }
    }

    /// Takes what is drawn off the screen for good, and gives the terminal back.
    pub(crate) fn close(&mut self) {
        self.footer.clear();
        self.clear();
        self.is_live = false;
        self.out.flush();
        self.quiet = None;
    }

    /// Waits until everything is written, for a while, and says what was not.
    pub(super) fn finish(&mut self) -> Unsent {
        self.clear();
        self.quiet = None;
        self.out.finish()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::{Coloured, columns, laid_out, rows};

    #[test]
    fn what_is_drawn_over_is_broken_between_words_and_never_wider_than_the_terminal() {
        let lines: Vec<Coloured> = vec![
            ("", "⠋ iteration 1/3 · 3.8s · claude sonnet · $0.16 of $5".to_owned()),
            ("2", format!("  I am reading the files of this repository{}", " and more".repeat(20))),
        ];
        let footer: Vec<Coloured> =
            vec![("", "p pause  s steer  d detach  c cancel  l log  ? help".to_owned())];
        let shown = |size| {
            let rows = laid_out(&lines, &footer, size);
            assert!(rows.iter().all(|(_, row)| columns(row) < size.0.max(1)), "{size:?}: {rows:?}");
            assert!(rows.len() < size.1.max(2), "{size:?}: {rows:?}");
            rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!("live_lines_40", shown((40, 30)));
        insta::assert_snapshot!("live_lines_80", shown((80, 30)));
        // The keys stay where there is little room.
        insta::assert_snapshot!("live_lines_20_5", shown((20, 5)));
        for size in [(0, 0), (1, 1), (2, 3), (160, 2)] {
            shown(size);
        }
    }

    #[test]
    fn a_narrower_terminal_breaks_lines_or_cuts_them_off() {
        let drawn = [79, 40, 0];
        for (width, reflows, expected) in
            [(160, true, 3), (80, true, 3), (40, true, 4), (20, true, 7), (40, false, 3), (20, false, 3)]
        {
            assert_eq!(rows(&drawn, width, reflows), expected, "{width} {reflows}");
        }
    }
}
