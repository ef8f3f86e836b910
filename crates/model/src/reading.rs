//! A value that is known, or unknown with a reason. Absent is never zero.

use crate::declare::table;

/// A value, or the reason why it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// Reported and valid.
    Known(T),
    /// Unknown, for this reason.
    Unknown(Reason),
}

table! {
    /// Why a value is not known.
    pub enum Reason {
        /// Not sampled yet.
        NotSampled = ("not sampled", "it has not arrived yet, or nothing reads it here"),
        /// Devices of this kind do not have it.
        NotSupported = ("not supported", "devices of this kind do not have it"),
        /// What the node reads the device with does not offer it, or not in this version.
        NotOffered = ("not offered by this source",
            "what reads the device does not report it, or not in this version"),
        /// It exists, but was not available when it was sampled.
        NotAvailable = ("not available", "it exists, but could not be read then"),
        /// The driver reported an error for it.
        DriverError = ("driver error", "the driver reported an error for it"),
        /// Permission denied.
        NoPermission = ("no permission", "the login may not read it"),
        /// The reported value is invalid.
        Malformed = ("malformed", "what was reported makes no sense"),
        /// Only a process on the device could report it, and there is none.
        NoWorkload = ("no workload",
            "only a process on the device could report it, and there is none"),
        /// A second sample is needed first.
        NeedsTwoSamples = ("needs two samples",
            "it is a difference, and a second sample is needed first"),
        /// The process has ended.
        Gone = ("gone", "the process has ended"),
        /// The process is in another PID namespace.
        OtherNamespace = ("in another PID namespace",
            "the process is in a container, whose pids are others"),
        /// The driver's pid may be that of another process in the probe's PID namespace.
        AmbiguousPid = ("pid may be another process's here",
            "the driver and the node may mean different processes by this pid"),
        /// The device is suspended, and reading it would wake it.
        Asleep = ("asleep", "the device sleeps, and reading it would wake it"),
        /// Left out of an anonymous output.
        Withheld = ("withheld", "left out of an anonymous output"),
    }
    /// All of them.
    pub const ALL;
    /// Returns the reason as text, and what it means.
    fn texts -> (&'static str, &'static str);
}

impl Reason {
    /// Returns the reason as text.
    pub const fn text(self) -> &'static str {
        self.texts().0
    }

    /// Returns what it means.
    pub const fn meaning(self) -> &'static str {
        self.texts().1
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::Unknown(Reason::NotSampled)
    }
}

impl<T> Reading<T> {
    /// Makes a reading of a checked value; `None` means it is malformed.
    pub fn checked(value: Option<T>) -> Self {
        value.map_or(Self::Unknown(Reason::Malformed), Self::Known)
    }

    /// Reads a value of a part that may be missing; it is then not sampled.
    pub fn of<P: ?Sized>(part: Option<&P>, read: impl FnOnce(&P) -> Self) -> Self {
        part.map_or_else(Self::default, read)
    }

    /// Returns both values if both are known, else the reason of the first that is not.
    pub fn zip<U>(self, other: Reading<U>) -> Reading<(T, U)> {
        match (self, other) {
            (Self::Known(one), Reading::Known(other)) => Reading::Known((one, other)),
            (Self::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(reason),
        }
    }

    /// Returns the value, if known.
    pub fn known(&self) -> Option<&T> {
        if let Self::Known(value) = self { Some(value) } else { None }
    }

    /// Returns the value by move, if known.
    pub fn into_known(self) -> Option<T> {
        if let Self::Known(value) = self { Some(value) } else { None }
    }

    /// Returns why it is not known.
    pub const fn reason(&self) -> Option<Reason> {
        if let Self::Unknown(reason) = self { Some(*reason) } else { None }
    }

    /// Becomes `earlier` if it was not sampled again.
    pub fn complete_from(&mut self, earlier: &Self)
    where
        T: Clone,
    {
        if matches!(self, Self::Unknown(Reason::NotSampled)) {
            self.clone_from(earlier);
        }
    }

    /// Returns this if known, else the other if that was sampled.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        if matches!(self, Self::Known(_)) {
            return self;
        }
        match other() {
            Self::Unknown(Reason::NotSampled) => self,
            other @ (Self::Known(_) | Self::Unknown(_)) => other,
        }
    }

    /// Applies `convert` to a known value.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Known(value) => Reading::Known(convert(value)),
            Self::Unknown(reason) => Reading::Unknown(reason),
        }
    }

    /// Applies `convert` to a known value; `None` makes it malformed.
    pub fn and_then<U>(self, convert: impl FnOnce(T) -> Option<U>) -> Reading<U> {
        match self {
            Self::Known(value) => Reading::checked(convert(value)),
            Self::Unknown(reason) => Reading::Unknown(reason),
        }
    }
}

impl<T: Copy> Reading<T> {
    /// Returns a copy of the value, if known.
    pub fn get(&self) -> Option<T> {
        self.known().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsampled_value_keeps_the_last_one_and_an_unavailable_one_does_not() {
        let mut value = Reading::default();
        value.complete_from(&Reading::Known(3));
        assert_eq!(value, Reading::Known(3));
        value = Reading::Unknown(Reason::NotAvailable);
        value.complete_from(&Reading::Known(3));
        assert_eq!(value.reason(), Some(Reason::NotAvailable));
    }
}
