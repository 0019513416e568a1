//! As much of HTTP/1.1 as agents speak to a provider.

use std::io::{self, BufRead, Read as _};

use serde_json::Value;

/// More than any agent sends.
const MAX_BODY: u64 = 256 << 20;

/// A request, not yet understood.
#[derive(Debug, PartialEq)]
pub(crate) struct RawRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The next request, or none once the client has gone.
pub(crate) fn read_request(from: &mut impl BufRead) -> io::Result<Option<RawRequest>> {
    let Some(first) = read_line(from)? else { return Ok(None) };
    let mut words = first.split(' ').map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Err(invalid(&first)) };
    let mut headers = Vec::new();
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid(&line))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let header =
        |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let body = if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        read_chunks(from)?
    } else {
        let length = header("content-length").unwrap_or("0");
        read_exactly(from, length.parse().map_err(|_| invalid(length))?)?
    };
    Ok(Some(RawRequest { method, path, headers, body }))
}

fn read_line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    match from.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
    }
}

fn read_exactly(from: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let read = from.take(length.min(MAX_BODY)).read_to_end(&mut body)?;
    if read as u64 == length { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn read_chunks(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| invalid(&line))?;
        body.extend(read_exactly(from, size)?);
        // After the last chunk this is the end of the trailer, which no agent sends.
        read_line(from)?;
        if size == 0 {
            return Ok(body);
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no HTTP: `{what}`"))
}

fn head(status: u16, headers: &[(String, String)], more: &str) -> String {
    // Clients go by the number; the phrase may be anything.
    let phrase = if status < 300 { "OK" } else { "Refused" };
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 {status} {phrase}\r\n{headers}{more}\r\n")
}

/// The bytes of an answer that is one document.
pub(crate) fn document(status: u16, headers: &[(String, String)], body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let more = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    (head(status, headers, &more) + &body).into_bytes()
}

/// The bytes of an answer to `HEAD`.
pub(super) fn nothing() -> Vec<u8> {
    head(200, &[], "content-length: 0\r\n").into_bytes()
}

/// How an answer begins that comes in pieces.
pub(super) fn stream_head(headers: &[(String, String)]) -> Vec<u8> {
    let more = "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n\
                transfer-encoding: chunked\r\n";
    head(200, headers, more).into_bytes()
}

/// A piece of it; an empty one ends the stream.
pub(super) fn stream_piece(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_by_its_length_or_in_chunks() {
        for (text, body) in [
            ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET", "abc"),
            (
                "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
                "abc",
            ),
            ("GET /a HTTP/1.1\r\nhost: x\r\n\r\n", ""),
        ] {
            let request = read_request(&mut text.as_bytes()).unwrap().unwrap();
            assert_eq!((request.path.as_str(), request.body), ("/a", body.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(read_request(&mut "".as_bytes()).unwrap(), None);
    }

    #[test]
    fn what_is_no_request_or_only_half_of_one_is_an_error() {
        for text in [
            "hello\r\n\r\n",
            "POST /a HTTP/1.1\r\nno colon\r\n\r\n",
            "POST /a HTTP/1.1\r\ncontent-length: many\r\n\r\n",
            "POST /a HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc",
            "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "POST /a HTTP/1.1\r\n",
        ] {
            assert!(read_request(&mut text.as_bytes()).is_err(), "{text}");
        }
    }
}
