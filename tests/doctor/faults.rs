//! Faults between this machine and a node.

use gtop_collect::transport::{Options, Transport, TransportMode};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::doctor::{
    assert_contains, assert_healthy, diagnose, diagnose_with, only_failure, short_timeout, step,
    trusted_sshd,
};
use crate::harness::lab::{ADDRESS, Lab, free_port, node, run, ssh_target};

#[tokio::test]
async fn a_host_name_that_does_not_resolve() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    lab.write_config(sshd.port, "Host node\n HostName nosuch.invalid");
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "name");
    assert_contains(failed, "nosuch.invalid");
    assert_contains(failed, &format!("correct HostName in {}:2", lab.path("config").display()));
    lab.write_config(sshd.port, "");
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_port_without_a_listener() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    let closed = free_port().await;
    lab.write_config(closed, "");
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "connection");
    assert_contains(failed, &format!("connection refused on port {closed}"));
    assert_contains(failed, &format!("{ADDRESS}:{closed}: connection refused"));
    assert_contains(failed, &format!("correct Port in {}:4", lab.path("config").display()));
    lab.write_config(sshd.port, "");
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_port_that_accepts_connections_and_sends_nothing() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    lab.write_config(listener.local_addr().unwrap().port(), "");
    let report = diagnose_with(&Transport::new(short_timeout(&lab)), &node()).await;
    let failed = only_failure(&report, "banner");
    assert_contains(failed, "timed out waiting for the SSH banner");
    assert_contains(
        failed,
        "which accepts connections but sends nothing; if it is not sshd, correct Port in",
    );
    assert_contains(step(&report, "connection"), "answers");
}

#[tokio::test]
async fn a_port_that_speaks_http() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    lab.write_config(listener.local_addr().unwrap().port(), "");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await);
            stream.shutdown().await.ok();
        }
    });
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "banner");
    assert_contains(failed, "no SSH banner");
    assert_contains(failed, "HTTP/1.1 400 Bad Request");
    assert_contains(failed, "correct Port in");
}

#[tokio::test]
async fn a_host_key_that_is_not_known() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = lab.sshd("").await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "host key");
    assert_contains(failed, "ssh-ed25519 SHA256:");
    assert_contains(failed, "not in any known_hosts file");
    assert_contains(failed, "gtop trust node");
    let entry = lab.host_key().await.entry.unwrap();
    lab.transport().store_host_keys(vec![entry]).await.unwrap();
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    assert_contains(
        step(&report, "host key"),
        &format!("known by {}:1", lab.path("known").display()),
    );
}

#[tokio::test]
async fn a_host_key_accepted_on_first_use_is_a_note() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.write_config(sshd.port, "Host node\n StrictHostKeyChecking accept-new");
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    assert_contains(step(&report, "host key"), "accepted by StrictHostKeyChecking");
    assert_contains(step(&report, "configuration"), "StrictHostKeyChecking accept-new (");
}

#[tokio::test]
async fn a_host_key_that_has_changed() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    lab.key("other", &["-t", "ed25519"]);
    lab.write("known", &format!("[{ADDRESS}]:{} {}", sshd.port, lab.text("other.pub")));
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "host key");
    let known = lab.path("known");
    assert_contains(failed, &format!("differs from {}:1", known.display()));
    let name = format!("[{ADDRESS}]:{}", sshd.port);
    assert_contains(
        failed,
        &format!("ssh-keygen -f {} -R '{name}' && gtop trust node", known.display()),
    );
    run("ssh-keygen", &["-f", known.to_str().unwrap(), "-R", &name]).await;
    let entry = lab.host_key().await.entry.unwrap();
    lab.transport().store_host_keys(vec![entry]).await.unwrap();
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_host_key_that_is_revoked() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    let known = lab.text("known");
    lab.write("known", &format!("{known}@revoked * {}", lab.text("host_ed25519.pub")));
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "host key");
    assert_contains(failed, &format!("revoked in {}:2", lab.path("known").display()));
    assert_contains(failed, "needs a new host key, unless");
    lab.key("fresh", &["-t", "ed25519"]);
    drop(sshd);
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_key_that_the_node_refuses() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = trusted_sshd(&lab, "").await;
    lab.write("authorized", "");
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "login");
    assert_contains(failed, "node offers: publickey");
    assert_contains(failed, "refused: ");
    let key = lab.path("id");
    assert_contains(
        failed,
        &format!("ask the administrator to add {}.pub to ~{}/.ssh/", key.display(), lab.user),
    );
    lab.authorize("id");
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    assert_contains(step(&report, "login"), "accepted: ");
}

#[tokio::test]
async fn a_key_without_its_passphrase() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    lab.key("locked", &["-t", "ed25519", "-N", "open sesame"]);
    lab.authorize("locked");
    let file = lab.path("locked");
    let only = format!("Host node\n IdentityFile {}\n IdentitiesOnly yes", file.display());
    std::fs::remove_file(lab.path("id")).unwrap();
    lab.write_config(sshd.port, &only);
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "login");
    assert_contains(failed, &format!("not offered: {} (encrypted", file.display()));
    assert_contains(
        failed,
        &format!(
            "start gtop from a terminal, or load the key: eval $(ssh-agent) && ssh-add {}",
            file.display()
        ),
    );
    let transport = lab.transport();
    transport.unlock(&file, "open sesame".to_owned()).await.unwrap();
    assert_healthy(&diagnose_with(&transport, &node()).await);
}

#[tokio::test]
async fn a_node_that_accepts_only_passwords() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "PubkeyAuthentication no\nPasswordAuthentication yes").await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "login");
    assert_contains(failed, "node offers: password");
    assert_contains(failed, "as root on node: add at the top of /etc/ssh/sshd_config");
    assert_contains(failed, "    PubkeyAuthentication yes");
    drop(sshd);
    let _sshd = trusted_sshd(&lab, "PasswordAuthentication yes").await;
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_gateway_that_forwards_nothing() {
    let Some(lab) = Lab::new().await else { return };
    let far = lab.sshd("").await;
    let key = lab.text("host_ed25519.pub");
    let jump = |port| {
        let folder = lab.folder.path().display();
        lab.write_config(far.port, &format!("Host bastion\n HostName {ADDRESS}\n Port {port}\n User {}\n IdentityFile {folder}/id\nHost node\n ProxyJump bastion\nHost *\n UserKnownHostsFile {folder}/known\n", lab.user));
        lab.write("known", &format!("[{ADDRESS}]:{port} {key}[{ADDRESS}]:{} {key}", far.port));
    };
    let bastion = lab.sshd("AllowTcpForwarding no").await;
    jump(bastion.port);
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "route");
    assert_contains(failed, "gateway bastion refuses to forward to the node");
    assert_contains(failed, "through bastion");
    assert_contains(failed, &format!("bastion: {ADDRESS}:{}", bastion.port));
    assert_contains(failed, "as root on bastion: add at the top of /etc/ssh/sshd_config");
    assert_contains(failed, "    AllowTcpForwarding yes");
    drop(bastion);
    let bastion = lab.sshd("").await;
    jump(bastion.port);
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    assert_contains(step(&report, "connection"), "connected by bastion");
    assert_contains(step(&report, "route"), "logged in as");
}

#[tokio::test]
async fn an_invalid_line_of_ssh_config() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    lab.write_config(sshd.port, "Host node\n Port ssh-please");
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "configuration");
    assert_contains(failed, &lab.path("config").display().to_string());
    assert_contains(failed, "2");
    assert_contains(failed, "check it with: ssh -G node");
    lab.write_config(sshd.port, "");
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn an_agent_that_does_not_run() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    std::fs::rename(lab.path("id"), lab.path("kept")).unwrap();
    std::fs::remove_file(lab.path("id.pub")).unwrap();
    lab.agent = Some(lab.path("nosuch-agent"));
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "login");
    assert_contains(failed, "not offered: the ssh agent");
    assert_contains(failed, "start an agent and add your key FILE");
    let _agent = lab.start_agent().await;
    lab.add_to_agent("kept").await;
    assert_healthy(&diagnose(&lab).await);
    drop(sshd);
}

#[tokio::test]
async fn no_common_algorithm() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "KexAlgorithms diffie-hellman-group18-sha512").await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "key exchange");
    assert_contains(
        failed,
        "no common key exchange algorithm (node offers diffie-hellman-group18-sha512",
    );
    assert_contains(
        failed,
        "add an algorithm that gtop supports to KexAlgorithms in the node's sshd_config",
    );
    drop(sshd);
    let _sshd =
        trusted_sshd(&lab, "KexAlgorithms diffie-hellman-group18-sha512,curve25519-sha256").await;
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    assert_contains(step(&report, "key exchange"), "curve25519-sha256, ");
}

#[tokio::test]
async fn a_node_that_allows_no_sessions() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "MaxSessions 0").await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "channel");
    assert_contains(failed, "    MaxSessions 100");
    drop(sshd);
    let _sshd = trusted_sshd(&lab, "MaxSessions 1").await;
    assert_healthy(&diagnose(&lab).await);
}

#[tokio::test]
async fn a_host_certificate_that_has_expired() {
    let Some(lab) = Lab::new().await else { return };
    lab.key("ca", &["-t", "ed25519"]);
    let (ca, key) = (lab.path("ca"), lab.path("host_ed25519.pub"));
    let sign = async |validity: &str| {
        let words =
            ["-q", "-s", ca.to_str().unwrap(), "-I", "host", "-h", "-n", ADDRESS, "-V", validity];
        run("ssh-keygen", &[&words[..], &[key.to_str().unwrap()]].concat()).await;
        let certificate = lab.path("host_ed25519-cert.pub");
        let sshd = lab.sshd(&format!("HostCertificate {}", certificate.display())).await;
        lab.write("known", &format!("@cert-authority * {}", lab.text("ca.pub")));
        sshd
    };
    let sshd = sign("20200101:20200102").await;
    let report = diagnose(&lab).await;
    let failed = only_failure(&report, "host key");
    assert_contains(failed, "its certificate has expired");
    assert_contains(failed, "have the certificate renewed");
    drop(sshd);
    let _sshd = sign("-1d:+1d").await;
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    assert_contains(step(&report, "host key"), "certified by the CA in");
}

#[tokio::test]
async fn a_node_that_only_the_ssh_program_can_reach() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = trusted_sshd(&lab, "KexAlgorithms diffie-hellman-group18-sha512").await;
    let auto = Transport::new(Options { mode: TransportMode::Auto, ..lab.options() });
    let report = diagnose_with(&auto, &node()).await;
    assert_healthy(&report);
    assert_contains(step(&report, "built-in SSH"), "no common key exchange algorithm");
    assert_contains(step(&report, "ssh program"), "connected by ssh");
    let program = Transport::new(Options { mode: TransportMode::Ssh, ..lab.options() });
    assert_healthy(&diagnose_with(&program, &node()).await);
    let refused = ssh_target("nobody", None, Some(free_port().await));
    let report = diagnose_with(&program, &refused).await;
    only_failure(&report, "ssh program");
}

#[tokio::test]
async fn the_configuration_is_the_one_of_ssh_and_ignored_options_are_named() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = trusted_sshd(&lab, "").await;
    let folder = lab.folder.path().display();
    let options = format!(
        "Host node\n SendEnv LANG\n ForwardAgent yes\n IdentityAgent {folder}/no-agent\n CertificateFile {folder}/none\n\
         \x20IdentityFile {folder}/id\n"
    );
    lab.write_config(sshd.port, &options);
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    let config = lab.path("config").display().to_string();
    let configuration = step(&report, "configuration");
    assert_contains(
        configuration,
        &format!("ignored: ForwardAgent ({config}:3), SendEnv ({config}:2)"),
    );
    assert_contains(configuration, &format!("IdentityAgent {folder}/no-agent ({config}:4)"));

    // The same if only ssh can evaluate the configuration.
    lab.write_config(sshd.port, &format!("Match exec true\n{options}"));
    let report = diagnose(&lab).await;
    assert_healthy(&report);
    let configuration = step(&report, "configuration");
    for option in [
        "HostName 127.0.7.1",
        &format!("IdentityFile {folder}/id"),
        &format!("IdentityAgent {folder}/no-agent"),
    ] {
        assert_contains(configuration, &format!("{option} (by ssh -G)"));
    }
    assert_contains(configuration, "ignored: ForwardAgent, SendEnv");
    let all = configuration.details.join("\n");
    assert!(!all.contains("StrictHostKeyChecking") && !all.contains("PubkeyAuth"), "{all}");
    let command = format!("ProxyCommand /usr/sbin/sshd -i -f {folder}/sshd_config");
    lab.write_config(sshd.port, &format!("Match exec true\n{command}\n"));
    assert_contains(
        step(&diagnose(&lab).await, "configuration"),
        &format!("{command} (by ssh -G)"),
    );
    lab.write_config(sshd.port, "Match exec true host node\nProxyJump nosuch\n");
    assert_contains(step(&diagnose(&lab).await, "configuration"), "ProxyJump nosuch (by ssh -G)");
}
