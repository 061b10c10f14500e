"""Loops inside a program, and derivatives of derivatives."""

import numpy as np

from benchmarks.work import Library, Run, Work, numbers

STEPS, BATCH, WIDTH = 200, 8, 64


def short_body(lib: Library) -> Run:
    """A thousand steps of nothing much: the cost of a step itself."""

    def f(x):
        return lib.lax.scan(lambda carry, _: (carry * 0.99 + 0.01, None), x, None, length=1000)[0]

    compiled = lib.jit(f)
    x = lib.array(numbers(16))
    return lambda: compiled(x)


def rnn_arguments() -> list[np.ndarray]:
    small = np.float32(WIDTH**-0.5)
    return [
        numbers(WIDTH, WIDTH, seed=1) * small,
        numbers(WIDTH, WIDTH, seed=2) * small,
        numbers(STEPS, BATCH, WIDTH),
    ]


def rnn_loss(lib: Library):
    def loss(w, u, xs):
        def cell(h, x):
            h = lib.np.tanh(h @ w + x @ u)
            return h, h

        start = lib.np.zeros((BATCH, WIDTH), dtype=lib.np.float32)
        return lib.np.mean(lib.lax.scan(cell, start, xs)[1] ** 2)

    return loss


def rnn(lib: Library) -> Run:
    f = lib.jit(rnn_loss(lib))
    args = [lib.array(a) for a in rnn_arguments()]
    return lambda: f(*args)


def rnn_gradient(lib: Library) -> Run:
    f = lib.jit(lib.grad(rnn_loss(lib), argnums=(0, 1)))
    args = [lib.array(a) for a in rnn_arguments()]
    return lambda: f(*args)


def torch_rnn(gradient: bool) -> Run:
    import torch

    w, u, xs = map(torch.from_numpy, rnn_arguments())
    w.requires_grad_(gradient)
    u.requires_grad_(gradient)

    def forward():
        h, total = torch.zeros(BATCH, WIDTH), torch.zeros(())
        for x in xs @ u:
            h = torch.tanh(h @ w + x)
            total = total + (h**2).sum()
        return total / xs.numel()

    if not gradient:
        return forward
    return lambda: torch.autograd.grad(forward(), (w, u))


def hessian(lib: Library) -> Run:
    def f(x):
        return lib.np.sum(lib.np.tanh(x[:, None] * x[None, :]) * lib.np.exp(-x * x))

    compiled = lib.jit(lib.hessian(f))
    x = lib.array(numbers(32))
    return lambda: compiled(x)


def hessian_torch() -> Run:
    import torch

    def f(x):
        return torch.sum(torch.tanh(x[:, None] * x[None, :]) * torch.exp(-x * x))

    compute = torch.func.hessian(f)
    x = torch.from_numpy(numbers(32))
    return lambda: compute(x)


WORK = (
    Work("scan 1000 steps of 16", 1.0, short_body),
    Work("RNN scan 200x8x64 forward", 0.7, rnn, lambda: torch_rnn(False)),
    Work("RNN scan 200x8x64 gradient", 0.7, rnn_gradient, lambda: torch_rnn(True)),
    Work("hessian, 32 dims", 0.5, hessian, hessian_torch),
)
