//! How well a job used its devices: a word, a number, what would have been enough, and what to do.

use std::time::Duration;

use gtop_local::text::counted;
use gtop_local::time::format_duration;

use crate::report::idle_job::{
    MIN_HELD_IDLE, MIN_UNLAUNCHED, is_unlaunched, partly_used, word_of_idle,
};
use crate::report::prices::DevicePrice;
use crate::report::{JobDevice, JobReport, VerdictWord};
use gtop_fleet::{ACTIVE_PERCENT, Certainty, LastState, advice};

/// Share of its time that must be seen, and of which the load must be known.
const MIN_SEEN: f64 = 0.5;
/// Share of its time of which the load must be known for a verdict that is certain.
const CERTAIN_KNOWN: f64 = 0.9;
/// Seconds in which a device of the job was faulty or slowed down, and share of the time of a device, from which it held the job back.
const MIN_HELD_BACK_SECONDS: f64 = 60.0;
const MIN_HELD_BACK_SHARE: f64 = 0.05;
/// A load in percent, and a share of the memory in percent, that one device takes well.
const FULL_LOAD_PERCENT: f64 = 80.0;
const FULL_MEMORY_PERCENT: f64 = 90.0;
/// The smallest parts into which devices are divided.
const PARTS_OF_DEVICE: [u32; 3] = [8, 4, 2];
/// Devices that a sentence names.
const MAX_NAMED_DEVICES: usize = 3;

impl VerdictWord {
    /// Returns when it applies.
    pub fn definition(self, criteria: &ReportCriteria) -> String {
        let ReportCriteria { low_percent, good_percent, min_held, .. } = criteria;
        match self {
            Self::NotJudged => format!(
                "it had devices for less than {}, or less than half of its device-time was seen, or the load was known for less than half of it",
                format_duration(*min_held)
            ),
            Self::HeldBack => format!(
                "one of its devices was faulty or slowed down for a minute or more, and for {:.0} % of the time of a device or more",
                MIN_HELD_BACK_SHARE * 100.0
            ),
            Self::Unlaunched => format!(
                "no process was on any of its devices, for {} minutes or more",
                MIN_UNLAUNCHED.as_secs() / 60
            ),
            Self::HeldCold => format!(
                "processes were on its devices, whose load was 0 in all samples, for {} minutes or more",
                MIN_HELD_IDLE.as_secs() / 60
            ),
            Self::HeldWarm => format!(
                "processes were on its devices, none of which was ever active ({ACTIVE_PERCENT} % or more), for {} minutes or more",
                MIN_HELD_IDLE.as_secs() / 60
            ),
            Self::Unused => "none of its devices was ever active; it was shorter than that, or whether processes were on them is not known".to_owned(),
            Self::PartlyUsed => {
                "some of its devices were never active while others were".to_owned()
            }
            Self::LowLoad => format!("its efficiency is below {low_percent} %"),
            Self::Fair => format!("its efficiency is below {good_percent} %"),
            Self::Good => format!("its efficiency is {good_percent} % or more"),
        }
    }
}

/// By what a report judges.
#[derive(Clone, Debug)]
pub struct ReportCriteria {
    /// A lower mean load is low, in percent.
    pub low_percent: f64,
    /// A mean load from which on it is good, in percent.
    pub good_percent: f64,
    /// A job that had devices for a shorter time is not judged.
    pub min_held: Duration,
    /// Prices of device-hours; empty if none are given.
    pub prices: Vec<DevicePrice>,
}

impl Default for ReportCriteria {
    fn default() -> Self {
        Self {
            low_percent: 15.0,
            good_percent: 50.0,
            min_held: Duration::from_secs(300),
            prices: Vec::new(),
        }
    }
}

impl ReportCriteria {
    /// Returns them in words.
    pub fn text(&self) -> String {
        let prices: Vec<String> = self.prices.iter().map(ToString::to_string).collect();
        let limits = format!(
            "low load below {} %, good from {} %, not judged below {}",
            self.low_percent,
            self.good_percent,
            format_duration(self.min_held)
        );
        match prices.len() {
            0 => limits,
            _ => format!("{limits}, prices of a device-hour {}", prices.join(", ")),
        }
    }
}

/// What a report thinks of a job.
#[derive(Clone, Debug, Default)]
pub struct JobVerdict {
    /// The judgement.
    pub word: VerdictWord,
    /// Why, without the name of the job.
    pub sentence: String,
    /// The mean load of its devices in percent, over the time in which it had them and they were seen.
    pub efficiency: Option<f64>,
    /// What would have been enough, if it had more.
    pub enough: Option<EnoughDevices>,
    /// What to do; empty if nothing.
    pub remedy: String,
    /// How sure it is.
    pub certainty: Certainty,
}

/// Fewer devices, or a part of one, that would have been enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnoughDevices {
    /// Devices.
    pub devices: usize,
    /// Of how many equal parts of a device one is enough; 1 for whole devices.
    pub parts: u32,
    /// Only the devices that were active show certainly what is enough.
    pub certainty: Certainty,
}

impl EnoughDevices {
    /// Returns it in words: `4 devices`, `likely a quarter of a device`.
    pub fn text(self) -> String {
        let what = match self.parts {
            8 => "an eighth of a device".to_owned(),
            4 => "a quarter of a device".to_owned(),
            2 => "half a device".to_owned(),
            _ if self.devices == 0 => "no device".to_owned(),
            _ => counted(self.devices, "device"),
        };
        if self.certainty == Certainty::Certain { what } else { format!("likely {what}") }
    }
}

/// Judges a job.
pub(super) fn judge(job: &JobReport, criteria: &ReportCriteria) -> JobVerdict {
    let (word, sentence, remedy) = word_of(job, criteria);
    JobVerdict {
        word,
        sentence,
        efficiency: job.summary.utilization,
        enough: enough(job, word),
        remedy,
        certainty: certainty(job, word),
    }
}

/// Returns the first word that fits, why, and what to do.
fn word_of(job: &JobReport, criteria: &ReportCriteria) -> (VerdictWord, String, String) {
    if let Some(reason) = too_little(job, criteria.min_held) {
        return (VerdictWord::NotJudged, reason, String::new());
    }
    if let Some((reason, remedy)) = hindrance(job) {
        return (VerdictWord::HeldBack, reason, remedy);
    }
    if job.state_seconds(LastState::Busy) <= 0.0 {
        let (word, sentence, remedy) = word_of_idle(job);
        return (word, sentence, remedy.to_owned());
    }
    if let Some((text, _)) = partly_used(job) {
        return (VerdictWord::PartlyUsed, text, advice::device::IDLE_JOB.to_owned());
    }
    let load = job.summary.utilization.unwrap_or_default();
    let text = format!("mean load {load:.1} % on {}", counted(job.devices, "device"));
    let (word, remedy) = match load {
        load if load < criteria.low_percent => (VerdictWord::LowLoad, advice::device::LOW_LOAD),
        load if load < criteria.good_percent => (VerdictWord::Fair, ""),
        _ => (VerdictWord::Good, ""),
    };
    (word, text, remedy.to_owned())
}

/// Returns why a job cannot be judged.
fn too_little(job: &JobReport, min_held: Duration) -> Option<String> {
    let span = job.to.since(job.from);
    if span < min_held {
        return Some(format!("it had devices for {} only", format_duration(span)));
    }
    let seen = job.seen_seconds();
    let percent = |part: f64, all: f64| (part / all.max(1.0) * 100.0).floor();
    if seen < job.summary.watched_seconds * MIN_SEEN {
        let share = percent(seen, job.summary.watched_seconds);
        return Some(format!("only {share:.0} % of its device-time was seen"));
    }
    // That nothing ran on its devices is known without their load.
    if is_unlaunched(job) {
        return None;
    }
    // What a faulty device does is not known; that it is faulty is.
    let sound = seen - job.state_seconds(LastState::Faulty);
    if job.load_seconds < sound * MIN_SEEN {
        return Some(match job.load_seconds {
            none if none <= 0.0 => "its devices report no load".to_owned(),
            known => {
                format!("its load is known for {:.0} % of its time only", percent(known, seen))
            }
        });
    }
    None
}

/// Returns what held a job back, and what to do.
fn hindrance(job: &JobReport) -> Option<(String, String)> {
    let of_device = job.summary.watched_seconds
        / f64::from(u32::try_from(job.devices.max(1)).unwrap_or(u32::MAX));
    let least = MIN_HELD_BACK_SECONDS.max(of_device * MIN_HELD_BACK_SHARE);
    let faulty = job.state_seconds(LastState::Faulty);
    if faulty >= least {
        let fault = job.each_device.iter().find_map(|device| device.fault.as_ref());
        let (why, remedy) = fault.cloned().unwrap_or_default();
        let why = if why.is_empty() { why } else { format!(": {why}") };
        let text = blame(job, "faulty", |device| device.faulty_seconds);
        return Some((format!("{text}{why}"), remedy));
    }
    (job.throttled_seconds >= least).then(|| {
        let text = blame(job, "slowed down", |device| device.throttled_seconds);
        (text, advice::device::THROTTLED.to_owned())
    })
}

/// Returns which devices were so under the job, and for how long; `of_device` is the time of a device.
fn blame(job: &JobReport, what: &str, of_device: fn(&JobDevice) -> f64) -> String {
    let devices: Vec<&JobDevice> =
        job.each_device.iter().filter(|device| of_device(device) > 0.0).collect();
    let names = devices.iter().take(MAX_NAMED_DEVICES).map(|device| device.name());
    let names = names.collect::<Vec<_>>().join(", ");
    let others = match devices.len().saturating_sub(MAX_NAMED_DEVICES) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let seconds: f64 = devices.iter().map(|device| of_device(device)).sum();
    let span = format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    match devices.len() {
        1 => format!("{names} was {what} for {span}"),
        _ => format!("{names}{others} were {what}, {span} in sum"),
    }
}

/// Returns what would have been enough.
fn enough(job: &JobReport, word: VerdictWord) -> Option<EnoughDevices> {
    let whole = |devices, certainty| EnoughDevices { devices, parts: 1, certainty };
    match word {
        VerdictWord::Unlaunched | VerdictWord::HeldCold | VerdictWord::Unused => {
            Some(whole(0, Certainty::Certain))
        }
        VerdictWord::PartlyUsed => {
            partly_used(job).map(|(_, devices)| whole(devices, Certainty::Certain))
        }
        VerdictWord::HeldWarm | VerdictWord::LowLoad if job.devices == 1 => part_of_device(job),
        VerdictWord::HeldWarm | VerdictWord::LowLoad => {
            let devices = devices_by_load(job)?;
            (devices < job.devices).then_some(whole(devices, Certainty::Likely))
        }
        VerdictWord::NotJudged | VerdictWord::HeldBack | VerdictWord::Fair | VerdictWord::Good => {
            None
        }
    }
}

/// Returns how many devices could likely do the same: as many as its load and its memory need.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a small number of devices"
)]
fn devices_by_load(job: &JobReport) -> Option<usize> {
    let count = job.devices as f64;
    let of_load = job.summary.utilization? / FULL_LOAD_PERCENT;
    let of_memory = f64::from(job.summary.max_memory_percent?) / FULL_MEMORY_PERCENT;
    Some((count * of_load.max(of_memory)).ceil().max(1.0) as usize)
}

/// Returns the smallest part of a device in which its load and its memory fit.
fn part_of_device(job: &JobReport) -> Option<EnoughDevices> {
    let [_, p95] = job.summary.percentiles;
    let most = f64::from(job.summary.max_memory_percent?).max(f64::from(p95?));
    let parts = PARTS_OF_DEVICE
        .into_iter()
        .find(|parts| most <= FULL_MEMORY_PERCENT / f64::from(*parts))?;
    Some(EnoughDevices { devices: 1, parts, certainty: Certainty::Likely })
}

/// Returns how sure a verdict is: nearly all is known, and the devices were certainly those of the job.
fn certainty(job: &JobReport, word: VerdictWord) -> Certainty {
    let known = if word == VerdictWord::Unlaunched {
        job.empty_seconds
    } else {
        job.load_seconds + job.state_seconds(LastState::Faulty)
    };
    let is_known = known >= job.summary.watched_seconds * CERTAIN_KNOWN;
    if word == VerdictWord::NotJudged {
        Certainty::Unknown
    } else if is_known && job.unsure_seconds <= 0.0 {
        Certainty::Certain
    } else {
        Certainty::Likely
    }
}

impl JobReport {
    /// Returns its id, its name and its user: `17 train of ada`.
    pub fn title(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!(" {}", self.name) };
        format!("{}{name} of {}", self.id, self.user)
    }

    /// Returns the device-time in a state, in seconds.
    pub fn state_seconds(&self, state: LastState) -> f64 {
        self.summary.states.get(state as usize).copied().unwrap_or_default()
    }

    /// Returns the device-time in which anything was known, in seconds.
    fn seen_seconds(&self) -> f64 {
        self.summary.states.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::UsageSummary;
    use gtop_local::time::Timestamp;

    const HOUR: f64 = 3600.0;

    /// Returns a job that had devices with these loads for an hour.
    fn job(loads: &[Option<f64>]) -> JobReport {
        let known: Vec<f64> = loads.iter().flatten().copied().collect();
        let active = known.iter().filter(|load| **load > 0.0).count();
        let [all, active, seen] = [loads.len(), active, known.len()]
            .map(|count| f64::from(u16::try_from(count).unwrap()) * HOUR);
        let each_device = loads.iter().zip(0..).map(|(load, index)| JobDevice {
            node: "gpu1".to_owned(),
            index: Some(index),
            load: *load,
            active_seconds: load.map_or(0.0, |load| if load > 0.0 { HOUR } else { 0.0 }),
            seconds: load.map_or(0.0, |_| HOUR),
            ..JobDevice::default()
        });
        JobReport {
            id: "17".to_owned(),
            user: "ada".to_owned(),
            devices: loads.len(),
            to: Timestamp::default().plus(Duration::from_secs(3600)),
            load_seconds: seen,
            each_device: each_device.collect(),
            summary: UsageSummary {
                watched_seconds: all,
                states: [active, seen - active, 0.0, 0.0, all - seen],
                utilization: (seen > 0.0).then(|| known.iter().sum::<f64>() / seen * HOUR),
                percentiles: [Some(5), Some(9)],
                max_memory_percent: Some(10.0),
                ..UsageSummary::default()
            },
            ..JobReport::default()
        }
    }

    fn verdict(job: &JobReport) -> JobVerdict {
        judge(job, &ReportCriteria::default())
    }

    #[test]
    fn the_load_of_devices_decides_the_word() {
        for (loads, word, sentence, enough) in [
            (&[Some(90.0), Some(40.0)][..], VerdictWord::Good, "mean load 65.0 % on 2 devices", ""),
            (&[Some(49.9)], VerdictWord::Fair, "mean load 49.9 % on 1 device", ""),
            (&[Some(6.0)], VerdictWord::LowLoad, "mean load 6.0 % on 1 device", "likely an eighth"),
            (&[Some(14.0); 8], VerdictWord::LowLoad, "mean load 14.0 % on", "likely 2 devices"),
            (
                &[Some(90.0), Some(0.0)],
                VerdictWord::PartlyUsed,
                "1 of 2 devices was never active; 1 would",
                "1 device",
            ),
            (&[Some(0.0); 3], VerdictWord::Unused, "none of its 3 devices was", "no device"),
            (&[Some(0.0)], VerdictWord::Unused, "its device was never active", "no device"),
            (&[None; 3], VerdictWord::NotJudged, "its devices report no load", ""),
            (&[Some(9.0), None, None], VerdictWord::NotJudged, "its load is known for 33 %", ""),
        ] {
            let found = verdict(&job(loads));
            assert_eq!(found.word, word, "{found:?}");
            assert!(found.sentence.starts_with(sentence), "{found:?}");
            let text = found.enough.map_or_else(String::new, EnoughDevices::text);
            assert!(text.starts_with(enough) && text.is_empty() == enough.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn the_limits_are_those_of_the_criteria() {
        let judged = |low_percent, good_percent, minutes: u64| {
            let min_held = Duration::from_secs(minutes * 60);
            let of_site =
                ReportCriteria { low_percent, good_percent, min_held, ..ReportCriteria::default() };
            judge(&job(&[Some(40.0)]), &of_site).word
        };
        assert_eq!(judged(41.0, 50.0, 5), VerdictWord::LowLoad);
        assert_eq!(judged(40.0, 41.0, 5), VerdictWord::Fair);
        assert_eq!(judged(15.0, 40.0, 60), VerdictWord::Good);
        assert_eq!(judged(15.0, 40.0, 61), VerdictWord::NotJudged);
    }

    #[test]
    fn what_is_not_known_is_not_judged() {
        let short = JobReport {
            to: Timestamp::default().plus(Duration::from_secs(299)),
            ..job(&[Some(0.0)])
        };
        assert_eq!(verdict(&short).sentence, "it had devices for 4m59s only");
        let mut unseen = job(&[Some(90.0)]);
        unseen.summary.watched_seconds *= 3.0;
        assert_eq!(verdict(&unseen).sentence, "only 33 % of its device-time was seen");
        assert_eq!(verdict(&unseen).certainty, Certainty::Unknown);
    }

    #[test]
    fn a_verdict_is_certain_if_nearly_all_was_seen_of_devices_that_were_its_own() {
        let mut seen = job(&[Some(90.0)]);
        assert_eq!(verdict(&seen).certainty, Certainty::Certain);
        seen.summary.watched_seconds *= 1.2;
        assert_eq!(verdict(&seen).certainty, Certainty::Likely);
        let unknown = JobReport { load_seconds: 2000.0, ..job(&[Some(0.0)]) };
        assert_eq!(verdict(&unknown).certainty, Certainty::Likely);
        let unsure = JobReport { unsure_seconds: 60.0, ..job(&[Some(90.0)]) };
        assert_eq!(verdict(&unsure).certainty, Certainty::Likely);
    }

    #[test]
    fn a_device_that_is_not_sound_holds_a_job_back_whatever_else_it_did() {
        let mut faulty = job(&[Some(0.0), Some(90.0)]);
        faulty.summary.states[LastState::Faulty as usize] = 200.0;
        faulty.each_device[1].faulty_seconds = 200.0;
        faulty.each_device[1].fault = Some(("lost".to_owned(), "reboot".to_owned()));
        let found = verdict(&faulty);
        assert_eq!(found.word, VerdictWord::HeldBack);
        assert_eq!(
            (&*found.sentence, &*found.remedy),
            ("gpu1 #1 was faulty for 3m20s: lost", "reboot")
        );
        let mut slow = job(&[Some(90.0); 5]);
        slow.each_device.iter_mut().for_each(|device| device.throttled_seconds = 600.0);
        slow.throttled_seconds = 3000.0;
        let names = "gpu1 #0, gpu1 #1, gpu1 #2 and 2 more were slowed down, 50m00s in sum";
        assert_eq!(verdict(&slow).sentence, names);
    }
}
