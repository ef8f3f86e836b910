//! What the cells of the heat map mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::view::RenderContext;
use crate::view::fleet::State;
use crate::view::fleet::cell::{FAULTY, HEAT, HELD, NOBODY, Quantity, SEVERAL, STALE, UNSAID};
use crate::view::fleet::claim::{Claim, Roll, whole_devices};
use crate::view::fleet::column::{self, COLUMNS};
use crate::view::fleet::grouping::Grouping;
use crate::view::fleet::letters::BEYOND;
use crate::view::fleet_view::{FleetView, ViewVersion};
use crate::view::line::{Line, Symbol, Tone, flow_told};
use crate::view::number_format::Units;
use crate::view::sort_order::SortOrder;

/// How many fresh devices each of those has that letters stand for; the largest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    key: Option<(ViewVersion, Quantity)>,
    of: Vec<(Arc<str>, usize)>,
}

impl Tally {
    /// Counts once a picture.
    pub(super) fn settle(&mut self, picture: &FleetView, roll: &Roll, quantity: Quantity) {
        let key = Some((picture.stamp(), quantity));
        if self.key == key {
            return;
        }
        self.key = key;
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for node in picture.nodes() {
            let claims = roll.claims(node);
            for position in whole_devices(node) {
                let Some(claim) = claims.devices.get(position) else { continue };
                // Those of old numbers keep their letters, and count for nothing.
                let is_fresh = node.fault().is_none()
                    && node.device_freshness(position, picture.now).is_fresh();
                for name in names(claim, quantity) {
                    *counts.entry(name).or_default() += usize::from(is_fresh);
                }
            }
        }
        self.of = counts.into_iter().collect();
        self.of.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }

    /// Returns everybody who is counted, the largest first.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.of.iter().map(|(name, _)| name)
    }
}

fn names(claim: &Claim, quantity: Quantity) -> Vec<Arc<str>> {
    match quantity {
        Quantity::Owner => claim.users.clone(),
        Quantity::Job => claim.jobs.iter().map(|job| job.as_str().into()).collect(),
        Quantity::Utilization | Quantity::Memory | Quantity::Power | Quantity::Temperature => {
            Vec::new()
        }
    }
}

/// Returns the lines over the map: what cells show, and what each of their signs means.
pub(super) fn lines(
    scene: RenderContext<'_>,
    place: &State,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let most = match height {
        0..4 => 0,
        4..10 => 1,
        10..20 => 2,
        _ => 3,
    };
    let mut lines = flow_told(signs(scene, place), 3, width, most.max(2) - 1);
    if most > 1 {
        lines.insert(0, choice(place, width));
    }
    lines.truncate(most);
    if height >= 16 {
        lines.push(Line::new());
    }
    lines
}

/// By what cells are shown and nodes stand together.
fn choice(place: &State, width: u16) -> Line {
    let mut line = Line::of("by", Tone::Faint).gap(1);
    for quantity in Quantity::ALL {
        // The one that is shown is told by its brackets too: not every screen has colours.
        line = if quantity == place.quantity {
            line.text(format!("[{}]", quantity.label()), Tone::Accent)
        } else {
            line.gap(1).text(quantity.label(), Tone::Faint).gap(1)
        };
    }
    let mut right = Line::new();
    if place.order != SortOrder::by("node") {
        let column = COLUMNS.iter().find(|column| column.name == place.order.column);
        let label = column.map_or("", |column| column.label);
        let arrow = column::arrow(place.order);
        right = right.text("sorted by ", Tone::Faint).text(format!("{label}{arrow}"), Tone::Plain);
    }
    if place.grouping != Grouping::None {
        right = if right.width() > 0 { right.gap(3) } else { right };
        let label = place.grouping.label();
        right = right.text("grouped by ", Tone::Faint).text(label, Tone::Plain);
    }
    if line.width() + right.width() + 2 <= width {
        line.against(right, width)
    } else {
        line.cut(width)
    }
}

fn signs(scene: RenderContext<'_>, place: &State) -> Vec<Line> {
    let strip = |marks: &[(Symbol, Tone)], words: &str| {
        let width = u16::try_from(marks.len()).unwrap_or(u16::MAX);
        Line::new().strip(marks.to_vec(), width).text(format!(" {words}"), Tone::Faint)
    };
    let sign = |mark: (Symbol, Tone), words: &str| strip(&[mark], words);
    let mut signs = Vec::new();
    match place.quantity {
        Quantity::Owner | Quantity::Job => {
            let nothing = if place.quantity == Quantity::Owner { "nobody" } else { "no job" };
            signs.push(sign(NOBODY, nothing).gap(2).then(sign(SEVERAL, "several")));
            if place.quantity == Quantity::Owner {
                signs.push(sign(UNSAID, "not told"));
            }
            signs.push(strip(&STALE, "stale"));
            signs.push(sign(FAULTY, "fault"));
            let is_beyond = |(name, _): &&(Arc<str>, usize)| place.letters.is_beyond(name);
            let seen = place.tally.of.iter().filter(|(_, count)| *count > 0);
            let beyond = seen.clone().filter(is_beyond).count();
            if beyond > 0 {
                let (letter, hue) = BEYOND;
                signs.push(sign(
                    (Symbol::Letter(letter, hue), Tone::Plain),
                    &format!("{beyond} others"),
                ));
            }
            for (name, count) in seen.filter(|entry| !is_beyond(entry)) {
                let (letter, hue) = place.letters.of(name);
                let called = called(place, name);
                let line = Line::new()
                    .strip(vec![(Symbol::Letter(letter, hue), Tone::Plain)], 1)
                    .text(format!(" {called}"), Tone::Plain)
                    .text(format!(" {count}"), Tone::Faint);
                signs.push(line);
            }
        }
        quantity @ (Quantity::Utilization
        | Quantity::Memory
        | Quantity::Power
        | Quantity::Temperature) => {
            signs.push(scale(scene, quantity));
            if quantity == Quantity::Utilization {
                signs.push(sign(NOBODY, "idle").gap(2).then(sign(HELD, "idle-held")));
            }
            signs.push(strip(&STALE, "stale"));
            signs.push(sign(FAULTY, "fault"));
        }
    }
    signs
}

fn called(place: &State, name: &str) -> String {
    let job = crate::model::JobId::new(name).filter(|_| place.quantity == Quantity::Job);
    job.map_or_else(|| name.to_owned(), |job| place.roll.name(&job))
}

/// Five of the eight levels with their shares.
fn scale(scene: RenderContext<'_>, quantity: Quantity) -> Line {
    let (mut line, units) = (Line::new(), Units::of(scene.taste));
    for part in [6.25, 31.25, 56.25, 81.25, 100.0] {
        let tone = quantity.tone(scene, part);
        let shown = if quantity == Quantity::Temperature {
            units.heat(HEAT.0 + quarter(part) / 100.0 * (HEAT.1 - HEAT.0))
        } else {
            quarter(part)
        };
        line = line
            .strip(vec![(Symbol::Level(part), tone)], 1)
            .text(format!("={shown:.0} "), Tone::Faint);
    }
    let is_heat = quantity == Quantity::Temperature;
    let unit = if is_heat { units.degree() } else { "%" };
    line.text(unit, Tone::Faint)
}

/// Returns the share at which a level begins.
fn quarter(part: f32) -> f32 {
    (part / 25.0).floor() * 25.0
}
