//! What dacapo decides.
