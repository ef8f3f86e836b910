//! Which devices of a node are kept by jobs.

use std::sync::Arc;

use crate::fleet::{Certainty, Claim, DeviceHoldings, Fleet, Holder, JobHoldings, Node, User};
use crate::model::{Device, JobId};

/// Whose the devices of a node are, seen by the user as whom gtop runs there.
pub(super) struct HeldDevices<'a> {
    fleet: &'a Fleet,
    node: &'a Node,
    /// The job that gtop runs in on the node.
    own_job: Option<&'a JobHoldings>,
}

impl<'a> HeldDevices<'a> {
    pub(super) fn of(fleet: &'a Fleet, node: &'a Node) -> Self {
        let id = node.hello.as_ref().and_then(|hello| hello.host.job.as_ref());
        let listed = id.and_then(|id| fleet.jobs.as_ref()?.job(id)).map(|job| &job.id);
        let own_job = listed.or(id).and_then(|id| node.holdings.job(id));
        Self { fleet, node, own_job }
    }

    /// Returns true if a job of this user runs on the node.
    pub(super) fn has_own_job(&self) -> bool {
        let jobs = self.node.holdings.jobs().iter().filter_map(|known| self.listed(&known.job));
        self.own_job.is_some() || jobs.into_iter().any(|job| is_own(self.node, &job.user))
    }

    /// Returns why jobs keep a device from being picked; `None` if they do not.
    pub(super) fn refusal(&self, device: &Device) -> Option<String> {
        let holdings = self.node.holdings.device(&device.uuid);
        let whole = device.parent.as_ref().map(|parent| self.node.holdings.device(parent));
        let mut claims = holdings.claims.iter().chain(self.direct_claims(whole, device));
        if let Some(foreign) = claims.find(|claim| self.is_foreign(claim)) {
            return Some(format!("{} it", self.holding(&foreign.holder)));
        }
        if let Some(own) = self.own_job {
            return self.confinement(own, device);
        }
        let is_own = holdings
            .claims
            .iter()
            .any(|claim| claim.is_allocation() && claim.certainty == Certainty::Certain);
        if is_own {
            return None;
        }
        let why = match holdings.rest {
            Certainty::Certain => return self.uncertain_own(holdings),
            Certainty::Likely => "which devices it has is only likely",
            Certainty::Disputed => "what is known of its devices contradicts itself",
            Certainty::Unknown => "its devices on this node are not known",
        };
        let holder = match &holdings.suspect {
            Some(holder) => self.name(holder),
            None => "a job".to_owned(),
        };
        Some(format!("{holder} may hold it: {why}"))
    }

    /// Returns why a device outside of the job is refused in which gtop runs. What the job may use is what its control
    /// group lets it open and the driver shows it, or what else proves that it has it.
    fn confinement(&self, own: &JobHoldings, device: &Device) -> Option<String> {
        let name = self.name(&Holder { user: User::Unknown, job: Some(own.job.clone()) });
        let slices = self.node.devices.iter();
        let mut slices = slices.filter(|slice| slice.parent.as_ref() == Some(&device.uuid));
        let has = |uuid: &Arc<str>| own.devices.contains(uuid);
        if !has(&device.uuid) && !slices.any(|slice| has(&slice.uuid)) {
            let is_known = own.is_complete() && own.certainty == Certainty::Certain;
            return Some(if is_known {
                format!("outside {name}, in which gtop runs")
            } else {
                format!("not known to belong to {name}, in which gtop runs")
            });
        }
        let claims = self.node.holdings.device(&device.uuid).claims.iter();
        let is_certain = |claim: &Claim| {
            claim.holder.job.as_ref() == Some(&own.job) && claim.certainty == Certainty::Certain
        };
        let refusal = || format!("not known for certain to belong to {name}, in which gtop runs");
        (!claims.into_iter().any(is_certain)).then(refusal)
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
        let is_of_slice = move |claim: &Claim| {
            let siblings = self.node.devices.iter().filter(|one| one.parent == slice.parent);
            let mut claims = siblings.flat_map(|one| &self.node.holdings.device(&one.uuid).claims);
            claims.any(|other| other.holder == claim.holder)
        };
        let claims = whole.into_iter().flat_map(|whole| &whole.claims);
        claims.filter(move |claim| !is_of_slice(claim))
    }

    /// Returns true if a job of somebody else has it.
    fn is_foreign(&self, claim: &Claim) -> bool {
        let is_of_job = claim.is_allocation() || claim.holder.job.is_some();
        let is_of_user = match &claim.holder.user {
            User::Named(name) => is_own(self.node, name),
            User::Number(_) | User::Unknown | User::Hidden | User::NotShown => false,
        };
        is_of_job && !is_of_user
    }

    fn listed(&self, id: &JobId) -> Option<&crate::model::Job> {
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
        let shown = listed.map_or(id.as_str(), |job| &job.shown_id);
        let user = match (listed, &holder.user) {
            (Some(job), _) => job.user.to_string(),
            (None, user) if user.is_known() => user.text(),
            (None, _) => "somebody".to_owned(),
        };
        if self.own_job.is_some_and(|own| own.job == *id) {
            return format!("job {shown}");
        }
        format!("job {shown} of {user}")
    }
}

/// Returns true if this is the user as whom gtop runs on the node.
pub(super) fn is_own(node: &Node, user: &str) -> bool {
    node.hello.as_ref().is_some_and(|hello| &*hello.host.user == user)
}
