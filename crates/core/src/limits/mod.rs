//! What an agent's provider allows, and what it costs.
//!
//! The text of a final error goes to [`limit_class`]: which failure is it? For a used-up plan [`reset_at`]
//! says when it is over, for trouble that passes [`backoff()`] how long to wait. While an agent runs, a
//! [`Meter`] adds up what it reports, at a [`Price`], and [`exceeded`] and [`may_start`] judge it against a
//! [`Budget`].

pub mod backoff;
pub mod budget;
pub mod failure;
pub mod meter;
pub mod price;
pub mod reset;

pub use backoff::{GIVE_UP_AFTER, backoff};
pub use budget::{
    Account, Budget, BudgetRefusal, Exceeded, Share, Spent, exceeded, first_exceeded, may_start, shared_low,
};
pub use failure::{FailureClass, limit_class};
pub use meter::{Meter, Metered, SessionTotals, UsageScope, estimate_tokens, tokens};
pub use price::{Price, Prices};
pub use reset::{PROBE_EVERY, reset_at};
