//! Demultiplexes the output of a step by node.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::transport::srun::LineAddress;
use gtop_local::text::LineReader;
use gtop_model::NodeName;

/// Most bytes of a line; longer ones are dropped.
const MAX_LINE: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DemuxedLine {
    /// The announcement of a node's loader, in the form of a single node's loader.
    Announcement { node: NodeName, announcement: Vec<u8> },
    /// A line of a frame, with its newline. `hello`: `Some` if it belongs to a hello, true for the first line.
    Line { node: NodeName, line: Vec<u8>, hello: Option<bool> },
}

#[derive(Debug)]
pub(crate) struct Demux {
    nonce: String,
    lines: LineReader,
    /// The nodes of the step, and the message number of a hello in progress. Lines with other node names are
    /// dropped: a task can print anything.
    hellos: BTreeMap<NodeName, Option<u64>>,
    address_of: LineAddress,
}

impl Demux {
    pub(crate) fn new(nodes: &[NodeName], nonce: &str, address_of: LineAddress) -> Self {
        Self {
            nonce: nonce.to_owned(),
            lines: LineReader::new(MAX_LINE),
            hellos: nodes.iter().map(|node| (node.clone(), None)).collect(),
            address_of,
        }
    }

    /// Feeds bytes; calls `on_line` for each complete line.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut on_line: impl FnMut(DemuxedLine)) {
        self.lines.push(Bytes::copy_from_slice(bytes));
        while let Some(line) = self.lines.next_line() {
            let line = line.ok().filter(|line| line.len() < MAX_LINE);
            line.and_then(|line| self.parse_line(&line)).into_iter().for_each(&mut on_line);
        }
    }

    fn parse_line(&mut self, line: &[u8]) -> Option<DemuxedLine> {
        if let Some((name, number, is_first)) = (self.address_of)(line) {
            let node = NodeName::new(name).ok()?;
            let hello = hello_position(self.hellos.get_mut(&node)?, number, is_first);
            return Some(DemuxedLine::Line { node, line: [line, b"\n"].concat(), hello });
        }
        let text = std::str::from_utf8(line).ok()?.trim_end();
        let announcement = text.strip_prefix(&self.nonce)?.strip_prefix(' ')?;
        let (announcement, name) = match announcement.strip_prefix("NOPY ") {
            Some(name) => (format!("\n{} NOPY\n", self.nonce), name),
            None => (format!("\n{}\n", self.nonce), announcement),
        };
        let node = NodeName::new(name).ok().filter(|node| self.hellos.contains_key(node))?;
        Some(DemuxedLine::Announcement { node, announcement: announcement.into_bytes() })
    }
}

/// Returns true for the first line of a hello, false for a later one, `None` for other messages. `current` is the
/// hello in progress.
fn hello_position(current: &mut Option<u64>, number: u64, is_first: bool) -> Option<bool> {
    if !is_first && *current == Some(number) {
        return Some(false);
    }
    *current = is_first.then_some(number);
    is_first.then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(line: &[u8]) -> Option<(&str, u64, bool)> {
        let text = std::str::from_utf8(line).ok()?.strip_prefix("\x1e")?;
        let words: Vec<_> = text.split(' ').collect();
        Some((words.get(1)?, words.get(2)?.parse().ok()?, text.contains("hello")))
    }

    fn nodes() -> Vec<NodeName> {
        ["a", "b"].iter().map(|name| NodeName::new(name).unwrap()).collect()
    }

    fn demux_lines(pieces: &[&str]) -> Vec<String> {
        let mut demux = Demux::new(&nodes(), "n0nce", address);
        let mut found = Vec::new();
        for piece in pieces {
            demux.feed(piece.as_bytes(), |demuxed| {
                found.push(match demuxed {
                    DemuxedLine::Announcement { node, announcement } => {
                        format!("{node} {}", String::from_utf8(announcement).unwrap().trim())
                    }
                    DemuxedLine::Line { node, line, hello } => {
                        let line = String::from_utf8(line).unwrap();
                        format!("{node} {} {hello:?}", line.rsplit(' ').next().unwrap().trim_end())
                    }
                });
            });
        }
        found
    }

    #[test]
    fn lines_go_to_their_nodes_wherever_the_output_is_split() {
        let text = "\nn0nce a\nnoise\n\nn0nce NOPY b\n\x1egtop1+ a 1 1/2 {\"t\":\"hello\",\n\
                    \x1egtop1+ b 1 1/1 x\n\x1egtop1+ a 1 2/2 y\n\x1egtop1+ a 2 1/1 z\n";
        let wanted = [
            "a n0nce",
            "b n0nce NOPY",
            "a {\"t\":\"hello\", Some(true)",
            "b x None",
            "a y Some(false)",
            "a z None",
        ];
        for cut in 0..text.len() {
            let (front, back) = text.split_at(cut);
            assert_eq!(demux_lines(&[front, back]), wanted, "{cut}");
        }
    }

    #[test]
    fn unknown_lines_are_dropped_and_an_unfinished_line_is_bounded() {
        let mut demux = Demux::new(&nodes(), "n0nce", address);
        for _ in 0..100 {
            demux.feed(&[b'x'; 10_000], |demuxed| panic!("{demuxed:?}"));
            assert!(demux.lines.held() <= MAX_LINE);
        }
        for line in ["n0nce \n", "n0nce -x\n", "n0nce a;b\n", "n0nce\n", "\x1egtop1+ a;b 1 1/1 x\n"]
        {
            assert_eq!(demux_lines(&[line]), [""; 0], "{line:?}");
        }
    }

    #[test]
    fn made_up_node_names_are_not_stored() {
        let mut demux = Demux::new(&nodes(), "n0nce", address);
        for number in 0..1000 {
            for line in
                [format!("\x1egtop1+ x{number} 1 1/2 hello\n"), format!("\nn0nce x{number}\n")]
            {
                demux.feed(line.as_bytes(), |demuxed| panic!("{demuxed:?}"));
            }
        }
        assert_eq!(demux.hellos.len(), 2);
    }
}
