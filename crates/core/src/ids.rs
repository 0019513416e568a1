//! Names of things: loops, projects, tasks. Checked once, here, so that a path or a key can be built from them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An id that is not `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, or that stands for something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a valid {what} id: {rule}")]
pub struct InvalidId {
    /// `project`, `task`, `loop`, `run` or `unit`.
    pub what: &'static str,
    /// The text as given, shortened and without control characters.
    pub shown: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

const CHARACTERS: &str = "letters, digits, `.`, `_` and `-`, at most 64, starting with a letter or digit";
const TAKEN: &str = "the messages of the project lie there";
const NO_BRANCH: &str = "it becomes a part of a branch's name, in which git allows no `..`, and neither `.` nor `.lock` at the end";

fn check(what: &'static str, text: &str) -> Result<String, InvalidId> {
    let mut bytes = text.bytes();
    let starts_well = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let goes_on_well = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    // It would lie where the project's bus lies.
    let is_taken = what == "task" && text == "PROJECT-MESSAGE-BUS.md";
    // git accepts neither in the name of a branch.
    let is_no_branch =
        what == "unit" && (text.contains("..") || text.ends_with('.') || text.ends_with(".lock"));
    let rule = match (starts_well && goes_on_well && text.len() <= 64, is_taken, is_no_branch) {
        (false, ..) => CHARACTERS,
        (_, true, _) => TAKEN,
        (.., true) => NO_BRANCH,
        (true, false, false) => return Ok(text.to_owned()),
    };
    let shown = text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect();
    Err(InvalidId { what, shown, rule })
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                check($what, text).map(Self)
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// A loop: ten random base32 characters.
    LoopId, "loop"
}
id! {
    /// A project: the folder's name with six hex digits of its path, unless the user names it.
    ProjectId, "project"
}
id! {
    /// A run of units: ten random base32 characters.
    RunId, "run"
}
id! {
    /// A unit: the name of a folder of tasks, and a part of its branch's name.
    UnitId, "unit"
}
id! {
    /// A task: what a loop works on, and the name of its TASK_FOLDER.
    TaskId, "task"
}

/// Base32 without the letters that read like digits.
const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

impl LoopId {
    /// The id that `random` spells.
    pub fn from_random(random: [u8; 10]) -> Self {
        Self(base32(&random))
    }
}

impl RunId {
    /// The id that `random` spells.
    pub fn from_random(random: [u8; 10]) -> Self {
        Self(base32(&random))
    }
}

/// Five bits of each byte as one character.
pub fn base32(random: &[u8]) -> String {
    random.iter().map(|b| char::from(ALPHABET[usize::from(b & 31)])).collect()
}

/// A number that depends on every byte of `data`; for names and digests of no security value.
pub fn fingerprint(data: &[u8]) -> u64 {
    // FNV-1a, then a finaliser: FNV alone leaves the upper bits of short inputs alike.
    let mut hash =
        data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

impl ProjectId {
    /// The default project of a folder: its name, cleaned, with six hex digits of its whole path.
    pub fn of_folder(name: &str, path: &[u8]) -> Self {
        let name = slug(name, 40);
        let name = if name.is_empty() { "root".to_owned() } else { name };
        Self(format!("{name}-{:06x}", fingerprint(path) & 0xff_ffff))
    }

    /// What people call it: the name of its folder, without the digits that tell it from another folder of that name.
    pub fn name(&self) -> &str {
        match self.0.rsplit_once('-') {
            Some((name, digits))
                if digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()) && !name.is_empty() =>
            {
                name
            }
            _ => &self.0,
        }
    }
}

impl TaskId {
    /// A task id for a prompt that came without one: its first words, and something random if another task is called so.
    pub fn for_prompt(prompt: &str, random: [u8; 4], is_free: impl FnOnce(&Self) -> bool) -> Self {
        let words =
            slug(prompt.lines().find(|l| !l.trim().is_empty()).unwrap_or_default(), 28).to_lowercase();
        let words = if words.is_empty() { "task".to_owned() } else { words };
        let plain = Self(words);
        if is_free(&plain) { plain } else { Self(format!("{plain}-{}", base32(&random))) }
    }
}

/// `text` with everything but letters and digits turned into single dashes, at most `longest` bytes.
fn slug(text: &str, longest: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() >= longest {
            break;
        }
    }
    out.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_called_as_its_folder() {
        let own = ProjectId::of_folder("My shop", b"/src/My shop");
        assert_eq!(own.name(), "My-shop", "{own}");
        for (id, name) in [("shop", "shop"), ("shop-12345g", "shop-12345g"), ("a-b-00ff00", "a-b")] {
            assert_eq!(id.parse::<ProjectId>().unwrap().name(), name);
        }
    }

    #[test]
    fn a_refusal_names_the_rule_that_was_broken() {
        for (name, rule) in
            [("a b", CHARACTERS), ("a.lock", NO_BRANCH), ("x.", NO_BRANCH), ("a..b", NO_BRANCH)]
        {
            assert_eq!(name.parse::<UnitId>().unwrap_err().rule, rule, "{name}");
        }
        assert_eq!("PROJECT-MESSAGE-BUS.md".parse::<TaskId>().unwrap_err().rule, TAKEN);
        let said = "a.lock".parse::<UnitId>().unwrap_err().to_string();
        assert!(said.contains("git allows no `..`, and neither `.` nor `.lock` at the end"), "{said}");
    }

    #[test]
    fn an_id_can_be_a_file_name_and_nothing_else() {
        // fault I5: an id never becomes a path of its own.
        for good in ["a", "TASK-001", "0x.y_z-", &"a".repeat(64)] {
            assert_eq!(good.parse::<TaskId>().unwrap().as_str(), good);
        }
        for bad in [
            "PROJECT-MESSAGE-BUS.md",
            "",
            ".",
            "..",
            "-rf",
            "_x",
            "a/b",
            "../x",
            "a b",
            "ä",
            "a\0",
            "%2e%2e",
            &"a".repeat(65),
        ] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad:?}");
        }
        for bad in ["a..b", "a.", "a.lock"] {
            assert!(bad.parse::<TaskId>().is_ok() && bad.parse::<UnitId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_made_up_are_valid_ids() {
        for (name, path) in [("web app", "/x/web app"), ("", "/"), ("日本", "/日本"), ("--", "/--")] {
            let id = ProjectId::of_folder(name, path.as_bytes());
            assert!(id.as_str().parse::<ProjectId>().is_ok(), "{id}");
        }
        assert_ne!(ProjectId::of_folder("a", b"/x/a"), ProjectId::of_folder("a", b"/y/a"));
        for prompt in ["Fix the failing tests, please", "", "\n\n  # Heading", "日本語", &"x".repeat(900)]
        {
            let id = TaskId::for_prompt(prompt, [1, 2, 3, 4], |_| false);
            assert!(id.as_str().parse::<TaskId>().is_ok(), "{id}");
        }
        for (is_free, id) in [(true, "fix-the-tests"), (false, "fix-the-tests-abcd")] {
            assert_eq!(TaskId::for_prompt("Fix the tests", [0, 1, 2, 3], |_| is_free).as_str(), id);
        }
    }
}
