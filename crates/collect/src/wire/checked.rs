//! How each type of the model is read: from a number or flag of a frame, and from a cell of `nvidia-smi`'s CSV.
//!
//! A value that is impossible is malformed; a value that is missing has a reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::raw::Raw;
use gtop_local::text::sanitize_shared;
use gtop_model::{
    Bytes, Celsius, ComputeMode, FabricHealth, FabricState, FanSpeed, Megahertz, Percent, Reading,
    Reason, RecoveryAction, Throttle, Watts,
};

/// Maximum length of a name from a node.
pub(super) const MAX_NAME_LENGTH: usize = 96;

/// Returns a name that is safe to show.
pub(super) fn sanitize_name(text: &str) -> Arc<str> {
    sanitize_shared(text, MAX_NAME_LENGTH)
}

/// A value that is checked when it is read.
pub(super) trait Checked: Sized {
    /// What frames send for it.
    type Sent: Copy;

    /// Checks the number or flag of a frame.
    fn from_sent(sent: Self::Sent) -> Option<Self>;

    /// Parses a cell that holds a value.
    fn from_cell(cell: &str) -> Option<Self>;
}

/// Declares how a type is read: `Type: Sent, from the value sent, from the cell`.
macro_rules! checked {
    ($($kind:ty: $sent:ty, $from_sent:expr, $from_cell:expr;)*) => {$(
        impl Checked for $kind {
            type Sent = $sent;

            fn from_sent(sent: $sent) -> Option<Self> {
                $from_sent(sent)
            }

            fn from_cell(cell: &str) -> Option<Self> {
                $from_cell(cell)
            }
        }
    )*};
}

checked! {
    bool: bool, Some, |cell| find(&SWITCHES, cell);
    u64: u64, unless_all_ones, |cell| unless_all_ones(parse(cell)?);
    u32: u64, |number| Self::try_from(unless_all_ones(number)?).ok(),
        |cell| Self::try_from(unless_all_ones(parse(cell)?)?).ok();
    // The only number of this size is the performance state.
    u8: u64, |state| performance_state(Self::try_from(state).ok()?),
        |cell: &str| performance_state(parse(cell.strip_prefix('P')?)?);
    Percent: f64, |share| Self::new(to_f32(share)), |cell| Self::new(parse(cell)?);
    FanSpeed: f64, |share| Self::new(to_f32(share)), |cell| Self::new(parse(cell)?);
    Celsius: f64, |degrees| Self::new(to_f32(degrees)), |cell| Self::new(parse(cell)?);
    // Frames have milliwatts.
    Watts: u64, |milliwatts| Self::new(to_f32(f64::from(u32::try_from(milliwatts).ok()?) / 1000.0)),
        |cell| Self::new(parse(cell)?);
    Megahertz: u64, |clock| Self::new(u32::try_from(clock).ok()?), |cell| Self::new(parse(cell)?);
    // The CSV has MiB.
    Bytes: u64, Self::from_memory, |cell| Self::from_mib(parse(cell)?);
    Throttle: u64, |bits| unless_all_ones(bits).map(Self),
        |cell: &str| {
            unless_all_ones(u64::from_str_radix(cell.strip_prefix("0x")?, 16).ok()?).map(Self)
        };
    ComputeMode: u64, Self::new, |cell| find(&COMPUTE_MODES, cell);
    FabricState: u64, Self::new, |cell| find(&FABRIC_STATES, cell);
    FabricHealth: u64, |bits| u32::try_from(unless_all_ones(bits)?).ok().map(Self),
        |cell| find(&FABRIC_HEALTH, cell);
    RecoveryAction: u64, Self::new, |cell| Some(parse_recovery(cell));
}

/// Returns a number unless all its 32 or 64 bits are set, with which drivers and failed reads say that there is none.
pub(super) fn unless_all_ones(number: u64) -> Option<u64> {
    (number != u64::MAX && number != u64::from(u32::MAX)).then_some(number)
}

#[expect(clippy::cast_possible_truncation, reason = "units are checked after the cast")]
pub(super) fn to_f32(value: f64) -> f32 {
    value as f32
}

fn parse<T: std::str::FromStr>(cell: &str) -> Option<T> {
    cell.parse().ok()
}

fn performance_state(state: u8) -> Option<u8> {
    (state <= 15).then_some(state)
}

/// The texts of cells and their values.
const SWITCHES: [(&str, bool); 4] =
    [("Enabled", true), ("Yes", true), ("Disabled", false), ("No", false)];
const COMPUTE_MODES: [(&str, ComputeMode); 4] = [
    ("Default", ComputeMode::Shared),
    ("Exclusive_Thread", ComputeMode::ExclusiveThread),
    ("Prohibited", ComputeMode::Prohibited),
    ("Exclusive_Process", ComputeMode::ExclusiveProcess),
];
const FABRIC_STATES: [(&str, FabricState); 4] = [
    ("Not Started", FabricState::NotStarted),
    ("In Progress", FabricState::InProgress),
    ("Completed", FabricState::Completed),
    ("Not Supported", FabricState::None),
];
const FABRIC_HEALTH: [(&str, FabricHealth); 3] = [
    ("Healthy", FabricHealth(0)),
    ("Limited Capacity", FabricHealth(FabricHealth::LIMITED)),
    ("Unhealthy", FabricHealth(FabricHealth::UNHEALTHY)),
];

fn find<T: Copy>(values: &[(&str, T)], cell: &str) -> Option<T> {
    values.iter().find(|(text, _)| *text == cell).map(|(_, value)| *value)
}

/// Parses texts such as `Drain and Reset`; their wording differs between driver versions.
fn parse_recovery(cell: &str) -> RecoveryAction {
    let text = cell.to_ascii_lowercase();
    match ["drain", "reset", "reboot"].map(|word| text.contains(word)) {
        _ if text == "none" => RecoveryAction::None,
        [true, true, _] => RecoveryAction::DrainAndReset,
        [true, false, _] => RecoveryAction::DrainPeers,
        [false, _, true] => RecoveryAction::Reboot,
        [false, true, false] if !text.contains("bus") => RecoveryAction::Reset,
        [false, _, false] => RecoveryAction::Other(None),
    }
}

impl<S: Copy> Raw<S> {
    /// Returns the checked value; if it is `null`, the reason is that it is not available.
    pub(super) fn checked<T: Checked<Sent = S>>(self) -> Reading<T> {
        self.reading(Reason::NotAvailable).and_then(T::from_sent)
    }
}

/// Reads the values of one object, whose missing values have reasons by key.
pub(super) struct ObjectReader<'a> {
    /// Why a value is `null`, by key.
    pub(super) lacks: &'a BTreeMap<String, String>,
    /// Maximum length of a text.
    pub(super) max_text_length: usize,
}

impl ObjectReader<'_> {
    /// Returns the value of a key.
    pub(super) fn read<T>(&self, sent: &impl Readable<T>, key: &str) -> Reading<T> {
        sent.read(key, self)
    }

    /// Returns why the value of a key is `null`.
    pub(super) fn null_reason(&self, key: &str) -> Reason {
        self.lacks.get(key).map_or(Reason::NotAvailable, |why| match why.as_str() {
            "not supported" => Reason::NotSupported,
            "not offered" => Reason::NotOffered,
            "two samples" => Reason::NeedsTwoSamples,
            "no permission" => Reason::NoPermission,
            "driver error" => Reason::DriverError,
            "malformed" => Reason::Malformed,
            "asleep" => Reason::Asleep,
            "no workload" => Reason::NoWorkload,
            _ => Reason::NotAvailable,
        })
    }
}

/// An object that becomes a value of the model; declared with [`in_place`](crate::wire::schema::in_place).
pub(super) trait Decode {
    /// The value it becomes.
    type Model;

    /// Decodes the keys that have a field of their own; the other fields are those of `rest`.
    fn decode(&self, reader: &ObjectReader<'_>, rest: Self::Model) -> Self::Model;

    /// Sets the field of a column of the CSV; other columns are ignored.
    fn set_cell(model: &mut Self::Model, column: &str, cell: &str);
}

/// What an object holds for a value of type `T`.
pub(super) trait Readable<T> {
    /// Returns the value of this key.
    fn read(&self, key: &str, reader: &ObjectReader<'_>) -> Reading<T>;
}

impl<T: Checked> Readable<T> for Raw<T::Sent> {
    fn read(&self, key: &str, reader: &ObjectReader<'_>) -> Reading<T> {
        match *self {
            // The reason is looked up only if there is no value.
            Self::Null => Reading::Unknown(reader.null_reason(key)),
            raw @ (Self::Absent | Self::Value(_) | Self::Wrong) => raw.checked(),
        }
    }
}

impl Readable<Arc<str>> for Option<String> {
    /// `null` and absent are both `None`, so `lacks` tells them apart.
    fn read(&self, key: &str, reader: &ObjectReader<'_>) -> Reading<Arc<str>> {
        match self {
            Some(text) => Reading::Known(sanitize_shared(text, reader.max_text_length)),
            None if reader.lacks.contains_key(key) => Reading::Unknown(reader.null_reason(key)),
            None => Reading::default(),
        }
    }
}

/// Reads a cell of the CSV.
pub(super) fn read_cell<T: Checked>(cell: &str) -> Reading<T> {
    missing_reason(cell).map_or_else(|| Reading::checked(T::from_cell(cell)), Reading::Unknown)
}

/// Reads a cell that is a text.
pub(super) fn text_cell(cell: &str) -> Reading<Arc<str>> {
    missing_reason(cell).map_or_else(|| Reading::Known(sanitize_name(cell)), Reading::Unknown)
}

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

/// Returns two numbers that are meaningful only together, such as the generation and lanes of a link.
pub(super) fn pair<N: TryInto<u8>>(numbers: [Reading<N>; 2]) -> Reading<(u8, u8)> {
    let [first, second] = numbers.map(|number| number.and_then(|number| number.try_into().ok()));
    first.zip(second)
}
