//! What dacapo does.
