//! Why a node cannot be reached, or why its session ended: plain data, and what happened in words.
//!
//! What to do about it is in `advice`.

mod host_facts;
mod loader;
mod origin;
pub(crate) mod reach;
mod srun;
pub(crate) mod ssh;

pub use crate::fault::host_facts::HostFacts;
pub use crate::fault::loader::LoaderCause;
pub use crate::fault::origin::Origin;
pub use crate::fault::reach::Fault;
pub use crate::fault::srun::StepCause;
pub use crate::fault::ssh::{ConnectPhase, KeyFileProblem, SshProgramCause, UnansweredReason};
