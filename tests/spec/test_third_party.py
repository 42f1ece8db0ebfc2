"""Policies of other people: the example of the documentation, and the ways to name one."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from fakes_policies import opening

from galley.engine import Engine, Sampling
from galley.spec import policies
from galley.spec.plan import Device
from galley.spec.policies import BadPolicy
from galley.spec.policy import DraftPolicy

DOCUMENT = Path(__file__).parents[2] / "docs" / "policies.md"
PROMPTS = [[5, 6, 7, 8] * 5, list(range(40, 80)), [9, 9, 10] * 3]


def example() -> str:
    """The first Python block of the page."""
    found = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python imports from; what it held is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def pairs(folder: Path) -> Path:
    """The example, saved as the page says."""
    (folder / "pairs.py").write_text(example())
    return folder


def answers(tiny: Path, device: Device, compiled: Path, policy: str) -> list[list[int]]:
    """Each prompt is asked twice, so that there is something to have learned."""
    with Engine.load(
        tiny, policy=policy, widths="widest", device=device, compiled=compiled
    ) as engine:
        asked = Sampling(max_tokens=30, ignore_eos=True)
        said = [list(engine.generate(prompt, asked)) for prompt in PROMPTS * 2]
        right = engine.metrics()["engine_drafts_accepted_total"]
    assert (right > 50) == (policy != "none")
    return said


def test_the_example_of_the_page_changes_no_token_and_guesses_well(
    pairs: Path, tiny: Path, device: Device, compiled: Path
) -> None:
    del pairs
    mine = answers(tiny, device, compiled, "pairs:Pairs")
    assert mine == answers(tiny, device, compiled, "none")


def test_the_example_is_as_short_as_the_page_says() -> None:
    assert len(example().splitlines()) <= 42


def test_the_example_keeps_namespaces_apart_and_itself_within_bounds(pairs: Path) -> None:
    del pairs

    class Row:
        seat, tokens, cursor = 0, (1, 2, 3, 4), 0

    policy = policies.make("pairs:Pairs")
    for namespace in ("ours", "theirs"):
        policy.open(opening(0, [1], namespace))
        policy.close(Row())
    made = import_module("pairs").Pairs()
    made.MOST = 2
    made.open(opening(0, [1], "ours"))
    made.close(Row())
    assert len(made._next) == 2
    made.open(opening(0, [1], "theirs"))
    assert made.guess(Row()).tokens == []


def test_a_class_can_be_made_with_a_text(folder: Path) -> None:
    (folder / "told.py").write_text(
        "from galley.spec.policy import Silent\n"
        "class Told(Silent):\n"
        "    def __init__(self, text):\n"
        "        self.name = text\n"
    )
    assert policies.make("told:Told:a/file:with colon").name == "a/file:with colon"
    with pytest.raises(BadPolicy, match="told:Told cannot be made"):
        policies.make("told:Told")


def test_an_entry_point_is_a_name(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "from galley.spec.policy import Silent\nclass Mine(Silent):\n    name = 'mine'\n"
    )
    installed = folder / "mine-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[galley.drafts]\nowl = mine:Mine\n")
    made = policies.make("owl")
    assert isinstance(made, DraftPolicy)
    assert made.name == "mine"
    with pytest.raises(BadPolicy, match="owl"):
        policies.make("sparrow")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no_such_module:Mine", "No module named 'no_such_module'.*PYTHONPATH"),
        ("strange:Missing", "no attribute 'Missing'"),
        ("strange:VALUE", "is 3, not a draft policy"),
        ("strange:Other", "not a draft policy; name a subclass"),
        ("strange:Half", "has no propose"),
        ("strange:Half:text", "cannot be made"),
        (":Mine", "no draft policy is called ''"),
        ("", "no draft policy is called ''"),
        (".strange:Half", "no draft policy is called '.strange'"),
    ],
)
def test_what_is_no_policy_is_refused_with_the_reason(text: str, reason: str, folder: Path) -> None:
    (folder / "strange.py").write_text(
        "from galley.spec.policy import DraftPolicy\n"
        "VALUE = 3\n"
        "class Other: pass\n"
        "class Half(DraftPolicy): pass\n"
    )
    with pytest.raises(BadPolicy, match=reason):
        policies.make(text)
