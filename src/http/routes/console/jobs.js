// Jobs: removals and searches for groups, how far they are, and how to end them.

import { button, h, note, put, question } from "./dom.js";
import { ago, duration, percent, plural, time, word } from "./format.js";
import { requestPanel } from "./request.js";

const POLL_MS = 2000;

export const title = "Jobs";

export function create(app) {
  let busy = false;
  const jobs = h("ul.jobs");
  const panel = requestPanel(app, () => ({ path: "/v1/jobs" }));
  let rounds = 0;
  const polling = app.poll(POLL_MS, async () => {
    // What has ended does not change: a list at rest is read less often, so that it can be read.
    if (busy || rounds % 5 === 0) await draw();
    rounds += 1;
  });

  async function draw() {
    const reply = await app.api.get("/v1/jobs");
    busy = reply.jobs.some(runs);
    const latest = reply.jobs.toSorted((one, other) => other.begun_at_ms - one.begun_at_ms);
    put(jobs, latest.length === 0 ? h("li", note("No job runs, and none has ended lately.")) : latest.map((job) => h("li", shown(job))));
  }

  const runs = ({ state }) => state === "running" || state === "waiting";

  // A search for groups changes nothing that is stored.
  const mayEnd = ({ kind }) => (kind === "groups" ? app.can("read") : !app.refusesWrites);

  function shown(job) {
    const cancel = runs(job) && mayEnd(job) && button("Cancel", () => end(job));
    return h("article.card",
      h("div.row", h("h2.plain", heading(job)), h("span.grow"), h(`span.pill${job.state === "failed" ? ".warn" : runs(job) ? "" : ".quiet"}`, job.state), cancel),
      h("p.wrap", scope(job)),
      runs(job) && job.progress !== undefined && h("div.progress", h("progress", { max: 1, value: job.progress, "aria-label": "Progress" }), h("span", percent(job.progress))),
      note(outcome(job), ` Begun ${time(job.begun_at_ms)}, ${ago(job.begun_at_ms)}`, job.ended_at_ms ? `; it took ${duration(job.ended_at_ms - job.begun_at_ms)}` : "", ". ", h("code", job.job)),
      job.error && h("p.fault.wrap", job.error));
  }

  async function end(job) {
    const text = job.kind === "purge" ? "What it has removed stays removed; the rest stays stored." : "It begins anew when it is asked for again.";
    if (!(await question("Cancel this job?", text, "Cancel it"))) return;
    await polling.tried(app.api.remove(`/v1/jobs/${job.job}`).then(draw));
  }

  return {
    element: h("div.view", app.heading(title, "Removals and searches for groups."), polling.trouble, jobs, panel.element),
    refresh: panel.refresh,
    show() {
      rounds = 0;
      polling.start();
    },
    hide: polling.stop,
  };
}

const heading = ({ kind, dry_run: counts }) => (kind === "purge" ? counts ? "Count of what would be removed" : "Removal" : kind === "groups" ? "Search for groups" : word(kind));

export function scope(job) {
  const where = job.all_namespaces ? "of all namespaces" : job.namespace ? `of ${job.namespace}` : "of the default namespace";
  const conditions = [job.prefix === undefined ? "" : `whose ids begin with ${job.prefix}`,
    job.stored_before === undefined ? "" : `stored before ${time(job.stored_before * 1000)}`].filter(Boolean);
  if (job.kind === "groups") return `Near-duplicates within ${plural(job.distance ?? 0, "bit")} ${where}, in groups of at least ${job.min_size}.`;
  return `Documents ${[where, ...conditions].join(", ")}.`;
}

function outcome(job) {
  if (job.kind === "groups") return `${plural(job.groups ?? 0, "group")} of ${plural(job.documents ?? 0, "document")}.`;
  return job.dry_run ? `${plural(job.matched ?? 0, "document")} found.` : `${plural(job.removed ?? 0, "document")} removed.`;
}
