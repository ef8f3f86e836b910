//! Units as types: a number is checked once, and its type guarantees the check.

use crate::declare::units;

units! {
    /// A percentage, 0 to 100.
    Percent(f32) in 0.0..=100.0;
    /// Returns the percentage, 0 to 100.
    get;

    /// The intended speed of a fan, in percent of its maximum; drivers may request more than 100.
    FanSpeed(f32) in 0.0..=1000.0;
    /// Returns the speed in percent.
    get;

    /// Electrical power.
    Watts(f32) in 0.0..=100_000.0;
    /// Returns the power in watts.
    get;

    /// A temperature; 255 is that of a sensor that does not answer.
    Celsius(f32) in -100.0..=200.0;
    /// Returns the temperature in degrees Celsius.
    get;

    /// A clock rate.
    Megahertz(u32) in 0..=100_000;
    /// Returns the rate in MHz.
    get;
}

impl Percent {
    /// Returns `part` as a percentage of `whole`, at most 100; `None` if `whole` is 0.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a share needs 7 digits at most"
    )]
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        (whole > 0).then(|| Self((part as f64 / whole as f64 * 100.0).min(100.0) as f32))
    }
}

impl Watts {
    /// Makes a sum over devices, which may exceed the limit; `None` if it is negative or not finite.
    pub fn total(value: f32) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self(value))
    }
}

/// An amount of memory, traffic or storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns the size in GiB, for what is drawn or compared.
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    pub fn gib(self) -> f64 {
        self.0 as f64 / 1_073_741_824.0
    }

    /// Bytes in one MiB.
    pub const MIB: u64 = 1 << 20;

    /// Returns an amount of memory; `None` above one PiB.
    pub fn from_memory(bytes: u64) -> Option<Self> {
        (bytes <= 1 << 50).then_some(Self(bytes))
    }

    /// Returns an amount of memory given in MiB, with the same limit.
    pub fn from_mib(mib: u64) -> Option<Self> {
        mib.checked_mul(Self::MIB).and_then(Self::from_memory)
    }

    /// Returns whole MiB, rounded down.
    pub const fn mib(self) -> u64 {
        self.0 / Self::MIB
    }
}
