"""The fields of each route that takes a body, and what each may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.conformance.bodies import (
    completion,
    image,
    item,
    lists_of,
    messages,
    model,
    odd,
    ollama_fields,
    openai_fields,
    part_of,
    parts,
    prompts,
    schema,
    some,
    text,
    thinking,
    words,
)

FIELDS: Mapping[str, Mapping[str, st.SearchStrategy[Any]]] = {
    "/v1/chat/completions": openai_fields | {"messages": messages},
    "/v1/completions": openai_fields | completion | {"prompt": prompts},
    "/v1/responses": openai_fields
    | {
        "input": some(text, st.lists(item, max_size=3)),
        "instructions": text,
        "max_output_tokens": some(5),
        "text": part_of(format=part_of(type=some("json_schema", "text"), name=words, schema=schema), verbosity=words),
        "previous_response_id": some(None, None, "resp_1"),
        "include": lists_of(words),
        "store": some(False),
        "truncation": some("auto"),
    },
    "/v1/messages": openai_fields
    | {
        "messages": messages,
        "system": some(text, parts),
        "thinking": thinking,
        "stop_sequences": some(["a"]),
        "output_config": part_of(effort=some("low"), format=part_of(type=some("json_schema"), schema=schema)),
        "thread": some(None, None, {"type": "create"}),
    },
    "/v1/messages/count_tokens": openai_fields | {"messages": messages, "system": some(text, parts)},
    "/v1/embeddings": {
        "model": model,
        "input": some("a", ["a", "b"], [1, 2], [[1], [2]], "", []),
        "dimensions": some(4, 0),
        "encoding_format": some("float", "base64"),
        "user": words,
    },
    "/api/chat": ollama_fields | {"messages": messages},
    "/api/generate": ollama_fields
    | {
        "prompt": text,
        "suffix": text,
        "images": lists_of(image),
        "raw": some(True, False),
        "template": text,
        "context": some([1, 2]),
    },
    "/api/embed": ollama_fields | {"input": some("a", ["a", "b"], "", []), "dimensions": some(4, 0)},
    "/api/embeddings": ollama_fields | {"prompt": text},
    "/api/show": ollama_fields | {"verbose": some(True)},
    "/api/pull": ollama_fields | {"insecure": some(True)},
    "/api/push": ollama_fields | {"insecure": some(True)},
    "/api/create": ollama_fields | {"from": model, "files": some({"a": "sha256:" + "0" * 64}), "parameters": odd},
    "/api/copy": {"source": model, "destination": model},
    "/api/delete": ollama_fields,
    "/api/blobs/{digest}": {},
    "/v1/files": {},
    "/v1/batches": {
        "input_file_id": some("file-1", ""),
        "endpoint": some("/v1/chat/completions", "/v1/embeddings", "/v1/images"),
        "completion_window": some("24h", "1h"),
        "metadata": some({"a": "b"}, {"a": 1}, {}),
        "output_expires_after": part_of(anchor=some("created_at"), seconds=some(3600, 1)),
    },
    "/v1/batches/{batch_id}/cancel": {},
}
