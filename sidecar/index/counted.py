"""The words of many documents at once: every distinct word told once, and for each document its words as numbers.

So they cross from the process that counts to the one that keeps them, and so
they lie in the keyword log: a few blocks of bytes, where a table of words for
each document would be an object for each word.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

_AT_ONCE = 1 << 16  # numbers: a few milliseconds, after which other threads may run

LARGEST_COUNT = 65_535  # what a uint16 holds; a higher count of one word in one document is read as this


class Numbering(dict[str, int]):
    """Word to number; a new word that is asked for by `[]` gets the next number. `get` adds nothing."""

    def __missing__(self, word: str) -> int:
        number = len(self)
        self[word] = number
        return number


class Counted(NamedTuple):
    """Documents one after the other. Numbers are in the byte order of the machine.

    words    UTF-8, one word a line; a word holds no line end
    sizes    uint32[d]: how many words each document has
    places   uint32[p]: which of `words`, from 0; in one document each once
    counts   uint16[p]: how often
    """

    words: bytes = b""
    sizes: bytes = b""
    places: bytes = b""
    counts: bytes = b""

    @property
    def vocabulary(self) -> list[str]:
        """The words, each at its place."""
        return self.words.decode("utf-8", "surrogatepass").split("\n") if self.places else []

    def only(self, documents: Sequence[int]) -> Counted:
        """These documents alone, in this order, and their words alone. All of them as they are: this itself."""
        sizes = array("I", self.sizes)
        if len(documents) == len(sizes) and list(documents) == list(range(len(sizes))):
            return self
        ends = list(accumulate(sizes, initial=0))
        all_places, all_counts = array("I", self.places), array("H", self.counts)
        places, counts = array("I"), array("H")
        for document in documents:
            places += all_places[ends[document] : ends[document + 1]]
            counts += all_counts[ends[document] : ends[document + 1]]
        kept = dict.fromkeys(places)
        new = dict(zip(kept, range(len(kept)), strict=True))
        words = self.words.split(b"\n")
        return Counted(
            b"\n".join([words[place] for place in kept]),
            array("I", [sizes[document] for document in documents]).tobytes(),
            array("I", map(new.__getitem__, places)).tobytes(),
            counts.tobytes(),
        )


NO_WORDS = Counted()


class Counting:
    """Puts documents together, one by one."""

    def __init__(self) -> None:
        self._words = Numbering()
        self._sizes = array("I")
        self._places = array("I")
        self._counts = array("H")

    def add(self, counts: Mapping[str, int]) -> int:
        """The place of this document among all, from 0."""
        self._places.extend(array("I", map(self._words.__getitem__, counts)))
        self._counts.extend(_clipped(counts.values()))
        self._sizes.append(len(counts))
        return len(self._sizes) - 1

    def counted(self) -> Counted:
        """What was put together so far."""
        words = "\n".join(self._words).encode("utf-8", "surrogatepass")
        return Counted(words, self._sizes.tobytes(), self._places.tobytes(), self._counts.tobytes())


def counted(documents: Iterable[Mapping[str, int]]) -> Counted:
    """These documents together."""
    counting = Counting()
    for counts in documents:
        counting.add(counts)
    return counting.counted()


def joined(lots: Sequence[Counted]) -> Counted:
    """The documents of all of these, one lot after the other."""
    if len(lots) == 1:
        return lots[0]
    numbers = Numbering()
    places = array("I")
    for lot in lots:
        new = [numbers[word] for word in lot.vocabulary]
        old = array("I", lot.places)
        for start in range(0, len(old), _AT_ONCE):
            places.extend(array("I", map(new.__getitem__, old[start : start + _AT_ONCE])))
    words = "\n".join(numbers).encode("utf-8", "surrogatepass")
    sizes, counts = b"".join(lot.sizes for lot in lots), b"".join(lot.counts for lot in lots)
    return Counted(words, sizes, places.tobytes(), counts)


def highest(places: array[int]) -> int:
    """The highest of these numbers; -1 if there are none."""
    return max((max(places[start : start + _AT_ONCE]) for start in range(0, len(places), _AT_ONCE)), default=-1)


def _clipped(counts: Collection[int]) -> array[int]:
    try:
        return array("H", counts)
    except OverflowError:
        return array("H", [min(count, LARGEST_COUNT) for count in counts])
