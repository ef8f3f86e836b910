//! Reports add up what was recorded, in one part or in several.

use std::sync::Arc;
use std::time::Duration;

use gtop::internals::export::{ReportFormat, write_report};
use gtop::internals::report::{
    FindingKind, FindingSeverity, ReportFilter, ReportRequest, UsageReport, UsageSummary,
    report_recordings,
};
use gtop_collect::record::{Header, Limits, RecorderOptions, Recording};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::Recordings;
use gtop_collect::wire::{Frame, RawUpdate};
use gtop_model::{Link, SessionUpdate};
use jiff::tz::TimeZone;
use serde_json::Value;

use super::{START, Session, after, options};

fn report(path: &std::path::Path, request: &ReportRequest) -> Option<UsageReport> {
    report_recordings(&Recordings::open([path]).unwrap(), request, |_share| {}).unwrap()
}

/// Records a node that goes down and comes back, jobs that change, and a pause of the recorder.
fn recorded() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let spec = FleetSpec::demo(5, 1);
    for (start, seconds) in [(START, 1_000), (START.plus(Duration::from_secs(1_500)), 300)] {
        let mut session = Session::at(&path, &spec, start, options());
        session.jobs = Some(Arc::new(spec.jobs(start, start)));
        session.publish();
        session.run(seconds / 3);
        session.go_down("gpu02");
        session.run(100);
        session.down.clear();
        for link in [Link::Opening { attempt: 2 }, Link::Up] {
            session
                .deliver(&gtop_model::NodeName::new("gpu02").unwrap(), SessionUpdate::Link(link));
        }
        session.run(seconds - seconds / 3 - 100);
    }
    (folder, path)
}

fn numbers(summary: &UsageSummary) -> Vec<f64> {
    let mut numbers = vec![summary.watched_seconds];
    numbers.extend(summary.states);
    numbers.extend(
        [summary.utilization, summary.memory_percent, summary.power, summary.energy_kwh]
            .into_iter()
            .flatten(),
    );
    numbers.extend(summary.percentiles.into_iter().flatten().map(f64::from));
    numbers.extend(summary.samples.map(|(seen, _)| f64::from(u32::try_from(seen).unwrap())));
    numbers.extend(summary.samples.map(|(_, expected)| expected));
    numbers
}

fn all_numbers(report: &UsageReport) -> Vec<(String, Vec<f64>)> {
    let mut all = vec![("all".to_owned(), numbers(&report.totals))];
    all.extend(report.nodes.iter().map(|node| (node.name.clone(), numbers(&node.summary))));
    all.extend(report.devices.iter().map(|device| (device.uuid.clone(), numbers(&device.summary))));
    all.extend(report.users.iter().map(|user| (user.user.clone(), numbers(&user.summary))));
    all.extend(report.jobs.iter().map(|job| (job.id.clone(), numbers(&job.summary))));
    all
}

#[test]
fn parts_that_are_read_at_the_same_time_add_up_to_the_whole() {
    let (_folder, path) = recorded();
    let one =
        report(&path, &ReportRequest { threads: Some(1), ..ReportRequest::default() }).unwrap();
    let two =
        report(&path, &ReportRequest { threads: Some(2), ..ReportRequest::default() }).unwrap();
    let (one_numbers, two_numbers) = (all_numbers(&one), all_numbers(&two));
    assert_eq!(one_numbers.len(), two_numbers.len());
    for ((name, whole), (other, parts)) in one_numbers.iter().zip(&two_numbers) {
        assert_eq!(name, other);
        assert_eq!(whole.len(), parts.len(), "{name}");
        for (whole, parts) in whole.iter().zip(parts) {
            // The clocks of nodes are followed to a tenth of a millisecond, and a checkpoint has the last samples only.
            assert!((whole - parts).abs() <= whole.abs() * 2e-3 + 0.01, "{name}: {whole} {parts}");
        }
    }
    // A time without samples is a gap, not a zero.
    assert_eq!(one.recorded.len(), 2);
    let down = one.nodes.iter().find(|node| node.name == "gpu02").unwrap();
    assert!((down.down_seconds - 200.0).abs() < 2.0, "{}", down.down_seconds);
    assert!((down.summary.not_seen_seconds() - 8.0 * 200.0).abs() < 40.0);
    assert!(one.held.watched_seconds > 0.0 && one.unheld().watched_seconds > 0.0);
    check_ledger(&one);
    check_ledger(&two);
}

/// Checks that the device-time of users sums to what is held, and with what nobody held to all.
pub(super) fn check_ledger(report: &UsageReport) {
    let times = |summary: &UsageSummary| {
        let seen: f64 = summary.states.iter().sum();
        assert!((seen + summary.not_seen_seconds() - summary.watched_seconds).abs() < 1e-6);
        let [active, idle, free, faulty, unknown] = summary.states;
        [summary.watched_seconds, active, idle, free, faulty, unknown]
    };
    let users = report.users.iter().map(|user| times(&user.summary));
    let sum = users.fold([0.0; 6], |sum, user| std::array::from_fn(|i| sum[i] + user[i]));
    let (held, unheld, all) = (times(&report.held), times(&report.unheld()), times(&report.totals));
    for i in 0..6 {
        assert!((sum[i] - held[i]).abs() < 1e-6, "{i}: {sum:?} {held:?}");
        assert!((held[i] + unheld[i] - all[i]).abs() < 1e-6, "{i}: {held:?} {unheld:?} {all:?}");
    }
    // What jobs have is of users.
    let jobs = report.jobs.iter().map(|job| times(&job.summary)[0]).sum::<f64>();
    assert!(jobs < held[0] + 1e-6, "{jobs} {held:?}");
}

#[test]
fn a_span_counts_what_is_in_it_and_nothing_else() {
    let (_folder, path) = recorded();
    let part = |from, to| {
        let request = ReportRequest {
            from: Some(after(from)),
            to: Some(after(to)),
            ..ReportRequest::default()
        };
        report(&path, &request)
    };
    let [whole, first, second] =
        [(100, 500), (100, 300), (300, 500)].map(|(from, to)| part(from, to).unwrap());
    let energy = |report: &UsageReport| report.totals.energy_kwh.unwrap();
    assert!((energy(&whole) - energy(&first) - energy(&second)).abs() < energy(&whole) * 1e-3);
    // One of the devices is cut into slices, which count instead of it.
    let units = 5.0 * 8.0 + 4.0;
    assert!(
        (whole.totals.watched_seconds - units * 400.0).abs() < 1.0,
        "{}",
        whole.totals.watched_seconds
    );
    // The recorder did not run.
    assert!(part(1_100, 1_400).is_none());
    let nothing = part(90_000, 90_001);
    assert!(nothing.is_none(), "{nothing:?}");
}

#[test]
fn an_anonymous_report_has_no_names() {
    let (_folder, path) = recorded();
    let request = ReportRequest { is_anonymous: true, ..ReportRequest::default() };
    let anonymous = report(&path, &request).unwrap();
    let named =
        report(&path, &ReportRequest { has_commands: true, ..ReportRequest::default() }).unwrap();
    assert!(!named.commands.unwrap().is_empty());
    let title = "anonymous".to_owned();
    let anonymous = UsageReport { title, ..anonymous };
    for format in [
        ReportFormat::Html,
        ReportFormat::Markdown,
        ReportFormat::Json,
        ReportFormat::Csv,
        ReportFormat::Text,
        ReportFormat::Jobs,
    ] {
        let mut text = Vec::new();
        write_report(&mut text, &anonymous, format, &TimeZone::UTC).unwrap();
        assert!(format.is_report(&text));
        let text = String::from_utf8(text).unwrap();
        let jobs = named.jobs.iter().flat_map(|job| [&job.id, &job.name]);
        let people_and_nodes = named
            .nodes
            .iter()
            .map(|node| &node.name)
            .chain(named.users.iter().map(|user| &user.user));
        let uuids = named.devices.iter().map(|device| &device.uuid);
        for name in jobs.chain(people_and_nodes).chain(uuids).filter(|name| name.len() > 2) {
            let is_in_data = [format!("\"{name}\""), format!(",{name},"), format!(" {name} ")];
            assert!(!is_in_data.iter().any(|one| text.contains(one)), "{format:?}: {name}");
        }
    }
}

/// Returns the event with what `change` makes of its body, if it is a frame.
fn changed(event: RawUpdate, change: &mut dyn FnMut(&mut Value)) -> RawUpdate {
    let RawUpdate::Frame(frame) = &event else { return event };
    let mut body: Value = serde_json::from_slice(&frame.text).unwrap();
    change(&mut body);
    RawUpdate::Frame(Box::new(Frame::parse(serde_json::to_vec(&body).unwrap().into()).unwrap()))
}

/// Runs a session for some seconds with changed frames.
fn run_changed(session: &mut Session, seconds: u32, change: &mut dyn FnMut(&mut Value)) {
    for _ in 0..seconds {
        for (name, delivery) in session.feed.next_second() {
            let passed = delivery.at.since(session.clock.now());
            session.clock.advance(passed);
            let event = changed(delivery.raw, change);
            session.deliver(&name, event);
        }
        session.recorder.flush();
    }
}

fn devices_of(body: &mut Value) -> impl Iterator<Item = &mut Value> {
    let backends = body.get_mut("backends").and_then(Value::as_array_mut).into_iter().flatten();
    backends.filter_map(|backend| backend.get_mut("devices")?.as_array_mut()).flatten()
}

/// The driver hangs: samples of the host go on, and those of the devices stay away.
fn without_devices(body: &mut Value) {
    if let Some(map) = body.as_object_mut() {
        map.remove("backends");
    }
}

/// Adds a counter of energy that shows 300 W, whatever the device draws by its readings.
fn with_counter(seconds: &mut u64) -> impl FnMut(&mut Value) + '_ {
    move |body| {
        if body["t"] == "sample" {
            *seconds += 1;
            for device in devices_of(body) {
                device["energy"] = (*seconds * 300_000).into();
            }
        }
    }
}

/// The first node reports that its driver hangs; its uptime is `uptime` seconds.
fn deliver_stuck(session: &mut Session, uptime: u64) {
    let fault = format!(
        r#"{{"t":"error","at":{uptime},"source":"nvml","scope":"device","code":"stuck","call":"x"}}"#
    );
    let name = session.feed.names().next().unwrap().clone();
    let frame = Frame::parse(fault.into_bytes().into()).unwrap();
    session.deliver(&name, RawUpdate::Frame(Box::new(frame)));
}

#[test]
fn a_driver_that_hangs_is_a_finding_and_what_was_not_seen_counts() {
    let spec = FleetSpec::busy(1, 2, 2, 3);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    let mut clock = 0;
    run_changed(&mut session, 60, &mut with_counter(&mut clock));
    let uptime = session.fleet().nodes[0].host.fast.uptime_seconds.get().unwrap();
    deliver_stuck(&mut session, uptime);
    run_changed(&mut session, 480, &mut without_devices);
    clock += 480;
    run_changed(&mut session, 60, &mut with_counter(&mut clock));
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    for threads in [1, 2] {
        let request = ReportRequest { threads: Some(threads), ..ReportRequest::default() };
        let report = report(&path, &request).unwrap();
        let hang = report.findings.iter().find(|one| one.kind == FindingKind::HungDriver).unwrap();
        let place = format!("{} #0, #1 gave no values for up to 7m5", hang.nodes[0]);
        assert!(hang.text.starts_with(&place), "{}", hang.text);
        assert!(hang.text.ends_with(": no answer from the NVIDIA driver"), "{}", hang.text);
        assert!(hang.severity == FindingSeverity::High && !hang.remedy.is_empty());
        let about = |summary: &UsageSummary, what: &str| {
            let coverage = summary.coverage_percent().unwrap();
            assert!((19.0..22.0).contains(&coverage), "{what}: {coverage} %");
            let hours = summary.watched_seconds / 3600.0;
            // What a device draws by its counter, in the hang, too.
            let watts = summary.energy_kwh.unwrap() * 1000.0 / hours;
            assert!((290.0..310.0).contains(&watts), "{what}: {watts} W");
        };
        about(&report.totals, "all");
        about(&report.nodes[0].summary, "node");
        let device_seconds = report.devices.iter().map(|one| one.summary.watched_seconds);
        assert!(device_seconds.clone().all(|seconds| (seconds - 599.0).abs() < 2.0));
        report.devices.iter().for_each(|device| about(&device.summary, "device"));
        let held = &report.jobs[0];
        assert!((held.summary.watched_seconds - 599.0 * held.devices as f64).abs() < 4.0);
        about(&held.summary, "job");
        let user = report.users.iter().find(|user| user.user == held.user).unwrap();
        about(&user.summary, "user");
    }
}

#[test]
fn a_hang_that_lasts_to_the_end_counts_for_jobs_that_are_still_listed() {
    let spec = FleetSpec::busy(1, 2, 2, 3);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    run_changed(&mut session, 15, &mut |_| {});
    run_changed(&mut session, 534, &mut without_devices);
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let report = report(&path, &ReportRequest::default()).unwrap();
    let job = &report.jobs[0].summary;
    assert!(job.coverage_percent().unwrap() < 5.0, "{job:?}");
    assert!((job.watched_seconds - 548.0 * report.jobs[0].devices as f64).abs() < 4.0, "{job:?}");
    assert!(report.totals.coverage_percent().unwrap() < 5.0);
    let hang = report.findings.iter().find(|one| one.kind == FindingKind::NotSeen).unwrap();
    assert!(hang.text.contains("gave no values for up to 8m5"), "{}", hang.text);
    // The same of the job alone, and of the last minutes, in which no devices were seen.
    let id = report.jobs[0].id.clone();
    let filter = ReportFilter { jobs: vec![id], ..ReportFilter::default() };
    let of_job = |from| {
        let request = ReportRequest { filter: filter.clone(), from, ..ReportRequest::default() };
        let report = super::reports::report(&path, &request).unwrap();
        let hang = report.findings.iter().find(|one| one.kind == FindingKind::NotSeen);
        assert!(hang.is_some(), "{:?}", report.findings);
        (report.jobs[0].devices as f64, report.jobs[0].summary, report.totals)
    };
    let (devices, job, totals) = of_job(None);
    assert!((job.watched_seconds - 548.0 * devices).abs() < 4.0, "{job:?}");
    assert!(totals.coverage_percent().unwrap() < 5.0, "{totals:?}");
    let (devices, job, totals) = of_job(Some(after(300)));
    assert!((job.watched_seconds - 249.0 * devices).abs() < 4.0, "{job:?}");
    assert_eq!((job.coverage_percent(), totals.coverage_percent()), (Some(0.0), Some(0.0)));
}

#[test]
fn a_driver_that_hangs_from_the_start_has_no_coverage() {
    let mut session = Session::start(&FleetSpec::busy(1, 2, 2, 3));
    session.publish();
    run_changed(&mut session, 3, &mut without_devices);
    let uptime = session.fleet().nodes[0].host.fast.uptime_seconds.get().unwrap();
    deliver_stuck(&mut session, uptime);
    run_changed(&mut session, 80, &mut without_devices);
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let report = report(&path, &ReportRequest::default()).unwrap();
    assert_eq!(report.totals.coverage_percent(), Some(0.0));
    assert!(report.totals.not_seen_seconds().is_sign_positive());
    let hang = report.findings.iter().find(|one| one.kind == FindingKind::HungDriver).unwrap();
    assert!(
        hang.text.contains("showed no devices: no answer from the NVIDIA driver"),
        "{}",
        hang.text
    );
}

#[test]
fn a_driver_that_hangs_from_the_start_and_recovers_was_not_seen_before() {
    let spec = FleetSpec::busy(1, 2, 2, 3);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    run_changed(&mut session, 300, &mut |body| {
        if body["t"] == "sample" {
            without_devices(body);
        }
    });
    run_changed(&mut session, 60, &mut |_| {});
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let whole = ReportRequest::default();
    let id = report(&path, &whole).unwrap().jobs[0].id.clone();
    let filter = ReportFilter { jobs: vec![id], ..ReportFilter::default() };
    for threads in [1, 2] {
        for filter in [ReportFilter::default(), filter.clone()] {
            let request = ReportRequest { threads: Some(threads), filter, ..whole.clone() };
            let report = report(&path, &request).unwrap();
            for summary in [report.totals, report.jobs[0].summary] {
                let coverage = summary.coverage_percent().unwrap();
                assert!((15.0..18.0).contains(&coverage), "{threads}: {coverage} %");
            }
            let hang = report.findings.iter().find(|one| one.kind == FindingKind::NotSeen).unwrap();
            assert!(hang.text.contains("gave no values for up to "), "{}", hang.text);
            let note = "device-hours before the first values of devices are counted for those who held the devices at that moment";
            assert_eq!(report.notes.iter().filter(|one| one.ends_with(note)).count(), 1);
        }
    }
}

#[test]
fn a_job_has_what_it_was_given_of_its_hosts_and_what_it_used() {
    let spec = FleetSpec::demo(4, 1);
    let mut session = Session::start(&spec);
    session.jobs = Some(Arc::new(spec.jobs(START, START)));
    session.publish();
    session.run(120);
    let fleet = session.fleet();
    let jobs = session.jobs.clone().unwrap();
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let report = report(&path, &ReportRequest::default()).unwrap();
    let mut compared = 0;
    for job in &report.jobs {
        let listed = jobs.jobs.iter().find(|listed| *listed.shown_id == *job.id).unwrap();
        assert_eq!(
            (job.host.cpus, job.host.memory),
            (listed.cpus, listed.memory.map(|bytes| bytes.0))
        );
        let of_node = |node: &Arc<gtop_fleet::Node>| {
            let share = *node.shares.as_ref()?.of_job(listed)?;
            Some((f64::from(share.cpus_used.get()?), share.memory_used.get()?.0))
        };
        let now: Vec<(f64, u64)> = fleet.nodes.iter().filter_map(of_node).collect();
        if now.len() < listed.allocations.len() {
            assert_eq!((job.host.cpus_used, job.host.max_memory), (None, None), "{}", job.id);
            continue;
        }
        let cpus: f64 = now.iter().map(|(cpus, _)| cpus).sum();
        let memory: u64 = now.iter().map(|(_, memory)| memory).sum();
        let used = job.host.cpus_used.unwrap();
        assert!((used - cpus).abs() < cpus.mul_add(0.5, 0.5), "{}: {used}, at last {cpus}", job.id);
        assert!(job.host.max_memory.unwrap() >= memory, "{}: {:?}", job.id, job.host);
        compared += 1;
    }
    assert!(compared >= 2, "{compared} of {}", report.jobs.len());
}

#[test]
fn a_part_that_another_recorder_began_is_gone_on_with() {
    let reported = |keep: u64| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.gtop");
        let limits = Limits { keep: Duration::from_secs(keep), ..super::NO_LIMITS };
        // The first one ends in the middle of a part.
        for (pid, start) in [(1, START), (2, after(27))] {
            let header = Header { pid, ..options().header };
            let options = RecorderOptions { limits, header, ..options() };
            let mut session = Session::at(&path, &FleetSpec::demo(3, 1), start, options);
            (0..5).for_each(|_| session.run(5));
        }
        let report = report(&path, &ReportRequest::default()).unwrap();
        (Recording::parts(&path).len(), report.totals)
    };
    let ((no_parts, whole), (parts, divided)) = (reported(86_400), reported(200));
    assert!(no_parts == 0 && parts >= 2, "{parts}");
    assert_eq!(whole.samples, divided.samples);
    for (known, found) in numbers(&whole).into_iter().zip(numbers(&divided)) {
        assert!((known - found).abs() <= known * 0.02, "{whole:?} {divided:?}");
    }
}

#[test]
fn parts_of_a_recording_count_as_much_as_one_file() {
    let reported = |keep: u64, damage: &dyn Fn(&std::path::Path)| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.gtop");
        let limits = Limits { keep: Duration::from_secs(keep), ..super::NO_LIMITS };
        let options = RecorderOptions { limits, ..options() };
        let mut session = Session::at(&path, &FleetSpec::demo(8, 1), START, options);
        for _ in 0..12 {
            session.run(10);
        }
        drop(session);
        damage(&path);
        let report = report(&path, &ReportRequest::default()).unwrap();
        (Recording::parts(&path).len(), report)
    };
    let intact = |_: &std::path::Path| {};
    // The group of a part's first line, which names its recorder.
    let start = |path: &std::path::Path| {
        let part = Recording::parts(path).remove(4);
        let end = Recording::open(&part).unwrap().group_ends()[0].0;
        let mut bytes = std::fs::read(&part).unwrap();
        bytes[usize::try_from(end).unwrap() - 10] ^= 1;
        std::fs::write(&part, bytes).unwrap();
    };
    let (no_parts, whole) = reported(86_400, &intact);
    let (parts, divided) = reported(200, &intact);
    let (_, damaged) = reported(200, &start);
    assert!(no_parts == 0 && parts >= 8, "{parts}");
    let findings = |report: &UsageReport| -> Vec<String> {
        let texts = report.findings.iter().map(|finding| finding.text.clone());
        texts.filter(|text| text.contains("reported")).collect()
    };
    assert!(!findings(&whole).is_empty());
    for other in [divided, damaged] {
        assert_eq!(findings(&other), findings(&whole));
        let [known, found] = [&whole, &other].map(|report| &report.totals);
        assert!((found.watched_seconds / known.watched_seconds - 1.0).abs() < 0.01, "{found:?}");
        let coverage = [known, found].map(|one| one.coverage_percent().unwrap());
        assert!((coverage[0] - coverage[1]).abs() < 1.0, "{coverage:?}");
    }
}

#[test]
fn memory_errors_and_a_failed_remapping_are_findings_and_a_faulty_device_is_not_used() {
    let mut session = Session::start(&FleetSpec::busy(1, 3, 1, 3));
    session.publish();
    run_changed(&mut session, 20, &mut |body| {
        devices_of(body).for_each(|device| device["util"] = 10.into());
    });
    run_changed(&mut session, 70, &mut |body| {
        for (number, device) in devices_of(body).enumerate() {
            match number {
                0 => device["ecc_uncorrected"] = 3.into(),
                1 => {
                    device["remap_failed"] = true.into();
                    device["ecc_uncorrected"] = 1.into();
                }
                _ => {}
            }
            device["util"] = 100.into();
        }
    });
    let Session { path, recorder, folder: _folder, .. } = session;
    drop(recorder);
    let report = report(&path, &ReportRequest::default()).unwrap();
    let texts: Vec<&str> = report.findings.iter().map(|finding| &*finding.text).collect();
    let has = |device: u32, words: &str| {
        let found = report.findings.iter().find(|one| {
            one.device == Some(device) && one.text.contains(words) && !one.remedy.is_empty()
        });
        assert!(found.is_some(), "#{device} {words}: {texts:#?}");
    };
    has(0, "uncorrected");
    has(1, "uncorrected");
    has(1, "remapping failed");
    let utilization = |index: usize| report.devices[index].summary.utilization.unwrap();
    assert!(utilization(2) > 70.0);
    // Only what it did while it was sound counts.
    let seconds_before = report.devices[1].summary.states.iter().sum::<f64>() - 69.0;
    assert!(seconds_before > 10.0 && utilization(1) < 11.0, "{}", utilization(1));
}
