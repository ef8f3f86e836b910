//! Authentication with an agent: a real one, and stubs that hang, exit or hold a security key.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gtop_collect::transport::{Fault, Options, Transport, TransportMode};
use gtop_fleet::advice::{self, Known};
use gtop_ssh as ssh;
use russh::keys::signature::Signer as _;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::keys::ssh_key::public::{Ed25519PublicKey, SkEd25519};
use russh::keys::{HashAlg, PublicKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::harness::lab::{Lab, check_echo, node};
use crate::login::{LONG, ssh_succeeds, tried_credentials};

async fn ssh_add(lab: &Lab, words: &[&str]) {
    let mut adding = Command::new("ssh-add");
    adding.arg("-q").args(words).env("SSH_AUTH_SOCK", lab.agent.as_ref().unwrap());
    let output = adding.env_remove("DISPLAY").output().await.unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[tokio::test]
async fn a_public_key_file_selects_the_key_of_the_agent() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    for at in 0..8 {
        let name = format!("other{at}");
        lab.key(&name, &["-t", "ed25519"]);
        lab.add_to_agent(&name).await;
    }
    lab.add_to_agent("id").await;
    fs::remove_file(lab.path("id")).unwrap();
    lab.write_config(sshd.port, "IdentitiesOnly yes");
    check_echo(&lab).await;
    let public = format!("IdentityFile {}", lab.path("id.pub").display());
    lab.write_config(sshd.port, &format!("{public}\nIdentitiesOnly yes"));
    check_echo(&lab).await;
    // Configured keys come first, even where others may be offered too.
    lab.write_config(sshd.port, "");
    check_echo(&lab).await;
}

#[tokio::test]
async fn a_configured_agent_takes_precedence_and_may_be_none() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    lab.add_to_agent("id").await;
    fs::remove_file(lab.path("id")).unwrap();
    fs::remove_file(lab.path("id.pub")).unwrap();
    check_echo(&lab).await;
    lab.write_config(sshd.port, "IdentityAgent none");
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert_eq!(tried, ["no key to offer"]);
    let socket = lab.agent.take().unwrap();
    lab.write_config(sshd.port, &format!("IdentityAgent {}", socket.display()));
    check_echo(&lab).await;
    lab.agent = Some(lab.path("nowhere"));
    check_echo(&lab).await;
}

#[tokio::test]
async fn with_many_keys_gtop_succeeds_exactly_where_ssh_does() {
    let Some(mut lab) = Lab::new().await else { return };
    let _agent = lab.start_agent().await;
    let keys: Vec<_> = (0..7).map(|at| format!("key{at}")).collect();
    for name in &keys {
        lab.key(name, &["-t", "ed25519"]);
        lab.add_to_agent(name).await;
    }
    // MaxAuthTries, the authorised key, and whether the login succeeds. The file is offered after the seven keys of
    // the agent.
    for (tries, right, succeeds) in [
        (1, "key0", true),
        (1, "key1", false),
        (6, "key5", true),
        (6, "key6", false),
        (7, "id", false),
        (8, "id", true),
    ] {
        let sshd = lab.sshd(&format!("MaxAuthTries {tries}")).await;
        lab.trust(&sshd);
        let socket = lab.agent.as_ref().unwrap();
        lab.write_config(sshd.port, &format!("IdentityAgent {}", socket.display()));
        lab.write("authorized", &lab.text(&format!("{right}.pub")));
        let opened = lab.open("true").await;
        assert_eq!(opened.is_ok(), succeeds, "{right} of MaxAuthTries {tries}");
        assert_eq!(ssh_succeeds(&lab).await, succeeds, "ssh: {right} of MaxAuthTries {tries}");
        let Err(fault) = opened else { continue };
        let Fault::Ssh(ssh::Fault::TooManyKeys { offered, untried, .. }) = fault else {
            panic!("{fault}")
        };
        assert_eq!((offered, untried), (Some(tries), 8 - tries), "{right}: {fault}");
        let by_ssh = Transport::new(Options { mode: TransportMode::Ssh, ..lab.options() });
        let same = by_ssh.open(&node(), "true", |_| ()).await.unwrap_err();
        assert!(
            matches!(same, Fault::Ssh(ssh::Fault::TooManyKeys { offered: None, .. })),
            "{same}"
        );
    }
    // What is advised works, even with only the public key.
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write("authorized", &lab.text("key6.pub"));
    let fault = lab.open("true").await.unwrap_err();
    let text = advice::of_cause(&fault, &Known::new("node", None, "node", None)).text();
    assert!(text.contains("IdentitiesOnly yes"), "{text}");
    lab.write_config(
        sshd.port,
        &format!("Host node\nIdentityFile {}.pub\nIdentitiesOnly yes", lab.path("key6").display()),
    );
    check_echo(&lab).await;
}

#[tokio::test]
async fn many_refused_keys_are_summarised() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("MaxAuthTries 60").await;
    lab.trust(&sshd);
    lab.write("authorized", "");
    let _agent = lab.start_agent().await;
    for at in 0..20 {
        let name = format!("key{at}");
        lab.key(&name, &["-t", "ed25519"]);
        lab.add_to_agent(&name).await;
    }
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert_eq!(tried.len(), 6, "{tried:?}");
    assert!(tried[0].starts_with("agent SHA256:"), "{tried:?}");
    assert_eq!(tried[5], "16 more");
}

#[tokio::test]
async fn an_agent_that_refuses_to_sign_is_skipped() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    lab.key("confirmed", &["-t", "ed25519"]);
    lab.authorize("confirmed");
    // The agent asks for confirmation, which is not given.
    ssh_add(&lab, &["-c", lab.path("confirmed").to_str().unwrap()]).await;
    check_echo(&lab).await;
    fs::remove_file(lab.path("id")).unwrap();
    fs::remove_file(lab.path("id.pub")).unwrap();
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert!(tried[0].ends_with("(the agent refused to sign)"), "{tried:?}");
}

#[tokio::test]
async fn a_key_restricted_to_hosts_is_used_only_there() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    let known = lab.path("known");
    let address = format!("[{}]:{}", crate::harness::lab::ADDRESS, sshd.port);
    // ssh-add looks up hosts by name without a port.
    lab.write("known_to_add", &lab.text("known").replace(&address, "there"));
    let (adding, id) = (lab.path("known_to_add"), lab.path("id"));
    let words = ["-H", adding.to_str().unwrap(), "-h", "there", id.to_str().unwrap()];
    ssh_add(&lab, &words).await;
    fs::remove_file(&id).unwrap();
    assert!(known.exists());
    check_echo(&lab).await;
    // For another host the agent does not even list it.
    lab.key("host_other", &["-t", "ed25519"]);
    fs::copy(lab.path("host_other"), lab.path("host_ed25519")).unwrap();
    fs::copy(lab.path("host_other.pub"), lab.path("host_ed25519.pub")).unwrap();
    let other = lab.sshd("").await;
    lab.trust(&other);
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert!(tried.iter().all(|tried| tried.starts_with("not ")), "{tried:?}");
}

/// Opens forty sessions at once.
async fn log_in_often(transport: &Transport) {
    let mut logins = JoinSet::new();
    for _ in 0..40 {
        let transport = transport.clone();
        logins.spawn(async move { transport.open(&node(), "true", |_| ()).await.map(drop) });
    }
    while let Some(login) = logins.join_next().await {
        login.unwrap().unwrap();
    }
}

#[tokio::test]
async fn one_agent_serves_many_logins_at_once() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("MaxStartups 200").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    lab.add_to_agent("id").await;
    fs::remove_file(lab.path("id")).unwrap();
    log_in_often(&lab.transport()).await;
}

// ---- agents that misbehave ----

/// A stub agent; it ends with the test.
struct FakeAgent {
    /// The number of connections.
    connections: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl FakeAgent {
    /// Serves each connection with `serve`.
    fn start<F: Future<Output = ()> + Send + 'static>(
        lab: &mut Lab,
        serve: impl Fn(UnixStream) -> F + Send + 'static,
    ) -> Self {
        let socket: PathBuf = lab.path("fake-agent");
        let listener = UnixListener::bind(&socket).unwrap();
        lab.agent = Some(socket);
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, mut serving) = (Arc::clone(&connections), JoinSet::new());
        serving.spawn(async move {
            let mut tasks = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                tasks.spawn(serve(stream));
            }
        });
        Self { connections, _serving: serving }
    }
}

/// Reads one request: its type and content.
async fn request(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let length = stream.read_u32().await.ok()?;
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut bytes).await.ok()?;
    let kind = *bytes.first()?;
    Some((kind, bytes.split_off(1)))
}

async fn reply(stream: &mut UnixStream, bytes: &[u8]) {
    stream.write_u32(u32::try_from(bytes.len()).unwrap()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

const FAILURE: [u8; 1] = [5];
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGNED: u8 = 14;

#[tokio::test]
async fn a_hanging_agent_is_waited_for_once_not_by_each_node() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("MaxStartups 200").await;
    lab.trust(&sshd);
    let agent = FakeAgent::start(&mut lab, |stream| async move {
        let _stream = stream;
        std::future::pending::<()>().await;
    });
    let transport = lab.transport();
    // The logins succeed with the key file.
    log_in_often(&transport).await;
    assert!(agent.connections.load(Ordering::Relaxed) <= 8, "{:?}", agent.connections);
    lab.write("authorized", "");
    let tried = tried_credentials(&transport.open(&node(), "true", |_| ()).await.unwrap_err());
    assert_eq!(
        tried,
        [lab.path("id").display().to_string(), "not the ssh agent (it hangs)".into()]
    );
    fs::remove_file(lab.path("id")).unwrap();
    fs::remove_file(lab.path("id.pub")).unwrap();
    let fault = transport.open(&node(), "true", |_| ()).await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::AgentUnreachable { .. })), "{fault}");
}

#[tokio::test]
async fn an_agent_that_exits_before_it_signs_is_skipped() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.key("lost", &["-t", "ed25519"]);
    lab.authorize("lost");
    let public = PublicKey::from_openssh(&lab.text("lost.pub")).unwrap().to_bytes().unwrap();
    let listing =
        [&[IDENTITIES, 0, 0, 0, 1][..], &string(&public), &string(b"caf\xc3\xa9")].concat();
    let _agent = FakeAgent::start(&mut lab, move |mut stream| {
        let listing = listing.clone();
        async move {
            while let Some((kind, _)) = request(&mut stream).await {
                match kind {
                    REQUEST_IDENTITIES => reply(&mut stream, &listing).await,
                    SIGN_REQUEST => return,
                    _ => reply(&mut stream, &FAILURE).await,
                }
            }
        }
    });
    check_echo(&lab).await;
    lab.write("authorized", &lab.text("lost.pub"));
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert!(tried[0].ends_with("(the agent closed the connection)"), "{tried:?}");
    assert_eq!(tried[1], lab.path("id").display().to_string());
}

#[tokio::test]
async fn an_agent_with_invalid_replies_is_skipped() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let answers: [&[u8]; 4] =
        [b"", &[IDENTITIES, 0xff, 0xff, 0xff, 0xff], &[IDENTITIES, 0, 0, 0, 1, 9], &[99, 1, 2]];
    for answer in answers {
        fs::remove_file(lab.path("fake-agent")).ok();
        let _agent = FakeAgent::start(&mut lab, move |mut stream| async move {
            while let Some((kind, _)) = request(&mut stream).await {
                let answer = if kind == REQUEST_IDENTITIES { answer } else { &FAILURE[..] };
                reply(&mut stream, answer).await;
            }
        });
        let opened = tokio::time::timeout(LONG, lab.open("true")).await.unwrap();
        opened.unwrap_or_else(|fault| panic!("{answer:?}: {fault}"));
    }
}

/// A FIDO security key: signs for an application, with a counter.
struct SecurityKey {
    pair: Ed25519Keypair,
    public: PublicKey,
}

impl SecurityKey {
    fn new() -> Self {
        let pair = Ed25519Keypair::from_seed(&[7; 32]);
        let public = SkEd25519::new(Ed25519PublicKey(pair.public.0), "ssh:");
        Self {
            public: PublicKey::from(russh::keys::ssh_key::public::KeyData::SkEd25519(public)),
            pair,
        }
    }

    /// Signs as specified in OpenSSH's PROTOCOL.u2f.
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let presence_and_count = [1, 0, 0, 0, 42];
        let hash = |bytes: &[u8]| HashAlg::Sha256.digest(bytes);
        let signed = [&hash(b"ssh:")[..], &presence_and_count, &hash(message)].concat();
        let signature = self.pair.sign(&signed);
        let kind = string(b"sk-ssh-ed25519@openssh.com");
        let blob = [&kind[..], &string(signature.as_bytes()), &presence_and_count].concat();
        [&[SIGNED][..], &string(&blob)].concat()
    }
}

#[tokio::test]
async fn a_security_key_signs_by_the_agent() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let key = Arc::new(SecurityKey::new());
    lab.write("authorized", &format!("{}\n", key.public.to_openssh().unwrap()));
    let _agent = FakeAgent::start(&mut lab, move |mut stream| {
        let key = Arc::clone(&key);
        async move {
            let public = string(&key.public.to_bytes().unwrap());
            let listing = [&[IDENTITIES, 0, 0, 0, 1][..], &public, &string(b"token")].concat();
            while let Some((kind, rest)) = request(&mut stream).await {
                match kind {
                    REQUEST_IDENTITIES => reply(&mut stream, &listing).await,
                    SIGN_REQUEST => {
                        // The key, then what to sign, then flags.
                        let message = &rest[public.len() + 4..rest.len() - 4];
                        reply(&mut stream, &key.sign(message)).await;
                    }
                    _ => reply(&mut stream, &FAILURE).await,
                }
            }
        }
    });
    check_echo(&lab).await;
}
