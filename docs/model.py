"""The function that the pages about the command line show."""

from typing import Any

import fgrad.numpy as fnp


def loss(params: dict[str, Any], x: Any) -> Any:
    """The sum of one layer's outputs. params: w f32[n, m], b f32[m]; x: f32[k, n]."""
    return fnp.sum(fnp.tanh(x @ params["w"] + params["b"]))
