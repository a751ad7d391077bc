// Writes the pictures of docs/console.md: npm run pictures. Takes ten minutes, because the charts show
// one point a minute.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

import { corpus, enter, open, root, startBrowser, startService } from "./support.js";

const MINUTES = 8;

const [browser, service] = await Promise.all([startBrowser(), startService()]);

// Stores the texts of the corpus again and again, each time with some words of others.
async function crawl(texts, until) {
  const words = texts.flatMap((text) => text.split(/\s+/));
  let state = 1;
  const draw = (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (let round = 1; Date.now() < until; round += 1) {
    const share = 2 + draw(12);
    const text = texts[draw(texts.length)].split(" ").map((word) => (draw(share) === 0 ? words[draw(words.length)] : word)).join(" ");
    await service.post(round % 3 === 0 ? "/v1/query" : "/v1/check-and-insert", { text });
    await new Promise((resolve) => setTimeout(resolve, 20 + 60 * (1 + Math.sin(Date.now() / 90_000))));
  }
}

async function picture(name, page, height) {
  const path = root(`docs/console-${name}.png`);
  await page.evaluate(() => document.activeElement?.blur());
  await page.setViewportSize({ width: 1280, height });
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path });
  const { status } = spawnSync("pngquant", ["--force", "--ext", ".png", "--speed", "1", "64", path], { stdio: "inherit" });
  if (status !== 0) throw new Error("pngquant makes the pictures smaller: apt-get install pngquant");
}

try {
  for (const file of readdirSync(root("tests/corpus")).filter((name) => name.endsWith("-1.txt") || !/-\d\.txt$/.test(name))) {
    if (file.endsWith(".txt")) await service.post("/v1/insert", { id: `https://corpus.example/${file.replace(".txt", "")}`, text: corpus(file), metadata: { file } });
  }
  const compare = await open(browser, service.url);
  await enter(compare, "textarea[aria-label=\"First document\"]", corpus("en-harbour-1.txt"));
  await enter(compare, "textarea[aria-label=\"Second document\"]", corpus("en-harbour-2.txt"));
  await compare.getByRole("button", { name: "Compare", exact: true }).click();
  await compare.locator(".passages li").first().waitFor();
  await picture("compare", compare, 1650);
  const lookup = await open(browser, service.url, { hash: "#/lookup" });
  await enter(lookup, "textarea[aria-label=\"Document\"]", corpus("fr-jardin-2.txt"));
  await lookup.getByRole("button", { name: "Look up" }).click();
  await lookup.locator(".hit").first().waitFor();
  await picture("lookup", lookup, 1150);
  await crawl(readdirSync(root("tests/corpus")).filter((name) => /^(en|de|fr|el|ru)-.*txt$/.test(name)).map(corpus), Date.now() + MINUTES * 60_000);
  const index = await open(browser, service.url, { hash: "#/index" });
  await index.getByText("Memory by part").waitFor();
  await index.locator("figure.chart").last().waitFor();
  await picture("index", index, 1200);
} finally {
  await browser.close();
  await service.stop();
}
