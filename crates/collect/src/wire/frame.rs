//! Finds frames in a stream of bytes, among other output of a login shell.

use bytes::Bytes;
use memchr::memmem::rfind;
use serde::Deserialize;
use std::borrow::Cow;

use crate::wire::MalformedFrame;
use crate::wire::body::{Body, Hello};
use crate::wire::reassemble::{self, Fragment, Reassembler};
use gtop_local::text::{LineReader, LineTooLong, sanitize};

/// Prefix of a frame's JSON.
const SENTINEL: &[u8] = b"\x1egtop1 ";
/// Start of nearly every frame.
const SAMPLE: &str = "{\"t\":\"sample\",";
/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 1 << 20;
/// How much noise is kept for error messages.
const MAX_NOISE_BYTES: usize = 4096;

/// One frame: its text as sent, and its decoded body.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The JSON, as sent; empty for a response.
    pub text: Bytes,
    /// The decoded body.
    pub body: Body,
}

impl Frame {
    /// Parses the JSON of a frame, as sent.
    pub fn parse(text: Bytes) -> Result<Self, MalformedFrame> {
        let body = decode(&text)?;
        // A response may contain secrets, so its text is not kept.
        let text = if matches!(body, Body::Answer(_)) { Bytes::new() } else { text };
        Ok(Self { text, body })
    }

    /// Returns true for a sample.
    pub(crate) fn is_sample(&self) -> bool {
        matches!(self.body, Body::Sample(_))
    }
}

/// An item of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// A frame.
    Frame(Box<Frame>),
    /// A malformed frame.
    Malformed(MalformedFrame),
}

/// Cuts frames out of a stream.
///
/// A line may hold anything before the last sentinel: login files print what they like. The last
/// 4 kB of such noise are kept. A line beyond 1 MiB is dropped to its end.
#[derive(Debug)]
pub struct FrameReader {
    lines: LineReader,
    noise: Vec<u8>,
    reassembler: Reassembler,
}

impl Default for FrameReader {
    fn default() -> Self {
        let lines = LineReader::new(MAX_LINE_BYTES);
        Self { lines, noise: Vec::new(), reassembler: Reassembler::default() }
    }
}

impl FrameReader {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: impl Into<Bytes>) {
        self.lines.push(bytes);
    }

    /// Returns the next frame; `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Option<Received> {
        loop {
            let line = match self.lines.next_line()? {
                Ok(line) => line,
                Err(LineTooLong) => return Some(Received::Malformed(MalformedFrame::TooLong)),
            };
            let frame_at = rfind(&line, SENTINEL);
            if let Some(at) = rfind(&line, reassemble::SENTINEL).filter(|at| frame_at < Some(*at)) {
                self.keep_noise(line.get(..at).unwrap_or_default());
                let fragment = line.get(at + reassemble::SENTINEL.len()..).unwrap_or_default();
                match self.reassembler.on_line(fragment) {
                    Fragment::Part => continue,
                    Fragment::Frame(text) => return Some(parse_frame(text)),
                    Fragment::Malformed(malformed) => return Some(Received::Malformed(malformed)),
                }
            }
            match frame_at {
                Some(at) => {
                    self.keep_noise(line.get(..at).unwrap_or_default());
                    return Some(parse_frame(line.slice(at + SENTINEL.len()..)));
                }
                None => self.keep_noise(&line),
            }
        }
    }

    /// Returns the last noise as one sanitized line; empty if there was none.
    pub fn noise(&self) -> String {
        sanitize(&String::from_utf8_lossy(&self.noise), MAX_NOISE_BYTES)
    }

    fn keep_noise(&mut self, bytes: &[u8]) {
        let start = bytes.len().saturating_sub(MAX_NOISE_BYTES);
        self.noise.extend_from_slice(bytes.get(start..).unwrap_or_default());
        if !bytes.is_empty() {
            self.noise.push(b' ');
        }
        let excess = self.noise.len().saturating_sub(MAX_NOISE_BYTES);
        self.noise.drain(..excess);
    }
}

#[derive(Deserialize)]
struct BodyKind<'a> {
    #[serde(borrow)]
    t: Cow<'a, str>,
}

fn parse_frame(text: Bytes) -> Received {
    Frame::parse(text).map_or_else(Received::Malformed, |frame| Received::Frame(Box::new(frame)))
}

fn decode(text: &[u8]) -> Result<Body, MalformedFrame> {
    // Checked once for the whole frame, not per string.
    let text =
        std::str::from_utf8(text).map_err(|error| MalformedFrame::NotJson(error.to_string()))?;
    // The kind is parsed first, so that the rest is parsed straight into its struct. Probes write it first, and nearly
    // all frames are samples.
    let kind = if text.starts_with(SAMPLE) {
        BodyKind { t: Cow::Borrowed("sample") }
    } else {
        serde_json::from_str(text)?
    };
    Ok(match &*kind.t {
        "hello" => {
            let hello: Hello = serde_json::from_str(text)?;
            if hello.v != 1 {
                return Err(MalformedFrame::Version(hello.v));
            }
            Body::Hello(hello)
        }
        "sample" => Body::Sample(serde_json::from_str(text)?),
        "error" => Body::Error(serde_json::from_str(text)?),
        "answer" => Body::Answer(serde_json::from_str(text).map_err(|error| {
            // Without the message of the error, which may contain what was sent.
            let column = error.column();
            MalformedFrame::NotJson(format!("an invalid answer, at byte {column}"))
        })?),
        "event" => Body::Event(serde_json::from_str(text)?),
        "bye" => Body::Bye(serde_json::from_str(text)?),
        _ => Body::Other,
    })
}

/// Writes a body as a frame; for the simulated fleet. [`Body::Other`] has no frame and writes none.
pub fn encode(body: &Body) -> Vec<u8> {
    let text = encode_text(body);
    if text.is_empty() { text } else { [SENTINEL, &text, b"\n"].concat() }
}

/// Writes the JSON of a body in ASCII, as in its frame. [`Body::Other`] has none.
pub(crate) fn encode_text(body: &Body) -> Vec<u8> {
    let (kind, json) = match body {
        Body::Hello(hello) => ("hello", serde_json::to_string(hello)),
        Body::Sample(sample) => ("sample", serde_json::to_string(sample)),
        Body::Error(error) => ("error", serde_json::to_string(error)),
        Body::Answer(answer) => ("answer", serde_json::to_string(answer)),
        Body::Event(event) => ("event", serde_json::to_string(event)),
        Body::Bye(bye) => ("bye", serde_json::to_string(bye)),
        Body::Other => return Vec::new(),
    };
    // Structs of strings and finite numbers can always be serialized.
    let Ok(json) = json else { return Vec::new() };
    to_ascii(&with_kind(kind, &json))
}

/// Escapes the letters of a JSON text that are not ASCII.
fn to_ascii(json: &str) -> Vec<u8> {
    let mut ascii = Vec::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            ascii.push(letter as u8);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                ascii.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        }
    }
    ascii
}

/// Puts the kind of a body in front of the keys of an object.
fn with_kind(kind: &str, object: &str) -> String {
    let keys = object.strip_prefix('{').unwrap_or_default();
    let comma = if keys == "}" { "" } else { "," };
    format!("{{\"t\":\"{kind}\"{comma}{keys}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::body::Bye;

    fn bye(why: &str) -> String {
        String::from_utf8(encode(&Body::Bye(Bye { at: 1.0, why: why.to_owned() }))).unwrap()
    }

    fn reasons_of(chunks: &[&[u8]]) -> (Vec<String>, FrameReader) {
        let mut reader = FrameReader::default();
        let mut found = Vec::new();
        for chunk in chunks {
            reader.push(chunk.to_vec());
            while let Some(received) = reader.next_frame() {
                found.push(match received {
                    Received::Frame(frame) => {
                        let Body::Bye(bye) = frame.body else { panic!("another body") };
                        bye.why
                    }
                    Received::Malformed(malformed) => format!("Malformed({malformed})"),
                });
            }
        }
        (found, reader)
    }

    #[test]
    fn the_longest_frame_of_a_probe_is_accepted() {
        let source = include_str!("../../../../probes/wire.py");
        let exponent =
            source.lines().find_map(|line| line.strip_prefix("MAX_FRAME = 1 << ")).unwrap();
        let maximum = 1 << exponent.split_whitespace().next().unwrap().parse::<u32>().unwrap();
        // The frame of an empty text has the newline, which the limit does not count.
        let text = "x".repeat(maximum - bye("").len());
        // It arrives in several reads.
        let frame = bye(&text);
        let pieces: Vec<&[u8]> = frame.as_bytes().chunks(16 * 1024).collect();
        let (found, _) = reasons_of(&pieces);
        assert_eq!(found, [text]);
    }

    #[test]
    fn a_kind_stands_before_any_number_of_keys() {
        assert_eq!(with_kind("bye", "{\"at\":1}"), "{\"t\":\"bye\",\"at\":1}");
        assert_eq!(with_kind("bye", "{}"), "{\"t\":\"bye\"}");
    }

    #[test]
    fn frames_are_found_wherever_the_stream_is_split() {
        let text = format!("Welcome\n{}{}", bye("a"), bye("ü"));
        for cut in 0..text.len() {
            let (front, back) = text.as_bytes().split_at(cut);
            assert_eq!(reasons_of(&[front, back]).0, ["a", "ü"]);
        }
    }

    #[test]
    fn a_banner_before_the_frame_is_noise() {
        let glued = format!("\x1b[31mno newline{}", bye("a"));
        let (found, reader) = reasons_of(&[glued.as_bytes()]);
        assert_eq!(found, ["a"]);
        assert_eq!(reader.noise(), "[31mno newline");
    }

    #[test]
    fn a_frame_truncated_by_another_one_yields_the_other() {
        let cut = format!("\x1egtop1 {{\"t\":\"sam{}", bye("b"));
        assert_eq!(reasons_of(&[cut.as_bytes()]).0, ["b"]);
    }

    #[test]
    fn invalid_json_is_reported_and_the_next_frame_is_read() {
        for broken in ["{", "{}", "[]", "{\"t\":5}", "null", "{\"t\":\"sample\",\"n\":-1}", "\u{0}"]
        {
            let text = format!("\x1egtop1 {broken}\n{}", bye("next"));
            let (found, _) = reasons_of(&[text.as_bytes()]);
            assert!(found[0].starts_with("Malformed("), "{broken}: {found:?}");
            assert_eq!(found[1], "next");
        }
    }

    #[test]
    fn an_endless_line_uses_bounded_memory_and_is_reported_once() {
        let mut reader = FrameReader::default();
        let mut reported = 0;
        let endless = vec![b'x'; 100_000];
        for _ in 0..64 {
            reader.push(endless.clone());
            reported += usize::from(reader.next_frame().is_some());
            assert!(reader.lines.held() <= MAX_LINE_BYTES + 100_000);
        }
        assert_eq!(reported, 1);
        reader.push(format!("\n{}", bye("after")));
        assert!(matches!(reader.next_frame(), Some(Received::Frame(_))));
    }

    #[test]
    fn another_schema_version_is_refused_and_an_unknown_kind_is_not() {
        let text = "\x1egtop1 {\"t\":\"hello\",\"v\":2}\n\x1egtop1 {\"t\":\"weather\"}\n";
        let mut reader = FrameReader::default();
        reader.push(text);
        assert_eq!(reader.next_frame(), Some(Received::Malformed(MalformedFrame::Version(2))));
        let Some(Received::Frame(frame)) = reader.next_frame() else { panic!() };
        assert_eq!(frame.body, Body::Other);
    }

    #[test]
    fn a_frame_in_short_lines_is_reassembled_wherever_the_stream_is_split() {
        let whole = bye(&"long ".repeat(300));
        let json = whole.trim_start_matches("\x1egtop1 ").trim_end();
        let pieces: Vec<&[u8]> = json.as_bytes().chunks(700).collect();
        let mut text = "banner".to_owned();
        for (at, piece) in pieces.iter().enumerate() {
            let piece = std::str::from_utf8(piece).unwrap();
            let length = piece.len();
            let head = format!("\x1egtop1+ n 1 {}/{} {length} ", at + 1, pieces.len());
            text.extend([&head, piece, " n\n"]);
        }
        text += &bye("whole");
        for cut in (0..text.len()).step_by(7) {
            let (front, back) = text.as_bytes().split_at(cut);
            let (found, reader) = reasons_of(&[front, back]);
            assert_eq!(found.len(), 2, "{cut}");
            assert_eq!(found[0].len(), 5 * 300);
            assert_eq!((found[1].as_str(), reader.noise().as_str()), ("whole", "banner"));
        }
    }

    #[test]
    fn an_invalid_answer_discloses_nothing() {
        for environ in ["\"API_KEY=hunter2\"", "[5]", "{\"hunter2\":1}", "[\"hunter2\","] {
            let text = format!("\x1egtop1 {{\"t\":\"answer\",\"id\":1,\"environ\":{environ}}}\n");
            let mut reader = FrameReader::default();
            reader.push(text);
            let Some(Received::Malformed(malformed)) = reader.next_frame() else { panic!() };
            let shown = format!("{malformed} {malformed:?} {}", reader.noise());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn noise_is_bounded() {
        let mut reader = FrameReader::default();
        for _ in 0..1000 {
            reader.push("noise noise noise noise\n");
            assert_eq!(reader.next_frame(), None);
        }
        assert!(reader.noise().len() <= MAX_NOISE_BYTES);
    }
}
