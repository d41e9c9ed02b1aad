"""Whether a chat's model is to think: what the request asks, or else its model's name, its own words, its operator."""

from __future__ import annotations

from buffer.job import Chat, Think
from gateway.dialects.soft_switch import soft_switch
from gateway.models import Model


def wished(chat: Chat, model: Model, *, soft_switches: bool) -> Think:
    """The first of these that says anything. ``soft_switches``: whether words in a chat count.

    Only a name can ask what a model cannot: it was written to be refused, where the rest was written for many models.
    """
    if chat.think != "unset" or chat.prompt is not None:
        return chat.think
    if model.wish != "unset":
        return model.wish
    if not model.can_think:
        return "unset"
    if soft_switches and (asked := soft_switch(chat.messages)) != "unset":
        return asked
    return model.record.think if model.record is not None else "unset"
