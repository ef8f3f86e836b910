//! Decodes pages of metrics in Prometheus' text format, as nvitop-exporter and `node_exporter` serve them: which families
//! are read, and what they mean.
//!
//! A page is untrusted: of each line and of all of them only so much is read, and texts are sanitized.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::wire::checked::sanitize_name;
use crate::wire::scrape::node::Stalls;
use crate::wire::scrape::nvitop::ListedDevices;
use crate::wire::scrape::page::ScrapedPage;
use crate::wire::scrape::page_clock::PageClock;
use crate::wire::scrape::processes::ProcessStarts;
use gtop_local::time::Timestamp;
use gtop_model::{
    BackendReading, BackendState, DevicesReading, DriverFacts, Hello, HostFacts, HostReading,
    HostSlowReading, NodeUpdate, Sample, Source, UsesReading, table,
};

mod host;
mod node;
mod nvitop;
mod page;
mod page_clock;
mod processes;
mod series;

/// Lines that are read of a page: more than 1,024 processes and 512 processors have.
const MAX_LINES: usize = 32_768;
/// A longer line is skipped; the longest ones have the command line of a process.
const MAX_LINE_LENGTH: usize = 16 << 10;
/// Ticks per second of the times that are decoded: a unit, not a clock.
const TICKS_PER_SECOND: u32 = 100;

/// The family, put before those of the page, with the time at which its server sent it.
const SERVED: &str = "http_date_seconds";

table! {
    /// A program whose pages are read.
    pub enum Exporter {
        /// nvitop-exporter: devices, their processes, and the host.
        Nvitop = ("nvitop-exporter", "gpu_utilization_Percentage"),
        /// `node_exporter`: the host.
        Node = ("node_exporter", "node_cpu_seconds_total"),
    }
    /// All of them.
    pub const ALL;
    /// Returns its name, and a family that its pages have.
    fn words -> (&'static str, &'static str);
}

impl Exporter {
    /// Returns the name of the program.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the families that are read.
    pub const fn families(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Nvitop => nvitop::FAMILIES,
            Self::Node => node::FAMILIES,
        }
    }

    /// Returns true if a line is of a family that is read.
    fn has(self, line: &str) -> bool {
        let family = series::family(line);
        self.families().iter().any(|families| families.contains(&family))
    }

    /// Returns true if a line is of a family of some exporter.
    fn is_series(line: &str) -> bool {
        Self::ALL.iter().any(|exporter| exporter.has(line))
    }

    /// Returns the exporters of which a text has a family.
    pub fn of_text(text: &str) -> Vec<Self> {
        let exporters = Self::ALL.into_iter();
        exporters.filter(|exporter| text.lines().any(|line| exporter.has(line))).collect()
    }

    /// Returns a text of what a page must have.
    pub fn wanted() -> String {
        let words = Self::ALL.map(|exporter| {
            let (name, family) = exporter.words();
            format!("{family} and others of {name}")
        });
        words.join(", ")
    }
}

/// Returns the lines of a page that are read, after one with the time at which its server sent it, by the server's clock; `None` if
/// it has none.
pub fn excerpt(page: &str, served_at: Option<Timestamp>) -> Option<Arc<str>> {
    let lines = page.lines().filter(|line| {
        line.len() <= MAX_LINE_LENGTH
            && (Exporter::is_series(line) || series::family(line) == SERVED)
    });
    let lines: Vec<&str> = lines.take(MAX_LINES).collect();
    let text = lines.iter().any(|line| Exporter::is_series(line)).then(|| lines.join("\n"))?;
    Some(match served_at {
        Some(at) => format!("{SERVED} {}\n{text}", at.second()).into(),
        None => text.into(),
    })
}

/// Decodes the pages of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct ScrapeDecoder {
    /// How often the page is read.
    pub(super) interval: Duration,
    /// The last hello, which seldom changes.
    hello: Option<Hello>,
    starts: ProcessStarts,
    stalls: Stalls,
    page_clock: PageClock,
    /// Number of the next sample.
    next: u64,
}

impl ScrapeDecoder {
    /// Decodes an excerpt that arrived at a time: the hello, if it has changed, and the sample.
    pub(super) fn decode(&mut self, text: &str, at: Timestamp) -> [Option<NodeUpdate>; 2] {
        let page = ScrapedPage::parse(text);
        let exporters = Exporter::of_text(text);
        let at = self.page_clock.taken_at(&page, at);
        let devices = exporters.contains(&Exporter::Nvitop).then(|| nvitop::devices(&page));
        let devices_left_out = devices.as_ref().map_or(0, |devices| devices.left_out);
        let hello = Hello { devices_left_out, ..self.hello(&page, &exporters) };
        let is_new = self.hello.as_ref() != Some(&hello);
        let hello = is_new.then(|| NodeUpdate::Hello(self.hello.insert(hello).clone()));
        let sample = self.sample(&page, &exporters, devices, at);
        [hello, Some(NodeUpdate::Sample(Box::new(sample)))]
    }

    fn hello(&self, page: &ScrapedPage<'_>, exporters: &[Exporter]) -> Hello {
        let has_nvitop = exporters.contains(&Exporter::Nvitop);
        let host = if exporters.contains(&Exporter::Node) {
            node::facts(page)
        } else {
            nvitop::facts(page)
        };
        let devices = nvitop_source();
        let of_devices = [devices.clone(), devices.processes()];
        let mut sources = vec![Source::host(), Source::host_slow()];
        sources.extend(of_devices.into_iter().filter(|_| has_nvitop));
        let names = exporters.iter().map(|exporter| exporter.name());
        Hello {
            probe: names.collect::<Vec<_>>().join(" and ").into(),
            host: HostFacts { ticks_per_second: TICKS_PER_SECOND, ..host },
            intervals: sources.into_iter().map(|source| (source, self.interval)).collect(),
            backends: has_nvitop.then(|| backend(devices, page)).into_iter().collect(),
            ..Hello::default()
        }
    }

    fn sample(
        &mut self,
        page: &ScrapedPage<'_>,
        exporters: &[Exporter],
        devices: Option<ListedDevices>,
        at: Timestamp,
    ) -> Sample {
        let (host, slow) = self.host(page, exporters, at);
        let has_nvitop = devices.is_some();
        let number = self.next;
        self.next += 1;
        let uptime = host.uptime_seconds.get();
        Sample {
            number,
            is_complete: true,
            host: Some((at, host)),
            host_slow: Some((at, slow)),
            backends: devices
                .map(|devices| device_readings(page, devices, at))
                .into_iter()
                .collect(),
            processes: has_nvitop.then(|| processes::processes(page, at, uptime, &mut self.starts)),
            ..Sample::default()
        }
    }

    fn host(
        &mut self,
        page: &ScrapedPage<'_>,
        exporters: &[Exporter],
        at: Timestamp,
    ) -> (HostReading, HostSlowReading) {
        // node_exporter has more values, if a page has both.
        if exporters.contains(&Exporter::Node) {
            (node::host(page, at, &mut self.stalls), node::host_slow(page))
        } else {
            (nvitop::host(page, at), nvitop::host_slow(page))
        }
    }
}

fn nvitop_source() -> Source {
    Source::new(Exporter::Nvitop.name())
}

fn backend(source: Source, page: &ScrapedPage<'_>) -> BackendState {
    let [version, cuda] = ["driver_version", "cuda_driver_version"]
        .map(|label| page.text("nvitop_info", label).map(sanitize_name));
    let driver = DriverFacts { version, cuda, ..DriverFacts::default() };
    let driver = Some(Arc::new(driver));
    BackendState { source, absent: None, is_missing: false, fault: None, driver }
}

fn device_readings(
    page: &ScrapedPage<'_>,
    devices: ListedDevices,
    at: Timestamp,
) -> BackendReading {
    let ListedDevices { list, left_out } = devices;
    BackendReading {
        source: nvitop_source(),
        slow_at: None,
        devices: Some(DevicesReading { at, list, is_cut_short: left_out > 0 }),
        uses: Some(UsesReading { at, list: processes::uses(page), nameless: BTreeMap::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::csv::MAX_DEVICES;
    use crate::wire::{Decoder, Delivery, RawUpdate};
    use gtop_model::{
        Bytes, Celsius, CpuTicks, Device, Percent, ProcessState, Reading, Reason, SessionUpdate,
        UnseenReason, Watts,
    };

    const SECOND: i64 = 1_000_000;

    fn fixture(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/scrape");
        std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap()
    }

    /// Decodes a page that arrives at a second, with what was decoded before.
    fn decode(decoder: &mut Decoder, page: &str, second: i64) -> (Option<Hello>, Sample) {
        let (mut hello, mut sample) = (None, None);
        let raw = RawUpdate::Scrape(excerpt(page, None).unwrap());
        let at = Timestamp::from_micros(second * SECOND);
        for update in decoder.updates(&Delivery { at, raw }) {
            match update {
                NodeUpdate::Hello(found) => hello = Some(found),
                NodeUpdate::Sample(found) => sample = Some(*found),
                NodeUpdate::Session(_) | NodeUpdate::Event(_) => panic!(),
            }
        }
        (hello, sample.unwrap())
    }

    fn first(page: &str) -> Sample {
        decode(&mut Decoder::default(), page, 100_000).1
    }

    fn devices(sample: &Sample) -> &[Device] {
        &sample.backends[0].devices.as_ref().unwrap().list
    }

    fn host(sample: &Sample) -> &HostReading {
        &sample.host.as_ref().unwrap().1
    }

    #[test]
    fn a_page_of_nvitop_exporter_tells_of_devices_and_their_processes() {
        let page = fixture("nvitop-exporter-1.7.2");
        let mut decoder = Decoder::default();
        let every = SessionUpdate::Interval(Duration::from_secs(5));
        let at = Timestamp::default();
        drop(decoder.updates(&Delivery { at, raw: every.into() }));
        let (hello, sample) = decode(&mut decoder, &page, 100_000);
        let hello = hello.unwrap();
        assert_eq!((&*hello.probe, &*hello.host.host_name), ("nvitop-exporter", "gpu01"));
        assert!(hello.intervals.iter().all(|(_, every)| every.as_secs() == 5));
        let driver = hello.backends[0].driver.as_ref().unwrap();
        assert_eq!(
            (driver.version.as_deref(), driver.cuda.as_deref()),
            (Some("570.133.20"), Some("12.8"))
        );
        let [busy, partial] = devices(&sample) else { panic!() };
        assert_eq!(&*busy.uuid, "GPU-0abc0000-0000-4000-8000-000000000000");
        assert_eq!(busy.index, Reading::Known(0));
        assert_eq!(busy.name, Reading::Known("NVIDIA A100-SXM4-80GB".into()));
        assert_eq!(busy.utilization, Reading::checked(Percent::new(93.0)));
        assert_eq!(busy.memory_used, Reading::Known(Bytes(70_003 << 20)));
        assert_eq!(busy.power, Reading::checked(Watts::new(383.25)));
        assert_eq!(busy.temperature, Reading::checked(Celsius::new(63.0)));
        assert_eq!(busy.activity.as_ref().unwrap().pcie_received, Reading::Known(Bytes(2 << 20)));
        // NaN says that the driver does not tell it; what has no family is not offered.
        assert_eq!(partial.utilization, Reading::Unknown(Reason::NotAvailable));
        assert_eq!(partial.power, Reading::Unknown(Reason::NotAvailable));
        assert_eq!(partial.throttle, Reading::Unknown(Reason::NotOffered));
        let [used] = &sample.backends[0].uses.as_ref().unwrap().list[..] else { panic!() };
        assert_eq!((used.pid, &used.device), (18_216, &busy.uuid));
        assert_eq!(used.memory, Reading::Known(Bytes(9_000 << 20)));
        assert_eq!(used.sm, Reading::checked(Percent::new(40.0)));
        let [process] = &sample.processes.as_ref().unwrap().list[..] else { panic!() };
        let statics = process.statics.as_ref().unwrap();
        assert_eq!(statics.user, Reading::Known("root".into()));
        assert_eq!(statics.command, Reading::Known("python3 train.py --name \"a b\"".into()));
        assert_eq!(process.state, Reading::Known(ProcessState::Sleeping));
        assert_eq!(
            (process.cpu_percent, process.key.start_ticks),
            (Reading::Known(0.0), 5_895_700)
        );
    }

    #[test]
    fn a_page_of_nvitop_exporter_tells_of_the_host() {
        let sample = first(&fixture("nvitop-exporter-1.7.2"));
        let host = host(&sample);
        assert_eq!(host.cpu_utilization, Reading::checked(Percent::new(100.0)));
        assert_eq!(host.memory_total, Reading::Known(Bytes(25_276_510_208)));
        assert_eq!(host.uptime_seconds, Reading::Known(59_113));
        assert_eq!(host.pressure.io, Reading::Unknown(Reason::NotOffered));
        let names = |counters: &[gtop_model::Counter]| {
            counters.iter().map(|counter| counter.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            (names(&host.network), names(&host.disks)),
            (vec!["eth0".into()], vec!["vda".into()])
        );
        let space = &sample.host_slow.as_ref().unwrap().1.space;
        assert_eq!((&*space[0].path, space.len()), ("/", 1));
    }

    #[test]
    fn what_was_said_of_a_host_and_when_processes_started_is_told_once() {
        let page = fixture("nvitop-exporter-1.7.2");
        let mut decoder = Decoder::default();
        let (_, before) = decode(&mut decoder, &page, 100_000);
        let later =
            page.replace(" 59113.986946344376", " 59115.999").replace(" 155.996291", " 157.0");
        let (hello, sample) = decode(&mut decoder, &later, 100_002);
        assert_eq!((hello, sample.number), (None, 1));
        let key = |sample: &Sample| sample.processes.as_ref().unwrap().list[0].key;
        assert_eq!(key(&sample), key(&before));
        // Another process has the pid.
        let (_, sample) = decode(&mut decoder, &later.replace(" 157.0", " 3.0"), 100_004);
        assert_ne!(key(&sample), key(&before));
    }

    #[test]
    fn a_value_that_is_not_told_of_a_process_leaves_the_others() {
        let page = fixture("nvitop-exporter-1.7.2");
        let told = |page: &str| {
            let processes = first(page).processes.unwrap();
            assert!(processes.unseen.is_empty(), "{processes:?}");
            processes.list[0].clone()
        };
        let known = told(&page);
        let of_page = |from: &str, to: &str| told(&page.replace(from, to));
        let silent = of_page(" 155.996291", " NaN");
        assert_eq!(silent.key.start(), None);
        assert_eq!(silent.running_seconds, Reading::Unknown(Reason::NotAvailable));
        assert_eq!((silent.resident, silent.state), (known.resident, known.state));
        assert!(silent.resident.get().is_some());
        let odd = of_page(" 155.996291", " -1");
        assert_eq!(odd.running_seconds, Reading::Unknown(Reason::Malformed));
        // Of a host whose uptime is not told, only the start is not known.
        let of_host = of_page(" 59113.986946344376", " NaN");
        assert_eq!((of_host.key.start(), of_host.running_seconds), (None, Reading::Known(156)));
        let lines = page.lines().filter(|line| !line.contains("process_running_time_Second"));
        let unlisted = told(&lines.collect::<Vec<_>>().join("\n"));
        assert_eq!(unlisted.running_seconds, Reading::Unknown(Reason::NotOffered));
        // One that has ended is told of as such.
        let ended = page
            .replace(" 155.996291", " NaN")
            .replace("status=\"sleeping\"", "status=\"terminated\"");
        let ended = first(&ended).processes.unwrap();
        assert!(ended.list.is_empty() && ended.unseen[0].why == UnseenReason::Gone, "{ended:?}");
    }

    #[test]
    fn a_page_of_node_exporter_tells_of_the_host() {
        let page = fixture("node_exporter-1.5.0");
        let mut decoder = Decoder::default();
        let (hello, sample) = decode(&mut decoder, &page, 100_000);
        let facts = hello.unwrap().host;
        assert_eq!((&*facts.host_name, &*facts.kernel, facts.cpus), ("gpu01", "6.1.0-18-amd64", 2));
        assert!(sample.backends.is_empty() && sample.processes.is_none());
        let found = host(&sample);
        assert_eq!(found.cpu, Reading::Known(CpuTicks { busy: 6_875_279, idle: 4_907_194 }));
        assert_eq!(found.load, Reading::Known([4.02, 3.82, 4.69]));
        assert_eq!(found.memory_available, Reading::Known(Bytes(23_479_033_856)));
        assert_eq!(found.swap_total, Reading::Known(Bytes(0)));
        assert_eq!(found.uptime_seconds, Reading::Known(59_114));
        assert_eq!((found.network[0].inward, found.network.len()), (3_500_665_830, 1));
        assert_eq!((found.disks[0].outward, found.disks.len()), (505_924_698_112, 1));
        assert_eq!(found.pressure.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
        let slow = &sample.host_slow.as_ref().unwrap().1;
        assert_eq!(slow.space[0].free, Bytes(17_288_634_368));
        assert_eq!(slow.temperature, Reading::Unknown(Reason::NotOffered));
        // 4 s later, some task has waited for a processor for 1 s.
        let later = page
            .replace(" 1.7959567613299184e+09", " 1.7959567653299184e+09")
            .replace(" 20842.990314", " 20843.990314");
        let pressure = host(&decode(&mut decoder, &later, 100_004).1).pressure;
        assert!((pressure.cpu.get().unwrap().get() - 25.0).abs() < 0.01, "{pressure:?}");
        assert_eq!(pressure.io, Reading::checked(Percent::new(0.0)));
        let booted = host(&decode(&mut decoder, &page, 100_008).1).pressure;
        assert_eq!(booted.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
    }

    #[test]
    fn slices_belong_to_the_device_with_their_index() {
        let series = |family: &str, index: &str, uuid: &str, value: &str| {
            format!("{family}{{index=\"{index}\",devicename=\"H100\",uuid=\"{uuid}\"}} {value}\n")
        };
        let total = "gpu_memory_total_MiB";
        let page = series(total, "0:1", "MIG-b", "9728")
            + &series(total, "1", "GPU-1", "81559")
            + &series(total, "0:0", "MIG-a", "9728")
            + &series(total, "0", "GPU-0", "81559")
            + &series(total, "2", "N/A", "NaN");
        let sample = first(&page);
        let found = devices(&sample).iter();
        let found: Vec<_> =
            found.map(|one| (&*one.uuid, one.parent.as_deref(), one.index)).collect();
        let (parent, index) = (Some("GPU-0"), Reading::Known);
        assert_eq!(
            found,
            [
                ("GPU-0", None, index(0)),
                ("MIG-a", parent, index(0)),
                ("MIG-b", parent, index(1)),
                ("GPU-1", None, index(1)),
                ("index-2", None, index(2)),
            ]
        );
        assert_eq!(devices(&sample)[0].mig, Reading::Known(true));
        assert_eq!(devices(&sample)[3].mig, Reading::Unknown(Reason::NotOffered));
    }

    /// Returns how old a page is when it arrives at a second, sent at a second of its server's clock.
    fn age(decoder: &mut Decoder, page: &str, second: i64, served: Option<i64>) -> f64 {
        let at = Timestamp::from_micros(second * SECOND);
        let served = served.map(|second| Timestamp::from_micros(second * SECOND));
        let raw = RawUpdate::Scrape(excerpt(page, served).unwrap());
        let updates = decoder.updates(&Delivery { at, raw });
        let sample = updates.filter_map(|update| match update {
            NodeUpdate::Sample(sample) => Some(sample),
            NodeUpdate::Hello(_) | NodeUpdate::Session(_) | NodeUpdate::Event(_) => None,
        });
        at.since(sample.last().unwrap().host.unwrap().0).as_secs_f64()
    }

    #[test]
    fn a_page_is_as_old_as_its_own_time_says() {
        let mut decoder = Decoder::default();
        let page = |now: u32| format!("node_load1 1\nnode_time_seconds {now}.75\n");
        // The clock of its server is years behind.
        assert!(age(&mut decoder, &page(500), 100_000, Some(500)).abs() < 1e-6);
        assert!((age(&mut decoder, &page(500), 100_002, Some(502)) - 2.0).abs() < 1e-6);
        assert!((age(&mut decoder, &page(500), 100_060, None) - 60.0).abs() < 1e-6);
        assert!((age(&mut decoder, &page(501), 100_061, Some(561)) - 59.25).abs() < 1e-3);
        // It has a later time than its server, or none is told: nothing is claimed.
        assert!(age(&mut decoder, &page(900), 100_062, Some(700)).abs() < 1e-6);
        assert!(age(&mut decoder, &page(950), 100_070, None).abs() < 1e-6);
        for odd in ["NaN", "-Inf", "1e300", "-5"] {
            let page = format!("node_load1 1\nnode_time_seconds {odd}\n");
            assert!(age(&mut decoder, &page, 100_100, None).abs() < 1e-6, "{odd}");
        }
        // A recording keeps when it was sent, and is not led astray by the page.
        let kept = excerpt(&page(500), Some(Timestamp::from_micros(560 * SECOND))).unwrap();
        assert_eq!(excerpt(&kept, None), Some(Arc::clone(&kept)));
        assert!((age(&mut Decoder::default(), &kept, 100_000, None) - 59.25).abs() < 1e-3);
        let both = format!("{}{kept}", page(500));
        assert!(age(&mut Decoder::default(), &both, 100_000, Some(500)).abs() < 1e-6);
        assert_eq!(excerpt("http_date_seconds 7\n", None), None);
    }

    #[test]
    fn a_page_of_nvitop_exporter_whose_uptime_stands_still_grows_old() {
        let page = fixture("nvitop-exporter-1.7.2");
        let mut decoder = Decoder::default();
        let mut age = |page: &str, second| age(&mut decoder, page, second, Some(second));
        assert!(age(&page, 100_000).abs() < 1e-6);
        assert!((age(&page, 100_009) - 9.0).abs() < 1e-6);
        let later = page.replace(" 59113.986946344376", " 59130.5");
        assert!(age(&later, 100_020).abs() < 1e-6);
        // The host was booted.
        assert!(age(&page, 100_030).abs() < 1e-6);
        let silent = page.replace(" 59113.986946344376", " NaN");
        assert!(age(&silent, 100_040).abs() < 1e-6 && age(&silent, 100_050).abs() < 1e-6);
    }

    #[test]
    fn a_page_of_neither_kind_is_none() {
        for page in ["", "<html>\n<a href='/metrics'>Metrics</a>", "go_threads 7\nup 1", "\u{0}\n"]
        {
            assert_eq!(excerpt(page, None), None, "{page}");
        }
        assert!(Exporter::wanted().contains("node_cpu_seconds_total and others of node_exporter"));
        let page = "# HELP node_load1 x\nnode_load1 1\ngo_threads 7\n  node_load5 2 1700000000\n";
        assert_eq!(excerpt(page, None).as_deref(), Some("node_load1 1\n  node_load5 2 1700000000"));
    }

    #[test]
    fn impossible_values_are_malformed_and_texts_are_bounded() {
        let long = "x".repeat(5_000);
        let page = format!(
            "gpu_utilization_Percentage{{uuid=\"GPU-\u{1b}[2J{long}\",index=\"0\"}} 101\n\
             gpu_temperature_C{{uuid=\"GPU-\u{1b}[2J{long}\",index=\"0\"}} -Inf\n\
             gpu_utilization_Percentage{{index=\"a\"}} 1e999\n\
             gpu_utilization_Percentage{{}} 1\n\
             host_uptime_Second -3\nhost_load_average_1m_Percentage x\n"
        );
        let sample = first(&page);
        let [device, odd] = devices(&sample) else { panic!("{sample:?}") };
        assert!(device.uuid.starts_with("GPU- [2Jxxx") && device.uuid.chars().count() <= 96);
        assert_eq!(device.utilization, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.temperature, Reading::Unknown(Reason::Malformed));
        assert_eq!((&*odd.uuid, odd.index), ("index-a", Reading::Unknown(Reason::Malformed)));
        let host = host(&sample);
        assert_eq!(host.uptime_seconds, Reading::Unknown(Reason::Malformed));
        assert_eq!(host.load, Reading::Unknown(Reason::NotOffered));
        // Of equal series the last one counts, and of a page about several hosts the first.
        let twice = "host_uptime_Second{hostname=\"a\"} 1\nhost_uptime_Second{hostname=\"a\"} 2\n\
                     host_uptime_Second{hostname=\"b\"} 3\n";
        let twice = first(twice);
        assert_eq!(twice.host.unwrap().1.uptime_seconds, Reading::Known(2));
    }

    #[test]
    fn no_page_is_too_large_or_too_odd() {
        let line = |index: usize| {
            format!("gpu_utilization_Percentage{{uuid=\"GPU-{index}\",index=\"{index}\"}} 5\n")
        };
        let page: String = (0..100_000).map(line).collect();
        assert_eq!(excerpt(&page, None).unwrap().lines().count(), MAX_LINES);
        let (hello, sample) = decode(&mut Decoder::default(), &page, 100_000);
        assert_eq!(devices(&sample).len(), MAX_DEVICES);
        assert!(sample.backends[0].devices.as_ref().unwrap().is_cut_short);
        assert_eq!(hello.unwrap().devices_left_out, MAX_LINES - MAX_DEVICES);
        let (hello, sample) = decode(&mut Decoder::default(), &line(7), 100_000);
        assert_eq!(hello.unwrap().devices_left_out, 0);
        assert!(!sample.backends[0].devices.as_ref().unwrap().is_cut_short);
        let process = |pid: usize| {
            format!(
                "process_gpu_memory_MiB{{uuid=\"GPU-1\",pid=\"{pid}\"}} 5\nprocess_rss_memory_MiB{{pid=\"{pid}\"}} 5\n"
            )
        };
        let sample = first(&(0..10_000).map(process).collect::<String>());
        assert_eq!(sample.processes.unwrap().list.len(), crate::wire::csv::MAX_USES);
        let long = format!("node_load1{{a=\"{}\"}} 1\nnode_load5 2", "x".repeat(10 << 20));
        assert_eq!(excerpt(&long, None).as_deref(), Some("node_load5 2"));
        // Any part of a real page may be missing or doubled.
        let page = fixture("nvitop-exporter-1.7.2") + &fixture("node_exporter-1.5.0");
        let mut decoder = Decoder::default();
        for cut in (0..page.len()).step_by(97) {
            let (Some(before), Some(after)) = (page.get(..cut), page.get(cut + 5..)) else {
                continue;
            };
            for damaged in [
                before.to_owned(),
                after.to_owned(),
                format!("{before}{after}"),
                format!("{before}\"{{{after}"),
            ] {
                if excerpt(&damaged, None).is_some() {
                    decode(&mut decoder, &damaged, 100_000);
                }
            }
        }
    }
}
