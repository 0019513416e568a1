//! Where `/proc` is. A keeper that holds the sandbox of a loop sees another one at the usual place: that of its agents.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

static IS_CURRENT_FOLDER: AtomicBool = AtomicBool::new(false);

/// From now on the current folder is the `/proc` in which this process finds itself.
pub(crate) fn is_current_folder() {
    IS_CURRENT_FOLDER.store(true, Ordering::Relaxed);
}

pub(crate) fn root() -> &'static Path {
    Path::new(if IS_CURRENT_FOLDER.load(Ordering::Relaxed) { "." } else { "/proc" })
}

/// A file about the process `pid`.
pub(crate) fn of(pid: u32, file: &str) -> PathBuf {
    root().join(pid.to_string()).join(file)
}

/// Reads a file of `/proc`. None of them says how long it is, so it is not felt out in small pieces.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(8 << 10);
    // Behind `take` the file is not asked for its length either.
    File::open(path)?.take(u64::MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// A file about this process.
pub(crate) fn own(file: &str) -> PathBuf {
    root().join("self").join(file)
}
