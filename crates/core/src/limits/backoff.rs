//! How long to wait before the next try, when the provider is in trouble or out of reach.

use sha2::{Digest, Sha256};

use crate::duration::Millis;

/// The first wait, at most, unless a user wants another one.
pub const FIRST: Millis = Millis::from_secs(30);

/// Any wait is at most this many times the first.
const LONGEST: u64 = 10;

/// And at least one of this many parts of it: a loop without any would be a stampede of its own.
const SHORTEST: u64 = 30;

/// After this much waiting in a row a loop parks, and probes every
/// [`PROBE_EVERY`](super::reset::PROBE_EVERY).
pub const GIVE_UP_AFTER: Millis = Millis::from_mins(60);

/// How long to wait before try number `retry`, counted from 1.
///
/// At most `first`, then twice as long each time, up to ten times that; anywhere between a thirtieth of `first` and
/// that, so that loops which failed together do not come back together. The place is derived from `seed` and `retry`:
/// the same question has the same answer. Never less than the provider `suggested`; then what is added is at most
/// `first`.
pub fn backoff(first: Millis, retry: u32, seed: &str, suggested: Option<Millis>) -> Millis {
    let doublings = retry.saturating_sub(1).min(10);
    let ceiling = first.0.saturating_mul(LONGEST.min(1 << doublings));
    let shortest = first.0 / SHORTEST;
    match suggested {
        Some(suggested) => {
            suggested.plus(Millis(place(retry, seed, first.0))).max(Millis(place(retry, seed, ceiling)))
        }
        None => Millis(shortest + place(retry, seed, ceiling - shortest)),
    }
}

/// A number from 0 to `most`, the same for the same `seed` and `retry`, and anything for another.
fn place(retry: u32, seed: &str, most: u64) -> u64 {
    let digest = Sha256::new().chain_update(retry.to_be_bytes()).chain_update(seed).finalize();
    let number = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    number % most.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CEILINGS: [(u32, u64); 9] =
        [(0, 30), (1, 30), (2, 60), (3, 120), (4, 240), (5, 300), (6, 300), (100, 300), (u32::MAX, 300)];

    // fault E4: 30 s, doubling, at most 5 min, anywhere below it.
    #[test]
    fn a_wait_doubles_up_to_five_minutes_and_is_spread_over_all_of_it() {
        for (retry, ceiling) in CEILINGS {
            let waits: Vec<u64> = (0..1000)
                .map(|loop_number| backoff(FIRST, retry, &format!("loop {loop_number}"), None).0)
                .collect();
            let ceiling = ceiling * 1000;
            let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*least >= 1000 && *most <= ceiling, "{retry}: {least} to {most}");
            let early = waits.iter().filter(|wait| **wait < ceiling / 4).count();
            let late = waits.iter().filter(|wait| **wait > ceiling / 4 * 3).count();
            assert!(
                (150..350).contains(&early) && (150..350).contains(&late),
                "{retry}: {early} early, {late} late"
            );
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer() {
        for (retry, seed, suggested) in [(1, "a", None), (3, "a", None), (1, "b", Some(Millis(5000)))] {
            assert_eq!(backoff(FIRST, retry, seed, suggested), backoff(FIRST, retry, seed, suggested));
        }
        assert_ne!(backoff(FIRST, 1, "a", None), backoff(FIRST, 1, "b", None));
        assert_ne!(backoff(FIRST, 5, "a", None), backoff(FIRST, 6, "a", None));
        // The waits of a loop are part of its history, so they must not change with a new version.
        assert_eq!([1, 2, 3].map(|retry| backoff(FIRST, retry, "seed", None).0), PINNED);
    }

    const PINNED: [u64; 3] = [10_198, 40_378, 33_287];

    #[test]
    fn who_wants_shorter_waits_has_them_in_the_same_proportion() {
        for (first, longest) in [(0, 0), (1, 10), (100, 1000), (3_600_000, 36_000_000), (u64::MAX, u64::MAX)]
        {
            for retry in [1, 2, 5, 100] {
                let wait = backoff(Millis(first), retry, "seed", None).0;
                assert!((first / 30..=longest).contains(&wait), "{first} {retry}: {wait}");
            }
        }
    }

    #[test]
    fn a_suggestion_is_the_least() {
        for (suggested, most) in [(0, 300_000), (1000, 300_000), (299_000, 329_000), (3_600_000, 3_630_000)] {
            for (retry, _) in CEILINGS {
                for seed in ["a", "b", "c"] {
                    let wait = backoff(FIRST, retry, seed, Some(Millis(suggested))).0;
                    assert!((suggested..=most).contains(&wait), "{retry} {seed}: {wait} of {suggested}");
                }
            }
        }
        assert_eq!(backoff(FIRST, 1, "a", Some(Millis(u64::MAX))), Millis(u64::MAX));
    }

    #[test]
    fn an_hour_of_waiting_is_a_few_dozen_tries() {
        for seed in ["a", "b", "c", "d"] {
            let mut waited = Millis(0);
            let tries = (1..).take_while(|retry| {
                waited = waited.plus(backoff(FIRST, *retry, seed, None));
                waited < GIVE_UP_AFTER
            });
            assert!((12..60).contains(&tries.count()), "{seed}");
        }
    }

    proptest! {
        #[test]
        fn any_question_has_an_answer(retry in any::<u32>(), seed in ".*", suggested in proptest::option::of(any::<u64>())) {
            let wait = backoff(FIRST, retry, &seed, suggested.map(Millis));
            prop_assert!(wait.0 >= suggested.unwrap_or(1000));
            prop_assert!(wait.0 <= (FIRST.0 * LONGEST).max(suggested.unwrap_or(0).saturating_add(FIRST.0)));
        }
    }
}
