//! Must-fail tests in the files of a checkout: put in for a run of a gate, and taken out after it.

use std::{collections::BTreeMap, fs, io, path::Path};

use dacapo_core::goalposts::{
    FailurePlace, MustFailSearch, MustFailTest, expected_numbers, must_fail_name, must_fail_tests_of_claim,
    with_must_fail_tests,
};

use crate::{goalposts::replace, safe_open::leads_elsewhere};

/// A larger file gets no must-fail test.
const MAX_FILE: u64 = 1 << 20;

/// How many letters of a name are random, at least.
const LETTERS: usize = 12;

/// The files of a checkout that hold must-fail tests.
#[derive(Default)]
pub(crate) struct MustFailFiles {
    /// The files as they were without them.
    before: BTreeMap<String, Vec<u8>>,
    /// How often tests were put in.
    runs: usize,
}

impl MustFailFiles {
    /// Puts `tests` into the files in `folder`, in the place of those that were there before. Tests for which a file has no place
    /// are left out. Their names are drawn anew each time.
    pub(crate) fn put(
        &mut self,
        folder: &Path,
        tests: &[MustFailTest],
        place: FailurePlace,
    ) -> io::Result<MustFailSearch> {
        self.take_out(folder)?;
        // Names of another length make files of another size: Python takes a file of the same size and second for the same one.
        let random = random()?;
        let random = &random[..LETTERS + self.runs % (random.len() - LETTERS)];
        self.runs += 1;
        let mut of_file: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
        for (index, test) in tests.iter().enumerate() {
            of_file.entry(&test.path).or_default().push((&test.by, must_fail_name(random, index)));
        }
        let mut search = MustFailSearch::default();
        for (path, tests) in of_file {
            let file = folder.join(path);
            // Behind a link lies what is not the checkout's.
            if leads_elsewhere(folder, Path::new(path)) {
                continue;
            }
            if !fs::metadata(&file).is_ok_and(|data| data.is_file() && data.len() <= MAX_FILE) {
                continue;
            }
            let Ok(text) = fs::read_to_string(&file) else { continue };
            // One that has lost its place, since the agent changed the file, does not keep the others out.
            let has_place = |test: &&(&str, String)| {
                with_must_fail_tests(path, &text, std::slice::from_ref(*test), place).is_some()
            };
            let tests: Vec<(&str, String)> = tests.iter().filter(has_place).cloned().collect();
            let Some(with) = with_must_fail_tests(path, &text, &tests, place).filter(|_| !tests.is_empty())
            else {
                continue;
            };
            replace(&file, with.as_bytes())?;
            for (by, name) in tests {
                let numbers = expected_numbers(path, &text, by, &name);
                search.add(name, MustFailTest { path: path.to_owned(), by: by.to_owned() }, numbers);
            }
            self.before.insert(path.to_owned(), text.into_bytes());
        }
        Ok(search)
    }

    pub(crate) fn take_out(&mut self, folder: &Path) -> io::Result<()> {
        while let Some((path, before)) = self.before.pop_first() {
            replace(&folder.join(path), &before)?;
        }
        Ok(())
    }
}

/// The must-fail tests for the first run of a claim's gate, of those that it noticed before the first agent.
pub(crate) fn tests_of_claim(noticed: &[MustFailTest]) -> io::Result<Vec<MustFailTest>> {
    let random = random()?;
    let mut at = 0;
    Ok(must_fail_tests_of_claim(noticed, |_| {
        at += 1;
        usize::from(random[at % random.len()])
    }))
}

fn random() -> io::Result<[u8; 16]> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(random)
}
