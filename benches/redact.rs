//! How fast secrets are searched for: 100 MB of what an agent prints as JSON lines, in the pieces a pipe gives. Time is
//! the processor's, of the best of some turns, so that a busy machine tells the same.
//!
//! `cargo bench -p dacapo --bench redact`

use std::{hint::black_box, io::Write, sync::Arc, time::Duration};

use dacapo_core::secrets::Secrets;
use rustix::time::{ClockId, clock_gettime};

const SIZE: usize = 100 << 20;
const TURNS: usize = 7;

fn main() {
    let keys = [
        "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AA",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "a-password-of-no-shape-1",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ];
    let began = now();
    let secrets = Arc::new(Secrets::new(keys));
    say(&format!("{:>32}: {:?}", "ready after", now() - began));
    let clean = lines(None);
    measure("nothing in it, 256 KiB pieces", &secrets, &clean, 256 << 10);
    measure("nothing in it, 64 KiB pieces", &secrets, &clean, 64 << 10);
    measure("nothing in it, 4 KiB pieces", &secrets, &clean, 4 << 10);
    measure("a secret in every 100 KB", &secrets, &lines(Some(keys[0])), 256 << 10);
    let many = Arc::new(Secrets::new((0..40).map(|n| format!("{n}-key-of-no-shape-{n}"))));
    measure("forty keys", &many, &clean, 256 << 10);
}

/// Lines as agents print them: text, code, tool results, usage.
fn lines(secret: Option<&str>) -> Vec<u8> {
    let mut text = Vec::with_capacity(SIZE + 4096);
    for turn in 0.. {
        if text.len() >= SIZE {
            break;
        }
        let key = secret.filter(|_| turn % 100 == 0).unwrap_or("none");
        text.extend_from_slice(
            format!(
                r#"{{"type":"assistant","message":{{"id":"msg_{turn:024}","role":"assistant","model":"some-model","content":[{{"type":"text","text":"I will look at the task-list of the parser first, then access the api and its tokens (see src/parser/api.rs). The risk-free way is to keep `fn parse(input: &str) -> Result<Ast, Error>` as it is.\n\nkey: {key}\n"}},{{"type":"tool_use","id":"toolu_{turn:020}","name":"Bash","input":{{"command":"cargo test --workspace -- --nocapture 2>&1 | tail -50"}}}}],"usage":{{"input_tokens":{turn},"cache_read_input_tokens":120000,"output_tokens":321}}}},"session_id":"123e4567-e89b-12d3-a456-426614174000"}}
{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{turn:020}","content":"running 12 tests\ntest parser::tests::an_expression_is_read ... ok\ntest parser::tests::a_token_is_read ... ok\ntest result: ok. 12 passed; 0 failed\n  at /home/user/project/src/main.rs:10:5 (39eba69c0f3f8f5d1c7a4d2b6e9f0a1b2c3d4e5f)\nauthor: somebody, Authorization is required, api_key missing\n"}}]}}}}
"#
            )
            .as_bytes(),
        );
    }
    text.truncate(SIZE);
    text
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn measure(what: &str, secrets: &Arc<Secrets>, text: &[u8], piece: usize) {
    let mut best = f64::MAX;
    let mut written = 0;
    for _ in 0..TURNS {
        let began = now();
        let mut redactor = secrets.redactor();
        written = text.chunks(piece).map(|bytes| black_box(redactor.push(bytes)).len()).sum();
        written += redactor.finish().len();
        best = best.min((now() - began).as_secs_f64());
    }
    let speed = text.len() as f64 / 1e6 / best;
    say(&format!("{what:>32}: {speed:>6.0} MB/s ({} bytes fewer)", text.len() - written));
}
