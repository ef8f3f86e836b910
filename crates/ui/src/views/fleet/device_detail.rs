//! The detail lines of the device under the cursor of the heat map.

use crate::render_context::RenderContext;
use crate::views::fleet::cell_meaning::MapCell;
use crate::views::fleet::heat_map::cursor_symbol;
use crate::views::fleet::idle_time;
use crate::views::fleet::node_notes::format_elapsed;
use crate::views::fleet::node_table;
use crate::views::fleet::state::State;
use crate::widgets::line::{Line, Tone, flow, truncate};
use crate::widgets::number_format::{or_unknown, percent_value, power_text};
use gtop_fleet::Node;
use gtop_fleet::insight::device_flag::DeviceFlag;
use gtop_fleet::insight::node_status::{NodeStatus, device_label, model_name, notes};
use gtop_model::{Device, Percent};

/// A longer name is cut to leave room for the values.
const MAX_NAME_WIDTH: u16 = 40;

/// Returns the detail lines of the device at this position of a node: first what its symbol means; those of the node if it
/// shows no devices.
pub(super) fn lines(
    context: RenderContext<'_>,
    state: &State,
    (node, position): (&Node, Option<usize>),
    (width, max_lines): (u16, usize),
) -> Vec<Line> {
    let fleet_view = context.view;
    let found = position.and_then(|position| Some((position, node.devices.get(position)?)));
    let Some((position, device)) = found else {
        return vec![node_table::detail(fleet_view, node, width)];
    };
    let holdings = node.device_holdings(position);
    let status = NodeStatus::of(node, fleet_view.now);
    let is_old =
        status == NodeStatus::Down || !node.device_freshness(position, fleet_view.now).is_fresh();
    let node_name = truncate(node.name.as_str(), MAX_NAME_WIDTH);
    let title = format!("{node_name} · device {}", device_label(node, device));
    let mut parts = vec![Line::styled(title, Tone::Strong)];
    let drawn = state.map.cells.of(&node.name).get(position).copied();
    let metric = state.metric;
    let cell = drawn.map(|(symbol, _)| MapCell {
        metric,
        symbol,
        node,
        position,
        device,
        holdings,
        is_old,
    });
    if let Some(cell) = &cell {
        let mark = vec![(cursor_symbol(cell.symbol), Tone::Caret)];
        let meaning = cell.meaning(context, &state.jobs);
        parts.push(Line::new().strip(mark, 1).gap(1).text(meaning, Tone::Plain));
    }
    if is_old && let Some(note) = notes(fleet_view, node).first() {
        parts.push(Line::styled(note.text(), note.severity()));
    }
    parts.push(Line::styled(model_name(device), Tone::Plain));
    if cell.is_none_or(|cell| !cell.shows_utilization()) {
        let load = or_unknown(percent_value(device.load()), |util| format!("{util:.0}%"));
        parts.push(Line::styled(load, Tone::Plain));
    }
    let units = context.options.units();
    let memory = units.usage_with_unit(device.memory_used.get(), device.memory_total.get());
    let owner = if device.has_host_memory { " of the host" } else { "" };
    parts.push(Line::styled(memory + owner, Tone::Plain));
    // Power and heat are those of the whole device.
    if device.parent.is_none() {
        parts.push(Line::styled(
            power_text(device.power.get(), device.power_limit.get()),
            Tone::Plain,
        ));
        let heat = or_unknown(device.temperature.get(), |celsius| units.temperature(celsius));
        parts.push(Line::styled(heat, Tone::Plain));
    }
    let users: Vec<String> = holdings.users().iter().map(ToString::to_string).collect();
    let jobs: Vec<String> = holdings.jobs().map(|job| state.jobs.name(job)).collect();
    parts.push(match (users.is_empty(), node.has_unknown_user(position)) {
        (false, _) => Line::styled(users.join(", "), Tone::Plain),
        (true, true) => Line::styled("user unknown", Tone::Faint),
        (true, false) => Line::styled("unused", Tone::Faint),
    });
    if !jobs.is_empty() {
        parts.push(Line::styled(format!("job {}", jobs.join(", ")), Tone::Plain));
    }
    let idle = idle_time::idle_held_time(fleet_view, node, position);
    if let Some(idle) = idle.filter(|_| !is_old) {
        parts.push(Line::styled(format!("idle-held for {}", format_elapsed(idle)), Tone::Warn));
    }
    let throttled = throttle(node.whole(device)).filter(|_| device.fault.is_none());
    parts.extend(throttled.map(|text| Line::styled(text, Tone::Warn)));
    let flags = DeviceFlag::of(node, device);
    let faults = flags.iter().filter(|flag| !flag.is_slowdown());
    parts.extend(faults.map(|flag| Line::styled(flag.text(), flag.severity())));
    let last = parts.len() - 1;
    for part in parts.iter_mut().take(last) {
        *part = std::mem::take(part).text(" ·", Tone::Faint);
    }
    flow(parts, 1, width, max_lines)
}

/// Returns why clocks are throttled, and for what share of the time if counted.
fn throttle(device: &Device) -> Option<String> {
    // The power limit throttles every fully loaded device: so it is not noted.
    let throttle = device.throttle.get().filter(|throttle| throttle.is_harmful())?;
    let rates = device.rates.as_ref();
    let share = rates.and_then(|rates| {
        let all = [
            rates.thermal_throttled,
            rates.hardware_thermal_throttled,
            rates.power_brake_throttled,
        ];
        all.into_iter().filter_map(|share| share.get().map(Percent::get)).reduce(f32::max)
    });
    let share = share.map_or_else(String::new, |share| format!(" {share:.0}% of the time"));
    Some(throttle.text() + &share)
}
