//! The message bus as a file: posting under a lock, reading and following without one (req 97).

use std::ffi::{CStr, OsStr};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dacapo_core::bus::{self, BusMessage, BusParser, Draft, DraftError};
use jiff::Timestamp;
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::secrets::secrets;

/// How much of the end of a bus is searched for its last id at first.
const TAIL: u64 = 16 * 1024;

/// How large a message may be for those who read a bus page by page.
const LARGEST_MESSAGE: u64 = 8 << 20;

/// How soon to try again for a lock that another process holds.
const AGAIN: Duration = Duration::from_millis(2);

/// A bus file, which need not exist before the first message.
#[derive(Debug)]
pub struct Bus {
    path: PathBuf,
    patience: Duration,
    /// What this poster knows of the file since its last post. The mutex is never waited for: posting waits for the file's
    /// lock.
    end: Mutex<Option<KnownEnd>>,
}

/// The end of a bus as a poster left it, so that its next post need not read it again. The file is not held open: that would
/// keep its folder from being gone for a process that watches it.
#[derive(Debug)]
struct KnownEnd {
    state: BusFileState,
    newest: Option<String>,
    /// The last bytes, at most two.
    bytes: Vec<u8>,
}

/// Which file it is, its size and the time of its last change: another process that posted to it or edited it has
/// changed one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BusFileState {
    file: (u64, u64),
    size: u64,
    changed: (i64, i64),
}

impl From<&Metadata> for BusFileState {
    fn from(meta: &Metadata) -> Self {
        Self { file: (meta.dev(), meta.ino()), size: meta.len(), changed: (meta.mtime(), meta.mtime_nsec()) }
    }
}

/// Why a bus could not be used.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// Nothing was posted: one of the drafts is not fit for a bus.
    #[error("cannot post to the bus `{}`: {source}", path.display())]
    Refused {
        path: PathBuf,
        /// What is wrong with the draft.
        source: DraftError,
    },
    /// A link would make the bus read and write elsewhere; a pipe or a device is no place to keep anything.
    #[error("the bus `{}` is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    /// The folder was moved or removed while it was watched.
    #[error("the folder of the bus `{}` is gone", path.display())]
    FolderGone { path: PathBuf },
    #[error("cannot {action} the bus `{}`: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Clone for Bus {
    /// Another poster, who knows nothing of the file yet.
    fn clone(&self) -> Self {
        Self::open(&self.path).with_patience(self.patience)
    }
}

impl Bus {
    /// The bus at `path`. Touches nothing.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), patience: Duration::from_secs(10), end: Mutex::new(None) }
    }

    /// The same bus; a post waits at most `patience` for other processes that post.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Where the bus is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder of the bus, for readers that follow it before the first post.
    pub fn prepare(&self) -> Result<(), BusError> {
        match self.path.parent() {
            Some(folder) => crate::home::make_dir(folder).map_err(self.failed("create the folder of")),
            None => Ok(()),
        }
    }

    /// Posts all of `drafts` or none of them, in their order and with nothing in between.
    ///
    /// Waits for other posters.
    pub fn post(&self, drafts: &[Draft], now: Timestamp) -> Result<Vec<BusMessage>, BusError> {
        for draft in drafts {
            draft.check().map_err(|source| BusError::Refused { path: self.path.clone(), source })?;
        }
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        self.prepare()?;
        let (file, state) = self.open_locked()?;
        // Taken out first: what a post that failed has left is not known.
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let known = end.take().filter(|known| known.state == state);
        let posted = self.append(&file, state.size, known, drafts, now);
        // Closing is not enough while a process being started still shares the descriptor.
        let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
        let (messages, left) = posted?;
        *end = left;
        Ok(messages)
    }

    /// All messages; none if nothing was posted yet. Takes no lock.
    pub fn read(&self) -> Result<Vec<BusMessage>, BusError> {
        self.since(0)
    }

    /// The messages in the next `most` bytes from `from` on, and where to go on after them.
    pub fn page(&self, from: u64, most: u64) -> Result<(Vec<BusMessage>, u64), BusError> {
        let mut most = most;
        loop {
            let mut cursor = Cursor { most, ..Cursor::at(from) };
            let messages = self.advance(&mut cursor)?;
            // A message that is larger than a page is read whole all the same, within reason.
            let is_all = from.saturating_add(most) >= self.size() || most >= LARGEST_MESSAGE;
            if cursor.offset > from || is_all {
                return Ok((messages, cursor.offset));
            }
            most *= 8;
        }
    }

    /// How long the file is, for [`since`](Self::since) and [`follow`](Self::follow).
    ///
    /// A bus that cannot be looked at counts as empty: reading it will tell why.
    pub fn size(&self) -> u64 {
        self.path.symlink_metadata().map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 })
    }

    /// What was posted after the bus had the size `offset`, such as during one run of an agent (req 87).
    ///
    /// All messages if the bus is shorter by now: a person or an agent rewrote it, and a message too many is better
    /// than one that is missed.
    pub fn since(&self, offset: u64) -> Result<Vec<BusMessage>, BusError> {
        self.advance(&mut Cursor::at(offset))
    }

    /// As [`Bus::since`], reading at most the first `most` bytes of the bus.
    pub fn since_at_most(&self, offset: u64, most: u64) -> Result<Vec<BusMessage>, BusError> {
        let mut cursor = Cursor::at(offset);
        cursor.most = most;
        self.advance(&mut cursor)
    }

    /// Hands every message posted after the bus had the size `from` to `callback`, in order and as it
    /// comes, until `callback` breaks. The folder of the bus has to exist, the file need not.
    ///
    /// If the file is replaced or cut, it is read from its start, without what was older than `from` or was
    /// handed over before.
    pub fn follow(
        &self,
        from: u64,
        mut callback: impl FnMut(BusMessage) -> ControlFlow<()>,
    ) -> Result<(), BusError> {
        // Watched before the first look, so that nothing falls in between.
        let watched = self.watch().map_err(self.failed("watch"))?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(watched, &mut buffer);
        let mut cursor = Cursor::at(from);
        if let Some(file) = self.open_for_reading()?.filter(|_| from <= self.size()) {
            cursor.newest = newest_id(&file, from).map_err(self.failed("read"))?;
        }
        loop {
            for message in self.advance(&mut cursor)? {
                if callback(message).is_break() {
                    return Ok(());
                }
            }
            self.wait_for_change(&mut events)?;
        }
    }

    /// Writes the drafts behind the `size` bytes that are there, whose end may be `known`. Says what was posted, and what is
    /// known from then on.
    fn append(
        &self,
        file: &File,
        size: u64,
        known: Option<KnownEnd>,
        drafts: &[Draft],
        now: Timestamp,
    ) -> Result<(Vec<BusMessage>, Option<KnownEnd>), BusError> {
        let failed = self.failed("read the end of");
        let (mut last, end) = match known {
            Some(known) => (known.newest, known.bytes),
            None => (
                newest_id(file, size).map_err(&failed)?,
                read_range(file, size.saturating_sub(2), size).map_err(&failed)?,
            ),
        };
        let mut text = bus::separator(&end).to_owned();
        let mut posted = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let id = bus::next_id(last.as_deref(), now, std::process::id());
            last = Some(id.clone());
            let mut message = draft.clone().into_message(id, now);
            message.body = secrets().redact(&message.body).into_owned();
            text.push_str(&bus::format(&message));
            posted.push(message);
        }
        write_or_undo(file, size, text.as_bytes(), |mut file, bytes| file.write(bytes))
            .map_err(self.failed("write to"))?;
        let left = file.metadata().ok().map(|meta| KnownEnd {
            state: BusFileState::from(&meta),
            newest: last,
            bytes: text.as_bytes()[text.len().saturating_sub(2)..].to_vec(),
        });
        Ok((posted, left))
    }

    /// What came after the cursor, which moves on.
    fn advance(&self, cursor: &mut Cursor) -> Result<Vec<BusMessage>, BusError> {
        let Some(file) = self.open_for_reading()? else { return Ok(Vec::new()) };
        let failed = self.failed("read");
        let meta = file.metadata().map_err(&failed)?;
        let identity = (meta.dev(), meta.ino());
        let replaced = cursor.file.replace(identity).is_some_and(|seen| seen != identity);
        let rewritten = replaced || meta.len() < cursor.offset;
        if rewritten {
            cursor.offset = 0;
        }
        let bytes =
            read_range(&file, cursor.offset, cursor.offset.saturating_add(cursor.most)).map_err(&failed)?;
        // From the end of the last whole entry each time: a half-written one may yet be undone.
        let mut parser = BusParser::default();
        let mut messages = parser.feed(bytes);
        cursor.offset += parser.consumed();
        if rewritten {
            messages.retain(|message| cursor.newest.as_ref().is_none_or(|newest| message.id > *newest));
        }
        cursor.newest = highest_id(&messages).max(cursor.newest.take());
        Ok(messages)
    }

    fn watch(&self) -> io::Result<rustix::fd::OwnedFd> {
        let watched = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&watched, folder, flags)?;
        Ok(watched)
    }

    fn wait_for_change(&self, events: &mut inotify::Reader<'_, rustix::fd::OwnedFd>) -> Result<(), BusError> {
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        let mut changed = false;
        // Many writes between two looks need one look only.
        while !changed || !events.is_buffer_empty() {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(self.failed("watch")(errno.into())),
            };
            if event.events().intersects(gone) {
                return Err(BusError::FolderGone { path: self.path.clone() });
            }
            let name = event.file_name().map(CStr::to_bytes).map(OsStr::from_bytes);
            changed |= name == self.path.file_name() || event.events().contains(ReadFlags::QUEUE_OVERFLOW);
        }
        Ok(())
    }

    /// The file with its lock held, and how it stands.
    fn open_locked(&self) -> Result<(File, BusFileState), BusError> {
        let deadline = Instant::now() + self.patience;
        loop {
            let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
            let file = self.regular(self.open_file(flags))?;
            // An agent can take the lock too, and may never let it go.
            loop {
                match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => break,
                    Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(AGAIN),
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(self.failed("lock")(errno.into())),
                }
            }
            // An editor may have put another file in its place while we waited.
            let ours = file.metadata().map_err(self.failed("look at"))?;
            match self.path.symlink_metadata() {
                Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                    return Ok((file, BusFileState::from(&ours)));
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed("look at")(error));
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn open_for_reading(&self) -> Result<Option<File>, BusError> {
        match self.open_file(OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => self.regular(opened).map(Some),
        }
    }

    fn open_file(&self, flags: OFlags) -> io::Result<File> {
        // Without `NONBLOCK` a pipe in place of the file would make opening wait for its other end.
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Ok(File::from(retry_on_intr(|| rustix::fs::open(&self.path, flags, Mode::RUSR | Mode::WUSR))?))
    }

    fn regular(&self, opened: io::Result<File>) -> Result<File, BusError> {
        let not_a_file = || BusError::NotAFile { path: self.path.clone() };
        let file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => not_a_file(), // what `NOFOLLOW` answers to a link
            _ => self.failed("open")(error),
        })?;
        let meta = file.metadata().map_err(self.failed("look at"))?;
        if meta.is_file() { Ok(file) } else { Err(not_a_file()) }
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> BusError {
        move |source| BusError::Io { action, path: self.path.clone(), source }
    }
}

/// How far a reader has come in a bus.
struct Cursor {
    /// The end of the last entry read.
    offset: u64,
    /// Device and inode: another file in the same place is read from its start.
    file: Option<(u64, u64)>,
    /// The highest id up to `offset`, as far as it is known.
    newest: Option<String>,
    /// How much is read at once.
    most: u64,
}

impl Cursor {
    fn at(offset: u64) -> Self {
        Self { offset, file: None, newest: None, most: u64::MAX }
    }
}

/// The highest id near the end of the first `size` bytes. Ids rise, so the last entry has it, unless
/// a person or an agent edited the bus; an entry larger than the window makes the window grow.
fn newest_id(file: &File, size: u64) -> io::Result<Option<String>> {
    let mut window = TAIL;
    loop {
        let start = size.saturating_sub(window);
        let mut parser = BusParser::default();
        let mut messages = parser.feed(read_range(file, start, size)?);
        // The next entry will complete one that lacks its blank line, so its id counts too.
        messages.extend(parser.feed("\n\n---\n"));
        let newest = highest_id(&messages);
        if newest.is_some() || start == 0 {
            return Ok(newest);
        }
        window *= 8;
    }
}

fn highest_id(messages: &[BusMessage]) -> Option<String> {
    messages.iter().map(|message| &message.id).filter(|id| bus::is_id(id)).max().cloned()
}

/// The bytes from `start` to `end`, or to the end of the file if that comes first.
fn read_range(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut file = file;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Appends `bytes` with one call of `write`; if not all of them went in, the file gets its old size back.
fn write_or_undo(
    file: &File,
    size: u64,
    bytes: &[u8],
    write: impl Fn(&File, &[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let written = loop {
        match write(file, bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => break written,
        }
    };
    let error = match written {
        Ok(count) if count == bytes.len() => return Ok(()),
        Ok(count) => {
            let what = format!("only {count} of {} bytes could be written", bytes.len());
            io::Error::new(io::ErrorKind::WriteZero, what)
        }
        Err(error) => error,
    };
    // Should this fail too, readers skip the torn entry.
    let _ = file.set_len(size);
    Err(error)
}

#[cfg(test)]
#[path = "bus_tests.rs"]
mod tests;
