"""The settings: where they come from, how they change, and what is refused."""

import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import fgrad
from fgrad.config import CHECKS, VARIABLES, Config, _user_cache_dir, config
from fgrad.errors import ConfigError


def test_each_row_of_the_table_is_a_typed_attribute() -> None:
    hints = typing.get_type_hints(Config)
    assert set(hints) == {variable.name for variable in VARIABLES} | {"version", "state", "on_change"}
    fresh = Config({})
    for variable in VARIABLES:
        kind = typing.get_origin(hints[variable.name]) or hints[variable.name]
        assert type(getattr(fresh, variable.name)) is kind
        assert variable.doc.endswith(".")


def test_the_defaults() -> None:
    fresh = Config({})
    assert (fresh.device, fresh.threads, fresh.opt, fresh.traceback) == ("CPU", 0, "auto", "short")
    assert fresh.pool and fresh.planner and not (fresh.enable_x64 or fresh.sync or fresh.poison)
    assert fresh.check == fresh.show == frozenset()
    assert fresh.cache_bytes == 512 << 20


def test_the_environment_is_read() -> None:
    fresh = Config(
        {
            "FGRAD_DEVICE": "cpu:1",
            "FGRAD_ENABLE_X64": "true",
            "FGRAD_THREADS": "3",
            "FGRAD_CACHE_DIR": "",
            "FGRAD_CACHE_BYTES": "2G",
            "FGRAD_CHECK": "nan, oob",
            "FGRAD_SHOW": "jvp,queue:matmul",
            "FGRAD_OPT": "2",
            "FGRAD_POOL": "0",
            "HOME": "/",
        }
    )
    assert (fresh.device, fresh.enable_x64, fresh.threads) == ("CPU:1", True, 3)
    assert (fresh.cache_dir, fresh.cache_bytes) == ("", 2 << 30)
    assert fresh.check == {"nan", "oob"} and fresh.show == {"jvp", "queue:matmul"}
    assert fresh.opt == "2" and not fresh.pool


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        ("", set()),
        ("0", set()),
        ("1", {"spec", "order"}),
        ("1,nan", {"spec", "order", "nan"}),
        ("all", set(CHECKS)),
        ("leaks", {"leaks"}),
    ],
)
def test_the_words_of_check(text: str, checks: set[str]) -> None:
    assert Config({"FGRAD_CHECK": text}).check == checks


def test_an_unknown_variable_warns_with_the_nearest_name() -> None:
    with pytest.warns(UserWarning, match="FGRAD_THREAD is not known.*did you mean FGRAD_THREADS"):
        Config({"FGRAD_THREAD": "2"})


def test_a_variable_unlike_any_other_warns_without_a_guess() -> None:
    with pytest.warns(UserWarning, match="FGRAD_XYZZY is not known to fgrad$"):
        Config({"FGRAD_XYZZY": "2"})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threads", "many", "threads is 'many'; it accepts a whole number, 0 or larger"),
        ("threads", -1, "threads is -1; it accepts a whole number"),
        ("threads", True, "threads is True"),
        ("enable_x64", "maybe", "enable_x64 is 'maybe'; it accepts 1 or 0"),
        ("cache_bytes", "1T", "such as 1048576, 512K"),
        ("cache_dir", 3, "cache_dir is 3; it accepts a text"),
        ("check", "nans", "1, all, or some of keys,leaks,nan,oob,order,spec"),
        ("show", 3, "show is 3; it accepts words"),
        ("opt", "3", "opt is '3'; it accepts one of auto, 0, 2"),
        ("device", " ", "a device such as CPU"),
        ("thread", 1, "there is no setting 'thread'; did you mean threads"),
        ("version", 1, "there is no setting 'version'"),
    ],
)
def test_a_bad_value_or_name_is_refused_and_changes_nothing(
    name: str, value: object, message: str
) -> None:
    before = repr(config)
    with pytest.raises(ConfigError, match=message):
        config.update(name, value)
    assert repr(config) == before


def test_a_bad_value_in_the_environment_is_named_by_its_variable() -> None:
    with pytest.raises(ConfigError, match="FGRAD_THREADS is 'x'"):
        Config({"FGRAD_THREADS": "x"})


def test_update_takes_text_or_values_and_counts_versions() -> None:
    fresh = Config({})
    fresh.update("check", {"nan"})
    fresh.update("threads", 4)
    fresh.update("cache_dir", Path("/tmp/x"))
    fresh.update("opt", 0)
    assert (fresh.check, fresh.threads, fresh.opt) == ({"nan"}, 4, "0")
    assert fresh.cache_dir == os.path.join("/tmp", "x")
    assert fresh.version == 4


def test_names_with_a_jax_prefix_are_understood() -> None:
    fresh = Config({})
    fresh.update("jax_enable_x64", True)
    assert fresh.enable_x64 and fresh.jax_enable_x64 and fresh.read("jax_enable_x64")
    fresh.update("jax_debug_nans", True)
    fresh.update("jax_check_tracer_leaks", True)
    assert fresh.check == {"nan", "leaks"}
    fresh.update("jax_debug_nans", False)
    assert fresh.check == {"leaks"}
    fresh.update("jax_debug_key_reuse", True)
    assert fresh.check == {"leaks", "keys"}


def test_a_misspelt_attribute_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match="no setting 'thread'; did you mean threads"):
        config.thread  # noqa: B018


def test_override_restores_also_after_an_exception() -> None:
    before, version = repr(config), config.version
    with pytest.raises(KeyError), config.override(check="oob", threads=1):
        assert config.check == {"oob"} and config.threads == 1
        raise KeyError
    assert repr(config) == before and config.version > version + 1


def test_override_checks_all_values_before_the_first_change() -> None:
    before = repr(config)
    with pytest.raises(ConfigError), config.override(threads=1, opt="fast"):
        raise AssertionError("not reached")
    assert repr(config) == before


def test_the_cache_folder_follows_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/mine")
    assert _user_cache_dir() == "/var/mine/fgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert _user_cache_dir() == "/home/someone/.cache/fgrad"


def modules_after(code: str) -> set[str]:
    """The modules that a new interpreter holds after running `code`."""
    code += "\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_settings_and_errors_load_no_array_library() -> None:
    package = str(Path(fgrad.__file__).parent)
    alone = (  # the package without its __init__, which loads the rest of fgrad
        "import sys, types\n"
        f"package = types.ModuleType('fgrad'); package.__path__ = [{package!r}]\n"
        "sys.modules['fgrad'] = package\n"
        "import fgrad.config"
    )
    loaded = modules_after(alone)
    assert "fgrad.config" in loaded and "fgrad.errors" in loaded
    assert not loaded & {"numpy", "cffi", "llvmlite", "optree", "ml_dtypes"}


def test_importing_fgrad_leaves_the_heavy_packages_for_later() -> None:
    assert not modules_after("import fgrad") & {"llvmlite", "scipy", "jax", "torch"}
