from fgrad import optim

optim.sgd(float("nan"))
