//! What a check must come to in order to pass: its exit code, and words that its output must or must not hold.

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use crate::text::ansi::AnsiStripper;

/// What a check must come to in order to pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expectation {
    pub exit_code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_contains: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_not_contains: Option<String>,
}

/// Whether a check printed the words that it was searched for; `None`: it was not searched for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundWords {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed_wanted: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed_forbidden: Option<bool>,
}

/// What an agent answered that was asked about the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateAnswer {
    pub says_yes: bool,
    /// The line by which it says no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no: Option<String>,
}

impl GateAnswer {
    /// Why the check does not pass, in words that follow its name.
    pub fn refusal(&self) -> Option<String> {
        match &self.no {
            Some(words) => Some(format!("says no: {words}")),
            None => (!self.says_yes).then(|| "gave no answer that says yes".to_owned()),
        }
    }
}

impl Expectation {
    /// Whether it is exit code 0 and nothing else.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Why a check that exited with `code` does not pass, in words that follow its name. Words that were not searched for are
    /// taken as missing, or as there if they are forbidden.
    pub fn refusal(&self, code: i32, found: FoundWords) -> Option<String> {
        if code != self.exit_code {
            return Some(match self.exit_code {
                0 => format!("exited {code}"),
                wanted => format!("exited {code}, not {wanted}"),
            });
        }
        if let Some(words) = self.output_contains.as_ref().filter(|_| found.printed_wanted != Some(true)) {
            return Some(format!("did not print `{words}`"));
        }
        let forbidden = self.output_not_contains.as_ref();
        let forbidden = forbidden.filter(|_| found.printed_forbidden != Some(false));
        forbidden.map(|words| format!("printed `{words}`, which it must not"))
    }
}

/// Searches the output of a check for the words of an expectation while it streams by. Colours and other control sequences are
/// left out, as a person reads it. It holds less of the output than its words are long.
#[derive(Debug)]
pub struct OutputSearch {
    ansi: AnsiStripper,
    wanted: Option<WordSearch>,
    forbidden: Option<WordSearch>,
}

impl OutputSearch {
    pub fn new(expectation: &Expectation) -> Self {
        let search = |words: &Option<String>| words.as_deref().map(WordSearch::new);
        Self {
            ansi: AnsiStripper::new(),
            wanted: search(&expectation.output_contains),
            forbidden: search(&expectation.output_not_contains),
        }
    }

    /// Reads the next chunk, which may end anywhere, also within the words.
    pub fn push(&mut self, mut chunk: &[u8]) {
        let mut searches: Vec<&mut WordSearch> = self.wanted.iter_mut().chain(&mut self.forbidden).collect();
        if searches.iter().all(|search| search.is_found) {
            return;
        }
        while let Some(run) = self.ansi.next_run(&mut chunk) {
            searches.iter_mut().for_each(|search| search.push(run));
        }
    }

    pub fn found(&self) -> FoundWords {
        let is_found = |search: &Option<WordSearch>| search.as_ref().map(|search| search.is_found);
        FoundWords { printed_wanted: is_found(&self.wanted), printed_forbidden: is_found(&self.forbidden) }
    }
}

#[derive(Debug)]
struct WordSearch {
    finder: Finder<'static>,
    /// The end of the text so far: too short to hold the words, long enough for their start.
    carry: Vec<u8>,
    is_found: bool,
}

impl WordSearch {
    fn new(words: &str) -> Self {
        Self { finder: Finder::new(words).into_owned(), carry: Vec::new(), is_found: words.is_empty() }
    }

    fn push(&mut self, text: &[u8]) {
        if self.is_found {
            return;
        }
        let reach = self.finder.needle().len() - 1;
        self.carry.extend_from_slice(&text[..reach.min(text.len())]);
        self.is_found = self.finder.find(&self.carry).is_some() || self.finder.find(text).is_some();
        if text.len() >= reach {
            self.carry.clear();
            self.carry.extend_from_slice(&text[text.len() - reach..]);
        } else {
            self.carry.drain(..self.carry.len().saturating_sub(reach));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(contains: Option<&str>, not_contains: Option<&str>) -> Expectation {
        Expectation {
            exit_code: 0,
            output_contains: contains.map(str::to_owned),
            output_not_contains: not_contains.map(str::to_owned),
        }
    }

    fn search(expectation: &Expectation, chunks: &[&[u8]]) -> FoundWords {
        let mut search = OutputSearch::new(expectation);
        chunks.iter().for_each(|chunk| search.push(chunk));
        search.found()
    }

    #[test]
    fn a_check_decides_by_its_exit_code_and_its_output() {
        // req 198
        let both = words(Some("ok"), Some("skipped"));
        for (code, output, refusal) in [
            (0, "all ok", None),
            (1, "all ok", Some("exited 1")),
            (0, "fine", Some("did not print `ok`")),
            (0, "ok, 3 skipped", Some("printed `skipped`, which it must not")),
        ] {
            let found = search(&both, &[output.as_bytes()]);
            assert_eq!(both.refusal(code, found).as_deref(), refusal, "{code} {output}");
        }
        let three = Expectation { exit_code: 3, ..Expectation::default() };
        assert_eq!(three.refusal(3, FoundWords::default()), None);
        assert_eq!(three.refusal(0, FoundWords::default()).as_deref(), Some("exited 0, not 3"));
        // Without a search nothing is taken for granted.
        assert!(words(Some("ok"), None).refusal(0, FoundWords::default()).is_some());
        assert!(words(None, Some("ok")).refusal(0, FoundWords::default()).is_some());
    }

    #[test]
    fn only_a_yes_without_a_no_passes() {
        // req 198
        let no = || Some("CRITERIA NOT MET: it leaks".to_owned());
        for (says_yes, no, refusal) in [
            (true, None, None),
            (false, None, Some("gave no answer that says yes")),
            (false, no(), Some("says no: CRITERIA NOT MET: it leaks")),
            (true, no(), Some("says no: CRITERIA NOT MET: it leaks")),
        ] {
            assert_eq!(GateAnswer { says_yes, no }.refusal().as_deref(), refusal);
        }
    }

    #[test]
    fn words_are_found_wherever_the_output_is_cut() {
        // req 198
        let output = b"\x1b[32m12 tests \x1b[1mpassed\x1b[0m, aab\xff";
        for (wanted, is_there) in [
            ("12 tests passed", true),
            ("aab", true),
            ("passed,", true),
            ("tests  passed", false),
            ("b!", false),
        ] {
            let expectation = words(Some(wanted), None);
            let found = FoundWords { printed_wanted: Some(is_there), printed_forbidden: None };
            for at in 0..=output.len() {
                assert_eq!(search(&expectation, &[&output[..at], &output[at..]]), found, "{wanted} at {at}");
            }
            assert_eq!(search(&expectation, &output.chunks(1).collect::<Vec<_>>()), found, "{wanted}");
        }
        assert_eq!(search(&Expectation::default(), &[output]), FoundWords::default());
    }

    #[test]
    fn a_long_output_is_searched_and_not_kept() {
        let mut search = OutputSearch::new(&words(Some("needle"), Some("no such words")));
        for at in 0..1000 {
            if at == 3 {
                search.push(b"a nee");
                search.push(b"dle");
            }
            search.push(&[b'x'; 10_000]);
            let held: usize =
                search.wanted.iter().chain(&search.forbidden).map(|search| search.carry.capacity()).sum();
            assert!(held < 100, "{held}");
        }
        let found = FoundWords { printed_wanted: Some(true), printed_forbidden: Some(false) };
        assert_eq!(search.found(), found);
    }
}
