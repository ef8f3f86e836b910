"""The callbacks of `gtop python`: with Keras on JAX, and without any framework.

    GTOP=path/to/gtop python3 -m unittest -v test_callbacks

Keras comes from PyPI; without a network, its test is skipped with a message.
"""

import csv
import os
import subprocess
import sys
import unittest

import rig
from rig import Machine
from scenarios import DRIVER
from test_python import BEGIN, module_folder

KERAS = os.path.join(os.path.dirname(rig.CLIENTS), "keras")
DEVICES = DRIVER + "gpu 0 util=90 memutil=50 used_mib=40000 temp=61 fan=30\ngpu 1 util=3 used_mib=100\n"

TRAIN = """
os.environ.update(KERAS_BACKEND="jax", JAX_PLATFORMS="cpu")
import keras, numpy
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(loss="mse")
logger = KerasGpuStatsLogger(["/gpu:0"], intra_step_time=True, inter_step_time=True, temperature=True, fan_speed=True)
assert isinstance(logger, keras.callbacks.Callback) and isinstance(logger, KerasGpuStatsLogger)
seen = []
class See(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(dict(logs))
model.fit(numpy.zeros((32, 4)), numpy.zeros((32, 1)), batch_size=8, epochs=2, verbose=0,
          callbacks=[logger, See(), keras.callbacks.CSVLogger(sys.argv[1])])
assert len(seen) == 8 and all(one["gpu_id: 0/memory.used (MiB)"] == 40000 for one in seen), seen
"""

# A framework of which there is nothing but a base class.
FAKE = """
import math, pickle, types
class Callback:
    def __init__(self):
        self.is_made = True
module = types.ModuleType("keras")
module.callbacks = types.ModuleType("keras.callbacks")
module.callbacks.Callback = Callback
sys.modules.update({"keras": module, "keras.callbacks": module.callbacks})
"""


class Callbacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = module_folder()

    def run_on(self, machine, code, *words, python=sys.executable):
        done = machine.run(python, "-c", BEGIN + code, *words, seconds=600)
        self.assertIsNotNone(done, "hangs")
        self.assertEqual(done[0], 0, done[2])
        return done[1]

    def machine(self, scenario=DEVICES, **environment):
        return Machine(scenario, **{"GTOP": rig.GTOP, "PYTHONPATH": self.folder, **environment})

    def test_keras_on_jax_logs_to_csv(self):
        if not os.path.exists(os.path.join(KERAS, "installed")):
            subprocess.run([sys.executable, "-m", "venv", KERAS], check=True)
            done = subprocess.run([os.path.join(KERAS, "bin", "pip"), "-q", "install", "keras", "jax"], check=False)
            if done.returncode:
                self.skipTest("no keras: PyPI is out of reach")
            with open(os.path.join(KERAS, "installed"), "w"):
                pass
        path = os.path.join(rig.folder(), "log.csv")
        self.run_on(self.machine(), TRAIN, path, python=os.path.join(KERAS, "bin", "python"))
        with open(path) as file:
            epochs = list(csv.DictReader(file))
        self.assertEqual(len(epochs), 2)
        for epoch in epochs:
            known = {key: float(value) for key, value in epoch.items() if key.startswith("gpu_id")}
            self.assertEqual(known, {
                "gpu_id: 0/utilization.gpu (%)": 90, "gpu_id: 0/utilization.memory (%)": 50,
                "gpu_id: 0/memory.used (MiB)": 40000, "gpu_id: 0/memory.free (MiB)": 40959,
                "gpu_id: 0/fan.speed (%)": 30, "gpu_id: 0/temperature.gpu (C)": 61})
            self.assertGreater(float(epoch["batch_time/intra_step (ms)"]), 0)
            self.assertGreater(float(epoch["batch_time/inter_step (ms)"]), 0)

    def test_gpus_are_named_in_all_forms(self):
        self.run_on(self.machine(CUDA_VISIBLE_DEVICES="1,0"), FAKE + """
for gpus, wanted in ((["/gpu:0"], [0]), (["/gpu:0", "/gpu:1"], [0, 1]), ([1, 0, 1], [0, 1]), (2, [0, 1]), ((1,), [1]),
                     (["/device:GPU:1"], [1]), (["cuda:0"], [0]), (["1"], [1]), (0, [])):
    logger = KerasGpuStatsLogger(gpus)
    assert [gpu.cuda_index for gpu in logger._gpus] == wanted, gpus
    assert isinstance(logger, Callback) and logger.is_made
assert sorted(KerasGpuStatsLogger([0]).gpu_stats()) == sorted("gpu_id: 0 (physical index: 1)/" + name for name in (
    "memory.free (MiB)", "memory.used (MiB)", "utilization.gpu (%)", "utilization.memory (%)"))
for gpus in (["/gpu:2"], [7], 3, "two", ["cpu:0"], None, -1, [None]):
    try:
        KerasGpuStatsLogger(gpus)
    except ValueError as error:
        assert "GPUs" in str(error), error
    else:
        raise AssertionError(gpus)
""")

    def test_pickled_and_a_device_that_is_lost(self):
        machine = self.machine()
        path = machine.state
        self.run_on(machine, FAKE + """
logger = pickle.loads(pickle.dumps(KerasGpuStatsLogger([0, 1], fan_speed=True)))
assert isinstance(logger, Callback) and isinstance(logger, KerasGpuStatsLogger)
logs = {}
logger.on_epoch_begin(0)
logger.on_train_batch_begin(0, logs)
assert logs["gpu_id: 0/fan.speed (%)"] == 30 and "gpu_id: 1/fan.speed (%)" not in logs, logs
assert logs["gpu_id: 1/utilization.gpu (%)"] == 3
with open(sys.argv[1]) as file:
    text = file.read()
with open(sys.argv[1] + ".lost", "w") as file:
    file.write(text.replace("gpu 1 util=3 used_mib=100", "gpu 1 lost"))
os.replace(sys.argv[1] + ".lost", sys.argv[1])
def is_left_out():
    logs = {}
    logger.on_train_batch_end(0, logs)
    assert logs["gpu_id: 0/memory.used (MiB)"] == 40000
    return "gpu_id: 1/utilization.gpu (%)" not in logs
wait_until(is_left_out)
logger.on_epoch_begin(1)
logger.on_train_batch_end(0, {})
logger.on_epoch_end(1, logs)
assert math.isnan(logs["gpu_id: 1/utilization.gpu (%)"]) and logs["gpu_id: 0/utilization.gpu (%)"] == 90
gtop_monitor.stream().close()
os.environ["GTOP"] = "/nonexistent"
logs = {}
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for _ in range(3):
        logger.on_train_batch_end(0, logs)
assert logs == {} and len(warned) == 1 and "was not found" in str(warned[0].message), (logs, warned)
""", path)

    def test_without_the_framework_or_gtop(self):
        self.run_on(self.machine(), """
for name in ("keras", "tensorflow", "tf_keras", "lightning", "pytorch_lightning", "transformers"):
    sys.modules[name] = None
for kind, said in ((KerasGpuStatsLogger, "pip install keras"), (LightningGpuStatsLogger, "pip install lightning"),
                   (TransformersGpuStatsLogger, "pip install transformers")):
    try:
        kind([0])
    except ImportError as error:
        assert said in str(error), error
    else:
        raise AssertionError(kind)
""" )
        self.run_on(self.machine(GTOP="/nonexistent/gtop"), FAKE + """
try:
    KerasGpuStatsLogger([0])
except GtopError as error:
    assert "was not found" in str(error)
else:
    raise AssertionError
""")
