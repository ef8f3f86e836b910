//! The focus: one node is sampled as often as its sources allow, for a minute, while the user looks at it.

use std::time::Duration;

use gtop_fleet::Node;
use gtop_local::time::{Timestamp, format_age};
use gtop_model::{Focus, Link, Source};

/// How long a focus lasts. The probe ends it by itself a little later.
const FOCUS_DURATION: Duration = Duration::from_secs(60);

/// Begins a focus on a node, or returns why there is none.
pub(crate) fn begin(node: Option<&Node>, now: Timestamp) -> Result<Focus, String> {
    let node = node.ok_or("select a node to focus on")?;
    if node.is_read_from_page() {
        return Err(format!(
            "{} is read from a page of metrics, always at the usual interval",
            node.name
        ));
    }
    match node.link {
        Link::Up => Ok(Focus { node: node.name.clone(), until: now.plus(FOCUS_DURATION) }),
        Link::Idle | Link::Opening { .. } | Link::Down { .. } => {
            Err(format!("{} is not connected", node.name))
        }
    }
}

/// Returns why a focus ends, given the node that is shown now; `None` while it goes on.
pub(crate) fn end_reason(focus: &Focus, shown: Option<&Node>, now: Timestamp) -> Option<String> {
    let name = &focus.node;
    let Some(node) = shown.filter(|node| node.name == *name) else {
        return Some(format!("focus on {name} ended: the node is no longer shown"));
    };
    if node.link != Link::Up {
        return Some(format!("focus on {name} ended: the node is down"));
    }
    (now >= focus.until).then(|| format!("focus on {name} ended after a minute"))
}

/// Returns how often the node is sampled, and what that costs it.
pub(crate) fn text(focus: &Focus, node: &Node, now: Timestamp) -> String {
    let host = rate(node, &Source::host());
    // The rate of a source is shown where its driver allows less.
    let device = node.device_sources.first().and_then(|source| {
        let rate = rate(node, source).filter(|rate| Some(rate) != host.as_ref())?;
        Some(format!("{} {rate}", source.as_str()))
    });
    let left = format!("FOCUS {} {}", node.name, format_age(focus.until.since(now)));
    let parts = [Some(left), host, device, Some(cost_text(focus, node, now))];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Returns how often a source is read, if that is more than once a second.
fn rate(node: &Node, source: &Source) -> Option<String> {
    let seconds = node.source(source)?.interval.as_secs_f64();
    (0.0 < seconds && seconds < 1.0).then(|| format!("{:.0}/s", 1.0 / seconds))
}

/// Returns the probe's share of a core, as it was measured since the focus began.
fn cost_text(focus: &Focus, node: &Node, now: Timestamp) -> String {
    let began = focus.until.minus(FOCUS_DURATION);
    let is_measured = node.hello.as_ref().is_some_and(|hello| !hello.is_shell_probe);
    match node.probe_cost.filter(|cost| cost.at > began) {
        Some(cost) => {
            let age = format_age(now.since(cost.at));
            format!("probe {:.1}% of a core, {age} ago", cost.core_percent)
        }
        None if is_measured => "probe: measuring".to_owned(),
        None => "probe: cost unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gtop_fleet::SourceState;
    use gtop_model::{Fault, FaultKind, Hello, NodeName, ProbeCost};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn node(name: &str) -> Node {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.hello = Some(Arc::new(Hello { probe: "python 3.11.2".into(), ..Hello::default() }));
        node
    }

    fn sampled_every(node: &mut Node, source: &str, millis: u64) {
        node.sources.push(SourceState {
            source: Source::new(source),
            taken_at: None,
            interval: Duration::from_millis(millis),
            fault: None,
            absent: None,
        });
    }

    fn after(seconds: u64) -> Timestamp {
        NOW.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_focus_ends_after_a_minute() {
        let node = node("gpu01");
        let focus = begin(Some(&node), NOW).unwrap();
        assert_eq!(end_reason(&focus, Some(&node), after(59)), None);
        let reason = end_reason(&focus, Some(&node), after(60)).unwrap();
        assert_eq!(reason, "focus on gpu01 ended after a minute");
    }

    #[test]
    fn a_focus_ends_when_its_node_is_not_shown_or_goes_down() {
        let mut one = node("gpu01");
        let focus = begin(Some(&one), NOW).unwrap();
        for shown in [None, Some(&node("gpu02"))] {
            let reason = end_reason(&focus, shown, NOW).unwrap();
            assert_eq!(reason, "focus on gpu01 ended: the node is no longer shown");
        }
        let fault = Fault::new(FaultKind::Silent, "");
        one.link = Link::Down { fault, retry_at: None };
        assert!(end_reason(&focus, Some(&one), NOW).unwrap().ends_with("the node is down"));
        assert_eq!(begin(Some(&one), NOW).unwrap_err(), "gpu01 is not connected");
        assert!(begin(None, NOW).is_err());
    }

    #[test]
    fn rates_are_those_that_the_probe_announces() {
        let mut node = node("gpu01");
        let focus = begin(Some(&node), NOW).unwrap();
        sampled_every(&mut node, "host", 1000);
        // Until the probe has followed, nothing is claimed.
        assert_eq!(text(&focus, &node, NOW), "FOCUS gpu01 1m00s · probe: measuring");
        node.sources.clear();
        sampled_every(&mut node, "host", 50);
        sampled_every(&mut node, "nvml", 100);
        node.device_sources = [Source::new("nvml")].into();
        let shown = text(&focus, &node, after(10));
        assert_eq!(shown, "FOCUS gpu01 50s · 20/s · nvml 10/s · probe: measuring");
    }

    #[test]
    fn the_cost_is_told_with_its_age_and_only_if_measured_in_this_focus() {
        let mut node = node("gpu01");
        let focus = begin(Some(&node), NOW).unwrap();
        let cost = |at| Some(ProbeCost { core_percent: 1.44, at });
        node.probe_cost = cost(NOW.minus(Duration::from_secs(5)));
        assert!(text(&focus, &node, after(1)).ends_with("probe: measuring"));
        node.probe_cost = cost(after(4));
        assert!(text(&focus, &node, after(7)).ends_with("probe 1.4% of a core, 3s ago"));
        node.probe_cost = None;
        node.hello = Some(Arc::new(Hello { is_shell_probe: true, ..Hello::default() }));
        assert!(text(&focus, &node, after(7)).ends_with("probe: cost unknown"));
    }
}
