//! Bytes that look random and are the same each time.

/// The next value of the sequence `state` stands in (SplitMix64).
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills a buffer; only the last one filled from a `state` may have a length that is no multiple of 8.
pub fn fill(buffer: &mut [u8], state: &mut u64) {
    for chunk in buffer.chunks_mut(8) {
        chunk.copy_from_slice(&next(state).to_le_bytes()[..chunk.len()]);
    }
}

/// What the fake agent's `random BYTES SEED` writes.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill(&mut bytes, &mut { seed });
    bytes
}
