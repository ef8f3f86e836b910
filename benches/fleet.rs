//! What watching costs: processor time per node-sample, memory per node, time to the first picture.
//!
//! `cargo bench --bench fleet [-- SIZE…]`. Every size gets a fresh client process, and each client
//! starts a server process of its own, so that what is measured is gtop's side alone.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a measurement that fails says so and ends")]

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop::collect::{Collector, CollectorConfig};
use gtop::fleet::{FleetReader, FleetStore, PublishRate};
use gtop::model::{NodeName, Source};
use gtop::pipeline::Pipeline;
use gtop::sim::{FleetSpec, SimNode, serve};
use gtop::time::{Clock, Timestamp};
use gtop::transport::{FixedProfile, Options, Profile, Reach, SshTarget, Target, Transport};
use gtop::tui::{ColourDepth, GlyphSet, Palette, Surface, Theme, Ui};
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
/// How long the fleet is up before anything is measured: its histories are as long as they become.
const SETTLING: Duration = Duration::from_secs(330);
/// How long is measured, in how many parts: where other machines share the processor some are dear.
const PART: Duration = Duration::from_secs(2);
const PARTS: u32 = 15;
/// How long the warm-up watches one node: code, runtime and screen are in memory then, and what is
/// measured is what further nodes cost.
const WARMING: Duration = Duration::from_secs(3);
/// How often new data is drawn, as the program does unless told.
const REDRAW: Duration = Duration::from_millis(500);
/// The screen's cells.
const WIDTH: u16 = 120;
const HEIGHT: u16 = 40;
/// The screen on which frames are measured, how many in each view, of how many fleets in turn.
const LARGE: Rect = Rect { x: 0, y: 0, width: 200, height: 60 };
const FRAMES: usize = 300;
const FLEETS: usize = 12;
const PICTURE_LIMIT: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match *words {
        ["--serve", nodes, devices, processes, seconds] => {
            let number = |text: &str| text.parse().unwrap();
            let fleet = FleetSpec::busy(number(nodes), number(devices), number(processes), 1);
            runtime.block_on(server(fleet, Duration::from_secs(number(seconds).into())));
        }
        ["--watch", nodes] => runtime.block_on(measure(nodes.parse().unwrap())),
        _ => runtime.block_on(all(&words)),
    }
}

/// Measures each size in a process of its own. Cargo adds words of its own, such as `--bench`.
async fn all(words: &[&str]) {
    let asked: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if asked.is_empty() && !words.contains(&"--bench") {
        // `cargo test --all-targets` runs benches too, and wants no measurement.
        return print("measures only under: cargo bench --bench fleet");
    }
    for nodes in if asked.is_empty() { &SIZES[..] } else { &asked } {
        let mut client = itself(&["--watch", &nodes.to_string()]).spawn().unwrap();
        assert!(client.wait().await.unwrap().success(), "the measurement of {nodes} nodes failed");
    }
    // target/release/deps/fleet-… stands below the program.
    let own = std::env::current_exe().unwrap();
    let program = own.parent().and_then(Path::parent).map(|release| release.join("gtop"));
    let size = program.and_then(|program| fs::metadata(program).ok()).map(|file| file.len());
    print(&size.map_or_else(
        || "program: not built; cargo build --release".to_owned(),
        |bytes| format!("program: {} KiB, stripped", bytes / 1024),
    ));
}

fn itself(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).kill_on_drop(true);
    command
}

fn print(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").unwrap();
}

// The server's process.

/// Serves until standard input closes, at most for `limit`; then tells what that cost.
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
        // When the limit came first, nobody waits for this any more.
        closing.send(()).ok();
    });
    drop(tokio::time::timeout(limit, closed).await);
    print(&format!("{}", cpu().as_micros()));
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
        let mut process = itself(&["--serve", nodes, devices, processes, seconds])
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

    /// Ends it and returns the processor time it took, start and handshakes included.
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

/// What was measured.
struct Figures {
    first_picture: Duration,
    /// Each part's processor time and samples.
    parts: Vec<(Duration, u32)>,
    resident_before: u64,
    resident: u64,
    frames: Vec<(char, Vec<Duration>)>,
}

async fn measure(count: u32) {
    let server = Server::start(count).await;
    let figures = client(server.nodes.clone()).await;
    let spent = server.stop().await;
    let measuring = PART * PARTS;
    let lasted = (SETTLING + measuring).as_secs_f64();
    let each = |(cpu, samples): &(Duration, u32)| cpu.as_secs_f64() * 1000.0 / f64::from(*samples);
    let add =
        |(sum, all): (Duration, u32), (cpu, samples): &(Duration, u32)| (sum + *cpu, all + samples);
    let sum = figures.parts.iter().fold((Duration::ZERO, 0), add);
    let mut middle: Vec<f64> = figures.parts.iter().map(each).collect();
    middle.sort_unstable_by(f64::total_cmp);
    print(&format!(
        "{count} nodes × {DEVICES} devices × {PROCESSES} processes, every {INTERVAL:?}:"
    ));
    print(&format!("  first complete picture  {:.2} s", figures.first_picture.as_secs_f64()));
    print(&format!(
        "  client CPU              {:.3} ms a node-sample ({} samples in {measuring:?}; \
         middle of {PARTS} parts {:.3})",
        each(&sum),
        sum.1,
        middle.get(middle.len() / 2).unwrap(),
    ));
    let grown = figures.resident.saturating_sub(figures.resident_before);
    let grown = f64::from(u32::try_from(grown).unwrap());
    print(&format!(
        "  client memory           {:.1} KiB a further node ({} MiB in all)",
        grown / f64::from(count),
        figures.resident / 1024,
    ));
    for (view, frames) in &figures.frames {
        let at = |share: usize| {
            let place = (frames.len() * share / 100).min(frames.len() - 1);
            frames.get(place).map_or(0.0, |frame| frame.as_secs_f64() * 1000.0)
        };
        let (middle, high) = (at(50), at(99));
        print(&format!("  frame, view {view}, 200×60   p50 {middle:.2} ms, p99 {high:.2} ms"));
    }
    print(&format!(
        "  simulated servers       {:.1} ms CPU a second, handshakes included",
        spent.as_secs_f64() * 1000.0 / lasted
    ));
}

/// Watches as the program does: sessions on a thread of their own, the screen here.
async fn client(nodes: Vec<SimNode>) -> Figures {
    let mut viewer = warm_up(&nodes).await;
    let resident_before = resident();
    let began = Instant::now();
    let (config, reader, sessions) = start(nodes);
    viewer.turn_to(reader);
    let in_time = tokio::time::timeout(PICTURE_LIMIT, viewer.until_complete()).await;
    assert!(in_time.is_ok(), "no complete fleet_view within {PICTURE_LIMIT:?}");
    let first_picture = began.elapsed();
    viewer.follow(began + SETTLING).await;
    let mut parts = Vec::new();
    for part in 1..=PARTS {
        let (cpu_before, samples_before) = (cpu(), viewer.samples);
        viewer.follow(began + SETTLING + PART * part).await;
        parts.push((cpu().saturating_sub(cpu_before), viewer.samples - samples_before));
    }
    let figures = Figures {
        first_picture,
        parts,
        resident_before,
        resident: resident(),
        frames: viewer.frames().await,
    };
    config.send_modify(|config| config.is_stopping = true);
    sessions.join().unwrap();
    figures
}

/// Returns the screen it used: there is one, however many nodes there are.
async fn warm_up(nodes: &[SimNode]) -> Viewer {
    let (config, reader, sessions) = start(nodes.iter().take(1).cloned().collect());
    let mut viewer = Viewer::new(reader);
    viewer.follow(Instant::now() + WARMING).await;
    config.send_modify(|config| config.is_stopping = true);
    sessions.join().unwrap();
    viewer
}

fn start(
    nodes: Vec<SimNode>,
) -> (watch::Sender<CollectorConfig>, FleetReader, thread::JoinHandle<()>) {
    let store = FleetStore::new(nodes.iter().map(|node| node.name.clone()), HISTORY);
    let reader = store.reader();
    let (config, followed) = watch::channel(CollectorConfig::every(INTERVAL));
    let targets: Vec<Target> = nodes.into_iter().map(target).collect();
    let sessions = thread::spawn(move || {
        let transport = Transport::new(Options::of_this_process());
        let collector = Collector::new(transport, Clock::system(), followed, 64);
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
    let pipeline = Pipeline::new(Arc::clone(&store), HISTORY);
    let targets = targets
        .into_iter()
        .map(|target| {
            let sink = pipeline.sink(target.name.clone());
            (target, sink)
        })
        .collect();
    let publishing = tokio::spawn(store.publish(PublishRate::default()));
    tokio::select! {
        () = collector.run(targets) => {}
        _ended = publishing => {}
    }
}

/// Draws what is published as the screen does, and counts the samples that show in it.
struct Viewer {
    reader: FleetReader,
    clock: Clock,
    stage: Ui,
    buffer: Buffer,
    seen: Vec<Option<Timestamp>>,
    samples: u32,
}

impl Viewer {
    fn new(reader: FleetReader) -> Self {
        let look = Theme {
            palette: Palette::Dark,
            depth: ColourDepth::Indexed256,
            glyphs: GlyphSet::Unicode,
            is_colorful: false,
        };
        let area = Rect::new(0, 0, WIDTH, HEIGHT);
        Self {
            reader,
            clock: Clock::system(),
            stage: Ui::new("bench".to_owned(), INTERVAL, TimeZone::UTC, look),
            buffer: Buffer::empty(area),
            seen: Vec::new(),
            samples: 0,
        }
    }

    /// Looks at another fleet from now on.
    fn turn_to(&mut self, reader: FleetReader) {
        self.reader = reader;
        self.seen.clear();
        self.samples = 0;
    }

    /// Looks until every node shows a complete picture.
    async fn until_complete(&mut self) {
        while !self.reader.borrow().nodes.iter().all(|node| node.is_settled) {
            self.look().await;
        }
    }

    async fn follow(&mut self, until: Instant) {
        while Instant::now() < until && timeout_at(until, self.look()).await.is_ok() {
            tokio::time::sleep(REDRAW).await;
        }
    }

    /// Waits for the next fleet and draws it.
    async fn look(&mut self) {
        self.reader.changed().await.unwrap();
        let fleet = self.reader.borrow_and_update().clone();
        let host = Source::host();
        self.seen.resize(fleet.nodes.len(), None);
        for (seen, node) in self.seen.iter_mut().zip(fleet.nodes.iter()) {
            let taken = node.source(&host).and_then(|state| state.taken_at);
            self.samples += u32::from(std::mem::replace(seen, taken) != taken);
        }
        let now = self.clock.now();
        self.stage.on_fleet(fleet, now);
        self.buffer.reset();
        self.stage.draw(now, &mut self.buffer);
    }
}

impl Viewer {
    /// Measures what a new fleet costs in each view until it is bytes for the terminal, sorted.
    async fn frames(&mut self) -> Vec<(char, Vec<Duration>)> {
        let mut fleets = Vec::new();
        for _ in 0..FLEETS {
            self.reader.changed().await.unwrap();
            fleets.push((self.reader.borrow_and_update().clone(), self.clock.now()));
        }
        let mut all = Vec::new();
        for view in ['1', '2', '3', '4', '5', '6'] {
            let mut surface = Surface::new();
            let mut spent = Vec::new();
            for (fleet, now) in fleets.iter().cycle().take(FRAMES) {
                let key = KeyEvent::new(KeyCode::Char(view), KeyModifiers::NONE);
                self.stage.on_key(key, *now);
                let began = Instant::now();
                self.stage.on_fleet(fleet.clone(), *now);
                surface.frame(LARGE, |buffer| self.stage.draw(*now, buffer));
                spent.push(began.elapsed());
            }
            spent.sort_unstable();
            all.push((view, spent));
        }
        all
    }
}

/// Processor time of all threads of this process.
fn cpu() -> Duration {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let spent = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(spent.sum())
}

/// KiB in memory that no file backs.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
