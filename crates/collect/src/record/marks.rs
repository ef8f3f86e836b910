//! Marks, as JSON in a recording: in its lines and in its indexes.

use std::sync::Arc;

use crate::record::value::{node_name, text};
use crate::wire::objects;
use gtop_local::time::Timestamp;
use gtop_model::{Mark, MarkKind, NodeName, Severity};

/// Maximum number of nodes of a mark.
const MAX_NODES: usize = 16_384;

objects! {
    /// A mark without its time.
    pub(super) struct MarkLine {
        kind: String,
        text: Arc<str>,
        severity: String,
        /// The text without the node and the device.
        event: Arc<str>,
        nodes?: Vec<String>,
        device?: Option<Arc<str>>,
        meaning?: Arc<str>,
        remedy?: Arc<str>,
    }
}

impl From<&Mark> for MarkLine {
    fn from(mark: &Mark) -> Self {
        Self {
            kind: mark.kind.as_str().to_owned(),
            text: Arc::clone(&mark.text),
            severity: mark.severity.as_str().to_owned(),
            event: Arc::clone(&mark.event),
            nodes: mark.nodes.iter().map(|node| node.as_str().to_owned()).collect(),
            device: mark.device.clone(),
            meaning: Arc::clone(&mark.meaning),
            remedy: Arc::clone(&mark.remedy),
        }
    }
}

impl MarkLine {
    /// Returns a mark as earlier versions write it.
    pub(super) fn plain(kind: &str, text: &str) -> Self {
        Self { kind: kind.to_owned(), text: text.into(), ..Self::default() }
    }

    /// Returns the mark; `None` if this version does not know what it marks.
    pub(super) fn to_mark(&self, at: Timestamp) -> Option<Mark> {
        let kind = MarkKind::ALL.into_iter().find(|kind| kind.as_str() == self.kind)?;
        let plain = Mark::plain(at, kind, text(&self.text));
        let severity = Severity::ALL.into_iter().find(|known| known.as_str() == self.severity);
        let nodes = self.nodes.iter().take(MAX_NODES).filter_map(|name| node_name(name));
        Some(Mark {
            severity: severity.unwrap_or(plain.severity),
            event: if self.event.is_empty() { plain.event } else { text(&self.event) },
            nodes: nodes.collect::<Vec<NodeName>>().into(),
            device: self.device.as_deref().map(text),
            meaning: text(&self.meaning),
            remedy: text(&self.remedy),
            ..plain
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_an_earlier_one_has_its_words() {
        let at = Timestamp::from_micros(1_000_000);
        for kind in MarkKind::ALL {
            let mark = Mark {
                severity: Severity::Notice,
                event: "xid 79".into(),
                nodes: ["gpu01", "gpu02"].map(|name| NodeName::new(name).unwrap()).into(),
                device: Some("GPU-a".into()),
                meaning: "it fell off the bus".into(),
                remedy: "reboot the node".into(),
                ..Mark::plain(at, kind, "gpu01 #3: xid 79")
            };
            let text = serde_json::to_string(&MarkLine::from(&mark)).unwrap();
            let line: MarkLine = serde_json::from_str(&text).unwrap();
            assert_eq!(line.to_mark(at), Some(mark));
            let earlier = MarkLine::plain(kind.as_str(), "words").to_mark(at);
            assert_eq!(earlier, Some(Mark::plain(at, kind, "words")));
        }
        assert_eq!(MarkLine::plain("later", "words").to_mark(at), None);
        let hostile =
            r#"{"kind":"down","text":"\u001b[2Jx","nodes":["--x","a"],"remedy":"\u0007"}"#;
        let mark = serde_json::from_str::<MarkLine>(hostile).unwrap().to_mark(at).unwrap();
        assert!(!mark.text.contains('\u{1b}') && !mark.remedy.contains('\u{7}'));
    }
}
