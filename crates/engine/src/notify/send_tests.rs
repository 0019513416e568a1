//! What channels are given, and programs that misbehave.

use dacapo_core::notify::{HeldBack, Notice, NoticeKind};
use jiff::Timestamp;

use super::*;

fn delivery(text: &str) -> Delivery {
    let mut notice = Notice::sample(
        NoticeKind::Question,
        Timestamp::UNIX_EPOCH,
        "p".parse().unwrap(),
        PathBuf::from("/src/shop"),
    );
    notice.title = "fix-auth asks".to_owned();
    notice.text = text.to_owned();
    Delivery { notice: Some(notice), held_back: HeldBack::default() }
}

#[test]
fn what_is_sent_is_whole_and_cannot_paint_a_terminal() {
    let delivery = delivery("\x1b[2Jwhich\u{202e} one?\u{7}");
    let value = payload(&delivery, &clean(&delivery.title()), &clean(&delivery.text()));
    assert_eq!(value["text"], "fix-auth asks\nwhich one?\nNext: dacapo report");
    assert_eq!((&value["detail"], &value["event"]), (&"which one?".into(), &"question".into()));
    assert_eq!(value["held_back"]["count"], 0);
    let held_back = HeldBack { count: 2, titles: vec!["a is done".into(), "b is done".into()] };
    let summary = Delivery { notice: None, held_back };
    let value = payload(&summary, &summary.title(), &summary.text());
    assert_eq!((&value["event"], &value["held_back"]["titles"][1]), (&"summary".into(), &"b is done".into()));
}

#[test]
fn a_program_that_hangs_floods_or_does_not_read_ends_in_time() {
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    let large = vec![b'x'; 4 << 20];
    for (script, expected) in [
        ("exit 0", Ok(())),
        ("cat > /dev/null", Ok(())),
        ("sleep 600 & exec sleep 600", Err("took longer than 10s and was ended")),
        ("yes | head -c 3000000; yes | head -c 3000000 >&2; exit 7", Err("exited 7: y")),
        ("echo no such room >&2; exit 1", Err("exited 1: no such room")),
        ("kill -9 $$", Err("was ended by a signal")),
    ] {
        let ran = run(shell(script), &large);
        match expected {
            Ok(()) => assert_eq!(ran, Ok(()), "{script}"),
            Err(why) => assert!(ran.as_ref().is_err_and(|said| said.starts_with(why)), "{script}: {ran:?}"),
        }
    }
    let missing = run(Command::new("/nowhere/program"), b"");
    assert!(missing.unwrap_err().starts_with("could not be started"));
}

#[test]
fn channels_that_cannot_work_are_named() {
    let command = |program: &str| NotifyChannel::Command(vec![program.to_owned(), "secret".to_owned()]);
    assert_eq!(obstacle(&command("sh")), None);
    let (why, _) = obstacle(&command("no-such-program-of-ours")).unwrap();
    assert_eq!(why, "no `no-such-program-of-ours` that can be run");
    assert_eq!(obstacle(&NotifyChannel::Bell), None);
}
