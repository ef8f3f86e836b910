//! Decodes the bodies of frames to the model's types: probe time becomes local time, words become enums.

use std::sync::Arc;
use std::time::Duration;

use crate::wire::body::{self, Body, Raw};
use crate::wire::checked::{sanitize_name, to_f32};
use crate::wire::csv::{self, MAX_DEVICES, MAX_USES, Slices};
use crate::wire::decode::names::NameInterner;
use crate::wire::delivery::{Delivery, RawUpdate};
use crate::wire::scrape::ScrapeDecoder;
use gtop_local::text::sanitize_shared;
use gtop_local::time::{ClockOffset, Timestamp};
use gtop_model::{
    BackendReading, BackendState, Bytes, Counter, CpuTicks, Device, DeviceEvidence, DeviceFault,
    DevicesReading, DriverFacts, Event, EventKind, Hello, HostFacts, HostReading, HostShareReading,
    HostSlowReading, JobId, KernelLine, Link, NodeUpdate, PciFunction, Pressure, ProbeCost,
    ProcessesReading, Reading, Reason, Sample, SessionUpdate, SharesReading, Source, SourceFault,
    SourceFaultKind, Space, SudoState, UsesReading, Vendor,
};

pub use process::job_of_cgroup;

pub(crate) use answer::decode_response;

mod answer;
mod device;
mod evidence;
mod names;
mod process;

/// Maximum number of interfaces, ports, disks or file systems of one node.
const MAX_PARTS: usize = 64;
/// Maximum length of a message of a driver or of the kernel.
const MAX_MESSAGE_LENGTH: usize = 200;
/// Maximum number of displays and accelerators on the PCI bus of one node.
const MAX_PCI_FUNCTIONS: usize = 256;
/// Maximum number of jobs of a node.
const MAX_JOBS: usize = 1024;
/// A host that claims to have more CPUs is wrong.
const MAX_CPUS: f64 = 65_536.0;
/// A probe that claims to use more cores is wrong.
const MAX_CORES: f64 = 1024.0;

/// Decodes the bodies of one session; learns the node's clock as it goes.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    offset: ClockOffset,
    /// The MIG slices `nvidia-smi` last listed; it lists them less often than devices.
    slices: Slices,
    names: NameInterner,
    /// The evidence before, which is often sent again.
    evidence: Option<Arc<DeviceEvidence>>,
    scrapes: ScrapeDecoder,
}

impl Decoder {
    /// Decodes what arrived, in the order in which it applies; nothing if it changes nothing of the node.
    pub fn updates(&mut self, delivery: &Delivery) -> impl Iterator<Item = NodeUpdate> + use<> {
        let updates = match &delivery.raw {
            RawUpdate::Session(update) => {
                self.on_session(update);
                [Some(NodeUpdate::Session(update.clone())), None]
            }
            RawUpdate::Frame(frame) => [self.decode(&frame.body, delivery.at), None],
            RawUpdate::Scrape(text) => self.scrapes.decode(text, delivery.at),
        };
        updates.into_iter().flatten()
    }

    fn on_session(&mut self, update: &SessionUpdate) {
        match update {
            // The clock offset of the last session does not apply to the next one.
            SessionUpdate::Link(Link::Opening { .. }) => *self = Self::default(),
            SessionUpdate::Interval(interval) => self.scrapes.interval = *interval,
            SessionUpdate::Link(Link::Idle | Link::Up | Link::Down { .. })
            | SessionUpdate::Reached(_)
            | SessionUpdate::RecordedEvery(_)
            | SessionUpdate::Gone(_) => {}
        }
    }

    /// Decodes a body that arrived at `arrival`; `None` for responses and kinds this version does not know.
    pub fn decode(&mut self, body: &Body, arrival: Timestamp) -> Option<NodeUpdate> {
        Some(match body {
            Body::Hello(sent) => {
                self.offset.update(sent.at, arrival);
                NodeUpdate::Hello(self.hello(sent, arrival))
            }
            Body::Sample(sent) => {
                self.offset.update(sent.at, arrival);
                NodeUpdate::Sample(Box::new(self.sample(sent, arrival)))
            }
            Body::Error(sent) => {
                self.offset.update(sent.at, arrival);
                let fault = self.source_fault(sent, arrival);
                let faults = vec![(Source::new(&sent.source), fault)];
                NodeUpdate::Sample(Box::new(Sample { faults, ..Sample::default() }))
            }
            Body::Event(sent) => {
                self.offset.update(sent.at, arrival);
                NodeUpdate::Event(self.event(sent, arrival))
            }
            // Responses go only to the caller of the request, and the end of a session has its own reason.
            Body::Answer(_) | Body::Bye(_) | Body::Other => return None,
        })
    }

    /// Learns the node's clock anew: another session may have begun.
    pub(crate) fn forget_clock(&mut self) {
        self.offset = ClockOffset::default();
    }

    fn local_time(&self, probe_seconds: f64, arrival: Timestamp) -> Timestamp {
        self.offset.local_time(probe_seconds, arrival).unwrap_or(arrival)
    }

    fn sample(&mut self, sent: &body::Sample, arrival: Timestamp) -> Sample {
        let took = sent.took.value().filter(|took| (0.0..1e6).contains(took));
        let backends: Vec<BackendReading> =
            sent.backends.iter().take(8).map(|sent| self.backend(sent, arrival)).collect();
        let faults = backends.iter().zip(&sent.backends).filter_map(unreadable_devices).collect();
        Sample {
            faults,
            number: sent.n,
            is_complete: sent.full,
            took: took.map(|took| Duration::from_secs_f64(took / 1000.0)),
            clock: self.offset,
            host: sent.host.as_ref().map(|sent| {
                let at = self.local_time(sent.at, arrival);
                (at, host(sent, at, &mut self.names))
            }),
            host_slow: sent
                .host_slow
                .as_ref()
                .map(|sent| (self.local_time(sent.at, arrival), host_slow(sent))),
            backends,
            processes: sent.processes.as_ref().map(|sent| {
                let list = sent.list.iter().take(MAX_USES).filter(|sent| sent.pid > 0);
                let unseen = sent.unseen.iter().take(MAX_USES).filter(|sent| sent.pid > 0);
                ProcessesReading {
                    at: self.local_time(sent.at, arrival),
                    list: list.map(process::process).collect(),
                    unseen: unseen.filter_map(process::unseen_process).collect(),
                }
            }),
            shares: sent
                .shares
                .as_ref()
                .map(|sent| shares(sent, self.local_time(sent.at, arrival))),
            evidence: sent.evidence.as_deref().map(|sent| self.evidence(sent)),
            cost: sent.cost.and_then(|cost| probe_cost(cost, self.local_time(sent.at, arrival))),
        }
    }

    fn evidence(&mut self, sent: &body::Evidence) -> Arc<DeviceEvidence> {
        let decoded = evidence::evidence(sent);
        match &self.evidence {
            Some(known) if **known == decoded => Arc::clone(known),
            Some(_) | None => Arc::clone(self.evidence.insert(Arc::new(decoded))),
        }
    }

    fn backend(&mut self, sent: &body::Backend, arrival: Timestamp) -> BackendReading {
        let list = match (&sent.csv, &sent.devices) {
            (Some(text), _) => {
                let mut devices = csv::decode_devices(text, sent.more.as_ref());
                if let Some(mig) = &sent.mig {
                    self.slices = Slices::parse(mig);
                }
                self.slices.add_to(&mut devices, sent.mig.is_some());
                csv::set_device_minors(&mut devices, &sent.minors);
                Some(devices)
            }
            (None, Some(typed)) => Some(
                typed
                    .iter()
                    .take(MAX_DEVICES)
                    .filter(|device| !device.uuid.is_empty())
                    .map(|device| device::device(device, &mut self.names))
                    .collect(),
            ),
            (None, None) => None,
        };
        let vendor = Vendor::from_backend(&sent.kind);
        let vendor = vendor.map_or(Reading::Unknown(Reason::NotAvailable), Reading::Known);
        let devices = list.map(|mut list: Vec<Device>| {
            for device in &mut list {
                device.vendor = vendor;
            }
            device::share_equal_values(&mut list);
            // It ended at a device that cannot be read.
            let is_cut_short =
                sent.csv.as_ref().is_some_and(|text| text.rows.is_empty() && !list.is_empty());
            DevicesReading { at: self.local_time(sent.at, arrival), list, is_cut_short }
        });
        let uses = match (&sent.apps, &sent.uses) {
            (Some(text), _) => {
                let list = self.slices.assign_uses(csv::decode_uses(text));
                let nameless = csv::count_nameless(text);
                Some(UsesReading { at: self.local_time(text.at, arrival), list, nameless })
            }
            (None, Some(typed)) => Some(UsesReading {
                at: self.local_time(typed.at, arrival),
                list: device::uses(&typed.list, &mut self.names),
                nameless: typed
                    .nameless
                    .iter()
                    .take(MAX_DEVICES)
                    .map(|(uuid, count)| (sanitize_name(uuid), *count))
                    .collect(),
            }),
            (None, None) => None,
        };
        let slow_at = sent.slow.value().map(|at| self.local_time(at, arrival));
        BackendReading { source: Source::new(&sent.kind), slow_at, devices, uses }
    }

    fn event(&self, sent: &body::Event, arrival: Timestamp) -> Event {
        let line = self.kernel_line(sent, arrival).map(Arc::new);
        let (at, device, message) = match &line {
            Some(line) => (line.at, Arc::clone(&line.pci), "".into()),
            None => (
                self.local_time(sent.at, arrival),
                sanitize_name(&sent.device),
                message(sent.message.as_deref()),
            ),
        };
        Event {
            at,
            source: Source::new(&sent.source),
            kind: EventKind::new(&sent.kind),
            device,
            code: sent.code.value(),
            message,
            count: sent.occurrences(),
            line,
        }
    }

    /// Decodes what the kernel logged of an event; `None` if the event comes from elsewhere, or if this cannot be right.
    fn kernel_line(&self, sent: &body::Event, arrival: Timestamp) -> Option<KernelLine> {
        let at = self.log_time(sent.logged, sent.at, arrival)?;
        let number = sent.seq.value()?;
        Some(KernelLine {
            at,
            number,
            first_number: sent.first.value().unwrap_or(number).min(number),
            first_at: self.log_time(sent.since, sent.at, arrival).map_or(at, |since| since.min(at)),
            pci: whole_pci_id(sent.pci.as_deref()?)?,
            gpu_instance: sent.instance.value_as(),
            pid: sent.pid.value_as(),
            process: sanitize_shared(sent.process.as_deref().unwrap_or_default(), 32),
            words: message(sent.message.as_deref()),
        })
    }

    /// Returns when something was logged; `None` if that is not between the boot and the time of its frame.
    fn log_time(&self, logged: Raw<f64>, frame: f64, arrival: Timestamp) -> Option<Timestamp> {
        let logged = logged.value().filter(|logged| (0.0..=frame).contains(logged))?;
        Some(self.local_time(logged, arrival))
    }

    fn source_fault(&self, sent: &body::SourceError, arrival: Timestamp) -> SourceFault {
        SourceFault {
            kind: fault_kind(&sent.code, &sent.source),
            call: sanitize_name(&sent.call),
            message: message(sent.message.as_deref()),
            duration: sent.lasting.value().and_then(seconds).unwrap_or_default(),
            at: self.local_time(sent.at, arrival),
            code: None,
        }
    }

    fn hello(&self, sent: &body::Hello, arrival: Timestamp) -> Hello {
        let at = self.local_time(sent.at, arrival);
        let mut hello = hello(sent);
        hello.driver_loaded_at = self.log_time(sent.driver_loaded, sent.at, arrival);
        for (backend, sent) in hello.backends.iter_mut().zip(&sent.backends) {
            backend.fault = sent.code.as_deref().map(|code| SourceFault {
                kind: fault_kind(code, &sent.kind),
                call: sanitize_name(sent.call.as_deref().unwrap_or_default()),
                message: message(sent.message.as_deref()),
                duration: Duration::ZERO,
                at,
                code: sent.number.value_as(),
            });
        }
        hello
    }
}

/// Returns the message of a driver or of the kernel; empty if there is none.
fn message(sent: Option<&str>) -> Arc<str> {
    sanitize_shared(sent.unwrap_or_default(), MAX_MESSAGE_LENGTH)
}

/// Returns a PCI id with its function, as drivers have it; `None` if it is none. The kernel's log leaves the function out.
fn whole_pci_id(id: &str) -> Option<Arc<str>> {
    let (domain, place) = id.split_once(':')?;
    let (bus, slot) = place.split_once(':')?;
    let is_whole = [(domain, 8), (bus, 2), (slot, 2)].iter().all(|(digits, max)| {
        (1..=*max).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    is_whole.then(|| format!("{id}.0").to_ascii_lowercase().into())
}

/// Returns the fault of a source that lists no devices, or none that can be read.
fn unreadable_devices(
    (reading, sent): (&BackendReading, &body::Backend),
) -> Option<(Source, SourceFault)> {
    let text = sent.csv.as_ref().filter(|text| text.rows.is_empty())?;
    let devices = reading.devices.as_ref()?;
    let kind = match devices.list.first().map(|device| &device.fault) {
        None => SourceFaultKind::NoDevices,
        Some(Some(DeviceFault::Lost)) => SourceFaultKind::Lost,
        Some(Some(DeviceFault::NoPermission)) => SourceFaultKind::NoPermission,
        Some(_) => SourceFaultKind::Failed,
    };
    let fault = SourceFault {
        kind,
        call: "nvidia-smi --query-gpu".into(),
        message: message(Some(text.noise.first()?)),
        duration: Duration::ZERO,
        at: devices.at,
        code: None,
    };
    Some((reading.source.clone(), fault))
}

/// Returns the fault of a source for the code of an error.
fn fault_kind(code: &str, source: &str) -> SourceFaultKind {
    match code {
        "starting" => SourceFaultKind::Starting,
        "slow" => SourceFaultKind::Slow,
        "silent" => SourceFaultKind::Unanswered,
        "stuck" if source.starts_with("host") => SourceFaultKind::HostStuck,
        "stuck" => SourceFaultKind::Stuck,
        "nolib" => SourceFaultKind::NoLibrary,
        "nodriver" => SourceFaultKind::NoDriver,
        "start" => SourceFaultKind::NoStart,
        "mismatch" => SourceFaultKind::Mismatch,
        "perm" => SourceFaultKind::NoPermission,
        "lost" => SourceFaultKind::Lost,
        "parse" => SourceFaultKind::Unreadable,
        _ => SourceFaultKind::Failed,
    }
}

fn seconds(value: f64) -> Option<Duration> {
    (0.0..1e9).contains(&value).then(|| Duration::from_secs_f64(value))
}

/// Returns what a probe costs; `None` if that is impossible.
fn probe_cost(sent: body::Cost, at: Timestamp) -> Option<ProbeCost> {
    let is_possible = (0.0..=MAX_CORES * 100.0).contains(&sent.cpu) && sent.seconds > 0.0;
    is_possible.then(|| ProbeCost { core_percent: to_f32(sent.cpu), at })
}

fn hello(sent: &body::Hello) -> Hello {
    Hello {
        probe: sanitize_name(format!("{} {}", sent.probe, sent.version).trim()),
        is_shell_probe: sent.probe == "sh",
        host: HostFacts {
            host_name: sanitize_name(&sent.host),
            boot_id: sanitize_name(&sent.boot),
            kernel: sanitize_name(&sent.kernel),
            architecture: sanitize_name(&sent.arch),
            cpus: sent.cpus,
            ticks_per_second: if sent.tick == 0 { 100 } else { sent.tick },
            hidepid: sent.hidepid,
            is_contained: sent.contained,
            user: sanitize_name(&sent.user),
            job: job_of_cgroup(sent.cgroup.as_deref()),
            pci: sent.pci.iter().take(MAX_PCI_FUNCTIONS).filter_map(pci_function).collect(),
        },
        intervals: sent
            .intervals
            .iter()
            .take(MAX_PARTS)
            .filter_map(|(source, interval)| Some((Source::new(source), seconds(*interval)?)))
            .collect(),
        backends: sent
            .backends
            .iter()
            .take(MAX_PARTS)
            .map(|backend| BackendState {
                source: Source::new(&backend.kind),
                absent: (backend.state == "absent")
                    .then(|| sanitize_name(backend.why.as_deref().unwrap_or("no reason given"))),
                is_missing: backend.missing,
                fault: None,
                driver: driver_facts(backend),
            })
            .collect(),
        devices_left_out: 0,
        bus_devices: names(&sent.expected),
        commands: names(&sent.commands),
        has_evidence: sent.evidence,
        sudo: sent.sudo.as_deref().map(SudoState::of_word),
        reads_kernel_log: sent.kernel_log,
        driver_loaded_at: None,
    }
}

fn names<N: FromIterator<Arc<str>>>(sent: &[String]) -> N {
    sent.iter().take(MAX_PARTS).map(|name| sanitize_name(name)).collect()
}

/// Decodes a function on the PCI bus; `None` if its numbers are not those of sysfs.
fn pci_function(
    (address, vendor, device, class, driver): &(String, String, String, String, String),
) -> Option<PciFunction> {
    Some(PciFunction {
        address: sanitize_name(address),
        vendor: hex_number(vendor)?.try_into().ok()?,
        device: hex_number(device)?.try_into().ok()?,
        class: hex_number(class)?,
        driver: (!driver.is_empty()).then(|| sanitize_name(driver)),
    })
}

fn hex_number(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn driver_facts(sent: &body::BackendState) -> Option<Arc<DriverFacts>> {
    let [version, library, cuda, no_events] =
        [&sent.driver, &sent.library, &sent.cuda, &sent.events]
            .map(|text| text.as_deref().map(sanitize_name));
    let is_experimental = sent.experimental;
    let facts = DriverFacts { version, library, cuda, no_events, is_experimental };
    (facts != DriverFacts::default()).then(|| Arc::new(facts))
}

fn host(sent: &body::Host, at: Timestamp, names: &mut NameInterner) -> HostReading {
    let uptime = sent.uptime.reading(Reason::NotAvailable).and_then(seconds);
    let [network, infiniband] = [&sent.net, &sent.infiniband].map(|list| {
        counters(list.iter().flatten().map(|sent| (&*sent.name, sent.rx, sent.tx)), names)
    });
    let disks = sent.disk.iter().flatten().map(|sent| (&*sent.name, sent.read, sent.write));
    HostReading {
        cpu: parse_list(sent.cpu.as_deref(), cpu_ticks),
        load: parse_list(sent.load.as_deref(), load),
        memory_total: bytes(sent.memory_total),
        memory_available: bytes(sent.memory_available),
        memory_cached: bytes(sent.memory_cached),
        memory_buffers: bytes(sent.memory_buffers),
        swap_total: bytes(sent.swap_total),
        swap_free: bytes(sent.swap_free),
        pressure: sent.pressure.map_or_else(Pressure::default, |sent| Pressure {
            cpu: sent.cpu.checked(),
            memory: sent.memory.checked(),
            io: sent.io.checked(),
        }),
        uptime_seconds: uptime.map(|up| up.as_secs()),
        booted_at: uptime.map(|up| at.minus(up)),
        cpu_utilization: Reading::default(),
        network,
        infiniband,
        disks: counters(disks, names),
    }
}

fn shares(sent: &body::Shares, at: Timestamp) -> SharesReading {
    let jobs = sent.jobs.iter().take(MAX_JOBS);
    SharesReading {
        at,
        own: host_share(sent.own),
        jobs: jobs.filter_map(|(job, sent)| Some((JobId::new(job)?, host_share(*sent)))).collect(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
fn host_share(sent: body::HostShare) -> HostShareReading {
    let cpus = sent.cpus.value().filter(|cpus| (0.0..=MAX_CPUS).contains(cpus));
    HostShareReading {
        cpus: cpus.map(|cpus| cpus as f32).filter(|cpus| *cpus > 0.0),
        cpu_time: sent.cpu.value().map(Duration::from_micros),
        memory_limit: bytes(sent.memory_limit).get(),
        memory: bytes(sent.memory),
    }
}

/// Parses a list that encodes one value; an absent key was not sampled.
fn parse_list<S, T>(sent: Option<&[S]>, parse: impl FnOnce(&[S]) -> Option<T>) -> Reading<T> {
    Reading::of(sent, |list| Reading::checked(parse(list)))
}

fn cpu_ticks(ticks: &[u64]) -> Option<CpuTicks> {
    let &[user, nice, system, idle, iowait, irq, softirq, steal] = ticks else { return None };
    let busy = [user, nice, system, irq, softirq, steal];
    Some(CpuTicks {
        busy: busy.into_iter().try_fold(0_u64, u64::checked_add)?,
        idle: idle.checked_add(iowait)?,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
fn load(averages: &[f64]) -> Option<[f32; 3]> {
    let &[one, five, fifteen] = averages else { return None };
    let is_sane = [one, five, fifteen].iter().all(|load| (0.0..1e7).contains(load));
    is_sane.then_some([one as f32, five as f32, fifteen as f32])
}

/// Decodes counters from their names and bytes in and out.
fn counters<'a>(
    list: impl Iterator<Item = (&'a str, u64, u64)>,
    names: &mut NameInterner,
) -> Arc<[Counter]> {
    list.take(MAX_PARTS)
        .map(|(name, inward, outward)| Counter { name: names.intern(name, 32), inward, outward })
        .collect()
}

fn host_slow(sent: &body::HostSlow) -> HostSlowReading {
    let space = sent.space.iter().flatten().take(MAX_PARTS).map(|sent| Space {
        path: sanitize_name(&sent.path),
        total: Bytes(sent.total),
        free: Bytes(sent.free),
    });
    HostSlowReading { temperature: sent.temperature.checked(), space: space.collect() }
}

fn bytes(raw: Raw<u64>) -> Reading<Bytes> {
    raw.reading(Reason::NotAvailable).map(Bytes)
}

fn text_reading(sent: Option<&str>, limit: usize) -> Reading<Arc<str>> {
    text_or(sent, limit, Reason::NotSampled)
}

/// Reads a text; if there is none, it is unknown for this reason.
fn text_or(sent: Option<&str>, limit: usize, reason: Reason) -> Reading<Arc<str>> {
    sent.map_or(Reading::Unknown(reason), |text| Reading::Known(sanitize_shared(text, limit)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checked::MAX_NAME_LENGTH;
    use crate::wire::{FrameReader, Received};

    /// `BLESS=1 cargo test` rewrites the expected file.
    #[test]
    fn every_value_of_a_node_is_decoded_under_its_own_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/wire");
        let mut reader = FrameReader::default();
        for line in std::fs::read_to_string(format!("{folder}/complete.jsonl")).unwrap().lines() {
            reader.push(format!("\x1egtop1 {line}\n"));
        }
        let (mut decoder, mut lines) = (Decoder::default(), String::new());
        while let Some(Received::Frame(frame)) = reader.next_frame() {
            let arrival = Timestamp::from_micros(1_700_000_000_000_000);
            // The last frame is a goodbye, which changes nothing of the node.
            let Some(update) = decoder.decode(&frame.body, arrival) else { continue };
            let sample_text = format!("{update:?}\n");
            // One line per value, without those that were not sampled.
            let sample_text = sample_text.replace(", ", ",\n");
            lines.extend(
                sample_text.split_inclusive('\n').filter(|line| !line.contains("(NotSampled)")),
            );
        }
        let expected = format!("{folder}/complete.txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &lines).unwrap();
        }
        let known = std::fs::read_to_string(expected).unwrap();
        assert!(lines == known, "the decoded values differ from complete.txt; BLESS=1 rewrites it");
    }

    #[test]
    fn impossible_values_do_not_affect_others() {
        let sent = body::Host {
            cpu: Some(vec![1, 2, 3]),
            load: Some(vec![1.0, f64::MAX, 0.0]),
            memory_total: Raw::Value(1 << 40),
            uptime: Raw::Value(-5.0),
            ..body::Host::default()
        };
        let host = host(&sent, Timestamp::default(), &mut NameInterner::default());
        assert_eq!(host.cpu, Reading::Unknown(Reason::Malformed));
        assert_eq!(host.load, Reading::Unknown(Reason::Malformed));
        assert_eq!(host.uptime_seconds, Reading::Unknown(Reason::Malformed));
        assert_eq!(host.memory_total, Reading::Known(Bytes(1 << 40)));
        assert_eq!(host.swap_total, Reading::Unknown(Reason::NotSampled));
    }

    #[test]
    fn what_has_no_pid_is_no_process() {
        let sent = body::Sample {
            processes: Some(body::Processes {
                list: vec![body::Process { start: 7, ..body::Process::default() }],
                unseen: vec![body::Unseen { why: "gone".to_owned(), ..body::Unseen::default() }],
                ..body::Processes::default()
            }),
            backends: vec![body::Backend {
                uses: Some(body::Uses {
                    list: [0, 7]
                        .map(|pid| body::Use {
                            device: "GPU-1".to_owned(),
                            pid,
                            ..body::Use::default()
                        })
                        .into(),
                    ..body::Uses::default()
                }),
                ..body::Backend::default()
            }],
            ..body::Sample::default()
        };
        let sample = Decoder::default().sample(&sent, Timestamp::default());
        let processes = sample.processes.unwrap();
        assert!(processes.list.is_empty() && processes.unseen.is_empty());
        let uses = &sample.backends[0].uses.as_ref().unwrap().list;
        assert_eq!(uses.iter().map(|used| used.pid).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn the_texts_of_an_event_are_bounded_and_sanitized() {
        let sent = body::Event {
            at: f64::MAX,
            source: "nvml".into(),
            kind: "\u{1b}[2Jmeteor".repeat(99),
            device: "x".repeat(9999),
            code: Raw::Wrong,
            message: Some("\u{202e}".repeat(9999)),
            count: Raw::Value(0),
            ..body::Event::default()
        };
        let arrival = Timestamp::from_micros(7);
        let Some(NodeUpdate::Event(event)) = Decoder::default().decode(&Body::Event(sent), arrival)
        else {
            panic!()
        };
        assert_eq!((event.at, event.code, event.count), (arrival, None, 1));
        assert!(event.kind.as_str().starts_with("[2Jmeteor") && event.kind.as_str().len() <= 32);
        assert_eq!((event.device.len(), &*event.message), (MAX_NAME_LENGTH, ""));
    }

    /// Decodes an event of the kernel's log that arrives 1,000 s after the epoch and 100 s after the boot of the node.
    fn kernel_event(keys: &str) -> Event {
        let sent = format!(
            r#"{{"t":"event","at":100,"source":"kernel","kind":"xid","device":"","code":79{keys}}}"#
        );
        let mut reader = FrameReader::default();
        reader.push(format!("\x1egtop1 {sent}\n"));
        let Some(Received::Frame(frame)) = reader.next_frame() else { panic!("{sent}") };
        let arrival = Timestamp::from_micros(1_000_000_000);
        match Decoder::default().decode(&frame.body, arrival) {
            Some(NodeUpdate::Event(event)) => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_kernel_logged_has_its_own_time_and_the_pci_id_that_drivers_give() {
        let event = kernel_event(
            &[
                r#","pci":"0000:3B:00","pid":7,"process":"py\u001bthon","seq":12,"logged":40"#,
                r#","first":3,"since":10,"count":9,"instance":5,"message":"fell off"#,
                "\"",
            ]
            .concat(),
        );
        let line = event.line.as_deref().unwrap();
        assert_eq!((event.at, event.count, &*event.message), (line.at, 9, ""));
        assert_eq!((&*event.device, &*line.pci), ("0000:3b:00.0", "0000:3b:00.0"));
        let second = |at: Timestamp| at.as_micros() / 1_000_000;
        assert_eq!((second(line.at), second(line.first_at)), (940, 910));
        assert_eq!((line.number, line.first_number, line.gpu_instance), (12, 3, Some(5)));
        assert_eq!(line.text(), "pid 7 (py thon): fell off");
    }

    #[test]
    fn what_the_kernel_cannot_have_logged_is_no_line_of_its_log() {
        let place = r#","pci":"0000:3b:00""#;
        for keys in [
            r#","seq":1,"logged":101"#,
            r#","seq":1,"logged":-1"#,
            r#","seq":1,"logged":1e300"#,
            r#","seq":1,"logged":null"#,
            r#","seq":-1,"logged":40"#,
            r#","logged":40"#,
        ] {
            assert_eq!(kernel_event(&format!("{place}{keys}")).line, None, "{keys}");
        }
        let number = r#","seq":1,"logged":40"#;
        for pci in ["", "3b:00", "x:3b:00", "0000:3b:000", "0000:3b:00:1", "000000000:3b:00"] {
            let keys = format!(r#","pci":"{pci}"{number}"#);
            let event = kernel_event(&keys);
            assert_eq!((event.line, &*event.device), (None, ""), "{pci}");
        }
        let line =
            kernel_event(&format!(r#"{place}{number},"pid":99999999999,"first":99,"since":90"#));
        let line = line.line.unwrap();
        assert_eq!((line.pid, line.first_number, line.first_at), (None, 1, line.at));
        let long = "x".repeat(5000);
        let keys = format!(r#"{place}{number},"process":"{long}","message":"{long}""#);
        let line = kernel_event(&keys).line.unwrap();
        assert_eq!((line.process.len(), line.words.len()), (32, 200));
    }

    #[test]
    fn a_list_of_nvidia_smi_without_rows_tells_why() {
        let message = |why: &str| {
            format!("Unable to determine the device handle for GPU 0000:0B:00.0: {why}")
        };
        for (line, kind, is_cut_short) in [
            ("No devices were found".to_owned(), SourceFaultKind::NoDevices, false),
            (message("GPU is lost"), SourceFaultKind::Lost, true),
            (message("Insufficient Permissions"), SourceFaultKind::NoPermission, true),
            (message("GPU requires reset"), SourceFaultKind::Failed, true),
        ] {
            let csv = body::Csv { noise: vec![line], ..body::Csv::default() };
            let kind_name = "nvidia-smi".into();
            let backend =
                body::Backend { kind: kind_name, csv: Some(csv), ..body::Backend::default() };
            let sent = body::Sample { backends: vec![backend], ..body::Sample::default() };
            let sample = Decoder::default().sample(&sent, Timestamp::default());
            assert_eq!(sample.faults[0].1.kind, kind);
            assert_eq!(sample.backends[0].devices.as_ref().unwrap().is_cut_short, is_cut_short);
        }
    }

    #[test]
    fn the_number_of_devices_and_uses_is_bounded() {
        let device =
            |number| body::Device { uuid: format!("GPU-{number}"), ..body::Device::default() };
        let used = |pid| body::Use { device: "GPU-1".into(), pid, ..body::Use::default() };
        let backend = || body::Backend {
            kind: "nvml".into(),
            devices: Some((0..10_000).map(device).collect()),
            uses: Some(body::Uses {
                list: (1..10_000).map(used).collect(),
                ..body::Uses::default()
            }),
            minors: (0..10_000).map(|minor| (format!("0000:{minor:04x}:00.0"), minor)).collect(),
            ..body::Backend::default()
        };
        let sent = body::Sample {
            backends: (0..100).map(|_| backend()).collect(),
            ..body::Sample::default()
        };
        let arrival = Timestamp::from_micros(7);
        let Some(NodeUpdate::Sample(sample)) =
            Decoder::default().decode(&Body::Sample(sent), arrival)
        else {
            panic!()
        };
        assert_eq!(sample.backends.len(), 8);
        for backend in &sample.backends {
            assert_eq!(backend.devices.as_ref().unwrap().list.len(), MAX_DEVICES);
            assert_eq!(backend.uses.as_ref().unwrap().list.len(), MAX_USES);
        }
    }

    #[test]
    fn minor_numbers_are_decoded_from_typed_devices_and_csv() {
        let minors = |sent: &str| {
            let body: Body = serde_json::from_str::<body::Sample>(sent).map(Body::Sample).unwrap();
            let arrival = Timestamp::from_micros(7);
            let Some(NodeUpdate::Sample(sample)) = Decoder::default().decode(&body, arrival) else {
                panic!()
            };
            let list = sample.backends.into_iter().next().unwrap().devices.unwrap().list;
            list.iter()
                .map(|device| Reading::of(device.statics.as_deref(), |known| known.minor).get())
                .collect::<Vec<_>>()
        };
        let typed = r#"{"at":1,"backends":[{"kind":"nvml","at":1,"devices":[
            {"uuid":"GPU-a","minor":3},{"uuid":"GPU-b"},{"uuid":"GPU-c","minor":-1}]}]}"#;
        assert_eq!(minors(typed), [Some(3), None, None]);
        let table = r#"{"at":1,"backends":[{"kind":"nvidia-smi","at":1,
            "csv":{"columns":["uuid","pci.bus_id"],
                   "rows":["GPU-a, 00000000:1A:00.0","GPU-b, 00010000:1A:00.0","GPU-c, 00000000:1C:00.0"]},
            "minors":{"0000:1a:00.0":2,"10000:1a:00.0":0,"0000:ff:00.0":7}}]}"#;
        assert_eq!(minors(table), [Some(2), Some(0), None]);
    }

    #[test]
    fn evidence_that_is_sent_again_is_shared() {
        let mut decoder = Decoder::default();
        let mut evidence = |sent: &str| {
            let body = serde_json::from_str::<body::Sample>(sent).map(Body::Sample).unwrap();
            match decoder.decode(&body, Timestamp::from_micros(7)) {
                Some(NodeUpdate::Sample(sample)) => sample.evidence,
                _ => panic!(),
            }
        };
        let first = evidence(r#"{"at":1,"evidence":{"openable":[1]}}"#).unwrap();
        assert_eq!(first.openable.as_deref(), Some(&[1][..]));
        assert_eq!(evidence(r#"{"at":2}"#), None);
        let again = evidence(r#"{"at":3,"evidence":{"openable":[1]}}"#).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_ne!(evidence(r#"{"at":4,"evidence":{"openable":[2]}}"#).unwrap(), first);
    }

    #[test]
    fn delayed_data_keeps_its_age() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let mut decoder = Decoder::default();
        decoder.decode(
            &Body::Hello(body::Hello { at: 50.0, v: 1, ..body::Hello::default() }),
            at(1000),
        );
        let late = body::Sample {
            n: 1,
            at: 51.0,
            host: Some(body::Host { at: 51.0, ..body::Host::default() }),
            ..body::Sample::default()
        };
        let Some(NodeUpdate::Sample(sample)) = decoder.decode(&Body::Sample(late), at(1021)) else {
            panic!()
        };
        let taken = sample.host.unwrap().0;
        assert_eq!(at(1021).since(taken).as_secs(), 19);
    }
}
