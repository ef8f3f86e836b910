//! One device in one column: by how much it works, how warm it is, or whose it is.
//!
//! Loads stand on eight levels, and a cell leaves its level only when the load is clearly beyond it:
//! what wavers around a border does not flicker.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::{ACTIVE_PERCENT, Node, is_idle_held};
use crate::model::{Celsius, Device, Percent};
use crate::time::Timestamp;
use crate::view::RenderContext;
use crate::view::fleet::claim::{Claims, Roll};
use crate::view::fleet::letters::Letters;
use crate::view::fleet_view::{FleetView, ViewVersion};
use crate::view::line::{Symbol, Tone};
use crate::view::node_status::{NodeStatus, flags};
use crate::view::number_format::share;

/// What a cell shows of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Quantity {
    /// How much it works.
    #[default]
    Utilization,
    /// How full its memory is.
    Memory,
    /// How much of its power limit it draws.
    Power,
    /// How warm it is.
    Temperature,
    /// Who uses it.
    Owner,
    /// Which job has it.
    Job,
}

/// Levels of a cell.
const LEVELS: u8 = 8;
/// So many cells move every second; twice as many every other second, and so on.
const SWIFT: usize = 1_024;
/// How far beyond its level a load must be, in levels.
const SLACK: f32 = 0.25;
/// The temperatures at the lowest and the highest level, in degrees Celsius.
pub(super) const HEAT: (f32, f32) = (20.0, 100.0);
/// Where a temperature turns middling and high, in degrees Celsius.
const WARM: (f32, f32) = (50.0, 80.0);

/// Stands for nobody.
pub(super) const NOBODY: (Symbol, Tone) = (Symbol::Idle, Tone::Faint);
/// Stands for several.
pub(super) const SEVERAL: (Symbol, Tone) = (Symbol::Char('*'), Tone::Plain);
/// Stands for what is not known.
pub(super) const UNSAID: (Symbol, Tone) = (Symbol::Char('–'), Tone::Faint);
/// Stand in the legend for what was last known of a device of which nothing new is.
pub(super) const STALE: [(Symbol, Tone); 3] = [
    (Symbol::Level(20.0), Tone::Faint),
    (Symbol::Level(60.0), Tone::Faint),
    (Symbol::Level(100.0), Tone::Faint),
];
/// Stands for a device that is held and does nothing.
pub(super) const HELD: (Symbol, Tone) = (Symbol::Char('▒'), Tone::Plain);
/// Stands for a device that gives no numbers, or of a node that is down.
pub(super) const FAULTY: (Symbol, Tone) = (Symbol::Faulty, Tone::Bad);
/// Stands for a device that is not asked for.
const ASIDE: (Symbol, Tone) = (Symbol::Char(' '), Tone::Faint);

impl Quantity {
    pub(super) const ALL: [Self; 6] =
        [Self::Utilization, Self::Memory, Self::Power, Self::Temperature, Self::Owner, Self::Job];

    /// Returns its name.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Utilization => "util",
            Self::Memory => "mem",
            Self::Power => "power",
            Self::Temperature => "temp",
            Self::Owner => "owner",
            Self::Job => "job",
        }
    }

    /// Returns the next one, or the one before.
    pub(super) fn turned(self, is_forward: bool) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or(0);
        let count = Self::ALL.len();
        let to = if is_forward { at + 1 } else { at + count - 1 } % count;
        Self::ALL.get(to).copied().unwrap_or_default()
    }

    /// Returns where a device stands between the lowest and the highest, 0 to 100.
    fn part(self, device: &Device) -> Option<f32> {
        match self {
            Self::Utilization => share(device.utilization),
            Self::Memory => device.memory_share().map(Percent::get),
            Self::Power => device.power_share().map(Percent::get),
            Self::Temperature => {
                let degrees = device.temperature.get().map(Celsius::get)?;
                Some(((degrees - HEAT.0) / (HEAT.1 - HEAT.0) * 100.0).clamp(0.0, 100.0))
            }
            Self::Owner | Self::Job => None,
        }
    }

    pub(super) fn tone(self, scene: RenderContext<'_>, part: f32) -> Tone {
        match self {
            Self::Memory => scene.taste.memory.tone(Some(part)),
            Self::Temperature => match HEAT.0 + part / 100.0 * (HEAT.1 - HEAT.0) {
                degrees if degrees >= WARM.1 => Tone::High,
                degrees if degrees >= WARM.0 => Tone::Mid,
                _ => Tone::Low,
            },
            Self::Utilization | Self::Power | Self::Owner | Self::Job => {
                scene.taste.load.tone(Some(part))
            }
        }
    }
}

/// How numbers are shown that are not new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Old {
    /// As they were; the row says that they are old.
    AsTheyWere,
    /// As they were, but faint.
    Faint,
}

/// The cells that were drawn last, node by node.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    key: Option<(ViewVersion, Quantity, Old)>,
    now: BTreeMap<usize, Kept>,
    /// Those of the picture before: what keeps levels from wavering.
    before: BTreeMap<usize, Kept>,
    /// A node's loads move once in so many seconds.
    pace: usize,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    marks: Arc<[(Symbol, Tone)]>,
    levels: Vec<Option<u8>>,
}

impl Cells {
    /// Begins a frame of so many cells.
    pub(super) fn settle(
        &mut self,
        picture: &FleetView,
        (quantity, old): (Quantity, Old),
        cells: usize,
    ) {
        self.pace = 1 + cells / SWIFT;
        let key = (picture.stamp(), quantity, old);
        if self.key.as_ref() == Some(&key) {
            return;
        }
        let is_same = self.key.as_ref().is_some_and(|(_, own, _)| *own == quantity);
        self.before = if is_same { std::mem::take(&mut self.now) } else { BTreeMap::new() };
        self.now.clear();
        self.key = Some(key);
    }

    /// Returns the cells of the node at this place of the fleet, position by position of its devices.
    pub(super) fn of(
        &mut self,
        scene: RenderContext<'_>,
        (place, node): (usize, &Node),
        roll: &Roll,
        letters: &Letters,
    ) -> Arc<[(Symbol, Tone)]> {
        // A terminal far away cannot take thousands of cells a second: where there are so many,
        // each node's loads have their turn. What is news is shown at once.
        let is_turn = turn(place, scene.picture.now, self.pace);
        if let Some(kept) = self.now.get(&place) {
            return Arc::clone(&kept.marks);
        }
        let Some((_, quantity, old)) = &self.key else { return Arc::default() };
        let past = self.before.remove(&place).unwrap_or_default();
        let claims = roll.claims(node);
        let mut levels = Vec::with_capacity(node.devices.len());
        let marks = node.devices.iter().enumerate().map(|(position, device)| {
            let share = quantity.part(device);
            let before = past.levels.get(position).copied().flatten();
            let mut level = share.map(|share| level(share, before));
            let judged = Judged { scene, node, position, device, claims: &claims, letters };
            let mark = judged.mark((*quantity, *old), share, level);
            let shown = past.marks.get(position).copied();
            let kept = shown.filter(|shown| !is_turn && is_load(*shown) && is_load(mark));
            level = if kept.is_some() { before } else { level };
            levels.push(level);
            kept.unwrap_or(mark)
        });
        let marks: Arc<[_]> = marks.collect();
        self.now.insert(place, Kept { marks: Arc::clone(&marks), levels });
        marks
    }
}

/// Says whether it is a node's turn to move.
pub(super) fn turn(node: usize, now: Timestamp, pace: usize) -> bool {
    let second = usize::try_from(now.as_micros().div_euclid(1_000_000)).unwrap_or(0);
    second.wrapping_add(node) % pace.max(1) == 0
}

/// Says whether a cell shows how much, and nothing else.
fn is_load((mark, tone): (Symbol, Tone)) -> bool {
    matches!(mark, Symbol::Level(_)) && matches!(tone, Tone::Low | Tone::Mid | Tone::High)
}

/// Returns the level of a share: the one it was on before, while it is near.
fn level(part: f32, before: Option<u8>) -> u8 {
    let exact = part / 100.0 * f32::from(LEVELS);
    if let Some(before) = before {
        let (floor, ceiling) = (f32::from(before), f32::from(before) + 1.0);
        if exact >= floor - SLACK && exact < ceiling + SLACK {
            return before;
        }
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, which is what we want"
    )]
    let level = exact.floor() as u8;
    level.min(LEVELS - 1)
}

/// One device and all that decides over its cell.
struct Judged<'a> {
    scene: RenderContext<'a>,
    node: &'a Node,
    position: usize,
    device: &'a Device,
    claims: &'a Claims,
    letters: &'a Letters,
}

impl Judged<'_> {
    fn mark(
        &self,
        (quantity, old): (Quantity, Old),
        part: Option<f32>,
        level: Option<u8>,
    ) -> (Symbol, Tone) {
        let RenderContext { picture, .. } = self.scene;
        if !picture.filter.is_empty()
            && !picture.filter.takes_device(self.node, self.device, picture.now)
        {
            return ASIDE;
        }
        if self.device.fault.is_some() {
            return FAULTY;
        }
        if old == Old::AsTheyWere {
            return self.value(quantity, part, level);
        }
        if NodeStatus::of(self.node, picture.now) == NodeStatus::Down {
            return FAULTY;
        }
        let value = self.value(quantity, part, level);
        if self.node.device_freshness(self.position, picture.now).is_fresh() {
            return value;
        }
        match value.0 {
            Symbol::Letter(letter, _) => (Symbol::Char(letter), Tone::Faint),
            mark @ (Symbol::Level(_)
            | Symbol::Idle
            | Symbol::Unknown
            | Symbol::Faulty
            | Symbol::Overflow
            | Symbol::Char(_)) => (mark, Tone::Faint),
        }
    }

    /// Returns what a device shows that works.
    fn value(&self, quantity: Quantity, part: Option<f32>, level: Option<u8>) -> (Symbol, Tone) {
        let picture = self.scene.picture;
        match quantity {
            Quantity::Owner => self.owner(),
            Quantity::Job => self.job(),
            Quantity::Utilization if share(self.device.utilization) < Some(ACTIVE_PERCENT) => {
                let Some(part) = part else { return UNSAID };
                let is_given = picture.given.contains(self.node, self.device);
                if is_idle_held(self.node, self.device, is_given) {
                    HELD
                } else {
                    (Symbol::Idle, quantity.tone(self.scene, part))
                }
            }
            Quantity::Utilization | Quantity::Memory | Quantity::Power | Quantity::Temperature => {
                match level {
                    Some(level) => self.load(quantity, level),
                    None => UNSAID,
                }
            }
        }
    }

    /// A load stands in the middle of its level, so that no glyph tells more than the level does.
    fn load(&self, quantity: Quantity, level: u8) -> (Symbol, Tone) {
        let middle = (f32::from(level) + 0.5) / f32::from(LEVELS) * 100.0;
        let flag = flags(self.device).into_iter().map(|(_, tone)| tone).max();
        let tone = flag.unwrap_or_else(|| quantity.tone(self.scene, middle));
        (Symbol::Level(middle), tone)
    }

    fn owner(&self) -> (Symbol, Tone) {
        let Some(claim) = self.claims.devices.get(self.position) else { return UNSAID };
        match claim.users.as_slice() {
            [] if claim.is_unsaid => UNSAID,
            [] => NOBODY,
            [user] => {
                let own = self.node.hello.as_ref().map(|hello| &hello.host.user);
                self.letter(user, own == Some(user))
            }
            _ => SEVERAL,
        }
    }

    fn job(&self) -> (Symbol, Tone) {
        let Some(claim) = self.claims.devices.get(self.position) else { return UNSAID };
        match claim.jobs.as_slice() {
            [] if claim.is_unsaid => UNSAID,
            [] => NOBODY,
            [job] => self.letter(job.as_str(), false),
            _ => SEVERAL,
        }
    }

    /// One's own stand out.
    fn letter(&self, name: &str, is_own_socket: bool) -> (Symbol, Tone) {
        let (letter, hue) = self.letters.of(name);
        (Symbol::Letter(letter, hue), if is_own_socket { Tone::Strong } else { Tone::Plain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_left_only_when_the_load_is_clearly_beyond_it() {
        for (part, before, expected) in [
            (0.0, None, 0),
            (12.4, None, 0),
            (12.5, None, 1),
            (100.0, None, 7),
            (13.0, Some(0), 0),
            (15.0, Some(0), 0),
            (16.0, Some(0), 1),
            (11.0, Some(1), 1),
            (9.0, Some(1), 0),
            (99.0, Some(0), 7),
        ] {
            assert_eq!(level(part, before), expected, "{part} {before:?}");
        }
    }

    #[test]
    fn each_node_has_its_turn_once_in_a_while() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        for pace in 0..7 {
            let turns = (0..60).filter(|second| turn(5, at(*second), pace)).count();
            assert_eq!(turns, 60 / pace.max(1), "{pace}");
        }
    }

    #[test]
    fn quantities_go_around() {
        assert_eq!(Quantity::Job.turned(true), Quantity::Utilization);
        assert_eq!(Quantity::Utilization.turned(false), Quantity::Job);
    }
}
