//! What `gtop pick` gives away keeps to the rules, whatever the machine.

use gtop_fleet::Health;
use gtop_fleet::insight::pick::{PickRequest, Picks};

use crate::random_machines::machine::{GIB, Machine, NOW, Rng, Scheduling, Soundness, UnitFacts};

/// Returns true if the unit must not be picked, whatever the options.
fn is_forbidden(machine: &Machine, unit: &UnitFacts) -> bool {
    machine.is_down
        || unit.soundness == Soundness::Broken
        || unit.is_empty
        || unit.is_leak()
        || unit.is_of_job
        || machine.has_unseen_job()
        // Nothing of this user runs there.
        || machine.scheduling == Scheduling::Drained
}

/// Returns true if the unit is within the limits, with the tolerance.
fn is_within(unit: &UnitFacts, request: &PickRequest) -> bool {
    let (total, used) = unit.memory();
    let tolerance = u64::from(request.tolerance);
    let has_memory = request
        .min_free_memory
        .is_none_or(|limit| (total - used) * 100 >= limit * (100 - tolerance));
    let is_idle = request
        .max_utilization
        .is_none_or(|limit| unit.load.is_some_and(|load| load <= u64::from(limit) + tolerance));
    has_memory && is_idle
}

fn random_request(rng: &mut Rng) -> PickRequest {
    let count = rng.is_one_of(3).then(|| usize::try_from(1 + rng.below(4)).unwrap());
    PickRequest {
        min_count: count.unwrap_or(0),
        max_count: count,
        min_free_memory: rng.is_one_of(3).then(|| (1 + rng.below(80)) * GIB),
        max_utilization: rng.is_one_of(4).then(|| u32::try_from(rng.below(50)).unwrap()),
        tolerance: if rng.is_one_of(2) { 0 } else { 10 },
        allows_degraded: rng.is_one_of(2),
        ..PickRequest::default()
    }
}

#[test]
fn what_is_picked_keeps_to_the_rules() {
    let mut picked = (0, 0, 0);
    for number in 0..200 {
        let machine = Machine::random(number);
        let fleet = machine.fleet();
        let mut rng = Rng::new(!number);
        for _ in 0..5 {
            let request = random_request(&mut rng);
            let found = Picks::of(&fleet, NOW, &request);
            check(&machine, &request, &found);
            picked.0 += found.picked.len();
            picked.1 +=
                found.picked.iter().filter(|device| device.health == Health::Degraded).count();
            picked.2 += found.picked.iter().filter(|device| device.is_slice).count();
        }
    }
    // There was something to pick of each kind.
    assert!(picked.0 > 500 && picked.1 > 20 && picked.2 > 20, "{picked:?}");
}

fn check(machine: &Machine, request: &PickRequest, found: &Picks) {
    let told = || format!("{found:?} for {request:?} of {machine:?}");
    let picked: Vec<&UnitFacts> = found
        .picked
        .iter()
        .map(|device| machine.units.iter().find(|unit| unit.uuid == device.uuid))
        .map(|unit| unit.unwrap_or_else(|| panic!("no unit: {}", told())))
        .collect();
    let is_worn = |unit: &UnitFacts| unit.soundness == Soundness::Worn;
    let may_be_picked = |unit: &&UnitFacts| {
        !is_forbidden(machine, unit)
            && is_within(unit, request)
            && (request.allows_degraded || !is_worn(unit))
    };
    assert!(picked.iter().all(may_be_picked), "{}", told());
    // Sound ones come first.
    let worn: Vec<bool> = picked.iter().map(|unit| is_worn(unit)).collect();
    assert!(worn.is_sorted(), "{}", told());
    // Without limits, unused ones come first.
    let limits = (request.min_free_memory, request.max_utilization, request.max_memory_utilization);
    if limits == (None, None, None) && request.min_total_memory.is_none() {
        let is_used = |unit: &UnitFacts| unit.process.is_some_and(|bytes| bytes >= 256 << 20);
        let is_hiding = |unit: &UnitFacts| unit.hidden > 0 || unit.nameless > 0;
        let is_busy = |unit: &UnitFacts| unit.load.is_some_and(|load| load >= 5);
        let is_shared = |unit: &UnitFacts| is_used(unit) || is_hiding(unit) || is_busy(unit);
        let order: Vec<_> = picked.iter().map(|unit| (is_worn(unit), is_shared(unit))).collect();
        assert!(order.is_sorted(), "{}", told());
    }
    // A program can use one slice, and no slice beside cards.
    let slices = picked.iter().filter(|unit| unit.slice.is_some()).count();
    assert!(slices == 0 || picked.len() == 1, "{}", told());
    // Nothing is kept back.
    let eligible: Vec<&UnitFacts> = machine.units.iter().filter(may_be_picked).collect();
    let cards = eligible.iter().filter(|unit| unit.slice.is_none()).count();
    let limit = request.max_count.unwrap_or(usize::MAX);
    let most = cards.max(usize::from(!eligible.is_empty())).min(limit);
    let least = if slices == 1 { 1.min(limit) } else { most };
    assert!((least..=most).contains(&picked.len()) || picked.len() == most, "{}", told());
    assert_eq!(picked.is_empty(), eligible.is_empty(), "{}", told());
    // A worn one is picked only where no sound one of its kind is left.
    let is_left = |unit: &&UnitFacts| {
        !is_worn(unit)
            && unit.slice.is_some() == (slices > 0)
            && picked.iter().all(|one| one.uuid != unit.uuid)
    };
    assert!(!worn.contains(&true) || !eligible.iter().any(is_left), "{}", told());
}
