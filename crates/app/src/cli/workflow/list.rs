//! `dacapo workflow list`.

use clap::Args;
use dacapo_core::workflow::{ParseSettings, catalogue::FrozenWorkflow};
use serde::Serialize;

use super::{
    super::{say, say_json, warn},
    DirFlag,
};
use crate::error::UserError;

/// Show the workflows that can be run, and where they come from
///
/// A file with a mistake is left out with a warning; `dacapo workflow check` says what is wrong. A file of the repository
/// takes the place of a built-in workflow of the same name.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo workflow list\n  dacapo workflow list --json")]
pub(super) struct ListArgs {
    #[command(flatten)]
    place: DirFlag,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A workflow as scripts see it.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    description: &'a str,
    /// From the top of the repository; none if it is built in.
    file: Option<&'a str>,
    built_in: bool,
    replaces_built_in: bool,
    /// The file of the repository that it stands in place of.
    replaces: Option<&'a str>,
    steps: usize,
    tags: &'a [String],
    digest: &'a str,
}

impl<'a> Line<'a> {
    fn of(found: &'a FrozenWorkflow) -> Self {
        let workflow = &found.workflow;
        Self {
            name: &workflow.name,
            description: &workflow.description,
            file: (!found.is_builtin).then_some(workflow.file.as_str()),
            built_in: found.is_builtin,
            replaces_built_in: found.replaces_builtin,
            replaces: found.replaces_file.as_deref(),
            steps: workflow.steps.len(),
            tags: &workflow.tags,
            digest: &found.digest,
        }
    }

    fn source(&self) -> String {
        match self.file {
            None => "built in".to_owned(),
            Some(file) if self.replaces_built_in => format!("{file} (replaces the built-in one)"),
            Some(file) if let Some(other) = self.replaces => format!("{file} (replaces {other})"),
            Some(file) => file.to_owned(),
        }
    }
}

pub(super) fn list(args: &ListArgs) -> Result<u8, UserError> {
    let catalogue = args.place.catalogue(ParseSettings::default())?;
    if !catalogue.problems.is_empty() {
        let number = catalogue.problems.len();
        warn(&[format!("problems in workflow files: {number}; `dacapo workflow check` shows them")]);
    }
    let lines: Vec<Line<'_>> = catalogue.workflows.iter().map(Line::of).collect();
    if args.json {
        return say_json(&lines);
    }
    let rows: Vec<[String; 3]> = lines
        .iter()
        .map(|line| {
            let first = line.description.lines().next().unwrap_or_default();
            [line.name.to_owned(), line.source(), first.to_owned()]
        })
        .collect();
    let heads = ["WORKFLOW", "FROM"];
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(heads[column].len())
    };
    let (name, from) = (width(0), width(1));
    let mut text = format!("{:name$}  {:from$}  DESCRIPTION\n", heads[0], heads[1]);
    for [a, b, c] in &rows {
        text.push_str(format!("{a:name$}  {b:from$}  {c}").trim_end());
        text.push('\n');
    }
    say(text.trim_end());
    Ok(0)
}
