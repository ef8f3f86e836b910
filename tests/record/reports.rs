//! Reports add up what was recorded, in one part or in several.

use std::sync::Arc;
use std::time::Duration;

use gtop::internals::export::{ReportFormat, write_report};
use gtop::internals::model::Link;
use gtop::internals::report::{ReportRequest, UsageReport, UsageSummary, report_recordings};
use gtop::internals::sim::FleetSpec;
use gtop::internals::source::replay::Recordings;
use gtop::internals::wire::NodeEvent;
use jiff::tz::TimeZone;

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
            session.deliver(
                &gtop::internals::model::NodeName::new("gpu02").unwrap(),
                NodeEvent::Link(link),
            );
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
    // What nobody saw is a gap, not a zero.
    assert_eq!(one.recorded.len(), 2);
    let down = one.nodes.iter().find(|node| node.name == "gpu02").unwrap();
    assert!((down.down_seconds - 200.0).abs() < 2.0, "{}", down.down_seconds);
    assert!((down.summary.not_seen_seconds() - 8.0 * 200.0).abs() < 40.0);
    let held: f64 = one.users.iter().map(|user| user.summary.watched_seconds).sum();
    let states = one.totals.states;
    let sum: f64 = states.iter().sum();
    assert!(
        held <= sum && sum + one.totals.not_seen_seconds() <= one.totals.watched_seconds + 1e-6
    );
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
    for format in
        [ReportFormat::Html, ReportFormat::Markdown, ReportFormat::Json, ReportFormat::Csv]
    {
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
