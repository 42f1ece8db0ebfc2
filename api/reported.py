"""Where the report of guesses stands in an answer."""

from typing import Any

from galley.api.draft_report import report_of
from galley.api.order import Order
from galley.sched.drafted import DraftCount
from galley.sched.job import Event


class Reported:
    """The report of one answer: beside the usage, or within the choice where there are several."""

    def __init__(self, order: Order) -> None:
        self._told = order.report
        self._several = order.count * len(order.continued) > 1

    def beside(self, last: Event) -> dict[str, Any]:
        """What the object gets that has the choices."""
        return {} if self._several else self._report(last)

    def within(self, last: Event) -> dict[str, Any]:
        """What the choice gets."""
        return self._report(last) if self._several else {}

    def _report(self, last: Event) -> dict[str, Any]:
        if not self._told:
            return {}
        drafts = None if last.usage is None else last.usage.drafts
        return {"speculation": report_of(drafts or DraftCount().drafts())}
