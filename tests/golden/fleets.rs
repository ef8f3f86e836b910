//! Test fleets: nodes in every state, built from samples as in production.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::scheduler::SchedulerKind;
use gtop_fleet::{Fleet, HostShare, HostShares, JobLookup, Node, NodeBuilder, Waste, is_busy};
use gtop_local::time::Timestamp;
use gtop_model::{
    Allocation, BackendReading, BackendState, Bytes, Celsius, ComputeMode, ConfigurationState,
    Counter, CpuTicks, DaemonDevices, Device, DeviceActivity, DeviceAllocation, DeviceDetails,
    DeviceEvidence, DeviceFault, DeviceStatics, DeviceUse, DevicesReading, Event, EventKind,
    FanSpeed, Fault, FaultKind, FinishedJob, FinishedJobs, Hello, HostFacts, HostReading,
    HostSlowReading, Job, JobId, JobList, JobOutcome, JobState, KernelLine, Link, ListedDevice,
    Megahertz, NodeName, NodeState, Percent, Pressure, ProcessKey, ProcessReading, ProcessState,
    ProcessStatics, ProcessesReading, Reading, Reason, Sample, SchedulerNode, SchedulerNodes,
    Source, SourceFault, SourceFaultKind, Space, Throttle, TpuCore, TpuDetails, UnseenProcess,
    UnseenReason, UseKind, UsesReading, Vendor, Watts,
};
use gtop_ssh as ssh;

/// The time shown on all golden screens: 2025-11-21 13:05:07 UTC.
pub const NOW: Timestamp = Timestamp::from_micros(1_763_730_307_000_000);

/// The number of samples that each node has sent, one per second.
const SECONDS: i64 = 75;

fn ago(millis: i64) -> Timestamp {
    Timestamp::from_micros(NOW.as_micros() - millis * 1_000)
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn smi() -> Source {
    Source::new("nvidia-smi")
}

/// Returns a pseudo-random number that depends only on the seed.
fn pseudo_random(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33
}

/// Builds one node.
pub struct NodeFixture {
    name: String,
    builder: NodeBuilder,
    devices: Vec<Device>,
    uses: Vec<DeviceUse>,
    processes: Vec<ProcessReading>,
    unseen: Vec<UnseenProcess>,
    /// The mean utilization of each device in percent; samples vary around it.
    loads: Vec<f32>,
    boot_id: String,
    last_millis: i64,
}

impl NodeFixture {
    pub fn new(text: &str) -> Self {
        Self {
            name: text.to_owned(),
            builder: NodeBuilder::new(name(text), Duration::from_secs(300)),
            devices: Vec::new(),
            uses: Vec::new(),
            processes: Vec::new(),
            unseen: Vec::new(),
            loads: Vec::new(),
            boot_id: format!("boot-of-{text}"),
            last_millis: 400,
        }
    }

    pub fn devices(mut self, loads: &[f32]) -> Self {
        self.loads = loads.to_vec();
        self.devices =
            (0..).zip(loads).map(|(index, load)| h100(&self.name, index, *load)).collect();
        self
    }

    pub fn change_device(mut self, index: usize, change: impl FnOnce(&mut Device)) -> Self {
        change(&mut self.devices[index]);
        self
    }

    /// Adds a process that uses a device.
    pub fn process(
        mut self,
        device: usize,
        pid: u32,
        user: &str,
        job: &str,
        command: &str,
    ) -> Self {
        let target = &self.devices[device];
        let sm = target.utilization;
        self.uses.push(DeviceUse {
            device: Arc::clone(&target.uuid),
            pid,
            memory: target.memory_used,
            sm,
            driver_name: Some("python".into()),
            ..DeviceUse::default()
        });
        self.processes.push(ProcessReading {
            key: ProcessKey { pid, start_ticks: 100 * u64::from(pid) },
            cpu_ticks: Reading::Known(0),
            cpu_percent: Reading::default(),
            running_seconds: Reading::default(),
            resident: Reading::Known(Bytes(u64::from(pid % 37 + 4) << 30)),
            state: Reading::default(),
            threads: Reading::default(),
            statics: Some(Arc::new(ProcessStatics {
                parent_pid: Reading::Known(pid - 1),
                uid: Reading::Known(1000),
                user: Reading::Known(user.into()),
                command: Reading::Known(command.into()),
                job: JobId::new(job),
                ..ProcessStatics::default()
            })),
        });
        self
    }

    /// Adds a process of one job on each device.
    pub fn job(mut self, user: &str, job: &str, command: &str) -> Self {
        for device in 0..self.devices.len() {
            let pid = 41_200 + u32::try_from(device).unwrap() * 11;
            self = self.process(device, pid, user, job, command);
        }
        self
    }

    /// Adds an Xid that the kernel has logged: how many minutes ago, of which PCI id, and its process and words.
    pub fn logged(
        mut self,
        (minutes, number): (i64, u64),
        code: u64,
        pci: &str,
        (pid, process, words): (Option<u32>, &str, &str),
    ) -> Self {
        let at = ago(minutes * 60_000);
        let line = KernelLine {
            at,
            number,
            first_number: number,
            first_at: at,
            pci: pci.into(),
            gpu_instance: None,
            pid,
            process: process.into(),
            words: words.into(),
        };
        self.builder.on_event(Event {
            at,
            source: Source::new("kernel"),
            kind: EventKind::Xid,
            device: pci.into(),
            code: Some(code),
            message: "".into(),
            count: 1,
            line: Some(line.into()),
        });
        self
    }

    pub fn boot_id(mut self, boot_id: &str) -> Self {
        boot_id.clone_into(&mut self.boot_id);
        self
    }

    pub fn hello(mut self, backends: &[(&str, Option<&str>)]) -> Self {
        self.builder.on_link(Link::Up);
        let state = |(kind, absent): &(&str, Option<&str>)| BackendState {
            source: Source::new(kind),
            absent: absent.map(Into::into),
            is_missing: absent.is_some(),
            fault: None,
            driver: None,
        };
        self.builder.on_hello(Hello {
            has_evidence: false,
            sudo: None,
            reads_kernel_log: false,
            driver_loaded_at: None,
            devices_left_out: 0,
            bus_devices: Vec::new(),
            probe: "python 3.11.2".into(),
            is_shell_probe: false,
            host: HostFacts {
                is_contained: false,
                host_name: self.boot_id.as_str().into(),
                boot_id: self.boot_id.as_str().into(),
                kernel: "6.1.0-13-amd64".into(),
                architecture: "x86_64".into(),
                cpus: 64,
                ticks_per_second: 100,
                hidepid: 0,
                job: None,
                user: "alice".into(),
                pci: [].into(),
            },
            intervals: vec![
                (Source::host(), Duration::from_secs(1)),
                (Source::host_slow(), Duration::from_secs(10)),
                (smi(), Duration::from_secs(1)),
                (smi().processes(), Duration::from_secs(2)),
            ],
            backends: backends.iter().map(state).collect(),
            commands: Vec::new(),
        });
        self
    }

    /// Sends samples of the host and the devices; the last one is `millis` milliseconds old.
    pub fn up_until_ago(mut self, millis: i64) -> Self {
        self = self.hello(&[("nvidia-smi", None)]);
        self.last_millis = millis;
        for second in (0..SECONDS).rev() {
            let at = ago(millis + second * 1_000);
            self.builder.on_sample(self.sample(at, second, true));
        }
        self
    }

    pub fn up(self) -> Self {
        self.up_until_ago(400)
    }

    /// Sends samples of the host alone; the last one is fresh.
    pub fn host_only(mut self) -> Self {
        for second in (0..SECONDS).rev() {
            let sample = self.sample(ago(400 + second * 1_000), second, false);
            self.builder.on_sample(sample);
        }
        self
    }

    fn sample(&self, at: Timestamp, second: i64, has_devices: bool) -> Sample {
        let passed = u64::try_from(SECONDS - second).unwrap();
        let seed =
            self.name.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let host = host(passed, seed, self.loads.first().copied().unwrap_or(3.0));
        let slow = HostSlowReading {
            temperature: Reading::Known(Celsius::new(47.0).unwrap()),
            space: vec![
                Space { path: "/".into(), total: Bytes(400 << 30), free: Bytes(180 << 30) },
                Space {
                    path: "/scratch".into(),
                    total: Bytes(7_000 << 30),
                    free: Bytes(630 << 30),
                },
            ]
            .into(),
        };
        let mut sample = Sample {
            number: passed,
            is_complete: true,
            took: None,
            host: Some((at, host)),
            host_slow: Some((at, slow)),
            ..Sample::default()
        };
        if !has_devices {
            return sample;
        }
        let list = self.devices.iter().zip(0..).map(|(device, index)| {
            let mut device = device.clone();
            if let Some(load) = device.utilization.get() {
                let variation = if second == 0 {
                    0.0
                } else {
                    (pseudo_random(seed + passed * 64 + index) % 17) as f32 - 8.0
                };
                let load = if load.get() > 5.0 {
                    (load.get() + variation).clamp(0.0, 100.0)
                } else {
                    load.get()
                };
                device.utilization = Reading::checked(Percent::new(load));
            }
            device
        });
        let devices = DevicesReading { at, list: list.collect(), is_cut_short: false };
        let uses = UsesReading { at, list: self.uses.clone(), nameless: BTreeMap::new() };
        sample.backends = vec![BackendReading {
            source: smi(),
            slow_at: None,
            devices: Some(devices),
            uses: Some(uses),
        }];
        let processes = self.processes.iter().cloned().map(|mut process| {
            process.cpu_ticks = Reading::Known(passed * (80 + u64::from(process.key.pid % 50)));
            process
        });
        sample.processes =
            Some(ProcessesReading { at, list: processes.collect(), unseen: self.unseen.clone() });
        sample
    }

    pub fn link(mut self, link: Link) -> Self {
        self.builder.on_link(link);
        self
    }

    pub fn down(self, kind: FaultKind, detail: &str, retry_in: Option<u64>) -> Self {
        let retry_at = retry_in.map(|seconds| NOW.plus(Duration::from_secs(seconds)));
        let mut fault = Fault::new(kind, detail);
        if let Some(offers) = detail.strip_prefix("offers ") {
            let offers = offers.split(", ").map(str::to_owned).collect();
            let (user, tried) = ("ada".to_owned(), vec!["id_ed25519".to_owned()]);
            let refused = ssh::Fault::AuthenticationRefused { user, offers, tried };
            fault.cause = Some(Arc::new(refused.into()));
        }
        self.link(Link::Down { fault, retry_at })
    }

    pub fn source_fault(mut self, kind: SourceFaultKind, message: &str) -> Self {
        let fault = SourceFault {
            kind,
            call: "nvidia-smi --query-gpu".into(),
            message: message.into(),
            duration: Duration::from_secs(11),
            at: ago(1_000),
            code: None,
        };
        self.builder.on_sample(Sample { faults: vec![(smi(), fault)], ..Sample::default() });
        self
    }

    /// Returns the node, whose scheduler numbers its devices as the driver does.
    pub fn node(self) -> Arc<Node> {
        let mut node = self.builder.node();
        Arc::make_mut(&mut node).evidence = Some(evidence(self.devices.len()));
        node
    }
}

/// The same fleet, whose nodes do not report how the scheduler numbers their devices.
pub fn without_evidence(fleet: Fleet) -> Fleet {
    let silent = |node: &Arc<Node>| Arc::new(Node { evidence: None, ..Node::clone(node) });
    let (nodes, jobs) = (fleet.nodes.iter().map(silent).collect(), fleet.jobs.clone());
    Fleet { nodes, ..fleet }.with_jobs(jobs)
}

fn evidence(devices: usize) -> Arc<DeviceEvidence> {
    let listed = |number| ListedDevice { kind: None, files: format!("/dev/nvidia{number}").into() };
    Arc::new(DeviceEvidence {
        daemon: DaemonDevices {
            list: Some((0..devices).map(listed).collect()),
            started_at: Some(ago(20 * 86_400_000)),
            ..DaemonDevices::default()
        },
        configuration: ConfigurationState {
            changed_at: Some(ago(30 * 86_400_000)),
            checked_at: Some(ago(5_000)),
            ..ConfigurationState::default()
        },
        is_complete: true,
        ..DeviceEvidence::default()
    })
}

fn host(passed: u64, seed: u64, load: f32) -> HostReading {
    let share = 2 + (load as u64) / 3 + pseudo_random(seed + passed) % 9;
    let counter = |name: &str, inward: u64, outward: u64| Counter {
        name: name.into(),
        inward: passed * inward,
        outward: passed * outward,
    };
    let busy: u64 =
        (0..=passed).map(|second| 2 + (load as u64) / 3 + pseudo_random(seed + second) % 9).sum();
    HostReading {
        cpu: Reading::Known(CpuTicks {
            busy: busy * 64,
            idle: (passed * 100).saturating_sub(busy) * 64,
        }),
        load: Reading::Known([share as f32 * 0.64, share as f32 * 0.6, share as f32 * 0.58]),
        memory_total: Reading::Known(Bytes(2_015 << 30)),
        memory_available: Reading::Known(Bytes(1_573 << 30)),
        memory_cached: Reading::Known(Bytes(612 << 30)),
        memory_buffers: Reading::Known(Bytes(3 << 30)),
        swap_total: Reading::Known(Bytes(8 << 30)),
        swap_free: Reading::Known(Bytes(8 << 30)),
        pressure: Pressure {
            cpu: Reading::Known(Percent::new(0.4).unwrap()),
            memory: Reading::Known(Percent::new(0.0).unwrap()),
            io: Reading::Known(Percent::new(2.6).unwrap()),
        },
        uptime_seconds: Reading::Known(1_050_000 + passed),
        booted_at: Reading::default(),
        cpu_utilization: Reading::default(),
        network: vec![counter("eth0", 11_100_000, 940_000)].into(),
        infiniband: vec![
            counter("mlx5_0/1", 24_000_000_000, 23_500_000_000),
            counter("mlx5_1/1", 24_100_000_000, 23_400_000_000),
        ]
        .into(),
        disks: vec![counter("nvme0n1", 130_000_000, 4_200_000)].into(),
    }
}

fn h100(node: &str, index: u32, load: f32) -> Device {
    let is_busy = load >= 5.0;
    let used = if is_busy { 62_000 + u64::from(index % 16) * 731 + load as u64 * 100 } else { 4 };
    Device {
        uuid: format!("GPU-{node}-{index}").into(),
        index: Reading::Known(index),
        name: Reading::Known("NVIDIA H100 80GB HBM3".into()),
        pci: Reading::Known(format!("00000000:{:02X}:00.0", index * 16 + 10).into()),
        utilization: Reading::checked(Percent::new(load)),
        memory_utilization: Reading::checked(Percent::new(load * 0.6)),
        memory_total: Reading::Known(Bytes(81_559 << 20)),
        memory_used: Reading::Known(Bytes(used << 20)),
        temperature: Reading::checked(Celsius::new(31.0 + load * 0.33 + (index % 3) as f32)),
        memory_temperature: Reading::checked(Celsius::new(40.0 + load * 0.4)),
        power: Reading::checked(Watts::new(71.0 + load * 6.1 + index as f32)),
        power_limit: Reading::checked(Watts::new(700.0)),
        sm_clock: Reading::checked(Megahertz::new(if is_busy { 1_980 } else { 345 })),
        memory_clock: Reading::checked(Megahertz::new(2_619)),
        fan: Reading::Unknown(Reason::NotSupported),
        performance_state: Reading::Known(0),
        throttle: Reading::Known(Throttle(0)),
        ecc_corrected: Reading::Known(0),
        ecc_uncorrected: Reading::Known(0),
        persistence: Reading::Known(true),
        mig: Reading::Known(false),
        pcie: Reading::Known((5, 16)),
        statics: DeviceStatics {
            minor: Reading::Known(index),
            driver: Reading::Known("570.124.06".into()),
            sm_clock_max: Reading::checked(Megahertz::new(1_980)),
            memory_clock_max: Reading::checked(Megahertz::new(2_619)),
            pcie_max: Reading::Known((5, 16)),
            ..DeviceStatics::default()
        }
        .shared(),
        ..Device::default()
    }
}

fn mig_slice(parent: &Device, number: u32, gib: u64, used: u64) -> Device {
    Device {
        uuid: format!("MIG-{}-{number}", parent.uuid).into(),
        parent: Some(Arc::clone(&parent.uuid)),
        index: Reading::Known(number),
        name: Reading::Known(format!("NVIDIA H100 80GB HBM3 MIG {}g.{gib}gb", gib / 10).into()),
        memory_total: Reading::Known(Bytes(gib << 30)),
        memory_used: Reading::Known(Bytes(used << 30)),
        utilization: Reading::Unknown(Reason::NotSupported),
        temperature: Reading::Unknown(Reason::NotSupported),
        power: Reading::Unknown(Reason::NotSupported),
        power_limit: Reading::Unknown(Reason::NotSupported),
        sm_clock: Reading::Unknown(Reason::NotSupported),
        ..Device::default()
    }
}

const TRAIN: &str = "/opt/conda/bin/python train.py --tp 8 --pp 4 --model llama-70b";

pub fn busy(node: &str) -> NodeFixture {
    NodeFixture::new(node)
        .devices(&[97.0, 98.0, 97.0, 99.0, 97.0, 98.0, 98.0, 97.0])
        .job("alice", "8421", TRAIN)
}

fn mixed(node: &str) -> NodeFixture {
    NodeFixture::new(node)
        .devices(&[55.0, 41.0, 63.0, 30.0, 0.0, 0.0, 0.0, 0.0])
        .process(0, 5_120, "bob", "8430", "python eval.py --suite long --shots 5")
        .process(1, 5_121, "bob", "8430", "python eval.py --suite long --shots 5")
        .process(2, 7_044, "carol", "", "/home/carol/envs/x/bin/jupyter-lab --no-browser")
        .process(3, 7_045, "carol", "", "ollama serve")
}

fn throttled(node: &str) -> NodeFixture {
    NodeFixture::new(node)
        .devices(&[97.0, 98.0, 97.0, 12.0, 97.0, 98.0, 98.0, 97.0])
        .change_device(3, |device| {
            device.throttle = Reading::Known(Throttle(0x40));
            device.temperature = Reading::checked(Celsius::new(88.0));
            device.sm_clock = Reading::checked(Megahertz::new(1_155));
        })
        .change_device(5, |device| device.throttle = Reading::Known(Throttle(0x80)))
        .job("alice", "8421", TRAIN)
}

fn faulty(node: &str) -> NodeFixture {
    NodeFixture::new(node)
        .devices(&[88.0, 91.0, 90.0, 0.0, 93.0, 90.0, 89.0, 92.0])
        .change_device(3, |device| {
            *device = Device {
                fault: Some(DeviceFault::Lost),
                uuid: Arc::clone(&device.uuid),
                index: device.index,
                name: device.name.clone(),
                pci: device.pci.clone(),
                ..Device::default()
            };
        })
        .change_device(6, |device| device.ecc_uncorrected = Reading::Known(4))
}

fn sliced(node: &str) -> NodeFixture {
    let mut fixture = NodeFixture::new(node).devices(&[0.0, 35.0]);
    fixture.devices[0].utilization = Reading::Unknown(Reason::NotSupported);
    fixture.devices[0].mig = Reading::Known(true);
    let parent = fixture.devices[0].clone();
    fixture.devices.insert(1, mig_slice(&parent, 0, 40, 31));
    fixture.devices.insert(2, mig_slice(&parent, 1, 20, 0));
    fixture
        .process(1, 900, "dave", "", "python serve.py --port 8000")
        .process(3, 901, "dave", "", "vllm")
}

fn hostile(node: &str) -> NodeFixture {
    NodeFixture::new(node)
        .devices(&[50.0])
        .change_device(0, |device| {
            device.name = Reading::Known("名前のとても長い加速器 e\u{301}e\u{301}".into());
        })
        .process(
            0,
            4_194_303,
            "ユーザー名が長い",
            "",
            "日本語 コマンド 👩 🚀 with emoji and 長い arguments that never end",
        )
}

/// Sixteen nodes, each in another state.
pub fn every_state() -> Fleet {
    let nodes = vec![
        busy("gpu01").up().node(),
        throttled("gpu02").up().node(),
        NodeFixture::new("gpu03").devices(&[0.0; 8]).up().node(),
        mixed("gpu04").up_until_ago(42_000).node(),
        NodeFixture::new("gpu05")
            .down(FaultKind::AuthenticationRefused, "offers hostbased, gssapi", None)
            .node(),
        faulty("gpu06").up().node(),
        sliced("gpu07").up().node(),
        busy("gpu08").up_until_ago(102_000).down(FaultKind::SessionLost, "", Some(12)).node(),
        NodeFixture::new("gpu09").link(Link::Opening { attempt: 3 }).node(),
        NodeFixture::new("login1")
            .hello(&[("nvidia-smi", Some("nvidia-smi not found"))])
            .host_only()
            .node(),
        mixed("gpu11")
            .up_until_ago(14_000)
            .host_only()
            .source_fault(SourceFaultKind::Stuck, "")
            .node(),
        NodeFixture::new("gpu12").hello(&[("nvidia-smi", None)]).host_only().node(),
        NodeFixture::new("gpu13").node(),
        NodeFixture::new("gpu14").down(FaultKind::HostKeyUnknown, "", None).node(),
        NodeFixture::new("gpu15").down(FaultKind::HostKeyUnknown, "", None).node(),
        busy("gpu01.cluster").boot_id("boot-of-gpu01").up().node(),
    ];
    watched(Fleet::new(nodes.into()))
}

/// Unusual nodes: long and wide names, connecting, without devices, with 20 devices.
pub fn rare() -> Fleet {
    let nodes = vec![
        hostile("node-with-a-very-long-name-that-does-not-fit.cluster.example.org").up().node(),
        NodeFixture::new("fresh").link(Link::Opening { attempt: 1 }).node(),
        NodeFixture::new("shaking-hands").link(Link::Up).node(),
        NodeFixture::new("broken")
            .hello(&[("nvidia-smi", None)])
            .host_only()
            .source_fault(SourceFaultKind::NoDriver, "NVIDIA-SMI has failed")
            .node(),
        NodeFixture::new("empty").devices(&[]).up().node(),
        NodeFixture::new("many").devices(&[80.0; 20]).up().node(),
    ];
    Fleet::new(nodes.into())
}

/// A fleet of `count` equal nodes without problems.
pub fn large(count: usize) -> Fleet {
    let template = busy("gpu0001").up().node();
    let numbered = |number: usize| {
        let mut node = Node::clone(&template);
        node.name = name(&format!("gpu{number:04}"));
        node.hello = node.hello.map(|hello| {
            let mut hello = Hello::clone(&hello);
            hello.host.boot_id = format!("boot-{number}").into();
            Arc::new(hello)
        });
        Arc::new(node)
    };
    Fleet::new((1..=count).map(numbered).collect::<Vec<_>>().into())
}

/// Three hundred nodes in the partitions of a scheduler, some in two: one is drained, one lets in only users with a job
/// there, one is down by the scheduler's word too.
pub fn partitioned() -> Fleet {
    let templates = [
        busy("busy").up().node(),
        mixed("mixed").up().node(),
        NodeFixture::new("free").devices(&[0.0; 8]).up().node(),
    ];
    let closed = NodeFixture::new("closed").down(FaultKind::NoJob, "", Some(100)).node();
    let lost = NodeFixture::new("lost").down(FaultKind::Unreachable, "", Some(20)).node();
    let numbered = |number: usize| {
        let (template, state, reason) = match number {
            12 => (&templates[2], NodeState::Drained, Some("bad cable, ticket 7")),
            20 => (&closed, NodeState::Mixed, None),
            33 => (&lost, NodeState::Down, Some("Not responding")),
            _ if number.is_multiple_of(9) => (&templates[2], NodeState::Idle, None),
            _ if number.is_multiple_of(7) => (&templates[1], NodeState::Mixed, None),
            _ => (&templates[0], NodeState::Allocated, None),
        };
        let own = if number <= 220 { "gpu" } else { "serve" };
        let both = number.is_multiple_of(25).then_some("interactive");
        let mut node = Node::clone(template);
        node.name = name(&format!("gpu{number:03}"));
        node.hello = node.hello.map(|hello| {
            let mut hello = Hello::clone(&hello);
            hello.host.boot_id = format!("boot-{number}").into();
            Arc::new(hello)
        });
        // A closed node shows no devices: its own count is all that is known.
        let used = (0_u32..).zip(&node.devices).filter(|(_, device)| is_busy(device));
        let used: Arc<[u32]> = used.map(|(index, _)| index).collect();
        let is_seen = !node.devices.is_empty();
        let count = u32::try_from(used.len()).unwrap();
        node.scheduler = Some(Arc::new(SchedulerNode {
            partitions: [Some(own), both].into_iter().flatten().map(Into::into).collect(),
            state,
            is_responding: state != NodeState::Down,
            reason: reason.map(Into::into),
            devices: Some(8),
            allocated: Some(if is_seen { count } else { 3 }),
            allocated_indices: is_seen.then_some(used),
            ..SchedulerNode::default()
        }));
        Arc::new(node)
    };
    let fleet = Fleet::new((1..=300).map(numbered).collect::<Vec<_>>().into());
    let nodes = Arc::new(SchedulerNodes { at: Some(ago(70_000)), ..SchedulerNodes::default() });
    let jobs = JobList {
        scheduler: SchedulerKind::default().profile(),
        at: Some(ago(12_000)),
        nodes,
        ..JobList::default()
    };
    fleet.with_jobs(Some(Arc::new(jobs)))
}

/// A single workstation.
pub fn single() -> Fleet {
    let mut fixture = NodeFixture::new("workstation").devices(&[34.0]).process(
        0,
        20_417,
        "alice",
        "",
        "python finetune.py",
    );
    fixture.devices[0].name = Reading::Known("NVIDIA GeForce RTX 4090".into());
    fixture.devices[0].memory_total = Reading::Known(Bytes(24_564 << 20));
    fixture.devices[0].memory_used = Reading::Known(Bytes(9_120 << 20));
    fixture.uses[0].memory = Reading::Known(Bytes(9_000 << 20));
    fixture.devices[0].power_limit = Reading::checked(Watts::new(450.0));
    fixture.devices[0].power = Reading::checked(Watts::new(187.0));
    Fleet::new(vec![fixture.up().node()].into())
}

/// Nodes whose kernels have logged Xids: of programs, and of a device that has fallen off the bus.
pub fn with_kernel_lines() -> Fleet {
    let (place, lost) = ("0000:0a:00.0", "0000:aa:00.0");
    let fault = "Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS faulted @ 0x2b57_b3000000";
    let exception = "Graphics SM Warp Exception on (GPC 0, TPC 1): Out Of Range Address";
    let node =
        |name: &str| busy(name).up().logged((90, 1), 31, place, (Some(4711), "python", fault));
    let first = node("gpu01").logged((61, 2), 13, place, (Some(4719), "python3", exception));
    let unknown = (None, "", "GPU has fallen off the bus.");
    let second = node("gpu02").logged((60, 2), 79, lost, unknown);
    Fleet::new(vec![first.node(), second.node()].into())
}

/// A busy fleet whose nodes all change each second, at `second` seconds after [`NOW`].
pub fn changing(fixtures: &mut [NodeFixture], second: u64) -> Fleet {
    let at = NOW.plus(Duration::from_secs(second));
    for (fixture, node_index) in fixtures.iter_mut().zip(0..) {
        let load = 20.0 + (pseudo_random(second * 97 + node_index) % 80) as f32;
        for (device, index) in fixture.devices.iter_mut().zip(0..) {
            let variation = (pseudo_random(second * 31 + node_index * 8 + index) % 20) as f32;
            device.utilization =
                Reading::checked(Percent::new((load + variation - 10.0).min(100.0)));
            device.power = Reading::checked(Watts::new(80.0 + load * 6.0));
            device.temperature = Reading::checked(Celsius::new(40.0 + variation));
        }
        let sample = fixture.sample(at, -i64::try_from(second).unwrap(), true);
        fixture.builder.on_sample(sample);
    }
    Fleet::new(fixtures.iter().map(|fixture| fixture.builder.node()).collect::<Vec<_>>().into())
}

/// Changes one process, as the driver and as the kernel report it.
fn change_process(
    mut fixture: NodeFixture,
    index: usize,
    change: impl FnOnce(&mut DeviceUse, &mut ProcessReading),
) -> NodeFixture {
    change(&mut fixture.uses[index], &mut fixture.processes[index]);
    fixture
}

/// Nodes with processes of every kind: on two devices, of several users, on slices and TPU chips, zombies,
/// hidden ones, and 300 on one node.
pub fn process_kinds() -> Fleet {
    let mut first = NodeFixture::new("gpu01")
        .devices(&[88.0, 0.0, 40.0])
        .process(0, 4_121, "alice", "8421", TRAIN)
        .process(1, 4_121, "alice", "8421", TRAIN)
        .process(
            2,
            4_140,
            "bob",
            "",
            "/home/bob/a\u{5e9}\u{5dc}\u{5d5}\u{5dd} e\u{301}\u{301} 日本 👩‍💻 end",
        );
    first.processes.remove(1);
    first.processes[0].threads = Reading::Known(112);
    first.uses[0].kind = Reading::Known(UseKind::Compute);
    first.uses[0].memory_utilization = Reading::checked(Percent::new(41.0));
    first.uses[2].kind = Reading::Known(UseKind::Both);
    first.uses[2].encoder = Reading::checked(Percent::new(18.0));
    let zombie =
        NodeFixture::new("gpu02").devices(&[0.0, 3.0]).process(0, 77, "alice", "", "python x.py");
    let zombie = change_process(zombie, 0, |used, process| {
        process.state = Reading::Known(ProcessState::Zombie);
        process.resident = Reading::Known(Bytes(0));
        used.memory = Reading::Unknown(Reason::NotAvailable);
    });
    let mut hidden = NodeFixture::new("gpu03").devices(&[61.0, 0.0]).process(0, 5_000, "", "", "");
    hidden.processes.clear();
    hidden.unseen.push(UnseenProcess {
        pid: 5_000,
        why: UnseenReason::Hidden,
        statics: ProcessStatics::default(),
    });
    let mut chips = NodeFixture::new("tpu01").devices(&[73.0, 0.0]).process(
        0,
        912,
        "alice",
        "",
        "python3 pax.py",
    );
    for device in &mut chips.devices {
        device.vendor = Reading::Known(Vendor::Google);
        device.name = Reading::Known("TPU v5e".into());
        device.tpu = Some(Arc::default());
    }
    chips.uses[0].sm = Reading::Unknown(Reason::NotSupported);
    let mut many = NodeFixture::new("many").devices(&[50.0]);
    for pid in 0..300 {
        many = many.process(
            0,
            10_000 + pid,
            if pid % 3 == 0 { "alice" } else { "carol" },
            "",
            "./work --part",
        );
    }
    Fleet::new(
        vec![
            first.up().node(),
            zombie.up().node(),
            hidden.up().node(),
            sliced("gpu07").up().node(),
            chips.up().node(),
            busy("gpu08").up_until_ago(102_000).down(FaultKind::SessionLost, "", Some(12)).node(),
            many.up().node(),
        ]
        .into(),
    )
}

/// [`process_kinds`] a moment later: the first process of the first node has ended.
pub fn first_process_ended() -> Fleet {
    let mut fleet = process_kinds();
    let first = fleet.nodes.first().unwrap();
    let mut node = Node::clone(first);
    node.uses = node.uses.iter().filter(|used| used.pid != 4_121).cloned().collect();
    node.processes = node.processes.iter().filter(|one| one.key.pid != 4_121).cloned().collect();
    let nodes = std::iter::once(Arc::new(node)).chain(fleet.nodes.iter().skip(1).cloned());
    fleet.nodes = nodes.collect();
    fleet
}

/// A running job with these devices on these nodes.
fn scheduled_job(
    (id, name): (&str, &str),
    (user, partition): (&str, &str),
    nodes: &[(&str, DeviceAllocation)],
) -> Job {
    let job = running_job(id, name, user, (97_920, 172_800));
    allocated(Job { partition: partition.into(), ..job }, nodes)
}

/// A small cluster with a scheduler: two partitions, two models, five users; one slow device, several
/// allocated but idle ones, several free ones, a lost one, one node down and one stale.
pub fn cluster() -> Fleet {
    let all = || DeviceAllocation::Indices([0, 1, 2, 3, 4, 5, 6, 7].into());
    let slow = busy("gpu-002").change_device(3, |device| {
        device.utilization = Reading::checked(Percent::new(12.0));
        device.power = Reading::checked(Watts::new(211.0));
        device.throttle = Reading::Known(Throttle(0x40));
    });
    let mut shared = NodeFixture::new("gpu-004")
        .devices(&[71.0, 64.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        .process(0, 5_120, "bob", "8430", "python eval.py --suite long")
        .process(1, 5_121, "bob", "8430", "python eval.py --suite long")
        .process(2, 7_044, "carol", "", "jupyter-lab --no-browser")
        .change_device(2, |device| device.memory_used = Reading::Known(Bytes(41 << 30)));
    shared.uses[2].memory = Reading::Known(Bytes(40 << 30));
    let old = |node: &str, loads: &[f32]| {
        let mut fixture = NodeFixture::new(node).devices(loads);
        for device in &mut fixture.devices {
            device.name = Reading::Known("NVIDIA A100-SXM4-40GB".into());
            device.memory_total = Reading::Known(Bytes(40 << 30));
            device.memory_used = Reading::Known(Bytes(31 << 30));
        }
        fixture.job("dave", "8502", "python sweep.py")
    };
    let down = FaultKind::AuthenticationRefused;
    let nodes = vec![
        busy("gpu-001").up().node(),
        slow.up().node(),
        NodeFixture::new("gpu-003").devices(&[0.0; 8]).up().node(),
        shared.up().node(),
        faulty("gpu-005").up().node(),
        NodeFixture::new("gpu-006").down(down, "offers hostbased", None).node(),
        old("old-01", &[55.0, 61.0, 48.0, 33.0]).up().node(),
        old("old-02", &[12.0, 9.0, 28.0, 40.0]).up_until_ago(42_000).node(),
    ];
    let sweep = [("old-01", DeviceAllocation::Unknown), ("old-02", DeviceAllocation::Unknown)];
    let jobs = vec![
        scheduled_job(
            ("8421", "llama-70b"),
            ("alice", "h100"),
            &[("gpu-001", all()), ("gpu-002", all())],
        ),
        scheduled_job(
            ("8430", "eval"),
            ("bob", "h100"),
            &[("gpu-004", device_indices(&[0, 1, 3, 4]))],
        ),
        scheduled_job(
            ("8444", "日本語の名前 🚀"),
            ("eve", "h100"),
            &[("gpu-005", DeviceAllocation::Count(2))],
        ),
        scheduled_job(("8502", "sweep"), ("dave", "a100"), &sweep),
    ];
    let list = JobList {
        scheduler: SchedulerKind::default().profile(),
        jobs,
        at: Some(ago(2_000)),
        ..JobList::default()
    };
    watched(Fleet::new(nodes.into()).with_jobs(Some(Arc::new(list))))
}

fn job_id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

/// A running job that began `began` seconds ago and may run for `limit` seconds.
pub(crate) fn running_job(id: &str, name: &str, user: &str, (began, limit): (i64, u64)) -> Job {
    let starts_at = ago(began * 1_000);
    Job {
        id: job_id(id),
        shown_id: id.into(),
        alias: None,
        name: name.into(),
        user: user.into(),
        partition: "h100".into(),
        account: None,
        state: JobState::Running,
        native_state: Arc::default(),
        reason: None,
        submitted_at: None,
        starts_at: Some(starts_at),
        ends_at: Some(starts_at.plus(Duration::from_secs(limit))),
        limit: Some(Duration::from_secs(limit)),
        run_time: None,
        listed_at: None,
        tasks: Some(1),
        node_count: 1,
        devices_per_node: None,
        cpus: Some(96),
        memory: Some(Bytes(768 << 30)),
        allocations: Arc::default(),
    }
}

fn allocated(job: Job, nodes: &[(&str, DeviceAllocation)]) -> Job {
    let allocation = |(node, devices): &(&str, DeviceAllocation)| Allocation {
        node: name(node),
        devices: devices.clone(),
    };
    Job { allocations: nodes.iter().map(allocation).collect(), ..job }
}

fn pending_job(id: &str, name: &str, reason: &str, starts_in: Option<u64>) -> Job {
    Job {
        state: JobState::Pending,
        reason: Some(reason.into()),
        starts_at: starts_in.map(|seconds| NOW.plus(Duration::from_secs(seconds))),
        ends_at: None,
        ..running_job(id, name, "alice", (0, 3_600))
    }
}

fn with_job_list(fleet: Fleet, jobs: Vec<Job>) -> Fleet {
    let filter_text = "of alice".into();
    let list = JobList {
        scheduler: SchedulerKind::default().profile(),
        jobs,
        at: Some(ago(12_000)),
        filter_text,
        ..JobList::default()
    };
    watched(fleet.with_jobs(Some(Arc::new(list))))
}

/// Adds since when devices are idle-held, by the histories of the nodes.
fn watched(fleet: Fleet) -> Fleet {
    let waste = Waste::seeded(fleet.machines(), Some(&JobLookup::of(fleet.jobs.as_ref())));
    Fleet { waste: Arc::new(waste), ..fleet }
}

fn device_indices(indices: &[u32]) -> DeviceAllocation {
    DeviceAllocation::Indices(indices.into())
}

/// [`every_state`] with the jobs of a scheduler: one with stale and down nodes, one whose devices are idle,
/// one whose devices are unknown, and two pending. Another is known only from its processes.
pub fn with_jobs() -> Fleet {
    let all = || device_indices(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let train = [("gpu01", all()), ("gpu02", all()), ("gpu05", all()), ("gpu08", all())]
        .into_iter()
        .chain([("gpu99", all())])
        .collect::<Vec<_>>();
    let train_job = allocated(running_job("8421", "llama-70b", "alice", (97_920, 172_800)), &train);
    let idle = allocated(
        running_job("8425", "interactive", "carol", (3_500, 3_600)),
        &[("gpu03", device_indices(&[0, 1, 2, 3]))],
    );
    let unknown_devices = allocated(
        running_job("8440", "probe", "erin", (60, 600)),
        &[("gpu06", DeviceAllocation::Unknown)],
    );
    let pending = pending_job("8450", "eval-long", "Priority", Some(1_800));
    let array = pending_job("8451", "sweep", "Resources", None);
    let jobs = vec![
        train_job,
        idle,
        unknown_devices,
        pending,
        Job { shown_id: "8451_[3-5%3]".into(), tasks: Some(3), ..array },
    ];
    let share = HostShare {
        cpus: Some(96.0),
        cpus_used: Reading::Known(52.3),
        memory_limit: Some(Bytes(768 << 30)),
        memory_used: Reading::Known(Bytes(513 << 30)),
    };
    let fresh = HostShare { cpus_used: Reading::Unknown(Reason::NeedsTwoSamples), ..share };
    let mut fleet = every_state();
    let nodes = fleet.nodes.iter().map(|node| {
        let shares = [("gpu01", share), ("gpu02", fresh)];
        let share = shares.iter().find(|(name, _)| *name == node.name.as_str());
        let Some((_, share)) = share else { return Arc::clone(node) };
        let jobs = [(job_id("8421"), *share)].into();
        let shares = Some(Arc::new(HostShares { at: ago(4_000), own: None, jobs }));
        Arc::new(Node { shares, ..Node::clone(node) })
    });
    fleet.nodes = nodes.collect();
    with_job_list(fleet, jobs)
}

/// [`with_jobs`], and jobs that have ended in different ways, one of them with a hostile name.
pub fn with_finished_jobs() -> Fleet {
    let finished = |id, name, user, minutes: u64, outcome| FinishedJob {
        job: Job {
            state: JobState::Ended,
            ends_at: Some(NOW.minus(Duration::from_secs(minutes * 60))),
            run_time: Some(Duration::from_secs(minutes * 100)),
            devices_per_node: Some(8),
            ..allocated(
                running_job(id, name, user, (60, 3_600)),
                &[("gpu01", DeviceAllocation::Unknown)],
            )
        },
        outcome,
        exit_code: Some(0),
        signal: None,
        cancelled_by: None,
        devices: Some(8),
    };
    let list = vec![
        FinishedJob {
            exit_code: Some(1),
            ..finished("8419", "llama-70b", "alice", 4, JobOutcome::Failed)
        },
        finished("8418", "eval", "alice", 50, JobOutcome::Completed),
        FinishedJob {
            signal: Some(9),
            ..finished("8410", "a|b;$(x)", "bob", 130, JobOutcome::Failed)
        },
        finished("8409", "big", "bob", 140, JobOutcome::OutOfMemory),
        finished("8400", "sweep", "alice", 900, JobOutcome::TimeLimit),
        FinishedJob {
            cancelled_by: Some("root".into()),
            ..finished("8399", "idle", "carol", 1_200, JobOutcome::Cancelled)
        },
    ];
    let list = FinishedJobs { list, at: Some(NOW), ..FinishedJobs::default() };
    with_finished(with_jobs(), list)
}

/// [`with_jobs`] on a cluster without accounting.
pub fn without_accounting() -> Fleet {
    let error = Some("sacct failed: Slurm accounting storage is disabled".into());
    with_finished(with_jobs(), FinishedJobs { error, ..FinishedJobs::default() })
}

fn with_finished(fleet: Fleet, finished: FinishedJobs) -> Fleet {
    let list =
        JobList { finished: finished.into(), ..JobList::clone(fleet.jobs.as_ref().unwrap()) };
    fleet.with_jobs(Some(list.into()))
}

/// No nodes, and one pending job.
pub fn only_pending_jobs() -> Fleet {
    let pending = pending_job("8450", "eval-long", "Priority", Some(1_800));
    with_job_list(Fleet::default(), vec![pending])
}

/// [`with_jobs`] without the jobs that wait, and `count` others that do.
pub fn long_queue(count: u32) -> Fleet {
    let fleet = with_jobs();
    let mut jobs = fleet.jobs.as_deref().unwrap().jobs.clone();
    jobs.retain(|job| job.id.as_str() == "8421");
    jobs.extend((0..count).map(|index| {
        let id = (9_000 + index).to_string();
        let starts_in = (index % 3 == 0).then_some(u64::from(index) * 60 + 60);
        let job = pending_job(&id, "sweep", "Priority", starts_in);
        let user = ["bob", "carol", "erin"][usize::try_from(index % 3).unwrap()];
        Job { user: user.into(), node_count: 1 + index % 4, devices_per_node: Some(8), ..job }
    }));
    with_job_list(fleet, jobs)
}

/// `count` running jobs that share 64 nodes.
pub fn long_list(count: u32) -> Fleet {
    let fleet = many_jobs(64);
    let some = fleet.jobs.as_deref().unwrap().jobs.clone();
    let jobs = some.iter().cycle().zip(20_000..20_000 + count).map(|(job, id)| {
        let id = id.to_string();
        Job { id: job_id(&id), shown_id: id.as_str().into(), ..job.clone() }
    });
    let jobs = jobs.collect();
    with_job_list(fleet, jobs)
}

/// One job on `count` nodes.
pub fn one_large_job(count: usize) -> Fleet {
    let fleet = large(count);
    let nodes: Vec<String> = fleet.nodes.iter().map(|node| node.name.to_string()).collect();
    let all: Vec<(&str, DeviceAllocation)> = nodes
        .iter()
        .map(|node| (node.as_str(), device_indices(&[0, 1, 2, 3, 4, 5, 6, 7])))
        .collect();
    let job = allocated(running_job("8421", "llama-405b", "alice", (600, 86_400)), &all);
    with_job_list(fleet, vec![job])
}

/// A job on a node of two devices, one of them split into two slices; its indices count the slices.
pub fn job_with_slices() -> Fleet {
    let job = running_job("8421", "eval", "alice", (600, 86_400));
    let job = allocated(job, &[("gpu07", device_indices(&[0, 1, 2]))]);
    with_job_list(Fleet::new(vec![sliced("gpu07").up().node()].into()), vec![job])
}

/// A job on each of `count` nodes: eight devices on the last one, one on each of the others.
pub fn many_jobs(count: usize) -> Fleet {
    let mut fleet = large(count);
    let mut nodes = fleet.nodes.to_vec();
    for (index, node) in nodes.iter_mut().enumerate() {
        // No other job uses the allocated devices.
        let allocated_count = if index + 1 == count { 8 } else { 1 };
        let node = Arc::make_mut(node);
        let uuids: Vec<_> =
            node.devices.iter().take(allocated_count).map(|one| Arc::clone(&one.uuid)).collect();
        node.uses =
            node.uses.iter().filter(|used| !uuids.contains(&used.device)).cloned().collect();
    }
    fleet.nodes = nodes.into();
    let job = |(index, node): (usize, &Arc<Node>)| {
        let devices = if index + 1 == count { 0..8 } else { 0..1 };
        let devices = DeviceAllocation::Indices(devices.collect());
        let id = format!("{}", 100 + index);
        allocated(
            running_job(&id, "sweep", "alice", (600, 86_400)),
            &[(&*node.name.to_string(), devices)],
        )
    };
    let jobs = fleet.nodes.iter().enumerate().map(job).collect();
    with_job_list(fleet, jobs)
}

/// Jobs, users and processes whose names are too long, wide, or in other scripts.
pub fn hostile_jobs() -> Fleet {
    let node = "node-with-a-very-long-name-that-does-not-fit.cluster.example.org";
    let job = allocated(
        running_job(
            "77",
            "日本語のとても長い名前 👩 e\u{301} שלום",
            "ユーザー名が長い",
            (9_000_000, 1),
        ),
        &[
            (node, device_indices(&[0, 1])),
            ("many", DeviceAllocation::Count(20)),
            ("empty", DeviceAllocation::None),
        ],
    );
    let mut many = NodeFixture::new("many").devices(&[80.0; 20]);
    for pid in 0..300_u32 {
        let device = usize::try_from(pid % 20).unwrap();
        let user = ["ada", "ユーザー名が長い", "someone-with-a-name-longer-than-any-column"];
        let user = user[usize::try_from(pid % 3).unwrap()];
        many = many.process(device, 50_000 + pid, user, "77", "python -c 'print(1)'");
    }
    let mut nodes = rare().nodes.to_vec();
    *nodes.last_mut().unwrap() = many.up().node();
    with_job_list(Fleet::new(nodes.into()), vec![job])
}

/// [`with_jobs`] a minute later: a job has ended and another has begun, two nodes are down and one is back,
/// and flags of devices have changed.
pub fn a_minute_later() -> Fleet {
    let before = with_jobs();
    let mut nodes = before.nodes.to_vec();
    let mut change = |index: usize, change: &dyn Fn(&mut Node)| {
        let mut node = Node::clone(&nodes[index]);
        change(&mut node);
        nodes[index] = Arc::new(node);
    };
    let down = |node: &mut Node| {
        let fault = Fault::new(FaultKind::SessionLost, "");
        node.link = Link::Down { fault: fault.clone(), retry_at: None };
        node.last_fault = Some(fault);
    };
    change(0, &down);
    change(6, &down);
    change(7, &|node| node.link = Link::Up);
    change(1, &|node| {
        node.devices[3].throttle = Reading::Known(Throttle(0));
        node.devices[6].throttle = Reading::Known(Throttle(0x08));
        node.devices[7].ecc_uncorrected = Reading::Known(1);
    });
    change(5, &|node| node.devices[0].fault = Some(DeviceFault::NeedsReset));
    let list = before.jobs.as_deref().unwrap();
    let mut jobs = list.jobs.clone();
    jobs.retain(|job| job.id.as_str() != "8425");
    let nodes_of = [("gpu03", device_indices(&[0])), ("gpu07", device_indices(&[2]))];
    let begun = allocated(running_job("8450", "eval-long", "alice", (1, 7_200)), &nodes_of);
    jobs.retain(|job| job.id != begun.id);
    jobs.insert(2, begun);
    with_job_list(Fleet::new(nodes.into()), jobs)
}

/// Sets every metric that a device can report.
fn report_everything(device: &mut Device) {
    let percent = |share: f32| Reading::checked(Percent::new(share));
    let index = device.index.get().unwrap();
    device.fan = Reading::checked(FanSpeed::new(40.0 + index as f32));
    device.ecc_corrected = Reading::Known(3);
    device.details = DeviceDetails {
        encoder: percent(7.0),
        decoder: percent(12.0),
        compute_mode: Reading::Known(ComputeMode::ExclusiveProcess),
        display_active: Reading::Known(false),
        remapped_corrected: Reading::Known(u64::from(index)),
        remapped_uncorrected: Reading::Known(0),
        remapping_pending: Reading::Known(index == 2),
        remapping_failed: Reading::Known(false),
        bar1_used: Reading::Known(Bytes(6 << 30)),
        bar1_total: Reading::Known(Bytes(128 << 30)),
        ..DeviceDetails::default()
    }
    .shared();
    device.activity = DeviceActivity {
        sm_active: percent(81.0),
        sm_occupancy: percent(44.0),
        tensor_active: percent(63.0),
        pcie_received: Reading::Known(Bytes(11_400_000_000)),
        pcie_sent: Reading::Known(Bytes(640_000_000)),
        nvlink_received: Reading::Known(Bytes(212_000_000_000)),
        nvlink_sent: Reading::Known(Bytes(208_000_000_000)),
        ..DeviceActivity::default()
    }
    .shared();
}

/// A node whose devices report every metric.
pub fn fully_metered(node: &str) -> NodeFixture {
    let mut fixture = throttled(node);
    fixture.devices.truncate(4);
    fixture.uses.truncate(4);
    fixture.processes.truncate(4);
    fixture.devices.iter_mut().for_each(report_everything);
    for used in &mut fixture.uses {
        used.kind = Reading::Known(UseKind::Compute);
        used.memory_utilization = Reading::checked(Percent::new(38.0));
    }
    fixture
}

fn metered_slices(node: &str) -> NodeFixture {
    let mut fixture = sliced(node);
    for (number, device) in (1..).zip(&mut fixture.devices[1..3]) {
        device.activity = DeviceActivity {
            graphics_active: Reading::checked(Percent::new(20.0 * number as f32)),
            sm_active: Reading::checked(Percent::new(17.0 * number as f32)),
            ..DeviceActivity::default()
        }
        .shared();
        device.details = DeviceDetails {
            bar1_used: Reading::Known(Bytes(2 << 20)),
            bar1_total: Reading::Known(Bytes(64 << 30)),
            ..DeviceDetails::default()
        }
        .shared();
        device.statics = DeviceStatics {
            gpu_instance: Reading::Known(number),
            compute_instance: Reading::Known(0),
            ..DeviceStatics::default()
        }
        .shared();
    }
    fixture
}

fn tpu_chips(node: &str) -> NodeFixture {
    let mut fixture = NodeFixture::new(node).devices(&[71.0, 68.0, 0.0, 0.0]);
    for (device, index) in fixture.devices.iter_mut().zip(0_u64..) {
        *device = Device {
            uuid: format!("TPU-{node}-{index}").into(),
            index: device.index,
            vendor: Reading::Known(Vendor::Google),
            name: Reading::Known("TPU v5e".into()),
            utilization: if index < 2 {
                device.utilization
            } else {
                Reading::Unknown(Reason::NoWorkload)
            },
            memory_total: Reading::Known(Bytes(17_044_078_592)),
            memory_used: if index < 2 {
                Reading::Known(Bytes(13_000_000_000 + index * 400_000_000))
            } else {
                Reading::Unknown(Reason::NoWorkload)
            },
            temperature: Reading::Unknown(Reason::NotSupported),
            power: Reading::Unknown(Reason::NotSupported),
            power_limit: Reading::Unknown(Reason::NotSupported),
            sm_clock: Reading::Unknown(Reason::NotSupported),
            tpu: TpuDetails {
                is_held: Reading::Known(index < 3),
                nodes: Reading::Known(format!("/dev/vfio/{index}").into()),
                bandwidth: if index < 2 {
                    Reading::checked(Percent::new(33.0))
                } else {
                    Reading::Unknown(Reason::NoWorkload)
                },
                queue: if index < 2 { Reading::Known(2) } else { Reading::default() },
                by_core: if index < 2 {
                    let core =
                        |share| TpuCore { utilization: Percent::new(share), ..TpuCore::default() };
                    Reading::Known(vec![core(70.0), core(66.0)].into())
                } else {
                    Reading::default()
                },
                ..TpuDetails::default()
            }
            .shared(),
            ..Device::default()
        };
    }
    fixture.process(0, 7_001, "alice", "", "python train.py").process(
        1,
        7_001,
        "alice",
        "",
        "python train.py",
    )
}

fn amd_cards(node: &str) -> NodeFixture {
    let mut fixture = NodeFixture::new(node).devices(&[88.0, 0.0]);
    for device in &mut fixture.devices {
        device.vendor = Reading::Known(Vendor::Amd);
        device.name = Reading::Known("AMD Instinct MI300X".into());
        device.memory_total = Reading::Known(Bytes(192 << 30));
        device.power_limit = Reading::checked(Watts::new(750.0));
        device.performance_state = Reading::Unknown(Reason::NotSupported);
        device.mig = Reading::Unknown(Reason::NotSupported);
        device.details = DeviceDetails {
            junction_temperature: Reading::checked(Celsius::new(83.0)),
            fan_rpm: Reading::Known(2_150),
            video: Reading::checked(Percent::new(3.0)),
            performance_level: Reading::Known("auto".into()),
            compute_partition: Reading::Known("SPX".into()),
            memory_partition: Reading::Known("NPS1".into()),
            ..DeviceDetails::default()
        }
        .shared();
    }
    fixture.process(0, 31_337, "bob", "", "vllm serve")
}

/// Four nodes: with every metric, with slices, with TPU chips, and with AMD devices.
pub fn accelerators() -> Fleet {
    let nodes =
        [fully_metered("gpu01"), metered_slices("gpu02"), tpu_chips("tpu01"), amd_cards("amd01")];
    Fleet::new(nodes.map(|fixture| fixture.up().node()).to_vec().into())
}
