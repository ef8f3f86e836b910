//! The words by which jobs are judged.

use gtop_model::table;

table! {
    /// How well a job used its devices; the first that fits.
    #[derive(PartialOrd, Ord, Default)]
    pub enum VerdictWord {
        /// Too little is known.
        #[default]
        NotJudged = "not judged",
        /// A device was faulty or slowed down.
        HeldBack = "held back",
        /// No process ever ran on its devices.
        Unlaunched = "unlaunched",
        /// Its processes never did anything on its devices.
        HeldCold = "held cold",
        /// Its processes did next to nothing on its devices.
        HeldWarm = "held warm",
        /// No device was active, and why is not known.
        Unused = "unused",
        /// Some devices were never active.
        PartlyUsed = "partly used",
        /// The mean load is low.
        LowLoad = "low load",
        /// The mean load is moderate.
        Fair = "fair",
        /// The mean load is high.
        Good = "good",
    }
    /// All words, in the order in which they are tried.
    pub const ALL;
    /// Returns the word.
    pub fn as_str -> &'static str;
}
