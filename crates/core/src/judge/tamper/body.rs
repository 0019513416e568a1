//! What a test's body does, as far as words tell.

/// Words that, as part of a name, tell that something is checked.
const CHECKS: &[&str] = &[
    "assert", "expect", "check", "verif", "should", "require", "ensure", "must", "fail", "panic", "raise",
    "throw", "unwrap", "error", "fatal", "match", "snapshot", "compare", "equal", "?",
];

/// Statements that end a test at once.
const RETURNS: &[&str] = &["return", "returnNone", "returnnil", "returnOk(())", "return()"];

/// Statements that do nothing, without white space.
const INERT: &[&str] = &[
    "",
    "pass",
    "...",
    "Ok(())",
    "()",
    "None",
    "assertTrue",
    "assert!(true)",
    "assert(true)",
    "assert.ok(true)",
    "assert(True)",
    "self.assertTrue(True)",
    "expect(true).toBe(true)",
    "expect(true).toBeTruthy()",
    "expect(1).toBe(1)",
    "expect(true).toEqual(true)",
    "assert1==1",
    "assert1",
    "assertTrueisTrue",
    "done()",
    "t.Log()",
    "_=t",
    "t.Parallel()",
    "t.Helper()",
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// Its text without white space.
    squeezed: String,
    empty: bool,
    checks: bool,
}

impl Body {
    /// The body that is written as `text`, of which `code` is the code.
    pub(super) fn new(text: &str, code: &str) -> Self {
        let squeezed = text.split_whitespace().collect();
        let lower = code.to_ascii_lowercase();
        Self { squeezed, empty: is_empty(code), checks: CHECKS.iter().any(|check| lower.contains(check)) }
    }

    /// Whether it does nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.empty
    }

    pub(super) fn same_code(&self, other: &Self) -> bool {
        self.squeezed == other.squeezed
    }

    /// Whether it checks nothing while `before` did.
    pub(super) fn is_emptied_since(&self, before: &Self) -> bool {
        (self.empty && !before.empty) || (before.checks && !self.checks && !before.empty)
    }
}

fn is_empty(code: &str) -> bool {
    for statement in code.split(['\n', ';']) {
        let statement: String = statement.split_whitespace().collect();
        let statement = statement.trim_matches(['{', '}']);
        if RETURNS.contains(&statement) {
            // What follows is never reached.
            return true;
        }
        let only_strings = statement.bytes().all(|byte| matches!(byte, b'"' | b'\'' | b'`' | b'r'));
        if !only_strings && !INERT.contains(&statement) && !compares_itself(statement) {
            return false;
        }
    }
    true
}

/// Whether a statement compares a value with itself, as `assert_eq!(1, 1)` does.
fn compares_itself(statement: &str) -> bool {
    let arguments = ["assert_eq!(", "self.assertEqual(", "assert.equal(", "assert.strictEqual("]
        .iter()
        .find_map(|name| statement.strip_prefix(name))
        .and_then(|rest| rest.strip_suffix(')'));
    // Strings are blanked out and may differ.
    arguments
        .and_then(|arguments| arguments.split_once(','))
        .is_some_and(|(left, right)| left == right && !left.contains(['"', '\'', '(']))
}
