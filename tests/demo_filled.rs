//! The demo shows everything: each metric and each column has a value somewhere, and in the first minute states stay.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop::internals::setting_table::settings;
use gtop_collect::sim::FleetSpec;
use gtop_fleet::metrics::{HOST, JOB, JobAt, PROCESS, Usage, Value, device_fields};
use gtop_fleet::{Fleet, Totals};
use gtop_local::time::Timestamp;
use gtop_model::Throttle;
use gtop_ui::{
    ColourDepth, Density, DisplayOptions, GlyphSet, Palette, RedrawPace, ScreenSettings, Setup,
    TableColumns, Theme, Ui, UiConfig,
};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::demo_output::{Demo, START};

/// Metrics that no device, process or job of the demo has, and why.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("retired_single_bit_pages", "boards of this age remap rows instead"),
    ("retired_double_bit_pages", "boards of this age remap rows instead"),
    ("fan_rpm", "only AMD's boards with fans report it"),
    ("video_percent", "only AMD's boards for graphics report it"),
    ("sluid", "only for jobs without a number"),
];

pub fn at(second: u32) -> Timestamp {
    START.plus(Duration::from_secs(second.into()))
}

/// Returns the demo after some seconds.
pub async fn demo_after(spec: FleetSpec, seconds: u32) -> Fleet {
    let mut demo = Demo::new(spec);
    for second in 0..seconds {
        demo.tick(second);
        demo.fleet(at(second)).await;
    }
    demo.tick(seconds);
    demo.fleet(at(seconds)).await
}

fn is_known(value: &Value) -> bool {
    !matches!(value, Value::Unknown(_))
}

#[tokio::test(start_paused = true)]
async fn every_metric_has_a_value_somewhere() {
    let fleet = demo_after(FleetSpec::demo(12, 1), 12).await;
    let nodes = || fleet.nodes.iter();
    let devices = || nodes().flat_map(|node| node.devices.iter());
    let mut missing: Vec<&str> = Vec::new();
    for field in device_fields() {
        if !devices().any(|device| is_known(&(field.read)(device))) {
            missing.push(field.id);
        }
    }
    for field in HOST {
        assert!(nodes().all(|node| is_known(&(field.read)(node))), "{}", field.id);
    }
    let usages: Vec<Usage> = nodes()
        .flat_map(|node| node.devices.iter().flat_map(|device| Usage::of(node, device)))
        .collect();
    for field in PROCESS {
        if !usages.iter().any(|usage| is_known(&(field.read)(usage))) {
            missing.push(field.id);
        }
    }
    let jobs = fleet.jobs.as_ref().unwrap();
    let jobs: Vec<JobAt> =
        jobs.jobs.iter().map(|job| JobAt { job: job.clone(), now: at(12) }).collect();
    for field in JOB {
        if !jobs.iter().any(|job| is_known(&(field.read)(job))) {
            missing.push(field.id);
        }
    }
    assert_eq!(missing, EXCEPTIONS.map(|(id, _)| id));
}

/// Returns the screen of a view with these columns, as lines of this width.
fn screen(fleet: &Fleet, columns: TableColumns, keys: &str, width: u16) -> Vec<String> {
    let theme = Theme {
        palette: Palette::Mono,
        depth: ColourDepth::Ansi16,
        glyphs: GlyphSet::Unicode,
        is_colorful: false,
    };
    let mut ui = Ui::new("demo".to_owned(), Duration::from_secs(1), TimeZone::UTC, theme);
    ui.apply_config(UiConfig {
        theme,
        detects_background: false,
        // Second lines of devices have other values under a title.
        display: DisplayOptions { columns, density: Density::Compact, ..DisplayOptions::default() },
        interval: Duration::from_secs(1),
        redraw: RedrawPace::default(),
        settings: ScreenSettings::default(),
        setup: Setup::default(),
    });
    ui.on_fleet(fleet.clone(), at(12));
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, 120));
    for key in keys.chars() {
        ui.on_key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE), at(12));
        ui.draw(at(12), &mut buffer);
    }
    buffer.reset();
    ui.draw(at(12), &mut buffer);
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..120).map(line).collect()
}

/// Returns true if some row has a value under the title of a column. Rows of devices begin with a number.
fn has_value(lines: &[String], title: &str, is_of_devices: bool) -> bool {
    // Below the summary and the tabs.
    let mut body = lines.iter().skip(3).enumerate();
    let title_row = body.find_map(|(row, line)| Some((row, line.find(title)?)));
    let Some((row, place)) = title_row else { return false };
    let body = &lines[3..];
    let start = body[row].bytes().take(place).filter(|byte| byte & 0xc0 != 0x80).count();
    let is_row = |line: &&String| {
        !is_of_devices || line.trim_start().starts_with(|letter: char| letter.is_ascii_digit())
    };
    // The host's values follow the devices.
    let is_in_table = |line: &&String| !line.trim().is_empty() && !line.starts_with("CPU");
    let rows = body[row + 1..].iter().take_while(is_in_table).filter(is_row);
    let mut texts = rows.map(|line| line.chars().skip(start).collect::<String>());
    texts.any(|text| !text.trim_matches([' ', '–', '-']).is_empty())
}

#[tokio::test(start_paused = true)]
async fn every_column_has_a_value_somewhere() {
    // Chips of one core have no values of their cores.
    const EXCEPTIONS: [&str; 1] = ["cores"];
    let fleet = demo_after(FleetSpec::demo(12, 1), 12).await;
    let mut empty = Vec::new();
    for setting in settings() {
        for column in setting.kind.columns().iter().filter(|column| !column.title.is_empty()) {
            let chosen = |name| {
                let is_here = setting.name == format!("columns-{name}");
                if is_here && !column.is_fixed { vec![column.name.to_owned()] } else { Vec::new() }
            };
            let columns = TableColumns {
                fleet: chosen("fleet"),
                node: chosen("node"),
                processes: chosen("processes"),
                jobs: chosen("jobs"),
                users: chosen("users"),
            };
            // All nodes, and those of partitions; the node with memory errors, that of slices, that of a workstation, that of
            // AMD, and that of TPU chips.
            let views: &[&str] = match setting.name {
                "columns-fleet" => &["1", "1gg"],
                "columns-node" => {
                    &["13", "1jjj3", "1jjjj3", "1jjjjjj3", "1jjjjjjjj3", "1jjjjjjjjj3"]
                }
                "columns-processes" => &["4"],
                "columns-jobs" => &["2"],
                _ => &["5"],
            };
            let is_of_devices = setting.name == "columns-node";
            // The list of jobs has a sign instead of the words of a problem on a narrow screen.
            let width = if setting.name == "columns-jobs" { 110 } else { 96 };
            let is_filled = |keys: &&str| {
                let lines = screen(&fleet, columns.clone(), keys, width);
                let mut titles =
                    [column.title].into_iter().chain(column.other_titles.iter().copied());
                titles.any(|title| has_value(&lines, title, is_of_devices))
            };
            if !views.iter().any(is_filled) {
                empty.push(column.name);
            }
        }
    }
    assert_eq!(empty, EXCEPTIONS);
}

#[tokio::test(start_paused = true)]
async fn no_device_changes_its_state_in_the_first_minute() {
    for nodes in [12, 24] {
        let mut demo = Demo::new(FleetSpec::demo(nodes, 1));
        let mut first = None;
        for second in (0..=60).step_by(3) {
            demo.tick(second);
            let fleet = demo.fleet(at(second)).await;
            if second == 0 {
                continue;
            }
            let totals = Totals::of(&fleet, at(second));
            let counts = [totals.busy, totals.idle_held, totals.free, totals.faulty];
            let flags: Vec<String> = fleet
                .nodes
                .iter()
                .flat_map(|node| node.devices.iter())
                .map(|device| {
                    let text = device.throttle.get().map(Throttle::text);
                    format!("{} {text:?} {:?}", device.uuid, device.fault)
                })
                .collect();
            let state = (counts, flags);
            let known = first.get_or_insert_with(|| state.clone());
            assert_eq!(*known, state, "{nodes} nodes, second {second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn energy_grows_by_power_and_time() {
    let mut demo = Demo::new(FleetSpec::demo(12, 1));
    let mut sums = std::collections::BTreeMap::new();
    for second in 0..=50 {
        demo.tick(second);
        let fleet = demo.fleet(at(second)).await;
        for device in fleet.nodes.iter().flat_map(|node| node.devices.iter()) {
            let details = device.details.as_ref();
            let Some(energy) = details.and_then(|details| details.energy_millijoules.get()) else {
                continue;
            };
            let watts = f64::from(device.power.get().unwrap().get());
            let (start, sum) = sums.entry(Arc::clone(&device.uuid)).or_insert((energy, 0.0));
            if second == 50 {
                #[expect(clippy::cast_precision_loss, reason = "joules of a minute")]
                let joules = (energy - *start) as f64 / 1000.0;
                let ratio = joules / *sum;
                assert!((0.85..1.15).contains(&ratio), "{}: {joules} J of {sum} J", device.uuid);
            }
            *sum += watts;
        }
    }
    assert!(sums.len() > 70);
}
