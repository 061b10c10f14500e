import fgrad
import fgrad.numpy as fnp


class Model:
    hidden = None

    def __call__(self, x):
        self.hidden = fnp.tanh(x)
        return self.hidden.sum()


model = Model()
fgrad.jit(fgrad.grad(model))(fnp.ones(3))
fgrad.jit(lambda y: y + model.hidden)(fnp.ones(3))
