//! Decodes the values that only TPU chips have.

use std::collections::BTreeMap;

use crate::wire::body;
use crate::wire::checked::{Decode as _, ObjectReader, to_f32};
use crate::wire::decode::seconds;
use gtop_model::{Bytes, Reading, TpuCore, TpuDetails};

/// Maximum number of cores per chip.
const MAX_CORES: usize = 16;
/// Maximum length of a text from the runtime.
const MAX_TEXT_LENGTH: usize = 200;

/// Decodes the values of a TPU chip; `lacks` of its device has the reasons for missing ones.
pub(super) fn tpu(sent: &body::Tpu, lacks: &BTreeMap<String, String>) -> TpuDetails {
    let reader = ObjectReader { lacks, max_text_length: MAX_TEXT_LENGTH };
    let idle = sent.idle.reading(reader.null_reason("idle")).and_then(seconds);
    let uptime = sent.uptime.reading(reader.null_reason("uptime")).and_then(seconds);
    let rest = TpuDetails {
        idle_seconds: idle.map(|idle| to_f32(idle.as_secs_f64())),
        by_core: Reading::of(sent.by_core.as_deref(), |cores| {
            Reading::Known(cores.iter().take(MAX_CORES).map(core).collect())
        }),
        uptime_seconds: uptime.map(|uptime| uptime.as_secs()),
        ..TpuDetails::default()
    };
    sent.decode(&reader, rest)
}

fn core(sent: &body::TpuCore) -> TpuCore {
    TpuCore {
        memory_used: sent.used.value().map(Bytes),
        memory_total: sent.total.value().map(Bytes),
        utilization: sent.util.checked().get(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::wire::decode::device::device;
    use crate::wire::decode::names::NameInterner;
    use gtop_model::{Percent, Reason};

    fn decode(text: &str) -> TpuDetails {
        let sent: body::Device = serde_json::from_str(text).unwrap();
        Arc::unwrap_or_clone(device(&sent, &mut NameInterner::default()).tpu.unwrap())
    }

    #[test]
    fn a_null_text_is_unknown_and_an_absent_one_was_not_sampled() {
        let tpu = decode(
            r#"{"uuid": "tpu-1", "tpu": {"source": null, "cores": 1},
                "lacks": {"source": "no workload", "held": "no permission"}}"#,
        );
        assert_eq!(tpu.metrics_source, Reading::Unknown(Reason::NoWorkload));
        assert_eq!(tpu.framework, Reading::Unknown(Reason::NotSampled));
        assert_eq!(tpu.is_held, Reading::Unknown(Reason::NotSampled));
        assert_eq!(tpu.cores, Reading::Known(1));
    }

    #[test]
    fn impossible_numbers_of_a_chip_do_not_affect_others() {
        let tpu = decode(
            r#"{"uuid": "tpu-1", "tpu": {"hbm_util": 101, "idle": -1, "uptime": 1e300, "queue": -3,
                "cores": 5000000000, "held": 1, "trouble": "a\u001b[31mb",
                "by_core": [{"used": -1, "util": 50}, {"total": 7, "util": 1e9}]}}"#,
        );
        for reason in [tpu.bandwidth.reason(), tpu.idle_seconds.reason(), tpu.queue.reason()] {
            assert_eq!(reason, Some(Reason::Malformed));
        }
        for reason in [tpu.cores.reason(), tpu.is_held.reason(), tpu.uptime_seconds.reason()] {
            assert_eq!(reason, Some(Reason::Malformed));
        }
        assert_eq!(tpu.metrics_fault.known().map(|text| &**text), Some("a [31mb"));
        let cores = tpu.by_core.into_known().unwrap();
        assert_eq!(cores[0], TpuCore { utilization: Percent::new(50.0), ..TpuCore::default() });
        assert_eq!(cores[1], TpuCore { memory_total: Some(Bytes(7)), ..TpuCore::default() });
    }
}
