//! What is said of a node in the list: what is wrong, what lags, what is held in vain, what is free.

use crate::fleet::{Node, is_idle};
use crate::time::lasting;
use crate::view::fleet::claim::Claims;
use crate::view::fleet::idle::{self, IN_VAIN, REACH, Span};
use crate::view::fleet::plan::Member;
use crate::view::fleet_view::FleetView;
use crate::view::line::Tone;
use crate::view::node_status::{NodeStatus, Note, label, notes};

/// Returns what is to be said, the most important first.
pub(super) fn remarks(
    picture: &FleetView,
    node: &Node,
    member: &Member,
    claims: &Claims,
) -> Vec<Note> {
    let mut all = notes(picture, node);
    if !NodeStatus::of(node, picture.now).is_fresh() {
        return all;
    }
    // Something more exact may be said than that all is free.
    let free = all.iter().position(|(words, tone)| words == "free" && *tone == Tone::Faint);
    let lag = idle::lag(node, claims, picture.now).filter(|lag| member.has(lag.position));
    if let Some(lag) = lag {
        let name = node.devices.get(lag.position).map(|device| label(node, device));
        let name = name.unwrap_or_default();
        let words = format!("#{name} lags: {:.0}% for {}", lag.percent, span(lag.lasting));
        all.push((words, Tone::Warn));
    }
    // What lags is told of already.
    let meant = member.positions(node).into_iter();
    let others = meant.filter(|position| lag.is_none_or(|lag| lag.position != *position));
    let spans =
        others.filter_map(|position| idle::held(node, claims, position, picture.now, REACH));
    all.extend(held(&spans.collect::<Vec<_>>()));
    if free.is_none() {
        all.extend(part_free(node, member, claims));
    }
    all.sort_by_key(|(_, tone)| std::cmp::Reverse((*tone).max(Tone::High)));
    all
}

/// Writes how long something has lasted; a plus says that nothing older is known.
pub(super) fn span(span: Span) -> String {
    format!("{}{}", lasting(span.span), if span.is_open { "+" } else { "" })
}

/// Devices that somebody holds and that do nothing.
fn held(spans: &[Span]) -> Option<Note> {
    let shortest = *spans.iter().min_by_key(|idle| idle.span)?;
    let count = spans.len();
    let tone = if shortest.span >= IN_VAIN { Tone::Warn } else { Tone::Plain };
    Some((format!("{count} held, idle {}", span(shortest)), tone))
}

/// Devices nobody uses, on a node that is not free as a whole.
fn part_free(node: &Node, member: &Member, claims: &Claims) -> Option<Note> {
    let is_free = |position: &usize| {
        let (Some(device), Some(claim)) =
            (node.devices.get(*position), claims.devices.get(*position))
        else {
            return false;
        };
        let is_claimed = claim.is_held || claim.is_unsaid || !claim.users.is_empty();
        device.fault.is_none() && is_idle(device) && !is_claimed
    };
    let count = member.positions(node).iter().filter(|position| is_free(position)).count();
    (count > 0).then(|| (format!("{count} free"), Tone::Faint))
}
