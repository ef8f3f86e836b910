#!/usr/bin/env python3
"""A stub of the metrics service that a TPU's runtime serves, for tests and by hand; needs grpcio.

    tpu_metrics.py --ports 8431 --chips 4 --ids 8,9,12,13
    tpu_metrics.py --ports 8431,8432,8433,8434 --chips 4 --ids 8,9,12,13      one process per chip: each port has one device
    tpu_metrics.py --ports 8431 --chips 4 --cores 2                           v2, v3: memory by core, load by chip
    tpu_metrics.py --ports 8431 --chips 4 --cores 2 --load-by-core            v7x: both by core
    tpu_metrics.py --ports 8431 --fault html                                  no gRPC at all; needs no grpcio

Device number n of the machine (0, 1, 2, … in the order of the ids) has --used + n bytes of --total in use, a load of
--load + n percent, --bandwidth + n percent of its memory's bandwidth, n programs waiting, and idles for n + 0.5 seconds.
Prints `up` when the ports are open, and each request with --log-requests. Exits at the end of its standard input if that
is a pipe.
Messages are encoded by hand as in the service's protocol, without generated code or a compiler.
"""

import argparse
import os
import socket
import struct
import sys
import threading
import time

SERVICE = "tpu.monitoring.runtime.RuntimeMetricService"
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
USED = "tpu.runtime.hbm.memory.usage.bytes"
LOAD = "tpu.runtime.tensorcore.dutycycle.percent"
BANDWIDTH = "tpu.runtime.hbm.utilization.percent"
IDLE = "tpu.runtime.tensorcore.idle_duration.seconds"
QUEUE = "hlo.queue.size.gauge"
UPTIME = "tpu.runtime.uptime.seconds.gauge"
SLICE = "slice.error.detected.gauge"
MEGASCALE = "megascale.error.detected.gauge"
ALL = (TOTAL, USED, LOAD, BANDWIDTH, IDLE, QUEUE, UPTIME, SLICE, MEGASCALE)
FAULTS = ("html", "garbage", "silent", "huge-frame", "huge-reply", "endless", "reset", "goaway", "dies")


def varint(number):
    out = b""
    number &= (1 << 64) - 1
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """One field of a message: text, bytes of a nested message, a whole number or a float."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def attribute(key, value):
    """Attribute{1 key, 2 AttrValue}; a dict becomes a list of attributes."""
    if isinstance(value, dict):
        inner = field(6, b"".join(field(1, attribute(k, v)) for k, v in value.items()))
    else:
        inner = field(1 if isinstance(value, str) else 3, value)
    return field(1, key) + field(2, inner)


def metric(label, number):
    """Metric{1 attribute, 2 timestamp, 3 gauge{1 double, 2 int64}}."""
    gauge = field(1 if isinstance(number, float) else 2, number)
    stamp = field(1, int(time.time()))
    return (field(1, label) if label else b"") + field(2, stamp) + field(3, gauge)


def response(name, metrics):
    return field(1, field(1, name) + field(2, "a metric") + b"".join(field(3, one) for one in metrics))


class Machine:
    """All devices of the machine, and those that each port reports."""

    def __init__(self, options):
        self.options = options
        self.devices = options.chips * options.cores
        self.ids = options.ids or list(range(self.devices))

    def of_port(self, port_index):
        """(number on this machine, id) of each device of a port: an equal share, or all devices with --aggregate."""
        every = list(enumerate(self.ids))
        if self.options.aggregate:
            return every
        each = -(-len(every) // len(self.options.ports))
        return every[port_index * each:(port_index + 1) * each]

    def reply(self, name, port_index):
        """Returns the message for a metric; None for an unknown name."""
        options = self.options
        devices = self.of_port(port_index)
        ids = [(number, attribute("device-id", identity)) for number, identity in devices]
        if name in options.without:
            return None
        if name == TOTAL:
            return response(name, [metric(label, options.total) for _, label in ids])
        if name == USED:
            return response(name, [metric(label, options.used + number) for number, label in ids])
        if name == LOAD:
            chips = ids if options.load_by_core else [
                (number, attribute("device-id", number)) for number in sorted(set(n // options.cores for n, _ in devices))]
            if options.cores == 1:
                chips = ids
            return response(name, [metric(label, options.load + float(number)) for number, label in chips])
        if name == BANDWIDTH:
            return response(name, [metric(label, options.bandwidth + float(number)) for number, label in ids])
        if name == IDLE:
            return response(name, [metric(label, number + 0.5) for number, label in ids])
        if name == QUEUE:
            kind = str if options.new_ordinals else int
            return response(name, [
                metric(attribute("", {"device_ordinal": kind(rank), "core_type": "tensor_core"}), number)
                for rank, (number, _) in enumerate(devices)])
        if name == UPTIME:
            attributes = {"ml_framework_name": "jax", "ml_framework_version": "0.7.1"}
            return response(name, [metric(attribute("framework", attributes), 3600)])
        if name == SLICE:
            attributes = {"error_message": options.slice_error or "", "session_id": "1", "type": "", "topology": "2x2"}
            return response(name, [metric(attribute("error", attributes), 1 if options.slice_error else 0)])
        if name == MEGASCALE and options.megascale_error:
            return response(name, [metric(attribute("error", {"error_type": options.megascale_error}), 1)])
        return None

    def names(self):
        return b"".join(field(1, field(1, name)) for name in ALL if name not in self.options.without)


def metric_name(request):
    """Returns the first field of a MetricRequest, the name."""
    return request[2:2 + request[1]].decode("ascii", "replace") if request[:1] == b"\x0a" else ""


def serve(options):
    """Real gRPC servers on all ports."""
    import grpc
    from concurrent import futures
    machine, servers = Machine(options), []
    for port_index, port in enumerate(options.ports):
        def metric_of(request, context, port_index=port_index):
            name = metric_name(request)
            if options.log_requests:
                print("get", name, flush=True)
            if name in options.hang:
                time.sleep(3600)
            reply = machine.reply(name, port_index)
            if reply is None:
                context.abort(grpc.StatusCode.NOT_FOUND, "unknown metric " + name)
            return reply

        def names(_request, context):
            if options.log_requests:
                print("list", flush=True)
            if options.old:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
            return machine.names()
        methods = {"GetRuntimeMetric": metric_of, "ListSupportedMetrics": names}
        handlers = {name: grpc.unary_unary_rpc_method_handler(call) for name, call in methods.items()}
        server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        if server.add_insecure_port("127.0.0.1:%d" % port) != port:
            sys.exit("port %d is taken" % port)
        server.start()
        servers.append(server)
    return servers


def frame(kind, flags, stream, body):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def misbehave(options, connection):
    """Serves one connection with the fault."""
    fault = options.fault
    with connection:
        connection.recv(65536)
        settings = frame(4, 0, 0, b"")
        if fault == "html":
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>\x1b[31mno</html>")
        elif fault == "garbage":
            connection.sendall(bytes(range(256)) * 64)
        elif fault == "silent":
            time.sleep(3600)
        elif fault == "huge-frame":
            connection.sendall(settings + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 100000)
        elif fault == "huge-reply":
            body = b"\0" + (1 << 31).to_bytes(4, "big") + b"x" * 10000
            connection.sendall(settings + b"".join(frame(0, 0, stream, body) for stream in range(1, 21, 2)))
            connection.recv(65536)
        elif fault == "endless":
            try:
                while True:
                    connection.sendall(settings * 1000)
            except OSError:
                pass
        elif fault == "reset":
            connection.sendall(settings + b"".join(frame(3, 0, stream, b"\0\0\0\2") for stream in range(1, 41, 2)))
            time.sleep(3600)
        elif fault == "goaway":
            connection.sendall(settings + frame(7, 0, 0, b"\0" * 8))
            time.sleep(3600)
        elif fault == "dies":
            connection.sendall(settings + frame(0, 0, 1, b"\0\0\0\0\x20half of it"))
            os._exit(0)


def serve_fault(options):
    """Servers with a fault on all ports, without gRPC."""
    def accept(listener):
        while True:
            connection = listener.accept()[0]
            threading.Thread(target=misbehave, args=(options, connection), daemon=True).start()
    for port in options.ports:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        threading.Thread(target=accept, args=(listener,), daemon=True).start()


def parse_numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ports", type=parse_numbers, default=[8431], metavar="P,…", help="default 8431")
    parser.add_argument("--chips", type=int, default=4, help="chips of the machine; default 4")
    parser.add_argument("--cores", type=int, default=1, help="devices per chip; default 1")
    parser.add_argument("--ids", type=parse_numbers, metavar="N,…", help="the devices' numbers in the slice; default 0, 1, …")
    parser.add_argument("--aggregate", action="store_true", help="every port reports every device")
    parser.add_argument("--load-by-core", action="store_true", help="load per core instead of per chip")
    parser.add_argument("--used", type=int, default=1 << 30, metavar="BYTES")
    parser.add_argument("--total", type=int, default=17044078592, metavar="BYTES")
    parser.add_argument("--load", type=float, default=50.0, metavar="PERCENT")
    parser.add_argument("--bandwidth", type=float, default=20.0, metavar="PERCENT")
    parser.add_argument("--slice-error", metavar="TEXT")
    parser.add_argument("--megascale-error", metavar="TEXT")
    parser.add_argument("--new-ordinals", action="store_true", help="ordinals as text, as newer runtimes write them")
    parser.add_argument("--old", action="store_true", help="cannot list the supported metrics")
    parser.add_argument("--without", default="", help="metrics that it does not have", type=lambda text: text.split(","))
    parser.add_argument("--hang", default="", help="metrics that it never answers", type=lambda text: text.split(","))
    parser.add_argument("--fault", choices=FAULTS, help="no gRPC, or an error in the middle of it")
    parser.add_argument("--log-requests", action="store_true", help="print each request")
    options = parser.parse_args()
    servers = serve_fault(options) if options.fault else serve(options)
    print("up", flush=True)
    if not sys.stdin.isatty():
        sys.stdin.read()
        os._exit(0)
    threading.Event().wait()
    del servers


if __name__ == "__main__":
    main()
