//! The machine itself, in a few short items.

use std::time::Duration;

use crate::fleet::{Metric, Node, Traffic};
use crate::model::{Bytes, Percent, Source, stale_after};
use crate::time::Timestamp;
use crate::view::line::{Line, Tone, UNKNOWN, flow};
use crate::view::number::{gib, lasting, memory_with_unit, percent, rate, share};

/// Points of the processor's track.
const CPU_POINTS: usize = 20;
/// The most seconds a value holds in a track.
const MOST_PATIENCE: usize = 60;
/// A file system fuller than this is worth a word.
const FULL_PERCENT: f32 = 90.0;

/// Returns the host lines, at most so many; empty when the host said nothing yet.
pub(crate) fn lines(node: &Node, now: Timestamp, width: u16, most: usize) -> Vec<Line> {
    let freshness = node.host_freshness(now);
    if freshness == crate::model::Freshness::Missing {
        return Vec::new();
    }
    let is_old = !freshness.is_fresh() || node.link != crate::model::Link::Up;
    let lines = flow(items(node, now, width), 3, width, most);
    if is_old { lines.into_iter().map(Line::faded).collect() } else { lines }
}

fn items(node: &Node, now: Timestamp, width: u16) -> Vec<Line> {
    let fast = &node.host.fast;
    let points = if width >= 100 { CPU_POINTS } else { CPU_POINTS / 2 };
    let mut items = vec![processors(node, now, points), load(node)];
    let used = fast.memory_total.get().zip(fast.memory_available.get());
    let used = used.map(|(total, available)| Bytes(total.0.saturating_sub(available.0)));
    items.push(labelled("MEM").text(memory_with_unit(used, fast.memory_total.get()), Tone::Plain));
    let groups = [
        ("NET", &node.host.network, ["↓", "↑"]),
        ("IB", &node.host.infiniband, ["↓", "↑"]),
        ("DISK", &node.host.disks, ["r", "w"]),
    ];
    items.extend(groups.iter().filter_map(|(word, list, signs)| traffic(word, list, *signs)));
    if let Some(degrees) = node.host.slow.temperature.get() {
        items.push(labelled("TEMP").text(format!("{:>3.0}°", degrees.get()), Tone::Plain));
    }
    if let Some(seconds) = fast.uptime_seconds.get() {
        items.push(labelled("UP").text(lasting(Duration::from_secs(seconds)), Tone::Plain));
    }
    items.extend(pressure(node));
    items.extend(swap(node));
    items.extend(fullest(node));
    items
}

fn labelled(word: &str) -> Line {
    Line::of(format!("{word} "), Tone::Faint)
}

fn processors(node: &Node, now: Timestamp, points: usize) -> Line {
    let cpu = share(node.host.cpu);
    let line = labelled("CPU")
        .right(&percent(cpu), 3, Tone::Strong)
        .text("% ", Tone::Faint)
        .spark(track(node, ("", Metric::Cpu), Some(&Source::host()), now, points), Tone::Mid);
    match node.hello.as_ref().map(|hello| hello.host.cpus) {
        Some(cpus) if cpus > 0 => line.text(format!(" of {cpus}"), Tone::Faint),
        _ => line,
    }
}

fn load(node: &Node) -> Line {
    let Some([one, five, fifteen]) = node.host.fast.load.get() else {
        return labelled("LOAD").text(UNKNOWN, Tone::Faint);
    };
    labelled("LOAD")
        .text(format!("{one:>5.1}"), Tone::Plain)
        .text(format!(" {five:>5.1} {fifteen:>5.1}"), Tone::Faint)
}

fn traffic(word: &str, list: &[Traffic], signs: [&str; 2]) -> Option<Line> {
    let sum = |pick: fn(&Traffic) -> Bytes| {
        list.iter().fold(0_u64, |sum, traffic| sum.saturating_add(pick(traffic).0))
    };
    let (inward, outward) = (sum(|traffic| traffic.inward), sum(|traffic| traffic.outward));
    (!list.is_empty()).then(|| {
        labelled(word)
            .text(format!("{}{:>4}", signs[0], rate(inward)), Tone::Plain)
            .text(format!(" {}{:>4}", signs[1], rate(outward)), Tone::Plain)
            .text("/s", Tone::Faint)
    })
}

fn pressure(node: &Node) -> Option<Line> {
    let waits = node.host.fast.pressure;
    let parts = [("cpu", waits.cpu), ("mem", waits.memory), ("io", waits.io)];
    let known: Vec<_> = parts.iter().filter(|(_, part)| part.get().is_some()).collect();
    (!known.is_empty()).then(|| {
        known.iter().fold(labelled("WAIT"), |line, (word, part)| {
            line.text(format!("{word}{:>3}% ", percent(share(*part))), Tone::Plain)
        })
    })
}

fn swap(node: &Node) -> Option<Line> {
    let (total, free) = (node.host.fast.swap_total.get()?, node.host.fast.swap_free.get()?);
    let used = Bytes(total.0.saturating_sub(free.0));
    (used.mib() > 0)
        .then(|| labelled("SWAP").text(memory_with_unit(Some(used), Some(total)), Tone::Plain))
}

fn fullest(node: &Node) -> Option<Line> {
    let filled = |space: &crate::model::Space| {
        Percent::of(space.total.0.saturating_sub(space.free.0), space.total.0).map(Percent::get)
    };
    let (space, part) = node
        .host
        .slow
        .space
        .iter()
        .filter_map(|space| Some((space, filled(space)?)))
        .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let tone = if part >= FULL_PERCENT { Tone::Warn } else { Tone::Plain };
    let free = format!("{part:.0}% full, {:.0} GiB free", gib(space.free));
    Some(labelled(&space.path).text(free, tone))
}

/// Returns the last seconds of a track; a value holds until it would count as stale.
pub(crate) fn track(
    node: &Node,
    (subject, metric): (&str, Metric),
    source: Option<&Source>,
    now: Timestamp,
    count: usize,
) -> Vec<Option<f32>> {
    let state = source.and_then(|source| node.source(source));
    let interval = state.map(|state| state.interval).unwrap_or_default();
    let patience = usize::try_from(stale_after(interval).as_secs()).unwrap_or(3).min(MOST_PATIENCE);
    let points = node.history.last(subject, metric, now, count + patience);
    let mut held: Option<(f32, usize)> = None;
    let filled: Vec<_> = points
        .into_iter()
        .map(|point| {
            held = match (point, held) {
                (Some(value), _) => Some((value, patience)),
                (None, Some((value, left))) if left > 0 => Some((value, left - 1)),
                (None, _) => None,
            };
            held.map(|(value, _)| value)
        })
        .collect();
    filled.into_iter().skip(patience).collect()
}
