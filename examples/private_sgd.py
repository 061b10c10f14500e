"""Differentially private training: what the classifier learns hardly depends on any one image.

    python examples/private_sgd.py            # about half a minute
    python examples/private_sgd.py --quick    # a few steps, to see that everything runs

The gradient of each example is shortened to a norm of at most 1 (`vmap` of `grad`), their sum is hidden in Gaussian
noise, and the batch is drawn anew for each step: an image is in it with a probability of its own. The privacy spent is
the epsilon of (epsilon, delta)-differential privacy, from the Renyi divergences of the sampled Gaussian mechanism.

After M. Abadi et al., "Deep learning with differential privacy", 2016; the accountant is the sum over binomial terms in
section 3.3 of I. Mironov, K. Talwar, L. Zhang, "Renyi differential privacy of the sampled Gaussian mechanism", 2019.
"""

import argparse
import math
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import grad, jit, lax, nn, optim, random, tree, vmap
from fgrad.scipy.special import gammaln, logsumexp

SAMPLING, NOISE, NORM, DELTA = 0.1, 2.0, 1.0, 1e-4
MOST = 256  # rows for a batch of about 135 images: more are drawn once in 10^20 steps


def net(params, image):
    """One image f32[64] -> logits f32[10]."""
    return nn.relu(image @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def init(key):
    k1, k2 = random.split(key)
    return {
        "w1": random.normal(k1, (64, 32)) * 0.2,
        "b1": fnp.zeros(32),
        "w2": random.normal(k2, (32, 10)) * 0.2,
        "b2": fnp.zeros(10),
    }


def loss(params, image, label):
    return -nn.log_softmax(net(params, image))[label]


def shortened(params, image, label):
    """The gradient of one example, at most NORM long."""
    slope = grad(loss)(params, image, label)
    length = optim.global_norm(slope)
    return tree.map(lambda g: g / fnp.maximum(1.0, length / NORM), slope)


def noisy_gradient(params, key, images, labels):
    """Sum of the shortened gradients of a random batch, with noise, over the expected size of the batch."""
    k_batch, k_noise = random.split(key)
    drawn = random.bernoulli(k_batch, SAMPLING, (len(images),))
    (rows,) = fnp.nonzero(drawn, size=MOST, fill_value=0)
    is_row = fnp.arange(MOST) < fnp.sum(drawn)
    slopes = vmap(shortened, in_axes=(None, 0, 0))(params, images[rows], labels[rows])
    total = tree.map(lambda g: fnp.tensordot(is_row.astype(g.dtype), g, 1), slopes)
    leaves, structure = tree.flatten(total)
    keys = random.split(k_noise, len(leaves))
    noisy = [g + NOISE * NORM * random.normal(k, g.shape) for g, k in zip(leaves, keys, strict=True)]
    return tree.map(lambda g: g / (SAMPLING * len(images)), tree.unflatten(structure, noisy))


@jit
def epsilon(steps):
    """The privacy spent in so many steps: the least that any order of divergence gives, float64."""
    orders = fnp.arange(2, 65, dtype=fnp.float64)
    k = fnp.arange(0, 65, dtype=fnp.float64)

    def spent(order):
        inside = k <= order
        rest = fnp.where(inside, order - k, 0.0)
        choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(rest + 1)
        terms = choose + rest * math.log1p(-SAMPLING) + k * math.log(SAMPLING) + k * (k - 1) / (2 * NOISE**2)
        divergence = logsumexp(fnp.where(inside, terms, -fnp.inf)) / (order - 1)
        return steps * divergence - math.log(DELTA) / (order - 1)

    return fnp.min(vmap(spent)(orders))


def check_clipping(params, images, labels):
    """The shortened gradients of a batch against those of one example at a time; -> the longest one's norm."""
    together = vmap(shortened, in_axes=(None, 0, 0))(params, images, labels)
    for i in range(len(images)):
        alone = grad(loss)(params, images[i], labels[i])
        length = np.sqrt(sum(float(fnp.sum(g**2)) for g in tree.leaves(alone)))
        for a, b in zip(tree.leaves(together), tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[i], np.asarray(b) / max(1, length / NORM), rtol=1e-4, atol=1e-6)
    return float(fnp.max(vmap(optim.global_norm)(together)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few steps only")
    args = parser.parse_args()
    steps, report, wanted = (100, 50, 0.7) if args.quick else (1000, 100, 0.85)
    digits = load_digits()
    images = (digits.data / 16 - 0.3).astype(np.float32)
    train_x, test_x, train_y, test_y = train_test_split(
        images, digits.target, test_size=0.25, random_state=0, stratify=digits.target
    )
    print(f"fgrad {fg.__version__}, {len(train_x)} images for training, {len(test_x)} for testing")
    params = init(random.key(0))
    longest = check_clipping(params, train_x[:10], train_y[:10])
    print(f"the gradients of ten examples are at most {longest:.4f} long")
    sgd = optim.sgd(optim.cosine_decay_schedule(0.5, steps), momentum=0.9)

    @jit
    def many(params, state, keys, images, labels):
        def step(carry, key):
            params, state = carry
            updates, state = sgd.update(noisy_gradient(params, key, images, labels), state, params)
            return (optim.apply_updates(params, updates), state), None

        return lax.scan(step, (params, state), keys)[0]

    @jit
    def accuracy(params, x, y):
        return fnp.mean(fnp.argmax(vmap(net, in_axes=(None, 0))(params, x), axis=1) == y)

    state = sgd.init(params)
    train_x, train_y = fnp.asarray(train_x), fnp.asarray(train_y)
    for i, keys in enumerate(random.split(random.key(1), (steps // report, report))):
        params, state = many(params, state, keys, train_x, train_y)
        score = float(accuracy(params, train_x, train_y))
        spent = float(epsilon((i + 1) * report))
        print(f"step {(i + 1) * report:5}   training accuracy {score:.4f}   epsilon {spent:.2f}", flush=True)
    score = float(accuracy(params, test_x, test_y))
    print(f"test accuracy {score:.4f} at ({spent:.2f}, {DELTA})-differential privacy")
    if score < wanted or longest > NORM * 1.0001:
        sys.exit("private training does not work")


if __name__ == "__main__":
    main()
