//! Examines a page of metrics: whether it is served, by which exporter, and what is on it.

use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::StepResult;
use gtop_collect::transport::{self, PageUrl, ScrapeFault};
use gtop_collect::wire::{Decoder, Delivery, Exporter, RawUpdate, excerpt};
use gtop_fleet::advice::{self, Known};
use gtop_local::text::counted;
use gtop_local::time::Clock;
use gtop_model::{NodeUpdate, Sample};

/// The step that reads the page.
pub(super) const PAGE: &str = "page";

/// Adds the steps of a page.
pub(super) async fn add_steps(
    url: &PageUrl,
    limit: Option<Duration>,
    clock: &Clock,
    known: &Known,
    steps: &mut Vec<StepResult>,
) {
    let began = Instant::now();
    let fetched = url.fetch(limit).await;
    let duration = began.elapsed();
    let page = match fetched {
        Ok(page) => page,
        Err(fault) => return steps.push(failed(PAGE, fault, known).with_duration(duration)),
    };
    let size = page.text.len().div_ceil(1024);
    let found = format!("{url} is served, {size} KiB of text; gtop asks the host for nothing else");
    steps.push(StepResult::ok(PAGE, found).with_duration(duration));
    steps.push(match excerpt(&page.text, page.served_at) {
        None => {
            let fault = ScrapeFault::OtherFamilies { families: Exporter::wanted() };
            failed("exporter", fault, known)
        }
        Some(text) => {
            let exporters = Exporter::of_text(&text);
            let names: Vec<&str> = exporters.iter().map(|exporter| exporter.name()).collect();
            let delivery = Delivery { at: clock.now(), raw: RawUpdate::Scrape(text) };
            let counted =
                Decoder::default().updates(&delivery).find_map(|update| contents(&update));
            let counted = counted.unwrap_or_default();
            StepResult::ok("exporter", format!("{}: {counted}", names.join(" and ")))
        }
    });
}

fn failed(step: &str, fault: ScrapeFault, known: &Known) -> StepResult {
    let fault = transport::Fault::Scrape(fault);
    StepResult::failed(step, fault.to_string()).with_advice(&advice::of_cause(&fault, known))
}

/// Summarizes what is on a page.
fn contents(update: &NodeUpdate) -> Option<String> {
    let NodeUpdate::Sample(sample) = update else { return None };
    let Sample { backends, processes, .. } = &**sample;
    let lists = backends.iter().filter_map(|backend| backend.devices.as_ref());
    let devices: usize = lists.map(|devices| devices.list.len()).sum();
    let of_devices = (!backends.is_empty()).then(|| {
        let processes = processes.as_ref().map_or(0, |processes| processes.list.len());
        let of = counted(processes, "process");
        format!("{}, {of} on them, ", counted(devices, "device"))
    });
    Some(format!("{}the host", of_devices.unwrap_or_default()))
}
