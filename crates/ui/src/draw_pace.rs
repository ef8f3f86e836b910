//! When new data is drawn: the first data of a node soon, everything after that at a steady pace.

use std::time::Duration;

use gtop_fleet::PublishIntervals;
use gtop_local::time::Timestamp;

/// Each of the samples that come faster than this is expected on the screen.
const FAST_SAMPLING: Duration = Duration::from_millis(250);

/// How often new data is drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedrawPace {
    /// Minimum time between two draws that no key caused.
    pub interval: Duration,
    /// The user has set it: it also holds for samples that come faster.
    pub is_fixed: bool,
}

impl RedrawPace {
    /// Returns the minimum time between two draws of so many nodes that are sampled at this interval.
    pub(crate) fn of_samples(self, sampling: Duration, nodes: usize) -> Duration {
        let intervals = PublishIntervals::default();
        let published = intervals.of_samples(sampling, nodes);
        let follows_samples = !self.is_fixed && published < intervals.usual;
        if follows_samples { published } else { self.interval.max(published) }
    }

    /// Returns the same time if it leaves out samples that come fast, each of which one expects to see.
    pub(crate) fn calmer_than_samples(self, sampling: Duration, nodes: usize) -> Option<Duration> {
        let interval = self.of_samples(sampling, nodes);
        (sampling < FAST_SAMPLING && interval > sampling).then_some(interval)
    }
}

/// Minimum time between two draws while nodes arrive.
const ARRIVAL_INTERVAL: Duration = Duration::from_millis(50);
/// Draws per redraw interval while a node is in focus.
const FOCUS_DRAWS: u32 = 5;

/// What has happened to the fleet since it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FleetChange {
    None,
    /// There is a newer one.
    New,
    /// It has values that were not known before.
    Arrival,
    /// The source or its player has changed: the fleet is drawn without delay.
    Urgent,
    /// The publisher is gone.
    Closed,
}

/// Decides when the fleet is read and drawn.
#[derive(Debug)]
pub(super) struct DrawPace {
    /// Minimum time between two draws for data of nodes that are known.
    pub(super) interval: Duration,
    change: FleetChange,
    drawn_at: Timestamp,
    /// [`gtop_fleet::Fleet::arrivals`] of the fleet that was drawn.
    arrivals: u64,
}

impl DrawPace {
    pub(super) fn new(interval: Duration) -> Self {
        let drawn_at = Timestamp::default();
        Self { interval, change: FleetChange::Urgent, drawn_at, arrivals: 0 }
    }

    /// Returns true while a newly published fleet may bring the next draw forward.
    pub(super) const fn listens(&self) -> bool {
        matches!(self.change, FleetChange::None | FleetChange::New)
    }

    /// Notes a newly published fleet with this count of arrivals.
    pub(super) fn on_fleet(&mut self, arrivals: u64) {
        let is_arrival = arrivals != self.arrivals;
        self.change = if is_arrival { FleetChange::Arrival } else { FleetChange::New };
    }

    /// Notes that something else is new, which is drawn with the fleet.
    pub(super) fn on_other_news(&mut self) {
        if self.change == FleetChange::None {
            self.change = FleetChange::New;
        }
    }

    /// Notes that the source or its player has changed.
    pub(super) fn on_source(&mut self) {
        self.change = FleetChange::Urgent;
    }

    /// Notes that nothing is published any more.
    pub(super) fn on_closed(&mut self) {
        self.change = FleetChange::Closed;
    }

    /// Returns the time to the next draw: at the next full second, because ages change, or earlier for new data.
    pub(super) fn delay(&self, now: Timestamp, has_focus: bool) -> Duration {
        let micros = now.as_micros().rem_euclid(1_000_000);
        let second = Duration::from_micros(u64::try_from(1_000_000 - micros).unwrap_or(1_000_000));
        self.due_in(now, has_focus).map_or(second, |due| due.min(second))
    }

    /// Returns true if the fleet is to be read again and drawn.
    pub(super) fn is_due(&self, now: Timestamp, has_focus: bool) -> bool {
        now.second() != self.drawn_at.second()
            || self.due_in(now, has_focus).is_some_and(|due| due.is_zero())
    }

    /// Returns the time until new data is drawn; `None` if there is none.
    fn due_in(&self, now: Timestamp, has_focus: bool) -> Option<Duration> {
        let interval = match self.change {
            FleetChange::None | FleetChange::Closed => return None,
            FleetChange::Urgent => Duration::ZERO,
            FleetChange::Arrival => self.interval.min(ARRIVAL_INTERVAL),
            FleetChange::New if has_focus => self.interval / FOCUS_DRAWS,
            FleetChange::New => self.interval,
        };
        Some(interval.saturating_sub(now.since(self.drawn_at)))
    }

    /// Notes that a fleet with this count of arrivals is drawn now.
    pub(super) fn on_draw(&mut self, now: Timestamp, arrivals: u64) {
        if self.change != FleetChange::Closed {
            self.change = FleetChange::None;
        }
        (self.drawn_at, self.arrivals) = (now, arrivals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_000_000_000);
    const HALF: Duration = Duration::from_millis(500);

    fn at(millis: u64) -> Timestamp {
        START.plus(Duration::from_millis(millis))
    }

    /// Returns a pace that has drawn a fleet without arrivals at the start.
    fn drawn() -> DrawPace {
        let mut pace = DrawPace::new(HALF);
        assert!(pace.is_due(START, false));
        pace.on_draw(START, 0);
        pace
    }

    /// Returns the milliseconds at which a fleet that changes each millisecond is drawn.
    fn draws(arrivals: impl Fn(u64) -> u64, until: u64) -> Vec<u64> {
        let mut pace = drawn();
        let mut draws = Vec::new();
        for millis in 1..until {
            if pace.listens() {
                pace.on_fleet(arrivals(millis));
            }
            if pace.is_due(at(millis), false) {
                pace.on_draw(at(millis), arrivals(millis));
                draws.push(millis);
            }
        }
        draws
    }

    #[test]
    fn first_data_is_drawn_at_once_and_at_most_every_50_ms() {
        let mut pace = drawn();
        pace.on_fleet(1);
        // The last draw was long ago.
        assert!(pace.is_due(at(320), false));
        assert_eq!(pace.delay(at(20), false), Duration::from_millis(30));
        assert_eq!(draws(|millis| millis, 300), [50, 100, 150, 200, 250]);
    }

    #[test]
    fn after_the_first_data_the_pace_is_steady() {
        let arrivals = |millis: u64| millis.min(70);
        assert_eq!(draws(arrivals, 990), [50, 100, 600]);
        assert_eq!(draws(|_| 0, 990), [500]);
    }

    #[test]
    fn first_data_overtakes_other_data_that_waits() {
        let mut pace = drawn();
        pace.on_fleet(0);
        assert_eq!(pace.delay(at(100), false), Duration::from_millis(400));
        assert!(pace.listens());
        pace.on_fleet(1);
        assert_eq!(pace.delay(at(100), false), Duration::ZERO);
        assert!(!pace.listens());
    }

    #[test]
    fn a_shorter_redraw_interval_holds_for_first_data_too() {
        let mut pace = DrawPace::new(Duration::from_millis(20));
        pace.on_draw(START, 0);
        pace.on_fleet(1);
        assert_eq!(pace.delay(at(1), false), Duration::from_millis(19));
    }

    #[test]
    fn the_picture_follows_fast_samples_of_few_nodes_unless_the_user_wants_another_pace() {
        let millis = Duration::from_millis;
        let usual = RedrawPace { interval: HALF, is_fixed: false };
        let fixed = RedrawPace { interval: HALF, is_fixed: true };
        let fast = RedrawPace { interval: millis(20), is_fixed: true };
        for (pace, sampling, nodes, drawn, said) in [
            (usual, 50, 1, 40, None),
            (usual, 240, 1, 192, None),
            (usual, 250, 1, 500, None),
            (usual, 1000, 1, 500, None),
            (usual, 50, 1000, 500, Some(500)),
            (fixed, 50, 1, 500, Some(500)),
            (fixed, 1000, 1, 500, None),
            (fast, 50, 1, 40, None),
            // They are not published more often.
            (fast, 50, 1000, 200, Some(200)),
        ] {
            let case = (
                pace.of_samples(millis(sampling), nodes),
                pace.calmer_than_samples(millis(sampling), nodes),
            );
            assert_eq!(case, (millis(drawn), said.map(millis)), "{pace:?} {sampling} {nodes}");
        }
    }

    #[test]
    fn a_focus_is_drawn_more_often() {
        let mut pace = drawn();
        pace.on_fleet(0);
        assert_eq!(pace.delay(at(20), true), Duration::from_millis(80));
        assert_eq!(pace.delay(at(20), false), Duration::from_millis(480));
    }

    #[test]
    fn ages_are_drawn_each_second_even_without_a_publisher() {
        let mut pace = drawn();
        assert!(!pace.is_due(at(900), false));
        assert_eq!(pace.delay(at(900), false), Duration::from_millis(100));
        pace.on_closed();
        assert!(pace.is_due(at(1000), false) && !pace.listens());
        pace.on_draw(at(1000), 0);
        assert!(!pace.listens());
    }
}
