use proptest::prelude::*;

use super::*;

const KEY: [u8; 32] = [7; 32];

/// A stream as the journal has it.
#[derive(Clone, Debug)]
struct Recorded {
    id: String,
    chained_from: u64,
    head: u64,
    view: String,
    mac: Option<Vec<u8>>,
    events: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    seq: u64,
    at: i64,
    subject: Option<String>,
    body: String,
    carried: Option<Vec<u8>>,
}

impl Row {
    fn chained(&self) -> ChainedEvent<'_> {
        ChainedEvent { seq: self.seq, at: self.at, subject: self.subject.as_deref(), body: &self.body }
    }
}

/// As receipts have it.
fn hash_of(rows: &[Row]) -> String {
    let text: String = rows.iter().map(|row| format!("{}\n", row.body)).collect();
    crate::receipt::sha256(text.as_bytes())
}

/// Records these bodies as dacapo does; those before `chained_from` as it did before there were chains.
fn record(id: &str, bodies: &[&str], chained_from: u64) -> Recorded {
    let mut link: Option<Link> = None;
    let mut events: Vec<Row> = Vec::new();
    for (at, body) in bodies.iter().enumerate() {
        let seq = at as u64 * 3 + 1;
        let subject = (at % 2 == 1).then(|| format!("u{at}"));
        let mut row = Row { seq, at: at as i64 * 1000, subject, body: (*body).to_owned(), carried: None };
        if seq >= chained_from {
            let before = link.unwrap_or_else(|| Link::beginning("loop", id, &hash_of(&events)));
            let next = before.next(row.chained());
            (link, row.carried) = (Some(next), Some(next.bytes().to_vec()));
        }
        events.push(row);
    }
    let (head, view) = (events.last().map_or(0, |row| row.seq), "{\"state\":\"running\"}".to_owned());
    let mac = link.map(|link| MacKey::derive(&KEY).of_head("loop", id, head, link, &view).bytes().to_vec());
    Recorded { id: id.to_owned(), chained_from, head, view, mac, events }
}

fn check(recorded: &Recorded) -> Result<u64, ChainFault> {
    let mut check = ChainCheck::new("loop", &recorded.id, recorded.chained_from);
    for (at, row) in recorded.events.iter().enumerate() {
        check.take(row.chained(), row.carried.as_deref(), || hash_of(&recorded.events[..at]))?;
    }
    check.end(recorded.head, &recorded.view, recorded.mac.as_deref(), &MacKey::derive(&KEY))?;
    Ok(check.unchained())
}

/// Computes all hashes anew, as a program that has no key could.
fn rehash(recorded: &mut Recorded) {
    let mut link: Option<Link> = None;
    for at in 0..recorded.events.len() {
        let before = hash_of(&recorded.events[..at]);
        let row = &mut recorded.events[at];
        if row.seq >= recorded.chained_from {
            let next =
                link.unwrap_or_else(|| Link::beginning("loop", &recorded.id, &before)).next(row.chained());
            (link, row.carried) = (Some(next), Some(next.bytes().to_vec()));
        }
    }
    recorded.head = recorded.events.last().map_or(0, |row| row.seq);
}

const BODIES: [&str; 5] = ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}", "{\"d\":4}", "{\"e\":5}"];

#[test]
fn hmac_is_that_of_the_rfc() {
    // RFC 4231, test case 1 and 2: a key that is shorter than the block is padded with zeros, which our 32 bytes can hold.
    for (key, message, expected) in [
        (
            vec![0x0b; 20],
            b"Hi There".as_slice(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        ),
        (
            b"Jefe".to_vec(),
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
    ] {
        let mut padded = [0; 32];
        padded[..key.len()].copy_from_slice(&key);
        assert_eq!(hex(&hmac(&padded, message)), expected);
    }
}

#[test]
fn what_was_recorded_is_found_intact() {
    for (bodies, chained_from, unchained) in
        [(&BODIES[..], 1, 0), (&BODIES[..1], 1, 0), (&BODIES[..], 7, 2), (&BODIES[..], 100, 5)]
    {
        assert_eq!(check(&record("l1", bodies, chained_from)), Ok(unchained), "{chained_from}");
    }
}

type Edit = fn(&mut Recorded);

#[test]
fn each_kind_of_edit_is_found_where_it_is() {
    let edits: [(&str, Edit, ChainFault); 16] = [
        ("a body", |r| r.events[2].body = "{\"c\":4}".into(), ChainFault::Edited(7)),
        ("a body by a space", |r| r.events[2].body.push(' '), ChainFault::Edited(7)),
        ("a time", |r| r.events[1].at += 1, ChainFault::Edited(4)),
        ("a subject", |r| r.events[1].subject = Some("u9".into()), ChainFault::Edited(4)),
        ("a subject taken off", |r| r.events[1].subject = None, ChainFault::Edited(4)),
        ("an empty subject", |r| r.events[0].subject = Some(String::new()), ChainFault::Edited(1)),
        ("a removed event", |r| drop(r.events.remove(2)), ChainFault::Edited(10)),
        ("the first removed", |r| drop(r.events.remove(0)), ChainFault::Edited(4)),
        ("the last removed", |r| drop(r.events.pop()), ChainFault::OtherHead { head: 13, found: 10 }),
        (
            "an inserted event",
            |r| {
                let copy = Row { seq: 5, ..r.events[1].clone() };
                r.events.insert(2, copy);
            },
            ChainFault::Edited(5),
        ),
        (
            "an event at the end",
            |r| {
                let copy = Row { seq: 14, ..r.events[4].clone() };
                r.events.push(copy);
            },
            ChainFault::Edited(14),
        ),
        (
            "two that changed places",
            |r| {
                let (a, b) = (r.events[1].body.clone(), r.events[2].body.clone());
                (r.events[1].body, r.events[2].body) = (b, a);
            },
            ChainFault::Edited(4),
        ),
        ("a carried hash", |r| r.events[3].carried = Some(vec![0; 32]), ChainFault::Edited(10)),
        ("a hash taken off", |r| r.events[3].carried = None, ChainFault::Bare(10, 1)),
        ("the view", |r| r.view = "{\"state\":\"completed\"}".into(), ChainFault::OtherMac(13)),
        ("the keyed hash taken off", |r| r.mac = None, ChainFault::NoMac(13)),
    ];
    for (what, edit, expected) in edits {
        let mut recorded = record("l1", &BODIES, 1);
        edit(&mut recorded);
        assert_eq!(check(&recorded), Err(expected.clone()), "{what}");
        // A program that has no key computes the hashes anew.
        if recorded.mac.is_some() {
            rehash(&mut recorded);
            let is_as_it_was = what.contains("hash");
            assert_eq!(check(&recorded).is_ok(), is_as_it_was, "{what}, with new hashes");
        }
    }
}

#[test]
fn rows_of_another_loop_do_not_fit() {
    let (mut one, other) = (record("l1", &BODIES, 1), record("l2", &BODIES, 1));
    (one.events, one.mac) = (other.events, other.mac);
    assert_eq!(check(&one), Err(ChainFault::Edited(1)));
}

#[test]
fn a_journal_cannot_be_made_to_look_old() {
    let mut recorded = record("l1", &BODIES, 1);
    recorded.events.iter_mut().for_each(|row| row.carried = None);
    recorded.mac = None;
    assert_eq!(check(&recorded), Err(ChainFault::Bare(1, 1)));
    // Nor an old event new, nor an old event edited once the stream went on.
    let mut mixed = record("l1", &BODIES, 7);
    mixed.events[0].carried = Some(vec![1; 32]);
    assert_eq!(check(&mixed), Err(ChainFault::TooEarly(1, 7)));
    let mut mixed = record("l1", &BODIES, 7);
    mixed.events[0].body = "{}".into();
    assert_eq!(check(&mixed), Err(ChainFault::Edited(7)));
}

#[test]
fn another_key_does_not_fit() {
    let recorded = record("l1", &BODIES, 1);
    let mut check = ChainCheck::new("loop", "l1", 1);
    for row in &recorded.events {
        check.take(row.chained(), row.carried.as_deref(), String::new).ok();
    }
    let other = MacKey::derive(&[8; 32]);
    assert_eq!(
        check.end(recorded.head, &recorded.view, recorded.mac.as_deref(), &other),
        Err(ChainFault::OtherMac(13))
    );
}

#[test]
fn a_key_is_not_shown() {
    assert_eq!(format!("{:?}", MacKey::derive(&KEY)), "MacKey(…)");
}

#[test]
fn each_field_of_a_checkpoint_counts() {
    let key = MacKey::derive(&KEY);
    let facts = CheckpointFacts {
        kind: "loop",
        id: "l1",
        seq: 512,
        folded_by: "abc",
        hash: &[1, 2, 3],
        state: "{}",
        link: Some(Link([9; 32])),
        first: "{\"type\":\"loop_started\"}",
    };
    let mac = key.of_checkpoint(&facts);
    assert!(key.of_checkpoint(&facts.clone()).is(mac.bytes()));
    for other in [
        CheckpointFacts { kind: "run", ..facts },
        CheckpointFacts { id: "l2", ..facts },
        CheckpointFacts { seq: 513, ..facts },
        CheckpointFacts { folded_by: "abd", ..facts },
        CheckpointFacts { hash: &[1, 2], ..facts },
        CheckpointFacts { state: "{ }", ..facts },
        CheckpointFacts { link: None, ..facts },
        CheckpointFacts { link: Some(Link([8; 32])), ..facts },
        CheckpointFacts { first: "{}", ..facts },
    ] {
        assert!(!key.of_checkpoint(&other).is(mac.bytes()), "{other:?}");
    }
}

proptest! {
    /// Any stream is intact as it was recorded, and any single changed byte of any event is found.
    #[test]
    fn any_changed_byte_is_found(
        bodies in proptest::collection::vec("[ -~]{0,40}", 1..12),
        chained_from in 1_u64..10,
        which in any::<proptest::sample::Index>(),
        at in any::<proptest::sample::Index>(),
    ) {
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        let recorded = record("l1", &bodies, chained_from);
        prop_assert!(check(&recorded).is_ok());
        let mut edited = recorded.clone();
        let row = which.index(edited.events.len());
        let body = &mut edited.events[row].body;
        let letter = at.index(body.len() + 1);
        body.insert(letter, '!');
        // Streams that are wholly from before there were chains have nothing that could show it.
        let is_chained = recorded.events.iter().any(|row| row.carried.is_some());
        prop_assert_eq!(check(&edited).is_err(), is_chained);
    }

    /// Lists of fields that differ have different bytes, wherever their limits are.
    #[test]
    fn fields_do_not_run_into_each_other(a in "[ab]{0,4}", b in "[ab]{0,4}", c in "[ab]{0,4}", d in "[ab]{0,4}") {
        let of = |one: &str, two: &str| {
            let mut fields = Fields::new("t");
            fields.field(one.as_bytes());
            fields.field(two.as_bytes());
            fields.end()
        };
        prop_assert_eq!(of(&a, &b) == of(&c, &d), (a, b) == (c, d));
    }
}
