//! What is open in front of the view: the help page, a prompt or a dialog.

use crate::dialog::Dialog;
use crate::filter_prompt::FilterPrompt;
use crate::help::HelpPage;
use crate::render_context::{RenderContext, Size};
use crate::time_prompt::TimePrompt;
use crate::widgets::line::Line;

#[derive(Debug, Default)]
pub(crate) struct Overlays {
    /// The help page, shown instead of the view.
    pub(crate) help: Option<HelpPage>,
    pub(crate) filter_prompt: Option<FilterPrompt>,
    /// The prompt for a time of the recording.
    pub(crate) time_prompt: Option<TimePrompt>,
    /// The dialog that takes all keys.
    pub(crate) dialog: Option<Dialog>,
}

impl Overlays {
    /// Returns true while a prompt is in the last line.
    pub(crate) const fn is_prompting(&self) -> bool {
        self.filter_prompt.is_some() || self.time_prompt.is_some()
    }

    /// Returns true while a line is typed.
    pub(crate) fn is_typing(&self) -> bool {
        let is_in_help = self.help.as_ref().is_some_and(HelpPage::is_typing);
        self.dialog.as_ref().map_or(self.is_prompting() || is_in_help, Dialog::is_typing)
    }

    /// Returns true if keys and clicks do not reach the view.
    pub(crate) const fn takes_input(&self) -> bool {
        self.dialog.is_some() || self.is_prompting()
    }

    /// Draws what covers the bottom of the view.
    pub(crate) fn lines(&self, context: RenderContext<'_>, size: Size) -> Vec<Line> {
        match (&self.dialog, &self.filter_prompt, &self.time_prompt) {
            (Some(dialog), ..) => dialog.lines(context, size),
            (None, Some(prompt), _) => prompt.lines(context, size),
            (None, None, Some(prompt)) => prompt.lines(context.zone, size.0, size.1),
            (None, None, None) => Vec::new(),
        }
    }

    /// Draws the prompt in the last line.
    pub(crate) fn prompt_line(&self, width: u16) -> Option<Line> {
        let filter = self.filter_prompt.as_ref().map(|prompt| prompt.line(width));
        filter.or_else(|| self.time_prompt.as_ref().map(|prompt| prompt.line(width)))
    }
}
