//! What matters of a device, in a few lines: how sound it is, what it does, and for whom.

use crate::render_context::RenderContext;
use crate::widgets::explanation::Fact;
use crate::widgets::number_format::power_text;
use gtop_fleet::insight::node_status::shown_id;
use gtop_fleet::metrics::device_fields;
use gtop_fleet::{DeviceState, HealthReason, Node, StateReason};
use gtop_model::{Device, Reading, Reason};

/// Returns the facts about a device, each in a line.
pub(super) fn facts(
    context: RenderContext<'_>,
    node: &Node,
    (position, device): (usize, &Device),
) -> Vec<Fact> {
    let units = context.options.units();
    let metric = |alias: &str, meaning: &str| {
        let field = device_fields().filter(|field| field.alias == alias);
        let facts = Fact::of_metrics(field, device, (units, context.zone)).into_iter();
        facts.map(|fact| Fact { meaning: meaning.to_owned(), ..fact }).next()
    };
    let reasons: Vec<String> = node.health_reasons(device).iter().map(HealthReason::text).collect();
    let health = Fact::known("health", node.health(device).as_str(), reasons.join(", "));
    let state = DeviceState::of(node, position, context.view.now).map(|state| {
        let reason = StateReason::last_known(node, position).map_or("", StateReason::text);
        Fact::known("state", state.name(), reason)
    });
    let memory = units.usage_with_unit(device.memory_used.get(), device.memory_total.get());
    let power = power_text(device.power.get(), device.power_limit.get());
    let facts = [
        Some(health),
        state,
        metric("util", "share of time in which it was executing work"),
        Some(unless_unknown(
            "mem",
            device.memory_used.reason(),
            memory,
            "device memory in use, of all",
        )),
        Some(unless_unknown("power", device.power.reason(), power, "power draw, of the limit")),
        metric("temp", "core temperature"),
        Some(holders(context, node, position)),
        Some(Fact::known("uuid", &*device.uuid, "")),
    ];
    facts.into_iter().flatten().collect()
}

/// Makes a fact of a text, or of the reason for which there is no value.
fn unless_unknown(name: &str, why: Option<Reason>, text: String, meaning: &str) -> Fact {
    let value = why.map_or(Reading::Known(text), Reading::Unknown);
    Fact { value: Some(value), ..Fact::known(name, "", meaning) }
}

/// Returns who holds the device: its users, and its jobs with their names.
fn holders(context: RenderContext<'_>, node: &Node, position: usize) -> Fact {
    let list = context.view.fleet.jobs.as_deref();
    let holdings = node.device_holdings(position);
    let jobs = holdings.jobs().map(|id| {
        let name = list.and_then(|list| list.job(id)).map_or("", |job| &*job.name);
        format!("job {} {name}", shown_id(list, id)).trim_end().to_owned()
    });
    let holders: Vec<String> =
        holdings.users().iter().map(ToString::to_string).chain(jobs).collect();
    let is_unknown = holders.is_empty() && node.has_unknown_user(position);
    let why = node.users_unknown_reason(position).unwrap_or(Reason::NotAvailable);
    let text = if holders.is_empty() { "nobody".to_owned() } else { holders.join(", ") };
    unless_unknown("held by", is_unknown.then_some(why), text, "")
}
