"""Train two classifiers on the handwritten digits that scikit-learn ships: a multilayer perceptron and a small
convolutional network. 1797 images of 8x8 pixels, a quarter of them held out.

    python examples/digits.py            # about a minute
    python examples/digits.py --quick    # a few steps, to see that everything runs

Shows `jit(value_and_grad(..))`, `vmap` for work that is written for one example, and `optim.adam`.
"""

import argparse
import sys
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import jit, lax, nn, optim, random, value_and_grad, vmap


def load():
    """-> images f32[n, 8, 8, 1] in 0..1 and labels int64[n], for training and for testing."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    return train_test_split(images, digits.target, test_size=0.25, random_state=0, stratify=digits.target)


def dense(key, n_in, n_out):
    """Parameters of a dense layer, scaled for relu."""
    return {"w": random.normal(key, (n_in, n_out)) * (2.0 / n_in) ** 0.5, "b": fnp.zeros(n_out)}


def init_mlp(key):
    k1, k2, k3 = random.split(key, 3)
    return [dense(k1, 64, 128), dense(k2, 128, 64), dense(k3, 64, 10)]


def mlp(params, image):
    """One image f32[8, 8, 1] -> logits f32[10]."""
    x = image.reshape(-1)
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def init_conv(key):
    k1, k2, k3 = random.split(key, 3)
    return {
        "conv1": {"w": random.normal(k1, (3, 3, 1, 16)) * (2.0 / 9) ** 0.5, "b": fnp.zeros(16)},
        "conv2": {"w": random.normal(k2, (3, 3, 16, 32)) * (2.0 / 144) ** 0.5, "b": fnp.zeros(32)},
        "out": dense(k3, 2 * 2 * 32, 10),
    }


def convolve(x, layer, stride):
    y = lax.conv_general_dilated(x, layer["w"], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return nn.relu(y + layer["b"])


def conv(params, image):
    """One image f32[8, 8, 1] -> logits f32[10]."""
    x = convolve(image[None], params["conv1"], 2)
    x = convolve(x, params["conv2"], 2)
    return x.reshape(-1) @ params["out"]["w"] + params["out"]["b"]


def train(name, net, params, data, *, epochs, batch=128, rate=3e-3, seed=1):
    """Train `net` and print its accuracy on the held-out images and the time of a step."""
    train_x, test_x, train_y, test_y = data
    predict = vmap(net, in_axes=(None, 0))  # written for one image, used on batches
    steps = len(train_x) // batch
    adam = optim.adam(optim.cosine_decay_schedule(rate, epochs * steps))

    def loss(params, x, y):
        log_p = nn.log_softmax(predict(params, x))
        return -fnp.mean(fnp.take_along_axis(log_p, y[:, None], axis=1))

    @jit
    def step(params, state, x, y):
        value, gradient = value_and_grad(loss)(params, x, y)
        updates, state = adam.update(gradient, state, params)
        return optim.apply_updates(params, updates), state, value

    @jit
    def accuracy(params, x, y):
        return fnp.mean(fnp.argmax(predict(params, x), axis=1) == y)

    state = adam.init(params)
    order = np.random.default_rng(seed)
    begin = time.perf_counter()
    params, state, value = step(params, state, train_x[:batch], train_y[:batch])
    value.block_until_ready()
    compile_time = time.perf_counter() - begin
    busy = 0.0
    for epoch in range(epochs):
        shuffled = order.permutation(len(train_x))
        begin = time.perf_counter()
        for i in range(steps):
            rows = shuffled[i * batch : (i + 1) * batch]
            params, state, value = step(params, state, train_x[rows], train_y[rows])
        value.block_until_ready()
        busy += time.perf_counter() - begin
        done = (epoch + 1) * 30 // epochs
        if sys.stdout.isatty():
            print(f"\r{name:5} [{'#' * done}{'.' * (30 - done)}] loss {float(value):.4f}", end="", flush=True)
    if sys.stdout.isatty():
        print()
    score = float(accuracy(params, test_x, test_y))
    print(
        f"{name:5} test accuracy {score:.4f}   {1e6 * busy / (epochs * steps):.0f} us per step of {batch} images"
        f"   first call {compile_time:.2f} s"
    )
    return score


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few epochs only")
    args = parser.parse_args()
    data = load()
    key1, key2 = random.split(random.key(0))
    print(f"fgrad {fg.__version__}, {len(data[0])} images for training, {len(data[1])} for testing")
    scores = [
        train("mlp", mlp, init_mlp(key1), data, epochs=6 if args.quick else 100),
        train("conv", conv, init_conv(key2), data, epochs=6 if args.quick else 100),
    ]
    if min(scores) < (0.85 if args.quick else 0.95):
        sys.exit("the networks do not learn")


if __name__ == "__main__":
    main()
