//! A temporary folder that is removed when its value is dropped.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub struct Scratch {
    path: PathBuf,
    is_kept: bool,
}

impl Scratch {
    /// A new one, named `name` and something random.
    pub fn new(name: &str) -> io::Result<Self> {
        Self::below(&std::env::temp_dir(), name)
    }

    /// A new one in `folder`, which is made if it is not there.
    pub fn below(folder: &Path, name: &str) -> io::Result<Self> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
        let path = folder.join(format!("{name}-{}", dacapo_core::ids::base32(&random)));
        crate::home::make_dir(&path)?;
        Ok(Self { path: path.canonicalize()?, is_kept: false })
    }

    /// Removes what a process that was killed left of those that were named `name`.
    pub(crate) fn remove_left(name: &str) {
        let begin = format!("{name}-");
        for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
            // Not a link that leads elsewhere.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && entry.file_name().to_string_lossy().starts_with(&begin) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let file = self.path.join(name);
        if let Some(folder) = file.parent() {
            crate::home::make_dir(folder)?;
        }
        fs::write(file, text)
    }

    /// Leaves it where it is.
    pub fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.path.clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
