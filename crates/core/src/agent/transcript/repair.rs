//! Lines that are JSON but for their encoding.
//!
//! Bytes that are not UTF-8 and halves of surrogate pairs do occur: programs cut text where they please. What stands
//! beside them is worth reading.

/// The line with what cannot be decoded replaced; nothing if that would change nothing.
pub(super) fn repaired(line: &[u8]) -> Option<String> {
    let decoded = String::from_utf8_lossy(line);
    let whole = without_lone_surrogates(&decoded);
    (whole.as_bytes() != line).then_some(whole)
}

/// Replaces `\ud800` to `\udfff` where they are not pairs.
fn without_lone_surrogates(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                whole.push_str(&escape[..12]);
                12
            }
            (Some(0xd800..=0xdfff), _) => {
                whole.push_str("\\ufffd");
                6
            }
            _ => {
                // The escaped character is copied with its backslash, so that `\\ud800` stays what it is.
                let length = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                whole.push_str(&escape[..length]);
                length
            }
        };
        rest = &escape[length..];
    }
    whole.push_str(rest);
    whole
}

/// The number of an escape like `\u12ab` at the beginning.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_half_a_character_is_read() {
        // fault D2, fault D3
        for (line, repair) in [
            (&b"{\"a\":\"caf\xc3\"}"[..], Some("{\"a\":\"caf\u{fffd}\"}")),
            (br#"{"a":"x\ud83d"}"#, Some(r#"{"a":"x\ufffd"}"#)),
            (br#"{"a":"\ude00\ud83d\ude00"}"#, Some(r#"{"a":"\ufffd\ud83d\ude00"}"#)),
            (br#"{"a":"\\ud83d \n\ud83d\ude00"}"#, None),
            (br#"{"a":"\"#, None),
            ("{\"a\":\"\\ä\"}".as_bytes(), None),
            (br#"{"a":"\ud8"#, None),
        ] {
            assert_eq!(repaired(line).as_deref(), repair, "{}", String::from_utf8_lossy(line));
        }
    }
}
