//! Output of the demo with seed 1 at a fixed clock, compared byte by byte with golden files.
//!
//! `tests/golden/demo` holds `--json`, two moments of `--json --watch`, `--csv`, `--problems`, `--once` and the
//! schema.
//! `BLESS=1 cargo test --test it demo_output::` rewrites them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gtop::internals::export::{
    OutputField, TimeFormat, write_csv, write_csv_header, write_jobs, write_json,
    write_json_schema, write_problems,
};
use gtop_collect::sim::{DriverState, FleetSpec, Machine, SampleRequest};
use gtop_collect::source::Pipeline;
use gtop_collect::wire::body::Body;
use gtop_collect::wire::{Delivery, DeliverySink, FrameReader, RawUpdate, Received, encode};
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::DisplaySelection;
use gtop_fleet::{Fleet, FleetStore, PublishIntervals};
use gtop_local::time::Timestamp;
use gtop_model::{Link, NodeName, SessionUpdate, TransportKind};
use gtop_ui::{ColourDepth, GlyphSet, Palette, Theme, render_text};
use gtop_ui::{DisplayOptions, RenderContext, report};
use jiff::tz::TimeZone;

const NODES: u32 = 8;
/// Half of the demo's, to keep the files readable.
const DEVICES: u32 = 4;
const SEED: u64 = 1;
const INTERVAL: Duration = Duration::from_secs(1);
const HISTORY: Duration = Duration::from_secs(60);
/// 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// The simulated fleet, with samples delivered by the test.
pub struct Demo {
    spec: FleetSpec,
    machines: Vec<(NodeName, Machine, DeliverySink)>,
    store: Arc<FleetStore>,
}

impl Demo {
    pub fn new(spec: FleetSpec) -> Self {
        let names = spec.names();
        let store = FleetStore::new(names.clone(), HISTORY);
        let pipeline = Pipeline::new(Arc::clone(&store));
        let machines = (0..)
            .zip(names)
            .map(|(index, name)| {
                let machine = Machine::new(&spec, index, &name);
                (name.clone(), machine, pipeline.sink(name))
            })
            .collect();
        Self { spec, machines, store }
    }

    /// Delivers the sample of second `t` of every node, and at second 0 also the hello frames.
    pub fn tick(&mut self, t: u32) {
        let at = START.plus(Duration::from_secs(u64::from(t)));
        let (second, is_first) = (f64::from(t), t == 0);
        let names = self.machines.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>();
        let jobs = self.spec.jobs(START, at);
        self.store.set_nodes(names, Some(Arc::new(jobs)));
        for (_, machine, sink) in &mut self.machines {
            let mut deliver = |raw| sink(Delivery { at, raw });
            if is_first {
                deliver(SessionUpdate::Link(Link::Up).into());
                deliver(SessionUpdate::Reached(TransportKind::Native).into());
                deliver(SessionUpdate::Interval(INTERVAL).into());
                deliver(frame(&Body::Hello(machine.hello(second, INTERVAL.as_secs_f64()))));
            }
            for event in machine.events(second - 1.0, second) {
                deliver(frame(&Body::Event(event)));
            }
            let request = SampleRequest {
                number: u64::from(t) + 1,
                full: true,
                slow: true,
                driver: DriverState::DevicesAndUses,
                ..SampleRequest::default()
            };
            deliver(frame(&Body::Sample(machine.sample(second, request))));
        }
    }

    /// Returns the fleet once it has the samples of the last tick.
    pub async fn fleet(&self, now: Timestamp) -> Fleet {
        let mut reader = self.store.reader();
        let publish = Arc::clone(&self.store).publish(PublishIntervals::default());
        let complete = async {
            loop {
                let fleet = reader.borrow_and_update().clone();
                let has_all = fleet.nodes.iter().all(|node| node.taken_at() == Some(now));
                if has_all && fleet.jobs.as_ref().is_some_and(|jobs| jobs.is_answered()) {
                    return fleet;
                }
                reader.changed().await.unwrap();
            }
        };
        tokio::select! {
            () = publish => unreachable!("publishes until dropped"),
            fleet = complete => fleet,
        }
    }
}

fn frame(body: &Body) -> RawUpdate {
    let mut reader = FrameReader::default();
    reader.push(encode(body));
    let Some(Received::Frame(frame)) = reader.next_frame() else { panic!("no frame") };
    RawUpdate::Frame(frame)
}

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/demo").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        expected == found,
        "{} differs; look at it, then BLESS=1: {differs:#?}",
        path.display()
    );
}

pub fn json(fleet: &Fleet, now: Timestamp) -> String {
    let mut text = Vec::new();
    write_json(&mut text, fleet, now, "demo").unwrap();
    String::from_utf8(text).unwrap()
}

fn csv(fleet: &Fleet, now: Timestamp) -> String {
    let (mut text, fields) = (Vec::new(), OutputField::defaults());
    write_csv_header(&mut text, &fields).unwrap();
    write_csv(&mut text, fleet, now, &TimeZone::UTC, TimeFormat::Iso, &fields).unwrap();
    String::from_utf8(text).unwrap()
}

fn once(fleet: &Fleet, now: Timestamp, width: u16) -> String {
    let theme = Theme {
        palette: Palette::Mono,
        depth: ColourDepth::Ansi16,
        glyphs: GlyphSet::Unicode,
        is_colorful: false,
    };
    let fleet_view = FleetView::new(fleet.clone(), now);
    let (display, zone) = (DisplayOptions::default(), TimeZone::UTC);
    let context = RenderContext { view: &fleet_view, options: &display, zone: &zone };
    let mut text = render_text(&report(context, "demo", width), theme, width, false);
    let mut jobs = Vec::new();
    write_jobs(&mut jobs, fleet, &DisplaySelection::default(), now, None).unwrap();
    text.push('\n');
    text + &String::from_utf8(jobs).unwrap()
}

fn problems(fleet: &Fleet, now: Timestamp) -> String {
    let mut text = Vec::new();
    let selection = DisplaySelection::default();
    let fleet_view = FleetView::printed(fleet.clone(), now, &selection);
    write_problems(&mut text, &fleet_view, fleet.nodes.len()).unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_demo_output_equals_the_golden_files() {
    let mut demo = Demo::new(FleetSpec { devices: DEVICES, ..FleetSpec::demo(NODES, SEED) });
    let mut watch_output = String::new();
    for t in 0..8 {
        demo.tick(t);
        let now = START.plus(Duration::from_secs(u64::from(t)));
        let fleet = demo.fleet(now).await;
        if t >= 6 {
            watch_output += &json(&fleet, now);
        }
        if t == 7 {
            // Indented, so that a difference shows the key.
            let value: serde_json::Value = serde_json::from_str(&json(&fleet, now)).unwrap();
            check("snapshot.json", &(serde_json::to_string_pretty(&value).unwrap() + "\n"));
            check("devices.csv", &csv(&fleet, now));
            check("problems.txt", &problems(&fleet, now));
            for width in [80, 200] {
                check(&format!("once-{width}.txt"), &once(&fleet, now, width));
            }
        }
    }
    check("watch.jsonl", &watch_output);
}

#[test]
fn the_schema_equals_the_golden_file() {
    let mut schema = Vec::new();
    write_json_schema(&mut schema).unwrap();
    check("schema.json", &String::from_utf8(schema).unwrap());
}
