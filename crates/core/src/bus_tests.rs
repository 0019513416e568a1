use proptest::prelude::*;

use super::*;

fn message(counter: u32, body: &str) -> BusMessage {
    let at: Timestamp = "2026-11-15T18:00:00Z".parse().unwrap();
    let id = id_text(at, 1234, counter);
    let (kind, project) = ("INFO".to_owned(), "web-1a2b3c".to_owned());
    BusMessage { id, at, kind, project, task: None, loop_id: None, body: body.to_owned() }
}

fn draft(kind: &str, project: &str, task: Option<&str>) -> Draft {
    let task = task.map(str::to_owned);
    Draft { kind: kind.to_owned(), project: project.to_owned(), task, loop_id: None, body: String::new() }
}

#[test]
fn an_entry_looks_as_documented_in_file_and_in_json() {
    let mut entry = message(1, "body text,\n\n---\nany lines\n\n");
    assert_eq!(
        format(&entry),
        "---\nid: 20261115T180000.000000Z-01234-0001\nat: 2026-11-15T18:00:00Z\ntype: INFO\n\
         project: web-1a2b3c\n---\nbody text,\n\n\\---\nany lines\n\n"
    );
    entry.task = Some("fix-tests".to_owned());
    entry.loop_id = Some("k3f9".to_owned());
    entry.body = String::new();
    assert!(format(&entry).ends_with("\nproject: web-1a2b3c\ntask: fix-tests\nloop: k3f9\n---\n\n"));
    assert_eq!(
        serde_json::to_string(&entry).unwrap(),
        r#"{"id":"20261115T180000.000000Z-01234-0001","at":"2026-11-15T18:00:00Z","type":"INFO","project":"web-1a2b3c","task":"fix-tests","loop":"k3f9","body":""}"#
    );
}

#[test]
fn a_draft_that_would_not_read_back_is_refused() {
    let kind = |kind: &str| Err(DraftError::Kind(kind.to_owned()));
    let value = |key, value: &str| Err(DraftError::Value { key, value: value.to_owned() });
    let (longest, too_long) = ("k".repeat(64), "k".repeat(65));
    for (draft, expected) in [
        (draft("wait_without_restart", "web", Some("fix-tests")), Ok(())),
        (draft(&longest, "web", None), Ok(())),
        (draft(&too_long, "web", None), kind(&too_long)),
        (draft("", "web", None), kind("")),
        (draft("A B", "web", None), kind("A B")),
        (draft("INFO\nid", "web", None), kind("INFO\\nid")),
        (draft("INFO", "", None), value("project", "")),
        (draft("INFO", "web", Some("a\n---")), value("task", "a\\n---")),
        (draft("INFO", "web", Some(" a")), value("task", " a")),
    ] {
        assert_eq!(draft.check(), expected, "{draft:?}");
    }
}

#[test]
fn what_is_no_whole_entry_is_skipped_and_the_next_one_is_not() {
    let whole = format(&message(1, "one"));
    let (head, _) = whole.split_once("one").unwrap();
    let keys = head.strip_suffix("---\n").unwrap();
    let torn_body = || vec![message(1, "o")];
    for (name, before, found) in [
        ("nothing", String::new(), vec![]),
        ("a whole entry", whole.clone(), vec![message(1, "one")]),
        ("a whole entry without its blank line", whole.trim_end().to_owned(), vec![message(1, "one")]),
        ("a note", "a note\n".to_owned(), vec![]),
        ("a rule", "a note\n\n---\n\nmore".to_owned(), vec![]),
        ("two rules", "---\n---\n".to_owned(), vec![]),
        ("a list of keys", "id: 1\ntype: INFO\n".to_owned(), vec![]),
        ("foreign front matter", "---\ntitle: x\n---\n\ntext\n".to_owned(), vec![]),
        ("torn fence", "--".to_owned(), vec![]),
        ("torn after the fence", "---\n".to_owned(), vec![]),
        ("torn in a key", keys[..keys.len() / 2].to_owned(), vec![]),
        ("torn in the last key", keys.trim_end().to_owned(), vec![]),
        ("torn before the closing fence", keys.to_owned(), vec![]),
        ("torn in the closing fence", format!("{keys}--"), vec![]),
        ("torn in the body", format!("{head}o"), torn_body()),
        ("a bad time", head.replace("2026-11-15T", "yesterday"), vec![]),
        ("a bad type", head.replace("INFO", "IN FO"), vec![]),
        ("a blank line among the keys", head.replace("type", "\ntype"), vec![]),
        ("carriage returns", head.replace('\n', "\r\n"), vec![]),
    ] {
        let next = message(2, "id: 1\n\n---\n\\---\n---\r\nfin");
        let mut expected = found;
        expected.push(next.clone());
        let separated = format!("{before}{}{}", separator(before.as_bytes()), format(&next));
        assert_eq!(parse(&separated), expected, "{name}");
        // A foreign writer may have added no more than the line end.
        let newline = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        let joined = format!("{before}{newline}{}", format(&next));
        assert_eq!(parse(&joined), expected, "{name}, one line end");
    }
}

#[test]
fn keys_of_a_later_version_and_another_order_are_read() {
    let text = "---\ntype: INFO\npriority: high\nproject: web-1a2b3c\ntask:\nat: 2026-11-15T18:00:00Z\n\
                id: 20261115T180000.000000Z-01234-0001\n---\nbody\n\n";
    assert_eq!(parse(text), [message(1, "body")]);
}

#[test]
fn an_entry_is_found_with_its_blank_line_or_with_the_next_entry() {
    let (one, two) = (message(1, "first\n\nlast"), message(2, ""));
    let mut parser = BusParser::default();
    let text = format(&one);
    assert_eq!(parser.feed(&text[..text.len() - 1]), []);
    assert_eq!(parser.consumed(), 0);
    assert_eq!(parser.feed("\n"), std::slice::from_ref(&one));
    assert_eq!(parser.consumed(), text.len() as u64);

    let mut parser = BusParser::default();
    assert_eq!(parser.feed(text.trim_end()), []);
    assert_eq!(parser.feed("\n---\n"), [one]);
    assert_eq!(parser.feed(&format(&two)[4..]), [two]);
}

#[test]
fn bytes_that_are_no_text_spoil_only_their_place() {
    let mut bytes = format(&message(1, "a?b")).into_bytes();
    let place = bytes.iter().position(|&byte| byte == b'?').unwrap();
    bytes[place] = 0xff;
    assert_eq!(BusParser::default().feed(bytes), [message(1, "a\u{fffd}b")]);
}

#[test]
fn ids_follow_each_other_whatever_the_clock_says() {
    let now: Timestamp = "2026-11-15T18:00:00.123456789Z".parse().unwrap();
    let id = "20261115T180000.123456Z-01234-0001";
    for (last, pid, expected) in [
        (None, 1234, id),
        (Some("by hand"), 1234, id),
        (Some("20261115T180000.123455Z-99999-0009"), 1234, id),
        (Some(id), 1234, "20261115T180000.123456Z-01234-0002"),
        (Some(id), 99, "20261115T180000.123457Z-00099-0001"),
        (Some(id), 1235, "20261115T180000.123456Z-01235-0001"),
        // Read as text, the longer number is the smaller one.
        (Some("20261115T180000.123456Z-99999-0001"), 100_000, "20261115T180000.123457Z-100000-0001"),
        (Some("20261115T180000.123456Z-01234-9999"), 1234, "20261115T180000.123457Z-01234-0001"),
        (Some("20301115T180000.000000Z-01234-0007"), 1234, "20301115T180000.000000Z-01234-0008"),
        (Some("20301115T180000.999999Z-01234-0007"), 1, "20301115T180001.000000Z-00001-0001"),
    ] {
        let next = next_id(last, now, pid);
        assert_eq!(next, expected, "after {last:?}");
        assert!(is_id(&next));
        assert!(last.is_none_or(|last| !is_id(last) || last < next.as_str()), "{next} after {last:?}");
    }
}

fn any_body() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("---".to_owned()),
        Just("\\---".to_owned()),
        Just("\\\\---".to_owned()),
        Just("---\r".to_owned()),
        Just(String::new()),
        Just("\r".to_owned()),
        Just("id: 1\nat: 2026-11-15T18:00:00Z\ntype: INFO\nproject: web\n---".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_bodies_come_back(bodies in prop::collection::vec(any_body(), 0..5)) {
        let written: Vec<_> = bodies.iter().zip(1..).map(|(body, counter)| message(counter, body)).collect();
        let mut expected = written.clone();
        for message in &mut expected {
            message.body = message.body.trim_end_matches(['\r', '\n']).to_owned();
        }
        let text: String = written.iter().map(format).collect();
        prop_assert_eq!(&parse(&text), &expected);

        let mut parser = BusParser::default();
        let one_by_one: Vec<_> = written.iter().flat_map(|message| parser.feed(format(message))).collect();
        prop_assert_eq!(&one_by_one, &expected);
        prop_assert_eq!(parser.consumed(), text.len() as u64);
    }

    #[test]
    fn an_entry_cut_anywhere_never_costs_the_next(body in any_body(), cut in any::<prop::sample::Index>()) {
        let text = format(&message(1, &body)).into_bytes();
        let torn = &text[..cut.index(text.len())];
        let next = message(2, "next");
        for between in [separator(torn), "\n"] {
            let mut parser = BusParser::default();
            let mut found = parser.feed(torn);
            found.extend(parser.feed(between));
            found.extend(parser.feed(format(&next)));
            prop_assert_eq!(found.last(), Some(&next));
            prop_assert!(found.len() <= 2);
        }
    }

    #[test]
    fn pieces_do_not_matter_while_bodies_have_no_blank_line(
        body in "[a-zé\\\\ -]{0,12}(\n[a-zé-]{1,9}){0,3}",
        at in any::<prop::sample::Index>(),
    ) {
        let entries = [message(1, &format!("x{body}")), message(2, "y")];
        let text: String = entries.iter().map(format).collect();
        let (left, right) = text.as_bytes().split_at(at.index(text.len()));
        let mut parser = BusParser::default();
        let mut found = parser.feed(left);
        found.extend(parser.feed(right));
        prop_assert_eq!(found, entries);
    }

    #[test]
    fn no_text_makes_it_panic(text in any_body()) {
        parse(&text);
    }
}
