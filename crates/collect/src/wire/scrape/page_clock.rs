//! When the values of a page were measured, by the clock that is on the page.

use std::time::Duration;

use crate::wire::scrape::SERVED;
use crate::wire::scrape::page::{ScrapedPage, number};
use gtop_local::time::Timestamp;

/// A page that claims to be older is wrong: this is 32 years.
const MAX_AGE: f64 = 1e9;

/// What the clock of the last page showed, and when that was here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageClock(Option<(f64, Timestamp)>);

impl PageClock {
    /// Returns when what a page tells was measured, as far as it says so; else when it arrived. A clock that stands still tells
    /// nothing new, and one that is compared with that of its server tells the age.
    pub(super) fn taken_at(&mut self, page: &ScrapedPage<'_>, arrival: Timestamp) -> Timestamp {
        let time = page.number("node_time_seconds").get();
        let Some(shown) = time.or_else(|| page.number("host_uptime_Second").get()) else {
            return arrival;
        };
        if let Some((_, at)) = self.0.filter(|(before, _)| before.total_cmp(&shown).is_eq()) {
            return at;
        }
        let served = number(page.all(SERVED).first().map(|series| series.value)).get();
        let age = time.zip(served).map_or(0.0, |(time, served)| served - time);
        let at = arrival.minus(Duration::from_secs_f64(age.clamp(0.0, MAX_AGE)));
        self.0 = Some((shown, at));
        at
    }
}
