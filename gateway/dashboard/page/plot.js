// Small plots in SVG. A pointer or the arrow keys read a point; the sentence beside it is for those who see neither.
import { el } from './words.js';

const SPACE = 'http://www.w3.org/2000/svg';
const WIDTH = 240;
const HEIGHT = 56;

function shape(name, classes) {
  const made = document.createElementNS(SPACE, name);
  made.setAttribute('class', classes);
  return made;
}

function drawing() {
  const svg = shape('svg', 'plot');
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  const base = shape('path', 'base');
  base.setAttribute('d', `M0 ${HEIGHT}H${WIDTH}`);
  svg.append(base);
  return svg;
}

// The runs of a line that has gaps where nothing happened.
function runs(values, top, scale) {
  const found = [];
  let run = null;
  values.forEach((value, i) => {
    if (value === null) {
      run = null;
      return;
    }
    if (!run) found.push((run = []));
    run.push([(i / Math.max(1, values.length - 1)) * WIDTH, HEIGHT - scale(Math.min(value, top) / top) * (HEIGHT - 3)]);
  });
  return found;
}

const at = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
const line = (found) => found.map((run) => `M${run.map(at).join('L')}${run.length === 1 ? 'h1.5' : ''}`).join('');
const area = (found) =>
  found.map((run) => `M${run[0][0].toFixed(1)} ${HEIGHT}L${run.map(at).join('L')}L${run.at(-1)[0].toFixed(1)} ${HEIGHT}Z`).join('');

// A line over time with a paler one above it. `read(i)` gives the sentence of a point.
export class Line {
  constructor() {
    this.svg = drawing();
    this.parts = Object.fromEntries(['area', 'high', 'line', 'hair'].map((name) => [name, shape('path', name)]));
    this.svg.append(...Object.values(this.parts));
    this.svg.setAttribute('tabindex', '0');
    this.told = el('span');
    this.ends = el('p', 'ends', [this.told, el('span', '', 'now')]);
    this.node = el('div', '', [this.svg, this.ends]);
    this.point = null;
    this.count = 0;
    this.svg.addEventListener('pointermove', (event) => {
      const box = this.svg.getBoundingClientRect();
      this.pick(Math.round(((event.clientX - box.left) / box.width) * (this.count - 1)));
    });
    for (const name of ['pointerleave', 'blur']) this.svg.addEventListener(name, () => this.pick(null));
    this.svg.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.pick((this.point ?? this.count - 1) + (this.point === null ? 0 : step));
    });
  }

  draw(values, { high = [], least = 0, sentence, read, span, scale = (part) => part }) {
    const known = [...values, ...high].filter((value) => value !== null);
    const top = Math.max(least, ...known) || 1;
    this.count = values.length;
    this.read = read;
    this.span = span;
    const found = runs(values, top, scale);
    this.parts.area.setAttribute('d', area(found));
    this.parts.line.setAttribute('d', line(found));
    this.parts.high.setAttribute('d', line(runs(high, top, scale)));
    this.svg.setAttribute('aria-label', sentence);
    this.pick(this.point);
  }

  pick(point) {
    this.point = point === null || !this.count ? null : Math.min(this.count - 1, Math.max(0, point));
    const x = this.point === null ? 0 : (this.point / Math.max(1, this.count - 1)) * WIDTH;
    this.parts.hair.setAttribute('d', this.point === null ? '' : `M${x.toFixed(1)} 0V${HEIGHT}`);
    this.told.textContent = this.point === null ? this.span : this.read(this.point);
    this.ends.lastChild.hidden = this.point !== null;
    // Read aloud while somebody walks through the points.
    this.told.setAttribute('aria-live', this.point === null ? 'off' : 'polite');
  }
}

// Bars beside one another, each with its name below.
export class Bars {
  constructor() {
    this.svg = drawing();
    this.names = el('p', 'ends', [], { 'aria-hidden': 'true' });
    this.node = el('div', '', [this.svg, this.names]);
  }

  // `bars`: [name, value] each.
  draw(bars, sentence) {
    const top = Math.max(1, ...bars.map(([, value]) => value));
    const step = WIDTH / bars.length;
    const drawn = bars.map(([, value], i) => {
      const height = value ? Math.max(2, (value / top) * (HEIGHT - 3)) : 0;
      return `M${(i * step + 2).toFixed(1)} ${HEIGHT}v${(-height).toFixed(1)}h${(step - 4).toFixed(1)}V${HEIGHT}Z`;
    });
    this.bars ??= this.svg.appendChild(shape('path', 'bar'));
    this.bars.setAttribute('d', drawn.join(''));
    this.svg.setAttribute('aria-label', sentence);
    const names = [bars[0][0], bars.at(-1)[0]];
    if (this.names.textContent !== names.join('')) this.names.replaceChildren(...names.map((name) => el('span', '', name)));
  }
}
