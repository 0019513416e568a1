//! An agent that does no work, so that what is measured is everything around it.
//!
//! Without arguments it reads its prompt and prints one line. Otherwise, in this order: `stamp FILE` writes the
//! monotonic clock to FILE as its first act, `flood BYTES` prints that much in lines of 80 bytes, `promise` claims to
//! be done, `promises A,B` does so in each of these words, `stay` does not end by itself.

use std::{
    env, fs,
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use rustix::time::{ClockId, clock_gettime};

fn main() -> ExitCode {
    let now = clock_gettime(ClockId::Monotonic);
    let mut words = env::args().skip(1);
    match run(now.tv_sec * 1_000_000_000 + now.tv_nsec, &mut words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(now: i64, words: &mut impl Iterator<Item = String>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut stays = false;
    while let Some(word) = words.next() {
        match word.as_str() {
            "stamp" => fs::write(argument(words)?, now.to_string())?,
            "flood" => flood(&mut out, argument(words)?.parse().map_err(io::Error::other)?)?,
            "promise" => out.write_all(b"<promise>DONE</promise>\n")?,
            "promises" => {
                for promise in argument(words)?.split(',') {
                    out.write_all(format!("<promise>{promise}</promise>\n").as_bytes())?;
                }
            }
            "stay" => stays = true,
            other => return Err(io::Error::other(format!("unknown: {other}"))),
        }
    }
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    out.write_all(b"nothing to report\n")?;
    out.flush()?;
    if stays {
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

fn argument(words: &mut impl Iterator<Item = String>) -> io::Result<String> {
    words.next().ok_or_else(|| io::Error::other("an argument is missing"))
}

/// Lines of 80 bytes, a buffer of just under 64 KiB at a time.
fn flood(out: &mut impl io::Write, bytes: usize) -> io::Result<()> {
    let mut line = [b'.'; 80];
    line[79] = b'\n';
    let buffer = line.repeat(64 * 1024 / 80);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(buffer.len());
        out.write_all(&buffer[..part])?;
        left -= part;
    }
    Ok(())
}
