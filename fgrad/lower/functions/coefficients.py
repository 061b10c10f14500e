"""Minimax polynomials, lowest power first, as hexadecimal floats.

Each was found by a Remez exchange in 200-bit arithmetic and rounded to the format one coefficient
at a time from the lowest power, the rest refitted after each rounding. A set whose name ends in
`_low` is the low part of the first coefficient of its namesake.
"""

from functools import cache

_TEXT_24 = """
exp: 0x1p-1 0x1.555552p-3 0x1.5554e4p-5 0x1.1115bcp-7 0x1.6d5192p-10 0x1.9a896cp-13
exp_short: 0x1.fffffcp-2 0x1.55548cp-3 0x1.5558a2p-5 0x1.123d5p-7 0x1.6a5fbp-10
atanh: 0x1.999998p-2 0x1.2493acp-2 0x1.c6449ap-3 0x1.8fefa2p-3
log: 0x1.555548p-2 -0x1.00000ep-2 0x1.99a47p-3 -0x1.5558c8p-3 0x1.2339d6p-3 -0x1.fca042p-4
    0x1.e74cc4p-4 -0x1.db795ap-4 0x1.103576p-4
sin: -0x1.555556p-3 0x1.111162p-7 -0x1.a04576p-13 0x1.76f0a2p-19
cos: 0x1.555556p-5 -0x1.6c174ep-10 0x1.a0614p-16 -0x1.31f47ep-22
atan: -0x1.55554ap-2 0x1.9991dap-3 -0x1.23b8a6p-3 0x1.b21172p-4 -0x1.f27472p-5
asin: 0x1.55554cp-3 0x1.33389ep-4 0x1.6caa9ap-5 0x1.04b162p-5 0x1.d75c0ap-7 0x1.33eef4p-5
erf: -0x1.812746p-2 0x1.ce2eb8p-4 -0x1.b8165ap-6 0x1.5423b4p-8 -0x1.8b14ep-11
erfcx: 0x1.0dd508p+0 -0x1.9bfb54p-1 0x1.d0cedep-2 -0x1.5eb8dp-3 0x1.d0ab3cp-6 0x1.12f4ccp-7
    -0x1.3b9512p-8 -0x1.c2e23p-12 0x1.69982p-11 0x1.410a52p-15 -0x1.7390fep-14
erfcx_low: -0x1.ed4d82p-26
lgamma: 0x1.b0ee6p-2 0x1.4a34ccp-2 -0x1.13dffcp-4 0x1.5132d2p-6 -0x1.e40ff4p-8 0x1.7aa5c6p-9
    -0x1.36d05p-10 0x1.0e52dap-11 -0x1.0a92ccp-12 0x1.9e5e84p-14
lgamma_low: 0x1.c12d6cp-28
stirling: 0x1.555556p-4 -0x1.6c29fcp-9 0x1.aa7148p-11
digamma: 0x1.e6f0ccp-1 -0x1.b1cb62p-2 0x1.eca1a2p-3 -0x1.2fef7p-3 0x1.850a3ep-4 -0x1.fb15e8p-5
    0x1.4f0894p-5 -0x1.bdb3aap-6 0x1.14d18cp-6 -0x1.5f7832p-7 0x1.70d53ep-7 -0x1.0ca754p-7
digamma_low: -0x1.33bf2p-27
inverse_cbrt: 0x1.ab857ap+0 -0x1.2c41a2p+0 0x1.6415c6p-1 -0x1.c5175ep-3 0x1.d46e1cp-6
erfinv_centre: 0x1.c5bf8ap-1 0x1.db29f6p-3 0x1.7a75cep-7 -0x1.32398ap-9 -0x1.07fc5p-13
    0x1.742542p-15 0x1.ce139ep-19 -0x1.a1e82cp-20 0x1.3c0cbap-24 0x1.4e51dp-26 -0x1.88ec04p-29
    0x1.079fb4p-33
erfinv_centre_low: -0x1.bf0cecp-26
digamma_far: 0x1.555554p-4 -0x1.110a1p-7 0x1.013da6p-8 -0x1.abee6cp-9
erfinv_tail: 0x1.6a9efcp+1 0x1.006dcap+0 0x1.358268p-7 -0x1.f4e468p-8 0x1.749c82p-8 -0x1.d3531cp-9
    0x1.84ff88p-10 -0x1.07ffeap-13 -0x1.32d9c4p-12 0x1.65f108p-13 -0x1.53e6d2p-16 -0x1.c32fcap-18
erfinv_tail_low: -0x1.45828cp-26
"""

_TEXT_53 = """
exp: 0x1p-1 0x1.5555555555555p-3 0x1.5555555555558p-5 0x1.11111111112bfp-7 0x1.6c16c16c15003p-10
    0x1.a01a019f53cdfp-13 0x1.a01a01ad7cf06p-16 0x1.71de3d0238f02p-19 0x1.27e4cc12329ep-22
    0x1.ae5b847c7b34dp-26 0x1.1f8be2833279p-29 0x1.6c91103210537p-33
exp_short: 0x1p-1 0x1.555555555555cp-3 0x1.555555555553fp-5 0x1.111111110e9dbp-7
    0x1.6c16c16c2084cp-10 0x1.a01a01b4599f2p-13 0x1.a01a0172e3153p-16 0x1.71ddee2dff2cap-19
    0x1.27e548a23ebd7p-22 0x1.af6f0f856502bp-26 0x1.1ece9a0c8c91ap-29
atanh: 0x1.9999999999995p-2 0x1.249249249315ep-2 0x1.c71c71c561787p-3 0x1.745d183fa958ep-3
    0x1.3b135f745803fp-3 0x1.11212a02878a6p-3 0x1.de221d118583p-4 0x1.eb99bdde64f7ap-4
atanh_short: 0x1.5555555555594p-1 0x1.999999997f468p-2 0x1.249249427da69p-2 0x1.c71c518ffc7a7p-3
    0x1.74665944c45d7p-3 0x1.399eedc6a3239p-3 0x1.2f2303c48203ep-3
sin: -0x1.5555555555555p-3 0x1.111111111108ep-7 -0x1.a01a01a007bfp-13 0x1.71de3a419cca5p-19
    -0x1.ae643f93b1b36p-26 0x1.61164a481c116p-33 -0x1.a63e24a39bb3dp-41
cos: 0x1.5555555555549p-5 -0x1.6c16c16c14b6bp-10 0x1.a01a019c13932p-16 -0x1.27e4f79402f5dp-22
    0x1.1ee999beb2993p-29 -0x1.8f8339dba757fp-37
atan: -0x1.555555555553cp-2 0x1.99999999955f8p-3 -0x1.249249229d18dp-3 0x1.c71c70df6e724p-4
    -0x1.745cf8176e4eep-4 0x1.3b110b0d31a35p-4 -0x1.10eb14d72a81ep-4 0x1.df05d278c8efep-5
    -0x1.9ca754d4850c6p-5 0x1.3765ae2d40d8dp-5 -0x1.2471c10bce43bp-6
asin: 0x1.5555555555579p-3 0x1.333333332ddf8p-4 0x1.6db6db7232bf4p-5 0x1.f1c71a8a116ffp-6
    0x1.6e8bdfff47ac6p-6 0x1.1c49dcf4ee8f3p-6 0x1.ca2156bddd6c2p-7 0x1.7576f8bb4642fp-7
    0x1.618eb4dcc70b8p-7 0x1.e10bdd631fd83p-9 0x1.6521d085acd46p-6 -0x1.5a303306d8053p-6
    0x1.0bfad00a43047p-5
erf: -0x1.812746b0379e7p-2 0x1.ce2f21a042c09p-4 -0x1.b82ce312876f8p-6 0x1.565bcd0cf9755p-8
    -0x1.c02db3037351bp-11 0x1.f9a2cdadc3422p-14 -0x1.f4c0359c4dd07p-17 0x1.b7c0c5d5b27a7p-20
    -0x1.3bf6cd614589ap-23
erfcx: 0x1.0dd50785280a5p+0 -0x1.9bfb53c4039d6p-1 0x1.d0cedcb8c904fp-2 -0x1.5eb8eba1dff26p-3
    0x1.d0acf691f26e5p-6 0x1.1305f565aa074p-7 -0x1.3bcdce3870f1ap-8 -0x1.cc8b129f42ef5p-12
    0x1.7069f3b821685p-11 0x1.e91f21c8937bfp-15 -0x1.d84c57452d9bbp-14 -0x1.47b2a9ce2a4c9p-16
    0x1.3213b0ac45a49p-16 0x1.c5484ca5c7a4bp-18 -0x1.38b8a2c536648p-19 -0x1.0778195ebf24ap-19
    -0x1.686acaaf9c004p-27 0x1.e2b49e1ccb45bp-22 0x1.3343b665b41cap-23 -0x1.3bbff2f9f6f99p-24
    -0x1.d7c9aa77ad3b7p-25 0x1.339a36af0e44cp-27 0x1.55a59c18cfa1fp-27 -0x1.b9a20ca6cbb94p-30
erfcx_low: -0x1.035c8d5dceadcp-54
lgamma: 0x1.b0ee6072093cep-2 0x1.4a34cc4a60fa7p-2 -0x1.13e001a55760bp-4 0x1.51322ac7d7c73p-6
    -0x1.e404fc218d54dp-8 0x1.7add6eaea7288p-9 -0x1.38ac5c2d7f542p-10 0x1.0b36af1a7d20dp-11
    -0x1.d3fd4b47af661p-13 0x1.a127e6c671a12p-14 -0x1.78dea01839da9p-15 0x1.5805c960afc52p-16
    -0x1.3cb332d0770ap-17 0x1.2651cbef67ae2p-18 -0x1.127f45986e6adp-19 0x1.ecc771fba411cp-21
    -0x1.cd8bbd68063efp-22 0x1.2d6bda108f67cp-22 -0x1.20fea6e0636cap-23
lgamma_low: 0x1.757ee895a77b5p-58
stirling: 0x1.5555555555555p-4 -0x1.6c16c16c10807p-9 0x1.a01a015c11163p-11 -0x1.38132f5649f34p-11
    0x1.b91ef88fcde7cp-11 -0x1.ee146c00a5541p-10 0x1.428984aeef076p-8 0x1.182dc512f9f74p-10
digamma: 0x1.e6f0cbb873616p-1 -0x1.b1cb63005ee98p-2 0x1.eca189b8e6f82p-3 -0x1.2feeeb98a7948p-3
    0x1.8512e590378b5p-4 -0x1.fb44202a1f0d6p-5 0x1.4de9aa1829e8p-5 -0x1.b9f8b11c7a855p-6
    0x1.2564714d86a6ap-6 -0x1.863563f58941bp-7 0x1.03c0b3e32111bp-7 -0x1.5a06a3f14c212p-8
    0x1.cd1ef2cc61e02p-9 -0x1.336df53d116aep-9 0x1.99e49c4451497p-10 -0x1.0fb08284bfd53p-10
    0x1.699f002df8972p-11 -0x1.fdbe2f38b371cp-12 0x1.5767b73aedacap-12 -0x1.2ee678aa7902bp-13
    0x1.7beb2620c6de7p-14 -0x1.766dab9e946ap-13 0x1.02421b6d5b46ep-13
digamma_low: 0x1.8783d7c8e97f9p-55
inverse_cbrt: 0x1.ab8579ee285d5p+0 -0x1.2c41a103ebaefp+0 0x1.6415c524d6528p-1
    -0x1.c5175e87c1e75p-3 0x1.d46e1c2684e99p-6
erfinv_centre: 0x1.c5bf891b4ef6bp-1 0x1.db29fb2fee5f3p-3 0x1.7a72e72c1caf3p-7
    -0x1.3211025d7dae8p-9 -0x1.0c86b89890a2p-13 0x1.870152c014feep-15 0x1.0f1d6c4424364p-19
    -0x1.0fca55ee171bp-20 -0x1.412a328af008bp-25 0x1.899d165a5fb26p-26 0x1.5ef8190bf7666p-31
    -0x1.dceebaa093462p-32 -0x1.400970a571a23p-34 0x1.660eda13b7fcep-35 -0x1.88e00f8aa7031p-37
    0x1.e6eea6b5c433p-39 -0x1.1370df5d57832p-40 0x1.c8a312a37e62bp-43 -0x1.099f7e2f944e9p-45
    0x1.a953978bec7dfp-49 -0x1.b290adba3725ep-53 0x1.87df9e32356aep-58 0x1.1720bbdbd2672p-62
    -0x1.21b7016562ff2p-65 0x1.815a52ded163ep-70 -0x1.8f737c20a953ap-76
erfinv_centre_low: -0x1.7318f77f4b2d4p-55
digamma_far: 0x1.5555555555555p-4 -0x1.1111111110305p-7 0x1.0410410091319p-8 -0x1.11110d6f81dc9p-8
    0x1.f079dfd6fd595p-8 -0x1.595ce58bc1ccfp-6 0x1.51a68f7b98eddp-4 -0x1.9d1bcec99f5c5p-2
    0x1.e254db760300ep+0 -0x1.ee4fa9bd74a7bp+1 -0x1.36615525ea4f6p+4
erfinv_tail: 0x1.8abcc380d5a48p+1 0x1.0158a6d641d55p+0 0x1.5ffcfe5b6ce4ap-8 -0x1.ebadabba055f2p-9
    0x1.468eeca93d5fcp-9 -0x1.ba9240d7f83fcp-10 0x1.f3cc54603128cp-11 -0x1.7448bce051408p-12
    0x1.932e8c1f1ad09p-16 0x1.1e6abe5d81046p-14 -0x1.8cf4570047f93p-15 0x1.a241765f9b69ap-17
    0x1.89978203ded1dp-19 -0x1.0b785172faa0cp-18 0x1.8dc650c50abc7p-20 -0x1.dce1467caf5ecp-26
    -0x1.07f9795c62c1cp-22 0x1.1ad5dab20ab24p-23 -0x1.62489d9ad1db9p-26 -0x1.07ad379df087ep-26
    0x1.044a3fb3cd54cp-27
erfinv_tail_low: -0x1.9622b894e9891p-54
erfinv_end: 0x1.3664ddd1ad7fbp+2 0x1.02a30d1fba10bp+0 -0x1.22ea5df1c7ffcp-13 -0x1.c2f36aa147d3p-13
    0x1.3ebf4efa2705dp-14 -0x1.4a34904d816b6p-16 0x1.2fbcfe40737a3p-18 -0x1.0a902f54c4854p-20
    0x1.ebe28bbcbdbf5p-23 -0x1.223977ae48e2ap-24 0x1.f299f88bcd5b2p-26 -0x1.055a433ff3ea2p-26
    0x1.0c74233ad965fp-27 -0x1.e5e85368225e2p-29 0x1.6cf388fb5ac4cp-30 -0x1.a17b595f7c672p-32
    0x1.06656a82b8019p-34 0x1.f4cf262c84ce8p-37 -0x1.1483ebb89df65p-36 0x1.a4b5b0c21ff1ep-38
    -0x1.08a3b9fee22bcp-40
erfinv_end_low: -0x1.7c603f8ff2bc3p-54
"""


def _parse(text: str) -> dict[str, tuple[float, ...]]:
    table: dict[str, list[float]] = {}
    name = ""
    for word in text.split():
        if word.endswith(":"):
            name = word[:-1]
            table[name] = []
        else:
            table[name].append(float.fromhex(word))
    return {key: tuple(numbers) for key, numbers in table.items()}


@cache
def _table(p: int) -> dict[str, tuple[float, ...]]:
    return _parse({24: _TEXT_24, 53: _TEXT_53}[p])


def coefficients(name: str, p: int) -> tuple[float, ...]:
    """The coefficients of polynomial `name` for the format with p bits of precision."""
    return _table(p)[name]
