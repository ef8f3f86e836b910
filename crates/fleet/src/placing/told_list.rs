//! The list of devices of a scheduler's daemon as its node reports it, and which of them jobs are given.

use crate::placing::device_map::{Meant, UnitSet, union};
use crate::placing::learned::{LearnedMap, ListIdentity};
use crate::placing::numbering::{NodeUnits, bit};
use crate::placing::proofs::JobBounds;
use gtop_model::SchedulerNode;

/// The list of the daemon, as far as it is known.
#[derive(Debug)]
pub(super) struct ToldList {
    /// Number of its devices.
    pub(super) count: usize,
    /// What they mean; `None` if the daemon does not report it, or may have made another list since.
    pub(super) meant: Option<Vec<Meant>>,
    /// The readable configuration does not name all units, or names something else.
    pub(super) has_other_config: bool,
    /// Units that the scheduler certainly gives to jobs.
    managed: UnitSet,
    /// Units that it may give to jobs, those above included.
    manageable: UnitSet,
}

impl ToldList {
    /// Returns the list of a node whose jobs have indices below `min_count`, and makes `learned` follow its changes.
    pub(super) fn of(
        units: &NodeUnits<'_>,
        scheduler: Option<&SchedulerNode>,
        min_count: usize,
        learned: &mut LearnedMap,
    ) -> Self {
        let told = scheduler.and_then(|known| usize::try_from(known.devices?).ok());
        let count = told.unwrap_or(units.len()).max(min_count);
        learned.follow(ListIdentity::of(units.node, scheduler, units, count));
        let meant = units
            .node
            .evidence
            .as_deref()
            .and_then(|evidence| Some((evidence.daemon.list.as_deref()?, evidence)))
            .filter(|(list, _)| list.len() == count && learned.is_list_current())
            .and_then(|(list, evidence)| units.meant_by_list(list, evidence));
        let has_other_config = meant.is_none() && is_other_config(units);
        let is_all = told.is_none_or(|told| told == units.len()) && units.may_be_all()
            || told.is_some_and(|told| units.are_some_of(told));
        let managed = match &meant {
            Some(meant) => union(meant.iter().copied().filter_map(Meant::unit).map(bit)),
            None if is_all && !has_other_config => units.all(),
            None => 0,
        };
        let is_known = meant.as_ref().is_some_and(|meant| !meant.contains(&Meant::Unknown));
        let manageable = if is_known { managed } else { units.all() };
        Self { count, meant, has_other_config, managed, manageable }
    }

    /// Returns true if its devices are these units, as far as that is known.
    pub(super) fn is_of(&self, units: &NodeUnits<'_>) -> bool {
        let is_told = self.meant.is_none() || self.managed == units.all();
        units.len() == self.count && units.may_be_all() && is_told && !self.has_other_config
    }

    /// Returns what jobs can open, as far as that is known.
    pub(super) fn bounds(&self, units: &NodeUnits<'_>, learned: &LearnedMap) -> JobBounds {
        let state = units.node.evidence.as_deref().map(|evidence| evidence.configuration);
        let read = state.filter(|state| {
            state.confines_jobs != Some(true)
                || state.confinement_changed_at.is_some_and(|changed| learned.has_read(changed))
        });
        JobBounds {
            confines_jobs: read.and_then(|state| state.confines_jobs),
            managed: self.managed,
            manageable: self.manageable,
        }
    }
}

/// Returns true if the files of `gres.conf` are not those of all units.
fn is_other_config(units: &NodeUnits<'_>) -> bool {
    let Some(evidence) = units.node.evidence.as_deref() else { return false };
    let Some(config) = &evidence.config else { return false };
    if config.detection.is_some() || config.devices.is_empty() {
        return false;
    }
    let meant = units.meant_by_list(&config.devices, evidence).unwrap_or_default();
    union(meant.into_iter().filter_map(Meant::unit).map(bit)) != units.all()
}
