"""Records of this machine's own sensors and connections, without root, and without what is not there.

    sensors      {"ts", "host", "sensor", "part", "value", "unit"}: one record per sensor and part
    connections  {"ts", "host", "proto", "status", "src", "src_port", "dst", "dst_port", "process"}: one per socket

Times are microseconds UTC; what is not known is left out. Rates (bytes a second) are since the sample before.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psutil

Record = dict[str, Any]
_KINDS = {
    (socket.AF_INET, socket.SOCK_STREAM): "tcp",
    (socket.AF_INET6, socket.SOCK_STREAM): "tcp",
    (socket.AF_INET, socket.SOCK_DGRAM): "udp",
    (socket.AF_INET6, socket.SOCK_DGRAM): "udp",
}
# Files and memory that are mounted: what they move, real disks move too, or nobody.
_NO_DISKS = ("loop", "ram", "zram")
_MAPPED = "::ffff:"
# Where a reading may not exist, be hidden from who asks, or vanish while it is read.
_ABSENT = (OSError, AttributeError, NotImplementedError, psutil.Error)
Reading = tuple[str, str, float, str]


class Host:
    """This machine; a sample of its rates needs the one before, which a new Host takes at once."""

    def __init__(self, at_us: int) -> None:
        self.name = socket.gethostname()
        self._counted_us = at_us
        self._counted: dict[tuple[str, str], int] = {}
        self.sensors(at_us)

    def sensors(self, at_us: int) -> list[Record]:
        """Return a record per reading of every sensor that there is."""
        found: list[Reading] = []
        for readings in (_processor, _memory, _disks, self._rates(at_us), _temperatures, _battery):
            with suppress(*_ABSENT):
                found.extend(readings())
        return [
            {"ts": at_us, "host": self.name, "sensor": sensor, "part": part, "value": value, "unit": unit}
            for sensor, part, value, unit in found
        ]

    def connections(self, at_us: int) -> list[Record]:
        """Return a record per open TCP and UDP socket; those of others' processes as far as we may see them."""
        names: dict[int, str | None] = {}
        return [{"ts": at_us, "host": self.name, **_socket(one, names)} for one in _sockets()]

    def _rates(self, at_us: int) -> Callable[[], Iterator[Reading]]:
        def read() -> Iterator[Reading]:
            counted, seconds = dict(_counters()), (at_us - self._counted_us) / 1e6
            before, self._counted, self._counted_us = self._counted, counted, at_us
            for (sensor, part), count in counted.items():
                grown = count - before.get((sensor, part), count)
                # A counter that fell was started over: what it grew is not known.
                if (sensor, part) in before and grown >= 0 and seconds > 0:
                    yield sensor, part, round(grown / seconds, 3), "B/s"

        return read


def _processor() -> Iterator[Reading]:
    yield "cpu", "all", psutil.cpu_percent(), "percent"
    for number, value in enumerate(psutil.cpu_percent(percpu=True)):
        yield "cpu", str(number), value, "percent"
    for part, value in zip(("1m", "5m", "15m"), psutil.getloadavg(), strict=True):
        yield "load", part, round(value, 2), "processes"


def _memory() -> Iterator[Reading]:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    yield "memory", "used", memory.percent, "percent"
    yield "memory_available", "all", float(memory.available), "B"
    if swap.total:
        yield "memory", "swap", swap.percent, "percent"


def _disks() -> Iterator[Reading]:
    for partition in psutil.disk_partitions():
        with suppress(*_ABSENT):
            usage = psutil.disk_usage(partition.mountpoint)
            yield "disk", partition.mountpoint, usage.percent, "percent"


def _temperatures() -> Iterator[Reading]:
    for chip, readings in psutil.sensors_temperatures().items():
        for number, reading in enumerate(readings):
            yield "temperature", f"{chip}/{reading.label or number}", reading.current, "celsius"


def _battery() -> Iterator[Reading]:
    battery = psutil.sensors_battery()
    if battery is not None:
        yield "battery", "all", round(battery.percent, 1), "percent"


def _counters() -> Iterator[tuple[tuple[str, str], int]]:
    with suppress(*_ABSENT):
        for part, disk in (psutil.disk_io_counters(perdisk=True) or {}).items():
            if part.startswith(_NO_DISKS):
                continue
            yield ("disk_read", part), disk.read_bytes
            yield ("disk_write", part), disk.write_bytes
    with suppress(*_ABSENT):
        for part, net in psutil.net_io_counters(pernic=True).items():
            yield ("net_received", part), net.bytes_recv
            yield ("net_sent", part), net.bytes_sent


def _sockets() -> Iterator[Any]:
    try:
        yield from psutil.net_connections(kind="inet")
    except psutil.AccessDenied:
        # Where only root may see all of them, we see those of the processes that are ours.
        for process in psutil.process_iter():
            with suppress(*_ABSENT):
                own = process.net_connections(kind="inet")
                yield from (one._replace(pid=process.pid) if hasattr(one, "pid") else one for one in own)


def _socket(one: Any, names: dict[int, str | None]) -> Record:
    record: Record = {"proto": _KINDS.get((one.family, one.type), "other"), "status": one.status.lower()}
    for end, address in (("src", one.laddr), ("dst", one.raddr)):
        if address:
            # An IPv4 address that came through an IPv6 socket is the same address.
            ip = address.ip.removeprefix(_MAPPED) if "." in address.ip else address.ip
            record |= {end: ip, f"{end}_port": address.port}
    process = _name(getattr(one, "pid", None), names)
    return record | ({"process": process} if process else {})


def _name(pid: int | None, names: dict[int, str | None]) -> str | None:
    if pid is not None and pid not in names:
        names[pid] = None
        with suppress(*_ABSENT):
            names[pid] = psutil.Process(pid).name()
    return None if pid is None else names[pid]
