//! Places the jobs of a node on its devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::holdings::NodeHoldings;
use crate::job_lookup::{JobAllocation, JobLookup};
use crate::node::Node;
use crate::placing::builder::{Builder, Placed};
use crate::placing::device_map::{
    DeviceMap, ListProof, Meaning, ProofKind, UnitSet, count_ones, union,
};
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
    /// The driver lists no others, which might be meant instead of one of them.
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
        let highest =
            self.listed.iter().filter_map(|(_, allocation)| indices(allocation)).flatten().max();
        let min_count = highest.map_or(0, |index| index + 1);
        let told = ToldList::of(&units, self.scheduler, min_count, learned);
        let proofs = proofs_of(&units, &told.bounds(&units, learned), |id| {
            self.jobs.job(id).map_or(id, |job| &job.id).clone()
        });
        let numbering = self.numbering(&units, &told, &proofs, learned);
        let placed = self.listed.iter().map(|(job, allocation)| {
            let proof = proofs.get(&job.id).cloned().unwrap_or_default();
            let placed = self.place_job(job, allocation, &proof, &numbering, learned);
            Placed { may_share: self.may_share(allocation), ..placed }
        });
        let mut placed: Vec<Placed> = placed.collect();
        self.dispute(&mut placed, &proofs, &numbering);
        // Processes show where jobs are that are not listed.
        let unlisted =
            proofs.iter().filter(|(id, _)| self.listed.iter().all(|(job, _)| job.id != **id));
        let seen = union(unlisted.map(|(_, proof)| proof.certain(None)));
        let mut hidden = self.hidden(&mut placed, seen, &numbering, learned);
        if self.may_lack_jobs() {
            hidden = hidden.with_any_device();
        }
        let may_move = placed.iter().any(|known| known.may_move);
        let has_older = learned.has_several() || learned.may_have_older_jobs();
        let has_hidden = hidden.placed.is_some() && hidden.count != Some(0);
        let mut builder = Builder::new(&units, may_move || (has_older && has_hidden));
        for (listed, of_job) in self.listed.iter().zip(&placed) {
            let proof = proofs.get(&listed.0.id).cloned().unwrap_or_default();
            builder.add_job(*listed, of_job, &proof);
        }
        let shared = self.shared_with_hidden(&placed);
        builder.add_shared(shared);
        if let Some((user, placed)) = hidden.placed {
            builder.add_not_shown(user, &placed);
        }
        builder.add_processes(self.jobs);
        for (job, _) in self.listed {
            builder.add_user(&job.user);
        }
        builder.finish(hidden.count.filter(|_| shared == 0))
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
        union(placed.iter().filter(|known| known.may_share).map(Placed::known))
    }

    /// Returns true if jobs may have devices here that neither the scheduler's count nor its list of jobs has: the
    /// count is old, or a job is ending that is not listed.
    fn may_lack_jobs(&self) -> bool {
        let Some(scheduler) = self.scheduler else { return false };
        let lists_ending = self.jobs.list().is_some_and(|list| lists_all_jobs(list))
            && self.listed.iter().any(|(job, _)| job.state == JobState::Ending);
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
        let likely = units.likely(count);
        let mut map = unknown.clone();
        let has_list = told.meant.is_some();
        let meant = told.meant.iter().flatten().zip(0..);
        let agrees = meant.into_iter().all(|(meant, index)| map.set(index, *meant)) && map.narrow();
        if !agrees {
            map = unknown.clone();
        }
        let mut disputed = 0;
        for (job, allocation) in self.listed.iter().filter(|(job, _)| learned.is_of_list(job)) {
            let Some(indices) = indices(allocation) else { continue };
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
                let likely = likely.filter(|meant| map.allows(meant));
                Numbering { map: Some(map.clone()), likely, disputed: 0, whole }
            }
            None => Numbering { map: None, likely: None, disputed: units.all(), whole },
        }
    }

    /// Returns all units of the node if the scheduler gave a job as many as there are, be they numbered or only counted.
    fn whole_node(&self, allocation: &Allocation, numbering: &Numbering) -> Option<UnitSet> {
        let may_be_shares = !has_indices(allocation) && self.may_share(allocation);
        let whole = numbering.whole.filter(|whole| whole.is_certain && !may_be_shares)?;
        (allocation.devices.count() == Some(whole.indices)).then_some(whole.units)
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
        let confined = proof.confined_to(count).filter(|_| has_indices(allocation));
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
        let Some(indices) = indices(allocation) else {
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
        let by_list = ListedUnits::of(job, &indices, certain, numbering, learned);
        let ListedUnits { proved, supposed, possible, may_move } = by_list;
        let certain = certain | proved;
        let wanted = indices.len().saturating_sub(count_ones(certain));
        let whole = numbering.whole.filter(|whole| whole.indices == indices.len());
        let by_rule = numbering.likely_units(&indices).filter(|_| learned.has_rule_for(job));
        let candidates = [
            whole.map_or(0, |whole| whole.units),
            by_rule.unwrap_or_default(),
            supposed,
            proof.named & possible,
        ];
        let mut further = candidates.into_iter().map(|units| units & !certain);
        let likely = further.find(|units| *units != 0 && count_ones(*units) <= wanted);
        let likely = likely.unwrap_or_default();
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

    /// Marks jobs that processes contradict: they keep only what processes use.
    fn dispute(
        &self,
        placed: &mut [Placed],
        proofs: &BTreeMap<JobId, JobProof>,
        numbering: &Numbering,
    ) {
        let listed_at = process_list_time(self.node);
        let all: Vec<UnitSet> = placed.iter().map(Placed::known).collect();
        for ((job, allocation), of_job) in self.listed.iter().zip(placed) {
            let proof = proofs.get(&job.id).cloned().unwrap_or_default();
            let count = allocation.devices.count();
            if proof.confined_to(count).is_some() {
                continue;
            }
            let own = proof.certain(count);
            let has_surplus = count
                .is_some_and(|count| count_ones(own) > count || (count == 0 && proof.claimed != 0));
            // A process list from before the job's start says nothing about the job.
            let start = job.starts_at.map(|at| at.plus(START_ROUNDING));
            let is_older = start.zip(listed_at).is_some_and(|(start, at)| at < start);
            let is_foreign = of_job.is_located
                && !is_older
                && proofs.iter().filter(|(other, _)| **other != job.id).any(|(other, proof)| {
                    let at = self.listed.iter().position(|(job, _)| job.id == *other);
                    let shared = at.and_then(|at| all.get(at)).copied().unwrap_or_default();
                    proof.used & !own & !shared & of_job.known() != 0
                });
            let is_unknown = numbering.map.is_none() && numbering.likely.is_none();
            let is_contradicted = numbering.disputed & of_job.known() != 0
                || (is_unknown && of_job.is_located && numbering.disputed != 0);
            if !(has_surplus || is_foreign || is_contradicted || of_job.is_disputed) {
                continue;
            }
            let held = own | proof.claimed;
            *of_job = Placed {
                certain: held,
                likely: 0,
                possible: UnitSet::MAX,
                unplaced: count.map(|count| count.saturating_sub(count_ones(held))),
                is_disputed: true,
                is_located: false,
                ..*of_job
            };
        }
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
        if let Some(allocated) = &scheduler.allocated_indices {
            let allocated = allocated.iter().filter_map(|index| usize::try_from(*index).ok());
            return self.hidden_among(allocated.collect(), placed, seen, numbering, learned);
        }
        let allocated = scheduler.allocated.and_then(|count| usize::try_from(count).ok());
        match (allocated, self.min_devices(list)) {
            (Some(allocated), Some(known)) => {
                let count = allocated.saturating_sub(known);
                let unseen = count.saturating_sub(count_ones(seen));
                let held = (unseen > 0).then(|| (User::NotShown, Placed::anywhere(Some(unseen))));
                Hidden { count: Some(count), placed: held }
            }
            (Some(allocated), None) => {
                let are_counted = self.listed.iter().all(|(job, allocation)| {
                    self.is_counted(job) || allocation.devices == DeviceAllocation::None
                });
                let all = self.listed.iter().zip(placed.iter());
                let counted = all.filter(|((job, _), _)| self.is_counted(job));
                let held = union(counted.map(|(_, of_job)| of_job.known()));
                if !are_counted || count_ones(held) < allocated {
                    return Hidden { count: None, placed: None };
                }
                for of_job in placed {
                    of_job.unplaced = of_job.unplaced.or(Some(0));
                }
                Hidden { count: Some(0), placed: None }
            }
            (None, _) if lists_all_jobs(list) => Hidden { count: Some(0), placed: None },
            (None, _) => {
                // Also before the first list.
                let has_devices = scheduler.devices.is_none_or(|count| count > 0);
                let placed = has_devices.then(|| (User::NotShown, Placed::anywhere(None)));
                Hidden { count: None, placed }
            }
        }
    }

    /// Returns what jobs that are not listed have, where the scheduler tells which indices it has allocated. If those are 0 to
    /// 3, and listed jobs have 0 and 1, then 2 and 3 are left: they are of jobs that are not listed, or of listed ones whose
    /// indices are not known yet.
    fn hidden_among(
        &self,
        allocated: BTreeSet<usize>,
        placed: &mut [Placed],
        seen: UnitSet,
        numbering: &Numbering,
        learned: &LearnedMap,
    ) -> Hidden {
        let mut left = allocated;
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
        let count = self.count_unlisted(left.len());
        self.narrow_unnumbered(placed, &left, meaning, count, learned);
        let user = if count == Some(left.len()) { User::NotShown } else { User::Unknown };
        let taken = seen | union(placed.iter().map(Placed::known));
        let held = Self::holders_not_shown(&left, meaning, numbering, learned);
        let held = Placed { certain: held.certain & !taken, likely: held.likely & !taken, ..held };
        Hidden { count, placed: (!left.is_empty()).then_some((user, held)) }
    }

    /// Returns the listed jobs whose indices are not known.
    fn unnumbered(&self) -> impl Iterator<Item = &JobAllocation<'_>> {
        self.listed.iter().filter(|(_, allocation)| !has_indices(allocation))
    }

    /// Returns how many of the indices that are left are of jobs that are not listed; `None` if listed jobs may have some.
    fn count_unlisted(&self, left: usize) -> Option<usize> {
        if left == 0 {
            return Some(0);
        }
        let counted = self.unnumbered().filter(|(job, _)| self.is_counted(job));
        let known: Option<usize> = counted.map(|(_, allocation)| allocation.devices.count()).sum();
        Some(left.saturating_sub(known?))
    }

    /// Narrows what listed jobs may have whose indices are not known: to what is left, if it means the same as when they
    /// began.
    fn narrow_unnumbered(
        &self,
        placed: &mut [Placed],
        left: &BTreeSet<usize>,
        meaning: Meaning,
        count: Option<usize>,
        learned: &LearnedMap,
    ) {
        if !self.unnumbered().all(|(job, _)| self.is_counted(job)) {
            return;
        }
        let is_of_list = learned.is_unchanged()
            || (count == Some(0) && self.unnumbered().all(|(job, _)| learned.is_of_list(job)));
        let possible = if is_of_list { meaning.possible } else { UnitSet::MAX };
        for (of_job, (_, allocation)) in placed.iter_mut().zip(self.listed) {
            if !has_indices(allocation) && !of_job.is_disputed {
                of_job.possible &= possible | of_job.known();
                if left.is_empty() {
                    of_job.unplaced = Some(0);
                }
            }
        }
    }

    /// Returns true if the scheduler's count has a job: not one that has begun since, and perhaps not one that is ending.
    fn is_counted(&self, job: &Job) -> bool {
        let is_completing = self.scheduler.is_some_and(SchedulerNode::is_completing);
        let counted_at = self.jobs.list().and_then(|list| list.nodes.counted_at());
        !(is_completing && job.state == JobState::Ending)
            && job.starts_at.is_some_and(|at| counted_at > Some(at))
    }

    /// Returns how many devices the counted jobs have at least; `None` if that is not known. Several may have shares of one.
    fn min_devices(&self, list: &JobList) -> Option<usize> {
        let (mut whole, mut shared) = (0_usize, 0_usize);
        for (_, allocation) in self.listed.iter().filter(|(job, _)| self.is_counted(job)) {
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
        // They may be from before the daemon made this list.
        let (certain, possible) = if learned.is_unchanged() {
            (meaning.certain, meaning.possible)
        } else {
            (0, UnitSet::MAX)
        };
        let wanted = indices.len().saturating_sub(count_ones(certain));
        let likely = numbering.likely_units(indices).unwrap_or(meaning.certain) & !certain;
        let likely = if wanted == 0 { 0 } else { likely };
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

impl Numbering {
    /// Returns the units that indices likely mean.
    fn likely_units(&self, indices: &BTreeSet<usize>) -> Option<UnitSet> {
        let likely = self.likely.as_ref()?;
        Some(union(indices.iter().filter_map(|index| likely.get(*index)?.map(bit))))
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
    /// Returns what the list says of a job that certainly has the units in `seen`.
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
        let may_move = learned.may_have_moved(job);
        if !may_move && learned.is_sure() {
            return Self { proved: certain, supposed: 0, possible, may_move };
        }
        let held = seen | certain;
        let is_same = learned.is_list_confirmed()
            && count_ones(held) == indices.len()
            && now.is_some_and(|now| now.certain == held);
        if may_move && is_same {
            return Self { proved: held, supposed: 0, possible: held, may_move: false };
        }
        // Where it cannot be seen whether the daemon has made its list anew, what was proved before is only likely.
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

/// Returns the indices of an allocation; `None` if the scheduler does not list them.
fn indices(allocation: &Allocation) -> Option<BTreeSet<usize>> {
    let indices = allocation.devices.indices().filter(|_| has_indices(allocation))?;
    Some(indices.iter().filter_map(|index| usize::try_from(*index).ok()).collect())
}

/// Returns true if the scheduler lists the indices of an allocation.
fn has_indices(allocation: &Allocation) -> bool {
    matches!(allocation.devices, DeviceAllocation::Indices(_) | DeviceAllocation::Shares(_))
}
