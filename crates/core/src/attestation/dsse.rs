//! The envelope of a signed statement: DSSE v1.0.2.

use base64::{Engine as _, engine::general_purpose};
use serde::{Deserialize, Serialize};

/// The type of a payload that is an in-toto statement.
pub const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A payload with its type and its signatures. Fields that it does not know are passed over, as the standard has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DsseEnvelope {
    pub payload_type: String,
    /// In base64.
    pub payload: String,
    pub signatures: Vec<DsseSignature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DsseSignature {
    /// Which key this may be of. It is a hint and no identity: a signature counts for the key that verifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keyid: Option<String>,
    /// In base64.
    pub sig: String,
}

/// Why the payload of an envelope is not to be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeFault {
    #[error("its payload is of type `{0}`, not `{IN_TOTO}`")]
    OtherType(String),
    #[error("its payload is no base64")]
    NoPayload,
    #[error("it has no signature")]
    Unsigned,
    #[error("none of its signatures is by this key: it was edited, or another key has signed it")]
    OtherKey,
}

/// What is signed: the type and the payload, each with its length in front.
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

impl DsseEnvelope {
    /// An envelope with one signature, which `sign` makes.
    pub fn seal(payload: &[u8], keyid: String, sign: impl FnOnce(&[u8]) -> [u8; 64]) -> Self {
        let sig = general_purpose::STANDARD.encode(sign(&pae(IN_TOTO, payload)));
        Self {
            payload_type: IN_TOTO.to_owned(),
            payload: general_purpose::STANDARD.encode(payload),
            signatures: vec![DsseSignature { keyid: Some(keyid), sig }],
        }
    }

    /// The payload, if `is_signed` says of one of the signatures that it is right for the message.
    pub fn open(&self, is_signed: impl Fn(&[u8], &[u8]) -> bool) -> Result<Vec<u8>, EnvelopeFault> {
        if self.payload_type != IN_TOTO {
            return Err(EnvelopeFault::OtherType(self.payload_type.clone()));
        }
        let payload = of_base64(&self.payload).ok_or(EnvelopeFault::NoPayload)?;
        if self.signatures.is_empty() {
            return Err(EnvelopeFault::Unsigned);
        }
        let message = pae(&self.payload_type, &payload);
        let signatures = self.signatures.iter().filter_map(|signature| of_base64(&signature.sig));
        match signatures.into_iter().any(|signature| is_signed(&message, &signature)) {
            true => Ok(payload),
            false => Err(EnvelopeFault::OtherKey),
        }
    }
}

/// Both alphabets are allowed.
fn of_base64(text: &str) -> Option<Vec<u8>> {
    general_purpose::STANDARD.decode(text).or_else(|_| general_purpose::URL_SAFE.decode(text)).ok()
}
