//! Replaces names that identify people, machines and work by numbered ones.
//!
//! Structs are listed field by field, so that the compiler asks about each new one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event_record::EventRecord;
use crate::holdings::{Claim, DeviceHoldings, Holder, JobHoldings, NodeHoldings, sort_jobs};
use crate::host_share::HostShares;
use crate::node::{Host, Node, Process, SourceState, Traffic};
use crate::{Fleet, IdleSpan, NodeHealth, User, Waste};
use gtop_model::{
    Allocation, BackendState, Container, Device, DeviceFault, DeviceType, DeviceUse, DriverFacts,
    Event, EventKind, Fault, FinishedJob, FinishedJobs, Hello, HostFacts, HostReading,
    HostSlowReading, Job, JobId, JobList, JobListError, Link, NodeName, ProcessStatics, Reading,
    Reason, SchedulerNode, SchedulerNodes, SourceFault, Space, TpuDetails, UnseenProcess,
};

/// Replaces free text, which may contain any name.
const WITHHELD: &str = "withheld";

/// The replacements made so far. Equal names of one kind always have the same replacement, numbered in the order in
/// which they appear: `user1`, `node01`, `job1`.
#[derive(Debug, Default)]
pub struct Anonymizer(BTreeMap<&'static str, BTreeMap<Arc<str>, Arc<str>>>);

impl Anonymizer {
    /// Returns the fleet with users, hosts, jobs, paths, device ids and addresses replaced, and without command lines
    /// and free text, such as error messages.
    pub fn anonymize(&mut self, fleet: &Fleet) -> Fleet {
        let Fleet { nodes, same_as, jobs, waste, arrivals } = fleet;
        let nodes = nodes.iter().map(|node| Arc::new(self.node(node))).collect();
        let same_as = self.other_names(same_as);
        let jobs = jobs.as_ref().map(|list| Arc::new(self.job_list(list)));
        let waste = Arc::new(self.waste(waste));
        Fleet { nodes, same_as, jobs, waste, arrivals: *arrivals }
    }

    fn other_names(
        &mut self,
        names: &BTreeMap<NodeName, NodeName>,
    ) -> Arc<BTreeMap<NodeName, NodeName>> {
        let names = names.iter();
        let names = names.map(|(name, first)| (self.node_name(name), self.node_name(first)));
        Arc::new(names.collect())
    }

    /// Anonymizes the waste; that of users who then have one name is added up.
    fn waste(&mut self, waste: &Waste) -> Waste {
        let mut renamed = Waste { since: waste.since, ..Waste::default() };
        for (name, known) in waste.nodes() {
            let Some(entry) = renamed.entry(&self.node_name(name)) else { continue };
            for (user, time) in &known.by_user {
                entry.add_of_user(&self.user(user), *time);
            }
            for (job, time) in &known.by_job {
                entry.add_of_job(&self.job_id(job), *time);
            }
            for (uuid, span) in &known.idle {
                let users = span.users.iter().map(|user| self.user(user)).collect();
                entry.idle.insert(self.uuid(uuid), IdleSpan { users, ..span.clone() });
            }
        }
        renamed
    }

    fn replace(&mut self, kind: &'static str, name: &str) -> Arc<str> {
        let known = self.0.entry(kind).or_default();
        if let Some(replacement) = known.get(name) {
            return Arc::clone(replacement);
        }
        let number = known.len() + 1;
        let width = if kind == "node" { 2 } else { 1 };
        let replacement: Arc<str> = format!("{kind}{number:0width$}").into();
        known.insert(name.into(), Arc::clone(&replacement));
        replacement
    }

    /// Replaces a name of a kind, such as `user`, unless it is empty.
    pub fn name(&mut self, kind: &'static str, name: &str) -> Arc<str> {
        if name.is_empty() { "".into() } else { self.replace(kind, name) }
    }

    fn reading(&mut self, kind: &'static str, name: &Reading<Arc<str>>) -> Reading<Arc<str>> {
        name.clone().map(|name| self.name(kind, &name))
    }

    fn node_name(&mut self, name: &NodeName) -> NodeName {
        // A replacement is always a valid name.
        NodeName::new(&self.replace("node", name.as_str())).unwrap_or_else(|_| name.clone())
    }

    fn job_id(&mut self, id: &JobId) -> JobId {
        // A replacement is always a valid id.
        JobId::new(&self.replace("job", id.as_str())).unwrap_or_else(|| id.clone())
    }

    /// Replaces the identity of a device, unless it is only an index.
    fn uuid(&mut self, uuid: &str) -> Arc<str> {
        let index = uuid.strip_prefix(Device::INDEX_PREFIX);
        let is_index = index.is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()));
        if is_index { uuid.into() } else { self.name("device", uuid) }
    }

    fn node(&mut self, node: &Node) -> Node {
        let name = self.node_name(&node.name);
        let mut history = node.history.clone();
        history.rename_subjects(&mut |uuid| self.uuid(uuid));
        let lasting = node.lasting.renamed(&mut |uuid| self.uuid(uuid));
        Node {
            link: link(&node.link),
            via: node.via,
            last_fault: node.last_fault.as_ref().map(fault),
            scheduler: node.scheduler.as_ref().map(|known| Arc::new(self.scheduler_node(known))),
            hello: node.hello.as_ref().map(|hello| Arc::new(self.hello(hello, name.as_str()))),
            sources: node.sources.iter().map(source_state).collect(),
            host: self.host(&node.host),
            devices: node.devices.iter().map(|device| self.device(device)).collect(),
            has_hidden_devices: node.has_hidden_devices,
            holdings: Arc::new(self.holdings(&node.holdings)),
            shares: node.shares.as_ref().map(|known| Arc::new(self.shares(known))),
            // Its device files and types may name the site.
            evidence: None,
            device_sources: Arc::clone(&node.device_sources),
            uses: node.uses.iter().map(|used| self.device_use(used)).collect(),
            processes: node.processes.iter().map(|process| self.process(process)).collect(),
            unseen: node.unseen.iter().map(|process| self.unseen(process)).collect(),
            events: node.events.iter().map(|record| self.event_record(record)).collect(),
            history,
            lasting,
            health: NodeHealth::default(),
            probe_cost: node.probe_cost,
            is_settled: node.is_settled,
            name,
        }
    }

    fn hello(&mut self, hello: &Hello, name: &str) -> Hello {
        let host = &hello.host;
        // The rest of a kernel's release may be the name of a site.
        let mut parts = host.kernel.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let version = parts.next().unwrap_or_default();
        Hello {
            has_evidence: hello.has_evidence,
            sudo: hello.sudo,
            reads_kernel_log: hello.reads_kernel_log,
            driver_loaded_at: hello.driver_loaded_at,
            probe: Arc::clone(&hello.probe),
            is_shell_probe: hello.is_shell_probe,
            host: HostFacts {
                host_name: name.into(),
                boot_id: self.name("boot", &host.boot_id),
                kernel: version.into(),
                architecture: Arc::clone(&host.architecture),
                cpus: host.cpus,
                ticks_per_second: host.ticks_per_second,
                hidepid: host.hidepid,
                is_contained: host.is_contained,
                user: self.name("user", &host.user),
                job: host.job.as_ref().map(|id| self.job_id(id)),
                pci: Arc::clone(&host.pci),
            },
            intervals: hello.intervals.clone(),
            backends: hello.backends.iter().map(backend).collect(),
            devices_left_out: hello.devices_left_out,
            // Addresses are replaced, so that they match none.
            bus_devices: Vec::new(),
            commands: hello.commands.clone(),
        }
    }

    fn shares(&mut self, shares: &HostShares) -> HostShares {
        let jobs = shares.jobs.iter().map(|(id, share)| (self.job_id(id), *share));
        HostShares { jobs: jobs.collect(), ..*shares }
    }

    fn host(&mut self, host: &Host) -> Host {
        let HostSlowReading { temperature, space } = &host.slow;
        let space = space.iter().map(|Space { path, total, free }| Space {
            path: self.name("path", path),
            total: *total,
            free: *free,
        });
        let slow = HostSlowReading { temperature: *temperature, space: space.collect() };
        Host {
            network: self.traffic("net", &host.network),
            infiniband: self.traffic("ib", &host.infiniband),
            disks: self.traffic("disk", &host.disks),
            // The counters are those of the rates above.
            fast: HostReading {
                network: Arc::default(),
                infiniband: Arc::default(),
                disks: Arc::default(),
                ..host.fast.clone()
            },
            slow,
            cpu: host.cpu,
        }
    }

    fn traffic(&mut self, kind: &'static str, all: &[Traffic]) -> Arc<[Traffic]> {
        let all = all.iter().map(|Traffic { name, inward, outward }| Traffic {
            name: self.name(kind, name),
            inward: *inward,
            outward: *outward,
        });
        all.collect()
    }

    fn device(&mut self, device: &Device) -> Device {
        Device {
            uuid: self.uuid(&device.uuid),
            parent: device.parent.as_ref().map(|parent| self.uuid(parent)),
            pci: self.reading("pci", &device.pci),
            tpu: device.tpu.as_ref().map(|tpu| {
                Arc::new(TpuDetails {
                    nodes: self.reading("path", &tpu.nodes),
                    metrics_fault: withheld_error(&tpu.metrics_fault),
                    slice_error: withheld_error(&tpu.slice_error),
                    megascale_error: withheld_error(&tpu.megascale_error),
                    ..TpuDetails::clone(tpu)
                })
            }),
            fault: device.fault.as_ref().map(|fault| match fault {
                DeviceFault::Other(_) => DeviceFault::Other(WITHHELD.into()),
                DeviceFault::Lost
                | DeviceFault::NeedsReset
                | DeviceFault::NoPermission
                | DeviceFault::Gone(_) => fault.clone(),
            }),
            ..device.clone()
        }
    }

    fn holdings(&mut self, holdings: &NodeHoldings) -> NodeHoldings {
        let NodeHoldings { devices, jobs, users, hidden, unplaced } = holdings;
        let devices = devices.iter().map(|(uuid, known)| {
            let claims = known.claims.iter();
            let claims =
                claims.map(|claim| Claim { holder: self.holder(&claim.holder), ..claim.clone() });
            let claims = claims.collect();
            let suspect = known.suspect.as_ref().map(|holder| self.holder(holder));
            (self.uuid(uuid), DeviceHoldings { claims, suspect, rest: known.rest })
        });
        let devices = devices.collect();
        let jobs = jobs.iter().map(|known| JobHoldings {
            job: self.job_id(&known.job),
            devices: known.devices.iter().map(|uuid| self.uuid(uuid)).collect(),
            ..known.clone()
        });
        let mut jobs: Vec<JobHoldings> = jobs.collect();
        sort_jobs(&mut jobs);
        let users = users.iter().map(|name| self.name("user", name)).collect();
        NodeHoldings { devices, jobs, users, hidden: *hidden, unplaced: *unplaced }
    }

    fn holder(&mut self, holder: &Holder) -> Holder {
        let user = self.user(&holder.user);
        Holder { user, job: holder.job.as_ref().map(|id| self.job_id(id)) }
    }

    fn user(&mut self, user: &User) -> User {
        match user {
            User::Named(name) => User::Named(self.name("user", name)),
            // As users of processes whose name is unknown.
            User::Number(_) | User::Unknown => User::Unknown,
            User::Hidden => User::Hidden,
            User::NotShown => User::NotShown,
        }
    }

    fn device_use(&mut self, used: &DeviceUse) -> DeviceUse {
        DeviceUse { device: self.uuid(&used.device), driver_name: None, ..used.clone() }
    }

    fn process(&mut self, process: &Process) -> Process {
        Process { statics: Arc::new(self.statics(&process.statics)), ..process.clone() }
    }

    fn unseen(&mut self, process: &UnseenProcess) -> UnseenProcess {
        let UnseenProcess { pid, why, statics } = process;
        UnseenProcess { pid: *pid, why: *why, statics: self.statics(statics) }
    }

    fn statics(&mut self, statics: &ProcessStatics) -> ProcessStatics {
        ProcessStatics {
            parent_pid: statics.parent_pid,
            uid: withheld(&statics.uid),
            user: self.reading("user", &statics.user),
            command: withheld(&statics.command),
            directory: self.reading("path", &statics.directory),
            job: statics.job.as_ref().map(|id| self.job_id(id)),
            is_job_of_environment: statics.is_job_of_environment,
            visible_uuids: statics.visible_uuids.iter().map(|uuid| self.uuid(uuid)).collect(),
            step: statics.step.as_ref().filter(|step| is_step(step)).cloned(),
            job_alias: None,
            container: statics.container.as_ref().map(|Container { kind, id, pod }| Container {
                kind: *kind,
                id: self.name("container", id),
                pod: pod.as_ref().map(|pod| self.name("pod", pod)),
            }),
            parents: Arc::default(),
        }
    }

    fn event_record(&mut self, record: &EventRecord) -> EventRecord {
        let Event { at, source, kind, device, code, message: _, count, line: _ } = &record.event;
        let is_known = !matches!(kind, EventKind::Other(_));
        let kind = if is_known { kind.clone() } else { EventKind::Other(WITHHELD.into()) };
        let device = self.uuid(device);
        let (source, code, message) = (source.clone(), *code, "".into());
        let (at, count, line) = (*at, *count, None);
        record.with_event(Event { at, source, kind, device, code, message, count, line })
    }

    fn job_list(&mut self, list: &JobList) -> JobList {
        JobList {
            scheduler: list.scheduler,
            jobs: list.jobs.iter().map(|job| self.job(job)).collect(),
            at: list.at,
            error: list.error.as_ref().map(|error| JobListError {
                message: WITHHELD.into(),
                kind: error.kind,
                since: error.since,
            }),
            notes: Vec::new(),
            filter_text: "of the selected users".into(),
            narrowed_by: if list.narrowed_by.is_empty() { "" } else { "the filter" }.into(),
            requested: list.requested,
            is_partial: list.is_partial,
            hides_jobs: list.hides_jobs,
            interval: list.interval,
            // The nodes have who holds what.
            proved: Arc::default(),
            awaits_devices: list.awaits_devices,
            awaits_nodes: list.awaits_nodes,
            awaits_hidden: list.awaits_hidden,
            awaiting_outcome: list.awaiting_outcome.iter().map(|job| self.job(job)).collect(),
            ended: list.ended.iter().map(|(id, how)| (self.job_id(id), *how)).collect(),
            finished: Arc::new(self.finished_jobs(&list.finished)),
            nodes: Arc::new(SchedulerNodes {
                nodes: list
                    .nodes
                    .nodes
                    .iter()
                    .map(|(name, node)| (self.node_name(name), Arc::new(self.scheduler_node(node))))
                    .collect(),
                at: list.nodes.at,
                allocated_at: list.nodes.allocated_at,
                awaits_allocated: list.nodes.awaits_allocated,
            }),
            other_names: self.other_names(&list.other_names),
        }
    }

    fn finished_jobs(&mut self, finished: &FinishedJobs) -> FinishedJobs {
        FinishedJobs {
            list: finished.list.iter().map(|finished| self.finished_job(finished)).collect(),
            at: finished.at,
            error: finished.error.as_ref().map(|_| WITHHELD.into()),
            is_partial: finished.is_partial,
        }
    }

    fn finished_job(&mut self, finished: &FinishedJob) -> FinishedJob {
        FinishedJob {
            job: self.job(&finished.job),
            outcome: finished.outcome,
            exit_code: finished.exit_code,
            signal: finished.signal,
            cancelled_by: finished.cancelled_by.as_ref().map(|user| self.name("user", user)),
            devices: finished.devices,
        }
    }

    fn scheduler_node(&mut self, node: &SchedulerNode) -> SchedulerNode {
        SchedulerNode {
            partitions: node.partitions.iter().map(|name| self.name("partition", name)).collect(),
            // It may name people.
            reason: None,
            features: node.features.iter().map(|name| self.name("feature", name)).collect(),
            device_types: node.device_types.iter().map(|one| self.device_type(one)).collect(),
            ..node.clone()
        }
    }

    fn device_type(&mut self, known: &DeviceType) -> DeviceType {
        let name = known.name.as_ref().map(|name| self.name("type", name));
        DeviceType { name, count: known.count }
    }

    fn job(&mut self, job: &Job) -> Job {
        let id = self.job_id(&job.id);
        let allocations = job.allocations.iter().map(|Allocation { node, devices }| Allocation {
            node: self.node_name(node),
            devices: devices.clone(),
        });
        Job {
            allocations: allocations.collect(),
            shown_id: id.as_str().into(),
            id,
            alias: None,
            name: self.name("name", &job.name),
            user: self.name("user", &job.user),
            partition: self.name("partition", &job.partition),
            account: job.account.as_ref().map(|account| self.name("account", account)),
            state: job.state,
            native_state: Arc::clone(&job.native_state),
            // It may name nodes and other jobs.
            reason: None,
            submitted_at: job.submitted_at,
            starts_at: job.starts_at,
            ends_at: job.ends_at,
            limit: job.limit,
            run_time: job.run_time,
            listed_at: job.listed_at,
            tasks: job.tasks,
            node_count: job.node_count,
            devices_per_node: job.devices_per_node,
            cpus: job.cpus,
            memory: job.memory,
        }
    }
}

/// Withholds a value; an unknown one keeps its reason.
fn withheld<T>(reading: &Reading<T>) -> Reading<T> {
    Reading::Unknown(reading.reason().unwrap_or(Reason::Withheld))
}

/// Withholds the text of an error; that there is none is known.
fn withheld_error(error: &Reading<Arc<str>>) -> Reading<Arc<str>> {
    error.clone().map(|text| if &*text == "none" { text } else { WITHHELD.into() })
}

/// Returns true if a step of a job has this name itself: a number, or one that schedulers give.
fn is_step(name: &str) -> bool {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    is_number || ["batch", "extern", "interactive"].contains(&name)
}

fn link(link: &Link) -> Link {
    match link {
        Link::Idle | Link::Opening { .. } | Link::Up => link.clone(),
        Link::Down { fault: known, retry_at } => {
            Link::Down { fault: fault(known), retry_at: *retry_at }
        }
    }
}

/// Returns the kind of a fault alone.
fn fault(fault: &Fault) -> Fault {
    Fault::new(fault.kind, "")
}

fn withheld_source_fault(fault: &SourceFault) -> SourceFault {
    SourceFault { call: WITHHELD.into(), message: "".into(), ..fault.clone() }
}

fn source_state(state: &SourceState) -> SourceState {
    SourceState {
        source: state.source.clone(),
        taken_at: state.taken_at,
        interval: state.interval,
        fault: state.fault.as_ref().map(|fault| Box::new(withheld_source_fault(fault))),
        absent: state.absent.as_ref().map(|_| WITHHELD.into()),
    }
}

fn backend(state: &BackendState) -> BackendState {
    BackendState {
        source: state.source.clone(),
        absent: state.absent.as_ref().map(|_| WITHHELD.into()),
        is_missing: state.is_missing,
        fault: state.fault.as_ref().map(withheld_source_fault),
        driver: state.driver.as_ref().map(|driver| {
            let no_events = driver.no_events.as_ref().map(|_| WITHHELD.into());
            Arc::new(DriverFacts { no_events, ..DriverFacts::clone(driver) })
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Metric;
    use gtop_local::time::Timestamp;
    use gtop_model::{
        Ancestor, ContainerKind, Counter, DeviceAllocation, DeviceEvidence, FaultKind,
        JobDeviceFiles, JobOutcome, JobState, KernelLine, ProcessKey, SchedulerErrorKind, Source,
        SourceFaultKind, UnseenReason,
    };

    /// Every name of the test contains one of these, nested in others or on its own.
    const SECRETS: [&str; 8] =
        ["alice", "gpu01", "10.20.30.40", "s3cret", "GPU-beef", "00000000:11", "4711", "acme"];

    fn text(text: &str) -> Arc<str> {
        text.into()
    }

    fn known(known: &str) -> Reading<Arc<str>> {
        Reading::Known(known.into())
    }

    fn statics(user: &str) -> ProcessStatics {
        ProcessStatics {
            parent_pid: Reading::Known(1),
            uid: Reading::Known(4711),
            user: known(user),
            command: known("python s3cret.py --token s3cret"),
            directory: known("/home/alice/acme"),
            job: JobId::new("4711"),
            is_job_of_environment: false,
            visible_uuids: Arc::default(),
            step: Some(text("s3cret")),
            job_alias: Some(text("s4711")),
            container: Some(Container {
                kind: ContainerKind::Docker,
                id: text("acme-1"),
                pod: Some(text("alice-pod")),
            }),
            parents: [Ancestor { key: ProcessKey::default(), name: text("alice.sh") }].into(),
        }
    }

    fn counters(name: &str) -> Arc<[Counter]> {
        [Counter { name: text(name), inward: 0, outward: 0 }].into()
    }

    fn traffic(name: &str) -> Arc<[Traffic]> {
        let zero = gtop_model::Bytes(0);
        [Traffic { name: text(name), inward: zero, outward: zero }].into()
    }

    fn device(uuid: &str) -> Device {
        Device {
            uuid: text(uuid),
            parent: Some(text("GPU-beef")),
            pci: known("00000000:11:00.0"),
            tpu: Some(Arc::new(TpuDetails {
                nodes: known("/dev/acme0"),
                metrics_fault: known("10.20.30.40 refused"),
                slice_error: known("gpu01 is lost"),
                megascale_error: known("gpu01 is lost"),
                ..TpuDetails::default()
            })),
            fault: Some(DeviceFault::Other(text("alice broke it"))),
            ..Device::default()
        }
    }

    fn hello() -> Hello {
        Hello {
            host: HostFacts {
                host_name: text("gpu01.acme.example"),
                boot_id: text("boot-4711"),
                kernel: text("6.1.0-acme"),
                user: text("alice"),
                job: JobId::new("4711"),
                ..HostFacts::default()
            },
            backends: vec![BackendState {
                source: Source::new("nvml"),
                absent: Some(text("/opt/acme is missing")),
                is_missing: true,
                fault: Some(SourceFault {
                    kind: SourceFaultKind::Mismatch,
                    call: text("acme_init"),
                    message: text("s3cret"),
                    duration: Duration::ZERO,
                    at: Timestamp::default(),
                    code: None,
                }),
                driver: Some(Arc::new(DriverFacts {
                    no_events: Some(text("s3cret")),
                    ..DriverFacts::default()
                })),
            }],
            ..Hello::default()
        }
    }

    fn node(name: &str) -> Node {
        let uuid = text("GPU-beef");
        let fault = Fault::new(FaultKind::Refused, "10.20.30.40").with_what("ask alice");
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::from_secs(60));
        node.history.record(&uuid, Metric::Utilization, Timestamp::default(), 0.0);
        node.last_fault = Some(fault.clone());
        node.link = Link::Down { fault, retry_at: None };
        node.hello = Some(Arc::new(hello()));
        node.sources.push(SourceState {
            source: Source::new("nvml"),
            taken_at: None,
            interval: Duration::from_secs(1),
            fault: Some(Box::new(SourceFault {
                kind: SourceFaultKind::Stuck,
                call: text("statvfs /home/alice"),
                message: text("s3cret"),
                duration: Duration::ZERO,
                at: Timestamp::default(),
                code: None,
            })),
            absent: Some(text("acme")),
        });
        node.host.fast.network = counters("acme0");
        node.host.fast.infiniband = counters("acme0");
        node.host.fast.disks = counters("acme0");
        node.host.network = traffic("acme0");
        node.host.infiniband = traffic("acme0");
        node.host.disks = traffic("acme0");
        let zero = gtop_model::Bytes(0);
        node.host.slow.space =
            [Space { path: text("/scratch/alice"), total: zero, free: zero }].into();
        node.devices = vec![device("GPU-beef"), device("GPU-beef-2"), device("index-3")].into();
        node.holdings = Arc::new(NodeHoldings::example(&[("GPU-beef", "alice", Some("4711"))]));
        node.evidence = Some(Arc::new(DeviceEvidence {
            job_devices: [JobDeviceFiles {
                job: JobId::new("4711").unwrap(),
                minors: Some([0].into()),
            }]
            .into(),
            ..DeviceEvidence::default()
        }));
        let driver_name = Some(text("alice-trainer"));
        node.uses =
            [DeviceUse { device: uuid, pid: 7, driver_name, ..DeviceUse::default() }].into();
        node.processes =
            [Process { statics: Arc::new(statics("alice")), ..Process::default() }].into();
        let why = UnseenReason::Hidden;
        node.unseen = [UnseenProcess { pid: 8, why, statics: statics("alice2") }].into();
        node.record_event(Event {
            at: Timestamp::default(),
            source: Source::new("nvml"),
            kind: EventKind::Other(text("s3cret")),
            device: text("GPU-beef"),
            code: None,
            message: text("killed alice"),
            count: 1,
            line: None,
        });
        let line = KernelLine {
            at: Timestamp::default(),
            number: 1,
            first_number: 1,
            first_at: Timestamp::default(),
            pci: text("00000000:11:00.0"),
            gpu_instance: None,
            pid: Some(8),
            process: text("alice"),
            words: text("s3cret"),
        };
        node.record_event(Event {
            at: line.at,
            source: Source::new("kernel"),
            kind: EventKind::Xid,
            device: Arc::clone(&line.pci),
            code: Some(79),
            message: text(""),
            count: 1,
            line: Some(line.into()),
        });
        node
    }

    fn job() -> Job {
        let node = NodeName::new("alice@gpu01").unwrap();
        Job {
            shown_id: text("4711_[1-9]"),
            alias: JobId::new("s4711"),
            name: text("s3cret"),
            partition: text("acme"),
            account: Some(text("acme")),
            reason: Some(text("UnavailableNodes:gpu01")),
            allocations: [Allocation { node, devices: DeviceAllocation::Unknown }].into(),
            ..Job::example("4711")
        }
    }

    fn scheduler_nodes() -> SchedulerNodes {
        let node = SchedulerNode {
            partitions: vec![text("acme")],
            reason: Some(text("alice tests")),
            features: vec![text("acme")],
            ..SchedulerNode::default()
        };
        let name = NodeName::new("gpu01").unwrap();
        SchedulerNodes { nodes: [(name, Arc::new(node))].into(), ..SchedulerNodes::default() }
    }

    fn fleet() -> Fleet {
        let finished = FinishedJob {
            job: Job { state: JobState::Ended, ..job() },
            outcome: JobOutcome::Cancelled,
            exit_code: Some(0),
            signal: None,
            cancelled_by: Some(text("alice")),
            devices: None,
        };
        let error = Some(text("sacct does not answer alice"));
        let finished = FinishedJobs { list: vec![finished], error, ..FinishedJobs::default() };
        let names = ["alice@gpu01", "gpu01", "10.20.30.40:2222", "acme.gpu01"];
        let nodes = names.map(|name| Arc::new(node(name)));
        let jobs = JobList {
            jobs: vec![job()],
            error: Some(JobListError {
                message: text("gpu01 does not answer"),
                kind: SchedulerErrorKind::Other,
                since: Timestamp::default(),
            }),
            notes: vec![text("job 4711 of alice is unknown")],
            filter_text: text("of alice"),
            awaiting_outcome: vec![job()],
            ended: [(JobId::new("4711").unwrap(), JobOutcome::Failed)].into(),
            finished: finished.into(),
            nodes: Arc::new(scheduler_nodes()),
            ..JobList::default()
        };
        Fleet { jobs: Some(Arc::new(jobs)), ..Fleet::new(nodes.into()) }
    }

    #[test]
    fn a_filter_that_matches_no_job_is_named_without_its_words() {
        let jobs = JobList {
            at: Some(Timestamp::default()),
            narrowed_by: "--filter user=alice".into(),
            ..JobList::default()
        };
        let jobs = Anonymizer::default().job_list(&jobs);
        let reason = jobs.empty_reason();
        assert_eq!(reason.as_deref(), Some("no job, running or pending, matches the filter"));
    }

    #[test]
    fn no_name_is_left_anywhere() {
        let before = format!("{:?}", fleet());
        let after = format!("{:?}", Anonymizer::default().anonymize(&fleet()));
        for secret in SECRETS {
            assert!(before.contains(secret), "{secret} is not tested");
            let found = after.split_once(secret);
            assert_eq!(found.map(|(_, rest)| rest), None, "{secret} is left");
        }
    }

    #[test]
    fn equal_names_are_replaced_equally_and_in_order_of_appearance() {
        let mut anonymizer = Anonymizer::default();
        let first = anonymizer.anonymize(&fleet());
        let names: Vec<_> = first.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["node01", "node02", "node03", "node04"]);
        let node = &first.nodes[0];
        let uuids: Vec<_> = node.devices.iter().map(|device| &*device.uuid).collect();
        assert_eq!(uuids, ["device1", "device2", "index-3"]);
        assert_eq!(&*node.uses[0].device, "device1");
        assert_eq!(node.processes[0].statics.user, known("user1"));
        assert_eq!(node.statics_of(8).unwrap().user, known("user2"));
        assert_eq!(node.processes[0].statics.command, Reading::Unknown(Reason::Withheld));
        let history = &node.history;
        let points = history.last("device1", Metric::Utilization, Timestamp::default(), 1);
        assert_eq!(points, [Some(0.0)]);
        let job = &first.jobs.as_ref().unwrap().jobs[0];
        assert_eq!((job.id.as_str(), &*job.shown_id, &*job.user), ("job1", "job1", "user1"));
        assert_eq!(job.allocations[0].node, node.name);
        assert_eq!(node.job_of(8), Some(&job.id));
        // The machines that are watched twice are still known.
        assert_eq!(first.same_as.len(), 3);
        assert_eq!(first.machines().count(), 1);
        let again = anonymizer.anonymize(&fleet());
        assert_eq!(format!("{first:?}"), format!("{again:?}"));
    }
    #[test]
    fn the_waste_of_users_who_get_one_name_is_added_up() {
        let mut waste = Waste::default();
        let entry = waste.entry(&NodeName::new("gpu01").unwrap()).unwrap();
        for number in [1, 2] {
            entry.add_of_user(&User::Number(number), Duration::from_secs(2));
        }
        let waste = Anonymizer::default().waste(&waste);
        let by_user = &waste.nodes().next().unwrap().1.by_user;
        assert_eq!(by_user.get(&User::Unknown), Some(&Duration::from_secs(4)));
    }
}
