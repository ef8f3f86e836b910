//! The whole screen: header, the current view, dialog or prompt, footer.

use crate::header;
use crate::navigation::Navigation;
use crate::render_context::RenderContext;
use crate::screen_state::ScreenState;
use crate::view::View;
use crate::widgets::line::{self, Line, Tone};

/// The columns between a message and the key hints.
const MESSAGE_GAP: u16 = 3;

/// Draws the whole screen: at most `height` lines, none wider than `width`.
pub(crate) fn render_screen(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    screen: &ScreenState<'_>,
    (width, height): (u16, u16),
) -> Vec<Line> {
    let timeline = timeline_or_focus(context, screen, width).filter(|_| has_timeline(height));
    let body_height = body_height(height, timeline.is_some());
    let height = usize::from(height);
    let top = top_height(height);
    let is_prompting = screen.filter_prompt.is_some() || screen.time_prompt.is_some();
    let has_footer = has_footer(height) || (is_prompting && height > 0);
    let fixed = top + usize::from(has_footer) + usize::from(timeline.is_some());
    let body_height = body_height.min(height.saturating_sub(fixed));
    let mut lines = if top > 0 {
        // A message is in the last line, unless something is typed there.
        let message = screen.message.filter(|_| is_prompting || !has_footer);
        let screen = ScreenState { message, ..*screen };
        header::lines(context, (navigation.view, navigation.sort_order()), &screen, width, top)
    } else {
        Vec::new()
    };
    // An open dialog or prompt covers the bottom of the view.
    let dialog_lines = match (screen.dialog, screen.filter_prompt, screen.time_prompt) {
        (Some(dialog), ..) => dialog.lines(context, width, body_height),
        (None, Some(search), _) => search.lines(context, width, body_height),
        (None, None, Some(prompt)) => prompt.lines(context.zone, width, body_height),
        (None, None, None) => Vec::new(),
    };
    let view_height = body_height.saturating_sub(dialog_lines.len());
    let mut body = body(context, navigation, screen, width, view_height);
    body.resize(view_height, Line::new());
    lines.append(&mut body);
    lines.extend(dialog_lines);
    lines.extend(timeline);
    if has_footer {
        lines.push(match (screen.filter_prompt, screen.time_prompt) {
            (Some(prompt), _) => prompt.line(width),
            (None, Some(prompt)) => prompt.line(width),
            (None, None) => footer(screen, width),
        });
    }
    lines.truncate(height);
    lines
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

fn body(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    screen: &ScreenState<'_>,
    width: u16,
    height: usize,
) -> Vec<Line> {
    if let Some(help) = screen.help {
        return help.iter().take(height).map(|line| line.clone().truncated(width)).collect();
    }
    let fleet_view = context.view;
    // A job that has ended is shown even if no node is.
    let is_empty =
        fleet_view.fleet.nodes.is_empty() && !matches!(navigation.view, View::Job | View::Runs);
    if is_empty && fleet_view.fleet.jobs.is_some() {
        return navigation.job.list_lines(context, width, height);
    }
    navigation.lines(context, width, height)
}

/// Draws the message, if there is one, and as many key hints as fit.
fn footer(screen: &ScreenState<'_>, width: u16) -> Line {
    let Some(message) = screen.message else { return hints(screen, width) };
    let message = Line::styled(message, Tone::Strong).gap(MESSAGE_GAP).truncated(width);
    let room = width.saturating_sub(message.width());
    message.append(hints(screen, room)).truncated(width)
}

/// Draws the key hints whole; drops those that do not fit from the end, the last two at last.
fn hints(screen: &ScreenState<'_>, width: u16) -> Line {
    let hint = |(key, meaning): &(String, &str)| {
        Line::styled(key.as_str(), Tone::Accent).text(format!(" {meaning}"), Tone::Faint)
    };
    let gap = if width < 100 { 2 } else { 3 };
    let (optional, always_shown) = screen.hints.split_at(screen.hints.len().saturating_sub(2));
    // Words are shown whole or not at all.
    let one_line = |hints: Vec<Line>, room: u16| {
        let fitting = hints.into_iter().filter(|hint| hint.width() <= room);
        line::flow(fitting.collect(), gap, room, 1).pop()
    };
    let always_shown = one_line(always_shown.iter().map(hint).collect(), width);
    let always_shown = always_shown.unwrap_or_default();
    let room = width.saturating_sub(always_shown.width() + gap);
    // Tab gives way to filter and sort: the tab line shows the number keys of the views anyway.
    let last = optional.iter().rposition(|(_, meaning)| ["filter", "sort"].contains(meaning));
    let needed = optional.iter().take(last.map_or(0, |index| index + 1)).map(hint);
    let needed: usize = needed.map(|text| usize::from(text.width() + gap)).sum();
    let is_short = needed > usize::from(room) + usize::from(gap);
    let kept = optional.iter().filter(|(_, meaning)| !is_short || *meaning != "view");
    let optional = one_line(kept.map(hint).collect(), room);
    match optional {
        Some(optional) => optional.gap(gap).append(always_shown).truncated(width),
        None => always_shown,
    }
}
