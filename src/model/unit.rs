//! Units as types: a number is checked once, and its type guarantees the check.

/// A percentage, 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Percent(f32);

impl Percent {
    /// Returns `None` when `value` is not a number between 0 and 100.
    pub fn new(value: f32) -> Option<Self> {
        (0.0..=100.0).contains(&value).then_some(Self(value))
    }

    /// Returns `part` as a percentage of `whole`, at most 100; `None` if `whole` is 0.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a share needs 7 digits at most"
    )]
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        (whole > 0).then(|| Self((part as f64 / whole as f64 * 100.0).min(100.0) as f32))
    }

    /// Returns the percentage, 0 to 100.
    pub const fn get(self) -> f32 {
        self.0
    }
}

/// The intended speed of a fan, in percent of its maximum; drivers may request more than 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct FanSpeed(f32);

impl FanSpeed {
    /// Returns `None` when `value` is not a number between 0 and 1000.
    pub fn new(value: f32) -> Option<Self> {
        (0.0..=1000.0).contains(&value).then_some(Self(value))
    }

    /// Returns the speed in percent.
    pub const fn get(self) -> f32 {
        self.0
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

/// Electrical power.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Watts(f32);

impl Watts {
    /// Returns `None` when `value` is not a number between 0 and 100 000.
    pub fn new(value: f32) -> Option<Self> {
        (0.0..=100_000.0).contains(&value).then_some(Self(value))
    }

    /// Makes a sum over devices, which may exceed the limit; `None` if it is negative or not finite.
    pub fn total(value: f32) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self(value))
    }

    /// Returns the power in watts.
    pub const fn get(self) -> f32 {
        self.0
    }
}

/// A temperature.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Celsius(f32);

impl Celsius {
    /// Returns `None` when `value` is not a number between -100 and 300.
    pub fn new(value: f32) -> Option<Self> {
        (-100.0..=300.0).contains(&value).then_some(Self(value))
    }

    /// Returns the temperature in degrees Celsius.
    pub const fn get(self) -> f32 {
        self.0
    }
}

/// A clock rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Megahertz(u32);

impl Megahertz {
    /// Returns `None` above 100 000.
    pub fn new(value: u32) -> Option<Self> {
        (value <= 100_000).then_some(Self(value))
    }

    /// Returns the rate in MHz.
    pub const fn get(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_their_range_are_refused() {
        assert_eq!(Percent::new(100.1), None);
        assert_eq!(Percent::new(f32::NAN), None);
        assert_eq!(Percent::new(55.5).map(Percent::get), Some(55.5));
        assert_eq!(Watts::new(-1.0), None);
        assert_eq!(Celsius::new(f32::INFINITY), None);
        assert_eq!(Megahertz::new(4_000_000_000), None);
        assert_eq!(Bytes::from_mib(u64::MAX), None);
        assert_eq!(Bytes::from_mib(1 << 30), Some(Bytes(1 << 50)));
        assert_eq!(Bytes::from_mib((1 << 30) + 1), None);
        assert_eq!(Bytes((7 << 20) - 1).mib(), 6);
    }

    #[test]
    fn numbers_within_their_range_are_kept() {
        assert_eq!(FanSpeed::new(140.5).map(FanSpeed::get), Some(140.5));
        assert_eq!(Watts::new(701.25).map(Watts::get), Some(701.25));
        assert_eq!(Celsius::new(-12.5).map(Celsius::get), Some(-12.5));
        assert_eq!(Megahertz::new(1980).map(Megahertz::get), Some(1980));
    }

    #[test]
    fn a_percentage_needs_a_total() {
        assert_eq!(Percent::of(3, 0), None);
        assert_eq!(Percent::of(1, 4).map(Percent::get), Some(25.0));
        assert_eq!(Percent::of(5, 4).map(Percent::get), Some(100.0));
    }
}
