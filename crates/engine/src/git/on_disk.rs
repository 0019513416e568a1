//! What git has just written, read from its file instead of asked for: each question saved is a process saved.
//!
//! An answer is `None` whenever anything looks unlike what is known here; then git is asked.

use std::{fs, path::Path};

/// The setting by which git writes objects that can be read without inflating them.
pub(crate) const STORED: &str = "core.looseCompression=0";

/// The tree of a commit that we have just written with [`STORED`]. Nothing here checks that the file holds what its name says,
/// so that a commit which an agent has had the time to overwrite is asked of git.
pub(crate) fn tree_of_commit(common_dir: &Path, id: &str) -> Option<String> {
    let (folder, name) = id.split_at_checked(2)?;
    let bytes = fs::read(common_dir.join("objects").join(folder).join(name)).ok()?;
    tree_in(&bytes).filter(|tree| tree.len() == id.len())
}

/// zlib's two bytes, then a block: its kind, its length twice, and as many bytes as they are.
fn tree_in(bytes: &[u8]) -> Option<String> {
    const STORED_BLOCK: u8 = 0;
    let (head, rest) = bytes.split_at_checked(7)?;
    if (head[2] >> 1) & 0b11 != STORED_BLOCK {
        return None;
    }
    let block = rest.get(..usize::from(u16::from_le_bytes([head[3], head[4]])))?;
    let block = block.strip_prefix(b"commit ")?;
    let body = &block[memchr::memchr(0, block)? + 1..];
    let body = body.strip_prefix(b"tree ")?;
    let tree = std::str::from_utf8(&body[..memchr::memchr(b'\n', body)?]).ok()?;
    is_id(tree).then(|| tree.to_owned())
}

/// Where a ref points, from its file or the packed ones; none if it is stored in another way, or not at all.
pub(crate) fn reference(common_dir: &Path, name: &str) -> Option<String> {
    if let Ok(text) = fs::read_to_string(common_dir.join(name)) {
        return Some(text.trim().to_owned()).filter(|id| is_id(id));
    }
    let packed = fs::read_to_string(common_dir.join("packed-refs")).ok()?;
    let line = packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, found)| found == name))?;
    line.split_once(' ').map(|(id, _)| id.to_owned()).filter(|id| is_id(id))
}

/// The commit that HEAD names, on a branch or not; `Some(None)` on an unborn one.
pub(crate) fn head(git_dir: &Path, common_dir: &Path) -> Option<Option<String>> {
    let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let head = head.trim_end();
    let Some(name) = head.strip_prefix("ref: ") else {
        return is_id(head).then(|| Some(head.to_owned()));
    };
    // Only branches are shared by all work trees for certain, and only files can be read.
    if !name.starts_with("refs/heads/") || common_dir.join("reftable").exists() {
        return None;
    }
    match reference(common_dir, name) {
        Some(id) => Some(Some(id)),
        // A file that holds no commit is damaged, not unborn.
        None => fs::symlink_metadata(common_dir.join(name)).is_err().then_some(None),
    }
}

/// The branch that HEAD is on; none if it is on none, or is stored in another way.
pub(crate) fn head_branch(git_dir: &Path, common_dir: &Path) -> Option<String> {
    let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
    let name = head.trim_end().strip_prefix("ref: refs/heads/")?;
    (!common_dir.join("reftable").exists()).then(|| name.to_owned())
}

fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_from_a_stored_commit_and_from_nothing_else() {
        let tree = "aaff74984cccd156a469afa7d9ab10e4777beb24";
        let stored = |kind: u8, text: &str| {
            let length = u16::try_from(text.len()).unwrap().to_le_bytes();
            [&[0x78, 1, kind], &length[..], &length.map(|b| !b)[..], text.as_bytes()].concat()
        };
        let commit = format!("commit 112\0tree {tree}\nauthor a <b> 1 +0000\n\nx");
        for (bytes, expected) in [
            (stored(1, &commit), Some(tree)),
            (stored(0, &commit), Some(tree)),
            (stored(3, &commit), None),
            (stored(5, &commit), None),
            (stored(1, &format!("blob 112\0tree {tree}\n")), None),
            (stored(1, &format!("commit 1\0parent {tree}\n")), None),
            (stored(1, "commit 1\0tree ../../x\n"), None),
            (stored(1, "commit 1\0tree aaff"), None),
            (stored(1, &commit)[..40].to_vec(), None),
            (b"x\x01".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(tree_in(&bytes).as_deref(), expected, "{}", String::from_utf8_lossy(&bytes));
        }
    }
}
