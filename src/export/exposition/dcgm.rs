//! The names of dcgm-exporter: its shipped counters file (up to 4.8), and the names that DCGM's fields have had since 4.7
//! and the exporter since 4.9.
//!
//! What gtop does not have is left out: the licence of a vGPU. On a device with MIG slices, memory and activity are those
//! of the slices, and everything else is that of the device.

use std::collections::BTreeSet;

use crate::export::exposition::text::{ExpositionText, Family, FamilyKind, Labels, SampleValue};
use crate::export::exposition::{ServedDevice, ServedFleet};
use gtop_fleet::metrics::{device_fields, nvlink_rates};
use gtop_model::{Device, Vendor, xid_meaning};

/// A field of DCGM.
struct DcgmField {
    classic: DcgmName,
    canonical: DcgmName,
    kind: FamilyKind,
    help: &'static str,
    from: DcgmValue,
    /// Slices have it instead of their device.
    is_of_slices: bool,
}

/// A name and how gtop's value becomes the one in its unit.
struct DcgmName(&'static str, fn(SampleValue) -> SampleValue);

/// Where the value is from.
enum DcgmValue {
    /// A metric, by its id.
    Metric(&'static str),
    Device(fn(&Device) -> Option<SampleValue>),
}

use DcgmValue::Metric;

const GAUGE: FamilyKind = FamilyKind::Gauge;
const COUNTER: FamilyKind = FamilyKind::ForeignCounter;

/// Declares fields: both names with their conversions, type, origin and help.
macro_rules! dcgm_fields {
    ($($of:ident $kind:ident $classic:literal $one:ident, $canonical:literal $other:ident, $from:expr, $help:literal;)*) => {
        &[$(DcgmField {
            classic: DcgmName(concat!("DCGM_FI_", $classic), $one),
            canonical: DcgmName(concat!("DCGM_FI_", $canonical), $other),
            kind: $kind,
            help: $help,
            from: $from,
            is_of_slices: dcgm_fields!(@is_of_slices $of),
        }),*]
    };
    (@is_of_slices device) => { false };
    (@is_of_slices slice) => { true };
}

#[rustfmt::skip]
const FIELDS: &[DcgmField] = dcgm_fields! {
    device GAUGE "DEV_SM_CLOCK" same, "DEV_SM_CLOCK_HERTZ" millionfold, Metric("sm_clock_megahertz"),
        "SM clock frequency (in MHz).";
    device GAUGE "DEV_MEM_CLOCK" same, "DEV_MEMORY_CLOCK_HERTZ" millionfold, Metric("memory_clock_megahertz"),
        "Memory clock frequency (in MHz).";
    device GAUGE "DEV_MEMORY_TEMP" same, "DEV_MEMORY_TEMP_CELSIUS" same, Metric("memory_temperature_celsius"),
        "Memory temperature (in C).";
    device GAUGE "DEV_GPU_TEMP" same, "DEV_GPU_TEMP_CELSIUS" same, Metric("temperature_celsius"),
        "GPU temperature (in C).";
    device GAUGE "DEV_POWER_USAGE" same, "DEV_BOARD_POWER_WATTS" same, Metric("power_watts"),
        "Power draw (in W).";
    device COUNTER "DEV_TOTAL_ENERGY_CONSUMPTION" same, "DEV_GPU_ENERGY_JOULES_TOTAL" thousandth, DcgmValue::Device(energy),
        "Total energy consumption since boot (in mJ).";
    device COUNTER "DEV_PCIE_REPLAY_COUNTER" same, "DEV_PCIE_REPLAY_TOTAL" same, Metric("pcie_replays"),
        "Total number of PCIe retries.";
    device GAUGE "DEV_GPU_UTIL" same, "DEV_GPU_UTIL_RATIO" hundredth, DcgmValue::Device(utilization),
        "GPU utilization (in %).";
    device GAUGE "DEV_MEM_COPY_UTIL" same, "DEV_MEMORY_UTIL_RATIO" hundredth, Metric("memory_utilization_percent"),
        "Memory utilization (in %).";
    device GAUGE "DEV_ENC_UTIL" same, "DEV_ENC_UTIL_RATIO" hundredth, Metric("encoder_percent"),
        "Encoder utilization (in %).";
    device GAUGE "DEV_DEC_UTIL" same, "DEV_DEC_UTIL_RATIO" hundredth, Metric("decoder_percent"),
        "Decoder utilization (in %).";
    slice GAUGE "DEV_FB_FREE" whole_mebibytes, "DEV_FB_FREE_BYTES" same, Metric("memory_free_bytes"),
        "Framebuffer memory free (in MiB).";
    slice GAUGE "DEV_FB_USED" whole_mebibytes, "DEV_FB_USED_BYTES" same, Metric("memory_used_bytes"),
        "Framebuffer memory used (in MiB).";
    slice GAUGE "DEV_FB_RESERVED" whole_mebibytes, "DEV_FB_RESERVED_BYTES" same, Metric("memory_reserved_bytes"),
        "Framebuffer memory reserved (in MiB).";
    device COUNTER "DEV_NVLINK_BANDWIDTH_TOTAL" megabytes, "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND" same,
        DcgmValue::Device(nvlink), "Total number of NVLink bandwidth counters for all lanes.";
    device COUNTER "DEV_UNCORRECTABLE_REMAPPED_ROWS" same, "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL" same,
        Metric("remapped_uncorrected_rows"), "Number of remapped rows for uncorrectable errors";
    device COUNTER "DEV_CORRECTABLE_REMAPPED_ROWS" same, "DEV_ROW_REMAP_CORRECTABLE_TOTAL" same,
        Metric("remapped_corrected_rows"), "Number of remapped rows for correctable errors";
    device GAUGE "DEV_ROW_REMAP_FAILURE" same, "DEV_ROW_REMAP_FAILED" same, Metric("remapping_failed"),
        "Whether remapping of rows has failed";
    device COUNTER "DEV_ECC_SBE_VOL_TOTAL" same, "DEV_ECC_SBE_VOL_TOTAL" same, Metric("ecc_corrected_errors"),
        "Total number of single-bit volatile ECC errors.";
    device COUNTER "DEV_ECC_DBE_VOL_TOTAL" same, "DEV_ECC_DBE_VOL_TOTAL" same, Metric("ecc_uncorrected_errors"),
        "Total number of double-bit volatile ECC errors.";
    device COUNTER "DEV_ECC_SBE_AGG_TOTAL" same, "DEV_ECC_SBE_AGG_TOTAL" same, Metric("ecc_corrected_total_errors"),
        "Total number of single-bit persistent ECC errors.";
    device COUNTER "DEV_ECC_DBE_AGG_TOTAL" same, "DEV_ECC_DBE_AGG_TOTAL" same, Metric("ecc_uncorrected_total_errors"),
        "Total number of double-bit persistent ECC errors.";
    slice GAUGE "PROF_GR_ENGINE_ACTIVE" hundredth, "PROF_GR_ENGINE_UTIL_RATIO" hundredth,
        Metric("graphics_active_percent"), "Ratio of time the graphics engine is active.";
    slice GAUGE "PROF_SM_ACTIVE" hundredth, "PROF_SM_UTIL_RATIO" hundredth, Metric("sm_active_percent"),
        "The ratio of cycles an SM has at least 1 warp assigned.";
    slice GAUGE "PROF_SM_OCCUPANCY" hundredth, "PROF_SM_OCCUPANCY_RATIO" hundredth, Metric("sm_occupancy_percent"),
        "The ratio of number of warps resident on an SM.";
    slice GAUGE "PROF_PIPE_TENSOR_ACTIVE" hundredth, "PROF_TENSOR_UTIL_RATIO" hundredth,
        Metric("tensor_active_percent"), "Ratio of cycles the tensor (HMMA) pipe is active.";
    slice GAUGE "PROF_DRAM_ACTIVE" hundredth, "PROF_DRAM_UTIL_RATIO" hundredth, Metric("dram_active_percent"),
        "Ratio of cycles the device memory interface is active sending or receiving data.";
    slice GAUGE "PROF_PIPE_FP64_ACTIVE" hundredth, "PROF_FP64_UTIL_RATIO" hundredth, Metric("fp64_active_percent"),
        "Ratio of cycles the fp64 pipes are active.";
    slice GAUGE "PROF_PIPE_FP32_ACTIVE" hundredth, "PROF_FP32_UTIL_RATIO" hundredth, Metric("fp32_active_percent"),
        "Ratio of cycles the fp32 pipes are active.";
    slice GAUGE "PROF_PIPE_FP16_ACTIVE" hundredth, "PROF_FP16_UTIL_RATIO" hundredth, Metric("fp16_active_percent"),
        "Ratio of cycles the fp16 pipes are active.";
    device GAUGE "PROF_PCIE_TX_BYTES" same, "PROF_PCIE_TX_BYTES" same, Metric("pcie_transmit_bytes_per_second"),
        "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.";
    device GAUGE "PROF_PCIE_RX_BYTES" same, "PROF_PCIE_RX_BYTES" same, Metric("pcie_receive_bytes_per_second"),
        "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.";
};

/// The last Xid has labels of its own.
const XID_HELP: &str = "Value of the last XID error encountered.";

fn same(value: SampleValue) -> SampleValue {
    value
}

fn millionfold(value: SampleValue) -> SampleValue {
    value.millionfold()
}

fn hundredth(value: SampleValue) -> SampleValue {
    value.divided(100.0)
}

fn thousandth(value: SampleValue) -> SampleValue {
    value.divided(1000.0)
}

/// DCGM divides by 1024 and then by 1000.
fn megabytes(value: SampleValue) -> SampleValue {
    value.divided(1_024_000.0)
}

fn whole_mebibytes(value: SampleValue) -> SampleValue {
    match value {
        SampleValue::Integer(bytes) => SampleValue::Integer(bytes >> 20),
        SampleValue::Single(_) | SampleValue::Double(_) => value,
    }
}

/// The driver's own; of devices in MIG mode, DCGM has none.
fn utilization(device: &Device) -> Option<SampleValue> {
    SampleValue::of(&device.utilization.into())
}

fn energy(device: &Device) -> Option<SampleValue> {
    device.details.as_ref()?.energy_millijoules.get().map(SampleValue::Integer)
}

/// Both directions; DCGM calls this rate a counter.
fn nvlink(device: &Device) -> Option<SampleValue> {
    let (received, sent) = nvlink_rates(device);
    Some(SampleValue::Integer(received.get()?.0.saturating_add(sent.get()?.0)))
}

/// A device, or a slice, with the labels of DCGM.
struct DcgmEntity<'a> {
    device: &'a Device,
    labels: Labels,
    has_slices: bool,
}

/// Writes the names of dcgm-exporter up to 4.8.
pub(super) fn write_classic(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    let entities = entities(served, "Hostname", "DCGM_FI_DRIVER_VERSION");
    for field in FIELDS {
        write_field(text, &entities, field, &field.classic);
    }
    write_xid(text, "DCGM_FI_DEV_XID_ERRORS", &entities);
}

/// Writes the newer names; those that have not changed only if the classic ones are not written.
pub(super) fn write_canonical(
    text: &mut ExpositionText,
    served: &ServedFleet<'_>,
    has_classic: bool,
) {
    let entities = entities(served, "hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION");
    for field in FIELDS {
        if !has_classic || field.classic.0 != field.canonical.0 {
            write_field(text, &entities, field, &field.canonical);
        }
    }
    write_xid(text, "DCGM_FI_DEV_XID_ERROR", &entities);
}

fn write_field(
    text: &mut ExpositionText,
    entities: &[DcgmEntity<'_>],
    field: &DcgmField,
    DcgmName(name, convert): &DcgmName,
) {
    let metric = match field.from {
        Metric(id) => device_fields().find(|metric| metric.id == id),
        DcgmValue::Device(_) => None,
    };
    // The unit in the help is that of the classic name.
    let help = if *name == field.classic.0 {
        field.help
    } else {
        field.help.split(" (in ").next().unwrap_or_default()
    };
    let entities = entities.iter().filter(|entity| {
        if field.is_of_slices { !entity.has_slices } else { entity.device.parent.is_none() }
    });
    let samples = entities.filter_map(|entity| {
        let value = match field.from {
            DcgmValue::Device(read) => read(entity.device)?,
            Metric(_) => SampleValue::of(&(metric?.read)(entity.device))?,
        };
        Some((&entity.labels, convert(value)))
    });
    text.family(Family { name, kind: field.kind, help }, samples);
}

/// Writes the last Xid; 0 if there was none, and nothing if the driver does not report them.
fn write_xid(text: &mut ExpositionText, name: &str, entities: &[DcgmEntity<'_>]) {
    let samples: Vec<_> = entities
        .iter()
        .filter_map(|entity| {
            let details = entity.device.details.as_ref()?;
            details.xids.get()?;
            let code = details.xid.get().unwrap_or(0);
            let meaning = if code == 0 {
                "No Error"
            } else {
                xid_meaning(code.into()).unwrap_or("Unknown Error")
            };
            let labels = entity.labels.and("err_code", &code.to_string());
            Some((labels.with("err_msg", meaning), SampleValue::Integer(code.into())))
        })
        .collect();
    let samples = samples.iter().map(|(labels, value)| (labels, *value));
    text.family(Family { name, kind: GAUGE, help: XID_HELP }, samples);
}

/// Returns the devices of NVIDIA whose values are current. `instance` is the node: one gtop answers for all.
fn entities<'a>(
    served: &ServedFleet<'a>,
    hostname: &str,
    driver_label: &str,
) -> Vec<DcgmEntity<'a>> {
    let mut seen = BTreeSet::new();
    let devices = served.fresh_devices().filter(|served| {
        let device = served.device;
        device.vendor.get() == Some(Vendor::Nvidia)
            && device.fault.is_none()
            && !device.has_host_memory
    });
    devices.filter_map(|served| entity(served, hostname, driver_label, &mut seen)).collect()
}

fn entity<'a>(
    served: &ServedDevice<'a>,
    hostname: &str,
    driver_label: &str,
    seen: &mut BTreeSet<(String, String)>,
) -> Option<DcgmEntity<'a>> {
    let ServedDevice { node, device, .. } = *served;
    let node_name = &served.node_name;
    let whole = device.parent.as_ref().map_or(Some(device), |parent| node.device(parent))?;
    let index = whole.index.get()?.to_string();
    let mut labels = Labels::default()
        .with("gpu", &index)
        .with("UUID", &whole.uuid)
        .with("pci_bus_id", whole.pci.known().map_or("", |pci| pci))
        .with("device", &format!("nvidia{index}"))
        .with("modelName", whole.name.known().map_or("", |name| name));
    let mut instance = String::new();
    if device.parent.is_some() {
        instance = device.statics.as_ref()?.gpu_instance.get()?.to_string();
        // `MIG 1c.3g.40gb` is a compute instance of the profile 3g.40gb.
        let name = device.name.known().map_or("", |name| name);
        let profile = name.rsplit_once("MIG ").map_or("", |(_, profile)| profile);
        let profile = profile.split_once("c.").map_or(profile, |(_, rest)| rest);
        labels = labels.with("GPU_I_PROFILE", profile).with("GPU_I_ID", &instance);
    }
    // Compute instances of one GPU instance would be the same series.
    if !seen.insert((format!("{node_name} {}", whole.uuid), instance)) {
        return None;
    }
    let labels = labels.with(hostname, node_name);
    let statics = whole.statics.as_ref();
    let labels = match statics.and_then(|statics| statics.driver.known()) {
        Some(driver) => labels.with(driver_label, driver),
        None => labels,
    };
    let labels = labels.with("instance", node_name);
    Some(DcgmEntity { device, labels, has_slices: node.has_slices(device) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::export::exposition::{CompatNames, ExpositionOptions, MetricChoice, exposition};
    use gtop_fleet::{Fleet, Node, SourceState};
    use gtop_local::time::Timestamp;
    use gtop_model::{
        Bytes, DeviceDetails, DeviceFault, DeviceStatics, Link, NodeName, Percent, Reading, Source,
        Watts,
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn device(uuid: &str, index: u32) -> Device {
        let statics = DeviceStatics {
            driver: Reading::Known("570.1".into()),
            gpu_instance: Reading::Known(7),
            ..DeviceStatics::default()
        };
        let details = DeviceDetails {
            energy_millijoules: Reading::Known(5500),
            xids: Reading::Known(2),
            xid: Reading::Known(79),
            ..DeviceDetails::default()
        };
        Device {
            uuid: uuid.into(),
            index: Reading::Known(index),
            vendor: Reading::Known(Vendor::Nvidia),
            name: Reading::Known("H100".into()),
            utilization: Reading::checked(Percent::new(37.0)),
            power: Reading::checked(Watts::new(310.5)),
            memory_used: Reading::Known(Bytes((3 << 20) + 1)),
            statics: Some(statics.into()),
            details: Some(details.into()),
            ..Device::default()
        }
    }

    /// Returns the lines of samples of a node with these devices.
    fn lines(devices: Vec<Device>, compat: CompatNames) -> Vec<String> {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.device_sources = vec![Source::new("nvml"); devices.len()].into();
        node.devices = devices.into();
        node.sources = [SourceState {
            source: Source::new("nvml"),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        }]
        .into();
        let options = ExpositionOptions { compat, ..ExpositionOptions::default() };
        let fleet = Fleet::new([node.into()].into());
        let text = exposition(&fleet, NOW, options, &MetricChoice::All);
        let text = String::from_utf8(text).unwrap();
        text.lines().filter(|line| line.starts_with("DCGM")).map(str::to_owned).collect()
    }

    const CLASSIC: CompatNames = CompatNames { dcgm: true, dcgm_canonical: false, nvitop: false };
    const BOTH: CompatNames = CompatNames { dcgm_canonical: true, ..CLASSIC };

    #[test]
    fn labels_and_units_are_those_of_each_exporter() {
        let labels = |host: &str, driver: &str| {
            format!(
                "gpu=\"3\",UUID=\"GPU-1\",pci_bus_id=\"\",device=\"nvidia3\",modelName=\"H100\",{host}=\"gpu01\",{driver}=\"570.1\",instance=\"gpu01\""
            )
        };
        let classic = labels("Hostname", "DCGM_FI_DRIVER_VERSION");
        let canonical = labels("hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION");
        let found = lines(vec![device("GPU-1", 3)], BOTH);
        let xid = "err_code=\"79\",err_msg=\"";
        for (name, labels, value) in [
            ("DEV_GPU_UTIL", &classic, "37"),
            ("DEV_GPU_UTIL_RATIO", &canonical, "0.37"),
            ("DEV_POWER_USAGE", &classic, "310.5"),
            ("DEV_BOARD_POWER_WATTS", &canonical, "310.5"),
            ("DEV_FB_USED", &classic, "3"),
            ("DEV_FB_USED_BYTES", &canonical, "3145729"),
            ("DEV_TOTAL_ENERGY_CONSUMPTION", &classic, "5500"),
            ("DEV_GPU_ENERGY_JOULES_TOTAL", &canonical, "5.5"),
        ] {
            let line = format!("DCGM_FI_{name}{{{labels}}} {value}");
            assert!(found.contains(&line), "{line}: {found:#?}");
        }
        let errors = |name: &str| {
            let start = format!("DCGM_FI_DEV_{name}{{");
            found.iter().filter(|line| line.starts_with(&start) && line.contains(xid)).count()
        };
        assert_eq!((errors("XID_ERRORS"), errors("XID_ERROR")), (1, 1));
    }

    #[test]
    fn slices_have_memory_their_device_the_rest_and_faulty_devices_nothing() {
        let slice =
            |uuid: &str, index| Device { parent: Some("GPU-1".into()), ..device(uuid, index) };
        let lost = Device { fault: Some(DeviceFault::Lost), ..device("GPU-2", 4) };
        let host = Device { has_host_memory: true, ..device("GPU-3", 5) };
        let amd = Device { vendor: Reading::Known(Vendor::Amd), ..device("GPU-4", 6) };
        // A second compute instance of the GPU instance would be the same series.
        let devices =
            vec![device("GPU-1", 3), slice("MIG-1", 0), slice("MIG-2", 1), lost, host, amd];
        let found = lines(devices, CLASSIC);
        let of = |name: &str| {
            let start = format!("DCGM_FI_DEV_{name}{{");
            let lines = found.iter().filter(|line| line.starts_with(&start));
            lines.map(|line| line.contains("GPU_I_ID=\"7\"")).collect::<Vec<_>>()
        };
        assert_eq!((of("FB_USED"), of("POWER_USAGE")), (vec![true], vec![false]), "{found:#?}");
        assert!(found.iter().all(|line| line.contains("UUID=\"GPU-1\"")));
    }
}
