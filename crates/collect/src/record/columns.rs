//! Lines in columns: the values of each path of keys together, node by node, so that what is alike is near.
//!
//! The lines come back byte by byte, whatever JSON they are: with unknown keys, keys in any order, `null` apart from what is
//! absent, and numbers as they are written. docs/recordings.md describes the bytes.

use crate::record::columns::assemble::assemble;
use crate::record::columns::shred::Shredder;

mod assemble;
mod bytes;
mod decimal;
mod scan;
mod shred;

/// Columns of a block; a hostile node could send any number of keys.
const MAX_COLUMNS: usize = 8192;
/// Objects and lists within each other.
const MAX_DEPTH: usize = 32;
/// Values of all columns, with those that are absent.
const MAX_VALUES: usize = 1 << 25;
/// Places of a block: a list has one for each element.
const MAX_PLACES: usize = 1 << 21;

/// What a column has for a line, an object or an element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The object has no such key.
    Absent,
    Null,
    False,
    True,
    /// A whole number.
    Whole,
    /// A number with the fewest decimals, at least one.
    Decimal,
    /// A text, by its number.
    Text,
    /// Anything as it is written, by the number of its text.
    Written,
    Object,
    /// A list, by its length.
    List,
    /// A number with this many decimals.
    Padded(u8),
}

impl Kind {
    /// Those without decimals, by the byte that they are written as.
    const PLAIN: [Self; 10] = [
        Self::Absent,
        Self::Null,
        Self::False,
        Self::True,
        Self::Whole,
        Self::Decimal,
        Self::Text,
        Self::Written,
        Self::Object,
        Self::List,
    ];
    /// The byte of a number with no decimals, which is never written.
    const PADDED: u8 = 16;

    fn from_byte(byte: u8) -> Option<Self> {
        match byte.checked_sub(Self::PADDED) {
            Some(decimals) => Some(Self::Padded(decimals)),
            None => Self::PLAIN.get(usize::from(byte)).copied(),
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Null => 1,
            Self::False => 2,
            Self::True => 3,
            Self::Whole => 4,
            Self::Decimal => 5,
            Self::Text => 6,
            Self::Written => 7,
            Self::Object => 8,
            Self::List => 9,
            Self::Padded(decimals) => Self::PADDED + decimals,
        }
    }

    /// Returns true if the column has a number for it.
    fn has_number(self) -> bool {
        !matches!(self, Self::Absent | Self::Null | Self::False | Self::True | Self::Object)
    }
}

/// Returns lines, each with its end, in columns; `None` for what has too many different keys, or keys that are nearly always absent.
pub(super) fn encode(lines: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = lines.strip_suffix(b"\n")?.split(|byte| *byte == b'\n').collect();
    let mut shredder = Shredder::default();
    shredder.add(&lines)?;
    shredder.finish()
}

/// Returns the lines that are in columns, at most of this size; `None` if something is wrong.
pub(super) fn decode(columns: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
    assemble(columns, max_bytes)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const MAX_BYTES: usize = 64 << 20;

    /// Returns numbers that look random, the same ones for the same seed.
    fn random(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    /// Appends any JSON value, with things that a careless encoder would change.
    fn write_value(out: &mut String, depth: u64, random: &mut impl FnMut(u64) -> u64) {
        const WORDS: [&str; 27] = [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "1",
            "1.0",
            "1.00",
            "1.5",
            "10",
            "1e5",
            "1E-05",
            "-0.0",
            "0.5",
            "-0.25",
            "100.125",
            "18446744073709551615",
            "-9223372036854775808",
            "9223372036854775807",
            "0.1234567890123",
            "123456789012345678901234567890",
            "\"\"",
            "\"a\"",
            "\"\\\"\\\\\"",
            "\"\\u0007é\"",
            "[]",
            "{}",
        ];
        const KEYS: [&str; 7] = ["a", "b", "node", "at", "", "\\n", "é"];
        match random(if depth > 4 { 4 } else { 8 }) {
            0..=3 => {
                let word = usize::try_from(random(WORDS.len() as u64)).unwrap();
                out.push_str(WORDS[word]);
            }
            4 | 5 => {
                out.push('[');
                for number in 0..random(5) {
                    out.push_str(if number == 0 { "" } else { "," });
                    write_value(out, depth + 1, random);
                }
                out.push(']');
            }
            _ => {
                out.push('{');
                for number in 0..random(6) {
                    let key = usize::try_from(random(KEYS.len() as u64)).unwrap();
                    let comma = if number == 0 { "" } else { "," };
                    write!(out, "{comma}\"{}\":", KEYS[key]).unwrap();
                    write_value(out, depth + 1, random);
                }
                out.push('}');
            }
        }
    }

    #[test]
    fn any_lines_come_back() {
        for seed in 0..400 {
            let mut random = random(seed);
            let mut lines = String::new();
            for _ in 0..=random(60) {
                match random(12) {
                    0 => lines.push_str("no JSON: { \"a\" : 1}"),
                    1 => lines.push_str("{\"a\": 1}"),
                    _ => write_value(&mut lines, 0, &mut random),
                }
                lines.push('\n');
            }
            let columns = encode(lines.as_bytes()).unwrap();
            let decoded = decode(&columns, MAX_BYTES);
            assert!(decoded.as_deref() == Some(lines.as_bytes()), "seed {seed}: {lines}");
        }
    }

    #[test]
    fn damaged_columns_are_refused_or_bounded() {
        let lines: String = (0..100).fold(String::new(), |lines, number| {
            lines + &format!("{{\"node\":\"n{}\",\"x\":[{number},{{\"y\":0.5}}]}}\n", number % 3)
        });
        let columns = encode(lines.as_bytes()).unwrap();
        let mut refused = 0;
        for byte in 0..columns.len() {
            for bit in 0..8 {
                let mut damaged = columns.clone();
                damaged[byte] ^= 1 << bit;
                match decode(&damaged, 1 << 20) {
                    Some(decoded) => assert!(decoded.len() <= 1 << 20),
                    None => refused += 1,
                }
            }
        }
        assert!(refused > columns.len(), "{refused} of {} bits", columns.len() * 8);
        assert_eq!(decode(&columns, lines.len() / 2), None);
    }

    #[test]
    fn what_would_need_much_memory_is_refused() {
        // Each of these lines has few of the keys of the first one.
        let keys: Vec<String> = (0..8_000).map(|key| format!("\"{key}\":0")).collect();
        let sparse = format!("{{{}}}\n{}", keys.join(","), "{}\n".repeat(5_000));
        assert_eq!(encode(sparse.as_bytes()), None);
        let long = format!("[{}0]\n", "0,".repeat(MAX_PLACES));
        assert_eq!(encode(long.as_bytes()), None);
        assert!(encode(format!("[{}0]\n", "0,".repeat(1_000)).as_bytes()).is_some());
        let text = |content: &[u8]| {
            let mut out = Vec::new();
            bytes::write_text(&mut out, content);
            out
        };
        let numbers = |numbers: &[i64]| {
            let mut out = Vec::new();
            bytes::write_numbers(&mut out, numbers).unwrap();
            out
        };
        // A line that is a list, with a column of its elements.
        let columns = |length: usize| {
            let kinds = [text(&[9]), vec![0], text(&vec![1; length])].concat();
            let length = numbers(&[i64::try_from(length).unwrap()]);
            let lists = [&[0, 1, 0, 0, 0][..], &kinds, &length, &numbers(&[])].concat();
            [numbers(&[0]), vec![0], lists].concat()
        };
        assert_eq!(decode(&columns(2), MAX_BYTES).as_deref(), Some(&b"[null,null]\n"[..]));
        assert_eq!(decode(&columns(MAX_PLACES), MAX_BYTES), None);
        assert_eq!(decode(&columns(MAX_VALUES), MAX_BYTES), None);
    }
}
