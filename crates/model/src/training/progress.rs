//! Reads progress files: those of ttop, and those of the `TrainingMonitor` of `gtop python`.
//!
//! A value of another type than expected is unknown; only text that is no JSON object is an error.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::training::variables::variable_of_value;
use crate::{Estimate, FileResources, MetricValue, Progress, RunStatus, RunVariable};
use gtop_local::text::{is_unprintable, sanitize};
use gtop_local::time::Timestamp;

/// Maximum length of names and texts in characters.
const MAX_TEXT: usize = 300;
/// Maximum number of metrics beside those of ttop, and the length of their names.
const MAX_METRICS: usize = 64;
const MAX_METRIC_NAME: usize = 40;
/// Durations of earlier epochs that are kept.
const MAX_DURATIONS: usize = 1_000;
const MAX_URL: usize = 500;
/// Times before and after these are no times of a run, in seconds since 1970.
const TIMES: std::ops::Range<f64> = 1e9..1e11;

/// Parses a progress file. `clock_offset` is added to its times: our clock less that of its host, in microseconds.
pub fn parse_progress(text: &str, clock_offset: i64) -> Result<Progress, String> {
    let root = parse_object(text)?;
    let root = Section { values: Some(&root), clock_offset };
    let (metadata, state, timing) =
        (root.section("metadata"), root.section("state"), root.section("timing"));
    let (estimates, metrics) = (root.section("estimates"), root.section("metrics"));
    let (total_epochs, total_batches) = (state.total("total_epochs"), state.total("total_batches"));
    let epoch_estimate = estimates.estimate("epoch");
    let has_epochs = total_epochs.is_some()
        || timing.get("epoch_start").is_some_and(Value::is_number)
        || !epoch_estimate.durations.is_empty();
    let epoch = state.count("epoch").filter(|epoch| has_epochs || *epoch > 0);
    let phase = state.text("phase");
    let (batch, validation_batch) = batches(state, phase.as_deref(), total_batches);
    Ok(Progress {
        pid: metadata.total("pid").and_then(|pid| u32::try_from(pid).ok()),
        host: metadata.text("hostname"),
        pid_namespace: metadata.text("pid_namespace"),
        script: metadata.text("script_name"),
        started_at: metadata.time("start_time"),
        title: metadata.text("wandb_run_name"),
        url: metadata.get("wandb_url").and_then(Value::as_str).and_then(url_of),
        stdout: metadata.path("stdout_path"),
        stderr: metadata.path("stderr_path"),
        status: root
            .or("status", metadata)
            .get("status")
            .and_then(Value::as_str)
            .map(RunStatus::new),
        ended_at: root.or("end_time", metadata).time("end_time"),
        error: root.or("error_message", metadata).text("error_message"),
        phase,
        epoch,
        total_epochs,
        batch,
        total_batches,
        validation_batch,
        total_validation_batches: state.total("total_validation_batches"),
        epoch_started_at: timing.time("epoch_start"),
        training_started_at: timing.time("training_start"),
        validation_started_at: timing.time("validation_start"),
        run: estimates.estimate("run"),
        epoch_estimate,
        training: estimates.estimate("training"),
        validation: estimates.estimate("validation"),
        dataset_ratio: estimates.number("dataset_ratio"),
        loss: metrics.get("loss").and_then(metric),
        learning_rate: metrics.get("learning_rate").and_then(metric),
        samples: metrics.count("samples_processed"),
        metrics: other_metrics(metrics),
        resources: resources(root.section("resources")),
        acknowledged: acknowledged(root.section("acknowledged")),
    })
}

/// An object of the file; it may be missing.
#[derive(Clone, Copy)]
struct Section<'a> {
    values: Option<&'a Map<String, Value>>,
    /// Added to times, in microseconds.
    clock_offset: i64,
}

impl<'a> Section<'a> {
    /// Returns a value that is not null.
    fn get(self, name: &str) -> Option<&'a Value> {
        self.values?.get(name).filter(|value| !value.is_null())
    }

    /// Returns an object in it.
    fn section(self, name: &str) -> Self {
        Self { values: self.get(name).and_then(Value::as_object), ..self }
    }

    /// Returns the other section if this one does not have the value. Older files have some in the metadata.
    fn or(self, name: &str, other: Self) -> Self {
        if self.get(name).is_some() { self } else { other }
    }

    fn text(self, name: &str) -> Option<Arc<str>> {
        let text = sanitize(self.get(name)?.as_str()?, MAX_TEXT);
        (!text.trim().is_empty()).then(|| text.into())
    }

    /// Returns a path as it is; one with control characters cannot be told apart when shown, and is left out.
    fn path(self, name: &str) -> Option<Arc<str>> {
        let path = self.get(name)?.as_str()?;
        let is_shown_as_it_is = path.len() <= 4_096 && !path.chars().any(is_unprintable);
        (is_shown_as_it_is && !path.is_empty()).then(|| path.into())
    }

    /// Returns a whole number that is not negative; a float of such a value counts too.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked before"
    )]
    fn count(self, name: &str) -> Option<u64> {
        let number = self.get(name)?;
        let float = number.as_f64().filter(|float| float.fract() == 0.0);
        let float = float.filter(|float| (0.0..9e15).contains(float));
        number.as_u64().or(float.map(|float| float as u64))
    }

    /// Returns a count; a run that tells no total has zero.
    fn total(self, name: &str) -> Option<u64> {
        self.count(name).filter(|total| *total > 0)
    }

    /// Returns a finite number that is not negative.
    fn number(self, name: &str) -> Option<f64> {
        self.get(name).and_then(positive)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
    fn time(self, name: &str) -> Option<Timestamp> {
        let seconds = self.get(name)?.as_f64().filter(|seconds| TIMES.contains(seconds))?;
        Some(Timestamp::from_micros(((seconds * 1e6) as i64).saturating_add(self.clock_offset)))
    }

    fn estimate(self, name: &str) -> Estimate {
        let estimate = self.section(name);
        let durations = estimate.get("durations").and_then(Value::as_array);
        let durations = durations.map(Vec::as_slice).unwrap_or_default();
        let oldest = durations.len().saturating_sub(MAX_DURATIONS);
        Estimate {
            rate: estimate.number("rate"),
            elapsed: estimate.number("elapsed"),
            remaining: estimate.number("remaining"),
            total: estimate.number("total"),
            durations: durations.iter().skip(oldest).filter_map(positive).collect(),
        }
    }
}

fn positive(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

/// Parses a JSON object; Python's NaN and Infinity are read as text.
fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Err("empty".to_owned());
    }
    let parsed = serde_json::from_str(text).or_else(|error: serde_json::Error| {
        serde_json::from_str(&quote_constants(text)).map_err(|_again| error)
    });
    match parsed {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(error) if error.is_eof() => Err("incomplete JSON".to_owned()),
        Err(error) => Err(format!("invalid JSON in line {}", error.line())),
    }
}

/// Puts the constants of Python that JSON does not have in quotes.
fn quote_constants(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped) = (false, false);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let constant = ["NaN", "-Infinity", "Infinity"].into_iter();
        if let Some(word) = constant.filter(|_| !is_string).find(|word| rest.starts_with(word)) {
            quoted.extend(["\"", word, "\""]);
            rest = rest.get(word.len()..).unwrap_or_default();
            continue;
        }
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_string => is_escaped = true,
            '"' => is_string = !is_string,
            _ => {}
        }
        quoted.push(letter);
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
    }
    quoted
}

/// Returns the batches of the epoch and those of the validation. ttop counts on from the training to the validation:
/// what is beyond the batches of the training is of the validation.
fn batches(
    state: Section<'_>,
    phase: Option<&str>,
    total: Option<u64>,
) -> (Option<u64>, Option<u64>) {
    let batch = state.count("batch");
    if let Some(told) = state.count("validation_batch") {
        return (batch, Some(told));
    }
    let is_validating = phase.is_some_and(|phase| phase.contains("valid"));
    let beyond = batch.zip(total).and_then(|(batch, total)| batch.checked_sub(total));
    match beyond.filter(|beyond| is_validating && *beyond > 0) {
        Some(beyond) => (total, Some(beyond)),
        None => (batch, None),
    }
}

/// Returns a link that a terminal may open: http or https, in plain ASCII.
fn url_of(text: &str) -> Option<Arc<str>> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'`<>\\^{|}".contains(&byte));
    if text.is_empty() || text.len() > MAX_URL || !is_plain {
        return None;
    }
    match text.split_once("://") {
        Some(("http" | "https", _)) => Some(text.into()),
        Some(_) => None,
        None if text.contains(':') && !text.contains('/') => None,
        None => Some(format!("https://{text}").into()),
    }
}

fn metric(value: &Value) -> Option<MetricValue> {
    Some(match value {
        Value::Null => return None,
        Value::Number(number) => MetricValue::Number(number.as_f64()?),
        Value::String(text) => match text.as_str() {
            "NaN" => MetricValue::Number(f64::NAN),
            "Infinity" => MetricValue::Number(f64::INFINITY),
            "-Infinity" => MetricValue::Number(f64::NEG_INFINITY),
            text => MetricValue::Text(sanitize(text, MAX_METRIC_NAME).into()),
        },
        other @ (Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            MetricValue::Text(sanitize(&other.to_string(), MAX_METRIC_NAME).into())
        }
    })
}

fn other_metrics(metrics: Section<'_>) -> Arc<[(Arc<str>, MetricValue)]> {
    let own = ["loss", "learning_rate", "samples_processed"];
    let others = metrics.values.into_iter().flatten();
    let others = others
        .filter(|(name, _)| !own.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((sanitize(name, MAX_METRIC_NAME).into(), metric(value)?)));
    others.take(MAX_METRICS).collect()
}

fn resources(resources: Section<'_>) -> Option<FileResources> {
    resources.values?;
    Some(FileResources {
        processes: resources.count("processes"),
        threads: resources.count("threads"),
        cpu_percent: resources.number("cpu_percent"),
        ram_mib: resources.number("ram_mb"),
        device_memory_mib: resources.number("gpu_mem_mib"),
        taken_at: resources.time("timestamp"),
    })
}

/// Returns the variables that the job has taken over; `None` if it does not acknowledge.
fn acknowledged(section: Section<'_>) -> Option<Arc<[RunVariable]>> {
    let variables = section.section("variables").values?;
    Some(variables.iter().map(|(name, value)| variable_of_value(name, value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/ttop");
        std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
    }

    #[test]
    fn files_of_ttop_are_read() {
        let progress = parse_progress(&fixture("ttop-progress-running.json"), 0).unwrap();
        assert_eq!(progress.status, Some(RunStatus::Running));
        assert_eq!((progress.pid, progress.host.as_deref()), (Some(4125), Some("vm")));
        assert_eq!((progress.epoch, progress.total_epochs), (Some(0), Some(2)));
        assert_eq!((progress.batch, progress.total_batches), (Some(3), Some(5)));
        assert_eq!(progress.url.as_deref(), Some("https://wandb.ai/x/y/runs/1"));
        assert_eq!(progress.loss, Some(MetricValue::Number(0.5)));
        assert!(progress.training_started_at.is_some() && progress.validation_started_at.is_none());
        assert_eq!(progress.acknowledged, None);
        for (name, status) in [
            ("canceled", RunStatus::Canceled),
            ("failed", RunStatus::Failed),
            ("killed", RunStatus::Killed),
        ] {
            let text = fixture(&format!("ttop-progress-{name}.json"));
            let progress = parse_progress(&text, 0).unwrap();
            assert_eq!(progress.status, Some(status));
            assert!(progress.ended_at.is_some());
            assert_eq!(progress.error.is_some(), name == "failed");
        }
        let ended =
            parse_progress(&fixture("ttop-progress-finished-with-resources.json"), 5_000_000)
                .unwrap();
        assert_eq!(ended.resources.unwrap().processes, Some(1));
        assert_eq!(ended.ended_at, Some(Timestamp::from_micros(1_795_226_192_454_820)));
        assert_eq!(ended.epoch_estimate.durations.len(), 2);
    }

    #[test]
    fn a_total_of_zero_is_unknown_and_an_epoch_that_never_began_is_none() {
        let epoch = |text: &str| {
            let progress = parse_progress(text, 0).unwrap();
            (progress.epoch, progress.total_epochs, progress.batch, progress.total_batches)
        };
        let tutorial = r#"{"state":{"epoch":0,"batch":3,"total_epochs":0,"total_batches":0},
            "timing":{"epoch_start":null},"estimates":{"epoch":{"durations":[]}}}"#;
        assert_eq!(epoch(tutorial), (None, None, Some(3), None));
        let begun = tutorial.replace("null", "1795226187.5");
        assert_eq!(epoch(&begun), (Some(0), None, Some(3), None));
        let ended = tutorial.replace("[]", "[2.5]");
        assert_eq!(epoch(&ended), (Some(0), None, Some(3), None));
        let later = tutorial.replace("\"epoch\":0", "\"epoch\":4");
        assert_eq!(epoch(&later), (Some(4), None, Some(3), None));
        let told = tutorial.replace("_epochs\":0", "_epochs\":7");
        assert_eq!(epoch(&told), (Some(0), Some(7), Some(3), None));
    }

    #[test]
    fn batches_of_a_validation_are_counted_by_themselves() {
        for (phase, batch, told, expected) in [
            ("training", 3, "", (Some(3), None)),
            // As ttop counts on.
            ("validation", 7, "", (Some(5), Some(2))),
            ("validating", 6, "", (Some(5), Some(1))),
            // Its job counts no batches of the validation, or the training has ended early.
            ("validation", 5, "", (Some(5), None)),
            ("validation", 4, "", (Some(4), None)),
            ("training", 7, "", (Some(7), None)),
            // As gtop's monitor counts.
            ("validation", 7, ",\"validation_batch\":0", (Some(7), Some(0))),
            ("validation", 5, ",\"validation_batch\":2", (Some(5), Some(2))),
        ] {
            let text = format!(
                r#"{{"state":{{"phase":"{phase}","batch":{batch},"total_batches":5{told}}}}}"#
            );
            let progress = parse_progress(&text, 0).unwrap();
            assert_eq!((progress.batch, progress.validation_batch), expected, "{text}");
        }
        let text = r#"{"state":{"phase":"validation","batch":7,"total_batches":0}}"#;
        let progress = parse_progress(text, 0).unwrap();
        assert_eq!((progress.batch, progress.validation_batch), (Some(7), None));
    }

    #[test]
    fn status_and_end_may_stand_in_the_metadata() {
        let text = r#"{"metadata":{"status":"FAILED","end_time":1795226187,"error_message":"no\nmemory"}}"#;
        let progress = parse_progress(text, 0).unwrap();
        assert_eq!(progress.status, Some(RunStatus::Failed));
        assert_eq!(progress.error.as_deref(), Some("no memory"));
        assert!(progress.ended_at.is_some());
    }

    #[test]
    fn values_of_wrong_types_are_unknown() {
        let text = r#"{"metadata":{"pid":"1","hostname":7,"start_time":-1,"wandb_url":"javascript:alert(1)"},
            "status":[],"state":{"epoch":-1,"batch":1.5,"total_epochs":null,"total_batches":1e400},
            "estimates":{"run":{"rate":"x","elapsed":-5,"durations":[1,-1,"a",2]}},"timing":[],
            "metrics":{"loss":{},"acc":true,"samples_processed":1e300}}"#;
        // A number beyond all floats is no JSON for serde.
        assert!(parse_progress(text, 0).is_err());
        let progress = parse_progress(&text.replace("1e400", "9e99"), 0).unwrap();
        let none = Progress::default();
        assert_eq!((progress.pid, &progress.host, progress.started_at), (None, &None, None));
        assert_eq!((progress.epoch, progress.batch, progress.total_batches), (None, None, None));
        assert_eq!((progress.url, progress.status), (none.url, None));
        assert_eq!(*progress.run.durations, [1.0, 2.0]);
        assert_eq!(progress.run.elapsed, None);
        assert_eq!(progress.samples, None);
        assert_eq!(progress.metrics[0].1, MetricValue::Text("true".into()));
    }

    #[test]
    fn constants_of_python_are_numbers() {
        let text =
            r#"{"metrics":{"loss":NaN,"learning_rate":"Infinity","a":-Infinity,"NaN":"is \"NaN"}}"#;
        let progress = parse_progress(text, 0).unwrap();
        assert!(matches!(progress.loss, Some(MetricValue::Number(value)) if value.is_nan()));
        assert_eq!(progress.learning_rate, Some(MetricValue::Number(f64::INFINITY)));
        assert_eq!(progress.metrics.len(), 2);
        let metric = |name: &str| {
            progress.metrics.iter().find(|(known, _)| **known == *name).unwrap().1.clone()
        };
        assert_eq!(metric("a"), MetricValue::Number(f64::NEG_INFINITY));
        assert_eq!(metric("NaN"), MetricValue::Text("is \"NaN".into()));
    }

    #[test]
    fn a_part_of_a_file_is_an_error_and_never_a_panic() {
        let text = fixture("ttop-progress-running.json");
        for end in 0..text.trim_end().len() {
            assert!(parse_progress(text.get(..end).unwrap(), 0).is_err(), "{end}");
        }
        assert_eq!(parse_progress("", 0), Err("empty".to_owned()));
        assert_eq!(parse_progress("[1]", 0), Err("not a JSON object".to_owned()));
        assert_eq!(parse_progress("{", 0), Err("incomplete JSON".to_owned()));
        assert!(parse_progress(&"[".repeat(100_000), 0).is_err());
    }

    #[test]
    fn links_are_plain_web_addresses() {
        for (text, url) in [
            ("wandb.ai/x", Some("https://wandb.ai/x")),
            ("http://localhost:8080/x", Some("http://localhost:8080/x")),
            ("file:///etc/passwd", None),
            ("javascript:alert(1)", None),
            ("https://a/\u{1b}]8;;x", None),
            ("https://a b", None),
            ("", None),
        ] {
            assert_eq!(url_of(text).as_deref(), url, "{text:?}");
        }
    }
}
