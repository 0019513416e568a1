//! Quiet hours and rate limits, by table and by property.

use proptest::prelude::*;

use super::*;
use crate::notify::{NotifyChannel, QuietHours};

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + 60 * minute).unwrap()
}

const NOON: Time = Time::constant(12, 0, 0, 0);
const NIGHT: Time = Time::constant(23, 0, 0, 0);

fn rule(on: &[NoticeKind], quiet: Option<&str>) -> NotifyRule {
    NotifyRule {
        on: on.to_vec(),
        channel: NotifyChannel::Desktop,
        quiet: quiet.map(|hours| QuietHours::parse(hours).unwrap()),
    }
}

fn notice(event: NoticeKind, subject: &str, minute: i64) -> Notice {
    Notice {
        subject: subject.to_owned(),
        title: format!("{subject} {}", event.as_str()),
        ..Notice::sample(event, at(minute), "p".parse().unwrap(), "/w".into())
    }
}

/// What is sent of notices that come at these minutes and times of day: their titles and how many were held back.
fn sent(rule: &NotifyRule, notices: &[(i64, Time, NoticeKind, &str)]) -> Vec<(String, u32)> {
    let mut memory = ChannelMemory::default();
    let judged = notices.iter().filter_map(|(minute, local, event, subject)| {
        judge(rule, &notice(*event, subject, *minute), &mut memory, at(*minute), *local)
    });
    judged.map(|delivery| (delivery.title(), delivery.held_back.count)).collect()
}

#[test]
fn what_was_held_back_is_due_when_quiet_hours_or_the_flood_end() {
    let now = |time: &str| format!("2026-11-18T{time}:00+00:00[UTC]").parse::<Zoned>().unwrap();
    let (quiet, loud) = (rule(&NoticeKind::ALL, Some("22:00-07:00")), rule(&NoticeKind::ALL, None));
    let mut memory = ChannelMemory::default();
    assert_eq!(due_at(&quiet, &memory, &now("23:00")), None, "nothing waits");
    memory.held.count = 1;
    let due = |rule, memory: &ChannelMemory, time| due_at(rule, memory, &now(time)).map(|at| at.to_string());
    assert_eq!(due(&quiet, &memory, "23:00").as_deref(), Some("2026-11-19T07:00:00Z"));
    assert_eq!(due(&quiet, &memory, "12:00").as_deref(), Some("2026-11-18T12:00:00Z"), "at once");
    memory.times = vec![now("11:59").timestamp(); MOST];
    assert_eq!(due(&loud, &memory, "12:00").as_deref(), Some("2026-11-18T12:09:00Z"));
}

#[test]
fn only_what_was_asked_for_is_sent() {
    use NoticeKind::{Budget, LoopFinished, Parked, Question, Refused};
    for (on, wanted) in [
        (vec![LoopFinished], vec!["a loop_finished"]),
        (vec![Question], vec!["a question"]),
        (vec![Refused, Budget], vec!["a refused", "a budget"]),
        (
            NoticeKind::ALL.to_vec(),
            vec!["a loop_finished", "a question", "a refused", "a parked", "a budget"],
        ),
    ] {
        let all = [LoopFinished, Question, Refused, Parked, Budget].map(|event| (0, NOON, event, "a"));
        let titles: Vec<String> = sent(&rule(&on, None), &all).into_iter().map(|(title, _)| title).collect();
        assert_eq!(titles, wanted, "{on:?}");
    }
    // An end at which a person is asked is both.
    let asked_at_end = Notice { is_end: true, ..notice(Question, "a", 0) };
    for (on, is_wanted) in [(Question, true), (LoopFinished, true), (Parked, false)] {
        assert_eq!(asked_at_end.is_wanted(&[on]), is_wanted);
    }
}

#[test]
fn the_same_is_said_once_in_ten_minutes() {
    use NoticeKind::{Parked, Question};
    let all = rule(&NoticeKind::ALL, None);
    let told = sent(
        &all,
        &[
            (0, NOON, Parked, "a"),
            (5, NOON, Parked, "a"),
            (5, NOON, Parked, "b"),
            (5, NOON, Question, "a which?"),
            (6, NOON, Question, "a which?"),
            (6, NOON, Question, "a and now?"),
            (10, NOON, Parked, "a"),
        ],
    );
    let titles: Vec<&str> = told.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(titles, ["a parked", "b parked", "a which? question", "a and now? question", "a parked"]);
}

#[test]
fn quiet_hours_hold_back_and_what_they_held_comes_as_one() {
    use NoticeKind::LoopFinished;
    let quiet = rule(&NoticeKind::ALL, Some("22:00-07:00"));
    let told = sent(
        &quiet,
        &[
            (0, NIGHT, LoopFinished, "a"),
            (60, NIGHT, LoopFinished, "b"),
            (600, NOON, LoopFinished, "c"),
            (700, NOON, LoopFinished, "d"),
        ],
    );
    assert_eq!(told, [("c loop_finished".to_owned(), 2), ("d loop_finished".to_owned(), 0)]);
    // Without another notice a summary comes with the next thing that happens, once.
    let mut memory = ChannelMemory::default();
    assert_eq!(judge(&quiet, &notice(LoopFinished, "a", 0), &mut memory, at(0), NIGHT), None);
    assert_eq!(overdue(&quiet, &mut memory, at(1), NIGHT), None, "it is still quiet");
    let summary = overdue(&quiet, &mut memory, at(600), NOON).unwrap();
    assert_eq!((summary.title(), summary.text()), ("a loop_finished".into(), "- a loop_finished".into()));
    assert_eq!(overdue(&quiet, &mut memory, at(601), NOON), None);
}

#[test]
fn a_flood_becomes_ten_and_a_summary_and_old_news_is_none() {
    use NoticeKind::LoopFinished;
    let all = rule(&NoticeKind::ALL, None);
    let names: Vec<String> = (0..40).map(|n| format!("loop{n}")).collect();
    let mut flood: Vec<_> = names.iter().map(|name| (0, NOON, LoopFinished, name.as_str())).collect();
    flood.push((20, NOON, LoopFinished, "later"));
    let told = sent(&all, &flood);
    assert_eq!(told.len(), MOST + 1);
    assert_eq!(told[MOST], ("later loop_finished".to_owned(), 30));
    let mut memory = ChannelMemory::default();
    let old = notice(LoopFinished, "a", 0);
    assert_eq!(judge(&all, &old, &mut memory, at(24 * 60 + 1), NOON), None);
    assert!(judge(&all, &old, &mut memory, at(24 * 60), NOON).is_some());
}

#[test]
fn a_summary_names_some_and_counts_the_rest() {
    let held_back = HeldBack { count: 23, titles: (0..20).map(|n| format!("loop {n} is done")).collect() };
    let delivery = Delivery { notice: None, held_back };
    assert_eq!(delivery.title(), "23 things happened while it was quiet");
    let text = delivery.text();
    assert!(text.ends_with("- and 3 more; `dacapo report` has them all"), "{text}");
    assert_eq!(text.lines().count(), 21);
}

#[test]
fn a_clock_that_was_set_back_silences_nothing() {
    use NoticeKind::Parked;
    let all = rule(&NoticeKind::ALL, None);
    let told = sent(&all, &[(600, NOON, Parked, "a"), (0, NOON, Parked, "a")]);
    assert_eq!(told.len(), 2);
}

proptest! {
    /// Whatever comes in whichever order: nothing is sent in quiet hours, no window has more than the limit, and each
    /// notice is sent, held back or a repetition, never two of these.
    #[test]
    fn limits_hold(steps in proptest::collection::vec((0_i64..4, 0_i8..24, 0_usize..5, 0_u8..6), 1..200)) {
        let quiet = rule(&NoticeKind::ALL, Some("22:00-07:00"));
        let mut memory = ChannelMemory::default();
        let (mut minute, mut times, mut told, mut held) = (0, Vec::new(), 0_u32, 0_u32);
        let mut accepted = 0_u32;
        for (pause, hour, event, subject) in steps {
            minute += pause;
            let local = Time::new(hour, 0, 0, 0).unwrap();
            let before = (memory.told.len(), memory.held.count);
            let came = notice(NoticeKind::ALL[event], &subject.to_string(), minute);
            let mut probe = memory.clone();
            probe.forget(at(minute));
            let was_known = probe.told.iter().any(|(s, k, _)| *s == came.subject && *k == came.event);
            let delivery = judge(&quiet, &came, &mut memory, at(minute), local);
            accepted += u32::from(!was_known);
            match delivery {
                Some(delivery) => {
                    prop_assert!((7..22).contains(&hour), "sent at {hour}");
                    times.push(minute);
                    told += 1;
                    held += delivery.held_back.count;
                }
                None => prop_assert!(was_known || memory.held.count == before.1 + 1),
            }
            prop_assert!(times.iter().filter(|at| minute - **at < 10).count() <= MOST);
        }
        prop_assert_eq!(accepted, told + held + memory.held.count, "nothing is lost or told twice");
    }
}
