//! Room on the disk that is given up when it is full.

use std::fs;

use crate::home::{Home, write_private};

const RESERVE: usize = 256 * 1024;

/// Room that is given up when the disk is full, so that the reason can still be written down (fault G4).
pub(super) fn keep_reserve(home: &Home) {
    let path = home.path().join("reserve");
    if path.metadata().is_ok_and(|metadata| metadata.len() == RESERVE as u64) {
        return;
    }
    let _ = write_private(&path, &vec![0; RESERVE]);
}

pub(super) fn release_reserve(home: &Home) {
    let _ = fs::remove_file(home.path().join("reserve"));
}
