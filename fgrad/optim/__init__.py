"""Optimizers as gradient transformations: `init`, `update`, `apply_updates`, and schedules for the learning rate."""

from fgrad.optim.clipping import add_decayed_weights as add_decayed_weights
from fgrad.optim.clipping import clip as clip
from fgrad.optim.clipping import clip_by_global_norm as clip_by_global_norm
from fgrad.optim.moments import ScaleByAdamState as ScaleByAdamState
from fgrad.optim.moments import ScaleByLionState as ScaleByLionState
from fgrad.optim.moments import ScaleByRmsState as ScaleByRmsState
from fgrad.optim.moments import ScaleByRssState as ScaleByRssState
from fgrad.optim.moments import ScaleByRStdDevState as ScaleByRStdDevState
from fgrad.optim.moments import TraceState as TraceState
from fgrad.optim.moments import scale_by_adam as scale_by_adam
from fgrad.optim.moments import scale_by_lion as scale_by_lion
from fgrad.optim.moments import scale_by_rms as scale_by_rms
from fgrad.optim.moments import scale_by_rss as scale_by_rss
from fgrad.optim.moments import scale_by_stddev as scale_by_stddev
from fgrad.optim.moments import trace as trace
from fgrad.optim.optimizers import adagrad as adagrad
from fgrad.optim.optimizers import adam as adam
from fgrad.optim.optimizers import adamw as adamw
from fgrad.optim.optimizers import lion as lion
from fgrad.optim.optimizers import momentum as momentum
from fgrad.optim.optimizers import rmsprop as rmsprop
from fgrad.optim.optimizers import sgd as sgd
from fgrad.optim.schedules import constant_schedule as constant_schedule
from fgrad.optim.schedules import cosine_decay_schedule as cosine_decay_schedule
from fgrad.optim.schedules import exponential_decay as exponential_decay
from fgrad.optim.schedules import join_schedules as join_schedules
from fgrad.optim.schedules import linear_schedule as linear_schedule
from fgrad.optim.schedules import piecewise_constant_schedule as piecewise_constant_schedule
from fgrad.optim.schedules import polynomial_schedule as polynomial_schedule
from fgrad.optim.schedules import warmup_constant_schedule as warmup_constant_schedule
from fgrad.optim.schedules import warmup_cosine_decay_schedule as warmup_cosine_decay_schedule
from fgrad.optim.schedules import (
    warmup_exponential_decay_schedule as warmup_exponential_decay_schedule,
)
from fgrad.optim.transformation import EmptyState as EmptyState
from fgrad.optim.transformation import GradientTransformation as GradientTransformation
from fgrad.optim.transformation import ScaleByScheduleState as ScaleByScheduleState
from fgrad.optim.transformation import apply_updates as apply_updates
from fgrad.optim.transformation import chain as chain
from fgrad.optim.transformation import global_norm as global_norm
from fgrad.optim.transformation import identity as identity
from fgrad.optim.transformation import masked as masked
from fgrad.optim.transformation import scale as scale
from fgrad.optim.transformation import scale_by_learning_rate as scale_by_learning_rate
from fgrad.optim.transformation import scale_by_schedule as scale_by_schedule
from fgrad.optim.transformation import set_to_zero as set_to_zero
from fgrad.optim.transformation import stateless as stateless
from fgrad.trace.frames import trim_public

__all__ = [
    "EmptyState", "GradientTransformation", "ScaleByAdamState", "ScaleByLionState", "ScaleByRStdDevState",
    "ScaleByRmsState", "ScaleByRssState", "ScaleByScheduleState", "TraceState", "adagrad", "adam", "adamw",
    "add_decayed_weights", "apply_updates", "chain", "clip", "clip_by_global_norm", "constant_schedule",
    "cosine_decay_schedule", "exponential_decay", "global_norm", "identity", "join_schedules",
    "linear_schedule", "lion", "masked", "momentum", "piecewise_constant_schedule", "polynomial_schedule",
    "rmsprop", "scale", "scale_by_adam", "scale_by_learning_rate", "scale_by_lion", "scale_by_rms",
    "scale_by_rss", "scale_by_schedule", "scale_by_stddev", "set_to_zero", "sgd", "stateless", "trace",
    "warmup_constant_schedule", "warmup_cosine_decay_schedule", "warmup_exponential_decay_schedule",
]  # fmt: skip

trim_public(globals(), __all__)
