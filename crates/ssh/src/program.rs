//! The ssh program: its options, its messages, and the `ControlMaster` connections it holds.

pub(crate) mod control_master;
pub(crate) mod stderr;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::config;
use gtop_local::process::{ProgramCall, ProgramError, ProgramOutput, run_program};

/// Options passed to every ssh. The first value of an option counts, so these override the configuration.
pub const OPTIONS: [&str; 13] = [
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "ForwardAgent=no",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "ControlMaster=no",
    "EscapeChar=none",
    "Compression=no",
    "NumberOfPasswordPrompts=0",
    // A lower level would hide why it failed; a higher one would print too much.
    "LogLevel=INFO",
    "VisualHostKey=no",
];

/// Options passed to the ssh that opens a master connection for `gtop login`: it prompts, and forwards nothing by itself.
/// What may be forwarded by later sessions of the user stays as configured.
pub(crate) const LOGIN_OPTIONS: [&str; 10] = [
    "BatchMode=no",
    "NumberOfPasswordPrompts=3",
    // A socket that nobody listens at is replaced.
    "ControlMaster=auto",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "EscapeChar=none",
    "LogLevel=INFO",
    "VisualHostKey=no",
];

/// The options that `ClearAllForwardings` disables.
const CLEARED_FORWARDINGS: [&str; 3] = ["DynamicForward", "LocalForward", "RemoteForward"];

/// Returns true if gtop overrides an option of the configuration.
pub fn overrides(option: &str) -> bool {
    let command_overrides =
        config::COMMAND_OVERRIDES.iter().map(|(_, command_overrides)| command_overrides);
    let mut set = OPTIONS.iter().chain(command_overrides).filter_map(|set| set.split_once('='));
    set.any(|(name, _)| name == option) || CLEARED_FORWARDINGS.contains(&option)
}

/// Most bytes of output of an ssh that is run to its end.
const MAX_OUTPUT: usize = 256 * 1024;

/// Runs ssh to its end, with an empty stdin.
pub(crate) async fn run(
    program: &Path,
    args: &[OsString],
    timeout: Duration,
) -> Result<ProgramOutput, ProgramError> {
    let call = ProgramCall {
        program,
        args,
        input: "",
        env: &[],
        hides: |_| false,
        timeout,
        max_stdout: MAX_OUTPUT,
    };
    run_program(call).await
}
