//! A picture for people who pipe: nodes, their devices, their processes, as aligned text.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::fields::Usage;
use crate::fleet::{Fleet, Ledger, Node, Totals};
use crate::model::{
    Bytes, Celsius, Device, DeviceFault, Freshness, Link, Percent, Reading, Throttle, Watts,
};
use crate::time::Timestamp;

mod jobs;

/// Writes one picture.
pub fn write_table(out: &mut impl Write, fleet: &Fleet, now: Timestamp) -> io::Result<()> {
    if let Some(list) = &fleet.jobs {
        jobs::write(out, list, &Ledger::of(fleet), now)?;
    }
    let width = fleet.nodes.iter().map(|node| node.name.as_str().len()).max().unwrap_or(0).max(4);
    for node in fleet.nodes.iter() {
        let same = fleet.same_as.get(&node.name).map(|name| format!("same machine as {name}"));
        writeln!(out, "{:<width$}  {}", node.name, node_line(node, now, same.as_deref()))?;
        for (place, device) in node.devices.iter().enumerate() {
            let stale = age_mark(node.device_freshness(place, now));
            writeln!(out, "{}{stale}", device_line(device))?;
            for usage in Usage::of(node, device) {
                writeln!(out, "{}", process_line(&usage))?;
            }
        }
    }
    writeln!(out, "{}", totals_line(&Totals::of(fleet, now)))
}

fn node_line(node: &Node, now: Timestamp, same: Option<&str>) -> String {
    if let Some(fault) = node.fault() {
        return format!("down: {}; {}", fault.sentence(), fault.remedy());
    }
    let state = match node.link {
        Link::Opening { attempt } => return format!("connecting, attempt {attempt}"),
        Link::Up => "up",
        Link::Idle | Link::Down { .. } => return "not tried yet".to_owned(),
    };
    let fast = &node.host.fast;
    let mut line = format!("{state:<4}  cpu {}", percent(node.host.cpu));
    let load = fast.load.get().map_or_else(|| "-".to_owned(), |[one, _, _]| format!("{one:.1}"));
    let used = match (fast.memory_total.get(), fast.memory_available.get()) {
        (Some(total), Some(free)) => Some((Bytes(total.0.saturating_sub(free.0)), total)),
        _ => None,
    };
    // Writing to a string cannot fail.
    _ = write!(line, "  load {load:>6}  mem {}", share_of(used));
    line.push_str(&age_mark(node.host_freshness(now)));
    for state in &node.sources {
        if let Some(fault) = &state.fault {
            _ = write!(line, "  {}: {} {}", state.source, fault.kind.label(), fault.message);
        } else if let Some(absent) = &state.absent {
            _ = write!(line, "  {absent}");
        }
    }
    if let Some(same) = same {
        _ = write!(line, "  {same}");
    }
    line.trim_end().to_owned()
}

fn device_line(device: &Device) -> String {
    let index = device.index.get().map_or_else(|| "-".to_owned(), |index| index.to_string());
    let indent = if device.parent.is_some() { "    " } else { "  " };
    let name = device.name.known().map_or("-", |name| name);
    if let Some(fault) = &device.fault {
        return format!("{indent}{index:>2} {name:<28}  {}", fault_words(fault));
    }
    let memory = device.memory_used.get().zip(device.memory_total.get());
    let power = match (device.power.get(), device.power_limit.get()) {
        (None, None) => "-".to_owned(),
        (drawn, limit) => format!("{}/{} W", watts(drawn), watts(limit)),
    };
    let temperature = device
        .temperature
        .get()
        .map_or_else(|| "-".to_owned(), |degrees: Celsius| format!("{:.0} C", degrees.get()));
    let line = format!(
        "{indent}{index:>2} {name:<28}  util {}  mem {:>17}  power {power:>10}  temp {temperature:>5}  {}",
        percent(device.utilization),
        share_of(memory),
        flags(device),
    );
    line.trim_end().to_owned()
}

fn fault_words(fault: &DeviceFault) -> String {
    match fault {
        DeviceFault::Lost => "LOST".to_owned(),
        DeviceFault::NeedsReset => "needs a reset".to_owned(),
        DeviceFault::NoPermission => "no permission".to_owned(),
        DeviceFault::Other(words) => words.to_string(),
    }
}

fn flags(device: &Device) -> String {
    let throttle = device.throttle.get().unwrap_or_default();
    let errors = device.ecc_uncorrected.get().filter(|errors| *errors > 0);
    let flags = [
        throttle.is_thermal().then(|| "!THERM".to_owned()),
        Throttle::is_power_brake(throttle).then(|| "!PWR".to_owned()),
        errors.map(|errors| format!("ECC:{errors}")),
    ];
    flags.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn process_line(usage: &Usage) -> String {
    let statics = usage.process.as_ref().map(|process| &process.statics);
    let user = statics.and_then(|statics| statics.user.known()).map_or("-", |user| user);
    let command =
        statics.and_then(|statics| statics.command.known()).or(usage.used.driver_name.as_ref());
    let memory = usage.used.memory.get().map_or_else(|| "-".to_owned(), gib);
    format!(
        "       {:>8} {user:<10} {memory:>11}  {}",
        usage.used.pid,
        command.map_or("-", |command| command)
    )
}

fn totals_line(totals: &Totals) -> String {
    let memory = totals.memory_used.zip(totals.memory_total);
    let power = totals.power.zip(totals.power_limit).map_or_else(
        || "-".to_owned(),
        |(drawn, limit)| format!("{}/{} W", watts(Some(drawn)), watts(Some(limit))),
    );
    format!(
        "{} of {} nodes fresh  {} stale  {} down  devices {}  busy {}  held {}  free {}  util {}  mem {}  power {power}",
        totals.fresh,
        totals.nodes,
        totals.stale,
        totals.down,
        totals.devices,
        totals.busy,
        totals.held,
        totals.free,
        totals.utilization.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share.get())),
        share_of(memory),
    )
}

fn percent(share: Reading<Percent>) -> String {
    share.get().map_or_else(|| "   -".to_owned(), |share| format!("{:>3.0}%", share.get()))
}

fn watts(power: Option<Watts>) -> String {
    power.map_or_else(|| "-".to_owned(), |power| format!("{:.0}", power.get()))
}

fn share_of(pair: Option<(Bytes, Bytes)>) -> String {
    pair.map_or_else(
        || "-".to_owned(),
        |(used, total)| format!("{}/{}", gib(used).trim_end_matches(" GiB"), gib(total)),
    )
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn gib(bytes: Bytes) -> String {
    format!("{:.1} GiB", bytes.0 as f64 / f64::from(1 << 30))
}

fn age_mark(freshness: Freshness) -> String {
    match freshness {
        Freshness::Fresh | Freshness::Missing => String::new(),
        Freshness::Stale(age) => format!("  stale {}s", age.as_secs()),
    }
}
