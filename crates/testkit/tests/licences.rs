//! Every crate that ships or builds dacapo may be used under a licence that fits MIT OR Apache-2.0.

use std::process::Command;

const ALLOWED: [&str; 12] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unlicense",
    "Unicode-3.0",
];

/// Whether an SPDX expression can be met with what is allowed. `AND` binds tighter than `OR`.
fn is_met(expression: &str) -> bool {
    // Old manifests write `MIT/Apache-2.0`; brackets only ever group alternatives or a conjunction.
    let text = expression.replace('/', " OR ");
    if let Some(open) = text.rfind('(')
        && let Some(close) = text[open..].find(')').map(|at| open + at)
    {
        let inner = if is_met(&text[open + 1..close]) { "MIT" } else { "refused" };
        return is_met(&format!("{}{inner}{}", &text[..open], &text[close + 1..]));
    }
    text.split(" OR ").any(|one| one.split(" AND ").all(|licence| ALLOWED.contains(&licence.trim())))
}

#[test]
fn expressions_are_understood() {
    for (expression, met) in [
        ("MIT", true),
        ("MIT OR GPL-3.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0-only", false),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
    ] {
        assert_eq!(is_met(expression), met, "{expression}");
    }
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20, "only {} packages: that is not the whole tree", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(is_met))
        .map(|package| format!("{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
