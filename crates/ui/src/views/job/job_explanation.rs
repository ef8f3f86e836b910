//! Explains a job: the state of its devices, then what the scheduler reports.

use crate::render_context::RenderContext;
use crate::timeline::time_text;
use crate::views::job::load::JobLoad;
use crate::views::job::summary::JobSummary;
use crate::widgets::explanation::{Explanation, Fact, Remark};
use crate::widgets::host_share::share_texts;
use crate::widgets::number_format::or_unknown;
use gtop_fleet::insight::jobs::JobEntry;
use gtop_fleet::metrics::{JOB, JobAt};
use gtop_model::{FinishedJob, Job, JobState, nodeset};

/// Maximum number of devices that are listed one by one; the open job lists more.
const MAX_FINDINGS: usize = 4;

/// Maximum number of nodes whose hosts are listed one by one.
const MAX_SHARES: usize = 8;

const SHARE_HELP: &str = "CPUs and memory in use, of what its control group may use; without pages of files that nobody has used for long";
const PROBLEM_HELP: &str = "devices that are lost, faulty or have uncorrected memory errors (ECC), and nodes that are down or stale";
const FRESH_HELP: &str =
    "of its nodes that match, those whose numbers are new; the above is counted on these";

/// Explains a job, running, pending or ended.
pub(super) fn of_job(context: RenderContext<'_>, job: &Job) -> Explanation {
    let fleet_view = context.view;
    let format = (context.options.units(), context.zone);
    let at = JobAt { job: job.clone(), now: fleet_view.now };
    let mut facts = Fact::of_metrics(JOB.iter(), &at, format);
    let list = fleet_view.fleet.jobs.as_ref();
    if let Some(finished) = list.and_then(|list| list.finished.job(&job.shown_id))
        && job.state == JobState::Ended
    {
        // It has no latest end and no time left.
        facts.retain(|fact| !["end", "left"].contains(&&*fact.name));
        let ended = job.ends_at.map(|at| time_text(at, context.zone, "%a %H:%M:%S"));
        let ended = Fact::of_cell("ended", ended.unwrap_or_default(), "when it ended");
        let how = [vec![ended], finished_facts(finished)].concat();
        return Explanation::new(format!("job {} {}", job.shown_id, job.name))
            .with_numbers("how it ended", None, how)
            .with_numbers("from accounting", list.and_then(|list| list.finished.at), facts);
    }
    let listed_at = list.and_then(|list| list.at);
    let entry = fleet_view.job_index().entry(&job.id);
    let is_listed = entry.is_none_or(|entry| entry.is_listed);
    let source = if is_listed { "from the scheduler" } else { "from the processes of the job" };
    let load = entry.map(|entry| load_facts(&JobLoad::of(fleet_view, entry))).unwrap_or_default();
    let remarks = entry.map(|entry| findings(context, entry)).unwrap_or_default();
    Explanation::new(format!("job {} {}", job.shown_id, job.name))
        .with_remarks(remarks)
        .with_numbers("its devices now", None, load)
        .with_numbers("what it uses of its nodes", None, share_facts(context, job))
        .with_numbers(source, listed_at.filter(|_| is_listed), facts)
}

/// Lists what the job uses of the hosts of its first nodes, and what it may use.
fn share_facts(context: RenderContext<'_>, job: &Job) -> Vec<Fact> {
    let nodes = job.allocations.iter().filter_map(|known| context.view.fleet.node(&known.node));
    let shares = nodes.filter_map(|node| Some((node, node.share_of(job)?)));
    let facts = shares.take(MAX_SHARES).map(|(node, share)| {
        let text = share_texts(share, context.options.units()).join("  ");
        Fact::of_cell(node.name.label(), text, SHARE_HELP)
    });
    facts.collect()
}

/// Lists the devices that are faulty or differ from the others, and how.
fn findings(context: RenderContext<'_>, entry: &JobEntry) -> Vec<Remark> {
    let summary = JobSummary::build(context.view, entry, context.options.units());
    let remarks = summary.findings.iter().take(MAX_FINDINGS).map(|found| Remark {
        note: format!("{} {}", found.device, found.text),
        tone: found.tone,
        meaning: String::new(),
        remedy: String::new(),
    });
    remarks.collect()
}

/// Returns how a job ended, and what it had.
fn finished_facts(finished: &FinishedJob) -> Vec<Fact> {
    let number = |number: Option<u32>| or_unknown(number, |number| number.to_string());
    let nodes = finished.job.allocations.iter().map(|allocation| allocation.node.as_str());
    let cancelled_by = finished.cancelled_by.as_deref().unwrap_or_default();
    let facts = [
        ("outcome", finished.outcome_text(), "how it ended"),
        ("exit", number(finished.exit_code), "exit code of its script"),
        ("signal", number(finished.signal), "signal that ended its script"),
        ("cancelled by", cancelled_by.to_owned(), "who cancelled it"),
        ("devices", number(finished.devices), "number of its devices on all nodes"),
        ("nodes", nodeset::fold(nodes), "the nodes it ran on"),
    ];
    facts.map(|(name, text, meaning)| Fact::of_cell(name, text, meaning)).to_vec()
}

/// Returns what the list sorts the job by, then what that is counted from.
fn load_facts(load: &JobLoad) -> Vec<Fact> {
    let measured = load.utilization.as_ref().map_or(0, |shares| shares.count);
    let parts = if measured > load.reporting { "devices and slices" } else { "devices" };
    let problems: Vec<String> =
        load.problems().map(|(count, word, _)| format!("{count} {word}")).collect();
    // Nothing is known of a job of which no node has answered.
    let problem = if problems.is_empty() {
        or_unknown((load.fresh > 0).then_some("no fault"), str::to_owned)
    } else {
        problems.join(" · ")
    };
    let [idle, outliers] = [(load.idle(), load.reporting), (load.outliers(), measured)]
        .map(|(count, all)| or_unknown(count, |count| format!("{count} of {all}")));
    let lowest = load.utilization.as_ref().zip(load.lowest.as_ref());
    let lowest = or_unknown(lowest, |(shares, name)| format!("{:.0}% {name}", shares.min));
    let devices = match (load.matching, load.device_total()) {
        (Some(matching), Some(all)) if matching < all => format!("{matching} of {all}"),
        (_, all) => or_unknown(all, |all| all.to_string()),
    };
    let mean = or_unknown(load.mean(), |mean| format!("{mean:.0}%"));
    let fresh = format!("{} of {}", load.fresh, load.matching_nodes);
    let of_outliers = format!("{parts} far from the utilization of the others");
    let facts = [
        ("problem", problem, PROBLEM_HELP),
        ("idle", idle, "devices below 5% utilization now"),
        ("outliers", outliers, &of_outliers),
        ("lowest", lowest, "the lowest utilization, and the node and device that has it"),
        ("util", mean, "mean utilization"),
        ("devices", devices, "devices of the job; with a filter, those that match"),
        ("fresh", fresh, FRESH_HELP),
    ];
    facts.map(|(name, text, meaning)| Fact::of_cell(name, text, meaning)).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::text::UNKNOWN;

    #[test]
    fn nothing_is_said_of_the_devices_of_nodes_that_have_not_answered() {
        let problem = |fresh| {
            let mut load = JobLoad::default();
            (load.fresh, load.nodes) = (fresh, 2);
            load_facts(&load).into_iter().find(|fact| fact.name == "problem").unwrap()
        };
        assert_eq!(problem(1).value, Fact::known("", "no fault", "").value);
        assert_eq!(problem(0).value, Fact::of_cell("", UNKNOWN, "").value);
    }
}
