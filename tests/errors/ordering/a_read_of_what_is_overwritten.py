import fgrad.numpy as fnp
from fgrad.run.graph import run_graph
from fgrad.uop import build
from fgrad.uop.node import uop
from fgrad.uop.op import Mode, Op

x, y = fnp.ones(3).as_node(), fnp.zeros(3).as_node()
new_x = uop(Op.AFTER, (x, uop(Op.STORE, (x, build.mul(x, 2.0)), Mode.SET)))
new_y = uop(Op.AFTER, (y, uop(Op.STORE, (y, build.add(y, new_x)), Mode.SET)))
run_graph([build.add(new_y, y), new_x, new_y])
