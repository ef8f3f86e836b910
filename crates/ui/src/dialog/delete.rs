//! The dialog that shows what deleting a run removes, and asks for confirmation.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::dialog::dialog_step::{DialogStep, ReplyStep};
use crate::input::{Key, NamedKey};
use crate::request::UiRequest;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{Movement, Viewport};
use crate::widgets::number_format::Units;
use gtop_fleet::insight::runs::RunRow;
use gtop_local::text::counted;
use gtop_model::{DeletionPlan, RunId, RunReply, RunRequest, RunResponse};

/// Files visible at once; the list scrolls.
const MAX_ROWS: usize = 12;

/// The dialog, from the list of files to the result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeleteDialog {
    run: RunId,
    title: Arc<str>,
    step: DeleteStep,
    viewport: Viewport,
}

#[derive(Clone, Debug, PartialEq)]
enum DeleteStep {
    /// The list of files is requested.
    Listing,
    Confirm(DeletionPlan),
    Deleting,
}

impl DeleteDialog {
    pub(crate) fn new(row: &RunRow) -> Self {
        Self {
            run: row.run.id.clone(),
            title: row.title().into(),
            step: DeleteStep::Listing,
            viewport: Viewport { top: 0, rows: MAX_ROWS },
        }
    }

    pub(crate) const fn run(&self) -> &RunId {
        &self.run
    }

    pub(crate) fn on_key(&mut self, key: Key) -> DialogStep {
        match (key, &self.step) {
            (Key::Named(NamedKey::Escape) | Key::Control('c') | Key::Letter('q'), _) => {
                ControlFlow::Break(None)
            }
            (Key::Named(NamedKey::Enter), DeleteStep::Confirm(plan)) => {
                let identity = Arc::clone(&plan.identity);
                let request = RunRequest::Delete { run: self.run.clone(), identity };
                self.step = DeleteStep::Deleting;
                ControlFlow::Continue(Some(UiRequest::Runs(vec![request])))
            }
            (key, DeleteStep::Confirm(plan)) => {
                if let Some(movement) = Movement::from_dialog_key(key) {
                    let count = plan.entries.len();
                    self.viewport.top = movement.new_index(self.viewport.top, count, MAX_ROWS);
                }
                ControlFlow::Continue(None)
            }
            _ => ControlFlow::Continue(None),
        }
    }

    /// Handles a reply; returns `None` if it is none of this dialog's.
    pub(crate) fn on_reply(&mut self, reply: &RunReply) -> Option<ReplyStep> {
        let (RunRequest::PlanDeletion(run) | RunRequest::Delete { run, .. }) = &reply.request
        else {
            return None;
        };
        if *run != self.run {
            return None;
        }
        Some(match &reply.result {
            Ok(RunResponse::Plan(plan)) => {
                self.step = DeleteStep::Confirm(plan.clone());
                ControlFlow::Continue(None)
            }
            Ok(RunResponse::Deleted(count)) => {
                let files = counted(usize::try_from(*count).unwrap_or(usize::MAX), "file");
                ControlFlow::Break(format!("{} deleted: {files}", self.title))
            }
            Ok(_) => ControlFlow::Continue(None),
            Err(error) => ControlFlow::Break(format!("{} was not deleted: {error}", self.title)),
        })
    }

    pub(crate) fn lines(&self, width: u16, max_lines: usize) -> Vec<Line> {
        let DeleteStep::Confirm(plan) = &self.step else {
            let is_listing = self.step == DeleteStep::Listing;
            let what = if is_listing { ": listing its files…" } else { "…" };
            let text = format!("deleting {}{what}", self.title);
            return vec![Line::styled(text, Tone::Faint).truncated(width)];
        };
        let count = usize::try_from(plan.count).unwrap_or(usize::MAX);
        let units = Units::default();
        let (files, size) = (counted(count, "file"), units.amount(plan.bytes));
        let question = format!("delete run {} for good? {files}, {size}", self.title);
        let mut lines = vec![
            Line::styled(question, Tone::Warn).text("  Enter deletes, Esc cancels", Tone::Faint),
            Line::styled("in ", Tone::Faint).text(&*plan.folder, Tone::Strong),
        ];
        let rows = max_lines.saturating_sub(3).min(MAX_ROWS);
        let listed = plan.entries.len();
        let viewport = self.viewport.scrolled_to(rows, listed, None);
        for (path, size) in plan.entries.get(viewport.range(listed)).unwrap_or_default() {
            let size = Line::new().gap(2).right_aligned(&units.amount(*size), 8, Tone::Faint);
            lines.push(size.gap(2).text(&**path, Tone::Plain));
        }
        if count > listed {
            lines.push(Line::styled(format!("  and {} more", count - listed), Tone::Faint));
        }
        lines.truncate(max_lines);
        lines.into_iter().map(|line| line.truncated(width)).collect()
    }

    pub(crate) const fn hints(&self) -> &'static [(&'static str, &'static str)] {
        match self.step {
            DeleteStep::Confirm(_) => &[("Enter", "delete"), ("↑ ↓", "scroll"), ("Esc", "cancel")],
            DeleteStep::Listing | DeleteStep::Deleting => &[("Esc", "close")],
        }
    }
}
