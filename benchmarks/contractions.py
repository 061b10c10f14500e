"""Matrix products and what is made of them: attention, convolution."""

import math

import numpy as np

from benchmarks.work import Library, Run, Work, numbers


def product(name: str, target: float, left: tuple[int, ...], right: tuple[int, ...]) -> Work:
    """The product of two arrays of these shapes, the leading axes batched."""

    def operands() -> tuple[np.ndarray, np.ndarray]:
        return numbers(*left), numbers(*right, seed=1)

    def build(lib: Library) -> Run:
        f = lib.jit(lambda a, b: lib.np.matmul(a, b))
        a, b = map(lib.array, operands())
        return lambda: f(a, b)

    def torch_run() -> Run:
        import torch

        a, b = map(torch.from_numpy, operands())
        return lambda: torch.matmul(a, b)

    def numpy_run() -> Run:
        a, b = operands()
        return lambda: np.matmul(a, b)

    columns = right[-1] if len(right) > 1 else 1
    return Work(name, target, build, torch_run, numpy_run, flops=2.0 * math.prod(left) * columns)


BATCH, HEADS, LENGTH, DEPTH = 4, 8, 256, 64


def attention_operands() -> list[np.ndarray]:
    return [numbers(BATCH, HEADS, LENGTH, DEPTH, seed=i) for i in range(3)]


def attention(lib: Library) -> Run:
    def f(q, k, v):
        scores = lib.np.matmul(q, lib.np.swapaxes(k, -1, -2)) / math.sqrt(DEPTH)
        return lib.np.matmul(lib.nn.softmax(scores, axis=-1), v)

    compiled = lib.jit(f)
    args = [lib.array(a) for a in attention_operands()]
    return lambda: compiled(*args)


def attention_torch() -> Run:
    import torch

    q, k, v = map(torch.from_numpy, attention_operands())
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


IMAGE, FILTER = (32, 32, 32, 16), (3, 3, 16, 32)  # NHWC, HWIO
CONVOLUTION_FLOPS = 2.0 * 32 * 32 * 32 * 32 * 3 * 3 * 16


def convolve(lib: Library):
    return lambda x, w: lib.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def convolution(lib: Library) -> Run:
    f = lib.jit(convolve(lib))
    x, w = lib.array(numbers(*IMAGE)), lib.array(numbers(*FILTER, seed=1))
    return lambda: f(x, w)


def torch_operands():
    """PyTorch's axis order, with the image stored as in NHWC, which it calls channels_last."""
    import torch

    x = torch.from_numpy(numbers(*IMAGE)).permute(0, 3, 1, 2)
    w = torch.from_numpy(numbers(*FILTER, seed=1)).permute(3, 2, 0, 1).contiguous()
    return x, w.to(memory_format=torch.channels_last)


def convolution_torch() -> Run:
    import torch

    x, w = torch_operands()
    return lambda: torch.nn.functional.conv2d(x, w, padding=1)


def weight_gradient(lib: Library) -> Run:
    convolved = convolve(lib)
    f = lib.jit(lambda x, w, ct: lib.vjp(lambda w: convolved(x, w), w)[1](ct)[0])
    x, w = lib.array(numbers(*IMAGE)), lib.array(numbers(*FILTER, seed=1))
    ct = lib.array(numbers(32, 32, 32, 32, seed=2))
    return lambda: f(x, w, ct)


def weight_gradient_torch() -> Run:
    import torch

    x, w = torch_operands()
    ct = torch.from_numpy(numbers(32, 32, 32, 32, seed=2)).permute(0, 3, 1, 2)
    return lambda: torch.nn.grad.conv2d_weight(x, w.shape, ct, padding=1)


WORK = (
    product("matmul 64", 0.9, (64, 64), (64, 64)),
    product("matmul 128", 0.9, (128, 128), (128, 128)),
    product("matmul 1024", 1.1, (1024, 1024), (1024, 1024)),
    product("matmul 1000x333x777", 1.0, (1000, 333), (333, 777)),
    product("matrix-vector 4096", 1.0, (4096, 4096), (4096,)),
    product("batched matmul 32x128x128", 0.8, (32, 128, 128), (32, 128, 128)),
    Work(
        "attention 4x8x256x64",
        0.8,
        attention,
        attention_torch,
        flops=4.0 * BATCH * HEADS * LENGTH * LENGTH * DEPTH,
    ),
    Work(
        "conv 3x3 NHWC 32x32x32x16->32",
        0.6,
        convolution,
        convolution_torch,
        flops=CONVOLUTION_FLOPS,
    ),
    Work(
        "conv weight gradient",
        0.8,
        weight_gradient,
        weight_gradient_torch,
        flops=CONVOLUTION_FLOPS,
    ),
)
