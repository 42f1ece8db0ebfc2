"""`galley train-head`: a draft head for a model, from nothing but the model."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from galley.api.commands.errors import CannotRun
from galley.api.commands.loading import cache_folder, load, locate, table
from galley.api.commands.options import MODEL_HELP, add_dtype
from galley.api.commands.progress import Watch, screen, watch
from galley.sched.job import Sampling

if TYPE_CHECKING:
    from galley.engine import Engine, Stream
    from galley.model.tokens import Tokenizer
    from galley.spec.training.asking import Choice
    from galley.spec.training.course import Course, Learned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `galley train-head`."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help=MODEL_HELP)
    parser.add_argument(
        "--kind",
        choices=("eagle", "medusa"),
        default="eagle",
        help="a layer that drafts token by token, or blocks that draft all at once",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="where the head is written"
    )
    parser.add_argument(
        "--work",
        metavar="DIR",
        type=Path,
        help="answers, states and checkpoints; a killed run goes on from there "
        "(default: OUT.training)",
    )
    _add_data(parser)
    _add_training(parser)
    add_dtype(parser)
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help="keeps the demo model and compiled programs (default: the user's cache folder)",
    )
    parser.set_defaults(policy="copy", verifier="match", widths="measured", shadow=None, trace=None)


def _add_data(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data")
    group.add_argument(
        "--prompts",
        metavar="FILE",
        type=Path,
        help="user turns, one a line (default: the model makes its own)",
    )
    group.add_argument(
        "--tokens",
        metavar="N",
        type=int,
        default=250_000,
        help="of answers to train on (default: %(default)s)",
    )
    group.add_argument(
        "--seed", metavar="N", type=int, default=0, help="of data and training (default: 0)"
    )


def _add_training(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training")
    group.add_argument(
        "--epochs", metavar="N", type=int, default=4, help="passes over the data (default: 4)"
    )
    group.add_argument(
        "--depth",
        metavar="N",
        type=int,
        default=3,
        help="drafts in a row it is trained for (default: 3)",
    )
    group.add_argument(
        "--draft-vocab",
        metavar="N",
        type=int,
        default=6144,
        help="most frequent ids, which it may draft (default: %(default)s)",
    )
    group.add_argument(
        "--learning-rate", metavar="X", type=float, default=1e-3, help="default: %(default)s"
    )


def run(args: argparse.Namespace) -> int:
    """Trains, writes the head and prints how often its drafts are right on held-out answers.

    Raises what loading raises, and CannotRun for options that do not fit or too little data.
    """
    course = _course(args)
    console = screen()
    with watch(console) as progress:
        learned = _learn(args, course, progress)
    _write(args.out, learned)
    print(table(_lines(learned)))
    console.print(f"the head is in {args.out}", style="dim")
    return 0


def _course(args: argparse.Namespace) -> "Course":
    try:
        from galley.spec.training.course import Course  # imports optax, which is an extra
    except ModuleNotFoundError as error:
        raise CannotRun(
            f"training needs {error.name}; install it with: pip install 'galley-llm[train]'"
        ) from error

    for name in ("tokens", "epochs", "depth", "draft_vocab"):
        if getattr(args, name) < 1:
            option = name.replace("_", "-")
            raise CannotRun(f"--{option} is {getattr(args, name)}; it must be at least 1")
    if not args.learning_rate > 0:
        raise CannotRun(f"--learning-rate is {args.learning_rate}; it must be above 0")
    return Course(
        kind=args.kind,
        seed=args.seed,
        tokens=args.tokens,
        epochs=args.epochs,
        draft_vocab=args.draft_vocab,
        depth=args.depth,
        learning_rate=args.learning_rate,
        prompts=_prompts(args.prompts),
    )


def _prompts(file: Path | None) -> tuple[str, ...]:
    if file is None:
        return ()
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(
            f"{file} cannot be read ({error}); give a text file of user turns"
        ) from error
    found = tuple(line.strip() for line in lines if line.strip())
    if not found:
        raise CannotRun(f"{file} holds no prompts; write one user turn a line")
    return found


def _learn(args: argparse.Namespace, course: "Course", progress: Watch) -> "Learned":
    from galley.model import checkpoint, hub, weights
    from galley.model.entries import Entries
    from galley.spec import plan
    from galley.spec.training import course as stages
    from galley.spec.training.checkpoints import CannotLearn

    folder = args.work or args.out.with_name(f"{args.out.name}.training")
    folder.mkdir(parents=True, exist_ok=True)
    name = locate(args.model, cache_folder(args), progress)
    source = checkpoint.read(hub.resolve(name))
    if not stages.answered(folder, course):
        with load(args, progress) as engine:
            stages.ask(Answers(engine), course, source.config, folder, progress.tell)
    placed = weights.load(source, args.dtype)
    device = plan.this_device()
    entries = Entries(device.threads, device.platform)
    try:
        return stages.learn(source, placed, course, folder, entries, progress.tell)
    except CannotLearn as error:
        raise CannotRun(str(error)) from error
    finally:
        entries.close()


class Answers:
    """The engine as training asks it."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    @property
    def tokenizer(self) -> "Tokenizer":
        return self._engine.tokenizer

    def answer(self, prompt: Sequence[int], choice: "Choice") -> "Stream":
        """The tokens of one answer."""
        return self._engine.open(prompt, Sampling(**asdict(choice)))


def _write(out: Path, learned: "Learned") -> None:
    from galley.model.heads import folder
    from galley.spec.training.card import readme

    folder.write(learned.head, out, readme(learned.head))


def _lines(learned: "Learned") -> list[tuple[str, str]]:
    acceptance = learned.acceptance
    chances = "  ".join(f"{chance:.2f}" for chance in acceptance.chances)
    tokens = "  ".join(f"{tokens:.2f}" for tokens in acceptance.tokens_a_round)
    return [
        ("held out", f"{acceptance.tried[0]:,} drafts of greedy answers"),
        ("right", f"{chances}  (each draft of a chain, if those before it are)"),
        ("a round", f"{tokens}  (tokens, with chains of 1, 2, ... drafts)"),
    ]
