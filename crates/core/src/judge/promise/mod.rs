//! Whether an agent has promised that its work is done, or says that it cannot be done.
//!
//! The agent says so with a tag: `<promise>TEXT</promise>`, or `<blocked>why</blocked>`. Its output streams through these
//! steps, none of which keeps more than a few KiB of it:
//!
//! ```text
//! bytes → AnsiStripper → LineReader (lines, TagScanner) → Judge (CodeTracker, PromptEchoes) → Detection
//! ```

pub(super) mod code;
mod detector;
mod echo;
pub(super) mod line;
mod plain;
mod reader;
mod rule;
mod tag;
mod wording;

pub(crate) use wording::PLACEHOLDER as BLOCKED_PLACEHOLDER;

pub use detector::{Detection, MissReason, NearMiss, PromiseDetector};
pub use rule::{BlankPromise, Case, Placement, PlainWord, PromiseRule};
