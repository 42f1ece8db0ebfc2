"""The command as a process of its own, with a tiny model."""

import json
import signal
import subprocess

from fakes_process import Galley

ANSWER = 100  # tokens


def test_generate_puts_the_answer_on_stdout_and_the_rest_on_stderr(galley: Galley) -> None:
    words = ("generate", "hello world and", "--raw", "--max-tokens", "12")
    command = galley.command(*words, "--model", str(galley.model))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)
    assert done.stdout.strip()
    assert "12 tokens" in done.stderr.splitlines()[-1]
    assert "12 tokens" not in done.stdout


def test_serve_answers_and_says_what_it_decided(galley: Galley) -> None:
    with galley.serving() as served, served.client as client:
        assert client.get("/health").json()["status"] == "ok"
        body = {"prompt": "hello", "max_tokens": 5, "ignore_eos": True, "temperature": 0}
        answer = client.post("/v1/completions", json=body).json()
        entries = client.get("/v1/engine/entries").json()["data"]
        metrics = client.get("/metrics").text
    assert (answer["model"], answer["usage"]["completion_tokens"]) == ("tiny/one", 5)
    said = "".join(served.said)
    assert answer["system_fingerprint"] in said
    assert "128 tokens a request" in said
    assert f"{len(entries)} programs" in said
    assert f"engine_entries {len(entries)}.0" in metrics


def test_what_serve_says_into_a_file_is_short_and_plain(galley: Galley) -> None:
    with galley.serving() as served:
        pass
    said = "".join(served.said)
    assert len(served.said) < 20
    assert said.replace("\n", "").isprintable()


def test_a_signal_lets_the_running_answer_end_and_exits_with_0(galley: Galley) -> None:
    body = {"prompt": "hello", "max_tokens": ANSWER, "ignore_eos": True, "stream": True}
    body |= {"stream_options": {"include_usage": True}}
    with galley.serving() as served, served.client as client:
        with client.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            served.process.send_signal(signal.SIGTERM)
            chunks = [first, *(line for line in lines if line)]
        assert served.process.wait(timeout=30) == 0
    assert chunks[-1] == "data: [DONE]"
    usage = json.loads(chunks[-2].removeprefix("data: "))["usage"]
    assert usage["completion_tokens"] == ANSWER
