//! Cost of monitoring: CPU time per node-sample, memory per node, time to the first complete frame.
//!
//! `cargo bench --bench fleet [-- SIZE…]`. Each size gets a fresh client process, and each client
//! starts its own server process, so that only gtop's side is measured.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed measurement aborts the bench")]

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop_collect::collect::{Collector, CollectorConfig};
use gtop_collect::sim::{FleetSpec, SimNode, serve};
use gtop_collect::source::Pipeline;
use gtop_collect::transport::{Options, Reach, Target, Transport};
use gtop_fleet::{FleetReader, FleetStore, PublishIntervals};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{NodeName, Source};
use gtop_ssh::{FixedProfile, Profile, SshTarget};
use gtop_ui::{ColourDepth, GlyphSet, Palette, Surface, Theme, Ui};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

const SIZES: [u32; 2] = [64, 256];
const DEVICES: u32 = 8;
const PROCESSES: u32 = 5;
const INTERVAL: Duration = Duration::from_secs(1);
const HISTORY: Duration = Duration::from_secs(300);
/// Time before the measurement, in which the histories reach their full length.
const WARM_UP: Duration = Duration::from_secs(330);
/// The measurement consists of several parts, because other load on the CPU can distort some of them.
const PART_DURATION: Duration = Duration::from_secs(2);
const PART_COUNT: u32 = 15;
/// Time that one node is watched before the memory is measured: code, runtime and screen are then loaded, and
/// the difference is the cost of further nodes.
const BASELINE: Duration = Duration::from_secs(3);
/// Interval between redraws, the default of gtop.
const REDRAW: Duration = Duration::from_millis(500);
/// Size of the screen.
const WIDTH: u16 = 120;
const HEIGHT: u16 = 40;
/// Size of the screen on which frames are measured, frames per view, and snapshots that they cycle through.
const FRAME_AREA: Rect = Rect { x: 0, y: 0, width: 200, height: 60 };
const FRAMES_PER_VIEW: usize = 300;
const SNAPSHOTS: usize = 12;
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match *args {
        ["--serve", nodes, devices, processes, seconds] => {
            let number = |text: &str| text.parse().unwrap();
            let fleet = FleetSpec::busy(number(nodes), number(devices), number(processes), 1);
            runtime.block_on(server(fleet, Duration::from_secs(number(seconds).into())));
        }
        ["--watch", nodes] => runtime.block_on(measure(nodes.parse().unwrap())),
        _ => runtime.block_on(measure_all(&args)),
    }
}

/// Measures each size in its own process. Cargo adds arguments, such as `--bench`.
async fn measure_all(args: &[&str]) {
    let requested: Vec<u32> = args.iter().filter_map(|arg| arg.parse().ok()).collect();
    if requested.is_empty() && !args.contains(&"--bench") {
        // `cargo test --all-targets` runs benches too; they measure nothing then.
        return print("to measure: cargo bench --bench fleet");
    }
    for nodes in if requested.is_empty() { &SIZES[..] } else { &requested } {
        let mut client = this_program(&["--watch", &nodes.to_string()]).spawn().unwrap();
        assert!(client.wait().await.unwrap().success(), "the measurement of {nodes} nodes failed");
    }
    // This is target/release/deps/fleet-…; the program is target/dist/gtop.
    let bench = std::env::current_exe().unwrap();
    let program = bench.ancestors().nth(3).map(|target| target.join("dist/gtop"));
    let size = program.and_then(|program| fs::metadata(program).ok()).map(|file| file.len());
    print(&size.map_or_else(
        || "program: not built; cargo build --profile dist".to_owned(),
        |bytes| format!("program: {} KiB, stripped", bytes / 1024),
    ));
}

fn this_program(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).kill_on_drop(true);
    command
}

fn print(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").unwrap();
}

// The server's process.

/// Serves until standard input closes, at most for `limit`; then prints its CPU time.
async fn server(fleet: FleetSpec, limit: Duration) {
    let served = serve(&fleet).await.unwrap();
    for node in &served.nodes {
        let key = node.client_key.replace('\n', "|");
        let host_key = node.host_key.as_deref().unwrap();
        print(&format!("{}\t{}\t{key}\t{host_key}", node.name, node.address));
    }
    print("ready");
    let (closing, closed) = oneshot::channel();
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap();
        // Fails if the limit came first.
        closing.send(()).ok();
    });
    drop(tokio::time::timeout(limit, closed).await);
    print(&format!("{}", cpu_time().as_micros()));
    served.stop().await;
}

struct Server {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    nodes: Vec<SimNode>,
}

impl Server {
    async fn start(nodes: u32) -> Self {
        let counts = [nodes, DEVICES, PROCESSES, 900].map(|count| count.to_string());
        let [nodes, devices, processes, seconds] = counts.each_ref().map(String::as_str);
        let mut process = this_program(&["--serve", nodes, devices, processes, seconds])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut nodes = Vec::new();
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            if line == "ready" {
                return Self { process, lines, nodes };
            }
            nodes.push(node(&line));
        }
    }

    /// Stops the server; returns its CPU time, start and handshakes included.
    async fn stop(mut self) -> Duration {
        drop(self.process.stdin.take());
        let micros = self.lines.next_line().await.unwrap().unwrap();
        self.process.wait().await.unwrap();
        Duration::from_micros(micros.parse().unwrap())
    }
}

fn node(line: &str) -> SimNode {
    let parts: Vec<&str> = line.split('\t').collect();
    let [name, address, key, host_key] = *parts else { panic!("{line}") };
    SimNode {
        name: NodeName::new(name).unwrap(),
        address: address.parse::<SocketAddr>().unwrap(),
        client_key: key.replace('|', "\n"),
        host_key: Some(host_key.to_owned()),
    }
}

// The client's process.

/// The results of a measurement.
struct Measurements {
    first_frame: Duration,
    /// CPU time and number of samples of each part.
    parts: Vec<(Duration, u32)>,
    resident_before: u64,
    resident: u64,
    frames: Vec<(char, Vec<Duration>)>,
}

async fn measure(count: u32) {
    let server = Server::start(count).await;
    let measurements = client(server.nodes.clone()).await;
    let spent = server.stop().await;
    let measured = PART_DURATION * PART_COUNT;
    let total_seconds = (WARM_UP + measured).as_secs_f64();
    let each = |(cpu, samples): &(Duration, u32)| cpu.as_secs_f64() * 1000.0 / f64::from(*samples);
    let add =
        |(sum, all): (Duration, u32), (cpu, samples): &(Duration, u32)| (sum + *cpu, all + samples);
    let sum = measurements.parts.iter().fold((Duration::ZERO, 0), add);
    let mut per_part: Vec<f64> = measurements.parts.iter().map(each).collect();
    per_part.sort_unstable_by(f64::total_cmp);
    print(&format!(
        "{count} nodes × {DEVICES} devices × {PROCESSES} processes, every {INTERVAL:?}:"
    ));
    print(&format!("  first complete frame    {:.2} s", measurements.first_frame.as_secs_f64()));
    print(&format!(
        "  client CPU              {:.3} ms per node-sample ({} samples in {measured:?}; \
         median of {PART_COUNT} parts {:.3})",
        each(&sum),
        sum.1,
        per_part.get(per_part.len() / 2).unwrap(),
    ));
    let growth = measurements.resident.saturating_sub(measurements.resident_before);
    let growth = f64::from(u32::try_from(growth).unwrap());
    print(&format!(
        "  client memory           {:.1} KiB per further node ({} MiB in total)",
        growth / f64::from(count),
        measurements.resident / 1024,
    ));
    for (view, frames) in &measurements.frames {
        let at = |share: usize| {
            let index = (frames.len() * share / 100).min(frames.len() - 1);
            frames.get(index).map_or(0.0, |frame| frame.as_secs_f64() * 1000.0)
        };
        let (median, high) = (at(50), at(99));
        print(&format!("  frame, view {view}, 200×60   p50 {median:.2} ms, p99 {high:.2} ms"));
    }
    print(&format!(
        "  simulated servers       {:.1} ms CPU per second, handshakes included",
        spent.as_secs_f64() * 1000.0 / total_seconds
    ));
}

/// Monitors like the program: sessions on their own thread, the screen on this one.
async fn client(nodes: Vec<SimNode>) -> Measurements {
    let mut viewer = measure_baseline(&nodes).await;
    let resident_before = anonymous_memory();
    let began = Instant::now();
    let (config, reader, sessions) = start(nodes);
    viewer.switch_to(reader);
    let completed = tokio::time::timeout(FIRST_FRAME_TIMEOUT, viewer.until_complete()).await;
    assert!(completed.is_ok(), "no complete frame within {FIRST_FRAME_TIMEOUT:?}");
    let first_frame = began.elapsed();
    viewer.run_until(began + WARM_UP).await;
    let mut parts = Vec::new();
    for part in 1..=PART_COUNT {
        let (cpu_before, samples_before) = (cpu_time(), viewer.samples);
        viewer.run_until(began + WARM_UP + PART_DURATION * part).await;
        parts.push((cpu_time().saturating_sub(cpu_before), viewer.samples - samples_before));
    }
    let measurements = Measurements {
        first_frame,
        parts,
        resident_before,
        resident: anonymous_memory(),
        frames: viewer.frame_times().await,
    };
    config.send_modify(|config| config.is_stopping = true);
    sessions.join().unwrap();
    measurements
}

/// Watches one node; returns the viewer, which is used again for all nodes.
async fn measure_baseline(nodes: &[SimNode]) -> Viewer {
    let (config, reader, sessions) = start(nodes.iter().take(1).cloned().collect());
    let mut viewer = Viewer::new(reader);
    viewer.run_until(Instant::now() + BASELINE).await;
    config.send_modify(|config| config.is_stopping = true);
    sessions.join().unwrap();
    viewer
}

fn start(
    nodes: Vec<SimNode>,
) -> (watch::Sender<CollectorConfig>, FleetReader, thread::JoinHandle<()>) {
    let store = FleetStore::new(nodes.iter().map(|node| node.name.clone()), HISTORY);
    let reader = store.reader();
    let (config, config_changes) = watch::channel(CollectorConfig::every(INTERVAL));
    let targets: Vec<Target> = nodes.into_iter().map(target).collect();
    let sessions = thread::spawn(move || {
        let transport = Transport::new(Options::of_this_process());
        let collector = Collector::new(transport, Clock::system(), config_changes, 64);
        collector.runtime().unwrap().block_on(run(targets, collector, store));
    });
    (config, reader, sessions)
}

fn target(node: SimNode) -> Target {
    let profile =
        FixedProfile::new(node.address, &node.client_key, node.host_key.as_deref()).unwrap();
    let reach = Reach::Ssh(SshTarget {
        host: node.name.as_str().to_owned(),
        user: None,
        port: None,
        profile: Profile::Fixed(Arc::new(profile)),
    });
    Target { name: node.name, reach }
}

async fn run(targets: Vec<Target>, collector: Collector, store: Arc<FleetStore>) {
    let pipeline = Pipeline::new(Arc::clone(&store));
    let (_list, listed) = watch::channel(targets.into());
    let publishing = tokio::spawn(store.publish(PublishIntervals::default()));
    tokio::select! {
        () = collector.follow(listed, |name| pipeline.sink(name.clone())) => {}
        _ended = publishing => {}
    }
}

/// Draws published snapshots like the screen, and counts the samples in them.
struct Viewer {
    reader: FleetReader,
    clock: Clock,
    ui: Ui,
    buffer: Buffer,
    seen: Vec<Option<Timestamp>>,
    samples: u32,
}

impl Viewer {
    fn new(reader: FleetReader) -> Self {
        let theme = Theme {
            palette: Palette::Dark,
            depth: ColourDepth::Indexed256,
            glyphs: GlyphSet::Unicode,
            is_colorful: false,
        };
        let area = Rect::new(0, 0, WIDTH, HEIGHT);
        Self {
            reader,
            clock: Clock::system(),
            ui: Ui::new("bench".to_owned(), INTERVAL, TimeZone::UTC, theme),
            buffer: Buffer::empty(area),
            seen: Vec::new(),
            samples: 0,
        }
    }

    /// Switches to another fleet.
    fn switch_to(&mut self, reader: FleetReader) {
        self.reader = reader;
        self.seen.clear();
        self.samples = 0;
    }

    /// Draws until every node has complete data.
    async fn until_complete(&mut self) {
        while !self.reader.borrow().nodes.iter().all(|node| node.is_settled) {
            self.draw_next().await;
        }
    }

    async fn run_until(&mut self, until: Instant) {
        while Instant::now() < until && timeout_at(until, self.draw_next()).await.is_ok() {
            tokio::time::sleep(REDRAW).await;
        }
    }

    /// Waits for the next snapshot and draws it.
    async fn draw_next(&mut self) {
        self.reader.changed().await.unwrap();
        let fleet = self.reader.borrow_and_update().clone();
        let host = Source::host();
        self.seen.resize(fleet.nodes.len(), None);
        for (seen, node) in self.seen.iter_mut().zip(fleet.nodes.iter()) {
            let taken = node.source(&host).and_then(|state| state.taken_at);
            self.samples += u32::from(std::mem::replace(seen, taken) != taken);
        }
        let now = self.clock.now();
        self.ui.on_fleet(fleet, now);
        self.buffer.reset();
        self.ui.draw(now, &mut self.buffer);
    }
}

impl Viewer {
    /// Measures the time from a new snapshot to the bytes for the terminal, in each view; sorted.
    async fn frame_times(&mut self) -> Vec<(char, Vec<Duration>)> {
        let mut fleets = Vec::new();
        for _ in 0..SNAPSHOTS {
            self.reader.changed().await.unwrap();
            fleets.push((self.reader.borrow_and_update().clone(), self.clock.now()));
        }
        let mut all = Vec::new();
        for view in ['1', '2', '3', '4', '5', '6'] {
            let mut surface = Surface::new();
            let mut times = Vec::new();
            for (fleet, now) in fleets.iter().cycle().take(FRAMES_PER_VIEW) {
                let key = KeyEvent::new(KeyCode::Char(view), KeyModifiers::NONE);
                self.ui.on_key(key, *now);
                let began = Instant::now();
                self.ui.on_fleet(fleet.clone(), *now);
                surface.frame(FRAME_AREA, |buffer| self.ui.draw(*now, buffer));
                times.push(began.elapsed());
            }
            times.sort_unstable();
            all.push((view, times));
        }
        all
    }
}

/// Returns the CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Returns the anonymous resident memory in KiB.
fn anonymous_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
