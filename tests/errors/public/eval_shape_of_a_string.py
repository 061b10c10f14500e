import fgrad

fgrad.eval_shape(lambda x: x, "float32")
