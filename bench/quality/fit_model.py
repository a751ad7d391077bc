"""Fits the model of text-like fingerprints: `fit_model.py SUMS [-o MODEL]`.

SUMS is what `nearprint-bench sums` writes: the 64 sums of each passage, as i32. MODEL
(bench/model/text-like.bin) is described in bench/model/README.md, and drawn from by
bench/src/like_text.rs. Needs numpy alone; a minute for 45,000 passages. `tools/fit-model` does all.

The sums of each passage are scaled to a root mean square of 1 and put into 1,024 clusters by
k-means. What is left within the clusters gives a deviation for each and one covariance for all.
Last it prints how crowded real and drawn fingerprints are, which should agree within a quarter.
"""

import argparse
import pathlib

import numpy as np

BITS = 64
CLUSTERS = 1024
ROUNDS = 40
# A cluster of few passages takes its deviation from all clusters, as if it had so many more.
PRIOR = 1
# Texts within a cluster are closer to each other than Gaussians of one shape for all: so much narrower,
# drawn fingerprints share blocks and have neighbours about as often as real ones.
NARROWER = 0.95
CENTER_UNIT, DEVIATION_UNIT, FACTOR_UNIT = 1 / 32, 1 / 200, 1 / 4096
COMPARED = 5000
DISTANCES = 3, 6, 8
MODEL = pathlib.Path(__file__).parents[1] / "model" / "text-like.bin"


def scaled(sums):
    sums = sums.astype(np.float32)
    return sums / np.sqrt(np.mean(sums**2, axis=1, keepdims=True))


def nearest(points, centers):
    """The cluster of each point."""
    norms = np.sum(centers**2, axis=1)
    parts = (points[at : at + 8192] for at in range(0, len(points), 8192))
    return np.concatenate([np.argmin(norms - 2 * (part @ centers.T), axis=1) for part in parts])


def clustered(points, random):
    """Centers, and the cluster of each point."""
    centers = points[random.choice(len(points), CLUSTERS, replace=False)]
    for _ in range(ROUNDS):
        of = nearest(points, centers)
        counts = np.bincount(of, minlength=CLUSTERS)
        totals = np.zeros_like(centers)
        np.add.at(totals, of, points)
        centers = totals / np.maximum(counts, 1)[:, None]
        # A cluster without points begins again at a random one.
        empty = counts == 0
        centers[empty] = points[random.choice(len(points), empty.sum())]
    return centers, nearest(points, centers)


def fitted(points, random):
    centers, of = clustered(points, random)
    counts = np.bincount(of, minlength=CLUSTERS)
    # What a reader of the file sees, so that rounding the centers is part of the deviation.
    centers = np.clip(np.round(centers / CENTER_UNIT), -128, 127).astype(np.int8)
    rest = points - centers[of] * np.float32(CENTER_UNIT)
    squares = np.bincount(of, np.sum(rest**2, axis=1), CLUSTERS)
    # The center of a cluster was fitted to its own points, which takes one of them.
    common = squares.sum() / (BITS * (len(points) - CLUSTERS))
    variance = (squares + PRIOR * BITS * common) / (BITS * (np.maximum(counts - 1, 0) + PRIOR))
    deviations = np.clip(np.round(NARROWER * np.sqrt(variance) / DEVIATION_UNIT), 1, 255).astype(np.uint8)
    unit = rest / (deviations[of] * np.float32(DEVIATION_UNIT))[:, None]
    covariance = unit.T @ unit / len(unit)
    covariance *= BITS / np.trace(covariance)
    factor = np.round(np.linalg.cholesky(covariance) / FACTOR_UNIT).astype(np.int16)
    return centers, deviations, np.minimum(counts, 65535).astype(np.uint16), factor


def drawn(model, count, random):
    centers, deviations, counts, factor = model
    of = random.choice(CLUSTERS, count, p=counts / counts.sum())
    noise = random.standard_normal((count, BITS), dtype=np.float32) @ (factor.T * np.float32(FACTOR_UNIT))
    return centers[of] * np.float32(CENTER_UNIT) + deviations[of, None] * np.float32(DEVIATION_UNIT) * noise


def fingerprints(sums):
    return np.packbits(sums > 0, axis=1, bitorder="little").view(np.uint64)[:, 0]


def crowding(bits, random):
    """Of a million other passages: those that share a block, and those near."""
    some = random.choice(len(bits), COMPARED, replace=False)
    in_block, near = 0, np.zeros(len(DISTANCES))
    for at in some:
        difference = bits ^ bits[at]
        difference[at] = ~np.uint64(0)
        in_block += np.sum(difference.view(np.uint16) == 0)
        apart = np.bitwise_count(difference)
        near += [np.sum(apart <= distance) for distance in DISTANCES]
    each = 1e6 / (COMPARED * (len(bits) - 1))
    return [in_block * each, *(near * each)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("sums", type=pathlib.Path)
    arguments.add_argument("-o", "--output", type=pathlib.Path, default=MODEL)
    arguments = arguments.parse_args()
    random = np.random.default_rng(1)
    sums = np.fromfile(arguments.sums, "<i4").reshape(-1, BITS)
    points = scaled(sums[np.any(sums != 0, axis=1)])
    model = fitted(points, random)
    arguments.output.write_bytes(b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in model))
    real = crowding(fingerprints(points), random)
    imitated = crowding(fingerprints(drawn(model, 3 * len(points), random)), random)
    print(f"{len(points):,} passages; of a million others, on average:")
    names = ["share a 16-bit block", *(f"within {distance}" for distance in DISTANCES)]
    for name, one, other in zip(names, real, imitated):
        print(f"  {name:22} real {one:9.2f}   drawn {other:9.2f}   ratio {other / max(one, 1e-9):5.2f}")


main()
