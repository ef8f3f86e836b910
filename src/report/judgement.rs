//! Judges a report: a verdict on each job, costs, and findings, the worst first.

use crate::report::findings::{MIN_IDLE_SHARE, MIN_SECONDS, device_time};
use crate::report::headline::headline;
use crate::report::verdict::judge;
use crate::report::{
    FindingKind, FindingSeverity, JobDevice, JobReport, JobVerdict, ReportCriteria, ReportFinding,
    UsageReport, VerdictWord,
};
use gtop_fleet::{LastState, advice};

/// Findings of a report.
const MAX_FINDINGS: usize = 60;
/// Percentage points below the median of a job from which a device is uneven.
const UNEVEN_POINTS: f64 = 20.0;
/// A job whose median is lower is idle rather than uneven.
const MIN_MEDIAN: f64 = 30.0;
/// Device-hours from which time without a node, or with a device that is not sound, matters more.
const GRAVE_HOURS: f64 = 1.0;
/// Device-hours from which waste can be of high severity.
const WASTED_HOURS: f64 = 8.0;

impl UsageReport {
    /// Judges by these criteria, instead of those before.
    pub fn judge(&mut self, criteria: ReportCriteria) {
        self.findings.retain(|finding| finding.job.is_none());
        for job in &mut self.jobs {
            job.verdict = judge(job, &criteria);
            job.cost = job.model_time.cost(&criteria.prices);
            self.findings.extend(waste(job));
            self.findings.extend(uneven(job));
        }
        for user in &mut self.users {
            user.cost = user.model_time.cost(&criteria.prices);
        }
        let all: f64 = self.totals.states.iter().sum();
        for finding in &mut self.findings {
            finding.severity = finding.severity.max(severity(finding, all));
        }
        self.findings.sort_by(|one, other| {
            let by_severity = other.severity.cmp(&one.severity);
            let by_kind = || one.kind.rank().cmp(&other.kind.rank());
            let by_time = || other.device_seconds.total_cmp(&one.device_seconds);
            by_severity.then_with(by_kind).then_with(by_time)
        });
        self.findings.truncate(MAX_FINDINGS);
        self.criteria = criteria;
        self.headline = headline(self);
    }
}

impl FindingKind {
    /// Returns how much harm its kind does to people, the worst first.
    const fn rank(self) -> u8 {
        match self {
            Self::Faulty => 0,
            Self::Down | Self::Driver => 1,
            Self::Degraded | Self::Throttled | Self::Errors => 2,
            Self::Unused | Self::PartlyUsed | Self::LowLoad | Self::IdleHeld => 3,
            Self::Uneven => 4,
            Self::NotSeen => 5,
        }
    }

    /// Returns true if a node or a device could not be used.
    pub(super) const fn is_broken(self) -> bool {
        self.rank() <= Self::Driver.rank()
    }

    /// Returns true if a device works, and hinders who uses it.
    pub(super) const fn is_hindrance(self) -> bool {
        self.rank() == Self::Errors.rank() || matches!(self, Self::Uneven)
    }

    /// Returns true if a node should have been seen.
    pub(super) const fn is_gap(self) -> bool {
        matches!(self, Self::NotSeen)
    }

    /// Returns true if devices were held in vain.
    pub(super) const fn is_waste(self) -> bool {
        self.rank() == Self::IdleHeld.rank()
    }
}

/// Returns how much a finding matters; `all` is the device-time in which anything was known.
fn severity(finding: &ReportFinding, all: f64) -> FindingSeverity {
    let share = finding.device_seconds / all.max(1.0);
    let hours = finding.device_seconds / 3600.0;
    let (is_high, is_medium) = match finding.kind {
        FindingKind::Faulty => (true, true),
        FindingKind::Down | FindingKind::Driver => (share >= 0.05 || hours >= GRAVE_HOURS, true),
        FindingKind::Degraded => (false, finding.device_seconds >= MIN_SECONDS),
        FindingKind::Throttled => (false, share >= 0.01 || hours >= GRAVE_HOURS),
        // Which error it is decides.
        FindingKind::Errors => (false, false),
        FindingKind::Unused
        | FindingKind::PartlyUsed
        | FindingKind::LowLoad
        | FindingKind::IdleHeld => (share >= 0.05 && hours >= WASTED_HOURS, share >= 0.01),
        FindingKind::Uneven => (false, share >= 0.01),
        FindingKind::NotSeen => (false, share >= 0.05),
    };
    match (is_high, is_medium) {
        (true, _) => FindingSeverity::High,
        (false, true) => FindingSeverity::Medium,
        (false, false) => FindingSeverity::Low,
    }
}

/// Finds that a job held devices in vain.
fn waste(job: &JobReport) -> Option<ReportFinding> {
    let idle = job.state_seconds(LastState::IdleHeld);
    let held: f64 = job.summary.states.iter().sum();
    let JobVerdict { word, sentence, remedy, .. } = &job.verdict;
    let unused_load = 1.0 - job.summary.utilization.unwrap_or_default() / 100.0;
    let (kind, wasted) = match word {
        VerdictWord::Unused => (FindingKind::Unused, idle),
        VerdictWord::PartlyUsed => (FindingKind::PartlyUsed, idle),
        VerdictWord::LowLoad => (FindingKind::LowLoad, job.load_seconds * unused_load),
        VerdictWord::NotJudged | VerdictWord::HeldBack | VerdictWord::Fair | VerdictWord::Good => {
            (FindingKind::IdleHeld, idle)
        }
    };
    let is_idle = kind == FindingKind::IdleHeld;
    if is_idle && (idle < MIN_SECONDS || idle < held * MIN_IDLE_SHARE) {
        return None;
    }
    let of = device_time(held);
    let (what, remedy) = if is_idle {
        let text = format!(" held devices that did nothing for {}, of {of}", device_time(idle));
        (text, advice::device::IDLE_JOB)
    } else {
        (format!(", {of}: {sentence}"), remedy.as_str())
    };
    let JobReport { id, user, .. } = job;
    let text = format!("job {}{what}", job.title());
    let finding = ReportFinding::new(kind, text, remedy, wasted);
    Some(ReportFinding { job: Some(id.clone()), user: Some(user.clone()), ..finding })
}

/// Finds devices that did less than the others of their job; of those that did nothing, the verdict tells.
fn uneven(job: &JobReport) -> Option<ReportFinding> {
    let mut known: Vec<f64> = job.each_device.iter().filter_map(|device| device.load).collect();
    known.sort_by(f64::total_cmp);
    let median = *known.get(known.len() / 2).filter(|_| known.len() > 2)?;
    let longest = job.each_device.iter().map(|device| device.seconds).fold(0.0, f64::max);
    let low: Vec<(&JobDevice, f64)> = job
        .each_device
        .iter()
        .filter(|device| device.seconds >= MIN_SECONDS.max(longest / 2.0) && !device.is_unused())
        .filter_map(|device| Some((device, device.load?)))
        .filter(|(_, load)| *load < median - UNEVEN_POINTS && median >= MIN_MEDIAN)
        .collect();
    let (first, lowest) = *low.iter().min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let id = &job.id;
    let others = format!("its other devices {median:.0} %");
    let text = match low.len() {
        1 => format!("{} of job {id} was used {lowest:.0} %, {others}", first.name()),
        count => {
            format!("{count} devices of job {id} were used as little as {lowest:.0} %, {others}")
        }
    };
    let lost = low.iter().map(|(device, load)| device.seconds * (median - load) / 100.0).sum();
    let mut nodes: Vec<String> = low.iter().map(|(device, _)| device.node.clone()).collect();
    nodes.dedup();
    Some(ReportFinding {
        nodes,
        device: if low.len() == 1 { first.index } else { None },
        devices: low.iter().map(|(device, _)| device.name()).collect(),
        job: Some(id.clone()),
        user: Some(job.user.clone()),
        ..ReportFinding::new(FindingKind::Uneven, text, advice::device::UNEVEN, lost)
    })
}

impl ReportFinding {
    pub(super) fn new(kind: FindingKind, text: String, remedy: &str, device_seconds: f64) -> Self {
        Self {
            kind,
            severity: FindingSeverity::Low,
            text,
            nodes: Vec::new(),
            device: None,
            devices: Vec::new(),
            job: None,
            user: None,
            device_seconds,
            remedy: remedy.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_decide_how_much_a_finding_matters_and_waste_by_its_hours() {
        let [low, medium, high] =
            [FindingSeverity::Low, FindingSeverity::Medium, FindingSeverity::High];
        for (kind, hours, all_hours, expected) in [
            (FindingKind::Faulty, 0.01, 1e6, high),
            (FindingKind::Down, 0.5, 1e6, medium),
            (FindingKind::Driver, 1.0, 1e6, high),
            (FindingKind::Throttled, 0.5, 1e6, low),
            (FindingKind::Degraded, 0.1, 1e6, medium),
            (FindingKind::Degraded, 0.01, 1e6, low),
            (FindingKind::Unused, 7.9, 10.0, medium),
            (FindingKind::LowLoad, 8.0, 10.0, high),
            (FindingKind::IdleHeld, 80.0, 1e6, low),
            (FindingKind::Uneven, 9.0, 10.0, medium),
            (FindingKind::NotSeen, 9.0, 10.0, medium),
            (FindingKind::Errors, 0.0, 1.0, low),
        ] {
            let finding = ReportFinding::new(kind, String::new(), "", hours * 3600.0);
            assert_eq!(severity(&finding, all_hours * 3600.0), expected, "{kind:?} {hours}");
        }
    }

    #[test]
    fn judging_again_changes_the_limit_and_adds_nothing() {
        let mut report = UsageReport {
            findings: vec![ReportFinding::new(FindingKind::Faulty, String::new(), "", 1.0)],
            jobs: vec![JobReport::default()],
            ..UsageReport::default()
        };
        for low_percent in [15.0, 15.0, 60.0] {
            report.judge(ReportCriteria { low_percent, ..ReportCriteria::default() });
            assert_eq!((report.findings.len(), report.criteria.low_percent), (1, low_percent));
        }
    }
}
