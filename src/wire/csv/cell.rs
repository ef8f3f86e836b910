//! Decodes single cells: each text for "no value" maps to a reason, and values out of range are malformed.

use std::sync::Arc;

use crate::model::{
    ComputeMode, FabricHealth, FabricState, Reading, Reason, RecoveryAction, Throttle,
    sanitize_shared,
};
use crate::wire::csv::MAX_NAME_LENGTH;

/// Returns why a cell holds no value; `None` if it holds one.
pub(super) fn missing_reason(cell: &str) -> Option<Reason> {
    match cell {
        "" => Some(Reason::NotAvailable),
        "N/A" | "[N/A]" => Some(Reason::NotSupported),
        "ERR!" => Some(Reason::DriverError),
        _ if !cell.starts_with('[') => None,
        _ => {
            let text = cell.to_ascii_lowercase();
            Some(if text.contains("unknown error") || text.contains("gpu is lost") {
                Reason::DriverError
            } else if text.contains("permission") {
                Reason::NoPermission
            } else if text.contains("not supported")
                || text.contains("deprecated")
                || text.contains("function not found")
            {
                Reason::NotSupported
            } else {
                Reason::NotAvailable
            })
        }
    }
}

pub(super) fn text(cell: &str) -> Reading<Arc<str>> {
    missing_reason(cell)
        .map_or_else(|| Reading::Known(sanitize_shared(cell, MAX_NAME_LENGTH)), Reading::Unknown)
}

pub(super) fn number<N: std::str::FromStr, T>(
    cell: &str,
    convert: impl FnOnce(N) -> Option<T>,
) -> Reading<T> {
    missing_reason(cell)
        .map_or_else(|| Reading::checked(cell.parse().ok().and_then(convert)), Reading::Unknown)
}

pub(super) fn switch(cell: &str) -> Reading<bool> {
    match cell {
        "Enabled" | "Yes" => Reading::Known(true),
        "Disabled" | "No" => Reading::Known(false),
        _ => Reading::Unknown(missing_reason(cell).unwrap_or(Reason::Malformed)),
    }
}

pub(super) fn compute_mode(cell: &str) -> Reading<ComputeMode> {
    match cell {
        "Default" => Reading::Known(ComputeMode::Shared),
        "Exclusive_Thread" => Reading::Known(ComputeMode::ExclusiveThread),
        "Prohibited" => Reading::Known(ComputeMode::Prohibited),
        "Exclusive_Process" => Reading::Known(ComputeMode::ExclusiveProcess),
        _ => Reading::Unknown(missing_reason(cell).unwrap_or(Reason::Malformed)),
    }
}

pub(super) fn performance_state(cell: &str) -> Reading<u8> {
    match cell.strip_prefix('P') {
        Some(digits) => number(digits, |state: u8| (state <= 15).then_some(state)),
        None => Reading::Unknown(missing_reason(cell).unwrap_or(Reason::Malformed)),
    }
}

pub(super) fn throttle(cell: &str) -> Reading<Throttle> {
    match cell.strip_prefix("0x") {
        Some(digits) => Reading::checked(u64::from_str_radix(digits, 16).ok().map(Throttle)),
        None => Reading::Unknown(missing_reason(cell).unwrap_or(Reason::Malformed)),
    }
}

pub(super) fn pair([first, second]: [Reading<u8>; 2]) -> Reading<(u8, u8)> {
    match (first, second) {
        (Reading::Known(first), Reading::Known(second)) => Reading::Known((first, second)),
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(reason),
    }
}

pub(super) fn set_preferred<T>(reading: &mut Reading<T>, value: Reading<T>) {
    if value.known().is_some() || reading.known().is_none() {
        *reading = value;
    }
}

pub(super) fn set_if_unknown<T>(reading: &mut Reading<T>, value: Reading<T>) {
    if reading.known().is_none() {
        *reading = value;
    }
}

pub(super) fn fabric(cell: &str) -> Reading<FabricState> {
    match cell {
        "Not Started" => Reading::Known(FabricState::NotStarted),
        "In Progress" => Reading::Known(FabricState::InProgress),
        "Completed" => Reading::Known(FabricState::Completed),
        "Not Supported" => Reading::Known(FabricState::None),
        _ => Reading::Unknown(missing_reason(cell).unwrap_or(Reason::Malformed)),
    }
}

pub(super) fn fabric_health(cell: &str) -> Reading<FabricHealth> {
    match cell {
        "Healthy" => Reading::Known(FabricHealth(0)),
        "Limited Capacity" => Reading::Known(FabricHealth(FabricHealth::LIMITED)),
        "Unhealthy" => Reading::Known(FabricHealth(FabricHealth::UNHEALTHY)),
        _ => Reading::Unknown(missing_reason(cell).unwrap_or(Reason::Malformed)),
    }
}

/// Parses texts such as `Drain and Reset`; their wording differs between driver versions.
pub(super) fn recovery(cell: &str) -> Reading<RecoveryAction> {
    if let Some(reason) = missing_reason(cell) {
        return Reading::Unknown(reason);
    }
    let text = cell.to_ascii_lowercase();
    let has = |word: &str| text.contains(word);
    Reading::Known(match (has("drain"), has("reset"), has("reboot")) {
        _ if text == "none" => RecoveryAction::None,
        (true, true, _) => RecoveryAction::DrainAndReset,
        (true, false, _) => RecoveryAction::DrainPeers,
        (false, _, true) => RecoveryAction::Reboot,
        (false, true, false) if !has("bus") => RecoveryAction::Reset,
        (false, _, false) => RecoveryAction::Other,
    })
}
