"""The whole engine over the tiny model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from galley.engine import Engine, JobRefused, Sampling
from galley.spec.plan import Device


@pytest.fixture(scope="module")
def engine(tiny: Path, device: Device, compiled: Path) -> Iterator[Engine]:
    with Engine.load(tiny, device=device, compiled=compiled) as made:
        yield made


def edges(engine: Engine) -> list[int]:
    """Prompt lengths at and around every width that is prepared."""
    widths = {window.width for window in engine.plan.windows if window.feeds}
    around = {1, 2, *(width + step for width in widths for step in (-1, 0, 1)), 126, 127}
    return sorted(length for length in around if length < engine.plan.context)


def prompt(length: int, start: int = 0) -> list[int]:
    """A prompt that repeats itself now and then, so that there is something to copy."""
    return [(start + place * 7) % 23 + 10 for place in range(length)]


def test_tokens_come_as_they_are_verified_and_the_text_is_theirs(engine: Engine) -> None:
    stream = engine.generate("hello world", Sampling(max_tokens=20, ignore_eos=True))
    tokens = list(stream)
    assert len(tokens) == 20
    assert stream.text == engine.tokenizer.decode(tokens)
    assert stream.last is not None
    assert stream.last.finish == "length"


def test_the_promise_of_equal_tokens_holds_on_this_machine(engine: Engine) -> None:
    assert engine.promise.broken == ()
    assert engine.promise.checked > 0
    assert "same tokens" in engine.promise.sentence()


def test_o28_no_size_of_prompt_batch_or_answer_compiles_anything(engine: Engine) -> None:
    before = engine.metrics()["engine_compiles"]
    for length in edges(engine):
        list(engine.open(prompt(length), Sampling(max_tokens=1)))
    lengths = [length for length in edges(engine) if length < 100]
    for rows in range(1, engine.plan.rows + 1):
        samplings = [
            Sampling(max_tokens=3 + row, temperature=row % 3 / 2, top_k=row % 5, top_p=1 - row / 40)
            for row in range(rows)
        ]
        streams = [
            engine.open(prompt(lengths[row % len(lengths)], start=row), sampling)
            for row, sampling in enumerate(samplings)
        ]
        assert sum(len(list(stream)) for stream in streams) > 0
    assert engine.metrics()["engine_compiles"] == before


@pytest.mark.parametrize("room", [1, 2, 5])
def test_o11_an_answer_ends_with_the_context_whatever_is_guessed(engine: Engine, room: int) -> None:
    cut = prompt(engine.plan.context - room)
    ahead = prompt(engine.plan.context + 20)[-room - 20 :]
    lengths = []
    for guessing in ({}, {"prediction": ahead}, {"guesser": "none"}):
        stream = engine.open(cut, Sampling(ignore_eos=True), **guessing)
        lengths.append(len(list(stream)))
        assert stream.last is not None
        assert stream.last.finish == "length"
    assert lengths == [room] * 3


def test_o29_parameters_are_arguments_and_programs_hold_few_constants(engine: Engine) -> None:
    assert len(engine.entries.prepared) == len(engine.entries.ledger()) > 0
    for entry in engine.entries.prepared:
        assert entry.constant_bytes < 64_000, entry.line()
        assert entry.code_bytes < engine.plan.weight_bytes, entry.line()


def test_o30_the_entries_are_few_and_a_second_start_compiles_none_of_them(
    engine: Engine, tiny: Path, device: Device, compiled: Path
) -> None:
    windows = [*engine.plan.windows, *engine.plan.scoring]
    assert len(engine.entries.prepared) <= 4 * len(windows) + 5
    kept = {file.name for file in compiled.iterdir()}
    told: list[tuple[str, int, int]] = []
    with Engine.load(
        tiny, device=device, compiled=compiled, progress=lambda *news: told.append(news)
    ) as again:
        assert again.fingerprint == engine.fingerprint
        assert {file.name for file in compiled.iterdir()} == kept
        entries = len(again.entries.prepared)
    assert ("preparing entries", entries, entries) in told


def test_o31_an_end_token_ends_the_answer_unless_it_is_ignored(engine: Engine) -> None:
    """With much heat every token comes sooner or later; the noise is that of the seed."""
    ends = set(engine.checkpoint.config.eos)
    for seed in range(400):
        heat = Sampling(max_tokens=100, temperature=100.0, seed=seed)
        stopped = list(engine.open([5, 6, 7], heat))
        if stopped[-1] in ends:
            break
    assert stopped[-1] in ends
    assert ends.isdisjoint(stopped[:-1])
    ignoring = Sampling(max_tokens=100, temperature=100.0, seed=seed, ignore_eos=True)
    on_and_on = list(engine.open([5, 6, 7], ignoring))
    assert on_and_on[: len(stopped)] == stopped
    assert len(on_and_on) == 100


def test_o31_temperature_one_without_top_k_is_not_greedy(engine: Engine) -> None:
    answers = {
        tuple(engine.open(prompt(9), Sampling(max_tokens=8, temperature=1.0, seed=seed)))
        for seed in range(5)
    }
    assert len(answers) == 5


def test_o6_equal_seeds_give_equal_answers_and_no_seed_a_new_one(engine: Engine) -> None:
    seeded = [Sampling(max_tokens=8, temperature=1.0, seed=42)] * 2
    free = [Sampling(max_tokens=8, temperature=1.0)] * 4
    streams = [engine.open(prompt(9), sampling) for sampling in (*seeded, *free)]
    answers = [tuple(stream) for stream in streams]
    assert answers[0] == answers[1]
    assert len(set(answers)) == 5


def test_a_prompt_and_answer_may_fill_the_context_to_its_end(engine: Engine) -> None:
    for length in (1, 64, 126, 127):
        stream = engine.open(prompt(length), Sampling(ignore_eos=True))
        assert len(list(stream)) == 128 - length
    with pytest.raises(JobRefused, match="128 tokens and the context is 128"):
        engine.open(prompt(128))


def test_the_same_prompt_again_is_cached_and_answered_alike(engine: Engine) -> None:
    answers, cached = [], []
    for _ in range(2):
        stream = engine.open(list(range(100, 200)), Sampling(max_tokens=12, ignore_eos=True))
        answers.append(list(stream))
        assert stream.last is not None
        assert stream.last.usage is not None
        cached.append(stream.last.usage.cached_tokens)
    assert answers[0] == answers[1]
    assert cached == [0, 96]


def test_a_stream_that_is_left_is_cancelled(engine: Engine) -> None:
    for _ in engine.open([99], Sampling(ignore_eos=True)):  # it would fill the context
        break
    list(engine.open(prompt(5), Sampling(max_tokens=1)))
    with engine.pause():
        metrics = engine.metrics()
    assert metrics["engine_rows_running"] == metrics["engine_blocks_used"] == 0


def test_a_pause_changes_no_answer(engine: Engine) -> None:
    sampling = Sampling(max_tokens=60, temperature=0.7, seed=1, ignore_eos=True)
    whole = list(engine.open(prompt(8), sampling))
    running = iter(engine.open(prompt(8), sampling))
    paused = [next(running)]
    with engine.pause():
        rounds = engine.metrics()["engine_rounds_total"]
        assert engine.metrics()["engine_rounds_total"] == rounds
    assert [*paused, *running] == whole
