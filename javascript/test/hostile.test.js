// Each call ends as the table of tests/hostile/servers.py says, whatever server there is.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { after, test } from "node:test";
import { batch, nearprint, NearprintError } from "nearprint";

/**
 * @typedef {{ name: string, url: string, call: string, calls: number, pause_s: number,
 *   timeout_s: number, reply_bytes_max: number, expected: string }} Row
 */

const program = fileURLToPath(new URL("../../tests/hostile/servers.py", import.meta.url));
const table = spawn("python3", [program], { stdio: ["pipe", "pipe", "inherit"] });
after(() => table.stdin.end());
const [line] = await once(createInterface(table.stdout), "line");
/** @type {Row[]} */
const rows = JSON.parse(line);

/**
 * How a call ends, as the table says it.
 *
 * @param {ReturnType<typeof nearprint>} client
 * @param {Row} row
 */
async function outcome(client, row) {
  const replies = [];
  try {
    if (row.call === "batch") {
      const documents = [{ text: "a" }, { text: "b" }];
      for await (const reply of batch(client, "/v1/query/batch", documents)) replies.push(reply);
      assert.equal(replies.length, 2);
    } else {
      const { data, error } = await client.POST("/v1/query", { body: { text: "a" } });
      if (error !== undefined) throw new NearprintError(error);
      replies.push(data);
    }
  } catch (error) {
    if (!(error instanceof NearprintError)) throw error;
    const { code, status, detail } = error.problem;
    assert.ok(detail.includes(row.url), detail);
    return ["unreachable", "overloaded"].includes(code) ? code : `refused ${status}`;
  }
  const isDuplicate = replies.some((reply) => "duplicate" in reply && reply.duplicate);
  return isDuplicate ? "answered with a duplicate" : "answered";
}

for (const row of rows) {
  test(row.name, { timeout: 60_000 }, async () => {
    const client = nearprint({
      url: row.url,
      timeout: row.timeout_s,
      replyBytesMax: row.reply_bytes_max,
    });
    for (let call = 0; call < row.calls; call += 1) {
      if (call > 0) await sleep(row.pause_s * 1_000);
      assert.equal(await outcome(client, row), row.expected);
    }
  });
}
