//! The page with the environment of a process as it was at its start, sorted by name.

use crate::drawn_view::DrawnView;
use crate::process_target::{ProcessTarget, skip_columns};
use crate::render_context::Size;
use crate::request::NodeRequest;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{Movement, Viewport};
use gtop_local::text::{counted, width_of};
use gtop_model::{Environment, ProcessRequest, RequestError, Variable};

#[derive(Clone, Debug)]
pub(super) struct EnvironPage {
    pub(super) target: ProcessTarget,
    /// Sorted by name; `None` until the node replies.
    reply: Option<Result<Vec<Variable>, RequestError>>,
    is_truncated: bool,
    /// Scroll position; the top row is the first visible variable.
    pub(super) viewport: Viewport,
    shift: usize,
}

impl EnvironPage {
    pub(super) fn new(target: ProcessTarget) -> Self {
        Self { target, reply: None, is_truncated: false, viewport: Viewport::default(), shift: 0 }
    }

    pub(super) fn request(&self) -> NodeRequest {
        NodeRequest {
            node: self.target.node.clone(),
            process_request: ProcessRequest::Environment(self.target.key),
        }
    }

    /// Stores the reply, sorted. An error replaces what was shown before.
    pub(super) fn on_reply(&mut self, reply: Result<&Environment, &RequestError>) {
        match reply {
            Ok(environment) => {
                let mut list = environment.variables.clone();
                list.sort_unstable_by(|one, other| {
                    (&one.name, &one.value).cmp(&(&other.name, &other.value))
                });
                self.is_truncated = environment.is_truncated;
                self.reply = Some(Ok(list));
            }
            Err(error) => self.reply = Some(Err(error.clone())),
        }
    }

    pub(super) fn step(&mut self, step: Movement) {
        self.viewport.step(step, self.variables().len(), self.viewport.rows);
    }

    pub(super) fn scroll(&mut self, shift: impl Fn(usize) -> usize) {
        self.shift = shift(self.shift).min(1 << 16);
    }

    /// Scrolls until the longest visible variable ends at the right edge.
    pub(super) fn scroll_to_end(&mut self, width: u16) {
        let range = self.viewport.range(self.variables().len());
        let shown = self.variables().get(range).unwrap_or_default();
        let widths = shown.iter().map(|Variable { name, value }| {
            width_of(name).saturating_add(width_of(value)).saturating_add(1)
        });
        self.shift = usize::from(widths.max().unwrap_or(1).saturating_sub(width));
    }

    fn variables(&self) -> &[Variable] {
        match &self.reply {
            Some(Ok(list)) => list,
            Some(Err(_)) | None => &[],
        }
    }

    pub(super) fn lines(&self, (width, height): Size) -> DrawnView {
        let count = self.variables().len();
        let list = self.viewport.scrolled_to(height.saturating_sub(1), count, None);
        let right = match (&self.reply, self.is_truncated) {
            (None, _) => Line::styled("waiting for the node", Tone::Faint),
            (Some(Err(_)), _) => Line::new(),
            (Some(Ok(_)), true) => {
                Line::styled(format!("the first {}", counted(count, "variable")), Tone::Warn)
            }
            (Some(Ok(_)), false) => Line::styled(counted(count, "variable"), Tone::Faint),
        };
        let title = Line::styled("environment", Tone::Strong).gap(2);
        let room = width.saturating_sub(title.width() + right.width() + 2);
        let title = title.text(self.target.name_within(room), Tone::Plain);
        let mut lines = vec![title.with_right(right, width)];
        if let Some(Err(error)) = &self.reply {
            lines.push(Line::styled(error.to_string(), Tone::Warn).truncated(width));
        }
        if matches!(&self.reply, Some(Ok(list)) if list.is_empty()) {
            lines.push(Line::styled("empty", Tone::Faint).truncated(width));
        }
        let range = list.range(count);
        for Variable { name, value } in self.variables().get(range).unwrap_or_default() {
            let line = if self.shift == 0 {
                Line::styled(&**name, Tone::Accent).text(format!("={value}"), Tone::Plain)
            } else {
                Line::styled(skip_columns(&format!("{name}={value}"), self.shift), Tone::Plain)
            };
            lines.push(line.truncated(width));
        }
        lines.truncate(height);
        DrawnView { lines, list: Some(list), ..DrawnView::default() }
    }
}
