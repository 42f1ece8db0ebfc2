"""A driver that fails on purpose, once."""

import time
from typing import Literal

import jax
import numpy as np

from galley.spec.device import DeviceState
from galley.spec.drills import Drill
from galley.spec.driver import ModelDriver
from galley.spec.policy import DraftPolicy
from galley.spec.round import Batch, Fault, Refused, Round

DAY = 86_400.0
BFLOAT16_NANS = 0x7FC07FC0  # two in a word


class DrilledDriver(ModelDriver):
    """A `ModelDriver` but for the one round that the drill names."""

    def __init__(
        self,
        drill: Drill,
        state: DeviceState,
        policy: DraftPolicy,
        widths: Literal["measured", "widest"] = "measured",
    ) -> None:
        super().__init__(state, policy, widths)
        self._drill = drill
        self._decoded = 0

    def step(self, batch: Batch) -> Round:
        if not batch.lane.feeds:
            self._decoded += 1
            if self._decoded == self._drill.round:
                return self._fail(batch)
        return super().step(batch)

    def _fail(self, batch: Batch) -> Round:
        if self._drill.kind == "refused":
            raise Refused("a drill refuses this round")
        if self._drill.kind == "fault":
            super().step(batch)
            raise Fault("a drill: the device failed in this round")
        if self._drill.kind == "stuck":
            time.sleep(DAY)
        if self._drill.kind == "nan":
            self._spoil(batch)
        return super().step(batch)

    def _spoil(self, batch: Batch) -> None:
        """Puts a NaN where the first row's newest position lies in the cache."""
        row = batch.rows[0]
        block = np.asarray(self.state.rows.table)[row.seat, (row.cursor - 1) // self.block]
        pool, *others = self.state.pools[0]
        spoiled = np.array(pool)
        spoiled[block] = BFLOAT16_NANS if self.state.plan.layout.packed else np.nan
        self.state.pools[0] = (jax.device_put(spoiled, may_alias=False), *others)


def driver_for(
    drill: Drill | None,
    state: DeviceState,
    policy: DraftPolicy,
    widths: Literal["measured", "widest"],
) -> ModelDriver:
    """The driver that fails as the drill says, or the plain one."""
    if drill is None:
        return ModelDriver(state, policy, widths)
    return DrilledDriver(drill, state, policy, widths)
