//! Secrets that are known by their shape: tokens of well-known issuers, headers, fields, private keys.

use super::{
    known::SecretForm,
    place::{End, LONGEST_RUN, Letters, RuleAnswer, ScanPlace, SecretSpan},
    tail::Tail,
};

/// How a secret is recognised.
pub(super) enum Rule {
    Known(SecretForm),
    /// By how it begins, and what follows.
    Token(&'static TokenShape),
    /// By a name before it: the name of a field, and the quotes, colons or spaces between the name and the value.
    Field(&'static str),
    /// By the name of a scheme before it.
    Bearer(&'static str),
    /// By the header it stands in.
    Authorization(&'static str),
    /// A token in three parts, the first two of them JSON.
    Jwt,
    Key,
}

/// A token with a beginning of its own.
pub(super) struct TokenShape {
    begin: &'static str,
    letters: Letters,
    length: (usize, usize),
    /// What else must be so.
    more: Demand,
}

/// What tells a token from other text with the same beginning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// Nothing: the beginning says enough.
    Nothing,
    /// It begins where a word does.
    WordStart,
    /// It begins where a word does, and not within base64.
    OutsideBase64,
    /// As [`Demand::WordStart`], and it has a long part without `-`, of letters and digits.
    Random,
}

const fn token(begin: &'static str, letters: Letters, length: (usize, usize), more: Demand) -> TokenShape {
    TokenShape { begin, letters, length, more }
}

const ANY: usize = LONGEST_RUN;

static TOKENS: [TokenShape; 25] = [
    token("sk-ant-", Letters::Token, (16, ANY), Demand::WordStart),
    token("sk-proj-", Letters::Token, (16, ANY), Demand::WordStart),
    token("sk-svcacct-", Letters::Token, (16, ANY), Demand::WordStart),
    token("sk-or-v1-", Letters::Token, (16, ANY), Demand::WordStart),
    token("sk-", Letters::Token, (20, ANY), Demand::Random),
    token("sk_live_", Letters::Word, (16, ANY), Demand::Nothing),
    token("sk_test_", Letters::Word, (16, ANY), Demand::Nothing),
    token("rk_live_", Letters::Word, (16, ANY), Demand::Nothing),
    token("ghp_", Letters::Word, (30, 255), Demand::Nothing),
    token("gho_", Letters::Word, (30, 255), Demand::Nothing),
    token("ghu_", Letters::Word, (30, 255), Demand::Nothing),
    token("ghs_", Letters::Word, (30, 255), Demand::Nothing),
    token("ghr_", Letters::Word, (30, 255), Demand::Nothing),
    token("github_pat_", Letters::Word, (30, 255), Demand::Nothing),
    token("glpat-", Letters::Token, (16, 300), Demand::WordStart),
    token("npm_", Letters::Alnum, (36, 36), Demand::WordStart),
    token("hf_", Letters::Alnum, (30, 60), Demand::WordStart),
    token("gsk_", Letters::Alnum, (40, 80), Demand::WordStart),
    token("xai-", Letters::Alnum, (40, 120), Demand::WordStart),
    token("AIza", Letters::Token, (30, 45), Demand::OutsideBase64),
    token("AKIA", Letters::Capital, (16, 16), Demand::OutsideBase64),
    token("ASIA", Letters::Capital, (16, 16), Demand::OutsideBase64),
    token("xoxb-", Letters::Token, (16, ANY), Demand::WordStart),
    token("xapp-", Letters::Token, (24, ANY), Demand::Random),
    token("ya29.", Letters::Token, (20, ANY), Demand::WordStart),
];
/// The kinds of Slack's tokens that differ in a letter only.
static SLACK: [TokenShape; 5] = [
    token("xoxa-", Letters::Token, (16, ANY), Demand::WordStart),
    token("xoxe-", Letters::Token, (16, ANY), Demand::WordStart),
    token("xoxp-", Letters::Token, (16, ANY), Demand::WordStart),
    token("xoxr-", Letters::Token, (16, ANY), Demand::WordStart),
    token("xoxs-", Letters::Token, (16, ANY), Demand::WordStart),
];
const FIELDS: [&str; 16] = [
    "api_key",
    "apiKey",
    "api-key",
    "Api-Key",
    "API_KEY",
    "access_token",
    "accessToken",
    "ACCESS_TOKEN",
    "refresh_token",
    "client_secret",
    "clientSecret",
    "CLIENT_SECRET",
    "secret_key",
    "secret_access_key",
    "SECRET_KEY",
    "SECRET_ACCESS_KEY",
];

/// All rules about shapes.
pub(super) fn all() -> impl Iterator<Item = Rule> {
    let tokens = TOKENS.iter().chain(&SLACK).map(Rule::Token);
    let headers = ["Authorization", "authorization"].map(Rule::Authorization);
    let schemes = ["Bearer ", "bearer "].map(Rule::Bearer);
    tokens.chain(FIELDS.map(Rule::Field)).chain(headers).chain(schemes).chain([Rule::Jwt, Rule::Key])
}

impl Rule {
    /// How it begins, at least three bytes.
    pub(super) fn beginning(&self) -> &[u8] {
        match self {
            Self::Known(form) => &form.bytes,
            Self::Token(token) => token.begin.as_bytes(),
            Self::Field(name) | Self::Bearer(name) | Self::Authorization(name) => name.as_bytes(),
            Self::Jwt => b"eyJ",
            Self::Key => b"-----BEGIN",
        }
    }

    /// What it says about a place.
    pub(super) fn look(&self, place: &ScanPlace<'_>) -> RuleAnswer {
        if let Self::Known(form) = self {
            return known(form, place);
        }
        match self.find(place) {
            Ok(Some(found)) => RuleAnswer::Found(found),
            Ok(None) => RuleAnswer::No,
            Err(End) => RuleAnswer::More,
        }
    }

    fn find(&self, place: &ScanPlace<'_>) -> Result<Option<SecretSpan>, End> {
        if !place.has(0, self.beginning())? {
            return Ok(None);
        }
        match self {
            Self::Known(_) => Ok(None),
            Self::Token(token) => token.find(place),
            Self::Field(name) => field(place, name.len()),
            Self::Bearer(name) => value(place, name.len(), 16),
            Self::Authorization(name) => authorization(place, name.len()),
            Self::Jwt => jwt(place),
            Self::Key => key(place),
        }
    }
}

/// A value that is known. Half of it at the very end of a stream is too much already.
fn known(form: &SecretForm, place: &ScanPlace<'_>) -> RuleAnswer {
    let value = form.bytes.as_slice();
    let there = &place.bytes[..place.bytes.len().min(value.len())];
    if !value.starts_with(there) {
        return RuleAnswer::No;
    }
    if there.len() < value.len() {
        if !place.is_end {
            return RuleAnswer::More;
        }
        if there.len() < 8 || there.len() < value.len() / 2 {
            return RuleAnswer::No;
        }
    }
    let tail = if form.is_base64 { Tail::Letters(Letters::Base64) } else { Tail::None };
    RuleAnswer::Found(SecretSpan { from: 0, to: there.len(), tail })
}

impl TokenShape {
    fn find(&self, place: &ScanPlace<'_>) -> Result<Option<SecretSpan>, End> {
        let [_, b, a] = place.before;
        let is_placed = match self.more {
            Demand::Nothing => true,
            Demand::WordStart | Demand::Random => place.is_word_start(),
            // `//` begins an address and is rare in base64.
            Demand::OutsideBase64 => place.is_word_start() && a != b'+' && (a != b'/' || b == b'/'),
        };
        if !is_placed {
            return Ok(None);
        }
        let begin = self.begin.len();
        let (least, most) = self.length;
        // One more than there may be tells that there are too many.
        let run = place.run(begin, self.letters, if most == ANY { ANY } else { most + 1 })?;
        let text = &place.bytes[begin..begin + run];
        let fits = run >= least && run <= most && (self.more != Demand::Random || has_random_part(text));
        let tail = if most == ANY { Tail::Letters(self.letters) } else { Tail::None };
        Ok(fits.then_some(SecretSpan { from: 0, to: begin + run, tail }))
    }
}

/// Sixteen letters and digits in a row, both of them there: no word and no list of words.
fn has_random_part(text: &[u8]) -> bool {
    text.split(|byte| !byte.is_ascii_alphanumeric()).any(|part| part.len() >= 16 && is_mixed(part, 1))
}

fn is_mixed(text: &[u8], digits: usize) -> bool {
    text.iter().filter(|byte| byte.is_ascii_digit()).count() >= digits
        && text.iter().any(u8::is_ascii_alphabetic)
}

/// A value of a header from `at` on.
fn value(place: &ScanPlace<'_>, at: usize, least: usize) -> Result<Option<SecretSpan>, End> {
    let run = place.run(at, Letters::Header, LONGEST_RUN)?;
    let fits = run >= least && is_mixed(&place.bytes[at..at + run], 1);
    Ok(fits.then_some(SecretSpan { from: at, to: at + run, tail: Tail::Letters(Letters::Header) }))
}

/// What stands between a name and its value: quotes, escaped or not, a colon or an equals sign, spaces. Gives where the
/// value begins and whether it is in quotes.
fn separator(place: &ScanPlace<'_>, mut at: usize) -> Result<Option<(usize, bool)>, End> {
    let skip = |mut at: usize, bytes: &[u8]| -> Result<usize, End> {
        let most = at + 8;
        while at < most && place.see(at)?.is_some_and(|byte| bytes.contains(&byte)) {
            at += 1;
        }
        Ok(at)
    };
    at = skip(at, b"\\\"'` ]")?;
    if !place.see(at)?.is_some_and(|byte| matches!(byte, b':' | b'=')) {
        return Ok(None);
    }
    at = skip(at + 1, b" \t=>")?;
    let quoted = skip(at, b"\\\"'`")?;
    Ok(Some((quoted, quoted > at)))
}

fn field(place: &ScanPlace<'_>, name: usize) -> Result<Option<SecretSpan>, End> {
    let Some((at, is_quoted)) = separator(place, name)? else { return Ok(None) };
    let letters = if is_quoted { Letters::Header } else { Letters::Base64 };
    let run = place.run(at, letters, LONGEST_RUN)?;
    let text = &place.bytes[at..at + run];
    // Without quotes it may be a name in a program: those have few digits.
    let fits = run >= 16 && is_mixed(text, if is_quoted { 2 } else { 3 }) && !text.starts_with(b"/");
    Ok(fits.then_some(SecretSpan { from: at, to: at + run, tail: Tail::Letters(letters) }))
}

fn authorization(place: &ScanPlace<'_>, name: usize) -> Result<Option<SecretSpan>, End> {
    let Some((mut at, _)) = separator(place, name)? else { return Ok(None) };
    let scheme = place.run(at, Letters::Alnum, 16)?;
    if scheme > 0 && place.see(at + scheme)? == Some(b' ') {
        at += scheme + 1;
    }
    value(place, at, 8)
}

fn jwt(place: &ScanPlace<'_>) -> Result<Option<SecretSpan>, End> {
    if !place.is_word_start() {
        return Ok(None);
    }
    let head = place.run(0, Letters::Token, LONGEST_RUN)?;
    let fits = head >= 12 && place.has(head, b".eyJ")?;
    Ok(fits.then_some(SecretSpan { from: 0, to: head + 4, tail: Tail::Letters(Letters::Dotted) }))
}

/// The first line of a private key, and not far behind it something that can be one: prose mentions the line, too.
fn key(place: &ScanPlace<'_>) -> Result<Option<SecretSpan>, End> {
    const TITLE: usize = 64;
    const NEAR: usize = 300;
    const BEGIN: usize = b"-----BEGIN".len();
    let mut at = BEGIN;
    while at < BEGIN + TITLE
        && place
            .see(at)?
            .is_some_and(|byte| byte == b' ' || byte.is_ascii_uppercase() || byte.is_ascii_digit())
    {
        at += 1;
    }
    let title = &place.bytes[BEGIN..at];
    if !title.windows(11).any(|words| words == b"PRIVATE KEY") || !place.has(at, b"-----")? {
        return Ok(None);
    }
    let end = at + 5;
    let (mut run, mut longest) = (0, 0);
    for near in end..end + NEAR {
        let Some(byte) = place.see(near)? else { break };
        run = if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=') { run + 1 } else { 0 };
        longest = longest.max(run);
        if longest >= 40 {
            break;
        }
    }
    // At the end of a stream it may have been cut.
    let is_cut = place.is_end && place.bytes.len() < end + NEAR;
    let fits = longest >= 40 || (is_cut && longest >= 16);
    Ok(fits.then_some(SecretSpan { from: 0, to: end, tail: Tail::Key }))
}
