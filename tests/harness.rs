//! What several tests share: servers, probes, stubs and schemas.

pub(crate) mod built;
pub(crate) mod collecting;
pub(crate) mod lab;
pub(crate) mod nvml_stub;
pub(crate) mod probe;
pub(crate) mod schema;
pub(crate) mod sleeper;
