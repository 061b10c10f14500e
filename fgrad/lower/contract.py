"""The door of contractions: what the partition and the builder of blocks call.

`contract_find` recognises them, `contract_build` makes their kernels (its docstring says what the
rest of lowering does for them), `contract_emit` and `contract_pack` write their text, `micro` holds the micro-kernels.
"""

from fgrad.lower.contract_build import Built as Built
from fgrad.lower.contract_build import build as build
from fgrad.lower.contract_build import micro_of as micro_of
from fgrad.lower.contract_find import Contraction as Contraction
from fgrad.lower.contract_find import element_of as element_of
from fgrad.lower.contract_find import recognise as recognise
