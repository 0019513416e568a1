//! Waiting for folders to change, for those who follow something.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify::{self, CreateFlags, WatchFlags},
};

use crate::{
    home::Home,
    store::{changes_at, open_changes},
};

pub struct Watch {
    events: OwnedFd,
}

impl Watch {
    /// Watches the files in each of `folders`.
    pub fn folders(folders: &[&Path]) -> io::Result<Self> {
        let watch = Self { events: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)? };
        folders.iter().try_for_each(|folder| watch.add(folder))?;
        Ok(watch)
    }

    /// Watches the journal of `home` for commits: told after each, when it can be read.
    pub fn journal(home: &Home) -> io::Result<Self> {
        Self::journal_and(home, &[])
    }

    /// Watches the journal of `home` for commits, and the files in each of `folders`.
    pub fn journal_and(home: &Home, folders: &[&Path]) -> io::Result<Self> {
        let watch = Self::folders(folders)?;
        let file = changes_at(&home.database());
        // The file is missing until the first writer has written to the journal.
        open_changes(&file)?;
        inotify::add_watch(&watch.events, &file, WatchFlags::MODIFY)?;
        Ok(watch)
    }

    /// Watches the files in `folder` too.
    pub(crate) fn add(&self, folder: &Path) -> io::Result<()> {
        let flags = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.events, folder, flags)?;
        Ok(())
    }

    /// Readable when something has changed.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Whether something has changed since the last call.
    pub(crate) fn has_changed(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        let mut has_changed = false;
        while reader.next().is_ok() {
            has_changed = true;
        }
        has_changed
    }

    /// Waits until something has changed since the last call, or for `longest`.
    pub fn wait(&self, longest: Duration) -> io::Result<()> {
        let limit = Timespec::try_from(longest).ok();
        match poll(&mut [PollFd::new(&self.events, PollFlags::IN)], limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.has_changed();
        Ok(())
    }
}
