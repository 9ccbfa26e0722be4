"""Turns text into the words it is found by, and a query into weighted words.

A word of the index is a stem without accents, a pair of characters of a script
without blanks, a tag, or the whole of an identifier beside its parts. Document
and query meet because both are cut here. The language decides the stem: the
script tells it, and among languages in Latin letters the function words do.

For every document a mark of its language is counted as well (`language_mark`).
The keyword index thereby knows which languages its documents are in, and a
query too short to show its own language is stemmed in theirs.

All caches are bounded. One thread may index while another asks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import add

from sidecar.index.identifiers import LONGEST, is_plain, taken_apart
from sidecar.index.languages import LATIN, OTHER_SCRIPTS
from sidecar.index.letters import (
    ASCII_WORDS,
    PATHS,
    WIDE,
    WIDE_RUN,
    WORDS,
    fold,
    normal,
    wide_normal,
)
from sidecar.index.stems import VERSION, Stems

# Stored indexes made by another version are built anew. The stemmers' own version counts: their rules change.
TOKENS_VERSION = f"1/{VERSION}"

# Weights of a query's words. Measured with scripts/bench quality, differences in the mean of nine sets.
FUNCTION_WORD_WEIGHT = 0.3  # 0.1 to 0.5: below .001; 1: -.003; 0 would leave a query of such words alone unanswered
PART_WEIGHT = 0.5  # a part of an identifier or tag beside the whole; 0.35 to 0.7: below .001; 0.2 and 1: -.001
SINGLE_WEIGHT = 0.2  # one character of a script without blanks beside the pairs it stands in; 0 to 1: below .001
OTHER_LANGUAGE_WEIGHT = 0.3  # the stem of another language of the vault; with 1 SciFact loses .015, with 0 German .02

_TELLING = 2000  # characters that tell a note's language
_DEFAULT = "english"  # how Latin letters are stemmed where nothing tells their language
_CACHED = 65_536  # words per language; about 16 MB
_SEEN_SHARE = 0.02  # share of the documents from which a language counts as spoken in the vault
_MAIN_SHARE = 0.1  # and from which it is as likely as any for a query that does not show its own

_SHORT_NAMES = re.compile(r"(?<![0-9A-Za-z_])(?:[A-Za-z]\+\+|[CcFf]#)(?![0-9A-Za-z_#])")  # C++ C# F#

_NAMES = tuple(LATIN)
# For each function word one byte a language, 1 where it is one of that language: the sum of many counts them all.
_VOTES = {
    word: sum(1 << 8 * at for at, name in enumerate(_NAMES) if word in LATIN[name])
    for words in LATIN.values()
    for word in words
}
# Language to the word that is counted once in every document of it. No text contains such a word.
_MARKS = {language: f"@{language}" for language in LATIN}
LANGUAGE_MARKS = tuple(_MARKS.values())


class Tokenizer:
    """Cuts documents and queries. Keeps nothing but caches."""

    def __init__(self) -> None:
        self._stems = Stems()
        self._known = {language: _Known(language, self._stems) for language in LATIN}

    # --- documents ---

    def counts(self, text: str, language: str = "") -> dict[str, int]:
        """How often each word occurs. `language` is that of the whole note, for pieces too short to tell."""
        counts: Counter[str] = Counter()
        if not text.isascii() and WIDE.search(text):
            counts = _wide_counts(WIDE_RUN.findall(text))
            text = WIDE_RUN.sub(" ", text)
        words = _words(text)
        language = _language(words, language)
        # What is done for every occurrence stays inside C: look up, chain, count.
        counts.update(chain.from_iterable(map(self._known[language or _DEFAULT].__getitem__, words)))
        if any(sign in text for sign in ("++", "C#", "c#", "F#", "f#")):
            counts.update(map(str.lower, _SHORT_NAMES.findall(text)))
        if language:
            counts[_MARKS[language]] = 1
        return counts

    def language(self, text: str) -> str:
        """The language in Latin letters that a text is mostly written in; "" if it does not show one."""
        text = text[:_TELLING]
        return _language(_words(text if text.isascii() else WIDE_RUN.sub(" ", text)), "")

    # --- queries ---

    def query(self, text: str, spoken: Mapping[str, int] | None = None) -> dict[str, float]:
        """The words of a query with their weights, in (0, 1].

        `spoken` is `KeywordIndex.frequencies(LANGUAGE_MARKS)`: with it a query that does not show its own language
        is stemmed in those of the documents; without it, as English.
        """
        return self._query(text, spoken or {}, FUNCTION_WORD_WEIGHT)

    def content(self, text: str, spoken: Mapping[str, int]) -> dict[str, float]:
        """The words of `query` that are not there for the sake of function words alone; empty if all of them are."""
        return self._query(text, spoken, 0.0)

    def _query(self, text: str, spoken: Mapping[str, int], function_word_weight: float) -> dict[str, float]:
        weights: dict[str, float] = {}

        def note(term: str, weight: float) -> None:
            if weight:
                weights[term] = max(weight, weights.get(term, 0.0))

        for run in WIDE_RUN.findall(text):
            run = wide_normal(run)
            for pair in map(add, run, run[1:]):
                note(pair, 1.0)
            for single in run:
                note(single, SINGLE_WEIGHT if len(run) > 1 else 1.0)
        for name in _SHORT_NAMES.findall(text):
            note(name.lower(), 1.0)
        for path in PATHS.findall(text):
            note(fold(normal("#" + path)), 1.0)
        words = _words(WIDE_RUN.sub(" ", text))
        main, others = _languages(words, spoken)
        stop = OTHER_SCRIPTS.union(*(LATIN[language] for language in main))
        for word in words:
            for form, weight in _weighted(word, 1.0):
                if form in stop:
                    weight *= function_word_weight
                for language in main:
                    note(self._stems(form, language), weight)
                for language in others:
                    note(self._stems(form, language), weight * OTHER_LANGUAGE_WEIGHT)
        return weights

    def coverage(self, text: str, spoken: Mapping[str, int], counts: Mapping[str, int]) -> float:
        """Share of a query's content words that a document holds, in [0, 1]; 1 for a query without any.

        `counts` are the document's. Function words are no content: a text that shares only those with a question
        does not answer it.
        """
        found: list[bool] = []
        for run in WIDE_RUN.findall(text):
            run = wide_normal(run)
            found += [pair in counts for pair in (map(add, run, run[1:]) if len(run) > 1 else run)]
        words = _words(WIDE_RUN.sub(" ", text))
        main, others = _languages(words, spoken)
        stop = OTHER_SCRIPTS.union(*(LATIN[language] for language in main))
        for word in words:
            forms = [form for form, _ in _weighted(word, 1.0)]
            if stop.isdisjoint(forms):
                stems = (self._stems(form, language) for form in forms for language in (*main, *others))
                found.append(any(stem in counts for stem in stems))
        return sum(found) / len(found) if found else 1.0

    def spans(self, text: str, query: Mapping[str, float], language: str = "") -> list[tuple[int, int]]:
        """Where the words of a query stand in a text: ranges of offsets, ascending, apart from each other.

        Function words and what else weighs little is left out, unless the query has nothing better.
        """
        bar = max(query.values(), default=0.0) * PART_WEIGHT
        wanted = {word for word, weight in query.items() if weight >= bar}
        found: list[tuple[int, int]] = []
        for run in WIDE_RUN.finditer(text):
            places = [(at, at + width) for width in (1, 2) for at in range(run.start(), run.end() - width + 1)]
            found += [(start, end) for start, end in places if wide_normal(text[start:end]) in wanted]
        plain = WIDE.sub(" ", text)
        words = set(_words(plain))
        known = self._known[_language(words, language) or _DEFAULT]
        hits = {word for word in words if not wanted.isdisjoint(known[word])}
        if hits:
            found += [match.span() for match in WORDS.finditer(plain) if match.group() in hits]
        return _joined(sorted(found))


class _Known(dict[str, tuple[str, ...]]):
    """Raw word to its index words in one language; a word not known yet is learned by `[]`.

    A full table becomes the older one, and what is asked for again comes back from there: half of the words of a
    large vault stand in one note only, and must not push out the others.
    """

    def __init__(self, language: str, stems: Stems) -> None:
        self._language = language
        self._stems = stems
        self._older: dict[str, tuple[str, ...]] = {}

    def __missing__(self, word: str) -> tuple[str, ...]:
        if (known := self._older.get(word)) is not None:
            terms = known
        elif word.isascii() and (is_plain(word) or word.isdigit()) and len(word) <= LONGEST:
            terms = (self._stems(word.lower(), self._language),)  # most words: a short way to the same
        else:
            wholes, parts = taken_apart(word)
            found = dict.fromkeys(self._stems(form, self._language) for form in wholes)
            for part in parts:
                found.update(dict.fromkeys(self[part]))
            terms = tuple(found)
        if len(word) <= LONGEST:
            if len(self) >= _CACHED // 2:
                self._older = dict(self)
                self.clear()
            self[word] = terms
        return terms


def _words(text: str) -> list[str]:
    """The raw words of a text without wide characters."""
    return ASCII_WORDS.findall(text) if text.isascii() else WORDS.findall(text)


def _weighted(word: str, weight: float) -> Iterator[tuple[str, float]]:
    """The forms of a raw word in a query; whatever is not the whole word weighs as a part."""
    wholes, parts = taken_apart(word)
    for form in wholes:
        yield form, weight
        weight = PART_WEIGHT
    for part in parts:
        yield from _weighted(part, PART_WEIGHT)


def _wide_counts(runs: list[str]) -> Counter[str]:
    """Pairs of neighbours in each run, and every single character, so that a query of one is answered."""
    joined = "\n".join(map(wide_normal, runs))
    counts = Counter(map(add, joined, joined[1:]))
    for pair in [pair for pair in counts if "\n" in pair]:
        del counts[pair]
    counts.update(joined)
    del counts["\n"]
    return counts


def _language(words: Iterable[str], fallback: str) -> str:
    """The language whose function words occur most, each counted once; `fallback` where too few do."""
    votes = _votes(words)
    most = max(votes)
    fallback = fallback if fallback in LATIN else ""
    if most < 2 or (fallback and 2 * votes[_NAMES.index(fallback)] >= most):
        return fallback
    return _NAMES[votes.index(most)] if votes.count(most) == 1 else fallback


def _votes(words: Iterable[str]) -> bytes:
    """For each language, how many of its function words are among these."""
    return sum(map(_VOTES.__getitem__, _VOTES.keys() & words)).to_bytes(len(_NAMES), "little")


def _languages(words: Iterable[str], spoken: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Languages a query may be in, and further ones that the documents are in."""
    documents = {language: spoken.get(mark, 0) for language, mark in _MARKS.items()}
    total = sum(documents.values()) or 1
    seen = [name for name, count in documents.items() if count >= _SEEN_SHARE * total]
    usual = [name for name in seen if documents[name] >= _MAIN_SHARE * total] or [_DEFAULT]
    votes = _votes({word.lower() for word in words})
    most = max(votes)
    best = [name for name, count in zip(_NAMES, votes, strict=True) if count == most]
    if not (most > 1 and len(best) == 1):  # one hit shows little: `todo` is a word of Spanish and of every vault
        best = [name for name in best if name in usual] or usual
    return best, [name for name in seen if name not in best]


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that overlap or touch, made one."""
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
