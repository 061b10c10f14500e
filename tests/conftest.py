"""What all tests share: the settings they run under, random data, golden files."""

import atexit
import os
import shutil
import signal
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

# The reference's own threads would spin on the cores that the workers of pytest-xdist use.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

# Both are read when fgrad is imported, which the test modules do after this file. The compiled code
# of a test run is kept apart from the user's, and shared by the workers of pytest-xdist.
os.environ.setdefault("FGRAD_CHECK", "1")
if "FGRAD_CACHE_DIR" not in os.environ:
    _cache_dir = tempfile.mkdtemp(prefix="fgrad-tests-")
    os.environ["FGRAD_CACHE_DIR"] = _cache_dir
    atexit.register(shutil.rmtree, _cache_dir, ignore_errors=True)

# A shell that puts a run into its background makes it ignore ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# deadline=None: a compilation, or a busy machine, is not a failure.
settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the golden tests got into tests/golden, to be read in the diff",
    )


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that are the same in every run, and others in every test."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Compare a printout with the text file that is kept for this test."""
    module = request.path.relative_to(Path(__file__).parent).with_suffix("")
    path = GOLDEN / module / f"{request.node.name}.txt"

    def check(text: str) -> None:
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file yet; run this test with --update-golden: {path}"
        assert text == path.read_text(encoding="utf-8")

    return check
