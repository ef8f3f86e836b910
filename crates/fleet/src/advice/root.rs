//! What to do where sudo does not run the probe as root.

use crate::advice::known::{Known, shell_quoted};
use crate::advice::steps::{Advice, Step};
use gtop_model::SudoRefusal;

const OMIT: &str = "leave the node out of --sudo";
const SUDOERS: &str = "/etc/sudoers.d/gtop";

/// Returns what to do about a node that is up without root.
pub const fn of_note(refusal: SudoRefusal) -> &'static str {
    if refusal.is_of_sudoers() {
        "gtop doctor --sudo NODE prints the line for sudoers that permits it"
    } else {
        "leave the node out of --sudo, or install what is missing"
    }
}

/// Returns what to do about a refusal; `sudoers` are the lines that permit exactly the probe.
pub fn of_refusal(
    refusal: SudoRefusal,
    known: &Known,
    sudoers: &str,
    allows_signals: bool,
) -> Advice {
    match refusal {
        SudoRefusal::Missing => Step::words("install sudo").with_root_on(&known.host).into(),
        SudoRefusal::Python => {
            Step::words("install Python 3.6 or newer").with_root_on(&known.host).into()
        }
        SudoRefusal::Step => OMIT.into(),
        SudoRefusal::Password
        | SudoRefusal::Denied
        | SudoRefusal::Terminal
        | SudoRefusal::Failed => {
            let user = known.user("").unwrap_or("LOGIN");
            let allow_terminal =
                (refusal == SudoRefusal::Terminal).then(|| format!("Defaults:{user} !requiretty"));
            let lines = allow_terminal.into_iter().chain(sudoers.lines().map(str::to_owned));
            let words = format!("visudo -f {SUDOERS}, and add");
            let add = Step::put(SUDOERS, words, lines.collect()).with_root_on(&known.host);
            let option = if allows_signals { " --allow-signals" } else { "" };
            let print = format!("gtop{option} probe --sudoers={}", shell_quoted(user));
            Advice::from(add).then([Step::run("these lines again, for a file", print).or()])
        }
    }
}
