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
/// A device of a job that does less than this share of what the others do, on average, lags behind.
const IMBALANCE_SHARE: f64 = 0.5;
/// In a job whose others do less, in percent, it does not matter.
const MIN_LOAD_OF_OTHERS: f64 = 10.0;
/// Mean load in percent within which a job may wait for its CPUs, the share of the time in which its devices do nothing, and the
/// share of its CPUs that are busy meanwhile.
const STARVED_LOAD: std::ops::Range<f64> = 10.0..70.0;
const MIN_STARVED_SHARE: f64 = 0.2;
const MIN_BUSY_CPUS: f64 = 0.9;
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
            let starved = starved(job);
            // A device that waits is idle: one cause, one finding.
            let is_told =
                |waste: &ReportFinding| starved.is_none() || waste.kind != FindingKind::IdleHeld;
            self.findings.extend(waste(job).filter(is_told));
            self.findings.extend(imbalance(job));
            self.findings.extend(starved);
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
            Self::Down | Self::HungDriver => 1,
            Self::Degraded | Self::Throttled | Self::Errors => 2,
            Self::Unlaunched
            | Self::HeldCold
            | Self::HeldWarm
            | Self::Unused
            | Self::PartlyUsed
            | Self::LowLoad
            | Self::IdleHeld => 3,
            Self::Imbalance | Self::Starved => 4,
            Self::NotSeen => 5,
        }
    }

    /// Returns true if a node or a device could not be used.
    pub(super) const fn is_broken(self) -> bool {
        self.rank() <= Self::HungDriver.rank()
    }

    /// Returns true if a device works, and hinders who uses it.
    pub(super) const fn is_hindrance(self) -> bool {
        self.rank() == Self::Errors.rank() || self.rank() == Self::Imbalance.rank()
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
        FindingKind::Down | FindingKind::HungDriver => {
            (share >= 0.05 || hours >= GRAVE_HOURS, true)
        }
        FindingKind::Degraded => (false, finding.device_seconds >= MIN_SECONDS),
        FindingKind::Throttled => (false, share >= 0.01 || hours >= GRAVE_HOURS),
        // Which error it is decides.
        FindingKind::Errors => (false, false),
        FindingKind::Unlaunched
        | FindingKind::HeldCold
        | FindingKind::HeldWarm
        | FindingKind::Unused
        | FindingKind::PartlyUsed
        | FindingKind::LowLoad
        | FindingKind::IdleHeld => (share >= 0.05 && hours >= WASTED_HOURS, share >= 0.01),
        FindingKind::Imbalance | FindingKind::Starved => (false, share >= 0.01),
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
        VerdictWord::Unlaunched => (FindingKind::Unlaunched, held),
        VerdictWord::HeldCold => (FindingKind::HeldCold, idle),
        VerdictWord::HeldWarm => (FindingKind::HeldWarm, idle),
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
        let when = job.longest_idle.text().map(|when| format!("; {when}"));
        let (idle, when) = (device_time(idle), when.unwrap_or_default());
        let text = format!(" held devices that did nothing for {idle}, of {of}{when}");
        (text, advice::device::IDLE_JOB)
    } else {
        (format!(", {of}: {sentence}"), remedy.as_str())
    };
    let JobReport { id, user, .. } = job;
    let text = format!("job {}{what}", job.title());
    let finding = ReportFinding::new(kind, text, remedy, wasted);
    Some(ReportFinding { job: Some(id.clone()), user: Some(user.clone()), ..finding })
}

/// Finds devices that did less than half of what the others of their job did; of those that did nothing, the verdict tells.
fn imbalance(job: &JobReport) -> Option<ReportFinding> {
    let known = job.each_device.iter().filter_map(|device| Some((device, device.load?)));
    let seconds: f64 = known.clone().map(|(device, _)| device.seconds).sum();
    let sum: f64 = known.clone().map(|(device, load)| load * device.seconds).sum();
    let longest = known.clone().map(|(device, _)| device.seconds).fold(0.0, f64::max);
    let low: Vec<(&JobDevice, f64, f64)> = known
        .filter(|(device, _)| device.seconds >= MIN_SECONDS.max(longest / 2.0))
        .filter(|(device, _)| !device.is_unused())
        .map(|(device, load)| {
            let others = (sum - load * device.seconds) / (seconds - device.seconds).max(1.0);
            (device, load, others)
        })
        .filter(|(_, load, others)| {
            *others >= MIN_LOAD_OF_OTHERS && *load < others * IMBALANCE_SHARE
        })
        .collect();
    let (first, lowest, others) = *low.iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let id = &job.id;
    let others = format!("its other devices {others:.0} %");
    let text = match low.len() {
        1 => format!("{} of job {id} was used {lowest:.0} %, {others}", first.name()),
        count => {
            format!("{count} devices of job {id} were used as little as {lowest:.0} %, {others}")
        }
    };
    let lost = low.iter().map(|(device, load, others)| device.seconds * (others - load) / 100.0);
    let mut nodes: Vec<String> = low.iter().map(|(device, ..)| device.node.clone()).collect();
    nodes.dedup();
    let lost = lost.sum();
    Some(ReportFinding {
        nodes,
        device: if low.len() == 1 { first.index } else { None },
        devices: low.iter().map(|(device, ..)| device.name()).collect(),
        job: Some(id.clone()),
        user: Some(job.user.clone()),
        ..ReportFinding::new(FindingKind::Imbalance, text, advice::device::IMBALANCE, lost)
    })
}

/// Finds that the devices of a job often did nothing while nearly all of its CPUs were busy.
fn starved(job: &JobReport) -> Option<ReportFinding> {
    let load = job.summary.utilization.filter(|load| STARVED_LOAD.contains(load))?;
    let idle = job.state_seconds(LastState::IdleHeld);
    let (cpus, used) = (f64::from(job.host.cpus?), job.host.cpus_used?);
    if idle < MIN_SECONDS.max(job.load_seconds * MIN_STARVED_SHARE) || used < cpus * MIN_BUSY_CPUS {
        return None;
    }
    let text = format!(
        "job {} likely waited for its CPUs: its devices did nothing for {}, at a mean load of {load:.0} %, while {used:.1} of its {cpus} CPUs were busy",
        job.title(),
        device_time(idle)
    );
    Some(ReportFinding {
        nodes: job.nodes.clone(),
        job: Some(job.id.clone()),
        user: Some(job.user.clone()),
        ..ReportFinding::new(FindingKind::Starved, text, advice::device::STARVED, idle)
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
            (FindingKind::HungDriver, 1.0, 1e6, high),
            (FindingKind::Throttled, 0.5, 1e6, low),
            (FindingKind::Degraded, 0.1, 1e6, medium),
            (FindingKind::Degraded, 0.01, 1e6, low),
            (FindingKind::Unused, 7.9, 10.0, medium),
            (FindingKind::LowLoad, 8.0, 10.0, high),
            (FindingKind::IdleHeld, 80.0, 1e6, low),
            (FindingKind::Imbalance, 9.0, 10.0, medium),
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
