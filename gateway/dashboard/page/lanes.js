// Who waits in which lane, and for how long.
import { duration, el, keyed, number, write } from './words.js';

const rows = document.getElementById('lanes');
const NAMES = { thinking: 'Thinking', fast: 'Fast', normal: 'Normal', slow: 'Slow', background: 'Background', embeddings: 'Embeddings' };
const LATE_S = 5;

function make(lane) {
  const count = el('b');
  const bar = el('i');
  const cells = [1, 2, 3, 4].map((place) => el('td', place > 2 ? 'number wide' : 'number'));
  const row = el('tr', '', [
    el('th', '', NAMES[lane.name] ?? lane.name, { scope: 'row' }),
    el('td', '', el('div', 'queue', [count, el('span', 'fill', bar, { 'aria-hidden': 'true' })])),
    ...cells,
  ]);
  row.parts = { count, bar, cells };
  return row;
}

export function drawLanes(lanes) {
  const most = Math.max(8, ...lanes.map((lane) => lane.waiting));
  const some = lanes.filter((lane) => lane.name !== 'embeddings' || lane.waiting);
  keyed(rows, some, (lane) => lane.name, make, (row, lane) => {
    const { count, bar, cells } = row.parts;
    const [longest, running, half, most20] = cells;
    write(count, number(lane.waiting));
    count.className = lane.waiting ? '' : 'none';
    bar.style.width = `${(lane.waiting / most) * 100}%`;
    write(longest, lane.waiting ? duration(lane.oldest_s) : '–');
    longest.className = `number ${!lane.waiting ? 'none' : lane.oldest_s >= LATE_S && lane.name !== 'background' ? 'late' : ''}`;
    write(running, lane.name === 'embeddings' ? '–' : number(lane.running));
    running.className = `number ${lane.running ? '' : 'none'}`;
    for (const [cell, value] of [[half, lane.first_p50_s], [most20, lane.first_p95_s]]) {
      write(cell, duration(value));
      cell.className = `number wide ${value === null ? 'none' : ''}`;
    }
  });
}
