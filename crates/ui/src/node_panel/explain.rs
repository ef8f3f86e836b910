//! Explains a node, a device and a process: every number with its source, its age and its meaning.

use std::collections::BTreeSet;

use crate::node_panel::{device_overview, device_table, process_table};
use crate::render_context::RenderContext;
use crate::timeline::{time_text as clock_text, zoned};
use crate::widgets::explanation::{Explanation, Fact, Remark};
use crate::widgets::line::Tone;
use crate::widgets::number_format::interval;
use gtop_fleet::advice::{self, Reader};
use gtop_fleet::insight::RowId;
use gtop_fleet::insight::device_flag::DeviceFlag;
use gtop_fleet::insight::node_status::{NodeStatus, device_label, model_name, notes, status_notes};
use gtop_fleet::insight::note::Note;
use gtop_fleet::metrics::{
    DEVICE, HOST, PROCESS, Usage, device_fields, help_of, is_driver_metric, is_slow_host_metric,
};
use gtop_fleet::{EventRecord, Node, StateReason};
use gtop_local::fault::STEP_OF_JOB;
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::{Device, KernelLine, Link, Source, TransportKind, bus_address};

/// Maximum number of lines of the kernel's log that are shown of a device.
const MAX_KERNEL_LINES: usize = 8;

const UNLISTED: &str = "from the kernel's log, of devices that no driver lists";

/// Explains a node: its notes, the numbers of its row, how it is reached, and its host.
pub(crate) fn node(
    context: RenderContext<'_>,
    node: &Node,
    notes: &[Note],
    row: Vec<Fact>,
) -> Explanation {
    let now = context.view.now;
    let format = (context.options.units(), context.zone);
    let (slow_fields, fast_fields): (Vec<_>, Vec<_>) =
        HOST.iter().partition(|field| is_slow_host_metric(field.id));
    let [fast_facts, slow_facts] =
        [fast_fields, slow_fields].map(|fields| Fact::of_metrics(fields.into_iter(), node, format));
    let (fast, slow) = (Source::host(), Source::host_slow());
    let [from_fast, from_slow] =
        [&fast, &slow].map(|source| format!("host, from {}", source_text(source)));
    // Devices may be older than their host, and the other way round.
    let (of_host, of_devices): (Vec<Fact>, Vec<Fact>) =
        row.into_iter().partition(|fact| fact.meaning == help_of(HOST, "cpu"));
    let devices_at = node.device_sources.iter().filter_map(|source| taken_at(node, source)).min();
    Explanation::new(format!("node {}", node.name))
        .with_remarks(explained_notes(node, notes))
        .with_numbers(UNLISTED, None, unlisted_kernel_lines(context, node))
        .with_numbers("connection", None, connection(context, node))
        .with_numbers("numbers of the row", devices_at.or_else(|| node.taken_at()), of_devices)
        .with_numbers("numbers of the row, of its host", taken_at(node, &fast), of_host)
        .with_numbers(from_fast, taken_at(node, &fast), fast_facts)
        .with_numbers(from_slow, taken_at(node, &slow), slow_facts)
        .with_numbers("sources of its values", None, sources(node, now))
}

/// What matters of a process.
const PROCESS_OVERVIEW: [&str; 9] =
    ["command", "user", "job", "time", "gpumem", "psm", "pcpu", "rss", "state"];

/// Explains a node that has no row in a list.
pub(crate) fn node_alone(context: RenderContext<'_>, shown: &Node) -> Explanation {
    node(context, shown, &notes(context.view, shown), Vec::new())
}

/// Explains the row of a node's tables; the node if the row is gone.
pub(crate) fn row(context: RenderContext<'_>, node: &Node, row_id: &RowId) -> Explanation {
    let found = match row_id {
        RowId::Device(uuid) => {
            let position = node.devices.iter().position(|device| device.uuid == *uuid);
            position.and_then(|position| device(context, node, position))
        }
        RowId::Process { device, pid, .. } => {
            process(context, node, (device, *pid), process_table::facts(context, node, row_id))
        }
    };
    found.unwrap_or_else(|| node_alone(context, node))
}

/// Explains a device; `None` if the node has none at this position.
pub(crate) fn device(
    context: RenderContext<'_>,
    node: &Node,
    position: usize,
) -> Option<Explanation> {
    let device = node.devices.get(position)?;
    let now = context.view.now;
    let format = (context.options.units(), context.zone);
    let source = node.device_sources.get(position);
    let (common_fields, other_fields): (Vec<_>, Vec<_>) =
        device_fields().partition(|field| DEVICE.iter().any(|common| common.alias == field.alias));
    let common = Fact::of_metrics(common_fields.into_iter(), device, format);
    // What no source of this device reports is not listed.
    let mut others = Fact::of_metrics(other_fields.into_iter(), device, format);
    others.retain(|fact| !fact.is_unsampled());
    let name = source.map_or_else(|| "an unknown source".to_owned(), source_text);
    let slow = source.map(Source::slow);
    let slow_at = slow.and_then(|slow| taken_at(node, &slow));
    let at = source.and_then(|source| taken_at(node, source));
    let mut remarks: Vec<Remark> = DeviceFlag::of(node, device).iter().map(Remark::from).collect();
    let reason = StateReason::last_known(node, position);
    remarks.extend(reason.and_then(|reason| {
        Some(Remark {
            note: reason.name()?.to_owned(),
            tone: Tone::Faint,
            meaning: format!("does not count as free: {}", reason.text()),
            remedy: String::new(),
        })
    }));
    if !node.device_freshness(position, now).is_fresh() || node.link != Link::Up {
        let notes = status_notes(&context.view.fleet, node, now);
        remarks.extend(explained_notes(node, &notes));
    }
    let label = device_label(node, device);
    let title = format!("device {label} of {}: {}", node.name, model_name(device));
    let explanation = Explanation::new(title);
    // One note fits on the page with its remedy; the reasons of several are named with the health.
    let explanation = if remarks.len() > 1 {
        explanation.with_remark_details("what is wrong, and what to do about it", remarks)
    } else {
        explanation.with_remarks(remarks)
    };
    Some(
        explanation
            .with_numbers("overview", at, device_overview::facts(context, node, (position, device)))
            .with_details("from the kernel's log", None, kernel_lines(context, node, &device.uuid))
            .with_details("numbers of the row", at, device_table::facts(context, node, position))
            .with_details(format!("measured by {name}"), at, common)
            .with_details(format!("more from {name}"), slow_at.or(at), others),
    )
}

/// Returns what the kernel has logged of a device, the last first.
fn kernel_lines(context: RenderContext<'_>, node: &Node, device: &str) -> Vec<Fact> {
    let own = node.events.iter().filter(|record| *record.event.device == *device);
    let mut lines: Vec<(&EventRecord, &KernelLine)> =
        own.flat_map(|record| record.lines.iter().map(move |line| (record, &**line))).collect();
    lines.sort_by_key(|(_, line)| std::cmp::Reverse(line.at));
    lines.truncate(MAX_KERNEL_LINES);
    let facts = lines.into_iter().map(|(record, line)| {
        let name = record.event.code.map(|code| format!("Xid {code}")).unwrap_or_default();
        Fact::known(&name, clock_text(line.at, context.zone, "%b %d %H:%M:%S"), line.text())
    });
    facts.collect()
}

/// Returns the same lines for all devices that no driver lists, each with the address of its device.
fn unlisted_kernel_lines(context: RenderContext<'_>, node: &Node) -> Vec<Fact> {
    let unlisted = node.events.iter().filter(|record| record.is_of_unlisted_device());
    let devices: BTreeSet<&str> = unlisted.map(|record| &*record.event.device).collect();
    let facts = devices.into_iter().flat_map(|device| {
        let facts = kernel_lines(context, node, device).into_iter();
        let name = bus_address(device).unwrap_or(device);
        facts.map(move |fact| Fact { name: format!("{name} {}", fact.name), ..fact })
    });
    facts.collect()
}

/// Explains the use of a device by a process; `None` if it is gone.
pub(crate) fn process(
    context: RenderContext<'_>,
    node: &Node,
    (device, pid): (&str, u32),
    row: Vec<Fact>,
) -> Option<Explanation> {
    let position = node.devices.iter().position(|known| *known.uuid == *device);
    let shown: Option<&Device> = position.and_then(|position| node.devices.get(position));
    let usage = Usage::of(node, shown?).find(|usage| usage.used.pid == pid)?;
    let format = (context.options.units(), context.zone);
    let fields = PROCESS_OVERVIEW.iter();
    let fields = fields.filter_map(|alias| PROCESS.iter().find(|field| field.alias == *alias));
    let mut overview = Fact::of_metrics(fields, &usage, format);
    overview.retain(|fact| !fact.is_unsampled());
    let (driver_fields, kernel_fields): (Vec<_>, Vec<_>) =
        PROCESS.iter().partition(|field| is_driver_metric(field.alias));
    let [driver_facts, kernel_facts] = [driver_fields, kernel_fields].map(|fields| {
        let mut facts = Fact::of_metrics(fields.into_iter(), &usage, format);
        facts.retain(|fact| !fact.is_unsampled());
        facts
    });
    let backend = position.and_then(|position| node.device_sources.get(position));
    let list = backend.map(Source::processes);
    let driver = backend.map_or_else(|| "the driver".to_owned(), source_text);
    let listed_at = list.and_then(|list| taken_at(node, &list));
    let at = listed_at.or_else(|| taken_at(node, backend?));
    let label = shown.map(|device| device_label(node, device)).unwrap_or_default();
    let unseen = usage.unseen.as_ref().filter(|_| usage.process.is_none());
    let hidden = unseen.map(|unseen| Remark {
        note: format!("the kernel's values are unknown: {}", unseen.why.reason().text()),
        tone: Tone::Warn,
        meaning: "the driver reports the process, but /proc does not show it to gtop's login"
            .to_owned(),
        remedy: advice::device::HIDDEN_PROCESS.to_owned(),
    });
    Some(
        Explanation::new(format!("process {pid} on device {label} of {}", node.name))
            .with_remarks(hidden)
            .with_numbers("overview", at, overview)
            .with_details("numbers of the row", at, row)
            .with_details(format!("measured by {driver}"), at, driver_facts)
            .with_details("from /proc of the node", at, kernel_facts),
    )
}

/// Explains notes on a node, except the next attempt to connect, which is listed with the connection.
pub(crate) fn explained_notes(node: &Node, notes: &[Note]) -> Vec<Remark> {
    let remarks = notes.iter().filter(|note| !matches!(note, Note::NextAttempt(_)));
    remarks.map(|note| Remark::of_note(note, node)).collect()
}

impl Remark {
    fn of_note(note: &Note, of: &Node) -> Self {
        Self {
            note: note.text(),
            tone: note.severity().into(),
            meaning: note.meaning().into_owned(),
            remedy: note.advice(&of.name, Reader::Screen).text(),
        }
    }
}

impl From<&DeviceFlag> for Remark {
    fn from(flag: &DeviceFlag) -> Self {
        let (meaning, remedy) = (flag.meaning().to_owned(), flag.remedy().to_owned());
        Self { note: flag.badge(), tone: flag.severity().into(), meaning, remedy }
    }
}

fn taken_at(node: &Node, source: &Source) -> Option<Timestamp> {
    node.source(source)?.taken_at
}

/// Returns the name of a source as people know it.
pub(crate) fn source_text(source: &Source) -> String {
    match source.as_str() {
        "host" => "/proc of the node".to_owned(),
        "host.slow" => "/sys and the file systems of the node".to_owned(),
        "nvml" => "NVML".to_owned(),
        "tpu" => "the TPU runtime".to_owned(),
        other => other.to_owned(),
    }
}

/// Formats a time of day and how long ago it was.
pub(crate) fn time_text(context: RenderContext<'_>, at: Timestamp) -> String {
    let age = format!("{} ago", format_age(context.view.now.since(at)));
    zoned(at, context.zone)
        .map_or_else(|| age.clone(), |moment| format!("{}, {age}", moment.strftime("%H:%M:%S")))
}

/// Returns how the node is reached: its state, what was tried, and when it is tried again.
fn connection(context: RenderContext<'_>, node: &Node) -> Vec<Fact> {
    let now = context.view.now;
    let state = match NodeStatus::of(node, now) {
        NodeStatus::Waiting => "waiting to connect",
        NodeStatus::Opening(_) => "connecting",
        NodeStatus::Starting => "connected, no values yet",
        NodeStatus::Fresh => "connected, values are fresh",
        NodeStatus::Stale(_) => "connected, values are old",
        NodeStatus::Down => "down",
        NodeStatus::Reported if node.powered_off().is_some() => {
            "not tried while the scheduler has it powered down; known from the scheduler"
        }
        NodeStatus::Reported => {
            "not open to you, maybe because no job of yours runs there; known from the scheduler"
        }
    };
    let way = node.via.map(|via| match via {
        TransportKind::Native => "gtop's built-in SSH",
        TransportKind::SshProgram => "the ssh program",
        TransportKind::Exec => "the command of --exec",
        TransportKind::Step => STEP_OF_JOB,
        TransportKind::Local => "locally, without SSH",
        TransportKind::Http => "its page of metrics, over HTTP",
        TransportKind::InProcess => "nothing: it is simulated in this process, without SSH",
    });
    let seen = node.sources.iter().filter_map(|state| state.taken_at).max();
    let next = match &node.link {
        Link::Down { retry_at: Some(at), .. } if *at > now => {
            Some(format!("in {}", format_duration(at.since(now))))
        }
        Link::Down { retry_at: None, .. } => Some("when R is pressed".to_owned()),
        Link::Down { .. } => Some("now".to_owned()),
        Link::Opening { attempt } => Some(format!("now, attempt {attempt}")),
        Link::Idle | Link::Up => None,
    };
    let (last, meaning) = match seen {
        None => ("never since gtop started".to_owned(), "it has sent no values"),
        Some(at) if node.fault().is_some() => {
            let meaning = "the last values that it sent; it has been silent or down since";
            (time_text(context, at), meaning)
        }
        Some(at) => (time_text(context, at), "the last values that it sent"),
    };
    let tried = node.fault().map(|fault| Fact::known("tried", fault.message(), "what failed last"));
    let way = way.map(|way| Fact::known("reached by", way, "the way of the last connection"));
    let next = next.map(|next| {
        Fact::known("next try", next, "gtop retries automatically; if it does not, press R")
    });
    let state = Fact::known("state", state, "");
    let seen = Fact::known("last seen", last, meaning);
    [Some(state), Some(seen), way, tried, next].into_iter().flatten().collect()
}

/// Lists where the values come from, and since when or why not.
fn sources(node: &Node, now: Timestamp) -> Vec<Fact> {
    let facts = node.sources.iter().map(|state| {
        let seen = match (&state.absent, state.taken_at) {
            (Some(_), _) => "not there".to_owned(),
            (None, Some(at)) => format!("{} ago", format_age(now.since(at))),
            (None, None) => "never".to_owned(),
        };
        let meaning = match (&state.fault, &state.absent) {
            (Some(fault), _) => {
                let text = fault.kind.text(&state.source, None);
                let colon = if fault.message.is_empty() { "" } else { ": " };
                format!("{text}{colon}{}", fault.message)
            }
            (None, Some(why)) => why.to_string(),
            (None, None) => format!("asked every {}", interval(state.interval)),
        };
        Fact::known(state.source.as_str(), seen, meaning)
    });
    facts.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::display_options::DisplayOptions;
    use crate::widgets::explanation::UnfoldedDetails;
    use gtop_fleet::Fleet;
    use gtop_fleet::insight::FleetView;
    use gtop_model::{Fault, FaultKind, NodeName, Percent, Reading, Reason};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn text(node: Node, explained: impl Fn(RenderContext<'_>, &Node) -> Explanation) -> String {
        let view = FleetView::new(Fleet::new(vec![Arc::new(node)].into()), NOW);
        let (options, zone) = (DisplayOptions::default(), jiff::tz::TimeZone::UTC);
        let context = RenderContext { view: &view, options: &options, zone: &zone };
        let explanation = explained(context, &view.fleet.nodes[0]);
        let mut unfolded = UnfoldedDetails::default();
        unfolded.set_all(&explanation, true);
        let lines = explanation.drawn(&unfolded, NOW, 120).lines;
        lines.iter().map(|line| line.plain_text() + "\n").collect()
    }

    fn node(change: impl FnOnce(&mut Node)) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        change(&mut node);
        node
    }

    #[test]
    fn a_down_node_tells_why_since_when_and_what_to_do() {
        let retry_at = Some(NOW.plus(Duration::from_secs(12)));
        let down = node(|node| {
            let fault = Fault::new(FaultKind::Refused, "port 22");
            node.link = Link::Down { fault, retry_at };
            let seen = NOW.minus(Duration::from_secs(180));
            node.sources.push(gtop_fleet::SourceState {
                source: Source::host(),
                taken_at: Some(seen),
                interval: Duration::from_secs(1),
                fault: None,
                absent: None,
            });
        });
        let text = text(down, node_alone);
        for part in [
            "✗ connection refused: port 22",
            FaultKind::Refused.meaning(),
            "→ check that sshd runs there and that the port is right",
            "last seen",
            "00:13:40, 3m00s ago",
            "in 12s",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn numbers_of_the_host_have_their_own_age_where_the_devices_are_stuck() {
        let state = |source, seconds| gtop_fleet::SourceState {
            source,
            taken_at: Some(NOW.minus(Duration::from_secs(seconds))),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        };
        let stuck = node(|node| {
            let nvml = Source::new("nvml");
            node.link = Link::Up;
            node.devices = vec![Device::default()].into();
            node.device_sources = vec![nvml.clone()].into();
            node.sources = vec![state(Source::host(), 1), state(nvml, 42)];
        });
        let text = text(stuck, |context, shown| {
            let row = vec![
                Fact::known("%", "97", "mean utilization"),
                Fact::known("CPU", "36", help_of(HOST, "cpu")),
            ];
            super::node(context, shown, &[], row)
        });
        let from = |line: &&str| *line != "numbers of the row, 42s ago";
        let parts: Vec<&str> = text.lines().skip_while(from).take(5).collect();
        assert!(parts[1].trim_start().starts_with("% "), "{text}");
        assert_eq!(parts[3], "numbers of the row, of its host, 1s ago", "{text}");
        assert!(parts[4].trim_start().starts_with("CPU "), "{text}");
    }

    #[test]
    fn a_node_that_was_never_reached_says_so() {
        let text = text(node(|_| {}), node_alone);
        assert!(text.contains("never since gtop started"), "{text}");
        assert!(text.contains("it has sent no values"), "{text}");
        assert!(!text.contains("the last values") && !text.contains("reached by"), "{text}");
        assert!(text.contains("– not sampled"), "{text}");
    }

    #[test]
    fn a_device_explains_each_metric_from_its_declaration() {
        let with_device = node(|node| {
            node.link = Link::Up;
            node.devices = vec![Device {
                utilization: Reading::Known(Percent::new(97.0).unwrap()),
                power: Reading::Unknown(Reason::NotSupported),
                ..Device::default()
            }]
            .into();
            node.device_sources = vec![Source::new("nvml")].into();
        });
        let text = text(with_device, |context, node| device(context, node, 0).unwrap());
        for field in DEVICE {
            let help = field.help.split(' ').next().unwrap();
            assert!(text.contains(help), "{} in {text}", field.alias);
        }
        assert!(text.contains("measured by NVML"), "{text}");
        assert!(text.contains("– not supported"), "{text}");
    }
}
