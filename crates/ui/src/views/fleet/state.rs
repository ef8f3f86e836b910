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
    pub(super) folding: Folding,
    pub(super) keys: CursorKeys,
    /// The node column and cell column that vertical moves keep to, valid while the cursor is where the last
    /// move put it.
    pub(super) preferred_column: Option<(CellCursor, (usize, usize))>,
    /// The cursor and the heights as they are drawn next.
    pub(super) at: Option<CellCursor>,
    pub(super) heights: FleetHeights,
    pub(super) grouped_rows: GroupedRows,
    pub(super) jobs: JobLookup,
    pub(super) map: MapState,
    pub(super) table: TableState,
}

/// Which groups are folded.
#[derive(Clone, Debug, Default)]
pub(super) struct Folding {
    pub(super) keys: BTreeSet<Arc<str>>,
    /// Incremented on each change of `keys`.
    pub(super) version: u64,
    /// Groups that do not fit are to be folded the next time the table is drawn.
    pub(super) is_due: bool,
    /// The groups were folded because they did not fit, not by the user.
    pub(super) is_to_fit: bool,
}

/// What the cursor is on, by names that outlast a snapshot; the node is the selected one.
#[derive(Clone, Debug, Default)]
pub(super) struct CursorKeys {
    pub(super) group: Option<Arc<str>>,
    /// The cursor is on the header of the group.
    pub(super) is_on_header: bool,
    /// The device under the cursor of the heat map.
    pub(super) device: Option<Arc<str>>,
}

/// What the heat map has computed.
#[derive(Clone, Debug, Default)]
pub(super) struct MapState {
    /// The visible rows, which have one line or several.
    pub(super) viewport: Viewport,
    pub(super) cells: CellCache,
    pub(super) symbols: SymbolMap,
    pub(super) owner_counts: OwnerCounts,
}

/// What the table has computed.
#[derive(Clone, Debug, Default)]
pub(super) struct TableState {
    pub(super) viewport: Viewport,
    /// The values of the nodes in the visible rows.
    pub(super) values: Vec<Option<Arc<NodeValues>>>,
    pub(super) rows: NodeRowCache,
    /// What `rows` was filled for.
    pub(super) rows_key: NodeRowKey,
    pub(super) series: SeriesCache,
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
        let Self { order, grouping, folding, .. } = self;
        let options = GroupedRowOptions {
            order: *order,
            grouping: *grouping,
            folded_groups: &folding.keys,
            fold_version: folding.version,
        };
        self.grouped_rows.refresh(fleet_view, &self.jobs, options);
        let has_letters = matches!(self.metric, MapMetric::Owner | MapMetric::Job);
        if self.layout == Layout::Map && has_letters && fleet_view.count() > 0 {
            self.map.owner_counts.refresh(fleet_view, self.metric);
            self.map.symbols.refresh(self.map.owner_counts.owner_names());
        }
    }

    pub(super) fn grouped_by(&self) -> GroupedBy {
        GroupedBy { grouping: self.grouping, folded_width: self.grouped_rows.folded_width() }
    }

    /// Forgets the series of earlier snapshots, and what was drawn of them.
    pub(crate) fn forget_series(&mut self) {
        self.table.series.clear();
        self.map.cells = CellCache::default();
        self.table.rows.clear();
    }

    pub(crate) fn group_by(&mut self, grouping: Grouping) {
        self.grouping = grouping;
        self.folding.is_due = grouping != Grouping::None;
        self.folding.keys.clear();
        self.folding.is_to_fit = false;
        self.keys.group = None;
        self.keys.is_on_header = false;
    }
}
