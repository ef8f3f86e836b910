//! Cuts lines out of a stream of bytes.

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// The bytes of a stream that are no whole line yet.
#[derive(Debug)]
pub struct LineReader {
    buffer: BytesMut,
    /// Bytes of `buffer` known to hold no newline.
    scanned: usize,
    /// Inside a line that was too long.
    is_skipping: bool,
    max_length: usize,
}

/// A line was longer than the reader keeps; the rest of it is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl LineReader {
    /// Returns a reader that keeps this many bytes of a line.
    pub fn new(max_length: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, is_skipping: false, max_length }
    }

    /// Returns the number of bytes that wait for the end of their line.
    #[cfg(any(test, feature = "testing"))]
    pub fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Adds received bytes. Those that begin a line become the buffer, which is nearly always all of it.
    pub fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if self.buffer.is_empty() {
            self.buffer = bytes.into();
        } else {
            self.buffer.extend_from_slice(&bytes);
        }
    }

    /// Returns the next line without its newline; `None` when more bytes are needed.
    pub fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        loop {
            let fresh = self.buffer.get(self.scanned..)?;
            let Some(end) = memchr(b'\n', fresh).map(|at| self.scanned + at) else {
                self.scanned = self.buffer.len();
                if self.scanned <= self.max_length {
                    return None;
                }
                self.buffer.clear();
                self.scanned = 0;
                let is_first = !std::mem::replace(&mut self.is_skipping, true);
                return is_first.then_some(Err(LineTooLong));
            };
            let line = self.buffer.split_to(end + 1).freeze();
            self.scanned = 0;
            if self.buffer.is_empty() {
                // Between lines there is no buffer; the longest line would set its size.
                self.buffer = BytesMut::new();
            }
            if !std::mem::take(&mut self.is_skipping) {
                return Some(Ok(line.slice(..end)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_stream_is_and_long_ones_are_skipped() {
        let stream = b"one\n\nthree\nmuch too long\nfive\nsix";
        for step in [1, 4, 100] {
            let mut reader = LineReader::new(6);
            let mut found = Vec::new();
            for bytes in stream.chunks(step) {
                reader.push(Bytes::copy_from_slice(bytes));
                while let Some(line) = reader.next_line() {
                    found.push(line.map_or("too long".into(), |line| {
                        String::from_utf8_lossy(&line).into_owned()
                    }));
                }
            }
            // One that is there as a whole costs nothing more.
            let long = if step == 100 { "much too long" } else { "too long" };
            assert_eq!(found, ["one", "", "three", long, "five"], "{step}");
        }
    }
}
