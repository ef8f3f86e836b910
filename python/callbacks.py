"""Callbacks that log device metrics while a model is trained: for Keras, Lightning and transformers."""

import importlib
import math
import re
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .device import CudaDevice, DeviceNotFound
from .stream import stream
from .values import MiB

Gpus = Union[int, Sequence[Union[int, str]]]

_GPU_NAME = re.compile(r"/?(?:\w*device:)?(?:gpu|cuda):(\d+)|(\d+)", re.IGNORECASE)


class GpuStats:
    """The metrics of devices and the times of steps; keys and arguments are those of nvitop's callbacks.

    `gpu_id: 0/utilization.gpu (%)`, `utilization.memory (%)`, `memory.used (MiB)`, `memory.free (MiB)`,
    `fan.speed (%)` and `temperature.gpu (C)` of the device with CUDA index 0, and `batch_time/intra_step (ms)` and
    `batch_time/inter_step (ms)`. What is not known is left out. Nothing here waits for a device, or raises.
    """

    # Subclasses name the class they extend, by module and name, and what to install.
    _BASES = ()  # type: Tuple[Tuple[str, str], ...]
    _PACKAGE = ""

    def __new__(cls, *_words: Any, **_options: Any) -> Any:
        if not cls._BASES or "_framework" in cls.__dict__:
            return object.__new__(cls)
        return object.__new__(_extended(cls))

    def __init__(self, memory_utilization: bool = True, gpu_utilization: bool = True, intra_step_time: bool = False,
                 inter_step_time: bool = False, fan_speed: bool = False, temperature: bool = False) -> None:
        super().__init__()
        # Raises GtopError now rather than at the first step.
        stream().view()
        self._wanted = (memory_utilization, gpu_utilization, fan_speed, temperature)
        self._times = (intra_step_time, inter_step_time)
        self._gpus = []  # type: List[CudaDevice]
        self._began = self._ended = None  # type: Optional[float]

    def gpu_stats(self) -> Dict[str, float]:
        """Returns the metrics of the latest sample."""
        memory, gpu, fan, temperature = self._wanted
        found = {}  # type: Dict[str, Any]
        for device in self._gpus:
            prefix = "gpu_id: %d" % device.cuda_index
            if device.cuda_index != device.physical_index:
                prefix += " (physical index: %d)" % device.physical_index
            with device.oneshot():
                rates, sizes = device.utilization_rates(), device.memory_info()
                if memory:
                    found[prefix + "/utilization.memory (%)"] = rates.memory
                if gpu:
                    found[prefix + "/utilization.gpu (%)"] = rates.gpu
                if memory:
                    found[prefix + "/memory.used (MiB)"] = sizes.used / MiB
                    found[prefix + "/memory.free (MiB)"] = sizes.free / MiB
                if fan:
                    found[prefix + "/fan.speed (%)"] = device.fan_speed()
                if temperature:
                    found[prefix + "/temperature.gpu (C)"] = device.temperature()
        return dict((key, float(value)) for key, value in found.items() if not math.isnan(float(value)))

    def _choose(self, gpus: Sequence[int]) -> None:
        try:
            self._gpus = CudaDevice.from_indices(sorted(set(gpus)))
        except DeviceNotFound as error:
            raise ValueError("cannot log the metrics of GPUs %s: %s" % (list(gpus), error)) from error

    def _begin_epoch(self) -> None:
        self._began = self._ended = None

    def _begin_step(self) -> Dict[str, float]:
        """Returns what to log at the begin of a step."""
        logs = self.gpu_stats()
        self._began = time.monotonic()
        if self._times[1] and self._ended is not None:
            logs["batch_time/inter_step (ms)"] = 1000 * (self._began - self._ended)
        return logs

    def _end_step(self) -> Dict[str, float]:
        """Returns what to log at the end of a step."""
        logs = self.gpu_stats()
        self._ended = time.monotonic()
        if self._times[0] and self._began is not None:
            logs["batch_time/intra_step (ms)"] = 1000 * (self._ended - self._began)
        return logs

    def __reduce__(self) -> Any:
        # The class that extends a framework's is made when it is needed, so it has no name to be found by.
        kind = next(one for one in type(self).__mro__ if "_BASES" in one.__dict__)
        return _remade, (kind, self.__dict__)


_extensions = {}  # type: Dict[Any, Any]


def _extended(kind: Any) -> Any:
    """Returns the class with the framework's as its base. Raises ImportError if the framework is not installed."""
    if kind not in _extensions:
        for module, name in kind._BASES:
            try:
                base = getattr(importlib.import_module(module), name)
            except ImportError:
                continue
            _extensions[kind] = type(kind.__name__, (kind, base), {"_framework": module, "__doc__": kind.__doc__})
            break
        else:
            raise ImportError("%s needs %s" % (kind.__name__, kind._PACKAGE))
    return _extensions[kind]


def _remade(kind: Any, values: Dict[str, Any]) -> Any:
    made = kind.__new__(kind)
    made.__dict__.update(values)
    return made


def gpu_indices(gpus: Gpus) -> List[int]:
    """Returns the CUDA indices in `['/gpu:0', '/gpu:1']`, `[0, 1]` or a count. Raises ValueError."""
    if isinstance(gpus, int) and gpus >= 0:
        return list(range(gpus))
    if isinstance(gpus, (list, tuple)):
        found = [_GPU_NAME.fullmatch(str(gpu)) for gpu in gpus]
        numbers = [match.group(1) or match.group(2) for match in found if match is not None]
        if len(numbers) == len(gpus):
            return sorted(set(map(int, numbers)))
    raise ValueError("not GPUs: %r; write ['/gpu:0', '/gpu:1'], [0, 1] or their number" % (gpus,))


class KerasGpuStatsLogger(GpuStats):
    """Adds device metrics to the logs of Keras; place it before TensorBoard and CSVLogger:

        model.fit(..., callbacks=[KerasGpuStatsLogger(["/gpu:0"]), keras.callbacks.CSVLogger("log.csv")])

    Logs of a step have its latest sample; logs of an epoch the means over its steps, NaN if nothing is known.

    Raises ValueError if there are no such devices, GtopError without gtop, ImportError without Keras.
    """

    _BASES = (("keras.callbacks", "Callback"), ("tensorflow.keras.callbacks", "Callback"),
              ("tf_keras.callbacks", "Callback"))
    _PACKAGE = "Keras: pip install keras"

    def __init__(self, gpus: Gpus, memory_utilization: bool = True, gpu_utilization: bool = True,
                 intra_step_time: bool = False, inter_step_time: bool = False, fan_speed: bool = False,
                 temperature: bool = False) -> None:
        super().__init__(memory_utilization, gpu_utilization, intra_step_time, inter_step_time, fan_speed, temperature)
        self._choose(gpu_indices(gpus))
        self._sums = {}  # type: Dict[str, Tuple[float, int]]
        self._keys = set(self.gpu_stats())

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._begin_epoch()
        self._sums = {}

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._log(self._begin_step(), logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Called by Keras."""
        self._log(self._end_step(), logs)

    def _log(self, metrics: Dict[str, float], logs: Any) -> None:
        if logs is not None:
            logs.update(metrics)
        for key, value in metrics.items():
            total, count = self._sums.get(key, (0.0, 0))
            self._sums[key] = total + value, count + 1
        self._keys.update(metrics)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Called by Keras."""
        if logs is not None:
            # CSVLogger has the columns of the first epoch: the same keys in all.
            for key in self._keys:
                total, count = self._sums.get(key, (math.nan, 1))
                logs[key] = total / count


class LightningGpuStatsLogger(GpuStats):
    """Logs device metrics to the loggers of Lightning's trainer, at the begin and end of the steps that it logs:

        Trainer(accelerator="gpu", callbacks=[LightningGpuStatsLogger()])

    `gpus`: CUDA indices; default: the devices of the trainer.

    Raises ValueError if the trainer has no GPU or no logger, GtopError without gtop, ImportError without Lightning.
    """

    _BASES = (("lightning.pytorch", "Callback"), ("pytorch_lightning", "Callback"))
    _PACKAGE = "Lightning: pip install lightning"

    def __init__(self, memory_utilization: bool = True, gpu_utilization: bool = True, intra_step_time: bool = False,
                 inter_step_time: bool = False, fan_speed: bool = False, temperature: bool = False,
                 gpus: Optional[Gpus] = None) -> None:
        super().__init__(memory_utilization, gpu_utilization, intra_step_time, inter_step_time, fan_speed, temperature)
        self._chosen = None if gpus is None else gpu_indices(gpus)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        if not trainer.loggers:
            raise ValueError("LightningGpuStatsLogger needs a logger: Trainer(logger=True)")
        root = trainer.strategy.root_device
        if self._chosen is None and root.type != "cuda":
            raise ValueError("the trainer runs on %s: LightningGpuStatsLogger(gpus=[0]) logs a GPU nevertheless" % root.type)
        self._choose(trainer.device_ids if self._chosen is None else self._chosen)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Called by Lightning."""
        self._begin_epoch()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Called by Lightning."""
        self._log(trainer, self._begin_step(), trainer.global_step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Called by Lightning, after it has counted the step."""
        self._log(trainer, self._end_step(), trainer.global_step - 1)

    @staticmethod
    def _log(trainer: Any, metrics: Dict[str, float], step: int) -> None:
        every = trainer.log_every_n_steps
        if trainer.is_global_zero and metrics and every and (step + 1) % every == 0:
            for logger in trainer.loggers:
                logger.log_metrics(metrics, step=step)


class TransformersGpuStatsLogger(GpuStats):
    """Adds device metrics to what the Trainer of transformers logs, for all trackers if it is attached:

        trainer = Trainer(...)
        TransformersGpuStatsLogger().attach(trainer)

    Among the `callbacks` of the Trainer, it comes after the trackers, and only `log_history` and the printed logs have
    the metrics. `gpus`: CUDA indices; default: the devices of the Trainer.

    Raises ValueError if the Trainer has no GPU, GtopError without gtop, ImportError without transformers.
    """

    _BASES = (("transformers", "TrainerCallback"),)
    _PACKAGE = "transformers: pip install transformers"

    def __init__(self, memory_utilization: bool = True, gpu_utilization: bool = True, intra_step_time: bool = False,
                 inter_step_time: bool = False, fan_speed: bool = False, temperature: bool = False,
                 gpus: Optional[Gpus] = None) -> None:
        super().__init__(memory_utilization, gpu_utilization, intra_step_time, inter_step_time, fan_speed, temperature)
        self._chosen = None if gpus is None else gpu_indices(gpus)
        self._latest_logs = {}  # type: Dict[str, float]

    def attach(self, trainer: Any) -> "TransformersGpuStatsLogger":
        """Makes it the first callback of a Trainer."""
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Called by the Trainer."""
        self._begin_epoch()
        if self._chosen is not None:
            self._choose(self._chosen)
        elif args.device.type != "cuda":
            raise ValueError("the Trainer runs on %s: TransformersGpuStatsLogger(gpus=[0]) logs a GPU nevertheless"
                             % args.device.type)
        else:
            self._choose(list(range(args.n_gpu)) if args.n_gpu > 1 else [args.device.index or 0])

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Called by the Trainer."""
        self._begin_epoch()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Called by the Trainer."""
        self._latest_logs = self._begin_step()

    def on_step_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:
        """Called by the Trainer."""
        self._latest_logs.update(self._end_step())

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_more: Any) -> None:
        """Called by the Trainer."""
        if logs is not None and state.is_world_process_zero:
            logs.update(self._latest_logs)
            if state.log_history:
                state.log_history[-1].update(self._latest_logs)
            self._latest_logs = {}
