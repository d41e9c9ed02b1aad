"""What tests of the page in a real Chromium share."""

from __future__ import annotations

from tests.dashboard.chromium import Page

CONTRAST = """(() => {
  const known = new Map();
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (colour) => {
    if (known.has(colour)) return known.get(colour);
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    known.set(colour, [r, g, b, a / 255]);
    return known.get(colour); };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a)];
  const behind = (node) => { const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      const tint = style.backgroundImage.match(/(?:rgba?|color)\\([^)]*\\)/);
      if (tint) layers.push(rgb(tint[0]));
      layers.push(rgb(style.backgroundColor));
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]); };
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((it) => it.nodeType === 3 && it.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest('.skip, noscript')) continue;
    const ground = behind(node);
    const [a, b] = [light(over(rgb(getComputedStyle(node).color), ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([node.textContent.trim().slice(0, 40), Number(ratio.toFixed(2))]);
  }
  return found;
})()"""
"""Texts that are too pale to be read: less than 4.5 to 1."""
LIVE = "document.getElementById('beat-text').textContent === 'live'"


async def opened(page: Page, url: str, *, scheme: str = "light") -> None:
    await page.size(1280)
    await page.scheme(scheme)
    await page.open(f"{url}/dashboard")
    await page.until(LIVE)
