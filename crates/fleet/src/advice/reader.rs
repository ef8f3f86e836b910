//! Who reads an advice: some of it needs a gtop that goes on.

/// Who reads an advice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reader {
    /// A user at the screen, which takes keys.
    #[default]
    Screen,
    /// A program that gtop goes on to serve: it has no keys.
    Program,
    /// Whoever reads what gtop has printed before it ended.
    Print,
    /// Whoever is given what gtop has printed, in which all names are made up.
    Stranger,
}

impl Reader {
    /// Returns true if keys of the screen can be pressed.
    pub(super) const fn has_keys(self) -> bool {
        matches!(self, Self::Screen)
    }

    /// Returns true if gtop retries automatically.
    pub(super) const fn is_served(self) -> bool {
        matches!(self, Self::Screen | Self::Program)
    }

    /// Returns what brings back a node that was not reached or is lost.
    pub(super) const fn reconnects(self) -> &'static str {
        if self.is_served() { "gtop reconnects automatically" } else { "run gtop again" }
    }
}
