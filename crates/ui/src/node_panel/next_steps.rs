//! What to type next on a machine without devices: how gtop watches others.

use crate::render_context::RenderContext;
use crate::widgets::line::{Line, Tone};
use gtop_fleet::Node;
use gtop_local::text::width_of;
use gtop_model::{SchedulerWords, TransportKind};

/// From this width on, each command has the long form of its meaning.
const WIDE: u16 = 64;
/// Columns before and between commands and meanings.
const GAP: u16 = 2;

/// A command, and what it shows in a long and a short form.
type NextStep<'a> = (&'a str, [&'a str; 2]);

/// Draws the next steps. Returns no lines for another machine, while it is not known whether there are devices, or
/// if there are some.
pub(super) fn lines(context: RenderContext<'_>, node: &Node, width: u16) -> Vec<Line> {
    if !is_without_devices(context, node) {
        return Vec::new();
    }
    let SchedulerWords { name, watch, .. } = context.options.scheduler;
    let [long, short] = ["the nodes of your", "your"].map(|of| format!("{of} {name} jobs"));
    let jobs: NextStep<'_> = (watch, [&long, &short]);
    let hosts =
        ("gtop HOST...", ["machines that ssh reaches, such as gpu[01-16]", "over ssh: gpu[01-16]"]);
    let demo = ("gtop --demo", ["a simulated fleet, to look around", "a simulated fleet"]);
    let steps = if context.options.has_scheduler { [jobs, hosts] } else { [hosts, jobs] };
    let steps = steps.into_iter().chain([demo]);
    let column = steps.clone().map(|(command, _)| width_of(command)).max().unwrap_or(0);
    let title = Line::styled("to watch devices elsewhere", Tone::Strong);
    let steps = steps.map(|(command, [long, short])| {
        let line = Line::new().gap(GAP).left_aligned(command, column, Tone::Accent);
        line.gap(GAP).text(if width < WIDE { short } else { long }, Tone::Plain)
    });
    let lines = std::iter::once(title).chain(steps);
    lines.map(|line| line.truncated(width)).collect()
}

/// Returns true if the node is this machine, the only one, and has answered that it has no devices: one that fails
/// to read its devices may have some, and those that the selection hides are devices.
fn is_without_devices(context: RenderContext<'_>, node: &Node) -> bool {
    let nodes = &context.view.fleet.nodes;
    let Some(hello) = &node.hello else { return false };
    let states = hello.backends.iter().filter_map(|backend| node.source(&backend.source));
    nodes.len() == 1
        && nodes.iter().all(|node| node.devices.is_empty())
        && node.via == Some(TransportKind::Local)
        && node.taken_at().is_some()
        && !node.has_unreadable_devices()
        && states.into_iter().all(|state| {
            state.fault.is_none() && (state.absent.is_some() || state.taken_at.is_some())
        })
}
