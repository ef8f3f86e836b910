//! Faults on the way into a node.

use gtop::transport::{Options, Transport, TransportMode, write_known_hosts};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::lab::{ADDRESS, Lab, free_port, node, run, system};
use crate::{doctor, examine_with, failure, hasty, is_healthy, known, row, says};

#[tokio::test]
async fn a_name_nobody_knows() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    lab.write_config(sshd.port, "Host node\n HostName nosuch.invalid");
    let report = doctor(&lab).await;
    let failed = failure(&report, "name");
    says(failed, "nosuch.invalid");
    says(failed, &format!("correct HostName in {}:2", lab.path("config").display()));
    lab.write_config(sshd.port, "");
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_port_where_nobody_listens() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    let closed = free_port().await;
    lab.write_config(closed, "");
    let report = doctor(&lab).await;
    let failed = failure(&report, "connection");
    says(failed, &format!("connection refused on port {closed}"));
    says(failed, &format!("{ADDRESS}:{closed}: connection refused"));
    says(failed, &format!("correct Port in {}:4", lab.path("config").display()));
    lab.write_config(sshd.port, "");
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_port_that_takes_connections_and_never_speaks() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    lab.write_config(listener.local_addr().unwrap().port(), "");
    let report = examine_with(&Transport::new(hasty(&lab)), &node()).await;
    let failed = failure(&report, "banner");
    says(failed, "timed out waiting for the SSH banner");
    says(failed, "which accepts connections but sends nothing; if it is not sshd, correct Port in");
    says(row(&report, "connection"), "answers");
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
    let report = doctor(&lab).await;
    let failed = failure(&report, "banner");
    says(failed, "no SSH banner");
    says(failed, "HTTP/1.1 400 Bad Request");
    says(failed, "correct Port in");
}

#[tokio::test]
async fn a_host_key_nobody_has_accepted() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = lab.sshd("").await;
    let report = doctor(&lab).await;
    let failed = failure(&report, "host key");
    says(failed, "ssh-ed25519 SHA256:");
    says(failed, "not in any known_hosts file");
    says(failed, "gtop trust node");
    let offered = lab.transport().host_key(&node()).await.unwrap();
    write_known_hosts(&[offered.entry]).unwrap();
    let report = doctor(&lab).await;
    is_healthy(&report);
    says(row(&report, "host key"), &format!("known by {}:1", lab.path("known").display()));
}

#[tokio::test]
async fn a_host_key_that_is_believed_at_first_sight_is_a_note() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.write_config(sshd.port, "Host node\n StrictHostKeyChecking accept-new");
    let report = doctor(&lab).await;
    is_healthy(&report);
    says(row(&report, "host key"), "accepted by StrictHostKeyChecking");
    says(row(&report, "configuration"), "StrictHostKeyChecking accept-new (");
}

#[tokio::test]
async fn a_host_key_that_has_changed() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    lab.key("other", &["-t", "ed25519"]).await;
    lab.write("known", &format!("[{ADDRESS}]:{} {}", sshd.port, lab.text("other.pub")));
    let report = doctor(&lab).await;
    let failed = failure(&report, "host key");
    let known = lab.path("known");
    says(failed, &format!("differs from {}:1", known.display()));
    let name = format!("[{ADDRESS}]:{}", sshd.port);
    says(failed, &format!("ssh-keygen -f {} -R '{name}' && gtop trust node", known.display()));
    run("ssh-keygen", &["-f", known.to_str().unwrap(), "-R", &name]).await;
    let offered = lab.transport().host_key(&node()).await.unwrap();
    write_known_hosts(&[offered.entry]).unwrap();
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_host_key_that_is_revoked() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    let known = lab.text("known");
    lab.write("known", &format!("{known}@revoked * {}", lab.text("host_ed25519.pub")));
    let report = doctor(&lab).await;
    let failed = failure(&report, "host key");
    says(failed, &format!("revoked in {}:2", lab.path("known").display()));
    says(failed, "do not connect; the node needs a new host key");
    lab.key("fresh", &["-t", "ed25519"]).await;
    drop(sshd);
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_key_the_node_refuses() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = known(&lab, "").await;
    lab.write("authorized", "");
    let report = doctor(&lab).await;
    let failed = failure(&report, "login");
    says(failed, "node offers: publickey");
    says(failed, "refused: ");
    let key = lab.path("id");
    says(
        failed,
        &format!("ask the administrator to add {}.pub to ~{}/.ssh/", key.display(), lab.user),
    );
    lab.authorize("id");
    let report = doctor(&lab).await;
    is_healthy(&report);
    says(row(&report, "login"), "accepted: ");
}

#[tokio::test]
async fn a_key_without_its_passphrase() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    lab.key("locked", &["-t", "ed25519", "-N", "open sesame"]).await;
    lab.authorize("locked");
    let file = lab.path("locked");
    let only = format!("Host node\n IdentityFile {}\n IdentitiesOnly yes", file.display());
    std::fs::remove_file(lab.path("id")).unwrap();
    lab.write_config(sshd.port, &only);
    let report = doctor(&lab).await;
    let failed = failure(&report, "login");
    says(failed, &format!("not offered: {} (encrypted", file.display()));
    says(
        failed,
        &format!(
            "start gtop from a terminal, or load the key: eval $(ssh-agent) && ssh-add {}",
            file.display()
        ),
    );
    let transport = lab.transport();
    transport.unlock(&file, "open sesame".to_owned()).await.unwrap();
    is_healthy(&examine_with(&transport, &node()).await);
}

#[tokio::test]
async fn a_node_that_takes_only_passwords() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "PubkeyAuthentication no\nPasswordAuthentication yes").await;
    let report = doctor(&lab).await;
    let failed = failure(&report, "login");
    says(failed, "node offers: password");
    says(failed, "as root on node: add at the top of /etc/ssh/sshd_config");
    says(failed, "    PubkeyAuthentication yes");
    drop(sshd);
    let _sshd = known(&lab, "PasswordAuthentication yes").await;
    is_healthy(&doctor(&lab).await);
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
    let report = doctor(&lab).await;
    let failed = failure(&report, "route");
    says(failed, "gateway bastion refuses to forward to the node");
    says(failed, "through bastion");
    says(failed, &format!("bastion: {ADDRESS}:{}", bastion.port));
    says(failed, "as root on bastion: add at the top of /etc/ssh/sshd_config");
    says(failed, "    AllowTcpForwarding yes");
    drop(bastion);
    let bastion = lab.sshd("").await;
    jump(bastion.port);
    let report = doctor(&lab).await;
    is_healthy(&report);
    says(row(&report, "connection"), "connected by bastion");
    says(row(&report, "route"), "logged in as");
}

#[tokio::test]
async fn a_line_of_ssh_config_that_is_wrong() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    lab.write_config(sshd.port, "Host node\n Port ssh-please");
    let report = doctor(&lab).await;
    let failed = failure(&report, "configuration");
    says(failed, &lab.path("config").display().to_string());
    says(failed, "2");
    says(failed, "check it with: ssh -G node");
    lab.write_config(sshd.port, "");
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn an_agent_that_is_dead() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    std::fs::rename(lab.path("id"), lab.path("kept")).unwrap();
    std::fs::remove_file(lab.path("id.pub")).unwrap();
    lab.agent = Some(lab.path("nosuch-agent"));
    let report = doctor(&lab).await;
    let failed = failure(&report, "login");
    says(failed, "not offered: the ssh agent");
    says(failed, "start an agent and add your key FILE");
    let _agent = lab.start_agent().await;
    lab.add_to_agent("kept").await;
    is_healthy(&doctor(&lab).await);
    drop(sshd);
}

#[tokio::test]
async fn two_sides_without_a_common_algorithm() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "KexAlgorithms diffie-hellman-group18-sha512").await;
    let report = doctor(&lab).await;
    let failed = failure(&report, "key exchange");
    says(failed, "no common key exchange algorithm (node offers diffie-hellman-group18-sha512");
    says(failed, "add an algorithm that gtop supports to KexAlgorithms in the node's sshd_config");
    drop(sshd);
    let _sshd = known(&lab, "KexAlgorithms diffie-hellman-group18-sha512,curve25519-sha256").await;
    let report = doctor(&lab).await;
    is_healthy(&report);
    says(row(&report, "key exchange"), "curve25519-sha256, ");
}

#[tokio::test]
async fn a_node_without_room_for_sessions() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "MaxSessions 0").await;
    let report = doctor(&lab).await;
    let failed = failure(&report, "channel");
    says(failed, "    MaxSessions 100");
    drop(sshd);
    let _sshd = known(&lab, "MaxSessions 1").await;
    is_healthy(&doctor(&lab).await);
}

#[tokio::test]
async fn a_host_certificate_that_has_expired() {
    let Some(lab) = Lab::new().await else { return };
    lab.key("ca", &["-t", "ed25519"]).await;
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
    let report = doctor(&lab).await;
    let failed = failure(&report, "host key");
    says(failed, "its certificate has expired");
    says(failed, "have the certificate renewed");
    drop(sshd);
    let _sshd = sign("-1d:+1d").await;
    let report = doctor(&lab).await;
    is_healthy(&report);
    says(row(&report, "host key"), "certified by the CA in");
}

#[tokio::test]
async fn a_node_only_the_ssh_program_can_reach() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = known(&lab, "KexAlgorithms diffie-hellman-group18-sha512").await;
    let auto = Transport::new(Options { mode: TransportMode::Auto, ..lab.options() });
    let report = examine_with(&auto, &node()).await;
    is_healthy(&report);
    says(row(&report, "built-in SSH"), "no common key exchange algorithm");
    says(row(&report, "ssh program"), "connected by ssh");
    let program = Transport::new(Options { mode: TransportMode::Ssh, ..lab.options() });
    is_healthy(&examine_with(&program, &node()).await);
    let refused = system("nobody", None, Some(free_port().await));
    let report = examine_with(&program, &refused).await;
    failure(&report, "ssh program");
}

#[tokio::test]
async fn the_configuration_is_told_as_ssh_has_it_and_what_nobody_follows_is_named() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = known(&lab, "").await;
    let folder = lab.folder.path().display();
    let options = format!(
        "Host node\n SendEnv LANG\n ForwardAgent yes\n IdentityAgent {folder}/no-agent\n CertificateFile {folder}/none\n\
         \x20IdentityFile {folder}/id\n"
    );
    lab.write_config(sshd.port, &options);
    let report = doctor(&lab).await;
    is_healthy(&report);
    let config = lab.path("config").display().to_string();
    let told = row(&report, "configuration");
    says(told, &format!("ignored: ForwardAgent ({config}:3), SendEnv ({config}:2)"));
    says(told, &format!("IdentityAgent {folder}/no-agent ({config}:4)"));

    // The same where only ssh can tell.
    lab.write_config(sshd.port, &format!("Match exec true\n{options}"));
    let report = doctor(&lab).await;
    is_healthy(&report);
    let told = row(&report, "configuration");
    for option in [
        "HostName 127.0.7.1",
        &format!("IdentityFile {folder}/id"),
        &format!("IdentityAgent {folder}/no-agent"),
    ] {
        says(told, &format!("{option} (by ssh -G)"));
    }
    says(told, "ignored: ForwardAgent, SendEnv");
    let all = told.details.join("\n");
    assert!(!all.contains("StrictHostKeyChecking") && !all.contains("PubkeyAuth"), "{all}");
    let command = format!("ProxyCommand /usr/sbin/sshd -i -f {folder}/sshd_config");
    lab.write_config(sshd.port, &format!("Match exec true\n{command}\n"));
    says(row(&doctor(&lab).await, "configuration"), &format!("{command} (by ssh -G)"));
    lab.write_config(sshd.port, "Match exec true host node\nProxyJump nosuch\n");
    says(row(&doctor(&lab).await, "configuration"), "ProxyJump nosuch (by ssh -G)");
}
