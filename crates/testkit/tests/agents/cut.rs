//! Recordings that end too early, or come in pieces of any size.

use dacapo_core::event::Outcome;
use dacapo_testkit::{
    noise,
    recordings::{Recording, recordings},
};

use super::{Kept, format, judge, listen, messages};

/// A number that looks random.
fn below(state: &mut u64, limit: usize) -> usize {
    (noise::next(state) >> 33) as usize % limit
}

/// Whether a whole line among these says that the agent has finished well, by looking at nothing else.
fn has_final_event(recording: &Recording, output: &[u8]) -> bool {
    output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).any(
        |line: serde_json::Value| match (recording.agent(), line["type"].as_str().unwrap_or_default()) {
            ("claude" | "gemini" | "qwen" | "copilot", "result")
            | ("codex", "turn.completed" | "turn.failed")
            | ("pi", "agent_end")
            | ("opencode", "error") => true,
            ("opencode", "step_finish") => line["part"]["reason"] != "tool-calls",
            _ => false,
        },
    )
}

#[test]
fn a_recording_cut_anywhere_is_never_more_than_it_was() {
    // fault C7, fault E7: no `completed` without its final event, no words that were not complete.
    let mut state = 1;
    for recording in recordings() {
        let output = &recording.stdout[..];
        let (whole, _) = listen(format(&recording), [output]);
        let line_ends =
            (0..output.len()).filter(|at| output[*at] == b'\n').flat_map(|at| [at - 1, at, at + 1]);
        let some: Vec<usize> = (0..60).map(|_| below(&mut state, output.len() + 1)).collect();
        for cut in line_ends.chain(some) {
            let output = &output[..cut];
            let (kept, told) = listen(format(&recording), [output]);
            let judged = judge(&recording, &told);
            let name = format!("{} cut at {cut}", recording.name);
            if judged.outcome == Outcome::Completed || kept.contains(&Kept::Final) {
                assert!(has_final_event(&recording, output), "{name}: {judged:?}");
            }
            assert!(messages(&whole).starts_with(&messages(&kept)), "{name}: {:?}", messages(&kept));
            if judged.outcome != Outcome::Completed {
                assert!(!judged.detail.is_empty(), "{name}");
            }
        }
    }
}

#[test]
fn a_recording_in_pieces_is_the_same_as_whole() {
    // fault D2
    let mut state = 2;
    for recording in recordings() {
        let output = &recording.stdout[..];
        let whole = listen(format(&recording), [output]);
        assert_eq!(listen(format(&recording), output.chunks(1)), whole, "{} byte by byte", recording.name);
        for _ in 0..12 {
            let longest = [2, 17, 300, 5000][below(&mut state, 4)];
            let mut pieces = Vec::new();
            let mut rest = output;
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((1 + below(&mut state, longest)).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            assert_eq!(listen(format(&recording), pieces), whole, "{} in pieces", recording.name);
        }
    }
}

#[test]
fn a_damaged_recording_is_read_as_far_as_it_goes() {
    // fault D3
    let mut state = 3;
    for recording in recordings().iter().filter(|recording| !recording.stdout.is_empty()) {
        for _ in 0..20 {
            let mut output = recording.stdout.clone();
            for _ in 0..=below(&mut state, 8) {
                let at = below(&mut state, output.len());
                output[at] = below(&mut state, 256) as u8;
            }
            let (_, told) = listen(format(recording), output.chunks(1 + below(&mut state, 4096)));
            let judged = judge(recording, &told);
            assert!(told.ending.is_some() || judged.outcome != Outcome::Completed, "{}", recording.name);
        }
    }
}

#[test]
fn a_banner_noise_and_events_of_another_version_change_nothing() {
    // fault C13, fault D3
    for recording in recordings().iter().filter(|recording| recording.name.ends_with("-tool-call")) {
        let whole = listen(format(recording), [&recording.stdout[..]]);
        let (kept, told) = whole;
        let mut noisy = b"\x1b]0;agent\x07Loaded cached credentials.\n\nUpdate available! 9.9.9\n".to_vec();
        for line in recording.stdout.split_inclusive(|byte| *byte == b'\n') {
            noisy.extend_from_slice(line);
            noisy.extend_from_slice(b"{\"type\":\"brand.new\",\"data\":{\"text\":[1,{}]},\"message\":7}\n");
            noisy.extend_from_slice(b"{\"no\":\"type\"}\nnot json at all \xff\xfe\r\n[1,2]\n{\"type\":\n");
        }
        let (noisy_kept, noisy_told) = listen(format(recording), [&noisy[..]]);
        assert_eq!(noisy_kept, kept, "{}", recording.name);
        assert_eq!(
            (noisy_told.ending, noisy_told.session),
            (told.ending, told.session),
            "{}",
            recording.name
        );
    }
}
