//! Which devices NVIDIA's driver should list, by the PCI bus, and a driver that refuses to start for them.

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

    /// Adds what the driver reports of a device.
    fn inform(&self, address: &str, text: &str) {
        self.write(&format!("proc/driver/nvidia/gpus/{address}/information"), text);
    }

    fn setup(&self, setup: Setup) -> Setup {
        let mut environment = setup.environment;
        environment.push(("GTOP_ROOT".to_owned(), self.0.path().into()));
        Setup { environment, ..setup }
    }
}

/// Returns true if this test runs in a PID namespace, in which the probe sends nothing about the bus.
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
    let expect = |addresses: &[&str]| {
        at_once(BOTH, |interpreter| {
            let mut rig = machine.setup(Setup::new(interpreter)).start();
            let hello = rig.next().unwrap();
            assert_eq!(hello["expected"], json!(addresses), "{interpreter:?}");
            rig.finish();
        });
    };
    expect(&["0000:03:00.0", "0000:04:00.0", "0000:08:00.0"]);
    // The files of the machine itself hide none.
    machine.write("dev/kmsg", "");
    expect(&["0000:03:00.0", "0000:04:00.0", "0000:08:00.0", "0000:0c:00.0"]);
}

#[test]
fn a_machine_without_such_devices_expects_none() {
    let empty = Machine::new();
    at_once(BOTH, |interpreter| {
        let mut rig = empty.setup(Setup::new(interpreter)).start();
        assert_eq!(rig.next().unwrap()["expected"], Value::Null, "{interpreter:?}");
        rig.finish();
    });
}

/// Returns what a probe sends about NVML, whose start fails with this code, once no backend of NVIDIA works.
fn refused(machine: &Machine, code: u32, has_smi: bool) -> Option<Value> {
    let library = crate::harness::nvml_stub::folder(24)?;
    let environment = vec![
        ("LD_LIBRARY_PATH".to_owned(), library.into()),
        ("NVML_STUB_STATE".to_owned(), machine.0.path().join("state").into()),
    ];
    machine.write("state", &format!("driver 570.1 12080\ngpu 0\nfault nvmlInit_v2 {code}\n"));
    let mut setup = Setup { environment, ..Setup::new(BOTH[0]) };
    if has_smi {
        setup = setup.state(&format!("gpu 0\nfault nvidia-smi {code}\n"));
    } else {
        setup.state = None;
    }
    let mut rig = machine.setup(setup).start();
    let found = rig.until("the state of NVML", |frame| {
        let backends = frame["backends"].as_array().filter(|_| frame["t"] == "hello")?;
        let is_known =
            |one: &&Value| one["state"] == "absent" || (has_smi && one["kind"] == "nvidia-smi");
        let [nvml, _] = &**backends else { return None };
        backends.iter().all(|one| is_known(&one)).then(|| nvml.clone())
    });
    rig.finish();
    Some(found)
}

#[test]
fn a_driver_that_refuses_to_start_for_its_devices_is_a_fault() {
    let machine = Machine::new();
    machine.add("0000:03:00.0", "0x030200", "nvidia");
    let cases = [
        (18, "mismatch", "error 18: driver and library versions differ"),
        (999, "start", "error 999: unknown error"),
        (15, "lost", "error 15: a device is lost"),
        (9, "nodriver", "error 9: the driver is not running"),
    ];
    for (code, word, message) in cases {
        let Some(nvml) = refused(&machine, code, false) else { return };
        if is_contained() && word == "nodriver" {
            assert_eq!(nvml["code"], Value::Null);
            continue;
        }
        let found = (&nvml["code"], &nvml["call"], &nvml["message"]);
        assert_eq!(found, (&json!(word), &json!("nvmlInit_v2"), &json!(message)), "{code}");
        assert_eq!(nvml["number"], code);
    }
    // A program that reads the same driver reports it itself.
    let nvml = refused(&machine, 18, true).unwrap();
    assert_eq!(nvml["code"], Value::Null);
    let without_driver = Machine::new();
    without_driver.add("0000:03:00.0", "0x030000", "");
    assert_eq!(refused(&without_driver, 18, false).unwrap()["code"], "mismatch");
}

#[test]
fn without_device_files_a_driver_may_refuse_to_start_in_a_sandbox_only() {
    let machine = Machine::new();
    machine.add("0000:03:00.0", "0x030200", "nvidia");
    machine.inform("0000:03:00.0", "Device Minor: \t 0\n");
    let Some(nvml) = refused(&machine, 999, false) else { return };
    assert_eq!(nvml["code"], Value::Null);
    machine.write("dev/kmsg", "");
    assert_eq!(refused(&machine, 999, false).unwrap()["code"], "start");
}

#[test]
fn a_driver_without_devices_may_refuse_to_start() {
    let others = Machine::new();
    others.add("0000:05:00.0", "0x030200", "vfio-pci");
    others.add("0000:06:00.0", "0x030000", "nouveau");
    for machine in [Machine::new(), others] {
        for code in [9, 999] {
            let Some(nvml) = refused(&machine, code, false) else { return };
            assert_eq!((&nvml["state"], &nvml["code"]), (&json!("absent"), &Value::Null), "{code}");
        }
    }
}
