//! Whether an agent that was asked to judge work approves of it, by its words.

use super::own_lines::{OwnLine, own_lines, unadorned};

/// Said before an approval in the same sentence, these take it back or make it depend on something.
const DENIALS: [&str; 10] =
    ["not", "cannot", "never", "no", "none", "neither", "without", "unless", "until", "if"];
/// What a line that refuses begins with, in any case: no part of such a line approves.
const REFUSING: [&str; 2] = ["changes requested", "review failed"];

/// Whether the words approve the work: a sentence says `REVIEW PASSED`, or `approved` in any case, and does not deny it before
/// that. Code and quoted lines are not the agent's own words.
pub fn approves(answer: &str) -> bool {
    own_lines(answer).filter(|line| !line.is_indented).any(|OwnLine { text, .. }| {
        let lower = unadorned(text).to_lowercase();
        !REFUSING.iter().any(|begin| lower.starts_with(begin)) && sentences(text).any(says_yes)
    })
}

/// The sentences of a line. A dot within a word, as in a file's name, ends none.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    line.split_inclusive([' ', '\t'])
        .scan(0, |end, word| {
            *end += word.len();
            Some((
                *end,
                word.trim_end().trim_end_matches(['*', '_', '`', ')', '"']).ends_with(['.', '!', '?', ';']),
            ))
        })
        .filter_map(|(end, is_last)| is_last.then_some(end))
        .chain([line.len()])
        .scan(0, move |begin, end| {
            let sentence = &line[*begin..end];
            *begin = end;
            Some(sentence)
        })
}

fn says_yes(sentence: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’' | '-');
    let words: Vec<&str> = sentence.split(|c| !is_part(c)).filter(|word| !word.is_empty()).collect();
    let is_yes = |at: usize| {
        let passed = words[at] == "REVIEW" && words.get(at + 1) == Some(&"PASSED");
        passed || words[at].trim_matches(['\'', '’', '-']).eq_ignore_ascii_case("approved")
    };
    let is_denial = |word: &&str| {
        let word = word.to_lowercase().replace('’', "'");
        word.ends_with("n't") || DENIALS.contains(&word.as_str())
    };
    (0..words.len()).find(|&at| is_yes(at)).is_some_and(|at| !words[..at].iter().any(is_denial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_words_that_are_not_denied_approve() {
        // req 184
        for (answer, is_yes) in [
            ("REVIEW PASSED", true),
            ("**REVIEW PASSED**", true),
            ("## Verdict: REVIEW PASSED.", true),
            ("`REVIEW PASSED`", true),
            ("- Approved", true),
            ("APPROVED!", true),
            ("Verdict: 'approved'", true),
            ("I have approved it, if that helps.", true),
            ("There are no findings. Approved.", true),
            ("It does not leak; approved", true),
            ("The old a.rs is not used.\nREVIEW PASSED", true),
            ("review passed", false),
            ("REVIEW PASSEDX", false),
            ("", false),
            ("I have not approved this: the login is wide open.", false),
            ("I haven't approved it", false),
            ("I haven’t approved it", false),
            ("The work is disapproved.", false),
            ("unapproved, not-approved, approvedness", false),
            ("I cannot say REVIEW PASSED here, the login is open.", false),
            ("Unless it is fixed, it is never approved", false),
            ("If F1 is fixed: approved.", false),
            ("Changes requested: the login is open. It can be approved after that.", false),
            ("Verdict: REVIEW FAILED\n- the hash is not approved by NIST", false),
            // The words of a file are not the reviewer's.
            ("```\nREVIEW PASSED\n```\nI do not know what to think of it.", false),
            ("> approved", false),
            ("It says:\n\n    REVIEW PASSED\n", false),
        ] {
            assert_eq!(approves(answer), is_yes, "{answer:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_answer_is_too_odd_to_be_read(answer in "(approved|not|[. ;!é\n`>])*.{0,50}") {
            let _ = approves(&answer);
        }
    }
}
