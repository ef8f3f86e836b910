//! The frame around the view: header, dialog or prompt, timeline and footer.

use crate::header;
use crate::render_context::RenderContext;
use crate::screen_state::ScreenState;
use crate::widgets::key_hint::hint;
use crate::widgets::line::{self, Line, Tone};

/// The columns between a message and the key hints.
const MESSAGE_GAP: u16 = 3;
/// With less room than this, only the hints of help and quit are always shown, not that of copy.
const MIN_COPY_ROOM: u16 = 30;

/// What is drawn around the view.
#[derive(Debug)]
pub(crate) struct ScreenFrame {
    header: Vec<Line>,
    /// The lines of the view.
    pub(crate) view_height: usize,
    /// The dialog or prompt that covers the bottom of the view.
    overlay: Vec<Line>,
    timeline: Option<Line>,
    footer: Option<Line>,
}

impl ScreenFrame {
    /// Draws the frame of a screen: at most `height` lines, none wider than `width`.
    pub(crate) fn new(
        context: RenderContext<'_>,
        screen: &ScreenState<'_>,
        (width, height): (u16, u16),
    ) -> Self {
        let timeline = timeline_or_focus(context, screen, width).filter(|_| has_timeline(height));
        let body_height = body_height(height, timeline.is_some());
        let height = usize::from(height);
        let top = top_height(height);
        let is_prompting = screen.overlays.is_prompting();
        let has_footer = has_footer(height) || (is_prompting && height > 0);
        let fixed = top + usize::from(has_footer) + usize::from(timeline.is_some());
        let body_height = body_height.min(height.saturating_sub(fixed));
        let mut header = Vec::new();
        if top > 0 {
            // A message is in the last line, unless something is typed there.
            let message = screen.message.filter(|_| is_prompting || !has_footer);
            let screen = ScreenState { message, ..*screen };
            header = header::lines(context, &screen, (width, top));
        }
        let mut overlay = screen.overlays.lines(context, (width, body_height));
        overlay.truncate(body_height);
        let view_height = body_height.saturating_sub(overlay.len());
        let footer = has_footer
            .then(|| screen.overlays.prompt_line(width).unwrap_or_else(|| footer(screen, width)));
        Self { header, view_height, overlay, timeline, footer }
    }

    /// Returns the lines besides the footer.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.header.iter().chain(&self.overlay).chain(&self.timeline)
    }

    /// Returns the lines of the whole screen.
    pub(crate) fn around(self, mut view: Vec<Line>) -> Vec<Line> {
        view.resize(self.view_height, Line::new());
        let mut lines = self.header;
        lines.append(&mut view);
        lines.extend(self.overlay.into_iter().chain(self.timeline).chain(self.footer));
        lines
    }
}

/// Returns the line above the footer: the timeline of a recording, or the focus on a live node.
fn timeline_or_focus(
    context: RenderContext<'_>,
    screen: &ScreenState<'_>,
    width: u16,
) -> Option<Line> {
    if let Some(timeline) = screen.timeline {
        return Some(timeline.line(context.zone, width));
    }
    screen.focus.map(|text| Line::styled(text, Tone::Accent).truncated(width))
}

/// Returns the number of lines between the header and the timeline, if there is one, or the footer.
pub(crate) fn body_height(height: u16, has_timeline: bool) -> usize {
    let height = usize::from(height);
    height - top_height(height) - usize::from(has_footer(height)) - usize::from(has_timeline)
}

/// Returns true if the screen is high enough for the timeline of a recording.
pub(super) const fn has_timeline(height: u16) -> bool {
    has_footer(height as usize)
}

const fn top_height(height: usize) -> usize {
    match height {
        0..4 => 0,
        4..8 => 1,
        8..10 => 2,
        _ => 3,
    }
}

const fn has_footer(height: usize) -> bool {
    height >= 8
}

/// Draws the message, if there is one, and as many key hints as fit.
fn footer(screen: &ScreenState<'_>, width: u16) -> Line {
    let Some(message) = screen.message else { return hints(screen, width) };
    let message = Line::styled(message, Tone::Strong).gap(MESSAGE_GAP).truncated(width);
    let room = width.saturating_sub(message.width());
    message.append(hints(screen, room)).truncated(width)
}

/// Draws the key hints whole; drops those that do not fit from the end, those of copy, help and quit at last.
fn hints(screen: &ScreenState<'_>, width: u16) -> Line {
    let gap = if width < 100 { 2 } else { 3 };
    let last = screen.hints.len().saturating_sub(2);
    let copy = screen.hints.iter().position(|(_, meaning)| *meaning == "copy");
    let copy = copy.filter(|_| width >= MIN_COPY_ROOM);
    let (optional, always_shown) = screen.hints.split_at(copy.unwrap_or(last));
    let always_shown = hint_line(always_shown.iter().map(hint), gap, width).unwrap_or_default();
    let room = width.saturating_sub(always_shown.width() + gap);
    // Filter and sort matter more than Tab: the tab line shows the number keys of the views anyway.
    let last = optional.iter().rposition(|(_, meaning)| ["filter", "sort"].contains(meaning));
    let needed = optional.iter().take(last.map_or(0, |index| index + 1)).map(hint);
    let needed: usize = needed.map(|text| usize::from(text.width() + gap)).sum();
    let is_short = needed > usize::from(room) + usize::from(gap);
    let kept = optional.iter().filter(|(_, meaning)| !is_short || *meaning != "view");
    match hint_line(kept.map(hint), gap, room) {
        Some(optional) => optional.gap(gap).append(always_shown).truncated(width),
        None => always_shown,
    }
}

/// Returns the hints that fit in a line, each whole.
fn hint_line(hints: impl Iterator<Item = Line>, gap: u16, width: u16) -> Option<Line> {
    line::flow(hints.filter(|hint| hint.width() <= width).collect(), gap, width, 1).pop()
}
