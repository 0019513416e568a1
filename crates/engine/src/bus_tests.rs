use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::mpsc;
use std::{fs, thread};

use super::*;

fn draft(kind: &str, body: &str) -> Draft {
    let (kind, project, body) = (kind.to_owned(), "web-1a2b3c".to_owned(), body.to_owned());
    Draft { kind, project, task: Some("fix-tests".to_owned()), loop_id: None, body }
}

fn now() -> Timestamp {
    "2026-11-15T18:00:00.123456Z".parse().unwrap()
}

fn bus_in(folder: &tempfile::TempDir) -> Bus {
    Bus::open(folder.path().join("TASK-MESSAGE-BUS.md"))
}

fn bodies(messages: &[BusMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.body.as_str()).collect()
}

#[test]
fn what_is_posted_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::open(folder.path().join("new/folder/BUS.md"));
    assert_eq!(bus.read().unwrap(), []);
    assert_eq!(bus.size(), 0);
    assert_eq!(bus.post(&[], now()).unwrap(), []);
    assert!(!bus.path().exists());

    let first = bus.post(&[draft("INFO", "one"), draft("INFO", "two\n\n---\n")], now()).unwrap();
    let size = bus.size();
    let second = bus.post(&[draft("wait_without_restart", "")], now()).unwrap();
    assert_eq!(bodies(&first), ["one", "two\n\n---"]);
    assert_eq!(bus.read().unwrap(), [first, second.clone()].concat());
    assert_eq!(bus.since(size).unwrap(), second);
    assert_eq!(bus.since(bus.size()).unwrap(), []);
    // Shorter than it was: rewritten, so nothing in it is known.
    assert_eq!(bus.since(bus.size() + 1).unwrap().len(), 3);

    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(bus.path()), 0o600);
    assert_eq!(mode(bus.path().parent().unwrap()), 0o700);
}

#[test]
fn posters_at_the_same_time_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let bus = &bus_in(&folder);
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for post in 0..50 {
                    bus.post(&[draft("INFO", &format!("{thread}/{post}\n\n---\nend"))], now()).unwrap();
                }
            });
        }
    });
    let messages = bus.read().unwrap();
    let text: String = messages.iter().map(bus::format).collect();
    assert_eq!(text, fs::read_to_string(bus.path()).unwrap());
    assert!(messages.is_sorted_by(|before, after| before.id < after.id));
    let mut found = bodies(&messages);
    let mut posted: Vec<_> = (0..8 * 50).map(|n| format!("{}/{}\n\n---\nend", n / 50, n % 50)).collect();
    found.sort_unstable();
    posted.sort_unstable();
    assert_eq!(found, posted);
}

#[test]
fn ids_rise_though_the_clock_went_back_and_the_last_entry_is_large() {
    let folder = tempfile::tempdir().unwrap();
    let bus = bus_in(&folder);
    bus.post(&[draft("INFO", "small")], now()).unwrap();
    bus.post(&[draft("INFO", &"a long line\n\n".repeat(10_000))], now()).unwrap();
    let earlier = now() - jiff::SignedDuration::from_hours(1);
    bus.post(&[draft("INFO", "late")], earlier).unwrap();
    let messages = bus.read().unwrap();
    assert_eq!(messages.len(), 3);
    assert!(messages.is_sorted_by(|before, after| before.id < after.id));
    assert_eq!(messages[2].at.to_string(), "2026-11-15T17:00:00Z");
}

#[test]
fn an_end_that_is_torn_does_not_swallow_the_next_post() {
    for end in ["a note", "a note\n", "---\nid: 1\nat: 20", "---\n", "\n"] {
        let folder = tempfile::tempdir().unwrap();
        let bus = bus_in(&folder);
        fs::write(bus.path(), end).unwrap();
        let size = bus.size();
        let posted = bus.post(&[draft("INFO", "next")], now()).unwrap();
        assert_eq!(bus.read().unwrap(), posted, "{end:?}");
        assert_eq!(bus.since(size).unwrap(), posted, "{end:?}");
    }
}

#[test]
fn a_write_that_did_not_go_in_whole_is_undone() {
    let folder = tempfile::tempdir().unwrap();
    let bus = bus_in(&folder);
    bus.post(&[draft("INFO", "one")], now()).unwrap();
    let before = fs::read(bus.path()).unwrap();
    let (file, _) = bus.open_locked().unwrap();
    let short = |mut file: &File, bytes: &[u8]| file.write(&bytes[..bytes.len() / 2]);
    let full = |mut file: &File, bytes: &[u8]| {
        file.write_all(&bytes[..1])?;
        Err(io::Error::from(io::ErrorKind::StorageFull))
    };
    for (write, kind) in [
        (&short as &dyn Fn(&File, &[u8]) -> io::Result<usize>, io::ErrorKind::WriteZero),
        (&full, io::ErrorKind::StorageFull),
    ] {
        let failure = write_or_undo(&file, bus.size(), b"---\nid: 2\n", write).unwrap_err();
        assert_eq!(failure.kind(), kind);
        assert_eq!(fs::read(bus.path()).unwrap(), before);
    }
}

#[test]
fn what_is_no_plain_file_and_no_plain_message_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bus = bus_in(&folder);
    let refused = bus.post(&[draft("INFO", "fine"), draft("no type", "")], now()).unwrap_err();
    assert!(matches!(refused, BusError::Refused { .. }), "{refused:?}");
    assert!(!bus.path().exists());

    let target = folder.path().join("target");
    fs::write(&target, "").unwrap();
    symlink(&target, bus.path()).unwrap();
    let pipe = Bus::open(folder.path().join("pipe"));
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, pipe.path(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for bus in [bus, pipe] {
        for error in [
            bus.post(&[draft("INFO", "")], now()).unwrap_err(),
            bus.read().unwrap_err(),
            bus.follow(0, |_| ControlFlow::Break(())).unwrap_err(),
        ] {
            assert!(matches!(error, BusError::NotAFile { .. }), "{error:?}");
        }
        assert_eq!(bus.size(), 0);
    }
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[test]
fn following_sees_what_is_posted_later() {
    let folder = tempfile::tempdir().unwrap();
    let bus = bus_in(&folder);
    let (seen, next) = mpsc::channel();
    let follower = thread::spawn({
        let bus = bus.clone();
        move || {
            bus.follow(0, |message| {
                let last = message.kind == "LAST";
                seen.send(message).unwrap();
                if last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        }
    });
    let post = |kind: &str, body: &str| bus.post(&[draft(kind, body)], now()).unwrap().remove(0);
    // Each is posted after the one before was seen, so the follower has begun by the second at the latest.
    for body in ["one", "two\n\nlines", ""] {
        let posted = post("INFO", body);
        assert_eq!(next.recv().unwrap(), posted);
    }
    // Not a message, and an editor that saves by replacing the file: nothing is seen twice.
    let text = fs::read_to_string(bus.path()).unwrap();
    fs::write(folder.path().join("other"), "---\n").unwrap();
    fs::write(folder.path().join("new"), text.replace("one", "changed")).unwrap();
    fs::rename(folder.path().join("new"), bus.path()).unwrap();
    let last = post("LAST", "over");
    assert_eq!(next.recv().unwrap(), last);
    follower.join().unwrap().unwrap();
    assert!(next.recv().is_err());
}

#[test]
fn following_begins_at_the_size_given_and_ends_with_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus::open(folder.path().join("task/BUS.md"));
    let missing = bus.follow(0, |_| ControlFlow::Break(())).unwrap_err();
    assert!(matches!(missing, BusError::Io { action: "watch", .. }), "{missing:?}");

    bus.post(&[draft("INFO", "before")], now()).unwrap();
    let size = bus.size();
    bus.post(&[draft("INFO", "after")], now()).unwrap();
    let mut seen = Vec::new();
    let gone = bus.follow(size, |message| {
        seen.push(message);
        fs::remove_dir_all(folder.path().join("task")).unwrap();
        ControlFlow::Continue(())
    });
    assert!(matches!(gone, Err(BusError::FolderGone { .. })), "{gone:?}");
    assert_eq!(bodies(&seen), ["after"]);
}

#[test]
fn a_poster_notices_what_others_did_since_its_last_post() {
    let folder = tempfile::tempdir().unwrap();
    let (bus, other) = (bus_in(&folder), bus_in(&folder));
    let say = |bus: &Bus, body: &str| bus.post(&[draft("INFO", body)], now()).unwrap().remove(0).id;
    let mut ids = vec![say(&bus, "one"), say(&bus, "two")];
    // Another poster posts in between: the ids of both rise together, though both ask at the same moment.
    ids.push(say(&other, "three"));
    ids.push(say(&bus, "four"));
    ids.push(say(&other, "five"));
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    // A person adds a line that does not end.
    let mut text = std::fs::read_to_string(bus.path()).unwrap();
    text.push_str("a note");
    std::fs::write(bus.path(), &text).unwrap();
    ids.push(say(&bus, "six"));
    assert!(std::fs::read_to_string(bus.path()).unwrap().contains("a note\n\n"));
    // An editor puts another file in its place, and an agent removes the folder.
    std::fs::write(folder.path().join("new"), &text).unwrap();
    std::fs::rename(folder.path().join("new"), bus.path()).unwrap();
    ids.push(say(&bus, "seven"));
    let read = bus.read().unwrap();
    assert_eq!(bodies(&read), ["one", "two", "three", "four", "five\n\na note", "seven"]);
    std::fs::remove_file(bus.path()).unwrap();
    say(&bus, "eight");
    assert_eq!(bodies(&bus.read().unwrap()), ["eight"]);
    assert_eq!(ids.len(), 7);
}
