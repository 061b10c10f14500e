"""Low-level array functions, control flow, and what members of a named axis say to each other."""

from fgrad.lax import linalg as linalg
from fgrad.lax.barriers import optimization_barrier as optimization_barrier
from fgrad.lax.barriers import platform_dependent as platform_dependent
from fgrad.lax.bits import bitwise_and as bitwise_and
from fgrad.lax.bits import bitwise_not as bitwise_not
from fgrad.lax.bits import bitwise_or as bitwise_or
from fgrad.lax.bits import bitwise_xor as bitwise_xor
from fgrad.lax.bits import clz as clz
from fgrad.lax.bits import mulhi as mulhi
from fgrad.lax.bits import population_count as population_count
from fgrad.lax.bits import shift_left as shift_left
from fgrad.lax.bits import shift_right_arithmetic as shift_right_arithmetic
from fgrad.lax.bits import shift_right_logical as shift_right_logical
from fgrad.lax.branches import cond as cond
from fgrad.lax.branches import switch as switch
from fgrad.lax.collectives import all_gather as all_gather
from fgrad.lax.collectives import all_to_all as all_to_all
from fgrad.lax.collectives import axis_index as axis_index
from fgrad.lax.collectives import axis_size as axis_size
from fgrad.lax.collectives import pmax as pmax
from fgrad.lax.collectives import pmean as pmean
from fgrad.lax.collectives import pmin as pmin
from fgrad.lax.collectives import ppermute as ppermute
from fgrad.lax.collectives import pshuffle as pshuffle
from fgrad.lax.collectives import psum as psum
from fgrad.lax.collectives import psum_scatter as psum_scatter
from fgrad.lax.collectives import pswapaxes as pswapaxes
from fgrad.lax.contraction import DotDimensionNumbers as DotDimensionNumbers
from fgrad.lax.contraction import Precision as Precision
from fgrad.lax.contraction import batch_matmul as batch_matmul
from fgrad.lax.contraction import dot as dot
from fgrad.lax.contraction import dot_general as dot_general
from fgrad.lax.convolution import ConvDimensionNumbers as ConvDimensionNumbers
from fgrad.lax.convolution import conv as conv
from fgrad.lax.convolution import conv_dimension_numbers as conv_dimension_numbers
from fgrad.lax.convolution import conv_general_dilated as conv_general_dilated
from fgrad.lax.convolution import conv_general_dilated_patches as conv_general_dilated_patches
from fgrad.lax.convolution import conv_general_permutations as conv_general_permutations
from fgrad.lax.convolution import conv_general_shape_tuple as conv_general_shape_tuple
from fgrad.lax.convolution import conv_shape_tuple as conv_shape_tuple
from fgrad.lax.convolution import conv_transpose as conv_transpose
from fgrad.lax.convolution import conv_transpose_shape_tuple as conv_transpose_shape_tuple
from fgrad.lax.convolution import conv_with_general_padding as conv_with_general_padding
from fgrad.lax.derivatives import custom_linear_solve as custom_linear_solve
from fgrad.lax.derivatives import custom_root as custom_root
from fgrad.lax.derivatives import stop_gradient as stop_gradient
from fgrad.lax.elementwise import RoundingMethod as RoundingMethod
from fgrad.lax.elementwise import abs as abs
from fgrad.lax.elementwise import acos as acos
from fgrad.lax.elementwise import acosh as acosh
from fgrad.lax.elementwise import add as add
from fgrad.lax.elementwise import asin as asin
from fgrad.lax.elementwise import asinh as asinh
from fgrad.lax.elementwise import atan as atan
from fgrad.lax.elementwise import atan2 as atan2
from fgrad.lax.elementwise import atanh as atanh
from fgrad.lax.elementwise import cbrt as cbrt
from fgrad.lax.elementwise import ceil as ceil
from fgrad.lax.elementwise import clamp as clamp
from fgrad.lax.elementwise import complex as complex
from fgrad.lax.elementwise import conj as conj
from fgrad.lax.elementwise import cos as cos
from fgrad.lax.elementwise import cosh as cosh
from fgrad.lax.elementwise import digamma as digamma
from fgrad.lax.elementwise import div as div
from fgrad.lax.elementwise import eq as eq
from fgrad.lax.elementwise import erf as erf
from fgrad.lax.elementwise import erf_inv as erf_inv
from fgrad.lax.elementwise import erfc as erfc
from fgrad.lax.elementwise import exp as exp
from fgrad.lax.elementwise import exp2 as exp2
from fgrad.lax.elementwise import expm1 as expm1
from fgrad.lax.elementwise import floor as floor
from fgrad.lax.elementwise import ge as ge
from fgrad.lax.elementwise import gt as gt
from fgrad.lax.elementwise import imag as imag
from fgrad.lax.elementwise import integer_pow as integer_pow
from fgrad.lax.elementwise import is_finite as is_finite
from fgrad.lax.elementwise import le as le
from fgrad.lax.elementwise import lgamma as lgamma
from fgrad.lax.elementwise import log as log
from fgrad.lax.elementwise import log1p as log1p
from fgrad.lax.elementwise import logistic as logistic
from fgrad.lax.elementwise import lt as lt
from fgrad.lax.elementwise import max as max
from fgrad.lax.elementwise import min as min
from fgrad.lax.elementwise import mul as mul
from fgrad.lax.elementwise import ne as ne
from fgrad.lax.elementwise import neg as neg
from fgrad.lax.elementwise import nextafter as nextafter
from fgrad.lax.elementwise import pow as pow
from fgrad.lax.elementwise import real as real
from fgrad.lax.elementwise import reciprocal as reciprocal
from fgrad.lax.elementwise import reduce_precision as reduce_precision
from fgrad.lax.elementwise import rem as rem
from fgrad.lax.elementwise import round as round
from fgrad.lax.elementwise import rsqrt as rsqrt
from fgrad.lax.elementwise import select as select
from fgrad.lax.elementwise import select_n as select_n
from fgrad.lax.elementwise import sign as sign
from fgrad.lax.elementwise import sin as sin
from fgrad.lax.elementwise import sinh as sinh
from fgrad.lax.elementwise import sqrt as sqrt
from fgrad.lax.elementwise import square as square
from fgrad.lax.elementwise import sub as sub
from fgrad.lax.elementwise import tan as tan
from fgrad.lax.elementwise import tanh as tanh
from fgrad.lax.fourier import FftType as FftType
from fgrad.lax.fourier import fft as fft
from fgrad.lax.generators import RandomAlgorithm as RandomAlgorithm
from fgrad.lax.generators import rng_bit_generator as rng_bit_generator
from fgrad.lax.indexing import GatherDimensionNumbers as GatherDimensionNumbers
from fgrad.lax.indexing import GatherScatterMode as GatherScatterMode
from fgrad.lax.indexing import ScatterDimensionNumbers as ScatterDimensionNumbers
from fgrad.lax.indexing import gather as gather
from fgrad.lax.indexing import index_take as index_take
from fgrad.lax.indexing import scatter as scatter
from fgrad.lax.indexing import scatter_add as scatter_add
from fgrad.lax.indexing import scatter_apply as scatter_apply
from fgrad.lax.indexing import scatter_max as scatter_max
from fgrad.lax.indexing import scatter_min as scatter_min
from fgrad.lax.indexing import scatter_mul as scatter_mul
from fgrad.lax.indexing import scatter_sub as scatter_sub
from fgrad.lax.local_convolution import conv_general_dilated_local as conv_general_dilated_local
from fgrad.lax.loops import fori_loop as fori_loop
from fgrad.lax.loops import map as map
from fgrad.lax.loops import while_loop as while_loop
from fgrad.lax.ordering import approx_max_k as approx_max_k
from fgrad.lax.ordering import approx_min_k as approx_min_k
from fgrad.lax.ordering import sort as sort
from fgrad.lax.ordering import sort_key_val as sort_key_val
from fgrad.lax.ordering import top_k as top_k
from fgrad.lax.prefix import associative_scan as associative_scan
from fgrad.lax.ragged import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
from fgrad.lax.ragged import ragged_dot as ragged_dot
from fgrad.lax.ragged import ragged_dot_general as ragged_dot_general
from fgrad.lax.reductions import argmax as argmax
from fgrad.lax.reductions import argmin as argmin
from fgrad.lax.reductions import cumlogsumexp as cumlogsumexp
from fgrad.lax.reductions import cummax as cummax
from fgrad.lax.reductions import cummin as cummin
from fgrad.lax.reductions import cumprod as cumprod
from fgrad.lax.reductions import cumsum as cumsum
from fgrad.lax.reductions import reduce as reduce
from fgrad.lax.reductions import reduce_and as reduce_and
from fgrad.lax.reductions import reduce_max as reduce_max
from fgrad.lax.reductions import reduce_min as reduce_min
from fgrad.lax.reductions import reduce_or as reduce_or
from fgrad.lax.reductions import reduce_prod as reduce_prod
from fgrad.lax.reductions import reduce_sum as reduce_sum
from fgrad.lax.reductions import reduce_xor as reduce_xor
from fgrad.lax.scans import scan as scan
from fgrad.lax.shapes import bitcast_convert_type as bitcast_convert_type
from fgrad.lax.shapes import broadcast as broadcast
from fgrad.lax.shapes import broadcast_in_dim as broadcast_in_dim
from fgrad.lax.shapes import broadcast_like as broadcast_like
from fgrad.lax.shapes import broadcast_shapes as broadcast_shapes
from fgrad.lax.shapes import broadcast_to_rank as broadcast_to_rank
from fgrad.lax.shapes import broadcasted_iota as broadcasted_iota
from fgrad.lax.shapes import collapse as collapse
from fgrad.lax.shapes import concatenate as concatenate
from fgrad.lax.shapes import convert_element_type as convert_element_type
from fgrad.lax.shapes import dtype as dtype
from fgrad.lax.shapes import empty as empty
from fgrad.lax.shapes import expand_dims as expand_dims
from fgrad.lax.shapes import full as full
from fgrad.lax.shapes import full_like as full_like
from fgrad.lax.shapes import iota as iota
from fgrad.lax.shapes import pad as pad
from fgrad.lax.shapes import reshape as reshape
from fgrad.lax.shapes import rev as rev
from fgrad.lax.shapes import split as split
from fgrad.lax.shapes import squeeze as squeeze
from fgrad.lax.shapes import stack as stack
from fgrad.lax.shapes import tile as tile
from fgrad.lax.shapes import transpose as transpose
from fgrad.lax.shapes import unstack as unstack
from fgrad.lax.slices import dynamic_index_in_dim as dynamic_index_in_dim
from fgrad.lax.slices import dynamic_slice as dynamic_slice
from fgrad.lax.slices import dynamic_slice_in_dim as dynamic_slice_in_dim
from fgrad.lax.slices import dynamic_update_index_in_dim as dynamic_update_index_in_dim
from fgrad.lax.slices import dynamic_update_slice as dynamic_update_slice
from fgrad.lax.slices import dynamic_update_slice_in_dim as dynamic_update_slice_in_dim
from fgrad.lax.slices import index_in_dim as index_in_dim
from fgrad.lax.slices import slice as slice
from fgrad.lax.slices import slice_in_dim as slice_in_dim
from fgrad.lax.special import bessel_i0e as bessel_i0e
from fgrad.lax.special import bessel_i1e as bessel_i1e
from fgrad.lax.special import betainc as betainc
from fgrad.lax.special import igamma as igamma
from fgrad.lax.special import igamma_grad_a as igamma_grad_a
from fgrad.lax.special import igammac as igammac
from fgrad.lax.special import polygamma as polygamma
from fgrad.lax.special import random_gamma_grad as random_gamma_grad
from fgrad.lax.special import zeta as zeta
from fgrad.lax.windows import padtype_to_pads as padtype_to_pads
from fgrad.lax.windows import reduce_window as reduce_window
from fgrad.lax.windows import reduce_window_shape_tuple as reduce_window_shape_tuple
from fgrad.trace.frames import trim_public

__all__ = [
    "ConvDimensionNumbers", "DotDimensionNumbers", "GatherDimensionNumbers", "GatherScatterMode", "FftType",
    "Precision", "RoundingMethod", "ScatterDimensionNumbers", "abs", "acos", "acosh", "add", "all_gather", "all_to_all",
    "approx_max_k", "approx_min_k", "argmax", "argmin", "asin", "asinh", "associative_scan", "atan", "atan2",
    "atanh", "axis_index", "axis_size", "batch_matmul", "bessel_i0e", "bessel_i1e", "betainc",
    "bitcast_convert_type", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast",
    "broadcast_in_dim", "broadcast_like", "broadcast_shapes", "broadcast_to_rank", "broadcasted_iota", "cbrt",
    "ceil", "clamp", "clz", "collapse", "complex", "concatenate", "cond", "conj", "conv",
    "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local", "conv_general_dilated_patches",
    "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose",
    "conv_transpose_shape_tuple",
    "conv_with_general_padding", "convert_element_type", "cos", "cosh", "cumlogsumexp", "cummax", "cummin",
    "cumprod", "cumsum", "custom_linear_solve", "custom_root", "digamma", "div", "dot", "dot_general",
    "dtype", "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "empty", "eq", "erf", "erf_inv", "erfc", "exp",
    "exp2", "expand_dims", "expm1", "floor", "fft", "fori_loop", "full", "full_like", "gather", "ge", "gt", "igamma",
    "igamma_grad_a", "igammac", "imag", "index_in_dim", "index_take", "integer_pow", "iota", "is_finite",
    "le", "lgamma", "linalg", "log", "log1p", "logistic", "lt", "map", "max", "min", "mul", "mulhi", "ne", "neg",
    "nextafter", "optimization_barrier", "pad", "padtype_to_pads", "platform_dependent", "pmax", "pmean",
    "pmin", "polygamma", "population_count", "pow", "ppermute", "pshuffle", "psum", "psum_scatter",
    "pswapaxes", "ragged_dot", "ragged_dot_general", "random_gamma_grad", "real", "reciprocal", "reduce", "reduce_and",
    "reduce_max", "reduce_min", "reduce_or", "reduce_precision", "reduce_prod", "reduce_sum", "reduce_window",
    "reduce_window_shape_tuple", "reduce_xor", "rem", "reshape", "rev", "rng_bit_generator", "round", "rsqrt", "scan",
    "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub", "select",
    "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "slice",
    "slice_in_dim", "sort", "sort_key_val", "split", "sqrt", "square", "squeeze", "stack", "stop_gradient",
    "sub", "switch", "tan", "tanh", "tile", "top_k", "transpose", "unstack", "while_loop", "zeta",
]  # fmt: skip

trim_public(globals(), __all__)
