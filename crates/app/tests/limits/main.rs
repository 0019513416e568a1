//! Limits, outages, money and sessions, end to end: the fake agent prints what a CLI would, and no CLI is there.
//! One file per topic.

mod events;
mod fallback;
mod hangs;
mod money;
mod outcomes;
mod parking;
mod reference;
mod sessions;
mod shared;
mod streams;
mod support;
