//! Made-up fleets: every state a node can be in, folded from samples as real ones are.

use std::sync::Arc;
use std::time::Duration;

use gtop::fleet::{Fleet, Node, NodeBuilder};
use gtop::model::{
    Allocation, BackendReading, BackendState, Bytes, Celsius, ComputeMode, Counter, CpuTicks,
    Device, DeviceActivity, DeviceAllocation, DeviceDetails, DeviceFault, DeviceStatics, DeviceUse,
    DevicesReading, FanSpeed, Fault, FaultKind, Hello, HostFacts, HostReading, HostSlowReading,
    Job, JobId, JobList, JobState, Link, Megahertz, NodeName, Percent, Pressure, ProcessKey,
    ProcessReading, ProcessState, ProcessStatics, ProcessesReading, Reading, Reason, Sample,
    Source, SourceFault, SourceFaultKind, Space, Throttle, TpuCore, TpuDetails, UnseenProcess,
    UnseenReason, UseKind, UsesReading, Vendor, Watts,
};
use gtop::time::Timestamp;

/// The moment of all pictures: 2025-11-21 13:05:07 UTC.
pub const NOW: Timestamp = Timestamp::from_micros(1_763_730_307_000_000);

/// Seconds of samples a node has sent.
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

/// A number that looks like chance and is always the same.
fn noise(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33
}

/// One node in the making.
pub struct Maker {
    name: String,
    builder: NodeBuilder,
    devices: Vec<Device>,
    uses: Vec<DeviceUse>,
    processes: Vec<ProcessReading>,
    unseen: Vec<UnseenProcess>,
    /// What each device does, in percent; it wavers by some points.
    loads: Vec<f32>,
    boot: String,
    last_millis: i64,
}

impl Maker {
    pub fn new(text: &str) -> Self {
        Self {
            name: text.to_owned(),
            builder: NodeBuilder::new(name(text), Duration::from_secs(300)),
            devices: Vec::new(),
            uses: Vec::new(),
            processes: Vec::new(),
            unseen: Vec::new(),
            loads: Vec::new(),
            boot: format!("boot-of-{text}"),
            last_millis: 400,
        }
    }

    pub fn devices(mut self, loads: &[f32]) -> Self {
        self.loads = loads.to_vec();
        self.devices =
            (0..).zip(loads).map(|(index, load)| h100(&self.name, index, *load)).collect();
        self
    }

    pub fn change(mut self, index: usize, change: impl FnOnce(&mut Device)) -> Self {
        change(&mut self.devices[index]);
        self
    }

    /// Gives a device a process.
    pub fn process(
        mut self,
        device: usize,
        pid: u32,
        user: &str,
        job: &str,
        command: &str,
    ) -> Self {
        let known = &self.devices[device];
        let sm = known.utilization;
        self.uses.push(DeviceUse {
            device: Arc::clone(&known.uuid),
            pid,
            memory: known.memory_used,
            sm,
            driver_name: Some("python".into()),
            ..DeviceUse::default()
        });
        self.processes.push(ProcessReading {
            key: ProcessKey { pid, start_ticks: 100 * u64::from(pid) },
            cpu_ticks: Reading::Known(0),
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

    /// Gives every device a process of one job.
    pub fn job(mut self, user: &str, job: &str, command: &str) -> Self {
        for device in 0..self.devices.len() {
            let pid = 41_200 + u32::try_from(device).unwrap() * 11;
            self = self.process(device, pid, user, job, command);
        }
        self
    }

    pub fn boot(mut self, boot: &str) -> Self {
        boot.clone_into(&mut self.boot);
        self
    }

    pub fn hello(mut self, backends: &[(&str, Option<&str>)]) -> Self {
        self.builder.on_link(Link::Up);
        let state = |(kind, absent): &(&str, Option<&str>)| BackendState {
            source: Source::new(kind),
            absent: absent.map(Into::into),
            driver: None,
        };
        self.builder.on_hello(Hello {
            probe: "python 3.11.2".into(),
            host: HostFacts {
                is_contained: false,
                host_name: self.boot.as_str().into(),
                boot_id: self.boot.as_str().into(),
                kernel: "6.1.0-13-amd64".into(),
                architecture: "x86_64".into(),
                cpus: 64,
                ticks_per_second: 100,
                hidepid: 0,
                job: None,
                user: "alice".into(),
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

    /// Sends samples until so many milliseconds ago.
    pub fn up_to(mut self, millis: i64) -> Self {
        self = self.hello(&[("nvidia-smi", None)]);
        self.last_millis = millis;
        for second in (0..SECONDS).rev() {
            let at = ago(millis + second * 1_000);
            self.builder.on_sample(self.sample(at, second, true));
        }
        self
    }

    pub fn up(self) -> Self {
        self.up_to(400)
    }

    /// Sends samples of the host alone, up to now.
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
        let list = self.devices.iter().zip(0..).map(|(device, place)| {
            let mut device = device.clone();
            if let Some(load) = device.utilization.get() {
                let waver = if second == 0 {
                    0.0
                } else {
                    (noise(seed + passed * 64 + place) % 17) as f32 - 8.0
                };
                let load = if load.get() > 5.0 {
                    (load.get() + waver).clamp(0.0, 100.0)
                } else {
                    load.get()
                };
                device.utilization = Reading::checked(Percent::new(load));
            }
            device
        });
        let devices = DevicesReading { at, list: list.collect() };
        let uses = UsesReading { at, list: self.uses.clone() };
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
        self.link(Link::Down { fault: Fault::new(kind, detail), retry_at })
    }

    pub fn source_fault(mut self, kind: SourceFaultKind, message: &str) -> Self {
        let fault = SourceFault {
            kind,
            call: "nvidia-smi --query-gpu".into(),
            message: message.into(),
            duration: Duration::from_secs(11),
            at: ago(1_000),
        };
        self.builder.on_sample(Sample { faults: vec![(smi(), fault)], ..Sample::default() });
        self
    }

    pub fn node(self) -> Arc<Node> {
        self.builder.node()
    }
}

fn host(passed: u64, seed: u64, load: f32) -> HostReading {
    let share = 2 + (load as u64) / 3 + noise(seed + passed) % 9;
    let counter = |name: &str, inward: u64, outward: u64| Counter {
        name: name.into(),
        inward: passed * inward,
        outward: passed * outward,
    };
    let busy: u64 =
        (0..=passed).map(|second| 2 + (load as u64) / 3 + noise(seed + second) % 9).sum();
    HostReading {
        cpu: Reading::Known(CpuTicks {
            busy: busy * 64,
            idle: (passed * 100).saturating_sub(busy) * 64,
        }),
        load: Reading::Known([share as f32 * 0.64, share as f32 * 0.6, share as f32 * 0.58]),
        memory_total: Reading::Known(Bytes(2_015 << 30)),
        memory_available: Reading::Known(Bytes(1_573 << 30)),
        swap_total: Reading::Known(Bytes(8 << 30)),
        swap_free: Reading::Known(Bytes(8 << 30)),
        pressure: Pressure {
            cpu: Reading::Known(Percent::new(0.4).unwrap()),
            memory: Reading::Known(Percent::new(0.0).unwrap()),
            io: Reading::Known(Percent::new(2.6).unwrap()),
        },
        uptime_seconds: Reading::Known(1_050_000 + passed),
        booted_at: Reading::default(),
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

fn slice(parent: &Device, number: u32, gib: u64, used: u64) -> Device {
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

pub fn busy(node: &str) -> Maker {
    Maker::new(node)
        .devices(&[97.0, 98.0, 97.0, 99.0, 97.0, 98.0, 98.0, 97.0])
        .job("alice", "8421", TRAIN)
}

fn mixed(node: &str) -> Maker {
    Maker::new(node)
        .devices(&[55.0, 41.0, 63.0, 30.0, 0.0, 0.0, 0.0, 0.0])
        .process(0, 5_120, "bob", "8430", "python eval.py --suite long --shots 5")
        .process(1, 5_121, "bob", "8430", "python eval.py --suite long --shots 5")
        .process(2, 7_044, "carol", "", "/home/carol/envs/x/bin/jupyter-lab --no-browser")
        .process(3, 7_045, "carol", "", "ollama serve")
}

fn throttled(node: &str) -> Maker {
    Maker::new(node)
        .devices(&[97.0, 98.0, 97.0, 12.0, 97.0, 98.0, 98.0, 97.0])
        .change(3, |device| {
            device.throttle = Reading::Known(Throttle(0x40));
            device.temperature = Reading::checked(Celsius::new(88.0));
            device.sm_clock = Reading::checked(Megahertz::new(1_155));
        })
        .change(5, |device| device.throttle = Reading::Known(Throttle(0x80)))
        .job("alice", "8421", TRAIN)
}

fn failing(node: &str) -> Maker {
    Maker::new(node)
        .devices(&[88.0, 91.0, 90.0, 0.0, 93.0, 90.0, 89.0, 92.0])
        .change(3, |device| {
            *device = Device {
                fault: Some(DeviceFault::Lost),
                uuid: Arc::clone(&device.uuid),
                index: device.index,
                name: device.name.clone(),
                pci: device.pci.clone(),
                ..Device::default()
            };
        })
        .change(6, |device| device.ecc_uncorrected = Reading::Known(4))
}

fn split(node: &str) -> Maker {
    let mut maker = Maker::new(node).devices(&[0.0, 35.0]);
    maker.devices[0].utilization = Reading::Unknown(Reason::NotSupported);
    maker.devices[0].mig = Reading::Known(true);
    let parent = maker.devices[0].clone();
    maker.devices.insert(1, slice(&parent, 0, 40, 31));
    maker.devices.insert(2, slice(&parent, 1, 20, 0));
    maker
        .process(1, 900, "dave", "", "python serve.py --port 8000")
        .process(3, 901, "dave", "", "vllm")
}

fn hostile(node: &str) -> Maker {
    Maker::new(node)
        .devices(&[50.0])
        .change(0, |device| {
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

/// Sixteen nodes in sixteen states.
pub fn every_state() -> Fleet {
    let nodes = vec![
        busy("gpu01").up().node(),
        throttled("gpu02").up().node(),
        Maker::new("gpu03").devices(&[0.0; 8]).up().node(),
        mixed("gpu04").up_to(42_000).node(),
        Maker::new("gpu05")
            .down(FaultKind::AuthenticationRefused, "offers hostbased, gssapi", None)
            .node(),
        failing("gpu06").up().node(),
        split("gpu07").up().node(),
        busy("gpu08").up_to(102_000).down(FaultKind::SessionLost, "", Some(12)).node(),
        Maker::new("gpu09").link(Link::Opening { attempt: 3 }).node(),
        Maker::new("login1")
            .hello(&[("nvidia-smi", Some("nvidia-smi not found"))])
            .host_only()
            .node(),
        mixed("gpu11").up_to(14_000).host_only().source_fault(SourceFaultKind::Stuck, "").node(),
        Maker::new("gpu12").hello(&[("nvidia-smi", None)]).host_only().node(),
        Maker::new("gpu13").node(),
        Maker::new("gpu14").down(FaultKind::HostKeyUnknown, "", None).node(),
        Maker::new("gpu15").down(FaultKind::HostKeyUnknown, "", None).node(),
        busy("gpu01.cluster").boot("boot-of-gpu01").up().node(),
    ];
    Fleet::new(nodes.into())
}

/// One node of each of the rarer kinds.
pub fn rare() -> Fleet {
    let nodes = vec![
        hostile("node-with-a-very-long-name-that-does-not-fit.cluster.example.org").up().node(),
        Maker::new("fresh").link(Link::Opening { attempt: 1 }).node(),
        Maker::new("shaking-hands").link(Link::Up).node(),
        Maker::new("broken")
            .hello(&[("nvidia-smi", None)])
            .host_only()
            .source_fault(SourceFaultKind::NoDriver, "NVIDIA-SMI has failed")
            .node(),
        Maker::new("empty").devices(&[]).up().node(),
        Maker::new("many").devices(&[80.0; 20]).up().node(),
    ];
    Fleet::new(nodes.into())
}

/// A quiet fleet of so many nodes.
pub fn large(count: usize) -> Fleet {
    let one = busy("gpu0001").up().node();
    let own = |number: usize| {
        let mut node = Node::clone(&one);
        node.name = name(&format!("gpu{number:04}"));
        node.hello = node.hello.map(|hello| {
            let mut hello = Hello::clone(&hello);
            hello.host.boot_id = format!("boot-{number}").into();
            Arc::new(hello)
        });
        Arc::new(node)
    };
    Fleet::new((1..=count).map(own).collect::<Vec<_>>().into())
}

/// Only this machine.
pub fn single() -> Fleet {
    let mut maker = Maker::new("workstation").devices(&[34.0]).process(
        0,
        20_417,
        "alice",
        "",
        "python finetune.py",
    );
    maker.devices[0].name = Reading::Known("NVIDIA GeForce RTX 4090".into());
    maker.devices[0].memory_total = Reading::Known(Bytes(24_564 << 20));
    maker.devices[0].memory_used = Reading::Known(Bytes(9_120 << 20));
    maker.uses[0].memory = Reading::Known(Bytes(9_000 << 20));
    maker.devices[0].power_limit = Reading::checked(Watts::new(450.0));
    maker.devices[0].power = Reading::checked(Watts::new(187.0));
    Fleet::new(vec![maker.up().node()].into())
}

/// A working fleet whose every node changes each second, as of so many seconds after [`NOW`].
pub fn changing(makers: &mut [Maker], second: u64) -> Fleet {
    let at = NOW.plus(Duration::from_secs(second));
    for (maker, own) in makers.iter_mut().zip(0..) {
        let load = 20.0 + (noise(second * 97 + own) % 80) as f32;
        for (device, place) in maker.devices.iter_mut().zip(0..) {
            let waver = (noise(second * 31 + own * 8 + place) % 20) as f32;
            device.utilization = Reading::checked(Percent::new((load + waver - 10.0).min(100.0)));
            device.power = Reading::checked(Watts::new(80.0 + load * 6.0));
            device.temperature = Reading::checked(Celsius::new(40.0 + waver));
        }
        let sample = maker.sample(at, -i64::try_from(second).unwrap(), true);
        maker.builder.on_sample(sample);
    }
    Fleet::new(makers.iter().map(|maker| maker.builder.node()).collect::<Vec<_>>().into())
}

/// Changes the sides of one process that a driver and the kernel tell.
fn one_process(
    mut maker: Maker,
    place: usize,
    change: impl FnOnce(&mut DeviceUse, &mut ProcessReading),
) -> Maker {
    change(&mut maker.uses[place], &mut maker.processes[place]);
    maker
}

/// Nodes with processes of every kind: one's own, those of others, of slices and chips, and those that
/// are not what they should be.
pub fn crowd() -> Fleet {
    let mut own = Maker::new("gpu01")
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
    own.processes.remove(1);
    own.processes[0].threads = Reading::Known(112);
    own.uses[0].kind = Reading::Known(UseKind::Compute);
    own.uses[0].memory_utilization = Reading::checked(Percent::new(41.0));
    own.uses[2].kind = Reading::Known(UseKind::Both);
    own.uses[2].encoder = Reading::checked(Percent::new(18.0));
    let zombie =
        Maker::new("gpu02").devices(&[0.0, 3.0]).process(0, 77, "alice", "", "python x.py");
    let zombie = one_process(zombie, 0, |used, process| {
        process.state = Reading::Known(ProcessState::Zombie);
        process.resident = Reading::Known(Bytes(0));
        used.memory = Reading::Unknown(Reason::NotAvailable);
    });
    let mut hidden = Maker::new("gpu03").devices(&[61.0, 0.0]).process(0, 5_000, "", "", "");
    hidden.processes.clear();
    hidden.unseen.push(UnseenProcess {
        pid: 5_000,
        why: UnseenReason::Hidden,
        statics: ProcessStatics::default(),
    });
    let mut chips =
        Maker::new("tpu01").devices(&[73.0, 0.0]).process(0, 912, "alice", "", "python3 pax.py");
    for device in &mut chips.devices {
        device.vendor = Reading::Known(Vendor::Google);
        device.name = Reading::Known("TPU v5e".into());
        device.tpu = Some(Arc::default());
    }
    chips.uses[0].sm = Reading::Unknown(Reason::NotSupported);
    let mut many = Maker::new("many").devices(&[50.0]);
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
            own.up().node(),
            zombie.up().node(),
            hidden.up().node(),
            split("gpu07").up().node(),
            chips.up().node(),
            busy("gpu08").up_to(102_000).down(FaultKind::SessionLost, "", Some(12)).node(),
            many.up().node(),
        ]
        .into(),
    )
}

/// The same a moment later, without the first process of the first node.
pub fn crowd_without_one() -> Fleet {
    let mut fleet = crowd();
    let first = fleet.nodes.first().unwrap();
    let mut node = Node::clone(first);
    node.uses = node.uses.iter().filter(|used| used.pid != 4_121).cloned().collect();
    node.processes = node.processes.iter().filter(|one| one.key.pid != 4_121).cloned().collect();
    let nodes = std::iter::once(Arc::new(node)).chain(fleet.nodes.iter().skip(1).cloned());
    fleet.nodes = nodes.collect();
    fleet
}

/// A job of the scheduler's list, with these devices on each of these nodes.
fn sent_to(
    (id, title): (&str, &str),
    (user, partition): (&str, &str),
    nodes: &[(&str, DeviceAllocation)],
) -> Job {
    let job = listed(id, title, user, (97_920, 172_800));
    on(Job { partition: partition.into(), ..job }, nodes)
}

/// A small cluster with a scheduler: two partitions, two models, five users; a device that lags, some
/// that are held in vain, some that are free, one that is lost, one node down and one stale.
pub fn cluster() -> Fleet {
    let all = || DeviceAllocation::Indices([0, 1, 2, 3, 4, 5, 6, 7].into());
    let slow = busy("gpu-002").change(3, |device| {
        device.utilization = Reading::checked(Percent::new(12.0));
        device.power = Reading::checked(Watts::new(211.0));
        device.throttle = Reading::Known(Throttle(0x40));
    });
    let mut held = Maker::new("gpu-004")
        .devices(&[71.0, 64.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        .process(0, 5_120, "bob", "8430", "python eval.py --suite long")
        .process(1, 5_121, "bob", "8430", "python eval.py --suite long")
        .process(2, 7_044, "carol", "", "jupyter-lab --no-browser")
        .change(2, |device| device.memory_used = Reading::Known(Bytes(41 << 30)));
    held.uses[2].memory = Reading::Known(Bytes(40 << 30));
    let old = |node: &str, loads: &[f32]| {
        let mut maker = Maker::new(node).devices(loads);
        for device in &mut maker.devices {
            device.name = Reading::Known("NVIDIA A100-SXM4-40GB".into());
            device.memory_total = Reading::Known(Bytes(40 << 30));
            device.memory_used = Reading::Known(Bytes(31 << 30));
        }
        maker.job("dave", "8502", "python sweep.py")
    };
    let down = FaultKind::AuthenticationRefused;
    let nodes = vec![
        busy("gpu-001").up().node(),
        slow.up().node(),
        Maker::new("gpu-003").devices(&[0.0; 8]).up().node(),
        held.up().node(),
        failing("gpu-005").up().node(),
        Maker::new("gpu-006").down(down, "offers hostbased", None).node(),
        old("old-01", &[55.0, 61.0, 48.0, 33.0]).up().node(),
        old("old-02", &[12.0, 9.0, 28.0, 40.0]).up_to(42_000).node(),
    ];
    let given = |places: &[u32]| DeviceAllocation::Indices(places.into());
    let sweep = [("old-01", DeviceAllocation::Unknown), ("old-02", DeviceAllocation::Unknown)];
    let jobs = vec![
        sent_to(
            ("8421", "llama-70b"),
            ("alice", "h100"),
            &[("gpu-001", all()), ("gpu-002", all())],
        ),
        sent_to(("8430", "eval"), ("bob", "h100"), &[("gpu-004", given(&[0, 1, 3, 4]))]),
        sent_to(
            ("8444", "日本語の名前 🚀"),
            ("eve", "h100"),
            &[("gpu-005", DeviceAllocation::Count(2))],
        ),
        sent_to(("8502", "sweep"), ("dave", "a100"), &sweep),
    ];
    let list = JobList { jobs, at: Some(ago(2_000)), ..JobList::default() };
    Fleet { jobs: Some(Arc::new(list)), ..Fleet::new(nodes.into()) }
}

fn job_name(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

/// A job of a scheduler that began so many seconds ago and may run for so many.
fn listed(id: &str, name: &str, user: &str, (began, limit): (i64, u64)) -> Job {
    let starts_at = ago(began * 1_000);
    Job {
        id: job_name(id),
        shown_id: id.into(),
        sluid: None,
        name: name.into(),
        user: user.into(),
        partition: "h100".into(),
        account: None,
        state: JobState::Running,
        reason: None,
        submitted_at: None,
        starts_at: Some(starts_at),
        ends_at: Some(starts_at.plus(Duration::from_secs(limit))),
        limit: Some(Duration::from_secs(limit)),
        run_time: None,
        node_count: 1,
        allocations: Arc::default(),
    }
}

fn on(job: Job, nodes: &[(&str, DeviceAllocation)]) -> Job {
    let allocation = |(node, devices): &(&str, DeviceAllocation)| Allocation {
        node: name(node),
        devices: devices.clone(),
    };
    Job { allocations: nodes.iter().map(allocation).collect(), ..job }
}

fn waiting(id: &str, name: &str, reason: &str, starts_in: Option<u64>) -> Job {
    Job {
        state: JobState::Pending,
        reason: Some(reason.into()),
        starts_at: starts_in.map(|seconds| NOW.plus(Duration::from_secs(seconds))),
        ends_at: None,
        ..listed(id, name, "alice", (0, 3_600))
    }
}

fn with_list(fleet: Fleet, jobs: Vec<Job>) -> Fleet {
    let whose = "of alice".into();
    let list = JobList { jobs, at: Some(ago(12_000)), filter_text: whose, ..JobList::default() };
    Fleet { jobs: Some(Arc::new(list)), ..fleet }
}

fn places(list: &[u32]) -> DeviceAllocation {
    DeviceAllocation::Indices(list.into())
}

/// The sixteen nodes with a scheduler's jobs: one over nodes of which some are stale or down, one
/// of devices that nobody uses, one whose devices nobody tells, and two that wait. Another is known
/// from its processes alone.
pub fn with_jobs() -> Fleet {
    let all = || places(&[0, 1, 2, 3, 4, 5, 6, 7]);
    let train = [("gpu01", all()), ("gpu02", all()), ("gpu05", all()), ("gpu08", all())]
        .into_iter()
        .chain([("gpu99", all())])
        .collect::<Vec<_>>();
    let train_job = on(listed("8421", "llama-70b", "alice", (97_920, 172_800)), &train);
    let held = on(
        listed("8425", "interactive", "carol", (3_500, 3_600)),
        &[("gpu03", places(&[0, 1, 2, 3]))],
    );
    let untold =
        on(listed("8440", "probe", "erin", (60, 600)), &[("gpu06", DeviceAllocation::Unknown)]);
    let wait = waiting("8450", "eval-long", "Priority", Some(1_800));
    let other = waiting("8451", "sweep", "Resources", None);
    let jobs =
        vec![train_job, held, untold, wait, Job { shown_id: "8451_[3-5%3]".into(), ..other }];
    with_list(every_state(), jobs)
}

/// No nodes, and a job that waits for some.
pub fn only_waiting() -> Fleet {
    let wait = waiting("8450", "eval-long", "Priority", Some(1_800));
    with_list(Fleet::default(), vec![wait])
}

/// One job on so many nodes.
pub fn one_large_job(count: usize) -> Fleet {
    let fleet = large(count);
    let nodes: Vec<String> = fleet.nodes.iter().map(|node| node.name.to_string()).collect();
    let all: Vec<(&str, DeviceAllocation)> =
        nodes.iter().map(|node| (node.as_str(), places(&[0, 1, 2, 3, 4, 5, 6, 7]))).collect();
    let job = on(listed("8421", "llama-405b", "alice", (600, 86_400)), &all);
    with_list(fleet, vec![job])
}

/// A job on a node of two devices, of which one is cut into two slices; schedulers count slices then.
pub fn job_with_slices() -> Fleet {
    let job = listed("8421", "eval", "alice", (600, 86_400));
    let job = on(job, &[("gpu07", places(&[0, 1, 2]))]);
    with_list(Fleet::new(vec![split("gpu07").up().node()].into()), vec![job])
}

/// A job on each of so many nodes, of one device each but for the last, which has eight.
pub fn many_jobs(count: usize) -> Fleet {
    let mut fleet = large(count);
    let mut nodes = fleet.nodes.to_vec();
    for (place, node) in nodes.iter_mut().enumerate() {
        // What a job was given, no other uses.
        let given = if place + 1 == count { 8 } else { 1 };
        let node = Arc::make_mut(node);
        let own: Vec<_> =
            node.devices.iter().take(given).map(|one| Arc::clone(&one.uuid)).collect();
        node.uses = node.uses.iter().filter(|used| !own.contains(&used.device)).cloned().collect();
    }
    fleet.nodes = nodes.into();
    let job = |(place, node): (usize, &Arc<Node>)| {
        let devices = if place + 1 == count { 0..8 } else { 0..1 };
        let devices = DeviceAllocation::Indices(devices.collect());
        let id = format!("{}", 100 + place);
        on(listed(&id, "sweep", "alice", (600, 86_400)), &[(&*node.name.to_string(), devices)])
    };
    let jobs = fleet.nodes.iter().enumerate().map(job).collect();
    with_list(fleet, jobs)
}

/// Jobs, users and their processes with names that do not fit, or mean harm.
pub fn hostile_jobs() -> Fleet {
    let node = "node-with-a-very-long-name-that-does-not-fit.cluster.example.org";
    let job = on(
        listed("77", "日本語のとても長い名前 👩 e\u{301} שלום", "ユーザー名が長い", (9_000_000, 1)),
        &[
            (node, places(&[0, 1])),
            ("many", DeviceAllocation::Count(20)),
            ("empty", DeviceAllocation::None),
        ],
    );
    let mut many = Maker::new("many").devices(&[80.0; 20]);
    for pid in 0..300_u32 {
        let device = usize::try_from(pid % 20).unwrap();
        let user = ["ada", "ユーザー名が長い", "someone-with-a-name-longer-than-any-column"];
        let user = user[usize::try_from(pid % 3).unwrap()];
        many = many.process(device, 50_000 + pid, user, "77", "python -c 'print(1)'");
    }
    let mut nodes = rare().nodes.to_vec();
    *nodes.last_mut().unwrap() = many.up().node();
    with_list(Fleet::new(nodes.into()), vec![job])
}

/// The next picture of [`with_jobs`]: a job has ended and another begun, a node is lost and one back,
/// one is hot no more.
pub fn a_minute_later() -> Fleet {
    let before = with_jobs();
    let mut nodes = before.nodes.to_vec();
    let mut change = |place: usize, change: &dyn Fn(&mut Node)| {
        let mut node = Node::clone(&nodes[place]);
        change(&mut node);
        nodes[place] = Arc::new(node);
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
    let nodes_of = [("gpu03", places(&[0])), ("gpu07", places(&[2]))];
    let begun = on(listed("8450", "eval-long", "alice", (1, 7_200)), &nodes_of);
    jobs.retain(|job| job.id != begun.id);
    jobs.insert(2, begun);
    with_list(Fleet::new(nodes.into()), jobs)
}

/// A device that tells everything there is to tell.
fn talkative(device: &mut Device) {
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

/// A node whose devices tell everything there is to tell.
pub fn rich(node: &str) -> Maker {
    let mut maker = throttled(node);
    maker.devices.truncate(4);
    maker.uses.truncate(4);
    maker.processes.truncate(4);
    maker.devices.iter_mut().for_each(talkative);
    for used in &mut maker.uses {
        used.kind = Reading::Known(UseKind::Compute);
        used.memory_utilization = Reading::checked(Percent::new(38.0));
    }
    maker
}

fn measured_slices(node: &str) -> Maker {
    let mut maker = split(node);
    for (number, device) in (1..).zip(&mut maker.devices[1..3]) {
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
    maker
}

fn chips(node: &str) -> Maker {
    let mut maker = Maker::new(node).devices(&[71.0, 68.0, 0.0, 0.0]);
    for (device, place) in maker.devices.iter_mut().zip(0_u64..) {
        *device = Device {
            uuid: format!("TPU-{node}-{place}").into(),
            index: device.index,
            vendor: Reading::Known(Vendor::Google),
            name: Reading::Known("TPU v5e".into()),
            utilization: if place < 2 {
                device.utilization
            } else {
                Reading::Unknown(Reason::NoWorkload)
            },
            memory_total: Reading::Known(Bytes(17_044_078_592)),
            memory_used: if place < 2 {
                Reading::Known(Bytes(13_000_000_000 + place * 400_000_000))
            } else {
                Reading::Unknown(Reason::NoWorkload)
            },
            temperature: Reading::Unknown(Reason::NotSupported),
            power: Reading::Unknown(Reason::NotSupported),
            power_limit: Reading::Unknown(Reason::NotSupported),
            sm_clock: Reading::Unknown(Reason::NotSupported),
            tpu: TpuDetails {
                is_held: Reading::Known(place < 3),
                nodes: Reading::Known(format!("/dev/vfio/{place}").into()),
                bandwidth: if place < 2 {
                    Reading::checked(Percent::new(33.0))
                } else {
                    Reading::Unknown(Reason::NoWorkload)
                },
                queue: if place < 2 { Reading::Known(2) } else { Reading::default() },
                by_core: if place < 2 {
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
    maker.process(0, 7_001, "alice", "", "python train.py").process(
        1,
        7_001,
        "alice",
        "",
        "python train.py",
    )
}

fn cards(node: &str) -> Maker {
    let mut maker = Maker::new(node).devices(&[88.0, 0.0]);
    for device in &mut maker.devices {
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
    maker.process(0, 31_337, "bob", "", "vllm serve")
}

/// A node each of what tells everything, of slices, of TPU chips and of AMD's cards.
pub fn accelerators() -> Fleet {
    let nodes = [rich("gpu01"), measured_slices("gpu02"), chips("tpu01"), cards("amd01")];
    Fleet::new(nodes.map(|maker| maker.up().node()).to_vec().into())
}
