//! Outputs that are claims.

use super::{AT_THE_END, Collection, ENDING_PROMPTS, IN_THE_MIDDLE, Sample, TAG, TAG_PROMPTS};

pub(super) fn samples() -> Vec<Sample> {
    let mut all = Collection::default();
    spellings(&mut all);
    endings(&mut all);
    structure(&mut all);
    colours(&mut all);
    after_mentions(&mut all);
    own_words(&mut all);
    bytes(&mut all);
    all.samples
}

/// The tag alone on its line, in each way it may be written.
fn spellings(all: &mut Collection) {
    let everywhere = [AT_THE_END.as_slice(), IN_THE_MIDDLE.as_slice()].concat();
    for line in [
        TAG,
        "<promise>done</promise>",
        "<promise>Done</promise>",
        "<promise>dOnE</promise>",
        "<PROMISE>DONE</PROMISE>",
        "<Promise>DONE</Promise>",
        "<Promise>Done</promise>",
        "<promise> DONE </promise>",
        "<promise>  DONE</promise>",
        "<promise>DONE\t</promise>",
        "<promise>\tDONE\t</promise>",
        "<PROMISE>   done   </promise>",
        " <promise>DONE</promise>",
        "  <promise>DONE</promise>",
        "   <promise>DONE</promise>",
        "<promise>DONE</promise> ",
        "<promise>DONE</promise>\t",
        "  <promise>DONE</promise>    ",
        " <PROMISE> Done </PROMISE>  \t ",
    ] {
        all.add_within("alone", line, &everywhere, 8);
    }
}

/// The tag as the very last thing, with words before it on its line.
fn endings(all: &mut Collection) {
    for sentence in [
        "All tests pass.",
        "All tests pass:",
        "Everything in TASK.md is implemented and verified;",
        "The migration ran twice without a difference, so",
        "I checked `cargo test` and `cargo clippy`, both clean.",
        "Ran ``git status``: nothing to commit.",
        "214 passed, 0 failed, 3 ignored.",
        "Result →",
        "Final answer:",
        "Nothing is left to do!",
        "(see the summary above)",
        "Is it finished? Yes.",
        "The work you asked for is complete. I am confident in it because the gate is green:",
        "Fertig, alle Tests grün.",
        "すべて完了しました。",
        "Готово, проверено.",
        "✅",
        "- [x] write the changelog",
        "Summary: 3 files changed, 41 insertions(+), 7 deletions(-).",
        "As promised:",
        "It was INCOMPLETE before; now it is not.",
        "I said I was not done. Now I am.",
        "x < y and y > z hold, as required.",
        "DONE",
        "The tag is:",
    ] {
        for (space, end) in [(" ", ""), (" ", "\n"), ("  ", "\r\n"), ("\t", "\n\n   \n")] {
            let (before, _) = AT_THE_END[all.samples.len() % AT_THE_END.len()];
            all.add_plain("ending", format!("{before}{sentence}{space}{TAG}{end}"));
        }
    }
}

/// Code, quotes and blank lines that end before the tag does its work.
fn structure(all: &mut Collection) {
    for before in [
        "```\nlet x = 1;\n```\n",
        "```rust\nlet x = 1;\n```\n\n",
        "~~~\nplain\n~~~\n",
        "````md\n```\ninner\n```\n````\n",
        "```\n~~~\n```\n",
        "~~~\n```\n~~~\n",
        "```\ncode\n`````\n",
        "   ```\n   code\n   ```\n",
        "      ```sh\n      ls\n      ```\n",
        "\t```\n\tcode\n\t```\n",
        "~~~~ text\n~~~\nstill code\n~~~~\n",
        "```\nfirst\n```\nbetween\n```\nsecond\n```\n",
        "```\n<promise>DONE</promise>\n```\nNow it is true:\n",
        "> <promise>DONE</promise>\n\nwas the request. Here it is:\n\n",
        "    <promise>DONE</promise>\n\nis what was asked for:\n\n",
        "An odd ` backtick on an earlier line does no harm.\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "1. read\n2. write\n3. verify\n",
        "---\n\n",
        "<summary>\nAll good.\n</summary>\n",
        "\n\n\n",
        "{\"tests\": 214, \"failed\": 0}\n",
        "$ make test\nok\n$ \n",
        "The tables ```` and ~~ in this line open nothing.\n",
    ] {
        all.add_plain("structure", format!("{before}{TAG}\n"));
        all.add_plain("structure", format!("{before}{TAG}"));
    }
    for indent in ["    ", "     ", "\t", "        "] {
        all.add_plain("indented-text", format!("The list ends here:\n{indent}{TAG}\n"));
        all.add_plain("indented-text", format!("- done:\n{indent}{TAG}\n- thanks\n"));
    }
    for after in [
        "\nFiles changed: src/lexer.rs, src/parser.rs\n",
        "\n\nSummary: the parser accepts empty input now.\n",
        "\n```\ngit log -1\n```\n",
        "\n> quoted\n",
        "\n```\nnever closed",
        "\n\n\n[session 4f2a ended, 12,345 tokens]\n",
    ] {
        all.add_plain("text-after", format!("Verified.\n{TAG}{after}"));
    }
}

/// Escape sequences around and inside the tag.
fn colours(all: &mut Collection) {
    for line in [
        "\x1b[32m<promise>DONE</promise>\x1b[0m",
        "\x1b[1;32m<promise>\x1b[0mDONE\x1b[1;32m</promise>\x1b[0m",
        "<promise>\x1b[1mDONE\x1b[22m</promise>",
        "\x1b[38;2;10;200;30m<promise>DONE</promise>\x1b[39m",
        "\x1b[2K\x1b[1G<promise>DONE</promise>",
        "\x1b[?25l<promise>DONE</promise>\x1b[?25h",
        "<pro\x1b[4mmise>DO\x1b[24mNE</promise>",
        "\x1b]0;agent\x07<promise>DONE</promise>",
        "\x1b]0;agent\x1b\\<promise>DONE</promise>",
        "\x1b]8;;https://example.invalid\x1b\\<promise>DONE</promise>\x1b]8;;\x1b\\",
        "\x1b[90m  \x1b[0m<promise>DONE</promise>\x1b[K",
    ] {
        for (before, after) in [("", ""), ("\x1b[2mthinking…\x1b[0m\n", "\n"), ("ok\r\n", "\r\nbye\r\n")] {
            all.add_plain("coloured", format!("{before}{line}{after}"));
        }
    }
}

/// Talk of the tag first, the tag itself later.
fn after_mentions(all: &mut Collection) {
    for mention in [
        "I will print <promise>DONE</promise> when the tests pass.",
        "I will not print <promise>DONE</promise> yet because two tests fail.",
        "The signal `<promise>DONE</promise>` comes last.",
        "\"<promise>DONE</promise>\" is what you want to see.",
        "<promise>NOT DONE</promise>",
        "<promise>INCOMPLETE</promise>",
        "<promise>DONE</promise>.",
        "**<promise>DONE</promise>**",
        "- <promise>DONE</promise>",
        "&lt;promise&gt;DONE&lt;/promise&gt;",
        "<promise>\nDONE\n</promise>",
        "<promise>DONE",
        "DONE",
    ] {
        for rest in ["\n\nFixed the two tests.\n\n", "\r\n...\r\n", "\n"] {
            all.add_plain("after-mention", format!("{mention}{rest}{TAG}\n"));
        }
    }
}

/// The prompt holds the very line, but the agent says it in its own words.
fn own_words(all: &mut Collection) {
    for prompt in TAG_PROMPTS {
        all.add("own-words", prompt, format!("I fixed it; the suite is green.\n\n{TAG}\n"));
        all.add("own-words", prompt, format!("Verified twice.\n{TAG}\nThat was the last step I had.\n"));
        all.add("own-words", prompt, format!("{TAG}\n"));
        all.add("own-words", prompt, format!("{prompt}\n---\nWorked through all of it.\n{TAG}\n"));
    }
    for prompt in ENDING_PROMPTS {
        all.add("own-words", prompt, format!("All is verified. {TAG}\n"));
        all.add("own-words", prompt, format!("{}\n\nThat is what I did.\n{TAG}\n", prompt.trim_end()));
    }
}

/// Bytes that are no text, and lots of text, before the tag.
fn bytes(all: &mut Collection) {
    for noise in [
        b"\xff\xfe\xfd\n".as_slice(),
        b"caf\xe9 is Latin-1\n",
        b"\xe5\xae\n",
        b"\0\0\0\n",
        b"\xf0\x9f\x8e\n\x89\n",
        b"bell\x07 and backspace\x08\n",
    ] {
        all.add_plain("bytes", [noise, TAG.as_bytes(), b"\n"].concat());
    }
    all.add_plain("long", format!("{}\n{TAG}\n", "x".repeat(70_000)));
    all.add_plain("long", format!("{} {TAG}", "words ".repeat(20_000)));
    all.add_plain("long", format!("{}{TAG}\n", "a line of a log\n".repeat(8_000)));
    all.add_plain("long", format!("{TAG}\n{}", "a line of a log\n".repeat(8_000)));
}
