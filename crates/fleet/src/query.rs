//! Which nodes, devices and rows a user wants to see, and in which order: filters, the selection of devices and
//! processes, sort orders, and suggestions for misspelt names.

pub use filter::{
    Completion, Completions, Filter, FilterError, MAX_FILTER_LENGTH, NodeMatch, aliases, complete,
};
pub use recent_filters::{MAX_RECENT_FILTERS, read_recent_filters, remember_filter};
pub use selection::{DisplaySelection, NameColumns, ProcessKinds, VisibleDevice};
pub use sort::{SortColumn, SortOrder};
pub use suggest::{nearest, nearest_several};

mod filter;
mod recent_filters;
mod selection;
mod sort;
mod suggest;
