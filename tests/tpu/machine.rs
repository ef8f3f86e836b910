//! A stub file tree of a machine with TPUs, and processes that hold the chips.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The arguments with which gtop prints snapshots continuously.
pub(crate) const WATCHING: [&str; 5] = ["--local", "--json", "--watch", "-i", "0.2"];

/// A file tree that gtop reads instead of the root directory.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    holders: Vec<Child>,
    pub(crate) environment: Vec<(String, OsString)>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        for holder in &mut self.holders {
            // It may have ended by itself.
            let _ended = holder.kill();
            let _status = holder.wait();
        }
    }
}

impl Machine {
    /// A machine without chips, but with a network card of Google's.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder, holders: Vec::new(), environment: Vec::new() };
        machine.add_function("0000:00:03.0", "0x1ae0", "0x0042", "0x0058", "0x020000");
        machine.add_function("0000:00:01.0", "0x8086", "0x7110", "0x0000", "0x060100");
        machine.write("dev/vfio/vfio", "");
        std::fs::create_dir_all(machine.root().join("proc")).unwrap();
        machine
    }

    /// A machine with this many v5e chips; chip n is `/dev/vfio/<8 + n>`.
    pub(crate) fn v5e(count: u32) -> Self {
        let machine = Self::new();
        for chip in 0..count {
            machine.add_vfio(&format!("0000:00:{:02x}.0", 4 + chip), "0x0063", 8 + chip);
        }
        machine
    }

    /// A machine with this many v3 chips of two cores each; chip n is `/dev/accel<n>`.
    pub(crate) fn v3(count: u32) -> Self {
        let machine = Self::new();
        for chip in 0..count {
            machine.add_accel(&format!("0000:00:{:02x}.0", 4 + chip), "0x0027", "0x004f", chip);
        }
        machine
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A PCI function.
    pub(crate) fn add_function(
        &self,
        address: &str,
        vendor: &str,
        device: &str,
        subsystem: &str,
        class: &str,
    ) {
        let folder = format!("sys/bus/pci/devices/{address}");
        let files = [
            ("vendor", vendor),
            ("device", device),
            ("subsystem_device", subsystem),
            ("class", class),
        ];
        for (name, contents) in files {
            self.write(&format!("{folder}/{name}"), &format!("{contents}\n"));
        }
        self.write(&format!("{folder}/numa_node"), "1\n");
    }

    /// A TPU function behind this IOMMU group.
    pub(crate) fn add_vfio(&self, address: &str, device: &str, group: u32) {
        self.add_function(address, "0x1ae0", device, "0x0001", "0x120000");
        let link = format!("sys/bus/pci/devices/{address}/iommu_group");
        self.link(&link, &format!("../../../kernel/iommu_groups/{group}"));
        self.write(&format!("dev/vfio/{group}"), "");
    }

    /// A TPU function of the older driver.
    pub(crate) fn add_accel(&self, address: &str, device: &str, subsystem: &str, number: u32) {
        self.add_function(address, "0x1ae0", device, subsystem, "0xff0000");
        self.link(&format!("sys/class/accel/accel{number}/device"), &format!("../../../{address}"));
        self.write(&format!("dev/accel{number}"), "");
    }

    /// Starts a process that has these device files open, with this in its environment.
    pub(crate) fn add_holder(&mut self, nodes: &[&str], environment: &str) -> u32 {
        let holder = Command::new("sleep").arg("100000").spawn().unwrap();
        let pid = holder.id();
        self.holders.push(holder);
        self.link(&format!("proc/{pid}/fd/0"), "/dev/null");
        for (index, node) in nodes.iter().enumerate() {
            self.link(&format!("proc/{pid}/fd/{}", index + 3), node);
        }
        self.write(&format!("proc/{pid}/environ"), &format!("HOME=/\0{environment}\0LANG=C\0"));
        pid
    }

    /// Starts a process with all chips of a v5e machine, whose runtime serves these ports.
    pub(crate) fn add_workload(&mut self, chips: u32, ports: &str) -> u32 {
        let nodes: Vec<String> = (0..chips).map(|chip| format!("/dev/vfio/{}", 8 + chip)).collect();
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        self.add_holder(&nodes, &format!("TPU_RUNTIME_METRICS_PORTS={ports}"))
    }

    /// Adds a port on which a process listens to /proc.
    pub(crate) fn add_listener(&self, pid: u32, port: u16) {
        let inode = u32::from(port) + 100_000;
        self.link(&format!("proc/{pid}/fd/99"), &format!("socket:[{inode}]"));
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        let line = format!(
            "   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 {inode} 1"
        );
        self.write(&format!("proc/{pid}/net/tcp"), &format!("{head}\n{line}\n"));
    }

    /// Watches the machine until a snapshot satisfies `is_so`, and returns its node.
    pub(crate) fn watch(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut program = Command::new(env!("CARGO_BIN_EXE_gtop"));
        program.args(WATCHING);
        self.watch_with(program, what, is_so)
    }

    /// Like `watch`, with a program that starts gtop.
    pub(crate) fn watch_with(
        &self,
        mut program: Command,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut child = program
            .env("GTOP_ROOT", self.root())
            .env("HOME", self.root())
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut last = Value::Null;
        let mut found = None;
        // Three hundred snapshots take a minute or more.
        for line in BufReader::new(child.stdout.take().unwrap()).lines().take(300) {
            let snapshot: Value = serde_json::from_str(&line.unwrap()).unwrap();
            last = snapshot["nodes"][0].clone();
            if is_so(&last) {
                found = Some(last.clone());
                break;
            }
        }
        child.kill().unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        child.wait().unwrap();
        found.unwrap_or_else(|| panic!("no {what}; {stderr} the last was {}", summary(&last)))
    }

    /// Watches until this many chips are reported.
    pub(crate) fn wait_for_chips(&self, count: usize) -> Vec<Value> {
        let node = self.watch("chips", |node| devices(node).len() == count);
        devices(&node).clone()
    }

    /// Watches until every chip has a utilization.
    pub(crate) fn wait_for_busy_chips(&self) -> Vec<Value> {
        let node = self.watch("numbers", |node| {
            let chips = devices(node);
            !chips.is_empty() && chips.iter().all(|chip| chip["utilization_percent"].is_number())
        });
        assert!(source(&node, "tpu")["fault"].is_null(), "{}", source(&node, "tpu"));
        devices(&node).clone()
    }
}

/// The devices of a node.
pub(crate) fn devices(node: &Value) -> &Vec<Value> {
    node["devices"].as_array().unwrap()
}

/// The entry of a source in a node.
pub(crate) fn source<'a>(node: &'a Value, id: &str) -> &'a Value {
    let all = node["sources"].as_array().unwrap();
    all.iter().find(|source| source["id"] == id).unwrap()
}

/// One field of all chips.
pub(crate) fn column<'a>(chips: &'a [Value], field: &str) -> Vec<&'a Value> {
    chips.iter().map(|chip| &chip[field]).collect()
}

/// Why a field of a chip is unknown.
pub(crate) fn why<'a>(chip: &'a Value, field: &str) -> &'a str {
    assert!(chip[field].is_null(), "{field} is {}", chip[field]);
    chip["unknown"][field].as_str().unwrap()
}

/// The pids of a chip's processes with the memory each holds.
pub(crate) fn processes(chip: &Value) -> Vec<(u64, &Value)> {
    let list = chip["processes"].as_array().unwrap();
    list.iter().map(|used| (used["pid"].as_u64().unwrap(), &used["memory_used_bytes"])).collect()
}

fn summary(node: &Value) -> String {
    let known_values = |chip: &Value| {
        let fields = chip.as_object().unwrap().iter();
        let values: Vec<String> = fields
            .filter(|(key, value)| !value.is_null() && key.as_str() != "unknown")
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        values.join(" ")
    };
    let chips: Vec<String> =
        node["devices"].as_array().into_iter().flatten().map(known_values).collect();
    format!("{}\n{}", node["sources"], chips.join("\n"))
}

/// Compiles the stub libtpuinfo into `folder`, and returns the folder; `None` without a compiler.
pub(crate) fn compile_library(folder: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stubs/libtpuinfo.c");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(folder.join("libtpuinfo.so"))
        .arg(source)
        .status();
    let Ok(status) = status else {
        eprintln!("skipped: no C compiler");
        return None;
    };
    assert!(status.success(), "{source} does not compile");
    Some(folder.to_owned())
}
