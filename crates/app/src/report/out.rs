//! Standard output that cannot hold up a loop: a thread writes, so that a slow reader does not slow the loop down.

use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

/// How much may wait to be written before what need not be seen is left out.
const BACKLOG: usize = 4 << 20;
/// How long the end of a loop waits for a slow reader.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long is waited before each further try to write a message that has to arrive.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(800)];

/// Standard output, written by a thread of its own.
pub(super) struct Out {
    sender: Option<Sender<OutMessage>>,
    waiting: Arc<AtomicUsize>,
    unsent: Arc<Mutex<Unsent>>,
    done: Receiver<()>,
}

struct OutMessage {
    bytes: Vec<u8>,
    is_critical: bool,
}

/// What did not arrive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unsent {
    pub(super) messages: usize,
    /// Why the first of them did not.
    pub(super) why: String,
}

impl Unsent {
    fn add(&mut self, why: impl ToString) {
        self.messages += 1;
        if self.why.is_empty() {
            self.why = why.to_string();
        }
    }
}

impl Out {
    pub(super) fn new() -> Self {
        let (sender, receiver) = channel::<OutMessage>();
        let (finished, done) = channel();
        let (waiting, unsent) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Unsent::default())));
        let (left, lost) = (Arc::clone(&waiting), Arc::clone(&unsent));
        std::thread::spawn(move || {
            let mut stdout = std::io::stdout();
            for OutMessage { bytes, is_critical } in receiver {
                left.fetch_sub(bytes.len(), Ordering::Relaxed);
                // A reader that went away does not stop a loop.
                if let Err(error) = deliver(&mut stdout, &bytes, is_critical, std::thread::sleep) {
                    lost.lock().unwrap_or_else(PoisonError::into_inner).add(error);
                }
            }
            let _ = finished.send(());
        });
        Self { sender: Some(sender), waiting, unsent, done }
    }

    /// Whether standard output is a terminal.
    pub(super) fn is_terminal() -> bool {
        std::io::stdout().is_terminal()
    }

    /// Writes `bytes` in its turn.
    pub(super) fn write(&self, bytes: Vec<u8>) {
        self.send(OutMessage { bytes, is_critical: false });
    }

    /// The same for what has to arrive: if standard output is busy, it is tried again.
    pub(super) fn write_critical(&self, bytes: Vec<u8>) {
        self.send(OutMessage { bytes, is_critical: true });
    }

    fn send(&self, message: OutMessage) {
        self.waiting.fetch_add(message.bytes.len(), Ordering::Relaxed);
        if let Some(sender) = &self.sender {
            let _ = sender.send(message);
        }
    }

    /// Writes `bytes` unless the reader is far behind.
    pub(super) fn write_if_read(&self, bytes: Vec<u8>) {
        if self.waiting.load(Ordering::Relaxed) < BACKLOG {
            self.write(bytes);
        } else {
            let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
            unsent.add("its reader is too slow");
        }
    }

    /// Waits until what was handed over is written, for a while.
    pub(super) fn flush(&self) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.waiting.load(Ordering::Relaxed) > 0 && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until everything is written, for a while, and says what was not.
    pub(super) fn finish(&mut self) -> Unsent {
        if self.sender.take().is_some() {
            let _ = self.done.recv_timeout(PATIENCE);
        }
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Writes a message whole or not at all. What has to arrive is tried three times while its reader is busy; an error that
/// will not go away ends it at once (req 161).
fn deliver(
    out: &mut impl Write,
    bytes: &[u8],
    is_critical: bool,
    mut pause: impl FnMut(Duration),
) -> io::Result<()> {
    let mut pauses = PAUSES.iter();
    let mut written = 0;
    loop {
        let tried = match out.write(&bytes[written..]) {
            Ok(0) if written < bytes.len() => Err(ErrorKind::WriteZero.into()),
            Ok(n) => {
                written += n;
                if written < bytes.len() {
                    continue;
                }
                out.flush()
            }
            Err(error) => Err(error),
        };
        match tried {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && (is_critical || written > 0) => {
                let Some(time) = pauses.next() else { return Err(error) };
                pause(*time);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that answers each attempt as it is told, and then takes everything.
    struct Scripted {
        answers: Vec<Result<usize, ErrorKind>>,
        taken: Vec<u8>,
        tries: usize,
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.tries += 1;
            let answer = if self.answers.is_empty() { Ok(bytes.len()) } else { self.answers.remove(0) };
            let n = answer.map_err(io::Error::from)?.min(bytes.len());
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_has_to_arrive_is_tried_three_times_unless_the_error_stays() {
        // req 161
        use ErrorKind::{BrokenPipe, Interrupted, PermissionDenied, WouldBlock};
        let busy = || Err(WouldBlock);
        for (answers, is_critical, arrives, tries) in [
            (vec![], false, true, 1),
            (vec![busy()], false, false, 1),
            (vec![busy()], true, true, 2),
            (vec![busy(), busy()], true, true, 3),
            (vec![busy(), busy(), busy()], true, false, 3),
            (vec![Err(BrokenPipe)], true, false, 1),
            (vec![Err(PermissionDenied)], true, false, 1),
            (vec![Err(Interrupted)], false, true, 2),
            // What was begun is brought to its end, so that no half of a message stands there.
            (vec![Ok(2), busy()], false, true, 3),
        ] {
            let text = format!("{answers:?}, critical: {is_critical}");
            let mut out = Scripted { answers, taken: Vec::new(), tries: 0 };
            let mut pauses = Vec::new();
            let sent = deliver(&mut out, b"message", is_critical, |time| pauses.push(time));
            assert_eq!((sent.is_ok(), out.tries), (arrives, tries), "{text}");
            assert_eq!(out.taken == b"message", arrives, "{text}");
            assert!(pauses.is_sorted() && pauses.len() <= PAUSES.len(), "the delay grows: {pauses:?}");
        }
    }
}
