"""`galley generate`: one answer on the terminal."""

import argparse
from typing import TYPE_CHECKING

from galley.api.commands.answers import Measure, Painted, Plain
from galley.api.commands.errors import CannotRun
from galley.api.commands.loading import load
from galley.api.commands.options import MODEL_HELP, add_engine, add_rounds
from galley.api.commands.progress import screen, watch
from galley.sched.job import Sampling

if TYPE_CHECKING:
    from galley.engine import Engine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley generate`."""
    parser.add_argument("prompt", metavar="PROMPT", help="what to ask, or to continue with --raw")
    parser.add_argument("--model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--raw",
        action="store_true",
        help="continue the prompt as it stands, without the model's chat template",
    )
    parser.add_argument(
        "--show-drafts", action="store_true", help="colour the tokens that were guessed and stood"
    )
    _add_sampling(parser)
    add_engine(parser)
    add_rounds(parser)


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--max-tokens", metavar="N", type=int, help="default: until the model ends its answer"
    )
    group.add_argument(
        "--temperature", metavar="T", type=float, default=0.0, help="default: 0, greedy"
    )
    group.add_argument("--top-p", metavar="P", type=float, default=1.0, help="default: 1, off")
    group.add_argument("--top-k", metavar="K", type=int, default=0, help="default: 0, off")
    group.add_argument("--min-p", metavar="P", type=float, default=0.0, help="default: 0, off")
    group.add_argument("--seed", metavar="N", type=int, help="default: drawn")
    group.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], help="end before it; may be repeated"
    )


def run(args: argparse.Namespace) -> int:
    """Streams the answer; raises what loading raises, JobRefused, CannotRun and EngineFailed."""
    sampling = _sampling(args)
    console = screen()
    with watch(console) as progress:
        engine = load(args, progress)
    with engine:
        prompt = _prompt(engine, args)
        stream = engine.open(prompt, sampling)
        page = Painted(engine.tokenizer, prompt) if args.show_drafts else Plain()
        measure = Measure()
        for event in stream.events():
            page.show(event)
            measure.add(event)
        if not stream.text.endswith("\n"):
            print(flush=True)
        console.print(measure.line(), style="dim")
    return 0


def _sampling(args: argparse.Namespace) -> Sampling:
    try:
        return Sampling(
            max_tokens=args.max_tokens,
            temperature=args.temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            min_p=args.min_p,
            seed=args.seed,
            stop=tuple(args.stop),
        )
    except ValueError as error:
        raise CannotRun(str(error)) from error


def _prompt(engine: "Engine", args: argparse.Namespace) -> list[int]:
    """The prompt as a chat where the model has a template for it."""
    if args.raw or engine.checkpoint.tokenizer.chat_template is None:
        return engine.tokenizer.encode(args.prompt)
    return engine.tokenizer.chat([{"role": "user", "content": args.prompt}])
