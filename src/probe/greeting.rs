//! The loader's announcement, found among whatever a login shell prints before it.
//!
//! Nothing may be sent to a node before it: a login file that reads stdin, or starts another shell, would
//! swallow the script or run it line by line.

use super::{Interpreter, plain};

/// How much of what came before the announcement is kept, for error messages.
const NOISE: usize = 4096;

/// What is known of the loader so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It has not announced itself.
    NotYet,
    /// It waits for the script; `rest` are the bytes that came after the announcement.
    Ready {
        /// What will run the script.
        interpreter: Interpreter,
        /// Bytes after the announcement, the first of the frames.
        rest: Vec<u8>,
    },
}

/// Takes a session's first bytes until the loader has announced itself.
#[derive(Debug)]
pub struct Greeting {
    mark: Vec<u8>,
    seen: Vec<u8>,
}

impl Greeting {
    /// Waits for a loader started with this nonce.
    pub fn new(nonce: &str) -> Self {
        Self { mark: format!("\n{}", plain(nonce)).into_bytes(), seen: Vec::new() }
    }

    /// Takes the next bytes; not to be called again once it has returned [`Progress::Ready`].
    pub fn feed(&mut self, bytes: &[u8]) -> Progress {
        self.seen.extend_from_slice(bytes);
        let found = self.announcement();
        let Some((start, end, interpreter)) = found else {
            // A mark may be under way at the end, so more than the noise is kept until then.
            self.keep_last(NOISE + self.mark.len() + 8);
            return Progress::NotYet;
        };
        let rest = self.seen.split_off(end);
        self.seen.truncate(start);
        self.keep_last(NOISE);
        Progress::Ready { interpreter, rest }
    }

    /// Returns the last 4 kB of what came before the announcement, or of everything without one.
    pub fn noise(&self) -> &[u8] {
        let start = self.seen.len().saturating_sub(NOISE);
        self.seen.get(start..).unwrap_or_default()
    }

    /// Where the announcement starts and ends.
    fn announcement(&self) -> Option<(usize, usize, Interpreter)> {
        let starts = self.seen.windows(self.mark.len()).enumerate();
        starts.filter(|(_, window)| *window == self.mark).find_map(|(start, _)| {
            let after = start + self.mark.len();
            let tail = self.seen.get(after..)?;
            if tail.starts_with(b"\n") {
                return Some((start, after + 1, Interpreter::Python));
            }
            let nopy = b" NOPY\n";
            tail.starts_with(nopy).then_some((start, after + nopy.len(), Interpreter::Shell))
        })
    }

    fn keep_last(&mut self, most: usize) {
        let excess = self.seen.len().saturating_sub(most);
        self.seen.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(interpreter: Interpreter, rest: &[u8]) -> Progress {
        Progress::Ready { interpreter, rest: rest.to_vec() }
    }

    #[test]
    fn an_announcement_is_found_after_noise_and_in_any_pieces() {
        for (text, interpreter, rest) in [
            ("\nn0nce\n", Interpreter::Python, ""),
            ("Welcome!\nno newline\x1b[0m\nn0nce\n\x1e", Interpreter::Python, "\x1e"),
            ("motd\n\nn0nce NOPY\n", Interpreter::Shell, ""),
            ("exec n0nce\n\nn0nce2\n+ n0nce\n\nn0nce NOPY\n", Interpreter::Shell, ""),
        ] {
            let mut whole = Greeting::new("n0nce");
            assert_eq!(
                whole.feed(text.as_bytes()),
                ready(interpreter, rest.as_bytes()),
                "{text:?}"
            );
            let mut pieces = Greeting::new("n0nce");
            let last =
                text.bytes().map(|byte| pieces.feed(&[byte])).find(|p| *p != Progress::NotYet);
            assert_eq!(last, Some(ready(interpreter, b"")), "{text:?}");
            assert_eq!(pieces.noise(), whole.noise());
        }
    }

    #[test]
    fn noise_is_what_came_before_and_is_bounded() {
        let mut greeting = Greeting::new("n0nce");
        assert_eq!(greeting.feed(b"bash: no such thing\n"), Progress::NotYet);
        assert_eq!(greeting.noise(), b"bash: no such thing\n");
        assert_eq!(greeting.feed(&vec![b'x'; 100_000]), Progress::NotYet);
        assert_eq!(greeting.noise().len(), NOISE);
        assert_eq!(greeting.feed(b"end\nn0nce\n"), ready(Interpreter::Python, b""));
        assert!(greeting.noise().ends_with(b"xend"));
        assert_eq!(greeting.noise().len(), NOISE);
    }

    #[test]
    fn another_word_is_not_the_announcement() {
        let mut greeting = Greeting::new("n0nce");
        assert_eq!(
            greeting.feed(b"n0nce\n n0nce\n\nn0nceX\n\nn0nce NOP\n\nn0nc"),
            Progress::NotYet
        );
    }
}
