//! Which nodes, devices and rows a user wants to see, and in which order: filters, the selection of devices and
//! processes, sort orders, and suggestions for misspelt names.

pub use filter::{Filter, FilterError, MAX_FILTER_LENGTH, aliases, complete};
pub use selection::{DisplaySelection, NameColumns, ProcessKinds, VisibleDevice};
pub use sort::{SortColumn, SortOrder};
pub use suggest::nearest;

mod filter;
mod selection;
mod sort;
mod suggest;
