//! The rules of the promise, written for clarity alone, and the corpus measured by them.

use std::collections::HashSet;

use super::*;

/// Whether the output claims DONE.
fn claims(prompt: &str, output: &[u8]) -> bool {
    let text = plain(output);
    let prompt = plain(prompt.as_bytes());
    let lines: Vec<&str> = text.split('\n').collect();
    let asked: Vec<&str> = prompt.split('\n').collect();
    if text.trim() == prompt.trim() {
        return false;
    }
    let last = lines.iter().rposition(|line| !line.trim().is_empty());
    let mut fence: Option<(char, usize)> = None;
    for (index, line) in lines.iter().enumerate() {
        if let Some((mark, length)) = fence_of(line) {
            match fence {
                None => fence = Some((mark, length)),
                Some((open, least)) if open == mark && length >= least => fence = None,
                Some(_) => {}
            }
            continue;
        }
        let after_blank = index == 0 || lines[index - 1].trim().is_empty();
        let indented = line.starts_with("    ") || line.starts_with('\t');
        if fence.is_some() || line.starts_with('>') || (indented && after_blank) {
            continue;
        }
        for (before, after) in tags(line) {
            let ends = after.trim().is_empty();
            let alone = ends && before.trim().is_empty();
            let quoted = before.matches('`').count() % 2 == 1;
            if quoted || !(alone || (ends && last == Some(index))) {
                continue;
            }
            let same = |j: usize| asked[j].trim() == line.trim();
            let echo = (0..asked.len()).filter(|j| same(*j)).any(|j| {
                let neighbour = |a: Option<&str>, b: Option<&str>| a.is_some() && a == b;
                !alone
                    || neighbour(above(&lines, index), above(&asked, j))
                    || neighbour(below(&lines, index), below(&asked, j))
            });
            if !echo {
                return true;
            }
        }
    }
    false
}

fn above<'a>(lines: &[&'a str], index: usize) -> Option<&'a str> {
    lines[..index].iter().rev().map(|l| l.trim()).find(|l| !l.is_empty())
}

fn below<'a>(lines: &[&'a str], index: usize) -> Option<&'a str> {
    lines[index + 1..].iter().map(|l| l.trim()).find(|l| !l.is_empty())
}

fn fence_of(line: &str) -> Option<(char, usize)> {
    let mark = line.trim_start().chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.trim_start().chars().take_while(|c| *c == mark).count();
    (length >= 3).then_some((mark, length))
}

/// What stands before and after each tag with the right text.
fn tags(line: &str) -> Vec<(&str, &str)> {
    let lower = line.to_ascii_lowercase();
    let starts = lower.match_indices("<promise>").map(|(start, open)| (start, start + open.len()));
    let found = starts.filter_map(|(start, inner)| {
        let end = inner + lower[inner..].find("</promise>")?;
        (lower[inner..end].trim() == "done").then(|| (&line[..start], &line[end + "</promise>".len()..]))
    });
    found.collect()
}

/// Without escape sequences, with one kind of line end.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut chars = text.chars().peekable();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\x1b', Some('[')) => while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {},
            ('\x1b', Some(']')) => {
                while let Some(c) = chars.next() {
                    if c == '\x07' || (c == '\x1b' && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            ('\r', Some('\n')) => {}
            ('\r', _) => plain.push('\n'),
            (c, _) => plain.push(c),
        }
    }
    plain
}

fn wrong(samples: &[Sample], expected: bool) -> Vec<String> {
    let wrong = samples.iter().filter(|s| claims(&s.prompt, &s.output) != expected);
    wrong.map(|s| format!("{}: {:?}", s.name, String::from_utf8_lossy(&s.output))).collect()
}

#[test]
fn the_corpus_follows_the_rules() {
    assert_eq!(wrong(&must_not_match(), false), Vec::<String>::new(), "these match");
    assert_eq!(wrong(&must_match(), true), Vec::<String>::new(), "these do not match");
}

#[test]
fn the_corpus_is_large_and_holds_nothing_twice() {
    for (samples, least) in [(must_not_match(), 1_000), (must_match(), 300)] {
        assert!(samples.len() >= least, "{} samples", samples.len());
        let names: HashSet<_> = samples.iter().map(|s| &s.name).collect();
        assert_eq!(names.len(), samples.len(), "names are unique");
        // What an echo is depends on the prompt; without one in play, the output alone has to differ.
        let echoes = |s: &Sample| s.name.starts_with("echo") || s.name.starts_with("own-words");
        let mut seen = HashSet::new();
        let twice: Vec<_> = samples
            .iter()
            .filter(|s| !seen.insert((&s.output, Some(&s.prompt).filter(|_| echoes(s)))))
            .map(|s| (&s.name, String::from_utf8_lossy(&s.output)))
            .collect();
        assert_eq!(twice, [], "held twice");
        let outputs: HashSet<_> = samples.iter().map(|s| &s.output).collect();
        assert!(outputs.len() >= least, "{} different outputs", outputs.len());
    }
}

#[test]
fn no_sample_is_refused_for_the_wrong_reason() {
    // What looks like the promise must be in there, or a word of it: a detector cannot be tested by silence.
    for sample in must_not_match() {
        let text = String::from_utf8_lossy(&sample.output).to_lowercase().replace('\0', "");
        assert!(["promise", "done", "prom", "mise"].iter().any(|w| text.contains(w)), "{}", sample.name);
    }
}
