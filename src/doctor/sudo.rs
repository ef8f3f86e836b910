//! The step about root: whether sudo runs the probe, and what permits it.

use crate::doctor::StepResult;
use gtop_collect::probe;
use gtop_fleet::advice::{self, Known};
use gtop_model::{Privilege, SudoRefusal};

/// Returns the step of a node where sudo runs the probe.
pub(super) fn permitted_step(privilege: Privilege) -> Option<StepResult> {
    let Privilege::Root { allows_signals } = privilege else { return None };
    let may = if allows_signals { "it may send signals" } else { "it reads only" };
    let finding = format!("runs the probe as root; {may}");
    let seen = [
        "it sees the command line, environment and working directory of every process",
        "processes that hidepid hides, and who holds the chips of a TPU",
    ];
    Some(StepResult::ok("sudo", finding).with_details(seen.map(str::to_owned).to_vec()))
}

/// Returns the step of a node where sudo does not run it.
pub(super) fn refused_step(
    refusal: SudoRefusal,
    output: &str,
    known: &Known,
    privilege: Privilege,
) -> StepResult {
    let allows_signals = privilege == Privilege::Root { allows_signals: true };
    let finding = if refusal.text() == output || output.is_empty() {
        refusal.text().to_owned()
    } else {
        format!("{}: {output}", refusal.text())
    };
    let sudoers = probe::sudoers(known.user("").unwrap_or("LOGIN"), allows_signals);
    StepResult::failed("sudo", finding).with_advice(&advice::root::of_refusal(
        refusal,
        known,
        &sudoers,
        allows_signals,
    ))
}
