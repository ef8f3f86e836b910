//! The last lines a command printed before it failed, for the error message.

use gtop_local::text::sanitize;

/// How much of the standard error is kept.
const MAX_TAIL_BYTES: usize = 1024;
/// Characters shown of it.
const MAX_SHOWN_CHARS: usize = 200;

/// The tail of a command's standard error.
#[derive(Debug, Default)]
pub(super) struct StderrTail {
    bytes: Vec<u8>,
}

impl StderrTail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let start = self.bytes.len().saturating_sub(MAX_TAIL_BYTES);
        self.bytes.drain(..start);
    }

    /// Appends the last lines printed on standard output (`noise`) and standard error.
    pub(super) fn append_to_message(&self, message: String, noise: &[u8]) -> String {
        append_output(message, &[noise, b"\n", &self.bytes].concat())
    }
}

/// Appends the last printed lines, if any.
pub(super) fn append_output(message: String, output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    let mut tail = String::new();
    for line in output.lines().rev() {
        let line = sanitize(line, MAX_TAIL_BYTES);
        let longer = if tail.is_empty() { line } else { format!("{line} {tail}") };
        if !tail.is_empty() && longer.chars().count() > MAX_SHOWN_CHARS {
            break;
        }
        longer.trim_start().clone_into(&mut tail);
    }
    if tail.is_empty() {
        message
    } else {
        format!("{message}, after: {}", sanitize(&tail, MAX_SHOWN_CHARS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_after(output: &str) -> String {
        append_output("it ended".to_owned(), output.as_bytes())
    }

    #[test]
    fn the_last_printed_lines_are_appended() {
        assert_eq!(message_after(""), "it ended");
        assert_eq!(message_after(" \r\n\n"), "it ended");
        assert_eq!(message_after("a\nb\r\n"), "it ended, after: a b");
        let trace = format!("Traceback:\n{}ModuleNotFoundError: mmap\n", "  a line\n".repeat(40));
        let message = message_after(&trace);
        assert!(message.ends_with("a line ModuleNotFoundError: mmap"), "{message}");
        assert!(!message.contains("Traceback") && message.chars().count() <= 220, "{message}");
        assert!(!message_after("a\x1b[2J\u{202e}b").contains(['\u{1b}', '\u{202e}']));
        let long = message_after(&format!("first\n{}", "x".repeat(5000)));
        assert!(long.contains("after: xxx") && long.chars().count() <= 220, "{long}");
    }

    #[test]
    fn the_tail_is_bounded() {
        let mut stderr = StderrTail::default();
        for _ in 0..1000 {
            stderr.push(b"yes, but\n");
        }
        stderr.push(b"the end\n");
        assert!(stderr.bytes.len() <= MAX_TAIL_BYTES);
        let message = stderr.append_to_message("it ended".to_owned(), b"hello\n");
        assert!(message.ends_with("yes, but the end"), "{message}");
    }
}
