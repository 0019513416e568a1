//! A shell command cut into words and the signs between them.

/// A part of a command.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Word(Word),
    /// `;`, `&`, `&&`, `||` or the end of a line.
    End,
    /// `|`: what the command before it prints is read by another.
    Pipe,
    /// What the command prints goes to a file.
    Kept,
    /// `(`.
    Open,
    /// `)`.
    Close,
}

/// A word without its quotes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Whether any of it was quoted.
    pub(super) quoted: bool,
    /// Whether it holds something only a shell can work out.
    dynamic: bool,
    /// Whether it is what the command reads from: `< word`.
    pub(super) input: bool,
    /// The commands in it, `$(…)` or between backticks.
    pub(super) commands: Vec<String>,
}

impl Word {
    pub(super) fn is_flag(&self) -> bool {
        !self.input && self.text.starts_with('-')
    }

    pub(super) fn is_assignment(&self) -> bool {
        self.text.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    }

    /// The same word with another text, in which every variable that is known has been put in.
    pub(super) fn with_text(&self, text: String) -> Self {
        Self {
            text,
            quoted: self.quoted,
            dynamic: self.dynamic,
            input: self.input,
            commands: self.commands.clone(),
        }
    }

    /// The path it stands for, if that can be told.
    pub(super) fn path(&self) -> Option<&str> {
        if let Some(here) = ["$PWD/", "${PWD}/"].iter().find_map(|pwd| self.text.strip_prefix(pwd)) {
            return (!here.contains('$')).then_some(here);
        }
        (!self.dynamic).then_some(self.text.as_str())
    }
}

/// The pieces of `command`. Quotes that are not closed run to its end.
pub(super) fn pieces(command: &str) -> Vec<Piece> {
    let mut cutter =
        Cutter { rest: command.chars().peekable(), pieces: Vec::new(), word: None, next: Next::Word };
    cutter.cut();
    cutter.pieces
}

/// What the next word is.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Word,
    Input,
    /// The command writes its errors to it, or what it prints to nowhere.
    Output,
    /// The command writes what it prints to it.
    Kept,
}

struct Cutter<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    pieces: Vec<Piece>,
    word: Option<Word>,
    next: Next,
}

impl Cutter<'_> {
    fn cut(&mut self) {
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' | ';' => self.end(Piece::End),
                '|' if self.rest.next_if_eq(&'|').is_none() => self.end(Piece::Pipe),
                '|' => self.end(Piece::End),
                '&' if self.rest.next_if_eq(&'>').is_some() => self.redirect(Next::Kept),
                '&' => self.end(Piece::End),
                '(' => self.end(Piece::Open),
                ')' => self.end(Piece::Close),
                '<' => self.redirect(Next::Input),
                '>' => self.redirect(Next::Kept),
                '#' if self.word.is_none() => while self.rest.next_if(|c| *c != '\n').is_some() {},
                '\\' => match self.rest.next() {
                    // The line goes on.
                    Some('\n') | None => {}
                    Some(escaped) => self.word().text.push(escaped),
                },
                '\'' => {
                    self.word().quoted = true;
                    while let Some(c) = self.rest.next_if(|c| *c != '\'') {
                        self.word().text.push(c);
                    }
                    self.rest.next();
                }
                '"' => self.double_quoted(),
                '`' => self.backticks(),
                '$' => self.dollar(),
                '*' | '?' => {
                    self.word().dynamic = true;
                    self.word().text.push(c);
                }
                _ => self.word().text.push(c),
            }
        }
        self.end_word();
    }

    fn word(&mut self) -> &mut Word {
        let input = self.next == Next::Input;
        self.word.get_or_insert_with(|| Word { input, ..Word::default() })
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::replace(&mut self.next, Next::Word) {
            Next::Word | Next::Input => self.pieces.push(Piece::Word(word)),
            Next::Kept if word.text != "/dev/null" => self.pieces.push(Piece::Kept),
            Next::Kept | Next::Output => {}
        }
    }

    fn end(&mut self, piece: Piece) {
        self.end_word();
        self.next = Next::Word;
        self.pieces.push(piece);
    }

    /// After the first sign of a redirection.
    fn redirect(&mut self, next: Next) {
        // `2>` names a descriptor, which is no word.
        let descriptor = self.word.take_if(|word| word.text.bytes().all(|byte| byte.is_ascii_digit()));
        self.end_word();
        let mut is_descriptor = descriptor.is_some_and(|word| word.text != "1");
        while let Some(sign) = self.rest.next_if(|c| matches!(c, '>' | '<' | '&' | '|' | '-')) {
            is_descriptor |= sign == '&';
        }
        self.next = if next == Next::Kept && is_descriptor { Next::Output } else { next };
    }

    fn double_quoted(&mut self) {
        self.word().quoted = true;
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return,
                '\\' => match self.rest.next() {
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.word().text.push(c),
                    Some('\n') | None => {}
                    Some(c) => self.word().text.extend(['\\', c]),
                },
                '`' => self.backticks(),
                '$' => self.dollar(),
                _ => self.word().text.push(c),
            }
        }
    }

    fn backticks(&mut self) {
        let mut command = String::new();
        while let Some(c) = self.rest.next_if(|c| *c != '`') {
            command.push(c);
        }
        self.rest.next();
        let word = self.word();
        word.dynamic = true;
        word.commands.push(command);
    }

    /// Reads what follows a `$`.
    fn dollar(&mut self) {
        let word = self.word();
        word.dynamic = true;
        if self.rest.next_if_eq(&'(').is_none() {
            self.word().text.push('$');
            return;
        }
        let mut command = String::new();
        let mut depth = 1_usize;
        for c in self.rest.by_ref() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            command.push(c);
        }
        self.word().commands.push(command);
    }
}
