//! Names the sources of core, for the checkpoints that the store keeps of folds.
//!
//! A checkpoint holds what one version of core made of events. Another version may fold the same events to something else,
//! so a checkpoint counts only for the sources that made it. A number in the code would do the same as long as everyone who
//! changes an `apply` remembers it; a hash of the sources needs no memory.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let sources = Path::new("../core/src");
    println!("cargo::rerun-if-changed={}", sources.display());
    let mut files = Vec::new();
    collect(sources, &mut files)?;
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (name, text) in &files {
        // Fowler, Noll and Vo's hash: the same in every version of Rust.
        for byte in name.bytes().chain([0]).chain(text.iter().copied()).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=DACAPO_CORE_SOURCES={hash:016x}");
    Ok(())
}

/// Every source below `folder` that is no test, with its path.
fn collect(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, files)?;
        } else if name.ends_with(".rs") && !name.contains("_tests") {
            files.push((name, fs::read(&path)?));
        }
    }
    Ok(())
}
