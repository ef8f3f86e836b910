//! What to type next on a machine without devices: how gtop watches others.

use std::borrow::Cow;

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
struct NextStep {
    command: &'static str,
    meaning: Cow<'static, str>,
    short: Cow<'static, str>,
}

const HOSTS: NextStep = NextStep {
    command: "gtop HOST...",
    meaning: Cow::Borrowed("machines that ssh reaches, such as gpu[01-16]"),
    short: Cow::Borrowed("over ssh: gpu[01-16]"),
};
const DEMO: NextStep = NextStep {
    command: "gtop --demo",
    meaning: Cow::Borrowed("a simulated fleet, to look around"),
    short: Cow::Borrowed("a simulated fleet"),
};

/// Returns the step to the nodes of jobs.
fn of_jobs(scheduler: &SchedulerWords) -> NextStep {
    let name = scheduler.name;
    NextStep {
        command: scheduler.watch,
        meaning: format!("the nodes of your {name} jobs").into(),
        short: format!("your {name} jobs").into(),
    }
}

/// Draws the next steps. Returns no lines for another machine, while it is not known whether there are devices, or
/// if there are some.
pub(super) fn lines(context: RenderContext<'_>, node: &Node, width: u16) -> Vec<Line> {
    if !is_without_devices(context, node) {
        return Vec::new();
    }
    let jobs = of_jobs(context.options.scheduler);
    let steps =
        if context.options.has_scheduler { [&jobs, &HOSTS, &DEMO] } else { [&HOSTS, &jobs, &DEMO] };
    let column = steps.iter().map(|step| width_of(step.command)).max().unwrap_or(0);
    let title = Line::styled("to watch devices elsewhere", Tone::Strong);
    let steps = steps.iter().map(|step| {
        let meaning = if width < WIDE { &step.short } else { &step.meaning };
        let line = Line::new().gap(GAP).left_aligned(step.command, column, Tone::Accent);
        line.gap(GAP).text(meaning.clone(), Tone::Plain)
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
