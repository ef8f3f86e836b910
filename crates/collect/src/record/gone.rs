//! Devices that are gone, as a checkpoint repeats them: no frame after it names them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::value::{from_seconds, to_seconds};
use gtop_local::text::sanitize_shared;
use gtop_model::{Device, DeviceFault, Reading, Source, Vendor};

/// Maximum number of devices of one line.
pub(super) const MAX_GONE: usize = 64;
/// Maximum length of a UUID, a PCI id or the name of a model.
const MAX_NAME_LENGTH: usize = 100;

/// A device that is gone.
#[derive(Serialize, Deserialize)]
pub(super) struct GoneDeviceLine {
    source: String,
    uuid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pci: Option<Arc<str>>,
    since: f64,
}

impl GoneDeviceLine {
    pub(super) fn of((source, device): &(Source, Device)) -> Option<Self> {
        Some(Self {
            source: source.to_string(),
            uuid: device.uuid.to_string(),
            index: device.index.get(),
            name: device.name.known().cloned(),
            pci: device.pci.known().cloned(),
            since: to_seconds(device.gone_since()?),
        })
    }

    pub(super) fn to_device(&self) -> (Source, Device) {
        let [name, pci] = [&self.name, &self.pci].map(|text| {
            Reading::of(text.as_deref(), |text| {
                Reading::Known(sanitize_shared(text, MAX_NAME_LENGTH))
            })
        });
        let vendor = Vendor::from_backend(&self.source);
        let device = Device {
            uuid: sanitize_shared(&self.uuid, MAX_NAME_LENGTH),
            index: self.index.map_or_else(Reading::default, Reading::Known),
            vendor: vendor.map_or_else(Reading::default, Reading::Known),
            name,
            pci,
            fault: Some(DeviceFault::Gone(from_seconds(self.since))),
            ..Device::default()
        };
        (Source::new(&self.source), device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::time::Timestamp;

    #[test]
    fn a_device_that_is_gone_is_read_as_it_was_written() {
        let device = Device {
            uuid: "GPU-a".into(),
            index: Reading::Known(2),
            vendor: Reading::Known(Vendor::Nvidia),
            name: Reading::Known("H100".into()),
            pci: Reading::Known("0000:18:00.0".into()),
            fault: Some(DeviceFault::Gone(Timestamp::from_micros(1_500_000))),
            ..Device::default()
        };
        let found = (Source::new("nvml"), device);
        let text = serde_json::to_string(&GoneDeviceLine::of(&found)).unwrap();
        let line: GoneDeviceLine = serde_json::from_str(&text).unwrap();
        assert_eq!(line.to_device(), found);
        let bare = r#"{"source": "nvml", "uuid": "GPU-\u001b[2J", "since": 1.5}"#;
        let bare: GoneDeviceLine = serde_json::from_str(bare).unwrap();
        let (_, device) = bare.to_device();
        assert!(!device.uuid.contains('\u{1b}') && device.gone_since() == found.1.gone_since());
    }
}
