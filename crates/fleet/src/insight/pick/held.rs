//! Which devices of a node are kept by jobs.

use crate::advice;
use crate::insight::node_status::shown_id;
use crate::{Certainty, Claim, DeviceHoldings, Fleet, Holder, JobHoldings, Node, User};
use gtop_model::{Device, JobId};

/// Whose the devices of a node are, seen by the user as whom gtop runs there.
pub(super) struct HeldDevices<'a> {
    fleet: &'a Fleet,
    node: &'a Node,
    /// The job whose devices alone may be picked.
    own_job: Option<OwnJob<'a>>,
    /// Why it is not known from the scheduler who has the devices.
    silence: Option<String>,
}

/// The job that gtop runs in, or whose allocation it picks from.
struct OwnJob<'a> {
    id: &'a JobId,
    /// What it has on the node; `None` if that is not known.
    holdings: Option<&'a JobHoldings>,
    /// gtop runs in it on the node.
    is_inside: bool,
}

impl<'a> HeldDevices<'a> {
    /// Returns whose the devices are, for a choice from all of them or from those of a job: its components, of which one is
    /// on the node.
    pub(super) fn of(fleet: &'a Fleet, node: &'a Node, components: &'a [JobId]) -> Self {
        let entered = node.hello.as_ref().and_then(|hello| hello.host.job.as_ref());
        let own = entered.map_or(components, std::slice::from_ref).iter();
        let mut jobs = own.map(|id| {
            let listed = fleet.jobs.as_ref().and_then(|list| list.job(id));
            let id = listed.map_or(id, |job| &job.id);
            OwnJob { id, holdings: node.holdings.job(id), is_inside: entered.is_some() }
        });
        let here = jobs.clone().find(|job| job.holdings.is_some());
        let own_job = here.or_else(|| jobs.next());
        Self { fleet, node, own_job, silence: silence(fleet, node) }
    }

    /// Returns why it is not known from the scheduler who has the node's devices; `None` if it is, or without a scheduler.
    pub(super) fn silence(&self) -> Option<&str> {
        self.silence.as_deref()
    }

    /// Returns true if a job of this user runs on the node.
    pub(super) fn has_own_job(&self) -> bool {
        let mut jobs = self.node.holdings.jobs().iter().filter_map(|known| self.listed(&known.job));
        self.own_job.as_ref().is_some_and(|own| own.is_inside)
            || jobs.any(|job| is_own(self.node, &job.user))
    }

    /// Returns why jobs keep a device from being picked; `None` if they do not.
    pub(super) fn refusal(&self, device: &Device) -> Option<String> {
        let holdings = self.node.holdings.device(&device.uuid);
        let whole = device.parent.as_ref().map(|parent| self.node.holdings.device(parent));
        let mut claims = holdings.claims.iter().chain(self.direct_claims(whole, device));
        if let Some(foreign) = claims.find(|claim| self.is_foreign(claim)) {
            return Some(format!("{} it", self.holding(&foreign.holder)));
        }
        if let Some(own) = &self.own_job {
            return self.confinement(own, device);
        }
        if holdings.claims.iter().any(|claim| is_sure(claim, holdings)) {
            return None;
        }
        if let Some(silence) = &self.silence {
            return Some(silence.clone());
        }
        if holdings.rest == Certainty::Certain {
            return self.uncertain_own(holdings);
        }
        Some(self.suspicion(holdings))
    }

    /// Returns why a device is refused that somebody else may have.
    fn suspicion(&self, holdings: &DeviceHoldings) -> String {
        let suspect = holdings.suspect.as_ref();
        let holder = suspect.map_or_else(|| "a job".to_owned(), |holder| self.name(holder));
        let is_shared = holdings.claims.iter().any(|claim| claim.may_be_shared);
        let why = match holdings.rest {
            Certainty::Certain | Certainty::Likely => "which devices it has is only likely",
            Certainty::Disputed => "what is known of its devices is contradictory",
            Certainty::Unknown if is_shared => "several jobs may have shares of it",
            Certainty::Unknown => "its devices on this node are not known",
        };
        format!("{holder} may hold it: {why}")
    }

    /// Returns why a device is refused that is not known for certain to be one of the job.
    fn confinement(&self, own: &OwnJob<'_>, device: &Device) -> Option<String> {
        let holdings = self.node.holdings.device(&device.uuid);
        let claims = holdings.claims.iter();
        let own_claims: Vec<&Claim> =
            claims.filter(|claim| claim.holder.job.as_ref() == Some(own.id)).collect();
        let is_claimed = !own_claims.is_empty();
        let is_certain = own_claims.iter().any(|claim| is_sure(claim, holdings));
        if !is_certain && own_claims.iter().any(|claim| is_certain_allocation(claim)) {
            return Some(self.suspicion(holdings));
        }
        let is_unlisted = own.holdings.is_none() && own.is_inside;
        if is_certain || (is_unlisted && self.opens(device)) {
            return None;
        }
        let name = self.name(&Holder { user: User::Unknown, job: Some(own.id.clone()) });
        let place = if own.is_inside { "in which gtop runs" } else { "whose shell this is" };
        let is_known = own
            .holdings
            .is_some_and(|known| known.is_complete() && known.certainty == Certainty::Certain);
        Some(if is_claimed {
            format!("not known for certain to belong to {name}, {place}")
        } else if is_known {
            format!("outside {name}, {place}")
        } else {
            format!("not known to belong to {name}, {place}")
        })
    }

    /// Returns true if the control group in which gtop runs lets it open a device, and not those of all.
    fn opens(&self, device: &Device) -> bool {
        let Some(evidence) = self.node.evidence.as_deref() else { return false };
        let Some(minors) = &evidence.openable else { return false };
        let statics = self.node.whole(device).statics.as_ref();
        let minor = statics.and_then(|statics| statics.minor.get());
        minor.is_some_and(|minor| minors.contains(&minor))
            && evidence.driver_devices.iter().any(|known| !minors.contains(&known.minor))
    }

    /// Returns why a device is refused that a job of this user has, though not for certain.
    fn uncertain_own(&self, holdings: &DeviceHoldings) -> Option<String> {
        let unsure = holdings
            .claims
            .iter()
            .find(|claim| claim.is_allocation() && claim.certainty != Certainty::Certain)?;
        Some(format!(
            "{} it, and that is only {}",
            self.holding(&unsure.holder),
            unsure.certainty.as_str()
        ))
    }

    /// Returns the claims on a device that are not those on its slices.
    fn direct_claims<'c>(
        &'c self,
        whole: Option<&'c DeviceHoldings>,
        slice: &'c Device,
    ) -> impl Iterator<Item = &'c Claim> {
        let claims = whole.into_iter().flat_map(|whole| &whole.claims);
        claims.filter(move |claim| {
            let siblings = self.node.devices.iter().filter(|other| other.parent == slice.parent);
            let mut of_slices =
                siblings.flat_map(|slice| &self.node.holdings.device(&slice.uuid).claims);
            !of_slices.any(|other| other.holder == claim.holder)
        })
    }

    /// Returns true if a job of somebody else has it.
    fn is_foreign(&self, claim: &Claim) -> bool {
        let is_of_job = claim.is_allocation() || claim.holder.job.is_some();
        is_of_job && !matches!(&claim.holder.user, User::Named(name) if is_own(self.node, name))
    }

    fn listed(&self, id: &JobId) -> Option<&gtop_model::Job> {
        self.fleet.jobs.as_ref()?.job(id)
    }

    /// Returns a holder as the subject of a sentence that ends in what it holds.
    fn holding(&self, holder: &Holder) -> String {
        let verb = if holder.user == User::NotShown { "hold" } else { "holds" };
        format!("{} {verb}", self.name(holder))
    }

    fn name(&self, holder: &Holder) -> String {
        let Some(id) = &holder.job else {
            return if holder.user == User::NotShown { "jobs that are not shown" } else { "a job" }
                .to_owned();
        };
        let listed = self.listed(id);
        let shown = shown_id(self.fleet.jobs.as_deref(), id);
        let user = match (listed, &holder.user) {
            (Some(job), _) => job.user.to_string(),
            (None, user) if user.is_known() => user.text(),
            (None, _) => "somebody".to_owned(),
        };
        if self.own_job.as_ref().is_some_and(|own| own.id == id) {
            return format!("job {shown}");
        }
        format!("job {shown} of {user}")
    }
}

/// Returns why it is not known from the scheduler who has a node's devices; `None` if it is, or without a scheduler there.
fn silence(fleet: &Fleet, node: &Node) -> Option<String> {
    if !node.is_scheduled() {
        return None;
    }
    // Without a list of jobs, it is the daemon on the node that shows which scheduler has it.
    let by_daemon = node.evidence.as_ref().map(|known| known.daemon.scheduler);
    let by_list = fleet.jobs.as_deref().map(|list| list.scheduler);
    let profile = by_list.or(by_daemon).unwrap_or_default();
    let name = profile.words.name;
    let why = match fleet.jobs.as_deref() {
        None => "its commands are not on this machine, or are not configured".to_owned(),
        Some(list) => match (&list.error, &node.scheduler) {
            (Some(error), _) if !list.is_current() => {
                advice::scheduler::explained(&list.scheduler.words, error)
            }
            _ if !list.is_answered() => "no answer yet; a longer --deadline may help".to_owned(),
            (_, None) => "it does not list this node".to_owned(),
            (_, Some(known)) if known.allocated.is_none() && known.devices != Some(0) => {
                "it does not say how many devices of this node are in use".to_owned()
            }
            (_, Some(_)) => return None,
        },
    };
    Some(format!("{name} does not say who has it: {why}"))
}

/// Returns true if the scheduler has certainly given the device to the job, and to no other: a process may use that of
/// another one, and a share leaves shares for others.
fn is_sure(claim: &Claim, holdings: &DeviceHoldings) -> bool {
    let is_alone = !claim.may_be_shared || holdings.rest == Certainty::Certain;
    is_alone && is_certain_allocation(claim)
}

/// Returns true if the scheduler has certainly given the device, or a share of it, to the job.
fn is_certain_allocation(claim: &Claim) -> bool {
    claim.is_allocation() && claim.certainty == Certainty::Certain
}

/// Returns true if this is the user as whom gtop runs on the node.
pub(super) fn is_own(node: &Node, user: &str) -> bool {
    node.hello.as_ref().is_some_and(|hello| &*hello.host.user == user)
}
