//! `dacapo workflow check`.

use clap::Args;
use dacapo_core::{
    text::count,
    unit::check::Problem,
    workflow::{ParseSettings, catalogue::Catalogue},
};
use serde_json::json;

use super::{
    super::{say, say_json},
    DirFlag, no_workflow,
};
use crate::error::{USAGE, UserError};

/// Say everything that is wrong with workflow files and command files
///
/// Each problem has its place, the line, and what to do about it; notes say what is allowed and weaker than it could be.
/// The exit code is 2 if there is a problem.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo workflow check\n  dacapo workflow check ralph --lenient --json")]
pub(super) struct CheckArgs {
    /// Only this workflow
    name: Option<String>,
    /// Leave out keys that dacapo does not know, and list them, instead of refusing them
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    place: DirFlag,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// What is said about one workflow, or about all.
struct Findings<'a> {
    workflows: usize,
    problems: Vec<&'a Problem>,
    notes: Vec<&'a Problem>,
    left_out: Vec<(&'a str, &'a str, u32)>,
}

impl<'a> Findings<'a> {
    fn of(catalogue: &'a Catalogue, name: Option<&str>) -> Result<Self, UserError> {
        // The files that are about it: one that can be run, or those that would be called so.
        let files: Option<Vec<&str>> = match name {
            None => None,
            Some(name) => {
                let runnable = catalogue.find(name);
                let own =
                    runnable.into_iter().flat_map(|found| found.files.iter().map(|file| file.file.as_str()));
                let files: Vec<&str> = own.chain(catalogue.broken_files(name)).collect();
                if files.is_empty() {
                    return Err(no_workflow(catalogue, name));
                }
                Some(files)
            }
        };
        let is_meant = |file: &str| files.as_ref().is_none_or(|files| files.contains(&file));
        let meant = catalogue.workflows.iter().filter(|found| is_meant(&found.workflow.file));
        let left_out = meant.clone().flat_map(|found| {
            let file = found.workflow.file.as_str();
            found.left_out.iter().map(move |left| (file, left.key.as_str(), left.line))
        });
        Ok(Self {
            workflows: meant.clone().count(),
            problems: catalogue.problems.iter().filter(|problem| is_meant(&problem.file)).collect(),
            notes: catalogue.notes.iter().filter(|note| is_meant(&note.file)).collect(),
            left_out: left_out.collect(),
        })
    }
}

pub(super) fn check(args: &CheckArgs) -> Result<u8, UserError> {
    let catalogue = args.place.catalogue(ParseSettings { lenient: args.lenient })?;
    let Findings { workflows, problems, notes, left_out } = Findings::of(&catalogue, args.name.as_deref())?;
    if args.json {
        let left_out: Vec<_> = left_out
            .iter()
            .map(|(file, key, line)| json!({ "file": file, "key": key, "line": line }))
            .collect();
        say_json(&json!({
            "workflows": workflows,
            "problems": problems,
            "notes": notes,
            "left_out": left_out,
        }))?;
        return Ok(if problems.is_empty() { 0 } else { USAGE });
    }
    let number = |n: usize, thing: &str| count(u32::try_from(n).unwrap_or(u32::MAX), thing);
    for note in &notes {
        say(format!("note: {note}"));
    }
    for (file, key, line) in &left_out {
        say(format!("left out: `{key}` in {file}:{line}"));
    }
    if !problems.is_empty() {
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        say(text.join("\n"));
        return Err(UserError::usage(format!("{} in workflow files", number(problems.len(), "problem"))));
    }
    say(format!("{}: no problems", number(workflows, "workflow")));
    Ok(0)
}
