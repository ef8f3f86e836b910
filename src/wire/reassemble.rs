//! Frames that travel as numbered short lines, where whatever carries them cuts long lines and mixes
//! the lines of many nodes.
//!
//! A line is `\x1egtop1+ NODE SEQ k/m LENGTH `, a piece of the frame's JSON of that many bytes, the
//! node once more, and a newline; at most [`MAX_LINE_BYTES`] bytes. Where lines were cut and mixed after
//! all, the beginning of one and the end of another differ in the node, and what was put in between
//! in the length. Pieces come in order; all but the last are of equal length. Anything else is a
//! frame that cannot be read, said once, and the next frame that begins is read again.

use bytes::{Bytes, BytesMut};

use crate::wire::frame::MalformedFrame;

/// What stands before the number of a short line.
pub(super) const SENTINEL: &[u8] = b"\x1egtop1+ ";
/// The longest short line, its newline included: what carries them takes 1024 bytes for one piece.
const MAX_LINE_BYTES: usize = 900;
/// Most bytes of a frame's JSON.
const FRAME_LIMIT: usize = 1 << 20;

/// One short line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'a> {
    node: &'a str,
    sequence: u64,
    piece: u32,
    pieces: u32,
    text: &'a [u8],
}

/// How the JSON of a hello begins.
const HELLO: &[u8] = b"{\"t\":\"hello\"";

/// Returns whose a line is, the number of its frame, and whether a hello begins with it; `None` for
/// what is no short line.
pub fn address_of(line: &[u8]) -> Option<(&str, u64, bool)> {
    let at = line.windows(SENTINEL.len()).rposition(|window| window == SENTINEL)?;
    let line = read(line.get(at + SENTINEL.len()..)?)?;
    Some((line.node, line.sequence, line.piece == 1 && line.text.starts_with(HELLO)))
}

/// Reads what stands after the sentinel.
fn read(text: &[u8]) -> Option<Line<'_>> {
    if text.len() + SENTINEL.len() > MAX_LINE_BYTES {
        return None;
    }
    let mut words = text.splitn(5, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    let (node, sequence, place, length) = (word()?, number(word()?)?, word()?, number(word()?)?);
    let (piece, pieces) = place.split_once('/')?;
    let (piece, pieces) = (number(piece)?, number(pieces)?);
    let (text, end) = words.next()?.split_at_checked(usize::try_from(length).ok()?)?;
    if end.strip_prefix(b" ")? != node.as_bytes() {
        return None;
    }
    let is_right = !node.is_empty() && 0 < piece && piece <= pieces && !text.is_empty();
    let (piece, pieces) = (u32::try_from(piece).ok()?, u32::try_from(pieces).ok()?);
    is_right.then_some(Line { node, sequence, piece, pieces, text })
}

/// Reads digits and nothing else.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Puts the frames of one node together again.
#[derive(Debug, Default)]
pub(super) struct Reassembler {
    /// The frame that is under way.
    frame: Option<Begun>,
    /// The number of the last frame that was complete or given up.
    last: Option<u64>,
}

#[derive(Debug)]
struct Begun {
    sequence: u64,
    pieces: u32,
    /// How many have come.
    count: u32,
    /// How long each of them is, but for the last.
    length: usize,
    text: BytesMut,
}

/// What a short line makes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fragment {
    /// A part of a frame.
    Part,
    /// The JSON of a frame.
    Frame(Bytes),
    /// A frame that is lost.
    Broken(MalformedFrame),
}

impl Reassembler {
    /// Takes what stands after the sentinel of a line.
    pub(super) fn take(&mut self, text: &[u8]) -> Fragment {
        let Some(line) = read(text) else { return self.broken(None, "a short line of no form") };
        if line.piece == 1 {
            let is_old = self.last.is_some_and(|last| line.sequence <= last);
            let lost = self.frame.take().map(|lost| lost.sequence);
            if is_old || lost == Some(line.sequence) {
                return self.broken(lost, "a frame that has come before");
            }
            self.last = self.last.max(lost);
            return match (self.begin(line), lost) {
                (Fragment::Part, Some(_)) => {
                    Fragment::Broken(MalformedFrame::Pieces("the end of a frame is missing"))
                }
                // Of a whole sample the number tells that one is missing.
                (made, _) => made,
            };
        }
        let Some(begun) = &mut self.frame else {
            let is_said = self.last.is_some_and(|last| line.sequence <= last);
            if is_said {
                return Fragment::Part;
            }
            return self.broken(Some(line.sequence), "the beginning of a frame is missing");
        };
        let is_next = line.sequence == begun.sequence
            && line.pieces == begun.pieces
            && line.piece == begun.count + 1;
        let is_last = line.piece == line.pieces;
        let is_right_length =
            line.text.len() == begun.length || (is_last && line.text.len() < begun.length);
        if !is_next || !is_right_length {
            let both = begun.sequence.max(line.sequence);
            return self.broken(Some(both), "pieces of a frame are missing");
        }
        begun.text.extend_from_slice(line.text);
        begun.count += 1;
        if is_last { self.finish() } else { Fragment::Part }
    }

    fn begin(&mut self, line: Line<'_>) -> Fragment {
        let length = line.text.len();
        let bound = usize::try_from(line.pieces).unwrap_or(usize::MAX).saturating_mul(length);
        if bound > FRAME_LIMIT + MAX_LINE_BYTES {
            self.last = Some(line.sequence);
            return Fragment::Broken(MalformedFrame::TooLong);
        }
        let mut text = BytesMut::with_capacity(bound.min(16 << 10));
        text.extend_from_slice(line.text);
        let Line { sequence, pieces, .. } = line;
        self.frame = Some(Begun { sequence, pieces, count: 1, length, text });
        if pieces == 1 { self.finish() } else { Fragment::Part }
    }

    fn finish(&mut self) -> Fragment {
        let Some(begun) = self.frame.take() else { return Fragment::Part };
        self.last = Some(begun.sequence);
        Fragment::Frame(begun.text.freeze())
    }

    fn broken(&mut self, sequence: Option<u64>, why: &'static str) -> Fragment {
        self.frame = None;
        // A node cannot silence itself for ever by one high number: what is too far off is not kept.
        let near = self.last.unwrap_or_default().saturating_add(1000);
        self.last = self.last.max(sequence.filter(|sequence| *sequence <= near));
        Fragment::Broken(MalformedFrame::Pieces(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(lines: &[&str]) -> Vec<String> {
        let mut puzzle = Reassembler::default();
        let words = |made| match made {
            Fragment::Part => "-".to_owned(),
            Fragment::Frame(text) => String::from_utf8(text.to_vec()).unwrap(),
            Fragment::Broken(_) => "!".to_owned(),
        };
        lines.iter().map(|line| words(puzzle.take(&whole(line)))).collect()
    }

    /// Adds the length and the end to `NODE SEQ k/m TEXT`.
    fn whole(line: &str) -> Vec<u8> {
        let parts: Vec<_> = line.splitn(4, ' ').collect();
        let [node, sequence, place, text] = parts.as_slice() else { return line.into() };
        format!("{node} {sequence} {place} {} {text} {node}", text.len()).into()
    }

    #[test]
    fn pieces_in_order_make_frames() {
        assert_eq!(made(&["n 1 1/1 {}"]), ["{}"]);
        assert_eq!(
            made(&["n 1 1/3 {\"a", "n 1 2/3 \":1", "n 1 3/3 }", "n 2 1/1 {}"])[2..],
            ["{\"a\":1}", "{}"]
        );
    }

    #[test]
    fn whatever_is_missing_doubled_or_out_of_order_is_said_once_and_the_next_frame_is_read() {
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
            assert_eq!(made(lines).concat(), wanted, "{lines:?}");
        }
    }

    #[test]
    fn lines_of_two_nodes_cut_at_the_same_place_are_of_neither() {
        let lines = ["a", "b"].map(|node| {
            let line = whole(&format!("{node} 7 1/1 {{\"of\":\"{node}\",\"b\":1,\"a\":2}}"));
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
    fn a_frame_is_bounded_whatever_its_lines_promise() {
        let mut puzzle = Reassembler::default();
        let text = "x".repeat(800);
        let most = FRAME_LIMIT / 800 + 1;
        for piece in 1..=most {
            let line = format!("n 1 {piece}/{most} {text}");
            assert!(!matches!(puzzle.take(&whole(&line)), Fragment::Broken(_)), "{piece}");
        }
        let line = format!("n 2 1/{} {text}", most + 2);
        assert_eq!(puzzle.take(&whole(&line)), Fragment::Broken(MalformedFrame::TooLong));
        assert!(matches!(puzzle.take("x".repeat(1 << 20).as_bytes()), Fragment::Broken(_)));
    }

    #[test]
    fn a_line_says_whose_it_is() {
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
