//! Golden screens of the question about hosts that are not known, and what its answers ask for.

use crossterm::event::KeyCode;
use gtop_model::{
    AcceptedKey, HostKey, HostKeyQuestion, HostKeyReply, HostKeyRequest, NodeName, RefusedHost,
    UnknownHost,
};
use gtop_ui::{LoopEffect, Theme, Ui, UiRequest};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::{DARK, NARROW, SMALL, Scene, draw, key, new_ui, press, text};

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn host_key(algorithm: &str, fingerprint: &str) -> HostKey {
    HostKey { algorithm: algorithm.into(), fingerprint: fingerprint.into() }
}

/// A gateway of two nodes and a node that are not known, and one whose key has changed.
fn question() -> HostKeyQuestion {
    let gateway = UnknownHost {
        name: "ada@gate:2222".into(),
        is_gateway: true,
        place: "10.1.0.1 port 2222".into(),
        nodes: vec![node("gpu14"), node("gpu15")],
        keys: vec![
            host_key("ssh-ed25519", "SHA256:6khkNTwyRf5NFXM/kBYt2ehp30yM611e8vYaZbETObY"),
            host_key("ecdsa-sha2-nistp256", "SHA256:ZiUnOnDBzhOXd3IqYYoeg6WEtI4ZNAQGoXXyEXMZkqI"),
            host_key("ssh-rsa", "SHA256:C2Bk153gNG4xGlptr+8WOj9+LfuZVFcIqk3RGjRQknI"),
        ],
    };
    let plain = UnknownHost {
        name: "gpu16".into(),
        is_gateway: false,
        place: "10.1.0.16 port 22".into(),
        nodes: vec![node("gpu16")],
        keys: vec![host_key("ssh-ed25519", "SHA256:HruGEb0avLByJgmV5QaP1haIETXvl0mVVfOZP7cfyTw")],
    };
    let refused = RefusedHost {
        node: node("gpu17"),
        why: "host key of gpu17 has changed: someone could be eavesdropping on you right now"
            .into(),
        remedy: "ask the administrator; if the node was reinstalled: ssh-keygen -R gpu17".into(),
    };
    HostKeyQuestion { unknown: vec![gateway, plain], refused: vec![refused] }
}

/// A screen that asks this question.
fn asking(ui: &mut Ui, question: HostKeyQuestion) {
    let effect = ui.on_key(key(KeyCode::Char('A')), NOW);
    let LoopEffect::Request(UiRequest::HostKeys(HostKeyRequest::Fetch(nodes))) = effect else {
        panic!("{effect:?}")
    };
    assert_eq!(nodes, [node("gpu14"), node("gpu15")]);
    assert_eq!(ui.on_host_keys(HostKeyReply::Fetched(question), NOW), None);
}

pub fn asking_ui(theme: Theme) -> Ui {
    let mut ui = new_ui(fleets::every_state(), theme);
    asking(&mut ui, question());
    ui
}

fn typed(ui: &mut Ui, text: &str) -> LoopEffect {
    press(ui, &text.chars().map(KeyCode::Char).collect::<Vec<_>>());
    ui.on_key(key(KeyCode::Enter), NOW)
}

#[test]
fn the_question_is_asked_in_every_size_and_look() {
    let asked = |theme| {
        let mut ui = asking_ui(theme);
        press(&mut ui, &[KeyCode::Char('y')]);
        ui.on_key(key(KeyCode::Enter), NOW);
        ui
    };
    Scene::of("host-keys", asked).check(&[SMALL, NARROW]);
}

#[test]
fn what_is_stored_is_used_even_if_the_question_was_closed() {
    for closes in [false, true] {
        let mut ui = new_ui(fleets::every_state(), DARK);
        asking(&mut ui, question());
        let fingerprint = "SHA256:HruGEb0avLByJgmV5QaP1haIETXvl0mVVfOZP7cfyTw";
        let accepted = AcceptedKey { host: "gpu16".into(), fingerprint: fingerprint.into() };
        let request = UiRequest::HostKeys(HostKeyRequest::Accept(vec![accepted]));
        assert_eq!(typed(&mut ui, fingerprint), LoopEffect::Request(request));
        if closes {
            press(&mut ui, &[KeyCode::Esc]);
        }
        let stored = HostKeyReply::Stored(1, HostKeyQuestion::default());
        let next = ui.on_host_keys(stored, NOW);
        assert_eq!(next, closes.then_some(UiRequest::Refresh));
        if !closes {
            let left = text(&draw(&mut ui, 80, 24)).join("\n");
            assert!(left.contains("1 host key stored; 1 host left"), "{left}");
            assert_eq!(ui.on_key(key(KeyCode::Esc), NOW), LoopEffect::Request(UiRequest::Refresh));
        }
    }
}
