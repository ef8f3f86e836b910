//! Who had the devices: a row per user, their sum, what nobody had, and all.

use crate::report::{UsageReport, UsageSummary};

/// The headings of [`device_time`].
pub(super) const TIME_HEADINGS: [&str; 6] =
    ["device-hours", "used", "idle", "faulty", "unknown", "not seen"];

/// A row of the ledger.
pub(super) struct LedgerRow<'a> {
    pub(super) who: &'a str,
    /// Of a user; a sum has no name of its own, which a user could have, too.
    pub(super) is_user: bool,
    pub(super) jobs: Option<usize>,
    pub(super) summary: UsageSummary,
    pub(super) cost: Option<f64>,
}

/// Returns a row for each of the first users, and those that sum them up; none without users.
pub(super) fn ledger(report: &UsageReport, max_users: usize) -> Vec<LedgerRow<'_>> {
    if report.users.is_empty() {
        return Vec::new();
    }
    let users = report.users.iter().take(max_users).map(|user| LedgerRow {
        who: &user.user,
        is_user: true,
        jobs: Some(user.jobs),
        summary: user.summary,
        cost: user.cost,
    });
    let sum = |who, jobs, summary, cost| LedgerRow { who, is_user: false, jobs, summary, cost };
    let costs: Option<f64> = report.users.iter().map(|user| user.cost).sum();
    let sums = [
        sum("all users", Some(report.jobs.len()), report.held, costs),
        sum("nobody", None, report.unheld(), None),
        sum("all devices", None, report.totals, None),
    ];
    users.chain(sums).collect()
}

/// Returns the device-time of a row, in seconds: all, and its parts, which sum to it. Devices of nobody are idle if they are
/// free.
pub(super) fn device_time(summary: &UsageSummary) -> [f64; 6] {
    let [active, idle_held, free, faulty, unknown] = summary.states;
    let unseen = summary.not_seen_seconds();
    [summary.watched_seconds, active, idle_held + free, faulty, unknown, unseen]
}
