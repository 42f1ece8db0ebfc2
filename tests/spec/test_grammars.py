"""Rows that are held to grammars: their drafts, their masks, and how far they have come."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import fakes_tokens
import numpy as np
import pytest
from fakes_grammars import ENDS, allows
from llguidance import LLTokenizer

from galley.model.grammar_text import GrammarText, choice, lark, regex
from galley.spec import grammars as module
from galley.spec.draft import Draft, Guess
from galley.spec.grammar import Grammar, Place
from galley.spec.grammars import FORCED, Grammars
from galley.spec.lexicon import lexicon, words_of
from galley.spec.round import DECODE, PROMPTS, Batch, Opening, Round
from galley.spec.tree import Tree

MOST = 7


@pytest.fixture(scope="module")
def known() -> LLTokenizer:
    tokenizer = fakes_tokens.byte_level()
    return lexicon(words_of(tokenizer, tokenizer.vocab_size, ENDS))


class Held:
    """One row with a grammar, and one without, in a batch."""

    def __init__(self, known: LLTokenizer, text: GrammarText, trims: bool = True, **more: Any):
        self.grammar = Grammar(known, text.text)
        self.rows = Grammars(trims)
        usual = Opening(0, [1], 0, 9, [0], 0, 0.0, 0, 1.0, 0.0, grammar=self.grammar)
        self.rows.open(usual._replace(**more))
        self.rows.open(usual._replace(seat=1, grammar=None))
        views: Any = [SimpleNamespace(seat=1), SimpleNamespace(seat=0)]
        self.batch = Batch(DECODE, views)
        self.views = views

    def guide(self, guess: str, most: int = MOST, then: Sequence[int] = ()) -> Draft:
        """The draft after the grammar saw the text, and the tokens, that are guessed."""
        guesses = [Guess([1, 2, 3], 4, "other"), Guess([*guess.encode(), *then], 5, "copy")]
        return self.rows.guide(self.batch, Draft.of(guesses, max(3, len(guess) + len(then))), most)

    def masks(self, draft: Draft, tree: Tree | None = None) -> tuple[Any, list[int]]:
        counts = draft.counts.copy()
        return self.rows.masks(self.batch, draft, counts, tree), counts.tolist()

    def keep(self, tokens: Sequence[int], draft: Draft) -> Round:
        """The round in which these tokens stood."""
        width = max(len(tokens), 1)
        both = np.zeros((2, width), np.int32)
        both[1, : len(tokens)] = tokens
        kept = np.array([1, len(tokens)], np.int32)
        done = Round(both, kept, kept, np.zeros(both.shape, np.float32), draft.counts.copy())
        return self.rows.keep(self.batch, done, draft.counts, False)


def words(draft: Draft) -> tuple[str, str]:
    """What is guessed for the row with the grammar, and by whom."""
    return bytes(draft.guess(1).tokens).decode(), draft.sources[1]


def test_a_guess_is_cut_where_it_is_not_allowed(known: LLTokenizer) -> None:
    held = Held(known, regex("[a-z]{4}[0-9]"))
    assert words(held.guide("abxy7")) == ("abxy7", "copy")
    draft = held.guide("abx7y")
    assert words(draft) == ("abx", "copy")
    assert draft.guess(0) == Guess([1, 2, 3], [4, 4, 4], "other")
    assert not draft.tokens[1, 3:].any()


def test_what_is_forced_goes_before_what_is_guessed(known: LLTokenizer) -> None:
    held = Held(known, regex("warm-[a-z]+"))
    assert words(held.guide("")) == ("warm-", FORCED)
    assert words(held.guide("war")) == ("warm-", FORCED)
    assert words(held.guide("warp me")) == ("warm-", FORCED)
    assert words(held.guide("warm-you")) == ("warm-you", "copy")
    assert words(held.guide("warm-YOU")) == ("warm-", "copy")
    assert words(held.guide("", most=3)) == ("war", FORCED)
    assert words(held.guide("wax", most=0)) == ("wa", "copy")


@pytest.mark.parametrize(
    ("more", "forced"),
    [({"most_guesses": 2}, "wa"), ({"most_guesses": 0}, ""), ({"guesser": "none"}, "")],
)
def test_a_row_that_wants_fewer_guesses_has_fewer_forced_ones(
    more: dict[str, Any], forced: str, known: LLTokenizer
) -> None:
    assert words(Held(known, regex("warm-[a-z]+"), **more).guide(""))[0] == forced


def test_nothing_is_left_out_where_that_would_change_the_law(known: LLTokenizer) -> None:
    held = Held(known, regex("hello"), trims=False)
    draft = held.guide("help")
    assert words(draft) == ("help", "copy")
    bits, counts = held.masks(draft)
    assert counts == [3, 4]
    assert allows_only(bits[1, 3], "l")


def test_a_guess_that_was_cut_off_is_judged_as_one_that_fell(known: LLTokenizer) -> None:
    held = Held(known, regex("[a-z]{4}[0-9]"))
    draft = held.guide("abx7y")
    done = held.keep(list(b"abxy"), draft)
    judged, seen = held.rows.judged(draft, done)
    assert (judged.counts[1], seen.guessed[1]) == (4, 4)
    assert judged.grades[1, :4].tolist() == [5, 5, 5, 5]
    assert (draft.counts[1], done.guessed[1]) == (3, 3)
    draft = held.guide("1")  # nothing was cut off
    assert held.rows.judged(draft, done) == (draft, done)


def test_a_guess_of_an_end_token_is_cut_off_and_neither_right_nor_wrong(
    known: LLTokenizer,
) -> None:
    held = Held(known, regex("[a-c]{2}d?"))
    draft = held.guide("ab", then=[ENDS[0], *b"d"])
    assert words(draft) == ("ab", "copy")
    done = held.keep([*b"ab"], draft)
    assert held.rows.judged(draft, done) == (draft, done)


@pytest.mark.parametrize("trims", [True, False])
@pytest.mark.parametrize("behind", [[ENDS[0]], [ENDS[1], *b"c"], [*b"c", ENDS[0]]])
def test_guesses_behind_the_end_of_a_grammar_leave_the_answer_where_it_is(
    known: LLTokenizer, trims: bool, behind: list[int]
) -> None:
    held = Held(known, regex("[a-c]{3}"), trims)
    for text in ("a", "b"):
        held.masks(held.guide("abc"[: 3 - "ab".index(text)], then=behind))
        assert held.keep([*text.encode()], held.guide("")).kept[1] == 1
    bits, _ = held.masks(held.guide("c", then=behind))
    assert allows_only(bits[1, 0], "abc")
    assert held.keep([*b"c"], held.guide("")).is_whole(1)


def allows_only(mask: Any, characters: str) -> bool:
    place: Any = SimpleNamespace(mask=mask)
    return [chr(token) for token in range(256) if allows(place, token)] == sorted(characters)


def test_there_is_a_mask_after_every_guess(known: LLTokenizer) -> None:
    held = Held(known, choice(["abc", "abd", "xyz"]))
    bits, counts = held.masks(held.guide("ab"))
    assert counts == [3, 2]
    assert bits.shape == (2, 3, held.grammar.words)
    assert [allows_only(bits[1, at], text) for at, text in enumerate(("ax", "b", "cd"))] == [
        True
    ] * 3
    assert (bits[0] == 0xFFFFFFFF).all()


def test_rows_without_grammars_have_no_masks(known: LLTokenizer) -> None:
    held = Held(known, regex("a"))
    free = Batch(DECODE, held.views[:1])
    draft = Draft.of([Guess([1])], 1)
    assert held.rows.masks(free, draft, draft.counts, None) is None


def test_a_prompt_has_one_mask_for_the_token_after_it(known: LLTokenizer) -> None:
    held = Held(known, regex("ab"))
    fed = Draft.of([Guess([5, 6, 7])] * 2, 3)
    bits = held.rows.masks(Batch(PROMPTS, held.views), fed, fed.counts, None)
    assert bits is not None
    assert bits.shape[1] == 1
    assert allows_only(bits[1, 0], "a")


def test_masks_that_take_too_long_leave_guesses_for_another_round(
    known: LLTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUDGET", -1.0)
    held = Held(known, regex("abcdef"))
    bits, counts = held.masks(held.guide("abc"))
    assert counts == [3, 0]
    assert allows_only(bits[1, 0], "a")


def test_each_node_of_a_tree_has_the_mask_of_its_way(known: LLTokenizer) -> None:
    held = Held(known, choice(["abc", "axy", "b"]))
    tree = Tree((0, 1, 1, 0))  # a: b, x; b
    tokens = np.array([[0] * 4, list(b"abxb")], np.int32)
    counts = np.array([0, 4], np.int32)
    draft = Draft(tokens, counts, np.zeros_like(tokens), ("", "tree"), in_tree=True)
    assert held.rows.guide(held.batch, draft, MOST) is draft
    bits, after = held.masks(draft, tree)
    assert after == [0, 4]
    follow = ["ab", "bx", "c", "y", ""]
    assert all(allows_only(bits[1, node], text) for node, text in enumerate(follow))


def test_o9_a_grammar_that_ends_within_a_round_ends_the_answer_there(known: LLTokenizer) -> None:
    held = Held(known, choice(["ab", "ac"]))
    draft = held.guide("ab")
    held.masks(draft)
    done = held.keep([*b"ab", ENDS[0]], draft)
    assert (done.kept[1], done.is_whole(1)) == (2, True)
    assert (done.kept[0], done.is_whole(0)) == (1, False)
    assert not done.broken


def test_an_end_token_is_taken_where_the_answer_is_whole(known: LLTokenizer) -> None:
    held = Held(known, regex("ab*"))
    draft = held.guide("")
    held.masks(draft)
    done = held.keep([*b"ab"], draft)
    assert not done.is_whole(1)
    done = held.keep([ENDS[1]], draft)
    assert (done.kept[1], done.is_whole(1), dict(done.broken)) == (1, False, {})


def test_an_end_token_that_comes_too_early_breaks_the_answer_off(known: LLTokenizer) -> None:
    held = Held(known, regex("abc"))
    done = held.keep([*b"a", ENDS[0]], held.guide(""))
    assert done.kept[1] == 1
    assert "before it was whole" in done.broken[1]


def test_a_grammar_that_failed_before_the_answer_began_breaks_it_off(known: LLTokenizer) -> None:
    held = Held(known, regex("abc"))
    held.rows._rows[0].place.error = "too many states"
    done = held.keep([ENDS[0]], held.guide(""))
    assert (done.kept[1], done.is_whole(1)) == (0, False)
    assert "too many states" in done.broken[1]


def test_a_grammar_that_fails_breaks_its_own_answer_off(
    known: LLTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, other = Held(known, regex("abcdef")), Held(known, regex("abcdef"))
    take = Place.take

    def failing(place: Place, token: int, mask: Any = None) -> None:
        take(place, token, mask)
        if place.grammar is held.grammar and token == ord("c"):
            place.error = "too many states"

    monkeypatch.setattr(Place, "take", failing)
    done = held.keep(list(b"abcd"), held.guide(""))
    assert done.kept[1] == 3
    assert "too many states" in done.broken[1]
    assert not done.is_whole(1)
    assert not other.keep(list(b"abcd"), other.guide("")).broken


def test_what_is_asked_of_a_grammar_beyond_its_limits_leaves_the_answer_where_it_is(
    known: LLTokenizer,
) -> None:
    grammar = Grammar(known, lark("start: /(.*a.{20}b.*)|(.*c.{20}d.*)/").text)
    place = grammar.start()
    place.take(ord("x"))
    place._matcher.consume_token(ENDS[0])  # what no grammar allows here
    assert place._matcher.is_error()
    place._mend()
    assert place.legal(list(b"abc")) == 3
    place.take(ord("y"))
    assert place.error is None
