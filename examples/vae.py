"""A variational autoencoder of the handwritten digits that scikit-learn ships.

    python examples/vae.py            # about half a minute
    python examples/vae.py --quick    # a few epochs, to see that everything runs

A pixel of these images is the number of dark dots in a 4x4 block, so its likelihood is binomial with 16 trials and the
evidence lower bound is a true bound in nats per image. It is compared with the exact likelihood of independent
pixels, and with the tighter bound of many importance samples. Shows keys that are split and folded, `vmap` over
examples and over samples, special functions, a whole epoch in one `scan`.
"""

import argparse
import math
import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import jit, lax, nn, optim, random, value_and_grad, vmap
from fgrad.scipy.special import gammaln, logsumexp

TRIALS, PIXELS, HIDDEN, LATENT, BATCH = 16, 64, 128, 8, 64


def init(key, sizes):
    """Dense layers between `sizes`."""
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (m, n)) * m**-0.5, "b": fnp.zeros(n)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def dense(layers, x):
    for layer in layers[:-1]:
        x = nn.gelu(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def encode(params, x):
    """Counts f32[64] -> mean and logarithm of the standard deviation of the latent variables, f32[8] each."""
    mean, log_std = fnp.split(dense(params["encoder"], x / TRIALS - 0.3), 2)
    return mean, log_std


def log_binomial(x, logits):
    """log p(x) of counts of TRIALS, summed over pixels."""
    choose = gammaln(TRIALS + 1.0) - gammaln(x + 1.0) - gammaln(TRIALS - x + 1.0)
    return fnp.sum(choose + x * nn.log_sigmoid(logits) + (TRIALS - x) * nn.log_sigmoid(-logits))


def log_normal(z, mean, log_std):
    return fnp.sum(-0.5 * ((z - mean) * fnp.exp(-log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi))


def log_weight(params, key, x):
    """log p(x, z) - log q(z | x) for one z drawn from q: its mean is the evidence lower bound."""
    mean, log_std = encode(params, x)
    z = mean + fnp.exp(log_std) * random.normal(key, mean.shape)
    log_joint = log_binomial(x, dense(params["decoder"], z)) + log_normal(z, 0.0, fnp.zeros(LATENT))
    return log_joint - log_normal(z, mean, log_std)


def loss(params, key, batch):
    keys = random.split(key, len(batch))
    return -fnp.mean(vmap(log_weight, in_axes=(None, 0, 0))(params, keys, batch))


@jit
def bounds(params, key, images):
    """-> (evidence lower bound, bound of 64 importance samples), nats per image."""

    def one(key, x):
        w = vmap(log_weight, in_axes=(None, 0, None))(params, random.split(key, 64), x)
        return fnp.mean(w), logsumexp(w) - math.log(64)

    elbo, tighter = vmap(one)(random.split(key, len(images)), images)
    return fnp.mean(elbo), fnp.mean(tighter)


def independent(train, test):
    """Mean log-likelihood of `test` when every pixel has a probability of its own."""
    p = (train.mean(0) * len(train) + 1) / (TRIALS * len(train) + 2)
    return np.mean([float(log_binomial(x, np.log(p / (1 - p)))) for x in test[:100].astype(np.float64)])


def show(rows):
    """Images in a row each, as characters."""
    for images in rows:
        shades = np.clip(np.asarray(images).reshape(-1, 8, 8) * 9.99 / TRIALS, 0, 9).astype(int)
        for line in np.moveaxis(shades, 1, 0):
            print("   ".join("".join(" .:-=+*#%@"[v] * 2 for v in image) for image in line))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few epochs only")
    args = parser.parse_args()
    epochs, report = (10, 5) if args.quick else (200, 20)
    images = load_digits().data.astype(np.float32)
    train, test = train_test_split(images, test_size=0.25, random_state=0)
    print(f"fgrad {fg.__version__}, {len(train)} images for training, {len(test)} for testing")
    k_encoder, k_decoder, k_train, k_test, k_draw = random.split(random.key(0), 5)
    params = {
        "encoder": init(k_encoder, (PIXELS, HIDDEN, HIDDEN, 2 * LATENT)),
        "decoder": init(k_decoder, (LATENT, HIDDEN, HIDDEN, PIXELS)),
    }
    steps = len(train) // BATCH
    adam = optim.adam(optim.cosine_decay_schedule(2e-3, epochs * steps))

    @jit
    def epoch(params, state, key, images):
        """One pass over the shuffled images."""
        k_order, k_noise = random.split(key)
        order = random.permutation(k_order, len(images))[: steps * BATCH]

        def step(carry, inputs):
            params, state = carry
            value, gradient = value_and_grad(loss)(params, *inputs)
            updates, state = adam.update(gradient, state, params)
            return (optim.apply_updates(params, updates), state), value

        batches = images[order.reshape(steps, BATCH)]
        (params, state), values = lax.scan(step, (params, state), (random.split(k_noise, steps), batches))
        return params, state, fnp.mean(values)

    state = adam.init(params)
    data = fnp.asarray(train)
    for i in range(epochs):
        params, state, value = epoch(params, state, random.fold_in(k_train, i), data)
        if (i + 1) % report == 0:
            print(f"epoch {i + 1:4}   bound on the training images {-float(value):.2f} nats per image", flush=True)
    elbo, tighter = map(float, bounds(params, k_test, test))
    base = independent(train, test)
    print(f"held out: evidence lower bound {elbo:.2f}, of 64 importance samples {tighter:.2f} nats per image")
    print(f"held out: independent pixels {base:.2f} nats per image")
    print("four held-out images, what the autoencoder makes of them, and four images it invents")
    means = vmap(lambda x: encode(params, x)[0])(test[:4])
    decode = jit(vmap(lambda z: TRIALS * nn.sigmoid(dense(params["decoder"], z))))
    show([test[:4], decode(means), decode(random.normal(k_draw, (4, LATENT)))])
    if not base < elbo < tighter < 0 or (not args.quick and elbo < base + 40):
        sys.exit("the autoencoder does not learn")


if __name__ == "__main__":
    main()
