// One request from its arrival to its last token.
import { duration, el, plural } from './words.js';

const box = document.getElementById('timeline');
const form = document.getElementById('ask');
const input = document.getElementById('request');
const OPEN = ['waiting', 'running'];
let asked = '';

export function ask(id) {
  input.value = id;
  asked = id;
  return look();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  ask(input.value.trim().toLowerCase());
});

// Again with each look at the rest, until it has ended.
export function follow() {
  return asked && box.dataset.open === 'yes' ? look() : undefined;
}

async function look() {
  const id = asked;
  try {
    const answer = await fetch(`/dashboard/requests/${encodeURIComponent(id)}`, { cache: 'no-store' });
    const told = await answer.json();
    if (id !== asked) return;
    draw(answer.ok ? told : null, told.error);
  } catch {
    if (id === asked) draw(null, 'The gateway cannot be reached at the moment.');
  }
}

function draw(told, error) {
  box.dataset.open = told && OPEN.includes(told.state) ? 'yes' : 'no';
  const drawn = JSON.stringify([told, error]);
  if (box.dataset.drawn === drawn) return;
  box.dataset.drawn = drawn;
  box.replaceChildren(...(told ? lines(told) : [el('p', 'error', error)]));
}

function stretches({ timeline: at, now, state }) {
  const until = at.ended ?? now;
  const [started, first] = [at.started ?? until, at.first_token ?? until];
  const found = [['waits', 'waited for a place', at.arrival, Math.min(started, until)]];
  if (at.started) found.push(['reads', 'until the first word', started, first]);
  if (at.first_token) found.push(['writes', state === 'running' ? 'writing' : 'writing, to the last word', first, until]);
  return found.map(([kind, name, from, to]) => ({ kind, name, took: Math.max(0, to - from) }));
}

function lines(told) {
  const { timeline: at, now } = told;
  const parts = stretches(told);
  const whole = Math.max(0.001, (at.ended ?? now) - at.arrival);
  const came = new Date(at.arrival * 1000).toLocaleTimeString('en-GB');
  const about = [told.model, `lane ${told.lane}`, told.backend ? `at ${told.backend}` : '', `came at ${came}`];
  if (told.attempts > 1) about.push(plural(told.attempts, 'attempt'));
  if (told.takeovers) about.push(plural(told.takeovers, 'take-over'));
  if (told.detached) about.push('detached');
  const bar = el('div', 'stretch', parts.map((part) => el('i', part.kind)), { role: 'img', 'aria-label': parts.map((part) => `${part.name}: ${duration(part.took)}`).join(', ') });
  [...bar.children].forEach((piece, i) => (piece.style.flex = `${Math.max(parts[i].took / whole, 0.004)} 1 0`));
  const key = parts.map((part) => el('li', part.kind, [part.name, el('b', '', duration(part.took))]));
  return [
    el('p', 'line-head', `${head(told)}`),
    el('p', 'line-about', about.filter(Boolean).join(' · ')),
    bar,
    el('ul', 'key', key),
    ...(told.error || told.failed_with ? [el('p', 'error', told.error ?? `It was answered with ${told.failed_with}.`)] : []),
  ];
}

function head(told) {
  const whole = duration((told.timeline.ended ?? told.now) - told.timeline.arrival);
  if (told.state === 'waiting') {
    const starts = told.estimated_start ? `, begins in about ${duration(Math.max(0, told.estimated_start - told.now))}` : '';
    return `Waits for ${whole}, place ${told.queue_place}${starts}`;
  }
  const states = { running: 'Under way for', done: 'Answered in', failed: 'Failed after', cancelled: 'Cancelled after', expired: 'Expired after' };
  return `${states[told.state] ?? told.state} ${whole}`;
}
