"""Configuration of the documentation; only what Sphinx itself brings."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402

from fgrad._version import __version__  # noqa: E402

project = "fgrad"
author = "the fgrad developers"
copyright = "2026, the fgrad developers"
release = version = __version__

extensions: list[str] = []
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "array programs: differentiated, vectorised, compiled",
    "fixed_sidebar": True,
}
html_copy_source = False
default_role = "code"
python_use_unqualified_type_names = True
toc_object_entries = False
nitpicky = False

generate.write(HERE / "_generated")
