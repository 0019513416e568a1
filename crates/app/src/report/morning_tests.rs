//! The report as people read it, in many situations and widths.

use dacapo_core::{
    judge::claim::RefusalReason,
    view::{ChangedFiles, Need, StreamKind},
};
use jiff::SignedDuration;

use super::*;

const NOW: &str = "2026-11-15T07:30:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn shown(report: &Report, width: usize) -> String {
    let look = MorningLook {
        width,
        is_coloured: false,
        here: Some("/home/me/shop".into()),
        home: Some("/home/me".into()),
        zone: TimeZone::UTC,
    };
    lines(report, &look).iter().map(|line| line.rendered(false)).collect::<Vec<_>>().join("\n")
}

fn entry(name: &str, state: &str) -> ReportEntry {
    ReportEntry {
        kind: StreamKind::Loop,
        id: format!("{name}-id"),
        name: name.to_owned(),
        project: "p".parse().unwrap(),
        folder: "/home/me/shop".into(),
        state: state.to_owned(),
        reason: None,
        detail: None,
        started_at: ago(100),
        ended_at: Some(ago(60)),
        lasted_ms: Millis::from_mins(40),
        iterations: 4,
        cost_usd: Some(0.8),
        cost_estimated: false,
        tokens: None,
        refusals: Vec::new(),
        last_refusal: None,
        changed: None,
        verified: Some(true),
        parts: None,
    }
}

fn need(urgency: Urgency, name: &str, what: &str, command: &str) -> Need {
    Need {
        urgency,
        kind: StreamKind::Loop,
        id: format!("{name}-id"),
        name: name.to_owned(),
        project: "p".parse().unwrap(),
        folder: "/home/me/shop".into(),
        since: ago(125),
        what: what.to_owned(),
        command: command.to_owned(),
    }
}

fn night() -> Report {
    let parser = ReportEntry {
        refusals: vec![(RefusalReason::GateFailed, 2), (RefusalReason::Empty, 1)],
        last_refusal: Some("gate `cargo test` exited 101: 3 tests failed in parser::numbers".to_owned()),
        changed: Some(ChangedFiles::of(
            ["src/parser.rs", "src/lexer.rs", "tests/parser.rs", "docs/grammar.md", "README.md"]
                .map(str::to_owned)
                .into(),
        )),
        ..entry("parser", "completed")
    };
    let billing = ReportEntry {
        detail: Some("all 15 iterations are used".to_owned()),
        verified: None,
        folder: "/home/me/bank".into(),
        ..entry("billing", "failed")
    };
    let units = ReportEntry {
        kind: StreamKind::Run,
        parts: Some("3 of 4 units done".to_owned()),
        cost_estimated: true,
        cost_usd: Some(12.344),
        folder: "/srv/units".into(),
        ..entry("units of shop", "completed")
    };
    let docs = ReportEntry { ended_at: None, verified: None, iterations: 2, ..entry("docs", "running") };
    Report {
        since: ago(720),
        at: now(),
        needs: vec![
            need(
                Urgency::Question,
                "fix-auth",
                "Should a token that has expired while the request was under way be refused, or renewed once without a word?",
                "dacapo steer k3v9p2mq1x \"…\"",
            ),
            need(Urgency::Failed, "billing", "all 15 iterations are used", "dacapo resume billing-id -n +10"),
        ],
        ended: vec![parser, billing, units],
        open: vec![docs],
        totals: ReportTotals {
            completed: 2,
            failed: 1,
            running: 1,
            iterations: 14,
            refusals: 3,
            cost_usd: Some(14.744),
            cost_estimated: true,
            ..ReportTotals::default()
        },
    }
}

fn quiet() -> Report {
    Report {
        since: ago(720),
        at: now(),
        needs: Vec::new(),
        ended: Vec::new(),
        open: Vec::new(),
        totals: ReportTotals::default(),
    }
}

#[test]
fn a_night_at_80_columns() {
    insta::assert_snapshot!(shown(&night(), 80), @r#"
    Since 2026-11-14 19:30 (12h): 2 done, 1 failed, 1 going on · 14 iterations ·
    about $14.74

    Needs you (2)

      fix-auth asks, 2h ago
        Should a token that has expired while the request was under way be refused,
        or renewed once without a word?
        > dacapo steer k3v9p2mq1x "…"

      billing failed, 2h ago
        all 15 iterations are used
        > dacapo resume billing-id -n +10

    Ended (3)

      done       parser, 1h ago, after 40m 0s
                 4 iterations · $0.80 · verified
                 changed 5 files: README.md, docs/grammar.md, src/lexer.rs,
                 src/parser.rs and 1 more
                 refused 3 claims: a gate failed (2 times), nothing was changed
                   the last: gate `cargo test` exited 101: 3 tests failed in
                   parser::numbers

      failed     billing, 1h ago, after 40m 0s, in ~/bank
                 4 iterations · $0.80

      done       units of shop, 1h ago, after 40m 0s, in /srv/units
                 4 iterations · about $12.34 · verified
                 3 of 4 units done

    Going on (1)

      running    docs, began 1h ago
                 2 iterations · $0.80
    "#);
}

#[test]
fn the_same_at_40_columns() {
    insta::assert_snapshot!(shown(&night(), 40), @r#"
    Since 2026-11-14 19:30 (12h): 2 done, 1
    failed, 1 going on · 14 iterations ·
    about $14.74

    Needs you (2)

      fix-auth asks, 2h ago
        Should a token that has expired
        while the request was under way be
        refused, or renewed once without a
        word?
        > dacapo steer k3v9p2mq1x "…"

      billing failed, 2h ago
        all 15 iterations are used
        > dacapo resume billing-id -n +10

    Ended (3)

      done
        parser, 1h ago, after 40m 0s
        4 iterations · $0.80 · verified
        changed 5 files: README.md,
        docs/grammar.md, src/lexer.rs,
        src/parser.rs and 1 more
        refused 3 claims: a gate failed (2
        times), nothing was changed
          the last: gate `cargo test` exited
          101: 3 tests failed in
          parser::numbers

      failed
        billing, 1h ago, after 40m 0s, in
        ~/bank
        4 iterations · $0.80

      done
        units of shop, 1h ago, after 40m 0s,
        in /srv/units
        4 iterations · about $12.34 ·
        verified
        3 of 4 units done

    Going on (1)

      running
        docs, began 1h ago
        2 iterations · $0.80
    "#);
}

#[test]
fn the_same_at_20_columns_keeps_its_commands_whole() {
    let text = shown(&night(), 20);
    assert!(text.lines().any(|line| line == "    > dacapo resume billing-id -n +10"), "{text}");
    let is_word = |line: &&str| !line.trim().contains(' ');
    let wide = text.lines().filter(|line| columns(line) > 20 && !line.contains("> dacapo"));
    assert!(
        wide.clone().all(|line| is_word(&line)),
        "only a long word is wider: {:?}",
        wide.collect::<Vec<_>>()
    );
}

#[test]
fn a_night_without_anything() {
    insta::assert_snapshot!(shown(&quiet(), 80), @r#"
    Since 2026-11-14 19:30 (12h): nothing was run.

    Nothing needs you.
    "#);
}

#[test]
fn each_urgency_in_its_own_words() {
    let of = |urgency| need(urgency, "fix-auth", "the reason", "dacapo why x");
    let unit = Need { kind: StreamKind::Unit, name: "auth".into(), ..of(Urgency::Approval) };
    let workflow = Need { kind: StreamKind::Workflow, name: "ship".into(), ..of(Urgency::Approval) };
    let needs = [
        Urgency::Question,
        Urgency::Approval,
        Urgency::Refused,
        Urgency::SignIn,
        Urgency::Parked,
        Urgency::Failed,
        Urgency::Interrupted,
        Urgency::Paused,
    ];
    let needs: Vec<Need> = needs.map(of).into_iter().chain([unit, workflow]).collect();
    let text = shown(&Report { needs, ..quiet() }, 80);
    let heads: Vec<&str> = text.lines().filter(|line| line.contains(" ago")).map(str::trim).collect();
    insta::assert_snapshot!(heads.join("\n"), @r#"
    fix-auth asks, 2h ago
    fix-auth waits for your decision, 2h ago
    fix-auth was refused three times in a row, 2h ago
    fix-auth cannot reach its account, 2h ago
    fix-auth is parked, 2h ago
    fix-auth failed, 2h ago
    fix-auth was interrupted, 2h ago
    fix-auth is paused, 2h ago
    unit auth is merged, but not into its target, 2h ago
    workflow ship waits for your decision, 2h ago
    "#);
}

#[test]
fn what_ended_in_each_way() {
    let ended = vec![
        ReportEntry { verified: Some(false), iterations: 1, ..entry("unproven", "completed") },
        ReportEntry { cost_usd: None, iterations: 0, verified: None, ..entry("gone", "cancelled") },
        ReportEntry {
            detail: Some("dacapo died while the loop was running".into()),
            ended_at: None,
            verified: None,
            ..entry("cut-off", "stopped")
        },
        ReportEntry {
            refusals: vec![(RefusalReason::Tampered, 1)],
            last_refusal: Some("protected `tests/a.rs` was changed".into()),
            detail: Some("no progress in 10 iterations".into()),
            verified: None,
            ..entry("stuck", "failed")
        },
    ];
    insta::assert_snapshot!(shown(&Report { ended, ..quiet() }, 80), @r#"
    Since 2026-11-14 19:30 (12h): nothing was run.

    Nothing needs you.

    Ended (4)

      done       unproven, 1h ago, after 40m 0s
                 1 iteration · $0.80 · unverified: no gate stood behind it

      cancelled  gone, 1h ago, after 40m 0s

      stopped    cut-off, began 1h ago
                 dacapo died while the loop was running
                 4 iterations · $0.80

      failed     stuck, 1h ago, after 40m 0s
                 no progress in 10 iterations
                 4 iterations · $0.80
                 refused 1 claim: protected files were changed
                   the last: protected `tests/a.rs` was changed
    "#);
}

#[test]
fn a_stretch_of_time_is_named_as_it_was_typed() {
    for (minutes, head) in [
        (720, "Since 2026-11-14 19:30 (12h): nothing was run."),
        (60, "Since 06:30 (1h): nothing was run."),
        (90, "Since 06:00 (1h 30m): nothing was run."),
        (2880, "Since 2026-11-13 07:30 (2d): nothing was run."),
        (0, "Since 07:30 (0ms): nothing was run."),
    ] {
        let text = shown(&Report { since: ago(minutes), ..quiet() }, 80);
        assert_eq!(text.lines().next(), Some(head));
    }
}

#[test]
fn agents_words_cannot_paint_the_terminal() {
    let report = Report {
        needs: vec![need(Urgency::Question, "x", "\x1b[2J\x1b]0;owned\x07really? \u{202e}", "dacapo why x")],
        ..quiet()
    };
    let look = MorningLook { width: 80, is_coloured: true, here: None, home: None, zone: TimeZone::UTC };
    let text: String = lines(&report, &look).iter().map(|line| line.rendered(true)).collect();
    assert!(!text.contains("\x1b[2J") && !text.contains("owned") && text.contains("\x1b[1m"), "{text:?}");
}
