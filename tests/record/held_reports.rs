//! Reports of what some jobs, users or nodes had, from a recording in which jobs share a node.

use std::sync::Arc;

use gtop::internals::report::{
    FindingKind, NothingMatched, ReportFilter, ReportRequest, UnmatchedName, UsageReport,
    UsageSummary, report_recordings,
};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::Recordings;
use gtop_collect::wire::{Frame, RawUpdate};
use gtop_fleet::query::Filter;
use gtop_model::{
    Allocation, DeviceAllocation, Job, JobId, JobList, JobState, Link, NodeName, SessionUpdate,
};
use serde_json::{Value, json};

use super::{START, Session, after, options};

/// How long is recorded, and when a device goes from one job to another.
const SECONDS: u32 = 300;
const CHANGE: u32 = 120;

/// Jobs on gpu01: 17, task 1 of the array 2, is busy; 18 is idle. Device 1 goes from 17 to 18. On gpu02 is 19, task 2
/// of the array, and a device that 20 and 21 share; it does not answer for a while.
fn recorded() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let mut session = Session::at(&path, &FleetSpec::busy(2, 4, 1, 3), START, options());
    for second in 0..SECONDS {
        let is_before = second < CHANGE;
        if second == 0 || second == CHANGE {
            let [of_17, of_18]: [&[u32]; 2] =
                if is_before { [&[0, 1], &[2]] } else { [&[0], &[1, 2]] };
            let blank = FleetSpec::demo(5, 1).jobs(START, START).jobs.remove(0);
            let jobs = [
                job(&blank, ["17", "2_1", "ada"], "gpu01", of_17),
                job(&blank, ["18", "18", "bob"], "gpu01", of_18),
                job(&blank, ["19", "2_2", "ada"], "gpu02", &[0]),
                job(&blank, ["20", "20", "carl"], "gpu02", &[3]),
                job(&blank, ["21", "21", "dora"], "gpu02", &[3]),
                job(&blank, ["22", "22", "emil"], "gpu02", &[]),
                waiting(&blank, "23", "fred"),
            ];
            let at = Some(session.clock.now());
            session.jobs = Some(Arc::new(JobList { jobs: jobs.into(), at, ..JobList::default() }));
            session.publish();
        }
        if second == 200 {
            session.go_down("gpu02");
        }
        if second == 230 {
            session.down.clear();
            for link in [Link::Opening { attempt: 2 }, Link::Up] {
                session.deliver(&NodeName::new("gpu02").unwrap(), SessionUpdate::Link(link));
            }
        }
        for (name, delivery) in session.feed.next_second() {
            let passed = delivery.at.since(session.clock.now());
            session.clock.advance(passed);
            if !session.down.contains(&name) {
                let event = with_values(&name, is_before, delivery.raw);
                session.deliver(&name, event);
            }
        }
        session.recorder.flush();
    }
    let left = after(u64::from(SECONDS)).since(session.clock.now());
    session.clock.advance(left);
    drop(session);
    (folder, path)
}

fn job(blank: &Job, [id, shown_id, user]: [&str; 3], node: &str, indices: &[u32]) -> Job {
    let devices = DeviceAllocation::Indices(indices.into());
    Job {
        id: JobId::new(id).unwrap(),
        shown_id: shown_id.into(),
        name: "train".into(),
        user: user.into(),
        state: JobState::Running,
        allocations: [Allocation { node: NodeName::new(node).unwrap(), devices }].into(),
        ..blank.clone()
    }
}

fn waiting(blank: &Job, id: &str, user: &str) -> Job {
    let job = job(blank, [id, id, user], "gpu01", &[]);
    Job { state: JobState::Pending, allocations: Arc::default(), ..job }
}

/// Returns the same with fixed utilization and power, and without processes.
fn with_values(node: &NodeName, is_before: bool, event: RawUpdate) -> RawUpdate {
    let RawUpdate::Frame(frame) = &event else { return event };
    let mut body: Value = serde_json::from_slice(&frame.text).unwrap();
    if let Some(sample) = body.as_object_mut().filter(|body| body.contains_key("backends")) {
        sample.remove("processes");
        sample.remove("evidence");
    }
    let backends = body.get_mut("backends").and_then(Value::as_array_mut);
    for backend in backends.into_iter().flatten() {
        backend.as_object_mut().unwrap().remove("uses");
        let devices = backend.get_mut("devices").and_then(Value::as_array_mut);
        for (index, device) in devices.into_iter().flatten().enumerate() {
            let (percent, watts) = match (node.as_str(), index) {
                ("gpu01", 0) => (90, 600),
                ("gpu01", 1) if is_before => (90, 600),
                ("gpu02", 0) => (40, 300),
                _ => (0, 100),
            };
            (device["util"], device["power"]) = (json!(percent), json!(watts * 1000));
            device["throttle"] = json!(0);
        }
    }
    let text = serde_json::to_vec(&body).unwrap();
    RawUpdate::Frame(Box::new(Frame::parse(text.into()).unwrap()))
}

fn filter(jobs: &[&str], users: &[&str], nodes: &[&str]) -> ReportFilter {
    let [jobs, users, nodes] = [jobs, users, nodes]
        .map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>());
    ReportFilter { jobs, users, nodes, ..ReportFilter::default() }
}

fn matching(text: &str) -> ReportFilter {
    ReportFilter { matching: Filter::of_span(text).unwrap(), ..ReportFilter::default() }
}

fn report_in(
    path: &std::path::Path,
    filter: ReportFilter,
    threads: usize,
) -> Result<UsageReport, NothingMatched> {
    let request = ReportRequest { filter, threads: Some(threads), ..ReportRequest::default() };
    let recordings = Recordings::open([path]).unwrap();
    Ok(report_recordings(&recordings, &request, |_share| {})?.unwrap())
}

fn report(path: &std::path::Path, filter: ReportFilter) -> UsageReport {
    report_in(path, filter, 1).unwrap()
}

/// The report of the same if names that nothing fits are noted.
fn noted(path: &std::path::Path, filter: ReportFilter) -> Result<Vec<String>, String> {
    let unmatched = UnmatchedName::Noted;
    let request = ReportRequest { filter, unmatched, ..ReportRequest::default() };
    let recordings = Recordings::open([path]).unwrap();
    let report = report_recordings(&recordings, &request, |_share| {});
    let is_of_name = |note: &String| note.starts_with("job ") || note.starts_with("user ");
    let notes = |report: Option<UsageReport>| {
        report.unwrap().notes.into_iter().filter(is_of_name).collect()
    };
    report.map(notes).map_err(|error| error.to_string())
}

/// Checks seconds that are held and seen, mean utilization, and energy at a mean power.
#[track_caller]
fn check(summary: &UsageSummary, [held, seen, utilization, watts]: [f64; 4]) {
    let near = |found: f64, expected: f64, by: f64| {
        assert!((found - expected).abs() <= by, "{found} and not {expected}: {summary:?}");
    };
    near(summary.watched_seconds, held, 2.5);
    near(summary.states.iter().sum(), seen, 2.5);
    near(summary.utilization.unwrap(), utilization, 0.5);
    near(summary.power.unwrap(), watts, 3.0);
    near(summary.energy_kwh.unwrap(), seen * watts / 3.6e6, 3.0 * watts / 3.6e6);
}

fn indices(report: &UsageReport) -> Vec<(&str, u32)> {
    report.devices.iter().map(|device| (&*device.node, device.index.unwrap())).collect()
}

#[test]
fn the_report_of_a_job_has_its_devices_and_time_only() {
    let (_folder, path) = recorded();
    let whole = report(&path, ReportFilter::default());
    assert_eq!((whole.devices.len(), whole.nodes.len(), whole.jobs.len()), (8, 2, 5));
    for id in ["17", "2_1"] {
        let busy = report(&path, filter(&[id], &[], &[]));
        assert_eq!(indices(&busy), [("gpu01", 0), ("gpu01", 1)]);
        check(&busy.totals, [420.0, 420.0, 90.0, 600.0]);
        check(&busy.devices[0].summary, [300.0, 300.0, 90.0, 600.0]);
        check(&busy.devices[1].summary, [120.0, 120.0, 90.0, 600.0]);
        assert!(busy.findings.is_empty(), "{:?}", busy.findings);
        assert_eq!(busy.totals.percentiles, [Some(90), Some(90)]);
        assert_eq!((busy.nodes.len(), busy.nodes_seen, busy.nodes[0].devices), (1, 1, 2));
        assert!(busy.totals.coverage_percent().unwrap() > 99.0, "{:?}", busy.totals.samples);
        let [user] = &busy.users[..] else { panic!("{:?}", busy.users) };
        let [job] = &busy.jobs[..] else { panic!("{:?}", busy.jobs) };
        assert_eq!((&*user.user, &*job.id, job.devices), ("ada", "2_1", 2));
    }
    let idle = report(&path, filter(&["18"], &[], &[]));
    assert_eq!(indices(&idle), [("gpu01", 1), ("gpu01", 2)]);
    check(&idle.totals, [480.0, 480.0, 0.0, 100.0]);
    let [finding] = &idle.findings[..] else { panic!("{:?}", idle.findings) };
    assert_eq!((finding.kind, finding.job.as_deref()), (FindingKind::IdleHeld, Some("18")));
    assert!((finding.device_seconds - 480.0).abs() < 2.5, "{finding:?}");
    assert!(idle.events.is_empty());
}

#[test]
fn an_array_is_all_its_tasks_and_a_gap_in_its_time_is_not_seen() {
    let (_folder, path) = recorded();
    for both in
        [filter(&["2"], &[], &[]), filter(&["17", "19"], &[], &[]), filter(&[], &["ada"], &[])]
    {
        let array = report(&path, both);
        assert_eq!(indices(&array), [("gpu01", 0), ("gpu01", 1), ("gpu02", 0)]);
        let watts = (420.0 * 600.0 + 270.0 * 300.0) / 690.0;
        let utilization = (420.0 * 90.0 + 270.0 * 40.0) / 690.0;
        check(&array.totals, [720.0, 690.0, utilization, watts]);
        assert!((array.nodes[1].down_seconds - 30.0).abs() < 2.5, "{:?}", array.nodes[1]);
        assert!((array.nodes[1].summary.not_seen_seconds() - 30.0).abs() < 4.0);
    }
    let on_one = report(&path, filter(&["2"], &["ada"], &["gpu02"]));
    assert_eq!(indices(&on_one), [("gpu02", 0)]);
    check(&on_one.totals, [300.0, 270.0, 40.0, 300.0]);
    let node = report(&path, filter(&[], &[], &["gpu02"]));
    assert_eq!((node.devices.len(), node.nodes.len(), node.jobs.len()), (4, 1, 3));
    assert!((node.totals.watched_seconds - 1200.0).abs() < 4.0, "{:?}", node.totals);
}

#[test]
fn of_a_shared_device_a_job_has_its_part() {
    let (_folder, path) = recorded();
    let shared = report(&path, filter(&["20"], &[], &[]));
    assert_eq!(indices(&shared), [("gpu02", 3)]);
    check(&shared.totals, [150.0, 135.0, 0.0, 100.0]);
    let both = report(&path, filter(&["20", "21"], &[], &[]));
    check(&both.totals, [300.0, 270.0, 0.0, 100.0]);
}

#[test]
fn parts_read_at_the_same_time_find_the_same() {
    let (_folder, path) = recorded();
    for jobs in [&["2"][..], &["18"], &["20"]] {
        let one = report(&path, filter(jobs, &[], &[])).totals;
        let two = report_in(&path, filter(jobs, &[], &[]), 3).unwrap().totals;
        assert!((one.watched_seconds - two.watched_seconds).abs() < 0.1, "{one:?} {two:?}");
        assert!((one.energy_kwh.unwrap() - two.energy_kwh.unwrap()).abs() < 1e-4);
    }
}

#[test]
fn a_filter_counts_the_same_as_options_of_its_meaning() {
    let (_folder, path) = recorded();
    for (text, same) in [
        ("user=ada", filter(&[], &["ada"], &[])),
        ("ada", filter(&[], &["ada"], &[])),
        ("jobuser=ada", filter(&[], &["ada"], &[])),
        ("job=2", filter(&["2"], &[], &[])),
        ("job=20", filter(&["20"], &[], &[])),
        ("user=carl or user=dora", filter(&["20", "21"], &[], &[])),
        ("user=ada node=gpu02", filter(&[], &["ada"], &["gpu02"])),
        ("node=gpu02", filter(&[], &[], &["gpu02"])),
        ("gpu02", filter(&[], &[], &["gpu02"])),
        ("not node=gpu01", filter(&[], &[], &["gpu02"])),
        ("node~gpu or user=ada", ReportFilter::default()),
        ("jobname=train partition=*", filter(&[], &["ada", "bob", "carl", "dora"], &[])),
    ] {
        let [found, expected] = [matching(text), same].map(|filter| report(&path, filter));
        let numbers = |report: &UsageReport| {
            let summaries = [&report.totals, &report.held].map(|summary| format!("{summary:?}"));
            let steps = format!("{:?}", report.steps.cluster);
            let findings: Vec<String> =
                report.findings.iter().map(|finding| finding.text.clone()).collect();
            (summaries, steps, findings, report.nodes_seen)
        };
        let [found_numbers, expected_numbers] = [&found, &expected].map(numbers);
        assert_eq!(found_numbers.0, expected_numbers.0, "{text}");
        assert_eq!(found_numbers.2, expected_numbers.2, "{text}");
        assert!(found_numbers == expected_numbers, "{text}");
        let names = |report: &UsageReport| {
            let jobs = report.jobs.iter().map(|job| job.id.clone());
            let users = report.users.iter().map(|user| user.user.clone());
            (jobs.collect::<Vec<_>>(), users.collect::<Vec<_>>())
        };
        assert_eq!((indices(&found), names(&found)), (indices(&expected), names(&expected)));
    }
}

#[test]
fn a_filter_may_count_whole_devices_and_parts_of_others() {
    let (_folder, path) = recorded();
    let either = report(&path, matching("user=ada or node=gpu02"));
    let devices = [("gpu01", 0), ("gpu01", 1), ("gpu02", 0), ("gpu02", 1), ("gpu02", 2)];
    assert_eq!(indices(&either), [&devices[..], &[("gpu02", 3)]].concat());
    assert!((either.totals.watched_seconds - 1620.0).abs() < 5.0, "{:?}", either.totals);
    assert!(!either.is_of_holders);
    // Device 0 is always hers, device 1 until it is bob's.
    let others = report(&path, matching("node=gpu01 not user=ada"));
    assert_eq!(indices(&others), [("gpu01", 1), ("gpu01", 2), ("gpu01", 3)]);
    check(&others.totals, [780.0, 780.0, 0.0, 100.0]);
    let uuid = report(&path, ReportFilter::default()).devices[0].uuid.clone();
    let single = report(&path, matching(&format!("uuid={uuid}")));
    check(&single.totals, [300.0, 300.0, 90.0, 600.0]);
    assert_eq!((indices(&single).len(), single.nodes[0].devices, single.nodes.len()), (1, 1, 1));
    // The other devices of its node are not in the charts.
    let means = single.nodes[0].steps.utilization.iter().flatten();
    assert!(means.clone().count() > 200 && means.clone().all(|[mean, ..]| *mean > 89.0));
}

#[test]
fn a_filter_that_nothing_matches_is_an_error_that_lists_what_there_is() {
    let (_folder, path) = recorded();
    let error = |text: &str| report_in(&path, matching(text), 1).unwrap_err().to_string();
    let models = error("user=eve");
    assert!(
        models.starts_with("nothing recorded in this time matches filter user=eve; there are the users ada, bob, carl, dora; the partitions "),
        "{models}"
    );
    assert!(models.contains("; the models NVIDIA "), "{models}");
    let place = error("node=gpu03");
    assert!(place.contains("matches filter node=gpu03; there are the users ada"), "{place}");
    let of_bob = ReportFilter { users: vec!["bob".to_owned()], ..matching("node=gpu02") };
    assert_eq!(
        report_in(&path, of_bob, 1).unwrap_err().to_string(),
        "user bob held nothing on what matches node=gpu02, but on gpu01"
    );
    let of_both = ReportFilter { nodes: vec!["gpu02".to_owned()], ..matching("user=bob") };
    assert!(report_in(&path, of_both, 1).is_err());
}

#[test]
fn a_name_that_nothing_fits_is_an_error_that_lists_what_there_is() {
    let (_folder, path) = recorded();
    let error = |filter| report_in(&path, filter, 1).unwrap_err().to_string();
    assert_eq!(
        error(filter(&["17", "99"], &[], &[])),
        "job 99 is not in the recording, which has the jobs 18, 20, 21, 2_1, 2_2"
    );
    assert_eq!(
        error(filter(&[], &["eve"], &[])),
        "user eve is not in the recording, which has the users ada, bob, carl, dora"
    );
    assert_eq!(
        error(filter(&[], &[], &["gpu03"])),
        "node gpu03 is not in the recording, which has the nodes gpu01, gpu02"
    );
    assert_eq!(
        error(filter(&["18"], &["ada"], &[])),
        "job 18 of user ada held no device in this time"
    );
    // It is there, and held nothing that counts.
    assert_eq!(
        error(filter(&["18"], &[], &["gpu02"])),
        "job 18 held nothing on node gpu02, but on gpu01"
    );
    assert_eq!(
        error(filter(&["22"], &[], &["gpu01"])),
        "job 22 held nothing on node gpu01, but on gpu02"
    );
    assert_eq!(error(filter(&["22"], &[], &[])), "job 22 held no device in this time");
    assert_eq!(
        error(filter(&[], &["bob"], &["gpu02"])),
        "user bob held nothing on node gpu02, but on gpu01"
    );
    assert_eq!(error(filter(&["23"], &[], &[])), "job 23 is pending; it has had no devices");
}

#[test]
fn what_was_watched_is_reported_if_one_name_fits() {
    let (_folder, path) = recorded();
    let pending = "job 23 is pending; it has had no devices";
    assert_eq!(noted(&path, filter(&["17", "23"], &[], &[])).unwrap(), [pending]);
    let unknown = noted(&path, filter(&["17", "99"], &[], &[])).unwrap();
    assert!(unknown[0].starts_with("job 99 is not in the recording"), "{unknown:?}");
    let users = noted(&path, filter(&[], &["ada", "emil"], &[])).unwrap();
    assert_eq!(users, ["user emil held no device in this time"]);
    assert_eq!(noted(&path, filter(&["17"], &[], &[])).unwrap(), [""; 0]);
    // Nothing was watched that counts.
    assert_eq!(noted(&path, filter(&["23"], &[], &[])).unwrap_err(), pending);
}
