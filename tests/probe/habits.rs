//! When a call is slow, and when it is stuck, by the rules of the probe on a clock that the test moves.

use std::process::Command;

/// Looks at a worker as the probe does, each half second of a clock, and returns what it reports. A call is (seconds,
/// seconds of them in which the kernel does not let go of it).
const LOOKS: &str = r"
import os, sys
NODE, INTERVAL, DEADMAN, SHORT = 'n', 1.0, 60, 0
for name in ('wire', 'child'):
    exec(compile(open('probes/%s.py' % name).read(), name, 'exec'))

class Idle:
    pass

def reports(calls, page=None, is_starting=False, pause=1.0):
    worker, now, out = Worker('nvidia-smi', None, page), 100.0, []
    worker.link, worker.is_ready = Idle(), True
    worker.send = lambda *value: None
    for number, (seconds, blocked) in enumerate(calls):
        began, now = now, now
        worker.request(now, 'tick')
        worker.begin_call('nvidia-smi --query-gpu', now)
        worker.is_starting = is_starting and number == 0
        while now < began + seconds:
            if worker.is_due(now):
                code, lasts = worker.look(now, now - began < blocked)
                out.append((code, lasts))
            now += 0.5
        worker.on_answer()
        worker.end_call(now)
        worker.busy = False
        now += pause
    return out

def codes(*arguments, **more):
    return sorted(set(code for code, _ in reports(*arguments, **more)))

def first(code, *arguments, **more):
    return min([lasts for found, lasts in reports(*arguments, **more) if found == code] or [None])

PAGE = CallPage()
LIBRARY = {'page': PAGE}
";

/// Runs assertions on these looks.
fn check(assertions: &str) {
    let script = LOOKS.to_owned() + assertions;
    let output = Command::new("python3").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn ten_minutes_of_a_slow_nvidia_smi_are_never_stuck() {
    check(
        r"
for seconds in (6.0, 20.0, 45.0):
    calls = [(seconds, 0.0)] * int(600 / seconds)
    assert codes(calls, is_starting=True) == ['starting'], seconds
    # One that has been quick is slow at first, and then as usual.
    found = reports([(0.1, 0.0)] * 20 + calls)
    assert set(code for code, _ in found) == {'slow'} and len(found) < 25, found
# Durations that vary are usual too.
assert codes([(6.0, 0.0), (7.0, 0.0), (5.0, 0.0), (6.5, 0.0)] * 20, is_starting=True) == ['starting']
# Once, the kernel does not let go of it for 5 s.
assert codes([(0.1, 0.0)] * 50 + [(5.5, 5.0)] + [(0.1, 0.0)] * 50) == ['slow']
assert codes([(6.0, 0.0)] * 30 + [(11.0, 5.0)] + [(6.0, 0.0)] * 30, is_starting=True) == ['starting']
",
    );
}

#[test]
fn a_call_that_the_kernel_holds_is_stuck_within_twenty_seconds() {
    check(
        r"
for more in ({}, LIBRARY):
    assert 10.0 <= first('stuck', [(0.1, 0.0)] * 9 + [(60.0, 60.0)], **more) < 20.0, more
# A call of a library loads one device, and a program all of them.
assert 10.0 <= first('stuck', [(59.0, 59.0)], is_starting=True, **LIBRARY) < 20.0
assert codes([(59.0, 59.0)], is_starting=True) == ['starting']
# It waits there only from time to time.
found = reports([(0.1, 0.0)] + [(9.0, 8.0), (9.0, 0.0)] * 9)
assert not [code for code, _ in found if code == 'stuck'], found
",
    );
}

#[test]
fn a_call_without_an_answer_is_stuck_after_a_minute_beyond_its_habit() {
    check(
        r"
quick, slow = [(0.1, 0.0)] * 9, [(20.0, 0.0)] * 9
assert 60.0 <= first('stuck', quick + [(99.0, 0.0)]) < 63.0
assert 80.0 <= first('stuck', slow + [(99.0, 0.0)]) < 83.0
assert 60.0 <= first('stuck', [(99.0, 0.0)], is_starting=True) < 63.0
# A driver that is loaded answers at once: it may be stuck long before that is certain.
assert 10.0 <= first('silent', quick + [(99.0, 0.0)], **LIBRARY) < 13.0
assert first('silent', quick + [(99.0, 0.0)]) is None
",
    );
}

#[test]
fn a_call_without_an_answer_goes_on_in_the_next_child() {
    check(
        r"
worker = Worker('nvml', None)
worker.link, worker.is_ready, worker.send = Idle(), True, lambda *value: None
def lost(now, end, call='utilization of device 0'):
    worker.busy = False
    worker.request(now, 'tick')
    worker.begin_call(call, now)
    found = worker.look(now + 3.0, False)
    return found, worker.on_lost(end)
# A child that waits is ended after a while, and the next one waits for the same call.
assert lost(0.0, 24.0) == (('slow', 3.0), ('slow', 24.0))
assert lost(36.0, 59.0) == (('slow', 39.0), ('slow', 59.0))
assert lost(71.0, 95.0) == (('stuck', 74.0), ('stuck', 95.0))
worker.on_answer()
assert lost(200.0, 206.0) == (('slow', 3.0), ('slow', 6.0))
# Another call is not answered for another time.
assert lost(220.0, 226.0, 'power of device 0')[0] == ('slow', 3.0)
# A child that ends although nothing is slow has crashed.
worker.busy = False
worker.request(300.0, 'tick')
assert worker.on_lost(300.1) is None
",
    );
}

#[test]
fn what_was_stuck_is_so_until_something_answers() {
    check(
        r"
worker = Worker('nvidia-smi', None)
worker.link, worker.is_ready, worker.send = Idle(), True, lambda *value: None
def ask(now, seconds):
    worker.request(now, 'tick')
    worker.begin_call('nvidia-smi --query-gpu', now)
    found = [worker.look(now + second, False)[0] for second in range(3, seconds, 2)]
    worker.end_call(now + seconds)
    worker.busy = False
    return found
assert ask(0.0, 70)[-1] == 'stuck'
assert ask(100.0, 6) == ['stuck', 'stuck']
# What was given up is no habit.
assert worker.habits.of('nvidia-smi --query-gpu', 107.0) == 0.0
worker.on_answer()
assert ask(200.0, 6) == ['slow', 'slow']
assert 5.0 < worker.habits.of('nvidia-smi --query-gpu', 210.0) <= 6.0
assert worker.habits.of('nvidia-smi --query-gpu', 2000.0) == 0.0
",
    );
}
