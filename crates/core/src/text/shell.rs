//! Words of a shell.

/// `text` as one word of a shell, also with spaces, quotes and line breaks in it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// `text` as one word of a shell, quoted only where that is needed.
pub fn word(text: &str) -> String {
    let is_simple = |b: u8| b.is_ascii_alphanumeric() || b"/._-+@=:,".contains(&b);
    if !text.is_empty() && text.bytes().all(is_simple) { text.to_owned() } else { quoted(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        // fault I6
        for (text, plain) in
            [("main", "main"), ("a b", "'a b'"), ("$(id)", "'$(id)'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(word(text), plain);
        }
        assert_eq!(quoted("main"), "'main'");
    }
}
