//! The devices of a list in the form of `CUDA_VISIBLE_DEVICES`, as CUDA reads it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Fleet, Node};
use gtop_local::text::excerpt;
use gtop_model::Device;

/// A device: the node's position in the fleet and the device's in the node.
pub(super) type Place = (usize, usize);

/// The devices of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inherited {
    /// In the order of the list.
    pub(super) places: Vec<Place>,
    /// Where the list ends early, as a sentence.
    pub(super) notice: Option<String>,
}

impl Inherited {
    /// Reads a list; it ends before the first entry that is no device, and is empty if an entry comes twice.
    pub(super) fn of(fleet: &Fleet, list: &str) -> Self {
        let mut found = Self::default();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut has_numbers = None;
        for entry in list.split(',').map(entry) {
            if !seen.insert(entry) {
                let entry = excerpt(entry, 60);
                let notice = format!("{entry} is listed twice, so CUDA shows no device");
                return Self { places: Vec::new(), notice: Some(notice) };
            }
            let is_number = is_number(entry);
            let places = places(fleet, entry);
            if places.is_empty() || has_numbers.is_some_and(|before| before != is_number) {
                found.notice = (list != entry || !entry.is_empty()).then(|| end(entry));
                break;
            }
            has_numbers = Some(is_number);
            found.places.extend(places);
        }
        found.keep_one_slice_per_node(fleet);
        found
    }

    /// Keeps the first MIG slice of each node that has one among its devices, as CUDA does, else its whole devices.
    fn keep_one_slice_per_node(&mut self, fleet: &Fleet) {
        let places = std::mem::take(&mut self.places);
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, device) in &places {
            by_node.entry(*node).or_default().push(*device);
        }
        let slices: BTreeMap<usize, usize> = by_node
            .into_iter()
            .filter_map(|(position, own)| {
                let node = fleet.nodes.get(position)?;
                let listed = own.iter().copied().find(|device| is_slice(node, *device));
                let slice =
                    listed.or_else(|| own.iter().find_map(|device| slice_of(node, *device)));
                Some((position, slice?))
            })
            .collect();
        self.places = places.into_iter().filter(|(node, _)| !slices.contains_key(node)).collect();
        self.places.extend(slices);
    }

    /// Returns the position of each device in the list.
    pub(super) fn ranks(&self) -> BTreeMap<Place, usize> {
        self.places.iter().enumerate().map(|(rank, place)| (*place, rank)).collect()
    }
}

fn is_slice(node: &Node, device: usize) -> bool {
    node.devices.get(device).is_some_and(|device| device.parent.is_some())
}

/// Returns the first slice of a device.
fn slice_of(node: &Node, device: usize) -> Option<usize> {
    let whole = node.devices.get(device)?;
    node.devices.iter().position(|slice| slice.parent.as_ref() == Some(&whole.uuid))
}

/// Returns an entry without spaces, and a number without what follows it.
fn entry(text: &str) -> &str {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 { text.get(..digits).unwrap_or(text) } else { text }
}

fn is_number(entry: &str) -> bool {
    !entry.is_empty() && entry.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the notice that a list ends before an entry.
fn end(entry: &str) -> String {
    let entry = if entry.is_empty() { "an empty entry".to_owned() } else { excerpt(entry, 60) };
    format!(
        "{entry} is neither the index nor the UUID of a device, so the list of -i ends before it; hosts stand before -i"
    )
}

/// Returns the devices that an entry names: an index on each machine, a UUID or the beginning of one anywhere.
fn places(fleet: &Fleet, entry: &str) -> Vec<Place> {
    let mut found = Vec::new();
    for (position, node) in fleet.nodes.iter().enumerate() {
        if fleet.same_as.contains_key(&node.name) {
            continue;
        }
        let devices = node.devices.iter().enumerate();
        let named = devices.filter(|(_, device)| is_named(device, entry));
        found.extend(named.map(|(device, _)| (position, device)));
    }
    // The beginning of several UUIDs names none of them.
    if !is_number(entry) && found.len() > 1 { Vec::new() } else { found }
}

fn is_named(device: &Device, entry: &str) -> bool {
    if is_number(entry) {
        let number = entry.parse().ok();
        return device.parent.is_none() && number.is_some() && device.index.get() == number;
    }
    let is_uuid = ["GPU-", "MIG-"]
        .iter()
        .any(|kind| entry.len() > kind.len() && entry.get(..kind.len()) == Some(*kind));
    is_uuid && device.uuid.starts_with(entry)
}
