//! Texts of what a control group has and uses of a host.

use crate::widgets::number_format::{Units, or_unknown};
use gtop_fleet::HostShare;

/// Returns `7.9 of 8 CPUs` and `31.2/64.0 GiB`; a part is empty if neither what is used nor a limit is known.
pub(crate) fn share_texts(share: &HostShare, units: Units) -> [String; 2] {
    let (used, memory) = (share.cpus_used.get(), share.memory_used.get());
    let cpus = match (used, share.cpus) {
        (None, None) => String::new(),
        (Some(used), None) => format!("{used:.1} CPUs"),
        (used, Some(cpus)) => {
            let used = or_unknown(used, |used| format!("{used:.1}"));
            format!("{used} of {} {}", cpu_count(cpus), if cpus > 1.0 { "CPUs" } else { "CPU" })
        }
    };
    let memory = match (memory, share.memory_limit) {
        (None, None) => String::new(),
        (Some(used), None) => units.amount_with_unit(used),
        (used, limit) => units.usage_with_unit(used, limit),
    };
    [cpus, memory]
}

/// Returns a number of CPUs, with a digit behind the point if it has one.
pub(crate) fn cpu_count(cpus: f32) -> String {
    let text = format!("{cpus:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
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
    }
}
