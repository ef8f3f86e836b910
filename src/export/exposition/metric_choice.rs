//! Which of gtop's own metrics are served.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::export::exposition::metric_names;
use gtop_fleet::query;

/// Gtop's own metrics, or some of them. Those of other exporters are chosen as sets, and always written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MetricChoice {
    /// All of them.
    #[default]
    All,
    /// Those with these names.
    Named(Arc<BTreeSet<String>>),
}

/// A name that no metric has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no metric is called {name}; similar names: {near}")]
pub struct UnknownMetric {
    name: String,
    near: String,
}

/// How gtop's own names begin.
const PREFIX: &str = "gtop_";
/// Names that are suggested for a wrong one.
const MAX_NEAR: usize = 3;

/// What the alert rules and the dashboard of `examples/` read, and what says whose devices these are and how old it is.
#[rustfmt::skip]
const CORE: &[&str] = &[
    "build_info", "node_up", "node_fault_info", "node_note_info", "sample_age_seconds", "source_fault_info",
    "node_cpu_ratio", "node_memory_available_bytes", "node_memory_total_bytes",
    "node_pressure_cpu_ratio", "node_pressure_io_ratio", "node_pressure_memory_ratio",
    "node_network_receive_bytes_per_second", "node_network_transmit_bytes_per_second",
    "node_infiniband_receive_bytes_per_second", "node_infiniband_transmit_bytes_per_second",
    "device_info", "device_fault_info", "device_state", "device_health", "device_health_reason_info",
    "device_utilization_ratio", "device_memory_used_bytes", "device_memory_total_bytes",
    "device_power_watts", "device_power_limit_watts", "device_energy_joules_total",
    "device_temperature_celsius", "device_slowdown_temperature_celsius", "device_temperature_margin_celsius",
    "device_junction_temperature_celsius", "device_junction_slowdown_temperature_celsius",
    "device_throttle_mask", "device_throttled_thermal_ratio", "device_throttled_hardware_thermal_ratio",
    "device_throttled_power_brake_ratio", "device_xid", "device_xid_events_total",
    "device_ecc_corrected_errors_total", "device_ecc_uncorrected_errors_total",
    "device_ecc_uncorrected_lifetime_errors_total", "device_sram_threshold_exceeded",
    "device_remapping_pending", "device_remapping_failed", "device_remapped_uncorrected_rows_total",
    "device_retirement_pending", "device_retired_double_bit_pages_total",
    "device_pcie_lanes", "device_pcie_lanes_max", "device_pcie_replays_total",
    "scheduler_up", "scheduler_age_seconds", "job_device_info", "job_info",
    "process_info", "process_memory_used_bytes", "process_cpu_ratio",
];

impl MetricChoice {
    /// Parses `core`, `all`, or names with commas between them, among which `core` may be.
    ///
    /// # Errors
    ///
    /// If a name is none of a metric.
    pub fn parse(text: &str) -> Result<Self, UnknownMetric> {
        let known = metric_names();
        let mut chosen = BTreeSet::new();
        for name in text.split(',').map(str::trim) {
            match name {
                "all" => return Ok(Self::All),
                "core" => chosen.extend(CORE.iter().map(|name| format!("{PREFIX}{name}"))),
                name if known.contains(name) => drop(chosen.insert(name.to_owned())),
                name => return Err(unknown(name, &known)),
            }
        }
        Ok(Self::Named(chosen.into()))
    }

    /// Returns true if a metric is written.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => !name.starts_with(PREFIX) || names.contains(name),
        }
    }
}

fn unknown(name: &str, known: &BTreeSet<String>) -> UnknownMetric {
    let names = known.iter().map(String::as_str).chain(["core", "all"]);
    let near = query::nearest_several(name, names, MAX_NEAR).join(", ");
    UnknownMetric { name: gtop_local::text::excerpt_line(name), near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_core_all_or_names_and_a_wrong_name_has_near_ones() {
        let names = |text: &str| match MetricChoice::parse(text) {
            Ok(MetricChoice::Named(names)) => names.iter().cloned().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(MetricChoice::parse("all"), Ok(MetricChoice::All));
        assert_eq!(MetricChoice::parse("gtop_node_up,all"), Ok(MetricChoice::All));
        assert_eq!(
            names("gtop_node_up, gtop_device_power_watts"),
            ["gtop_device_power_watts", "gtop_node_up"]
        );
        let core = names("core");
        assert!(core.len() == CORE.len() && !core.contains(&"gtop_node_info".to_owned()));
        assert_eq!(names("core,gtop_node_info").len(), core.len() + 1);
        for (wrong, near) in [
            ("gtop_device_power_wats", "gtop_device_power_watts"),
            ("power", "gtop_device_power_watts"),
            ("cor", "core"),
            ("", "all"),
            ("DCGM_FI_DEV_GPU_UTIL", "gtop_"),
        ] {
            let error = MetricChoice::parse(wrong).unwrap_err();
            assert_eq!(error.name, wrong);
            assert!(error.near.contains(near) && error.near.matches(',').count() == 2, "{error}");
        }
    }

    #[test]
    fn core_has_what_the_examples_read_and_only_metrics() {
        let known = metric_names();
        let core = MetricChoice::parse("core").unwrap();
        let missing: Vec<_> =
            CORE.iter().filter(|name| !known.contains(&format!("{PREFIX}{name}"))).collect();
        assert!(missing.is_empty(), "{missing:?} of {known:#?}");
        let files = [
            include_str!("../../../examples/prometheus/gtop-alerts.yml"),
            include_str!("../../../examples/grafana/gtop.json"),
        ];
        for name in files.iter().flat_map(|file| file.split(|letter: char| !is_of_name(letter))) {
            assert!(!known.contains(name) || core.has(name), "{name}");
        }
    }

    fn is_of_name(letter: char) -> bool {
        letter.is_ascii_alphanumeric() || letter == '_'
    }
}
