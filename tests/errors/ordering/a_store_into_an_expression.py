import fgrad.numpy as fnp
from fgrad.run.graph import run_graph
from fgrad.uop import build
from fgrad.uop.node import uop
from fgrad.uop.op import Mode, Op

x = build.add(fnp.ones(3).as_node(), 1.0)
run_graph([uop(Op.AFTER, (x, uop(Op.STORE, (x, build.const(2.0, x.dtype, (3,))), Mode.SET)))])
