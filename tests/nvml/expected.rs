//! The expected value of each field of each device, parsed from a scenario independently of gtop.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The defaults of the stubs.
const DEFAULTS: &str = "util=0 memutil=0 temp=35 power_mw=70000 limit_mw=700000 \
    limit_requested_mw=700000 used_mib=0 total_mib=81559 reserved_mib=600 clk_gr=1980 clk_sm=1980 \
    clk_mem=2619 clk_gr_max=1980 clk_sm_max=1980 clk_mem_max=2619 pstate=0 throttle=0 persistence=1 \
    compute_mode=0 display=0 ecc_mode=1 ecc_cv=0 ecc_uv=0 ecc_ca=0 ecc_ua=0 pcie_gen=5 \
    pcie_width=16 pcie_gen_max=5 pcie_width_max=16 mig=0 enc=0 dec=0 capability=9.0";

/// How a scenario's number becomes a field's value.
#[derive(Clone, Copy)]
enum Conversion {
    Plain,
    Percent,
    Mib,
    Thousandth,
    Flag,
    Word(fn(u64) -> &'static str),
}

use Conversion::{Flag, Mib, Percent, Plain, Thousandth, Word};

/// The field, its key in the scenario, and the conversion.
const FIELDS: &[(&str, &str, Conversion)] = &[
    ("utilization_percent", "util", Percent),
    ("memory_utilization_percent", "memutil", Percent),
    ("memory_used_bytes", "used_mib", Mib),
    ("memory_total_bytes", "total_mib", Mib),
    ("memory_reserved_bytes", "reserved_mib", Mib),
    ("temperature_celsius", "temp", Percent),
    ("memory_temperature_celsius", "memtemp", Percent),
    ("power_watts", "power_mw", Thousandth),
    ("power_average_watts", "power_avg_mw", Thousandth),
    ("power_instant_watts", "power_now_mw", Thousandth),
    ("power_limit_watts", "limit_mw", Thousandth),
    ("power_limit_requested_watts", "limit_requested_mw", Thousandth),
    ("power_limit_default_watts", "limit_default_mw", Thousandth),
    ("power_limit_min_watts", "limit_min_mw", Thousandth),
    ("power_limit_max_watts", "limit_max_mw", Thousandth),
    ("energy_joules", "energy_mj", Thousandth),
    ("sm_clock_megahertz", "clk_sm", Plain),
    ("memory_clock_megahertz", "clk_mem", Plain),
    ("graphics_clock_megahertz", "clk_gr", Plain),
    ("video_clock_megahertz", "clk_video", Plain),
    ("sm_clock_max_megahertz", "clk_sm_max", Plain),
    ("memory_clock_max_megahertz", "clk_mem_max", Plain),
    ("graphics_clock_max_megahertz", "clk_gr_max", Plain),
    ("video_clock_max_megahertz", "clk_video_max", Plain),
    ("fan_percent", "fan", Percent),
    ("performance_state", "pstate", Plain),
    ("throttle_bits", "throttle", Plain),
    ("throttle_reasons", "throttle", Word(throttle)),
    ("temperature_margin_celsius", "margin", Percent),
    ("slowdown_temperature_celsius", "t_slowdown", Percent),
    ("shutdown_temperature_celsius", "t_shutdown", Percent),
    ("ecc_enabled", "ecc_mode", Flag),
    ("ecc_corrected_errors", "ecc_cv", Plain),
    ("ecc_uncorrected_errors", "ecc_uv", Plain),
    ("ecc_corrected_total_errors", "ecc_ca", Plain),
    ("ecc_uncorrected_total_errors", "ecc_ua", Plain),
    ("retired_single_bit_pages", "retired_sbe", Plain),
    ("retired_double_bit_pages", "retired_dbe", Plain),
    ("retirement_pending", "retired_pending", Flag),
    ("remapped_corrected_rows", "remap_corrected", Plain),
    ("remapped_uncorrected_rows", "remap_uncorrected", Plain),
    ("remapping_pending", "remap_pending", Flag),
    ("remapping_failed", "remap_failed", Flag),
    ("recovery_action", "recovery", Word(recovery)),
    ("pcie_generation", "pcie_gen", Plain),
    ("pcie_lanes", "pcie_width", Plain),
    ("pcie_generation_max", "pcie_gen_max", Plain),
    ("pcie_lanes_max", "pcie_width_max", Plain),
    ("pcie_replays", "pcie_replays", Plain),
    ("nvlinks", "nvlinks", Plain),
    ("bar1_used_bytes", "bar1_used_mib", Mib),
    ("bar1_total_bytes", "bar1_total_mib", Mib),
    ("display_active", "display", Flag),
    ("display_connected", "display", Flag),
    ("compute_mode", "compute_mode", Word(compute_mode)),
    ("persistence_enabled", "persistence", Flag),
    ("mig_enabled", "mig", Flag),
    ("fabric_state", "fabric", Word(fabric)),
    ("encoder_percent", "enc", Percent),
    ("decoder_percent", "dec", Percent),
    ("jpeg_percent", "jpg", Percent),
    ("optical_flow_percent", "ofa", Percent),
    ("sram_threshold_exceeded", "sram_threshold", Flag),
    ("graphics_active_percent", "gpm_graphics", Percent),
    ("sm_active_percent", "gpm_sm", Percent),
    ("sm_occupancy_percent", "gpm_occupancy", Percent),
    ("tensor_active_percent", "gpm_tensor", Percent),
    ("dram_active_percent", "gpm_dram", Percent),
    ("fp64_active_percent", "gpm_fp64", Percent),
    ("fp32_active_percent", "gpm_fp32", Percent),
    ("fp16_active_percent", "gpm_fp16", Percent),
];

/// Fields that follow from two samples, from the machine, or from several keys; each is checked separately.
const SEPARATE_FIELDS: [&str; 28] = [
    "nvlinks_active",
    "vendor",
    "name",
    "pci_bus",
    "driver_version",
    "memory_free_bytes",
    "memory_is_host",
    "hidden_processes",
    "hidden_memory_bytes",
    "bar1_free_bytes",
    "compute_capability",
    "fabric_health",
    "numa_node",
    "device_minor",
    "gpu_instance",
    "compute_instance",
    "xid",
    "xid_events",
    "xid_meaning",
    "throttled_power_percent",
    "throttled_thermal_percent",
    "throttled_hardware_thermal_percent",
    "throttled_power_brake_percent",
    "throttled_sync_boost_percent",
    "pcie_receive_bytes_per_second",
    "pcie_transmit_bytes_per_second",
    "nvlink_receive_bytes_per_second",
    "nvlink_transmit_bytes_per_second",
];

/// Fields that only AMD devices have.
const AMD_FIELDS: [&str; 10] = [
    "gtt_used_bytes",
    "gtt_total_bytes",
    "junction_temperature_celsius",
    "junction_slowdown_temperature_celsius",
    "memory_slowdown_temperature_celsius",
    "fan_rpm",
    "video_percent",
    "performance_level",
    "compute_partition",
    "memory_partition",
];

fn throttle(bits: u64) -> &'static str {
    match bits {
        0 | 1 => "none",
        4 => "power cap",
        0x48 => "hardware slowdown, hardware thermal",
        _ => panic!("no text for the bits {bits:#x}"),
    }
}

fn recovery(number: u64) -> &'static str {
    ["none", "reset the device", "reboot the node"][usize::try_from(number).unwrap()]
}

fn compute_mode(number: u64) -> &'static str {
    ["default", "exclusive thread", "prohibited", "exclusive process"]
        [usize::try_from(number).unwrap()]
}

fn fabric(number: u64) -> &'static str {
    ["no fabric", "not started", "in progress", "completed"][usize::try_from(number).unwrap()]
}

/// One device of a scenario, with the values as written there.
pub(crate) struct Device {
    pub(crate) name: String,
    keys: BTreeMap<String, String>,
}

/// Reads the devices of a scenario in their order.
pub(crate) fn devices(scenario: &str) -> Vec<Device> {
    let line = |line: &str| {
        let rest = line.strip_prefix("gpu ")?;
        let (facts, name) = rest.split_once("name=").unwrap_or((rest, "NVIDIA H100 80GB HBM3"));
        let pairs = DEFAULTS.split_whitespace().chain(facts.split_whitespace());
        let keys = pairs
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut keys: BTreeMap<String, String> = keys.collect();
        if !keys.contains_key("memtemp") {
            let text = &keys["temp"];
            let memory =
                text.parse().map_or_else(|_| text.clone(), |temp: u32| (temp + 8).to_string());
            keys.insert("memtemp".to_owned(), memory);
        }
        Some(Device { name: name.to_owned(), keys })
    };
    scenario.lines().filter_map(line).collect()
}

impl Device {
    pub(crate) fn key(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// The value of a field, or the reason why it is unknown.
    fn expected(&self, key: &str, conversion: Conversion) -> Result<Value, &'static str> {
        let Some(text) = self.key(key) else { return Err("not supported") };
        match text {
            "~" | "!3" => return Err("not supported"),
            "!4" => return Err("no permission"),
            "!999" => return Err("driver error"),
            _ => {}
        }
        let digits = text.strip_prefix("0x");
        let number = digits.map_or_else(|| text.parse(), |digits| i64::from_str_radix(digits, 16));
        let number = number.unwrap_or_else(|_| panic!("{key}={text}"));
        let unsigned = || u64::try_from(number).unwrap();
        Ok(match conversion {
            Plain => json!(unsigned()),
            Percent => json!(number as f64),
            Mib => json!(unsigned() << 20),
            Thousandth if key == "energy_mj" => json!(unsigned() / 1000),
            Thousandth => json!(f64::from((unsigned() as f64 / 1000.0) as f32)),
            Flag => json!(number == 1),
            Word(text) => json!(text(unsigned())),
        })
    }

    /// Compares a device of the snapshot with this one, field by field; `except` for those checked elsewhere.
    pub(crate) fn check(&self, shown: &Value, except: &[&str]) {
        for (field, key, conversion) in FIELDS {
            if except.contains(field) {
                continue;
            }
            let (value, reason) = match self.expected(key, *conversion) {
                Ok(value) => (value, Value::Null),
                Err(reason) => (Value::Null, json!(reason)),
            };
            assert_eq!(rounded(&shown[field]), rounded(&value), "{field} of {shown}");
            assert_eq!(shown["unknown"][field], reason, "{field} of {shown}");
        }
        assert_eq!(shown["name"], self.name);
        assert_eq!(shown["compute_capability"], self.keys["capability"]);
        assert_eq!(shown["fault"], Value::Null);
    }
}

/// Formats a number with three decimals, since floats pass through single precision.
fn rounded(value: &Value) -> String {
    value.as_f64().map_or_else(|| value.to_string(), |number| format!("{number:.3}"))
}

#[test]
fn every_device_field_is_checked() {
    for field in gtop_fleet::metrics::device_fields() {
        let is_tpu = gtop_fleet::metrics::DEVICE_TPU.iter().any(|tpu| tpu.id == field.id);
        let is_checked = is_tpu
            || FIELDS.iter().any(|(id, ..)| *id == field.id)
            || SEPARATE_FIELDS.contains(&field.id)
            || AMD_FIELDS.contains(&field.id);
        assert!(is_checked, "{}", field.id);
    }
}
