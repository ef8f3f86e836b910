//! The names of nvitop-exporter 1.7, whose units are in the names.
//!
//! What gtop does not have is left out: packets, rates of single `NVLink`s, and what the superuser keeps of a disk.

use crate::export::exposition::own::device_processes;
use crate::export::exposition::text::{ExpositionText, Labels, SampleValue, unique};
use crate::export::exposition::{ExpositionOptions, ServedDevice, ServedFleet, ServedNode};
use gtop_fleet::Host;
use gtop_fleet::metrics::{Usage, nvlink_rates, pcie_rates};
use gtop_model::{
    Bytes, Counter, Device, HostReading, Megahertz, Percent, ProcessState, Reading, Watts,
};

/// Writes all families; those of processes only if these are wanted.
pub(super) fn write(
    text: &mut ExpositionText,
    served: &ServedFleet<'_>,
    options: ExpositionOptions,
) {
    write_hosts(text, served);
    write_traffic(text, served, options.has_names);
    let devices: Vec<_> = served
        .fresh_devices()
        .filter(|served| served.device.fault.is_none())
        .map(|served| (device_labels(served), served))
        .collect();
    for (name, help, read) in DEVICE_FAMILIES {
        let samples =
            devices.iter().filter_map(|(labels, served)| Some((labels, read(served.device)?)));
        text.gauge(name, help, samples);
    }
    if options.has_names && options.has_processes {
        write_processes(text, &devices);
    }
}

#[expect(clippy::cast_precision_loss, reason = "nvitop's values are floating-point numbers")]
fn mebibytes(bytes: u64) -> SampleValue {
    SampleValue::Double(bytes as f64 / 1_048_576.0)
}

fn percent(reading: Reading<Percent>) -> Option<SampleValue> {
    reading.get().map(|share| SampleValue::Single(share.get()))
}

fn memory(reading: Reading<Bytes>) -> Option<SampleValue> {
    reading.get().map(|Bytes(bytes)| mebibytes(bytes))
}

fn integer(reading: Reading<impl Into<u64> + Copy>) -> Option<SampleValue> {
    reading.get().map(|number| SampleValue::Integer(number.into()))
}

fn watts(reading: Reading<Watts>) -> Option<SampleValue> {
    reading.get().map(|power| SampleValue::Single(power.get()))
}

fn clock(reading: Reading<Megahertz>) -> Option<SampleValue> {
    reading.get().map(|clock| SampleValue::Integer(clock.get().into()))
}

fn used(total: Reading<Bytes>, free: Reading<Bytes>) -> Option<SampleValue> {
    Some(mebibytes(total.get()?.0.saturating_sub(free.get()?.0)))
}

#[expect(clippy::cast_precision_loss, reason = "it is a share")]
fn used_percent(total: Reading<Bytes>, free: Reading<Bytes>) -> Option<SampleValue> {
    let (total, free) = (total.get()?.0, free.get()?.0);
    let used = 100.0 * total.saturating_sub(free) as f64;
    Some(SampleValue::Double(if total == 0 { 0.0 } else { used / total as f64 }))
}

fn load(host: &Host, span: usize) -> Option<SampleValue> {
    host.fast.load.get()?.get(span).copied().map(SampleValue::Single)
}

/// A name, its help and how it is read.
type HostFamily = (&'static str, &'static str, fn(&Host) -> Option<SampleValue>);
type DeviceFamily = (&'static str, &'static str, fn(&Device) -> Option<SampleValue>);
type ProcessFamily = (&'static str, &'static str, fn(&Usage) -> Option<SampleValue>);

#[rustfmt::skip]
const HOST_FAMILIES: &[HostFamily] = &[
    ("host_uptime_Second", "Host uptime (s).", |host| integer(host.fast.uptime_seconds)),
    ("host_cpu_percent_Percentage", "Host CPU percent (%).", |host| percent(host.cpu)),
    ("host_virtual_memory_total_MiB", "Host virtual memory total (MiB).", |host| memory(host.fast.memory_total)),
    ("host_virtual_memory_used_MiB", "Host virtual memory used (MiB).",
        |host| used(host.fast.memory_total, host.fast.memory_available)),
    ("host_virtual_memory_percent_Percentage", "Host virtual memory percent (%).",
        |host| used_percent(host.fast.memory_total, host.fast.memory_available)),
    ("host_swap_memory_total_MiB", "Host swap total (MiB).", |host| memory(host.fast.swap_total)),
    ("host_swap_memory_used_MiB", "Host swap used (MiB).", |host| used(host.fast.swap_total, host.fast.swap_free)),
    ("host_swap_memory_free_MiB", "Host swap free (MiB).", |host| memory(host.fast.swap_free)),
    ("host_swap_memory_percent_Percentage", "Host swap percent (%).",
        |host| used_percent(host.fast.swap_total, host.fast.swap_free)),
    ("host_load_average_1m_Percentage", "Host load average for the last minute.", |host| load(host, 0)),
    ("host_load_average_5m_Percentage", "Host load average for the last 5 minutes.", |host| load(host, 1)),
    ("host_load_average_15m_Percentage", "Host load average for the last 15 minutes.", |host| load(host, 2)),
];

#[rustfmt::skip]
const DEVICE_FAMILIES: &[DeviceFamily] = &[
    ("gpu_utilization_Percentage", "GPU utilization (%).", |device| percent(device.utilization)),
    ("gpu_memory_utilization_Percentage", "GPU memory utilization (%).", |device| percent(device.memory_utilization)),
    ("gpu_encoder_utilization_Percentage", "GPU encoder utilization (%).",
        |device| percent(device.details.as_ref()?.encoder)),
    ("gpu_decoder_utilization_Percentage", "GPU decoder utilization (%).",
        |device| percent(device.details.as_ref()?.decoder)),
    ("gpu_memory_total_MiB", "GPU memory total (MiB).", |device| memory(device.memory_total)),
    ("gpu_memory_used_MiB", "GPU memory used (MiB).", |device| memory(device.memory_used)),
    ("gpu_memory_free_MiB", "GPU memory free (MiB).", |device| memory(device.memory_free)),
    ("gpu_memory_percent_Percentage", "GPU memory percent (%).",
        |device| device.memory_share().map(|share| SampleValue::Single(share.get()))),
    ("gpu_clock_sm_MHz", "GPU SM clock (MHz).", |device| clock(device.sm_clock)),
    ("gpu_clock_memory_MHz", "GPU memory clock (MHz).", |device| clock(device.memory_clock)),
    ("gpu_clock_graphics_MHz", "GPU graphics clock (MHz).", |device| clock(device.details.as_ref()?.graphics_clock)),
    ("gpu_clock_video_MHz", "GPU video clock (MHz).", |device| clock(device.details.as_ref()?.video_clock)),
    ("gpu_power_usage_W", "GPU power usage (W).", |device| watts(device.power)),
    ("gpu_power_limit_W", "GPU power limit (W).", power_limit),
    ("gpu_temperature_C", "GPU temperature (C).",
        |device| device.temperature.get().map(|celsius| SampleValue::Single(celsius.get()))),
    ("gpu_fan_speed_Percentage", "GPU fan speed (%).",
        |device| device.fan.get().map(|share| SampleValue::Single(share.get()))),
    ("gpu_pcie_tx_throughput_MiBps", "GPU PCIe transmit throughput (MiB/s).", |device| memory(pcie_rates(device).1)),
    ("gpu_pcie_rx_throughput_MiBps", "GPU PCIe receive throughput (MiB/s).", |device| memory(pcie_rates(device).0)),
    ("gpu_nvlink_total_tx_throughput_MiBps", "GPU total NVLink transmit throughput (MiB/s).",
        |device| memory(nvlink_rates(device).1)),
    ("gpu_nvlink_total_rx_throughput_MiBps", "GPU total NVLink receive throughput (MiB/s).",
        |device| memory(nvlink_rates(device).0)),
    ("gpu_nvlink_mean_tx_throughput_MiBps", "GPU mean NVLink transmit throughput (MiB/s).",
        |device| mean_of_links(device, nvlink_rates(device).1)),
    ("gpu_nvlink_mean_rx_throughput_MiBps", "GPU mean NVLink receive throughput (MiB/s).",
        |device| mean_of_links(device, nvlink_rates(device).0)),
];

#[rustfmt::skip]
const PROCESS_FAMILIES: &[ProcessFamily] = &[
    ("process_running_time_Second", "Process running time (s).",
        |usage| integer(usage.process.as_ref()?.running_seconds)),
    ("process_cpu_percent_Percentage", "Process CPU percent (%).",
        |usage| usage.process.as_ref()?.cpu_percent.get().map(SampleValue::Single)),
    ("process_rss_memory_MiB", "Process memory resident set size (MiB).",
        |usage| memory(usage.process.as_ref()?.resident)),
    ("process_memory_percent_Percentage", "Process memory percent (%).",
        |usage| percent(usage.process.as_ref()?.resident_share)),
    ("process_gpu_memory_MiB", "Process GPU memory (MiB).", |usage| memory(usage.used.memory)),
    ("process_gpu_sm_utilization_Percentage", "Process GPU SM utilization (%).", |usage| percent(usage.used.sm)),
    ("process_gpu_memory_utilization_Percentage", "Process GPU memory utilization (%).",
        |usage| percent(usage.used.memory_utilization)),
    ("process_gpu_encoder_utilization_Percentage", "Process GPU encoder utilization (%).",
        |usage| percent(usage.used.encoder)),
    ("process_gpu_decoder_utilization_Percentage", "Process GPU decoder utilization (%).",
        |usage| percent(usage.used.decoder)),
];

/// The limit that was requested, or else the one in force.
fn power_limit(device: &Device) -> Option<SampleValue> {
    let requested =
        device.details.as_ref().and_then(|details| watts(details.power_limit_requested));
    requested.or_else(|| watts(device.power_limit))
}

fn mean_of_links(device: &Device, rate: Reading<Bytes>) -> Option<SampleValue> {
    let links = device.statics.as_ref()?.nvlinks.get()?;
    rate.get()?.0.checked_div(u64::from(links)).map(mebibytes)
}

fn host_labels(served: &ServedNode<'_>) -> Labels {
    Labels::default().with("hostname", &served.name)
}

fn write_hosts(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    let facts = served.fresh_hosts().map(|served| {
        let mut drivers = served.node.hello.iter().flat_map(|hello| &hello.backends);
        let driver = drivers.find_map(|backend| backend.driver.as_ref());
        let statics = served.node.devices.iter().find_map(|device| device.statics.as_ref());
        let version = statics.and_then(|statics| statics.driver.known()).map(|version| &**version);
        let cuda = driver.and_then(|driver| driver.cuda.as_deref());
        host_labels(served)
            .with("device_count", &served.node.whole_devices().count().to_string())
            .with("driver_version", version.unwrap_or("N/A"))
            .with("cuda_driver_version", cuda.unwrap_or("N/A"))
    });
    text.infos("nvitop_info", "NVITOP Prometheus Exporter.", facts);
    let hosts: Vec<_> = served.fresh_hosts().map(|served| (host_labels(served), served)).collect();
    for (name, help, read) in HOST_FAMILIES {
        let samples =
            hosts.iter().filter_map(|(labels, served)| Some((labels, read(&served.node.host)?)));
        text.gauge(name, help, samples);
    }
}

/// Writes what went through interfaces and disks since boot, and the space of file systems.
fn write_traffic(text: &mut ExpositionText, served: &ServedFleet<'_>, has_names: bool) {
    let network = counters(served, "interface", |host| &host.network);
    let disks = counters(served, "partition", |host| &host.disks);
    for (name, help, list, read) in [
        (
            "host_net_io_tx_data_MiB",
            "Host network I/O transmitted data (MiB).",
            &network,
            (|one| one.outward) as fn(&Counter) -> u64,
        ),
        ("host_net_io_rx_data_MiB", "Host network I/O received data (MiB).", &network, |one| {
            one.inward
        }),
        ("host_disk_io_read_data_MiB", "Host disk I/O read data (MiB).", &disks, |one| one.inward),
        ("host_disk_io_write_data_MiB", "Host disk I/O write data (MiB).", &disks, |one| {
            one.outward
        }),
    ] {
        let samples = list.iter().map(|(labels, one)| (labels, mebibytes(read(one))));
        text.gauge(name, help, samples);
    }
    let spaces = served.fresh_spaces(has_names);
    let spaces = unique(
        spaces.map(|(served, space)| (host_labels(served).with("mountpoint", &space.path), space)),
    );
    let total = spaces.iter().map(|(labels, space)| (labels, mebibytes(space.total.0)));
    text.gauge("host_disk_usage_total_MiB", "Host disk usage total (MiB).", total);
    let free = spaces.iter().map(|(labels, space)| (labels, mebibytes(space.free.0)));
    text.gauge("host_disk_usage_free_MiB", "Host disk usage free (MiB).", free);
}

/// Returns the counters of all hosts with their labels.
fn counters<'a>(
    served: &'a ServedFleet<'_>,
    label: &str,
    of_host: fn(&HostReading) -> &[Counter],
) -> Vec<(Labels, &'a Counter)> {
    unique(served.fresh_hosts().flat_map(|served| {
        let labels = host_labels(served);
        let counters = of_host(&served.node.host.fast).iter();
        counters.map(move |counter| (labels.and(label, &counter.name), counter))
    }))
}

fn device_labels(served: &ServedDevice<'_>) -> Labels {
    let ServedDevice { node, device, .. } = *served;
    let parent = device.parent.as_ref().and_then(|uuid| node.device(uuid)?.index.get());
    let index = device.index.get().map(|index| index.to_string()).unwrap_or_default();
    let index = parent.map_or_else(|| index.clone(), |parent| format!("{parent}:{index}"));
    Labels::default()
        .with("hostname", &served.node_name)
        .with("index", &index)
        .with("devicename", device.name.known().map_or("N/A", |name| name))
        .with("uuid", &device.uuid)
}

fn write_processes(text: &mut ExpositionText, devices: &[(Labels, &ServedDevice<'_>)]) {
    let processes = devices.iter().flat_map(|(labels, served)| device_processes(served, labels));
    let processes: Vec<_> = processes
        .map(|(labels, usage)| {
            let user = usage.statics().and_then(|statics| statics.user.known().cloned());
            (labels.with("username", user.as_deref().unwrap_or("N/A")), usage)
        })
        .collect();
    let facts = processes.iter().map(|(labels, usage)| {
        let state = usage.process.as_ref().and_then(|process| process.state.get());
        let command = usage.command().text();
        labels
            .and("status", state.map_or("N/A", status_word))
            .with("command", command.as_deref().unwrap_or("N/A"))
    });
    text.infos("process_info_info", "Process information.", facts);
    for (name, help, read) in PROCESS_FAMILIES {
        let samples = processes.iter().filter_map(|(labels, usage)| Some((labels, read(usage)?)));
        text.gauge(name, help, samples);
    }
}

/// Returns psutil's name of a state.
fn status_word(state: ProcessState) -> &'static str {
    match state.letter() {
        "R" => "running",
        "S" => "sleeping",
        "D" => "disk-sleep",
        "T" => "stopped",
        "t" => "tracing-stop",
        "Z" => "zombie",
        "X" => "dead",
        _ => "idle",
    }
}
