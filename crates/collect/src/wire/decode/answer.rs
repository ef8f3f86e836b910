//! Decodes a probe's answers and checks them against the requests.

use crate::wire::body;
use crate::wire::decode::process::{MAX_COMMAND_LENGTH, MAX_USER_LENGTH, process_state};
use crate::wire::decode::{bytes, text_or, text_reading};
use gtop_local::text::{sanitize_shared, sanitized_chars};
use gtop_model::{
    Bytes, Environment, IoCounters, ProcessDetail, ProcessKey, ProcessRequest, ProcessResponse,
    ProcessTree, Reading, Reason, Refusal, RequestError, ResourceLimit, TreeProcess, Variable,
};

/// Maximum number of environment variables.
const MAX_VARIABLES: usize = 16_384;
/// Maximum number of processes in a tree.
const MAX_TREE_PROCESSES: usize = 2048;
/// Maximum number of resource limits of a process.
const MAX_LIMITS: usize = 32;
/// Maximum length of a command line or path in details.
const MAX_LONG_TEXT_LENGTH: usize = 4096;
/// Maximum length of an error message.
const MAX_MESSAGE_LENGTH: usize = 160;

/// Decodes the answer to a request, checking that it fits.
pub(crate) fn decode_response(
    request: ProcessRequest,
    sent: &body::Answer,
) -> Result<ProcessResponse, RequestError> {
    let why = sent.why.as_deref().unwrap_or("no reason given");
    let why = sanitize_shared(why, MAX_MESSAGE_LENGTH);
    match sent.result.as_str() {
        "sent" if matches!(request, ProcessRequest::Signal(..)) => Ok(ProcessResponse::Sent),
        "ok" => decode_success(request, sent).ok_or(RequestError::Malformed),
        "gone" => Err(Refusal::Gone.into()),
        "reused" => Err(Refusal::Reused.into()),
        "zombie" => Err(Refusal::Zombie.into()),
        "refused" => Err(Refusal::NotAllowed(why).into()),
        "failed" | "bad" => Err(Refusal::Failed(why).into()),
        _ => Err(RequestError::Malformed),
    }
}

fn decode_success(request: ProcessRequest, sent: &body::Answer) -> Option<ProcessResponse> {
    match request {
        ProcessRequest::Signal(..) => None,
        ProcessRequest::Environment(_) => {
            let list = sent.environ.as_ref()?;
            let variables = list.iter().take(MAX_VARIABLES).map(|text| variable(text)).collect();
            let is_truncated = sent.cut || list.len() > MAX_VARIABLES;
            Some(ProcessResponse::Environment(Environment { variables, is_truncated }))
        }
        ProcessRequest::Tree(_) => {
            let list = sent.tree.as_ref()?;
            let rows = list.iter().take(MAX_TREE_PROCESSES).filter(|row| row.pid > 0);
            let processes = rows.map(|row| tree_process(row, MAX_COMMAND_LENGTH)).collect();
            let is_truncated = sent.cut || list.len() > MAX_TREE_PROCESSES;
            Some(ProcessResponse::Tree(ProcessTree { processes, is_truncated }))
        }
        ProcessRequest::Detail(key) => {
            let detail = detail(sent.detail.as_ref()?);
            (detail.process.key == key).then(|| ProcessResponse::Detail(Box::new(detail)))
        }
    }
}

fn variable(text: &str) -> Variable {
    // Keeps a multi-line value on one line, with its line breaks visible.
    let text: String = sanitized_chars(&text.replace('\n', "␤")).collect();
    let (name, value) = text.split_once('=').unwrap_or((&text, ""));
    Variable { name: name.into(), value: value.into() }
}

fn tree_process(sent: &body::TreeRow, max_length: usize) -> TreeProcess {
    TreeProcess {
        key: ProcessKey { pid: sent.pid, start_ticks: sent.start },
        parent_pid: sent.ppid,
        uid: sent.uid.checked(),
        user: text_reading(sent.user.as_deref(), MAX_USER_LENGTH),
        state: process_state(sent.state.as_deref()),
        cpu_ticks: sent.cpu.checked(),
        resident: bytes(sent.rss),
        command: text_reading(sent.command.as_deref(), max_length),
    }
}

fn detail(sent: &body::Detail) -> ProcessDetail {
    const LONG: usize = MAX_LONG_TEXT_LENGTH;
    ProcessDetail {
        process: tree_process(&sent.row, MAX_LONG_TEXT_LENGTH),
        threads: sent.threads.checked(),
        niceness: sent.nice.reading(Reason::NotAvailable).and_then(niceness),
        virtual_memory: bytes(sent.vsize),
        peak_resident: bytes(sent.peak),
        swapped: bytes(sent.swap),
        voluntary_switches: sent.voluntary.reading(Reason::NotAvailable),
        involuntary_switches: sent.involuntary.reading(Reason::NotAvailable),
        directory: text_or(sent.cwd.as_deref(), LONG, Reason::NoPermission),
        program: text_or(sent.exe.as_deref(), LONG, Reason::NoPermission),
        cgroup: text_or(sent.cgroup.as_deref(), LONG, Reason::NotAvailable),
        wchan: text_or(sent.wchan.as_deref(), LONG, Reason::NotAvailable),
        io: sent.io.map_or(Reading::Unknown(Reason::NoPermission), |io| {
            let [read, written, storage_read, storage_written] = io.map(Bytes);
            Reading::Known(IoCounters { read, written, storage_read, storage_written })
        }),
        limits: sent.limits.iter().take(MAX_LIMITS).map(limit).collect(),
    }
}

fn limit(sent: &[String; 3]) -> ResourceLimit {
    let [name, soft, hard] = sent.each_ref().map(|text| sanitize_shared(text, MAX_USER_LENGTH));
    ResourceLimit { name, soft, hard }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
fn niceness(raw: f64) -> Option<i8> {
    (-20.0..=19.0).contains(&raw).then_some(raw as i8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Body, FrameReader, Received};
    use gtop_model::{ProcessState, Signal};

    const KEY: ProcessKey = ProcessKey { pid: 42, start_ticks: 99 };

    fn sent(json: &str) -> body::Answer {
        let mut reader = FrameReader::default();
        reader.push(format!("\x1egtop1 {{\"t\":\"answer\",\"id\":1,\"at\":1.0,{json}}}\n"));
        let Some(Received::Frame(frame)) = reader.next_frame() else { panic!("{json}") };
        assert!(frame.text.is_empty(), "the text of a response is not kept");
        let Body::Answer(answer) = frame.body else { panic!("{json}") };
        *answer
    }

    #[test]
    fn a_list_is_truncated_if_too_long_or_marked_as_cut() {
        let decode_list = |request, list: &str, one: &str, count: usize, more: &str| {
            let rows = vec![one; count].join(",");
            let response = decode_response(
                request,
                &sent(&format!(r#""result":"ok","{list}":[{rows}]{more}"#)),
            );
            match response.unwrap() {
                ProcessResponse::Environment(list) => (list.variables.len(), list.is_truncated),
                ProcessResponse::Tree(tree) => (tree.processes.len(), tree.is_truncated),
                ProcessResponse::Sent | ProcessResponse::Detail(_) => panic!("{list}"),
            }
        };
        let row = r#"{"pid":1,"ppid":0,"start":3}"#;
        for (request, list, one, limit) in [
            (ProcessRequest::Environment(KEY), "environ", r#""A=1""#, MAX_VARIABLES),
            (ProcessRequest::Tree(Some(KEY)), "tree", row, MAX_TREE_PROCESSES),
        ] {
            assert_eq!(decode_list(request, list, one, limit, ""), (limit, false));
            assert_eq!(decode_list(request, list, one, limit + 1, ""), (limit, true));
            assert_eq!(decode_list(request, list, one, 1, r#","cut":true"#), (1, true));
        }
    }

    #[test]
    fn every_result_of_a_node_is_decoded() {
        let request = ProcessRequest::Signal(KEY, Signal::Terminate);
        let decode = |result: &str| {
            decode_response(request, &sent(&format!(r#""result":"{result}","why":"a\u001b[2Jb""#)))
        };
        assert_eq!(decode("sent"), Ok(ProcessResponse::Sent));
        for (sanitize, refusal) in [
            ("gone", Refusal::Gone),
            ("reused", Refusal::Reused),
            ("zombie", Refusal::Zombie),
            ("refused", Refusal::NotAllowed("a [2Jb".into())),
            ("failed", Refusal::Failed("a [2Jb".into())),
            ("bad", Refusal::Failed("a [2Jb".into())),
        ] {
            assert_eq!(decode(sanitize), Err(RequestError::Refused(refusal)), "{sanitize}");
        }
        for sanitize in ["ok", "done", ""] {
            assert_eq!(decode(sanitize), Err(RequestError::Malformed), "{sanitize}");
        }
        let other = decode_response(ProcessRequest::Environment(KEY), &sent(r#""result":"sent""#));
        assert_eq!(other, Err(RequestError::Malformed));
    }

    #[test]
    fn a_variable_is_split_at_its_first_equals_sign_and_sanitized() {
        let sent =
            sent(r#""result":"ok","environ":["A=b=c","B= x\u001b]0;y\u0007\n","odd"],"cut":true"#);
        let Ok(ProcessResponse::Environment(found)) =
            decode_response(ProcessRequest::Environment(KEY), &sent)
        else {
            panic!()
        };
        let pairs: Vec<(&str, &str)> =
            found.variables.iter().map(|one| (&*one.name, &*one.value)).collect();
        assert_eq!(pairs, [("A", "b=c"), ("B", " x ]0;y ␤"), ("odd", "")]);
        assert!(found.is_truncated);
    }

    #[test]
    fn a_tree_is_decoded_row_by_row() {
        let sent = sent(
            r#""result":"ok","tree":[{"pid":1,"ppid":0,"start":3,"state":"S","command":"init"},
               {"pid":42,"ppid":1,"start":99,"uid":5000000000,"user":"a\u0007da","state":"?"}]"#
                .replace('\n', "")
                .as_str(),
        );
        let Ok(ProcessResponse::Tree(tree)) = decode_response(ProcessRequest::Tree(None), &sent)
        else {
            panic!()
        };
        let [init, other] = tree.processes.as_slice() else { panic!() };
        assert_eq!(init.state, Reading::Known(ProcessState::Sleeping));
        assert_eq!((other.key, other.parent_pid), (KEY, 1));
        assert_eq!(other.uid, Reading::Unknown(Reason::Malformed));
        assert_eq!(other.user, Reading::Known("a da".into()));
        assert_eq!(other.state, Reading::Unknown(Reason::Malformed));
        assert!(!tree.is_truncated);
    }

    #[test]
    fn details_of_another_process_are_refused() {
        let json = r#""result":"ok","detail":{"pid":42,"start":99,"ppid":1,"nice":-5,"cwd":null,
            "exe":"/bin/x","io":[1,2,3,4],"limits":[["Max open files","1024","4096"]]}"#;
        let sent = sent(&json.replace('\n', ""));
        let Ok(ProcessResponse::Detail(detail)) =
            decode_response(ProcessRequest::Detail(KEY), &sent)
        else {
            panic!()
        };
        assert_eq!(detail.niceness, Reading::Known(-5));
        assert_eq!(detail.directory, Reading::Unknown(Reason::NoPermission));
        assert_eq!(detail.io.get().map(|io| io.storage_read), Some(Bytes(3)));
        assert_eq!(&*detail.limits[0].hard, "4096");
        let key = ProcessKey { start_ticks: 98, ..KEY };
        assert_eq!(
            decode_response(ProcessRequest::Detail(key), &sent),
            Err(RequestError::Malformed)
        );
    }
}
