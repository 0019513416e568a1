//! The text format of projects and cases.
//!
//! ```text
//! # A comment, before the first block.
//! == name of a block
//! key: value
//! --- name of a section
//! text, up to the next line that begins with `== ` or `--- `
//! ```

use std::collections::BTreeMap;

/// One `== name` with what stands below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) keys: BTreeMap<String, String>,
    /// In the order of the file.
    pub(crate) sections: Vec<(String, String)>,
}

impl Block {
    pub(crate) fn key(&self, name: &str) -> Option<&str> {
        self.keys.get(name).map(String::as_str)
    }

    pub(crate) fn section(&self, name: &str) -> Option<&str> {
        self.sections.iter().find(|(section, _)| section == name).map(|(_, text)| text.as_str())
    }

    /// The sections called `file PATH`, as path and content.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sections.iter().filter_map(|(name, text)| Some((name.strip_prefix("file ")?, text.as_str())))
    }

    /// An error if the block holds anything that is not named here.
    pub(crate) fn allows(&self, keys: &[&str], sections: &[&str]) -> Result<(), String> {
        let unknown_key = self.keys.keys().find(|key| !keys.contains(&key.as_str()));
        let is_known = |name: &str| sections.contains(&name) || name.starts_with("file ");
        let unknown_section = self.sections.iter().map(|(name, _)| name).find(|name| !is_known(name));
        match unknown_key.or(unknown_section) {
            Some(name) => Err(format!("`{}`: `{name}` is no key or section of it", self.name)),
            None => Ok(()),
        }
    }
}

/// The blocks of a file; an error names the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("== ") {
            blocks.push(Block { name: name.trim().to_owned(), ..Block::default() });
            continue;
        }
        let Some(block) = blocks.last_mut() else {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            return Err(format!("line {}: text before the first block", number + 1));
        };
        if let Some(name) = line.strip_prefix("--- ") {
            block.sections.push((name.trim().to_owned(), String::new()));
        } else if let Some((_, section)) = block.sections.last_mut() {
            section.push_str(line);
            section.push('\n');
        } else if !line.trim().is_empty() {
            let (key, value) = line
                .split_once(':')
                .ok_or_else(|| format!("line {}: neither key nor section", number + 1))?;
            block.keys.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    for (_, section) in blocks.iter_mut().flat_map(|block| &mut block.sections) {
        let length = section.trim_end().len();
        section.truncate(length);
        section.push('\n');
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_keys_and_sections() {
        let text = "# said\n\n== one\ngate: a: b\n--- file x/y\n\n a\n--- agent\nb\n\n== two\n";
        let blocks = parse(text).expect("it is well formed");
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].key("gate"), Some("a: b"));
        assert_eq!(blocks[0].section("agent"), Some("b\n"));
        assert_eq!(blocks[0].files().collect::<Vec<_>>(), [("x/y", "\n a\n")]);
        assert_eq!(blocks[1], Block { name: "two".to_owned(), ..Block::default() });
    }

    #[test]
    fn what_is_out_of_place_is_named() {
        assert_eq!(parse("x").unwrap_err(), "line 1: text before the first block");
        assert_eq!(parse("== a\nx").unwrap_err(), "line 2: neither key nor section");
        let block = parse("== a\nb: c\n--- d\n").expect("it is well formed").remove(0);
        assert_eq!(block.allows(&["b"], &[]).unwrap_err(), "`a`: `d` is no key or section of it");
        assert_eq!(block.allows(&["b"], &["d"]), Ok(()));
    }
}
