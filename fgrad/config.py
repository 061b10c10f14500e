"""Every setting of fgrad, in one table: its name, type, default and meaning.

A setting is read once, at import, from the environment variable ``FGRAD_`` + its name in capitals,
and can be changed while running::

    from fgrad.config import config

    config.update("enable_x64", True)
    with config.override(check="nan,oob"):
        step(params)

Values given to `update` and `override` may be spelt as in the environment (``"nan,oob"``) or be of
the setting's own type (``{"nan", "oob"}``). Settings are those of the process, not of a thread.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

from fgrad.errors import ConfigError

__all__ = ["CHECKS", "VARIABLES", "Config", "Variable", "config"]

CHECKS = frozenset({"nan", "oob", "spec", "order", "leaks", "keys"})

Value = bool | int | str | frozenset[str]


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting.

    name     attribute of `config`; in capitals and after ``FGRAD_``, the environment variable
    parse    makes the value out of a text or of a value; raises ValueError saying what it accepts
    default  the text that stands for an unset environment variable, or a function that finds it
    kind     the type, in words, for the documentation
    doc      one line of meaning

    >>> from fgrad.config import VARIABLES
    >>> VARIABLES[0].environment_name, VARIABLES[0].default
    ('FGRAD_DEVICE', 'CPU')
    """

    name: str
    parse: Callable[[object], Value]
    default: str | Callable[[], str]
    kind: str
    doc: str

    @property
    def environment_name(self) -> str:
        """The environment variable, as in ``FGRAD_THREADS``."""
        return "FGRAD_" + self.name.upper()


def _flag(value: object) -> bool:
    """Read a switch: a bool, or one of 1/0, true/false, yes/no, on/off."""
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"": False, "0": False, "false": False, "no": False, "off": False}
    word = str(value).strip().lower()
    if word not in words:
        raise ValueError("1 or 0")
    return words[word]


def _count(value: object) -> int:
    """Read a whole number that is not negative."""
    if isinstance(value, bool) or not str(value).strip().isdecimal():
        raise ValueError("a whole number, 0 or larger")
    return int(str(value))


def _size(value: object) -> int:
    """Read a number of bytes: ``1048576`` or ``1M`` (K, M and G are powers of 1024)."""
    text = str(value).strip().upper()
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
    digits = text[:-1] if shift else text
    if isinstance(value, bool) or not digits.isdecimal():
        raise ValueError("a number of bytes, such as 1048576, 512K, 64M or 2G")
    return int(digits) << shift


def _text(value: object) -> str:
    """Read a text as it is."""
    if not isinstance(value, str | os.PathLike):
        raise ValueError("a text")
    return str(os.fspath(value))


def _device(value: object) -> str:
    """Read a device name; names are in capitals, ``cpu:1`` is ``CPU:1``."""
    name = _text(value).strip().upper()
    if not name:
        raise ValueError("a device such as CPU, CPU:1 or PYTHON")
    return name


def _one_of(*choices: str) -> Callable[[object], str]:
    """Make the reader of a setting with a closed set of values."""

    def read(value: object) -> str:
        word = str(value).strip().lower()
        if isinstance(value, bool) or word not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return word

    return read


def _words(value: object) -> frozenset[str]:
    """Read words separated by commas, or a collection of words; "0" is the same as none."""
    if isinstance(value, bool):
        value = str(int(value))
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, Iterable):
        raise ValueError("words separated by commas")
    return frozenset(str(word).strip() for word in value) - {"", "0"}


def _checks(value: object) -> frozenset[str]:
    """Read a set of checks; "1" stands for spec and order, "all" for every one."""
    words = _words(value)
    if "1" in words:
        words = words - {"1"} | {"spec", "order"}
    if "all" in words:
        words = words - {"all"} | CHECKS
    if not words <= CHECKS:
        raise ValueError("1, all, or some of " + ",".join(sorted(CHECKS)))
    return words


def _user_cache_dir() -> str:
    """The folder for this user's caches on this system, or "" if the user has no home."""
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # the XDG specification: relative paths are to be ignored
            base = os.path.join(home, ".cache")
    return os.path.join(base, "fgrad") if os.path.isabs(base) else ""


VARIABLES: tuple[Variable, ...] = (
    Variable("device", _device, "CPU", "text", "The device that new arrays go to and that runs."),
    Variable(
        "disable_jit",
        _flag,
        "0",
        "switch",
        "Run jitted functions and loops as plain Python, one operation at a time.",
    ),
    Variable(
        "enable_x64", _flag, "0", "switch", "Make float64 the default for literals and creation."
    ),
    Variable("threads", _count, "0", "number", "Threads of a CPU device; 0: one per usable core."),
    Variable(
        "cache_dir",
        _text,
        _user_cache_dir,
        "text",
        "Folder of compiled code; unset: fgrad in the user's cache folder; empty: keep nothing.",
    ),
    Variable("cache_bytes", _size, "512M", "size", "Most bytes of compiled code kept on disk."),
    Variable(
        "check",
        _checks,
        "",
        "set",
        "Checks to run: nan, oob (index bounds), spec (programs after each pass), order (stores "
        "and reads), leaks (tracers kept too long), keys (random keys used twice). 1: spec and order; "
        "all: all.",
    ),
    Variable(
        "show",
        _words,
        "",
        "set",
        "What to print: rooms and passes (lower, jvp), kernels, commands, source, recompiles; with "
        ":name, only for functions of that name.",
    ),
    Variable(
        "traceback",
        _one_of("short", "full"),
        "short",
        "short or full",
        "full: keep the frames inside fgrad in the tracebacks of errors.",
    ),
    Variable(
        "pool",
        _flag,
        "1",
        "switch",
        "0: return freed memory at once, and never reuse it. To be set before fgrad starts.",
    ),
    Variable(
        "poison",
        _flag,
        "0",
        "switch",
        "Fill freed memory with a pattern. To be set before fgrad starts.",
    ),
    Variable(
        "planner", _flag, "1", "switch", "0: give each intermediate of a program its own memory."
    ),
    Variable("sync", _flag, "0", "switch", "Wait for each program, so that errors name it."),
    Variable(
        "opt",
        _one_of("auto", "0", "2"),
        "auto",
        "auto, 0 or 2",
        "Level of code generation; auto: 0 at first, 2 when it is ready behind.",
    ),
)

_BY_NAME = {variable.name: variable for variable in VARIABLES}
_states: dict[tuple[Value, ...], int] = {}

# Switches that code written for JAX sets, and the check that is meant.
_JAX_CHECKS = {"debug_nans": "nan", "check_tracer_leaks": "leaks", "debug_key_reuse": "keys"}


class Config:
    """The settings in force; one attribute for each row of `VARIABLES`.

    version    grows with each change, so that a cache can see with one comparison that it is stale
    state      a number for the present settings: the same whenever all of them are the same again,
               so that what was compiled under them is found again
    on_change  called without arguments after each change: what generated code takes for granted
               ends here, so that it need not ask

    >>> from fgrad.config import Config
    >>> Config({"FGRAD_THREADS": "2"}).threads
    2
    """

    __slots__ = ("on_change", "state", "version", *_BY_NAME)

    version: int
    state: int
    on_change: list[Callable[[], None]]
    device: str
    disable_jit: bool
    enable_x64: bool
    threads: int
    cache_dir: str
    cache_bytes: int
    check: frozenset[str]
    show: frozenset[str]
    traceback: str
    pool: bool
    poison: bool
    planner: bool
    sync: bool
    opt: str

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Read every setting from `environment`; warn of names there that nobody reads.

        Raises ConfigError if a value is not one that its setting accepts.
        """
        self.version = 0
        self.on_change = []
        for variable_name in environment:
            name = variable_name.removeprefix("FGRAD_")
            if name != variable_name and name.lower() not in _BY_NAME:
                near = _near(name, [known.upper() for known in _BY_NAME], "FGRAD_")
                warnings.warn(f"{variable_name} is not known to fgrad{near}", stacklevel=3)
        for variable in VARIABLES:
            text = environment.get(variable.environment_name)
            if text is None:
                text = variable.default if isinstance(variable.default, str) else variable.default()
            setattr(self, variable.name, _parse(variable, text, variable.environment_name))
        self.state = self._number()

    def update(self, name: str, value: object) -> None:
        """Change one setting.

        A ``jax_`` before the name is ignored, and of JAX's own switches ``jax_debug_nans``,
        ``jax_check_tracer_leaks`` and ``jax_debug_key_reuse`` are understood as additions to `check`.

        Raises ConfigError for an unknown name, naming the nearest one, or for a bad value.
        """
        name = name.removeprefix("jax_")
        if name in _JAX_CHECKS:
            one = frozenset({_JAX_CHECKS[name]})
            name, value = "check", self.check | one if _flag(value) else self.check - one
        self._assign({name: _parse(_find(name), value, name)})

    def read(self, name: str) -> Value:
        """Return one setting by its name, with or without a ``jax_`` before it."""
        value: Value = getattr(self, _find(name.removeprefix("jax_")).name)
        return value

    def __getattr__(self, name: str) -> Value:
        """Answer ``config.jax_enable_x64`` like ``config.enable_x64``."""
        plain = name.removeprefix("jax_")
        if plain != name and plain in _BY_NAME:
            return self.read(name)
        raise AttributeError(f"config has no setting {name!r}{_near(plain, _BY_NAME)}")

    def override(self, **settings: object) -> AbstractContextManager[None]:
        """Change settings for the length of a ``with`` block.

        All names and values are checked before the first change; on leaving, also by an exception,
        the overridden settings are what they were.
        """
        return self._overridden({name: _parse(_find(name), value, name) for name, value in settings.items()})

    @contextmanager
    def _overridden(self, new: Mapping[str, Value]) -> Iterator[None]:
        old = {name: getattr(self, name) for name in new}
        try:
            self._assign(new)
            yield
        finally:
            self._assign(old)

    def _assign(self, values: Mapping[str, Value]) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        self.version += 1
        state, self.state = self.state, self._number()
        if state != self.state:
            for notice in tuple(self.on_change):
                notice()

    def _number(self) -> int:
        """The number of the present settings."""
        values = tuple([getattr(self, name) for name in _BY_NAME])
        return _states.setdefault(values, len(_states))

    def __repr__(self) -> str:
        rows = (f"{name}={getattr(self, name)!r}" for name in _BY_NAME)
        return f"Config({', '.join(rows)})"


def _find(name: str) -> Variable:
    if name not in _BY_NAME:
        raise ConfigError(f"there is no setting {name!r}{_near(name, _BY_NAME)}")
    return _BY_NAME[name]


def _parse(variable: Variable, value: object, shown_name: str) -> Value:
    try:
        return variable.parse(value)
    except ValueError as reason:
        raise ConfigError(f"{shown_name} is {value!r}; it accepts {reason}") from None


def _near(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return ``"; did you mean X?"``, or "" if nothing is like `name`."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {prefix}{near[0]}?" if near else ""


config = Config()
