//! Signatures of webhooks: HMAC-SHA256 over the time and the body, so that neither can be changed and an old one cannot be sent again.

use sha2::{Digest, Sha256};

const BLOCK: usize = 64;

/// What a message of this time is signed with.
pub(super) fn sign(secret: &[u8], timestamp: i64, body: &[u8]) -> String {
    let signed = [format!("v1:{timestamp}:").as_bytes(), body].concat();
    format!("v1={}", hex(&hmac(secret, &signed)))
}

/// Why a message is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsigned {
    Missing,
    TooOld,
    Wrong,
}

impl std::fmt::Display for Unsigned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "`x-dacapo-timestamp` and `x-dacapo-signature` are needed",
            Self::TooOld => "the time stamp is too far from now",
            Self::Wrong => "the signature does not fit",
        })
    }
}

/// Whether the message was signed with the secret, and not longer ago than `window` seconds.
pub(super) fn verify(
    secret: &[u8],
    (timestamp, signature): (Option<&str>, Option<&str>),
    body: &[u8],
    now: i64,
    window: i64,
) -> Result<(), Unsigned> {
    let (Some(timestamp), Some(signature)) = (timestamp, signature) else { return Err(Unsigned::Missing) };
    let timestamp: i64 = timestamp.trim().parse().map_err(|_| Unsigned::Missing)?;
    // The signature first: a stranger learns nothing of this machine's clock.
    if !is_same(sign(secret, timestamp, body).as_bytes(), signature.trim().as_bytes()) {
        return Err(Unsigned::Wrong);
    }
    if now.saturating_sub(timestamp).saturating_abs() > window { Err(Unsigned::TooOld) } else { Ok(()) }
}

/// Takes the same time wherever the two differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let mut key = [0_u8; BLOCK];
    if secret.len() > BLOCK {
        let hashed = Sha256::digest(secret);
        key[..hashed.len()].copy_from_slice(&hashed);
    } else {
        key[..secret.len()].copy_from_slice(secret);
    }
    let inner = Sha256::new().chain_update(key.map(|b| b ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(key.map(|b| b ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_is_that_of_the_standard() {
        // RFC 4231, cases 1, 2 and 6
        for (key, message, expected) in [
            (
                vec![0x0b; 20],
                &b"Hi There"[..],
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac(&key, message)), expected);
        }
    }

    #[test]
    fn only_a_fresh_message_with_the_secret_is_believed() {
        let good = sign(b"secret", 1000, b"{}");
        let other = sign(b"other", 1000, b"{}");
        for (timestamp, signature, body, now, expected) in [
            (Some("1000"), Some(good.as_str()), &b"{}"[..], 1000, Ok(())),
            (Some("1000"), Some(&good), b"{}", 1300, Ok(())),
            (Some("1000"), Some(&good), b"{}", 700, Ok(())),
            (Some("1000"), Some(&good), b"{}", 1301, Err(Unsigned::TooOld)),
            (Some("1000"), Some(&good), b"{}", 699, Err(Unsigned::TooOld)),
            (Some("1001"), Some(&good), b"{}", 1000, Err(Unsigned::Wrong)),
            (Some("1000"), Some(&good), b"{ }", 1000, Err(Unsigned::Wrong)),
            (Some("1000"), Some(&other), b"{}", 1000, Err(Unsigned::Wrong)),
            (Some("1000"), Some("v1="), b"{}", 1000, Err(Unsigned::Wrong)),
            (Some("1000"), Some(&good[3..]), b"{}", 1000, Err(Unsigned::Wrong)),
            (None, Some(&good), b"{}", 1000, Err(Unsigned::Missing)),
            (Some("1000"), None, b"{}", 1000, Err(Unsigned::Missing)),
            (Some("soon"), Some(&good), b"{}", 1000, Err(Unsigned::Missing)),
            (Some("-9223372036854775808"), Some(&good), b"{}", 1000, Err(Unsigned::Wrong)),
        ] {
            assert_eq!(
                verify(b"secret", (timestamp, signature), body, now, 300),
                expected,
                "{timestamp:?} {now}"
            );
        }
    }
}
