//! `dacapo import`.

use std::path::PathBuf;

use clap::Args;
use dacapo_core::{
    config::Typed,
    import::{Imported, Product, SourceKind, UnitSettings},
    text::{count, shell::word},
};
use dacapo_engine::{
    config_files::ConfigFiles,
    import::{self, FileState, ImportError},
    units,
};
use serde_json::json;

use super::{say, say_json, say_whole, value, warn};
use crate::{
    context::Context,
    error::{USAGE, UserError},
};

/// Take over the files of other tools: prd.json, checklists, plans, Archon's workflows, a ralph loop
///
/// User stories (prd.json), the open items of a Markdown checklist and the tasks of an IMPLEMENTATION_PLAN.md become a unit: a
/// task file for each, in their order, with its acceptance criteria. Workflows of Archon's become workflows of dacapo's, with
/// their command files; keys that dacapo has nothing for are left out and listed. The state of a ralph loop in a session of
/// Claude's (.claude/ralph-loop.local.md) becomes a workflow with its prompt, limit and promise.
///
/// The source is never changed. Importing again changes nothing; a file that was changed since is only overwritten with
/// `--force`. Without a path, the repository is searched for what usually lies there.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dacapo import prd.json --check \"npm test\"\n  dacapo import TODO.md --dry-run\n  dacapo import .archon/workflows"
)]
pub(super) struct ImportArgs {
    /// The file or folder to import
    path: Option<PathBuf>,
    /// What it is, where its name and content do not tell
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Option<KindFlag>,
    /// What the unit, or the workflow of a ralph loop, is called
    #[arg(long, value_name = "NAME", value_parser = value::one_line)]
    name: Option<String>,
    /// The command that proves each task (default: the first gate of the configuration, else the tests as guessed)
    #[arg(long, value_name = "CMD", value_parser = value::one_line)]
    check: Option<String>,
    /// Overwrite files that are there and were changed
    #[arg(long)]
    force: bool,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// The repository to write to (default: the one that this folder lies in)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum KindFlag {
    Prd,
    Checklist,
    Plan,
    Archon,
    RalphLoop,
}

impl From<KindFlag> for SourceKind {
    fn from(flag: KindFlag) -> Self {
        match flag {
            KindFlag::Prd => Self::Prd,
            KindFlag::Checklist => Self::Checklist,
            KindFlag::Plan => Self::Plan,
            KindFlag::Archon => Self::Archon,
            KindFlag::RalphLoop => Self::RalphLoop,
        }
    }
}

/// The command that proves tasks, and who says so.
struct Check {
    run: String,
    from: String,
}

pub(super) fn import(args: &ImportArgs) -> Result<u8, UserError> {
    let folder = Context::folder(args.dir.as_ref())?;
    let top = units::top(&folder);
    let effective = ConfigFiles::load(&top)?.effective(&Typed::default());
    let path = args.path.clone().unwrap_or_else(|| top.clone());
    let source = import::look(&top, &path, args.kind.map(Into::into))?;
    let check = match (&args.check, effective.gates.first()) {
        (Some(run), _) => Some(Check { run: run.clone(), from: "--check".to_owned() }),
        (None, Some(gate)) => {
            Some(Check { run: gate.spec.run.clone(), from: "the configured gate".to_owned() })
        }
        (None, None) => import::guessed_check(&top)
            .map(|test| Check { run: test.run.to_owned(), from: format!("guessed from {}", test.from) }),
    };
    let settings = UnitSettings {
        dir: &effective.units.dir.value,
        name: args.name.as_deref(),
        check: check.as_ref().map(|check| check.run.as_str()),
    };
    let imported = import::convert(&top, &source, &settings)?;
    let states = import::compare(&top, &imported, args.force)?;
    if !args.dry_run {
        import::write(&top, &imported.files, &states)?;
    }
    let next = next(&imported, &top, &folder, &source.shown);
    let check = check.filter(|_| matches!(imported.product, Product::Unit { .. }));
    let result = ImportOutcome {
        args,
        source: &source.shown,
        kind: source.kind,
        imported: &imported,
        states: &states,
        check,
        next,
    };
    if args.json {
        result.as_json()?;
    } else {
        result.tell();
    }
    if imported.problems.is_empty() {
        return Ok(0);
    }
    if args.json {
        return Ok(USAGE);
    }
    let details: Vec<String> = imported.problems.iter().map(ToString::to_string).collect();
    let number = count(u32::try_from(imported.problems.len()).unwrap_or(u32::MAX), "problem");
    let message = format!("{number} in `{}`; the files that have one were not imported", source.shown);
    Err(UserError { details: Some(details.join("\n")), ..UserError::usage(message) })
}

/// The commands that put what was imported to work.
fn next(imported: &Imported, top: &std::path::Path, folder: &std::path::Path, source: &str) -> Vec<String> {
    match &imported.product {
        Product::Nothing { .. } => Vec::new(),
        Product::Workflows { names } => {
            names.iter().map(|name| format!("dacapo workflow run {}", word(name))).collect()
        }
        Product::Unit { name, folder: unit, .. } => {
            let mut next = Vec::new();
            if std::fs::symlink_metadata(top.join(".git")).is_err() {
                next.push("git init".to_owned());
            }
            // Worktrees begin at a commit. From a folder further down, the paths begin at the top.
            let from = if folder == top { "" } else { ":/" };
            let file = source.rsplit('/').next().unwrap_or(source);
            let paths = word(&format!("{from}{unit}"));
            next.push(format!("git add {paths} && git commit -m {}", word(&format!("Import {file}"))));
            next.push(format!("dacapo unit run --unit {name}"));
            next
        }
    }
}

/// What an import came to.
struct ImportOutcome<'a> {
    args: &'a ImportArgs,
    source: &'a str,
    kind: SourceKind,
    imported: &'a Imported,
    states: &'a [FileState],
    check: Option<Check>,
    next: Vec<String>,
}

impl ImportOutcome<'_> {
    fn as_json(&self) -> Result<u8, UserError> {
        let files: Vec<_> = self
            .imported
            .files
            .iter()
            .zip(self.states)
            .map(|(file, state)| match self.args.dry_run {
                true => json!({ "path": file.path, "state": state, "text": file.text }),
                false => json!({ "path": file.path, "state": state }),
            })
            .collect();
        say_json(&json!({
            "source": self.source,
            "kind": self.kind,
            "result": self.imported.product,
            "dry_run": self.args.dry_run,
            "files": files,
            "check": self.check.as_ref().map(|check| json!({ "run": check.run, "from": check.from })),
            "left_out": self.imported.left_out,
            "notes": self.imported.notes,
            "problems": self.imported.problems,
            "next": self.next,
        }))
    }

    fn tell(&self) {
        let number = |n: usize, thing: &str| count(u32::try_from(n).unwrap_or(u32::MAX), thing);
        for (file, state) in self.imported.files.iter().zip(self.states) {
            match (self.args.dry_run, state) {
                (_, FileState::Same) => say(format!("kept     {}: it says the same already", file.path)),
                (true, FileState::New) => say_whole(format!("--- {} (new)\n{}", file.path, file.text)),
                (true, FileState::Changed) => {
                    say_whole(format!("--- {} (overwritten)\n{}", file.path, file.text))
                }
                (false, FileState::New) => say(format!("wrote    {}", file.path)),
                (false, FileState::Changed) => say(format!("overwrote {}", file.path)),
            }
        }
        match &self.imported.product {
            Product::Nothing { done } => {
                say(format!("nothing to import: all {} in {} are done", number(*done, "task"), self.source));
            }
            Product::Unit { name, tasks, done, .. } => {
                say(format!("unit     {name}: {} from {}", number(*tasks, "task"), self.source));
                if *done > 0 {
                    say(format!(
                        "done     {} by the word of the source, not imported",
                        number(*done, "task")
                    ));
                }
            }
            Product::Workflows { names } => {
                for name in names {
                    say(format!("workflow {name}"));
                }
            }
        }
        if let Some(Check { run, from }) = &self.check {
            say(format!("check    {} ({from})", run.trim_end().replace('\n', "\\n")));
        }
        for left in &self.imported.left_out {
            say(format!("left out `{}` in {}:{}", left.key, left.file, left.line));
        }
        warn(&self.imported.notes);
        if !self.next.is_empty() && !self.args.dry_run {
            let next: Vec<String> = self.next.iter().map(|command| format!("`{command}`")).collect();
            say(format!("next     {}", next.join(", then ")));
        }
    }
}

impl From<ImportError> for UserError {
    fn from(error: ImportError) -> Self {
        let known = "dacapo imports prd.json, TODO.md and other Markdown checklists, IMPLEMENTATION_PLAN.md, .archon/workflows and \
                     .claude/ralph-loop.local.md; name the file if it lies elsewhere";
        match error {
            ImportError::Read { .. } => {
                UserError::usage(error).hint("name a file or folder that can be read")
            }
            ImportError::Write { .. } => UserError::environment(error),
            ImportError::NothingThere { .. } => UserError::usage(error).hint(known),
            ImportError::Several { ref found, .. } => {
                let commands: Vec<String> =
                    found.iter().map(|file| format!("`dacapo import {}`", word(file))).collect();
                let hint = format!("name one of them: {}", commands.join(", "));
                UserError::usage(error).hint(hint)
            }
            ImportError::IsUnit { .. } => {
                UserError::usage(error).hint("`dacapo unit list` shows it, `dacapo unit run` works it off")
            }
            ImportError::Problems { ref problems } => {
                let details: Vec<String> = problems.iter().map(ToString::to_string).collect();
                UserError { details: Some(details.join("\n")), ..UserError::usage(error) }
            }
            ImportError::Changed { .. } => UserError::usage(error)
                .hint("`--force` overwrites them, `--name NAME` imports beside them; nothing was written"),
            ImportError::OtherTasks { .. } => {
                UserError::usage(error).hint("`--name NAME` makes another unit; nothing was written")
            }
        }
    }
}
