//! What agents report, in their scopes, and what it comes to.

use proptest::prelude::*;

use super::*;
use crate::limits::Prices;

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

fn opus() -> Option<Price> {
    Prices::default().price_of("claude-opus-5-5")
}

fn is_near(cost: Option<f64>, expected: f64) -> bool {
    cost.is_some_and(|cost| (cost - expected).abs() < 1e-9)
}

// fault J2, J3: a message counts once, however many lines carry it, and the sum of the process settles it.
#[test]
fn claude_tells_a_message_several_times_and_the_truth_at_the_end() {
    let mut meter = Meter::new(opus(), None);
    for id in ["msg_1", "msg_1", "msg_2", "msg_3"] {
        meter.report_message(id, usage(1200, 1));
    }
    let live = meter.total();
    assert_eq!((live.usage, live.is_estimate), (usage(3600, 3), false));
    assert!(is_near(live.cost_usd, 0.01446), "{live:?}");
    // The text that was streamed says more about the output than the line that began the message.
    meter.estimate(400);
    let guessed = meter.total();
    assert_eq!((guessed.usage, guessed.is_estimate), (usage(3600, 100), true));
    meter.report(UsageScope::Process, usage(3600, 102), None);
    meter.report_cost(UsageScope::Session, 0.01644);
    let end = meter.total();
    assert_eq!((end.usage, end.is_estimate), (usage(3600, 102), false));
    assert!(is_near(end.cost_usd, 0.01644), "{end:?}");
}

#[test]
fn a_message_that_grows_is_replaced() {
    let mut meter = Meter::new(None, None);
    meter.report_message("a", usage(100, 1));
    meter.report_message("b", usage(100, 1));
    meter.report_message("a", usage(100, 50));
    meter.report_message("a", usage(100, 20));
    assert_eq!(meter.total(), Metered { usage: usage(200, 51), cost_usd: None, is_estimate: false });
}

#[test]
fn a_sum_over_the_session_is_less_what_was_there_before() {
    let before = SessionTotals { usage: usage(1200, 34), cost_usd: Some(0.00548) };
    // codex: tokens of the whole thread, no money.
    let mut meter = Meter::new(opus(), Some(before));
    meter.report(UsageScope::Session, usage(2400, 68), None);
    assert_eq!(meter.total().usage, usage(1200, 34));
    assert!(is_near(meter.total().cost_usd, 0.00548));
    assert_eq!(meter.session().usage, usage(2400, 68));
    assert!(is_near(meter.session().cost_usd, 0.01096));
    // claude: tokens of the process, money of the session.
    let mut meter = Meter::new(None, Some(before));
    meter.report(UsageScope::Process, usage(1200, 34), None);
    meter.report_cost(UsageScope::Session, 0.01096);
    assert_eq!(meter.total().usage, usage(1200, 34));
    assert!(is_near(meter.total().cost_usd, 0.00548));
    // One that counts from nothing again, though it is said to count the session.
    let mut meter = Meter::new(None, Some(before));
    meter.report(UsageScope::Session, usage(700, 3), Some(0.001));
    assert_eq!(meter.total().usage, usage(700, 3));
    assert!(is_near(meter.total().cost_usd, 0.001));
}

#[test]
fn calls_add_up_and_a_process_replaces() {
    let mut meter = Meter::new(None, None);
    for _ in 0..3 {
        meter.report(UsageScope::Call, usage(1200, 34), Some(0.25));
    }
    assert_eq!(meter.total(), Metered { usage: usage(3600, 102), cost_usd: Some(0.75), is_estimate: false });
    let mut meter = Meter::new(None, None);
    meter.report(UsageScope::Process, usage(1200, 34), Some(0.25));
    meter.report(UsageScope::Process, usage(3600, 102), Some(0.75));
    assert_eq!(meter.total(), Metered { usage: usage(3600, 102), cost_usd: Some(0.75), is_estimate: false });
    // The last step alone, told as if it were all: what was exact stays.
    meter.report(UsageScope::Process, usage(1200, 34), Some(0.25));
    assert_eq!(meter.total(), Metered { usage: usage(3600, 102), cost_usd: Some(0.75), is_estimate: false });
}

#[test]
fn a_guess_is_corrected_by_the_figure_and_never_below_what_was_exact() {
    let mut meter = Meter::new(opus(), None);
    meter.estimate(1000);
    meter.estimate(3000);
    assert_eq!(meter.total().usage, usage(0, 1000));
    assert!(meter.total().is_estimate && is_near(meter.total().cost_usd, 0.02));
    // Fewer tokens than guessed.
    meter.report(UsageScope::Process, usage(5000, 600), None);
    assert_eq!((meter.total().usage, meter.total().is_estimate), (usage(5000, 600), false));
    // What is written after it is guessed on top.
    meter.estimate(40);
    assert_eq!((meter.total().usage, meter.total().is_estimate), (usage(5000, 610), true));
    meter.report(UsageScope::Process, usage(9000, 590), None);
    assert_eq!((meter.total().usage, meter.total().is_estimate), (usage(9000, 600), false));
    for (bytes, tokens) in [(0, 0), (1, 1), (4, 1), (5, 2), (u64::MAX, u64::MAX / 4 + 1)] {
        assert_eq!(estimate_tokens(bytes), tokens);
    }
}

// fault J5: an agent that says 0 for tokens it used knows no price, and a sum that is none is not believed.
#[test]
fn nothing_is_not_a_price() {
    let priced = Price { input: 10.0, output: 10.0, cache_read: 10.0, cache_write: 10.0 };
    for (price, reported, expected) in [
        (None, None, None),
        (None, Some(0.0), None),
        (None, Some(f64::NAN), None),
        (None, Some(-1.0), None),
        (None, Some(f64::INFINITY), None),
        (None, Some(0.5), Some(0.5)),
        (Some(priced), None, Some(0.01)),
        (Some(priced), Some(0.0), Some(0.01)),
        (Some(priced), Some(0.5), Some(0.5)),
    ] {
        for scope in [UsageScope::Call, UsageScope::Process, UsageScope::Session] {
            let mut meter = Meter::new(price, None);
            meter.report(scope, usage(900, 100), reported);
            assert_eq!(meter.total().cost_usd, expected, "{scope:?} {price:?} {reported:?}");
        }
    }
    // Some calls came with money and some without.
    let mut meter = Meter::new(Some(priced), None);
    meter.report(UsageScope::Call, usage(900, 100), Some(0.5));
    meter.report(UsageScope::Call, usage(900, 100), None);
    assert!(is_near(meter.total().cost_usd, 0.51));
    let mut meter = Meter::new(None, None);
    meter.report(UsageScope::Call, usage(900, 100), Some(0.5));
    meter.report(UsageScope::Call, usage(900, 100), None);
    assert_eq!(meter.total().cost_usd, None);
    assert_eq!(Meter::new(None, None).total(), Metered::default());
    assert_eq!(Meter::new(Some(priced), None).total().cost_usd, Some(0.0));
}

#[test]
fn messages_after_a_sum_are_paid_for_by_price() {
    let mut meter = Meter::new(opus(), None);
    meter.report_message("a", usage(1_000_000, 0));
    meter.report(UsageScope::Process, usage(1_000_000, 0), Some(3.0));
    meter.report_message("b", usage(1_000_000, 0));
    assert!(is_near(meter.total().cost_usd, 7.0), "{:?}", meter.total());
}

#[test]
fn the_largest_message_is_remembered() {
    let mut meter = Meter::new(opus(), None);
    meter.report_message("a", usage(1_000_000, 0));
    meter.report_message("b", usage(10, 10));
    meter.report(UsageScope::Process, usage(5_000_000, 0), None);
    assert_eq!(meter.largest_message(), Spent { cost_usd: 4.0, tokens: 1_000_000 });
}

#[derive(Clone, Debug)]
enum Step {
    Report(UsageScope, [u64; 5], Option<f64>),
    Cost(UsageScope, f64),
    Message(u8, [u64; 5]),
    Estimate(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let scope = prop::sample::select(vec![UsageScope::Call, UsageScope::Process, UsageScope::Session]);
    let tokens = prop_oneof![any::<[u64; 5]>(), [0..10_000_u64, 0..10_000, 0..10_000, 0..10_000, 0..100]];
    let step = prop_oneof![
        (scope.clone(), tokens.clone(), proptest::option::of(any::<f64>()))
            .prop_map(|(s, u, c)| Step::Report(s, u, c)),
        (scope, any::<f64>()).prop_map(|(s, c)| Step::Cost(s, c)),
        (0..5_u8, tokens).prop_map(|(id, u)| Step::Message(id, u)),
        any::<u64>().prop_map(Step::Estimate),
    ];
    prop::collection::vec(step, 0..30)
}

proptest! {
    // fault J6: an exact figure is never taken back, in any order of reports.
    #[test]
    fn exact_figures_only_grow(steps in steps(), has_price in any::<bool>(), before in any::<[u64; 5]>()) {
        let of = |[input, output, cache_read, cache_write, reasoning]: [u64; 5]| {
            Usage { input, output, cache_read, cache_write, reasoning }
        };
        let before = SessionTotals { usage: of(before), cost_usd: Some(1.0) };
        let mut meter = Meter::new(opus().filter(|_| has_price), Some(before));
        let mut exact = Usage::default();
        for step in steps {
            match step {
                Step::Report(scope, usage, cost) => meter.report(scope, of(usage), cost),
                Step::Cost(scope, cost) => meter.report_cost(scope, cost),
                Step::Message(id, usage) => meter.report_message(&id.to_string(), of(usage)),
                Step::Estimate(bytes) => meter.estimate(bytes),
            }
            let total = meter.total();
            prop_assert_eq!(highest(total.usage, exact), total.usage);
            prop_assert!(total.cost_usd.is_none_or(|cost| cost >= 0.0));
            if !total.is_estimate {
                exact = total.usage;
            }
        }
    }
}
