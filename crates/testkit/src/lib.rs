//! What dacapo's tests are made with.
