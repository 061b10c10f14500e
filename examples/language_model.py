"""A transformer that writes, letter by letter, in the style of the Python language reference: the text is the one
that `help()` shows and that ships with Python (`pydoc_data.topics`), a tenth of it held out.

    python examples/language_model.py            # about a minute
    python examples/language_model.py --quick    # a few steps, to see that everything runs

Shows layers stacked by `vmap` and run by `scan`, causal attention, `optim.chain`, donated parameters, batches that are
drawn inside the compiled step, and text drawn by a compiled loop. The held-out score is compared with models that count
letters, pairs and triples of letters.
"""

import argparse
import math
import sys
import time
from pydoc_data.topics import topics

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import jit, lax, nn, optim, random, tree, value_and_grad, vmap

LENGTH, WIDTH, HEADS, LAYERS, BATCH = 64, 96, 4, 2, 16


def load():
    """-> letters int32[n] for training and for testing, and the alphabet.

    Topics quote each other, so every paragraph is kept once: none is on both sides.
    """
    paragraphs = dict.fromkeys(p for name in sorted(topics) for p in topics[name].split("\n\n"))
    text = "\n\n".join(paragraphs).encode("ascii", "ignore").decode()
    alphabet = sorted(set(text))
    place = {letter: i for i, letter in enumerate(alphabet)}
    codes = np.array([place[letter] for letter in text], np.int32)
    border = len(codes) * 9 // 10
    return codes[:border], codes[border:], alphabet


def counted(train, test, order, size):
    """Bits per letter on `test` of a model that counts letters after their `order` predecessors in `train`.

    The counts are smoothed with the next shorter context's prediction, so that nothing has probability zero.
    """
    p = np.full(len(test) - order, 1 / size)
    for n in range(order + 1):
        window = np.lib.stride_tricks.sliding_window_view
        weights = size ** np.arange(n, -1, -1)
        seen, asked = window(train, n + 1) @ weights, window(test[order - n :], n + 1) @ weights
        joint = np.bincount(seen, minlength=size ** (n + 1))
        context = joint.reshape(-1, size).sum(1)
        p = (joint[asked] + 2 * p) / (context[asked // size] + 2)
    return -np.log2(p).mean()


def init(key, size):
    k_embed, k_place, k_layers = random.split(key, 3)

    def layer(key):
        k1, k2, k3, k4 = random.split(key, 4)
        return {
            "norm1": fnp.ones(WIDTH),
            "qkv": random.normal(k1, (WIDTH, 3 * WIDTH)) * WIDTH**-0.5,
            "out": random.normal(k2, (WIDTH, WIDTH)) * (2 * LAYERS * WIDTH) ** -0.5,
            "norm2": fnp.ones(WIDTH),
            "up": random.normal(k3, (WIDTH, 4 * WIDTH)) * WIDTH**-0.5,
            "down": random.normal(k4, (4 * WIDTH, WIDTH)) * (8 * LAYERS * WIDTH) ** -0.5,
        }

    return {
        "embed": random.normal(k_embed, (size, WIDTH)) * WIDTH**-0.5,
        "place": random.normal(k_place, (LENGTH, WIDTH)) * WIDTH**-0.5,
        "layers": vmap(layer)(random.split(k_layers, LAYERS)),  # every leaf has a leading axis of layers
        "norm": fnp.ones(WIDTH),
    }


def normalize(x, scale):
    """Root-mean-square normalization over the last axis."""
    return x * lax.rsqrt(fnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def transformer(params, letters):
    """letters int[b, t] -> logits f32[b, t, size] of the letter that follows."""
    b, t = letters.shape

    def layer(x, p):
        qkv = normalize(x, p["norm1"]) @ p["qkv"]
        q, k, v = (part.reshape(b, t, HEADS, -1) for part in fnp.split(qkv, 3, axis=-1))
        x = x + nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, WIDTH) @ p["out"]
        return x + nn.gelu(normalize(x, p["norm2"]) @ p["up"]) @ p["down"], None

    x = params["embed"][letters] + params["place"][:t]
    x, _ = lax.scan(layer, x, params["layers"])
    return normalize(x, params["norm"]) @ params["embed"].T


def loss(params, windows):
    """windows int[b, LENGTH + 1] -> mean negative log-probability of the letters, in nats."""
    log_p = nn.log_softmax(transformer(params, windows[:, :-1]))
    return -fnp.mean(fnp.take_along_axis(log_p, windows[:, 1:, None], axis=-1))


@jit
def score(params, text):
    """Bits per letter on consecutive windows of `text`."""
    count = (len(text) - 1) // LENGTH // BATCH * BATCH
    starts = fnp.arange(count).reshape(-1, BATCH, 1) * LENGTH
    windows = text[starts + fnp.arange(LENGTH + 1)]
    return fnp.mean(lax.map(lambda w: loss(params, w), windows)) / math.log(2)


@jit
def write(params, key, letters):
    """letters int[LENGTH] -> int[600] that follow, drawn from the model."""

    def step(letters, key):
        logits = transformer(params, letters[None])[0, -1]
        letter = random.categorical(key, logits / 0.7).astype(letters.dtype)
        return fnp.concatenate([letters[1:], letter[None]]), letter

    return lax.scan(step, letters, random.split(key, 600))[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few steps only")
    args = parser.parse_args()
    steps, report = (120, 40) if args.quick else (1500, 100)
    train, test, alphabet = load()
    params = init(random.key(0), len(alphabet))
    count = sum(leaf.size for leaf in tree.leaves(params))
    print(f"fgrad {fg.__version__}, {len(train)} letters of {len(alphabet)} kinds, {count} parameters")
    rate = optim.warmup_cosine_decay_schedule(0.0, 6e-3, steps // 10, steps, 3e-4)
    adam = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(rate, b2=0.98, weight_decay=0.05))
    text = fnp.asarray(train)

    def step(params, state, key, text):
        starts = random.randint(key, (BATCH,), 0, len(text) - LENGTH)
        windows = vmap(lambda i: lax.dynamic_slice(text, (i,), (LENGTH + 1,)))(starts)
        value, gradient = value_and_grad(loss)(params, windows)
        updates, state = adam.update(gradient, state, params)
        return optim.apply_updates(params, updates), state, value

    step = jit(step, donate_argnums=(0, 1))
    state = adam.init(params)
    keys = random.split(random.key(1), steps)
    begin = time.perf_counter()
    params, state, value = step(params, state, keys[0], text)
    value.block_until_ready()
    print(f"first step {time.perf_counter() - begin:.1f} s, most of it compilation")
    begin, values = time.perf_counter(), []
    for i in range(1, steps):
        params, state, value = step(params, state, keys[i], text)
        values.append(value)
        if (i + 1) % report == 0:
            mean = np.mean([float(v) for v in values]) / math.log(2)
            took = 1e3 * (time.perf_counter() - begin) / len(values)
            print(f"step {i + 1:5}   {mean:.3f} bits per letter   {took:.1f} ms per step", flush=True)
            begin, values = time.perf_counter(), []
    result = float(score(params, test))
    counts = [counted(train, test, order, len(alphabet)) for order in range(3)]
    print("held out: {:.3f} by letters, {:.3f} by pairs, {:.3f} by triples".format(*counts))
    print(f"held out: {result:.3f} bits per letter by the transformer")
    drawn = write(params, random.key(2), fnp.asarray(test[:LENGTH]))
    print("-" * 80 + "\n" + "".join(alphabet[i] for i in drawn.tolist()) + "\n" + "-" * 80)
    if result > counts[0 if args.quick else 2]:
        sys.exit("the transformer does not learn")


if __name__ == "__main__":
    main()
