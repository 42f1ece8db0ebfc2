"""Every number that the whole engine publishes is explained."""

from pathlib import Path

from galley.api.metrics import HELP, histogram_of, labelled
from galley.engine import Engine, Sampling
from galley.spec.plan import Device


def test_there_is_no_metric_without_a_word_on_what_it_means(
    tiny: Path, device: Device, compiled: Path
) -> None:
    with Engine.load(tiny, device=device, compiled=compiled, shadow="copy") as engine:
        list(engine.open("hello hello hello hello", Sampling(max_tokens=20, ignore_eos=True)))
        keys = engine.metrics()
    names = {labelled(key)[0] for key in keys}
    histograms = {histogram_of(key) for key in keys} - {""}
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    assert names >= parts
    assert (names - parts) | histograms <= HELP.keys()
    assert len(names) > 50
