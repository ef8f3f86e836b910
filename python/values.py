"""Values: the unknown one, sizes and times as text, snapshots."""

import contextlib
import datetime
import math
import re
import threading
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple, Union

KiB = 1 << 10
MiB = 1 << 20
GiB = 1 << 30
TiB = 1 << 40
PiB = 1 << 50


class NaType(str):
    """The type of NA, a value that is not known.

    NA is the text 'N/A', is false, counts as NaN in arithmetic, and sorts after all numbers.
    """

    def __new__(cls) -> "NaType":
        return NA if "NA" in globals() else super().__new__(cls, "N/A")

    def __reduce__(self) -> Tuple[Any, Tuple[()]]:
        return NaType, ()

    def __bool__(self) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    def __float__(self) -> float:
        return math.nan

    def __add__(self, other: object) -> Any:
        return "N/A" + str(other) if _is_text(other) else _calculate(other)

    def __radd__(self, other: object) -> Any:
        return str(other) + "N/A" if _is_text(other) else _calculate(other)

    def __sub__(self, other: object) -> Any:
        return _calculate(other)

    __rsub__ = __sub__

    def __mul__(self, other: object) -> Any:
        return _calculate(other)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Any:
        if other == 0:
            raise ZeroDivisionError("division by zero")
        return _calculate(other)

    def __rtruediv__(self, other: object) -> Any:
        return _calculate(other)

    __floordiv__ = __truediv__
    __rfloordiv__ = __rtruediv__
    __mod__ = __truediv__
    __rmod__ = __rtruediv__

    def __divmod__(self, other: object) -> Tuple[float, float]:
        return self / other, self % other

    def __rdivmod__(self, other: object) -> Tuple[float, float]:
        return _calculate(other), _calculate(other)

    def __pos__(self) -> float:
        return math.nan

    __neg__ = __pos__
    __abs__ = __pos__

    def __round__(self, digits: Optional[int] = None) -> Union[int, float]:
        return 0 if digits is None else math.nan

    def __lt__(self, other: object) -> bool:
        return False if _is_number(other) else str.__lt__(self, other)  # type: ignore[operator]

    def __le__(self, other: object) -> bool:
        return False if _is_number(other) else str.__le__(self, other)  # type: ignore[operator]

    def __gt__(self, other: object) -> bool:
        return True if _is_number(other) else str.__gt__(self, other)  # type: ignore[operator]

    def __ge__(self, other: object) -> bool:
        return True if _is_number(other) else str.__ge__(self, other)  # type: ignore[operator]

    def __format__(self, how: str) -> str:
        try:
            return str.__format__(self, how)
        except ValueError:
            return format(math.nan, how)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, NaType)


def _calculate(other: object) -> Any:
    """Returns the result of arithmetic with NA."""
    return math.nan if _is_number(other) or isinstance(other, NaType) else NotImplemented


NA = NaType()
NotApplicable = NA

# What a value that may be unknown is.
MaybeInt = Union[int, NaType]
MaybeFloat = Union[float, NaType]
MaybeText = Union[str, NaType]

_SIZE = re.compile(r"\s*\+?\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(I?)B?\s*", re.IGNORECASE)
# Below this many bytes, a size is printed with this divisor and this format.
_SIZES = (
    (MiB, KiB, "%.0fKiB"), (100 * MiB, MiB, "%.2fMiB"), (1000 * MiB, MiB, "%.1fMiB"), (20 * GiB, MiB, "%.0fMiB"),
    (100 * GiB, GiB, "%.2fGiB"), (1000 * GiB, GiB, "%.1fGiB"), (100 * TiB, TiB, "%.2fTiB"),
    (1000 * TiB, TiB, "%.1fTiB"), (100 * PiB, PiB, "%.2fPiB"), (math.inf, PiB, "%.1fPiB"))


def bytes2human(size: Any, *, min_unit: int = 1) -> MaybeText:
    """Returns a size in bytes as text: MiB up to 20 GiB, then GiB and so on; no unit smaller than `min_unit`."""
    try:
        size = int(round(float(size)))
    except (OverflowError, TypeError, ValueError):
        return NA
    if size < KiB and min_unit < KiB:
        return "%dB" % size
    for limit, unit, form in _SIZES:
        if size < limit and (unit >= min_unit or unit >= PiB):
            return str(form % (size / unit))
    return NA


def human2bytes(size: Union[int, str]) -> int:
    """Returns the bytes of a size such as `200`, `10k`, `1.5GiB` or `5000M`; `k`, `M`, … are powers of 1000 without `i`.

    Raises ValueError if it is no size.
    """
    if isinstance(size, int) and size >= 0:
        return size
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None or (found.group(3) and not found.group(2)):
        raise ValueError("not a size: %r; write 200, 10k, 5000MB or 1.5GiB" % (size,))
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGTP".index(unit.upper() or " "))


def timedelta2human(time: Any, *, round: bool = False) -> MaybeText:
    """Returns a duration, as a timedelta or in seconds, as `m:ss`, `h:mm:ss` or, from 4 days on, `4.2 days`.

    With `round`, days are printed from 1 day on.
    """
    seconds = time.total_seconds() if isinstance(time, datetime.timedelta) else time
    if not _is_number(seconds) or not math.isfinite(seconds):
        return NA
    whole = int(seconds)
    if whole >= (1 if round else 4) * 86400:
        return "%.1f days" % (whole / 86400)
    minutes, left = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return "%d:%02d:%02d" % (hours, minutes, left) if hours else "%d:%02d" % (minutes, left)


def utilization2string(utilization: Any) -> MaybeText:
    """Returns a percentage as text."""
    if isinstance(utilization, float):
        return "%.1f%%" % utilization
    return "%d%%" % utilization if isinstance(utilization, int) else NA


def boolify(text: str, default: Any = None) -> bool:
    """Returns a text such as `yes` or `off` as a truth value."""
    word = text.lower()
    if word in ("true", "yes", "on", "enabled", "1"):
        return True
    if word in ("false", "no", "off", "disabled", "0"):
        return False
    return bool(text if default is None else default)


MemoryInfo = NamedTuple("MemoryInfo", [
    ("total", MaybeInt), ("free", MaybeInt), ("used", MaybeInt), ("reserved", MaybeInt)])
ClockInfos = NamedTuple("ClockInfos", [
    ("graphics", MaybeInt), ("sm", MaybeInt), ("memory", MaybeInt), ("video", MaybeInt)])
ClockSpeedInfos = NamedTuple("ClockSpeedInfos", [("current", ClockInfos), ("max", ClockInfos)])
UtilizationRates = NamedTuple("UtilizationRates", [
    ("gpu", MaybeInt), ("memory", MaybeInt), ("encoder", MaybeInt), ("decoder", MaybeInt)])


class ThroughputInfo(NamedTuple("ThroughputInfo", [("tx", MaybeInt), ("rx", MaybeInt)])):
    """Rates in KiB/s."""

    __slots__ = ()

    @property
    def transmit(self) -> MaybeInt:
        """Same as tx."""
        return self.tx

    @property
    def receive(self) -> MaybeInt:
        """Same as rx."""
        return self.rx


@contextlib.contextmanager
def keep(kept: Dict[int, Any], take: Callable[[], Any]) -> Iterator[None]:
    """Keeps, in the block and for this thread, what `take` returns, unless an outer block does: `kept` is by thread."""
    thread = threading.get_ident()
    is_outermost = thread not in kept
    if is_outermost:
        kept[thread] = take()
    try:
        yield
    finally:
        if is_outermost:
            del kept[thread]


class Snapshot:
    """Values of one moment, as `snapshot.name`, `snapshot['name']` or `dict(snapshot)`.

    `real` is what they were taken of, `timestamp` when, in seconds since 1970.
    """

    def __init__(self, real: Any, timestamp: float, **values: Any) -> None:
        self.real = real
        self.timestamp = timestamp
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        # Only for what is no value of the snapshot: asks the live object, and keeps the answer.
        if name.startswith("__") or name == "real":
            raise AttributeError(name)
        value = getattr(self.real, name)
        value = value() if callable(value) else value
        setattr(self, name, value)
        return value

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def keys(self) -> Iterator[str]:
        """Returns the names of all values."""
        return iter(self)

    def _values(self) -> Dict[str, Any]:
        return dict((name, value) for name, value in self.__dict__.items() if name != "timestamp")

    def __repr__(self) -> str:
        shown = ("    %s=%r,\n" % pair for pair in self._values().items())
        return "%sSnapshot(\n%s)" % (type(self.real).__name__, "".join(shown))
