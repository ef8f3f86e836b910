//! The parts of the Python probe, which are compiled in different processes, use no undefined names.

use std::io::Write;
use std::process::{Command, Stdio};

use gtop_collect::probe::Script;

/// Reads the source of a probe, and prints the global names that each part reads and nothing defines.
const READER: &str = r"
import ast, binascii, builtins, dis, sys
b = sys.stdin.buffer.read()
exec(b[:b.index(0)])

def names(sources):
    read, defined = set(), set()
    def walk(code, is_top):
        local = set()
        for step in dis.get_instructions(code):
            if step.opname == 'STORE_NAME':
                (defined if is_top else local).add(step.argval)
            elif step.opname in ('LOAD_GLOBAL', 'LOAD_NAME') and step.argval not in local:
                read.add(step.argval)
        for inner in code.co_consts:
            if hasattr(inner, 'co_code'):
                walk(inner, False)
    for source in sources:
        walk(compile(source, 'source', 'exec'), True)
    return read, defined

read, defined = names(_p)
packed = [step for step in ast.parse(_p[0]).body if isinstance(step, ast.Assign) and getattr(step.targets[0], 'id', None) == 'PACKED']
kinds = {kind: names(zlib.decompress(binascii.a2b_base64(text)).split(b'\f'))
         for kind, text in ast.literal_eval(packed[0].value).items()}
known = defined | set(dir(builtins)) | {'load', 'caller', '__name__'}
# Names that the process which compiles a part uses, or that the part it loads before defines.
known |= {'answer_text', 'KernelLog', 'find_hidden', 'Scheduler', 'read_evidence', 'daemon_options', 'node_names', 'MAX_MINOR'}
for kind, (part_read, part_defined) in sorted(kinds.items()):
    print(kind, *sorted(part_read - part_defined - known))
print('all', *sorted(read - known))
";

#[test]
fn no_part_uses_names_of_another_process() {
    let mut python = Command::new("python3")
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = Script::Python.parts().concat();
    python.stdin.take().unwrap().write_all(&text).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let names = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        names,
        "amdgpu\nanswers\nevidence\nhidden\nkernel_log\nnvidia-smi\nnvml\nscheduler\ntpu\nall\n"
    );
}
