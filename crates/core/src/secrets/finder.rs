//! Where a secret could begin: a search for the beginnings of all of them at once.

use aho_corasick::{AhoCorasick, MatchKind, packed};

/// As much of a beginning as is searched for: enough to be rare.
const ENOUGH: usize = 8;
/// As many as are searched for in one go: two searches for few are faster than one for many.
const AT_ONCE: usize = 32;

/// A search for beginnings.
pub(super) struct Finder {
    beginnings: Vec<Vec<u8>>,
    first: [bool; 256],
    groups: Vec<Group>,
}

enum Group {
    /// Many bytes at a time, where the processor can.
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
}

/// Where each group of a finder comes next in one text, as far as it was searched.
pub(super) struct NextMatches(Vec<Next>);

#[derive(Clone, Copy)]
enum Next {
    Unknown,
    At(usize),
    Nowhere,
}

impl Finder {
    pub(super) fn new<'a>(beginnings: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut all: Vec<Vec<u8>> =
            beginnings.map(|beginning| beginning[..beginning.len().min(ENOUGH)].to_vec()).collect();
        all.sort_unstable();
        // A beginning that starts with another beginning is found together with that one.
        all.dedup_by(|later, earlier| later.starts_with(earlier));
        let groups = all.chunks(AT_ONCE).filter_map(Group::new).collect();
        let mut first = [false; 256];
        all.iter().for_each(|beginning| first[usize::from(beginning[0])] = true);
        Self { beginnings: all, first, groups }
    }

    pub(super) fn search(&self) -> NextMatches {
        NextMatches(vec![Next::Unknown; self.groups.len()])
    }

    /// The first beginning in `text` from `from` on, which never goes back.
    pub(super) fn next(&self, text: &[u8], from: usize, seen: &mut NextMatches) -> Option<usize> {
        for (group, next) in self.groups.iter().zip(&mut seen.0) {
            let is_passed = match *next {
                Next::Unknown => true,
                Next::At(at) => at < from,
                Next::Nowhere => false,
            };
            if is_passed {
                *next = group.find(text, from).map_or(Next::Nowhere, Next::At);
            }
        }
        let found = |next: &Next| if let Next::At(at) = next { Some(*at) } else { None };
        seen.0.iter().filter_map(found).min()
    }

    /// How many bytes at the end of `text` could be the first of a beginning.
    pub(super) fn unfinished(&self, text: &[u8]) -> usize {
        let from = text.len().saturating_sub(ENOUGH - 1);
        (from..text.len())
            .filter(|at| self.first[usize::from(text[*at])])
            .find(|at| self.beginnings.iter().any(|beginning| beginning.starts_with(&text[*at..])))
            .map_or(0, |at| text.len() - at)
    }
}

impl Group {
    /// `None` only for beginnings beyond number, which the search cannot take.
    fn new(beginnings: &[Vec<u8>]) -> Option<Self> {
        let mut config = packed::Config::new();
        config.match_kind(packed::MatchKind::LeftmostFirst);
        if let Some(searcher) = config.builder().extend(beginnings).build() {
            return Some(Self::Packed(searcher));
        }
        AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(beginnings)
            .ok()
            .map(Self::Automaton)
    }

    fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        match self {
            Self::Packed(searcher) => {
                searcher.find_in(text, (from..text.len()).into()).map(|found| found.start())
            }
            Self::Automaton(automaton) => {
                automaton.find(aho_corasick::Input::new(text).range(from..)).map(|found| found.start())
            }
        }
    }
}
