// Every method of the official clients of Node, on the installation that the only argument tells of. One line of JSON a
// row: { client, method, endpoint } and either { text } or, where the server refused, { status, sentence, refused }.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { Ollama } from "ollama";

const bench = JSON.parse(process.argv[2]);
const real = bench.key === "real";
const { model, embedder } = bench;
const openai = new OpenAI({ baseURL: `${bench.url}/v1`, apiKey: "none", maxRetries: 0, timeout: 60_000 });
const ollama = new Ollama({ host: bench.url });

const PROMPT = "marker:abc words:4 thoughts:2";
const EXPECTED = "abc 1 2 3 4";
const THOUGHTS = "thought 1 thought 2 ";
const ARGUMENTS = { city: "Tōkyō" };
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const ALL = ["vllm", "llamacpp", "openai", "ollama", "real"];
const NOT_OLLAMA = ALL.filter((key) => key !== "ollama");
const NO_CALLS = "its model knows no tools; that a conversation with calls reaches it is checked";
const NOT_FORCED = "no tool can be forced: Ollama knows no `tool_choice`, and the model decides";
const NO_LENGTH = "without the context length, which the engine does not tell";
const toolsLimit = { real: NO_CALLS, ollama: NOT_FORCED }[bench.key];
const PARAMETERS = { type: "object", properties: { city: { type: "string", maxLength: 8 } }, required: ["city"] };
const TOOLS = [{ type: "function", function: { name: "look", description: "Looks.", parameters: PARAMETERS } }];
const TRUTH = {
  type: "object",
  properties: { ok: { type: "boolean" } },
  required: ["ok"],
  additionalProperties: false,
};

function says(text, expected = EXPECTED) {
  if (real) {
    assert.ok(text);
    assert.ok(!text.includes("think>"));
  } else {
    assert.equal(text, expected);
  }
}

function thinks(text, asked = true) {
  if (real) assert.equal(Boolean(text), asked);
  else assert.equal(text ?? "", asked ? THOUGHTS : "");
}

async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const rows = [];
let client = "`openai` for Node";
const row = (method, endpoint, check, refused = []) => rows.push({ client, method, endpoint, check, refused });

const ask = (content = PROMPT) => ({ model, messages: [{ role: "user", content }], max_tokens: 400, temperature: 0 });
const off = (content) => ({ ...ask(content), reasoning_effort: "none" });
const CHATS = "POST /v1/chat/completions";
const STORED = "/v1/chat/completions/{id}";

row("chat.completions.create", CHATS, async () => {
  for (const effort of ["none", "medium"]) {
    const answer = await openai.chat.completions.create({ ...ask(), reasoning_effort: effort });
    says(answer.choices[0].message.content);
    thinks(answer.choices[0].message.reasoning_content, effort !== "none");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.model, model);
    assert.ok(answer.usage.total_tokens > 0);
  }
});
row("chat.completions.create({stream: true})", CHATS, async () => {
  const chunks = await all(
    await openai.chat.completions.create({ ...off(), stream: true, stream_options: { include_usage: true } }),
  );
  says(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""));
  assert.ok(chunks.at(-1).usage.total_tokens > 0);
});
row("chat.completions.create({tools})", CHATS, async () => {
  const messages = [{ role: "user", content: "call:look" }];
  const asked = { model, messages, tools: TOOLS, reasoning_effort: "none", max_tokens: 200 };
  const answer = await openai.chat.completions.create({ ...asked, tool_choice: "required" });
  const oslo = { id: "call_1", type: "function", function: { name: "look", arguments: '{"city":"Oslo"}' } };
  const [call] = real ? [oslo] : answer.choices[0].message.tool_calls;
  assert.equal(call.function.name, "look");
  if (!real) assert.deepEqual(JSON.parse(call.function.arguments), ARGUMENTS);
  messages.push({ role: "assistant", content: null, tool_calls: [call] }, { role: "tool", tool_call_id: call.id, content: PROMPT });
  says((await openai.chat.completions.create(asked)).choices[0].message.content);
  return toolsLimit;
});
row("chat.completions.create({an image})", CHATS, async () => {
  const content = [
    { type: "text", text: PROMPT },
    { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } },
  ];
  says((await openai.chat.completions.create(off(content))).choices[0].message.content);
}, ["real"]);
row("chat.completions.parse", CHATS, async () => {
  const response_format = { type: "json_schema", json_schema: { name: "truth", strict: true, schema: TRUTH } };
  const answer = await openai.chat.completions.parse({ ...off('say:{"ok":true}'), response_format });
  assert.equal(typeof JSON.parse(answer.choices[0].message.content).ok, "boolean");
});
row("chat.completions.stream", CHATS, async () => {
  says(await openai.chat.completions.stream(off()).finalContent());
});
row("chat.completions.runTools", CHATS, async () => {
  const seen = [];
  const look = {
    type: "function",
    function: {
      name: "look",
      description: "Looks.",
      parameters: PARAMETERS,
      parse: JSON.parse,
      function: (given) => {
        seen.push(given);
        return PROMPT;
      },
    },
  };
  says(await openai.chat.completions.runTools({ ...off("call:look"), tools: [look] }).finalContent());
  if (!real) assert.deepEqual(seen, [ARGUMENTS]);
  return real && NO_CALLS;
});
row("chat.completions.list", "GET /v1/chat/completions", () => openai.chat.completions.list(), ALL);
row("chat.completions.retrieve", `GET ${STORED}`, () => openai.chat.completions.retrieve("chatcmpl-1"), ALL);
row("chat.completions.update", `POST ${STORED}`, () => openai.chat.completions.update("chatcmpl-1", { metadata: {} }), ALL);
row("chat.completions.delete", `DELETE ${STORED}`, () => openai.chat.completions.delete("chatcmpl-1"), ALL);
row("chat.completions.messages.list", `GET ${STORED}/messages`, () => openai.chat.completions.messages.list("chatcmpl-1"), ALL);

const COMPLETIONS = "POST /v1/completions";
const prompt = { model, prompt: PROMPT, max_tokens: 50, temperature: 0 };
row("completions.create", COMPLETIONS, async () => {
  const answer = await openai.completions.create(prompt);
  if (real) assert.ok(answer.choices[0].text);
  else assert.equal(answer.choices[0].text, EXPECTED);
});
row("completions.create({stream: true})", COMPLETIONS, async () => {
  const chunks = await all(await openai.completions.create({ ...prompt, stream: true }));
  const text = chunks.map((chunk) => chunk.choices[0]?.text ?? "").join("");
  if (real) assert.ok(text);
  else assert.equal(text, EXPECTED);
});

const size = (vector) => Math.hypot(...vector);
const near = (number, wanted) => assert.ok(Math.abs(number - wanted) < 1e-3, `${number}`);
row("embeddings.create", "POST /v1/embeddings", async () => {
  // This client asks for base64 by itself, and decodes it.
  const answer = await openai.embeddings.create({ model: embedder, input: ["the sea", "dust"] });
  for (const item of answer.data) near(size(item.embedding), 1);
});
row("embeddings.create({encoding_format: 'float'})", "POST /v1/embeddings", async () => {
  const answer = await openai.embeddings.create({ model: embedder, input: "the sea", encoding_format: "float" });
  near(size(answer.data[0].embedding), 1);
});
row("models.list", "GET /v1/models", async () => {
  const ids = (await all(openai.models.list())).map((one) => one.id);
  assert.deepEqual(new Set(ids), new Set([model, embedder]));
});
row("models.retrieve", "GET /v1/models/{id}", async () => {
  assert.equal((await openai.models.retrieve(model)).id, model);
});
row("models.delete", "DELETE /v1/models/{id}", () => openai.models.delete(model), ALL);

const RESPONSES = "POST /v1/responses";
const respond = { model, input: PROMPT, reasoning: { effort: "none" }, temperature: 0 };
row("responses.create", RESPONSES, async () => {
  const answer = await openai.responses.create(respond);
  says(answer.output_text);
  assert.equal(answer.status, "completed");
});
row("responses.create({stream: true})", RESPONSES, async () => {
  const events = await all(await openai.responses.create({ ...respond, stream: true }));
  assert.equal(events.at(-1).type, "response.completed");
  says(events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta).join(""));
});
row("responses.create({tools})", RESPONSES, async () => {
  const tools = [{ type: "function", name: "look", parameters: PARAMETERS, strict: false }];
  const asked = { ...respond, tools, max_output_tokens: 200 };
  const answer = await openai.responses.create({ ...asked, input: "call:look", tool_choice: "required" });
  const oslo = { type: "function_call", call_id: "call_1", name: "look", arguments: '{"city":"Oslo"}' };
  const call = real ? oslo : answer.output.find((item) => item.type === "function_call");
  assert.equal(call.name, "look");
  const result = { type: "function_call_output", call_id: call.call_id, output: PROMPT };
  const input = [{ role: "user", content: "call:look" }, call, result];
  says((await openai.responses.create({ ...asked, input })).output_text);
  return toolsLimit;
});
row("responses.stream", RESPONSES, async () => {
  says((await openai.responses.stream(respond).finalResponse()).output_text);
});
row("responses.parse", RESPONSES, async () => {
  const text = { format: { type: "json_schema", name: "truth", strict: true, schema: TRUTH } };
  const answer = await openai.responses.parse({ ...respond, input: 'say:{"ok":true}', text });
  assert.equal(typeof JSON.parse(answer.output_text).ok, "boolean");
});
row("responses.retrieve", "GET /v1/responses/{id}", () => openai.responses.retrieve("resp_1"), ALL);
row("responses.delete", "DELETE /v1/responses/{id}", () => openai.responses.delete("resp_1"), ALL);
row("responses.cancel", "POST /v1/responses/{id}/cancel", () => openai.responses.cancel("resp_1"), ALL);
row("responses.compact", "POST /v1/responses/compact", () => openai.responses.compact({ model, input: PROMPT }), ALL);
row("responses.inputItems.list", "GET /v1/responses/{id}/input_items", () => openai.responses.inputItems.list("resp_1"), ALL);
row("responses.inputTokens.count", "POST /v1/responses/input_tokens", () => openai.responses.inputTokens.count({ model, input: PROMPT }), ALL);

client = "`ollama` for Node";
const CHAT = "POST /api/chat";
const GENERATE = "POST /api/generate";
const messages = [{ role: "user", content: PROMPT }];
const options = { temperature: 0 }; // so that the real engine says the same each time
row("chat", CHAT, async () => {
  for (const think of [false, true]) {
    const answer = await ollama.chat({ model, messages, think, options });
    says(answer.message.content);
    thinks(answer.message.thinking, think);
    assert.equal(answer.done_reason, "stop");
  }
});
row("chat({stream: true})", CHAT, async () => {
  const parts = await all(await ollama.chat({ model, messages, think: true, options, stream: true }));
  says(parts.map((part) => part.message.content).join(""));
  thinks(parts.map((part) => part.message.thinking ?? "").join(""));
  assert.ok(parts.at(-1).done);
});
row("chat({tools})", CHAT, async () => {
  const asked = [{ role: "user", content: "call:look" }];
  const answer = await ollama.chat({ model, messages: asked, tools: TOOLS, think: false, options });
  if (!real) assert.deepEqual(answer.message.tool_calls[0].function.arguments, ARGUMENTS);
  const call = { function: { name: "look", arguments: ARGUMENTS } };
  asked.push(real ? { role: "assistant", content: "", tool_calls: [call] } : answer.message);
  asked.push({ role: "tool", tool_name: "look", content: PROMPT });
  says((await ollama.chat({ model, messages: asked, tools: TOOLS, think: false, options })).message.content);
  return real && NO_CALLS;
});
row("chat({format})", CHAT, async () => {
  const asked = [{ role: "user", content: 'say:{"ok":true}' }];
  const answer = await ollama.chat({ model, messages: asked, format: TRUTH, think: false, options });
  assert.equal(typeof JSON.parse(answer.message.content).ok, "boolean");
});
row("chat({an image})", CHAT, async () => {
  const asked = [{ role: "user", content: PROMPT, images: [Buffer.from(PIXEL, "base64")] }];
  says((await ollama.chat({ model, messages: asked, think: false, options })).message.content);
}, ["real"]);
row("chat, then abort", CHAT, async () => {
  const long = [{ role: "user", content: "words:20000" }];
  const stream = await ollama.chat({ model, messages: long, stream: true });
  const iterator = stream[Symbol.asyncIterator]();
  assert.ok((await iterator.next()).value);
  stream.abort();
  await assert.rejects(async () => {
    for (;;) if ((await iterator.next()).done) throw new Error("ended as if nothing had happened");
  }, { name: "AbortError" });
});
row("generate", GENERATE, async () => {
  says((await ollama.generate({ model, prompt: PROMPT, think: false, options })).response);
});
row("generate({stream: true})", GENERATE, async () => {
  const parts = await all(await ollama.generate({ model, prompt: PROMPT, think: false, options, stream: true }));
  says(parts.map((part) => part.response).join(""));
});
row("generate({raw: true})", GENERATE, async () => {
  const answer = await ollama.generate({ model, prompt: PROMPT, raw: true, options: { temperature: 0, num_predict: 20 } });
  if (real) assert.ok(answer.response);
  else assert.equal(answer.response, EXPECTED);
});
row("generate({suffix})", GENERATE, async () => {
  assert.equal((await ollama.generate({ model, prompt: PROMPT, suffix: "the end" })).response, EXPECTED);
}, ["real"]);
row("generate(no prompt: load and unload)", GENERATE, async () => {
  for (const [keep_alive, reason] of [["5m", "load"], [0, "unload"]]) {
    assert.equal((await ollama.generate({ model, prompt: "", keep_alive })).done_reason, reason);
  }
});
row("embed", "POST /api/embed", async () => {
  const answer = await ollama.embed({ model: embedder, input: ["the sea", "dust"] });
  for (const vector of answer.embeddings) near(size(vector), 1);
});
row("embeddings", "POST /api/embeddings", async () => {
  const length = size((await ollama.embeddings({ model: embedder, prompt: "the sea" })).embedding);
  if (bench.key !== "openai") {
    assert.ok(Math.abs(length - 1) > 0.1);
    return;
  }
  near(length, 1);
  return "vectors come at length 1: the engine has no way to be asked for them as they are";
});
row("list", "GET /api/tags", async () => {
  const names = (await ollama.list()).models.map((one) => one.model);
  assert.deepEqual(new Set(names), new Set([model, embedder].map((one) => (one.includes(":") ? one : `${one}:latest`))));
});
row("ps", "GET /api/ps", async () => {
  assert.ok((await ollama.ps()).models.length > 0);
  return bench.key !== "ollama" && "tells what the engine serves, for as long as it does: nothing is ever unloaded";
});
row("show", "POST /api/show", async () => {
  const told = await ollama.show({ model });
  const length = told.model_info[`${told.model_info["general.architecture"]}.context_length`];
  assert.ok(bench.key === "openai" ? length === undefined : length > 0);
  return bench.key === "openai" && NO_LENGTH;
});
row("version", "GET /api/version", async () => {
  assert.match((await ollama.version()).version, /^\d+\.\d+\.\d+/);
});
row("pull", "POST /api/pull", async () => {
  assert.equal((await ollama.pull({ model: "new:1b" })).status, "success");
  await ollama.delete({ model: "new:1b" });
}, NOT_OLLAMA);
row("pull({stream: true})", "POST /api/pull", async () => {
  const told = await all(await ollama.pull({ model: "new:2b", stream: true }));
  assert.equal(told.at(-1).status, "success");
  await ollama.delete({ model: "new:2b" });
}, NOT_OLLAMA);
row("push({stream: true})", "POST /api/push", async () => {
  const told = await all(await ollama.push({ model, stream: true }));
  assert.equal(told.at(-1).status, "success");
}, NOT_OLLAMA);
row("create({stream: true})", "POST /api/create", async () => {
  const told = await all(await ollama.create({ model: "made:1b", from: model, stream: true }));
  assert.equal(told.at(-1).status, "success");
  await ollama.delete({ model: "made:1b" });
}, NOT_OLLAMA);
row("copy", "POST /api/copy", async () => {
  await ollama.copy({ source: model, destination: "copied:1b" });
  await ollama.delete({ model: "copied:1b" });
}, NOT_OLLAMA);
row("delete", "DELETE /api/delete", async () => {
  if (bench.key === "ollama") await ollama.copy({ source: model, destination: "gone:1b" });
  await ollama.delete({ model: "gone:1b" });
}, NOT_OLLAMA);
row("systemone", "POST /v1/systemone", () => ollama.systemone({ model, state: PROMPT, questions: {} }), ALL);

for (const { client, method, endpoint, check, refused } of rows) {
  const expected = refused.includes(bench.key);
  const told = { client, method, endpoint };
  try {
    const limit = await check();
    told.text = expected ? "FAILED: expected to be refused" : limit ? `limit: ${limit}` : "works";
  } catch (error) {
    const status = error.status ?? error.status_code;
    if (typeof status === "number") {
      Object.assign(told, { status, sentence: error.error?.message ?? error.error ?? error.message, refused: expected });
    } else {
      told.text = `FAILED: ${error.name}: ${error.message}`;
    }
  }
  console.log(JSON.stringify(told));
}
