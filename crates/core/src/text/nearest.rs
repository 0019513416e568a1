//! Which of the known words was probably meant.

/// The known word nearest to `word`, if one is near enough to have been meant.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Longer than any word of ours: comparing it would only cost time.
    if word.len() > 64 {
        return None;
    }
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()) / 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be added, dropped or replaced to make `b`, which is in small letters, of `a`.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.to_lowercase().chars().collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y && !(*x == '-' && *y == '_'));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_was_meant_is_found_and_nothing_is_made_up() {
        let known = ["limits", "gates", "protect", "max_iterations", "max_time"];
        for (word, meant) in [
            ("gate", Some("gates")),
            ("Gates", Some("gates")),
            ("limit", Some("limits")),
            ("max-iterations", Some("max_iterations")),
            ("max_iteration", Some("max_iterations")),
            ("protected", Some("protect")),
            ("frobnicate", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
        assert_eq!(nearest(&"gates".repeat(100_000), &known), None);
    }
}
