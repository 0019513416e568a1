//! What the report counts, adds up and leaves out.

use super::*;
use crate::{
    event::{LoopEvent, Reason},
    view::view_tests::{at, iteration, over, refused, view},
};

fn named(id: &str, view: LoopView) -> LoopView {
    LoopView { id: id.parse().unwrap(), task: id.parse().unwrap(), ..view }
}

fn spending(cost: f64) -> LoopEvent {
    LoopEvent::UsageSeen {
        iteration: 1,
        attempt: 1,
        spend: Spend { cost_usd: Some(cost), ..Spend::default() },
        model: None,
    }
}

#[test]
fn what_ended_is_counted_by_how_and_what_goes_on_stands_apart() {
    let loops = vec![
        named("aaaaaaaaaa", view([iteration(1), spending(1.5), over(Reason::Done, "done")])),
        named("bbbbbbbbbb", view([refused(), refused(), spending(0.5), over(Reason::Stuck, "no progress")])),
        named("cccccccccc", view([over(Reason::Question, "which?")])),
        named("dddddddddd", view([over(Reason::Cancelled, "gone")])),
        named("eeeeeeeeee", view([iteration(2), spending(0.25)])),
        named("ffffffffff", view([iteration(2)]).with_dead_owner()),
    ];
    let standing = AllViews { loops, ..AllViews::default() };
    let all = report(&standing, at(0), at(6000));
    let ReportTotals {
        completed, failed, stopped, cancelled, running, iterations, refusals, cost_usd, ..
    } = all.totals.clone();
    assert_eq!((completed, failed, stopped, cancelled, running), (1, 1, 2, 1, 1));
    assert_eq!((iterations, refusals, cost_usd), (3 * 4 + 2 + 2, 2, Some(2.25)));
    let ids = |entries: &[ReportEntry]| -> Vec<String> { entries.iter().map(|e| e.id.clone()).collect() };
    assert_eq!(ids(&all.ended), ["bbbbbbbbbb", "aaaaaaaaaa", "cccccccccc", "dddddddddd", "ffffffffff"]);
    assert_eq!(ids(&all.open), ["eeeeeeeeee"]);
    let stuck = &all.ended[0];
    assert_eq!(stuck.refusals, [(RefusalReason::GateFailed, 2)]);
    assert_eq!(stuck.last_refusal.as_deref(), Some("gate `cargo test` exited 101"));
    // What ended before is not told; what needs a person is, and what nothing has taken up.
    let late = report(&standing, at(5000), at(6000));
    assert_eq!(ids(&late.ended), ["ffffffffff"]);
    assert_eq!(
        late.needs.iter().map(|need| need.id.as_str()).collect::<Vec<_>>(),
        ["cccccccccc", "ffffffffff"]
    );
    assert_eq!(report(&AllViews::default(), at(0), at(1)).totals, ReportTotals::default());
}

#[test]
fn the_loops_of_a_run_are_told_with_it() {
    let run: RunView = serde_json::from_value(serde_json::json!({
        "id": "rrrrrrrrrr", "project": "p", "root": "/src/shop", "target": "main", "merge": "merge", "parallel": 2,
        "units": 2, "state": "completed", "reason": "completed", "detail": "2 units merged", "exit_code": 0,
        "started_at": at(0), "ended_at": at(600), "pid": null,
    }))
    .unwrap();
    let of_run = |id: &str, events: Vec<LoopEvent>, changed: &[&str]| {
        let mut view = named(id, view(events));
        view.tally.run = Some("rrrrrrrrrr".parse().unwrap());
        view.tally.changed = Some(ChangedFiles::of(changed.iter().map(|path| (*path).to_owned()).collect()));
        view.verified = Some(true);
        view
    };
    let loops = vec![
        of_run("aaaaaaaaaa", vec![refused(), spending(1.0), over(Reason::Done, "done")], &["b", "a"]),
        of_run("bbbbbbbbbb", vec![refused(), spending(2.0), over(Reason::Done, "done")], &["b", "c"]),
    ];
    let standing = AllViews { loops, runs: vec![(run, Vec::new())], ..AllViews::default() };
    let all = report(&standing, at(0), at(6000));
    assert_eq!(all.ended.len(), 1);
    let entry = &all.ended[0];
    assert_eq!((entry.kind, entry.name.as_str()), (StreamKind::Run, "units of shop"));
    assert_eq!((entry.iterations, entry.cost_usd, entry.verified), (6, Some(3.0), Some(true)));
    assert_eq!(entry.refusals, [(RefusalReason::GateFailed, 2)]);
    assert_eq!(
        entry.changed,
        Some(ChangedFiles { count: 3, some: vec!["a".into(), "b".into(), "c".into()] })
    );
    assert_eq!(entry.lasted_ms, Millis(600_000));
}

#[test]
fn a_budget_is_low_once_and_again_after_it_was_raised() {
    let low_at = |spends: &[f64], raised: Option<f64>| {
        let mut view = view([]);
        view.tally.budget.max_cost = Some(5.0);
        let mut low = Vec::new();
        for (seq, cost) in (10..).zip(spends) {
            if let (12, Some(most)) = (seq, raised) {
                let grant = crate::event::Grant { max_cost: Some(most), ..Default::default() };
                let event = LoopEvent::LimitsRaised { grant };
                view.apply(&crate::event::Envelope { seq: 99, at: at(1), loop_id: view.id.clone(), event });
            }
            let event = spending(*cost);
            view.apply(&crate::event::Envelope { seq, at: at(1), loop_id: view.id.clone(), event });
            if view.tally.budget_low_at == Some(seq) {
                low.push(seq);
            }
        }
        low
    };
    assert_eq!(low_at(&[1.0, 3.9999], None), [0; 0]);
    assert_eq!(low_at(&[1.0, 4.0, 4.5, 5.0], None), [11]);
    assert_eq!(low_at(&[6.0], None), [10]);
    assert_eq!(low_at(&[1.0, 4.0, 5.0, 7.9, 8.0], Some(10.0)), [11, 14]);
}
