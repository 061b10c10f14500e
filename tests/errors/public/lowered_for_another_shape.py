import fgrad
import fgrad.numpy as fnp

compiled = fgrad.jit(lambda p: p["w"] * 2).lower({"w": fnp.ones(3)}).compile()
compiled({"w": fnp.ones(4)})
