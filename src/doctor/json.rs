//! Writes reports as one line of JSON: `{schema, nodes: [{name, well, steps: [{step, mark, found, details,
//! milliseconds, remedy}]}]}`; fields that do not apply are `null`.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::doctor::{Report, StepResult};

/// Version of the schema.
const SCHEMA: u32 = 1;

pub fn write_json(out: &mut impl Write, reports: &[Report]) -> io::Result<()> {
    let nodes: Vec<Value> = reports.iter().map(node).collect();
    serde_json::to_writer(&mut *out, &json!({ "schema": SCHEMA, "nodes": nodes }))?;
    out.write_all(b"\n")
}

fn node(report: &Report) -> Value {
    let steps: Vec<Value> = report.steps.iter().map(step).collect();
    json!({ "name": report.node.as_str(), "well": report.is_healthy(), "steps": steps })
}

fn step(row: &StepResult) -> Value {
    json!({
        "step": row.step,
        "mark": row.status.words().1,
        "found": row.finding,
        "details": row.details,
        "milliseconds": row.duration.map(|took| took.as_secs_f64() * 1000.0),
        "remedy": row.remedy,
    })
}
