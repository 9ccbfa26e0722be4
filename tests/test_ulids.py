"""ULIDs: form, order, and what becomes of them when the clock stands still or goes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from sidecar.ulids import PATTERN, Ulids, new_ulid


def ids_at(*moments: int) -> list[str]:
    clock: Iterator[int] = iter(moments)
    make = Ulids(lambda: next(clock))
    return [make() for _ in moments]


def test_an_id_tells_its_millisecond() -> None:
    assert ids_at(0)[0].startswith("0000000000")
    assert ids_at(1_469_918_176_385)[0].startswith("01ARYZ6S41")  # the example of the specification
    assert ids_at((1 << 48) - 1)[0].startswith("7ZZZZZZZZZ")


def test_ids_have_the_form() -> None:
    made = [new_ulid() for _ in range(1000)]
    assert all(PATTERN.fullmatch(each) for each in made)
    assert made == sorted(set(made))


def test_ids_of_one_millisecond_rise() -> None:
    made = ids_at(*[5] * 1000)
    assert made == sorted(set(made))
    assert len({each[:10] for each in made}) == 1


def test_a_clock_that_is_set_back_makes_no_smaller_id() -> None:
    made = ids_at(1000, 10, 999, 1001)
    assert made == sorted(set(made))


def test_two_makers_do_not_agree() -> None:
    assert ids_at(5) != ids_at(5)


def test_threads_never_get_the_same_id() -> None:
    make, made = Ulids(lambda: 5), list[str]()

    def work() -> None:
        mine = [make() for _ in range(500)]
        assert mine == sorted(mine)
        made.extend(mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 2000
