//! The parts of the Python probe, which are compiled in different processes, use no undefined names.

use std::io::Write;
use std::process::{Command, Stdio};

use gtop::probe::{Interpreter, Settings, source};

/// Takes a probe's source, and prints the global names that a part of it reads and nothing defines.
const READER: &str = r"
import ast, binascii, builtins, dis, sys
b = sys.stdin.buffer.read()
exec(b[:b.index(0)])

def names(pieces):
    read, made = set(), set()
    def walk(code, is_top):
        own = set()
        for step in dis.get_instructions(code):
            if step.opname == 'STORE_NAME':
                (made if is_top else own).add(step.argval)
            elif step.opname in ('LOAD_GLOBAL', 'LOAD_NAME') and step.argval not in own:
                read.add(step.argval)
        for inner in code.co_consts:
            if hasattr(inner, 'co_code'):
                walk(inner, False)
    for piece in pieces:
        walk(compile(piece, 'piece', 'exec'), True)
    return read, made

read, made = names(_p)
packed = [step for step in ast.parse(_p[0]).body if isinstance(step, ast.Assign) and step.targets[0].id == 'PACKED']
kinds = {kind: names(zlib.decompress(binascii.a2b_base64(text)).split(b'\f'))
         for kind, text in ast.literal_eval(packed[0].value).items()}
known = made | set(dir(builtins)) | {'load', 'NODE', 'INTERVAL', 'DEADMAN', 'SHORT', '__name__'}
# Called once they are compiled, by who has them compiled.
known |= {'answer_text', 'find_hidden'}
for kind, (own_read, own_made) in sorted(kinds.items()):
    print(kind, *sorted(own_read - own_made - known))
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
    let text = source(Interpreter::Python, &Settings::new("node", "nonce")).parts().concat();
    python.stdin.take().unwrap().write_all(&text).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "amdgpu\nanswers\nhidden\nnvidia-smi\nnvml\ntpu\nall\n");
}
