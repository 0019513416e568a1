//! Whether an agent has promised that its work is done, says that it cannot be done, or refuses the work that it was asked
//! to judge.
//!
//! The agent says so with a tag, `<promise>TEXT</promise>` or `<blocked>why</blocked>`, and refuses with a line that begins
//! with words of the policy. Its output streams through these
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
mod refusal;
mod rule;
mod tag;
mod wording;

pub(crate) use wording::PLACEHOLDER as BLOCKED_PLACEHOLDER;

pub use detector::{Detection, MissReason, NearMiss, PromiseDetector};
pub use rule::{BlankPromise, LetterCase, Placement, PlainWord, PromiseRule};
