"""Chat templates of the families of models, as small as they can be, and what clients send."""

from typing import Any

from fakes_tokens import byte_level_files

from galley.model.tokens import Tokenizer

QWEN = """
{%- if tools %}
    {{- '<|im_start|>system\nTools:\n' }}
    {%- for tool in tools %}{{ tool | tojson }}{{ '\n' }}{% endfor %}
    {{- 'Write <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>' + content + '</tool_response><|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if message.reasoning_content and loop.last %}
            {{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in message.tool_calls %}
            {{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}{{ '}</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"""

DEEPSEEK = """
{%- for message in messages %}
    {%- if message['role'] == 'assistant' %}
        {{- 'ASSISTANT:' + message['content'].split('</think>')[-1] }}
    {%- else %}
        {{- message['role'] | upper + ':' + message['content'] }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:<think>\n' }}{% endif %}"""

LLAMA = """{{ bos_token }}
{%- if not date_string is defined %}{% set date_string = strftime_now('%Y') %}{% endif %}
{%- if tools %}
    {{- 'It is ' + date_string + '. Answer with {"name": ..., "parameters": ...}: ' }}
    {{- tools | tojson }}
{%- endif %}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>' }}
    {%- if message.tool_calls %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}{{ '}' }}
    {%- else %}
        {{- message.content | trim }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>' }}{% endif %}"""

MISTRAL = """
{%- if tools %}{{ '[AVAILABLE_TOOLS]' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}{% endif %}
{%- for message in messages %}
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {%- if call.id | length != 9 %}
                {{- raise_exception('Tool call IDs should be 9 characters long!') }}
            {%- endif %}
        {%- endfor %}
        {{- '[TOOL_CALLS]' }}{{ message.tool_calls | tojson }}
    {%- elif message.role == 'tool' %}
        {{- '[TOOL_RESULTS]' + message.tool_call_id + message.name + message.content }}
    {%- else %}
        {{- '[' + message.role + ']' + message.content }}
    {%- endif %}
{%- endfor %}"""

XML = """{{ tools }}Give "arguments" like this:
<tool_call><function=name><parameter=city>Paris</parameter></function></tool_call>"""

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather now",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
TIME: dict[str, Any] = {"type": "function", "function": {"name": "get_time"}}

USER = {"role": "user", "content": "How is Zürich?"}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "123456789",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Zürich"}'},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "123456789", "content": "rain"}


def speaking(template: str | None) -> Tokenizer:
    """The byte-level tokenizer with another chat template."""
    return Tokenizer(byte_level_files(template))
