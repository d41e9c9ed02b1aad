// One headless Chromium with Open WebUI in it, told what to do by lines of JSON on standard input.
//
//   node browser.mjs PLAYWRIGHT_FOLDER CHROMIUM URL
//
// {"do": NAME, ...} is answered by {"done": VALUE} or {"failed": REASON}, in order. The end of the input closes it.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import path from 'node:path';

const [folder, executablePath, site] = process.argv.slice(2);
const { chromium } = createRequire(path.join(path.resolve(folder), 'from-here.js'))('playwright-core');
const QUIET = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'];
const MODEL_BUTTON = '#model-selector-model-button';
const STOP = 'button[aria-label="Stop"]';

const browser = await chromium.launch({ executablePath, headless: true, args: QUIET });
const page = await browser.newPage({ viewport: { width: 1000, height: 540 }, deviceScaleFactor: 1 });
page.setDefaultTimeout(45_000);

// What the newest answer looks like to its reader; runs inside the page.
function look() {
  const answer = [...document.querySelectorAll('.chat-assistant')].pop();
  const message = answer?.closest('[id^="message-"]');
  const thought = [...(answer?.querySelectorAll('button[aria-expanded]') ?? [])].find((it) => /^(Thought|Thinking)/.test(it.innerText.trim()));
  const prose = [...(answer?.querySelectorAll('.markdown-prose') ?? [])];
  const text = (boxes) => boxes.map((it) => it.innerText.trim()).join('\n').trim();
  return {
    id: message?.id ?? '',
    text: text(prose.filter((it) => !it.closest('[slot="content"]'))),
    thought: text(prose.filter((it) => it.closest('[slot="content"]'))),
    whole: answer?.innerText ?? '', // with whatever Open WebUI puts below it
    thoughtLabel: thought?.innerText.trim() ?? '',
    writing: Boolean(document.querySelector('button[aria-label="Stop"]')),
    finished: Boolean(message?.querySelector('button[aria-label="Regenerate"]')),
    notices: [...document.querySelectorAll('[data-sonner-toast]')].map((it) => it.innerText.trim()),
  };
}

// Watches the newest answer from now until it is finished; how long its text was at each look that found it longer.
async function watch({ besides = '' }) {
  const lengths = [];
  for (;;) {
    const seen = await page.evaluate(look);
    if (seen.id !== besides && seen.text.length > (lengths.at(-1) ?? 0)) lengths.push(seen.text.length);
    if (seen.id !== besides && seen.finished && !seen.writing && seen.text) return { ...seen, lengths };
    await page.waitForTimeout(50);
  }
}

const tasks = {
  async enter({ email, password }) {
    await page.goto(`${site}/auth`);
    await page.fill('input[type="email"]', email);
    await page.fill('input[type="password"]', password);
    await page.keyboard.press('Enter');
    await page.waitForSelector('#chat-input');
    // Tells what is new in this version, once, some time after the page is there.
    const news = page.getByRole('button', { name: /Okay, Let.s Go/ });
    await page.addLocatorHandler(news, () => news.click());
  },
  async newChat() {
    await page.goto(site);
    await page.waitForSelector('#chat-input');
    await page.waitForSelector(`${MODEL_BUTTON}[aria-label^="Select"]`);
  },
  async models() {
    await page.click(MODEL_BUTTON);
    await page.waitForSelector('[role="option"][data-value]');
    return page.locator('[role="option"][data-value]').evaluateAll((all) => all.map((it) => it.dataset.value));
  },
  async choose({ model }) {
    await page.locator(`[role="option"][data-value="${model}"]`).click();
    await page.waitForSelector(`${MODEL_BUTTON}[aria-label="Selected model: ${model}"]`);
  },
  async say({ text }) {
    await page.click('#chat-input');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
  },
  look: () => page.evaluate(look),
  watch,
  // Until an answer, another than `besides`, is being written and has so many characters.
  async writing({ least, besides = '' }) {
    for (;;) {
      const seen = await page.evaluate(look);
      if (seen.writing && seen.id !== besides && seen.text.length + seen.thought.length >= least) return seen;
      await page.waitForTimeout(20);
    }
  },
  // Until the newest answer, or what Open WebUI puts below it, has these words.
  async told({ words }) {
    const until = Date.now() + 30_000;
    for (;;) {
      const seen = await page.evaluate(look);
      if (seen.whole.includes(words) && !seen.writing) return seen;
      if (Date.now() > until) throw new Error(`not told; but: ${JSON.stringify(seen)}`);
      await page.waitForTimeout(50);
    }
  },
  async ended() {
    await page.waitForSelector(STOP, { state: 'detached' });
  },
  async stop() {
    await page.click(STOP);
    await page.waitForSelector(STOP, { state: 'detached' });
  },
  async openThought() {
    const label = page.locator('.chat-assistant').last().getByText(/^(Thought|Thinking)/);
    await label.click();
    await page.waitForFunction(() => document.querySelector('.chat-assistant [slot="content"] .markdown-prose'));
  },
  async regenerate() {
    await page.locator('button[aria-label="Regenerate"]').last().click();
    await page.getByText('Try Again', { exact: true }).click();
  },
  async picture({ file, hidePointer = true }) {
    if (hidePointer) await page.mouse.move(0, 0);
    await page.waitForTimeout(600); // what slides in has come to rest
    await page.screenshot({ path: file, animations: 'disabled', caret: 'hide' });
  },
};

const tell = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
tell({ done: browser.version() });
for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...given } = JSON.parse(line);
  try {
    tell({ done: (await tasks[name](given)) ?? null });
  } catch (error) {
    tell({ failed: String(error).slice(0, 1500) });
  }
}
await browser.close();
