//! The problems as text: a block per kind, each line of which begins with what it is.

use std::collections::BTreeSet;
use std::io::{self, Write};

use gtop_fleet::insight::{FleetProblem, FleetView, no_problem_text_of};
use gtop_fleet::{Fleet, NodeCount};
use gtop_local::time::Timestamp;
use gtop_model::nodeset;

/// Writes the problems of a snapshot, failures first, or that there is none; then the nodes of which nothing is known.
///
/// Of `node_count` nodes, the view has those that match the filter.
pub fn write_problems(
    out: &mut impl Write,
    fleet_view: &FleetView,
    node_count: usize,
) -> io::Result<()> {
    let FleetView { fleet, now, problems, .. } = fleet_view;
    let mut drained = BTreeSet::new();
    for problem in problems.iter() {
        write_problem(out, problem, fleet, *now)?;
        if let Some(command) = new_drain(problem, &mut drained) {
            writeln!(out, "drain: {command}")?;
        }
        writeln!(out)?;
    }
    if problems.is_empty() {
        return writeln!(out, "{}", no_problem_text_of(fleet_view, node_count));
    }
    let unknown = fleet_view
        .nodes()
        .filter(|node| NodeCount::of(node, *now) == NodeCount::Connecting)
        .map(|node| node.name.label());
    let unknown = nodeset::fold(unknown);
    if unknown.is_empty() { Ok(()) } else { writeln!(out, "unknown: {unknown}") }
}

/// Returns the command that drains the nodes, unless those before drain all of them: a second reason would replace the first.
fn new_drain<'a>(problem: &'a FleetProblem, drained: &mut BTreeSet<usize>) -> Option<&'a str> {
    let command = problem.drain.as_deref()?;
    let count = drained.len();
    drained.extend(problem.members.iter().map(|member| member.index));
    (drained.len() > count).then_some(command)
}

fn write_problem(
    out: &mut impl Write,
    problem: &FleetProblem,
    fleet: &Fleet,
    now: Timestamp,
) -> io::Result<()> {
    writeln!(out, "problem: {}", problem.sentence())?;
    writeln!(out, "severity: {}", problem.severity.as_str())?;
    writeln!(out, "nodes: {}", problem.nodes)?;
    writeln!(out, "count: {}", problem.count())?;
    if let Some(since) = problem.since() {
        let before = if since.is_lower_bound { "before " } else { "" };
        writeln!(out, "since: {before}{}", since.at.rfc3339_seconds())?;
    }
    for line in problem.device_lines(fleet) {
        writeln!(out, "device: {line}")?;
    }
    if let Some(evidence) = problem.evidence(fleet, now) {
        writeln!(out, "evidence: {evidence}")?;
    }
    for line in problem.advice.text().lines() {
        writeln!(out, "remedy: {line}")?;
    }
    Ok(())
}
