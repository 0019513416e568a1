//! An agent that does what a script says; the language is described in `dacapo_testkit::script`.
//!
//! The script comes from `--script FILE`, from `--do TEXT`, from `--turns DIR` or from the file `FAKE_AGENT_SCRIPT`
//! names; all other arguments are ignored, so that it can stand in for any agent. Of the files in DIR each run takes the
//! first, by name, that no other has taken; the last one is for all that follow. A script it cannot read ends it with 99, a command
//! it cannot perform with 98. If `FAKE_AGENT_LEDGER` names a file, each run adds `start LOOP ITERATION PID` to it and,
//! unless it was killed, `end LOOP ITERATION PID`.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, Read as _, Write},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{self, Child, Stdio},
    sync::{Arc, OnceLock, atomic::AtomicBool},
    thread,
    time::{Duration, Instant},
};

use dacapo_testkit::{
    noise,
    script::{Command, Fact, Script, Stream, Text},
};
use rustix::process::{Signal, getpid, kill_process, setsid};

const BROKEN_SCRIPT: i32 = 99;
const FAILED_COMMAND: i32 = 98;
const CHUNK: usize = 1 << 16;

fn main() {
    // The question whether an agent is signed in is no work: nothing is known, and no turn of the script is used.
    let args: Vec<String> = env::args().skip(1).collect();
    if matches!(&args[..], [first, second] if second == "status" && (first == "auth" || first == "login")) {
        process::exit(0);
    }
    let invocation = Invocation::read();
    let script = match invocation.script() {
        Ok(script) => script,
        Err(message) => complain(&message, BROKEN_SCRIPT),
    };
    if let Some(count) = invocation.daemons {
        match start_daemons(count, &script) {
            Ok(()) => process::exit(0),
            Err(error) => complain(&format!("cannot start {count} daemons: {error}"), FAILED_COMMAND),
        }
    }
    let iteration = env::var("DACAPO_ITERATION").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let parsed = match Script::parse(&script) {
        Ok(parsed) => parsed,
        Err(error) => complain(&error.to_string(), BROKEN_SCRIPT),
    };
    let mut agent = Agent::start(iteration, !invocation.descendant);
    let commands: Vec<_> = parsed.commands(iteration).collect();
    if commands.first() != Some(&&Command::NoStdin) {
        agent.prompt();
    }
    for command in commands {
        agent.perform_or_fail(command);
    }
    agent.finish(0)
}

/// What the arguments ask for.
#[derive(Default)]
struct Invocation {
    file: Option<PathBuf>,
    inline: Option<String>,
    turns: Option<PathBuf>,
    /// Started by another fake agent: not an agent of its own in the ledger.
    descendant: bool,
    /// Start that many daemons with the script instead of performing it.
    daemons: Option<u32>,
}

impl Invocation {
    fn read() -> Self {
        let mut invocation = Self::default();
        let mut args = env::args_os().skip(1);
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--script") => invocation.file = args.next().map(PathBuf::from),
                Some("--turns") => invocation.turns = args.next().map(PathBuf::from),
                Some("--do") => invocation.inline = args.next().map(|s| s.to_string_lossy().into_owned()),
                Some("--descendant") => invocation.descendant = true,
                Some("--daemons") => {
                    invocation.daemons = args.next().and_then(|n| n.to_str()?.parse().ok());
                }
                _ => {}
            }
        }
        invocation
    }

    fn script(&self) -> Result<String, String> {
        if let Some(inline) = &self.inline {
            return Ok(inline.clone());
        }
        if let Some(turns) = &self.turns {
            return next_turn(turns).map_err(|e| format!("no turn in `{}`: {e}", turns.display()));
        }
        let file = self.file.clone().or_else(|| env::var_os("FAKE_AGENT_SCRIPT").map(PathBuf::from));
        let file = file.ok_or("no script: give --script FILE, --do TEXT or FAKE_AGENT_SCRIPT")?;
        fs::read_to_string(&file).map_err(|e| format!("cannot read the script `{}`: {e}", file.display()))
    }
}

/// The first script of `dir` that no agent has taken; all but the last are taken by giving them another name.
fn next_turn(dir: &Path) -> io::Result<String> {
    loop {
        let files: io::Result<Vec<_>> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect();
        let mut files: Vec<_> = files?.into_iter().filter(|file| file.extension().is_none()).collect();
        files.sort();
        match &files[..] {
            [] => return Err(io::Error::other("it is empty")),
            [last] => return fs::read_to_string(last),
            [first, ..] => {
                let taken = first.with_extension("taken");
                // Another run may have been faster.
                if fs::rename(first, &taken).is_ok() {
                    return fs::read_to_string(taken);
                }
            }
        }
    }
}

/// Ends the process with a message.
fn complain(message: &str, code: i32) -> ! {
    // stderr may be closed, which must not change the exit code.
    let _ = writeln!(io::stderr(), "fake-agent: {message}");
    process::exit(code)
}

/// The middle of a double fork: leaves the agent's session, starts the daemons and ends, which orphans them.
fn start_daemons(count: u32, script: &str) -> io::Result<()> {
    setsid()?;
    let daemons: io::Result<Vec<_>> = (0..count).map(|_| descendant(script)?.spawn()).collect();
    daemons.map(drop)
}

/// A process of this program that inherits the output.
fn descendant(script: &str) -> io::Result<process::Command> {
    let mut command = process::Command::new(env::current_exe()?);
    command.args(["--descendant", "--do", script]).stdin(Stdio::null());
    Ok(command)
}

/// What an agent knows while it performs its script; threads that wait for signals hold a copy.
struct Agent {
    iteration: u32,
    ledger: Option<PathBuf>,
    prompt: Arc<OnceLock<Vec<u8>>>,
    children: Vec<Child>,
}

impl Agent {
    fn start(iteration: u32, listed: bool) -> Self {
        let ledger = env::var_os("FAKE_AGENT_LEDGER").filter(|_| listed).map(PathBuf::from);
        let agent = Self { iteration, ledger, prompt: Arc::default(), children: Vec::new() };
        agent.record("start");
        agent
    }

    fn finish(&self, code: u8) -> ! {
        self.record("end");
        process::exit(code.into())
    }

    /// One write to a file opened for appending, so that lines of concurrent agents do not mix.
    fn record(&self, what: &str) {
        let Some(ledger) = &self.ledger else { return };
        let id = env::var("DACAPO_LOOP").ok().filter(|id| !id.is_empty()).unwrap_or_else(|| "-".to_owned());
        let line = format!("{what} {id} {} {}\n", self.iteration, process::id());
        let written = OpenOptions::new().create(true).append(true).open(ledger);
        if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
            complain(&format!("cannot write the ledger `{}`: {error}", ledger.display()), FAILED_COMMAND);
        }
    }

    /// Standard input, read to its end the first time.
    fn prompt(&self) -> &[u8] {
        self.prompt.get_or_init(|| {
            let mut prompt = Vec::new();
            // A closed standard input is an empty prompt.
            let _ = io::stdin().lock().read_to_end(&mut prompt);
            prompt
        })
    }

    fn perform_or_fail(&mut self, command: &Command) {
        if let Err(error) = self.perform(command) {
            complain(&format!("{command:?}: {error}"), FAILED_COMMAND);
        }
    }

    fn perform(&mut self, command: &Command) -> io::Result<()> {
        match command {
            Command::Say(stream, text) => put(*stream, &line(text))?,
            Command::Print(text) => put(Stream::Out, &expand(text))?,
            Command::Promise(text) => {
                let promise = match text {
                    Some(text) => expand(text),
                    None => env::var_os("DACAPO_PROMISE").unwrap_or_else(|| "DONE".into()).into_vec(),
                };
                put(Stream::Out, &[b"<promise>", promise.as_slice(), b"</promise>\n"].concat())?;
            }
            Command::EchoPrompt => put(Stream::Out, self.prompt())?,
            Command::ReadPrompt => drop(self.prompt()),
            Command::NoStdin => {}
            Command::Tell(fact, file) => publish(&path(file), &self.look_up(*fact)?)?,
            Command::Write(file, text) => {
                fs::write(with_parents(path(file))?, text.as_ref().map(line).unwrap_or_default())?;
            }
            Command::Append(file, text) => {
                let mut file =
                    OpenOptions::new().create(true).append(true).open(with_parents(path(file))?)?;
                file.write_all(&text.as_ref().map(line).unwrap_or_default())?;
            }
            Command::Touch(file) => {
                OpenOptions::new().create(true).append(true).open(with_parents(path(file))?)?;
            }
            Command::Remove(file) => remove(&path(file))?,
            Command::MakeDir(dir) => fs::create_dir_all(path(dir))?,
            Command::Done(text) => mark("DONE", text.as_ref())?,
            Command::WaitMarker(text) => mark("WAIT_WITHOUT_RESTART", text.as_ref())?,
            Command::Sleep(ms) => thread::sleep(Duration::from_millis(*ms)),
            Command::Hang => hang(),
            Command::Spin(ms) => spin(Duration::from_millis(*ms)),
            Command::Exit(code) => self.finish(*code),
            Command::Kill(signal) => kill_self(*signal)?,
            Command::Ignore(signal) => {
                signal_hook::flag::register(signal.as_raw(), Arc::new(AtomicBool::new(false)))?;
            }
            Command::On(signal, script) => self.on_signal(*signal, &utf8(script))?,
            Command::Spawn(script) => self.children.push(descendant(&utf8(script))?.spawn()?),
            Command::Daemonize { hold, script } => daemonize(1, *hold, &utf8(script))?,
            Command::Storm(count) => daemonize(*count, false, "no-stdin; hang")?,
            Command::ForkChain(0) => hang(),
            Command::ForkChain(generations) => {
                let next = format!("no-stdin; forkchain {}", generations - 1);
                self.children.push(descendant(&next)?.spawn()?);
            }
            Command::Flood(stream, bytes) => flood(*stream, *bytes)?,
            Command::Line(bytes) => {
                repeat(Stream::Out, &[b'x'; CHUNK], *bytes)?;
                put(Stream::Out, b"\n")?;
            }
            Command::Random { bytes, seed } => random(*bytes, *seed)?,
            Command::Lines(count) => lines(*count)?,
            Command::Utf8Split => {
                for byte in "grün — 完了 — 🎉\n".as_bytes() {
                    put(Stream::Out, &[*byte])?;
                }
            }
            Command::Ansi => put(Stream::Out, ANSI.as_bytes())?,
            Command::Close(stream) => close(*stream)?,
            Command::Run(words) => {
                let words: Vec<_> = words.iter().map(|word| OsString::from_vec(expand(word))).collect();
                process::Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).status()?;
            }
            Command::Shell(text) => {
                let text = OsString::from_vec(expand(text));
                process::Command::new("sh").arg("-c").arg(text).stdin(Stdio::null()).status()?;
            }
            Command::WaitFile(file) => {
                let file = path(file);
                while !file.try_exists()? {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            Command::Ask(file, text) => {
                let mut stream = socket()?;
                stream.write_all(&line(text))?;
                let mut answer = String::new();
                io::BufReader::new(stream).read_line(&mut answer)?;
                fs::write(with_parents(path(file))?, answer)?;
            }
            Command::Crowd(count) => {
                for number in 0..*count {
                    let mut stream = socket()?;
                    let said: &[u8] = match number % 3 {
                        0 => b"",
                        1 => b"{\"v\":1,\"ask\":",
                        _ => b"nonsense\n",
                    };
                    stream.write_all(said)?;
                    std::mem::forget(stream);
                }
            }
        }
        Ok(())
    }

    fn look_up(&self, fact: Fact) -> io::Result<Vec<u8>> {
        Ok(match fact {
            Fact::Prompt => self.prompt().to_vec(),
            Fact::Environment => {
                let mut lines: Vec<_> = env::vars_os()
                    .map(|(name, value)| one_line(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
                    .collect();
                lines.sort();
                lines.concat()
            }
            Fact::Directory => one_line(env::current_dir()?.as_os_str().as_bytes()),
            Fact::Descriptors => descriptors()?,
            Fact::Pid => one_line(process::id().to_string().as_bytes()),
            Fact::Arguments => env::args_os().skip(1).flat_map(|arg| one_line(arg.as_bytes())).collect(),
        })
    }

    fn on_signal(&self, signal: Signal, script: &str) -> io::Result<()> {
        let script = Script::parse(script).map_err(|e| io::Error::other(e.to_string()))?;
        let (mut receiver, sender) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal.as_raw(), sender)?;
        let mut agent = Self {
            iteration: self.iteration,
            ledger: self.ledger.clone(),
            prompt: Arc::clone(&self.prompt),
            children: Vec::new(),
        };
        thread::spawn(move || {
            while receiver.read_exact(&mut [0]).is_ok() {
                for command in script.commands(agent.iteration) {
                    agent.perform_or_fail(command);
                }
            }
        });
        Ok(())
    }
}

/// Looks like promises under colours; none is one: wrong words, the tag inside a title, a tag that never closes.
const ANSI: &str = "\x1b[33m<promise>\x1b[1mNOT DONE\x1b[0m\x1b[33m</promise>\x1b[0m\n\
    \x1b]0;<promise>DONE</promise>\x07building\n\
    \x1b[2K\x1b[1G\x1b[32mpromise\x1b[0m: \x1b[1mDONE\x1b[0m soon\n\
    \x1b[38;5;208m<promise>DONE\x1b[0m\n\
    \x1b[7m\"<promise>DONE</promise>\"\x1b[27m is what I will print\x1b[0m\n";

/// A connection to the supervisor.
fn socket() -> io::Result<UnixStream> {
    UnixStream::connect(env::var_os("DACAPO_SOCKET").unwrap_or_default())
}

fn expand(text: &Text) -> Vec<u8> {
    text.expand(|name| env::var_os(name))
}

fn line(text: &Text) -> Vec<u8> {
    let mut line = expand(text);
    line.push(b'\n');
    line
}

fn path(text: &Text) -> PathBuf {
    OsString::from_vec(expand(text)).into()
}

fn utf8(text: &Text) -> String {
    String::from_utf8_lossy(&expand(text)).into_owned()
}

/// `value` as one line: line breaks in it become `\n`.
fn one_line(value: &[u8]) -> Vec<u8> {
    let mut line = value.split(|b| *b == b'\n').collect::<Vec<_>>().join(b"\\n".as_slice());
    line.push(b'\n');
    line
}

fn put(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Out => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
        Stream::Err => io::stderr().write_all(bytes),
    }
}

/// Writes `total` bytes of `pattern` over and over.
fn repeat(stream: Stream, pattern: &[u8], total: u64) -> io::Result<()> {
    let mut left = total;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(pattern.len());
        put(stream, &pattern[..length])?;
        left -= length as u64;
    }
    Ok(())
}

fn flood(stream: Stream, bytes: u64) -> io::Result<()> {
    let mut line = [b'.'; 80];
    line[79] = b'\n';
    repeat(stream, &line.repeat(CHUNK / line.len()), bytes)
}

fn random(bytes: u64, seed: u64) -> io::Result<()> {
    let mut state = seed;
    let mut left = bytes;
    let mut buffer = vec![0; CHUNK];
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK);
        noise::fill(&mut buffer[..length], &mut state);
        put(Stream::Out, &buffer[..length])?;
        left -= length as u64;
    }
    Ok(())
}

fn lines(count: u64) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(CHUNK);
    for number in 1..=count {
        writeln!(buffer, "{number}")?;
        if buffer.len() > CHUNK - 32 {
            put(Stream::Out, &buffer)?;
            buffer.clear();
        }
    }
    put(Stream::Out, &buffer)
}

/// Writes a file so that a test that waits for it finds it complete.
fn publish(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}", process::id()));
    let draft = with_parents(PathBuf::from(name))?;
    fs::write(&draft, bytes)?;
    fs::rename(&draft, file)
}

fn with_parents(file: PathBuf) -> io::Result<PathBuf> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(file)
}

fn remove(file: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(file) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(file),
        Ok(_) => fs::remove_file(file),
        Err(error) => Err(error),
    };
    removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// Writes a file into the task's folder.
fn mark(name: &str, text: Option<&Text>) -> io::Result<()> {
    let folder = env::var_os("TASK_FOLDER").ok_or_else(|| io::Error::other("TASK_FOLDER is not set"))?;
    fs::write(Path::new(&folder).join(name), text.map(line).unwrap_or_default())
}

fn descriptors() -> io::Result<Vec<u8>> {
    let names: io::Result<Vec<OsString>> =
        fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name())).collect();
    let mut numbers: Vec<u32> = names?.iter().filter_map(|name| OsStr::to_str(name)?.parse().ok()).collect();
    numbers.sort_unstable();
    // The one the folder was read through is closed by now and has no target.
    let lines = numbers.into_iter().filter_map(|number| {
        let target = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        Some(one_line(&[format!("{number} -> ").as_bytes(), target.as_os_str().as_bytes()].concat()))
    });
    Ok(lines.flatten().collect())
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::MAX);
    }
}

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn kill_self(signal: Signal) -> io::Result<()> {
    kill_process(getpid(), signal)?;
    if signal == Signal::SEGV {
        // The runtime's handler takes the first one for a stack overflow and only steps aside.
        kill_process(getpid(), signal)?;
    }
    Ok(())
}

/// Starts daemons and returns once they exist and are no longer children of the agent.
fn daemonize(count: u32, hold: bool, script: &str) -> io::Result<()> {
    let mut middle = descendant(script)?;
    middle.arg("--daemons").arg(count.to_string());
    if !hold {
        middle.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let status = middle.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the middle process: {status}"))) }
}

fn close(stream: Stream) -> io::Result<()> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    match stream {
        Stream::Out => rustix::stdio::dup2_stdout(nowhere)?,
        Stream::Err => rustix::stdio::dup2_stderr(nowhere)?,
    }
    Ok(())
}
