//! Budgets in words, and what they let through.

use super::*;

const NONE: Spent = Spent { cost_usd: 0.0, tokens: 0 };

fn spent(cost_usd: f64, tokens: u64) -> Spent {
    Spent { cost_usd, tokens }
}

fn budget(max_cost: impl Into<Option<f64>>, max_tokens: impl Into<Option<u64>>) -> Budget {
    Budget { max_cost: max_cost.into(), max_tokens: max_tokens.into() }
}

// fault J1: reaching a budget is the end.
#[test]
fn a_budget_is_used_up_when_it_is_reached() {
    for (budget, spent, words) in [
        (budget(None, None), spent(1e9, u64::MAX), None),
        (budget(5.0, None), spent(4.99, u64::MAX), None),
        (budget(5.0, None), spent(5.0, 0), Some("cost 5.00 of 5.00 USD")),
        (budget(5.0, None), spent(5.03, 0), Some("cost 5.03 of 5.00 USD")),
        (budget(0.01, None), spent(0.0123, 0), Some("cost 0.0123 of 0.0100 USD")),
        (budget(None, 1000), spent(99.0, 999), None),
        (budget(None, 1000), spent(99.0, 1000), Some("1000 of 1000 tokens")),
        (budget(5.0, 1000), spent(5.5, 1200), Some("cost 5.50 of 5.00 USD")),
        (budget(5.0, 1000), spent(1.0, 1200), Some("1200 of 1000 tokens")),
        (budget(0.0, None), NONE, Some("cost 0.0000 of 0.0000 USD")),
        (budget(f64::INFINITY, None), spent(1e300, 0), None),
        (budget(f64::NAN, None), spent(1.0, 0), None),
    ] {
        assert_eq!(
            exceeded(&budget, &spent).map(|e| e.to_string()).as_deref(),
            words,
            "{budget:?} {spent:?}"
        );
    }
}

// fault J3: every kind of token counts, reasoning within the output.
#[test]
fn all_tokens_count() {
    let usage =
        crate::event::Usage { input: 1, output: 20, cache_read: 300, cache_write: 4000, reasoning: 15 };
    let metered = Metered { usage, cost_usd: Some(0.5), is_estimate: true };
    assert_eq!(Spent::of(&metered), spent(0.5, 4321));
    assert_eq!(Spent::of(&Metered { cost_usd: None, ..metered }), spent(0.0, 4321));
}

// fault J7: what others have reserved is not there.
#[test]
fn an_agent_starts_only_on_what_is_left() {
    let account = |share, max: f64, used, reserved| Account {
        share,
        budget: budget(max, None),
        spent: spent(used, 0),
        reserved: spent(reserved, 0),
    };
    for (accounts, reserve, refused) in [
        (vec![], 100.0, None),
        (vec![account(Share::Loop, 5.0, 0.0, 0.0)], 0.0, None),
        (vec![account(Share::Loop, 5.0, 4.0, 0.0)], 1.0, None),
        (vec![account(Share::Loop, 5.0, 4.0, 0.0)], 1.01, Some("cost 5.01 of 5.00 USD")),
        (vec![account(Share::Loop, 5.0, 5.0, 0.0)], 0.0, Some("cost 5.00 of 5.00 USD")),
        (vec![account(Share::Day, 50.0, 49.0, 1.0)], 0.0, Some("cost 50.00 of 50.00 USD today")),
        (vec![account(Share::Day, 50.0, 49.0, 0.5)], 0.5, None),
        (vec![account(Share::Run, 5.0, 4.0, 1.0)], 0.0, Some("cost 5.00 of 5.00 USD in this run")),
        (
            vec![account(Share::Loop, 5.0, 0.0, 0.0), account(Share::Project, 20.0, 19.5, 0.0)],
            0.6,
            Some("cost 20.10 of 20.00 USD in this project"),
        ),
    ] {
        let answer = may_start(&accounts, &spent(reserve, 0));
        assert_eq!(answer.err().map(|r| r.to_string()).as_deref(), refused, "{accounts:?} {reserve}");
    }
    assert_eq!(largest([]), NONE);
    assert_eq!(largest([spent(1.0, 5), spent(0.5, 9)]), spent(1.0, 9));
}

#[test]
fn an_agent_that_runs_is_judged_by_every_account() {
    let day = Account { share: Share::Day, budget: budget(2.0, None), spent: spent(2.5, 0), reserved: NONE };
    let own = Account { share: Share::Loop, budget: budget(5.0, None), spent: spent(0.5, 0), reserved: NONE };
    assert_eq!(first_exceeded(&[own]), None);
    assert_eq!(first_exceeded(&[own, day]).unwrap().to_string(), "cost 2.50 of 2.00 USD today");
    // A reservation is made to be spent.
    assert_eq!(first_exceeded(&[Account { reserved: spent(9.0, 0), ..own }]), None);
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(31) % sides
    }
}

#[derive(Clone, Copy, Default)]
struct Runner {
    spent: Spent,
    reserved: Spent,
    largest: Spent,
    is_running: bool,
}

/// Loops that share a day's budget, each with one of its own; every agent is judged after its own messages
/// only.
fn simulate(dice: &mut Dice, loops: usize) {
    let day = budget(dice.roll(500) as f64 / 100.0, Some(dice.roll(50_000)).filter(|_| dice.roll(2) == 0));
    let own = budget(Some(dice.roll(300) as f64 / 100.0).filter(|_| dice.roll(3) > 0), None);
    let mut runners = vec![Runner::default(); loops];
    let mut last_messages: Vec<Spent> = vec![NONE; loops];
    for _ in 0..24 {
        let at = dice.roll(loops as u64) as usize;
        let all = |runners: &[Runner], field: fn(&Runner) -> Spent| {
            runners.iter().map(field).fold(NONE, Spent::plus)
        };
        let accounts = |runners: &[Runner]| {
            let runner = &runners[at];
            [
                Account { share: Share::Loop, budget: own, spent: runner.spent, reserved: runner.reserved },
                Account {
                    share: Share::Day,
                    budget: day,
                    spent: all(runners, |r| r.spent),
                    reserved: all(runners, |r| r.reserved),
                },
            ]
        };
        if !runners[at].is_running {
            let reserve = runners[at].largest;
            if may_start(&accounts(&runners), &reserve).is_ok() {
                for account in accounts(&runners) {
                    assert_eq!(
                        exceeded(&account.budget, &account.spent),
                        None,
                        "started on an empty account"
                    );
                }
                runners[at].is_running = true;
                runners[at].reserved = reserve;
            }
            continue;
        }
        let message = spent(dice.roll(120) as f64 / 100.0, dice.roll(9000));
        last_messages[at] = message;
        let runner = &mut runners[at];
        runner.spent = runner.spent.plus(message);
        runner.reserved = NONE;
        runner.largest = largest([runner.largest, message]);
        if first_exceeded(&accounts(&runners)).is_some() || dice.roll(8) == 0 {
            runners[at].is_running = false;
        }
        // At most one message of each agent lies beyond a budget.
        let last = last_messages.iter().fold(NONE, |sum, message| sum.plus(*message));
        let total = all(&runners, |r| r.spent);
        assert!(total.cost_usd < day.max_cost.unwrap() + last.cost_usd + 1e-9, "{total:?} of {day:?}");
        assert!(
            day.max_tokens.is_none_or(|max| total.tokens <= max.saturating_add(last.tokens)),
            "{total:?} of {day:?}"
        );
        let runner = &runners[at];
        assert!(own.max_cost.is_none_or(|max| runner.spent.cost_usd < max + message.cost_usd + 1e-9));
    }
}

// fault J1, J2, J7: 100,000 histories; none starts on an empty account, none goes further than a message per
// agent.
#[test]
fn budgets_hold_within_a_message_for_each_agent() {
    let mut dice = Dice(20_261_116);
    for history in 0..100_000 {
        simulate(&mut dice, 1 + history % 3);
    }
}
