// Workers, dead letters, and what is under way.
import { duration, el, keyed, number, plural, write } from './words.js';

const byId = (id) => document.getElementById(id);
const boxes = { workers: byId('workers'), workersCount: byId('workers-count'), dead: byId('dead'), deadCount: byId('dead-count'), underWay: byId('under-way') };

function row() {
  const node = el('li', '', [el('span', 'what'), el('span', 'when'), el('span', 'more')]);
  node.parts = [...node.children];
  return node;
}

function tell(node, what, when, more) {
  [what, when, more].forEach((text, i) => write(node.parts[i], text));
}

export function drawWorkers(workers) {
  write(boxes.workersCount, workers.length ? number(workers.length) : '');
  const known = workers.length ? workers : [null];
  keyed(boxes.workers, known, (worker) => worker?.id ?? '', row, (node, worker) => {
    if (!worker) return tell(node, 'None is running.', '', '');
    const serves = worker.backends.length > 3 ? plural(new Set(worker.backends).size, 'engine') : worker.backends.join(', ');
    return tell(node, worker.id, `${worker.draining ? 'stopping, ' : ''}up for ${duration(worker.age_s)}`, serves);
  });
}

export function drawDead(count, letters, now) {
  write(boxes.deadCount, count ? number(count) : '');
  const told = JSON.stringify([count, letters, Math.floor(now / 10)]);
  if (boxes.dead.dataset.told === told) return;
  boxes.dead.dataset.told = told;
  if (!count) return boxes.dead.replaceChildren(el('p', 'none', 'None: no job had to be given up.'));
  if (!letters) {
    const why = `${plural(count, 'job was', 'jobs were')} given up. Why is told to admins, and by `;
    return boxes.dead.replaceChildren(el('p', 'note', [why, el('code', '', 'doublebuffer dead list'), '.']));
  }
  const rows = letters.slice(0, 6).map((letter) => {
    const node = row();
    tell(node, letter.model || letter.ref, `${duration(now - letter.at)} ago`, letter.reason);
    return node;
  });
  return boxes.dead.replaceChildren(el('ul', 'plain', rows));
}

const list = el('ul', 'plain');
const title = el('h3');

// For admins. `ask` shows one of them.
export function drawUnderWay(jobs, ask) {
  if (!jobs?.length) return boxes.underWay.replaceChildren();
  if (!list.isConnected) boxes.underWay.replaceChildren(title, list);
  write(title, 'Under way, the oldest first');
  const make = (job) => {
    const button = el('button', '', job.ref, { type: 'button', 'aria-label': `Show request ${job.ref}` });
    button.addEventListener('click', () => ask(job.ref));
    const node = el('li', '', [el('span', 'what', [button]), el('span', 'when')]);
    node.parts = [button, node.lastChild];
    return node;
  };
  return keyed(list, jobs, (job) => job.ref, make, (node, job) => {
    write(node.parts[1], `${job.lane}, at ${job.engine}, ${duration(job.age_s)}`);
  });
}
