//! Raw output in append-only files, one per loop and channel: making a file per attempt costs more time than a small
//! agent.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use dacapo_core::{event::OutputMarks, ids::LoopId};

/// How many bytes of one attempt's output are kept. What comes after is read and judged, but not stored (fault D7).
pub const KEPT_PER_ATTEMPT: u64 = 256 << 20;

/// The channels of a loop's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Stdout,
    Stderr,
    Prompt,
    Gates,
}

/// From this size on, bytes are written by a thread of its own, so that the supervisor can read on meanwhile.
const LARGE: usize = 64 << 10;

#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    file: Option<Arc<File>>,
    end: u64,
    writer: Option<Writer>,
}

impl Segment {
    fn open(path: PathBuf) -> Self {
        let end = path.metadata().map_or(0, |metadata| metadata.len());
        Self { path, file: None, end, writer: None }
    }

    pub fn end(&self) -> u64 {
        self.end
    }

    /// Appends all of `bytes`; if that fails, readers see the segment as it was. More than `LARGE` bytes are in the
    /// file, and an error of theirs is known, only after [`Segments::settle`] or the next append.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.settle()?;
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
                self.file.insert(Arc::new(file))
            }
        };
        if bytes.len() < LARGE {
            file.as_ref().write_all(bytes)?;
        } else {
            let writer = match &mut self.writer {
                Some(writer) => writer,
                none => none.insert(Writer::start(Arc::clone(file))?),
            };
            writer.write(bytes)?;
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Waits until everything that was appended is in the file.
    fn settle(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let (length, result) = writer.settle();
        if result.is_err() {
            self.end -= length as u64;
        }
        result
    }
}

/// A thread that writes one piece at a time.
#[derive(Debug)]
struct Writer {
    pieces: Sender<Vec<u8>>,
    written: Receiver<(Vec<u8>, io::Result<()>)>,
    /// The length of the piece that is being written.
    busy_with: Option<usize>,
    /// The memory of the piece before, which is used again.
    buffer: Vec<u8>,
}

impl Writer {
    fn start(file: Arc<File>) -> io::Result<Self> {
        let (pieces, to_write) = channel::<Vec<u8>>();
        let (reports, written) = channel();
        // The thread ends when the sender of its pieces is dropped.
        thread::Builder::new().name("output".to_owned()).stack_size(64 << 10).spawn(move || {
            for piece in to_write {
                let result = file.as_ref().write_all(&piece);
                if reports.send((piece, result)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { pieces, written, busy_with: None, buffer: Vec::new() })
    }

    /// Begins to write `bytes`. The caller has waited for the piece before.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut piece = std::mem::take(&mut self.buffer);
        piece.clear();
        piece.extend_from_slice(bytes);
        self.pieces.send(piece).map_err(|_| gone())?;
        self.busy_with = Some(bytes.len());
        Ok(())
    }

    /// Waits for the piece that is being written. Gives its length, and the error if it could not be written.
    fn settle(&mut self) -> (usize, io::Result<()>) {
        let Some(length) = self.busy_with.take() else { return (0, Ok(())) };
        match self.written.recv() {
            Ok((buffer, result)) => {
                self.buffer = buffer;
                (length, result)
            }
            Err(_) => (length, Err(gone())),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that writes output has ended")
}

/// The segments of one loop.
#[derive(Debug)]
pub struct Segments {
    pub stdout: Segment,
    pub stderr: Segment,
    pub prompt: Segment,
    pub gates: Segment,
}

impl Segments {
    /// The segments of `loop_id` in the folder `runs`; files appear when something is appended.
    pub fn open(runs: &Path, loop_id: &LoopId) -> io::Result<Self> {
        crate::home::make_dir(runs)?;
        let open = |stream| Segment::open(Self::path(runs, loop_id, stream));
        Ok(Self {
            stdout: open(Channel::Stdout),
            stderr: open(Channel::Stderr),
            prompt: open(Channel::Prompt),
            gates: open(Channel::Gates),
        })
    }

    /// The file of one channel.
    pub fn path(runs: &Path, loop_id: &LoopId, stream: Channel) -> PathBuf {
        let kind = match stream {
            Channel::Stdout => "stdout",
            Channel::Stderr => "stderr",
            Channel::Prompt => "prompt",
            Channel::Gates => "gates",
        };
        runs.join(format!("{loop_id}.{kind}"))
    }

    /// Waits until everything that was appended is in the files.
    pub fn settle(&mut self) -> io::Result<()> {
        [&mut self.stdout, &mut self.stderr, &mut self.prompt, &mut self.gates]
            .into_iter()
            .try_for_each(Segment::settle)
    }

    /// Where the segments end.
    pub fn marks(&self) -> OutputMarks {
        OutputMarks {
            stdout: self.stdout.end(),
            stderr: self.stderr.end(),
            prompt: self.prompt.end(),
            gates: self.gates.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_pieces_are_in_the_file_in_their_order_once_settled() {
        let folder = tempfile::tempdir().unwrap();
        let mut segments = Segments::open(folder.path(), &"abcd".parse().unwrap()).unwrap();
        let mut expected = Vec::new();
        for (n, length) in [3, LARGE, LARGE + 1, 1, 4 * LARGE, LARGE - 1, 2].into_iter().enumerate() {
            let piece = vec![b'a' + n as u8; length];
            segments.stdout.append(&piece).unwrap();
            expected.extend(piece);
        }
        segments.stdout.append(&vec![b'z'; LARGE]).unwrap();
        expected.extend(vec![b'z'; LARGE]);
        segments.settle().unwrap();
        assert_eq!(segments.marks().stdout, expected.len() as u64);
        assert!(std::fs::read(&segments.stdout.path).unwrap() == expected);
    }

    #[test]
    fn what_could_not_be_written_is_told_and_does_not_count() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut segment = Segment::open("/dev/full".into());
        segment.file = Some(Arc::new(full));
        segment.append(&vec![b'x'; LARGE]).unwrap();
        assert_eq!(segment.settle().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(segment.end(), 0);
        segment.append(&vec![b'x'; LARGE]).unwrap();
        assert_eq!(segment.append(b"more").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(segment.end(), 0);
    }
}
