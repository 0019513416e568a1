//! `evidence`: what an agent must show beside its claim.

use super::{At, ConfigSection};
use crate::judge::evidence::Evidence;

pub(super) fn read(top: &mut ConfigSection<'_>) -> Vec<At<Evidence>> {
    let nodes = top.list("evidence");
    let mut kinds = Vec::new();
    for node in nodes {
        let place = node.place;
        let Some(word) = top.text_of("an entry of `evidence`", node) else { continue };
        match Evidence::ALL.into_iter().find(|kind| kind.as_str() == word.value) {
            Some(value) => kinds.push(At { value, line: word.line }),
            None => top.wrong(place, "an entry of `evidence` must be one of commit, tests, approval"),
        }
    }
    kinds
}
