"""Random texts of the pieces that Host and Origin headers are made of; some are right."""

from __future__ import annotations

import random
from collections.abc import Iterator

PIECES = (
    *(
        "127.0.0.1",
        "localhost",
        "LocalHost",
        "[::1]",
        "0.0.0.0",
        "evil.example",
        ":",
        "24783",
        "80",
        "024783",
        ".",
        "@",
    ),
    *(
        "app://",
        "obsidian.md",
        "http://",
        "https://",
        "null",
        "*",
        "#",
        "?",
        "-",
        "\\",
        "ⓛ",
        "é",
        " ",
        "\t",
        "/",
        "%31",
    ),
)


def strange_texts(seed: int, count: int = 20_000) -> Iterator[bytes]:
    """`count` texts, the same ones for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        text = "".join(chance.choices(PIECES, k=chance.randint(0, 5)))
        if chance.random() < 0.2:
            text += chr(chance.choice((0, 9, 127, 0xA0, 0x130, 0xFF0E, 0x1F600)))
        if chance.random() < 0.2:
            text = text.swapcase()
        yield text.encode()
