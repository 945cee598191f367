"""Changes to files: bytes, and the parts that formats are made of."""

import binascii
import struct

ODD_NUMBERS = (0, 1, 2, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1)
ODD_VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -1.5, 1e308, "", "x"),
    *([], {}, [None], [[]], [1, 2, 3], {"a": 1}, "\0", "\ud800", "a" * 300, "../../x"),
    *(float("nan"), float("inf"), "=1+1", "<script>", "__import__('os')"),
)


WHOLE = 0.1  # of the files stay as they are: what is sound must be taken


def of_bytes(rng, data):
    """A few bits, bytes or blocks changed, lost, doubled or moved, or an early end."""
    data = bytearray(data)
    if rng.random() < WHOLE:
        return bytes(data)
    for _ in range(rng.integers(1, 4)):
        if not data:
            break
        place, other = (int(rng.integers(len(data))) for _ in range(2))
        size = int(rng.integers(1, 17))
        kind = rng.integers(7)
        if kind == 0:
            data[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[place] = int(rng.choice([0, 1, 127, 128, 255]))
        elif kind == 2:
            del data[place : place + size]
        elif kind == 3:
            data[place:place] = data[other : other + size]
        elif kind == 4:
            data[place : place + size] = rng.bytes(size)
        elif kind == 5:
            number = int(rng.choice(ODD_NUMBERS))
            data[place : place + 4] = number.to_bytes(4, rng.choice(["big", "little"]))
        else:
            del data[place:]
    return bytes(data)


def cut(rng, data):
    """Only the beginning."""
    return data if rng.random() < WHOLE else data[: int(rng.integers(len(data)))]


def of_parts(rng, parts):
    """A part changed, lost, doubled or moved."""
    parts = list(parts)
    place, other = (int(rng.integers(len(parts))) for _ in range(2))
    kind = rng.integers(4)
    if kind == 0:
        del parts[place]
    elif kind == 1:
        parts.insert(other, parts[place])
    elif kind == 2:
        parts[place], parts[other] = parts[other], parts[place]
    else:
        name, content = parts[place]
        parts[place] = name, of_bytes(rng, content)
    return parts


def of_png(rng, data):
    """Chunks changed, with the checksums that they then must have."""
    parts, place = [], 8
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        parts.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + size]))
        place += size + 12
    made = data[:8]
    for name, content in of_parts(rng, parts):
        checksum = struct.pack(">I", binascii.crc32(name + content))
        made += struct.pack(">I", len(content)) + name + content + checksum
    return made


def of_jpeg(rng, data):
    """Segments before the scan changed, with the length that they then have."""
    parts, place = [], 2
    while data[place + 1] != 0xDA:
        (size,) = struct.unpack(">H", data[place + 2 : place + 4])
        parts.append((data[place : place + 2], data[place + 4 : place + 2 + size]))
        place += 2 + size
    made = data[:2]
    for name, content in of_parts(rng, parts):
        made += name + struct.pack(">H", min(len(content) + 2, 65535)) + content
    return made + data[place:]


def of_riff(rng, data):
    """Chunks of a WebP changed, with the lengths that they then have."""
    parts, place = [], 12
    while place < len(data):
        (size,) = struct.unpack("<I", data[place + 4 : place + 8])
        parts.append((data[place : place + 4], data[place + 8 : place + 8 + size]))
        place += 8 + size + size % 2
    made = b"WEBP"
    for name, content in of_parts(rng, parts):
        made += (
            name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)
        )
    return b"RIFF" + struct.pack("<I", len(made)) + made


def of_tiff(rng, data):
    """An entry of the directory changed: tag, type, count or value."""
    data = bytearray(data)
    (directory,) = struct.unpack("<I", data[4:8])
    (count,) = struct.unpack("<H", data[directory : directory + 2])
    entry = directory + 2 + 12 * int(rng.integers(count))
    place, size = ((0, 2), (2, 2), (4, 4), (8, 4))[rng.integers(4)]
    number = int(rng.choice([*ODD_NUMBERS, int(rng.integers(70_000))]))
    number %= 1 << (8 * size)
    data[entry + place : entry + place + size] = number.to_bytes(size, "little")
    return bytes(data)


def of_json(rng, value, whole=0.05):
    """A copy in which something is replaced, lost, doubled or new, at any depth.

    With a probability of `whole` all of it is replaced: else little would be left that
    gets past the first look at it.
    """
    if rng.random() < whole or not isinstance(value, dict | list) or not value:
        alike = [odd for odd in ODD_VALUES if type(odd) is type(value)]
        odd = alike if alike and rng.random() < 0.5 else ODD_VALUES
        return odd[rng.integers(len(odd))]
    if isinstance(value, dict):
        value, key = dict(value), list(value)[rng.integers(len(value))]
        kind = rng.random()
        if kind < 0.1:
            del value[key]
        elif kind < 0.2:
            value["new"] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
        else:
            value[key] = of_json(rng, value[key], 0.35)
        return value
    value, place = list(value), int(rng.integers(len(value)))
    kind = rng.random()
    if kind < 0.2:
        del value[place]
    elif kind < 0.4:
        value.append(value[place])
    else:
        value[place] = of_json(rng, value[place], 0.35)
    return value
