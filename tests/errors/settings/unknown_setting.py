from fgrad import config

config.update("thread", 4)
