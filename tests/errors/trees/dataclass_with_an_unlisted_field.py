from dataclasses import dataclass

import fgrad


@dataclass
class Layer:
    w: float
    name: str


fgrad.tree_util.register_dataclass(Layer, data_fields=["w"], meta_fields=[])
