//! Places the jobs of a node on its devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::holdings::NodeHoldings;
use crate::job_lookup::{JobAllocation, JobLookup};
use crate::node::Node;
use crate::placing::builder::{Builder, Placed};
use crate::placing::device_map::{DeviceMap, ListProof, Meaning, ProofKind, UnitSet, count_ones};
use crate::placing::learned::{LearnedMap, START_ROUNDING, process_list_time};
use crate::placing::numbering::{NodeUnits, bit};
use crate::placing::proofs::{JobProof, proofs_of};
use crate::placing::told_list::ToldList;
use crate::user::User;
use gtop_model::{
    Allocation, DeviceAllocation, Job, JobId, JobList, JobState, RequestedJobs, SchedulerNode,
};

/// A node with the jobs that the scheduler lists on it.
pub(super) struct Placement<'a> {
    pub(super) node: &'a Node,
    pub(super) jobs: &'a JobLookup,
    pub(super) listed: &'a [JobAllocation<'a>],
    pub(super) scheduler: Option<&'a SchedulerNode>,
}

/// All units of a node, of as many indices.
#[derive(Clone, Copy)]
struct WholeNode {
    indices: usize,
    units: UnitSet,
    /// The driver tells that there are no others, which might be meant instead of one of them.
    is_certain: bool,
}

/// What the scheduler's indices mean on the node now.
struct Numbering {
    map: Option<DeviceMap>,
    /// The likely meaning of each index, where nothing contradicts it.
    likely: Option<Vec<Option<usize>>>,
    /// Units that contradict each other; of all, if nothing is certain.
    disputed: UnitSet,
    /// All units, if the indices mean these whatever their order.
    whole: Option<WholeNode>,
}

impl Placement<'_> {
    /// Returns who has what, and remembers in `learned` what is proved of the scheduler's list.
    pub(super) fn holdings(&self, learned: &mut LearnedMap) -> NodeHoldings {
        let rule = &self.jobs.list().map(|list| list.scheduler).unwrap_or_default().numbering;
        let units = NodeUnits::of(self.node, rule);
        let id_of = |id: &JobId| self.jobs.job(id).map_or(id, |job| &job.id).clone();
        let highest =
            self.listed.iter().filter_map(|(_, allocation)| indices(allocation)).flatten().max();
        let min_count = highest.map_or(0, |index| index + 1);
        let told = ToldList::of(&units, self.scheduler, min_count, learned);
        let proofs = proofs_of(&units, &told.bounds(&units, learned), id_of);
        let numbering = self.numbering(&units, &told, &proofs, learned);
        let placed: Vec<Placed> = self
            .listed
            .iter()
            .map(|(job, allocation)| {
                let proof = proofs.get(&job.id).cloned().unwrap_or_default();
                let placed = self.place_job(job, allocation, &proof, &numbering, learned);
                Placed { may_share: self.may_share(allocation), ..placed }
            })
            .collect();
        let mut placed = self.dispute(placed, &proofs, &numbering);
        let is_listed = |id: &JobId| self.listed.iter().any(|(job, _)| job.id == *id);
        // Processes tell where jobs are that are not listed.
        let seen = proofs.iter().filter(|(id, _)| !is_listed(id));
        let seen = seen.fold(0, |seen, (_, proof)| seen | proof.certain(None));
        let mut hidden = self.hidden(&mut placed, seen, &numbering, learned);
        if self.may_lack_jobs() {
            hidden = hidden.with_any_device();
        }
        let mut builder = Builder::new(&units);
        let may_move = placed.iter().any(|known| known.may_move);
        let has_older = learned.has_several() || learned.may_have_older_jobs();
        let has_hidden = hidden.placed.is_some() && hidden.count != Some(0);
        builder.set_several_lists(may_move || (has_older && has_hidden));
        for (listed, of_job) in self.listed.iter().zip(&placed) {
            let proof = proofs.get(&listed.0.id).cloned().unwrap_or_default();
            builder.add_job(*listed, of_job, &proof);
        }
        let shared = self.shared_with_hidden(&placed);
        builder.set_hidden(hidden.count.filter(|_| shared == 0));
        builder.add_shared(shared);
        if let Some((user, placed)) = hidden.placed {
            builder.add_not_shown(user, &placed);
        }
        builder.add_processes(self.jobs);
        for (job, _) in self.listed {
            builder.add_user(&job.user);
        }
        builder.finish()
    }

    /// Returns true if the devices of an allocation may be shared with other jobs.
    fn may_share(&self, allocation: &Allocation) -> bool {
        match allocation.devices {
            DeviceAllocation::Shares(_) => true,
            DeviceAllocation::Count(_) | DeviceAllocation::Unknown => {
                self.scheduler.is_some_and(|scheduler| scheduler.gives_shares)
            }
            DeviceAllocation::Indices(_) | DeviceAllocation::None => false,
        }
    }

    /// Returns the units of which jobs that are not listed may have shares: the scheduler counts a device once.
    fn shared_with_hidden(&self, placed: &[Placed]) -> UnitSet {
        if self.jobs.list().is_some_and(|list| lists_all_jobs(list)) {
            return 0;
        }
        let shared = placed.iter().filter(|known| known.may_share);
        shared.fold(0, |all, known| all | known.certain | known.likely)
    }

    /// Returns true if jobs may have devices here of which neither the scheduler's count nor its list of jobs tells: the
    /// count is old, or a job is ending that is not listed.
    fn may_lack_jobs(&self) -> bool {
        let Some(scheduler) = self.scheduler else { return false };
        let is_ending = |(job, _): &JobAllocation<'_>| job.state == JobState::Ending;
        let lists_ending = self.jobs.list().is_some_and(|list| lists_all_jobs(list))
            && self.listed.iter().any(is_ending);
        scheduler.is_count_old || (scheduler.is_completing() && !lists_ending)
    }

    /// Learns what the indices mean.
    fn numbering(
        &self,
        units: &NodeUnits<'_>,
        told: &ToldList,
        proofs: &BTreeMap<JobId, JobProof>,
        learned: &mut LearnedMap,
    ) -> Numbering {
        let count = told.count;
        let may_mean_others = told.has_other_config || !units.is_all_of_driver();
        let Some(unknown) = DeviceMap::unknown(count, units.len(), may_mean_others) else {
            return Numbering { map: None, likely: None, disputed: 0, whole: None };
        };
        let whole = told.is_of(units).then(|| WholeNode {
            indices: count,
            units: units.all(),
            is_certain: units.is_all_of_driver(),
        });
        let mut likely = units.likely(count);
        let mut map = unknown.clone();
        let has_list = told.meant.is_some();
        let meant = told.meant.iter().flatten().zip(0..);
        let agrees = meant.into_iter().all(|(meant, index)| map.set(index, *meant)) && map.narrow();
        if !agrees {
            map = unknown.clone();
        }
        let mut disputed = 0;
        for (job, allocation) in self.listed.iter().filter(|(job, _)| learned.is_of_list(job)) {
            let Some(indices) = indices(allocation).map(Iterator::collect::<BTreeSet<usize>>)
            else {
                continue;
            };
            for (units, kind) in job_proofs(proofs.get(&job.id), indices.len()) {
                let mut more = map.clone();
                if more.learn(&ListProof { indices: indices.clone(), units, kind }) {
                    map = more;
                } else {
                    disputed |= units | map.meaning(&indices).certain;
                }
            }
        }
        if disputed != 0 {
            learned.contradict();
            return Numbering { map: None, likely, disputed, whole };
        }
        match learned.merge(map, has_list) {
            Some(map) => {
                let fits = |meant: &Vec<Option<usize>>| {
                    let mut units = meant.iter().enumerate();
                    units.all(|(index, unit)| unit.is_none_or(|unit| map.allows(index, unit)))
                };
                likely = likely.filter(fits);
                Numbering { map: Some(map.clone()), likely, disputed: 0, whole }
            }
            None => Numbering { map: None, likely: None, disputed: units.all(), whole },
        }
    }

    /// Returns all units of the node if the scheduler gave a job as many as there are, be they numbered or only counted.
    fn whole_node(&self, allocation: &Allocation, numbering: &Numbering) -> Option<UnitSet> {
        let may_be_shares = indices(allocation).is_none() && self.may_share(allocation);
        let is_all = |whole: &WholeNode| allocation.devices.count() == Some(whole.indices);
        let whole = numbering.whole.filter(|whole| !may_be_shares && is_all(whole))?;
        whole.is_certain.then_some(whole.units)
    }

    fn place_job(
        &self,
        job: &Job,
        allocation: &Allocation,
        proof: &JobProof,
        numbering: &Numbering,
        learned: &LearnedMap,
    ) -> Placed {
        let count = allocation.devices.count();
        let certain = proof.certain(count);
        let is_counted = indices(allocation).is_none();
        let confined = proof.confined_to(count).filter(|_| !is_counted);
        if let Some(all) = confined.or_else(|| self.whole_node(allocation, numbering)) {
            return Placed {
                certain: all,
                possible: all,
                // What the driver hides is not missing.
                unplaced: Some(0),
                is_located: true,
                ..Placed::default()
            };
        }
        let Some(indices) = indices(allocation).map(Iterator::collect::<BTreeSet<usize>>) else {
            let held = certain | proof.claimed;
            let is_confined = proof.confined_to(count).is_some();
            let may_move = learned.may_have_moved(job) && !is_confined;
            let is_all = count == Some(count_ones(certain)) && !may_move;
            return Placed {
                certain,
                likely: proof.claimed & !certain,
                possible: if is_all { held } else { UnitSet::MAX },
                unplaced: count.map(|count| count.saturating_sub(count_ones(held))),
                is_disputed: count.is_some_and(|count| count_ones(certain) > count),
                is_located: is_confined,
                may_move: may_move && count != Some(0),
                ..Placed::default()
            };
        };
        let whole = numbering.whole.filter(|whole| whole.indices == indices.len());
        let by_list = ListedUnits::of(job, &indices, certain, numbering, learned);
        let ListedUnits { proved, supposed, possible, may_move } = by_list;
        let certain = certain | proved;
        let wanted = indices.len().saturating_sub(count_ones(certain));
        let meant = || {
            let likely = numbering.likely.as_ref()?;
            let meant = indices.iter().filter_map(|index| likely.get(*index)?.map(bit));
            Some(meant.fold(0, |meant, unit| meant | unit) & !certain)
        };
        let has_rule = learned.has_rule_for(job);
        let of_rule = || if has_rule { meant().unwrap_or_default() } else { 0 };
        let named = proof.named & possible;
        let whole = whole.map_or(0, |whole| whole.units & !certain);
        let candidates = [whole, of_rule(), supposed & !certain, named & !certain];
        let fits = |units: &UnitSet| *units != 0 && count_ones(*units) <= wanted;
        let likely = candidates.into_iter().find(fits).unwrap_or_default();
        Placed {
            certain,
            likely,
            possible: if wanted == 0 && !may_move { certain } else { possible | certain },
            unplaced: Some(wanted.saturating_sub(count_ones(likely))),
            is_disputed: count_ones(certain) > indices.len(),
            may_move,
            is_located: true,
            ..Placed::default()
        }
    }

    /// Marks jobs that processes contradict: of those, only what processes use is told.
    fn dispute(
        &self,
        placed: Vec<Placed>,
        proofs: &BTreeMap<JobId, JobProof>,
        numbering: &Numbering,
    ) -> Vec<Placed> {
        let listed_at = process_list_time(self.node);
        let all: Vec<UnitSet> = placed.iter().map(|one| one.certain | one.likely).collect();
        let check = |(position, of_job): (usize, Placed)| {
            let Some((job, allocation)) = self.listed.get(position) else { return of_job };
            let proof = proofs.get(&job.id).cloned().unwrap_or_default();
            if proof.confined_to(allocation.devices.count()).is_some() {
                return of_job;
            }
            let own = proof.certain(allocation.devices.count());
            let has_surplus = allocation
                .devices
                .count()
                .is_some_and(|count| count_ones(own) > count || (count == 0 && proof.claimed != 0));
            // A process list from before the job's start says nothing about the job.
            let start = job.starts_at.map(|at| at.plus(START_ROUNDING));
            let is_older = start.zip(listed_at).is_some_and(|(start, at)| at < start);
            let is_used_by_other = |(other, used): (&JobId, &JobProof)| {
                let at = self.listed.iter().position(|(job, _)| job.id == *other);
                let shared = at.and_then(|at| all.get(at)).copied().unwrap_or_default();
                *other != job.id
                    && !is_older
                    && (used.used & !own & !shared) & (of_job.certain | of_job.likely) != 0
            };
            let is_contradicted = numbering.disputed & (of_job.certain | of_job.likely) != 0
                || (numbering.map.is_none()
                    && numbering.likely.is_none()
                    && of_job.is_located
                    && numbering.disputed != 0);
            let is_foreign = of_job.is_located && proofs.iter().any(is_used_by_other);
            if !(has_surplus || is_foreign || is_contradicted || of_job.is_disputed) {
                return of_job;
            }
            let held = own | proof.claimed;
            let count = allocation.devices.count();
            Placed {
                certain: held,
                likely: 0,
                possible: UnitSet::MAX,
                unplaced: count.map(|count| count.saturating_sub(count_ones(held))),
                is_disputed: true,
                is_located: false,
                ..of_job
            }
        };
        placed.into_iter().enumerate().map(check).collect()
    }

    /// Returns what jobs have that are not listed. Where the scheduler's own count leaves nothing for listed jobs of
    /// unknown devices, they have no more.
    fn hidden(
        &self,
        placed: &mut [Placed],
        seen: UnitSet,
        numbering: &Numbering,
        learned: &LearnedMap,
    ) -> Hidden {
        let (Some(scheduler), Some(list)) = (self.scheduler, self.jobs.list()) else {
            return Hidden { count: Some(0), placed: None };
        };
        // Jobs that have begun since are not in the scheduler's count, and those that are ending may not be.
        let counted_at = list.nodes.counted_at();
        let is_completing = scheduler.is_completing();
        let is_counted = |job: &Job| {
            let is_ending = is_completing && job.state == JobState::Ending;
            !is_ending && job.starts_at.is_some_and(|at| counted_at > Some(at))
        };
        let all_counted = self
            .listed
            .iter()
            .all(|(job, allocation)| is_counted(job) || indices(allocation).is_some());
        let counted = || self.listed.iter().filter(|(job, _)| is_counted(job));
        if let Some(allocated) = &scheduler.allocated_indices {
            let mut left: BTreeSet<usize> =
                allocated.iter().filter_map(|index| usize::try_from(*index).ok()).collect();
            for (_, allocation) in self.listed {
                for index in indices(allocation).into_iter().flatten() {
                    left.remove(&index);
                }
            }
            let meaning = match &numbering.map {
                Some(map) => map.meaning(&left),
                None if left.is_empty() => Meaning::default(),
                None => Meaning { certain: 0, possible: UnitSet::MAX },
            };
            let unnumbered = counted().filter(|(_, allocation)| indices(allocation).is_none());
            let counts: Option<Vec<usize>> =
                unnumbered.map(|(_, allocation)| allocation.devices.count()).collect();
            let count = counts.map(|counts| left.len().saturating_sub(counts.iter().sum()));
            let count = if left.is_empty() { Some(0) } else { count };
            let mut unnumbered = counted().filter(|(_, allocation)| indices(allocation).is_none());
            let is_of_list = learned.is_unchanged()
                || (count == Some(0) && unnumbered.all(|(job, _)| learned.is_of_list(job)));
            let narrowed = if is_of_list { meaning.possible } else { UnitSet::MAX };
            if all_counted {
                for (of_job, (_, allocation)) in placed.iter_mut().zip(self.listed) {
                    if indices(allocation).is_none() && !of_job.is_disputed {
                        of_job.possible &= narrowed | of_job.certain | of_job.likely;
                        if left.is_empty() {
                            of_job.unplaced = Some(0);
                        }
                    }
                }
            }
            // Some of them may be those of listed jobs, whose indices are not known yet.
            let is_of_others = count == Some(left.len());
            let taken = placed.iter().fold(seen, |all, known| all | known.certain | known.likely);
            let held = Self::holders_not_shown(&left, meaning, numbering, learned);
            let held =
                Placed { certain: held.certain & !taken, likely: held.likely & !taken, ..held };
            let user = if is_of_others { User::NotShown } else { User::Unknown };
            return Hidden { count, placed: (!left.is_empty()).then_some((user, held)) };
        }
        let allocated = scheduler.allocated.and_then(|count| usize::try_from(count).ok());
        let known = self.min_devices(counted(), list);
        let anywhere = |unplaced| Placed { possible: UnitSet::MAX, unplaced, ..Placed::default() };
        match (allocated, known) {
            (Some(allocated), Some(known)) => {
                let count = allocated.saturating_sub(known);
                let unseen = count.saturating_sub(count_ones(seen));
                let held = (unseen > 0).then(|| (User::NotShown, anywhere(Some(unseen))));
                Hidden { count: Some(count), placed: held }
            }
            (Some(allocated), None) => {
                let held =
                    self.listed.iter().zip(placed.iter()).filter(|((job, _), _)| is_counted(job));
                let held = held.fold(0, |held, (_, of_job)| held | of_job.certain | of_job.likely);
                let is_all_known =
                    all_counted_now(self.listed, is_counted) && count_ones(held) >= allocated;
                if is_all_known {
                    placed.iter_mut().filter(|of_job| of_job.unplaced.is_none()).for_each(
                        |of_job| {
                            of_job.unplaced = Some(0);
                        },
                    );
                }
                Hidden { count: is_all_known.then_some(0), placed: None }
            }
            (None, _) if lists_all_jobs(list) => Hidden { count: Some(0), placed: None },
            (None, _) => {
                // Also before the first list.
                let has_devices = scheduler.devices.is_none_or(|count| count > 0);
                let placed = has_devices.then(|| (User::NotShown, anywhere(None)));
                Hidden { count: None, placed }
            }
        }
    }

    /// Returns how many devices some listed jobs have at least; `None` if that is not known. Several may have shares of one.
    fn min_devices<'a>(
        &self,
        jobs: impl Iterator<Item = &'a JobAllocation<'a>>,
        list: &JobList,
    ) -> Option<usize> {
        let (mut whole, mut shared) = (0_usize, 0_usize);
        for (_, allocation) in jobs {
            let count = allocation.devices.count()?;
            if self.may_share(allocation) && !lists_all_jobs(list) {
                shared = shared.max(count);
            } else {
                whole = whole.saturating_add(count);
            }
        }
        Some(whole.saturating_add(shared))
    }

    /// Returns where devices are of which the scheduler says by their indices that jobs have them that are not listed.
    fn holders_not_shown(
        indices: &BTreeSet<usize>,
        meaning: Meaning,
        numbering: &Numbering,
        learned: &LearnedMap,
    ) -> Placed {
        let likely = || {
            let meant = numbering.likely.as_ref()?;
            let meant = indices.iter().filter_map(|index| meant.get(*index)?.map(bit));
            Some(meant.fold(0, |all, unit| all | unit))
        };
        // They may be from before the daemon made this list.
        let (certain, possible) = if learned.is_unchanged() {
            (meaning.certain, meaning.possible)
        } else {
            (0, UnitSet::MAX)
        };
        let wanted = indices.len().saturating_sub(count_ones(certain));
        let likely = match (wanted, likely()) {
            (0, _) => 0,
            (_, Some(likely)) => likely & !certain,
            (_, None) => meaning.certain & !certain,
        };
        Placed {
            certain,
            likely,
            possible: if wanted == 0 { certain } else { possible | likely },
            unplaced: Some(wanted.saturating_sub(count_ones(likely))),
            is_located: true,
            ..Placed::default()
        }
    }
}

/// What a scheduler's list says of the units of a job with indices.
struct ListedUnits {
    /// They are certainly meant.
    proved: UnitSet,
    /// They were meant by a list that may be another by now.
    supposed: UnitSet,
    /// Units that may be meant.
    possible: UnitSet,
    /// The daemon may have made another list since, by which the next step of the job is given devices.
    may_move: bool,
}

impl ListedUnits {
    /// Returns what is said of a job that certainly has the units in `seen`.
    fn of(
        job: &Job,
        indices: &BTreeSet<usize>,
        seen: UnitSet,
        numbering: &Numbering,
        learned: &LearnedMap,
    ) -> Self {
        let now = numbering.map.as_ref().map(|map| map.meaning(indices));
        let earlier = learned.map_for(job).map(|map| map.meaning(indices));
        let at_start = earlier.or(now.filter(|_| learned.is_of_list(job)));
        let unknown = Meaning { certain: 0, possible: UnitSet::MAX };
        let Meaning { certain, possible } = at_start.unwrap_or(unknown);
        if !learned.may_have_moved(job) && learned.is_sure() {
            return Self { proved: certain, supposed: 0, possible, may_move: false };
        }
        let held = seen | certain;
        let is_same = learned.is_list_confirmed()
            && count_ones(held) == indices.len()
            && now.is_some_and(|now| now.certain == held);
        if learned.may_have_moved(job) && is_same {
            return Self { proved: held, supposed: 0, possible: held, may_move: false };
        }
        // Where it cannot be seen whether the daemon has made its list anew, what was proved before is only likely.
        let may_move = learned.may_have_moved(job);
        Self { proved: 0, supposed: certain, possible: UnitSet::MAX, may_move }
    }
}

/// What jobs have that are not listed.
struct Hidden {
    /// `None` if it is not known whether they have any.
    count: Option<usize>,
    placed: Option<(User, Placed)>,
}

impl Hidden {
    /// Returns the same, if jobs may have any device besides.
    fn with_any_device(self) -> Self {
        let (user, placed) = self.placed.unwrap_or((User::NotShown, Placed::default()));
        let placed = Placed { possible: UnitSet::MAX, unplaced: None, ..placed };
        Self { count: None, placed: Some((user, placed)) }
    }
}

/// Returns true if the scheduler's count has all of these jobs.
fn all_counted_now(listed: &[JobAllocation<'_>], is_counted: impl Fn(&Job) -> bool) -> bool {
    listed
        .iter()
        .all(|(job, allocation)| is_counted(job) || allocation.devices == DeviceAllocation::None)
}

/// Returns true if no job can be missing from a list: the scheduler must say that it hides none.
fn lists_all_jobs(list: &JobList) -> bool {
    list.requested == RequestedJobs::All && list.hides_jobs == Some(false) && !list.is_partial
}

/// Returns what is proved about a job's units, as bounds of the meaning of its indices.
fn job_proofs(proof: Option<&JobProof>, indices: usize) -> Vec<(UnitSet, ProofKind)> {
    let mut found = Vec::new();
    let Some(proof) = proof else { return found };
    found.extend(proof.opens.map(|opens| {
        let is_all = count_ones(opens) == indices;
        (opens, if is_all { ProofKind::Exactly } else { ProofKind::AtMost })
    }));
    let has = proof.used | proof.of_step(Some(indices));
    if has != 0 {
        found.push((has, ProofKind::AtLeast));
    }
    found
}

/// Returns the indices of an allocation; `None` if the scheduler does not tell them.
fn indices(allocation: &Allocation) -> Option<impl Iterator<Item = usize>> {
    let is_any = allocation.devices != DeviceAllocation::None;
    let indices = allocation.devices.indices().filter(|_| is_any)?;
    Some(indices.iter().filter_map(|index| usize::try_from(*index).ok()))
}
