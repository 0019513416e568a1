//! How often is an agent believed that did not do the work, and how often is one refused that did?
//!
//! A case is data: a small project with a bug, the gate that a user would type, and a script that plays the agent. The
//! script cheats or works honestly and then says that it is done. The loop is started through the command line with
//! its default settings, and what it decided is read from its exit code and its journal. After that the harness looks
//! by itself whether the work was done, so that a case which is not what it says is found out.
//!
//! The projects are in `projects/`, the cases in `cases/`, in the format of `blocks.rs`.

mod blocks;
mod case;
mod project;
mod report;
mod run;

pub use crate::{
    case::{CLASSES, Case, Class, Kind, Known, Mark, load, load_known},
    project::Project,
    report::{figures, json_line, replace_figures, summary, table},
    run::{Outcome, Tool, Verdict, missing_programs, run_all, run_case},
};
