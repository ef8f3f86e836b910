//! The whole report in a sentence or two: what is broken, and who wasted what.

use std::collections::BTreeSet;

use crate::report::{
    FindingKind, FindingSeverity, JobReport, ReportFinding, UsageReport, UsageSummary, VerdictWord,
};
use gtop_local::text::counted;

/// Of what was to be seen, in percent: with less, that nothing was seen to be wrong says little.
const MIN_COVERAGE: f64 = 90.0;

/// Returns what a report says, of the jobs or users that it is about, or of all.
pub(super) fn headline(report: &UsageReport) -> String {
    if report.totals.states.iter().sum::<f64>() <= 0.0 {
        return "Nothing is known: no device was seen.".to_owned();
    }
    if report.kind == "rntop-log" {
        let load = report.totals.utilization;
        let load = load.map_or_else(String::new, |load| format!("The mean load was {load:.0} %. "));
        return format!("{load}A log of rntop does not show faults, users or jobs.");
    }
    match (&report.jobs[..], &report.users[..]) {
        ([job], _) if !report.filter.jobs.is_empty() => of_job(job),
        (_, [user]) if report.is_of_holders => {
            format!("{} {}.", user.user, use_text(&user.summary, &report.jobs))
        }
        (_, users) if report.is_of_holders => {
            let all = use_text(&report.held, &report.jobs);
            format!("{} {all}.", counted(users.len(), "user"))
        }
        _ => of_all(report),
    }
}

fn of_job(job: &JobReport) -> String {
    let JobReport { verdict, .. } = job;
    let remedy = match verdict.remedy.as_str() {
        "" => String::new(),
        remedy => format!(" → {remedy}"),
    };
    let word = verdict.word.as_str();
    format!("Job {}: {word}, {}.{remedy}", job.title(), verdict.sentence)
}

/// Returns what was used of what was held, and how jobs are judged.
fn use_text(held: &UsageSummary, jobs: &[JobReport]) -> String {
    let [used, all] = [held.states.first().copied().unwrap_or_default(), held.watched_seconds]
        .map(|seconds| seconds / 3600.0);
    let load = held.utilization.map(|load| format!(", at a mean load of {load:.0} %"));
    let words = word_counts(jobs);
    let words = if words.is_empty() { words } else { format!("; jobs: {words}") };
    format!("used {used:.1} of {all:.1} device-hours{}{words}", load.unwrap_or_default())
}

/// Returns how many jobs have each word.
fn word_counts(jobs: &[JobReport]) -> String {
    let counts = VerdictWord::ALL.into_iter().rev().filter_map(|word| {
        let count = jobs.iter().filter(|job| job.verdict.word == word).count();
        (count > 0).then(|| format!("{count} {}", word.as_str()))
    });
    counts.collect::<Vec<_>>().join(", ")
}

fn of_all(report: &UsageReport) -> String {
    let serious = report.findings.iter().filter(|one| one.severity > FindingSeverity::Low);
    let broken = serious.clone().filter(|one| one.kind.is_broken());
    let broken: BTreeSet<&str> = broken.flat_map(|one| &one.devices).map(String::as_str).collect();
    let about = |kinds: fn(FindingKind) -> bool| {
        let fitting = serious.clone().filter(move |finding| kinds(finding.kind));
        // Of a device that is broken, it is said already.
        first_and_more(fitting.filter(|finding| {
            let is_known = finding.devices.iter().all(|device| broken.contains(&**device));
            finding.kind.is_broken() || finding.devices.is_empty() || !is_known
        }))
    };
    let broken = about(FindingKind::is_broken).map(|text| format!("Broken: {text}."));
    let hindered = about(FindingKind::is_hindrance).map(|text| format!("Hindered: {text}."));
    let wasted = about(FindingKind::is_waste).map(|text| format!("Wasted: {text}."));
    let unseen = about(FindingKind::is_gap).map(|text| format!("Not seen: {text}."));
    let sentences: Vec<String> = [broken, hindered, wasted, unseen].into_iter().flatten().collect();
    if !sentences.is_empty() {
        return sentences.join(" ");
    }
    let used = use_text(&report.held, &report.jobs);
    let users = counted(report.users.len(), "user");
    let use_of_all =
        if report.users.is_empty() { String::new() } else { format!(": {users} {used}") };
    match report.totals.coverage_percent() {
        Some(seen) if seen < MIN_COVERAGE => {
            format!("Nothing wrong was seen, but only {seen:.0} % was seen{use_of_all}.")
        }
        _ if report.findings.is_empty() => format!("Nothing is wrong{use_of_all}."),
        _ => format!("Nothing serious is wrong{use_of_all}."),
    }
}

/// Returns the first finding, and how many more there are.
fn first_and_more<'a>(mut findings: impl Iterator<Item = &'a ReportFinding>) -> Option<String> {
    let first = &findings.next()?.text;
    Some(match findings.count() {
        0 => first.clone(),
        more => format!("{first}; and {}", counted(more, "other finding")),
    })
}

impl UsageReport {
    /// Returns the part of the totals that nobody held.
    pub fn unheld(&self) -> UsageSummary {
        // Sums of equal numbers may differ in the last digits.
        let rest = |all: f64, held: f64| Some(all - held).filter(|rest| *rest > all * 1e-6);
        let rest = |all: f64, held: f64| rest(all, held).unwrap_or_default();
        let (all, held) = (&self.totals, &self.held);
        let mut states = all.states;
        for (seconds, held) in states.iter_mut().zip(held.states) {
            *seconds = rest(*seconds, held);
        }
        UsageSummary {
            watched_seconds: rest(all.watched_seconds, held.watched_seconds),
            states,
            energy_kwh: all.energy_kwh.map(|energy| rest(energy, held.energy_kwh.unwrap_or(0.0))),
            ..UsageSummary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ReportCriteria, ReportFilter};
    use gtop_fleet::usage::STATES;

    fn summary(states: [f64; STATES]) -> UsageSummary {
        let watched_seconds = states.iter().sum();
        UsageSummary { watched_seconds, states, ..UsageSummary::default() }
    }

    fn report(findings: &[(FindingKind, &str, f64)]) -> UsageReport {
        let findings = findings.iter().map(|(kind, text, seconds)| {
            ReportFinding::new(*kind, (*text).to_owned(), "", *seconds)
        });
        let mut report = UsageReport {
            totals: summary([3600.0, 0.0, 3600.0, 0.0, 0.0]),
            held: summary([3600.0, 0.0, 0.0, 0.0, 0.0]),
            findings: findings.collect(),
            ..UsageReport::default()
        };
        report.judge(ReportCriteria::default());
        report
    }

    #[test]
    fn what_is_broken_comes_before_what_is_wasted() {
        let waste = (FindingKind::IdleHeld, "ada wasted", 900.0);
        let lost = (FindingKind::Faulty, "gpu1 #0 was lost", 1.0);
        let uneven = (FindingKind::Imbalance, "gpu1 #1 did less", 900.0);
        for (findings, expected) in [
            (&[waste, lost][..], "Broken: gpu1 #0 was lost. Wasted: ada wasted."),
            (&[lost, lost, lost], "Broken: gpu1 #0 was lost; and 2 other findings."),
            (&[uneven], "Hindered: gpu1 #1 did less."),
            (&[(FindingKind::IdleHeld, "little", 1.0)], "Nothing serious is wrong."),
            (&[], "Nothing is wrong."),
        ] {
            assert_eq!(report(findings).headline, expected);
        }
    }

    #[test]
    fn what_a_broken_device_reports_is_not_said_twice() {
        let found = |kind, text: &str, device: &str| ReportFinding {
            devices: vec![device.to_owned()],
            ..ReportFinding::new(kind, text.to_owned(), "", 900.0)
        };
        let findings = vec![
            found(FindingKind::Faulty, "gpu1 #0 was lost", "gpu1 #0"),
            found(FindingKind::Degraded, "gpu1 #0 was slow", "gpu1 #0"),
            found(FindingKind::Degraded, "gpu1 #1 was slow", "gpu1 #1"),
        ];
        let mut report = UsageReport { findings, ..report(&[]) };
        report.judge(ReportCriteria::default());
        assert_eq!(report.headline, "Broken: gpu1 #0 was lost. Hindered: gpu1 #1 was slow.");
    }

    #[test]
    fn what_was_not_seen_is_not_said_to_be_right() {
        let mut report = report(&[]);
        report.totals.watched_seconds *= 4.0;
        report.judge(ReportCriteria::default());
        assert_eq!(report.headline, "Nothing wrong was seen, but only 25 % was seen.");
        report.kind = "rntop-log";
        report.judge(ReportCriteria::default());
        assert_eq!(report.headline, "A log of rntop does not show faults, users or jobs.");
        report.totals = summary([0.0; STATES]);
        report.judge(ReportCriteria::default());
        assert_eq!(report.headline, "Nothing is known: no device was seen.");
    }

    #[test]
    fn a_report_of_a_job_is_about_the_job() {
        let mut report = report(&[]);
        report.filter = ReportFilter { jobs: vec!["17".to_owned()], ..ReportFilter::default() };
        report.is_of_holders = true;
        report.jobs =
            vec![JobReport { id: "17".into(), user: "ada".into(), ..JobReport::default() }];
        report.judge(ReportCriteria::default());
        assert_eq!(report.headline, "Job 17 of ada: not judged, it had devices for 0s only.");
    }

    #[test]
    fn what_nobody_held_is_the_rest() {
        let report = report(&[]);
        let unheld = report.unheld();
        assert_eq!(unheld.states.map(f64::to_bits), [0.0, 0.0, 3600.0, 0.0, 0.0].map(f64::to_bits));
        assert_eq!((unheld.watched_seconds, unheld.energy_kwh), (3600.0, None));
    }
}
