//! Real repositories in throw-away folders; nothing of the machine's own git settings counts.

mod merges;
mod random;
mod remotes;
mod targets;
mod worktrees;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::*;
use crate::git::{GitError, fixture::*};
