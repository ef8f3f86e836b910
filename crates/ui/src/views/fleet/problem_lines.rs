//! The problems of the fleet, listed below the node list or the heat map.

use std::collections::BTreeSet;

use crate::widgets::line;
use crate::widgets::line::{Line, Tone, severity_sign};
use gtop_fleet::insight::FleetProblem;
use gtop_local::text::counted;

pub(super) fn lines(problems: &[&FleetProblem], width: u16, max_lines: usize) -> Vec<Line> {
    let count = problems.len();
    let shown = if count > max_lines { max_lines.saturating_sub(1) } else { count };
    let mut lines: Vec<Line> =
        problems.iter().take(shown).map(|problem| problem_line(problem, width)).collect();
    if count > shown && max_lines > 0 {
        // A node may have several problems.
        let hidden = problems.iter().skip(shown).flat_map(|problem| &problem.members);
        let hidden_nodes: BTreeSet<usize> = hidden.map(|member| member.index).collect();
        let nodes = counted(hidden_nodes.len(), "node");
        let [and, more] = if shown > 0 { ["and ", "more "] } else { [""; 2] };
        let problems = counted(count - shown, &format!("{more}problem"));
        let text = format!("  {and}{problems} on {nodes}");
        lines.push(Line::styled(text, Tone::Faint).truncated(width));
    }
    lines
}

fn problem_line(problem: &FleetProblem, width: u16) -> Line {
    // A long node set must not hide its problem.
    let names = line::truncate(&problem.nodes, width / 3);
    let mut line = Line::styled(severity_sign(problem.severity), problem.severity)
        .gap(1)
        .text(names, Tone::Strong);
    if problem.count() > 1 {
        line = line.text(format!(" ({})", problem.count()), Tone::Faint);
    }
    line.gap(2)
        .text(problem.sentence(), problem.severity)
        .text(format!("  → {}", problem.remedy()), Tone::Faint)
        .truncated(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::advice::Advice;
    use gtop_fleet::insight::{ProblemKind, ProblemNode, Severity, Since};
    use gtop_local::time::Timestamp;

    #[test]
    fn a_node_of_several_hidden_problems_counts_once() {
        let member = |index: &usize| ProblemNode {
            index: *index,
            since: Since { at: Timestamp::default(), is_lower_bound: true },
        };
        let problem = |indices: &[usize]| FleetProblem {
            kind: ProblemKind::Device("lost".to_owned()),
            severity: Severity::Error,
            nodes: "gpu".to_owned(),
            members: indices.iter().map(member).collect(),
            advice: Advice::default(),
            drain: None,
        };
        let problems = [problem(&[0]), problem(&[1, 2]), problem(&[2]), problem(&[2])];
        let problems: Vec<&FleetProblem> = problems.iter().collect();
        let last = |problems, max_lines| lines(problems, 80, max_lines).pop().unwrap().plain_text();
        assert_eq!(last(&problems, 2).trim_end(), "  and 3 more problems on 2 nodes");
        assert_eq!(last(&problems[2..], 1).trim_end(), "  2 problems on 1 node");
    }
}
