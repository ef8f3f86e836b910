//! Texts of what a control group has and uses of a host.

use crate::widgets::number_format::{Units, or_unknown};
use gtop_fleet::HostShare;

/// Returns `7.9 of 8 CPUs` and `31.2/64.0 GiB`; a part is empty if neither what is used nor a limit is known.
pub(crate) fn share_texts(share: &HostShare, units: Units) -> [String; 2] {
    let (used, memory) = (share.cpus_used.get(), share.memory_used.get());
    let cpus = match (used, share.cpus) {
        (None, None) => String::new(),
        (Some(_), None) => format!("{} CPUs", used_cpus(share)),
        (_, Some(cpus)) => {
            let unit = if cpus > 1.0 { "CPUs" } else { "CPU" };
            format!("{} of {} {unit}", used_cpus(share), cpu_count(cpus))
        }
    };
    let memory = match (memory, share.memory_limit) {
        (None, None) => String::new(),
        (Some(used), None) => units.amount_with_unit(used),
        (used, limit) => units.usage_with_unit(used, limit),
    };
    [cpus, memory]
}

/// Returns the CPUs in use, as precisely as their limit.
pub(crate) fn used_cpus(share: &HostShare) -> String {
    let decimals = share.cpus.map_or(1, cpu_decimals);
    or_unknown(share.cpus_used.get(), |used| format!("{used:.decimals$}"))
}

/// Returns a limit of CPUs, with digits behind the point if it has some.
pub(crate) fn cpu_count(cpus: f32) -> String {
    let text = format!("{cpus:.*}", cpu_decimals(cpus));
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns how many digits behind the point show even a small limit.
const fn cpu_decimals(limit: f32) -> usize {
    match limit {
        1.0.. => 1,
        0.01.. => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{Bytes, Reading};

    #[test]
    fn what_is_not_known_is_no_number_and_no_limit_is_none() {
        let texts = |share: HostShare| share_texts(&share, Units::default());
        let whole = HostShare {
            cpus: Some(8.0),
            cpus_used: Reading::Known(7.94),
            memory_limit: Some(Bytes(64 << 30)),
            memory_used: Reading::Known(Bytes(31 << 30)),
        };
        assert_eq!(texts(whole), ["7.9 of 8 CPUs", "31.0/64.0 GiB"]);
        let unlimited = HostShare { cpus: None, memory_limit: None, ..whole };
        assert_eq!(texts(unlimited), ["7.9 CPUs", "31.0 GiB"]);
        let unread =
            HostShare { cpus: Some(1.0), memory_limit: whole.memory_limit, ..HostShare::default() };
        assert_eq!(texts(unread), ["– of 1 CPU", "–/64.0 GiB"]);
        assert_eq!(texts(HostShare { cpus: Some(1.5), ..whole })[0], "7.9 of 1.5 CPUs");
        assert_eq!(texts(HostShare::default()), ["", ""]);
        let small = HostShare {
            cpus: Some(0.01),
            cpus_used: Reading::Known(0.004),
            memory_limit: Some(Bytes(20 << 20)),
            memory_used: Reading::Known(Bytes(17 << 20)),
        };
        assert_eq!(texts(small), ["0.00 of 0.01 CPU", "17/20 MiB"]);
        assert_eq!(
            [0.001, 0.25, 0.5, 1.0, 120.0].map(cpu_count),
            ["0.001", "0.25", "0.5", "1", "120"]
        );
    }
}
