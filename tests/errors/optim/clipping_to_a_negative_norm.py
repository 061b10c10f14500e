from fgrad import optim

optim.clip_by_global_norm(-1.0)
