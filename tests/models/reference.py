"""A Wide-ResNet in numpy, float64, written from the definition for tests."""

import numpy as np


def convolve(x, kernel, stride):
    """Zero-padded correlation, one tap at a time; pads as TensorFlow's "SAME"."""
    size = kernel.shape[0]
    out = [-(-n // stride) for n in x.shape[1:3]]
    total = [
        max((o - 1) * stride + size - n, 0)
        for o, n in zip(out, x.shape[1:3], strict=True)
    ]
    pads = [(0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)]
    x = np.pad(x, pads)
    y = np.zeros((x.shape[0], *out, kernel.shape[3]))
    for i in range(size):
        for j in range(size):
            rows = slice(i, i + stride * (out[0] - 1) + 1, stride)
            columns = slice(j, j + stride * (out[1] - 1) + 1, stride)
            y += x[:, rows, columns] @ kernel[i, j]
    return y


def norm_activation(x, params, stats, train):
    mean = x.mean((0, 1, 2)) if train else stats["mean"]
    variance = x.var((0, 1, 2)) if train else stats["variance"]
    z = (x - mean) / np.sqrt(variance + 1e-3) * params["scale"] + params["bias"]
    return np.where(z > 0, z, 0.1 * z)


def wide_resnet(params, stats, x, depth, train):
    """Params and stats of the backbone, images [B, H, W, C] -> features [B, F]."""

    def norm(x, *path):
        p, s = params, stats
        for name in path:
            p, s = p[name], s[name]
        return norm_activation(x, p, s, train)

    x = convolve(x, params["stem"]["kernel"], 1)
    for group in (1, 2, 3):
        for unit in range(1, (depth - 4) // 6 + 1):
            name = f"group{group}_unit{unit}"
            p = params[name]
            stride = 2 if group > 1 and unit == 1 else 1
            active = norm(x, name, "norm1")
            skip = active if (group, unit) == (1, 1) else x
            y = convolve(active, p["conv1"]["kernel"], stride)
            y = convolve(norm(y, name, "norm2"), p["conv2"]["kernel"], 1)
            if "skip" in p:
                skip = convolve(skip, p["skip"]["kernel"], stride)
            x = skip + y
    return norm(x, "norm").mean((1, 2))
