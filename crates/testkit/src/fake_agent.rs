//! Finds the agents' binaries, and builds them where cargo did not.
//!
//! Cargo builds the binaries of the package under test only, so a test of another package may find none, or one that
//! is older than its source.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

/// The fake agent of the build this test belongs to.
pub fn fake_agent() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| find("fake-agent").expect("the fake agent can be found or built")).clone()
}

/// The agent that does no work, for measurements of everything else.
pub fn zero_agent() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| find("zero-agent").expect("the zero-work agent can be found or built")).clone()
}

/// The `dacapo` that a bench measures: the one that `DACAPO_BIN` names, or `built`, which cargo built for the bench.
///
/// What cargo builds for a bench unwinds on panic and starts more slowly than what people install.
pub fn measured_dacapo(built: &str) -> PathBuf {
    let Some(named) = env::var_os("DACAPO_BIN") else { return built.into() };
    fs::canonicalize(&named).unwrap_or_else(|error| panic!("DACAPO_BIN names {}: {error}", named.display()))
}

/// The agent that does what task files tell it to.
pub fn unit_agent() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| find("unit-agent").expect("the agent for units can be found or built")).clone()
}

/// The agent that speaks the Agent Client Protocol.
pub fn acp_agent() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| find("acp-agent").expect("the agent that speaks ACP can be found or built")).clone()
}

fn find(name: &str) -> io::Result<PathBuf> {
    let test = env::current_exe()?;
    let beside = test.parent().ok_or_else(|| io::Error::other("the test has no folder"))?;
    let dir = match beside.file_name().and_then(|name| name.to_str()) {
        Some("deps" | "examples") => beside.parent().unwrap_or(beside),
        _ => beside,
    };
    let program = dir.join(format!("{name}{}", env::consts::EXE_SUFFIX));
    if is_current(&program) {
        return Ok(program);
    }
    let lock = File::create(dir.join(format!(".{name}.lock")))?;
    lock.lock()?;
    // The process that held the lock before has most likely built it.
    if !is_current(&program) {
        build(dir, name)?;
    }
    Ok(program)
}

/// Whether it exists and is no older than what it is made from.
fn is_current(program: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified());
    let Ok(built) = modified(program) else { return false };
    // Without its source, a binary counts as current.
    newest(&Path::new(PACKAGE).join("src")).is_none_or(|source| source <= built)
}

fn newest(dir: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(dir).ok()?.flatten();
    let times = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        if metadata.is_dir() { newest(&entry.path()) } else { metadata.modified().ok() }
    });
    times.max()
}

/// Builds into the folder the test came from: `TARGET/PROFILE` or `TARGET/TRIPLE/PROFILE`.
fn build(dir: &Path, agent: &str) -> io::Result<()> {
    let above = |dir: &Path| dir.parent().map(Path::to_path_buf).unwrap_or_default();
    let name = |dir: &Path| dir.file_name().map(OsString::from).unwrap_or_default();
    let profile = match name(dir) {
        name if name == "debug" => "dev".into(),
        name => name,
    };
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "dacapo-testkit", "--bin", agent, "--manifest-path"]);
    cargo.arg(Path::new(PACKAGE).join("Cargo.toml")).arg("--profile").arg(profile);
    let parent = above(dir);
    // Both stand in TARGET alone; the tag is missing where cargo did not make the folder.
    if ["CACHEDIR.TAG", ".rustc_info.json"].iter().any(|mark| parent.join(mark).exists()) {
        cargo.arg("--target-dir").arg(&parent);
    } else {
        cargo.arg("--target-dir").arg(above(&parent)).arg("--target").arg(name(&parent));
    }
    match cargo.status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("{cargo:?} ended with {status}"))),
    }
}
