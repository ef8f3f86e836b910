//! The ssh program as the transport: chosen by the user, or as the fallback.

use std::fs;
use std::path::PathBuf;

use gtop_collect::transport::{Fault, Options, Transport, TransportMode};
use gtop_local::process::{Exit, NotStarted};
use gtop_model::TransportKind;
use gtop_ssh::{self as ssh, SshProgramCause};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::harness::lab::{ADDRESS, Lab, TIMEOUT, free_port, node, read_output, run, ssh_target};

fn transport(lab: &Lab, mode: TransportMode) -> Transport {
    Transport::new(Options { mode, ..lab.options() })
}

/// Runs a command on the node with the ssh program.
async fn run_with_ssh(lab: &Lab, command: &str) -> Result<String, Fault> {
    let mut channel = transport(lab, TransportMode::Ssh).open(&node(), command, |_| ()).await?;
    assert_eq!(channel.via(), TransportKind::SshProgram);
    Ok(read_output(&mut channel).await.stdout)
}

#[tokio::test]
async fn a_command_gets_stdin_and_reports_its_exit() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let transport = transport(&lab, TransportMode::Ssh);
    let line = "echo; cat; echo oops >&2; exit 7";
    let mut channel = transport.open(&node(), line, |_| ()).await.unwrap();
    channel.send(b"hel").await.unwrap();
    channel.send(b"lo ~.").await.unwrap();
    channel.close_stdin().await.unwrap();
    let output = read_output(&mut channel).await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("\nhello ~.", "oops\n"));
    assert_eq!((output.exit, output.fault), (Some(Exit::Status(7)), None));
    assert!(channel.send(b"more").await.is_err());
}

#[tokio::test]
async fn a_command_without_output_has_run_all_the_same() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    assert_eq!(run_with_ssh(&lab, "true").await.unwrap(), "");
}

#[tokio::test]
async fn messages_of_ssh_map_to_the_faults_of_the_native_client() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let fault = run_with_ssh(&lab, "true").await.unwrap_err();
    assert!(
        matches!(
            fault,
            Fault::Ssh(ssh::Fault::SshProgram { cause: SshProgramCause::HostKeyUnknown, .. })
        ),
        "{fault}"
    );
    assert!(!fault.is_retryable());

    lab.write("known", &format!("[{ADDRESS}]:{} {}", sshd.port, lab.text("id.pub")));
    let fault = run_with_ssh(&lab, "true").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::HostKeyChanged(change)) = &fault else { panic!("{fault}") };
    assert_eq!((&*change.at.file, change.at.line), (&*lab.path("known"), 1));
    let listed = run("ssh-keygen", &["-lf", lab.path("host_ed25519.pub").to_str().unwrap()]).await;
    assert!(listed.contains(&change.fingerprint), "{listed} {change:?}");

    lab.write("known", &format!("@revoked * {}", lab.text("host_ed25519.pub")));
    let fault = run_with_ssh(&lab, "true").await.unwrap_err();
    assert!(
        matches!(
            fault,
            Fault::Ssh(ssh::Fault::SshProgram { cause: SshProgramCause::HostKeyRevoked, .. })
        ),
        "{fault}"
    );

    let port = free_port().await;
    lab.write_config(port, "");
    assert_eq!(
        run_with_ssh(&lab, "true").await.unwrap_err(),
        Fault::Ssh(ssh::Fault::ConnectionRefused { port })
    );

    lab.write_config(port, "Host node\nHostName nosuch.invalid");
    let fault = run_with_ssh(&lab, "true").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::NameNotFound { host, .. }) = &fault else { panic!("{fault}") };
    assert_eq!(host.as_deref(), Some("nosuch.invalid"));

    let sshd = lab.sshd("KexAlgorithms diffie-hellman-group14-sha1").await;
    lab.trust(&sshd);
    let fault = run_with_ssh(&lab, "true").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::NoCommonAlgorithm { kind: "key exchange", theirs, .. }) = &fault
    else {
        panic!("{fault}")
    };
    assert!(theirs.contains(&"diffie-hellman-group14-sha1".to_owned()), "{theirs:?}");

    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    lab.write_config(listener.local_addr().unwrap().port(), "");
    let serve = async { drop(listener.accept().await.unwrap()) };
    let (opened, ()) = tokio::join!(run_with_ssh(&lab, "true"), serve);
    let fault = opened.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::NoBanner { .. })), "{fault}");
}

#[tokio::test]
async fn a_server_that_requires_a_password_is_explained_without_a_prompt() {
    let Some(lab) = Lab::new().await else { return };
    let methods = "PubkeyAuthentication no\nPasswordAuthentication yes\n\
                   KbdInteractiveAuthentication yes\nUsePAM yes";
    let sshd = lab.sshd(methods).await;
    lab.trust(&sshd);
    let fault = run_with_ssh(&lab, "true").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::AuthenticationRefused { user, offers, .. }) = &fault else {
        panic!("{fault}")
    };
    assert_eq!((user, offers.contains(&"password".to_owned())), (&lab.user, true), "{offers:?}");
    assert!(!fault.is_retryable());
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let Some(lab) = Lab::new().await else { return };
    lab.write_config(22, "");
    for parent_guard in [lab.options().ssh.parent_guard, None] {
        let mut options = Options { mode: TransportMode::Ssh, ..lab.options() };
        options.ssh.ssh_program = PathBuf::from("/no/such/ssh");
        options.ssh.parent_guard = parent_guard;
        let fault = Transport::new(options).open(&node(), "true", |_| ()).await.unwrap_err();
        let Fault::Ssh(ssh::Fault::ProgramNotFound(NotStarted { program, why })) = &fault else {
            panic!("{fault}")
        };
        assert_eq!((program.as_str(), why.as_str()), ("/no/such/ssh", "no such file or directory"));
    }
}

#[tokio::test]
async fn a_silent_port_ends_ssh_too() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    lab.write_config(listener.local_addr().unwrap().port(), "");
    let options = lab.options_with_timeout(std::time::Duration::from_millis(700));
    let options = Options { mode: TransportMode::Ssh, ..options };
    let fault = Transport::new(options).open(&node(), "true", |_| ()).await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::TimedOut { .. })), "{fault}");
    let (mut stream, _) = listener.accept().await.unwrap();
    let end = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await;
    end.unwrap().ok();
}

#[tokio::test]
async fn options_for_interactive_use_are_overridden() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let marker = lab.path("marker");
    lab.write_config(
        sshd.port,
        &format!(
            "Host node\nRemoteCommand tmux attach\nRequestTTY force\nForwardX11 yes\nForwardAgent yes\n\
             LocalForward {} /nowhere\nPermitLocalCommand yes\nLocalCommand touch {}\nEscapeChar ~\n\
             ControlMaster auto\nControlPath {}\nControlPersist yes\nLogLevel QUIET",
            lab.path("forward").display(),
            marker.display(),
            lab.path("master").display(),
        ),
    );
    let stdout = run_with_ssh(&lab, "tty; echo $SSH_AUTH_SOCK$DISPLAY").await.unwrap();
    assert_eq!(stdout, "not a tty\n\n");
    let transport = transport(&lab, TransportMode::Ssh);
    let found = transport.effective_options(&node()).await.unwrap();
    let ignored = found.iter().filter(|option| option.is_set && option.is_ignored);
    let ignored: Vec<_> = ignored.map(|option| option.spelling).collect();
    assert_eq!(
        ignored,
        [
            "ControlMaster",
            "EscapeChar",
            "ForwardAgent",
            "ForwardX11",
            "LocalForward",
            "LogLevel",
            "PermitLocalCommand",
            "RemoteCommand",
            "RequestTTY"
        ]
    );
    for name in ["forward", "marker", "master"] {
        assert!(!lab.path(name).exists(), "{name}");
    }
    let port = free_port().await;
    lab.write_config(port, "LogLevel QUIET");
    assert_eq!(
        run_with_ssh(&lab, "true").await.unwrap_err(),
        Fault::Ssh(ssh::Fault::ConnectionRefused { port })
    );
}

#[tokio::test]
async fn an_open_master_connection_is_used() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let path = lab.path("master");
    lab.write_config(sshd.port, &format!("ControlPath {}", path.display()));
    let mut master = Command::new("ssh")
        .arg("-F")
        .arg(lab.path("config"))
        .args(["-o", "BatchMode=yes", "-N", "-M", "node"])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    while !path.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    for _ in 0..3 {
        assert_eq!(run_with_ssh(&lab, "echo hello").await.unwrap(), "hello\n");
    }
    assert_eq!(sshd.log_count("Accepted publickey"), 1);
    // The user's master is not stopped.
    assert!(master.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn the_ssh_program_exits_with_its_channel() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let pipe = lab.path("pipe");
    run("mkfifo", &[pipe.to_str().unwrap()]).await;
    let mut reader = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&pipe).unwrap();
    let line = format!("exec 3>{}; echo ready; cat", pipe.display());
    let channel = transport(&lab, TransportMode::Ssh).open(&node(), &line, |_| ()).await.unwrap();
    drop(channel);
    let end = tokio::time::timeout(TIMEOUT, reader.read_to_end(&mut Vec::new())).await;
    assert_eq!(end.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_guarded_program_exits_with_its_parent_and_has_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    run("mkfifo", &[pipe.to_str().unwrap()]).await;
    let mut reader = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&pipe).unwrap();
    // Its stdin stays open: only the parent guard can stop it.
    let line = format!(
        "exec 3>{pipe} && {} __parent-guard $$ sh -c 'ps -o sid=,pid= -p $$ >&3; exec sleep 1000' & wait",
        env!("CARGO_BIN_EXE_gtop"),
        pipe = pipe.display(),
    );
    let mut parent = Command::new("sh").args(["-c", &line]).kill_on_drop(true).spawn().unwrap();
    let mut stdout = String::new();
    while !stdout.contains('\n') {
        let mut piece = [0; 64];
        // A pipe without a writer reads as ended.
        let count = reader.read(&mut piece).await.unwrap();
        stdout.push_str(&String::from_utf8_lossy(&piece[..count]));
        tokio::task::yield_now().await;
    }
    let numbers: Vec<&str> = stdout.split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1], "it leads a session");
    parent.kill().await.unwrap();
    let end = tokio::time::timeout(TIMEOUT, reader.read_to_end(&mut Vec::new())).await;
    assert_eq!(end.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_parent_guard_without_its_parent_starts_nothing() {
    let ran = Command::new(env!("CARGO_BIN_EXE_gtop"))
        .args(["__parent-guard", "1", "echo", "started"])
        .output()
        .await
        .unwrap();
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(127), b"".as_slice()));
}

// ---- as the fallback ----

#[tokio::test]
async fn auto_uses_the_native_client_while_it_works() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let channel = transport(&lab, TransportMode::Auto).open(&node(), "true", |_| ()).await.unwrap();
    assert_eq!(channel.via(), TransportKind::Native);
    // A refused key is not offered again by the ssh program.
    lab.write("authorized", "");
    let fault =
        transport(&lab, TransportMode::Auto).open(&node(), "true", |_| ()).await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::AuthenticationRefused { .. })), "{fault}");
    assert!(!fault.to_string().contains("the ssh program"), "{fault}");
}

#[tokio::test]
async fn auto_falls_back_to_ssh_for_unsupported_algorithms_and_remembers_it() {
    let Some(lab) = Lab::new().await else { return };
    let kex = "sntrup761x25519-sha512@openssh.com";
    let configured = format!("KexAlgorithms {kex}");
    for (server_options, client_options) in [("", configured.as_str()), (configured.as_str(), "")] {
        let sshd = lab.sshd(server_options).await;
        lab.trust(&sshd);
        lab.write_config(sshd.port, client_options);
        let transport = transport(&lab, TransportMode::Auto);
        for _ in 0..2 {
            let channel = transport.open(&node(), "echo hello", |_| ()).await.unwrap();
            assert_eq!(
                channel.via(),
                TransportKind::SshProgram,
                "{server_options}/{client_options}"
            );
        }
        // The second time gtop's own client is not tried.
        let refusals = sshd.log_count("Unable to negotiate");
        assert_eq!(
            refusals,
            usize::from(client_options.is_empty()),
            "{server_options}/{client_options}"
        );
        let fault = lab.open("true").await.unwrap_err();
        assert!(!fault.is_retryable(), "{fault}");
    }
}

#[tokio::test]
async fn names_that_look_like_options_or_commands_reach_no_program() {
    let Some(lab) = Lab::new().await else { return };
    let marker = lab.path("marker");
    lab.write(
        "config",
        "Host bad\n ProxyJump -oProxyCommand=x\nHost worse\n ProxyJump a,$(touch\n",
    );
    for host in ["bad", "worse"] {
        for mode in [TransportMode::Native, TransportMode::Auto, TransportMode::Ssh] {
            let (transport, target) = (transport(&lab, mode), ssh_target(host, None, None));
            let fault = transport.open(&target, "true", |_| ()).await.unwrap_err();
            assert!(!fault.is_retryable(), "{fault}");
        }
    }
    let host = format!("$(touch {})", marker.display());
    let ssh = ssh::SshTarget { host, user: None, port: None, profile: ssh::Profile::System };
    let target = gtop_collect::transport::Target {
        name: gtop_model::NodeName::new("x").unwrap(),
        reach: gtop_collect::transport::Reach::Ssh(ssh),
    };
    for mode in [TransportMode::Native, TransportMode::Auto, TransportMode::Ssh] {
        let fault = transport(&lab, mode).open(&target, "true", |_| ()).await.unwrap_err();
        assert!(matches!(fault, Fault::Ssh(ssh::Fault::BadConfiguration { .. })), "{fault}");
    }
    assert!(!marker.exists() && fs::read_dir(lab.folder.path()).is_ok());
}

#[tokio::test]
async fn options_that_keep_ssh_from_running_a_command_are_reset() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    for option in [
        "StdinNull yes",
        "SessionType none",
        "SessionType subsystem",
        "ForkAfterAuthentication yes",
        "RemoteCommand cat",
        "RequestTTY force",
        "StdinNull yes\nSessionType none\nForkAfterAuthentication yes\nRequestTTY yes",
        // Also where only `ssh -G` can evaluate the configuration.
        "Match exec true\nStdinNull yes\nSessionType none",
        "Match exec true\nForkAfterAuthentication yes",
    ] {
        lab.write_config(sshd.port, option);
        let transport = transport(&lab, TransportMode::Ssh);
        let line = "echo; head -n 1; echo end";
        let mut channel = transport.open(&node(), line, |_| ()).await.unwrap();
        channel.send(b"hello\n").await.unwrap();
        assert_eq!(read_output(&mut channel).await.stdout, "\nhello\nend\n", "{option}");
    }
}
