//! Builds the sysfs and procfs files of AMD devices, as the kernel lays them out.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A tree that stands before every path the probe reads of such devices.
pub(crate) struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        for place in ["sys/bus/pci/devices", "sys/class/drm", "proc"] {
            fs::create_dir_all(tree.root().join(place)).unwrap();
        }
        tree.file("sys/module/amdgpu/version", "6.10.5");
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file; in place, so that who has it open reads the new contents.
    pub(crate) fn file(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = contents.as_ref().to_vec();
        bytes.push(b'\n');
        fs::write(path, bytes).unwrap();
    }

    /// A PCI function with its files; `@` stands for the hwmon.
    pub(crate) fn function(&self, pci: &str, files: &[(&str, &str)]) -> PathBuf {
        let own = format!("sys/devices/pci0000:00/{pci}");
        let link = self.root().join("sys/bus/pci/devices").join(pci);
        if !link.exists() {
            fs::create_dir_all(self.root().join(&own)).unwrap();
            symlink(format!("../../../devices/pci0000:00/{pci}"), link).unwrap();
        }
        for (name, contents) in files {
            let path = match name.strip_prefix('@') {
                Some(name) => format!("{own}/hwmon/hwmon3/{name}"),
                None => format!("{own}/{name}"),
            };
            self.file(&path, contents);
        }
        self.root().join(own)
    }

    /// A function that is a card of DRM, too.
    pub(crate) fn card(&self, number: u32, pci: &str, files: &[(&str, &str)]) {
        let own = self.function(pci, files);
        let place = own.join(format!("drm/card{number}"));
        fs::create_dir_all(&place).unwrap();
        symlink(format!("../../../{pci}"), place.join("device")).unwrap();
        let link = self.root().join(format!("sys/class/drm/card{number}"));
        symlink(format!("../../devices/pci0000:00/{pci}/drm/card{number}"), link).unwrap();
        // Connectors lie beside the cards.
        fs::create_dir_all(self.root().join(format!("sys/class/drm/card{number}-DP-1"))).unwrap();
    }

    /// A node of KFD's topology.
    pub(crate) fn node(&self, place: u32, gpu: u32, pci: &str, units: u32) {
        let own = format!("sys/class/kfd/kfd/topology/nodes/{place}");
        self.file(&format!("{own}/gpu_id"), gpu.to_string());
        let number = |text: &str| u32::from_str_radix(text, 16).unwrap();
        let parts: Vec<&str> = pci.split([':', '.']).collect();
        let at = number(parts[1]) << 8 | number(parts[2]) << 3 | number(parts[3]);
        let mut text = String::from("cpu_cores_count 0\n");
        for (key, value) in [
            ("simd_count", units * 4),
            ("simd_per_cu", 4),
            ("location_id", at),
            ("domain", number(parts[0])),
        ] {
            writeln!(text, "{key} {value}").unwrap();
        }
        self.file(&format!("{own}/properties"), text);
    }

    /// Adds a process with its memory in bytes, and compute units if the device counts them.
    pub(crate) fn add_kfd_process(&self, pid: u32, gpu: u32, memory: u64, units: Option<u32>) {
        let own = format!("sys/class/kfd/kfd/proc/{pid}");
        self.file(&format!("{own}/vram_{gpu}"), memory.to_string());
        self.file(&format!("{own}/sdma_{gpu}"), "12345");
        self.file(&format!("{own}/pasid"), "32771");
        if let Some(units) = units {
            self.file(&format!("{own}/stats_{gpu}/cu_occupancy"), units.to_string());
        }
    }

    /// A queue of a process.
    pub(crate) fn add_queue(&self, pid: u32, queue: u32, gpu: u32) {
        let path = format!("sys/class/kfd/kfd/proc/{pid}/queues/{queue}/gpuid");
        self.file(&path, gpu.to_string());
    }

    /// An open file of a process that leads to a device.
    pub(crate) fn add_drm_client(&self, pid: u32, fd: u32, fdinfo: &str) {
        self.file(&format!("proc/{pid}/fdinfo/{fd}"), fdinfo);
        let fds = self.root().join(format!("proc/{pid}/fd"));
        fs::create_dir_all(&fds).unwrap();
        symlink("/dev/dri/renderD128", fds.join(fd.to_string())).unwrap();
    }
}
