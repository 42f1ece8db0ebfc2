"""From the fields of a request to the compiled grammar that its answers are held to."""

import asyncio
from dataclasses import replace
from typing import NamedTuple, TypeVar

from galley.api.access.tenants import Caller
from galley.api.errors import ApiError, bad_field
from galley.api.order import Order
from galley.api.reading import HERMES, LLAMA, Format, Reading
from galley.api.schemas import ChatRequest
from galley.api.service import Service
from galley.api.structured import Held, held
from galley.api.tools.grammar import (
    CallRules,
    HermesRules,
    LlamaRules,
    MistralRules,
    NamedMistralRules,
    after_thinking,
    either,
    forced,
    offered,
)
from galley.api.tools.tool import ChosenTool, Tool
from galley.api.tools.tool import offered as offered_tools
from galley.model.grammar_text import BadGrammar, GrammarsBusy

Ordered = TypeVar("Ordered", bound=Order)
RETRY = 5  # seconds


class Places(NamedTuple):
    """What a request calls its response format, the schema in it and that of a tool."""

    format: str
    schema: str
    parameters: str


def chat_form(
    service: Service, request: ChatRequest, reading: Reading, places: Places
) -> Held | None:
    """What the answer to a chat is held to; ApiError names fields that do not go together."""
    form = held(request, places.format, places.schema)
    if reading.calls is not None:
        form = _with_tools(service, request, reading, form, places.parameters)
    if form is None:
        return None
    if request.continue_final_message:
        message = f"{form.field} is about a whole answer; it does not go with one that is begun"
        raise bad_field(form.field, message)
    if reading.thinks:
        special = service.tokenizer.special_id
        return form._replace(grammar=after_thinking(form.grammar, reading.opened, special))
    return form


def _with_tools(
    service: Service, request: ChatRequest, reading: Reading, text: Held | None, schema: str
) -> Held | None:
    """The form of an answer that may call tools, or has to."""
    choice = request.tool_choice
    tools = offered_tools(request.tools or [], choice)
    if isinstance(choice, ChosenTool):
        chosen = [tool for tool in tools if tool.function.name == choice.function.name]
        return Held(
            forced(_rules(service, reading.calls, chosen), False), _field(tools, chosen, schema)
        )
    rules = _rules(service, reading.calls, tools)
    if choice == "required":
        return Held(forced(rules, reading.parallel), _field(tools, tools, schema))
    if text is not None:
        return text._replace(grammar=either(rules, reading.parallel, text.grammar))
    if any(tool.function.strict for tool in tools):
        strict = [tool for tool in tools if tool.function.strict]
        return Held(offered(rules, reading.parallel), _field(tools, strict, schema))
    return None


def _field(tools: list[Tool], held: list[Tool], schema: str) -> str:
    """Whose schemas are at fault if the grammar is."""
    place = f"[{tools.index(held[0])}].{schema}" if len(held) == 1 else ""
    return f"tools{place}"


def _rules(service: Service, calls: Format | None, tools: list[Tool]) -> CallRules:
    """The rules of the form in which the model calls these tools."""
    special = service.tokenizer.special_id
    if calls == HERMES:
        return HermesRules(tools, special)
    if calls == LLAMA:
        return LlamaRules(tools, special)
    named = "[ARGS]" in service.tokenizer.template.source
    return (NamedMistralRules if named else MistralRules)(tools, special)


async def compiled(service: Service, order: Ordered, caller: Caller) -> Ordered:
    """The order with its grammar; ApiError names the field that asks for one that cannot be."""
    if order.held is None:
        return order
    grammar, field = order.held
    if service.grammars is None:
        message = f"{field}: this server holds answers to no form; leave it out"
        raise bad_field(field, message, "unsupported_parameter")
    try:
        future = service.grammars.compile(grammar, caller.namespace(order.salt))
        return replace(order, grammar=await asyncio.wrap_future(future))
    except BadGrammar as error:
        raise bad_field(field, f"{field} cannot be held to: {error}") from error
    except GrammarsBusy as busy:
        headers = {"Retry-After": str(RETRY)}
        raise ApiError(429, str(busy), field, "queue_full", headers) from busy
