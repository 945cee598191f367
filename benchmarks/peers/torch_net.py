"""The train step and prediction in torch, eager, channels_last: the same maths.

`nn.BatchNorm2d` keeps running averages of the unbiased variance, ours of the biased
one; losses do not depend on it. A 3×3 convolution of stride 2 pads below and to the
right only, as "SAME" does: two extra copies, well below 1 % of the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.peers import num_cores
from upsilon_jax.models.wide_resnet import EPSILON, SLOPE, STEM_CHANNELS

torch.set_num_threads(num_cores())


class Convolution(nn.Conv2d):
    """Zero-padded to "SAME", for even image sizes."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1):
        pad = size // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, size, stride, pad, bias=False)
        self.pad_after = size == 3 and stride == 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(F.pad(x, (0, 1, 0, 1)) if self.pad_after else x)


class NormActivation(nn.BatchNorm2d):
    """BatchNorm and leaky ReLU, the latter in place."""

    def __init__(self, channels: int, decay: float):
        super().__init__(channels, eps=EPSILON, momentum=1 - decay)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(super().forward(x), SLOPE, inplace=True)


class Unit(nn.Module):
    """x + F(x), as in `upsilon_jax.models.wide_resnet`."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, activate_skip: bool, decay: float
    ):
        super().__init__()
        self.activate_skip = activate_skip
        self.norm1 = NormActivation(inputs, decay)
        self.conv1 = Convolution(inputs, outputs, 3, stride)
        self.norm2 = NormActivation(outputs, decay)
        self.conv2 = Convolution(outputs, outputs, 3)
        self.skip = None
        if inputs != outputs:
            self.skip = Convolution(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        skip = y if self.activate_skip else x
        y = self.conv2(self.norm2(self.conv1(y)))
        return (self.skip(skip) if self.skip else skip) + y


class WideResNet(nn.Module):
    """Images [B, C, H, W] -> logits [B, outputs]."""

    def __init__(self, depth: int, width: int, outputs: int, decay: float):
        super().__init__()
        self.stem = Convolution(3, STEM_CHANNELS, 3)
        channels, units = STEM_CHANNELS, []
        for group in range(3):
            for unit in range((depth - 4) // 6):
                wide = STEM_CHANNELS * 2**group * width
                stride = 2 if group > 0 and unit == 0 else 1
                units.append(Unit(channels, wide, stride, group == unit == 0, decay))
                self.add_module(f"group{group + 1}_unit{unit + 1}", units[-1])
                channels = wide
        self.units = tuple(units)  # a tuple: registered by their names above
        self.norm = NormActivation(channels, decay)
        self.head = nn.Linear(channels, outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.stem(images)
        for unit in self.units:
            x = unit(x)
        return self.head(self.norm(x).mean((2, 3)))


def load(net: WideResNet, params: Any, stats: Any) -> WideResNet:
    """Copies the values of our network into torch's."""
    values = {}
    for path, value in _flat(params["backbone"]):
        *module, leaf = path
        if leaf == "kernel":
            value, leaf = value.transpose(3, 2, 0, 1), "weight"
        values[".".join([*module, leaf.replace("scale", "weight")])] = value
    renamed = {"mean": "running_mean", "variance": "running_var"}
    for (*module, leaf), value in _flat(stats["backbone"]):
        values[".".join([*module, renamed[leaf]])] = value
    values["head.weight"] = np.asarray(params["head_logits"]["kernel"]).T
    values["head.bias"] = np.asarray(params["head_logits"]["bias"])
    own = net.state_dict()
    missing = [k for k in own if k not in values and "num_batches" not in k]
    if missing or len(values) > len(own):
        raise ValueError(f"networks differ: {missing}")
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(torch.from_numpy(np.array(value)))
    return net.to(memory_format=torch.channels_last)


def _flat(tree: Any, path: tuple[str, ...] = ()):
    for name, value in tree.items():
        if hasattr(value, "items"):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), np.asarray(value)


class Pixels:
    """uint8 [B, H, W, C] -> normalised float [B, C, H, W], channels last in memory."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]):
        as_row = lambda values: torch.tensor(values).reshape(1, -1, 1, 1)
        self.mean, self.std = as_row(mean), as_row(std)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        return (images.permute(0, 3, 1, 2) / 255 - self.mean) / self.std


class TrainStep:
    """Forward, backward, Adam and the average of the weights; a call is a step.

    Labels of the unlabeled rows all have weight 1 and P is all of D_u, so that the
    loss is the sum of two means.
    """

    def __init__(
        self,
        net: WideResNet,
        pixels: Pixels,
        images: np.ndarray,
        labels: np.ndarray,
        num_labeled: int,
        *,
        learning_rate: float,
        ema_decay: float,
    ):
        self.net, self.pixels, self.num_labeled = net.train(), pixels, num_labeled
        self.images = torch.from_numpy(images)
        self.labels = torch.from_numpy(labels.astype(np.int64))
        self.adam = torch.optim.Adam(net.parameters(), lr=learning_rate, fused=True)
        values = net.state_dict().values()
        self.values = [v for v in values if v.is_floating_point()]
        self.average = [value.clone() for value in self.values]
        self.ema_decay, self.step = ema_decay, 0

    def __call__(self) -> float:
        self.adam.zero_grad(set_to_none=True)
        logits = self.net(self.pixels(self.images))
        n = self.num_labeled
        loss = F.cross_entropy(logits[:n], self.labels[:n])
        loss = loss + F.cross_entropy(logits[n:], self.labels[n:])
        loss.backward()
        self.adam.step()
        decay = min(self.step / (self.step + 1), self.ema_decay)
        torch._foreach_lerp_(self.average, self.values, 1 - decay)
        self.step += 1
        return loss.item()


@torch.inference_mode()
def predict(
    net: WideResNet, pixels: Pixels, images: torch.Tensor, chunk: int
) -> torch.Tensor:
    """Logits of uint8 images in order, with running statistics."""
    net.eval()
    return torch.cat([net(pixels(part)) for part in images.split(chunk)])
