//! How many devices each user or job has, for the letters of the heat map.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::views::fleet::cells::MapMetric;
use gtop_fleet::DeviceHoldings;
use gtop_fleet::insight::{FleetView, ViewVersion};

/// The number of fresh devices per user or job, in descending order; decides who gets a letter.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerCounts {
    key: Option<(ViewVersion, MapMetric)>,
    pub(super) of: Vec<(Arc<str>, usize)>,
}

impl OwnerCounts {
    /// Counts once per fleet view.
    pub(super) fn refresh(&mut self, fleet_view: &FleetView, metric: MapMetric) {
        let key = Some((fleet_view.version(), metric));
        if self.key == key {
            return;
        }
        self.key = key;
        let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for node in fleet_view.nodes() {
            for (position, _) in node.units() {
                // Those with stale devices only keep their letters, but count zero.
                let is_fresh = node.fault().is_none()
                    && node.device_freshness(position, fleet_view.now).is_fresh();
                for name in owner_names(node.device_holdings(position), metric) {
                    *counts.entry(name).or_default() += usize::from(is_fresh);
                }
            }
        }
        self.of = counts.into_iter().collect();
        self.of.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }

    /// Returns the users or jobs, those with most devices first.
    pub(super) fn owner_names(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.of.iter().map(|(name, _)| name)
    }
}

fn owner_names(holdings: &DeviceHoldings, metric: MapMetric) -> Vec<Arc<str>> {
    match metric {
        MapMetric::Owner => holdings.users().into_iter().cloned().collect(),
        MapMetric::Job => holdings.jobs().map(|job| job.as_str().into()).collect(),
        MapMetric::Utilization | MapMetric::Memory | MapMetric::Power | MapMetric::Temperature => {
            Vec::new()
        }
    }
}
