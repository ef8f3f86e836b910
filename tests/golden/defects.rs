//! Known defects of other monitors, and what gtop shows instead.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop_collect::wire::{Decoder, FrameReader, Received};
use gtop_fleet::{Fleet, Node, NodeBuilder};
use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, Fault, FaultKind, JobList, JobListError, Link, NodeName, NodeUpdate, ProcessRequest,
    Reading, Reason, SchedulerErrorKind,
};
use gtop_ui::{DisplayOptions, MemoryUnit};
use gtop_ui::{Keymap, LoopEffect, Surface, Ui, UiRequest};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::json;

use crate::golden::fleets::{self, NOW, NodeFixture};
use crate::golden::harness::*;

/// The keys that open variants of the views and their dialogs.
const VARIANTS: [&[KeyCode]; 9] = [
    &[KeyCode::Char('1'), KeyCode::Char('m')],
    &[KeyCode::Char('1'), KeyCode::Char('g'), KeyCode::Char('g'), KeyCode::Char('g')],
    &[KeyCode::Char('2'), KeyCode::Enter],
    &[KeyCode::Char('2'), KeyCode::Enter, KeyCode::Enter],
    &[KeyCode::Char('3'), KeyCode::Enter, KeyCode::Down],
    &[KeyCode::Char('4'), KeyCode::Down, KeyCode::Enter],
    &[KeyCode::Char('4'), KeyCode::Down, KeyCode::Char('T')],
    &[KeyCode::Char('5'), KeyCode::Enter],
    &[KeyCode::Char('h')],
];

/// Returns the keys that open each view, its variants and its dialogs.
fn screens() -> impl Iterator<Item = Vec<KeyCode>> {
    views().map(|(_, code)| vec![code]).chain(VARIANTS.map(<[KeyCode]>::to_vec))
}

fn screen(ui: &mut Ui, (width, height): (u16, u16)) -> String {
    text(&draw(ui, width, height)).join("\n")
}

fn fleet_of(fixture: NodeFixture) -> Fleet {
    Fleet::new(vec![fixture.up().node()].into())
}

/// Decodes frames as they arrive over the wire.
fn node_from_frames(name: &str, frames: &[serde_json::Value]) -> Arc<Node> {
    let mut builder = NodeBuilder::new(NodeName::new(name).unwrap(), Duration::from_secs(300));
    let (mut decoder, mut reader) = (Decoder::default(), FrameReader::default());
    builder.on_link(Link::Up);
    for frame in frames {
        reader.push(format!("\x1egtop1 {frame}\n"));
        let Some(Received::Frame(frame)) = reader.next_frame() else { unreachable!("{frame}") };
        match decoder.decode(&frame.body, NOW) {
            Some(NodeUpdate::Hello(hello)) => builder.on_hello(hello),
            Some(NodeUpdate::Sample(sample)) => builder.on_sample(*sample),
            Some(NodeUpdate::Event(event)) => builder.on_event(event),
            other => unreachable!("{other:?}"),
        }
    }
    builder.node()
}

/// Terminal escapes, line breaks, bidirectional and combining characters, and shell substitutions. Columns
/// after it must stay aligned.
const HOSTILE_TEXT: &str = "e\x1b[2J\x1b]0;renamed\x07\u{9b}31m\r\n\t\u{202e}\u{2066}\u{200f}\u{200b}$(reboot)`x`名\u{301}";

fn hostile_fleet() -> Fleet {
    let number = format!("a[$(touch {HOSTILE_TEXT})0]");
    let row = |index: &str, memory: &str| {
        format!(
            "{index}, GPU-{index}, {}, 40, {memory}, 81559, 300, 700, 9",
            HOSTILE_TEXT.replace('\n', " ")
        )
    };
    let columns = [
        "index",
        "uuid",
        "name",
        "utilization.gpu",
        "memory.used",
        "memory.total",
        "power.draw",
        "power.limit",
        "ecc.errors.uncorrected.volatile.total",
    ];
    let process = |pid: u32| {
        json!({"pid": pid, "start": 100, "cpu": 5, "rss": 4096, "state": "S", "ppid": 1, "uid": 7,
            "user": HOSTILE_TEXT, "command": HOSTILE_TEXT, "cgroup": format!("/x/{HOSTILE_TEXT}"), "cwd": HOSTILE_TEXT, "job": HOSTILE_TEXT,
            "parents": [[1, 1, HOSTILE_TEXT]]})
    };
    let host = json!({"at": 2.0, "cpu": [1, 2, 3, 4, 5, 6, 7, 8], "load": [1, 1, 1],
        "net": [{"name": HOSTILE_TEXT, "rx": 1, "tx": 1}], "disk": [{"name": HOSTILE_TEXT, "read": 1, "write": 1}]});
    let hello = json!({"t": "hello", "v": 1, "probe": "python", "version": HOSTILE_TEXT, "path": HOSTILE_TEXT, "at": 1.0,
        "host": HOSTILE_TEXT, "boot": HOSTILE_TEXT, "kernel": HOSTILE_TEXT, "arch": HOSTILE_TEXT, "cpus": 4, "tick": 100,
        "page": 4096, "uid": 7, "user": HOSTILE_TEXT, "hidepid": 0, "commands": [HOSTILE_TEXT],
        "intervals": {"host": 1.0, "nvidia-smi": 1.0},
        "backends": [{"kind": "nvidia-smi", "state": "ok", "driver": HOSTILE_TEXT},
            {"kind": HOSTILE_TEXT, "state": "absent", "why": HOSTILE_TEXT}]});
    let sample = json!({"t": "sample", "n": 1, "at": 2.0, "full": true, "host": host,
        "host_slow": {"at": 2.0, "space": [{"path": HOSTILE_TEXT, "total": 10, "free": 1}]},
        "backends": [{"kind": "nvidia-smi", "at": 2.0,
            "csv": {"columns": columns, "rows": [row("0", "4000"), row("1", &number), number]},
            "apps": {"at": 2.0, "rows": [format!("GPU-0, 4121, 100, {HOSTILE_TEXT}"), "GPU-0, 4122, 100, x"]}}],
        "processes": {"at": 2.0, "list": [process(4121), process(4122)],
            "unseen": [{"pid": 4123, "why": "hidden", "user": HOSTILE_TEXT}]}});
    let event = json!({"t": "event", "at": 2.0, "source": "nvml", "kind": "xid", "device": "GPU-0",
        "code": 79, "message": HOSTILE_TEXT});
    let node = node_from_frames("gpu01", &[hello, sample, event]);
    let text = gtop_local::text::sanitize(HOSTILE_TEXT, 100);
    let down = Link::Down { fault: Fault::new(FaultKind::SessionLost, &*text), retry_at: None };
    Fleet::new(vec![node, NodeFixture::new("gpu02").link(down).node()].into())
}

#[test]
fn hostile_text_of_a_node_moves_neither_cursor_nor_columns() {
    let fleet = hostile_fleet();
    let node = &fleet.nodes[0];
    // A value that is not a number is unknown, and its row stays.
    assert_eq!(node.devices.len(), 2, "{:?}", node.devices);
    assert_eq!(node.devices[0].memory_used, Reading::Known(Bytes(4_000 << 20)));
    assert_eq!(node.devices[1].memory_used, Reading::Unknown(Reason::Malformed));
    for theme in [DARK, ASCII] {
        for keys in screens() {
            let mut ui = new_ui(fleet.clone(), theme);
            press(&mut ui, &keys);
            for (width, height) in SIZES {
                let buffer = draw(&mut ui, width, height);
                let mut surface = Surface::new();
                let bytes = surface.frame(buffer.area, |surface_buffer| {
                    surface_buffer.clone_from(&buffer);
                    Vec::new()
                });
                // No escape sequence that reaches the terminal comes from the node.
                for command in bytes.split('\x1b').skip(1) {
                    let sequence = command.strip_prefix('[').unwrap_or("not a CSI sequence");
                    let end = sequence.find(|letter: char| letter.is_ascii_alphabetic()).unwrap();
                    let letter = sequence.chars().nth(end).unwrap();
                    assert!("HCKmhlJ".contains(letter), "{keys:?}: {command:?}");
                }
                let text = bytes.replace('\x1b', "");
                let hostile = text.chars().find(|letter| gtop_local::text::is_unprintable(*letter));
                assert_eq!(hostile, None, "{keys:?} {width}: {text:?}");
            }
        }
    }
    let mut ui = new_ui(fleet, DARK);
    press(&mut ui, &[KeyCode::Char('4')]);
    let buffer = draw(&mut ui, 120, 40);
    let column = |y: u16, word: &str| {
        let cells = u16::try_from(word.len()).unwrap();
        let at = |x: u16| (x..x + cells).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..120 - cells).find(|x| at(*x) == word)
    };
    let titles = (0..40).find(|y| column(*y, "COMMAND").is_some()).unwrap();
    let command = column(titles, "COMMAND").unwrap();
    for (y, pid) in [(titles + 1, "4121"), (titles + 2, "4122")] {
        assert_eq!(column(y, pid), column(titles, " PID"), "{}", row(&buffer, y));
        assert_eq!(buffer[(command, y)].symbol(), "e", "{}", row(&buffer, y));
    }
}

#[test]
fn a_device_without_values_keeps_its_row_and_adds_no_zero() {
    let fixture = NodeFixture::new("gpu01").devices(&[50.0, 50.0]).change_device(0, |device| {
        let unknown = Reason::NotSupported;
        device.utilization = Reading::Unknown(unknown);
        device.memory_used = Reading::Unknown(unknown);
        device.memory_total = Reading::Unknown(unknown);
        device.power = Reading::Unknown(unknown);
        device.power_limit = Reading::Unknown(unknown);
        device.temperature = Reading::Unknown(unknown);
        device.sm_clock = Reading::Unknown(unknown);
        device.memory_clock = Reading::Unknown(unknown);
        device.ecc_uncorrected = Reading::Unknown(unknown);
        device.throttle = Reading::Unknown(unknown);
    });
    let mut ui = new_ui(fleet_of(fixture), DARK);
    for (width, height) in SIZES {
        press(&mut ui, &[KeyCode::Char('1')]);
        let fleet = screen(&mut ui, (width, height));
        assert!(fleet.contains("UTIL  50%"), "{fleet}");
        assert!(fleet.contains("66.1/79.6 GiB"), "{fleet}");
        press(&mut ui, &[KeyCode::Char('3')]);
        let node = screen(&mut ui, (width, height));
        let row = node.lines().find(|line| line.trim_start().starts_with("0 ")).unwrap();
        // Attributes follow the clocks.
        let values: String = row.replace("H100 80GB HBM3", "").chars().skip(3).take(77).collect();
        assert!(
            values.contains('–') && !values.contains(|letter: char| letter.is_ascii_digit()),
            "{row}"
        );
        // An unknown error count is no error, and an unknown throttle reason is no throttling.
        assert!(
            !node.contains("ECC:") && !node.contains("THERM") && !node.contains("PWR"),
            "{node}"
        );
        let sum_line = node.lines().find(|line| line.starts_with("SUM")).unwrap();
        assert!(sum_line.contains("/700") && sum_line.contains(" 50 "), "{sum_line}");
    }
}

#[test]
fn a_host_without_values_is_not_shown_as_idle() {
    let fleet = Fleet::new(vec![NodeFixture::new("gpu01").hello(&[]).node()].into());
    let mut ui = new_ui(fleet, DARK);
    for keys in [KeyCode::Char('1'), KeyCode::Char('3')] {
        press(&mut ui, &[keys]);
        let shown = screen(&mut ui, (200, 50));
        let below = shown.lines().skip(3).collect::<Vec<_>>().join("\n");
        for zero in [" 0%", "0.0", " 0/", "of 0 ", "0K", "0M"] {
            assert!(!below.contains(zero), "{zero}: {shown}");
        }
    }
}

#[test]
fn means_are_over_fresh_devices_only() {
    let idle = |name: &str| NodeFixture::new(name).devices(&[0.0; 7]).up().node();
    let busy = || NodeFixture::new("gpu01").devices(&[80.0]).up().node();
    let down = NodeFixture::new("gpu03").down(FaultKind::Unreachable, "", None).node();
    let lost = NodeFixture::new("gpu04").devices(&[0.0; 8]).up_until_ago(42_000).down(
        FaultKind::SessionLost,
        "",
        None,
    );
    let stale = NodeFixture::new("gpu05").devices(&[0.0; 8]).up_until_ago(42_000).node();
    let line = |nodes: Vec<Arc<Node>>| {
        let mut ui = new_ui(Fleet::new(nodes.into()), DARK);
        text(&draw(&mut ui, 120, 40))[1].clone()
    };
    let means = |line: &str| line.split_once("UTIL").unwrap().1.to_owned();
    let alone = line(vec![busy()]);
    assert!(alone.starts_with("1 device · ") && alone.contains("UTIL  80%"), "{alone}");
    let all = line(vec![busy(), down, lost.node(), stale]);
    assert_eq!(means(&all), means(&alone));
    assert!(all.starts_with("17 devices · 1 busy · ") && all.contains(" 16 stale "), "{all}");
    let both = line(vec![busy(), idle("gpu02")]);
    assert!(both.contains("UTIL  10%"), "the mean of eight devices, not of two nodes: {both}");
}

#[test]
fn a_list_longer_than_the_screen_keeps_its_titles_and_reaches_its_end() {
    for (count, width, height) in [(64, 80, 24), (64, 120, 50), (5_000, 80, 24), (5_000, 200, 50)] {
        let mut ui = new_ui(fleets::large(count), DARK);
        press(&mut ui, &[KeyCode::End]);
        let lines = text(&draw(&mut ui, width, height));
        assert!(lines[0].contains(&format!("{count} of {count} nodes fresh")), "{}", lines[0]);
        assert!(lines[1].contains(" devices · ") && lines[3].contains("NODE"), "{lines:#?}");
        let last = format!("gpu{count:04}");
        assert!(lines.iter().any(|line| line.trim_start().starts_with(&last)), "{lines:#?}");
        press(&mut ui, &[KeyCode::Home]);
        assert!(screen(&mut ui, (width, height)).contains("  gpu0001 "));
        for keys in screens().filter(|_| height == 24) {
            press(&mut ui, &keys);
            draw(&mut ui, width, height);
            press(&mut ui, &[KeyCode::End, KeyCode::PageUp, KeyCode::Esc, KeyCode::Esc]);
        }
    }
}

#[test]
fn flags_stay_in_the_row_of_their_device_at_any_width() {
    for width in [60, 80, 96, 100, 119, 120, 154, 155, 200] {
        let mut ui = new_ui(fleets::every_state(), DARK);
        press(&mut ui, &[KeyCode::Down, KeyCode::Char('3')]);
        let lines = text(&draw(&mut ui, width, 40));
        let flagged = lines.iter().filter(|line| line.contains("THERM")).collect::<Vec<_>>();
        let [hot] = flagged[..] else { panic!("{width}: {lines:#?}") };
        assert!(hot.trim_start().starts_with("3 "), "{width}: {hot}");
        let sums = lines.iter().position(|line| line.starts_with("SUM")).unwrap();
        let devices = lines.iter().position(|line| line.trim_start().starts_with("0 ")).unwrap();
        assert_eq!(sums - devices, 8, "each device takes one line: {lines:#?}");
        // Sums are right-aligned with their column, however long they are.
        let end = |line: &str, word: &str| {
            let front = line.split(word).next().unwrap();
            unicode_width::UnicodeWidthStr::width(front) + word.len()
        };
        let (sum, device) = (&lines[sums], &lines[devices]);
        assert_eq!(end(sum, "/637.2"), end(device, "/79.6"), "{lines:#?}");
        assert_eq!(end(sum, "/5600"), end(device, "/700"), "{lines:#?}");
    }
}

#[test]
fn jobs_stay_when_the_scheduler_does_not_answer_and_the_error_is_shown() {
    let before = fleets::with_jobs();
    let list = JobList::clone(before.jobs.as_ref().unwrap());
    let error = JobListError {
        message: "slurmctld does not answer".into(),
        kind: SchedulerErrorKind::Other,
        since: Timestamp::from_micros(NOW.as_micros() - 30_000_000),
    };
    let list = JobList { error: Some(error), ..list };
    let fleet = before.with_jobs(Some(Arc::new(list)));
    for (width, height) in SIZES {
        let mut ui = new_ui(fleet.clone(), DARK);
        for (view, code) in views() {
            press(&mut ui, &[code]);
            let shown = screen(&mut ui, (width, height));
            assert!(shown.contains("slurmctld does not answer"), "{view:?}: {shown}");
        }
        press(&mut ui, &[KeyCode::Char('2')]);
        let shown = screen(&mut ui, (width, height));
        assert!(shown.contains("8421") && shown.contains("llama-70b"), "{shown}");
    }
    Scene::new("job-list-unanswered", &fleet, [KeyCode::Char('2')]).check(&[NARROW]);
}

#[test]
fn the_same_pid_on_two_nodes_is_two_processes() {
    let nodes = [("gpu01", "alice", "train"), ("gpu02", "bob", "serve")];
    let fixture = |(node, user, command): (&str, &str, &str)| {
        NodeFixture::new(node).devices(&[50.0]).process(0, 4_121, user, "", command).up().node()
    };
    let mut ui = new_ui(Fleet::new(nodes.map(fixture).to_vec().into()), DARK);
    press(&mut ui, &[KeyCode::Char('4')]);
    let shown = screen(&mut ui, (120, 40));
    for (node, user, command) in nodes {
        let row = shown.lines().find(|line| line.trim_start().starts_with(node)).unwrap();
        assert!(row.contains("4121") && row.contains(user) && row.contains(command), "{row}");
    }
    press(&mut ui, &[KeyCode::Down, KeyCode::Down, KeyCode::Char('K')]);
    let dialog = screen(&mut ui, (120, 40));
    assert!(dialog.contains("gpu02") && dialog.contains("serve"), "{dialog}");
    let LoopEffect::Request(UiRequest::SignalProcesses(requests)) =
        ui.on_key(key(KeyCode::Enter), NOW)
    else {
        panic!("nothing is sent: {dialog}")
    };
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].node.as_str(), "gpu02");
    assert!(
        matches!(requests[0].process_request, ProcessRequest::Signal(key, _) if key.pid == 4_121)
    );
}

#[test]
fn a_node_removed_while_shown_is_named_and_a_neighbour_is_selected() {
    let before = fleets::every_state();
    let mut after = before.clone();
    let rest = before.nodes.iter().filter(|node| node.name.as_str() != "gpu02").cloned();
    after.nodes = rest.collect();
    for keys in screens() {
        let mut ui = new_ui(before.clone(), DARK);
        press(&mut ui, &[KeyCode::Down]);
        press(&mut ui, &keys);
        let later = NOW.plus(Duration::from_secs(1));
        for fleet in [after.clone(), Fleet::default(), before.clone()] {
            ui.on_fleet(fleet, later);
            for (width, height) in SIZES {
                let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
                ui.draw(later, &mut buffer);
            }
            press(&mut ui, &[KeyCode::Down, KeyCode::Up, KeyCode::Right, KeyCode::Left]);
        }
    }
    // A neighbour is selected without a cursor, and a message names the removed node.
    for is_frozen in [false, true] {
        let mut ui = new_ui(before.clone(), DARK);
        press(&mut ui, &[KeyCode::Down, KeyCode::Char('3'), KeyCode::Down, KeyCode::End]);
        if is_frozen {
            press(&mut ui, &[KeyCode::Char('z')]);
        }
        ui.on_fleet(after.clone(), NOW.plus(Duration::from_secs(1)));
        if is_frozen {
            assert!(!screen(&mut ui, (80, 24)).contains("no longer monitored"));
            press(&mut ui, &[KeyCode::Char('z')]);
        }
        check("node-gone-80x24", &draw(&mut ui, 80, 24));
        assert!(screen(&mut ui, (80, 24)).contains("gpu02 is no longer monitored"));
        assert_eq!(ui.on_key(key(KeyCode::Char('K')), NOW), LoopEffect::Handled);
        let shown = screen(&mut ui, (80, 24));
        assert!(shown.contains("no process is under the cursor"), "{shown}");
    }
}

#[test]
fn a_hanging_source_extends_no_history() {
    // The same samples are drawn again while they become stale.
    let mut ui = new_ui(fleets::every_state(), DARK);
    press(&mut ui, &[KeyCode::Char('3')]);
    let strip = |ui: &mut Ui, now: Timestamp| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 120, 40));
        ui.draw(now, &mut buffer);
        let lines = text(&buffer);
        let first = lines.iter().find(|line| line.trim_start().starts_with("0 ")).unwrap();
        first.split("2619").nth(1).unwrap().trim().to_owned()
    };
    let fresh = strip(&mut ui, NOW);
    let columns = |strip: &str| strip.chars().count();
    assert!(columns(&fresh) >= 10, "{fresh}");
    let mut last = None;
    for _ in 0..50 {
        assert_eq!(strip(&mut ui, NOW), fresh, "a redraw adds no sample");
    }
    for seconds in [5, 10, 60] {
        let now = NOW.plus(Duration::from_secs(seconds));
        ui.on_fleet(fleets::every_state(), now);
        let strip = strip(&mut ui, now);
        // The last values stay as they were, and none is added.
        assert_eq!(columns(&strip), columns(&fresh), "after {seconds}s: {strip} of {fresh}");
        assert_eq!(*last.get_or_insert_with(|| strip.clone()), strip, "after {seconds}s");
    }
}

#[test]
fn pages_and_dialogs_say_when_their_node_is_no_longer_monitored() {
    let before = fleets::process_kinds();
    let rest = before.nodes.iter().filter(|node| node.name.as_str() != "gpu01").cloned();
    let after = Fleet { nodes: rest.collect(), ..before.clone() };
    for page in [KeyCode::Enter, KeyCode::Char('t'), KeyCode::Char('T'), KeyCode::Char('s')] {
        let mut ui = new_ui(before.clone(), DARK);
        press(&mut ui, &[KeyCode::Char('4'), KeyCode::Down, page]);
        ui.on_fleet(after.clone(), NOW.plus(Duration::from_secs(1)));
        for width in [80, 109, 110, 200] {
            let shown = screen(&mut ui, (width, 24));
            assert!(shown.contains("no longer monitored"), "{page:?}: {shown}");
        }
    }
    let mut lost = before.clone();
    let nodes = lost.nodes.iter().map(|node| {
        let fault = Fault::new(FaultKind::SessionLost, "");
        Arc::new(Node { link: Link::Down { fault, retry_at: None }, ..Node::clone(node) })
    });
    lost.nodes = nodes.collect();
    let mut ui = new_ui(before, DARK);
    press(&mut ui, &[KeyCode::Char('4'), KeyCode::Down, KeyCode::Char('T')]);
    ui.on_fleet(lost, NOW.plus(Duration::from_secs(1)));
    let shown = screen(&mut ui, (80, 24));
    assert!(shown.contains("not connected to the node"), "{shown}");
}

#[test]
fn pasted_text_never_acts_as_keys() {
    let mut ui = new_ui(fleets::process_kinds(), DARK);
    press(&mut ui, &[KeyCode::Char('4'), KeyCode::Down]);
    let before = screen(&mut ui, (80, 24));
    ui.on_paste("K\n\rqTq", NOW);
    assert_eq!(screen(&mut ui, (80, 24)), before);
    press(&mut ui, &[KeyCode::Char('K')]);
    ui.on_paste("\n\n", NOW);
    assert!(screen(&mut ui, (80, 24)).contains("send KILL to this process?"));
    press(&mut ui, &[KeyCode::Esc, KeyCode::Char('/')]);
    ui.on_paste(" user=bob\r\n", NOW);
    ui.on_paste(&"\x1b[2J\u{202e}".repeat(9_000), NOW);
    press(&mut ui, &[KeyCode::Home]);
    let shown = screen(&mut ui, (80, 24));
    assert!(shown.contains("user=bob"), "{shown}");
}

#[test]
fn keys_before_the_first_frame_are_handled() {
    use KeyCode::{Char, Down, End, Enter, Home, Left, PageDown, PageUp, Right, Up};
    let moves = [Down, Right, PageDown, Left, Up, End, PageUp, Home, Char('-'), Char('+'), Enter];
    for fleet in [fleets::cluster(), fleets::rare(), Fleet::default()] {
        for keys in screens() {
            for first in moves {
                let mut ui = new_ui(fleet.clone(), DARK);
                for code in keys.iter().chain([&first]).chain(&moves) {
                    ui.on_key(key(*code), NOW);
                }
                draw(&mut ui, 80, 24);
            }
        }
    }
}

#[test]
fn every_view_uses_the_configured_units() {
    for (unit, word) in [(MemoryUnit::Mb, "MB"), (MemoryUnit::Mib, "MiB"), (MemoryUnit::Gb, "GB")] {
        let display = DisplayOptions { unit, is_fahrenheit: true, ..DisplayOptions::default() };
        let mut ui = new_ui(fleets::cluster(), DARK).with_options(display, Keymap::default());
        for keys in ["1", "m", "bbb", "gg", "2", "m", "mm", "3", "f", "4", "5", "6"] {
            press(&mut ui, &keys.chars().map(KeyCode::Char).collect::<Vec<_>>());
            for size in [(80, 24), (120, 40), (200, 50)] {
                let shown = screen(&mut ui, size);
                assert!(!shown.contains("GiB"), "{word} {keys}: {shown}");
                let mut letters = shown.chars().zip(shown.chars().skip(1));
                let is_celsius = letters.any(|(one, next)| one.is_ascii_digit() && next == '°');
                assert!(!is_celsius, "{word} {keys}: {shown}");
                if keys == "1" {
                    assert!(shown.contains(word), "{shown}");
                }
            }
        }
    }
}
