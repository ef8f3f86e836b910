//! The problems of the fleet, listed below the node list or the heat map.

use crate::view::fleet_view::{FleetProblem, FleetView};
use crate::view::line::{self, Line, Tone};

/// Draws the problems of the fleet in at most `most` lines.
pub(super) fn lines(fleet_view: &FleetView, width: u16, most: usize) -> Vec<Line> {
    let count = fleet_view.problems.len();
    let shown = if count > most { most.saturating_sub(1) } else { count };
    let mut lines: Vec<Line> = fleet_view
        .problems
        .iter()
        .take(shown)
        .map(|severity| problem_line(severity, width))
        .collect();
    if count > shown && most > 0 {
        let rest: usize =
            fleet_view.problems.iter().skip(shown).map(|severity| severity.count).sum();
        let [and, more] = if shown > 0 { ["and ", "more "] } else { [""; 2] };
        let text = format!("  {and}{} {more}kinds of problems on {rest} nodes", count - shown);
        lines.push(Line::styled(text, Tone::Faint).truncated(width));
    }
    lines
}

fn problem_line(severity: &FleetProblem, width: u16) -> Line {
    let sign = if severity.tone == Tone::Bad { "✗" } else { "!" };
    // A long node set must leave room for its problem.
    let names = line::truncate(&severity.nodes, width / 3);
    let mut line = Line::styled(sign, severity.tone).gap(1).text(names, Tone::Strong);
    if severity.count > 1 {
        line = line.text(format!(" ({})", severity.count), Tone::Faint);
    }
    line.gap(2)
        .text(severity.sentence.as_str(), severity.tone)
        .text(format!("  → {}", severity.remedy), Tone::Faint)
        .truncated(width)
}
