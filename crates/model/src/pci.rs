//! The displays and accelerators on the PCI bus of a node, and which of them gtop cannot read.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A function on the PCI bus that is a display or an accelerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Its address, such as `0000:17:00.0`.
    pub address: Arc<str>,
    /// Id of the vendor.
    pub vendor: u16,
    /// Id of the device, by its vendor.
    pub device: u16,
    /// Class, subclass and interface.
    pub class: u32,
    /// The driver that has it; `None` if there is none.
    pub driver: Option<Arc<str>>,
}

/// Returns a PCI id without its domain if that is the first one; `None` if it is no PCI id.
pub fn bus_address(id: &str) -> Option<&str> {
    let (domain, address) = id.split_once(':')?;
    let is_address = address.contains(':') && address.contains('.');
    let is_first = domain.bytes().all(|digit| digit == b'0');
    is_address.then_some(if is_first { address } else { id })
}

/// Accelerators of one kind that gtop cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableDevices {
    /// How many there are.
    pub count: usize,
    /// Id of the vendor.
    pub vendor: u16,
    /// Id of the device, by its vendor.
    pub device: u16,
    /// The driver that has them.
    pub driver: Option<Arc<str>>,
}

const AMD: u16 = 0x1002;
const GOOGLE: u16 = 0x1ae0;
const INTEL: u16 = 0x8086;
const NVIDIA: u16 = 0x10de;
const AWS: u16 = 0x1d0f;
const GRAPHCORE: u16 = 0x1d95;

/// Names of vendors.
const NAMED_VENDORS: [(u16, &str); 22] = [
    (INTEL, "Intel"),
    (NVIDIA, "NVIDIA"),
    (AMD, "AMD"),
    (0x1da3, "Habana"),
    (AWS, "AWS"),
    (0x19e5, "Huawei"),
    (0x1d94, "Hygon"),
    (0x1e52, "Tenstorrent"),
    (0x9999, "MetaX"),
    (0x1e3e, "Iluvatar"),
    (0xcabc, "Cambricon"),
    (0x1ed5, "Moore Threads"),
    (0x1e36, "Enflame"),
    (0x1d22, "Kunlunxin"),
    (0x1ed2, "Furiosa"),
    (0x1eff, "Rebellions"),
    (0x1ded, "T-Head"),
    (GRAPHCORE, "Graphcore"),
    (0x17cb, "Qualcomm"),
    (0x1bcf, "NEC"),
    (0x10ee, "Xilinx"),
    (0x1de0, "Groq"),
];

/// Vendors whose displays and co-processors are accelerators. Those of others are mostly the graphics of a server's
/// management controller or of a virtual machine.
const COMPUTE_DISPLAYS: [u16; 9] =
    [0x1d94, 0x9999, 0x1e3e, 0xcabc, 0x1ed5, 0x1e36, 0x1d22, 0x1ded, 0x1bcf];

/// AWS Neuron devices; the other devices of AWS are disks and network interfaces.
const NEURON: [u16; 6] = [0x7064, 0x7164, 0x7264, 0x7364, 0x7564, 0x7565];

/// Address of the graphics of Intel's processors.
const INTEL_GRAPHICS: &str = ":00:02.0";

/// Drivers that keep a device from the driver that gtop uses.
const OTHER_DRIVERS: [&str; 2] = ["vfio-pci", "nouveau"];

impl PciFunction {
    /// Returns true if NVIDIA's driver should list it; a card without a driver may be too old for it, unless it only computes.
    pub(super) fn is_of_nvidia_driver(&self) -> bool {
        let is_compute = self.class >> 8 == 0x0302;
        let is_driven = self.driver.as_deref().map_or(is_compute, |driver| driver == "nvidia");
        self.vendor == NVIDIA && self.class >> 16 == 0x03 && is_driven
    }

    /// Returns true if it is an accelerator that gtop cannot read.
    fn is_unreadable(&self) -> bool {
        let (base_class, sub_class) = (self.class >> 16, self.class >> 8 & 0xff);
        let is_display = base_class == 0x03;
        let is_accelerator = base_class == 0x12;
        let has_other_driver =
            self.driver.as_deref().is_some_and(|driver| OTHER_DRIVERS.contains(&driver));
        match self.vendor {
            NVIDIA => is_display && has_other_driver,
            // A display that can show a picture may be that of the processor.
            AMD => {
                let is_driven = self.driver.as_deref() == Some("amdgpu");
                !is_driven && (is_accelerator || (is_display && sub_class == 0x80))
            }
            GOOGLE => false,
            INTEL if is_display => {
                is_intel_accelerator(self.device) || !self.address.ends_with(INTEL_GRAPHICS)
            }
            // On the first bus there are the small ones of laptop processors.
            INTEL => is_accelerator && !self.address.contains(":00:"),
            AWS => NEURON.contains(&self.device),
            GRAPHCORE => true,
            vendor => {
                let is_co_processor = self.class >> 8 == 0x0b40;
                is_accelerator
                    || ((is_display || is_co_processor) && COMPUTE_DISPLAYS.contains(&vendor))
            }
        }
    }
}

/// Returns true for Intel's Max, Flex and Battlemage cards, which a virtual machine may show at any address.
fn is_intel_accelerator(device: u16) -> bool {
    matches!(device, 0x0bd0..=0x0bdb | 0x56c0..=0x56c2 | 0xe202..=0xe223)
}

impl UnreadableDevices {
    /// Returns those among the functions of a node, in the order of the bus.
    pub(crate) fn among(functions: &[PciFunction]) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut positions = BTreeMap::new();
        for function in functions.iter().filter(|function| function.is_unreadable()) {
            let key = (function.vendor, function.device, function.driver.clone());
            let position = *positions.entry(key).or_insert(found.len());
            match found.get_mut(position) {
                Some(known) => known.count += 1,
                None => found.push(Self {
                    count: 1,
                    vendor: function.vendor,
                    device: function.device,
                    driver: function.driver.clone(),
                }),
            }
        }
        found
    }

    /// Returns the vendor's name, or else its id.
    pub fn vendor_name(&self) -> String {
        let known = NAMED_VENDORS.iter().find(|(id, _)| *id == self.vendor);
        known.map_or_else(|| format!("vendor {:#06x}", self.vendor), |(_, name)| (*name).to_owned())
    }

    /// Returns true if they are NVIDIA's, of another driver.
    pub fn is_nvidia(&self) -> bool {
        self.vendor == NVIDIA
    }

    /// Returns what they are: `2 × Intel 0x0bd5, not supported yet`.
    pub fn text(&self) -> String {
        let what = format!("{} × {} {:#06x}", self.count, self.vendor_name(), self.device);
        match (self.vendor, &self.driver) {
            (NVIDIA | AMD, Some(driver)) => format!("{what}, bound to {driver}"),
            (AMD, None) => format!("{what}, without a driver"),
            _ => format!("{what}, not supported yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the texts of functions, each as `ADDRESS VENDOR DEVICE CLASS [DRIVER]`.
    fn texts(functions: &[&str]) -> Vec<String> {
        let number = |word: &str| u32::from_str_radix(word, 16).unwrap();
        let functions: Vec<PciFunction> = functions
            .iter()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                PciFunction {
                    address: words[0].into(),
                    vendor: number(words[1]).try_into().unwrap(),
                    device: number(words[2]).try_into().unwrap(),
                    class: number(words[3]),
                    driver: words.get(4).map(|word| (*word).into()),
                }
            })
            .collect();
        UnreadableDevices::among(&functions).iter().map(UnreadableDevices::text).collect()
    }

    #[test]
    fn accelerators_without_a_backend_are_named_and_counted() {
        for (function, text) in [
            ("0000:29:00.0 8086 0bd5 038000 xe", "1 × Intel 0x0bd5, not supported yet"),
            // In a virtual machine, where a laptop has the graphics of its processor.
            ("0000:00:02.0 8086 56c0 038000", "1 × Intel 0x56c0, not supported yet"),
            ("0000:33:00.0 1da3 1020 120000 habanalabs", "1 × Habana 0x1020, not supported yet"),
            ("0000:c1:00.0 19e5 d802 120000", "1 × Huawei 0xd802, not supported yet"),
            ("0000:01:00.0 1e52 401e 120000", "1 × Tenstorrent 0x401e, not supported yet"),
            ("0000:01:00.0 cabc 0370 030200", "1 × Cambricon 0x0370, not supported yet"),
            ("0000:01:00.0 17cb a100 120000 qaic", "1 × Qualcomm 0xa100, not supported yet"),
            ("0000:01:00.0 1d95 0001 ff0000", "1 × Graphcore 0x0001, not supported yet"),
            ("0000:01:00.0 1d94 6211 0b4000", "1 × Hygon 0x6211, not supported yet"),
            ("0000:00:1e.0 1d0f 7364 088000", "1 × AWS 0x7364, not supported yet"),
            ("0000:01:00.0 abcd 0001 120000", "1 × vendor 0xabcd 0x0001, not supported yet"),
            ("0000:17:00.0 10de 2330 030200 vfio-pci", "1 × NVIDIA 0x2330, bound to vfio-pci"),
            ("0000:17:00.0 10de 2330 030200 nouveau", "1 × NVIDIA 0x2330, bound to nouveau"),
            ("0000:17:00.0 1002 74a1 120000 vfio-pci", "1 × AMD 0x74a1, bound to vfio-pci"),
            ("0000:17:00.0 1002 74a1 120000", "1 × AMD 0x74a1, without a driver"),
            ("0000:17:00.0 1002 738c 038000", "1 × AMD 0x738c, without a driver"),
        ] {
            assert_eq!(texts(&[function]), [text]);
        }
        let mixed = [
            "0000:19:00.0 1ed2 0001 120000",
            "0000:29:00.0 8086 0bd5 038000 xe",
            "0000:3a:00.0 8086 0bd5 038000 xe",
        ];
        assert_eq!(
            texts(&mixed),
            ["1 × Furiosa 0x0001, not supported yet", "2 × Intel 0x0bd5, not supported yet"]
        );
    }

    #[test]
    fn graphics_that_are_no_accelerators_are_not_named() {
        for function in [
            "0000:03:00.0 1a03 2000 030000 ast",
            "0000:03:00.0 102b 0538 030000 mgag200",
            "0000:02:00.0 19e5 1711 030000 hibmc-drm",
            "0000:00:02.0 1af4 1050 030000 virtio-pci",
            "0000:00:02.0 1013 00b8 030000",
            "0000:00:0f.0 15ad 0405 030000 vmwgfx",
            "0000:00:02.0 1b36 0100 030000 qxl",
            "0000:00:02.0 1234 1111 030000 bochs-drm",
            "0000:00:02.0 8086 4680 030000 i915",
            "0000:00:0b.0 8086 7d1d 120000 intel_vpu",
            "0000:c4:00.0 1002 164e 030000",
            "0000:c4:00.0 1002 164e 030000 vfio-pci",
            // Devices of vendors that gtop reads are in its rows.
            "0000:17:00.0 10de 2330 030200 nvidia",
            "0000:17:00.0 10de 2330 030200",
            "0000:17:00.0 1002 74a1 120000 amdgpu",
            "0000:00:04.0 1ae0 0063 120000 vfio-pci",
            "0000:00:05.0 1d0f ec20 020000 ena",
        ] {
            assert_eq!(texts(&[function]), [""; 0], "{function}");
        }
    }
}
