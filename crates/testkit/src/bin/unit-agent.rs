//! An agent for units: it does what a task file tells it to, and believes itself.
//!
//! It chooses the first task of its prompt, runs each line of the file's body that begins with `do: ` in a shell, and
//! sets the status to `complete`, unless a line says `claim: no`. With the argument `all` it does so for every ready task,
//! with `least` it also does the least that is work, by itself, and promises to be done as the agent of a single loop does.
//! Asked to resolve a conflict it keeps both sides; asked to fix a check it runs `fix.sh` if there is one.

use std::{
    env, fs, io,
    io::{Read as _, Write as _},
    path::Path,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let mut prompt = String::new();
    let answer = io::stdin().lock().read_to_string(&mut prompt).and_then(|_| answer(&prompt));
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "unit-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(prompt: &str) -> io::Result<()> {
    if prompt.contains("Conflict markers") {
        let listed = prompt.lines().filter_map(|line| line.strip_prefix("- "));
        return listed.map(Path::new).filter(|path| path.is_file()).try_for_each(keep_both_sides);
    }
    let files: Vec<&str> = prompt.lines().filter_map(|line| line.strip_prefix("  file: ")).collect();
    if files.is_empty() {
        return if Path::new("fix.sh").exists() { shell("sh fix.sh") } else { Ok(()) };
    }
    let words: Vec<String> = env::args().skip(1).collect();
    let all = words.iter().any(|word| word == "all");
    files.iter().take(if all { files.len() } else { 1 }).try_for_each(|file| complete(file))?;
    if words.iter().any(|word| word == "least") {
        fs::write(files[0].replace('/', "-"), "done\n")?;
        writeln!(io::stdout(), "<promise>DONE</promise>")?;
    }
    Ok(())
}

fn complete(file: &str) -> io::Result<()> {
    let text = fs::read_to_string(file)?;
    for command in text.lines().filter_map(|line| line.strip_prefix("do: ")) {
        shell(command)?;
    }
    if text.lines().any(|line| line == "claim: no") {
        return Ok(());
    }
    // Read again: a command may have changed the very file.
    let text = fs::read_to_string(file)?;
    // A line of the first block; the body may hold another that looks like it.
    let mut is_done = false;
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            if line.starts_with("status:") && !is_done {
                is_done = true;
                return "status: complete".to_owned();
            }
            line.to_owned()
        })
        .collect();
    fs::write(file, lines.join("\n") + "\n")
}

fn shell(command: &str) -> io::Result<()> {
    let status = Command::new("sh").args(["-c", command]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("`{command}`: {status}"))) }
}

/// Drops the marks and keeps what stands between them, in order, each line once.
fn keep_both_sides(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let is_mark = |line: &&str| ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|mark| line.starts_with(mark));
    let mut lines: Vec<&str> = text.lines().filter(|line| !is_mark(line)).collect();
    lines.sort_unstable();
    lines.dedup();
    fs::write(path, lines.join("\n") + "\n")
}
