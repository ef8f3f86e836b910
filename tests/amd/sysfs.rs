//! Builds the sysfs and procfs files of AMD devices, as the kernel lays them out.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A file tree that the probe reads instead of the root directory.
pub(crate) struct Tree {
    folder: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["sys/bus/pci/devices", "sys/class/drm", "proc"] {
            fs::create_dir_all(tree.root().join(folder)).unwrap();
        }
        tree.write("sys/module/amdgpu/version", "6.10.5");
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file in place, so that a process that has it open reads the new contents.
    pub(crate) fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = contents.as_ref().to_vec();
        bytes.push(b'\n');
        fs::write(path, bytes).unwrap();
    }

    /// Adds a PCI function with its files; `@` is the hwmon folder.
    pub(crate) fn add_function(&self, pci: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = format!("sys/devices/pci0000:00/{pci}");
        let link = self.root().join("sys/bus/pci/devices").join(pci);
        if !link.exists() {
            fs::create_dir_all(self.root().join(&folder)).unwrap();
            symlink(format!("../../../devices/pci0000:00/{pci}"), link).unwrap();
        }
        for (name, contents) in files {
            let path = match name.strip_prefix('@') {
                Some(name) => format!("{folder}/hwmon/hwmon3/{name}"),
                None => format!("{folder}/{name}"),
            };
            self.write(&path, contents);
        }
        self.root().join(folder)
    }

    /// Adds a PCI function that is also a DRM card.
    pub(crate) fn add_card(&self, number: u32, pci: &str, files: &[(&str, &str)]) {
        let device = self.add_function(pci, files);
        let card = device.join(format!("drm/card{number}"));
        fs::create_dir_all(&card).unwrap();
        symlink(format!("../../../{pci}"), card.join("device")).unwrap();
        let link = self.root().join(format!("sys/class/drm/card{number}"));
        symlink(format!("../../devices/pci0000:00/{pci}/drm/card{number}"), link).unwrap();
        // Connectors are in the same folder as cards.
        fs::create_dir_all(self.root().join(format!("sys/class/drm/card{number}-DP-1"))).unwrap();
    }

    /// Adds a node to the KFD topology.
    pub(crate) fn add_kfd_node(&self, index: u32, gpu: u32, pci: &str, units: u32) {
        let folder = format!("sys/class/kfd/kfd/topology/nodes/{index}");
        self.write(&format!("{folder}/gpu_id"), gpu.to_string());
        let number = |text: &str| u32::from_str_radix(text, 16).unwrap();
        let parts: Vec<&str> = pci.split([':', '.']).collect();
        let location = number(parts[1]) << 8 | number(parts[2]) << 3 | number(parts[3]);
        let mut text = String::from("cpu_cores_count 0\n");
        for (key, value) in [
            ("simd_count", units * 4),
            ("simd_per_cu", 4),
            ("location_id", location),
            ("domain", number(parts[0])),
        ] {
            writeln!(text, "{key} {value}").unwrap();
        }
        self.write(&format!("{folder}/properties"), text);
    }

    /// Adds a partition of a card to the KFD topology: its number is in place of the PCI function.
    pub(crate) fn add_partition(
        &self,
        gpu: u32,
        (pci, number): (&str, u32),
        memory: u64,
        unique: u64,
    ) {
        let (address, _) = pci.rsplit_once('.').unwrap();
        self.add_kfd_node(gpu, gpu, &format!("{address}.{number}"), 38);
        let folder = format!("sys/class/kfd/kfd/topology/nodes/{gpu}");
        let path = self.root().join(&folder).join("properties");
        let facts = fs::read_to_string(path).unwrap();
        let facts = format!("{}unique_id {unique}\n", facts.trim_end().to_owned() + "\n");
        self.write(&format!("{folder}/properties"), facts);
        let bank = format!("heap_type 1\nsize_in_bytes {memory}\nflags 0");
        self.write(&format!("{folder}/mem_banks/0/properties"), bank);
    }

    /// Adds a process with its memory in bytes, and its compute units if the device counts them.
    pub(crate) fn add_kfd_process(&self, pid: u32, gpu: u32, memory: u64, units: Option<u32>) {
        let folder = format!("sys/class/kfd/kfd/proc/{pid}");
        self.write(&format!("{folder}/vram_{gpu}"), memory.to_string());
        self.write(&format!("{folder}/sdma_{gpu}"), "12345");
        self.write(&format!("{folder}/pasid"), "32771");
        if let Some(units) = units {
            self.write(&format!("{folder}/stats_{gpu}/cu_occupancy"), units.to_string());
        }
    }

    /// Adds a queue of a process.
    pub(crate) fn add_queue(&self, pid: u32, queue: u32, gpu: u32) {
        let path = format!("sys/class/kfd/kfd/proc/{pid}/queues/{queue}/gpuid");
        self.write(&path, gpu.to_string());
    }

    /// Adds an open device file of a process.
    pub(crate) fn add_drm_client(&self, pid: u32, fd: u32, fdinfo: &str) {
        self.write(&format!("proc/{pid}/fdinfo/{fd}"), fdinfo);
        let fds = self.root().join(format!("proc/{pid}/fd"));
        fs::create_dir_all(&fds).unwrap();
        symlink("/dev/dri/renderD128", fds.join(fd.to_string())).unwrap();
    }
}
