//! The job whose environment gtop has.

use super::queue;
use crate::scheduler::OwnJob;
use gtop_model::JobId;

/// Maximum number of components of a heterogeneous job (`MAX_HET_JOB_COMPS`).
const MAX_COMPONENTS: u32 = 128;

/// Returns the job of an environment, each component of a heterogeneous one; its id is displayed as `squeue` does.
pub fn own_job(variable: &dyn Fn(&str) -> Option<String>) -> Option<OwnJob> {
    let shown_id = allocation_id(variable)?;
    let ids = of_components(variable, "SLURM_JOB_ID");
    let lists = of_components(variable, "SLURM_JOB_NODELIST");
    let nodes = lists.iter().flat_map(|list| queue::parse_nodelist(list).unwrap_or_default());
    Some(OwnJob {
        shown_id,
        ids: ids.iter().filter_map(|id| JobId::new(id)).collect(),
        nodes: nodes.collect(),
    })
}

/// Returns the values of a variable for the components of a heterogeneous job, or that for the whole job.
fn of_components(variable: impl Fn(&str) -> Option<String>, name: &str) -> Vec<String> {
    let components = (0..MAX_COMPONENTS)
        .map_while(|number| variable(&format!("{name}_HET_GROUP_{number}")))
        .collect::<Vec<_>>();
    if components.is_empty() { variable(name).into_iter().collect() } else { components }
}

/// Returns the id of the job whose environment this is, as `squeue` writes it: `2_1` for a task of an array.
fn allocation_id(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let [id, array, task] =
        ["SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"].map(|name| {
            variable(name).filter(|text| {
                (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
            })
        });
    let task = array.zip(task).map(|(array, task)| format!("{array}_{task}"));
    id.map(|id| task.unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_has_the_id_that_squeue_shows() {
        let id = |variables: &[(&str, &str)]| {
            let variables = variables.to_vec();
            allocation_id(move |name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let job = ("SLURM_JOB_ID", "11");
        assert_eq!(id(&[job]).as_deref(), Some("11"));
        let task = [job, ("SLURM_ARRAY_JOB_ID", "2"), ("SLURM_ARRAY_TASK_ID", "1")];
        assert_eq!(id(&task).as_deref(), Some("2_1"));
        assert_eq!(id(&[job, ("SLURM_ARRAY_JOB_ID", "2")]).as_deref(), Some("11"));
        assert_eq!(id(&[("SLURM_JOB_ID", "1;x")]), None);
        assert_eq!(id(&[]), None);
    }

    #[test]
    fn a_heterogeneous_job_has_the_nodes_of_all_its_components() {
        let nodes = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            of_components(variable, "SLURM_JOB_NODELIST")
        };
        let of_two = [
            ("SLURM_JOB_NODELIST_HET_GROUP_0", "n1"),
            ("SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]"),
            ("SLURM_JOB_NODELIST", "n1"),
        ];
        assert_eq!(nodes(&of_two), ["n1", "n[2-3]"]);
        assert_eq!(nodes(&[("SLURM_JOB_NODELIST", "n[1-2]")]), ["n[1-2]"]);
        assert!(nodes(&[]).is_empty());
    }
}
