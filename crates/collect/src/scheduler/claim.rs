//! Which job a process belongs to, by its control group or its environment. The rules of all schedulers are data, so a
//! recording is read without any of them.

use std::sync::Arc;

use crate::scheduler::SchedulerKind;
use gtop_model::{ClaimRules, GroupRule, IdForm, JobId};

/// What a process shows of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobClaim {
    /// The job's id.
    pub(crate) job: Option<JobId>,
    /// Another name of the job, in place of the id.
    pub(crate) alias: Option<Arc<str>>,
    pub(crate) step: Option<Arc<str>>,
}

/// Returns the job that the path of a control group names; `None` if it names none.
pub(crate) fn of_group(path: &str) -> Option<JobClaim> {
    all_rules()
        .find_map(|rules| rules.groups.iter().find_map(|rule| claim_by_group(rule, rules, path)))
}

/// Returns the job that the variables of an environment name; `job` is the value of any scheduler's variable.
pub(crate) fn of_variables(job: &str, step: Option<&str>) -> Option<JobClaim> {
    let rules = all_rules()
        .find(|rules| rules.variables.as_ref().is_some_and(|rule| rule.form.matches(job)))?;
    let step = step.and_then(|step| step_name(rules, step));
    Some(JobClaim { job: JobId::new(job), alias: None, step })
}

/// Returns what the probes look for in one word: for each scheduler what marks control groups of its jobs, and its
/// variables of job and step, as `MARK:JOB:STEP`.
pub(crate) fn probe_word() -> String {
    let words = all_rules().map(|rules| {
        let (job, step) = rules.variables.as_ref().map_or(("", None), |rule| (rule.job, rule.step));
        format!("{}:{job}:{}", rules.mark, step.unwrap_or_default())
    });
    words.collect::<Vec<_>>().join(",")
}

fn all_rules() -> impl Iterator<Item = &'static ClaimRules> {
    SchedulerKind::ALL.into_iter().map(|kind| &kind.profile().claims)
}

fn claim_by_group(rule: &GroupRule, rules: &ClaimRules, path: &str) -> Option<JobClaim> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    parts.find(|part| rule.folder.matches(part))?;
    let mut parts =
        parts.skip_while(|part| !rule.skipped.is_empty() && part.starts_with(rule.skipped));
    let id = parts.next()?.strip_prefix(rule.job)?;
    let is_id = rule.form.matches(id);
    // Without a prefix, only the form shows that it is a job.
    if !is_id && rule.job.is_empty() {
        return None;
    }
    let step = rule.step.and_then(|start| parts.next()?.strip_prefix(start));
    let step = step.and_then(|step| step_name(rules, step));
    Some(match rule.form {
        _ if !is_id => JobClaim { step, ..JobClaim::default() },
        IdForm::Alias { .. } => JobClaim { alias: Some(id.into()), step, job: None },
        IdForm::Number | IdForm::Word | IdForm::AtServer => {
            JobClaim { job: JobId::new(id), step, alias: None }
        }
    })
}

fn step_name(rules: &ClaimRules, step: &str) -> Option<Arc<str>> {
    let named = rules.step_names.iter().find(|(number, _)| *number == step);
    named
        .map(|(_, name)| (*name).into())
        .or_else(|| IdForm::Word.matches(step).then(|| step.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_the_probes_has_only_letters_that_they_accept() {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_:,".contains(&byte);
        let word = probe_word();
        assert!(word.bytes().all(is_plain) && word.len() < 512, "{word}");
        let parts = |claim: &str| claim.matches(':').count() == 2 && !claim.starts_with(':');
        assert!(word.split(',').all(parts), "{word}");
    }
}
