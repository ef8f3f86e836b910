//! The prompt for a time of the recording, which explains a text that is no time.

use std::borrow::Cow;
use std::ops::ControlFlow;

use jiff::tz::TimeZone;

use crate::input::{Key, NamedKey};
use crate::time_prompt::time_text::{TimeContext, outside, parse_time};
use crate::timeline;
use crate::widgets::key_hint::hint;
use crate::widgets::line::{Line, Tone};
use crate::widgets::line_editor::LineEditor;
use gtop_local::time::Timestamp;

pub(super) mod time_text;

/// The prompt string.
const PROMPT: &str = "go to ";
/// Longer than any time.
const MAX_BYTES: usize = 64;

/// The state of the prompt.
#[derive(Clone, Debug)]
pub(crate) struct TimePrompt {
    editor: LineEditor,
    /// The time that the text means, or why it means none.
    target: Result<Timestamp, Cow<'static, str>>,
    /// Enter was pressed although the text means no time.
    is_rejected: bool,
}

impl TimePrompt {
    pub(super) fn new() -> Self {
        Self { editor: LineEditor::new("", MAX_BYTES), target: Err("".into()), is_rejected: false }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys are the line's")]
    /// Handles a key; it closes the prompt with a time or without one, or keeps it open.
    pub(super) fn on_key(
        &mut self,
        key: Key,
        context: TimeContext<'_>,
    ) -> ControlFlow<Option<Timestamp>> {
        match key {
            Key::Named(NamedKey::Escape) | Key::Control('c') => return ControlFlow::Break(None),
            Key::Named(NamedKey::Enter) if self.editor.text().trim().is_empty() => {
                return ControlFlow::Break(None);
            }
            Key::Named(NamedKey::Enter) => match recorded_time(self.editor.text(), context) {
                Ok(target) => return ControlFlow::Break(Some(target)),
                Err(reason) => (self.target, self.is_rejected) = (Err(reason), true),
            },
            _ => {
                if self.editor.on_key(key) {
                    self.target = recorded_time(self.editor.text(), context);
                    self.is_rejected = false;
                }
            }
        }
        ControlFlow::Continue(())
    }

    pub(super) fn line(&self, width: u16) -> Line {
        self.editor.line(PROMPT, width)
    }

    /// Draws the lines above the prompt: the time that the text means, what is wrong with it, or examples.
    pub(super) fn lines(&self, zone: &TimeZone, width: u16, max_lines: usize) -> Vec<Line> {
        if max_lines < 2 {
            return Vec::new();
        }
        let line = match &self.target {
            Ok(target) => Line::styled(
                timeline::time_text(*target, zone, "%a %Y-%m-%d %H:%M:%S"),
                Tone::Strong,
            )
            .gap(3)
            .append(hint(&("Enter", "goes there")))
            .gap(2)
            .append(hint(&("Esc", "cancels"))),
            Err(reason) if self.is_rejected => Line::styled(&**reason, Tone::Bad),
            Err(_) => {
                let examples = "14:05   14:05:30   -3m   +10s   -1h30m   2026-11-24 14:05";
                Line::styled(examples, Tone::Faint)
            }
        };
        vec![Line::new().rule(width), line.truncated(width)]
    }
}

/// Returns the moment that a text means; an error if that is before or after what is recorded.
fn recorded_time(text: &str, context: TimeContext<'_>) -> Result<Timestamp, Cow<'static, str>> {
    let at = parse_time(text, context)?;
    match outside(at, context.spans) {
        None => Ok(at),
        Some((first, last)) => {
            let [at, first, last] = [at, first, last]
                .map(|at| timeline::time_text(at, context.zone, "%Y-%m-%d %H:%M:%S"));
            let last = match (first.split_once(' '), last.split_once(' ')) {
                (Some((day, _)), Some((same, time))) if day == same => time.to_owned(),
                _ => last.clone(),
            };
            Err(format!("{at} is not in the recording, which covers {first} to {last}").into())
        }
    }
}
