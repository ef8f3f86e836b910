//! Reassembles frames from numbered short lines, for transports that cut long lines and interleave the lines of
//! many nodes, as `srun` does.
//!
//! A line is `\x1egtop1+ NODE SEQ k/m LENGTH `, a piece of the frame's JSON of that many bytes, the
//! node once more, and a newline; at most [`MAX_LINE_BYTES`] bytes. If lines were cut and mixed after all, the
//! beginning of one and the end of another differ in the node, and inserted bytes change the length. Pieces arrive
//! in order, all but the last with equal length. Anything else is a malformed frame, reported once; reading resumes
//! with the next frame that begins.

use bytes::{Bytes, BytesMut};
use memchr::memmem;

use crate::wire::MalformedFrame;

/// The start of a short line, before the node.
pub(super) const SENTINEL: &[u8] = b"\x1egtop1+ ";
/// Maximum length of a short line with its newline: `srun` forwards up to 1024 bytes as one message.
const MAX_LINE_BYTES: usize = 900;
/// Maximum size of a frame's JSON.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// One short line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShortLine<'a> {
    node: &'a str,
    sequence: u64,
    piece: u32,
    pieces: u32,
    text: &'a [u8],
}

/// How the JSON of a hello begins.
const HELLO: &[u8] = b"{\"t\":\"hello\"";

/// Returns the node of a line, the number of its frame, and true if a hello begins with it; `None` if this is not a
/// short line.
pub(crate) fn address_of(line: &[u8]) -> Option<(&str, u64, bool)> {
    let at = memmem::rfind(line, SENTINEL)?;
    let line = parse_line(line.get(at + SENTINEL.len()..)?)?;
    Some((line.node, line.sequence, line.piece == 1 && line.text.starts_with(HELLO)))
}

/// Parses a short line after its sentinel: `NODE SEQUENCE PIECE/PIECES LENGTH TEXT NODE`.
fn parse_line(text: &[u8]) -> Option<ShortLine<'_>> {
    if text.len() + SENTINEL.len() > MAX_LINE_BYTES {
        return None;
    }
    let mut words = text.splitn(5, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let node = word()?;
    let sequence = parse_number(word()?)?;
    let (piece, pieces) = word()?.split_once('/')?;
    let piece = u32::try_from(parse_number(piece)?).ok()?;
    let pieces = u32::try_from(parse_number(pieces)?).ok()?;
    let length = usize::try_from(parse_number(word()?)?).ok()?;
    // The line ends with the node again, so that one that was cut is noticed.
    let (text, end) = words.next()?.split_at_checked(length)?;
    if end.strip_prefix(b" ")? != node.as_bytes() {
        return None;
    }
    let is_valid = !node.is_empty() && 0 < piece && piece <= pieces && !text.is_empty();
    is_valid.then_some(ShortLine { node, sequence, piece, pieces, text })
}

/// Parses a number of digits only.
fn parse_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Reassembles the frames of one node.
#[derive(Debug, Default)]
pub(super) struct Reassembler {
    /// The frame being received.
    frame: Option<PartialFrame>,
    /// The number of the last frame that was completed or discarded.
    last: Option<u64>,
}

#[derive(Debug)]
struct PartialFrame {
    sequence: u64,
    pieces: u32,
    /// Pieces received.
    count: u32,
    /// Length of each piece but the last.
    length: usize,
    text: BytesMut,
}

/// The result of a short line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fragment {
    /// The frame is not complete.
    Part,
    /// The JSON of a complete frame.
    Frame(Bytes),
    /// A frame was lost.
    Malformed(MalformedFrame),
}

impl Reassembler {
    /// Handles a short line, without its sentinel.
    pub(super) fn on_line(&mut self, text: &[u8]) -> Fragment {
        let Some(line) = parse_line(text) else {
            return self.malformed(None, "a malformed short line");
        };
        if line.piece == 1 {
            let is_old = self.last.is_some_and(|last| line.sequence <= last);
            let lost = self.frame.take().map(|lost| lost.sequence);
            if is_old || lost == Some(line.sequence) {
                return self.malformed(lost, "a duplicate frame");
            }
            self.last = self.last.max(lost);
            return match (self.begin(line), lost) {
                (Fragment::Part, Some(_)) => {
                    Fragment::Malformed(MalformedFrame::Pieces("the end of a frame is missing"))
                }
                // The sequence number of the next sample shows that one is missing.
                (fragment, _) => fragment,
            };
        }
        let Some(partial) = &mut self.frame else {
            let is_reported = self.last.is_some_and(|last| line.sequence <= last);
            if is_reported {
                return Fragment::Part;
            }
            return self.malformed(Some(line.sequence), "the beginning of a frame is missing");
        };
        let is_next = line.sequence == partial.sequence
            && line.pieces == partial.pieces
            && line.piece == partial.count + 1;
        let is_last = line.piece == line.pieces;
        let is_right_length =
            line.text.len() == partial.length || (is_last && line.text.len() < partial.length);
        if !is_next || !is_right_length {
            let last = partial.sequence.max(line.sequence);
            return self.malformed(Some(last), "pieces of a frame are missing");
        }
        partial.text.extend_from_slice(line.text);
        partial.count += 1;
        if is_last { self.finish() } else { Fragment::Part }
    }

    fn begin(&mut self, line: ShortLine<'_>) -> Fragment {
        let length = line.text.len();
        let bound = usize::try_from(line.pieces).unwrap_or(usize::MAX).saturating_mul(length);
        if bound > MAX_FRAME_BYTES + MAX_LINE_BYTES {
            self.last = Some(line.sequence);
            return Fragment::Malformed(MalformedFrame::TooLong);
        }
        let mut text = BytesMut::with_capacity(bound.min(16 << 10));
        text.extend_from_slice(line.text);
        let ShortLine { sequence, pieces, .. } = line;
        self.frame = Some(PartialFrame { sequence, pieces, count: 1, length, text });
        if pieces == 1 { self.finish() } else { Fragment::Part }
    }

    fn finish(&mut self) -> Fragment {
        let Some(partial) = self.frame.take() else { return Fragment::Part };
        self.last = Some(partial.sequence);
        Fragment::Frame(partial.text.freeze())
    }

    fn malformed(&mut self, sequence: Option<u64>, why: &'static str) -> Fragment {
        self.frame = None;
        // Numbers that are too high are ignored, or one of them would make all later frames old.
        let near = self.last.unwrap_or_default().saturating_add(1000);
        self.last = self.last.max(sequence.filter(|sequence| *sequence <= near));
        Fragment::Malformed(MalformedFrame::Pieces(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reassemble(lines: &[&str]) -> Vec<String> {
        let mut reassembler = Reassembler::default();
        let text_of = |fragment| match fragment {
            Fragment::Part => "-".to_owned(),
            Fragment::Frame(text) => String::from_utf8(text.to_vec()).unwrap(),
            Fragment::Malformed(_) => "!".to_owned(),
        };
        lines.iter().map(|line| text_of(reassembler.on_line(&short_line(line)))).collect()
    }

    /// Adds the length and the end to `NODE SEQ k/m TEXT`.
    fn short_line(line: &str) -> Vec<u8> {
        let parts: Vec<_> = line.splitn(4, ' ').collect();
        let [node, sequence, position, text] = parts.as_slice() else { return line.into() };
        format!("{node} {sequence} {position} {} {text} {node}", text.len()).into()
    }

    #[test]
    fn pieces_in_order_become_frames() {
        assert_eq!(reassemble(&["n 1 1/1 {}"]), ["{}"]);
        assert_eq!(
            reassemble(&["n 1 1/3 {\"a", "n 1 2/3 \":1", "n 1 3/3 }", "n 2 1/1 {}"])[2..],
            ["{\"a\":1}", "{}"]
        );
    }

    #[test]
    fn missing_repeated_or_reordered_pieces_are_reported_once_and_the_next_frame_is_read() {
        for (lines, wanted) in [
            (&["n 1 1/2 ab", "n 2 1/1 y", "n 3 1/1 z"][..], "-yz"),
            (&["n 1 1/2 ab", "n 2 1/2 y", "n 2 2/2 y", "n 3 1/1 z"], "-!yyz"),
            (&["n 1 2/2 ab", "n 2 1/1 z"], "!z"),
            (&["n 1 1/3 ab", "n 1 3/3 a", "n 2 1/1 z"], "-!z"),
            (&["n 1 1/3 ab", "n 1 1/3 ab", "n 1 2/3 cd", "n 2 1/1 z"], "-!-z"),
            (&["n 1 1/3 ab", "n 1 2/2 a", "n 1 3/3 a", "n 2 1/1 z"], "-!-z"),
            (&["n 1 1/3 abc", "n 1 2/3 ab", "n 1 3/3 a", "n 2 1/1 z"], "-!-z"),
            (&["n 1 1/2 abc", "n 1 2/2 abcd", "n 2 1/1 z"], "-!z"),
            (&["n 1 1/1 z", "n 1 1/1 z", "n 2 1/1 y"], "z!y"),
            (
                &["n 1 0/1 z", "n 1 2/1 z", "n 1 1/0 z", "n 1 1/1 ", "n 1 1/1", "n 1 1/1 z"],
                "!!!!!z",
            ),
            (&["n -1 1/1 z", "n +1 1/1 z", "n 1 1 z", " 1 1/1 z", "", "n 1 1/1 z"], "!!!!!z"),
            (&["n 1 1/99999999999 z", "n 1 1/1 z"], "!z"),
            (&["n 1 1/4000000000 z", "n 2 1/1 z"], "!z"),
            (&["n 18446744073709551615 2/3 z", "n 1 1/1 z"], "!z"),
        ] {
            assert_eq!(reassemble(lines).concat(), wanted, "{lines:?}");
        }
    }

    #[test]
    fn interleaved_lines_of_two_nodes_are_rejected() {
        let lines = ["a", "b"].map(|node| {
            let line = short_line(&format!("{node} 7 1/1 {{\"of\":\"{node}\",\"b\":1,\"a\":2}}"));
            String::from_utf8([SENTINEL, &line].concat()).unwrap()
        });
        let [one, other] = &lines;
        let is_line = |line: &str| address_of(line.as_bytes()).is_some();
        assert!(is_line(one) && is_line(other));
        for at in 1..one.len() {
            let ((head, tail), (other_head, other_tail)) = (one.split_at(at), other.split_at(at));
            let mixed = format!("{head}{other_tail}");
            let between = format!("{head}{other_head}{tail}");
            for line in [mixed, between] {
                let is_whole = lines.iter().any(|whole| line.ends_with(whole));
                assert!(!is_line(&line) || is_whole, "{line}");
            }
        }
    }

    #[test]
    fn the_size_of_a_frame_is_bounded() {
        let mut reassembler = Reassembler::default();
        let text = "x".repeat(800);
        let pieces = MAX_FRAME_BYTES / 800 + 1;
        for piece in 1..=pieces {
            let line = format!("n 1 {piece}/{pieces} {text}");
            assert!(
                !matches!(reassembler.on_line(&short_line(&line)), Fragment::Malformed(_)),
                "{piece}"
            );
        }
        let line = format!("n 2 1/{} {text}", pieces + 2);
        assert_eq!(
            reassembler.on_line(&short_line(&line)),
            Fragment::Malformed(MalformedFrame::TooLong)
        );
        assert!(matches!(
            reassembler.on_line("x".repeat(1 << 20).as_bytes()),
            Fragment::Malformed(_)
        ));
    }

    #[test]
    fn a_short_line_names_its_node() {
        for (line, node) in [
            (&b"\x1egtop1+ gpu01 7 1/2 4 {\"t\" gpu01"[..], Some("gpu01")),
            (b"noise\x1egtop1+ gpu02 7 1/2 1 x\x1egtop1+ gpu01 7 1/2 1 x gpu01", Some("gpu01")),
            (b"\x1egtop1 {}", None),
            (b"\x1egtop1+ gpu01 7 3/2 1 x gpu01", None),
            (b"\x1egtop1+ gpu01 7 1/2 1 x gpu02", None),
            (b"\x1egtop1+ gpu01 7 1/2 1 xx gpu01", None),
            (b"\x1egtop1+ gpu01 7 1/2 2 x gpu01", None),
            (b"\x1egtop1+ gpu01 7 1/2 1 x gpu01 ", None),
            (b"\x1egtop1+ \xff 7 1/2 1 x \xff", None),
            (b"", None),
        ] {
            assert_eq!(address_of(line).map(|(node, ..)| node), node);
        }
    }
}
