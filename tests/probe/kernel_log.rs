//! What the probe takes from the kernel's log: Xids that the kernel itself wrote, and nothing else, whatever is in the log.

use std::process::Command;

/// Reads a log of records as the kernel writes them, and returns the lines that the probe sends. The records of programs are
/// as Linux 6.18 hands them out: a program that asks for facility 0 gets another one, a newline and bytes that are not ASCII
/// are escaped.
const READER: &str = r#"
import errno, os, sys, time
exec(open('probes/kernel_log.py').read())
REAL = os.read

class Unread:
    """Hands out what the kernel would, one record or error for each read."""
    def __init__(self, answers):
        self.answers = list(answers)

    def __call__(self, fd, size):
        answer = self.answers.pop(0) if self.answers else BlockingIOError(errno.EAGAIN, '')
        if isinstance(answer, OSError):
            raise answer
        return answer

def record(text, prio=4, seq=[0], usec=None, flags='-'):
    seq[0] += 1
    usec = seq[0] * 1000 if usec is None else usec
    return b'%d,%d,%d,%s;' % (prio, seq[0], usec, flags.encode()) + (text if isinstance(text, bytes) else text.encode()) + b'\n'

def log(*answers):
    kernel = KernelLog.__new__(KernelLog)
    kernel.lines, kernel.driver_loaded, kernel.fd = [], None, -1
    read = Unread(answers)
    kernel.close = lambda: setattr(kernel, 'fd', None)
    os.read = read
    try:
        while True:
            kernel.read()
            if kernel.fd is None or not read.answers:
                return kernel
    finally:
        os.read = REAL

def lines(*answers):
    keys = ('seq', 'logged', 'since', 'first')
    return [dict((key, value) for key, value in line.items() if key not in keys) for line in log(*answers).lines]

def xid(code, rest=', pid=1, name=x, words', place='PCI:0000:3b:00'):
    return 'NVRM: Xid (%s): %s%s' % (place, code, rest)
"#;

/// Runs assertions on such logs.
fn check(assertions: &str) {
    let script = READER.to_owned() + assertions;
    let output = Command::new("python3").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_form_in_which_the_driver_logs_an_xid_is_read() {
    check(
        r#"
def one(text):
    found, = lines(record(text))
    return found
lost = {'pci': '0000:3b:00', 'code': 79, 'message': 'GPU has fallen off the bus.'}
assert one("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.") == lost
assert one('NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.') == lost
assert one('NVRM: Xid (0000:3b:00): 79, GPU has fallen off the bus.') == lost
assert one('NVRM: Xid (PCI:0000:3b:00): 79, pid=1122, GPU has fallen off the bus.') == dict(lost, pid=1122)
assert one('NVRM: Xid (PCI:00010000:3b:00): 79, ')['pci'] == '00010000:3b:00'
assert one('NVRM: Xid (PCI:0000:3b:00): 45') == {'pci': '0000:3b:00', 'code': 45, 'message': ''}
fault = 'Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 GPCCLIENT_T1_7 faulted @ 0x2b57_b3000000'
assert one('NVRM: Xid (PCI:0000:3b:00): 31, pid=79749, name=exe, ' + fault) == {
    'pci': '0000:3b:00', 'code': 31, 'pid': 79749, 'process': 'exe', 'message': fault}
contained = 'Contained: CE User Channel (0x9). RST: No, D-RST: No'
for place in ('PCI:0000:01:00 GPU-I:05', 'PCI:0000:01:00 GPU-I:05 GPU-CI:02'):
    assert one('NVRM: Xid (%s): 94, pid=7194, %s' % (place, contained)) == {
        'pci': '0000:01:00', 'instance': 5, 'code': 94, 'pid': 7194, 'message': contained}
"#,
    );
}

#[test]
fn only_the_kernel_itself_is_believed() {
    check(
        r#"
# As this comes out of the kernel if a program has written it: with priorities none, <0> and <6>, and with a newline in it.
assert lines(record(xid(79), prio=12), record(xid(79), prio=8), record('x\\x0aNVRM: Xid (PCI:0000:3b:00): 79, forged', prio=14)) == []
for facility in range(1, 128):
    assert lines(record(xid(79), prio=facility * 8 + 2)) == [], facility
for level in range(8):
    assert len(lines(record(xid(79), prio=level))) == 1, level
# A kernel's line with words of a program in it: the name of a process, and a line that continues one.
assert lines(record('NVRM: Xid (PCI:[79]: segfault at 0 ip 0 sp 0 error 4'), record('x[1]: NVRM: Xid (PCI:0000:3b:00): 79, x')) == []
assert lines(b'6,9,9,-;usb 1-1: Product: x\n SUBSYSTEM=x\n4,10,10,-;' + xid(79).encode() + b'\n') == []
named, = lines(record(xid(13, ", pid=1, name=): 79, x, GPU has fallen off the bus.")))
assert (named['code'], named['process'], named['message']) == (13, '): 79', 'x, GPU has fallen off the bus.')
"#,
    );
}

#[test]
fn records_that_are_nothing_of_the_kind_are_ignored() {
    check(
        r"
bad = [b'', b'\n', b';', b',,,;NVRM: Xid (PCI:0000:3b:00): 79, x', b'4,1;' + xid(79).encode(), b'-4,1,1,-;' + xid(79).encode(), b'\xff' * 8192,
       b'4,' + b'9' * 4000 + b',1,-;' + xid(79).encode(), b'4,1,' + b'9' * 20 + b',-;' + xid(79).encode(), '4,²,1,-;'.encode() + xid(79).encode()]
for one in bad:
    assert lines(one or b' ') == [], one
for text in ('NVRM: Xid', 'NVRM: Xid (', 'NVRM: Xid (): 79, x', xid('-1'), xid('79x'), xid(''), xid('9' * 4000), xid(79, place='PCI:' + '0' * 4000),
             xid(79, place='PCI:../../..'), xid(79, place='PCI:0000'), 'NVRM: Xid (PCI:0000:3b:00) 79, x', 'nvrm: xid (PCI:0000:3b:00): 79, x'):
    assert lines(record(text)) == [], text
line, = lines(record(xid(79, ', pid=%s, name=%s, %s' % ('9' * 5000, 'n' * 5000, 'w' * 5000))))
assert 'pid' not in line and (len(line['process']), len(line['message'])) == (32, 160)
line, = lines(record(xid(79, ', pid=1, name=\\xff\\x1b[2J, ').encode() + b'\xff\xfe\x1b[2J\x00'))
assert line['message'] == '\ufffd\ufffd\x1b[2J\x00' and line['process'] == '\\xff\\x1b[2J'
",
    );
}

#[test]
fn a_flood_costs_no_memory_and_no_time_of_a_sample() {
    check(
        r"
# A megabyte of lines of one device: the last 8 are kept, and none goes uncounted.
flood = [record(xid(31, ', pid=%d, name=x, ' % n + 'w' * 50)) for n in range(10000)]
kernel = log(*flood)
assert (len(kernel.lines), sum([line.get('count', 1) for line in kernel.lines])) == (8, 10000)
first, last = kernel.lines[0], kernel.lines[-1]
assert first['first'] == first['seq'] - 9992 and first['since'] < first['logged'] and last['pid'] == 9999
# Of different ones, each code keeps its count; and devices without end are none.
kernel = log(*[record(xid(13 + n % 2)) for n in range(100)])
assert sum([line.get('count', 1) for line in kernel.lines]) == 100
kernel = log(*[record(xid(79, place='PCI:%04x:00:00' % n)) for n in range(1000)])
assert (len(kernel.lines), kernel.lines[-1]['pci']) == (64, '03e7:00:00')
# A log that never ends is left for the next sample.
class Endless:
    def __call__(self, fd, size):
        return flood[0]
kernel = log()
os.read, MAX_READ_SECONDS = Endless(), 0.0
kernel.read()
MAX_READ_SECONDS = 0.01
kernel.read()
os.read = REAL
assert kernel.lines and kernel.fd is not None
",
    );
}

#[test]
fn overwritten_records_are_skipped_and_an_error_ends_the_reading() {
    check(
        r"
gone, denied = BrokenPipeError(errno.EPIPE, ''), PermissionError(errno.EPERM, '')
assert [line['code'] for line in lines(gone, record(xid(13)), gone, gone, record(xid(31)))] == [13, 31]
kernel = log(record(xid(13)), denied, record(xid(31)))
assert ([line['code'] for line in kernel.lines], kernel.fd) == ([13], None)
assert log(b'', record(xid(31))).fd is None
assert log().fd is not None
",
    );
}

#[test]
fn times_are_those_of_the_probes_clock_and_the_last_load_of_the_driver_is_known() {
    check(
        r"
raw = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
kernel = log(record('NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025', 5, usec=int((raw - 9) * 1e6)),
             record(xid(79), usec=int((raw - 5) * 1e6)), record(xid(79), usec=int((raw + 900) * 1e6)))
now = time.monotonic()
old, new = [line['logged'] for line in kernel.lines]
# A stamp that is later than now is now: the kernel's own clock runs a little ahead of the one that programs read.
assert kernel.driver_loaded < old < new <= now and 3.9 < old - kernel.driver_loaded < 4.1, (kernel.driver_loaded, old, new, now)
forged = 'NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05'
assert log(record(forged, 13)).driver_loaded is None and log(record(forged, 5)).driver_loaded is not None
",
    );
}

#[test]
fn what_is_no_log_of_the_kernel_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let name = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(name("file"), "").unwrap();
    std::os::unix::fs::symlink(name("file"), name("link")).unwrap();
    check(&format!(
        r"
import pty
def opened(path):
    global KERNEL_LOG
    KERNEL_LOG = path
    return KernelLog().fd is not None
_, terminal = pty.openpty()
assert opened({:?})
assert not opened({:?}) and not opened({:?}) and not opened(os.ttyname(terminal))
",
        name("file"),
        name("link"),
        name("none")
    ));
}
