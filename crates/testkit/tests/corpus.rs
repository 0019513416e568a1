//! The promise detector against the corpus: nothing adversarial is believed, nothing genuine is missed, however
//! the output is cut (req 204, fault A1, fault A3, fault A4, fault D2, fault D4).

#![allow(clippy::unwrap_used)] // a helper of tests, not a test by its name

use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
};

use dacapo_core::judge::promise::{PromiseDetector, PromiseRule};
use dacapo_testkit::corpus::{Sample, must_match, must_not_match};

/// What the default rule makes of `chunks`.
fn believes(prompt: &str, chunks: &[&[u8]]) -> bool {
    let rule = PromiseRule::new("DONE").expect("a rule");
    let mut detector = PromiseDetector::new(&rule, "", prompt);
    for chunk in chunks {
        detector.push(chunk);
    }
    detector.finish().promise.is_some()
}

/// Every place to cut; of the few giant outputs, every one near an end and some of the filling between.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    (0..=length).filter(move |cut| *cut < 512 || length - cut < 512 || cut % 9973 == 0)
}

/// The samples judged otherwise than `expected`, whole or cut in two anywhere, or byte by byte.
fn misjudged(samples: &[Sample], expected: bool) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, NonZero::get);
    std::thread::scope(|scope| {
        let work = || {
            let mut wrong = Vec::new();
            while let Some(sample) = samples.get(next.fetch_add(1, Ordering::Relaxed)) {
                let output = &sample.output[..];
                let bytes: Vec<&[u8]> = output.chunks(1).collect();
                let cut = cuts(output.len()).find(|cut| {
                    let (head, tail) = output.split_at(*cut);
                    believes(&sample.prompt, &[head, tail]) != expected
                });
                if let Some(cut) = cut {
                    wrong.push(format!(
                        "{} (cut at {cut}): {:?}",
                        sample.name,
                        String::from_utf8_lossy(output)
                    ));
                } else if believes(&sample.prompt, &bytes) != expected {
                    wrong.push(format!("{} (byte by byte)", sample.name));
                }
            }
            wrong
        };
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect()
    })
}

#[test]
fn no_adversarial_output_is_believed() {
    let samples = must_not_match();
    assert!(samples.len() >= 1000, "{}", samples.len());
    let wrong = misjudged(&samples, false);
    assert!(wrong.is_empty(), "{} believed, the first: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}

#[test]
fn no_genuine_promise_is_missed() {
    let samples = must_match();
    assert!(samples.len() >= 300, "{}", samples.len());
    let wrong = misjudged(&samples, true);
    assert!(wrong.is_empty(), "{} missed, the first: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}
