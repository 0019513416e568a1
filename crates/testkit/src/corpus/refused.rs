//! Outputs that are no claims.

mod formats;
mod lines;

use super::{AT_THE_END, Collection, ENDING_PROMPTS, IN_THE_MIDDLE, Sample, TAG, TAG_PROMPTS};

pub(super) fn samples() -> Vec<Sample> {
    let mut all = Collection::default();
    refused_lines(&mut all);
    coloured(&mut all);
    titles(&mut all);
    fences(&mut all);
    indented(&mut all);
    quotes(&mut all);
    for output in formats::OUTPUTS {
        all.add_plain("format", output);
    }
    bytes(&mut all);
    echoes(&mut all);
    all.samples
}

/// Lines that are refused for what they say, wherever they stand.
fn refused_lines(all: &mut Collection) {
    let everywhere = [AT_THE_END.as_slice(), IN_THE_MIDDLE.as_slice()].concat();
    for sentence in lines::MENTIONS {
        all.add_within("mention", sentence, &everywhere, 3);
    }
    for text in lines::WRONG_TEXTS {
        all.add_within("wrong-text", &format!("<promise>{text}</promise>"), &everywhere, 3);
    }
    for tag in lines::MALFORMED_TAGS {
        all.add_within("malformed", tag, &everywhere, 3);
    }
    for (before, after) in lines::WRAPPERS {
        all.add_within("wrapped", &format!("{before}{TAG}{after}"), &everywhere, 3);
    }
    for suffix in lines::SUFFIXES {
        all.add_within("suffix", &format!("{TAG}{suffix}"), &everywhere, 2);
    }
    for words in lines::BARE_WORDS {
        all.add_within("bare-word", words, &everywhere, 2);
    }
    for line in lines::BACKTICKS {
        all.add_within("backtick", line, &everywhere, 3);
    }
    // At the very end these would be claims.
    for prefix in lines::PREFIXES {
        all.add_within("prefix", &format!("{prefix}{TAG}"), &IN_THE_MIDDLE, 2);
    }
}

/// Colours change nothing about what a line says.
fn coloured(all: &mut Collection) {
    let colours = [("\x1b[32m", "\x1b[0m"), ("\x1b[1;38;5;208m", "\x1b[m"), ("\x1b[2K\x1b[1G", "\x1b[K")];
    for (index, sentence) in lines::MENTIONS.iter().enumerate() {
        let (on, off) = colours[index % colours.len()];
        all.add_within("coloured-mention", &format!("{on}{sentence}{off}"), &AT_THE_END, 1);
    }
    for (index, text) in lines::WRONG_TEXTS.iter().enumerate() {
        let (on, off) = colours[index % colours.len()];
        all.add_within("coloured-text", &format!("<promise>{on}{text}{off}</promise>"), &AT_THE_END, 1);
    }
}

/// What a terminal would not show as text.
fn titles(all: &mut Collection) {
    for line in [
        "\x1b]0;<promise>DONE</promise>\x07",
        "\x1b]0;<promise>DONE</promise>\x1b\\",
        "\x1b]2;<promise>DONE</promise>\x07working on the lexer",
        "\x1b]8;;https://example.invalid/<promise>DONE</promise>\x1b\\the log\x1b]8;;\x1b\\",
        "\x1b]9;<promise>DONE</promise>\x07",
        "\x1b]52;c;PHByb21pc2U+RE9ORTwvcHJvbWlzZT4=\x07copied the promise",
    ] {
        all.add_within("title", line, &AT_THE_END, 2);
        all.add_within("title", line, &IN_THE_MIDDLE, 2);
    }
}

fn fences(all: &mut Collection) {
    let pairs = [
        ("```", "```"),
        ("```text", "```"),
        ("~~~", "~~~"),
        ("````md", "````"),
        ("~~~~~", "~~~~~~~"),
        ("   ```", "   ```"),
        ("      ```sh", "  ```"),
        ("\t```", "\t```"),
        ("``` {.xml}", "`````"),
        ("~~~ bash", "    ~~~"),
    ];
    let bodies = [
        TAG,
        "echo checking\n<promise>DONE</promise>\necho checked",
        "\n<promise>DONE</promise>\n",
        "// at the end of main:\nprintln!(\"all good\");\n// then\n<promise>done</promise>",
        "The agent's last line is <promise>DONE</promise>",
    ];
    for (index, (open, close)) in pairs.into_iter().enumerate() {
        for (number, body) in bodies.into_iter().enumerate() {
            let (before, after) = IN_THE_MIDDLE[(index + number) % 4];
            all.add_plain("fence", format!("{before}{open}\n{body}\n{close}{after}"));
            all.add_plain("fence-last", format!("It ends like this:\n{open}\n{body}\n{close}"));
            all.add_plain("fence-unclosed", format!("For example:\n{open}\n{body}\n"));
        }
    }
    for output in [
        "````\n```\n<promise>DONE</promise>\n```\n````\n",
        "````\ncode\n```\n<promise>DONE</promise>\n",
        "```\ncode\n~~~\n<promise>DONE</promise>\n",
        "~~~\ncode\n```\n<promise>DONE</promise>\n",
        "~~~~\n~~~\n<promise>DONE</promise>\n~~~\n",
        "```\na\n```\n\n```\n<promise>DONE</promise>",
        "```\r\ncode\r\n<promise>DONE</promise>\r\n```\r\n",
        "```\rcode\r<promise>DONE</promise>\r",
        "\x1b[2m```\x1b[0m\n<promise>DONE</promise>\n\x1b[2m```\x1b[0m\n",
        "  ~~~\n<promise>DONE</promise>\n``\n`\n~~\n",
        "1. run this:\n   ```sh\n   <promise>DONE</promise>\n   ```\n2. wait\n",
        "```diff\n-<promise>INCOMPLETE</promise>\n+<promise>DONE</promise>\n <promise>DONE</promise>\n```\n",
        "Fixed.\n```\nOne more log, never closed\nAll tests pass. <promise>DONE</promise>\n",
        "~~~markdown\n# Ending\n\n```\n<promise>DONE</promise>\n```\n\n<promise>DONE</promise>\n~~~\n",
        "``````\n`````\n<promise>DONE</promise>\n``````\nnot yet\n",
    ] {
        all.add_plain("fence-nesting", output);
    }
}

fn indented(all: &mut Collection) {
    for indent in ["    ", "     ", "        ", "\t", "\t\t", "    \t"] {
        for (before, after) in [
            ("", ""),
            ("", "\n"),
            ("", "\n\nis the line I will print.\n"),
            ("The last line will be\n\n", "\n\nonce the tests pass.\n"),
            ("The last line will be\n\n", "\n"),
            ("Ending:\n\n\n", ""),
            ("Ending:\r\n\r\n", "\r\n"),
            ("Still failing: 3 tests. When they pass:\n\n", " \t\n\n"),
        ] {
            all.add_plain("indented-code", format!("{before}{indent}{TAG}{after}"));
        }
        all.add_plain("indented-code", format!("The rule says:\n\n{indent}All pass: {TAG}\n"));
    }
}

fn quotes(all: &mut Collection) {
    for line in [
        "> <promise>DONE</promise>",
        "><promise>DONE</promise>",
        ">> <promise>DONE</promise>",
        "> > <promise>DONE</promise>",
        ">\t<promise>DONE</promise>",
        "> When finished, print <promise>DONE</promise>",
        "> ## Ending\n> <promise>DONE</promise>",
        "> **Note** the agent ends with <promise>DONE</promise>",
        ">     <promise>DONE</promise>",
        "> <promise> done </promise>  ",
    ] {
        all.add_within("quote", line, &AT_THE_END, 3);
        all.add_within("quote", line, &IN_THE_MIDDLE, 2);
    }
}

/// Tags that are not spelled in these bytes.
fn bytes(all: &mut Collection) {
    let wide = |tag: &str| tag.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let outputs: [Vec<u8>; 14] = [
        b"<promise>DO\xffNE</promise>\n".to_vec(),
        b"<promise>\xc3DONE</promise>\n".to_vec(),
        b"<promise>DONE\xf0\x9f</promise>\n".to_vec(),
        b"<pro\xffmise>DONE</promise>\n".to_vec(),
        b"<promise>DONE</promise>\xff\n".to_vec(),
        b"<promise>DONE</promise>\xe2\x80\n".to_vec(),
        b"\xff<promise>DONE</promise>\nmore to do\n".to_vec(),
        b"<promise>DO\0NE</promise>\n".to_vec(),
        b"<promise>DONE\0</promise>\n".to_vec(),
        b"<promise>DONE</promise>\0\n".to_vec(),
        wide(TAG),
        [b"\xff\xfe".to_vec(), wide(TAG), wide("\n")].concat(),
        b"<promise>\xd0\x94ONE</promise>\n".to_vec(),
        b"<promise>DONE\x08\x08\x08\x08WAIT</promise>\n".to_vec(),
    ];
    for output in outputs {
        all.add_plain("bytes", output);
    }
    all.add_plain("long", format!("{TAG} {}\n", "and more ".repeat(10_000)));
    all.add_plain("long", format!("{}{TAG} is not yet true\n", "x".repeat(70_000)));
    all.add_plain("long", format!("<promise>{}DONE</promise>\n", "NOT ".repeat(20_000)));
    all.add_plain("long", format!("```\n{}{TAG}\n", "a line of a log\n".repeat(8_000)));
}

/// The prompt, or a part of it, given back.
fn echoes(all: &mut Collection) {
    for prompt in TAG_PROMPTS {
        let lines: Vec<&str> = prompt.lines().filter(|line| !line.trim().is_empty()).collect();
        let at = lines.iter().position(|line| line.trim() == TAG).expect("these prompts hold the tag");
        let body = prompt.trim_end();
        for output in [
            prompt.to_owned(),
            body.to_owned(),
            format!("\n{prompt}\n\n"),
            prompt.replace('\n', "\r\n"),
            format!("\x1b[36m{}\x1b[0m\n", body.replace('\n', "\x1b[0m\n\x1b[36m")),
            format!("user\n{prompt}\nassistant\nI will start with the tests.\n"),
            format!("[2026-11-15T18:00:00] prompt:\n{prompt}--------\nthinking…\nRan out of time.\n"),
            format!("{body}\n{body}\n"),
            format!("You asked me this:\n\n{body}\n\nI am stuck at the first step.\n"),
        ] {
            all.add("echo", prompt, output);
        }
        if at > 0 {
            all.add("echo-part", prompt, format!("I was told:\n{}\n{}\nok\n", lines[at - 1], lines[at]));
            all.add("echo-part", prompt, format!("{}\n\n{}\n", lines[at - 1], lines[at]));
        }
        if at + 1 < lines.len() {
            all.add("echo-part", prompt, format!("I was told:\n{}\n{}\n", lines[at], lines[at + 1]));
            all.add("echo-part", prompt, format!("{}\n\n\n{}\nok\n", lines[at], lines[at + 1]));
        }
    }
    for prompt in ENDING_PROMPTS {
        let body = prompt.trim_end();
        let last = body.lines().last().unwrap_or(body);
        for output in [
            prompt.to_owned(),
            format!("{body}\n\n"),
            format!("> start\n{body}"),
            format!("prompt:\n{body}\n"),
            format!("I am asked for this:\n{last}\n"),
            format!("Not there yet. The last line of my instructions is\n\n{last}"),
            format!("{body}\n\nWorking on it.\n"),
        ] {
            all.add("echo-ending", prompt, output);
        }
    }
    for prompt in [TAG, "<promise>DONE</promise>\n", "  <promise>DONE</promise>\n"] {
        all.add("echo-all", prompt, TAG);
        all.add("echo-all", prompt, format!("{TAG}\n"));
        all.add("echo-all", prompt, format!("\n{TAG}\r\n\r\n"));
    }
}
