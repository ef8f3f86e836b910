//! Chooses between SSH and a job step for a node.

use crate::transport::channel::Channel;
use crate::transport::srun::{NodeJobs, SrunCall, StepScript};
use crate::transport::{Reach, Target, Transport, TransportMode};
use gtop_local::fault::{Fault, StepCause};
use gtop_local::lock::lock;
use gtop_model::{JobId, NodeName};
use gtop_ssh::{ConnectEvent, ConnectPhase, Profile, Recourse, record_event};

impl Transport {
    /// Updates the user's running jobs by node.
    pub fn update_jobs(&self, update: impl FnOnce(&NodeJobs) -> NodeJobs) {
        let mut node_jobs = lock(&self.0.srun_steps.node_jobs);
        *node_jobs = update(&node_jobs);
    }

    /// Starts the probe on `target`: as [`open`](Self::open) does, or as one task of `script`, in a step of the user's
    /// job on that node.
    pub(crate) async fn open_probe(
        &self,
        target: &Target,
        command: &str,
        script: &(dyn Fn() -> StepScript + Sync),
        mut on_phase: impl FnMut(ConnectPhase) + Send,
    ) -> Result<Channel, Fault> {
        let uses_ssh_config =
            matches!(&target.reach, Reach::Ssh(ssh) if ssh.profile == Profile::System);
        let mode = self.0.options.mode;
        if !uses_ssh_config || !matches!(mode, TransportMode::Auto | TransportMode::Srun) {
            return Box::pin(self.open(target, command, on_phase)).await;
        }
        let node = &target.name;
        let state = self.0.options.state.as_deref();
        if mode == TransportMode::Srun {
            return self.open_in_step(node, script, &mut on_phase).await;
        }
        let has_job = self.has_job(node);
        if has_job && self.0.cluster.refused_at(state).await.is_some() {
            match self.open_in_step(node, script, &mut on_phase).await {
                Err(fault) if !fault.is_retryable() => {
                    log::info!("{node}: {fault}; trying ssh");
                    record_event(|| ConnectEvent::DelegateFailed(fault.to_string()));
                }
                ended => return ended,
            }
            return Box::pin(self.open(target, command, on_phase)).await;
        }
        let fault = match Box::pin(self.open(target, command, &mut on_phase)).await {
            Err(fault) if has_job && refuses_login(&fault) => fault,
            ended => return ended,
        };
        record_event(|| ConnectEvent::Fallback(fault.to_string()));
        match self.open_in_step(node, script, &mut on_phase).await {
            Ok(channel) => {
                self.0.cluster.cache_refusal(state).await;
                Ok(channel)
            }
            Err(step_fault) if step_fault.is_retryable() => Err(step_fault),
            Err(step_fault) => {
                // The SSH fault is reported, as the user can fix it.
                log::info!("{node}: srun failed too: {step_fault}");
                Err(fault)
            }
        }
    }

    /// Joins the node's job step.
    async fn open_in_step(
        &self,
        node: &NodeName,
        script: &(dyn Fn() -> StepScript + Sync),
        on_phase: &mut impl FnMut(ConnectPhase),
    ) -> Result<Channel, Fault> {
        let options = &self.0.options;
        self.0.cluster.checked_version(&options.srun_program).await?;
        loop {
            let step_nodes = lock(&self.0.srun_steps.node_jobs).step_nodes(node);
            let Some(step_nodes) = step_nodes else {
                return Err(Fault::job_step(StepCause::NoJob, ""));
            };
            on_phase(ConnectPhase::Connection);
            record_event(|| ConnectEvent::Delegated {
                to: "srun",
                what: format!("a step of job {}", step_nodes.job.id),
            });
            let call = SrunCall { step: &step_nodes, options };
            let fault = match self.0.srun_steps.join(node, call, script).await {
                Ok(channel) => return Ok(Channel::Step(Box::new(channel))),
                Err(fault) => fault,
            };
            let job = &step_nodes.job.id;
            let node_jobs = &self.0.srun_steps.node_jobs;
            if !(fault.is_job_specific() && lock(node_jobs).mark_failed(node, job)) {
                return Err(fault);
            }
            log::info!("{node}: no step in job {job}: {fault}; trying another job on the node");
            record_event(|| ConnectEvent::DelegateFailed(fault.to_string()));
        }
    }

    /// Returns the user's known running jobs on a node.
    pub fn jobs_on(&self, node: &NodeName) -> Vec<JobId> {
        lock(&self.0.srun_steps.node_jobs).jobs_on(node).cloned().collect()
    }
}

/// Returns true if the node refuses SSH logins, in which case a job step is tried.
pub(crate) fn refuses_login(fault: &Fault) -> bool {
    matches!(fault, Fault::Ssh(fault) if fault.permits(Recourse::OtherWay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_ssh as ssh;

    #[test]
    fn only_a_refused_login_leads_to_srun() {
        let refused = ssh::Fault::AuthenticationRefused {
            user: "ada".to_owned(),
            offers: Vec::new(),
            tried: Vec::new(),
        };
        let broken = |phase| ssh::Fault::ConnectionLost { phase, why: String::new() };
        let job_required = ssh::Fault::JobRequired { message: "Access denied: no job".to_owned() };
        let message = "Maintenance until 18:00".to_owned();
        let shut = ssh::Fault::AccountRefused { user: "ada".to_owned(), message };
        for fault in [
            refused,
            ssh::Fault::ConnectionRefused { port: 22 },
            broken(ConnectPhase::Login),
            job_required,
            shut,
        ] {
            assert!(refuses_login(&fault.clone().into()), "{fault}");
        }
        let changed = ssh::Fault::HostKeyUnknown {
            host: "gpu01".to_owned(),
            algorithm: String::new(),
            fingerprint: String::new(),
        };
        for fault in [
            changed,
            broken(ConnectPhase::KeyExchange),
            ssh::Fault::Unreachable { why: String::new() },
        ] {
            assert!(!refuses_login(&fault.clone().into()), "{fault}");
        }
    }
}
