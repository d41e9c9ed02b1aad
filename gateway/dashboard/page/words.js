// Numbers as people read them, and pieces of the page.

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 119.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}

export function number(value, digits = 0) {
  return value.toLocaleString('en-GB', { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

export function short(value) {
  if (value < 1000) return number(value, value > 0 && value < 9.95 && value % 1 ? 1 : 0);
  if (value < 999_500) return `${number(value / 1000, value < 9950 ? 1 : 0)}k`;
  return `${number(value / 1e6, 1)}M`;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// An element: its classes, what it holds, and its attributes.
export function el(name, classes = '', holds = [], attributes = {}) {
  const made = document.createElement(name);
  if (classes) made.className = classes;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[holds].flat());
  return made;
}

// Writes a text only where it is another: what reads a page aloud is told of changes alone.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

// One child for each item, kept as long as its item is there: the place of the keyboard and what was opened stay.
export function keyed(box, items, keyOf, make, update) {
  const known = (box.pieces ??= new Map());
  const wanted = new Set();
  let before = null;
  for (const item of items) {
    const key = keyOf(item);
    wanted.add(key);
    let node = known.get(key);
    if (!node) known.set(key, (node = make(item)));
    update(node, item);
    const place = before ? before.nextSibling : box.firstChild;
    if (node !== place) box.insertBefore(node, place);
    before = node;
  }
  for (const [key, node] of known) {
    if (wanted.has(key)) continue;
    node.remove();
    known.delete(key);
  }
}
