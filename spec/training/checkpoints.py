"""Where training stands, kept on disk so that a killed run goes on from there."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from galley.spec.training.trainer import State

KEPT = 2  # the newest checkpoint, and the one before it


class CannotLearn(ValueError):
    """Training cannot begin or go on; the message says what to do."""


class OtherTraining(CannotLearn):
    """The folder holds the checkpoints of another training; the message says what differs."""


class Checkpoints:
    """A folder of Orbax checkpoints, each with the fingerprint of its training inside."""

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any]) -> None:
        self._folder = folder.resolve()
        self._fingerprint = dict(fingerprint)
        self._folder.mkdir(parents=True, exist_ok=True)

    def save(self, state: State) -> None:
        """Writes the state; it appears whole or not at all."""
        numbers = jax.tree.leaves((state.leaves, state.moments))
        with _checkpointer() as checkpointer:
            checkpointer.save(
                self._folder / f"{state.step:08d}",
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeSave(
                        {f"{at:04d}": np.asarray(x) for at, x in enumerate(numbers)}
                    ),
                    fingerprint=ocp.args.JsonSave(self._fingerprint),
                ),
                force=True,
            )
        for old in self._steps()[:-KEPT]:
            shutil.rmtree(old)

    def newest(self, begun: State) -> State:
        """The newest state there is, `begun` if there is none.

        Raises OtherTraining where it was saved by a training of another fingerprint.
        """
        steps = self._steps()
        if not steps:
            return begun
        with _checkpointer() as checkpointer:
            found = checkpointer.restore(
                steps[-1],
                args=ocp.args.Composite(
                    state=ocp.args.PyTreeRestore(), fingerprint=ocp.args.JsonRestore()
                ),
            )
        self._check(found.fingerprint)
        numbers = [jax.numpy.asarray(found.state[name]) for name in sorted(found.state)]
        shape = jax.tree.structure((begun.leaves, begun.moments))
        leaves, moments = jax.tree.unflatten(shape, numbers)
        return State(int(steps[-1].name), leaves, moments)

    def _steps(self) -> list[Path]:
        return sorted(each for each in self._folder.iterdir() if each.name.isdigit())

    def _check(self, found: Mapping[str, Any]) -> None:
        ours = self._fingerprint
        other = [name for name in ours | dict(found) if ours.get(name) != found.get(name)]
        if other:
            raise OtherTraining(
                f"{self._folder} holds checkpoints of another training, which differs in "
                f"{', '.join(sorted(other))}; give another folder or take the same options"
            )


def _checkpointer() -> Any:
    return ocp.Checkpointer(ocp.CompositeCheckpointHandler())
