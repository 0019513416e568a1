//! Standard output that cannot hold up a loop: a thread writes, so that a slow reader does not slow the loop down.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

/// How much may wait to be written before what need not be seen is left out.
const BACKLOG: usize = 4 << 20;
/// How long the end of a loop waits for a slow reader.
const PATIENCE: Duration = Duration::from_secs(5);

/// Standard output, written by a thread of its own.
pub(super) struct Out {
    sender: Option<Sender<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
    done: Receiver<()>,
}

impl Out {
    pub(super) fn new() -> Self {
        let (sender, receiver) = channel::<Vec<u8>>();
        let (finished, done) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        std::thread::spawn(move || {
            let mut stdout = std::io::stdout();
            for bytes in receiver {
                left.fetch_sub(bytes.len(), Ordering::Relaxed);
                // A reader that went away does not stop a loop.
                let _ = stdout.write_all(&bytes).and_then(|()| stdout.flush());
            }
            let _ = finished.send(());
        });
        Self { sender: Some(sender), waiting, done }
    }

    /// Whether standard output is a terminal.
    pub(super) fn is_terminal() -> bool {
        std::io::stdout().is_terminal()
    }

    /// Writes `bytes` in its turn.
    pub(super) fn write(&self, bytes: Vec<u8>) {
        self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if let Some(sender) = &self.sender {
            let _ = sender.send(bytes);
        }
    }

    /// Writes `bytes` unless the reader is far behind.
    pub(super) fn write_if_read(&self, bytes: Vec<u8>) {
        if self.waiting.load(Ordering::Relaxed) < BACKLOG {
            self.write(bytes);
        }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        self.sender = None;
        let _ = self.done.recv_timeout(PATIENCE);
    }
}
