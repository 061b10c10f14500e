"""Checked: an executable that looks at what comes out, under FGRAD_CHECK=nan."""

from __future__ import annotations

from typing import Any

import numpy as np

from fgrad.errors import NanError, note_user_line, user_frame
from fgrad.hw.window import window
from fgrad.trace.nans import has_nan, is_repeatable, line_near, origin
from fgrad.uop.program import Program


def moves_data(device: Any) -> bool:
    """Whether results can be read: not those of the NULL device, which runs nothing."""
    name: str = device.name
    return name.partition(":")[0] != "null"


class Checked:
    """An executable whose every call is waited for and whose results are searched for NaN.

    program   what the executable was made from, as it was traced: the nodes know their lines
    """

    short = False  # every call comes here

    def __init__(
        self, executable: Any, device: Any, program: Program, donated: frozenset[int], name: str
    ) -> None:
        self.executable = executable
        self.device = device
        self.program = program
        self.donated = donated
        self.name = name

    def __getattr__(self, name: str) -> Any:
        """Everything else is the executable's."""
        return getattr(self.executable, name)

    def call(self, argument_words: list[int]) -> None:
        """Run, wait, and look.

        Raises NanError when a result has a NaN and no argument had one.
        """
        executable, params = self.executable, self.program.params
        device = self.device
        device.sync()
        args: list[Any] = []
        for i, (word, p) in enumerate(zip(argument_words, params, strict=False)):
            if i in executable.inline_params:
                bits = (word & (1 << 64) - 1).to_bytes(8, "little")
                args.append(np.frombuffer(bits[: p.dtype.itemsize], p.dtype.np)[0])
            else:
                view = window(word, p.dtype, p.shape)
                args.append(view.copy() if i in self.donated else view)
        executable.call(argument_words)
        device.sync()
        outs = [
            window(word, o.dtype, o.shape)
            for word, o in zip(argument_words[len(params) :], self.program.outs, strict=True)
        ]
        bad = next((i for i, x in enumerate(outs) if has_nan(x)), None)
        if bad is not None and not has_nan(args):
            error = NanError(self._text(bad, args))
            raise error if f"made at {user_frame()}" in str(error) else note_user_line(error)

    def _text(self, number: int, args: list[Any]) -> str:
        out = self.program.outs[number]
        which = f"result {number} " if len(self.program.outs) > 1 else "the result "
        text = f"{self.name}: {which}({out.dtype}{list(out.shape)}) has a NaN, and no argument had one"
        if not is_repeatable(self.program):
            return f"{text}; it calls Python functions with effects, so that it was not run again to find where"
        found = origin(self.program, args)
        if found is None:
            return f"{text}; evaluated op by op in NumPy it has none"
        sources = ", ".join([f"{s.dtype}{list(s.shape)}" for s in found.src])
        text = f"{text}; it comes from {found.op.name} of {sources or 'nothing'}"
        line, is_own = line_near(found)
        if not line:
            return text
        return f"{text}\n  made at {line}" if is_own else f"{text}\n  made from what was computed at {line}"
