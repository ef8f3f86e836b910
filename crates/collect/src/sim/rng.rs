//! Deterministic random numbers: each depends only on a seed, a path and a time.

/// A node in the tree of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Returns the root of the tree.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// Returns the child with this name.
    pub(crate) const fn branch(self, name: u64) -> Self {
        Self(mix(self.0 ^ mix(name.wrapping_add(0x5851_f42d_4c95_7f2d))))
    }

    /// Returns 64 bits.
    pub(crate) const fn bits(self) -> u64 {
        mix(self.0)
    }

    /// Returns 32 bytes, for a key.
    pub(crate) fn key_bytes(self) -> [u8; 32] {
        let mut key = [0; 32];
        for (index, chunk) in (0..).zip(key.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&self.branch(index).bits().to_le_bytes());
        }
        key
    }

    /// Returns an integer below `bound`; 0 if `bound` is 0.
    pub(crate) fn below(self, bound: u32) -> u32 {
        let wide = (self.bits() >> 32) * u64::from(bound);
        u32::try_from(wide >> 32).unwrap_or(0)
    }

    /// Returns a number in [0, 1).
    pub(crate) fn unit(self) -> f64 {
        f64::from(self.below(u32::MAX)) / f64::from(u32::MAX)
    }

    /// Returns a number between `low` and `high`.
    pub(crate) fn range(self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns an element of a list; `None` if it is empty.
    pub(crate) fn pick<T>(self, list: &[T]) -> Option<&T> {
        let bound = u32::try_from(list.len()).unwrap_or(u32::MAX);
        list.get(usize::try_from(self.below(bound)).unwrap_or(0))
    }

    /// Returns smooth noise in [-1, 1] at `t`, uncorrelated after `span` seconds.
    pub(crate) fn noise(self, t: f64, span: f64) -> f64 {
        let position = t / span;
        let knot = to_u64(position);
        let [from, to] = [0, 1].map(|step| self.branch(knot.wrapping_add(step)).range(-1.0, 1.0));
        let fraction = position - position.floor();
        let eased = fraction * fraction * (3.0 - 2.0 * fraction);
        from + (to - from) * eased
    }
}

/// One step of splitmix64.
const fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a random UUID.
pub(crate) fn random_uuid(rng: Rng) -> String {
    let (front, back) = (rng.branch(10).bits(), rng.branch(11).bits());
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        front >> 32,
        (front >> 16) & 0xffff,
        front & 0xfff,
        back >> 52,
        back & 0xffff_ffff_ffff
    )
}

/// Truncates to an integer; 0 for negative numbers and NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, which is what is wanted"
)]
pub(crate) const fn to_u64(value: f64) -> u64 {
    value as u64
}

/// Rounds to thousandths, as the probes do.
pub(crate) fn round_milli(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Rounds to tenths.
pub(crate) fn round_deci(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A periodic pulse; times are in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    pub(crate) period: f64,
    pub(crate) width: f64,
    pub(crate) phase: f64,
}

impl Pulse {
    /// Returns true if the pulse is on at `t`.
    pub(crate) fn is_on(self, t: f64) -> bool {
        (t + self.phase).rem_euclid(self.period) < self.width
    }

    /// Returns for how many seconds the pulse has been on at `t`; 0 if it is not.
    pub(crate) fn seconds_on(self, t: f64) -> f64 {
        if self.is_on(t) { (t + self.phase).rem_euclid(self.period) } else { 0.0 }
    }

    /// Returns the seconds that the pulse was on from 0 to `t`.
    pub(crate) fn on_seconds(self, t: f64) -> f64 {
        let [from, to] = [self.phase, t + self.phase].map(|moment| {
            (moment / self.period).floor() * self.width
                + moment.rem_euclid(self.period).min(self.width)
        });
        to - from
    }
}

/// A rate that oscillates around a mean, with bursts; its integral is monotonic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Units per second.
    pub(crate) mean: f64,
    /// Amplitude as a share of the mean, 0 to 1.
    pub(crate) swing: f64,
    /// Seconds of one oscillation.
    pub(crate) period: f64,
    /// Additional units per second while the pulse is on.
    pub(crate) burst: f64,
    /// When the bursts are.
    pub(crate) pulse: Pulse,
}

impl Flow {
    /// Returns the rate at `t`.
    pub(crate) fn rate(&self, t: f64) -> f64 {
        let phase = std::f64::consts::TAU * t / self.period;
        let burst = if self.pulse.is_on(t) { self.burst } else { 0.0 };
        self.mean * (1.0 + self.swing * phase.cos()) + burst
    }

    /// Returns the integral at `t`, which starts with `before` seconds of the mean at 0.
    pub(crate) fn total(&self, before: f64, t: f64) -> f64 {
        let angular_rate = std::f64::consts::TAU / self.period;
        self.mean * (before + t + self.swing * (angular_rate * t).sin() / angular_rate)
            + self.burst * self.pulse.on_seconds(t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_distinct_and_reproducible() {
        let tree = Rng::new(7);
        assert_eq!(tree.branch(1).bits(), Rng::new(7).branch(1).bits());
        assert_ne!(tree.branch(1).bits(), tree.branch(2).bits());
        assert_ne!(tree.branch(1).key_bytes(), Rng::new(8).branch(1).key_bytes());
        assert!((0..1000).all(|name| tree.branch(name).below(5) < 5));
        assert_eq!(tree.pick::<u8>(&[]), None);
    }

    #[test]
    fn noise_is_smooth_and_bounded() {
        let rng = Rng::new(3);
        let mut before = rng.noise(0.0, 4.0);
        for step in 1..4000_u32 {
            let now = rng.noise(f64::from(step) * 0.05, 4.0);
            assert!(now.abs() <= 1.0 && (now - before).abs() < 0.1);
            before = now;
        }
    }

    #[test]
    fn a_total_is_the_integral_of_its_rate() {
        let flow = Flow {
            mean: 10.0,
            swing: 0.9,
            period: 7.0,
            burst: 30.0,
            pulse: Pulse { period: 11.0, width: 3.0, phase: 5.0 },
        };
        let mut sum = flow.total(100.0, 0.0);
        for step in 0..20_000_u32 {
            sum += flow.rate((f64::from(step) + 0.5) * 0.005) * 0.005;
        }
        assert!((sum - flow.total(100.0, 100.0)).abs() < 1.0);
    }
}
