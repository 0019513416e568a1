//! The reference names every key there is.

use std::path::Path;

#[test]
fn every_key_is_in_the_reference() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(
        rows,
        dacapo_core::config::all_keys(),
        "docs/reference/config.md has one row for each key, in order"
    );
}
