//! The families of `node_exporter`: the host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::wire::checked::{sanitize_name, to_f32};
use crate::wire::scrape::TICKS_PER_SECOND;
use crate::wire::scrape::host::{bytes_by, counters, disks, interfaces, load, spaces, uptime};
use crate::wire::scrape::page::{ScrapedPage, bytes, checked, number, whole};
use gtop_local::time::Timestamp;
use gtop_model::{
    Celsius, Counter, CpuTicks, HostFacts, HostReading, HostSlowReading, Percent, Pressure,
    Reading, Reason, Space,
};

/// Families that are read.
pub(super) const FAMILIES: &[&[&str]] = &[&[
    "node_cpu_seconds_total",
    "node_load1",
    "node_load5",
    "node_load15",
    "node_memory_MemTotal_bytes",
    "node_memory_MemAvailable_bytes",
    "node_memory_Cached_bytes",
    "node_memory_SReclaimable_bytes",
    "node_memory_Shmem_bytes",
    "node_memory_Buffers_bytes",
    "node_memory_SwapTotal_bytes",
    "node_memory_SwapFree_bytes",
    "node_pressure_cpu_waiting_seconds_total",
    "node_pressure_memory_waiting_seconds_total",
    "node_pressure_io_waiting_seconds_total",
    "node_time_seconds",
    "node_boot_time_seconds",
    "node_network_receive_bytes_total",
    "node_network_transmit_bytes_total",
    "node_infiniband_port_data_received_bytes_total",
    "node_infiniband_port_data_transmitted_bytes_total",
    "node_disk_read_bytes_total",
    "node_disk_written_bytes_total",
    "node_filesystem_size_bytes",
    "node_filesystem_avail_bytes",
    "node_hwmon_chip_names",
    "node_hwmon_temp_celsius",
    "node_uname_info",
]];

const BUSY_MODES: [&str; 6] = ["user", "nice", "system", "irq", "softirq", "steal"];
const IDLE_MODES: [&str; 2] = ["idle", "iowait"];

/// File systems of local disks.
const LOCAL_FILE_SYSTEMS: [&str; 10] =
    ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "bcachefs"];

/// The drivers of sensors in processors.
const PROCESSOR_SENSORS: [&str; 3] = ["coretemp", "k10temp", "zenpower"];

/// For how long tasks had waited at the last page; with the next one, shares follow from it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stalls(Option<(f64, [Reading<f64>; 3])>);

/// Returns what does not change of the host.
pub(super) fn facts(page: &ScrapedPage<'_>) -> HostFacts {
    let [host_name, kernel, architecture] = ["nodename", "release", "machine"]
        .map(|label| sanitize_name(page.text("node_uname_info", label).unwrap_or_default()));
    let cpus = page.all("node_cpu_seconds_total").iter().filter_map(|series| series.label("cpu"));
    let cpus = u32::try_from(cpus.collect::<BTreeSet<_>>().len()).unwrap_or_default();
    HostFacts { host_name, kernel, architecture, cpus, ..HostFacts::default() }
}

/// Returns the fast group of the host.
pub(super) fn host(page: &ScrapedPage<'_>, at: Timestamp, stalls: &mut Stalls) -> HostReading {
    let now = page.number("node_time_seconds");
    let up = now.zip(page.number("node_boot_time_seconds")).map(|(now, boot)| now - boot);
    let (uptime_seconds, booted_at) = uptime(up, at);
    HostReading {
        cpu: cpu_ticks(page),
        cpu_utilization: Reading::Unknown(Reason::NotOffered),
        load: load(page, ["node_load1", "node_load5", "node_load15"]),
        memory_total: bytes(page.number("node_memory_MemTotal_bytes")),
        memory_available: bytes(page.number("node_memory_MemAvailable_bytes")),
        memory_cached: bytes(cached(page)),
        memory_buffers: bytes(page.number("node_memory_Buffers_bytes")),
        swap_total: bytes(page.number("node_memory_SwapTotal_bytes")),
        swap_free: bytes(page.number("node_memory_SwapFree_bytes")),
        pressure: stalls.update(page, now),
        uptime_seconds,
        booted_at,
        network: interfaces(
            bytes_by(page, "node_network_receive_bytes_total", "device"),
            &bytes_by(page, "node_network_transmit_bytes_total", "device"),
        ),
        infiniband: infiniband(page),
        disks: disks(
            &bytes_by(page, "node_disk_read_bytes_total", "device"),
            &bytes_by(page, "node_disk_written_bytes_total", "device"),
        ),
    }
}

/// Returns the memory that caches files and can be dropped.
fn cached(page: &ScrapedPage<'_>) -> Reading<f64> {
    let parts = ["Cached", "SReclaimable", "Shmem"];
    let [files, slabs, shared] =
        parts.map(|part| page.number(&format!("node_memory_{part}_bytes")));
    files.zip(slabs).zip(shared).map(|((files, slabs), shared)| (files + slabs - shared).max(0.0))
}

/// Returns the slow group of the host.
pub(super) fn host_slow(page: &ScrapedPage<'_>) -> HostSlowReading {
    HostSlowReading { temperature: temperature(page), space: space(page) }
}

/// Returns the CPU time of all processors.
fn cpu_ticks(page: &ScrapedPage<'_>) -> Reading<CpuTicks> {
    let all = page.all("node_cpu_seconds_total");
    if all.is_empty() {
        return Reading::Unknown(Reason::NotOffered);
    }
    let [busy, idle] = [&BUSY_MODES[..], &IDLE_MODES].map(|modes| {
        let of_modes = all
            .iter()
            .filter(|series| series.label("mode").is_some_and(|mode| modes.contains(&mode)));
        let seconds: f64 = of_modes.map(|series| series.value).sum();
        whole(seconds * f64::from(TICKS_PER_SECOND))
    });
    Reading::checked(busy.zip(idle).map(|(busy, idle)| CpuTicks { busy, idle }))
}

impl Stalls {
    /// Returns the shares of the time since the last page in which some task waited.
    fn update(&mut self, page: &ScrapedPage<'_>, now: Reading<f64>) -> Pressure {
        let totals = ["cpu", "memory", "io"].map(|resource| {
            page.number(&format!("node_pressure_{resource}_waiting_seconds_total"))
        });
        let before = std::mem::replace(&mut self.0, now.get().map(|now| (now, totals)));
        let earlier = before.map_or([Reading::Unknown(Reason::NeedsTwoSamples); 3], |(_, all)| all);
        let span = before.zip(now.get()).map(|((then, _), now)| now - then);
        let [cpu, memory, io] = totals;
        let [cpu_before, memory_before, io_before] = earlier;
        Pressure {
            cpu: share(cpu, cpu_before, span),
            memory: share(memory, memory_before, span),
            io: share(io, io_before, span),
        }
    }
}

/// Returns the share of a time by which a total has grown; after a boot, it begins anew.
fn share(total: Reading<f64>, before: Reading<f64>, span: Option<f64>) -> Reading<Percent> {
    if let Reading::Unknown(reason) = total {
        return Reading::Unknown(reason);
    }
    let growth = total.get().zip(before.get()).map(|(total, before)| total - before);
    let growth = growth.filter(|growth| *growth >= 0.0);
    let share = growth
        .zip(span.filter(|span| *span > 0.0))
        .and_then(|(growth, span)| Percent::new(to_f32((growth / span * 100.0).min(100.0))));
    share.map_or(Reading::Unknown(Reason::NeedsTwoSamples), Reading::Known)
}

/// Returns the counters of InfiniBand ports, named as `mlx5_0/1`.
fn infiniband(page: &ScrapedPage<'_>) -> Arc<[Counter]> {
    let [received, sent] = ["received", "transmitted"].map(|direction| {
        let series = page.all(&format!("node_infiniband_port_data_{direction}_bytes_total")).iter();
        let ports = series.filter_map(|series| {
            let name = format!("{}/{}", series.label("device")?, series.label("port")?);
            Some((name, series.value))
        });
        ports.collect::<BTreeMap<String, f64>>()
    });
    let sent = sent.iter().map(|(name, bytes)| (&**name, *bytes)).collect();
    counters(received.iter().map(|(name, bytes)| (&**name, *bytes)), &sent)
}

/// Returns the space on local file systems; of one that is mounted twice, the first mount point.
fn space(page: &ScrapedPage<'_>) -> Arc<[Space]> {
    let mut seen = BTreeSet::new();
    let sizes: BTreeMap<&str, f64> = page
        .all("node_filesystem_size_bytes")
        .iter()
        .filter(|series| {
            series.label("fstype").is_some_and(|kind| LOCAL_FILE_SYSTEMS.contains(&kind))
        })
        .filter(|series| seen.insert(series.label("device")))
        .filter_map(|series| Some((series.label("mountpoint")?, series.value)))
        .collect();
    spaces(&sizes, &bytes_by(page, "node_filesystem_avail_bytes", "mountpoint"))
}

/// Returns the temperature of the hottest processor package.
fn temperature(page: &ScrapedPage<'_>) -> Reading<Celsius> {
    let chips: BTreeSet<&str> = page
        .all("node_hwmon_chip_names")
        .iter()
        .filter(|series| {
            series.label("chip_name").is_some_and(|name| PROCESSOR_SENSORS.contains(&name))
        })
        .filter_map(|series| series.label("chip"))
        .collect();
    let packages = page.all("node_hwmon_temp_celsius").iter().filter(|series| {
        series.label("sensor") == Some("temp1")
            && series.label("chip").is_some_and(|chip| chips.contains(chip))
    });
    checked(number(packages.map(|series| series.value).reduce(f64::max)))
}
