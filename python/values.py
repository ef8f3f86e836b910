"""Values: the unknown one, sizes and times as text, snapshots."""

import collections
import contextlib
import datetime
import functools
import math
import os
import re
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

KiB = 1 << 10
MiB = 1 << 20
GiB = 1 << 30
TiB = 1 << 40
PiB = 1 << 50
SIZE_UNITS = {None: 1, "": 1, "B": 1, "KiB": KiB, "MiB": MiB, "GiB": GiB, "TiB": TiB, "PiB": PiB, "KB": 1000,
              "MB": 1000 ** 2, "GB": 1000 ** 3, "TB": 1000 ** 4, "PB": 1000 ** 5}  # type: Dict[Optional[str], int]
# What drivers answer for a number that they do not know.
UINT_MAX = (1 << 32) - 1
ULONGLONG_MAX = (1 << 64) - 1


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
NotApplicableType = NaType

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


_COLORS = dict((name, 30 + place) for place, name in enumerate(
    ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "light_grey")))
_COLORS.update((name, 90 + place) for place, name in enumerate(
    ("dark_grey", "light_red", "light_green", "light_yellow", "light_blue", "light_magenta", "light_cyan", "white")))
_COLORS["grey"] = _COLORS["black"]
_ATTRIBUTES = {"bold": 1, "dark": 2, "underline": 4, "blink": 5, "reverse": 7, "concealed": 8, "strike": 9}
_is_colorful = None  # type: Optional[bool]


def set_color(value: bool) -> None:
    """Makes `colored` colour texts, or leave them as they are, here and in programs started from now on."""
    global _is_colorful
    _is_colorful = bool(value)
    wanted, other = ("FORCE_COLOR", "NO_COLOR") if value else ("NO_COLOR", "FORCE_COLOR")
    os.environ[wanted] = "1"
    os.environ.pop(other, None)


def _takes_colors() -> bool:
    """Returns true if standard output is a terminal with colours and no variable says otherwise."""
    if _is_colorful is False or "ANSI_COLORS_DISABLED" in os.environ or "NO_COLOR" in os.environ:
        return False
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return bool(_is_colorful or (is_terminal and ("FORCE_COLOR" in os.environ or os.environ.get("TERM") != "dumb")))


def colored(text: Any, color: Optional[str] = None, on_color: Optional[str] = None,
            attrs: Optional[Iterable[str]] = None) -> str:
    """Returns a text in a colour such as `red` or `light_blue`, on one such as `on_red`, with attributes such as `bold`.

    The text stays as it is if standard output is no terminal, unless `set_color(True)` was called.
    """
    codes = [] if color is None else [_COLORS[color]]
    if on_color is not None:
        codes.append(_COLORS[on_color[len("on_"):]] + 10)
    codes.extend(_ATTRIBUTES[name] for name in attrs or ())
    if not _takes_colors():
        return str(text)
    return "".join("\033[%dm" % code for code in reversed(codes)) + "%s\033[0m" % (text,)


CacheInfo = NamedTuple("CacheInfo", [("hits", int), ("misses", int), ("maxsize", int), ("currsize", int)])


def ttl_cache(maxsize: Any = 128, *, ttl: float = 600.0, timer: Callable[[], float] = time.monotonic,
              typed: bool = False) -> Any:
    """Decorates a function: what it returned for the same arguments is returned again for `ttl` seconds.

    The oldest results beyond `maxsize` are forgotten; None is no limit, and no end of time.
    """
    if callable(maxsize):
        return ttl_cache(ttl=ttl, timer=timer, typed=typed)(maxsize)
    if maxsize is not None and not isinstance(maxsize, int):
        raise TypeError("maxsize must be a number, a function or None, not %r" % (maxsize,))
    if ttl < 0:
        raise ValueError("ttl must be a number of seconds from 0 on, not %r" % (ttl,))
    if maxsize is None or maxsize <= 0:
        return functools.lru_cache(maxsize if maxsize is None else 0, typed)

    def decorate(function: Callable[..., Any]) -> Any:
        return functools.wraps(function)(_TimedCache(function, maxsize, ttl, timer, typed))

    return decorate


class _TimedCache:
    """A function with its latest results."""

    def __init__(self, function: Callable[..., Any], size: int, ttl: float, timer: Callable[[], float], typed: bool) -> None:
        self._function = function
        self._size = size
        self._ttl = ttl
        self._timer = timer
        self._typed = typed
        self._lock = threading.RLock()
        self.cache_clear()

    def cache_clear(self) -> None:
        """Forgets all results."""
        with self._lock:
            self._hits = self._misses = 0
            # With the time until which they count; the oldest one first.
            self._results = collections.OrderedDict()  # type: Dict[Any, Tuple[float, Any]]

    def cache_info(self) -> CacheInfo:
        """Returns how often a result was known, how often not, and how many are kept."""
        with self._lock:
            self._forget_old()
            return CacheInfo(self._hits, self._misses, self._size, len(self._results))

    def _forget_old(self) -> None:
        now = self._timer()
        for key in [key for key, (end, _) in self._results.items() if end < now]:
            del self._results[key]

    def __call__(self, *words: Any, **options: Any) -> Any:
        key = (words, tuple(options.items())) + (tuple(map(type, words + tuple(options.values()))) if self._typed else ())
        with self._lock:
            kept = self._results.get(key)
            if kept is not None and self._timer() < kept[0]:
                self._hits += 1
                return kept[1]
            self._misses += 1
        result = self._function(*words, **options)
        with self._lock:
            self._forget_old()
            self._results.pop(key, None)
            if len(self._results) >= self._size:
                del self._results[next(iter(self._results))]
            self._results[key] = (self._timer() + self._ttl, result)
        return result

    def __get__(self, instance: Any, _owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


class MemoryInfo(NamedTuple("MemoryInfo", [
        ("total", MaybeInt), ("free", MaybeInt), ("used", MaybeInt), ("reserved", MaybeInt)])):
    """Memory in bytes."""

    __slots__ = ()

    def __new__(cls, total: MaybeInt, free: MaybeInt, used: MaybeInt, reserved: MaybeInt = NA) -> "MemoryInfo":
        return super().__new__(cls, total, free, used, reserved)


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
        values = self._values()
        shown = (("real", values.pop("real")), *sorted(values.items()))
        text = "".join("%s=%r,\n" % pair for pair in shown).replace("\n", "\n    ").rstrip(" ")
        return "%sSnapshot(\n    %s)" % (type(self.real).__name__, text)
