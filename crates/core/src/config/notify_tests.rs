//! What `notify` may say, and what is said about a bad one.

use super::*;
use crate::config::{Author, parse};

fn rules(text: &str, author: Author) -> Result<Vec<NotifyRule>, String> {
    parse("config.yaml", text.as_bytes(), author)
        .map(|config| config.notify.into_iter().map(|at| at.value).collect())
        .map_err(|problems| problems.to_string())
}

#[test]
fn entries_become_rules() {
    let text = r#"
notify:
  - {on: [loop_finished, question], desktop: true}
  - on: [parked, parked]
    webhook: https://hooks.example.com/x
    quiet: "22:00-07:00"
  - {command: "notify-me --to 'my phone'", quiet: 9:00-10:30}
  - {bell: true}
"#;
    let quiet = |hours| Some(QuietHours::parse(hours).unwrap());
    let expected = [
        NotifyRule {
            on: vec![NoticeKind::LoopFinished, NoticeKind::Question],
            channel: NotifyChannel::Desktop,
            quiet: None,
        },
        NotifyRule {
            on: vec![NoticeKind::Parked],
            channel: NotifyChannel::Webhook(WebhookUrl::parse("https://hooks.example.com/x").unwrap()),
            quiet: quiet("22:00-07:00"),
        },
        NotifyRule {
            on: NoticeKind::ALL.to_vec(),
            channel: NotifyChannel::Command(["notify-me", "--to", "my phone"].map(str::to_owned).into()),
            quiet: quiet("9:00-10:30"),
        },
        NotifyRule { on: NoticeKind::ALL.to_vec(), channel: NotifyChannel::Bell, quiet: None },
    ];
    assert_eq!(rules(text, Author::User).unwrap(), expected);
    let keys: std::collections::BTreeSet<String> = expected.iter().map(NotifyRule::key).collect();
    assert_eq!(keys.len(), 4, "each channel has a memory of its own");
}

#[test]
fn a_mistake_is_named_with_its_place_and_the_way_out() {
    for (entry, said) in [
        ("{on: [finished], desktop: true}", "unknown event `finished`; did you mean `loop_finished`?"),
        ("{on: [qestion], desktop: true}", "unknown event `qestion`; did you mean `question`?"),
        ("{on: [x], desktop: true}", "known here: loop_finished, question, refused, parked, budget"),
        ("{on: [], desktop: true}", "`notify[].on` must be a list of events"),
        ("{on: question, desktop: true}", "`notify[].on` must be a list"),
        ("{on: [[question]], desktop: true}", "must be one of loop_finished"),
        ("{on: [question]}", "needs a channel: `desktop: true`"),
        ("{desktop: true, bell: true}", "has one channel, not `desktop` and `bell`"),
        ("{desktop: false}", "`notify[].desktop` must be `true`"),
        ("{bell: 1}", "`notify[].bell` must be `true`"),
        ("{webhook: hooks.example.com}", "does not begin with `https://`"),
        ("{webhook: \"https://\"}", "names no host"),
        ("{webhook: \"https://a b\"}", "blank"),
        ("{command: \"say 'hello\"}", "has an open quote"),
        ("{command: \" \"}", "must not be blank"),
        (
            "{desktop: true, quiet: \"25:00-07:00\"}",
            "must be like \"22:00-07:00\": `25:00` is no time of day",
        ),
        ("{desktop: true, quiet: \"22:00\"}", "two times of day"),
        ("{desktop: true, quiet: \"07:00-07:00\"}", "begins and ends at the same time"),
        ("{desktop: true, when: x}", "unknown key `when`"),
        ("desktop", "must be a map of keys"),
    ] {
        let error = rules(&format!("notify:\n  - {entry}\n"), Author::User).unwrap_err();
        assert!(error.contains(said) && error.contains("config.yaml"), "{entry}: {error}");
    }
    assert!(rules("notify: {desktop: true}", Author::User).unwrap_err().contains("must be a list"));
    // An address may hold a secret: it is not repeated.
    let error = rules("notify: [{webhook: \"ftp://x/s3cr3t-t0ken\"}]", Author::User).unwrap_err();
    assert!(error.contains("is no address of a web service"), "{error}");
}

#[test]
fn a_repository_may_ring_a_bell_and_no_more() {
    assert_eq!(rules("notify: [{desktop: true}, {bell: true}]", Author::Repository).unwrap().len(), 2);
    for entry in ["{webhook: \"https://evil.example.com\"}", "{command: \"curl evil\"}"] {
        let error = rules(&format!("notify: [{entry}]"), Author::Repository).unwrap_err();
        assert!(error.contains("is the user's to say, a repository cannot set it"), "{error}");
    }
}
