"""What the chat template makes of a request, and how the answer to it is to be read."""

from dataclasses import dataclass
from typing import Any

from galley.api.errors import bad_field
from galley.api.reading import HERMES, LLAMA, MISTRAL, Format, Reading
from galley.api.schemas import ChatRequest
from galley.api.service import Service, Template
from galley.api.thinking import CLOSE, OPEN
from galley.api.tools.prompt import in_text, with_tools
from galley.api.tools.tool import Tool, described, offered
from galley.api.turns import AssistantMessage, Turn, text_of, turns
from galley.model.chat_template import TemplateRefused
from galley.model.tokens import BadText

# Variables of templates that fields of the request set.
OWN = (
    *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"),
    *("bos_token", "eos_token"),
)


@dataclass(frozen=True)
class Written:
    """The prompt of a chat."""

    text: str
    ids: list[int]
    reading: Reading  # of its answer


def written(service: Service, request: ChatRequest, where: str = "messages") -> Written:
    """The prompt of the request; ApiError names the field at fault, `where` is its messages."""
    template = service.tokenizer.template
    tools = offered(request.tools or [], request.tool_choice)
    calls = _format(template) if tools else None
    options = _options(request, template)
    said = turns(request.messages, "developer" in template.source, where)
    try:
        text = _text(request, template, said, options, list(map(described, tools)))
        ids = service.tokenizer.encode_rendered(text)
    except RecursionError as error:
        raise bad_field(where, f"{where} or tools are nested too deeply") from error
    except (TemplateRefused, BadText) as error:
        raise bad_field(where, str(error)) from error
    return Written(text, ids, _reading(request, template, text, tools, calls))


def _text(
    request: ChatRequest,
    template: Template,
    said: list[Turn],
    options: dict[str, Any],
    tools: list[dict[str, Any]],
) -> str:
    if "tools" not in template.variables:
        said = in_text(said)
        said = with_tools(said, tools) if tools else said
    elif tools:
        options = {**options, "tools": tools}
    if request.continue_final_message:
        return template.unfinished(said, **options)
    opens = request.add_generation_prompt is not False
    return template.render(said, **options, add_generation_prompt=opens)


def _reading(
    request: ChatRequest, template: Template, text: str, tools: list[Tool], calls: Format | None
) -> Reading:
    opened = text.rstrip().endswith(OPEN)
    if request.continue_final_message:
        begun = text_of(request.messages[-1].content)
        opened = opened or begun.rfind(OPEN) > begun.rfind(CLOSE)
    return Reading(
        thinks=thinks(template),
        opened=thinks(template) and opened,
        calls=calls,
        names=frozenset(tool.function.name for tool in tools),
        parallel=request.parallel_tool_calls is not False,
    )


def thinks(template: Template) -> bool:
    """Whether answers may begin with reasoning."""
    return OPEN in template.source or CLOSE in template.source


def _options(request: ChatRequest, template: Template) -> dict[str, Any]:
    """The variables of the template that the request sets. One that nobody reads is refused."""
    _check_ending(request)
    options = dict(request.chat_template_kwargs or {})
    for name in options:
        place = f"chat_template_kwargs.{name}"
        if name in OWN:
            raise bad_field(place, f"{place} is not for requests to set here; leave it out")
        if name not in template.variables:
            message = f"{place} is no variable of the model's chat template; leave it out"
            raise bad_field(place, message, "unsupported_parameter")
    if request.documents:
        if "documents" not in template.variables:
            message = "documents: the model's chat template reads none; put them into a message"
            raise bad_field("documents", message, "unsupported_parameter")
        options["documents"] = request.documents
    return options


def _check_ending(request: ChatRequest) -> None:
    if not request.continue_final_message:
        return
    if request.add_generation_prompt:
        message = (
            "add_generation_prompt is true and continue_final_message too: an answer begins "
            "or goes on; send one of them"
        )
        raise bad_field("add_generation_prompt", message)
    last = request.messages[-1]
    if not isinstance(last, AssistantMessage) or last.tool_calls or last.content is None:
        message = (
            "continue_final_message is true: the last message must be the assistant's, with "
            "content and without tool_calls"
        )
        raise bad_field("continue_final_message", message)


def _format(template: Template) -> Format:
    """The form in which the model was trained to write calls."""
    source = template.source
    if "tools" not in template.variables:
        return HERMES
    if "[TOOL_CALLS]" in source:
        return MISTRAL
    if not any(mark in source for mark in XML):
        if "<tool_call>" in source and '"arguments"' in source.replace("\\", ""):
            return HERMES
        if "<|start_header_id|>" in source and '"parameters"' in source:
            return LLAMA
    message = (
        "tools: the model's chat template has a form of tool calls that is not implemented; "
        "known are those of Hermes, Qwen 2 and 3, Llama 3 and Mistral"
    )
    raise bad_field("tools", message, "unsupported_parameter")


XML = ("<function=", "<arg_key>", "<parameter=")  # other forms, some within the same marks
