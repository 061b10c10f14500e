"""The exceptions: the hierarchy drawn in the module, what each says, and where it points."""

import builtins
import contextlib
import pickle
import re
from pathlib import Path

import pytest

from fgrad import errors
from fgrad.errors import FgradError, ShapeError, note_user_line, user_frame

CLASSES = sorted(
    {value for value in vars(errors).values() if isinstance(value, type)}
    & {FgradError, *FgradError.__subclasses__()}
    | {cls for direct in FgradError.__subclasses__() for cls in direct.__subclasses__()},
    key=lambda cls: cls.__name__,
)
BASES_OF_OTHERS = {"FgradError", "DeviceError"}


def drawn() -> dict[str, tuple[str | None, list[str]]]:
    """The picture in the module's docstring: name -> (parent, builtins)."""
    path: list[str] = []
    found: dict[str, tuple[str | None, list[str]]] = {}
    for line in (errors.__doc__ or "").splitlines():
        row = re.match(r"    ([│├└─ ]*)(\w+Error)(?: +\(([\w, ]+)\))?", line)
        if row:
            depth = len(row[1]) // 4
            path = [*path[:depth], row[2]]
            found[row[2]] = (path[depth - 1] if depth else None, row[3].split(", ") if row[3] else [])
    return found


def test_the_picture_shows_every_class() -> None:
    assert set(drawn()) == {cls.__name__ for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_class_stands_where_it_is_drawn(cls: type[FgradError]) -> None:
    parent, refined = drawn()[cls.__name__]
    if parent is not None:
        assert getattr(errors, parent) in cls.__bases__
    assert {getattr(builtins, name) for name in refined} <= set(cls.__bases__)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_docstring_names_the_cause_or_an_example_and_the_way_out(cls: type[FgradError]) -> None:
    doc = cls.__doc__ or ""
    assert cls.__name__ in errors.__all__
    if cls.__name__ not in BASES_OF_OTHERS:
        assert "Way out:" in doc and any(word in doc for word in ("Cause:", "Example:", ">>>"))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_survives_pickling(cls: type[FgradError]) -> None:
    copy = pickle.loads(pickle.dumps(cls("what was wrong")))
    assert type(copy) is cls and str(copy) == "what was wrong"


def test_errors_are_caught_as_the_builtin_they_refine() -> None:
    for cls, builtin in [
        (errors.ShapeError, ValueError),
        (errors.DeviceHangError, TimeoutError),
        (errors.OutOfMemoryError, MemoryError),
        (errors.OutOfBoundsError, IndexError),
        (errors.LinkError, RuntimeError),
        (errors.UnexpectedTracerError, RuntimeError),
        (errors.TracerBoolConversionError, TypeError),
    ]:
        with pytest.raises(builtin):
            raise cls("what was wrong")


def test_the_users_frame_is_named_by_file_line_and_function() -> None:
    where = user_frame()
    name = "test_the_users_frame_is_named_by_file_line_and_function"
    assert re.fullmatch(rf".*test_errors_hierarchy\.py:\d+, in {name}", where)


def test_a_file_below_the_working_directory_is_named_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    errors._shorten.cache_clear()
    assert user_frame().startswith("test_errors_hierarchy.py:")
    errors._shorten.cache_clear()


def test_frames_of_fgrad_and_of_generated_code_are_passed_over() -> None:
    namespace = {"__name__": "fgrad.trace.stage", "user_frame": user_frame}
    exec("def inside():\n    return user_frame()", namespace)
    assert "in test_frames_of" in namespace["inside"]()
    generated = {"user_frame": user_frame}
    exec(compile("def call():\n    return user_frame()", "<fgrad call>", "exec"), generated)
    assert "in test_frames_of" in generated["call"]()


def test_frames_of_context_managers_are_passed_over() -> None:
    namespace = {"__name__": "fgrad.config", "user_frame": user_frame, "seen": []}
    exec("def manager():\n    seen.append(user_frame())\n    yield", namespace)
    with contextlib.contextmanager(namespace["manager"])():
        pass
    assert "in test_frames_of_context" in namespace["seen"][0]


def test_the_source_line_is_noted_once() -> None:
    error = note_user_line(note_user_line(ShapeError("shapes differ")))
    (note,) = error.__notes__
    assert re.match(r"  at .*test_errors_hierarchy\.py:\d+, in test_the_source_line", note)
    assert str(error) == "shapes differ"
