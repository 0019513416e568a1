//! A line now and then while the user waits for an agent that is asked something.

use std::{
    io::Write,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use dacapo_core::duration::Millis;

/// Does `ask`, which may take up to `most`, and writes to `out` that it goes on, once `every` so often.
pub(super) fn while_asking<T>(
    who: &str,
    most: Millis,
    every: Duration,
    out: &mut (impl Write + Send),
    ask: impl FnOnce() -> T,
) -> T {
    let since = Instant::now();
    let mut write = |line: String| {
        // Without a terminal no user is there to be told.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    };
    write(format!("asking {who} … up to {most}\n"));
    let (asking, over) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let waited = Millis(since.elapsed().as_secs().saturating_mul(1000));
                write(format!("asking {who} … {waited} of up to {most}\n"));
            }
        });
        let answer = ask();
        drop(asking);
        answer
    })
}

#[cfg(test)]
mod tests {
    use std::{io, sync::mpsc::Sender};

    use super::*;

    struct Lines(Sender<String>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_waits_is_told_at_once_and_again_and_again() {
        let (lines, told) = channel();
        let mut out = Lines(lines);
        let most = Millis(120_000);
        // It ends when it was told three times, so nothing depends on how fast this machine is.
        let heard = while_asking("codex", most, Duration::from_millis(1), &mut out, || {
            [(); 3].map(|()| told.recv().unwrap_or_default())
        });
        assert_eq!(heard[0], "asking codex … up to 2m0s\n");
        for line in &heard[1..] {
            assert!(line.starts_with("asking codex … ") && line.ends_with("s of up to 2m0s\n"), "{line}");
        }
        // The writer has gone.
        drop(out);
        let _rest: Vec<String> = told.iter().collect();
    }
}
