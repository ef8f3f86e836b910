//! What `--json` says of each kind of node in the demo.

use gtop_collect::sim::FleetSpec;
use serde_json::{Value, json};

use crate::demo_output::{Demo, START, json as snapshot};

const GIB: u64 = 1 << 30;

/// Returns the nodes of the demo after its first sample.
async fn nodes() -> Vec<Value> {
    let mut demo = Demo::new(FleetSpec::demo(12, 1));
    demo.tick(0);
    let fleet = demo.fleet(START).await;
    let text: Value = serde_json::from_str(&snapshot(&fleet, START)).unwrap();
    text["nodes"].as_array().unwrap().clone()
}

async fn node(name: &str) -> Value {
    nodes().await.into_iter().find(|node| node["name"] == name).unwrap()
}

fn devices(node: &Value) -> &Vec<Value> {
    node["devices"].as_array().unwrap()
}

fn source<'a>(node: &'a Value, id: &str) -> &'a Value {
    node["sources"].as_array().unwrap().iter().find(|source| source["id"] == id).unwrap()
}

/// Returns why a value is unknown.
fn why<'a>(device: &'a Value, field: &str) -> &'a Value {
    assert_eq!(device[field], Value::Null, "{field}");
    &device["unknown"][field]
}

#[tokio::test(start_paused = true)]
async fn two_workers_of_a_tpu_pod_train_one_job() {
    let mut jobs = Vec::new();
    for name in ["tpu10", "tpu11"] {
        let worker = node(name).await;
        assert_eq!(source(&worker, "tpu")["experimental"], true);
        assert_eq!(devices(&worker).len(), 4);
        for chip in devices(&worker) {
            assert_eq!((&chip["vendor"], &chip["name"]), (&json!("google"), &json!("TPU v5p")));
            assert_eq!(chip["memory_total_bytes"], 95 * GIB);
            assert!(chip["utilization_percent"].as_f64().unwrap() > 80.0);
            assert_eq!(
                (&chip["held"], &chip["metrics_source"]),
                (&json!(true), &json!("port 8431"))
            );
            assert_eq!(chip["metrics_fault"], "none");
            for field in ["power_watts", "temperature_celsius", "sm_clock_megahertz", "fan_percent"]
            {
                assert_eq!(why(chip, field), "not supported", "{field}");
            }
            assert_eq!(chip["processes"].as_array().unwrap().len(), 1);
        }
        jobs.push(devices(&worker)[0]["processes"][0]["job"].clone());
    }
    assert!(jobs[0].is_string() && jobs[0] == jobs[1], "{jobs:?}");
}

#[tokio::test(start_paused = true)]
async fn an_amd_node_reports_what_its_driver_does() {
    let amd = node("gpu09").await;
    assert_eq!(source(&amd, "amdgpu")["driver"]["version"], "6.10.5");
    assert_eq!(devices(&amd).len(), 8);
    for card in devices(&amd) {
        assert_eq!(card["vendor"], "amd");
        assert_eq!(card["name"], "AMD Instinct MI300X");
        assert_eq!(card["memory_total_bytes"], 196_592_u64 << 20);
        assert_eq!(card["temperature_celsius"], card["junction_temperature_celsius"]);
        assert_eq!(
            (&card["compute_partition"], &card["memory_partition"]),
            (&json!("SPX"), &json!("NPS1"))
        );
        let watts = card["power_watts"].as_f64().unwrap();
        assert!((100.0..=750.0).contains(&watts), "{watts}");
        for field in ["fan_percent", "video_percent", "power_average_watts"] {
            assert_eq!(why(card, field), "not supported", "{field}");
        }
    }
    let used = &devices(&amd)[0]["processes"][0];
    assert!(used["cu_occupancy_percent"].is_number() && used["sm_percent"].is_null(), "{used}");
}

#[tokio::test(start_paused = true)]
async fn a_node_has_mig_slices() {
    let mig = node("gpu05").await;
    let split = &devices(&mig)[0];
    assert_eq!(split["mig_enabled"], true);
    let slices = devices(&mig).iter().filter(|device| device["parent"] == split["uuid"]);
    let slices: Vec<&Value> = slices.collect();
    assert_eq!(slices.len(), 3);
    for slice in slices {
        assert!(slice["name"].as_str().unwrap().contains("MIG"), "{slice}");
        assert_eq!(why(slice, "power_watts"), "not supported");
        assert_eq!(slice["processes"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_workstation_has_accelerators_that_gtop_cannot_read() {
    let foreign = node("gpu07").await;
    let notes = foreign["notes"].as_array().unwrap();
    let note = notes.iter().find(|note| note["id"] == "unreadable_devices").unwrap();
    assert_eq!(note["text"], "2 × Tenstorrent 0x401e, not supported yet");
    assert_eq!(devices(&foreign).len(), 8);
}

#[tokio::test(start_paused = true)]
async fn the_devices_of_a_job_that_hangs_are_busy_and_draw_little_power() {
    let (hung, healthy) = (node("gpu04").await, node("gpu01").await);
    let waiting = devices(&hung).iter().filter(|device| device["fault"].is_null());
    let waiting: Vec<&Value> = waiting.collect();
    assert_eq!(waiting.len(), 7);
    let training = &devices(&healthy)[0];
    for device in waiting {
        assert_eq!(device["utilization_percent"], 100.0);
        assert_eq!(device["memory_utilization_percent"], 0.0);
        let watts = |device: &Value| device["power_watts"].as_f64().unwrap();
        assert!(watts(device) < 0.4 * watts(training), "{device}");
        assert!(device["memory_used_bytes"].as_u64().unwrap() > 60 * GIB);
        let held = device["processes"].as_array().unwrap();
        assert!(held.iter().all(|process| process["job"].is_string()) && !held.is_empty());
    }
}
