//! The environment variables that show a program the picked devices only.

use crate::insight::pick::EligibleDevice;
use gtop_model::Vendor;

/// Returns what names the devices: indices, or UUIDs if requested or if indices do not suffice.
///
/// CUDA knows MIG slices by UUID only, does not count devices that are gone, and the libraries of AMD count devices in an
/// order of their own.
pub fn identifiers(devices: &[&EligibleDevice], wants_uuids: bool) -> Vec<String> {
    let by_uuid = wants_uuids || needs_uuids(devices);
    let names = devices
        .iter()
        .map(|device| if by_uuid { device.uuid.to_string() } else { device.index.to_string() });
    names.collect()
}

/// Returns the variables of a program that is to use these devices of one node, and no others if there are none.
///
/// CUDA counts the fastest device first by default, but indices are in the order of the PCI bus.
pub fn variables(devices: &[&EligibleDevice], wants_uuids: bool) -> Vec<(&'static str, String)> {
    if devices.is_empty() {
        return vec![
            ("ROCR_VISIBLE_DEVICES", String::new()),
            ("CUDA_VISIBLE_DEVICES", String::new()),
        ];
    }
    let list = identifiers(devices, wants_uuids).join(",");
    let is_amd = devices.iter().any(|device| device.vendor == Vendor::Amd);
    let visible = if is_amd { "ROCR_VISIBLE_DEVICES" } else { "CUDA_VISIBLE_DEVICES" };
    let has_indices = !wants_uuids && !needs_uuids(devices);
    let order = has_indices.then(|| ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()));
    order.into_iter().chain([(visible, list)]).collect()
}

fn needs_uuids(devices: &[&EligibleDevice]) -> bool {
    let mut devices = devices.iter();
    devices.any(|device| device.is_slice || device.is_renumbered || device.vendor == Vendor::Amd)
}
