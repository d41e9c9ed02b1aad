// First words, waits, tokens and batches: now, and over the last ten minutes.
import { Bars, Line } from './plot.js';
import { duration, el, number, plural, short, show, write } from './words.js';

function tile(title, plot) {
  const big = el('p', 'big');
  const small = el('p', 'small');
  return { node: el('article', 'tile', [el('h2', '', title), big, small, plot.node]), big, small, plot };
}

const tiles = {
  first: tile('First word', new Line()),
  wait: tile('Waiting', new Line()),
  tokens: tile('Tokens per second', new Line()),
  batch: tile('Batches', new Bars()),
  cache: tile('Answer cache', new Line()),
};
const box = document.getElementById('tiles');
box.append(...Object.values(tiles).map((it) => it.node));

function figure(node, text) {
  const [, value, unit] = /^(\S+) ?(.*)$/.exec(text);
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(value, ...(unit ? [el('span', 'unit', unit)] : []));
}

function times(it, values, high, what, history) {
  const ago = (i) => (values.length - 1 - i) * history.slot_s;
  const known = values.filter((value) => value !== null);
  it.plot.draw(values, {
    high,
    // Of a time ten times as long, the point stands three times as high: both can be seen.
    scale: Math.sqrt,
    span: '10 min ago',
    sentence: known.length
      ? `${what} over ten minutes: median ${duration(known.at(-1))} the last time, ${duration(Math.max(...known))} at most. Arrow keys read the points.`
      : `${what} over ten minutes: nothing yet.`,
    read: (i) => (values[i] === null ? `${when(ago(i))}: nothing` : `${when(ago(i))}: ${duration(values[i])}, 95 % under ${duration(high[i])}`),
  });
}

const when = (ago) => (ago < 60 ? `${ago} s ago` : `${Math.round(ago / 60)} min ago`);

// The last thing known, if it is not older than a minute.
const latest = (values) => values.slice(-12).findLast((value) => value !== null) ?? null;

export function drawTiles(seen) {
  const { history, minute } = seen;
  figure(tiles.first.big, duration(minute.first_p50_s));
  write(tiles.first.small, minute.first_p50_s === null ? 'none in the last minute' : `median; 95 % under ${duration(minute.first_p95_s)}`);
  times(tiles.first, history.first_p50_s, history.first_p95_s, 'Time to the first word', history);

  const oldest = Math.max(0, ...seen.lanes.filter((lane) => lane.name !== 'background').map((lane) => lane.oldest_s));
  figure(tiles.wait.big, number(seen.waiting));
  const background = seen.in_background ? `; ${number(seen.in_background)} in background` : '';
  write(tiles.wait.small, `${seen.waiting ? `longest for ${duration(oldest)}` : 'nobody'}${background}`);
  times(tiles.wait, history.wait_p50_s, history.wait_p95_s, 'Time in the queue', history);

  const rates = history.tokens_per_s;
  // Tokens are told some seconds late: before that it is not known that there are none.
  const late = seen.running && !rates.at(-1) && !minute.tokens_per_s;
  figure(tiles.tokens.big, late ? '–' : short(rates.at(-1) ?? 0));
  write(tiles.tokens.small, late ? 'none told yet' : `${short(minute.tokens_per_s)} over the last minute`);
  tiles.tokens.plot.draw(rates, {
    least: 10,
    span: '10 min ago',
    sentence: `Tokens per second over ten minutes: ${short(rates.at(-1) ?? 0)} now, ${short(Math.max(0, ...rates))} at most. Arrow keys read the points.`,
    read: (i) => `${when((rates.length - 1 - i) * history.slot_s)}: ${short(rates[i])} per second`,
  });

  batches(seen.batches, minute.mean_batch ?? latest(history.batch));
  cache(seen.cache, history, Boolean(seen.cache || seen.caching));
}

// Of the answers that may be kept: the part for which no engine had to work.
function cache(known, history, shown) {
  show(tiles.cache.node, shown);
  box.classList.toggle('five', shown);
  const { spared = null, asked = 0 } = known ?? {};
  figure(tiles.cache.big, percent(spared));
  write(tiles.cache.small, asked ? `of ${number(asked)} in 5 min needed no engine` : 'nobody asked in 5 min');
  const values = history.spared;
  tiles.cache.plot.draw(values, {
    least: 1,
    span: '10 min ago',
    sentence: `Requests that the cache answered, over ten minutes: ${spared === null ? 'nobody asked lately' : `${percent(spared)} in the last five`}. Arrow keys read the points.`,
    read: (i) => `${when((values.length - 1 - i) * history.slot_s)}: ${values[i] === null ? 'nobody asked' : percent(values[i])}`,
  });
}

const percent = (part) => (part === null ? '–' : `${Math.round(part * 100)} %`);

function batches(counts, mean) {
  const sizes = Object.keys(counts).map(Number);
  const most = Math.max(8, ...sizes);
  const bars = Array.from({ length: Math.min(most, 16) }, (_, i) => [String(i + 1), counts[i + 1] ?? 0]);
  if (most > 16) bars[15] = ['16 and more', sizes.filter((size) => size >= 16).reduce((sum, size) => sum + counts[size], 0)];
  bars[0][0] = '1 job';
  const total = sizes.reduce((sum, size) => sum + counts[size], 0);
  figure(tiles.batch.big, mean === null ? '–' : `${number(mean, 1)} jobs`);
  write(tiles.batch.small, total ? `on average of ${number(total)} in 5 min` : 'none in 5 min');
  const told = bars.filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`);
  tiles.batch.plot.draw(bars, total ? `Batches by size in five minutes. ${told.join(', ')}.` : 'No batches in five minutes.');
}
