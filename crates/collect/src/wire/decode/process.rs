//! Decodes processes; job, step and container are parsed from the control group's path.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::scheduler::claim::{self, JobClaim};
use crate::wire::body::{self, RawText};
use crate::wire::checked::{Decode as _, ObjectReader};
use crate::wire::decode::{bytes, text_or, text_reading};
use crate::wire::raw::OptionalKey as _;
use gtop_local::text::sanitize_shared;
use gtop_model::{
    Ancestor, Container, ContainerKind, JobId, ProcessKey, ProcessReading, ProcessState,
    ProcessStatics, Reading, Reason, UnseenProcess, UnseenReason,
};

/// Maximum length of a command line or path.
pub(super) const MAX_COMMAND_LENGTH: usize = 512;
/// Maximum length of a user name.
pub(super) const MAX_USER_LENGTH: usize = 64;
/// Maximum number of ancestors of a process.
const MAX_PARENTS: usize = 32;
/// Maximum number of devices that an environment names.
const MAX_VISIBLE: usize = 64;
/// Maximum length of the name of a device or slice: `MIG-GPU-…/7/0` has 51 characters.
const MAX_UUID_LENGTH: usize = 96;
/// Characters of a container id that are kept; enough to distinguish containers.
const SHORT_ID: usize = 12;

/// Reads objects without `lacks`.
const NO_REASONS: ObjectReader<'_> =
    ObjectReader { lacks: &BTreeMap::new(), max_text_length: MAX_USER_LENGTH };

pub(super) fn process(sent: &body::Process) -> ProcessReading {
    let new_statics = sent
        .statics
        .as_deref()
        .filter(|sent| sent.command.is_some() || sent.user.is_some() || !sent.uid.is_absent());
    // Without a start time, the probe found no process.
    let start_ticks = sent.start.min(ProcessKey::UNKNOWN_START - 1);
    let rest = ProcessReading {
        key: ProcessKey { pid: sent.pid, start_ticks },
        resident: bytes(sent.rss),
        state: process_state(sent.state.as_deref()),
        statics: new_statics.map(|sent| Arc::new(statics(sent))),
        ..ProcessReading::default()
    };
    sent.decode(&NO_REASONS, rest)
}

fn statics(sent: &body::ProcessStatics) -> ProcessStatics {
    let of_environment =
        sent.job.as_deref().and_then(|job| claim::of_variables(job, sent.step.as_deref()));
    let rest = ProcessStatics {
        user: text_reading(sent.user.as_deref(), MAX_USER_LENGTH),
        command: text_reading(sent.command.as_deref(), MAX_COMMAND_LENGTH),
        directory: match &sent.cwd {
            RawText::Absent => Reading::default(),
            RawText::Null => Reading::Unknown(Reason::NoPermission),
            RawText::Text(cwd) => text_reading(Some(cwd), MAX_COMMAND_LENGTH),
        },
        visible_uuids: sent
            .visible
            .iter()
            .take(MAX_VISIBLE)
            .filter_map(|uuid| device_uuid(uuid))
            .collect(),
        parents: sent.parents.iter().take(MAX_PARENTS).map(ancestor).collect(),
        ..parse_cgroup(sent.cgroup.as_deref())
    };
    let mut statics = sent.decode(&NO_REASONS, rest);
    if let Some(claim) = of_environment.filter(|_| statics.job.is_none()) {
        statics.job = claim.job;
        statics.is_job_of_environment = statics.job.is_some() && statics.job_alias.is_none();
        statics.step = statics.step.or(claim.step);
    }
    statics
}

pub(super) fn unseen_process(sent: &body::Unseen) -> Option<UnseenProcess> {
    let why = match sent.why.as_str() {
        "gone" => UnseenReason::Gone,
        "hidden" => UnseenReason::Hidden,
        "elsewhere" => UnseenReason::OtherNamespace,
        "ambiguous" => UnseenReason::Ambiguous,
        _ => return None,
    };
    let reason = why.reason();
    let statics = ProcessStatics {
        parent_pid: Reading::Unknown(reason),
        command: Reading::Unknown(reason),
        directory: Reading::Unknown(reason),
        uid: sent.uid.checked().get().map_or(Reading::Unknown(reason), Reading::Known),
        user: text_or(sent.user.as_deref(), MAX_USER_LENGTH, reason),
        ..parse_cgroup(sent.cgroup.as_deref())
    };
    Some(UnseenProcess { pid: sent.pid, why, statics })
}

pub(super) fn process_state(letter: Option<&str>) -> Reading<ProcessState> {
    Reading::of(letter, |letter| Reading::checked(ProcessState::new(letter)))
}

/// Returns the UUID of a device or slice, which may be shortened to its beginning; `None` for another text.
fn device_uuid(sent: &str) -> Option<Arc<str>> {
    let is_uuid = sent.len() <= MAX_UUID_LENGTH
        && (sent.starts_with("GPU-") || sent.starts_with("MIG-"))
        && sent.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'/'));
    is_uuid.then(|| sent.into())
}

fn ancestor((pid, start, name): &(u32, u64, String)) -> Ancestor {
    let key = ProcessKey { pid: *pid, start_ticks: *start };
    Ancestor { key, name: sanitize_shared(name, MAX_USER_LENGTH) }
}

/// Returns the job id in a control group's path, in whichever form the path has it.
pub fn job_of_cgroup(cgroup: Option<&str>) -> Option<JobId> {
    let found = parse_cgroup(cgroup);
    found.job.or_else(|| JobId::new(&found.job_alias?))
}

/// Returns job, step and container from a control group's path.
fn parse_cgroup(cgroup: Option<&str>) -> ProcessStatics {
    let Some(cgroup) = cgroup else { return ProcessStatics::default() };
    let JobClaim { job, alias, step } = claim::of_group(cgroup).unwrap_or_default();
    let container = parse_container(cgroup);
    ProcessStatics { job, job_alias: alias, step, container, ..ProcessStatics::default() }
}

/// Returns the innermost container of a path, with its pod.
fn parse_container(cgroup: &str) -> Option<Container> {
    let parts: Vec<&str> = cgroup.split(['/', ':']).filter(|part| !part.is_empty()).collect();
    let pod = parts.iter().rev().find_map(|part| parse_pod(part));
    let found = parts.iter().enumerate().rev().find_map(|(index, part)| {
        let parent = parts.get(index.wrapping_sub(1)).copied();
        parse_named_component(part).or_else(|| parse_bare_component(part, parent, pod.is_some()))
    });
    match (found, pod) {
        (Some((kind, id)), pod) => Some(Container { kind, id: short_id(id), pod }),
        (None, Some(pod)) => Some(Container {
            kind: ContainerKind::Kubernetes,
            id: Arc::clone(&pod),
            pod: Some(pod),
        }),
        (None, None) => None,
    }
}

/// Parses a component with a prefix of the container runtime, such as `docker-<id>.scope`.
fn parse_named_component(part: &str) -> Option<(ContainerKind, &str)> {
    const PREFIXES: [(&str, ContainerKind); 7] = [
        ("cri-containerd-", ContainerKind::Containerd),
        ("nerdctl-", ContainerKind::Containerd),
        ("docker-", ContainerKind::Docker),
        ("libpod-", ContainerKind::Podman),
        ("crio-", ContainerKind::Crio),
        ("lxc.payload.", ContainerKind::Lxc),
        ("machine-", ContainerKind::Machine),
    ];
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let (kind, id) =
        PREFIXES.iter().find_map(|(prefix, kind)| Some((*kind, part.strip_prefix(prefix)?)))?;
    let is_name = matches!(kind, ContainerKind::Lxc | ContainerKind::Machine);
    (is_name || is_id(id)).then_some((kind, id))
}

/// Parses a component that is only an id or name, by its parent: `/docker/<id>`, `/lxc/<name>`.
fn parse_bare_component<'a>(
    part: &'a str,
    parent: Option<&str>,
    is_in_pod: bool,
) -> Option<(ContainerKind, &'a str)> {
    match parent {
        Some("docker") if is_id(part) => Some((ContainerKind::Docker, part)),
        Some("k8s.io" | "cri-containerd") if is_id(part) => Some((ContainerKind::Containerd, part)),
        Some("lxc" | "lxc.payload") => Some((ContainerKind::Lxc, part)),
        _ => (is_in_pod && is_id(part)).then_some((ContainerKind::Kubernetes, part)),
    }
}

fn is_id(part: &str) -> bool {
    (SHORT_ID..=64).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the pod's UID from `pod<uid>` or `kubepods-burstable-pod<uid with _>.slice`.
fn parse_pod(part: &str) -> Option<Arc<str>> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = match part.strip_prefix("pod") {
        Some(uid) => uid,
        None => part.strip_prefix("kubepods")?.split_once("-pod")?.1,
    };
    let uid = uid.replace('_', "-");
    let is_uid = (32..=36).contains(&uid.len())
        && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then(|| uid.into())
}

/// Returns the first characters of an id, or a name without systemd's escapes.
fn short_id(id: &str) -> Arc<str> {
    if is_id(id) {
        return id.get(..SHORT_ID).unwrap_or(id).into();
    }
    sanitize_shared(&id.replace("\\x2d", "-"), MAX_USER_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::example_group;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn the_environment_names_the_job_only_if_the_control_group_does_not() {
        let sent = |cgroup: &str| body::ProcessStatics {
            command: Some("x".to_owned()),
            cgroup: Some(cgroup.to_owned()),
            job: Some("99".to_owned()),
            step: Some("-5".to_owned()),
            ..body::ProcessStatics::default()
        };
        let job_and_step = |cgroup: &str| {
            let statics = statics(&sent(cgroup));
            (statics.job.unwrap().to_string(), statics.step.unwrap().to_string())
        };
        assert_eq!(job_and_step("/"), ("99".to_owned(), "batch".to_owned()));
        assert_eq!(job_and_step(&example_group("5")), ("5".to_owned(), "0".to_owned()));
        let hostile = body::ProcessStatics { job: Some("1;id".to_owned()), ..sent("/") };
        assert_eq!(statics(&hostile).job, None);
    }

    #[test]
    fn only_uuids_of_the_environment_are_taken() {
        let slice = "MIG-GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f/7/0";
        let long = format!("GPU-{}", "a".repeat(100));
        let sent = ["GPU-5c89", slice, "0", "GPU-\u{1b}[2J", "GPU-a,b", &long, "MIG-1"];
        let sent = body::ProcessStatics {
            visible: sent.map(str::to_owned).to_vec(),
            ..body::ProcessStatics::default()
        };
        let found = statics(&sent).visible_uuids;
        assert_eq!(
            found.iter().map(|uuid| &**uuid).collect::<Vec<_>>(),
            ["GPU-5c89", slice, "MIG-1"]
        );
        let many = body::ProcessStatics { visible: vec!["GPU-1".to_owned(); 500], ..sent };
        assert_eq!(statics(&many).visible_uuids.len(), MAX_VISIBLE);
    }

    #[test]
    fn containers_and_pods_are_parsed_from_the_control_group() {
        let pod = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let slice = format!("kubepods-burstable-pod{}.slice", pod.replace('-', "_"));
        for (cgroup, kind, id, in_pod) in [
            (format!("/docker/{HEX}"), ContainerKind::Docker, "0123456789ab", None),
            (
                format!("/system.slice/docker-{HEX}.scope"),
                ContainerKind::Docker,
                "0123456789ab",
                None,
            ),
            (
                format!(
                    "/user.slice/user-1.slice/user@1.service/user.slice/libpod-{HEX}.scope/container"
                ),
                ContainerKind::Podman,
                "0123456789ab",
                None,
            ),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{HEX}.scope"
                ),
                ContainerKind::Containerd,
                "0123456789ab",
                Some(pod),
            ),
            (
                format!("/kubepods.slice/{slice}:cri-containerd:{HEX}"),
                ContainerKind::Containerd,
                "0123456789ab",
                Some(pod),
            ),
            (
                format!("/kubepods.slice/{slice}/crio-{HEX}.scope"),
                ContainerKind::Crio,
                "0123456789ab",
                Some(pod),
            ),
            (
                format!("/kubepods/besteffort/pod{pod}/{HEX}"),
                ContainerKind::Kubernetes,
                "0123456789ab",
                Some(pod),
            ),
            (format!("/kubepods/pod{pod}"), ContainerKind::Kubernetes, pod, Some(pod)),
            ("/lxc.payload.web/system.slice".to_owned(), ContainerKind::Lxc, "web", None),
            ("/lxc/web/user.slice".to_owned(), ContainerKind::Lxc, "web", None),
            (
                "/machine.slice/machine-build\\x2dbox.scope".to_owned(),
                ContainerKind::Machine,
                "build-box",
                None,
            ),
        ] {
            let found = parse_container(&cgroup).unwrap_or_else(|| panic!("nothing in {cgroup}"));
            assert_eq!((found.kind, &*found.id), (kind, id), "{cgroup}");
            assert_eq!(found.pod.as_deref(), in_pod, "{cgroup}");
        }
        for none in [
            "/",
            "/user.slice/user-1000.slice/session-3.scope",
            "/system.slice/docker.service",
            "/system.slice/docker-compose.scope",
            "/docker/buildkit",
            "/k8s.io/notes",
            "/cri-containerd/notes",
            "/user.slice/libpod-conmon-0123456789ab.scope",
            &example_group("2"),
        ] {
            assert_eq!(parse_container(none), None, "{none}");
        }
    }

    #[test]
    fn an_unseen_process_has_a_reason_and_its_owner() {
        let sent = body::Unseen {
            pid: 7,
            why: "hidden".to_owned(),
            uid: 1000.into(),
            user: Some("ada".to_owned()),
            cgroup: Some(example_group("5")),
        };
        let found = unseen_process(&sent).unwrap();
        assert_eq!((found.pid, found.why), (7, UnseenReason::Hidden));
        assert_eq!(found.statics.user, Reading::Known("ada".into()));
        assert_eq!(found.statics.job, JobId::new("5"));
        assert_eq!(found.statics.command, Reading::Unknown(Reason::NoPermission));
        let gone = body::Unseen { why: "gone".to_owned(), ..body::Unseen::default() };
        assert_eq!(unseen_process(&gone).unwrap().statics.uid, Reading::Unknown(Reason::Gone));
        assert_eq!(unseen_process(&body::Unseen::default()), None);
    }

    #[test]
    fn an_absent_directory_is_not_a_refused_one() {
        let read = |text: &str| {
            let sent: body::Process = serde_json::from_str(text).unwrap();
            process(&sent).statics.unwrap().directory.clone()
        };
        assert_eq!(read(r#"{"command":"x"}"#), Reading::default());
        assert_eq!(read(r#"{"command":"x","cwd":null}"#), Reading::Unknown(Reason::NoPermission));
        assert_eq!(read(r#"{"command":"x","cwd":"/a\u001bb"}"#), Reading::Known("/a b".into()));
    }
}
