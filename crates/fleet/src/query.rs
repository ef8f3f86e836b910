//! Which nodes, devices and rows a user wants to see, and in which order: filters, the selection of devices and
//! processes, sort orders, and suggestions for misspelt names.

#[cfg(feature = "testing")]
pub use filter::aliases;
pub use filter::{
    Completion, Completions, Filter, FilterError, MAX_FILTER_LENGTH, complete, unfinished_name,
};
pub use recent_filters::{read_recent_filters, remember_filter};
pub use selection::{DisplaySelection, NameColumns, ProcessKinds, VisibleDevice};
pub use sort::{SortColumn, SortOrder};
pub use suggest::{nearest, nearest_several};

pub(crate) use filter::NodeMatch;
pub(crate) use selection::without_devices;

mod filter;
mod recent_filters;
mod selection;
mod sort;
mod suggest;
