//! Damaged recordings: what is whole is played, and nothing panics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gtop_collect::record::{Limits, Recorder, RecorderOptions, Recording, RecordingError};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::{FoldedChange, Recordings};
use gtop_fleet::{Fleet, Health};
use gtop_local::time::{Clock, Timestamp, local_text};
use gtop_model::{Link, NodeName};
use serde_json::Value;
use tempfile::TempDir;

use super::{HISTORY, Session, after, in_groups, json, options, seconds, small_recording};

struct Damaged {
    _folder: TempDir,
    path: PathBuf,
}

impl Damaged {
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.gtop");
        fs::write(&path, bytes).unwrap();
        Self { _folder: folder, path }
    }
}

/// Opens a recording and plays it to its end; returns the end, in seconds since the start.
fn played_seconds(path: &Path) -> Result<u64, RecordingError> {
    let recordings = Recordings::open([path])?;
    let end = recordings.end().unwrap_or(super::START);
    let fleet = recordings.fleet_at(end, HISTORY);
    assert!(fleet.nodes.len() <= 2);
    Ok(seconds(end))
}

#[test]
fn a_recording_cut_at_any_byte_loses_at_most_its_last_group() {
    let bytes = small_recording(6);
    let recording = Damaged::new(&bytes);
    let ends = Recording::open(&recording.path).unwrap().group_ends();
    for cut in 0..bytes.len() {
        let damaged = Damaged::new(&bytes[..cut]);
        let whole =
            ends.iter().filter(|(end, _)| *end <= cut as u64).map(|(_, at)| *at).next_back();
        match (played_seconds(&damaged.path), whole) {
            (Ok(seconds), Some(at)) => {
                let expected = super::seconds(at);
                assert!(seconds >= expected, "cut at {cut}: {seconds} of {expected} s");
            }
            (Err(RecordingError::Empty(_) | RecordingError::Foreign(_)), None) => {}
            (played, whole) => panic!("cut at {cut}: {played:?}, {whole:?}"),
        }
    }
}

#[test]
fn the_next_run_cuts_off_an_incomplete_end_and_goes_on() {
    let mut session = Session::start(&FleetSpec::busy(2, 1, 1, 3));
    session.run(36);
    let bytes = fs::read(&session.path).unwrap();
    let journal = fs::read(session.path.with_extension("gtop.journal")).unwrap();
    for cut in (journal.len() / 2..journal.len()).step_by(397) {
        let damaged = Damaged::new(&bytes);
        fs::write(damaged.path.with_extension("gtop.journal"), &journal[..cut]).unwrap();
        let before = played_seconds(&damaged.path).unwrap();
        assert!(before >= 14, "cut at {cut}: {before} s");
        let mut session =
            Session::at(&damaged.path, &FleetSpec::busy(2, 1, 1, 3), after(100), options());
        session.run(4);
        drop(session);
        let recordings = Recordings::open([damaged.path.as_path()]).unwrap();
        assert_eq!(recordings.loss(), None, "cut at {cut}");
        let spans: Vec<_> = recordings.spans().iter().map(|(_, end)| seconds(*end)).collect();
        assert_eq!(spans, [before, 103], "cut at {cut}");
        let status = std::process::Command::new("zstd").arg("-tq").arg(&damaged.path).status();
        assert!(status.unwrap().success(), "cut at {cut}");
    }
}

#[test]
fn flipped_bits_lose_a_group_and_never_panic() {
    let bytes = small_recording(70);
    for at in (0..bytes.len()).step_by(211) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let damaged = Damaged::new(&damaged);
        match played_seconds(&damaged.path) {
            // Unused bits of an index or of a header may change nothing.
            Ok(seconds) => assert!(seconds >= 66, "byte {at}: {seconds} s"),
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
}

/// A journal of 36 s after 30 s in the file, with what `damage` makes of it; its groups have two seconds each.
fn with_damaged_journal(damage: impl FnOnce(&mut Vec<u8>)) -> Damaged {
    let mut session = Session::start(&FleetSpec::busy(2, 1, 1, 3));
    session.run(50);
    let mut journal = fs::read(session.path.with_extension("gtop.journal")).unwrap();
    let file = Damaged::new(&fs::read(&session.path).unwrap());
    damage(&mut journal);
    fs::write(file.path.with_extension("gtop.journal"), journal).unwrap();
    file
}

#[test]
fn what_a_journal_has_lost_is_told_before_and_after_a_recorder_has_gone_on() {
    let flip_at = |share: usize| {
        move |journal: &mut Vec<u8>| {
            let byte = journal.len() * share / 100;
            journal[byte] ^= 4;
        }
    };
    let cut = |journal: &mut Vec<u8>| {
        let third = journal.len() / 3;
        drop(journal.drain(third..third + 600));
    };
    let known = "lines of up to ";
    let unknown = "an unknown time ";
    for (what, file, expected) in [
        ("its middle", with_damaged_journal(flip_at(50)), known),
        ("cut out", with_damaged_journal(cut), known),
        ("its first group", with_damaged_journal(|journal| journal[60] ^= 4), known),
        ("its last group", with_damaged_journal(flip_at(98)), unknown),
        ("its start", with_damaged_journal(|journal| journal[15] ^= 4), unknown),
    ] {
        let told = || {
            let recordings = Recordings::open([file.path.as_path()]).unwrap();
            let end = recordings.end().unwrap();
            let lost = recordings.walk(super::START, end, &AtomicBool::new(false), |_| {});
            assert!(lost.duration().as_secs() <= 10, "{what}: {lost:?}");
            [recordings.loss(), lost.text()].into_iter().flatten().collect::<Vec<_>>().join("; ")
        };
        let before = told();
        assert!(before.contains(expected), "{what}: {before}");
        let mut session =
            Session::at(&file.path, &FleetSpec::busy(2, 1, 1, 3), after(100), options());
        session.run(40);
        drop(session);
        let later = told();
        assert!(later.contains(expected), "{what}: {later}");
        // The time is the same one.
        let time = before.split("20").nth(1).unwrap().get(..17);
        assert!(later.contains(time.unwrap()), "{what}: {before}, and later {later}");
    }
}

/// Blocks of a recording of 150 s: where each ends, and the second of its last line.
fn blocks() -> (Vec<u8>, Vec<(usize, u64)>) {
    let mut session = Session::start(&FleetSpec::busy(2, 1, 1, 3));
    session.run(150);
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let ends = Recording::open(&path).unwrap().group_ends();
    let ends = ends.iter().map(|(end, at)| (usize::try_from(*end).unwrap(), seconds(*at)));
    (fs::read(&path).unwrap(), ends.collect())
}

#[test]
fn a_cut_recording_loses_its_last_block_and_a_flipped_bit_one_block() {
    let (bytes, ends) = blocks();
    // The start of the recorder, and half minutes, of which the last one is short.
    assert_eq!(ends.len(), 7, "{ends:?}");
    for cut in (ends[0].0..bytes.len()).step_by(1009) {
        let whole = ends.iter().rfind(|(end, _)| *end <= cut).unwrap().1;
        let damaged = Damaged::new(&bytes[..cut]);
        assert_eq!(played_seconds(&damaged.path).unwrap(), whole, "cut at {cut}");
    }
    for at in (ends[0].0..bytes.len()).step_by(1009) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let damaged = Damaged::new(&flipped);
        let recordings = Recordings::open([damaged.path.as_path()]).unwrap();
        let (_, lost) = recordings.picture_at(recordings.end().unwrap(), HISTORY);
        assert!(lost.gaps.len() <= 1 && lost.duration().as_secs() <= 30, "byte {at}: {lost:?}");
    }
}

#[test]
fn how_much_of_an_incomplete_block_is_missing_is_not_known_and_of_an_incomplete_index_nothing() {
    let (bytes, ends) = blocks();
    let loss = |length: usize| {
        let file = Damaged::new(&bytes[..length]);
        Recordings::open([file.path.as_path()]).unwrap().loss().unwrap()
    };
    let [.., (_, known), (end, _)] = ends[..] else { panic!("{ends:?}") };
    let text = loss(end - 100);
    let times = [known, known + 1].map(|second| local_text(after(second)));
    assert!(times.iter().any(|time| text.ends_with(&format!(" {time} is missing"))), "{text}");
    assert!(text.contains("are incomplete: an unknown time after "), "{text}");
    let text = loss(end + 100);
    assert!(text.ends_with("bytes are incomplete"), "{text}");
}

/// A recording of 70 s, with what was shown live after each second.
struct Recorded {
    bytes: Vec<u8>,
    snapshots: Vec<Value>,
    /// Where each group ends, and the second of its last line.
    ends: Vec<(usize, u64)>,
}

impl Recorded {
    fn new() -> Self {
        let (session, snapshots) = watched(70);
        let Session { path, recorder, folder: _folder, .. } = session;
        drop(recorder);
        let bytes = in_groups(&path);
        let ends = Recording::open(&Damaged::new(&bytes).path).unwrap().group_ends();
        let ends = ends.iter().map(|(end, at)| (usize::try_from(*end).unwrap(), seconds(*at)));
        Self { ends: ends.collect(), bytes, snapshots }
    }

    /// Returns a copy with a flipped bit in the group in which this second ends.
    fn damaged_in(&self, second: u64) -> Damaged {
        self.damaged_at(self.ends.iter().position(|(_, at)| *at >= second).unwrap())
    }

    /// Returns a copy with a flipped bit in the group with this number.
    fn damaged_at(&self, group: usize) -> Damaged {
        let (end, _) = self.ends[group];
        let mut bytes = self.bytes.clone();
        bytes[end - 10] ^= 4;
        Damaged::new(&bytes)
    }

    /// Asserts that what is known after a second was so, and returns how many values are known and how many were.
    fn compare(&self, second: u64, replayed: &Value) -> (usize, usize) {
        let live = &self.snapshots[usize::try_from(second - 1).unwrap()];
        let mut counts = (0, 0);
        for node in live["nodes"].as_array().unwrap() {
            let mut all = replayed["nodes"].as_array().into_iter().flatten();
            let found = all.find(|one| one["name"] == node["name"]).unwrap_or(&Value::Null);
            for part in ["devices", "processes", "host"] {
                compare([&found[part], &node[part]], &format!("{second} s: {part}"), &mut counts);
            }
        }
        counts
    }
}

/// Records two nodes, and returns what was shown live after each second.
fn watched(seconds: u64) -> (Session, Vec<Value>) {
    let mut session = Session::start(&FleetSpec::busy(2, 2, 3, 3));
    let mut snapshots = Vec::new();
    for second in 1..=seconds {
        session.run(1);
        snapshots.push(snapshot(&session.fleet(), after(second)));
    }
    (session, snapshots)
}

fn snapshot(fleet: &Fleet, at: Timestamp) -> Value {
    serde_json::from_str(&json(fleet, at)).unwrap()
}

/// Compares the numbers that are known in the first value with those of the second.
fn compare([replayed, live]: [&Value; 2], place: &str, counts: &mut (usize, usize)) {
    match live {
        Value::Object(map) => {
            for (key, live) in map {
                compare([&replayed[key], live], &format!("{place}.{key}"), counts);
            }
        }
        Value::Array(list) => {
            for (number, live) in list.iter().enumerate() {
                // Of a device whose index is not known, the place is another one.
                let key = ["uuid", "pid"].into_iter().find(|key| live.get(key).is_some());
                let same = |other: &&Value| key.is_none_or(|key| other[key] == live[key]);
                let found = match key {
                    Some(_) => replayed.as_array().and_then(|all| all.iter().find(same)),
                    None => replayed.get(number),
                };
                let replayed = found.unwrap_or(&Value::Null);
                compare([replayed, live], &format!("{place}.{number}"), counts);
            }
        }
        Value::Number(number) => {
            counts.1 += 1;
            if let Some(known) = replayed.as_f64() {
                counts.0 += 1;
                let live = number.as_f64().unwrap();
                let difference = (known - live).abs() / live.abs().max(1.0);
                assert!(difference < 0.02, "{place}: {known}, and live {live}");
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns numbers that look random, the same ones for the same seed.
fn random(seed: usize) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// Flips bits, cuts off the end, takes something out, or overwrites it.
fn damage(bytes: &mut Vec<u8>, random: &mut impl FnMut(usize) -> usize) {
    let at = random(bytes.len());
    let end = (at + 1 + random(3_000)).min(bytes.len());
    match random(5) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => bytes[at..end].fill(0),
        _ => {
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] ^= 1 << random(8);
            }
        }
    }
}

/// The index after a damaged block says until when its lines were.
#[test]
fn a_damaged_block_at_the_end_of_a_run_is_as_long_as_its_index_says() {
    let mut session = Session::start(&FleetSpec::demo(2, 1));
    session.run(75);
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let mut bytes = fs::read(&path).unwrap();
    let magic = 0x184D_2A58_u32.to_le_bytes();
    let block = bytes.windows(4).rposition(|window| window == magic).unwrap();
    bytes[block + 200] ^= 1;
    fs::write(&path, bytes).unwrap();
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let (_, lost) = recordings.picture_at(recordings.end().unwrap(), HISTORY);
    let seconds = lost.duration().as_secs();
    assert!((15..=30).contains(&seconds), "{seconds} s");
    assert!(
        lost.text().is_some_and(|text| !text.contains(" 0s") && !text.contains("unknown time")),
        "{:?}",
        lost.text()
    );
}

#[test]
fn a_damaged_file_has_no_wrong_number_and_says_what_it_has_lost() {
    const SECONDS: u64 = 110;
    let (session, snapshots) = watched(SECONDS);
    // The last lines are in the journal: the recorder is killed.
    let [bytes, journal] = [session.path.clone(), session.path.with_extension("gtop.journal")]
        .map(|path| fs::read(path).unwrap());
    assert!(journal.len() > 1_000, "{}", journal.len());
    let recorded = Recorded { bytes, snapshots, ends: Vec::new() };
    let lines = |path: &Path| -> BTreeSet<Vec<u8>> {
        let lines = Recording::open(path).unwrap().lines();
        lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let all_lines = lines(&session.path);
    let (mut unreadable, mut compared) = (0, 0);
    for seed in 0..200 {
        let mut random = random(seed + 1);
        let (mut bytes, mut journal) = (recorded.bytes.clone(), journal.clone());
        damage(if seed % 4 == 0 { &mut journal } else { &mut bytes }, &mut random);
        let file = Damaged::new(&bytes);
        fs::write(file.path.with_extension("gtop.journal"), &journal).unwrap();
        let Ok(recordings) = Recordings::open([file.path.as_path()]) else {
            unreadable += 1;
            continue;
        };
        let end = seconds(recordings.end().unwrap());
        let (_, lost) = recordings.picture_at(after(SECONDS), HISTORY);
        let is_told = lost.text().is_some() || recordings.loss().is_some() || end + 2 < SECONDS;
        let found = lines(&file.path);
        let wrong = found.difference(&all_lines).next().map(|line| String::from_utf8_lossy(line));
        assert_eq!(wrong, None, "{seed}");
        assert!(found.len() == all_lines.len() || is_told, "{seed}: {} lines", found.len());
        // At most four blocks, each of half a minute, have a flipped bit.
        assert!(lost.duration().as_secs() <= 4 * 30, "{seed}: {lost:?}");
        let is_lost = |second: u64| {
            let is_in = |(from, to): &(Timestamp, Timestamp)| {
                (seconds(*from)..=seconds(*to) + 2).contains(&second)
            };
            second > end || lost.gaps.iter().any(is_in)
        };
        for second in (3..=SECONDS).step_by(30 + random(60)).filter(|second| !is_lost(*second)) {
            let fleet = recordings.fleet_at(after(second), HISTORY);
            compared += recorded.compare(second, &snapshot(&fleet, after(second))).0;
        }
    }
    assert!(unreadable < 20, "{unreadable}");
    assert!(compared > 5_000, "{compared}");
}

#[test]
fn after_a_damaged_group_what_stands_alone_is_played() {
    let recorded = Recorded::new();
    let file = recorded.damaged_in(30);
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    for second in 33..=70 {
        let (fleet, lost) = recordings.picture_at(after(second), HISTORY);
        assert_eq!(lost.gaps.len(), 1);
        assert!((1..=4).contains(&lost.duration().as_secs()), "{lost:?}");
        let text = lost.text().unwrap();
        assert!(text.starts_with("lines of up to "), "{text}");
        let (known, all) = recorded.compare(second, &snapshot(&fleet, after(second)));
        // What is not sent again is unknown until the next checkpoint.
        let share = if second > 60 { 100 } else { 40 };
        assert!(known * 100 >= all * share, "{second} s: {known} of {all} values");
        for node in fleet.nodes.iter() {
            assert_eq!(node.link, Link::Up);
            assert!(node.freshness(after(second)).is_fresh(), "{second} s");
            let is_known = |device: &gtop_model::Device| {
                device.name.known().is_some() && device.utilization.get().is_some()
            };
            assert!(node.devices.iter().all(is_known), "{second} s: {:?}", node.devices);
        }
    }
    let before = recordings.picture_at(after(27), HISTORY);
    assert_eq!(before.1.text(), None);
}

#[test]
fn a_damaged_checkpoint_is_made_up_for_by_the_one_before() {
    let mut bytes = include_bytes!("../fixtures/recordings/format-1.gtop").to_vec();
    let whole = Damaged::new(&bytes);
    let whole_file = Recordings::open([whole.path.as_path()]).unwrap();
    let (checkpoint, end) = (whole_file.starts()[1], whole_file.end().unwrap());
    // The checkpoint is written before the first line of its segment.
    let groups = Recording::open(&whole.path).unwrap().group_ends();
    let (group_end, _) = groups.iter().find(|(_, at)| *at >= checkpoint).unwrap();
    bytes[usize::try_from(*group_end).unwrap() - 10] ^= 4;
    let file = Damaged::new(&bytes);
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    assert_eq!(recordings.starts()[1], checkpoint);
    let fleet = recordings.fleet_from_checkpoint(end, HISTORY);
    // What is sent once is known from the checkpoint before.
    assert!(fleet.nodes.iter().all(|node| node.hello.is_some()));
    let mut devices = fleet.nodes.iter().flat_map(|node| &node.devices);
    assert!(devices.all(|device| device.name.known().is_some()));
    let values = [fleet, whole_file.fleet_at(end, HISTORY)].map(|fleet| snapshot(&fleet, end));
    let [found, live] = &values;
    let mut counts = (0, 0);
    compare([&found["nodes"], &live["nodes"]], "nodes", &mut counts);
    assert!(counts.0 * 100 >= counts.1 * 40, "{counts:?}");
}

#[test]
fn nodes_whose_session_began_in_a_damaged_group_are_played() {
    let recorded = Recorded::new();
    // The header is a group of its own; the sessions begin in the next one.
    let file = recorded.damaged_at(1);
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    let (fleet, lost) = recordings.picture_at(after(20), HISTORY);
    assert_eq!((fleet.nodes.len(), lost.gaps.len()), (2, 1));
    assert!(fleet.nodes.iter().all(|node| node.link == Link::Up && node.devices.len() == 2));
    recorded.compare(20, &snapshot(&fleet, after(20)));
    assert_eq!(recordings.picture_at(after(70), HISTORY).0.nodes.len(), 2);
}

#[test]
fn what_first_samples_told_is_unknown_without_them_until_a_checkpoint() {
    let mut session = Session::start(&FleetSpec::demo(8, 1));
    session.run(70);
    let live = session.fleet();
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let mut bytes = in_groups(&path);
    let ends = Recording::open(&Damaged::new(&bytes).path).unwrap().group_ends();
    bytes[usize::try_from(ends[1].0).unwrap() - 10] ^= 4;
    let file = Damaged::new(&bytes);
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    let early = recordings.fleet_at(after(20), HISTORY);
    let late = recordings.fleet_at(after(70), HISTORY);
    let mut faulty = 0;
    for node in live.nodes.iter() {
        for device in node.devices.iter().filter(|one| node.health(one) == Health::Faulty) {
            let [early, late] = [&early, &late].map(|fleet| fleet.node(&node.name).unwrap());
            let known = early.device(&device.uuid).unwrap();
            assert!(matches!(early.health(known), Health::Faulty | Health::Unknown));
            let known = late.device(&device.uuid).unwrap();
            assert_eq!((late.health(known), known.index), (Health::Faulty, device.index));
            assert_eq!(known.name.known(), device.name.known());
            faulty += 1;
        }
    }
    assert!(faulty > 1, "{faulty}");
}

#[test]
fn time_in_which_no_recorder_ran_is_not_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let spec = FleetSpec::busy(2, 1, 1, 3);
    for start in [0, 900] {
        let mut session = Session::at(&path, &spec, after(start), options());
        session.run(20);
    }
    let mut bytes = fs::read(&path).unwrap();
    let ends = Recording::open(&path).unwrap().group_ends();
    let cut = ends.iter().rfind(|(_, at)| seconds(*at) < 100).unwrap();
    bytes[usize::try_from(cut.0).unwrap() - 10] ^= 1;
    fs::write(&path, bytes).unwrap();
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let end = recordings.end().unwrap();
    let lost = recordings.walk(super::START, end, &AtomicBool::new(false), |_| {});
    assert_eq!(lost.gaps.len(), 1);
    // The first run, which is one block, and not the time until the second.
    assert!((18..=20).contains(&lost.duration().as_secs()), "{lost:?}");
}

#[test]
fn groups_behind_a_place_where_none_begins_are_found_and_the_hole_is_told() {
    let recorded = Recorded::new();
    let at = |second| recorded.ends.iter().find(|(_, at)| *at >= second).unwrap().0;
    // As after a crash: neither an index nor a seek table follows, and the frame's first bytes are gone.
    let mut bytes = recorded.bytes[..at(50)].to_vec();
    bytes[at(20)..at(20) + 12].fill(0);
    let file = Damaged::new(&bytes);
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    assert!(recordings.loss().unwrap().contains("bytes are damaged"));
    for second in 24..=48 {
        let (fleet, lost) = recordings.picture_at(after(second), HISTORY);
        assert_eq!(lost.gaps.len(), 1, "{second} s");
        assert!((1..=4).contains(&lost.duration().as_secs()), "{lost:?}");
        recorded.compare(second, &snapshot(&fleet, after(second)));
        assert!(fleet.nodes.iter().all(|node| node.freshness(after(second)).is_fresh()));
    }
}

#[test]
fn what_a_checkpoint_repeats_after_a_damaged_group_counts_once_and_nothing_is_sound_unseen() {
    let mut session = Session::start(&FleetSpec::demo(8, 1));
    let mut live = Vec::new();
    for second in 1..=70 {
        session.run(1);
        if second > 33 {
            live.push(session.fleet());
        }
    }
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let bytes = in_groups(&path);
    let ends = Recording::open(&Damaged::new(&bytes).path).unwrap().group_ends();
    let group = ends.iter().find(|(_, at)| seconds(*at) >= 30).unwrap();
    let mut damaged = bytes.clone();
    damaged[usize::try_from(group.0).unwrap() - 10] ^= 4;
    let [whole, damaged] = [Damaged::new(&bytes), Damaged::new(&damaged)];
    let [whole, damaged] =
        [&whole, &damaged].map(|file| Recordings::open([file.path.as_path()]).unwrap());
    let changes = |recordings: &Recordings| {
        let mut times: BTreeMap<NodeName, Vec<Timestamp>> = BTreeMap::new();
        let end = recordings.end().unwrap();
        recordings.walk(super::START, end, &AtomicBool::new(false), |line| {
            if let FoldedChange::Node(node) = &line.change {
                times.entry(node.name.clone()).or_default().extend(node.taken_at());
            }
        });
        times
    };
    let before = changes(&whole);
    for (name, times) in changes(&damaged) {
        assert!(times.is_sorted(), "{name}");
        assert!(times.len() <= before[&name].len(), "{name}");
    }
    let counts = |fleet: &Fleet| -> Vec<_> {
        let events = fleet.nodes.iter().flat_map(|node| node.events.iter());
        events.map(|record| (record.event.code, record.count)).collect()
    };
    let fleets = [&whole, &damaged].map(|recordings| recordings.fleet_at(after(70), HISTORY));
    assert!(!counts(&fleets[0]).is_empty());
    assert_eq!(counts(&fleets[0]), counts(&fleets[1]));
    let mut faulty = 0;
    for (second, live) in (34..).zip(&live) {
        let replayed = damaged.fleet_at(after(second), HISTORY);
        for node in live.nodes.iter() {
            let found = replayed.node(&node.name).unwrap();
            for device in node.devices.iter().filter(|one| node.health(one) == Health::Faulty) {
                let known = found.device(&device.uuid).unwrap();
                let health = found.health(known);
                assert!(matches!(health, Health::Faulty | Health::Unknown), "{second}: {health:?}");
                faulty += 1;
            }
        }
    }
    assert!(faulty > 30, "{faulty}");
}

#[test]
fn a_recording_without_its_start_is_played_and_not_continued() {
    let recorded = Recorded::new();
    let mut bytes = recorded.bytes.clone();
    bytes[recorded.ends[0].0 - 10] ^= 1;
    let file = Damaged::new(&bytes);
    let fleet = super::replayed(&file.path, after(69));
    let (known, all) = recorded.compare(69, &snapshot(&fleet, after(69)));
    assert_eq!(known, all);
    let error = Recorder::start(&file.path, options(), Clock::fixed(super::START)).unwrap_err();
    assert!(error.to_string().contains("the start of"), "{error}");
    assert_eq!(fs::read(&file.path).unwrap(), bytes);
}

#[test]
fn a_file_that_has_ended_leaves_its_nodes_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["a", "b"].map(|name| folder.path().join(name));
    let spec = FleetSpec::busy(2, 2, 1, 1);
    let mut of_first = Session::at(&first, &spec, super::START, options());
    let mut of_second = Session::at(&second, &spec, super::START, options());
    of_first.run(20);
    drop(of_first);
    of_second.run(64);
    let recordings = Recordings::open([first.as_path(), second.as_path()]).unwrap();
    let ages = |second| {
        let fleet = recordings.fleet_at(after(second), HISTORY);
        fleet.nodes.iter().map(|node| after(second).since(node.taken_at().unwrap())).max().unwrap()
    };
    // The lines of the other file say what has changed: without its checkpoint they mean nothing.
    assert!((6..=8).contains(&ages(27).as_secs()), "{:?}", ages(27));
    assert!(ages(64).as_secs() <= 1, "{:?}", ages(64));
}

#[test]
fn what_is_no_recording_is_named_and_left_alone() {
    let compressed = |text: &str| zstd_of(format!("{text}\n").as_bytes());
    let newer = r#"{"at":1.0,"start":{"gtop":3,"version":"9"}}"#;
    for (bytes, expected) in [
        (b"timestamp,node\n1,2\n".to_vec(), "is not a recording of gtop"),
        (vec![0; 100_000], "is not a recording of gtop"),
        (compressed("hello\n"), "is not a recording of gtop"),
        (compressed("{\"at\":1}\n"), "is not a recording of gtop"),
        (compressed(newer), "is of format 3; this gtop reads format 2"),
    ] {
        let file = Damaged::new(&bytes);
        let error = Recording::open(&file.path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let clock = Clock::fixed(super::START);
        let error = Recorder::start(&file.path, options(), clock);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("nothing was written to it"), "{error}");
        assert_eq!(fs::read(&file.path).unwrap(), bytes);
    }
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut process = std::process::Command::new("zstd")
        .args(["-qc"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = process.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    output.stdout
}

#[test]
fn hostile_lines_are_passed_by() {
    let header = r#"{"at":1790000000.0,"start":{"gtop":1,"title":"a\u001b[31m"}}"#;
    let name = "x".repeat(300);
    let deep = "[".repeat(100_000);
    let lines = [
        r#"{"at":1e308,"node":"a","link":{"state":"up"}}"#.to_owned(),
        r#"{"at":-1e308,"nodes":["a","a","b\u0007","--x"]}"#.to_owned(),
        r#"{"at":9223372036854775808,"nodes":[]}"#.to_owned(),
        format!(r#"{{"at":1790000001.0,"nodes":["gpu01","{name}"]}}"#),
        format!(r#"{{"at":1790000001.0,"node":"gpu01","body":{deep}}}"#),
        format!(r#"{{"at":1790000001.0,"jobs":{deep}}}"#),
        r#"{"at":1790000001.5,"node":"gpu01","interval":-5}"#.to_owned(),
        r#"{"at":1790000001.5,"node":"gpu01","interval":1e300}"#.to_owned(),
        r#"{"at":1790000001.5,"node":"gpu01","link":{"state":"opening","attempt":4294967296}}"#.to_owned(),
        r#"{"at":1790000001.6,"node":"gpu01","link":{"state":"opening","attempt":1}}"#.to_owned(),
        r#"{"at":1790000001.6,"node":"gpu01","link":{"state":"down","fault":"\u001b]0;x\u0007","detail":"\u202e"}}"#.to_owned(),
        r#"{"at":1790000001.6,"mark":"down","text":"\u001b[2Jx"}"#.to_owned(),
        r#"{"at":1790000002.0,"nodes":["gpu01"],"jobs":{"jobs":[{"id":"1\u0007","limit":-1},{"id":"2","limit":1e300,"name":"\u001b"}],"at":1e300}}"#.to_owned(),
        "\u{0}".repeat(1000),
    ];
    let text = std::iter::once(header.to_owned()).chain(lines).collect::<Vec<_>>().join("\n");
    let file = Damaged::new(&zstd_of(format!("{text}\n").as_bytes()));
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    assert_eq!(recordings.title(), "a [31m");
    let fleet = recordings.fleet_at(after(3), HISTORY);
    assert_eq!(fleet.nodes.len(), 1);
    assert_eq!(
        fleet.nodes[0].fault().unwrap().message(),
        "session lost:  ]0;x".replace(":  ", ": ")
    );
    assert_eq!(fleet.jobs.unwrap().jobs.len(), 1);
    let marks = Recording::open(&file.path).unwrap().marks().to_vec();
    assert_eq!(&*marks[0].text, "[2Jx");
}

#[test]
fn a_decompression_bomb_is_refused_in_bounded_memory() {
    let header = zstd_of(b"{\"at\":1790000000.0,\"start\":{\"gtop\":1}}\n");
    let bomb = zstd_of(&vec![b' '; 256 << 20]);
    let file = Damaged::new(&[header, bomb].concat());
    let recordings = Recordings::open([file.path.as_path()]).unwrap();
    assert!(recordings.loss().is_some());
}

/// What cannot be read is named with its time, and the rest is played.
#[test]
fn parts_and_journals_that_cannot_be_read_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let limits = Limits { keep: Duration::from_secs(200), ..super::NO_LIMITS };
    let options = RecorderOptions { limits, ..options() };
    let mut session = Session::at(&path, &FleetSpec::demo(2, 1), super::START, options);
    (0..6).for_each(|_| session.run(10));
    drop(session);
    let loss = || Recordings::open([path.as_path()]).unwrap().loss();
    assert_eq!(loss(), None);
    let part = Recording::parts(&path).remove(1);
    let bytes = fs::read(&part).unwrap();
    for (content, told) in [(&b"no recording at all"[..], "is damaged"), (b"", "is empty")] {
        fs::write(&part, content).unwrap();
        let text = loss().unwrap();
        let name = part.file_name().unwrap().to_str().unwrap();
        let found = text.strip_prefix(&format!("the older part {name} {told}; the lines from "));
        assert!(found.is_some_and(|rest| rest.ends_with("to the next part are missing")), "{text}");
    }
    fs::remove_file(&part).unwrap();
    assert_eq!(loss(), None);
    fs::create_dir(&part).unwrap();
    assert!(loss().unwrap().contains("cannot be read: not a regular file"), "{:?}", loss());
    fs::remove_dir(&part).unwrap();
    fs::write(&part, bytes).unwrap();
    let journal = folder.path().join("test.gtop.journal");
    fs::create_dir(&journal).unwrap();
    assert!(
        loss().unwrap().starts_with("the journal of test.gtop cannot be read: "),
        "{:?}",
        loss()
    );
}
