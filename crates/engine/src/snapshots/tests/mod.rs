//! Real repositories in throw-away folders; nothing of the machine's own git settings counts.

mod commits;
mod looks;
mod plain;
mod restores;
mod snapshots;
mod states;
mod traps;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::*;
use crate::{
    git::{GitError, RepositoryProblem, fixture::*},
    home::Home,
};
