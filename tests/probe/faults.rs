//! Failures of nvidia-smi: devices may become unknown, the host never does.

use gtop_collect::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::probe::{BOTH, Rig, Setup, at_once, gpus};
use crate::probe::processes::is_root;

/// The first nvidia-smi section.
fn csv(rig: &mut Rig) -> Value {
    rig.until("a section", |frame| {
        let csv = &frame["backends"][0]["csv"];
        csv.is_object().then(|| csv.clone())
    })
}

#[test]
fn a_call_that_takes_long_is_slow_while_the_host_goes_on() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&gpus(2)).start();
        csv(&mut rig);
        rig.set_state(&(gpus(2) + "fault query hang\n"));
        let mut samples = 0;
        let mut slow = |rig: &mut Rig| {
            rig.until("slow", |frame| {
                samples += u32::from(frame["t"] == "sample" && frame["host"].is_object());
                (frame["t"] == "error").then(|| frame.clone())
            })
        };
        let first = slow(&mut rig);
        assert_eq!((&first["code"], &first["scope"]), (&"slow".into(), &"host".into()));
        assert_eq!(first["source"], "nvidia-smi");
        assert_eq!(first["call"], "nvidia-smi --query-gpu");
        let second = slow(&mut rig);
        assert!(first["for"].as_f64().unwrap() >= 2.9, "{first}");
        assert!(second["for"].as_f64() > first["for"].as_f64(), "{second}");
        assert!(samples >= 5, "{samples}");
        rig.finish();
    });
}

#[test]
fn a_query_that_the_kernel_holds_is_stuck() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&gpus(2)).start();
        csv(&mut rig);
        rig.set_state(&(gpus(2) + "fault query blocked 600\n"));
        let mut codes = Vec::new();
        let stuck = rig.until("stuck", |frame| {
            codes.extend(frame["code"].as_str().map(str::to_owned));
            (frame["code"] == "stuck").then(|| frame.clone())
        });
        assert!(
            codes.len() > 3 && codes[..codes.len() - 1].iter().all(|code| code == "slow"),
            "{codes:?}"
        );
        assert_eq!(stuck["call"], "nvidia-smi --query-gpu");
        assert!(stuck["for"].as_f64().unwrap() >= 10.0, "{interpreter:?} {stuck}");
        rig.finish();
    });
}

#[test]
fn a_first_call_may_take_longer_than_any_other() {
    at_once(BOTH, wait_for_the_first_call);
}

fn wait_for_the_first_call(interpreter: Interpreter) {
    // Any other call is given up after ten seconds.
    let state = gpus(2) + "fault query slow 12\n";
    let mut rig = Setup::new(interpreter).state(&state).start();
    let (mut errors, mut samples) = (Vec::new(), 0);
    rig.until("devices", |frame| {
        if frame["t"] == "error" {
            errors.push((frame["code"].clone(), frame["for"].as_f64().unwrap()));
        }
        samples += u32::from(frame["t"] == "sample" && frame["host"]["cpu"].is_array());
        frame["backends"][0]["csv"].is_object().then_some(())
    });
    assert!(errors.iter().all(|(code, _)| code == "starting"), "{errors:?}");
    assert!(errors[0].1 >= 3.0 && errors.len() >= 4, "{errors:?}");
    assert!(samples >= 15, "{samples}");
    // The next query waits in proportion to the duration of this one.
    let intervals =
        rig.until("hello", |frame| (frame["t"] == "hello").then(|| frame["intervals"].clone()));
    for (source, interval) in [("nvidia-smi", 30.0), ("nvidia-smi.slow", 30.0), ("host", 0.5)] {
        assert_eq!(intervals[source], interval, "{interpreter:?} {source}");
    }
    rig.finish();
}

#[test]
fn values_after_a_slow_query_are_never_too_old_for_the_interval() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&gpus(2)).start();
        let (mut taken, mut interval) = (0.0, 1.0);
        let mut until = |rig: &mut Rig, is_wanted: fn(f64) -> bool, is_checked: bool| {
            rig.until("an interval", |frame| {
                let backend = &frame["backends"][0];
                if backend["csv"].is_object() {
                    taken = backend["at"].as_f64().unwrap();
                }
                interval = frame["intervals"]["nvidia-smi"].as_f64().unwrap_or(interval);
                let age = frame["at"].as_f64().unwrap() - taken;
                assert!(!is_checked || age <= 3.0 * interval, "{interpreter:?} {age} {interval}");
                (taken > 0.0 && is_wanted(interval)).then_some(())
            });
        };
        until(&mut rig, |interval| interval <= 1.0, false);
        rig.set_state(&(gpus(2) + "fault query slow 5\n"));
        until(&mut rig, |interval| interval >= 10.0, false);
        rig.set_state(&gpus(2));
        until(&mut rig, |interval| interval <= 1.0, true);
        rig.finish();
    });
}

#[test]
fn a_hanging_process_query_leaves_the_devices_known() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&(gpus(2) + "fault apps hang\n")).start();
        assert_eq!(csv(&mut rig)["rows"].as_array().unwrap().len(), 2);
        let error = rig.error();
        assert_eq!(error["call"], "nvidia-smi --query-compute-apps");
        assert_eq!(error["code"], "slow");
        rig.finish();
    });
}

#[test]
fn every_failure_has_its_code_and_the_message_of_nvidia_smi() {
    let cases = [
        (
            "9",
            "nodriver",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        ),
        ("12", "nolib", "NVIDIA-SMI couldn't find libnvidia-ml.so"),
        ("18", "mismatch", "Failed to initialize NVML: Driver/library version mismatch"),
        ("4", "perm", "Insufficient Permissions"),
        ("255", "failed", "Unknown Error"),
        ("crash", "failed", "exited with 139 and printed nothing"),
        ("empty", "parse", "exited with 0 and printed nothing"),
        ("garbage", "parse", "!\"#$%&'()*+,-./0123456789"),
        ("flood", "parse", "printed more than 1048576 bytes"),
    ];
    at_once(BOTH, |interpreter| {
        at_once(cases, |(fault, code, text)| {
            eprintln!("{interpreter:?}: {fault}");
            let state = gpus(1) + "fault nvidia-smi " + fault + "\n";
            let mut rig = Setup::new(interpreter).state(&state).start();
            let error = rig.error();
            assert_eq!(error["code"], code, "{interpreter:?} {error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(text), "{interpreter:?} {message}");
            assert_eq!(error["source"], "nvidia-smi");
            assert!(rig.sample()["host"].is_object());
            rig.finish();
        });
    });
}

#[test]
fn after_a_failure_the_devices_come_back() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&(gpus(2) + "fault nvidia-smi 9\n")).start();
        assert_eq!(rig.error()["code"], "nodriver");
        rig.set_state(&gpus(2));
        assert_eq!(csv(&mut rig)["rows"].as_array().unwrap().len(), 2);
        // In the other direction, a full sample must not repeat outdated devices.
        rig.set_state(&(gpus(2) + "fault nvidia-smi 18\n"));
        // The queries of processes and slow values may fail first.
        let code = rig.until("an error of the devices", |frame| {
            (frame["source"] == "nvidia-smi").then(|| frame["code"].clone())
        });
        assert_eq!(code, "mismatch");
        rig.command(gtop_collect::probe::ProbeCommand::Full);
        let full = rig.until("full", |frame| (frame["full"] == true).then(|| frame.clone()));
        assert!(full["backends"].is_null(), "{full}");
        rig.finish();
    });
}

#[test]
fn a_lost_device_does_not_hide_the_others() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&(gpus(2) + "gpu 2 lost\n")).start();
        let section = csv(&mut rig);
        assert_eq!(section["rows"].as_array().unwrap().len(), 2);
        let noise = section["noise"][0].as_str().unwrap();
        assert!(noise.contains("0000:3A:00.0: GPU is lost"), "{noise}");
        rig.finish();
        let mut rig = Setup::new(interpreter).state("gpu 0 lost\n").start();
        // The message is all that is left of the only device.
        let section = csv(&mut rig);
        assert_eq!(section["rows"].as_array().unwrap().len(), 0, "{interpreter:?}");
        let noise = section["noise"][0].as_str().unwrap();
        assert!(noise.contains("0000:18:00.0: GPU is lost"), "{noise}");
        rig.finish();
    });
}

#[test]
fn a_driver_without_devices_lists_none() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&(gpus(2) + "fault nvidia-smi 6\n")).start();
        let section = csv(&mut rig);
        let found = (&section["rows"], &section["noise"]);
        assert_eq!(found, (&json!([]), &json!(["No devices were found"])), "{interpreter:?}");
        rig.finish();
    });
}

#[test]
fn fields_unknown_to_a_version_are_left_out() {
    at_once(BOTH, |interpreter| {
        let state =
            gpus(2) + "unknown index\nunknown mig.mode.current\nunknown pcie.link.width.max\n";
        let mut rig = Setup::new(interpreter).state(&state).start();
        let section = csv(&mut rig);
        let columns = section["columns"].as_array().unwrap();
        assert_eq!(columns.len(), 32, "{section}");
        assert_eq!(columns[0], "uuid");
        let row = section["rows"][0].as_str().unwrap();
        assert_eq!(row.split(", ").count(), 32);
        rig.finish();
    });
}

/// The second query, which comes with the devices.
fn slow_values(rig: &mut Rig) -> Value {
    rig.until("details", |frame| {
        let backend = &frame["backends"][0];
        (backend["slow"].is_number() && backend["csv"].is_object()).then(|| backend.clone())
    })
}

#[test]
fn slow_values_are_queried_separately_from_the_devices() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&gpus(2)).start();
        let values = slow_values(&mut rig);
        assert_eq!(values["more"]["columns"].as_array().unwrap().len(), 27);
        let row = values["more"]["rows"][1].as_str().unwrap();
        assert_eq!(row.split(", ").count(), 27, "{row}");
        assert!(values["mig"].is_null());
        rig.finish();
    });
}

#[test]
fn an_old_version_is_queried_only_once_for_unknown_fields() {
    at_once(BOTH, |interpreter| {
        // With few unknown fields only those are left out; with many, all fields of later versions.
        let some = "unknown compute_cap\nunknown gpu_recovery_action\n".to_owned();
        at_once([(some, 25), ("old\n".to_owned(), 10)], |(lacking, count)| {
            let mut rig = Setup::new(interpreter).state(&(gpus(1) + &lacking)).start();
            let values = slow_values(&mut rig);
            assert_eq!(
                values["more"]["columns"].as_array().unwrap().len(),
                count,
                "{interpreter:?}"
            );
            rig.finish();
        });
        let state = gpus(1) + "unknown display_active\nunknown clocks.max.graphics\n" + "old\n";
        let mut rig = Setup::new(interpreter).state(&state).start();
        assert_eq!(slow_values(&mut rig)["more"]["columns"].as_array().unwrap().len(), 8);
        rig.finish();
    });
}

#[test]
fn a_failing_second_query_leaves_the_devices_alone() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&(gpus(1) + "fault more 4\n")).start();
        let error = rig.error();
        assert_eq!((&error["code"], &error["source"]), (&"perm".into(), &"nvidia-smi.slow".into()));
        assert!(csv(&mut rig)["rows"].is_array());
        rig.finish();
    });
}

#[test]
fn slices_are_listed_with_their_memory_and_processes() {
    at_once(BOTH, |interpreter| {
        let state = gpus(2)
            + "gpu 1 mig=1\nslice 1 0 total_mib=9728 used_mib=10 gi=7\n\
               slice 1 1 total_mib=9728 used_mib=11 gi=8\nproc 1 4000001 5 slice=1\n";
        let mut rig = Setup::new(interpreter).state(&state).start();
        let mig = rig.until("slices", |frame| {
            let mig = &frame["backends"][0]["mig"];
            mig.is_object().then(|| mig.clone())
        });
        let lines = |key: &str| mig[key].as_array().unwrap().clone();
        assert_eq!(lines("list").len(), 4, "{mig}");
        assert!(lines("list")[2].as_str().unwrap().starts_with("MIG 1g.10gb"), "{mig}");
        let words =
            |line: &Value| line.as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let table: Vec<String> = lines("table").iter().map(words).collect();
        assert_eq!(table.len(), 3, "{table:?}");
        assert!(table[1].starts_with("| 1 8 0 1 | 11MiB / 9728MiB |"), "{table:?}");
        assert!(table[2].starts_with("| 1 8 0 4000001 C "), "{table:?}");
        rig.finish();
    });
}

#[test]
fn slices_stay_when_they_cannot_be_listed() {
    for (interpreter, query) in
        BOTH.into_iter().flat_map(|interpreter| [(interpreter, "list"), (interpreter, "table")])
    {
        let state = gpus(1) + "gpu 0 mig=1\nslice 0 0 total_mib=9728 used_mib=10 gi=7\n";
        let mut rig = Setup::new(interpreter).state(&format!("{state}fault {query} 9\n")).start();
        let error = rig.until("an error", |frame| {
            assert!(frame["backends"][0]["mig"].is_null(), "{frame}");
            // A busy machine is slow.
            let is_slow = ["slow", "starting"].iter().any(|code| frame["code"] == *code);
            (frame["t"] == "error" && !is_slow).then(|| frame.clone())
        });
        assert_eq!(error["source"], "nvidia-smi.slow", "{error}");
        assert_eq!(error["code"], "nodriver", "{error}");
        rig.finish();
    }
}

#[test]
fn windows_line_ends_and_messages_between_rows_are_tolerated() {
    at_once(BOTH, |interpreter| {
        let state = gpus(3) + "gpu 1 lost\nfault query crlf\n";
        let mut rig = Setup::new(interpreter).state(&state).start();
        let section = csv(&mut rig);
        let rows = section["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{section}");
        assert!(rows.iter().all(|row| row.as_str().unwrap().ends_with(", 16")), "{section}");
        assert_eq!(section["noise"].as_array().unwrap().len(), 1);
        rig.finish();
    });
}

#[test]
fn a_header_despite_noheader_is_not_a_device() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&(gpus(2) + "fault query header\n")).start();
        assert_eq!(csv(&mut rig)["rows"].as_array().unwrap().len(), 2);
        rig.finish();
    });
}

#[test]
fn without_persistence_mode_the_driver_is_queried_less_often() {
    at_once(BOTH, |interpreter| {
        let state = gpus(2) + "set 1 persistence_mode Disabled\n";
        let mut rig = Setup::new(interpreter).state(&state).start();
        let intervals = rig.until("slower", |frame| {
            let intervals = frame["intervals"].as_object()?;
            (intervals["nvidia-smi"] == 5.0).then(|| intervals.clone())
        });
        assert_eq!(intervals["nvidia-smi.processes"], 5.0);
        assert_eq!(intervals["host"], 0.5);
        rig.finish();
    });
}

#[test]
fn a_node_without_nvidia_smi_reports_that_and_its_host() {
    if ["/usr/bin", "/usr/local/bin"]
        .iter()
        .any(|folder| std::path::Path::new(folder).join("nvidia-smi").exists())
    {
        eprintln!("skipped: there is a real nvidia-smi here");
        return;
    }
    at_once(BOTH, |interpreter| {
        let mut rig = Setup { state: None, ..Setup::new(interpreter) }.start();
        let state = rig.backend("nvidia-smi", "absent");
        assert_eq!(
            (&state["why"], &state["missing"]),
            (&json!("nvidia-smi not found"), &json!(true))
        );
        let sample = rig.sample();
        assert!(sample["host"].is_object() && sample["backends"].is_null());
        rig.finish();
    });
}

/// The first section of the slow group.
fn slow_group(rig: &mut Rig) -> Value {
    rig.until("the slow group", |frame| {
        let backend = &frame["backends"][0];
        (backend["slow"].is_number() || backend["mig"].is_object()).then(|| backend.clone())
    })
}

#[test]
fn a_corrupted_inforom_warning_hides_neither_devices_nor_processes() {
    let state = gpus(2)
        + "noise WARNING: infoROM is corrupted at gpu 0000:18:00.0\nstatus 14\nproc 0 1 500\n";
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&state).start();
        let (mut rows, mut users) = (0, 0);
        rig.until("devices and users", |frame| {
            assert_ne!(frame["t"], "error", "{frame}");
            let backend = &frame["backends"][0];
            rows = backend["csv"]["rows"].as_array().map_or(rows, Vec::len);
            users = backend["apps"]["rows"].as_array().map_or(users, Vec::len);
            (rows == 2 && users == 1).then_some(())
        });
        rig.finish();
    });
}

#[test]
fn many_unknown_fields_hide_no_known_field() {
    let unknown = [
        "persistence_mode",
        "pstate",
        "temperature.memory",
        "utilization.memory",
        "power.limit",
        "fan.speed",
        "clocks.max.sm",
        "clocks.max.memory",
        "ecc.mode.current",
        "retired_pages.pending",
        "compute_mode",
        "pcie.link.gen.max",
        "utilization.encoder",
        "utilization.jpeg",
        "compute_cap",
        "fabric.state",
        "temperature.gpu.tlimit",
        "power.draw.instant",
        "display_active",
        "remapped_rows.pending",
        "remapped_rows.failure",
        "fabric.health.summary",
    ];
    let unknown: String = unknown.iter().flat_map(|field| ["unknown ", field, "\n"]).collect();
    // If its help fails too, it is queried field by field.
    at_once(["", "fault help 1\n"], |help| {
        at_once(BOTH, |interpreter| {
            let state = gpus(2) + &unknown + help;
            let mut rig = Setup::new(interpreter).state(&state).start();
            let columns = |csv: &Value| -> Vec<String> {
                let columns = csv["columns"].as_array().unwrap().iter();
                columns.map(|column| column.as_str().unwrap().to_owned()).collect()
            };
            let section = rig.until("a section", |frame| {
                let csv = &frame["backends"][0]["csv"];
                // None of these refusals is a failure.
                assert!(!matches!(frame["code"].as_str(), Some("failed" | "parse")), "{frame}");
                csv.is_object().then(|| csv.clone())
            });
            let first = columns(&section);
            assert_eq!(first.len(), 35 - 12, "{first:?}");
            assert!(first.iter().any(|column| column == "pcie.link.width.max"), "{first:?}");
            let group = slow_group(&mut rig);
            let more = columns(&group["more"]);
            assert_eq!(more.len(), 27 - 10, "{more:?}");
            assert!(more.iter().any(|column| column == "gpu_recovery_action"), "{more:?}");
            rig.finish();
        });
    });
}

#[test]
fn a_failing_table_hides_nothing_else_of_the_slow_group() {
    let slices = "gpu 0 mig=1\nslice 0 0 gi=1 ci=0 total_mib=9728 used_mib=12\n";
    at_once(BOTH, |interpreter| {
        for (query, has_list, has_more) in
            [("table", true, true), ("list", false, true), ("more", true, false)]
        {
            let state = gpus(2) + slices + "fault " + query + " 255\n";
            let mut rig = Setup::new(interpreter).state(&state).start();
            let group = slow_group(&mut rig);
            let list = group["mig"]["list"].as_array().map_or(0, Vec::len);
            assert_eq!(
                (list > 0, group["more"].is_object()),
                (has_list, has_more),
                "{query} {group}"
            );
            // Without the values that health depends on, the group has not arrived.
            assert_eq!(group["slow"].is_number(), has_more, "{query} {group}");
            rig.finish();
        }
    });
}

#[test]
fn device_file_numbers_come_from_nvidia_smi_where_the_kernel_has_none() {
    at_once(BOTH, |interpreter| {
        let state = gpus(3) + "gpu 0 minor=2\ngpu 2 minor=0\n";
        let mut rig = Setup::new(interpreter).state(&state).start();
        let minors = slow_group(&mut rig)["minors"].clone();
        let expected = serde_json::json!({"00000000:18:00.0": 2, "00000000:29:00.0": 1, "00000000:3A:00.0": 0});
        assert_eq!(minors, expected, "{interpreter:?}");
        rig.finish();
    });
}

/// Mounts the files of the NVIDIA driver over /proc in a mount namespace.
const DRIVER_FILES_SCRIPT: &str = r#"
mount -t tmpfs none /proc/driver
for at in 18:5 29:0; do
    folder=/proc/driver/nvidia/gpus/0000:${at%:*}:00.0
    mkdir -p "$folder"
    printf 'Model: \t\t NVIDIA H100\nBus Location: \t 0000:%s:00.0\nDevice Minor: \t %s\nGPU Excluded:\t No\n' \
        "${at%:*}" "${at#*:}" >"$folder/information"
done
exec /bin/sh -c "$1"
"#;

#[test]
fn device_file_numbers_come_from_the_kernel() {
    if !is_root() {
        return;
    }
    at_once(BOTH, |interpreter| {
        let shell = ["unshare", "--mount", "sh", "-euc", DRIVER_FILES_SCRIPT, "sh"]
            .map(str::to_owned)
            .into();
        // nvidia-smi would report other numbers.
        let setup = Setup { shell, ..Setup::new(interpreter) };
        let mut rig = setup.state(&(gpus(2) + "fault files 9\n")).start();
        let minors = slow_group(&mut rig)["minors"].clone();
        let expected = serde_json::json!({"0000:18:00.0": 5, "0000:29:00.0": 0});
        assert_eq!(minors, expected, "{interpreter:?}");
        rig.finish();
    });
}
