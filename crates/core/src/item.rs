//! Items: what a claim of a loop can be about.
//!
//! A plain loop has one item, the whole of its work, which the agent claims in words. A loop may also have several, each
//! with a mark that the agent sets when the item is done. What a mark is and where it stands is known to the
//! [`ItemSource`] alone: the loop machine asks the engine to read marks, to set them and to commit items, by their keys.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    judge::{evidence::Evidence, signal::Signal},
    policy::CommitRule,
    unit::items::{UnitSource, how_to_claim},
};

/// Names an item within its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemKey(pub u32);

impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Something that a claim can be about. Its gates are those of the policy that carry its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The key of an item that the agent marks; `None`: the whole work, which is claimed in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<ItemKey>,
    /// What people call such an item: `task`.
    #[serde(default = "Item::default_noun")]
    pub noun: String,
    /// What an agent must show beside its claim, in the order in which it is looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// How dacapo commits it when it is proven; `None`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitRule>,
    /// Files that its gates run and that the work on it may change all the same, such as tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
}

impl Item {
    /// The whole work of a loop, which asks for no evidence and which dacapo does not commit.
    pub fn whole() -> Self {
        let noun = Self::default_noun();
        Self { key: None, noun, evidence: Vec::new(), commit: None, writes: Vec::new() }
    }

    fn default_noun() -> String {
        "work".to_owned()
    }

    /// What people call it: `task #2`.
    pub fn label(&self) -> String {
        match self.key {
            Some(key) => format!("{} {key}", self.noun),
            None => self.noun.clone(),
        }
    }

    /// Whether a claim by these signals is about it.
    pub fn is_claimed(&self, by: &[Signal]) -> bool {
        self.key.is_none_or(|key| by.contains(&Signal::Item(key)))
    }
}

/// The items among signals.
pub fn claimed_items(by: &[Signal]) -> impl DoubleEndedIterator<Item = ItemKey> {
    by.iter().filter_map(|signal| match signal {
        Signal::Item(key) => Some(*key),
        _ => None,
    })
}

/// Where the marks of a loop's items stand, and what must not change there. The loop machine hands it on and never looks
/// into it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ItemSource {
    /// The task files of a unit.
    Unit(UnitSource),
}

impl ItemSource {
    /// How an agent claims items of this source, in a sentence or two for its prompt.
    pub fn how_to_claim(&self) -> &'static str {
        match self {
            Self::Unit(_) => how_to_claim(),
        }
    }
}

/// What the marks of a loop's items say when an agent has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemFacts {
    /// Items whose marks say that they are done.
    pub done: Vec<ItemKey>,
    /// Marks that an agent has set though this loop has no such item: they are set back and never believed.
    pub not_ours: Vec<ItemKey>,
    /// What the agent may have meant as a claim and is none: one line each.
    pub misses: Vec<String>,
    /// Whether something that holds marks is gone or cannot be read.
    pub is_damaged: bool,
}

/// Which marks are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marks {
    All,
    Of(Vec<ItemKey>),
}

impl Marks {
    pub fn contains(&self, key: ItemKey) -> bool {
        match self {
            Self::All => true,
            Self::Of(keys) => keys.contains(&key),
        }
    }
}
