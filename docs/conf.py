"""Configuration of the documentation; only what Sphinx itself brings."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from fgrad._version import __version__  # noqa: E402
from fgrad.config import VARIABLES  # noqa: E402

project = "fgrad"
author = "the fgrad developers"
copyright = "2026, the fgrad developers"
release = version = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "_generated"]
html_theme = "alabaster"
html_theme_options = {
    "description": "array programs: differentiated, vectorised, compiled",
    "fixed_sidebar": True,
}
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
nitpicky = False


def settings_table() -> str:
    """The table of `fgrad.config`, as reStructuredText."""
    rows = [".. list-table::", "   :header-rows: 1", "   :widths: 24 12 12 52", ""]
    cells = [("variable", "type", "default", "meaning")]
    for variable in VARIABLES:
        default = variable.default if isinstance(variable.default, str) else "see right"
        name = f"``{variable.environment_name}``"
        cells.append((name, variable.kind, f"``{default}``" if default else "none", variable.doc))
    for row in cells:
        rows += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
    return "\n".join(rows) + "\n"


generated = HERE / "_generated"
generated.mkdir(exist_ok=True)
(generated / "settings.rst").write_text(settings_table(), encoding="utf-8")
