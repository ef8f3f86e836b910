//! Why a node cannot be reached, or why its session ended: plain data, with a text of what happened.
//!
//! What to do about it is in `advice`.

mod loader;
mod login_facts;
mod origin;
pub(crate) mod reach;
mod scrape;
mod srun;
pub mod ssh;

pub use crate::fault::loader::LoaderCause;
pub use crate::fault::login_facts::{LoginFacts, UnknownHostKey};
pub use crate::fault::origin::Origin;
pub use crate::fault::reach::Fault;
pub use crate::fault::scrape::ScrapeFault;
pub use crate::fault::srun::{NO_ROOT_IN_STEP, STEP_OF_JOB, StepCause};
pub use crate::fault::ssh::{
    ConnectPhase, JOB_GATE, KeyFileProblem, SshProgramCause, UnansweredReason,
};
