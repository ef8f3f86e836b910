//! A replay shows what was shown live.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop_collect::record::{Recording, Thinning};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::{PlaybackHandle, Player, Recordings};
use gtop_collect::wire::{Frame, FrameReader, RawUpdate, Received};
use gtop_fleet::{EventRecord, Fleet};
use gtop_local::time::Timestamp;
use gtop_model::{
    Device, EventKind, JobList, Link, Mark, MarkKind, PlaybackCommand, SessionUpdate,
};
use gtop_ui::{DisplayOptions, Keymap, Ui};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

use super::{HISTORY, START, Session, after, json, options, replayed, seconds};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_snapshot_of_a_time_is_the_live_one() {
    let spec = FleetSpec::demo(12, 1);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    let mut snapshots = Vec::new();
    for second in 1..=100 {
        session.run(1);
        if second == 40 {
            session.go_down("gpu02");
        }
        if second == 70 {
            session.jobs = Some(Arc::new(spec.jobs(START, after(70))));
            session.publish();
        }
        if [1, 5, 29, 30, 31, 33, 45, 60, 61, 75, 99, 100].contains(&second) {
            snapshots.push((after(second), json(&session.fleet(), after(second))));
        }
    }
    for (at, live) in &snapshots {
        assert_eq!(json(&replayed(&session.path, *at), *at), *live, "after {} s", seconds(*at));
    }
    // From the nearest checkpoint, without what was before.
    let recordings = Recordings::open([session.path.as_path()]).unwrap();
    for (at, live) in snapshots.iter().filter(|(at, _)| *at > after(60)) {
        let snapshot = json(&recordings.fleet_from_checkpoint(*at, HISTORY), *at);
        // The clocks of nodes are followed to a tenth of a millisecond.
        let [snapshot, live] =
            [&snapshot, live].map(|json| without_what_lasts(&in_milliseconds(json)));
        assert_eq!(snapshot, live, "after {} s", seconds(*at));
    }
}

/// Removes what is only known once more than the last checkpoint is read: what a device has done for long, and how busy the
/// CPUs of a job were, which are read every ten seconds.
fn without_what_lasts(json: &str) -> Value {
    let mut snapshot: Value = serde_json::from_str(json).unwrap();
    for node in snapshot["nodes"].as_array_mut().unwrap() {
        node["notes"].take();
        for device in node["devices"].as_array_mut().unwrap() {
            device["health"].take();
            device["health_reasons"].take();
        }
    }
    for job in snapshot["jobs"].as_array_mut().unwrap() {
        for allocation in job["allocations"].as_array_mut().unwrap() {
            if let Some(share) = allocation["host_share"].as_object_mut() {
                share.remove("cpus_used");
                share.remove("unknown");
            }
        }
    }
    snapshot
}

/// Returns the event without the second device of its sample: the driver counts the others anew.
fn without_second_device(event: RawUpdate) -> RawUpdate {
    let RawUpdate::Frame(frame) = &event else { return event };
    let mut body: Value = serde_json::from_slice(&frame.text).unwrap();
    let backends = body.get_mut("backends").and_then(Value::as_array_mut);
    for backend in backends.into_iter().flatten() {
        let Some(devices) = backend.get_mut("devices").and_then(Value::as_array_mut) else {
            continue;
        };
        let gone = devices.remove(1);
        for (index, device) in devices.iter_mut().enumerate() {
            device["index"] = index.into();
        }
        let uses = backend.get_mut("uses").and_then(|uses| uses["list"].as_array_mut());
        if let Some(uses) = uses {
            uses.retain(|used| used["device"] != gone["uuid"]);
        }
    }
    let text = serde_json::to_vec(&body).unwrap();
    RawUpdate::Frame(Box::new(Frame::parse(text.into()).unwrap()))
}

#[test]
fn a_device_that_is_gone_is_so_in_the_snapshot_of_any_time() {
    let mut session = Session::start(&FleetSpec::busy(1, 4, 1, 3));
    for second in 1..=130 {
        for (name, delivery) in session.feed.next_second() {
            let passed = delivery.at.since(session.clock.now());
            session.clock.advance(passed);
            let event = delivery.raw;
            session.deliver(&name, if second > 20 { without_second_device(event) } else { event });
        }
        session.recorder.flush();
    }
    let left = after(130).since(session.clock.now());
    session.clock.advance(left);
    let live = session.fleet();
    let devices = |fleet: &Fleet| -> Vec<(Option<u32>, String, bool)> {
        let devices = fleet.nodes[0].devices.iter();
        let row = |device: &Device| {
            (device.index.get(), device.uuid.to_string(), device.gone_since().is_some())
        };
        devices.map(row).collect()
    };
    let indices: Vec<_> =
        devices(&live).iter().map(|(index, _, gone)| (index.unwrap(), *gone)).collect();
    assert_eq!(indices, [(0, false), (1, true), (2, false), (3, false)]);
    assert!(live.nodes[0].events.iter().any(|one| one.event.kind == EventKind::Gone));
    let recordings = Recordings::open([session.path.as_path()]).unwrap();
    let at = after(130);
    let snapshot = recordings.fleet_from_checkpoint(at, HISTORY);
    assert_eq!(devices(&snapshot), devices(&live));
    assert_eq!(in_milliseconds(&json(&snapshot, at)), in_milliseconds(&json(&live, at)));
    assert_eq!(json(&recordings.fleet_at(at, HISTORY), at), json(&live, at));
}

/// Cuts the times of events to milliseconds.
fn in_milliseconds(json: &str) -> String {
    let parts = json.split("at\":\"").map(|part| match part.split_once('"') {
        Some((time, rest)) if time.ends_with('Z') => {
            let time = time.trim_end_matches('Z');
            let point = if time.contains('.') { "" } else { "." };
            let whole = format!("{:0<23}", format!("{time}{point}"));
            format!("{}\"{rest}", whole.chars().take(23).collect::<String>())
        }
        _ => part.to_owned(),
    });
    parts.map(|part| part.replacen(".000\"", "\"", 1)).collect::<Vec<_>>().join("at\":\"")
}

/// The file is of the first version that records, and stays as it is. `BLESS=1` rewrites the snapshot, when JSON has new
/// keys; only a new format adds another file.
#[test]
fn the_first_format_is_read_for_ever() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings");
    let file = std::path::PathBuf::from(format!("{folder}/format-1.gtop"));
    if !file.exists() {
        let spec = FleetSpec::demo(2, 1);
        let mut session = Session::at(&file, &spec, START, options());
        session.jobs = Some(Arc::new(spec.jobs(START, START)));
        session.publish();
        session.run(58);
        session.go_down("gpu02");
        session.run(6);
    }
    let recordings = Recordings::open([file.as_path()]).unwrap();
    assert_eq!(recordings.loss(), None);
    assert!(recordings.marks().iter().any(|mark| mark.kind == MarkKind::Down));
    let snapshot = json(&recordings.fleet_at(after(64), HISTORY), after(64));
    let expected = format!("{folder}/format-1.json");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&expected, &snapshot).unwrap();
    }
    assert_eq!(snapshot, std::fs::read_to_string(expected).unwrap());
}

#[test]
fn marks_name_what_happened_and_spans_when_it_was_recorded() {
    let spec = FleetSpec::busy(3, 2, 1, 1);
    let mut session = Session::start(&spec);
    session.run(20);
    session.go_down("gpu02");
    session.run(20);
    session.speak();
    for link in [Link::Opening { attempt: 2 }, Link::Up] {
        session.deliver(&"gpu02".parse_name(), SessionUpdate::Link(link));
    }
    session.observe();
    session.run(40);
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let recording = Recording::open(&path).unwrap();
    let of_links =
        recording.marks().iter().filter(|mark| matches!(mark.kind, MarkKind::Down | MarkKind::Up));
    let marks: Vec<_> = of_links.map(|mark| (mark.at, mark.kind, mark.text.to_string())).collect();
    let down = "gpu02: session lost: a cable was pulled".to_owned();
    let up = "gpu02: reconnected".to_owned();
    assert_eq!(marks, [(after(20), MarkKind::Down, down), (after(40), MarkKind::Up, up)]);
    assert!(recording.segments().len() >= 2);
    assert_eq!(recording.loss(), None);
    let spans = Recordings::open([path.as_path()]).unwrap().spans();
    assert_eq!(spans, [(START, after(80))]);
}

#[test]
fn a_second_run_is_appended_and_its_gap_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let spec = FleetSpec::busy(2, 2, 1, 1);
    let mut session = Session::at(&path, &spec, START, options());
    session.run(10);
    drop(session);
    let mut session = Session::at(&path, &spec, START.plus(Duration::from_secs(3600)), options());
    session.run(10);
    let live = json(&session.fleet(), after(3610));
    drop(session);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let spans: Vec<_> =
        recordings.spans().iter().map(|(first, last)| (seconds(*first), seconds(*last))).collect();
    assert_eq!(spans, [(0, 10), (3600, 3610)]);
    assert_eq!(json(&recordings.fleet_at(after(3610), HISTORY), after(3610)), live);
    let marks = Recording::open(&path).unwrap().marks().to_vec();
    assert_eq!(marks[0].kind, MarkKind::Resumed);
    assert_eq!(&*marks[0].text, "recording resumes after 59m50s");
}

#[test]
fn samples_can_be_recorded_less_often() {
    let folder = tempfile::tempdir().unwrap();
    let spec = FleetSpec::busy(4, 8, 5, 1);
    let size = |every: u64| {
        let path = folder.path().join(format!("every{every}.gtop"));
        let options = gtop_collect::record::RecorderOptions {
            thinning: Thinning::Every(Duration::from_secs(every)),
            ..options()
        };
        let mut session = Session::at(&path, &spec, START, options);
        session.run(69);
        drop(session);
        let fleet = replayed(&path, after(69));
        let ages = fleet.nodes.iter().map(|node| after(69).since(node.taken_at().unwrap()));
        // Between two recorded samples, nothing is stale.
        assert!(fleet.nodes.iter().all(|node| node.freshness(after(69)).is_fresh()));
        let devices = fleet.nodes.iter().flat_map(|node| &node.devices);
        assert!(devices.map(|device| device.utilization.get()).all(|known| known.is_some()));
        (std::fs::metadata(&path).unwrap().len(), ages.max().unwrap())
    };
    let ((all, _), (some, age)) = (size(0), size(10));
    assert!(some * 3 < all * 2, "{some} of {all} bytes");
    assert!(age <= Duration::from_secs(11), "{age:?}");
}

#[test]
fn files_are_merged_and_each_node_is_taken_from_one() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["a", "b"].map(|name| folder.path().join(name));
    let mut of_first = Session::at(&first, &FleetSpec::busy(2, 2, 1, 1), START, options());
    let mut of_second = Session::at(&second, &FleetSpec::busy(4, 2, 1, 1), START, options());
    of_first.run(20);
    of_second.run(20);
    let live = of_first.fleet();
    drop((of_first, of_second));
    let both = Recordings::open([first.as_path(), second.as_path()]).unwrap();
    let fleet = both.fleet_at(after(20), HISTORY);
    assert_eq!(fleet.nodes.len(), 4);
    let node_json = |fleet: &Fleet, index: usize| {
        let parsed: Value = serde_json::from_str(&json(fleet, after(20))).unwrap();
        parsed["nodes"][index].clone()
    };
    assert_eq!(node_json(&fleet, 0), node_json(&live, 0));
    assert_eq!(fleet.nodes[3].devices.len(), 2);
}

#[test]
fn the_screens_of_a_time_are_the_live_ones() {
    let spec = FleetSpec::demo(8, 1);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    session.run(75);
    session.go_down("gpu02");
    session.run(20);
    let fleets = [session.fleet(), replayed(&session.path, after(95))];
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        // What users (5) and jobs waste counts since the begin of what is watched, which is another here.
        let mut display = DisplayOptions::default();
        let columns = ["jobname", "devices", "problem", "util", "chart", "idle-held", "outliers"];
        display.columns.jobs = columns.map(str::to_owned).into();
        for view in "12346".chars() {
            let [live, played] = fleets.each_ref().map(|fleet| {
                let theme = crate::golden::harness::DARK;
                let ui = Ui::new("x".to_owned(), SECOND, TimeZone::UTC, theme);
                let mut ui = ui.with_options(display.clone(), Keymap::default());
                ui.on_fleet(fleet.clone(), after(95));
                ui.on_key(crate::golden::harness::key(KeyCode::Char(view)), after(95));
                let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
                ui.draw(after(95), &mut buffer);
                buffer
            });
            assert!(live == played, "view {view}, {width}×{height}");
        }
    }
}

#[test]
fn a_clock_that_was_set_back_between_two_runs_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let spec = FleetSpec::busy(2, 2, 1, 1);
    for start in [100, 105] {
        let start = START.plus(Duration::from_secs(start));
        let mut session = Session::at(&path, &spec, start, options());
        session.run(20);
    }
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let spans: Vec<_> =
        recordings.spans().iter().map(|(first, last)| (seconds(*first), seconds(*last))).collect();
    assert_eq!((spans, recordings.loss()), (vec![(100, 125)], None));
    for at in [101, 110, 119, 121, 125] {
        let fleet = recordings.fleet_at(after(at), HISTORY);
        let ages = fleet.nodes.iter().map(|node| after(at).since(node.taken_at().unwrap()));
        assert!(ages.max().unwrap() <= Duration::from_secs(6), "{at}");
    }
}

#[tokio::test]
async fn ages_are_those_of_the_recording_at_any_speed() {
    let mut session = Session::start(&FleetSpec::busy(4, 2, 1, 1));
    session.run(120);
    let recordings = Recordings::open([session.path.as_path()]).unwrap();
    let (player, mut handle) = Player::new(recordings, START, None, true, HISTORY);
    let playing = tokio::spawn(player.run());
    for _ in 0..6 {
        handle.commands.send(PlaybackCommand::Faster).await.unwrap();
    }
    handle.commands.send(PlaybackCommand::GoTo(after(10))).await.unwrap();
    handle.state.wait_for(|state| state.jumps == 2).await.unwrap();
    assert!(handle.state.borrow().speed > 63.0);
    let mut snapshots = 0;
    while handle.state.borrow().is_playing {
        handle.fleet.changed().await.unwrap();
        // The time belongs to the fleet while it is borrowed.
        let fleet = handle.fleet.borrow_and_update();
        let now = handle.clock.now();
        let ages = fleet.nodes.iter().map(|node| now.since(node.taken_at().unwrap()));
        assert!(ages.max().unwrap() <= Duration::from_secs(1), "{snapshots}");
        snapshots += 1;
    }
    assert!(handle.clock.now() >= after(119) && snapshots > 10, "{snapshots}");
    drop(handle);
    playing.await.unwrap();
}

#[test]
fn answers_to_questions_are_not_recorded() {
    let mut session = Session::start(&FleetSpec::busy(1, 1, 1, 1));
    session.run(2);
    let text = r#"{"t":"answer","id":1,"at":1.0,"result":"ok","environ":["TOKEN=hunter2"]}"#;
    session.deliver(&"gpu01".parse_name(), frame(text));
    session.run(2);
    let lines = super::lines(&session.path);
    assert!(lines.contains("gpu01") && !lines.contains("hunter2") && !lines.contains("answer"));
}

fn frame(text: &str) -> RawUpdate {
    let mut reader = FrameReader::default();
    reader.push(format!("\x1egtop1 {text}\n"));
    let Some(Received::Frame(frame)) = reader.next_frame() else { panic!("{text}") };
    RawUpdate::Frame(frame)
}

#[test]
fn what_the_kernel_logged_is_replayed_and_has_a_mark_if_it_is_new() {
    let mut session = Session::start(&FleetSpec::busy(1, 2, 1, 1));
    session.run(3);
    let device = session.fleet().nodes[0].devices[0].clone();
    let (uuid, pci) = (&device.uuid, device.pci.known().unwrap().trim_end_matches(".0"));
    let logged_keys = |number: u64, logged: f64| {
        format!(r#","pci":"{pci}","seq":{number},"logged":{logged},"message":"words""#)
    };
    let uptime = session.fleet().nodes[0].host.fast.uptime_seconds.get().unwrap();
    let logged = f64::from(u32::try_from(uptime).unwrap()) - 0.5;
    for (source, code, more) in [
        ("kernel", 13, logged_keys(1, 10.0)),
        ("kernel", 79, logged_keys(2, logged)),
        ("nvml", 79, String::new()),
        ("nvml", 31, String::new()),
        ("kernel", 31, logged_keys(3, logged)),
    ] {
        let head = format!(r#""t":"event","at":{uptime},"source":"{source}","kind":"xid""#);
        let uuid = if source == "nvml" { &**uuid } else { "" };
        let text = format!(r#"{{{head},"device":"{uuid}","code":{code}{more}}}"#);
        session.deliver(&"gpu01".parse_name(), frame(&text));
    }
    session.run(70);
    let events = |fleet: &Fleet| {
        let events = fleet.nodes[0].events.iter();
        let told = |record: &EventRecord| {
            let lines = record.lines.iter().map(|line| line.words.to_string());
            (record.event.code, record.event.device.to_string(), lines.collect::<Vec<_>>())
        };
        events.map(told).collect::<Vec<_>>()
    };
    let (live, at) = (events(&session.fleet()), after(73));
    assert_eq!(live.iter().filter(|(.., lines)| *lines == ["words"]).count(), 3, "{live:?}");
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    assert_eq!(events(&recordings.fleet_at(at, HISTORY)), live);
    assert_eq!(events(&recordings.fleet_from_checkpoint(at, HISTORY)), live);
    let marks: Vec<_> = recordings.marks().iter().map(|mark| mark.text.to_string()).collect();
    // The driver and the kernel report one event, and one was long before.
    let begins = |number: usize, begin: &str| {
        assert!(
            marks[number].starts_with(begin) && marks[number].ends_with(" · words"),
            "{marks:?}"
        );
    };
    assert_eq!(marks.len(), 2, "{marks:?}");
    begins(0, "gpu01 #0: Xid 79: ");
    begins(1, "gpu01 #0: Xid 31: ");
}

/// Returns a frame of a source that failed.
fn source_fault(at: f64, code: &str) -> RawUpdate {
    let head = format!(r#"{{"t":"error","at":{at},"source":"nvml","scope":"device""#);
    frame(&format!(r#"{head},"code":"{code}","call":"nvmlDeviceGetMemoryInfo","for":9.0}}"#))
}

#[test]
fn what_the_screen_tells_of_is_marked_and_tells_the_same_however_one_gets_there() {
    let spec = FleetSpec::busy(3, 2, 1, 1);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    session.run(20);
    session.deliver(&"gpu01".parse_name(), source_fault(1_020.0, "stuck"));
    session.observe();
    session.run(2);
    session.fall_silent("gpu02");
    session.run(10);
    session.speak();
    session.run(3);
    session.go_down("gpu03");
    let mut jobs = spec.jobs(START, START);
    let ended = jobs.jobs.remove(0);
    session.jobs = Some(Arc::new(JobList { at: Some(after(35)), ..jobs }));
    session.publish();
    session.run(40);
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let marks = recordings.marks();
    let told: Vec<_> = marks.iter().map(|mark| (mark.kind, mark.text.to_string())).collect();
    for (kind, text) in [
        (MarkKind::Source, "gpu01: no answer from the NVIDIA driver"),
        (MarkKind::Stale, "gpu02: stale: no new samples"),
        (MarkKind::Over, "gpu02: fresh again"),
        (MarkKind::Down, "gpu03: session lost: a cable was pulled"),
    ] {
        let found = told.iter().filter(|mark| **mark == (kind, text.to_owned())).count();
        assert_eq!(found, 1, "{text}: {told:#?}");
    }
    let is_of_job = |text: &str| text.starts_with(&format!("job {} ", ended.shown_id));
    assert!(told.iter().any(|(kind, text)| *kind == MarkKind::Job && is_of_job(text)), "{told:?}");
    let stale = marks.iter().find(|mark| mark.kind == MarkKind::Stale).unwrap();
    assert_eq!(stale.nodes.len(), 1);
    assert!(!stale.meaning.is_empty() && !stale.remedy.is_empty(), "{stale:?}");
    // The marks of the index are those of the lines.
    let bytes = std::fs::read(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let unindexed = folder.path().join("unindexed.gtop");
    let ends = Recording::open(&path).unwrap().group_ends();
    // After the header and the first two blocks.
    let cut = usize::try_from(ends[2].0).unwrap();
    std::fs::write(&unindexed, &bytes[..cut]).unwrap();
    let walked = Recording::open(&unindexed).unwrap().marks().to_vec();
    assert!(walked.len() >= 5, "{walked:?}");
    assert_eq!(walked[..], marks[..walked.len()]);
}

#[test]
fn many_equal_events_are_counted_in_the_snapshot_of_any_time() {
    let mut session = Session::start(&FleetSpec::busy(1, 2, 1, 1));
    session.run(3);
    let xid = |code: u32| {
        let head = r#""t":"event","at":1001,"source":"nvml","kind":"xid","device":"GPU-x""#;
        frame(&format!(r#"{{{head},"code":{code}}}"#))
    };
    session.deliver(&"gpu01".parse_name(), xid(79));
    for _ in 0..200 {
        session.deliver(&"gpu01".parse_name(), xid(31));
    }
    session.run(70);
    let counts = |fleet: &Fleet| -> Vec<_> {
        let events = fleet.nodes[0].events.iter();
        events.map(|record| (record.event.code, record.count)).collect()
    };
    let live = counts(&session.fleet());
    assert_eq!(live, [(Some(79), 1), (Some(31), 200)]);
    let recordings = Recordings::open([session.path.as_path()]).unwrap();
    assert_eq!(counts(&recordings.fleet_from_checkpoint(after(73), HISTORY)), live);
}

/// Sends a command to a player, and returns the time that it then shows, with its message.
async fn shown_after(
    handle: &mut PlaybackHandle,
    command: PlaybackCommand,
) -> (Timestamp, Option<String>) {
    let jumps = handle.state.borrow().jumps;
    handle.commands.send(command).await.unwrap();
    let state = handle.state.wait_for(|state| state.jumps > jumps).await.unwrap();
    let reached = state.reached.as_ref().map(ToString::to_string);
    (handle.clock.now(), reached)
}

#[tokio::test]
async fn a_player_steps_by_samples_and_says_which_event_it_reached() {
    let mut session = Session::start(&FleetSpec::busy(3, 2, 1, 1));
    session.run(20);
    session.go_down("gpu02");
    session.run(20);
    let recordings = Recordings::open([session.path.as_path()]).unwrap();
    let (player, mut handle) = Player::new(recordings, after(10), None, false, HISTORY);
    let playing = tokio::spawn(player.run());
    handle.state.wait_for(|state| state.jumps == 1).await.unwrap();
    let ages = |handle: &PlaybackHandle| -> Vec<Timestamp> {
        let fleet = handle.fleet.borrow();
        fleet.nodes.iter().map(|node| node.taken_at().unwrap()).collect()
    };
    // Each step has one new sample of each node, in both directions.
    let mut times = vec![ages(&handle)];
    for _ in 0..3 {
        shown_after(&mut handle, PlaybackCommand::StepSample { ahead: true }).await;
        times.push(ages(&handle));
    }
    for pair in times.windows(2) {
        for (before, after) in pair[0].iter().zip(&pair[1]) {
            let passed = after.since(*before);
            assert!((900..1100).contains(&passed.as_millis()), "{passed:?}");
        }
    }
    for expected in times.iter().rev().skip(1) {
        shown_after(&mut handle, PlaybackCommand::StepSample { ahead: false }).await;
        assert_eq!(ages(&handle), *expected);
    }
    assert!(!handle.state.borrow().is_playing);
    let next = PlaybackCommand::NextMark;
    let down = (after(20), Some("gpu02: session lost: a cable was pulled".to_owned()));
    assert_eq!(shown_after(&mut handle, next).await, down);
    let end = Some("no later event: this is the end".to_owned());
    assert_eq!(shown_after(&mut handle, next).await.1, end);
    assert_eq!(shown_after(&mut handle, PlaybackCommand::PreviousMark).await, down);
    let start = Some("no earlier event: this is the start".to_owned());
    assert_eq!(shown_after(&mut handle, PlaybackCommand::PreviousMark).await.1, start);
    drop(handle);
    playing.await.unwrap();
}

#[tokio::test]
async fn what_is_still_written_can_be_paused_while_one_looks_back() {
    let mut session = Session::start(&FleetSpec::busy(1, 2, 1, 1));
    session.run(30);
    session.recorder.flush();
    let recordings = Recordings::open([session.path.as_path()]).unwrap();
    let growing = Some(session.path.clone());
    let (player, mut handle) = Player::new(recordings, after(30), growing, true, HISTORY);
    let playing = tokio::spawn(player.run());
    let back = PlaybackCommand::Step { seconds: -10 };
    let (at, _) = shown_after(&mut handle, back).await;
    handle.commands.send(PlaybackCommand::TogglePlay).await.unwrap();
    handle.state.wait_for(|state| !state.is_playing).await.unwrap();
    let stands = handle.clock.now();
    assert!(stands >= at && stands < after(30));
    // At the end it does not begin anew.
    shown_after(&mut handle, PlaybackCommand::End).await;
    let end = handle.clock.now();
    handle.commands.send(PlaybackCommand::TogglePlay).await.unwrap();
    handle.state.wait_for(|state| state.is_playing).await.unwrap();
    assert!(handle.clock.now() >= end);
    drop(handle);
    playing.await.unwrap();
}

#[test]
fn what_a_recorder_slept_through_is_no_recorded_time() {
    let mut session = Session::start(&FleetSpec::busy(2, 2, 1, 1));
    session.run(20);
    // The machine of the recorder sleeps: no line is written, and no segment ends.
    let hour = Duration::from_secs(3_600);
    session.clock.advance(hour);
    let at = session.clock.now();
    let lines = session.recorder.sink();
    lines.mark(Mark::plain(at, MarkKind::Job, "job 7 started"));
    session.recorder.flush();
    session.clock.advance(Duration::from_secs(12));
    session.recorder.flush();
    let awake = session.clock.now();
    let path = session.path.clone();
    let spans = |path: &std::path::Path| Recordings::open([path]).unwrap().spans();
    let slept = at.since(after(20)).as_secs();
    let assert_spans = |spans: Vec<(Timestamp, Timestamp)>| {
        assert_eq!(spans.len(), 2, "{spans:?}");
        assert_eq!((seconds(spans[0].0), seconds(spans[0].1)), (0, 19));
        assert_eq!((spans[1].0.since(spans[0].1).as_secs()), slept);
        // Nothing has happened since, but the recorder ran.
        assert_eq!(spans[1], (at, awake));
    };
    assert_spans(spans(&path));
    let Session { recorder, folder: _folder, .. } = session;
    drop(recorder);
    assert_spans(spans(&path));
}

trait ParseName {
    fn parse_name(&self) -> gtop_model::NodeName;
}

impl ParseName for str {
    fn parse_name(&self) -> gtop_model::NodeName {
        gtop_model::NodeName::new(self).unwrap()
    }
}
