//! Writes reports as text: one heading per node, one line per step.

use std::io::{self, Write};
use std::time::Duration;

use crate::doctor::{Report, StepResult, StepStatus};

pub fn write_text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{}", report.node)?;
    let steps = merge_not_applicable(&report.steps);
    let width = steps.iter().map(|row| row.step.chars().count()).max().unwrap_or_default();
    for row in &steps {
        write_step(out, row, width)?;
    }
    Ok(())
}

fn write_step(out: &mut impl Write, row: &StepResult, width: usize) -> io::Result<()> {
    let took = row.duration.map(milliseconds).unwrap_or_default();
    let StepResult { step, status, finding, .. } = row;
    writeln!(out, "  {:<6}  {step:<width$} {took:>9}  {finding}", status.words().0)?;
    let margin = width + 20;
    for detail in &row.details {
        writeln!(out, "{:margin$}  {detail}", "")?;
    }
    for line in row.remedy.iter().flat_map(|remedy| remedy.lines()) {
        let bullet = if line.starts_with(' ') { ' ' } else { '>' };
        writeln!(out, "{:margin$}{bullet} {line}", "")?;
    }
    Ok(())
}

/// Merges consecutive steps that do not apply for the same reason.
fn merge_not_applicable(steps: &[StepResult]) -> Vec<StepResult> {
    let mut merged: Vec<StepResult> = Vec::new();
    for row in steps {
        match merged.last_mut() {
            Some(last)
                if row.status == StepStatus::NotApplicable
                    && last.status == row.status
                    && last.finding == row.finding =>
            {
                let first = last.step.split(" to ").next().unwrap_or_default();
                last.step = format!("{first} to {}", row.step);
            }
            _ => merged.push(row.clone()),
        }
    }
    merged
}

/// Formats a duration in milliseconds, with a decimal below 10 ms.
fn milliseconds(took: Duration) -> String {
    let micros = took.as_micros();
    if micros < 10_000 {
        format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
    } else {
        format!("{} ms", took.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::NodeName;

    #[test]
    fn a_report_has_a_heading_and_one_line_per_step() {
        let row = |step: &str, status, finding: &str| StepResult::new(step, status, finding);
        let reason = "done by the gateway";
        let steps = vec![
            row("configuration", StepStatus::Ok, "HostName 10.0.0.1")
                .with_duration(Duration::from_micros(1234)),
            row("name", StepStatus::NotApplicable, reason),
            row("connection", StepStatus::NotApplicable, reason),
            row("banner", StepStatus::Ok, "SSH-2.0-x").with_duration(Duration::from_millis(25)),
            row("login", StepStatus::Failed, "key refused")
                .with_duration(Duration::from_secs(12))
                .with_details(vec!["refused: id".to_owned()])
                .with_remedy("ssh-copy-id gpu01"),
        ];
        let report = Report { node: NodeName::new("gpu01").unwrap(), steps };
        let mut out = Vec::new();
        write_text(&mut out, &report).unwrap();
        let expected = "\
gpu01
  ok      configuration         1.2 ms  HostName 10.0.0.1
  -       name to connection            done by the gateway
  ok      banner                 25 ms  SSH-2.0-x
  FAILED  login               12000 ms  key refused
                                        refused: id
                                      > ssh-copy-id gpu01
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
