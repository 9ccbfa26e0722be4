"""The two searchable indexes in memory, changed and read under one lock.

A batch becomes visible in the manifest, in the keyword index, in the text
index and in the list of names at one moment; a search sees all of it or
nothing. What is slow (tokens, folding) was prepared before the lock is taken.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from sidecar.index.batch import Applied, Batch
from sidecar.index.keyword_store import KeywordStore
from sidecar.index.keywords import KeywordIndex
from sidecar.index.literal import LiteralIndex, Match, entry, matches
from sidecar.index.manifest import Manifest
from sidecar.index.manifest_reader import ManifestReader
from sidecar.index.manifest_rows import ChunkRow
from sidecar.index.tokens import LANGUAGE_MARKS, Tokenizer
from sidecar.index.wire import Int64

logger = logging.getLogger(__name__)


class LiveIndex:
    """Keyword postings, folded texts and names of one corpus. Blocks: call it in a lane."""

    def __init__(self, store: KeywordStore, tokenizer: Tokenizer) -> None:
        self._lock = threading.Lock()
        self._store = store
        self._tokenizer = tokenizer
        self._keywords = KeywordIndex()
        self._literal = LiteralIndex()
        self._dropped: set[int] = set()
        self._texts_loaded = False
        self._epoch = 0
        self._is_written = True
        self._known: set[str] = set()
        self.names: Sequence[str] = ()
        """Paths of all known notes by code point order. Replaced whole, so readers need no lock."""
        self.problem: str | None = None

    def load(self, reader: ManifestReader, manifest: Manifest) -> None:
        """Read the keyword caches and bring them up to what the manifest holds."""
        index, self.problem = self._store.load(manifest.identity)
        known = set(index.ids().tolist())
        if known and max(known) > manifest.last_chunk_id():
            # ids the manifest never gave out: it has lost its newest rows
            self.problem = "the keyword cache did not belong to the manifest and is rebuilt"
            logger.warning("%s", self.problem)
            index, known = KeywordIndex(), set[int]()
        wanted = reader.chunk_ids()
        stale, missing = known.difference(wanted), sorted(set(wanted) - known)
        index.replace(stale, ())
        self._add_texts(index, reader, missing)
        with self._lock:
            self._keywords = index
            self._known = set(reader.paths())
            self.names = sorted(self._known)
        if stale or missing or self.problem:
            self._write(lambda: self._store.snapshot(index))

    def begin_again(self) -> None:
        """Forget everything; another manifest will tell what there is. `load` comes next."""
        with self._lock:
            self._epoch += 1
            self._keywords, self._literal = KeywordIndex(), LiteralIndex()
            self._texts_loaded = True  # what comes from now on comes by `apply`
            self._dropped.clear()

    def rebuild_keywords(self, reader: ManifestReader) -> None:
        """Make the keyword index anew from the manifest, then swap it in. No batch may be applied meanwhile."""
        index = KeywordIndex()
        self._add_texts(index, reader, reader.chunk_ids())
        with self._lock:
            self._keywords = index
        self._write(lambda: self._store.snapshot(index))

    def _write(self, write: Callable[[], None], *, whole: bool = True) -> None:
        """Write to the cache on disk. One that can't be written is told once; the next snapshot makes it whole."""
        try:
            write()
            self._is_written = self._is_written or whole
        except OSError as failed:
            if self._is_written:
                logger.warning("the keyword index is not written down now: %s", (failed.strerror or "").lower())
            self._is_written = False

    def _add_texts(self, index: KeywordIndex, reader: ManifestReader, chunk_ids: Sequence[int]) -> None:
        for start in range(0, len(chunk_ids), 2000):
            part = reader.keyword_texts(chunk_ids[start : start + 2000])
            index.replace((), [(chunk_id, self._tokenizer.counts(text, language)) for chunk_id, text, language in part])

    def load_texts(self, reader: ManifestReader) -> None:
        """Fold every note's text. Notes that were changed or deleted meanwhile stay as they became."""
        epoch = self._epoch
        for note_key, path, text in reader.texts():
            folded = entry(path, text)
            with self._lock:
                if self._epoch != epoch:
                    return  # these are the keys of a manifest that is no more
                if note_key not in self._literal and note_key not in self._dropped:
                    self._literal.put(note_key, folded)
        with self._lock:
            self._texts_loaded = True
            self._dropped.clear()

    def apply(self, manifest: Manifest, batch: Batch) -> Applied:
        """Make a batch durable and visible at one moment."""
        listed = [put.note.path.text for put in batch.puts] + [skip.path for skip in batch.skips if skip.listed]
        with self._lock:
            applied = manifest.apply(batch)
            added = [chunk_id for chunk_id, _ in applied.added_chunks]
            words = batch.words.only([piece.document for _, piece in applied.added_chunks])
            self._keywords.replace_counted(applied.removed_chunks, added, words)
            for note_key in applied.removed_notes:
                self._literal.drop(note_key)
                if not self._texts_loaded:
                    self._dropped.add(note_key)
            for note_key, put in applied.put_notes:
                self._literal.put(note_key, put.folded)
            self._rename(set(batch.gone) - set(listed), listed)
        self._write(lambda: self._store.append(applied.removed_chunks, added, words), whole=False)
        return applied

    def _rename(self, gone: set[str], listed: Iterable[str]) -> None:
        new = set(listed) - self._known
        gone &= self._known
        if gone or new:
            self._known -= gone
            self._known |= new
            # the old list is sorted, so sorting it with a few more is linear
            self.names = sorted([*(name for name in self.names if name not in gone), *new])

    def use_names(self, names: Iterable[str], *, complete: bool) -> None:
        """Names found by a scan are listed before they are indexed. `complete`: there are no others."""
        new = set(names)
        with self._lock:
            self._rename(self._known - new if complete else set(), new)

    def snapshot_if_due(self) -> None:
        """Write the keyword postings down when the log has grown long."""
        if self._store.due:
            with self._lock:
                contents = self._keywords.contents()
            self._write(lambda: self._store.write(contents))

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()

    def rank(self, words: dict[str, float], depth: int, among: Int64 | None = None) -> list[tuple[int, float]]:
        """The `depth` best chunks for weighted words, of `among` only if it is given, with their BM25 scores."""
        with self._lock:
            return self._keywords.search(words, depth, among)

    def rank_with_notes(
        self,
        reader: ManifestReader,
        words: dict[str, float],
        depth: int,
        among: Int64 | None = None,
        also: Sequence[int] = (),
    ) -> tuple[list[tuple[int, float]], dict[int, int]]:
        """As `rank`; and the note of each chunk, of `also` too, as of the same moment.

        Within a `moment` of the reader, that one ends, and another begins with it.
        """
        with self._lock:
            reader.anew()
            hits = self._keywords.search(words, depth, among)
            notes = reader.notes_of([*(chunk_id for chunk_id, _ in hits), *also])
        return [hit for hit in hits if hit[0] in notes], notes

    def words(self, query: str) -> dict[str, float]:
        """The words a query is searched by, with their weights."""
        with self._lock:
            spoken = self._keywords.frequencies(LANGUAGE_MARKS)
        return self._tokenizer.query(query, spoken)

    def coverage(self, query: str, row: ChunkRow) -> float:
        """Share of the query's content words that a chunk holds."""
        with self._lock:
            spoken = self._keywords.frequencies(LANGUAGE_MARKS)
        counts = self._tokenizer.counts(f"{row.breadcrumb}\n{row.text}", row.language)
        return self._tokenizer.coverage(query, spoken, counts)

    def spans(self, text: str, words: dict[str, float], language: str) -> list[tuple[int, int]]:
        """Where those words stand in a text."""
        return self._tokenizer.spans(text, words, language)

    def search_texts(self, query: str) -> list[Match]:
        """Every note that holds the query in a line or in its path."""
        with self._lock:
            snapshot = self._literal.snapshot()
        return matches(snapshot, query)

    @property
    def keyword_chunks(self) -> int:
        """Chunks the keyword leg can find."""
        return self._keywords.corpus_size
