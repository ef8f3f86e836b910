//! A report as a table: a row for all devices, and per node, device, user and job. An unknown value is an empty cell, as is
//! the verdict of what is no job.

use std::io::{self, Write};

use crate::export::csv::text_cell;
use crate::export::report::{STATES, rounded};
use crate::report::{EnoughDevices, JobVerdict, UsageReport, UsageSummary};

/// How each table begins.
pub(super) const MARK: &str = "scope,name,node,user,job,watched_hours,";

/// Writes the table.
pub(super) fn write_report_csv(out: &mut impl Write, report: &UsageReport) -> io::Result<()> {
    let states: Vec<String> = STATES.iter().map(|state| format!("{state}_hours")).collect();
    write!(
        out,
        "{MARK}{},not_seen_hours,utilization_mean_percent,utilization_p50_percent,\
         utilization_p95_percent,memory_mean_percent,memory_max_percent,memory_used_bytes,\
         power_mean_watts,power_max_watts,energy_kwh,temperature_max_celsius,coverage_percent,\
         samples_seen,samples_expected,cost,verdict,certainty,enough,sentence,remedy\r\n",
        states.join(",")
    )?;
    let unjudged = (None, None);
    row(out, ["total", &report.title, "", "", ""], &report.totals, unjudged)?;
    for node in &report.nodes {
        row(out, ["node", &node.name, &node.name, "", ""], &node.summary, unjudged)?;
    }
    for device in &report.devices {
        row(out, ["device", &device.uuid, &device.node, "", ""], &device.summary, unjudged)?;
    }
    for user in &report.users {
        row(out, ["user", &user.user, "", &user.user, ""], &user.summary, (user.cost, None))?;
    }
    for job in &report.jobs {
        let words = ["job", &job.name, "", &job.user, &job.id];
        row(out, words, &job.summary, (job.cost, Some(&job.verdict)))?;
    }
    Ok(())
}

fn row(
    out: &mut impl Write,
    words: [&str; 5],
    summary: &UsageSummary,
    (cost, verdict): (Option<f64>, Option<&JobVerdict>),
) -> io::Result<()> {
    let [p50, p95] = summary.percentiles.map(|percent| percent.map(f64::from));
    let (seen, expected) = summary.samples.unzip();
    #[expect(clippy::cast_precision_loss, reason = "counts of samples are exact")]
    let seen = seen.map(|samples| samples as f64);
    let numbers = [
        summary.utilization,
        p50,
        p95,
        summary.memory_percent,
        summary.max_memory_percent.map(f64::from),
        summary.memory_used.map(f64::round),
        summary.power,
        summary.max_power.map(f64::from),
        summary.energy_kwh,
        summary.max_temperature.map(f64::from),
        summary.coverage_percent(),
        seen,
        expected,
        cost,
    ];
    let seconds = [summary.watched_seconds].into_iter().chain(summary.states);
    let hours = seconds.chain([summary.not_seen_seconds()]).map(|seconds| Some(seconds / 3600.0));
    let all = hours.chain(numbers).map(|number| number.map(|number| rounded(number, 6)));
    let words = words.map(text_cell);
    let judged = judged_words(verdict).map(|word| text_cell(&word));
    let numbers: Vec<String> =
        all.map(|number| number.map_or_else(String::new, |number| number.to_string())).collect();
    write!(out, "{},{},{}\r\n", words.join(","), numbers.join(","), judged.join(","))
}

/// Returns the words of a verdict; empty without one.
fn judged_words(verdict: Option<&JobVerdict>) -> [String; 5] {
    let Some(JobVerdict { word, certainty, enough, sentence, remedy, .. }) = verdict else {
        return Default::default();
    };
    let enough = enough.map_or_else(String::new, EnoughDevices::text);
    let [word, certainty] = [word.as_str(), certainty.as_str()].map(str::to_owned);
    [word, certainty, enough, sentence.clone(), remedy.clone()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{JobReport, NodeReport, ReportSteps};

    #[test]
    fn rows_of_jobs_have_cost_and_verdict_and_the_others_have_as_many_cells() {
        let mut report = UsageReport {
            nodes: vec![NodeReport {
                name: "gpu01".to_owned(),
                devices: 0,
                down_seconds: 0.0,
                summary: UsageSummary::default(),
                steps: ReportSteps::default(),
            }],
            jobs: vec![JobReport { id: "17".to_owned(), ..JobReport::default() }],
            ..UsageReport::default()
        };
        report.judge(crate::report::ReportCriteria::default());
        report.jobs[0].cost = Some(2.5);
        let mut out = Vec::new();
        write_report_csv(&mut out, &report).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
        let end = |row: &[&str]| row[row.len() - 6..].join("|");
        assert_eq!(end(&rows[0]), "cost|verdict|certainty|enough|sentence|remedy");
        assert_eq!(end(&rows[2]), "|||||");
        assert_eq!(end(&rows[3]), "2.5|not judged|unknown||it had devices for 0s only|");
    }
}
