//! Why a login shell did not start the probe.

/// Why a login shell did not start the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoaderCause {
    /// It has not started the probe yet, and is waited for: it may be slow, or read its input.
    Waiting,
    /// It is still starting.
    Slow,
    /// One of its files reads what is meant for the probe.
    ReadsInput,
    /// Another program runs in its place.
    OtherProgram,
    /// It may not run `/bin/sh`.
    Restricted,
    /// The account has no shell.
    NoShell,
    /// The password of the account has expired.
    PasswordExpired,
    /// It ended first.
    Ended,
    /// It ended first, after it had printed something.
    EndedWithOutput,
    /// The probe started, cannot run there, and has printed why.
    CannotRun,
}
