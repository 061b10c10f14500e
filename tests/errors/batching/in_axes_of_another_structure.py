import fgrad
import fgrad.numpy as fnp

fgrad.vmap(lambda p: p["w"], in_axes=({"v": 0},))({"w": fnp.ones(3)})
