//! The loader's announcement, found among whatever a login shell prints before it.
//!
//! Nothing may be sent to a node before it: a login file that reads stdin, or starts another shell, would
//! swallow the script or run it line by line.

use super::{Interpreter, Script, strip_unsafe};

/// How much output before the announcement is kept for error messages.
const MAX_NOISE_BYTES: usize = 4096;

/// The state of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GreetingProgress {
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

/// Searches the first bytes of a session for the loader's announcement.
#[derive(Debug)]
pub struct Greeting {
    /// The announcement of each interpreter.
    announcements: [(Vec<u8>, Interpreter); 2],
    received: Vec<u8>,
}

impl Greeting {
    /// Expects a loader with this nonce.
    pub fn new(nonce: &str) -> Self {
        Self::with_python(nonce, nonce)
    }

    /// Expects a loader that sudo starts: it knows no nonce and announces the hash of the script it waits for.
    pub(crate) fn of_root(nonce: &str) -> Self {
        Self::with_python(nonce, &Script::Python.sha256())
    }

    fn with_python(nonce: &str, python: &str) -> Self {
        let shell = format!("{} NOPY", strip_unsafe(nonce));
        let announcements =
            [(strip_unsafe(python), Interpreter::Python), (shell, Interpreter::Shell)];
        Self {
            announcements: announcements
                .map(|(text, interpreter)| (format!("\n{text}\n").into_bytes(), interpreter)),
            received: Vec::new(),
        }
    }

    /// Adds received bytes; must not be called again after it has returned [`GreetingProgress::Ready`].
    pub fn push(&mut self, bytes: &[u8]) -> GreetingProgress {
        self.received.extend_from_slice(bytes);
        let found = self.find_announcement();
        let Some((start, end, interpreter)) = found else {
            // The end may be the start of an announcement, so more than the noise is kept.
            let longest = self.announcements.iter().map(|(text, _)| text.len()).max();
            self.truncate_to_last(MAX_NOISE_BYTES + longest.unwrap_or(0));
            return GreetingProgress::NotYet;
        };
        let rest = self.received.split_off(end);
        self.received.truncate(start);
        self.truncate_to_last(MAX_NOISE_BYTES);
        GreetingProgress::Ready { interpreter, rest }
    }

    /// Returns the last 4 kB of what came before the announcement, or of everything without one.
    pub fn noise(&self) -> &[u8] {
        let start = self.received.len().saturating_sub(MAX_NOISE_BYTES);
        self.received.get(start..).unwrap_or_default()
    }

    /// Returns where the announcement starts and ends, and its interpreter.
    fn find_announcement(&self) -> Option<(usize, usize, Interpreter)> {
        let found = self.announcements.iter().filter_map(|(text, interpreter)| {
            let start = self.received.windows(text.len()).position(|window| window == text)?;
            Some((start, start + text.len(), *interpreter))
        });
        found.min_by_key(|(start, ..)| *start)
    }

    fn truncate_to_last(&mut self, length: usize) {
        let excess = self.received.len().saturating_sub(length);
        self.received.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(interpreter: Interpreter, rest: &[u8]) -> GreetingProgress {
        GreetingProgress::Ready { interpreter, rest: rest.to_vec() }
    }

    #[test]
    fn an_announcement_is_found_after_noise_and_in_pieces() {
        for (text, interpreter, rest) in [
            ("\nn0nce\n", Interpreter::Python, ""),
            ("Welcome!\nno newline\x1b[0m\nn0nce\n\x1e", Interpreter::Python, "\x1e"),
            ("motd\n\nn0nce NOPY\n", Interpreter::Shell, ""),
            ("exec n0nce\n\nn0nce2\n+ n0nce\n\nn0nce NOPY\n", Interpreter::Shell, ""),
        ] {
            let mut whole = Greeting::new("n0nce");
            assert_eq!(
                whole.push(text.as_bytes()),
                ready(interpreter, rest.as_bytes()),
                "{text:?}"
            );
            let mut pieces = Greeting::new("n0nce");
            let last = text
                .bytes()
                .map(|byte| pieces.push(&[byte]))
                .find(|p| *p != GreetingProgress::NotYet);
            assert_eq!(last, Some(ready(interpreter, b"")), "{text:?}");
            assert_eq!(pieces.noise(), whole.noise());
        }
    }

    #[test]
    fn noise_is_the_output_before_the_announcement_and_bounded() {
        let mut greeting = Greeting::new("n0nce");
        assert_eq!(greeting.push(b"bash: no such thing\n"), GreetingProgress::NotYet);
        assert_eq!(greeting.noise(), b"bash: no such thing\n");
        assert_eq!(greeting.push(&vec![b'x'; 100_000]), GreetingProgress::NotYet);
        assert_eq!(greeting.noise().len(), MAX_NOISE_BYTES);
        assert_eq!(greeting.push(b"end\nn0nce\n"), ready(Interpreter::Python, b""));
        assert!(greeting.noise().ends_with(b"xend"));
        assert_eq!(greeting.noise().len(), MAX_NOISE_BYTES);
    }

    #[test]
    fn another_word_is_not_the_announcement() {
        let mut greeting = Greeting::new("n0nce");
        assert_eq!(
            greeting.push(b"n0nce\n n0nce\n\nn0nceX\n\nn0nce NOP\n\nn0nc"),
            GreetingProgress::NotYet
        );
    }
}
