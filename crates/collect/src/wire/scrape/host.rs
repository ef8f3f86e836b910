//! Values of a host that all exporters have in common: interfaces, disks, file systems, load and uptime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::checked::{sanitize_name, to_f32};
use crate::wire::scrape::page::{MIB, ScrapedPage, whole};
use gtop_local::text::sanitize_shared;
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, Counter, Reading, Space};

/// Maximum number of interfaces, ports or disks, as of a probe.
const MAX_COUNTERS: usize = 16;
/// Maximum number of file systems, as of a probe.
const MAX_SPACES: usize = 8;
/// Maximum load average.
const MAX_LOAD: f64 = 1e7;
/// Maximum uptime in seconds.
const MAX_UPTIME: f64 = 1e9;

/// Beginnings of the names of interfaces that are not physical: their traffic is that of another one, or leaves no host.
const VIRTUAL_INTERFACES: [&str; 18] = [
    "veth",
    "docker",
    "br-",
    "virbr",
    "cali",
    "cni",
    "flannel",
    "ifb",
    "dummy",
    "tun",
    "tap",
    "vnet",
    "bond",
    "team",
    "vxlan",
    "wg",
    "kube",
    "tailscale",
];
/// Beginnings of the names of devices that are no disks, or consist of others.
const VIRTUAL_DISKS: [&str; 9] = ["loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "mtd"];
/// Beginnings of mount points that are of no interest.
const SYSTEM_MOUNTS: [&str; 3] = ["/boot", "/snap", "/var/lib/"];

/// Returns the counters of physical interfaces, from bytes by name.
pub(super) fn interfaces(
    received: BTreeMap<&str, f64>,
    sent: &BTreeMap<&str, f64>,
) -> Arc<[Counter]> {
    let physical = received
        .into_iter()
        .filter(|(name, _)| *name != "lo" && !has_prefix(name, &VIRTUAL_INTERFACES));
    counters(physical, sent)
}

fn has_prefix(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the counters of whole disks, from bytes by name.
pub(super) fn disks(read: &BTreeMap<&str, f64>, written: &BTreeMap<&str, f64>) -> Arc<[Counter]> {
    let disks = read.iter().map(|(name, bytes)| (*name, *bytes)).filter(|(name, _)| {
        !has_prefix(name, &VIRTUAL_DISKS) && !written.keys().any(|disk| is_partition(name, disk))
    });
    counters(disks, written)
}

/// Returns true if a name is that of a partition of a disk: `sda1`, `nvme0n1p1`.
fn is_partition(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let ends_in_digit = disk.ends_with(|letter: char| letter.is_ascii_digit());
    let number = if ends_in_digit { rest.strip_prefix('p') } else { Some(rest) };
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|letter| letter.is_ascii_digit())
    })
}

/// Returns counters that both maps have.
pub(super) fn counters<'a>(
    inward: impl Iterator<Item = (&'a str, f64)>,
    outward: &BTreeMap<&str, f64>,
) -> Arc<[Counter]> {
    let counters = inward.filter_map(|(name, inward)| {
        let outward = whole(*outward.get(name)?)?;
        Some(Counter { name: sanitize_shared(name, 32), inward: whole(inward)?, outward })
    });
    counters.take(MAX_COUNTERS).collect()
}

/// Returns the file systems that are of interest, the root first, from sizes and free bytes by mount point.
pub(super) fn spaces(sizes: &BTreeMap<&str, f64>, free: &BTreeMap<&str, f64>) -> Arc<[Space]> {
    // They are in order, so that the root is the first.
    let shown = sizes.iter().filter(|(path, _)| !has_prefix(path, &SYSTEM_MOUNTS));
    let spaces = shown.filter_map(|(path, total)| {
        let (total, free) = (whole(*total)?, whole(*free.get(path)?)?);
        let path = sanitize_name(path);
        (total > 0).then_some(Space { path, total: Bytes(total), free: Bytes(free.min(total)) })
    });
    spaces.take(MAX_SPACES).collect()
}

/// Returns the bytes of a family by a label. Those of a family in MiB are converted.
pub(super) fn bytes_by<'a>(
    page: &'a ScrapedPage<'_>,
    family: &str,
    label: &str,
) -> BTreeMap<&'a str, f64> {
    let unit = if family.ends_with("_MiB") { MIB } else { 1.0 };
    let series = page.all(family).iter();
    series.filter_map(|series| Some((series.label(label)?, series.value * unit))).collect()
}

/// Returns the load averages of three families.
pub(super) fn load(page: &ScrapedPage<'_>, families: [&str; 3]) -> Reading<[f32; 3]> {
    let [one, five, fifteen] = families.map(|family| page.number(family));
    let averages = one.zip(five).zip(fifteen);
    averages.map(|((one, five), fifteen)| [one, five, fifteen]).and_then(|averages| {
        let is_possible = averages.iter().all(|load| (0.0..MAX_LOAD).contains(load));
        is_possible.then(|| averages.map(to_f32))
    })
}

/// Returns an uptime, and when the host was booted.
pub(super) fn uptime(seconds: Reading<f64>, at: Timestamp) -> (Reading<u64>, Reading<Timestamp>) {
    let uptime = seconds.and_then(|seconds| {
        (0.0..MAX_UPTIME).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
    });
    (uptime.map(|up| up.as_secs()), uptime.map(|up| at.minus(up)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(counters: &[Counter]) -> Vec<&str> {
        counters.iter().map(|counter| &*counter.name).collect()
    }

    #[test]
    fn only_whole_disks_and_physical_interfaces_count() {
        let map = |names: &[&'static str]| -> BTreeMap<&'static str, f64> {
            names.iter().map(|name| (*name, 7.0)).collect()
        };
        let of_host = map(&[
            "sda",
            "sda1",
            "sda12",
            "sdaa",
            "nvme0n1",
            "nvme0n1p1",
            "dm-0",
            "md127",
            "loop0",
            "vda",
            "zram0",
            "mmcblk0",
            "mmcblk0p2",
            "sr0",
        ]);
        assert_eq!(names(&disks(&of_host, &of_host)), ["mmcblk0", "nvme0n1", "sda", "sdaa", "vda"]);
        let of_host = map(&["lo", "eth0", "veth12", "ib0", "docker0", "bond0", "enp1s0f0"]);
        assert_eq!(names(&interfaces(of_host.clone(), &of_host)), ["enp1s0f0", "eth0", "ib0"]);
        let negative = BTreeMap::from([("eth0", -1.0)]);
        assert!(interfaces(negative.clone(), &negative).is_empty());
    }
}
