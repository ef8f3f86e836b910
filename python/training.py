"""Progress of a training run in a file, for `gtop runs` and ttop, and its variables, which can be changed meanwhile."""

import atexit
import contextlib
import importlib
import json
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

Change = Tuple[Any, Any]
OnChange = Callable[[str, Any, Any], None]

# The file is written at most so often, at least so often, and the variables are read so often.
_WRITE_SECONDS = 0.1
_RESOURCES_SECONDS = 5.0
_CONTROL_SECONDS = 1.0
_MAX_PROCESSES = 500
# What files and the values in them can raise.
_FILE_ERRORS = (OSError, TypeError, ValueError, RuntimeError)
_RESTARTING_VARIABLES = ("batch_size", "num_workers")


def _plain(value: Any) -> Any:
    """Returns a value as JSON can have it: numbers of arrays and tensors as numbers, NaN and infinity as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return dict((str(key), _plain(one)) for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _is_same(one: Any, other: Any) -> bool:
    """Returns true for equal values of the same type: 1, 1.0 and true differ."""
    return type(one) is type(other) and bool(one == other)


def replace_file(path: str, value: Any) -> None:
    """Writes JSON so that a reader finds the old text or the new one, never a part. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(value, file, indent=2, allow_nan=False)
        try:
            mode = os.stat(path).st_mode & 0o777
        except FileNotFoundError:
            mask = os.umask(0)
            os.umask(mask)
            mode = 0o666 & ~mask
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class TrainingMonitor:
    """Writes the progress of a training run to `FOLDER/RUN/progress.json`; methods and file are those of ttop.

        monitor = TrainingMonitor("progress/run_1")
        monitor.track_variables({"lr": 0.1})
        monitor.start_monitoring()
        for epoch in range(10):
            monitor.start_epoch(epoch, total_batches=len(loader), total_epochs=10)
            monitor.start_phase("training")
            for batch in loader:
                monitor.start_batch()
                ...
                monitor.update_metrics(loss=loss, accuracy=accuracy)
            monitor.end_phase()
            monitor.end_epoch()
        monitor.set_finished()

    Or `with TrainingMonitor(…) as monitor:`, which sets the final state itself. A name that ends in `.json` loses that.
    The file is replaced, never half-written, at most ten times a second, by a thread. Every few seconds it tells what the
    process and all below it use. Nothing here fails the training: if the file cannot be written, it warns once and tries
    again. SIGINT and SIGTERM set the state CANCELED, and raise KeyboardInterrupt.

    Variables in `control.json` can be changed by others, such as gtop's editor: see `track_variables`.
    """

    def __init__(self, output_file: Any, wandb_run_name: Optional[str] = None, wandb_url: Optional[str] = None) -> None:
        folder = os.fspath(output_file)
        # Without a working directory, a relative path stays one.
        with contextlib.suppress(OSError):
            folder = os.path.abspath(folder)
        self.run_folder = folder[:-len(".json")] if folder.endswith(".json") else folder
        self.progress_file = os.path.join(self.run_folder, "progress.json")
        self.control_file = os.path.join(self.run_folder, "control.json")
        self.wandb_run_name = wandb_run_name
        self._pid = os.getpid()
        # Signal handlers run in the main thread, which may hold it.
        self._lock = threading.RLock()
        self._dirty = _Wake()
        self._usage = _Usage()
        self._has_folder = False
        # The files that could not be written when it was last tried.
        self._failing = set()  # type: Set[str]
        self._clock = {}  # type: Dict[str, float]
        # When the first batch of a phase was told, and its number: a batch may be told when it begins, or when it ends.
        self._first_batch = {}  # type: Dict[str, Tuple[float, int]]
        self._told = {}  # type: Dict[str, Tuple[float, float, float]]
        self._begun = time.monotonic()
        self.metadata = {
            "pid": self._pid, "hostname": socket.gethostname(), "script_name": sys.argv[0], "python_version": sys.version,
            "start_time": time.time(), "wandb_run_name": wandb_run_name, "wandb_url": wandb_url,
            "stdout_path": _target("/proc/self/fd/1"), "stderr_path": _target("/proc/self/fd/2"),
            # Beyond ttop: tells a process in a container from one of the host with the same number.
            "pid_namespace": _target("/proc/self/ns/pid")}
        part = {"rate": 0, "elapsed": 0, "remaining": 0, "total": 0}
        self.progress_data = {
            "metadata": self.metadata, "status": "RUNNING", "end_time": None, "error_message": None,
            "state": {"phase": None, "epoch": 0, "batch": 0, "total_epochs": 0, "total_batches": 0},
            "timing": {"epoch_start": None, "validation_start": None},
            "estimates": {
                "run": dict(part), "epoch": dict(part, durations=[]), "training": dict(part, durations=[]),
                "validation": dict(part, durations=[]), "dataset_ratio": None},
            "metrics": {"loss": None, "learning_rate": None, "samples_processed": 0}}  # type: Dict[str, Any]
        self.tracked_variables = {}  # type: Dict[str, Any]
        self._general_callbacks = []  # type: List[OnChange]
        self._callbacks = {}  # type: Dict[str, List[OnChange]]
        self._changes = {}  # type: Dict[str, Change]
        self._control_thread = None  # type: Optional[threading.Thread]
        self._control_stopped = _Wake()
        self._is_closed = False
        self._write_now()
        self._write_control({})
        self._writer = threading.Thread(target=self._write_when_dirty, name="gtop progress", daemon=True)
        self._writer.start()
        self._handlers = {}  # type: Dict[int, Any]
        self._handle_signals()
        atexit.register(self.shutdown)

    # ---- phases

    def set_dataset_sizes(self, train_size: int, val_size: int) -> None:
        """Tells how many samples there are, from which the time of the first validation is estimated."""
        with self._changed():
            self.progress_data["estimates"]["dataset_ratio"] = val_size / train_size if train_size > 0 else None

    def start_epoch(self, epoch: int, total_batches: int, total_epochs: Optional[int] = None) -> None:
        """Begins an epoch, counted from 0."""
        with self._changed():
            state = self.progress_data["state"]
            state.update(epoch=epoch, batch=0, total_batches=total_batches, total_epochs=total_epochs)
            for name in ("validation_batch", "total_validation_batches"):
                state.pop(name, None)
            self._told = {}
            for name in ("training", "validation"):
                self.progress_data["estimates"][name].update(rate=0, elapsed=0, remaining=0, total=0)
            self._start("epoch")

    def end_epoch(self) -> None:
        """Ends the epoch, and the training or validation that still runs."""
        with self._changed():
            self._end("training")
            self._end("validation")
            self._end("epoch")

    def start_phase(self, phase: str, total_batches: Optional[int] = None) -> None:
        """Begins a phase, such as `loading`, `training` or `validation`; the one before ends.

        Batches of a validation are counted by themselves; `total_batches` tells how many it has.
        """
        with self._changed():
            self._end_phase()
            name = phase.lower()
            self.progress_data["state"]["phase"] = name
            if name in ("training", "validation"):
                self._start(name)
            if name == "validation":
                self._count_validation(total_batches)

    def end_phase(self) -> None:
        """Ends the phase."""
        with self._changed():
            self._end_phase()
            self.progress_data["state"]["phase"] = None

    def start_training(self) -> None:
        """Begins the training part of an epoch."""
        with self._changed():
            self._start("training")

    def end_training(self) -> None:
        """Ends the training part of an epoch."""
        with self._changed():
            self._end("training")

    def start_validation(self, total_batches: Optional[int] = None) -> None:
        """Begins the validation part of an epoch, of so many batches."""
        with self._changed():
            self._start("validation")
            self._count_validation(total_batches)

    def end_validation(self) -> None:
        """Ends the validation part of an epoch."""
        with self._changed():
            self._end("validation")

    def start_batch(self) -> None:
        """Counts a batch: of the validation while that runs, and otherwise of the epoch."""
        with self._changed():
            state, never = self.progress_data["state"], -math.inf
            is_validating = self._clock.get("validation", never) > self._clock.get("training", never)
            name = "validation_batch" if is_validating else "batch"
            state[name] = state.get(name, 0) + 1

    def _count_validation(self, total_batches: Optional[int]) -> None:
        """Counts the batches of a validation from 0. Beyond ttop, which counts on."""
        self.progress_data["state"]["validation_batch"] = 0
        if total_batches:
            self.progress_data["state"]["total_validation_batches"] = total_batches

    def _end_phase(self) -> None:
        phase = self.progress_data["state"]["phase"]
        if phase in ("training", "validation"):
            self._end(phase)

    def _start(self, name: str) -> None:
        self._clock[name] = time.monotonic()
        self._first_batch.pop(name, None)
        self.progress_data["timing"][name + "_start"] = time.time()

    def _end(self, name: str) -> None:
        started = self._clock.pop(name, None)
        if started is not None:
            self.progress_data["timing"].pop(name + "_start", None)
            self.progress_data["estimates"][name]["durations"].append(time.monotonic() - started)

    # ---- metrics and estimates

    def update_metrics(self, loss: Any = None, learning_rate: Any = None, samples_processed: Any = None,
                       **more: Any) -> None:
        """Sets metrics; those of other names become columns. What is None stays as it is."""
        more.update(loss=loss, learning_rate=learning_rate, samples_processed=samples_processed)
        with self._changed():
            self.progress_data["metrics"].update((name, _plain(value)) for name, value in more.items() if value is not None)

    def update_tqdm_stats(self, rate: Optional[float], elapsed: float, remaining: Optional[float]) -> None:
        """Tells what a progress bar shows of the current phase: iterations per second, and seconds.

        Without it, they follow from the number of batches.
        """
        with self._changed():
            name = self.progress_data["state"]["phase"]
            if name in ("training", "validation"):
                self._told[name] = (rate or 0, max(0.0, elapsed), max(0.0, remaining or 0))

    def update_time_estimates(self) -> None:
        """Estimates anew; this happens at every write anyway."""
        with self._changed():
            pass

    def _estimate(self) -> None:
        estimates, state = self.progress_data["estimates"], self.progress_data["state"]
        now = time.monotonic()
        totals = []
        for name in ("training", "validation"):
            part = estimates[name]
            if name in self._clock or name in self._told:
                part.update(self._part(name, now))
            elif name in estimates and part["durations"] and "epoch" in self._clock and part["elapsed"]:
                # It has ended in this epoch.
                part.update(elapsed=part["durations"][-1], remaining=0, total=part["durations"][-1])
            durations = part["durations"]
            expected = sum(durations) / len(durations) if durations else None
            totals.append(part["total"] or expected)
        training, validation = totals
        if validation is None and training is not None and estimates["dataset_ratio"] is not None:
            validation = training * estimates["dataset_ratio"]
        elapsed = now - self._clock["epoch"] if "epoch" in self._clock else 0.0
        known = None if training is None else training + (validation or 0)
        epoch = estimates["epoch"]
        total = None if known is None else max(known, elapsed)
        epoch.update(rate=_ratio(elapsed, total), elapsed=elapsed, total=total,
                     remaining=None if total is None else total - elapsed)
        self._estimate_run(epoch, state["total_epochs"], state["epoch"])

    def _estimate_run(self, epoch: Dict[str, Any], total_epochs: Optional[int], number: int) -> None:
        """Estimates the run: what is left of this epoch, and as many as are left, each as long as the mean."""
        elapsed = time.monotonic() - self._begun
        durations, remaining = epoch["durations"], None
        mean = sum(durations) / len(durations) if durations else epoch["total"]
        if total_epochs and mean is not None:
            is_in_epoch = "epoch" in self._clock
            left = max(0, total_epochs - number - 1)
            current = epoch["remaining"] if epoch["remaining"] is not None else max(0.0, mean - epoch["elapsed"])
            remaining = (current if is_in_epoch else 0.0) + left * mean
        total = None if remaining is None else elapsed + remaining
        self.progress_data["estimates"]["run"].update(
            rate=_ratio(elapsed, total), elapsed=elapsed, remaining=remaining, total=total)

    def _part(self, name: str, now: float) -> Dict[str, Any]:
        """Returns rate, elapsed, remaining and total of training or validation that runs."""
        if name in self._told:
            rate, elapsed, remaining = self._told[name]
            return {"rate": rate, "elapsed": elapsed, "remaining": remaining, "total": elapsed + remaining}
        state, prefix = self.progress_data["state"], "" if name == "training" else "validation_"
        elapsed = now - self._clock[name]
        done, total = state.get(prefix + "batch", 0), state.get("total_%sbatches" % prefix)
        if done:
            self._first_batch.setdefault(name, (now, 1) if done == 1 else (self._clock[name], 0))
        since, first = self._first_batch.get(name, (now, done))
        rate = (done - first) / (now - since) if now > since else 0
        if not rate or not total:
            return {"rate": rate, "elapsed": elapsed, "remaining": None, "total": None}
        left = max(0, total - done) / rate
        return {"rate": rate, "elapsed": elapsed, "remaining": left, "total": elapsed + left}

    # ---- the end

    def set_finished(self) -> None:
        """Sets the state FINISHED."""
        self._finish("FINISHED", None)

    def set_failed(self, error_message: Any) -> None:
        """Sets the state FAILED, with the reason."""
        self._finish("FAILED", str(error_message))

    def set_canceled(self) -> None:
        """Sets the state CANCELED."""
        self._finish("CANCELED", None)

    def _finish(self, status: str, message: Optional[str]) -> None:
        with self._lock:
            self.progress_data.update(status=status, end_time=time.time(), error_message=message)
            self._write_now()

    def shutdown(self) -> None:
        """Writes what is left to write, and stops. Done at exit too."""
        if os.getpid() != self._pid or self._is_closed:
            return
        self.stop_monitoring()
        self._is_closed = True
        self._dirty.wake()
        self._write_now()
        atexit.unregister(self.shutdown)

    def __enter__(self) -> "TrainingMonitor":
        return self

    def __exit__(self, kind: Any, error: Any, _where: Any) -> None:
        if self.progress_data["status"] == "RUNNING":
            if kind is None:
                self.set_finished()
            elif issubclass(kind, KeyboardInterrupt):
                self.set_canceled()
            else:
                self.set_failed("%s: %s" % (kind.__name__, error))
        self.shutdown()

    # ---- writing

    def _changed(self) -> "_Changed":
        return _Changed(self)

    def _write_when_dirty(self) -> None:
        while not self._is_closed:
            used = self._usage.look() if self.progress_data["status"] == "RUNNING" else None
            if used is not None:
                with self._changed():
                    self.progress_data["resources"] = used
            self._dirty.wait(_RESOURCES_SECONDS)
            with self._lock:
                # After the last write of shutdown() nothing is written.
                if not self._is_closed:
                    self._write_now()
            time.sleep(_WRITE_SECONDS)

    def _write_now(self) -> None:
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._write(self.progress_file, self._latest)

    def _latest(self) -> Dict[str, Any]:
        if self.progress_data["status"] == "RUNNING":
            self._estimate()
        return self.progress_data

    def _write(self, path: str, content: Callable[[], Any]) -> None:
        """Replaces a file of the run. If it cannot, warns once, until it can again."""
        try:
            if not self._has_folder:
                os.makedirs(self.run_folder, exist_ok=True)
                self._has_folder = True
            replace_file(path, content())
            self._failing.discard(path)
        except _FILE_ERRORS as error:
            is_known = bool(self._failing & {path, self.progress_file})
            self._failing.add(path)
            if not is_known:
                warnings.warn("%s is not written: %s" % (path, error), RuntimeWarning, stacklevel=3)

    # ---- signals

    def _handle_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                before = signal.signal(number, self._on_signal)
            except ValueError:
                # Not the main thread.
                return
            self._handlers[number] = before if before is not None else signal.SIG_DFL

    def _on_signal(self, number: int, frame: Any) -> None:
        for one, before in self._handlers.items():
            signal.signal(one, before)
        if os.getpid() != self._pid:
            # A forked worker has the handler too, but its end is not that of the run.
            os.kill(os.getpid(), number)
            return
        state, now = self.progress_data["state"], time.time()
        code = frame.f_code if frame is not None else None
        try:
            replace_file(os.path.join(self.run_folder, "signal.json"), {
                "signal_number": int(number), "signal_name": signal.Signals(number).name, "pid": os.getpid(),
                "ppid": os.getppid(), "timestamp": now,
                "timestamp_readable": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)),
                "hostname": self.metadata["hostname"], "script_name": sys.argv[0], "run_name": self.wandb_run_name,
                "frame_file": getattr(code, "co_filename", None), "frame_function": getattr(code, "co_name", None),
                "frame_line": getattr(frame, "f_lineno", None), "training_phase": state["phase"],
                "epoch": state["epoch"], "batch": state["batch"]})
        except OSError:
            # The state is what counts, and it warns.
            pass
        if self.progress_data["status"] == "RUNNING":
            self.set_canceled()
        self.shutdown()
        raise KeyboardInterrupt

    # ---- variables

    def track_variables(self, variables: Dict[str, Any]) -> None:
        """Lets others change these variables in `control.json`: `is_change` and callbacks tell of changes."""
        with self._lock:
            for name, value in variables.items():
                self.tracked_variables[name] = _plain(value)
            self._write_control(self.tracked_variables)
        self._acknowledge()

    def start_monitoring(self) -> None:
        """Reads `control.json` every second from now on, in a thread."""
        if self._control_thread is None or not self._control_thread.is_alive():
            self._control_stopped = _Wake()
            self._control_thread = threading.Thread(target=self._watch_control, args=(self._control_stopped,),
                                                    name="gtop control", daemon=True)
            self._control_thread.start()

    def stop_monitoring(self) -> None:
        """Stops reading it."""
        self._control_stopped.wake()
        thread, self._control_thread = self._control_thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(2)

    def is_change(self) -> Optional[Dict[str, Change]]:
        """Returns the variables changed since the last call, with old and new values; None if there are none."""
        with self._lock:
            changes, self._changes = self._changes, {}
        return changes or None

    def check_changes(self) -> List[Tuple[str, Any, Any]]:
        """Reads `control.json` now; returns the variables that changed, with old and new values."""
        return [(name, old, new) for name, (old, new) in self._take_changes().items()]

    def register_general_callback(self, callback: OnChange) -> None:
        """Calls `callback(name, old, new)` for each change, in the thread that reads."""
        self._general_callbacks.append(callback)

    def register_callback(self, variable_name: str, callback: OnChange) -> None:
        """The same for one variable."""
        self._callbacks.setdefault(variable_name, []).append(callback)

    @staticmethod
    def should_restart_dataloader(changes: Optional[Dict[str, Change]]) -> bool:
        """Returns true if a change takes effect only with a new data loader: of batch_size or num_workers."""
        return any(name in (changes or ()) for name in _RESTARTING_VARIABLES)

    @classmethod
    def get_change_summary(cls, changes: Optional[Dict[str, Change]]) -> str:
        """Returns the changes as text."""
        lines = ["%s: %r -> %r" % (name, old, new) for name, (old, new) in (changes or {}).items()]
        if cls.should_restart_dataloader(changes):
            lines.append("the data loader must be made anew")
        return "\n".join(lines) or "no changes"

    def _watch_control(self, stopped: "_Wake") -> None:
        while True:
            self._take_changes()
            if stopped.wait(_CONTROL_SECONDS):
                return

    def _take_changes(self) -> Dict[str, Change]:
        wanted = self._read_control()
        with self._lock:
            found = dict((name, (old, wanted[name])) for name, old in self.tracked_variables.items()
                         if name in wanted and not _is_same(old, wanted[name]))
            for name, (old, new) in found.items():
                self.tracked_variables[name] = new
                # Of several changes between two calls, the first old value counts.
                self._changes[name] = (self._changes.get(name, (old, None))[0], new)
        for name, (old, new) in found.items():
            for callback in self._general_callbacks + self._callbacks.get(name, []):
                try:
                    callback(name, old, new)
                except Exception as error:  # pylint: disable=broad-except
                    warnings.warn("a callback of %s failed: %r" % (name, error), RuntimeWarning, stacklevel=2)
        if found:
            self._acknowledge()
        return found

    def _acknowledge(self) -> None:
        """Tells in the progress file which values are in use."""
        with self._changed():
            self.progress_data["acknowledged"] = {"variables": dict(self.tracked_variables), "time": time.time()}

    def _read_control(self) -> Dict[str, Any]:
        try:
            with open(self.control_file) as file:
                found = json.load(file)
        except _FILE_ERRORS:
            # Missing, or half-written: there is nothing to learn from it now.
            return {}
        return found if isinstance(found, dict) else {}

    def _write_control(self, variables: Dict[str, Any]) -> None:
        """Adds variables to `control.json`, and keeps what else is in it."""
        self._write(self.control_file, lambda: dict(self._read_control(), **variables))

    # ---- checkpoints

    def save_checkpoint(self, checkpoint_data: Dict[str, Any]) -> str:
        """Saves an object by torch in the run's folder, in place of the one before; returns the path."""
        torch = importlib.import_module("torch")
        path = os.path.join(self.run_folder, "checkpoint_latest.pth")
        torch.save(checkpoint_data, path + ".tmp")
        os.replace(path + ".tmp", path)
        return path

    def load_checkpoint(self, checkpoint_path: Optional[str] = None) -> Optional[Dict[str, Any]]:
        """Returns the saved object; None if there is none. Raises what torch raises for another file."""
        torch = importlib.import_module("torch")
        path = checkpoint_path or os.path.join(self.run_folder, "checkpoint_latest.pth")
        if not os.path.exists(path):
            return None
        found = torch.load(path)  # type: Dict[str, Any]
        return found


class _Changed:
    """Guards a change of the progress, and has it written."""

    def __init__(self, monitor: TrainingMonitor) -> None:
        self._monitor = monitor

    def __enter__(self) -> None:
        # In a forked worker, a thread that does not exist there may hold the lock.
        if os.getpid() == self._monitor._pid:
            self._monitor._lock.acquire()

    def __exit__(self, *_why: Any) -> None:
        if os.getpid() == self._monitor._pid:
            self._monitor._lock.release()
            self._monitor._dirty.wake()


class _Usage:
    """What this process and all below it use, by /proc; each process with all its threads."""

    def __init__(self) -> None:
        self._looked_at = -math.inf
        self._ticks = {}  # type: Dict[Tuple[int, int], int]

    def look(self) -> Optional[Dict[str, Any]]:
        """Returns it, once in a while; None meanwhile, and where it cannot be known."""
        now = time.monotonic()
        passed = now - self._looked_at
        if passed < _RESOURCES_SECONDS:
            return None
        self._looked_at = now
        try:
            return self._sum(passed)
        except (OSError, ValueError, IndexError):
            return None

    def _sum(self, passed: float) -> Optional[Dict[str, Any]]:
        seen, ticks, rows = [os.getpid()], {}, []  # type: List[int], Dict[Tuple[int, int], int], List[Dict[str, Any]]
        for pid in seen:
            if len(seen) < _MAX_PROCESSES:
                seen.extend(child for child in _children(pid) if child not in seen)
            fields = _stat_fields(pid)
            if fields is None:
                continue
            key = (pid, int(fields[20]))
            ticks[key] = int(fields[12]) + int(fields[13])
            before = self._ticks.get(key)
            share = None if before is None else (ticks[key] - before) / os.sysconf("SC_CLK_TCK") / passed * 100
            rows.append({"pid": pid, "name": fields[0], "threads": int(fields[18]),
                         "cpu_percent": None if share is None else round(share, 1),
                         "ram_mb": round(int(fields[22]) * os.sysconf("SC_PAGE_SIZE") / 1048576, 1)})
        self._ticks = ticks
        if not rows:
            return None
        known = [row["cpu_percent"] for row in rows if row["cpu_percent"] is not None]
        return {"processes": len(rows), "threads": sum(row["threads"] for row in rows),
                "cpu_percent": round(sum(known), 1) if known else None,
                "ram_mb": round(sum(row["ram_mb"] for row in rows), 1), "gpu_mem_mib": _device_memory(),
                "timestamp": time.time(), "process_list": rows}


def _stat_fields(pid: int) -> Optional[List[str]]:
    """Returns the name of a process and the fields behind it, by their numbers in proc(5) less 2."""
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as file:
            head, _, rest = file.read().rpartition(") ")
    except OSError:
        return None
    return [head.partition("(")[2]] + rest.split()


def _children(pid: int) -> List[int]:
    """Returns the processes that a process has started; none where the kernel does not list them."""
    found = []  # type: List[int]
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as file:
                found.extend(int(word) for word in file.read().split())
    except OSError:
        pass
    return found


def _device_memory() -> Optional[float]:
    """Returns the device memory that torch has reserved in this process, in MiB; None without torch on a device."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    try:
        if cuda is None or not cuda.is_initialized():
            return None
        reserved = sum(cuda.memory_reserved(device) for device in range(cuda.device_count()))
        return float(round(reserved / 1048576, 1))
    except Exception:  # pylint: disable=broad-except
        return None


class _Wake:
    """Wakes one thread that waits. Unlike `threading.Event`, whose lock a signal handler would wait for that interrupts
    `set`, the same thread can wake it again at any moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            # It is awake already.
            pass

    def wait(self, seconds: float = -1) -> bool:
        """Waits until `wake` was called since the last time; returns false if the time is over before. -1: no limit."""
        return self._lock.acquire(timeout=seconds)


def _ratio(part: float, total: Optional[float]) -> Optional[float]:
    return None if total is None else min(1.0, part / total) if total > 0 else 0


def _target(link: str) -> Optional[str]:
    try:
        return os.readlink(link)
    except OSError:
        return None
