//! What a node's programs say before they give up: the last of it, for whoever asks why.

use std::time::Duration;

use tokio::time::timeout;

use crate::model::clean;
use crate::transport::{Channel, Output};

/// How much of what a node prints on its error output is kept.
const KEPT: usize = 1024;
/// Characters that are told of it.
const TOLD: usize = 200;
/// How long the last words may come after the end they explain: servers tell of the one before they have
/// read the other.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The last a command said on its error output.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    bytes: Vec<u8>,
}

impl Complaint {
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let start = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..start);
    }

    /// Hears what still comes of a command that has ended.
    pub(super) async fn hear_out(&mut self, channel: &mut Channel) {
        let rest = async {
            loop {
                match channel.next().await {
                    Output::Stderr(bytes) => self.hear(&bytes),
                    Output::Closed(_) => break,
                    Output::Stdout(_) | Output::Exit(_) => {}
                }
            }
        };
        timeout(LAST_WORDS, rest).await.ok();
    }

    /// Adds to what happened what was printed before it, on the usual output and on this one.
    pub(super) fn explain(&self, how: String, noise: &[u8]) -> String {
        after(how, &[noise, b"\n", &self.bytes].concat())
    }
}

/// Adds to what happened the last lines that were printed before, where there were any.
pub(super) fn after(how: String, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let mut told = String::new();
    for line in said.lines().rev() {
        let line = clean(line, KEPT);
        let longer = if told.is_empty() { line } else { format!("{line} {told}") };
        if !told.is_empty() && longer.chars().count() > TOLD {
            break;
        }
        longer.trim_start().clone_into(&mut told);
    }
    if told.is_empty() { how } else { format!("{how}, after: {}", clean(&told, TOLD)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(said: &str) -> String {
        after("it ended".to_owned(), said.as_bytes())
    }

    #[test]
    fn the_last_lines_explain_an_end() {
        assert_eq!(told(""), "it ended");
        assert_eq!(told(" \r\n\n"), "it ended");
        assert_eq!(told("a\nb\r\n"), "it ended, after: a b");
        let trace = format!("Traceback:\n{}ModuleNotFoundError: mmap\n", "  a line\n".repeat(40));
        let sentence = told(&trace);
        assert!(sentence.ends_with("a line ModuleNotFoundError: mmap"), "{sentence}");
        assert!(!sentence.contains("Traceback") && sentence.chars().count() <= 220, "{sentence}");
        assert!(!told("a\x1b[2J\u{202e}b").contains(['\u{1b}', '\u{202e}']));
        let long = told(&format!("first\n{}", "x".repeat(5000)));
        assert!(long.contains("after: xxx") && long.chars().count() <= 220, "{long}");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut complaint = Complaint::default();
        for _ in 0..1000 {
            complaint.hear(b"yes, but\n");
        }
        complaint.hear(b"the end\n");
        assert!(complaint.bytes.len() <= KEPT);
        let said = complaint.explain("it ended".to_owned(), b"hello\n");
        assert!(said.ends_with("yes, but the end"), "{said}");
    }
}
