"""Whole training steps: a tiny network, a network for digits, a transformer."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.work import Library, Run, Work, numbers

Step = Callable[..., Any]

TINY, TINY_BATCH = (16, 32, 32, 4), 32
MLP, MLP_BATCH = (784, 512, 512, 10), 128


def layers(sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Weights of a network with these layer sizes."""
    pairs = zip(sizes, sizes[1:], strict=False)
    return [numbers(m, n, seed=m + n) / np.float32(math.sqrt(m)) for m, n in pairs]


def labels(batch: int, classes: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, classes, batch).astype(np.int32)


def mlp_step(lib: Library, sizes: tuple[int, ...], batch: int) -> tuple[Step, tuple[Any, ...]]:
    """A step of gradient descent on the cross entropy, and its arguments."""

    def loss(params, x, y):
        for weights, bias in params[:-1]:
            x = lib.np.maximum(x @ weights + bias, 0)
        weights, bias = params[-1]
        logs = lib.nn.log_softmax(x @ weights + bias)
        return -lib.np.mean(lib.np.sum(logs * lib.nn.one_hot(y, sizes[-1]), axis=-1))

    def step(params, x, y):
        grads = lib.grad(loss)(params, x, y)
        return [
            (w - 0.01 * dw, b - 0.01 * db) for (w, b), (dw, db) in zip(params, grads, strict=True)
        ]

    params = [(lib.array(w), lib.array(np.zeros(w.shape[1], np.float32))) for w in layers(sizes)]
    x, y = lib.array(numbers(batch, sizes[0])), lib.array(labels(batch, sizes[-1]))
    return step, (params, x, y)


def mlp_run(sizes: tuple[int, ...], batch: int) -> Callable[[Library], Run]:
    def build(lib: Library) -> Run:
        step, (params, x, y) = mlp_step(lib, sizes, batch)
        compiled = lib.jit(step)
        state = [params]

        def run() -> object:
            state[0] = compiled(state[0], x, y)
            return state[0]

        return run

    return build


def mlp_torch(sizes: tuple[int, ...], batch: int) -> Callable[[], Run]:
    def build() -> Run:
        import torch

        modules: list[Any] = []
        for w in layers(sizes):
            linear = torch.nn.Linear(*w.shape)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(w.T))
                linear.bias.zero_()
            modules += [linear, torch.nn.ReLU()]
        model = torch.nn.Sequential(*modules[:-1])
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        x = torch.from_numpy(numbers(batch, sizes[0]))
        y = torch.from_numpy(labels(batch, sizes[-1])).long()

        def run() -> object:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            return None

        return run

    return build


LAYERS, WIDTH, HEADS, LENGTH, TOKENS, VOCABULARY = 2, 128, 4, 64, 8, 256


def block_shapes() -> dict[str, tuple[int, ...]]:
    return {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }


def transformer_params() -> dict[str, Any]:
    """Weights as NumPy arrays, in the tree that the step takes."""
    blocks = [
        {
            name: numbers(*shape, seed=i) / np.float32(math.sqrt(shape[0]))
            for name, shape in block_shapes().items()
        }
        for i in range(LAYERS)
    ]
    embedding = numbers(VOCABULARY, WIDTH) * np.float32(0.1)
    position = numbers(LENGTH, WIDTH) * np.float32(0.1)
    return {"embedding": embedding, "position": position, "blocks": blocks}


def tokens() -> np.ndarray:
    generator = np.random.default_rng(2)
    return generator.integers(0, VOCABULARY, (TOKENS, LENGTH + 1)).astype(np.int32)


def transformer_step(lib: Library) -> tuple[Step, tuple[Any, ...]]:
    """A step of gradient descent of a causal transformer, and its arguments."""
    fnp, nn = lib.np, lib.nn

    def norm(x):
        mean = fnp.mean(x, axis=-1, keepdims=True)
        return (x - mean) / fnp.sqrt(fnp.var(x, axis=-1, keepdims=True) + 1e-5)

    def heads(x):
        split = fnp.reshape(x, (TOKENS, LENGTH, HEADS, WIDTH // HEADS))
        return fnp.transpose(split, (0, 2, 1, 3))

    def attend(block, x):
        q, k, v = map(heads, fnp.split(x @ block["qkv"], 3, axis=-1))
        scores = q @ fnp.swapaxes(k, -1, -2) / math.sqrt(WIDTH // HEADS)
        causal = fnp.tril(fnp.ones((LENGTH, LENGTH), dtype=bool))
        weights = nn.softmax(fnp.where(causal, scores, -1e9), axis=-1)
        mixed = fnp.reshape(fnp.transpose(weights @ v, (0, 2, 1, 3)), (TOKENS, LENGTH, WIDTH))
        return mixed @ block["out"]

    def loss(params, text):
        x = params["embedding"][text[:, :-1]] + params["position"]
        for block in params["blocks"]:
            x = x + attend(block, norm(x))
            x = x + nn.gelu(norm(x) @ block["up"]) @ block["down"]
        logs = nn.log_softmax(norm(x) @ params["embedding"].T, axis=-1)
        return -fnp.mean(fnp.take_along_axis(logs, text[:, 1:, None], axis=-1))

    def step(params, text):
        grads = lib.grad(loss)(params, text)
        return lib.root.tree_util.tree_map(lambda w, g: w - 0.01 * g, params, grads)

    params = lib.root.tree_util.tree_map(lib.array, transformer_params())
    return step, (params, lib.array(tokens()))


def transformer(lib: Library) -> Run:
    step, (params, text) = transformer_step(lib)
    compiled = lib.jit(step)
    state = [params]

    def run() -> object:
        state[0] = compiled(state[0], text)
        return state[0]

    return run


def transformer_torch() -> Run:
    import torch

    functional = torch.nn.functional
    tree = transformer_params()
    variables = [tree["embedding"], tree["position"]]
    variables += [block[name] for block in tree["blocks"] for name in block_shapes()]
    embedding, position, *weights = (torch.from_numpy(w).requires_grad_() for w in variables)
    optimizer = torch.optim.SGD([embedding, position, *weights], 0.01)
    text = torch.from_numpy(tokens()).long()

    def norm(x):
        return functional.layer_norm(x, (WIDTH,))

    def heads(x):
        return x.view(TOKENS, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

    def run() -> object:
        optimizer.zero_grad()
        x = functional.embedding(text[:, :-1], embedding) + position
        for i in range(LAYERS):
            qkv, out, up, down = weights[4 * i : 4 * i + 4]
            q, k, v = map(heads, (norm(x) @ qkv).split(WIDTH, dim=-1))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + mixed.transpose(1, 2).reshape(TOKENS, LENGTH, WIDTH) @ out
            x = x + functional.gelu(norm(x) @ up, approximate="tanh") @ down
        scores = norm(x) @ embedding.T
        goal = text[:, 1:].reshape(-1)
        functional.cross_entropy(scores.reshape(-1, VOCABULARY), goal).backward()
        optimizer.step()
        return None

    return run


WORK = (
    Work(
        "tiny MLP train step (16-32-32-4)",
        0.4,
        mlp_run(TINY, TINY_BATCH),
        mlp_torch(TINY, TINY_BATCH),
    ),
    Work(
        "MLP train step 784-512-512-10, batch 128",
        0.7,
        mlp_run(MLP, MLP_BATCH),
        mlp_torch(MLP, MLP_BATCH),
        flops=6.0 * MLP_BATCH * sum(m * n for m, n in zip(MLP, MLP[1:], strict=False)),
    ),
    Work("transformer train step, 2 layers of 128", 0.45, transformer, transformer_torch),
)
