"""What is asked, whoever is measured."""

from itertools import chain

from galley.bench import workloads
from galley.bench.workloads import Prompt, Scenario, Texts

TEXTS = Texts(seed=0, tokens_per_word=1.25)


def every_scenario(texts: Texts) -> list[Scenario]:
    shorts = [workloads.short(texts, width, repeats=3) for width in (1, 4)]
    return [*shorts, workloads.prefill(texts, repeats=3), *workloads.copies(texts, repeats=3)]


def prompts(scenario: Scenario) -> list[str]:
    everything = chain(scenario.warm_up, *scenario.runs)
    return [str(prompt.body["prompt"]) for prompt in everything]


def test_no_two_prompts_of_a_run_begin_alike() -> None:
    texts = [text for scenario in every_scenario(TEXTS) for text in prompts(scenario)]
    beginnings = {" ".join(text.split()[:4]) for text in texts}
    assert len(beginnings) == len(texts)


def test_a_seed_gives_the_same_prompts_every_time() -> None:
    assert every_scenario(TEXTS) == every_scenario(Texts(0, 1.25))
    assert workloads.digest(every_scenario(TEXTS)) == workloads.digest(every_scenario(TEXTS))
    assert workloads.digest(every_scenario(TEXTS)) != workloads.digest(
        every_scenario(Texts(1, 1.25))
    )


def test_prompts_have_the_wanted_length_by_the_servers_count() -> None:
    assert len(TEXTS.made_up(1000, "x").split()) == 800
    assert len(prompts(workloads.short(TEXTS, 1, 1))[-1].split()) == round(64 / 1.25)


def test_short_answers_have_a_fixed_length_and_copies_end_by_themselves() -> None:
    short, *_, copy = every_scenario(TEXTS)
    assert short.runs[0][0].body.items() >= {"max_tokens": 128, "ignore_eos": True}.items()
    assert "ignore_eos" not in copy.runs[0][0].body


def test_texts_of_a_file_are_sent_as_they_are_one_after_the_other() -> None:
    texts = Texts(0, 1.0, {"short": ["a", "b", "c"], "prefill": ["long"], "copy": ["again"]})
    runs = workloads.short(texts, 2, repeats=2).runs
    assert [[prompt.body["prompt"] for prompt in run] for run in runs] == [["a", "b"], ["c", "a"]]
    assert workloads.prefill(texts, 1).runs[0][0].body["prompt"] == "long"
    (copy,) = workloads.copies(texts, repeats=2)
    assert copy.runs == ((Prompt({"prompt": "again", "max_tokens": 256}),),) * 2


def test_a_warm_up_uses_no_text_of_the_file() -> None:
    texts = Texts(0, 1.0, {"short": ["a"]})
    assert "a" not in [prompt.body["prompt"] for prompt in workloads.short(texts, 4, 1).warm_up]
