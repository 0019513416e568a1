//! Opens files below a folder that an agent or a repository may have prepared: no link is followed, only regular
//! files are read, and never more bytes than asked for.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};

/// Why a file is not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is a folder, a FIFO, a device.
    NotRegular,
    /// The system's reason; `LOOP` where a link is on the way.
    System(Errno),
}

impl From<Errno> for Unread {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

impl From<Unread> for io::Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::NotRegular => Self::new(io::ErrorKind::InvalidInput, "it is not a regular file"),
            Unread::System(error) => error.into(),
        }
    }
}

/// Whether a folder on the way from `root` to `below` is a link, which leads elsewhere.
pub(crate) fn leads_elsewhere(root: &Path, below: &Path) -> bool {
    below.ancestors().skip(1).any(|above| !above.as_os_str().is_empty() && root.join(above).is_symlink())
}

/// Removes the links on the way from `root` to `below`.
pub(crate) fn untie(root: &Path, below: &Path) -> io::Result<()> {
    let above: Vec<&Path> = below.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
    for path in above.into_iter().rev().map(|above| root.join(above)).filter(|path| path.is_symlink()) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// The folder below which files are opened. The folder itself may be reached by links.
pub(crate) fn root(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())
}

/// Opens a file below a folder in one system call, so that a link that changes meanwhile leads nowhere else. A FIFO
/// does not hold it up.
pub(crate) fn open(folder: impl AsFd, name: impl AsRef<Path>, extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | extra;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let open = || rustix::fs::openat2(&folder, name.as_ref(), flags, Mode::empty(), beneath);
    // It has to be asked again if something is renamed meanwhile; who does that all the time gets an error.
    (0..100)
        .map(|_| open())
        .find(|opened| !matches!(opened, Err(Errno::AGAIN | Errno::INTR)))
        .unwrap_or_else(open)
}

/// A regular file, and what the system knows about it.
pub(crate) fn file(folder: impl AsFd, name: &str) -> Result<(File, Stat), Unread> {
    let file = open(folder, name, OFlags::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(file), stat)),
        _ => Err(Unread::NotRegular),
    }
}

/// The content of a regular file: `most` bytes of it, and one more, so that too much is seen to be too much.
pub(crate) fn read(folder: impl AsFd, name: &str, most: usize) -> Result<Vec<u8>, Unread> {
    let (file, stat) = file(folder, name)?;
    let mut bytes = Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0).min(most) + 1);
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn nothing_but_a_regular_file_beneath_the_folder_is_read() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("root");
        fs::create_dir_all(path.join("folder")).unwrap();
        fs::write(above.path().join("outside"), "outside").unwrap();
        fs::write(path.join("folder/file"), "text").unwrap();
        symlink("folder", path.join("link")).unwrap();
        symlink("folder/file", path.join("file-link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, path.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let folder = root(&path).unwrap();
        for (name, expected) in [
            ("folder/file", Ok(b"text".to_vec())),
            ("folder", Err(Unread::NotRegular)),
            ("fifo", Err(Unread::NotRegular)),
            ("link/file", Err(Errno::LOOP.into())),
            ("file-link", Err(Errno::LOOP.into())),
            ("../outside", Err(Errno::XDEV.into())),
            ("gone", Err(Errno::NOENT.into())),
        ] {
            assert_eq!(read(&folder, name, 100), expected, "{name}");
        }
        assert_eq!(read(&folder, "folder/file", 2).unwrap(), b"tex", "one more than is allowed");
    }
}
