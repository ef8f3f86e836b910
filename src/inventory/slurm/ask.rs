//! Programs of Slurm, run with all that keeps them from surprising us.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::inventory::slurm::queue::{self, Queue};
use crate::inventory::slurm::{Trouble, Whose};
use crate::model::{Job, JobId};
use crate::transport::{Answer, Asked, ask};

/// How long a program of Slurm may take. A controller that hangs is reported after 20 s by Slurm
/// itself, in better words than ours.
const LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of an answer: 20,000 jobs take a fifth of it.
const MOST: usize = 24 << 20;

/// Asks for jobs once, without their devices.
pub async fn ask_jobs(whose: &Whose) -> Result<Vec<Job>, Trouble> {
    Ok(ask_queue(whose).await?.jobs)
}

/// Asks for the queue.
pub(super) async fn ask_queue(whose: &Whose) -> Result<Queue, Trouble> {
    let mark = mark();
    let answer = ask_slurm("squeue", &queue::words(whose, &mark), "").await?;
    let is_refused = !answer.succeeded || answer.complaint.contains("Invalid user");
    if is_refused {
        return Err(Trouble::of_complaint("squeue", &answer.complaint));
    }
    Ok(queue::read(&answer.output, &mark, answer.is_cut))
}

/// Asks about jobs: one program, one question each.
pub(super) async fn ask_details(jobs: &BTreeMap<JobId, String>) -> Result<Answer, Trouble> {
    let mut lines = String::new();
    for id in jobs.keys() {
        // Writing to a string cannot fail.
        _ = writeln!(lines, "show job {id}");
    }
    let answer = ask_slurm("scontrol", &["-d".into()], &lines).await?;
    if answer.output.contains("JobId=") || answer.succeeded {
        return Ok(answer);
    }
    Err(Trouble::of_complaint("scontrol", &answer.complaint))
}

async fn ask_slurm(program: &str, words: &[OsString], input: &str) -> Result<Answer, Trouble> {
    ask_within(LIMIT, program, words, input).await
}

/// Runs a program of Slurm, or one that belongs to it.
pub async fn ask_within(
    limit: Duration,
    program: &str,
    words: &[OsString],
    input: &str,
) -> Result<Answer, Trouble> {
    let asked = Asked {
        program,
        words,
        input,
        // Moments as seconds; no zone has a say in them.
        environment: &[("SLURM_TIME_FORMAT", "%s")],
        // What the user's own squeue is to show by default is not what we ask for.
        without: "SQUEUE_",
        limit,
        most: MOST,
    };
    ask(asked).await.map_err(|fault| Trouble::of_fault(program, &fault, limit.as_secs()))
}

/// Returns what no job's name can hold by intent.
fn mark() -> String {
    let mut bytes = [0_u8; 8];
    // Without randomness only a name made for it could profit.
    _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}
