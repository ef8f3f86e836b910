//! Parses generic resources: `gpu:h100:4(IDX:1,4-6),shard:3(IDX:5)`.

use std::collections::BTreeSet;

use gtop_local::text::sanitize_shared;
use gtop_model::{Bytes, DeviceAllocation, DeviceType};

/// Names of accelerator resources. `shard` and `mps` are shares of the devices at their indices.
const ACCELERATORS: [&str; 7] = ["gpu", "shard", "mps", "tpu", "npu", "dcu", "xpu"];

/// Upper limit for device indices of a node.
const MAX_DEVICES: u32 = 4096;
/// Maximum number of types of devices of a node.
const MAX_TYPES: usize = 64;
/// Upper limit for the memory of a job, in bytes.
const MAX_MEMORY: f64 = 1e18;
/// Maximum length of the name of a type, in characters.
const MAX_TYPE_CHARS: usize = 64;

/// What a job has on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedAllocation {
    devices: DeviceAllocation,
    /// The indices are positions in a list of so many devices.
    positions: Option<u32>,
}

impl ParsedAllocation {
    /// Returns it on a node that has so many devices: positions in a list of some of them are no indices.
    pub(super) fn on_node(&self, devices: Option<u32>) -> DeviceAllocation {
        let lists_others = self.has_positions() && self.positions != devices;
        match self.devices.count().filter(|_| lists_others) {
            Some(count) => DeviceAllocation::Count(u32::try_from(count).unwrap_or(MAX_DEVICES)),
            None => self.devices.clone(),
        }
    }

    /// Returns true if what it means depends on how many devices the node has.
    pub(super) fn has_positions(&self) -> bool {
        self.positions.is_some()
    }
}

impl From<DeviceAllocation> for ParsedAllocation {
    fn from(devices: DeviceAllocation) -> Self {
        Self { devices, positions: None }
    }
}

/// Returns the devices of a job on a node from its resources there.
pub(super) fn parse_device_allocation(text: &str) -> ParsedAllocation {
    let told = ToldDevices::of(split_resources(text));
    let Some(count) = told.count() else { return DeviceAllocation::Unknown.into() };
    let devices = match (told.unlisted, told.by_device.as_slice()) {
        _ if count == 0 => DeviceAllocation::None,
        (Some(0), []) if told.has_shares => {
            DeviceAllocation::Shares(told.indices.into_iter().collect())
        }
        (Some(0), []) => DeviceAllocation::Indices(told.indices.into_iter().collect()),
        (Some(0), [list]) => {
            let indices: BTreeSet<u32> = told.indices.iter().chain(&list.shared).copied().collect();
            let devices = DeviceAllocation::Shares(indices.into_iter().collect());
            return ParsedAllocation { devices, positions: Some(list.len) };
        }
        // Not all indices are known, so only the count is certain.
        _ => DeviceAllocation::Count(count),
    };
    devices.into()
}

/// Returns true if the resources include an accelerator.
pub(super) fn names_accelerators(text: &str) -> bool {
    split_resources(text).any(|part| is_accelerator(part) && resource_count(part) > 0)
}

/// Returns the number of devices among some resources; shares of devices do not count.
pub(super) fn count_devices(text: &str) -> u32 {
    let devices = split_resources(text).filter(|part| is_accelerator(part) && !is_share(part));
    devices.fold(0, |count: u32, part| count.saturating_add(resource_count(part))).min(MAX_DEVICES)
}

/// Returns true if there are shares of devices among some resources.
pub(super) fn has_shares(text: &str) -> bool {
    split_resources(text).any(|part| is_share(part) && resource_count(part) > 0)
}

/// Returns how many devices the resources ask for; `None` if they name no accelerator.
pub(super) fn requested_devices(text: &str) -> Option<u32> {
    Some(count_devices(text)).filter(|count| *count > 0)
}

/// Returns how many devices allocated resources name, such as `cpu=4,gres/gpu=8,gres/gpu:h100=8`; `None` if they name no
/// accelerator, which accounting may not track. Those of a type count only where there is no number of all.
pub(super) fn allocated_devices(resources: &str) -> Option<u32> {
    let resources = split_resources(resources).filter_map(|part| part.split_once('='));
    let devices = resources.filter(|(name, _)| is_accelerator(name) && !is_share(name));
    let (typed, all): (Vec<_>, Vec<_>) = devices.partition(|(name, _)| name.contains(':'));
    let counts = if all.is_empty() { typed } else { all };
    let counts = counts.iter().map(|(_, count)| count.parse::<u32>().ok());
    counts.reduce(|sum, count| sum?.checked_add(count?)).flatten()
}

/// Returns how many CPUs allocated resources name, such as `cpu=4,mem=1500M,node=1`.
pub(super) fn allocated_cpus(resources: &str) -> Option<u32> {
    allocated(resources, "cpu")?.parse().ok()
}

/// Returns how much memory allocated resources name, such as `cpu=4,mem=1.50G,node=1`; a number without unit is in MiB.
pub(super) fn allocated_memory(resources: &str) -> Option<Bytes> {
    let text = allocated(resources, "mem")?;
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let bits = match text.strip_prefix(number)? {
        "K" => 10,
        "M" | "" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * f64::from(bits).exp2();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in range")]
    (0.0..MAX_MEMORY).contains(&bytes).then_some(Bytes(bytes as u64))
}

fn allocated<'a>(resources: &'a str, name: &str) -> Option<&'a str> {
    resources.trim().split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// The devices of a node that jobs have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UsedDevices {
    /// Their number; `None` if it is not known.
    pub(super) count: Option<u32>,
    /// Their indices in rising order; `None` if these are not all known.
    pub(super) indices: Option<Vec<u32>>,
}

/// Returns the devices in use among the used resources of a node, such as
/// `gpu:h100:4(IDX:0,3-5),gpu:a100:0(IDX:N/A),shard:h100:6(2/4,4/4,0/4)`, given the node's resources. A device is in use if
/// a share of it is.
pub(super) fn used_devices(text: &str, resources: Option<&str>) -> UsedDevices {
    if !names_all_devices(text, resources) {
        return UsedDevices::default();
    }
    let devices = resources.map(count_devices);
    let told = ToldDevices::of(split_resources(text));
    // A list of the devices of one type does not tell where those of another type begin.
    let has_indices =
        told.unlisted == Some(0) && told.by_device.iter().all(|list| Some(list.len) == devices);
    let count = told.count().filter(|count| devices.is_none_or(|devices| *count <= devices));
    if !has_indices {
        return UsedDevices { count, indices: None };
    }
    let in_lists = told.by_device.iter().flat_map(|list| list.shared.iter().chain(&list.whole));
    let indices: BTreeSet<u32> = told.indices.iter().chain(in_lists).copied().collect();
    UsedDevices {
        count: u32::try_from(indices.len()).ok(),
        indices: Some(indices.into_iter().collect()),
    }
}

/// Returns true if used resources name those devices that a node has: where nothing is in use, they are written with zero.
fn names_all_devices(used: &str, resources: Option<&str>) -> bool {
    let used: Vec<&str> = split_resources(used).map(resource_name).collect();
    let Some(resources) = resources else {
        return ACCELERATORS.iter().any(|name| used.contains(name));
    };
    split_resources(resources)
        .filter(|part| is_accelerator(part) && !is_share(part) && resource_count(part) > 0)
        .all(|part| used.contains(&resource_name(part)))
}

/// The devices that some resources name.
#[derive(Debug, Default)]
struct ToldDevices {
    indices: BTreeSet<u32>,
    by_device: Vec<SharesByDevice>,
    /// How many devices are in use besides; `None` if that is not known.
    unlisted: Option<u32>,
    /// Shares are among what is in use.
    has_shares: bool,
}

/// Which devices of one type have shares in use, by their position among those of that type.
#[derive(Debug, Default)]
struct SharesByDevice {
    shared: Vec<u32>,
    /// Those that are in use as a whole, which another resource counts.
    whole: Vec<u32>,
    len: u32,
}

impl ToldDevices {
    fn of<'a>(parts: impl Iterator<Item = &'a str>) -> Self {
        let mut told = Self { unlisted: Some(0), ..Self::default() };
        for part in parts.filter(|part| is_accelerator(part) && resource_count(part) > 0) {
            told.has_shares |= is_share(part);
            if let Some(list) = parse_indices(part) {
                told.indices.extend(list);
            } else if let Some(list) = parse_shares(part) {
                told.by_device.push(list);
            } else {
                // How many devices several shares are on is not known.
                let count =
                    Some(resource_count(part)).filter(|count| !is_share(part) || *count == 1);
                let sum = told.unlisted.zip(count);
                told.unlisted = sum.map(|(known, count)| known.saturating_add(count));
            }
        }
        told
    }

    /// Returns the number of devices in use; `None` if it is not known. No device is in use both as a whole and in shares.
    fn count(&self) -> Option<u32> {
        let listed = self.by_device.iter().map(|list| list.shared.len());
        let listed = u32::try_from(self.indices.len() + listed.sum::<usize>()).ok()?;
        Some(self.unlisted?.saturating_add(listed).min(MAX_DEVICES))
    }
}

/// Returns the devices of a node by type, in the order in which they are written: `gpu:h100:4,gpu:a100:2`.
pub(super) fn device_types(text: &str) -> Vec<DeviceType> {
    let devices = split_resources(text).filter(|part| is_accelerator(part) && !is_share(part));
    let devices = devices.map(|part| {
        let plain = part.split_once('(').filter(|(plain, _)| !plain.ends_with(':'));
        let plain = plain.map_or(part, |(plain, _)| plain);
        let mut words = plain.split(':').skip(1).filter(|word| *word != "no_consume");
        // A type may be a number, such as that of a product; a number alone is a count.
        let name = match (words.next(), words.next()) {
            (Some("" | "(null)"), _) => None,
            (Some(word), None) if word.bytes().all(|byte| byte.is_ascii_digit()) => None,
            (name, _) => name,
        };
        DeviceType {
            name: name.map(|name| sanitize_shared(name, MAX_TYPE_CHARS)),
            count: resource_count(part).min(MAX_DEVICES),
        }
    });
    devices.take(MAX_TYPES).collect()
}

/// Splits at commas outside parentheses.
fn split_resources(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .map(str::trim)
}

fn is_accelerator(part: &str) -> bool {
    ACCELERATORS.contains(&resource_name(part))
}

/// Returns true for shares of devices.
fn is_share(part: &str) -> bool {
    ["shard", "mps"].contains(&resource_name(part))
}

fn resource_name(part: &str) -> &str {
    let part = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
    part.split([':', '=', '(']).next().unwrap_or_default()
}

/// Returns the count in `gpu:h100:4(IDX:1,4-6)` or `tpu(CNT:3)`; 1 if there is none.
fn resource_count(part: &str) -> u32 {
    let part = part.replace("(null)", "");
    let (plain, inside) = part.split_once('(').unwrap_or((&*part, ""));
    let number = plain.rsplit([':', '=']).next().and_then(|number| number.parse().ok());
    number.or_else(|| inside.strip_prefix("CNT:")?.strip_suffix(')')?.parse().ok()).unwrap_or(1)
}

/// Parses `(IDX:1,4-6)`. `None` if indices are missing, malformed, or differ in number from the
/// devices; shares of devices may have any number per index.
fn parse_indices(part: &str) -> Option<Vec<u32>> {
    let (_, rest) = part.split_once("(IDX:")?;
    let (inside, _) = rest.split_once(')')?;
    let mut indices = Vec::new();
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_DEVICES {
            return None;
        }
        indices.extend(first..=last);
    }
    let is_complete = u32::try_from(indices.len()) == Ok(resource_count(part));
    (is_share(part) || is_complete).then_some(indices)
}

/// Parses `(2/4,4/4,-/4,0/4)`: of each device in order, how many of its shares are in use, or that all of it is. `None` if
/// malformed, or if no share is in use.
fn parse_shares(part: &str) -> Option<SharesByDevice> {
    let part = part.replace("(null)", "");
    let (_, rest) = part.split_once('(').filter(|_| is_share(&part))?;
    let (inside, _) = rest.split_once(')')?;
    let mut list = SharesByDevice::default();
    for (index, shares) in (0..MAX_DEVICES).zip(inside.split(',')) {
        let (used, _) = shares.split_once('/')?;
        match used.trim() {
            "-" => list.whole.push(index),
            used if used.parse::<u64>().ok()? > 0 => list.shared.push(index),
            _ => {}
        }
        list.len = index.saturating_add(1);
    }
    (!list.shared.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(list: &[u32]) -> DeviceAllocation {
        DeviceAllocation::Indices(list.into())
    }

    fn shares(list: &[u32]) -> DeviceAllocation {
        DeviceAllocation::Shares(list.into())
    }

    #[test]
    fn allocated_devices_are_those_of_all_types_or_else_the_sum_of_the_types() {
        for (resources, devices) in [
            ("billing=1,cpu=1,gres/gpu=8,node=1", Some(8)),
            ("cpu=4,gres/gpu:a100=2,gres/gpu:h100=6,gres/gpu=8,mem=4G", Some(8)),
            ("gres/gpu:a100=2,gres/gpu:h100=6", Some(8)),
            ("gres/gpu=1,gres/shard=4", Some(1)),
            ("gres/gpu=4294967295,gres/npu=1", None),
            ("cpu=4,mem=4G", None),
            ("", None),
        ] {
            assert_eq!(allocated_devices(resources), devices, "{resources}");
        }
    }

    #[test]
    fn allocated_memory_has_a_unit_or_is_in_mib() {
        for (resources, memory) in [
            ("cpu=4,mem=2G,node=1,billing=4", Some(2 << 30)),
            ("cpu=4,mem=1500M,node=1", Some(1500 << 20)),
            ("mem=1.50T", Some(1536 << 30)),
            ("mem=512", Some(512 << 20)),
            ("cpu=4,node=1", None),
            ("cpu=4,mem=-1,node=1", None),
            ("cpu=4,mem=1e30,node=1", None),
            ("cpu=4,mem=NaN,node=1", None),
            ("cpu=4,mem=2Q,node=1", None),
            ("", None),
        ] {
            assert_eq!(allocated_memory(resources), memory.map(Bytes), "{resources}");
        }
        assert_eq!((allocated_cpus("cpu=64,mem=1G"), allocated_cpus("node=1")), (Some(64), None));
    }

    #[test]
    fn devices_are_parsed_in_every_form() {
        for (text, expected) in [
            ("gpu:h100:4(IDX:1,4-6)", indices(&[1, 4, 5, 6])),
            ("gpu:8(IDX:0-7)", indices(&[0, 1, 2, 3, 4, 5, 6, 7])),
            ("gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:4)", indices(&[0, 1, 4])),
            ("gpu:a100_1g.5gb:2(IDX:9,11)", indices(&[9, 11])),
            ("gpu:3g.20gb:1(IDX:1)", indices(&[1])),
            ("shard:3(IDX:5)", shares(&[5])),
            ("mps:h100:50(IDX:0)", shares(&[0])),
            ("gpu:1(IDX:5),shard:h100:3(IDX:5)", shares(&[5])),
            ("gpu:(null):2(IDX:0-1)", indices(&[0, 1])),
            ("craynetwork:1,gpu:1(IDX:2)", indices(&[2])),
            ("", DeviceAllocation::None),
            ("(null)", DeviceAllocation::None),
            ("nic:2(IDX:0-1)", DeviceAllocation::None),
            ("gpu:4", DeviceAllocation::Count(4)),
            // Which of the two counts is right is unknown.
            ("gpu:h100:4(IDX:0-1)", DeviceAllocation::Count(4)),
            ("gpu:1(IDX:0-1)", DeviceAllocation::Count(1)),
            ("gpu:h100:4(CNT:4)", DeviceAllocation::Count(4)),
            ("gpu:h100:2(IDX:N/A)", DeviceAllocation::Count(2)),
            ("gpu:2(IDX:0-1),gpu:x:3", DeviceAllocation::Count(5)),
            ("gpu:2(IDX:5-1)", DeviceAllocation::Count(2)),
            ("gpu:1(IDX:4294967295)", DeviceAllocation::Count(1)),
            ("gpu:1(IDX:0-4294967295)", DeviceAllocation::Count(1)),
            ("gpu", DeviceAllocation::Count(1)),
            ("tpu(CNT:3)", DeviceAllocation::Count(3)),
            ("gpu:1(IDX:0),tpu(CNT:3)", DeviceAllocation::Count(4)),
            // Shares say nothing of the number of their devices.
            ("shard:5", DeviceAllocation::Unknown),
            ("shard(CNT:5)", DeviceAllocation::Unknown),
            ("shard:1", DeviceAllocation::Count(1)),
            ("gpu:2(IDX:0-1),shard:5(x/4)", DeviceAllocation::Unknown),
            ("shard:h100:5(0/4,0/4)", DeviceAllocation::Unknown),
            ("shard:h100:3(3/4,0/4),shard:a100:2(2/4,0/4)", DeviceAllocation::Count(2)),
        ] {
            assert_eq!(parse_device_allocation(text), expected.into(), "{text}");
        }
    }

    #[test]
    fn shares_by_device_are_indices_where_they_list_all_devices_of_the_node() {
        for (text, expected) in [
            ("shard:h100:5(0/4,3/4,2/4,0/4)", &[1, 2][..]),
            ("shard:5(-/4,3/4,2/4,0/4)", &[1, 2]),
            ("gpu:1(IDX:0),shard:5(0/4,3/4,2/4,0/4)", &[0, 1, 2]),
            ("mps:50(0/100,0/100,0/100,50/100)", &[3]),
        ] {
            let parsed = parse_device_allocation(text);
            assert_eq!(parsed.on_node(Some(4)), shares(expected), "{text}");
            let count = u32::try_from(expected.len()).unwrap();
            for devices in [None, Some(3), Some(8)] {
                assert_eq!(parsed.on_node(devices), DeviceAllocation::Count(count), "{text}");
            }
        }
        // The controller's own indices mean the same whatever the node has.
        assert_eq!(parse_device_allocation("gpu:1(IDX:5)").on_node(None), indices(&[5]));
    }

    #[test]
    fn devices_are_counted_without_their_shares() {
        for (text, count) in [
            ("gpu:h100:8(S:0-1)", 8),
            ("gpu:a100:2,gpu:v100:1(IDX:4),shard:a100:12", 3),
            ("gpu:h100:0(IDX:N/A),shard:h100:0(0/4)", 0),
            ("gpu:(null):4(S:0-1)", 4),
            ("gres/gpu=8", 8),
            ("gres/gpu:8", 8),
            ("gres:gpu:h100:4", 4),
            ("gres/gpu", 1),
            ("gres/nic:2,gres/tpu:4", 4),
            ("shard:3", 0),
            ("N/A", 0),
            ("(null)", 0),
            ("", 0),
            ("gpu:4294967295", 4096),
        ] {
            assert_eq!(count_devices(text), count, "{text}");
            assert_eq!(requested_devices(text), (count > 0).then_some(count), "{text}");
        }
    }

    #[test]
    fn devices_in_use_are_those_of_every_type_and_those_of_which_a_share_is() {
        for (gres, text, count, indices) in [
            ("gpu:6", "gpu:h100:4(IDX:0,3-5),gpu:a100:0(IDX:N/A)", 4, Some(&[0, 3, 4, 5][..])),
            ("gpu:6", "gpu:h100:2(IDX:0-1),gpu:a100:1(IDX:5)", 3, Some(&[0, 1, 5])),
            ("gpu:8", "gpu:8(IDX:0-7)", 8, Some(&[0, 1, 2, 3, 4, 5, 6, 7])),
            ("gpu:3", "gpu:h100:0(IDX:N/A),shard:h100:6(2/4,4/4,0/4)", 2, Some(&[0, 1])),
            ("gpu:3", "gpu:h100:1(IDX:2),shard:h100:4(4/4,0/4,0/4)", 2, Some(&[0, 2])),
            ("gpu:3", "gpu:h100:1(IDX:0),shard:h100:3(-/4,3/4,0/4)", 2, Some(&[0, 1])),
            ("gpu:2", "gpu:0,mps:50(0/100,50/100)", 1, Some(&[1])),
            ("gpu:2", "gpu:1(IDX:0),shard:(null):3(0/4,3/4)", 2, Some(&[0, 1])),
            // As 22.05 writes it, whatever number of shares.
            ("gpu:4", "gpu:h100:3(IDX:0-1,3),shard:h100:1(IDX:2)", 4, Some(&[0, 1, 2, 3])),
            ("gpu:4", "gpu:h100:1(IDX:0),shard:h100:0(IDX:N/A)", 1, Some(&[0])),
            ("gpu:4", "gpu:0", 0, Some(&[])),
            ("gpu:4", "gpu:h100:0(IDX:N/A)", 0, Some(&[])),
            ("gpu:4,nic:2", "gpu:(null):0(IDX:N/A)", 0, Some(&[])),
            ("(null)", "(null)", 0, Some(&[])),
            ("(null)", "", 0, Some(&[])),
            // How many is all that is known.
            ("gpu:4", "gpu:h100:4(CNT:4)", 4, None),
            ("gpu:4", "gpu:h100:2(IDX:N/A)", 2, None),
            ("gpu:6", "gpu:h100:2(IDX:0-1),gpu:a100:3", 5, None),
            ("gpu:4", "gpu:0,shard:1", 1, None),
            // Shares of two types are in lists of their own, and so are those of one of two types.
            ("gpu:4", "gpu:0,shard:h100:5(4/4,1/4),shard:a100:2(2/4,0/4)", 3, None),
            ("gpu:4", "gpu:h100:1(IDX:0),shard:h100:1(-/4,1/4),shard:a100:2(2/4,0/4)", 3, None),
            ("gpu:4", "gpu:a100:1(IDX:0),shard:h100:5(4/4,1/4)", 3, None),
        ] {
            let indices = indices.map(<[u32]>::to_vec);
            let expected = UsedDevices { count: Some(count), indices };
            assert_eq!(used_devices(text, Some(gres)), expected, "{text}");
        }
    }

    #[test]
    fn what_does_not_tell_the_devices_in_use_is_unknown_and_not_zero() {
        for (gres, text) in [
            ("gpu:4", ""),
            ("gpu:4", "(null)"),
            ("gpu:4", "N/A"),
            ("gpu:4", "license:2"),
            ("gpu:4", "GPU:2(IDX:0-1)"),
            ("gpu:4", "shard:h100:0(0/4,0/4,0/4,0/4)"),
            ("gpu:4,tpu:4", "gpu:0"),
            // On how many devices they are is not told, and not which of two counts is right.
            ("gpu:4", "gpu:2(IDX:0-1),shard:6(x)"),
            ("gpu:4", "gpu:0,shard:6"),
            ("gpu:4", "gpu:0,shard:6(0/4,0/4,0/4,0/4)"),
            ("gpu:2", "gpu:2(IDX:N/A),shard:h100:4(4/4)"),
        ] {
            assert_eq!(used_devices(text, Some(gres)), UsedDevices::default(), "{gres} {text}");
        }
        assert_eq!(used_devices("(null)", None), UsedDevices::default());
        assert_eq!(used_devices("gpu:1(IDX:2)", None).count, Some(1));
    }

    #[test]
    fn types_of_devices_are_in_their_order() {
        for (text, expected) in [
            ("gpu:h100:4,gpu:a100:2", &[(Some("h100"), 4), (Some("a100"), 2)][..]),
            ("gpu:8(S:0-1),shard:32", &[(None, 8)]),
            ("gpu:(null):4(S:0-1)", &[(None, 4)]),
            ("gpu:h100:no_consume:4(S:0),nic:2", &[(Some("h100"), 4)]),
            ("gpu:a100_1g.5gb:7(S:0)", &[(Some("a100_1g.5gb"), 7)]),
            ("gpu:3090:2,gpu:4090:2(S:0)", &[(Some("3090"), 2), (Some("4090"), 2)]),
            ("gpu:3090:no_consume:2", &[(Some("3090"), 2)]),
            ("gpu:no_consume:4", &[(None, 4)]),
            ("gpu", &[(None, 1)]),
            ("(null)", &[]),
            ("", &[]),
        ] {
            let types = device_types(text);
            let found: Vec<_> =
                types.iter().map(|known| (known.name.as_deref(), known.count)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn accelerators_are_recognised_in_the_syntax_of_every_version() {
        for text in ["gres:gpu:1", "gres/gpu:1", "gres/gpu=8", "gpu:1", "gpu:h100:3", "shard:2"] {
            assert!(names_accelerators(text), "{text}");
        }
        for text in ["", "N/A", "(null)", "gres/nic:1", "gpu:0", "gpumem:3"] {
            assert!(!names_accelerators(text), "{text}");
        }
    }
}
