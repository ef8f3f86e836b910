//! Training runs as CSV: the values of a run over time, its statistics, and the one file that ttop writes of all.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::export::csv::text_cell;
use crate::export::time_format::zoned_text;
use gtop_fleet::insight::runs::{Liveness, RunRow};
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, MetricValue, Progress, RunLimits, RunStatus, UserResources};

/// The columns of a matrix before those of custom metrics. Epochs count from 1, as on the screen.
const MATRIX_COLUMNS: &str = "timestamp_iso,status,phase,epoch,total_epochs,batch,total_batches,loss,learning_rate,samples,\
    rate_its,run_elapsed_s,run_remaining_s,cpu_percent,ram_mib,gpu_mem_mib,gpu_util_percent,procs,threads,host,devices,\
    job,pid,stalled_s";

/// The header of an overall file.
const OVERALL_HEADER: &str = "run,host,status,start_iso,end_iso,duration_s,epochs_done,cpu_mean,cpu_max,ram_max_mib,\
    gpu_mem_max_mib,gpu_util_mean,last_loss,best_loss,error\n";

/// The header of ttop's file.
pub const TTOP_HEADER: &str = "Timestamp,Run Name,Status,Phase,Epoch,Batch,Loss,Learning Rate,Run Elapsed,Run Remaining,\
    Run Total,Epoch Elapsed,Epoch Remaining,Epoch Total,Train Elapsed,Train Remaining,Train Total,Val Time,Val Elapsed,\
    Val Remaining,Val Total,CPU,RAM,GPU,Procs,Threads,PID,Wandb URL,Overall_CPU_Used,Overall_CPU_Max,\
    Overall_CPU_Percent,Overall_RAM_Used_GB,Overall_RAM_Max_GB,Overall_RAM_Percent,Overall_GPU_Used_GB,\
    Overall_GPU_Max_GB,Overall_GPU_Percent\n";

/// The values of one run over time; its metrics are those that the run has at the first row.
#[derive(Clone, Debug)]
pub struct RunMatrix {
    metrics: Vec<Arc<str>>,
}

impl RunMatrix {
    /// Makes a matrix with the metrics that a run has now.
    pub fn new(row: &RunRow) -> Self {
        let metrics = row.run.progress.iter().flat_map(|progress| progress.metrics.iter());
        Self { metrics: metrics.map(|(name, _)| Arc::clone(name)).collect() }
    }

    /// Returns the header line.
    pub fn header(&self) -> String {
        let names = self.metrics.iter().map(|name| format!(",{}", text_cell(name)));
        format!("{MATRIX_COLUMNS}{}\n", names.collect::<String>())
    }

    /// Returns the line of this moment: raw numbers, and nothing for what is unknown.
    pub fn line(&self, row: &RunRow, now: Timestamp) -> String {
        let nothing = Progress::default();
        let progress = row.run.progress.as_deref().unwrap_or(&nothing);
        let (times, resources) = (&row.times, &row.resources);
        let devices = resources.devices.join(" ");
        let mut cells: Vec<Option<String>> = vec![
            iso(now),
            Some(row.status.as_str().to_owned()),
            progress.phase.as_deref().map(text_cell),
            count(progress.epoch.and_then(|epoch| epoch.checked_add(1))),
            count(progress.total_epochs),
            count(progress.batch),
            count(progress.total_batches),
            metric(progress.loss.as_ref()),
            metric(progress.learning_rate.as_ref()),
            count(progress.samples),
            times.rate.map(|rate| decimals(rate, 3)),
            seconds(times.run.elapsed),
            seconds(times.run.remaining),
            resources.cpu_percent.map(|percent| decimals(percent, 1)),
            mib(resources.resident),
            mib(resources.device_memory),
            resources.device_utilization.map(|share| format!("{share:.0}")),
            count(resources.processes),
            count(resources.threads),
            host(row).map(text_cell),
            Some(text_cell(&devices)),
            row.job.as_ref().map(|job| text_cell(job.as_str())),
            progress.pid.map(|pid| pid.to_string()),
            seconds(row.stalled_since.map(|since| now.since(since))),
        ];
        cells.extend(self.metrics.iter().map(|name| {
            let mut known = progress.metrics.iter();
            metric(known.find(|(known, _)| known == name).map(|(_, value)| value))
        }));
        let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
        format!("{}\n", cells.join(","))
    }
}

/// The statistics of one run.
#[derive(Clone, Debug, Default)]
pub struct RunStatistics {
    cpu: Mean,
    utilization: Mean,
    resident: Option<Bytes>,
    device_memory: Option<Bytes>,
    best_loss: Option<f64>,
}

/// A mean and a maximum.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u32,
    max: Option<f64>,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        self.sum += value;
        self.count = self.count.saturating_add(1);
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }

    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

impl RunStatistics {
    /// Adds what a run uses at a moment; values of its file are not measured, and left out.
    pub fn add(&mut self, row: &RunRow) {
        if !row.resources.is_from_file {
            self.cpu.add(row.resources.cpu_percent);
            self.utilization.add(row.resources.device_utilization.map(f64::from));
            self.resident = self.resident.max(row.resources.resident);
            self.device_memory = self.device_memory.max(row.resources.device_memory);
        }
        let loss = row.run.progress.as_ref().and_then(|progress| progress.loss.as_ref());
        if let Some(MetricValue::Number(loss)) = loss
            && loss.is_finite()
        {
            self.best_loss = Some(self.best_loss.map_or(*loss, |best| best.min(*loss)));
        }
    }

    /// Returns the whole file: the header and the line of the run.
    pub fn file(&self, row: &RunRow) -> String {
        let progress = row.run.progress.as_deref();
        let is_over = row.status != RunStatus::Running;
        let ended_at = progress.and_then(|one| one.ended_at).or(row.run.written_at);
        let epochs = progress.and_then(|one| one.epoch_estimate.durations.len().try_into().ok());
        let cells: [Option<String>; 15] = [
            Some(text_cell(&row.run.id.name)),
            host(row).map(text_cell),
            Some(row.status.as_str().to_owned()),
            progress.and_then(|one| iso(one.started_at?)),
            ended_at.filter(|_| is_over).and_then(iso),
            seconds(row.times.run.elapsed),
            count(epochs),
            self.cpu.mean().map(|mean| decimals(mean, 1)),
            self.cpu.max.map(|max| decimals(max, 1)),
            mib(self.resident),
            mib(self.device_memory),
            self.utilization.mean().map(|mean| decimals(mean, 1)),
            progress.and_then(|one| metric(one.loss.as_ref())),
            self.best_loss.map(|loss| loss.to_string()),
            progress.and_then(|one| one.error.as_deref()).map(text_cell),
        ];
        let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
        format!("{OVERALL_HEADER}{}\n", cells.join(","))
    }

    /// Returns true if a file was written as statistics of a run.
    pub fn is_own(content: &[u8]) -> bool {
        content.starts_with(OVERALL_HEADER.as_bytes())
    }
}

/// What ttop writes behind each line: what the login uses, and of how much.
#[derive(Clone, Copy, Debug, Default)]
pub struct TtopTotals {
    cpu: f64,
    cpus: f64,
    ram: f64,
    ram_max: f64,
    gpu: f64,
    gpu_max: f64,
}

impl TtopTotals {
    /// Sums what the login uses on all hosts that are looked at; `gpu` is used and total device memory.
    pub fn new(
        users: impl Iterator<Item = UserResources>,
        gpu: (Bytes, Bytes),
        limits: RunLimits,
    ) -> Self {
        let mut totals = Self::default();
        for user in users {
            totals.cpu += user.cpu_percent.unwrap_or(0.0);
            totals.cpus += f64::from(user.cpus);
            totals.ram += gibibytes(user.resident);
            totals.ram_max += gibibytes(user.memory);
        }
        totals.gpu = gibibytes(gpu.0);
        Self {
            cpus: limits.cpus.unwrap_or(totals.cpus),
            ram_max: limits.ram.map_or(totals.ram_max, gibibytes),
            gpu_max: limits.gpu.map_or_else(|| gibibytes(gpu.1), gibibytes),
            ..totals
        }
    }

    fn cells(&self) -> String {
        let Self { cpu, cpus, ram, ram_max, gpu, gpu_max } = *self;
        let parts = [(cpu, cpus * 100.0), (ram, ram_max), (gpu, gpu_max)];
        let [cpu_share, ram_share, gpu_share] =
            parts.map(|(part, total)| if total > 0.0 { part / total * 100.0 } else { 0.0 });
        format!(
            "{cpu:.1},{cpus},{cpu_share:.1},{ram:.2},{ram_max:.2},{ram_share:.1},{gpu:.2},{gpu_max:.2},{gpu_share:.1}"
        )
    }
}

/// Returns the line of a run as ttop writes it; without a run, the blank line of an empty folder.
pub fn ttop_line(
    row: Option<&RunRow>,
    totals: &TtopTotals,
    now: Timestamp,
    zone: &TimeZone,
) -> String {
    let cells = row.map_or_else(|| vec![String::new(); 27], ttop_cells);
    let cells: Vec<String> = cells.iter().map(|cell| text_cell(cell)).collect();
    let time = zoned_text(now, zone, "%Y-%m-%d %H:%M:%S");
    format!("{time},{},{}\n", cells.join(","), totals.cells())
}

/// Returns ttop's 27 columns: the texts that it shows.
fn ttop_cells(row: &RunRow) -> Vec<String> {
    let nothing = Progress::default();
    let progress = row.run.progress.as_deref().unwrap_or(&nothing);
    // Of a run that is over, nothing is left.
    let rest = (row.status != RunStatus::Running).then_some(Duration::ZERO);
    let [run, epoch, training, validation] =
        [&row.times.run, &row.times.epoch, &row.times.training, &row.times.validation]
            .map(|span| [span.elapsed, span.remaining.or(rest), span.total].map(ttop_duration));
    let is_dead = matches!(row.liveness, Liveness::Gone | Liveness::Zombie | Liveness::PidReused)
        || (row.process.is_none() && !row.resources.is_from_file);
    let resources = &row.resources;
    let used = [
        resources.cpu_percent.map(|percent| format!("{percent:6.1}%")),
        resources.resident.map(|bytes| format!("{:8.1}MB", mebibytes(bytes))),
        Some(format!("{:6.0}MiB", resources.device_memory.map_or(0.0, mebibytes))),
        count(resources.processes),
        count(resources.threads),
    ];
    let used = used.map(|text| text.filter(|_| !is_dead));
    let pid = progress.pid.map(|pid| pid.to_string());
    let numbers = used.into_iter().chain([pid]);
    let title: String = row.title().chars().take(40).collect();
    let mut cells = vec![
        title,
        row.status.as_str().to_owned(),
        progress.phase.as_deref().unwrap_or(INVALID).to_owned(),
        ttop_part(progress.epoch.and_then(|epoch| epoch.checked_add(1)), progress.total_epochs),
        ttop_part(progress.batch, progress.total_batches),
        ttop_number(progress.loss.as_ref(), 4),
        ttop_number(progress.learning_rate.as_ref(), 6),
    ];
    cells.extend([run, epoch, training].into_iter().flatten());
    cells.push("N/A".to_owned());
    cells.extend(validation);
    cells.extend(numbers.map(|text| text.unwrap_or_else(|| INVALID.to_owned())));
    cells.push(progress.url.as_deref().unwrap_or("N/A").to_owned());
    cells
}

fn ttop_part(part: Option<u64>, total: Option<u64>) -> String {
    match (part, total) {
        (Some(part), Some(total)) => format!("{part}/{total}"),
        (Some(part), None) => part.to_string(),
        (None, _) => INVALID.to_owned(),
    }
}

fn ttop_number(value: Option<&MetricValue>, places: usize) -> String {
    match value {
        Some(MetricValue::Number(value)) => format!("{value:.places$}"),
        Some(MetricValue::Text(_)) | None => "N/A".to_owned(),
    }
}

/// What ttop shows for a value that is missing.
const INVALID: &str = "Invalid";

/// Formats a duration as ttop does: `30s`, `2m5s`, `1h1m`, `1d0h`, `1mo2d`.
fn ttop_duration(span: Option<Duration>) -> String {
    let Some(span) = span else { return INVALID.to_owned() };
    let all = span.as_secs();
    let (days, hours, minutes, seconds) = (all / 86_400, all / 3_600 % 24, all / 60 % 60, all % 60);
    match all {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{seconds}s"),
        3_600..86_400 => format!("{hours}h{minutes}m"),
        86_400..2_592_000 => format!("{days}d{hours}h"),
        _ => format!("{}mo{}d", days / 30, days % 30),
    }
}

/// Returns a time in the file names of ttop: `20261121_015624`.
pub fn ttop_file_time(at: Timestamp, zone: &TimeZone) -> String {
    zoned_text(at, zone, "%Y%m%d_%H%M%S")
}

fn iso(at: Timestamp) -> Option<String> {
    let moment = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
    Some(moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

fn host(row: &RunRow) -> Option<&str> {
    let told = row.run.progress.as_ref().and_then(|progress| progress.host.as_deref());
    row.node.as_ref().map(gtop_model::NodeName::label).or(told)
}

fn metric(value: Option<&MetricValue>) -> Option<String> {
    match value? {
        MetricValue::Number(number) => Some(number.to_string()),
        MetricValue::Text(text) => Some(text_cell(text)),
    }
}

fn decimals(value: f64, places: usize) -> String {
    format!("{value:.places$}")
}

fn count(value: Option<u64>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn seconds(span: Option<Duration>) -> Option<String> {
    span.map(|span| decimals(span.as_secs_f64(), 1))
}

fn mib(bytes: Option<Bytes>) -> Option<String> {
    bytes.map(|bytes| decimals(mebibytes(bytes), 1))
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is written")]
fn mebibytes(bytes: Bytes) -> f64 {
    bytes.0 as f64 / 1_048_576.0
}

fn gibibytes(bytes: Bytes) -> f64 {
    mebibytes(bytes) / 1_024.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::insight::runs::RunTime;
    use gtop_fleet::insight::runs::{RunResources, RunTimes};
    use gtop_model::{NodeName, Run, RunId, RunVariables};

    fn row() -> RunRow {
        let seconds = |count: u64| Some(Duration::from_secs(count));
        let progress = Progress {
            pid: Some(4125),
            status: Some(RunStatus::Running),
            phase: Some("training".into()),
            epoch: Some(0),
            total_epochs: Some(2),
            batch: Some(3),
            total_batches: Some(5),
            loss: Some(MetricValue::Number(0.5)),
            learning_rate: Some(MetricValue::Number(0.001)),
            url: Some("https://wandb.ai/x/y/runs/1".into()),
            metrics: [
                ("acc".into(), MetricValue::Number(0.25)),
                ("=x".into(), MetricValue::Text("=1+1".into())),
            ]
            .into(),
            ..Progress::default()
        };
        let span = |elapsed, remaining, total| RunTime {
            elapsed: seconds(elapsed),
            remaining: seconds(remaining),
            total: seconds(total),
        };
        RunRow {
            run: Arc::new(Run {
                id: RunId { folder: "runs".into(), name: "run_001".into() },
                is_flat: false,
                uid: None,
                user: None,
                progress: Some(Arc::new(progress)),
                written_at: None,
                fault: None,
                advanced_at: None,
                seen_rate: None,
                variables: RunVariables::default(),
            }),
            status: RunStatus::Running,
            liveness: Liveness::Alive,
            node: NodeName::new("vm").ok(),
            times: RunTimes {
                run: span(0, 3, 3),
                epoch: span(0, 1, 1),
                training: span(0, 0, 1),
                validation: span(0, 0, 0),
                ..RunTimes::default()
            },
            process: None,
            resources: RunResources {
                cpu_percent: Some(0.0),
                resident: Some(Bytes(22_125_000)),
                processes: Some(1),
                threads: Some(3),
                is_from_file: true,
                ..RunResources::default()
            },
            job: None,
            stalled_since: None,
        }
    }

    #[test]
    fn the_line_of_ttop_is_that_of_ttop() {
        let fixture = include_str!("../../tests/fixtures/ttop/20261121_015624_20261121_015630.csv");
        let mut lines = fixture.lines();
        assert_eq!(lines.next(), Some(TTOP_HEADER.trim_end()));
        let totals =
            TtopTotals { cpu: 119.0, cpus: 2.0, ram: 0.44, ram_max: 23.54, gpu: 0.0, gpu_max: 0.0 };
        let now = Timestamp::from_micros(1_795_226_184_000_000);
        assert_eq!(
            Some(ttop_line(Some(&row()), &totals, now, &TimeZone::UTC).trim_end()),
            lines.next()
        );
        let blank = ttop_line(None, &totals, now, &TimeZone::UTC);
        assert_eq!(blank.split(',').count(), 37);
    }

    #[test]
    fn durations_are_those_of_ttop() {
        let text = |seconds| ttop_duration(Some(Duration::from_secs(seconds)));
        assert_eq!(
            [30, 125, 3_660, 86_400, 2_764_800].map(text),
            ["30s", "2m5s", "1h1m", "1d0h", "1mo2d"]
        );
        assert_eq!(ttop_duration(None), "Invalid");
    }

    #[test]
    fn a_matrix_has_raw_numbers_and_nothing_for_the_unknown() {
        let row = row();
        let matrix = RunMatrix::new(&row);
        let (header, line) =
            (matrix.header(), matrix.line(&row, Timestamp::from_micros(1_795_226_184_000_000)));
        let cells: Vec<(&str, &str)> =
            header.trim_end().split(',').zip(line.trim_end().split(',')).collect();
        assert_eq!(header.split(',').count(), line.split(',').count());
        for (name, value) in [
            ("timestamp_iso", "2026-11-21T01:56:24.000Z"),
            ("epoch", "1"),
            ("loss", "0.5"),
            ("learning_rate", "0.001"),
            ("run_remaining_s", "3.0"),
            ("ram_mib", "21.1"),
            ("gpu_mem_mib", ""),
            ("job", ""),
            ("host", "vm"),
            ("acc", "0.25"),
            ("'=x", "'=1+1"),
        ] {
            assert!(cells.contains(&(name, value)), "{name}: {cells:?}");
        }
    }

    #[test]
    fn statistics_leave_out_what_was_not_measured() {
        let mut row = row();
        let mut statistics = RunStatistics::default();
        statistics.add(&row);
        row.resources.is_from_file = false;
        for cpu in [100.0, 50.0] {
            row.resources.cpu_percent = Some(cpu);
            statistics.add(&row);
        }
        let file = statistics.file(&row);
        assert!(RunStatistics::is_own(file.as_bytes()));
        assert_eq!(
            file.lines().nth(1),
            Some("run_001,vm,RUNNING,,,0.0,0,75.0,100.0,21.1,,,0.5,0.5,")
        );
    }
}
