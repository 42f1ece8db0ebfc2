"""POST /v1/chat/completions."""

from litestar import post
from litestar.handlers import HTTPRouteHandler

from galley.api import validate
from galley.api.chat_choices import several_chats
from galley.api.chat_form import ChatForm
from galley.api.chat_pieces import ReadForm, ReadFrames
from galley.api.errors import AnyRequest
from galley.api.held import compiled
from galley.api.mailbox import Post
from galley.api.openapi import answers
from galley.api.replies import ChatCompletion
from galley.api.scoring import Reply
from galley.api.service import Service
from galley.api.stream import Answer, OneJob


def chat_route(service: Service, outbox: Post) -> HTTPRouteHandler:
    """Answers chats from `service`."""

    @post("/v1/chat/completions", status_code=200, responses=answers(ChatCompletion))
    async def create_chat_completion(request: AnyRequest) -> Reply:
        order = await validate.checked(validate.chat, service, await request.body())
        order = await compiled(service, order, request.auth)
        if not order.alone:
            return several_chats(service, outbox, order, request.auth)
        if order.reading.plain:
            return Answer(service, outbox, order, ChatForm(service, order), request.auth)
        form = ReadForm(service, order)
        return OneJob(service, outbox, order, form, request.auth, lambda: ReadFrames(form, order))

    return create_chat_completion
