//! Which devices NVIDIA's driver should list, by the PCI bus.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::probe::{BOTH, Setup, at_once};

/// A file system with PCI functions.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Adds a function of NVIDIA with this class and driver.
    fn add(&self, address: &str, class: &str, driver: &str) {
        let folder = format!("sys/bus/pci/devices/{address}");
        self.write(&format!("{folder}/vendor"), "0x10de\n");
        self.write(&format!("{folder}/class"), &format!("{class}\n"));
        self.write(&format!("{folder}/device"), "0x2330\n");
        if !driver.is_empty() {
            let target = Path::new("../../../bus/pci/drivers").join(driver);
            symlink(target, self.0.path().join(folder).join("driver")).unwrap();
        }
    }

    /// Adds what the driver says of a device.
    fn inform(&self, address: &str, text: &str) {
        self.write(&format!("proc/driver/nvidia/gpus/{address}/information"), text);
    }

    fn setup(&self, setup: Setup) -> Setup {
        let mut environment = setup.environment;
        environment.push(("GTOP_ROOT".to_owned(), self.0.path().into()));
        Setup { environment, ..setup }
    }
}

/// Returns true if this test runs in a PID namespace, in which the probe tells nothing of the bus.
fn is_contained() -> bool {
    fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() != "pid:[4026531836]"
}

#[test]
fn devices_of_other_drivers_and_hidden_ones_are_not_expected() {
    if is_contained() {
        return;
    }
    let machine = Machine::new();
    for (address, class, driver) in [
        ("0000:03:00.0", "0x030200", "nvidia"),
        ("0000:04:00.0", "0x030000", "nvidia"),
        // For a virtual machine, for the screen, and one that no driver knows.
        ("0000:05:00.0", "0x030200", "vfio-pci"),
        ("0000:06:00.0", "0x030000", "nouveau"),
        ("0000:07:00.0", "0x030000", ""),
        // The driver refused it.
        ("0000:08:00.0", "0x030200", ""),
        // A virtual function, the sound of a device, one that is excluded, and one whose file is hidden.
        ("0000:09:00.0", "0x030200", "nvidia"),
        ("0000:0a:00.1", "0x040300", "snd_hda_intel"),
        ("0000:0b:00.0", "0x030200", "nvidia"),
        ("0000:0c:00.0", "0x030200", "nvidia"),
    ] {
        machine.add(address, class, driver);
    }
    symlink("../x", machine.0.path().join("sys/bus/pci/devices/0000:09:00.0/physfn")).unwrap();
    machine.write("sys/bus/pci/devices/x/vendor", "");
    machine.inform("0000:04:00.0", "Device Minor: \t 1\nGPU Excluded:\t No\n");
    machine.write("dev/nvidia1", "");
    machine.inform("0000:0b:00.0", "GPU Excluded:\t Yes\n");
    machine.inform("0000:0c:00.0", "Device Minor: \t 5\nGPU Excluded:\t No\n");
    at_once(BOTH, |interpreter| {
        let mut rig = machine.setup(Setup::new(interpreter)).start();
        let hello = rig.next().unwrap();
        let expected = json!(["0000:03:00.0", "0000:04:00.0", "0000:08:00.0"]);
        assert_eq!(hello["pci"], expected, "{interpreter:?}");
        rig.finish();
    });
}

#[test]
fn a_machine_without_such_devices_expects_none() {
    let empty = Machine::new();
    at_once(BOTH, |interpreter| {
        let mut rig = empty.setup(Setup::new(interpreter)).start();
        assert_eq!(rig.next().unwrap()["pci"], Value::Null, "{interpreter:?}");
        rig.finish();
    });
}
