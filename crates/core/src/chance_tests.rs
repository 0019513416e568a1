//! Chance for tests that make up histories: seeded, so that one that fails can be seen again.
//!
//! `DACAPO_SIM_TIMES=20` runs twenty times as many of them, `DACAPO_SIM_SEED=42` replays one.

/// splitmix64: small, seeded, the same everywhere.
#[derive(Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    pub(crate) fn number_below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn is_one_in(&mut self, n: u64) -> bool {
        self.number_below(n) == 0
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    pub(crate) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

/// Says how to see it again, if the history that it watches over fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this history fails; replay it with DACAPO_SIM_SEED={}", self.0);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "which histories to run is asked of the test, not of the machine"
)]
fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs `check` on the seeds of this share of `all`; the shares run beside each other.
pub(crate) fn for_seeds(all: u64, share: u64, shares: u64, check: impl Fn(u64)) {
    if let Some(seed) = number_from_environment("DACAPO_SIM_SEED") {
        let _replay = Replay(seed);
        return check(seed);
    }
    let all = all * number_from_environment("DACAPO_SIM_TIMES").unwrap_or(1);
    for seed in (0..all).filter(|seed| seed % shares == share) {
        let _replay = Replay(seed);
        check(seed);
    }
}
