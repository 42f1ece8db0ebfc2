"""Programs that are compiled once, before anything is served."""

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from galley.model.entries import Entries, Program, keep_compiled, shape

SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture
def entries() -> Iterator[Entries]:
    made = Entries(threads=2, platform="cpu")
    yield made
    made.close()


def add(a: jax.Array, b: jax.Array) -> jax.Array:
    return a * 2 + b


def program(size: int) -> Program:
    vector = shape((size,), np.float32)
    return Program("add", f"{size} numbers", "a test", add, (vector, vector))


def test_programs_come_back_in_their_order_and_run(entries: Entries) -> None:
    three, five = entries.prepare([program(3), program(5)])
    for run, size in ((three, 3), (five, 5)):
        ones = np.ones(size, np.float32)
        assert np.asarray(run(ones, ones)).tolist() == [3.0] * size


@pytest.mark.parametrize("wrong", [np.ones(4, np.float32), np.ones(3, np.int32), np.ones((1, 3))])
def test_o28_an_argument_of_another_shape_raises_and_compiles_nothing(
    wrong: np.ndarray, entries: Entries
) -> None:
    (run,) = entries.prepare([program(3)])
    compiles = entries.compiles
    with pytest.raises(TypeError):
        run(np.ones(3, np.float32), wrong)
    assert entries.compiles == compiles


def test_running_an_entry_compiles_nothing_and_a_new_function_is_noticed(
    entries: Entries,
) -> None:
    (run,) = entries.prepare([program(7)])
    assert entries.compiles == 1
    for _ in range(3):
        run(np.ones(7, np.float32), np.ones(7, np.float32))
    assert entries.compiles == 1
    jax.jit(lambda x: x - 17)(np.ones(7, np.float32))
    assert entries.compiles == 2


def test_an_argument_that_is_given_away_is_used_up(entries: Entries) -> None:
    vector = shape((3,), np.float32)
    given = Program("add", "3 numbers", "a test", add, (vector, vector), donate=(0,))
    (run,) = entries.prepare([given])
    mine, kept = jnp.ones(3), jnp.ones(3)
    run(mine, kept)
    assert mine.is_deleted()
    assert not kept.is_deleted()


def test_progress_tells_of_every_entry(entries: Entries) -> None:
    told: list[tuple[int, int]] = []
    entries.prepare([program(size) for size in (3, 4, 5)], lambda n, of: told.append((n, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_ledger_has_a_line_for_each_entry(entries: Entries) -> None:
    entries.prepare([program(3), program(4)])
    lines = entries.ledger()
    assert [(line["name"], line["shape"], line["reason"]) for line in lines] == [
        ("add", "3 numbers", "a test"),
        ("add", "4 numbers", "a test"),
    ]
    for line in lines:
        assert line["constant_bytes"] == 0
        assert {"seconds", "code_bytes", "scratch_bytes"} <= line.keys()


def test_o29_an_array_that_a_program_swallows_shows_in_the_ledger(entries: Entries) -> None:
    table = jnp.arange(1000, dtype=jnp.float32)
    number = shape((), np.int32)
    entries.prepare([Program("take", "1", "a test", lambda at: table[at], (number,))])
    assert entries.ledger()[0]["constant_bytes"] == 4000


@pytest.fixture
def settings() -> Iterator[None]:
    """Leaves jax's settings of the compile cache as they were."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    yield
    for name, value in before.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("settings")
def test_compiled_programs_are_kept_where_only_their_owner_can_write(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    for name in ("open", "new/folder"):
        keep_compiled(tmp_path / name)
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("settings")
def test_o30_programs_are_kept_however_small_and_quick_they_are(tmp_path: Path) -> None:
    keep_compiled(tmp_path / "kept")
    assert [getattr(jax.config, name) for name in SETTINGS] == [str(tmp_path / "kept"), 0.0, -1]
