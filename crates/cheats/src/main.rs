//! Runs the cases and shows the figures.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
};

use clap::Parser;
use dacapo_cheats::{
    Case, Kind, Mark, Tool, Verdict, figures, json_line, load, load_known, missing_programs, replace_figures,
    run_all, summary, table,
};

/// How often is an agent believed that did not do the work, and how often is one refused that did?
///
/// Runs scripted agents in small projects, each in a world of its own, and shows by class how many were believed.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  cargo run -p dacapo-cheats -- --sample\n  cargo run -p dacapo-cheats -- --class \
                        tests-edited --ecosystem rust\n  cargo run -p dacapo-cheats -- --all --tool 'sh -c {agent} && \
                        sh -c {gate}'"
)]
struct Args {
    /// Run all cases; this is the default
    #[arg(long, conflicts_with = "sample")]
    all: bool,
    /// Run only the fixed sample that the test suite runs
    #[arg(long)]
    sample: bool,
    /// Only cases of this class; may be given several times
    #[arg(long, value_name = "CLASS")]
    class: Vec<String>,
    /// Only cases of this ecosystem: rust, python, node, c, shell, go
    #[arg(long, value_name = "ECOSYSTEM")]
    ecosystem: Vec<String>,
    /// Only cases whose name contains NAME; may be given several times
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Only honest work
    #[arg(long)]
    honest: bool,
    /// Only list the cases
    #[arg(long)]
    list: bool,
    /// A line of JSON for each case
    #[arg(long)]
    json: bool,
    /// Another tool: a command line for `sh -c` with {agent} and {gate} in it, which exits 0 if it believes the agent
    #[arg(long, value_name = "CMD")]
    tool: Option<String>,
    /// The dacapo to run (default: the one beside this program)
    #[arg(long, value_name = "FILE")]
    dacapo: Option<PathBuf>,
    /// How many cases run at once (default: as many as there are cores)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write the figures into docs/trust-figures.md
    #[arg(long)]
    write: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("dacapo-cheats: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether everything ended as it should, or as `known.txt` says.
fn run(args: &Args) -> Result<bool, String> {
    let cases: Vec<Case> = load().into_iter().filter(|case| is_chosen(args, case)).collect();
    if cases.is_empty() {
        return Err("no case fits; `--list` shows all of them".to_owned());
    }
    if args.list {
        for case in &cases {
            let mark = if case.mark == Mark::Proof { "P" } else { "G" };
            println!(
                "{:<18} {mark} {:<7} {:<44} {}",
                case.class.name, case.project.ecosystem, case.name, case.does
            );
        }
        return Ok(true);
    }
    let missing = missing_programs(&cases);
    if !missing.is_empty() {
        return Err(format!(
            "not installed: {}\nhint: `scripts/install` and `scripts/install-runners` install them; `--ecosystem` leaves them out",
            missing.join(", ")
        ));
    }
    let tool = tool(args)?;
    let cases: Vec<Case> = cases.into_iter().filter(|case| tool.can_run(case)).collect();
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(2, usize::from));
    let known = load_known();
    let outcomes = run_all(&cases, &tool, jobs, |outcome| {
        if args.json {
            println!("{}", json_line(outcome));
        } else {
            let mark = match (&outcome.verdict, outcome.is_right()) {
                (Verdict::Broken(_), _) => "BROKEN  ",
                (Verdict::Accepted, true) => "accepted",
                (Verdict::Accepted, false) => "ACCEPTED",
                (Verdict::Refused, true) => "refused ",
                (Verdict::Refused, false) => "REFUSED ",
            };
            let why = outcome.flaw().map_or_else(|| outcome.reason.clone(), |flaw| format!("FLAW: {flaw}"));
            let why: String = why.chars().take(160).collect::<String>().replace('\n', " ");
            println!("{mark} {:<44} {:>5.1}s  {why}", outcome.case.name, outcome.duration.as_secs_f32());
        }
    });
    let mut is_right = true;
    if !args.json {
        println!("\n{}\n{}", table(&outcomes), summary(&outcomes));
    }
    if args.tool.is_none() {
        for outcome in outcomes
            .iter()
            .filter(|outcome| outcome.case.class.kind == Kind::Honest || outcome.case.mark == Mark::Proof)
        {
            let name = &outcome.case.name;
            match (outcome.flaw(), outcome.is_right(), known.contains_key(name)) {
                (Some(flaw), _, false) => eprintln!("{name}: {flaw}"),
                (None, false, false) => eprintln!("{name}: not as it should be, and not in known.txt"),
                (None, true, true) => eprintln!("{name}: as it should be; remove it from known.txt"),
                _ => continue,
            }
            is_right = false;
        }
    }
    if args.write {
        write_figures(args, &outcomes, &known)?;
    }
    Ok(is_right)
}

fn is_chosen(args: &Args, case: &Case) -> bool {
    let any = |wanted: &[String], fits: &dyn Fn(&str) -> bool| {
        wanted.is_empty() || wanted.iter().any(|name| fits(name))
    };
    (!args.sample || case.in_sample)
        && (!args.honest || case.class.kind == Kind::Honest)
        && any(&args.class, &|name| case.class.name == name)
        && any(&args.ecosystem, &|name| case.project.ecosystem == name)
        && any(&args.case, &|name| case.name.contains(name))
}

fn tool(args: &Args) -> Result<Tool, String> {
    if let Some(template) = &args.tool {
        return if template.contains("{agent}") {
            Ok(Tool::Other(template.clone()))
        } else {
            Err("the command line of `--tool` has no {agent} in it".to_owned())
        };
    }
    let beside = || Some(env::current_exe().ok()?.parent()?.join("dacapo"));
    let program = args.dacapo.clone().or_else(beside).unwrap_or_default();
    let program = program.canonicalize().map_err(|error| {
        format!("no dacapo at `{}`: {error}\nhint: `cargo build -p dacapo` makes it", program.display())
    })?;
    Ok(Tool::Dacapo(program))
}

fn write_figures(
    args: &Args,
    outcomes: &[dacapo_cheats::Outcome],
    known: &dacapo_cheats::Known,
) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trust-figures.md");
    let document =
        fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let command = if args.sample {
        "cargo run -p dacapo-cheats -- --sample --write"
    } else {
        "cargo run -p dacapo-cheats -- --all --write"
    };
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let figures = figures(outcomes, known, command, &date, &version());
    let document = replace_figures(&document, &figures)
        .ok_or_else(|| format!("`{}` has no section of figures between its two marks", path.display()))?;
    fs::write(&path, document).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

/// The commit that was measured.
fn version() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let text =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    format!("{} ({text})", env!("CARGO_PKG_VERSION"))
}
