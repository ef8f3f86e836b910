
pub mod probe;
