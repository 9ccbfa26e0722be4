from __future__ import annotations

import sys
import threading
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.index.languages import LATIN
from sidecar.index.letters import WIDE, WORDS, fold, normal
from sidecar.index.tokens import (
    FUNCTION_WORD_WEIGHT,
    LANGUAGE_MARKS,
    OTHER_LANGUAGE_WEIGHT,
    PART_WEIGHT,
    SINGLE_WEIGHT,
    Tokenizer,
)

TOKENS = Tokenizer()


def words(text: str, language: str = "") -> set[str]:
    return set(TOKENS.counts(text, language)) - set(LANGUAGE_MARKS)


def meets(text: str, query: str, spoken: dict[str, int] | None = None) -> bool:
    """Whether every word of the query, or the whole of an identifier, is in the text."""
    found = TOKENS.counts(text)
    asked = TOKENS.query(query, spoken)
    best = max(asked.values())
    return all(word in found for word, weight in asked.items() if weight == best)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Heat pumps were installed", "heat pump installing"),
        ("STRASSE", "straße"),
        ("ﬁne ｆｕｌｌ ②", "fine full 2"),
        ("Café re\u0301sume\u0301", "cafe résumé"),
        ("İstanbul ISPARTA", "istanbul"),
        ("Łódź Ørsted Đorđe", "lodz orsted dorde"),
        ("Ελλάδα", "ελλαδα"),
        ("ёлка", "елка"),
        ("книгами", "книга"),
        ("हिन्दी भाषाओं", "हिन्दी भाषा"),
        ("مُحَمَّد والكتاب", "محمد"),
        ("שָׁלוֹם", "שלום"),
        ("soft\u00adware zero\u200bwidth", "software zerowidth"),
        ("东京大学", "东京"),
        ("東京都に住む", "東京都"),
        ("한국어를 배운다", "한국어"),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "한국"),
        ("ภาษาไทย", "ไทย"),
        ("ភាសាខ្មែរ", "ខ្មែរ"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("C语言与React组件", "C语言 react"),
        ("Tiếng Việt", "tieng viet"),
    ],
)
def test_a_query_meets_other_spellings_of_its_words(text: str, query: str) -> None:
    assert meets(text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("getUserName()", "getUserName"),
        ("getUserName()", "user"),
        ("getUserName()", "get_user_name"),
        ("user_name", "userName"),
        ("HTTPServer", "server"),
        ("Get-ChildItem -Path", "ChildItem"),
        ("state-of-the-art", "stateoftheart"),
        ("node.js", "nodejs"),
        ("__init__.py", "init"),
        ("_emphasis_", "emphasis"),
        ("release 7.4.1", "7.4.1"),
        ("on 2024-01-02", "20240102"),
        ("on 2024-01-02", "2024"),
        ("C++ and C#", "c++"),
        ("C++ and C#", "C#"),
        ("#project/alpha/one", "#project/alpha/one"),
        ("#project/alpha/one", "#project/alpha"),
        ("#project/alpha/one", "project/alpha/one"),
        ("#project/alpha/one", "alpha"),
        ("#Größe", "#grosse"),
        ("#to-do", "todo"),
        ("🌱 seedling", "🌱"),
    ],
)
def test_identifiers_numbers_and_tags_are_found_whole_and_by_parts(text: str, query: str) -> None:
    assert meets(text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("3.14", "314"),
        ("#project/alphabet", "#project/alpha"),
        ("project", "#project"),
        ("й", "и"),
        ("कम", "काम"),
        ("C", "C++"),
        ("", "anything"),
    ],
)
def test_different_words_stay_apart(text: str, query: str) -> None:
    assert not meets(text, query)


@pytest.mark.parametrize("text", ["猫", "黒い猫がいる", "ネコ猫", "ก", "나는 고양이"])
def test_a_query_of_one_character_is_answered(text: str) -> None:
    query = TOKENS.query(text[-1])
    assert query == {text[-1]: 1.0}
    assert text[-1] in TOKENS.counts(text)


def test_the_whole_outweighs_parts_single_characters_and_function_words() -> None:
    query = TOKENS.query("what is getUserName 東京")
    assert query["getusernam"] == query["東京"] == 1.0
    assert query["user"] == PART_WEIGHT
    assert query["東"] == SINGLE_WEIGHT
    assert query["what"] == query["is"] == FUNCTION_WORD_WEIGHT


def test_a_query_of_function_words_still_asks_for_them() -> None:
    assert TOKENS.query("The Who") == {"the": FUNCTION_WORD_WEIGHT, "who": FUNCTION_WORD_WEIGHT}


def test_a_word_said_twice_counts_once_in_a_query_and_twice_in_a_text() -> None:
    assert TOKENS.query("pump pump pumps") == {"pump": 1.0}
    assert TOKENS.counts("pump pump pumps") == {"pump": 3}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The house that was built on the hill is for sale", "english"),
        ("Das Haus, das auf dem Hügel gebaut wurde, ist zu verkaufen", "german"),
        ("La maison qui est sur la colline est à vendre avec le jardin", "french"),
        ("La casa que está en la colina es para los dos", "spanish"),
        ("A casa que foi construída na colina não está à venda", "portuguese"),
        ("Il palazzo che è stato costruito sulla collina non è per gli altri", "italian"),
        ("Het huis dat op de heuvel werd gebouwd is niet te koop", "dutch"),
        ("Dom, który jest na wzgórzu, nie jest dla mnie", "polish"),
        ("Дом на холме", ""),
        ("pump boiler radiator", ""),
        ("", ""),
    ],
)
def test_the_language_of_a_note_is_told_by_its_function_words(text: str, language: str) -> None:
    assert TOKENS.language(text) == language


def test_a_short_piece_is_stemmed_in_the_language_of_its_note() -> None:
    assert "haus" in words("Häuser", "german")
    assert "hauser" in words("Häuser")


def test_a_piece_in_another_language_than_its_note_is_stemmed_in_its_own() -> None:
    assert "hous" in words("These are the houses that were built for the people of the town", "german")


def test_each_document_counts_the_mark_of_its_language_once() -> None:
    counts = TOKENS.counts("Das Haus und der Garten sind für die Häuser auf dem Hügel")
    assert counts["@german"] == 1
    assert not {word for word in TOKENS.counts("@german mail@german.example") if word.startswith("@")}


def test_a_short_query_is_stemmed_in_the_languages_of_the_documents() -> None:
    assert TOKENS.query("Häuser") == {"hauser": 1.0}
    assert TOKENS.query("Häuser", {"@german": 100}) == {"haus": 1.0}
    assert TOKENS.query("Häuser", {"@german": 50, "@english": 50}) == {"haus": 1.0, "hauser": 1.0}
    assert TOKENS.query("Häuser", {"@german": 5, "@english": 95}) == {"haus": OTHER_LANGUAGE_WEIGHT, "hauser": 1.0}
    assert TOKENS.query("Häuser", {"@german": 1, "@english": 999}) == {"hauser": 1.0}


def test_a_query_that_shows_its_language_is_stemmed_in_it() -> None:
    query = TOKENS.query("Wo sind die Häuser und wer ist der Besitzer", {"@english": 60, "@german": 40})
    assert query["haus"] == 1.0
    assert query["hauser"] == OTHER_LANGUAGE_WEIGHT


def test_every_language_of_the_table_has_a_stemmer_and_its_own_words() -> None:
    for language, known in LATIN.items():
        assert words("word", language)
        assert len(known) > 25
        assert all(word == normal(word) or language == "german" for word in known)


def test_spans_cover_the_words_that_hit_and_no_function_words() -> None:
    text = "The pump, the heat pumps; 東京都"
    query = TOKENS.query("is the pump in 東京")
    assert [text[start:end] for start, end in TOKENS.spans(text, query)] == ["pump", "pumps", "東京"]


def test_spans_that_overlap_are_one() -> None:
    assert TOKENS.spans("東京都庁", TOKENS.query("東京都")) == [(0, 3)]
    assert TOKENS.spans("a getUserName b", TOKENS.query("user")) == [(2, 13)]


def test_spans_of_a_single_character_beside_other_words() -> None:
    text = "黒い猫 and C"
    assert [text[start:end] for start, end in TOKENS.spans(text, TOKENS.query("C 猫"))] == ["猫", "C"]


def test_every_letter_mark_and_number_of_the_basic_plane_is_in_a_word() -> None:
    lost = [
        f"{code:04X}"
        for code in range(0x10000)
        if unicodedata.category(char := chr(code))[0] in "LNM" and not (WORDS.match(char) or WIDE.match(char))
    ]
    assert lost == []


def test_no_letter_of_the_other_planes_is_lost() -> None:
    lost = [
        f"{code:04X}"
        for code in range(0x10000, sys.maxunicode + 1)
        if unicodedata.category(char := chr(code))[0] in "LN" and not (WORDS.match(char) or WIDE.match(char))
    ]
    assert lost == []


def test_marks_that_are_letters_in_all_but_name_stay() -> None:
    assert fold("हिन्दी") == "हिन्दी"
    assert fold("й") == "й"
    assert fold("ё") == "е"
    assert fold("ế") == "e"


@pytest.mark.parametrize("piece", ["a", "a-", "a\u0301", "#a/", "a_", "aB", "\ufdfa"])
def test_no_text_is_one_giant_word(piece: str) -> None:
    assert max(map(len, words(piece * 1_000_000))) <= 2000


def test_two_threads_may_use_one_tokenizer() -> None:
    tokens = Tokenizer()
    texts = [f"Häuser number{n} getUser{n} 東京{n} running" for n in range(300)]
    expected = [Tokenizer().counts(text) for text in texts[:20]]
    wrong: list[str] = []

    def work() -> None:
        for _ in range(3):
            wrong.extend(t for t, e in zip(texts, expected, strict=False) if tokens.counts(t) != e)
            for text in texts:
                tokens.query(text)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_more_words_than_are_kept_are_counted_as_ever() -> None:
    tokens = Tokenizer()
    texts = [" ".join(f"word{n}s getUser{n}" for n in range(at, at + 1000)) for at in range(0, 40_000, 1000)]
    for text in texts:
        tokens.counts(text)
    for text in (texts[-1], texts[0], texts[-1]):
        assert tokens.counts(text) == Tokenizer().counts(text)


TEXTS = st.text(max_size=60) | st.text(alphabet="aB1_-./#@ é'中क्Ǆ\ufe0f\u200d\u00adİ½😀", max_size=30)


@given(text=TEXTS)
def test_any_text_gives_words_that_can_be_stored(text: str) -> None:
    counts = TOKENS.counts(text)
    assert all(word and not set(word) & {"\n", "\r", " "} and len(word) <= 200 for word in counts)
    assert all(count > 0 for count in counts.values())
    assert all(0 < weight <= 1 for weight in TOKENS.query(text).values())


@given(text=TEXTS)
def test_a_text_is_found_by_itself(text: str) -> None:
    found = set(TOKENS.counts(text, "english"))
    asked = {word for word in TOKENS.query(text) if not word.startswith("#")}
    spoken = TOKENS.language(text) or "english"
    assert spoken != "english" or asked <= found


@given(text=TEXTS)
def test_spans_lie_in_the_text_and_apart(text: str) -> None:
    end = -1
    for start, stop in TOKENS.spans(text, TOKENS.query(text)):
        assert end < start < stop <= len(text)
        end = stop


@given(text=TEXTS)
@example(text="⇍ a⇍b ⫝̸")
def test_composed_and_decomposed_text_have_the_same_words(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    assert words(unicodedata.normalize("NFD", composed)) == words(composed)
