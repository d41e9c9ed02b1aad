// Asks the gateway once a second while somebody looks, and for nothing while nobody does.
import { drawEngines } from './engines.js';
import { drawLanes } from './lanes.js';
import { drawDead, drawUnderWay, drawWorkers } from './lists.js';
import { drawTiles } from './tiles.js';
import { ask, follow } from './timeline.js';
import { duration, el, show, write } from './words.js';

const EVERY_MS = 1000;
const PATIENCE_MS = 8000;
const MARKS = { ok: '', strained: '! ', broken: '✕ ' };
const byId = (id) => document.getElementById(id);
const parts = Object.fromEntries(['beat', 'beat-text', 'verdict', 'says', 'why', 'simulated', 'sign-out', 'who', 'version'].map((id) => [id, byId(id)]));
let lastAt = 0;
let timer = 0;
let looking = false;

function beat(state, text) {
  if (parts.beat.dataset.state !== state) parts.beat.dataset.state = state;
  write(parts['beat-text'], text);
}

function verdict({ level, says, why }) {
  parts.verdict.dataset.level = level;
  write(parts.says, says);
  const told = why.join('\n');
  if (parts.why.dataset.told !== told) {
    parts.why.dataset.told = told;
    parts.why.replaceChildren(...why.map((line) => el('li', '', line)));
  }
  const title = `${MARKS[level]}${says} · Doublebuffer`;
  if (document.title !== title) document.title = title;
}

function draw({ viewer, now, seen }) {
  verdict(seen.verdict);
  document.body.classList.toggle('stale', Boolean(seen.store));
  show(parts.simulated, seen.simulated);
  show(parts['sign-out'], viewer.signed_in);
  write(parts.who, viewer.name);
  write(parts.version, `Version ${seen.version}.`);
  drawTiles(seen);
  drawLanes(seen.lanes);
  drawEngines(seen.engines);
  drawWorkers(seen.workers);
  drawDead(seen.dead, seen.letters, now);
  drawUnderWay(seen.under_way, ask);
  if (seen.store) beat('lost', seen.store.seen ? `as it was ${duration(Math.max(0, now - seen.at))} ago` : 'Redis away');
  else beat('live', 'live');
}

async function look() {
  try {
    const answer = await fetch('/dashboard/data', { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status === 401) return location.reload();
    if (!answer.ok) throw new Error(String(answer.status));
    const told = await answer.json();
    lastAt = Date.now();
    draw(told);
    await follow();
  } catch {
    const ago = lastAt ? `, as it was ${duration((Date.now() - lastAt) / 1000)} ago` : '';
    document.body.classList.toggle('stale', Boolean(lastAt));
    verdict({ level: 'broken', says: 'The gateway does not answer.', why: ['This page asks it again every second.'] });
    beat('lost', `no answer${ago}`);
  }
  return undefined;
}

async function turn() {
  clearTimeout(timer);
  if (looking) return;
  if (document.visibilityState === 'hidden') {
    beat('paused', 'paused');
    return;
  }
  looking = true;
  await look();
  looking = false;
  clearTimeout(timer);
  timer = setTimeout(turn, EVERY_MS);
}

document.addEventListener('visibilitychange', turn);
turn();
