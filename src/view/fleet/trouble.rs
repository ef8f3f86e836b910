//! What is wrong with the fleet, below the list and the map.

use crate::view::fleet_view::{FleetProblem, FleetView};
use crate::view::line::{self, Line, Tone};

/// Returns what is wrong with the fleet in at most so many lines, alike things together.
pub(super) fn lines(picture: &FleetView, width: u16, most: usize) -> Vec<Line> {
    let count = picture.troubles.len();
    let shown = if count > most { most.saturating_sub(1) } else { count };
    let mut lines: Vec<Line> =
        picture.troubles.iter().take(shown).map(|trouble| told(trouble, width)).collect();
    if count > shown && most > 0 {
        let rest: usize = picture.troubles.iter().skip(shown).map(|trouble| trouble.count).sum();
        let [and, more] = if shown > 0 { ["and ", "more "] } else { [""; 2] };
        let text = format!("  {and}{} {more}kinds of trouble on {rest} nodes", count - shown);
        lines.push(Line::of(text, Tone::Faint).cut(width));
    }
    lines
}

fn told(trouble: &FleetProblem, width: u16) -> Line {
    let sign = if trouble.tone == Tone::Bad { "✗" } else { "!" };
    // A long set of names must leave room for what is wrong with them.
    let names = line::cut(&trouble.nodes, width / 3);
    let mut line = Line::of(sign, trouble.tone).gap(1).text(names, Tone::Strong);
    if trouble.count > 1 {
        line = line.text(format!(" ({})", trouble.count), Tone::Faint);
    }
    line.gap(2)
        .text(trouble.sentence.as_str(), trouble.tone)
        .text(format!("  → {}", trouble.remedy), Tone::Faint)
        .cut(width)
}
