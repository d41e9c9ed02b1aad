// What runs where: each engine's places, memory and breaker, and what it serves.
import { el, keyed, number, plural, short, show, write } from './words.js';

const box = document.getElementById('engines');
const count = document.getElementById('engines-count');
const KINDS = { vllm: 'vLLM', ollama: 'Ollama', llamacpp: 'llama.cpp', openai: 'OpenAI API' };
const STATES = { up: 'up', down: 'down', open: 'breaker open', trial: 'on trial', starting: 'starting', spare: 'spare' };
const ORDER = ['down', 'open', 'trial', 'starting', 'up', 'spare'];
const AWAY = ['down', 'starting', 'spare'];
const MOST_CELLS = 40;

function sentenceOf(engine) {
  const { state } = engine;
  if (state === 'down') return engine.error || 'It cannot be reached.';
  if (state === 'open') return 'Several jobs failed here in a row; for some seconds none is sent.';
  if (state === 'trial') return 'One job tries whether it works again.';
  if (state === 'starting') return 'It is being started for those who wait.';
  if (state === 'spare') return 'It is started when it is needed.';
  return engine.fallback_for.length ? `Stands in for ${engine.fallback_for.join(', ')}.` : '';
}

function gauge(name) {
  const value = el('b');
  const bar = el('span');
  const meter = el('div', '', bar, { role: 'meter', 'aria-valuemin': '0' });
  const label = el('span', '', name);
  return { node: el('div', 'gauge', [el('p', '', [label, value]), meter]), value, bar, meter, name };
}

function fill(it, used, whole, text) {
  write(it.value, text);
  it.meter.setAttribute('aria-valuemax', String(Math.max(whole, used)));
  it.meter.setAttribute('aria-valuenow', String(used));
  it.meter.setAttribute('aria-valuetext', text);
  it.meter.setAttribute('aria-label', it.name);
  const cells = it.name === 'Places' && whole <= MOST_CELLS ? Math.max(whole, used) : 0;
  const drawn = `${cells ? 'cells' : 'fill'}${cells}`;
  if (it.meter.dataset.drawn !== drawn) {
    it.meter.dataset.drawn = drawn;
    it.bar = el('div', cells ? 'cells' : 'fill', Array.from({ length: cells || 1 }, () => el('i')));
    it.meter.replaceChildren(it.bar);
  }
  if (cells) [...it.bar.children].forEach((cell, i) => (cell.className = i < used ? 'on' : ''));
  else it.bar.firstChild.style.width = `${Math.min(100, (used / Math.max(whole, 1)) * 100)}%`;
}

function make(engine) {
  const parts = {
    pill: el('span', 'pill'),
    sentence: el('p', 'sentence'),
    places: gauge('Places'),
    memory: gauge('Memory for tokens'),
    rate: el('p', 'gauge kind'),
    models: el('ul'),
    model: el('p', 'models'),
    summary: el('summary'),
  };
  parts.details = el('details', 'models', [parts.summary, parts.models]);
  const head = el('header', '', [
    el('h3', '', engine.name, { title: engine.name }),
    el('span', 'kind', KINDS[engine.kind] ?? engine.kind),
    parts.pill,
  ]);
  const card = el('article', 'engine', [head, parts.sentence, parts.places.node, parts.memory.node, parts.rate, parts.model, parts.details]);
  card.parts = parts;
  return card;
}

function update(card, engine) {
  const { pill, sentence, places, memory, rate, model, details, summary, models } = card.parts;
  const { state } = engine;
  const away = AWAY.includes(state);
  card.dataset.state = state;
  write(pill, STATES[state]);
  const text = sentenceOf(engine);
  write(sentence, text);
  show(sentence, Boolean(text));
  show(places.node, !away || engine.jobs > 0);
  fill(places, engine.jobs, engine.limit, engine.limit ? `${number(engine.jobs)} of ${number(engine.limit)}` : number(engine.jobs));
  show(memory.node, !away && engine.kv_tokens > 0);
  fill(memory, engine.kv, engine.kv_tokens, `${short(engine.kv)} of ${short(engine.kv_tokens)}`);
  const said = [engine.tokens_per_s ? `${short(engine.tokens_per_s)} tokens/s` : '', engine.reading ? `reads ${short(engine.reading)} tokens` : ''];
  // Tokens are told some seconds late: an engine is not idle for having none yet.
  write(rate, said.filter(Boolean).join(' · ') || (engine.jobs ? 'at work' : 'idle'));
  show(rate, !away);
  show(details, engine.models.length > 1);
  show(model, engine.models.length === 1);
  write(model, engine.models[0] ?? '');
  const served = plural(engine.model_count, 'model');
  write(summary, engine.loaded.length ? `${served}, ${number(engine.loaded.length)} in memory` : served);
  const known = JSON.stringify([engine.models, engine.loaded]);
  if (models.dataset.known !== known) {
    models.dataset.known = known;
    const loaded = new Set(engine.loaded);
    const more = engine.model_count - engine.models.length;
    models.replaceChildren(...engine.models.map((name) => el('li', loaded.has(name) ? 'loaded' : '', name)));
    if (more > 0) models.append(el('li', 'none', `and ${number(more)} more, which /v1/models lists`));
  }
}

export function drawEngines(engines) {
  const sorted = [...engines].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
  const up = engines.filter((engine) => !AWAY.includes(engine.state)).length;
  write(count, engines.length > 1 || up < engines.length ? `${number(up)} of ${number(engines.length)} up` : '');
  keyed(box, sorted, (engine) => `${engine.pool} ${engine.name}`, make, update);
  if (!engines.length) box.replaceChildren(el('p', 'none whole', 'None is known yet. Workers tell of them once they run.'));
  else box.querySelector(':scope > p')?.remove();
}
