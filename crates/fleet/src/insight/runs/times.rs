//! Elapsed, remaining and total times of a run, from its file and the time.

use std::time::Duration;

use crate::insight::runs::{RunTime, RunTimes};
use gtop_local::time::Timestamp;
use gtop_model::{Estimate, Progress};

/// Returns the times of a run that has ended at `end`, or goes on. Nothing is negative, and nothing is guessed: without
/// a total, or before the first batch, the remaining time is unknown. `seen_rate` are the batches per second by which
/// the run was seen to advance, which count if its file has no rate.
pub fn times(
    progress: &Progress,
    seen_rate: Option<f64>,
    end: Option<Timestamp>,
    now: Timestamp,
) -> RunTimes {
    let is_over = end.is_some();
    // A clock that was set back must not make a time negative.
    let until = end.unwrap_or(now);
    let [training_elapsed, validation_elapsed, epoch_elapsed] = [
        (progress.training_started_at, &progress.training),
        (progress.validation_started_at, &progress.validation),
        (progress.epoch_started_at, &progress.epoch_estimate),
    ]
    .map(|(start, estimate)| since(start, until).or_else(|| begun(estimate)));
    let phase = Phase::of(progress);
    let phase_elapsed = if phase.is_validation { validation_elapsed } else { training_elapsed };
    let rate = phase.rate(phase_elapsed).or(seen_rate).filter(|_| !is_over);
    let phase_left = rate.and_then(|rate| phase.left(rate));
    let [training_left, validation_left] =
        [(false, &progress.training), (true, &progress.validation)].map(|(is_validation, part)| {
            let counted = phase_left.filter(|_| phase.is_validation == is_validation);
            remaining_of(part).or(counted).filter(|_| !is_over)
        });
    let training = span(training_elapsed, training_left);
    let validation = span(validation_elapsed, validation_left);
    let epoch_left = epoch_remaining(progress, training_left, validation_left);
    let epoch = span(epoch_elapsed, epoch_left.filter(|_| !is_over));
    let run_elapsed = since(progress.started_at, until);
    let epoch_length = rate.and_then(|rate| phase.length(rate));
    let run_remaining = run_remaining(progress, &epoch, epoch_length).filter(|_| !is_over);
    RunTimes {
        run: RunTime {
            total: if is_over { run_elapsed } else { span(run_elapsed, run_remaining).total },
            ..span(run_elapsed, run_remaining)
        },
        epoch,
        training,
        validation,
        validation_mean: mean(&progress.validation.durations).and_then(seconds),
        rate,
    }
}

/// The phase of a run that is counted in batches.
struct Phase<'a> {
    is_validation: bool,
    /// Batches so far, and of how many.
    batch: Option<u64>,
    total: Option<u64>,
    estimate: &'a Estimate,
}

impl<'a> Phase<'a> {
    fn of(progress: &'a Progress) -> Self {
        if is_in(progress, "valid") {
            let (batch, total) = (progress.validation_batch, progress.total_validation_batches);
            return Self { is_validation: true, batch, total, estimate: &progress.validation };
        }
        let (batch, total) = (progress.batch, progress.total_batches);
        Self { is_validation: false, batch, total, estimate: &progress.training }
    }

    /// Returns the batches per second: those in the file, or the average.
    fn rate(&self, elapsed: Option<Duration>) -> Option<f64> {
        let told = self.estimate.rate.filter(|rate| *rate > 0.0 && rate.is_finite());
        told.or_else(|| {
            let elapsed = elapsed?.as_secs_f64();
            let batches = count(self.batch?)?;
            (elapsed > 0.0 && batches > 0.0).then(|| batches / elapsed)
        })
    }

    /// Returns how long the batches that are left take.
    fn left(&self, rate: f64) -> Option<Duration> {
        seconds(count(self.total?.checked_sub(self.batch?)?)? / rate)
    }

    /// Returns how long all its batches take.
    fn length(&self, rate: f64) -> Option<Duration> {
        seconds(count(self.total?)? / rate)
    }
}

fn since(start: Option<Timestamp>, until: Timestamp) -> Option<Duration> {
    start.filter(|start| *start <= until).map(|start| until.since(start))
}

fn count(number: u64) -> Option<f64> {
    u32::try_from(number).ok().map(f64::from)
}

fn span(elapsed: Option<Duration>, remaining: Option<Duration>) -> RunTime {
    let total =
        elapsed.zip(remaining).map(|(elapsed, remaining)| elapsed.saturating_add(remaining));
    RunTime { elapsed, remaining, total }
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// Returns the elapsed time in the file; zero means that the part has not begun.
fn begun(estimate: &Estimate) -> Option<Duration> {
    estimate.elapsed.filter(|elapsed| *elapsed > 0.0).and_then(seconds)
}

fn mean(durations: &[f64]) -> Option<f64> {
    let count = u32::try_from(durations.len()).ok().filter(|count| *count > 0)?;
    Some(durations.iter().sum::<f64>() / f64::from(count))
}

/// Returns what is left of a phase; at a rate of zero that is unknown, not nothing.
fn remaining_of(estimate: &Estimate) -> Option<Duration> {
    let is_told = estimate.rate.is_some_and(|rate| rate > 0.0)
        || estimate.total.is_some_and(|total| total > 0.0);
    estimate.remaining.filter(|_| is_told).and_then(seconds)
}

/// Returns true if a phase of this name runs.
fn is_in(progress: &Progress, name: &str) -> bool {
    progress.phase.as_deref().is_some_and(|phase| phase.contains(name))
}

/// Returns what is left of the epoch: of its phase, and of the validation that follows the training.
fn epoch_remaining(
    progress: &Progress,
    training: Option<Duration>,
    validation: Option<Duration>,
) -> Option<Duration> {
    if is_in(progress, "valid") {
        return validation;
    }
    if !is_in(progress, "train") && !is_in(progress, "batch") {
        return None;
    }
    let training = training?;
    // Without validations so far and without a ratio, there may be none.
    let ratio = progress.dataset_ratio.zip(progress.training.total);
    let validation = mean(&progress.validation.durations)
        .or_else(|| ratio.map(|(ratio, training)| ratio * training))
        .unwrap_or(0.0);
    Some(training.saturating_add(seconds(validation)?))
}

/// Returns what is left of the run: of this epoch, and all epochs behind it, each as long as the mean. The batches of a
/// run without epochs are those of the whole run.
fn run_remaining(
    progress: &Progress,
    epoch: &RunTime,
    epoch_length: Option<Duration>,
) -> Option<Duration> {
    if (progress.total_epochs, progress.epoch) == (None, None) {
        return epoch.remaining;
    }
    let (total, number) = (progress.total_epochs?, progress.epoch?);
    let behind = total.checked_sub(number.checked_add(1)?)?;
    let behind = u32::try_from(behind).ok()?;
    if behind == 0 {
        return epoch.remaining;
    }
    let length = mean(&progress.epoch_estimate.durations)
        .and_then(seconds)
        .or(epoch.total)
        .or(epoch_length)
        .filter(|length| !length.is_zero())?;
    // Between two phases, the epoch is as long as the others.
    let of_this =
        epoch.remaining.or_else(|| epoch.elapsed.map(|elapsed| length.saturating_sub(elapsed)))?;
    Some(of_this.saturating_add(length.saturating_mul(behind)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const START: i64 = 1_795_226_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros((START + second) * 1_000_000)
    }

    /// A run in the training of its second of ten epochs, at 2 batches per second.
    fn running() -> Progress {
        Progress {
            started_at: Some(at(0)),
            phase: Some("training".into()),
            epoch: Some(1),
            total_epochs: Some(10),
            batch: Some(20),
            total_batches: Some(100),
            epoch_started_at: Some(at(60)),
            training_started_at: Some(at(60)),
            training: Estimate {
                rate: Some(2.0),
                elapsed: Some(10.0),
                remaining: Some(40.0),
                total: Some(50.0),
                durations: Arc::new([50.0]),
            },
            validation: Estimate { durations: Arc::new([10.0]), ..Estimate::default() },
            epoch_estimate: Estimate { durations: Arc::new([60.0]), ..Estimate::default() },
            ..Progress::default()
        }
    }

    fn secs(duration: Option<Duration>) -> Option<u64> {
        duration.map(|duration| duration.as_secs())
    }

    #[test]
    fn what_is_left_counts_all_remaining_epochs() {
        let times = times(&running(), None, None, at(70));
        assert_eq!(secs(times.run.elapsed), Some(70));
        // 40 s of training, 10 s of validation, and 8 epochs of 60 s.
        assert_eq!(secs(times.epoch.remaining), Some(50));
        assert_eq!(secs(times.run.remaining), Some(530));
        assert_eq!(secs(times.run.total), Some(600));
        assert_eq!(secs(times.validation_mean), Some(10));
        assert_eq!(times.rate, Some(2.0));
    }

    #[test]
    fn what_is_left_is_unknown_without_totals_or_progress() {
        let none = |change: fn(&mut Progress)| {
            let mut progress = running();
            change(&mut progress);
            secs(times(&progress, None, None, at(70)).run.remaining)
        };
        assert_eq!(none(|progress| progress.total_epochs = None), None);
        assert_eq!(none(|progress| progress.epoch = None), None);
        assert_eq!(none(|progress| progress.epoch = Some(10)), None, "more than there are");
        assert_eq!(none(|progress| progress.epoch = Some(u64::MAX)), None);
        let stopped = |progress: &mut Progress| {
            (progress.training.rate, progress.training.total) = (Some(0.0), Some(0.0));
            progress.epoch_estimate = Estimate::default();
            progress.batch = Some(0);
        };
        assert_eq!(none(stopped), None, "a rate of zero");
    }

    #[test]
    fn nothing_is_negative_and_nothing_grows_after_the_end() {
        let before = times(&running(), None, None, at(-100));
        assert_eq!(
            (before.run.elapsed, before.epoch.elapsed),
            (None, None),
            "the clock was set back"
        );
        let ended =
            [100, 1_000_000].map(|second| times(&running(), Some(1.0), Some(at(80)), at(second)));
        assert_eq!(ended[0], ended[1]);
        assert_eq!(secs(ended[0].run.elapsed), Some(80));
        assert_eq!((ended[0].run.remaining, ended[0].rate), (None, None));
    }

    #[test]
    fn a_run_between_phases_expects_a_mean_epoch() {
        let mut progress = running();
        progress.phase = Some("loading".into());
        let times = times(&progress, None, None, at(70));
        assert_eq!(times.epoch.remaining, None);
        // 60 s less the 10 s of this epoch, and 8 epochs.
        assert_eq!(secs(times.run.remaining), Some(50 + 480));
    }

    #[test]
    fn what_is_left_follows_from_the_batches_where_no_bar_tells_it() {
        let left = |change: fn(&mut Progress), seen_rate| {
            let mut progress = Progress {
                phase: Some("training".into()),
                batch: Some(20),
                total_batches: Some(100),
                ..Progress::default()
            };
            change(&mut progress);
            let times = times(&progress, seen_rate, None, at(70));
            (secs(times.epoch.remaining), secs(times.run.remaining), times.rate)
        };
        assert_eq!(left(|_| {}, None), (None, None, None));
        // A log that tells no epochs: its batches are all there are.
        assert_eq!(left(|_| {}, Some(2.0)), (Some(40), Some(40), Some(2.0)));
        let megatron = |progress: &mut Progress| progress.training.rate = Some(8.0);
        assert_eq!(left(megatron, Some(2.0)), (Some(10), Some(10), Some(8.0)));
        let epochs = |progress: &mut Progress| {
            (progress.epoch, progress.total_epochs) = (Some(1), Some(4));
        };
        assert_eq!(left(epochs, Some(2.0)), (Some(40), Some(140), Some(2.0)));
        let endless = |progress: &mut Progress| progress.epoch = Some(1);
        assert_eq!(left(endless, Some(2.0)), (Some(40), None, Some(2.0)));
        let average = |progress: &mut Progress| progress.training_started_at = Some(at(60));
        assert_eq!(left(average, None), (Some(40), Some(40), Some(2.0)));
        let beyond = |progress: &mut Progress| progress.batch = Some(101);
        assert_eq!(left(beyond, Some(2.0)), (None, None, Some(2.0)));
        let validating = |progress: &mut Progress| {
            progress.phase = Some("validation".into());
            progress.validation_started_at = Some(at(65));
            (progress.validation_batch, progress.total_validation_batches) = (Some(5), Some(20));
        };
        assert_eq!(left(validating, None), (Some(15), Some(15), Some(1.0)));
    }
}
