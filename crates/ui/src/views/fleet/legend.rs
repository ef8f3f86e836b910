//! The legend of the heat map.

use crate::render_context::{RenderContext, Size};
use crate::views::fleet::cells::{
    FAULTY, IDLE_HELD, LEVELS, MULTIPLE, MapMetric, NOT_REPORTED, STALE, UNAVAILABLE, UNUSED,
    WARNED, degrees_of,
};
use crate::views::fleet::grouping::Grouping;
use crate::views::fleet::node_sort::{is_rising, sort_columns};
use crate::views::fleet::state::State;
use crate::views::fleet::symbol_map::OVERFLOW_SYMBOL;
use crate::widgets::line::{Line, Symbol, Tone, flow_with_overflow};
use crate::widgets::table::sort_arrow;
use gtop_fleet::query::SortOrder;

/// The columns between two entries.
const ENTRY_GAP: u16 = 3;

/// Draws the lines above the heat map: the metric, and the meaning of each symbol.
pub(super) fn lines(context: RenderContext<'_>, state: &State, size: Size) -> Vec<Line> {
    let (width, height) = size;
    let max_lines = match height {
        0..4 => 0,
        4..10 => 1,
        10..20 => 2,
        _ => 3,
    };
    let symbols = symbol_lines(context, state);
    let room = (max_lines.max(2) - 1, "more");
    let mut lines = flow_with_overflow(symbols, ENTRY_GAP, width, room);
    // The colour of warnings takes no line of its own.
    let warned = entry(&[WARNED], "warning");
    if !matches!(state.metric, MapMetric::Owner | MapMetric::Job)
        && let Some(last) = lines.last_mut()
        && last.width() + ENTRY_GAP + warned.width() <= width
    {
        *last = std::mem::take(last).gap(ENTRY_GAP).append(warned);
    }
    if max_lines > 1 {
        lines.insert(0, mode_line(state, width));
    }
    lines.truncate(max_lines);
    if height >= 16 {
        lines.push(Line::new());
    }
    lines
}

fn mode_line(state: &State, width: u16) -> Line {
    let mut line = Line::styled("by", Tone::Faint).gap(1);
    for metric in MapMetric::ALL {
        // The current metric is in brackets too, for screens without colours.
        line = if metric == state.metric {
            line.text(format!("[{}]", metric.label()), Tone::Accent)
        } else {
            line.gap(1).text(metric.label(), Tone::Faint).gap(1)
        };
    }
    let mut right = Line::new();
    if state.order != SortOrder::by("node") {
        let column = sort_columns().into_iter().find(|column| column.name == state.order.column);
        let label = column.map_or("", |column| column.label);
        let arrow = sort_arrow(is_rising(state.order));
        right = right.text("sorted by ", Tone::Faint).text(format!("{label}{arrow}"), Tone::Plain);
    }
    if state.grouping != Grouping::None {
        right = if right.width() > 0 { right.gap(3) } else { right };
        let label = state.grouping.label();
        right = right.text("grouped by ", Tone::Faint).text(label, Tone::Plain);
    }
    if line.width() + right.width() + 2 <= width {
        line.with_right(right, width)
    } else {
        line.truncated(width)
    }
}

fn symbol_lines(context: RenderContext<'_>, state: &State) -> Vec<Line> {
    let mut entries = Vec::new();
    match state.metric {
        MapMetric::Owner | MapMetric::Job => {
            let nothing = if state.metric == MapMetric::Owner { "no user" } else { "no job" };
            entries.push(entry(&[UNUSED], nothing).gap(2).append(entry(&[MULTIPLE], "several")));
            entries.push(entry(&[NOT_REPORTED], "unknown"));
            entries.push(entry(&[STALE], "stale"));
            entries.push(entry(&[FAULTY], "fault"));
            let seen = state.map.owner_counts.of.iter().filter(|(_, count)| *count > 0);
            let (beyond, lettered): (Vec<_>, Vec<_>) =
                seen.partition(|(name, _)| state.map.symbols.has_no_letter(name));
            if !beyond.is_empty() {
                let (letter, hue) = OVERFLOW_SYMBOL;
                let symbol = (Symbol::Letter(letter, hue), Tone::Plain);
                entries.push(entry(&[symbol], &format!("{} others", beyond.len())));
            }
            for (name, count) in lettered {
                let (letter, hue) = state.map.symbols.of(name);
                let label_text = label(state, name);
                let line = Line::new()
                    .strip(vec![(Symbol::Letter(letter, hue), Tone::Plain)], 1)
                    .text(format!("={label_text}"), Tone::Plain)
                    .text(format!(" {count}"), Tone::Faint);
                entries.push(line);
            }
        }
        metric @ (MapMetric::Utilization
        | MapMetric::Memory
        | MapMetric::Power
        | MapMetric::Temperature) => {
            let is_tall = state.heights.grid.size.lines > 1;
            entries.push(if is_tall {
                height_scale(context, metric)
            } else {
                scale(context, metric)
            });
            // Alarms stand where a narrow legend still has room.
            entries.push(entry(&[FAULTY], "fault").gap(2).append(entry(&[STALE], "stale")));
            if metric == MapMetric::Utilization {
                let held = entry(&[IDLE_HELD], "idle-held");
                entries.push(entry(&[UNUSED], "free").gap(2).append(held));
                if context.view.totals.unavailable > 0 {
                    entries.push(entry(&[UNAVAILABLE], "unavailable"));
                }
            }
            // Of load, the totals count what is not known.
            if metric != MapMetric::Utilization || context.view.totals.known_unknown() > Some(0) {
                entries.push(entry(&[NOT_REPORTED], "unknown"));
            }
        }
    }
    entries
}

/// Draws what some symbols mean.
fn entry(symbols: &[(Symbol, Tone)], text: &str) -> Line {
    let width = u16::try_from(symbols.len()).unwrap_or(u16::MAX);
    // As in the scale: in ASCII, a sign may be a digit, which is no count.
    Line::new().strip(symbols.to_vec(), width).text(format!("={text}"), Tone::Faint)
}

fn label(state: &State, name: &str) -> String {
    let job = gtop_model::JobId::new(name).filter(|_| state.metric == MapMetric::Job);
    job.map_or_else(|| name.to_owned(), |job| state.jobs.name(&job))
}

/// Says what the height of a cell of several lines means, as wide as the levels of one line.
fn height_scale(context: RenderContext<'_>, metric: MapMetric) -> Line {
    let units = context.options.units();
    let is_heat = metric == MapMetric::Temperature;
    let [low, high] = [0.0, 100.0]
        .map(|share| if is_heat { units.convert_celsius(degrees_of(share)) } else { share });
    let unit = if is_heat { units.temperature_unit() } else { "%" };
    let text = format!("height={low:.0} to {high:.0} {unit}");
    Line::new().left_aligned(&text, scale(context, metric).width(), Tone::Faint)
}

/// Draws the levels with the shares at which they begin.
fn scale(context: RenderContext<'_>, metric: MapMetric) -> Line {
    let (mut line, units) = (Line::new(), context.options.units());
    let is_heat = metric == MapMetric::Temperature;
    for level in 0..LEVELS {
        let step = 100.0 / f32::from(LEVELS);
        let (start, part) = (f32::from(level) * step, (f32::from(level) + 0.5) * step);
        let tone = metric.tone(context, part);
        let shown = if is_heat { units.convert_celsius(degrees_of(start)) } else { start };
        let text = format!("={shown:.0} ");
        line = line.strip(vec![(Symbol::Level(part), tone)], 1).text(text, Tone::Faint);
    }
    let unit = if is_heat { units.temperature_unit() } else { "%" };
    line.text(unit, Tone::Faint)
}
