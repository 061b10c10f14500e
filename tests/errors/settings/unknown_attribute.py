from fgrad import config

print(config.jax_enable_x46)
