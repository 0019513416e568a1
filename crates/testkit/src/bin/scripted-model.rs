//! A scripted model as a program, for scripts that run real agents: `scripted-model say "All done." sh "make test"`.
//!
//! Each pair of arguments is a turn: `say TEXT`, or `sh COMMAND` as a call of the agent's shell. It prints its address on the first
//! line of standard output and serves until its standard input ends.

use std::{
    env,
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use dacapo_testkit::model_server::{ModelServer, ScriptedTurn, ToolCall};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let turn = |pair: &[String]| match pair {
        [word, text] if word == "say" => Some(ScriptedTurn::say(text)),
        [word, text] if word == "sh" => Some(ScriptedTurn::call(ToolCall::shell(text))),
        _ => None,
    };
    let turns: Option<Vec<ScriptedTurn>> = words.chunks(2).map(turn).collect();
    let Some(turns) = turns.filter(|turns| !turns.is_empty()) else {
        let _ = writeln!(io::stderr(), "usage: scripted-model (say TEXT | sh COMMAND)…");
        return ExitCode::from(2);
    };
    let server = ModelServer::start(turns);
    if writeln!(io::stdout(), "{}", server.url()).is_err() {
        return ExitCode::FAILURE;
    }
    let _ = io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
