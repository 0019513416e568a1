//! dacapo, the command.
fn main() {}
