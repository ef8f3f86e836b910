//! The state of the fleet view: its layout, order and grouping, the cursor, and what was drawn last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::choices::choices;
use crate::views::fleet::cell_grid::{CellCursor, CellGrid};
use crate::views::fleet::cells::{CellCache, MapMetric};
use crate::views::fleet::column_layout::{GroupedBy, NodeValues};
use crate::views::fleet::grouped_rows::{GroupedRowOptions, GroupedRows};
use crate::views::fleet::grouping::Grouping;
use crate::views::fleet::node_series::SeriesCache;
use crate::views::fleet::owner_counts::OwnerCounts;
use crate::views::fleet::symbol_map::SymbolMap;
use crate::widgets::list::Viewport;
use gtop_fleet::JobLookup;
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::SortOrder;
use gtop_fleet::settings::value;
use gtop_model::NodeName;

/// The values drawn last, by node and group devices, and the second they were drawn in.
pub(super) type NodeRowCache = BTreeMap<(NodeName, Option<Arc<[usize]>>), (i64, Arc<NodeValues>)>;

/// What cached values depend on: the filter, the columns with their widths, and the refresh period.
pub(super) type NodeRowKey = (String, Vec<(usize, u16)>, usize);

/// The state of the fleet view.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) layout: Layout,
    pub(crate) order: SortOrder,
    pub(crate) grouping: Grouping,
    pub(crate) metric: MapMetric,
    /// The keys of the folded groups.
    pub(super) folded_groups: BTreeSet<Arc<str>>,
    /// Incremented on each change of `folded_groups`.
    pub(super) fold_version: u64,
    /// Groups that do not fit are to be folded the next time the table is drawn.
    pub(super) folds_if_long: bool,
    /// The groups were folded because they did not fit, not by the user.
    pub(super) is_folded_to_fit: bool,
    /// The key of the group that the cursor is in, and whether it is on the header of that group.
    pub(super) group: Option<Arc<str>>,
    pub(super) is_on_header: bool,
    /// The device under the cursor of the heat map.
    pub(super) device: Option<Arc<str>>,
    /// The node column and cell column that vertical moves keep to, valid while the cursor is where the last
    /// move put it.
    pub(super) preferred_column: Option<(CellCursor, (usize, usize))>,
    /// The visible rows of the heat map, which have one line or several.
    pub(super) viewport: Viewport,
    /// The visible rows of the table.
    pub(super) table_viewport: Viewport,
    pub(super) grouped_rows: GroupedRows,
    pub(super) jobs: JobLookup,
    pub(super) cells: CellCache,
    pub(super) symbols: SymbolMap,
    pub(super) owner_counts: OwnerCounts,
    pub(super) series_cache: SeriesCache,
    /// The cursor and the heights as they are drawn next.
    pub(super) at: Option<CellCursor>,
    pub(super) heights: FleetHeights,
    /// The values of the nodes in the visible rows of the table.
    pub(super) values: Vec<Option<Arc<NodeValues>>>,
    pub(super) rows: NodeRowCache,
    /// What `rows` was filled for.
    pub(super) rows_key: NodeRowKey,
}

/// How the lines of the view are divided, and the grid of the map in them.
#[derive(Clone, Debug, Default)]
pub(super) struct FleetHeights {
    /// Those of the table, or of the map and its legend.
    pub(super) list: usize,
    pub(super) legend: usize,
    pub(super) grid: CellGrid,
    pub(super) detail: usize,
    pub(super) panel: PanelPlace,
    pub(super) problems: usize,
    /// The positions of the problems to list.
    pub(super) listed: Vec<usize>,
}

/// Where the panel of the selected node or group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PanelPlace {
    /// Nowhere, because it has no room.
    #[default]
    Hidden,
    /// Below the list, in so many lines.
    Below(usize),
    /// Beside the cells of the map, which have so many columns.
    Beside(u16),
}

choices! {
    /// The layouts of the view.
    pub(crate) enum Layout {
        #[default]
        Table = value("table", "one line per node"),
        Map = value("map", "one cell per device"),
    }
}

impl State {
    pub(crate) fn is_map(&self) -> bool {
        self.layout == Layout::Map
    }

    /// Updates groups, rows and symbols for a fleet view.
    pub(super) fn refresh_rows(&mut self, fleet_view: &FleetView) {
        self.jobs.refresh(fleet_view.fleet.jobs.as_ref());
        let Self { order, grouping, folded_groups, fold_version, .. } = self;
        let options = GroupedRowOptions {
            order: *order,
            grouping: *grouping,
            folded_groups,
            fold_version: *fold_version,
        };
        self.grouped_rows.refresh(fleet_view, &self.jobs, options);
        let has_letters = matches!(self.metric, MapMetric::Owner | MapMetric::Job);
        if self.layout == Layout::Map && has_letters && fleet_view.count() > 0 {
            self.owner_counts.refresh(fleet_view, self.metric);
            self.symbols.refresh(self.owner_counts.owner_names());
        }
    }

    pub(super) fn grouped_by(&self) -> GroupedBy {
        GroupedBy { grouping: self.grouping, folded_width: self.grouped_rows.folded_width() }
    }

    /// Forgets the series of earlier snapshots, and what was drawn of them.
    pub(crate) fn forget_series(&mut self) {
        self.series_cache.clear();
        self.cells = CellCache::default();
        self.rows.clear();
    }

    pub(crate) fn group_by(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        self.folds_if_long = grouping != Grouping::None;
        self.folded_groups.clear();
        self.is_folded_to_fit = false;
        self.group = None;
        self.is_on_header = false;
    }
}
