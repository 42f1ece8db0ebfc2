"""The `galley` command: its commands, their help, and how failures are told."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from galley import __version__


@dataclass(frozen=True)
class Command:
    """Where a command is written: a module with `add_arguments(parser)` and `run(args)`."""

    module: str
    line: str  # what it does, in one line
    examples: tuple[str, ...]


COMMANDS = {
    "serve": Command(
        "galley.api.commands.serve",
        "serve a model over HTTP, in the form of OpenAI's API",
        ("galley serve", "galley serve ./SmolLM2-360M-Instruct --port 8080"),
    ),
    "generate": Command(
        "galley.api.commands.generate",
        "answer one prompt on the terminal",
        (
            'galley generate "What is the capital of France?"',
            'galley generate "Repeat: one two three" --show-drafts',
            'galley generate "Once upon a time" --raw --max-tokens 64 --temperature 0.8 --seed 1',
        ),
    ),
    "plan": Command(
        "galley.api.commands.plan",
        "show how a model would be laid out on this device, and load nothing",
        ("galley plan", "galley plan ./SmolLM2-360M-Instruct --dtype float32"),
    ),
    "convert": Command(
        "galley.api.commands.convert",
        "write a model as an Orbax checkpoint",
        ("galley convert model.gguf ./model", "galley convert owner/name ./model --dtype float32"),
    ),
    "replay": Command(
        "galley.api.commands.replay",
        "ask again what a server's record holds, and compare the answers token by token",
        (
            "galley replay record.jsonl",
            "galley replay record.jsonl --url http://127.0.0.1:8000 --concurrent",
        ),
    ),
    "lab": Command(
        "galley.bench.lab.command",
        "compute what draft policies would have had accepted, from recorded answers",
        (
            "galley lab trace.jsonl",
            "galley lab trace.jsonl --policies none,copy,suffix --plots plots",
        ),
    ),
    "train-head": Command(
        "galley.api.commands.train_head",
        "train a draft head for a model on the model's own answers",
        ("galley train-head ./model.gguf --kind eagle --out ./head",),
    ),
    "keys": Command(
        "galley.api.commands.keys",
        "say who may use a server: make, list and remove keys",
        (
            "galley keys add --keys keys.toml --tenant acme",
            "galley keys add --keys keys.toml --tenant acme --priority batch --max-running 4",
            "galley keys list --keys keys.toml",
            "galley keys remove --keys keys.toml 3f786850e387",
        ),
    ),
    "probe": Command(
        "galley.api.commands.probe",
        "check from outside what a running server promises",
        (
            "galley probe isolation http://127.0.0.1:8000",
            "galley probe isolation http://127.0.0.1:8000 --keys env:KEY_A env:KEY_B",
            "galley probe overload http://127.0.0.1:8000 --pid $PID",
        ),
    ),
    "bench": Command(
        "galley.bench.command",
        "measure this or another OpenAI-compatible server over HTTP",
        ("galley bench", "galley bench --url http://127.0.0.1:8000 --concurrency 1,8"),
    ),
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line `words`, or the process's own; returns the exit status.

    2 is for what the user can put right, told in one sentence; 1 for a failure on the way.
    """
    words = sys.argv[1:] if words is None else words
    args, unknown = build_parser(words[0] if words else "").parse_known_args(words)
    if unknown:
        args.refuse(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        status: int = args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone; nothing may be written at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except user_errors() as error:
        print(f"galley: {error}", file=sys.stderr)
        return 2
    except _failures() as error:
        print(f"galley: {error}", file=sys.stderr)
        return 1
    return status


def build_parser(chosen: str) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of the `chosen` one.

    The other commands' modules are not imported, which keeps help instant.
    """
    parser = argparse.ArgumentParser(
        prog="galley",
        description="Serves language models through JAX. Drafts cost time, never output.",
        epilog="galley COMMAND --help tells more.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"galley {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        own = commands.add_parser(
            name,
            help=command.line,
            description=f"{command.line[0].upper()}{command.line[1:]}.",
            epilog="\n  ".join(("examples:", *command.examples)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == chosen:
            module = import_module(command.module)
            module.add_arguments(own)
            own.set_defaults(run=module.run, refuse=own.error)  # its own usage beside the error
    return parser


def user_errors() -> tuple[type[Exception], ...]:
    """What has a sentence for the user; imported only once something went wrong."""
    from galley.api.access.key_file import BadKeys
    from galley.api.commands.errors import CannotRun
    from galley.api.record_lines import BadRecord
    from galley.model.chat_template import TemplateRefused
    from galley.model.checkpoint import BadCheckpoint
    from galley.model.config import UnsupportedModel
    from galley.model.demo import DemoUnavailable
    from galley.model.heads.config import BadHead
    from galley.model.hub import ModelNotFound
    from galley.model.tokens import BadText
    from galley.sched.admission import BadLimits
    from galley.sched.job import JobRefused
    from galley.spec.answers_file import BadAnswers
    from galley.spec.plan import PlanError
    from galley.spec.policies import BadPolicy
    from galley.spec.trace_lines import TraceError

    checkpoints = (BadCheckpoint, UnsupportedModel, ModelNotFound, DemoUnavailable, PlanError)
    drafts = (BadAnswers, BadHead, BadPolicy, BadRecord, TraceError)
    asked = (CannotRun, BadKeys, BadLimits, JobRefused, TemplateRefused, BadText)
    return (*asked, *checkpoints, *drafts)


def _failures() -> tuple[type[Exception], ...]:
    from galley.engine import EngineFailed

    return (EngineFailed,)
