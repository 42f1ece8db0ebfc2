"""The blocks of one answer as they grow, and the events that tell of it."""

from typing import Any

import msgspec

from galley.api.messages.replies import (
    Block,
    BlockDelta,
    BlockInputDelta,
    BlockStart,
    BlockStop,
    BlockTextDelta,
    BlockThinkingDelta,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from galley.api.pieces import Argued, Called, Piece, Said, Thought

Events = list[msgspec.Struct]
Delta = BlockTextDelta | BlockThinkingDelta | BlockInputDelta


class Content:
    """The blocks of one answer. Each step gives the events that tell of it, in order."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._texts: list[str] = []  # of the last block
        self._open = False  # whether it may grow

    def add(self, piece: Piece) -> Events:
        """The answer goes on like this."""
        match piece:
            case Said(text):
                return self._opened(TextBlock("")) + self._more(text, BlockTextDelta(text))
            case Thought(text):
                return self._opened(ThinkingBlock("")) + self._more(text, BlockThinkingDelta(text))
            case Called(_, id, name):
                return self.close() + self._begin(ToolUseBlock(id, name))
            case Argued(_, text):
                return self._more(text, BlockInputDelta(text))

    def close(self) -> Events:
        """The last block is complete, if there is one."""
        if not self._open:
            return []
        self._open = False
        self.blocks[-1] = _filled(self.blocks[-1], "".join(self._texts))
        return [BlockStop(len(self.blocks) - 1)]

    @property
    def calls(self) -> bool:
        """Whether a tool is to be called."""
        return any(isinstance(block, ToolUseBlock) for block in self.blocks)

    def _opened(self, block: Block) -> Events:
        if self._open and type(self.blocks[-1]) is type(block):
            return []
        return self.close() + self._begin(block)

    def _begin(self, block: Block) -> Events:
        self.blocks.append(block)
        self._texts = []
        self._open = True
        return [BlockStart(len(self.blocks) - 1, block)]

    def _more(
        self, text: str, delta: BlockTextDelta | BlockThinkingDelta | BlockInputDelta
    ) -> Events:
        self._texts.append(text)
        return [BlockDelta(len(self.blocks) - 1, delta)]


def _filled(block: Block, text: str) -> Block:
    if isinstance(block, TextBlock):
        return TextBlock(text)
    if isinstance(block, ThinkingBlock):
        return ThinkingBlock(text)
    return ToolUseBlock(block.id, block.name, _input(text))


def _input(arguments: str) -> dict[str, Any]:
    """What a tool is called with, which has to be an object; of other text nothing is lost."""
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        value = None
    return value if isinstance(value, dict) else {"arguments": arguments}
