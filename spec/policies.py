"""Draft policies by name: those of this package, those of installed ones, and any class."""

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from galley.model.checkpoint import Checkpoint
from galley.spec import answers_file, shipped
from galley.spec.best import Best
from galley.spec.copies import Copies
from galley.spec.oracle import Oracle
from galley.spec.policy import DraftPolicy, Silent
from galley.spec.recycle import Recycle
from galley.spec.scripted import Scripted
from galley.spec.suffix import Suffix
from galley.spec.synthetic import Synthetic

if TYPE_CHECKING:
    from galley.model.heads.head import Head

GROUP = "galley.drafts"  # the entry points of packages that bring policies


class BadPolicy(ValueError):
    """No policy can be made of what was asked for; the message says why and what helps."""


class Target(NamedTuple):
    """What a policy is to guess for."""

    source: Checkpoint | None = None  # the model that verifies; host policies do without
    dtype: str = "bfloat16"
    verifier: Literal["match", "reject"] = "match"

    def given(self, name: str) -> Checkpoint:
        """The model, which policies that run on the device cannot do without."""
        if self.source is None:
            raise BadPolicy(f"{name} guesses for one model; name it by loading an engine")
        return self.source


NOBODY = Target()


def make(text: str, target: Target = NOBODY) -> DraftPolicy:
    """The policy that `text` asks for, to guess for `target`.

    `text` is a NAME, or NAME:ARGUMENT for a policy that takes one; the name is one of this module,
    an entry point of an installed package, or package.module:Class for a class of your own. Of a
    list with commas in between, the best one is used for each row in every round. BadPolicy says
    what is wrong with the text, or with a file it names.
    """
    parts = [part.strip() for part in text.split(",")]
    members = [_one(part, target) for part in (_available(target) if text == BEST else parts)]
    dear = any(member.needs.any for member in members)
    if len(members) == 1 and (target.verifier == "reject" or not dear):
        return members[0]
    if target.verifier == "reject" and dear:
        raise BadPolicy(
            "choosing among guesses that were drawn by chance changes the law that the verifier "
            f"reject keeps; name one policy instead of {text}, or use the verifier match"
        )
    return _best(members)  # also of one that needs the device: it rests while it does not pay


def _scripted(argument: str, target: Target) -> DraftPolicy:
    return Scripted(answers_file.read(Path(argument), target.source))


def _oracle(argument: str, target: Target) -> DraftPolicy:
    return Oracle(answers_file.read(Path(argument), target.source))


def _eagle(argument: str, target: Target) -> DraftPolicy:
    from galley.spec.eagle import EagleHead

    return EagleHead(_head(argument, "eagle", target))


def _medusa(argument: str, target: Target) -> DraftPolicy:
    from galley.spec.medusa import MedusaHeads

    return MedusaHeads(_head(argument, "medusa", target))


def _head(folder: str, kind: str, target: Target) -> "Head":
    from galley.model.heads.folder import read

    head = read(Path(folder), target.given(kind).config, target.dtype)
    if head.config.kind != kind:
        raise BadPolicy(f"{folder} holds a head of kind {head.config.kind}; write {kind}:{folder}")
    return head


def _model(argument: str, target: Target) -> DraftPolicy:
    from galley.model import checkpoint, hub, weights
    from galley.spec.draft_model import DraftModel

    source, small = target.given("model"), checkpoint.read(hub.resolve(argument))
    vocabularies = (
        checkpoint.parse_tokenizer(each.tokenizer.tokenizer_json, each.name).get_vocab()
        for each in (source, small)
    )
    if next(vocabularies) != next(vocabularies):
        raise BadPolicy(
            f"{small.name} has another tokenizer than {source.name}; a draft model needs the same"
        )
    return DraftModel(weights.load(small, target.dtype), small.digest)


def _synthetic(argument: str, target: Target) -> DraftPolicy:
    rate, _, file = argument.partition("@")
    try:
        chance = float(rate)
    except ValueError as error:
        raise BadPolicy(f"{rate!r} is no acceptance rate; write a number from 0 to 1") from error
    if not file:
        raise BadPolicy(f"synthetic:{argument} names no file of answers; add @FILE")
    return Synthetic(answers_file.read(Path(file), target.source), chance)


POLICIES: dict[str, Callable[[], DraftPolicy]] = {
    Silent.name: Silent,
    Copies.name: Copies,
    Suffix.name: Suffix,
    Recycle.name: Recycle,
}
ARGUED: dict[str, tuple[str, Callable[[str, Target], DraftPolicy]]] = {
    Scripted.name: ("FILE", _scripted),
    Oracle.name: ("FILE", _oracle),
    Synthetic.name: ("RATE@FILE", _synthetic),
    "eagle": ("FOLDER", _eagle),
    "medusa": ("FOLDER", _medusa),
    "model": ("MODEL", _model),
}
BEST = "best"


def _one(text: str, target: Target) -> DraftPolicy:
    name, _, argument = text.partition(":")
    if name in ARGUED:
        return _argued(name, argument, target)
    if name not in POLICIES:
        return _foreign(text)
    if argument:
        raise BadPolicy(f"{name} takes no argument; write {name} instead of {text}")
    return POLICIES[name]()


def _available(target: Target) -> list[str]:
    """Suffix matches, and the head that comes with this package for the model, if one does."""
    head = None if target.source is None else shipped.head_for(target.source)
    return [Suffix.name] if head is None else [Suffix.name, head]


def _argued(name: str, argument: str, target: Target) -> DraftPolicy:
    form, maker = ARGUED[name]
    if not argument:
        raise BadPolicy(f"{name} needs an argument; write {name}:{form}")
    try:
        return maker(argument, target)
    except BadPolicy:
        raise
    except ValueError as error:  # BadAnswers is one too
        raise BadPolicy(f"{name}: {error}") from error


def _best(members: Sequence[DraftPolicy]) -> DraftPolicy:
    try:
        return Best(members)
    except ValueError as error:
        raise BadPolicy(str(error)) from error


def _foreign(text: str) -> DraftPolicy:
    """A policy of another package: an entry point, or a class by its place."""
    name, _, argument = text.partition(":")
    found = entry_points(group=GROUP, name=name)
    try:
        if found:
            made = next(iter(found)).load()
        elif argument and all(map(str.isidentifier, name.split("."))):
            owner, argument = argument.partition(":")[::2]
            made = getattr(import_module(name), owner)
        else:
            raise BadPolicy(f"no draft policy is called {name!r}; there are {', '.join(_names())}")
    except (ImportError, AttributeError) as error:
        raise BadPolicy(
            f"the draft policy {text} cannot be imported ({error}); install its package, or put "
            "the folder it is in on PYTHONPATH"
        ) from error
    return _construct(made, text, argument)


def _construct(made: object, text: str, argument: str) -> DraftPolicy:
    """A policy of a class that others wrote, with the argument if there is one."""
    if not (isinstance(made, type) and issubclass(made, DraftPolicy)):
        raise BadPolicy(
            f"{text} is {made!r}, not a draft policy; name a subclass of "
            "galley.spec.policy.DraftPolicy"
        )
    given = [argument] if argument else []
    try:
        inspect.signature(made).bind(*given)
    except TypeError as error:
        raise BadPolicy(
            f"{text} cannot be made ({error}); a draft policy is made without arguments, or with "
            "the text behind a colon after its name"
        ) from error
    if inspect.isabstract(made):
        raise BadPolicy(f"{text} has no propose(); a draft policy has to write it")
    return made(*given)


def _names() -> list[str]:
    """What can be asked for by name."""
    argued = [f"{name}:{form}" for name, (form, _) in ARGUED.items()]
    return [
        BEST,
        *POLICIES,
        *argued,
        *sorted(entry_points(group=GROUP).names),
        "package.module:Class",
    ]
