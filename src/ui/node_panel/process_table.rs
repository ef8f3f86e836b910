//! The process table of a node: the processes on each device and what they use.

use std::time::Duration;

use crate::fleet::{Node, Process};
use crate::insight::node_status::{device_label, shown_id};
use crate::insight::{RowId, process_rows};
use crate::model::UNKNOWN;
use crate::model::{DeviceUse, JobList, Link, Reading, Reason, Vendor};
use crate::query::DisplaySelection;
use crate::time::Timestamp;
use crate::ui::RenderContext;
use crate::ui::navigation::Navigation;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{
    Units, format_run_time, or_unknown, percent, percent_value,
};

/// Draws the titles and the visible rows in `height` lines.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let now = context.view.now;
    let rows_by_device = process_rows(node);
    let rows = height.saturating_sub(1);
    let cursor = navigation.cursor(node);
    let cursor_index =
        rows_by_device.iter().position(|(_, row_id)| cursor.as_ref() == Some(row_id));
    navigation.process_table.scroll_to(rows, rows_by_device.len(), cursor_index);
    if rows_by_device.is_empty() {
        return vec![empty_line(node, &context.options.selection).truncated(width)];
    }
    let columns = Columns::fit(node, context.options.units(), width);
    let is_fresh = node.link == Link::Up && has_fresh_process_lists(node, now);
    let mut lines =
        vec![navigation.process_table.with_position(columns.titles(), rows_by_device.len(), width)];
    for at in navigation.process_table.range(rows_by_device.len()) {
        let Some((index, row_id)) = rows_by_device.get(at) else { continue };
        let Some(used) = node.uses.get(*index) else { continue };
        let line = columns.row(node, used, context.view.fleet.jobs.as_deref());
        let line = if is_fresh { line } else { line.dimmed() };
        lines.push(line.truncated(width).selected(cursor.as_ref() == Some(row_id)));
    }
    lines
}

fn has_fresh_process_lists(node: &Node, now: Timestamp) -> bool {
    node.device_sources
        .iter()
        .filter_map(|source| node.process_list(source))
        .all(|state| state.freshness(now).is_fresh())
}

fn empty_line(node: &Node, selection: &DisplaySelection) -> Line {
    let mut without_fault =
        node.devices.iter().enumerate().filter(|(_, device)| device.fault.is_none());
    let unknown = without_fault.find_map(|(index, _)| node.users_unknown_reason(index));
    if let Some(reason) = unknown.filter(|reason| *reason != Reason::NotSampled) {
        return Line::styled(format!("device users unknown: {}", reason.text()), Tone::Faint);
    }
    if let Some(text) = selection.no_processes_message() {
        return Line::styled(text, Tone::Faint);
    }
    let line = Line::styled("no processes use a device", Tone::Faint);
    match node.hello.as_ref().map(|hello| hello.host.hidepid) {
        Some(level) if level > 0 => line.text(
            format!(" visible to us: /proc hides processes of other users (hidepid={level})"),
            Tone::Faint,
        ),
        _ => line,
    }
}

pub(crate) fn has_only_tpus(node: &Node) -> bool {
    node.devices.iter().all(|device| device.vendor == Reading::Known(Vendor::Google))
}

#[derive(Clone, Copy, Debug)]
struct Columns {
    gap: u16,
    user: u16,
    label: u16,
    time: u16,
    job: u16,
    has_host: bool,
    has_only_tpus: bool,
    /// 0 if no driver reports the kind of a process.
    kind: u16,
    /// 0 if no driver reports the memory bandwidth of a process.
    bandwidth: u16,
    units: Units,
}

impl Columns {
    fn fit(node: &Node, units: Units, width: u16) -> Self {
        let is_reported = |read: fn(&DeviceUse) -> bool| width >= 100 && node.uses.iter().any(read);
        let has_jobs = node.processes.iter().any(|process| process.statics.job.is_some());
        let has_slices = node.devices.iter().any(|device| device.parent.is_some());
        Self {
            gap: if width >= 110 { 2 } else { 1 },
            user: if width >= 110 { 12 } else { 8 },
            label: if has_slices { 4 } else { 3 },
            time: if width >= 70 { 8 } else { 0 },
            job: if width >= 100 && has_jobs { 10 } else { 0 },
            has_host: width >= 60,
            has_only_tpus: has_only_tpus(node),
            kind: if is_reported(|used| used.kind.get().is_some()) { 4 } else { 0 },
            bandwidth: if is_reported(|used| used.memory_utilization.get().is_some()) {
                3
            } else {
                0
            },
            units,
        }
    }

    fn titles(&self) -> Line {
        let Self { gap, .. } = *self;
        let faint = Tone::Faint;
        let [device, memory, load] =
            if self.has_only_tpus { ["TPU", "TPU-MEM", "%TC"] } else { ["GPU", "GPU-MEM", "%SM"] };
        let mut line = Line::new()
            .right_aligned("PID", 7, faint)
            .gap(gap)
            .left_aligned("USER", self.user, faint)
            .gap(gap)
            .right_aligned(device, self.label, faint);
        if self.kind > 0 {
            line = line.gap(gap).left_aligned("TYPE", self.kind, faint);
        }
        line = line.gap(gap).right_aligned(memory, 7, faint).gap(gap).right_aligned(load, 3, faint);
        if self.bandwidth > 0 {
            line = line.gap(gap).right_aligned("%BW", self.bandwidth, faint);
        }
        if self.has_host {
            line = line
                .gap(gap)
                .right_aligned("%CPU", 5, faint)
                .gap(gap)
                .right_aligned("RSS", 6, faint);
        }
        if self.time > 0 {
            line = line.gap(gap).right_aligned("TIME", self.time, faint);
        }
        if self.job > 0 {
            line = line.gap(gap).left_aligned("JOB", self.job, faint);
        }
        line.gap(gap).text("COMMAND", faint)
    }

    fn row(&self, node: &Node, used: &DeviceUse, jobs: Option<&JobList>) -> Line {
        let Self { gap, .. } = *self;
        let plain = Tone::Plain;
        let process = node.process(used.pid);
        let device = node.devices.iter().find(|device| device.uuid == used.device);
        let device = device.map_or_else(|| UNKNOWN.to_owned(), |device| device_label(node, device));
        let amount = |bytes| self.units.amount(bytes);
        let memory = or_unknown(used.memory.get(), amount);
        let mut line = Line::new()
            .right_aligned(&used.pid.to_string(), 7, Tone::Strong)
            .gap(gap)
            .left_aligned(user(process), self.user, plain)
            .gap(gap)
            .right_aligned(&device, self.label, plain);
        if self.kind > 0 {
            let kind = used.kind.get().map_or(UNKNOWN, crate::model::UseKind::as_str);
            line = line.gap(gap).left_aligned(kind, self.kind, plain);
        }
        line = line.gap(gap).right_aligned(&memory, 7, plain).gap(gap).right_aligned(
            &percent(percent_value(used.sm)),
            3,
            plain,
        );
        if self.bandwidth > 0 {
            line = line.gap(gap).right_aligned(
                &percent(percent_value(used.memory_utilization)),
                self.bandwidth,
                plain,
            );
        }
        if self.has_host {
            let cpu = process.and_then(|process| process.cpu_percent.get());
            let resident = or_unknown(process.and_then(|process| process.resident.get()), amount);
            line = line
                .gap(gap)
                .right_aligned(&percent(cpu), 5, plain)
                .gap(gap)
                .right_aligned(&resident, 6, plain);
        }
        if self.time > 0 {
            let time =
                or_unknown(process.and_then(|process| run_time(node, process)), format_run_time);
            line = line.gap(gap).right_aligned(&time, self.time, plain);
        }
        if self.job > 0 {
            let job = process.and_then(|process| process.statics.job.as_ref());
            let job = job.map_or(UNKNOWN, |job| shown_id(jobs, job));
            line = line.gap(gap).left_aligned(job, self.job, plain);
        }
        line.gap(gap).text(short_command(process, used), plain)
    }
}

fn user(process: Option<&Process>) -> &str {
    process.and_then(|process| process.statics.user.known()).map_or(UNKNOWN, |user| user)
}

/// Returns the running time of a process by the clock of its node.
fn run_time(node: &Node, process: &Process) -> Option<Duration> {
    let uptime = node.host.fast.uptime_seconds.get()?;
    let per_second = u64::from(node.hello.as_ref()?.host.ticks_per_second);
    let started = process.key.start_ticks.checked_div(per_second)?;
    Some(Duration::from_secs(uptime.checked_sub(started)?))
}

fn command<'a>(process: Option<&'a Process>, used: &'a DeviceUse) -> &'a str {
    process
        .and_then(|process| process.statics.command.known())
        .filter(|command| !command.is_empty())
        .or(used.driver_name.as_ref())
        .map_or(UNKNOWN, |command| command)
}

/// Returns the command line without the directory of the program.
fn short_command(process: Option<&Process>, used: &DeviceUse) -> String {
    let command_line = command(process, used);
    let (program, arguments) = command_line.split_once(' ').unwrap_or((command_line, ""));
    let program = program.rsplit_once('/').map_or(program, |(_, name)| name);
    if arguments.is_empty() { program.to_owned() } else { format!("{program} {arguments}") }
}

/// Describes one process, with its full command line at the end.
pub(crate) fn detail(node: &Node, row_id: &RowId) -> Option<Line> {
    let RowId::Process { device, pid, .. } = row_id else { return None };
    let used = node.uses.iter().find(|used| used.device == *device && used.pid == *pid)?;
    let process = node.process(*pid);
    let mut line = Line::styled(format!("{pid}  "), Tone::Strong).text(user(process), Tone::Plain);
    if let Some(parent) = process.and_then(|process| process.statics.parent_pid.get()) {
        line = line.text(format!("  parent {parent}"), Tone::Faint);
    }
    if let Some(job) = process.and_then(|process| process.statics.job.as_ref()) {
        line = line.text(format!("  job {job}"), Tone::Faint);
    }
    if let Reading::Unknown(reason) = &used.memory {
        line = line.text(format!("  memory: {}", reason.text()), Tone::Faint);
    }
    Some(line.text(format!("  {}", command(process, used)), Tone::Plain))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::{Device, NodeName, TpuDetails};

    fn tpu_node(is_held: Reading<bool>) -> Node {
        let mut node = Node::new(NodeName::new("tpu01").unwrap(), Duration::ZERO);
        let tpu = TpuDetails { is_held, ..TpuDetails::default() };
        node.devices = vec![Device {
            uuid: "tpu-1".into(),
            vendor: Reading::Known(Vendor::Google),
            tpu: Some(Arc::new(tpu)),
            ..Device::default()
        }];
        node
    }

    #[test]
    fn tpu_chips_with_hidden_users_are_not_reported_as_unused() {
        let text =
            |is_held| empty_line(&tpu_node(is_held), &DisplaySelection::default()).plain_text();
        assert_eq!(text(Reading::Known(false)), "no processes use a device");
        let hidden = "device users unknown: no permission";
        assert_eq!(text(Reading::Known(true)), hidden);
        assert_eq!(text(Reading::Unknown(Reason::NoPermission)), hidden);
    }

    #[test]
    fn processes_on_tpu_chips_have_tpu_titles() {
        let node = tpu_node(Reading::Known(true));
        let titles = Columns::fit(&node, Units::default(), 80).titles().plain_text();
        assert!(titles.contains("TPU TPU-MEM %TC") && !titles.contains("GPU"), "{titles}");
    }
}
