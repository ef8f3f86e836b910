//! The families of nvitop-exporter: devices, and the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::checked::sanitize_name;
use crate::wire::csv::MAX_DEVICES;
use crate::wire::scrape::host::{bytes_by, disks, interfaces, load, spaces, uptime};
use crate::wire::scrape::page::{
    ScrapedPage, Subject, checked, identity, mebibytes, megahertz, subjects, watts,
};
use crate::wire::scrape::processes::{PROCESS_FAMILIES, USE_FAMILIES};
use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, Device, DeviceActivity, DeviceDetails, DeviceStatics, HostFacts, HostReading,
    HostSlowReading, Percent, Pressure, Reading, Reason, Vendor,
};

/// Families about devices.
const DEVICE_FAMILIES: [&str; 19] = [
    "gpu_utilization_Percentage",
    "gpu_memory_utilization_Percentage",
    "gpu_encoder_utilization_Percentage",
    "gpu_decoder_utilization_Percentage",
    "gpu_memory_total_MiB",
    "gpu_memory_used_MiB",
    "gpu_memory_free_MiB",
    "gpu_clock_sm_MHz",
    "gpu_clock_memory_MHz",
    "gpu_clock_graphics_MHz",
    "gpu_clock_video_MHz",
    "gpu_power_usage_W",
    "gpu_power_limit_W",
    "gpu_temperature_C",
    "gpu_fan_speed_Percentage",
    "gpu_pcie_tx_throughput_MiBps",
    "gpu_pcie_rx_throughput_MiBps",
    "gpu_nvlink_total_tx_throughput_MiBps",
    "gpu_nvlink_total_rx_throughput_MiBps",
];

/// Families about the host.
const HOST_FAMILIES: [&str; 16] = [
    "nvitop_info",
    "host_uptime_Second",
    "host_cpu_percent_Percentage",
    "host_virtual_memory_total_MiB",
    "host_virtual_memory_percent_Percentage",
    "host_swap_memory_total_MiB",
    "host_swap_memory_free_MiB",
    "host_load_average_1m_Percentage",
    "host_load_average_5m_Percentage",
    "host_load_average_15m_Percentage",
    "host_net_io_tx_data_MiB",
    "host_net_io_rx_data_MiB",
    "host_disk_io_read_data_MiB",
    "host_disk_io_write_data_MiB",
    "host_disk_usage_total_MiB",
    "host_disk_usage_free_MiB",
];

/// Families that are read.
pub(super) const FAMILIES: &[&[&str]] =
    &[&HOST_FAMILIES, &DEVICE_FAMILIES, &USE_FAMILIES, &PROCESS_FAMILIES];

const NOT_OFFERED: Reason = Reason::NotOffered;

/// Returns what does not change of the host.
pub(super) fn facts(page: &ScrapedPage<'_>) -> HostFacts {
    let name = page.text("host_uptime_Second", "hostname").unwrap_or_default();
    HostFacts { host_name: sanitize_name(name), ..HostFacts::default() }
}

/// Returns the fast group of the host.
pub(super) fn host(page: &ScrapedPage<'_>, at: Timestamp) -> HostReading {
    let memory_total = mebibytes(page.number("host_virtual_memory_total_MiB"));
    let memory_used = checked(page.number("host_virtual_memory_percent_Percentage"));
    let (uptime_seconds, booted_at) = uptime(page.number("host_uptime_Second"), at);
    HostReading {
        cpu: Reading::Unknown(NOT_OFFERED),
        cpu_utilization: checked(page.number("host_cpu_percent_Percentage")),
        load: load(
            page,
            [
                "host_load_average_1m_Percentage",
                "host_load_average_5m_Percentage",
                "host_load_average_15m_Percentage",
            ],
        ),
        memory_total,
        memory_available: memory_total.zip(memory_used).map(available),
        memory_cached: Reading::Unknown(NOT_OFFERED),
        memory_buffers: Reading::Unknown(NOT_OFFERED),
        swap_total: mebibytes(page.number("host_swap_memory_total_MiB")),
        swap_free: mebibytes(page.number("host_swap_memory_free_MiB")),
        pressure: Pressure {
            cpu: Reading::Unknown(NOT_OFFERED),
            memory: Reading::Unknown(NOT_OFFERED),
            io: Reading::Unknown(NOT_OFFERED),
        },
        uptime_seconds,
        booted_at,
        network: interfaces(
            bytes_by(page, "host_net_io_rx_data_MiB", "interface"),
            &bytes_by(page, "host_net_io_tx_data_MiB", "interface"),
        ),
        infiniband: Arc::default(),
        disks: disks(
            &bytes_by(page, "host_disk_io_read_data_MiB", "partition"),
            &bytes_by(page, "host_disk_io_write_data_MiB", "partition"),
        ),
    }
}

/// Returns the memory that is available, from the total and the share that is not. The page's free memory leaves out caches.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share from 0 to 100 of less than a PiB"
)]
fn available((total, used): (Bytes, Percent)) -> Bytes {
    Bytes((total.0 as f64 * (1.0 - f64::from(used.get()) / 100.0)) as u64)
}

/// Returns the slow group of the host.
pub(super) fn host_slow(page: &ScrapedPage<'_>) -> HostSlowReading {
    let sizes = bytes_by(page, "host_disk_usage_total_MiB", "mountpoint");
    let free = bytes_by(page, "host_disk_usage_free_MiB", "mountpoint");
    HostSlowReading { temperature: Reading::Unknown(NOT_OFFERED), space: spaces(&sizes, &free) }
}

/// Returns the index of a device, and that of its slice.
fn index(device: &Subject<'_>) -> Option<(u32, Option<u32>)> {
    let text = device.info.label("index")?;
    match text.split_once(':') {
        Some((device, slice)) => Some((device.parse().ok()?, Some(slice.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// The devices of a page.
pub(super) struct ListedDevices {
    pub(super) list: Vec<Device>,
    /// How many more there are, which are not read.
    pub(super) left_out: usize,
}

/// Returns the devices in the order of their indices; slices follow their device.
pub(super) fn devices(page: &ScrapedPage<'_>) -> ListedDevices {
    let (found, left_out) = subjects(page, &DEVICE_FAMILIES, MAX_DEVICES, identity);
    let mut list: Vec<_> = found.into_iter().map(|(uuid, of)| (index(&of), uuid, of)).collect();
    list.sort_by_key(|(index, ..)| index.unwrap_or((u32::MAX, None)));
    let parents: BTreeMap<u32, Arc<str>> = list
        .iter()
        .filter_map(|(index, uuid, _)| match index {
            Some((index, None)) => Some((*index, Arc::clone(uuid))),
            Some((_, Some(_))) | None => None,
        })
        .collect();
    let sliced: Vec<u32> = list
        .iter()
        .filter_map(|(index, ..)| index.and_then(|(index, slice)| slice.map(|_| index)))
        .collect();
    let driver = driver(page);
    let listed = list.into_iter().map(|(index, uuid, of)| {
        let (whole, slice) = index.map_or((None, None), |(whole, slice)| (Some(whole), slice));
        let parent = slice.and_then(|_| parents.get(&whole?).cloned());
        let has_slices = slice.is_none() && whole.is_some_and(|whole| sliced.contains(&whole));
        let index = Reading::checked(slice.or(whole));
        let mig = if has_slices { Reading::Known(true) } else { Reading::Unknown(NOT_OFFERED) };
        let statics = DeviceStatics { driver: driver.clone(), ..DeviceStatics::default() };
        Device { uuid, parent, index, mig, statics: statics.shared(), ..device(&of) }
    });
    ListedDevices { list: listed.collect(), left_out: left_out.len() }
}

fn driver(page: &ScrapedPage<'_>) -> Reading<Arc<str>> {
    let text = page.text("nvitop_info", "driver_version").map(sanitize_name);
    text.map_or(Reading::Unknown(NOT_OFFERED), Reading::Known)
}

/// Returns the readings of a device; what is not on the page is not offered.
fn device(of: &Subject<'_>) -> Device {
    let name = of.info.label("devicename").filter(|name| *name != "N/A").map(sanitize_name);
    Device {
        vendor: Reading::Known(Vendor::Nvidia),
        name: name.map_or(Reading::Unknown(Reason::NotAvailable), Reading::Known),
        pci: Reading::Unknown(NOT_OFFERED),
        utilization: checked(of.number("gpu_utilization_Percentage")),
        memory_utilization: checked(of.number("gpu_memory_utilization_Percentage")),
        memory_total: mebibytes(of.number("gpu_memory_total_MiB")),
        memory_used: mebibytes(of.number("gpu_memory_used_MiB")),
        memory_free: mebibytes(of.number("gpu_memory_free_MiB")),
        memory_reserved: Reading::Unknown(NOT_OFFERED),
        temperature: checked(of.number("gpu_temperature_C")),
        memory_temperature: Reading::Unknown(NOT_OFFERED),
        power: watts(of.number("gpu_power_usage_W")),
        power_limit: watts(of.number("gpu_power_limit_W")),
        sm_clock: megahertz(of.number("gpu_clock_sm_MHz")),
        memory_clock: megahertz(of.number("gpu_clock_memory_MHz")),
        fan: checked(of.number("gpu_fan_speed_Percentage")),
        performance_state: Reading::Unknown(NOT_OFFERED),
        throttle: Reading::Unknown(NOT_OFFERED),
        ecc_corrected: Reading::Unknown(NOT_OFFERED),
        ecc_uncorrected: Reading::Unknown(NOT_OFFERED),
        persistence: Reading::Unknown(NOT_OFFERED),
        pcie: Reading::Unknown(NOT_OFFERED),
        activity: activity(of).shared(),
        details: details(of).shared(),
        ..Device::default()
    }
}

/// Returns the rates of its links, which are on the page.
fn activity(of: &Subject<'_>) -> DeviceActivity {
    DeviceActivity {
        pcie_sent: mebibytes(of.number("gpu_pcie_tx_throughput_MiBps")),
        pcie_received: mebibytes(of.number("gpu_pcie_rx_throughput_MiBps")),
        nvlink_sent: mebibytes(of.number("gpu_nvlink_total_tx_throughput_MiBps")),
        nvlink_received: mebibytes(of.number("gpu_nvlink_total_rx_throughput_MiBps")),
        ..DeviceActivity::default()
    }
}

fn details(of: &Subject<'_>) -> DeviceDetails {
    DeviceDetails {
        encoder: checked(of.number("gpu_encoder_utilization_Percentage")),
        decoder: checked(of.number("gpu_decoder_utilization_Percentage")),
        graphics_clock: megahertz(of.number("gpu_clock_graphics_MHz")),
        video_clock: megahertz(of.number("gpu_clock_video_MHz")),
        ..DeviceDetails::default()
    }
}
