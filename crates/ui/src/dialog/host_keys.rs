//! The question about hosts whose keys are not known: the keys, the answer as `ssh` takes it, and what follows.
//!
//! A changed or revoked key is never accepted here: it is listed with what to do about it.

use std::ops::ControlFlow;

use crate::dialog::dialog_step::DialogStep;
use crate::input::{Key, NamedKey};
use crate::render_context::RenderContext;
use crate::request::UiRequest;
use crate::view::View;
use crate::widgets::line::{Line, Tone, wrap};
use crate::widgets::line_editor::LineEditor;
use crate::widgets::list::{Movement, Viewport};
use gtop_local::text::counted;
use gtop_local::text::{sanitized_chars, width_of};
use gtop_model::{
    FaultKind, HostKey, HostKeyAnswer, HostKeyQuestion, HostKeyReply, HostKeyRequest, Link,
    NodeName, RefusedHost, RequestError, UnknownHost,
};

/// Longest answer: the fingerprints of a large cluster.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Maximum lines for the reason why a key is refused, and for what to do about it.
const MAX_REFUSAL_LINES: usize = 6;

/// Columns of the name of an algorithm.
const ALGORITHM_WIDTH: u16 = 20;

/// Rows that a page key scrolls.
const PAGE: usize = 10;

/// Lines around the list: the question, the advice, what is wrong with the answer, the input.
const LINES_AROUND: usize = 4;

/// The dialog, from the fetching of keys to the last answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostKeyDialog {
    step: HostKeyStep,
    question: HostKeyQuestion,
    answer: LineEditor,
    /// The result of the previous answer.
    note: Option<(String, Tone)>,
    viewport: Viewport,
    /// Keys stored so far.
    stored: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum HostKeyStep {
    Fetching(Vec<NodeName>),
    Asking,
    Storing,
}

impl HostKeyDialog {
    /// Opens the question about the shown nodes whose keys are not known, in the node view about that node alone. Returns
    /// the reason if there is nothing to ask.
    pub(crate) fn new(
        context: RenderContext<'_>,
        view: View,
        selected: Option<&NodeName>,
    ) -> Result<Self, String> {
        if context.options.is_readonly {
            return Err(RequestError::ReadOnly.to_string());
        }
        let unknown = context.view.nodes_with_unknown_key();
        let unknown = unknown.filter(|name| view != View::Node || selected == Some(*name));
        let unknown: Vec<NodeName> = unknown.cloned().collect();
        if unknown.is_empty() {
            let node = selected.and_then(|name| context.view.fleet.node(name));
            return Err(node.and_then(|node| unacceptable(&node.link)).map_or_else(
                || "no host here has an unknown key".to_owned(),
                |kind| format!("{}: gtop never accepts such a key here", kind.label()),
            ));
        }
        Ok(Self {
            step: HostKeyStep::Fetching(unknown),
            question: HostKeyQuestion::default(),
            answer: LineEditor::new("", MAX_ANSWER_BYTES),
            note: None,
            viewport: Viewport::default(),
            stored: 0,
        })
    }

    /// Returns true while an answer is typed.
    pub(crate) fn is_typing(&self) -> bool {
        self.step == HostKeyStep::Asking && !self.question.unknown.is_empty()
    }

    /// Returns true if nothing is left to ask, and what has been stored may be used.
    pub(crate) fn is_answered(&self) -> bool {
        self.step == HostKeyStep::Asking && self.question.unknown.is_empty() && self.stored > 0
    }

    /// Returns what is requested when the dialog opens.
    pub(crate) fn opening_request(&self) -> Option<UiRequest> {
        let HostKeyStep::Fetching(nodes) = &self.step else { return None };
        Some(UiRequest::HostKeys(HostKeyRequest::Fetch(nodes.clone())))
    }

    /// Returns what is requested when it is closed: hosts that are known now are connected to.
    pub(crate) fn closing_request(&self) -> Option<UiRequest> {
        let is_known =
            self.step == HostKeyStep::Asking && self.question == HostKeyQuestion::default();
        (self.stored > 0 || is_known).then_some(UiRequest::Refresh)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are typed or mean nothing")]
    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        match key {
            Key::Named(NamedKey::Escape) | Key::Control('c') => return ControlFlow::Break(None),
            Key::Named(NamedKey::Enter) if self.is_typing() => return self.on_answer(),
            // The next line of a paste that the terminal does not mark: part of the next answer.
            Key::Named(NamedKey::Enter) if self.step == HostKeyStep::Storing => {
                self.answer.on_key(Key::Letter(' '));
            }
            Key::Named(NamedKey::Up | NamedKey::Down | NamedKey::PageUp | NamedKey::PageDown) => {
                if let Some(movement) = Movement::from_key(key) {
                    let (top, count) = (self.viewport.top, self.rows(u16::MAX).len());
                    self.viewport.top = movement.new_index(top, count, PAGE);
                }
            }
            key if self.is_typing() || self.step == HostKeyStep::Storing => {
                self.answer.on_key(key);
            }
            _ => {}
        }
        ControlFlow::Continue(None)
    }

    /// Inserts pasted text, such as the lines of `ssh-keygen -l`, as one answer.
    pub(crate) fn on_paste(&mut self, text: &str) {
        if !self.is_typing() {
            return;
        }
        let (before, after) = self.answer.parts();
        let room = MAX_ANSWER_BYTES.saturating_sub(before.len() + after.len());
        let pasted: String = sanitized_chars(text.trim()).take(room / 4).collect();
        let caret = self.answer.caret() + pasted.chars().count();
        self.answer.set(&format!("{before}{pasted}{after}"), caret);
    }

    fn on_answer(&mut self) -> DialogStep {
        let text = self.answer.text().to_owned();
        self.answer.set("", 0);
        let answer = HostKeyAnswer::parse(&text);
        let accepted = self.question.accepted(&answer);
        let problem = match answer {
            HostKeyAnswer::No => return ControlFlow::Break(None),
            HostKeyAnswer::Unclear => "please type yes, no or a fingerprint".to_owned(),
            HostKeyAnswer::Fingerprints(_) if accepted.is_empty() => {
                let which =
                    if self.question.unknown.len() == 1 { "this host" } else { "these hosts" };
                format!("no key of {which} has that fingerprint; nothing was accepted")
            }
            HostKeyAnswer::Yes | HostKeyAnswer::Fingerprints(_) => {
                self.step = HostKeyStep::Storing;
                String::new()
            }
        };
        if accepted.is_empty() {
            self.note = Some((problem, Tone::Bad));
            return ControlFlow::Continue(None);
        }
        self.question.remove(&accepted);
        ControlFlow::Continue(Some(UiRequest::HostKeys(HostKeyRequest::Accept(accepted))))
    }

    /// Handles a reply; a text closes the dialog and is shown.
    pub(crate) fn on_reply(&mut self, reply: HostKeyReply) -> ControlFlow<String> {
        match reply {
            HostKeyReply::Fetched(question) if question == HostKeyQuestion::default() => {
                self.step = HostKeyStep::Asking;
                return ControlFlow::Break("all host keys are known now; connecting".to_owned());
            }
            HostKeyReply::Fetched(question) => self.question = question,
            HostKeyReply::NotStored(why) => return ControlFlow::Break(why),
            HostKeyReply::Stored(count, question) => {
                self.stored += count;
                self.question.unknown.splice(0..0, question.unknown);
                self.question.refused.extend(question.refused);
                let stored = format!("{} stored", counted(self.stored, "host key"));
                let note = match self.question.unknown.len() {
                    // The rest of a paste must not act as keys.
                    0 if self.answer.text().is_empty() => {
                        return ControlFlow::Break(format!("{stored}; connecting"));
                    }
                    0 => format!("{stored}; connecting"),
                    1 => format!("{stored}; 1 host left"),
                    left => format!("{stored}; {left} hosts left"),
                };
                self.note = Some((note, Tone::Strong));
            }
        }
        self.step = HostKeyStep::Asking;
        self.viewport.top = 0;
        ControlFlow::Continue(())
    }

    pub(crate) fn lines(&self, width: u16, max_lines: usize) -> Vec<Line> {
        let waiting = match &self.step {
            HostKeyStep::Fetching(nodes) => {
                let nodes = counted(nodes.len(), "node");
                Some(format!("asking {nodes} for host keys…"))
            }
            HostKeyStep::Storing => {
                Some("storing, and asking the nodes behind gateways…".to_owned())
            }
            HostKeyStep::Asking => None,
        };
        if let Some(text) = waiting {
            return vec![Line::styled(text, Tone::Faint).truncated(width)];
        }
        let rows = self.rows(width);
        let room = max_lines.saturating_sub(LINES_AROUND).max(1);
        let viewport = self.viewport.scrolled_to(room, rows.len(), None);
        let question = Line::styled(self.question_text(), Tone::Warn);
        let mut lines =
            vec![viewport.with_position(None, question, rows.len(), width).truncated(width)];
        let shown = rows.get(viewport.range(rows.len())).unwrap_or_default();
        lines.extend(shown.iter().cloned().map(|row| row.truncated(width)));
        let note = self.note.as_ref();
        let note = note.map(|(text, tone)| Line::styled(text.as_str(), *tone).truncated(width));
        if self.question.unknown.is_empty() {
            lines.extend(note);
            return lines;
        }
        let advice = "compare with the fingerprints that the administrator published";
        lines.push(Line::styled(advice, Tone::Faint).truncated(width));
        lines.extend(note);
        let prompt = match self.question.unknown.len() {
            1 => "yes, no or the fingerprint: ".to_owned(),
            count => format!("yes to all {count}, no, or fingerprints: "),
        };
        lines.push(self.answer.line(&prompt, width));
        lines
    }

    fn question_text(&self) -> String {
        match self.question.unknown.as_slice() {
            [] if self.stored > 0 => "all hosts have been answered".to_owned(),
            [] => "there are no keys to ask about".to_owned(),
            [host] if host.is_gateway => {
                format!("the gateway {} is not known: is it the right machine?", host.name)
            }
            [host] => format!("{} is not known: is it the right machine?", host.name),
            hosts => format!("{} hosts are not known: are they the right machines?", hosts.len()),
        }
    }

    /// Returns the lines of the list: refused hosts first.
    fn rows(&self, width: u16) -> Vec<Line> {
        let refused = self.question.refused.iter().flat_map(|host| refused_lines(host, width));
        refused
            .chain(self.question.unknown.iter().flat_map(|host| unknown_lines(host, width)))
            .collect()
    }

    pub(crate) fn hints(&self) -> &'static [(&'static str, &'static str)] {
        if self.is_typing() {
            &[("Enter", "answer"), ("↑ ↓ PgUp PgDn", "scroll"), ("Esc", "cancel")]
        } else {
            &[("↑ ↓ PgUp PgDn", "scroll"), ("Esc", "close")]
        }
    }
}

/// Returns the fault of a node whose key must not be accepted.
fn unacceptable(link: &Link) -> Option<FaultKind> {
    let Link::Down { fault, .. } = link else { return None };
    let kinds = [FaultKind::HostKeyChanged, FaultKind::HostKeyRevoked];
    kinds.into_iter().find(|kind| *kind == fault.kind)
}

fn refused_lines(host: &RefusedHost, width: u16) -> Vec<Line> {
    let mut lines = vec![Line::styled(host.node.label(), Tone::Strong)];
    for (text, tone) in [(&host.why, Tone::Bad), (&host.remedy, Tone::Accent)] {
        let wrapped = wrap(text, width.saturating_sub(2), MAX_REFUSAL_LINES);
        lines.extend(wrapped.into_iter().map(|text| Line::new().gap(2).text(text, tone)));
    }
    lines
}

fn unknown_lines(host: &UnknownHost, width: u16) -> Vec<Line> {
    let name = Line::styled(&*host.name, Tone::Strong);
    let place = format!("{}{}", host.place, host.others_text());
    let mut lines = vec![name.gap(2).text(place, Tone::Faint)];
    lines.extend(host.keys.iter().flat_map(|key| key_lines(key, width)));
    lines
}

/// Returns the lines of a key: a fingerprint is never cut.
fn key_lines(key: &HostKey, width: u16) -> Vec<Line> {
    let algorithm = Line::new().gap(2).left_aligned(&key.algorithm, ALGORITHM_WIDTH, Tone::Plain);
    let room = width.saturating_sub(algorithm.width() + 1);
    if width_of(&key.fingerprint) <= room {
        return vec![algorithm.gap(1).text(&*key.fingerprint, Tone::Plain)];
    }
    let letters: Vec<char> = key.fingerprint.chars().collect();
    let pieces = letters.chunks(usize::from(width.saturating_sub(4)).max(1));
    let pieces = pieces.map(|piece| {
        let piece: String = piece.iter().collect();
        Line::new().gap(4).text(piece, Tone::Plain)
    });
    std::iter::once(algorithm.trimmed()).chain(pieces).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn unknown(name: &str) -> UnknownHost {
        UnknownHost {
            name: name.into(),
            is_gateway: false,
            place: "10.0.0.7 port 22".into(),
            nodes: vec![node(name)],
            keys: ["ssh-ed25519", "ssh-rsa"]
                .map(|algorithm| HostKey {
                    algorithm: algorithm.into(),
                    fingerprint: format!("SHA256:{name}/{algorithm}").into(),
                })
                .to_vec(),
        }
    }

    /// A dialog that asks about these hosts.
    fn asking(names: &[&str], refused: Vec<RefusedHost>) -> HostKeyDialog {
        let mut dialog = HostKeyDialog {
            step: HostKeyStep::Fetching(names.iter().map(|name| node(name)).collect()),
            question: HostKeyQuestion::default(),
            answer: LineEditor::new("", MAX_ANSWER_BYTES),
            note: None,
            viewport: Viewport::default(),
            stored: 0,
        };
        let unknown = names.iter().map(|name| unknown(name)).collect();
        let reply = HostKeyReply::Fetched(HostKeyQuestion { unknown, refused });
        assert_eq!(dialog.on_reply(reply), ControlFlow::Continue(()));
        dialog
    }

    fn answer(dialog: &mut HostKeyDialog, text: &str) -> DialogStep {
        for letter in text.chars() {
            assert_eq!(dialog.on_key(Key::Letter(letter)), ControlFlow::Continue(None));
        }
        dialog.on_key(Key::Named(NamedKey::Enter))
    }

    /// Returns the fingerprints that an answer accepts.
    fn accepted(step: DialogStep) -> Vec<String> {
        let ControlFlow::Continue(Some(UiRequest::HostKeys(HostKeyRequest::Accept(keys)))) = step
        else {
            return Vec::new();
        };
        keys.iter().map(|key| key.fingerprint.to_string()).collect()
    }

    fn text(dialog: &HostKeyDialog, height: usize) -> String {
        dialog.lines(80, height).iter().map(|line| line.plain_text() + "\n").collect()
    }

    #[test]
    fn the_question_shows_place_and_keys_and_takes_yes_no_or_a_fingerprint() {
        let mut dialog = asking(&["gpu01"], Vec::new());
        let shown = text(&dialog, 20);
        for part in [
            "gpu01 is not known: is it the right machine?",
            "gpu01  10.0.0.7 port 22",
            "ssh-ed25519          SHA256:gpu01/ssh-ed25519",
            "ssh-rsa              SHA256:gpu01/ssh-rsa",
            "yes, no or the fingerprint:",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        for (typed, note) in [
            ("y", "please type yes, no or a fingerprint"),
            ("", "please type yes, no or a fingerprint"),
            ("SHA256:gpu01", "no key of this host has that fingerprint; nothing was accepted"),
        ] {
            assert_eq!(accepted(answer(&mut dialog, typed)), [""; 0]);
            assert!(text(&dialog, 20).contains(note), "{note}");
        }
        assert_eq!(accepted(answer(&mut dialog.clone(), "yes")), ["SHA256:gpu01/ssh-ed25519"]);
        let of_rsa = "SHA256:gpu01/ssh-rsa";
        assert_eq!(accepted(answer(&mut dialog.clone(), of_rsa)), [of_rsa]);
        assert_eq!(answer(&mut dialog, "no"), ControlFlow::Break(None));
        assert_eq!(dialog.closing_request(), None);
    }

    #[test]
    fn a_pasted_list_accepts_the_hosts_it_names_and_the_others_stay() {
        let mut dialog = asking(&["gpu01", "gpu02", "gpu03"], Vec::new());
        dialog.on_paste(
            "256 SHA256:gpu01/ssh-ed25519 root@gpu01 (ED25519)\r\n3072 SHA256:gpu03/ssh-rsa (RSA)\n",
        );
        let step = dialog.on_key(Key::Named(NamedKey::Enter));
        assert_eq!(accepted(step), ["SHA256:gpu01/ssh-ed25519", "SHA256:gpu03/ssh-rsa"]);
        // Nothing is answered twice.
        assert_eq!(dialog.on_key(Key::Named(NamedKey::Enter)), ControlFlow::Continue(None));
        let stored = HostKeyReply::Stored(2, HostKeyQuestion::default());
        assert_eq!(dialog.on_reply(stored), ControlFlow::Continue(()));
        let shown = text(&dialog, 20);
        assert!(shown.contains("gpu02 is not known"), "{shown}");
        assert!(shown.contains("2 host keys stored; 1 host left"), "{shown}");
        assert_eq!(accepted(answer(&mut dialog, "yes")), ["SHA256:gpu02/ssh-ed25519"]);
        let stored = HostKeyReply::Stored(1, HostKeyQuestion::default());
        let end = ControlFlow::Break("3 host keys stored; connecting".to_owned());
        assert_eq!(dialog.on_reply(stored), end);
        assert_eq!(dialog.closing_request(), Some(UiRequest::Refresh));
    }

    #[test]
    fn nodes_behind_a_gateway_are_asked_about_once_it_is_known() {
        let mut dialog = asking(&["gate"], Vec::new());
        assert_eq!(accepted(answer(&mut dialog, "yes")).len(), 1);
        let behind = HostKeyQuestion { unknown: vec![unknown("gpu01")], refused: Vec::new() };
        assert_eq!(dialog.on_reply(HostKeyReply::Stored(1, behind)), ControlFlow::Continue(()));
        assert!(text(&dialog, 20).contains("gpu01 is not known"));
        // What is stored is used, even if the rest is not answered.
        assert_eq!(dialog.on_key(Key::Named(NamedKey::Escape)), ControlFlow::Break(None));
        assert_eq!(dialog.closing_request(), Some(UiRequest::Refresh));
    }

    #[test]
    fn a_paste_that_is_not_marked_loses_no_line_and_presses_no_key() {
        let mut dialog = asking(&["gpu01", "gpu02"], Vec::new());
        let step = answer(&mut dialog, "256 SHA256:gpu01/ssh-ed25519 root@gpu01 (ED25519)");
        assert_eq!(accepted(step), ["SHA256:gpu01/ssh-ed25519"]);
        // The second line comes before the first is stored.
        assert_eq!(
            answer(&mut dialog, "256 SHA256:gpu02/ssh-ed25519 Kq"),
            ControlFlow::Continue(None)
        );
        let stored = || HostKeyReply::Stored(1, HostKeyQuestion::default());
        assert_eq!(dialog.on_reply(stored()), ControlFlow::Continue(()));
        let step = dialog.on_key(Key::Named(NamedKey::Enter));
        assert_eq!(accepted(step), ["SHA256:gpu02/ssh-ed25519"]);
        assert_eq!(answer(&mut dialog, "qK"), ControlFlow::Continue(None));
        assert_eq!(dialog.on_reply(stored()), ControlFlow::Continue(()));
        assert!(dialog.is_answered());
        assert!(text(&dialog, 20).contains("2 host keys stored; connecting"));
        assert_eq!(answer(&mut dialog, "qK"), ControlFlow::Continue(None));
        assert_eq!(dialog.on_key(Key::Named(NamedKey::Escape)), ControlFlow::Break(None));
    }

    #[test]
    fn a_fingerprint_is_never_cut() {
        let dialog = asking(&["gpu01"], Vec::new());
        let fingerprint = "SHA256:gpu01/ssh-ed25519";
        for width in [5, 12, 20, 40, 46, 47, 80] {
            let lines = dialog.lines(width, 60);
            let shown: String =
                lines.iter().map(|line| line.plain_text().trim().to_owned()).collect();
            assert!(shown.contains(fingerprint), "{width}: {shown}");
        }
    }

    #[test]
    fn a_refused_key_is_listed_and_no_answer_accepts_it() {
        let refused = || RefusedHost {
            node: node("gpu09"),
            why: "host key of gpu09 has changed".into(),
            remedy: "ask the administrator".into(),
        };
        let mut dialog = asking(&[], vec![refused()]);
        let shown = text(&dialog, 20);
        for part in ["there are no keys to ask about", "has changed", "ask the administrator"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(!dialog.is_typing());
        assert_eq!(answer(&mut dialog, "yes"), ControlFlow::Continue(None));
        let mut both = asking(&["gpu01"], vec![refused()]);
        assert_eq!(accepted(answer(&mut both, "yes")), ["SHA256:gpu01/ssh-ed25519"]);
    }

    #[test]
    fn a_long_list_scrolls_and_the_input_stays_visible() {
        let names: Vec<String> = (1..=64).map(|number| format!("gpu{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut dialog = asking(&names, Vec::new());
        let mut seen = String::new();
        for _ in 0..40 {
            let shown = text(&dialog, 16);
            assert!(shown.lines().count() <= 16, "{shown}");
            assert!(shown.contains("yes to all 64, no, or fingerprints:"), "{shown}");
            seen += &shown;
            assert_eq!(dialog.on_key(Key::Named(NamedKey::PageDown)), ControlFlow::Continue(None));
        }
        assert!(names.iter().all(|name| seen.contains(&format!("SHA256:{name}/ssh-rsa"))));
        assert_eq!(accepted(answer(&mut dialog, "yes")).len(), 64);
        for height in 0..6 {
            let _no_panic = text(&dialog, height);
        }
    }
}
