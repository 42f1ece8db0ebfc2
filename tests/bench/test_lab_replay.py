"""The lab's replay: the rounds of an engine, computed from recorded tokens alone."""

from pathlib import Path

import pytest
from fakes_record import Run, answer_with, repetitive, write_record
from fakes_rounds import Says
from hypothesis import given, settings
from hypothesis import strategies as st

from galley.bench.errors import BenchError
from galley.bench.lab.reader import read_sessions
from galley.bench.lab.replay import Foretelling, replay
from galley.bench.lab.rounds import Rounds, recorded
from galley.bench.lab.streams import Session, Stream, in_turn
from galley.spec.copies import Copies
from galley.spec.draft import Draft, Guess
from galley.spec.policy import DraftPolicy, Silent

CHARACTERS = st.lists(st.integers(1, 3), min_size=1, max_size=40)


def session(*answers: tuple[list[int], list[int]]) -> Session:
    streams = [Stream(prompt, answer) for prompt, answer in answers]
    return Session("session", streams, in_turn(streams))


def run(one: Session, *policies: DraftPolicy, width: int = 7) -> Rounds:
    return replay(one, policies, width).rounds


def test_the_prompts_round_gives_the_first_token_and_each_round_one_more_than_stood() -> None:
    rounds = run(session(([5], [1, 2, 9, 1, 2, 3])), Says(1, 2, 3))
    assert rounds.made.tolist() == [1, 2, 3]
    assert rounds.stood.tolist() == [0, 0, 3]
    assert rounds.kept.tolist() == [1, 1, 3]


def test_without_guesses_every_round_keeps_one_token() -> None:
    rounds = run(session(([5], [1, 2, 3, 4])), Silent())
    assert rounds.kept.tolist() == [1, 1, 1]
    assert rounds.width.tolist() == [1, 1, 1]
    assert rounds.judged.tolist() == [0, 0, 0]


def test_guesses_past_the_end_of_the_answer_are_fed_but_not_judged() -> None:
    rounds = run(session(([5], [7, 1, 2])), Says(1, 2, 3, 4))
    assert rounds.judged.tolist() == [2]
    assert rounds.stood.tolist() == [2]
    assert rounds.kept.tolist() == [2]
    assert rounds.width.tolist() == [5]


def test_a_round_verifies_no_more_guesses_than_its_width() -> None:
    rounds = run(session(([5], [7, 1, 2, 3, 4, 9])), Says(1, 2, 3, 4), width=2)
    assert rounds.kept.tolist() == [3, 1, 1]
    assert rounds.judged.max() == 2


def test_answers_of_one_token_and_of_none_take_no_decoding_round() -> None:
    policy = Says(1)
    rounds = run(session(([5], [7]), ([5], [])), policy)
    assert len(rounds.kept) == 0
    assert policy.calls == ["open", "observe", "close", "open", "close"]


def test_the_oracle_keeps_all_that_its_width_allows() -> None:
    answer = list(range(1, 18))  # one from the prompt, then 16
    assert run(session(([0], answer)), Foretelling(7)).kept.tolist() == [8, 8]


def test_of_several_policies_the_one_that_stands_longest_is_taken_in_each_round() -> None:
    one, other = Says(1, 9, grade=1), Says(2, 3, grade=2)
    rounds = run(session(([5], [7, 1, 2, 2, 3, 8])), one, other)
    assert rounds.kept.tolist() == [2, 3]
    assert rounds.grades[:, 0].tolist() == [1, 2]


def test_rows_that_ran_at_once_run_at_once_in_the_replay(tmp_path: Path) -> None:
    recording = Run(tmp_path / "trace")
    recording.open(0, [5], first=1)
    recording.open(1, [6], first=1)
    for seat in (0, 1):
        recording.round(seat, [], [2])
        recording.round(seat, [], [3])
        recording.close(seat)
    recording.open(0, [7], first=1)
    recording.round(0, [], [2])
    recording.close(0)
    recording.end()
    (one,) = read_sessions([tmp_path / "trace"])
    rounds = run(one, Silent())
    assert list(zip(rounds.stream.tolist(), rounds.rows.tolist(), strict=True)) == [
        *[(0, 2), (1, 2)] * 2,
        (2, 1),
    ]


@settings(deadline=None, max_examples=60)
@given(answers=st.lists(st.tuples(CHARACTERS, CHARACTERS), min_size=1, max_size=4))
def test_a_trace_replayed_with_its_own_policy_gives_the_rounds_that_were_measured(
    answers: list[tuple[list[int], list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace"
    recording, policy = Run(path), Copies()
    for prompt, answer in answers:
        answer_with(policy, recording, prompt, answer)
    recording.end()
    (one,) = read_sessions([path])
    assert [(list(s.prompt), list(s.answer)) for s in one.streams] == answers
    measured, computed = recorded(one, one.verified), run(one, Copies())
    for name in ("stream", "made", "judged", "stood", "kept", "grades"):
        assert getattr(measured, name).tolist() == getattr(computed, name).tolist(), name


def test_what_an_engine_kept_past_the_end_of_an_answer_is_cut(tmp_path: Path) -> None:
    recording = Run(tmp_path / "trace")
    recording.open(0, [5], first=1)
    recording.round(0, [2, 3, 4], [2, 3, 4, 5], cut=2)
    recording.close(0)
    recording.end()
    (one,) = read_sessions([tmp_path / "trace"])
    assert one.streams[0].answer == [1, 2, 3]
    assert recorded(one, one.verified).kept.tolist() == [2]


def test_a_tree_of_guesses_is_judged_by_how_deep_it_stands(tmp_path: Path) -> None:
    recording = Run(tmp_path / "trace")
    recording.open(0, [5], first=1)
    tree = Draft.of([Guess([2, 3, 4, 5, 6, 7])], 8)._replace(in_tree=True)
    recording.drafted(0, tree, [3, 6, 9], levels=3)
    recording.drafted(0, tree, [9], levels=3)
    recording.close(0)
    recording.end()
    (one,) = read_sessions([tmp_path / "trace"])
    measured = recorded(one, one.verified)
    assert measured.stood.tolist() == [2, 0]
    assert measured.judged.tolist() == [3, 1]  # one token was left in the second round


def test_a_row_that_had_not_ended_is_left_out_and_counted(tmp_path: Path) -> None:
    recording = Run(tmp_path / "trace")
    for seat in (0, 1):
        recording.open(seat, [5 + seat], first=1)
        recording.round(seat, [], [2])
    recording.close(1)
    recording.end()
    (one,) = read_sessions([tmp_path / "trace"])
    assert [stream.prompt for stream in one.streams] == [[6]]
    assert one.unfinished == 1
    assert [verified.stream for verified in one.verified] == [0]


def test_each_start_in_a_trace_is_a_session_of_its_own(tmp_path: Path) -> None:
    for token in (5, 6):
        recording = Run(tmp_path / "trace")
        answer_with(Silent(), recording, [token], [1, 2])
        recording.end()
    assert [list(one.streams[0].prompt) for one in read_sessions([tmp_path / "trace"])] == [
        [5],
        [6],
    ]


def test_a_trace_without_a_row_that_ended_is_refused(tmp_path: Path) -> None:
    Run(tmp_path / "trace").end()
    with pytest.raises(BenchError, match="no row that has ended"):
        read_sessions([tmp_path / "trace"])


def test_answers_of_a_record_are_replayed_one_after_the_other(tmp_path: Path) -> None:
    answers = [("a", [1, 2], repetitive(range(5), 30)), ("b", [3], [4, 4, 4])]
    (one,) = read_sessions([write_record(tmp_path / "record", *answers)])
    assert [stream.category for stream in one.streams] == ["a", "b"]
    rounds = run(one, Copies())
    assert rounds.rows.max() == 1
    assert rounds.kept.sum() == 29 + 2


def test_a_file_that_is_neither_is_refused_by_name_and_line(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_text('{"prompt": [1], "answer": [2]}\n{"prompt": [1]}\n')
    with pytest.raises(BenchError, match="record, line 2"):
        read_sessions([path])
