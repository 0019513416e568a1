//! The promise detector's corpus: what agents print, and whether it is a claim.
//!
//! The promise is DONE throughout. A sample says nothing about why it does or does not match; its name says what kind
//! it is. The rules it stands for are written down once more, slowly, in `reference_tests.rs`, which checks them all.

mod believed;
mod refused;

/// What an agent printed, with the prompt it had been given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its kind and a number, unique within its list.
    pub name: String,
    /// What the agent was asked.
    pub prompt: String,
    pub output: Vec<u8>,
}

/// Outputs without a promise, however much they look like it.
pub fn must_not_match() -> Vec<Sample> {
    refused::samples()
}

/// Outputs with a promise, however it is written.
pub fn must_match() -> Vec<Sample> {
    believed::samples()
}

const TAG: &str = "<promise>DONE</promise>";

/// Prompts that do not hold the tag on a line of its own or at a line's end.
const PLAIN_PROMPTS: [&str; 4] = [
    "Make the failing tests pass.\nWork in small steps.\n",
    "Port the parser to the new lexer.\n\nWhen it is finished and verified, put the word DONE into a promise tag.\n",
    "Print <promise>DONE</promise> only when all tests pass, never earlier.\nStart with src/lib.rs.\n",
    "Fix issue 12 (see `TODO.md`).\n",
];

/// Prompts with the tag on a line of its own, which is what echoes are made of.
const TAG_PROMPTS: [&str; 8] = [
    "Fix the parser.\n\nWhen all tests pass, print exactly:\n\n<promise>DONE</promise>\n\nDo not print it earlier.\n",
    "Write the changelog.\nWhen finished, output:\n<promise>DONE</promise>\n",
    "<promise>DONE</promise>\nThe line above is what you print at the very end.\n",
    "# Task\n- migrate the database\n- update the docs\n\n# Ending\nEnd with this line:\n<promise>DONE</promise>\nand nothing else.\n",
    "Refactor `engine`.\n\nYour last line, once it compiles:\n  <promise>DONE</promise>\nIf it does not compile, go on.\n",
    "Räume die Übersetzungen auf.\nAm Ende genau diese Zeile:\n<promise>DONE</promise>\nVorher nicht.\n",
    "Rules:\n1. never stop early\n2. the signal is\n<promise>DONE</promise>\n3. no other signal counts\n",
    "Say when:\n<promise>done</promise>\n<promise>DONE</promise>\nEither of the two lines will do.\n",
];

/// Prompts whose last words are the tag.
const ENDING_PROMPTS: [&str; 4] = [
    "Fix the parser. When all tests pass, print <promise>DONE</promise>\n",
    "Write the changelog.\n\nWhen finished say <promise>DONE</promise>",
    "1. Read TASK.md\n2. Do what it says\n3. Verify\n4. Output <promise>DONE</promise>\n",
    "Mach es fertig.\nDanach schreibe: <promise>DONE</promise>\n",
];

/// Surroundings for a line, as text before and after it.
type Surroundings = (&'static str, &'static str);

/// Surroundings that leave a line the very last thing written.
const AT_THE_END: [Surroundings; 4] = [
    ("", ""),
    ("", "\n"),
    ("I moved the lexer into its own module.\nAll 214 tests pass.\n\n", "\n"),
    ("Ran the suite:\r\n  214 passed, 0 failed\r\n\r\n", "\r\n\r\n"),
];

/// Surroundings with more text after the line.
const IN_THE_MIDDLE: [Surroundings; 5] = [
    ("I read the task and looked at the parser.\n\n", "\n\nNext I will run the tests.\n"),
    ("", "\nLet me look at the remaining failures first.\n"),
    ("Plan:\r\n- read\r\n- write\r\n\r\n", "\r\n\r\nStarting with the first item.\r\n"),
    ("   Compiling parser v0.3.1\r\n    Finished in 4.21s\n", "\ntest lexer::empty ... FAILED\n"),
    ("compiling 10%\rcompiling 60%\r", "\rcompiling 100%\n1 test failed"),
];

/// Collects samples and names them.
#[derive(Default)]
struct Collection {
    samples: Vec<Sample>,
}

impl Collection {
    fn add(&mut self, kind: &str, prompt: &str, output: impl Into<Vec<u8>>) {
        let number = self.samples.len() + 1;
        let name = format!("{kind}/{number}");
        self.samples.push(Sample { name, prompt: prompt.to_owned(), output: output.into() });
    }

    /// As `add`, with a prompt that has no part in it.
    fn add_plain(&mut self, kind: &str, output: impl Into<Vec<u8>>) {
        self.add(kind, PLAIN_PROMPTS[self.samples.len() % PLAIN_PROMPTS.len()], output);
    }

    /// The line in `count` of the surroundings, different ones from line to line.
    fn add_within(&mut self, kind: &str, line: &str, surroundings: &[Surroundings], count: usize) {
        let first = self.samples.len();
        for (before, after) in (0..count).map(|i| surroundings[(first + i) % surroundings.len()]) {
            self.add_plain(kind, format!("{before}{line}{after}"));
        }
    }
}

#[cfg(test)]
mod reference_tests;
