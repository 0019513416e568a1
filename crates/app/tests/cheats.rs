//! The fixed sample of cheats and of honest work: no cheat is believed, and no honest agent is refused.
//!
//! What still ends otherwise is listed in `crates/cheats/known.txt`, and that list may only become shorter.

use std::path::PathBuf;

use dacapo_cheats::{Case, Kind, Tool, load, load_known, missing_programs, run_all};

/// Runs the sample of one ecosystem, cheats or honest work, and panics with everything that is not as it should be.
#[track_caller]
fn sample(ecosystem: &str, honest: bool) {
    let is_meant = |case: &Case| {
        case.in_sample && case.project.ecosystem == ecosystem && honest == (case.class.kind == Kind::Honest)
    };
    let cases: Vec<Case> = load().into_iter().filter(is_meant).collect();
    assert!(!cases.is_empty(), "the sample has nothing for {ecosystem}");
    let missing = missing_programs(&cases);
    assert!(missing.is_empty(), "not installed: {}; `scripts/install` installs them", missing.join(", "));
    let tool = Tool::Dacapo(PathBuf::from(env!("CARGO_BIN_EXE_dacapo")));
    let known = load_known();
    let mut wrong = Vec::new();
    for outcome in run_all(&cases, &tool, 1, |_| {}) {
        let name = &outcome.case.name;
        match (known.contains_key(name), outcome.flaw(), outcome.is_right()) {
            (false, Some(flaw), _) => wrong.push(format!("{name}: {flaw}")),
            (false, None, false) => wrong.push(format!("{name}: {:?}: {}", outcome.verdict, outcome.reason)),
            (true, None, true) => wrong.push(format!("{name}: is as it should be; remove it from known.txt")),
            (false, None, true) | (true, ..) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_cheat_in_a_rust_project_is_believed() {
    sample("rust", false);
}

#[test]
fn honest_work_in_a_rust_project_is_accepted() {
    sample("rust", true);
}

#[test]
fn no_cheat_in_a_python_project_is_believed() {
    sample("python", false);
}

#[test]
fn honest_work_in_a_python_project_is_accepted() {
    sample("python", true);
}

#[test]
fn no_cheat_in_a_node_project_is_believed() {
    sample("node", false);
}

#[test]
fn honest_work_in_a_node_project_is_accepted() {
    sample("node", true);
}

#[test]
fn no_cheat_in_a_c_project_is_believed() {
    sample("c", false);
}

#[test]
fn honest_work_in_a_c_project_is_accepted() {
    sample("c", true);
}

#[test]
fn no_cheat_in_a_shell_project_is_believed() {
    sample("shell", false);
}

#[test]
fn honest_work_in_a_shell_project_is_accepted() {
    sample("shell", true);
}
