"""Events cross from the engine thread to the loop, many at a time."""

import asyncio
import threading
from typing import Any

import pytest
from fakes_engine import piece

from galley.api.mailbox import Mailbox, Post
from galley.sched.job import Usage

END = piece("", finish="stop", usage=Usage(1, 1, 0, 0, 0))


async def opened() -> Post:
    post = Post()
    await post.open()
    return post


def test_one_burst_wakes_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wakes: list[object] = []
    wake = asyncio.SelectorEventLoop.call_soon_threadsafe

    def counted(loop: asyncio.SelectorEventLoop, *args: Any, **more: Any) -> asyncio.Handle:
        wakes.append(args)
        return wake(loop, *args, **more)

    async def burst() -> None:
        post = await opened()
        boxes = [Mailbox(post) for _ in range(16)]
        for box in boxes:
            box.deliver(END)
        for box in boxes:
            assert [events async for events in box] == [[END]]

    monkeypatch.setattr(asyncio.SelectorEventLoop, "call_soon_threadsafe", counted)
    asyncio.run(burst())
    assert len(wakes) == 1


def test_nothing_is_lost_or_reordered_between_the_threads() -> None:
    def deliver_to(box: Mailbox) -> None:
        for number in range(5000):
            box.deliver(piece(str(number)))
        box.deliver(END)

    async def read() -> list[str]:
        box = Mailbox(await opened())
        engine = threading.Thread(target=deliver_to, args=(box,))
        engine.start()
        texts = [event.text async for events in box for event in events]
        engine.join()
        return texts

    assert asyncio.run(read()) == [*map(str, range(5000)), ""]


def test_a_closed_mailbox_ends_its_reader_at_once() -> None:
    async def read() -> bool:
        box = Mailbox(await opened())
        asyncio.get_running_loop().call_soon(box.close)
        assert [events async for events in box] == []
        return box.ended

    assert asyncio.run(read()) is False


def test_a_post_that_gives_up_ends_every_answer_and_only_once() -> None:
    async def read() -> list[list[str | None]]:
        post = await opened()
        with Mailbox(post) as half, Mailbox(post) as whole:
            half.deliver(piece("x"))
            whole.deliver(END)
            await asyncio.sleep(0.01)
            post.give_up("the engine tells nothing any more")
            half.deliver(END)  # it does, after all
            return [
                [event.finish async for events in box for event in events] for box in (half, whole)
            ]

    assert asyncio.run(read()) == [[None, "error"], ["stop"]]


def test_a_post_knows_a_mailbox_only_while_it_is_used() -> None:
    async def use() -> tuple[int, int]:
        post = await opened()
        with Mailbox(post) as box:
            used = len(post.waiting)
        box.deliver(END)
        await asyncio.sleep(0.01)
        assert [events async for events in box] == []
        return used, len(post.waiting)

    assert asyncio.run(use()) == (1, 0)


def test_an_engine_that_outlives_the_server_is_not_harmed() -> None:
    async def make() -> Mailbox:
        return Mailbox(await opened())

    asyncio.run(make()).deliver(END)
