import pytest

from buffer.job import Chat, Message
from gateway.dialects.openwebui import task

FORMS = {
    "title_generation": "### Task:\nGenerate a concise title summarizing the chat history.\n### Guidelines:",
    "follow_up_generation": "### Task:\nPredict 3-5 useful messages this user might naturally send next",
    "tags_generation": "### Task:\nGenerate 1-3 broad tags categorizing the main themes",
    "autocomplete_generation": "### Task:\nYou are an autocompletion system. Continue the text",
    "emoji_generation": "Your task is to reflect the speaker's likely facial expression through a fitting emoji. In",
}
CHATS = [
    "### Task:\nRespond to the user query using the provided context",
    "### Task:\nAnalyze the chat history to determine the necessity of generating search queries",
    "### Task:\nWrite my homework",
    "Generate a concise title",
    "hi",
]


def asked(text, stream=False, tools=(), before=()):
    return Chat("m", [*before, Message("user", text)], stream=stream, tools=list(tools))


@pytest.mark.parametrize(("name", "text"), FORMS.items())
def test_tasks_by_their_form(name, text):
    assert task({}, asked(text)) == name
    assert task({}, asked("\n" + text, before=[Message("system", "be kind")])) == name


@pytest.mark.parametrize("text", CHATS)
def test_chats_by_their_form(text):
    assert not task({}, asked(text))


@pytest.mark.parametrize("text", FORMS.values())
def test_what_a_person_waits_for_is_no_task(text):
    assert not task({}, asked(text, stream=True))
    assert not task({}, asked(text, tools=[b"{}"]))
    assert not task({}, asked(text, before=[Message("user", "a"), Message("assistant", "b")]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"title_generation", True),
        (b"follow_up_generation", True),
        (b"tags_generation", True),
        (b"autocomplete_generation", True),
        (b"emoji_generation", True),
        (b"query_generation", False),
        (b"function_calling", False),
        (b"moa_response_generation", False),
        (b"", False),
    ],
)
def test_the_header_decides(value, expected):
    headers = {b"x-openwebui-task": value}
    assert bool(task(headers, asked("hi", stream=True))) is expected
    assert bool(task(headers, asked(FORMS["title_generation"]))) is expected


def test_a_header_whose_template_was_left_as_it_was_says_nothing():
    headers = {b"x-openwebui-task": b"{{TASK}}"}
    assert task(headers, asked(FORMS["tags_generation"]))
    assert not task(headers, asked("hi"))


def test_no_messages_are_no_task():
    assert not task({}, Chat("m", []))
