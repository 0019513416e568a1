//! What a loop survives: crashes, leaks, signals, floods, bad disks and rivals, each with real processes.
//!
//! `DACAPO_HARD=1` runs the nightly counts, `DACAPO_SEED=N` repeats what a failed run printed.

mod crash;
mod disk;
mod floods;
mod leaks;
mod ownership;
mod signals;
mod world;
