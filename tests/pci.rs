//! Accelerators on the PCI bus that gtop cannot read are named, and nothing else is.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::amd::machine;
use crate::amd::sysfs::Tree;
use crate::harness::probe::{BOTH, Setup, at_once};

/// Adds a function with its driver.
fn add(tree: &Tree, address: &str, [vendor, device, class]: [&str; 3], driver: Option<&str>) {
    let files = [("vendor", vendor), ("device", device), ("class", class)];
    let folder = tree.add_function(address, &files);
    if let Some(driver) = driver {
        symlink(format!("../../../bus/pci/drivers/{driver}"), folder.join("driver")).unwrap();
    }
}

/// A server with two cards of Intel, one that is given to a virtual machine, and graphics of its own.
fn server() -> Tree {
    let tree = Tree::new();
    add(&tree, "0000:03:00.0", ["0x1a03", "0x2000", "0x030000"], Some("ast"));
    add(&tree, "0000:29:00.0", ["0x8086", "0x0bd5", "0x038000"], Some("xe"));
    add(&tree, "0000:3a:00.0", ["0x8086", "0x0bd5", "0x038000"], Some("xe"));
    add(&tree, "0000:4b:00.0", ["0x10de", "0x2330", "0x030200"], Some("vfio-pci"));
    add(&tree, "0000:5c:00.0", ["0x8086", "0x1592", "0x020000"], Some("ice"));
    // A virtual function of the first card.
    add(&tree, "0000:29:00.1", ["0x8086", "0x0bd5", "0x038000"], None);
    symlink("../0000:29:00.0", tree.root().join("sys/bus/pci/devices/0000:29:00.1/physfn"))
        .unwrap();
    tree
}

fn run(tree: &Tree, options: &[&str], width: &str) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_gtop"))
        .args(options)
        .env("GTOP_ROOT", tree.root())
        .env("HOME", home.path())
        .env("COLUMNS", width)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn accelerators_that_cannot_be_read_are_named_everywhere() {
    let tree = server();
    let texts = ["2 × Intel 0x0bd5, not supported yet", "1 × NVIDIA 0x2330, bound to vfio-pci"];
    let node = machine::node(&tree);
    assert_eq!(node["devices"], json!([]));
    let found = node["host"]["unreadable_devices"].as_array().unwrap();
    let shown: Vec<&Value> = found.iter().map(|found| &found["text"]).collect();
    assert_eq!(shown, texts);
    assert_eq!((&found[0]["vendor"], &found[0]["vendor_id"]), (&json!("Intel"), &json!(0x8086)));
    assert_eq!((&found[0]["count"], &found[0]["driver"]), (&json!(2), &json!("xe")));
    let ids: Vec<&Value> =
        node["notes"].as_array().unwrap().iter().map(|note| &note["id"]).collect();
    assert!(ids.contains(&&json!("unreadable_devices")), "{node}");
    assert!(!ids.contains(&&json!("no_devices")), "{node}");
    for width in ["80", "120"] {
        let (screen, _) = run(&tree, &["--local", "--once"], width);
        assert!(screen.contains(texts[0]), "{screen}");
        assert!(!screen.contains("no devices ("), "{screen}");
    }
    let (_, why) = run(&tree, &["pick"], "80");
    assert!(why.contains(texts[0]), "{why}");
}

#[test]
fn a_machine_with_graphics_only_has_no_devices() {
    let tree = Tree::new();
    add(&tree, "0000:03:00.0", ["0x1a03", "0x2000", "0x030000"], Some("ast"));
    add(&tree, "0000:00:02.0", ["0x8086", "0x4680", "0x030000"], Some("i915"));
    add(&tree, "0000:00:05.0", ["0x1af4", "0x1050", "0x030000"], Some("virtio-pci"));
    let node = machine::node(&tree);
    assert_eq!(node["host"]["unreadable_devices"], json!([]));
    assert_eq!(node["notes"][0]["id"], "no_devices", "{node}");
}

#[test]
fn both_probes_list_the_same_functions() {
    let tree = server();
    let lists = std::sync::Mutex::new(Vec::new());
    at_once(BOTH, |interpreter| {
        let environment = vec![("GTOP_ROOT".to_owned(), tree.root().as_os_str().to_owned())];
        let mut rig = Setup { environment, ..Setup::new(interpreter) }.start();
        lists.lock().unwrap().push(rig.next().unwrap()["pci"].clone());
        rig.finish();
    });
    let function = |address: &str, ids: [&str; 3], driver: &str| {
        json!([address, ids[0], ids[1], ids[2], driver])
    };
    let expected = json!([
        function("0000:03:00.0", ["0x1a03", "0x2000", "0x030000"], "ast"),
        function("0000:29:00.0", ["0x8086", "0x0bd5", "0x038000"], "xe"),
        function("0000:3a:00.0", ["0x8086", "0x0bd5", "0x038000"], "xe"),
        function("0000:4b:00.0", ["0x10de", "0x2330", "0x030200"], "vfio-pci"),
    ]);
    assert_eq!(*lists.lock().unwrap(), [expected.clone(), expected]);
}
