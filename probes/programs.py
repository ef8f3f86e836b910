# Runs programs in a child of the probe, with limits on their time and output.

def run_program(child, argv, environment, deadline, max_bytes, name=None):
    """Runs a program without input; returns (status, output and errors, None | 'overflow' | 'late').

    `name` is what it is told that it was called by, if that is not its path.
    """
    source, sink = os.pipe()
    # While a program runs, the alarm must kill it too.
    signal.signal(signal.SIGALRM, lambda number, frame: kill_own_group())
    pid = os.fork()
    if pid == 0:
        exec_program(argv[0], [name or argv[0]] + argv[1:], environment, sink)
    os.close(sink)
    output, ended = [], None
    size = 0
    while ended is None:
        left = deadline - time.monotonic()
        if left <= 0:
            ended = 'late'
        elif child.wait(left, source):
            piece = os.read(source, 65536)
            if not piece:
                break
            output.append(piece)
            size += len(piece)
            if size > max_bytes:
                ended = 'overflow'
    os.close(source)
    status, late = wait_for_exit(child, pid, ended, deadline)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return status, b''.join(output)[:max_bytes], ended or late


def wait_for_exit(child, pid, ended, deadline):
    """Waits until a program has exited, killing it at the deadline; waits even for an unkillable one."""
    late = None
    pause = 0.001
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status), late
        if ended or time.monotonic() >= deadline:
            late = 'late'
            os.kill(pid, signal.SIGKILL)
        child.wait(pause)
        pause = min(pause * 2, 0.25)


def exec_program(path, argv, environment, sink):
    """Executes a program in a new fork, with its output to `sink`."""
    try:
        become_caller()
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        for number in (signal.SIGPIPE, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        os.execve(path, argv, os.environ if environment is None else environment)
    finally:
        os._exit(127)
