//! The problems of the fleet, listed below the node list or the heat map.

use crate::insight::{FleetProblem, Severity};
use crate::ui::widgets::line;
use crate::ui::widgets::line::{Line, Tone};

/// Draws problems of the fleet in at most `max_lines` lines.
pub(super) fn lines(problems: &[&FleetProblem], width: u16, max_lines: usize) -> Vec<Line> {
    let count = problems.len();
    let shown = if count > max_lines { max_lines.saturating_sub(1) } else { count };
    let mut lines: Vec<Line> =
        problems.iter().take(shown).map(|problem| problem_line(problem, width)).collect();
    if count > shown && max_lines > 0 {
        let hidden_nodes: usize = problems.iter().skip(shown).map(|problem| problem.count).sum();
        let [and, more] = if shown > 0 { ["and ", "more "] } else { [""; 2] };
        let text =
            format!("  {and}{} {more}kinds of problems on {hidden_nodes} nodes", count - shown);
        lines.push(Line::styled(text, Tone::Faint).truncated(width));
    }
    lines
}

fn problem_line(problem: &FleetProblem, width: u16) -> Line {
    let symbol = if problem.severity == Severity::Error { "✗" } else { "!" };
    // A long node set must leave room for its problem.
    let names = line::truncate(&problem.nodes, width / 3);
    let mut line = Line::styled(symbol, problem.severity).gap(1).text(names, Tone::Strong);
    if problem.count > 1 {
        line = line.text(format!(" ({})", problem.count), Tone::Faint);
    }
    line.gap(2)
        .text(problem.sentence.as_str(), problem.severity)
        .text(format!("  → {}", problem.remedy), Tone::Faint)
        .truncated(width)
}
