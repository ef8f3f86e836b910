//! Parses Slurm's generic resources: `gpu:h100:4(IDX:1,4-6),shard:3(IDX:5)`.

use std::collections::BTreeSet;

use crate::model::{DeviceAllocation, DeviceType};
use crate::text::sanitize_shared;

/// Names of accelerator resources. `shard` and `mps` are shares of the devices at their indices.
const ACCELERATORS: [&str; 7] = ["gpu", "shard", "mps", "tpu", "npu", "dcu", "xpu"];

/// Upper limit for device indices of a node.
const MAX_DEVICES: u32 = 4096;
/// Maximum number of types of devices of a node.
const MAX_TYPES: usize = 64;
/// Maximum length of the name of a type, in characters.
const MAX_TYPE_CHARS: usize = 64;

/// Returns the devices of a job on a node from its resources there.
pub(super) fn parse_device_allocation(text: &str) -> DeviceAllocation {
    let mut indices = BTreeSet::new();
    let mut without_indices = 0_u32;
    for part in split_resources(text).filter(|part| is_accelerator(part)) {
        match parse_indices(part) {
            Some(list) => indices.extend(list),
            None => without_indices = without_indices.saturating_add(resource_count(part)),
        }
    }
    if without_indices > 0 {
        // Not all indices are known, so only the count is certain.
        let with_indices = u32::try_from(indices.len()).unwrap_or(MAX_DEVICES);
        return DeviceAllocation::Count(
            without_indices.saturating_add(with_indices).min(MAX_DEVICES),
        );
    }
    if indices.is_empty() {
        return DeviceAllocation::None;
    }
    DeviceAllocation::Indices(indices.into_iter().collect())
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

/// Returns how many devices the resources ask for; `None` if they name no accelerator.
pub(super) fn requested_devices(text: &str) -> Option<u32> {
    Some(count_devices(text)).filter(|count| *count > 0)
}

/// The devices of a node that jobs have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UsedDevices {
    /// Their number.
    pub(super) count: u32,
    /// Their indices in rising order; `None` if these are not all known.
    pub(super) indices: Option<Vec<u32>>,
}

/// Returns the devices in use among the used resources of a node, such as
/// `gpu:h100:4(IDX:0,3-5),gpu:a100:0(IDX:N/A),shard:h100:6(2/4,4/4,0/4)`. A device is in use if a share of it is.
pub(super) fn used_devices(text: &str) -> UsedDevices {
    let used: Vec<&str> = split_resources(text)
        .filter(|part| is_accelerator(part) && resource_count(part) > 0)
        .collect();
    // `(2/4,0/4)` lists the devices of one type, and nothing tells where those of another type begin.
    let by_device =
        split_resources(text).filter(|part| is_share(part) && part.contains('/')).count();
    let indices_of = |part: &&str| {
        let is_by_device = is_share(part) && !part.contains("(IDX:");
        if is_by_device && by_device == 1 { parse_shares(part) } else { parse_indices(part) }
    };
    let indices: Option<Vec<Vec<u32>>> = used.iter().map(indices_of).collect();
    let indices = indices.map(|lists| {
        let all: BTreeSet<u32> = lists.into_iter().flatten().collect();
        all.into_iter().collect::<Vec<_>>()
    });
    let known = indices.as_ref().and_then(|indices| u32::try_from(indices.len()).ok());
    UsedDevices { count: known.unwrap_or_else(|| count_devices(text)), indices }
}

/// Returns the devices of a node by type, in the order in which they are written: `gpu:h100:4,gpu:a100:2`.
pub(super) fn device_types(text: &str) -> Vec<DeviceType> {
    let devices = split_resources(text).filter(|part| is_accelerator(part) && !is_share(part));
    let devices = devices.map(|part| {
        let plain = part.split_once('(').filter(|(plain, _)| !plain.ends_with(':'));
        let plain = plain.map_or(part, |(plain, _)| plain);
        let mut words = plain.split(':').skip(1);
        let name = words.next().filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.filter(|word| !["", "(null)", "no_consume"].contains(word));
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

/// Returns the count in `gpu:h100:4(IDX:1,4-6)`; 1 if there is none.
fn resource_count(part: &str) -> u32 {
    let part = part.replace("(null)", "");
    let plain = part.split_once('(').map_or(&*part, |(plain, _)| plain);
    plain.rsplit([':', '=']).next().and_then(|number| number.parse().ok()).unwrap_or(1)
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

/// Parses `(2/4,4/4,0/4)`: of each device in order, how many of its shares are in use. `None` if malformed.
fn parse_shares(part: &str) -> Option<Vec<u32>> {
    let (_, rest) = part.split_once('(')?;
    let (inside, _) = rest.split_once(')')?;
    let mut indices = Vec::new();
    for (index, shares) in (0..MAX_DEVICES).zip(inside.split(',')) {
        let (used, _) = shares.split_once('/')?;
        if used.trim().parse::<u64>().ok()? > 0 {
            indices.push(index);
        }
    }
    Some(indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(list: &[u32]) -> DeviceAllocation {
        DeviceAllocation::Indices(list.into())
    }

    #[test]
    fn devices_are_parsed_in_every_form() {
        for (text, expected) in [
            ("gpu:h100:4(IDX:1,4-6)", indices(&[1, 4, 5, 6])),
            ("gpu:8(IDX:0-7)", indices(&[0, 1, 2, 3, 4, 5, 6, 7])),
            ("gpu:a100:2(IDX:0-1),gpu:v100:1(IDX:4)", indices(&[0, 1, 4])),
            ("gpu:a100_1g.5gb:2(IDX:9,11)", indices(&[9, 11])),
            ("gpu:3g.20gb:1(IDX:1)", indices(&[1])),
            ("shard:3(IDX:5)", indices(&[5])),
            ("gpu:1(IDX:5),shard:h100:3(IDX:5)", indices(&[5])),
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
        ] {
            assert_eq!(parse_device_allocation(text), expected, "{text}");
        }
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
        for (text, count, indices) in [
            ("gpu:h100:4(IDX:0,3-5),gpu:a100:0(IDX:N/A)", 4, Some(&[0, 3, 4, 5][..])),
            ("gpu:h100:2(IDX:0-1),gpu:a100:1(IDX:5)", 3, Some(&[0, 1, 5])),
            ("gpu:8(IDX:0-7)", 8, Some(&[0, 1, 2, 3, 4, 5, 6, 7])),
            ("gpu:h100:0(IDX:N/A),shard:h100:6(2/4,4/4,0/4)", 2, Some(&[0, 1])),
            ("gpu:h100:1(IDX:2),shard:h100:4(4/4,0/4,0/4)", 2, Some(&[0, 2])),
            ("gpu:0,mps:50(0/100,50/100)", 1, Some(&[1])),
            // As 22.05 writes it, whatever number of shares.
            ("gpu:h100:3(IDX:0-1,3),shard:h100:1(IDX:2)", 4, Some(&[0, 1, 2, 3])),
            ("gpu:h100:1(IDX:0),shard:h100:0(IDX:N/A)", 1, Some(&[0])),
            ("gpu:0", 0, Some(&[])),
            ("gpu:h100:0(IDX:N/A)", 0, Some(&[])),
            ("(null)", 0, Some(&[])),
            // How many is all that is known.
            ("gpu:h100:4(CNT:4)", 4, None),
            ("gpu:h100:2(IDX:N/A)", 2, None),
            ("gpu:h100:2(IDX:0-1),gpu:a100:3", 5, None),
            ("gpu:2(IDX:0-1),shard:h100:4(4/4),shard:a100:2(2/4)", 2, None),
            ("gpu:2(IDX:0-1),shard:6(x)", 2, None),
        ] {
            let expected = UsedDevices { count, indices: indices.map(<[u32]>::to_vec) };
            assert_eq!(used_devices(text), expected, "{text}");
        }
    }

    #[test]
    fn types_of_devices_are_in_their_order() {
        for (text, expected) in [
            ("gpu:h100:4,gpu:a100:2", &[(Some("h100"), 4), (Some("a100"), 2)][..]),
            ("gpu:8(S:0-1),shard:32", &[(None, 8)]),
            ("gpu:(null):4(S:0-1)", &[(None, 4)]),
            ("gpu:h100:no_consume:4(S:0),nic:2", &[(Some("h100"), 4)]),
            ("gpu:a100_1g.5gb:7(S:0)", &[(Some("a100_1g.5gb"), 7)]),
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
