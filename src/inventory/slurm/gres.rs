//! Parses Slurm's generic resources: `gpu:h100:4(IDX:1,4-6),shard:3(IDX:5)`.

use std::collections::BTreeSet;

use crate::model::DeviceAllocation;

/// Names of accelerator resources. `shard` and `mps` are shares of the devices at their indices.
const ACCELERATORS: [&str; 7] = ["gpu", "shard", "mps", "tpu", "npu", "dcu", "xpu"];

/// Upper limit for device indices of a node.
const MAX_DEVICES: u32 = 4096;

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
    fn accelerators_are_recognised_in_the_syntax_of_every_version() {
        for text in ["gres:gpu:1", "gres/gpu:1", "gres/gpu=8", "gpu:1", "gpu:h100:3", "shard:2"] {
            assert!(names_accelerators(text), "{text}");
        }
        for text in ["", "N/A", "(null)", "gres/nic:1", "gpu:0", "gpumem:3"] {
            assert!(!names_accelerators(text), "{text}");
        }
    }
}
