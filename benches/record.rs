//! Cost of recordings: bytes and processor time per node-sample; time to open one and to jump in it, and memory.
//!
//! `cargo bench --bench record [-- NODES…]` records five minutes of the demo and of a fleet with 8 devices and 40 processes per
//! node, with their noise, and with values that change every three and every ten seconds.
//! `-- --fill FILE` records 64 nodes until the file has 1 GiB, `-- --hours NODES HOURS FILE` for these hours (`gtop report
//! FILE` is measured with it), and `-- --open FILE` opens it and jumps. `-- --rewrite FILE TO` writes what is in a file as a
//! recorder of today does (`tests/clients/generate --values smooth` makes one with values that move as real ones do).
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a failed measurement aborts the bench"
)]

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use gtop_collect::record::{
    Header, Limits, NodeRecorder, Recorder, RecorderOptions, Recording, Thinning, rewrite,
};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::Recordings;
use gtop_collect::wire::{Delivery, RawUpdate};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::NodeName;
use tokio::time::Instant;

use self::sim_feed::SimFeed;

#[path = "../tests/record/sim_feed.rs"]
mod sim_feed;

const DEVICES: u32 = 8;
const PROCESSES: u32 = 5;
const SECONDS: u32 = 300;
const SIZES: [u32; 3] = [1, 16, 64];
const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);
const HISTORY: Duration = Duration::from_secs(300);
const JUMPS: u32 = 40;
/// The values change once in this many seconds.
const PACES: [u32; 3] = [1, 3, 10];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let sizes: Vec<u32> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    match *arguments {
        ["--fill", path] => fill(Path::new(path), 64, |_, bytes| bytes < 1 << 30),
        ["--hours", nodes, hours, path] => {
            let seconds = hours.parse::<u32>().unwrap() * 3600;
            fill(Path::new(path), nodes.parse().unwrap(), |recorded, _| recorded < seconds);
        }
        ["--open", path] => open(Path::new(path)),
        ["--rewrite", path, to] => rewrite_file(Path::new(path), Path::new(to)),
        _ if sizes.is_empty() && !arguments.contains(&"--bench") => {
            print("to measure: cargo bench --bench record");
        }
        _ => {
            for nodes in if sizes.is_empty() { &SIZES[..] } else { &sizes } {
                for pace in PACES {
                    measure("demo", &FleetSpec::demo(*nodes, 1), pace);
                    measure("busy", &busy(*nodes), pace);
                }
            }
        }
    }
}

fn busy(nodes: u32) -> FleetSpec {
    FleetSpec::busy(nodes, DEVICES, PROCESSES, 1)
}

fn print(line: &str) {
    writeln!(io::stdout().lock(), "{line}").unwrap();
}

/// A fleet that is recorded as fast as possible.
struct Session {
    recorder: Recorder,
    nodes: Vec<(NodeName, NodeRecorder)>,
    feed: SimFeed,
    clock: Clock,
    /// Bytes of the bodies, and processor time of recording them.
    bodies: usize,
    spent: Duration,
}

impl Session {
    fn new(path: &Path, spec: &FleetSpec) -> Self {
        let clock = Clock::fixed(START);
        let feed = SimFeed::new(spec, START);
        let options = RecorderOptions {
            header: Header::default(),
            thinning: Thinning::Every(Duration::ZERO),
            limits: Limits { keep: Duration::from_secs(8_640_000), max_bytes: 1 << 40 },
        };
        let recorder = Recorder::start(path, options, clock.clone()).unwrap();
        let sink = recorder.sink();
        sink.on_roster(feed.names(), None);
        let nodes = feed.names().map(|name| (name.clone(), sink.node(&name))).collect();
        Self { recorder, nodes, feed, clock, bodies: 0, spent: Duration::ZERO }
    }

    fn record(&mut self, deliveries: Vec<(NodeName, Delivery)>) {
        self.clock.advance(Duration::from_secs(1));
        let before = cpu_time();
        let mut index = 0;
        for (name, delivery) in deliveries {
            while self.nodes[index].0 != name {
                index += 1;
            }
            if let RawUpdate::Frame(frame) = &delivery.raw {
                self.bodies += frame.text.len();
            }
            self.nodes[index].1.on_delivery(delivery);
        }
        if self.feed.second.is_multiple_of(2) {
            self.recorder.flush();
        }
        self.spent += cpu_time().saturating_sub(before);
    }
}

/// Records five minutes, in groups of two seconds.
fn measure(name: &str, spec: &FleetSpec, values_every: u32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.gtop");
    let mut session = Session::new(&path, spec);
    session.feed.values_every = values_every;
    for _second in 0..SECONDS {
        let deliveries = session.feed.next_second();
        session.record(deliveries);
    }
    let (bodies, spent) = (session.bodies, session.spent);
    drop(session);
    let bytes = fs::metadata(&path).unwrap().len();
    let samples = f64::from(spec.nodes * SECONDS);
    print(&format!(
        "{} nodes, {name}, values of every {values_every} s: {:.0} bytes per node-sample ({:.0} before compression), {:.1} µs of CPU each: {:.2} % of a core",
        spec.nodes,
        bytes as f64 / samples,
        bodies as f64 / samples,
        spent.as_secs_f64() * 1e6 / samples,
        spent.as_secs_f64() * 100.0 / f64::from(SECONDS),
    ));
}

/// Records nodes while a condition on the recorded seconds and the size of the file holds.
fn fill(path: &Path, nodes: u32, goes_on: impl Fn(u32, u64) -> bool) {
    let mut session = Session::new(path, &busy(nodes));
    while goes_on(session.feed.second, fs::metadata(path).unwrap().len()) {
        let deliveries = session.feed.next_second();
        session.record(deliveries);
    }
    print(&format!("{} s recorded", session.feed.second));
}

/// Writes what is in a recording to a new one, and compares.
fn rewrite_file(path: &Path, to: &Path) {
    let recording = Recording::open(path).unwrap();
    let lines = recording.lines();
    rewrite(&lines, to).unwrap();
    let is_sample = |line: &&[u8]| line.windows(12).any(|part| part == b"\"t\":\"sample\"");
    let samples = lines.split(|byte| *byte == b'\n').filter(is_sample).count() as f64;
    let bytes = [path, to].map(|path| fs::metadata(path).unwrap().len() as f64 / samples);
    print(&format!("{samples} node-samples of {:.0} bytes, {:.0} before", bytes[1], bytes[0]));
}

/// Opens a recording, and jumps to places all over it.
fn open(path: &Path) {
    let before = Instant::now();
    let recordings = Recordings::open([path]).unwrap();
    let opened = before.elapsed();
    let spans = recordings.spans();
    let (first, last) = (spans[0].0, spans[spans.len() - 1].1);
    print(&format!(
        "opened in {:.1} ms: {} s; {} KiB of memory",
        opened.as_secs_f64() * 1e3,
        last.since(first).as_secs(),
        anonymous_memory(),
    ));
    let mut times = Vec::new();
    for jump in 0..JUMPS {
        let at = first.plus(last.since(first) * (jump * 7 % JUMPS + 1) / JUMPS);
        let before = Instant::now();
        let fleet = recordings.fleet_from_checkpoint(at, HISTORY);
        times.push(before.elapsed().as_secs_f64() * 1e3);
        assert!(fleet.nodes.iter().all(|node| !node.devices.is_empty()));
    }
    times.sort_unstable_by(f64::total_cmp);
    print(&format!(
        "jump: median {:.1} ms, longest {:.1} ms; {} KiB of memory",
        times[times.len() / 2],
        times[times.len() - 1],
        anonymous_memory(),
    ));
    let before = Instant::now();
    recordings.fleet_at(last, HISTORY);
    print(&format!(
        "with the history of 5 minutes: {:.0} ms",
        before.elapsed().as_secs_f64() * 1e3
    ));
    let before = cpu_time();
    let pieces = recordings.pieces(first, last);
    let written = pieces.iter().filter(|piece| recordings.written_sums(piece).is_some()).count();
    print(&format!(
        "{written} of {} pieces have written sums: {:.0} ms of CPU to read them; {} KiB of memory",
        pieces.len(),
        cpu_time().saturating_sub(before).as_secs_f64() * 1e3,
        anonymous_memory(),
    ));
}

/// Returns the processor time of this process, all threads.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Returns the anonymous resident memory in KiB.
fn anonymous_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
