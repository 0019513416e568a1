//! Output that is too long, too much, too broken or too late: bounded memory, no deadlock, nothing changed.

use std::{
    fs::{self, File},
    io::{BufReader, Read},
    process::Command,
    time::Duration,
};

use dacapo_testkit::{TestEnv, noise, wait_until};

use crate::world::{LONG, agent_args, assert_nothing_left, count, world};

const MIB: u64 = 1 << 20;

/// The most memory a process has had so far, in bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// What `dacapo logs --raw` prints, in a file: it may be more than fits.
fn raw_log(env: &TestEnv, extra: &[&str]) -> File {
    let path = env.root().join("raw");
    let mut command: Command = env.dacapo(["logs", "t", "--raw"].iter().chain(extra));
    let file = File::create(&path).expect("a file");
    let status = command.stdout(file).status().expect("it can be started");
    assert!(status.success(), "{status}");
    File::open(path).expect("it was written")
}

fn raw_bytes(env: &TestEnv, extra: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    raw_log(env, extra).read_to_end(&mut bytes).expect("it can be read");
    bytes
}

#[test]
fn a_promise_after_an_endless_line_is_found_in_bounded_memory() {
    // faults D1, D7
    let length = u64::from(count(100, 1024)) * MIB;
    let env = world();
    let script = format!("touch ready; wait-file start; line {length}; promise; touch sent; wait-file go");
    let running = env.spawn(agent_args(&env, &script, ["--task", "t", "-n", "1"]));
    let wait = |file: &str| {
        let path = env.workspace().join(file);
        wait_until(&format!("`{file}` is there"), LONG * 3, || path.exists());
    };
    wait("ready");
    let before = peak(running.pid());
    env.write("start", "");
    wait("sent");
    let grown = peak(running.pid()).saturating_sub(before);
    env.write("go", "");
    running.wait(LONG).assert_code(0);
    println!("grew by {} KiB", grown / 1024);
    assert!(grown <= 64 * MIB, "grew by {} MiB", grown / MIB);

    let kept = length.min(256 * MIB);
    let mut log = BufReader::with_capacity(1 << 20, raw_log(&env, &[]));
    let (mut buffer, mut xs) = (vec![0; 1 << 20], 0_u64);
    let mut rest = Vec::new();
    loop {
        let read = log.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        let run = buffer[..read].iter().take_while(|b| **b == b'x').count();
        if rest.is_empty() {
            xs += run as u64;
            rest.extend_from_slice(&buffer[run..read]);
        } else {
            rest.extend_from_slice(&buffer[..read]);
        }
    }
    assert_eq!(xs, kept);
    let tail: &[u8] = if kept < length { b"" } else { b"\n<promise>DONE</promise>\n" };
    assert_eq!(rest, tail, "what follows the line");
}

#[test]
fn a_flood_on_one_stream_never_blocks_the_other() {
    // fault D5: a pipe holds 64 KiB, so whoever reads one stream to its end first waits for ever.
    let env = world();
    let script = "flood-err 20000000; say between; flood-out 20000000; flood-err 20000000; promise";
    env.run(agent_args(&env, script, ["--task", "t", "-n", "1"])).assert_code(0);
    assert_eq!(raw_bytes(&env, &["--stderr"]).len(), 40_000_000);
    let out = raw_bytes(&env, &[]);
    assert!(out.starts_with(b"between\n.....") && out.ends_with(b"<promise>DONE</promise>\n"));
    assert_eq!(out.len(), "between\n".len() + 20_000_000 + "<promise>DONE</promise>\n".len());
    assert_nothing_left(&env);
}

#[test]
fn output_is_kept_byte_for_byte_and_read_for_what_it_is() {
    // faults D1, D2, D3, D4
    let numbers = || (1..=1_000_000).flat_map(|n: u32| format!("{n}\n").into_bytes()).collect::<Vec<u8>>();
    let split = "grün — 完了 — 🎉\n".as_bytes();
    let all = [
        ("random 3000001 7; say; promise", [noise::bytes(3_000_001, 7), b"\n".to_vec()].concat(), 0),
        ("lines 1000000; promise", numbers(), 0),
        ("utf8-split; utf8-split; promise", split.repeat(2), 0),
        (r"print \xff\xfe\0<promise>; say; promise", b"\xff\xfe\0<promise>\n".to_vec(), 0),
        // Half a character before the tag: not alone on its line, but still the very last thing that was written.
        (r"print \xe2\x82; promise", vec![0xe2, 0x82], 0),
    ];
    for (script, sent, code) in all {
        let env = world();
        let output = env.run(agent_args(&env, script, ["--task", "t", "-n", "1"]));
        let mut expected = sent;
        expected.extend_from_slice(b"<promise>DONE</promise>\n");
        let kept = raw_bytes(&env, &[]);
        assert!(kept == expected, "{script}: {} bytes were sent, {} kept", expected.len(), kept.len());
        output.assert_code(code);
        // For people it is readable, whatever it was.
        let readable = env.run(["logs", "t"]).assert_code(0).stdout;
        assert!(!readable.contains('\0') && !readable.contains('\x1b'));
    }
}

#[test]
fn an_iteration_ends_with_its_agent_not_with_whoever_holds_its_output() {
    // fault D6
    for hold in ["daemonize hold 'ignore TERM; hang'", "daemonize hold 'ignore TERM; flood-out 100000000000'"]
    {
        let env = world();
        let script = format!("{hold}; say last words; promise");
        let running =
            env.spawn(agent_args(&env, &script, ["--task", "t", "-n", "1", "--kill-grace", "50ms"]));
        let output = running.wait(Duration::from_secs(30));
        // Dots of the daemon may follow the promise: then it is none. What matters is that it ends.
        assert!(matches!(output.code, Some(0 | 3)), "{output:?}");
        let kept = raw_bytes(&env, &[]);
        assert!(kept.windows(11).any(|words| words == b"last words\n"), "what the agent said is lost");
        assert_nothing_left(&env);
    }
}

#[test]
fn a_loop_keeps_no_more_than_its_share_of_a_flood() {
    // fault D7
    let env = world();
    let script = format!("flood-out {}; promise", 300 * MIB);
    let running = env.spawn(agent_args(&env, &script, ["--task", "t", "-n", "1"]));
    running.wait(LONG * 3).assert_code(0);
    assert_eq!(raw_log(&env, &[]).metadata().unwrap().len(), 256 * MIB);
    let events = env.events(Some("t"));
    let dropped: u64 = events.iter().filter_map(|event| event["dropped_bytes"].as_u64()).sum();
    assert_eq!(dropped, 44 * MIB + "<promise>DONE</promise>\n".len() as u64);
}
