//! How many iterations a stage may take: a number, or one that is chosen from past runs of the same stage.

use serde::{Deserialize, Serialize};

/// The largest limit that is chosen from past runs.
pub const AUTO_AT_MOST: u32 = 50;
/// The smallest limit that is chosen from past runs, but for roles that have fewer by default: the next task may be harder than
/// those before.
const AUTO_AT_LEAST: u32 = 3;
/// How many past runs it takes before they say anything.
const ENOUGH_RUNS: usize = 3;
/// How many of the newest runs are looked at.
const LOOKED_AT: usize = 20;

/// `max_iterations` of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationLimit {
    Fixed(u32),
    /// Chosen from past runs when the stage begins.
    Auto,
}

/// How a run of the stage went before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRun {
    pub iterations: u32,
    /// Whether the stage was passed; otherwise its iterations were used up.
    pub is_passed: bool,
}

/// A limit, and the sentence that `explain` says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenLimit {
    pub max_iterations: u32,
    pub why: String,
}

impl IterationLimit {
    /// The limit for the next run. `past` has the newest run last, `default` is the role's own limit, and no limit is larger
    /// than `at_most`, which is the user's own limit of iterations.
    pub fn choose(self, default: u32, past: &[PastRun], at_most: u32) -> ChosenLimit {
        let at_most = at_most.max(1);
        let within = |wanted: u32, at_most: u32, why: String| {
            let max_iterations = wanted.clamp(1, at_most);
            let cut = if wanted > at_most { format!("; {at_most} at most") } else { String::new() };
            ChosenLimit { max_iterations, why: format!("{why}{cut}") }
        };
        if let Self::Fixed(number) = self {
            return within(number, at_most, format!("max_iterations: {number}"));
        }
        let at_most = at_most.min(AUTO_AT_MOST);
        let newest = &past[past.len().saturating_sub(LOOKED_AT)..];
        if newest.len() < ENOUGH_RUNS {
            let (runs, few) = (newest.len(), ENOUGH_RUNS);
            return within(
                default,
                at_most,
                format!("auto: {runs} past runs, fewer than {few}: the default"),
            );
        }
        // A run that used up its iterations needed more than it had; twice as many is the next thing to try.
        let mut needed: Vec<u32> = newest
            .iter()
            .map(|run| if run.is_passed { run.iterations } else { run.iterations.saturating_mul(2) })
            .collect();
        needed.sort_unstable();
        // Nine of ten runs needed no more than this; half as many again leave room.
        let most = needed[(needed.len() * 9).div_ceil(10) - 1];
        let (wanted, at_least) = (most.saturating_add(most.div_ceil(2)), AUTO_AT_LEAST.min(default));
        let raised = if wanted < at_least { format!("; {at_least} at least") } else { String::new() };
        let runs = newest.len();
        let why = format!("auto: of the last {runs} runs nine in ten needed {most} or fewer{raised}");
        within(wanted.max(at_least), at_most, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(iterations: &[u32]) -> Vec<PastRun> {
        iterations.iter().map(|iterations| PastRun { iterations: *iterations, is_passed: true }).collect()
    }

    #[test]
    fn a_limit_is_a_number_or_follows_from_past_runs_within_a_maximum() {
        // req 186: every choice is a limit.
        let failed = [passed(&[2, 2]), vec![PastRun { iterations: 15, is_passed: false }]].concat();
        let long = passed(&[[40; 20], [2; 20]].concat());
        for (limit, past, at_most, expected, why) in [
            (IterationLimit::Fixed(15), vec![], 100, 15, "max_iterations: 15"),
            (IterationLimit::Fixed(15), passed(&[1; 9]), 8, 8, "max_iterations: 15; 8 at most"),
            (IterationLimit::Fixed(0), vec![], 0, 1, "max_iterations: 0"),
            (IterationLimit::Auto, vec![], 100, 10, "auto: 0 past runs, fewer than 3: the default"),
            (
                IterationLimit::Auto,
                passed(&[9, 9]),
                4,
                4,
                "auto: 2 past runs, fewer than 3: the default; 4 at most",
            ),
            (
                IterationLimit::Auto,
                passed(&[1, 1, 1]),
                100,
                3,
                "auto: of the last 3 runs nine in ten needed 1 or fewer; 3 at least",
            ),
            (
                IterationLimit::Auto,
                passed(&[2, 3, 4]),
                100,
                6,
                "auto: of the last 3 runs nine in ten needed 4 or fewer",
            ),
            (
                IterationLimit::Auto,
                failed,
                100,
                45,
                "auto: of the last 3 runs nine in ten needed 30 or fewer",
            ),
            (
                IterationLimit::Auto,
                passed(&[90; 3]),
                100,
                50,
                "auto: of the last 3 runs nine in ten needed 90 or fewer; 50 at most",
            ),
            // One that was exceptional is no measure, and neither is what is long ago.
            (
                IterationLimit::Auto,
                passed(&[2, 2, 2, 2, 2, 2, 2, 2, 2, 40]),
                100,
                3,
                "auto: of the last 10 runs nine in ten needed 2 or fewer",
            ),
            (IterationLimit::Auto, long, 100, 3, "auto: of the last 20 runs nine in ten needed 2 or fewer"),
        ] {
            let chosen = limit.choose(10, &past, at_most);
            assert_eq!(chosen, ChosenLimit { max_iterations: expected, why: why.to_owned() }, "{past:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_history_makes_a_limit_of_none_or_beyond_the_maximum(
            iterations in proptest::collection::vec((0_u32.., proptest::bool::ANY), 0..40),
            default in 0_u32..,
            at_most in 1_u32..,
        ) {
            // req 186
            let past: Vec<PastRun> =
                iterations.into_iter().map(|(iterations, is_passed)| PastRun { iterations, is_passed }).collect();
            for limit in [IterationLimit::Auto, IterationLimit::Fixed(default)] {
                let chosen = limit.choose(default, &past, at_most).max_iterations;
                proptest::prop_assert!((1..=at_most).contains(&chosen));
            }
        }
    }
}
