//! Turns of a unit with real processes and a real git. No harness: a supervisor starts its keeper from the very binary
//! it is in, so this one is test, supervisor and keeper.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests, though without the harness that would make them such"
)]

mod commits;
mod proofs;
mod settings;
mod world;

use std::{panic, process::ExitCode};

use dacapo_engine::process::keeper;

const TESTS: &[(&str, fn())] = &[
    ("several_tasks_of_one_turn_have_a_commit_each", proofs::several_tasks_of_one_turn_have_a_commit_each),
    ("of_several_tasks_the_good_ones_are_kept", proofs::of_several_tasks_the_good_ones_are_kept),
    ("a_refused_task_is_set_back_and_told", proofs::a_refused_task_is_set_back_and_told),
    ("what_proves_a_task_is_frozen", proofs::what_proves_a_task_is_frozen),
    ("a_status_alone_is_no_work", proofs::a_status_alone_is_no_work),
    ("checks_without_an_agent", proofs::checks_without_an_agent),
    ("checks_with_an_agent_that_mends", proofs::checks_with_an_agent_that_mends),
    ("a_commit_that_fails_ends_the_loop", commits::a_commit_that_fails_ends_the_loop),
    ("killed_around_its_commits_each_is_made_once", commits::killed_around_its_commits_each_is_made_once),
    (
        "a_prompt_that_speaks_for_itself_has_the_number_of_its_iteration",
        settings::a_prompt_that_speaks_for_itself_has_the_number_of_its_iteration,
    ),
    (
        "an_agent_is_told_the_stage_and_its_checks_are_not",
        settings::an_agent_is_told_the_stage_and_its_checks_are_not,
    ),
    (
        "an_agent_that_refuses_the_work_it_judges_ends_its_loop",
        settings::an_agent_that_refuses_the_work_it_judges_ends_its_loop,
    ),
    (
        "a_gate_passes_if_it_comes_to_what_is_expected",
        settings::a_gate_passes_if_it_comes_to_what_is_expected,
    ),
    (
        "a_gate_runs_in_its_folder_and_never_outside_of_the_workspace",
        settings::a_gate_runs_in_its_folder_and_never_outside_of_the_workspace,
    ),
    (
        "a_receipt_says_what_its_gates_had_to_come_to_and_is_checked_by_that",
        settings::a_receipt_says_what_its_gates_had_to_come_to_and_is_checked_by_that,
    ),
    (
        "an_agent_that_is_asked_about_the_criteria_can_refuse_and_not_decide_alone",
        settings::an_agent_that_is_asked_about_the_criteria_can_refuse_and_not_decide_alone,
    ),
    (
        "what_an_agent_costs_that_is_asked_is_counted_and_its_answer_is_not_the_workers",
        settings::what_an_agent_costs_that_is_asked_is_counted_and_its_answer_is_not_the_workers,
    ),
    ("what_the_agent_committed_itself_is_not_lost", commits::what_the_agent_committed_itself_is_not_lost),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [keeper::KEEPER, ..] => keeper::main(),
        [world::LOOP, order] => world::obey(order),
        [world::CHECK_AGAIN, id] => world::check_again(id),
        _ if words.contains(&"--list") => {
            // None of them is ignored.
            for (name, _) in TESTS.iter().filter(|_| !words.contains(&"--ignored")) {
                println!("{name}: test");
            }
            ExitCode::SUCCESS
        }
        _ => run(&words),
    }
}

/// Runs the tests whose names hold any of the words that are no options.
fn run(words: &[&str]) -> ExitCode {
    let wanted: Vec<&&str> = words.iter().filter(|word| !word.starts_with("--") && **word != "1").collect();
    let is_exact = words.contains(&"--exact");
    let is_wanted = |name: &str| {
        wanted.is_empty()
            || wanted.iter().any(|word| if is_exact { name == **word } else { name.contains(**word) })
    };
    let mut failed = 0;
    for (name, test) in TESTS.iter().filter(|(name, _)| is_wanted(name)) {
        let is_ok = panic::catch_unwind(*test).is_ok();
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        failed += u8::from(!is_ok);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(101) }
}
